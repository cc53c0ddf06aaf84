"""Small tables of many rare categories: what a larger budget learns of them.

Twelve columns of up to 25 categories, most of them rare, in the form that the table
encoder gives them; four columns hang together and tell the target, and in the second
half of the lines all categories have small effects, too. The mean squared error on
3,000 fresh rows, by the variance of the target; beside it scikit-learn's ridge
regression with a penalty chosen by cross-validation, which is not private.

No constant was chosen on these seeds.

Run with ``OMP_NUM_THREADS=1 python examples/benchmarks/more_budget.py [tables]``.
"""

import platform
import sys

import numpy as np
import sklearn
from sklearn.linear_model import RidgeCV

from fairpriv_sklearn.linear_model import DPLinearRegression

EPSILONS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
ROWS = (300, 600, 2000)
FRESH, COLUMNS, LEVELS = 3000, 12, 25
FIRST_SEED = 9200


def table(seed, n, effects):
    rng = np.random.default_rng(seed)
    size = n + FRESH
    shares = 1 / np.arange(1, LEVELS + 1) ** 1.2
    cells = rng.choice(LEVELS, size=(size, COLUMNS), p=shares / shares.sum())
    hidden = rng.normal(size=size)
    near = hidden[:, None] + 0.7 * rng.normal(size=(size, 4))
    cells[:, :4] = near.argsort(axis=0).argsort(axis=0) * 6 // size
    own = rng.normal(size=(COLUMNS, LEVELS)) * rng.exponential(size=(COLUMNS, 1))
    scores = own[np.arange(COLUMNS), cells].sum(axis=1)
    scores = (scores - scores.mean()) / scores.std()
    y = hidden + effects * scores + rng.normal(size=size)
    one_hot = (cells[:, :, None] == np.arange(LEVELS)).reshape(size, -1)
    return one_hot / np.sqrt(COLUMNS), y


def error(model, X, y, n):
    off = model.fit(X[:n], y[:n]).predict(X[n:]) - y[n:]
    return np.mean(off**2) / y[n:].var()


def main(n_tables=20):
    print("OMP_NUM_THREADS=1 python examples/benchmarks/more_budget.py", n_tables)
    versions = f"numpy {np.__version__}, scikit-learn {sklearn.__version__}"
    print(f"Python {platform.python_version()}, {versions}\n")
    heads = "".join(f"{epsilon:8g}" for epsilon in EPSILONS)
    print(f"rows  effects  epsilon{heads}   ridge")
    for effects in (0.0, 0.8):
        for n in ROWS:
            errors = []
            for seed in range(FIRST_SEED, FIRST_SEED + n_tables):
                X, y = table(seed, n, effects)
                models = [
                    DPLinearRegression(
                        epsilon=epsilon,
                        data_norm=1.0,
                        target_bounds=(-7, 7),
                        random_state=seed,
                    )
                    for epsilon in EPSILONS
                ]
                models.append(RidgeCV(np.logspace(-4, 3, 20)))
                errors.append([error(model, X, y, n) for model in models])
            means = "".join(f"{one:8.3f}" for one in np.mean(errors, axis=0))
            print(f"{n:4d}  {effects:7g}         {means}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
