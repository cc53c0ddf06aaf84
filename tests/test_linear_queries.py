"""What one record can change at the wall: queries of the noisy gradients."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from _audit import audit_of_releases
from _ends import approx
from _recording import recording
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit

from fairpriv_sklearn._training._counts import Count, StratumCounts, shares
from fairpriv_sklearn._training._design import UNIT, from_units
from fairpriv_sklearn._training._penalty import (
    ROUNDING,
    GroupPenalty,
    WassersteinPenalty,
    projection_directions,
)
from fairpriv_sklearn._training._target import TargetCounts
from fairpriv_sklearn._wall import Rows
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.linear_model._bounded_slope import (
    LINK_SLOPE,
    SLOPE,
    bounded_slopes,
    linked,
    linked_with_slopes,
    shortened,
    slopes_and_links,
)
from fairpriv_sklearn.linear_model._queries import (
    FairGradient,
    Geometry,
    LossGradient,
    MeanResidual,
    ResidualGradient,
    SecondMoments,
)

RELATIONS = ["replace_one", "add_remove"]


def grid(X):
    """Rows of norm at most 1 on the grid."""
    X = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-9))
    return np.trunc(X / UNIT) * UNIT


def geometry(d, n_outputs=1, constant=0.25):
    return Geometry(d, n_outputs, 1.0, 1.0, constant)


@pytest.mark.parametrize("query", [LossGradient, ResidualGradient])
def test_a_constant_that_is_no_number_moves_the_sums_by_no_more(query):
    """One row more is one block more, whose sum was the least integer."""
    own = np.ones(2) if query is LossGradient else 1.0
    asked = query(Geometry(2, 1, 2.0**-20, 1.0, 1.0), 1.0, own)
    n = asked.block_rows
    x, y = np.full((n + 1, 2), 2.0**18), np.zeros(n + 1, dtype=np.int64)
    weights = np.array([[0.1], [0.1], [np.nan]])
    with np.errstate(all="ignore"):
        sums = [asked.of_rows(Rows(m, x=x[:m], y=y[:m]), weights) for m in (n, n + 1)]
    assert np.linalg.norm(sums[1] - sums[0]) <= asked.sensitivity("add_remove")


def rows_of(X, y, stratum=None):
    stratum = np.zeros(len(y), dtype=np.int64) if stratum is None else stratum
    return Rows(len(y), x=X, y=y, stratum=stratum)


def neighbour(rng, X, y, stratum, relation, n_classes=2, n_strata=1):
    """One record replaced or removed, and the rows in another order."""
    order = rng.permutation(len(y))
    X, y, stratum = X[order].copy(), y[order].copy(), stratum[order].copy()
    if relation == "add_remove":
        return X[1:], y[1:], stratum[1:]
    X[0] = rng.choice([X[0], -X[0], grid(rng.normal(size=(1, X.shape[1])))[0]])
    y[0], stratum[0] = rng.integers(n_classes), rng.integers(n_strata)
    return X, y, stratum


# ------------------------------------------------------------------------- the loss


def test_the_loss_is_convex_and_its_slope_bounded():
    scores = np.linspace(-40, 40, 2001)
    for label in (0, 1):
        slopes = bounded_slopes(scores, np.full(scores.shape, label))
        assert (np.diff(slopes) >= 0).all()
        assert np.abs(slopes).max() == SLOPE


def test_the_link_is_where_the_expected_slope_vanishes():
    scores = np.linspace(-8, 8, 401)
    probability = linked(scores)
    zero, one = (bounded_slopes(scores, np.full(scores.shape, k)) for k in (0, 1))
    assert_allclose(probability * one + (1 - probability) * zero, 0, atol=1e-15)
    assert (np.diff(probability) > 0).all()
    p = expit(-np.abs(scores))
    assert_allclose(np.minimum(probability, 1 - probability), 2 * p / (1 + 2 * p))


def test_the_slope_of_the_link_is_at_most_a_sixth():
    scores = np.linspace(-8, 8, 4001)
    _, slopes = linked_with_slopes(scores)
    numeric = np.gradient(linked(scores), scores)
    away = np.abs(scores) > 0.01  # the second derivative jumps at 0
    assert_allclose(slopes[away][1:-1], numeric[away][1:-1], atol=1e-5)
    assert LINK_SLOPE * (1 - 1e-5) < slopes.max() <= LINK_SLOPE


# ---------------------------------------------------------------- gradients and moments


def loss_gradient(n, d=3, n_outputs=1, class_weights=None):
    classes = 2 if n_outputs == 1 else n_outputs
    weights = np.ones(classes) if class_weights is None else np.array(class_weights)
    return LossGradient(geometry(d, n_outputs), float(n), weights)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, np.float32])
def test_gradients_are_what_the_formula_says(n_outputs, container):
    rng = np.random.default_rng(0)
    n, d, classes = 5000, 4, max(2, n_outputs)
    X, y = grid(rng.normal(size=(n, d))), rng.integers(0, classes, n)
    weights = rng.normal(size=(d + 1, n_outputs))
    class_weights = np.linspace(0.5, 1, classes)
    query = loss_gradient(n, d, n_outputs, class_weights)
    got = query.of_rows(rows_of(container(X), y), weights)
    Z = np.column_stack([X, np.full(n, 0.25)])
    outputs = [1] if n_outputs == 1 else range(n_outputs)
    is_class = y[:, None] == np.array(outputs)
    slopes = np.clip(expit(Z @ weights) - is_class, -0.5, 0.5)
    slopes *= class_weights[y][:, None]
    norms = np.linalg.norm(slopes, axis=1, keepdims=True)
    if n_outputs > 2:
        assert 0.01 < np.mean(norms > math.sqrt(0.5)) < 0.5
        slopes *= np.minimum(1.0, math.sqrt(0.5) / norms)
    assert_allclose(got, Z.T @ slopes / n, atol=2e-6)


@pytest.mark.parametrize("n_outputs", [1, 3, 4, 40])
@pytest.mark.parametrize("penalised", [False, True])
def test_one_record_reaches_the_sensitivity_of_the_loss(n_outputs, penalised):
    """Wrong about all classes, or about two: its slopes are no longer than these."""
    query = loss_gradient(1, 1, n_outputs)
    if penalised:
        query = fair_gradient(1, "barycenter", n_outputs, 2, (1.0, 1e-9, 0.0))
    d = query.geometry.n_features
    bound = LossGradient.sensitivity(query, "add_remove")
    norms = []
    for sure in (2, n_outputs):
        weights = np.full((d + 1, n_outputs), -4000.0)
        weights[:, :sure] = 4000.0
        X = np.full((1, d), 1 / math.sqrt(d))
        # Its own class is another one, where there is one.
        rows = rows_of(grid(X), np.array([0 if n_outputs == 1 else n_outputs - 1]))
        found = query.of_rows(rows, weights)
        if penalised:
            found = query.parts(found)[0]
        norms.append(np.linalg.norm(found))
        assert norms[-1] <= bound
    assert max(norms) > 0.99 * bound


def test_slopes_of_few_classes_are_not_shortened():
    rng = np.random.default_rng(0)
    slopes = rng.uniform(-0.5, 0.5, (99, 2))
    assert_array_equal(shortened(slopes.copy()), slopes)
    slopes = np.array([[0.5, -0.5, 0.0], [0.5, 0.5, 0.5], [0.1, 0.2, -0.3]])
    expected = slopes * [[1.0], [math.sqrt(2 / 3)], [1.0]]
    assert_allclose(shortened(slopes.copy()), expected, rtol=1e-12)


@pytest.mark.parametrize("n_outputs", [3, 26, 10_000])
def test_a_record_is_shortened_alone_as_among_others(n_outputs):
    slopes = np.random.default_rng(0).uniform(-0.5, 0.5, (50, n_outputs))
    together = shortened(slopes.copy())
    for i in range(50):
        assert_array_equal(shortened(slopes[i : i + 1].copy())[0], together[i])
    assert shortened(slopes[:0].copy()).shape == (0, n_outputs)


def test_sums_do_not_know_order_or_blocks():
    rng = np.random.default_rng(1)
    n = 40_001  # slopes are worked out of 16,384 rows together, sums of 4,096 are exact
    X, y = grid(rng.normal(size=(n, 5))), rng.integers(0, 2, n)
    weights, order = rng.normal(size=(6, 1)), rng.permutation(n)
    for query in (
        loss_gradient(n, 5),
        ResidualGradient(geometry(5), float(n), 1.0),
        SecondMoments(geometry(5), float(n)),
    ):
        whole = query.of_rows(rows_of(X, y), weights)
        assert_array_equal(query.of_rows(rows_of(X[order], y[order]), weights), whole)
        state = weights
        total = sum(
            query.of_block(rows_of(X, y).block(slice(a, min(a + 700, n))), state)
            for a in range(0, n, 700)
        )
        assert_array_equal(query.value(total, state), whole)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_outputs", [1, 3, 4])
def test_loss_gradients_stay_below_their_bound_and_reach_it(relation, n_outputs):
    rng = np.random.default_rng(2)
    n, d, classes, largest = 8, 3, max(2, n_outputs), 0.0
    query = loss_gradient(n, d, n_outputs)
    bound = query.sensitivity(relation)
    for _ in range(300):
        X, y = grid(3 * rng.normal(size=(n, d))), rng.integers(0, classes, n)
        weights = rng.choice([0, 1, 30]) * rng.normal(size=(d + 1, n_outputs))
        if n_outputs > 1 and rng.random() < 0.5:
            # A record of no score's class but one: all other slopes at their end.
            weights[:], weights[-1] = 0.0, 400.0
        zero = np.zeros(n, dtype=np.int64)
        other = neighbour(rng, X, y, zero, relation, classes)
        change = query.of_rows(rows_of(X, y), weights)
        change = change - query.of_rows(rows_of(*other), weights)
        largest = max(largest, np.linalg.norm(change))
    assert largest <= bound
    # With an intercept two opposite rows agree in one column.
    assert largest >= (0.95 if n_outputs == 1 or relation == "add_remove" else 0.8) * (
        bound * (1 if n_outputs == 1 else math.sqrt((n_outputs - 1) / n_outputs))
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("largest", [0.3, 1.0])
def test_residual_gradients_stay_below_their_bound_and_reach_it(relation, largest):
    rng = np.random.default_rng(2)
    n, found = 6, 0.0
    query = ResidualGradient(geometry(3), float(n), largest)
    for _ in range(300):
        X, y = grid(3 * rng.normal(size=(n, 3))), rng.choice([-1.0, 0.5, 1.0], n)
        weights = rng.choice([0, 1, 30]) * rng.normal(size=(4, 1))
        other, other_y = X[1:], y[1:]
        if relation == "replace_one":
            other, other_y = X.copy(), y.copy()
            other[0] *= rng.choice([-1, 1])
            other_y[0] = -y[0]
        change = query.of_rows(rows_of(X, y), weights)
        change = change - query.of_rows(rows_of(other, other_y), weights)
        found = max(found, np.linalg.norm(change))
    assert 0.95 * query.sensitivity(relation) <= found <= query.sensitivity(relation)


def test_residual_gradients_are_what_the_formula_says():
    rng = np.random.default_rng(0)
    X, y = grid(rng.normal(size=(5000, 4))), rng.integers(-8, 9, 5000) / 8
    weights = rng.normal(size=(5, 1))
    query = ResidualGradient(geometry(4), 5000.0, 0.4)
    Z = np.column_stack([X, np.full(5000, 0.25)])
    slopes = np.clip(Z @ weights - y[:, None], -0.4, 0.4)
    got = query.of_rows(rows_of(X, y), weights)
    assert_allclose(got, Z.T @ slopes / 5000, atol=2e-6)


@pytest.mark.parametrize("relation", RELATIONS)
def test_mean_residuals_stay_below_their_bound_and_reach_it(relation):
    rng = np.random.default_rng(4)
    n, found = 8, 0.0
    query = MeanResidual(geometry(3), float(n), -1.0, 0.7)
    bound = query.sensitivity(relation)
    for _ in range(300):
        X, y = grid(rng.normal(size=(n, 3))), rng.choice([-1.0, 0.3, 1.0], n)
        weights = rng.normal(size=(4, 1)) * rng.choice([0.0, 3.0])
        X2, y2, _ = neighbour(rng, X, y, np.zeros(n, dtype=np.int64), relation)
        y2 = y2.copy()
        if relation == "replace_one":
            y2[0] = rng.choice([-1.0, 1.0])
        one, two = (
            query.of_rows(rows_of(a, b), weights) for a, b in ((X, y), (X2, y2))
        )
        assert np.abs(one - two) <= bound
        found = max(found, float(np.abs(one - two)[0]))
    assert found > 0.95 * bound


def test_mean_residuals_are_what_the_formula_says():
    rng = np.random.default_rng(5)
    X, y = grid(rng.normal(size=(5000, 4))), rng.uniform(-1, 1, 5000)
    query = MeanResidual(geometry(4), 5000.0, -0.4, 0.7, 0.1, 0.5)
    weights = rng.normal(size=(5, 1))
    got = query.of_rows(rows_of(X, y), weights)
    predicted = np.column_stack([X, np.full(5000, 0.25)]) @ weights[:, 0]
    residuals = predicted - np.clip((y - 0.1) / 0.5, -0.4, 0.7)
    assert residuals.min() < -0.7 and residuals.max() > 0.4
    assert_allclose(got, [np.clip(residuals, -0.7, 0.4).mean()], atol=2e-6)


def test_shares_of_noisy_counts():
    assert_allclose(shares([300.0, 700.0], 1000.0, 1.0), [0.3, 0.7], atol=1e-4)
    drowned = shares([-40.0, 1000.0], 1000.0, 30.0)
    assert_allclose(drowned.sum(), 1)
    assert 0 < drowned[0] < 0.03
    # A negative count says less than zero, never a share of nothing.
    assert (shares([-500.0, 10.0, 20.0], 100.0, 50.0) > 0).all()


def test_little_budget_asks_for_the_constant_alone():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(400, 5)), (rng.random(400) < 0.3).astype(int)
    for seed in range(5):
        model = DPWassersteinLogisticRegression(
            epsilon=0.1, fairness_weight=0, bounds=(-4, 4), classes=[0, 1],
            random_state=seed,
        )  # fmt: skip
        assert not model.fit(X, y).coef_.any()
        target = DPLinearRegression(
            epsilon=0.1, bounds=(-4, 4), target_bounds=(-4, 4), random_state=seed
        ).fit(X, X[:, 0])
        assert not target.coef_.any()
        assert abs(target.intercept_) < 4


def test_skewed_targets_keep_their_mean():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(20000, 3)), np.exp(rng.normal(size=20000))
    model = DPLinearRegression(
        epsilon=3.0, bounds=(-4, 4), target_bounds=(0, 20), random_state=0
    ).fit(X, y)
    assert abs(model.predict(X).mean() - y.mean()) < 0.05


@pytest.mark.parametrize("relation", RELATIONS)
def test_second_moments_stay_below_their_bound_and_reach_it(relation):
    rng = np.random.default_rng(3)
    query, largest = SecondMoments(geometry(3), 6.0), 0.0
    for k in range(300):
        X = grid(5 * rng.normal(size=(6, 3)))
        if k % 2:
            X = np.eye(3)[rng.integers(0, 3, 6)]
        y = np.zeros(6, dtype=np.int64)
        other = X[1:].copy() if relation == "add_remove" else X.copy()
        if relation == "replace_one":
            other[0] = np.roll(X[0], 1) * [1, -1, 1]
        change = query.of_rows(rows_of(X, y), None) - query.of_rows(
            rows_of(other, y[: len(other)]), None
        )
        largest = max(largest, np.linalg.norm(change))
    bound = query.sensitivity(relation)
    assert 0.95 * bound <= largest <= bound


def test_second_moments_come_back():
    rng = np.random.default_rng(4)
    X = grid(rng.normal(size=(500, 4)))
    for constant in (0.0, 0.25):
        query = SecondMoments(geometry(4, constant=constant), 500.0)
        Z = np.column_stack([X, np.full(500, constant)])[:, : 4 + (constant > 0)]
        released = query.of_rows(rows_of(X, np.zeros(500, int)), None)
        assert released.shape == (query.n_coordinates,)
        assert_allclose(query.matrix(released), Z.T @ Z / 500, atol=1e-12)
        upper = np.linalg.norm(Z.T @ Z / 500) ** 2 - constant**4
        assert_allclose(np.linalg.norm(released) ** 2, upper)


def test_the_range_of_the_target_is_learnt():
    rng = np.random.default_rng(0)
    y = np.clip(rng.normal(0.25, 0.05, 5000), -1, 1)
    query = TargetCounts(64)
    counts = query.of_rows(rows_of(np.zeros((5000, 1)), y), None)
    assert counts.sum() == 5000 and counts.shape == (64,)
    want, _ = np.histogram(y, np.linspace(-1, 1, 65))
    assert_array_equal(counts, want)
    noisy = counts + rng.normal(0, 5, 64)
    center, width = query.range(noisy, 5000, 5.0)
    inside = np.abs(y - center) <= width
    assert inside.mean() > 0.97 and width < 0.25
    # A constant target has one cell; no record at all, or pure noise, is no error.
    ends = query.of_rows(rows_of(np.zeros((2, 1)), np.array([-1.0, 1.0])), None)
    assert_array_equal(np.flatnonzero(ends), [0, 63])
    for released in (np.eye(64)[5] * 9, np.zeros(64), -np.ones(64), np.full(64, 1e9)):
        center, width = query.range(released, 9.0, 1.0)
        assert -1 <= center <= 1 and 1 / 64 <= width <= 1
    assert query.sensitivity("replace_one") == math.sqrt(2)


@pytest.mark.parametrize("largest", [0.4, 2.0])
def test_residuals_of_the_constant_are_told_by_the_counts_of_the_target(largest):
    """In units of the learnt range, beyond which the target is clipped."""
    rng = np.random.default_rng(0)
    query = TargetCounts(64)
    for y in (rng.normal(0.2, 0.1, 5000), rng.exponential(0.05, 5000) - 1):
        y = np.clip(y, -1, 1)
        counts = query.of_rows(rows_of(np.zeros((5000, 1)), y), None)
        center, width = query.range(counts, 5000, 5.0)
        clipped = np.clip((y - center) / width, -1, 1)
        residuals = np.minimum(np.abs(clipped - clipped.mean()), largest)
        told = query.sampling(counts, 5000, center, width, largest)
        assert told == approx(np.mean(residuals**2), rel=0.1)
    # All in one bin: as likely to be anywhere there.
    told = query.sampling(np.eye(64)[5] * 9, 9, -53 / 64, 1 / 64, largest)
    assert told == approx(min(1 / 3, largest**2))


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivities_and_sizes_grow_as_the_proofs_say(relation):
    k = 2 if relation == "replace_one" else 1
    shape = Geometry(3, 2, 0.5, 2.0, 1.5)  # R = 2.5
    plain, closing = Geometry(3, 2, 0.5, 2.0, 0.0), 1 + 1e-5
    moments = SecondMoments(shape, 10.0)
    expected = math.sqrt(k) * 6.25 / 10 * closing
    assert moments.sensitivity(relation) == approx(expected, rel=1e-9)
    assert moments.n_coordinates == 9 and SecondMoments(plain, 10.0).n_coordinates == 6
    loss = LossGradient(shape, 10.0, np.ones(2))
    expected = k * 0.5 * math.sqrt(2) * 2.5 / 10 * closing
    assert loss.sensitivity(relation) == approx(expected, rel=1e-9)
    assert loss.n_coordinates == 8
    residual = ResidualGradient(shape, 10.0, 0.7)
    expected = k * 0.7 * 2.5 / 10 * closing
    assert residual.sensitivity(relation) == approx(expected, rel=1e-9)
    assert residual.n_coordinates == 4
    mean = MeanResidual(shape, 10.0, -0.2, 0.7)
    expected = (0.9 if k == 2 else 0.7) / 10 * closing
    assert mean.sensitivity(relation) == approx(expected, rel=1e-9)
    assert mean.n_coordinates == 1 and TargetCounts(8).n_coordinates == 8
    fair = fair_gradient(10, "pairs", 2, parts=(0.75, 0.25, 0.0))
    loss = LossGradient(fair.geometry, 10.0, np.ones(2)).sensitivity(relation)
    R = fair.geometry.row_norm
    pull = fair.penalty.sensitivity(LINK_SLOPE * R, relation) / math.sqrt(2)
    expected = math.hypot(0.75 * loss, 0.25 * pull) * (1 + ROUNDING)
    assert fair.sensitivity(relation) == approx(expected, rel=1e-9)


def test_counts():
    rows = rows_of(np.zeros((7, 1)), np.zeros(7, int), np.array([0, 2, 2, 3, 0, 0, 3]))
    assert_array_equal(StratumCounts(4).of_rows(rows, None), [3, 0, 2, 2])
    assert_array_equal(Count().of_rows(rows, None), [7])
    assert StratumCounts(4).sensitivity("replace_one") == math.sqrt(2)
    assert StratumCounts(4).sensitivity("add_remove") == Count().sensitivity("x") == 1


# ---------------------------------------------------------------------- the penalty


def coefficient_change(first, second, n_groups, n_records, n_labels=1):
    """n times the l1 change of the coefficients of all records, by Theorem 4.

    Records are triples (output, stratum, name): coefficients are compared by name.
    """
    found = []
    for records in (first, second):
        penalty = GroupPenalty(
            (n_labels, n_groups), "barycenter", np.ones((n_labels, n_groups)), n_records
        )
        outputs = np.array([record[0] for record in records])
        stratum = np.array([record[1] for record in records])
        _, slopes = penalty.value_and_slopes(outputs, stratum, 0.0, 1.0)
        names = [record[2] for record in records]
        found.append(dict(zip(names, slopes / penalty._scale, strict=True)))
    names = found[0].keys() | found[1].keys()
    return n_records * sum(abs(found[0].get(k, 0) - found[1].get(k, 0)) for k in names)


def near_ties(rng, n):
    """Outputs near 0 and 1, all different: the extreme tables of the proof."""
    return rng.integers(0, 2, n) * (1 - 2e-6) + rng.permutation(n) / n * 1e-6


@pytest.mark.parametrize(
    "relation, n_groups, n_labels, bound, reached",
    [
        ("add_remove", 2, 1, 4, 0.8),
        ("add_remove", 4, 1, 4, 0.8),
        ("add_remove", 2, 2, 4, 0.75),
        ("replace_one", 2, 1, 4, 0.8),
        ("replace_one", 3, 1, 8, 0.6),
        ("replace_one", 2, 2, 8, 0.6),
    ],
)
def test_theorem_4(relation, n_groups, n_labels, bound, reached):
    rng = np.random.default_rng(5)
    penalty = GroupPenalty((n_labels, n_groups), "barycenter", np.ones((1, 1)))
    assert penalty._moved(relation) == bound
    largest, n_strata = 0.0, n_groups * n_labels
    for _ in range(700):
        n = int(rng.choice([2, 5, 12, 40]))
        outputs = near_ties(rng, n) if rng.random() < 0.8 else rng.random(n)
        shares = rng.dirichlet(np.full(n_strata, 0.3))
        stratum = rng.choice(n_strata, n, p=shares)
        first = [(outputs[i], stratum[i], i) for i in range(n)]
        second = first[1:]
        if relation == "replace_one":
            moved = rng.choice([1e-9, 1 - 1e-9, 0.5e-6, 1 - 1.5e-6])
            second = [*second, (moved, rng.integers(n_strata), "new")]
        change = coefficient_change(first, second, n_groups, n, n_labels)
        assert change <= bound * (1 + 1e-9)
        largest = max(largest, change)
    assert largest >= reached * bound


def test_worst_tables_of_theorem_4_with_two_groups():
    n = 300  # with three groups: test_bounds
    one = [(k / 1e9, 1, k) for k in range(n - 1)]
    two = [*one, (1.0, 0, "x")]
    assert 3.9 < coefficient_change(two, one, 2, n) <= 4


def barycenter_by_quantiles(outputs, stratum, n_groups):
    """2 S / (S - 1) times the mean squared distance of ranks to the barycentre."""
    levels = (np.arange(55440) + 0.5) / 55440
    groups = [np.sort(outputs[stratum == a]) for a in range(n_groups)]
    shares = [len(group) / len(outputs) for group in groups]
    quantiles = [
        np.quantile(group, levels, method="inverted_cdf") if len(group) else 0 * levels
        for group in groups
    ]
    center = sum(w * q for w, q in zip(shares, quantiles, strict=True))
    total = sum(
        w * np.mean((q - center) ** 2) for w, q in zip(shares, quantiles, strict=True)
    )
    return 2 * n_groups / (n_groups - 1) * total


def test_the_barycentre_form_is_what_it_says():
    rng = np.random.default_rng(6)
    outputs = rng.random(20)
    stratum = np.r_[np.zeros(8), np.ones(7), np.full(5, 3)].astype(np.int64)
    penalty = GroupPenalty((1, 4), "barycenter", np.ones((1, 4)), 20)
    value, slopes = penalty.value_and_slopes(outputs, stratum, 0.0, 1.0)
    assert_allclose(value, barycenter_by_quantiles(outputs, stratum, 4), rtol=1e-3)
    step = 1e-6
    for i in range(20):
        values = [
            penalty.value_and_slopes(
                outputs + s * step * (np.arange(20) == i),
                stratum,
                0.0,
                1.0,
            )[0]
            for s in (1, -1)
        ]
        assert_allclose(slopes[i], (values[0] - values[1]) / (2 * step), atol=1e-7)


def test_the_forms_agree_for_equal_groups():
    rng = np.random.default_rng(7)
    outputs, stratum = rng.random(60), np.repeat([0, 1, 2], 20)
    for n_labels in (1, 3):
        shape = (n_labels, 3 // n_labels) if n_labels == 1 else (3, 1)
        if shape[1] == 1:
            continue
        forms = [
            GroupPenalty(shape, form, np.ones(shape), 60).value_and_slopes(
                outputs, stratum, 0.0, 1.0
            )
            for form in ("pairs", "barycenter")
        ]
        assert_allclose(forms[0][0], forms[1][0])
        assert_allclose(forms[0][1], forms[1][1])
    groups = WassersteinPenalty(stratum, np.ones((1, 3), int))
    assert_allclose(groups.slopes(outputs, 0.0, 1.0)[0], forms[0][0])


def fair_gradient(n, form, n_outputs=1, n_groups=2, parts=(0.3, 0.7, 0.5), k=None):
    shape = (1, n_groups)
    min_sizes = np.ones(shape, dtype=np.int64)
    directions = None
    if k:
        normals = np.random.default_rng(0).normal(size=(n_outputs, k))
        directions = projection_directions(normals)
    penalty = GroupPenalty(shape, form, min_sizes, float(n), directions)
    classes = np.ones(max(2, n_outputs))
    shape = geometry(3, n_outputs)
    return FairGradient(shape, float(n), classes, None, parts, penalty)


def test_codes_are_outputs_or_their_projections_on_the_grid():
    outputs = np.random.default_rng(1).random((50, 3))
    plain = fair_gradient(50, "pairs", 3, 2).penalty
    assert plain.n_codes == 0
    assert np.abs(plain.codes(outputs) - outputs * 2**20).max() <= 0.5
    penalty = fair_gradient(50, "pairs", 3, 2, k=4).penalty
    assert penalty.n_codes == 4
    low, high = (f(penalty.directions, 0).sum(axis=0) for f in (np.minimum, np.maximum))
    steps = (outputs @ penalty.directions - low) / (high - low) * 2**20
    assert np.abs(penalty.codes(outputs) - steps).max() < 1.5  # outputs are cut first


def test_no_pull_moves_a_record_by_more_than_its_unit():
    for multiples, n_strata in (((0.5, 0.5, 0.5), 2), ((0.5, 0.5, 0.0), 0)):
        query = fair_gradient(10, "pairs", 1, 2, multiples)
        bound = query.penalty.largest_pull / 6
        assert bound <= query._unit < 2 * bound
        assert math.frexp(query._unit)[0] == 0.5
        pulls = np.array([[7.0], [-7.0], [0.3]]) * query._unit
        loss, slopes, stratum = np.arange(3), np.arange(4, 7), np.array([0, 1, 1])
        slopes = (slopes[:, None] + 0.9) * 2.0**-20
        found = query._side_by_side(loss[:, None], slopes, stratum, pulls)
        high, low = found[:, 1 + n_strata : 3 + n_strata].T
        assert_array_equal(high, [2**20, -(2**20), round(0.3 * 2**20)])
        assert_array_equal(low[:2], [0, 0])
        assert (high[2] + low[2] * 2.0**-20) * 2.0**-20 == approx(0.3, abs=2.0**-41)
        expected = np.zeros((3, 5 if n_strata else 4))
        expected[:, 0] = loss
        if n_strata:
            expected[0, 1], expected[1:, 2] = 4, (5, 6)
        expected[:, 1 + n_strata : 3 + n_strata] = np.stack([high, low], axis=1)
        assert_array_equal(found, expected)
        sums = from_units(query._exact_sums(np.eye(3), found))
        assert_array_equal(sums[:3] * 2.0**20, found)
        assert_array_equal(sums[3] * 2.0**20, found.sum(axis=0))  # for the constant


@pytest.mark.parametrize("width", [4, 6])
def test_sums_of_more_records_than_a_block_add_up(width):
    query, rng = fair_gradient(9000, "pairs"), np.random.default_rng(0)
    rows = rng.integers(-9, 10, size=(9000, 3)).astype(float)  # blocks have 4,096
    integers = rng.integers(-99, 100, size=(9000, width)).astype(float)
    sums = from_units(query._exact_sums(rows, integers)) * 2.0**20
    assert_array_equal(sums, [*(rows.T @ integers), integers.sum(axis=0)])


def test_loss_and_sums_are_functions_of_their_record_alone():
    """To the last bit, and never longer than their bounds."""
    rng = np.random.default_rng(10)
    scores = rng.normal(size=(999, 1)) * rng.choice([1e-9, 1.0, 30.0, 900.0], (999, 1))
    is_class = rng.random((999, 1)) < 0.5
    together = slopes_and_links(scores, is_class)
    alone = bounded_slopes(scores, is_class), *linked_with_slopes(scores)
    for found, expected, bound in zip(together, alone, (0.5, 1, 1 / 6), strict=True):
        assert_allclose(found, expected, rtol=0, atol=1e-15)
        assert np.abs(found).max() <= bound * (1 + 1e-15)
    for part in (slice(5, 6), slice(1, 4), slice(3, 400), slice(None, None, -1)):
        again = slopes_and_links(scores[part], is_class[part])
        for one, found in zip(again, together, strict=True):
            assert_array_equal(one, found[part])
        slopes = bounded_slopes(scores[part], is_class[part])
        assert_array_equal(slopes, alone[0][part])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("form", ["pairs", "barycenter"])
@pytest.mark.parametrize("n_outputs, k", [(1, None), (3, None), (3, 4)])
def test_fair_gradients_stay_below_their_bound(relation, form, n_outputs, k):
    rng = np.random.default_rng(8)
    n, classes, largest = 10, max(2, n_outputs), 0.0
    for n_groups, parts in product((2, 3), ((0.7, 0.3, 0.5), (1e-3, 1.0, 0.0))):
        query = fair_gradient(n, form, n_outputs, n_groups, parts, k=k)
        bound = query.sensitivity(relation)
        for _ in range(25):
            X, y = grid(3 * rng.normal(size=(n, 3))), rng.integers(0, classes, n)
            if rng.random() < 0.5:
                X = np.sign(X[:, :1]) * np.eye(3)[0]  # ties
            stratum = rng.integers(0, rng.integers(1, n_groups + 1), n)
            weights = rng.choice([0, 1, 3]) * rng.normal(size=(4, n_outputs))
            other = neighbour(rng, X, y, stratum, relation, classes, n_groups)
            change = query.of_rows(rows_of(X, y, stratum), weights)
            change = change - query.of_rows(rows_of(*other), weights)
            assert np.linalg.norm(change) <= bound
            largest = max(largest, np.linalg.norm(change) / bound)
    # The worst tables are no random ones: see test_bounds.
    assert largest > 0.2


@pytest.mark.parametrize("form", ["pairs", "barycenter"])
def test_the_parts_of_fair_gradients_are_what_they_say(form):
    rng = np.random.default_rng(9)
    n = 200
    X, y = grid(rng.normal(size=(n, 3))), rng.integers(0, 2, n)
    stratum = rng.integers(0, 2, n)
    weights = rng.normal(size=(4, 1))
    Z = np.column_stack([X, np.full(n, 0.25)])
    query = fair_gradient(n, form)
    released = query.of_rows(rows_of(X, y, stratum), weights)
    assert released.shape == (4, 4) and query.n_coordinates == 16
    loss, pull, slopes = query.parts(released)
    plain = LossGradient(query.geometry, float(n), np.ones(2))
    expected = plain.of_rows(rows_of(X, y, stratum), weights)
    assert_allclose(loss, expected, atol=1e-5)

    def outputs(w):
        return linked(Z @ w)

    def value(w):
        found = query.penalty.value_and_slopes(outputs(w), stratum, 0, 1)
        return [found[0], *(outputs(w)[stratum == a].sum() / n for a in (0, 1))]

    for j in range(4):
        step = 1e-5 * np.eye(4)[j]
        up, down = value(weights[:, 0] + step), value(weights[:, 0] - step)
        expected = np.subtract(up, down) / 2e-5
        assert_allclose([pull[j, 0], *slopes[j]], expected, atol=1e-5)
    without = replace(query, multiples=(0.3, 0.7, 0.0))
    assert without.n_coordinates == 8 and not without.n_strata
    fewer = without.of_rows(rows_of(X, y, stratum), weights)
    assert_array_equal(fewer, released[:, :2])
    assert without.parts(fewer)[2].shape == (4, 0)


@pytest.mark.parametrize("relation, n_records", [("replace_one", 2), ("add_remove", 1)])
def test_sensitivity_of_the_parts(relation, n_records):
    query = fair_gradient(10, "barycenter", 3, 2, (0.3, 0.7, 0.5))
    R = math.hypot(1.0, 0.25)
    parts = (
        n_records * 0.5 * math.sqrt(2) * R / 10,
        4 * 4 / 6 * R / 10 / math.sqrt(3),
        n_records / 6 * math.sqrt(3) * R / 10,
    )
    assert_allclose(query.sensitivities(relation), parts, rtol=2e-5)
    total = math.hypot(*np.multiply(parts, (0.3, 0.7, 0.5)))
    assert 1.0 <= query.sensitivity(relation) / total < 1.0002


def test_projection_directions_have_product_norm_one():
    directions = projection_directions(np.random.default_rng(0).normal(size=(4, 30)))
    product_norm = np.abs(directions).sum(axis=0) * np.linalg.norm(directions, axis=0)
    assert (product_norm <= 1).all() and (product_norm > 1 - 1e-4).all()


# ------------------------------------------------------------------------ black box


@pytest.mark.parametrize("name", ["loss", "moments"])
def test_releases_have_the_claimed_mu(name):
    """Real sums, real noise, the worst pair of tables."""
    n, mu = 6, 1.0
    X, y = np.tile(np.eye(2)[0], (n, 1)), np.zeros(n, dtype=np.int64)
    tables = [(X, y), (X.copy(), y.copy())]
    if name == "loss":
        query, tables[1][1][0] = loss_gradient(n, 2), 1
    else:
        query, tables[1][0][0] = SecondMoments(geometry(2), float(n)), np.eye(2)[1]
    both = [rows_of(*table) for table in tables]
    audited = audit_of_releases(query, both, np.zeros((3, 1)), mu, 600)
    assert 0.6 * mu < audited <= mu


# --------------------------------------------------------------------------- replay

LABELLED = {"classes": [0, 1], "random_state": 0}
GROUPED = {**LABELLED, "groups": [0, 1], "max_iter": 3}
FITS = {
    "moments": (DPLinearRegression, {"solver": "moments"}),
    "gradients": (DPLinearRegression, {"solver": "gradients", "max_iter": 3}),
    "parameters": (DPOutputPerturbationLogisticRegression, LABELLED),
    "barycenter": (DPWassersteinLogisticRegression, GROUPED),
    "pairs": (DPWassersteinLogisticRegression, {**GROUPED, "penalty": "pairs"}),
    "odds": (
        DPWassersteinLogisticRegression,
        {**GROUPED, "constraint": "equalized_odds"},
    ),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", FITS)
def test_replay_of_whole_fits(name, relation):
    """Neighbours differ by nothing but released values, by at most what is claimed."""
    kind, params = FITS[name]
    rng, n = np.random.default_rng(10), 12

    def fit(X, y, groups, replay=None):
        model = kind(epsilon=20.0, neighboring=relation, **params)
        if kind is DPLinearRegression:
            model.set_params(target_bounds=(0, 1), random_state=0)
        grouped = "groups" in params
        with recording(replay) as seen:
            model.fit(X, y, **({"sensitive_features": groups} if grouped else {}))
        return model, seen.crossings, seen

    for case in range(8):
        X = 3 * rng.normal(size=(n, 2))
        if case % 3 == 0:
            X[:] = X[0]
        y, groups = rng.integers(0, 2, n), rng.integers(0, 1 + case % 2 + 1, n) % 2
        other = neighbour(rng, X, y, groups, relation, 2, 2)
        if case == 5 and relation == "replace_one":
            other[0][0] = 1e300
        model, exact, seen = fit(X, y, groups)
        twin, changed, _ = fit(*other, replay=seen)
        assert len(exact) == len(changed)
        for one, two in zip(exact, changed, strict=True):
            assert one.sensitivity == two.sensitivity
            change = np.linalg.norm((one.exact - two.exact).astype(float))
            assert change <= one.sensitivity
        assert_array_equal(model.coef_, twin.coef_)
        assert_array_equal(model.intercept_, twin.intercept_)
        assert str(model.privacy_) == str(twin.privacy_)
        assert vars(model).keys() == vars(twin).keys()
