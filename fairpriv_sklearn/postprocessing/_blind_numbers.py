r"""Repair of predicted numbers without the group at prediction.

Noisy sizes of the groups tell which estimated shares are alike, and place the regions.
One noisy table of counts, true group by region by bin of the prediction, then tells
what the rule needs: how the groups' predictions are distributed, and which group a
prediction belongs to in which region. The most accurate rule of prediction and region
whose answers have the same distribution in all groups, up to a tolerance in
Kolmogorov-Smirnov distance, is a linear program over levels (compare V. Divol and S.
Gaucher 2024 for the rule without noise). Between the levels the answer is interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import ndtri

from ._blind import Measured, interval_by_errors, normal_points, upper_end_by_errors
from ._histogram import smooth_estimate
from ._scale import EVEN, Scale
from ._significance import MARGIN, MOST_BEYOND, told_ends

# Bins of the prediction, part of the budget that the groups' sizes take, logarithms by
# which a region's group is more likely than among all people, those where the smallest
# group has at least `MANY / min(epsilon, 1)` people, and least share that a group is
# given; chosen on simulated tables of 2,000 to 30,000 rows.
BINS = 16
SIZES_SHARE = 0.05
TILTS = (1.5,)
FINE_TILTS = (1.0, 2.5)
MANY = 2000
LEAST_SHARE = 0.01
# How crowded predictions are where their scale is stretched (as `_scale.CROWDED`): more
# bins hold fewer people of each group and region. Where fewer bins hold the predictions
# the answers would be worse than a constant: an even scale that is not stretched has
# more. And the part of the budget that looks for them, as the repair stands back where
# noise hides the crowd. Chosen on simulated predictions and, the first, on Law School,
# which lost where scales were stretched earlier.
CROWDED = 7.0
FEWEST_BINS = BINS / CROWDED
SCALE_SHARE = 0.05
# Part of the budget that tells whether predictions repeat.
ATOMS_SHARE = 0.02
# Where parity costs more than this part of all that the predictions tell, or more than
# this part of the gap beyond the tolerance is expected to be left, the repair stands
# back. Chosen on simulated tables, the latter between .6 and .65 also by a look at
# `stand_back.py` and `wide_bounds.py`.
WORTH = 0.75
LEFT = 0.62
# A group of next to nobody is left out also if the repair would stand back and its size
# is below so many standard deviations of its noise, which may then be more than .05 of
# its distribution. Chosen on simulated tables; of larger ones the parity is known.
SMALL = 10.0
# As in `_significance`. A bin at an end is as wide as the one beside it, or so many
# times what would make it as crowded. Chosen on simulated predictions.
BEYOND_PER_WIDTH = 0.02
TAIL = 3.0
# Levels of the answer, points between which a map is linear, and mass that is spread
# evenly, so that different predictions stay apart.
LEVELS = 32
POINTS = 512
UNIFORM_MASS = 1e-6
# A measurement: bins of the prediction, parts of a bin, quantiles and confidence.
MEASURED_BINS = 32
WITHIN = 16
PLACES = 24
CONFIDENCE = 0.95
# How seldom the largest of the distances is as small as found, where an interval ends:
# that of distances that are estimated is too flat. Chosen on simulated tables.
SELDOM = 0.0025


@dataclass(frozen=True, eq=False)
class LevelMaps:
    """One increasing map of the predictions' places per region.

    Attributes
    ----------
    points : ndarray of shape (n_points,)
    values : ndarray of shape (n_regions, n_points)
    """

    points: np.ndarray
    values: np.ndarray

    def __call__(self, scores: np.ndarray, regions: np.ndarray) -> np.ndarray:
        mapped = np.empty(len(scores))
        for region, values in enumerate(self.values):
            rows = np.flatnonzero(regions == region)
            mapped[rows] = np.interp(scores[rows], self.points, values)
        return mapped

    def widened(self, scale: Scale, wider: Scale) -> LevelMaps:
        """The maps on a wider scale; what lies beyond moves as far as the end."""
        points = np.linspace(0, 1, POINTS + 1)
        scores = wider.inverse(points)
        beyond = scores - scores.clip(*scale.knots[[0, -1]])
        mapped = [np.interp(scale(scores), self.points, row) for row in self.values]
        return LevelMaps(points, wider(scale.inverse(np.array(mapped)) + beyond))


def region_centres(sizes: np.ndarray, epsilon: float) -> np.ndarray:
    """Shares that stand for the regions: all people's, and some tilted to each group.

    Parameters
    ----------
    sizes : ndarray of shape (n_groups,)
        Noisy.
    epsilon : float

    Returns
    -------
    centres : ndarray of shape (n_regions, n_groups)
    """
    fine = sizes.min() * min(epsilon, 1.0) >= MANY
    shares = np.maximum(sizes, LEAST_SHARE * max(sizes.sum(), 1.0))
    towards = [tilt * np.eye(len(sizes)) for tilt in (FINE_TILTS if fine else TILTS)]
    centres = shares * np.exp(np.vstack([np.zeros(len(sizes)), *towards]))
    return centres / centres.sum(axis=1, keepdims=True)


def most_regions(n_groups: int) -> int:
    """The most regions that `region_centres` makes; public."""
    return 1 + len(FINE_TILTS) * n_groups


def nearest_region(shares: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Region whose centre is nearest in Hellinger distance, each row on its own."""
    alike = np.zeros((len(shares), len(centres)))
    for of_group, centre in zip(np.sqrt(shares).T, np.sqrt(centres).T, strict=True):
        alike += of_group[:, None] * centre
    return alike.argmax(axis=1)


