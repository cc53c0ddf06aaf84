"""``calibration_size="all"``: every phase reads all rows, and the costs add up."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from fairpriv_sklearn.accounting import (
    EitherEvent,
    MaximumEvent,
    compose_epsilon,
    event_from_dict,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.model_selection import DPGridSearchCV, expected_error
from fairpriv_sklearn.model_selection._candidates._making import _budgets
from fairpriv_sklearn.model_selection._plan import FitShare
from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier
from fairpriv_sklearn.postprocessing import DP2DPClassifier, DPBarycenterRegressor
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLedger,
    deployment_card,
    privacy_report,
    with_budget,
)
from fairpriv_sklearn.privacy._budget._costs import private_steps
from fairpriv_sklearn.privacy._steps import expected_guarantee

N_ROWS = 1500
ENDS = (-4, 4)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    codes = (rng.random(N_ROWS) < 0.4).astype(int)
    X = (rng.normal(size=(N_ROWS, 2)) + codes[:, None]).clip(*ENDS)
    y = (X[:, 0] + rng.normal(size=N_ROWS) > 0.5).astype(int)
    return X, y, codes


def logistic(seed=0, **params):
    params = {"bounds": ENDS, "classes": [0, 1], "fairness_weight": 0.0, **params}
    return DPWassersteinLogisticRegression(random_state=seed, **params)


def line(**params):
    return DPLinearRegression(bounds=ENDS, target_bounds=ENDS, random_state=0, **params)


def classifier(base, **params):
    params = {"calibration_size": "all", "random_state": 5, **params}
    return DP2DPClassifier(base, classes=[0, 1], groups=[0, 1], **params)


def regressor(base, **params):
    params = {"calibration_size": "all", "random_state": 5, **params}
    return DPBarycenterRegressor(base, target_bounds=ENDS, groups=[0, 1], **params)


# How to make each repair of a base; the second entry says what the base learns.
REPAIRS = {
    "classes": (classifier, logistic, {}),
    "histogram": (classifier, logistic, {"method": "histogram"}),
    "odds": (classifier, logistic, {"constraint": "equalized_odds"}),
    "numbers": (regressor, line, {}),
    "blind classes": (classifier, logistic, {"blind": True}),
    "blind numbers": (regressor, line, {"blind": True}),
}
each_repair = pytest.mark.parametrize("name", REPAIRS)


def made(name, *, frozen_on=None, base=None, **params):
    """A repair of a private model; of models frozen after all rows, on request."""
    kind, model, settings = REPAIRS[name]
    base, settings = base or model(), {**settings, **params}
    group = logistic(seed=1) if settings.get("blind") else None
    if frozen_on is not None:
        X, y, codes = frozen_on
        base = FrozenEstimator(base.fit(X, y))
        group = group and FrozenEstimator(group.fit(X, codes))
        settings.pop("calibration_size", None)
    return kind(base, **settings, **({"group_estimator": group} if group else {}))


def target(name, table):
    X, y, codes = table
    return (X, y if "numbers" not in name else X[:, 0], codes)


def answers(model, X, codes):
    given = {} if model.blind else {"sensitive_features": codes}
    return model.predict(X, **given)


@each_repair
def test_it_is_the_repair_of_models_frozen_after_all_rows(name, table):
    X, y, codes = target(name, table)
    model = made(name).fit(X, y, sensitive_features=codes)
    frozen = made(name, frozen_on=(X, y, codes), calibration_size=0.25)
    frozen.fit(X, y, sensitive_features=codes)
    np.testing.assert_array_equal(answers(model, X, codes), answers(frozen, X, codes))
    assert model.privacy_.delta == pytest.approx(frozen.privacy_.delta, rel=1e-12)
    # Before a fit the models count with all the draws that they may need.
    assert model.privacy_.epsilon == pytest.approx(frozen.privacy_.epsilon, rel=2e-3)
    assert "random" not in " ".join(model.privacy_.assumptions)


@each_repair
def test_costs_add_up_and_are_known_before(name, table):
    X, y, codes = target(name, table)
    model = made(name)
    expected = expected_guarantee(model)
    model.fit(X, y, sensitive_features=codes)
    parted = made(name, calibration_size=0.25).fit(X, y, sensitive_features=codes)
    assert model.privacy_.epsilon > parted.privacy_.epsilon * 1.2
    # Counts have no delta, gradients one, as each of the models.
    n_deltas = 1 + model.blind + (name in {"classes", "blind classes"})
    assert parted.privacy_.delta == 1e-5
    assert model.privacy_.delta == pytest.approx(n_deltas * 1e-5)
    assert expected.delta >= model.privacy_.delta * (1 - 1e-9)
    spent = model.privacy_.epsilon_at(expected.delta)
    # Counts compose a little better than any other release of their epsilon.
    # With the draws that a fit makes, of all that it may, a hair is added.
    assert 1 - 1e-4 < expected.epsilon / spent < 1.05


class Rows(ClassifierMixin, BaseEstimator):
    """Counts the rows that it is fitted to."""

    seen: list = []

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.seen.append(len(X))
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-np.asarray(X)[:, 0]))
        return np.column_stack([1 - p, p])


@pytest.mark.parametrize("blind", [False, True])
def test_every_model_sees_all_rows(table, blind):
    X, y, codes = table
    said = PrivacyGuarantee(0.5, 1e-6, "replace_one", "told")
    told = {"group_estimator": Rows(), "group_guarantee": said} if blind else {}
    model = classifier(Rows(), base_guarantee=said, blind=blind, **told)
    Rows.seen.clear()
    model.fit(X, y, sensitive_features=codes)
    assert Rows.seen == [N_ROWS] * (1 + blind)
    assert model.privacy_.delta == pytest.approx(1e-5 + 1e-6 * (1 + blind))
    assert model.privacy_.epsilon > 1.0 + 0.3 * (1 + blind)


@each_repair
def test_one_budget_is_divided(name, table):
    X, y, codes = target(name, table)
    model = with_budget(made(name), 1.0, 1e-5)
    model.fit(X, y, sensitive_features=codes)
    assert model.privacy_.delta <= 1e-5 * (1 + 1e-12)
    assert 0.97 <= model.privacy_.epsilon <= 1.0
    # Twice as much of the squared parameter for the model that is repaired, three times
    # for a repair of a pure epsilon.
    places = ["", "estimator", *["group_estimator"] * model.blind]
    even = with_budget(made(name), 1.0, 1e-5, shares=dict.fromkeys(places, 1.0))
    is_pure = name not in {"classes", "blind classes"}
    assert (even.epsilon < model.epsilon) is is_pure
    assert even.estimator.epsilon < model.estimator.epsilon or is_pure
    if model.blind:
        assert even.group_estimator.epsilon > model.group_estimator.epsilon


def test_one_budget_of_a_pipeline(table):
    X, y, codes = table
    frame = pd.DataFrame(X, columns=["a", "b"])
    pipeline = make_pipeline(DPTableEncoder(), classifier(logistic(bounds=None)))
    model = with_budget(pipeline, 1.0, 1e-5)
    model.fit(frame, y, sensitive_features=codes)
    total = privacy_report(model).guarantee.if_public()
    assert 0.98 <= total.epsilon <= 1.0
    assert total.delta <= 1e-5 * (1 + 1e-12)


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_one_budget_of_pipelines_inside(table, blind, epsilon):
    """They are planned with room for draws; those of the repair want some more."""
    X, y, codes = table
    base, group = (make_pipeline(DPTableEncoder(), logistic(bounds=None)) for _ in "ab")
    told = {"blind": True, "group_estimator": group} if blind else {}
    model = with_budget(classifier(base, max_iter=4, **told), epsilon, 1e-5)
    model.fit(pd.DataFrame(X, columns=["a", "b"]), y, sensitive_features=codes)
    total = model.privacy_.if_public().epsilon_at(1e-5)
    assert 0.999 * epsilon <= total <= epsilon


@pytest.mark.parametrize("blind", [False, True])
def test_one_budget_of_an_encoder_beside_pipelines_inside(table, blind):
    """What is expected, and what each fit reserves, fits a ledger of just the total."""
    X, y, codes = table
    frame = pd.DataFrame(X, columns=["a", "b"])
    base, group = (make_pipeline(DPTableEncoder(), logistic(bounds=None)) for _ in "ab")
    told = {"blind": True, "group_estimator": group} if blind else {}
    pipeline = make_pipeline(DPTableEncoder(), classifier(base, max_iter=4, **told))
    model = with_budget(pipeline, 0.3, 1e-5)
    assert 0.998 * 0.3 <= expected_guarantee(model).epsilon <= 0.3
    ledger = PrivacyLedger(0.3, 1e-5)
    steps = {f"{name}__ledger": ledger for name, _ in model.steps}
    model.set_params(**steps).fit(frame, y, sensitive_features=codes)
    assert 0.99 * 0.3 <= ledger.total().epsilon <= 0.3


def test_a_model_of_few_records_parts_no_rows(table):
    """Nobody is told of a split at random that there was not, on the card neither."""
    X, y, codes = table
    model = logistic(min_records=100)
    model = classifier(model).fit(X, y, sensitive_features=codes)
    (event,) = [e for e in model.privacy_.events if isinstance(e, EitherEvent)]
    assert event_from_dict(event.to_dict()) == event
    assert not any("split" in told for told in model.privacy_.assumptions)
    card = deployment_card(model).to_markdown()
    assert "as a public number decides" in card and "parted at random" not in card
    # Inside of a parted repair the rows are.
    inside = EitherEvent([MaximumEvent(event.left, event.right)], [])
    told = PrivacyGuarantee.from_events(
        [inside], delta=1e-5, neighboring="replace_one", mechanism="told"
    )
    assert any("split at random" in one for one in told.assumptions)


def test_a_declared_or_frozen_model_counts_in_one_budget(table):
    X, y, codes = table
    said = PrivacyGuarantee(0.6, 0.0, "replace_one", "told")
    declared = with_budget(classifier(Rows(), base_guarantee=said), 1.0)
    declared.fit(X, y, sensitive_features=codes)
    assert declared.epsilon < 0.6
    # As much is left beside a model that was fitted for the same, but for the room.
    fitted = logistic(epsilon=0.5).fit(X, y)
    beside = with_budget(classifier(Rows(), base_guarantee=fitted.privacy_), 1.0)
    frozen = with_budget(DP2DPClassifier(FrozenEstimator(fitted)), 1.0)
    assert beside.epsilon == pytest.approx(frozen.epsilon, rel=1e-4)


@pytest.mark.parametrize("size", ["all", 0.25])
def test_a_declared_model_of_the_groups_counts_in_one_budget(table, size):
    X, y, codes = table
    said = PrivacyGuarantee(0.6, 0.0, "replace_one", "told")
    told = {"group_estimator": Rows(), "group_guarantee": said, "blind": True}
    model = with_budget(classifier(logistic(), calibration_size=size, **told), 1.0)
    model.fit(X, y, sensitive_features=codes)
    assert model.privacy_.epsilon <= 1.0
    assert (model.estimator.epsilon < 0.6) is (size == "all")
    if size == 0.25:  # parted, it is as dear as it says
        with pytest.raises(ValueError, match="epsilon is too small"):
            with_budget(model, 0.5)


def test_the_default_model_of_the_groups_costs_and_has_no_share(table):
    X, y, codes = table
    model = classifier(logistic(), blind=True)
    with pytest.raises(ValueError, match="needs its own group_estimator"):
        with_budget(model, 1.0)
    model.fit(X, y, sensitive_features=codes)
    aware = classifier(logistic()).fit(X, y, sensitive_features=codes)
    assert model.privacy_.epsilon > aware.privacy_.epsilon + 0.2
    expected = expected_guarantee(classifier(logistic(), blind=True))
    assert expected.delta == pytest.approx(3e-5)


def test_what_may_remember_its_rows_is_refused(table):
    X, y, codes = table
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-4)
    piped = make_pipeline(DPTableEncoder(), DecisionTreeClassifier())
    guess = {"blind": True, "group_estimator": DecisionTreeClassifier()}
    for model, name in [
        (classifier(DecisionTreeClassifier(), ledger=ledger), "estimator"),
        (classifier(piped, ledger=ledger), "estimator"),
        (classifier(logistic(), ledger=ledger, **guess), "group_estimator"),
    ]:
        with pytest.raises(ValueError, match=f"not all of {name} is private"):
            model.fit(X, y, sensitive_features=codes)
    assert ledger.total().epsilon == 0
    # One that was fitted before is whoever's who froze it.
    tree = FrozenEstimator(DecisionTreeClassifier(max_depth=2).fit(X, y))
    model = classifier(tree, base_guarantee="public")
    model.fit(X, y, sensitive_features=codes)
    assert model.privacy_.epsilon == pytest.approx(1.0)


def test_a_ledger_pays_the_sum(table):
    X, y, codes = table
    ledger = PrivacyLedger(epsilon=1.2, delta=1e-4)
    with pytest.raises(BudgetExceededError):
        classifier(logistic(), ledger=ledger).fit(X, y, sensitive_features=codes)
    assert ledger.total().epsilon == 0
    ledger = PrivacyLedger(epsilon=5.0, delta=2e-5)
    model = classifier(logistic(), ledger=ledger).fit(X, y, sensitive_features=codes)
    assert ledger.total().epsilon == pytest.approx(model.privacy_.epsilon)


@pytest.mark.parametrize("method", ["compose", "repeat"])
def test_a_search_pays_for_both(table, method):
    X, y, codes = table
    base = DPOutputPerturbationLogisticRegression(bounds=ENDS, classes=[0, 1])
    repair = classifier(base, random_state=None, max_iter=4)
    search = DPGridSearchCV(
        repair,
        {"fairness_tolerance": [0.0, 0.1]},
        method=method,
        epsilon=3.0,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y, sensitive_features=codes)
    assert search.privacy_.epsilon <= 3.0 * (1 + 1e-9)
    winner = search.best_estimator_
    inner = winner.estimator_.privacy_.epsilon_if_public
    # A third of the share, as a squared parameter, is the repair's.
    assert winner.epsilon < inner < winner.privacy_.epsilon_if_public


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_share_of_a_search_is_divided(delta):
    share = FitShare("approximate", 2.0, delta, np.nan, 0)
    repair = classifier(logistic(), method="histogram")
    budgets = _budgets(repair, private_steps(repair), share)
    assert list(budgets) == ["", "estimator"]
    epsilons, deltas = np.transpose(list(budgets.values()))
    assert deltas.sum() == pytest.approx(delta)
    if delta:
        repair.set_params(epsilon=epsilons[0])
        repair.estimator.set_params(epsilon=epsilons[1], delta=deltas[1])
        total = expected_guarantee(repair).epsilon_at(delta)
        assert 1.9 < total <= 2.0
    else:
        np.testing.assert_allclose(epsilons, 1.0)


@pytest.mark.parametrize("blind", [False, True])
def test_a_repair_on_all_rows_in_another_repair_costs_what_is_expected(table, blind):
    X, y, codes = table
    told = {"blind": True, "group_estimator": logistic(1)} if blind else {}
    inner = classifier(logistic(), sensitive_features=sign, max_iter=4, **told)
    expected = expected_guarantee(inner)
    spent = clone(inner).fit(X, y).privacy_.epsilon_at(expected.delta)
    assert spent <= expected.epsilon <= 1.001 * spent
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
    outer = classifier(inner, calibration_size=0.25, ledger=ledger)
    outer.fit(X, y, sensitive_features=codes)
    assert ledger.total() == (outer.privacy_.epsilon_at(1e-3), 1e-3)


def sign(X):
    return (np.asarray(X)[:, 0] > 0).astype(int)


MANY = list(range(200))  # groups: a release of a table of them draws many numbers


def states_no_less(model, others):
    """Of a fitted repair, beside the releases of the model that it fitted."""
    spent = (*others, *model.estimator_.privacy_.events)
    for delta in (1e-6, model.privacy_.delta, 1e-3):
        assert compose_epsilon(spent, delta) <= model.privacy_.epsilon_at(delta)
    at = model.privacy_.delta
    assert model.privacy_.epsilon < 1.001 * compose_epsilon(spent, at)


def test_what_is_stated_is_no_less_than_what_was_spent(table):
    """A model that draws less than it may has more of a parameter for its epsilon."""
    X, y, codes = (part[:200] for part in table)
    model = classifier(logistic(), epsilon=0.1, max_iter=300).set_params(groups=MANY)
    parted = clone(model).set_params(calibration_size=0.25)
    parted.fit(X, y, sensitive_features=codes)
    own = parted.privacy_.events[0].left
    assert own[0].n_draws > 10**5
    states_no_less(model.fit(X, y, sensitive_features=codes), own)


def test_nor_beside_a_model_that_was_fitted_before(table):
    X, y, codes = (part[:200] for part in table)
    network = DPWassersteinMLPClassifier((200,), bounds=ENDS, classes=[0, 1])
    network.set_params(fairness_weight=0.0, max_iter=300, epsilon=0.1, groups=[0, 1])
    network.fit(X, codes, sensitive_features=codes)
    assert network.privacy_.events[0].n_draws > 10**5
    told = {"blind": True, "group_estimator": FrozenEstimator(network)}
    model = classifier(logistic(), epsilon=0.01, calibration_size=0.25, **told)
    states_no_less(model.fit(X, y, sensitive_features=codes), network.privacy_.events)


def test_a_repair_by_counts_in_one_budget_has_no_delta(table):
    X, y, codes = table
    inner = classifier(logistic(), sensitive_features=sign, method="histogram")
    model = with_budget(classifier(inner, max_iter=4), 1.0, 1e-5)
    assert expected_guarantee(model).delta == pytest.approx(1e-5)
    model.fit(X, y, sensitive_features=codes)
    assert model.privacy_.delta == pytest.approx(1e-5)


def test_one_budget_of_a_repair_of_a_vote(table):
    """A vote reads its classes, which makes what it is part of conditional."""
    X, y, codes = table
    vote = VotingClassifier([("one", logistic())], voting="soft")
    repair = classifier(vote, sensitive_features=sign)
    model = with_budget(make_pipeline(DPTableEncoder(), repair), 1.0, 1e-5)
    expected = expected_guarantee(model)
    assert expected.conditional_on and expected.epsilon == np.inf
    assert 0.97 < expected.epsilon_if_public < 1.001


def test_a_private_number_of_rows(table):
    X, y, codes = table
    model = classifier(
        DPOutputPerturbationLogisticRegression(
            bounds=ENDS, classes=[0, 1], neighboring="add_remove", random_state=0
        ),
        neighboring="add_remove",
    ).fit(X, y, sensitive_features=codes)
    assert any("has a row" in said for said in model.privacy_.assumptions)
    assert not any("random split" in said for said in model.privacy_.assumptions)


def test_what_is_expected_counts_all_people():
    sizes = {"group_sizes": [3000, 1000], "n_repeats": 2}
    repair = regressor(line(), random_state=None)
    of_all = expected_error(repair, **sizes)
    repair.set_params(calibration_size=0.25)
    of_quarter = expected_error(repair, group_sizes=[12_000, 4000], n_repeats=2)
    assert of_all == of_quarter


def test_other_words_are_refused(table):
    X, y, codes = table
    with pytest.raises(ValueError, match="calibration_size"):
        made("classes", calibration_size="most").fit(X, y, sensitive_features=codes)
    # The share of the group's model is not read.
    blind = made("blind classes", group_size=0.9)
    blind.fit(X, y, sensitive_features=codes)
    assert blind.privacy_.epsilon > 1.5
