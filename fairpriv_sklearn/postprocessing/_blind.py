r"""Repair without the group at prediction: the rule reads an estimate of it.

With :math:`q_s(x)` for :math:`P(A = s | x)`, the best rule that looks at x only is

.. math:: \arg\max_k \; p_k(x) - \sum_s q_s(x)\, \nu_{s,k}

(compare Xian and Zhao 2024). In `fit` the true groups are known, so that the release of
each step is the aware one, a table of soft decision counts by *true* group: where the
steps converge, parity holds whatever q is. What a bad q costs is told by a noisy
certificate, and where the repair does not help it stands back.

Everything here is post-processing of noisy tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import chi2
from scipy.stats.qmc import Sobol

from .._shared.arguments import each, number
from . import _parity as parity
from ._significance import DROWNED

# Shares of the squared Gaussian budget: recalibration of q, and the certificate; the
# steps take the rest. Chosen on Adult and simulated data.
RECALIBRATION_SHARE = 0.10
CERTIFICATE_SHARE = 0.15
# Bins of q before recalibration; neighbours are merged as the noise asks.
RECALIBRATION_BINS = 32
MOST_MERGED = 24
# A merged bin holds at least this many standard deviations of its noise.
MERGED_SIZE = 4.0
# A slope of the group in q counts from this many standard deviations.
SEEN = 3.0
# The first step grows as q tells less of the group, up to this factor.
LARGEST_STEP = 10.0
# What the steps tell of the rule that they found errs by noise and, as they count near
# its offsets and soft decisions, by this part of the smoothing. Simulated tables.
SOFT_ERROR = 0.2
# With this probability, steps and counts that agree are not taken to disagree.
CONSISTENT = 0.95
# Estimates of several differences are drawn together by this many times what their
# errors add to them. Chosen on simulated tables.
DRAWN_TOGETHER = 3.0
# Standard deviations of its noise that the size of a group with next to nobody exceeds
# if it is compared all the same, and that of each group in a true class: below, its
# noise hides what others differ by. Chosen on simulated tables.
PLAIN = 4.0
# Confidence with which groups have to differ for a repair, in tables of up to so many
# rows or by a weak model of the group, where one that is not needed does harm, and
# elsewhere. Chosen on simulated tables, Adult and Credit.
SURE = 0.99
LIKELY = 0.7
MANY = 3000
# Of the intervals that are published.
CONFIDENCE = 0.95
# Points at which errors of an interval are drawn, the same for everybody, and how many
# errors at most.
N_POINTS = 1024
MOST_ERRORS = Sobol.MAXDIM
UNPAID = (
    "reach reads counts that were not paid for: fit with blind=True and a share of the "
    "budget for them, reach_size=0.2 for example."
)
# Rates that a linear program made equal differ by less.
ROUNDING = 1e-9
# Rules between none and the full repair, for `reach`.
REACH_STEPS = 8


@dataclass(frozen=True, eq=False)
class Recalibration:
    """From a group model's shares to those that one noisy table confirms.

    Attributes
    ----------
    shares : ndarray of shape (n_groups,)
        Of the groups among the calibration rows.
    strength : float
        Explained part of the groups' variance, in [0, 1]: what q tells about them.
    position : ndarray of shape (n_points,) or None
        Two groups: shares of the second group as the model gives them.
    posterior : ndarray of shape (n_points or n_regions, n_groups)
        The shares that belong there.
    """

    shares: np.ndarray
    strength: float
    position: np.ndarray | None
    posterior: np.ndarray

    def __call__(self, q: np.ndarray) -> np.ndarray:
        """Recalibrate rows of shares, each on its own."""
        if self.strength == 0:
            return np.tile(self.shares, (len(q), 1))
        if self.position is None:
            return self.posterior[parity.score_bins(q, RECALIBRATION_BINS)]
        second = np.interp(q[:, 1], self.position, self.posterior[:, 1])
        return np.column_stack([1 - second, second])

    def likelier(self, posterior: np.ndarray) -> np.ndarray:
        """The group that each row is likelier in than anybody, by most."""
        return (posterior / self.shares).argmax(axis=1)


def recalibrate(table: np.ndarray, noise_scale: float) -> Recalibration:
    """Read the recalibration off noisy counts by true group and bin of q.

    Parameters
    ----------
    table : ndarray of shape (n_groups, n_bins)
        Bins as of `_parity.score_bins` with the groups in place of the classes.
    noise_scale : float
        Standard deviation of the noise in one count.
    """
    table = table.astype(np.float64)
    n_groups, n_bins = table.shape
    totals = np.maximum(table.sum(axis=1), 1.0)
    shares = totals / totals.sum()
    centres = (np.arange(n_bins) + 0.5) / n_bins
    if n_groups == 2:
        merged, weights = _merged(table, noise_scale)
        counts = np.array([table[:, part].sum(axis=1) for part in merged]).T
        noise = noise_scale * np.sqrt([part.stop - part.start for part in merged])
        weights = np.maximum(weights, 1e-9)
        means = [np.average(centres[part], weights=weights[part]) for part in merged]
        position = np.array(means)
    else:
        counts, noise, position = table, np.full(n_bins, noise_scale), None
    sizes = np.maximum(counts.sum(axis=0), 0.0)
    # Towards the groups' shares as far as a bin is noise, and a few records beyond.
    prior = 5 + 2 * noise * np.sqrt(n_groups)
    posterior = np.maximum(counts, 0.0) + np.outer(shares, prior)
    posterior /= posterior.sum(axis=0)
    # Explained variance, less what noise and sampling explain by chance.
    weights = (sizes + 1e-9) / (sizes + 1e-9).sum()
    between = ((posterior - shares[:, None]) ** 2) @ weights
    known = (sizes / (sizes + prior)) ** 2
    chance = (known * weights) @ (
        (shares * (1 - shares)).sum() / np.maximum(sizes, 1)
        + n_groups * noise**2 / np.maximum(sizes, 1) ** 2
    )
    spread = (shares * (1 - shares)).sum()
    strength = (between.sum() - 2 * chance) / spread
    if strength <= 1e-3 and n_groups == 2:
        strength, posterior = _line(table, shares, noise_scale, centres)
        position = centres
    strength = float(np.clip(strength, 0, 1)) if strength > 1e-3 else 0.0
    return Recalibration(shares, strength, position, posterior.T)


def _line(table, shares, noise_scale, centres) -> tuple[float, np.ndarray]:
    """Strength, and shares of two groups that are linear in q.

    Many bins explain much by chance, a slope little. The noise of least-squares sizes
    and that of what is left by them do not hang together: sizes may weigh it.
    """
    first, second = shares
    precision = first**2 + second**2
    sizes = np.maximum(shares @ table / precision, 0.0)
    left = first * table[1] - second * table[0]
    weights = sizes / (first * second * sizes + precision * noise_scale**2 + 1e-9)
    told = weights * sizes + 1e-12
    away = centres - np.average(centres, weights=told)
    known = told @ away**2
    slope = (weights * away) @ left / known
    found = slope**2 * known
    if found < SEEN**2:
        return 0.0, np.tile(shares[:, None], len(centres))
    line = np.clip(second + slope * away, 0, 1)
    return (found - 1) / (first * second * told.sum()), np.stack([1 - line, line])


def _merged(table: np.ndarray, noise_scale: float):
    """Neighbouring bins together, until each holds more than its noise."""
    sizes = table.sum(axis=0)
    enough = max(sizes.sum() / MOST_MERGED, 1.0)
    parts, start, size = [], 0, 0.0
    for stop in range(1, table.shape[1] + 1):
        size += sizes[stop - 1]
        if size >= max(enough, MERGED_SIZE * noise_scale * np.sqrt(stop - start)):
            parts.append(slice(start, stop))
            start, size = stop, 0.0
    if start < table.shape[1]:
        first = parts.pop().start if parts else 0
        parts.append(slice(first, table.shape[1]))
    return parts, np.maximum(sizes, 0.0)


@dataclass(frozen=True)
class Measured:
    """A rule's disparity and error, read off one noisy table.

    Attributes
    ----------
    disparity : float
        Largest difference between two groups in a constrained rate.
    interval : tuple of float
        That holds the population's disparity with the stated confidence.
    error : float
        Share of wrong decisions.
    error_interval : tuple of float
    known : bool
        Whether all groups are large enough, against their noise, to be compared.
    told : (ndarray, ndarray) or None
        The rates compared, shape (n_rates, n_groups), and the variances of their noise;
        None if the steps told others.
    sure : float
        Confidence with which some two groups differ in some rate.
    """

    disparity: float
    interval: tuple[float, float]
    error: float
    error_interval: tuple[float, float]
    known: bool
    told: tuple | None = None
    sure: float = 0.0


@lru_cache(maxsize=32)
def normal_points(n_errors: int) -> np.ndarray:
    """Evenly spread normal errors of shape (2, n_errors, N_POINTS / 2)."""
    points = Sobol(n_errors, scramble=False).random(N_POINTS) + 0.5 / N_POINTS
    errors = ndtri(points).reshape(-1, 2, n_errors).transpose(1, 2, 0).copy()
    errors.flags.writeable = False  # shared by all calls
    return errors


def disparity_interval(
    rates: np.ndarray, variances: np.ndarray, confidence: float, steered: bool = False
) -> tuple[float, float]:
    """Interval of the largest difference between two groups in any of several rates.

    It holds all numbers that the estimate does not contradict: from a hypothetical
    disparity it is no farther than normal errors would take it. As the others' true
    rates are not known, half of the errors are added to rates as estimated, and half to
    groups that lie at either end, whose largest difference is overestimated most.

    If the same rows have steered the rule until they agree on it, people differ by the
    rows' sampling error. Where zero is not contradicted, the interval then goes from
    zero to what errors seldom make of the estimate. The largest of several differences
    is overestimated by the errors of all: these are drawn together before (`drawn`).

    Parameters
    ----------
    rates, variances : ndarray of shape (n_rates, n_groups)
        Estimates, and the variances of their errors.
    confidence : float
    steered : bool, default=False

    Returns
    -------
    low, high : float
    """
    errors = normal_points(rates.size).reshape(2, *rates.shape, -1)
    errors = errors * np.sqrt(variances)[..., None]
    low, high = interval_by_errors(rates, errors, confidence)
    if steered and low == 0:
        moved = drawn(rates, variances)[..., None] + errors
        largest = np.ptp(moved, axis=2).max(axis=1)
        high = min(float(np.quantile(largest, confidence)), 1.0)
    return low, high


def drawn(rates: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Differences between groups, smaller by what their errors add to them.

    A single one stays as it is; for more compare James and Stein (1961).
    """
    weights = 1 / variances
    middle = (weights * rates).sum(axis=1) / weights.sum(axis=1)
    apart = rates - middle[:, None]
    others = rates.size - len(rates) - 1
    found = max(float((weights * apart**2).sum()), 1e-12)
    return max(0.0, 1 - DRAWN_TOGETHER * others / found) * apart