def estimate_masses(counts: np.ndarray, noise_variance: float) -> np.ndarray:
    """Estimate the masses of the cells from noisy counts.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_regions, n_bins)
    noise_variance : float

    Returns
    -------
    masses : ndarray of the same shape
        Positive, summing to one. Within a region a group is a smooth share of the
        region's predictions (`_histogram.smooth_estimate`).
    """
    masses = np.empty(counts.shape)
    for region, of_region in enumerate(counts.swapaxes(0, 1)):
        # Groups differ in a region if they differ at all: the repair stands back else.
        pmfs, weights = smooth_estimate(
            of_region, n=None, noise_variance=max(noise_variance, 1.0), doubted=False
        )
        masses[:, region] = max(of_region.sum(), 1.0) * weights[:, None] * pmfs
    return masses / masses.sum()


def leave_ends(
    counts: np.ndarray,
    masses: np.ndarray,
    noise_variance: float,
    scale: Scale,
    split: bool = False,
) -> tuple[np.ndarray, Scale]:
    """Leave out the ends that only noise fills.

    What is estimated far away is noise, but answers would be sent there. Where bounds
    are wide a bin at an end is wide, too: people are where it meets the next one.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_regions, n_bins)
        Noisy.
    masses : ndarray of the same shape
        Estimated from them.
    noise_variance : float
    scale : Scale
        Of the bins.
    split : bool, default=False
        Whether the predictions of a bin are sent anywhere in it: it is left as a whole.

    Returns
    -------
    masses : ndarray of shape (n_groups, n_regions, n_left)
    scale : Scale
        Of the bins that are left; the outer ones may be cut.
    """
    n_groups, n_regions, n_bins = counts.shape
    ends = scale.inverse(np.arange(n_bins + 1) / n_bins)
    pooled, people = counts.sum(axis=(0, 1)), masses.sum(axis=(0, 1))
    variance = n_groups * n_regions * noise_variance

    def left(most):
        """From where to where predictions are."""
        first, last = told_ends(pooled, variance, most)
        if split or last - first < 3:
            return ends[[first, last]]
        beside = np.array([first + 1, last - 2])
        as_crowded = TAIL * people[[first, last - 1]] / people[beside]
        widths = np.diff(ends)[beside] * np.maximum(as_crowded, 1.0)
        inner = ends[[first + 1, last - 1]]
        return np.clip(inner + widths * [-1, 1], ends[first], ends[last])

    wide = (ends[-1] - ends[0]) / np.ptp(left(MOST_BEYOND))
    low, high = left(min(BEYOND_PER_WIDTH * wide, MOST_BEYOND))
    room = 0.0 if split else MARGIN * (high - low)
    low, high = max(low - room, ends[0]), min(high + room, ends[-1])
    first = np.searchsorted(ends, low, side="right") - 1
    last = np.searchsorted(ends, high)
    knots = np.concatenate([[low], ends[first + 1 : last], [high]])
    return masses[:, :, first:last], Scale(knots, np.linspace(0, 1, len(knots)))


