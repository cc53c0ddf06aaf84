"""
Equalized odds by a randomised rule
===================================

A score separates the classes well in one group and badly in the other. No threshold per
group gives both the same error rates, but thresholds drawn at random do: the private
cell counts of :class:`~fairpriv_sklearn.postprocessing.DP2DPClassifier` show where the
groups' ROC curves have a common point.
"""

# %%
# Scores of two groups, exact probabilities, of different quality.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_curve

from fairpriv_sklearn.metrics import equalized_odds_difference
from fairpriv_sklearn.postprocessing import DP2DPClassifier

rng = np.random.default_rng(0)
n_rows = 30_000
group = rng.integers(2, size=n_rows)
base_rate = np.where(group == 1, 0.3, 0.5)
quality = np.where(group == 1, 0.9, 1.8)
y = (rng.random(n_rows) < base_rate).astype(int)
x = (y - 0.5) * quality + rng.normal(size=n_rows)
p = 1 / (1 + np.exp(-quality * x) * (1 - base_rate) / base_rate)
P = np.column_stack([1 - p, p])
fit, test = slice(10_000), slice(10_000, None)


class Posteriors(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        return X


# %%
# ``method="gradient"`` finds offsets, whose deterministic rule narrows the gap. Its
# counts of decisions say for sure that the groups differ still, so some decisions are
# drawn, and a warning says so. ``method="histogram"`` mixes thresholds by its counts of
# scores. Both are private, epsilon = 1, and close the gap up to sampling error.

base = FrozenEstimator(Posteriors().fit(P, y))
predictions = {"one threshold, 1/2": P[test].argmax(axis=1)}
models = {}
for name, method in (("drawn", "gradient"), ("randomised", "histogram")):
    models[name] = DP2DPClassifier(
        base,
        constraint="equalized_odds",
        method=method,
        max_iter=60,
        classes=[0, 1],
        groups=[0, 1],
        base_guarantee="public",
        random_state=0,
    ).fit(P[fit], y[fit], sensitive_features=group[fit])
    predictions[name] = models[name].predict(P[test], sensitive_features=group[test])

offsets = models["drawn"].offsets_[group[test]]
shifted = P[test] - np.einsum("ny,nyk->nk", P[test], offsets)
predictions["offsets alone"] = shifted.argmax(axis=1)

for name, y_pred in predictions.items():
    gap = equalized_odds_difference(y[test], y_pred, sensitive_features=group[test])
    print(f"{name:20} accuracy {np.mean(y_pred == y[test]):.3f}, gap {gap:.3f}")

# %%
# Left: error rates of each group. Right: the chance of the second class, by score. The
# group with the worse curve decides between two thresholds at most, the other gives up
# some of its accuracy by chance.

colors = ["#0072B2", "#D55E00"]
markers = {
    "one threshold, 1/2": "o",
    "offsets alone": "^",
    "drawn": "s",
    "randomised": "*",
}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for s, color, line in zip((0, 1), colors, ("-", "--"), strict=True):
    mine = group[test] == s
    left.plot(*roc_curve(y[test][mine], P[test][mine, 1])[:2], line, color=color)
    for name, y_pred in predictions.items():
        rates = [y_pred[mine & (y[test] == truth)].mean() for truth in (0, 1)]
        size = 15 if name == "randomised" else 7
        left.plot(*rates, markers[name], color=color, markersize=size, mfc="none",
                  mew=1.6, label=f"group {s}, {name}")  # fmt: skip
    chances = models["randomised"].rule_[s, :, 1]
    edges = np.linspace(0, 1, len(chances) + 1)
    right.stairs(chances, edges, color=color, linestyle=line, label=f"group {s}")
left.set(xlabel="false positive rate", ylabel="true positive rate", title="Error rates")
left.legend(frameon=False, fontsize=9)
right.set(xlabel="score", ylabel="chance of class 1", title="The randomised rule")
right.legend(frameon=False)
plt.show()
