"""How far to go where noisy gradients led: what all private line searches share."""

import math

import numpy as np
from scipy.special import ndtr

from .._shared.arrays import Floats

_FAR = 30.0  # standard deviations, beyond which normal tails have no quotient
_EXACT = 1e-9  # taken for the error of what has none


def search_share(signal: float, most: float) -> float:
    """Share of the squared Gaussian-DP parameter that a search takes: at most `most`.

    `signal` is the number of records times the parameter.
    """
    return min(most, max(0.03, 300 * most / max(signal, 1e-9)))


def posterior_mean(
    told: Floats, error: Floats, rate: Floats | float, longest: float = math.inf
) -> Floats:
    """Mean of a number in [0, longest] that normal errors hide, exponential before.

    The rate is per standard deviation of the error.
    """
    error = np.maximum(error, _EXACT)
    middle = np.clip(told - rate * error, -_FAR * error, longest + _FAR * error)
    low, high = -middle / error, (longest - middle) / error
    # Of tails on one side: no difference of numbers that are nearly one.
    inside = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    ends = (np.exp(-(one**2) / 2) for one in (low, high))
    off = np.subtract(*ends) / np.sqrt(2 * np.pi) / inside
    return np.clip(middle + error * off, 0.0, longest)
