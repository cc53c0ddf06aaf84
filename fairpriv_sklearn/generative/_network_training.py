r"""The published generator: a network trained on clipped, noised point gradients.

One step draws points :math:`X = (x_1, \dots, x_{n + n'})` from the network and a
Poisson sample :math:`Y` of the records, and follows the gradient of the semi-debiased
Sinkhorn loss of Cao et al. (2021),

.. math::

    2 W_\lambda(X_{1:n}, Y) - W_\lambda(X_{1:n}, X_{n'+1:n'+n}),
    \qquad n' = \lfloor p\, n \rceil .

Only the gradient at the first :math:`n` points depends on records. It is clipped as
a whole to norm :math:`c`, so any two batches give vectors within :math:`2c`, and
released with noise of standard deviation :math:`2 c z`. Inside the clip anything is
allowed: the classes of :math:`Y` are weighted to count the same, as those of :math:`X`
do, which the paper does not say.
"""

from dataclasses import dataclass

import numpy as np

from .._shared.sinkhorn import point_cost, sinkhorn, transport_gradient
from .._training._network import Adam, Network
from .._wall import PrivacyFilter, PublicDraws, Query, Rows

# Sweeps of Sinkhorn's algorithm per step: fixed, so that their number tells nothing.
N_SWEEPS = 20
WEIGHT_AVERAGE = 0.999

GRADIENTS = "point gradients"


@dataclass(frozen=True)
class NetworkPlan:
    """The public numbers of one training run.

    Parameters
    ----------
    n_classes, n_features : int
        Shapes of the records; ``n_classes`` 1 if there are no labels.
    n_steps, batch_size : int
        Steps, and generated points per step.
    sampling_rate, noise_multiplier : float
        Of the Poisson sample; of the noise relative to the sensitivity ``2 * clip``.
    clip, regularization, l1_weight, label_cost : float
        In units of the columns scaled to [0, 1], and of squared distance.
    debiasing : float
        ``p``: share of points drawn afresh for the second half of the self term.
    hidden_layer_sizes : tuple of int
        Widths of the hidden layers.
    latent_dim : int
        Width of the random input.
    learning_rate : float
        First learning rate of Adam; decays linearly to zero.
    output_bias : float
        First bias of the logistic output: negative where the background is zero.
    """

    n_classes: int
    n_features: int
    n_steps: int
    batch_size: int
    sampling_rate: float
    noise_multiplier: float
    clip: float
    regularization: float
    l1_weight: float
    label_cost: float
    debiasing: float
    hidden_layer_sizes: tuple[int, ...]
    latent_dim: int
    learning_rate: float
    output_bias: float

    def make_network(self) -> Network:
        """Return the generator: noise and one-hot label to columns in (0, 1)."""
        # no record enters it, so single precision is as private and twice as fast
        widths = (self.latent_dim + self.n_classes, *self.hidden_layer_sizes)
        return Network(
            (*widths, self.n_features), output_activation="logistic", dtype=np.float32
        )


def latent_inputs(codes: np.ndarray, plan: NetworkPlan, public: PublicDraws):
    """Random input of the network for points of the given classes."""
    # the label weighs as much as all the noise, or classes would blur at first
    one_hot = np.zeros((len(codes), plan.n_classes))
    one_hot[np.arange(len(codes)), codes] = np.sqrt(plan.latent_dim)
    normal = public.standard_normal((len(codes), plan.latent_dim))
    return np.hstack([normal, one_hot])


def records_gradient(points, labels, records, record_labels, plan: NetworkPlan):
    """Gradient of the term of the records at points; zero for an empty batch."""
    if not len(records):
        return np.zeros_like(points)
    # All classes weigh the same, as among the points: otherwise the points of a class
    # that is rare in the batch would be pulled to records of the others.
    weights = np.reciprocal(np.bincount(record_labels)[record_labels], dtype=float)
    weights /= weights.sum()
    coupling = _transport(points, labels, records, record_labels, plan, weights)
    return 2 * transport_gradient(coupling, points, records, l1_weight=plan.l1_weight)


