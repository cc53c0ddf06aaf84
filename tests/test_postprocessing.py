"""The barycenter estimators: what they release, and what comes out repaired."""

import math
import pickle
import re
import warnings
from contextlib import nullcontext
from copy import copy

import numpy as np
import pytest
from _audit import pure_audit
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fairpriv_sklearn._shared.purity import spreads
from fairpriv_sklearn._shared.sensitivity import counts_l1
from fairpriv_sklearn._wall import Rows
from fairpriv_sklearn.accounting import PureEvent
from fairpriv_sklearn.datasets import make_biased_regression
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.mechanisms import DiscreteLaplaceMechanism
from fairpriv_sklearn.metrics import ks_parity_difference, make_fairness_scorer
from fairpriv_sklearn.postprocessing import (
    DPBarycenterRegressor,
    DPBarycenterTransformer,
    RepairWarning,
    _phases,
)
from fairpriv_sklearn.postprocessing import _significance as significance
from fairpriv_sklearn.postprocessing._queries import count_scores
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
)
from fairpriv_sklearn.transport import fair_barycenter

BOUNDS = (-1.0, 1.0)


def scores_of_groups(n=3000, n_groups=3, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(n_groups, size=n)
    scores = np.tanh(rng.normal(loc=group - 1, scale=0.7, size=n))
    return scores.reshape(-1, 1), group


def transformer(**params):
    return DPBarycenterTransformer(
        **{"bounds": BOUNDS, "groups": [0, 1, 2], "random_state": 0, **params}
    )


# --- privacy


records = st.tuples(
    st.floats(-2, 2) | st.sampled_from([-1.0, 1.0, 0.0, math.nextafter(0.5, 1)]),
    st.integers(0, 2),
)


@settings(max_examples=200)
@given(st.lists(records, min_size=1, max_size=30), records, st.integers(2, 40))
def test_counts_never_pass_their_sensitivity(rows, other, n_bins):
    def counts(table):
        scores, codes = map(np.array, zip(*table, strict=True))
        return count_scores(scores, codes, 3, BOUNDS, n_bins)

    full = counts(rows)
    replaced = counts([other, *rows[1:]])
    assert np.abs(full - replaced).sum() <= counts_l1("replace_one")
    added = counts([other, *rows])
    assert np.abs(full - added).sum() == counts_l1("add_remove")
    # The counts do not depend on the order of the rows.
    assert_array_equal(counts(rows[::-1]), full)


def test_counts_reach_their_sensitivity():
    codes, scores = np.array([0, 1]), np.array([-0.9, 0.3])
    before = count_scores(scores, codes, 2, BOUNDS, 10)
    moved = count_scores(np.array([0.9, 0.3]), np.array([1, 1]), 2, BOUNDS, 10)
    assert np.abs(before - moved).sum() == 2


def _released(estimator, scores, groups, n_runs):
    """The log-likelihood ratio of many releases, up to its scale.

    The record leaves cell (0, 0) for cell (1, 1); beyond 0 and 1 the likelihood ratio
    of two-sided geometric noise is flat.
    """
    ratios = []
    for _ in range(n_runs):
        estimator.fit(scores, sensitive_features=groups)
        left, joined = estimator.counts_[0, 0, 0], estimator.counts_[0, 1, 1]
        ratios.append(np.clip(left, 0, 1) - np.clip(joined - 1, 0, 1))
    return np.array(ratios)


@pytest.mark.parametrize("honest", [True, False])
def test_black_box_audit(honest, monkeypatch):
    """2000 fits on a worst-case pair: the claimed epsilon is not contradicted.

    The same audit catches noise that is too small by the square root of two.
    """
    monkeypatch.setattr(DPBarycenterTransformer, "_solve", lambda self: None)
    if not honest:
        honest_init = DiscreteLaplaceMechanism.__init__

        def too_little(self, sensitivity, epsilon):
            honest_init(self, sensitivity, epsilon * math.sqrt(2))

        monkeypatch.setattr(DiscreteLaplaceMechanism, "__init__", too_little)
    # One entropy stream for all runs: a fixed seed, and independent noise.
    stream = np.random.RandomState(12)
    estimator = transformer(
        n_bins=2, groups=[0, 1], random_state=stream, output="randomized"
    )
    outputs = [
        _released(estimator, np.array([[score], [0.5]]), [group, 1], 2000)
        for score, group in ((-0.5, 0), (0.5, 1))
    ]
    bound = pure_audit(*outputs, beyond=1)
    assert (bound <= 1.0) == honest
    # The audit has power: it sees most of an honest epsilon.
    assert bound > 0.6


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_noise_has_the_scale_of_the_relation(relation):
    scores, group = scores_of_groups(n=10)
    estimator = transformer(n_bins=2000, neighboring=relation, epsilon=0.5)
    estimator.fit(scores, sensitive_features=group)
    noise = estimator.counts_.ravel().astype(float)
    assert estimator.counts_.dtype == np.int64
    q = math.exp(-0.5 / counts_l1(relation))
    expected = 2 * q / (1 - q) ** 2
    # 6000 draws of kurtosis 6: the variance is known to about 3 %.
    assert noise.var() == pytest.approx(expected, rel=0.12)


def test_columns_share_the_budget_evenly():
    scores, group = scores_of_groups()
    both = np.hstack([scores, -scores])
    estimator = transformer(bounds=((-1, -2), (1, 2)), epsilon=1.0, output="randomized")
    estimator.fit(both, sensitive_features=group)
    assert estimator.privacy_.events == (PureEvent(0.98), PureEvent(0.02))
    assert estimator.privacy_.epsilon == pytest.approx(1.0)
    assert estimator.counts_.shape == (2, 3, estimator.n_bins_)
    estimator.set_params(n_bins=12).fit(both, sensitive_features=group)
    assert estimator.privacy_.events == (PureEvent(1.0),)
    assert_array_equal(estimator.bounds_, [BOUNDS, (-2, 2)])


def test_number_of_bins_is_a_rule_of_public_numbers():
    scores, group = scores_of_groups()
    assert transformer().fit(scores, sensitive_features=group).n_bins_ == 22
    for n in (200, 3000):
        private_n = transformer(neighboring="add_remove")
        private_n.fit(scores[:n], sensitive_features=group[:n])
        assert private_n.n_bins_ == 36
        assert "3000" not in str(private_n.privacy_)


# --- the repair


def test_without_noise_it_is_the_exact_barycenter():
    """Epsilon infinite and the plain histogram: the textbook answer, bin by bin."""
    scores, group = scores_of_groups()
    estimator = transformer(
        epsilon=np.inf,
        n_bins=12,
        estimation="isotonic",
        output="randomized",
        output_refinement=1,
    ).fit(scores, sensitive_features=group)
    exact = count_scores(scores[:, 0], group, 3, BOUNDS, 12)
    assert_array_equal(estimator.counts_[0], exact)
    centres = -1 + (np.arange(12) + 0.5) / 6
    expected = fair_barycenter(centres, exact, exact.sum(axis=1), 0.0)
    assert_allclose(estimator.transports_[0].target_pmf, expected.target_pmf)
    repaired = estimator.transform(scores, sensitive_features=group)
    assert set(np.round(repaired[:, 0], 9)) <= set(np.round(centres, 9))
    # 1000 random draws per group: differences of CDFs of about 1 / sqrt(1000).
    assert (
        ks_parity_difference(scores[:, 0], repaired[:, 0], sensitive_features=group)
        < 0.07
    )


@pytest.mark.parametrize("estimation", ["smooth", "isotonic"])
@pytest.mark.parametrize("epsilon", [0.5, np.inf])
@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.3])
def test_gap_is_the_tolerance_up_to_estimation(estimation, epsilon, tolerance):
    scores, group = scores_of_groups(n=12_000)
    estimator = transformer(
        epsilon=epsilon, fairness_tolerance=tolerance, estimation=estimation
    ).fit(scores, sensitive_features=group)
    fresh, fresh_group = scores_of_groups(n=12_000, seed=1)
    repaired = estimator.transform(fresh, sensitive_features=fresh_group)[:, 0]
    gap = ks_parity_difference(repaired, repaired, sensitive_features=fresh_group)
    before = ks_parity_difference(
        fresh[:, 0], fresh[:, 0], sensitive_features=fresh_group
    )
    assert before > 0.7
    assert abs(gap - tolerance) < 0.05


