"""Disparities against independent oracles, scorers in scikit-learn, private rates."""

import pickle
import re
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from _recording import recording
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp, wasserstein_distance_nd
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fairpriv_sklearn.datasets import make_biased_mixture, make_biased_regression
from fairpriv_sklearn.metrics import (
    demographic_parity_difference,
    dp_group_rates,
    equalized_odds_difference,
    ks_parity_difference,
    make_fairness_scorer,
    wasserstein_parity_difference,
)
from fairpriv_sklearn.privacy import BudgetExceededError, PrivacyLedger

CLASSIFICATION = [demographic_parity_difference, equalized_odds_difference]
REGRESSION = [ks_parity_difference, wasserstein_parity_difference]


# ---------------------------------------------------------------------------- oracles
def slow_rates_difference(y_pred, groups):
    """Demographic parity difference by its definition, with dictionaries."""
    worst = 0.0
    for k in set(y_pred):
        rates = []
        for a in set(groups):
            members = [p for p, g in zip(y_pred, groups, strict=True) if g == a]
            rates.append(sum(p == k for p in members) / len(members))
        worst = max(worst, max(rates) - min(rates))
    return worst


def slow_wasserstein(a, b):
    """W2 by repeating both samples to a common size."""
    n = np.lcm(len(a), len(b))
    a, b = np.repeat(np.sort(a), n // len(a)), np.repeat(np.sort(b), n // len(b))
    return np.sqrt(np.mean((a - b) ** 2))


rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from("abc")),
    min_size=2,
    max_size=30,
).filter(lambda table: len({group for *_, group in table}) >= 2)


@given(rows)
def test_demographic_parity_matches_definition(table):
    y_true, y_pred, groups = zip(*table, strict=True)
    found = demographic_parity_difference(y_true, y_pred, sensitive_features=groups)
    assert found == pytest.approx(slow_rates_difference(y_pred, groups), abs=1e-12)


@given(rows)
def test_equalized_odds_is_parity_within_each_class(table):
    y_true, y_pred, groups = zip(*table, strict=True)
    parts = []
    for label in set(y_true):
        part = [(p, g) for t, p, g in table if t == label]
        if len({g for _, g in part}) >= 2:
            parts.append(slow_rates_difference(*zip(*part, strict=True)))
    if not parts:
        with pytest.raises(ValueError, match="No true class occurs in two groups"):
            equalized_odds_difference(y_true, y_pred, sensitive_features=groups)
    else:
        found = equalized_odds_difference(y_true, y_pred, sensitive_features=groups)
        assert found == pytest.approx(max(parts), abs=1e-12)


values = st.lists(
    st.tuples(st.integers(-3, 3).map(lambda i: i / 4), st.sampled_from("abc")),
    min_size=2,
    max_size=30,
).filter(lambda table: len({group for _, group in table}) >= 2)


@given(values)
def test_ks_is_the_largest_pairwise_gap_of_distribution_functions(table):
    y_pred, groups = map(np.array, zip(*table, strict=True))
    expected = max(
        abs(np.mean(y_pred[groups == a] <= t) - np.mean(y_pred[groups == b] <= t))
        for a, b in combinations(np.unique(groups), 2)
        for t in y_pred
    )
    y_true = np.full(len(y_pred), 0.5)
    found = ks_parity_difference(y_true, y_pred, sensitive_features=groups)
    assert found == pytest.approx(expected, abs=1e-12)


def test_ks_is_the_two_sample_statistic_of_scipy():
    rng = np.random.default_rng(0)
    y_pred, groups = rng.normal(size=300).round(1), rng.integers(2, size=300)
    expected = ks_2samp(y_pred[groups == 0], y_pred[groups == 1]).statistic
    found = ks_parity_difference(y_pred, y_pred, sensitive_features=groups)
    assert found == pytest.approx(expected, abs=1e-12)


@given(values)
def test_wasserstein_is_the_largest_pairwise_distance(table):
    y_pred, groups = map(np.array, zip(*table, strict=True))
    expected = max(
        slow_wasserstein(y_pred[groups == a], y_pred[groups == b])
        for a, b in combinations(np.unique(groups), 2)
    )
    y_true = np.full(len(y_pred), 0.5)
    found = wasserstein_parity_difference(y_true, y_pred, sensitive_features=groups)
    assert found == pytest.approx(expected, abs=1e-12)


def test_wasserstein_of_a_shift_is_the_shift():
    # Independent of the order of rows, which a coupling by row number is not
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    y_pred = np.concatenate([x, rng.permutation(x) + 2.0])
    groups = np.repeat([0, 1], 50)
    found = wasserstein_parity_difference(y_pred, y_pred, sensitive_features=groups)
    assert found == pytest.approx(2.0, rel=1e-12)
    # the first Wasserstein distance is smaller for another distribution, equal for a
    # shift
    assert wasserstein_distance_nd(x[:, None], x[:, None] + 2) == pytest.approx(found)


