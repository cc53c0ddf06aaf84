"""Classifiers of rare labels, over budgets: does more of it ever make one worse?

Simulated rows, eight columns, correlated normals with a mean for each class; all
classes but the first are rare. "skew" takes the exponential of every second column,
"flags" makes flags of half of them. With public bounds of 8, and behind the table
encoder with one budget for both. Error and log loss of 5,000 fresh rows, means of
three tables, beside the best constant and a logistic regression that is not private.

The script reads arguments that an older commit knows as well. Run it there and here::

    PYTHONPATH=. python examples/benchmarks/rare_classes.py
"""

import platform
import sys
import warnings

import numpy as np
import pandas as pd
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairpriv_sklearn
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

FRESH, SEEDS, COLUMNS, DELTA = 5000, range(3), 8, 1e-5
EPSILONS = (1, 3, 10, 30, 100, 1e3, 1e5)
# Kind of columns, rows, classes, share of each rare class in the mean.
SETTINGS = (
    ("normal", 1000, 3, 0.05),
    ("flags", 5000, 2, 0.03),
    ("normal", 5000, 5, 0.02),
    ("skew", 500, 6, 0.04),
    ("skew", 20_000, 3, 0.03),
)


def table(kind, n_rows, n_classes, rare, seed):
    """Rows and labels, the last `FRESH` of them for judging."""
    rng = np.random.default_rng([seed, n_rows, n_classes])
    shares = np.full(n_classes, rare)
    if n_classes > 2:
        shares[1:] *= np.linspace(0.5, 1.5, n_classes - 1)
    shares[0] = 1 - shares[1:].sum()
    y = rng.choice(n_classes, p=shares, size=n_rows + FRESH)
    means = rng.normal(size=(n_classes, COLUMNS))
    means *= 3 / np.linalg.norm(means, axis=1, keepdims=True)
    means[0] = 0
    mix = np.eye(COLUMNS) + 0.7 * rng.normal(size=(COLUMNS, COLUMNS)) / COLUMNS**0.5
    X = rng.normal(size=(len(y), COLUMNS)) @ mix + means[y]
    if kind == "skew":
        X[:, ::2] = np.exp(0.7 * X[:, ::2])
    if kind == "flags":
        X[:, : COLUMNS // 2] = X[:, : COLUMNS // 2] > 1
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(COLUMNS)]), y


def model_of(n_classes, epsilon, seed, encoded):
    told = {"classes": range(n_classes), "fairness_weight": 0, "random_state": seed}
    if not encoded:
        told |= {"epsilon": epsilon, "delta": DELTA, "bounds": (-8, 8)}
        return DPWassersteinLogisticRegression(**told)
    model = DPWassersteinLogisticRegression(**told)
    encoder = DPTableEncoder(random_state=seed)
    return with_budget(make_pipeline(encoder, model), epsilon, DELTA)


def losses(model, X, y):
    fitted = model.fit(X.iloc[:-FRESH], y[:-FRESH])
    p = np.clip(fitted.predict_proba(X.iloc[-FRESH:]), 1e-9, 1)
    error = np.mean(p.argmax(axis=1) != y[-FRESH:])
    return error, log_loss(y[-FRESH:], p, labels=range(p.shape[1]))


def main():
    print("python " + " ".join(sys.argv))
    print(
        f"fairpriv_sklearn {fairpriv_sklearn.__version__}, scikit-learn "
        f"{sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}; {len(SEEDS)} tables"
    )
    warnings.simplefilter("ignore")
    for kind, n_rows, n_classes, rare in SETTINGS:
        tables = [table(kind, n_rows, n_classes, rare, seed) for seed in SEEDS]
        constant = np.mean([1 - np.mean(y[-FRESH:] == 0) for _, y in tables])
        plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        best = np.mean([losses(plain, *one) for one in tables], axis=0)
        print(
            f"\n{kind}, {n_rows} rows, {n_classes} classes: constant {constant:.4f}, "
            f"not private {best[0]:.4f} / {best[1]:.3f}"
        )
        print(f"{'epsilon':10}" + "".join(f"{epsilon:>15g}" for epsilon in EPSILONS))
        for label in ("bounds", "encoder"):
            cells = [
                np.mean(
                    [
                        losses(model_of(n_classes, eps, s, label == "encoder"), *one)
                        for s, one in zip(SEEDS, tables, strict=True)
                    ],
                    axis=0,
                )
                for eps in EPSILONS
            ]
            row = "".join(f"{error:>8.4f} /{loss:.3f}" for error, loss in cells)
            print(f"{label:10}{row}", flush=True)


if __name__ == "__main__":
    main()
