"""Group score distributions from noisy counts, and the public default rules."""

import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize, stats

from fairpriv_sklearn.metrics import ks_parity_difference
from fairpriv_sklearn.postprocessing import _continuous_map as continuous_map
from fairpriv_sklearn.postprocessing import _histogram as histogram
from fairpriv_sklearn.postprocessing import _score_bins as score_bins
from fairpriv_sklearn.postprocessing import _significance as significance
from fairpriv_sklearn.postprocessing._histogram import (
    isotonic_estimate,
    isotonic_linf,
    smooth_estimate,
)
from fairpriv_sklearn.postprocessing._scale import Scale
from fairpriv_sklearn.postprocessing._score_bins import (
    bin_scores,
    centre_indices,
    default_n_bins,
    output_grid,
    quantize_scores,
    refine_pmfs,
)
from fairpriv_sklearn.postprocessing._significance import default_tolerance
from fairpriv_sklearn.transport import fair_barycenter


def noise_variance(epsilon, sensitivity=2):
    """Variance of discrete Laplace noise, privacy.md section 4."""
    q = np.exp(-epsilon / sensitivity)
    return 2 * q / (1 - q) ** 2


def assert_distributions(pmfs, weights, shape):
    assert pmfs.shape == shape and weights.shape == shape[:1]
    assert np.isfinite(pmfs).all() and np.isfinite(weights).all()
    assert (pmfs >= 0).all() and (weights >= 0).all()
    np.testing.assert_allclose(pmfs.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)


# --- scores, bins and the output grid -----------------------------------------------


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    st.sampled_from([(0.0, 1.0), (1.0, 4.0), (-3.5, 1e5)]),
    st.integers(1, 1000),
)
def test_bins_agree_with_exact_arithmetic(scores, bounds, n_bins):
    lower, upper = (Fraction(bound) for bound in bounds)
    index = bin_scores(np.array(scores), bounds, n_bins)
    for score, i in zip(scores, index.tolist(), strict=True):
        clipped = min(max(Fraction(score), lower), upper)
        position = (clipped - lower) / (upper - lower) * n_bins
        slack = n_bins * Fraction(1, 2**31)  # rounding of the score
        assert max(i - slack, 0) <= position <= i + 1
        assert 0 <= i < n_bins


@pytest.mark.parametrize("n_bins", [1, 7, 12, 30, 36, 64, 999])
@pytest.mark.parametrize("bounds", [(1, 4), (0, 1), (-0.3, 0.8)])
def test_scores_on_an_edge_are_in_the_upper_bin(bounds, n_bins):
    lower, upper = bounds
    edges = lower + (upper - lower) * np.arange(n_bins + 1) / n_bins
    expected = np.minimum(np.arange(n_bins + 1), n_bins - 1)
    np.testing.assert_array_equal(bin_scores(edges, bounds, n_bins), expected)


def test_a_score_is_in_the_bin_of_most_of_its_step():
    """Edges of three bins lie a third and two thirds of a step above a step."""
    one, two = score_bins.SCORE_STEPS // 3, 2 * score_bins.SCORE_STEPS // 3
    steps = np.array([one - 1, one, one + 1, two, two + 1])
    assert bin_scores(steps / score_bins.SCORE_STEPS, (0, 1), 3).tolist() == [
        *(0, 1, 1, 1, 2)
    ]


def test_scores_that_are_not_finite_have_a_bin():
    scores = np.array([-np.inf, np.nan, np.inf, -5.0, 9.0])
    np.testing.assert_array_equal(bin_scores(scores, (1, 4), 36), [0, 0, 35, 0, 35])


def test_the_last_bits_of_a_score_do_not_matter():
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 2**32 + 1, 1000)
    scores = 1 + 3 * steps / 2**32
    for other in (np.nextafter(scores, 0), np.nextafter(scores, 9)):
        np.testing.assert_array_equal(quantize_scores(other, (1, 4)), steps)


def test_a_bin_does_not_depend_on_the_other_scores():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=1001)
    together = bin_scores(scores, (-2.0, 2.0), 37)
    alone = [bin_scores(scores[i : i + 1], (-2.0, 2.0), 37)[0] for i in range(1001)]
    np.testing.assert_array_equal(together, alone)
    backwards = bin_scores(scores[::-1], (-2.0, 2.0), 37)[::-1]
    np.testing.assert_array_equal(together, backwards)


def test_single_precision_scores_are_binned_as_their_exact_value():
    scores = np.linspace(0, 1, 1000, dtype=np.float32)
    expected = bin_scores(scores.astype(np.float64), (0.1, 0.7), 11)
    np.testing.assert_array_equal(bin_scores(scores, (0.1, 0.7), 11), expected)


@pytest.mark.parametrize("refinement", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n_bins", [1, 2, 12])
def test_output_grid_contains_the_bin_centres(n_bins, refinement):
    grid = output_grid((1, 4), n_bins, refinement)
    width = 3 / n_bins
    centres = 1 + width * (np.arange(n_bins) + 0.5)
    np.testing.assert_allclose(
        grid[centre_indices(n_bins, refinement)], centres, rtol=1e-14
    )
    np.testing.assert_allclose(np.diff(grid), width / refinement, rtol=1e-9)
    np.testing.assert_allclose(grid[0] - 1, 4 - grid[-1], atol=1e-14)
    if refinement % 2:
        assert grid.size == n_bins * refinement
        np.testing.assert_array_equal(
            bin_scores(grid, (1, 4), n_bins), np.repeat(np.arange(n_bins), refinement)
        )
    else:
        assert grid.size == n_bins * refinement + 1
        np.testing.assert_allclose(grid[[0, -1]], [1, 4])


@pytest.mark.parametrize("refinement", [1, 2, 3])
def test_refined_distributions_keep_mass_and_mean(refinement):
    pmfs = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    refined = refine_pmfs(pmfs, refinement)
    grid = output_grid((0, 1), 3, refinement)
    assert refined.shape == (2, grid.size)
    np.testing.assert_array_equal(refined[:, centre_indices(3, refinement)], pmfs)
    np.testing.assert_allclose(refined.sum(axis=1), 1.0)
    np.testing.assert_allclose(refined @ grid, pmfs @ output_grid((0, 1), 3, 1))


# --- public default rules -----------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "epsilon", "continuous", "expected"),
    [
        (15388, np.inf, False, 37),  # Law School
        (15388, 1.0, False, 37),
        (15388, 0.1, False, 20),
        (1395, 1.0, False, 17),  # Communities
        (1395, 0.1, False, 9),
        (10_000, 1.0, True, 32),
        (10_000, np.inf, True, 97),
        (1, 1e-6, False, 8),
        (10**9, 1.0, False, 64),
        (10**9, np.inf, True, 192),
        (1, np.inf, True, 8),
    ],
)
def test_default_number_of_bins(n, epsilon, continuous, expected):
    n_bins = default_n_bins(n, epsilon, continuous=continuous)
    assert n_bins == expected and isinstance(n_bins, int)


score_tables = st.lists(
    st.floats(-2, 2) | st.sampled_from([-1.0, 0.0, 0.3, 1.0, math.nextafter(0.3, 1)]),
    min_size=1,
    max_size=30,
)


