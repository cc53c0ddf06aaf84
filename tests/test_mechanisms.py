import itertools
import math
from collections import Counter
from fractions import Fraction
from hashlib import blake2b
from itertools import permutations
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from _audit import gaussian_audit, pure_audit
from _ends import approx, ends_within
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairpriv_sklearn import mechanisms
from fairpriv_sklearn._wall import Release
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    NoiseSource,
    PermuteAndFlip,
    noise_source,
)

# A correct sampler fails one of these tests with this probability; seeds are fixed.
REJECT = 1e-4


def scripted_source(words):
    """A source that deals out the given words in order."""
    remaining = list(words)

    def deal(n):
        assert n <= len(remaining), "More words are drawn than the draw takes."
        dealt, remaining[:n] = remaining[:n], []
        return np.array(dealt, dtype=np.uint64)

    return NoiseSource(deal, is_secure=False)


def bounded_source(seed, n_words):
    """A seeded source that deals out a limited number of words."""
    return scripted_source(np.random.PCG64DXSM(seed).random_raw(n_words))


@pytest.mark.parametrize("scale", [1e-6, 0.1, 2.0, 300.0, 1e6, 1e9])
def test_laplace_draws_take_few_steps(scale):
    # One word each, but for a tie; a loop over bits and digits, none over draws.
    noise = bounded_source(0, 2002)
    with ends_within(400, mechanisms):
        mechanism = laplace_of_scale(scale)
        drawn = mechanism.release(np.zeros(2000, dtype=np.int64), noise)
        assert mechanism.epsilon_spent <= mechanism.epsilon
    assert 0.2 < np.mean(np.abs(drawn) < math.log(2) * scale) < 0.8 or scale < 1


def test_every_choice_takes_few_steps():
    largest = 2**64 // 3 * 3 - 1
    with ends_within(60, mechanisms):
        assert scripted_source([largest, 7]).integers(10, 13, 2).tolist() == [12, 10]
    with ends_within(60, mechanisms):
        assert scripted_source([]).integers(5, 6, 2).tolist() == [5, 5]
    for seed in range(20):
        with ends_within(100, mechanisms):
            drawn = bounded_source(seed, 9).choice(10, 3)
            assert len(set(drawn.tolist())) == 3
            assert 0 <= drawn.min() <= drawn.max() < 10
        with ends_within(100, mechanisms):
            assert sorted(bounded_source(seed, 8).choice(4, 4)) == [0, 1, 2, 3]
        with ends_within(1500, mechanisms):
            mechanism = PermuteAndFlip(0.5, epsilon=3.0)
            assert mechanism.release([0.0, 1.5, 2.0], bounded_source(seed, 200)) < 3


def ideal_normal_quantile(probability):
    with mpmath.workdps(60):
        return float(mpmath.sqrt(2) * mpmath.erfinv(2 * probability - 1))


# --- Sources --------------------------------------------------------------------------


def test_operating_system_entropy_is_the_default():
    noise = noise_source()
    assert noise.is_secure
    draws = noise.uint64(4096)
    assert np.unique(draws).size == 4096
    bits = np.unpackbits(draws.view(np.uint8))
    # 262144 fair bits: eight standard deviations.
    assert abs(bits.mean() - 0.5) < 8 * 0.5 / math.sqrt(bits.size)


@pytest.mark.parametrize(
    "make",
    [
        lambda: 7,
        lambda: np.int64(7),
        lambda: np.random.RandomState(7),
        lambda: np.random.default_rng(7),
    ],
)
def test_seeded_sources_repeat_and_are_not_secure(make):
    first, second = noise_source(make()), noise_source(make())
    assert not first.is_secure
    np.testing.assert_array_equal(first.uint64(100), second.uint64(100))
    assert not np.array_equal(first.uint64(100), noise_source(8).uint64(100))


@pytest.mark.parametrize(
    "generator", [np.random.RandomState(7), np.random.default_rng(7)]
)
def test_consecutive_fits_from_one_generator_differ(generator):
    assert not np.array_equal(
        noise_source(generator).uint64(10), noise_source(generator).uint64(10)
    )


def test_a_source_passes_through_and_anything_else_is_refused():
    noise = noise_source(0)
    assert noise_source(noise) is noise
    with pytest.raises(ValueError, match="random_state must be .* got str"):
        noise_source("seed")


@pytest.mark.parametrize("size", [5, (5,), (2, 3), (0,), 0])
def test_shapes(size):
    noise = noise_source(0)
    shape = np.empty(size).shape
    for draw in (
        noise.uint64(size),
        noise.uniform(size),
        noise.bernoulli(size, 0.5),
        noise.bernoulli(size, 1.0),
        noise.standard_normal(size),
        noise.integers(0, 3, size),
    ):
        assert draw.shape == shape


def test_uniform_stays_inside_the_open_interval():
    ends = scripted_source([0, 2**64 - 1]).uniform(2)
    np.testing.assert_array_equal(ends, [2.0**-53, 1 - 2.0**-53])
    draws = noise_source(0).uniform(20_000)
    assert stats.kstest(draws, "uniform").pvalue > REJECT


def test_bernoulli_is_exact_at_the_threshold_and_never_exceeds_p():
    # p = 1/4 is hit by exactly the words below 2**62.
    bits = scripted_source([0, 2**62 - 1, 2**62, 2**64 - 1]).bernoulli(4, 0.25)
    np.testing.assert_array_equal(bits, [True, True, False, False])
    assert not scripted_source([0]).bernoulli(1, 0.0)[0]
    assert noise_source(0).bernoulli(10, 1.0).all()
    n = 100_000
    hits = int(noise_source(0).bernoulli(n, 0.3).sum())
    assert stats.binomtest(hits, n, 0.3).pvalue > REJECT
    with pytest.raises(ValueError, match=r"p must be in \[0, 1\]"):
        noise_source(0).bernoulli(1, 1.5)


