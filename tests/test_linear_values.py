"""What the linear models' queries compute and claim, against loops in plain numbers."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from _ends import approx
from numpy.testing import assert_allclose, assert_array_equal

from fairpriv_sklearn._training._design import FeatureScaling
from fairpriv_sklearn._training._penalty import ROUNDING, GroupPenalty
from fairpriv_sklearn._training._target import (
    RangeCounts,
    TargetCounts,
    _shortest_runs,
    bins_that_tell,
)
from fairpriv_sklearn._wall import Rows
from fairpriv_sklearn.linear_model._bounded_slope import (
    SLOPE,
    bounded_slopes,
    slopes_and_links,
)
from fairpriv_sklearn.linear_model._gradient_plan import constant_share
from fairpriv_sklearn.linear_model._minimiser import parameter_sensitivity
from fairpriv_sklearn.linear_model._moments import MomentRelease
from fairpriv_sklearn.linear_model._output_perturbation import Parameters
from fairpriv_sklearn.linear_model._queries import (
    AlongSlopes,
    FairGradient,
    Geometry,
    LossGradient,
    MeanResidual,
    ResidualGradient,
    SecondMoments,
)

N, D = 23, 3
BOTH = pytest.mark.parametrize(
    ("neighboring", "changed"), [("replace_one", 2), ("add_remove", 1)]
)


def table(constant=0.5, n_outputs=1):
    """Rows in storage, the same rows as numbers with their constant, and a geometry."""
    rng = np.random.default_rng(0)
    scaling = FeatureScaling(-np.ones(D), np.ones(D), 1.25, False)
    stored = scaling.design(rng.uniform(-1, 1, size=(N, D))).rows[:, :D]
    geometry = Geometry(D, n_outputs, 0.25, 1.25, constant)  # stored in quarters
    rows = np.asarray(stored) * 0.25
    if constant:
        rows = np.hstack([rows, np.full((N, 1), constant)])
    return rng, stored, rows, geometry


@pytest.mark.parametrize("constant", [0.0, 0.5, 2.0])
def test_second_moments_are_the_mean_square_of_the_rows(constant):
    _, stored, rows, geometry = table(constant)
    query = SecondMoments(geometry, 10.0)
    k = D + (constant > 0)
    assert query.n_coordinates == (6 if constant == 0 else 9)
    released = query.of_rows(Rows(N, x=stored), None)
    assert released.shape == (query.n_coordinates,)
    exact = sum(np.outer(row, row) for row in rows) / 10.0
    upper = np.triu_indices(D)
    expected = exact[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    if constant:
        expected = np.append(expected, math.sqrt(2) * exact[:D, D])
    assert_allclose(released, expected, atol=1e-6)
    known = exact.copy()
    if constant:
        known[D, D] = constant**2
    matrix = query.matrix(released)
    assert matrix.shape == (k, k)
    assert_allclose(matrix, known, atol=1e-6)


@BOTH
def test_sensitivities_of_the_linear_queries(neighboring, changed):
    *_, geometry = table(0.75, n_outputs=3)
    norm = math.hypot(1.25, 0.75)
    slope = SLOPE * math.sqrt(2) * norm
    for query, expected in (
        (SecondMoments(geometry, 7.0), math.sqrt(changed) * norm**2 / 7),
        (LossGradient(geometry, 7.0, np.ones(3)), changed * slope / 7),
        (ResidualGradient(geometry, 7.0, 1.75), changed * 1.75 * norm / 7),
        (MeanResidual(geometry, 7.0, -0.5, 1.75), (0, 1.75, 2.25)[changed] / 7),
        (MeanResidual(geometry, 7.0, -1.75, 0.5), (0, 1.75, 2.25)[changed] / 7),
        (
            AlongSlopes(
                LossGradient(geometry, 7.0, np.ones(3)), np.ones(3), np.ones(3)
            ),
            (2.0 if changed == 2 else math.sqrt(2.2)) / 7,
        ),
    ):
        found = query.sensitivity(neighboring)
        assert found == approx(expected * (1 + 1e-5), rel=1e-12)


@BOTH
@pytest.mark.parametrize("shared", [None, "directions"])
@pytest.mark.parametrize("multiples", [(1.0, 1.0, 0.0), (0.5, 3.0, 0.25)])
def test_sensitivities_of_a_fair_gradient(neighboring, changed, shared, multiples):
    *_, geometry = table(0.75, n_outputs=3)
    norm = math.hypot(1.25, 0.75)
    penalty = SimpleNamespace(
        sensitivity=lambda slope, relation: 7.0 * slope * changed,
        directions=shared,
        shape=(2, 4),
        max_records=99,
    )
    query = FairGradient(
        geometry, 7.0, np.ones(3), None, multiples=multiples, penalty=penalty
    )
    loss = changed * 0.5 * math.sqrt(2) * norm / 7 * (1 + 1e-5)
    pull = 7.0 * norm / 6 * changed / (1 if shared else math.sqrt(3))
    slopes = changed * math.sqrt(3) * norm / 6 / 7
    expected = (loss, pull, slopes)
    assert query.sensitivities(neighboring) == approx(expected, rel=1e-12)
    together = math.hypot(*(a * b for a, b in zip(multiples, expected, strict=True)))
    found = query.sensitivity(neighboring)
    assert together < found and found == approx(together * (1 + ROUNDING), rel=1e-12)
    n_strata = 8 if multiples[2] else 0
    assert query.n_strata == n_strata and query.max_rows == 99
    assert query.n_coordinates == (2 + n_strata) * (D + 1) * 3
    released = np.arange(float(query.n_coordinates)).reshape(D + 1, -1)
    of_loss, of_penalty, of_slopes = query.parts(released)
    assert_allclose(of_loss, released[:, :3] / multiples[0])
    assert_allclose(of_penalty, released[:, 3:6] / multiples[1])
    assert_allclose(of_slopes, released[:, 6:] / (multiples[2] or 1.0))
    assert (query._n_alone, query._n_sums) == ((27, 36) if multiples[2] else (3, 12))


@pytest.mark.parametrize("n_groups, columns", [(2, 5), (3, 6), (4, 8), (5, 8), (6, 12)])
def test_a_fair_gradient_is_its_three_sums(n_groups, columns):
    rng, stored, rows, geometry = table(0.5)
    y, strata = rng.integers(0, 2, N), rng.integers(0, n_groups, N)
    sizes = np.ones((1, n_groups), dtype=np.int64)
    penalty = GroupPenalty((1, n_groups), "barycenter", sizes, float(N))
    multiples = (0.5, 2.0, 0.25)
    query = FairGradient(geometry, float(N), np.ones(2), None, multiples, penalty)
    assert (query._n_alone, query._n_sums) == (1 + n_groups, columns)
    weights = rng.normal(size=(rows.shape[1], 1))
    losses, outputs, slopes = slopes_and_links(rows @ weights, y[:, None] == 1)
    of_strata = slopes * (strata[:, None] == np.arange(n_groups))
    pulls = penalty.pulls(penalty.codes(outputs), strata) * slopes
    released = query.of_rows(Rows(N, x=stored, y=y, stratum=strata), weights)
    loss, pull, told = query.parts(released)
    assert_allclose(loss, rows.T @ losses / N, atol=2e-6)
    assert_allclose(told, rows.T @ of_strata / N, atol=2e-6)
    # The digits of the penalty go to 2**-40 of its unit.
    assert_allclose(pull, rows.T @ pulls, rtol=0, atol=1e-11)
    bare = replace(query, multiples=(1.0, 1.0, 0.0))
    assert [part.shape[1] for part in bare.parts(released[:, :2])] == [1, 1, 0]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_coefficients_of_a_fair_gradient_stand_side_by_side(n_outputs):
    """Loss, slopes in the place of the record's stratum, both digits, then nothing."""

    class Plain(FairGradient):
        def _digits(self, pulls, first, second):
            first[...], second[...] = 7.0, 9.0

    rng, _, _, geometry = table(0.5, n_outputs)
    penalty, k = SimpleNamespace(shape=(1, 2)), n_outputs
    query = Plain(geometry, 7.0, np.ones(3), None, (1.0, 1.0, 1.0), penalty)
    loss, slopes = rng.integers(-9, 9, (2, N, k)).astype(float)
    stratum = rng.integers(0, 2, N)
    found = query._side_by_side(loss, slopes * 2.0**-20, stratum, np.ones((N, k)))
    for own, one, slope, row in zip(stratum, loss, slopes, found, strict=True):
        nothing = [0.0] * k
        told = [nothing, slope] if own else [slope, nothing]
        used = np.concatenate([one, *told, [7.0] * k, [9.0] * k])
        assert_array_equal(row, np.append(used, np.zeros(row.size - used.size)))