def self_gradient(points, labels, plan: NetworkPlan) -> np.ndarray:
    """Gradient of the self term at all points; no record enters it."""
    n, n_fresh = plan.batch_size, len(points) - plan.batch_size
    first, second = slice(0, n), slice(n_fresh, None)
    gradient = np.zeros_like(points)
    A, B = points[first], points[second]
    coupling = _transport(A, labels[first], B, labels[second], plan)
    gradient[first] -= transport_gradient(coupling, A, B, l1_weight=plan.l1_weight)
    gradient[second] -= transport_gradient(coupling.T, B, A, l1_weight=plan.l1_weight)
    return gradient


def _transport(X, x_labels, Y, y_labels, plan, b=None):
    cost = point_cost(
        X,
        Y,
        x_labels=x_labels,
        y_labels=y_labels,
        label_cost=plan.label_cost,
        l1_weight=plan.l1_weight,
    )
    return sinkhorn(cost, plan.regularization, b=b, max_iter=N_SWEEPS, tol=None).plan


def clip_whole(gradient: np.ndarray, clip: float) -> np.ndarray:
    """Scale the gradient of all points together into the ball of radius ``clip``."""
    with np.errstate(all="ignore"):
        norm = np.linalg.norm(gradient)
    if not np.isfinite(norm):
        return np.zeros_like(gradient)
    # the factor keeps the rounded norm inside the ball
    return gradient * (clip * (1 - 1e-12) / max(norm, clip))


@dataclass(frozen=True, eq=False)
class PointGradient(Query):
    """Gradient of the loss at the first points, clipped as a whole, (n, m).

    The state is the public points, their labels and the gradient of the self term.
    Records reach it through a Poisson sample, which the filter draws.

    Parameters
    ----------
    plan : NetworkPlan
    basis : ndarray of shape (n_features, m) or None
        Orthonormal columns: only the part of the gradient in their span is released.
    """

    plan: NetworkPlan
    basis: np.ndarray | None

    name = GRADIENTS
    theorem = "user_guide/generators_proofs:generators-network"

    @property
    def n_coordinates(self) -> int:
        m = self.plan.n_features if self.basis is None else len(self.basis.T)
        return self.plan.batch_size * m

    def sensitivity(self, neighboring: str) -> float:
        """Two vectors in a ball, whatever the relation."""
        return 2 * self.plan.clip

    def of_rows(self, rows: Rows, state):
        """Gradient of the loss between the points and the sampled records."""
        points, labels, own = state
        batch = rows.whole()
        first = slice(self.plan.batch_size)
        private = own[first] + records_gradient(
            points[first], labels[first], batch.u, batch.codes, self.plan
        )
        if self.basis is not None:
            private = private @ self.basis
        return clip_whole(private, self.plan.clip)


def train_network(
    rows: Rows, plan: NetworkPlan, wall: PrivacyFilter, basis=None
) -> Network:
    """Train the generator on columns in [0, 1]; returns its averaged weights.

    `rows` has the scaled columns ``u`` of the records and their ``codes``. With a
    public `basis` of orthonormal columns, the part of the gradient inside its span is
    clipped and released, with noise inside the span only.
    """
    public, query = wall.public_draws(), PointGradient(plan, basis)
    network = plan.make_network().initialize(public.standard_normal)
    network.biases[-1][:] = plan.output_bias
    average, difference = network.theta.copy(), np.empty_like(network.theta)
    optimizer = Adam()
    n_points = plan.batch_size + round(plan.debiasing * plan.batch_size)
    # public labels, as many of every class as possible
    labels = np.arange(n_points) % plan.n_classes
    for step in range(plan.n_steps):
        latent = latent_inputs(labels, plan, public).astype(np.float32)
        outputs = network.forward(latent)
        points = outputs[-1].astype(np.float64)
        batch = wall.sample(rows, plan.sampling_rate)
        own = self_gradient(points, labels, plan)
        noisy = wall.release(query, batch, (points, labels, own))
        if basis is not None:
            noisy = noisy @ basis.T
        gradient = np.vstack([noisy, own[plan.batch_size :]]).astype(np.float32)
        deltas = network.backward(outputs, gradient)
        rate = plan.learning_rate * (1 - step / plan.n_steps)
        optimizer.step(network.theta, network.gradient(outputs, deltas), rate)
        # short runs average over their later part only
        weight = min(WEIGHT_AVERAGE, (step + 1) / (step + 10))
        np.subtract(network.theta, average, out=difference)
        difference *= 1 - weight
        average += difference
    network.theta[:] = average
    return network