def test_draws_of_few_words_one_by_one():
    halves = scripted_source([0, 2**63 - 1, 2**63]).bernoulli(3, 0.5)
    assert halves.tolist() == [True, True, False]
    cell = 2**64 // 3
    assert scripted_source([0, cell, 2 * cell]).integers(-1, 2, 3).tolist() == [
        -1,
        0,
        1,
    ]
    for n in (8, 5):
        words = mechanisms._system_words(n)
        assert words.shape == (n,) and words.dtype == np.uint64


def test_integers_reject_instead_of_wrapping():
    # Cells of 2**64 // 3 words: the single last word belongs to none of them.
    cell = 2**64 // 3
    words = [0, cell - 1, cell, 3 * cell - 1, 2**64 - 1, 2 * cell]
    np.testing.assert_array_equal(
        scripted_source(words).integers(10, 13, 5), [10, 10, 11, 12, 12]
    )
    # Modulo would give the lower half of this range twice the probability.
    values = noise_source(0).integers(-(2**62), 2**61, 30_000)
    assert values.min() >= -(2**62) and values.max() < 2**61
    share = np.histogram(values, bins=[-(2**62), -(2**61), 0, 2**61])[0]
    assert stats.chisquare(share).pvalue > REJECT
    np.testing.assert_array_equal(noise_source(0).integers(5, 6, 4), [5, 5, 5, 5])
    with pytest.raises(ValueError, match="low must be below high"):
        noise_source(0).integers(3, 3, 1)


def test_choice_is_uniform_over_ordered_selections():
    noise = noise_source(0)
    n_runs = 12_000
    drawn = np.array([noise.choice(4, 2) for _ in range(n_runs)])
    counts = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16).reshape(4, 4)
    assert np.all(np.diag(counts) == 0)
    assert stats.chisquare(counts[~np.eye(4, dtype=bool)]).pvalue > REJECT


@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 2), (4, 3), (3, 3)])
def test_all_ordered_selections_are_equally_likely(n, k):
    noise = noise_source(1)
    n_runs = 6_000
    seen = Counter(tuple(noise.choice(n, k).tolist()) for _ in range(n_runs))
    possible = list(permutations(range(n), k))
    assert set(seen) <= set(possible)
    assert stats.chisquare([seen[one] for one in possible]).pvalue > REJECT


def test_a_small_choice_from_many_takes_few_words():
    words = []

    def counted(size):
        words.append(size)
        return np.random.PCG64DXSM(len(words)).random_raw(size)

    noise = NoiseSource(counted, is_secure=False)
    chosen = noise.choice(10**9, 256)
    assert len(set(chosen.tolist())) == 256 and chosen.max() < 10**9
    assert sum(words) < 300


@pytest.mark.parametrize(("k", "taken"), [(5, 5), (6, 10)])
def test_half_of_all_indices_take_a_word_each_and_more_take_a_word_of_all(k, taken):
    cell = 2**64 // 10
    noise = scripted_source([(3 * i % 10) * cell for i in range(10)] + [77])
    assert len(set(noise.choice(10, k).tolist())) == k
    assert noise.uint64(11 - taken)[-1] == 77


def test_a_generator_seeds_with_four_words():
    for make in (lambda: np.random.RandomState(7), lambda: np.random.default_rng(7)):
        draw = getattr(make(), "integers", None) or make().randint
        seed = draw(0, 2**32, size=4, dtype=np.uint32)
        expected = np.random.PCG64DXSM(seed).random_raw(3)
        np.testing.assert_array_equal(noise_source(make()).uint64(3), expected)


def test_a_repeated_index_is_drawn_anew():
    cell = 2**64 // 10
    noise = scripted_source([3 * cell, 3 * cell, 7 * cell, 7 * cell, 0])
    assert noise.choice(10, 3).tolist() == [3, 7, 0]


def test_repeated_indices_are_drawn_anew_from_all():
    cell = 2**64 // 3
    noise = scripted_source([cell + 1, cell + 1, 2 * cell + 2, 1])
    assert noise._distinct(3, 3).tolist() == [1, 2, 0]


def test_of_two_equal_indices_one_is_drawn_anew():
    cell = 2**64 // 3
    noise = scripted_source([cell + 1, cell + 1, 1])
    assert noise._distinct(3, 2).tolist() == [1, 0]


@pytest.mark.parametrize("kind", [np.random.RandomState, np.random.default_rng])
def test_generators_of_numpy_seed_with_128_bits(kind):
    drawn = kind(5)
    draw = getattr(drawn, "randint", None) or drawn.integers
    words = draw(1 << 32, size=4, dtype=np.uint32)
    expected = np.random.PCG64DXSM(words).random_raw(3)
    np.testing.assert_array_equal(noise_source(kind(5)).uint64(3), expected)


def test_nothing_is_chosen_of_nobody():
    assert noise_source(0).choice(0, 0).shape == (0,)


def test_choice_redraws_ties_and_checks_k():
    assert scripted_source([5, 5, 9, 4]).choice(2, 2).tolist() == [1, 0]
    np.testing.assert_array_equal(np.sort(noise_source(0).choice(50, 50)), range(50))
    assert noise_source(0).choice(3, 0).size == 0
    with pytest.raises(ValueError, match=r"k must be in \[0, n\]"):
        noise_source(0).choice(3, 4)


def test_key_has_the_length_asked_for():
    assert len(noise_source().key()) == 32
    assert len(noise_source().key(13)) == 13
    assert noise_source().key() != noise_source().key()


