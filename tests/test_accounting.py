import json
import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from _ends import approx
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.fft import irfft, rfft
from scipy.special import ndtri

from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PureEvent,
    ThresholdEvent,
    WithoutReplacementGaussianEvent,
    _composition,
    _events,
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


def exact_delta(mu, epsilon):
    """Equation (0.1) of the privacy analysis, with 100 digits."""
    with mpmath.workdps(100):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
            -mu / 2 - epsilon / mu
        )


def randomized_response_delta(epsilons, epsilon):
    """Delta of pure releases by enumeration of all 2^m outcomes."""
    total = 0.0
    for signs in np.ndindex(*(2,) * len(epsilons)):
        loss = sum(e if s else -e for e, s in zip(epsilons, signs, strict=True))
        weight = math.prod(
            1 / (1 + math.exp(-e if s else e))
            for e, s in zip(epsilons, signs, strict=True)
        )
        total += weight * max(0.0, 1 - math.exp(epsilon - loss))
    return total


# --- One Gaussian ---------------------------------------------------------------------

BUDGETS = [
    (1e-6, 1e-300),
    (1e-6, 1e-9),
    (1e-3, 1e-5),
    (0.05, 1e-12),
    (0.5, 0.3),
    (1.0, 1e-5),
    (1.0, 1e-100),
    (8.0, 1e-6),
    (100.0, 1e-10),
    (1e4, 1e-5),
    (1e6, 1e-300),
    (1e6, 0.9),
]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("factor", [0.7, 1.0, 1.4])
def test_log_delta_against_a_hundred_digits(epsilon, delta, factor):
    mu = factor * gaussian_mu(epsilon, delta)
    reference = float(mpmath.log(exact_delta(mu, epsilon)))
    value = _gaussian.gaussian_log_delta(mu, np.array([epsilon]))[0]
    # An absolute error of the logarithm is a relative error of delta; a logarithm far
    # from 0 has its own roundings.
    assert abs(value - reference) <= 1e-12 + 1e-15 * abs(reference)


@given(
    log_mu=st.floats(math.log(1e-6), math.log(1e3)),
    standardised=st.floats(-30.0, 37.0),
)
@settings(max_examples=300)
@example(log_mu=math.log(0.5), standardised=12.0)
def test_delta_relative_error(log_mu, standardised):
    mu = math.exp(log_mu)
    epsilon = mu * standardised + mu * mu / 2
    if epsilon < 0:
        epsilon = 0.0
    truth = exact_delta(mu, epsilon)
    value = math.exp(_gaussian.gaussian_log_delta(mu, np.array([epsilon]))[0])
    assert abs(value / truth - 1) < 1e-12
    assert truth <= gaussian_delta(mu, epsilon) <= truth * (1 + 2e-10)


@pytest.mark.parametrize("mu", [0.01, 0.4, 0.7, 3.0])
@pytest.mark.parametrize("epsilon", [-5.0, -0.3, -1e-3])
def test_delta_at_negative_epsilon(mu, epsilon):
    value = math.exp(_gaussian.gaussian_log_delta(mu, np.array([epsilon]))[0])
    assert value == approx(float(exact_delta(mu, epsilon)), rel=1e-12)


@given(
    epsilon=st.floats(1e-6, 1e6) | st.floats(0.01, 20.0),
    log_delta=st.floats(-690.0, math.log(0.99)) | st.floats(-30.0, -5.0),
)
@settings(max_examples=200)
def test_inverses_are_on_the_private_side_and_tight(epsilon, log_delta):
    delta = math.exp(log_delta)
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(mu, epsilon) <= delta
    assert exact_delta(mu * (1 + 3e-9), epsilon) > delta
    back = gaussian_epsilon(mu, delta)
    assert exact_delta(mu, back) <= delta
    assert back <= epsilon
    lower = back - 1e-6 * (back + mu)
    if lower > 0:
        assert exact_delta(mu, lower) > delta


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-3, 1e-5), (1.0, 1e-5), (8.0, 0.3), (100.0, 1e-30)]
)
def test_margins_are_the_stated_ones(epsilon, delta):
    """A billionth for a calibration, a tenth of that for a composition."""
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(mu * (1 + 0.9e-9), epsilon) < delta
    assert exact_delta(mu * (1 + 1.1e-9), epsilon) > delta
    assert calibrate_gaussian(epsilon, delta) == mu
    excess = gaussian_delta(mu, epsilon) / exact_delta(mu, epsilon) - 1
    assert 0.9e-10 < excess < 1.1e-10
    back = gaussian_epsilon(mu, delta)
    ideal = mu / (1 - 1e-9)  # of which `epsilon` is the smallest at `delta`
    again = gaussian_epsilon(ideal, delta) / epsilon - 1
    upper = ideal * (ideal / 2 + math.sqrt(-2 * math.log(delta)))
    assert abs(again - 1e-10 - 2e-13 * upper / epsilon) < 0.2e-10 + 1e-12 / epsilon
    assert back < epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0, 700.0])
def test_the_sampler_gets_a_millionth_of_delta_or_less(epsilon):
    for delta in (1e-9, 1e-4):
        log_delta1, log_loss = _gaussian._sampler_log_delta1(epsilon, delta)
        with mpmath.workdps(30):
            factor = mpmath.log(1 + mpmath.exp(mpmath.mpf(epsilon)))
            expected = min(mpmath.log("1e-12") + factor, mpmath.log(delta * 1e-6))
        assert log_loss == approx(float(expected), rel=1e-14)
        assert log_delta1 == approx(float(expected - factor), rel=1e-14)
        ideal, log_left = _gaussian.without_sampler_error(epsilon, delta, 1000)
        error = 1e-13 + 1e-8 * math.sqrt(-2000 * log_delta1)
        assert ideal == approx(epsilon - 2 * error, rel=1e-14)
        left = math.log(delta - math.exp(log_loss)) - error
        assert log_left == approx(left, rel=1e-13)
        assert _gaussian.without_sampler_error(epsilon, delta, 0) == (
            epsilon,
            math.log(delta),
        )


