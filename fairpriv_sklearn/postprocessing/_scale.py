"""Where on its range a score column is told apart: more bins where many scores are.

Bounds are public and often wide: predictions fill a small part of the range of the
target. Noisy counts of all scores, whatever the group, stretch the crowded cells, so
that equal bins of the stretched range part them. Public arithmetic; a `Scale` maps
every score by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UNIT = (0.0, 1.0)
"""Bounds of a place on a scale."""

# Equal cells of a range, part of the budget of their counts, standard deviations of the
# noise that a count is lowered by, mass that has to be left then, or how crowded all
# have to be for sure, as a part of what calls for it, how much that is, part of the
# stretched range that is shared out by mass, and by how much the bins grow. Chosen on
# simulated scores: without the part that is shared out evenly tails are told apart too
# little, and a group that crowds among others that do not is not half of all people.
CELLS = 32
SHARE = 0.02
CERTAIN = 2.0
MOST = 0.5
SURELY = 0.5
CROWDED = 4.0
BY_MASS = 0.5
GROWTH = 1.5
# Over rows and epsilon: part of a budget whose counts find a crowd, where it is not
# more than the next number. Cells of the longest run that is looked for, and the part
# of what noise makes of all cells that it has to hold. Chosen on simulated scores.
FINDS = 30.0
LARGEST_SHARE = 0.04
LONGEST_RUN = 5
IN_RUN = 0.6
# Predictions overshoot the range of the target: by so much of it they are told apart,
# which else would be one atom at its end that no increasing map could split.
BEYOND = 1 / 16
# A range of which scores reach less is wide; and the least part of it in which scores
# are told apart, as where all are the same. Where more is reached, simulated tables
# are as good in that part, but Law School is repaired a little less.
WIDE = 0.5
LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class Scale:
    """Increasing map of a score column to the unit interval, linear between knots.

    Parameters
    ----------
    knots, places : ndarray of shape (n_knots,)
        Scores and where they go, from 0 to 1.
    """

    knots: NDArray
    places: NDArray

    @classmethod
    def even(cls, bounds) -> Scale:
        """The linear map of an interval."""
        return cls(np.array(bounds, dtype=np.float64), np.array([0.0, 1.0]))

    def __call__(self, scores) -> NDArray[np.float64]:
        """Place of every score; those beyond the ends go there, NaN stays."""
        return np.interp(scores, self.knots, self.places)

    def inverse(self, places) -> NDArray[np.float64]:
        """Score at every place."""
        return np.interp(places, self.places, self.knots)

    def relative(self, places) -> NDArray[np.float64]:
        """Score at every place, as a part of the range."""
        ends = self.knots[0], self.knots[-1]
        return (self.inverse(places) - ends[0]) / (ends[1] - ends[0])

    def stretched(
        self, counts, noise_variance: float, crowded: float = CROWDED, n=None
    ) -> Scale:
        """Give crowded cells more room; the same scale where noise hides the crowd.

        Parameters
        ----------
        counts : ndarray of shape (n_cells,)
            Noisy counts of the scores in equal cells of this (even) scale.
        noise_variance : float
            Of one count.
        crowded : float
            How many times as crowded as an even column calls for it.
        n : int or None
            Number of people, if it is public: where noise reigns over so few, a run of
            cells is looked for.

        Returns
        -------
        scale : Scale
        """
        n_cells, deviation = len(counts), np.sqrt(noise_variance)
        certain = np.maximum(counts - CERTAIN * deviation, 0.0)
        # Where noise reigns the sum may be anything.
        reigns = max(CERTAIN * np.sqrt(n_cells) * deviation, 1.0)
        people = max(counts.sum(), reigns)
        if certain.sum() < MOST * people:
            known = counts.sum() if n is None else n
            crowd = n_cells * (certain**2).sum() / people**2
            if n is not None and known <= reigns:
                certain = _run(counts, deviation, IN_RUN * reigns)
            elif known <= reigns or crowd < SURELY * crowded:
                return self
        masses = certain / (certain.sum() or 1.0)
        if (masses**2).sum() * n_cells < crowded:  # even: 1; in one cell: n_cells
            return self
        room = (1 - BY_MASS) / n_cells + BY_MASS * masses
        places = np.concatenate([[0.0], room.cumsum()])
        return Scale(self.inverse(np.linspace(0, 1, n_cells + 1)), places / places[-1])


def _run(counts, deviation: float, people: float) -> NDArray:
    """Ones in the run of cells that surely holds most, if those are so many people.

    The noise of a sum grows less than the sum of the deviations of its cells.
    """
    sums = np.concatenate([[0.0], counts.cumsum()])
    most, run = -np.inf, np.zeros(len(counts))
    for length in range(1, LONGEST_RUN + 1):
        held = sums[length:] - sums[:-length] - CERTAIN * np.sqrt(length) * deviation
        if held.max() > most:
            most, first = held.max(), held.argmax()
            run[:] = 0.0
            run[first : first + length] = 1.0
    return run if most >= people else np.zeros(len(counts))


def share(n: float | None, epsilon: float) -> float:
    """Part of epsilon for the counts of all scores: more where that finds a crowd.

    Parameters
    ----------
    n : float or None
        How many rows are expected to be counted, if that is public.
    epsilon : float
    """
    found = FINDS / max(n * epsilon, 1.0) if n is not None else 0.0
    return found if SHARE < found <= LARGEST_SHARE else SHARE


EVEN = Scale.even(UNIT)


def beyond(bounds: NDArray) -> NDArray:
    """Bounds with some room at both ends, for predictions that overshoot."""
    room = BEYOND * np.diff(bounds, axis=1)
    return bounds + room * [-1.0, 1.0]


def within(bounds: NDArray, reachable: tuple[float, float]) -> NDArray:
    """The part of an interval, of shape (1, 2), that scores reach, if it is wide."""
    low, high = np.clip(reachable, *bounds[0])
    whole = np.ptp(bounds)
    if not high - low < WIDE * whole:  # nor where it is not a number
        return bounds
    middle = low / 2 + high / 2
    half = max(high - low, LEAST * whole) / 2
    return np.array([[middle - half, middle + half]])
