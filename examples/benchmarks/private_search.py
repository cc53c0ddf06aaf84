"""A private search on Adult beside the naive ways of tuning with the same budget.

Everything has epsilon = 3 and delta = 1e-5 in all, except the searches without any
privacy. Rows: 80 % for the search, 20 % for the test score, another split per seed.
The plain searches use one holdout, as the private ones do, and refit the winner.

    python examples/benchmarks/private_search.py [n_seeds]

Needs pandas, and the Adult data set (see fairpriv_sklearn.datasets.fetch_adult). About
three minutes for 20 seeds on two cores.
"""

import platform
import sys
import time

import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed
from sklearn.model_selection import GridSearchCV, ShuffleSplit, train_test_split
from sklearn.preprocessing import OneHotEncoder

from fairpriv_sklearn.accounting import (
    GaussianEvent,
    calibrate_gaussian,
    compose_epsilon,
)
from fairpriv_sklearn.datasets import fetch_adult
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.model_selection import DPGridSearchCV

EPSILON, DELTA = 3.0, 1e-5
GRID = {"data_norm": [0.5, 2.0, 3.5], "max_iter": [30, 300], "C": [0.01, 10.0]}
N_CANDIDATES = 12
N_FITS = N_CANDIDATES + 1  # of a plain search: one holdout, and the winner again
LEFT_OUT = ["fnlwgt", "native-country"]


def load():
    """Adult, encoded by its codebook: nothing is fitted on the data."""
    adult = fetch_adult(missing="drop", as_frame=True)
    bounds = {k: v for k, v in adult.bounds.items() if k not in LEFT_OUT}
    categories = {k: v for k, v in adult.categories.items() if k not in LEFT_OUT}
    low, high = np.array(list(bounds.values())).T
    numbers = 2 * (adult.data[list(bounds)].to_numpy(float) - low) / (high - low) - 1
    encoder = OneHotEncoder(categories=list(categories.values()), sparse_output=False)
    labels = encoder.fit_transform(adult.data[list(categories)])
    y = (adult.target == adult.classes[1]).to_numpy().astype(int)
    return np.hstack([numbers, labels]), y


def model(epsilon, delta=DELTA):
    return DPWassersteinLogisticRegression(
        epsilon=epsilon,
        delta=delta,
        fairness_weight=0.0,
        bounds=(-1, 1),
        classes=[0, 1],
    )


def private(method):
    return DPGridSearchCV(model(1.0), GRID, epsilon=EPSILON, delta=DELTA, method=method)


def plain(epsilon, delta=DELTA):
    grid = dict(GRID)
    if epsilon == np.inf:  # the exact solver takes as many steps as it needs
        del grid["max_iter"]
    holdout = ShuffleSplit(1, test_size=0.2, random_state=0)
    return GridSearchCV(model(epsilon, delta), grid, cv=holdout, error_score="raise")


def true_epsilon_of_the_plain_search():
    """The models of a plain search with epsilon = 3 each; its scores come on top."""
    mu = calibrate_gaussian(EPSILON, DELTA, n_draws=10_000)
    return compose_epsilon([GaussianEvent(mu, 10_000)] * N_FITS, DELTA)


WAYS = {
    "no privacy, plain search": lambda: plain(np.inf),
    "DPGridSearchCV, method='auto'": lambda: private("auto"),
    "DPGridSearchCV, method='compose'": lambda: private("compose"),
    "plain search, budget / number of fits": lambda: plain(
        EPSILON / N_FITS, DELTA / N_FITS
    ),
    "plain search, whole budget for every fit": lambda: plain(EPSILON),
    "no search, default parameters": lambda: model(EPSILON),
}


def one_split(seed, X, y):
    """Test score and CPU seconds of each way."""
    parts = train_test_split(X, y, test_size=0.2, random_state=seed)
    X_train, X_test, y_train, y_test = parts
    scores, seconds = [], []
    for make in WAYS.values():
        start = time.process_time()
        fitted = make().fit(X_train, y_train)
        seconds.append(time.process_time() - start)
        scores.append(fitted.score(X_test, y_test))
    print("seed", seed, "done", file=sys.stderr)
    return scores, seconds


def main(n_seeds=20):
    X, y = load()
    true = true_epsilon_of_the_plain_search()
    claims = dict.fromkeys(WAYS, f"{EPSILON:g}")
    claims["no privacy, plain search"] = "inf"
    claims["plain search, budget / number of fits"] = "3 + scores"
    claims["plain search, whole budget for every fit"] = f"{true:.1f} + scores"
    runs = Parallel(n_jobs=2)(delayed(one_split)(s, X, y) for s in range(n_seeds))
    scores, seconds = np.array(runs).transpose(1, 2, 0)  # (n_ways, n_seeds) each
    report(
        dict(zip(WAYS, scores, strict=True)),
        claims,
        dict(zip(WAYS, seconds.sum(axis=1), strict=True)),
        n_seeds,
        X.shape,
    )


def report(scores, claims, seconds, n_seeds, shape):
    print("Command: python examples/benchmarks/private_search.py", n_seeds)
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )
    plan = private("auto").plan()
    print(
        f"Adult, {shape[0]} rows, {shape[1]} columns, {N_CANDIDATES} candidates, "
        f"{n_seeds} seeds; 'auto' takes {plan.method!r} with epsilon = "
        f"{plan.fit.epsilon:.3f} for a fit, {plan.expected_runs:.0f} expected runs\n"
    )
    best = np.array(scores["no privacy, plain search"])
    header = f"{'way':42}{'epsilon':>15}{'test score':>17}{'loss':>8}{'CPU s':>8}"
    print(header)
    for way, values in scores.items():
        values = np.array(values)
        error = values.std(ddof=1) / np.sqrt(n_seeds) if n_seeds > 1 else np.nan
        print(
            f"{way:42}{claims[way]:>15}{values.mean():>9.4f} +- {error:.4f}"
            f"{(best - values).mean():>8.4f}{seconds[way] / n_seeds:>8.1f}"
        )
    loss = (best - np.array(scores["DPGridSearchCV, method='auto'"])).max()
    print(f"\nLargest loss of DPGridSearchCV over the seeds: {loss:.4f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