def test_the_ends_of_the_ranges():
    assert 0 < gaussian_mu(1e6, 0.5) < calibrate_gaussian(math.inf, 0.5) == math.inf
    assert gaussian_epsilon(1e150, 0.5) < gaussian_epsilon(1.1e150, 0.5) == math.inf
    assert gaussian_epsilon(3.0, 1.0) == 0.0 == gaussian_epsilon(1e200, 1.0)
    assert gaussian_delta(0.0, 0.0) == 0.0 and gaussian_delta(1e-300, 1.0) == 0.0
    for mu in (0.99e8, 1.01e8, 1.99e8):
        bound = mu * (mu / 2 + math.sqrt(-2 * math.log(1e-5)))
        assert 0.9999999 < gaussian_epsilon(mu, 1e-5) / bound < 1 + 1.1e-10
    bound = 1.01e8 * (0.505e8 + math.sqrt(-2 * math.log(1e-5)))
    assert gaussian_epsilon(1.01e8, 1e-5) == bound * (1 + 1e-10)
    assert gaussian_epsilon(0.99e8, 1e-5) < bound * 0.97
    _gaussian._check_sampling(1.0, 10**7)
    _gaussian._check_sampling(_gaussian.SMALLEST_Q, 1)
    _gaussian._check_draws(0)
    for q, steps in (
        (0.0, 1),
        (_gaussian.SMALLEST_Q / 2, 1),
        (1.0000001, 1),
        (0.5, 0),
        (0.5, 10**7 + 1),
        (0.5, 1.5),
    ):
        with pytest.raises(ValueError, match="must be"):
            _gaussian._check_sampling(q, steps)
    for wrong in (-1, 0.5, math.inf):
        with pytest.raises(ValueError, match="n_draws must be a whole"):
            _gaussian._check_draws(wrong)
    for epsilon, delta in ((1e6 + 1, 0.5), (-1e-9, 0.5), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="must be in"):
            _gaussian._check_budget(epsilon, delta)
    _gaussian._check_budget(0.0, 1e-300)


def test_gaussian_edges():
    assert gaussian_delta(0.0, 1.0) == 0.0
    assert gaussian_delta(0.0, -1.0) == approx(1 - math.exp(-1))
    assert gaussian_delta(math.inf, 1.0) == 1.0
    assert gaussian_delta(1.0, math.inf) == 0.0
    assert gaussian_epsilon(0.0, 0.0) == 0.0
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(math.inf, 0.5) == math.inf
    assert gaussian_epsilon(math.inf, 1.0) == 0.0
    assert gaussian_epsilon(0.1, 0.5) == 0.0  # delta(0) is already smaller
    assert gaussian_mu(math.inf, 1e-5) == math.inf
    # At epsilon = 0, delta = 2 Phi(mu / 2) - 1.
    for delta in (1e-300, 1e-8, 0.2, 0.999):
        mu = gaussian_mu(0.0, delta)
        with mpmath.workdps(330):
            exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(delta))
        assert exact * (1 - 2e-9) <= mu <= exact


# --- Calibration with the error of the sampler ----------------------------------------


def test_calibration_without_draws_is_the_plain_inverse():
    assert calibrate_gaussian(1.0, 1e-5) == gaussian_mu(1.0, 1e-5)
    assert calibrate_gaussian(math.inf, 1e-5, n_draws=10) == math.inf


@pytest.mark.parametrize(
    ("n_draws", "published"), [(10**3, 5e-6), (10**6, 1.5e-4), (8 * 10**8, 4e-3)]
)
def test_sampler_error_has_the_published_size(n_draws, published):
    error = 2 * _gaussian._sampler_error(math.log(1e-12), n_draws)
    assert error == approx(published, rel=0.1)


@given(
    epsilon=st.floats(0.01, 50.0),
    log_delta=st.floats(-60.0, -3.0),
    n_draws=st.integers(1, 10**6),
)
@settings(max_examples=100)
def test_calibration_pays_for_the_sampler(epsilon, log_delta, n_draws):
    delta = math.exp(log_delta)
    mu = calibrate_gaussian(epsilon, delta, n_draws=n_draws)
    # The bound of the privacy analysis, at the delta1 that the accounting chose.
    log_delta1, _ = _gaussian._sampler_log_delta1(epsilon, delta)
    assert log_delta1 <= math.log(1e-12)
    e1 = n_draws * 1e-16 + 1e-8 * math.sqrt(-2 * n_draws * log_delta1)
    extra = math.exp(log_delta1) * (1 + math.exp(epsilon - e1))
    assert math.exp(e1) * exact_delta(mu, epsilon - 2 * e1) + extra <= delta
    assert compose_epsilon([GaussianEvent(mu, n_draws)], delta) <= epsilon
    assert compose_epsilon([GaussianEvent(mu, n_draws)], delta) >= epsilon * (1 - 1e-6)
    assert compose_delta([GaussianEvent(mu, n_draws)], epsilon) <= delta * (1 + 1e-9)


def test_more_draws_leave_less_for_the_fit():
    values = [calibrate_gaussian(1.0, 1e-5, n_draws=n) for n in (0, 10, 10**4, 10**8)]
    assert values == sorted(values, reverse=True) and len(set(values)) == 4
    assert values[2] == approx(values[0], rel=1e-4)


def test_impossible_calibration_says_so():
    with pytest.raises(ValueError, match="does not cover the error of drawing"):
        calibrate_gaussian(1e-6, 1e-5, n_draws=10**6)


# --- Exact composition ----------------------------------------------------------------


def test_gaussian_parts_add_in_quadrature():
    parts = [GaussianEvent(0.3, 0), GaussianEvent(0.4, 0)]
    assert compose_epsilon(parts, 1e-6) == approx(
        gaussian_epsilon(0.5, 1e-6), rel=1e-12
    )


@pytest.mark.parametrize(("mu", "delta"), [(0.3, 1e-6), (1.0, 1e-5), (4.0, 1e-3)])
def test_gaussian_against_dp_accounting(mu, delta):
    from dp_accounting.pld import privacy_loss_distribution as dp_pld

    pld = dp_pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)
    epsilon = compose_epsilon([GaussianEvent(mu, 0)], delta)
    assert pld.get_epsilon_for_delta(delta) == approx(epsilon, rel=1e-5)


def test_pure_parts_add_up_at_delta_zero():
    assert compose_epsilon([PureEvent(0.1)], 0.0) == 0.1
    assert compose_epsilon([], 0.0) == 0.0
    total = compose_epsilon([PureEvent(0.1)] * 3 + [PureEvent(1.0)], 0.0)
    assert 1.3 <= total <= 1.3 + 1e-15
    assert compose_epsilon([PureEvent(math.inf)], 0.5) == math.inf
    assert compose_delta([PureEvent(math.inf)], 3.0) == 1.0


@pytest.mark.parametrize("epsilons", [[1.0], [0.1] * 8, [0.3, 0.7, 0.3, 2.0, 0.05]])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.95])
def test_pure_parts_against_enumeration(epsilons, share):
    parts = [PureEvent(e) for e in epsilons]
    epsilon = share * sum(epsilons)
    exact = randomized_response_delta(epsilons, epsilon)
    assert compose_delta(parts, epsilon) == approx(exact, rel=1e-9)
    assert compose_delta(parts, epsilon) >= exact * (1 - 1e-13)
    back = compose_epsilon(parts, exact)
    assert back == approx(epsilon, abs=1e-9)


