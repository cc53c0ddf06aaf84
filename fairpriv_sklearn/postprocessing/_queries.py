"""What post-processing asks of private rows; proofs in the user guide.

A record adds one vector of norm at most one to one row of a table, in exact integers:
the sensitivities are those of Lemma A (`_sensitivity`). `DistinctScores` alone couples
records, and changes by at most one.
"""

import math
from dataclasses import dataclass

import numpy as np

from .._shared.arrays import count_cells
from .._shared.sensitivity import counts_l1, counts_l2, rows_changed
from .._wall import Query, Rows
from . import _parity as parity
from . import _score_bins as score_bins
from ._scale import UNIT

# So many cells are summed faster by a product with the indicators of their members.
FEW_CELLS = 8

# Sums of soft decisions round as they become doubles, by 2**-53 of themselves. As a
# vector they are no longer than the number of records, 2**32 at most, so that two
# tables move by 2**-20, less than 1e-6.
ROUNDING = 1 + 1e-6


@dataclass(frozen=True)
class ScoreCounts(Query):
    """Counts of the scores per column, group and bin.

    One group stands for all people.
    """

    theorem = "user_guide/fair_regression_proofs:score_counts"
    norm = "l1"

    scales: tuple  # one `Scale` per column
    n_groups: int
    n_bins: int
    name: str = "score counts"

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.scales), self.n_groups, self.n_bins

    @property
    def n_coordinates(self) -> int:
        return int(np.prod(self.shape))

    def sensitivity(self, neighboring):
        return counts_l1(neighboring, n_tables=len(self.scales))

    def of_block(self, block, state):
        codes = block.codes if self.n_groups > 1 else np.zeros_like(block.codes)
        columns = zip(block.scores.T, self.scales, strict=True)
        sizes = self.n_groups, UNIT, self.n_bins
        return np.array(
            [count_scores(scale(column), codes, *sizes) for column, scale in columns]
        )


def count_scores(scores, codes, n_groups, bounds, n_bins) -> np.ndarray:
    """Count the scores per group and bin.

    A record adds one to one cell: l1-sensitivity 1 under add/remove, 2 under
    replace-one, exactly, as the counts are integers and the bin of a score does not
    depend on other rows.
    """
    bins = score_bins.bin_scores(scores, bounds, n_bins)
    return count_cells((n_groups, n_bins), codes, bins)


@dataclass(frozen=True)
class DistinctScores(Query):
    """How many distinct scores each column has.

    Taking a record away lowers a number by one or not at all, putting one in raises it
    by one or not at all: one per column under either relation.
    """

    name = "number of distinct scores"
    theorem = "user_guide/fair_regression_proofs:distinct_scores"
    norm = "l1"

    bounds: tuple

    @property
    def n_coordinates(self) -> int:
        return len(self.bounds)

    def sensitivity(self, neighboring):
        rows_changed(neighboring)  # raises on an unknown relation
        return len(self.bounds)

    def of_rows(self, rows: Rows, state):
        columns = zip(rows.only("scores").whole().scores.T, self.bounds, strict=True)
        numbers = [score_bins.distinct_scores(column, pair) for column, pair in columns]
        return np.array(numbers, dtype=np.int64)


@dataclass(frozen=True)
class MarginCounts(Query):
    """Soft decision counts per group of two classes, from rounded margins.

    State: offsets of shape (1, n_groups, 2). The margins were rounded to a public grid
    before, row by row (`_parity.margin_bins`): column `places` is group times grid.
    """

    name = "soft decision counts"
    theorem = "user_guide/dp2dp_proofs:soft_counts"

    n_groups: int
    smoothing: float

    block_rows = 1_048_576

    @property
    def n_coordinates(self) -> int:
        return 2 * self.n_groups

    def sensitivity(self, neighboring):
        return counts_l2(neighboring) * ROUNDING

    def of_block(self, block, state):
        margins = parity.margin_grid(self.smoothing)
        shape, (offsets,) = (self.n_groups, len(margins)), state
        counts = np.bincount(block.places, minlength=math.prod(shape)).reshape(shape)
        parts = parity.margin_parts(margins, offsets, self.smoothing)
        return np.einsum("gm,gmc->gc", counts, parts)

    def value(self, total, state):
        return total[None] * parity.SUM_GRID


@dataclass(frozen=True)
class SoftCounts(Query):
    """Soft decision counts per cell (group, or true class and group).

    The rule shifts the probabilities ``p`` of a row by a mixture of offsets,
    `_parity.shifted_scores`, of its own group or of estimated shares of the groups
    (column `groups`). The soft decision is added to the row's *true* cell (column
    `cells`), whatever those are.

    State: offsets of shape (n_conditions, n_groups, n_classes).
    """

    name = "soft decision counts"
    theorem = "user_guide/dp2dp_proofs:soft_counts"

    n_conditions: int
    n_groups: int
    n_classes: int
    smoothing: float

    max_rows = 1 << 32  # parts below 2**30: sums below 2**62

    @property
    def n_coordinates(self) -> int:
        return self.n_conditions * self.n_groups * self.n_classes

    def sensitivity(self, neighboring):
        return counts_l2(neighboring) * ROUNDING

    def of_block(self, block, state):
        n_cells = self.n_conditions * self.n_groups
        shifted = parity.shifted_scores(block.scores, block.groups, state)
        parts = parity.softmax_parts(shifted, self.smoothing)
        # Integers below 2**53 in all: double precision adds them exactly.
        if n_cells <= FEW_CELLS:
            members = np.arange(n_cells)[:, None] == block.cells
            return (members.astype(np.float64) @ parts.T).astype(np.int64)
        return np.column_stack(
            [np.bincount(block.cells, part, minlength=n_cells) for part in parts]
        ).astype(np.int64)

    def value(self, total, state):
        shape = (self.n_conditions, self.n_groups, self.n_classes)
        return total.reshape(shape) * parity.SUM_GRID