@settings(max_examples=200)
@given(score_tables, st.floats(-2, 2))
def test_distinct_scores_change_by_one_at_most(table, other):
    def distinct(scores):
        return score_bins.distinct_scores(np.array(scores), (-1.0, 1.0))

    full = distinct(table)
    assert abs(distinct([other, *table[1:]]) - full) <= 1
    assert 0 <= distinct([other, *table]) - full <= 1
    assert distinct(table[::-1]) == full


def test_distinct_scores_reach_their_sensitivity():
    assert score_bins.distinct_scores(np.array([0.1, 0.1]), (-1, 1)) == 1
    assert score_bins.distinct_scores(np.array([0.2, 0.1]), (-1, 1)) == 2


@pytest.mark.parametrize(
    "n, noise, least", [(1000, 10.0, 870.0), (1000, 200.0, 500.0), (20, 0.0, 18.0)]
)
def test_twins_are_rare_where_nine_in_ten_scores_are_distinct(n, noise, least):
    """Less three times the noise, and never less than half."""
    assert significance.is_continuous(least, n, noise)
    assert not significance.is_continuous(least - 0.01, n, noise)


def test_fine_masses_are_those_of_the_bins_but_for_a_thousandth():
    pmfs = np.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]])
    fine = continuous_map.fine_pmfs(pmfs)
    np.testing.assert_allclose(
        fine.reshape(2, 3, -1).sum(axis=2), 0.999 * pmfs + 0.001 / 3, rtol=1e-12
    )
    assert np.ptp(fine.reshape(2, 3, -1), axis=2).max() == 0.0
    assert fine.shape == (2, 3 * continuous_map.SUB_BINS)


