"""What noisy counts tell: which groups differ, where scores are, whether they repeat.

Post-processing of released counts and of public numbers; it costs no privacy.
"""

import numpy as np

from ._histogram import odds_of_differences

# --- scores that repeat -------------------------------------------------------------

# Distinct scores in a bin from which an increasing map may take them for a continuum,
# and by how much of all people a bin may stand out from those beside it. Chosen on
# simulated scores.
PER_BIN = 6
SPIKE = 0.03
# Part of a group in bins that stand out from those beside them from which a continuous
# repair says that it may leave a gap. Chosen on simulated scores: up to there .03 to
# .14 is left, and above .06 to .7.
PEAKED = 0.5


def is_continuous(distinct: float, n: float, noise_scale: float) -> bool:
    """Tell from a noisy number of distinct scores whether twins are rare.

    Nine in ten scores must be distinct, less three times the noise, but never less
    than half: a score without atoms passes and a rounded one does not, as soon as the
    noise is small against `n`.
    """
    return bool(distinct >= max(0.5 * n, 0.9 * n - 3 * noise_scale))


def has_small_atoms(
    distinct: float, noise_scale: float, counts: np.ndarray, noise_variance: float
) -> bool:
    """Tell whether scores that repeat lie so close that bins need not be split.

    There are many distinct scores in a bin, surely, and no bin stands out from the two
    beside it, by more than chance and noise make.

    Parameters
    ----------
    distinct : float
        Noisy number of distinct scores.
    noise_scale : float
        Its noise.
    counts : ndarray of shape (n_bins,)
        Noisy counts of all people.
    noise_variance : float
        Of one of them.
    """
    if distinct - 3 * noise_scale < PER_BIN * len(counts):
        return False
    beside = np.convolve(np.pad(counts, 1), [0.5, 0.0, 0.5], mode="valid")
    chance = 1.5 * (noise_variance + np.maximum(counts, 0.0))
    spikes = counts - beside - 2 * np.sqrt(chance)
    return bool(spikes.max() <= SPIKE * counts.sum())


def are_peaked(masses: np.ndarray, sizes: np.ndarray) -> bool:
    """Tell whether `PEAKED` of a group are in bins that stand out from those beside.

    By more than chance makes. An increasing map takes scores to be even within bins,
    and there they surely are not.

    Parameters
    ----------
    masses : ndarray of shape (n_groups, n_bins)
        Estimated distributions of the groups.
    sizes : ndarray of shape (n_groups,)
        Noisy numbers of people.
    """
    padded = np.pad(masses, ((0, 0), (1, 1)))
    beside = (padded[:, :-2] + padded[:, 2:]) / 2
    chance = 1.5 * masses / np.maximum(sizes, 1.0)[:, None]
    above = np.maximum(masses - beside - 2 * np.sqrt(chance), 0.0)
    return bool(above.sum(axis=1).max() > PEAKED)


def default_tolerance(counts: np.ndarray, *, noise_variance: float) -> float:
    r"""Return the fairness tolerance below which differences are mostly noise.

    .. math:: \alpha = \tfrac12\sqrt{\tfrac1m + \tfrac{k\,s^2}{16\,m^2}}

    for ``m`` the noisy size of the smallest group. ``m`` is taken to be at least one
    and at least two standard deviations of its own noise, so that a group that may
    well be empty does not switch the repair of the others off.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_bins)
        Noisy counts.
    noise_variance : float
        Variance ``s^2`` of the noise in one count.

    Returns
    -------
    tolerance : float
        In [0, 1].
    """
    counts = np.asarray(counts, dtype=np.float64)
    total_noise = counts.shape[1] * noise_variance
    smallest = max(counts.sum(axis=1).min(), 2 * np.sqrt(total_noise), 1.0)
    # At most .504, as the two are.
    return float(0.5 * np.sqrt(1 / smallest + total_noise / (16 * smallest**2)))


# --- groups that are not told from the rest -----------------------------------------

# Mean gap that a group may be given which differs from nobody, were the noise normal.
# Chosen, as what follows, on simulated tables.
HARM = 0.01
# What an error costs where cells are repaired, or numbers without the group: one that
# is taken for a difference is larger than most.
COST = 4.0
# What a repair may leave of a gap, in standard errors of a difference: on simulated
# tables whose groups differ in the spread of their scores.
LEFT = 0.5
# Standard deviations of its noise that a group's size has to exceed.
DROWNED = 2.0
# In tables of more rows only groups that drown are pooled: the published gains at
# epsilon .1 (Law School) are made where no group can be told for sure.
LARGE = 3000
# Groups that are not told to differ may do so by this much without a word.
MAY_REMAIN = 0.1
# A group that surely has less than this part of all people is left out of a blind
# repair if it drowns: its parity would cost all others theirs. Chosen on simulated
# tables of numbers, after a look at `stand_back.py`: left out, groups of 2 to 5 % were
# driven away from the others by more than before.
FEW = 0.02


