"""Rules that treat groups alike, computed from noisy sums over groups of records.

A classifier's probabilities ``p`` become decisions in one of two ways. *Offsets* shift
them per group, ``argmax_k p_k - nu_{s,k}``; *randomised rules* draw the decision from
a table of probabilities, one row per group and region of the probability simplex.

Only `margin_bins`, `shifted_scores`, `softmax_parts` and `score_bins` look at records,
each row on its own; `_queries` adds up what they give. Everything else is
post-processing of noisy sums and of public numbers, and costs no privacy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from scipy import sparse
from scipy.optimize import brentq, linprog
from scipy.special import logit

from ._histogram import smooth_estimate

# A record's probabilities are cut down to multiples of this before they are added.
SUM_GRID = 2.0**-30
# Margins of two classes are rounded to this part of the smoothing.
MARGIN_RESOLUTION = 1 / 16
MAX_MARGIN_BINS = 2**16
# Log-odds from which on margins are not told apart: a classifier that is sure of itself
# has most of them next to -1 and 1. Chosen on simulated tables.
LARGEST_ODDS = 16.0
FARTHEST = 2 / (1 + 2 / LARGEST_ODDS)
# A group takes 1 / (1 + this * noise / size) of the full step.
NOISE_CAUTION = 4.0
# Steps are halved where one takes more of the last one back than this many squares of
# their noise, and than rates that differ by so much.
TURN, SMALL_TURN = 8.0, 0.1
# Mean gap that groups may be given which are alike, and how much more of it, as a part
# of the largest difference that is clear, where there is one.
HARMLESS, BESIDE = 0.01, 0.5
# What an error costs: its mean size and what is left out here, for each pair of groups.
# Chosen, as what follows, on simulated tables.
COST = 2.0
# This part of the releases is of decisions without offsets, which need no model.
HELD = 0.25
# A group of so few standard deviations of the noise in its size is drowned by it.
DROWNED = 5.0
# How fast rates fall as offsets rise: median and logarithmic deviation of what is
# expected, and what is tried. Next to all decisions are the same below this variance.
SLOPE, SPREAD, RARE = 1.0, 0.8, 0.1
SLOPES = np.geomspace(0.03, 100.0, 60)
# By true class a row's offset is that of its own class, of all together, or between.
MIXTURES = (0.0, 0.5, 1.0)
# Counts by region are believed to differ by these parts from those of even regions, of
# the region's people, and of a calibrated classifier. Chosen on simulated tables.
DRAWN = (3.0, 1.0, 0.3)
# By so many standard errors of a rate, from chance, noisy rates may differ more than is
# asked for. Chosen on simulated tables.
SLACK = 1.0
# Smaller ones are left out: HiGHS would drop some coefficients, and find no solution.
SMALLEST_MASS = 1e-7
# What the most probable class gains in a linear program: above the solver's tolerance.
PREFERENCE = 1e-6


# --- sums over groups of records ----------------------------------------------------


def margin_grid(smoothing: float) -> np.ndarray:
    """Public grid on which margins ``p_1 - p_0``, spread out, are counted."""
    finest = MARGIN_RESOLUTION * smoothing
    n_bins = int(min(np.ceil(2 * FARTHEST / finest), MAX_MARGIN_BINS))
    return ((np.arange(n_bins) + 0.5) * (2 / n_bins) - 1) * FARTHEST


def spread_out(margins: np.ndarray) -> np.ndarray:
    """Margins on a scale that tells those next to -1 and 1 apart.

    A mean of the margin and its log-odds: odd, increasing, next to zero the margin
    itself. At the ends it is `FARTHEST`. Element by element.
    """
    margins = np.clip(margins, -1.0, 1.0)
    odds = np.clip(logit((1 + margins) / 2) / LARGEST_ODDS, -1.0, 1.0)
    return (margins + odds) * (FARTHEST / 2)


def drawn_together(offsets: np.ndarray) -> np.ndarray:
    """Offsets of probabilities that decide like those of margins that are spread out.

    Parameters
    ----------
    offsets : ndarray of shape (n_groups, 2)
    """

    def margin(spread):
        if spread == 0 or abs(spread) >= FARTHEST:  # all of a group decided alike
            return spread
        odds = brentq(lambda z: spread_out(np.tanh(z / 2)) - spread, -80, 80)
        return np.tanh(odds / 2)

    margins = np.array([margin(spread) for spread in offsets[:, 1] - offsets[:, 0]])
    return np.column_stack([-margins / 2, margins / 2])


def margin_bins(scores: np.ndarray, smoothing: float) -> np.ndarray:
    """Place of each row's margin in `margin_grid`: the decision depends on it alone."""
    n_bins = len(margin_grid(smoothing))
    margins = spread_out(scores[:, 1] - scores[:, 0])
    bins = ((margins / FARTHEST + 1) * (n_bins / 2)).astype(np.int64)
    return np.clip(bins, 0, n_bins - 1)


