"""Entropic transport against POT, exact transport and finite differences."""

import numpy as np
import pytest
from _ends import approx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from fairpriv_sklearn._shared import sinkhorn as module
from fairpriv_sklearn.transport import (
    point_cost,
    sinkhorn,
    transport_gradient,
)

ot = pytest.importorskip("ot")


def clouds(n=40, m=30, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) + 0.5
    a, b = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
    return X, Y, a, b


@pytest.mark.parametrize("relative", [1.0, 0.1, 0.03])
def test_plan_equals_pot(relative):
    X, Y, a, b = clouds()
    cost = point_cost(X, Y)
    regularization = relative * cost.mean()
    result = sinkhorn(cost, regularization, a, b, max_iter=20000, tol=1e-12)
    expected = ot.sinkhorn(a, b, cost, regularization, numItermax=20000, stopThr=1e-12)
    np.testing.assert_allclose(result.plan, expected, atol=1e-9)
    np.testing.assert_allclose(result.cost, (expected * cost).sum(), rtol=1e-6)
    assert result.marginal_error < 1e-11


def test_large_problems_take_the_blocked_sweep_to_the_same_plan(monkeypatch):
    X, Y, a, b = clouds(90, 70)
    cost = point_cost(X, Y)
    small = sinkhorn(cost, 1.0, a, b)
    monkeypatch.setattr(module, "_BLOCK_ELEMENTS", 128)
    blocked = sinkhorn(cost, 1.0, a, b)
    np.testing.assert_allclose(blocked.plan, small.plan, rtol=1e-9)
    assert blocked.n_iter == small.n_iter


@settings(max_examples=60)
@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.floats(-8, 3),
    st.integers(0, 2**31),
    st.booleans(),
)
def test_marginals_duality_and_potentials(n, m, log_reg, seed, empty_weight):
    X, Y, a, b = clouds(n, m, seed=seed)
    if empty_weight and m > 1:
        b[0] = 0
        b /= b.sum()
    cost = point_cost(X, Y)
    regularization = 10**log_reg
    result = sinkhorn(cost, regularization, a, b, max_iter=300)
    plan = result.plan
    assert np.isfinite(plan).all() and (plan >= 0).all()
    # the columns are fitted last: exact at any number of sweeps
    np.testing.assert_allclose(plan.sum(axis=0), b, atol=1e-12)
    assert result.marginal_error == approx(np.abs(plan.sum(axis=1) - a).sum())
    used = b > 0
    exponent = (result.f[:, None] + result.g[used] - cost[:, used]) / regularization
    scale = 1 + np.abs(cost).max() / regularization
    np.testing.assert_allclose(
        a[:, None] * b[used] * np.exp(exponent), plan[:, used], atol=1e-13 * scale
    )
    # weak duality: any potentials that fit one side bound the optimum from below
    dual = a @ result.f + b[used] @ result.g[used]
    assert dual <= ot.emd2(a, b, cost) + regularization * np.log(n * m + 1) * 50


def log_domain_sinkhorn(cost, regularization, a, b, n_sweeps):
    """The textbook iteration, started like ours, every sum in logarithms."""
    scaled = cost / regularization
    g = (scaled - scaled.min(axis=1, keepdims=True)).min(axis=0)
    for _ in range(n_sweeps):
        f = -logsumexp(g - scaled, axis=1, b=b)
        g = -logsumexp(f[:, None] - scaled, axis=0, b=a[:, None])
    return a[:, None] * b * np.exp(f[:, None] + g - scaled)


def count_log_sweeps(monkeypatch):
    calls = []
    original = module._log_sweep

    def spy(*args):
        calls.append(1)
        return original(*args)

    monkeypatch.setattr(module, "_log_sweep", spy)
    return calls


@pytest.mark.filterwarnings("ignore")  # the plain solver complains as it overflows
@pytest.mark.parametrize("shift, regularization", [(40.0, 1.0), (3.0, 0.01)])
def test_stays_right_where_the_plain_solver_overflows(
    shift, regularization, monkeypatch
):
    calls = count_log_sweeps(monkeypatch)
    X, Y, a, b = clouds(20, 25, d=2)
    cost = point_cost(X, Y + shift)
    plain = ot.sinkhorn(a, b, cost, regularization, numItermax=1000)
    assert not np.abs(plain.sum(axis=1) - a).sum() < 0.1
    result = sinkhorn(cost, regularization, a, b, max_iter=1000, tol=None)
    expected = log_domain_sinkhorn(cost, regularization, a, b, 1000)
    np.testing.assert_allclose(result.plan, expected, atol=1e-8)
    if regularization < 0.1:  # scalings did leave their range, but rarely
        assert 0 < len(calls) < 100


def test_number_of_sweeps_without_tolerance_is_the_one_asked_for():
    for seed in range(5):
        X, Y, a, b = clouds(seed=seed)
        assert sinkhorn(point_cost(X, Y), 1.0, max_iter=7, tol=None).n_iter == 7
        assert sinkhorn(point_cost(X, Y), 1.0, a, b).n_iter < 1000


@pytest.mark.parametrize(
    "cost, regularization, a, b, message",
    [
        (np.ones(3), 1.0, None, None, "cost must be an array of finite numbers"),
        (
            np.array([[np.nan]]),
            1.0,
            None,
            None,
            "cost must be an array of finite numbers",
        ),
        (np.ones((0, 2)), 1.0, None, None, "cost must be an array of finite numbers"),
        (np.ones((2, 2)), 0.0, None, None, "regularization"),
        (np.ones((2, 2)), 1.0, np.ones(3), None, "shapes"),
        (np.ones((2, 2)), 1.0, np.array([2.0, -1.0]), None, "non-negative"),
        (np.ones((2, 2)), 1.0, np.ones(2), None, "equal totals"),
    ],
)
def test_bad_problems_are_refused(cost, regularization, a, b, message):
    with pytest.raises(ValueError, match=message):
        sinkhorn(cost, regularization, a, b)


def test_bad_number_of_sweeps_is_refused():
    with pytest.raises(ValueError, match="max_iter"):
        sinkhorn(np.ones((2, 2)), 1.0, max_iter=0)


def test_point_cost_adds_its_three_parts():
    X, Y, _, _ = clouds(5, 4)
    x_labels, y_labels = np.array(list("abcab")), np.array(list("aabc"))
    got = point_cost(
        X, Y, l1_weight=0.7, x_labels=x_labels, y_labels=y_labels, label_cost=9.0
    )
    for i in range(5):
        for j in range(4):
            step = X[i] - Y[j]
            expected = step @ step + 0.7 * np.abs(step).sum()
            expected += 9.0 * (x_labels[i] != y_labels[j])
            assert got[i, j] == approx(expected, rel=1e-12)


@pytest.mark.parametrize("l1_weight", [0.0, 0.8])
def test_gradient_of_the_optimal_cost(l1_weight):
    X, Y, a, b = clouds(6, 5)

    def optimum(X):
        cost = point_cost(X, Y, l1_weight=l1_weight)
        result = sinkhorn(cost, 1.0, a, b, max_iter=5000, tol=1e-14)
        return a @ result.f + b @ result.g, result.plan

    _, plan = optimum(X)
    gradient = transport_gradient(plan, X, Y, l1_weight=l1_weight)
    for i, k in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[i, k] = 1e-5
        slope = (optimum(X + step)[0] - optimum(X - step)[0]) / 2e-5
        assert gradient[i, k] == approx(slope, abs=1e-6)
