"""
Private, fair regression by post-processing
===========================================

A regressor predicts differently for three groups of people. Its predictions are sent
to one distribution for all groups, from counts that are released with differential
privacy.
"""

# %%
# Simulated people: the last feature tells the group, as postcodes often do.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from fairpriv_sklearn.datasets import make_biased_regression
from fairpriv_sklearn.inspection import GroupDistributionDisplay
from fairpriv_sklearn.metrics import ks_parity_difference
from fairpriv_sklearn.postprocessing import DPBarycenterRegressor

X, y, group = make_biased_regression(
    n_samples=12_000, shifts=(-1.0, 0.0, 1.0), random_state=0
)
X = np.column_stack([X, group])
X_train, X_test, y_train, y_test, group_train, group_test = train_test_split(
    X, y, group, random_state=0
)

# %%
# Groups and bounds are public: they are arguments, and nothing about them is learnt
# from the data. The wrapped regressor is not private here, and the guarantee says so;
# declare what it was trained on with ``base_guarantee``, or wrap a private regressor.

model = DPBarycenterRegressor(
    Ridge(), epsilon=1.0, target_bounds=(-6, 6), groups=[0, 1, 2], random_state=0
)
model.fit(X_train, y_train, sensitive_features=group_train)
print(model.privacy_)

# %%
# The predictions of the test rows, before and after.

plain = model.estimator_.predict(X_test)
fair = model.predict(X_test, sensitive_features=group_test)
for name, y_pred in (("plain", plain), ("fair", fair)):
    gap = ks_parity_difference(y_test, y_pred, sensitive_features=group_test)
    error = np.sqrt(np.mean((y_pred - y_test) ** 2))
    print(f"{name:6s} RMSE {error:.3f}  largest KS distance {gap:.3f}")

GroupDistributionDisplay.from_predictions(plain, fair, sensitive_features=group_test)

# %%
# One release serves every tolerance: the whole trade-off costs no more privacy.

tolerances = np.linspace(0, 0.5, 11)
errors, gaps = [], []
for step in model.path(tolerances):
    y_pred = step.predict(X_test, sensitive_features=group_test)
    errors.append(np.sqrt(np.mean((y_pred - y_test) ** 2)))
    gaps.append(ks_parity_difference(y_test, y_pred, sensitive_features=group_test))

fig, ax = plt.subplots(figsize=(5, 3.5))
ax.plot(gaps, errors, "o-", color="#0072B2")
ax.set(
    xlabel="largest KS distance between groups (test rows)",
    ylabel="RMSE (test rows)",
    title="All tolerances from one release, epsilon = 1",
)
fig.tight_layout()
plt.show()
