r"""Small dense networks in NumPy: forward, backward, per-example gradient norms.

Layer :math:`l` computes :math:`h_l = \phi(W_l^\top h_{l-1} + b_l)`. With
:math:`\delta_{l,i}` the gradient of a scalar with respect to the input of the
activation, for example :math:`i`, the gradient with respect to :math:`W_l` is the
outer product :math:`h_{l-1,i}\,\delta_{l,i}^\top`. Hence

.. math::

    \|\nabla_\theta\|_i^2 = \sum_l \|\delta_{l,i}\|^2 (1 + \|h_{l-1,i}\|^2),
    \qquad
    \sum_i w_i \nabla_{\theta, i} = \big(H_{l-1}^\top \mathrm{diag}(w) \Delta_l,\;
    \Delta_l^\top w\big)_l ,

so clipping each example's gradient needs no per-example gradient in memory
(Goodfellow [1]_). All parameters live in one flat vector ``theta``: noise is added
to it and the optimisers step on it.

References
----------
.. [1] I. Goodfellow, "Efficient Per-Example Gradient Computations",
   arXiv:1510.01799, 2015.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import expit

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _bent(width: int) -> np.ndarray:
    """Which units of a mixed layer are "relu": 3 of 8, the same ones of either half."""
    n_pairs = width // 2
    return np.arange(width) % max(n_pairs, 1) < 3 * n_pairs // 8


# name -> (function, product of its transposed Jacobian, at output h, with g)
ACTIVATIONS = {
    "identity": (lambda z: z, lambda h, g: g),
    "relu": (lambda z: np.maximum(z, 0), lambda h, g: g * (h > 0)),
    "tanh": (np.tanh, lambda h, g: g * (1 - h * h)),
    "logistic": (expit, lambda h, g: g * h * (1 - h)),
    "mixed": (
        lambda z: np.where(_bent(z.shape[1]), np.maximum(z, 0), np.tanh(z)),
        lambda h, g: g * np.where(_bent(h.shape[1]), h > 0, 1 - h * h),
    ),
}


def hidden_widths(hidden_layer_sizes) -> tuple[int, ...]:
    """Return the argument as a tuple of widths, or say what is wrong with it."""
    sizes = np.atleast_1d(hidden_layer_sizes)
    is_counts = sizes.ndim == 1 and sizes.dtype.kind in "iu" and np.all(sizes >= 1)
    if sizes.size and not is_counts:
        raise ValueError(
            f"hidden_layer_sizes must be positive integers, got {hidden_layer_sizes!r}."
        )
    return tuple(int(size) for size in sizes)


class Network:
    """Dense layers with one hidden activation and one output activation.

    Parameters
    ----------
    sizes : sequence of int
        Widths from the input to the output layer; at least two.
    hidden_activation, output_activation : str, default="relu" and "identity"
        Names in ``ACTIVATIONS``.
    product : callable, default=np.matmul
        Computes ``rows @ matrix``. Where the rows are private records, pass
        ``row_scores``, whose result for a row does not depend on the other rows.
    dtype : dtype, default=float64
        Of the parameters. float32 halves the time of a network whose inputs are not
        private records.

    Attributes
    ----------
    theta : ndarray of shape (n_parameters,), dtype
        All parameters; ``weights`` and ``biases`` are views of it.
    activations : list of str
        One name per layer; entries may be replaced before :meth:`initialize`.
    weights : list of ndarray of shape (n_inputs, n_outputs)
    biases : list of ndarray of shape (n_outputs,)
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        hidden_activation: str = "relu",
        output_activation: str = "identity",
        product: Product = np.matmul,
        dtype: type = np.float64,
    ):
        self.sizes = tuple(int(size) for size in sizes)
        self.activations = [hidden_activation] * (len(self.sizes) - 2)
        self.activations.append(output_activation)
        self.product = product
        self.theta = np.zeros(self.n_parameters(len(self.sizes) - 1), dtype)
        self.weights, self.biases = self.layers(self.theta)

    def _shapes(self):
        return list(zip(self.sizes[:-1], self.sizes[1:], strict=True))

    def n_parameters(self, n_layers: int) -> int:
        """Number of parameters of the first layers, which come first in ``theta``."""
        return sum((i + 1) * o for i, o in self._shapes()[:n_layers])

    def layers(self, theta: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Views of a flat vector (parameters, a gradient) as weights and biases."""
        weights, biases, start = [], [], 0
        for n_inputs, n_outputs in self._shapes():
            stop = start + n_inputs * n_outputs
            weights.append(theta[start:stop].reshape(n_inputs, n_outputs))
            biases.append(theta[stop : stop + n_outputs])
            start = stop + n_outputs
        return weights, biases

    def initialize(self, standard_normal: Callable[[tuple], np.ndarray]) -> "Network":
        """Draw the weights so that signals keep their scale; biases become 0."""
        for W, b, activation in zip(
            self.weights, self.biases, self.activations, strict=True
        ):
            gain = 2 if activation == "relu" else 1
            W[...] = np.sqrt(gain / W.shape[0]) * standard_normal(W.shape)
            b[...] = 0
        return self

    def forward(self, X: np.ndarray, n_layers: int | None = None) -> list[np.ndarray]:
        """Return the input and the output of every layer (or of the first ones)."""
        outputs = [X]
        for W, b, activation in zip(
            self.weights[:n_layers], self.biases, self.activations, strict=False
        ):
            outputs.append(ACTIVATIONS[activation][0](self.product(outputs[-1], W) + b))
        return outputs

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the output layer only, shape (n, sizes[-1])."""
        return self.forward(X)[-1]

    def backward(
        self, outputs: list[np.ndarray], output_gradient: np.ndarray
    ) -> list[np.ndarray]:
        r"""Pull a gradient at the output back to the input of every activation.

        Parameters
        ----------
        outputs : list of ndarray
            What :meth:`forward` returned, or its first entries: the last one is what
            `output_gradient` belongs to, which may be a hidden layer.
        output_gradient : ndarray of shape (n, n_outputs) or (n_outputs,)
            One vector :math:`v_i` per example: a loss gradient, or a direction. The
            pulled-back vectors then describe :math:`v_i^\top J_i`, the directional
            product with the example's Jacobian. One vector alone serves every
            example.

        Returns
        -------
        list of ndarray of shape (n, width of the layer)
            The :math:`\delta_l`; input of :meth:`gradient_norms`,
            :meth:`gradient`.
        """
        upstream = np.broadcast_to(output_gradient, outputs[-1].shape)
        deltas = []
        for layer in reversed(range(len(outputs) - 1)):
            pull_back = ACTIVATIONS[self.activations[layer]][1]
            deltas.append(pull_back(outputs[layer + 1], upstream))
            if layer:
                upstream = self.product(deltas[-1], self.weights[layer].T)
        return deltas[::-1]

    def gradient_norms(
        self, outputs: list[np.ndarray], deltas: list[np.ndarray]
    ) -> np.ndarray:
        """Euclidean norm of every example's gradient in ``theta``, shape (n,)."""
        squares = np.zeros(len(outputs[0]))
        for h, delta in zip(outputs, deltas, strict=False):
            squares += _row_squares(delta) * (1 + _row_squares(h))
        return np.sqrt(squares)

    def gradient(
        self, outputs: list[np.ndarray], deltas: list[np.ndarray]
    ) -> np.ndarray:
        """Sum of the examples' gradients, as one flat vector."""
        gradient = np.zeros_like(self.theta)  # layers without deltas stay zero
        for W, b, h, delta in zip(
            *self.layers(gradient), outputs, deltas, strict=False
        ):
            np.matmul(h.T, delta, out=W)
            np.sum(delta, axis=0, out=b)
        return gradient


def _row_squares(rows):
    # C order: the sum of a row is then bitwise a function of the row
    rows = np.ascontiguousarray(rows)
    return np.einsum("ij,ij->i", rows, rows)


class SGD:
    """Gradient descent with momentum: ``v = momentum * v + g``, ``theta -= rate * v``.

    Parameters
    ----------
    momentum : float, default=0.0
        Range: [0, 1).
    """

    def __init__(self, momentum: float = 0.0):
        self.momentum = momentum
        self._velocity: np.ndarray | float = 0.0

    def step(
        self, theta: np.ndarray, gradient: np.ndarray, learning_rate: float
    ) -> None:
        """Move ``theta`` in place against the gradient."""
        self._velocity = self.momentum * self._velocity + gradient
        theta -= learning_rate * self._velocity


class Adam:
    """Adam (D. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015).

    The averages of the gradient and of its square decay as proposed there.
    """

    beta1, beta2, stability = 0.9, 0.999, 1e-8

    def __init__(self):
        self._mean: np.ndarray | None = None
        self._n_steps = 0

    def step(
        self, theta: np.ndarray, gradient: np.ndarray, learning_rate: float
    ) -> None:
        """Move ``theta`` in place against the gradient."""
        if self._mean is None:
            self._mean, self._square = np.zeros_like(theta), np.zeros_like(theta)
        self._n_steps += 1
        # in place: fresh arrays of the size of theta would cost more than the sums
        move = (1 - self.beta1) * gradient
        self._mean *= self.beta1
        self._mean += move
        np.multiply(gradient, gradient, out=move)
        move *= 1 - self.beta2
        self._square *= self.beta2
        self._square += move
        # both averages start at zero: the roots of what they lack are put into scalars
        root = np.sqrt(1 - self.beta2**self._n_steps)
        np.sqrt(self._square, out=move)
        move += self.stability * root
        np.divide(self._mean, move, out=move)
        move *= learning_rate * root / (1 - self.beta1**self._n_steps)
        theta -= move
