"""Linear models: cost of a step and a fit, and quality, beside their peers.

Speed is a ratio in one run, process CPU time, one thread: against one streaming pass
over the features (`X.sum()`), one fit of diffprivlib's logistic regression (0.6.6
needs scikit-learn 1.7 or older) and one of scikit-learn's. Quality is on the simulated
data of the Wasserstein-gradient paper and, if it is there, on Adult (set
FAIRPRIV_SKLEARN_DATA to a folder with the data sets to keep it from being downloaded).
The cost of the distance itself, against POT, is in bench_wasserstein.txt.

Run with ``OMP_NUM_THREADS=1 python examples/benchmarks/bench_linear_model.py``.
"""

import platform
import time
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

from fairpriv_sklearn._training._design import FeatureScaling
from fairpriv_sklearn._training._penalty import GroupPenalty
from fairpriv_sklearn._wall import Rows
from fairpriv_sklearn.datasets import fetch_adult, make_spurious_bias
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.linear_model._queries import (
    FairGradient,
    Geometry,
    LossGradient,
)
from fairpriv_sklearn.transport import wasserstein_1d

DELTA = 0.1 / 30_000
PUBLIC = {"bounds": (-10, 10), "classes": [0, 1]}


def cpu_seconds(function, repeat=5):
    """Return the shortest CPU time of `repeat` calls."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def verdict(value, target, *, at_least=False):
    """Write a number next to its target."""
    met = value >= target if at_least else value <= target
    sign = ">=" if at_least else "<="
    return f"{value:9.4g}  {sign} {target:<8g} {'PASS' if met else 'FAIL'}"


def installed(name):
    """Version of a package, or "not installed"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def diffprivlib_models():
    """Return diffprivlib's models, or None if they cannot be used."""
    try:
        from diffprivlib import models

        models.LogisticRegression(data_norm=1.0).fit(np.eye(4), [0, 1, 0, 1])
        return models
    except Exception as error:
        print(f"diffprivlib cannot be used here: {type(error).__name__}")
        return None


def steps():
    """Cost of one full-batch gradient in passes over the features."""
    print("\nOne full-batch gradient, in read passes over the features")
    rng = np.random.default_rng(0)
    for d, n, targets in ((20, 1_000_000, (6, None)), (100, 400_000, (2.2, 6))):
        X = rng.uniform(-1, 1, size=(n, d))
        y, groups = rng.integers(0, 2, n), rng.integers(0, 2, n)
        ones = np.ones(d)
        scaling = FeatureScaling(-ones, ones, np.sqrt(d / 3), fit_intercept=False)
        rows = Rows(n, x=scaling.design(X).rows, y=y, stratum=groups)
        shape = Geometry(d, 1, scaling.unit, scaling.data_norm, 1.0), n, np.ones(2)
        penalty = GroupPenalty((1, 2), "barycenter", np.ones((1, 2)), n)
        queries = LossGradient(*shape), FairGradient(*shape, penalty=penalty)
        weights = rng.normal(size=(d + 1, 1))
        read = cpu_seconds(X.sum)
        for alpha, query, target in zip((0.0, 0.5), queries, targets, strict=True):
            cost = cpu_seconds(partial(query.of_rows, rows, weights), 3) / read
            name = "loss only" if alpha == 0 else "with penalty"
            mark = "" if target is None else verdict(cost, target)
            print(f"  d = {d:3d}, n = {n:9,d}, {name:12s} {mark or f'{cost:9.4g}'}")
    print(f"  (the pass over d = 100: {read / n * 1e9:.1f} ns per row)")


def fits(X, y, groups, peers):
    """Cost of a fit in fits of the peers."""
    print("\nA fit with the default steps, n = 30,000, d = 16, epsilon = 1")
    ours = {
        "loss only": DPWassersteinLogisticRegression(
            fairness_weight=0, delta=DELTA, **PUBLIC
        ),
        "with penalty": DPWassersteinLogisticRegression(
            fairness_weight=0.75, delta=DELTA, groups=[0, 1], **PUBLIC
        ),
        "output perturbation": DPOutputPerturbationLogisticRegression(**PUBLIC),
    }
    seconds = {
        name: cpu_seconds(partial(_fit, model, X, y, groups))
        for name, model in ours.items()
    }
    plain = cpu_seconds(lambda: LogisticRegression().fit(X, y))
    for name, value in seconds.items():
        print(f"  {name:20s} {value:6.3f} s  {value / plain:6.2f} x scikit-learn")
    if peers is None:
        return
    norm = np.linalg.norm(X, axis=1).max()
    theirs = cpu_seconds(
        lambda: peers.LogisticRegression(epsilon=1.0, data_norm=norm).fit(X, y)
    )
    print(f"  {'diffprivlib':20s} {theirs:6.3f} s")
    for name, target in (("loss only", 5), ("with penalty", 15)):
        ratio = verdict(seconds[name] / theirs, target)
        print(f"  {name:12s} / diffprivlib {ratio}")


