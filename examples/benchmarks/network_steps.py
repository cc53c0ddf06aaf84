"""Networks on real tables: how long their steps may be beside noise.

Without a penalty, epsilon 1 unless said, in bounds of round numbers (targets) or of the
table (features). R2 of numbers as targets, all other numbers as features, mean of six
splits; accuracy and mean log likelihood of four tables with classes, eight splits; the
part of the variance that an autoencoder of two components keeps, of simulated tables,
five seeds, on 4,000 fresh rows; and what mixed units of the first layer give on
simulated targets, R2 or the part of the log loss of shares that is saved, eight seeds,
on 8,000 fresh rows. `reach`, from where on units are mixed and how many are "relu", and
the limits of the line search were chosen on other simulated tables, and a prior's rate
was held against settings of `bad_bargain.py`; the real tables were not looked at.
Run::

    python examples/benchmarks/network_steps.py
"""

import platform
import warnings
from unittest import mock

import numpy as np
import sklearn
from sklearn.metrics import log_loss
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
    _base,
)

MORE = {
    fetch_adult: ["education-num"],
    fetch_credit_default: ["AGE", "BILL_AMT6", "PAY_AMT6"],
}
CLASSES = fetch_adult, fetch_credit_default, fetch_law_school, fetch_communities_crime
SIZES = 1000, 5000
STARTS = [
    ("linear", "numbers"),
    ("additive", "numbers"),
    ("exclusive or", "numbers"),
    ("disc", "numbers"),
    ("linear", "log-normal"),
    ("linear", "zeros but .2"),
    ("linear", "class of .5"),
    ("exclusive or", "class of .5"),
    ("disc", "class of .5"),
    ("linear", "class of .1"),
]


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


def drawn(kind, form, n, d, seed):
    """Features in [-1, 1], and targets of which a score tells 4/5, or classes."""
    rng = np.random.default_rng([seed, n, d])
    X, weights = rng.uniform(-1, 1, (n, d)), rng.normal(size=(2, d))
    score = {
        "linear": X @ weights[0],
        "additive": np.sin(3 * X) @ weights[0] + 3 * np.abs(X) @ weights[1],
        "exclusive or": np.sign(X[:, 0] * X[:, 1]),
        "disc": 1.0 * (X[:, 0] ** 2 + X[:, 1] ** 2 < 0.64),
    }[kind]
    score = (score - score.mean()) / score.std()
    if form == "numbers":
        return X, score + 0.5 * rng.normal(size=n)
    if form == "log-normal":
        return X, np.exp(score + 0.4 * rng.normal(size=n))
    chance = 2 * score + rng.logistic(size=n)
    is_some = chance > np.quantile(chance, 1 - float(form[-2:]))
    if form.startswith("zeros"):
        return X, is_some * np.exp(0.5 * score + 0.5 * rng.normal(size=n))
    return X, is_some.astype(int)


def gained(kind, form, n, d, seed, wide):
    X, y = drawn(kind, form, n + 8000, d, seed)
    given = {"fairness_weight": 0, "bounds": (-wide, wide), "random_state": seed}
    if not form.startswith("class"):
        ends = min(y.min(), 0.0), y.max()
        model = DPWassersteinMLPRegressor(target_bounds=ends, **given)
        return model.fit(X[:n], y[:n]).score(X[n:], y[n:])
    model = DPWassersteinMLPClassifier(classes=[0, 1], **given).fit(X[:n], y[:n])
    shares = np.bincount(y[n:]) / 8000
    lost = log_loss(y[n:], model.predict_proba(X[n:]))
    return 1 - lost / -(shares @ np.log(shares))


def starts():
    print(f"{'units of the first layer':36}{'rows':>6}{'tanh':>9}{'now':>9}{'gain':>9}")
    for d, n in ((3, 4500), (6, 5000)):
        for kind, form in STARTS:
            for wide in (1, 10):
                case = kind, form, n, d
                now = np.array([gained(*case, 900 + i, wide) for i in range(8)])
                with mock.patch.object(_base, "SIGNAL_OF_BENDS", np.inf):
                    tanh = np.array([gained(*case, 900 + i, wide) for i in range(8)])
                error = (now - tanh).std(ddof=1) / 8**0.5
                name = f"{kind}, {form}, {d}" + (", wide" if wide > 1 else "")
                print(f"{name:36}{n:>6}{tanh.mean():>9.3f}{now.mean():>9.3f}", end="")
                print(f"{(now - tanh).mean():>+9.3f} ({error:.3f})", flush=True)


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
    starts()


if __name__ == "__main__":
    main()
