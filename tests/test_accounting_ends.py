"""The accounting at the ends of its ranges, and where one way gives over to another."""

import math
from dataclasses import replace

import numpy as np
import pytest
from _ends import answer, approx, ends_within, taken
from scipy.optimize import brentq

from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    PoissonGaussianEvent,
    PureEvent,
    WithoutReplacementGaussianEvent,
    _composition,
    _gaussian,
    _loss_grid,
    _privacy_loss,
    calibrate_gaussian,
    calibrate_poisson,
    calibrate_without_replacement,
    compose_delta,
    compose_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from fairpriv_sklearn.accounting._loss_grid import _Grid
from fairpriv_sklearn.accounting._privacy_loss import _Composition

POISSON, FIXED = "poisson_gaussian", "without_replacement_gaussian"
TINY, INF, NAN = 5e-324, math.inf, math.nan


def around_its_root(function, low, high, args=(), **options):
    """Brent's method, after a look at where it begins."""
    ends = [function(end, *args) for end in (low, high)]
    assert min(ends) <= 0.0 <= max(ends), "The root is elsewhere."
    return brentq(function, low, high, args=args, **options)


def above(value):
    return math.nextafter(value, INF)


def below(value):
    return math.nextafter(value, -INF)


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        (lambda epsilon: compose_delta([], epsilon), [0.0, INF], [-TINY, NAN]),
        (
            lambda delta: compose_epsilon([], delta),
            [0.0, 1.0],
            [-TINY, above(1.0), NAN],
        ),
        (
            lambda epsilon: _gaussian._check_budget(epsilon, 0.5),
            [0.0, 1e6, INF],
            [-TINY, above(1e6), NAN],
        ),
        (
            lambda delta: _gaussian._check_budget(1.0, delta),
            [TINY, below(1.0)],
            [0.0, 1.0, NAN],
        ),
        (lambda mu: gaussian_delta(mu, 1.0), [0.0, INF], [-TINY, NAN]),
        (_gaussian._check_draws, [0, 2.0, 10**40], [-1, 0.5, INF, NAN]),
        (
            lambda q: _gaussian._check_sampling(q, 1),
            [1e-15, 1.0],
            [below(1e-15), above(1.0), NAN],
        ),
        (
            lambda steps: _gaussian._check_sampling(0.5, steps),
            [1, 2.0, 10**7],
            [0, 10**7 + 1, 1.5, NAN],
        ),
    ],
)
def test_arguments_are_taken_up_to_both_ends(check, inside, outside):
    assert taken(check, inside + outside) == inside


def test_a_calibration_takes_the_ends_of_its_ranges():
    def none(epsilon):
        return gaussian_mu(epsilon, 0.5)

    assert taken(none, [0.0, 1e6, INF, -TINY]) == [0.0, 1e6, INF]
    assert none(INF) == INF == calibrate_gaussian(INF, 0.5)
    for calibrate in (calibrate_poisson, calibrate_without_replacement):
        full = 2.0 / calibrate_gaussian(1.0, 1e-12, n_draws=3)
        # Full batches need no grid, so that no delta is too small for one.
        assert calibrate(1.0, 1e-12, 1.0, 4, n_draws=3) == full
        assert calibrate(INF, 1e-12, 0.5, 4) == 0.0

        def sampled(delta, calibrate=calibrate):
            return calibrate(1.0, delta, 0.5, 1)

        assert taken(sampled, [1.01e-10, 1e-10]) == [1.01e-10]
    assert taken(lambda n: calibrate_gaussian(1e-6, 1e-5, n_draws=n), [0, 10**9]) == [0]


# --- one Gaussian ---------------------------------------------------------------------


