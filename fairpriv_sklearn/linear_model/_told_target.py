"""What noisy counts of a target tell a regression of its residuals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import erf

from .._training._counts import asked_again
from .._training._target import TargetCounts, counted_parts
from .._wall import PrivacyFilter, Rows
from ._preconditioned import Floats
from ._queries import Geometry, MeanResidual

# Mean square of the residuals of a scaled target whose range is not learnt.
USUAL_SQUARE = 0.1
# Less, in its learnt range, is taken for this.
LEAST_SQUARE = 1e-3
# Where nothing is counted a mean is believed to lie near the middle of `target_bounds`,
# by this standard deviation.
PRIOR_OF_MEAN = 0.6
# Of the mean residual, in half the learnt range: residuals are cut off where noise has
# this standard deviation. Chosen on simulated targets, as is the range itself.
NOISE_OF_LEVEL = 0.04


@dataclass(frozen=True)
class ToldTarget:
    """The learnt range of a target, and how the target varies in it.

    Parameters
    ----------
    largest : float
        Residuals are cut off there, in half the range.
    center, width : float
        The range, in [-1, 1]; the whole of it where nothing was counted.
    square : float
        Mean square about the center, in half the range.
    sampling : float
        How much of that fits see by chance.
    start : float
        The mean, for a first intercept.
    outside : float
        Share of the targets beyond the range.
    without_room : float or None
        Width of what was found before room was added, in half the range.
    """

    largest: float
    center: float = 0.0
    width: float = 1.0
    square: float = USUAL_SQUARE
    sampling: float = USUAL_SQUARE
    start: float = 0.0
    outside: float = 0.0
    without_room: float | None = None

    def counted(
        self, wall: PrivacyFilter, rows: Rows, counts: TargetCounts, n_records
    ) -> ToldTarget:
        """Count the targets, as often as is planned."""
        (told,) = counted_parts(wall, rows, counts, n_records)
        counts, released = told.counts, told.released
        center, width = told.range
        known = released, n_records, center, width
        start = counts.offset(released, n_records, told.noise, center) / width
        return ToldTarget(
            self.largest,
            *told.of_bounds(center, width),
            square=max(counts.variance(*known), LEAST_SQUARE),
            sampling=counts.sampling(*known, self.largest),
            start=min(1.0, max(-1.0, start)),
            outside=counts.outside(*known),
            without_room=told.found[1] / width,
        )

    def level(self, wall: PrivacyFilter, geometry: Geometry, n_records) -> MeanResidual:
        """Ask for the mean residual, cut off where noise is small beside the range."""
        level = MeanResidual(geometry, n_records, center=self.center, width=self.width)
        if self.without_room is None:
            return level
        # As much of the target's range as its noise in the learnt one allows.
        ends = (-1.0 - self.center) / self.width, (1.0 - self.center) / self.width
        for reach in np.geomspace(max(-ends[0], ends[1]), 1.0, 32):
            low, high = np.clip(ends, -reach, reach)
            level = replace(level, low=low, high=high)
            if wall.scale(level) <= NOISE_OF_LEVEL * self.without_room:
                break
        return level

    def mean(self, wall: PrivacyFilter, rows: Rows, level: MeanResidual, lines):
        """Mean in the range, told by all that is left of the budget."""
        nothing = np.zeros((level.geometry.n_columns, 1))
        off, noise = asked_again(wall, rows, level, lines, nothing)
        trust = 1.0
        if self.without_room is None:
            # As if the mean had been 0 with this standard deviation.
            trust = PRIOR_OF_MEAN**2 / (PRIOR_OF_MEAN**2 + noise**2)
        return np.clip(-off[0] * trust, -1.0, 1.0)

    @property
    def clipped_square(self) -> float:
        """Mean square with targets beyond the range clipped to its ends."""
        return self.square + self.outside * (1 - self.square)

    @property
    def most(self) -> float:
        """Where all residuals are cut off the loss has scores grow on: not beyond."""
        if self.without_room is None:
            return math.inf
        return math.sqrt(max(self.square, self.clipped_square))

    def at_scores(self, variances) -> tuple[Floats, Floats]:
        """Mean square and share of the residuals within the limit, at such scores."""
        return of_residuals(self.clipped_square - variances, self.largest)


def of_residuals(squares, largest: float) -> tuple[Floats, Floats]:
    """Mean square and share of the residuals within the limit, if they are normal."""
    spread = np.sqrt(np.maximum(squares, 1e-4))
    within = erf(largest / spread / math.sqrt(2))
    at_limit = largest * np.exp(-((largest / spread) ** 2) / 2) * math.sqrt(2 / math.pi)
    inside = spread**2 * within - spread * at_limit
    return inside + largest**2 * (1 - within), within
