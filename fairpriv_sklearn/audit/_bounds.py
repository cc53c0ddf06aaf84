r"""Lower bounds on the privacy loss from real outputs, valid whenever one looks.

A test of the claim :math:`P(S) \le e^\epsilon P'(S) + \delta` bets against it. Let `x`
and `y` tell whether the event was seen in a run on the one and on the other table.
Under the claim :math:`w = x - e^\epsilon y - \delta` has no positive mean, so that the
wealth :math:`\prod (1 + \lambda w)` is a supermartingale: it reaches `1 / alpha` with
probability at most `alpha`, however often one looks and whenever one stops. Event,
direction and stake are chosen anew before each batch of runs, from those before it.
"""

import math
from typing import Self

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, stdtrit

from .._shared.arguments import number, numbers

# Multiples of the stake that seems best, mixed with equal weights.
_BOLDNESS = np.array([0.25, 0.5, 1.0])
_FIRST_BATCH = 16


def epsilon_lower_bound(scores, other_scores, *, delta=0.0, confidence=0.95) -> float:
    r"""Bound epsilon from below by outputs on two neighbouring tables.

    .. math:: P(S) \le e^\epsilon P'(S) + \delta \quad \text{for all events } S

    .. rubric:: Privacy

    Not private: it reads outputs of fits and is for whoever audits.

    Parameters
    ----------
    scores : array-like of shape (n_runs,)
        One number from each of independent runs on the first table.
    other_scores : array-like of shape (n_runs,)
        The same number from independent runs on a neighbouring table.
    delta : float, default=0.0
        Delta of the claim that is audited. Range: [0, 1).
    confidence : float, default=0.95
        Probability with which the bound holds. Range: (0, 1).

    Returns
    -------
    float
        Not above the true epsilon at this delta, with the given confidence; 0 when
        nothing can be said.

    See Also
    --------
    mu_lower_bound : The same for a claim in Gaussian differential privacy.
    EpsilonBound : The same, one batch of runs after the other.

    References
    ----------
    .. [1] I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by
       betting", Journal of the Royal Statistical Society B, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.audit import epsilon_lower_bound
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.laplace(size=(2, 4000))
    >>> round(epsilon_lower_bound(1 + noise[0], noise[1]), 1)
    0.8
    """
    bound = EpsilonBound(delta=delta, confidence=confidence)
    return bound.update(scores, other_scores).value


def mu_lower_bound(scores, other_scores, *, confidence=0.95) -> float:
    r"""Bound the Gaussian-DP parameter from below by outputs on two neighbours.

    .. math:: \Phi^{-1}(P(S)) - \Phi^{-1}(P'(S)) \le \mu \quad \text{for all events } S

    .. rubric:: Privacy

    Not private: it reads outputs of fits and is for whoever audits.

    Parameters
    ----------
    scores : array-like of shape (n_runs,)
        One number from each of independent runs on the first table.
    other_scores : array-like of shape (n_runs,)
        The same number from independent runs on a neighbouring table.
    confidence : float, default=0.95
        Probability with which the bound holds. Range: (0, 1).

    Returns
    -------
    float
        Not above the true mu, with the given confidence, whatever the distribution of
        the outputs; 0 when nothing can be said.

    See Also
    --------
    gaussian_mu_lower_bound : Sharper, for outputs that are known to be Gaussian.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.audit import mu_lower_bound
    >>> noise = np.random.default_rng(0).normal(size=(2, 4000))
    >>> round(mu_lower_bound(1 + noise[0], noise[1]), 1)
    0.9
    """
    return MuBound(confidence=confidence).update(scores, other_scores).value


