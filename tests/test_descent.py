"""Steps of the linear models: how late ones count, and what large budgets find."""

import math

import numpy as np
import pandas as pd
import pytest
from _ends import approx
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.linear_model import (
    DPWassersteinLogisticRegression,
    _wasserstein_logistic,
)
from fairpriv_sklearn.linear_model._preconditioned import (
    Curvature,
    _AverageModel,
    _carried,
    _Directions,
    averaging_power,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget


def rare_classes(n, rare, seed=0, n_columns=8, apart=3.0):
    """Rows of a frequent class and of rare ones, each about a mean of its own."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(rare) + 1, p=[1 - sum(rare), *rare], size=n)
    means = rng.normal(size=(len(rare) + 1, n_columns))
    means *= apart / np.linalg.norm(means, axis=1)[:, None]
    means[0] = 0.0
    return rng.normal(size=(n, n_columns)) + means[y], y


def plain(**params):
    params = {"fairness_weight": 0.0, "random_state": 0, **params}
    return DPWassersteinLogisticRegression(**params)


def test_late_steps_count_by_how_little_noise_they_have():
    inverse, worth = np.diag([2.0, 3.0, 5.0]), np.array([0.2, 0.4])
    for noise in (1e-4, 1e-3, 2e-2):
        expected = 0.1 * 0.3 / (10.0 * noise**2 / 2)
        assert averaging_power(inverse, noise, worth) == approx(expected, rel=1e-12)
    assert averaging_power(inverse, 0.06, worth) == 2.0
    assert averaging_power(inverse, 0.0, worth) > 1e9


@pytest.mark.parametrize("power", [2.0, 3.5, 1e9, math.inf])
def test_averages_weigh_steps_by_a_power_of_their_number(power):
    model, seen, weights = (
        _AverageModel(power),
        np.random.default_rng(1).random(6),
        [1.0],
    )
    for n, one in enumerate(seen, 1):
        told = model.add(one)
        if n > 1:
            part = (
                n**power / (np.arange(1.0, n + 1) ** power).sum() if power < 9 else 1.0
            )
            part = min(part, 0.8) if power < math.inf else part
            weights = [*np.multiply(weights, 1 - part), part]
        assert told == approx(np.dot(weights, seen[:n]), rel=1e-12)


@pytest.mark.parametrize("power", [30.0, 1e9])
def test_steps_come_to_rest_where_the_stand_in_is_a_third_too_small(power):
    ratios = np.array([0.3, 1.0, 1.45])
    assert_allclose(ratios * np.sqrt(_carried(ratios, 400, power)[1]), 1, rtol=1e-4)


def test_steps_of_the_last_gradient_alone_do_not():
    ratios = np.array([1.45])
    assert ratios * np.sqrt(_carried(ratios, 400, math.inf)[1]) > 100


def test_flat_losses_are_left_where_steps_began_unless_late_ones_count_more():
    def left(n_steps, power, ratio=0.05):
        shared = _carried(np.array([ratio]), n_steps, power)[1]
        return 1 - ratio * math.sqrt(shared[0])

    assert left(40, 2.0) > 0.5
    for power in (2.0, 5.0):  # as a power of the number of steps
        fell = math.log(left(50, power) / left(400, power)) / math.log(8)
        assert fell == approx(0.05 * (power + 1), rel=0.25)
    assert abs(left(40, 100.0)) < 0.02


def test_rows_fill_what_they_are_allowed_by_their_spread():
    rng = np.random.default_rng(0)
    rows = 0.3 * rng.normal(size=(500, 4)) + [0.5, 0.0, -0.2, 0.1]
    z = np.column_stack([rows, np.full(500, 0.4)])
    moments, common = z.T @ z / 500, {"n_columns": 5, "row_norm": 2.0, "constant": 0.4}
    spread = rows.var(axis=0).sum()

    def fill(noise=0.0, moments=moments, factor=0.125, norm=1.5):
        stand_in = Curvature.from_moments(moments, noise, factor=factor, **common)
        return stand_in.fill(norm)

    assert fill() == approx(spread / 1.5**2, rel=1e-9)
    assert fill(factor=3.0) == approx(fill(), rel=1e-9)
    assert fill(norm=0.1) == 1.0 and fill(norm=100.0) == 1e-3
    # Of noise as much is added as it varies by, and as squares of means have of it.
    higher = spread + 2 * 0.01 + 4 * (0.01 / 0.4) ** 2
    assert fill(0.01) == approx(higher / 1.5**2, rel=1e-9)
    assert fill(2.0) == 1.0
    assert Curvature.from_moments(None, 0.0, factor=1.0, **common).fill(1.5) == 1.0
    through = Curvature.from_moments(
        rows.T @ rows / 500, 0.0, n_columns=4, row_norm=1.5, constant=0.0, factor=0.125
    )
    assert through.fill(1.5) == approx(np.square(rows).sum() / 500 / 1.5**2, rel=1e-9)


def test_a_ridge_holds_what_a_flat_loss_lets_go():
    moments, ridge = np.diag([1.0, 0.5, 0.01]), 0.01
    stand_in = Curvature.from_moments(
        moments, 1e-9, n_columns=3, row_norm=2.0, constant=0.0, factor=0.125
    )
    found = _Directions(
        np.ones((3, 1)), stand_in, np.full(3, ridge), 1e-7, None, (5, 2.0), 1.0, 0.0
    )
    held = ridge / (0.125 * np.diag(moments)[::-1] + ridge)
    flat = np.array([[0.1, 1.5]])
    expected = np.minimum(flat + held[:, None], [[1.0, 1.5]])
    assert_allclose(found._bent(np.repeat(flat, 3, axis=0)), expected, rtol=1e-9)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_a_penalty_of_weights_is_as_strong_as_beside_the_logistic_loss(
    weight, monkeypatch
):
    X, y = rare_classes(4000, [0.3])
    told = {}

    def descent(gradient, curvature, **known):
        told.update(known, curvature=curvature)
        raise InterruptedError

    monkeypatch.setattr(_wasserstein_logistic, "preconditioned_descent", descent)
    model = plain(
        bounds=(-8, 8), classes=[0, 1], groups=[0, 1], C=0.5, fairness_weight=weight
    )
    with pytest.raises(InterruptedError):
        model.fit(X, y, sensitive_features=(X[:, 0] > 0).astype(int))
    fill = told["curvature"].fill(math.sqrt(8 / 3 + 0.6 * math.sqrt(8)))
    assert 0.05 < fill < 0.9
    size = weight + (1 - weight) * fill / 2
    assert_allclose(told["ridge"], [*[size / (0.5 * 4000)] * 8, 0.0], rtol=1e-12)
    assert (told["worth"] is None) == (weight > 0)


def test_a_large_budget_finds_the_minimum_of_rare_labels():
    """An oracle minimises the documented objective; a model of noise is near it.

    Averages that counted early steps as late ones left a third of the way to it.
    """
    n, half, C = 4000, 8.0, 10.0
    X, y = rare_classes(n, [0.03], seed=3)
    model = plain(
        epsilon=1e5, bounds=(-half, half), data_norm=2.0, classes=[0, 1], C=C
    ).fit(X, y)
    rows, sign = X / half, np.where(y == 1, -1.0, 1.0)
    assert np.square(rows).sum(axis=1).max() < 4.0
    strength = rows.var(axis=0).sum() / 2.0**2 / 2 / (n * C)

    def objective(w):
        signed = sign * (rows @ w[:-1] + w[-1])
        beyond = np.log(2) + signed / 2
        losses = np.where(signed > 0, beyond, np.log1p(np.exp(np.minimum(signed, 0))))
        return losses.mean() + strength / 2 * w[:-1] @ w[:-1]

    found = minimize(objective, np.zeros(9), options={"maxiter": 2000}).fun
    ours = objective(np.append(model.coef_ * half, model.intercept_))
    none = min(objective(np.append(np.zeros(8), b)) for b in np.linspace(-8, 0, 801))
    assert found - 1e-6 < ours < found + 0.03 * (none - found)


@pytest.mark.parametrize("encoded", [False, True])
def test_more_budget_is_no_worse_for_rare_classes(encoded):
    """Ranges were wider, a penalty in them stronger, and steps stayed where they began.

    Of 1,000 rows errors were .05 at epsilon 30 and .09, as of a constant, at 10,000.
    """
    X, y = rare_classes(6000, [0.05, 0.05], seed=1)
    train, test = slice(1000), slice(1000, None)
    model = plain(classes=[0, 1, 2], bounds=None if encoded else (-8, 8))
    X = pd.DataFrame(X, columns=list("abcdefgh")) if encoded else X
    errors, losses = [], []
    for epsilon in (3.0, 30.0, 300.0, 1e4):
        one = model.set_params(epsilon=epsilon)
        if encoded:
            encoder = DPTableEncoder(random_state=0)
            one = with_budget(make_pipeline(encoder, one), epsilon)
        told = one.fit(X[train], y[train]).predict_proba(X[test])
        errors.append((told.argmax(axis=1) != y[test]).mean())
        losses.append(log_loss(y[test], told))
    assert np.diff(losses).max() < 0.0, losses
    constant = (y[test] != 0).mean()
    assert np.diff(errors).max() < 0.005 and errors[-1] < 0.75 * constant, errors
