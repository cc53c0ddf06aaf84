"""What some rules of the linear models give and take.

Ranges: R2 of `DPLinearRegression` and accuracy of `DPWassersteinLogisticRegression` at
epsilon 1, with columns that are not looked at, looked at once, and as often as the rule
says; simulated columns, normal ones in bounds of 8 deviations and in wider ones about
other centres, amounts of money of which 8 % are not zero, and long tails in bounds that
hold all values, or all but one in a thousand at either end. Columns tell .8 of the
variance of the target, or of what is above zero in the classes. Mean of eight seeds.

Directions: the part of the squares of all gradients of the penalty in a fit that its
first directions hold, on Adult by sex and by race.

Slopes: accuracy of `DPOutputPerturbationLogisticRegression` less that of a constant,
behind an encoder with nothing declared but the classes, with the rule that slopes have
to stand out of their noise, and by slopes alone. Mean and standard error of twenty
splits. German credit and horse colic are files of github.com/jbrownlee/Datasets, in
FOLDER.

    OMP_NUM_THREADS=1 python examples/benchmarks/linear_limits.py FOLDER
"""

import platform
import sys
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from wide_bounds import encoded

from fairpriv_sklearn._training._design import default_data_norm
from fairpriv_sklearn.datasets import fetch_adult, fetch_credit_default
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
    _output_perturbation,
    _ranges,
    _wasserstein_logistic,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

SEEDS = range(900, 908)
SPLITS = range(900, 920)
COLUMNS = {  # kind: number of columns, rows, bounds in parts of their own
    "normal": (6, 3000, (1, 10, 100)),
    "money": (6, 3000, (1,)),
    "log-normal": (20, 20_000, (1,)),
    "log-normal, all": (20, 20_000, (1,)),
    "t(3)": (20, 20_000, (1,)),
    "t(3), all": (20, 20_000, (1,)),
}


def drawn(kind, n, rng):
    """Columns, a score, and bounds of their own."""
    d = COLUMNS[kind][0]
    weights = rng.normal(size=d)
    if kind == "normal":
        X = rng.normal(size=(n, d))
        return X, X @ weights, np.tile([-4.0, 4.0], (d, 1)).T
    if kind == "money":  # that there is an amount says more than how large it is
        X = rng.normal(size=(n, d))
        amounts = np.minimum(np.exp(8 + rng.normal(size=(n, 3))), 100_000.0)
        X[:, :3] = amounts * (rng.random((n, 3)) < 0.08)
        score = X[:, 3:] @ weights[3:] + 3 * (X[:, :3] > 0) @ weights[:3]
        return X, score, np.array([[0.0] * 3 + [-4.0] * 3, [1e5] * 3 + [4.0] * 3])
    X = np.exp(rng.normal(size=(n, d))) if kind[0] == "l" else rng.standard_t(3, (n, d))
    beyond = 0.0 if kind.endswith("all") else 0.001
    return X, X @ weights, np.quantile(X, [beyond, 1 - beyond], axis=0)


def scored(classes, X, y, n, bounds, looks, seed):
    kind = DPWassersteinLogisticRegression if classes else DPLinearRegression
    own = {"classes": [0, 1], "fairness_weight": 0} if classes else {}
    if not classes:
        own["target_bounds"] = y.min(), y.max()
    model = kind(
        bounds=tuple(bounds),
        data_norm=None if looks else default_data_norm(X.shape[1]),
        random_state=seed,
        **own,
    )
    with mock.patch.object(_ranges, "_TWICE", np.inf if looks == 1 else 2.0):
        return model.fit(X[:n], y[:n]).score(X[n:], y[n:])


def ranges(_):
    print(f"\n{'ranges':16}{'columns':>8}{'rows':>7}{'bounds':>8}", end="")
    print(f"{'':12}{'not learnt':>12}{'one look':>12}{'by the rule':>12}")
    for kind, (d, n, factors) in COLUMNS.items():
        for factor in factors:
            found = []
            for seed in SEEDS:
                rng = np.random.default_rng([seed, n, d])
                X, score, bounds = drawn(kind, n + 20_000, rng)
                score = (score - score.mean()) / score.std()
                y = score + 0.5 * rng.normal(size=len(score))
                half = np.diff(bounds, axis=0)[0] / 2
                away = bounds.mean(axis=0) + half * rng.uniform(1 - factor, factor - 1)
                bounds = away - factor * half, away + factor * half
                found.append(
                    [
                        scored(classes, X, target, n, bounds, looks, seed)
                        for classes, target in enumerate((y, (y > 0).astype(int)))
                        for looks in range(3)
                    ]
                )
            means = np.mean(found, axis=0).reshape(2, 3)
            errors = (np.std(found, axis=0, ddof=1) / len(found) ** 0.5).reshape(2, 3)
            for words, mean, error in zip(
                ("R2", "accuracy"), means, errors, strict=True
            ):
                print(f"{kind:16}{d:>8}{n:>7}{factor:>6} x  {words:10}", end="")
                for pair in zip(mean, error, strict=True):
                    print("{:>6.3f} ({:.3f})".format(*pair), end="")
                print(flush=True)


