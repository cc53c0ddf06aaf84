"""What the table encoder makes of categories nobody listed, dates, and few records.

R2 of a `DPLinearRegression` behind a `DPTableEncoder` on fresh rows, simulated tables,
mean and standard error of twelve seeds.

Others: five numbers and four columns of 3, 10 or 40 categories, 3,000 records, nothing
declared: what 32 indicators for categories that no crowd shows give in place of one. In
half of the tables numbers tell most, in half of them categories.

Dates: twelve columns, of which a date tells most of the target; dates of a month, a
year, or a lifetime, that nobody declared, with a declared range, and left out.

Shares: 750 records of ten districts, epsilon 3, a target that is a product of size and
district, by the encoder's share of the budget; and how many districts it shows.

    OMP_NUM_THREADS=1 python examples/benchmarks/encoder_limits.py [PART ...]
"""

import itertools
import platform
import sys
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import sklearn
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.accounting import calibrate_gaussian
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.preprocessing import DPTableEncoder, _encoded
from fairpriv_sklearn.privacy import with_budget

SEEDS = range(900, 912)
DELTA = 1e-5
FRESH = 8000


def fitted(X, y, n, epsilon, seed, codebook=None, shares=None):
    ends = float(y.min()), float(y.max())
    line = make_pipeline(
        DPTableEncoder(codebook, random_state=seed),
        DPLinearRegression(target_bounds=ends, random_state=seed),
    )
    return with_budget(line, epsilon, DELTA, shares=shares).fit(X.iloc[:n], y[:n])


def shown(found):
    found = np.asarray(found)
    error = found.std(ddof=1) / len(found) ** 0.5
    print(f"{found.mean():>+10.3f} ({error:.3f})", end="", flush=True)


def of_categories(n, levels, mostly, rng):
    """A table of five numbers and four columns of categories, and a target."""
    numbers = rng.normal(size=(n, 5))
    codes = rng.integers(levels, size=(n, 4))
    parts = numbers @ rng.normal(size=5), rng.normal(size=(4, levels))
    parts = parts[0], parts[1][np.arange(4), codes].sum(axis=1)
    weights = (0.4, 0.8) if mostly == "categories" else (0.8, 0.4)
    score = sum(w * p / p.std() for w, p in zip(weights, parts, strict=True))
    X = pd.DataFrame(numbers, columns=[f"n{j}" for j in range(5)])
    for j in range(4):
        X[f"c{j}"] = [f"v{code}" for code in codes[:, j]]
    return X, score + 0.45 * rng.normal(size=n)


def others():
    print(f"\n{'others: what tells most':28}{'levels':>8}{'records x mu':>14}", end="")
    print(f"{'epsilon':>9}{'32 less one':>18}")
    n = 3000
    for mostly, levels, epsilon in itertools.product(
        ("numbers", "categories"), (3, 10, 40), (0.17, 0.34, 0.5, 1.0)
    ):
        gains = []
        for seed in SEEDS:
            X, y = of_categories(
                n + FRESH, levels, mostly, np.random.default_rng([seed, levels])
            )
            found = []
            for least in (np.inf, 0.0):
                with mock.patch.object(_encoded, "SIGNAL_OF_INDICATORS", least):
                    model = fitted(X, y, n, epsilon, seed)
                    found.append(model.score(X.iloc[n:], y[n:]))
            gains.append(found[1] - found[0])
        encoder = model[0]
        signal = n * calibrate_gaussian(encoder.epsilon, encoder.delta)
        print(f"{mostly:28}{levels:>8}{signal:>14.0f}{epsilon:>9g}", end="")
        shown(gains)
        print()


def dates():
    print(f"\n{'dates, apart':28}{'records':>8}", end="")
    print(f"{'undeclared':>18}{'declared':>18}{'left out':>18}")
    for days, n in itertools.product((30, 365, 25_000), (3000, 10_000)):
        found = []
        for seed in SEEDS:
            rng = np.random.default_rng([seed, days])
            X = pd.DataFrame(rng.normal(size=(n + FRESH, 11)))
            X.columns = [f"n{j}" for j in range(11)]
            after = rng.uniform(0, days, len(X))
            start = pd.Timestamp("1940-03-01")
            start += pd.Timedelta(int(rng.integers(365 * 15)), "D")
            X["day"] = start + pd.to_timedelta(after.round(), "D")
            y = 0.8 * (after / days - 0.5) * 12**0.5
            y = y + 0.3 * X["n0"].to_numpy() + 0.5 * rng.normal(size=len(X))
            last = start + pd.Timedelta(days, "D")
            ends = [f"{day:%Y-%m-%d}" for day in (start, last)]
            book = {"day": {"kind": "date", "range": ends}}
            ways = (X, None), (X, book), (X.drop(columns="day"), None)
            runs = []
            for table, declared in ways:
                model = fitted(table, y, n, 1.0, seed, declared)
                runs.append(model.score(table.iloc[n:], y[n:]))
            found.append(runs)
        print(f"{days:<28}{n:>8}", end="")
        for runs in np.transpose(found):
            shown(runs)
        print()


def shares():
    print(f"\n{'share of the encoder':28}{'R2':>18}{'districts shown':>18}")
    n = 750
    for share in (0.1, 0.2, 0.3, 0.5):
        found = []
        for seed in SEEDS:
            rng = np.random.default_rng([seed, 10])
            district = rng.integers(10, size=n + FRESH)
            size = rng.uniform(20, 150, n + FRESH)
            price = np.exp(rng.normal(size=10))
            X = pd.DataFrame({"size": size, "district": [f"d{d}" for d in district]})
            y = size * price[district]
            model = fitted(X, y, n, 3.0, seed, shares={"dptableencoder": share})
            names = model[0].get_feature_names_out()
            n_shown = sum(f"district_d{d}" in names for d in range(10))
            found.append((model.score(X.iloc[n:], y[n:]), n_shown))
        print(f"{share:<28}", end="")
        for runs in np.transpose(found):
            shown(runs)
        print()


def main():
    warnings.simplefilter("ignore")
    print("OMP_NUM_THREADS=1 python examples/benchmarks/encoder_limits.py")
    print(
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}, pandas "
        f"{pd.__version__}, Python {platform.python_version()}, {platform.machine()}"
    )
    parts = {f.__name__: f for f in (others, dates, shares)}
    for part in sys.argv[1:] or parts:
        parts[part]()


if __name__ == "__main__":
    main()