def test_a_mu_beyond_floats_costs_the_bound_and_then_everything():
    for delta in (0.5, 1e-9):
        bound = 1e8 * (0.5e8 + math.sqrt(-2.0 * math.log(delta)))
        assert gaussian_epsilon(above(1e8), delta) == approx(
            bound * (1 + 1e-10), rel=1e-14
        )
    # Up to there the root is found, which is the mean of the loss at delta near a half.
    assert gaussian_epsilon(1e8, 0.5) == approx(0.5e16, rel=1e-9)
    assert gaussian_epsilon(1e150, 0.5) == approx(0.5e300, rel=1e-9)
    assert gaussian_epsilon(above(1e150), 0.5) == INF
    assert gaussian_epsilon(above(1e150), 1.0) == 0.0 == gaussian_epsilon(1.0, 1.0)
    assert gaussian_epsilon(1e-9, 0.0) == INF and gaussian_epsilon(0.0, 0.0) == 0.0
    assert gaussian_delta(0.0, -1.0) == approx(1 - math.exp(-1.0), rel=1e-15)
    assert gaussian_delta(0.0, TINY) == 0.0 == gaussian_delta(2.0, INF)
    assert gaussian_delta(INF, 1.0) == 1.0


def test_a_small_root_is_found_as_closely_as_a_large_one():
    for scale in (1e-9, 1.0, 1e9):
        found = _gaussian._smallest_epsilon(
            lambda epsilon, scale=scale: -2.0 * epsilon / scale - 1.0,
            math.exp(-1.5),
            20.0 * scale,
        )
        assert 0.0 <= found - 0.25 * scale < 1e-11 * scale + 1e-10 * 0.25 * scale


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("delta", [1e-305, 1e-9, 0.5, 0.999, below(1.0)])
def test_a_search_for_mu_begins_around_it(epsilon, delta, monkeypatch):
    monkeypatch.setattr(_gaussian, "brentq", around_its_root)
    with ends_within(2000, _gaussian):
        mu = _gaussian._largest_mu(epsilon, math.log(delta))
    (found,) = _gaussian.gaussian_log_delta(mu, np.array([epsilon]))
    slack = 1e-10 * (1 - math.log(delta)) * max(1.0, epsilon) + 1e-10
    assert found == approx(math.log(delta), abs=max(slack, 1e-9))
    with ends_within(2000, _gaussian):
        again = _gaussian._smallest_epsilon(
            lambda e: _gaussian.gaussian_log_delta(mu, np.array([e]))[0],
            delta,
            mu * (mu / 2.0 + math.sqrt(-2.0 * math.log(delta))),
        )
    assert again == approx(epsilon, abs=1e-8 * max(1.0, epsilon))


def test_a_root_beyond_the_upper_end_is_not_looked_for(monkeypatch):
    monkeypatch.setattr(_gaussian, "brentq", around_its_root)

    def line(epsilon):
        return -2.0 * epsilon - 1.0

    for delta, upper, expected in (
        (math.exp(-6.0), 2.0, 2.0),
        (math.exp(-5.5), 2.0, 2.0),
        (math.exp(-4.0), 2.0, 1.5),
        (math.exp(-1.5), 2.0, 0.25),
        (math.exp(-0.5), 2.0, 0.0),
    ):
        found = _gaussian._smallest_epsilon(line, delta, upper)
        assert found == approx(expected, rel=1e-9, abs=1e-12)


# --- totals ---------------------------------------------------------------------------


def test_the_most_that_is_composed_is_still_composed():
    single = _composition._single
    for kind in (PoissonGaussianEvent, WithoutReplacementGaussianEvent):
        assert single(kind(1.0, 1e-100, 1)).mu == approx(1e100, rel=1e-15)
        assert single(kind(1.0, 1 / 1.5e100, 1)).mu == INF
        assert single(kind(1.0, 1.0, 10**100)).mu == approx(1e50, rel=1e-15)
        assert single(kind(1.0, 1.0, 10**101)).mu == INF
    with pytest.raises(ValueError, match="no composition"):
        single(object())
    for total in (_Composition(mu=1.5e100), _Composition(pures=((1.5e100, 1),))):
        assert _composition._ideal_delta(total, 1e99) == 1.0
    pure = _Composition(pures=((1.5e100, 1),))
    assert _composition._ideal_epsilon(pure, 1e-5) == 1.5e100
    both = replace(pure, sampled=((FIXED, 0.5, 1.0, 1),))
    assert _composition._ideal_epsilon(both, 1e-5) == INF
    assert _composition._worst_epsilon(pure, (), 1e-5) == INF


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (_composition._epsilon_of, (_Composition(0.8, n_draws=10), 0.0), INF),
        (
            _composition._epsilon_of,
            (_Composition(n_draws=10, pures=((0.5, 1),)), 0.0),
            INF,
        ),
        (_composition._epsilon_of, (_Composition(0.8, n_draws=10), 1.0), 0.0),
        (_composition._delta_of, (_Composition(1e-9, n_draws=1), 5.0), 0.0),
        (_composition._delta_of, (_Composition(1e3, n_draws=1), 5.0), 1.0),
        (_composition._costs_at_most, (_Composition(0.5), 1.0, 0.0), False),
        (_composition._costs_at_most, (_Composition(), 0.0, 0.5), True),
        (_Composition.times, (_Composition(failure=1.0), 3), _Composition(failure=1.0)),
        (_Composition.times, (_Composition(0.5, 3), 0), _Composition()),
        (_privacy_loss._any_fails, ([1.0, 0.2],), 1.0),
        (_privacy_loss._any_fails, ([below(1.0)] * 3,), 1.0),
        (_privacy_loss._any_fails, ([0.2],), 0.2),
        (_privacy_loss._any_fails, ([],), 0.0),
    ],
)
def test_the_ends_are_answered(function, arguments, expected):
    assert answer(function, *arguments) == expected


