"""Plans of a search and of a cross-validation, known before the fit."""

import math
import warnings
from dataclasses import replace

import pytest
from _model_selection import Stub, plan, stub_table

from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    ThresholdEvent,
    compose_epsilon,
    gaussian_mu,
)
from fairpriv_sklearn.model_selection import (
    DPGridSearchCV,
)
from fairpriv_sklearn.model_selection._plan import (
    gaussian_share,
    plan_validation,
    share_of_composition,
)
from fairpriv_sklearn.model_selection._repeat import calibrate_repeat
from fairpriv_sklearn.model_selection._search import _warn_of_many_runs
from fairpriv_sklearn.privacy import KEY_SHARE


def test_few_candidates_compose_and_many_repeat():
    assert plan(2).method == "compose"
    assert plan(30).method == "repeat"
    # All are tried unless repeating leaves each much more.
    for n in (2, 3, 4, 6, 8, 30):
        for kind in ("gaussian", "threshold", "approximate"):
            ways = [plan(n, kind=kind, method=m) for m in ("compose", "repeat")]
            gain = ways[1].fit.size / ways[0].fit.size
            assert plan(n, kind=kind).method == ways[gain > 1.4].method
            assert (gain > 1.4) or n < 8


def test_more_than_a_hundred_fits_of_each_candidate_are_warned_of():
    usual = plan(7, method="repeat")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_of_many_runs(replace(usual, expected_runs=700.0))
        _warn_of_many_runs(replace(usual, expected_runs=7e9, method="compose"))
    with pytest.warns(UserWarning, match="fits 701 models on average, of 7 candidates"):
        _warn_of_many_runs(replace(usual, expected_runs=700.6))


def test_composed_fits_cost_what_they_should():
    share = plan(7, method="compose").fit
    mu = share.mu * math.sqrt(7)
    assert compose_epsilon([GaussianEvent(mu, 7000)], 1e-5) <= 3.0 * (1 + 1e-9)
    assert compose_epsilon([GaussianEvent(mu * 1.001, 7000)], 1e-5) > 3.0
    share = plan(7, kind="approximate", method="compose").fit
    parts = [DeclaredEvent(share.epsilon, share.delta)] * 7
    assert 3.0 * (1 - 1e-4) <= compose_epsilon(parts, 1e-5) <= 3.0 * (1 + 1e-9)


@pytest.mark.parametrize("n", [2, 7, 40])
def test_fits_that_show_names_cost_what_they_should(n):
    share = plan(n, kind="threshold", method="compose").fit
    fit = [GaussianEvent(share.mu, 1000), ThresholdEvent(share.failure)]
    assert 3.0 * (1 - 1e-4) <= compose_epsilon(fit * n, 1e-5) <= 3.0 * (1 + 1e-9)
    more = [GaussianEvent(share.mu * 1.001, 1000), ThresholdEvent(share.failure)]
    assert compose_epsilon(more * n, 1e-5) > 3.0
    # What is handed to the steps, which take a hundredth of it for names at most.
    assert share.failure == 2 * KEY_SHARE * share.delta
    assert share.mu * (1 - 1e-6) < gaussian_mu(share.epsilon, share.delta) <= share.mu
    alone = plan(n, kind="gaussian", method="compose").fit
    assert 0.995 * alone.mu < share.mu < alone.mu == alone.size
    assert share.size == share.mu


def test_repeated_fits_that_show_names_cost_what_they_should():
    found = plan(30, kind="threshold", method="repeat")
    alone = plan(30, kind="gaussian", method="repeat")
    shown = found.expected_runs * found.fit.failure  # in the mean over the runs
    assert 0.0199e-5 < shown <= 0.02e-5
    runs, failure = found.distribution, found.fit.failure
    least = calibrate_repeat("gaussian", 2.999, 0.999e-5, runs, failure)
    most = calibrate_repeat("gaussian", 3.0, 1e-5, runs, failure)
    assert least < found.fit.mu <= most < alone.fit.mu
    assert found.score_mu == alone.score_mu
    assert plan(30, kind="threshold").method == "repeat"


def test_composed_scores_cost_what_they_should():
    # A record is in the fits or in the scores: these alone may have the budget.
    size = plan(7, method="compose", permute_and_flip=False).score_mu
    scores = [GaussianEvent(size, 1)] * 7
    assert 3.0 * (1 - 1e-3) <= compose_epsilon(scores, 1e-5) <= 3.0 * (1 + 1e-9)


def test_tiny_and_infinite_budgets_have_a_plan():
    assert plan(5, epsilon=math.inf).fit.epsilon == math.inf
    assert plan(5, epsilon=math.inf, permute_and_flip=False).score_mu == math.inf
    assert 0 < plan(5, epsilon=0.01).fit.epsilon < 0.01
    # One fit and nothing else gets everything.
    for kind in ("approximate", "threshold"):
        one = share_of_composition(kind, 1, 2.0, 1e-5, 0)
        assert (one.kind, one.epsilon, one.delta) == ("approximate", 2.0, 1e-5)
    assert plan(5, kind="threshold", epsilon=math.inf).fit.epsilon == math.inf
    # A delta that swallows the budget: the fit may have all of epsilon.
    assert share_of_composition("approximate", 2, 1e-3, 0.5, 0).epsilon == 1e-3
    assert share_of_composition("approximate", 40, 0.5, 1e-12, 0).epsilon < 0.02


def test_a_delta_that_cannot_be_shared_is_refused():
    with pytest.raises(ValueError, match="delta=5e-324 is too small to be shared by 2"):
        share_of_composition("approximate", 2, 1.0, 5e-324, 0)
    with pytest.raises(ValueError, match="delta=5e-324 is too small to be shared by 2"):
        gaussian_share("threshold", 1.0, 5e-324, 2, 0)


def test_validation_plan_adds_up():
    for kind in ("gaussian", "threshold", "approximate"):
        plan = plan_validation(
            4, 2.0, 1e-5, kind=kind, score_fraction=0.2, n_draws=500, n_statistics=3
        )
        if kind != "approximate":
            shown = ThresholdEvent(plan.fit.failure)
            fits = [GaussianEvent(2 * plan.fit.mu, 2000), *[shown] * 4]
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
