"""What the fits by noisy gradients share: strata, public sizes, arguments."""

import math
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import validate_data

from .._door.estimator import DELTA_CONSTRAINT, DPEstimator
from .._door.groups import AttributeBlindMixin, as_table, fit_groups
from .._shared.arrays import Integers
from .._shared.sklearn import Interval
from .._wall import Fact, PrivacyFilter, open_wall
from ._bounded import BOUNDED_CONSTRAINTS, BoundedMixin
from ._counts import LARGEST_MIN_SIZE
from ._progress import CallbackSupportMixin, set_up_callbacks


class NoisyGradientsMixin(AttributeBlindMixin, BoundedMixin, CallbackSupportMixin):
    """Models fitted by noisy gradients of a loss and a penalty between groups.

    Parameters
    ----------
    min_group_size : int, default=None
        Public minimum of the group sizes, in place of noisy counts. Range:
        [1, 4194304].
    verbose : int, default=0
        Whether to print the progress.
    """

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
        if self._ignores_groups(sensitive_features):
            # Without a penalty the groups play no role: the model is plain and private.
            X = as_table(self, X)
            if sensitive_features is not None:
                self._refuse_groups(X, sensitive_features)
            validate_data(self, X, skip_check_array=True)
            groups, facts = None, []
        else:
            groups, X, fact = fit_groups(self, X, sensitive_features)
            facts = [fact]
        self._fitted_with = self._ways_to_read()
        return groups, X, facts

    def _ignores_groups(self, sensitive_features) -> bool:
        """Whether nobody needs the groups: where none is listed they are not read."""
        if self.fairness_weight > 0 or self.sensitive_features is not None:
            return False
        sizes_count = getattr(self, "group_sizes_public", False)
        return sensitive_features is None or (self.groups is None and not sizes_count)

    def _open(self, plan, noise, n_steps=0) -> PrivacyFilter:
        """Open the wall for a plan, of so many steps, and reserve its cost."""
        if n_steps:
            set_up_callbacks(self, n_steps)
        facts = list(self._facts)
        if self.min_group_size is not None:
            facts.append(Fact("min_group_size", self.min_group_size))
        return open_wall(
            self, plan, facts=facts, noise=noise, neighboring=self._relation()
        )

    def _strata(self, groups, n_records: int, labels=None) -> Integers:
        """Private number of each record's stratum; classifiers pass codes of labels.

        Strata are numbered row by row of `_shape`: how many labels there are inside
        which groups are compared, and how many groups.
        """
        n_groups = 2 if groups is None else len(self.groups_)
        by_label = labels is not None and self.constraint != "demographic_parity"
        self._shape = (len(self.classes_) if by_label else 1, n_groups)
        dtype = np.min_scalar_type(math.prod(self._shape) - 1)
        codes = np.zeros(n_records, dtype) if groups is None else groups.astype(dtype)
        if by_label:
            codes += labels.astype(dtype) * dtype.type(n_groups)
        return codes