# --- Normal draws ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "magnitude",
    [0, 1, 2**20, 2**42 + 12345, 2**43 - 1, 2**43, 2**50 - 1, 2**50, 2**50 + 3]
    + [2**57, 2**61 + 987654321, 2**62, 2**63 - 1],
)
@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("more", [0, 2**63 + 17, 2**64 - 1])
def test_normal_inverts_the_distribution_function(magnitude, sign, more):
    word = magnitude + (sign << 63)
    noise = scripted_source([word, more, 5])
    z = noise.standard_normal(1)[0]
    assert noise.uint64(1) == (5 if magnitude < 2**50 else more)
    with mpmath.workdps(60):
        fraction = mpmath.mpf(1) / 2
        if magnitude < 2**50:
            fraction = (more + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** 64
        ideal = ideal_normal_quantile((magnitude + fraction) / mpmath.mpf(2) ** 64)
    # Spacing of doubles near z, and near 0 of the probability 1/2.
    assert abs(z - (-ideal if sign else ideal)) <= 4e-16 * max(1.0, abs(ideal))


@pytest.mark.parametrize("z", [0, 0.3, 1, 2.5, 3.8, 3.9, 5, 6.9, 7, 8.67, 10])
@pytest.mark.parametrize("fraction", [1.0, 1.37, 1.999])
@pytest.mark.parametrize("n_coordinates", [1, 1 << 30])
def test_cell_probabilities_are_within_the_accounted_error(z, fraction, n_coordinates):
    """Beyond |z| = 10, a probability of 2e-23, a cell holds too few integers."""
    mechanism = GaussianMechanism(fraction * 2.0**-7, 2.0**-7, n_coordinates)
    error = cell_error(z, mechanism.scale / mechanism.grid)
    assert error < (3e-8 if z <= 5 else 5e-8)


MOST_UNITS = 3 * 2.0**21  # of a standard deviation


def test_the_error_of_cells_is_small_on_average():
    """The proof takes a quarter of what is accounted for the root mean square."""
    errors = [
        cell_error(abs(z), MOST_UNITS)
        for z in np.random.default_rng(0).normal(size=300)
    ]
    assert math.sqrt(np.mean(np.square(errors))) < 0.25e-8


def test_the_error_of_cells_near_five_deviations():
    """The proof takes three times what is accounted for; some have more than twice."""
    errors = [cell_error(z, MOST_UNITS) for z in np.linspace(4.9, 5, 500)]
    assert max(errors) < 3e-8


def test_the_moments_of_the_errors_are_those_of_what_is_accounted_for():
    """The last inequality of the proof, with what is measured of cells."""
    s = np.linspace(0.01, 30, 3000)
    inside, tail = np.expm1(3 * s) - 3 * s, np.expm1(5 * s) - 5 * s
    far = 2 * stats.norm.sf(5)
    assert far < 6e-7
    assert np.all(np.log1p(inside / 144 + 6e-7 * tail) <= s**2 / 2)


def cell_error(z, units_per_scale):
    """Count the 127-bit integers that land in one grid cell, by bisection."""

    def cell(integer):  # the unit a 127-bit lower tail probability is rounded to
        magnitude = np.array([integer >> 64], dtype=np.uint64)
        more = np.array([integer & (2**64 - 1)], dtype=np.uint64)
        in_tail = np.flatnonzero(magnitude < 2**50)
        value = mechanisms._lower_normal_quantile(magnitude, in_tail, more[in_tail])
        return int(np.rint(value * units_per_scale)[0])

    def first_at_least(unit):
        low, high = 0, 2**127
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if cell(middle) >= unit else (middle + 1, high)
        return low

    unit = round(-z * units_per_scale) - 1  # -1: the whole cell is below zero
    measured = first_at_least(unit + 1) - first_at_least(unit)
    with mpmath.workdps(60):
        edges = [
            mpmath.ncdf((unit + mpmath.mpf(half)) / mpmath.mpf(units_per_scale))
            for half in (-0.5, 0.5)
        ]
        ideal = (edges[1] - edges[0]) * mpmath.mpf(2) ** 128
    return abs(float(measured / ideal) - 1.0)


def test_normal_distribution_and_symmetry():
    draws = noise_source(0).standard_normal(200_000)
    assert stats.kstest(draws, "norm").pvalue > REJECT
    assert stats.binomtest(int((draws > 0).sum()), draws.size).pvalue > REJECT
    beyond = int((np.abs(draws) > 3.5).sum())
    assert stats.binomtest(beyond, draws.size, 2 * stats.norm.sf(3.5)).pvalue > REJECT


# --- Gaussian mechanism ---------------------------------------------------------------


@given(
    sensitivity=st.floats(1e-9, 1e9),
    mu=st.floats(1e-3, 1e3),
    n_coordinates=st.integers(1, 10**6),
)
def test_gaussian_scale_covers_the_rounding_of_the_query(
    sensitivity, mu, n_coordinates
):
    mechanism = GaussianMechanism(sensitivity, mu, n_coordinates)
    assert math.frexp(mechanism.grid)[0] == 0.5  # a power of two
    ideal = Fraction(sensitivity) / Fraction(mu)
    assert ideal / 2**21 < Fraction(mechanism.grid) * (1 + Fraction(1, 10**9))
    assert mechanism.grid <= 2.0**-20 * mechanism.scale
    with mpmath.workdps(40):
        inflated = sensitivity + mechanism.grid * mpmath.sqrt(n_coordinates)
        assert mechanism.scale >= inflated / mpmath.mpf(mu)
        assert mechanism.scale <= inflated / mpmath.mpf(mu) * (1 + 1e-14)


@given(value=st.floats(allow_nan=True, allow_infinity=True), mu=st.floats(1e-3, 1e3))
def test_gaussian_output_lies_on_the_grid_for_every_value(value, mu):
    mechanism = GaussianMechanism(1.0, mu, 3)
    released = mechanism.release(np.full(3, value), noise_source(0))
    units = released / mechanism.grid
    assert np.all(np.isfinite(released)) and np.all(units == np.rint(units))


def test_gaussian_saturates_huge_values_and_counts_nan_as_zero():
    mechanism = GaussianMechanism(1.0, 1.0, 4)
    value = np.array([np.nan, np.inf, -np.inf, 1e300])
    released = mechanism.release(value, noise_source(0))
    limit = 2.0**62 * mechanism.grid
    assert released[0] == mechanism.release(np.zeros(4), noise_source(0))[0]
    np.testing.assert_allclose(released[1:], [limit, -limit, limit], rtol=1e-9)


def test_noise_of_more_units_than_a_float_tells_apart_is_refused():
    """Most cells of 2**57 units got no draw: which ones were told the private number.

    In a plan it is refused before anything is spent, whatever the sensitivity.
    """
    for root in (1, 2, 1000):
        least, n_numbers = root * 2.0**-22, root**2
        most = GaussianMechanism(1.0, least, n_numbers)
        assert most.scale <= MOST_UNITS * most.grid
        Release("counts", "gaussian", 2 * least, n_numbers)
        less = math.nextafter(least, 0.0)
        with pytest.raises(ValueError, match="too small for n_coord.* release fewer"):
            GaussianMechanism(1.0, less, n_numbers)
        with pytest.raises(ValueError, match="that is for counts: mu=.* is too small"):
            Release("counts", "gaussian", 2 * less, n_numbers)


def test_gaussian_release_is_the_rounded_query_plus_rounded_noise():
    mechanism = GaussianMechanism(2.0, 0.7, 6)
    value = np.linspace(-3, 5, 6).reshape(2, 3)
    z = noise_source(3).standard_normal((2, 3))
    grid = mechanism.grid
    expected = np.rint(value / grid) * grid + np.rint(mechanism.scale * z / grid) * grid
    np.testing.assert_array_equal(mechanism.release(value, noise_source(3)), expected)


def test_keyed_noise_is_that_of_the_words_of_a_keyed_hash():
    mechanism, secret = GaussianMechanism(2.0, 0.7, 9), b"s" * 32
    keys = [b"%d" % i for i in range(20_000)]
    digests = [blake2b(key, key=secret, digest_size=16).digest() for key in keys]
    words = [[int.from_bytes(d[i : i + 8], "little") for d in digests] for i in (0, 8)]
    more = [b for a, b in zip(*words, strict=True) if a % 2**63 < 2**50]
    assert more  # some are in the tail
    counts = np.arange(20_000)
    same = GaussianMechanism(2.0, 0.7, 20_000)
    expected = same.release(counts, scripted_source(words[0] + more))
    released = mechanism.release_keyed(counts, keys, secret)
    ours = mechanism.scale / same.scale  # the grid is paid for by fewer numbers
    np.testing.assert_allclose(released - counts, (expected - counts) * ours, atol=3e-6)
    np.testing.assert_array_equal(released % mechanism.grid, 0)
    silent = GaussianMechanism(2.0, math.inf, 9)
    np.testing.assert_array_equal(silent.release_keyed(counts, keys, secret), counts)
    assert mechanism.release_keyed([], [], secret).size == 0


def test_in_the_tail_keyed_noise_takes_the_rest_of_its_own_digest(monkeypatch):
    halves = [(0, 2**63), (2**63 + 5, 3), (2**60, 1), (7, 2**64 - 1)]
    digests = iter([b"".join(h.to_bytes(8, "little") for h in two) for two in halves])
    monkeypatch.setattr(
        mechanisms,
        "blake2b",
        lambda *_, digest_size, **__: SimpleNamespace(
            digest=lambda: next(digests)[:digest_size]
        ),
    )
    mechanism = GaussianMechanism(1.0, 1.0, 4)
    keys = [b"a", b"b", b"c", b"d"]
    released = mechanism.release_keyed([0] * 4, keys, b"s" * 32)
    first = [half for half, _ in halves]
    in_tail = [more for half, more in halves if half % 2**63 < 2**50]
    expected = mechanism.release(np.zeros(4), scripted_source([*first, *in_tail]))
    np.testing.assert_array_equal(released, expected)


@pytest.mark.parametrize("delta", [1.0, 1.5, -0.1])
def test_the_threshold_of_keys_wants_a_probability(delta):
    with pytest.raises(ValueError, match="delta must be in"):
        GaussianMechanism(1.0, 0.5, 3).key_threshold(delta, 1)


@pytest.mark.parametrize("n_columns", [1, 40])
def test_the_threshold_of_keys_is_rounded_up_by_a_hair(n_columns):
    mechanism = GaussianMechanism(1.0, 0.5, 3)
    with mpmath.workdps(40):
        alone = 1 - (1 - mpmath.mpf(1e-7)) ** (mpmath.mpf(1) / n_columns)
        quantile = -mpmath.sqrt(2) * mpmath.erfinv(2 * alone - 1)
        ideal = 1 + mechanism.grid + mechanism.scale * quantile
    excess = (mechanism.key_threshold(1e-7, n_columns) - ideal) / mechanism.scale
    assert 0.9e-9 < float(excess / quantile) < 1.1e-9
    assert GaussianMechanism(1.0, math.inf, 3).key_threshold(1e-7, n_columns) == 1.0
    assert mechanism.key_threshold(1e-7, 0) == 1.0


def test_gaussian_noise_has_the_stated_distribution():
    mechanism = GaussianMechanism(3.0, 0.5, 100_000)
    noise = mechanism.release(np.zeros(100_000), noise_source(1))
    assert stats.kstest(noise / mechanism.scale, "norm").pvalue > REJECT


def test_no_noise_without_privacy():
    value = np.array([0.1, 0.2])
    mechanism = GaussianMechanism(1.0, math.inf, 2)
    assert mechanism.scale == mechanism.grid == 0.0
    np.testing.assert_array_equal(mechanism.release(value, noise_source(0)), value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0, 1), "sensitivity must be in"),
        ((math.inf, 1.0, 1), "sensitivity must be in"),
        ((math.nan, 1.0, 1), "sensitivity must be in"),
        ((1.0, 0.0, 1), "mu must be in"),
        ((1.0, math.nan, 1), "mu must be in"),
        ((1.0, 1.0, 0), "n_coordinates must be"),
        ((1e200, 1e-100, 1), "sensitivity / mu must be in"),
        ((1e250, 1.0, 1), "sensitivity / mu must be in"),
        ((1e-250, 1.0, 1), "sensitivity / mu must be in"),
    ],
)
def test_gaussian_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        GaussianMechanism(*arguments)