def test_of_pure_releases_no_delta_is_too_small():
    total = _Composition(pures=((0.3, 2), (0.5, 1)))
    for delta in (1e-300, 1e-9, 1e-3):
        found = answer(_composition._epsilon_of, total, delta)
        # Above 0.8 only the largest loss of 1.1 is left, of this probability.
        top = 1 / (1 + math.exp(-0.3)) ** 2 / (1 + math.exp(-0.5))
        expected = 1.1 + math.log1p(-delta / top)
        assert found == approx(expected, rel=1e-9)


def test_a_coarse_look_costs_more_than_the_total():
    total = _Composition(mu=0.5, pures=((0.3, 4), (0.7, 2)))
    fine = _privacy_loss._exact_delta(total, 1.0)
    for roughness in (1.5, 2.0):
        coarse = _privacy_loss._exact_delta(replace(total, roughness=roughness), 1.0)
        assert fine * (1 + 1e-6) < coarse < 1.05 * fine


def test_one_response_left_out_is_put_on_the_largest_loss():
    # Of 60 at a tenth each Hoeffding leaves out only that all 60 are negative.
    epsilon = math.log(9.0)
    losses, weights = _privacy_loss._randomized_response(epsilon, 60)
    assert losses.size == 61 and losses[-1] == 60 * epsilon and weights[-1] == 1e-40
    assert losses[:-1].min() == approx(-58 * epsilon, rel=1e-14)
    losses, weights = _privacy_loss._randomized_response(epsilon, 40)
    assert losses.size == 41 and weights[-1] == approx(0.1**40, rel=1e-12)


@pytest.mark.parametrize("total", [(FIXED, 1e-3, 5.0, 10**6), (POISSON, 1e-12, 0.1, 4)])
def test_the_step_where_the_largest_loss_is_small_or_rare(total):
    _, q, z, steps = total
    spread = min(1 / z, q * math.sqrt(math.expm1(min(z**-2, 50.0))))
    variance = steps * spread**2
    reach = variance + 10 * math.sqrt(variance)
    reach += _privacy_loss._largest_sampled_loss(q, 1 / z)
    found = _privacy_loss._grid_step(_Composition(sampled=(total,)))
    points = max(2**14, 300 * math.sqrt(steps))
    assert found == approx(2 * reach / points, rel=1e-12)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("kind", [POISSON, FIXED])
def test_a_sampled_loss_is_that_of_its_noise(kind, add):
    q, z, step = 0.2, 2.5, 0.005
    lowest, masses, lost = _loss_grid._sampled_losses(kind, q, z, step, add)
    losses = step * (lowest + np.arange(masses.size))
    remove, backward = _privacy_loss._sampled_curves(q, 1 / z)
    curve = backward if add and kind == POISSON else remove
    for epsilon in (0.0, 0.05, 0.1):
        gains = -np.expm1(np.minimum(0.0, epsilon - losses))
        exact = float(curve(np.array([epsilon]))[0])
        assert exact - 1e-12 <= lost + masses @ gains <= exact + 2e-5
    highest = _privacy_loss._largest_sampled_loss(q, 1 / z)
    assert masses.size == 2 * math.ceil(highest / step) + 1


