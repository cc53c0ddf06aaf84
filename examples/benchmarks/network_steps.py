"""Networks on real tables: how long their steps may be beside noise.

Without a penalty, epsilon 1 unless said, in bounds of round numbers (targets) or of the
table (features). R2 of numbers as targets, all other numbers as features, mean of six
splits; accuracy and mean log likelihood of four tables with classes, eight splits; the
part of the variance that an autoencoder of two components keeps, of simulated tables,
five seeds, on 4,000 fresh rows. `reach` and the limits
of the line search were chosen on other simulated tables, and a prior's rate was held
against settings of `bad_bargain.py`; the real tables were not looked at. Run::

    python examples/benchmarks/network_steps.py
"""

import platform
import warnings

import numpy as np
import sklearn
from wide_targets import TABLES, numbers, rounded

from fairpriv_sklearn.datasets import (
    fetch_adult,
    fetch_communities_crime,
    fetch_credit_default,
    fetch_law_school,
)
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)

MORE = {
    fetch_adult: ["education-num"],
    fetch_credit_default: ["AGE", "BILL_AMT6", "PAY_AMT6"],
}
CLASSES = fetch_adult, fetch_credit_default, fetch_law_school, fetch_communities_crime
SIZES = 1000, 5000


def split(n, n_train, seed):
    order = np.random.default_rng(seed).permutation(n)
    return order[:n_train], order[n_train : n_train + 8000]


def regressors():
    for fetch, targets in TABLES.items():
        for target in [*targets, *MORE.get(fetch, [])]:
            X, y = numbers(fetch, target)
            low, high = rounded(X.min(axis=0)), rounded(X.max(axis=0))
            low, high = np.minimum(low, 0), np.maximum(high, low + 1)
            ends = rounded(np.array([min(y.min(), 0.0), max(y.max(), 0.0)]))
            for n in SIZES[: 2 if len(y) > 7000 else 1]:
                found = []
                for seed in range(6):
                    train, test = split(len(y), n, seed)
                    model = DPWassersteinMLPRegressor(
                        fairness_weight=0,
                        bounds=(low, high),
                        target_bounds=tuple(ends),
                        random_state=seed,
                    ).fit(X[train], y[train])
                    found.append(model.score(X[test], y[test]))
                name = f"{fetch.__name__[6:]} {target or ''}"
                print(f"{name:32}{n:>6}{np.mean(found):>9.3f}", flush=True)


def classifiers():
    for fetch in CLASSES:
        X, y = numbers(fetch, None, as_float=False)
        if y.dtype.kind == "f":
            y = y > np.median(y)
        classes, y = np.unique(y, return_inverse=True)
        low, high = X.min(axis=0), np.maximum(X.max(axis=0), X.min(axis=0) + 1)
        for n in SIZES[: 2 if len(y) > 7000 else 1]:
            for epsilon in (0.3, 1.0, 3.0):
                found = []
                for seed in range(8):
                    train, test = split(len(y), n, seed)
                    model = DPWassersteinMLPClassifier(
                        fairness_weight=0,
                        epsilon=epsilon,
                        bounds=(low, high),
                        classes=list(range(len(classes))),
                        random_state=seed,
                    ).fit(X[train], y[train])
                    p = model.predict_proba(X[test])
                    told = p[np.arange(len(test)), y[test]]
                    right = np.mean(p.argmax(axis=1) == y[test])
                    found.append((right, np.log(np.maximum(told, 1e-9)).mean()))
                name, (right, likely) = fetch.__name__[6:], np.mean(found, axis=0)
                print(f"{name:26}{n:>6}{epsilon:>6}{right:>9.3f}{likely:>9.3f}")


def autoencoders():
    for d in (8, 40):
        for n, epsilon in ((1000, 1.0), (4000, 0.3), (4000, 3.0)):
            found = []
            for seed in range(5):
                rng = np.random.default_rng([seed, n, d])
                X = rng.normal(size=(n + 4000, 5)) @ rng.normal(size=(5, d)) * 0.15
                X = np.clip(X + 0.2 * rng.normal(size=X.shape), -1, 1)
                model = DPWassersteinAutoencoder(
                    fairness_weight=0,
                    epsilon=epsilon,
                    bounds=(-1, 1),
                    random_state=seed,
                ).fit(X[:n])
                fresh = X[n:]
                lost = fresh - model.inverse_transform(model.transform(fresh))
                found.append(1 - np.mean(lost**2) / fresh.var(axis=0).mean())
            print(f"autoencoder, {d:>2} columns   {n:>6}{epsilon:>6}", end="")
            print(f"{np.mean(found):>9.3f}", flush=True)


def main():
    warnings.simplefilter("ignore")
    print("python examples/benchmarks/network_steps.py")
    print(
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}"
    )
    regressors()
    classifiers()
    autoencoders()


if __name__ == "__main__":
    main()