def _fit(model, X, y, groups):
    if isinstance(model, DPWassersteinLogisticRegression):
        return model.fit(X, y, sensitive_features=groups if model.groups else None)
    return model.fit(X, y)


def simulated(peers):
    """Accuracy and distance on fresh simulated data, means over five fits."""
    X, y, groups = make_spurious_bias(30_000, random_state=0)
    test = make_spurious_bias(100_000, random_state=1)
    print("\nSimulated data, n = 30,000, p = 0.7, delta = 0.1 / n: accuracy / W2^2")
    print("  weight   " + "".join(f"  epsilon {e:<8g}" for e in (np.inf, 10, 1, 0.1)))
    table = {}
    for weight in (0, 0.25, 0.5, 0.75, 0.9):
        for epsilon in (np.inf, 10, 1, 0.1):
            seeds = range(1 if epsilon == np.inf else 5)
            models = [
                DPWassersteinLogisticRegression(
                    epsilon=epsilon, delta=DELTA, fairness_weight=weight,
                    groups=[0, 1], random_state=seed, **PUBLIC,
                ).fit(X, y, sensitive_features=groups)
                for seed in seeds
            ]  # fmt: skip
            table[weight, epsilon] = np.mean([_quality(m, *test) for m in models], 0)
        row = [table[weight, e] for e in (np.inf, 10, 1, 0.1)]
        print(f"  {weight:<8g} " + "".join(f"   {a:.4f} / {w:.4f}" for a, w in row))
    (accuracy, distance), noiseless = table[0.75, 1], table[0.75, np.inf]
    least = verdict(noiseless[0], 0.765, at_least=True)
    print(f"  noiseless accuracy, weight 0.75            {least}")
    print(f"  accuracy lost at 1  {verdict(noiseless[0] - accuracy, 0.012)}")
    print(f"  change of W2^2      {verdict(abs(distance - noiseless[1]), 0.004)}")
    others = {
        "output perturbation, epsilon 1": DPOutputPerturbationLogisticRegression(
            delta=DELTA, random_state=0, **PUBLIC
        ),
    }
    if peers is not None:
        norm = float(np.linalg.norm(X, axis=1).max())  # read from the data
        others["diffprivlib, epsilon 1"] = peers.LogisticRegression(
            epsilon=1.0, data_norm=norm, random_state=0
        )
    for name, model in others.items():
        accuracy, distance = _quality(model.fit(X, y), *test)
        print(f"  {name:32s} {accuracy:.4f} / {distance:.4f}")
    fits(X, y, groups, peers)


def _quality(model, X, y, groups):
    p = model.predict_proba(X)[:, 1]
    distance = wasserstein_1d(p[groups == 0], p[groups == 1])
    return np.mean((p > 0.5) == y), distance


