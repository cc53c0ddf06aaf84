"""Scores that are nearly the same for everybody, and classes that nobody gets.

A classifier that learnt little gives everybody nearly the same probability, and one of
three classes may be chosen for nobody. A repair must not make groups differ there that
are alike, and should still part those that are not. The wrapped model is a fixed
function of one column, public, so that nothing but `DP2DPClassifier` is measured; all
rows calibrate, at epsilon 1. The logit of the second of two classes is `slope` times a
standard normal plus `level`, the same in all groups ("alike") or with means .6, -.6 and
0 in turn ("apart"); a third class has probability `third` for everybody. Gaps are
demographic parity differences of fresh people, over groups of 5 % or more.

    OMP_NUM_THREADS=1 python examples/benchmarks/flat_scores.py

Constants were chosen on seeds 0 to 429 of such tables; those printed are others.
"""

import platform
import sys
import warnings

import numpy as np
import sklearn
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

import fairpriv_sklearn
from fairpriv_sklearn.metrics import demographic_parity_difference
from fairpriv_sklearn.postprocessing import DP2DPClassifier, RepairWarning

SEEDS = range(1000, 1020)
GROUPS = {
    "three": [0.4, 0.3, 0.3],
    "seven": [0.32, 0.25, 0.1, 0.005, 0.005, 0.31, 0.01],
}
TABLES = [  # rows, slope, level, third
    *[(n, 0.02, 0.02, 0.0) for n in (800, 6000, 20_000)],
    *[(n, 0.1, 0.05, 0.0) for n in (800, 6000, 20_000)],
    *[(n, 0.3, 0.1, 0.0) for n in (800, 6000)],
    *[(n, 1.0, -0.5, 0.0) for n in (800, 6000)],
    *[(n, 6.0, 0.0, 0.0) for n in (800, 6000)],
    *[(n, 0.02, -0.07, 0.01) for n in (200, 800, 3000)],
    *[(n, 1.0, -0.5, 0.01) for n in (200, 800, 3000)],
    *[(n, 1.5, -0.5, 0.1) for n in (200, 800, 3000)],
    *[(n, 1.0, 0.0, 0.3) for n in (200, 800, 3000)],
]


class Flat(ClassifierMixin, BaseEstimator):
    """Probabilities by the only column."""

    def __init__(self, slope=1.0, level=0.0, third=0.0):
        self.slope = slope
        self.level = level
        self.third = third

    def fit(self, X=None, y=None):
        self.classes_ = np.arange(3 if self.third else 2)
        return self

    def predict_proba(self, X):
        p = expit(self.slope * X[:, 0] + self.level)
        p = np.column_stack([1 - p, p, np.zeros_like(p)]) * (1 - self.third)
        p[:, 2] = self.third
        return p[:, : len(self.classes_)]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def people(n, shares, means, rng):
    codes = rng.choice(len(shares), p=shares, size=n)
    X = rng.normal(size=(n, 1)) + means[codes, None]
    return X, rng.integers(2, size=n), codes


def once(model, n, shares, means, seed):
    """Gaps before and after, and whether some group was steered."""
    rng = np.random.default_rng(seed)
    X, y, codes = people(n, shares, means, rng)
    repaired = DP2DPClassifier(
        FrozenEstimator(model),
        epsilon=1.0,
        base_guarantee="public",
        groups=range(len(shares)),
        classes=model.classes_,
        random_state=seed,
    ).fit(X, y, sensitive_features=codes)
    X, y, codes = people(100_000, shares, means, rng)
    large = np.isin(codes, np.flatnonzero(np.array(shares) >= 0.05))
    X, y, codes = X[large], y[large], codes[large]

    def gap(decided):
        return demographic_parity_difference(y, decided, sensitive_features=codes)

    after = gap(repaired.predict(X, sensitive_features=codes))
    return gap(model.predict(X)), after, len(repaired.pooled_groups_) < len(shares)


def main():
    warnings.simplefilter("ignore", RepairWarning)
    print("python " + " ".join(sys.argv))
    print(
        f"fairpriv_sklearn {fairpriv_sklearn.__version__}, scikit-learn "
        f"{sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}; {len(SEEDS)} seeds, means "
        "(standard errors)\n"
    )
    print(
        f"{'groups':14}{'rows':>6}{'slope':>7}{'level':>7}{'third':>7}{'before':>9}"
        f"{'after':>17}{'> .1 more':>11}{'steered':>9}"
    )
    for how, means in (("alike", [0.0]), ("apart", [0.6, -0.6, 0.0])):
        for name, shares in GROUPS.items():
            for n, *settings in TABLES:
                model = Flat(*settings).fit()
                of_groups = np.resize(means, len(shares))
                found = [once(model, n, shares, of_groups, seed) for seed in SEEDS]
                before, after, steered = np.array(found, dtype=float).T
                error = after.std() / (len(after) - 1) ** 0.5
                cells = [f"{name + ', ' + how:14}{n:>6}"]
                cells += [f"{x:>7g}" for x in settings]
                cells += [f"{before.mean():>9.3f}{after.mean():>9.3f} ({error:.3f})"]
                cells += [f"{(after - before > 0.1).sum():>11}{steered.mean():>9.2f}"]
                print("".join(cells), flush=True)


if __name__ == "__main__":
    main()
