"""The ranges of the features inside public bounds, learnt from noisy counts."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from .._shared.arrays import Floats, Integers
from .._training._design import FeatureScaling, ScaledRows, is_coded
from .._training._target import RangeCounts, bins_that_tell, learnt_parts
from .._wall import PrivacyFilter, Rows

# Where the number of records times the Gaussian-DP parameter is so many times what
# tells a range, columns are counted twice: bounds a hundred times too wide are more
# than one table of counts can tell. From `_MUCH` times on, ranges have room that grows
# with this power: noise of a wide range matters less, and tails may matter more. Chosen
# on simulated tables, and two rather than one by a look at others.
_TWICE, _MUCH, _MORE_ROOM = 2.0, 4.4, 0.15
_ONE_BIN = 3.5  # a range around one bin, and less than half a bin


def scaled_rows(X, scaling: FeatureScaling, *, learns: bool):
    """Rows by a scaling, without the intercept's column.

    Whoever learns ranges shortens no row before, and makes rows anew after.
    """
    scaling = replace(scaling, fit_intercept=False)
    if learns:
        return ScaledRows(X, replace(scaling, data_norm=math.sqrt(X.shape[1])))
    with np.errstate(all="ignore"):
        return scaling.design(X).rows


def may_learn(estimator, X) -> bool:
    """Whether ranges would be of use, by what is public about a table.

    Sparse rows stay sparse, a norm is one of rows that bounds have scaled, and without
    an intercept their centre means something.
    """
    given = estimator.bounds is not None and estimator.data_norm is None
    plain = not sparse.issparse(X) and not is_coded(X)
    return given and plain and estimator.fit_intercept and estimator.epsilon < np.inf


def range_counts(scaling: FeatureScaling, signal: float) -> RangeCounts | None:
    """Counts of the columns that may have a range, if they may be expected to tell it.

    `signal` is the number of records times the Gaussian-DP parameter; public. Bounds
    of one unit between whole numbers are those of indicators, which have no room.
    """
    low, high = scaling.low, scaling.high
    is_indicator = (high == low + 1) & (low == np.rint(low))
    columns = np.flatnonzero((high > low) & ~is_indicator)
    n_bins = bins_that_tell(signal, len(columns)) if len(columns) else 0
    if not n_bins:
        return None
    counts = RangeCounts(n_bins, len(columns), targets=Columns(columns))
    spare = signal / counts.least_signal
    room = counts.room * max(1.0, spare / _MUCH) ** _MORE_ROOM
    return replace(counts, n_looks=2 if spare >= _TWICE else 1, room=room)


def learn_ranges(
    wall: PrivacyFilter,
    rows: Rows,
    scaling: FeatureScaling,
    counts: RangeCounts | None,
    n_records: float,
) -> tuple[Rows, FeatureScaling]:
    """The scaling by what counts tell of the ranges, and rows by this.

    Without counts it is the public one; in either case no row is left unshortened.
    """
    if counts is not None:

        def stays(look, width):
            # Again in one bin: one number, and what is beside it matters.
            return (look > 0) & (width < _ONE_BIN * counts.room / counts.n_bins)

        # Each column has a width of its own: the narrower it is, the more its
        # coefficient would weigh in the ridge, and the less its values beside noise.
        parts = learnt_parts(wall, rows, counts, n_records, stays)
        center, width = np.zeros(len(scaling.low)), np.ones(len(scaling.low))
        columns = counts.targets.columns
        center[columns], width[columns] = parts.center, parts.width
        scaling = scaling.within(center, width)
    rescaled = Rescaled(replace(scaling, fit_intercept=False))
    return rows.remade("x", rescaled), scaling


@dataclass(frozen=True)
class Columns:
    """Some columns of the features of a block."""

    columns: Integers

    def __call__(self, block: SimpleNamespace) -> Floats:
        every = len(self.columns) == block.x.shape[1]
        return block.x if every else block.x[:, self.columns]


@dataclass(frozen=True)
class Rescaled:
    """Rows by another scaling than that by which they were read."""

    scaling: FeatureScaling

    def __call__(self, rows):
        if not isinstance(rows, ScaledRows):  # nobody learns
            return rows
        with np.errstate(all="ignore"):
            return self.scaling.design(rows.values).rows
