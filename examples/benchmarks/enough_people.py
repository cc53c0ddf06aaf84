"""How many people are enough? The figures of the start page and of the command line.

Simulated tables only. Five questions, each against the number of people times epsilon:

1. a private model: how much does it explain of what a model without privacy does?
2. a repair: how much of the gap between two groups remains, by the people in each?
3. columns of which nothing is declared: the same question, encoder included.
4. the range of a target and the groups, learnt by the command line's encoder of these:
   from how many rows, in units of the noise of one count, are they facts and not noise?
5. how many coordinates should a column have where a model releases moments?

Run, about a minute of one core, all questions or some:

    python examples/benchmarks/enough_people.py > examples/benchmarks/enough_people.txt
    python examples/benchmarks/enough_people.py 4 5
"""

from __future__ import annotations

import platform
import sys
import time
import warnings
from itertools import product

import numpy as np
import pandas as pd
import sklearn
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn._cli.learnt import _MARGIN, _rows_to_noise
from fairpriv_sklearn.datasets import make_biased_regression
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.metrics import ks_parity_difference
from fairpriv_sklearn.postprocessing import DPBarycenterTransformer
from fairpriv_sklearn.preprocessing import Codebook, Column, DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

SEEDS = range(8)


def data(n, seed):
    X, y, group = make_biased_regression(n + 4000, random_state=seed)
    return X[:n], y[:n], group[:n], X[n:], y[n:], group[n:]


def private_model(n, epsilon, seed):
    X, y, _, X_test, y_test, _ = data(n, seed)
    model = DPLinearRegression(
        epsilon=epsilon, bounds=(-4, 4), target_bounds=(-5, 5), random_state=seed
    )
    best = r2_score(y_test, Ridge().fit(X, y).predict(X_test))
    return r2_score(y_test, model.fit(X, y).predict(X_test)) / best


def repair(n_group, epsilon, seed):
    rng = np.random.default_rng(seed)
    group, new = np.repeat([0, 1], n_group), np.repeat([0, 1], 4000)
    scores = rng.normal(0.8 * group)[:, None]
    fresh = rng.normal(0.8 * new)[:, None]
    model = DPBarycenterTransformer(
        epsilon=epsilon, bounds=(-4, 5), groups=[0, 1], random_state=seed
    )
    fair = model.fit(scores, sensitive_features=group)
    out = fair.transform(fresh, sensitive_features=new).ravel()
    gap = ks_parity_difference(out, out, sensitive_features=new)
    return gap / ks_parity_difference(fresh[:, 0], fresh[:, 0], sensitive_features=new)


def undeclared(n, epsilon, seed):
    """Encoder and model under one budget, against the same with declared ranges."""
    X, y, _, X_test, y_test, _ = data(n, seed)
    names = [f"x{i}" for i in range(X.shape[1])]
    pipeline = make_pipeline(
        DPTableEncoder(random_state=seed),
        DPLinearRegression(target_bounds=(-5, 5), random_state=seed),
    )
    model = with_budget(pipeline, epsilon, 1e-5)
    model.fit(pd.DataFrame(np.exp(X), columns=names), y)
    best = r2_score(y_test, Ridge().fit(X, y).predict(X_test))
    return (
        r2_score(y_test, model.predict(pd.DataFrame(np.exp(X_test), columns=names)))
        / best
    )


def learnt(n, epsilon, seed):
    """Rows in units of noise; is the range right, are groups of 20 % found?

    A range is right if a tenth of the pays at most lie outside, and it is at most five
    times as wide as the middle nine tenths of them.
    """
    rng = np.random.default_rng(seed)
    columns = {
        "pay": np.exp(rng.normal(10, 0.6, n)).round(),
        "group": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
    }
    book = Codebook((("pay", Column("number")), ("group", Column("category"))))
    encoder = DPTableEncoder(book, epsilon=epsilon, random_state=seed)
    encoder.fit(pd.DataFrame(columns).astype(object))
    found, right = encoder.codebook_["pay"].bounds, False
    if found is not None:
        margin = _MARGIN * (found[1] - found[0])
        low, high = max(0.0, found[0] - margin), found[1] + margin
        outside = np.mean((columns["pay"] < low) | (columns["pay"] > high))
        usual = np.ptp(np.quantile(columns["pay"], [0.05, 0.95]))
        right = outside <= 0.1 and high - low <= 5 * usual
    groups = encoder.codebook_["group"].categories or ()
    return _rows_to_noise(encoder, n), right, len(groups) == 3


def coordinates(k, n, epsilon, seed):
    """R2 of a curved target, of the released moments of k coordinates a column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 4000, 6))
    y = np.clip(np.abs(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X)), -5, 5)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(6)])
    pipeline = make_pipeline(
        DPTableEncoder(n_coordinates=k, random_state=seed),
        DPLinearRegression(target_bounds=(-5, 5), random_state=seed),
    )
    model = clone(with_budget(pipeline, epsilon, 1e-5)).fit(frame[:n], y[:n])
    return r2_score(y[n:], model.predict(frame[n:]))


def line(name, values):
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values))
    print(
        f"  {name:<34} {values.mean():6.3f}  (standard error {error:.3f})", flush=True
    )


def facts_or_noise():
    print(
        "\n4. learnt by the encoder: rows in units of noise, range right, groups found"
    )
    sizes = (300, 600, 1200, 2400, 4800)
    settings = product((0.1, 0.15, 0.2, 0.3), sizes, range(24))
    rows = [learnt(n, epsilon, seed) for epsilon, n, seed in settings]
    units, ranges, groups = np.array(rows).T
    edges = [0, 10, 20, 30, 40, 50, 60, 80, 100, np.inf]
    for low, high in zip(edges, edges[1:], strict=False):
        inside = (units >= low) & (units < high)
        if inside.any():
            print(
                f"  {low:>4g} to {high:<4g} {inside.sum():4d} fits: range right "
                f"{ranges[inside].mean():.2f}, "
                f"all three groups {groups[inside].mean():.2f}",
                flush=True,
            )


QUESTIONS = {
    "1. share of the R2 without privacy, 5 declared features": private_model,
    "2. share of the KS gap of two groups that remains": repair,
    "3. share of the R2 without privacy, nothing declared": undeclared,
}


def main():
    warnings.simplefilter("ignore")
    start = time.process_time()
    print("python examples/benchmarks/enough_people.py")
    print(f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, ", end="")
    print(f"Python {platform.python_version()}, {platform.machine()}; 8 seeds")
    asked = sys.argv[1:] or list("12345")
    for title, function in QUESTIONS.items():
        if title[0] in asked:
            print(f"\n{title}")
            for epsilon, units in product((1.0, 0.1), (100, 300, 500, 1000, 3000)):
                n = int(units / epsilon)
                values = [function(n, epsilon, seed) for seed in SEEDS]
                line(f"n * epsilon {units:6d}, epsilon {epsilon:g}", values)
    if "4" in asked:
        facts_or_noise()
    if "5" in asked:
        print("\n5. R2 by coordinates per column, moments released (6 columns)")
        for (n, epsilon), k in product(((1000, 1.0), (5000, 0.5)), (2, 4, 8)):
            values = [coordinates(k, n, epsilon, seed) for seed in SEEDS]
            line(f"n {n}, epsilon {epsilon:g}, {k} coordinates", values)
    print(f"\n{time.process_time() - start:.0f} s of one core")


if __name__ == "__main__":
    main()
