"""
Demographic parity for six classes, over tolerance and bias
===========================================================

Six classes depend on the group as strongly as `p` says. A classifier that knows the
exact class probabilities is shifted by
:class:`~fairpriv_sklearn.postprocessing.DP2DPClassifier` so that each class is chosen
equally often in both groups, up to a tolerance: with and without privacy, the design of
the simulated figure of Say, Denis and Pinot (2025).
"""

# %%
# The features of this classifier are the probabilities themselves, so that all error is
# the cost of parity and of privacy.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from fairpriv_sklearn.datasets import make_biased_mixture
from fairpriv_sklearn.metrics import demographic_parity_difference
from fairpriv_sklearn.postprocessing import DP2DPClassifier, RepairWarning


class Posteriors(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        return X


# At p = 0.5 the groups do not differ, and noise does not tell them apart.
warnings.simplefilter("ignore", RepairWarning)
N_TEST, N_CALIBRATE, N_RUNS = 20_000, 2000, 5
EPSILONS = (np.inf, 1.0, 0.5)


def simulate(p):
    return make_biased_mixture(
        N_TEST + N_RUNS * N_CALIBRATE, 4, p=p, return_posteriors=True, random_state=0
    )[1:]


def accuracy_and_gap(data, epsilon, tolerance):
    """Mean over runs; each calibrates on 2000 rows of its own."""
    y, group, P = data
    test, results = slice(N_TEST), []
    for run in range(N_RUNS):
        start = N_TEST + run * N_CALIBRATE
        rows = slice(start, start + N_CALIBRATE)
        model = DP2DPClassifier(
            FrozenEstimator(Posteriors().fit(P, y)),
            epsilon=epsilon,
            fairness_tolerance=tolerance,
            classes=range(6),
            groups=[-1, 1],
            base_guarantee="public",
            random_state=run,
        ).fit(P[rows], y[rows], sensitive_features=group[rows])
        y_pred = model.predict(P[test], sensitive_features=group[test])
        gap = demographic_parity_difference(
            y[test], y_pred, sensitive_features=group[test]
        )
        results.append([np.mean(y_pred == y[test]), gap])
    return np.mean(results, axis=0)


# %%
# Over the tolerance, at p = 0.75; then over p, at tolerance zero.

tolerances = np.linspace(0, 0.3, 7)
biases = np.linspace(0.5, 0.95, 6)
biased = simulate(0.75)
over_tolerance = {
    epsilon: np.array([accuracy_and_gap(biased, epsilon, t) for t in tolerances])
    for epsilon in EPSILONS
}
populations = [simulate(p) for p in biases]
over_bias = {
    epsilon: np.array([accuracy_and_gap(data, epsilon, 0.0) for data in populations])
    for epsilon in EPSILONS
}


def unrepaired(data):
    y, group, P = (part[:N_TEST] for part in data)
    y_pred = P.argmax(axis=1)
    gap = demographic_parity_difference(y, y_pred, sensitive_features=group)
    return np.mean(y_pred == y), gap


plain_tolerance = np.tile(unrepaired(biased), (len(tolerances), 1))
plain_bias = np.array([unrepaired(data) for data in populations])

for epsilon in EPSILONS:
    accuracy, gap = over_tolerance[epsilon][0]
    print(f"epsilon {epsilon}, tolerance 0: accuracy {accuracy:.3f}, gap {gap:.3f}")

# %%
# With 2000 rows the noise is hardly visible: the curves of all budgets lie together.

looks = [("#0072B2", "-", "o"), ("#D55E00", "--", "s"), ("#009E73", "-.", "^")]
fig, axes = plt.subplots(2, 2, figsize=(8.5, 6), sharey="row", layout="constrained")
panels = [
    (tolerances, over_tolerance, plain_tolerance, "tolerance (p = 0.75)"),
    (biases, over_bias, plain_bias, "p, dependence of class and group"),
]
for column, (x, curves, plain, label) in enumerate(panels):
    for row, name in enumerate(("accuracy", "largest gap between groups")):
        ax = axes[row, column]
        for (color, line, marker), (epsilon, values) in zip(
            looks, curves.items(), strict=True
        ):
            name_of = "no noise" if epsilon == np.inf else f"epsilon = {epsilon:g}"
            ax.plot(x, values[:, row], line, marker=marker, color=color, label=name_of)
        ax.plot(x, plain[:, row], ":", color="0.3", label="no repair")
        ax.set(ylabel=name if column == 0 else None)
        if row == 1:
            ax.set(xlabel=label)
axes[1, 0].plot(tolerances, tolerances, color="0.8", zorder=0, label="gap = tolerance")
axes[1, 0].legend(frameon=False)
fig.suptitle("Six classes, 2000 calibration rows, mean of 5 runs")
plt.show()
