"""Private search and cross-validation: costs, silence, choices, audits."""

import gc
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from _audit import gaussian_audit, pure_audit
from common import GROUPS, first_sign
from scipy import stats
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    StratifiedKFold,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fairpriv_sklearn._door.estimator import DELTA_CONSTRAINT, DPEstimator
from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    PureEvent,
    calibrate_gaussian,
    compose_epsilon,
    gaussian_mu,
)
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    PermuteAndFlip,
    noise_source,
)
from fairpriv_sklearn.model_selection import (
    BoundedScore,
    ConstrainedScore,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    dp_cross_validate,
    expected_error,
)
from fairpriv_sklearn.model_selection import _candidates as candidates
from fairpriv_sklearn.model_selection import _planner as planner
from fairpriv_sklearn.model_selection import _repeat as repeat_module
from fairpriv_sklearn.model_selection import _search as search_module
from fairpriv_sklearn.model_selection._plan import (
    plan_search,
    plan_validation,
    share_of_composition,
)
from fairpriv_sklearn.model_selection._repeat import (
    GEOMETRIC,
    POISSON,
    RunDistribution,
    calibrate_repeat,
    gaussian_base,
    law_for_coverage,
    pure_base,
    repeat_epsilon,
)
from fairpriv_sklearn.model_selection._scoring import (
    ACCURACY,
    Reading,
    Statistic,
    bounded_score,
    ranking,
)
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    privacy_report,
)


class Stub(ClassifierMixin, DPEstimator):
    """Releases the noisy sum of column 0; predicts a column, whatever it learned."""

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        column=1,
        fails="",
        kind="gaussian",
        verbose=0,
        neighboring="replace_one",
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.column = column
        self.fails = fails
        self.kind = kind
        self.verbose = verbose
        self.neighboring = neighboring
        self.ledger = ledger
        self.random_state = random_state

    _parameter_constraints = {**DPEstimator._parameter_constraints, **DELTA_CONSTRAINT}

    def fit(self, X, y):
        noise = noise_source(self.random_state)
        if self.kind == "gaussian":
            mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=1)
            part = GaussianEvent(mu, 1)
            self.mechanism_ = GaussianMechanism(1.0, mu, 1)
            value = self.mechanism_.release(np.clip(X[:, 0], 0, 1).sum(), noise)
        else:
            self.mechanism_ = DiscreteLaplaceMechanism(1, self.epsilon)
            part = PureEvent(self.mechanism_.epsilon_spent)
            count = np.array([(X[:, 0] > 0.5).sum()])
            value = self.mechanism_.release(count, noise)
        guarantee = PrivacyGuarantee.from_events(
            [part],
            delta=self.delta,
            neighboring=self.neighboring,
            mechanism="a noisy sum",
            noise_is_secure=noise.is_secure,
        )
        self._reserve(guarantee)
        if self.verbose:
            print("fitting")
        warnings.warn("a data-dependent warning", RuntimeWarning, stacklevel=1)
        if self.fails:
            raise {
                "overflow": FloatingPointError("17 rows overflowed"),
                "singular": np.linalg.LinAlgError("row 3 is singular"),
                "domain": ValueError("outside the domain"),
            }[self.fails]
        self.value_ = float(np.ravel(value)[0])
        self.classes_ = np.array([0, 1])
        self.privacy_ = guarantee
        return self

    def predict(self, X):
        return X[:, self.column].astype(int)


class RowPicky(Stub):
    """Cannot predict rows whose column 2 is negative."""

    def predict(self, X):
        if (X[:, 2] < 0).any():
            raise FloatingPointError("a negative row")
        return super().predict(X)


def stub_table(n=60, seed=0):
    """Column 1 is always right, column 2 always wrong, column 3 right half the time."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    columns = [rng.uniform(size=n), y, 1 - y, rng.integers(0, 2, n)]
    return np.column_stack(columns).astype(float), y


def fair_table(n=4000, seed=0):
    """Group 1 gets label 1 far more often; the groups are the sign of column 0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    y = (X @ [1.0, 0.6, 0.3] + 0.2 * rng.normal(size=n) > 0).astype(int)
    return X, y, first_sign(X)


def logistic(**params):
    given = {"bounds": (-1, 1), "classes": [0, 1], "groups": [0, 1], "max_iter": 20}
    return DPWassersteinLogisticRegression(**{**given, **params})


# --- The cost of repeating ------------------------------------------------------------


@pytest.fixture
def orders(monkeypatch):
    """Fewer orders: dp-accounting's work grows with the square of their number."""
    few = 1.0 + np.geomspace(1.1e-2, 1e4, 200)
    monkeypatch.setattr(repeat_module, "_ORDERS", few)
    return list(few)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.5])
