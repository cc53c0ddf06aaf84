"""Private cross-validation, and audits of it."""

import math

import numpy as np
import pytest
from _audit import gaussian_audit
from _model_selection import Stub, barycenter, fair_table, logistic, stub_table
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    KFold,
    PredefinedSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fairpriv_sklearn.accounting import (
    GaussianEvent,
    calibrate_gaussian,
    compose_epsilon,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.mechanisms import (
    GaussianMechanism,
    noise_source,
)
from fairpriv_sklearn.model_selection import (
    ConstrainedScore,
    DPGridSearchCV,
    dp_cross_validate,
)
from fairpriv_sklearn.model_selection._candidates import named_groups
from fairpriv_sklearn.model_selection._scoring import (
    ACCURACY,
    Reading,
    Statistic,
)
from fairpriv_sklearn.neural_network import DPWassersteinMLPRegressor
from fairpriv_sklearn.postprocessing import DP2DPClassifier, DPBarycenterRegressor
from fairpriv_sklearn.privacy import (
    PrivacyLeakWarning,
    PrivacyLedger,
)


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
        random_state=0,
    )
    (spend,) = ledger.spends()
    assert spend["epsilon"] == result.privacy_.epsilon == 2.0
    first, second, *statement = str(result).splitlines()
    assert first.startswith("accuracy: 0.") and first.endswith(", 4 folds")
    assert "95% interval" in second and statement == [str(result.privacy_)]
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
    for one_side in ([-1] * 60, [0] * 60):
        with pytest.raises(ValueError, match="rows to fit and rows to score"):
            dp_cross_validate(Stub(), X, y, cv=PredefinedSplit(one_side))
    dp_cross_validate(Stub(), X, y, cv=PredefinedSplit([0] * 30 + [-1] * 30))
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
        barycenter(),
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
            barycenter(),
            X,
            X[:, 1],
            sensitive_features=group,
            scoring=["neg_ks_parity_difference", "neg_demographic_parity_difference"],
        )


def test_errors_are_clipped_to_the_range_that_the_estimator_was_given():
    X, _, _ = fair_table(2000)
    model = DPLinearRegression(bounds=(-1, 1), target_bounds=(-2, 2))
    y = X @ [1.0, 0.3, 0.1]
    result = dp_cross_validate(model, X, y, epsilon=8.0)  # and no warning
    assert result.privacy_.conditional_on == ()
    assert "target_bounds=(-2.0, 2.0)" in result.privacy_.assumptions


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


def test_an_array_for_a_flag_costs_nothing():
    X, y = stub_table()
    ledger = PrivacyLedger(2.0, 1e-5)
    with pytest.raises(TypeError, match="return_estimator must be True or False"):
        dp_cross_validate(Stub(), X, y, return_estimator=np.ones(3), ledger=ledger)
    assert not ledger.spends()


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
    mechanism = GaussianMechanism(measured.sensitivity, 0.3, measured.size)
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


def test_probabilities_of_folds_are_asked_with_numbers_for_labels():
    """Scikit-learn hands on numbers there: a sentence says so."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 2)), rng.choice(["no", "yes"], 300)
    settings = {"bounds": (-1, 1), "fairness_weight": 0.0}
    model = DPWassersteinLogisticRegression(classes=["no", "yes"], **settings)
    with pytest.raises(ValueError, match="cross_val_predict of probabilities"):
        cross_val_predict(model, X, y, method="predict_proba")
    model.set_params(classes=[0, 1])
    assert cross_val_predict(model, X, y, method="predict_proba").shape == (300, 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("n_rows", "wrap"),
    [(200, False), (1, True), (2, True)],
    ids=["a limit of records", "one row", "two rows"],
)
def test_folds_whose_models_cost_otherwise(n_rows, wrap, seed):
    """The first fold's costs what was planned, the second's another kind."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (n_rows, 2)), rng.integers(0, 2, n_rows)
    about = {"classes": [0, 1], "groups": [0, 1]}
    model = DPWassersteinLogisticRegression(
        bounds=(-1, 1), fairness_weight=0.0, min_records=100, **about
    )
    model = (
        DP2DPClassifier(model.set_params(min_records=None), **about) if wrap else model
    )
    ledger = PrivacyLedger(2.0, 1e-4)
    result = dp_cross_validate(
        model,
        X,
        y,
        sensitive_features=y,
        cv=2,
        ledger=ledger,
        random_state=seed,
        **about,
    )
    assert len(result.scores["accuracy"].scores) == 2 and len(ledger.spends()) == 1


