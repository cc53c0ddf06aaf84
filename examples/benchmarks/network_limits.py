"""Networks at both ends of a budget: few records, and next to no noise.

Constants: R2 of regressors where the number of records times the Gaussian-DP parameter
is taken to be too small for gradients, in bounds of the target and in three and ten
times as wide ones about the same centre, by training all the same and by the constant
that is answered; simulated targets of which features tell .8 or nothing, then numbers
of public tables in round bounds, 200 rows at epsilon 1. Mean and standard error of
twenty fits.

Autoencoders: error of one component relative to the variance of the columns, and of
their mean alone, released with all of the budget; 120 simulated tables.

Curvature: R2 of 4,000 rows with a log-normal target, with steps that released gradients
hold to what comes to rest, and without. Run::

    OMP_NUM_THREADS=1 python examples/benchmarks/network_limits.py [PART ...]
"""

import itertools
import platform
import sys
import warnings
from unittest import mock

import numpy as np
import sklearn
from wide_targets import numbers, rounded

from fairpriv_sklearn._training._target import TargetCounts
from fairpriv_sklearn.accounting import calibrate_gaussian
from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_communities_crime,
    fetch_credit_default,
    fetch_law_school,
    fetch_parkinsons,
)
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPRegressor,
    _base,
)

DELTA = 1e-5
FACTORS = 1, 3, 10
SEEDS = range(900, 920)
TABLES = [
    (fetch_law_school, None),
    (fetch_communities_crime, None),
    (fetch_parkinsons, None),
    (fetch_credit_default, "LIMIT_BAL"),
    (fetch_credit_default, "BILL_AMT1"),
    (fetch_adult, "hours-per-week"),
]


class Tells(TargetCounts):
    """Counts that are always expected to tell a range."""

    def tell(self, signal):
        return True


def both_ways(X, y, n, ends, seed, epsilon=1.0):
    """R2 of a network that trains all the same, and of what is answered."""
    model = DPWassersteinMLPRegressor(
        fairness_weight=0,
        epsilon=epsilon,
        delta=DELTA,
        bounds=(X.min(axis=0), np.maximum(X.max(axis=0), X.min(axis=0) + 1)),
        target_bounds=ends,
        random_state=seed,
    )
    with mock.patch.object(_base, "TargetCounts", Tells):
        trained = model.fit(X[:n], y[:n]).score(X[n:], y[n:])
    return trained, model.fit(X[:n], y[:n]).score(X[n:], y[n:])


def wider(low, high, factor):
    middle, half = (low + high) / 2, (high - low) / 2
    return middle - factor * half, middle + factor * half


def shown(name, runs):
    """Means of pairs, one for each width of the bounds."""
    print(f"{name:34}", end="")
    for pairs in runs:
        means, errors = np.mean(pairs, axis=0), np.std(pairs, axis=0, ddof=1)
        for mean, error in zip(means, errors / len(pairs) ** 0.5, strict=True):
            print(f"{mean:>8.3f} ({error:.3f})", end="")
    print(flush=True)


def drawn(kind, n, d, rng):
    X = rng.uniform(-1, 1, (n, d))
    score = X @ rng.normal(size=d)
    score /= score.std()
    if kind == "normal":
        return X, 0.9 * score + 0.44 * rng.normal(size=n)
    if kind == "nothing to learn":
        return X, rng.normal(size=n)
    return X, np.exp(0.7 * score + 0.3 * rng.normal(size=n))