def next_to_nobody(sizes: np.ndarray, noise: float) -> np.ndarray:
    """Tell which groups surely have few of the people; never the two largest.

    Parameters
    ----------
    sizes : ndarray of shape (n_groups,)
        Noisy.
    noise : float
        Standard deviation of the noise in one of them.
    """
    few = sizes + DROWNED * noise < FEW * sizes.sum()
    return few & (sizes < np.sort(sizes)[-2:].min())


def untold_groups(counts: np.ndarray, noise_variance: float) -> np.ndarray:
    """Tell which groups differ from all others by less than chance and noise make.

    A repair by a distribution function with the standard error e leaves a gap of about
    e. By Kolmogorov's theorem a group that does not differ is told from the others with
    probability 2 exp(-z^2 / 2) at z standard errors; z is such that this times e is
    small. All of it is read off noisy counts in small tables only.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_bins)
        Noisy counts.
    noise_variance : float
        Without noise nothing is doubted.

    Returns
    -------
    untold : ndarray of shape (n_groups,), bool
    """
    gap, error, drowned = _differences(counts, noise_variance)
    if noise_variance == 0 or np.sum(counts) > LARGE:
        return drowned
    return drowned | (gap < _clear_gap(error, len(counts), HARM))


def untold_numbers(
    counts: np.ndarray, noise_variance: float, n: float | None = None
) -> np.ndarray:
    """Tell which groups do not differ; all, where none may.

    What noise makes of a small group, or of one among several, would drive groups apart
    that are alike. So they are doubted together, by the odds that shares vary: without
    a difference these are b or more in at most one table of b. That also holds, were
    counts normal with variances in proportion to the groups, of the product of all,
    each to the power of the part of people in other groups (F. Barthe, "On a reverse
    form of the Brascamp-Lieb inequality", Inventiones Mathematicae 134, 1998).
    It has to be, times `HARM`, the gap that a repair then leaves, about two errors; in
    large tables the gap of one group, times its odds, has to be worth the largest error
    for each of the groups.

    Where groups are told all are repaired, each drawn towards the others by its own
    odds (`smooth_estimate`). Those are named here that are not moved by that and may
    differ by much; in large tables those that drown.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_bins)
        Noisy counts.
    noise_variance : float
        Without noise nothing is doubted.
    n : float, default=None
        Number of rows if it is public.

    Returns
    -------
    untold : ndarray of shape (n_groups,), bool
    """
    _, error, drowned = _differences(counts, noise_variance)
    if noise_variance == 0:
        return drowned
    if (np.sum(counts) if n is None else n) > LARGE:
        return drowned | (not _worth_the_harm(counts, noise_variance, n, ~drowned))
    odds = odds_of_differences(counts, n, noise_variance)
    people = np.maximum(np.sum(counts, axis=-1), 0.0)
    others = 1 - people / max(people.sum(), 1.0)
    told = others @ np.log(odds) >= np.log(2 * min(error.max(), 1.0) / HARM)
    may = largest_gaps(counts, noise_variance) > MAY_REMAIN
    return ~told | (may & (odds <= 1.0))


def is_none_told(counts: np.ndarray, noise_variance: float) -> bool:
    """Whether no group is told to differ, in tables of any size: blind numbers.

    As `untold_numbers` in large tables. Maps of regions drive groups
    that are alike further apart than one distribution function does that is wrong.
    """
    about = counts, noise_variance, None, ~are_drowned(counts, noise_variance), COST
    return noise_variance > 0 and not _worth_the_harm(*about)


def _worth_the_harm(counts, noise_variance, n, told, cost=1.0) -> bool:
    """Whether the gap of one of these groups, times its odds, is worth the harm."""
    gap, error, _ = _differences(counts, noise_variance)
    odds = odds_of_differences(counts, n, noise_variance)
    harm = cost * len(odds) * error[told].max(initial=0.0)
    return bool(((odds * gap)[told] >= harm).any())


def largest_gaps(counts: np.ndarray, noise_variance: float) -> np.ndarray:
    """By how much groups may differ from all others: two standard errors more."""
    gap, error, _ = _differences(counts, noise_variance)
    return np.minimum(gap + 2 * error, 1.0)