def margin_parts(margins: np.ndarray, offsets: np.ndarray, smoothing: float):
    """Soft decisions of two classes at each margin of each group, in units of the grid.

    Parameters
    ----------
    margins : ndarray of shape (n_margins,)
    offsets : ndarray of shape (n_groups, 2)
    smoothing : float
        Temperature of the softmax.

    Returns
    -------
    parts : ndarray of shape (n_groups, n_margins, 2), int64
        What is not a number is decided for the first class.
    """
    thresholds = offsets[:, 1] - offsets[:, 0]
    z = (margins - thresholds[:, None]) / smoothing
    with np.errstate(over="ignore"):
        chosen = np.fmax(1 / (1 + np.exp(-z)), 0.0)
    ones = np.floor(chosen / SUM_GRID).astype(np.int64)
    return np.stack([round(1 / SUM_GRID) - ones, ones], axis=-1)


def shifted_scores(scores, groups, offsets) -> np.ndarray:
    r"""Subtract the offsets of a row's group, or of its mixture of groups.

    .. math:: p_k - \sum_s G_s \nu_{s,k}, \qquad
        p_k - \sum_y p_y \sum_s G_s \nu_{y,s,k} \text{ with several conditions,}

    element by element: a row's result does not depend on other rows.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
    groups : ndarray of shape (n_rows,), int64, or (n_rows, n_groups)
        Group codes, -1 for no offset, or the shares G.
    offsets : ndarray of shape (n_conditions, n_groups, n_classes)

    Returns
    -------
    shifted : ndarray of shape (n_classes, n_rows)
    """
    shifted = np.array(scores.T, order="C")
    if groups.ndim == 1:
        nothing = np.zeros((len(offsets), 1, offsets.shape[2]))
        offsets = np.concatenate([offsets, nothing], axis=1)
    else:
        groups = np.ascontiguousarray(groups.T)
    for condition, table in enumerate(offsets):
        for k, column in enumerate(table.T):
            if not column.any():
                continue
            if groups.ndim == 1:
                shift = column[groups]
            else:
                shift = np.zeros(len(scores))
                for share, offset in zip(groups, column, strict=True):
                    shift += share * offset
            if len(offsets) > 1:
                shift *= scores[:, condition]
            shifted[k] -= shift
    return shifted


def softmax_parts(shifted: np.ndarray, smoothing: float) -> np.ndarray:
    """Soft decisions ``softmax(shifted / smoothing)``, cut to the grid, in its units.

    Parameters
    ----------
    shifted : ndarray of shape (n_classes, n_rows)
    smoothing : float

    Returns
    -------
    parts : ndarray of shape (n_classes, n_rows)
        Integers; a row's sum is at most ``2**30``. What is not a number is 0: also
        offsets that overflowed leave a row no longer than that.
    """
    z = shifted / smoothing
    z -= z.max(axis=0)
    np.exp(z, out=z)
    z *= (1 / SUM_GRID) / z.sum(axis=0)
    np.fmax(z, 0.0, out=z)
    return np.floor(z, out=z)


# --- offsets by noisy gradient steps ------------------------------------------------


@dataclass(frozen=True, eq=False)
class Steps:
    """What noisy gradient steps have found; arrays begin with n_conditions, n_groups.

    Attributes
    ----------
    offsets : ndarray of shape (..., n_classes)
        Average of the iterates.
    told : ndarray of shape (n_conditions, n_groups), bool
        Where a group is told from the others, see `clear_differences`.
    rates, variances : ndarray of shape (..., n_classes)
        Rates with the offsets, as the steps themselves have told them, and the
        variances of their noise: those at an average are nearly the average of rates.
    people : ndarray of shape (n_groups,)
        Numbers of people, the mean of all releases.
    noise : float
        Standard deviation of the noise in one of them.
    """

    offsets: np.ndarray
    told: np.ndarray
    rates: np.ndarray
    variances: np.ndarray
    people: np.ndarray
    noise: float