def test_population_values_of_simulated_regression():
    _, y, a, optimal = make_biased_regression(
        200_000, shifts=(0.0, 1.0), return_optimal=True, random_state=0
    )
    # KS 2 Phi(1/2) - 1; the standard error of each CDF is below 1 / (2 sqrt(1e5))
    assert ks_parity_difference(y, optimal, sensitive_features=a) == pytest.approx(
        0.38292, abs=6 / (2 * np.sqrt(1e5))
    )
    assert wasserstein_parity_difference(
        y, optimal, sensitive_features=a
    ) == pytest.approx(1.0, abs=6 * np.sqrt(2 / 1e5))


# ------------------------------------------------------------------------ input kinds
def test_several_columns_are_intersections_in_every_container():
    sex = ["f", "f", "m", "m", "f", "m"]
    age = [0, 1, 0, 1, 0, 1]
    y_pred = [1, 0, 0, 1, 1, 0]
    expected = 1.0  # (f, 0) always 1, (f, 1) and (m, 0) never
    frames = [
        pd.DataFrame({"sex": sex, "age": age}),
        pl.DataFrame({"sex": sex, "age": age}),
        np.array([sex, age], dtype=object).T,
    ]
    for frame in frames:
        assert (
            demographic_parity_difference(y_pred, y_pred, sensitive_features=frame)
            == expected
        )
    one = demographic_parity_difference(y_pred, y_pred, sensitive_features=sex)
    assert one == pytest.approx(1 / 3)


@pytest.mark.parametrize("make", [pd.Series, pl.Series, np.asarray, tuple])
def test_targets_in_every_container(make):
    y_pred, groups = make(["yes", "no", "no"]), make(["a", "a", "b"])
    for metric in CLASSIFICATION:
        assert metric(make(["no"] * 3), y_pred, sensitive_features=groups) == 0.5
    scores = make([0.25, 0.5, 0.5])
    assert ks_parity_difference(scores, scores, sensitive_features=groups) == 0.5


def test_probabilities_may_be_compared_for_class_labels():
    found = ks_parity_difference(
        [0, 1, 1, 0], [0.1, 0.2, 0.3, 0.4], sensitive_features=[0, 0, 1, 1]
    )
    assert found == 1.0


def test_object_numbers_and_constant_regression_predictions_are_accepted():
    y = np.array([0.5, 1, 2, 3], dtype=object)
    found = wasserstein_parity_difference(
        y, [1, 1, 1, 1], sensitive_features=list("aabb")
    )
    assert found == 0.0


@pytest.mark.parametrize("metric", CLASSIFICATION)
@pytest.mark.parametrize("which", ["y_true", "y_pred"])
def test_classification_metrics_refuse_continuous_targets(metric, which):
    targets = {"y_true": [0, 1], "y_pred": [0, 1], which: [0.5, 1.0]}
    with pytest.raises(ValueError, match=f"{which} is continuous.*ks_parity"):
        metric(**targets, sensitive_features=["a", "b"])


@pytest.mark.parametrize("metric", REGRESSION)
@pytest.mark.parametrize("labels", [["x", "y"], [True, False], [0, 1]])
def test_regression_metrics_refuse_class_labels(metric, labels):
    with pytest.raises(ValueError, match="class labels.*demographic_parity"):
        metric(labels, labels, sensitive_features=["a", "b"])


@pytest.mark.parametrize("metric", REGRESSION)
def test_whole_predictions_of_a_regressor_are_no_labels(metric):
    assert metric([1, 2, 3], [1.0, 2.0, 4.0], sensitive_features=["a", "b", "b"]) >= 1


@pytest.mark.parametrize("metric", CLASSIFICATION + REGRESSION)
class TestBadInput:
    def call(self, metric, y_true=None, y_pred=None, a=("a", "b")):
        default = [0, 1] if metric in CLASSIFICATION else [0.5, 1.5]
        y_true = default if y_true is None else y_true
        y_pred = default if y_pred is None else y_pred
        return metric(y_true, y_pred, sensitive_features=a)

    def test_lengths(self, metric):
        with pytest.raises(ValueError, match="same number of rows, got 2, 2 and 3"):
            self.call(metric, a=["a", "b", "a"])

    def test_one_group(self, metric):
        with pytest.raises(ValueError, match="at least two"):
            self.call(metric, a=["a", "a"])

    def test_no_rows(self, metric):
        with pytest.raises(ValueError, match="at least two"):
            self.call(metric, [], [], [])

    @pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
    def test_missing_group(self, metric, missing):
        with pytest.raises(ValueError, match="missing label"):
            self.call(metric, a=np.array(["a", missing], dtype=object))

    @pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
    @pytest.mark.parametrize("which", ["y_true", "y_pred"])
    def test_missing_target(self, metric, which, missing):
        column = np.array([0.5, missing], dtype=object)
        with pytest.raises(ValueError, match=f"{which} has missing"):
            self.call(metric, **{which: column})

    @pytest.mark.parametrize("which", ["y_true", "y_pred"])
    def test_a_gap_in_a_list_of_text(self, metric, which):
        with pytest.raises(ValueError, match=f"{which} has missing"):
            self.call(metric, **{which: ["a", np.nan]})

    def test_infinite_target(self, metric):
        with pytest.raises(ValueError, match="y_pred has missing or infinite"):
            self.call(metric, y_pred=[0.0, np.inf])

    def test_mixed_kinds(self, metric):
        with pytest.raises(ValueError, match="mixes strings and numbers"):
            self.call(metric, y_pred=np.array(["a", 1], dtype=object))


