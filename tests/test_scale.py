"""Scales that give crowded parts of wide bounds more bins, and repairs on them."""

import warnings
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from _recording import recording
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.metrics import ks_parity_difference
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.postprocessing import (
    DPBarycenterRegressor,
    DPBarycenterTransformer,
    RepairWarning,
    _scale,
)
from fairpriv_sklearn.postprocessing import _blind_numbers as blind_numbers
from fairpriv_sklearn.postprocessing import _score_bins as score_bins
from fairpriv_sklearn.postprocessing import _significance as significance
from fairpriv_sklearn.postprocessing._queries import ScoreCounts
from fairpriv_sklearn.postprocessing._scale import CELLS, EVEN, Scale
from fairpriv_sklearn.privacy import PrivacyGuarantee, PrivacyLedger

pytestmark = pytest.mark.filterwarnings("error")


def said_of_means(output):
    """Of bins that hold many people, one answer leaves an unknown gap."""
    if output != "mean":
        return nullcontext()
    return pytest.warns(RepairWarning, match="answers all of them alike")


def people(n, seed, spread=1.0):
    """Normal scores whose means differ between three groups."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    return spread * (
        rng.normal(size=(n, 1)) + np.array([0, 0.4, 1])[group, None]
    ), group


def repair(bounds, **params):
    params = {"random_state": 0, "groups": [0, 1, 2], **params}
    return DPBarycenterTransformer(bounds=bounds, **params)


def gap(scores, group):
    return ks_parity_difference(scores, scores, sensitive_features=group)


# --- the map --------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 10_000), min_size=CELLS, max_size=CELLS),
    st.sampled_from([(-1.0, 1.0), (0.0, 5e5), (-1e150, 1e150), (3.0, 3.5)]),
)
def test_stretched_scale_is_increasing_and_inverted(counts, bounds):
    scale = Scale.even(bounds).stretched(np.array(counts), 0.0)
    assert scale(bounds[0]) == 0.0 and scale(bounds[1]) == 1.0
    assert (np.diff(scale.places) > 0).all() and (np.diff(scale.knots) > 0).all()
    places = np.linspace(0, 1, 101)
    assert_allclose(scale(scale.inverse(places)), places, atol=1e-9)
    assert_allclose(
        scale.relative(places) * (bounds[1] - bounds[0]) + bounds[0],
        scale.inverse(places),
        atol=1e-9 * (bounds[1] - bounds[0]),
    )
    assert_array_equal(scale([-np.inf, np.inf]), [0.0, 1.0])
    assert scale(bounds[0] - 1.0) == 0.0


def test_half_of_the_room_follows_the_people():
    counts = np.zeros(CELLS)
    counts[4:7] = 100, 600, 300
    scale = EVEN.stretched(counts, 0.0)
    expected = 0.5 / CELLS + 0.5 * counts / 1000
    assert_allclose(np.diff(scale.places), expected)
    assert_allclose(scale.knots, np.linspace(0, 1, CELLS + 1))


def test_counts_are_lowered_by_their_noise():
    counts = np.full(CELLS, 19.0)
    counts[4:7] = 120, 620, 320
    scale = EVEN.stretched(counts, 100.0)  # two standard deviations are 20
    expected = 0.5 / CELLS + 0.5 * np.array([100, 600, 300]) / 1000
    assert_allclose(np.diff(scale.places)[4:7], expected)
    assert_allclose(np.diff(scale.places)[7:], 0.5 / CELLS)


def test_even_where_nobody_crowds_or_nobody_knows():
    def crowd(cells):
        counts = np.zeros(CELLS)
        counts[:cells] = 1000.0
        return counts

    # In a quarter of the cells sum(m^2) is 4 / 32.
    assert EVEN.stretched(crowd(CELLS // 4), 0.0) is not EVEN
    wider = crowd(CELLS // 4)
    wider[10] = 30.0
    assert EVEN.stretched(wider, 0.0) is EVEN
    # Half of the people have to be left when noise is taken off.
    assert EVEN.stretched(crowd(4), 249.0**2) is not EVEN
    assert EVEN.stretched(crowd(4), 251.0**2) is EVEN
    assert EVEN.stretched(np.zeros(CELLS), 1.0) is EVEN
    assert EVEN.stretched(-crowd(4), 1.0) is EVEN
    # A sum that noise made small: one cell above it does not hold half of the people.
    noisy = np.where(np.arange(CELLS) == 3, 70.0, -2.0)
    assert noisy.sum() == 8 and EVEN.stretched(noisy, 100.0) is EVEN
    # 2 sqrt(32 * 100) = 113.1, and 77 - 20 is half of it.
    noisy[3] = 77.0
    assert EVEN.stretched(noisy, 100.0) is not EVEN
    noisy[3] = 76.0
    assert EVEN.stretched(noisy, 100.0) is EVEN
    # Of more people a quarter is enough, in one cell: 2 / 32 is its square.
    noisy[:] = np.where(np.arange(CELLS) == 3, 50.0, 63.3 / 31)
    assert 113.2 < noisy.sum() < 113.4 and EVEN.stretched(noisy, 100.0) is not EVEN
    assert EVEN.stretched(noisy - 0.01, 100.0) is EVEN  # of no more
    assert EVEN.stretched(noisy, 100.0, n=114) is not EVEN
    assert EVEN.stretched(noisy, 100.0, n=113) is EVEN


@pytest.mark.parametrize("n", [None, 4000])
def test_a_group_that_crowds_among_others_that_do_not(n):
    """In one cell of 32 was not half of all people, and its gap of .96 fell to .56."""

    def crowd(people):
        counts = np.full(CELLS, (4000.0 - people) / (CELLS - 1))
        counts[2] = people
        return counts

    # 200 are two standard deviations; 1200 - 200 is a quarter of all, and the rest is
    # nobody for sure.
    crowded = EVEN.stretched(crowd(1201.0), 100.0**2, n=n)
    assert_allclose(np.diff(crowded.places)[2], 0.5 + 0.5 / CELLS)
    assert EVEN.stretched(crowd(1199.0), 100.0**2, n=n) is EVEN
    # As few people are looked for in a run, and are where that is.
    few = np.zeros(CELLS)
    few[4:6] = 500.0
    scale = EVEN.stretched(few, 100.0**2, n=1000)
    assert_allclose(np.diff(scale.places)[4:6], 0.25 + 0.5 / CELLS)


def in_runs(counts, deviation, longest):
    """Sums of all runs of cells up to a length, two deviations of their noise off."""
    n_cells = len(counts)
    return {
        (first, stop): counts[first:stop].sum() - 2 * deviation * (stop - first) ** 0.5
        for first in range(n_cells)
        for stop in range(first + 1, min(first + longest, n_cells) + 1)
    }


@pytest.mark.parametrize("seed", range(20))
def test_a_run_of_cells_is_found_where_noise_hides_each(seed):
    rng = np.random.default_rng(seed)
    n_crowded, first = rng.integers(1, 7), rng.integers(26)
    counts, deviation = rng.laplace(scale=50, size=CELLS), 50 * 2**0.5
    counts[first : first + n_crowded] += 790 / n_crowded
    certain = np.maximum(counts - 2 * deviation, 0)
    reigns = 2 * deviation * CELLS**0.5  # 800.0
    people = max(counts.sum(), reigns)
    cells_tell = certain.sum() >= people / 2
    crowd_tells = CELLS * ((certain / people) ** 2).sum() >= 2
    sums = in_runs(counts, deviation, 5)
    (start, stop), most = max(sums.items(), key=lambda one: one[1])
    scale = EVEN.stretched(counts, deviation**2, n=799)
    alone = EVEN.stretched(counts, deviation**2)
    found = cells_tell or crowd_tells and counts.sum() > reigns
    assert (alone is EVEN) == (not found)
    if cells_tell:
        assert_array_equal(scale.places, alone.places)
    elif most < 0.6 * reigns:
        assert scale is EVEN
    else:
        room = np.full(CELLS, 0.5 / CELLS)
        room[start:stop] += 0.5 / (stop - start)
        assert_allclose(np.diff(scale.places), room)
        # Of more people noise would hide fewer cells.
        more = EVEN.stretched(counts, deviation**2, n=801)
        assert (more is EVEN) == (not crowd_tells)


def test_how_many_people_a_run_has_to_hold():
    # 500 less 2 sqrt(4) deviations is .6 times 2 sqrt(32): up to 46.3.
    counts = np.where(np.arange(CELLS) >= 28, 125.0, 0.0)
    for n in (1, 500):
        assert EVEN.stretched(counts, 46.0**2, n=n) is not EVEN
        assert EVEN.stretched(counts, 47.0**2, n=n) is EVEN
    # Six cells are no run.
    counts[26:] = 100.0
    rooms = np.diff(EVEN.stretched(counts, 43.0**2, n=480).places)
    assert_allclose(rooms[26:], [*[0.5 / CELLS + 0.1] * 5, 0.5 / CELLS])


def test_more_is_spent_where_that_finds_the_crowd():
    assert _scale.share(1000, 1.0) == _scale.share(100, 10.0) == pytest.approx(0.03)
    assert _scale.share(751, 1.0) == pytest.approx(30 / 751)
    for n, epsilon in ((1501, 1.0), (10**6, 1.0), (10, np.inf), (749, 1.0), (1, 0.01)):
        assert _scale.share(n, epsilon) == 0.02
    assert _scale.share(None, 1.0) == _scale.share(0, 1.0) == 0.02


@given(
    epsilon=st.sampled_from([0.1, 0.3, 1.0, 3.0]) | st.floats(0.01, 20),
    n=st.floats(500, 2000),
    output=st.sampled_from(["auto", "continuous"]),
    blind=st.booleans(),
)
def test_the_parts_of_a_plan_are_no_more_than_epsilon(epsilon, n, output, blind):
    asked = {"epsilon": epsilon, "bounds": (0, 1), "output": output}
    repair = DPBarycenterTransformer(**asked, groups=[0, 1])
    repair.groups_, repair.blind = [0, 1], blind
    plan = repair._plan(1, n / epsilon)
    total = sum(Fraction(line.parameter) for line in plan)
    assert epsilon * (1 - 1e-15) <= total <= epsilon


@pytest.mark.parametrize("epsilon, n_rows", [(1.0, 1000), (0.5, 2800)])
def test_few_people_are_found_in_wide_bounds(epsilon, n_rows):
    """Three times in four. By single cells, or for 2 % of epsilon, seldom."""
    found = 0
    for seed in range(12):
        scores, group = people(n_rows, seed)
        fitted = repair((-30, 30), random_state=seed, epsilon=epsilon)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            fitted.fit(scores, sensitive_features=group)
        found += len(fitted._scales[0].knots) > 2
    assert found >= 8


def test_a_score_is_counted_alike_whatever_stands_around_it():
    counts = np.random.default_rng(0).integers(0, 9, CELLS) ** 3
    scale = Scale.even((-3.0, 40.0)).stretched(counts, 0.0)
    scores = np.random.default_rng(1).normal(size=1001) * 20
    scores[:4] = np.nan, np.inf, -np.inf, 40.0
    query = ScoreCounts((scale,), 1, 50)

    def counted(scores):
        block = type("Block", (), {"scores": scores[:, None], "codes": np.ones(1, int)})
        block.codes = np.zeros(len(scores), dtype=np.int64)
        return query.of_block(block, None)[0, 0]

    alone = sum(counted(scores[i : i + 1]) for i in range(len(scores)))
    assert_array_equal(counted(scores), alone)
    assert_array_equal(
        scale(scores), [scale(scores[i : i + 1])[0] for i in range(1001)]
    )


def test_one_group_stands_for_all_people():
    block = type("Block", (), {})
    block.scores = np.array([[0.1], [0.9], [0.95]])
    block.codes = np.array([0, 2, 1])
    assert_array_equal(ScoreCounts((EVEN,), 1, 2).of_block(block, None), [[[1, 2]]])


# --- repairs with wide bounds ---------------------------------------------------------


@pytest.mark.parametrize("output", ["auto", "randomized"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_wide_bounds_cost_little(output, relation):
    scores, group = people(10_000, 1)
    fresh, groups = people(30_000, 2)
    wide = repair((-60, 60), output=output, neighboring=relation)
    wide.fit(scores, sensitive_features=group)
    fair = wide.transform(fresh, sensitive_features=groups)
    assert gap(fresh[:, 0], groups) > 0.3
    assert gap(fair[:, 0], groups) < 0.06
    assert np.mean((fair - fresh) ** 2) < 0.3
    bins = score_bins.default_n_bins(10_000, 1.0) if relation == "replace_one" else 36
    assert wide.n_bins_ == round(1.5 * bins)
    # Bounds that the scores fill are left as they are.
    narrow = repair((-4, 5), output=output, neighboring=relation)
    narrow.fit(scores, sensitive_features=group)
    assert narrow.n_bins_ == bins


def test_bins_that_are_asked_for_are_equal_and_cost_nothing():
    scores, group = people(3000, 1)
    asked = repair((-60, 60), n_bins=90, output="continuous")
    asked.fit(scores, sensitive_features=group)
    assert asked.n_bins_ == 90 and len(asked.privacy_.events) == 1
    bins = score_bins.bin_scores(scores[:, 0], (-60, 60), 30)
    exact = repair((-60, 60), n_bins=30, epsilon=np.inf)
    with pytest.warns(RepairWarning, match="stand out from those beside them"):
        exact.fit(scores, sensitive_features=group)
    assert_array_equal(exact.counts_[0].sum(axis=0), np.bincount(bins, minlength=30))


def test_bins_have_a_most():
    scores, group = people(200_000, 1)
    exact = repair((-60, 60), epsilon=np.inf).fit(scores, sensitive_features=group)
    assert exact.n_bins_ == 192


# --- what the wrapped model says of its predictions -----------------------------------


def test_no_more_of_the_bounds_than_can_be_reached():
    bounds = np.array([[0.0, 400.0]])
    assert_array_equal(_scale.within(bounds, (30.0, 50.0)), [[30.0, 50.0]])
    assert_array_equal(_scale.within(bounds, (-50.0, 50.0)), [[0.0, 50.0]])
    assert_array_equal(_scale.within(bounds, (-np.inf, np.inf)), bounds)
    assert_array_equal(_scale.within(bounds, (100.0, 299.0)), [[100.0, 299.0]])
    assert_array_equal(_scale.within(bounds, (100.0, 301.0)), bounds)
    assert_array_equal(_scale.within(bounds, (np.nan, np.inf)), bounds)
    # A constant is in the middle of some of them, within or at an end.
    assert_allclose(_scale.within(bounds, (30.0, 30.0)), [[29.8, 30.2]])
    assert_allclose(_scale.within(bounds, (500.0, 600.0)), [[399.8, 400.2]])


class Boasts(RegressorMixin, BaseEstimator):
    """A model of somebody else, with an attribute that nobody vouches for."""

    def fit(self, X, y):
        self.prediction_range_ = 0.0, float(np.max(y))
        return self

    def predict(self, X):
        return X[:, 0]


def linear_people(n, seed):
    rng = np.random.default_rng(seed)
    group = rng.choice(2, n, p=[0.6, 0.4])
    X = rng.uniform(-1, 1, (n, 3)) - 0.5 * group[:, None]
    return X, 50 + X.sum(axis=1) + 0.3 * rng.normal(size=n), group


class Elsewhere(DPLinearRegression):
    """A model of ours whose predictions somebody changed."""

    def predict(self, X):
        return 4 * super().predict(X)


class SearchesElsewhere(DPGridSearchCV):
    """A search of ours whose predictions somebody changed."""

    def predict(self, X):
        return 4 * super().predict(X)


IN_WIDE = {"target_bounds": (0, 400), "random_state": 0}


@pytest.mark.parametrize("blind", [False, True])
def test_bins_are_where_a_private_model_may_predict(blind):
    X, y, group = linear_people(2000, 0)
    linear = DPLinearRegression(bounds=(-2, 2), **IN_WIDE)
    repair = DPBarycenterRegressor(linear, groups=[0, 1], blind=blind, **IN_WIDE)

    def counted(**params):
        model = clone(repair).set_params(**params)
        with warnings.catch_warnings():  # a repair of so few may stand back
            warnings.simplefilter("ignore", RepairWarning)
            return model, model.fit(X, y, sensitive_features=group)._counted[0]

    model, ends = counted()
    assert_allclose(ends, model.estimator_.prediction_range_)
    assert np.ptp(ends) < 40
    model, ends = counted(estimator=make_pipeline(linear))
    assert_allclose(ends, model.estimator_[-1].prediction_range_)
    frozen = clone(linear).fit(X, y)
    for held in (FrozenEstimator(frozen), make_pipeline(FrozenEstimator(frozen))):
        model, ends = counted(estimator=held)
        assert_allclose(ends, frozen.prediction_range_)
    wide = {**IN_WIDE, "epsilon": 2.0}
    model, ends = counted(estimator=DPGridSearchCV(make_pipeline(linear), {}, **wide))
    assert_allclose(ends, model.estimator_.best_estimator_[-1].prediction_range_)
    assert np.ptp(ends) < 80
    # It is of the weights as they are.
    frozen.intercept_ += 100.0
    model, ends = counted(estimator=FrozenEstimator(frozen))
    assert_allclose(ends, frozen.prediction_range_)
    assert 140 < ends[0] < 150 < ends[1] < 160
    # Whose bins are asked for, and whose model is not ours, has all of the bounds.
    theirs = {"estimator": Boasts(), "base_guarantee": TOLD}
    ours = {"estimator": Elsewhere(**linear.get_params())}
    searched = {"estimator": SearchesElsewhere(linear, {}, **wide)}
    for params in ({"n_bins": 12}, theirs, ours, searched):
        assert_allclose(counted(**params)[1], [-25, 425])
    # What an earlier fit was told is forgotten.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        model.set_params(**theirs).fit(X, y, sensitive_features=group)
    assert_allclose(model._counted[0], [-25, 425])


def test_bins_that_are_asked_for_after_a_fit_are_of_the_next_one():
    X, y, group = linear_people(4000, 0)
    linear = DPLinearRegression(bounds=(-2, 2), **IN_WIDE)
    about = {"groups": [0, 1], "blind": True, "reach_size": 0.3, "epsilon": 4.0}
    model = DPBarycenterRegressor(linear, **about, **IN_WIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        model.fit(X, y, sensitive_features=group)
        before = model.reach([0.0, 0.3]).error
        model.set_params(n_bins=12)
        assert_array_equal(model.reach([0.0, 0.3]).error, before)
    assert np.max(before) > 0


@pytest.mark.parametrize("wide", [1, 100])
def test_small_tables_bear_wide_bounds_around_a_private_model(wide):
    X, y, group = linear_people(23_000, 1)
    train, test = slice(3000), slice(3000, None)
    facts = {"target_bounds": (50 - 4 * wide, 50 + 4 * wide), "random_state": 0}
    linear = DPLinearRegression(bounds=(-2, 2), **facts)
    model = DPBarycenterRegressor(linear, groups=[0, 1], **facts)
    model.fit(X[train], y[train], sensitive_features=group[train])
    plain = model.estimator_.predict(X[test])
    fair = model.predict(X[test], sensitive_features=group[test])
    assert gap(plain, group[test]) > 0.5 and gap(fair, group[test]) < 0.15
    assert np.mean((fair - plain) ** 2) < 0.7 * np.var(plain)


def test_a_constant_is_left_alone_in_the_part_that_it_reaches():
    X, y, group = linear_people(300, 2)
    linear = DPLinearRegression(bounds=(-2, 2), epsilon=0.01, **IN_WIDE)
    model = DPBarycenterRegressor(linear, groups=[0, 1], **IN_WIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        model.fit(X, y, sensitive_features=group)
    low, high = model.estimator_.prediction_range_
    assert low == high
    fair = model.predict(X, sensitive_features=group)
    assert_allclose(fair, model.estimator_.predict(X).clip(0, 400))


def test_each_column_has_its_own_scale():
    scores, group = people(10_000, 1)
    both = np.hstack([scores, 100 * scores + 3])
    fitted = repair(((-4, -6000), (5, 6000)), output="continuous")
    fitted.fit(both, sensitive_features=group)
    fresh, groups = people(20_000, 2)
    fair = fitted.transform(
        np.hstack([fresh, 100 * fresh + 3]), sensitive_features=groups
    )
    assert max(gap(column, groups) for column in fair.T) < 0.06
    even, stretched = fitted._scales
    assert len(even.knots) == 2 and len(stretched.knots) == CELLS + 1


class Column(RegressorMixin, BaseEstimator):
    """Predicts a column."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]