def test_scores_of_a_long_block_are_those_of_its_parts():
    rng, geometry = np.random.default_rng(0), Geometry(300, 1, 1.0, 20.0, 0.5)
    rows = rng.integers(-(2**20), 2**20, size=(1500, 300)) * 2.0**-20
    penalty = SimpleNamespace(shape=(1, 2))
    query = FairGradient(geometry, 9.0, np.ones(2), penalty=penalty)
    scores = geometry.scores_by(rng.normal(size=(301, 1)))
    for n in (0, 1, 700, 1500):  # 873 are a part
        assert_array_equal(query._scores(scores, rows[:n]), scores(rows[:n]))


@pytest.mark.parametrize("told, in_pulls", [(0.0, 1.0), (0.25, 0.5), (0.5, 1.0)])
def test_noise_of_loss_and_penalty_together(told, in_pulls):
    *_, geometry = table(0.75)
    strata = 2 if told == 0.25 else 5
    penalty = SimpleNamespace(shape=(1, strata))
    bare = FairGradient(geometry, 7.0, np.ones(2), penalty=penalty)
    assert bare.multiples == (1.0, 1.0, 0.0) and bare.n_coordinates == 2 * (D + 1)
    query = FairGradient(geometry, 7.0, np.ones(2), None, (0.5, 3.0, told), penalty)
    expected = math.hypot(0.75 / 0.5, 0.25 / 3 * math.sqrt(in_pulls))
    assert D + 1 == 4 and query.relative_noise(0.25) == approx(expected, rel=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.5])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_gradient_is_the_sum_of_slopes_times_rows(constant, n_outputs):
    rng, stored, rows, geometry = table(constant, n_outputs)
    y = rng.integers(0, max(2, n_outputs), N)
    strata = rng.integers(0, 2, N)
    weights = rng.normal(size=(rows.shape[1], n_outputs))
    class_weights = np.array([0.25, 0.75, 0.5])[: max(2, n_outputs)]
    stratum_weights = np.array([1.0, 0.125])
    given = Rows(N, x=stored, y=y, stratum=strata)
    for of_strata in (None, stratum_weights):
        query = LossGradient(geometry, 9.0, class_weights, of_strata)
        assert query.n_coordinates == rows.shape[1] * n_outputs
        expected = np.zeros_like(weights)
        for row, label, stratum in zip(rows, y, strata, strict=True):
            own = (label == np.arange(n_outputs)) if n_outputs > 1 else [label == 1]
            slopes = bounded_slopes((row @ weights)[None], np.array([own]))[0]
            slopes = slopes * class_weights[label]
            if of_strata is not None:
                slopes = slopes * of_strata[stratum]
            if n_outputs > 2:
                slopes = slopes * min(1.0, math.sqrt(0.5) / np.linalg.norm(slopes))
            expected += np.outer(row, slopes) / 9.0
        assert_allclose(query.of_rows(given, weights), expected, atol=1e-5)