def test_tolerance_one_is_the_identity():
    scores, group = scores_of_groups()
    estimator = transformer(fairness_tolerance=1.0).fit(
        scores, sensitive_features=group
    )
    repaired = estimator.transform(scores, sensitive_features=group)
    assert_array_equal(repaired, np.clip(scores, *BOUNDS))


def test_path_is_free_and_monotone():
    scores, group = scores_of_groups()
    estimator = transformer().fit(scores, sensitive_features=group)
    path = estimator.path([0.0, 0.05, 0.2, 0.5, 1.0, "auto"])
    costs = [fitted.transports_[0].objective for fitted in path]
    assert costs[:5] == sorted(costs[:5], reverse=True)
    assert costs[4] == 0.0
    for fitted in path:
        assert fitted.privacy_ is estimator.privacy_
        assert fitted.counts_ is estimator.counts_
    assert 0.01 < path[5].fairness_tolerance_[0] < 0.1
    # The estimator itself is left as it was, and the first step of the path is it.
    assert estimator.fairness_tolerance == 0.0
    assert_array_equal(
        path[0].transform(scores, sensitive_features=group),
        estimator.transform(scores, sensitive_features=group),
    )
    with pytest.raises(ValueError, match="fairness_tolerance"):
        estimator.path([1.5])


def test_solver_cvxpy_gives_the_same_price():
    scores, group = scores_of_groups()
    exact, lp = (
        transformer(
            n_bins=8,
            output="randomized",
            output_refinement=1,
            fairness_tolerance=0.1,
            solver=solver,
        )
        .fit(scores, sensitive_features=group)
        .transports_[0]
        for solver in ("exact", "cvxpy")
    )
    assert lp.objective == pytest.approx(exact.objective, rel=1e-7)
    with pytest.raises(ValueError, match="solver"):
        transformer(solver="nonsense").fit(scores, sensitive_features=group)


def test_same_row_same_answer_whatever_the_batch():
    scores, group = scores_of_groups(n=500)
    estimator = transformer().fit(scores, sensitive_features=group)
    whole = estimator.transform(scores, sensitive_features=group)
    order = np.random.default_rng(0).permutation(500)
    assert len(np.unique(scores)) == 500
    assert_array_equal(
        estimator.transform(scores[order], sensitive_features=group[order]),
        whole[order],
    )
    for i in (0, 17, 499):
        alone = estimator.transform(scores[[i]], sensitive_features=group[[i]])
        assert_array_equal(alone[0], whole[i])


def test_equal_rows_share_the_targets_evenly():
    scores, group = scores_of_groups()
    estimator = transformer(output="randomized").fit(scores, sensitive_features=group)
    many = np.full((1000, 1), 0.3)
    repaired = estimator.transform(many, sensitive_features=np.zeros(1000, int))[:, 0]
    transport = estimator.transports_[0]
    plan = transport.couplings[0]
    point = np.searchsorted(transport.grid, 0.3) - 1
    point = plan.source[np.abs(transport.grid[plan.source] - 0.3).argmin()]
    mine = plan.source == point
    for target, share in zip(
        plan.target[mine], plan.mass[mine] / plan.mass[mine].sum(), strict=True
    ):
        observed = np.mean(repaired == transport.grid[target])
        # A golden-ratio sequence of 1000 points misses a share by a few thousandths.
        assert abs(observed - share) < 0.01


def test_rows_that_are_learnt_from_do_not_depend_on_each_other():
    """Behind fit_transform a private step may follow: no record moves another."""
    scores, group = scores_of_groups(n=300)
    scores[:200], group[:200] = 0.3, 1
    estimator = transformer(output="randomized")
    learnt = estimator.fit_transform(scores, sensitive_features=group)
    assert len(np.unique(learnt[:200])) == 1
    spread = estimator.transform(scores, sensitive_features=group)
    assert len(np.unique(spread[:200])) > 1


def test_nothing_private_is_fitted_on_spread_answers():
    """Breach A1 and A3: refused however the repair is wrapped; pure outputs pass."""
    X, y, group = biased(400)
    named = {"sensitive_features": -1}

    def base(output):
        return regressor(output=output, **named).fit(X, y)

    randomised, kept = base("randomized"), base("continuous")
    bag = BaggingRegressor(randomised, n_estimators=2, random_state=0).fit(X, y)
    voting = VotingRegressor([("a", regressor(output="randomized", **named))])
    wrapped = {
        "frozen": FrozenEstimator(randomised),
        "pickled": FrozenEstimator(pickle.loads(pickle.dumps(randomised))),
        "bag": FrozenEstimator(bag),
        "voting": FrozenEstimator(voting.fit(X, y)),
        "twice": FrozenEstimator(FrozenEstimator(randomised)),
        "step": FrozenEstimator(
            make_pipeline(FunctionTransformer(), randomised).fit(X, y)
        ),
        "called": make_pipeline(FunctionTransformer(randomised.predict), Ridge()),
        "closure": make_pipeline(
            FunctionTransformer(lambda X: randomised.predict(X)[:, None]), Ridge()
        ),
        "union": make_pipeline(
            FeatureUnion([("a", FrozenEstimator(transformer_of(X)))]), Ridge()
        ),
    }
    for name, estimator in wrapped.items():
        outer = regressor(estimator, base_guarantee=GUARANTEE)
        with pytest.raises(ValueError, match='output="continuous"'):
            outer.fit(X, y, sensitive_features=group)
        assert not hasattr(outer, "privacy_"), name
    for estimator in (kept, base("mean")):
        outer = regressor(FrozenEstimator(estimator), base_guarantee=GUARANTEE)
        assert np.isfinite(outer.fit(X, y, sensitive_features=group).privacy_.epsilon)


