"""What an attacker gains at most from what a guarantee allows."""

import math

import numpy as np
from scipy.special import ndtr, ndtri, ndtri_exp

from ..accounting import (
    GaussianEvent,
    MaximumEvent,
    PureEvent,
    _everything,
    _parted,
    _sampler_error,
    compose_delta,
    compose_epsilon,
)
from ._guarantee import PrivacyGuarantee, own_events

# Probability with which the sampler may err more than is accounted for.
_FAILURE = 1e-12


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
    if guarantee.epsilon_if_public == math.inf:
        return None
    plain, splits = _parted(own_events(guarantee))
    everything = _everything(plain, splits)
    if everything.sampled or everything.failure:
        return None
    # A record is on the dearer side of each random split.
    dearest = (count * max(map(_square, sides)) for sides, count in splits)
    mu = math.sqrt(math.fsum([_square(plain), *dearest])) * (1 + 1e-9)
    return mu if math.isfinite(mu) else None


def _square(total) -> float:
    """The square of a mu of which a total is Gaussian DP."""
    pures = (
        count * (2 * ndtri_exp(-np.logaddexp(0.0, epsilon))) ** 2
        for epsilon, count in total.pures
    )
    return math.fsum([total.mu * total.mu, *pures])


def of_several(guarantee: PrivacyGuarantee, n_records: int) -> tuple[float, float]:
    """Return epsilon and delta where so many records differ: those of one person.

    Proof: ``privacy/composition:several-records``.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        With a finite `epsilon`.
    n_records : int
        Range: [2, inf).

    Returns
    -------
    epsilon : float
    delta : float
        That of the guarantee where a finite epsilon is found for it, else the least.
    """
    events, delta = own_events(guarantee), guarantee.delta

    def chained(epsilon: float) -> float:
        """Delta at `n_records` times this epsilon: record by record."""
        of_one, grown = compose_delta(events, epsilon), n_records * epsilon
        if of_one == 0.0 or grown > 700:
            return 1.0 if of_one else 0.0
        growth = math.expm1(grown) / math.expm1(epsilon) if epsilon else n_records
        return min(1.0, growth * (1 + 1e-9) * of_one)

    multiples = (guarantee.epsilon * np.linspace(1, 8, 113)).tolist()
    kept = next((e for e in multiples if chained(e) <= delta), math.inf)
    found = n_records * min(kept, compose_epsilon(events, 0.0))
    mu = gaussian_parameter(guarantee)
    if mu is not None:
        event = GaussianEvent(n_records * mu * (1 + 1e-9), _n_draws(events))
        found = min(found, compose_epsilon([event], delta))
    # Release by release; records on either side of a split pay for both.
    if all(isinstance(one, GaussianEvent | PureEvent) for one in events):
        grown = n_records * (1 + 1e-9)
        each = [
            GaussianEvent(grown * one.mu, one.n_draws)
            if isinstance(one, GaussianEvent)
            else PureEvent(grown * one.epsilon)
            for one in events
        ]
        found = min(found, compose_epsilon(each, delta))
    if math.isfinite(found):
        return found, delta
    least = min(multiples, key=chained)
    return n_records * least, chained(least)


def _n_draws(events) -> int:
    """How many numbers are drawn, on both sides of splits."""
    splits = [event for event in events if isinstance(event, MaximumEvent)]
    sides = (side for split in splits for side in (split.left, split.right))
    drawn = (getattr(event, "n_draws", 0) for event in events)
    return sum(drawn) + sum(map(_n_draws, sides))


def _largest_loss(guarantee: PrivacyGuarantee) -> float:
    """Privacy loss that is exceeded with a probability of at most twice delta.

    It is larger than epsilon: delta(e), the mean of (1 - exp(e - L))+ over the loss L,
    is at least P(L > t) (1 - exp(e - t)) for every e < t.
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if delta == 0.0:
        return epsilon
    return min(
        e - math.log1p(-min(guarantee.delta_at(e), delta) / (2 * delta))
        for e in epsilon * (1 + np.linspace(0, 1, 11) ** 2)
    )


def attacker_gain(guarantee: PrivacyGuarantee) -> tuple[float, float, float] | None:
    """Return what any attacker gains at most, or None if nothing is promised.

    Parameters
    ----------
    guarantee : PrivacyGuarantee

    Returns
    -------
    posterior : float
        Largest belief from even odds, but with a probability of twice delta.
    success : float
        Largest share of right guesses from even odds.
    power : float
        Largest true-positive rate at a false-positive rate of 1 %.
    """
    if guarantee.epsilon == math.inf:
        return None
    epsilon = guarantee.epsilon
    posterior = 1 / (1 + math.exp(-_largest_loss(guarantee)))
    curve = [(0.0, guarantee.delta_at(0.0)), (epsilon, guarantee.delta)]
    if guarantee.events:
        curve += [(e, guarantee.delta_at(e)) for e in epsilon * np.arange(0.1, 1, 0.1)]
    success = (1 + min(1.0, curve[0][1])) / 2
    # P(S) <= e^eps P'(S) + delta for S and, the other way round, for its complement
    alpha = 0.01
    power = 1.0
    for e, delta in curve:
        missed = math.exp(-e) * max(0.0, 1 - alpha - delta)
        power = min(power, math.exp(min(e, 700)) * alpha + delta, 1 - missed)
    mu = gaussian_parameter(guarantee)
    if mu is not None:
        # What the sampler adds on both tables: ``privacy/noise``. The success has it.
        drawn = _n_draws(own_events(guarantee))
        error = math.exp(_sampler_error(math.log(_FAILURE), drawn))
        seen = error * ndtr(ndtri(min(error * alpha + _FAILURE, 1.0)) + mu) + _FAILURE
        power = min(power, float(seen) * (1 + 1e-9))
    return posterior, success, min(1.0, max(power, alpha))