def fit_offsets(
    noisy_sums: Callable[[np.ndarray], np.ndarray],
    *,
    steered: np.ndarray,
    n_groups: int,
    noise_scale: float,
    max_iter: int,
    learning_rate: float,
    tolerance: float,
    largest: float = 1.0,
    held: int = 1,
) -> Steps:
    r"""Find offsets under which each class is chosen equally often in every group.

    .. math::

        \min_\nu \sum_s \pi_s \, \mathbb{E}_s \max_k (p_k - \nu_{s,k})
        + \tfrac{\rho}{2} \sum_{s,k} \pi_s |\nu_{s,k}|
        \quad \text{subject to} \quad \sum_s \pi_s \nu_s = 0

    by proximal gradient steps. It is the dual of "choose the most probable class on
    average, such that no two groups differ by more than :math:`\rho` in how often a
    class is chosen". Where the groups must agree within each true class, the first
    axis of all arrays is the true class, and each has its own offsets.

    Parameters
    ----------
    noisy_sums : callable
        The release: takes offsets of shape (n_conditions, n_groups, n_classes),
        returns sums of soft decisions of the same shape, plus noise.
    steered : ndarray of shape (n_conditions, n_classes), bool
        Which rates the groups must share; the other offsets stay zero.
    n_groups : int
    noise_scale : float
        Standard deviation of the noise in one entry.
    max_iter : int
        Number of releases.
    learning_rate : float
        Step size :math:`\eta`; step t of those that move has size
        :math:`\eta / \sqrt t`.
    tolerance : float
        :math:`\rho`, in [0, 1].
    largest : float, default=1.0
        Largest absolute offset.
    held : int, default=1
        Number of releases without offsets; the first step follows their mean.

    Returns
    -------
    found : Steps
    """
    n_conditions, n_classes = steered.shape
    offsets = np.zeros((n_conditions, n_groups, n_classes))
    last, parts = np.zeros_like(offsets), np.ones((n_conditions, n_groups))
    asked, told, reached, weights = [], [], [], []
    total = np.zeros((n_conditions, n_groups))
    for t in range(1, max_iter + 1):
        asked.append(offsets)
        told.append(noisy_sums(offsets))
        total += told[-1].sum(axis=2)
        if t < held:
            continue
        # The floor is twice the noise of the mean: an empty group stays harmless.
        floor = 1 + 2 * noise_scale * np.sqrt(n_classes / t)
        sizes = np.maximum(total / t, floor)
        # Centring first: the noise of a row's sum would only disturb the rates.
        latest = np.mean(told, axis=0) if t == held else told[-1]
        deviations = latest - latest.mean(axis=2, keepdims=True)
        rates = np.clip(1 / n_classes + deviations / sizes[:, :, None], 0, 1)
        # A group whose rates are mostly noise takes smaller steps.
        noise = noise_scale / sizes / np.sqrt(held if t == held else 1)
        steps = learning_rate / np.sqrt(t + 1 - held) / (1 + NOISE_CAUTION * noise)
        steps *= parts
        moved = offsets + steps[:, :, None] * rates
        shrunk = map(centred_shrinkage, moved, sizes, steps, repeat(tolerance / 2))
        offsets = np.clip(list(shrunk), -largest, largest) * steered[:, None, :]
        reached.append(offsets)
        # Later iterates weigh more: 18 % less noise than the mean of the second half.
        weights.append((t + 1 - held) / parts**2)
        move = (offsets - asked[-1]) / steps[:, :, None]
        turned = turns(move, last, noise_scale / sizes)
        parts = np.where(turned, parts / 2, parts)
        # The next step comes from as far as the last one went, and is not judged.
        last = np.where(turned[:, :, None], 0.0, move)
    told, weights = np.array(told), np.array(weights)[..., None]
    clear = clear_differences(told, np.array(asked), sizes, steered, noise_scale)
    weights /= weights.sum(axis=0)
    # A size of one row is nobody's.
    sizes = np.maximum(told.sum(axis=3).mean(axis=0), 1.0)[:, :, None]
    deviations = (told - told.mean(axis=3, keepdims=True))[held - 1 :]
    rates = 1 / n_classes + (weights * deviations).sum(axis=0) / sizes
    variances = (weights**2).sum(axis=0) * (1 - 1 / n_classes) * noise_scale**2
    return Steps(
        (weights * reached).sum(axis=0),
        clear,
        np.clip(rates, 0, 1),
        np.broadcast_to(variances / sizes**2, rates.shape),
        total.sum(axis=0) / max_iter,
        float(noise_scale * np.sqrt(n_conditions * n_classes / max_iter)),
    )


def n_held(max_iter: int, noise_scale: float) -> int:
    """Number of releases without offsets; without noise nothing is in doubt."""
    return max(round(HELD * max_iter), 1) if noise_scale > 0 else 1


def turns(move, last, noise) -> np.ndarray:
    """Where a step takes the last one back, by more than noise would.

    Where many scores are nearly alike a step goes past all of them: smaller ones are
    needed.

    Parameters
    ----------
    move, last : ndarray of shape (n_conditions, n_groups, n_classes)
        Steps, in rates.
    noise : ndarray of shape (n_conditions, n_groups)
        Deviation of a rate.

    Returns
    -------
    turned : ndarray of shape (n_conditions, n_groups), bool
    """
    return (move * last).sum(axis=2) < -(TURN * noise**2 + SMALL_TURN**2)