# ---------------------------------------------------------------------------- scorers
class AwareClassifier(ClassifierMixin, BaseEstimator):
    """Predicts the group: useless without it, and as unfair as can be."""

    __metadata_request__fit = {"sensitive_features": True}
    __metadata_request__predict = {"sensitive_features": True}

    def __init__(self, sensitive_features=None, flip=False):
        self.sensitive_features = sensitive_features
        self.flip = flip

    def _codes(self, X, given):
        if (given is None) == (self.sensitive_features is None):
            raise ValueError("give the groups exactly once")
        if given is None:
            given = np.asarray(X)[:, self.sensitive_features]
        return np.asarray(given) > 0

    def fit(self, X, y, *, sensitive_features=None):
        self._codes(X, sensitive_features)
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X, *, sensitive_features=None):
        codes = self._codes(X, sensitive_features)
        return np.zeros(len(codes), int) if self.flip else codes.astype(int)


@pytest.fixture(scope="module")
def data():
    X, y, a = make_biased_mixture(200, 4, n_classes=2, random_state=0)
    return np.column_stack([a, X]), y, a  # column 0 is the group


def test_scorer_negates_the_metric(data):
    X, y, a = data
    model = GaussianNB().fit(X, y)
    scorer = make_fairness_scorer(demographic_parity_difference)
    expected = demographic_parity_difference(y, model.predict(X), sensitive_features=a)
    assert scorer(model, X, y, sensitive_features=a) == -expected < 0
    assert "demographic_parity_difference" in repr(scorer)


@pytest.mark.parametrize("routing", [True, False])
@pytest.mark.parametrize(
    "where", [0, [0], "group", ["group"], lambda X: np.asarray(X)[:, 0]]
)
@pytest.mark.parametrize(
    "wrap", [lambda m: m, lambda m: make_pipeline("passthrough", m)]
)
def test_groups_read_from_X_with_routing_on_and_off(data, routing, where, wrap):
    X, y, _ = data
    X = pd.DataFrame(X, columns=["group", *"abcd"])
    scorer = make_fairness_scorer(
        demographic_parity_difference, sensitive_features=where
    )
    with config_context(enable_metadata_routing=routing):
        blind = cross_val_score(GaussianNB(), X, y, scoring=scorer, cv=3)
        aware = cross_val_score(
            wrap(AwareClassifier(sensitive_features=0)), X, y, scoring=scorer, cv=3
        )
    assert -1 < blind.mean() < 0
    np.testing.assert_array_equal(aware, -1.0)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_groups_as_metadata_reach_fit_predict_and_metric(data, n_jobs):
    X, y, a = data
    scorer = make_fairness_scorer(demographic_parity_difference)
    with config_context(enable_metadata_routing=True):
        result = cross_validate(
            make_pipeline(StandardScaler(), AwareClassifier()),
            X,
            y,
            scoring={"parity": scorer, "odds": _odds_scorer()},
            params={"sensitive_features": a},
            n_jobs=n_jobs,
            cv=3,
            error_score="raise",
        )
    np.testing.assert_array_equal(result["test_parity"], -1.0)
    np.testing.assert_array_equal(result["test_odds"], -1.0)


def test_scorer_asks_for_groups_by_another_name(data):
    X, y, a = data
    scorer = make_fairness_scorer(demographic_parity_difference)
    with config_context(enable_metadata_routing=True):
        scorer = scorer.set_score_request(sensitive_features="sex")
        model = AwareClassifier().set_fit_request(sensitive_features="sex")
        params = {"sex": a}
        result = cross_validate(model, X, y, scoring=scorer, cv=3, params=params)
    np.testing.assert_array_equal(result["test_score"], -1.0)


def _odds_scorer():
    return make_fairness_scorer(equalized_odds_difference)