def test_a_map_of_few_levels_is_as_fair(monkeypatch):
    """All groups are sent to one distribution, whatever the number of its levels."""
    fine = continuous_map.fine_pmfs(
        np.random.default_rng(3).dirichlet(np.ones(12), size=3)
    )
    grid = output_grid((-1, 3), fine.shape[1], 1)
    transport = fair_barycenter(grid, fine, np.array([0.5, 0.3, 0.2]), 0.0)
    whole = continuous_map.continuous_map(transport, Scale.even((-1, 3)), (-1, 3))
    monkeypatch.setattr(continuous_map, "MOST_LEVELS", 100)
    few = continuous_map.continuous_map(transport, Scale.even((-1, 3)), (-1, 3))
    assert len(few.levels[0]) <= 101 < len(whole.levels[0])
    for fitted in (whole, few):
        assert (fitted.levels == fitted.levels[0]).all()
        assert (fitted.values == fitted.values[0]).all()
        assert (np.diff(fitted.levels[0]) > 0).all() and fitted.levels[0, -1] == 1
        assert (np.diff(fitted.values[0]) > 0).all()
    at = np.interp(whole.levels[0], few.levels[0], few.values[0])
    np.testing.assert_allclose(at, whole.values[0], atol=0.05)


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.4])
def test_continuous_map_against_quadrature(tolerance):
    """Pushing dense even points of each bin through the map gives the target."""
    rng = np.random.default_rng(3)
    pmfs = rng.dirichlet(np.full(12, 0.5), size=3)
    pmfs[1, 4:7] = 0  # empty bins must not make the map jump
    pmfs /= pmfs.sum(axis=1, keepdims=True)
    weights = np.array([0.5, 0.3, 0.2])
    fine = continuous_map.fine_pmfs(pmfs)
    assert (fine > 0).all()
    grid = output_grid((-1, 3), fine.shape[1], 1)
    transport = fair_barycenter(grid, fine, weights, tolerance)
    fitted = continuous_map.continuous_map(transport, Scale.even((-1, 3)), (-1, 3))
    x = np.linspace(-1, 3, 48_001)
    mids = (x[1:] + x[:-1]) / 2
    density = np.repeat(fine, 48_000 // fine.shape[1], axis=1)
    density /= density.sum(axis=1, keepdims=True)
    mapped = np.array([fitted(mids, np.full(mids.size, a)) for a in range(3)])
    assert (np.diff(mapped, axis=1) > 0).all()
    assert mapped.min() >= -1 and mapped.max() <= 3
    cuts = np.linspace(-1, 3, 301)
    rows = list(zip(mapped, density, strict=True))
    cdfs = np.array([[mass[row <= c].sum() for c in cuts] for row, mass in rows])
    assert np.ptp(cdfs, axis=0).max() <= tolerance + 2e-3
    if tolerance == 0:
        # T(y) = sum_r w_r F_r^{-1}(F_s(y)), straight from the definition.
        edges = np.linspace(-1, 3, fine.shape[1] + 1)
        F = np.hstack([np.zeros((3, 1)), fine.cumsum(axis=1)])
        for s in range(3):
            level = np.interp(mids, edges, F[s])
            expected = sum(
                w * np.interp(level, f, edges) for w, f in zip(weights, F, strict=True)
            )
            np.testing.assert_allclose(mapped[s], expected, atol=1e-9)


def test_default_tolerance_follows_its_formula():
    # Sizes 628 and 2000: the total's noise is 18 * 800, its standard deviation 120.
    counts = np.zeros((2, 18))
    counts[:, 3] = [628, 2000]
    expected = 0.5 * np.sqrt(1 / 628 + 18 * 800 / (16 * 628**2))
    assert default_tolerance(counts, noise_variance=800.0) == pytest.approx(expected)
    assert default_tolerance(counts[::-1], noise_variance=800.0) == pytest.approx(
        expected
    )
    # It sees a group's counts through their sum only.
    shuffled = np.random.default_rng(0).permuted(counts, axis=1)
    assert default_tolerance(shuffled, noise_variance=800.0) == pytest.approx(expected)


@pytest.mark.parametrize("smallest", [240, 100, 0, -(10**6)])
def test_default_tolerance_of_a_group_lost_in_noise(smallest):
    counts = np.zeros((2, 18))
    counts[:, 0] = [smallest, 2000]
    floor = 240.0  # two standard deviations
    expected = 0.5 * np.sqrt(1 / floor + 18 * 800 / (16 * floor**2))
    assert default_tolerance(counts, noise_variance=800.0) == pytest.approx(expected)


def test_default_tolerance_without_noise():
    assert default_tolerance(np.full((2, 8), 50), noise_variance=0.0) == 0.025
    assert default_tolerance(np.zeros((2, 8)), noise_variance=0.0) == 0.5


# --- the smooth estimate ------------------------------------------------------------


def test_pooled_profile_is_the_posterior_mode():
    """The Newton iteration against a general optimiser on the dense problem."""
    rng = np.random.default_rng(0)
    k, n, variance, rough = 15, 300.0, 60.0, histogram.PROFILE_ROUGHNESS[1]
    pooled = rng.multinomial(n, rng.dirichlet(np.ones(k))) + rng.normal(0, 8, k)
    pooled[3] = -20.0
    factor = histogram._kernel_factor(histogram._bin_centres(k), 0.15)
    covariance = factor @ factor.T + rough**2 * np.eye(k)
    precision = np.linalg.inv(covariance)

    def objective(theta):
        profile, offset = np.exp(theta), theta - np.log(n / k)
        likelihood = (pooled + variance) * np.log(profile + variance) - profile
        return -likelihood.sum() + 0.5 * offset @ precision @ offset

    best = optimize.minimize(objective, np.full(k, np.log(n / k)), tol=1e-12)
    modes = histogram._profile_modes(pooled, variance, n, factor)
    profile, evidence = (found[1] for found in modes)
    np.testing.assert_allclose(np.log(profile), best.x, atol=1e-3)
    assert objective(np.log(profile)) <= best.fun + 1e-7

    weight = histogram._curvature(pooled, variance, profile)
    determinant = np.linalg.slogdet(np.eye(k) + weight[:, None] * covariance)[1]
    assert evidence == pytest.approx(-best.fun - 0.5 * determinant, abs=1e-5)


def test_curvature_bounds_the_second_derivative():
    pooled = np.array([-30.0, 0.0, 5.0, 40.0, 400.0])
    theta, variance, h = np.log([3.0, 0.1, 20.0, 40.0, 40.0]), 25.0, 1e-4

    def slope(theta):
        profile = np.exp(theta)
        return profile * (pooled - profile) / (variance + profile)

    second = -(slope(theta + h) - slope(theta - h)) / (2 * h)
    curvature = histogram._curvature(pooled, variance, np.exp(theta))
    assert (curvature > second - 1e-6).all()
    below = np.exp(theta) >= pooled
    np.testing.assert_allclose(curvature[below], second[below], rtol=1e-6)


def test_kernel_factor_reproduces_the_kernel():
    x = np.sort(np.random.default_rng(0).random(64))
    kernel = np.exp(-(np.subtract.outer(x, x) ** 2) / (2 * 0.15**2))
    factor = histogram._kernel_factor(x, 0.15)
    assert factor.shape[1] < 25
    np.testing.assert_allclose(factor @ factor.T, kernel, atol=1e-8)


def test_group_shares_are_gaussian_process_regression():
    """Posterior mean and evidence against the dense formulas."""
    rng = np.random.default_rng(0)
    k, length = 12, 0.4
    x = histogram._bin_centres(k)
    signal = rng.uniform(0.1, 5.0, (2, k))
    residual = rng.normal(size=(2, k)) + signal * np.sin(4 * x)
    factor = histogram._share_factor(x, histogram._kernel_factor(x, length))
    fitted, evidence = histogram._fit_shares(factor, residual, signal)
    for y, s, fit, value in zip(residual, signal, fitted, evidence, strict=True):
        candidates = []
        for t in (0.1, 0.2, 0.4, 0.8, 1.6):
            prior = 1 + 1.08 * np.outer(x - 0.5, x - 0.5)
            prior += t**2 * np.exp(-(np.subtract.outer(x, x) ** 2) / (2 * length**2))
            covariance = np.outer(s, s) * prior + np.eye(k)
            log_evidence = stats.multivariate_normal(cov=covariance).logpdf(y)
            mean = (prior * s) @ np.linalg.solve(covariance, y)
            candidates.append((log_evidence, mean))
        log_evidence, mean = max(candidates, key=lambda candidate: candidate[0])
        np.testing.assert_allclose(fit, mean, rtol=1e-6, atol=1e-8)
        noise_only = stats.norm.logpdf(y).sum()
        assert value == pytest.approx(log_evidence - noise_only, abs=1e-6)


@pytest.mark.parametrize("slope", [0.0, 0.6, 1.5, 3.0])
def test_group_shares_are_averaged_with_equal_shares_by_their_evidence(slope):
    """Against dense normal densities; slopes from unseen to beyond doubt."""
    k, variance = 12, 50.0
    profile = np.full(k, 200.0)
    ramp = slope * (np.arange(k) / (k - 1) - 0.5) / 2
    counts = 200 * np.array([0.7 * (1 - ramp), 0.3 * (1 + ramp)])
    counts += np.random.default_rng(3).normal(scale=variance**0.5, size=counts.shape)
    weights = histogram._group_weights(counts, profile, variance)[:, None]
    deviation = np.sqrt(histogram._count_variance(profile, weights, variance))
    residual = (counts - weights * profile) / deviation
    signal = weights * profile / deviation
    x = (np.arange(k) + 0.5) / k  # the ranks too: the profile is even
    expected, sure = [], []
    for y, s in zip(residual, signal, strict=True):

        def posterior(prior, y=y, s=s):
            covariance = np.outer(s, s) * prior + np.eye(k)
            density = stats.multivariate_normal(cov=covariance).logpdf(y)
            return density, (prior * s) @ np.linalg.solve(covariance, y)

        differ = []
        for length in (0.1, 0.2, 0.4, 0.8, 0.15, 0.3, 0.6, 1.2):
            squares = np.subtract.outer(x, x) ** 2
            differ.append(
                max(
                    (
                        posterior(
                            1
                            + 1.08 * np.outer(x - 0.5, x - 0.5)
                            + t**2 * np.exp(-squares / (2 * length**2))
                        )
                        for t in (0.1, 0.2, 0.4, 0.8, 1.6)
                    ),
                    key=lambda found: found[0],
                )
            )
        density, alike = posterior(np.ones((k, k)))
        odds = np.mean([np.exp(found - density) for found, _ in differ])
        best = max(differ, key=lambda found: found[0])[1]
        expected.append(alike + max(1 - 1 / odds**2, 0) * (best - alike))
        sure.append(best)
    shares = histogram._group_shares(counts, profile, variance)
    np.testing.assert_allclose(shares, weights * (1 + np.array(expected)), rtol=1e-5)
    shares = histogram._group_shares(counts, profile, variance, False)
    np.testing.assert_allclose(shares, weights * (1 + np.array(sure)), rtol=1e-5)


def beta_counts(seed, n=20000, n_bins=20, shares=(0.7, 0.2, 0.1)):
    """Counts of three groups of Beta scores, and their expectations."""
    edges = np.linspace(0, 1, n_bins + 1)
    pmfs = np.array(
        [np.diff(stats.beta(a, 4).cdf(edges)) for a in np.linspace(4, 3, len(shares))]
    )
    expected = n * np.array(shares)[:, None] * pmfs
    counts = np.random.default_rng(seed).poisson(expected)
    return counts, pmfs, np.array(shares)


@pytest.mark.parametrize("seed", range(5))
def test_exact_counts_give_the_histogram_within_its_sampling_error(seed):
    counts, pmfs, shares = beta_counts(seed, n_bins=8)
    estimate, weights = smooth_estimate(counts, n=counts.sum(), noise_variance=0.0)
    sizes = counts.sum(axis=1, keepdims=True)
    histograms = counts / sizes
    deviation = np.sqrt(histograms / sizes)
    assert np.abs(estimate - histograms).max() < 3 * deviation.max()
    np.testing.assert_allclose(weights, sizes[:, 0] / counts.sum(), atol=2e-3)


def test_without_noise_a_bin_without_anybody_stays_empty():
    """Of all together, not of one group; and where nobody is, all bins are alike."""
    counts, _, _ = beta_counts(0, n_bins=8)
    counts[:, 5] = counts[1, 2] = 0
    pmfs, _ = smooth_estimate(counts, n=None, noise_variance=0.0)
    assert ((pmfs == 0) == (np.arange(8) == 5)).all()
    pmfs, weights = smooth_estimate(np.zeros((3, 4)), n=None, noise_variance=0.0)
    np.testing.assert_allclose(pmfs, 1 / 4, rtol=1e-12)
    np.testing.assert_allclose(weights, 1 / 3, rtol=1e-12)
    pmfs, weights = histogram.exact_estimate(np.array([[0, 0], [0, 0], [0, 0]]))
    assert (pmfs == 1 / 2).all() and (weights == 1 / 3).all()


def test_groups_that_are_not_told_get_the_distribution_of_all():
    counts, _, _ = beta_counts(0)
    estimate = partial(smooth_estimate, counts, n=None, noise_variance=8.0)
    pmfs, weights = estimate()
    some, same = estimate(pooled=np.array([False, True, False]))
    assert (same == weights).all() and (some[[0, 2]] == pmfs[[0, 2]]).all()
    mixture = sum(w * pmf for w, pmf in zip(weights, pmfs, strict=True))
    np.testing.assert_allclose(some[1], mixture, rtol=1e-12)
    assert np.abs(pmfs[1] - mixture).sum() > 0.05


def test_a_group_has_a_thousandth_of_its_largest_share_everywhere():
    counts = np.full((2, 10), 1e4)
    counts[1, :5] = -1e4  # as noise may have it
    profile = np.full(10, 1e4)
    shares = histogram._group_shares(counts, profile, 1.0)
    assert shares[1].min() == pytest.approx(1e-3 * shares[1].max(), rel=1e-9)
    assert shares[0].min() > 0.5 * shares[0].max()


def test_steps_to_a_profile_are_short_where_long_ones_overflow():
    """Somebody else's table, with a public number of records of this one."""
    pooled = np.zeros(11)
    pooled[0] = 3.5e7
    with np.errstate(all="ignore"):
        profile = histogram._pooled_profile(pooled[None], 2800.0, 2.3)
    assert profile.sum() == pytest.approx(2800.0)
    assert (profile > 0).all() and profile.argmax() == 0


def test_smoothing_beats_the_isotonic_estimate_in_noise():
    """Mean largest error of the distribution functions, epsilon = 0.1."""
    errors = []
    for seed in range(30):
        counts, pmfs, _ = beta_counts(seed, n=5000)
        rng = np.random.default_rng(1000 + seed)
        q = np.exp(-0.1 / 2)
        noise = rng.geometric(1 - q, counts.shape) - rng.geometric(1 - q, counts.shape)
        noisy = counts + noise
        smooth, _ = smooth_estimate(
            noisy, n=counts.sum(), noise_variance=noise_variance(0.1)
        )
        isotonic, _ = isotonic_estimate(noisy, noise_scale=20.0)
        cdfs = np.cumsum([smooth - pmfs, isotonic - pmfs], axis=2)
        errors.append(np.abs(cdfs).max(axis=2).mean(axis=1))
    gains = np.diff(errors, axis=1)
    assert gains.mean() > 3 * gains.std() / np.sqrt(len(gains))


def test_no_information_gives_every_group_the_same_distribution():
    rng = np.random.default_rng(0)
    scale = 1e9
    counts = np.rint(rng.laplace(scale=scale, size=(4, 36)))
    pmfs, weights = smooth_estimate(counts, n=1000, noise_variance=2 * scale**2)
    assert_distributions(pmfs, weights, (4, 36))
    np.testing.assert_allclose(pmfs, np.broadcast_to(pmfs[0], pmfs.shape), rtol=1e-5)


@pytest.mark.parametrize("n", [None, 5000])
def test_an_empty_group_falls_back_to_the_pooled_shape(n):
    counts, _, _ = beta_counts(0, n=5000, shares=(0.6, 0.4, 0.0))
    pmfs, weights = smooth_estimate(counts, n=n, noise_variance=8.0)
    assert weights[2] < 0.005
    pooled = weights @ pmfs
    assert np.abs(np.cumsum(pmfs[2] - pooled)).max() < 0.15
    assert (pmfs > 0).all()


def test_the_known_number_of_records_is_a_constraint():
    """A common shift of all counts carries no information if n is known."""
    counts, _, _ = beta_counts(0)
    n = counts.sum()
    expected = smooth_estimate(counts, n=n, noise_variance=800.0)
    shifted = smooth_estimate(counts + 1000, n=n, noise_variance=800.0)
    for one, other in zip(expected, shifted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    unknown = smooth_estimate(counts + 1000, n=None, noise_variance=800.0)
    assert np.abs(unknown[0] - expected[0]).max() > 0.01
    own_total = smooth_estimate(counts, n=None, noise_variance=800.0)
    np.testing.assert_allclose(own_total[0], expected[0], rtol=1e-12)


def test_a_constant_is_told_by_what_lies_beyond_its_bin():
    """Of each group, and of all together; three standard deviations tell."""
    counts = np.zeros((4, 10))
    counts[:, 3] = 900, 50, 40, 10
    assert significance.is_constant(counts, 0.0)
    counts[2, 8] = 9  # noise of nine bins with variance 1: 3
    assert significance.is_constant(counts, 1.0)
    counts[2, 8] = 9.1
    assert not significance.is_constant(counts, 1.0)
    counts[:, 8] = 4.4  # of all: 17.6, with a noise of 6
    assert significance.is_constant(counts, 1.0)
    counts[:, 8] = 4.6
    assert not significance.is_constant(counts, 1.0)


GOLDEN_COUNTS = np.array(
    [
        [1, 14, 48, 61, 77, 50, 20, 5],
        [-6, 3, 6, 27, 22, 4, 12, 8],
        [2, -9, 0, 5, 1, 12, -4, 6],
    ]
)

GOLDEN_SMOOTH = [
    [0.020144, 0.053511, 0.145676, 0.239719, 0.261505, 0.167758, 0.075074, 0.036614],
    [0.015192, 0.041982, 0.125816, 0.256747, 0.262298, 0.160002, 0.088246, 0.049716],
    [0.015104, 0.042392, 0.124566, 0.236411, 0.262769, 0.178216, 0.090853, 0.049690],
]
GOLDEN_SMOOTH_WEIGHTS = [0.740291, 0.213169, 0.046540]
GOLDEN_POOLED = [0.016741, 0.045702, 0.130651, 0.241326, 0.261204, 0.172653, 0.085864]


def test_golden_values_smooth():
    estimate = partial(
        smooth_estimate, GOLDEN_COUNTS, n=370, noise_variance=noise_variance(0.5)
    )
    pmfs, weights = estimate(doubted=False)
    np.testing.assert_allclose(pmfs, GOLDEN_SMOOTH, atol=2e-6)
    np.testing.assert_allclose(weights, GOLDEN_SMOOTH_WEIGHTS, atol=2e-6)
    pmfs, _ = estimate()  # so few people differ by no more than chance and noise
    np.testing.assert_allclose(pmfs[:, :7], [GOLDEN_POOLED] * 3, atol=2e-6)


def test_golden_values_isotonic():
    """By hand: group 3 (total 13) is below its floor of 32 and gets the pooled CDF."""
    pmfs, weights = isotonic_estimate(GOLDEN_COUNTS, noise_scale=4.0)
    np.testing.assert_allclose(weights, np.array([276, 76, 13]) / 365)
    cumulated = np.array(
        [
            np.array([1, 15, 63, 124, 201, 251, 271, 276]) / 276,
            # -6 and -3 are clipped to zero, the rest is increasing.
            np.array([0, 0, 3, 30, 52, 56, 68, 76]) / 76,
            # -3, 5, 59, 152, 252, 318, 346, 365: the first is clipped.
            np.array([0, 5, 59, 152, 252, 318, 346, 365]) / 365,
        ]
    )
    np.testing.assert_allclose(np.cumsum(pmfs, axis=1), cumulated, atol=1e-15)


def estimators():
    def smooth(counts, variance):
        return smooth_estimate(counts, n=100, noise_variance=variance)

    def smooth_unknown(counts, variance):
        return smooth_estimate(counts, n=None, noise_variance=variance)

    def isotonic(counts, variance):
        return isotonic_estimate(counts, noise_scale=np.sqrt(variance / 2))

    return [smooth, smooth_unknown, isotonic]


@pytest.mark.parametrize("estimate", estimators(), ids=lambda f: f.__name__)
@settings(max_examples=60)
@given(data=st.data())
def test_every_noisy_table_gives_distributions(estimate, data):
    n_groups, n_bins = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 20)))
    magnitude = data.draw(st.sampled_from([3, 1000, 2**40, 2**62]))
    counts = data.draw(
        arrays(
            np.int64, (n_groups, n_bins), elements=st.integers(-magnitude, magnitude)
        )
    )
    variance = data.draw(st.sampled_from([0.0, 1e-6, 8.0, 800.0, 1e12]))
    before = counts.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pmfs, weights = estimate(counts, variance)
    assert_distributions(pmfs, weights, (n_groups, n_bins))
    np.testing.assert_array_equal(counts, before)
    again = estimate(counts, variance)
    np.testing.assert_array_equal(pmfs, again[0])
    np.testing.assert_array_equal(weights, again[1])