def clear_differences(sums, offsets, sizes, steered, noise_scale) -> np.ndarray:
    """Tell which groups differ from the others without offsets, by more than chance.

    A repair leaves a gap of the error with which it knows the rates. Groups that are
    alike seem to differ by z errors e with probability exp(-z^2 / 2) or less: z is such
    that this times e, for all pairs of groups, is `HARMLESS`. Where some group differs
    clearly, its gap is removed, and others may add a part of that.

    Parameters
    ----------
    sums, offsets : ndarray of shape (max_iter, n_conditions, n_groups, n_classes)
        What the steps have released, and at which offsets.
    sizes : ndarray of shape (n_conditions, n_groups)
    steered : ndarray of shape (n_conditions, n_classes), bool
    noise_scale : float

    Returns
    -------
    told : ndarray of shape (n_conditions, n_groups), bool
        A group is told in all true classes if it is in one, but where noise drowns it.
    """
    if noise_scale == 0:
        return np.ones(sizes.shape, dtype=bool)
    max_iter, n_classes = len(sums), sums.shape[-1]
    drowned = sizes < DROWNED * noise_scale * np.sqrt(n_classes / max_iter)
    seen = np.where(drowned, 0.0, sizes)
    shares = (seen / np.maximum(seen.sum(axis=1, keepdims=True), 1.0))[:, :, None]
    deviations = sums - sums.mean(axis=3, keepdims=True)
    rates = deviations / sizes[:, :, None]
    # As in a softmax, offsets move what is chosen by how often it is chosen: where a
    # class is not, or all are shifted alike, nothing follows from how they wander.
    chosen = (shares * rates.mean(axis=0)).sum(axis=1) + 1 / n_classes
    chosen = np.clip(chosen, 0, 1)[:, None]
    moves = chosen * (offsets - (chosen * offsets).sum(axis=3, keepdims=True))
    # One part of an offset in rates that are all the same, whatever their number.
    n_chosen = np.maximum((chosen > RARE / 2).sum(axis=2, keepdims=True), 2)
    most = (chosen * (1 - chosen)).max(axis=2, keepdims=True)
    moves /= np.maximum(most * n_chosen / (n_chosen - 1), RARE)
    noise = (noise_scale / sizes) ** 2 * (1 - 1 / n_classes)
    of_classes = sizes.sum(axis=1) / sizes.sum()
    rates, variances = rates_without_offsets(rates, moves, noise, ~drowned, of_classes)
    variances = variances + chosen * (1 - chosen) / sizes[:, :, None]
    of_mean = (shares**2 * variances).sum(axis=1, keepdims=True)
    variances = of_mean + (1 - 2 * shares) * variances
    # Seen from the others, of which the mean of all is a part.
    others = np.maximum(1 - shares, 1e-9)
    errors = np.sqrt(np.maximum(variances, 0.0)) / others
    apart = np.abs(rates - (shares * rates).sum(axis=1, keepdims=True)) / others
    compared = ~drowned[:, :, None] & steered[:, None]
    n_groups = sizes.shape[1]
    # A group that is listed with others, of which none is seen, is not told from them.
    compared &= (shares < 1) | (n_groups == 1)
    n_pairs = max(n_groups * (n_groups - 1) / 2, 1) * steered.any(axis=1).sum()
    # A group is steered in all rates or in none: the worst known one does the harm.
    worst = np.where(compared, errors, 0.0).max(axis=(0, 2), keepdims=True)
    cost = COST * n_pairs * (n_classes - 1) * worst

    def clear(harmless):
        doubt = 2 * np.log(np.maximum(cost / harmless, 1.0))
        return compared & (apart >= np.sqrt(doubt) * errors)

    surely = np.where(clear(HARMLESS), np.maximum(apart - errors, 0.0), 0.0).max()
    told = clear(HARMLESS + BESIDE * surely).any(axis=(0, 2))
    return told & ~drowned


