"""
A private and fair regression in the plane
==========================================

A network predicts a point of the unit square from features of which half reveal the
group, and the group tells something about the point. A penalty on the sliced
Wasserstein distance keeps the groups' predictions together; noisy gradients keep the
records private. This is a smaller version of the experiments with two outputs of
Rodríguez-Vítores, Lalanne and Loubes (2025); with their 30,000 records and several
random starts it is run by ``examples/benchmarks/fair_networks.py``.
"""

# %%
# The simulated data: the target is uniform on the square, eight features are its
# coordinates with noise, and eight are the group with noise. In 70 % of the records the
# group tells on which side of the diagonal the target lies.

import matplotlib.pyplot as plt
import numpy as np

from fairpriv_sklearn.datasets import make_spurious_regression
from fairpriv_sklearn.neural_network import DPWassersteinMLPRegressor

n_train = 10_000
X, Y, group = make_spurious_regression(n_train, random_state=0)
X_test, Y_test, group_test = make_spurious_regression(20_000, random_state=1)
weights = [0, 0.75, 0.9]
epsilons = [np.inf, 3, 1]


# %%
# Bounds and groups are public arguments. The two clip norms are the defaults.


def fit(weight, epsilon):
    model = DPWassersteinMLPRegressor(
        hidden_layer_sizes=(8,),
        epsilon=epsilon,
        delta=0.1 / n_train,
        fairness_weight=weight,
        n_projections=2,
        max_iter=60,
        learning_rate=0.3,
        bounds=(-1, 2),
        target_bounds=(0, 1),
        groups=[0, 1],
        random_state=0,
    )
    return model.fit(X, Y, sensitive_features=group)


models = {(w, e): fit(w, e) for w in weights for e in epsilons}
print(models[0.75, 1].privacy_)

# %%
# Predictions for the test rows of both groups. From top to bottom the penalty brings
# them together; from left to right the privacy grows.

fig, axes = plt.subplots(
    len(weights), len(epsilons), figsize=(6.5, 6.5), sharex=True, sharey=True
)
for row, weight in zip(axes, weights, strict=True):
    for ax, epsilon in zip(row, epsilons, strict=True):
        points = models[weight, epsilon].predict(X_test[:1500])
        for a, color in ((0, "#0072B2"), (1, "#D55E00")):
            chosen = points[group_test[:1500] == a]
            ax.plot(*chosen.T, ".", color=color, ms=2, alpha=0.5, label=f"group {a}")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if weight == weights[0]:
            ax.set_title("no privacy" if epsilon == np.inf else f"epsilon {epsilon:g}")
    row[0].set_ylabel(f"weight {weight:g}")
axes[0, 0].legend(fontsize="small", markerscale=4)
fig.suptitle("Predicted points")
fig.tight_layout()

# %%
# In numbers: the mean squared error, the squared sliced distance between the groups'
# predictions, and the odds disparities OD_0 and OD_1. For these a prediction is cut at
# the diagonal: OD_y is the difference of the groups' shares above it among the records
# whose target lies below (y = 0) or above (y = 1). All from one random start; means
# over three are in ``examples/benchmarks/fair_networks.txt``.

levels = (np.arange(500) + 0.5) / 500
angles = np.pi * (np.arange(30) + 0.5) / 30
directions = np.stack([np.cos(angles), np.sin(angles)])


def sliced_distance(points):
    quantiles = [
        np.quantile(points[group_test == a] @ directions, levels, axis=0)
        for a in (0, 1)
    ]
    return np.mean((quantiles[0] - quantiles[1]) ** 2)


def numbers(model):
    points = model.predict(X_test)
    above, truth = points.sum(axis=1) > 1, Y_test.sum(axis=1) > 1
    shares = np.array(
        [
            [above[(group_test == a) & (truth == y)].mean() for a in (0, 1)]
            for y in (False, True)
        ]
    )
    error = np.sum((points - Y_test) ** 2, axis=1).mean()
    return np.array([error, sliced_distance(points), *np.ptp(shares, axis=1)])


table = {key: numbers(model) for key, model in models.items()}
print("weight epsilon     MSE      SW2     OD_0   OD_1")
for (weight, epsilon), row in table.items():
    error, distance, *odds = row
    print(f"{weight:6g} {epsilon:7g}  {error:.4f}  {distance:.5f}", end="")
    print(f"  {odds[0]:.3f}  {odds[1]:.3f}")

names = ["squared sliced distance"]
names += [f"odds disparity {side} the diagonal" for side in ("below", "above")]
fig, axes = plt.subplots(1, 3, figsize=(10, 3.3))
for ax, column, name in zip(axes, (1, 2, 3), names, strict=True):
    for epsilon, marker in zip(epsilons, "osv", strict=True):
        curve = np.array([table[weight, epsilon] for weight in weights])
        label = "no privacy" if epsilon == np.inf else f"epsilon {epsilon:g}"
        ax.plot(curve[:, column], curve[:, 0], marker + "-", ms=4, label=label)
    ax.set(xlabel=name, ylabel="mean squared error")
axes[0].legend(fontsize="small")
fig.suptitle("From right to left: weights 0, 0.75, 0.9")
fig.tight_layout()
plt.show()
