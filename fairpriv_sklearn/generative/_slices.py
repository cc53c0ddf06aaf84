r"""Sliced histograms: released once, then a particle flow for free.

For public directions :math:`\theta_1, \dots, \theta_K` and every class, the histogram
of the standardised projections :math:`\langle v, \theta_k \rangle / s_{c,k}` on
public bins is released; a record adds one count per direction. Draws from the
released Gaussian then move along the gradient of the sliced squared Wasserstein
distance to these one-dimensional distributions.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import ndtr

from .._shared.arrays import project_simplex
from .._shared.rowwise import BLOCK_ROWS, padded_blocks
from .._shared.sensitivity import counts_l2
from .._wall import Query, Release
from ._semidual import SemidualPlan

HISTOGRAMS = "projections"

MOMENTUM = 0.6
HALF_WIDTH = 3.0  # of the histograms, in standard deviations


@dataclass(frozen=True)
class SlicedPlan:
    """The public numbers of one sliced fit.

    Parameters
    ----------
    moments : SemidualPlan
        Means and second moments, without transport steps.
    n_projections, n_bins : int
        Directions, and bins of each histogram.
    share : float
        Part of ``mu**2`` for the histograms.
    n_flow_steps : int
        Steps of the particle flow.
    """

    moments: SemidualPlan
    n_projections: int
    n_bins: int
    share: float
    n_flow_steps: int

    def lines(self, mu: float) -> list[Release]:
        """What is released, out of a total of `mu` in Gaussian DP."""
        counts = SliceCounts(self).line(mu * sqrt(self.share))
        return [*self.moments.lines(mu), counts]

    @property
    def edges(self) -> np.ndarray:
        """Bin edges in standard deviations, (n_bins + 1,)."""
        return np.linspace(-HALF_WIDTH, HALF_WIDTH, self.n_bins + 1)


def draw_directions(n_components: int, n_projections: int, public) -> np.ndarray:
    """Unit directions (k, K): random; evenly spread angles in the plane."""
    if n_components == 2:
        angles = np.pi * np.arange(n_projections) / n_projections
        return np.array([np.cos(angles), np.sin(angles)])
    directions = public.standard_normal((n_components, n_projections))
    return directions / np.linalg.norm(directions, axis=0)


def slice_scales(factors: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Released standard deviation of every class along every direction, (C, K)."""
    scales = np.array(
        [np.linalg.norm(factor.T @ directions, axis=0) for factor in factors]
    )
    return np.maximum(scales, 1e-12)


@dataclass(frozen=True)
class SliceCounts(Query):
    """Histograms of the standardised projections of every class, (C, K, B).

    The state is the released class means, the directions and the released scales.
    """

    plan: SlicedPlan

    name = HISTOGRAMS
    theorem = "user_guide/generators_proofs:generators-semi-dual"

    @property
    def n_coordinates(self) -> int:
        return self.plan.moments.n_classes * self.plan.n_projections * self.plan.n_bins

    def sensitivity(self, neighboring: str) -> float:
        """One count per direction (Lemma A)."""
        return counts_l2(neighboring, self.plan.n_projections)

    def of_block(self, block, state):
        """Exact counts."""
        plan, (means, directions, scales) = self.plan, state
        C, K, B = shape = plan.moments.n_classes, plan.n_projections, plan.n_bins
        directions = np.ascontiguousarray(directions)
        z = plan.moments.coordinates(block)
        cells = np.empty((block.n_rows, K), dtype=np.intp)
        # Arrays that are used again: new ones would take longer than what is done.
        projected, divisors = np.empty((2, BLOCK_ROWS, K))
        for rows, V in padded_blocks(z - means[block.codes]):
            codes = block.codes[rows]
            bins, own = projected[: len(codes)], divisors[: len(codes)]
            np.matmul(V, directions, out=projected)
            bins /= scales.take(codes, axis=0, out=own, mode="clip")
            bins += HALF_WIDTH
            bins *= B / (2 * HALF_WIDTH)
            # What is not a number counts in the first bin, as `fmax` passes over it.
            np.fmax(bins, 0, out=bins)
            cells[rows] = np.minimum(bins, B - 1, out=bins)
            cells[rows] += np.arange(K) * B
            cells[rows] += codes[:, None] * (K * B)
        return np.bincount(cells.ravel(), minlength=C * K * B).reshape(shape)


def shrink_distributions(
    noisy: np.ndarray, counts: np.ndarray, scale: float, plan
) -> np.ndarray:
    """Bin probabilities (C, K, B): noisy frequencies pulled towards normal ones.

    The pull of a class is the share of noise in what its frequencies differ from the
    normal distribution by (empirical Bayes).
    """
    below = ndtr(plan.edges)
    below[0], below[-1] = 0, 1  # outer bins also hold what lies beyond
    normal = np.diff(below)
    difference = noisy / counts[:, None, None] - normal
    noise = (scale / counts) ** 2
    spread = np.maximum(np.mean(difference**2, axis=(1, 2)) - noise, 0)
    kept = spread / np.maximum(spread + noise, 1e-300)
    return project_simplex(normal + kept[:, None, None] * difference)


def slice_quantiles(distributions: np.ndarray, n: int, plan: SlicedPlan) -> np.ndarray:
    """Quantiles of one class (K, B) at the levels of n particles, (n, K)."""
    levels = (np.arange(n) + 0.5) / n
    edges = plan.edges
    # a little mass everywhere makes every distribution function invertible
    distributions = (distributions + 1e-9) / (1 + 1e-9 * plan.n_bins)
    below = np.pad(distributions.cumsum(axis=1), ((0, 0), (1, 0)))
    return np.column_stack([np.interp(levels, own, edges) for own in below])


def flow(particles: np.ndarray, targets: np.ndarray, directions, n_steps) -> np.ndarray:
    """Move particles (n, k) until their projections have the target quantiles (n, K).

    Heavy-ball gradient steps; the step size is one over the largest eigenvalue of
    the sum of ``theta theta^T``, beyond which the flow would diverge.
    """
    step = 1 / np.linalg.norm(directions, 2) ** 2
    velocity = np.zeros_like(particles)
    wanted = np.empty_like(targets)
    for _ in range(n_steps):
        projected = particles @ directions
        order = np.argsort(projected, axis=0)
        np.put_along_axis(wanted, order, targets, axis=0)
        velocity = MOMENTUM * velocity + step * ((wanted - projected) @ directions.T)
        particles = particles + velocity
    return particles