def rates_without_offsets(rates, moves, noise, seen, of_classes):
    """Estimate rates without offsets from those along the path, and the variances.

    Offsets follow from earlier noise only: were it known how fast rates fall as they
    rise, rates and what was taken from them would be the rates without offsets and
    fresh noise. How fast, for each class, is averaged over by its posterior. Where
    nothing of that kind fits, the first release is believed alone.

    Parameters
    ----------
    rates, moves : ndarray of shape (max_iter, n_conditions, n_groups, n_classes)
    noise : ndarray of shape (n_conditions, n_groups)
        Variance of a rate.
    seen : ndarray of shape (n_conditions, n_groups), bool
    of_classes : ndarray of shape (n_conditions,)
        Shares of the true classes.

    Returns
    -------
    estimates, variances : ndarray of shape (n_conditions, n_groups, n_classes)
    """
    together = np.einsum("c,tcsk->tsk", of_classes, moves)[:, None]
    noise = noise[:, :, None]
    means, misfits, doubts = [], [], []
    for mixture in MIXTURES if len(of_classes) > 1 else MIXTURES[:1]:
        mixed = moves + mixture * (together - moves)
        for slope in SLOPES:
            unmoved = rates + slope * mixed
            means.append(unmoved.mean(axis=0))
            squares = ((unmoved - means[-1]) ** 2).sum(axis=0) / noise
            misfits.append((squares * seen[:, :, None]).sum(axis=1))
            doubts.append((np.log(slope / SLOPE) / SPREAD) ** 2)
    means, misfits = np.array(means), np.array(misfits)
    free = (len(rates) - 1) * np.maximum(seen.sum(axis=1), 1)[:, None]
    scale = np.maximum(misfits.min(axis=0) / np.maximum(free, 1), 1.0)
    weights = misfits / scale + np.array(doubts)[:, None, None]
    weights = np.exp(-(weights - weights.min(axis=0)) / 2)
    weights = (weights / weights.sum(axis=0))[:, :, None]
    estimates = (weights * means).sum(axis=0)
    variances = (weights * (means - estimates) ** 2).sum(axis=0)
    variances += scale[:, None] * noise / len(rates)
    first = variances > noise
    return np.where(first, rates[0], estimates), np.where(first, noise, variances)


def centred_shrinkage(
    z: np.ndarray, weights: np.ndarray, steps: np.ndarray, penalty
) -> np.ndarray:
    r"""Shrink each column of `z` such that its weighted mean becomes zero.

    The proximal step, for each column,

    .. math::

        \min_\nu \sum_s w_s \left(\frac{(\nu_s - z_s)^2}{2 h_s} + a |\nu_s|\right)
        \quad \text{subject to} \quad \sum_s w_s \nu_s = 0,

    whose solution shrinks :math:`z_s - h_s c` by :math:`h_s a` towards zero, for the
    number :math:`c` that meets the constraint, found exactly.

    Parameters
    ----------
    z : ndarray of shape (n_groups, n_columns)
    weights : ndarray of shape (n_groups,)
        :math:`w`, positive.
    steps : ndarray of shape (n_groups,)
        :math:`h`, positive.
    penalty : float or ndarray of shape (n_groups,)
        :math:`a`, non-negative.

    Returns
    -------
    nu : ndarray of shape (n_groups, n_columns)
    """
    steps = steps[:, None]
    penalty = np.broadcast_to(penalty, len(z))[:, None]
    if not penalty.any():
        return z - steps * (weights @ z) / (weights @ steps)

    def shrink(centre):
        moved = z - steps * centre
        return moved - np.clip(moved, -steps * penalty, steps * penalty)

    # The weighted mean falls piecewise linearly in c, from positive to negative.
    kinks = np.sort(np.concatenate([z / steps - penalty, z / steps + penalty]), axis=0)
    columns, high = np.arange(z.shape[1]), np.full(z.shape[1], len(kinks) - 1)
    low = np.zeros_like(high)
    while (high - low > 1).any():
        middle = (low + high) // 2
        positive = weights @ shrink(kinks[middle, columns]) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    ends = [kinks[place, columns] for place in (low, high)]
    means = [weights @ shrink(end) for end in ends]
    centres = map(falling_root, np.transpose(ends), np.transpose(means))
    return shrink(np.array(list(centres)))


def falling_root(x: np.ndarray, values: np.ndarray) -> float:
    """Return where a non-increasing piecewise linear function crosses zero.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        Increasing, at least two points.
    values : ndarray of shape (n_points,)
        The function at `x`; beyond the ends the root is the end.

    Returns
    -------
    root : float
    """
    right = int(np.clip((values > 0).sum(), 1, len(x) - 1))
    left = right - 1
    fall = values[left] - values[right]
    part = values[left] / fall if fall > 0 else 0.0
    return float(x[left] + np.clip(part, 0, 1) * (x[right] - x[left]))


# --- thresholds from histograms, two classes ----------------------------------------