def test_powers_of_more_than_16384_steps_are_taken_of_long_doubles():
    grid = _Grid(1e-2, 64, False)
    noise = 8.0 * float(np.finfo(np.longdouble).eps)
    for steps, added in ((2**14, 0.0), (2**14 + 1, (2**14 + 1) * noise)):
        total = _Composition(sampled=((FIXED, 1e-4, 100.0, steps),))
        _, _, lost = _loss_grid._sampled_losses(FIXED, 1e-4, 100.0, 1e-2, False)
        _, infinite = grid.losses(total)
        expected = steps * lost + added + 1e-16
        assert infinite == approx(expected, rel=1e-6)


def test_a_total_beyond_all_grids_fails():
    with_much = _Composition(mu=1e60, sampled=((FIXED, 0.5, 1.0, 1),))
    assert _loss_grid._grid_of(with_much, ()) == (INF, 0, INF)
    curve = _loss_grid._worst_curve(with_much)
    assert [curve.delta(e) for e in (-1.0, 0.0, 0.5, 1.0, 1e9)] == [1.0] * 5
    assert curve.epsilon(0.999) == INF
    rare = ((FIXED, 0.5, 1.0, 1),)  # of so few steps: 16,384 points, each below 500
    for mu, fits in ((1900.0, True), (2300.0, False)):
        step, _, _ = _loss_grid._grid_of(_Composition(mu=mu, sampled=rare), ())
        assert (step < INF) == fits == (2 * (mu**2 + 10 * mu) / 2**14 < 500)


def test_the_smallest_deltas_are_bounded_by_each_order():
    """Canonne, Kamath and Steinke (2020), Proposition 12, at every order."""
    total = _Composition(mu=0.3, pures=((0.2, 3),))
    for delta in (1e-12, 1e-30):
        orders, moments = _loss_grid._bounding(total, (), NAN, math.log(delta))
        several = [
            moment / (alpha - 1)
            + math.log((alpha - 1) / alpha)
            - (math.log(delta) + math.log(alpha)) / (alpha - 1)
            for alpha, moment in zip(orders + 1, moments, strict=True)
        ]
        found = _loss_grid._moments_epsilon(total, (), delta)
        assert found == approx(min(several), rel=1e-12)


# --- calibration ----------------------------------------------------------------------


@pytest.mark.parametrize("start", [1e-3, 0.3, 0.95, 1.05, 3.0, 1e3])
@pytest.mark.parametrize("slope", [0.3, 1.0, 20.0])
def test_the_search_for_noise_ends_just_inside_the_budget(start, slope, monkeypatch):
    """On a curve of which the root is known, from any start, in few looks."""
    delta, q, steps = 1e-5, 0.1, 10**6
    full = math.sqrt(steps) / calibrate_gaussian(1.0, delta)
    root, looks = start * q * full, []

    def delta_of(total, epsilon):
        ((_, rate, noise, n),) = total.sampled
        assert (rate, n, epsilon) == (q, steps, 1.0)
        looks.append(total.roughness)
        # A coarse grid costs a little more.
        return delta * (root / noise) ** slope * (1 + 1e-3 * (total.roughness - 1))

    monkeypatch.setattr(_composition, "_delta_of", delta_of)
    monkeypatch.setattr(_composition, "brentq", around_its_root)
    with ends_within(2000, _composition):
        found = _composition._calibrate_sampled(
            PoissonGaussianEvent, 1.0, delta, q, steps, 0
        )
    if root >= full:
        assert found == full
        return
    excess = -slope * math.log(found / root)
    assert -1e-6 - 1.01e-6 * slope <= excess <= -1e-6 * (1 - 1e-9)
    coarse = looks.index(1.0)
    assert set(looks[:coarse]) == {16.0} and set(looks[coarse:]) == {1.0}
    assert coarse < 60 and len(looks) < 100


def test_noise_is_never_less_than_a_twentieth_nor_more_than_of_full_batches(
    monkeypatch,
):
    delta, q, steps = 1e-5, 0.1, 100
    full = 10.0 / calibrate_gaussian(1.0, delta)
    for found, constant in ((0.05, delta / 2), (0.05, delta * (1 - 2e-6))):
        monkeypatch.setattr(_composition, "_delta_of", lambda *_, c=constant: c)
        with ends_within(500, _composition):
            got = _composition._calibrate_sampled(
                WithoutReplacementGaussianEvent, 1.0, delta, q, steps, 0
            )
        assert got == found < full


