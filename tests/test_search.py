"""Private searches: choices, costs, silence, audits of the selection."""

import gc
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from _audit import pure_audit
from _model_selection import (
    RowPicky,
    Stub,
    barycenter,
    fair_table,
    logistic,
    stub_table,
)
from common import GROUPS, first_sign
from sklearn import config_context
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    TransformerMixin,
    clone,
)
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fairpriv_sklearn._door.estimator import DPEstimator
from fairpriv_sklearn._shared.purity import spreads
from fairpriv_sklearn._wall import rows_of
from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PureEvent,
    ThresholdEvent,
    compose_epsilon,
    gaussian_mu,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.mechanisms import (
    PermuteAndFlip,
    noise_source,
)
from fairpriv_sklearn.model_selection import (
    BoundedScore,
    ConstrainedScore,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    dp_cross_validate,
)
from fairpriv_sklearn.model_selection import _candidates as candidates
from fairpriv_sklearn.model_selection._candidates import _answers, _costs
from fairpriv_sklearn.model_selection._plan import (
    plan_validation,
    share_of_composition,
)
from fairpriv_sklearn.model_selection._scoring import (
    ACCURACY,
    Statistic,
    bounded_score,
)
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    guarantee_of,
    privacy_report,
    with_budget,
)


@pytest.mark.parametrize("method", ["auto", "repeat", "compose"])
@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_the_best_candidate_wins(method, neighboring):
    X, y = stub_table(400)
    search = DPGridSearchCV(
        Stub(neighboring=neighboring),
        {"column": [1, 2, 3]},
        epsilon=4.0,
        method=method,
        coverage=0.999,
        neighboring=neighboring,
        random_state=0,
    ).fit(X, y)
    assert search.best_params_ == {"column": 1}
    assert search.score(X, y) == 1.0
    with pytest.raises(ValueError, match="requires y to be passed"):
        search.score(X)
    assert search.privacy_.epsilon == 4.0 and search.privacy_.delta == 1e-5
    assert search.best_estimator_.privacy_.epsilon_if_public < 4.0
    assert privacy_report(search).guarantee.epsilon == pytest.approx(4.0)


@pytest.mark.parametrize("refit", [False, True])
def test_a_winner_taken_out_of_its_search_states_no_epsilon(refit):
    """Nor does what it is made of, nor a model around it: the choice is private too."""
    X, y = stub_table(200)
    base = DPWassersteinLogisticRegression(
        bounds=(-1, 1), classes=[0, 1], fairness_weight=0.0, max_iter=2
    )
    public = {"classes": [0, 1], "groups": [0, 1]}
    repair = DP2DPClassifier(base, sensitive_features=first_sign_of_the_last, **public)

    def searched(model):
        search = DPGridSearchCV(model, [{}], refit=refit, classes=[0, 1], epsilon=4.0)
        assert 3.9 < search.fit(X, y).privacy_.epsilon <= 4.0
        return search

    search = searched(base)
    pipeline = searched(make_pipeline(FunctionTransformer(np.tanh), base))
    winner = searched(repair).best_estimator_
    for one in (
        search.best_estimator_,
        pipeline.best_estimator_,
        pipeline.best_estimator_[-1],
        winner,
        winner.estimator_,
    ):
        own = guarantee_of(one)
        assert own.epsilon == np.inf and 0 < own.epsilon_if_public <= 4.0
        assert "the choice of this candidate" in str(own)
    around = clone(repair).set_params(estimator=FrozenEstimator(search.best_estimator_))
    assert around.fit(X, y).privacy_.epsilon == np.inf
    around.set_params(estimator=FrozenEstimator(search))
    assert 4.0 < around.fit(X, y).privacy_.epsilon < np.inf
    # What comes frozen is the caller's own.
    given = clone(base).fit(X, y)
    frozen = {"estimator": FrozenEstimator(given), "base_guarantee": "public"}
    searched(clone(repair).set_params(**frozen))
    assert given.privacy_.epsilon <= 1.0


def test_no_noise_is_a_plain_search():
    X, y = stub_table(100)
    for scoring in (
        "accuracy",
        ConstrainedScore(disparity="equalized_odds_difference"),
    ):
        search = DPGridSearchCV(
            Stub(),
            {"column": [3, 2, 1]},
            epsilon=np.inf,
            scoring=scoring,
            sensitive_features=first_sign_of_the_last,
            groups=[0, 1],
            classes=[0, 1],
        ).fit(X, y)
        assert search.best_params_ == {"column": 1}
        assert search.privacy_.epsilon == np.inf


def first_sign_of_the_last(X):
    return (X[:, -1] > 0).astype(int)


def test_one_ledger_entry_before_anything_is_fitted():
    X, y = stub_table()
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    inner = PrivacyLedger(epsilon=100.0, delta=0.1)
    search = DPGridSearchCV(
        Stub(ledger=inner), {"column": [1, 2, 3]}, epsilon=2.0, ledger=ledger
    ).fit(X, y)
    (spend,) = ledger.spends()
    assert spend["epsilon"] == 2.0 and spend["label"] == "DPGridSearchCV"
    assert inner.spends() == []
    assert search.best_estimator_.ledger is None
    refused = DPGridSearchCV(
        Stub(fails="domain"), {"column": [1]}, epsilon=2.0, ledger=ledger
    )
    with pytest.raises(BudgetExceededError):
        refused.fit(X, y)
    assert len(ledger.spends()) == 1


def test_nothing_tells_of_the_losers(capsys):
    X, y = stub_table()
    grid = {"column": [1, 2, 3]}
    search = DPGridSearchCV(Stub(verbose=1), grid, method="repeat")
    gc.collect()
    before = sum(isinstance(one, Stub) for one in gc.get_objects())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, y)
    gc.collect()
    after = sum(isinstance(one, Stub) for one in gc.get_objects())
    assert after == before + 1
    assert capsys.readouterr() == ("", "")
    fitted = {name for name in vars(search) if name.endswith("_")}
    assert fitted == {
        "best_estimator_",
        "best_params_",
        "plan_",
        "privacy_",
        "n_features_in_",
    }
    # Neither the guarantee nor the plan changes with the number of runs.
    texts = set()
    for _ in range(5):
        again = clone(search).fit(X, y)
        texts.add(str(again.privacy_) + str(again.plan_))
    assert len(texts) == 1


