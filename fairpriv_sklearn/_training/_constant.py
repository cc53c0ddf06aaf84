"""Tables too small for features: all of the budget tells one constant."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from .._shared.arrays import Floats
from .._shared.sensitivity import counts_l1, rows_changed
from .._wall import CONSTANT_SHARE, PrivacyFilter, Query, Release, Rows
from ._counts import likely_share

_GRID = 1 << 20


@dataclass(frozen=True, eq=False)
class TargetTotals(Query):
    """Sums of targets in [-1, 1] in units of 2**-20, or counts of the classes.

    Of two classes only the second is counted: how many records there are is public.

    Attributes
    ----------
    n_outputs : int
        Number of targets, or of classes.
    targets : callable
        Targets of a block of rows, or which class each belongs to, (n_rows, n_outputs).
    are_counts : bool
    """

    name = "constant"
    theorem = "user_guide/linear_models_proofs:linear-few-records"
    norm = "l1"

    n_outputs: int
    targets: Callable[[SimpleNamespace], Floats]
    are_counts: bool

    @property
    def n_coordinates(self) -> int:
        return 1 if self.are_counts and self.n_outputs == 2 else self.n_outputs

    @property
    def unit(self) -> int:
        """What a target of 1 adds."""
        return 1 if self.are_counts else _GRID

    def sensitivity(self, neighboring: str) -> int:
        """One record's sums: a count is 0 or 1, a target between -1 and 1."""
        if self.are_counts:
            return 1 if self.n_coordinates == 1 else counts_l1(neighboring)
        return rows_changed(neighboring) * self.n_outputs * self.unit

    def of_block(self, block, state):
        targets = np.nan_to_num(np.clip(self.targets(block), -1.0, 1.0))
        units = np.trunc(targets * self.unit).astype(np.int64)
        return units.sum(axis=0)[-self.n_coordinates :]


def class_totals(n_classes: int) -> TargetTotals:
    """Counts of the classes, of which column `y` holds the codes."""
    codes = np.arange(n_classes)
    return TargetTotals(n_classes, lambda block: block.y[:, None] == codes, True)


def constant_plan(query: TargetTotals, epsilon: float) -> list[Release]:
    """Nearly all of epsilon for one release with discrete Laplace noise."""
    share = CONSTANT_SHARE * epsilon
    return [Release(query.name, "pure", share, query.n_coordinates)]


def released_constant(wall: PrivacyFilter, rows: Rows, query: TargetTotals) -> Floats:
    """Means of the targets, or shares of the classes; (n_outputs,)."""
    sums, scale = wall.release(query, rows), wall.scale(query)
    n_records = max(rows.n_rows, 1)
    if not query.are_counts:
        return np.clip(sums / (n_records * query.unit), -1.0, 1.0)
    found = np.array([likely_share(x, n_records, scale, power=1) for x in sums])
    if query.n_coordinates < query.n_outputs:
        found = np.array([1.0 - found[0], found[0]])
    return found / found.sum()
