"""How far outputs should be from a constant: what the loss says along them.

Noisy gradients of many parameters tell where to go, and their noise goes along. How far
is one number, which a small part of the budget tells: where outputs are mostly noise,
little of them stays. Constants were chosen on simulated tables.
"""

import numpy as np

from .._shared.arrays import Floats
from .._training._line_search import posterior_mean
from .._training._network import Network
from .._wall import PrivacyFilter, Rows
from ._objective import padded_chunk
from ._queries import AlongOutputs

LONGEST = 1.5
"""Largest factor of outputs: caution may have left them short."""

SEARCH_SHARE = 0.1
"""Of the squared Gaussian-DP parameter, at most."""

_RATE = 3.0  # of the exponential prior of the factor
_TINY = 1e-300


def scale_outputs(
    wall: PrivacyFilter,
    rows: Rows,
    network: Network,
    head,
    constant: Floats,
    targets,
    n_records: float,
    longest: float,
) -> None:
    """Scale what a network adds to the constant by what the loss says along it.

    The derivative at the network and its change over the second half of the way from
    the constant tell where it is zero, as on a line.
    """
    largest, largest_change = head.limits(constant)
    along = derivatives_along(network, head, constant, targets)
    query = AlongOutputs(2 * head.n_lines(len(constant)), along, are_counts=False)
    told = wall.release(query, rows) / n_records
    noise = wall.scale(query) / n_records
    slopes, changes = np.split(told, 2)
    doubt = noise * largest_change
    bends = np.maximum((1 + changes) * largest_change, max(doubt, _TINY))
    factor = 1 - slopes * largest / bends
    error = np.hypot(noise * largest, (1 - np.clip(factor, 0, 1)) * doubt) / bends
    factor = posterior_mean(factor, error, _RATE * error, longest)
    network.weights[-1] *= factor
    network.biases[-1][:] = constant + factor * (network.biases[-1] - constant)


def derivatives_along(network: Network, head, constant: Floats, targets):
    """What a block's records add to the derivative of the loss, and to its change.

    In units of the head's limits; the change, which is positive, as a number from -1.
    """
    largest, largest_change = head.limits(constant)

    def along(block):
        wanted = targets(block)
        outputs = network.forward(padded_chunk(block.x))[-1][: block.n_rows]
        own = outputs - constant
        weights = head.weights(own)
        slopes = head.loss_gradient([outputs], wanted)
        changes = slopes - head.loss_gradient([constant + own / 2], wanted)
        slopes, changes = (head.along(weights, one) for one in (slopes, changes))
        # Slopes do not decrease: what rounding says against that is cut off.
        return np.hstack([slopes / largest, 2 * changes / largest_change - 1])

    return along