def test_numeric_errors_of_candidates_stay_inside():
    X, y = stub_table(200)
    for method in ("repeat", "compose"):
        search = DPGridSearchCV(
            Stub(),
            {"fails": ["", "overflow", "singular"]},
            epsilon=8.0,
            method=method,
            coverage=0.999,
            random_state=0,
        )
        assert search.fit(X, y).best_params_ == {"fails": ""}
        broken = clone(search).set_params(param_grid={"fails": ["overflow"]})
        with pytest.raises(RuntimeError, match="is private") as caught:
            broken.fit(X, y)
        assert "overflowed" not in str(caught.value)
    scored = clone(search).set_params(
        scoring=ConstrainedScore(),
        sensitive_features=first_sign_of_the_last,
        groups=[0, 1],
        classes=[0, 1],
    )
    assert scored.fit(X, y).best_params_ == {"fails": ""}
    outside = clone(search).set_params(param_grid={"fails": ["domain"]})
    with pytest.raises(ValueError, match="outside the domain"):
        outside.fit(X, y)


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_a_row_that_cannot_be_predicted_spoils_its_own_score_only(neighboring):
    X, y = stub_table(40)
    X[7, 2] = -1.0
    model = RowPicky(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    said = candidates.responses(model, ["predict"], X, None, neighboring)["predict"]
    assert said[7] is None
    measured = Statistic((ACCURACY,), None, "replace_one")
    assert measured.query(y, {"predict": said}, None)[0] == 39 - 40 / 2
    assert _answers._row_by_row(lambda rows: X[rows], 2).shape == (2, 4)


class Frail(RegressorMixin, BaseEstimator):
    """Says a number that everybody knows, but none of a negative row."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        if (X < 0).any():
            raise OverflowError("a negative row")
        return np.full(len(X), 0.5)


@pytest.mark.parametrize("n_bad", [1, 20])
def test_a_number_that_cannot_be_predicted_is_the_worst_there_is(n_bad):
    """Behind a repair as well, which asks of rows that are public by themselves."""
    X, y = np.ones((20, 2)), np.zeros(20)
    public = {"target_bounds": (0, 1), "random_state": 0, **GROUPS}
    price = PrivacyGuarantee(1.0, 0.0, "replace_one", "declared")
    repair = DPBarycenterRegressor(Frail(), base_guarantee=price, **public).fit(X, y)
    X[:n_bad] = -1.0
    worst = bounded_score("neg_mean_absolute_error", (0, 1))
    scores = Statistic((worst,), None, "replace_one")
    for model in (Frail().fit(X, y), repair):
        said = candidates.responses(model, ["predict"], X, None, "replace_one")
        told = np.isnan(said["predict"])
        assert told[:n_bad].all() and not told[n_bad:].any()
        others = (0.5 - np.clip(said["predict"][n_bad:], 0, 1)).sum()
        assert scores.query(y, said, None)[0] == pytest.approx(others - n_bad / 2)


def test_a_row_more_changes_no_call_that_others_are_answered_in(monkeypatch):
    size, calls = _answers.BLOCK_ROWS, []

    def ask(model, method, X, **keywords):
        calls.append(len(X))
        return X[:, 0]

    monkeypatch.setattr(_answers, "ask_wrapped", ask)
    X = np.arange(2.0 * size + 5).reshape(-1, 1)
    for relation, expected in (("add_remove", [size] * 3), ("replace_one", [len(X)])):
        calls.clear()
        said = candidates.responses(None, ["predict"], X, None, relation)["predict"]
        np.testing.assert_array_equal(said, X[:, 0])
        assert calls == expected


@pytest.mark.parametrize("method", ["repeat", "compose"])
def test_refit_keeps_its_share(method):
    X, y = stub_table(200)
    search = DPGridSearchCV(
        Stub(),
        {"column": [1, 2, 3, 0]},
        epsilon=4.0,
        method=method,
        refit=True,
        refit_fraction=0.25,
        random_state=0,
    ).fit(X, y)
    assert search.best_estimator_.privacy_.epsilon_if_public == pytest.approx(1.0)
    assert search.best_estimator_.privacy_.delta == pytest.approx(0.25e-5)
    assert search.privacy_.epsilon == 4.0
    # All rows: the noisy sum is near the sum of the whole table.
    noise = search.best_estimator_.mechanism_.scale
    assert abs(search.best_estimator_.value_ - X[:, 0].sum()) < 5 * noise


def test_a_wrong_guess_of_the_guarantee_starts_again():
    """Stub has a delta but is pure here: the first guarantee tells."""
    X, y = stub_table(200)
    search = DPGridSearchCV(
        Stub(kind="pure"), {"column": [1, 2]}, epsilon=2.0, random_state=0
    )
    assert search.plan().fit.kind == "gaussian"
    search.fit(X, y)
    assert search.plan_.fit.kind == "approximate"
    assert search.best_estimator_.privacy_.epsilon_if_public <= search.plan_.fit.epsilon
    result = dp_cross_validate(Stub(kind="pure"), X, y, epsilon=2.0, random_state=0)
    total = compose_epsilon(
        [DeclaredEvent(result.fit_epsilon, result.fit_delta)] * 4, 1e-5
    )
    assert 1.0 < total <= 2.0


def test_costs_of_events_add_up_and_sides_of_a_split_do_not():
    names, both = ThresholdEvent(1e-6), [GaussianEvent(0.3, 5), GaussianEvent(0.4, 2)]
    few, many = (GaussianEvent(1.2, 1),), (GaussianEvent(0.5, 9), names, names)
    cost = _costs._gaussian_cost([*both, names, MaximumEvent(few, many)])
    assert cost == pytest.approx((1.3, 7 + 9, 3e-6))
    assert _costs._gaussian_cost([names, PureEvent(1.0)])[0] == math.inf
    assert _costs._gaussian_cost([])[0] == math.inf


@pytest.mark.parametrize("kind", ["names", "many names"])
def test_fits_that_show_names_start_again_with_them(kind):
    X, y = stub_table(200)
    stub = Stub(kind=kind)
    search = DPGridSearchCV(
        stub, {"column": [1, 2]}, epsilon=2.0, method="compose", random_state=0
    ).fit(X, y)
    found = "threshold" if kind == "names" else "approximate"
    assert search.plan_.fit.kind == found
    result = dp_cross_validate(stub, X, y, epsilon=2.0, cv=3, random_state=0)
    scores = plan_validation(
        2, 2.0, 1e-5, kind=found, score_fraction=0.1, n_draws=10**5, n_statistics=1
    )
    assert scores.fit.epsilon == result.fit_epsilon
    fit = search.best_estimator_.privacy_.events
    assert compose_epsilon([*fit] * 2, 1e-5) <= 2.0
    if found == "threshold":
        assert compose_epsilon([*fit] * 2, 1e-5) > 2.0 * (1 - 5e-3)


@pytest.mark.parametrize("few", ["no plan", "divided", "own plan"])
def test_a_pipeline_with_an_encoder_gets_what_a_model_alone_does(few):
    X, y, group = fair_table(2000)
    frame = pd.DataFrame(X, columns=list("abcd"[: X.shape[1]])).assign(e=group)
    model = DPLinearRegression(target_bounds=(0, 1))
    piped = make_pipeline(DPTableEncoder(), model)
    if few != "no plan":  # so it has a plan for few records as well
        piped = with_budget(piped, 1.0)
    if few == "own plan":
        least = piped[-1].min_records + 1
        piped.set_params(
            dptableencoder__min_records=least, dplinearregression__min_records=least
        )
    grid = {"dplinearregression__alpha": [0.1, 1.0, 10.0]}
    about = {"target_bounds": (0, 1), "method": "compose"}
    search = DPGridSearchCV(piped, grid, **about).fit(frame, y)
    alone = DPGridSearchCV(model, {"alpha": [0.1, 1.0, 10.0]}, **about).plan()
    share = search.plan_.fit
    assert share.kind == search.plan().fit.kind == "threshold"
    assert share.mu == pytest.approx(alone.fit.mu, rel=5e-3)
    events = [e for step in search.best_estimator_ for e in step.privacy_.events]
    spent = math.hypot(*(e.mu for e in events if isinstance(e, GaussianEvent)))
    shown = [e.failure for e in events if isinstance(e, ThresholdEvent)]
    # What an own plan for few records costs more leaves less for the other.
    least = (0.8 if few == "own plan" else 0.995) * share.mu
    assert least < spent <= share.mu and 0 < sum(shown) <= share.failure
    assert compose_epsilon(events * 3, 1e-5) <= 1.0


@pytest.mark.parametrize("n_rows", [500, 4000])
@pytest.mark.parametrize("divided", [False, True])
def test_a_repair_of_a_pipeline_gets_what_a_model_alone_does(n_rows, divided):
    """Unless its model may see few records: a constant's epsilon composes with less."""
    X, y, group = fair_table(n_rows)
    frame = pd.DataFrame(X, columns=list("abcd"[: X.shape[1]]))
    about = {"groups": sorted(set(group.tolist())), "classes": [0, 1]}
    model = logistic(fairness_weight=0, groups=None)
    repair = DP2DPClassifier(make_pipeline(DPTableEncoder(), model), **about)
    if divided:
        repair = with_budget(repair, 1.0)
    grid = {"smoothing": [0.5, 1.0, 2.0]}
    search = DPGridSearchCV(repair, grid, method="compose", **about)
    search.fit(frame, y, sensitive_features=group)
    share, best = search.plan_.fit, search.best_estimator_
    least = [step.min_records for step in best.estimator]
    events = [*best.privacy_.events] * 3
    assert compose_epsilon(events, 1e-5) <= 1.0
    if n_rows > 500 or not divided:
        assert share.kind == search.plan().fit.kind == "threshold"
        assert share.epsilon > 0.58 and least == [None, None]
        assert compose_epsilon(events, 1e-5) > 0.99
    else:
        assert share.kind == "approximate" and share.epsilon < 0.34
        (told,) = set(least)
        again = with_budget(repair, share.epsilon, share.delta)
        assert told == again.estimator[-1].min_records > n_rows / 2


def test_who_may_see_few_records_is_told_anew_for_a_smaller_budget():
    share = share_of_composition("approximate", 4, 1.0, 1e-5, 0)
    noise, public = noise_source(0), {"groups": [0, 1], "classes": [0, 1]}
    model = logistic(fairness_weight=0, **public)
    piped = make_pipeline(DPTableEncoder(), model)
    name = "dpwassersteinlogisticregression"

    def least(estimator, params=None, n_records=None):
        asked = estimator, params or {}, share, noise, public, n_records
        given = candidates.candidate(*asked).get_params().items()
        return {value for key, value in given if key.endswith("min_records")}

    once = with_budget(piped, 1.0)
    (whole,) = least(once)
    assert whole == with_budget(piped, share.epsilon, share.delta)[-1].min_records
    assert whole > once[-1].min_records
    assert least(once, {f"{name}__C": 0.1}, 10**6) == {whole}  # it is known
    assert least(once, {f"{name}__min_records": 5}) == {5, once[0].min_records}
    assert least(once, {name: model}) == {whole}
    assert least(piped) == {None}
    own = clone(once).set_params(**{f"{name}__min_records": 7})
    assert least(own) == {7, once[0].min_records}
    # A repair keeps a part of the records from its model: it sees about these.
    for params, part in (({}, 0.75), ({"blind": True}, 0.5)):
        repair = with_budget(DP2DPClassifier(piped, **public, **params), 1.0)
        (few,) = least(repair)
        for n_seen, told in ((few + 100, few), (few + 260, None)):
            assert least(repair, {}, int(n_seen / part)) == {told}
        assert least(repair, {"estimator": model}, 10**6) == {None}


def test_fits_with_much_noise_are_paid_for(monkeypatch):
    X, y, group = fair_table(400)
    monkeypatch.setattr(_costs, "DRAWS_PER_FIT", 10)
    search = DPGridSearchCV(logistic(), {"C": [0.1, 1.0]}, random_state=0)
    search.fit(X, y, sensitive_features=group)
    assert search.plan_.fit.n_draws > 10


def test_what_an_encoder_releases_makes_no_new_plan(monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1000, 12))).rename(columns="c{}".format)
    y, seen = rng.uniform(size=1000), []
    check = candidates.check_cost

    def seeing(model, *rest):
        seen.append(model)
        return check(model, *rest)

    monkeypatch.setattr(candidates, "check_cost", seeing)
    piped = make_pipeline(DPTableEncoder(), DPLinearRegression(target_bounds=(0, 1)))
    grid = {"dplinearregression__alpha": [0.1, 1.0]}
    about = {"epsilon": 40.0, "random_state": 0, "target_bounds": (0, 1)}
    search = DPGridSearchCV(piped, grid, method="compose", **about).fit(frame, y)
    assert len(seen) == 2
    events = [e for step in search.best_estimator_ for e in step.privacy_.events]
    assert sum(getattr(e, "n_draws", 0) for e in events) > 10_000
    assert search.plan_.fit.n_draws == search.plan().fit.n_draws
    dp_cross_validate(piped, frame, y, cv=2, **about)
    assert len(seen) == 4
    # A table of more columns may become one of many more.
    asked, wide = (piped, [{}], {}), np.zeros((2, 300))
    few, many = (candidates.expected_fit(*asked, X)[1] for X in (None, wide))
    assert many == 4 * few
    monkeypatch.setattr(candidates, "expected_fit", lambda *asked: ("threshold", 10))
    with pytest.raises(ValueError, match="costs more than the budget"):
        search.fit(frame, y)


