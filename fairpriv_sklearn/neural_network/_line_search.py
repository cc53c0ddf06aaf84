"""How far outputs should be from a constant: what the loss says along them.

Noisy gradients of many parameters tell where to go, and their noise goes along. How far
is one number, which a small part of the budget tells: where outputs are mostly noise,
little of them stays. Constants were chosen on simulated tables.
"""

import numpy as np
from scipy.special import ndtr

from fairpriv_sklearn._shared.arrays import Floats
from fairpriv_sklearn._training._network import Network
from fairpriv_sklearn._wall import PrivacyFilter, Rows
from fairpriv_sklearn.neural_network._objective import padded_chunk
from fairpriv_sklearn.neural_network._queries import AlongOutputs

LONGEST = 1.5
"""Largest factor of outputs: caution may have left them short."""

_RATE = 3.0  # of the exponential prior of the factor
_FAR = 30.0  # standard deviations, beyond which normal tails have no quotient
_EXACT = 1e-9  # taken for the error of what has none
_TINY = 1e-300


def search_share(signal: float) -> float:
    """Share of the squared Gaussian-DP parameter that the search takes.

    `signal` is the number of records times the parameter.
    """
    return min(0.1, max(0.03, 30 / max(signal, 1e-9)))


def scale_outputs(
    wall: PrivacyFilter,
    rows: Rows,
    network: Network,
    head,
    constant: Floats,
    targets,
    inputs,
    n_records: float,
    longest: float,
) -> None:
    """Scale what a network adds to the constant by what the loss says along it.

    The derivative at the network and its change over the second half of the way from
    the constant tell where it is zero, as on a line.
    """
    largest, largest_change = head.limits(constant)
    along = derivatives_along(network, head, constant, targets, inputs)
    query = AlongOutputs(2 * head.n_lines(len(constant)), along, are_counts=False)
    told = wall.release(query, rows) / n_records
    noise = wall.scale(query) / n_records
    slopes, changes = np.split(told, 2)
    doubt = noise * largest_change
    bends = np.maximum((1 + changes) * largest_change, max(doubt, _TINY))
    factor = 1 - slopes * largest / bends
    error = np.hypot(noise * largest, (1 - np.clip(factor, 0, 1)) * doubt) / bends
    factor = _expected(factor, error, longest)
    network.weights[-1] *= factor
    network.biases[-1][:] = constant + factor * (network.biases[-1] - constant)


def derivatives_along(network: Network, head, constant: Floats, targets, inputs):
    """What a block's records add to the derivative of the loss, and to its change.

    In units of the head's limits; the change, which is positive, as a number from -1.
    """
    largest, largest_change = head.limits(constant)

    def along(block):
        wanted = targets(block)
        outputs = network.forward(padded_chunk(inputs(block)))[-1][: block.n_rows]
        own = outputs - constant
        weights = head.weights(own)
        slopes = head.loss_gradient([outputs], wanted)
        changes = slopes - head.loss_gradient([constant + own / 2], wanted)
        slopes, changes = (head.along(weights, one) for one in (slopes, changes))
        # Slopes do not decrease: what rounding says against that is cut off.
        return np.hstack([slopes / largest, 2 * changes / largest_change - 1])

    return along


def _expected(told: Floats, error: Floats, longest: float) -> Floats:
    """Mean of a factor in [0, longest] that normal errors hide; see the prior."""
    error = np.maximum(error, _EXACT)
    middle = told - _RATE * error**2
    middle = np.clip(middle, -_FAR * error, longest + _FAR * error)
    low, high = -middle / error, (longest - middle) / error
    # Of tails on one side: no difference of numbers that are nearly one.
    inside = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    ends = (np.exp(-(one**2) / 2) for one in (low, high))
    off = np.subtract(*ends) / np.sqrt(2 * np.pi) / inside
    return np.clip(middle + error * off, 0.0, longest)