def transformer_of(X):
    return DPBarycenterTransformer(
        epsilon=50.0,  # noise that hides how many people there are would be warned of
        bounds=(-9, 9),
        groups=[0, 1, 2],
        sensitive_features=-1,
        output="randomized",
    ).fit(X)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_an_owned_randomised_base_scores_each_record_on_its_own(relation):
    X, y, group = biased()
    inner = regressor(
        neighboring=relation,
        sensitive_features=-1,
        output="randomized",
        base_guarantee=None,
    )
    outer = regressor(inner, epsilon=np.inf, neighboring=relation, output="continuous")
    X[:500], y[:500], group[:500] = X[0], y[0], group[0]
    outer.fit(X, y, sensitive_features=group)
    # Identical records get one answer: removing one moves one count by one.
    assert len(np.unique(outer.estimator_.predict(X[:500]))) == 1
    assert outer.estimator_.__fairpriv_row_pure__ and outer.__fairpriv_row_pure__
    assert not clone(outer).set_params(output="randomized").__fairpriv_row_pure__
    thawed = pickle.loads(pickle.dumps(outer.estimator_))
    assert thawed.__fairpriv_row_pure__


def test_the_wrapped_model_is_told_to_share_draws_before_it_is_looked_at(monkeypatch):
    told, rows = [], Rows(2, X=np.zeros((2, 1)), y=np.arange(2.0))
    first = DPBarycenterTransformer(output="randomized", sensitive_features=[0])
    inner = make_pipeline(first, LinearRegression())
    model = _phases.Model("estimator", inner, None, "y", DummyRegressor(), 2, False)
    monkeypatch.setattr(_phases, "fit_wrapped", lambda *_: None)
    monkeypatch.setattr(_phases, "refuse_spreading", lambda m: told.append(spreads(m)))
    monkeypatch.setattr(_phases.Model, "lines", lambda self: ())
    model.learn(None, rows)
    assert spreads(inner) and told == [False]


def test_deterministic_repair_is_the_mean_of_the_random_one():
    scores, group = scores_of_groups()
    random = transformer(output="randomized", n_bins=14)
    random.fit(scores, sensitive_features=group)
    mean = transformer(output="mean", n_bins=14).fit(scores, sensitive_features=group)
    grid = np.repeat(np.linspace(-0.95, 0.95, 9), 2000).reshape(-1, 1)
    zeros = np.zeros(len(grid), int)
    drawn = random.transform(grid, sensitive_features=zeros)[:, 0].reshape(9, 2000)
    fixed = mean.transform(grid, sensitive_features=zeros)[:, 0].reshape(9, 2000)
    assert np.ptp(fixed, axis=1).max() == 0
    assert_allclose(drawn.mean(axis=1), fixed[:, 0], atol=2e-3)
    assert (np.diff(fixed[:, 0]) >= 0).all()


def rounded(scores):
    """Scores in tenths: atoms everywhere."""
    return np.round(scores, 1)


def expected_cdf_gap(estimator, scores, group):
    """KS gap of a randomised output in expectation over its draws, on exact counts."""
    transport = estimator.transports_[0]
    bins = count_scores(
        scores[:, 0], group, 3, tuple(estimator.bounds_[0]), estimator.n_bins_
    )
    centres = np.flatnonzero(transport.source_pmf.sum(axis=0))
    points = transport.source_pmf.shape[1]
    output = np.zeros((3, points))
    for a, plan in enumerate(transport.couplings):
        mass = bins[a] / bins[a].sum()
        of_point = {c: mass[c * estimator.n_bins_ // points] for c in centres.tolist()}
        owned = np.bincount(plan.source, plan.mass, points)
        share = np.array([of_point[c] for c in plan.source.tolist()])
        np.add.at(output[a], plan.target, plan.mass / owned[plan.source] * share)
    return np.ptp(output.cumsum(axis=1), axis=0).max()


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("change", [rounded, lambda scores: scores])
def test_the_tolerance_asked_for_is_kept_without_noise(tolerance, change):
    scores, group = scores_of_groups()
    scores = change(scores)
    asked = {"epsilon": np.inf, "fairness_tolerance": tolerance}
    randomised = transformer(output="randomized", **asked)
    randomised.fit(scores, sensitive_features=group)
    assert expected_cdf_gap(randomised, scores, group) <= tolerance + 1e-9
    continuous = transformer(output="continuous", **asked)
    told = pytest.warns(RepairWarning, match="scores do that crowd or repeat")
    with told if change is rounded else nullcontext():
        repaired = continuous.fit_transform(scores, sensitive_features=group)[:, 0]
    gap = ks_parity_difference(repaired, repaired, sensitive_features=group)
    assert gap <= tolerance + continuous.within_bin_error_[0] + 1e-9
    mean = transformer(output="mean", **asked)
    answers = mean.fit_transform(scores, sensitive_features=group)[:, 0]
    of_bins = ks_parity_difference(answers, answers, sensitive_features=group)
    assert of_bins <= tolerance + mean.within_bin_error_[0] + 1e-9
    if change is not rounded:
        assert gap <= tolerance + 0.03  # 1000 rows a group


def test_the_mean_of_bins_that_hold_many_people_says_so():
    """Scores of two values: half of the gap of before is left, and more."""
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=9000)
    two = (rng.random(9000) < np.array([0.2, 0.5, 0.8])[group]).astype(float)[:, None]
    with pytest.warns(RepairWarning, match="in one bin") as said:
        model = transformer(output="mean").fit(two, sensitive_features=group)
    assert model.repair_notes_ == [str(said[0].message)]
    repaired = model.transform(two, sensitive_features=group)[:, 0]
    before, left = (
        ks_parity_difference(one, one, sensitive_features=group)
        for one in (two[:, 0], repaired)
    )
    assert left > 0.3
    numbers = re.findall(r"\.\d\d", model.repair_notes_[0])
    assert [float(n) for n in numbers] == pytest.approx([left, before], abs=0.03)
    scores, group = scores_of_groups()
    even = transformer(output="mean", epsilon=10.0, n_bins=60)
    even.fit(scores, sensitive_features=group)
    assert even.repair_notes_ == []


@pytest.mark.parametrize(("apart", "stood_back"), [(0.1, True), (0.45, False)])
def test_means_that_would_drive_groups_apart_are_not_answered(apart, stood_back):
    """A gap of .2 became .4: each group's half at zero got an answer of its own."""
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=9000)
    at_zero = rng.random(9000) < np.array([0.5 + apart, 0.5 - apart])[group]
    scores = np.where(at_zero, 0.01, rng.uniform(0.02, 1, 9000))[:, None]
    model = transformer(output="mean", groups=[0, 1], epsilon=10.0, n_bins=20)
    with pytest.warns(RepairWarning, match="answers all"):
        model.fit(scores, sensitive_features=group)
    assert model.repair_notes_[0].startswith("The repair stood back") == stood_back
    repaired = model.transform(scores, sensitive_features=group)
    assert (repaired == scores).all() == stood_back
    before, left = (
        ks_parity_difference(one[:, 0], one[:, 0], sensitive_features=group)
        for one in (scores, repaired)
    )
    assert left <= before + 0.1