def test_many_pure_parts_beat_the_sum():
    # By the central limit theorem nearly a Gaussian of mu = sqrt(1000) 0.01.
    epsilon = compose_epsilon([PureEvent(0.01)] * 1000, 1e-6)
    gaussian = gaussian_epsilon(math.sqrt(1000) * 0.01, 1e-6)
    assert epsilon == approx(gaussian, rel=0.01)


def test_gaussian_and_pure_against_enumeration_of_the_losses():
    mu, epsilons = 0.8, [0.5, 0.2]
    for epsilon in (0.0, 0.9, 2.5):
        expected = sum(
            math.prod(
                1 / (1 + math.exp(-s * e)) for e, s in zip(epsilons, signs, strict=True)
            )
            * exact_delta(mu, epsilon - np.dot(epsilons, signs))
            for signs in [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        )
        parts = [GaussianEvent(mu, 0)] + [PureEvent(e) for e in epsilons]
        assert compose_delta(parts, epsilon) == approx(float(expected), rel=1e-9)


def test_gaussian_and_pure_against_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution as dp_pld

    parts = [
        GaussianEvent(0.5, 0),
        PureEvent(0.3),
        PureEvent(0.3),
        DeclaredEvent(0.2, 1e-7),
    ]
    pld = dp_pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4)
    for privacy in ((0.3, 0.0), (0.3, 0.0), (0.2, 1e-7)):
        one = dp_pld.from_privacy_parameters(
            dp_pld.common.DifferentialPrivacyParameters(*privacy),
            value_discretization_interval=1e-4,
        )
        pld = pld.compose(one)
    epsilon = compose_epsilon(parts, 1e-5)
    assert pld.get_epsilon_for_delta(1e-5) == approx(epsilon, rel=1e-4)


def test_gaussian_and_pure_against_monte_carlo():
    rng = np.random.default_rng(0)
    mu, epsilons, n = 1.0, [0.4, 0.8], 1_000_000
    losses = mu * rng.normal(size=n) + mu**2 / 2
    for e in epsilons:
        losses += np.where(rng.random(n) < 1 / (1 + math.exp(-e)), e, -e)
    epsilon = compose_epsilon(
        [GaussianEvent(mu, 0)] + [PureEvent(e) for e in epsilons], 1e-3
    )
    terms = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - losses)))
    error = terms.std() / math.sqrt(n)
    assert abs(terms.mean() - 1e-3) < 4 * error
    assert error < 2e-5


def test_declared_parts():
    part = DeclaredEvent(0.7, 1e-6)
    assert compose_epsilon([part], 1e-6) == 0.7
    assert compose_epsilon([part], 1e-7) == math.inf
    assert compose_delta([part], 0.7) == approx(1e-6, rel=1e-9)
    assert compose_delta([part], math.inf) == 1e-6
    assert compose_epsilon([part, part], 2e-6) <= 1.4
    assert compose_delta([part, part], 1.4) <= 2e-6
    # The failure mass of a declared part cannot be spent by a Gaussian.
    assert compose_epsilon([part, GaussianEvent(1.0, 0)], 1e-6) == math.inf
    # Hardly more delta than fails anyway buys nothing.
    assert compose_epsilon([part], 1e-6 * (1 + 1e-12)) == 0.7
    assert compose_epsilon([DeclaredEvent(0.7, 1.0), GaussianEvent(1.0, 0)], 1.0) == 0.0
    with_failure = compose_delta([part, GaussianEvent(0.5, 0)], 1.0)
    without = compose_delta([PureEvent(0.7), GaussianEvent(0.5, 0)], 1.0)
    assert with_failure == approx(1e-6 + (1 - 1e-6) * without, rel=1e-9)


def test_too_many_atoms_are_merged_pessimistically(monkeypatch):
    epsilons = [0.11, 0.23, 0.31, 0.47, 0.59, 0.6, 0.71, 0.83]
    parts = [PureEvent(e) for e in epsilons]
    exact = compose_delta(parts, 1.0)
    monkeypatch.setattr(_privacy_loss, "_MAX_ATOMS", 100)
    _privacy_loss._loss_atoms.cache_clear()
    _composition._delta_of.cache_clear()
    merged = compose_delta(parts, 1.0)
    _privacy_loss._loss_atoms.cache_clear()
    _composition._delta_of.cache_clear()
    assert exact < merged < 1.2 * exact


def test_sampler_error_is_part_of_a_composition():
    plain = compose_epsilon([GaussianEvent(0.5, 0), PureEvent(0.5)], 1e-5)
    split = [
        GaussianEvent(0.3, 4 * 10**5),
        GaussianEvent(0.4, 6 * 10**5),
        PureEvent(0.5),
    ]
    with_draws = compose_epsilon(split, 1e-5)
    assert with_draws - plain == approx(1.5e-4, rel=0.2)
    assert compose_delta(split, with_draws) == approx(1e-5, rel=1e-4)
    assert compose_epsilon([GaussianEvent(0.5, 10)], 0.0) == math.inf
    assert compose_epsilon([GaussianEvent(0.5, 10)], 1.0) == 0.0
    assert compose_epsilon([GaussianEvent(math.inf, 10)], 1e-5) == math.inf
    assert compose_delta([GaussianEvent(0.0, 0)], 1.0) == 0.0
    assert compose_delta([GaussianEvent(0.01, 10)], 10.0) == 0.0


@given(
    mus=st.lists(st.floats(0.0, 2.0), max_size=3),
    epsilons=st.lists(st.floats(0.0, 3.0), max_size=3),
    delta=st.floats(1e-9, 0.1),
)
@settings(max_examples=60)
def test_epsilon_and_delta_are_inverse_to_each_other(mus, epsilons, delta):
    parts = [GaussianEvent(mu, 0) for mu in mus] + [PureEvent(e) for e in epsilons]
    epsilon = compose_epsilon(parts, delta)
    assert compose_delta(parts, epsilon) <= delta * (1 + 1e-9)
    if epsilon > 1e-3:
        assert compose_delta(parts, epsilon * (1 - 1e-6)) > delta
    more = [*parts, PureEvent(0.1)]
    assert compose_epsilon(more, delta) >= epsilon * (1 - 1e-9)


# --- Maximum --------------------------------------------------------------------------


def test_maximum_is_the_worse_side():
    a, b = [GaussianEvent(0.5, 0)], [PureEvent(1.0)]
    maximum = [MaximumEvent(a, b)]
    for delta in (1e-9, 1e-3):
        assert compose_epsilon(maximum, delta) == max(
            compose_epsilon(a, delta), compose_epsilon(b, delta)
        )
    both = [PureEvent(0.3), GaussianEvent(0.2, 0)]
    assert compose_epsilon([*both, *maximum], 1e-5) == max(
        compose_epsilon([*both, *a], 1e-5), compose_epsilon([*both, *b], 1e-5)
    )
    assert compose_delta(maximum, 0.8) == max(
        compose_delta(a, 0.8), compose_delta(b, 0.8)
    )