def test_geometric_price_is_dp_accountings(mu, orders):
    rdp = pytest.importorskip("dp_accounting.rdp")
    from dp_accounting import dp_event

    for mean in (1.5, 8.0, 100.0):
        accountant = rdp.RdpAccountant(orders)
        event = dp_event.GaussianDpEvent(1 / mu)
        accountant.compose(dp_event.RepeatAndSelectDpEvent(event, mean, GEOMETRIC))
        ours = repeat_epsilon(gaussian_base(mu), RunDistribution(mean, GEOMETRIC), 1e-5)
        assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize("mu", [0.05, 0.3])
def test_poisson_price_is_at_most_dp_accountings(mu, orders):
    """Theirs takes delta-hat from the Renyi curve, ours is exact: below, not far."""
    rdp = pytest.importorskip("dp_accounting.rdp")
    from dp_accounting import dp_event

    accountant = rdp.RdpAccountant(orders)
    event = dp_event.GaussianDpEvent(1 / mu)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(event, 20.0, POISSON))
    theirs = accountant.get_epsilon(1e-5)
    ours = repeat_epsilon(gaussian_base(mu), RunDistribution(20.0, POISSON), 1e-5)
    assert 0.6 * theirs < ours <= theirs


def test_pure_base_is_randomised_response():
    epsilon, order, at = 0.7, np.array([1.5, 3.0, 50.0]), np.array([0.0, 0.3, 0.7, 2.0])
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    P, Q = np.array([p, 1 - p]), np.array([1 - p, p])
    base = pure_base(epsilon)
    for lam, value in zip(order, base.renyi(order), strict=True):
        assert value == pytest.approx(
            np.log(np.sum(P**lam * Q ** (1 - lam))) / (lam - 1)
        )
    hockey = [np.maximum(P - np.exp(e) * Q, 0).sum() for e in at]
    np.testing.assert_allclose(base.delta(at), hockey, atol=1e-8)


def test_a_pure_run_repeats_at_three_times_its_price():
    """Papernot and Steinke, Corollary 3: (2 + shape) epsilon, whatever the mean."""
    for mean in (2.0, 50.0, 1000.0):
        price = repeat_epsilon(pure_base(0.5), RunDistribution(mean, GEOMETRIC), 1e-6)
        assert price <= 1.5 * (1 + 1e-5)


@pytest.mark.parametrize(
    "distribution", [RunDistribution(7.0, GEOMETRIC), RunDistribution(16.0, POISSON)]
)
@pytest.mark.parametrize(
    "kind, base", [("gaussian", gaussian_base), ("pure", pure_base)]
)
def test_calibration_spends_the_budget_and_no_more(distribution, kind, base):
    for epsilon in (0.1, 1.0, 5.0):
        size = calibrate_repeat(kind, epsilon, 1e-5, distribution)
        assert repeat_epsilon(base(size), distribution, 1e-5) <= epsilon
        assert repeat_epsilon(base(size * 1.001), distribution, 1e-5) > epsilon * (
            1 - 1e-4
        )


def test_no_price_where_rounding_would_cost_too_much():
    assert (
        calibrate_repeat("gaussian", 40.0, 1e-5, RunDistribution(16.0, POISSON)) == 0.0
    )
    with pytest.raises(ValueError, match="method='compose'"):
        plan(10, epsilon=700.0, method="repeat")


@pytest.mark.parametrize(
    "distribution, oracle",
    [
        (RunDistribution(6.0, GEOMETRIC), stats.geom(1 / 6)),
        (RunDistribution(15.0, POISSON), stats.poisson(15.0)),
    ],
)
def test_law_of_the_number_of_runs(distribution, oracle):
    noise = noise_source(3)
    drawn = np.array([distribution.quantile(noise.uniform(1)[0]) for _ in range(4000)])
    assert drawn.max() <= distribution.largest
    assert oracle.sf(distribution.largest) <= 1e-11
    edges = np.unique(oracle.ppf([0.1, 0.3, 0.5, 0.7, 0.9]))
    place = np.searchsorted(edges, drawn)
    expected = np.diff([0.0, *oracle.cdf(edges), 1.0])
    counts = np.bincount(place, minlength=len(expected))
    assert stats.chisquare(counts, 4000 * expected).pvalue > 1e-4


def test_one_run_in_the_mean_is_one_run():
    distribution = law_for_coverage(GEOMETRIC, 0.1, 0.9)
    assert (
        distribution.mean
        == distribution.largest
        == distribution.quantile(noise_source().uniform(1)[0])
        == 1
    )