class Shares(BaseEstimator):
    """Tells the group from another column."""

    _estimator_type = "classifier"

    def fit(self, X, y=None):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        told = 1 / (1 + np.exp(-np.asarray(X)[:, 1]))
        return np.column_stack([1 - told, told])

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)


def table(n, seed):
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=n)
    score = rng.normal(size=n) + 0.8 * group
    told = rng.normal(size=n) + 2.0 * group - 1
    return np.column_stack([score, told]), group


def regressor(bounds, **params):
    params = {"epsilon": 1.0, "random_state": 0, **params}
    return DPBarycenterRegressor(
        FrozenEstimator(Column().fit(None)),
        base_guarantee="public",
        target_bounds=bounds,
        groups=[0, 1],
        **params,
    )


ALL_ROWS = {"calibration_size": "all"}
TOLD = PrivacyGuarantee(0.5, 0.0, "replace_one", "told")
BLIND = {
    "blind": True,
    "group_estimator": FrozenEstimator(Shares().fit(None)),
    "group_guarantee": "public",
}


@pytest.mark.parametrize("params, n_rows", [({}, 1000), (ALL_ROWS, 4000)])
def test_rows_that_are_expected_to_calibrate(params, n_rows, monkeypatch):
    """Of two columns each has half of the epsilon."""
    asked, share = [], _scale.share
    monkeypatch.setattr(_scale, "share", lambda *of: asked.append(of) or share(*of))
    X, group = table(4000, 1)
    frozen = regressor((-9, 9))
    fitted_here = clone(frozen).set_params(estimator=Column(), base_guarantee=TOLD)
    unknown = clone(frozen).set_params(neighboring="add_remove")
    for model in (fitted_here, frozen, unknown):
        model.set_params(**params).fit(X, X[:, 0], sensitive_features=group)
    both = DPBarycenterTransformer(bounds=(-9, 9), groups=[0, 1], random_state=0)
    both.fit(X, sensitive_features=group)
    assert asked == [(n_rows, 1.0), (4000, 1.0), (None, 1.0), (4000, 0.5)]


