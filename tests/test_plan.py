"""Plans of a search and of a cross-validation, known before the fit."""

import math

import pytest
from _model_selection import Stub, plan, stub_table

from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    compose_epsilon,
)
from fairpriv_sklearn.model_selection import (
    DPGridSearchCV,
)
from fairpriv_sklearn.model_selection._plan import (
    plan_validation,
    share_of_composition,
)


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
    assert share_of_composition("approximate", 1, 2.0, 1e-5, 0).epsilon == 2.0
    # A delta that swallows the budget: the fit may have all of epsilon.
    assert share_of_composition("approximate", 2, 1e-3, 0.5, 0).epsilon == 1e-3
    assert share_of_composition("approximate", 40, 0.5, 1e-12, 0).epsilon < 0.02


def test_a_delta_that_cannot_be_shared_is_refused():
    with pytest.raises(ValueError, match="delta=5e-324 is too small to be shared by 2"):
        share_of_composition("approximate", 2, 1.0, 5e-324, 0)


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
