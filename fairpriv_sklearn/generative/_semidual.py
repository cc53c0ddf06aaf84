r"""Semi-dual entropic transport to private records, as sums over the records.

Let :math:`x_j` be the generated points of a class and :math:`\psi_j` their
potentials. The semi-dual of the entropic transport problem between the points with
masses :math:`a_j` and the records :math:`y_i` is

.. math::

    \max_\psi \sum_j a_j \psi_j
    - \lambda \sum_i \log \sum_j \exp\frac{\psi_j - \|y_i - x_j\|^2}{\lambda} ,

whose gradients in :math:`\psi` and in the points need of each record only the soft
assignment :math:`P_{ij} \propto \exp((\psi_j - \|y_i - x_j\|^2) / \lambda)`. Both
are linear in :math:`\sum_i P_i \otimes (R, v_i)` with :math:`v_i` the record about
its class mean, clipped to norm :math:`R`.

Everything here works in the coordinates of a public orthonormal basis. Sums are kept
in units of the clip radius.
"""

from dataclasses import dataclass
from math import sqrt
from types import SimpleNamespace

import numpy as np

from .._shared.arrays import stretch_triangle, unstretch_triangle
from .._shared.rowwise import row_scores, row_softmax
from .._shared.sensitivity import rows_changed
from .._wall import PrivacyFilter, Query, Release, Rows
from ._exact import (
    MAX_RECORDS,
    ROUNDING,
    UNIT,
    class_sums,
    encode_probabilities,
    encode_rows,
)
from ._space import Box

MEANS, MOMENTS, STEPS = "class means", "second moments", "transport sums"

# A point's count is taken to be at least this share of its target mass.
MIN_COUNT_SHARE = 0.2
# Damping of the half-step in the potentials.
POTENTIAL_RATE = 0.7


@dataclass(frozen=True)
class SemidualPlan:
    """The public numbers of one semi-dual fit.

    Parameters
    ----------
    n_classes, n_components, n_points, n_steps : int
        Shapes of the releases. With one point per class there are no steps.
    mean_clip, clip : float
        Largest norms of a record and of a record about its class mean.
    shares : tuple of three floats
        Parts of ``mu**2`` for means, second moments and all steps together.
    regularization : float
        ``lambda`` as a fraction of twice the released variance of the class.
    n_records : int or None
        Number of records where it is public.
    """

    n_classes: int
    n_components: int
    n_points: int
    n_steps: int
    mean_clip: float
    clip: float
    shares: tuple[float, float, float]
    regularization: float
    n_records: int | None
    box: Box | None = None

    def coordinates(self, block: SimpleNamespace) -> np.ndarray:
        """Coordinates of a block of records, (n, k)."""
        return block.z if self.box is None else self.box.coordinates(block.z)

    def regularization_at(self, step: int) -> float:
        """Annealed over the first half, where few coordinates make cells greedy."""
        first = max(self.regularization, min(0.5, 1 / self.n_components))
        progress = min(1.0, 2 * step / self.n_steps)
        return first * (self.regularization / first) ** progress

    @property
    def queries(self) -> tuple:
        """Class means, second moments and one transport step."""
        return MeanRows(self), MomentMatrices(self), AssignmentSums(self)

    def lines(self, mu: float) -> list[Release]:
        """What is released, out of a total of `mu` in Gaussian DP."""
        times = (1, 1 if self.shares[1] else 0, self.n_steps)
        return [
            query.line(mu * sqrt(share / n), n)
            for query, share, n in zip(self.queries, self.shares, times, strict=True)
            if n
        ]


@dataclass(frozen=True)
class ClassMixture:
    """What a semi-dual fit releases, in coordinates; C classes, J points, k numbers.

    Attributes
    ----------
    counts : ndarray of shape (C,)
        Noisy numbers of records, at least 1.
    means : ndarray of shape (C, k)
        Noisy class means.
    points : ndarray of shape (C, J, k)
        Centres about the class mean.
    weights : ndarray of shape (C, J)
        Their shares of the class.
    factors : ndarray of shape (C, k, k)
        ``factors[c] @ factors[c].T`` is the covariance around every centre.
    """

    counts: np.ndarray
    means: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    factors: np.ndarray


@dataclass(frozen=True)
class SemidualQuery(Query):
    """A sum over the records of integers in the block of their class.

    Sums of a block of records stay below 2**53 and are exact doubles.
    """

    plan: SemidualPlan

    theorem = "user_guide/generators_proofs:generators-semi-dual"
    max_rows = MAX_RECORDS

    def coded(self, block: SimpleNamespace, means: np.ndarray) -> np.ndarray:
        """Records about their class means, clipped, in code units."""
        z = self.plan.coordinates(block)
        return encode_rows(z - means[block.codes], self.plan.clip)