def untold_cells(
    counts: np.ndarray, noise_variance: float, defaults: np.ndarray
) -> np.ndarray:
    """Tell which groups do not differ in any true class, as `untold_groups` does.

    In tables of any size. Where the decisions of some group clearly differ its gap is
    removed: others may add as much, but a group of which a repair would leave more is
    left alone.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_groups, n_bins)
        Noisy counts.
    noise_variance : float
    defaults : ndarray of shape (n_bins,)
        The class that is chosen in each region without a repair.

    Returns
    -------
    untold : ndarray of shape (n_classes, n_groups), bool
        A group is told in all classes if it is in one, but where noise drowns it.
    """
    gap, error, drowned = _differences(counts, noise_variance)
    if noise_variance == 0:
        return drowned

    def told(harm):
        return ~drowned & (gap >= _clear_gap(error, COST * gap.size, harm))

    def surely(gap):
        """The largest that is clear, less its error."""
        return np.where(told(HARM), np.maximum(gap - error, 0.0), 0.0).max()

    removed = surely(_rate_gaps(counts, defaults))
    helped = told(HARM + surely(gap)) & (LEFT * error <= removed)
    return drowned | ~helped.any(axis=0)


def _rate_gaps(counts, defaults) -> np.ndarray:
    """How far rates of decisions are from those of the other groups together."""
    chosen = np.stack([counts[..., defaults == k].sum(-1) for k in set(defaults)], -1)
    others = chosen.sum(axis=-2, keepdims=True) - chosen
    rates, of_rest = (
        some / np.maximum(some.sum(axis=-1, keepdims=True), 1.0)
        for some in (chosen, others)
    )
    return np.abs(rates - of_rest).max(axis=-1)


def _differences(counts, noise_variance):
    """How far distribution functions are from those of the other groups together.

    Largest differences, their standard errors, and whether noise drowns the group; by
    group, for each table.
    """
    counts = np.asarray(counts, dtype=np.float64)
    n_groups, n_bins = counts.shape[-2:]

    def cdfs(counts, n_tables):
        sizes = np.maximum(counts.sum(axis=-1, keepdims=True), 1.0)
        # In the middle, where both are largest.
        noise = n_tables * noise_variance * n_bins / (4 * sizes**2)
        return counts.cumsum(axis=-1) / sizes, (0.25 / sizes + noise)[..., 0]

    of_group, variance = cdfs(counts, 1)
    of_rest, others = cdfs(counts.sum(axis=-2, keepdims=True) - counts, n_groups - 1)
    gap = np.abs(of_group - of_rest)[..., :-1].max(axis=-1)
    return gap, np.sqrt(variance + others), are_drowned(counts, noise_variance)


def are_drowned(counts, noise_variance) -> np.ndarray:
    """Whether noise hides how many people a group has, for each table."""
    noise = np.sqrt(np.shape(counts)[-1] * noise_variance)
    return np.sum(counts, axis=-1) < DROWNED * noise


def _clear_gap(error, times, harm):
    """Gap that chance makes so seldom that this, times so many errors, is `harm`."""
    return np.sqrt(2 * np.log(np.maximum(2 * times * error / harm, 1))) * error


def untold_message(groups, n_groups: int) -> str:
    """The sentence of a warning; `groups` are noisy, hence public."""
    others = " from the others" if len(groups) < n_groups else ""
    return (
        "By their noisy counts it cannot be told whether the groups "
        f"{list(groups)!r} differ{others}; more rows or a larger epsilon may tell."
    )


# --- ends that are not told from noise ----------------------------------------------

# Standard deviations by which the sum of all counts from an end has to exceed its
# noise; how much of all people these may be at most, for each time that the range is as
# wide as what is left of it, and in any case: what is cut spoils parity, and what is
# kept costs the more the further away it is; and room left beyond, as a part of what is
# between. Chosen on simulated scores; .01 and not .02, which is as good there, as Law
# School lost parity by that.
TOLD = 3.0
BEYOND_PER_WIDTH, MOST_BEYOND = 0.01, 0.2
MARGIN = 0.25
# Where fewer bins hold the scores, and none but two of them surely so many people, by
# `TOLD` standard deviations, their shape within bins decides, which nobody sees: a
# continuous repair may leave more of a gap than there was, and moves people by as much
# as a bin is wide. Where more are in use a third is missed for want of evidence alone.
# Chosen on simulated scores; that a third bin is not enough after a look at Communities
# at epsilon .1, in bounds that fit.
FEWEST_BINS = 2.5
THIRD = 0.03
# Part of the variance of all scores that may be within so few bins where places in a
# bin are drawn: answers lose it, and gain as much by the draw. Chosen on simulated
# scores; of two bins side by side, equally full, it is .25.
MOST_LOST = 0.2


