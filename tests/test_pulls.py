"""Pulls of the penalty: the span they are left in, and how noise is shared."""

import math
from dataclasses import replace

import numpy as np
import pytest
from _ends import approx
from numpy.testing import assert_allclose, assert_array_equal

from fairpriv_sklearn._training._penalty import GroupPenalty
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.linear_model._bounded_slope import linked, linked_with_slopes
from fairpriv_sklearn.linear_model._preconditioned import (
    CLASSIFICATION_RIDGE,
    Curvature,
    preconditioned_descent,
)
from fairpriv_sklearn.linear_model._pulls import PULL_CURVATURE, Pulls, noise_multiples
from fairpriv_sklearn.linear_model._queries import FairGradient, Geometry


def moments(rng, d):
    root = rng.normal(size=(d, 2 * d))
    return root @ root.T / (2 * d)


@pytest.mark.parametrize("average", [True, False])
def test_later_gradients_count_more_and_stay_in_the_span(average):
    rng = np.random.default_rng(0)
    d, n_steps, M = 6, 5, moments(rng, 6)
    pulls = Pulls(M, 0.3, average)
    seen = [[rng.normal(size=(d, k)) for k in (2, 4, 2)] for _ in range(n_steps)]
    for gradient, slopes, at in seen:
        pulls.add(gradient, slopes, at)
    squares = np.arange(1.0, n_steps + 1) ** 2
    weights = squares / squares.sum()
    last = weights if average else np.eye(n_steps)[-1]
    pull, at = (np.tensordot(last, [one[k] for one in seen], 1) for k in (0, 2))
    slopes = np.tensordot(weights, [one[1] for one in seen], 1)
    b, factor = pulls.model()
    bend = factor @ factor.T
    for k in range(2):  # strata of one output stand two columns apart
        span = slopes[:, k::2]
        inside = span @ np.linalg.lstsq(span, pull[:, k], rcond=None)[0]
        assert_allclose(b[:, k], bend @ at[:, k] - inside, atol=1e-12)
    # Curvature in the span of all slopes: the largest that the moments allow.
    expected = (
        0.3 * slopes @ np.linalg.solve(slopes.T @ np.linalg.solve(M, slopes), slopes.T)
    )
    assert_allclose(bend, expected, atol=1e-12)
    assert np.linalg.eigvalsh(0.3 * M - bend).min() > -1e-12
    assert np.linalg.matrix_rank(bend) == 4


def test_a_span_of_everything_leaves_everything():
    rng = np.random.default_rng(1)
    M = moments(rng, 3)
    pulls = Pulls(M, 0.2, True)
    gradient, at = rng.normal(size=(2, 3, 1))
    pulls.add(gradient, rng.normal(size=(3, 5)), at)
    b, factor = pulls.model()
    assert_allclose(factor @ factor.T, 0.2 * M)
    assert_allclose(b, 0.2 * M @ at - gradient)


def test_without_slopes_the_gradient_is_as_it_came():
    gradient = np.arange(3.0)[:, None]
    pulls = Pulls(np.eye(3), 0.2, True)
    pulls.add(gradient, np.empty((3, 0)), gradient)
    b, factor = pulls.model()
    assert_array_equal(b, -gradient)
    assert factor.shape == (3, 0)


def test_the_penalty_has_few_directions():
    """What the estimator builds on: the true gradient nearly lies in the span."""
    rng = np.random.default_rng(2)
    n, d = 20_000, 30
    groups = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d)) + rng.normal(size=(3, d))[groups] * 0.5
    penalty = GroupPenalty((1, 3), "barycenter", np.ones((1, 3)), float(n))
    scores = X @ rng.normal(size=(d, 1)) / math.sqrt(d)
    outputs, slopes = linked_with_slopes(scores)
    pull = penalty.pulls(penalty.codes(outputs), groups) * slopes
    gradient = (X.T @ pull)[:, 0]
    span = np.stack([X[groups == a].T @ slopes[groups == a, 0] for a in range(3)], 1)
    left = gradient - span @ np.linalg.lstsq(span, gradient, rcond=None)[0]
    assert np.linalg.norm(left) < 0.15 * np.linalg.norm(gradient)
    assert_array_equal(outputs, linked(scores))


@pytest.mark.parametrize("n_strata", [0, 2, 8])
def test_noise_is_shared_by_public_numbers(n_strata):
    penalty = GroupPenalty((1, 2), "barycenter", np.ones((1, 2)), 100.0)
    shape = Geometry(50, 1, 1.0, 1.0, 0.0)
    query = FairGradient(shape, 100.0, np.ones(2), None, penalty=penalty)
    loss, pull, slopes = query.sensitivities("replace_one")
    for weight in (0.25, 0.5, 0.9):
        got = noise_multiples(query, weight, "replace_one", n_strata)
        parts = np.multiply(got, (loss, pull, slopes)) / pull
        directions = math.sqrt(50 / (n_strata or 50))
        ratio = math.sqrt((1 - weight) * loss / (weight * pull) * directions) / 2
        expected = [min(max(ratio, 0.25), 4.0), 1.0, 1 / 3 if n_strata else 0.0]
        assert_allclose(parts, expected, rtol=1e-12)
    of_loss, of_penalty, of_slopes = (
        noise_multiples(query, weight, "replace_one", 2) for weight in (1.0, 0.5, 1e-9)
    )
    assert of_loss[0] * loss == approx(pull / 4)
    assert of_slopes[0] * loss == approx(4 * pull)
    # Noise of the loss is in all columns, that of the penalty in two out of fifty.
    query = replace(query, multiples=of_penalty)
    expected = math.hypot(0.5 / of_penalty[0], 0.5 * math.sqrt(2 / 50))
    assert query.relative_noise(0.5) == approx(expected, rel=1e-12)
    query = replace(query, multiples=(2.0, 1.0, 0.0))
    assert query.relative_noise(0.5) == approx(math.hypot(0.25, 0.5), rel=1e-12)


