"""Tables too small for features: all of the budget tells a constant."""

import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from _audit import pure_audit
from _recording import recording
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from test_with_budget import CASES, pipeline, regressor, table

from fairpriv_sklearn._training._constant import (
    TargetTotals,
    constant_plan,
)
from fairpriv_sklearn._training._counts import likely_share
from fairpriv_sklearn._training._target import CountedPart, TargetCounts
from fairpriv_sklearn._wall import PrivacyFilter, Rows
from fairpriv_sklearn.accounting import (
    MaximumEvent,
    PureEvent,
    calibrate_gaussian,
    compose_epsilon,
    gaussian_epsilon,
)
from fairpriv_sklearn.distributed import Batches
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.linear_model._gradient_plan import constant_share
from fairpriv_sklearn.mechanisms import DiscreteLaplaceMechanism, noise_source
from fairpriv_sklearn.neural_network import (
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.neural_network._base import LearntRange
from fairpriv_sklearn.neural_network._queries import TargetSums
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    RepairWarning,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
    expected_guarantee,
    privacy_report,
    with_budget,
)
from fairpriv_sklearn.privacy._budget._costs import step_events

LABELS = np.repeat(["a", "b", "c"], [50, 120, 30])
X = np.zeros((200, 1))


def models(classes, **params):
    plain = {"bounds": (-1, 1), "classes": classes, **params}
    fair = {"fairness_weight": 0, **plain}
    return [DPWassersteinLogisticRegression(**fair), DPWassersteinMLPClassifier(**fair)]


def output_perturbation(classes, **params):
    params = {"bounds": (-1, 1), "classes": classes, **params}
    return DPOutputPerturbationLogisticRegression(**params)


def asked_of(monkeypatch):
    """Names of what is released, and of the lines that pay, as fits go on."""
    asked, release = [], PrivacyFilter.release

    def noted(self, query, *args, name=None, **kwargs):
        asked.append((query.name, name or query.name))
        return release(self, query, *args, name=name, **kwargs)

    monkeypatch.setattr(PrivacyFilter, "release", noted)
    return asked


@pytest.mark.parametrize("classes, labels", [("abc", "abc"), ("ab", "abb")])
def test_shares_of_classes(classes, labels):
    y = np.char.translate(LABELS, str.maketrans("abc", labels))
    told = [(y == label).mean() for label in classes]
    asked = {"epsilon": 50.0, "min_records": 201}
    last = output_perturbation(list(classes), **asked)
    for model in [*models(list(classes), **asked), last]:
        model.fit(X, y)
        assert np.abs(model.predict_proba(X)[0] - told).max() < 0.01
        assert model.predict(X[:1]) == ["b"]
        assert model is last or model.n_iter_ == 0
        (event,) = model.privacy_.events
        assert event == PureEvent(0.99 * 50.0)


def test_the_loss_weighs_the_classes():
    weights = {"a": 0.125, "b": 1.0}
    y = np.where(LABELS == "b", "b", "a")
    model, _ = models(["a", "b"], epsilon=50.0, min_records=201)
    model.set_params(class_weight=weights).fit(X, y)
    assert abs(model.predict_proba(X)[0, 1] - 120 / (120 + 10)) < 0.01


