"""Columns of `private_tables.py` for which other software is needed.

Two of them: the linear models of this library before they had bounded slopes, second
moments and the table encoder (a checkout of the parent of commit 2930002), and
diffprivlib, which runs with scikit-learn 1.6.1. Both get the public one-hot encoding of
the codebook: numbers scaled to [-1, 1], indicators of the listed categories; same
splits, same budgets.

Run with today's library ``python examples/benchmarks/private_tables_peers.py write
FOLDER``, and then, each with its own software, ``... run FOLDER before [splits]`` and
``... run FOLDER diffprivlib [splits]``.
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss, r2_score, roc_auc_score

EPSILONS, DELTA = (0.1, 0.5, 1.0, 3.0), 1e-5


def write(folder):
    from private_tables import SETS, load, public_one_hot

    for name in SETS:
        X, y, codebook, bounds = load(name)
        columns, model = public_one_hot(codebook, bounds, 1.0, 0)
        Z = columns.fit_transform(X).astype(np.float64)  # by the codebook alone
        ends = (np.nan, np.nan) if bounds is None else bounds
        np.savez(Path(folder) / name, Z=Z, y=y, bounds=ends, norm=model.data_norm)


def before(epsilon, bounds, norm, seed):
    """The defaults of that time."""
    from fairpriv_sklearn import linear_model

    options = {"epsilon": epsilon, "delta": DELTA, "bounds": (-1, 1)}
    options["random_state"] = seed
    if bounds is None:
        return linear_model.DPWassersteinLogisticRegression(
            classes=[0, 1], fairness_weight=0, **options
        )
    return linear_model.DPLinearRegression(target_bounds=bounds, **options)


def diffprivlib(epsilon, bounds, norm, seed):
    """Pure epsilon: it has no delta."""
    from diffprivlib import models

    if bounds is None:
        return models.LogisticRegression(
            epsilon=epsilon, data_norm=norm, random_state=seed
        )
    return models.LinearRegression(
        epsilon=epsilon, bounds_X=(-1, 1), bounds_y=bounds, random_state=seed
    )


def scores(model, bounds, X, y, train, test):
    start = time.process_time()
    model.fit(X[train], y[train])
    seconds = time.process_time() - start
    if bounds is not None:
        return r2_score(y[test], model.predict(X[test])), seconds
    p = np.clip(model.predict_proba(X[test])[:, 1], 1e-6, 1 - 1e-6)
    error = np.mean((p > 0.5) != y[test])
    return roc_auc_score(y[test], p), error, log_loss(y[test], p), seconds


def run(folder, which, n_splits="5"):
    make = {"before": before, "diffprivlib": diffprivlib}[which]
    for path in sorted(Path(folder).glob("*.npz")):
        table = np.load(path)
        X, y, norm = table["Z"], table["y"], float(table["norm"])
        bounds = None if np.isnan(table["bounds"]).any() else tuple(table["bounds"])
        print(path.stem)
        for epsilon in EPSILONS:
            found = []
            for seed in range(int(n_splits)):
                order = np.random.default_rng(seed).permutation(len(X))
                train, test = np.split(order, [len(X) * 3 // 4])
                model = make(epsilon, bounds, norm, seed)
                found.append(scores(model, bounds, X, y, train, test))
            *quality, seconds = np.mean(found, axis=0)
            cells = "  ".join(f"{value:6.3f}" for value in quality)
            print(f"{which:24s} {epsilon:5g}  {cells}  {seconds:7.2f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"write": write, "run": run}[sys.argv[1]](*sys.argv[2:])