@pytest.mark.parametrize("estimate", estimators(), ids=lambda f: f.__name__)
@pytest.mark.parametrize(("n_groups", "n_bins"), [(2, 8), (50, 64), (2, 500)])
@pytest.mark.parametrize("variance", [0.0, 800.0])
def test_extreme_shapes_and_tables(estimate, n_groups, n_bins, variance):
    one_record = np.zeros((n_groups, n_bins))
    one_record[-1, -1] = 1
    noise = np.random.default_rng(0).normal(scale=28, size=(n_groups, n_bins))
    for counts in (0 * one_record, one_record, np.rint(noise), np.rint(noise) - 10**9):
        pmfs, weights = estimate(counts, variance)
        assert_distributions(pmfs, weights, (n_groups, n_bins))


@pytest.mark.parametrize("estimate", estimators(), ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_groups_does_not_matter(estimate, seed):
    counts, _, _ = beta_counts(seed, n=2000)
    noise = np.random.default_rng(seed).normal(scale=10, size=counts.shape)
    counts = counts + np.rint(noise).astype(int)
    pmfs, weights = estimate(counts, 100.0)
    order = np.array([2, 0, 1])
    permuted_pmfs, permuted_weights = estimate(counts[order], 100.0)
    np.testing.assert_allclose(permuted_pmfs, pmfs[order], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(permuted_weights, weights[order], rtol=1e-9)


# Law School data: number of records by race (asian, black, hisp, white) and
# undergraduate grade, 1.5 to 3.9 in steps of 0.1.
# fmt: off
LAW_SCHOOL_GRADES = np.arange(15, 40) / 10
LAW_SCHOOL = np.array([
    [0, 0, 0, 0, 2, 2, 4, 3, 6, 18, 24, 35, 31, 43, 58, 79, 67, 65, 81, 89, 70, 77,
     67, 48, 28],
    [0, 0, 0, 4, 4, 11, 28, 37, 56, 73, 103, 101, 120, 101, 116, 107, 105, 79, 87, 57,
     54, 51, 27, 11, 11],
    [0, 0, 0, 0, 1, 5, 5, 11, 14, 29, 33, 46, 74, 80, 88, 99, 104, 76, 80, 85, 52, 60,
     34, 30, 21],
    [1, 1, 5, 2, 13, 26, 65, 87, 154, 262, 341, 478, 661, 845, 1130, 1391, 1624, 1769,
     1738, 1791, 1734, 1560, 1351, 988, 699],
])
# fmt: on


def repair_law_school(epsilon, seed, n_bins=36, refinement=3):
    """One split of the published experiment: (1e4 MSE, KS) on the test part."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation(np.repeat(np.arange(LAW_SCHOOL.size), LAW_SCHOOL.ravel()))
    codes, grades = np.divmod(cells, LAW_SCHOOL.shape[1])
    scores, bounds = LAW_SCHOOL_GRADES[grades], (1, 4)
    bins = bin_scores(scores, bounds, n_bins)
    n_train = len(cells) * 7 // 10
    counts = np.zeros((4, n_bins))
    np.add.at(counts, (codes[:n_train], bins[:n_train]), 1)
    counts += np.rint(rng.laplace(scale=2 / epsilon, size=counts.shape))
    pmfs, weights = smooth_estimate(
        counts, n=n_train, noise_variance=noise_variance(epsilon)
    )
    grid = output_grid(bounds, n_bins, refinement)
    result = fair_barycenter(grid, refine_pmfs(pmfs, refinement), weights, 0.0)
    scores, codes, bins = scores[n_train:], codes[n_train:], bins[n_train:]
    noise = centre_indices(n_bins, refinement)[bins]
    repaired = grid[result.transport(codes, noise, 1 - rng.random(len(codes)))]
    mse = 1e4 * np.mean((repaired - scores) ** 2)
    return mse, ks_parity_difference(scores, repaired, sensitive_features=codes)


@pytest.mark.parametrize(
    ("epsilon", "mse", "ks"),
    [(np.inf, 92.2, 0.0832), (1, 94.7, 0.0859), (0.1, 93.0, 0.1646)],
)
def test_law_school_reaches_the_published_goal(epsilon, mse, ks):
    """The goals for untouched splits, within three standard errors."""
    results = np.array([repair_law_school(epsilon, seed) for seed in range(16)])
    error = results.std(axis=0, ddof=1) / np.sqrt(len(results))
    assert (results.mean(axis=0) <= np.array([mse, ks]) + 3 * error).all()


# --- the isotonic estimate ----------------------------------------------------------


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-10, 10, width=32)))
def test_isotonic_regression_has_the_smallest_largest_error(values):
    fitted = isotonic_linf(values)
    assert (np.diff(fitted) >= 0).all()
    # No monotone sequence is closer than half the largest drop.
    drops = np.maximum.accumulate(values) - values
    np.testing.assert_allclose(np.abs(fitted - values).max(), drops.max() / 2)


@pytest.mark.parametrize("seed", range(3))
def test_isotonic_regression_against_a_linear_program(seed):
    values = np.random.default_rng(seed).normal(size=15).cumsum()
    k = values.size
    # Variables: the sequence and its largest error e.
    identity, ones = np.eye(k), np.ones((k, 1))
    steps = np.hstack([identity[:-1] - identity[1:], np.zeros((k - 1, 1))])
    above = np.hstack([identity, -ones])
    below = np.hstack([-identity, -ones])
    program = optimize.linprog(
        np.eye(k + 1)[-1],
        A_ub=np.vstack([steps, above, below]),
        b_ub=np.concatenate([np.zeros(k - 1), values, -values]),
        bounds=(None, None),
    )
    assert np.abs(isotonic_linf(values) - values).max() == pytest.approx(program.fun)


def test_isotonic_estimate_of_exact_counts_is_the_histogram():
    counts, _, _ = beta_counts(0)
    pmfs, weights = isotonic_estimate(counts, noise_scale=0.0)
    sizes = counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pmfs, counts / sizes, atol=1e-14)
    np.testing.assert_allclose(weights, sizes[:, 0] / counts.sum())


@pytest.mark.parametrize(
    ("total", "pooled"),
    [(160, True), (161, False), (0, True), (-500, True)],
)
def test_floor_rule(total, pooled):
    """k = 8, scale 20: the floor is 2 sqrt(16) 20 = 160."""
    counts = np.zeros((2, 8), dtype=int)
    counts[0] = [100, 200, 300, 400, 500, 600, 700, 800]
    counts[1, 0] = total
    pmfs, weights = isotonic_estimate(counts, noise_scale=20.0)
    together = counts.sum(axis=0)
    if pooled:
        # The pooled CDF may start below zero: it is clipped.
        cdf = np.clip(np.cumsum(together) / together.sum(), 0, 1)
        np.testing.assert_allclose(np.cumsum(pmfs[1]), cdf)
    else:
        np.testing.assert_allclose(pmfs[1], [1, 0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(pmfs[0], counts[0] / 3600, atol=1e-15)
    expected = max(total, 0)
    np.testing.assert_allclose(
        weights, [3600 / (3600 + expected), expected / (3600 + expected)]
    )


@pytest.mark.parametrize("fill", [0, -7])
def test_floor_rule_when_everything_is_below_it(fill):
    pmfs, weights = isotonic_estimate(np.full((3, 8), fill), noise_scale=20.0)
    np.testing.assert_allclose(pmfs, 1 / 8)
    np.testing.assert_allclose(weights, 1 / 3)
    pmfs, _ = isotonic_estimate(np.zeros((2, 8)), noise_scale=0.0)
    np.testing.assert_allclose(pmfs, 1 / 8)


def halves(size, apart):
    """Two groups of so many, whose halves of the bins differ by so much."""
    half = np.repeat([0.5 + apart / 2, 0.5 - apart / 2], 5) / 5
    return size * np.array([half, half[::-1]])


@pytest.mark.parametrize("times, told", [(0.999, False), (1.001, True)])
def test_groups_are_told_from_the_gap_on_that_harms_a_hundredth(times, told):
    """Two alike are told by chance so seldom that 2 exp(-z^2 / 2) error is .01."""
    size, variance = 400, 20.0
    error = np.sqrt(2 * (0.25 / size + variance * 10 / (4 * size**2)))
    gap = times * error * np.sqrt(2 * np.log(2 * 2 * error / 0.01))
    untold = significance.untold_groups(halves(size, gap), variance)
    assert untold.tolist() == [not told] * 2


def untold_cells(counts, variance):
    """Where the first five regions are decided for one class, and the others not."""
    return significance.untold_cells(counts, variance, np.arange(10) // 5)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("times, told", [(0.999, False), (1.001, True)])
@pytest.mark.parametrize("size, variance", [(400, 20.0), (10_000, 9000.0)])
def test_cells_are_told_in_every_class_if_in_one(
    size, variance, times, told, n_classes
):
    error = np.sqrt(2 * (0.25 / size + variance * 10 / (4 * size**2)))
    gap = times * error * np.sqrt(2 * np.log(2 * 4 * 2 * n_classes * error / 0.01))
    counts = np.array([halves(size, 0.0)] * (n_classes - 1) + [halves(size, gap)])
    untold = untold_cells(counts, variance)
    assert untold.tolist() == [[not told] * 2] * n_classes
    assert not untold_cells(counts, 0.0).any()  # nothing is in doubt
    # A cell that drowns is not told, whatever the other classes say.
    for part, drowned in ((2.01, False), (1.99, True)):
        counts[0, 0] = part * np.sqrt(10 * variance) / 10
        untold = untold_cells(counts, variance)
        assert untold[0, 0] == (drowned or not told)


@pytest.mark.parametrize("times, told", [(0.995, False), (1.005, True)])
def test_others_may_add_as_much_as_the_gap_that_goes(times, told):
    """Two large groups are far apart; a third lies between, but for a little."""
    size, variance, shares = 1000, 50.0, np.array([0.8, 0.2, 0.5])
    error = np.sqrt(1.5 * (0.25 / size + variance * 10 / (4 * size**2)))
    for _ in range(50):  # what is left of the gap hangs on the third group as well
        largest = np.abs(shares - (shares.sum() - shares) / 2).max()
        harm = 0.01 + largest - error
        near = error * np.sqrt(2 * np.log(2 * 4 * 3 * error / harm))
        shares[2] = 0.5 + times * near
    counts = size * np.repeat(np.column_stack([shares, 1 - shares]) / 5, 5, axis=1)
    untold = untold_cells(counts[None], variance)
    assert untold.tolist() == [[False, False, not told]]


def test_groups_of_other_scores_and_alike_decisions_are_left_alone():
    """One is sure where the other doubts: a repair has no gap to remove."""
    sure, doubtful = (
        np.array([400, 0, 0, 0, 100] * 2),
        np.array([100, 0, 0, 0, 400] * 2),
    )
    sure[5:], doubtful[5:] = sure[4::-1], doubtful[4::-1]
    for extra, told in ((0, False), (300, True)):
        counts = np.array([[sure, doubtful]] * 2, dtype=float)
        counts[1, 0, 9] += extra
        assert significance._differences(counts, 1.0)[0].min() > 0.2
        assert untold_cells(counts, 1.0).tolist() == [[not told] * 2] * 2


@pytest.mark.parametrize("times, told", [(0.999, False), (1.001, True)])
def test_a_group_that_would_differ_more_after_a_repair_is_left_alone(times, told):
    """Of what the largest gap surely is, half an error may be left."""
    sizes, variance = np.array([5000.0, 5000.0, 60.0]), 2.0

    def cells(gap):
        shares = np.array([0.5 + gap / 2, 0.5 - gap / 2, 0.5])
        counts = np.column_stack([shares, 1 - shares])[:, [0] * 5 + [1] * 5] / 5
        counts[2] = 0.0
        counts[2, [4, 9]] = 0.5  # other scores, and nearly the decisions of the others
        return sizes[:, None] * counts

    noise = variance * 10 / 4
    error = np.sqrt(0.25 / 60 + noise / 60**2 + 0.25 / 1e4 + 2 * noise / 1e8)
    of_large = np.sqrt(
        0.25 / 5000 + noise / 5000**2 + 0.25 / 5060 + 2 * noise / 5060**2
    )

    def removed(gap):
        chosen = cells(gap)[:, 5:].sum(axis=1)
        rest = chosen.sum() - chosen
        return (
            np.abs(chosen / sizes - rest / (sizes.sum() - sizes))[:2].max() - of_large
        )

    differs, *_ = significance._differences(cells(0.1)[None], variance)
    assert differs[0, 2] > significance._clear_gap(error, 4 * 3, 0.01)
    gap = optimize.brentq(lambda gap: removed(gap) - 0.5 * error, 0.0, 0.5)
    untold = untold_cells(cells(times * gap)[None], variance)
    assert untold.tolist() == [[False, False, not told]]


@pytest.mark.parametrize("place", range(10))
def test_groups_differ_wherever_their_distribution_functions_do(place):
    """But at the last edge, where both are 1."""
    counts = np.full((2, 10), 100.0)
    moved = 300.0 if place < 9 else 0.0
    counts[0, min(place, 8)] += moved
    counts[0, 9] += 300.0 - moved
    gap, *_ = significance._differences(counts, 1.0)
    edges = np.arange(1, 10)
    first = (100 * edges + moved * (edges > min(place, 8))) / 1300
    np.testing.assert_allclose(gap, np.abs(first - edges / 10).max(), rtol=1e-12)


def standard_errors(sizes, k, variance):
    """Of the gap between each group and the others, by hand."""
    rest = sizes.sum() - sizes
    errors = 0.25 / sizes + variance * k / (4 * sizes**2)
    errors += 0.25 / rest + (len(sizes) - 1) * variance * k / (4 * rest**2)
    return np.sqrt(errors)


@pytest.mark.parametrize("times, told", [(0.999, False), (1.001, True)])
@pytest.mark.parametrize("smallest, variance", [(400, 900.0), (1900, 9.0), (250, 9e3)])
def test_groups_of_a_larger_table_are_doubted_together(
    smallest, variance, times, told, monkeypatch
):
    """A gap, times its odds, has to be worth the largest error for each group."""
    sizes, k = np.array([2500.0, 1000.0, smallest]), 10
    drowned = sizes < 2 * np.sqrt(k * variance)
    errors = standard_errors(sizes, k, variance)
    counts = np.repeat(sizes[:, None] / k, k, axis=1)
    counts[1, :5] += 20
    counts[1, 5:] -= 20  # .6 of them are in the first half, .5 of the others
    asked = 3 * errors[~drowned].max() / 0.1

    def some(*odds):
        fitted = None, np.array(odds)
        monkeypatch.setattr(histogram, "_varying_shares", lambda *_: fitted)
        return significance.untold_numbers

    one = some(1e-9, times * asked, 1e-9)
    pooled = drowned if told else [True] * 3
    assert one(counts, variance).tolist() == list(pooled)
    assert one(counts, variance, n=3001).tolist() == list(pooled)
    assert one(counts, variance, n=3000).all()  # as the product of all odds is zero
    of_smallest = some(0.0, 0.0, 1e9)(counts, variance)
    assert of_smallest.all() == drowned[2]  # what drowns tells nothing
    assert some(*[np.nan] * 3)(counts, variance).all()
    assert not some(0.0, 0.0, 0.0)(counts, 0.0).any()  # without noise none is doubted


@pytest.mark.parametrize("times, told", [(0.999, False), (1.001, True)])
@pytest.mark.parametrize("smallest, variance", [(400, 900.0), (1000, 9.0), (20, 2e3)])
def test_numbers_are_repaired_if_all_odds_are_worth_two_errors(
    smallest, variance, times, told, monkeypatch
):
    """Their product, times .005, has to be the largest error, which is at most one.

    Each to the power of the part of all people that are in other groups.
    """
    sizes, k = np.array([1500.0, 500.0, smallest]), 10
    error = standard_errors(sizes, k, variance).max()
    assert (error > 1) == (smallest == 20)
    counts = np.repeat(sizes[:, None] / k, k, axis=1)
    others = 1 - sizes / sizes.sum()

    def worth(times, *odds):
        """These and those that make up what is asked, so many times."""
        left = times * min(error, 1.0) / 0.005 / np.prod(odds ** others[:2])
        return *odds, left ** (1 / others[2])

    def untold(*odds, variance=variance, **of):
        fitted = None, np.array(odds)
        monkeypatch.setattr(histogram, "_varying_shares", lambda *_: fitted)
        return significance.untold_numbers(counts, variance, **of).tolist()

    assert untold(*worth(times, 2.0, 2.0)) == [not told] * 3
    assert untold(*worth(times, 2.0, 2.0), n=3000) == [not told] * 3
    of_one = untold(*worth(times, 0.5, 1.0))  # those against it take away
    assert of_one == (untold(0.5, 1.0, 1e9) if told else [True] * 3)
    assert untold(*[np.nan] * 3) == [True] * 3
    assert untold(0.0, 0.0, 0.0, variance=0.0) == [False] * 3  # nothing is doubted


@pytest.mark.parametrize("odds, told", [(199.0, False), (201.0, True)])
def test_a_group_of_less_than_nobody_weighs_as_one_of_nobody(odds, told, monkeypatch):
    counts = np.repeat([[150.0], [50.0], [-40.0]], 10, axis=1)
    fitted = None, np.array([1.0, 1.0, odds])
    monkeypatch.setattr(histogram, "_varying_shares", lambda *_: fitted)
    assert significance.untold_numbers(counts, 2e3)[2] != told


@pytest.mark.parametrize("sizes", [(2850, 150), (2550, 150, 150, 150), (750,) * 4])
def test_groups_like_all_others_are_left_alone(sizes):
    """Rows of the largest are not as smooth as people are: that told in .9."""
    rng, acted = np.random.default_rng(0), 0
    shape = np.exp(-0.5 * np.linspace(-3, 3, 22) ** 2)
    for _ in range(40):
        people = [rng.multinomial(n, shape / shape.sum()) for n in sizes]
        counts = people + rng.normal(scale=0.3, size=(len(sizes), 22))
        acted += not significance.untold_numbers(counts, 0.09, 3000).all()
    assert acted <= 4


@pytest.mark.parametrize("variance", [1.0, 100.0, 1000.0])
def test_groups_that_are_not_moved_are_named_if_they_may_differ(variance, monkeypatch):
    """By more than .1: what is seen and two errors, and their odds are against it."""
    sizes, k = np.array([1500.0, 1000.0, 500.0]), 10
    counts = np.repeat(sizes[:, None] / k, k, axis=1)
    may = 2 * standard_errors(sizes, k, variance) > 0.1
    assert may.tolist() in ([False] * 3, [False, False, True], [True] * 3)
    for odds in ([1e9, 1.0, 1.0], [1e9, 1.01, 1.0], [1.0, 1e9, 1e9]):
        fitted = None, np.array(odds)
        monkeypatch.setattr(histogram, "_varying_shares", lambda *_, f=fitted: f)
        untold = significance.untold_numbers(counts, variance)
        assert untold.tolist() == (may & (fitted[1] <= 1)).tolist()


@pytest.mark.parametrize("n", [None, 5200])
@pytest.mark.parametrize("beside", ["smooth", "counted"])
def test_odds_of_a_difference_by_dense_matrices(n, beside):
    """How likely a table is if shares vary from bin to bin, and if they do not.

    Beside a smooth profile where shares are fitted, beside all people as they are
    counted where it is asked whether groups differ.
    """
    rng, k, variance = np.random.default_rng(3), 12, 300.0
    slope = np.linspace(0.8, 1.2, k)
    counts = np.array([200 * slope, 150 * slope[::-1], 80 * np.ones(k)])
    counts += rng.normal(scale=variance**0.5, size=counts.shape)
    level = counts + (0 if n is None else (n - counts.sum()) / counts.size)
    profile = histogram._pooled_profile(level, n or counts.sum(), variance)
    weights, *_, odds = histogram._fitted_shares(level, profile, variance)
    if beside == "counted":
        odds = histogram.odds_of_differences(counts, n, variance)
    centres = (np.arange(k) + 0.5) / k
    ranks = (profile.cumsum() - profile / 2) / profile.sum()
    kernels = [(centres, one) for one in (0.1, 0.2, 0.4, 0.8)]
    kernels += [(ranks, one) for one in (0.15, 0.3, 0.6, 1.2)]
    for own, weight, found in zip(level, weights[:, 0], odds, strict=True):
        mean = weight * profile
        if beside == "smooth":
            apart, noise = own - mean, variance
        else:  # (1 - w) times its own noise, and w times that of each of two others
            apart = (1 - weight) * own - weight * (level.sum(axis=0) - own)
            noise = variance * ((1 - weight) ** 2 + 2 * weight**2)
        cov = noise + mean * (1 - weight) + (1e-5 * mean) ** 2 + 1e-6

        def likelihood(prior, mean=mean, cov=cov, apart=apart):
            of_all = np.diag(cov) + np.outer(mean, mean) * prior
            return stats.multivariate_normal(np.zeros(k), of_all).logpdf(apart)

        alike = likelihood(np.ones((k, k)))
        expected = []
        for x, length in kernels:
            smooth = np.exp(-(np.subtract.outer(x, x) ** 2) / (2 * length**2))
            line = 1 + 1.08 * np.outer(x - 0.5, x - 0.5)
            logs = [likelihood(line + a**2 * smooth) for a in (0.1, 0.2, 0.4, 0.8, 1.6)]
            expected.append(np.exp(max(logs) - alike))
        np.testing.assert_allclose(found, np.mean(expected), rtol=1e-6)
    if beside == "smooth":
        return
    # It is these odds that a larger table is asked for, of counts that add up to n.
    if n is not None:
        gaps, errors, drowned = significance._differences(counts, variance)
        errors *= (odds * gaps).max() / (3 * errors.max())  # as much as gaps are worth
        for part, untold in ((0.999, False), (1.001, True)):
            differences = gaps, part * errors, drowned
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(significance, "_differences", lambda *_, d=differences: d)
                assert significance.untold_numbers(counts, variance, n).all() == untold
    # And of a smaller one, all of them together.
    people = counts.sum(axis=1)
    product = np.prod(odds ** (1 - people / people.sum()))
    harm = 2 * significance._differences(counts, variance)[1].max() / product
    for part, untold in ((0.999, True), (1.001, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(significance, "HARM", part * harm)
            patch.setattr(significance, "MAY_REMAIN", 1.0)
            patch.setattr(significance, "LARGE", 10_000)
            found = significance.untold_numbers(counts, variance, n)
            assert found.tolist() == [untold] * 3


def test_untold_groups_differ_from_others_where_there_are_others():
    assert "['f'] differ from the others; " in significance.untold_message(["f"], 2)
    assert "['f', 'm'] differ; " in significance.untold_message(["f", "m"], 2)


def test_gaps_that_groups_may_have():
    """What is seen, and two standard errors of both sides; no more than 1."""
    counts, variance = np.array([[30.0, 10.0], [10.0, 30.0]]), 2.0
    of_one = 0.25 / 40 + 2 * variance / (4 * 40**2)  # in the middle, of two bins
    expected = 0.5 + 2 * (2 * of_one) ** 0.5
    np.testing.assert_allclose(significance.largest_gaps(counts, variance), expected)
    assert (significance.largest_gaps(counts, 1000.0) == 1.0).all()


@pytest.mark.parametrize("n_groups", [2, 4])
def test_untold_groups_by_chance_and_by_difference(n_groups):
    """Small equal groups are hardly ever told apart, different ones nearly always."""
    rng = np.random.default_rng(0)
    variance = 8.0  # of one count at epsilon 1
    gaps = []
    for _ in range(300):
        sizes = rng.integers(40, 240, size=n_groups)
        counts = np.array([rng.multinomial(n, np.full(10, 0.1)) for n in sizes])
        noisy = counts + rng.laplace(scale=2.0, size=counts.shape)
        told = ~significance.untold_groups(noisy, variance)
        cdfs = noisy.cumsum(axis=1) / noisy.sum(axis=1, keepdims=True)
        gaps.append(np.ptp(cdfs[told], axis=0).max() if told.any() else 0.0)
    assert 0 < np.mean(gaps) < 0.05  # all groups told: 0.2
    slope = np.arange(1, 11) / 55
    shifted = [slope, slope[::-1]] * (n_groups // 2)
    counts = np.array([rng.multinomial(240, pmf) for pmf in shifted])
    noisy = counts + rng.laplace(scale=2.0, size=counts.shape)
    assert not significance.untold_groups(noisy, variance).any()
    # Without noise, and in large tables, nothing is doubted but groups that drown.
    equal = np.full((n_groups, 10), 20)
    assert not significance.untold_groups(equal, 0.0).any()
    assert not significance.untold_groups(100 * equal, variance).any()
    assert significance.untold_groups(equal, variance).all()
    for people, doubted in ((3000, True), (3001, False)):
        table = np.full((n_groups, 10), people / (10 * n_groups))
        assert significance.untold_groups(table, variance).all() == doubted
    noise = (10 * variance) ** 0.5
    for size, drowned in ((2.01, False), (1.99, True)):
        table = np.vstack([100 * equal[1:], np.full(10, size * noise / 10)])
        told = significance.untold_groups(table, variance)
        assert told.tolist() == [False] * (n_groups - 1) + [drowned]


def test_a_group_without_a_record_is_spread_evenly_without_a_warning():
    pmfs, weights = histogram.exact_estimate(np.array([[1, 3], [0, 0]]))
    assert pmfs.tolist() == [[0.25, 0.75], [0.5, 0.5]] and weights.tolist() == [1, 0]


def test_a_small_group_by_itself_is_where_its_counts_are():
    """Two fifths of it were put among the others, and a repair left half of the gap."""
    n_bins, variance = 40, 8.0
    centres = (np.arange(n_bins) + 0.5) / n_bins
    many = np.exp(-0.5 * ((centres - 0.5) / 0.12) ** 2) * (centres < 0.8)
    few = (centres > 0.8) / 1.0
    expected = np.array([20_000 * many / many.sum(), 500 * few / few.sum()])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        counts = expected + rng.normal(scale=np.sqrt(variance), size=expected.shape)
        masses, _ = smooth_estimate(counts, n=20_500, noise_variance=variance)
        assert masses[1, centres < 0.8].sum() < 0.18


def test_noise_alone_does_not_put_a_group_by_itself(monkeypatch):
    """With as much evidence as a usual share it cost 8 % of the error of a table."""
    centres = (np.arange(36) + 0.5) / 36
    many, few = (np.exp(-0.5 * ((centres - at) / 0.15) ** 2) for at in (0.5, 0.35))
    expected = np.array([6000 * many / many.sum(), 300 * few / few.sum()])
    found = []
    for amplitudes in (histogram.SHARE_AMPLITUDES, histogram.SHARE_AMPLITUDES[:5]):
        monkeypatch.setattr(histogram, "SHARE_AMPLITUDES", amplitudes)
        rng = np.random.default_rng(0)
        for _ in range(10):
            counts = rng.poisson(expected) + rng.normal(scale=3, size=expected.shape)
            found.append(smooth_estimate(counts, n=6300, noise_variance=9.0)[0])
    np.testing.assert_allclose(found[:10], found[10:])


def test_a_group_of_200_is_by_itself_where_the_evidence_just_suffices():
    centres = (np.arange(40) + 0.5) / 40
    many = np.exp(-0.5 * ((centres - 0.5) / 0.12) ** 2) * (centres < 0.8)
    few = np.where(centres > 0.8, 25.0, 0.0)  # 200 people
    expected = np.array([4000 * many / many.sum(), few])
    for seed in (0, 1, 2, 4):
        rng = np.random.default_rng(seed)
        counts = expected + rng.normal(scale=math.sqrt(50), size=expected.shape)
        masses, _ = smooth_estimate(counts, n=4200, noise_variance=50.0)
        assert masses[1, centres < 0.8].sum() < 0.4
