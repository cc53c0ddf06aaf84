"""The accounting number by number: each step against its definition."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from _ends import answer, approx
from scipy import stats

from fairpriv_sklearn.accounting import (
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PureEvent,
    WithoutReplacementGaussianEvent,
    _composition,
    _gaussian,
    _loss_grid,
    _privacy_loss,
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
)
from fairpriv_sklearn.accounting._loss_grid import _Grid
from fairpriv_sklearn.accounting._privacy_loss import _Composition

POISSON, FIXED = "poisson_gaussian", "without_replacement_gaussian"


def hockey_stick(losses, weights, epsilon):
    gains = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - np.asarray(losses))))
    return float(np.asarray(weights) @ gains)


def responses(pures):
    """Losses and probabilities of pure releases, by going through all signs."""
    atoms = {Fraction(0): 1.0}
    for epsilon, count in pures:
        plus = 1 / (1 + math.exp(-epsilon))
        for _ in range(count):
            new = {}
            for loss, mass in atoms.items():
                for sign, share in ((1, plus), (-1, 1 - plus)):
                    at = loss + sign * Fraction(epsilon)
                    new[at] = new.get(at, 0.0) + share * mass
            atoms = new
    return np.array([float(a) for a in atoms]), np.array(list(atoms.values()))


# --- one Gaussian ---------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-3, 0.3, 0.5, 0.51, 2.0, 1e4, 9.9e7])
@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.7, 1e5])
def test_half_a_difference_loses_no_digit(mu, epsilon):
    exact = Fraction(mu) / 2 - Fraction(epsilon) / Fraction(mu)
    value = Fraction(_gaussian._half_difference(mu, np.array([epsilon]))[0])
    scale = abs(Fraction(epsilon)) / Fraction(mu) + abs(exact)
    assert abs(value - exact) <= scale * Fraction(4, 2**53)
    near = mu * mu / 2  # where nothing but the rounding of mu**2 is left
    exact = Fraction(mu) / 2 - Fraction(near) / Fraction(mu)
    value = Fraction(_gaussian._half_difference(mu, np.array([near]))[0])
    assert abs(value - exact) <= abs(exact) * Fraction(1, 2**26)


@pytest.mark.parametrize("t", [-0.9, 0.0, 1.0, 11.9, 12.1, 20.0, 40.0])
def test_mills_ratio_and_its_slope(t):
    with mpmath.workdps(40):
        ratio = mpmath.ncdf(-t) / mpmath.npdf(t)
        slope = 1 - t * ratio
    value = _gaussian._mills(np.array([t]))[0]
    assert value == approx(float(ratio), rel=1e-14)
    value = _gaussian._mills_slope(np.array([t]))[0]
    # Beyond 12 by a series, where the difference would lose digits.
    assert value == approx(float(slope), rel=1e-15 if t > 12 else 3e-13)
    for mu in (0.1, 0.5, 0.6, 3.0):
        with mpmath.workdps(40):
            later = mpmath.ncdf(-t - mu) / mpmath.npdf(t + mu)
        value = _gaussian._mills_difference(np.array([t]), mu)[0]
        assert value == approx(float(ratio - later), rel=1e-12)


def test_delta_is_at_most_one_and_a_tenth_of_a_billionth_too_large():
    assert gaussian_delta(1e3, 0.0) == 1.0 == gaussian_delta(2.0, -100.0)
    exact = 2 * stats.norm.cdf(0.25) - 1
    assert gaussian_delta(0.5, 0.0) / exact - 1 == approx(1e-10, rel=1e-3)


def test_the_smallest_epsilon_of_a_line():
    def log_delta(epsilon):
        return -2.0 * epsilon - 1.0

    for delta in (1e-3, 1e-9):
        root = (-math.log(delta) - 1.0) / 2.0
        found = _gaussian._smallest_epsilon(log_delta, delta, 20.0)
        assert found == approx(root * (1 + 1e-10) + 4e-12, abs=3e-12)
        assert found >= root
    assert _gaussian._smallest_epsilon(log_delta, math.exp(-1.0), 20.0) == 0.0
    assert _gaussian._smallest_epsilon(log_delta, 0.9, 20.0) == 0.0
    assert _gaussian._smallest_epsilon(log_delta, 1e-3, 2.0) == 2.0
    assert _gaussian._smallest_epsilon(log_delta, math.exp(-5.0), 2.0) == 2.0


@pytest.mark.parametrize("log_delta1", [-5.0, -30.0])
@pytest.mark.parametrize("n_draws", [1, 3, 10**9])
def test_the_error_of_the_sampler_is_its_formula(log_delta1, n_draws):
    expected = n_draws * 1e-16 + 1e-8 * math.sqrt(2.0 * n_draws * -log_delta1)
    found = _gaussian._sampler_error(log_delta1, n_draws)
    assert found == approx(expected, rel=1e-14)


# --- losses of pure releases ----------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "count"), [(0.3, 1), (0.3, 5), (2.0, 7), (9.0, 2)])
def test_randomised_response_is_a_binomial_distribution(epsilon, count):
    losses, weights = _privacy_loss._randomized_response(epsilon, count)
    minus = np.arange(count + 1)
    np.testing.assert_allclose(losses, epsilon * (count - 2 * minus), rtol=1e-15)
    expected = stats.binom.pmf(minus, count, 1 / (1 + math.exp(epsilon)))
    np.testing.assert_allclose(weights, expected, rtol=1e-12)


def test_weights_of_many_responses_are_far_within_what_is_rounded_up():
    """Logarithms of factorials took 1.5e-10 off, and 1e-10 are rounded up."""
    count, epsilon = 100_000, 0.01
    losses, weights = _privacy_loss._randomized_response(epsilon, count)
    with mpmath.workdps(30):
        p = 1 / (1 + mpmath.exp(epsilon))
        for i in range(1700, 2700, 100):
            minus = round((count - losses[i] / epsilon) / 2)
            ways = mpmath.binomial(count, minus)
            exact = ways * p**minus * (1 - p) ** (count - minus)
            assert abs(weights[i] / exact - 1) < 1e-12


def test_of_many_responses_what_is_left_out_is_put_on_the_largest_loss():
    count, epsilon = 20_000, 0.1
    losses, weights = _privacy_loss._randomized_response(epsilon, count)
    minus = np.round((count - losses[:-1] / epsilon) / 2)
    p = 1 / (1 + math.exp(epsilon))
    reach = math.sqrt(count * math.log(1e40) / 2)
    assert minus[0] == math.floor(count * p - reach)
    assert minus[-1] == math.ceil(count * p + reach)
    assert (np.diff(minus) == 1).all()
    np.testing.assert_allclose(
        weights[:-1], stats.binom.pmf(minus, count, p), rtol=1e-9, atol=1e-60
    )
    assert losses[-1] == epsilon * count and weights[-1] == 1e-40


def test_an_atom_keeps_both_its_probabilities_on_a_grid():
    losses, weights = np.array([-0.73, 0.2, 0.31]), np.array([0.2, 0.5, 0.3])
    step = 0.25
    lowest, masses = _privacy_loss._on_grid(losses, weights, step)
    assert lowest == -3 and masses.size == 6
    at = step * (lowest + np.arange(6))
    assert masses[:2].sum() == approx(0.2, rel=1e-14)  # -.73 is alone there
    assert masses[:2] @ np.exp(-at[:2]) == approx(0.2 * math.exp(0.73))
    assert masses[2] == 0.0
    assert masses[3:].sum() == approx(0.8, rel=1e-14)
    assert masses @ np.exp(-at) == approx(weights @ np.exp(-losses), rel=1e-13)


def test_coarse_atoms_are_those_of_the_grid():
    pures = ((0.3, 2), (0.5, 3))
    losses, weights = _privacy_loss._loss_atoms(pures, True)
    order = np.argsort(losses)
    losses, weights = losses[order], weights[order]
    last = int(np.flatnonzero(weights == 1e-12)[0])
    assert losses[last] == 2 * 0.3 + 3 * 0.5  # what may fail
    losses, weights = np.delete(losses, last), np.delete(weights, last)
    reach = math.sqrt(2 * 40 * math.log(10) * (2 * 0.09 + 3 * 0.25))
    step = 2 * (reach + 2 * 0.5) / (2**10 - 4)
    np.testing.assert_allclose(np.diff(losses), step, rtol=1e-9)
    exact_losses, exact = responses(pures)
    held = losses[weights > 1e-6]
    assert held[0] == approx(exact_losses.min(), abs=2 * step)
    assert held[-1] == approx(exact_losses.max(), abs=2 * step)
    assert weights.sum() == approx(1.0, rel=1e-13)
    assert weights[losses > -3] @ np.exp(-losses[losses > -3]) == approx(1.0, rel=1e-12)
    mean, mean_exact = weights @ losses, exact @ exact_losses
    assert 0.0 < mean - mean_exact < step**2 / 4
    for epsilon in (0.0, 0.7, 1.5):
        low = hockey_stick(exact_losses, exact, epsilon)
        assert low <= hockey_stick(losses, weights, epsilon) <= 1.05 * low


def test_losses_on_every_other_place_of_the_grid_stay_there():
    """The finest waves of the transform tell even places from odd ones."""
    places = [262, 264, 266, 268, 270, 272, 276, 278, 280]
    places += [282, 286, 288, 290, 292, 298, 304, 308]
    pures = tuple((1e-3 * place, 1) for place in places)
    exact = np.ones(1)
    for place, (epsilon, _) in zip(places, pures, strict=True):
        plus = 1 / (1 + math.exp(-epsilon))
        part = np.zeros(2 * place + 1)
        part[[0, -1]] = 1 - plus, plus
        exact = np.convolve(exact, part)
    true_losses = 1e-3 * (np.arange(exact.size) - sum(places))
    losses, weights = _privacy_loss._atoms_on_grid(pures, 2**15)
    assert weights[-1] == 1e-12 and losses[-1] == approx(true_losses[-1])
    losses, weights = losses[:-1], weights[:-1]
    order = np.argsort(losses)
    step = np.diff(losses[order])
    assert step == approx(1e-3, rel=1e-5)  # the grid is theirs
    assert losses.min() < true_losses[0] and losses.max() > true_losses[-1]
    on_odd = np.round(losses / 1e-3).astype(int) % 2 == sum(places) % 2 + 1
    assert weights[on_odd].sum() < 0.06  # but for shares of some thousandths
    for epsilon in (0.0, 1.0, 3.0):
        low = hockey_stick(true_losses, exact, epsilon)
        assert low - 1e-9 <= hockey_stick(losses, weights, epsilon) <= low + 1e-7


def test_too_many_atoms_move_up_by_less_than_a_cell(monkeypatch):
    monkeypatch.setattr(_privacy_loss, "_MAX_ATOMS", 8)
    losses = np.array([-1.0, -0.9, 0.0, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])
    weights = np.arange(1.0, 10.0)
    merged, sums = _privacy_loss._thin(losses, weights)  # cells of half a unit
    assert merged.tolist() == [1.0, 0.5, 0.0, -0.5, -1.0]
    assert sums.tolist() == [24.0, 15.0, 3.0, 2.0, 1.0]
    same = _privacy_loss._thin(losses[:8], weights[:8])
    assert same[0] is not None and np.array_equal(same[0], losses[:8])


def test_matching_from_the_largest_is_matching_one_by_one():
    rng = np.random.default_rng(0)
    answers = set()
    for _ in range(300):
        several = []
        for _ in range(2):
            counts = rng.integers(0, 3, 4)
            several.append(tuple((e + 1.0, int(n)) for e, n in enumerate(counts) if n))
        small, large = (
            sorted([e for e, n in pures for _ in range(n)])[::-1] for pures in several
        )
        expected = len(small) <= len(large) and all(
            a <= b for a, b in zip(small, large, strict=False)
        )
        assert _privacy_loss._pairwise_at_most(*several) == expected
        answers.add(expected)
    assert len(answers) == 2


def test_sums_of_losses_are_rounded_up():
    for pures in (((0.1, 3),), ((0.1, 1), (0.7, 2)), ((0.5, 4),), ()):
        total = _Composition(pures=pures)
        exact = sum((Fraction(e) * n for e, n in pures), Fraction(0))
        largest = Fraction(_privacy_loss._largest_loss(total))
        assert exact <= largest <= exact * (1 + Fraction(1, 2**52))
        assert (largest == exact) == (Fraction(float(exact)) == exact)
        about = _privacy_loss._about_largest_loss(total)
        assert about == approx(float(exact), rel=1e-15)
    assert _privacy_loss._largest_loss(_Composition(pures=((math.inf, 1),))) == math.inf
    assert _privacy_loss._largest_loss(_Composition(pures=((1e308, 9),))) == math.inf


def test_failures_of_several_and_of_copies():
    one = _Composition(failure=0.5)
    assert one.times(1).failure >= 0.5 and one.times(0) == _Composition()
    assert _Composition(failure=1.0).times(3).failure == 1.0
    for failures in ((0.1, 0.2), (0.3, 0.3, 1e-9), (0.4,), (), (1.0, 0.2), (0.9, 1.0)):
        exact = 1 - math.prod((1 - Fraction(f) for f in failures), start=Fraction(1))
        found = Fraction(_privacy_loss._any_fails(list(failures)))
        assert exact <= found <= min(1, exact * (1 + Fraction("2.2e-15")))
    total = _privacy_loss._sum([_Composition(0.3), _Composition(), _Composition(0.4)])
    assert total.mu == 0.5 and total.failure == 0.0 and total.roughness == 1.0
    assert _privacy_loss._sum([_Composition(0.7), one]).mu == 0.7
    assert _privacy_loss._sum([_Composition(0.7), one]).failure == 0.5


# --- sampled releases -----------------------------------------------------------------


@pytest.mark.parametrize(("q", "mu"), [(0.01, 1.0), (0.3, 2.0), (0.9, 0.5)])
def test_the_largest_sampled_loss_has_a_negligible_delta(q, mu):
    remove, _ = _privacy_loss._sampled_curves(q, mu)
    highest = _privacy_loss._largest_sampled_loss(q, mu)
    delta = remove(np.array([highest, highest - 0.01]))
    assert delta[0] <= 1e-20 * (1 + 1e-6) < delta[1] < 1.5e-20
    never = answer(_privacy_loss._largest_sampled_loss, 1e-21, mu)
    assert never == approx(0.0, abs=1e-15)


@pytest.mark.parametrize(("q", "mu"), [(0.05, 1.0), (0.4, 0.8)])
def test_sampled_curves_are_those_of_two_gaussians(q, mu):
    remove, add = _privacy_loss._sampled_curves(q, mu)
    for epsilon in (0.0, 1e-6, 0.3, 0.999999, 1.0, 1.000001, 2.5):
        with mpmath.workdps(30):
            alpha = mpmath.exp(epsilon)
            inner = mpmath.log(1 + (alpha - 1) / q)
            expected = q * (
                mpmath.ncdf(mu / 2 - inner / mu)
                - mpmath.exp(inner) * mpmath.ncdf(-mu / 2 - inner / mu)
            )
        value = remove(np.array([epsilon]))[0]
        assert value == approx(float(expected), rel=1e-9)
        c = 1 - math.exp(epsilon) * (1 - q)
        value = add(np.array([epsilon]))[0]
        if c <= 0:
            assert value == 0.0
            continue
        expected = c * gaussian_delta(mu, epsilon + math.log(q) - math.log(c))
        assert value == approx(expected, rel=1e-9)


def test_dots_of_a_distribution_on_the_grid_give_it_back():
    step, lowest = 0.2, -4
    places = np.arange(lowest, 5)
    forward_masses = np.array([0.02, 0.0, 0.05, 0.2, 0.3, 0.1, 0.15, 0.05, 0.03])
    forward_masses *= 0.9 / forward_masses.sum()  # a tenth is infinite
    losses = step * places

    def forward(epsilon):
        return np.array(
            [0.1 + hockey_stick(losses, forward_masses, e) for e in epsilon]
        )

    reverse = forward_masses * np.exp(-losses)

    def backward(epsilon):
        return np.array([hockey_stick(-losses, reverse, e) for e in epsilon])

    low, masses, infinite = _privacy_loss._connect_dots(forward, backward, 0.8, step)
    assert low == lowest and infinite == approx(0.1, rel=1e-14)
    np.testing.assert_allclose(masses, forward_masses, atol=1e-14)
    low, masses, _ = _privacy_loss._connect_dots(forward, backward, 0.7, step)
    assert low == lowest and masses.size == 9
    everything = [lambda e: 0.6 - 0 * e, lambda e: 0.6 - 0 * e]
    low, masses, infinite = _privacy_loss._connect_dots(*everything, 0.2, step)
    assert (masses >= 0.0).all() and infinite == 0.6


@pytest.mark.parametrize(
    ("total", "limit"),
    [
        (_Composition(0.2, sampled=((POISSON, 0.5, 2.0, 16),)), "error"),
        (
            _Composition(sampled=((POISSON, 0.5, 2.0, 1), (POISSON, 0.5, 4.0, 1))),
            "kind",
        ),
        (
            _Composition(0.2, pures=((0.5, 2),), sampled=((FIXED, 1e-3, 1.0, 9),)),
            "reach",
        ),
        (_Composition(4.0, sampled=((FIXED, 1e-3, 1.0, 10**6),)), "reach"),
    ],
)
def test_the_step_of_the_grid_is_what_is_said(total, limit):
    spreads = {}
    for _, q, z, _ in total.sampled:
        spreads[q, z] = min(1 / z, q * math.sqrt(math.expm1(min(z**-2, 50.0))))
    steps = sum(n for *_, n in total.sampled)
    variance = total.mu**2 + sum(n * spreads[q, z] ** 2 for _, q, z, n in total.sampled)
    error = math.sqrt(8e-4 * math.sqrt(variance) / steps)
    kind = min(spreads.values()) / 30
    reach = sum(e * n for e, n in total.pures) + variance + 10 * math.sqrt(variance)
    reach += max(
        _privacy_loss._largest_sampled_loss(q, 1 / z) for _, q, z, _ in total.sampled
    )
    points = min(max(2**14, 300 * math.sqrt(steps)), 2**20)
    limits = {"error": error, "kind": kind, "reach": 2 * reach / points}
    expected = max(min(error, kind), 2 * reach / points)
    assert limits[limit] == expected
    assert _privacy_loss._grid_step(total) == approx(expected, rel=1e-12)
    rough = replace(total, roughness=3.0)
    assert _privacy_loss._grid_step(rough) == approx(3 * expected, rel=1e-12)


# --- the grid of losses ---------------------------------------------------------------


def test_both_directions_are_gone_through_where_they_differ():
    poisson = _Composition(sampled=((POISSON, 0.1, 2.0, 3),))
    fixed = _Composition(sampled=((FIXED, 0.1, 2.0, 3),))
    assert _loss_grid._directions(poisson) == (False, True)
    assert _loss_grid._directions(_privacy_loss._sum([poisson, fixed])) == (False, True)
    assert _loss_grid._directions(fixed) == (False,)
    assert _loss_grid._directions(_Composition(mu=1.0)) == (False,)


@pytest.mark.parametrize("kind", [POISSON, FIXED])
def test_one_sampled_release_costs_the_dearer_direction(kind):
    """At negative epsilon adding a record is the dearer, by the other curve."""
    q, z = 0.3, 1.0
    curve = _loss_grid._worst_curve(_Composition(sampled=((kind, q, z, 1),)))
    remove, add = _privacy_loss._sampled_curves(q, 1 / z)
    backward = add if kind == POISSON else remove
    for epsilon in (0.1, 0.3, 1.0):
        there, back = (float(f(np.array([epsilon]))[0]) for f in (remove, add))
        assert there <= curve.delta(epsilon) <= there * 1.001 + 1e-9
        # delta(-e) of a pair is 1 - exp(-e) (1 - delta(e) of the reversed pair).
        found = curve.delta(-epsilon)
        worst = 1 - math.exp(-epsilon) * (1 - there)
        assert worst <= found * (1 + 1e-12) and found <= worst * 1.0001
        assert back <= float(backward(np.array([epsilon]))[0]) * (1 + 1e-12)


@pytest.mark.parametrize(
    "total",
    [
        _Composition(mu=0.7),
        _Composition(mu=0.3, pures=((0.2, 3), (0.5, 1)), failure=0.01),
        _Composition(pures=((0.25, 9),)),
    ],
)
def test_the_curve_of_a_plain_total_is_its_delta(total):
    curve = _loss_grid._worst_curve(total)
    # Each transform, of a kind of pure releases or of the Gaussian, may move it a step.
    wider = 1 + 4 * (len(total.pures) + 1) / 8192
    reach = _loss_grid._reach(total, (), math.nan) * wider
    assert curve.first == -2048 and len(curve.deltas) == 4097
    assert curve.step == approx(reach / 2048, rel=1e-12)
    for epsilon in (-0.5, 0.0, 0.4, 1.3):
        exact = _privacy_loss._exact_delta(total, epsilon)
        assert exact <= curve.delta(epsilon) <= exact + 2e-5 + total.failure


def test_the_grid_reaches_a_step_further_for_each_transform(monkeypatch):
    pures = _Composition(pures=((0.1, 3), (0.2, 1)))
    assert _loss_grid._n_transforms(pures, ()) == 3
    side = _Composition(pures=((0.1, 1), (0.3, 1), (0.5, 1)))
    splits = (((side, _Composition(mu=0.1)), 5), ((pures, pures), 1))
    # Blocks of 1, 2 and 2 with up to four each, and one block with three.
    assert _loss_grid._n_transforms(_Composition(), splits) == 1 + 3 * 4 + 3
    step, size, reach = _loss_grid._grid_of(pures, splits)
    least = _loss_grid._reach(pures, splits, math.nan)
    assert size == 8192 and step == 4 * reach / 8192
    assert reach == approx(least * (1 + 4 * 18 / 8192), rel=1e-12)
    sampled = _Composition(mu=0.1, sampled=((POISSON, 0.1, 1.0, 10),))
    step, size, reach = _loss_grid._grid_of(sampled, ())
    assert step == _privacy_loss._grid_step(sampled)
    assert reach == _loss_grid._reach(sampled, (), step)
    assert max(8192, 4 * reach / step) <= size <= 1.1 * max(8192, 4 * reach / step) + 1
    monkeypatch.setattr(_loss_grid, "_LARGEST_GRID", 1000)
    longer, _, reach = _loss_grid._grid_of(sampled, ())
    doublings = math.log2(longer / step)
    assert doublings == round(doublings) >= 1 and 4 * reach / longer <= 1000
    assert 4 * _loss_grid._reach(sampled, (), longer / 2) / (longer / 2) > 1000
    monkeypatch.setattr(_loss_grid, "_LONGEST_STEP", longer / 1.5)
    assert _loss_grid._grid_of(sampled, ()) == (math.inf, 0, math.inf)
    _loss_grid._worst_curve.cache_clear()
    nothing = _loss_grid._worst_curve(sampled)
    _loss_grid._worst_curve.cache_clear()
    assert nothing.delta(0.0) == nothing.delta(1e9) == 1.0
    assert nothing.epsilon(0.5) == math.inf


def test_a_power_of_many_steps_fails_for_what_its_rounding_may_lose(monkeypatch):
    total = _Composition(sampled=((FIXED, 0.01, 4.0, 100),))
    grid = _Grid(1e-3, 1 << 12, False)
    plain, infinite = grid.losses(total)
    monkeypatch.setattr(_loss_grid, "_MANY_STEPS", 100)
    same, infinite_same = grid.losses(total)
    np.testing.assert_array_equal(same, plain)
    assert infinite_same == infinite
    monkeypatch.setattr(_loss_grid, "_MANY_STEPS", 99)
    longer, infinite_longer = grid.losses(total)
    np.testing.assert_allclose(longer, plain, atol=1e-12)
    assert longer[0] == approx(1.0, abs=1e-15)  # nothing is lost or won
    added = 100 * 8.0 * float(np.finfo(np.longdouble).eps)
    assert infinite_longer - infinite == approx(added, rel=0.2)


def test_what_is_out_of_range_is_taken_for_the_dearer_end():
    single = _composition._single
    assert single(GaussianEvent(0.5, 10**40)).n_draws == 10**30
    assert single(GaussianEvent(0.5, 10**20)).n_draws == 10**20
    for kind in (PoissonGaussianEvent, WithoutReplacementGaussianEvent):
        assert single(kind(1.0, 2.0, 16, 10**40)) == _Composition(2.0, 10**30)
        assert single(kind(1.0, 1e-101, 1)) == _Composition(math.inf)
        found = [one[1:] for one in single(kind(1e-20, 1e9, 5, 7)).sampled]
        assert found == [(_gaussian.SMALLEST_Q, 1e6, 5)]
        total = single(kind(0.5, 0.001, 10**15, 10**40))
        assert [one[1:] for one in total.sampled] == [(0.5, 0.001, 10**15)]
        assert total.n_draws == 10**30
        assert single(kind(0.5, 0.0009, 1)) == _Composition(math.inf)
        assert single(kind(0.5, 1.0, 10**15 + 1)) == _Composition(math.inf)


def test_kinds_with_few_splits_are_gone_through_while_there_is_room():
    splits = [(1, 9), (7, 3), (30, 1), (5, 8)]  # a name, and how many of it
    few = [(30, 1), (7, 3), (5, 8)]
    assert _loss_grid._parted(splits, 10**6) == (few, [(1, 9)])
    assert _loss_grid._parted(splits, 2 * 4 * 9) == (few, [(1, 9)])
    left = [(5, 8), (1, 9)]
    assert _loss_grid._parted(splits, 2 * 4 * 9 - 1) == (few[:2], left)
    assert _loss_grid._parted(splits, 1) == ([], [*few, (1, 9)])


def masses_of(grid, total):
    spectrum, infinite = grid.losses(total)
    masses = np.fft.irfft(spectrum, grid.size)
    places = (np.arange(grid.size) + grid.size // 2) % grid.size - grid.size // 2
    return grid.step * places, masses, infinite


@pytest.mark.parametrize("add", [False, True])
def test_losses_on_the_grid_are_those_of_the_parts(add):
    grid = _Grid(0.02, 1 << 12, add)
    losses, masses, infinite = masses_of(grid, _Composition(pures=((0.3, 3),)))
    exact_losses, exact = responses(((0.3, 3),))
    for loss, mass in zip(exact_losses, exact, strict=True):  # on places of the grid
        near = np.abs(losses - loss) < 0.021
        assert masses[near].sum() == approx(mass, abs=1e-12)
    assert masses.sum() == approx(1.0) and infinite == approx(1e-16)
    losses, masses, infinite = masses_of(grid, _Composition(mu=0.8, failure=0.125))
    assert infinite == approx(0.125, abs=2e-16) and infinite > 0.125
    for epsilon in (0.0, 1.0, -1.0):
        found, exact = (
            hockey_stick(losses, masses, epsilon),
            gaussian_delta(0.8, epsilon),
        )
        assert exact * (1 - 1e-9) <= found <= exact + 2e-4
    sampled = _Composition(sampled=((POISSON, 0.3, 1.0, 2),))
    losses, masses, infinite = masses_of(grid, sampled)
    lowest, one, lost = _loss_grid._sampled_losses(POISSON, 0.3, 1.0, 0.02, add)
    twice = np.convolve(one, one)
    places = np.round(losses / 0.02).astype(int)
    at = {place: mass for place, mass in zip(places, masses, strict=True)}
    found = [at[2 * lowest + i] for i in range(twice.size)]
    np.testing.assert_allclose(found, twice, atol=1e-14)
    assert infinite == approx(2 * lost + 1e-16, rel=1e-6)
    curves = _privacy_loss._sampled_curves(0.3, 1.0)
    for epsilon in (0.0, 0.2, 0.7):
        found = lost + hockey_stick(0.02 * (lowest + np.arange(one.size)), one, epsilon)
        exact = float(curves[add](np.array([epsilon]))[0])
        assert exact - 1e-12 <= found <= exact + 1e-3
    fixed = _loss_grid._sampled_losses(FIXED, 0.3, 1.0, 0.02, add)[1]
    removed = _loss_grid._sampled_losses(POISSON, 0.3, 1.0, 0.02, False)[1]
    positive = fixed.size // 2 + 1
    np.testing.assert_allclose(fixed[positive:], removed[positive:])


def test_what_fails_is_no_more_than_everything(monkeypatch):
    lost = iter([(3, (0, np.ones(1), 0.6))])
    monkeypatch.setattr(_loss_grid, "_gaussians", lambda *_: lost)
    _, infinite = _Grid(0.1, 8, False).losses(_Composition(failure=0.5))
    assert infinite == 1.0


def expected_values(values, masses, infinite):
    """The mean of `values` after one more loss, place by place around the grid."""
    mean = [masses @ np.roll(values, -i) for i in range(len(values))]
    return np.array(mean) + infinite


def test_the_worse_of_several_losses_place_by_place():
    rng = np.random.default_rng(0)
    grid = _Grid(0.1, 16, False)
    values = rng.uniform(0.0, 0.9, 16)
    sides = [(rng.dirichlet(np.ones(16)) * share, 1 - share) for share in (0.9, 0.97)]
    several = [(np.fft.rfft(masses), lost) for masses, lost in sides]
    expected = np.max([expected_values(values, *side) for side in sides], axis=0)
    found = grid.worst(values, iter(several))
    assert ((found - expected > 0.5e-14) & (found - expected < 2e-14)).mean() > 0.5
    np.testing.assert_allclose(found, np.minimum(1.0, expected), atol=3e-14)
    assert grid.worst(np.ones(16), iter(several)).max() == 1.0


def test_all_sides_are_every_number_of_splits_on_the_left():
    grid = _Grid(0.05, 256, False)
    plain = _Composition(mu=0.2)
    left, right = _Composition(mu=0.5, failure=0.1), _Composition(pures=((0.3, 1),))
    found = list(grid.all_sides(plain, [((left, right), 2)]))
    assert len(found) == 3
    for k, (spectrum, infinite) in enumerate(found):
        total = _privacy_loss._sum([left.times(k), right.times(2 - k)])
        first, second = grid.losses(plain), grid.losses(total)
        np.testing.assert_allclose(spectrum, first[0] * second[0], atol=1e-14)
        assert infinite == first[1] + second[1]
    assert (
        len(list(grid.all_sides(plain, [((left, right), 2), ((left, left), 1)]))) == 6
    )


@pytest.mark.parametrize("few", [0, 8])
def test_the_game_is_played_from_its_last_block_to_its_first(few, monkeypatch):
    monkeypatch.setattr(_loss_grid, "_FEW", few)
    step, size = 0.05, 512
    grid = _Grid(step, size, False)
    plain = _Composition(pures=((0.1, 1),))
    left, right = _Composition(pures=((0.2, 1),)), _Composition(mu=0.15, failure=1e-3)
    losses = step * (np.arange(size) - size // 2)
    beyond = losses > 6.0

    def distribution(total):
        spectrum, infinite = grid.losses(total)
        return np.fft.irfft(spectrum, size), infinite

    def after(values, totals):
        means = [expected_values(values, *distribution(total)) for total in totals]
        return np.minimum(1.0, np.max(means, axis=0))

    values = np.array([hockey_stick([loss], [1.0], 0.0) for loss in losses])
    if few:
        totals = [
            _privacy_loss._sum([plain, left.times(k), right.times(3 - k)])
            for k in range(4)
        ]
        values = after(values, totals)
    else:
        for n in (2, 1):  # the largest block is the last to be decided
            values = after(values, [left.times(n), right.times(n)])
            values[beyond] = 1.0
        values = after(values, [plain])
    found = grid.play(plain, (((left, right), 3),), losses, beyond)
    np.testing.assert_allclose(found, values, atol=1e-12)


@pytest.mark.parametrize("add", [0, 1])
def test_moments_are_those_of_the_losses(add):
    orders, step = np.array([0.25, 1.0, 3.0, 1e5]), 0.02
    mu, pures = 0.6, ((0.3, 2), (1.0, 1))
    found = _loss_grid._log_moments(_Composition(mu, pures=pures), orders[:3], step)
    losses, weights = responses(pures)
    nodes, hermite = np.polynomial.hermite_e.hermegauss(60)
    gauss = mu * nodes + mu**2 / 2
    for order, value in zip(orders, found, strict=False):
        mean = hermite @ np.exp(order * gauss) / hermite.sum()
        expected = math.log(weights @ np.exp(order * losses)) + math.log(mean)
        assert value == approx(expected, rel=1e-9)
    kind = (POISSON, FIXED)[add]
    sampled = _Composition(sampled=((kind, 0.3, 1.0, 4),))
    found = _loss_grid._log_moments(sampled, orders, step)
    means = []
    for direction in (False, True):
        lowest, masses, _ = _loss_grid._sampled_losses(kind, 0.3, 1.0, step, direction)
        at = step * (lowest + np.arange(masses.size))
        means.append([math.log(masses @ np.exp(o * at)) for o in orders[:3]])
    expected = 4 * np.max(means if kind == POISSON else means[:1], axis=0)
    np.testing.assert_allclose(found[:3], expected, rtol=1e-9)
    # Nothing is known where all underflows.
    assert (found[3] == math.inf) == (kind == POISSON)


TOTALS = [
    _Composition(mu=0.7),
    _Composition(mu=0.01),
    _Composition(mu=30.0, pures=((0.5, 3),)),
    _Composition(pures=((0.25, 40),)),
]


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("mass", [1e-16, 1e-40])
def test_bounds_by_moments_are_near_the_best_of_all_orders(total, mass):
    orders, moments = _loss_grid._bounding(total, (), math.nan, math.log(mass))
    expected = _loss_grid._log_moments(total, orders, math.nan)
    np.testing.assert_allclose(moments, expected, rtol=1e-13)
    variance = total.mu**2 + sum(n * e**2 for e, n in total.pures)
    best = math.sqrt(2 * -math.log(mass) / variance)
    assert orders[0] == approx(min(1.0, best / 4)) and (np.diff(orders) > 0).all()
    assert orders[-1] == approx(8 * max(1.0, best))
    dense = np.geomspace(1e-3, 1e5, 4000)
    bounds = (_loss_grid._log_moments(total, dense, math.nan) - math.log(mass)) / dense
    if mass == 1e-16:
        reach = _loss_grid._reach(total, (), math.nan)
        assert bounds.min() * (1 - 1e-12) <= reach <= 1.05 * bounds.min()
    sharper = np.log1p(dense) / dense - np.log1p(-1 / (dense + 1))
    found = _loss_grid._moments_epsilon(total, (), mass)
    best = max(0.0, (bounds - sharper).min())
    assert best * (1 - 1e-12) <= found <= 1.1 * best + 1e-9
    if not total.pures:
        assert found >= gaussian_epsilon(total.mu, mass)


def test_bounds_by_moments_of_splits_and_of_what_fails():
    left, right = _Composition(mu=0.5), _Composition(pures=((0.4, 1),))
    splits = (((left, right), 3),)
    orders, moments = _loss_grid._bounding(_Composition(0.1), splits, math.nan, -30.0)
    each = [_loss_grid._log_moments(side, orders, math.nan) for side in (left, right)]
    expected = 0.005 * orders * (orders + 1) + 3 * np.maximum(*each)
    np.testing.assert_allclose(moments, expected, rtol=1e-12)
    sampled = _Composition(0.2, sampled=((FIXED, 0.5, 2.0, 9),))
    orders, _ = _loss_grid._bounding(sampled, (), 0.01, -30.0)
    variance = 0.04 + 9 * 0.25**2
    assert orders[-1] == approx(8 * math.sqrt(60 / variance))
    failing = _Composition(mu=0.5, failure=1e-12)
    assert _loss_grid._moments_epsilon(failing, (), 1e-12) == math.inf
    assert _loss_grid._moments_epsilon(sampled, (), 1e-12) == math.inf
    found = _loss_grid._moments_epsilon(failing, (), 3e-12)
    plain = _Composition(mu=0.5)
    assert found == approx(_loss_grid._moments_epsilon(plain, (), 2e-12))
    nothing = _loss_grid._reach(_Composition(), (), math.nan)
    assert 0.0 < nothing < 5.0
    assert _loss_grid._moments_epsilon(_Composition(mu=1e-9), (), 0.5) == 0.0


# --- composition ----------------------------------------------------------------------


def test_sides_are_followed_up_to_a_number_of_them(monkeypatch):
    splits = tuple(
        MaximumEvent([GaussianEvent(0.1 * 2**i)], [PureEvent(0.1 * 2**i)])
        for i in range(3)
    )
    monkeypatch.setattr(_composition, "_MAX_OPTIONS", 8)
    _composition._options.cache_clear()
    assert len(_composition._options(splits)) == 8
    monkeypatch.setattr(_composition, "_MAX_OPTIONS", 7)
    _composition._options.cache_clear()
    both = _privacy_loss._sum([_Composition(0.4), _Composition(pures=((0.4, 1),))])
    found = _composition._options(splits)
    _composition._options.cache_clear()
    assert len(found) == 4 and all(option.covers(both) for option in found)
    sides = [((0.1, 0.0), (0.0, 0.1)), ((0.2, 0.0), (0.0, 0.2))]
    expected = {
        (math.hypot(a[0], b[0], 0.4), a[1] + b[1] + 0.4)
        for a, b in itertools.product(*sides)
    }
    totals = {(o.mu, _privacy_loss._about_largest_loss(o)) for o in found}
    np.testing.assert_allclose(sorted(totals), sorted(expected), rtol=1e-12)


def test_an_epsilon_with_draws_pays_twice_the_error_of_the_sampler():
    total = _Composition(mu=0.8, n_draws=10**6)
    for delta in (1e-5, 1e-2):
        found = _composition._epsilon_of(total, delta)
        log_delta1, log_loss = _gaussian._sampler_log_delta1(found, delta)
        error = _gaussian._sampler_error(log_delta1, 10**6)
        left = (delta - math.exp(log_loss)) * math.exp(-error)
        expected = gaussian_epsilon(0.8, left) + 2 * error
        assert found == approx(expected, rel=1e-10)
        delta_found = _composition._delta_of(total, found)
        assert delta_found == approx(delta, rel=1e-8)
    far = _Composition(mu=0.8, n_draws=10**16)
    assert _composition._delta_of(far, 5.0) == 1.0
    assert _composition._epsilon_of(total, 1.0) == 0.0
    assert _composition._epsilon_of(total, 0.0) == math.inf
    drawn = _composition._epsilon_of(_Composition(n_draws=10), 0.5)
    log_delta1, _ = _gaussian._sampler_log_delta1(drawn, 0.5)
    error = _gaussian._sampler_error(log_delta1, 10)
    assert drawn == approx(2 * error, rel=1e-9)


def test_one_look_is_the_comparison_of_the_deltas():
    total = _Composition(mu=0.5, pures=((0.3, 1),))
    delta = _composition._ideal_delta(total, 1.0)
    assert _composition._costs_at_most(total, 1.0, delta)
    assert not _composition._costs_at_most(total, 1.0, delta * (1 - 1e-12))
    assert _composition._costs_at_most(_Composition(failure=0.1), 0.0, 0.2)
    nothing = _Composition(n_draws=0)
    assert _composition._costs_at_most(nothing, 0.0, 1e-5)


def test_what_transforms_can_lose_is_paid_for():
    total = _Composition(mu=0.3, sampled=((FIXED, 0.1, 2.0, 9),))
    curve = _loss_grid._worst_curve(total)
    for epsilon in (0.2, 1.0):
        found = _composition._ideal_delta(total, epsilon)
        assert found == curve.delta(epsilon) + 1e-11
        delta = curve.delta(epsilon) + 1e-11
        found = _composition._ideal_epsilon(total, delta)
        assert found == approx(epsilon, rel=1e-9)
    plain, sides = _Composition(mu=0.4), (_Composition(mu=0.3), _Composition(mu=0.2))
    splits = ((sides, 3),)
    curve = _loss_grid._worst_curve(plain, splits)
    for delta in (1.5e-10, 1e-5):
        expected = curve.epsilon(delta - 1e-11)
        assert _composition._worst_epsilon(plain, splits, delta) == expected
    for delta in (0.5e-10, 1e-20):  # too small for transforms
        expected = _loss_grid._moments_epsilon(plain, splits, delta)
        assert _composition._worst_epsilon(plain, splits, delta) == expected
    silent = _Composition(mu=math.inf)
    assert _composition._worst_epsilon(silent, splits, 1e-5) == math.inf
    exact = _privacy_loss._exact_delta(plain, 0.9)
    assert _composition._ideal_delta(plain, 0.9) / exact - 1 == approx(1e-10, rel=1e-3)


def test_a_delta_is_at_most_one():
    nearly = _Composition(mu=8.0, n_draws=10**6)
    assert 1 - 1e-4 < _composition._ideal_delta(nearly, 0.0) < 1.0
    assert _composition._delta_of(nearly, 0.0) == 1.0
    assert _composition._ideal_delta(_Composition(mu=40.0), 0.0) == 1.0
    sampled = _Composition(sampled=((FIXED, 0.9, 0.05, 9),))
    assert 1 - 1e-6 < _composition._ideal_delta(sampled, 0.0) <= 1.0


def test_a_budget_that_only_covers_the_draws_leaves_hardly_any():
    epsilon = 1e-6
    for _ in range(60):  # a fixed point: all of epsilon is twice the sampler's error
        log_delta1, _ = _gaussian._sampler_log_delta1(epsilon, 1e-5)
        epsilon = 2.0 * _gaussian._sampler_error(log_delta1, 10**6)
    ideal, log_delta = _gaussian.without_sampler_error(epsilon, 1e-5, 10**6)
    assert ideal == 0.0
    found = answer(calibrate_gaussian, epsilon, 1e-5, n_draws=10**6)
    assert found == approx(math.exp(log_delta) * math.sqrt(2 * math.pi), rel=1e-6)