def interval_by_errors(rates, errors, confidence: float) -> tuple[float, float]:
    """The interval of `disparity_interval`, for errors that may hang together.

    Parameters
    ----------
    rates : ndarray of shape (n_rates, n_groups)
    errors : ndarray of shape (1 or 2, n_rates, n_groups, n_points)
        Draws for the rates as estimated, and for groups that lie at either end.
    confidence : float
    """
    found, tried, drawn = drawn_disparities(rates, errors)
    allowed = np.quantile(np.abs(drawn - tried[:, None]), confidence, axis=1)
    # Positive inside, and falling on either side of it.
    inside = allowed - np.abs(found - tried)
    lower, upper = tried <= found, tried >= found
    low = np.interp(0, inside[lower], tried[lower])
    return float(low), float(np.interp(0, -inside[upper], tried[upper]))


def upper_end_by_errors(rates, errors, seldom: float) -> float:
    """The disparity with which one as small as was found is drawn so seldom."""
    found, tried, drawn = drawn_disparities(rates, errors)
    larger = np.quantile(drawn, seldom, axis=1) - found
    upper = tried >= found
    return float(np.interp(0, larger[upper], tried[upper]))


def drawn_disparities(rates, errors) -> tuple[float, np.ndarray, np.ndarray]:
    """The largest difference found, others tried, and what errors make of them.

    Returns
    -------
    found : float
    tried : ndarray of shape (n_tried,)
    drawn : ndarray of shape (n_tried, n_draws)
    """
    found = float(np.ptp(rates, axis=1).max())
    shape = (rates - rates.mean(axis=1, keepdims=True)) / max(found, 1e-12)
    middle = (shape.max(axis=1, keepdims=True) + shape.min(axis=1, keepdims=True)) / 2
    ends = np.where(shape >= middle, 0.5, -0.5)
    shapes = np.stack([shape, ends][: len(errors)])[..., None]
    widest = 4 * np.sqrt(2 * errors.var(axis=-1).max())
    tried = np.linspace(max(found - widest, 0.0), min(found + widest, 1.0), 25)
    drawn = [
        np.ptp(size * shapes + errors, axis=2).max(axis=1).ravel() for size in tried
    ]
    return found, tried, np.array(drawn)