def test_nested_and_repeated_maximum():
    inner = MaximumEvent([GaussianEvent(0.5, 0)], [GaussianEvent(0.7, 0)])
    outer = MaximumEvent([inner, GaussianEvent(0.1, 0)], [GaussianEvent(0.2, 5)])
    assert compose_epsilon([outer], 1e-5) == approx(
        compose_epsilon([GaussianEvent(math.hypot(0.7, 0.1), 0)], 1e-5), rel=1e-6
    )
    # 40 repeated splits have 41 different totals, not 2^40.
    split = MaximumEvent([GaussianEvent(0.1, 0)], [PureEvent(0.1)])
    assert len(_composition._options((split,) * 40)) == 41


def test_dominated_sides_are_dropped():
    splits = [
        MaximumEvent([PureEvent(0.1 + 0.01 * i)], [PureEvent(0.2 + 0.02 * i)])
        for i in range(30)
    ]
    assert len(_composition._options(tuple(splits))) == 1
    worst = math.fsum(0.2 + 0.02 * i for i in range(30))
    assert compose_epsilon(splits, 0.0) == approx(worst, rel=1e-15)
    # A larger epsilon does not make up for a smaller delta.
    incomparable = [
        MaximumEvent([DeclaredEvent(0.1, 1e-6)], [DeclaredEvent(0.2, 1e-7)])
    ]
    assert compose_delta(incomparable, 0.15) > 1e-2
    assert compose_delta(incomparable, 0.3) == approx(1e-6, rel=1e-9)


def test_too_many_sides_cost_the_sum():
    sides = [
        ([GaussianEvent(0.05 + 1e-3 * i, 0)], [PureEvent(0.03 + 2e-3 * i)])
        for i in range(12)
    ]
    epsilon = compose_epsilon([MaximumEvent(*side) for side in sides], 1e-5)
    gaussian = [event for side in sides for event in side[0]]
    pure = [event for side in sides for event in side[1]]
    assert epsilon >= compose_epsilon(gaussian, 1e-5)
    assert epsilon >= compose_epsilon(pure, 1e-5)
    assert epsilon <= compose_epsilon(gaussian + pure, 1e-5)


def test_events_survive_json():
    events = [
        GaussianEvent(0.5, 10),
        MaximumEvent([PureEvent(0.5)], [GaussianEvent(1.0, 0)]),
    ]
    stored = json.loads(json.dumps([event.to_dict() for event in events]))
    assert [_events.event_from_dict(one) for one in stored] == events
    with pytest.raises(ValueError, match="newer version of the library"):
        _events.event_from_dict({"kind": "staircase", "epsilon": 1.0})
    with pytest.raises(ValueError, match="A pure event has the fields"):
        _events.event_from_dict({"kind": "pure", "epsilon": 1.0, "gamma": 0.5})


def test_stored_kinds_keep_their_names():
    """The evolution rule: a stored kind is never removed or renamed."""
    assert set(_events._KINDS) >= {
        "gaussian", "pure", "declared", "threshold", "poisson_gaussian",
        "without_replacement_gaussian", "maximum",
    }  # fmt: skip


# --- Sampled Gaussians ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "z", "steps", "delta"),
    [
        (0.02, 1.0, 1000, 1e-3),
        (0.2, 5.0, 50, 1e-6),
        (0.5, 0.8, 3, 1e-5),
        (0.01, 2.0, 1, 1e-4),
    ],
)
def test_poisson_against_dp_accounting(q, z, steps, delta):
    from dp_accounting.pld import privacy_loss_distribution as dp_pld

    reference = dp_pld.from_gaussian_mechanism(
        z, sampling_prob=q, value_discretization_interval=2e-4
    ).self_compose(steps)
    epsilon = compose_epsilon([PoissonGaussianEvent(q, z, steps)], delta)
    assert epsilon == approx(reference.get_epsilon_for_delta(delta), rel=2e-3)


def sampled_deltas(q, mu, epsilon):
    """Both branches of (0.2) by integration of the densities."""
    x = np.linspace(-12.0, 12.0 + mu, 400_001)
    without = stats.norm.pdf(x)
    mixed = (1 - q) * without + q * stats.norm.pdf(x, mu)
    alpha = math.exp(epsilon)
    return [
        np.trapezoid(np.maximum(0.0, first - alpha * second), x)
        for first, second in ((mixed, without), (without, mixed))
    ]


@pytest.mark.parametrize("q", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_sampled_curves_against_integration(q, mu):
    remove, add = _privacy_loss._sampled_curves(q, mu)
    for epsilon in (0.0, 0.004, 0.2, 1.5):
        expected = sampled_deltas(q, mu, epsilon)
        value = [float(f(np.array([epsilon]))[0]) for f in (remove, add)]
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-10)


def connected(forward, backward, highest, step, epsilons):
    """Delta of losses on a grid, by its definition."""
    lowest, masses, infinite = _privacy_loss._connect_dots(
        forward, backward, highest, step
    )
    losses = step * (lowest + np.arange(len(masses)))
    gains = (np.maximum(0.0, -np.expm1(np.minimum(0.0, e - losses))) for e in epsilons)
    return np.array([infinite + gain @ masses for gain in gains])


@pytest.mark.parametrize(("q", "z"), [(0.02, 1.0), (0.3, 4.0), (0.5, 0.6)])
def test_connected_dots_lie_above_the_curve(q, z):
    remove, add = _privacy_loss._sampled_curves(q, 1 / z)
    highest = _privacy_loss._largest_sampled_loss(q, 1 / z)
    epsilons = np.linspace(0.0, min(highest, 3.0), 41)
    for forward, backward in ((remove, add), (add, remove), (remove, remove)):
        deltas = connected(forward, backward, highest, highest / 500, epsilons)
        assert np.all(deltas >= forward(epsilons) - 1e-13)
        close = connected(forward, backward, highest, highest / 50_000, epsilons)
        # The "add" curve ends abruptly at -log(1 - q): there only the size is close.
        np.testing.assert_allclose(close, forward(epsilons), rtol=1e-3, atol=1e-7)


def test_lemma_c_needs_more_than_either_branch():
    """Privacy analysis, Lemma C: remove 2.65, add 2.19, an admissible triple 2.76."""
    arguments = (0.02, 1.0, 1000)
    poisson = compose_epsilon([PoissonGaussianEvent(*arguments)], 1e-3)
    symmetrised = compose_epsilon([WithoutReplacementGaussianEvent(*arguments)], 1e-3)
    assert poisson == approx(2.65, abs=0.01)
    assert symmetrised >= 2.76


