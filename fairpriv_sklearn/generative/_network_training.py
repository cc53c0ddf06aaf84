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

from fairpriv_sklearn._network import Adam, Network
from fairpriv_sklearn.mechanisms import GaussianMechanism, NoiseSource
from fairpriv_sklearn.transport import point_cost, sinkhorn, transport_gradient

# Sweeps of Sinkhorn's algorithm per step: fixed, so that their number tells nothing.
N_SWEEPS = 20
WEIGHT_AVERAGE = 0.999


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


def latent_inputs(codes: np.ndarray, plan: NetworkPlan, source: NoiseSource):
    """Random input of the network for points of the given classes."""
    # the label weighs as much as all the noise, or classes would blur at first
    one_hot = np.zeros((len(codes), plan.n_classes))
    one_hot[np.arange(len(codes)), codes] = np.sqrt(plan.latent_dim)
    normal = source.standard_normal((len(codes), plan.latent_dim))
    return np.hstack([normal, one_hot])


def loss_gradient(points, labels, records, record_labels, plan: NetworkPlan):
    """Gradient of the semi-debiased loss at all points.

    Returns the private part, at the first ``batch_size`` points, and the public
    gradient of the self term at the points after them. The first already contains
    the self term of its points; an empty batch has a cross term of zero.
    """
    n, n_fresh = plan.batch_size, len(points) - plan.batch_size
    first, second = slice(0, n), slice(n_fresh, None)
    gradient = np.zeros_like(points)
    plain = {"l1_weight": plan.l1_weight}

    def transport(X, x_labels, Y, y_labels, b=None):
        cost = point_cost(
            X,
            Y,
            x_labels=x_labels,
            y_labels=y_labels,
            label_cost=plan.label_cost,
            **plain,
        )
        result = sinkhorn(cost, plan.regularization, b=b, max_iter=N_SWEEPS, tol=None)
        return result.plan

    if len(records):
        # All classes weigh the same, as among the points: otherwise the points of a
        # class that is rare in the batch would be pulled to records of the others.
        weights = 1 / np.bincount(record_labels)[record_labels]
        weights /= weights.sum()
        coupling = transport(
            points[first], labels[first], records, record_labels, weights
        )
        gradient[first] += 2 * transport_gradient(
            coupling, points[first], records, **plain
        )
    A, B = points[first], points[second]
    coupling = transport(A, labels[first], B, labels[second])
    gradient[first] -= transport_gradient(coupling, A, B, **plain)
    gradient[second] -= transport_gradient(coupling.T, B, A, **plain)
    return gradient[first], gradient[n:]


def clip_whole(gradient: np.ndarray, clip: float) -> np.ndarray:
    """Scale the gradient of all points together into the ball of radius ``clip``."""
    with np.errstate(all="ignore"):
        norm = np.linalg.norm(gradient)
    if not np.isfinite(norm):
        return np.zeros_like(gradient)
    # the factor keeps the rounded norm inside the ball
    return gradient * (clip * (1 - 1e-12) / max(norm, clip))


def train_network(
    U: np.ndarray,
    codes: np.ndarray,
    plan: NetworkPlan,
    source: NoiseSource,
    basis: np.ndarray | None = None,
) -> Network:
    """Train the generator on columns in [0, 1]; returns its averaged weights.

    With a public `basis` of orthonormal columns, the part of the gradient inside its
    span is clipped and released, with noise inside the span only.
    """
    network = plan.make_network().initialize(source.standard_normal)
    network.biases[-1][:] = plan.output_bias
    average, difference = network.theta.copy(), np.empty_like(network.theta)
    optimizer = Adam()
    n_points = plan.batch_size + round(plan.debiasing * plan.batch_size)
    mu = 1 / plan.noise_multiplier if plan.noise_multiplier else np.inf
    n_released = plan.n_features if basis is None else basis.shape[1]
    mechanism = GaussianMechanism(2 * plan.clip, mu, plan.batch_size * n_released)
    # public labels, as many of every class as possible
    labels = np.arange(n_points) % plan.n_classes
    for step in range(plan.n_steps):
        latent = latent_inputs(labels, plan, source).astype(np.float32)
        outputs = network.forward(latent)
        points = outputs[-1].astype(np.float64)
        batch = source.bernoulli(len(U), plan.sampling_rate)
        private, public = loss_gradient(points, labels, U[batch], codes[batch], plan)
        if basis is not None:
            private = private @ basis
        noisy = mechanism.release(clip_whole(private, plan.clip), source)
        if basis is not None:
            noisy = noisy @ basis.T
        gradient = np.vstack([noisy, public]).astype(np.float32)
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