def test_blind_repairs_bear_wide_bounds():
    X, group = table(10_000, 1)
    fresh, groups = table(30_000, 2)
    fitted = regressor((-100, 100), **BLIND).fit(X, X[:, 0], sensitive_features=group)
    fair = fitted.predict(fresh)
    assert gap(fresh[:, 0], groups) > 0.25 and gap(fair, groups) < 0.08
    assert np.mean((fair - fresh[:, 0]) ** 2) < fresh[:, 0].var()
    assert fitted.n_bins_ == 24
    # Five times as crowded as an even column: that is left, but where groups are known.
    scale, left = Scale.even((-9, 9)), regressor((-8, 8), **BLIND)
    cells = np.histogram(X[:, 0], scale.inverse(np.linspace(0, 1, CELLS + 1)))[0]
    assert 4 < CELLS * ((cells / len(X)) ** 2).sum() < 8
    for model, bins in ((left, 16), (regressor((-8, 8)), 48)):
        assert model.fit(X, X[:, 0], sensitive_features=group).n_bins_ == bins
    assert EVEN.stretched(cells, 0.0, 3.9) is not EVEN
    assert EVEN.stretched(cells, 0.0, 8.0) is EVEN


@pytest.mark.parametrize("params", [{}, BLIND], ids=["aware", "blind"])
def test_predictions_beyond_the_target_are_told_apart(params):
    """Clipped first, a fifth of one group would be an atom at the end."""
    X, group = table(10_000, 1)
    low = np.quantile(X[group == 0, 0], 0.2)
    bounds = (low, low + 6.0)
    assert X[:, 0].min() < low - 6 * _scale.BEYOND
    fresh, groups = table(30_000, 2)
    fitted = regressor(bounds, output="auto" if params else "continuous", **params)
    fitted.fit(X, X[:, 0], sensitive_features=group)
    given = {} if params else {"sensitive_features": groups}
    fair = fitted.predict(fresh, **given)
    assert fair.min() == low and fair.max() <= low + 6.0
    assert_array_equal(fitted.bounds_, [bounds])
    assert_array_equal(fitted._counted, [(low - 0.375, low + 6.375)])
    # Those beyond the room are an atom still.
    assert gap(fair, groups) < 0.1