def test_labels_that_come_as_objects():
    """They are those of the public list, whatever holds them."""
    X, y = np.random.default_rng(0).uniform(-1, 1, (60, 2)), np.arange(60) % 2
    settings = {"bounds": (-1, 1), "classes": [0, 1], "fairness_weight": 0.0}
    model = FixedThresholdClassifier(DPWassersteinLogisticRegression(**settings))
    result = dp_cross_validate(
        model, X, y.astype(object), classes=[0, 1], cv=2, random_state=0
    )
    assert len(result.scores["accuracy"].scores) == 2


@pytest.mark.parametrize("named", [False, True])
def test_a_label_that_one_fold_lacks_stops_no_fit_that_is_paid(named):
    rng = np.random.default_rng(0)
    X, rare = rng.uniform(-1, 1, size=(60, 2)), np.zeros(60, dtype=int)
    rare[7] = 1
    group = np.arange(60) % 2
    group[8] = 2
    line = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    model = logistic(classes=None, groups=None, fairness_weight=0.5)
    repair = DPBarycenterRegressor(line, target_bounds=(-1, 1))
    given = {"sensitive_features": group}
    if named:
        X, given = np.column_stack([group, X]), {}
        for owner in model, repair:
            owner.set_params(sensitive_features=0)
    for estimator, y, facts in (
        (model, rare, {"classes", "groups"}),
        (repair, X[:, 1], {"groups"}),
    ):
        with pytest.warns(PrivacyLeakWarning, match=r"`(groups|classes)`") as told:
            result = dp_cross_validate(
                estimator, X, y, **given, epsilon=4.0, cv=2, return_estimator=True
            )
        said = sorted(str(one.message).split("`")[1] for one in told)
        assert said == sorted(facts) and result.privacy_.epsilon == math.inf
        for fitted in result.estimators:
            assert fitted.groups_.tolist() == [0, 1, 2]
            assert list(fitted.privacy_.conditional_on) == sorted(facts)
            # No clone takes for public what was read, and the model predicts.
            assert all(fitted.get_params()[name] is None for name in facts)
            asked = {"sensitive_features": group[:2]} if estimator is repair else {}
            asked = {} if named else asked
            assert np.isfinite(fitted.predict(X[:2], **asked)).all()
        assert facts == set(result.privacy_.conditional_on)
        with pytest.warns(PrivacyLeakWarning):
            search = DPGridSearchCV(estimator, {"epsilon": [9.0]}, epsilon=4.0)
            search.fit(X, y, **given)
        assert facts == set(search.privacy_.conditional_on)
        assert search.best_estimator_.groups_.tolist() == [0, 1, 2]


def test_groups_of_another_column_are_not_told():
    rng = np.random.default_rng(0)
    X, group = rng.uniform(-1, 1, size=(60, 2)), np.arange(60) % 2
    X[:, 0] = np.arange(60) % 3
    inner = logistic(groups=None, sensitive_features=0, classes=None)
    outer = DP2DPClassifier(inner, classes=None)
    y = (X[:, 1] > 0).astype(int)
    with pytest.warns(PrivacyLeakWarning):
        result = dp_cross_validate(
            outer, X, y, sensitive_features=group, cv=2, return_estimator=True
        )
    for fitted in result.estimators:
        assert fitted.groups_.tolist() == [0, 1]
        assert fitted.estimator_.groups_.tolist() == [0, 1, 2]


def columns_in_other_order():
    """A model that protects another column than the one at its place in the table."""

    def turned(X):
        return X[:, ::-1]

    turned.__fairpriv_row_pure__ = True
    inner = DPWassersteinMLPRegressor(
        target_bounds=(-1, 1), sensitive_features=0, max_iter=2
    )
    model = make_pipeline(FunctionTransformer(turned), inner)
    return TransformedTargetRegressor(model, check_inverse=False)


@pytest.mark.parametrize("turned", [False, True])
def test_a_candidate_with_groups_of_another_column_lists_its_own(turned):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(60) % 2, rng.uniform(-1, 1, 60), np.arange(60) % 3])
    model, grid, y = logistic(groups=None, sensitive_features=0), {}, X[:, 1] > 0
    if turned:
        X[:, 0] = rng.uniform(-1, 1, 60)
        model, y = columns_in_other_order(), X[:, 1]
    else:
        grid = {"sensitive_features": [2], "fairness_weight": [0.5]}
    with pytest.warns(PrivacyLeakWarning, match="`groups`"):
        search = DPGridSearchCV(model, grid, epsilon=4.0).fit(X, y)
    found = search.best_estimator_
    found = found.regressor_[-1] if turned else found
    assert found.groups_.tolist() == [0, 1, 2]


def test_groups_of_a_score_are_those_that_the_outermost_model_names():
    inner = logistic(sensitive_features=0)
    assert named_groups(DP2DPClassifier(inner)) == 0
    assert named_groups(DP2DPClassifier(inner, sensitive_features=1)) == 1
    assert named_groups(make_pipeline(inner)) is None
    assert named_groups(columns_in_other_order()) is None