def test_gaussian_arguments_at_their_limits_are_taken():
    for sensitivity in (1.1e-250, 0.9e250):
        grid = GaussianMechanism(sensitivity, 1.0, 1).grid
        assert 2**-21 < grid / sensitivity <= 2**-20


def test_gaussian_checks_the_number_of_entries():
    with pytest.raises(ValueError, match="n_coordinates=2 entries, got 3"):
        GaussianMechanism(1.0, 1.0, 2).release(np.zeros(3), noise_source(0))


def low_bits_attack(outputs):
    """Mironov's event: a number near 0 that is no sum 1 + noise in doubles."""
    scaled = outputs * 2.0**53
    return np.mean((np.abs(outputs) < 0.5) & (scaled != np.rint(scaled)))


def test_the_floating_point_attack_fails():
    n = 20_000
    rng = np.random.default_rng(0)
    # The oracle: naive noise is told apart with certainty by one output in four.
    assert low_bits_attack(0.0 + rng.normal(size=n)) > 0.2
    assert low_bits_attack(1.0 + rng.normal(size=n)) == 0.0
    mechanism = GaussianMechanism(1.0, 1.0, n)
    for value in (0.0, 1.0, 1.0 / 3.0):
        outputs = mechanism.release(np.full(n, value), noise_source(0))
        assert low_bits_attack(outputs) == 0.0