# --- the window -----------------------------------------------------------------------


def test_ends_that_are_not_told_from_noise():
    counts = np.array([3.0, -5, 4, 900, 2000, 800, -4, 3, 2, 1])
    scale = Scale.even((0.0, 10.0))
    # Room at both ends: a quarter of the three bins between.
    assert significance.told_bins(counts, 9.0, scale) == (2, 7)
    assert significance.told_bins(counts, 1e6, scale) == (0, 10)
    # The first sum above three standard deviations: 10 > 3 sqrt(9 * 1) = 9.
    assert significance.told_bins(np.r_[10.0, counts[1:]], 9.0, scale)[0] == 0
    # 19 > 3 sqrt(9 * 4) = 18 in the fourth from the right.
    assert significance.told_bins(np.r_[counts[:6], 13, 3, 2, 1], 9.0, scale)[1] == 8
    assert significance.told_bins(np.r_[counts[:6], 11, 3, 2, 1], 9.0, scale)[1] == 7
    # What the noise of four bins may hide, 3 sqrt(9 * 4) = 18, is .01 of 540 people for
    # each of the 10 / 3 times that the range is as wide as the three bins.
    few = np.array([3.0, -5, 4, 80, 360, 98, -4, 3, 2, 1])
    assert few.sum() > 540 and significance.told_bins(few, 9.0, scale) == (2, 7)
    # Of fewer people three of the four bins are cut, with 3 sqrt(9 * 3) = 15.6, and of
    # fewer still, where the noise of one is more, none.
    few[4] -= 4
    assert significance.told_bins(few, 9.0, scale) == (2, 8)
    few[4] = 50
    assert significance.told_bins(few, 9.0, scale) == (0, 10)


def test_far_bins_of_wide_bounds_are_beyond():
    """In one fit of five noise sent some people to 11 or 25, where nobody is."""
    scores, group = people(6000, 1)
    fresh, groups = people(6000, 2)
    for seed in range(10):
        fitted = repair((-100, 100), epsilon=0.5, random_state=seed)
        fitted.fit(scores, sensitive_features=group)
        answers = fitted.transform(fresh, sensitive_features=groups)
        assert np.abs(answers).max() < 6