def test_candidates_that_the_search_makes_alike_are_told_of():
    """Three epsilons above the share were one model, at the price of three."""
    X, y, group = fair_table(300)
    alike = "the same model, as the search lowers it"
    for grid, told in (
        ({"epsilon": [2.0, 4.0, 8.0]}, True),
        ({"epsilon": [0.01, 8.0, 9.0], "C": [1.0]}, True),
        ({"epsilon": [0.01, 8.0]}, False),
        ({"epsilon": [4.0], "C": [1.0, 2.0]}, False),
        ([{"epsilon": [4.0], "C": [1.0]}, {"epsilon": [8.0], "C": [2.0]}], False),
    ):
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
        search = DPGridSearchCV(logistic(), grid, epsilon=1.0, ledger=ledger)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(X, y, sensitive_features=group)
        assert [str(w.message) for w in caught if alike in str(w.message)] == [
            str(w.message) for w in caught[:told]
        ]
        if told:  # and before anything is spent
            ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
            with pytest.raises(UserWarning, match=alike):
                search.set_params(ledger=ledger).fit(X, y, sensitive_features=group)
            assert ledger.total().epsilon == 0.0
    inside = make_pipeline(logistic(fairness_weight=0.0))
    grid = {"dpwassersteinlogisticregression__epsilon": [4.0, 8.0]}
    with pytest.warns(UserWarning, match=alike):
        DPGridSearchCV(inside, grid, epsilon=1.0).fit(X, y)


def test_unequal_prices_are_refused():
    X, y, group = fair_table(300)
    other = DPGridSearchCV(
        logistic(neighboring="add_remove"), {"C": [1.0]}, random_state=0
    )
    with pytest.raises(ValueError, match="same `neighboring`"):
        other.fit(X, y, sensitive_features=group)
    scaled = make_pipeline(StandardScaler(), logistic(fairness_weight=0.0))
    with pytest.raises(ValueError, match="not private as a whole.*StandardScaler"):
        DPGridSearchCV(scaled, {"memory": [None]}).fit(X, y)
    with pytest.raises(ValueError, match="not a private estimator"):
        DPGridSearchCV(LogisticRegression(), {"C": [1.0]}).fit(X, y)
    with pytest.raises(ValueError, match="neither a classifier nor a regressor"):
        DPGridSearchCV(_Nothing(), {"epsilon": [1.0]}).fit(X, y)
    # A model that was fitted before has spent its own budget, on top.
    base = FrozenEstimator(logistic(epsilon=5.0).fit(X, y, sensitive_features=group))
    on_top = DP2DPClassifier(base, classes=[0, 1], groups=[0, 1])
    with pytest.raises(ValueError, match="costs more than"):
        DPGridSearchCV(on_top, {"max_iter": [5]}).fit(X, y, sensitive_features=group)