def measure(
    table: np.ndarray,
    rates: list | None,
    noise_scale: float,
    told: tuple | None = None,
    rule: np.ndarray | None = None,
) -> Measured:
    """Measure a rule by noisy counts of rows by group, true class and region.

    Parameters
    ----------
    table : ndarray of shape (n_groups, n_classes, n_regions)
        Group, true class, and region that decides alike.
    rates : list of (int, int) or None
        Pairs (true class, chosen class) to compare; None: how often a class is chosen.
    noise_scale : float
    told : (ndarray, ndarray), default=None
        What the releases that steered the rule told about the same rows' rates, of
        shape (n_rates, n_groups), and the variances of their noise.
    rule : ndarray of shape (n_regions, n_classes), default=None
        Chances of the classes by region, made of these counts so that rates agree.
        None: regions are, class after class, those of one decision.
    """
    table = table.astype(np.float64)
    n_groups, n_classes, n_regions = table.shape
    steered = rule is not None
    if rule is None:
        rule = np.repeat(np.eye(n_classes), n_regions // n_classes, axis=0)
    estimates, sizes, sampling, noises = [], [], [], []
    for y, k in compared(rates, n_classes):
        rows = table if rates is None else table[:, y : y + 1]
        n_cells = rows.shape[1]
        total = rows.sum(axis=(1, 2))
        sure = np.maximum(total, 1.0)
        rate = np.clip(rows.sum(axis=1) @ rule[:, k] / sure, 0, 1)
        noise = min(noise_scale, 1e100) ** 2 * n_cells
        noise = noise * ((rule[:, k] - rate[:, None]) ** 2).sum(axis=1)
        # A rate of a few rows is not known to be zero or one.
        careful = np.clip(rate, 1 / (sure + 2), 1 - 1 / (sure + 2))
        sampling.append(careful * (1 - careful) / sure)
        noises.append(noise / sure**2)
        estimates.append(rate)
        sizes.append(sure)
    estimates, noises = np.array(estimates), np.array(noises)
    doubt = 0.0 if told is None else unexplained(estimates, noises, told)
    if told is not None:
        steered = doubt == 0
        others, variances = told[0], told[1] + doubt
        part = noises / np.maximum(noises + variances, 1e-300)
        estimates, noises = estimates + part * (others - estimates), part * variances
    total = max(table.sum(), 1.0)
    right = (table.sum(axis=0) * rule.T).sum()
    error = float(np.clip(1 - right / total, 0, 1))
    entries = n_groups * ((rule - (1 - error)) ** 2).sum()
    chance = max(error * (1 - error), 1 / total) / total
    noise = noise_scale**2 * entries / total**2
    half = -ndtri((1 - CONFIDENCE) / 2) * np.sqrt(chance + noise)
    doubts = sampling + noises
    return Measured(
        disparity=float(np.ptp(estimates, axis=1).max()),
        interval=disparity_interval(estimates, doubts, CONFIDENCE, steered=steered),
        error=error,
        error_interval=(max(error - half, 0.0), min(error + half, 1.0)),
        known=bool(are_known(table, rates, noise_scale).all()),
        told=None if doubt else (estimates, noises),
        sure=sure_difference(estimates, np.array(sizes), noises),
    )


def sure_difference(rates: np.ndarray, sizes: np.ndarray, noises: np.ndarray) -> float:
    """Confidence with which some two groups differ in some rate.

    Each difference is seen in units of the error that it has where both groups are
    alike: what few rows tell does not hide what many do. All of them are judged
    together (Z. Sidak, 1967).

    Parameters
    ----------
    rates, sizes, noises : ndarray of shape (n_rates, n_groups)
        Estimates, of how many rows, and the variances of their noise.
    """
    one, other = np.triu_indices(rates.shape[1], 1)
    size, size_of_other = sizes[:, one], sizes[:, other]
    both = size + size_of_other
    rate = (size * rates[:, one] + size_of_other * rates[:, other]) / both
    rate = np.clip(rate, 1 / (both + 2), 1 - 1 / (both + 2))
    chance = rate * (1 - rate) * (1 / size + 1 / size_of_other)
    errors = np.sqrt(chance + noises[:, one] + noises[:, other])
    largest = (np.abs(rates[:, one] - rates[:, other]) / errors).max(initial=0)
    return float((1 - 2 * ndtr(-largest)) ** errors.size)


def unexplained(estimates, noises, told) -> float:
    """Variance between decisions counted and those the steps told, beside noise.

    As of DerSimonian and Laird (1986), and zero where noise alone may say so. Soft
    decisions may be equal where the scores that many people share, or those next to
    zero and one, are not moved.
    """
    weights = 1 / np.maximum(noises + told[1], 1e-300)
    squares = (weights * (estimates - told[0]) ** 2).sum()
    if squares <= chi2.ppf(CONSISTENT, weights.size):
        return 0.0
    return float((squares - weights.size) / weights.sum())


def are_known(
    table: np.ndarray, rates: list | None, noise_scale: float, sure: float = DROWNED
) -> np.ndarray:
    """Whether each group is large enough, against its noise, to be compared.

    Parameters
    ----------
    table, rates, noise_scale
        As of `measure`.
    sure : float, default=DROWNED
        Standard deviations of its noise that the size of a group has to exceed.
    """
    if rates is None:
        totals = table.sum(axis=(1, 2))[:, None]
    else:
        totals = table.sum(axis=2)[:, [y for y, _ in rates]]
    n_added = table[0].size if rates is None else table.shape[2]
    return (totals > sure * noise_scale * np.sqrt(n_added)).all(axis=1)


def known_rates(tables, rates: list | None, noise_scale: float) -> list | None:
    """Those of true classes that each group has enough people of, by all tables.

    If there are none, all. Parameters are as of `measure`, for several tables.
    """
    if rates is None:
        return None
    about = {"noise_scale": noise_scale, "sure": PLAIN}

    def known(rate):
        return all(are_known(table, [rate], **about).all() for table in tables)

    return [rate for rate in rates if known(rate)] or rates


def compared(rates: list | None, n_classes: int) -> list[tuple[int, int]]:
    """Pairs of a condition and a chosen class whose rate `measure` compares."""
    if rates is not None:
        return rates
    return [(0, k) for k in range(n_classes)] if n_classes > 2 else [(0, 1)]


def told_by_steps(steps: parity.Steps, rates: list | None, smoothing: float) -> tuple:
    """What the steps told about the rule that they found: `told` of `measure`."""
    pairs = compared(rates, steps.rates.shape[-1])
    soft = (SOFT_ERROR * min(smoothing, 1.0)) ** 2
    return (
        np.array([steps.rates[y, :, k] for y, k in pairs]),
        np.array([steps.variances[y, :, k] + soft for y, k in pairs]),
    )


def asked_confidence(n_rows: float, strength: float) -> float:
    """How sure it has to be that groups differ, for a repair."""
    return LIKELY if n_rows > MANY and strength * LARGEST_STEP >= 1 else SURE


def stand_back(
    repaired: Measured,
    plain: Measured,
    constant_error: float,
    strength: float,
    confidence: float,
) -> str:
    """Which rule to use: "repaired", "none" or "constant"; noisy numbers only.

    There is something to repair where the counts of the plain rule contradict equality
    with the confidence that is asked for.
    """
    helps = repaired.disparity < plain.disparity and plain.sure > confidence
    if strength == 0 or not repaired.known or not helps:
        return "none"
    # A constant decision is fair as well.
    return "constant" if repaired.error > constant_error else "repaired"


@dataclass(frozen=True, eq=False)
class Reach:
    """How far a blind repair reaches: what parity costs, off counts that were paid for.

    Attributes
    ----------
    fairness_tolerances : ndarray of shape (n_points,)
        As asked for.
    violation, error : ndarray of shape (n_points,)
        Disparity and error of the weakest repair that meets the tolerance, or of the
        full one where none does.
    violation_interval, error_interval : ndarray of shape (n_points, 2)
        That hold the population's values with 95 % confidence.
    reached : ndarray of shape (n_points,), bool
        Whether the tolerance was met.
    strengths : ndarray of shape (n_points,)
        Of the repair that was measured: 0 is none, 1 the full one.
    error_name : str
        What `error` is.
    """

    fairness_tolerances: np.ndarray
    violation: np.ndarray
    error: np.ndarray
    violation_interval: np.ndarray
    error_interval: np.ndarray
    reached: np.ndarray
    strengths: np.ndarray

    error_name: str = "share of wrong decisions"

    @classmethod
    def of(
        cls, measured, tolerances, strengths, *, reached=None, scale=1.0, **names
    ) -> Reach:
        """Collect measurements, one per tolerance; errors in units of `scale`."""
        violation = np.array([one.disparity for one in measured])
        return cls(
            tolerances,
            violation,
            scale * np.array([one.error for one in measured]),
            np.array([one.interval for one in measured]),
            scale * np.array([one.error_interval for one in measured]),
            violation <= tolerances if reached is None else reached,
            np.array(strengths),
            **names,
        )

    def __str__(self) -> str:
        lines = []
        for i, tolerance in enumerate(self.fairness_tolerances):
            cost = self.error[i] - self.error.min()
            low, high = self.violation_interval[i]
            met = "is met" if self.reached[i] else "is NOT met"
            lines.append(
                f"A tolerance of {tolerance:.3g} {met}: groups differ by "
                f"{self.violation[i]:.3f} ({low:.3f} to {high:.3f}), the "
                f"{self.error_name} is {self.error[i]:.3g}, {cost:.3g} more than with "
                "the weakest repair here."
            )
        return "\n".join(lines)


def reach(measured: list[Measured], tolerances) -> Reach:
    """Choose for each tolerance the weakest of the measured rules that meets it.

    Of many rules the one that is chosen by its own counts looks better than it is: one
    weaker and one stronger rule judge, on average, all but the first and the last,
    unless its own interval rules the tolerance out.
    """
    tolerances = np.asarray(each(number(0, 1))("fairness_tolerances", tolerances))
    judged = np.array([one.disparity for one in measured])
    judged[1:-1] = (judged[:-2] + judged[2:]) / 2
    lowest = np.array([one.interval[0] for one in measured])
    meets = np.maximum(judged, lowest) <= tolerances[:, None] + ROUNDING
    chosen = np.where(meets.any(axis=1), meets.argmax(axis=1), len(measured) - 1)
    strengths = chosen / max(len(measured) - 1, 1)
    return Reach.of(
        [measured[i] for i in chosen], tolerances, strengths, reached=meets.any(axis=1)
    )
