"""What one record can change: the linear models' queries in floating point."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad

from fairpriv_sklearn._shared.exact_transport import grid_codes
from fairpriv_sklearn._training._design import (
    UNIT,
    Design,
    FeatureScaling,
    default_data_norm,
    exact_weights,
    from_units,
    to_units,
)
from fairpriv_sklearn._training._penalty import (
    ROUNDING,
    GroupPenalty,
    WassersteinPenalty,
    unit_range_directions,
)
from fairpriv_sklearn._wall import Rows
from fairpriv_sklearn.linear_model._gradient_plan import Strata
from fairpriv_sklearn.linear_model._minimiser import (
    TOLERANCE,
    RegularisedLogistic,
    parameter_sensitivity,
    rounding_bound,
)
from fairpriv_sklearn.linear_model._moments import MomentRelease
from fairpriv_sklearn.linear_model._objective import FairLogisticLoss
from fairpriv_sklearn.linear_model._queries import Geometry

MANY = settings(max_examples=60)
finite = st.floats(allow_nan=False, allow_infinity=False)


def scaling(n_features, data_norm=1.5, bounded=True, fit_intercept=True):
    ones = np.ones(n_features)
    low, high = (-ones, ones) if bounded else (None, None)
    return FeatureScaling(low, high, data_norm, fit_intercept)


# ---------------------------------------------------------------- rows on the grid


@given(
    X=arrays(
        np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=finite
    ),
    data_norm=st.floats(1e-3, 1e9),
    bounded=st.booleans(),
)
@MANY
def test_rows_are_on_the_grid_and_never_too_long(X, data_norm, bounded):
    design = scaling(X.shape[1], data_norm, bounded).design(X)
    features = design.rows[:, :-1]
    assert_array_equal(design.rows[:, -1], 1.0)
    assert_array_equal(features, np.rint(features / UNIT) * UNIT)
    assert np.abs(features).max() <= 1
    for row in features:
        square = sum(Fraction(x) ** 2 for x in row.tolist())
        unit = Fraction(scaling(X.shape[1], data_norm, bounded).unit)
        assert square * unit**2 <= Fraction(data_norm) ** 2


@given(
    X=arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 4)),
        elements=st.floats(-3, 3) | st.just(0.0),
    ),
    bounded=st.booleans(),
    exact=st.booleans(),
)
@MANY
def test_sparse_rows_equal_dense_rows(X, bounded, exact):
    dense = scaling(X.shape[1], 1.1, bounded).design(X, exact=exact)
    thin = scaling(X.shape[1], 1.1, bounded).design(sparse.csr_array(X), exact=exact)
    assert_allclose(thin.rows.toarray(), dense.rows, rtol=1e-12, atol=UNIT * exact)


def test_a_row_does_not_depend_on_its_company_or_layout():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 17))
    want = scaling(17).design(X[:1].copy()).rows[0]
    for table in (X, np.asfortranarray(X), X[::1, :], np.repeat(X, 2, axis=1)[:, ::2]):
        assert_array_equal(scaling(17).design(table).rows[0], want)
    shuffled = np.roll(X, 777, axis=0)
    assert_array_equal(scaling(17).design(shuffled).rows[777], want)
    thin = sparse.csr_array(X)
    assert_array_equal(
        scaling(17).design(thin).rows[[5]].toarray(),
        scaling(17).design(thin[[5]]).rows.toarray(),
    )


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("d", [3, 9_000])
def test_a_row_is_scaled_alike_alone(d, exact, bounded):
    """Also where only two rows are scaled together, and one of them is no number."""
    rng = np.random.default_rng(0)
    n = 40_000 // d + 5
    X = rng.normal(size=(n, d)) * rng.choice([1e-3, 1.0, 1e200], size=(n, 1))
    X[1, 0], X[2, 1], X[3, -1] = np.nan, np.inf, -np.inf
    low, high = (np.full(d, -1.0), np.full(d, 2.0)) if bounded else (None, None)
    scaling = FeatureScaling(low, high, 0.7)
    rows = scaling.design(X, exact=exact).rows
    alone = [scaling.design(row[None], exact=exact).rows[0] for row in X]
    assert_array_equal(rows, alone)
    assert not rows[1, :d].any()
    norms = np.sqrt(np.square(rows[:, :d]).sum(axis=1))
    assert (norms <= 0.7).all() and norms.max() > 0.69


def test_bounds_centre_and_scale():
    scaled = FeatureScaling(np.array([0.0, 2.0]), np.array([10.0, 2.0]), 1.0, True)
    rows = scaled.design(np.array([[0.0, 2.0], [7.5, 5.0], [99.0, -1.0]])).rows
    assert_allclose(rows, [[-1, 0, 1], [0.5, 0, 1], [1, 0, 1]], atol=2 * UNIT)
    coef, intercept = scaled.coefficients(np.array([[2.0], [0.0], [1.0]]))
    assert_allclose(coef, [[0.4, 0.0]])
    assert_allclose(intercept, [-1.0])


@given(
    low=st.floats(-1e300, 1e300),
    steps=st.integers(1, 9),
    part=st.floats(0.0, 1.0),
)
@MANY
def test_features_between_bounds_that_are_floating_point_neighbours(low, steps, part):
    """Their centre is rounded; sums are exact if no coordinate is beyond the unit."""
    high = low
    for _ in range(steps):
        high = np.nextafter(high, np.inf)
    scaled = FeatureScaling(np.array([low]), np.array([high]), 1.0, False)
    values = np.array([[low], [low + part * (high - low)], [high], [-1e308], [1e308]])
    with np.errstate(all="ignore"):
        rows = (np.clip(values, low, high) - scaled.center) / scaled.half_width
    assert np.abs(rows).max() <= 1.0


def test_default_data_norm_keeps_uniform_rows():
    rng = np.random.default_rng(0)
    for d in (1, 2, 5, 30, 200):
        norms = np.linalg.norm(rng.uniform(-1, 1, size=(4000, d)), axis=1)
        assert (norms > default_data_norm(d)).mean() < 0.06
        assert default_data_norm(d) <= math.sqrt(d)


# ------------------------------------------------------------------- exact products


def integers(values, bits=20):
    """Multiples of 2**-bits as Python integers."""
    scaled = np.asarray(values) * 2.0**bits
    assert (scaled == np.rint(scaled)).all()
    return scaled.astype(np.int64).astype(object)


def exact_sums(design, coefficients):
    scored = design.scored(np.zeros(design.shape[1]))
    blocks = ((rows, coefficients[part]) for part, rows, _ in scored)
    return design.added_exactly(blocks, coefficients.shape[1:])


@given(seed=st.integers(0, 10**6), d=st.integers(1, 40))
@MANY
def test_sums_are_exact(seed, d):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12_000 // d + 2))
    design = scaling(d, math.sqrt(d)).design(np.sign(rng.normal(size=(n, d))))
    coefficients = rng.choice([1.0, -1.0, 0.3, -(2.0**-21), 1 - 2.0**-30], size=n)
    rounded = np.rint(coefficients * 2.0**40)
    want = integers(design.rows).T @ rounded.astype(np.int64).astype(object)
    got = exact_sums(design, coefficients)
    # Rounded once at the end: relative error of a float.
    for exact, computed in zip(want.tolist(), got.tolist(), strict=True):
        assert abs(Fraction(computed) - Fraction(exact, 2**60)) <= abs(
            Fraction(exact, 2**60)
        ) * Fraction(1, 2**51) + Fraction(1, 2**80)


def test_units_of_many_large_blocks_add_up():
    block = np.array([2.0**12, 2.0**-40 - 2.0**12])
    assert_array_equal(from_units(5000 * to_units(block)), 5000 * block)


@given(seed=st.integers(0, 10**6), size=st.floats(1e-6, 1e12))
@MANY
def test_scores_are_exact_in_every_order(seed, size):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 60))
    rows = scaling(d, 2.0, fit_intercept=False).design(rng.normal(size=(300, d))).rows
    weights = rng.normal(size=(d + 1, 1)) * size
    order, columns = rng.permutation(300), rng.permutation(d)
    shape = Geometry(d, 1, 1.0, 2.0, 0.5)
    want = shape.scores(rows, weights)
    shuffled = shape.scores(rows[order][:, columns], weights[[*columns, d]])
    assert_array_equal(shuffled, want[order])
    assert_array_equal(shape.scores(sparse.csr_array(rows), weights), want)
    exact = rows @ weights[:d] + weights[d] / 2
    assert_allclose(want, exact, rtol=1e-6, atol=size * 1e-7)
    rounded = exact_weights(weights[:d], 2.0)[:, 0]
    exact = sum(
        Fraction(x) * Fraction(w)
        for x, w in zip(rows[7].tolist(), rounded.tolist(), strict=True)
    )
    assert (
        Fraction(float(shape.scores(rows, np.append(weights[:d], [[0]], 0))[7, 0]))
        == exact
    )


def test_float32_rows_give_the_same_sums():
    X = (np.random.default_rng(0).integers(-64, 64, size=(500, 5)) / 64).astype("f4")
    c = np.linspace(-1, 1, 500)
    assert scaling(5).design(X).rows.dtype == np.float32
    assert_array_equal(
        exact_sums(scaling(5, 9.0).design(X), c),
        exact_sums(scaling(5, 9.0).design(X.astype(np.float64)), c),
    )


@given(
    X=arrays(
        np.float32,
        st.tuples(st.integers(0, 6), st.integers(1, 4)),
        elements=st.floats(width=32)
        | st.sampled_from([1.0, -1.0, 0.5, np.float32(0.7), 1 - 2**-24, 2**-21]),
    ),
    data_norm=st.sampled_from([1.0, 0.7, 0.5, 2.0, 1e-3]),
    fit_intercept=st.booleans(),
    ends=st.sampled_from([(None, None), (-0.5, 1.0)]),
)
@MANY
def test_float32_rows_become_those_of_float64(X, data_norm, fit_intercept, ends):
    low, high = (end and np.full(X.shape[1], end) for end in ends)
    scale = FeatureScaling(low, high, data_norm, fit_intercept)
    narrow, wide = scale.design(X), scale.design(X.astype(np.float64))
    assert_array_equal(narrow.rows, wide.rows)
    assert narrow.rows.dtype == np.float32


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("d", [3, 240])
def test_float32_rows_near_the_bound_become_those_of_float64(d, order):
    rng = np.random.default_rng(0)
    scale = FeatureScaling(None, None, 1.0, fit_intercept=True, intercept=0.3)
    # Truncation shortens a row by a few units: some are just within the bound.
    for off in (-1e-2, *np.linspace(-1e-6, 3e-5, 63), 1e-2):
        X = rng.normal(size=(300, d))
        X *= (1 + off) / np.linalg.norm(X, axis=1)[:, None]
        X[5] = 0.0, *[np.nan] * (d - 1)
        X = np.array(X, dtype=np.float32, order=order)
        wide = scale.design(X.astype(np.float64)).rows
        assert_array_equal(scale.design(X).rows, wide)
        assert np.linalg.norm(wide[:, :-1], axis=1).max() <= 1.0


# ------------------------------------------------------ the objective without noise


@pytest.mark.parametrize("odds", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_gradient_is_the_derivative_of_the_objective(odds, n_classes, alpha):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, n_classes, size=40)
    groups = rng.integers(0, 3, size=40)
    shape = (n_classes if odds else 1, 3)
    cell = (y if odds else 0 * y) * 3 + groups
    min_sizes = np.bincount(cell, minlength=math.prod(shape)).reshape(shape) + 2
    directions = None
    if n_classes > 2:
        directions = unit_range_directions(rng.normal(size=(n_classes, 4)))
    design = scaling(3).design(X, exact=False)
    targets = y.astype(float) if directions is None else np.eye(n_classes)[y]
    penalty = WassersteinPenalty(cell, min_sizes, directions)
    weights = rng.uniform(0.5, 1, size=40) / 40
    loss = FairLogisticLoss(design, targets, weights, alpha, penalty)
    start = rng.normal(size=(4, n_classes) if n_classes > 2 else 4)

    def value(w):
        return loss.value_and_gradient(w.reshape(start.shape))[0]

    def gradient(w):
        return loss.value_and_gradient(w.reshape(start.shape))[1].ravel()

    assert check_grad(value, gradient, start.ravel()) < 2e-6


def brute_force_penalty(u, groups, min_sizes):
    """Mean squared W2 over pairs of padded groups, by quantiles on a fine grid."""
    samples = []
    for a, floor in enumerate(min_sizes):
        own = u[groups == a]
        samples.append(np.r_[own, np.full(max(0, floor - len(own)), 0.5)])
    levels = (np.arange(5040) + 0.5) / 5040
    quantiles = [np.quantile(s, levels, method="inverted_cdf") for s in samples]
    pairs = [(a, b) for a in range(len(min_sizes)) for b in range(a)]
    return np.mean([np.mean((quantiles[a] - quantiles[b]) ** 2) for a, b in pairs])


def test_small_groups_are_filled_with_dummies_at_the_midpoint():
    rng = np.random.default_rng(1)
    u, groups = rng.uniform(size=12), np.r_[np.zeros(7), np.ones(5)].astype(int)
    min_sizes = np.array([[7, 9, 4]])  # the third group is empty
    penalty = WassersteinPenalty(groups, min_sizes)
    value, slopes = penalty.slopes(u, 0.0, 1.0)
    assert_allclose(value, brute_force_penalty(u, groups, min_sizes[0]), rtol=1e-9)
    step = 1e-6
    for i in range(12):
        moved = [u + step * s * (np.arange(12) == i) for s in (1, -1)]
        values = [penalty.slopes(v, 0.0, 1.0)[0] for v in moved]
        assert_allclose(slopes[i], (values[0] - values[1]) / (2 * step), atol=1e-6)


def penalty_gradient(u, a, groups, min_sizes):
    """Gradient of the penalty for any outputs u and any output gradients a."""
    penalty = WassersteinPenalty(groups, min_sizes)
    _, slopes = penalty.slopes(grid_codes(u, 0.0, 1.0, np.uint32), 0.0, 1.0)
    return slopes @ a


@pytest.mark.parametrize(
    "relation, sizes, min_sizes, reached",
    [
        ("replace_one_in_group", (5, 8), (5, 8), 0.999),  # Theorem 2 is tight
        ("replace_one", (6, 5), (5, 6), 0.75),
        ("replace_one", (4, 3), (7, 5), 0.45),  # both below their min_sizes
        ("add_remove", (6, 5), (5, 5), 0.83),  # B / 6, as Theorem 3 says
        ("add_remove", (3, 5), (5, 5), 0.7),
        ("add_remove", (1, 4), (1, 4), 0.7),  # a group of one record
    ],
)
def test_penalty_bound_is_reached_and_never_passed(relation, sizes, min_sizes, reached):
    """Theorems 2 and 3 on vertices: outputs 0, 1/2, 1 and gradients of length L."""
    rng = np.random.default_rng(4)
    L, min_sizes = 1.0, np.array([min_sizes])
    bound = 4 * L / min_sizes.ravel()  # B / m_a with B = 4 D L
    bound = bound.sum() if relation == "replace_one" else bound.max()
    groups = np.repeat([0, 1], sizes)
    n, largest = len(groups), 0.0
    for _ in range(3000):
        level = rng.choice([0.0, 0.5, 1.0], size=2)
        u = np.where(rng.uniform(size=n) < 0.8, level[groups], rng.choice([0, 1.0], n))
        a = np.where(rng.uniform(size=n) < 0.8, 1.0, -1.0) * (1 - 2 * groups)
        a = L * a if rng.uniform() < 0.8 else L * rng.choice([-1.0, 1.0], n)
        i = rng.integers(n)
        before = penalty_gradient(u, a, groups, min_sizes)
        if relation == "add_remove":
            keep = np.arange(n) != i
            after = penalty_gradient(u[keep], a[keep], groups[keep], min_sizes)
        else:
            v, b, other = u.copy(), a.copy(), groups.copy()
            v[i], b[i] = rng.choice([0.0, 1.0]), L * rng.choice([-1.0, 1.0])
            if relation == "replace_one":
                other[i] = 1 - groups[i]
            after = penalty_gradient(v, b, other, min_sizes)
        largest = max(largest, abs(before - after))
    assert largest <= bound * (1 + ROUNDING)
    assert largest >= reached * bound


def test_logistic_penalty_stays_below_its_bound():
    """Output and derivative are coupled, p and p (1 - p), so R / n is not attained.

    The family tried here, a record that turns its gradient round, reaches 0.59 R / n.
    """
    R, n, best = 1.0, 400, 0.0
    for high in np.linspace(0.5, 0.95, 19):
        # All others of the group at `high`, the other group at 0.
        u = np.r_[np.full(n, high), np.zeros(n)]
        groups = np.repeat([0, 1], n)
        slope = u * (1 - u) * R
        for own in np.linspace(0.5, 0.95, 19):
            w, s = u.copy(), slope.copy()
            w[0], s[0] = own, -own * (1 - own) * R
            v, t = u.copy(), slope.copy()
            v[0], t[0] = own, own * (1 - own) * R
            min_sizes = np.array([[n, n]])
            change = abs(
                penalty_gradient(w, s, groups, min_sizes)
                - penalty_gradient(v, t, groups, min_sizes)
            )
            best = max(best, change * n)
    penalty = GroupPenalty((1, 2), "pairs", min_sizes)
    bound = n * penalty.sensitivity(R / 4, "replace_one_in_group")
    assert bound == pytest.approx(R)
    assert 0.58 * bound < best <= bound


def test_directions_have_range_at_most_one_and_ignore_constants():
    directions = unit_range_directions(np.random.default_rng(0).normal(size=(5, 50)))
    ranges = np.ptp(directions, axis=0)
    assert (ranges <= 1).all() and (ranges > 1 - 1e-5).all()
    assert_allclose(directions.sum(axis=0), 0, atol=5 * UNIT)


# ------------------------------------------------------------- moments and parameters


def sums(query, design, targets):
    targets = np.trunc(targets / UNIT) * UNIT
    return query.of_rows(Rows(len(targets), x=design.rows, y=targets), None)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_moment_bound_is_reached_and_never_passed(relation):
    rng = np.random.default_rng(5)
    d, rho, largest = 2, 1.3, 0.0
    scaled = scaling(d, rho, fit_intercept=False)
    release = MomentRelease(d, rho, 1.0, counted=relation == "add_remove")
    bound = release.sensitivity(relation)
    angles = np.linspace(0, 2 * np.pi, 41)
    for angle in angles:
        for y in (-1.0, 1.0, rng.uniform(-1, 1)):
            X = np.array([[0.2, 0.1], [rho, 0.0]])
            target = np.array([0.3, 1.0])
            first = sums(release, scaled.design(X / [1, 1]), target)
            other = X.copy()
            other[1] = rho * np.array([np.cos(angle), np.sin(angle)])
            if relation == "add_remove":
                second = sums(release, scaled.design(other[:1]), target[:1])
            else:
                second = sums(release, scaled.design(other), np.array([0.3, y]))
            largest = max(largest, np.linalg.norm(first - second))
    assert largest <= bound
    # Coordinates are bounded by 1 here, so that the norm 1.3 lies on diagonals only.
    assert largest >= 0.8 * bound


def test_moment_bound_is_tight_on_the_sphere():
    """s = 5/8 and opposite targets: the vertex of the parabola in the proof."""
    release = MomentRelease(2, 1.0, 1.0, counted=False)
    scaled = scaling(2, 1.0, fit_intercept=False)
    angle = np.arccos((release.emphasis**2 - 1) / 2)
    first = sums(release, scaled.design(np.array([[1.0, 0.0]])), np.array([1.0]))
    other = np.array([[np.cos(angle), np.sin(angle)]])
    second = sums(release, scaled.design(other), np.array([-1.0]))
    bound = release.sensitivity("replace_one")
    assert 0.999 * bound <= np.linalg.norm(first - second) <= bound
    counted = MomentRelease(2, 1.0, 1.0, counted=True)
    alone = sums(counted, scaled.design(np.array([[1.0, 0.0]])), np.array([1.0]))
    assert_allclose(np.linalg.norm(alone), counted.sensitivity("add_remove"), rtol=1e-5)


def test_moments_come_back_without_noise():
    rng = np.random.default_rng(6)
    X, y = rng.uniform(-1, 1, size=(300, 4)), rng.uniform(-1, 1, size=300)
    for counted in (False, True):
        release = MomentRelease(4, 2.0, 1.0, counted)
        design = scaling(4, 2.0, fit_intercept=False).design(X)
        moments = release.unpack(sums(release, design, y), None if counted else 300)
        u = X / 2.0
        assert moments.n_records == 300
        assert_allclose(moments.second, u.T @ u / 300, atol=1e-5)
        assert_allclose(moments.features, u.mean(axis=0), atol=1e-5)
        assert_allclose(moments.products, u.T @ y / 300, atol=1e-5)
        assert_allclose(moments.target, y.mean(), atol=1e-5)


def certified(X, y, C, n_classes=2, tolerance=1e-8):
    design = scaling(X.shape[1], 1.0, fit_intercept=False).design(X)
    targets = y.astype(float) if n_classes == 2 else np.eye(n_classes)[y]
    return RegularisedLogistic(design, targets, C).minimise(tolerance)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_parameters_of_neighbours_are_close(n_classes):
    rng = np.random.default_rng(7)
    for _ in range(60):
        n, C = int(rng.integers(1, 9)), 10.0 ** rng.uniform(-3, 2)
        X, y = np.sign(rng.normal(size=(n, 2))), rng.integers(0, n_classes, n)
        other, other_y = X.copy(), y.copy()
        other[0], other_y[0] = -X[0], rng.integers(n_classes)
        w = certified(X, y, C, n_classes)
        outputs = 1 if n_classes == 2 else n_classes
        for relation, table in (
            ("replace_one", (other, other_y)),
            ("add_remove", (X[1:], y[1:])),
        ):
            change = np.linalg.norm(w - certified(*table, C, n_classes))
            bound = parameter_sensitivity(1.0, outputs, C, 1e-8, relation)
            assert change <= bound


def test_parameter_bound_is_approached():
    """Many records make the weights large; one stray record then pulls its most."""
    n, C, along = 200_000, 0.05, 0.45
    across = math.sqrt(1 - along**2)
    X = np.tile([1.0, 0.0], (n, 1))
    X[0] = [-along, across]
    y = np.ones(n, dtype=int)
    other = X.copy()
    other[0] = [-along, -across]
    change = np.linalg.norm(
        certified(X, y, C, 2, 1e-5) - certified(other, y, C, 2, 1e-5)
    )
    bound = parameter_sensitivity(1.0, 1, C, 1e-5, "replace_one")
    assert 0.8 * bound < change <= bound


def test_certificate_bounds_the_distance_to_the_minimum():
    rng = np.random.default_rng(8)
    X, y, C = rng.normal(size=(200, 3)), rng.integers(0, 3, 200), 0.7
    design = scaling(3).design(X)
    problem = RegularisedLogistic(design, np.eye(3)[y], C)
    best = problem.minimise(1e-10)
    for tolerance in (10.0, 1.0, 1e-2, 1e-4):
        assert np.linalg.norm(problem.minimise(tolerance) - best) <= C * tolerance
    assert_allclose(best.sum(axis=1), 0, atol=1e-9)


@pytest.mark.parametrize("C", [1e-12, 1e-3, 1e3, 1e10])
def test_solver_ends_on_separable_and_extreme_tables(C):
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 1.0]])
    rounding = rounding_bound(3, 3, 1, 2.0, C)
    design = scaling(2).design(X)
    problem = RegularisedLogistic(design, np.array([1.0, 0.0, 1.0]), C)
    assert np.isfinite(problem.minimise(2e-4 + rounding)).all()


def test_a_useless_newton_direction_falls_back_to_gradient_steps(monkeypatch):
    rng = np.random.default_rng(9)
    design = scaling(2).design(rng.normal(size=(50, 2)))
    problem = RegularisedLogistic(design, rng.integers(0, 2, 50).astype(float), 0.1)
    want = problem.minimise(1e-6)
    monkeypatch.setattr(
        RegularisedLogistic, "_newton_direction", lambda self, p, gradient: gradient
    )
    assert_allclose(problem.minimise(1e-6), want, atol=1e-6)
    thin = Design(sparse.csr_array(design.rows), design.scale)
    thin_problem = RegularisedLogistic(thin, problem.targets, 0.1)
    assert_allclose(thin_problem.minimise(1e-6), want, atol=1e-6)


@given(
    n=st.integers(1, 10**7),
    d=st.integers(1, 10**4),
    C=st.floats(1e-6, 1e3),
)
@MANY
def test_rounding_bound_is_a_small_part_of_the_sensitivity(n, d, C):
    bound = rounding_bound(n, d, 1, 2.0, C)
    assert 0 < bound < 1e-1 * n * 2.0
    assert bound >= rounding_bound(max(1, n // 2), d, 1, 2.0, C)


def test_rounding_bound_is_of_all_points_where_the_gradient_is_small():
    # Of a record without features the minimum is 0, and the gradient at W is W / C.
    rng, C = np.random.default_rng(0), 1e12
    bound = rounding_bound(1, 3, 1, 1.0, C)
    for _ in range(200):
        row, weights = rng.normal(size=(2, 3))
        row = np.trunc(row / np.linalg.norm(row) * 2**20) / 2**20
        weights *= C * TOLERANCE / np.linalg.norm(weights)
        pairs = zip(row.tolist(), weights.tolist(), strict=True)
        exact = sum(Fraction(a) * Fraction(b) for a, b in pairs)
        assert abs(Fraction(float(row @ weights)) - exact) < bound


@pytest.mark.parametrize("batch_size", [3, 10, 40])
def test_no_record_of_a_batch_weighs_more_than_its_loss_is_divided_by(batch_size):
    # Rounding gives strata of a batch other shares than the table's.
    codes = np.repeat([0, 1, 2], [90, 7, 3])
    strata = Strata.proportional(codes, 3, batch_size)
    n_records = strata.batch_sizes((1, 3)).n_records
    assert (strata.weights() * n_records <= 1 + 1e-12).all()
    assert_allclose(strata.weights() * n_records, strata.stratum_weights())
    assert_allclose(strata.weights() @ strata.drawn, 1)  # the mean loss, without bias