# --- Discrete Laplace mechanism -------------------------------------------------------


def laplace_pmf(z, rate):
    return np.exp(-rate * np.abs(z)) * np.tanh(rate / 2)


@pytest.mark.parametrize(
    ("sensitivity", "epsilon"),
    [(1, 0.05), (2, 0.5), (1, 1.0), (3, 0.7), (1, 3.0), (1, 7.5), (2, 5.0)],
)
def test_discrete_laplace_matches_its_probabilities(sensitivity, epsilon):
    n = 100_000
    mechanism = DiscreteLaplaceMechanism(sensitivity, epsilon)
    noise = mechanism.release(np.zeros(n, dtype=np.int64), noise_source(11))
    rate = epsilon / sensitivity
    reach = 1
    while n * laplace_pmf(reach + 1, rate) > 10:
        reach += 1
    cells = np.arange(-reach, reach + 1)
    observed = np.array([(noise == z).sum() for z in cells])
    expected = n * laplace_pmf(cells, rate)
    observed = np.append(observed, n - observed.sum())
    expected = np.append(expected, n - expected.sum())
    assert stats.chisquare(observed, expected).pvalue > REJECT


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 0.003])
def test_discrete_laplace_at_large_scales(epsilon):
    mechanism = DiscreteLaplaceMechanism(1, epsilon)
    noise = mechanism.release(np.zeros(20_000, dtype=np.int64), noise_source(2))
    assert stats.kstest(noise / mechanism.scale, "laplace").pvalue > REJECT
    # Consecutive integers occur, not multiples of something.
    assert stats.binomtest(int((noise % 2).sum()), noise.size).pvalue > REJECT


@pytest.mark.parametrize("epsilon", [50.0, 1e6])
def test_discrete_laplace_with_a_huge_budget_is_silent(epsilon):
    counts = np.arange(1000)
    mechanism = DiscreteLaplaceMechanism(1, epsilon)
    np.testing.assert_array_equal(mechanism.release(counts, noise_source(0)), counts)
    assert mechanism.variance < 1e-20


SCALES = [0.1, 2.0, 20.0, 300.0, 3e4, 1e6, 1e9]


def laplace_of_scale(scale):
    sensitivity = max(1, int(scale * 1e-3))
    return DiscreteLaplaceMechanism(sensitivity, sensitivity / scale)


def laplace_tail(mechanism, k):
    """P(|Z| >= k), for k >= 1, of the rational scale."""
    t, shift = mechanism._ratio
    ratio = mpmath.exp(-mpmath.mpf(2**shift) / t)
    return 2 * ratio**k / (1 + ratio)


@pytest.mark.parametrize("scale", [*SCALES, 2.0**39.5])
def test_laplace_thresholds_are_as_close_as_the_margin_assumes(scale):
    t, shift = laplace_of_scale(scale)._ratio
    ratio, factor, powers = mechanisms._laplace_thresholds(t, shift)
    rng = np.random.default_rng(0)
    with mpmath.workdps(40):
        rate = mpmath.mpf(2**shift) / t
        assert abs(ratio / mpmath.exp(-rate) - 1) < 2.0**-53
        assert abs(factor * (1 + mpmath.exp(-rate)) / 2**64 - 1) < 2.0**-51
        for _ in range(200):
            digits = [int(rng.integers(power.size)) for power in powers]
            k = sum(digit << (10 * i) for i, digit in enumerate(digits))
            entries = [power[j] for power, j in zip(powers, digits, strict=True)]
            assert abs(math.prod(entries) / mpmath.exp(-k * rate) - 1) < 2.0**-46.5
    assert k < math.prod(power.size for power in powers) <= 90 * scale
    assert sum(power.size for power in powers) <= 5 * 2**10  # 40 kB