def parity_thresholds(
    pmfs: np.ndarray, weights: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Find the best thresholds whose acceptance rates differ by at most `tolerance`.

    With scores :math:`p = P(y = 1 | x)` spread evenly within bins of [0, 1],

    .. math::

        \max_\tau \sum_s w_s \mathbb{E}_s[p \,1(p > \tau_s) + (1 - p)\,1(p \le \tau_s)]
        \quad \text{subject to} \quad \max_{s,r} |a_s(\tau_s) - a_r(\tau_r)| \le \rho,

    :math:`a_s(\tau) = P_s(p > \tau)`. The best rates are the unconstrained ones
    clipped to an interval of length :math:`\rho`, whose place is found exactly.

    Parameters
    ----------
    pmfs : ndarray of shape (n_groups, n_bins)
        Mass of the score in equal bins of [0, 1]; rows sum to 1.
    weights : ndarray of shape (n_groups,)
    tolerance : float

    Returns
    -------
    thresholds, rates : ndarray of shape (n_groups,)
        Thresholds of the score, and the acceptance rates :math:`a_s` they give.
    """
    n_groups, n_bins = pmfs.shape
    # A trace of mass everywhere makes the distribution functions invertible.
    pmfs = (pmfs + 1e-9 / n_bins) / (1 + 1e-9)
    edges = np.linspace(0, 1, n_bins + 1)
    falling = 1 - np.concatenate([np.zeros((n_groups, 1)), pmfs.cumsum(axis=1)], axis=1)
    best = np.array([np.interp(0.5, edges, rates) for rates in falling])
    half = tolerance / 2

    def rates_at(centres):
        return np.clip(best, centres[:, None] - half, centres[:, None] + half)

    def thresholds_of(rates):
        pairs = zip(rates.T, falling, strict=True)
        return np.stack([np.interp(-own, -tail, edges) for own, tail in pairs], axis=1)

    # Moving the interval up accepts rows at the thresholds of the groups at its ends:
    # the gain per step falls piecewise linearly between these centres.
    centres = np.unique(np.concatenate([falling - half, falling + half], axis=None))
    gains = (2 * thresholds_of(rates_at(centres)) - 1) @ weights
    # With a wide interval the gain is zero on a stretch: take its middle.
    ends = [falling_root(centres, gains + shift) for shift in (-1e-12, 1e-12)]
    rates = rates_at(np.array([np.mean(ends)]))
    return thresholds_of(rates)[0], rates[0]


def mass_at(thresholds: np.ndarray, pmfs: np.ndarray) -> np.ndarray:
    """Part of each group in the bin within which its threshold lies; 0 at an edge.

    Parameters
    ----------
    thresholds : ndarray of shape (n_groups,)
    pmfs : ndarray of shape (n_groups, n_bins)
    """
    n_groups, n_bins = pmfs.shape
    places = thresholds * n_bins
    inside = np.abs(places - np.round(places)) > 1e-6
    bins = np.clip(places.astype(np.int64), 0, n_bins - 1)
    return np.where(inside, pmfs[np.arange(n_groups), bins], 0.0)


# --- regions of the simplex and randomised rules ------------------------------------


def n_score_bins(n_classes: int, n_bins: int) -> int:
    """Return how many regions `score_bins` uses, about `n_bins`."""
    if n_classes == 2:
        return n_bins
    pairs = n_classes * (n_classes - 1)
    return pairs * max(1, n_bins // pairs)


def score_bins(scores: np.ndarray, n_bins: int) -> np.ndarray:
    """Return the region of the probability simplex in which each row lies.

    Two classes: equal bins of the second probability. More: the most probable class,
    the runner-up, and equal bins of the margin between the two.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
    n_bins : int

    Returns
    -------
    bins : ndarray of shape (n_rows,), int64
        From 0 to ``n_score_bins(n_classes, n_bins) - 1``.
    """
    n_rows, n_classes = scores.shape
    if n_classes == 2:
        position, n_levels, first = scores[:, 1], n_bins, 0
    else:
        rows = np.arange(n_rows)
        top = scores.argmax(axis=1)
        others = scores.copy()
        others[rows, top] = -np.inf
        second = others.argmax(axis=1)
        position = scores[rows, top] - scores[rows, second]
        pairs = n_classes * (n_classes - 1)
        n_levels = n_score_bins(n_classes, n_bins) // pairs
        first = (top * (n_classes - 1) + second - (second > top)) * n_levels
    level = np.floor(position * n_levels).astype(np.int64)
    return first + np.clip(level, 0, n_levels - 1)


def bin_classes(n_classes: int, n_bins: int) -> np.ndarray:
    """Return the most probable class in each region of `score_bins`."""
    n_regions = n_score_bins(n_classes, n_bins)
    if n_classes == 2:
        return (np.arange(n_regions) + 0.5 > n_regions / 2).astype(np.int64)
    return np.arange(n_regions) // (n_regions // n_classes)


def estimate_cells(
    counts: np.ndarray,
    *,
    noise_variance: float,
    ordered: bool,
    pooled: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the distribution over regions in each cell from noisy counts.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_groups, n_bins)
        Noisy counts by true class, group and region.
    noise_variance : float
        Variance of the noise in one count.
    ordered : bool
        Whether the regions lie on a line (two classes). Then a group's distribution is
        a smooth share of its class's (see `_histogram`), otherwise it is drawn towards
        what a calibrated classifier would make of it.
    pooled : ndarray of shape (n_classes, n_groups), bool, default=None
        Cells that are given the distribution of all groups in the same class.

    Returns
    -------
    masses : ndarray of shape (n_groups, n_classes, n_bins)
        Non-negative, the last axis sums to 1.
    weights : ndarray of shape (n_groups, n_classes)
        Share of each cell, non-negative, summing to 1.
    """
    if pooled is None:
        pooled = np.zeros(counts.shape[:2], dtype=bool)
    counts = counts.astype(np.float64)
    masses, totals = _calibrated_estimate(counts, noise_variance)
    for y, (of_class, alike) in enumerate(zip(counts, pooled, strict=True)):
        if ordered:
            masses[y], within = smooth_estimate(
                of_class,
                n=None,
                noise_variance=noise_variance,
                pooled=alike,
                # With noise that is for `pooled` to say.
                doubted=noise_variance == 0,
            )
            totals[y] = max(of_class.sum(), 1.0) * within
        else:
            masses[y, alike] = totals[y] / totals[y].sum() @ masses[y]
    return masses.swapaxes(0, 1), totals.T / totals.sum()


def _calibrated_estimate(counts, noise_variance):
    """Distributions of the regions by class and group, and their totals.

    Where a classifier is calibrated in every group, the group tells nothing of the
    class that the region does not tell. Counts of few rows are drawn towards that.
    """
    n_classes, n_groups, n_bins = counts.shape
    totals = np.maximum(counts.sum(axis=2), 1.0)
    n_rows = totals.sum()

    def drawn(expected, axis, factor):
        of_all = counts.sum(axis=axis)
        noise = noise_variance * counts.size / of_all.size
        spread = (factor * expected) ** 2
        moved = spread / (spread + noise + expected) * (of_all - expected)
        return np.maximum(expected + moved, 1e-3 * expected)

    everybody = drawn(np.full(n_bins, n_rows / n_bins), (0, 1), DRAWN[0])
    by_class = np.outer(totals.sum(axis=1) / n_rows, everybody)
    by_group = np.outer(totals.sum(axis=0) / n_rows, everybody)
    by_class, by_group = drawn(by_class, 1, DRAWN[0]), drawn(by_group, 0, DRAWN[1])
    expected = (by_class / by_class.sum(axis=0))[:, None] * by_group
    expected *= (totals / expected.sum(axis=2))[:, :, None]
    exact = (noise_variance == 0) & (counts.sum(axis=2, keepdims=True) > 0)
    masses = np.where(exact, counts, drawn(expected, (), DRAWN[2]))
    masses /= masses.sum(axis=2, keepdims=True)
    masses[masses < SMALLEST_MASS] = 0.0
    return masses / masses.sum(axis=2, keepdims=True), totals


def constrained_rates(constraint: str, n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (true class, chosen class) whose rate the groups must share."""
    if constraint == "equalized_odds":
        # The rates of one true class sum to one: two classes have one free rate.
        chosen = range(n_classes) if n_classes > 2 else [1]
        return [(y, k) for y in range(n_classes) for k in chosen]
    # Equal opportunity: the share of a class that is recognised; of two classes, the
    # second is the favourable one.
    return [(1, 1)] if n_classes == 2 else [(y, y) for y in range(n_classes)]


def told_tolerance(
    counts: np.ndarray, noise_variance: float, tolerance: float
) -> np.ndarray | float:
    r"""Raise the tolerance to what counts of few rows can tell of a rate.

    Two rates whose difference is known with error :math:`e`, and which are made equal,
    differ by :math:`.8 e` in the mean, and by a quarter more if :math:`.7 e`, the error
    of one of them, is allowed. Where little is allowed, accuracy rises fastest. Without
    noise nothing is added: the rows get what is asked for, exactly.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_groups, n_bins)
        Noisy counts by true class, group and region.
    noise_variance : float
    tolerance : float
        That is asked for.

    Returns
    -------
    tolerance : float or ndarray of shape (n_classes,)
        By true class: a mean over people, so that a few do not open it for all.
    """
    if noise_variance == 0:
        return tolerance
    sizes = np.maximum(counts.sum(axis=2), 1.0)
    # A rate of one half, where chance is largest.
    errors = np.sqrt(sizes) / 2
    return tolerance + SLACK * errors.sum(axis=1) / sizes.sum(axis=1)


def randomised_rule(
    masses: np.ndarray,
    weights: np.ndarray,
    rates: list[tuple[int, int]],
    tolerance: float | np.ndarray,
    defaults: np.ndarray,
) -> np.ndarray:
    r"""Find the most accurate randomised rule under constraints on group rates.

    .. math::

        \max_x \sum_{s,y,b} w_{s,y} m_{s,y,b} x_{s,b,y} \quad \text{subject to} \quad
        \Big|\sum_b m_{s,y,b} x_{s,b,k} - c_{y,k}\Big| \le \rho / 2

    for the listed pairs :math:`(y, k)`, with free centres :math:`c`: a linear
    program. For two classes the probability of the second one may only rise with the
    score; the rule then mixes thresholds, and the best point that the groups' ROC
    curves have in common is found exactly (Hardt, Price, Srebro 2016).

    Parameters
    ----------
    masses : ndarray of shape (n_groups, n_classes, n_bins)
        Share of each region among the rows of a group and true class.
    weights : ndarray of shape (n_groups, n_classes)
        Share of each group and true class.
    rates : list of (int, int)
        Pairs (true class, chosen class), see `constrained_rates`.
    tolerance : float or ndarray of shape (n_classes,)
        For all true classes, or for each.
    defaults : ndarray of shape (n_bins,), int64
        Class to prefer, by a hair, where a region has no mass.

    Returns
    -------
    rule : ndarray of shape (n_groups, n_bins, n_classes)
        ``rule[s, b, k]`` is the probability to choose class `k`; sums to 1 over `k`.
    """
    gain = np.einsum("sy,syb->sby", weights, masses)
    gain[:, np.arange(masses.shape[2]), defaults] += PREFERENCE
    return most_gain(masses, gain, rates, tolerance)


def most_gain(masses, gain, rates, tolerance) -> np.ndarray:
    """The rule of `randomised_rule` with the largest gain.

    Parameters
    ----------
    masses : ndarray of shape (n_groups, n_conditions, n_bins)
    gain : ndarray of shape (n_groups, n_bins, n_classes) or (1, n_bins, n_classes)
        Of each decision, for all people of a group and region together; or for all
        people of a region, if one rule is to serve all groups.
    rates : list of (int, int)
        Pairs (condition, chosen class).
    tolerance : float or ndarray of shape (n_conditions,)

    Returns
    -------
    rule : ndarray of shape (n_groups, n_bins, n_classes) or (1, n_bins, n_classes)
    """
    n_rules, n_bins, n_classes = shape = gain.shape
    upper, limits = _rate_rows(masses, shape, rates, tolerance)
    if n_classes == 2 and n_rules > 1:
        monotone = _monotone_rows(shape, len(rates))
        upper = sparse.vstack([upper, monotone])
        limits = np.concatenate([limits, np.zeros(monotone.shape[0])])
    ones = sparse.kron(sparse.eye_array(n_rules * n_bins), np.ones((1, n_classes)))
    ones = sparse.hstack([ones, sparse.csr_array((ones.shape[0], len(rates)))])
    solution = linprog(
        np.concatenate([-gain.ravel(), np.zeros(len(rates))]),
        A_ub=sparse.csr_array(upper),
        b_ub=limits,
        A_eq=sparse.csr_array(ones),
        b_eq=np.ones(ones.shape[0]),
        bounds=(0, 1),
        method="highs",
    )
    rule = np.maximum(solution.x[: gain.size].reshape(shape), 0)
    return rule / rule.sum(axis=2, keepdims=True)


def _rate_rows(masses, shape, rates, tolerance):
    """Rows of ``|rate of (s, y, k) - centre| <= tolerance / 2``, two per rate."""
    n_groups, n_conditions, _ = masses.shape
    chosen = np.eye(shape[2])
    by_group = [[np.kron(own[y], chosen[k]) for y, k in rates] for own in masses]
    together = sparse.vstack if shape[0] == 1 else sparse.block_diag
    centres = sparse.vstack([sparse.eye_array(len(rates))] * n_groups)
    apart = sparse.hstack([together(list(map(sparse.csr_array, by_group))), -centres])
    rows = sparse.kron(apart, [[1.0], [-1.0]])
    allowed = np.broadcast_to(tolerance, n_conditions)[[y for y, _ in rates]] / 2
    return rows, np.tile(np.repeat(allowed, 2), n_groups)


def _monotone_rows(shape, n_centres):
    """Rows of ``x[s, b, 1] <= x[s, b + 1, 1]`` for two classes."""
    n_groups, n_bins, n_classes = shape
    steps = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(n_bins - 1, n_bins))
    rows = sparse.kron(
        sparse.eye_array(n_groups), sparse.kron(steps, np.array([[0.0, 1.0]]))
    )
    return sparse.hstack([rows, sparse.csr_array((rows.shape[0], n_centres))])
