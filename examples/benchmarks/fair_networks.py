"""What the networks were asked for: parity of their outputs, at which error.

The experiments with two outputs and on representations of Rodríguez-Vítores, Lalanne
and Loubes (2025): 30,000 records of `make_spurious_regression`, 20,000 fresh ones to
test, delta = .1 / n; means over three random starts, which matter more than the noise.
Regression: mean squared error, squared sliced distance between the groups' predictions,
and the differences OD_0, OD_1 of the groups' shares above the diagonal, among records
below and above it. Representation: a plain logistic regression on the codes says on
which side of the diagonal a record lies; its accuracy, its disparate impact, and the
squared error of the reconstructed core features. Asked at epsilon 1, weight .75. Run::

    OMP_NUM_THREADS=1 python examples/benchmarks/fair_networks.py
"""

from platform import python_version

import numpy as np
import scipy
import sklearn
from sklearn.linear_model import LogisticRegression

from fairpriv_sklearn.datasets import make_spurious_regression
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPRegressor,
)

N = 30_000
WEIGHTS, EPSILONS, SEEDS = (0, 0.75, 0.9), (np.inf, 1, 0.1), range(3)
X, Y, GROUP = make_spurious_regression(N, random_state=0)
X_TEST, Y_TEST, GROUP_TEST = make_spurious_regression(20_000, random_state=1)
SIDE, SIDE_TEST = Y.sum(axis=1) > 1, Y_TEST.sum(axis=1) > 1
PUBLIC = {"bounds": (-1, 2), "groups": [0, 1], "delta": 0.1 / N, "n_projections": 2}

LEVELS = (np.arange(500) + 0.5) / 500
ANGLES = np.pi * (np.arange(30) + 0.5) / 30
DIRECTIONS = np.stack([np.cos(ANGLES), np.sin(ANGLES)])


def regression(weight, epsilon, seed):
    model = DPWassersteinMLPRegressor(
        hidden_layer_sizes=(8,),
        epsilon=epsilon,
        fairness_weight=weight,
        max_iter=60,
        learning_rate=0.3,
        target_bounds=(0, 1),
        random_state=seed,
        **PUBLIC,
    )
    points = model.fit(X, Y, sensitive_features=GROUP).predict(X_TEST)
    above = points.sum(axis=1) > 1
    shares = [
        [above[(GROUP_TEST == a) & (SIDE_TEST == side)].mean() for a in (0, 1)]
        for side in (False, True)
    ]
    quantiles = [
        np.quantile(points[GROUP_TEST == a] @ DIRECTIONS, LEVELS, axis=0)
        for a in (0, 1)
    ]
    error = np.sum((points - Y_TEST) ** 2, axis=1).mean()
    distance = np.mean((quantiles[0] - quantiles[1]) ** 2)
    return [error, distance, *np.ptp(shares, axis=1)]


def representation(weight, epsilon, seed):
    encoder = DPWassersteinAutoencoder(
        n_components=2,
        epsilon=epsilon,
        fairness_weight=weight,
        clip_norm=1.0,
        projection_clip_norm=0.5,
        learning_rate=0.25,
        max_iter=80,
        random_state=seed,
        **PUBLIC,
    )
    encoder.fit(X, sensitive_features=GROUP)
    codes = encoder.transform(X_TEST)
    model = LogisticRegression(C=1e6).fit(encoder.transform(X), SIDE)
    positive = model.predict(codes)
    rates = [positive[GROUP_TEST == a].mean() for a in (0, 1)]
    core = np.mean((encoder.inverse_transform(codes) - X_TEST)[:, :8] ** 2)
    impact = min(rates) / max(*rates, 1e-12)
    return [np.mean(positive == SIDE_TEST), impact, core]


def study(title, names, measure):
    print(f"\n{title}\nweight epsilon " + "".join(f"{name:>19}" for name in names))
    table = {}
    for weight in WEIGHTS:
        for epsilon in EPSILONS:
            row = np.mean([measure(weight, epsilon, seed) for seed in SEEDS], axis=0)
            table[weight, epsilon] = row
            print(f"{weight:6g} {epsilon:7g} " + "".join(f"{x:19.5f}" for x in row))
    return table


def verdict(passed, what):
    print("met:   " if passed else "missed:", what)


def near(names, private, free):
    for name, a, b in zip(names, private, free, strict=True):
        close = abs(a / b - 1) <= 0.1
        verdict(close, f"{name} {a:.4f}, without noise {b:.4f}: within 10 %")


if __name__ == "__main__":
    print(
        "OMP_NUM_THREADS=1 python examples/benchmarks/fair_networks.py\n"
        f"Python {python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )
    names = ("MSE", "squared distance", "OD_0", "OD_1")
    table = study("Regression in the plane", names, regression)
    plain, fair, free = table[0, 1], table[0.75, 1], table[0.75, np.inf]
    cut, cost = plain[1] / fair[1], fair[0] / plain[0]
    verdict(cut >= 5, f"squared distance cut {cut:.1f} times, asked: 5")
    verdict(cost <= 1.5, f"MSE {cost:.2f} times that of weight 0, allowed: 1.5")
    near(names, fair, free)

    names = ("accuracy", "disparate impact", "core error")
    table = study("Representation", names, representation)
    plain, fair, free = table[0, 1], table[0.75, 1], table[0.75, np.inf]
    low, high = plain[1], fair[1]
    what = f"disparate impact {low:.2f} (asked: < 0.5) to {high:.2f} (asked: > 0.8)"
    verdict(low < 0.5 and high > 0.8, what)
    cost = fair[2] / plain[2]
    verdict(cost <= 1.3, f"core error {cost:.2f} times that of weight 0, allowed: 1.3")
    near(names, fair, free)
