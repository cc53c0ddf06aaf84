"""Repeat-and-select: its cost, its distributions of runs, its audits."""

import math

import numpy as np
import pytest
from _audit import pure_audit
from _model_selection import plan
from scipy import stats

from fairpriv_sklearn.mechanisms import (
    noise_source,
)
from fairpriv_sklearn.model_selection import _repeat as repeat_module
from fairpriv_sklearn.model_selection._repeat import (
    GEOMETRIC,
    POISSON,
    RunDistribution,
    calibrate_repeat,
    distribution_for_coverage,
    gaussian_base,
    pure_base,
    repeat_epsilon,
)


@pytest.fixture
def orders(monkeypatch):
    """Fewer orders: dp-accounting's work grows with the square of their number."""
    few = 1.0 + np.geomspace(1.1e-2, 1e4, 200)
    monkeypatch.setattr(repeat_module, "_ORDERS", few)
    return list(few)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.5])
def test_geometric_price_is_dp_accountings(mu, orders):
    rdp = pytest.importorskip("dp_accounting.rdp")
    from dp_accounting import dp_event

    for mean in (1.5, 8.0, 100.0):
        accountant = rdp.RdpAccountant(orders)
        event = dp_event.GaussianDpEvent(1 / mu)
        accountant.compose(dp_event.RepeatAndSelectDpEvent(event, mean, GEOMETRIC))
        ours = repeat_epsilon(gaussian_base(mu), RunDistribution(mean, GEOMETRIC), 1e-5)
        assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize("mu", [0.05, 0.3])
def test_poisson_price_is_at_most_dp_accountings(mu, orders):
    """Theirs takes delta-hat from the Renyi curve, ours is exact: below, not far."""
    rdp = pytest.importorskip("dp_accounting.rdp")
    from dp_accounting import dp_event

    accountant = rdp.RdpAccountant(orders)
    event = dp_event.GaussianDpEvent(1 / mu)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(event, 20.0, POISSON))
    theirs = accountant.get_epsilon(1e-5)
    ours = repeat_epsilon(gaussian_base(mu), RunDistribution(20.0, POISSON), 1e-5)
    assert 0.6 * theirs < ours <= theirs


def test_pure_base_is_randomised_response():
    epsilon, order, at = 0.7, np.array([1.5, 3.0, 50.0]), np.array([0.0, 0.3, 0.7, 2.0])
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    P, Q = np.array([p, 1 - p]), np.array([1 - p, p])
    base = pure_base(epsilon)
    for lam, value in zip(order, base.renyi(order), strict=True):
        assert value == pytest.approx(
            np.log(np.sum(P**lam * Q ** (1 - lam))) / (lam - 1)
        )
    hockey = [np.maximum(P - np.exp(e) * Q, 0).sum() for e in at]
    np.testing.assert_allclose(base.delta(at), hockey, atol=1e-8)


def test_a_pure_run_repeats_at_three_times_its_price():
    """Papernot and Steinke, Corollary 3: (2 + shape) epsilon, whatever the mean."""
    for mean in (2.0, 50.0, 1000.0):
        price = repeat_epsilon(pure_base(0.5), RunDistribution(mean, GEOMETRIC), 1e-6)
        assert price <= 1.5 * (1 + 1e-5)


@pytest.mark.parametrize(
    "distribution", [RunDistribution(7.0, GEOMETRIC), RunDistribution(16.0, POISSON)]
)
@pytest.mark.parametrize(
    "kind, base", [("gaussian", gaussian_base), ("pure", pure_base)]
)
def test_calibration_spends_the_budget_and_no_more(distribution, kind, base):
    for epsilon in (0.1, 1.0, 5.0):
        size = calibrate_repeat(kind, epsilon, 1e-5, distribution)
        assert repeat_epsilon(base(size), distribution, 1e-5) <= epsilon
        assert repeat_epsilon(base(size * 1.001), distribution, 1e-5) > epsilon * (
            1 - 1e-4
        )


def test_no_price_where_rounding_would_cost_too_much():
    assert (
        calibrate_repeat("gaussian", 40.0, 1e-5, RunDistribution(16.0, POISSON)) == 0.0
    )
    with pytest.raises(ValueError, match="method='compose'"):
        plan(10, epsilon=700.0, method="repeat")


@pytest.mark.parametrize(
    "distribution, oracle",
    [
        (RunDistribution(6.0, GEOMETRIC), stats.geom(1 / 6)),
        (RunDistribution(15.0, POISSON), stats.poisson(15.0)),
    ],
)
def test_law_of_the_number_of_runs(distribution, oracle):
    noise = noise_source(3)
    drawn = np.array([distribution.quantile(noise.uniform(1)[0]) for _ in range(4000)])
    assert drawn.max() <= distribution.largest
    assert oracle.sf(distribution.largest) <= 1e-11
    edges = np.unique(oracle.ppf([0.1, 0.3, 0.5, 0.7, 0.9]))
    place = np.searchsorted(edges, drawn)
    expected = np.diff([0.0, *oracle.cdf(edges), 1.0])
    counts = np.bincount(place, minlength=len(expected))
    assert stats.chisquare(counts, 4000 * expected).pvalue > 1e-4


def test_one_run_in_the_mean_is_one_run():
    distribution = distribution_for_coverage(GEOMETRIC, 0.1, 0.9)
    assert (
        distribution.mean
        == distribution.largest
        == distribution.quantile(noise_source().uniform(1)[0])
        == 1
    )


@pytest.mark.parametrize("shape", [GEOMETRIC, POISSON])
@pytest.mark.parametrize("coverage, share", [(0.8, 0.1), (0.95, 0.04)])
def test_coverage(shape, coverage, share):
    distribution = distribution_for_coverage(shape, coverage, share)
    noise = noise_source(1)
    missed = np.mean(
        [
            (1 - share) ** distribution.quantile(noise.uniform(1)[0])
            for _ in range(20_000)
        ]
    )
    assert 1 - missed >= coverage - 0.01
    if distribution.mean > 14.0:
        assert 1 - missed <= coverage + 0.01


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
    distribution, epsilon = RunDistribution(8.0, GEOMETRIC), 1.0
    claim = repeat_epsilon(pure_base(epsilon), distribution, 1e-6)
    assert claim == pytest.approx(3.0, rel=1e-5)
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
