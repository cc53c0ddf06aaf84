"""What the fits by noisy gradients share: strata, public sizes, arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import validate_data

from fairpriv_sklearn._door.estimator import DELTA_CONSTRAINT, DPEstimator
from fairpriv_sklearn._door.groups import AttributeBlindMixin, fit_groups
from fairpriv_sklearn._shared.arrays import Integers
from fairpriv_sklearn._shared.sklearn import Interval
from fairpriv_sklearn._training._bounded import BOUNDED_CONSTRAINTS, BoundedMixin
from fairpriv_sklearn._training._counts import LARGEST_MIN_SIZE
from fairpriv_sklearn._training._progress import CallbackSupportMixin


@dataclass(frozen=True)
class Strata:
    """Private codes of the records: the group, and the label inside which it counts.

    Attributes
    ----------
    groups, labels : ndarray of shape (n_records,), of the least type for codes
        `labels` is all zero where groups are compared as a whole.
    shape : tuple of int
        Number of labels compared inside, and of groups.
    """

    groups: Integers
    labels: Integers
    shape: tuple[int, int]

    @property
    def codes(self) -> Integers:
        """Number of each record's stratum, row by row of `shape`."""
        if self.shape[0] == 1:
            return self.groups
        return self.labels * self.labels.dtype.type(self.shape[1]) + self.groups

    def counts(self) -> Integers:
        """Number of records in every stratum."""
        counts = np.bincount(self.codes, minlength=math.prod(self.shape))
        return counts.reshape(self.shape)


class NoisyGradientsMixin(AttributeBlindMixin, BoundedMixin, CallbackSupportMixin):
    """Models fitted by noisy gradients of a loss and a penalty between groups."""

    _parameter_constraints: dict = {
        **DPEstimator._parameter_constraints,
        **DELTA_CONSTRAINT,
        "bounds": BOUNDED_CONSTRAINTS["bounds"],
        "data_norm": BOUNDED_CONSTRAINTS["data_norm"],
        "fairness_weight": [Interval(Real, 0, 1, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "min_group_size": [
            None,
            Interval(Integral, 1, LARGEST_MIN_SIZE, closed="both"),
        ],
        "groups": [None, "array-like"],
        "verbose": ["verbose"],
    }

    def _relation(self) -> str:
        """Which tables are neighbours; inside a group if the sizes are public."""
        return self.neighboring

    def _fit_groups(self, X, sensitive_features):
        """Group codes (None without groups), the model's `X`, public facts."""
        if (
            self.fairness_weight == 0
            and self.sensitive_features is None
            and sensitive_features is None
        ):
            # Without a penalty the groups play no role: the model is plain and private.
            X = X if hasattr(X, "shape") else np.asarray(X)
            validate_data(self, X, skip_check_array=True)
            return None, X, []
        groups, X, fact = fit_groups(self, X, sensitive_features)
        return groups, X, [fact]

    def _group_strata(self, groups, n_records: int, labels=None) -> Strata:
        """Strata of the records; classifiers pass their codes of the labels."""
        n_groups = 2 if groups is None else len(self.groups_)
        by_label = labels is not None and self.constraint != "demographic_parity"
        shape = (len(self.classes_) if by_label else 1, n_groups)
        dtype = np.min_scalar_type(math.prod(shape) - 1)
        zeros = np.zeros(n_records, dtype=dtype)
        groups = zeros if groups is None else groups.astype(dtype)
        return Strata(groups, labels.astype(dtype) if by_label else zeros, shape)