@pytest.mark.parametrize("output", ["continuous", "randomized", "mean"])
def test_scores_beyond_are_moved_as_far_as_the_end(output):
    scores, group = people(10_000, 1, spread=0.2)
    fitted = repair((-4, 4), output=output, n_bins=40, epsilon=0.5)
    with said_of_means(output):
        fitted.fit(scores, sensitive_features=group)
    low, high = fitted._windows[0]
    told = significance.told_bins(
        fitted.counts_[0].sum(axis=0), 3 * fitted._noise_variance, fitted._scales[0]
    )
    ends = score_bins.bin_scores(np.array([low, high]), (-4, 4), 40)
    assert_array_equal(ends, [told[0], told[1] - 1])
    assert -2 < low < -0.6 and 0.9 < high < 2
    ends = np.array([[low], [high]])
    if output == "randomized":
        far = np.linspace(0.01, 0.9, 500)
        codes = np.zeros(500, dtype=int)
        fair = fitted.transform(high + far[:, None], sensitive_features=codes)[:, 0]
        distance = np.abs((fair - far)[:, None] - fitted.transports_[0].grid)
        assert distance.min(axis=1).max() < 1e-12
        return
    for a in range(3):
        codes = np.full(2, a)
        at = fitted.transform(ends, sensitive_features=codes)
        beyond = fitted.transform(ends + [[-0.7], [0.7]], sensitive_features=codes)
        assert_allclose(beyond - at, [[-0.7], [0.7]], atol=1e-12)
    exact = repair((-4, 4), n_bins=40, epsilon=np.inf)
    exact.fit(scores, sensitive_features=group)
    assert_array_equal(exact._windows, [(-4, 4)])
    isotonic = repair((-4, 4), n_bins=40, estimation="isotonic")
    isotonic.fit(scores, sensitive_features=group)
    assert_array_equal(isotonic._windows, [(-4, 4)])


def test_what_noise_hides_in_part_is_cut_in_part():
    """Scores fill a fifth of bounds whose other bins hide more than may be cut.

    All or none of them was cut: three of these fits moved people by half of the
    variance of their scores, and all by .24 in the mean.
    """
    changes = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        group = (rng.random(2250) < 0.3).astype(int)
        scores = rng.normal(0.5 - 0.1 * group, 0.15, 2250).clip(0)[:, None]
        fitted = DPBarycenterTransformer(
            epsilon=0.3, bounds=(0, 5), groups=[0, 1], random_state=seed
        ).fit(scores, sensitive_features=group)
        fair = fitted.transform(scores, sensitive_features=group)
        changes.append(np.mean((fair - scores) ** 2) / np.var(scores[group == 0]))
    assert np.mean(changes) < 0.16 and np.max(changes) < 0.45


def test_noise_far_away_moves_nobody_there():
    scores, group = people(3000, 1, spread=0.1)
    fresh, groups = people(30_000, 2, spread=0.1)
    changes = []
    for margin in (0.25, 100.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(significance, "MARGIN", margin)
            fitted = repair((-4, 4), output="continuous", n_bins=64)
            fitted.fit(scores, sensitive_features=group)
        fair = fitted.transform(fresh, sensitive_features=groups)
        assert gap(fair[:, 0], groups) < 0.12
        changes.append(np.mean((fair - fresh) ** 2))
    assert changes[0] < changes[1] / 2


def test_bins_that_are_parted_are_left_as_they_are():
    """Only noise fills the first two and the last; no bin is cut, nor has room."""
    counts = np.zeros((2, 3, 8))
    counts[0, 1] = [3, -2, 500, 2000, 900, 4, 300, -1]
    masses = np.maximum(counts, 1e-9)
    ends = np.array([-90.0, -80, -70, 0, 1, 2, 3, 70, 80])
    scale = Scale(ends, np.linspace(0, 1, 9))
    kept, cut = blind_numbers.leave_ends(counts, masses, 1.5, scale, True)
    assert_allclose(cut.knots, ends[2:8])
    assert_array_equal(kept, masses[:, :, 2:7])


# --- atoms ----------------------------------------------------------------------------


@pytest.mark.parametrize("mirrored", [False, True])
def test_ends_of_blind_repairs(mirrored):
    """Six cells with the noise of one each, so that they have that of 6 * 1.5 = 9."""

    def left(pooled, scale):
        ends = scale.inverse(np.arange(len(pooled)) / len(pooled))
        counts = np.zeros((2, 3, len(pooled)))
        counts[0, 1] = pooled
        masses = np.maximum(counts, 1e-9)
        if mirrored:
            counts, turned = counts[:, :, ::-1], masses[:, :, ::-1]
            scale = Scale(-scale.knots[::-1], 1 - scale.places[::-1])
            kept, cut = blind_numbers.leave_ends(counts, turned, 1.5, scale)
            kept, knots = kept[:, :, ::-1], -cut.knots[::-1]
        else:
            kept, cut = blind_numbers.leave_ends(counts, masses, 1.5, scale)
            knots = cut.knots
        assert_allclose(cut.places, np.linspace(0, 1, len(knots)))
        first = (ends <= knots[0] + 1e-9).sum() - 1
        assert_array_equal(kept, masses[:, :, first : first + len(knots) - 1])
        return knots

    even = Scale.even((0.0, 10.0))
    counts = np.array([3.0, -5, 2, 900, 2000, 800, -4, 3, 2, 1])
    # Three bins, and a quarter of them at both ends.
    assert_allclose(left(counts, even), [2.25, 3, 4, 5, 6, 6.75])
    # Three standard deviations of two bins, 3 sqrt(9 * 2) = 12.7, are exceeded by 13.
    assert_allclose(left(np.r_[5.0, 8, counts[2:]], even)[0], 0)
    assert_allclose(left(np.r_[5.0, 7, counts[2:]], even)[0], 2.25)
    # What five bins may hide, 3 sqrt(9 * 5) = 20.12, is .02 * 10 / 3 of 301.9 people.
    few = np.array([0.0, 0, 100, 102, 100, 0, 0, 0, 0, 0])
    assert_allclose(left(few, even), [1.25, 2, 3, 4, 5, 5.75])
    # Of fewer four are left out, with 18, and a quarter of four are at both ends.
    few[3] -= 1
    assert_allclose(left(few, even), [1, 2, 3, 4, 5, 6, 7])
    # However wide the range, a fifth at most: the noise of one bin is 9.
    wide = Scale(np.array([0.0, 1, 2, 3, 1000]), np.linspace(0, 1, 5))
    assert_allclose(left(np.array([20.0, 10, 16, 0]), wide), [0, 1, 2, 3, 3.75])
    assert_allclose(left(np.array([20.0, 10, 14, 0]), wide), [0, 1, 2, 3, 5])
    # A wide bin at the end: as wide as its neighbour, or as its people call for.
    for people, width in ((40.0, 1), (300.0, 3 * 300 / 400)):
        knots = left(np.array([500.0, 500, 400, people]), wide)
        assert_allclose(knots[-1] - 3, width + (3 + width) / 4)
    three = Scale(np.array([0.0, 1, 2, 1000]), np.linspace(0, 1, 4))
    assert_allclose(left(np.array([500.0, 400, 40]), three), [0, 1, 2, 3.75])
    # Of two bins neither tells how wide the other is.
    two = Scale(np.array([0.0, 1, 1000]), np.array([0, 0.5, 1]))
    assert_allclose(left(np.array([500.0, 400]), two), [0, 1, 1000])


def test_blind_repairs_are_solved_and_judged_on_what_is_left(monkeypatch):
    """Left out and cut, bins are no longer those of the whole scale."""
    X, group = table(3000, 1)
    fitted = regressor((-100, 100), **BLIND).fit(X, X[:, 0], sensitive_features=group)
    seen = []
    for name in ("solve_levels", "cost"):
        real = getattr(blind_numbers, name)

        def spy(masses, other, scale, *split, real=real):
            seen.append((masses.shape[2], scale.knots))
            return real(masses, other, scale, *split)

        monkeypatch.setattr(blind_numbers, name, spy)
    fitted._blind_levels(0, 0.0)
    (n_bins, knots), judged = seen
    assert n_bins < 24 and len(knots) == n_bins + 1 and np.ptp(knots) < 20
    assert judged[0] == n_bins
    assert_array_equal(judged[1], knots)


def test_maps_of_a_window_on_the_whole_scale():
    """Within as before; beyond, every score moves as far as the end of the window."""
    whole = Scale(np.array([-8.0, 0, 8]), np.array([0, 0.75, 1]))
    window = Scale(np.array([-3.0, -1, 1]), np.linspace(0, 1, 3))
    points = np.linspace(0, 1, 101)
    maps = blind_numbers.LevelMaps(points, np.array([points, points**2, points / 2]))
    widened = maps.widened(window, whole)
    scores = np.linspace(-8, 8, 400)
    inside = scores.clip(-3, 1)
    for region in range(3):
        at = np.full(400, region)
        found = whole.inverse(widened(whole(scores), at))
        moved = window.inverse(maps(window(inside), at)) + scores - inside
        assert_allclose(found, np.clip(moved, -8, 8), atol=0.04)


@pytest.mark.parametrize("bounds", [(-100, 100), (-5, 200)])
def test_noise_far_away_costs_blind_repairs_little(bounds, monkeypatch):
    changes, gaps = [], []
    for seed in range(4):
        X, group = table(3000, seed)
        fresh, groups = table(30_000, 100 + seed)
        fitted = regressor(bounds, **BLIND).set_params(random_state=seed)
        fair = fitted.fit(X, X[:, 0], sensitive_features=group).predict(fresh)
        assert fitted.repair_ == ["repaired"]
        changes.append(np.mean((fair - fresh[:, 0]) ** 2) / fresh[:, 0].var())
        gaps.append(gap(fair, groups))
    assert max(changes) < 1 and np.mean(gaps) < 0.12


def test_exact_counts_of_blind_repairs_keep_their_ends(monkeypatch):
    X, group = table(3000, 1)
    monkeypatch.setattr(blind_numbers, "leave_ends", None)
    fitted = regressor((-100, 100), **BLIND).set_params(epsilon=np.inf)
    fitted.fit(X, X[:, 0], sensitive_features=group)
    assert fitted.repair_ == ["repaired"]


def test_small_atoms():
    counts = np.array([200.0, 300, 340, 300, 200])

    def small(distinct, noise=0.0, variance=0.0, counts=counts):
        return significance.has_small_atoms(distinct, noise, counts, variance)

    assert small(30) and not small(29)
    assert small(60, noise=10) and not small(59, noise=10)
    # Stands out by 100; two standard deviations of chance are 49, .03 of all people 42.
    spiked = counts + [0, 0, 60, 0, 0]
    assert not small(1000, counts=spiked)
    # 100 - 42 = 2 sqrt(1.5 (400 + v)) for v = 160.7.
    assert small(1000, counts=spiked, variance=162.0)
    assert not small(1000, counts=spiked, variance=159.0)
    ends = np.array([300.0, 100, 100, 100, 100])
    assert not small(1000, counts=ends)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_scores_with_many_values_in_a_bin_are_left_unsplit(epsilon):
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 12, size=(10_000, 3)) @ [[0.11], [0.23], [0.37]]
    group = rng.choice(3, 10_000)
    scores = np.round(numbers + 0.5 * group[:, None], 2)
    fitted = repair((-1, 10), epsilon=epsilon).fit(scores, sensitive_features=group)
    assert fitted.output_ == ["continuous"]
    answers = fitted.transform(scores, sensitive_features=group)
    assert len(np.unique(answers)) > 800
    assert gap(answers[:, 0], group) < 0.05 < 0.2 < gap(scores[:, 0], group)
    # A tenth on one value, or few values: bins are split.
    spiked = np.where(rng.random((10_000, 1)) < 0.1, 2.0, scores)
    for other in (spiked, np.round(scores, 0)):
        fitted = repair((-1, 10), epsilon=epsilon).fit(other, sensitive_features=group)
        assert fitted.output_ == ["randomized"]


