"""Repeat-and-select: its cost, its distribution of runs, its audit."""

import math
from decimal import Context, Decimal, localcontext
from itertools import permutations

import numpy as np
import pytest
from _audit import pure_audit
from _model_selection import plan
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairpriv_sklearn.mechanisms import (
    noise_source,
)
from fairpriv_sklearn.model_selection._repeat import (
    RunDistribution,
    calibrate_repeat,
    distribution_cost,
    distribution_for_coverage,
    gaussian_base,
    pure_base,
    repeat_delta,
)


def at_most(below, distribution):
    """Chance that the best of all runs is in a set which one run is in so often.

    By the generating function of scipy's distribution of the number of runs.
    """
    stop, shape = distribution.stop, distribution.shape
    none = stop**shape
    each = (stop / (1 - (1 - stop) * below)) ** shape
    return (each - none) / (1 - none) if stop < 1 else below


def deltas_of_the_best(P, Q, distribution, epsilon):
    """The delta of the best of a random number of runs, and the other way round.

    Of one run with chances P or, on the neighboring table, Q of outcomes that are
    ordered by their score.
    """
    best = [
        np.diff(at_most(np.minimum(np.append(0.0, np.cumsum(R)), 1.0), distribution))
        for R in (P, Q)
    ]
    return [
        np.maximum(one - math.exp(epsilon) * other, 0).sum()
        for one, other in (best, best[::-1])
    ]


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(-1, 1)), min_size=2, max_size=6),
    st.builds(
        RunDistribution, st.sampled_from([0.02, 0.2, 0.7, 1.0]), st.sampled_from([1, 2])
    ),
    st.sampled_from([0.0, 1e-3, 0.02]),
    st.floats(0, 4),
    st.randoms(use_true_random=False),
)
def test_no_order_of_outcomes_costs_more_than_is_stated(
    outcomes, runs, failure, epsilon, random
):
    """By brute force: what one run says of the record, and with a chance all of it."""
    chances, losses = np.array(outcomes).T
    P, Q = (chances * np.exp(sign * losses) for sign in (0.5, -0.5))
    P, Q = P / P.sum(), Q / Q.sum()
    loss = np.abs(np.log(P / Q)).max()
    order = random.sample(range(len(P) + 2), len(P) + 2)
    P, Q = (
        np.append((1 - failure) * R, ends)[order]
        for R, ends in ((P, [failure, 0]), (Q, [0, failure]))
    )
    stated = repeat_delta(pure_base(loss), runs, epsilon, failure)
    assert max(deltas_of_the_best(P, Q, runs, epsilon)) <= stated + 1e-12


@pytest.mark.parametrize("failure", [1e-3, 0.05])
@pytest.mark.parametrize("runs", [RunDistribution(0.05), RunDistribution(0.3, 1)])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_no_order_of_runs_that_may_fail_costs_more_than_is_stated(
    failure, runs, epsilon
):
    """All orders of two answers and of what tells for certain that it is a table."""
    loss = 0.3
    p = math.exp(loss) / (1 + math.exp(loss))
    P = np.array([p, 1 - p, failure, 0]) * [1 - failure, 1 - failure, 1, 1]
    Q = np.array([1 - p, p, 0, failure]) * [1 - failure, 1 - failure, 1, 1]
    stated = repeat_delta(pure_base(loss), runs, epsilon, failure)
    worst = [
        deltas_of_the_best(P[list(order)], Q[list(order)], runs, epsilon)
        for order in permutations(range(4))
    ]
    assert 1e-9 < np.max(worst) <= stated


@pytest.mark.parametrize(
    "runs, epsilon",
    [
        (RunDistribution(0.4), 0.1),
        (RunDistribution(0.2), 1.0),
        (RunDistribution(0.2), 8.0),
        (RunDistribution(0.05, 1), 1.0),
    ],
)
def test_the_worst_order_costs_nearly_what_is_stated(runs, epsilon):
    """Highest the unlikeliest outcomes, as many as are worst, and then the likeliest.

    The order that the proof allows; Renyi divergences ask for half as much again.
    """
    mu = calibrate_repeat("gaussian", epsilon, 1e-5, runs)
    z = np.linspace(-9.0, 9.0 + mu, 10_001)
    P, Q = np.diff(stats.norm.cdf(z - mu)), np.diff(stats.norm.cdf(z))
    found = []
    for size in np.geomspace(1e-3, 0.9, 30):
        n = np.searchsorted(z, stats.norm.ppf(size))
        order = np.append(np.arange(n, len(P)), np.arange(n))
        # Both relations: whose outcomes are the likelier does not matter.
        found += [
            deltas_of_the_best(P[order], Q[order], runs, at)
            for at in (epsilon, 0.97 * epsilon)
        ]
    stated, lowered = np.max(found[::2]), np.max(found[1::2])
    assert stated <= 1e-5 < lowered


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.5])
def test_renyi_divergences_state_more(mu):
    rdp = pytest.importorskip("dp_accounting.rdp")
    from dp_accounting import dp_event

    for stop, shape in ((0.5, 2), (0.2, 2), (0.02, 2), (0.02, 1)):
        distribution = RunDistribution(stop, shape)
        accountant = rdp.RdpAccountant()
        run = dp_event.GaussianDpEvent(1 / mu)
        mean = distribution.mean
        accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean, float(shape)))
        theirs = accountant.get_epsilon(1e-5)
        assert repeat_delta(gaussian_base(mu), distribution, theirs) < 1e-5
        # But not by orders of magnitude in epsilon.
        assert repeat_delta(gaussian_base(mu), distribution, 0.5 * theirs) > 1e-5


