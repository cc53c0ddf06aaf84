"""What searches and cross-validations cost beside other fits in a ledger."""

import math
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from _model_selection import Stub, fair_table, logistic, stub_table
from sklearn.ensemble import BaggingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from fairpriv_sklearn._wall import DRAWS_OF_ONE, PrivacyFilter
from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PureEvent,
    ThresholdEvent,
    calibrate_gaussian,
    compose_delta,
    compose_epsilon,
)
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.model_selection import (
    ConstrainedScore,
    DPGridSearchCV,
    FitShare,
    dp_cross_validate,
)
from fairpriv_sklearn.model_selection import _candidates as candidates
from fairpriv_sklearn.model_selection._candidates import _costs
from fairpriv_sklearn.model_selection._plan import (
    cost_of_fits,
    share_of_composition,
    total_of,
)
from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier
from fairpriv_sklearn.postprocessing import DP2DPClassifier
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    with_budget,
)

PUBLIC = {"classes": [0, 1], "groups": [0, 1]}


def plain(**params):
    return logistic(fairness_weight=0, max_iter=5, **params)


def table(n=4000):
    X, y, group = fair_table(n)
    return pd.DataFrame(X, columns=list("abc")), y, group


def behind(**params):
    model = plain(bounds=None, groups=None, **params)
    return make_pipeline(DPTableEncoder(), model)


CASES = {
    "model": plain(bounds=(-1, 1), groups=None),
    "pipeline": behind(),
    "divided": with_budget(behind(), 1.0),
    "repair": with_budget(DP2DPClassifier(behind(), **PUBLIC), 1.0),
    "histogram": DP2DPClassifier(plain(), method="histogram", **PUBLIC),
}


def given_to(model, group):
    """Groups for who takes them."""
    takes = isinstance(model, DP2DPClassifier)
    return {"sensitive_features": group} if takes else {}


def actual(fits, score, n_seen):
    """What a record really met: so many of the fits, and a score of its own."""
    events = [one for fit in fits[:n_seen] for one in events_of(fit)]
    return [*events, score]


def events_of(fit):
    if hasattr(fit, "privacy_"):
        return fit.privacy_.events
    return [one for _, step in fit.steps for one in step.privacy_.events]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_cross_validation_costs_a_ledger_what_its_fits_compose_to(case, epsilon):
    X, y, group = table()
    ledger, model = PrivacyLedger(2.5 * epsilon, 1e-5), CASES[case]
    given = given_to(model, group)
    about = {"epsilon": epsilon, "classes": [0, 1], "random_state": 0}
    for _ in range(2):  # at the same delta: the second would be refused else
        result = dp_cross_validate(
            model, X, y, cv=3, return_estimator=True, ledger=ledger, **given, **about
        )
    assert 0.999 * epsilon < result.privacy_.epsilon <= epsilon
    claimed, total = result.privacy_.events, ledger.total().epsilon
    assert total == pytest.approx(compose_epsilon(claimed * 2, 1e-5), rel=1e-6)
    # A tenth of the squared parameter is the score's; see `plan_validation`.
    mu = math.sqrt(0.1) * max(e.mu for e in claimed if isinstance(e, GaussianEvent))
    if case != "histogram":  # of pure fits more is the choice's than is needed
        assert total < 1.6 * epsilon
    met = actual(result.estimators, GaussianEvent(0.99 * mu, 1), 2)
    for delta in (1e-3, 1e-5, 1e-7):
        cost = compose_epsilon(met, delta)
        assert cost <= compose_epsilon(claimed, delta)
        assert compose_delta(met, epsilon) <= compose_delta(claimed, epsilon)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("refit", [False, True])