def symmetrised_losses(q, z, steps, n_runs, seed):
    """Sample total losses of the dominating pair of (0.2) without its curve.

    Its positive losses are those of P_q against N_0; a loss -l has the probability
    that N_0 gives to the loss l; the rest of the mass has loss 0.
    """
    rng = np.random.default_rng(seed)
    mu = 1 / z
    middle = mu / 2  # where the densities of N(0, 1) and N(mu, 1) cross
    up = (1 - q) * stats.norm.sf(middle) + q * stats.norm.sf(middle - mu)
    down = stats.norm.sf(middle)
    totals = np.zeros(n_runs)
    for _ in range(steps):
        u = rng.random(n_runs)
        shifted = rng.random(n_runs) * up < q * stats.norm.sf(middle - mu)
        # One tail draw of N(0, 1) or N(mu, 1) above the middle for each run.
        shift = np.where((u < up) & shifted, mu, 0.0)
        tail = stats.norm.sf(middle - shift) * rng.random(n_runs)
        x = shift - ndtri(tail)
        loss = np.log1p(q * np.expm1(mu * x - mu**2 / 2))
        totals += np.where(u < up, loss, np.where(u < up + down, -loss, 0.0))
    return totals


@pytest.mark.parametrize(
    ("q", "z", "steps", "delta"), [(0.02, 1.0, 1000, 1e-3), (0.05, 1.0, 50, 1e-3)]
)
def test_lemma_c_against_monte_carlo(q, z, steps, delta):
    losses = symmetrised_losses(q, z, steps, 20_000, seed=0)
    epsilon = compose_epsilon([WithoutReplacementGaussianEvent(q, z, steps)], delta)
    terms = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - losses)))
    error = terms.std() / math.sqrt(terms.size)
    assert abs(terms.mean() - delta) < 4 * error
    # Were epsilon 3 % smaller, the same losses would exceed delta.
    assert (
        compose_delta([WithoutReplacementGaussianEvent(q, z, steps)], 0.97 * epsilon)
        > 1.05 * delta
    )