@pytest.mark.parametrize("n_bins", [4, 5])
def test_what_means_leave_is_what_they_leave(n_bins):
    """By another way: everybody of a bin, one by one."""
    scores, group = scores_of_groups()
    model = transformer(output="mean", n_bins=n_bins, epsilon=np.inf)
    with pytest.warns(RepairWarning, match="answers all of them alike"):
        answers = model.fit_transform(scores, sensitive_features=group)[:, 0]
    bins = np.digitize(scores[:, 0], np.linspace(-1, 1, n_bins + 1)[1:-1])
    stated = model._gaps_of_means(0)
    for one, told in zip((answers, bins + 0.5), stated, strict=True):
        gap = ks_parity_difference(one, one, sensitive_features=group)
        assert gap == pytest.approx(told)


@pytest.mark.parametrize(
    ("masses", "size", "peaked"),
    [
        ([0.1, 0.6, 0.1, 0.1, 0.1], 1e9, True),  # .5 and, at the end, .05
        ([0.1, 0.55, 0.15, 0.1, 0.1], 1e9, False),  # .425 and .05
        # As atoms that a bin without any parts, and in bins side by side.
        ([0.0, 0.5, 0.0, 0.5, 0.0], 1e9, True),
        ([0.0, 0.5, 0.5, 0.0, 0.0], 1e9, False),
        # Two standard deviations are taken off, 2 sqrt(1.5 * .8 / n) of .7.
        ([0.0, 0.8, 0.2, 0.0, 0.0], 121, True),
        ([0.0, 0.8, 0.2, 0.0, 0.0], 118, False),
        ([0.0, 0.8, 0.2, 0.0, 0.0], -3, False),
    ],
)
def test_half_of_a_group_in_bins_that_stand_out(masses, size, peaked):
    # Each group by itself: that it is even adds nothing, nor another to itself.
    groups = np.array([np.full(5, 0.2), masses, masses])
    sizes = np.array([1e9, size, size])
    assert significance.are_peaked(groups, sizes) == peaked


def test_all_in_one_bin_may_differ_by_one_and_no_more():
    group = np.arange(300) % 3
    model = transformer(output="continuous", epsilon=np.inf)
    with pytest.warns(RepairWarning, match="a gap of up to 1.00 may remain"):
        model.fit(np.full((300, 1), 0.01), sensitive_features=group)
    assert model.within_bin_error_ == [1.0]


def test_groups_that_are_hardly_moved_are_not_told_what_bins_leave():
    scores = np.repeat([-0.5, 0.1, 0.5], 600)[:, None]
    group = np.arange(1800) % 3
    model = transformer(output="continuous", epsilon=3.0, n_bins=9)
    with pytest.warns(RepairWarning, match="it cannot be told whether"):
        model.fit(scores, sensitive_features=group)
    assert len(model.pooled_groups_[0]) == 3 and len(model.repair_notes_) == 1
    masses, sizes = model._bin_masses(0), model.counts_[0].sum(axis=1)
    assert significance.are_peaked(masses, sizes)