@pytest.mark.parametrize("scale", [1e-6, 1 / 720, *SCALES, 2.0**39.5])
def test_discrete_laplace_inverts_its_distribution_function(scale):
    mechanism = laplace_of_scale(scale)
    rng = np.random.default_rng(1)
    tails = [0, 1, 2, 10**6, 2**40, 2**62, 2**63 - 2, 2**63 - 1]
    words = np.append(np.uint64(tails), rng.integers(2**63, size=60, dtype=np.uint64))
    # Any further words say one half: U is word + 1/2, or a little more.
    source = scripted_source([*words, *[2**63] * 2 * words.size])
    noise = mechanism.release(np.zeros(words.size, dtype=np.int64), source)
    t, shift = mechanism._ratio
    with mpmath.workdps(60):
        factor = laplace_tail(mechanism, 0)
        for word, drawn in zip(words, noise, strict=True):
            u = (int(word) + mpmath.mpf(0.5) + 1e-18) / mpmath.mpf(2) ** 63
            assert drawn == mpmath.floor(mpmath.log(factor / u) * t / 2**shift)


@pytest.mark.parametrize(
    ("scale", "k"),
    [(0.1, 1), (0.1, 4), (2.0, 1), (2.0, 70), (20.0, 19), (300.0, 1), (300.0, 5000)]
    + [(3e4, 31_234), (1e6, 12_345_678), (1e9, 123_456_789), (2.0**39.5, 10**12)],
)
@pytest.mark.parametrize("sign", [0, 1])
def test_discrete_laplace_decides_ties_with_more_bits(scale, k, sign):
    mechanism = laplace_of_scale(scale)
    with mpmath.workdps(100):
        tail = int(mpmath.floor(laplace_tail(mechanism, k) * mpmath.mpf(2) ** 191))
    first, second, third = [(tail >> bits) % 2**64 for bits in (128, 64, 0)]
    for words, magnitude in [
        ([first - 1], k),
        ([first, second - 1], k),
        ([first, second, third - 1], k),
        ([first, second, third + 1], k - 1),
        ([first, second + 1], k - 1),
        ([first + 1], k - 1),
    ]:
        noise = scripted_source([words[0] + (sign << 63), *words[1:]])
        released = mechanism.release(np.array([100]), noise)
        assert released.tolist() == [100 - magnitude if sign else 100 + magnitude]
        with pytest.raises(AssertionError, match="More words"):
            noise.uint64(1)  # none is left


def test_the_sign_is_the_first_bit_and_digits_are_taken_as_needed():
    mechanism, zero = laplace_of_scale(2.0), np.zeros(1, dtype=np.int64)
    words = [2**62, 7, 9]
    above = mechanism.release(zero, scripted_source([0, *words]))
    below = mechanism.release(zero, scripted_source([2**63, *words]))
    assert above > 80 and below == -above
    t, shift = laplace_of_scale(0.1)._ratio
    assert mechanisms._laplace_magnitude(scripted_source([]), 1, t, shift) == 4


@pytest.mark.parametrize(
    "wrong",
    # The last guesses 1024 too much, the number of thresholds.
    [lambda log: 1.001 * log, lambda log: 40.0 - log, lambda log: log - 1024 / 20],
)
def test_a_wrong_logarithm_changes_no_draw(wrong, monkeypatch):
    mechanism, counts = DiscreteLaplaceMechanism(20, 1.0), np.zeros(200, dtype=np.int64)
    expected = mechanism.release(counts, noise_source(0))
    log = np.log
    monkeypatch.setattr(np, "log", lambda u: wrong(log(u)))
    noise = mechanism.release(counts, noise_source(0))
    np.testing.assert_array_equal(noise, expected)


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_takes_one_word_for_each_count(scale):
    noise = noise_source(3)
    laplace_of_scale(scale).release(np.zeros((40, 50), dtype=np.int64), noise)
    assert noise.uint64(1) == noise_source(3).uint64(2001)[-1]
    assert laplace_of_scale(scale).release(np.zeros(0, dtype=int), noise).size == 0


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_agrees_with_scipy(scale):
    n = 100_000
    mechanism = laplace_of_scale(scale)
    noise = mechanism.release(np.zeros(n, dtype=np.int64), noise_source(4))
    distribution = stats.dlaplace(1 / scale)
    edges = np.unique(distribution.ppf(np.linspace(0, 1, 42)[1:-1]))
    expected = n * np.diff(distribution.cdf(edges), prepend=0.0, append=1.0)
    observed = np.bincount(np.searchsorted(edges, noise), minlength=edges.size + 1)
    assert stats.chisquare(observed, expected).pvalue > REJECT


def test_digits_of_the_magnitude_are_independent_and_geometric():
    scale = 1000.0
    counts = np.zeros(200_000, dtype=np.int64)
    noise = laplace_of_scale(scale).release(counts, noise_source(5))
    # Given that it is not 0, the magnitude less 1 is geometric.
    geometric = np.abs(noise[noise != 0]) - 1
    low, high = geometric & 1023, geometric >> 10
    table = np.histogram2d(low, np.minimum(high, 3), bins=[16, 4])[0]
    assert stats.chi2_contingency(table).pvalue > REJECT
    distribution = stats.geom(-math.expm1(-1 / scale), loc=-1)
    expected = np.diff(distribution.cdf(np.arange(-1, 1024, 64))) / distribution.cdf(
        1023
    )
    observed = np.bincount(low >> 6, minlength=16)
    assert stats.chisquare(observed, low.size * expected).pvalue > REJECT