class _Nothing(DPEstimator):
    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return X[:, 0]


def test_steps_side_by_side_divide_a_share_and_inner_steps_do_not():
    class Doubler(BaseEstimator):
        pass

    share = share_of_composition("approximate", 1, 2.0, 1e-5, 0)
    noise = noise_source(0)
    pipe = Pipeline([("a", logistic()), ("b", logistic())])
    first = candidates.candidate(pipe, {}, share, noise, {})
    assert first["a"].epsilon == first["b"].epsilon
    # What Gaussian steps side by side compose to is exact, and less than their sum.
    assert 1.0 < first["a"].epsilon < 2.0
    both = [GaussianEvent(gaussian_mu(s.epsilon, s.delta), 0) for _, s in first.steps]
    assert 0.999 * 2.0 <= compose_epsilon(both, 1e-5) <= 2.0
    assert candidates.expected_fit(pipe, [{}], {})[0] == "gaussian"
    # One of the whole list shows names, another draws batches.
    grid = [{}, {"a": DPTableEncoder()}, {"b__batch_size": 8}]
    for n, kind in enumerate(("gaussian", "threshold", "approximate"), 1):
        assert candidates.expected_fit(pipe, grid[:n], {})[0] == kind
    nested = DP2DPClassifier(logistic())
    inside = candidates.candidate(nested, {}, share, noise, {"groups": [0, 1]})
    assert inside.epsilon == inside.estimator.epsilon == 2.0
    assert inside.groups == [0, 1]
    capped = candidates.candidate(logistic(), {"epsilon": 0.3}, share, noise, {})
    assert capped.epsilon == 0.3
    assert isinstance(capped.random_state, int)
    secure = candidates.candidate(logistic(), {}, share, noise_source(), {})
    assert secure.random_state is None


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_sensitive_features_in_every_way(routing, wrapped):
    X, y, group = fair_table(600)
    rule = ConstrainedScore("accuracy", at_most=0.3)
    given = {"scoring": rule, "epsilon": 20.0, "method": "compose", "random_state": 1}

    def aware(**params):
        model = DP2DPClassifier(logistic(fairness_weight=0.0), classes=[0, 1], **params)
        if not wrapped:
            return model, "method"
        return Pipeline(
            [("same", FunctionTransformer()), ("last", model)]
        ), "last__method"

    with config_context(enable_metadata_routing=routing):
        model, name = aware(groups=[0, 1])
        grid = {name: ["histogram", "gradient"]}
        call = DPGridSearchCV(model, grid, groups=[0, 1], classes=[0, 1], **given)
        call.fit(X, y, sensitive_features=group)
        by_call = call.predict(X, sensitive_features=group)
        own = clone(call).set_params(sensitive_features=first_sign).fit(X, y)
        np.testing.assert_array_equal(own.predict(X), by_call)
        inner, _ = aware(**GROUPS)
        named = DPGridSearchCV(inner, grid, **given)
        if wrapped:
            with pytest.raises(ValueError, match="in the call.*in the constructor"):
                named.fit(X, y)
        else:
            np.testing.assert_array_equal(named.fit(X, y).predict(X), by_call)
        probabilities = call.predict_proba(X, sensitive_features=group)
        assert probabilities.shape == (600, 2)
    with pytest.raises(ValueError, match="given twice"):
        own.fit(X, y, sensitive_features=group)


def test_a_named_column_of_a_frame_is_no_feature():
    X, y, group = fair_table(500)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["sex"] = np.where(group == 1, "m", "f")
    search = DPGridSearchCV(
        logistic(groups=None),
        {"fairness_weight": [0.0, 0.5]},
        scoring="neg_demographic_parity_difference",
        sensitive_features="sex",
        groups=["f", "m"],
        random_state=0,
    ).fit(frame, y)
    assert search.n_features_in_ == 4
    assert search.best_estimator_.n_features_in_ == 3
    assert search.predict(frame).shape == y.shape
    assert search.decision_function(frame).shape == y.shape


@pytest.mark.parametrize("method", ["repeat", "compose"])
@pytest.mark.parametrize("name", ["classes", "groups"])
def test_leaks_of_those_that_lost_are_told(name, method):
    """The choice depends on what any candidate read; the winner does not say."""
    X, y, group = fair_table(300)
    grid = {name: [None, [0, 1]], "fairness_weight": [0.5]}
    for seed in range(2):
        search = DPGridSearchCV(logistic(), grid, method=method, random_state=seed)
        with pytest.warns(PrivacyLeakWarning, match=name):
            search.fit(X, y, sensitive_features=group)
        assert search.privacy_.conditional_on == (name,)
        assert search.privacy_.epsilon == np.inf


def test_only_what_candidates_may_read_is_a_condition():
    X, y, _ = fair_table(300)
    for estimator, grid, expected in [
        (logistic(fairness_weight=0.0), {"bounds": [None, (-4, 4)]}, ()),
        (logistic(fairness_weight=0.0), {"data_norm": [None, 1.0]}, ()),
        # Without sensitive features none are read.
        (logistic(fairness_weight=0.0), {"groups": [None, [0, 1]]}, ()),
        (logistic(fairness_weight=0.0), {"classes": [None, [0, 1]]}, ()),
    ]:
        search = DPGridSearchCV(estimator, grid, random_state=0, classes=[0, 1])
        assert search.fit(X, y).privacy_.conditional_on == expected
    twice = make_pipeline(FunctionTransformer(_twice), logistic(fairness_weight=0.0))
    steps = {"functiontransformer": ["passthrough", FunctionTransformer(_twice)]}
    with pytest.warns(PrivacyLeakWarning, match="FunctionTransformer"):
        search = DPGridSearchCV(twice, steps, random_state=0).fit(X, y)
    assert len(search.privacy_.conditional_on) == 1


@pytest.mark.parametrize("inside", ["model", "pipeline", "groups", "vote"])
def test_labels_that_a_repair_tells_its_model_are_no_condition(inside):
    """Nothing was read, and where another candidate won the guarantee was infinite."""
    X, y, group = fair_table(300)
    untold, model = logistic(classes=None, fairness_weight=0.0), logistic()
    repair = DP2DPClassifier(untold, classes=[0, 1], groups=[0, 1], max_iter=2)
    if inside == "pipeline":
        repair.set_params(estimator=make_pipeline("passthrough", untold))
    elif inside == "groups":
        more = {"blind": True, "group_estimator": clone(untold)}
        repair.set_params(estimator=logistic(fairness_weight=0.0), **more)
    elif inside == "vote":  # which tells nobody
        repair.set_params(estimator=VotingClassifier([("a", untold)], voting="soft"))
    grid = {"model": [repair, model]}
    for seed in range(3):
        search = DPGridSearchCV(Pipeline([("model", model)]), grid, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(X, y, sensitive_features=group)
        assert ("classes" in search.privacy_.conditional_on) == (inside == "vote")


def _twice(X):
    return 2 * X


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"neighboring": "add_remove"}, "the same `neighboring`"),
        ({"bounds": (1, -1)}, "low <= high"),
        ({"bounds": [(-1, 1), (-1, 1)]}, "tuple"),
        ({"bounds": (np.zeros((2, 2)), 1)}, "tuple"),
    ],
)
def test_what_arguments_tell_is_refused_before_the_budget(changes, match):
    X, y, _ = fair_table(60)
    ledger = PrivacyLedger(9.0, 1e-3)
    model = logistic(fairness_weight=0.0)
    grid = {name: [getattr(model, name), value] for name, value in changes.items()}
    search = DPGridSearchCV(model, grid, ledger=ledger)
    with pytest.raises(ValueError, match=match):
        search.fit(X, y)
    with pytest.raises(ValueError, match=match):
        dp_cross_validate(model.set_params(**changes), X, y, ledger=ledger)
    assert not ledger.spends()