def test_of_scores_that_nobody_moves_no_bin_is_said_to_leave_a_gap():
    """As of .00, and, of means, that all of a bin are answered alike."""
    group = np.arange(1800) % 3
    alike = np.repeat([-0.5, 0.1, 0.5], 600)[:, None]
    apart = 0.45 * ((2 * group + np.arange(1800) // 600) % 5 - 2)[:, None]
    means = transformer(output="mean", epsilon=3.0, n_bins=9)
    asked = transformer(output="continuous", fairness_tolerance=1.0, n_bins=9)
    for model, scores, n_notes in ((means, alike, 1), (asked, apart, 0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            repaired = model.fit_transform(scores, sensitive_features=group)
        assert_array_equal(repaired, scores)
        assert len(model.repair_notes_) == n_notes
        assert not any("bin" in note for note in model.repair_notes_)
        masses, sizes = model._bin_masses(0), model.counts_[0].sum(axis=1)
        assert significance.are_peaked(masses, sizes)


def test_a_group_that_crowds_in_one_bin_is_told():
    """A gap of .96 fell to .5 and no further, in silence."""
    rng = np.random.default_rng(0)
    group = (rng.random(9000) < 1 / 9).astype(int)
    scores = np.where(group == 1, np.exp(rng.normal(-3, 0.8, 9000)), 0.0)
    scores = np.where(group == 0, rng.uniform(0, 10, 9000), scores)[:, None]
    model = transformer(bounds=(0, 10), groups=[0, 1], n_bins=30)
    with pytest.warns(RepairWarning, match="stand out") as said:
        model.fit(scores, sensitive_features=group)
    repaired = model.transform(scores, sensitive_features=group)[:, 0]
    left = ks_parity_difference(repaired, repaired, sensitive_features=group)
    assert 0.4 < left < model.within_bin_error_[0] <= 1.0
    stated = f"a gap of up to {model.within_bin_error_[0]:.2f} may remain"
    assert stated in str(said[0].message)
    # The one that crowds is given more bins.
    finer = transformer(bounds=(0, 10), groups=[0, 1], n_bins=2000, epsilon=10.0)
    finer.fit(scores, sensitive_features=group)
    assert finer.repair_notes_ == []
    repaired = finer.transform(scores, sensitive_features=group)[:, 0]
    assert ks_parity_difference(repaired, repaired, sensitive_features=group) < 0.1


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_a_group_of_nobody_keeps_no_repair_back(epsilon):
    """Its error was that of all: scores of few values were left as they were."""
    rng = np.random.default_rng(0)
    group = (np.arange(6000) % 3 == 0).astype(int)
    scores = np.rint(rng.normal(size=(6000, 1)) * 5 - group[:, None]) / 20
    repair = transformer(groups=[0, 1, 2], epsilon=epsilon, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        repair.fit(scores, sensitive_features=group)
    assert repair.output_ == ["randomized"]
    repaired = repair.transform(scores, sensitive_features=group)[:, 0]
    before, after = (
        ks_parity_difference(one, one, sensitive_features=group)
        for one in (scores[:, 0], repaired)
    )
    assert before > 0.05 > after and "hardly" not in "".join(repair.repair_notes_)


@pytest.mark.parametrize("grain", [0.0, 0.05])
def test_a_gap_that_may_be_left_is_said(grain):
    """Nothing was said of a few hundred people who differed, but not clearly enough."""
    told = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        group = (np.arange(6000) % 20 == 0).astype(int)
        scores = rng.normal(size=(6000, 1)) / 4 - group[:, None] / 20
        if grain:
            scores = grain * np.rint(scores / grain)
        estimator = transformer(groups=[0, 1], epsilon=1.0, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            estimator.fit(scores, sensitive_features=group)
        repaired = estimator.transform(scores, sensitive_features=group)
        left = np.abs(repaired - scores)[group == 1].mean() < 0.015
        notes = estimator.repair_notes_
        told.append((left, "hardly moved" in "".join(notes)))
        assert not notes or re.search(r"They may by up to 0\.1\d, ", notes[0])
    # Those that are left are spoken of, and no others.
    assert (
        all(left == said for left, said in told) and 2 <= sum(s for _, s in told) < 12
    )


@pytest.mark.parametrize("n_last", [0, 12])
def test_a_group_that_noise_hides_does_not_say_how_far_others_differ(n_last):
    """Groups of thousands might differ by 1.00 as long as the list had an empty one."""
    group = np.arange(6000) % 2
    group[:n_last] = 2
    scores = np.random.default_rng(0).normal(size=(6000, 1)) / 4
    estimator = transformer(epsilon=1.0, groups=[0, 1, 2], random_state=0)
    with pytest.warns(RepairWarning) as caught:
        estimator.fit(scores, sensitive_features=group)
    first, second = estimator.repair_notes_
    assert re.search(r"groups \[0, 1\] differ; .* They may by up to 0\.0\d,", first)
    assert "hides even how many people there are of the groups [2]:" in second
    assert len(caught) == 2


def test_groups_that_are_hardly_moved_are_not_said_to_be_repaired():
    """Two groups alike beside a list's empty third: one of them was said to be both."""
    group, left = np.arange(1500) % 2, 0
    for seed in range(12):
        scores = np.random.default_rng(seed).normal(size=(1500, 1)) / 4
        scores -= 0.03 * group[:, None]
        estimator = transformer(epsilon=0.3, groups=[0, 1, 2], random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            estimator.fit(scores, sensitive_features=group)
        said = [
            words in "".join(estimator.repair_notes_)
            for words in ("are repaired as those of all", "hardly moved")
        ]
        assert sum(said) < 2
        left += said[1]
    assert left > 6


@pytest.mark.parametrize("epsilon, n_groups, least", [(1.0, 3, 8), (0.1, 6, 10)])
@pytest.mark.parametrize("grain", [0.0, 0.05])
def test_large_groups_that_do_not_differ_are_left_alone(
    grain, epsilon, n_groups, least
):
    """What chance makes is not believed, and a warning says by what they may differ."""
    left = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scores, group = rng.normal(size=(6000, 1)) / 4, np.arange(6000) % n_groups
        if grain:
            scores = grain * np.rint(scores / grain)
        estimator = transformer(
            epsilon=epsilon, groups=range(n_groups), random_state=seed
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator.fit(scores, sensitive_features=group)
        repaired = estimator.transform(scores, sensitive_features=group)
        left.append(np.abs(repaired - scores.clip(-1, 1)).max() < 1e-9)
        if estimator.pooled_groups_[0].size:
            assert len(estimator.pooled_groups_[0]) == n_groups and left[-1]
            said = r"cannot be told .* differ; .* by up to 0\.\d\d, .* hardly moved\.$"
            assert re.search(said, str(caught[0].message)) and len(caught) == 1
        assert estimator.output_ == ["randomized" if grain else "continuous"]
    # Doubted one by one, six groups were left in four and in six fits of twelve.
    assert sum(left) >= least


def test_a_constant_is_left_alone_in_wide_bounds():
    """Noise beside its bin is no difference between groups, and bins are wide."""
    group = np.arange(10_000) % 3
    for seed in range(8):
        scores = np.full((10_000, 1), np.random.default_rng(seed).normal())
        estimator = transformer(bounds=(-60, 60), random_state=seed)
        repaired = estimator.fit_transform(scores, sensitive_features=group)
        assert estimator.output_ == ["randomized"]
        np.testing.assert_array_equal(repaired, scores)


@pytest.mark.parametrize("output", ["continuous", "randomized"])
def test_groups_that_noise_drowns_are_not_moved_apart(output):
    """Equal groups of few people: the repair stands back and says so."""
    scores = np.random.default_rng(0).normal(size=(120, 1)) / 4
    group = np.arange(120) % 3
    estimator = transformer(epsilon=0.3, output=output)
    with pytest.warns(RepairWarning, match=r"whether the groups \[0, 1, 2\] differ;"):
        estimator.fit(scores, sensitive_features=group)
    assert estimator.pooled_groups_[0].tolist() == [0, 1, 2]
    grid = np.linspace(-0.9, 0.9, 50).reshape(-1, 1)
    if output == "continuous":
        answers = [
            estimator.transform(grid, sensitive_features=np.full(50, a))
            for a in range(3)
        ]
    else:
        points = np.repeat(np.arange(estimator.transports_[0].grid.size), 5)
        draws = np.tile([0.1, 0.3, 0.5, 0.7, 0.9], len(points) // 5)
        answers = [
            estimator.transports_[0].transport(np.full(len(points), a), points, draws)
            for a in range(3)
        ]
        # a plan that all groups share would do nothing but round to bins
        repaired = estimator.transform(grid, sensitive_features=np.arange(50) % 3)
        assert_array_equal(repaired, grid)
    assert_allclose(answers[0], answers[1])
    assert_allclose(answers[0], answers[2])


@pytest.mark.parametrize("tolerance", [0.0, 0.1, "auto"])
def test_continuous_output(tolerance):
    """Increasing, the same in every batch, and as many values as scores."""
    scores, group = scores_of_groups(n=6000)
    estimator = transformer(output="continuous", fairness_tolerance=tolerance)
    estimator.fit(scores, sensitive_features=group)
    repaired = estimator.transform(scores, sensitive_features=group)[:, 0]
    assert len(np.unique(repaired)) == len(np.unique(scores))
    for a in range(3):
        mine = repaired[group == a][np.argsort(scores[group == a, 0])]
        assert (np.diff(mine) > 0).all()
    for i in (0, 4711):
        alone = estimator.transform(scores[[i]], sensitive_features=group[[i]])
        assert alone[0, 0] == repaired[i]
    twins = estimator.transform(
        np.full((9, 1), 0.3), sensitive_features=np.ones(9, int)
    )
    assert len(np.unique(twins)) == 1
    # Unseen scores, and ones outside the bounds, have an answer.
    beyond = estimator.transform([[-7.0], [7.0]], sensitive_features=[0, 0])
    assert (np.abs(beyond) <= 1).all()


def test_auto_output_tells_atoms_from_noisy_numbers():
    scores, group = scores_of_groups()
    both = np.hstack([scores, rounded(scores)])
    for relation in ("replace_one", "add_remove"):
        for seed in range(5):
            estimator = transformer(neighboring=relation, random_state=seed)
            estimator.fit(both, sensitive_features=group)
            assert estimator.output_ == ["continuous", "randomized"]
            assert estimator.privacy_.epsilon == pytest.approx(1.0)
    assert [event.epsilon for event in estimator.privacy_.events] == pytest.approx(
        [0.93, 0.05, 0.02]
    )
    assert not estimator.__fairpriv_row_pure__
    for output in ("continuous", "mean"):
        pure = transformer(output=output).fit(both, sensitive_features=group)
        assert pure.__fairpriv_row_pure__
        assert pure.privacy_.events == (PureEvent(0.98), PureEvent(0.02))


@pytest.mark.parametrize("wrong", [{"solver": "nonsense"}, {"bounds": (-1e200, 1e200)}])
def test_cheap_mistakes_cost_nothing(wrong):
    """Breach A16: found before the reserve."""
    scores, group = scores_of_groups(n=50)
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        transformer(ledger=ledger, **wrong).fit(scores, sensitive_features=group)
    assert ledger.spends() == []


def test_old_names_say_the_new_ones():
    with pytest.raises(TypeError, match="'randomized' is now 'output'"):
        DPBarycenterTransformer(randomized=True)
    with pytest.raises(TypeError, match="'bounds' is now 'target_bounds'"):
        DPBarycenterRegressor(Ridge(), bounds=(0, 1))


def test_unknown_group_is_repaired_as_the_pooled_population():
    scores, group = scores_of_groups(n=9000)
    estimator = transformer(handle_unknown="pooled").fit(
        scores, sensitive_features=group
    )
    everyone = estimator.transform(scores, sensitive_features=np.full(9000, 7))[:, 0]
    known = estimator.transform(scores, sensitive_features=group)[:, 0]
    pooled = np.concatenate([known, everyone])
    side = np.repeat([0, 1], 9000)
    assert ks_parity_difference(pooled, pooled, sensitive_features=side) < 0.05


def test_names_of_the_repaired_columns():
    pandas = pytest.importorskip("pandas")
    scores, group = scores_of_groups(n=100)
    frame = pandas.DataFrame({"risk": scores[:, 0], "g": group, "gain": -scores[:, 0]})
    estimator = transformer(sensitive_features="g").set_output(transform="pandas")
    repaired = estimator.fit(frame).transform(frame)
    assert list(repaired.columns) == ["risk", "gain"]


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ((1, -1), "low"),
        ((0, 0), "low < high"),
        ((0, np.inf), "finite"),
        ((0, 1, 2), "tuple"),
        ([(0, 1), (0, 1)], "tuple"),
    ],
)
def test_bounds_are_checked(bounds, match):
    scores, group = scores_of_groups(n=10)
    with pytest.raises(ValueError, match=match):
        transformer(bounds=bounds).fit(scores, sensitive_features=group)


def test_bounds_from_the_data_leak_and_say_so():
    scores, group = scores_of_groups(n=50)
    for table in (scores, np.zeros_like(scores)):
        with pytest.warns(PrivacyLeakWarning, match="bounds"):
            fitted = transformer(bounds=None).fit(table, sensitive_features=group)
        assert fitted.privacy_.conditional_on == ("bounds",)
        assert np.isfinite(fitted.transform(table, sensitive_features=group)).all()


# --- the regressor


GUARANTEE = PrivacyGuarantee(
    epsilon=2.0, delta=1e-6, neighboring="replace_one", mechanism="a private regressor"
)


def biased(n=4000):
    """A regression whose features tell the group."""
    X, y, group = make_biased_regression(n_samples=n, random_state=0)
    return np.column_stack([X, group]), y, group


def regressor(estimator=None, **params):
    estimator = Ridge() if estimator is None else estimator
    public = {"target_bounds": (-6, 6), "groups": [0, 1, 2], "random_state": 0}
    return DPBarycenterRegressor(estimator, **{**public, **params})


def voting(estimator):
    return VotingRegressor([("one", estimator)])


def test_regressor_is_fair_and_useful():
    X, y, group = biased()
    fitted = regressor().fit(X, y, sensitive_features=group)
    fair = fitted.predict(X, sensitive_features=group)
    plain = fitted.estimator_.predict(X)
    gap = ks_parity_difference(y, fair, sensitive_features=group)
    assert gap < 0.35 * ks_parity_difference(y, plain, sensitive_features=group)
    constant_error = np.var(y)
    assert np.mean((fair - y) ** 2) < 0.8 * constant_error
    score = fitted.score(X, y, sensitive_features=group)
    assert score == pytest.approx(1 - np.mean((fair - y) ** 2) / constant_error)


def test_uncovered_base_makes_the_whole_uncovered():
    X, y, group = biased(400)
    guarantee = regressor().fit(X, y, sensitive_features=group).privacy_
    assert guarantee.epsilon == np.inf
    assert guarantee.uncovered == ("estimator",)
    (split,) = guarantee.events
    own = math.fsum(event.epsilon for event in split.left)
    assert own == pytest.approx(1.0) and split.right == ()


@pytest.mark.filterwarnings("ignore::fairpriv_sklearn.privacy.PrivacyLeakWarning")
def test_a_model_that_would_spread_twins_is_wrapped_as_one_that_does_not():
    X, y, group = biased(400)
    inner = regressor(DummyRegressor(), sensitive_features=-1)
    assert spreads(inner)
    fitted = regressor(inner).fit(X, y, sensitive_features=group)
    assert not spreads(fitted.estimator_)
    assert isinstance(fitted.estimator_, DPBarycenterRegressor)


def test_public_base_costs_nothing():
    X, y, group = biased(400)
    base = FrozenEstimator(Ridge().fit(X, y))
    fitted = regressor(base, base_guarantee="public")
    fitted.fit(X, y, sensitive_features=group)
    assert fitted.privacy_.epsilon == pytest.approx(1.0)
    assert any("public data only" in fact for fact in fitted.privacy_.assumptions)


def test_only_a_fitted_base_is_public():
    X, y, group = biased(400)
    with pytest.raises(ValueError, match="pass it in a FrozenEstimator"):
        regressor(base_guarantee="public").fit(X, y, sensitive_features=group)


def test_split_rows_cost_the_maximum_and_frozen_models_the_sum():
    X, y, group = biased(400)
    split = regressor(base_guarantee=GUARANTEE).fit(X, y, sensitive_features=group)
    assert split.privacy_.epsilon == pytest.approx(2.0)
    assert split.privacy_.delta == 1e-6
    frozen = FrozenEstimator(Ridge().fit(X, y))
    both = regressor(frozen, base_guarantee=GUARANTEE)
    both.fit(X, y, sensitive_features=group)
    assert both.privacy_.epsilon == pytest.approx(3.0, rel=1e-3)
    # All rows calibrate.
    assert both.counts_.sum() > split.counts_.sum() * 2.5


class PrivateRidge(Ridge):
    """A regressor with a guarantee, as ours have."""

    def fit(self, X, y):
        super().fit(X, y)
        self.privacy_ = GUARANTEE
        return self


def private_linear(**params):
    public = {"bounds": (-9, 9), "target_bounds": (-9, 9), "random_state": 0}
    budget = {"epsilon": 2.0, "delta": 1e-6}
    return DPLinearRegression(**{**budget, **public, **params})


def test_guarantees_of_wrapped_models_are_known_before_they_are_fitted():
    X, y, group = biased(400)
    fitted = private_linear().fit(X, y)
    for base in (
        private_linear(),
        make_pipeline(FunctionTransformer(np.tanh), private_linear()),
        FrozenEstimator(fitted),
        FrozenEstimator(PrivateRidge().fit(X, y)),
    ):
        guarantee = regressor(base).fit(X, y, sensitive_features=group).privacy_
        frozen = isinstance(base, FrozenEstimator)
        assert guarantee.epsilon == pytest.approx(3.0 if frozen else 2.0, rel=0.03)
        assert not guarantee.uncovered
    # What a model says of itself only after the fit is not known before it.
    unknown = regressor(PrivateRidge()).fit(X, y, sensitive_features=group)
    assert unknown.privacy_.uncovered == ("estimator",)


def test_scaler_fitted_on_the_data_leaves_the_whole_uncovered():
    X, y, group = biased(400)
    base = make_pipeline(StandardScaler(), private_linear())
    guarantee = regressor(base).fit(X, y, sensitive_features=group).privacy_
    assert guarantee.epsilon == np.inf
    assert any("scaler" in step for step in guarantee.uncovered)


def test_relations_do_not_mix():
    X, y, group = biased(400)
    with pytest.raises(ValueError, match="neighbour"):
        regressor(base_guarantee=GUARANTEE, neighboring="add_remove").fit(
            X, y, sensitive_features=group
        )


def test_ledger_pays_for_what_this_fit_costs():
    X, y, group = biased(400)
    frozen = FrozenEstimator(PrivateRidge().fit(X, y))
    for base, expected in ((private_linear(), 2.0), (frozen, 1.0), (Ridge(), 1.0)):
        ledger = PrivacyLedger(epsilon=10, delta=1e-3)
        regressor(base, ledger=ledger).fit(X, y, sensitive_features=group)
        (spend,) = ledger.spends()
        assert spend["epsilon"] == pytest.approx(expected, rel=1e-3)
        assert spend["label"] == "DPBarycenterRegressor"


def test_each_step_without_a_ledger_is_charged():
    """Breach A4: a step's own ledger pays for that step only."""
    X, y, group = biased(400)
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-5)
    repair = DPBarycenterTransformer(
        epsilon=3.0, bounds=(-9, 9), groups=[0, 1, 2], sensitive_features=-1
    )
    base = make_pipeline(repair, private_linear(epsilon=0.5, ledger=ledger))
    fitted = regressor(base, epsilon=0.5, ledger=ledger)
    fitted.fit(X, y, sensitive_features=group)
    assert fitted.privacy_.epsilon > 3.0
    # Composed at the larger delta of the ledger, a little below the sum of 3.5.
    assert ledger.total().epsilon > 3.4


class Counting(Ridge):
    """Knows how often it was fitted."""

    fits = 0

    def fit(self, X, y):
        Counting.fits += 1
        return super().fit(X, y)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_an_exhausted_ledger_is_asked_before_anything_else(relation):
    """Breach A22: the same refusal for every table, and no wrapped fit is run."""
    X, y, group = biased(400)
    ledger = PrivacyLedger(epsilon=1e-3, delta=1e-9)
    Counting.fits = 0
    said = set()
    for n in (1, 2, 3, 400):
        for seed in range(5):
            model = regressor(
                Counting(),
                ledger=ledger,
                neighboring=relation,
                calibration_size=0.9,
                random_state=seed,
            )
            with pytest.raises(BudgetExceededError) as refused:
                model.fit(X[:n], y[:n], sensitive_features=group[:n])
            said.add(str(refused.value))
    assert Counting.fits == 0 and len(said) == 1


def test_wrapped_models_say_nothing_about_private_rows():
    """Breach A7: neither warnings nor the text of exceptions leave a fit."""
    X, y, group = biased(400)

    class Talkative(Ridge):
        def predict(self, X):
            if (X[:, 0] > 8).any():
                warnings.warn("a record above 8", UserWarning, stacklevel=1)
            if (X[:, 0] > 80).any():
                raise KeyError("HIV-positive: John Doe")
            return super().predict(X)

    base = FrozenEstimator(Talkative().fit(X, y))
    outer = regressor(base, base_guarantee="public")
    X[5, 0] = 9.0
    outer.fit(X, y, sensitive_features=group)  # warnings are errors in the tests
    X[5, 0] = 99.0
    with pytest.raises(ValueError, match="refused the rows") as refused:
        outer.fit(X, y, sensitive_features=group)
    assert "John" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__context__ is None


@pytest.mark.parametrize("inner", [(0, None), (0, (-5, 5)), (np.array([-6]), None)])
def test_private_models_inside_are_told_the_range_of_the_target(inner):
    """They would read it from their rows, and nobody be warned."""
    X, y, group = biased(400)
    low, own = inner
    own_range = {"bounds": (-9, 9), "target_bounds": own}
    model = make_pipeline("passthrough", DPLinearRegression(**own_range))
    outer = regressor(model, target_bounds=(low, 6)).fit(X, y, sensitive_features=group)
    told = own or (float(np.ravel(low)[0]), 6.0)
    assert outer.estimator_[-1].target_bounds == told
    assert not outer.privacy_.conditional_on
    assert model[-1].target_bounds == own


@pytest.mark.parametrize("wrap", [TransformedTargetRegressor, voting])
def test_what_models_further_inside_read_is_warned_of(wrap):
    X, y, group = biased(400)
    outer = regressor(wrap(DPLinearRegression(bounds=(-9, 9))))
    with pytest.warns(PrivacyLeakWarning, match=r"conditional on .*: target_bounds\."):
        outer.fit(X, y, sensitive_features=group)
    assert outer.privacy_.conditional_on == ("target_bounds",)


@pytest.mark.parametrize("blind", [False, True])
def test_fitted_models_that_miss_the_column_of_the_groups_say_so(blind):
    pd = pytest.importorskip("pandas")
    X, y, group = biased(400)
    frame = pd.DataFrame(X).add_prefix("x").assign(group=group)
    base = FrozenEstimator(Ridge().fit(frame, y))
    ledger = PrivacyLedger(9.0, 0.1)
    outer = regressor(base, base_guarantee="public", ledger=ledger, blind=blind)
    outer.set_params(sensitive_features="group")
    with pytest.raises(ValueError, match="taken out of the table before it"):
        outer.fit(frame, y)
    assert not ledger.spends()
    # Of another column nothing is said.
    outer.estimator = FrozenEstimator(Ridge().fit(frame.drop(columns="group"), y))
    with pytest.raises(ValueError, match="refused the rows"):
        outer.fit(frame.drop(columns="x1"), y)


def test_coins_do_not_look_at_the_rows():
    """Replacing a record moves no other record between the phases."""
    X, y, group = biased(400)
    seen = []

    class Recorder(DummyRegressor):
        def fit(self, X, y):
            seen.append(X.copy())
            return super().fit(X, y)

    for record in (X[0], X[1]):
        table = X.copy()
        table[7] = record
        regressor(Recorder()).fit(table, y, sensitive_features=group)
    first, second = seen
    assert first.shape == second.shape
    assert (first != second).any(axis=1).sum() <= 1


def test_add_remove_scores_in_blocks_of_one_size():
    X, y, group = biased(900)
    sizes = set()

    class Recorder(Ridge):
        def predict(self, X):
            sizes.add(len(X))
            return super().predict(X)

    fitted = regressor(Recorder(), neighboring="add_remove")
    fitted.fit(X, y, sensitive_features=group)
    predictions = fitted.predict(X, sensitive_features=group)
    assert sizes == {256}
    assert predictions.shape == (900,)
    assert fitted.privacy_.neighboring == "add_remove"


def test_text_and_named_columns_reach_the_wrapped_pipeline():
    pandas = pytest.importorskip("pandas")
    from sklearn.preprocessing import OneHotEncoder

    X, y, group = biased(600)
    town = np.where(X[:, 0] > 0, "north", "south")
    frame = pandas.DataFrame({"town": town, "group": group})
    base = make_pipeline(OneHotEncoder(categories=[["north", "south"]]), Ridge())
    fitted = regressor(base, sensitive_features="group").fit(frame, y)
    assert fitted.estimator_[0].n_features_in_ == 1
    assert fitted.n_features_in_ == 2
    again = fitted.predict(frame.iloc[::-1])
    # Rows that are alike share their targets in order of appearance.
    assert np.sort(again).tolist() == np.sort(fitted.predict(frame)).tolist()


def test_routed_sensitive_features_reach_a_base_that_asks():
    X, y, group = biased(600)
    inner = DPBarycenterTransformer(
        bounds=(-4, 4), groups=[0, 1, 2], random_state=0, epsilon=5.0
    )
    with config_context(enable_metadata_routing=True):
        base = make_pipeline(inner, LinearRegression())
        fitted = regressor(base).fit(X, y, sensitive_features=group)
        predictions = fitted.predict(X, sensitive_features=group)
    assert np.isfinite(predictions).all()
    assert fitted.privacy_.uncovered


def test_fairness_scorer_hands_the_groups_to_predict():
    X, y, group = biased(800)
    fitted = regressor().fit(X, y, sensitive_features=group)
    scorer = make_fairness_scorer(ks_parity_difference)
    gap = ks_parity_difference(
        y, fitted.predict(X, sensitive_features=group), sensitive_features=group
    )
    assert scorer(fitted, X, y, sensitive_features=group) == pytest.approx(-gap)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"estimator": StandardScaler()}, ValueError, "estimator"),
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"calibration_size": 1.0}, ValueError, "calibration_size"),
        ({"base_guarantee": 1.0}, ValueError, "base_guarantee"),
        ({"fairness_tolerance": -0.1}, ValueError, "fairness_tolerance"),
        ({"ledger": "budget"}, ValueError, "ledger"),
    ],
)
def test_odd_arguments_raise(change, error, match):
    X, y, group = biased(100)
    with pytest.raises(error, match=match):
        regressor().set_params(**change).fit(X, y, sensitive_features=group)


