"""From noisy counts of scores to the score distribution of every group.

A private fair regression releases one table of counts, groups by score bins, plus
noise. Everything here is post-processing of that table and of public numbers, and
costs no privacy: the group distributions ``p_a`` and group weights ``w_a`` that the
barycenter solver needs.

Two estimates are offered. `smooth_estimate` looks at a group as a share of the pooled
distribution: the pooled profile ``M`` is well measured, and the share ``r_a`` of group
``a`` in a bin varies smoothly from bin to bin even where densities do not. A group
with little information falls back to the pooled shape, and no bin or group is empty.
`isotonic_estimate` is Algorithm 1 of R. Xian, Q. Li, G. Kamath, H. Zhao,
"Differentially Private Post-Processing for Fair Regression", ICML 2024, mended.
"""

from functools import lru_cache

import numpy as np

# Prior of the logarithm of the pooled profile: variance of its level, variance of its
# smooth part, length scales of that part and standard deviations of a bin's own part.
PROFILE_LEVEL = 14.0
PROFILE_SMOOTH = 4.0
PROFILE_LENGTHS = (0.15, 0.4)
PROFILE_ROUGHNESS = (0.05, 0.3, 1.5)

# Prior of a group's relative share: variances of its level (1) and its slope, length
# scales by coordinate, and standard deviations of its smooth part: where a fiftieth of
# all people are by themselves, their share is fifty times what it is in the mean.
SHARE_SLOPE = 1.08
SHARE_LENGTHS_CENTRE = (0.1, 0.2, 0.4, 0.8)
SHARE_LENGTHS_RANK = (0.15, 0.3, 0.6, 1.2)
SHARE_AMPLITUDES = 0.1 * 2.0 ** np.arange(10)
# Noise alone may look like that: it needs so much more evidence than a usual one.
USUAL_AMPLITUDE, LARGE_DOUBT = 1.6, 6.0

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


@np.errstate(all="ignore")
def odds_of_differences(
    counts: np.ndarray, n: float | None, noise_variance: float
) -> np.ndarray:
    """How many times as likely shares that vary make the counts; by group.

    Each group is held against all people as they are counted, not against a smooth
    profile: what is chance in the counts of all is no difference of one of them.
    """
    counts, n = _levelled(counts, n)
    profile = _pooled_profile(counts, n, noise_variance)
    weights = _group_weights(counts, profile, noise_variance)[:, None]
    # Of c_a - w_a (c_1 + ... + c_k).
    noise = noise_variance * (1 - 2 * weights + len(counts) * weights**2)
    deviation = np.sqrt(_count_variance(profile, weights, noise))
    residual = (counts - weights * counts.sum(axis=0)) / deviation
    return _varying_shares(profile, residual, weights * profile / deviation)[-1]


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
        # Chosen on simulated tables. By the odds of the fit itself: whether any group
        # is moved at all goes by `odds_of_differences`.
        believed = np.maximum(1 - odds**-2, 0.0)[:, None]
        relative = alike + believed * (relative - alike)

    shares = weights * (1 + relative)
    largest = np.maximum(shares.max(axis=1, keepdims=True), SMALLEST_SHARE * weights)
    return np.maximum(shares, SMALLEST_SHARE * largest)


def _fitted_shares(counts, profile, noise_variance):
    """Weights of the groups, and what `_varying_shares` makes of the counts."""
    weights = _group_weights(counts, profile, noise_variance)[:, None]
    deviation = np.sqrt(_count_variance(profile, weights, noise_variance))
    residual = (counts - weights * profile) / deviation  # (n_groups, n_bins)
    signal = weights * profile / deviation
    return weights, *_varying_shares(profile, residual, signal)


def _varying_shares(profile, residual, signal):
    """Shares of the groups relative to their weights, and the odds that they vary.

    As they are fitted, the same in every bin, and how many times as likely the first
    make ``residual = signal * g + N(0, 1)``; by group.
    """
    k = profile.size
    centres = _bin_centres(k)
    ranks = (np.cumsum(profile) - 0.5 * profile) / profile.sum()
    kernels = [(centres, _centred_factor(k, one)) for one in SHARE_LENGTHS_CENTRE]
    kernels += [(ranks, _kernel_factor(ranks, one)) for one in SHARE_LENGTHS_RANK]
    factors = [_share_factor(*pair) for pair in kernels]
    fits = [_fit_shares(factor, residual, signal) for factor in factors]
    fitted, evidence = map(np.array, zip(*fits, strict=True))
    relative = fitted[evidence.argmax(axis=0), np.arange(len(residual))]
    alike, of_alike = _fit_shares(np.ones((k, 1)), residual, signal)
    odds = np.exp(np.minimum(evidence - of_alike, 100)).mean(axis=0)
    return relative, alike, odds


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
    evidence -= LARGE_DOUBT * (SHARE_AMPLITUDES > USUAL_AMPLITUDE)

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