def test_leaks_of_the_winner_are_told():
    X, y, group = fair_table(300)
    search = DPGridSearchCV(logistic(classes=None), {"C": [1.0]}, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        search.fit(X, y, sensitive_features=group)
    assert search.privacy_.conditional_on == ("classes",)
    assert search.privacy_.epsilon_if_public == pytest.approx(1.0)
    assert search.privacy_.epsilon == math.inf
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        dp_cross_validate(
            logistic(classes=None), X, y, sensitive_features=group, random_state=0
        )


def test_lists_and_ranges_from_the_data_are_told():
    X, y, group = fair_table(300)
    search = DPGridSearchCV(
        logistic(groups=None, classes=None),
        {"C": [1.0]},
        scoring="neg_equalized_odds_difference",
        random_state=0,
    )
    with pytest.warns(PrivacyLeakWarning) as caught:
        search.fit(X, y, sensitive_features=group)
    told = " ".join(str(one.message) for one in caught)
    assert "`groups`" in told and "`classes`" in told
    regressor = barycenter()
    untold = clone(regressor).set_params(target_bounds=None)
    with pytest.warns(PrivacyLeakWarning) as caught:
        DPGridSearchCV(untold, {"n_bins": [10]}, random_state=0).fit(
            X, X[:, 1], sensitive_features=group
        )
    told = " ".join(str(one.message) for one in caught)
    assert told.count("`target_bounds`") == 1  # that the score reads it tells it
    with pytest.raises(ValueError, match="finite numbers with low < high"):
        DPGridSearchCV(regressor, {"n_bins": [10]}, target_bounds=(1, 0)).fit(
            X, X[:, 1], sensitive_features=group
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("around", ["nothing", "pipeline", "repair", "cv"])
def test_a_range_that_a_search_is_given_reaches_its_candidates(around):
    """Each read its own from the rows, and the guarantee was infinite."""
    X, _, group = fair_table(300)
    y, told, given = X[:, 0] * 3 + 5, (-40.0, 60.0), {}
    model = DPLinearRegression(bounds=(-4, 4))
    own = clone(model).set_params(target_bounds=(0, 7))
    about = {"target_bounds": list(told), "epsilon": 20.0, "random_state": 0}
    if around == "cv":
        about["return_estimator"] = True
        result = dp_cross_validate(model, X, y, cv=2, **about)
        assert [one.target_bounds for one in result.estimators] == [told] * 2
        assert result.privacy_.conditional_on == ()
        return
    if around == "pipeline":
        model, own = (make_pipeline(DPTableEncoder(), one) for one in (model, own))
    elif around == "repair":
        given = {"sensitive_features": group}
        model, own = (DPBarycenterRegressor(m, groups=[0, 1]) for m in (model, own))
    for one, inside in ((model, told), (own, (0, 7))):
        search = DPGridSearchCV(one, {}, **about).fit(X, y, **given)
        assert search.privacy_.conditional_on == ()
        params = search.best_estimator_.get_params()
        found = {k: v for k, v in params.items() if k.endswith("target_bounds")}
        assert inside in found.values() and set(found.values()) <= {told, inside}


def test_a_range_of_another_target_is_not_told():
    """Behind a function of the target it is read, and every guarantee says so."""
    X = fair_table(300)[0]
    negated = TransformedTargetRegressor(
        DPLinearRegression(bounds=(-4, 4)),
        func=np.negative,
        inverse_func=np.negative,
        check_inverse=False,
    )
    told = DPLinearRegression(bounds=(-4, 4))
    for others, seed in [([], 0), ([told], 0), ([told], 1), ([told], 2)]:
        one, grid = Pipeline([("model", told)]), {"model": [negated, *others]}
        search = DPGridSearchCV(one, grid, target_bounds=(-9, 9), random_state=seed)
        with pytest.warns(PrivacyLeakWarning, match="target_bounds"):
            search.fit(X, X[:, 0])
        assert search.privacy_.conditional_on == ("target_bounds",)


def test_a_range_that_is_none_is_refused_before_an_encoder_spends():
    X, ledger = fair_table(60)[0], PrivacyLedger(90.0, 1e-3)
    search = DPGridSearchCV(DPLinearRegression(), {}, target_bounds=(1, 0))
    pipeline = with_budget(make_pipeline(DPTableEncoder(ledger=ledger), search), 9.0)
    with pytest.raises(ValueError, match="finite numbers with low < high"):
        pipeline.fit(X, X[:, 0])
    search = DPGridSearchCV(DPLinearRegression(), {}, target_bounds=(-1, 1))
    pipeline = with_budget(make_pipeline(DPTableEncoder(ledger=ledger), search), 9.0)
    assert ledger.spends() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        assert pipeline.fit(X, X[:, 0])[-1].privacy_.conditional_on == ()


def test_regression_with_a_constraint():
    X, y, group = fair_table(4000)
    target = X @ [1.0, 0.3, 0.1]
    search = DPRandomizedSearchCV(
        barycenter(),
        {"fairness_tolerance": [0.0, 0.9], "n_bins": [20, 30]},
        n_iter=4,
        epsilon=5.0,
        scoring=ConstrainedScore(
            "neg_mean_absolute_error", "ks_parity_difference", at_most=0.4
        ),
        target_bounds=(-2, 2),
        random_state=0,
    ).fit(X, target, sensitive_features=group)
    assert search.best_params_["fairness_tolerance"] == 0.0
    free = clone(search).set_params(scoring="neg_mean_absolute_error")
    free.fit(X, target, sensitive_features=group)
    assert free.best_params_["fairness_tolerance"] == 0.9


def test_a_random_list_is_drawn_before_the_data():
    X, y = stub_table(300)
    search = DPRandomizedSearchCV(
        Stub(), {"column": [1, 2], "fails": ["", ""]}, n_iter=2, random_state=4
    )
    lists = {str(search._candidates(noise_source(4))) for _ in range(3)}
    assert len(lists) == 1
    assert search.plan().n_candidates == 2
    assert search.fit(X, y).best_params_["column"] in (1, 2)


@pytest.mark.filterwarnings("ignore:The total space of parameters")
def test_a_plan_knows_a_list_that_is_shorter_than_asked_for():
    search = DPRandomizedSearchCV(Stub(), {"column": [1, 2]}, n_iter=5)
    assert search.plan().n_candidates == 2


def test_a_bounded_score_of_probabilities():
    X, y, group = fair_table(800)
    brier = BoundedScore(
        lambda y, p: -((p[:, 1] - y) ** 2), -1.0, 0.0, "predict_proba", "neg_brier"
    )
    search = DPGridSearchCV(
        logistic(fairness_weight=0.0, max_iter=40),
        {"C": [1e-6, 10.0]},
        scoring=brier,
        epsilon=10.0,
        random_state=0,
    ).fit(X, y)
    assert search.best_params_ == {"C": 10.0}
    result = dp_cross_validate(
        logistic(fairness_weight=0.0), X, y, scoring=brier, epsilon=5.0, random_state=0
    )
    assert -0.3 < result.scores["neg_brier"].mean < 0.0


def test_tables_that_cannot_be_parted():
    # No row to fit on: a constant model, public, and legal.
    X, y = stub_table(1)
    search = DPGridSearchCV(Stub(), {"column": [1]}, holdout_size=0.999999).fit(X, y)
    assert len(set(search.predict(np.vstack([X, X + 1])))) == 1
    assert search.privacy_.epsilon == pytest.approx(1.0)
    scores = dp_cross_validate(Stub(), X, y, cv=2).scores["accuracy"].scores
    assert np.isfinite(scores).all()
    # No row to score on: all noise, and legal.
    X, y = stub_table(5)
    search = DPGridSearchCV(Stub(), {"column": [1, 2]}, holdout_size=1e-9)
    assert search.fit(X, y).best_params_["column"] in (1, 2)


def test_bad_targets_cost_nothing():
    X, y = stub_table()
    ledger = PrivacyLedger(1.0, 1e-5)
    search = DPGridSearchCV(Stub(), {"column": [1]}, ledger=ledger)
    for bad in (None, y + 1j, np.where(y, np.nan, 1.0), y[:-1]):
        with pytest.raises(ValueError):
            search.fit(X, bad)
    assert ledger.spends() == []


def test_pickle_of_a_search():
    X, y, group = fair_table(300)
    search = DPGridSearchCV(logistic(), {"C": [0.1, 1.0]}, random_state=0)
    search.fit(X, y, sensitive_features=group)
    loaded = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(loaded.predict(X), search.predict(X))
    assert not hasattr(clone(search), "classes_")
    np.testing.assert_array_equal(search.classes_, [0, 1])


def test_a_search_refuses_answers_that_depend_on_other_rows():
    """Breach A1: a frozen randomised repair spreads identical rows."""
    X, y, group = fair_table(300)
    repair = DPBarycenterTransformer(
        bounds=(-9, 9),
        groups=[0, 1],
        output="randomized",
        sensitive_features=first_sign,
    )
    frozen = FrozenEstimator(repair.fit(X))
    search = DPGridSearchCV(make_pipeline(frozen, logistic()), {}, random_state=0)
    search.set_params(param_grid={"dpwassersteinlogisticregression__C": [0.1, 1.0]})
    with pytest.raises(ValueError, match="spreads identical rows"):
        search.fit(X, y, sensitive_features=group)


def test_answers_of_candidates_are_of_their_own_rows():
    model = DPBarycenterTransformer(bounds=(-9, 9), groups=[0, 1], output="randomized")
    share = share_of_composition("gaussian", 3, 1.0, 1e-5, 1)
    chosen = candidates.candidate(model, {}, share, noise_source(0), {})
    assert spreads(model) and not spreads(chosen)


def repairs():
    model = logistic(fairness_weight=0.0)
    encoded = make_pipeline(DPTableEncoder(), model)
    public = {"classes": [0, 1], "groups": [0, 1]}
    plain = DP2DPClassifier(encoded, **public)
    blind = DP2DPClassifier(model, blind=True, **public)
    return plain, blind, clone(blind).set_params(estimator=encoded)


@pytest.mark.parametrize("repair", repairs())
def test_repairs_of_pipelines_and_blind_ones_can_be_searched(repair):
    """The encoder and the model inside share what the repair has on other rows."""
    X, y, group = fair_table(600)
    grid = {"calibration_size": [0.3, 0.5]}
    public = {"classes": [0, 1], "groups": [0, 1]}
    search = DPGridSearchCV(repair, grid, epsilon=4.0, **public)
    search.fit(X, y, sensitive_features=group)
    assert search.privacy_.epsilon == pytest.approx(4.0)
    share, winner = search.plan_.fit, search.best_estimator_
    cost = winner.privacy_.if_public().epsilon_at(share.delta)
    assert 0.99 * share.epsilon <= cost <= share.epsilon * (1 + 1e-9)
    assert winner.epsilon >= 0.99 * share.epsilon
    if not isinstance(repair.estimator, Pipeline):  # two models on rows of their own
        assert winner.estimator.epsilon == share.epsilon
    scores = dp_cross_validate(
        repair, X, y, sensitive_features=group, epsilon=4.0, cv=2, **public
    )
    assert scores.privacy_.epsilon == pytest.approx(4.0)


@pytest.mark.parametrize("listed", [None, ["f", "m", "x"]])
@pytest.mark.parametrize("of_numbers", [False, True])
def test_the_classes_of_a_model_of_the_groups_are_no_classes_of_the_target(
    of_numbers, listed
):
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-1, 1, size=(90, 2)), np.array(["f", "m"] * 45)
    guess = logistic(classes=listed, groups=None, fairness_weight=0.0)
    told = {"blind": True, "group_estimator": guess, "groups": ["f", "m", "x"]}
    line = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    repair, y = DPBarycenterRegressor(line, target_bounds=(-1, 1), **told), X[:, 0]
    if not of_numbers:
        y = (X[:, 0] > 0).astype(int)
        repair = DP2DPClassifier(clone(guess).set_params(classes=None), **told)
    lists = {"target_bounds": (-1, 1)} if of_numbers else {"classes": [0, 1]}
    search = DPGridSearchCV(repair, {"fairness_tolerance": [0.0, 0.1]}, **lists)
    search.fit(X, y, sensitive_features=groups)
    assert search.best_estimator_.group_estimator_.classes_.tolist() == ["f", "m", "x"]
    assert search.privacy_.epsilon <= 1.0


def test_blind_repairs_of_numbers_can_be_searched():
    X, y, group = fair_table(600)
    model = DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1))
    public = {"target_bounds": (0, 1), "groups": [0, 1]}
    repair = DPBarycenterRegressor(model, blind=True, **public)
    grid = {"calibration_size": [0.3, 0.5]}
    search = DPGridSearchCV(repair, grid, **public)
    search.fit(X, y, sensitive_features=group)
    assert search.privacy_.epsilon == pytest.approx(1.0)


