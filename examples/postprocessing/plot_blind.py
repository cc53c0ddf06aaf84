"""
Fair without asking for the group
=================================

The repair of :class:`~fairpriv_sklearn.postprocessing.DP2DPClassifier` with
``blind=True`` needs the groups in ``fit`` only. How far that reaches depends on what
the features tell about the group: two simulated populations, and the cost of parity.
"""

# %%
# In the first population one feature tells the group and little else; in the second the
# same feature tells group and outcome.

import matplotlib.pyplot as plt
import numpy as np

from fairpriv_sklearn.inspection import TradeoffDisplay
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.metrics import demographic_parity_difference
from fairpriv_sklearn.postprocessing import DP2DPClassifier


def population(n_rows, shared, seed):
    rng = np.random.default_rng(seed)
    group = (rng.random(n_rows) < 0.4).astype(int)
    X = rng.normal(size=(n_rows, 3))
    X[:, 0] += 2 * (group - 0.5)
    logit = 1.5 * X[:, 1] + 0.8 * (group - 0.5) + shared * X[:, 0]
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-logit))).astype(int)
    return np.clip(X, -4, 4), y, group


# %%
# Everything is private: the classifier, the model of the group, which is the classifier
# taught the groups, and the calibration. A fifth of the calibration's budget pays for
# ``reach``.

curves = {}
for name, shared in (("apart", 0.0), ("entangled", 1.5)):
    X, y, group = population(40_000, shared, seed=0)
    model = DP2DPClassifier(
        DPWassersteinLogisticRegression(
            fairness_weight=0, bounds=(-4, 4), classes=[0, 1], random_state=0
        ),
        blind=True,
        reach_size=0.2,
        classes=[0, 1],
        groups=[0, 1],
        random_state=0,
    ).fit(X, y, sensitive_features=group)
    fresh, truth, groups = population(40_000, shared, seed=1)
    for which, y_pred in (
        ("plain", model.estimator_.predict(fresh)),
        ("blind repair", model.predict(fresh)),
    ):
        gap = demographic_parity_difference(truth, y_pred, sensitive_features=groups)
        print(f"{name}, {which}: error {np.mean(y_pred != truth):.3f}, gap {gap:.3f}")
    print("private interval of the gap:", np.round(model.parity_interval_, 3))
    curves[name] = model.reach(np.linspace(0.4, 0.0, 9))
    print(model.reach([0.1, 0.05]), "\n")

# %%
# Cost of parity: cheap where group and outcome show in different features, dear where
# they show in the same.

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, (name, curve) in zip(axes, curves.items(), strict=True):
    display = TradeoffDisplay(
        epsilon=np.ones(len(curve.error)),
        disparity=curve.violation,
        error=curve.error,
        disparity_name="demographic parity difference",
        note="Read from noisy counts: costs no further privacy.",
    )
    display.plot(ax=ax)
    ax.set_title(name)
plt.show()
