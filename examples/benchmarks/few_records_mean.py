"""Tables of few records whose features tell linear regression nothing: how far off?

Number of records times the Gaussian-DP parameter between 75 and 125: below 80 a mean
alone is told, from there on features are tried first. Mean squared error of the
constant that `DPLinearRegression` answers, as a share of the variance of the
target, in forty fits: simulated targets in bounds of -1 to 1 at epsilon 1, against the
mean of the same records; then numbers of public tables in their public bounds at
epsilon 0.3, drawn anew for each fit, against the mean of the whole table. What the
counts of the range take was chosen on simulated targets.

Run with ``OMP_NUM_THREADS=1 python examples/benchmarks/few_records_mean.py``;
FAIRPRIV_SKLEARN_DATA names a folder with the data.
"""

import math

import numpy as np

from fairpriv_sklearn.accounting import calibrate_gaussian
from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_communities_crime,
    fetch_credit_default,
    fetch_law_school,
    fetch_parkinsons,
)
from fairpriv_sklearn.linear_model import DPLinearRegression

SEEDS = range(7000, 7040)
SIGNALS = 74, 76, 90, 110, 124
SIMULATED = {
    "two values": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "exponential": lambda rng, n: rng.exponential(0.6, n) - 1,
    "log-normal": lambda rng, n: 0.1 * np.exp(rng.normal(size=n)) - 1,
    "four fifths zero": lambda rng, n: (rng.random(n) < 0.2) * rng.exponential(0.5, n),
    "normal, bounds of 2 deviations": lambda rng, n: rng.normal(0, 1 / 2, n),
    "normal, 10 deviations": lambda rng, n: rng.normal(0.3, 1 / 10, n),
    "normal, 100 deviations": lambda rng, n: rng.normal(-0.4, 1 / 100, n),
}


def off(y, bounds, epsilon, mean, variance, seed):
    """Squared error of a private mean, as a share of the variance."""
    model = DPLinearRegression(
        epsilon=epsilon, bounds=(-1, 1), target_bounds=bounds, random_state=seed
    ).fit(np.zeros((len(y), 1)), y)
    return (model.intercept_ - mean) ** 2 / variance


def simulated(draw, n):
    for seed in SEEDS:
        y = np.clip(draw(np.random.default_rng(seed), n), -1, 1)
        yield off(y, (-1, 1), 1.0, y.mean(), y.var(), seed)


def targets():
    """Names, numbers and public bounds of columns and targets."""
    for name, fetch in (
        ("Law School", fetch_law_school),
        ("Communities", fetch_communities_crime),
        ("Parkinsons", fetch_parkinsons),
    ):
        data = fetch(missing="drop")
        yield name, np.array(data.target, dtype=float), data.target_bounds
    for name, fetch in (("Adult", fetch_adult), ("Credit", fetch_credit_default)):
        data = fetch(missing="drop")
        for j, (column, bounds) in enumerate(list(data.bounds.items())[:9]):
            yield f"{name}, {column}", np.array(data.data[:, j], dtype=float), bounds


def drawn(y, bounds, n):
    y = np.clip(y, *bounds)
    for seed in SEEDS:
        rows = np.random.default_rng(seed).permutation(len(y))[:n]
        yield off(y[rows], tuple(map(float, bounds)), 0.3, y.mean(), y.var(), seed)


def main():
    print(f"{'simulated, n mu':34}" + "".join(f"{s:>8}" for s in SIGNALS))
    mu = calibrate_gaussian(1.0, 1e-5)
    for name, draw in SIMULATED.items():
        found = [np.mean([*simulated(draw, math.ceil(s / mu))]) for s in SIGNALS]
        print(f"{name:34}" + "".join(f"{x:8.3f}" for x in found), flush=True)
    print(f"\n{'public tables, rows':34}{850:>8}{1000:>8}{1350:>8}")
    for name, y, bounds in targets():
        found = [np.mean([*drawn(y, bounds, n)]) for n in (850, 1000, 1350)]
        print(f"{name:34}" + "".join(f"{x:8.3f}" for x in found), flush=True)


if __name__ == "__main__":
    main()
