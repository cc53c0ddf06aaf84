"""How a budget is shared out over fits and scores: functions of public numbers."""

import math
from dataclasses import dataclass

from scipy.optimize import brentq

from .._wall import (
    KEY_SHARE,
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PrivacyEvent,
    PureEvent,
    ThresholdEvent,
    calibrate_gaussian,
    compose_delta,
    compose_epsilon,
    gaussian_epsilon,
    without_sampler_error,
)
from ._repeat import RunDistribution, calibrate_repeat, distribution_for_coverage

# Noisy numbers drawn by one fit, at least, or until a fit tells how many it draws.
DRAWS_PER_FIT = 10_000
# And behind an encoder, where how many it draws depends on what that releases: enough
# for a linear model if each of so many columns becomes 29.
DRAWS_BEHIND = 10_000_000
# By so much a fit must gain by repeating: that may not try the best candidate at all.
WORTH_MISSING = 1.4
# Columns of which the products of all pairs are less than a linear model foresees.
USUAL_WIDTH = 150
# By so much a fit may cost more than its epsilon, in rounding.
SLACK = 1.0 + 1e-9
# Of fits, the plainer first: each is of those behind it as well.
KINDS = "gaussian", "threshold", "approximate"
# Of delta, for fits that show names by their noisy counts: twice what the steps of a
# fit take of what they are given.
_SHOWN = 2 * KEY_SHARE


@dataclass(frozen=True)
class FitShare:
    """What one fit may cost.

    Parameters
    ----------
    kind : {"gaussian", "threshold", "approximate"}
        Whether fits are known to be Gaussian releases, such releases that also show
        names whose noisy count reaches a threshold, or just (epsilon, delta)-DP.
    epsilon, delta : float
        The budget to hand to the estimator.
    mu : float
        Gaussian-DP parameter, but for "approximate".
    n_draws : int
        Number of noisy numbers of one fit that is paid for.
    failure : float
        Probability that a fit shows the name of one record, for "threshold".
    """

    kind: str
    epsilon: float
    delta: float
    mu: float
    n_draws: int
    failure: float = 0.0

    @property
    def size(self) -> float:
        """What to compare two ways by."""
        return self.epsilon if self.kind == "approximate" else self.mu

    @property
    def most(self) -> float:
        """Gaussian-DP parameter of a fit at most: the sum of all is rounded, too."""
        return self.mu * (1.0 - 1e-10)


@dataclass(frozen=True)
class SearchPlan:
    """How a search will spend its budget; public numbers, known before the fits.

    Parameters
    ----------
    method : {"repeat", "compose"}
        Best of a random number of runs, or every candidate once.
    n_candidates : int
        Length of the public list.
    expected_runs : float
        Expected number of fits.
    distribution : RunDistribution or None
        Distribution of the number of runs, for "repeat".
    fit : FitShare
        What each fit costs; `fit.epsilon` is what the estimators are given.
    score_mu : float or None
        Gaussian-DP parameter of the noisy score of one run. None: permute-and-flip.
    selection_epsilon : float or None
        Budget of permute-and-flip, which looks at the scores of "compose" once.
    """

    method: str
    n_candidates: int
    expected_runs: float
    distribution: RunDistribution | None
    fit: FitShare
    score_mu: float | None
    selection_epsilon: float | None