def test_grid_search_picks_the_fairer_candidate(data):
    X, y, a = data
    scorer = make_fairness_scorer(demographic_parity_difference)
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            AwareClassifier(), {"flip": [False, True]}, scoring=scorer, cv=3
        ).fit(X, y, sensitive_features=a)
    assert search.best_params_ == {"flip": True}
    assert search.best_score_ == 0.0
    clone(search)  # a scorer is a constructor argument


def test_pipeline_with_routing_off_hands_groups_to_the_last_step(data):
    X, y, a = data
    pipeline = make_pipeline(StandardScaler(), AwareClassifier())
    pipeline.fit(X, y, awareclassifier__sensitive_features=a)
    scorer = make_fairness_scorer(demographic_parity_difference)
    assert scorer(pipeline, X, y, sensitive_features=a) == -1.0


class Router(BaseEstimator):
    """A meta-estimator outside the library whose predict routes `**params`."""

    def __init__(self, estimator):
        self.estimator = estimator

    def predict(self, X, **params):
        return self.estimator.predict(X, **params)

    def get_metadata_routing(self):
        from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping

        mapping = MethodMapping().add(caller="predict", callee="predict")
        return MetadataRouter(owner="Router").add(
            estimator=self.estimator, method_mapping=mapping
        )


def test_foreign_meta_estimators_are_asked_through_their_router(data):
    X, y, a = data
    scorer = make_fairness_scorer(demographic_parity_difference)
    with config_context(enable_metadata_routing=True):
        aware = Router(AwareClassifier().fit(X, y, sensitive_features=a))
        assert scorer(aware, X, y, sensitive_features=a) == -1.0
        blind = Router(GaussianNB().fit(X, y))
        assert -1 < scorer(blind, X, y, sensitive_features=a) < 0


def test_scorer_of_regression_and_of_probabilities(data):
    X, y, a = data
    scorer = make_fairness_scorer(wasserstein_parity_difference, sensitive_features=0)
    regression = LinearRegression().fit(X, X[:, 0] * 3.5)
    assert scorer(regression, X, y) == pytest.approx(-7.0)

    model = GaussianNB().fit(X, y)
    scorer = make_fairness_scorer(
        ks_parity_difference, sensitive_features=0, response_method="predict_proba"
    )
    expected = ks_parity_difference(
        y, model.predict_proba(X)[:, 1], sensitive_features=a
    )
    assert scorer(model, X, y) == -expected
    three = GaussianNB().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="two classes"):
        scorer(three, X, y)


def test_scorer_says_how_to_give_the_groups(data):
    X, y, a = data
    model = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match="needs the sensitive features"):
        make_fairness_scorer(demographic_parity_difference)(model, X, y)
    from_X = make_fairness_scorer(demographic_parity_difference, sensitive_features=0)
    with pytest.raises(ValueError, match="twice"):
        from_X(model, X, y, sensitive_features=a)
    by_name = make_fairness_scorer(
        demographic_parity_difference, sensitive_features="sex"
    )
    with pytest.raises(ValueError, match="set_output"):
        by_name(model, X, y)
    with pytest.raises(ValueError, match="callable"):
        make_fairness_scorer("accuracy")
    with pytest.raises(ValueError, match="response_method"):
        make_fairness_scorer(demographic_parity_difference, response_method="score")


def test_scorer_pickles_and_survives_a_transformer_with_names(data):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=["group", *"abcd"])
    scorer = pickle.loads(pickle.dumps(_odds_scorer()))
    model = make_pipeline(FunctionTransformer(), GaussianNB()).fit(frame, y)
    assert scorer(model, frame, y, sensitive_features=frame["group"]) < 0