def test_dp_accounting_replace_one_is_another_mechanism():
    """It says 1.37 where an admissible pair has 2.67 (privacy analysis, section 3)."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as dp_pld

    # Noise 2c around a centre that moves by at most c, as REPLACE_ONE assumes.
    theirs = dp_pld.from_gaussian_mechanism(
        2.0,
        sampling_prob=0.05,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    ).self_compose(50)
    ours = compose_epsilon([WithoutReplacementGaussianEvent(0.05, 1.0, 50)], 1e-5)
    assert theirs.get_epsilon_for_delta(1e-5) == approx(1.37, abs=0.01)
    assert ours >= 2.67


@pytest.mark.parametrize(
    ("q", "steps", "epsilon", "sampled", "full_batch"),
    [
        (0.2, 500, 1.0, 90.5, 88.8),
        (0.2, 500, 4.0, 27.0, 25.4),
        (0.01, 2000, 1.0, 218.0, 177.6),
        (0.01, 100, 1.0, 95.7, 39.7),
    ],
)
def test_noise_per_step_of_the_privacy_analysis(q, steps, epsilon, sampled, full_batch):
    delta = 0.1 / 30_000
    multiplier = calibrate_without_replacement(epsilon, delta, q, steps)
    assert multiplier / q == approx(sampled, rel=2e-3)
    mu = calibrate_gaussian(epsilon, delta)
    assert math.sqrt(steps) / mu == approx(full_batch, rel=3e-3)


@pytest.mark.parametrize(
    ("q", "steps", "multiplier", "lower", "upper"),
    [
        (0.2, 500, 17.78, 0.994, 1.019),
        (0.2, 500, 5.13, 4.04, 4.26),
        (0.01, 2000, 1.91, 1.017, 1.20),
        (0.01, 100, 0.71, 2.59, 2.67),
    ],
)
def test_true_epsilon_of_the_published_calibration(q, steps, multiplier, lower, upper):
    part = WithoutReplacementGaussianEvent(q, multiplier, steps)
    epsilon = compose_epsilon([part], 0.1 / 30_000)
    assert lower <= epsilon <= upper * 1.005


@pytest.mark.parametrize(
    "calibrate", [calibrate_poisson, calibrate_without_replacement]
)
@pytest.mark.parametrize(
    ("epsilon", "q", "steps"),
    [(1.0, 0.1, 100), (0.05, 0.3, 10), (20.0, 0.05, 40), (200.0, 0.01, 1)],
)
def test_sampled_calibration_is_private_and_tight(calibrate, epsilon, q, steps):
    kind = {
        calibrate_poisson: PoissonGaussianEvent,
        calibrate_without_replacement: WithoutReplacementGaussianEvent,
    }[calibrate]
    multiplier = calibrate(epsilon, 1e-6, q, steps)
    part = kind(q, multiplier, steps)
    assert compose_delta([part], epsilon) <= 1e-6
    assert compose_epsilon([part], 1e-6) <= epsilon
    assert compose_delta([kind(q, 0.999 * multiplier, steps)], epsilon) > 1e-6
    assert multiplier <= math.sqrt(steps) / gaussian_mu(epsilon, 1e-6)


def test_sampled_calibration_pays_for_the_sampler():
    plain = calibrate_poisson(1.0, 1e-6, 0.1, 20)
    multiplier = calibrate_poisson(1.0, 1e-6, 0.1, 20, n_draws=10**6)
    parts = [PoissonGaussianEvent(0.1, multiplier, 20, n_draws=10**6)]
    apart = [PoissonGaussianEvent(0.1, multiplier, 20), GaussianEvent(0.0, 10**6)]
    assert compose_epsilon(parts, 1e-6) == compose_epsilon(apart, 1e-6)
    assert 1e-5 < multiplier / plain - 1 < 1e-3
    assert 1 - 1e-4 < compose_epsilon(parts, 1e-6) <= 1.0


@pytest.mark.parametrize("share", [0.05, 0.5, 0.999])
@pytest.mark.parametrize(
    ("epsilon", "q", "steps"), [(1.0, 0.1, 100), (0.05, 0.3, 10), (20.0, 0.05, 40)]
)
def test_sampled_calibration_beside_what_all_records_tell(epsilon, q, steps, share):
    mu = calibrate_gaussian(epsilon, 1e-6, n_draws=500)
    beside = math.sqrt(share) * mu
    ask = partial(calibrate_without_replacement, epsilon, 1e-6, n_draws=500)
    multiplier = ask(q, steps, beside=beside)
    sampled = WithoutReplacementGaussianEvent(q, multiplier, steps, 400)
    parts = [GaussianEvent(beside, 100), sampled]
    assert compose_delta(parts, epsilon) <= 1e-6
    assert compose_epsilon(parts, 1e-6) <= epsilon
    if multiplier > 0.05:  # the least noise
        less = WithoutReplacementGaussianEvent(q, 0.999 * multiplier, steps, 400)
        assert compose_delta([parts[0], less], epsilon) > 1e-6
    whole = ask(1.0, steps, beside=beside)
    assert whole == approx(math.sqrt(steps / (1 - share)) / mu, rel=1e-9)
    assert multiplier <= whole
    assert ask(q, steps) < multiplier
    for wrong in (mu, -0.1):
        with pytest.raises(ValueError, match="beside must be at least 0 and below"):
            ask(q, steps, beside=wrong)


def test_a_sampling_rate_of_one_is_the_full_batch():
    for calibrate in (calibrate_poisson, calibrate_without_replacement):
        multiplier = calibrate(1.0, 1e-5, 1.0, 16)
        assert multiplier == 4 / gaussian_mu(1.0, 1e-5)
        assert calibrate(math.inf, 1e-5, 0.5, 16) == 0.0
    epsilon = compose_epsilon([PoissonGaussianEvent(1.0, multiplier, 16)], 1e-5)
    assert epsilon == approx(1.0, rel=1e-6)


def test_sampled_parts_compose_with_exact_ones():
    sampled = WithoutReplacementGaussianEvent(0.999999, 2.0, 4)
    rest = [GaussianEvent(0.5, 0), PureEvent(0.3), DeclaredEvent(0.2, 1e-7)]
    # At a rate of almost one the sampled part is a Gaussian of mu = 1.
    exact = compose_epsilon([GaussianEvent(1.0, 0), *rest], 1e-5)
    assert compose_epsilon([sampled, *rest], 1e-5) == approx(exact, rel=2e-3)
    assert compose_epsilon([sampled, *rest], 1e-7) == math.inf
    assert compose_epsilon([sampled], 0.0) == math.inf
    draws = compose_epsilon([sampled, GaussianEvent(0.5, 10**6), *rest[1:]], 1e-5)
    assert 1e-4 < draws - compose_epsilon([sampled, *rest], 1e-5) < 3e-4
    assert compose_delta([sampled, PureEvent(math.inf)], 1.0) == 1.0


def test_several_sampled_parts():
    part = PoissonGaussianEvent(0.1, 2.0, 30)
    twice = compose_epsilon([part, part], 1e-5)
    at_once = compose_epsilon([PoissonGaussianEvent(0.1, 2.0, 60)], 1e-5)
    assert twice == approx(at_once, rel=2e-3)
    assert compose_epsilon([part, MaximumEvent([part], [])], 1e-5) == twice


def test_dp_accounting_is_not_imported():
    code = (
        "import sys; from fairpriv_sklearn.accounting import *;"
        "compose_epsilon([PoissonGaussianEvent(0.1, 2.0, 9), PureEvent(1.0)], 1e-5);"
        "assert 'dp_accounting' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- Checks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_delta(-1.0, 1.0), "mu must be in"),
        (lambda: gaussian_delta(math.nan, 1.0), "mu must be in"),
        (lambda: gaussian_epsilon(1.0, 1.5), "delta must be in"),
        (lambda: gaussian_mu(-1.0, 0.1), "epsilon must be in"),
        (lambda: gaussian_mu(1.0, 0.0), r"delta must be in \(0, 1\)"),
        (lambda: calibrate_gaussian(1.0, 0.1, n_draws=1.5), "n_draws must be a whole"),
        (lambda: compose_epsilon([], -0.1), "delta must be in"),
        (lambda: compose_delta([], -0.1), "epsilon must be in"),
        (lambda: calibrate_poisson(1.0, 1e-5, 0.0, 5), "q must be in"),
        (lambda: calibrate_poisson(1.0, 1e-5, 0.5, 0), "steps must be a whole"),
        (lambda: calibrate_poisson(1.0, 1e-5, 0.5, 1e12), r"\[1, 10000000\]"),
        (lambda: calibrate_poisson(1.0, 1e-10, 0.5, 5), "delta must be above 1e-10"),
        (lambda: calibrate_gaussian(1e300, 1e-5, n_draws=7), r"\[0, 1e\+06\] or inf"),
        (lambda: gaussian_mu(2e6, 1e-5), r"\[0, 1e\+06\] or inf"),
        (lambda: calibrate_poisson(1e300, 1e-5, 0.5, 5), r"\[0, 1e\+06\] or inf"),
    ],
)
def test_arguments_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call()


CALIBRATIONS = [calibrate_poisson, calibrate_without_replacement]


@pytest.mark.parametrize("mu", [1e-9, 1e-5])
def test_the_sampler_is_paid_for_where_nothing_else_is_left(mu):
    """It was 0 where the delta of an ideal sampler underflows."""
    events = [GaussianEvent(mu, 10**9)]
    assert _gaussian.gaussian_log_delta(mu, np.array([1e-3]))[0] < -5000
    # About 1 - exp(epsilon - 2 error): falls as epsilon grows.
    at_zero, found = compose_delta(events, 0.0), compose_delta(events, 1e-3)
    assert found == approx(at_zero - 1e-3, rel=1e-2)
    assert compose_epsilon(events, found * (1 - 1e-6)) > 1e-3
    assert compose_delta(events, 0.1) < 1e-300
    assert compose_delta(events, math.inf) == 0.0


@pytest.mark.parametrize("epsilon", [1e6, 1e20, 1e150, 1e300])
def test_huge_numbers_compose_without_overflow(epsilon):
    """A huge loss stays huge, or becomes infinite; nothing raises."""
    parts = [PureEvent(epsilon), GaussianEvent(1.0, 4)]
    assert epsilon <= compose_epsilon(parts, 1e-5) <= math.inf
    assert 0.0 <= compose_delta(parts, epsilon) <= 1.0
    assert 0.0 <= compose_delta([GaussianEvent(1.0, 4)], epsilon) <= 1e-6
    assert gaussian_epsilon(epsilon, 1e-5) > epsilon
    assert compose_epsilon([GaussianEvent(epsilon, 4)], 1e-5) > epsilon
    assert calibrate_gaussian(1e6, 1e-5, n_draws=1000) > 1000


@pytest.mark.parametrize("calibrate", CALIBRATIONS)
def test_a_delta_that_covers_all_steps_still_buys_noise(calibrate):
    """At q steps < delta no noise at all would be (0, delta)-DP."""
    assert calibrate(1.0, 1e-2, q=1e-6, steps=100) == 0.05


@pytest.mark.parametrize("calibrate", CALIBRATIONS)
@pytest.mark.parametrize("q", [1e-3, 1e-4])
def test_small_rates_on_a_coarse_grid_stay_tight(calibrate, q, monkeypatch):
    """Against sixteen times as many points; the coarse grid is on the private side."""
    coarse = calibrate(1.0, 1e-6, q, 100)
    monkeypatch.setattr(_privacy_loss, "_MIN_POINTS", 1 << 18)
    for cached in (_composition._delta_of, _loss_grid._worst_curve):
        cached.cache_clear()
    poisson = calibrate is calibrate_poisson
    kind = PoissonGaussianEvent if poisson else WithoutReplacementGaussianEvent
    assert compose_delta([kind(q, coarse, 100)], 1.0) <= 1e-6
    assert compose_delta([kind(q, coarse * (1 - 1e-4), 100)], 1.0) > 1e-6
    for cached in (_composition._delta_of, _loss_grid._worst_curve):
        cached.cache_clear()


@pytest.mark.parametrize("events", [[("pure", 1.0)], PureEvent(1.0), "pure", 3])
def test_only_events_compose(events):
    with pytest.raises(TypeError, match="event"):
        compose_epsilon(events, 0.1)


@pytest.mark.parametrize("mu", [1.1e8, 1e10, 3.3e14, 1e30, 1e149])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.5])
def test_epsilon_of_a_huge_mu_is_not_below_the_tight_one(mu, delta):
    # delta = Phi(mu/2 - epsilon/mu) - tiny: epsilon is mu^2/2 + mu z to rounding.
    epsilon = gaussian_epsilon(mu, delta)
    assert mu**2 / 2 <= epsilon <= mu**2 / 2 * (1 + 1e-6)


def test_coarse_losses_cost_more_but_little(monkeypatch):
    """Several kinds of pure releases on a coarse grid: an upper bound, and close."""
    monkeypatch.setattr(_privacy_loss, "_MAX_ATOMS", 10**6)  # nothing is merged
    _privacy_loss._loss_atoms.cache_clear()
    pures = ((0.01, 400), (0.03, 50), (0.2, 3))
    exact = _privacy_loss._Composition(mu=0.1, pures=pures)
    rough = _privacy_loss._Composition(mu=0.1, pures=pures, roughness=2.0)
    for epsilon in np.linspace(0.2, 2.0, 10):
        low = _privacy_loss._exact_delta(exact, epsilon)
        high = _privacy_loss._exact_delta(rough, epsilon)
        shifted = _privacy_loss._exact_delta(exact, epsilon - 0.01)
        assert low <= high <= shifted + 2e-12
    losses, weights = _privacy_loss._loss_atoms(pures, True)
    assert len(losses) < 2000
    assert weights.sum() == approx(1.0, abs=1e-9)
    assert weights @ np.exp(-losses) == approx(1.0, abs=1e-9)


def delta_of_losses(losses, weights, epsilon):
    return float(weights @ np.maximum(0.0, -np.expm1(np.minimum(0, epsilon - losses))))


def test_many_different_releases_against_all_their_signs():
    epsilons = np.linspace(0.05, 0.6, 17)
    losses, weights = np.zeros(1), np.ones(1)
    for epsilon in epsilons:
        p = 1 / (1 + math.exp(-epsilon))
        losses = np.add.outer(losses, [epsilon, -epsilon]).ravel()
        weights = np.multiply.outer(weights, [p, 1 - p]).ravel()
    total = _privacy_loss._Composition(pures=tuple((e, 1) for e in epsilons))
    on_a_grid, _ = _privacy_loss._loss_atoms(total.pures, False)
    assert len(on_a_grid) == 2**15 + 1
    for epsilon in (0.0, 1.0, 2.5, 4.0, 5.0):
        exact = delta_of_losses(losses, weights, epsilon)
        value = _privacy_loss._exact_delta(total, epsilon)
        assert exact < value < 1.0001 * exact + 2e-12


@pytest.mark.parametrize("epsilon", [0.01, 3.0])
def test_thousands_of_releases_against_the_binomial_distribution(epsilon):
    """Many kinds that differ by a hair have the losses of one kind."""
    epsilons, count = epsilon * (1 + 1e-12 * np.arange(17)), 400
    total = _privacy_loss._Composition(pures=tuple((e, count) for e in epsilons))
    n = count * len(epsilons)
    minus = np.arange(n + 1)
    weights = stats.binom.pmf(minus, n, 1 / (1 + math.exp(epsilon)))
    losses = epsilon * (n - 2.0 * minus)
    mean, spread = weights @ losses, math.sqrt(n) * epsilon
    for epsilon_at in (mean, mean + spread, mean + 3 * spread):
        exact = delta_of_losses(losses, weights, epsilon_at)
        value = _privacy_loss._exact_delta(total, epsilon_at)
        shifted = delta_of_losses(losses, weights, epsilon_at - 0.2 * spread)
        assert exact * (1 - 1e-9) < value < shifted + 2e-12
        one = _privacy_loss._Composition(pures=((epsilon, n),))
        assert exact <= _privacy_loss._exact_delta(one, epsilon_at) * (1 + 1e-9)
        assert _privacy_loss._exact_delta(one, epsilon_at) <= exact * (1 + 1e-9)


def test_a_failure_leaves_the_rest_of_delta_to_a_gaussian():
    events = [ThresholdEvent(0.2), GaussianEvent(1.0)]
    expected = gaussian_epsilon(1.0, 0.05 / 0.8)
    assert compose_epsilon(events, 0.25) == approx(expected, rel=1e-12)
    assert compose_epsilon(events, 0.2) == math.inf == compose_epsilon(events, 0.1)
    assert compose_epsilon(events[:1], 0.2) == 0.0
    assert compose_delta(events, math.inf) == 0.2
    assert compose_epsilon([GaussianEvent(0.0, 5), PureEvent(1.0)], 0.0) == math.inf
    small = compose_epsilon([GaussianEvent(0.05, 10)], 1e-5)
    assert small == approx(gaussian_epsilon(0.05, 1e-5), rel=1e-4)
    total = _composition._single(PureEvent(1.0))
    assert _composition._costs_at_most(total, 1.0, 1e-9)
    assert not _composition._costs_at_most(total, 0.9, 1e-9)
    assert not _composition._costs_at_most(total, 2.0, 0.0)
    # The error of the sampler must fit as well.
    drawn = _composition._single(GaussianEvent(0.01, 100))
    assert _composition._costs_at_most(drawn, 0.1, 1e-5)
    assert not _composition._costs_at_most(drawn, 1e-9, 0.5)


@pytest.mark.parametrize("failure", [0.0, 1e-9, 0.3, 1.0])
@pytest.mark.parametrize("count", [1, 2, 7, 10**6])
def test_copies_compose_like_their_sum(failure, count):
    one = _privacy_loss._Composition(
        0.3, 5, ((0.1, 2), (0.7, 1)), failure, (("poisson_gaussian", 0.1, 2.0, 4),)
    )
    copies = one.times(count)
    assert copies.mu == approx(0.3 * math.sqrt(count), rel=1e-15)
    assert Fraction(copies.mu) ** 2 >= Fraction(0.3) ** 2 * count
    assert copies.n_draws == 5 * count
    assert copies.pures == ((0.1, 2 * count), (0.7, count))
    assert copies.sampled == (("poisson_gaussian", 0.1, 2.0, 4 * count),)
    with mpmath.workdps(40):
        exact = 1 - (1 - mpmath.mpf(failure)) ** count
        assert exact <= copies.failure <= min(1, exact * (1 + mpmath.mpf("1.6e-15")))
    if count < 10:
        together = _privacy_loss._sum([one] * count)
        assert together.n_draws == copies.n_draws and together.pures == copies.pures
        assert together.sampled == copies.sampled
        assert together.mu == approx(copies.mu, rel=1e-15)
        assert exact <= together.failure <= exact * (1 + mpmath.mpf("1.6e-15"))
    assert one.plus(one) == _privacy_loss._sum([one, one])
    assert _privacy_loss._Composition().times(count) == _privacy_loss._Composition()


@pytest.mark.parametrize(
    ("name", "less", "more"),
    [
        ("mu", 0.3, 0.4),
        ("n_draws", 3, 4),
        ("failure", 0.1, 0.2),
        ("pures", ((0.5, 1),), ((0.6, 1),)),
        ("pures", ((0.5, 1),), ((0.5, 2),)),
        ("pures", ((0.1, 5), (0.5, 1)), ((0.5, 1), (0.6, 5))),
        ("sampled", (), (("poisson_gaussian", 0.1, 2.0, 4),)),
    ],
)
def test_a_composition_covers_what_costs_no_more(name, less, more):
    small, large = (
        _privacy_loss._Composition(**{"mu": 1.0, "failure": 0.5, name: value})
        for value in (less, more)
    )
    assert large.covers(small) and large.covers(large) and small.covers(small)
    assert not small.covers(large)


def test_failures_add_up():
    one = DeclaredEvent(0.0, 1e-3)
    assert compose_delta([one] * 3, 50.0) == approx(1 - 0.999**3, rel=1e-9)


@pytest.mark.parametrize("q, z", [(0.1, 300.0), (0.01, 30.0)])
@pytest.mark.parametrize(
    "kind", [PoissonGaussianEvent, WithoutReplacementGaussianEvent]
)
def test_ten_million_steps_against_long_doubles(kind, q, z, monkeypatch):
    """A power of a transform multiplies its error: 1e-9 and more with doubles."""
    steps = 10**7
    (total,) = _composition._options((kind(q, z, steps),))
    total = replace(total, roughness=16.0)
    step, size, reach = _loss_grid._grid_of(total, ())
    losses = step * (np.arange(size) - size // 2)
    grid = _loss_grid._Grid(step, size, False)
    found = grid.play(total, (), losses, losses > reach)
    lowest, masses, lost = _loss_grid._sampled_losses(kind.kind, q, z, step, False)
    exact = np.zeros(size, np.longdouble)
    exact[(lowest + np.arange(len(masses))) % size] = masses
    exact[0] += 1 - np.longdouble(lost) - exact.sum()
    values = np.maximum(0.0, -np.expm1(np.minimum(0.0, -losses)))
    spectrum = rfft(values.astype(np.longdouble)) * (rfft(exact) ** steps).conj()
    error = (found - irfft(spectrum, size))[np.abs(losses) < reach]
    assert error.min() >= 0.0
    assert error.max() <= 2e-11 + 8 * steps * np.finfo(np.longdouble).eps


@pytest.mark.parametrize(
    "events",
    [
        [PoissonGaussianEvent(0.5, 1e-3, 1000)],
        [PoissonGaussianEvent(0.5, 1e-200, 1)],
        [PoissonGaussianEvent(1.0, 1e-200, 1)],
        [PoissonGaussianEvent(0.5, 1e-200, 1), GaussianEvent(0.1)],
        [WithoutReplacementGaussianEvent(1e-9, 1.0, 10**300)],
        [PureEvent(1e300), WithoutReplacementGaussianEvent(1e-3, 1.0, 10)],
        [GaussianEvent(0.1, 10**400)],
    ],
)
def test_extreme_events_cost_infinity_and_no_error(events):
    assert compose_epsilon(events, 1e-5) == math.inf
    assert compose_delta(events, 1.0) == 1.0


def test_extremes_that_cost_next_to_nothing():
    events = [PoissonGaussianEvent(5e-324, 1.0, 1), PoissonGaussianEvent(0.5, 1e200, 1)]
    assert compose_epsilon(events, 1e-5) == 0.0
    pures = [PureEvent(10.0**k) for k in range(-300, 300, 20)]
    assert compose_epsilon(pures, 1e-5) == approx(1e280)
    sampled = [WithoutReplacementGaussianEvent(1e-3, 1.0, 10)]
    assert compose_delta(sampled, math.inf) <= 2e-11


@pytest.mark.parametrize("calibrate", CALIBRATIONS)
def test_rare_batches_and_little_noise_fit_into_memory(calibrate):
    """Losses reach far with tiny probability: a grid of 7 TiB was asked for."""
    assert calibrate(1.0, 1e-5, q=1e-12, steps=10**7) == 0.05


@pytest.mark.parametrize("n_draws", [0, 1000, 100_000, 20_000_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
def test_keys_that_are_shown_leave_mu_what_composing_takes(epsilon, n_draws):
    """A ledger that holds a fit's epsilon lets it pass."""
    delta, failure = 1e-5, 1e-7
    mu = calibrate_gaussian(epsilon, delta, n_draws=n_draws, failure=failure)
    events = GaussianEvent(mu, n_draws), ThresholdEvent(failure)
    assert 1 - 1e-7 < compose_epsilon(events, delta) / epsilon <= 1
    assert mu < calibrate_gaussian(epsilon, delta, n_draws=n_draws)


@pytest.mark.parametrize("failure", [0.02, 0.1, 0.29])
def test_of_what_fails_seldom_nothing_is_paid_twice(failure):
    """The rest of delta is that of the cases in which nothing has failed."""
    mu = calibrate_gaussian(0.7, 0.3, failure=failure)
    events = GaussianEvent(mu), ThresholdEvent(failure)
    assert compose_delta(events, 0.7) == pytest.approx(0.3, rel=1e-6)


@pytest.mark.parametrize("failure", [-1e-9, 1e-5, 0.5, 1.0])
def test_keys_cannot_take_all_of_delta(failure):
    with pytest.raises(ValueError, match="failure"):
        calibrate_gaussian(1.0, 1e-5, failure=failure)
    with pytest.raises(ValueError, match="failure"):
        calibrate_gaussian(1.0, 0.5, failure=max(failure, 0.5))