def test_ledgers_of_candidates_are_refused_where_nobody_pays():
    X, y = stub_table()
    ledger = PrivacyLedger(2.0, 1e-5)
    paying, said = Stub(ledger=ledger), "A candidate has a ledger"
    searches = (
        DPGridSearchCV(paying, {"column": [1]}),
        DPGridSearchCV(Stub(), {"ledger": [None, ledger]}),
        DPRandomizedSearchCV(make_pipeline("passthrough", paying), {}, n_iter=1),
    )
    for search in searches:
        with pytest.raises(ValueError, match=said):
            search.fit(X, y)
        with pytest.raises(ValueError, match=said):
            search._check_arguments()  # for what fits it inside
    with pytest.raises(ValueError, match=said):
        dp_cross_validate(paying, X, y)
    assert ledger.spends() == []


def test_a_capped_ledger_under_a_plain_search():
    """Without error_score="raise" the fits past the cap score NaN, and nothing else."""
    X, y, group = fair_table(300)
    ledger = PrivacyLedger(epsilon=1.5, delta=1e-5)
    model = logistic(ledger=ledger, sensitive_features=first_sign)
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=3, refit=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert any("fits failed" in str(one.message) for one in caught)
    assert np.isnan(search.cv_results_["mean_test_score"]).any()
    assert ledger.total().epsilon <= 1.5 * (1 + 1e-9)


