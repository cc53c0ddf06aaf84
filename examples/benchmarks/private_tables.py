"""Raw tables under one budget: the table encoder with a private model, and its peers.

Three quarters of the rows train, the rest test; the mean over splits is printed. All
models get (epsilon, 1e-5); the public ranges and lists are those of the codebook,
"no ranges" leaves the ranges of numbers out. Ours holds if a record is replaced; what
diffprivlib and DP-EBM print is for their own relation, add/remove for DP-EBM's counts.
Constants were chosen on simulated tables, Adult and Credit, some also with Communities
and Law School in view: figures on these four are optimistic.

The columns of older versions of this library and of diffprivlib with scikit-learn 1.6.1
come from `private_tables_peers.py`.

Run with ``OMP_NUM_THREADS=1 python examples/benchmarks/private_tables.py [splits]
[set ...]``; FAIRPRIV_SKLEARN_DATA names a folder with the data.
"""

import platform
import sys
import time
import warnings
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_communities_crime,
    fetch_credit_default,
    fetch_law_school,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.preprocessing import Codebook, DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

SETS = {
    "Adult": (fetch_adult, {"missing": "drop"}),
    "Credit": (fetch_credit_default, {}),
    "Law School": (fetch_law_school, {}),
    "Communities": (fetch_communities_crime, {}),
}
EPSILONS = (0.1, 0.5, 1.0, 3.0)
DELTA = 1e-5


def load(name):
    """Features with the sensitive ones, a target of 0 and 1 or numbers, codebook."""
    fetch, options = SETS[name]
    data = fetch(as_frame=True, **options)
    target = data.codebook.target
    columns = {
        n: replace(c, role="feature")
        for n, c in data.codebook.columns.items()
        if n in data.data.columns or n in getattr(data, "sensitive_names", ())
    }
    X = data.frame[[n for n in columns if n in data.frame.columns]]
    codebook = Codebook(tuple((n, columns[n]) for n in X.columns))
    y = np.asarray(data.target)
    if data.classes is not None:
        return X, (y == np.asarray(data.classes)[1]).astype(int), codebook, None
    return X, y.astype(float), codebook, data.codebook[target].bounds


def final(bounds, **params):
    if bounds is None:
        return DPWassersteinLogisticRegression(
            classes=[0, 1], fairness_weight=0, **params
        )
    return DPLinearRegression(target_bounds=bounds, **params)


def ours(codebook, bounds, epsilon, seed):
    pipeline = make_pipeline(
        DPTableEncoder(codebook, random_state=seed), final(bounds, random_state=seed)
    )
    return with_budget(pipeline, epsilon, DELTA)


def without_ranges(codebook, bounds, epsilon, seed):
    open_ended = tuple((n, replace(c, range=None)) for n, c in codebook.entries)
    return ours(Codebook(open_ended), bounds, epsilon, seed)


def undeclared(codebook, bounds, epsilon, seed):
    return ours(None, bounds, epsilon, seed)


def public_one_hot(codebook, bounds, epsilon, seed):
    """Without the encoder: numbers scaled by their range, indicators of the lists."""
    numbers = [n for n, c in codebook.entries if c.bounds is not None]
    lists = {n: list(c.categories) for n, c in codebook.entries if c.categories}
    low, high = np.array([codebook[n].bounds for n in numbers]).T

    def scaled(values):
        values = np.nan_to_num(np.asarray(values, dtype=float), nan=(low + high) / 2)
        return (np.clip(values, low, high) - low) / (high - low) * 2 - 1

    one_hot = OneHotEncoder(
        categories=list(lists.values()), handle_unknown="ignore", sparse_output=False
    )
    columns = make_column_transformer(
        (FunctionTransformer(scaled), numbers), (one_hot, list(lists)),
        sparse_threshold=0,
    )  # fmt: skip
    norm = float(np.sqrt(len(numbers) / 3 + len(lists)))
    model = final(bounds, random_state=seed, epsilon=epsilon, delta=DELTA)
    return make_pipeline(columns, model.set_params(data_norm=norm))


