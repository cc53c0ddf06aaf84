r"""A network trained on noisy gradients of the sliced Wasserstein distance.

The network draws n points :math:`x_{c,i}` of every class c, in units of the clip
radius about the released class mean. With :math:`r_{ki}` the rank of a point and
:math:`Q_{c,k}` the quantile function of the records along the public direction
:math:`\theta_k`, the gradient of the sliced distances, classes weighing
:math:`w_c`, is

.. math::

    G_{c,i} = \frac{2 w_c}{n K} \sum_k \big(\langle x_{c,i}, \theta_k \rangle
    - T_{c,k}[r_{ki}]\big) \theta_k , \qquad
    T_{c,k}[j] = n \int_{j/n}^{(j+1)/n} Q_{c,k}(t)\,dt .

Records enter through :math:`T` alone. Gradient and noise then go through the network
[1]_; nothing behind the noise costs anything.

References
----------
.. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes. "Learning with Differentially
   Private (Sliced) Wasserstein Gradients". arXiv:2502.01701, 2025.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from .._shared.rowwise import row_scores
from .._shared.sensitivity import counts_l2
from .._training._network import Adam, Network
from .._wall import PrivacyFilter, Query, Release, Rows
from ._exact import UNIT, encode_rows
from ._network_training import latent_inputs
from ._semidual import SemidualPlan, release_means

# Steps of the integer grid of projections in one clip radius. A sum over MAX_RECORDS
# records, times MAX_BATCH points, stays below 2**63.
RESOLUTION = 2**20
MAX_RECORDS = 2**24
MAX_BATCH = 2**16

GRADIENTS = "sliced gradients"


@dataclass(frozen=True)
class GradientPlan:
    """The public numbers of one training run.

    Parameters
    ----------
    moments : SemidualPlan
        Counts and class means, without second moments and transport steps.
    n_projections, n_steps, batch_size : int
        Directions K, noisy gradients, and points n of every class in each.
    hidden_layer_sizes : tuple of int
        Widths of the hidden layers.
    learning_rate : float
        First learning rate of Adam; decays linearly to zero.
    """

    moments: SemidualPlan
    n_projections: int
    n_steps: int
    batch_size: int
    hidden_layer_sizes: tuple[int, ...]
    learning_rate: float

    @property
    def n_classes(self) -> int:
        return self.moments.n_classes

    @property
    def latent_dim(self) -> int:
        return self.moments.n_components

    def lines(self, mu: float) -> list[Release]:
        """What is released, out of a total of `mu` in Gaussian DP."""
        n_coordinates = self.n_classes * self.batch_size * self.moments.n_components
        mu_step = mu * sqrt((1 - self.moments.shares[0]) / self.n_steps)
        steps = Release(GRADIENTS, "gaussian", mu_step, n_coordinates, self.n_steps)
        return [*self.moments.lines(mu)[:1], steps]


@dataclass(frozen=True, eq=False)
class SlicedGradient(Query):
    """The part of -G that depends on records, at the points of all classes, (C, n, k).

    The state is the public points (C, n, k). The quantiles of the records are the same
    in all steps; they are kept inside the query, and never leave it.

    Parameters
    ----------
    plan : GradientPlan
    directions : ndarray of shape (k, K)
    means : ndarray of shape (C, k)
        Released class means.
    min_sizes : ndarray of shape (C,)
        Released numbers of records, dummies included, that every class has at least.
    """

    plan: GradientPlan
    directions: np.ndarray
    means: np.ndarray
    min_sizes: np.ndarray

    name = GRADIENTS
    theorem = "user_guide/generators_proofs:generators-sliced-gradients"
    max_rows = MAX_RECORDS

    def __post_init__(self):
        object.__setattr__(self, "_quantiles", {})

    @property
    def n_coordinates(self) -> int:
        plan = self.plan
        return plan.n_classes * plan.batch_size * plan.moments.n_components

    @property
    def weights(self) -> np.ndarray:
        """Weights of the classes: with them all have the same sensitivity."""
        return self.min_sizes / self.min_sizes.sum()

    def sensitivity(self, neighboring: str) -> float:
        """l2 sensitivity of the gradients of all classes together."""
        k, K = self.directions.shape
        norm = np.linalg.norm(self.directions, 2)
        # a replaced record in all projections; 2 steps, as the grid moves both ends
        moved = 2 * norm + 2 * sqrt(K) / RESOLUTION
        # a replaced record leaves one class and enters another
        several = self.plan.n_classes > 1
        classes = counts_l2(neighboring) if several else 1.0
        # the sum over directions is no sum over records, but rounds as well
        rounding = 4 * sqrt(k / self.plan.batch_size) * (K + 8) * 2.0**-53
        n_least = int(self.min_sizes.sum())
        return float(classes * 2 * norm * moved / (K * n_least) + rounding)

    def of_rows(self, rows: Rows, state):
        """Gradient of the mean sliced distance of all classes."""
        if rows not in self._quantiles:
            self._quantiles.clear()
            self._quantiles[rows] = self.quantiles(rows)
        return private_gradient(
            state, self._quantiles[rows], self.directions, self.weights
        )

    def quantiles(self, rows: Rows) -> np.ndarray:
        """Mean quantiles of all classes over the slots, (C, n, K)."""
        clip, codes, coded = self.plan.moments.clip, [], []
        for block in rows.blocks(self.block_rows):
            coded.append(encode_rows(block.z - self.means[block.codes], clip) / UNIT)
            codes.append(block.codes)
        V, codes = np.concatenate(coded), np.concatenate(codes)
        return np.array(
            [
                slot_means(V[codes == c], self.directions, self.plan.batch_size, floor)
                for c, floor in enumerate(self.min_sizes)
            ]
        )


def slot_means(V, directions, n_slots: int, floor: int) -> np.ndarray:
    """Mean quantiles of one class over equal slots of ranks, (n_slots, K).

    A class with fewer than ``floor`` records is filled up with dummies at its mean.
    Up to the last division all is integer: nothing depends on the order of the rows.
    """
    n = max(len(V), floor)
    # in units of 1 / (n n_slots), of which a record owns n_slots and a slot n
    record, part = np.divmod(np.arange(n_slots) * n, n_slots)
    sums = []
    for direction in directions.T:
        codes = np.zeros(n, dtype=np.int64)
        codes[: len(V)] = np.rint(row_scores(V, direction) * RESOLUTION)
        codes.sort()
        below = (np.cumsum(codes) - codes)[record] * n_slots + part * codes[record]
        sums.append(np.diff(below, append=codes.sum() * n_slots))
    return np.column_stack(sums) / (n * RESOLUTION)


def private_gradient(points, quantiles, directions, weights) -> np.ndarray:
    """The query of one step: the part of -G that depends on records, (C, n, k).

    ``points`` (C, n, k) are public, ``quantiles`` (C, n, K) from :func:`slot_means`,
    ``weights`` (C,) those of the classes in the objective.
    """
    order = np.argsort(points @ directions, axis=1)
    matched = np.empty_like(quantiles)
    np.put_along_axis(matched, order, quantiles, axis=1)
    _, n, K = quantiles.shape
    return (2 / (n * K) * weights)[:, None, None] * (matched @ directions.T)


def train_on_projections(
    rows: Rows, directions, plan: GradientPlan, wall: PrivacyFilter
):
    """Release counts, means and gradients; return counts, means and the network.

    `rows` has the coordinates ``z`` (N, k) of the records and their ``codes`` (N,).
    """
    C, n, k = plan.n_classes, plan.batch_size, plan.moments.n_components
    public = wall.public_draws()
    counts, means = release_means(rows, plan.moments, wall)
    min_sizes = np.clip(np.rint(counts), 1, MAX_RECORDS).astype(np.int64)
    query = SlicedGradient(plan, directions, means, min_sizes)

    widths = (plan.latent_dim + C, *plan.hidden_layer_sizes, k)
    network = Network(widths, hidden_activation="tanh")
    network.initialize(public.standard_normal)
    optimizer, average, n_averaged = Adam(), np.zeros_like(network.theta), 0
    labels = np.repeat(np.arange(C), n)
    curvature = 2 / (n * plan.n_projections) * (directions @ directions.T)
    for step in range(plan.n_steps):
        outputs = network.forward(latent_inputs(labels, plan, public))
        points = outputs[-1].reshape(C, n, k)
        noisy = wall.release(query, rows, points)
        gradient = query.weights[:, None, None] * (points @ curvature) - noisy
        deltas = network.backward(outputs, gradient.reshape(C * n, k))
        rate = plan.learning_rate * (1 - step / plan.n_steps)
        optimizer.step(network.theta, network.gradient(outputs, deltas), rate)
        if step >= plan.n_steps // 2:
            n_averaged += 1
            average += (network.theta - average) / n_averaged
    network.theta[:] = average
    return counts, means, network
