"""What the fits by noisy gradients share: cells, budget, public sizes, receipt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from fairpriv_sklearn._base import DELTA_CONSTRAINT, DPEstimator, public_fact
from fairpriv_sklearn._groups import AttributeBlindMixin, fit_groups
from fairpriv_sklearn._sklearn import Interval
from fairpriv_sklearn._training._bounded import (
    BOUNDED_CONSTRAINTS,
    COUNT_SHARE,
    BoundedLinearMixin,
)
from fairpriv_sklearn._training._progress import CallbackSupportMixin
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    PrivacyEvent,
    calibrate_gaussian,
)
from fairpriv_sklearn.mechanisms import GaussianMechanism, NoiseSource
from fairpriv_sklearn.privacy import PrivacyGuarantee

Integers = NDArray[np.int64]

SIZES_PUBLIC = ("replace_one_in_group", "replace_one_in_cell")
"""Relations under which the sizes of the cells are public."""

LARGEST_FLOOR = 1 << 22
"""A floor above this lowers the noise no more, and costs memory for dummies."""


@dataclass(frozen=True)
class Cells:
    """Private codes of the records: the group, and the label inside which it counts.

    Attributes
    ----------
    groups, labels : ndarray of shape (n_records,), int64
        `labels` is all zero where groups are compared as a whole.
    shape : tuple of int
        Number of labels compared inside, and of groups.
    """

    groups: Integers
    labels: Integers
    shape: tuple[int, int]

    @property
    def codes(self) -> Integers:
        """Number of each record's cell, row by row of `shape`."""
        return self.labels * self.shape[1] + self.groups

    def counts(self) -> Integers:
        """Number of records in every cell."""
        counts = np.bincount(self.codes, minlength=math.prod(self.shape))
        return counts.reshape(self.shape)


@dataclass(frozen=True)
class Budget:
    """How the budget of a fit is shared out; public numbers only.

    Attributes
    ----------
    event : PrivacyEvent
        What the accounting composes.
    mu_step : float
        Gaussian-DP parameter of one gradient.
    n_counts : int
        Noisy counts that are released first: one per cell, the total, or none.
    mu_counts : float
        Gaussian-DP parameter of the counts.
    """

    event: PrivacyEvent
    mu_step: float
    n_counts: int = 0
    mu_counts: float = math.inf

    @classmethod
    def split(cls, mu: float, *, n_steps: int, n_draws: int, n_counts: int) -> Budget:
        """Share out the parameter of a fit with `n_draws` noisy numbers in all."""
        share = math.sqrt(1 - COUNT_SHARE**2) if n_counts else 1.0
        mu_step = share * mu / math.sqrt(n_steps)
        return cls(GaussianEvent(mu, n_draws), mu_step, n_counts, COUNT_SHARE * mu)


@dataclass(frozen=True)
class Sizes:
    """Public sizes: what the loss is divided by, and the floors of the cells."""

    n_records: float
    floors: Integers


def public_sizes(
    cells: Cells,
    budget: Budget,
    noise: NoiseSource,
    *,
    floor: int | None,
    neighboring: str,
) -> Sizes:
    """Release noisy counts, and turn them into floors and the number of records."""
    counts, n_records = cells.counts(), len(cells.groups)
    if budget.mu_step == math.inf or neighboring in SIZES_PUBLIC:
        return Sizes(n_records, np.maximum(counts, 1))
    floors = np.full(cells.shape, floor or 1)
    if budget.n_counts:
        values = counts.ravel() if budget.n_counts > 1 else np.array([n_records])
        sensitivity = 1.0 if neighboring == "add_remove" else math.sqrt(2)
        mechanism = GaussianMechanism(sensitivity, budget.mu_counts, values.size)
        noisy = mechanism.release(values, noise)
        # A group that drowns in the noise of its count is filled with dummies up to
        # that noise: cheaper than the noise that a floor of one would need.
        least = max(1.0, 2 * mechanism.scale)
        if budget.n_counts > 1:
            floors = np.clip(np.rint(noisy), least, LARGEST_FLOOR)
            floors = np.ceil(floors).astype(np.int64).reshape(cells.shape)
    if neighboring == "add_remove":
        return Sizes(max(float(noisy.sum()), least), floors)
    return Sizes(n_records, np.minimum(floors, n_records))


class NoisyGradientsMixin(
    AttributeBlindMixin, BoundedLinearMixin, CallbackSupportMixin
):
    """Models fitted by noisy gradients of a loss and a penalty between groups."""

    _parameter_constraints: dict = {
        **DPEstimator._parameter_constraints,
        **DELTA_CONSTRAINT,
        "bounds": BOUNDED_CONSTRAINTS["bounds"],
        "data_norm": BOUNDED_CONSTRAINTS["data_norm"],
        "fairness_weight": [Interval(Real, 0, 1, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "min_group_size": [None, Interval(Integral, 1, LARGEST_FLOOR, closed="both")],
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

    def _cells(self, groups, n_records: int, labels=None) -> Cells:
        """Cells of the records; classifiers pass their codes of the labels."""
        zeros = np.zeros(n_records, dtype=np.int64)
        n_groups = 2 if groups is None else len(self.groups_)
        groups = zeros if groups is None else groups
        if labels is None or self.constraint == "demographic_parity":
            return Cells(groups, zeros, (1, n_groups))
        return Cells(groups, labels, (len(self.classes_), n_groups))

    def _budget(self, cells: Cells, n_parameters: int) -> Budget:
        """Price of full-batch gradients and of the noisy counts they need."""
        relation = self._relation()
        if relation in SIZES_PUBLIC:
            n_counts = 0
        elif self.fairness_weight > 0 and self.min_group_size is None:
            n_counts = math.prod(cells.shape)
        else:
            n_counts = int(relation == "add_remove")
        n_draws = self.max_iter * n_parameters + n_counts
        mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=n_draws)
        return Budget.split(
            mu, n_steps=self.max_iter, n_draws=n_draws, n_counts=n_counts
        )

    def _reserve_gradients(self, budget: Budget, facts, noise) -> PrivacyGuarantee:
        """Reserve the budget; the receipt, with the facts about sizes added."""
        facts = list(facts)
        if self._relation() in SIZES_PUBLIC:
            facts.append("the number of records of each group, and label if compared")
        if self.min_group_size is not None:
            facts.append(
                public_fact("min_group_size", self.min_group_size, from_data=False)
            )
        guarantee = PrivacyGuarantee.from_events(
            [budget.event],
            delta=self.delta,
            neighboring=self._relation(),
            mechanism=f"{self.max_iter} noisy gradients of loss and penalty",
            assumptions=facts,
            noise_is_secure=noise.is_secure,
        )
        self._reserve(guarantee)
        return guarantee

    def _public_sizes(self, cells: Cells, budget: Budget, noise) -> Sizes:
        return public_sizes(
            cells,
            budget,
            noise,
            floor=self.min_group_size,
            neighboring=self._relation(),
        )