def dp_ebm(codebook, bounds, epsilon, seed):
    from interpret.privacy import DPExplainableBoostingClassifier as Classifier
    from interpret.privacy import DPExplainableBoostingRegressor as Regressor

    ranges = {i: c.bounds for i, (_, c) in enumerate(codebook.entries) if c.bounds}
    kinds = [
        "continuous" if c.bounds is not None else "nominal" for _, c in codebook.entries
    ]
    options = {
        "epsilon": epsilon,
        "delta": DELTA,
        "feature_types": kinds,
        "privacy_bounds": ranges,
        "random_state": seed,
        "n_jobs": 1,
    }
    if bounds is None:
        return Classifier(**options)
    return Regressor(
        **options, privacy_target_min=bounds[0], privacy_target_max=bounds[1]
    )


def diffprivlibs(codebook, bounds, epsilon, seed):
    from diffprivlib.models import LinearRegression, LogisticRegression

    pipeline = public_one_hot(codebook, bounds, epsilon, seed)
    norm = pipeline[-1].data_norm
    if bounds is None:
        model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed)
    else:
        model = LinearRegression(
            epsilon=epsilon, bounds_X=(-1, 1), bounds_y=bounds, random_state=seed
        )
    return make_pipeline(pipeline[0], model)


def not_private(codebook, bounds, epsilon, seed):
    text = [n for n, c in codebook.entries if c.categories]
    columns = make_column_transformer(
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), text),
        remainder="passthrough",
    )
    boosting = HistGradientBoostingClassifier if bounds is None else (
        HistGradientBoostingRegressor
    )  # fmt: skip
    return make_pipeline(columns, boosting(random_state=seed))


MODELS = {
    "ours": ours,
    "ours, no ranges": without_ranges,
    "ours, nothing declared": undeclared,
    "ours, public one-hot": public_one_hot,
    "DP-EBM": dp_ebm,
    "diffprivlib": diffprivlibs,
    "boosting, not private": not_private,
}


def scores(model, bounds, X, y, train, test):
    start = time.process_time()
    model.fit(X.iloc[train], y[train])
    seconds = time.process_time() - start
    if bounds is not None:
        return r2_score(y[test], model.predict(X.iloc[test])), seconds
    p = np.clip(model.predict_proba(X.iloc[test])[:, 1], 1e-6, 1 - 1e-6)
    error = np.mean((p > 0.5) != y[test])
    return roc_auc_score(y[test], p), error, log_loss(y[test], p), seconds


def installed(name):
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} not installed"


def cpu():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line for line in file if line.startswith("model name")]
        return names[0].split(":")[1].strip()
    except (OSError, IndexError):
        return platform.processor() or "unknown CPU"


def main(n_splits=5, names=tuple(SETS)):
    warnings.simplefilter("ignore")
    packages = ("numpy", "scikit-learn", "interpret-core", "diffprivlib")
    print(f"Python {platform.python_version()}, {', '.join(map(installed, packages))}")
    print(f"{cpu()}, one thread; {n_splits} splits")
    for name in names:
        X, y, codebook, bounds = load(name)
        print(f"\n{name}: {len(X)} rows, {X.shape[1]} columns")
        head = "AUC  error  log loss" if bounds is None else "R2"
        print(f"{'':24s} epsilon  {head}  CPU seconds")
        for label, make in MODELS.items():
            for epsilon in EPSILONS if make is not not_private else (np.inf,):
                found = []
                try:
                    for seed in range(n_splits):
                        order = np.random.default_rng(seed).permutation(len(X))
                        cut = len(X) * 3 // 4
                        model = make(codebook, bounds, epsilon, seed)
                        found.append(
                            scores(model, bounds, X, y, order[:cut], order[cut:])
                        )
                except Exception as error:
                    reason = type(error).__name__
                    print(f"{label:24s} {epsilon:5g}  does not run: {reason}")
                    break
                *quality, seconds = np.mean(found, axis=0)
                cells = "  ".join(f"{value:6.3f}" for value in quality)
                print(f"{label:24s} {epsilon:5g}  {cells}  {seconds:7.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5, sys.argv[2:] or tuple(SETS))
