"""
Income without a look at sex: in-processing on Adult
====================================================

A private logistic regression on the Adult data, with a penalty on the distance between
men's and women's predicted probabilities. Sex is needed for training only.
"""

# %%
# The data are read from the folder in the environment variable
# ``FAIRPRIV_SKLEARN_DATA``, or downloaded. Preprocessing is public: numbers are scaled
# by the bounds of the codebook, categories become indicators of its lists.

import matplotlib.pyplot as plt
import numpy as np

from fairpriv_sklearn.datasets import fetch_adult, make_census
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.metrics import demographic_parity_difference


def encode(data):
    columns = []
    for name, (low, high) in data.bounds.items():
        values = np.clip(data.data[name].to_numpy(dtype=float), low, high)
        columns.append(2 * (values - low) / (high - low) - 1)
    for name, values in data.categories.items():
        columns += [(data.data[name] == value).to_numpy(float) for value in values]
    return np.column_stack(columns)


try:
    adult = fetch_adult(as_frame=True, missing="drop")
except Exception as error:
    print(f"Simulated people: Adult is not available here ({type(error).__name__}).")
    adult = make_census(45_222, random_state=0)

# %%
# A row of the encoded table has at most 6 numbers in [-1, 1] and 7 ones. Rows longer
# than ``data_norm`` are shortened; 3 is close to the norm of most.

weights, epsilons = [0, 0.5, 0.75, 0.9], [np.inf, 1, 0.5]
points = {}
X, y = encode(adult), np.asarray(adult.target)
sex = np.asarray(adult.sensitive_features).ravel()
order = np.random.default_rng(0).permutation(len(y))
train, test = order[:33_916], order[33_916:]
for epsilon in epsilons:
    for weight in weights:
        model = DPWassersteinLogisticRegression(
            epsilon=epsilon,
            fairness_weight=weight,
            bounds=(-1, 1),
            data_norm=3.0,
            classes=adult.classes,
            groups=adult.groups,
            random_state=0,
        )
        model.fit(X[train], y[train], sensitive_features=sex[train])
        labels = model.predict(X[test])
        gap = demographic_parity_difference(
            y[test], labels, sensitive_features=sex[test]
        )
        points[weight, epsilon] = gap, np.mean(labels != y[test]), model
        print(
            f"epsilon {epsilon:<5g} weight {weight:<5g} "
            f"error {points[weight, epsilon][1]:.4f}  parity gap {gap:.4f}"
        )

# %%
# Error against parity, with the weight growing from right to left.

fig, ax = plt.subplots(figsize=(5.5, 4))
for epsilon, look in zip(epsilons, ("o-", "s--", "^-."), strict=True):
    path = np.array([points[weight, epsilon][:2] for weight in weights])
    label = "no privacy" if epsilon == np.inf else f"epsilon {epsilon:g}"
    ax.plot(path[:, 0], path[:, 1], look, label=label)
ax.set(xlabel="demographic parity difference", ylabel="test error")
ax.set_title("Error against parity, by budget")
ax.legend()
fig.tight_layout()

# %%
# Predicted probabilities of women and men at epsilon 1.

fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True)
bins = np.linspace(0, 1, 41)
for ax, weight in zip(axes, (0, 0.5, 0.9), strict=True):
    p = points[weight, 1][2].predict_proba(X[test])[:, 1]
    for group in adult.groups:
        ax.hist(p[sex[test] == group], bins, density=True, alpha=0.5, label=group)
    ax.set(title=f"weight {weight:g}", xlabel="predicted probability", ylim=(0, 10))
axes[0].legend()
fig.tight_layout()
plt.show()
