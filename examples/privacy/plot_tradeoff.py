"""
Error against disparity, for several budgets
============================================

How much error does parity cost, and how much of it is the cost of privacy? One curve
for each epsilon, one point for each tolerance.
"""

# %%
# Simulated people. The features reveal the group, and class and group depend on each
# other, so that equal rates cost accuracy even without noise. The classifier inside is
# declared public, to look at the repair alone.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from fairpriv_sklearn.datasets import make_spurious_bias
from fairpriv_sklearn.inspection import TradeoffDisplay
from fairpriv_sklearn.postprocessing import DP2DPClassifier, RepairWarning

X, y, group = make_spurious_bias(n_samples=6000, random_state=0)
public = LogisticRegression().fit(X[:3000], y[:3000])
X, y, group = X[3000:], y[3000:], group[3000:]

# %%
# Every point is another fit, averaged over splits. On one's own data each of them would
# have to be paid for: such a picture belongs to simulated or public data.

model = DP2DPClassifier(
    FrozenEstimator(public),
    base_guarantee="public",
    method="histogram",
    groups=[0, 1],
    classes=[0, 1],
)
with warnings.catch_warnings():
    # At epsilon 0.03 some repairs cannot tell the groups apart, and say so.
    warnings.simplefilter("ignore", RepairWarning)
    display = TradeoffDisplay.from_estimator(
        model,
        X,
        y,
        sensitive_features=group,
        epsilons=[0.03, 0.1, 0.3, np.inf],
        param_name="fairness_tolerance",
        param_values=[0.0, 0.1, 0.2, 0.3],
        n_repeats=20,
        random_state=0,
    )
plt.show()

# %%
# With about two thousand people to calibrate on, the curve for epsilon = 0.3 lies close
# to the one without noise, and that for 0.1 does but for the strictest tolerance. At
# 0.03 the noise hides the groups, and most of the disparity stays. The noise is fresh
# in every run of this script.