@pytest.mark.parametrize("shape", [GEOMETRIC, POISSON])
@pytest.mark.parametrize("coverage, share", [(0.8, 0.1), (0.95, 0.04)])
def test_coverage(shape, coverage, share):
    distribution = law_for_coverage(shape, coverage, share)
    noise = noise_source(1)
    missed = np.mean(
        [
            (1 - share) ** distribution.quantile(noise.uniform(1)[0])
            for _ in range(20_000)
        ]
    )
    assert 1 - missed >= coverage - 0.01
    if distribution.mean > 14.0:
        assert 1 - missed <= coverage + 0.01


# --- Plans ----------------------------------------------------------------------------


def plan(n_candidates, **params):
    given = {
        "epsilon": 3.0,
        "delta": 1e-5,
        "kind": "gaussian",
        "method": "auto",
        "coverage": 0.8,
        "n_draws": 1000,
        "n_statistics": 1,
        "permute_and_flip": True,
    }
    return plan_search(n_candidates, **{**given, **params})


def test_few_candidates_compose_and_many_repeat():
    assert plan(2).method == "compose"
    assert plan(30).method == "repeat"
    # "auto" is at least as generous to a fit as either way.
    for n in (1, 2, 4, 8, 30):
        for kind in ("gaussian", "approximate"):
            ways = [plan(n, kind=kind, method=m).fit.size for m in ("compose", "auto")]
            assert ways[1] >= ways[0]


def test_composed_fits_cost_what_they_should():
    share = plan(7, method="compose").fit
    mu = share.mu * math.sqrt(7)
    assert compose_epsilon([GaussianEvent(mu, 7000)], 1e-5) <= 3.0 * (1 + 1e-9)
    assert compose_epsilon([GaussianEvent(mu * 1.001, 7000)], 1e-5) > 3.0
    share = plan(7, kind="approximate", method="compose").fit
    parts = [DeclaredEvent(share.epsilon, share.delta)] * 7
    assert 3.0 * (1 - 1e-4) <= compose_epsilon(parts, 1e-5) <= 3.0 * (1 + 1e-9)


def test_tiny_and_infinite_budgets_have_a_plan():
    assert plan(5, epsilon=math.inf).fit.epsilon == math.inf
    assert plan(5, epsilon=math.inf, permute_and_flip=False).score_mu == math.inf
    assert 0 < plan(5, epsilon=0.01).fit.epsilon < 0.01
    # One fit and nothing else gets everything.
    assert share_of_composition("approximate", 1, 2.0, 1e-5, 0).epsilon == 2.0
    # A delta that swallows the budget: the fit may have all of epsilon.
    assert share_of_composition("approximate", 2, 1e-3, 0.5, 0).epsilon == 1e-3
    assert share_of_composition("approximate", 40, 0.5, 1e-12, 0).epsilon < 0.02


def test_validation_plan_adds_up():
    for kind in ("gaussian", "approximate"):
        plan = plan_validation(
            4, 2.0, 1e-5, kind=kind, score_fraction=0.2, n_draws=500, n_statistics=3
        )
        if kind == "gaussian":
            fits = [GaussianEvent(2 * plan.fit.mu, 2000)]
        else:
            fits = [DeclaredEvent(plan.fit.epsilon, plan.fit.delta)] * 4
        total = compose_epsilon([*fits, GaussianEvent(plan.score_mu, 3)], 1e-5)
        assert 2.0 * (1 - 1e-4) <= total <= 2.0 * (1 + 1e-8)


def test_plan_is_known_before_the_fit():
    grid = {"column": [1, 2, 3]}
    search = DPGridSearchCV(Stub(), grid, epsilon=2.0, random_state=0)
    before = search.plan()
    X, y = stub_table()
    fitted = search.fit(X, y)
    assert fitted.plan_ == before
    assert fitted.best_estimator_.epsilon == before.fit.epsilon


# --- Scores ---------------------------------------------------------------------------

GROUP_LIST, CLASS_LIST = (0, 1, 2), (0, 1)