class Kept(_wasserstein_logistic.Pulls):
    """Averages that keep the gradients of the penalty that they are of."""

    gradients: list = []

    def add(self, gradient, slopes, at):
        self.gradients.append(gradient[:, 0].copy())
        super().add(gradient, slopes, at)


def directions(_):
    print(f"\n{'directions':16}{'groups':>8}{'weight':>8}{'epsilon':>9}", end="")
    print(f"{'one':>9}{'groups':>9}")
    for name in ("sex", "race"):
        data = fetch_adult(sensitive_features=name, missing="drop")
        X, ends, _ = encoded(data, False)
        groups = data.sensitive_features
        for epsilon in (1.0, 1e4):
            Kept.gradients = []
            with mock.patch.object(_wasserstein_logistic, "Pulls", Kept):
                DPWassersteinLogisticRegression(
                    epsilon=epsilon,
                    fairness_weight=0.5,
                    bounds=tuple(ends.T),
                    classes=data.classes,
                    groups=sorted(set(groups)),
                    random_state=0,
                ).fit(X, data.target, sensitive_features=groups)
            squares = np.linalg.svd(np.array(Kept.gradients), compute_uv=False) ** 2
            parts = np.cumsum(squares) / squares.sum()
            n_groups = len(set(groups))
            print(f"Adult by {name:7}{n_groups:>8}{0.5:>8}{epsilon:>9g}", end="")
            print(f"{parts[0]:>9.4f}{parts[n_groups - 1]:>9.4f}", flush=True)


def files(folder):
    german = pd.read_csv(Path(folder) / "german.csv", header=None)
    colic = pd.read_csv(Path(folder) / "horse-colic.csv", header=None, na_values="?")
    colic = colic.drop(
        columns=[2, 24, 25, 26, 27]
    )  # a number of a case, and of lesions
    colic = colic.dropna(subset=[22])
    yield "German credit", german.drop(columns=20), german[20] == 1, 700
    yield "horse colic", colic.drop(columns=22), colic[22] == 1, 210
    cancer = load_breast_cancer(as_frame=True)
    yield "breast cancer", cancer.data, cancer.target == 1, 400
    for name, fetch in (("Adult", fetch_adult), ("Credit", fetch_credit_default)):
        data = fetch(missing="drop", as_frame=True)
        yield name, data.data, data.target == data.classes[1], 1000
        yield name, data.data, data.target == data.classes[1], 10_000


class Anything:
    """So many deviations that next to nothing is left of what noise would give."""

    def __mul__(self, deviation):
        return -0.4999 * deviation**2


def above_constant(X, y, n, epsilon, seed):
    """Accuracy beyond that of a constant, by slopes alone and with the rule."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[n:]
    model = DPOutputPerturbationLogisticRegression(classes=[0, 1], random_state=seed)
    model = make_pipeline(DPTableEncoder(random_state=seed), model)
    model = with_budget(model, epsilon, 1e-5)
    constant = np.mean(y[test] == (y[train].mean() > 0.5))
    with (
        mock.patch.object(_output_perturbation, "LEAST_SIGNAL", 0.0),
        mock.patch.object(_output_perturbation, "STANDS_OUT", Anything()),
    ):
        alone = model.fit(X.iloc[train], y[train]).score(X.iloc[test], y[test])
    rule = model.fit(X.iloc[train], y[train]).score(X.iloc[test], y[test])
    return alone - constant, rule - constant


def slopes(folder):
    print(f"\n{'slopes':16}{'rows':>8}{'epsilon':>9}", end="")
    print(f"{'slopes alone':>18}{'with the rule':>18}")
    for name, X, y, n in files(folder):
        y = np.asarray(y, dtype=int)
        for epsilon in (0.3, 1.0, 3.0):
            found = [above_constant(X, y, n, epsilon, seed) for seed in SPLITS]
            errors = np.std(found, axis=0, ddof=1) / len(found) ** 0.5
            print(f"{name:16}{n:>8}{epsilon:>9}", end="")
            for mean, error in zip(np.mean(found, axis=0), errors, strict=True):
                print(f"{mean:>+10.3f} ({error:.3f})", end="")
            print(flush=True)


def main():
    warnings.simplefilter("ignore")
    folder, *parts = sys.argv[1:]
    print(" ".join(["OMP_NUM_THREADS=1 python", sys.argv[0], "FOLDER", *parts]))
    print(
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, pandas "
        f"{pd.__version__}, Python {platform.python_version()}, {platform.machine()}"
    )
    known = {f.__name__: f for f in (ranges, directions, slopes)}
    for part in parts or known:
        known[part](folder)


if __name__ == "__main__":
    main()