@dataclass(frozen=True)
class MeanRows(SemidualQuery):
    """Per class, the sum of ``(1, z / R)``, (C, 1 + k)."""

    name = MEANS

    @property
    def n_coordinates(self) -> int:
        return self.plan.n_classes * (1 + self.plan.n_components)

    def sensitivity(self, neighboring: str) -> float:
        """In clip radii: rows of norm sqrt(2), with inner products not negative."""
        return sqrt(2 * rows_changed(neighboring))

    def of_block(self, block, state):
        """Integers in units of UNIT."""
        z = encode_rows(self.plan.coordinates(block), self.plan.mean_clip)
        coded = np.column_stack([np.full(len(z), UNIT), z])
        return class_sums(block.codes, coded, self.plan.n_classes)

    def value(self, total, state):
        """In clip radii."""
        return total / UNIT


@dataclass(frozen=True)
class MomentMatrices(SemidualQuery):
    """Per class, the sum of ``v v^T`` in squared clip radii, as stretched triangles.

    The state is the released class means.
    """

    name = MOMENTS

    @property
    def n_coordinates(self) -> int:
        k = self.plan.n_components
        return self.plan.n_classes * k * (k + 1) // 2

    def sensitivity(self, neighboring: str) -> float:
        """Frobenius: matrices of norm 1, with inner products not negative."""
        return sqrt(rows_changed(neighboring)) * ROUNDING

    def of_block(self, block, state):
        """Integers in units of UNIT squared."""
        coded = self.coded(block, state)
        members = [coded[block.codes == c] for c in range(self.plan.n_classes)]
        return np.array([rows.T @ rows for rows in members]).astype(np.int64)

    def value(self, total, state):
        """In squared clip radii."""
        return stretch_triangle(total / UNIT**2)


@dataclass(frozen=True)
class AssignmentSums(SemidualQuery):
    """One step: per class and point, the sum of ``P (1, v / R)``, (C, J, 1 + k).

    The state is the released class means, points, potentials and regularisation.
    """

    name = STEPS

    @property
    def n_coordinates(self) -> int:
        plan = self.plan
        return plan.n_classes * plan.n_points * (1 + plan.n_components)

    def sensitivity(self, neighboring: str) -> float:
        """In clip radii: rows of norm sqrt(2), with inner products not negative."""
        return sqrt(2 * rows_changed(neighboring)) * ROUNDING

    def of_block(self, block, state):
        """Integers in units of UNIT squared."""
        means, points, potentials, regularization = state
        coded = self.coded(block, means)
        sums = [
            assignment_sums(
                coded[block.codes == c],
                points[c],
                potentials[c],
                regularization[c],
                self.plan.clip,
            )
            for c in range(self.plan.n_classes)
        ]
        return np.array(sums).astype(np.int64)

    def value(self, total, state):
        """In clip radii."""
        return total / UNIT**2


def fit_mixture(rows: Rows, plan: SemidualPlan, wall: PrivacyFilter) -> ClassMixture:
    """Release class means, second moments and semi-dual sums, and solve.

    `rows` has the coordinates ``z`` (n, k) of the records and their ``codes`` (n,).
    """
    counts, means = release_means(rows, plan, wall)
    covariances = release_covariances(rows, means, counts, plan, wall)
    points = np.zeros((plan.n_classes, 1, plan.n_components))
    weights = np.ones((plan.n_classes, 1))
    if plan.n_steps:
        points, weights = fit_points(rows, means, counts, covariances, plan, wall)
    factors = np.array(list(map(_local_factor, covariances, points, weights)))
    return ClassMixture(counts, means, points, weights, factors)


def release_means(rows, plan, wall):
    """Noisy class counts (floored) and class means."""
    query = MeanRows(plan)
    sums, scale = wall.release(query, rows), wall.scale(query)
    counts = np.maximum(sums[:, 0], max(1.0, scale))
    if plan.n_records is not None:
        counts = np.maximum(1.0, counts * (plan.n_records / counts.sum()))
    means = sums[:, 1:] / np.maximum(counts, scale)[:, None]
    # a mean of clipped records lies in their ball
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    return counts, means * (plan.mean_clip / np.maximum(norms, 1.0))


def release_covariances(rows, means, counts, plan, wall):
    """Noisy class covariances, cleaned of what noise alone explains.

    The pooled matrix is the most precise one; a class keeps of its difference from it
    the eigenvalues beyond the edge of the noise spectrum, and its own trace.
    """
    query = MomentMatrices(plan)
    scale = wall.scale(query)
    sums = unstretch_triangle(wall.release(query, rows, means), plan.n_components)
    k = plan.n_components
    unit = plan.clip**2 / counts
    moments = sums * unit[:, None, None]
    pooled = np.einsum("c,cij->ij", counts / counts.sum(), moments)
    covariances = np.empty_like(moments)
    for c, moment in enumerate(moments):
        values, vectors = np.linalg.eigh(moment - pooled)
        values = _soft_cut(values, scale * sqrt(2 * k) * unit[c])
        cleaned = _positive_part(pooled + (vectors * values) @ vectors.T)
        difference = np.trace(moment) - np.trace(pooled)
        trace = np.trace(pooled) + _soft_cut(difference, scale * sqrt(k) * unit[c])
        # records lie in the ball, so no class has a larger trace than this
        trace = np.clip(trace, 1e-12 * plan.clip**2, plan.clip**2)
        total = np.trace(cleaned)
        if total > 0:
            covariances[c] = cleaned * (trace / total)
        else:
            covariances[c] = np.eye(k) * (trace / k)
    return covariances