def test_a_composed_search_costs_a_ledger_fits_or_a_choice(case, refit):
    X, y, group = table()
    ledger, model = PrivacyLedger(3.0, 1e-5), CASES[case]
    name = next(k for k in model.get_params() if k.endswith("fairness_weight"))
    grid = {name.replace("fairness_weight", "C"): [0.1, 1.0, 10.0]}
    about = {"method": "compose", "refit": refit, "random_state": 0, **PUBLIC}
    search = DPGridSearchCV(model, grid, ledger=ledger, **about)
    given = given_to(model, group)
    search.fit(X, y, **given)
    events = search.privacy_.events
    (first,) = (one for one in events if isinstance(one, MaximumEvent))
    again = [one for one in events if one is not first]
    (choice,) = first.right
    assert choice == PureEvent(0.5 if refit else 1.0) and bool(again) == refit
    assert 0.95 < search.privacy_.epsilon <= 1.0
    fits = first.left
    if not refit:
        winner = [*events_of(search.best_estimator_)] * 3
        for delta in (1e-3, 1e-5):
            assert compose_epsilon(winner, delta) <= compose_epsilon(fits, delta)
    elif case != "histogram":
        winner = events_of(search.best_estimator_)
        assert compose_epsilon(winner, 1e-5) <= compose_epsilon(again, 1e-5) < 0.501
    # A fit beside it, at the same delta, adds at most its own.
    plain(bounds=(-1, 1), groups=None, ledger=ledger).fit(X, y)
    assert search.privacy_.epsilon < ledger.total().epsilon <= 2.0


def test_noisy_scores_of_a_search_are_gaussian_too():
    X, y, group = table()
    scoring = ConstrainedScore("accuracy", "demographic_parity_difference", 0.1)
    about = {"method": "compose", "scoring": scoring, **PUBLIC}
    search = DPGridSearchCV(CASES["model"], {"C": [0.1, 1.0]}, **about)
    search.fit(X, y, sensitive_features=group)
    (event,) = search.privacy_.events
    (scores,) = event.right
    assert isinstance(scores, GaussianEvent) and scores.n_draws % 2 == 0
    assert scores.mu == pytest.approx(event.left[0].mu, rel=1e-3)
    assert compose_epsilon([event] * 2, 1e-5) < 1.5


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_what_is_not_foreseen_costs_epsilon_and_delta(neighboring):
    """Of code of others, of networks and of few records only a fit tells the cost."""
    X, y, _ = table(600)
    own = {"neighboring": neighboring, "random_state": 0}
    numbers, labels = stub_table(200)
    piped = behind(neighboring=neighboring)
    few = with_budget(piped.set_params(dptableencoder__neighboring=neighboring), 1.0)
    if neighboring == "replace_one":  # of 400 records, about
        few.set_params(dptableencoder__min_records=395)
        few.set_params(dpwassersteinlogisticregression__min_records=395)
    network = DPWassersteinMLPClassifier(
        (64,), fairness_weight=0, bounds=(-1, 1), **PUBLIC, max_iter=20, **own
    )
    for model, rows, target in (
        (Stub(neighboring=neighboring), numbers, labels),
        (network, X.to_numpy(), y),
        (few, X, y),
    ):
        result = dp_cross_validate(model, rows, target, cv=3, classes=[0, 1], **own)
        is_foreseen = model is few and neighboring == "add_remove"
        assert (result.privacy_.epsilon == 1.0) != is_foreseen
        declared = result.privacy_.events == (DeclaredEvent(1.0, 1e-5),)
        assert declared != is_foreseen
        search = DPGridSearchCV(
            model, [{}, {}], method="repeat", classes=[0, 1], epsilon=1.0, **own
        )
        search.fit(rows, target)
        assert search.privacy_.events == (DeclaredEvent(1.0, 1e-5),)


@pytest.mark.parametrize("around", ["repair", "bagging"])
def test_a_model_inside_may_see_few_records_where_the_whole_does_not(around):
    """Both plans are stated there, of which none is foreseen to be the only one."""
    X, y, group = fair_table(1200)
    if around == "repair":
        model = plain(bounds=(-1, 1), groups=None, min_records=300)
        whole = DP2DPClassifier(model, calibration_size="all", **PUBLIC)
        given, about = {"sensitive_features": group}, dict(PUBLIC)
    else:  # about 80 of its rows
        about = {"target_bounds": (0, 1)}
        model = DPLinearRegression(bounds=(-1, 1), min_records=300, **about)
        whole = BaggingRegressor(model, 1, bootstrap=False, max_samples=0.1)
        given, y = {}, y / 1.0
    about |= {"ledger": PrivacyLedger(9.0, 1e-4), "random_state": 0}
    result = dp_cross_validate(whole, X, y, cv=3, **given, **about)
    score, *fits = result.privacy_.events
    assert isinstance(score, GaussianEvent)
    assert [type(fit) for fit in fits] == [DeclaredEvent] * 2
    search = DPGridSearchCV(whole, [{}, {}], method="compose", **about)
    (event,) = search.fit(X, y, **given).privacy_.events
    assert [type(fit) for fit in event.left] == [DeclaredEvent] * 2
    assert search.plan_.fit == search.plan().fit