def statistic(n_scores, table, neighboring):
    scores = (ACCURACY, bounded_score("neg_mean_squared_error", (0.0, 1.0)))[:n_scores]
    return Statistic(scores, table, neighboring, GROUP_LIST, CLASS_LIST, (0.0, 1.0))


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
@pytest.mark.parametrize("table", [None, "groups", "cells", "bins"])
@pytest.mark.parametrize("n_scores", [1, 2])
def test_sensitivity_holds_and_is_reached(n_scores, table, neighboring):
    rng = np.random.default_rng(0)
    measured = statistic(n_scores, table, neighboring)
    records = [(y, p, a) for y in (0, 1) for p in (0.0, 1.0) for a in GROUP_LIST]
    largest = 0.0
    for _ in range(300):
        rows = [records[i] for i in rng.integers(0, len(records), 4)]
        change = rows[:-1]
        if neighboring == "replace_one":
            change = [*change, records[rng.integers(0, len(records))]]
        difference = vector(measured, rows) - vector(measured, change)
        largest = max(largest, np.linalg.norm(difference))
    assert largest <= measured.sensitivity * (1 + 1e-12)
    assert largest >= 0.95 * measured.sensitivity


def vector(measured, rows):
    y, p, codes = (np.array(column) for column in zip(*rows, strict=True))
    return measured.query(y.astype(int), {"predict": p}, codes)


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_readings_without_noise_are_the_plain_metrics(neighboring):
    from fairpriv_sklearn.metrics import (
        demographic_parity_difference,
        equalized_odds_difference,
    )

    rng = np.random.default_rng(1)
    y, p = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    codes = rng.integers(0, 3, 500)
    measured = statistic(2, "cells", neighboring)
    exact = measured.query(y, {"predict": p}, codes)
    reading = Reading(
        measured, exact, 0.0, 500 if neighboring == "replace_one" else None
    )
    assert reading.score(0) == pytest.approx(np.mean(y == p))
    assert reading.score(1) == pytest.approx(-np.mean((y - p) ** 2), abs=1e-6)
    for metric in (demographic_parity_difference, equalized_odds_difference):
        plain = metric(y, p, sensitive_features=codes)
        assert reading.disparity(metric.__name__) == pytest.approx(plain)


def test_ks_reading_is_close_to_the_metric():
    from fairpriv_sklearn.metrics import ks_parity_difference

    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 3000)
    p = rng.beta(2 + codes, 3)
    measured = statistic(1, "bins", "replace_one")
    reading = Reading(measured, measured.query(p, {"predict": p}, codes), 0.0, 3000)
    plain = ks_parity_difference(p, p, sensitive_features=codes)
    # Bins can only hide a difference, by at most what a bin holds.
    assert plain - 0.07 <= reading.disparity("ks_parity_difference") <= plain


def test_a_constraint_comes_before_the_score():
    def reading(rates, right):
        measured = statistic(1, "groups", "replace_one")
        counts = np.zeros(measured.shape)
        counts[:, 1] = [1000 * rate for rate in rates]
        counts[:, 0] = 1000 - counts[:, 1]
        exact = np.concatenate([[3000 * (right - 0.5)], counts.ravel()])
        return Reading(measured, exact, 0.0, 3000)

    rule = ConstrainedScore("accuracy", at_most=0.05)
    unfair, fair = reading([0.1, 0.5, 0.3], 0.9), reading([0.3, 0.3, 0.34], 0.7)
    fairer, less = reading([0.3, 0.3, 0.31], 0.65), reading([0.1, 0.3, 0.3], 0.6)
    order = [unfair, less, fairer, fair]
    assert [ranking(rule, r) for r in order] == sorted(ranking(rule, r) for r in order)
    plainly = sorted(order, key=lambda r: ranking("accuracy", r))
    assert plainly[-1] is unfair
    by_disparity = sorted(
        order, key=lambda r: ranking("neg_demographic_parity_difference", r)
    )
    assert by_disparity[-1] is fairer


def test_groups_hidden_by_noise_are_not_called_fair():
    measured = statistic(1, "groups", "replace_one")
    reading = Reading(measured, np.zeros(measured.size), 50.0, 10)
    assert reading.disparity("demographic_parity_difference") == 1.0
    low, high = reading.disparity_interval("demographic_parity_difference", 0.95)
    assert (low, high) == (0.0, 1.0)


def test_scores_refuse_what_they_cannot_bound():
    with pytest.raises(ValueError, match="finite low < high"):
        BoundedScore(abs, 1.0, 1.0)
    with pytest.raises(ValueError, match="response_method"):
        BoundedScore(abs, 0.0, 1.0, response_method="transform")
    with pytest.raises(ValueError, match="at_most"):
        ConstrainedScore(at_most=1.5)
    with pytest.raises(ValueError, match="disparity"):
        ConstrainedScore(disparity="gini")
    with pytest.raises(ValueError, match="scoring must be"):
        bounded_score("roc_auc", None)
    X, y = stub_table()
    wrong = BoundedScore(lambda y, p: 0.5, 0.0, 1.0)
    with pytest.raises(ValueError, match="one number per record"):
        DPGridSearchCV(Stub(), {"column": [1]}, scoring=wrong).fit(X, y)