def test_residuals_are_cut_off_and_so_are_targets():
    rng, stored, rows, geometry = table()
    y = rng.uniform(-1, 1, N)
    weights = rng.normal(size=(D + 1, 1))
    given = Rows(N, x=stored, y=y)
    settings = {"largest": 0.8, "center": 0.25, "width": 0.5}
    target = np.clip((y - 0.25) / 0.5, -1.0, 1.0)
    residuals = np.clip(rows @ weights[:, 0] - target, -0.8, 0.8)
    assert 0 < (np.abs(residuals) == 0.8).sum() < N and (np.abs(target) == 1.0).any()
    query = ResidualGradient(geometry, 9.0, **settings)
    assert query.n_coordinates == D + 1
    expected = (residuals @ rows / 9.0)[:, None]
    assert_allclose(query.of_rows(given, weights), expected, atol=1e-5)
    level = MeanResidual(geometry, 9.0, -0.6, 0.9, center=0.25, width=0.5)
    weights = 3 * weights
    target = np.clip((y - 0.25) / 0.5, -0.6, 0.9)
    off = np.clip(rows @ weights[:, 0] - target, -0.9, 0.6)
    assert {-0.6, 0.9} < {*target} and off.min() == -0.9
    assert_allclose(level.of_rows(given, weights), [off.sum() / 9.0], atol=1e-5)
    tiny = Rows(1, x=stored[:1], y=np.array([0.25 + 1e-8]))
    assert level.of_rows(tiny, 0 * weights)[0] == 0.0  # rounded towards zero
    plain = ResidualGradient(geometry, 9.0, 0.8)
    residuals = np.clip(rows @ weights[:, 0] - y, -0.8, 0.8)
    expected = (residuals @ rows / 9.0)[:, None]
    assert_allclose(plain.of_rows(given, weights), expected, atol=1e-5)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_along_slopes_a_loss_falls_and_bends(n_outputs):
    """Both numbers, of every output, record by record; and in units of the slopes."""
    rng, stored, rows, geometry = table(0.75, n_outputs)
    y = rng.integers(0, max(2, n_outputs), N)
    stratum = np.zeros(N, dtype=np.int64)
    weights, start = rng.normal(size=(D + 1, n_outputs)), rng.normal(size=n_outputs)
    bounds, steps = np.full(n_outputs, 0.6), np.full(n_outputs, 1.5)
    class_weights = np.array([0.25, 0.75, 0.5])[: max(2, n_outputs)]
    loss = LossGradient(geometry, 9.0, class_weights)
    query = AlongSlopes(loss, bounds, steps)
    falls, bends = np.zeros(n_outputs), np.zeros(n_outputs)
    for row, label in zip(rows, y, strict=True):
        own = (label == np.arange(n_outputs)) if n_outputs > 1 else [label == 1]
        score = row @ weights
        slope, there = (
            bounded_slopes(one[None], np.array([own]))[0] * class_weights[label]
            for one in (start, start + 1.5 * score)
        )
        weight = np.clip(score, -0.6, 0.6)
        falls -= slope * weight / 9.0
        # A change by more than a quarter of the step at two bounds is not counted.
        change = np.clip((there - slope) * np.sign(score), 0.0, 0.25 * 1.5 * 1.2)
        bends += change * np.abs(weight) / 1.5 / 9.0
    assert query.n_coordinates == 2 * n_outputs
    released = query.of_rows(Rows(N, x=stored, y=y, stratum=stratum), (weights, start))
    told = query.told(released, 0.125)
    assert_allclose(told[0], falls, atol=1e-5)
    assert_allclose(told[1], bends, atol=1e-5)
    # Noise of what is released, in the same units.
    again = query.told(released + 0.125, 0.0)
    assert_allclose(told[0] - again[0], told[2], rtol=1e-9)
    assert_allclose(again[1] - told[1], told[3], rtol=1e-9)