def told_ends(
    counts: np.ndarray, noise_variance: float, most: float
) -> tuple[int, int]:
    """The first bin and the one after the last, but those not told from noise.

    As many of these as may hold at most this part of all people at either end: the
    farthest ones cost the most where noise sends people there.
    """
    n_bins = len(counts)
    room = TOLD * np.sqrt(noise_variance * np.arange(1, n_bins + 1))
    n_few = int(np.count_nonzero(room <= most * counts.sum()))

    def beyond(counts) -> int:
        """How many bins at the beginning are not told from noise."""
        return min(int((counts.cumsum() > room).argmax()), n_few)

    return beyond(counts), n_bins - beyond(counts[::-1])


def told_bins(counts: np.ndarray, noise_variance: float, scale) -> tuple[int, int]:
    """Bins that hold all scores but those that nobody can tell from noise.

    Parameters
    ----------
    counts : ndarray of shape (n_bins,)
        Noisy counts of all people.
    noise_variance : float
        Of one of them.
    scale : Scale
        Of the bins.

    Returns
    -------
    first, last : int
        The first bin, and the one after the last.
    """
    n_bins = len(counts)

    def left(most):
        """From where to where scores are."""
        told = told_ends(counts, noise_variance, most)
        return scale.inverse(np.array(told) / n_bins)

    wide = np.ptp(scale.knots) / np.ptp(left(MOST_BEYOND))
    ends = left(min(BEYOND_PER_WIDTH * wide, MOST_BEYOND))
    places = scale(ends + MARGIN * np.ptp(ends) * np.array([-1.0, 1.0])) * n_bins
    return int(np.floor(places[0])), int(np.ceil(places[1]))


def lost_in_bins(counts: np.ndarray, noise_variance: float, scale) -> float:
    """Part of the variance of the scores that is within bins, by noisy counts.

    Parameters
    ----------
    counts : ndarray of shape (n_bins,)
        Noisy counts of all people.
    noise_variance : float
        Of one of them. They are lowered by three of its standard deviations: noise far
        away looks like variance between bins.
    scale : Scale
        Of the bins.

    Returns
    -------
    lost : float
        From 0 to 1; 0 where noise hides everybody.
    """
    people = np.maximum(counts - TOLD * np.sqrt(noise_variance), 0.0)
    if not people.any():
        return 0.0
    ends = scale.inverse(np.linspace(0, 1, len(counts) + 1))
    middles = (ends[1:] + ends[:-1]) / 2
    mean = np.average(middles, weights=people)
    between = np.average((middles - mean) ** 2, weights=people)
    within = np.average(np.diff(ends) ** 2, weights=people) / 12
    return float(within / (within + between))


def has_third_bin(
    counts: np.ndarray, noise_variance: float, n: float | None = None
) -> bool:
    """Whether the third fullest bin surely holds `THIRD` of all people.

    Where their number is private, the noisy one takes its place.
    """
    surely = np.sort(counts)[-3] - TOLD * np.sqrt(noise_variance)
    return bool(surely >= THIRD * (counts.sum() if n is None else n))


def bins_in_use(
    counts: np.ndarray, noise_variance: float, n: float | None = None
) -> float:
    """In how many bins people are: so many if equally many in each; rather too many.

    The squares of the counts are lowered by those of the noise, and by three of their
    standard deviations for Laplace noise. Where the number of people is private, three
    standard deviations are added to the noisy one.
    """
    n_bins = len(counts)
    if n is None:
        n = max(counts.sum(), 0.0) + 3 * np.sqrt(n_bins * noise_variance)
    noise = noise_variance * (n_bins + 3 * np.sqrt(5 * n_bins))
    squares = (counts**2).sum() - noise
    return float(n**2 / squares) if squares > 0 else np.inf


def is_constant(counts: np.ndarray, noise_variance: float) -> bool:
    """Whether nobody, in no group, is told from noise beyond the fullest bin.

    Three standard deviations tell; `counts` by group and bin, with noise.
    """
    beyond = np.delete(counts, counts.sum(axis=0).argmax(), axis=1)
    noise = np.sqrt(noise_variance * beyond.shape[1])
    of_all = beyond.sum() / np.sqrt(len(counts))
    return bool(max(beyond.sum(axis=1).max(), of_all) <= 3 * noise)
