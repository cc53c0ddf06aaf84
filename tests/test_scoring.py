"""Noisy scores: sensitivities, readings, constraints."""

import warnings

import numpy as np
import pytest
from _model_selection import Stub, stub_table

from fairpriv_sklearn.model_selection import (
    BoundedScore,
    ConstrainedScore,
    DPGridSearchCV,
)
from fairpriv_sklearn.model_selection._scoring import (
    ACCURACY,
    Reading,
    Statistic,
    bounded_score,
    ranking,
)
from fairpriv_sklearn.privacy import show_wrapped_errors

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


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
@pytest.mark.parametrize("largest", [1e-300, 1.0, 8.9e307])
def test_scores_of_any_range_move_by_at_most_their_sensitivity(largest, neighboring):
    score = BoundedScore(lambda y, p: p, -largest, largest)
    measured = Statistic((score,), None, neighboring)
    ends = [-np.inf, -largest, 0.0, largest, np.inf, np.nan]
    found = [
        measured.query(np.zeros(1), {"predict": np.array([end])}, None)[0]
        for end in ends
    ]
    assert found == [-0.5, -0.5, 0.0, 0.5, 0.5, -0.5]


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1e308, 1e308), (-1.7e308, 1.7e308), (0, 0), (1, 0), (-np.inf, 0), (0, np.nan)],
)
def test_ranges_that_no_score_can_be_scaled_by(low, high):
    with pytest.raises(ValueError, match="finite low < high with a finite difference"):
        BoundedScore(lambda y, p: p, low, high)
    for name in ("neg_mean_absolute_error", "neg_mean_squared_error"):
        with pytest.raises(ValueError, match="too wide"):
            bounded_score(name, (-1.7e308, 1.7e308))
    with pytest.raises(ValueError, match="too wide"):
        bounded_score("neg_mean_squared_error", (0, 1e200))


def quotes(y, y_pred):
    return [{}[label] for label in y]


def warns(y, y_pred):
    warnings.warn("private", stacklevel=1)
    return y == y_pred


@pytest.mark.filterwarnings("error")
def test_what_a_score_says_of_private_rows_is_not_shown():
    y, said = np.array(["John Doe"]), {"predict": np.array(["John Doe"])}
    measured = Statistic((BoundedScore(quotes, 0, 1, name="mine"),), None, "add_remove")
    with pytest.raises(ValueError, match="score 'mine' raised an error") as caught:
        measured.query(y, said, None)
    told = caught.value
    while told is not None:
        assert "John" not in str(told)
        told = told.__cause__ or told.__context__
    with show_wrapped_errors(), pytest.raises(KeyError, match="John"):
        measured.query(y, said, None)
    heard = Statistic((BoundedScore(warns, 0, 1),), None, "add_remove")
    np.testing.assert_array_equal(heard.query(y, said, None), [0.5, 1])