# --- Search ---------------------------------------------------------------------------


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
    assert search.privacy_.epsilon == 4.0 and search.privacy_.delta == 1e-5
    assert search.best_estimator_.privacy_.epsilon < 4.0
    assert privacy_report(search).guarantee.epsilon == pytest.approx(4.0)


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
    assert candidates._row_by_row(lambda rows: X[rows], 2).shape == (2, 4)


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
    assert search.best_estimator_.privacy_.epsilon == pytest.approx(1.0)
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
    assert search.best_estimator_.privacy_.epsilon <= search.plan_.fit.epsilon
    result = dp_cross_validate(Stub(kind="pure"), X, y, epsilon=2.0, random_state=0)
    total = compose_epsilon(
        [DeclaredEvent(result.fit_epsilon, result.fit_delta)] * 4, 1e-5
    )
    assert 1.0 < total <= 2.0


def test_fits_with_much_noise_are_paid_for(monkeypatch):
    X, y, group = fair_table(400)
    monkeypatch.setattr(search_module, "DRAWS_PER_FIT", 10)
    search = DPGridSearchCV(logistic(), {"C": [0.1, 1.0]}, random_state=0)
    search.fit(X, y, sensitive_features=group)
    assert search.plan_.fit.n_draws > 10


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
    assert candidates.expected_kind(pipe) == "approximate"
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