@BOTH
@pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers"])
def test_one_record_reaches_the_sensitivity_of_a_line_search(
    neighboring, changed, kind
):
    """In both of its numbers, of every output; scores far out count no more than near.

    The loss of the first record is as steep as can be, and half as steep at the step,
    that of the second is steep upwards, there and at the start.
    """
    k = 3 if kind == "three classes" else 1
    geometry = Geometry(k, k, 1.0, 4.0, 0.0)
    if kind == "numbers":
        loss = ResidualGradient(geometry, 1.0, 0.5)
        y, score, bound = (0.5, -0.5), 0.5, 0.2
    else:
        loss = LossGradient(geometry, 1.0, np.ones(max(k, 2)))
        y, score, bound = (1, 0 if k == 1 else 1), 1.2, 0.5
    query = AlongSlopes(loss, np.full(k, bound), np.ones(k))
    signs = np.where(np.arange(k) == 1, 1.0, -1.0) if k > 1 else np.ones(1)
    # With one output both scores go up; of classes the second goes the other way.
    signs = (signs, -signs if k > 1 else signs)
    state = (score * np.eye(k), np.zeros(k))
    for far in (1.0, 3.0):
        both = [
            query.of_rows(
                Rows(
                    1,
                    x=far * sign[None],
                    y=np.array([label]),
                    stratum=np.zeros(1, dtype=np.int64),
                ),
                state,
            )
            for sign, label in zip(signs, y, strict=True)
        ]
        gap = both[0] - both[1] if changed == 2 else both[0]
        ratio = np.linalg.norm(gap) / query.sensitivity(neighboring)
        assert 1 - 1e-4 < ratio <= 1.0


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("has_classes", [True, False])
def test_no_two_records_differ_by_more_along_slopes(n_outputs, has_classes):
    """Single records and pairs, hostile scales; and the bound is nearly met."""
    rng, nearest = np.random.default_rng(5), 0.0
    n_outputs = n_outputs if has_classes else 1
    for _ in range(400):
        _, stored, _, geometry = table(float(rng.choice([0.0, 0.75])), n_outputs)
        loss = LossGradient(geometry, 7.0, rng.uniform(0.5, 1, max(2, n_outputs)))
        if not has_classes:
            center, width = rng.uniform(-0.5, 0.5), rng.choice([0.3, 1.0])
            loss = ResidualGradient(geometry, 7.0, rng.choice([0.4, 2]), center, width)
        bounds, steps = np.exp(rng.normal([[-1.0], [0.0]], 2.0, (2, n_outputs)))
        query = AlongSlopes(loss, bounds, steps)
        weights = rng.normal(size=(geometry.n_columns, n_outputs))
        weights *= np.exp(rng.normal(0, 3))
        state = weights, rng.normal(0, 2, n_outputs)
        signs = rng.choice([-1.0, 1.0], (2, 1))
        y = rng.integers(0, max(2, n_outputs), 2) if has_classes else signs[:, 0] * 1.0
        stratum = np.zeros(1, dtype=np.int64)
        one, two = (
            query.of_rows(
                Rows(
                    1, x=stored[k : k + 1] * signs[k], y=y[k : k + 1], stratum=stratum
                ),
                state,
            )
            for k in (0, 1)
        )
        for found, relation in ((one - two, "replace_one"), (one, "add_remove")):
            share = np.linalg.norm(found) / query.sensitivity(relation)
            assert share <= 1
            nearest = max(nearest, share)
    assert nearest > 0.9


