"""Share of the intervals of linear models, and of bands of curves, that cover.

A new table and new noise for every fit, and what the population says is known: labels
are drawn by the link of the model's own loss, targets are linear with normal noise.
Coefficients of public bounds; curves of the table encoder with public ranges, centred,
at the points that the display draws. What a curve is in the whole population is taken
from the encoder's own columns on 20,000 further rows: least squares of the scores
without noise. ("Against what was simulated": the curve itself, which few
columns cannot always draw: nothing in the table says what they leave away.) Nominal
level .95; standard errors over fits. What is supposed of hidden curvature
(`_preconditioned.py`) and of searches was chosen on seeds below 30,000; those reported
start at 40,000.

    OMP_NUM_THREADS=1 python examples/benchmarks/coverage.py [fits] [of curves] [kind]
"""

import platform
import sys

import numpy as np
import pandas as pd
import sklearn
from scipy.stats import norm
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.inspection import AdditiveShapesDisplay
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.linear_model._bounded_slope import linked
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

SETTINGS = [(2000, 5, 1.0), (10_000, 5, 1.0), (10_000, 5, 5.0), (10_000, 20, 1.0)]
HARD = [(10_000, 5, 0.1), (5000, 60, 1.0)]
CURVES = {
    "wave": lambda x: 2 * np.sin(3 * x),
    "line": lambda x: 1.5 * x,
    "bow": lambda x: 1 - 2 * x**2,
    "nothing": lambda x: 0 * x,
}
LEVELS = {"x": -0.5, "y": 0.5, "z": 1.0}
CODEBOOK = {**{name: [-1, 1] for name in CURVES}, "job": list(LEVELS)}
N_POPULATION, FIRST = 20_000, 40_000
SCALE = {"classifier": 1.0, "regressor": 0.1}


def targets(scores, kind, rng):
    if kind == "classifier":
        return (rng.random(len(scores)) < linked(scores)).astype(int)
    return np.clip(0.1 * scores + 0.1 * rng.normal(size=len(scores)), -1, 1)


def model(kind, seed, **params):
    if kind == "classifier":
        return DPWassersteinLogisticRegression(
            classes=[0, 1], fairness_weight=0, random_state=seed, **params
        )
    return DPLinearRegression(target_bounds=(-1, 1), random_state=seed, **params)


def coefficients(kind, n, d, epsilon, seed):
    """Whether each interval covers; None where the model gives none."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) * 0.7**0.5 + rng.normal(size=(n, 1)) * 0.3**0.5
    X, truth = np.tanh(0.7 * Z), np.linspace(-1, 1, d) * 4 / d**0.5
    y = targets(X @ truth - 0.5, kind, rng)
    fitted = model(kind, seed, epsilon=epsilon, bounds=(-1, 1), data_norm=d**0.5)
    if fitted.fit(X, y).coef_covariance_ is None:
        return None
    low, high = fitted.coef_interval().reshape(2, -1)
    return (low <= SCALE[kind] * truth) & (SCALE[kind] * truth <= high)


class Curves(AdditiveShapesDisplay):
    """The curves without a picture."""

    def plot(self, **kwargs):
        return self


def table(n, rng):
    X = pd.DataFrame({name: rng.uniform(-1, 1, n) for name in CURVES})
    X["job"] = rng.choice(list(LEVELS), n, p=[0.5, 0.3, 0.2])
    scores = sum(f(X[name].to_numpy()) for name, f in CURVES.items())
    return X, scores + X["job"].map(LEVELS).to_numpy() - 0.5


def in_population(encoder, rng):
    """Coefficients of the encoder's columns, by least squares without noise."""
    X, scores = table(N_POPULATION, rng)
    Z = np.asarray(encoder.transform(X))
    Z -= Z.mean(axis=0)
    # Encoded rows are rounded: directions of that alone are none.
    moments = np.linalg.pinv(Z.T @ Z, rcond=1e-6, hermitian=True)
    return moments @ (Z.T @ (scores - scores.mean()))


def bands(kind, n, epsilon, seed):
    """Shares of the points of each curve that its band covers, of both truths."""
    rng = np.random.default_rng(seed)
    X, scores = table(n, rng)
    y = targets(scores, kind, rng)
    encoder = DPTableEncoder(CODEBOOK, random_state=seed)
    pipeline = with_budget(make_pipeline(encoder, model(kind, seed)), epsilon)
    display = Curves.from_estimator(pipeline.fit(X, y))
    if display.errors is None:
        return None
    encoder, shares = pipeline[0], []
    coef = in_population(encoder, rng)
    for name, at, curve, error in zip(
        display.names, display.values, display.contributions, display.errors,
        strict=True,
    ):  # fmt: skip
        if name in CURVES:
            truth, told = CURVES[name](np.asarray(at, dtype=float)), slice(None)
        else:
            told = [i for i, label in enumerate(at) if label in LEVELS]
            truth = np.array([LEVELS[at[i]] for i in told])
        rows = encoder.shape_points(name, len(at))[1]
        found = rows @ coef[encoder.feature_slices_[name]]
        both = []
        for one in (found[told], truth):
            off = curve[told] - SCALE[kind] * one
            off = np.abs(off - off.mean()) / error[told]
            both.append(np.mean(off <= norm.ppf(0.975)))
        shares.append(both)
    return np.transpose(shares)


def report(name, found):
    """Coverage by fit, its standard error over fits, and the least column's."""
    found = [one for one in found if one is not None]
    if len(found) < 2:
        print(
            f"{name:44s} {f'given in {len(found)}' if found else 'none given'}",
            flush=True,
        )
        return
    by_fit = np.mean(found, axis=1)
    error = by_fit.std(ddof=1) / len(found) ** 0.5
    least = np.mean(found, axis=0).min()
    print(
        f"{name:44s} {len(found):5d} {by_fit.mean():.3f} +- {error:.3f}  {least:.2f}",
        flush=True,
    )


def main(n_fits=1000, n_curves=300, *kinds):
    print(
        f"OMP_NUM_THREADS=1 python examples/benchmarks/coverage.py {n_fits} {n_curves} "
        + " ".join(kinds)
    )
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )
    for kind in kinds or SCALE:
        print(f"\n{kind:45s} fits  covered       least")
        for n, d, epsilon in (*SETTINGS, *HARD):
            seeds = range(FIRST, FIRST + n_fits)
            found = [coefficients(kind, n, d, epsilon, seed) for seed in seeds]
            report(f"{n} rows, {d} coefficients, epsilon {epsilon}", found)
        for n, epsilon in ((5000, 1.0), (20_000, 1.0), (20_000, 0.2)):
            seeds = range(FIRST, FIRST + n_curves)
            found = [bands(kind, n, epsilon, seed) for seed in seeds]
            found = [one for one in found if one is not None]
            report(f"{n} rows, 5 curves, epsilon {epsilon}", [o[0] for o in found])
            report("    against what was simulated", [one[1] for one in found])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
