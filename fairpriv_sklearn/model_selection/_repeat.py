"""Repeat and select: the best of a random number of private runs, and its cost.

Running a private mechanism K times and releasing the best output alone costs little
more than one run if K is random and stays secret (Liu and Talwar, "Private Selection
from Private Candidates", STOC 2019; Papernot and Steinke, "Hyperparameter Tuning with
Renyi Differential Privacy", ICLR 2022). Public numbers only in here.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from .._shared.arrays import Floats
from .._wall import gaussian_log_delta

# Mass of the tail that is cut off, and rounding, of the distribution of the number of
# runs.
_ROUNDING = 1e-12
# A bound found by bisection is lowered by this factor, to stay on the private side.
_MARGIN = 1e-6
# Logarithm of a slope of zero.
_NO_SLOPE = -800.0
# Where the chances of events are compared, as normal quantiles.
_QUANTILES = np.linspace(-9.0, 7.0, 1 << 14)


@dataclass(frozen=True)
class RunDistribution:
    """Distribution of the number of runs: negative binomial on 1, 2, ...

    Parameters
    ----------
    stop : float
        Chance of success. Range: (0, 1].
    shape : int, default=2
        Number of successes; 1 is the geometric distribution. More take fewer runs for
        the same coverage, and leave a run that is pure less.
    """

    stop: float
    shape: int = 2

    @property
    def mean(self) -> float:
        """Expected number of runs."""
        return self.shape / (self.stop * self._powers(self.stop))

    @property
    def largest(self) -> int:
        """Number of runs that is passed with probability at most 1e-12."""
        return self._first_passed_below(_ROUNDING)

    def passed(self, n_runs: int) -> float:
        """Probability of more runs than that."""
        if self.stop == 1.0:
            return 0.0
        # Added up, as scipy's error at many runs is more than what rounding costs.
        log_more, end = math.log1p(-self.stop), n_runs + self.shape
        terms = (
            math.comb(end, j) * self.stop**j * math.exp((end - j) * log_more)
            for j in range(self.shape)
        )
        return sum(terms) / (1.0 - self.stop**self.shape)

    def missed(self, share: float) -> float:
        """Probability that no run draws one of such a share of the candidates."""
        either = self.stop + share - self.stop * share
        ratio = self._powers(either) / self._powers(self.stop)
        return (self.stop / either) ** self.shape * (1.0 - share) * ratio

    def quantile(self, u: float) -> int:
        """Number of runs for a uniform number: the distribution function, inverted."""
        return self._first_passed_below(max(u, _ROUNDING))

    def _powers(self, base: float) -> float:
        return sum(base**power for power in range(self.shape))

    def _first_passed_below(self, u: float) -> int:
        # After 64 / stop runs less is left than the rounding.
        candidates = range(1, min(2 + math.ceil(64.0 / self.stop), 2**62))
        return 1 + bisect_left(candidates, True, key=lambda k: self.passed(k) < u)


def distribution_for_coverage(
    coverage: float, share: float, shape: int = 2
) -> RunDistribution:
    """Return the distribution with which some run is good with a given probability.

    Parameters
    ----------
    coverage : float
        Probability that at least one of the runs draws a good candidate. (0, 1).
    share : float
        Share of good candidates in the list. (0, 1].
    shape : int, default=2
    """

    def excess(log_stop: float) -> float:
        runs = RunDistribution(math.exp(log_stop), shape)
        return 1.0 - runs.missed(share) - coverage

    if share >= coverage:
        return RunDistribution(1.0, shape)
    least = math.log(share * (1.0 - coverage)) - 1.0
    return RunDistribution(math.exp(brentq(excess, least, 0.0, xtol=1e-12)), shape)


@dataclass(frozen=True)
class Base:
    """Privacy of one run: its trade-off function and its privacy profile.

    Parameters
    ----------
    likely, least : ndarray
        Chances of events, increasing, and what they are at least on a neighbor.
    log_slope : ndarray
        Logarithm of the slope of `least` behind each.
    delta : callable
        The privacy profile.
    """

    likely: Floats
    least: Floats
    log_slope: Floats
    delta: Callable[[Floats], Floats]


def gaussian_base(mu: float) -> Base:
    """One run is `mu`-Gaussian DP."""

    def delta(epsilon: Floats) -> Floats:
        return np.exp(gaussian_log_delta(mu, epsilon)) * (1.0 + 1e-9)

    z = _QUANTILES
    return Base(ndtr(z), ndtr(z - mu), mu * (z - mu / 2.0), delta)


def pure_base(epsilon: float) -> Base:
    """One run is `epsilon`-DP: randomised response is the worst case."""
    log_total = float(np.logaddexp(0.0, epsilon))

    def delta(at: Floats) -> Floats:
        gap = -np.expm1(np.minimum(at, epsilon) - epsilon)
        return gap * math.exp(epsilon - log_total) * (1.0 + 1e-9)

    likely, rest = ndtr(_QUANTILES), ndtr(-_QUANTILES)
    few = rest > math.exp(-log_total)  # as often as the likelier of the two answers
    many = 1.0 - rest * math.exp(min(epsilon, 700.0))
    least = np.where(few, math.exp(-epsilon) * likely, many)
    return Base(likely, least, np.where(few, -epsilon, epsilon), delta)


def repeat_delta(
    base: Base, distribution: RunDistribution, epsilon: float, failure: float = 0.0
) -> float:
    """Return the delta of releasing the best of a random number of runs.

    The theorem is in the user guide.

    Parameters
    ----------
    base : Base
        One run.
    distribution : RunDistribution
    epsilon : float
        Range: [0, inf).
    failure : float, default=0.0
        Probability that a run is not as private as `base` says.
    """

    def delta(at: Floats) -> Floats:
        return failure + (1.0 - failure) * base.delta(at)

    stop, power = distribution.stop, distribution.shape + 1
    # The first event is one that happens on one of the tables only.
    likely = np.append(0.0, failure + (1.0 - failure) * base.likely)
    least = np.append(0.0, (1.0 - failure) * base.least)
    slope = np.append(_NO_SLOPE, base.log_slope)
    above, below = stop + (1.0 - stop) * likely, stop + (1.0 - stop) * least
    # Up to where the ratio of the two is largest, and the end of that cell.
    n = int(np.argmin(np.append(np.log(below / above) > slope, False)))
    above, end = above[:n], np.append(above, 1.0)[n]
    below, slope = below[:n], slope[:n]
    tangent = below[-1] + math.exp(slope[-1]) * (end - above[-1])
    root = epsilon + power * math.log(tangent / end)
    if root < 0.0:
        return 1.0
    weights = distribution.mean * (stop / below) ** power
    steps = -np.diff(weights, prepend=distribution.mean)
    at = epsilon + (power + 1) * np.log(below / above) - slope
    total = weights[-1] * delta(np.array([root]))[0] + steps @ delta(at)
    return min(1.0, float(total) * (1.0 + 1e-9))


@lru_cache(maxsize=1024)
def calibrate_repeat(
    kind: str,
    epsilon: float,
    delta: float,
    distribution: RunDistribution,
    failure: float = 0.0,
) -> float:
    """Return what one run may cost: mu for "gaussian", epsilon for "pure".

    Returns 0.0 where the rounding of the distribution of the number of runs would cost
    too much.
    """
    delta -= distribution_cost(epsilon, distribution)
    if delta <= distribution.mean * failure:
        return 0.0
    base = gaussian_base if kind == "gaussian" else pure_base

    def excess(log_size: float) -> float:
        one = base(math.exp(log_size))
        costs = repeat_delta(one, distribution, epsilon, failure)
        return math.log(max(costs, 5e-324)) - math.log(delta)

    low, high = math.log(1e-8), math.log(max(100.0, 10.0 * epsilon))
    if excess(low) >= 0.0:
        return 0.0
    return math.exp(brentq(excess, low, high, xtol=1e-9)) * (1.0 - _MARGIN)


def distribution_cost(epsilon: float, distribution: RunDistribution) -> float:
    """Return the delta that the rounded distribution of the number of runs costs."""
    if epsilon > 600.0:
        return math.inf
    # Each number of runs is rounded: a uniform number by its last bit, and a chance by
    # a few of the next.
    rounding = 2.0 * _ROUNDING + distribution.largest * 2.0**-50
    return (1.0 + math.exp(epsilon)) * rounding
