"""Accuracy against the gap between decisions, along the weights of the penalty.

`DPWassersteinLogisticRegression` at (1, 1e-5), or at another epsilon; three quarters of
the rows train, the rest tests. Rows are encoded by the public codebook alone (numbers
scaled by their range, indicators of the lists), so that older versions of the package
can run this script too; "raw" is the table encoder and the model under the same total.
Accuracy, and the largest difference of two groups' shares of positive decisions (groups
of fewer than 100 test rows are left out), mean and standard error over the splits.

    python examples/benchmarks/penalty_curves.py [splits [epsilon [table]]]
    python examples/benchmarks/penalty_curves.py compare OLD NEW

The second compares two outputs: accuracy of the new one less that of the old curve,
interpolated at the same gap, in the public encoding, with its standard error.
"""

import platform
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_credit_default,
    make_spurious_bias,
)
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 0.9)
DELTA = 1e-5


def encoded(data):
    """Numbers scaled by the codebook's bounds, indicators of its categories."""
    columns = []
    for name, (low, high) in data.bounds.items():
        values = data.data[name].to_numpy(dtype=float)
        columns.append(np.clip((values - low) / (high - low) * 2 - 1, -1, 1))
    for name, values in data.categories.items():
        columns += [(data.data[name] == v).to_numpy(dtype=float) for v in values]
    norm = float(np.sqrt(len(data.bounds) / 3 + len(data.categories)))
    return np.column_stack(columns), norm


def census(*, six):
    """Adult by sex, or by sex and race in three parts: the smallest has 3 %."""
    data = fetch_adult(as_frame=True, missing="drop")
    groups = data.sensitive_features.squeeze().astype(str).to_numpy()
    if six:
        race = data.data["race"].astype(str).to_numpy()
        race = np.where(np.isin(race, ["White", "Black"]), race, "other")
        groups = np.char.add(np.char.add(groups, " "), race)
    y = np.asarray(data.target == ">50K", dtype=int)
    return data.data, *encoded(data), y, groups


def credit():
    data = fetch_credit_default(as_frame=True)
    y = np.asarray(data.target == data.classes[1], dtype=int)
    return data.data, *encoded(data), y, data.sensitive_features.squeeze().to_numpy()


def simulated():
    X, y, groups = make_spurious_bias(40_000, random_state=0)
    return None, X, 10.0, y, groups


SETS = {
    "Adult, two groups": lambda: census(six=False),
    "Adult, six groups": lambda: census(six=True),
    "Credit": credit,
    "Simulated": simulated,
}


def model(weight, groups, seed, epsilon, **params):
    return DPWassersteinLogisticRegression(
        epsilon=epsilon, delta=DELTA, fairness_weight=weight, classes=[0, 1],
        groups=np.unique(groups).tolist(), random_state=seed, **params,
    )  # fmt: skip


def from_raw(weight, groups, seed, epsilon):
    """The table encoder in front, nothing declared; None where there is none."""
    try:
        from fairpriv_sklearn.preprocessing import DPTableEncoder
        from fairpriv_sklearn.privacy import with_budget
    except ImportError:
        return None
    last = model(weight, groups, seed, epsilon)
    pipeline = make_pipeline(DPTableEncoder(random_state=seed), last)
    return with_budget(pipeline, epsilon, DELTA)


def quality(fitted, X, y, groups):
    decided = fitted.predict(X)
    told = [a for a in np.unique(groups) if np.sum(groups == a) >= 100]
    rates = [decided[groups == a].mean() for a in told]
    return np.mean(decided == y), np.ptp(rates)


def one_split(table, weight, seed, epsilon):
    """Accuracy and gap, of the public encoding and of the raw table."""
    frame, X, norm, y, groups = table
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [len(y) * 3 // 4])
    # Where the bounds say too much the norm is that of a typical row.
    bounds = (-10, 10) if frame is None else (-1, 1)
    fit = model(weight, groups, seed, epsilon, bounds=bounds, data_norm=norm)
    fit.fit(X[train], y[train], sensitive_features=groups[train])
    found = [*quality(fit, X[test], y[test], groups[test])]
    raw = None if frame is None else from_raw(weight, groups, seed, epsilon)
    if raw is None:
        return [*found, np.nan, np.nan]
    raw.fit(
        frame.iloc[train],
        y[train],
        dpwassersteinlogisticregression__sensitive_features=groups[train],
    )
    return [*found, *quality(raw, frame.iloc[test], y[test], groups[test])]


def main(n_splits=10, epsilon=1.0, only=None):
    warnings.simplefilter("ignore")
    print(
        "OMP_NUM_THREADS=1 python examples/benchmarks/penalty_curves.py", *sys.argv[1:]
    )
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}; {n_splits} splits"
    )
    for name, load in SETS.items():
        if only not in (None, name):
            continue
        table = load()
        groups = np.unique(table[-1])
        print(f"\n{name}: {len(table[-2])} rows, {len(groups)} groups")
        print(f"{'weight':>7}{'accuracy':>18}{'gap':>18}", end="")
        print(f"{'accuracy, raw':>20}{'gap, raw':>18}")
        for weight in WEIGHTS:
            runs = np.array(
                [one_split(table, weight, s, epsilon) for s in range(n_splits)]
            )
            errors = runs.std(axis=0, ddof=1) / n_splits**0.5
            cells = [
                f"{m:10.4f} +- {e:.4f}"
                for m, e in zip(runs.mean(axis=0), errors, strict=True)
            ]
            print(f"{weight:7g}", *cells, sep="", flush=True)


def read(path):
    """Rows (weight, accuracy, error, gap, error) by table, of a written output."""
    found, rows = {}, None
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"(\w.*): \d+ rows", line):
            rows = found.setdefault(match[1], [])
        elif rows is not None and " +- " in line:
            rows.append([float(x) for x in line.replace("+-", "").split()[:5]])
    return {name: np.array(rows) for name, rows in found.items()}


def compare(old, new):
    old, new = read(old), read(new)
    for name in new:
        _, accuracy, error, gap, _ = old[name][np.argsort(old[name][:, 3])].T
        for weight, reached, own_error, own_gap, gap_error in new[name]:
            start = f"{name:18}{weight:6g}"
            if not gap[0] <= own_gap <= gap[-1]:
                print(start, f"the old curve has no gap of {own_gap:.4f}")
                continue
            around = own_gap - 0.005, own_gap + 0.005
            slope = np.diff(np.interp(around, gap, accuracy))[0] / 0.01
            there = np.interp(own_gap, gap, accuracy), np.interp(own_gap, gap, error)
            spread = np.hypot(np.hypot(own_error, there[1]), slope * gap_error)
            print(start, f"{reached - there[0]:+.4f} +- {spread:.4f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"]:
        compare(*sys.argv[2:])
    else:
        kinds = zip((int, float, str), sys.argv[1:], strict=False)
        main(*(kind(word) for kind, word in kinds))