def test_what_was_paid_for_as_planned_is_not_planned_anew(monkeypatch):
    X, y, _ = table(600)
    check, asked = candidates.check_cost, []

    def dearer_at_first(*cost):
        asked.append(cost)
        if len(asked) == 1:
            raise candidates.OtherCost("approximate", 1)
        return check(*cost)

    monkeypatch.setattr(candidates, "check_cost", dearer_at_first)
    grid, way = [{}, {"C": [2.0]}], "compose"
    search = DPGridSearchCV(CASES["model"], grid, method=way, classes=[0, 1])
    with pytest.raises(ValueError, match="costs more than the budget"):
        search.fit(X, y)
    asked.clear()
    with pytest.raises(ValueError, match="costs more than the budget"):
        dp_cross_validate(CASES["model"], X, y, classes=[0, 1])


def test_a_total_is_never_above_what_was_asked():
    noise, declared = (GaussianEvent(0.25, 10),), (DeclaredEvent(1.0, 1e-5),)
    assert total_of(noise, 1.0, 1e-5) == noise
    assert total_of(noise * 2, 1.0, 1e-5) == declared
    assert total_of(noise, math.inf, 1e-5) == (DeclaredEvent(math.inf, 1e-5),)


@pytest.mark.parametrize("n_fits", [2, 7, 30])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_what_is_paid_for_a_fit_is_the_most_that_is_let_through(n_fits, epsilon):
    """Within rounding, and not a whole budget instead of what fits compose to."""
    for kind in ("gaussian", "threshold"):
        share = share_of_composition(kind, n_fits, epsilon, 1e-5, 10)
        paid = cost_of_fits(share, n_fits)
        assert total_of(paid, epsilon, 1e-5) is paid
        assert paid[0].mu == pytest.approx(share.most * math.sqrt(n_fits), rel=1e-15)
        dearest = calibrate_gaussian(share.epsilon, share.delta, n_draws=1)
        assert (1 - 1e-4) * share.most < dearest <= share.most
    share = share_of_composition("approximate", n_fits, epsilon, 1e-5, 10)
    paid = cost_of_fits(share, n_fits)
    assert total_of(paid, epsilon, 1e-5) is paid
    low, high = 0.5, 2.0  # a fit of so many times its share passes, or does not
    while low < (middle := (low + high) / 2) < high:
        cost = share.epsilon * middle
        stated = PrivacyGuarantee(cost, share.delta, "replace_one", "a declared fit")
        passes = _costs.is_paid(stated, share)
        low, high = (middle, high) if passes else (low, middle)
    assert 1 <= low and share.epsilon * low <= paid[0].epsilon


def test_fits_that_a_plan_foresees_are_made_once(monkeypatch):
    made, fit = [], candidates.fit_quietly
    monkeypatch.setattr(
        candidates, "fit_quietly", lambda *asked: made.append(1) or fit(*asked)
    )
    X, y, group = table()
    repair = DP2DPClassifier(plain(), **PUBLIC)
    for model in (repair, CASES["repair"]):
        made.clear()
        dp_cross_validate(model, X, y, sensitive_features=group, cv=3, **PUBLIC)
        assert len(made) == 3
    linear = DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1))
    made.clear()
    wide = np.tile(X.to_numpy(), 100)
    dp_cross_validate(linear, wide, y / 1.0, cv=2, target_bounds=(0, 1))
    assert len(made) == 2