# --- counts of the target -------------------------------------------------------------


def test_counts_of_the_target_and_what_is_read_from_them():
    query = TargetCounts(8)  # bins of a quarter
    y = np.array([-1.0, -0.76, -0.74, -0.3, -0.01, 0.0, 0.2, 0.6, 1.0, 1.0])
    counts = query.of_rows(Rows(y.size, y=y), None)
    assert_array_equal(counts, [2, 1, 1, 1, 2, 0, 1, 2])
    middles = np.array([-0.875, -0.625, -0.375, -0.125, 0.125, 0.375, 0.625, 0.875])
    released = counts.astype(float)
    mean = counts @ middles / 10
    assert query.offset(released, 10, 0.0, 0.1) == approx(mean - 0.1)
    doubt = 0.01 * np.linalg.norm(middles) / 10 / 2
    assert query.offset(released, 10, 0.01, 0.1) == approx(mean - 0.1 + doubt)
    assert query.offset(released, 10, 0.01, -1.0) == approx(mean + 1.0 - doubt)
    assert query.offset(released, 10, 100.0, 0.1) == 0.0
    inside = np.abs(middles - 0.25) <= 0.625  # the four bins from -.375 to .875
    assert inside.sum() == 6
    shares = counts[inside] / counts[inside].sum()
    scaled = (middles[inside] - 0.25) / 0.625
    variance = shares @ (scaled - shares @ scaled) ** 2
    found = query.variance(released, 10, 0.25, 0.625)
    assert found == approx(variance, rel=1e-9)
    # Of the counts themselves: without bias, though noise may take it below zero.
    assert query.outside(released, 10, 0.25, 0.625) == approx(0.3)
    assert query.outside(released + 1, 10, 0.25, 0.625) == approx(-0.3)
    assert query.variance(np.zeros(8), 0, 5.0, 0.1) == 0.0
    one = np.zeros(8)  # one record, half in either of two bins half a unit apart
    one[[4, 6]] = 0.5
    assert query.variance(one, 1, 0.25, 0.625) == approx((0.25 / 0.625) ** 2)