def test_what_costs_one_costs_seven_tenths_more_by_renyi_divergences():
    """What the guide says of them."""
    rdp = pytest.importorskip("dp_accounting.rdp")
    from dp_accounting import dp_event

    runs = RunDistribution(0.2)
    mu = calibrate_repeat("gaussian", 1.0, 1e-5, runs)
    accountant = rdp.RdpAccountant()
    run = dp_event.GaussianDpEvent(1 / mu)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(run, runs.mean, 2.0))
    assert 1.65 < accountant.get_epsilon(1e-5) < 1.75


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_one_run_costs_itself(epsilon):
    once, at = RunDistribution(1.0), np.array([epsilon])
    for base in (gaussian_base(0.7), pure_base(0.7)):
        one = float(base.delta(at)[0])
        assert repeat_delta(base, once, epsilon) == pytest.approx(one, rel=1e-8)
        failing = 0.01 + 0.99 * one
        stated = repeat_delta(base, once, epsilon, 0.01)
        assert stated == pytest.approx(failing, rel=1e-8)


def test_bases_are_the_pairs_that_tell_most():
    epsilon, at = 0.7, np.array([0.0, 0.3, 0.7, 2.0])
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    P, Q = np.array([p, 1 - p]), np.array([1 - p, p])
    base = pure_base(epsilon)
    hockey = [np.maximum(P - np.exp(e) * Q, 0).sum() for e in at]
    np.testing.assert_allclose(base.delta(at), hockey, atol=1e-8)
    pure, gaussian = base, gaussian_base(0.7)
    for base in (pure, gaussian):
        some = (base.likely > 1e-6) & (base.likely < 1 - 1e-6)
        slope = np.exp(base.log_slope[some])
        chord = np.diff(base.least[some]) / np.diff(base.likely[some])
        assert (slope[:-1] <= chord * (1 + 1e-6)).all()
        assert (chord <= slope[1:] * (1 + 1e-6)).all()
        assert (base.least < base.likely).all()
    z = stats.norm.ppf(gaussian.likely)
    np.testing.assert_allclose(gaussian.least[some], stats.norm.cdf(z - 0.7)[some])
    least = np.maximum(
        pure.likely / math.exp(0.7), 1 - (1 - pure.likely) * math.exp(0.7)
    )
    np.testing.assert_allclose(pure.least, least, atol=1e-15)


@pytest.mark.parametrize("distribution", [RunDistribution(0.3), RunDistribution(0.05)])
@pytest.mark.parametrize(
    "kind, base", [("gaussian", gaussian_base), ("pure", pure_base)]
)
@pytest.mark.parametrize("failure", [0.0, 1e-7])
def test_calibration_spends_the_budget_and_no_more(distribution, kind, base, failure):
    for epsilon in (0.1, 1.0, 5.0):
        size = calibrate_repeat(kind, epsilon, 1e-5, distribution, failure)
        stated = repeat_delta(base(size), distribution, epsilon, failure)
        assert stated <= 1e-5
        more = repeat_delta(base(size * 1.001), distribution, epsilon, failure)
        assert more > 1e-5


def test_a_run_of_little_costs_the_more_the_larger_it_is():
    sizes = np.geomspace(1e-3, 3.0, 30)
    for base in (gaussian_base, pure_base):
        stated = [repeat_delta(base(size), RunDistribution(0.1), 1.0) for size in sizes]
        assert (np.diff(stated) >= -1e-15).all() and stated[-1] == 1.0


def test_no_price_where_nothing_is_left():
    runs = RunDistribution(0.2)
    assert calibrate_repeat("gaussian", 40.0, 1e-5, runs) == 0.0  # for rounding
    assert calibrate_repeat("gaussian", 1.0, 1e-5, runs, 1e-5 / runs.mean) == 0.0
    with pytest.raises(ValueError, match="method='compose'"):
        plan(10, epsilon=700.0, method="repeat")