@given(
    epsilon=st.floats(1e-6, 1e6),
    sensitivity=st.integers(1, 1000) | st.integers(1, 2**20),
)
def test_discrete_laplace_scale_is_rounded_up(epsilon, sensitivity):
    mechanism = DiscreteLaplaceMechanism(sensitivity, epsilon)
    t, shift = mechanism._ratio
    assert 2**39 <= t <= 2**40 and 0 <= shift <= 62
    implied = Fraction(sensitivity * 2**shift, t)
    assert implied <= Fraction(mechanism.epsilon_spent) <= Fraction(epsilon)
    assert mechanism.epsilon_spent >= epsilon * (1 - 2e-6)
    assert mechanism.scale == approx(sensitivity / epsilon, rel=2e-6)


@pytest.mark.parametrize(
    ("sensitivity", "ratio"),
    [(2**40, (2**40, 0)), (2**39, (2**40, 1)), (2**39 + 1, (2**39 + 1, 0))],
)
def test_the_largest_discrete_laplace_scales(sensitivity, ratio):
    mechanism = DiscreteLaplaceMechanism(sensitivity, 1.0)
    assert mechanism._ratio == ratio and mechanism.epsilon_spent == 1.0


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 2.0, 30.0])
def test_discrete_laplace_variance(epsilon):
    mechanism = DiscreteLaplaceMechanism(2, epsilon)
    rate = 1 / mechanism.scale
    z = np.arange(-int(60 / rate) - 10, int(60 / rate) + 11)
    expected = np.sum(z.astype(float) ** 2 * laplace_pmf(z, rate))
    assert mechanism.variance == approx(expected, rel=1e-9)


def test_discrete_laplace_without_privacy_and_at_the_integer_limits():
    counts = np.array([3, -4])
    mechanism = DiscreteLaplaceMechanism(1, math.inf)
    assert mechanism.scale == mechanism.variance == 0.0
    assert mechanism.epsilon_spent == math.inf
    np.testing.assert_array_equal(mechanism.release(counts, noise_source(0)), counts)
    limits = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    released = DiscreteLaplaceMechanism(1, 1e-6).release(limits, noise_source(0))
    np.testing.assert_allclose(released, [2.0**62, -(2.0**62)], rtol=1e-9)
    beyond = np.array([2**63 - 1, 2**63], dtype=np.uint64)  # neighbours stay so
    released = DiscreteLaplaceMechanism(1, 1e-6).release(beyond, noise_source(0))
    np.testing.assert_allclose(released, 2.0**62, rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1.0), "sensitivity must be a positive integer"),
        ((-2, math.inf), "sensitivity must be a positive integer"),
        ((1.0, 1.0), "sensitivity must be a positive integer"),
        ((1, 0.0), "epsilon must be in"),
        ((1, 9.9e-7), "epsilon must be in"),
        ((1, 1.1e6), "epsilon must be in"),
        ((1, math.nan), "epsilon must be in"),
        ((2**30, 1e-6), "sensitivity must be at most"),
    ],
)
def test_discrete_laplace_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        DiscreteLaplaceMechanism(*arguments)


def test_discrete_laplace_refuses_real_counts():
    with pytest.raises(ValueError, match="counts must be integers, got dtype float64"):
        DiscreteLaplaceMechanism(1, 1.0).release(np.zeros(2), noise_source(0))


# --- Audits ---------------------------------------------------------------------------


def gaussian_runs(distance, n_runs=600):
    """Project `n_runs` releases on two data sets at the given distance, mu = 1."""
    mechanism = GaussianMechanism(math.sqrt(2), 1.0, 4)
    noise = noise_source(0)
    direction = np.array([1.0, -1.0, 0.0, 0.0]) / math.sqrt(2)
    return [
        [mechanism.release(query, noise) @ direction for _ in range(n_runs)]
        for query in (np.full(4, 10.0), 10.0 + distance * direction)
    ]


def laplace_runs(distance, n_runs=4000):
    """Independent releases of one count, sensitivity 2, epsilon = 1."""
    mechanism = DiscreteLaplaceMechanism(2, 1.0)
    noise = noise_source(0)
    return [
        mechanism.release(np.full(n_runs, count), noise)
        for count in (100, 100 + distance)
    ]


def test_gaussian_audit_accepts_the_mechanism():
    bound = gaussian_audit(*gaussian_runs(math.sqrt(2)))
    assert 0.6 < bound <= 1.0


def test_gaussian_audit_catches_a_factor_of_sqrt_2():
    assert gaussian_audit(*gaussian_runs(2.0)) > 1.0


def test_pure_audit_accepts_the_mechanism():
    bound = pure_audit(*laplace_runs(2))
    assert 0.6 < bound <= 1.0


def test_pure_audit_catches_a_factor_of_sqrt_2():
    # Sensitivity 2 sqrt(2) is no integer: 3 instead of 2 is a factor of 1.5.
    assert pure_audit(*laplace_runs(3)) > 1.0


def test_audits_bound_a_known_truth_from_below():
    rng = np.random.default_rng(0)
    shifted = [rng.normal(size=4000), rng.normal(loc=0.5, size=4000)]
    assert 0.3 < gaussian_audit(*shifted) <= 0.5
    assert pure_audit([0] * 100, [0] * 100) <= 0.0
    # delta explains a difference that pure DP cannot.
    assert pure_audit(*shifted, delta=0.2) < pure_audit(*shifted)


def _permute_and_flip_distribution(utilities, factor):
    """Exact probabilities by going through all orders."""
    top = max(utilities)
    accept = [math.exp(factor * (u - top)) for u in utilities]
    distribution = np.zeros(len(utilities))
    orders = list(itertools.permutations(range(len(utilities))))
    for order in orders:
        left = 1.0
        for i in order:
            distribution[i] += left * accept[i] / len(orders)
            left *= 1 - accept[i]
    return distribution