def test_leaks_of_the_winner_are_told():
    X, y, group = fair_table(300)
    search = DPGridSearchCV(logistic(classes=None), {"C": [1.0]}, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        search.fit(X, y, sensitive_features=group)
    assert search.privacy_.conditional_on == ("classes",)
    assert search.privacy_.epsilon_if_public == 1.0 < search.privacy_.epsilon
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
    regressor = _barycenter()
    with pytest.warns(PrivacyLeakWarning, match="target_bounds"):
        DPGridSearchCV(regressor, {"n_bins": [10]}, random_state=0).fit(
            X, X[:, 1], sensitive_features=group
        )
    with pytest.raises(ValueError, match="finite with low < high"):
        DPGridSearchCV(regressor, {"n_bins": [10]}, target_bounds=(1, 0)).fit(
            X, X[:, 1], sensitive_features=group
        )


def _barycenter(**params):
    free = PrivacyGuarantee.from_events(
        [PureEvent(0.0)],
        delta=0.0,
        neighboring="replace_one",
        mechanism="declared for a test",
    )
    return DPBarycenterRegressor(
        LinearRegression(),
        target_bounds=(-2, 2),
        groups=[0, 1],
        base_guarantee=free,
        **params,
    )


def test_regression_with_a_constraint():
    X, y, group = fair_table(4000)
    target = X @ [1.0, 0.3, 0.1]
    search = DPRandomizedSearchCV(
        _barycenter(),
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


def test_zero_runs_say_so(monkeypatch):
    X, y = stub_table()
    monkeypatch.setattr(RunDistribution, "quantile", lambda self, noise: 0)
    with pytest.raises(RuntimeError, match="whatever the data"):
        DPGridSearchCV(Stub(), {"column": [1, 2]}, method="repeat").fit(X, y)


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
    model = models.GaussianNB(bounds=(-1, 1), accountant=shared)
    search = DPGridSearchCV(model, {"priors": [None, [0.5, 0.5]]}, epsilon=4.0)
    search.fit(X, y)
    assert search.best_estimator_.epsilon == search.plan_.fit.epsilon
    assert len(shared) == 0
    assert search.predict(X).shape == y.shape


# --- Cross-validation -----------------------------------------------------------------


def test_fold_scores_and_receipt():
    X, y = stub_table(600)
    ledger = PrivacyLedger(2.0, 1e-5)
    result = dp_cross_validate(
        Stub(column=3),
        X,
        y,
        cv=KFold(4, shuffle=True),
        scoring=["accuracy", "neg_error_rate"],
        epsilon=2.0,
        ledger=ledger,
        return_estimator=True,
    )
    (spend,) = ledger.spends()
    assert spend["epsilon"] == result.privacy_.epsilon == 2.0
    assert len(result.estimators) == 4
    accuracy, error = result.scores["accuracy"], result.scores["neg_error_rate"]
    assert accuracy.scores.shape == (4,) and accuracy.intervals.shape == (4, 2)
    np.testing.assert_allclose(accuracy.mean - 1.0, error.mean, atol=0.1)
    assert accuracy.interval[0] < np.mean(X[:, 3] == y) < accuracy.interval[1]
    # Three fits see a record, and one score.
    mu = result.estimators[0].privacy_.events[0].mu
    parts = [GaussianEvent(mu, 1)] * 3
    assert compose_epsilon(parts, 1e-5) < 2.0


def test_folds_that_look_at_the_data_are_refused():
    X, y = stub_table()
    for cv in (
        StratifiedKFold(3),
        KFold(3),
        [(np.arange(30), np.arange(30, 60))],
        True,
    ):
        with pytest.raises(ValueError, match="one independent draw each"):
            dp_cross_validate(Stub(), X, y, cv=cv)
    split = PredefinedSplit(np.arange(60) % 3)
    with pytest.raises(ValueError, match="one independent draw each"):
        dp_cross_validate(
            Stub(neighboring="add_remove"), X, y, cv=split, neighboring="add_remove"
        )
    with pytest.raises(ValueError, match="at least 2 folds"):
        dp_cross_validate(Stub(), X, y, cv=1)


def test_a_vouched_split_is_an_assumption():
    X, y = stub_table()
    fold_of = np.where(np.arange(60) < 6, -1, np.arange(60) % 3)
    always = dp_cross_validate(Stub(), X, y, cv=PredefinedSplit(fold_of))
    assert "the given folds do not depend on the data" in always.privacy_.assumptions
    never = dp_cross_validate(Stub(), X, y, cv=PredefinedSplit(np.arange(60) % 3))
    # Rows that are never tested are in all three fits instead of two.
    assert always.fit_epsilon < never.fit_epsilon


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_disparities_of_folds(neighboring):
    X, y, group = fair_table(6000)
    names = ["neg_demographic_parity_difference", "neg_equalized_odds_difference"]
    result = dp_cross_validate(
        logistic(neighboring=neighboring, fairness_weight=0.0),
        X,
        y,
        sensitive_features=group,
        cv=2,
        scoring=["accuracy", *names],
        epsilon=5.0,
        neighboring=neighboring,
        random_state=0,
    )
    parity = result.scores[names[0]]
    assert -0.8 < parity.mean < -0.4
    assert parity.interval[0] <= parity.mean <= parity.interval[1] <= 0.0
    assert result.scores["accuracy"].mean > 0.8


def test_continuous_predictions_of_folds():
    X, _, group = fair_table(2000)
    result = dp_cross_validate(
        _barycenter(),
        X,
        X @ [1.0, 0.3, 0.1],
        sensitive_features=group,
        scoring=["neg_mean_squared_error", "neg_ks_parity_difference"],
        target_bounds=(-2, 2),
        epsilon=8.0,
        random_state=0,
    )
    ks = result.scores["neg_ks_parity_difference"]
    assert (ks.intervals[:, 0] <= ks.scores).all()
    assert (ks.scores <= ks.intervals[:, 1] + 1e-9).all()
    with pytest.raises(ValueError, match="cannot be asked for together"):
        dp_cross_validate(
            _barycenter(),
            X,
            X[:, 1],
            sensitive_features=group,
            scoring=["neg_ks_parity_difference", "neg_demographic_parity_difference"],
        )


@pytest.mark.parametrize(
    "wrong, match",
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"score_fraction": 1.0}, "score_fraction must be"),
        ({"confidence_level": 95}, "confidence_level must be"),
        ({"neighboring": "swap"}, "neighboring must be"),
        ({"scoring": ConstrainedScore()}, "as a list instead"),
        ({"scoring": "f1"}, "scoring must be"),
        ({"scoring": "neg_demographic_parity_difference"}, "in the call"),
    ],
)
def test_cross_validation_refuses(wrong, match):
    X, y = stub_table()
    with pytest.raises(ValueError, match=match):
        dp_cross_validate(Stub(), X, y, **wrong)


def test_a_fold_that_breaks_down_says_nothing():
    X, y = stub_table()
    with pytest.raises(RuntimeError, match="is private"):
        dp_cross_validate(Stub(fails="overflow"), X, y)


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_score_intervals_cover(neighboring):
    """The truth is 0.7; 300 tables; both too few and too many hits would be wrong."""
    rng = np.random.default_rng(5)
    measured = Statistic((ACCURACY,), None, neighboring)
    hits, n_runs, n, noise = 0, 600, 150, noise_source(6)
    mechanism = measured.mechanism(0.3)
    for _ in range(n_runs):
        right = (rng.uniform(size=n) < 0.7).astype(int)
        exact = measured.query(np.ones(n, dtype=int), {"predict": right}, None)
        n_public = n if neighboring == "replace_one" else None
        noisy = mechanism.release(exact, noise)
        reading = Reading(measured, noisy, mechanism.scale, n_public)
        low, high = reading.score_interval(0, 0.95)
        hits += low <= 0.7 <= high
    error = 3.5 * math.sqrt(0.95 * 0.05 / n_runs)
    assert 0.95 - error <= hits / n_runs <= min(1.0, 0.95 + error + 0.01)


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
    outputs = [chosen(table, monkeypatch, 400, 1.0) for table in (first, second)]
    assert pure_audit(*outputs) <= 1.0

    # Wrong on purpose: the exact scores decide.
    def exact(self, utilities, noise):
        return int(np.argmax(utilities))

    monkeypatch.setattr(PermuteAndFlip, "release", exact)
    outputs = [chosen(table, monkeypatch, 120, 1.0) for table in (first, second)]
    assert pure_audit(*outputs) > 1.0