def test_variance_within_bins():
    """By hand, and of people spread over their bins evenly."""
    lost = significance.lost_in_bins
    assert lost(np.array([50.0, 50]), 0.0, EVEN) == pytest.approx(1 / 4)
    assert lost(np.full(7, 30.0), 0.0, EVEN) == pytest.approx(1 / 49)
    assert lost(np.array([0, 9.0, 0]), 0.0, EVEN) == 1
    assert lost(np.zeros(4), 0.0, EVEN) == 0
    counts = np.array([5.0, 40, 10, 25])
    scale = Scale(np.array([-3.0, 1.0, 2.0, 9.0]), np.array([0.0, 0.25, 0.5, 1.0]))
    ends = np.array([-3.0, 1.0, 2.0, 5.5, 9.0])
    inside = (np.arange(2000) + 0.5) / 2000
    points = ends[:-1, None] + np.diff(ends)[:, None] * inside
    weights = np.broadcast_to(counts[:, None], points.shape)
    mean = np.average(points, weights=weights)
    total = np.average((points - mean) ** 2, weights=weights)
    apart = points - points.mean(axis=1, keepdims=True)
    expected = np.average(apart**2, weights=weights) / total
    assert lost(counts, 0.0, scale) == pytest.approx(expected, rel=1e-5)
    # Three standard deviations are taken off, and what is less is noise.
    noisy = np.where(counts > 0, counts + 6.0, 0.0)
    noisy = np.concatenate([noisy, [6.0, -50.0, 0.0]])
    longer = Scale(np.append(scale.knots, 900.0), np.append(scale.places * 4 / 7, 1.0))
    assert lost(noisy, 4.0, longer) == pytest.approx(expected, rel=1e-5)


def test_how_wide_bins_are_too_wide():
    """1 / 12 of 1 / 12 + 1 / 3, a fifth, with a third in the bins beside one."""
    model, scale = regressor((0, 1)), Scale.even((0.0, 5.0))
    model._noise_variance, model.n_bins_, model._n_public = 1e-12, 5, None
    narrow = np.array([[0.0, 100, 300, 100, 0], [0, 70, 360, 70, 0]])
    wide = np.array([[0.0, 100, 300, 100, 0], [0, 65, 370, 65, 0]])
    assert model._are_wide(wide, scale) and not model._are_wide(narrow, scale)
    # The variance is that of one group's count.
    two, drowned = np.array([[0.0, 152, 148, 0, 0]] * 2), [[0.0, 30, 500, 30, 0]]
    model._noise_variance, model._n_public = 300.0, 600
    assert model._are_wide(two, scale)
    assert not model._are_wide(np.array(drowned), scale)  # as of a constant
    model._noise_variance = 0.0
    assert not model._are_wide(wide, scale)
    model._noise_variance = 1e-12
    assert not model.set_params(n_bins=5)._are_wide(wide, scale)


