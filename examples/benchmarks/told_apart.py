"""How far apart two groups must be before a repair takes them for different.

Two groups with as many rows each, whose logits are normal with means on both sides of
zero: the second of two classes is chosen for .5 - d / 2 of one and .5 + d / 2 of the
other, and their distribution functions of scores are d apart at most. Scores are
public, so nothing but `DP2DPClassifier` at epsilon 1 is measured; all rows calibrate.
Printed: the share of fits that shift the groups; the others leave them alone. Run::

    OMP_NUM_THREADS=1 python examples/benchmarks/told_apart.py

Nothing was chosen on these tables.
"""

import platform
import warnings

import numpy as np
import sklearn
from scipy.special import expit, ndtri
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

import fairpriv_sklearn
from fairpriv_sklearn.postprocessing import DP2DPClassifier, RepairWarning

N_FITS = 100
DIFFERENCES = {
    200: [0.0, 0.13, 0.16, 0.20],
    2000: [0.0, 0.02, 0.03, 0.04],
}


class Scores(ClassifierMixin, BaseEstimator):
    """The only column is the logit of the second class."""

    def fit(self, X=None, y=None):
        self.classes_ = np.arange(2)
        return self

    def predict_proba(self, X):
        return expit(np.column_stack([-X[:, 0], X[:, 0]]))

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


def is_told(n_rows, difference, method, seed):
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], n_rows)
    mean = ndtri(0.5 + difference / 2)
    X = rng.normal(size=2 * n_rows) + np.where(group, mean, -mean)
    model = DP2DPClassifier(
        FrozenEstimator(Scores().fit()),
        method=method,
        epsilon=1.0,
        base_guarantee="public",
        groups=[0, 1],
        classes=[0, 1],
        random_state=seed,
    ).fit(X[:, None], rng.integers(2, size=len(X)), sensitive_features=group)
    return len(model.pooled_groups_) == 0


def main():
    warnings.simplefilter("ignore", RepairWarning)
    print("python examples/benchmarks/told_apart.py")
    print(
        f"fairpriv_sklearn {fairpriv_sklearn.__version__}, scikit-learn "
        f"{sklearn.__version__}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}; {N_FITS} fits each\n"
    )
    print(f"{'rows of each':>12}{'apart':>7}{'gradient':>10}{'histogram':>11}")
    for n_rows, differences in DIFFERENCES.items():
        for difference in differences:
            print(f"{n_rows:>12}{difference:>7.3f}", end="")
            for method, width in (("gradient", 10), ("histogram", 11)):
                told = [is_told(n_rows, difference, method, s) for s in range(N_FITS)]
                print(f"{np.mean(told):>{width}.2f}", end="", flush=True)
            print()


if __name__ == "__main__":
    main()