def gaussian_mu_lower_bound(scores, other_scores, *, confidence=0.95) -> float:
    r"""Bound the Gaussian-DP parameter of outputs that are known to be Gaussian.

    .. math:: \hat\mu - t \sqrt{2 / m + \hat\mu^2 / (4 m)},
        \qquad \hat\mu = |\bar x - \bar x'| / s ,

    with t the two-sided quantile of Student's distribution with 2 m - 2 degrees of
    freedom.

    .. rubric:: Privacy

    Not private: it reads outputs of fits and is for whoever audits.

    Parameters
    ----------
    scores : array-like of shape (n_runs,)
        Gaussian outputs on the first table, projected on one direction.
    other_scores : array-like of shape (n_runs,)
        The same on a neighbouring table, with the same variance.
    confidence : float, default=0.95
        Probability with which the bound holds, for a number of runs that was fixed
        before. Range: (0, 1).

    Returns
    -------
    float
        At least 0.

    See Also
    --------
    mu_lower_bound : Assumes nothing about the outputs, and may be looked at any time.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.audit import gaussian_mu_lower_bound
    >>> noise = np.random.default_rng(0).normal(size=(2, 600))
    >>> round(gaussian_mu_lower_bound(1 + noise[0], noise[1]), 1)
    0.9
    """
    first, second = _scores(scores, other_scores)
    confidence = check_confidence(confidence)
    m = len(first)
    if m < 2:
        return 0.0
    spread = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    shift = abs(first.mean() - second.mean())
    if spread == 0.0:
        raise ValueError(
            "The scores do not vary, so that they are not Gaussian outputs; use "
            "mu_lower_bound, which assumes nothing."
        )
    mu = shift / spread
    # Two-sided: which table gives the larger outputs was not known before.
    t = -stdtrit(2 * m - 2, (1.0 - confidence) / 2)
    return float(max(0.0, mu - t * math.sqrt(2 / m + mu**2 / (4 * m))))