def test_audit_of_cross_validation():
    """Two fits see the record: their noisy sums together, as Gaussian releases."""
    X = np.column_stack([np.zeros(6), np.ones(6), np.zeros(6)])
    y = np.ones(6, dtype=int)
    other = X.copy()
    other[0, 0] = 1.0
    mu = calibrate_gaussian(4.0, 1e-5)
    runs = [fits_of_folds((table, y), 200, 4.0) for table in (X, other)]
    found = gaussian_audit(*runs)
    assert 0.4 * mu < found <= mu


def fits_of_folds(table, n_runs, epsilon):
    X, y = table
    first_seed = int(X[0, 0]) * n_runs
    split = PredefinedSplit([0, 0, 1, 1, 2, 2])
    sums = []
    for seed in range(first_seed, first_seed + n_runs):
        result = dp_cross_validate(
            Stub(),
            X,
            y,
            cv=split,
            epsilon=epsilon,
            score_fraction=0.01,
            return_estimator=True,
            random_state=seed,
        )
        sums.append(sum(model.value_ for model in result.estimators[1:]))
    return sums


def test_audit_of_fold_scores(monkeypatch):
    """The noise of a score, read before it is clipped, against its share of mu."""
    mu = calibrate_gaussian(4.0, 1e-5)
    read = []
    monkeypatch.setattr(
        Reading, "score", lambda self, index=0: read.append(self.vector[0]) or 0.5
    )
    first, second = audit_tables_of_scores()
    runs, split = [], PredefinedSplit([0, 0, 1, 1])
    given = {"cv": split, "epsilon": 4.0, "score_fraction": 0.99}
    for X, y in (first, second):
        read.clear()
        for seed in range(200):
            seed += 200 * int(y[0])
            dp_cross_validate(Stub(), X, y, random_state=seed, **given)
        runs.append(np.array(read[::2]))
    assert 0.4 * mu < gaussian_audit(*runs) <= mu
    # Wrong on purpose: the exact scores come out.
    monkeypatch.setattr(
        GaussianMechanism, "release", lambda self, value, noise: np.asarray(value)
    )
    exact = []
    for X, y in (first, second):
        read.clear()
        dp_cross_validate(Stub(), X, y, **given)
        exact.append(read[0])
    assert abs(exact[1] - exact[0]) == 1.0


def audit_tables_of_scores():
    X = np.column_stack([np.zeros(4), np.ones(4), np.zeros(4)])
    y = np.ones(4, dtype=int)
    other = y.copy()
    other[0] = 0
    return (X, y), (X, other)


def repeated(p_good, distribution, n_runs, seed):
    """Repeat and select, all runs at once: is the winner good, and the secret."""
    noise = noise_source(seed)
    runs = np.array([distribution.quantile(noise.uniform(1)[0]) for _ in range(n_runs)])
    good = noise.uniform(n_runs) < 1 - (1 - p_good) ** runs
    return good, runs


def test_audit_of_the_number_of_runs():
    """A run is randomised response; who sees the number of runs sees more.

    With it, "many runs and still no good one" is an event whose chances differ by far
    more than the claim; without it the winner alone stays below.
    """
    distribution, epsilon = RunDistribution(8.0, GEOMETRIC), 1.0
    claim = repeat_epsilon(pure_base(epsilon), distribution, 1e-6)
    assert claim == pytest.approx(3.0, rel=1e-5)
    p = 0.25
    higher = min(math.e * p, 1 - (1 - p) / math.e)  # as far as epsilon = 1 allows
    n_runs = 40_000
    tables = [
        repeated(chance, distribution, n_runs, i)
        for i, chance in enumerate((p, higher))
    ]
    assert pure_audit(*(good.astype(int) for good, _ in tables)) <= claim
    seen = [np.where(good, 0, runs) for good, runs in tables]
    assert pure_audit(*seen) > claim