def test_several_targets_are_counted_side_by_side():
    y = np.array([[-1.0, 0.3], [-0.9, 1.0], [0.1, -0.3], [1.0, 0.6]])
    query = TargetCounts(4, n_targets=2)
    counts = query.of_rows(Rows(4, y=y), None)
    assert_array_equal(counts, [2, 0, 1, 1, 0, 1, 1, 2])
    assert query.n_coordinates == 8 and query.sensitivity("replace_one") == 2.0
    released = counts + np.array([50.0, 0, 0, 0, 0, 0, 9, 90])
    found = query.ranges(released, 100, 1.0)
    alone = [TargetCounts(4).range(one, 100, 1.0) for one in np.split(released, 2)]
    assert_array_equal(np.transpose(found), alone)
    # Each of several has more noise, as more bins have: more records are asked for.
    query = TargetCounts(n_targets=2)
    assert query.tell(75 * 1.4143) and not query.tell(75 * 1.4142)
    assert TargetCounts().tell(75.0) and not TargetCounts().tell(74.9)
    assert TargetCounts(16).tell(37.5) and not TargetCounts(16).tell(37.4)
    asked = (1e9, 75, 74.9, 37.5, 37.4, 26.6, 26.5, 0)
    found = [bins_that_tell(signal) for signal in asked]
    assert found == [64, 64, 16, 16, 8, 8, 0, 0]


def shortest(counts, least):
    """First and last of the fewest neighbours that count so much; all, if none do."""
    m, best = len(counts), (0, len(counts) - 1)
    runs = [(i, j) for i in range(m) for j in range(i, m)]
    enough = [(i, j) for i, j in runs if counts[i : j + 1].sum() >= least]
    if enough:
        length = min(j - i for i, j in enough)
        ties = [run for run in enough if run[1] - run[0] == length]
        best = max(ties, key=lambda run: counts[run[0] : run[1] + 1].sum())
    return best


@pytest.mark.parametrize("noise", [0.0, 1.0, 4.0, 12.0, 14.0, 20.0, 40.0])
def test_the_range_of_the_target_is_the_shortest_that_holds_most(noise):
    rng, n, m = np.random.default_rng(int(noise)), 1000.0, 64
    for draw in (rng.normal, rng.exponential, rng.standard_cauchy):
        values = np.clip(0.1 * draw(size=1000), -1, 1)
        counts = np.histogram(values, np.linspace(-1, 1, m + 1))[0]
        released = counts + noise * rng.normal(size=m)
        hidden = 1.5 * 8 * noise / n
        share = max(0.9, 1 - hidden)
        balanced = released + (n - released.sum()) / m
        first, last = shortest(balanced, share * n)
        added = min(0.6, 6 * max(0.0, hidden - 0.1))
        more = 1 + math.floor(added * (last - first + 1))
        low = -1 + max(0, first - more) / 32
        high = -1 + min(m, last + more + 1) / 32
        found = TargetCounts(m).range(released, n, noise)
        assert found == approx(((low + high) / 2, (high - low) / 2))
        assert (np.abs(values - found[0]) <= found[1]).mean() > 0.75


