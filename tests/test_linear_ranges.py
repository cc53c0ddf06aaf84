"""The ranges of features that linear models learn inside wide bounds."""

import math
import types
from dataclasses import replace

import numpy as np
import pytest
from _recording import recording
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from scipy import sparse

from fairpriv_sklearn._training._design import FeatureScaling, ScaledRows
from fairpriv_sklearn._training._target import (
    CountedPart,
    Parts,
    RangeCounts,
    TargetCounts,
    counted_parts,
    learnt_parts,
    target_counts,
)
from fairpriv_sklearn._wall import PrivacyFilter, Rows
from fairpriv_sklearn.accounting import calibrate_gaussian
from fairpriv_sklearn.distributed import Batches
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.linear_model._ranges import (
    Columns,
    learn_ranges,
    range_counts,
    scaled_rows,
)

# Where the columns of `table` are, and bounds about ten times as wide.
MEANS, DEVIATIONS = np.array([0.0, 500.0, -0.03]), np.array([1.0, 20.0, 1e-3])
LOW, HIGH = np.array([[-60.0, -100.0, -0.04], [20.0, 1500.0, 0.04]])


def table(n, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    target = Z @ [1.0, -0.7, 0.5] + 0.5 * rng.normal(size=n)
    labels = np.digitize(target, [0.0] if n_classes == 2 else [-0.6, 0.6])
    return MEANS + DEVIATIONS * Z, target, labels


def line(**params):
    params = {"bounds": (LOW, HIGH), "target_bounds": (-6, 6), **params}
    return DPLinearRegression(random_state=0, **params)


def logistic(**params):
    params = {"bounds": (LOW, HIGH), "classes": [0, 1], "fairness_weight": 0, **params}
    return DPWassersteinLogisticRegression(random_state=0, **params)


def fitted(model, X, target, labels, **params):
    return model.fit(X, target if isinstance(model, DPLinearRegression) else labels)


def is_told(model):
    return "range counts" in model.privacy_.mechanism


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_bounds_much_wider_than_the_features_cost_little(relation):
    X, target, labels = table(6000)
    fresh, wanted, wanted_labels = table(6000, seed=1)
    slope = np.array([1.0, -0.7, 0.5]) / DEVIATIONS
    own = line(neighboring=relation).fit(X, target)
    assert is_told(own) and own.score(fresh, wanted) > 0.7  # .87 without noise
    assert np.all(np.abs(own.coef_ / slope - 1) < 0.3)
    assert logistic(neighboring=relation).fit(X, labels).score(fresh, wanted_labels) > (
        0.83  # of .87
    )
    *_, three = table(6000, n_classes=3)
    *_, wanted_three = table(6000, n_classes=3, seed=1)
    several = logistic(classes=[0, 1, 2], neighboring=relation).fit(X, three)
    assert several.score(fresh, wanted_three) > 0.6  # of .74
    groups = (X[:, 0] > 0).astype(int)
    fair = logistic(fairness_weight=0.1, groups=[0, 1], neighboring=relation)
    fair.fit(X, labels, sensitive_features=groups)
    assert is_told(fair) and fair.score(fresh, wanted_labels) > 0.75


@pytest.mark.parametrize("make", [line, logistic])
def test_features_are_clipped_to_what_was_learnt(make):
    X, *others = table(6000)
    model = fitted(make(), X, *others)
    low, high = model.bounds_
    assert np.all(LOW <= low) and np.all(high <= HIGH)
    assert np.all(np.mean((low <= X) & (X <= high), axis=0) > 0.9)
    assert np.all(high - low < (HIGH - LOW) / 4)
    far = MEANS + 40 * DEVIATIONS * np.random.default_rng(2).normal(size=(50, 3))
    assert_array_equal(model.predict(far), model.predict(far.clip(low, high)))
    if model.coef_covariance_ is not None:
        wide = fitted(make(bounds=(8 * LOW, 8 * HIGH)), 8 * X, *others)
        assert_allclose(wide.coef_, model.coef_ / 8, rtol=1e-9)
        assert_allclose(wide.coef_interval(), model.coef_interval() / 8, rtol=1e-9)


def test_some_covariance_is_there():
    X, target, labels = table(6000)
    assert line(epsilon=3.0).fit(X, target).coef_covariance_ is not None
    assert logistic(epsilon=3.0).fit(X, labels).coef_covariance_ is not None


@pytest.mark.parametrize("make", [line, logistic])
@pytest.mark.parametrize(
    ("n_rows", "params", "told"),
    [
        # 75 sqrt(3 / 8) over the parameter of epsilon 1, .26; more for features at all
        (600, {}, True),
        (170, {}, False),
        (600, {"epsilon": 0.1}, False),
        (600, {"epsilon": np.inf}, False),
        (20, {"neighboring": "add_remove"}, True),
        (600, {"data_norm": 1.5}, False),
        (600, {"bounds": None}, False),
        (600, {"bounds": (0, 1)}, False),
        (600, {"bounds": ([0, 3, -2], [1, 4, -1])}, False),
        (600, {"bounds": ([0, 3, -2], [0, 4, -1])}, False),
        (600, {"bounds": ([0, 0.5, 0], [1, 1.5, 1])}, True),
        (600, {"bounds": ([0, 0, 0], [1, 2, 1])}, True),
        (600, {"fit_intercept": False}, False),
    ],
)
def test_when_ranges_are_learnt_is_public(make, n_rows, params, told):
    X = np.zeros((n_rows, 3))
    model = make(max_iter=2, **params).fit(X, np.arange(n_rows) % 2)
    assert is_told(model) == told
    if not told and params.get("bounds", ()) is not None:
        assert_array_equal(
            model.bounds_, np.stack(np.broadcast_arrays(*model.bounds, X[0]))[:2]
        )


def test_moments_and_fits_without_noise_learn_nothing():
    X, target, _ = table(900)
    moments = line(solver="moments").fit(X, target)
    exact = line(solver="gradients", epsilon=np.inf, max_iter=2).fit(X, target)
    for model in moments, exact:
        assert not is_told(model)
        assert_array_equal(model.bounds_, [LOW, HIGH])


@pytest.mark.parametrize("n_rows, n_looks", [(3000, 2), (900, 1)])
def test_batches_are_of_rows_in_ranges_that_all_records_tell(n_rows, n_looks):
    X, _, labels = table(n_rows)
    model = logistic(batch_size=50, max_iter=3)
    with recording() as seen:
        model.fit(X, labels)
    names = ["range counts"] * n_looks + ["gradients"] * 3
    assert [one.name for one in seen.crossings] == names
    assert (np.ptp(model.bounds_, axis=0) < np.subtract(HIGH, LOW)).any()
    ranges, sampled = model.privacy_.events
    own = math.hypot(*(one.parameter for one in seen.crossings[:n_looks]))
    assert ranges.mu == approx(own)
    whole = calibrate_gaussian(model.epsilon, model.delta)
    assert ranges.mu**2 == approx(0.05 * whole**2)
    assert sampled.q == approx(50 / n_rows)
    assert 0.999 <= model.privacy_.epsilon / model.epsilon <= 1.0
    n_draws = seen.crossings[0].released.size * n_looks
    assert (ranges.n_draws, sampled.n_draws) == (n_draws, 3 * (X.shape[1] + 1))


@pytest.mark.parametrize(
    ("n_rows", "n_bins", "n_looks"),
    [(3000, 64, 2), (700, 64, 1), (475, 16, 1), (200, 8, 1)],
)
@pytest.mark.parametrize("make", [line, logistic])
def test_counts_of_features_take_a_twentieth(make, n_rows, n_bins, n_looks):
    """Of the columns that may have a range, each where it is: no row is shortened."""
    X = np.tile([[2.0, 1.0, 2.0, 7.0, -9.0]], (n_rows, 1))
    if n_bins == 8 and make is line:
        pytest.skip("below 125 everything tells the mean")
    model = make(bounds=([-2, 0, -2, 7, -9], [2, 1, 2, 7, 90]))
    with recording() as seen:
        model.fit(X, np.arange(n_rows) % 2)
    squares = {one.name: [] for one in seen.crossings}
    for one in seen.crossings:
        squares[one.name].append(one.parameter**2)
    own = sum(squares["range counts"])
    assert squares["range counts"] == [approx(own / n_looks)] * n_looks
    of_target = sum(squares.pop("target counts", [0.0]))
    assert own / (sum(map(sum, squares.values()))) == approx(0.05)
    assert own / (sum(map(sum, squares.values())) + of_target) > 0.047
    counts, *_ = (one for one in seen.crossings if one.name == "range counts")
    expected = np.zeros((3, n_bins))
    expected[[0, 1, 2], [-1, -1, 0]] = n_rows
    assert_array_equal(counts.exact, expected.ravel())
    assert counts.sensitivity == approx(np.sqrt(6))


class Told:
    """A wall that tells exact counts, and says that they have some noise."""

    def __init__(self, scale):
        self.scale = lambda query: scale

    def release(self, query, rows):
        return query.of_rows(rows, None).astype(float)


def rows_of(rows, cuts):
    """Blocks of a table, and all of them."""
    blocks = [rows.block(slice(i, j)).x for i, j in zip(cuts, cuts[1:], strict=False)]
    return np.concatenate(blocks), rows.whole().x


@pytest.mark.parametrize("n_rows", [500, 700_001])
@pytest.mark.parametrize("is_learnt", [True, False])
def test_rows_are_made_anew_by_what_was_learnt(n_rows, is_learnt):
    """Of the cells as they are: not of rows that the bounds have shortened."""
    X, *_ = table(n_rows)
    X[:5] = HIGH
    scaling = FeatureScaling(LOW, HIGH, 1.25)
    given = ScaledRows(X, FeatureScaling(LOW, HIGH, np.sqrt(3), False))
    counts = range_counts(scaling, 1e6) if is_learnt else None
    wall, rows = Told(n_rows / 500), Rows(n_rows, x=given)
    whole, learnt = learn_ranges(wall, rows, scaling, counts, n_rows)
    assert learnt.data_norm == 1.25 and learnt.fit_intercept
    if not is_learnt:
        assert learnt is scaling
    else:
        assert np.all(learnt.low >= LOW) and np.all(learnt.high < HIGH)
        assert_allclose(learnt.center, MEANS, atol=6 * DEVIATIONS.max())
    own = FeatureScaling(learnt.low, learnt.high, 1.25, False)
    expected = own.design(X).rows
    assert np.square(expected, dtype=float).sum(axis=1).max() <= 1.25**2
    for found in rows_of(whole, [0, 1, 250, n_rows]):
        assert_array_equal(found, expected)


def test_no_row_is_shortened_before_its_columns_are_counted():
    """Fewer rows than columns, each in a corner of the bounds."""
    low, high = np.full(7, 3.0), np.linspace(4, 5, 7)
    X = np.where(np.random.default_rng(0).random((2, 7)) < 0.5, low, high)
    rows = scaled_rows(X, FeatureScaling(low, high, 1.0), learns=True)
    assert_array_equal(rows.rows_at(slice(0, 2)), np.where(X == low, -1.0, 1.0))


def test_a_second_look_is_inside_the_first():
    """Bounds a hundred times too wide: the second counts are of what the first told."""
    X, *_ = table(5000)
    scaling = FeatureScaling(10 * LOW, 10 * HIGH, 1.25)
    given = ScaledRows(X, FeatureScaling(10 * LOW, 10 * HIGH, np.sqrt(3), False))
    counts = range_counts(scaling, 500.0)
    assert counts.room == 1.25
    asked = []

    class Looks(Told):
        def release(self, query, rows):
            asked.append(query)
            return super().release(query, rows)

    wall, rows = Looks(1.0), Rows(5000, x=given)
    _, learnt = learn_ranges(wall, rows, scaling, counts, 5000)
    first, second = asked
    block = rows.whole()
    found = first.learnt(first.of_rows(rows, None), 5000, 1.0, np.arange(3))
    inside = ((block.x - found[0]) / found[1]).clip(-1, 1)
    assert_array_equal(second.targets(block), inside)
    once = replace(counts, n_looks=1)
    _, coarse = learn_ranges(wall, rows, scaling, once, 5000)
    assert len(asked) == 3
    assert np.all(learnt.high - learnt.low < (coarse.high - coarse.low) / 3)
    lengths = (learnt.high - learnt.low) / DEVIATIONS
    assert np.all((4 < lengths) & (lengths < 60))
    assert np.all((learnt.low < MEANS) & (MEANS < learnt.high))


def test_a_column_that_is_one_number_keeps_what_the_first_look_told():
    """Nearly always zero: a second range would make of the others an indicator."""
    rng = np.random.default_rng(0)
    X = np.zeros((5000, 2))
    X[:400] = rng.exponential(size=(400, 2)) * [2e4, 1.0]
    scaling = FeatureScaling(np.array([0.0, -5.0]), np.array([1e5, 7.0]), 1.0)
    rows = Rows(5000, x=ScaledRows(X, replace(scaling, fit_intercept=False)))
    counts = range_counts(scaling, 300.0)
    assert counts.n_looks == 2
    _, learnt = learn_ranges(Told(60.0), rows, scaling, counts, 5000)
    once = replace(counts, n_looks=1)
    _, first = learn_ranges(Told(60.0), rows, scaling, once, 5000)
    assert_allclose(learnt.low, first.low, atol=1e-9)
    assert_allclose(learnt.high, first.high)
    assert np.all(learnt.high < scaling.high)


def test_a_column_in_a_few_cells_is_no_single_number():
    """Four cells of the second look, six with those beside them."""
    X = np.random.default_rng(0).uniform(-0.004, 0.004, size=(5000, 1))
    scaling = FeatureScaling(-np.ones(1), np.ones(1), 1.0)
    rows = Rows(5000, x=ScaledRows(X, replace(scaling, fit_intercept=False)))
    _, learnt = learn_ranges(
        Told(1.0), rows, scaling, range_counts(scaling, 300.0), 5000
    )
    first = 1.25 * 4 / 64
    assert_allclose(learnt.half_width, first * 1.25 * 6 / 64)


def test_parts_of_parts():
    parts = Parts(np.array([0.5, 0.0]), np.array([0.5, 1]))
    parts = parts.narrowed(np.array([-0.5, 0.2]), np.array([0.25, 0.5]))
    assert_allclose(parts.center, [0.25, 0.2])
    assert_allclose(parts.width, [0.125, 0.5])
    block = types.SimpleNamespace(x=np.array([[0.3, 9, 0.3125], [-0.9, 9, 0.2]]))
    columns = parts.clipped(Columns(np.array([2, 0])))
    assert_allclose(columns(block), [[0.5, 0.2], [-0.4, -1.0]])


def test_ranges_of_columns_have_widths_of_their_own():
    released = np.zeros((3, 64))
    released[0, [4, 8]] = released[1, [1, 14]] = released[2, [20, 40]] = 50.0
    wall = types.SimpleNamespace(
        release=lambda *_: released.ravel(), scale=lambda _: 0.0
    )
    stays = lambda look, width: np.array([False, False, look == 0])  # noqa: E731
    counts = RangeCounts(64, n_targets=3)
    once = learnt_parts(wall, None, counts, 100, stays)
    cells = np.array([7, 16, 23]) * 1.25 / 64
    assert_allclose(once.width, [*cells[:2], 1.0])
    twice = learnt_parts(wall, None, replace(counts, n_looks=2), 100, stays)
    assert_allclose(twice.width, [*cells[:2] ** 2, cells[2]])


class Noisy:
    """A wall that adds noise of its own to what is released, and remembers it."""

    def __init__(self, scale, seed=0):
        self.scale = lambda query: scale
        self.noise, self.asked = np.random.default_rng(seed), []

    def release(self, query, rows):
        self.asked.append(query.of_rows(rows, None).reshape(query.n_targets, -1))
        noise = self.scale(query) * self.noise.standard_normal(query.n_coordinates)
        return self.asked[-1].ravel() + noise


def crowds(*crowds, n=5000):
    """Targets in [-1, 1]: normal ones by centres and deviations."""
    z = np.random.default_rng(1).normal(size=(n, len(crowds)))
    return np.clip(z * [d for _, d in crowds] + [c for c, _ in crowds], -1, 1)


@pytest.mark.parametrize("scale", [0.0, 20.0])
def test_targets_in_bounds_of_any_width_have_ranges_of_some_deviations(scale):
    """Of three targets in one release, each in the part where it is."""
    y = crowds((0.3, 1e-3), (-0.7, 1e-4), (0.1, 0.2))
    counts, wall = TargetCounts(64, 3, n_looks=4, room=2.0), Noisy(scale)
    for column, deviation, part in zip(
        y.T,
        (1e-3, 1e-4, 0.2),
        counted_parts(wall, Rows(len(y), y=y), counts, len(y)),
        strict=True,
    ):
        center, width = part.of_bounds(*part.range)
        assert 2.5 * deviation < width < 12 * deviation
        assert np.mean(abs(column - center) < width) > 0.98
        assert -1 <= center - width < center + width <= 1 + 1e-12
    # What is counted is in [-1, 1], and of what had room enough again the same.
    assert len(wall.asked) == 4 and all(one.sum() == 3 * len(y) for one in wall.asked)
    for one in wall.asked[1:]:
        assert_array_equal(one[2], wall.asked[0][2])
    assert part.looks == 4 and part.noise == scale / 2 and part.before is None


def test_counts_of_the_same_part_are_averaged():
    wall = Noisy(9.0)
    y = crowds((0.1, 0.2))
    (part,) = counted_parts(wall, Rows(len(y), y=y), TargetCounts(n_looks=3), len(y))
    mean = wall.asked[0][0] + 9 * np.random.default_rng(0).normal(size=(3, 64)).mean(0)
    assert_allclose(part.released, mean)
    # Without a part to speak of the range is as one count tells it.
    alone = TargetCounts().range(mean, len(y), 9 / math.sqrt(3))
    assert part.range == alone and part.of_bounds(*alone) == alone


@pytest.mark.parametrize("share", [0.0, 0.004, 0.08])
def test_a_part_that_leaves_out_more_than_noise_is_given_up(share):
    """Targets that are mostly zero, the others far apart: their tail is counted."""
    n, scale = 5000, 40.0
    y = np.zeros(n)
    tail = int(share * n)
    y[:tail] = np.linspace(0.2, 0.9, tail)
    counts = TargetCounts(n_looks=3, room=2.0)
    (part,) = counted_parts(Noisy(scale), Rows(n, y=y), counts, n)
    if share == 0.08:
        assert part.is_kept and (part.center, part.width) == (0.0, 1.0)
        assert part.looks == 2 and part.before is None
    else:  # 20 of 5,000 are no more than noise
        assert not part.is_kept and part.width < 0.01


def part_with(first, n_cells, **params):
    """All of 6,400 targets in a run of cells; what noise there is hides nothing."""
    released = np.zeros(64)
    released[first : first + n_cells] = 6400 / n_cells
    params = {"released": released, "looks": 1, "scale": 1e-6, **params}
    return CountedPart(TargetCounts(room=1.5), 6400, **params)


def test_a_target_in_less_than_an_eighth_is_counted_in_a_part():
    """1.25 times as long as its run of cells, with a cell more on either side."""
    part = part_with(20, 5).narrowed()
    assert part.before is not None and part.looks == 0
    assert (part.center, part.width) == approx((-1 + 45 / 64, 1.25 * 7 / 64))
    again = part_with(40, 5, center=part.center, width=part.width).narrowed()
    assert again.width == approx(part.width * 1.25 * 7 / 64)
    assert again.center == approx(part.center + part.width * (-1 + 85 / 64))
    wide = part_with(20, 6)
    assert wide.narrowed() is wide
    kept = part_with(20, 5, is_kept=True)
    assert kept.narrowed() is kept


@pytest.mark.parametrize("end", [0, -1])
@pytest.mark.parametrize("times", [2.9, 3.1])
def test_a_part_is_given_up_for_more_than_three_times_the_noise(end, times):
    whole, counts = part_with(20, 5, scale=9.0), np.zeros(64)
    counts[30:36], counts[end] = 1000.0, times * 9.0
    found = whole.narrowed().looked(counts, 9.0)
    assert found.is_kept == (times > 3) and (found.before is None) == (times > 3)
    if times > 3:
        assert found.width == 1.0 and found.released is whole.released


def test_a_range_has_room_in_a_part_that_tells_it_and_inside_the_bounds():
    whole = part_with(20, 8)
    assert whole.range == whole.found == approx((-1 + 48 / 64, 10 / 64))
    inside = part_with(20, 8, center=0.2, width=0.1, before=whole)
    assert inside.range == approx((inside.found[0], 1.5 * 10 / 64))
    few = part_with(20, 5, center=0.2, width=0.1, before=whole)
    assert few.range == few.found
    # Up to the lower end of the bounds, which is -1 in the units of this part.
    outer = part_with(0, 8, center=-0.9, width=0.1, before=whole)
    center, width = outer.range
    assert center - width == approx(-1.0)
    assert center + width == approx(outer.found[0] + 1.5 * outer.found[1])
    # What noise puts beyond it ends there, and is a range yet; so do parts of it.
    beyond = part_with(0, 8, center=-1.0, width=0.1, before=whole)
    center, width = beyond.range
    assert center - width == 0.0 and 2 * width == approx(1.5 * beyond.found[1])
    assert beyond.of_bounds(*beyond.found)[0] == -1.0
    assert part_with(0, 5, center=-1.0, width=0.1).narrowed().center == -1.0


@pytest.mark.parametrize("half", [3.0, 1000.0])
def test_what_is_told_of_the_target_knows_its_noise(half, monkeypatch):
    """The mean of four counts; a mean residual no noisier for the room of a range."""
    rng, asked = np.random.default_rng(0), []
    X, y = rng.uniform(-1, 1, (20_000, 2)), rng.normal(size=20_000).clip(-3, 3)
    release, offset = PrivacyFilter.release, TargetCounts.offset

    def released(self, query, *args):
        asked.append((query.name, self.scale(query)))
        return release(self, query, *args)

    def told(self, counts, n_records, noise, center):
        asked.append(("offset", noise))
        return offset(self, counts, n_records, noise, center)

    monkeypatch.setattr(PrivacyFilter, "release", released)
    monkeypatch.setattr(TargetCounts, "offset", told)
    DPLinearRegression(
        bounds=(-1, 1), target_bounds=(-half, half), data_norm=1.0, random_state=0
    ).fit(X, y)
    noise = dict(asked)
    assert [name for name, _ in asked].count("target counts") == 4
    # Of full bounds all are the same; a part of a part is counted twice of four times.
    looks = 4 if half == 3 else 2
    assert noise["offset"] == approx(noise["target counts"] / math.sqrt(looks))
    if half == 1000:
        assert 0.016 < noise["mean residual"] <= 0.02  # .04 without room


def test_how_often_targets_are_counted_and_with_how_much_room_is_public():
    for n_targets in (1, 4):
        least = 75 * math.sqrt(n_targets)
        for times, n_looks, room in (
            (1, 1, 1), (1.99, 1, 1), (2, 2, 1), (3.99, 3, 1), (4, 4, 1),
            (9, 4, 1.5), (16, 4, 2), (1e6, 4, 2),
        ):  # fmt: skip
            counts = target_counts(times * least, n_targets)
            assert (counts.n_bins, counts.n_targets) == (64, n_targets)
            assert counts.n_looks == n_looks and counts.room == approx(room)
    assert target_counts(74.9).n_bins == 16 and target_counts(74.9).n_looks == 1
    assert target_counts(26.5) is None


def test_how_often_and_with_how_much_room_is_public():
    scaling = FeatureScaling(-np.ones(4), np.ones(4), 1.0)
    least = 75 * 2.0
    for times, n_looks in ((1, 1), (1.99, 1), (2, 2), (50, 2)):
        assert range_counts(scaling, times * least).n_looks == n_looks
    for times, room in ((1, 1.25), (4.4, 1.25), (44, 1.25 * 10**0.15)):
        assert range_counts(scaling, times * least).room == approx(room)


def test_a_narrower_scaling():
    scaling = FeatureScaling(np.array([-0.3, 0.1, 5]), np.array([0.7, 9.9, 5]), 1.0)
    found = scaling.within(np.array([0.5, 0.0, 0.0]), np.array([0.25, 1.0, 1.0]))
    assert_allclose(found.low, [0.325, 0.1, 5])
    assert_allclose(found.high, [0.575, 9.9, 5])
    assert_array_equal(found.low[1:], scaling.low[1:])
    assert_array_equal(found.high[1:], scaling.high[1:])


def test_a_narrower_scaling_is_inside_the_wider_one():
    """Also by rounding, and where a column is narrower than halves can be told."""
    rng = np.random.default_rng(0)
    ends = rng.normal(size=(2, 1000)) * 10.0 ** rng.integers(-9, 9, 1000)
    low, high = np.sort(ends, axis=0)
    low[0], high[0] = -5e-324, 5e-324
    width = rng.uniform(0.01, 0.7, size=1000)
    center = np.where(np.arange(1000) % 2, 1 - width, width - 1)
    found = FeatureScaling(low, high, 1.0).within(center, width)
    assert np.all(low <= found.low) and np.all(found.low <= found.high)
    assert np.all(found.high <= high)


def test_bounds_of_any_size_are_learnt_in_without_a_warning():
    """Squares of their widths need not be numbers."""
    X, target, labels = table(3000)
    for make in line, logistic:
        model = fitted(make(bounds=(0, 1.7e308), epsilon=5.0), X, target, labels)
        assert is_told(model) and model.coef_covariance_ is not None
        assert np.all(np.isfinite(model.coef_covariance_))


def test_target_bounds_of_any_size_are_fitted_in_without_a_warning():
    """Squares of their width need not be numbers; the budget is spent by then."""
    X, target, _ = table(3000)
    model = line(bounds=(-10, 10), target_bounds=(-1.7e308, 1.7e308), epsilon=5.0)
    model.fit(X, target)
    assert np.all(np.isfinite(model.coef_))
    low, high = model.coef_interval()
    assert np.all(low < high)


def test_each_column_has_a_width_of_its_own():
    """Bounds of one unit, with three and fifteen deviations of the columns inside."""
    Z = np.random.default_rng(0).normal(size=(20_000, 4))
    target = Z @ [1.0, 1.0, 1.0, 1.0]
    X = Z * [1.0, 1.0, 1.0, 0.2]
    model = line(bounds=(-3, 3), target_bounds=(-8, 8)).fit(X, target)
    low, high = model.bounds_
    assert_array_equal(high[:3] - low[:3], 6.0)
    assert high[3] - low[3] < 2.0


def test_sparse_rows_learn_nothing_and_stay_sparse():
    X, target, _ = table(3000)
    X[:, 1], X[:, 2] = 0.0, 0.0
    seen = []

    class Seen(DPLinearRegression):
        def _read(self, X, y, sensitive_features):
            columns = super()._read(X, y, sensitive_features)
            seen.append(sparse.issparse(columns["x"]))
            return columns

    model = Seen(bounds=(-9, 9), target_bounds=(-6, 6)).fit(sparse.csr_array(X), target)
    assert seen == [True] and not is_told(model)
    assert_array_equal(model.bounds_, [[-9] * 3, [9] * 3])


@pytest.mark.parametrize("make", [line, logistic])
def test_sparse_rows_are_answered_as_dense_ones(make):
    """A learnt range need not hold zero, the centre of most sparse rows."""
    X, *others = table(3000)
    model = fitted(make(), X, *others)
    assert np.any(model.bounds_.sum(axis=0) != 0)
    rows = np.concatenate([X, np.zeros((5000, 3))])
    assert_array_equal(model.predict(sparse.csr_array(rows)), model.predict(rows))


@pytest.mark.parametrize("first", [0, 1])
def test_batches_are_all_dense_or_all_sparse(first):
    X, target, _ = table(900)
    kinds = [np.asarray, sparse.csr_array]
    batches = [
        (kinds[(first + i) % 2](X[part]), target[part], None)
        for i, part in enumerate((slice(0, 300), slice(300, 900)))
    ]
    with pytest.raises(ValueError, match="all must be dense or all sparse"):
        line(bounds=(-2000, 2000)).fit(Batches(batches))


def test_counts_are_of_the_columns_that_may_have_a_range():
    scaling = FeatureScaling(np.array([0.0, 0, 3, 1]), np.array([1.0, 2, 3, 9]), 1.0)
    counts = range_counts(scaling, 75 * np.sqrt(2))
    assert counts.n_bins == 64 and counts.n_targets == 2
    block = types.SimpleNamespace(x=np.arange(8).reshape(2, 4) / 8)
    assert_array_equal(counts.targets(block), np.array([[1, 3], [5, 7]]) / 8)
    assert range_counts(scaling, 74.9 * np.sqrt(2)).n_bins == 16
    assert range_counts(scaling, 74.9 * np.sqrt(2 / 8)) is None