def calibration():
    """Noise for one guarantee: the paper's bound and ours."""
    print(
        "\nSensitivity of a gradient, n = 30,000, two equal groups, weight 0.75, R = 1"
    )
    n = 30_000
    penalty = GroupPenalty((1, 2), "pairs", np.full((1, 2), n // 2))
    paper = 0.25 * 2 / n + 0.75 * 16 / (n / 2)
    for name, relation, target in (
        ("public group sizes", "replace_one_in_group", 12),
        ("private group sizes", "replace_one", 7),
    ):
        own = 0.25 * 2 / n + 0.75 * penalty.sensitivity(1 / 4, relation)
        # One part in 10^4 pays for the rounding of sums.
        ratio = verdict(round(paper / own, 2), target, at_least=True)
        print(f"  paper / ours, {name:20s} {ratio}")


def agreement(X, y):
    """Without noise and penalty the model is scikit-learn's."""
    print("\nAgreement with scikit-learn without noise, largest difference")
    X = np.clip(X / 10, -1, 1)
    for C in (0.01, 1.0, 100.0):
        own = DPWassersteinLogisticRegression(
            epsilon=np.inf, fairness_weight=0, C=C, bounds=(-1, 1), classes=[0, 1]
        ).fit(X, y)
        theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
        print(f"  C = {C:<6g} {verdict(np.abs(own.coef_ - theirs.coef_).max(), 1e-4)}")


def regression(peers):
    """Median R^2 of linear regression at n = 2000, epsilon = 1."""
    print("\nLinear regression, n = 2,000, epsilon = 1, median R^2 of 30 data sets")
    for d in (3, 10):
        own, plain, theirs = [], [], []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(4000, d))
            y = X @ np.linspace(1, 0, d) + rng.normal(size=4000)
            y, wide = 50 + 5 * y, {"bounds": (-4, 4), "target_bounds": (0, 100)}
            train, test = (X[:2000], y[:2000]), (X[2000:], y[2000:])
            model = DPLinearRegression(**wide, random_state=seed)
            own.append(model.fit(*train).score(*test))
            plain.append(LinearRegression().fit(*train).score(*test))
            if peers is not None:
                model = peers.LinearRegression(
                    epsilon=1.0, bounds_X=(-4.0, 4.0), bounds_y=(0.0, 100.0),
                    random_state=seed,
                )  # fmt: skip
                theirs.append(model.fit(*train).score(*test))
        other = f", diffprivlib {np.median(theirs):.4g}" if theirs else ""
        least = verdict(np.median(own), -0.001, at_least=True)
        print(f"  d = {d:3d} {least}  (least squares {np.median(plain):.3f}{other})")


def adult():
    """Accuracy and parity on Adult, test split, public preprocessing."""
    try:
        data = fetch_adult(as_frame=True, missing="drop")
    except Exception as error:
        print(f"\nAdult is not available: {type(error).__name__}")
        return
    X, y = encode_adult(data), (data.target == ">50K").to_numpy().astype(int)
    groups = data.sensitive_features.squeeze().to_numpy()
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:30_000], order[30_000:]
    print("\nAdult, sex, 30,000 training rows: test accuracy / parity difference")
    plain = LogisticRegression(max_iter=1000).fit(X[train], y[train])
    print(
        f"  scikit-learn, no privacy: {_parity(plain, X[test], y[test], groups[test])}"
    )
    for weight in (0.0, 0.5, 0.75, 0.9):
        cells = []
        for epsilon in (10.0, 1.0, 0.5, 0.1):
            model = DPWassersteinLogisticRegression(
                epsilon=epsilon, fairness_weight=weight, bounds=(-1, 1), data_norm=3.0,
                classes=[0, 1], groups=["Female", "Male"], random_state=0,
            )  # fmt: skip
            model.fit(X[train], y[train], sensitive_features=groups[train])
            quality = _parity(model, X[test], y[test], groups[test])
            cells.append(f"epsilon {epsilon:<4g} {quality}")
        print(f"  weight {weight:<5g}" + "   ".join(cells))


def encode_adult(data):
    """Numbers scaled by the codebook's bounds, indicators of its categories."""
    columns = []
    for name, (low, high) in data.bounds.items():
        values = data.data[name].to_numpy(dtype=float)
        columns.append(np.clip((values - low) / (high - low) * 2 - 1, -1, 1))
    for name, values in data.categories.items():
        columns += [(data.data[name] == v).to_numpy(dtype=float) for v in values]
    return np.column_stack(columns)


def _parity(model, X, y, groups):
    labels = model.predict(X)
    rates = [labels[groups == a].mean() for a in ("Female", "Male")]
    return f"{np.mean(labels == y):.4f} / {abs(rates[0] - rates[1]):.4f}"


def main():
    packages = ("numpy", "scipy", "scikit-learn", "diffprivlib", "POT", "opacus")
    versions = ", ".join(f"{name} {installed(name)}" for name in packages)
    print("OMP_NUM_THREADS=1 python examples/benchmarks/bench_linear_model.py")
    print(f"Python {platform.python_version()}, {versions}")
    warnings.simplefilter("ignore")
    peers = diffprivlib_models()
    steps()
    calibration()
    X, y, _ = make_spurious_bias(30_000, random_state=0)
    agreement(X, y)
    simulated(peers)
    regression(peers)
    adult()


if __name__ == "__main__":
    main()
