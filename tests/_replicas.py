"""Small replicas of breaches that this library once had, each in a few lines.

An auditor has to find each on an ordinary table, with neighbours of its own making. The
numbers are those of the list that the mended library was held against. Most replicas
release through the library's mechanisms; the flaw is in what surrounds them.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fairpriv_sklearn._door.estimator import DPEstimator
from fairpriv_sklearn.accounting import GaussianEvent, PureEvent, gaussian_mu
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    noise_source,
)
from fairpriv_sklearn.privacy import PrivacyGuarantee

MU = gaussian_mu(1.0, 1e-5) * (1 - 1e-6)


def gaussian_guarantee(n_draws=1, relation="replace_one"):
    return PrivacyGuarantee.from_events(
        [GaussianEvent(MU, n_draws)],
        delta=1e-5,
        neighboring=relation,
        mechanism="Gaussian sums",
    )


def pure_guarantee(epsilon=1.0, relation="replace_one"):
    return PrivacyGuarantee.from_events(
        [PureEvent(epsilon)], delta=0.0, neighboring=relation, mechanism="counts"
    )


def release(values, sensitivity):
    values = np.atleast_1d(np.asarray(values, dtype=float))
    return GaussianMechanism(sensitivity, MU, values.size).release(
        values, noise_source()
    )


class _Replica(BaseEstimator):
    """Clips to [0, 1], sums, releases; what a replica gets wrong is its `sums`."""

    relation = "replace_one"

    def fit(self, X, y=None):
        sums, sensitivity = self.sums(X, y)
        self.sums_ = release(sums, sensitivity)
        self.privacy_ = gaussian_guarantee(self.sums_.size, self.relation)
        return self


class SpreadsTwins(BaseEstimator):
    """A repair that sends identical rows to different places, by their order."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        X = np.asarray(X, dtype=float)
        _, inverse = np.unique(X, axis=0, return_inverse=True)
        seen: dict = {}
        out = np.empty(len(X))
        for i, key in enumerate(inverse.ravel()):
            seen[key] = seen.get(key, 0) + 1
            out[i] = (seen[key] * 0.6180339887) % 1.0
        first = np.lexsort(X.T[::-1])[0]  # and by who comes first in the whole table
        return ((out + X[first].sum()) % 1.0)[:, None]


class Sums(_Replica):
    """Correct sums of clipped features."""

    def sums(self, X, y):
        return np.clip(X, 0, 1).sum(axis=0), np.sqrt(X.shape[1])


def a1_twins_move():
    return make_pipeline(SpreadsTwins(), Sums()), (1.0, 1e-5)


class A2MonotonicChoice(BaseEstimator):
    """A leaf's label by a choice that is private for add/remove only."""

    def fit(self, X, y):
        counts = np.bincount(np.asarray(y).astype(int) > 0, minlength=2)
        # Permute and flip: in random order, each with probability exp(u - max u)
        for label in np.random.default_rng().permutation(2):
            if np.random.default_rng().random() < np.exp(counts[label] - counts.max()):
                self.label_ = int(label)
                break
        self.privacy_ = pure_guarantee()
        return self


class A3LostSwitch(_Replica):
    """A switch for shared draws that a thread does not see."""

    def sums(self, X, y):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            scores = pool.submit(SpreadsTwins().transform, X).result()
        return scores.sum(), 1.0


class A5SparseDuplicates(_Replica):
    """Stored entries are checked, their sums are not."""

    def sums(self, X, y):
        if sparse.issparse(X):
            if not np.isfinite(X.data).all():
                raise ValueError("X must be finite.")
            X = X.toarray()
        with np.errstate(all="ignore"):
            norms = np.linalg.norm(X, axis=1, keepdims=True)
            rows = X / np.maximum(norms, 1.0)
            units = np.trunc(rows * 2.0**20).astype(np.int64)
        return units.sum(axis=0) * 2.0**-20, 2.0


class A6TargetInItsOwnType(_Replica):
    """A target that is scaled in half precision."""

    relation = "add_remove"

    def sums(self, X, y):
        with np.errstate(all="ignore"):
            scaled = np.clip(y, np.asarray(0, y.dtype), np.asarray(1, y.dtype))
            units = np.trunc(scaled * np.asarray(2.0**20, y.dtype)).astype(np.int64)
        return units.sum() * 2.0**-20, 1.0


def a7_a_base_that_warns():
    return make_pipeline(FunctionTransformer(np.log1p), _Finite()), (1.0, 1e-5)


class _Finite(_Replica):
    def sums(self, X, y):
        return np.clip(np.nan_to_num(X), 0, 1).sum(axis=0), np.sqrt(X.shape[1])


class A9ReceiptOfTheData(_Replica):
    """A guarantee that depends on whether there is more than one class."""

    def fit(self, X, y):
        super().fit(X, y)
        if len(np.unique(y)) < 2:
            self.privacy_ = PrivacyGuarantee.from_events(
                [], delta=0.0, neighboring="replace_one", mechanism="a constant"
            )
        return self

    def sums(self, X, y):
        return np.clip(X, 0, 1).sum(axis=0), np.sqrt(X.shape[1])