@pytest.mark.parametrize("monotonic", [False, True])
def test_permute_and_flip_has_its_law(monotonic):
    utilities, n = [0.0, 1.5, 2.0, -0.25], 6000
    mechanism = PermuteAndFlip(0.5, epsilon=0.7, monotonic=monotonic)
    factor = 0.7 / 0.5 / (1 if monotonic else 2)
    noise = noise_source(0)
    counts = np.bincount(
        [mechanism.release(utilities, noise) for _ in range(n)], minlength=4
    )
    expected = _permute_and_flip_distribution(utilities, factor)
    sd = np.sqrt(n * expected * (1 - expected))
    assert (np.abs(counts - n * expected) < 4.5 * sd).all()


@pytest.mark.parametrize(
    ("p", "words", "expected"),
    [
        (Fraction(1, 3), [2**64 // 3 - 1], True),
        (Fraction(1, 3), [2**64 // 3, 2**64 // 3 - 1], True),
        (Fraction(1, 3), [2**64 // 3, 2**64 // 3, 0], True),
        (Fraction(1, 3), [2**64 // 3, 2**64 // 3 + 1], False),
        (Fraction(1, 3), [2**64 // 3 + 1], False),
        (Fraction(1, 2), [2**63 - 1], True),
        (Fraction(1, 2), [2**63], False),
        (Fraction(0), [0], False),
        (Fraction(1), [2**64 - 1], True),
    ],
)
def test_a_rational_probability_is_compared_digit_by_digit(p, words, expected):
    noise = scripted_source([*words, 77])
    assert mechanisms._true_with(noise, p) == expected
    assert noise.uint64(1) == 77  # not a word more


ALL, NONE = 2**64 - 1, 0  # words of a toss that fails, and of one that succeeds


@pytest.mark.parametrize(
    ("x", "words", "expected"),
    [
        # Tosses of probability x, x / 2, x / 3, ... until one fails: an odd number.
        (Fraction(1, 2), [ALL], True),
        (Fraction(1, 2), [NONE, ALL], False),
        (Fraction(1, 2), [2**63 - 1, 2**62], False),
        (Fraction(1, 2), [2**63 - 1, 2**62 - 1, ALL], True),
        (Fraction(1), [NONE, 2**63 - 1, 2**64 // 3 + 1], True),
        (Fraction(1), [NONE, 2**63 - 1, 2**64 // 3 - 1, ALL], False),
        # Above 1: a toss of probability exp(-1) for each whole number.
        (Fraction(3, 2), [NONE, ALL], False),
        (Fraction(3, 2), [NONE, NONE, ALL, NONE, ALL], False),
        (Fraction(3, 2), [NONE, NONE, ALL, ALL], True),
        (Fraction(5, 2), [NONE, NONE, ALL, NONE, NONE, ALL, 2**63 - 1, ALL], False),
        (Fraction(5, 2), [NONE, NONE, ALL, NONE, NONE, ALL, 2**63], True),
        (Fraction(2), [NONE, NONE, ALL, NONE, ALL], False),
        (Fraction(2), [NONE, NONE, ALL, NONE, NONE, ALL], True),
    ],
)
def test_an_exponential_probability_is_tossed_factor_by_factor(x, words, expected):
    noise = scripted_source([*words, 77])
    assert mechanisms._true_with_exp(noise, x) == expected
    assert noise.uint64(1) == 77


def test_permute_and_flip_takes_the_words_of_its_definition():
    third = 2**64 // 3
    mechanism = PermuteAndFlip(1.0, epsilon=2.0)  # factor 1: exp(-difference)
    utilities = [0.0, 0.5, 1.0]
    # Index 0 of the three: exp(-1), fails; then the second of [1, 2]: the largest.
    words = [0, NONE, ALL, 2**63, ALL]
    assert mechanism.release(utilities, scripted_source(words)) == 2
    # The second of three: exp(-1/2), accepted.
    assert mechanism.release(utilities, scripted_source([third + 9, ALL])) == 1
    monotonic = PermuteAndFlip(2.0, epsilon=2.0, monotonic=True)
    assert monotonic.release(utilities, scripted_source([third + 9, ALL])) == 1
    with pytest.raises(ValueError, match=r"epsilon must be in \(0, inf\]"):
        PermuteAndFlip(1.0, epsilon=0.0)
    assert PermuteAndFlip(0.25, epsilon=0.5).release([1.0], noise_source(0)) == 0


def test_a_key_takes_a_word_for_eight_bytes():
    noise = scripted_source([1, 2, 77])
    assert noise.key(13) == (1).to_bytes(8, "little") + (2).to_bytes(5, "little")
    assert noise.uint64(1) == 77


def test_permute_and_flip_at_its_ends():
    assert (
        PermuteAndFlip(1.0, epsilon=math.inf).release([1, 7, 3], noise_source(0)) == 1
    )
    assert PermuteAndFlip(1.0, epsilon=1e6).release([0, -5], noise_source(0)) == 0
    one = PermuteAndFlip(1.0, epsilon=1.0).release([3.0], noise_source(0))
    assert one == 0
    for bad in (0, -1.0, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            PermuteAndFlip(1.0, epsilon=bad)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_mechanisms_reckon_in_double_precision(kind):
    third = kind(1 / 3)
    gaussian = GaussianMechanism(third, third / 7, np.int8(100))
    assert gaussian == GaussianMechanism(float(third), float(third / 7), 100)
    assert type(gaussian.scale) is float
    laplace = DiscreteLaplaceMechanism(np.uint8(200), third)
    assert laplace == DiscreteLaplaceMechanism(200, float(third))
    assert laplace.scale >= 200 / float(third)
    chosen = PermuteAndFlip(third, third)
    assert (type(chosen.sensitivity), type(chosen.epsilon)) == (float, float)
