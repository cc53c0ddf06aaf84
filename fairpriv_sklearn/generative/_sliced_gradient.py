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

from fairpriv_sklearn._network import Adam, Network
from fairpriv_sklearn._rowwise import row_scores
from fairpriv_sklearn.generative._exact import (
    MAX_RECORDS,
    UNIT,
    GaussianBudget,
    encode_rows,
)
from fairpriv_sklearn.generative._network_training import latent_inputs
from fairpriv_sklearn.generative._semidual import SemidualPlan, release_means

# Steps of the integer grid of projections in one clip radius. A sum over MAX_RECORDS
# records, times MAX_BATCH points, stays below 2**63.
RESOLUTION = 2**20
MAX_BATCH = 2**16


@dataclass(frozen=True)
class GradientPlan:
    """The public numbers of one training run.

    Parameters
    ----------
    moments : SemidualPlan
        Counts and class means, without second moments and transport steps.
    n_slices, n_steps, batch_size : int
        Directions K, noisy gradients, and points n of every class in each.
    hidden_layer_sizes : tuple of int
        Widths of the hidden layers.
    learning_rate : float
        First learning rate of Adam; decays linearly to zero.
    """

    moments: SemidualPlan
    n_slices: int
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

    @property
    def n_draws(self) -> int:
        """Number of noisy coordinates of the whole fit."""
        C, k = self.n_classes, self.moments.n_components
        return C * (1 + k) + self.n_steps * C * self.batch_size * k

    def sensitivity(self, directions: np.ndarray, n_least: int) -> float:
        """l2 sensitivity of the gradients of all classes together.

        ``n_least`` is the number of records that all classes have at least, dummies
        included. Proof: user guide, "Generators".
        """
        k, K = directions.shape
        norm = np.linalg.norm(directions, 2)
        # a replaced record in all projections; 2 steps, as the grid moves both ends
        moved = 2 * norm + 2 * sqrt(K) / RESOLUTION
        classes = 1
        if self.moments.neighboring == "replace_one" and self.n_classes > 1:
            classes = sqrt(2)  # it leaves one class and enters another
        # the sum over directions is no sum over records, but rounds as well
        rounding = 4 * sqrt(k / self.batch_size) * (K + 8) * 2.0**-53
        return float(classes * 2 * norm * moved / (K * n_least) + rounding)


def slot_means(V, directions, n_slots: int, floor: int) -> np.ndarray:
    """Mean quantiles of one class over equal slots of ranks, (n_slots, K).

    A class with fewer than ``floor`` records is filled up with dummies at its mean.
    Up to the last division all is integer: nothing depends on the order of the rows.
    """
    n = max(len(V), floor)
    # in units of 1 / (n n_slots), of which a record owns n_slots and a slot n
    record, part = np.divmod(np.arange(n_slots + 1) * n, n_slots)
    means = np.empty((n_slots, directions.shape[1]))
    for k, direction in enumerate(directions.T):
        codes = np.zeros(n + 1, dtype=np.int64)  # the last entry only ends the ranks
        codes[: len(V)] = np.rint(row_scores(V, direction) * RESOLUTION)
        codes[:n].sort()
        below = np.append(0, np.cumsum(codes[:n])) * n_slots
        means[:, k] = np.diff(below[record] + part * codes[record]) / (n * RESOLUTION)
    return means


def private_gradient(points, quantiles, directions, weights) -> np.ndarray:
    """The query of one step: the part of -G that depends on records, (C, n, k).

    ``points`` (C, n, k) are public, ``quantiles`` (C, n, K) from :func:`slot_means`,
    ``weights`` (C,) those of the classes in the objective.
    """
    order = np.argsort(points @ directions, axis=1)
    matched = np.empty_like(quantiles)
    np.put_along_axis(matched, order, quantiles, axis=1)
    n, K = quantiles.shape[1:]
    return (2 / (n * K) * weights)[:, None, None] * (matched @ directions.T)


def train_on_slices(Z, codes, directions, plan: GradientPlan, budget: GaussianBudget):
    """Release counts, means and gradients; return counts, means and the network.

    ``Z`` (N, k) must be row-pure coordinates of the records, ``codes`` (N,) their
    classes.
    """
    C, n, k = plan.n_classes, plan.batch_size, plan.moments.n_components
    source = budget.source
    counts, means = release_means(Z, codes, plan.moments, budget)
    floors = np.clip(np.rint(counts), 1, MAX_RECORDS).astype(np.int64)
    V = encode_rows(Z - means[codes], plan.moments.clip) / UNIT
    quantiles = np.array(
        [slot_means(V[codes == c], directions, n, floors[c]) for c in range(C)]
    )
    # weights like the floors give all classes the same sensitivity
    weights = floors / floors.sum()
    sensitivity = plan.sensitivity(directions, floors.sum())
    share = (1 - plan.moments.shares[0]) / plan.n_steps

    widths = (plan.latent_dim + C, *plan.hidden_layer_sizes, k)
    network = Network(widths, hidden_activation="tanh")
    network.initialize(source.standard_normal)
    optimizer, average, n_averaged = Adam(), np.zeros_like(network.theta), 0
    labels = np.repeat(np.arange(C), n)
    curvature = 2 / (n * plan.n_slices) * (directions @ directions.T)
    for step in range(plan.n_steps):
        outputs = network.forward(latent_inputs(labels, plan, source))
        points = outputs[-1].reshape(C, n, k)
        private = private_gradient(points, quantiles, directions, weights)
        noisy, _ = budget.release(private, sensitivity, share)
        gradient = weights[:, None, None] * (points @ curvature) - noisy
        deltas = network.backward(outputs, gradient.reshape(C * n, k))
        rate = plan.learning_rate * (1 - step / plan.n_steps)
        optimizer.step(network.theta, network.gradient(outputs, deltas), rate)
        if step >= plan.n_steps // 2:
            n_averaged += 1
            average += (network.theta - average) / n_averaged
    network.theta[:] = average
    return counts, means, network