class A10TinySmoothing(_Replica):
    """A softmax that divides by a subnormal number."""

    def __init__(self, smoothing=5e-309):
        self.smoothing = smoothing

    def sums(self, X, y):
        with np.errstate(all="ignore"):
            scores = np.clip(X[:, :2], 0, 1) / self.smoothing
            soft = np.exp(scores - scores.max(axis=1, keepdims=True))
            soft /= soft.sum(axis=1, keepdims=True)
            units = np.trunc(soft * 2.0**20).astype(np.int64)
        return units.sum(axis=0) * 2.0**-20, np.sqrt(2)


class A11SamplerNotPaid(BaseEstimator):
    """Noisy numbers whose sampler's error nobody paid for."""

    def fit(self, X, y=None):
        rows = np.clip(X, 0, 1)
        mu = gaussian_mu(1.0, 1e-5)
        sums = np.repeat(rows.sum(axis=0), 1000) / np.sqrt(1000)
        mechanism = GaussianMechanism(np.sqrt(X.shape[1]), mu, sums.size)
        self.sums_ = mechanism.release(sums, noise_source())
        self.privacy_ = PrivacyGuarantee.from_events(
            [GaussianEvent(mu, 0)],
            delta=1e-5,
            neighboring="replace_one",
            mechanism="Gaussian sums",
        )
        return self


class A18ReceiptBeforeTheRelease(Sums):
    """A guarantee that is there before anything was released."""

    def fit(self, X, y=None):
        self.privacy_ = gaussian_guarantee(X.shape[1])
        return super().fit(X, y)


class A20KeepsEarlierReleases(Sums):
    """Attributes of an earlier fit with another method stay."""

    from sklearn.utils._param_validation import StrOptions

    _parameter_constraints = {"method": [StrOptions({"sums", "means"})]}
    del StrOptions

    def __init__(self, method="sums"):
        self.method = method

    def fit(self, X, y=None):
        if self.method == "means":
            self._means = release(np.clip(X, 0, 1).mean(axis=0), 1.0)
            self.privacy_ = gaussian_guarantee(X.shape[1])
            return self
        return super().fit(X, y)


class A21NewReceiptOverOldModel(Sums):
    """The guarantee is set first and the model last."""

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        rows = np.clip(X, 0, 1)
        mu = gaussian_mu(self.epsilon, 1e-5) * (1 - 1e-6)
        self.privacy_ = PrivacyGuarantee.from_events(
            [GaussianEvent(mu, X.shape[1])],
            delta=1e-5,
            neighboring="replace_one",
            mechanism="Gaussian sums",
        )
        mechanism = GaussianMechanism(np.sqrt(X.shape[1]), mu, X.shape[1])
        self.sums_ = mechanism.release(rows.sum(axis=0), noise_source())
        return self


class PicksColumns(BaseEstimator):
    """Chooses its columns by the rows."""

    def fit(self, X, y=None):
        self.columns_ = np.flatnonzero(np.asarray(X).max(axis=0) > 1.5)
        return self

    def transform(self, X):
        return np.column_stack([X[:, 0], X[:, self.columns_]])


def a23_columns_by_the_rows():
    return make_pipeline(PicksColumns(), Sums()), (1.0, 1e-5)


class A25QuotesACell(_Replica):
    """An error about a cell, with the cell in it."""

    def sums(self, X, y):
        return np.clip(np.asarray(X, dtype=float), 0, 1).sum(axis=0), 2.0


class A26WarnsInside(Sums):
    """A check of finiteness that sums the table, and warns."""

    def sums(self, X, y):
        X = np.asarray(X, dtype=np.float64)
        if not np.isfinite(X.sum() - X.sum()):
            warnings.warn("invalid value encountered in reduce", RuntimeWarning, 2)
        return super().sums(X, y)


class Counts(DPEstimator):
    """Nothing wrong: counts of the classes through the mechanism."""

    def fit(self, X, y):
        counts = np.bincount(np.asarray(y).astype(int) > 0, minlength=2)
        mechanism = DiscreteLaplaceMechanism(2, 1.0)
        self.counts_ = mechanism.release(counts, noise_source())
        self.privacy_ = pure_guarantee(mechanism.epsilon_spent)
        return self


# Name, estimator, claim (None: its own), relation, whether the target is a number
REPLICAS = [
    ("A1", *a1_twins_move(), None, False),
    ("A2", A2MonotonicChoice(), None, None, False),
    ("A3", A3LostSwitch(), None, None, False),
    ("A5", A5SparseDuplicates(), None, None, False),
    ("A6", A6TargetInItsOwnType(), None, None, True),
    ("A7", *a7_a_base_that_warns(), None, False),
    ("A9", A9ReceiptOfTheData(), None, None, False),
    ("A10", A10TinySmoothing(), None, None, False),
    ("A11", A11SamplerNotPaid(), None, None, False),
    ("A18", A18ReceiptBeforeTheRelease(), None, None, False),
    ("A20", A20KeepsEarlierReleases(), None, None, False),
    ("A21", A21NewReceiptOverOldModel(), None, None, False),
    ("A23", *a23_columns_by_the_rows(), None, False),
    ("A25", A25QuotesACell(), None, None, False),
    ("A26", A26WarnsInside(), None, None, False),
]
