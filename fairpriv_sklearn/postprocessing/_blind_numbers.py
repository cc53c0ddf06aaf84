r"""Repair of predicted numbers without the group at prediction.

One noisy table of counts, true group by region of the estimated group shares by bin of
the prediction, tells what the rule needs: how the groups' predictions are distributed,
and which group a prediction belongs to in which region. The most accurate rule of
prediction and region whose answers have the same distribution in all groups, up to a
tolerance in Kolmogorov-Smirnov distance, is then a linear program over levels (compare
V. Divol and S. Gaucher 2024 for the rule without noise). Between the levels the answer
is interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import ndtri

from fairpriv_sklearn.postprocessing._blind import (
    Measured,
    interval_by_errors,
    normal_points,
)
from fairpriv_sklearn.postprocessing._histogram import smooth_estimate

# Bins of the prediction, and regions of two groups' shares; chosen on simulated tables
# of 600 to 20,000 rows.
BINS = 16
REGIONS = 6
# In small tables (`_histogram.LARGE`) groups differ if their gap is above this many
# standard errors of the smallest one's distribution function, few rows included. Chosen
# on simulated tables of groups that do not differ.
TOLD = 2.0
# Where parity costs more than this part of all that the predictions tell, the repair
# stands back. Chosen on simulated tables.
WORTH = 0.7
# Parts of a bin that move on their own, and levels of the answer.
PARTS = 2
LEVELS = 32
# A measurement: bins of the prediction, parts of a bin, quantiles and confidence.
MEASURED_BINS = 32
WITHIN = 4
PLACES = 24
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class LevelMaps:
    """One increasing map of the predictions per region, on the unit interval.

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
        region's predictions (`_histogram.smooth_estimate`), drawn half way to an even
        one: a region is where the groups' shares hardly vary, and a linear program
        makes the most of every error.
    """
    masses = np.empty(counts.shape)
    for region, of_region in enumerate(counts.swapaxes(0, 1)):
        pmfs, weights = smooth_estimate(
            of_region, n=None, noise_variance=max(noise_variance, 1.0)
        )
        pmfs = (pmfs + weights @ pmfs) / 2
        masses[:, region] = max(of_region.sum(), 1.0) * weights[:, None] * pmfs
    return masses / masses.sum()


def largest_gap(masses: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance between the groups' predictions as they are."""
    of_group = masses.sum(axis=1)
    cdfs = of_group.cumsum(axis=1) / of_group.sum(axis=1, keepdims=True)
    return float(np.ptp(cdfs, axis=0).max())


def cost(masses: np.ndarray, maps: LevelMaps) -> float:
    """Mean squared change of the predictions; that of a constant answer is one."""
    mass = masses.sum(axis=0)  # (n_regions, n_bins)
    centres = (np.arange(mass.shape[1]) + 0.5) / mass.shape[1]
    changed = np.array([np.interp(centres, maps.points, row) for row in maps.values])
    mean = (mass * centres).sum() / mass.sum()
    spread = (mass * (centres - mean) ** 2).sum()
    return float((mass * (changed - centres) ** 2).sum() / max(spread, 1e-12))


def solve_levels(masses: np.ndarray, tolerance: float) -> LevelMaps:
    r"""Find the least squared change whose answers agree between groups.

    .. math::

        \min_x \sum_{c,k} m_c (f_c - g_k)^2 x_{c,k} \quad \text{such that} \quad
        \Big|\sum_{k \le l} \sum_c m_{s,c} x_{c,k} - Q_l\Big| \le \alpha / 2
        \text{ for all } s, l

    over cells c of region and prediction f, and levels g.
    """
    n_groups, n_regions, n_bins = masses.shape
    fine = np.repeat(masses, PARTS, axis=2) / PARTS
    n_points = n_bins * PARTS
    points = (np.arange(n_points) + 0.5) / n_points
    if tolerance >= 1:
        ends = np.concatenate([[0.0], points, [1.0]])
        return LevelMaps(ends, np.tile(ends, (n_regions, 1)))
    levels = (np.arange(LEVELS) + 0.5) / LEVELS
    cells = fine.reshape(n_groups, -1)
    mass = cells.sum(axis=0)
    place = np.tile(points, n_regions)
    shares = cells / cells.sum(axis=1, keepdims=True)
    n_cells, n_rates = len(mass), n_groups * LEVELS
    n_moves = n_cells * LEVELS

    whole = sparse.kron(sparse.eye_array(n_cells), np.ones((1, LEVELS)))
    rates = sparse.kron(sparse.csr_array(shares), sparse.eye_array(LEVELS))
    nothing = sparse.csr_array((n_cells, n_rates + LEVELS))
    centre = sparse.csr_array((n_rates, LEVELS))
    equal = sparse.vstack(
        [
            sparse.hstack([whole, nothing]),
            sparse.hstack([rates, -sparse.eye_array(n_rates), centre]),
        ]
    )
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
    means = (moves @ levels / moves.sum(axis=1)).reshape(n_regions, n_points)
    # Rounding of the solver apart they rise already, by the optimality of transport
    # within a region; a hair of slope keeps different predictions apart.
    means = np.maximum.accumulate(means, axis=1)
    means = (1 - 1e-3) * means + 1e-3 * points
    return LevelMaps(points, means)


def measure(
    table: np.ndarray, masses: np.ndarray, maps: LevelMaps, noise_variance: float
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

    Returns
    -------
    measured : Measured
        The disparity is the largest gap of the groups' distribution functions at
        `PLACES` quantiles of the answers, the error the mean squared change of the
        predictions, as a part of the squared range. Predictions are taken as even
        within the bins.
    """
    n_groups, n_regions, n_bins = table.shape
    table = table.astype(np.float64)
    points = (np.arange(WITHIN * n_bins) + 0.5) / (WITHIN * n_bins)
    answers = np.array([np.interp(points, maps.points, row) for row in maps.values])
    bins = (points * masses.shape[2]).astype(np.int64)
    expected = masses.sum(axis=0)[:, bins]
    order = np.argsort(answers, axis=None)
    reached = expected.ravel()[order].cumsum() / expected.sum()
    places = np.searchsorted(reached, np.arange(1, PLACES + 1) / (PLACES + 1))
    places = answers.ravel()[order][places]

    below = answers[:, :, None] <= places
    below = below.reshape(n_regions, n_bins, WITHIN, PLACES).mean(axis=2)
    below = below.reshape(-1, PLACES)
    counts = table.reshape(n_groups, -1)
    sizes = np.maximum(counts.sum(axis=1), 1.0)
    cdfs = np.clip(counts @ below / sizes[:, None], 0, 1)
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
    interval = interval_by_errors(cdfs.T, errors.swapaxes(0, 1)[None], CONFIDENCE)

    change = ((answers - points) ** 2).reshape(-1, WITHIN).mean(axis=1)
    total = np.maximum(counts.sum(), 1.0)
    mean = counts.sum(axis=0) @ change / total
    chance = max(counts.sum(axis=0) @ change**2 / total - mean**2, 0.0) / total
    noise = n_groups * noise_variance * ((change - mean) ** 2).sum() / total**2
    half = -ndtri((1 - CONFIDENCE) / 2) * np.sqrt(chance + noise)
    spread = np.sqrt(counts.shape[1] * noise_variance)
    return Measured(
        disparity=float(np.ptp(cdfs, axis=0).max()),
        interval=interval,
        error=float(max(mean, 0.0)),
        error_interval=(max(mean - half, 0.0), max(mean + half, 0.0)),
        known=bool((sizes > 2 * spread).all()),
    )
