"""Ten classic mistakes, each beside its corrected twin: for anybody's auditor.

They are written as a stranger would, with NumPy's generators and without this library.
The table is in [0, 1] with classes 0 and 1; the claims are in `CASES`.
"""

import numpy as np
from sklearn.base import BaseEstimator

EPSILON, DELTA = 1.0, 1e-5
SIGMA = np.sqrt(2 * np.log(1.25 / DELTA)) / EPSILON  # for a sensitivity of 1


class _Model(BaseEstimator):
    def __init__(self, right=False, epsilon=EPSILON, random_state=None):
        self.right = right
        self.epsilon = epsilon
        self.random_state = random_state

    def _rng(self):
        return np.random.default_rng(self.random_state)


class UnclippedSum(_Model):
    """A sum of cells that may be anything."""

    def fit(self, X, y=None):
        X = np.asarray(X, dtype=float)
        if self.right:
            X = np.clip(X, 0, 1)
        d = X.shape[1]
        self.sum_ = X.sum(axis=0) + self._rng().laplace(0, d / self.epsilon, d)
        return self


class ClassesFromData(_Model):
    """A list of labels that is read from the target."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1]) if self.right else np.unique(y)
        counts = np.array([(y == c).sum() for c in self.classes_])
        self.counts_ = counts + self._rng().laplace(0, 2 / self.epsilon, len(counts))
        return self


class DataSizeAsScale(_Model):
    """The number of rows, private under add/remove, in the scale of the noise."""

    def fit(self, X, y=None):
        total = np.clip(X, 0, 1)[:, 0].sum()
        rng = self._rng()
        if self.right:
            total += rng.laplace(0, 2 / self.epsilon)
            size = len(X) + rng.laplace(0, 2 / self.epsilon)
            self.mean_ = np.clip(total / max(size, 1.0), 0, 1)
        else:
            n = len(X)
            self.mean_ = total / n + rng.laplace(0, 1 / (n * self.epsilon))
        return self


class HalfTheNoise(_Model):
    """A Gaussian release with half the standard deviation."""

    def fit(self, X, y=None):
        sigma = SIGMA if self.right else SIGMA / 2
        mean = np.clip(X, 0, 1)[:, 0].sum()
        self.sum_ = mean + self._rng().normal(0, sigma)
        return self


class WrongRelation(_Model):
    """A histogram with the noise of add/remove, claimed for replace-one."""

    def fit(self, X, y=None):
        counts, _ = np.histogram(np.clip(X[:, 0], 0, 1), bins=5, range=(0, 1))
        scale = (2 if self.right else 1) / self.epsilon
        self.counts_ = counts + self._rng().laplace(0, scale, 5)
        return self


class OneSplitTwice(_Model):
    """Two phases, said to read disjoint halves, that read the same one."""

    def fit(self, X, y=None):
        rng = self._rng()
        half = rng.random(len(X)) < 0.5
        x = np.clip(X[:, 0], 0, 1)
        other = ~half if self.right else half
        self.first_ = x[half].sum() + rng.laplace(0, 1 / self.epsilon)
        self.second_ = x[other].sum() + rng.laplace(0, 1 / self.epsilon)
        return self


class ForgottenComposition(_Model):
    """Five noisy steps, each at the cost of the whole."""

    def fit(self, X, y=None):
        rng = self._rng()
        x = np.clip(X[:, 0], 0, 1)
        steps = 5
        scale = (steps if self.right else 1) / self.epsilon
        self.path_ = []
        w = 0.0
        for _ in range(steps):
            noisy = np.clip(x - w, 0, 1).sum() + rng.laplace(0, scale)
            w = float(np.clip(w + noisy / 1000, 0, 1))
            self.path_.append(noisy)
        return self


class FixedSeed(_Model):
    """Noise that is the same in every fit."""

    def fit(self, X, y=None):
        rng = self._rng() if self.right else np.random.default_rng(0)
        self.sum_ = np.clip(X, 0, 1)[:, 0].sum() + rng.laplace(0, 1 / self.epsilon)
        return self


class DataDependentStopping(_Model):
    """Steps until the exact error is small; how many is published."""

    def fit(self, X, y=None):
        rng = self._rng()
        x = np.clip(X[:, 0], 0, 1)
        steps, w = 8, 0.0
        for self.n_iter_ in range(1, steps + 1):
            noisy = x.sum() - len(x) * w + rng.laplace(0, steps / self.epsilon)
            w += 0.5 * noisy / len(x)
            exact = abs(x.mean() - w)
            if not self.right and exact < 0.3:
                break
        self.coef_ = w
        return self


class PrivateAttribute(_Model):
    """An exact number beside the noisy one."""

    def fit(self, X, y=None):
        total = np.clip(X, 0, 1)[:, 0].sum()
        self.sum_ = total + self._rng().laplace(0, 1 / self.epsilon)
        if not self.right:
            self.largest_ = X.max()
        return self


CASES = [  # class, claim, relation
    (UnclippedSum, EPSILON, "replace_one"),
    (ClassesFromData, EPSILON, "replace_one"),
    (DataSizeAsScale, EPSILON, "add_remove"),
    (HalfTheNoise, (EPSILON, DELTA), "replace_one"),
    (WrongRelation, EPSILON, "replace_one"),
    (OneSplitTwice, EPSILON, "replace_one"),
    (ForgottenComposition, EPSILON, "replace_one"),
    (FixedSeed, EPSILON, "replace_one"),
    (DataDependentStopping, EPSILON, "replace_one"),
    (PrivateAttribute, EPSILON, "replace_one"),
]


def table(seed=0, n=100):
    """An ordinary table: three features in [0, 1] and a target of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, (X[:, 0] + 0.2 * rng.normal(size=n) > 0.5).astype(int)


def leaking():
    """A factory for the command line."""
    X, y = table()
    return {"estimator": PrivateAttribute(), "X": X, "y": y, "claim": EPSILON}


def noisy_mean():
    """A factory for the command line, with a claim of its own."""
    return WrongRelation(right=True)