def assignment_sums(coded, points, potentials, regularization, clip):
    """Sum of ``P_i (1, v_i / R)`` over the coded records of one class, (J, 1 + k)."""
    V = coded * (clip / UNIT)
    scores = 2 * row_scores(V, points.T) + (potentials - np.square(points).sum(axis=1))
    P = encode_probabilities(row_softmax(scores / regularization))
    return P.T @ np.column_stack([np.full(len(coded), UNIT), coded])


def fit_points(rows, means, counts, covariances, plan, wall):
    """Damped semi-dual steps: centres of every class (C, J, k), their shares (C, J).

    The steps of the second half hardly move the centres any more: their sums are
    added up, which averages the noise.
    """
    spectra = [np.linalg.eigh(S) for S in covariances]
    points = _draw_centres(spectra, plan, wall.public_draws())
    potentials = np.zeros((plan.n_classes, plan.n_points))
    variances = np.trace(covariances, axis1=1, axis2=2)
    target = counts[:, None] / plan.n_points
    query = AssignmentSums(plan)
    scale, total, n_added = wall.scale(query), 0.0, 0
    for step in range(plan.n_steps):
        regularization = plan.regularization_at(step) * 2 * variances
        state = (means, points, potentials, regularization)
        sums = wall.release(query, rows, state)
        if step > plan.n_steps // 2:
            total, n_added = total + sums, n_added + 1
        else:
            total, n_added = sums, 1
        points = _noisy_centres(
            total / n_added, scale / sqrt(n_added), points, target, spectra, plan
        )
        masses = np.maximum(sums[..., 0], MIN_COUNT_SHARE * target)
        potentials = potentials + POTENTIAL_RATE * regularization[:, None] * np.log(
            target / masses
        )
    weights = np.maximum(total[..., 0], 0) + 1e-9 * target
    return points, weights / weights.sum(axis=1, keepdims=True)


def _draw_centres(spectra, plan, public):
    normal = public.standard_normal((plan.n_classes, plan.n_points, plan.n_components))
    pairs = zip(normal, spectra, strict=True)
    return np.array([(z * np.sqrt(np.maximum(v, 0))) @ V.T for z, (v, V) in pairs])


def _noisy_centres(sums, scale, points, target, spectra, plan):
    """Weighted means of the records, shrunk by what noise of sd ``scale`` adds.

    A point short of records stays where it was, as far as it lacks them: its
    potential rises until records reach it.
    """
    least = MIN_COUNT_SHARE * target[..., None]  # (C, J or 1, 1)
    masses = np.maximum(sums[..., :1], least)
    rough = plan.clip * sums[..., 1:] / masses
    noise = (plan.clip * scale / masses) ** 2
    missing = (masses - np.maximum(sums[..., :1], 0)) / masses
    shrunk = [
        _wiener(x, np.maximum(values, 0), vectors, variance)
        for x, variance, (values, vectors) in zip(rough, noise, spectra, strict=True)
    ]
    return missing * points + np.array(shrunk)


def _wiener(points, values, vectors, noise_variance):
    """Shrink noisy points along the axes of their prior covariance."""
    shrinkage = values / np.maximum(values + noise_variance, 1e-300)
    return ((points @ vectors) * shrinkage) @ vectors.T


def _local_factor(covariance, points, weights):
    """Square root of the covariance left once the centres have explained theirs.

    The more the centres explain, the more the rest is a difference of noisy matrices
    of nearly equal size: as far as that, its shape is that of the class.
    """
    explained = (points.T * weights) @ points
    rest = _positive_part(covariance - explained)
    share = min(1.0, np.trace(explained) / np.trace(covariance))
    shape = covariance * (np.trace(rest) / np.trace(covariance))
    values, vectors = np.linalg.eigh((1 - share) * rest + share * shape)
    return vectors * np.sqrt(np.maximum(values, 0))


def draw_levels(distributions: np.ndarray, u: np.ndarray) -> np.ndarray:
    """One level per row of ``distributions`` (n, m) by inversion of ``u`` (n,)."""
    edges = np.cumsum(distributions, axis=1)
    below = (edges <= u[:, None] * edges[:, -1:]).sum(axis=1)
    return np.minimum(below, distributions.shape[1] - 1)


def _soft_cut(values, threshold):
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0)


def _positive_part(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T