def plan_search(
    n_candidates: int,
    epsilon: float,
    delta: float,
    *,
    kind: str,
    method: str,
    coverage: float,
    n_draws: int,
    n_statistics: int,
    permute_and_flip: bool,
) -> SearchPlan:
    """Choose between repeating and composing: where a single fit gets much the most.

    Parameters
    ----------
    n_candidates : int
    epsilon, delta : float
        Budget of the search.
    kind : {"gaussian", "threshold", "approximate"}
        Guarantee of the candidates' fits.
    method : {"auto", "repeat", "compose"}
    coverage : float
        Chance that "repeat" tries one of the best tenth of the candidates.
    n_draws : int
        Noisy numbers of one fit.
    n_statistics : int
        Noisy numbers of one score.
    permute_and_flip : bool
        Whether the score is one sum, so that "compose" can select without noise on
        every score.
    """
    asked = n_candidates, epsilon, delta, kind, n_draws, n_statistics
    composed = _composed(*asked, permute_and_flip)
    if method == "compose" or epsilon == math.inf or n_candidates == 1:
        return composed
    share = max(1, n_candidates // 10) / n_candidates
    # Pure fits cost less the fewer successes end the runs.
    shape = 1 if kind == "approximate" else 2
    repeated = _repeated(*asked, distribution_for_coverage(coverage, share, shape))
    if method == "auto" and WORTH_MISSING * composed.fit.size >= repeated.fit.size:
        return composed
    if repeated.fit.size == 0.0:
        raise ValueError(
            f"method='repeat' has no guarantee at epsilon={epsilon!r} and "
            f"delta={delta!r}; use method='compose'."
        )
    return repeated


def _composed(
    n_candidates, epsilon, delta, kind, n_draws, n_statistics, permute_and_flip
) -> SearchPlan:
    score_mu = None
    if not permute_and_flip:
        n_all = n_candidates * n_statistics
        score_mu = calibrate_gaussian(epsilon, delta, n_draws=n_all)
        score_mu /= math.sqrt(n_candidates)
    share = share_of_composition(kind, n_candidates, epsilon, delta, n_draws)
    n_runs, choice = float(n_candidates), epsilon if permute_and_flip else None
    return SearchPlan("compose", n_candidates, n_runs, None, share, score_mu, choice)


def _repeated(
    n_candidates, epsilon, delta, kind, n_draws, n_statistics, distribution
) -> SearchPlan:
    # All noise that is ever drawn is within this number, but for 1e-12.
    n_all = distribution.largest * (n_draws + n_statistics)
    ideal_epsilon, log_delta = without_sampler_error(epsilon, delta, n_all)
    ideal_delta = math.exp(log_delta)
    score_mu = 0.0
    share = FitShare(kind, 0.0, delta, 0.0, n_draws)
    if ideal_epsilon > 0.0:
        asked = ideal_epsilon, ideal_delta, distribution
        score_mu = calibrate_repeat("gaussian", *asked)
        if kind == "gaussian":
            share = gaussian_share(kind, score_mu, delta, distribution.mean, n_draws)
        elif kind == "threshold":
            failure = _SHOWN * ideal_delta / distribution.mean
            mu = calibrate_repeat("gaussian", *asked, failure)
            share = gaussian_share(kind, mu, ideal_delta, distribution.mean, n_draws)
        else:
            # A fit fails to be pure with probability `delta`: the mean number of runs
            # times that, in all; the other half pays for the pure rest.
            fit_delta = ideal_delta / (2.0 * distribution.mean)
            fit_epsilon = calibrate_repeat("pure", *asked, fit_delta)
            share = FitShare(kind, fit_epsilon, fit_delta, math.inf, n_draws)
    return SearchPlan(
        "repeat", n_candidates, distribution.mean, distribution, share, score_mu, None
    )


def gaussian_share(
    kind: str, mu: float, delta: float, n_fits: float, n_draws: int
) -> FitShare:
    """Return the budget that makes a Gaussian fit, one of some, cost at most `mu`.

    One that shows names fails with at most its part of `_SHOWN` of `delta`.
    """
    failure = 0.0
    if kind == "threshold":
        delta = _shared(delta, n_fits)
        failure = _SHOWN * delta
    epsilon = gaussian_epsilon(mu * (1.0 - 1e-9), delta) if mu else 0.0
    return FitShare(kind, epsilon, delta, mu, n_draws, failure)


def _shared(delta: float, n_fits: float, part: float = 1.0) -> float:
    each = part * delta / n_fits
    if each == 0.0:
        raise ValueError(f"delta={delta!r} is too small to be shared by {n_fits} fits.")
    return each


def _calibrated(kind: str, epsilon: float, delta: float, n_draws: int) -> float:
    """The `mu` of all releases beside the names that are shown."""
    shown = _SHOWN * delta if kind == "threshold" else 0.0
    return calibrate_gaussian(epsilon, delta, n_draws=n_draws, failure=shown)


def share_of_composition(
    kind: str, n_fits: int, epsilon: float, delta: float, n_draws: int, extra=()
) -> FitShare:
    """Return the share of each of `n_fits` fits that compose, with `extra` parts."""
    if kind == "gaussian" or (kind == "threshold" and n_fits > 1):
        mu = _calibrated(kind, epsilon, delta, n_fits * n_draws) / math.sqrt(n_fits)
        return gaussian_share(kind, mu, delta, n_fits, n_draws)
    if epsilon == math.inf or (n_fits == 1 and not extra):
        return FitShare("approximate", epsilon, delta, math.inf, n_draws)
    fit_delta = _shared(delta, n_fits, 0.25)

    def excess(log_epsilon: float) -> float:
        parts = [DeclaredEvent(math.exp(log_epsilon), fit_delta)] * n_fits
        return math.log(compose_delta([*parts, *extra], epsilon)) - math.log(delta)

    low, high = math.log(epsilon / (4.0 * n_fits)), math.log(epsilon)
    while excess(low) > 0.0:
        low -= 1.0
    fit_epsilon = epsilon
    if excess(high) > 0.0:
        fit_epsilon = math.exp(brentq(excess, low, high, xtol=1e-9) - 1e-8)
    return FitShare(kind, fit_epsilon, fit_delta, math.inf, n_draws)


@dataclass(frozen=True)
class ValidationPlan:
    """How a cross-validation will spend its budget."""

    fit: FitShare
    score_mu: float


def cost_of_fits(share: FitShare, n_fits: int) -> tuple[PrivacyEvent, ...]:
    """What so many fits cost together."""
    if share.kind == "approximate":
        return (DeclaredEvent(share.epsilon * SLACK, share.delta),) * n_fits
    noise = GaussianEvent(share.most * math.sqrt(n_fits), n_fits * share.n_draws)
    shown = (ThresholdEvent(share.failure),) if share.failure else ()
    return (noise, *shown * n_fits)


def cost_of_search(plan: SearchPlan, n_statistics: int) -> tuple[PrivacyEvent, ...]:
    """What composition costs a record: all fits, or the choice that scores it."""
    if plan.score_mu is None:
        choice = PureEvent(plan.selection_epsilon)
    else:
        scores = plan.score_mu * math.sqrt(plan.n_candidates)
        choice = GaussianEvent(scores, plan.n_candidates * n_statistics)
    return (MaximumEvent(cost_of_fits(plan.fit, plan.n_candidates), (choice,)),)


def cost_of_validation(
    plan: ValidationPlan, n_train_folds: int, n_statistics: int
) -> tuple[PrivacyEvent, ...]:
    """What a record costs: the fits that see it, and the score that does."""
    score = GaussianEvent(plan.score_mu, n_statistics)
    return (*cost_of_fits(plan.fit, n_train_folds), score)


def total_of(events, epsilon: float, delta: float) -> tuple[PrivacyEvent, ...]:
    """What is paid for: events that cost no more than is asked, or just that.

    Beside others in a ledger such events compose to less.
    """
    if epsilon < math.inf and compose_epsilon(events, delta) <= epsilon:
        return events
    return (DeclaredEvent(epsilon, delta),)


def plan_validation(
    n_train_folds: int,
    epsilon: float,
    delta: float,
    *,
    kind: str,
    score_fraction: float,
    n_draws: int,
    n_statistics: int,
) -> ValidationPlan:
    """Share a budget between the fits that see a record and the score that does.

    Parameters
    ----------
    n_train_folds : int
        Number of fits that see a record.
    epsilon, delta : float
        Budget of the whole.
    kind : {"gaussian", "threshold", "approximate"}
        Guarantee of the fits.
    score_fraction : float
        Share of the squared Gaussian-DP parameter that the scores take.
    n_draws, n_statistics : int
        Noisy numbers of one fit and of one score.
    """
    n_all = n_train_folds * n_draws + n_statistics
    mu = _calibrated(kind, epsilon, delta, n_all)
    score_mu = math.sqrt(score_fraction) * mu
    score = GaussianEvent(score_mu, n_statistics)
    if kind != "approximate":
        fit_mu = math.sqrt((1.0 - score_fraction) / n_train_folds) * mu
        fit = gaussian_share(kind, fit_mu, delta, n_train_folds, n_draws)
    else:
        fit = share_of_composition(
            kind, n_train_folds, epsilon, delta, n_draws, extra=[score]
        )
    return ValidationPlan(fit, score_mu)