def test_odd_targets_raise():
    X, y, group = biased(100)
    with pytest.raises(ValueError, match="requires y"):
        regressor().fit(X, None, sensitive_features=group)
    with pytest.raises(ValueError, match="NaN"):
        regressor().fit(X, np.full(100, np.nan), sensitive_features=group)
    with pytest.raises(ValueError, match="one number per row"):
        regressor(FrozenEstimator(Ridge().fit(X, X))).fit(
            X, y, sensitive_features=group
        )


def test_a_phase_without_rows_is_legal():
    """Breach A8: no exception tells how the random split fell."""
    X, y, group = biased(100)
    for size in (1 - 1e-12, 1e-12):
        fitted = regressor(calibration_size=size).fit(X, y, sensitive_features=group)
        assert np.isfinite(fitted.predict(X, sensitive_features=group)).all()
    for seed in range(20):
        alone = regressor(neighboring="add_remove", random_state=seed)
        alone.fit(X[:1], y[:1], sensitive_features=group[:1])


def test_empty_bin_of_the_estimate_keeps_its_scores():
    """Mass that the histogram says is not there has no target of its own."""
    scores, group = scores_of_groups()
    scores = np.where(group[:, None] == 0, -np.abs(scores), scores)
    estimator = transformer(
        epsilon=np.inf, n_bins=10, estimation="isotonic", output="randomized"
    )
    estimator.fit(scores, sensitive_features=group)
    assert estimator.counts_[0, 0, 9] == 0
    stray = estimator.transform([[0.95]], sensitive_features=[0])
    assert stray[0, 0] == pytest.approx(0.9)  # the centre of its own bin


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("make", [np.asarray, pytest.importorskip("pandas").DataFrame])
def test_gaps_of_numbers_are_left_to_the_model_that_reads_them(make, is_fitted):
    """A pipeline does not say that its first step takes them."""
    X, y = np.linspace(-1, 1, 100).reshape(50, 2), np.linspace(-1, 1, 50)
    X[7, 0], X[8, 1] = np.nan, np.inf
    model = make_pipeline(
        DPTableEncoder(), DPLinearRegression(data_norm=1.0, target_bounds=(-1, 1))
    )
    model = FrozenEstimator(model.fit(make(X), y)) if is_fitted else model
    groups = np.arange(50) % 2
    repair = DPBarycenterRegressor(model, target_bounds=(-1, 1), groups=[0, 1])
    repair.fit(make(X), y, sensitive_features=groups)
    assert np.isfinite(repair.predict(make(X), sensitive_features=groups)).all()
    plain = DPLinearRegression(data_norm=1.0, target_bounds=(-1, 1))
    with pytest.raises(ValueError, match="X contains"):
        clone(repair).set_params(estimator=plain).fit(
            make(X), y, sensitive_features=groups
        )


