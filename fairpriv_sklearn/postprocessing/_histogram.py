"""From noisy counts of scores to the score distribution of every group.

A private fair regression releases one table of counts, groups by score bins, plus
noise. Everything here is post-processing of that table and of public numbers, and
costs no privacy: the group distributions ``p_a`` and group weights ``w_a`` that the
barycenter solver needs, and the public default rules. Only `quantize_scores` and
`bin_scores` see private scores, and they are pure functions of one score.

Two estimates are offered. `smooth_estimate` looks at a group as a share of the pooled
distribution: the pooled profile ``M`` is well measured, and the share ``r_a`` of group
``a`` in a bin varies smoothly from bin to bin even where densities do not. A group
with little information falls back to the pooled shape, and no bin or group is empty.
`isotonic_estimate` is Algorithm 1 of R. Xian, Q. Li, G. Kamath, H. Zhao,
"Differentially Private Post-Processing for Fair Regression", ICML 2024, mended.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

# Scores are rounded to this part of their range before they are binned (or hashed):
# the last bits of a base model's output depend on the machine and the batch.
SCORE_STEPS = 2**32


# --- scores, bins and the output grid -----------------------------------------------


def quantize_scores(scores: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Clip scores into `bounds` and round them to ``2**-32`` of the range.

    Parameters
    ----------
    scores : ndarray of any shape
        Infinite scores go to the nearest bound and NaN to the lower one, a rule that
        does not look at the other scores.
    bounds : (float, float)
        Public range ``(s, t)``, ``s < t``.

    Returns
    -------
    steps : ndarray of int64, same shape
        Number of steps above ``s``, from 0 to ``2**32``.
    """
    lower, upper = map(float, bounds)
    scores = np.asarray(scores, dtype=np.float64)
    scores = np.clip(np.where(np.isnan(scores), lower, scores), lower, upper)
    return np.rint((scores - lower) / (upper - lower) * SCORE_STEPS).astype(np.int64)


