"""
A private and fair representation
=================================

An autoencoder compresses sixteen features into two numbers. Eight features tell on
which side of a line a target lies, eight tell the group. A penalty on the sliced
Wasserstein distance between the groups' codes makes the code forget the group, so that
models trained on it, by people who know nothing of fairness or privacy, inherit both.
This is a smaller version of the experiments on representations of Rodríguez-Vítores,
Lalanne and Loubes (2025); with their 30,000 records and several random starts it is run
by ``examples/benchmarks/fair_networks.py``.
"""

# %%
# The simulated data: see
# :func:`~fairpriv_sklearn.datasets.make_spurious_regression`.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from fairpriv_sklearn.datasets import make_spurious_regression
from fairpriv_sklearn.neural_network import DPWassersteinAutoencoder

n_train = 10_000
X, Y, group = make_spurious_regression(n_train, random_state=0)
X_test, Y_test, group_test = make_spurious_regression(20_000, random_state=1)
y, y_test = Y.sum(axis=1) > 1, Y_test.sum(axis=1) > 1
weights = [0, 0.75, 0.9]
epsilons = [np.inf, 3, 1]


# %%
# Group labels are needed for the fit only. The decoder never sees the penalty, whose
# gradients are the expensive ones, and gets less noise.


def fit(weight, epsilon):
    encoder = DPWassersteinAutoencoder(
        n_components=2,
        epsilon=epsilon,
        delta=0.1 / n_train,
        fairness_weight=weight,
        n_projections=2,
        clip_norm=1.0,
        projection_clip_norm=0.5,
        learning_rate=0.25,
        max_iter=80,
        bounds=(-1, 2),
        groups=[0, 1],
        random_state=0,
    )
    return encoder.fit(X, sensitive_features=group)


encoders = {(w, e): fit(w, e) for w in weights for e in epsilons}
print(encoders[0.75, 1].privacy_)

# %%
# The codes of the test rows. Without a penalty the two groups are two clouds.

fig, axes = plt.subplots(len(weights), len(epsilons), figsize=(6.5, 6.5), sharex=True)
for row, weight in zip(axes, weights, strict=True):
    for ax, epsilon in zip(row, epsilons, strict=True):
        codes = encoders[weight, epsilon].transform(X_test[:1500])
        for a, color in ((0, "#0072B2"), (1, "#D55E00")):
            chosen = codes[group_test[:1500] == a]
            ax.plot(*chosen.T, ".", color=color, ms=2, alpha=0.5, label=f"group {a}")
        ax.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal")
        if weight == weights[0]:
            ax.set_title("no privacy" if epsilon == np.inf else f"epsilon {epsilon:g}")
    row[0].set_ylabel(f"weight {weight:g}")
axes[0, 0].legend(fontsize="small", markerscale=4)
fig.suptitle("Codes")
fig.tight_layout()

# %%
# A plain logistic regression on the codes predicts the side of the line. Disparate
# impact is the smaller of the ratio of the groups' rates of positive predictions and
# its inverse; 1 is parity. "core" is the mean squared error of the reconstructed core
# features. (The logistic regression itself is not private here; a private one would
# take its own budget.) All from one random start, which matters more than the noise
# does; means over three are in ``examples/benchmarks/fair_networks.txt``.


def numbers(encoder):
    model = LogisticRegression(C=1e6).fit(encoder.transform(X), y)
    codes = encoder.transform(X_test)
    positive = model.predict(codes)
    rates = [positive[group_test == a].mean() for a in (0, 1)]
    impact = min(rates) / max(*rates, 1e-12)
    decoded = encoder.inverse_transform(codes)
    core = np.mean((decoded - X_test)[:, :8] ** 2)
    return np.array([np.mean(positive == y_test), impact, core])


table = {key: numbers(encoder) for key, encoder in encoders.items()}
print("weight epsilon  accuracy  disparate impact  core")
for (weight, epsilon), row in table.items():
    print(f"{weight:6g} {epsilon:7g}  {row[0]:8.3f}  {row[1]:16.3f}  {row[2]:.4f}")

fig, axes = plt.subplots(1, 2, figsize=(8, 3.5))
for epsilon, marker in zip(epsilons, "osv", strict=True):
    curve = np.array([table[weight, epsilon] for weight in weights])
    label = "no privacy" if epsilon == np.inf else f"epsilon {epsilon:g}"
    axes[0].plot(curve[:, 1], curve[:, 0], marker + "-", ms=4, label=label)
    axes[1].plot(weights, curve[:, 2], marker + "-", ms=4, label=label)
axes[0].set(xlabel="disparate impact", ylabel="accuracy", title="logistic regression")
axes[1].set(xlabel="fairness weight", title="error of the core features")
axes[0].axvline(0.8, color="grey", lw=0.8)
axes[0].legend(fontsize="small")
fig.tight_layout()
plt.show()