def test_the_search_for_noise_ends_where_more_hardly_costs_less(monkeypatch):
    """With batches as rare as delta allows it went on by millionths, for hours."""
    looks, delta_of = [], _composition._delta_of
    monkeypatch.setattr(
        _composition, "_delta_of", lambda *args: looks.append(args) or delta_of(*args)
    )
    calibrate = _composition._calibrate_sampled
    for beside in (0.0, 0.001):
        found = calibrate(
            WithoutReplacementGaussianEvent, 0.01, 1e-3, 1e-3, 1, 0, beside
        )
        assert 0.05 < found < 1.0
    assert len(looks) < 200


@pytest.mark.parametrize("share", [0.5, 0.99, 0.9999])
def test_nearly_full_batches_need_no_more_noise_than_full_ones(share):
    """Beside what takes nearly all of the budget the bracket overflowed."""
    beside = math.sqrt(share) * calibrate_gaussian(0.01, 1e-8)
    found, full = (
        calibrate_without_replacement(0.01, 1e-8, q, 1, beside=beside)
        for q in (0.999999, 1.0)
    )
    assert 0.99 * full < found <= full


@pytest.mark.parametrize(
    "kind", [PoissonGaussianEvent, WithoutReplacementGaussianEvent]
)
@pytest.mark.parametrize(
    "q, epsilon", [(0.9999, 3.0), (0.999999, 0.1), (0.999999, 1.0)]
)
def test_nearly_full_batches_cost_no_more_than_full_ones(kind, q, epsilon):
    """A grid of losses rounded up to more than the budget that was calibrated to."""
    calibrate = _composition._calibrate_sampled
    for steps, n_draws in ((1, 0), (10, 100)):
        noise = calibrate(kind, epsilon, 1e-5, q, steps, n_draws)
        sampled = kind(q, noise, steps, n_draws)
        assert 0.999 * epsilon < compose_epsilon([sampled], 1e-5) <= epsilon
        assert 0.99e-5 < compose_delta([sampled], epsilon) <= 1e-5
    full = GaussianEvent(math.sqrt(10) / noise, 100)
    others = [GaussianEvent(0.3, 5), PureEvent(0.2), DeclaredEvent(0.1, 1e-6)]
    expected = compose_epsilon([full, *others], 1e-5)
    assert compose_epsilon([sampled, *others], 1e-5) == approx(expected, rel=1e-4)
    rare = kind(0.01, noise, 10, 100)
    assert compose_epsilon([rare], 1e-5) < 0.5 * epsilon


def test_a_gaussian_of_no_draws_is_free_of_the_sampler():
    assert _composition._epsilon_of(_Composition(mu=0.5), 1e-5) == gaussian_epsilon(
        0.5, 1e-5
    )
    one = _composition._single(GaussianEvent(0.5, 1))
    assert _composition._epsilon_of(one, 1e-5) > gaussian_epsilon(0.5, 1e-5)


@pytest.mark.parametrize(
    "kind", [PoissonGaussianEvent, WithoutReplacementGaussianEvent]
)
def test_rare_and_quiet_records_have_a_finite_cost(kind):
    """Losses of less than what rounding leaves had a grid without a place."""
    for q, noise in ((1e-15, 1e3), (1e-12, 1e300), (1e-300, 1e3), (1e-12, 1e2)):
        rare = kind(q, noise, 1)
        assert compose_epsilon([rare], 1e-5) == 0.0
        # The loss of a rare record costs nothing but what the grid leaves out.
        assert 0.0 <= compose_delta([rare], 0.0) < 2e-11
        beside = compose_epsilon([rare, PureEvent(0.5)], 1e-9)
        assert beside == approx(0.5, rel=1e-6)


def test_a_gaussian_without_noise_beside_samples_has_no_epsilon():
    for mu in (1e101, 1e160):
        events = [GaussianEvent(mu), PoissonGaussianEvent(0.5, 1.0, 10)]
        assert compose_epsilon(events, 1e-5) == INF
        assert compose_delta(events, 1e100) == 1.0