def test_diffprivlib_models_can_be_searched():
    models = pytest.importorskip(
        "diffprivlib.models", exc_type=ImportError, reason="too new a scikit-learn"
    )
    from diffprivlib.accountant import BudgetAccountant

    shared = BudgetAccountant()
    X, y, _ = fair_table(600)
    tree = models.DecisionTreeClassifier(
        bounds=(-1, 1), classes=[0, 1], accountant=shared
    )
    search = DPGridSearchCV(tree, {"max_depth": [1, 2]}, epsilon=4.0, classes=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y)
    assert search.privacy_.epsilon == pytest.approx(4.0)
    assert len(shared) == 0
    assert search.predict(X).shape == y.shape
    # Taken out, the winner says that it was chosen.
    winner = search.best_estimator_
    assert 2 * winner.epsilon == pytest.approx(search.plan_.fit.epsilon)
    alone = privacy_report(winner, before=tree).guarantee
    assert alone.conditional_on == winner.privacy_.conditional_on[-1:]
    assert alone.conditional_on == (candidates.CHOSEN,)
    assert alone.epsilon_if_public == pytest.approx(search.plan_.fit.epsilon)


# --- Audits ---------------------------------------------------------------------------


def audit_pair():
    """One record: candidate 1 is right about it, or candidate 2 is."""
    X = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    other = X.copy()
    y = np.array([1, 1])
    other[0] = [1.0, 0.0, 1.0]
    return (X, y), (other, y)


def chosen(table, monkeypatch, n_runs, epsilon):
    """Which candidate wins; the changed record is always scored, the other fitted."""
    X, y = table
    holdout = np.array([True, False])
    monkeypatch.setattr(
        "fairpriv_sklearn._wall.PrivacyFilter.random_split",
        lambda self, n_rows, p: holdout,
    )
    search = DPGridSearchCV(
        Stub(), {"column": [1, 2]}, epsilon=epsilon, method="compose"
    )
    seeds = range(int(X[0, 0]) * n_runs, (int(X[0, 0]) + 1) * n_runs)
    return [
        search.set_params(random_state=seed).fit(X, y).best_params_["column"]
        for seed in seeds
    ]


def test_audit_of_the_selection(monkeypatch):
    """The winner's name, on the worst pair for permute-and-flip, claimed epsilon 1."""
    first, second = audit_pair()
    outputs = [chosen(table, monkeypatch, 200, 1.0) for table in (first, second)]
    assert pure_audit(*outputs) <= 1.0

    # Wrong on purpose: the exact scores decide.
    def exact(self, utilities, noise):
        return int(np.argmax(utilities))

    monkeypatch.setattr(PermuteAndFlip, "release", exact)
    outputs = [chosen(table, monkeypatch, 120, 1.0) for table in (first, second)]
    assert pure_audit(*outputs) > 1.0


class _Handed(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A wrapper of somebody's own: nobody knows what its fit costs."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y):
        self.inner_ = clone(self.inner).fit(X, y)
        return self

    def predict(self, X):
        return self.inner_.predict(X)


@pytest.mark.parametrize(
    "wrap, said",
    [
        (lambda m: BaggingClassifier(m, n_estimators=2), "fits its estimator several"),
        (OneVsRestClassifier, "fits its estimator several"),
        (
            lambda m: make_pipeline(StandardScaler(), m),
            "StandardScaler. is not covered",
        ),
        (_Handed, "not private as a whole"),
    ],
)
def test_what_is_not_covered_is_refused_before_the_budget_is_taken(wrap, said):
    X, y = stub_table(200)
    model = logistic()
    ledger = PrivacyLedger(10.0, 1e-3)
    search = DPGridSearchCV(
        wrap(model), {}, epsilon=5.0, classes=[0, 1, 2], ledger=ledger
    )
    with pytest.raises(ValueError, match=said):
        search.fit(X, y)
    assert ledger.total().epsilon == 0.0


class _Centred(TransformerMixin, BaseEstimator):
    """A step of another package, which takes some tables and may learn of them."""

    def __init__(self, takes="any", learns=True):
        self.takes, self.learns = takes, learns

    def fit(self, X, y=None):
        cells = np.asarray(X)
        wanted = {
            "numbers": cells.dtype.kind == "f",
            "text": all(isinstance(cell, str) for cell in cells[:, 0]),
            "names": hasattr(X, "iloc") and "b" in X.columns,
            "few rows": len(X) < 30,
            "many rows": len(X) > 30,
        }
        if not wanted.get(self.takes, True):
            raise ValueError("not for this step")
        if self.learns:
            self._seen = len(X)
        return self

    def transform(self, X):
        return np.tile([0.5], (len(X), 2))


class _Resampled(_Centred):
    """As those of imbalanced-learn: rows are left out by the others."""

    __fairpriv_row_pure__ = True

    def fit_resample(self, X, y):
        return X[::2], y[::2]


def _searched(model, X, y, ledger, **more):
    shared = {"epsilon": 5.0, "classes": [0, 1], "ledger": ledger}
    return DPGridSearchCV(model, more, **shared).fit(X, y).privacy_


def _validated(model, X, y, ledger):
    shared = {"epsilon": 5.0, "classes": [0, 1], "ledger": ledger}
    return dp_cross_validate(model, X, y, **shared).privacy_


def _table_of(kind):
    numbers = np.linspace(-1, 1, 400).reshape(-1, 2)
    if kind == "text":
        return pd.DataFrame(numbers.astype(str), columns=["a", "b"])
    return pd.DataFrame(numbers, columns=["a", "b"]) if kind == "names" else numbers


@pytest.mark.parametrize("takes", ["any", "numbers", "text", "names"])
@pytest.mark.parametrize("fit", [_searched, _validated])
def test_a_step_of_another_package_that_learns_costs_no_budget(fit, takes):
    """The models were fitted, and refused with what they had cost."""
    X, y = _table_of(takes), np.tile([0, 1], 100)
    ledger = PrivacyLedger(10.0, 1e-3)
    model = make_pipeline(_Centred(takes), logistic(fairness_weight=0))
    with pytest.raises(ValueError, match=r"^_centred .* learns from its rows"):
        fit(model, X, y, ledger)
    assert ledger.spends() == []
    model.set_params(_centred__learns=False)  # nobody says that it does not
    held = "_centred (_Centred) learns nothing and works on each row on its own"
    with pytest.warns(PrivacyLeakWarning) as said:
        privacy = fit(model, X, y, ledger)
    assert [str(one.message).partition(": ")[2] for one in said] == [f"{held}."]
    assert privacy.conditional_on == (held,) and privacy.epsilon == np.inf
    # Who makes an error of it learns it before anything is spent again.
    spent = ledger.spends()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning, match=r"conditional on this.*_centred"):
            fit(model, X, y, ledger)
    assert len(spent) == 1 and ledger.spends() == spent