# --- Planner --------------------------------------------------------------------------

# The sizes of Communities and Crime, and of Law School; the scores are other ones than
# those of the rehearsal.
SHAPES = [(2, 5), (5, 2), (3, 3), (1.5, 1.5)]


def measured_repair(sizes, epsilon, rng):
    groups = list(range(len(sizes)))
    codes = np.repeat(groups, sizes)
    scores = np.concatenate([rng.beta(*SHAPES[a], n) for a, n in enumerate(sizes)])
    repair = DPBarycenterTransformer(
        epsilon=epsilon,
        n_bins=36,
        output="randomized",
        bounds=(0, 1),
        groups=groups,
        random_state=int(rng.integers(1 << 30)),
    ).fit(scores[:, None], sensitive_features=codes)
    edges = np.arange(1, 37) / 36
    errors = []
    for a in groups:
        cdf = np.mean(scores[codes == a][:, None] <= edges, axis=0)
        places = repair.output_refinement * np.arange(1, 37) - 1
        estimate = repair.transports_[0].source_cdf[a, places]
        errors.append(np.abs(estimate - cdf).max())
    return np.mean(errors), np.max(errors)


@pytest.mark.parametrize(
    "sizes, epsilon", [([711, 684], 1.0), ([628, 1000, 2000, 11760], 0.5)]
)
def test_expected_ks_error(sizes, epsilon):
    rng = np.random.default_rng(0)
    measured = [measured_repair(sizes, epsilon, rng) for _ in range(40)]
    mean, worst = np.mean(measured, axis=0)
    repair = DPBarycenterTransformer(
        epsilon=epsilon, n_bins=36, output="randomized", bounds=(0, 1)
    )
    expected = expected_error(repair, group_sizes=sizes, n_repeats=40)
    assert mean / 1.5 < expected.error < 1.5 * mean
    assert worst / 1.5 < expected.worst_error < 1.5 * worst
    # Without noise the table itself is repaired, and nothing shrunk for the population:
    # a little noise may even do better there.
    assert 0 < expected.violation_without_noise < 1.1 * expected.violation
    assert expected.noise_scale == pytest.approx(2 * math.sqrt(2) / epsilon, rel=0.02)


def two_class_mixture(sizes, rng):
    codes = np.repeat([0, 1], sizes)
    chance = np.array([0.3, 0.65])[codes]
    y = (rng.uniform(size=len(codes)) < chance).astype(int)
    logit = 1.5 * (rng.normal(size=len(codes)) + 1.5 * y) - 1.125
    p = 1 / (1 + np.exp(-logit) * (1 - chance) / chance)
    return np.column_stack([1 - p, p]), y, codes


@pytest.mark.parametrize("sizes", [[1340, 660], [1900, 100]])
def test_expected_violation(sizes):
    rng = np.random.default_rng(1)
    given = FrozenEstimator(planner._Given().fit(None))
    model = DP2DPClassifier(
        given, epsilon=0.5, classes=[0, 1], groups=[0, 1], base_guarantee="public"
    )
    measured = []
    for seed in range(20):
        X, y, codes = two_class_mixture(sizes, rng)
        model.set_params(random_state=seed).fit(X, y, sensitive_features=codes)
        X, y, codes = two_class_mixture([10_000, 10_000], rng)
        rates = model.predict(X, sensitive_features=codes).reshape(2, -1).mean(axis=1)
        measured.append(abs(rates[1] - rates[0]))
    expected = expected_error(model, group_sizes=sizes, n_repeats=20)
    assert np.mean(measured) / 1.5 < expected.violation < 1.5 * np.mean(measured)
    assert expected.error == expected.worst_error >= 0
    assert expected.noise_scale > 20


def test_planning_other_phases_and_constraints():
    regressor = _barycenter(epsilon=1.0, calibration_size=0.25)
    part = expected_error(regressor, group_sizes=[4000, 4000], n_repeats=2)
    whole = expected_error(
        DPBarycenterTransformer(epsilon=1.0), group_sizes=[1000, 1000], n_repeats=2
    )
    assert part.noise_scale == whole.noise_scale
    odds = DP2DPClassifier(
        LogisticRegression(), classes=["a", "b", "c"], constraint="equalized_odds"
    )
    assert 0 < expected_error(odds, group_sizes=[8000, 4000], n_repeats=1).violation < 1
    with pytest.raises(TypeError, match="expected_error knows"):
        expected_error(logistic(), group_sizes=[10, 10])
    with pytest.raises(ValueError, match="at least two sizes"):
        expected_error(regressor, group_sizes=[10])