def test_rounded_scores_in_few_bins_are_not_drawn_anew():
    """Splitting bins as wide as all scores would leave people a lottery."""
    scores, group = people(3000, 1)
    scores = scores.round(2)
    fresh, groups = people(20_000, 2)
    for seed in range(3):
        wide = repair((-60, 60), epsilon=0.1, random_state=seed)
        with pytest.warns(RepairWarning, match="stood back"):
            wide.fit(scores, sensitive_features=group)
        assert wide.output_ == ["continuous"]
        answers = wide.transform(fresh.round(2), sensitive_features=groups)
        assert np.mean((answers - fresh) ** 2) < 0.1
    # In more than two bins a draw helps.
    scores, group = people(10_000, 1)
    scores = scores.round(2)
    narrower = repair((-15, 15), epsilon=0.1).fit(scores, sensitive_features=group)
    assert narrower.output_ == ["randomized"]
    answers = narrower.transform(fresh.round(2), sensitive_features=groups)
    assert np.mean((answers - fresh) ** 2) < fresh.var()
    assert gap(answers[:, 0], groups) < 0.1 < 0.3 < gap(fresh[:, 0], groups)
    # Who asks for a draw, for a number of bins, or for no noise, gets it.
    for params in ({"output": "randomized"}, {"n_bins": 12}, {"epsilon": np.inf}):
        asked = repair((-60, 60), **{"epsilon": 1.0, **params})
        asked.fit(np.round(scores, 0), sensitive_features=group)
        assert asked.output_ == ["randomized"]