def test_the_range_of_the_target_at_its_ends():
    query = TargetCounts(8)
    for at, center in ((0, -0.75), (3, -0.125), (7, 0.75)):
        found = query.range(100.0 * np.eye(8)[at], 100, 5.0)
        assert found == approx((center, 0.375 if 0 < at < 7 else 0.25))
    ends = np.array([50.0, 0, 0, 0, 0, 0, 0, 50.0])
    assert query.range(ends, 100, 1.0) == query.range(ends, 100, 50.0) == (0.0, 1.0)


def test_ranges_of_columns_have_room_and_keep_their_units():
    query = RangeCounts(64, n_targets=6)
    first, last = [10, 0, 30, 28, 20, 5], [12, 6, 33, 35, 54, 50]
    released = np.zeros((6, 64))
    for counts, i, j in zip(released, first, last, strict=True):
        counts[[i, j]] = 50.0
    units = np.array([1.0, 2.0, 2.0, 2.0, 3.0, 4.0])
    center, width = query.learnt(released.ravel(), 100, 0.0, units)
    # A cell on either side, if there is one, and a quarter of all that; columns two and
    # three are as wide as the median of theirs, the last two as their bounds.
    cells = [5, 8, 8, 10, 64, 64]
    assert_allclose(width, np.array(cells) * [1.25, 1.25, 1.25, 1.25, 1, 1] / 64)
    middles = np.array([11.5, 5, 32, 32, 32, 32]) / 32 - 1
    assert_allclose(center, middles)
    nobody_knows = query.learnt(released.ravel(), None, 0.0, units)
    assert_array_equal(nobody_knows, (center, width))
    assert_array_equal(np.shape(query.learnt(np.zeros(384), None, 9.0, units)), (2, 6))
    one = RangeCounts(64).learnt(100 * np.eye(64)[0], 100, 0.0, units[:1])
    assert one == (approx(-1 + 2.5 / 64), approx(2.5 / 64))  # not beyond the bounds


@pytest.mark.parametrize(("cells", "part"), [(33, 35 * 1.25 / 64), (34, 1.0)])
def test_ranges_that_save_little_are_the_bounds(cells, part):
    released = np.zeros(64)
    released[[8, 7 + cells]] = 50.0
    _, width = RangeCounts(64).learnt(released, 100, 0.0, np.ones(1))
    assert width == approx(part)


# --- moments --------------------------------------------------------------------------


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("emphasis", [1.5, 0.75])
def test_moments_are_the_sums_of_their_vector(counted, emphasis):
    rng, stored, rows, geometry = table(0.0)
    y = rng.uniform(-1, 1, N)
    query = MomentRelease(D, 1.25, geometry.unit, counted, emphasis)
    assert query.n_coordinates == 6 + 6 + 1 + counted
    released = query.of_rows(Rows(N, x=stored, y=y), None)
    expected = np.zeros(query.n_coordinates)
    upper = np.triu_indices(D)
    for u, target in zip(rows / 1.25, y, strict=True):
        square = np.outer(u, u)[upper]
        square = square * np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
        v = [*square, *u, *(emphasis * target * u), target, *[1.0] * counted]
        expected += v
    assert_allclose(released, expected, atol=1e-4)
    moments = query.unpack(released, None if counted else N)
    u = rows / 1.25
    assert_allclose(moments.second, u.T @ u / N, atol=1e-5)
    assert_allclose(moments.features, u.mean(axis=0), atol=1e-5)
    assert_allclose(moments.products, (y[:, None] * u).mean(axis=0), atol=1e-5)
    assert moments.target == approx(y.mean(), abs=1e-5)
    assert moments.n_records == approx(N)
    if counted:  # never fewer than one record
        released[-1] = -3.0
        assert query.unpack(released, None).n_records == 1.0


@pytest.mark.parametrize("emphasis", [0.5, 1.0, 1.5, 3.0])
def test_the_sensitivity_of_moments_is_that_of_the_worst_pair(emphasis):
    query = MomentRelease(2, 1.0, 1.0, True, emphasis)
    square = 3 + emphasis**2
    removed = math.sqrt(square + 1) * (1 + 1e-5)
    assert query.sensitivity("add_remove") == approx(removed, rel=1e-12)
    s, q = np.meshgrid(np.linspace(-1, 1, 2001), np.linspace(-1, 1, 41))
    product = s**2 + (1 + emphasis**2 * q) * s + q
    replaced = math.sqrt(2 * square - 2 * product.min()) * (1 + 1e-5)
    found = query.sensitivity("replace_one")
    assert replaced * (1 - 1e-12) <= found <= replaced * (1 + 1e-6)