def largest_gap(masses: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance between the groups' predictions as they are."""
    of_group = masses.sum(axis=1)
    cdfs = of_group.cumsum(axis=1) / of_group.sum(axis=1, keepdims=True)
    return float(np.ptp(cdfs, axis=0).max())


def expected_gap(
    masses: np.ndarray, maps: LevelMaps, sizes: np.ndarray, noise_variance: float
) -> float:
    """Root mean square of the largest gap between the answers of fresh people.

    Of the two groups that are known least: the gap that the masses show, and the errors
    that noise and few rows make of it. Without noise nothing is doubted.

    Parameters
    ----------
    masses : ndarray of shape (n_groups, n_regions, n_bins)
    maps : LevelMaps
    sizes : ndarray of shape (n_groups,)
        Noisy numbers of people whom the masses are estimated from.
    noise_variance : float
        Of their counts.
    """
    n_groups, n_regions, n_bins = masses.shape
    # Answers may crowd between two levels, where they are as far apart as before.
    answers = np.arange(1, POINTS) / POINTS
    places = [np.interp(answers, values, maps.points) for values in maps.values]
    below = np.array(places)[:, :, None] * n_bins - np.arange(n_bins)
    below = below.clip(0, 1).swapaxes(0, 1).reshape(POINTS - 1, -1)
    shares = masses.reshape(n_groups, -1)
    cdfs = below @ (shares / shares.sum(axis=1, keepdims=True)).T
    gaps = np.ptp(cdfs, axis=1)
    if noise_variance == 0:
        return float(gaps.max())
    moved = [((below - cdf[:, None]) ** 2).sum(axis=1) for cdf in cdfs.T]
    sizes = np.maximum(sizes, 1.0)
    errors = noise_variance * np.transpose(moved) / sizes**2 + cdfs * (1 - cdfs) / sizes
    least_known = np.sort(errors, axis=1)[:, -2:].sum(axis=1)
    return float(np.sqrt(gaps**2 + least_known).max())


def cost(
    masses: np.ndarray, maps: LevelMaps, scale: Scale = EVEN, split: bool = False
) -> float:
    """Mean squared change of the predictions; that of a constant answer is one."""
    mass = masses.sum(axis=0)  # (n_regions, n_bins)
    n_bins, n_parts = mass.shape[1], WITHIN if split else 1
    centres = scale.relative((np.arange(n_bins) + 0.5) / n_bins)
    points = (np.arange(n_bins * n_parts) + 0.5) / (n_bins * n_parts)
    changed = [np.interp(points, maps.points, row) for row in maps.values]
    changed = scale.relative(np.array(changed)).reshape(*mass.shape, n_parts)
    change = ((changed - centres[:, None]) ** 2).mean(axis=2)
    mean = (mass * centres).sum() / mass.sum()
    spread = (mass * (centres - mean) ** 2).sum()
    return float((mass * change).sum() / max(spread, 1e-12))


def solve_levels(
    masses: np.ndarray, tolerance: float, scale: Scale = EVEN
) -> LevelMaps:
    r"""Find the least squared change whose answers agree between groups.

    .. math::

        \min_x \sum_{c,k} m_c (f_c - g_k)^2 x_{c,k} \quad \text{such that} \quad
        \Big|\sum_{k \le l} \sum_c m_{s,c} x_{c,k} - Q_l\Big| \le \alpha / 2
        \text{ for all } s, l

    over cells c of region and prediction f, and levels g.
    """
    n_groups, n_regions, n_bins = masses.shape
    points = np.linspace(0, 1, POINTS + 1)
    if tolerance >= 1:
        return LevelMaps(points, np.tile(points, (n_regions, 1)))
    levels = scale.relative((np.arange(LEVELS) + 0.5) / LEVELS)
    cells = masses.reshape(n_groups, -1)
    mass = cells.sum(axis=0)
    place = np.tile(scale.relative((np.arange(n_bins) + 0.5) / n_bins), n_regions)
    shares = cells / cells.sum(axis=1, keepdims=True)
    n_cells, n_rates = len(mass), n_groups * LEVELS
    n_moves = n_cells * LEVELS

    whole = sparse.kron(sparse.eye_array(n_cells), np.ones((1, LEVELS)))
    rates = sparse.kron(sparse.csr_array(shares), sparse.eye_array(LEVELS))
    nothing = sparse.csr_array((n_cells, n_rates + LEVELS))
    centre = sparse.csr_array((n_rates, LEVELS))
    moved = sparse.hstack([whole, nothing])
    rated = sparse.hstack([rates, -sparse.eye_array(n_rates), centre])
    equal = sparse.vstack([moved, rated])
    sums = sparse.csr_array(np.tril(np.ones((LEVELS, LEVELS)))[:-1])
    summed = sparse.kron(sparse.eye_array(n_groups), sums)
    centres = sparse.vstack([sparse.eye_array(LEVELS - 1, LEVELS)] * n_groups)
    free = sparse.csr_array((summed.shape[0], n_moves))
    gap = sparse.hstack([free, summed, -centres])
    cost = 1e3 * mass[:, None] * (place[:, None] - levels) ** 2 / mass.sum()
    solution = linprog(
        np.concatenate([cost.ravel(), np.zeros(n_rates + LEVELS)]),
        A_ub=sparse.csr_array(sparse.vstack([gap, -gap])),
        b_ub=np.full(2 * gap.shape[0], tolerance / 2),
        A_eq=sparse.csr_array(equal),
        b_eq=np.concatenate([np.ones(n_cells), np.zeros(n_rates)]),
        bounds=(0, None),
        method="highs",
    )
    moves = np.maximum(solution.x[:n_moves].reshape(n_cells, LEVELS), 0)
    moves *= (mass / moves.sum(axis=1))[:, None]
    # Within a region the least change is the increasing one: a prediction goes to the
    # level at which as many of the region are below.
    before = moves.sum(axis=1).reshape(n_regions, n_bins)
    after = moves.reshape(n_regions, n_bins, LEVELS).sum(axis=1)
    values = []
    for source, target in zip(_below(before), _below(after), strict=True):
        reached = np.interp(points, np.linspace(0, 1, n_bins + 1), source)
        values.append(np.interp(reached, target, np.linspace(0, 1, LEVELS + 1)))
    return LevelMaps(points, np.array(values))


def _below(masses: np.ndarray) -> np.ndarray:
    """Increasing distribution functions at the ends of equal cells, one a row."""
    masses = masses / np.maximum(masses.sum(axis=1, keepdims=True), 1e-300)
    masses = (1 - UNIFORM_MASS) * masses + UNIFORM_MASS / masses.shape[1]
    below = np.pad(masses.cumsum(axis=1), ((0, 0), (1, 0)))
    return below / below[:, -1:]


def measure(
    table: np.ndarray,
    masses: np.ndarray,
    maps: LevelMaps,
    noise_variance: float,
    scale: Scale = EVEN,
    split: bool = False,
) -> Measured:
    """Measure a repair by noisy counts that played no part in finding it.

    Parameters
    ----------
    table : ndarray of shape (n_groups, n_regions, n_bins)
        Noisy counts of the predictions.
    masses : ndarray of shape (n_groups, n_regions, n_other_bins)
        What the repair was found with; it says where to look.
    maps : LevelMaps
    noise_variance : float
    scale : Scale
        Of the predictions.
    split : bool, default=False
        Whether the predictions of a bin, as many as the masses have, are sent anywhere
        in it.

    Returns
    -------
    measured : Measured
        The disparity is the largest gap of the groups' distribution functions at
        `PLACES` quantiles of the answers, the error the mean squared change of the
        predictions, as a part of the squared range. Within a bin predictions are
        taken as the masses around it tell.
    """
    n_groups, n_regions, n_bins = table.shape
    table = table.astype(np.float64)
    points = (np.arange(WITHIN * n_bins) + 0.5) / (WITHIN * n_bins)
    answers = np.array([np.interp(points, maps.points, row) for row in maps.values])
    # Even within a bin predictions would spread more than they do.
    centres = (np.arange(masses.shape[2]) + 0.5) / masses.shape[2]
    expected = [np.interp(points, centres, row) for row in masses.sum(axis=0)]
    if split:
        expected = masses.sum(axis=0).repeat(WITHIN, axis=1)
    expected = np.maximum(expected, 1e-300)
    places = _quantiles(answers, expected)

    parts = expected.reshape(-1, WITHIN)
    parts = parts / parts.sum(axis=1, keepdims=True)
    below = (answers.reshape(-1, WITHIN, 1) <= places) * parts[:, :, None]
    below = below.sum(axis=1)
    counts = table.reshape(n_groups, -1)
    sizes = np.maximum(counts.sum(axis=1), 1.0)
    cdfs = np.clip(counts @ below / sizes[:, None], 0, 1)
    errors = _errors_of(cdfs, below, sizes, noise_variance)
    low, _ = interval_by_errors(cdfs.T, errors, CONFIDENCE)
    high = upper_end_by_errors(cdfs.T, errors, SELDOM)

    before = scale.relative(points)
    if split:  # no prediction is nearer to its draw than to others of the bin
        before = before.reshape(-1, WITHIN).mean(axis=1).repeat(WITHIN)
    change = (scale.relative(answers) - before) ** 2
    change = (change.reshape(-1, WITHIN) * parts).sum(axis=1)
    total = np.maximum(counts.sum(), 1.0)
    mean = counts.sum(axis=0) @ change / total
    chance = max(counts.sum(axis=0) @ change**2 / total - mean**2, 0.0) / total
    noise = n_groups * noise_variance * ((change - mean) ** 2).sum() / total**2
    half = -ndtri((1 - CONFIDENCE) / 2) * np.sqrt(chance + noise)
    spread = np.sqrt(counts.shape[1] * noise_variance)
    return Measured(
        disparity=float(np.ptp(cdfs, axis=0).max()),
        interval=(low, high),
        error=float(max(mean, 0.0)),
        error_interval=(max(mean - half, 0.0), max(mean + half, 0.0)),
        known=bool((sizes > 2 * spread).all()),
    )


def _quantiles(answers: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Answers below which even parts of the masses lie."""
    order = np.argsort(answers, axis=None)
    reached = masses.ravel()[order].cumsum() / masses.sum()
    places = np.searchsorted(reached, np.arange(1, PLACES + 1) / (PLACES + 1))
    return answers.ravel()[order][places]


def _errors_of(cdfs, below, sizes, noise_variance: float) -> np.ndarray:
    """Draws of the errors of distribution functions; (1, PLACES, n_groups, n_draws).

    By chance and by the noise of the counts, together at all places.
    """
    n_groups = len(cdfs)
    normal = np.concatenate(normal_points(n_groups * PLACES), axis=-1)
    normal = normal.reshape(n_groups, PLACES, -1)
    errors = np.empty(normal.shape)
    for group, (cdf, size) in enumerate(zip(cdfs, sizes, strict=True)):
        rising = np.maximum.accumulate(cdf)
        chance = np.minimum.outer(rising, rising) - np.outer(rising, rising)
        moved = below - cdf
        covariance = chance / size + noise_variance * moved.T @ moved / size**2
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0))
        errors[group] = root @ normal[group]
    return errors.swapaxes(0, 1)[None]