def labelled(n_columns, n_classes, n_groups=1, n_rows=300):
    rows = np.arange(n_rows)
    X = np.cos(np.outer(rows, 1.0 + np.arange(n_columns)))
    return X, rows % n_classes, rows // n_classes % n_groups


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (logistic(bounds=(-1, 1), max_iter=15), (140, 10, 5)),
        (logistic(bounds=(-1, 1), max_iter=100, fairness_weight=0), (140, 10, 1)),
        (DP2DPClassifier(plain(bounds=(-1, 1)), blind=True), (3, 2, 60)),
    ],
    ids=["groups", "classes", "blind"],
)
def test_no_fit_draws_more_numbers_than_are_planned(model, sizes, is_told):
    """Gradients grow with columns, classes and groups; the count is what it drew."""
    X, y, group = labelled(*sizes)
    own = {"classes": list(range(sizes[1])), "groups": list(range(sizes[2]))}
    inside = {f"estimator__{k}": None for k in own if "estimator" in model.get_params()}
    model.set_params(**dict.fromkeys(own), **inside)
    given = {"sensitive_features": group} if sizes[2] > 1 else {}
    about = {"cv": 2, "random_state": 0, "return_estimator": True, **given}
    reads = nullcontext() if is_told else pytest.warns(PrivacyLeakWarning)
    with reads:
        result = dp_cross_validate(model, X, y, **about, **own if is_told else {})
    (fit, _), (claim,) = result.estimators, result.privacy_.events
    drawn = _costs._gaussian_cost(fit.privacy_.events)[1]
    assert isinstance(claim, GaussianEvent) and claim.n_draws >= drawn > 100_000


def test_the_widest_release_of_a_penalised_step_is_what_is_planned_for(monkeypatch):
    """A formula by hand stands there, and the query here: both count the same."""
    widths, release = [], PrivacyFilter.release

    def counted(wall, query, *given, **more):
        widths.append(query.n_coordinates)
        return release(wall, query, *given, **more)

    monkeypatch.setattr(PrivacyFilter, "release", counted)
    for n_columns, n_classes, n_groups in ((30, 3, 4), (60, 2, 7)):
        X, y, group = labelled(n_columns, n_classes, n_groups)
        lists = {"classes": list(range(n_classes)), "groups": list(range(n_groups))}
        about = {"constraint": "equalized_odds", "max_iter": 1, **lists}
        widths.clear()
        logistic(bounds=(-1, 1), **about).fit(X, y, sensitive_features=group)
        many = _costs._as_many(n_columns, n_classes, n_groups)
        # Of two classes one output tells both.
        planned = many * DRAWS_OF_ONE / (1 + (n_classes == 2))
        assert many > 1 and round(planned) in widths


def test_of_a_table_that_others_widen_nothing_is_foreseen():
    """How many columns a model sees is not known before: products of 30 are 496."""
    X, y, _ = labelled(30, 2, n_rows=6000)
    line = DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1))
    piped = make_pipeline(PolynomialFeatures(), line)
    ledger, about = PrivacyLedger(9.0, 1e-5), {"target_bounds": (0, 1)}
    result = dp_cross_validate(piped, X, y / 1.0, cv=2, ledger=ledger, **about)
    assert result.privacy_.events == (DeclaredEvent(1.0, 1e-5),)
    grid = {"dplinearregression__alpha": [0.1, 1.0]}
    for method in ("compose", "repeat"):
        search = DPGridSearchCV(piped, grid, method=method, refit=True, epsilon=4.0)
        search.fit(X, y / 1.0)
        assert search.privacy_.events == (DeclaredEvent(4.0, 1e-5),)
        (event,) = search.best_estimator_[-1].privacy_.events
        assert event.n_draws > 100_000


def test_a_search_that_foresees_too_few_draws_fits_its_winner_again(monkeypatch):
    """Of repeat and select nothing is foreseen, so its second fit may draw more."""
    monkeypatch.setattr(_costs, "_as_many", lambda *_: 1.0)
    X, y, _ = labelled(140, 10)
    model = logistic(bounds=(-1, 1), fairness_weight=0, max_iter=100, groups=None)
    own = {"classes": list(range(10)), "method": "repeat", "random_state": 0}
    search = DPGridSearchCV(model.set_params(classes=None), [{}] * 2, refit=True, **own)
    (event,) = search.fit(X, y).best_estimator_.privacy_.events
    assert event.n_draws > 100_000


def test_names_that_several_fits_show_are_counted_each():
    share = FitShare("threshold", 1.0, 1e-6, 0.2, 100, failure=1e-8)
    noise, *shown = cost_of_fits(share, 4)
    assert noise == GaussianEvent(2 * 0.2 * (1 - 1e-10), 400)
    assert shown == [ThresholdEvent(1e-8)] * 4