# ----------------------------------------------------------------------- dp_group_rates
def table(rates, sizes, rng):
    """Predictions with exactly the given group sizes, drawn with the given rates."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    uniform = rng.uniform(size=len(groups))
    bounds = np.cumsum(rates, axis=1)[groups]
    return (uniform[:, None] > bounds).sum(axis=1).clip(max=len(rates[0]) - 1), groups


def release(y_pred, groups, rates, **options):
    options = {"epsilon": 1.0, "random_state": 0} | options
    return dp_group_rates(
        None,
        y_pred,
        sensitive_features=groups,
        groups=list(range(len(rates))),
        classes=list(range(len(rates[0]))),
        **options,
    )


def test_without_noise_the_rates_are_the_metric():
    rates = np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    y_pred, groups = table(rates, [300, 200, 50], np.random.default_rng(0))
    result = release(y_pred, groups, rates, epsilon=np.inf)
    np.testing.assert_array_equal(result.counts.sum(axis=1), [300, 200, 50])
    np.testing.assert_allclose(result.rates[0, 1], np.mean(y_pred[groups == 0] == 1))
    assert result.disparity == pytest.approx(
        demographic_parity_difference(y_pred, y_pred, sensitive_features=groups)
    )
    assert result.privacy_.epsilon == np.inf


def test_without_noise_the_intervals_are_wilsons():
    y_pred = np.repeat([1, 0, 1, 0], [30, 70, 5, 5])
    result = release(y_pred, np.repeat([0, 1], [100, 10]), [[0, 0]] * 2, epsilon=np.inf)
    z = 1.959963984540054
    for row, (x, n) in enumerate([(30, 100), (5, 10)]):
        center = (x + z**2 / 2) / (n + z**2)
        half = z / (n + z**2) * np.sqrt(x * (n - x) / n + z**2 / 4)
        np.testing.assert_allclose(
            result.rate_intervals[row, 1], [center - half, center + half], atol=1e-9
        )


def test_equalized_odds_counts_by_group_truth_and_prediction():
    rng = np.random.default_rng(0)
    y_true, y_pred, a = rng.integers(2, size=(3, 500))
    options = {"sensitive_features": a, "groups": [0, 1], "classes": [0, 1]}
    result = dp_group_rates(
        y_true, y_pred, constraint="equalized_odds", epsilon=np.inf, **options
    )
    assert result.counts.shape == (2, 2, 2)
    expected = np.sum((a == 1) & (y_true == 0) & (y_pred == 1))
    assert result.counts[1, 0, 1] == expected
    assert result.disparity == pytest.approx(
        equalized_odds_difference(y_true, y_pred, sensitive_features=a)
    )
    with pytest.raises(ValueError, match="needs y_true"):
        dp_group_rates(
            None, y_pred, constraint="equalized_odds", epsilon=1.0, **options
        )


@pytest.mark.parametrize(
    "neighboring, sensitivity", [("replace_one", 2), ("add_remove", 1)]
)
def test_receipt_ledger_and_noise_scale(neighboring, sensitivity):
    n_groups = 50
    rates = [[0.5, 0.5]] * n_groups
    y_pred, groups = np.zeros(1000, int), np.zeros(1000, int)
    ledger = PrivacyLedger(epsilon=1.0, delta=0.0)
    result = release(
        y_pred, groups, rates, neighboring=neighboring, ledger=ledger, epsilon=0.75
    )
    assert result.privacy_.neighboring == neighboring
    assert 0.74 < result.privacy_.epsilon <= 0.75
    assert not result.privacy_.noise_is_secure
    with pytest.raises(BudgetExceededError):
        release(y_pred, groups, rates, neighboring=neighboring, ledger=ledger)
    noise = []
    for seed in range(20):
        counts = release(
            y_pred, groups, rates, neighboring=neighboring, random_state=seed
        ).counts
        counts[0, 0] -= 1000
        noise.append(counts)
    # variance of discrete Laplace noise: 2 q / (1 - q)^2, q = exp(-epsilon / Delta);
    # its fourth moment is below 7 variance^2, so 5 standard errors are 5 sqrt(6/2000)
    q = np.exp(-1 / sensitivity)
    assert np.var(noise) == pytest.approx(
        2 * q / (1 - q) ** 2, rel=5 * np.sqrt(6 / 2000)
    )


def test_replacing_a_record_moves_at_most_two_counts():
    # With the noise off the released table is the query itself
    y_pred, groups = np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1])
    base = release(y_pred, groups, [[0, 0]] * 2, epsilon=np.inf).counts
    for k in (0, 1):
        for a in (0, 1):
            other_y, other_a = y_pred.copy(), groups.copy()
            other_y[0], other_a[0] = k, a
            moved = release(other_y, other_a, [[0, 0]] * 2, epsilon=np.inf).counts
            assert np.abs(moved - base).sum() == (0 if (k, a) == (0, 0) else 2)


@pytest.mark.parametrize(
    "epsilon, rates, sizes",
    [
        (1.0, [[0.7, 0.3], [0.5, 0.5]], [1980, 20]),  # a 1 % group
        (0.3, [[0.9, 0.1], [0.98, 0.02]], [9900, 100]),  # 1 %, rare predictions
        (0.5, [[0.6, 0.4], [0.6, 0.4]], [500, 500]),  # no disparity at all
        (0.1, [[1.0, 0.0], [0.0, 1.0]], [300, 300]),  # held by 74 % of square roots
        (1.0, [[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.4, 0.4, 0.2]], [900, 500, 14]),
    ],
)
def test_intervals_cover_at_the_stated_rate(epsilon, rates, sizes):
    n_runs, rng = 300, np.random.default_rng(0)
    rates = np.array(rates)
    truth = max(np.abs(a - b).max() for a, b in combinations(rates, 2))
    covered, disparity_covered = np.zeros(rates.shape), 0
    for seed in range(n_runs):
        y_pred, groups = table(rates, sizes, rng)
        result = release(y_pred, groups, rates, epsilon=epsilon, random_state=seed)
        low, high = np.moveaxis(result.rate_intervals, -1, 0)
        covered += (low <= rates) & (rates <= high)
        low, high = result.disparity_interval
        disparity_covered += low <= truth <= high
    # 3.5 standard errors of a frequency at the stated rate
    floor = 0.95 - 3.5 * np.sqrt(0.95 * 0.05 / n_runs)
    assert np.all(covered / n_runs >= floor)
    assert disparity_covered / n_runs >= floor
    # and not by being trivially wide: the large group's intervals are near 95 %
    assert np.all(covered[0] / n_runs <= 0.95 + 3.5 * np.sqrt(0.95 * 0.05 / n_runs))


def test_a_group_hidden_by_noise_gets_the_whole_range():
    rates = [[0.5, 0.5]] * 2
    results = [
        release(np.zeros(1000, int), np.zeros(1000, int), rates, random_state=seed)
        for seed in range(20)
    ]
    for result in results:
        empty = result.counts[1].sum() <= 0
        assert np.isnan(result.rates[1]).all() == empty
        assert np.isnan(result.disparity) == (not result.estimable.all())
        if empty:
            np.testing.assert_array_equal(result.rate_intervals[1], [[0, 1], [0, 1]])
        assert 0 <= result.disparity_interval[0] <= result.disparity_interval[1] <= 1
    assert {result.counts[1].sum() <= 0 for result in results} == {True, False}


def test_intervals_shrink_with_budget_and_level():
    rates = np.array([[0.3, 0.7], [0.5, 0.5]])
    y_pred, groups = table(rates, [500, 500], np.random.default_rng(0))

    def width(**options):
        intervals = release(y_pred, groups, rates, **options).rate_intervals
        return np.diff(intervals, axis=-1).max()

    assert width(epsilon=np.inf) < width(epsilon=1.0) < width(epsilon=0.1)
    assert width(confidence_level=0.5) < width() < width(confidence_level=0.99)


def test_classes_of_several_kinds():
    y_pred = np.array([0, "x", 0, 0.5], dtype=object)
    sensitive = pd.Series([1, 1, 0, 0])
    for classes in ([0, "x", 0.5], pd.Series([0, "x", 0.5]), y_pred[[0, 1, 3]]):
        result = _release(y_pred, sensitive, classes=classes, epsilon=np.inf)
        np.testing.assert_array_equal(result.counts, [[1, 0, 1], [1, 1, 0]])
    result = _release([0, 1], [0, 1], classes=list(np.arange(2)))
    assert [type(label) for label in result.classes] == [int, int]


DAYS = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")


def test_labels_of_several_kinds_in_a_list_are_read_one_by_one():
    """NumPy made text of them all, where a single one was text."""
    public = {"groups": [0, 1], "classes": [0, 1, "none"], "epsilon": np.inf}
    groups = [0, 0, 1, 1]
    for label, counts in (
        (1, [[1, 1, 0], [1, 1, 0]]),
        ("none", [[1, 1, 0], [1, 0, 1]]),
    ):
        said = dp_group_rates(
            None, [0, 1, 0, label], sensitive_features=groups, **public
        )
        assert said.counts.tolist() == counts


def test_intersections_and_string_labels():
    sensitive = pd.DataFrame({"sex": list("fmfm"), "old": [0, 0, 1, 1]})
    result = dp_group_rates(
        list("yyny"),
        list("ynny"),
        sensitive_features=sensitive,
        groups=[("f", 0), ("m", 0), ("f", 1), ("m", 1)],
        classes=["n", "y"],
        epsilon=np.inf,
    )
    np.testing.assert_array_equal(result.counts, [[0, 1], [1, 0], [1, 0], [0, 1]])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"groups": [0]}, "at least two groups"),
        ({"classes": [0]}, "classes must list 2 labels"),
        ({"classes": [0, 0]}, "classes lists a label twice"),
        ({"groups": [0, 2]}, r"not in the list groups \(1 is not '1', .*are tuples"),
        ({"classes": [0, 2]}, "not in the list classes"),
        ({"y_pred": [0, 1, 1]}, "numbers of rows differ: sensitive_features, y_pred.$"),
        ({"constraint": "parity"}, "constraint must be"),
        ({"neighboring": "replace"}, "neighboring must be"),
        ({"confidence_level": 95}, "confidence_level must be"),
        ({"sensitive_features": [0, None]}, "missing label"),
        ({"classes": None, "bounds": (-1.7e308, 1.7e308)}, "a finite difference"),
        ({"classes": None, "bounds": "01"}, "Pass classes, or"),
        ({"classes": None, "bounds": (0, 1), "y_pred": DAYS}, "y_pred holds dates"),
        ({"classes": [[0], [0, 1]]}, "not in the list classes"),
    ],
)
def test_dp_group_rates_refuses_bad_input_before_paying(changes, message):
    ledger = PrivacyLedger(epsilon=1.0, delta=0.0)
    arguments = {
        "y_true": [0, 1],
        "y_pred": [0, 1],
        "sensitive_features": [0, 1],
        "groups": [0, 1],
        "classes": [0, 1],
        "epsilon": 1.0,
        "ledger": ledger,
    } | changes
    with pytest.raises(ValueError, match=message):
        dp_group_rates(**arguments)
    assert ledger.spends() == []


# --- the wall, regression, what cannot be estimated -----------------------------------


def _release(y_pred, sensitive, **params):
    defaults = {"epsilon": 1.0, "groups": [0, 1], "random_state": 0}
    return dp_group_rates(
        None, y_pred, sensitive_features=sensitive, **{**defaults, **params}
    )


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("regression", [False, True])
def test_group_rates_cross_at_the_wall(relation, regression):
    rng = np.random.default_rng(0)
    groups, y = rng.integers(0, 2, 50), rng.integers(0, 3, 50)
    how = {"bounds": (0, 2), "n_bins": 3} if regression else {"classes": [0, 1, 2]}
    kept = slice(0, 49) if relation == "add_remove" else slice(0, 50)
    other, other_groups = y.copy(), groups.copy()
    other[-1], other_groups[-1] = (y[-1] + 1) % 3, 1 - groups[-1]
    with recording() as first:
        one = _release(y, groups, neighboring=relation, **how)
    with recording(first) as second:
        two = _release(other[kept], other_groups[kept], neighboring=relation, **how)
    (a,), (b,) = first.crossings, second.crossings
    assert np.abs(a.exact - b.exact).sum() == a.sensitivity == 1 + (kept.stop == 50)
    assert a.theorem == "user_guide/audit:group_counts"
    for name in ("counts", "rates", "rate_intervals", "estimable"):
        assert np.array_equal(getattr(one, name), getattr(two, name), equal_nan=True)
    assert (one.disparity, one.ratio_interval) == (two.disparity, two.ratio_interval)
    assert one.privacy_ == two.privacy_ and one.privacy_.epsilon == 1.0


def test_distribution_gap_against_the_exact_one():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 2000)
    y = np.where(groups == 1, rng.beta(2, 3, 4000), rng.beta(3, 2, 4000))
    exact = _release(y, groups, bounds=(0, 1), n_bins=20, epsilon=np.inf)
    edges = np.linspace(0, 1, 21)[1:-1]
    gaps = [np.mean(y[groups == 0] < e) - np.mean(y[groups == 1] < e) for e in edges]
    assert exact.disparity == pytest.approx(np.abs(gaps).max(), abs=1e-12)
    private = _release(y, groups, bounds=(0, 1), n_bins=20)
    low, high = private.disparity_interval
    assert low < exact.disparity < high and high - low < 0.3
    assert np.isnan(private.ratio) and private.estimable.all()


def test_bins_of_shifted_predictions():
    groups = np.repeat([0, 1], 50)
    y = np.random.default_rng(0).uniform(-0.2, 1.2, 100)
    one = _release(y, groups, bounds=(0, 1), n_bins=7)
    two = _release(2 * y + 3, groups, bounds=(3, 5), n_bins=7)
    assert np.array_equal(one.counts, two.counts)
    assert two.classes[0] == "[3, 3.28571]" and two.classes[-1] == "[4.71429, 5]"


def test_intervals_of_distribution_gap_and_ratio_cover():
    rng = np.random.default_rng(1)
    gap_covers = ratio_covers = 0
    for seed in range(200):
        groups = np.repeat([0, 1], [150, 400])
        u = rng.random(550)
        y = np.where(groups == 1, u**2, u)  # P(y < t) = sqrt(t) and t
        found = _release(y, groups, bounds=(0, 1), n_bins=4, random_state=seed)
        low, high = found.disparity_interval
        gap_covers += low <= 0.25 <= high  # sqrt(1/4) - 1/4
        chosen = (u < np.where(groups == 1, 0.6, 0.3)).astype(int)
        found = _release(chosen, groups, classes=[0, 1], random_state=seed)
        low, high = found.ratio_interval
        ratio_covers += low <= 0.5 <= high
    assert min(gap_covers, ratio_covers) >= 184  # 95 % of 200, less 1.9 deviations


def test_small_groups_are_not_estimable():
    groups = np.repeat([0, 1, 2], [1000, 1000, 3])
    y = np.tile([0, 1], 1002)[:2003]
    found = _release(y, groups, groups=[0, 1, 2, 3], classes=[0, 1])
    assert found.estimable.tolist() == [True, True, False, False]
    lines = dict(found.card_lines())
    assert "not estimable" in lines["group 2"] and "not estimable" in lines["group 3"]
    assert "0.5" in lines["group 0"] and "%" in lines["largest difference"]
    # Of those two; what the others may differ by, the interval says.
    assert found.disparity == pytest.approx(np.abs(np.subtract(*found.rates[:2, 1])))
    assert found.disparity_interval[1] > 0.9
    assert 0.8 < found.ratio <= 1 and found.ratio_interval[0] == 0.0
    told = str(found).splitlines()  # one line for each, and the guarantee
    assert told[:-1] == [f"{item}: {said}" for item, said in found.card_lines()]
    assert told[-1] == str(found.privacy_)
    only = _release(y[2000:], groups[2000:], groups=[0, 1, 2], classes=[0, 1])
    assert dict(only.card_lines())["smallest ratio"] == "not estimable"
    assert np.isnan(only.disparity)


def test_a_difference_that_is_sure_is_told_however_wide_its_interval():
    """Of a group of which nothing is sure but that it is far from the others."""
    groups = np.repeat([0, 1, 2], [1000, 1000, 14])
    y = np.r_[np.tile([0, 0, 0, 0, 1], 400), np.arange(14) > 2].astype(int)
    params = {"groups": [0, 1, 2], "classes": [0, 1], "random_state": 3}
    found = _release(y, groups, **params)
    assert found.estimable.tolist() == [True, True, False]
    low, high = found.disparity_interval
    assert found.disparity == low > 0.1 and high > 0.7
    low, high = found.ratio_interval
    assert low < 0.3 and found.ratio == high < 0.8


def test_the_interval_of_the_ratio_is_of_groups_that_are_not_estimable_too():
    """Of 200 intervals of three groups, one of 30 people, 161 held the ratio."""
    rng = np.random.default_rng(0)
    sizes, rates = [2000, 150, 30], np.array([0.6, 0.5, 0.9])
    groups, covers, hidden = np.repeat([0, 1, 2], sizes), 0, 0
    for seed in range(200):
        chosen = (rng.uniform(size=2180) < rates[groups]).astype(int)
        params = {"groups": [0, 1, 2], "classes": [0, 1], "random_state": seed}
        found = _release(chosen, groups, epsilon=0.5, **params)
        hidden += not found.estimable[2]
        low, high = found.ratio_interval
        covers += low <= 0.5 / 0.9 <= high
    assert covers >= 184 and hidden > 50


def test_intervals_are_shown_rounded_outwards():
    found = _release(np.tile([0, 1], 300), np.repeat([0, 1], 300), classes=[0, 1])
    lines = dict(found.card_lines())
    for name, exact in (
        ("group 0", found.rate_intervals[0][-1]),
        ("largest difference", found.disparity_interval),
        ("smallest ratio", found.ratio_interval),
    ):
        shown = re.search(r"([\d.]+) to ([\d.]+)", lines[name]).groups()
        low, high = map(float, shown)
        assert exact[0] - 1e-3 < low <= exact[0] and exact[1] <= high < exact[1] + 1e-3


def test_ratio_of_true_classes():
    groups, y = np.repeat([0, 1], 400), np.tile([0, 1], 400)
    found = dp_group_rates(
        y,
        np.where(groups == 1, y, 1 - y),
        sensitive_features=groups,
        groups=[0, 1],
        classes=[0, 1],
        constraint="equalized_odds",
        epsilon=np.inf,
    )
    assert found.ratio == 0.0 and found.estimable.shape == (2, 2)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"ledger": 5, "classes": [0, 1]}, "ledger"),
        ({"classes": None}, "bounds"),
        ({"bounds": (1, 0)}, "bounds"),
        ({"bounds": (0, np.inf)}, "bounds"),
        ({"bounds": (0, 1), "classes": [0, 1]}, "bounds"),
        ({"bounds": (0, 1), "n_bins": 1}, "n_bins"),
        ({"bounds": (0, 1), "constraint": "equalized_odds"}, "classes"),
    ],
)
def test_what_is_wrong_is_named(params, name):
    with pytest.raises(ValueError, match=name):
        _release([0, 1], [0, 1], **params)


def test_no_cell_is_quoted():
    with pytest.raises(ValueError) as raised:
        _release(["HIV-positive", 0.1], [0, 1], bounds=(0, 1))
    assert "HIV" not in str(raised.value) and raised.value.__cause__ is None


def test_the_old_name_of_the_constraint_says_the_new_one():
    with pytest.raises(TypeError, match="'criterion' is now 'constraint'"):
        dp_group_rates(
            None,
            [0, 1],
            sensitive_features=[0, 1],
            groups=[0, 1],
            classes=[0, 1],
            epsilon=1.0,
            criterion="demographic_parity",
        )