def constants():
    mu = calibrate_gaussian(1.0, DELTA)
    widths = "".join(f"{f'trained, {f} x':>16}{'answered':>16}" for f in FACTORS)
    print(f"\n{'constants: columns, records x mu':34}{widths}")
    kinds = "normal", "log-normal", "nothing to learn"
    for kind, d, signal in itertools.product(kinds, (4, 12), (40, 60, 74)):
        n, runs = round(signal / mu), []
        for factor in FACTORS:
            pairs = []
            for seed in SEEDS:
                rng = np.random.default_rng([seed, signal, d])
                X, y = drawn(kind, n + 8000, d, rng)
                ends = wider(y[n:].min(), y[n:].max(), factor)
                pairs.append(both_ways(X, y, n, ends, seed))
            runs.append(pairs)
        shown(f"{kind:24}{d:>3}{signal:>5}", runs)
    for fetch, target in TABLES:
        X, y = numbers(fetch, target)
        ends = rounded(np.array([min(y.min(), 0.0), max(y.max(), 0.0)]))
        runs = []
        for factor in FACTORS:
            pairs = []
            for seed in SEEDS:
                order = np.random.default_rng(seed).permutation(len(y))[:8200]
                case = X[order], y[order], 200, wider(*ends, factor)
                pairs.append(both_ways(*case, seed))
            runs.append(pairs)
        shown(f"{fetch.__name__[6:]} {target or ''}", runs)


def autoencoder(n, d, epsilon, factor, seed):
    """Errors of an autoencoder and of a private mean, in parts of the variance."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.normal(size=(n + 4000, 2)) @ rng.normal(size=(2, d))
    X = np.clip(0.25 * X + 0.1 * rng.normal(size=X.shape), -1, 1)
    fresh = X[n:]
    model = DPWassersteinAutoencoder(
        n_components=1,
        fairness_weight=0,
        epsilon=epsilon,
        delta=DELTA,
        bounds=(-factor, factor),
        random_state=seed,
    ).fit(X[:n])
    answers = model.inverse_transform(model.transform(fresh))
    noise = 2 * factor * d**0.5 / n / calibrate_gaussian(epsilon, DELTA)
    mean = np.clip(X[:n].mean(axis=0) + noise * rng.normal(size=d), -factor, factor)
    variance = fresh.var(axis=0).sum()
    return [np.sum((a - fresh) ** 2) / len(fresh) / variance for a in (answers, mean)]


def autoencoders():
    print("\nautoencoders, error in parts of the variance")
    print(f"{'rows':>6}{'columns':>9}{'epsilon':>9}{'bounds':>8}", end="")
    print(f"{'components':>12}{'mean':>9}")
    cases = list(
        itertools.product(
            (100, 300, 1000, 2500, 6000), (2, 4, 8, 16), (0.1, 1.0, 3.0), (1, 10)
        )
    )
    excess = []
    for i, (n, d, epsilon, factor) in enumerate(cases):
        own, mean = autoencoder(n, d, epsilon, factor, 900 + i)
        print(f"{n:>6}{d:>9}{epsilon:>9}{factor:>6} x{own:>12.3f}{mean:>9.3f}")
        excess.append(own - mean)
    worse = sum(more > 0 for more in excess)
    print(f"of {len(cases)} worse than the mean: {worse}, by {max(excess):.3f} at most")


def free(model, steepest):
    return 1.0


def curvature():
    print(f"\n{'curvature, R2 of four seeds':30}{'held':>28}{'not held':>28}")
    held = _base.FairNetworkMixin._steady
    for epsilon in (10.0, 30.0, 100.0, 1000.0, 10_000.0):
        found = []
        for steady in (held, free):
            for seed in range(900, 904):
                rng = np.random.default_rng(seed)
                X = np.hstack([np.ones((8000, 1)), rng.normal(size=(8000, 3)) / 4])
                y = np.exp(X[:, 1] + rng.normal(size=len(X)) / 2)
                model = DPWassersteinMLPRegressor(
                    fairness_weight=0,
                    epsilon=epsilon,
                    data_norm=1.5,
                    target_bounds=(0, 100),
                    random_state=seed,
                )
                with mock.patch.object(_base.FairNetworkMixin, "_steady", steady):
                    model.fit(X[:4000], y[:4000])
                found.append(model.score(X[4000:], y[4000:]))
        print(f"epsilon {epsilon:<22g}" + "".join(f"{r2:>7.3f}" for r2 in found))


def main():
    warnings.simplefilter("ignore")
    print("OMP_NUM_THREADS=1 python examples/benchmarks/network_limits.py")
    print(
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}"
    )
    parts = {f.__name__: f for f in (constants, autoencoders, curvature)}
    for part in sys.argv[1:] or parts:
        parts[part]()


if __name__ == "__main__":
    main()