def test_a_candidate_that_learns_costs_no_budget():
    X, y = _table_of("numbers"), np.tile([0, 1], 100)
    ledger = PrivacyLedger(10.0, 1e-3)
    model = make_pipeline(_Centred(learns=False), logistic(fairness_weight=0))
    with pytest.raises(ValueError, match=r"^_centred .* learns from its rows"):
        _searched(model, X, y, ledger, _centred__learns=[False, True])
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore:The guarantee of the whole is conditional")
def test_a_step_that_takes_no_made_up_rows_is_named_when_it_has_learnt():
    X, y = _table_of("numbers"), np.tile([0, 1], 100)
    model = make_pipeline(_Centred("many rows"), logistic(fairness_weight=0))
    with pytest.raises(ValueError, match=r"as a whole.* Not covered: _centred \(_Cen"):
        _searched(model, X, y, None)


@pytest.mark.parametrize("fit", [_searched, _validated])
def test_what_draws_rows_anew_costs_no_budget(fit):
    X, y = _table_of("numbers"), np.tile([0, 1], 100)
    ledger = PrivacyLedger(10.0, 1e-3)
    model = make_pipeline(_Resampled(learns=False), logistic(fairness_weight=0))
    with pytest.raises(ValueError, match=r"_Resampled\) is not covered"):
        fit(model, X, y, ledger)
    assert ledger.spends() == []


@pytest.mark.parametrize("wrapped", ["search", "validation", "repair"])
def test_a_penalty_without_groups_is_refused_before_the_budget_is_taken(wrapped):
    """An encoder before it would have spent its share."""
    X, y = stub_table(200)
    ledger = PrivacyLedger(50.0, 1e-3)
    model = DPWassersteinLogisticRegression(
        fairness_weight=0.5, bounds=(-1, 1), classes=[0, 1], groups=[0, 1]
    )
    pipeline = make_pipeline(DPTableEncoder(), model)
    shared = {"epsilon": 5.0, "classes": [0, 1], "ledger": ledger}
    grid = {"dpwassersteinlogisticregression__fairness_weight": [0.0, 0.5]}
    with pytest.raises(ValueError, match="^DPWasserstein.* needs the sensitive"):
        if wrapped == "search":
            DPGridSearchCV(pipeline, grid, **shared).fit(X, y)
        elif wrapped == "validation":
            dp_cross_validate(pipeline, X, y, **shared)
        else:  # that reads them itself hands none to the model
            DP2DPClassifier(pipeline, groups=[0, 1], **shared).fit(
                X, y, sensitive_features=y
            )
    assert ledger.spends() == []
    # Given, named or without a penalty they are fitted.
    search = DPGridSearchCV(model, {"fairness_weight": [0.0, 0.5]}, **shared)
    search.fit(X, y, sensitive_features=y)
    search.set_params(estimator__fairness_weight=0.0, param_grid={}).fit(X, y)
    named = clone(model).set_params(sensitive_features=[0])
    DPGridSearchCV(named, {}, **shared).fit(np.column_stack([y, X]), y)
    assert len(ledger.spends()) == 3


def test_groups_of_a_column_called_as_a_method_of_sparse_rows():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": np.linspace(-1, 1, 400), "toarray": ["u", "v"] * 200})
    y = (X["a"] > 0).astype(int)
    model = DPWassersteinLogisticRegression(
        bounds=(-1, 1),
        classes=[0, 1],
        groups=["u", "v"],
        sensitive_features=["toarray"],
    )
    search = DPGridSearchCV(model, {"C": [0.1, 1.0]}, epsilon=2.0, random_state=0)
    other = clone(search).set_params(estimator__sensitive_features=["g"])
    renamed = X.rename(columns={"toarray": "g"})
    search.fit(X, y)
    other.fit(renamed, y)
    assert np.array_equal(search.predict(X), other.predict(renamed))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("last", [None, "passthrough", DPTableEncoder()])
def test_a_candidate_without_a_prediction_is_refused_at_no_cost(last):
    X, y = stub_table(200)
    ledger = PrivacyLedger(10.0, 1e-3)
    pipeline = Pipeline([("encoder", DPTableEncoder()), ("model", logistic())])
    search = DPGridSearchCV(pipeline, {"model": [last, logistic()]}, ledger=ledger)
    with pytest.raises(ValueError, match="A candidate, Pipeline, has no predict, whic"):
        search.fit(X, y)
    assert ledger.spends() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("listed", [None, np.array([0, 1, 2])])
def test_one_fit_for_each_class_is_refused_at_no_cost(listed):
    X, y = stub_table(200)
    ledger = PrivacyLedger(10.0, 1e-3)
    one = OneVsRestClassifier(logistic(classes=None, fairness_weight=0.0))
    more = {"epsilon": 5.0, "ledger": ledger}
    search = DPGridSearchCV(one, {}, classes=listed, **more)
    three = np.arange(200) % 3
    with pytest.raises(ValueError, match="fits its estimator several times"):
        search.fit(X, three)
    with pytest.raises(ValueError, match="fits its estimator several times"):
        dp_cross_validate(one, X, three, classes=listed, **more)
    assert ledger.spends() == []
    search.set_params(classes=None).fit(X, three > 0)
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize("wrap", [clone, lambda model: make_pipeline(model)])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epsilon": "much"}, "'epsilon' parameter of DPWassersteinLogisticRegression"),
        ({"delta": None}, "'delta' parameter of DPWassersteinLogisticRegression"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"bounds": (1, 0)}, "bounds"),
    ],
)
def test_a_plan_says_what_is_wrong_inside(wrap, wrong, said):
    """The accountant had said what it does not take, or nobody anything."""
    search = DPGridSearchCV(wrap(logistic().set_params(**wrong)), {})
    with pytest.raises(ValueError, match=said):
        search.plan()
    with pytest.raises(ValueError, match="'epsilon' parameter of DPGridSearchCV"):
        DPGridSearchCV(logistic(), {}, epsilon="much").plan()


def test_groups_in_arrays_of_strings_are_parted_as_in_lists():
    """What `.values` of a column of text is; some refused [rows, ...] when paid for."""
    rng = np.random.default_rng(0)
    X, group = rng.uniform(-1, 1, (400, 2)), np.where(rng.random(400) < 0.5, "f", "m")
    y = (X[:, 0] > 0).astype(int)
    public = {"classes": [0, 1], "groups": ["f", "m"]}
    model = DPWassersteinLogisticRegression(bounds=(-1, 1), **public)
    search = DPGridSearchCV(
        model, {"max_iter": [5, 10]}, classes=[0, 1], epsilon=3.0, random_state=0
    )
    score = {"classes": [0, 1], "cv": 2, "epsilon": 3.0, "random_state": 0}
    answers = []
    for given in (
        pd.Series(group).values,
        pd.array(group, dtype="string"),
        pd.Index(group),
        pd.Categorical(group),
        pd.Series(group),
        group,
        group.tolist(),
    ):
        for rows in (slice(3, 9, 2), np.array([5, 0, 399]), rng.integers(0, 400, 50)):
            assert list(rows_of(given, rows)) == group[rows].tolist()
            named = pd.Series(group, index=range(400, 0, -1))
            assert list(rows_of(named, rows)) == group[rows].tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a seed is no privacy
            found = clone(search).fit(X, y, sensitive_features=given)
            scores = dp_cross_validate(model, X, y, sensitive_features=given, **score)
        told = found.best_estimator_.coef_.tolist(), scores.scores["accuracy"].mean
        answers.append(told)
    assert all(told == answers[-1] for told in answers)