class _Bound:
    """Wealth of bets against a family of claims, ordered by one parameter."""

    def __init__(self, *, confidence=0.95) -> None:
        self.confidence = check_confidence(confidence)
        self.n_runs = 0
        self._events = []  # (direction, sign, threshold, rates, counts of four)
        self._next = _FIRST_BATCH
        self._past = [np.empty(0), np.empty(0)]
        self._waiting = [np.empty(0), np.empty(0)]
        self._value = 0.0
        self._stale = False

    def update(self, scores, other_scores) -> Self:
        """Take in the outputs of further independent runs.

        Parameters
        ----------
        scores, other_scores : array-like of shape (n_runs,)
            As many of the one table as of the other.

        Returns
        -------
        self
        """
        pair = _scores(scores, other_scores)
        waiting = [np.append(a, b) for a, b in zip(self._waiting, pair, strict=True)]
        while len(waiting[0]) >= self._next:
            size = self._next
            self._bet([one[:size] for one in waiting])
            waiting = [one[size:] for one in waiting]
            # Growing batches: about twelve choices of an event for a thousand runs.
            self._next = max(_FIRST_BATCH, len(self._past[0]) // 4)
        self._waiting = waiting
        return self

    def learn(self, scores, other_scores) -> Self:
        """Look at outputs of runs without a bet on them.

        Parameters
        ----------
        scores, other_scores : array-like of shape (n_runs,)
            As many of the one table as of the other.

        Returns
        -------
        self
        """
        pair = _scores(scores, other_scores)
        self._past = [np.append(a, b) for a, b in zip(self._past, pair, strict=True)]
        return self

    def flush(self) -> Self:
        """Bet on the runs that wait for their batch to become full.

        Returns
        -------
        self
        """
        if len(self._waiting[0]):
            self._bet(self._waiting)
            self._waiting = [np.empty(0), np.empty(0)]
        return self

    @property
    def estimate(self) -> float:
        """Parameter that the most telling event of the past suggests: no bound."""
        if len(self._past[0]) < _FIRST_BATCH:
            return math.inf
        p, q = best_event(*self._past, self._promise).rates
        return float(self._promise(np.array(p), np.array(q)))

    @property
    def value(self):
        """Largest parameter below which every claim is refuted."""
        self.flush()
        if self._stale:
            self._value = float(self._refuted_up_to())
            self._stale = False
        return self._value

    def _bet(self, batch):
        if len(self._past[0]) >= _FIRST_BATCH:
            event = best_event(*self._past, self._promise)
            self._events.append(event.count(*batch))
            self._stale = True
        self._past = [np.append(a, b) for a, b in zip(self._past, batch, strict=True)]
        self.n_runs += len(batch[0])

    def _refuted_up_to(self):
        # Of a list that is fixed beforehand, from below and without gaps: the bound is
        # wrong only if the first claim in it that is kept is refuted. Wealth need not
        # fall with the parameter, so that nothing is said of those in between.
        parameters = np.geomspace(1e-3, self._largest, 2000)
        is_kept = self._log_wealth(parameters) <= -math.log(1.0 - self.confidence)
        n_refuted = int(np.argmax(np.append(is_kept, True)))
        return parameters[n_refuted - 1] if n_refuted else 0.0

    def _log_wealth(self, parameters):
        return log_wealth(
            len(parameters),
            [(event, *self._line(parameters, event)) for event in self._events],
        )


class EpsilonBound(_Bound):
    """Lower bound on epsilon that may be looked at after every batch of runs.

    .. rubric:: Privacy

    Not private: it reads outputs of fits and is for whoever audits.

    Parameters
    ----------
    delta : float, default=0.0
        Delta of the claim. Range: [0, 1).
    confidence : float, default=0.95
        Probability with which the bound holds at all times together. Range: (0, 1).

    Attributes
    ----------
    value : float
        The bound; 0 when nothing can be said.
    estimate : float
        What the most telling event so far suggests, without any confidence.
    n_runs : int
        Runs taken in, on each of the two tables.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.audit import EpsilonBound
    >>> rng, bound = np.random.default_rng(0), EpsilonBound()
    >>> while bound.value < 0.5:
    ...     noise = rng.laplace(size=(2, 100))
    ...     bound = bound.update(1 + noise[0], noise[1])
    >>> bound.n_runs < 2000
    True
    """

    _largest = 50.0

    def __init__(self, *, delta=0.0, confidence=0.95) -> None:
        super().__init__(confidence=confidence)
        self.delta = float(number(0, 1, closed="left")("delta", delta))

    def _promise(self, low, high):
        return np.log(np.maximum(low - self.delta, 1e-12) / high)

    def _line(self, epsilon, event):
        return epsilon, self.delta


class MuBound(_Bound):
    """Lower bound on the Gaussian-DP parameter, to be looked at after every batch.

    .. rubric:: Privacy

    Not private: it reads outputs of fits and is for whoever audits.

    Parameters
    ----------
    confidence : float, default=0.95
        Probability with which the bound holds at all times together. Range: (0, 1).

    Attributes
    ----------
    value : float
        The bound; 0 when nothing can be said.
    estimate : float
        What the most telling event so far suggests, without any confidence.
    n_runs : int
        Runs taken in, on each of the two tables.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.audit import MuBound
    >>> noise = np.random.default_rng(0).normal(size=(2, 2000))
    >>> MuBound().update(1 + noise[0], noise[1]).value > 0.8
    True
    """

    _largest = 12.0

    def _promise(self, low, high):
        return ndtri(low) - ndtri(high)

    def _line(self, mu, event):
        # The tangent of the trade-off curve at the false-positive rate of the past.
        t = -ndtri(event.rates[1])
        epsilon = np.clip(mu * t - mu**2 / 2, -30.0, 30.0)
        lost = np.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))
        return epsilon, ndtr(mu / 2 - epsilon / mu) - lost