def test_the_default_emphasis_is_the_documented_one():
    assert MomentRelease(2, 1.0, 1.0, True).emphasis == 1.5


# --- shares and sensitivities without a query -----------------------------------------


@BOTH
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_minimiser_moves_by_its_gradients(neighboring, changed, n_outputs):
    slope = 1.5 if n_outputs == 1 else math.sqrt(2) * 1.5
    expected = 4.0 * (changed * slope + 2 * 0.125)
    found = parameter_sensitivity(1.5, n_outputs, 4.0, 0.125, neighboring)
    assert expected < found <= expected * (1 + 1.5e-12)


@BOTH
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_parameters_move_by_gradients_and_what_the_solver_leaves(
    neighboring, changed, n_outputs
):
    """Which is a ten-thousandth of a row, and the rounding, at either of two tables."""
    scaling, norm, C, n = SimpleNamespace(row_norm=1.5), 1.5, 4.0, 1000
    query = Parameters(scaling, 5, n_outputs, C, n)
    k = max(2, n_outputs)
    # As far as the minimum may be from zero, and a gradient of one row from it.
    weights = math.sqrt(2 * C * n * math.log(k)) + C * norm
    # p products and two more roundings, sixteen of each class, a multiple of 2**-40.
    rounding = (5 + 2) * 2.0**-53 * norm * weights + 2.0**-40 + 16 * k * 2.0**-53
    rounding *= n * norm * math.sqrt(n_outputs)
    assert query.rounding == approx(rounding, rel=1e-12)
    assert query.solved == approx(1e-4 * norm + rounding, rel=1e-12)
    assert query.max_rows == n and query.n_coordinates == 5 * n_outputs
    gradient = norm * (1.0 if n_outputs == 1 else math.sqrt(2))
    expected = C * (changed * gradient + 2 * (1e-4 * norm + 2 * rounding))
    assert query.sensitivity(neighboring) == approx(expected * (1 + 1e-12), rel=1e-14)


def test_the_share_of_the_constant_model():
    expected = {1e-12: 0.3, 100.0: 0.3, 200.0: 0.2, 1000.0: 0.04, 1e6: 0.03}
    for signal, share in expected.items():
        assert constant_share(signal) == approx(share, rel=1e-12)


def test_pulls_of_codes_beside_dummies_are_those_of_numbers():
    """Strata below their least sizes are filled up in the middle."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2**20 + 1, size=40, dtype=np.uint32)
    codes[:6] = 2**19
    stratum = np.arange(40) % 3 // 2
    penalty = GroupPenalty((1, 2), "pairs", np.array([[45, 20]]))
    found = penalty.value_and_slopes(codes, stratum, 0.0, 1.0)
    value, slopes = penalty.value_and_slopes(codes / 2**20, stratum, 0.0, 1.0)
    assert found[0] == approx(value, rel=1e-9)
    assert_allclose(found[1], slopes, rtol=1e-9, atol=1e-15)
    assert (found[1] != 0).all()


def test_the_shortest_run_that_holds_enough():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = rng.integers(-3, 9, size=rng.integers(1, 9)).astype(float)
        least = float(rng.integers(1, 30))
        n = len(counts)
        runs = [
            (j - i, -counts[i : j + 1].sum(), i) for i in range(n) for j in range(i, n)
        ]
        enough = [run for run in runs if -run[1] >= least]
        length, _, first = min(enough, default=(n - 1, 0.0, 0))
        alone = _shortest_runs(counts[None], least)
        assert alone == ([first], [length + 1])
        others = rng.integers(-3, 9, size=(3, n)).astype(float)
        found = _shortest_runs(np.insert(others, 1, counts, axis=0), least)
        assert np.transpose(found)[1].tolist() == [first, length + 1]