def bin_scores(
    scores: np.ndarray, bounds: tuple[float, float], n_bins: int
) -> np.ndarray:
    """Return the index of the bin, 0 to ``n_bins - 1``, that holds each score.

    The bins divide `bounds` equally and include their lower edge; the last one also
    includes the upper bound. `scores` and `bounds` are as in `quantize_scores`.
    """
    # A rounded score stands for an interval of one step and is placed by its upper
    # end: a score on an edge is in the upper bin, however its rounding went.
    steps = 2 * quantize_scores(scores, bounds) + 1
    return np.minimum(steps * n_bins // (2 * SCORE_STEPS), n_bins - 1)


def output_grid(
    bounds: tuple[float, float], n_bins: int, refinement: int
) -> np.ndarray:
    """Return the values that outputs may take: `refinement` points per bin.

    The points are ``1 / refinement`` of a bin apart and every bin centre is one of
    them (see `centre_indices`). For odd `refinement` they are the centres of equal
    parts of the bins, ``n_bins * refinement`` in all. For even `refinement` they
    include the bin edges instead, and are one more.
    """
    lower, upper = map(float, bounds)
    first = refinement // 2
    n_points = centre_indices(n_bins, refinement)[-1] + first + 1
    in_bins = 0.5 + (np.arange(n_points) - first) / refinement
    return lower + (upper - lower) * in_bins / n_bins


def centre_indices(n_bins: int, refinement: int) -> np.ndarray:
    """Return the positions of the bin centres in the output grid."""
    return refinement // 2 + refinement * np.arange(n_bins)


def refine_pmfs(pmfs: np.ndarray, refinement: int) -> np.ndarray:
    """Put the mass of every bin on the centre of that bin in the output grid.

    Parameters
    ----------
    pmfs : ndarray of shape (n_groups, n_bins)
    refinement : int

    Returns
    -------
    refined : ndarray of shape (n_groups, n_points)
    """
    n_groups, n_bins = pmfs.shape
    centres = centre_indices(n_bins, refinement)
    refined = np.zeros((n_groups, centres[-1] + refinement // 2 + 1))
    refined[:, centres] = pmfs
    return refined


# --- continuous distributions and maps ----------------------------------------------

# Equal parts of a bin in which a tolerance is kept by the continuous map.
SUB_BINS = 16
# Mass spread evenly over the range: distribution functions without it have flat
# stretches, where the map would jump.
UNIFORM_MASS = 1e-3

# Distinct scores in a bin from which an increasing map may take them for a continuum,
# and by how much of all people a bin may stand out from those beside it. Chosen on
# simulated scores.
PER_BIN = 6
SPIKE = 0.03

# Levels of a barycenter without a grid; hundreds of groups would have more.
MOST_LEVELS = 1 << 14


def distinct_scores(scores: np.ndarray, bounds: tuple[float, float]) -> int:
    """Count the distinct scores, after rounding to ``2**-32`` of the range.

    Sensitivity 1 under either relation: taking a record away lowers the number by one
    or not at all, and putting one in raises it by one or not at all.
    """
    steps = np.sort(quantize_scores(scores, bounds))  # np.unique is ten times slower
    return np.count_nonzero(steps[1:] != steps[:-1]) + (steps.size > 0)


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


@dataclass(frozen=True, eq=False)
class ContinuousMap:
    r"""The increasing maps :math:`Q_a^{-1} \circ F_a` of one score column.

    Parameters
    ----------
    edges : ndarray of shape (n_edges,)
        Where the distribution functions have their kinks.
    cdfs : ndarray of shape (n_groups + 1, n_edges)
        :math:`F_a` at the edges, the pooled population last.
    levels, values : ndarray of shape (n_groups + 1, n_points)
        Points of the target quantile functions :math:`Q_a^{-1}`.
    window : ndarray of shape (2,)
        Scores beyond are moved as far as its end.
    """

    edges: np.ndarray
    cdfs: np.ndarray
    levels: np.ndarray
    values: np.ndarray
    window: np.ndarray

    def __call__(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Map the scores of each group; code -1 is the pooled population."""
        inside = scores.clip(*self.window)
        mapped = scores - inside
        n_groups = len(self.cdfs)
        for code in range(n_groups):
            rows = np.flatnonzero(codes % n_groups == code)
            level = np.interp(inside[rows], self.edges, self.cdfs[code])
            mapped[rows] += np.interp(level, self.levels[code], self.values[code])
        return mapped


def fine_pmfs(pmfs: np.ndarray) -> np.ndarray:
    """Masses in equal parts of the bins, all of them positive."""
    pmfs = (1 - UNIFORM_MASS) * pmfs + UNIFORM_MASS / pmfs.shape[1]
    return np.repeat(pmfs / SUB_BINS, SUB_BINS, axis=1)


def continuous_map(transport, scale, window) -> ContinuousMap:
    r"""Read the continuous maps off a transport between equal bins of a `Scale`.

    A distribution that is even within bins has a distribution function that is linear
    between their edges. The solver's window :math:`[c_l, c_l + \alpha]` holds at the
    edges and, as interpolation is monotone, between them.

    With tolerance zero the target is the barycenter without a grid,
    :math:`F_s \mapsto \sum_r w_r F_r^{-1}`.
    """
    n_groups, k = transport.source_cdf.shape
    edges = scale.inverse(np.linspace(0, 1, k + 1))
    weights = transport.weights / transport.weights.sum()
    cdfs = np.vstack([transport.source_cdf, weights @ transport.source_cdf])
    cdfs = np.concatenate([np.zeros((n_groups + 1, 1)), cdfs], axis=1)
    cdfs[:, -1] = 1.0
    if transport.tolerance == 0:
        levels = np.unique(cdfs[:-1])
        # Any increasing target is as fair: between so many levels a line will do.
        levels = levels[:: -(-len(levels) // MOST_LEVELS)]
        levels[-1] = 1.0
        values = np.zeros(len(levels))
        for weight, cdf in zip(weights, cdfs, strict=False):
            values += weight * np.interp(levels, cdf, edges)
        shape = (n_groups + 1, len(levels))
        values = np.broadcast_to(values, shape)
        return ContinuousMap(
            edges, cdfs, np.broadcast_to(levels, shape), values, window
        )
    targets = np.vstack([transport.target_cdf, transport.barycenter_cdf])
    levels = np.concatenate([np.zeros((n_groups + 1, 1)), targets], axis=1)
    values = np.broadcast_to(edges, levels.shape)
    return ContinuousMap(edges, cdfs, levels, values, window)


# --- public default rules -----------------------------------------------------------


def default_n_bins(n: float, epsilon: float, *, continuous: bool = False) -> int:
    """Return the number of bins for public `n` and `epsilon`.

    ``1.5 (n min(1, 4 epsilon)**2)**(1/3)``, rounded and kept in [8, 64]; three times as
    many for a continuous map from counts without noise, since nothing but the width of
    the bins is then in its way.
    """
    n_bins = 1.5 * (n * min(1.0, 4 * epsilon) ** 2) ** (1 / 3)
    if continuous and np.isinf(epsilon):
        return int(np.clip(round(3 * n_bins), 8, 192))
    return int(np.clip(round(n_bins), 8, 64))


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
# What an error costs where cells are repaired: one that is taken for a difference is
# larger than most.
COST = 4.0
# Standard deviations of its noise that a group's size has to exceed.
DROWNED = 2.0
# In tables of more rows only groups that drown are pooled: the published gains at
# epsilon .1 (Law School) are made where no group can be told for sure.
LARGE = 3000
# Groups that are not told to differ may do so by this much without a word.
MAY_REMAIN = 0.1


def untold_groups(
    counts: np.ndarray, noise_variance: float, n: float | None = None
) -> np.ndarray:
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
    n : float, default=None
        Number of rows if it is public.

    Returns
    -------
    untold : ndarray of shape (n_groups,), bool
    """
    gap, error, drowned = _differences(counts, noise_variance)
    if noise_variance == 0 or (np.sum(counts) if n is None else n) > LARGE:
        return drowned
    return drowned | (gap < _clear_gap(error, len(counts), HARM))


def untold_numbers(
    counts: np.ndarray, noise_variance: float, n: float | None = None
) -> np.ndarray:
    """Tell which groups do not differ, as `untold_groups` does; all, where none may.

    In larger tables the groups are doubted together: what noise makes of a small one,
    or of one among several, would drive groups apart that are alike. A group that does
    not differ has odds of b or more in at most one table of b: its gap, times the odds,
    has to be worth the harm, the largest error for each of the groups. Where one is
    told all are repaired.
    """
    untold = untold_groups(counts, noise_variance, n)
    if noise_variance == 0 or (np.sum(counts) if n is None else n) <= LARGE:
        return untold
    gap, error, _ = _differences(counts, noise_variance)
    with np.errstate(all="ignore"):
        counts, n = _levelled(counts, n)
        profile = _pooled_profile(counts, n, noise_variance)
        *_, odds = _fitted_shares(counts, profile, noise_variance)
    harm = len(odds) * error[~untold].max(initial=0.0)
    return untold | ~((odds * gap)[~untold] >= harm).any()


def largest_gaps(counts: np.ndarray, noise_variance: float) -> np.ndarray:
    """By how much groups may differ from all others: two standard errors more."""
    gap, error, _ = _differences(counts, noise_variance)
    return np.minimum(gap + 2 * error, 1.0)


def untold_cells(counts: np.ndarray, noise_variance: float) -> np.ndarray:
    """Tell which groups do not differ in any true class, as `untold_groups` does.

    In tables of any size. Where some group clearly differs its gap is removed, and
    others may add as much.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_groups, n_bins)
        Noisy counts.
    noise_variance : float

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

    surely = np.where(told(HARM), np.maximum(gap - error, 0.0), 0.0).max()
    return drowned | ~told(HARM + surely).any(axis=0)


def _differences(counts, noise_variance):
    """How far distribution functions are from those of the other groups together.

    Largest differences, their standard errors, and whether noise drowns the group; by
    group, for each table.
    """
    counts = np.asarray(counts, dtype=np.float64)
    n_groups, n_bins = counts.shape[-2:]
    drowned = counts.sum(axis=-1) < DROWNED * np.sqrt(n_bins * noise_variance)

    def cdfs(counts, n_tables):
        sizes = np.maximum(counts.sum(axis=-1, keepdims=True), 1.0)
        # In the middle, where both are largest.
        noise = n_tables * noise_variance * n_bins / (4 * sizes**2)
        return counts.cumsum(axis=-1) / sizes, (0.25 / sizes + noise)[..., 0]

    of_group, variance = cdfs(counts, 1)
    of_rest, others = cdfs(counts.sum(axis=-2, keepdims=True) - counts, n_groups - 1)
    gap = np.abs(of_group - of_rest)[..., :-1].max(axis=-1)
    return gap, np.sqrt(variance + others), drowned


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
# noise, how much of all people these may be at most, and room left beyond, as a part of
# what is between. Chosen on simulated scores, and on Communities, where at epsilon .1
# whole tails are not told from noise.
TOLD = 2.0
MOST_BEYOND = 0.02
MARGIN = 0.25
# Where fewer bins hold the scores, their shape within bins decides, which nobody sees:
# a continuous repair is then worse than none, and moves people by as much as a bin is
# wide. More than two, as noise makes them look more. Chosen on simulated scores.
FEWEST_BINS = 2.15


def told_ends(
    counts: np.ndarray, noise_variance: float, sure: float, most: float
) -> tuple[int, int]:
    """The first bin and the one after the last, but those not told from noise.

    `sure` and `most` are as the constants `TOLD` and `MOST_BEYOND`.
    """
    n_bins = len(counts)
    room = sure * np.sqrt(noise_variance * np.arange(1, n_bins + 1))

    def beyond(counts) -> int:
        """How many bins at the beginning are not told from noise."""
        found = int((counts.cumsum() > room).argmax())
        few = room[found - 1] <= most * counts.sum()
        return found if found and few else 0

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
    first, last = told_ends(counts, noise_variance, TOLD, MOST_BEYOND)
    ends = scale.inverse(np.array([first, last]) / n_bins)
    places = scale(ends + MARGIN * np.ptp(ends) * np.array([-1.0, 1.0])) * n_bins
    return int(np.floor(places[0])), int(np.ceil(places[1]))


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


# --- the smooth estimate ------------------------------------------------------------

# Prior of the logarithm of the pooled profile: variance of its level, variance of its
# smooth part, length scales of that part and standard deviations of a bin's own part.
PROFILE_LEVEL = 14.0
PROFILE_SMOOTH = 4.0
PROFILE_LENGTHS = (0.15, 0.4)
PROFILE_ROUGHNESS = (0.05, 0.3, 1.5)

# Prior of a group's relative share: variances of its level (1) and its slope, length
# scales by coordinate, and standard deviations of its smooth part.
SHARE_SLOPE = 1.08
SHARE_LENGTHS_CENTRE = (0.1, 0.2, 0.4, 0.8)
SHARE_LENGTHS_RANK = (0.15, 0.3, 0.6, 1.2)
SHARE_AMPLITUDES = np.array([0.1, 0.2, 0.4, 0.8, 1.6])

# A share is at least this part of its largest value: no bin of a group is empty.
SMALLEST_SHARE = 1e-3

# Newton steps for the pooled profile. About ten are needed, more where noise dominates
# and convergence is linear, though there they matter less. The limit also bounds
# the profile itself (each step is at most two units of its logarithm).
MAX_NEWTON_STEPS = 50
LARGEST_NEWTON_STEP = 2.0

_FEW_BINS = 1024  # so many are no memory to speak of


def smooth_estimate(
    counts: np.ndarray,
    *,
    n: float | None,
    noise_variance: float,
    pooled: np.ndarray | None = None,
    doubted: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate group distributions as smooth shares of a positive pooled profile.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_bins)
        Noisy counts, any real numbers.
    n : float or None
        Number of records if it is public, else None: the noisy total takes its place.
    noise_variance : float
        Variance ``s^2`` of the noise in one count; 0 for exact counts.
    pooled : ndarray of shape (n_groups,), bool, default=None
        Groups that are given the distribution of all groups together.
    doubted : bool
        Whether differences that noise may have made are drawn towards none.

    Returns
    -------
    pmfs : ndarray of shape (n_groups, n_bins)
        Non-negative, rows sum to 1. Positive where the pooled profile is, which is
        everywhere if there is noise.
    weights : ndarray of shape (n_groups,)
        Positive, sum to 1.
    """
    with np.errstate(all="ignore"):
        counts, n = _levelled(counts, n)
        profile = _pooled_profile(counts, n, noise_variance)
        shares = _group_shares(counts, profile, noise_variance, doubted)
        pmfs, weights = _normalise(profile * shares)
    if pooled is not None:
        pmfs[pooled] = weights @ pmfs
    return pmfs, weights


def _levelled(counts, n: float | None) -> tuple[np.ndarray, float]:
    """Counts that add up to a public number of records, and this or the noisy one."""
    counts = np.asarray(counts, dtype=np.float64)
    if n is None:
        return counts, max(counts.sum(), 1.0)
    return counts + (n - counts.sum()) / counts.size, n


def exact_estimate(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read the distributions off counts without noise, and shrink nothing.

    The tolerance then holds for the table itself, to the last record, and not only for
    the smooth distributions behind it.
    """
    return _normalise(np.asarray(counts, dtype=np.float64))


def _normalise(masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split group masses into distributions and weights; no information: equal."""
    n_groups, n_bins = masses.shape
    totals = masses.sum(axis=1, keepdims=True)
    pmfs = np.where(totals > 0, masses / np.where(totals > 0, totals, 1), 1 / n_bins)
    total = totals.sum()
    weights = totals[:, 0] / total if total > 0 else np.full(n_groups, 1 / n_groups)
    return pmfs, weights


def _bin_centres(n_bins: int) -> np.ndarray:
    """Centres of `n_bins` equal bins of [0, 1]."""
    return (np.arange(n_bins) + 0.5) / n_bins


def _kernel_factor(x: np.ndarray, length: float) -> np.ndarray:
    """Return F with ``F F^T = exp(-(x - x')^2 / (2 length^2))`` to 1e-10.

    Pivoted Cholesky factorisation: the kernel is so smooth that some twenty columns
    are enough, however many bins there are.
    """
    columns = np.zeros((x.size, 0))
    missing = np.ones(x.size)  # diagonal of the kernel minus that of F F^T
    while missing.max() > 1e-10 and columns.shape[1] < x.size:
        pivot = missing.argmax()
        column = np.exp(-((x - x[pivot]) ** 2) / (2 * length**2))
        column = (column - columns @ columns[pivot]) / np.sqrt(missing[pivot])
        columns = np.column_stack([columns, column])
        missing = missing - column**2
    return columns


@lru_cache(maxsize=32)
def _short_factor(n_bins: int, length: float) -> np.ndarray:
    """The same for the centres of so many bins; kept, as they are public and few."""
    factor = _kernel_factor(_bin_centres(n_bins), length)
    factor.flags.writeable = False
    return factor


def _centred_factor(n_bins: int, length: float) -> np.ndarray:
    make = _short_factor if n_bins <= _FEW_BINS else _short_factor.__wrapped__
    return make(n_bins, length)


def _pooled_profile(counts: np.ndarray, n: float, noise_variance: float) -> np.ndarray:
    """Return the expected counts ``M_j`` of all groups together, summing to `n`."""
    pooled = counts.sum(axis=0)
    if noise_variance == 0:
        return np.maximum(pooled, 0.0) if pooled.max() > 0 else np.ones_like(pooled)
    variance = counts.shape[0] * noise_variance
    k, modes = pooled.size, []
    for length in PROFILE_LENGTHS:
        smooth = np.sqrt(PROFILE_SMOOTH) * _centred_factor(k, length)
        level = np.full((k, 1), np.sqrt(PROFILE_LEVEL))
        modes.append(_profile_modes(pooled, variance, n, np.hstack([level, smooth])))
    profiles, evidences = map(np.concatenate, zip(*modes, strict=True))
    odds = np.exp(evidences - evidences.max())
    average = odds @ profiles
    return average * (n / average.sum())


def _profile_modes(
    pooled: np.ndarray, variance: float, n: float, factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return posterior modes of ``M = exp(theta)`` and their Laplace log evidences.

    One for each r of `PROFILE_ROUGHNESS`, all at once as the matrices are small:
    ``theta ~ N(log(n/k), K)``, ``K = F F^T + r^2 I``. A count with mean ``M`` and
    variance ``B + M`` (`variance` is ``B``) has the quasi-likelihood

    .. math:: \ell(\theta) = (c + B)\log(M + B) - M,

    that of ``c + B`` being Poisson with mean ``M + B``.
    """
    k = pooled.size
    mean = np.log(n / k)
    all_rough = np.array([[roughness**2] for roughness in PROFILE_ROUGHNESS])
    dual = np.zeros((len(all_rough), k))  # theta = mean + K dual
    offset = np.zeros(dual.shape)  # K dual
    moving = np.arange(len(dual))
    for _ in range(MAX_NEWTON_STEPS):
        old, rough = offset[moving], all_rough[moving]
        profile = np.exp(mean + old)
        gradient = profile * (pooled - profile) / (variance + profile)
        weight = _curvature(pooled, variance, profile)
        new_dual = _newton_dual(weight, weight * old + gradient, factor, rough)
        smooth = factor @ (factor.T @ new_dual[..., None])
        new_offset = rough * new_dual + smooth[..., 0]
        largest = np.abs(new_offset - old).max(axis=1, keepdims=True)
        step = np.fmin(1.0, LARGEST_NEWTON_STEP / np.maximum(largest, 1e-300))
        dual[moving] += step * (new_dual - dual[moving])
        offset[moving] += step * (new_offset - old)
        moving = moving[~(largest[:, 0] < 1e-9)]
        if not moving.size:
            break
    profile = np.exp(mean + offset)
    weight = _curvature(pooled, variance, profile)
    likelihood = (pooled + variance) * np.log(profile + variance) - profile
    products = np.array([one @ other for one, other in zip(dual, offset, strict=True)])
    evidence = likelihood.sum(axis=1) - 0.5 * products
    return profile, evidence - 0.5 * _log_determinants(weight, factor, all_rough)


def _curvature(pooled: np.ndarray, variance: float, profile: np.ndarray) -> np.ndarray:
    """Second derivative of ``-l`` in theta, or its expectation where that is larger."""
    total = variance + profile
    excess = np.maximum(profile - pooled, 0.0)
    return profile**2 / total + profile * variance * excess / total**2


def _newton_dual(
    weight: np.ndarray, target: np.ndarray, factor: np.ndarray, rough: np.ndarray
) -> np.ndarray:
    """Solve ``(I + W K) v = target`` for ``K = F F^T + rough I`` (Woodbury).

    For several weights, targets and numbers `rough`, row by row.
    """
    shrink = 1 / (1 + rough * weight)
    scaled = (shrink * weight)[..., None] * factor
    inner = _one_plus(factor.T @ scaled)
    target = shrink * target
    inside = np.linalg.solve(inner, factor.T @ target[..., None])
    return target - (scaled @ inside)[..., 0]


def _log_determinants(
    weight: np.ndarray, factor: np.ndarray, rough: np.ndarray
) -> np.ndarray:
    """Return ``log det(I + W K)`` for ``K = F F^T + rough I``, row by row."""
    scaled = (weight / (1 + rough * weight))[..., None] * factor
    inner = _one_plus(factor.T @ scaled)
    return np.log1p(rough * weight).sum(axis=1) + np.linalg.slogdet(inner)[1]


def _one_plus(matrices: np.ndarray) -> np.ndarray:
    """Add the identity to new matrices, in place."""
    matrices.reshape(len(matrices), -1)[:, :: matrices.shape[1] + 1] += 1.0
    return matrices


def _group_shares(
    counts: np.ndarray, profile: np.ndarray, noise_variance: float, doubted: bool = True
) -> np.ndarray:
    """Return the share ``r_a(j) > 0`` of each group in each bin."""
    weights, relative, alike, odds = _fitted_shares(counts, profile, noise_variance)
    if doubted:
        # Drawn towards a share that is the same in every bin, by the odds that it is
        # not, and all the way if it is the likelier one: a positive-part rule, as what
        # is believed of chance drives groups apart. The square spares what is likely.
        # Chosen on simulated tables.
        believed = np.maximum(1 - odds**-2, 0.0)[:, None]
        relative = alike + believed * (relative - alike)

    shares = weights * (1 + relative)
    largest = np.maximum(shares.max(axis=1, keepdims=True), SMALLEST_SHARE * weights)
    return np.maximum(shares, SMALLEST_SHARE * largest)


def _fitted_shares(counts, profile, noise_variance):
    """Weights of the groups, shares relative to them, and the odds of a difference.

    The shares as they are fitted and the same in every bin, and how many times as
    likely the first make the counts; by group.
    """
    weights = _group_weights(counts, profile, noise_variance)[:, None]
    deviation = np.sqrt(_count_variance(profile, weights, noise_variance))
    residual = (counts - weights * profile) / deviation  # (n_groups, n_bins)
    signal = weights * profile / deviation

    k = profile.size
    centres = _bin_centres(k)
    ranks = (np.cumsum(profile) - 0.5 * profile) / profile.sum()
    kernels = [(centres, _centred_factor(k, one)) for one in SHARE_LENGTHS_CENTRE]
    kernels += [(ranks, _kernel_factor(ranks, one)) for one in SHARE_LENGTHS_RANK]
    factors = [_share_factor(*pair) for pair in kernels]
    fits = [_fit_shares(factor, residual, signal) for factor in factors]
    fitted, evidence = map(np.array, zip(*fits, strict=True))
    relative = fitted[evidence.argmax(axis=0), np.arange(len(counts))]
    alike, of_alike = _fit_shares(np.ones((k, 1)), residual, signal)
    odds = np.exp(np.minimum(evidence - of_alike, 100)).mean(axis=0)
    return weights, relative, alike, odds


def _count_variance(
    profile: np.ndarray, weights: np.ndarray, noise_variance: float
) -> np.ndarray:
    """Variance of a group's count: the noise and a binomial split of the profile."""
    mean = profile * weights
    # Exact counts of an empty bin, or of the only group present, have no variance:
    # a relative error of 1e-5 keeps the equations well conditioned.
    return noise_variance + mean * (1 - weights) + (1e-5 * mean) ** 2 + 1e-6


def _group_weights(
    counts: np.ndarray, profile: np.ndarray, noise_variance: float
) -> np.ndarray:
    """Weighted least squares of each group's counts on the pooled profile."""
    n = profile.sum()
    lowest = min(0.1 * np.sqrt(noise_variance) / n + 1e-4, 1 / len(counts))
    weights = np.clip(counts.sum(axis=1) / n, lowest, 1.0)
    precision = 1 / _count_variance(profile, weights[:, None], noise_variance)
    weights = (precision * counts) @ profile / (precision @ profile**2)
    return np.clip(weights, lowest, 1.0)


def _share_factor(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    r"""Return F with ``F F^T`` the prior covariance of a group's relative share.

    .. math::
        1 + 1.08 (x - \tfrac12)(x' - \tfrac12) + e^{-(x - x')^2 / (2 l^2)}

    The columns of the last part, of factor `kernel`, begin at the third.
    """
    slope = np.sqrt(SHARE_SLOPE) * (x - 0.5)
    return np.column_stack([np.ones_like(x), slope, kernel])


def _fit_shares(
    factor: np.ndarray, residual: np.ndarray, signal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit ``residual = signal * g + N(0, 1)`` by Gaussian-process regression.

    The covariance of g is ``F F^T`` with the columns of `factor` from the third on
    times the amplitude of the largest evidence in each group.

    Returns
    -------
    fitted : ndarray of shape (n_groups, n_bins)
        Posterior mean of ``g``.
    evidence : ndarray of shape (n_groups,)
        Log evidence, up to a constant of the group.
    """
    amplitudes = np.ones((len(SHARE_AMPLITUDES), factor.shape[1]))
    amplitudes[:, 2:] = SHARE_AMPLITUDES[:, None]

    # g = factor @ (amplitude * beta), beta ~ N(0, I): linear regression with as many
    # unknowns as the kernel has columns, and no matrix that could be singular.
    design = signal[:, :, None] * factor  # (n_groups, n_bins, n_columns)
    gram = design.transpose(0, 2, 1) @ design
    moment = np.einsum("ajc,aj->ac", design, residual)
    scaled = amplitudes[:, :, None] * gram[:, None] * amplitudes[:, None, :]
    moments = amplitudes * moment[:, None]  # (n_groups, n_amplitudes, n_columns)
    inner = np.eye(factor.shape[1]) + scaled
    beta = np.linalg.solve(inner, moments[..., None])[..., 0]
    evidence = 0.5 * (moments * beta).sum(axis=2) - 0.5 * np.linalg.slogdet(inner)[1]

    groups = np.arange(len(residual))
    best = evidence.argmax(axis=1)
    fitted = (amplitudes * beta)[groups, best] @ factor.T
    return fitted, evidence[groups, best]


# --- the isotonic estimate ----------------------------------------------------------


def isotonic_estimate(
    counts: np.ndarray, *, noise_scale: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Estimate each group's distribution on its own by isotonic regression.

    Algorithm 1 of Xian et al. (2024), mended: a group whose noisy total is not above
    :math:`2\sqrt{2k}\,b`, two standard deviations of that total for Laplace noise of
    scale :math:`b`, gets the pooled distribution (the uniform one if the pooled total
    is not above it either), and a negative group weight counts as zero.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_bins)
        Noisy counts.
    noise_scale : float
        Scale ``b`` of the noise in one count, sensitivity / epsilon; 0 for exact
        counts.

    Returns
    -------
    pmfs : ndarray of shape (n_groups, n_bins)
        Non-negative, rows sum to 1. A bin may be empty.
    weights : ndarray of shape (n_groups,)
        Non-negative, sum to 1.
    """
    counts = np.asarray(counts, dtype=np.float64)
    n_groups, n_bins = counts.shape
    floor = 2 * np.sqrt(2 * n_bins) * noise_scale
    uniform = np.arange(1, n_bins + 1) / n_bins
    pooled = _isotonic_cdf(counts.sum(axis=0), floor, uniform)
    cdfs = np.array([_isotonic_cdf(row, floor, pooled) for row in counts])
    totals = np.maximum(counts.sum(axis=1), 0.0)
    if totals.sum() == 0:
        totals = np.ones(n_groups)
    return np.diff(cdfs, axis=1, prepend=0.0), totals / totals.sum()


def _isotonic_cdf(counts: np.ndarray, floor: float, fallback: np.ndarray) -> np.ndarray:
    """Return the distribution function of `counts`, or `fallback` if they are few."""
    total = counts.sum()
    if total <= floor:
        return fallback
    cdf = np.clip(isotonic_linf(np.cumsum(counts) / total), 0.0, 1.0)
    cdf[-1] = 1.0
    return cdf


def isotonic_linf(values: np.ndarray) -> np.ndarray:
    """Return the nondecreasing sequence closest to `values` in the largest error.

    The midpoint of the running maximum from the left and the running minimum from
    the right.
    """
    from_left = np.maximum.accumulate(values)
    from_right = np.minimum.accumulate(values[::-1])[::-1]
    return (from_left + from_right) / 2