def test_a_large_weight_is_kept_at_little_loss():
    """The gap falls with the weight; most of the accuracy stays, in many columns."""
    rng = np.random.default_rng(3)
    n, d = 20_000, 60
    groups = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    X[:, 0] += 0.4 * groups
    coef = np.r_[6.0, 6.0 * rng.normal(size=d - 1)]
    y = (X @ coef + rng.logistic(size=n) > 0).astype(int)
    found = []
    for weight in (0.0, 0.9):
        model = DPWassersteinLogisticRegression(
            epsilon=1.0,
            fairness_weight=weight,
            classes=[0, 1],
            groups=[0, 1],
            data_norm=1.0,
            bounds=(-1, 1),
            random_state=0,
        ).fit(X, y, sensitive_features=groups)
        decided = model.predict(X)
        gap = abs(decided[groups == 1].mean() - decided[groups == 0].mean())
        found.append((gap, np.mean(decided == y)))
    (gap, accuracy), (fair_gap, fair_accuracy) = found
    assert fair_gap < gap / 3
    assert fair_accuracy > accuracy - 0.06
    assert PULL_CURVATURE == 0.15


def test_moments_may_be_as_good_as_singular():
    rng = np.random.default_rng(4)
    for floor in (1e-9, 1e-11):
        for _ in range(20):
            axes = np.linalg.qr(rng.normal(size=(12, 12)))[0]
            M = (axes * np.r_[np.ones(3), np.full(9, floor)]) @ axes.T
            M = (M + M.T) / 2
            pulls = Pulls(M, 0.3, True)
            pulls.add(rng.normal(size=(12, 1)), rng.normal(size=(12, 8)), axes[:, :1])
            b, factor = pulls.model()
            assert np.isfinite(b).all()
            assert np.linalg.eigvalsh(0.3 * M - factor @ factor.T).min() > -1e-4


def test_without_slopes_a_descent_adds_the_penalty_to_the_loss():
    d, known = 4, {"row_norm": 1.0, "constant": 0.0, "factor": 0.125}
    stand_in = Curvature.from_moments(None, 0.0, n_columns=d, **known)
    pulls = Pulls(stand_in.matrix, 0.3, True)

    def loss(weights):
        return 0.1 * weights - 0.02

    def penalty(weights):
        return 0.05 * weights + np.linspace(-0.1, 0.1, d)[:, None]

    def with_pulls(weights):
        pulls.add(penalty(weights), np.empty((d, 0)), weights)
        return loss(weights)

    found = [
        preconditioned_descent(
            gradient,
            stand_in,
            n_outputs=1,
            ridge=np.full(d, 1e-9),
            noise=1e-3,
            max_iter=10,
            average=True,
            noise_ridge=1.0,
            pulls=told,
        )[0]
        for gradient, told in (
            (with_pulls, pulls),
            (lambda weights: loss(weights) + penalty(weights), None),
        )
    ]
    assert np.abs(found[0]).min() > 0.05
    assert_allclose(*found, rtol=1e-9)


def test_a_ridge_does_not_make_up_what_noise_hides():
    """Of pure noise less is left with one than without."""
    d, left = 40, {}
    stand_in = Curvature.from_moments(
        None, 0.0, n_columns=d, row_norm=1.0, constant=0.0, factor=0.125
    )
    for ridge in (1e-9, 0.02):
        rng, left[ridge] = np.random.default_rng(3), 0.0
        for _ in range(20):
            weights, _ = preconditioned_descent(
                lambda w, rng=rng: 0.01 * w + 0.05 * rng.normal(size=w.shape),
                stand_in,
                n_outputs=1,
                ridge=np.full(d, ridge),
                noise=0.05,
                max_iter=10,
                average=True,
                noise_ridge=CLASSIFICATION_RIDGE,
            )
            left[ridge] += np.linalg.norm(weights)
    assert 0 < left[0.02] < left[1e-9]


def test_a_strong_penalty_does_not_fade_a_clear_model():
    rng = np.random.default_rng(0)
    n, d = 20_000, 40
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    y = X @ rng.normal(size=d) * 3 + 0.4 * rng.logistic(size=n) > 0
    model = DPWassersteinLogisticRegression(
        fairness_weight=0.9,
        bounds=(-4, 4),
        data_norm=1.0,
        classes=[False, True],
        groups=[0, 1],
        random_state=0,
    )
    model.fit(X, y, sensitive_features=group)
    assert model.score(X, y) > 0.8
    assert model.decision_function(X).std() > 0.2
