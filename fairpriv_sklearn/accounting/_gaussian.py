"""Gaussian releases: exact conversions, and the error of the Gaussian sampler."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from .._shared.arguments import checked, number, real
from .._shared.arrays import Floats

Curve = Callable[[Floats], Floats]

# Calibrations give away more than compositions round up: a calibrated fit composes
# to no more than the budget that was asked for.
_CALIBRATION_MARGIN = 1e-9
_COMPOSITION_MARGIN = 1e-10

# Largest measured relative error of the probability of a cell of the Gaussian sampler.
_CELL_ERROR = 1e-8
# Largest share of delta given to the event that the sampler errs more than accounted.
_SAMPLER_SHARE = 1e-6

# Budgets beyond this one are no privacy: ask for infinity instead.
_MAX_EPSILON = 1e6
# More sampled releases could not be composed accurately.
_MAX_STEPS = 10**7
# A smaller share is that of one record in no table, and its quotients overflow.
SMALLEST_Q = 1e-15
# A shift of the mean from which on epsilon is no longer a finite float.
_MAX_MU = 1e150
# From here on a bound of epsilon stands for it: it is too large by less than 1e-7.
_LARGE_MU = 1e8

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@checked(mu=number(0, math.inf), epsilon=real)
def gaussian_delta(mu: float, epsilon: float) -> float:
    r"""Return the delta of `mu`-Gaussian DP at a given epsilon.

    .. math:: \delta(\varepsilon) = \Phi(-\varepsilon/\mu + \mu/2)
        - e^{\varepsilon} \Phi(-\varepsilon/\mu - \mu/2)

    Parameters
    ----------
    mu : float
        Sensitivity divided by noise standard deviation. Range: [0, inf].
    epsilon : float
        Range: (-inf, inf].

    Returns
    -------
    delta : float
        Rounded up.

    References
    ----------
    .. [1] B. Balle, Y.-X. Wang, "Improving the Gaussian Mechanism for Differential
       Privacy", ICML, 2018.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import gaussian_delta
    >>> round(gaussian_delta(mu=1.0, epsilon=1.0), 6)
    0.126937
    """
    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon))
    if epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    delta = math.exp(gaussian_log_delta(mu, np.array([float(epsilon)]))[0])
    return min(1.0, delta * (1.0 + _COMPOSITION_MARGIN))


@checked(mu=number(0, math.inf), delta=number(0, 1))
@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon of `mu`-Gaussian DP at a given delta.

    Parameters
    ----------
    mu : float
        Sensitivity divided by noise standard deviation. Range: [0, inf].
    delta : float
        Range: [0, 1].

    Returns
    -------
    epsilon : float
        Rounded up.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import gaussian_epsilon
    >>> round(gaussian_epsilon(mu=1.0, delta=1e-5), 4)
    4.3772
    """
    if mu == 0.0:
        return 0.0
    if mu > _MAX_MU or delta == 0.0:
        return 0.0 if delta == 1.0 else math.inf
    # Phi(-x) <= exp(-x^2 / 2) bounds the first term of delta.
    upper = mu * (mu / 2.0 + math.sqrt(-2.0 * math.log(delta)))
    if mu > _LARGE_MU:  # floats do not tell delta there, and the bound is as good
        return upper * (1.0 + _COMPOSITION_MARGIN)
    return _smallest_epsilon(
        lambda epsilon: gaussian_log_delta(mu, np.array([epsilon])).item(), delta, upper
    )


