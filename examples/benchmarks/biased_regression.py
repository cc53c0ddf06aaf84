"""Continuous regression repair on untouched seeds, beside the design's column.

`make_biased_regression(n_samples=60000)`: a linear model fitted on 20,000 rows, its
scores with .8 added for the third group, 10,000 rows to calibrate, 30,000 to test,
bounds (-5, 5), default bins. Mean squared change and Kolmogorov-Smirnov gap of fresh
people, ten seeds of the noise and of the split, beside the numbers that were asked for.
Answers are also compared row by row with those of batches. Run::

    python examples/benchmarks/biased_regression.py
"""

import platform
import sys

import numpy as np
import sklearn
from sklearn.linear_model import LinearRegression

import fairpriv_sklearn
from fairpriv_sklearn.datasets import make_biased_regression
from fairpriv_sklearn.metrics import ks_parity_difference
from fairpriv_sklearn.postprocessing import DPBarycenterTransformer

SEEDS = range(10)
ASKED = {np.inf: (0.1378, 0.024), 1.0: (0.1426, 0.023), 0.1: (0.1459, 0.041)}


def once(scores, group, epsilon, seed):
    order = np.random.default_rng(seed).permutation(len(scores))
    calibrate, test = order[:10_000], order[10_000:]
    repair = DPBarycenterTransformer(
        epsilon=epsilon, bounds=(-5, 5), groups=[0, 1, 2], random_state=seed
    ).fit(scores[calibrate], sensitive_features=group[calibrate])
    fair = repair.transform(scores[test], sensitive_features=group[test])
    parts = [
        repair.transform(scores[rows], sensitive_features=group[rows])
        for rows in np.array_split(test, 7)
    ]
    assert np.array_equal(fair, np.concatenate(parts))
    change = np.mean((fair - scores[test].clip(-5, 5)) ** 2)
    answers = fair[:, 0]
    gap = ks_parity_difference(answers, answers, sensitive_features=group[test])
    return change, gap, len(np.unique(answers))


def main():
    print("python " + " ".join(sys.argv))
    print(
        f"fairpriv_sklearn {fairpriv_sklearn.__version__}, scikit-learn "
        f"{sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}; {len(SEEDS)} seeds"
    )
    X, y, group = make_biased_regression(n_samples=60_000, random_state=0)
    scores = LinearRegression().fit(X[:20_000], y[:20_000]).predict(X[20_000:])
    group = group[20_000:]
    scores = (scores + 0.8 * (group == 2)).reshape(-1, 1)
    print(f"{'epsilon':>8}{'asked':>16}{'found':>16}{'s.e.':>16}", end="")
    print(f"{'beyond, s.e.':>14}{'values':>8}")
    for epsilon, asked in ASKED.items():
        runs = np.array([once(scores, group, epsilon, seed) for seed in SEEDS])
        mean = runs.mean(axis=0)
        error = runs.std(axis=0, ddof=1) / len(SEEDS) ** 0.5
        beyond = (mean[:2] - asked) / error[:2]
        print(f"{epsilon:>8}", end="")
        for change, gap in (asked, mean[:2], error[:2]):
            print(f"{change:>9.4f}/{gap:.4f}", end="")
        print(f"{beyond[0]:>+7.1f}/{beyond[1]:+.1f}{runs[:, 2].min():>10.0f}")


if __name__ == "__main__":
    main()
