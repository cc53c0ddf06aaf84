"""What an attacker gains at most from what a guarantee allows."""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from fairpriv_sklearn.accounting import _options

from ._guarantee import PrivacyGuarantee, own_events


def gaussian_parameter(guarantee: PrivacyGuarantee) -> float | None:
    """Return a mu of which the guarantee is Gaussian DP, or None if none is known.

    An epsilon-DP release is mu-GDP with mu = 2 Phi^-1(e^eps / (1 + e^eps)): its
    trade-off curve is piecewise linear through a point of that of G_mu, which is convex
    [Dong, Roth, Su 2022]. The mu of several releases compose by the root of squares.

    Parameters
    ----------
    guarantee : PrivacyGuarantee

    Returns
    -------
    float or None
    """
    if guarantee.epsilon_if_public == math.inf or guarantee.uncovered:
        return None
    sides = _options(own_events(guarantee))  # of random splits; one if there are none
    if any(side.sampled or side.failure for side in sides):
        return None
    mu = max(map(_mu_of, sides)) * (1 + 1e-9)
    return mu if math.isfinite(mu) else None


def _mu_of(side) -> float:
    pures = (
        count * (2 * ndtri(1 / (1 + math.exp(min(epsilon, 700))))) ** 2
        for epsilon, count in side.pures
    )
    return math.sqrt(math.fsum([side.mu**2, *pures]))


def attacker_gain(guarantee: PrivacyGuarantee) -> tuple[float, float, float] | None:
    """Return what any attacker gains at most, or None if nothing is promised.

    Parameters
    ----------
    guarantee : PrivacyGuarantee

    Returns
    -------
    posterior : float
        Largest belief from even odds, outside an event of probability delta.
    success : float
        Largest share of right guesses from even odds.
    power : float
        Largest true-positive rate at a false-positive rate of 1 %.
    """
    if guarantee.epsilon == math.inf:
        return None
    epsilon = guarantee.epsilon
    posterior = 1 / (1 + math.exp(-epsilon))
    curve = [(0.0, guarantee.delta_at(0.0)), (epsilon, guarantee.delta)]
    if guarantee.events:
        curve += [(e, guarantee.delta_at(e)) for e in epsilon * np.arange(0.1, 1, 0.1)]
    success = (1 + min(1.0, curve[0][1])) / 2
    # P(S) <= e^eps P'(S) + delta for S and, the other way round, for its complement
    alpha = 0.01
    power = min(
        min(
            math.exp(min(e, 700)) * alpha + delta,
            1 - math.exp(-e) * max(0.0, 1 - alpha - delta),
        )
        for e, delta in curve
    )
    mu = gaussian_parameter(guarantee)
    if mu is not None:
        power = min(power, float(ndtr(ndtri(alpha) + mu)) * (1 + 1e-9))
        success = min(success, float(ndtr(mu / 2)) * (1 + 1e-9))
    return posterior, success, min(1.0, max(power, alpha))