@checked(epsilon=real, delta=real)
@lru_cache(maxsize=4096)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest `mu` whose Gaussian DP implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Range: [0, 1e6], or inf.
    delta : float
        Range: (0, 1).

    Returns
    -------
    mu : float
        Rounded down. inf if `epsilon` is inf.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import gaussian_mu
    >>> round(gaussian_mu(epsilon=1.0, delta=1e-5), 4)
    0.2681
    """
    _check_budget(epsilon, delta)
    if epsilon == math.inf:
        return math.inf
    return _largest_mu(epsilon, math.log(delta)) * (1.0 - _CALIBRATION_MARGIN)


@checked(epsilon=real, delta=real, n_draws=real, failure=real)
@lru_cache(maxsize=4096)
def calibrate_gaussian(
    epsilon: float, delta: float, *, n_draws: int = 0, failure: float = 0.0
) -> float:
    """Return the total `mu` that a fit with Gaussian noise may spend.

    A fit with T releases at equal noise uses ``mu / sqrt(T)`` for each. The error of
    the sampler accumulates over all noisy numbers of the fit and is paid for here.

    Parameters
    ----------
    epsilon : float
        Budget of the fit. Range: (0, 1e6], or inf.
    delta : float
        Budget of the fit. Range: (0, 1).
    n_draws : int, default=0
        Number of noisy coordinates the whole fit draws. Range: [0, inf).
    failure : float, default=0.0
        What a `ThresholdEvent` of the same fit takes of `delta`. Range: [0, delta).

    Returns
    -------
    mu : float
        Rounded down. inf if `epsilon` is inf.

    Raises
    ------
    ValueError
        If an argument is out of its range, or `epsilon` is too small for `n_draws`, or
        `delta` for them and `failure`.

    See Also
    --------
    fairpriv_sklearn.mechanisms.GaussianMechanism : Spends it.

    Notes
    -----
    With cell error eta and N draws, the log-ratio to the ideal sampler is at most
    e1 = N eta^2 + eta sqrt(2 N log(1 / delta1)) except with probability delta1. An
    ideal (epsilon, delta) becomes
    (epsilon + 2 e1, exp(e1) delta + (1 + exp(epsilon + e1)) delta1).

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import calibrate_gaussian
    >>> round(calibrate_gaussian(1.0, 1e-5, n_draws=1000), 3)
    0.268
    """
    _check_budget(epsilon, delta)
    _check_draws(n_draws)
    if epsilon == math.inf:
        return math.inf
    ideal_epsilon, log_delta = without_sampler_error(epsilon, delta, n_draws)
    if ideal_epsilon < 0.0:
        raise ValueError(
            f"epsilon={epsilon!r} does not cover the error of drawing "
            f"n_draws={n_draws!r} noisy numbers: raise epsilon."
        )
    if failure != 0.0:
        rest = math.exp(log_delta) - failure
        if not (0.0 <= failure < 1.0 and rest > 0.0):
            raise ValueError(
                f"failure must be in [0, delta) and leave some of delta={delta!r}, "
                f"got {failure!r}."
            )
        log_delta = math.log(rest / (1.0 - failure))
    return _largest_mu(ideal_epsilon, log_delta) * (1.0 - _CALIBRATION_MARGIN)


def _largest_mu(epsilon: float, log_delta: float) -> float:
    def excess(log_mu: float) -> float:
        log_value = gaussian_log_delta(math.exp(log_mu), np.array([epsilon]))[0]
        return log_value - log_delta

    tail = math.sqrt(-2.0 * log_delta)
    # Two lower bounds, from delta <= Phi(-tail) and delta(0) <= mu / sqrt(2 pi).
    guess = max(
        2.0 * epsilon / (math.sqrt(tail**2 + 2.0 * epsilon) + tail),
        math.exp(log_delta + _LOG_SQRT_2PI),
    )
    low = math.log(guess) - 1e-9
    while excess(low) > 0.0:  # a delta that is no normal number
        low -= 0.5
    high = low + 0.5
    while excess(high) < 0.0:
        high += 0.5
    return math.exp(brentq(excess, low, high, xtol=1e-11))


def gaussian_log_delta(mu: float, epsilon: Floats) -> Floats:
    """Return the logarithm of delta(epsilon), any real epsilon, 0 < mu < inf.

    With R = (1 - Phi) / phi, phi(y) exp(epsilon) = phi(x) for x = epsilon/mu - mu/2
    and y = x + mu, so delta = phi(x) (R(x) - R(y)): no cancellation of tiny numbers.
    """
    # For a vanishing mu, x overflows and delta underflows to its limit.
    with np.errstate(all="ignore"):
        x = -_half_difference(mu, epsilon)
        log_delta = np.empty_like(x)
        # Far on the left R overflows, but there delta is large and (0.1) is accurate.
        left = x < -1.0
        if left.any():
            log_upper = log_ndtr(-x[left])
            log_ratio = epsilon[left] + log_ndtr(-x[left] - mu) - log_upper
            log_delta[left] = log_upper + np.log(-np.expm1(log_ratio))
        right = ~left
        if right.any():
            t = x[right]
            log_phi = -0.5 * t * t - _LOG_SQRT_2PI
            log_delta[right] = log_phi + np.log(_mills_difference(t, mu))
    return log_delta


def _half_difference(mu: float, epsilon: Floats) -> Floats:
    """Return mu / 2 - epsilon / mu with the rounding error of mu**2 put back."""
    high = 134217729.0 * mu  # Veltkamp's splitting into two halves of 26 bits
    high -= high - mu
    low = mu - high
    square = mu * mu
    error = ((high * high - square) + 2.0 * high * low) + low * low
    return ((square - 2.0 * epsilon) + error) / (2.0 * mu)


def _mills(x: Floats) -> Floats:
    return math.sqrt(math.pi / 2.0) * erfcx(x / math.sqrt(2.0))


def _mills_difference(x: Floats, mu: float) -> Floats:
    if mu > 0.5:
        return _mills(x) - _mills(x + mu)
    # Close arguments: integrate the derivative instead.
    nodes = x[:, None] + 0.5 * mu * (1.0 + _NODES)
    return 0.5 * mu * (_mills_slope(nodes) @ _WEIGHTS)


def _mills_slope(t: Floats) -> Floats:
    """Return -R'(t) = 1 - t R(t), by its asymptotic series where that cancels."""
    slope = 1.0 - t * _mills(t)
    far = t > 12.0
    if far.any():
        inverse_square = t[far] ** -2.0
        series = np.ones_like(inverse_square)
        for odd in range(33, 2, -2):
            series = 1.0 - odd * inverse_square * series
        slope[far] = inverse_square * series
    return slope


