"""Rows or budget: what is shared by a model and its repair, at the same total.

By default a random split gives some rows to the model, some to the model of the group
of a blind repair, and the rest calibrate: each phase may spend the whole budget, on a
part of the rows. With ``calibration_size="all"`` each phase reads all rows, and shares
the budget. `with_budget` knows which. Everything is private at a total of
(epsilon, 1e-5) here, models included.

Shares of the budget are the defaults of `with_budget`: twice as much for the model as
for the repair and for the model of the group, and three times as much for a repair of a
pure epsilon. They were chosen on other seeds (100 to 109), by the simulated table; on
the others a half to three quarters for the model made no difference within errors, and
.5 to .7 for a repair of a pure epsilon.

Run with the directory of the data sets::

    FAIRPRIV_SKLEARN_DATA=DIRECTORY python examples/benchmarks/all_rows.py \
        [classes numbers]

It takes about five minutes.
"""

import os
import platform
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import sklearn
from blind_tables import METRICS, class_tables, number_tables

import fairpriv_sklearn
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.metrics import ks_parity_difference
from fairpriv_sklearn.postprocessing import DP2DPClassifier, DPBarycenterRegressor
from fairpriv_sklearn.privacy import with_budget

SEEDS = range(200, 212)
DELTA = 1e-5
SPLIT, ALL = {}, {"calibration_size": "all"}


def parts(n_rows, seed, most, test=0.25):
    order = np.random.default_rng(seed).permutation(n_rows)
    train, test = np.split(order, [int((1 - test) * n_rows)])
    return train[:most], test


def logistic(norm, labels, seed):
    return DPWassersteinLogisticRegression(
        fairness_weight=0, data_norm=norm, classes=labels, random_state=seed
    )


def classes_once(how, seed, *, table, n_rows, epsilon, constraint, blind):
    _, X, y, group, groups, norm = table
    train, test = parts(len(y), seed, n_rows)
    told = {"group_estimator": logistic(norm, groups, seed + 1)} if blind else {}
    model = DP2DPClassifier(
        logistic(norm, [0, 1], seed),
        constraint=constraint,
        max_iter=30 if constraint == "demographic_parity" else 60,
        classes=[0, 1],
        groups=groups,
        blind=blind,
        random_state=seed,
        **told,
        **how,
    )
    model = with_budget(model, epsilon, DELTA)
    model.fit(X[train], y[train], sensitive_features=group[train])
    given = {} if blind else {"sensitive_features": group[test]}
    answers = [model.estimator_.predict(X[test]), model.predict(X[test], **given)]
    assert model.privacy_.epsilon_at(DELTA) <= epsilon
    metric = METRICS[constraint]
    return [
        (np.mean(a != y[test]), metric(y[test], a, sensitive_features=group[test]))
        for a in answers
    ]


def numbers_once(how, seed, *, table, n_rows, epsilon, blind):
    _, X, y, group, bounds = table
    train, test = parts(len(y), seed, n_rows, test=0.3)
    groups = np.unique(group).tolist()
    # Public ends for each column: those of a codebook, here of the whole table.
    ends = X.min(axis=0), X.max(axis=0)
    base = DPLinearRegression(bounds=ends, target_bounds=bounds, random_state=seed)
    guess = DPWassersteinLogisticRegression(
        bounds=ends, fairness_weight=0, classes=groups, random_state=seed + 1
    )
    model = DPBarycenterRegressor(
        base,
        target_bounds=bounds,
        groups=groups,
        blind=blind,
        group_estimator=guess if blind else None,
        random_state=seed,
        **how,
    )
    model = with_budget(model, epsilon, DELTA)
    model.fit(X[train], y[train], sensitive_features=group[train])
    given = {} if blind else {"sensitive_features": group[test]}
    answers = [model.estimator_.predict(X[test]), model.predict(X[test], **given)]
    assert model.privacy_.epsilon_at(DELTA) <= epsilon
    return [
        (
            np.mean((a - y[test]) ** 2),
            ks_parity_difference(y[test], a, sensitive_features=group[test]),
        )
        for a in answers
    ]


def printed(name, about, once, hows=(("rows", SPLIT), ("budget", ALL))):
    print(f"{name:22}{about:>34}", end="")
    for _, how in hows:
        cells = np.array([once(how, seed) for seed in SEEDS])
        mean = cells.mean(axis=0)
        error = cells[:, 1].std(axis=0, ddof=1) / len(SEEDS) ** 0.5
        for e, v in (*mean, error):
            print(f"{e:>8.4f}/{v:.4f}", end="")
    print(flush=True)


def headed(title, what):
    print(f"\n{title}")
    print(f"{'':56}{'rows shared, budget whole':>45}{'budget shared':>45}")
    print(f"{'':22}{'':34}" + f"{'model':>15}{'repaired':>15}{'s.e.':>15}" * 2)
    print(f"({what})")


def classes_table():
    headed("1. Classes, all private", "error/violation on a held-out quarter")
    for table in class_tables():
        for n_rows, epsilon in ((2000, 1.0), (8000, 1.0), (None, 1.0), (None, 0.3)):
            for constraint in ("demographic_parity", "equal_opportunity"):
                for blind in (False, True):
                    kind = "blind" if blind else "aware"
                    about = f"{n_rows or 'all'} {epsilon} {constraint[:11]} {kind}"
                    setting = {"table": table, "n_rows": n_rows, "epsilon": epsilon}
                    setting |= {"constraint": constraint, "blind": blind}
                    printed(table[0], about, partial(classes_once, **setting))


def numbers_table():
    headed("2. Numbers, all private", "squared error/KS on 30 %")
    for table in number_tables(Path(os.environ["FAIRPRIV_SKLEARN_DATA"])):
        for n_rows, epsilon in ((2000, 1.0), (None, 1.0)):
            for blind in (False, True):
                about = f"{n_rows or 'all'} {epsilon} {'blind' if blind else 'aware'}"
                setting = {"table": table, "n_rows": n_rows, "epsilon": epsilon}
                printed(table[0], about, partial(numbers_once, blind=blind, **setting))


TABLES = {"classes": classes_table, "numbers": numbers_table}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(
        f"python examples/benchmarks/{' '.join([Path(__file__).name, *sys.argv[1:]])}"
    )
    print(
        f"fairpriv_sklearn {fairpriv_sklearn.__version__}, "
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {platform.machine()}; "
        f"{len(SEEDS)} seeds"
    )
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
