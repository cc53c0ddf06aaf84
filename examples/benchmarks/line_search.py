"""How long slopes end in small tables, against the length that is best for new rows.

Encoder and linear model under one total (epsilon, 1e-5), on parts of real tables with
their codebooks, breast cancer and diabetes with nothing declared, and `min_records`
off. Loss on other rows: log loss, or 1 - R2, of the constant that the training rows
say, of the model, and of the model whose slopes are multiplied by what is best for all
splits, around the mean of the training rows (both read from the data without privacy).

Constants of the line search were looked at on these tables but Law School, and on
simulated ones.

    OMP_NUM_THREADS=1 python examples/benchmarks/line_search.py [splits]
"""

import platform
import sys

import numpy as np
import pandas as pd
import sklearn
from private_tables import DELTA, final, load, ours
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

MULTIPLES = (0.35, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0)
SETTINGS = {
    "breast cancer": [(398, 1.0), (398, 2.0), (398, 3.0)],
    "Adult": [(375, 3), (750, 0.5), (750, 1), (1500, 0.5), (3750, 0.1), (22500, 0.1)],
    "Credit": [(375, 3.0), (750, 1.0), (1500, 0.5), (3750, 0.1), (22500, 0.1)],
    "diabetes": [(309, 2.0), (309, 3.0), (309, 10.0)],
    "Communities": [(300, 3.0), (700, 1.0), (1495, 0.5), (1495, 3.0)],
    "Law School": [(300, 3.0), (700, 1.0), (1495, 1.0), (1495, 3.0), (15000, 0.1)],
}  # fmt: skip


def table(name):
    """Frame, target, and what makes a pipeline of a budget and a seed."""
    bunches = {"breast cancer": load_breast_cancer, "diabetes": load_diabetes}
    if name not in bunches:
        X, y, codebook, bounds = load(name)
        return X, y, bounds, lambda *asked: ours(codebook, bounds, *asked)
    bunch = bunches[name](as_frame=True)
    bounds = (25, 346) if name == "diabetes" else None

    def make(epsilon, seed):
        encoder = DPTableEncoder(random_state=seed)
        pipeline = make_pipeline(encoder, final(bounds, random_state=seed))
        return with_budget(pipeline, epsilon, DELTA)

    return bunch.data, bunch.target.to_numpy(), bounds, make


def losses(X, y, bounds, make, n, epsilon, seed):
    """Of the constant, and of every multiple of the slopes."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:n], order[n : n + 8000]
    pipeline = make(epsilon, seed)
    names = [one for one in pipeline.get_params() if one.endswith("min_records")]
    pipeline.set_params(**dict.fromkeys(names))
    pipeline.fit(X.iloc[train], y[train])
    encoder, model = pipeline
    Z = np.asarray(encoder.transform(X.iloc[test]))
    mean = np.asarray(encoder.transform(X.iloc[train])).mean(axis=0)
    slopes, intercept = model.coef_.copy(), np.copy(model.intercept_)

    def loss():
        if bounds is None:
            return log_loss(y[test], model.predict_proba(Z)[:, 1])
        error = y[test] - model.predict(Z)
        return np.mean(error**2) / np.var(y[test])

    found = []
    for multiple in MULTIPLES:
        model.coef_ = slopes * multiple
        model.intercept_ = intercept + (1 - multiple) * np.dot(slopes, mean)
        found.append(loss())
    p = y[train].mean()
    constant = log_loss(y[test], np.full(len(test), p)) if bounds is None else 1.0
    return [constant, *found]


def main(n_splits=8):
    print("OMP_NUM_THREADS=1 python", *sys.argv)
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"pandas {pd.__version__}, scikit-learn {sklearn.__version__}\n"
    )
    print("table          rows  epsilon  constant   model  at the best multiple")
    for name, settings in SETTINGS.items():
        X, y, bounds, make = table(name)
        for n, epsilon in settings:
            splits = range(n_splits if n < 10_000 else max(2, n_splits // 2))
            all_losses = [losses(X, y, bounds, make, n, epsilon, s) for s in splits]
            constant, *found = np.mean(all_losses, axis=0)
            best = int(np.argmin(found))
            print(
                f"{name:13s} {n:5d} {epsilon:8g} {constant:9.3f} "
                f"{found[MULTIPLES.index(1.0)]:7.3f} {found[best]:7.3f} "
                f"({MULTIPLES[best]:g})",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