class Event:
    """Scores beyond a threshold, in one of the four directions.

    Parameters
    ----------
    first : {0, 1}
        Which of the two tables should show the event more often.
    sign : {-1, 1}
        Whether the event is a small or a large score.
    threshold : float
        Of the score times `sign`.
    rates : tuple of float
        Smoothed frequencies of the past, in the first table and in the other.
    """

    def __init__(self, first, sign, threshold, rates):
        self.first, self.sign, self.threshold = first, sign, threshold
        self.rates = rates
        self.counts = None

    def count(self, *scores):
        """Return the event with the counts of (x, y) in 00, 01, 10, 11."""
        x = self.sign * scores[self.first] >= self.threshold
        y = self.sign * scores[1 - self.first] >= self.threshold
        self.counts = np.bincount(2 * x + y, minlength=4)
        return self


def best_event(scores, other_scores, promise):
    """Return the event that promised most in these runs: a choice, not a bound.

    Parameters
    ----------
    scores, other_scores : ndarray of shape (n_runs,)
    promise : callable
        ``promise(low, high)``, of rates in the one table and in the other.

    Returns
    -------
    Event
    """
    both = (scores, other_scores)
    options = []
    for first in (0, 1):
        for sign in (-1, 1):
            xs, ys = np.sort(sign * both[first]), np.sort(sign * both[1 - first])
            at = np.unique(xs[(len(xs) * np.linspace(0.0, 0.99, 60)).astype(int)])
            p = (len(xs) - np.searchsorted(xs, at) + 0.5) / (len(xs) + 1)
            q = (len(ys) - np.searchsorted(ys, at) + 0.5) / (len(ys) + 1)
            options.append((p, q, at, np.full(len(at), first), np.full(len(at), sign)))
    p, q, at, first, sign = (
        np.concatenate(column) for column in zip(*options, strict=True)
    )
    # Three standard errors off: otherwise rare events promise most.
    low = p - 3 * np.sqrt(p * (1 - p) / len(scores))
    high = q + 3 * np.sqrt(q * (1 - q) / len(scores)) + 4.5 / len(scores)
    i = int(np.argmax(promise(np.maximum(low, 1e-12), np.minimum(high, 1 - 1e-12))))
    return Event(int(first[i]), int(sign[i]), at[i], (float(p[i]), float(q[i])))


def log_wealth(n_claims, bets):
    """Return the logarithm of the wealth against each of some claims.

    Parameters
    ----------
    n_claims : int
    bets : list of (event, epsilon, delta)
        An event chosen before it was counted, and the lines of the claims that it is
        held against.

    Returns
    -------
    ndarray of shape (n_claims,)
        The exponential of each is at least 1 / alpha with probability at most alpha if
        its claim is kept.
    """
    totals = np.zeros((len(_BOLDNESS), n_claims))
    for event, epsilon, delta in bets:
        slope = np.exp(epsilon)
        p, q = event.rates
        # What grows fastest if the rates of the past are right, never all that is there
        mean = np.maximum(p - slope * q - delta, 0.0)
        variance = p * (1 - p) + slope**2 * q * (1 - q)
        stake = np.outer(_BOLDNESS, mean / (variance + mean**2))
        stake = np.minimum(stake, 0.9 / (slope + delta))
        # x - slope y - delta for (x, y) = 00, 01, 10, 11
        w = (-delta, -slope - delta, 1 - delta, 1 - slope - delta)
        for count, gain in zip(event.counts, w, strict=True):
            totals += count * np.log1p(stake * gain)
    return np.logaddexp.reduce(totals) - math.log(len(_BOLDNESS))


def check_confidence(confidence):
    """Return `confidence` as a float in (0, 1), or raise."""
    return float(number(0, 1, closed="neither")("confidence", confidence))


def _scores(scores, other_scores):
    pair = []
    for name, values in (("scores", scores), ("other_scores", other_scores)):
        values = np.asarray(numbers(name, values), dtype=np.float64)
        if values.ndim != 1 or np.isnan(values).any():
            raise ValueError(f"{name} must be one-dimensional, without missing values.")
        pair.append(values)
    if len(pair[0]) != len(pair[1]):
        raise ValueError(
            f"scores and other_scores must be equally many, got {len(pair[0])} and "
            f"{len(pair[1])}."
        )
    return pair