def _smallest_epsilon(
    log_delta: Callable[[float], float], delta: float, upper: float
) -> float:
    """Solve log_delta(epsilon) = log(delta) on [0, upper] and round up."""
    log_target = math.log(delta)

    def excess(epsilon: float) -> float:
        # Brent's method needs finite values.
        return max(float(log_delta(epsilon)), log_target - 1e3) - log_target

    if excess(0.0) <= 0.0:
        return 0.0
    if excess(upper) >= 0.0:
        return upper
    root = brentq(excess, 0.0, upper, xtol=1e-13 * upper)
    return min(upper, root * (1.0 + _COMPOSITION_MARGIN) + 2e-13 * upper)


# --- Error of the Gaussian sampler ----------------------------------------------------


def _sampler_error(log_delta1: float, n_draws: int) -> float:
    return n_draws * _CELL_ERROR**2 + _CELL_ERROR * math.sqrt(
        -2.0 * n_draws * log_delta1
    )


def _sampler_log_delta1(epsilon: float, delta: float) -> tuple[float, float]:
    """Return log(delta1) and log((1 + exp(epsilon)) delta1)."""
    log_factor = float(np.logaddexp(0.0, epsilon))
    log_loss = min(
        math.log(1e-12) + log_factor, math.log(_SAMPLER_SHARE) + math.log(delta)
    )
    return log_loss - log_factor, log_loss


def without_sampler_error(
    epsilon: float, delta: float, n_draws: int
) -> tuple[float, float]:
    """Return the ideal (epsilon, log(delta)) that implies (epsilon, delta)."""
    if n_draws == 0:
        return epsilon, math.log(delta)
    log_delta1, log_loss = _sampler_log_delta1(epsilon, delta)
    error = _sampler_error(log_delta1, n_draws)
    remaining = math.log1p(-math.exp(log_loss - math.log(delta)))
    return epsilon - 2.0 * error, math.log(delta) + remaining - error


# --- Checks ---------------------------------------------------------------------------


def _check_budget(epsilon: float, delta: float) -> None:
    if not (0.0 <= epsilon <= _MAX_EPSILON or epsilon == math.inf):
        raise ValueError(
            f"epsilon must be in [0, {_MAX_EPSILON:.0e}] or inf, got {epsilon!r}."
        )
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}.")


def _check_draws(n_draws: int) -> None:
    if not (0 <= n_draws < math.inf and n_draws == int(n_draws)):
        raise ValueError(f"n_draws must be a whole number >= 0, got {n_draws!r}.")


def _check_sampling(q: float, steps: int) -> None:
    if not SMALLEST_Q <= q <= 1.0:
        raise ValueError(f"q must be in [{SMALLEST_Q:g}, 1], got {q!r}.")
    if not (1 <= steps <= _MAX_STEPS and steps == int(steps)):
        raise ValueError(
            f"steps must be a whole number in [1, {_MAX_STEPS}], got {steps!r}."
        )