@pytest.mark.parametrize("levels", [[-30.0, 30.0], [-4.0, -2.0, 0.0, 2.0, 4.0]])
def test_few_values_far_apart_are_drawn(levels):
    """In few bins as well, but what is between bins is nearly everything."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 3000)
    chosen = rng.random(3000) < 0.2 + 0.5 * group
    at = chosen * rng.integers(1, len(levels), 3000)
    scores = np.array(levels)[at][:, None]
    bounds = (1.1 * min(levels), 1.1 * max(levels))
    drawn = repair(bounds, groups=[0, 1]).fit(scores, sensitive_features=group)
    assert drawn.output_ == ["randomized"] and not drawn.pooled_groups_[0].size
    answers = drawn.transform(scores, sensitive_features=group)
    assert gap(answers[:, 0], group) < 0.12 < 0.3 < gap(scores[:, 0], group)


# --- standing back --------------------------------------------------------------------


def test_has_third_bin():
    """By .03 of all people and three standard deviations, wherever it is."""
    third = significance.has_third_bin
    assert third(np.array([30.0, 0, 70, 900, 0]), 0.0)
    assert not third(np.array([29.0, 0, 71, 900, 0]), 0.0)
    # The standard deviation is 4, and a public number of people is better known.
    for sign in (-1, 1):
        counts = np.array([500.0, 430, 42, 12, 16 + sign])
        assert third(counts, 16.0, 1000)
        assert third(counts, 16.0) == (sign < 0)
        counts[2] = 41.9
        assert not third(counts, 16.0, 1000)
    # Nobody is told where noise reigns.
    assert not third(np.array([-20.0, 30, 25, -15, 20, 10]), 100.0, 50)


def test_bins_in_use():
    assert significance.bins_in_use(np.full(7, 30.0), 0.0) == pytest.approx(7)
    assert significance.bins_in_use(np.array([0, 50.0, 50, 0]), 0.0) == pytest.approx(2)
    assert significance.bins_in_use(np.zeros(5), 0.0) == np.inf
    # Squares less those of the noise and three of their standard deviations.
    counts, variance = np.array([100.0, 50, 0, 0, 0]), 20.0
    lowered = 12_500 - variance * (5 + 3 * 5)
    told = significance.bins_in_use(counts, variance)
    assert told == pytest.approx((150 + 3 * 10) ** 2 / lowered)
    told = significance.bins_in_use(counts, variance, 140)
    assert told == pytest.approx(140**2 / lowered)


@pytest.mark.parametrize("params", [{}, BLIND], ids=["aware", "blind"])
def test_stands_back_where_the_crowd_is_not_told_apart(params):
    X, group = table(1000, 1)
    fresh, groups = table(4000, 2)
    given = {} if params else {"sensitive_features": groups}
    bounds, asked = (-150, 150), {"epsilon": 0.2, **params}
    with pytest.warns(RepairWarning, match=r"stood back.*narrower bounds"):
        fitted = regressor(bounds, **asked).fit(X, X[:, 0], sensitive_features=group)
    assert_allclose(fitted.predict(fresh, **given), fresh[:, 0], atol=1e-6)
    # Bins that are asked for are used if blind; other outputs split their scores.
    twelve = regressor(bounds, n_bins=12, **{**asked, "epsilon": 100})
    if params:
        twelve.fit(X, X[:, 0], sensitive_features=group)
    else:
        with pytest.warns(RepairWarning, match=r"stood back.*more bins"):
            twelve.fit(X, X[:, 0], sensitive_features=group)
        assert twelve.pooled_groups_[0].size
    if not params:
        split = regressor(bounds, output="randomized", **{**asked, "epsilon": 1e5})
        split.fit(X, X[:, 0], sensitive_features=group)
        assert not split.pooled_groups_[0].size


@pytest.mark.parametrize(
    ("params", "enough", "too_few"),
    [
        ({}, [1000, 1000, 63], [1000, 1000, 61]),
        ({}, [1840, 120, 63], [1900, 60, 60]),
        ({}, [442, 442, 29, 29, 29, 29], [460, 452, 22, 22, 22, 22]),
        (BLIND, [1000, 1000, 160], [1000, 1000, 140]),
    ],
    ids=["aware", "one is full", "many", "blind"],
)
def test_how_few_bins_are_too_few(params, enough, too_few):
    """A third bin holds .03 of all, or 2.5 are in use, or 16 / 7 of a blind repair."""
    model = regressor((0, 1), **params)
    model._noise_variance, model.n_bins_, model._n_public = 1e-12, 6, None
    for n_groups in (1, 2):
        counts = np.zeros((n_groups, 6))
        counts[:, : len(enough)] = enough
        assert not model._crowded(counts)
        counts[:, : len(too_few)] = too_few
        assert model._crowded(counts)
        # As many that are asked for are no better; with fewer two are half of them.
        assert model.set_params(n_bins=6)._crowded(counts) == (not params)
        model.set_params(n_bins="auto")
    # The noise is that of all groups' counts.
    if not params:
        model._noise_variance, model._n_public = 50.0, 2000
        counts = np.zeros((2, 6))
        counts[:, :2] = 500, 450
        counts[:, 2] = (60 + 30 - 1) / 2
        assert model._crowded(counts)
        counts[:, 2] = (60 + 30 + 1) / 2
        assert not model._crowded(counts)
        # Of four that are asked for two are half.
        model._noise_variance, model._n_public, model.n_bins_ = 1e-12, None, 4
        for n_bins in ("auto", 4):
            crowded = model.set_params(n_bins=n_bins)._crowded
            assert crowded(np.array([[1000.0, 1000, 61, 0]])) == (n_bins == "auto")


@pytest.mark.parametrize(
    "output, why", [("continuous", "stood back"), ("randomized", "cannot be told")]
)
def test_groups_are_left_alone_where_the_crowd_is_not_told_apart(
    output, why, monkeypatch
):
    monkeypatch.setattr(_scale, "CROWDED", 100.0)  # no scale is stretched
    X, group = table(20_000, 1)
    model = regressor((-150, 150), output=output)
    with pytest.warns(RepairWarning, match=why):
        model.fit(X, X[:, 0], sensitive_features=group)
    assert_array_equal(model.pooled_groups_, [[0, 1]])
    fair = model.predict(X, sensitive_features=group)
    assert_allclose(fair, X[:, 0], atol=1e-6)


def test_what_tells_small_atoms_is_of_all_groups(monkeypatch):
    asked = []

    def recorded(distinct, noise, counts, variance):
        asked.append((counts, variance))
        return False

    monkeypatch.setattr(significance, "has_small_atoms", recorded)
    scores, group = people(3000, 1)
    fitted = repair((-4, 5)).fit(np.round(scores, 1), sensitive_features=group)
    ((counts, variance),) = asked
    assert_array_equal(counts, fitted.counts_[0].sum(axis=0))
    assert variance == pytest.approx(3 * fitted._noise_variance)


@pytest.mark.parametrize("half_width", [11, 13])
def test_blind_repairs_stretch_where_they_would_stand_back(half_width):
    """A twelfth of the bounds holds the scores: too few bins, or a stretched scale."""
    X, group = table(10_000, 1)
    fresh, groups = table(20_000, 2)
    fitted = regressor((-half_width, half_width), **BLIND)
    fitted.fit(X, X[:, 0], sensitive_features=group)
    assert fitted.repair_ == ["repaired"]
    assert gap(fitted.predict(fresh), groups) < 0.1


def test_blind_repairs_find_the_crowd_of_few_rows():
    """By a twentieth of epsilon; a fiftieth drowned."""
    for seed in range(3):
        X, group = table(1500, seed)
        fitted = regressor((-100, 100), **BLIND).set_params(random_state=seed)
        fitted.fit(X, X[:, 0], sensitive_features=group)
        assert fitted.n_bins_ == 24 and fitted.repair_ == ["repaired"]


def test_costs_of_a_blind_repair_are_those_of_scores():
    """On a stretched scale places are no scores: by a sum over points."""
    counts = np.zeros(CELLS)
    counts[3:5] = 400, 600
    scale = Scale.even((0.0, 50.0)).stretched(counts, 0.0)
    masses = np.random.default_rng(0).dirichlet(np.ones(24), size=(2, 1)) / 2
    maps = blind_numbers.solve_levels(masses, 0.0, scale)
    centres = (np.arange(24) + 0.5) / 24
    before = scale.inverse(centres)
    after = scale.inverse(maps(centres, np.zeros(24, dtype=int)))
    mass = masses.sum(axis=(0, 1))
    spread = mass @ (before - mass @ before) ** 2
    assert blind_numbers.cost(masses, maps, scale) == pytest.approx(
        mass @ (after - before) ** 2 / spread
    )
    fine = 1e6 * np.repeat(masses, 4, axis=2) / 4
    measured = blind_numbers.measure(fine, masses, maps, 0.0, scale)
    points = (np.arange(96 * 16) + 0.5) / (96 * 16)
    weights = np.interp(points, centres, mass).reshape(96, 16)
    weights *= (fine.sum(axis=(0, 1)) / weights.sum(axis=1))[:, None]
    moved = scale.inverse(maps(points, np.zeros(96 * 16, int))) - scale.inverse(points)
    expected = weights.ravel() @ moved**2 / weights.sum() / 50.0**2
    assert measured.error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_replay_on_a_stretched_scale(relation):
    """One record crosses the wall by no more than is stated, all else is the same."""
    scores, group = people(6000, 1)
    other, codes = scores.copy(), group.copy()
    if relation == "replace_one":
        other[3], codes[3] = 59.0, (group[3] + 1) % 3
    else:
        other, codes = np.delete(scores, 3, axis=0), np.delete(group, 3)
    wide = repair((-60, 60), neighboring=relation)
    with recording() as first:
        one = clone(wide).fit(scores, sensitive_features=group)
    with recording(replay=first) as second:
        two = clone(wide).fit(other, sensitive_features=codes)
    changed = [
        np.abs(a.exact - b.exact).sum() / a.sensitivity
        for a, b in zip(first.crossings, second.crossings, strict=True)
    ]
    assert len(one._scales[0].knots) == CELLS + 1
    assert changed[0] == changed[2] == 1.0 and changed[1] <= 1.0
    assert one.privacy_ == two.privacy_
    fresh, groups = people(500, 2)
    assert_array_equal(
        one.transform(fresh, sensitive_features=groups),
        two.transform(fresh, sensitive_features=groups),
    )


def test_every_column_says_what_became_of_it(monkeypatch):
    """One column in a crowd that is not told apart, another of like groups."""
    monkeypatch.setattr(_scale, "CROWDED", 100.0)
    X, group = table(2000, 1)
    alike = np.random.default_rng(5).normal(size=(2000, 1))
    both = np.hstack([X[:, :1], alike])
    fitted = DPBarycenterTransformer(
        bounds=((-150, -4), (150, 4)),
        groups=[0, 1],
        output="continuous",
        random_state=0,
    )
    with pytest.warns(RepairWarning) as caught:
        fitted.fit(both, sensitive_features=group)
    said = [str(one.message) for one in caught]
    assert len(said) == 2
    assert "stood back" in said[0] and "cannot be told" in said[1]


@pytest.mark.parametrize("bounds", [(1, 1 + 1e-14), (0, 5e-324), (1e16, 1e16 + 4)])
def test_bounds_with_nothing_between_are_refused(bounds):
    scores, group = people(30, 1)
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises(ValueError, match="further apart"):
        repair(bounds, ledger=ledger).fit(scores, sensitive_features=group)
    assert ledger.total().epsilon == 0
    near = (1, 1 + 1e-8)
    for output in ("continuous", "randomized", "mean"):
        fitted = repair(near, output=output, epsilon=np.inf)
        with said_of_means(output):
            fitted.fit(1 + 1e-10 * scores, sensitive_features=group)
        fair = fitted.transform(1 + 1e-10 * scores, sensitive_features=group)
        assert ((fair >= 1) & (fair <= 1 + 1e-8)).all()
