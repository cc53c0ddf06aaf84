"""Ranges of targets and columns in their public bounds, learnt from noisy counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from .._shared.arrays import Floats, Integers, project_simplex
from .._shared.sensitivity import counts_l2
from .._wall import PrivacyFilter, Query, Rows, rows_of
from ._design import BITS, UNIT, MadeRows

TARGET_SHARE = 0.05
"""Share of the squared Gaussian-DP parameter that counts of the target take."""

# The range of the target is learnt on so many bins of `target_bounds`, where the
# number of records times the Gaussian-DP parameter is at least this: of fewer, noise
# may be taken for the crowd. Fewer bins have less noise and still tell bounds that are
# much too wide. Chosen on simulated targets, and 16 rather than 32 by a look at others.
TARGET_BINS = 64
FEWER_BINS = 16, 8
LEAST_SIGNAL = 75.0
# The range of a target is where most records are: all but twelve times the noise of a
# count, and at least nine tenths. Where that is not enough, some of its length is added
# on both sides. Chosen on simulated targets, Communities and seeds of the intervals'
# benchmark below 40,000.
_LEAST_MOST, _HIDDEN, _ADDED, _MOST_ADDED = 0.9, 1.5, 6.0, 0.6
# Ranges of columns are so much longer, and all of the bounds if as long as that. Chosen
# on simulated columns.
ROOM, _NEARLY_ALL = 1.25, 0.7
# Targets are counted as often as the signal is times what tells a range, at most so
# often: what lies in less than this part of what was counted is counted again in that
# part, unless more than so many times the noise of a count turns out to lie beyond it.
# A range in a part has room, at most this, that grows with the square root of the
# signal: the less its noise, and the more tails matter. Chosen on simulated targets,
# normal and skewed ones, most of them zero and none, in bounds of up to 1e5 deviations.
_MOST_LOOKS, _FEW_BINS, _BEYOND, _MOST_ROOM = 4, 1 / 8, 3.0, 2.0


@dataclass(frozen=True)
class TargetCounts(Query):
    """Counts of each target in [-1, 1] on bins of equal width.

    What is read from them speaks of one target.

    Attributes
    ----------
    n_bins, n_targets : int
    targets : callable
        Of a block.
    n_looks : int
        How often they are released, each time inside the ranges found before.
    room : float
        How much longer than the bins with nearly all records a range is, if these are
        counted within a part of [-1, 1].
    """

    name = "target counts"
    theorem = "privacy/accounting:lemma-a"

    n_bins: int = TARGET_BINS
    n_targets: int = 1
    targets: Callable[[SimpleNamespace], Floats] = attrgetter("y")
    n_looks: int = 1
    room: float = 1.0

    @property
    def n_coordinates(self) -> int:
        return self.n_targets * self.n_bins

    def sensitivity(self, neighboring: str) -> float:
        return counts_l2(neighboring, self.n_targets)

    def of_block(self, block, state) -> Integers:
        y = self.targets(block).reshape(-1, self.n_targets)
        # Towards zero: what is below -1 comes to the first bin in either case.
        bins = ((y + 1) * (self.n_bins / 2)).astype(np.int64)
        np.clip(bins, 0, self.n_bins - 1, out=bins)
        bins += self.n_bins * np.arange(self.n_targets)
        return np.bincount(bins.ravel(), minlength=self.n_coordinates)

    def tell(self, signal: float) -> bool:
        """Whether a range may be expected to be told; public numbers.

        `signal` is the number of records times the Gaussian-DP parameter.
        """
        return signal >= self.least_signal

    @property
    def least_signal(self) -> float:
        """From which on a range is told."""
        noisy = self.n_targets * self.n_bins / TARGET_BINS
        return LEAST_SIGNAL * math.sqrt(noisy)

    def variance(self, released, n_records, center: float, width: float) -> float:
        """Variance, in units of `width`, of the target within a range."""
        shares = project_simplex(released, n_records)
        inside, middles = self._within(center, width)
        shares = shares[inside] / max(shares[inside].sum(), 1.0)
        middles = middles[inside] / width
        return float(shares @ (middles - shares @ middles) ** 2)

    def outside(self, released, n_records, center: float, width: float) -> float:
        """Share of the records beyond a range: those that are not counted within."""
        inside, _ = self._within(center, width)
        return float(1 - released[inside].sum() / n_records)

    def sampling(
        self, released, n_records, center: float, width: float, largest: float
    ) -> float:
        """Mean square of residuals, cut off at `largest`, of the mean as a constant.

        In units of `width`; the target is clipped to its range, and as likely to be
        anywhere in a bin.
        """
        shares = project_simplex(released, n_records) / n_records
        inside, middles = self._within(center, width)
        y = np.clip(middles / width, -1.0, 1.0)
        squares = (
            np.square(y - shares @ y) + inside * (2 / self.n_bins / width) ** 2 / 12
        )
        return float(shares @ np.minimum(squares, largest**2))

    def _within(self, center: float, width: float):
        """Which bins lie in a range, and the middles of all, less its centre."""
        middles = (np.arange(self.n_bins) + 0.5) * (2 / self.n_bins) - 1 - center
        return np.abs(middles) <= width, middles

    def range(
        self, released: Floats, n_records: float, noise: float
    ) -> tuple[float, float]:
        """Centre and half width of the range of a target alone."""
        (center,), (width,) = self.ranges(released, n_records, noise)
        return float(center), float(width)

    def ranges(
        self, released: Floats, n_records: float, noise: float
    ) -> tuple[Floats, Floats]:
        """Centres and half widths of the bins that hold nearly all records.

        They are the shortest run of bins with so many, and more on either side. How
        far tails go that noise hides is not known: without them, a mean loses less than
        their share of the variance, and the noise of a wide range may cost any multiple
        of it.
        """
        hidden = _HIDDEN * math.sqrt(self.n_bins) * noise / n_records
        left_out = min(hidden, 1 - _LEAST_MOST)
        counts = released.reshape(self.n_targets, self.n_bins)
        missing = n_records - counts.sum(axis=1, keepdims=True)
        counts = counts + missing / self.n_bins
        first, length = _shortest_runs(counts, (1 - left_out) * n_records)
        added = min(_MOST_ADDED, _ADDED * (hidden - left_out))
        more = 1 + np.floor(added * length)
        width = 2 / self.n_bins
        low = -1 + width * np.maximum(first - more, 0)
        high = -1 + width * np.minimum(first + length + more, self.n_bins)
        return (low + high) / 2, (high - low) / 2

    def offset(
        self, released: Floats, n_records: float, noise: float, center: float
    ) -> float:
        """Mean of the target less a centre, by the projected counts; less its noise."""
        middles = (2 * np.arange(self.n_bins) + 1) / self.n_bins - 1
        shares = project_simplex(released, n_records) / n_records
        off = float(shares @ middles) - center
        # About half of the noise is gone with the counts that the projection clears.
        doubt = noise * np.linalg.norm(middles) / n_records / 2
        return math.copysign(max(0.0, abs(off) - doubt), off)


@dataclass(frozen=True)
class RangeCounts(TargetCounts):
    """Counts of all columns of records; the whole distribution of each matters.

    Attributes
    ----------
    room : float
        How much longer than the bins with nearly all records a range is.
    """

    name = "range counts"
    theorem = "user_guide/generators_proofs:generators-ranges"

    room: float = ROOM

    def learnt(
        self, released: Floats, n_records: float | None, noise: float, units: Floats
    ) -> tuple[Floats, Floats]:
        """Centres and half widths of the parts of [-1, 1] where the columns are.

        They have room, and are all of [-1, 1] where it would save little. None is
        narrower than the median of those with bounds of one width, `units`: it would
        weigh more beside them than it does. None records: as many as are counted.
        """
        if n_records is None:
            n_records = max(1.0, released.sum() / self.n_targets)
        center, width = self.ranges(released, n_records, noise)
        for unit in np.unique(units):
            same = units == unit
            width[same] = np.maximum(width[same], np.median(width[same]))
        width = np.where(self.room * width < _NEARLY_ALL, self.room * width, 1.0)
        return np.clip(center, width - 1, 1 - width), width


@dataclass(frozen=True)
class Parts:
    """Parts of [-1, 1] that are scaled to it once more; released numbers.

    Attributes
    ----------
    center, width : ndarray of shape (n_columns,)
        Middles and half widths.
    """

    center: Floats
    width: Floats

    def narrowed(self, center: Floats, width: Floats) -> Parts:
        """Parts of these, given in their units."""
        center = self.center + self.width * center
        return replace(self, center=center, width=self.width * width)

    def scaled(self, values: Floats) -> Floats:
        return (values - self.center) / self.width

    def clipped(self, values):
        """Values of a block, scaled and clipped to the parts."""
        return lambda block: np.clip(self.scaled(values(block)), -1.0, 1.0)

    def narrow(self, column) -> NarrowedRows:
        """A column of rows in [-1, 1], scaled and clipped where they are read."""
        return NarrowedRows(column, self)


class NarrowedRows(MadeRows):
    """Rows in [-1, 1], scaled and clipped to parts of it."""

    def __init__(self, column, parts: Parts):
        super().__init__(column)
        self._parts = parts

    def _made(self, rows):
        return np.clip(self._parts.scaled(rows_of(self.values, rows)), -1.0, 1.0)


def learnt_parts(
    wall: PrivacyFilter,
    rows: Rows,
    counts: RangeCounts,
    n_records: float,
    stays: Callable[[int, Floats], NDArray[np.bool_]],
) -> Parts:
    """Where the columns are, each in a part of its own width.

    Columns are counted as often as is paid for, each time in the parts found before.
    `stays` tells of a number of a look, and of the widths that it found, which columns
    keep their part.
    """
    parts = Parts(np.zeros(counts.n_targets), np.ones(counts.n_targets))
    values, apart = counts.targets, np.arange(counts.n_targets)
    for look in range(counts.n_looks):
        released, noise = wall.release(counts, rows), wall.scale(counts)
        center, width = counts.learnt(released, n_records, noise, apart)
        kept = stays(look, width)
        parts = parts.narrowed(np.where(kept, 0.0, center), np.where(kept, 1.0, width))
        counts = replace(counts, targets=parts.clipped(values))
    return parts


def target_counts(signal: float, n_targets: int = 1) -> TargetCounts | None:
    """Counts that may be expected to tell ranges of targets; none, if none does."""
    n_bins = bins_that_tell(signal, n_targets)
    if not n_bins:
        return None
    counts = TargetCounts(n_bins, n_targets)
    spare = max(1.0, signal / counts.least_signal)
    room = min(_MOST_ROOM, max(1.0, math.sqrt(spare) / 2))
    return replace(counts, n_looks=int(min(_MOST_LOOKS, spare)), room=room)


@dataclass(frozen=True)
class CountedPart:
    """A part of [-1, 1] in which one target is counted.

    Attributes
    ----------
    counts : TargetCounts
        Of one target.
    n_records : float
    center, width : float
        Middle and half width.
    released : ndarray of shape (n_bins,)
        Counts in this part; the mean of all that were made.
    looks : int
        How many were made.
    scale : float
        Noise of one of them.
    before : CountedPart or None
        The part of which this is one.
    is_kept : bool
        Whether no part of this one is counted any more.
    """

    counts: TargetCounts
    n_records: float
    center: float = 0.0
    width: float = 1.0
    released: Floats | float = 0.0
    looks: int = 0
    scale: float = 0.0
    before: CountedPart | None = None
    is_kept: bool = False

    @property
    def noise(self) -> float:
        return self.scale / math.sqrt(self.looks)

    @property
    def found(self) -> tuple[float, float]:
        """The range in units of the part, without room; its middle is in the bounds.

        What is found beyond them is noise: nobody is there.
        """
        center, width = self.counts.range(self.released, self.n_records, self.noise)
        return min(max(center, self.bounds[0]), self.bounds[1]), width

    @property
    def bounds(self) -> Floats:
        """Those of the target, -1 and 1, in units of the part."""
        return (np.array([-1.0, 1.0]) - self.center) / self.width

    @property
    def variance(self) -> float:
        """Of the target within the range found, in units of that."""
        return self.counts.variance(self.released, self.n_records, *self.found)

    def looked(self, released: Floats, scale: float) -> CountedPart:
        """After one more count; the part before, if too much is beyond this one."""
        looks = self.looks + 1
        mean = self.released + (released - self.released) / looks
        now = replace(self, released=mean, looks=looks, scale=scale)
        beyond = max(mean[0], mean[-1])  # what lies there comes to the ends
        if self.before is not None and beyond > _BEYOND * now.noise:
            return replace(self.before, is_kept=True)
        return now

    def narrowed(self) -> CountedPart:
        """The part to be counted next."""
        center, width = self.found
        if self.is_kept or width >= _FEW_BINS:
            return self
        center, width = self.of_bounds(center, ROOM * width)
        return CountedPart(self.counts, self.n_records, center, width, before=self)

    def of_bounds(self, center: float, width: float) -> tuple[float, float]:
        """A range in units of the part as one of [-1, 1]."""
        return self.center + center * self.width, width * self.width

    @property
    def range(self) -> tuple[float, float]:
        """Middle and half width of the range, in units of the part."""
        center, width = self.found
        if self.before is None or width < _FEW_BINS:
            return center, width
        room = self.counts.room * width
        low, high = np.clip([center - room, center + room], *self.bounds)
        return (low + high) / 2, (high - low) / 2


def counted_parts(
    wall: PrivacyFilter, rows: Rows, counts: TargetCounts, n_records: float
) -> list[CountedPart]:
    """Count targets as often as is paid for, each in a part of [-1, 1].

    Counts of the same part are averaged: their mean has as much noise as one for which
    all was paid.
    """
    parts = [CountedPart(replace(counts, n_targets=1), n_records)] * counts.n_targets
    scale, values = wall.scale(counts), counts.targets
    for look in range(counts.n_looks):
        if look > 0:
            parts = [part.narrowed() for part in parts]
        inside = Parts(*np.array([(part.center, part.width) for part in parts]).T)
        looked = replace(counts, targets=inside.clipped(values))
        released = np.split(wall.release(looked, rows), counts.n_targets)
        parts = [
            part.looked(of_part, scale)
            for part, of_part in zip(parts, released, strict=True)
        ]
    return parts


def bins_that_tell(signal: float, n_targets: int = 1) -> int:
    """How many bins targets are counted in; none where no number tells their ranges.

    `signal` is the number of records times the Gaussian-DP parameter; public.
    """
    for n_bins in (TARGET_BINS, *FEWER_BINS):
        if TargetCounts(n_bins, n_targets).tell(signal):
            return n_bins
    return 0


def scaled_target(y, low, high):
    """Targets as numbers in [-1, 1] on the grid, whatever they are; NaN becomes 0."""
    half = high / 2 - low / 2
    scaled = np.clip(y / half - (low / 2 + high / 2) / half, -1.0, 1.0)
    return np.trunc(np.nan_to_num(scaled) * 2.0**BITS) * UNIT


def _shortest_runs(counts: Floats, least: float) -> tuple[Integers, Integers]:
    """First and number of the fewest neighbours that together count so much, by row.

    Of runs of one length that with the largest sum; all, if none counts so much.
    """
    n_rows, m = counts.shape
    first, length = np.zeros(n_rows, dtype=int), np.full(n_rows, m)
    sums, rest = np.zeros((n_rows, m + 1)), np.arange(n_rows)
    np.cumsum(counts, axis=1, out=sums[:, 1:])
    for size in range(1, m):
        held = sums[:, size:] - sums[:, :-size]
        enough = held.max(axis=1) >= least
        if enough.any():
            first[rest[enough]] = held[enough].argmax(axis=1)
            length[rest[enough]] = size
            sums, rest = sums[~enough], rest[~enough]
    return first, length