@pytest.mark.parametrize(
    "model",
    [
        DPLinearRegression(bounds=(-1, 1)),
        DPWassersteinMLPRegressor(fairness_weight=0, bounds=(-1, 1)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_mean_of_targets(model):
    y = np.linspace(2.0, 5.0, 200)
    model.set_params(target_bounds=(0, 10), epsilon=50.0, min_records=201)
    assert abs(model.fit(X, y).predict(X)[0] - 3.5) < 0.02
    # Beyond the range there is nothing to tell.
    model.set_params(epsilon=1e-4).fit(X, np.full(200, 20.0))
    assert 0.0 <= model.predict(X)[0] <= 10.0


def test_enough_records_tell_features():
    for model in models(["a", "b", "c"], min_records=200, max_iter=3):
        assert model.fit(X, LABELS).n_iter_ == 3
        model.set_params(min_records=10**6, neighboring="add_remove")
        assert model.fit(X, LABELS).n_iter_ == 3  # their number is private


def test_the_encoder_learns_nothing_and_spends_nothing():
    frame, _, _ = table(300)
    encoder = DPTableEncoder({"age": [0, 100]}, min_records=301).fit(frame)
    assert encoder.privacy_.epsilon == 0.0
    assert encoder.codebook_["work"].categories is None
    Z = encoder.transform(frame)
    others = frame.iloc[::-1].assign(work="none", age=7.0)
    other = DPTableEncoder({"age": [0, 100]}, min_records=301).fit(others)
    assert (other.transform(frame) == Z).all()
    # The number of records is public.
    other = DPTableEncoder({"age": [0, 100]}, min_records=301).fit(frame.iloc[::-3])
    assert np.abs(other.transform(frame) - Z).max() < 1e-4
    assert np.isfinite(Z).all() and np.linalg.norm(Z, axis=1).max() <= 1.0
    # What is declared is used: a rank in the public range.
    ranks = encoder.rank_maps_["age"](np.array([0.0, 50.0, 100.0]))
    assert np.abs(ranks - [0.0, 0.5, 1.0]).max() < 0.01


@pytest.mark.parametrize("case", [pipeline, CASES["three steps"]])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_both_ways_cost_at_most_the_budget(case, epsilon):
    chosen = with_budget(case(), epsilon)
    least = chosen[-1].min_records
    assert {step.min_records for _, step in chosen.steps} == {least}
    for n, share in ((least - 1, 0.9), (least, 0.99)):
        X, y, _ = table(n)
        chosen.fit(X, y)
        total = privacy_report(chosen).guarantee.epsilon_at(1e-5)
        assert share * epsilon <= total <= epsilon
        assert (chosen[0].privacy_.epsilon == 0.0) == (n < least)


@pytest.mark.parametrize("case", [pipeline, CASES["three steps"]])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_what_is_stated_before_the_fit_is_either_way_and_not_both(case, epsilon):
    chosen = with_budget(case(), epsilon)
    expected = expected_guarantee(chosen)
    assert 0.99 * epsilon <= expected.epsilon <= epsilon and expected.delta <= 1e-5
    (either,) = expected.events
    (constant,) = either.right
    assert constant == PureEvent(0.99 * chosen[-1].epsilon)
    least = chosen[-1].min_records
    for n in (least - 1, least):
        X, y, _ = table(n)
        fitted = privacy_report(chosen.fit(X, y)).guarantee
        for delta in (1e-9, 1e-7, 1e-5, 1e-3):
            assert fitted.epsilon_at(delta) <= expected.epsilon_at(delta)
    always = clone(chosen).set_params(
        **{f"{name}__min_records": None for name, _ in chosen.steps}
    )
    assert expected_guarantee(always).events == either.left
    encoders = expected_guarantee(make_pipeline(*([chosen[0]] * 2)))
    assert encoders.epsilon > chosen[0].epsilon and encoders.events[0].right == ()
    # Without the other way this one would not be covered.
    assert either.left and compose_epsilon(either.left, 1e-9) > constant.epsilon


def test_a_repair_states_before_its_fit_what_it_states_after():
    X, y, group = table(1500)
    model = with_budget(pipeline(), 1.0)
    few = clone(model).set_params(**{f"{k}__min_records": 9999 for k, _ in model.steps})
    for wrapped in (model, few):
        repair = DP2DPClassifier(
            wrapped, epsilon=0.3, classes=[0, 1], groups=["a", "b"]
        )
        expected = expected_guarantee(repair)
        repair.fit(X, y, sensitive_features=group)
        assert expected.epsilon == repair.privacy_.epsilon <= 1.0
        assert repair.privacy_.epsilon > 0.999


@pytest.mark.parametrize("change", ["another", "none", "nested", "frozen"])
def test_steps_that_decide_on_their_own_add_up(change):
    chosen = with_budget(pipeline(), 1.0)
    first, last = (f"{name}__min_records" for name, _ in chosen.steps)
    encoder, model = (step.epsilon for _, step in chosen.steps)
    if change == "another":
        chosen.set_params(**{first: chosen[0].min_records - 1})
    elif change == "none":
        chosen.set_params(**{first: None})
    elif change == "nested":
        chosen = make_pipeline(make_pipeline(chosen[0]), chosen[1])
    else:
        X, y, _ = table(1500)
        chosen = make_pipeline(FrozenEstimator(chosen[0].fit(X, y)), chosen[1])
    expected = expected_guarantee(chosen)
    assert expected.epsilon > 1.0
    assert not isinstance(expected.events[0], MaximumEvent)
    assert isinstance(expected.events[-1], MaximumEvent)


def test_a_step_that_tells_no_constant_costs_the_same_either_way():
    """An encoder, and a model in batches: what it tells of few records is not known."""
    chosen = with_budget(pipeline(), 1.0)
    batches = clone(chosen[-1]).set_params(epsilon=0.2)
    declared = DPWassersteinLogisticRegression(
        epsilon=0.3, batch_size=9, min_records=chosen[-1].min_records
    )
    steps = [*chosen.steps[:-1], ("batches", declared), ("model", batches)]
    (either,) = expected_guarantee(Pipeline(steps)).events
    assert either.left[-2:] != either.right and len(either.right) == 2
    assert either.right[0] in either.left
    assert either.right[1] == PureEvent(0.99 * 0.2)


def numbers(**params):
    told = {"target_bounds": (0, 1), "groups": ["a", "b"], **params}
    return DPBarycenterRegressor(make_pipeline(DPTableEncoder(), regressor()), **told)


def decisions(**params):
    told = {"classes": [0, 1], "groups": ["a", "b"], **params}
    return DP2DPClassifier(pipeline(), **told)


ODDS = {"constraint": "equalized_odds"}
REPAIRS = {
    "numbers": numbers,
    "numbers on all rows": lambda: numbers(calibration_size="all"),
    "numbers, blind": lambda: numbers(blind=True),
    "decisions": decisions,
    "decisions, blind": lambda: decisions(blind=True),
    "odds on all rows": lambda: decisions(calibration_size="all", **ODDS),
}


def fitted(repair, n):
    X, y, group = table(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        return repair.fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("case", REPAIRS)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_both_ways_cost_at_most_the_budget_inside_a_repair(case, epsilon):
    chosen = with_budget(REPAIRS[case](), epsilon)
    encoder, model = (step for _, step in chosen.estimator.steps)
    assert model.min_records == encoder.min_records
    mu = calibrate_gaussian(model.epsilon, model.delta)
    assert model.min_records == np.ceil(model._signal_of_features / mu)
    # What is told of few records, by hand: with the repair, or beside it.
    constant, repair = 0.99 * model.epsilon, chosen.epsilon
    on_all_rows = chosen.calibration_size == "all"
    either = constant + repair if on_all_rows else max(constant, repair)
    # A pure epsilon has a little less of it at a delta: by randomized response.
    odds = np.exp(either)
    assert np.log(odds - 1e-5 * (1 + odds)) <= epsilon
    expected = expected_guarantee(chosen)
    assert 0.97 * epsilon <= expected.epsilon <= epsilon
    assert expected.epsilon_at(1e-12) >= constant
    seen = set()
    for n in (60, 3000 if epsilon == 2.0 else 9000):
        guarantee = fitted(chosen, n).privacy_
        assert 0.97 * epsilon <= guarantee.epsilon_at(1e-5) <= epsilon
        for delta in (1e-9, 1e-7, 1e-5, 1e-3):
            found, most = (one.epsilon_at(delta) for one in (guarantee, expected))
            assert found <= most * (1 + 1e-9)
        encoder, model = (step.privacy_ for _, step in chosen.estimator_.steps)
        seen.add(encoder.epsilon == 0.0)
        assert (model.events == (PureEvent(constant),)) == (encoder.epsilon == 0.0)
    assert seen == {True, False}


@pytest.mark.parametrize("case", REPAIRS)
def test_groups_do_not_differ_by_a_constant_after_a_repair_either(case):
    """Of two groups whose targets are as different as they can be."""
    chosen = with_budget(REPAIRS[case](), 0.3)
    X, _, group = table(250)
    y = (group == "a").astype(int)
    seeds = [name for name in chosen.get_params() if name.endswith("random_state")]
    for seed in range(5):
        chosen.set_params(**dict.fromkeys(seeds, seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            chosen.fit(X, y, sensitive_features=group)
        given = {} if chosen.blind else {"sensitive_features": group}
        told, plain = chosen.predict(X, **given), chosen.estimator_.predict(X)
        assert np.ptp(plain) == np.ptp(told) == 0.0
        if "odds" not in case:  # which counts by label, and may know the class better
            assert_allclose(told, plain, rtol=1e-12)


def test_what_is_fitted_inside_a_repair_is_decided_by_its_own_records():
    """Of 1,500 three quarters fit the model, or all."""
    for size, is_constant in ((0.25, True), (0.01, False)):
        chosen = with_budget(decisions(calibration_size=size), 0.3)
        least = chosen.estimator[-1].min_records
        assert 0.75 * 1300 < least - 40 and least + 40 < 0.99 * 1300
        assert (fitted(chosen, 1300).estimator_[-1].n_iter_ == 0) == is_constant
        # A second fit starts anew.
        assert fitted(chosen, 4000).estimator_[-1].n_iter_ == 5


def test_the_default_model_of_the_groups_tells_no_constant():
    """A repair would be blind to them: of features it may yet learn a little."""
    for repair in (numbers(blind=True), decisions(blind=True)):
        chosen = with_budget(repair, 1.0)
        assert chosen.estimator[-1].min_records > 300
        model = fitted(chosen, 300).group_estimator_
        assert {step.min_records for _, step in model.steps} == {None}
        assert model[0].privacy_.epsilon > 0 and model[-1].n_iter_ > 0


def _seeded(estimator):
    names = [k for k in estimator.get_params() if k.endswith("random_state")]
    return estimator.set_params(**dict.fromkeys(names, 0))


@pytest.mark.parametrize("case", REPAIRS)
@pytest.mark.parametrize("n", [60, 400])
def test_a_repair_of_batches_is_that_of_the_table(case, n):
    X, y, group = table(n)
    chosen = _seeded(with_budget(REPAIRS[case](), 2.0))
    parts = [slice(0, n // 3), slice(n // 3, n)]

    def blocks():
        return [(X.iloc[part], y[part], group[part]) for part in parts]

    given = {} if chosen.blind else {"sensitive_features": group}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        whole = clone(chosen).fit(X, y, sensitive_features=group)
        again = clone(chosen).fit(Batches(blocks))
    assert whole.privacy_ == again.privacy_
    assert_array_equal(whole.predict(X, **given), again.predict(X, **given))


@pytest.mark.parametrize("case", REPAIRS)
@pytest.mark.parametrize("n", [30, 400])
def test_a_record_moves_what_a_repair_of_few_releases_as_far_as_is_said(case, n):
    """And nothing else, with the noise of the other table; below and above."""
    X, y, group = table(n)
    chosen = _seeded(with_budget(REPAIRS[case](), 2.0))
    moved = 0.0
    for row in range(0, n, n // 5):
        other, changed, groups = X.copy(), y.copy(), group.copy()
        other.loc[row] = [18, 1e9, "nobody"]
        changed[row] = 1 - y[row]
        groups[row] = "b" if group[row] == "a" else "a"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            with recording() as seen:
                one = clone(chosen).fit(X, y, sensitive_features=group)
            with recording(replay=seen) as again:
                two = clone(chosen).fit(other, changed, sensitive_features=groups)
        for a, b in zip(seen.crossings, again.crossings, strict=True):
            apart = np.ravel(np.subtract(a.exact, b.exact, dtype=float))
            norm = np.linalg.norm(apart, 1 if a.norm == "l1" else 2)
            assert norm <= a.sensitivity * (1 + 1e-9)
            moved = max(moved, norm / a.sensitivity)
        assert one.privacy_ == two.privacy_
        given = {} if chosen.blind else {"sensitive_features": group}
        assert_array_equal(one.predict(X, **given), two.predict(X, **given))
    assert moved > 0.9


def test_where_a_constant_would_cost_more_than_the_total_none_is_told():
    """A Gaussian repair of all rows, and one of rows that an encoder has read."""
    on_all_rows = with_budget(decisions(calibration_size="all"), 1.0)
    behind = DPBarycenterRegressor(regressor(), target_bounds=(0, 1), groups=["a", "b"])
    behind = with_budget(make_pipeline(DPTableEncoder(), behind), 1.0)
    for model in (on_all_rows.estimator[-1], behind[-1].estimator):
        assert model.min_records is None
    constant = 0.99 * on_all_rows.estimator[-1].epsilon
    events = (PureEvent(constant), *step_events(on_all_rows))
    assert compose_epsilon(events, 1e-5) > 1.0
    # Behind a step that learns nothing a repair is as if alone.
    public = FunctionTransformer(np.abs)
    front = with_budget(make_pipeline(public, behind[-1]), 1.0)
    alone = with_budget(behind[-1], 1.0)
    least = alone.estimator.min_records
    assert least and front[-1].estimator.min_records == least


def test_where_steps_may_see_other_records_nothing_is_set():
    added = regressor(neighboring="add_remove")
    encoder = DPTableEncoder(neighboring="add_remove")
    assert with_budget(make_pipeline(encoder, added), 1.0)[-1].min_records is None
    private = numbers(neighboring="add_remove").set_params(
        estimator=make_pipeline(encoder, added)
    )
    assert with_budget(private, 1.0).estimator[-1].min_records is None
    # What an earlier call has set does not stay.
    again = decisions(calibration_size="all").set_params(estimator=_with_budget())
    assert again.estimator[0].min_records
    assert with_budget(again, 1.0).estimator[0].min_records is None
    # What a declared guarantee pays for is as it was.
    said = PrivacyGuarantee(0.3, 0.0, "replace_one", "told")
    declared = decisions(base_guarantee=said)
    assert with_budget(declared, 1.0).estimator[-1].min_records is None


def _with_budget():
    return with_budget(pipeline(), 1.0)


def test_before_the_fit_the_larger_cost_counts():
    model = regressor(min_records=500)
    (event,) = expected_guarantee(model).events
    assert isinstance(event, MaximumEvent)
    assert PureEvent(0.99) in (*event.left, *event.right)
    expected = expected_guarantee(model)
    model.fit(np.zeros((400, 1)), np.zeros(400))
    for delta in (1e-9, 1e-5, 1e-2):
        assert model.privacy_.epsilon_at(delta) <= expected.epsilon_at(delta)
    model.fit(np.zeros((600, 1)), np.zeros(600))
    assert model.privacy_.epsilon_at(1e-5) <= expected.epsilon_at(1e-5)


def test_one_count_tells_two_classes():
    query = TargetTotals(2, lambda block: block.x, are_counts=True)
    three = replace(query, n_outputs=3)
    assert (query.n_coordinates, three.n_coordinates) == (1, 3)
    assert replace(query, are_counts=False).n_coordinates == 2
    first = Rows(3, x=np.eye(2)[[0, 1, 1]])
    second = Rows(3, x=np.eye(2)[[1, 1, 1]])
    assert query.of_rows(first, None) == [2] and query.of_rows(second, None) == [3]
    assert query.sensitivity("replace_one") == 1


@pytest.mark.parametrize("size", [1.0, 10.0])
@pytest.mark.parametrize("count", [0, 5, 25, 125])
def test_shares_lose_little_against_the_best_way_to_keep_them_positive(count, size):
    n, rng = 250, np.random.default_rng(0)
    noise = rng.laplace(size=300) * DiscreteLaplaceMechanism(1, 1 / size).scale
    truth = count / n

    def loss(shares):
        p = np.array(shares)
        return -np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p))

    ours = loss([likely_share(count + z, n, size, power=1) for z in noise])
    others = [np.maximum([count + noise, n - count - noise], m) for m in (1.0, size)]
    best = min(loss(first / (first + second)) for first, second in others)
    entropy = -(0.02 * np.log(0.02) + 0.98 * np.log(0.98))
    if 0 < count:
        entropy = max(entropy, loss(truth))
    assert ours - best < (0.03 if size > 1 else 0.005) * entropy


def test_who_comes_next_counts_as_a_part_of_a_record():
    """Of a cell that is surely empty, or surely all: there is no noise to speak of."""
    for power, part in ((1, 0.35), (2, 0.25)):
        found = [likely_share(x, 100.0, 0.01, power=power) for x in (0.0, 100.0)]
        assert found == pytest.approx([part / (100 + 2 * part), 1 - found[0]])


@pytest.mark.parametrize("signal, n_gradients", [(6.0, 0), (30.0, 5)])
def test_a_rare_class_takes_the_budget_of_a_network(signal, n_gradients, monkeypatch):
    asked = asked_of(monkeypatch)
    mu = calibrate_gaussian(3.0, 1e-5)
    y = (np.arange(1000) < signal / mu).astype(int)
    _, network = models([0, 1], epsilon=3.0, max_iter=5, random_state=0)
    network.fit(np.zeros((1000, 3)), y)
    queries, _ = zip(*asked, strict=True)
    assert queries[:2] == ("range counts",) * 2
    assert queries.count("gradients") == n_gradients and len(asked) == 9
    assert network.n_iter_ == 5
    if not n_gradients:  # all six told the count
        told = network.predict_proba(np.zeros((1, 3)))[0, 1]
        assert abs(told - y.mean()) < 3 / mu / 1000
        assert (network.coefs_[-1] == 0.0).all()


@pytest.mark.parametrize("classes", ["ab", "abc"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_output_perturbation_asks_for_the_constant_alone(
    classes, relation, monkeypatch
):
    """Where rows say that slopes would drown; all of the budget tells the classes."""
    asked, shares = asked_of(monkeypatch), {"a": 0.6, "b": 0.3, "c": 0.1}
    rng, n = np.random.default_rng(0), 3000
    X, y = rng.uniform(-1, 1, (n, 2)), rng.choice(list("abc"), n, p=[*shares.values()])
    y = np.where(y == "c", classes[-1], y)
    mu = calibrate_gaussian(1.0, 1e-5)
    few, more = 20, 3000
    if relation == "replace_one":  # twenty times the square of the longest row, 2
        sizes = np.arange(100, 400)
        left = sizes * mu * np.sqrt(1 - np.array([*map(constant_share, sizes * mu)]))
        few, more = sizes[left < 39.9].max(), sizes[left > 40.1].min()
    model = output_perturbation(
        list(classes), data_norm=1.0, neighboring=relation, random_state=0
    )
    for n, ways in ((few, ["counts"]), (more, ["parameters"]), (3000, ["parameters"])):
        asked.clear()
        model.fit(X[:n], y[:n])
        assert asked == [("counts", "counts"), *[(way, "parameters") for way in ways]]
        assert 0.999 <= model.privacy_.epsilon_at(1e-5) <= 1.0
        # Labels that features say nothing of: a constant either way.
        assert not model.coef_.any()
        told = model.predict_proba(X[:1])[0]
        assert np.ptp(model.predict_proba(X), axis=0).max() < 1e-12
        share = 1.0 if ways == ["counts"] else constant_share(n * mu)
        noise = np.sqrt(2 / share) / mu / n
        found = [(y[:n] == label).mean() for label in classes]
        if relation == "replace_one":
            assert np.abs(told - found).max() < 3 * noise


def test_slopes_that_stand_out_are_kept(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 2))
    score = 2 * X[:, 0]
    for names, cuts in (("ab", [0.0]), ("abc", [-0.5, 0.5])):
        codes = np.searchsorted(cuts, score + 0.3 * rng.normal(size=3000))
        model = output_perturbation(list(names), random_state=0)
        model.fit(X, np.array(list(names))[codes])
        assert abs(model.coef_).max() > 0.5
        assert (model.predict(X) == np.array(list(names))[codes]).mean() > 0.75


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("signal", [20, 30, 70, 76])
def test_a_regressor_tells_the_mean_where_noise_would_drown_gradients(
    n_outputs, signal, monkeypatch
):
    """Inside the range that as many cells tell as so many records do; all is spent."""
    asked, mu = asked_of(monkeypatch), calibrate_gaussian(1.0, 1e-5)
    n = int(signal * n_outputs**0.5 / mu)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (n, 2)), 0.7 + 0.1 * rng.normal(size=(n, n_outputs))
    model = DPWassersteinMLPRegressor(
        bounds=(-1, 1), target_bounds=([-1] * n_outputs, [1] * n_outputs),
        fairness_weight=0, max_iter=2, random_state=0,
    ).fit(X, y)  # fmt: skip
    assert 0.999 <= model.privacy_.epsilon_at(1e-5) <= 1.0
    told = ["target counts"] if signal > 26.5 else []
    if signal < 75:
        assert [name for name, _ in asked] == [*told, "constant"]
        assert model.n_iter_ == 1 and not model.coefs_[-1].any()
        error = model.predict(X[:1]) - y.mean(axis=0)
        # Of half the range, and of the part that is told.
        noise = 2 * n_outputs**0.5 / mu / n * (0.6 if told else 1.0)
        assert np.abs(error).max() < 3.2 * noise
    else:
        steps = ["gradients", "gradients", "line search", "mean residual"]
        names = [*told, "constant", *steps]
        found = [name for name, _ in asked if name != "range counts"]
        assert found == names and model.n_iter_ == 2


@pytest.mark.parametrize("signal", [76, 100, 124])
@pytest.mark.parametrize(
    ("draw", "most"),
    [
        (lambda rng, n: rng.choice([-1.0, 1.0], n), 0.15),
        (lambda rng, n: rng.uniform(-1, 1, n), 0.15),
        (lambda rng, n: 0.1 * np.exp(rng.normal(size=n)) - 1, 0.2),
        (lambda rng, n: 0.01 * rng.normal(size=n) - 0.4, 0.2),
    ],
    ids=["two values", "uniform", "skewed", "narrow"],
)
def test_a_mean_alone_is_not_lost_to_a_range_that_noise_made_up(signal, draw, most):
    """In standard deviations of a target that fills its bounds, or nearly none."""
    n, off = math.ceil(signal / calibrate_gaussian(1.0, 1e-5)), []
    for seed in range(25):
        y = draw(np.random.default_rng(seed), n)
        model = DPLinearRegression(
            bounds=(-1, 1), target_bounds=(-1, 1), random_state=seed
        ).fit(np.zeros((n, 1)), y)
        off.append((model.intercept_ - y.mean()) / y.std())
    assert np.sqrt(np.mean(np.square(off))) < most


@pytest.mark.parametrize(
    ("signal", "told_at"), [(74, 74), (76, 160), (100, 160), (124, 160), (126, 126)]
)
def test_counts_for_a_mean_alone_tell_as_much_as_those_of_more_records(
    signal, told_at, monkeypatch
):
    mu, plans = calibrate_gaussian(1.0, 1e-5), []
    reserve = PrivacyFilter.reserve

    def seen(wall):
        plans.append(wall.plan)
        return reserve(wall)

    monkeypatch.setattr(PrivacyFilter, "reserve", seen)
    n = math.ceil(signal / mu)
    DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), random_state=0).fit(
        np.zeros((n, 1)), np.zeros(n)
    )
    (plan,) = plans
    counts = [line for line in plan if line.name == "target counts"]
    own = sum(line.times * line.parameter**2 for line in counts)
    spent = sum(line.times * line.parameter**2 for line in plan)
    assert n * math.sqrt(own / 0.05) == pytest.approx(told_at, rel=0.005)
    assert math.sqrt(spent) == pytest.approx(mu, rel=1e-3)
    assert [line.times for line in counts] == [max(1, told_at // 75)]


@pytest.mark.parametrize("signal", [79, 81, 100, 124, 126])
def test_features_on_trial_leave_half_of_their_budget_to_the_mean(signal, monkeypatch):
    """Where they tell nothing; then all that is left is one mean with less noise."""
    mu, asked = calibrate_gaussian(1.0, 1e-5), asked_of(monkeypatch)
    n, ended, off = math.ceil(signal / mu), 0, []
    for seed in range(20):
        asked.clear()
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(-1, 1, (n, 3)), rng.uniform(-1, 1, n)
        model = DPLinearRegression(
            bounds=(-1, 1), target_bounds=(-1, 1), random_state=seed
        ).fit(X, y)
        names, pays = zip(*asked, strict=True)
        n_steps = names.count("gradients")
        assert model.n_iter_ == pays.count("gradients")
        if names[-1] == "mean residual" and pays[-1] == "line search":
            ended += 1
            assert not model.coef_.any() and model.coef_covariance_ is None
            assert n_steps == (model.n_iter_ // 2 if signal > 80 else 0)
            left = pays.count("second moments") - names.count("second moments")
            left += model.n_iter_ - n_steps
            assert names.count("mean residual") == 3 + left
            off.append(model.intercept_ - y.mean())
        else:
            assert n_steps == model.n_iter_
    if signal > 125:
        assert ended == 0
        return
    assert ended >= (20 if signal < 80 else 10)
    # Half of what the gradients have is left, or all; the counts and moments are paid.
    left = 1 - 0.05 * (160 / signal) ** 2
    left *= (0.3 + 0.7 * (0.5 + 0.5 * 0.2)) * 0.9 if signal > 80 else 1.0
    assert np.sqrt(np.mean(np.square(off))) < 2.0 * 2 / signal / math.sqrt(left)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_trial_ends_by_what_was_released(relation):
    """A record moves each release by its sensitivity; with these fixed nothing else."""
    ended, epsilon = [], 1.0
    if relation == "add_remove":  # as if there were 10,000
        epsilon = gaussian_epsilon(100 / 10_000, 1e-5)
    n = math.ceil(100 / calibrate_gaussian(epsilon, 1e-5))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (n, 3))
        y = np.clip(0.5 * (seed % 2) * X[:, 0] + 0.3 * rng.normal(size=n), -1, 1)
        if relation == "add_remove":
            other = X[1:], y[1:]
        else:
            other = np.vstack([[1, -1, 1], X[1:]]), np.r_[-1.0, y[1:]]
        model = DPLinearRegression(
            epsilon=epsilon,
            bounds=(-1, 1),
            target_bounds=(-1, 1),
            neighboring=relation,
            random_state=seed,
        )
        with recording() as seen:
            one = clone(model).fit(X, y)
        with recording(replay=seen) as changed:
            two = clone(model).fit(*other)
        for a, b in zip(seen.crossings, changed.crossings, strict=True):
            moved = np.ravel(np.subtract(a.exact, b.exact, dtype=float))
            norm = np.linalg.norm(moved, 1 if a.norm == "l1" else 2)
            assert norm <= a.sensitivity * (1 + 1e-9)
        assert_array_equal(one.coef_, two.coef_)
        assert (one.intercept_, one.n_iter_) == (two.intercept_, two.n_iter_)
        assert one.privacy_ == two.privacy_
        ended.append(not one.coef_.any())
    assert any(ended) and not all(ended)


@pytest.mark.parametrize("signal", [82, 100, 124])
def test_features_that_tell_much_stand_their_trial(signal):
    n, scores = math.ceil(signal / calibrate_gaussian(1.0, 1e-5)), []
    for seed in range(10):
        X = np.random.default_rng(seed).uniform(-1, 1, (n, 3))
        y = X @ [0.6, 0.3, -0.1]
        model = DPLinearRegression(
            bounds=(-1, 1), target_bounds=(-1, 1), random_state=seed
        ).fit(X, y)
        scores.append(model.score(X, y))
    assert np.median(scores) > 0.5


@pytest.mark.parametrize("n_bins", [8, 16, 64])
def test_a_range_has_room_for_gradients_and_none_for_a_constant(n_bins):
    counts, released = (
        TargetCounts(n_bins, room=2.0),
        1000.0 * (np.arange(n_bins) == n_bins // 2),
    )
    _, width = counts.ranges(released, 1000, 1e-9)
    part = CountedPart(counts, 1000, -0.2, 0.5, released, looks=1, scale=1e-9)
    learnt = LearntRange.of([part, replace(part, width=0.25, before=part)])
    room = 2 if n_bins == 64 else 1
    assert_allclose(learnt.width, room * width * np.array([0.5, 0.25]))
    assert np.all(learnt.width < 1)
    assert_allclose(learnt.center, -0.2 + part.found[0] * np.array([0.5, 0.25]))
    assert learnt.spread == 0.05  # all targets in one bin, and no less


def test_spread_of_targets_is_told_in_units_of_the_range():
    """Of two targets: three bins apart, and all in one."""
    released, counts = np.zeros(64), TargetCounts(64, room=2.0)
    released[[30, 33]] = 500.0
    part = CountedPart(counts, 1000, 0.0, 1.0, released, looks=1, scale=1e-9)
    narrow = replace(part, released=1000.0 * (np.arange(64) == 32))
    learnt = LearntRange.of([part, narrow])
    apart = 1.5 * (2 / 64) / learnt.width[0]
    assert learnt.spread == pytest.approx(np.sqrt(apart**2 / 2))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("times", [0.99, 1.01])
def test_slopes_beyond_two_deviations_of_the_noise_are_kept(
    n_classes, times, monkeypatch
):
    """Their squares are chi-squared, were they noise; of three outputs two are free."""
    d, release = 30, PrivacyFilter.release

    def made_up(self, query, *args, **kwargs):
        released = release(self, query, *args, **kwargs)
        if query.name != "parameters":
            return released
        n_free = d * (n_classes - 1)
        least = n_free + 2 * np.sqrt(2 * n_free)
        slopes = np.zeros_like(released)
        slopes[3] = 1.0 if n_classes == 2 else [1.0, -1.0, 0.0]
        slopes *= times * np.sqrt(least) * self.scale(query) / np.linalg.norm(slopes)
        return slopes + 7.0 * (n_classes == 3)  # what all outputs share says nothing

    monkeypatch.setattr(PrivacyFilter, "release", made_up)
    X, y = np.zeros((3000, d)), np.arange(3000) % n_classes
    model = output_perturbation(list(range(n_classes)), random_state=0).fit(X, y)
    assert model.coef_.any() == (times > 1)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_from_how_many_records_on_a_line_has_slopes(relation, monkeypatch):
    """80 over the parameter; where their number is private, as if it were 10,000."""
    asked = asked_of(monkeypatch)
    least = int(np.ceil(80 / calibrate_gaussian(1.0, 1e-5)))
    tables, epsilons = (least - 1, least), (1.0, 1.0)
    if relation == "add_remove":
        edge = gaussian_epsilon(80 / 10_000, 1e-5)
        tables, epsilons = (1000, 1000), (0.999 * edge, 1.001 * edge)
    for has_slopes, n, epsilon in zip((False, True), tables, epsilons, strict=True):
        asked.clear()
        y = np.linspace(-1, 1, n)
        model = DPLinearRegression(
            epsilon=epsilon,
            bounds=(-1, 1),
            target_bounds=(-1, 1),
            neighboring=relation,
            random_state=0,
        ).fit(y[:, None], y)
        queries = {query for query, _ in asked}
        assert ("gradients" in queries) == has_slopes
        assert model.coef_.any() == has_slopes


@pytest.mark.parametrize(
    ("make", "signal"),
    [
        (output_perturbation, 90.0),
        (lambda classes: models(classes)[0], 90.0),
        (lambda classes: models(classes)[1], 150.0),
        (lambda classes: DPLinearRegression(), 80.0),
    ],
)
def test_from_how_many_records_on_an_encoder_is_worth_it(make, signal):
    model = with_budget(make_pipeline(DPTableEncoder(), make(["a", "b"])), 1.0)
    least = signal / calibrate_gaussian(model[-1].epsilon, model[-1].delta)
    assert model[-1].min_records == np.ceil(least)


cell = st.floats(-1.5, 1.5) | st.sampled_from([-1.0, 1.0]) | st.floats()


@pytest.mark.parametrize("are_counts", [True, False])
@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
@given(data=st.data(), n=st.integers(1, 6), n_outputs=st.integers(1, 4))
@settings(max_examples=30)
def test_one_record_changes_totals_by_no_more_than_is_paid(
    neighboring, are_counts, data, n, n_outputs
):
    """Any targets, NaN and infinite ones too: whole numbers, whatever the company."""
    query = TargetTotals(n_outputs, lambda block: block.x, are_counts)

    def drawn(n):
        if are_counts:  # one class each
            codes = data.draw(
                arrays(np.int64, n, elements=st.integers(0, n_outputs - 1))
            )
            return np.eye(n_outputs)[codes]
        return data.draw(arrays(np.float64, (n, n_outputs), elements=cell))

    def totals(x):
        return query.of_rows(Rows(len(x), x=x), None)

    first, other = drawn(n), drawn(1)
    with_other = np.concatenate([other, first[1:]])
    second = with_other if neighboring == "replace_one" else first[1:]
    sums = totals(first)
    assert sums.dtype == np.int64 and sums.shape == (query.n_coordinates,)
    change = int(np.abs(sums - totals(second)).sum())
    assert change <= query.sensitivity(neighboring)
    alone = sum(totals(row[None]) for row in first)
    np.testing.assert_array_equal(sums, alone)
    np.testing.assert_array_equal(sums, totals(np.asfortranarray(first[::-1])))


TARGETS = {  # a record that changes its target as far as it can
    "two classes": (True, np.eye(2)[[0, 1, 0]], np.eye(2)[[0, 1, 1]]),
    "three classes": (True, np.eye(3)[[0, 1, 0]], np.eye(3)[[0, 1, 2]]),
    "a number": (False, np.array([[0.3], [-1.0]]), np.array([[0.3], [1.0]])),
}


@pytest.mark.parametrize("wrong", [1.0, 0.5])
@pytest.mark.parametrize("case", TARGETS)
def test_audit_of_the_constant(case, wrong, monkeypatch):
    """What an attacker learns who knows all records but one, from noisy totals."""
    are_counts, *tables = TARGETS[case]
    query = TargetTotals(tables[0].shape[1], lambda block: block.x, are_counts)
    honest = DiscreteLaplaceMechanism._ratio.func

    def told(mechanism):  # noise of another scale than planned
        t, shift = honest(mechanism)
        return (t, shift) if wrong == 1.0 else (int(t * wrong), shift)

    monkeypatch.setattr(DiscreteLaplaceMechanism, "_ratio", property(told))
    noise, sides = noise_source(0), []
    exact = [query.of_rows(Rows(len(x), x=x), None) for x in tables]
    for x in tables:
        ratios = []
        for _ in range(800):
            plan = constant_plan(query, 1.0)
            wall = PrivacyFilter("test", plan, 1e-5, "replace_one", noise)
            wall.reserve()
            released = wall.release(query, Rows(len(x), x=x))
            first, second = (np.abs(released - one).sum() for one in exact)
            ratios.append(float(second - first))
        sides.append(ratios)
    bound = pure_audit(*sides)
    assert (bound <= 0.99) == (wrong == 1.0) and bound > 0.2


@pytest.mark.parametrize("query_of", [TargetTotals, TargetSums])
def test_totals_of_the_largest_table_are_whole_numbers(query_of):
    for are_counts in (True, False):
        query = query_of(3, lambda block: block.x, are_counts)
        block = SimpleNamespace(x=np.eye(3)[:1], n_rows=1)
        sums = query.of_block(block, None)
        assert sums.dtype == np.int64 and sums[0] > 0 and not sums[1:].any()
        assert int(sums[0]) * query.max_rows <= 2**62


@pytest.mark.parametrize("share, is_constant", [(0.02, True), (0.03, False)])
def test_a_network_asks_the_counts_again_where_all_classes_are_rare(share, is_constant):
    n = 2000
    X = np.random.default_rng(0).uniform(-1, 1, (n, 3))
    y = (np.arange(n) < share * n).astype(int)
    network = DPWassersteinMLPClassifier(
        epsilon=1.0,
        fairness_weight=0,
        bounds=(-1, 1),
        data_norm=3**0.5,  # no budget for ranges
        classes=[0, 1],
        max_iter=10,
        hidden_layer_sizes=(4,),
        random_state=0,
    ).fit(X, y)
    assert (np.ptp(network.predict_proba(X)[:, 1]) == 0.0) == is_constant
    # All of the budget is spent, and stated, either way.
    assert 0.999 <= network.privacy_.epsilon_at(network.delta) <= 1.0