@pytest.mark.parametrize("output", ["auto", "randomized", "mean"])
@pytest.mark.parametrize("apart", [0.0, 0.3])
def test_arguments_that_change_after_a_fit_change_no_answer(output, apart):
    """Those that say how to read the rows are refused; nothing else may tell."""
    groups = np.random.default_rng(0).integers(0, 2, 3000)
    scores = np.random.default_rng(7).integers(0, 6, 3000) / 6  # alike, and not pooled
    X = np.column_stack([scores + apart * groups, groups])
    model = DPBarycenterTransformer(
        bounds=(0, 1.4),
        groups=[0, 1],
        sensitive_features=1,
        output=output,
        random_state=0,
    ).fit(X)
    changes = [{"output_refinement": k} for k in (1, 2, 5)]
    changes += [{"output": other} for other in ("auto", "randomized", "mean")]
    changes += [{"n_bins": 3}, {"epsilon": np.inf}, {"bounds": (0, 9)}]
    changes += [{"estimation": "isotonic"}, {"fairness_tolerance": 1.0}]
    told = model.transform(X)
    for change in changes:
        changed = copy(model).set_params(**change)
        assert_array_equal(changed.transform(X), told, err_msg=str(change))


@pytest.mark.parametrize("refinement", [2, 3, 10])
@pytest.mark.parametrize("output", ["mean", "continuous"])
def test_bins_hold_the_same_however_many_values_lie_in_them(refinement, output):
    """An even number has a value at either end, and a fit stopped when it had paid."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 300)
    X = np.clip(rng.normal(0.1 * groups, 0.3), -1, 1)[:, None]
    known = {"bounds": (-1, 1), "groups": [0, 1], "n_bins": 9, "random_state": 0}
    fitted = [
        DPBarycenterTransformer(output=output, output_refinement=k, **known).fit(
            X, sensitive_features=groups
        )
        for k in (1, refinement)
    ]
    one, other = (repair.within_bin_error_ for repair in fitted)
    assert 0.1 < one[0] == pytest.approx(other[0], rel=1e-12)
    moved = [repair.transform(X, sensitive_features=groups) for repair in fitted]
    assert np.abs(moved[0] - moved[1]).max() < 2 / 9