@pytest.mark.parametrize("stop", [0.4, 0.07, 1e-4])
@pytest.mark.parametrize("shape", [1, 2])
def test_distribution_of_the_number_of_runs(stop, shape):
    """Negative binomial, given that it is not zero: its chances added up."""
    distribution = RunDistribution(stop, shape)
    k = np.arange(1, math.ceil(100 / stop))
    chances = (k + 1.0) ** (shape - 1) * (1 - stop) ** k
    chances /= chances.sum()
    assert distribution.mean == pytest.approx(k @ chances, rel=1e-9)
    for n in (1, 2, 7, math.ceil(3 / stop)):
        assert distribution.passed(n) == pytest.approx(chances[n:].sum(), rel=1e-9)
    assert distribution.passed(distribution.largest) <= 1e-12
    assert distribution.passed(distribution.largest - 1) > 1e-12
    for u in (0.999, 0.5, 1e-3, 1e-9):
        n = distribution.quantile(u)
        assert distribution.passed(n) < u <= distribution.passed(n - 1)
    assert distribution.quantile(0.0) == distribution.largest
    noise = noise_source(3)
    drawn = np.array([distribution.quantile(noise.uniform(1)[0]) for _ in range(4000)])
    assert 1 <= drawn.min() and drawn.max() <= distribution.largest
    spread = math.sqrt(k**2 @ chances)
    assert abs(drawn.mean() - distribution.mean) < 5 * spread / math.sqrt(4000)


@pytest.mark.parametrize("stop, shape", [(0.3, 2), (0.004, 2), (0.004, 1), (1e-6, 2)])
def test_chances_of_more_runs_are_rounded_as_little_as_is_paid_for(stop, shape):
    """Those of scipy's distribution are wrong by ten thousand times as much.

    Each number of runs is as likely as two chances, and two uniform numbers, are apart.
    """
    distribution = RunDistribution(stop, shape)
    largest = distribution.largest
    with localcontext(Context(prec=40)):
        more = 1 - Decimal(stop)
        for n in np.unique(np.geomspace(1, largest, 400).astype(int)).tolist():
            exact = more ** (n + 1) / (1 - (1 - more) ** shape)
            if shape == 2:
                exact *= 1 + (n + 1) * (1 - more)
            assert abs(Decimal(distribution.passed(n)) - exact) < Decimal(2) ** -51
    apart = largest * (2.0**-51 + 2.0**-53)
    assert distribution_cost(0.0, distribution) > 2 * (apart + 1e-12)


def test_one_run_in_the_mean_is_one_run():
    distribution = distribution_for_coverage(0.1, 0.9)
    assert (
        distribution.mean
        == distribution.largest
        == distribution.quantile(noise_source().uniform(1)[0])
        == 1
    )


@pytest.mark.parametrize("coverage", [0.26, 0.8, 0.999])
@pytest.mark.parametrize("share", [0.25, 0.1, 1e-3])
@pytest.mark.parametrize("shape", [1, 2])
def test_coverage(coverage, share, shape):
    missed = at_most(1 - share, distribution_for_coverage(coverage, share, shape))
    assert 1 - missed == pytest.approx(coverage, rel=1e-6)


@pytest.mark.parametrize("coverage", [1e-9, 1 / 3, 1 - 1e-12])
def test_coverage_at_its_ends(coverage):
    for share in (coverage / 1e6, coverage * (1 - 1e-7), min(1.0, coverage * 1.1)):
        runs = distribution_for_coverage(coverage, share)
        assert runs.mean >= 1.0 and runs.largest >= runs.mean
        assert runs.missed(share) <= (1 - coverage) * (1 + 1e-6) + 1e-15


def test_rounding_of_many_runs_is_paid_for():
    few, many = RunDistribution(0.5), RunDistribution(1e-6)
    assert distribution_cost(0.0, few) < 4.1e-12
    assert distribution_cost(0.0, many) > many.largest * 2.0**-52
    assert calibrate_repeat("gaussian", 1.0, 1e-12, few) == 0.0
    assert calibrate_repeat("gaussian", 1.0, 1e-8, many) == 0.0


def repeated(p_good, distribution, n_runs, seed):
    """Repeat and select, all runs at once: is the winner good, and the secret."""
    noise = noise_source(seed)
    runs = np.array([distribution.quantile(noise.uniform(1)[0]) for _ in range(n_runs)])
    good = noise.uniform(n_runs) < 1 - (1 - p_good) ** runs
    return good, runs


def test_audit_of_the_number_of_runs():
    """A run is randomised response; who sees the number of runs sees more.

    With it, "many runs and still no good one" is an event whose chances differ by far
    more than the claim; without it the winner alone stays below.
    """
    distribution, epsilon = RunDistribution(0.2), 1.0
    claim = 3.0
    assert repeat_delta(pure_base(epsilon), distribution, claim) < 1e-6
    p = 0.25
    higher = min(math.e * p, 1 - (1 - p) / math.e)  # as far as epsilon = 1 allows
    n_runs = 40_000
    tables = [
        repeated(chance, distribution, n_runs, i)
        for i, chance in enumerate((p, higher))
    ]
    assert pure_audit(*(good.astype(int) for good, _ in tables)) <= claim
    seen = [np.where(good, 0, runs) for good, runs in tables]
    assert pure_audit(*seen) > claim
