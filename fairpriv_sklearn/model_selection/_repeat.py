"""Repeat and select: the best of a random number of private runs, and its cost.

Running a private mechanism K times and releasing the best output alone costs little
more than one run if K is random and stays secret (Papernot and Steinke, "Hyperparameter
Tuning with Renyi Differential Privacy", ICLR 2022). Public numbers only in here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import pdtr, pdtrik

from .._shared.arrays import Floats
from .._wall import gaussian_log_delta

POISSON, GEOMETRIC = math.inf, 1.0  # the shapes in use
_ORDERS = 1.0 + np.geomspace(1.1e-2, 1e7, 2000)

# Poisson draws can be zero, and then there is no winner: keep that below 1e-6.
_LEAST_POISSON_MEAN = 14.0
# Mass of the tail that is cut off, and rounding, of the distribution of the number of
# runs.
_ROUNDING = 1e-12
# A bound found by bisection is lowered by this factor, to stay on the private side.
_MARGIN = 1e-6


@dataclass(frozen=True)
class RunDistribution:
    """Distribution of the number of runs.

    Parameters
    ----------
    mean : float
        Expected number of runs. Range: [1, inf).
    shape : {1.0, inf}
        1.0 is the geometric distribution on 1, 2, ...; inf is the Poisson distribution
        on 0, 1, ...
    """

    mean: float
    shape: float

    @property
    def is_poisson(self) -> bool:
        return self.shape == POISSON

    @property
    def largest(self) -> int:
        """Number of runs that is passed with probability at most 1e-12."""
        if self.is_poisson:
            return math.ceil(pdtrik(1.0 - _ROUNDING, self.mean)) + 1
        if self.mean == 1.0:
            return 1
        return math.ceil(math.log(_ROUNDING) / math.log1p(-1.0 / self.mean))

    def quantile(self, u: float) -> int:
        """Number of runs for a uniform number: the distribution function, inverted."""
        if self.is_poisson:
            return int(np.searchsorted(pdtr(np.arange(self.largest), self.mean), u))
        if self.mean == 1.0:
            return 1
        # P(K > k) = (1 - 1 / mean)^k
        return min(math.ceil(math.log(u) / math.log1p(-1.0 / self.mean)), self.largest)


def distribution_for_coverage(
    shape: float, coverage: float, share: float
) -> RunDistribution:
    """Return the distribution with which some run is good with a given probability.

    Parameters
    ----------
    shape : {1.0, inf}
    coverage : float
        Probability that at least one of the runs draws a good candidate. (0, 1).
    share : float
        Share of good candidates in the list. (0, 1].
    """
    if shape == POISSON:  # E[(1 - p)^K] = exp(-mean p)
        mean = max(-math.log1p(-coverage) / share, _LEAST_POISSON_MEAN)
    else:  # E[(1 - p)^K] = (1 - p) / (1 - p + mean p)
        mean = max(1.0, coverage * (1.0 - share) / ((1.0 - coverage) * share))
    return RunDistribution(mean, shape)


@dataclass(frozen=True)
class Base:
    """Privacy of one run: its Renyi divergence curve and its delta curve."""

    renyi: Callable[[Floats], Floats]
    delta: Callable[[Floats], Floats]


def gaussian_base(mu: float) -> Base:
    """One run is `mu`-Gaussian DP."""

    def delta(epsilon: Floats) -> Floats:
        return np.exp(gaussian_log_delta(mu, epsilon)) * (1.0 + 1e-9)

    return Base(lambda order: 0.5 * mu * mu * order, delta)


def pure_base(epsilon: float) -> Base:
    """One run is `epsilon`-DP: randomised response is the worst case."""
    log_total = float(np.logaddexp(0.0, epsilon))

    def renyi(order: Floats) -> Floats:
        log_moment = np.logaddexp(order * epsilon, (1.0 - order) * epsilon)
        return np.minimum(epsilon, (log_moment - log_total) / (order - 1.0))

    def delta(at: Floats) -> Floats:
        gap = -np.expm1(np.minimum(at, epsilon) - epsilon)
        return gap * math.exp(epsilon - log_total) * (1.0 + 1e-9)

    return Base(renyi, delta)


def repeat_epsilon(base: Base, distribution: RunDistribution, delta: float) -> float:
    r"""Return the epsilon of releasing the best of a random number of runs.

    With the Renyi divergence :math:`r(\lambda)` of one run, mean :math:`m` and the
    geometric distribution (their Theorem 2 at shape 1) it is

    .. math:: r'(\lambda) = r(\lambda) + \frac{\log m}{\lambda - 1} + 2 \min_{l}
        \Big( (1 - \tfrac1l) r(l) + \frac{\log m}{l} \Big),

    and with the Poisson distribution (Theorem 6), :math:`e^{\hat\varepsilon} = 1 + 1 /
    (\lambda - 1)` and one run :math:`(\hat\varepsilon, \hat\delta)`-DP,

    .. math:: r'(\lambda) = r(\lambda) + m \hat\delta + \frac{\log m}{\lambda - 1}.

    Parameters
    ----------
    base : Base
    distribution : RunDistribution
    delta : float
        Range: (0, 1).
    """
    renyi = base.renyi(_ORDERS)
    log_mean = math.log(distribution.mean)
    total = renyi + log_mean / (_ORDERS - 1.0)
    if distribution.is_poisson:
        total = total + distribution.mean * base.delta(-np.log1p(-1.0 / _ORDERS))
    else:
        at = (1.0 - 1.0 / _ORDERS) * renyi + log_mean / _ORDERS
        total = total + (1.0 + distribution.shape) * at.min()
    # Canonne, Kamath and Steinke (2020), Proposition 12.
    epsilon = (
        total + np.log1p(-1.0 / _ORDERS) - np.log(delta * _ORDERS) / (_ORDERS - 1.0)
    )
    return max(0.0, float(epsilon.min()))


@lru_cache(maxsize=1024)
def calibrate_repeat(
    kind: str, epsilon: float, delta: float, distribution: RunDistribution
) -> float:
    """Return what one run may cost: mu for "gaussian", epsilon for "pure".

    Returns 0.0 where the rounding of the distribution of the number of runs would cost
    too much.
    """
    delta -= distribution_cost(epsilon)
    if delta <= 0.0:
        return 0.0
    base = gaussian_base if kind == "gaussian" else pure_base

    def excess(log_size: float) -> float:
        return repeat_epsilon(base(math.exp(log_size)), distribution, delta) - epsilon

    low, high = math.log(1e-8), math.log(max(100.0, 10.0 * epsilon))
    if excess(low) >= 0.0:
        return 0.0
    return math.exp(brentq(excess, low, high, xtol=1e-9)) * (1.0 - _MARGIN)


def distribution_cost(epsilon: float) -> float:
    """Return the delta that the rounded distribution of the number of runs costs."""
    if epsilon > 600.0:
        return math.inf
    return (1.0 + math.exp(epsilon)) * 2.0 * _ROUNDING
