"""DP2DPClassifier: what it promises, what it releases, what it predicts."""

import numpy as np
import pytest
from _audit import gaussian_audit, pure_audit
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from fairpriv_sklearn._shared.purity import spreads
from fairpriv_sklearn._wall import PrivacyFilter
from fairpriv_sklearn.accounting import GaussianEvent, calibrate_gaussian
from fairpriv_sklearn.datasets import make_biased_mixture, make_spurious_bias
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.metrics import (
    demographic_parity_difference,
    equalized_odds_difference,
)
from fairpriv_sklearn.postprocessing import DP2DPClassifier, RepairWarning
from fairpriv_sklearn.postprocessing import _decisions as decisions
from fairpriv_sklearn.postprocessing import _parity as parity
from fairpriv_sklearn.postprocessing import _repair as repair
from fairpriv_sklearn.postprocessing._queries import MarginCounts, SoftCounts
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
)

PUBLIC = {"classes": [0, 1], "groups": [0, 1], "base_guarantee": "public"}


class Posteriors(ClassifierMixin, BaseEstimator):
    """The features are the probabilities; `labels` lets the columns be renamed."""

    def __init__(self, labels=(0, 1)):
        self.labels = labels

    def fit(self, X, y=None):
        self.classes_ = np.asarray(self.labels)
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict_proba(self, X):
        return np.asarray(X, dtype=float)

    def predict(self, X):
        return self.classes_[np.argmax(X, axis=1)]


def oracle(n_classes=2, labels=None):
    labels = tuple(range(n_classes)) if labels is None else labels
    return FrozenEstimator(Posteriors(labels).fit(np.eye(n_classes)))


def two_classes(n_rows, seed=0, share=0.4):
    """Calibrated scores; the groups differ in base rate and in score quality."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n_rows) < share).astype(int)
    p = np.where(
        group == 1, rng.beta(1.2, 2.5, size=n_rows), rng.beta(1.5, 1.0, size=n_rows)
    )
    y = (rng.random(n_rows) < p).astype(int)
    return np.column_stack([1 - p, p]), y, group


# --- the promise ---------------------------------------------------------------------


def test_gradient_spends_its_budget_and_no_more():
    P, y, group = two_classes(300)
    model = DP2DPClassifier(oracle(), epsilon=0.7, delta=1e-6, max_iter=12, **PUBLIC)
    model.fit(P, y, sensitive_features=group)
    guarantee = model.privacy_
    assert 0.699 < guarantee.epsilon <= 0.7 and guarantee.delta == 1e-6
    mu = calibrate_gaussian(0.7, 1e-6, n_draws=12 * 4 + 8)
    (event,) = guarantee.events
    assert event.mu == pytest.approx(mu, rel=1e-12) and event.n_draws == 56
    assert model.n_iter_ == 12
    assert "classes=[0, 1]" in guarantee.assumptions
    assert guarantee.noise_is_secure


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_histogram_is_pure(relation):
    P, y, group = two_classes(300)
    model = DP2DPClassifier(
        oracle(), epsilon=0.5, method="histogram", neighboring=relation, **PUBLIC
    ).fit(P, y, sensitive_features=group)
    assert model.privacy_.delta == 0.0
    assert 0.499 < model.privacy_.epsilon <= 0.5
    assert model.privacy_.neighboring == relation
    assert model.counts_.shape == (1, 2, 32) and model.counts_.dtype == np.int64


@pytest.mark.parametrize(
    ("relation", "scale"), [("replace_one", 2**0.5), ("add_remove", 1.0)]
)
def test_noise_of_a_release(relation, scale):
    model = DP2DPClassifier(oracle(), max_iter=9, neighboring=relation, **PUBLIC)
    model.groups_, model.classes_ = np.arange(2), np.arange(2)
    query = MarginCounts(2, model.smoothing)
    plan, delta = model._plan()
    wall = PrivacyFilter(
        model,
        plan,
        delta=delta,
        neighboring=relation,
        noise=noise_source(0),
    )
    mu = wall.planned.events[0].mu
    # Never below the exact value, and above it by the rounding to the grid only.
    exact = scale * (9 / 0.9) ** 0.5 / mu
    assert exact * (1 - 1e-12) <= wall.scale(query) <= exact * (1 + 3e-5)


@pytest.mark.parametrize("sure", [1.0, 2.0])
def test_a_classifier_that_is_sure_of_itself_is_repaired(sure):
    X, y, group = make_biased_mixture(30_000, n_classes=2, random_state=0)
    train, told, fresh = slice(0, 5000), slice(5000, 15_000), slice(15_000, None)
    base = LogisticRegression().fit(X[train], y[train])
    base.coef_, base.intercept_ = sure * base.coef_, sure * base.intercept_
    public = {"classes": [0, 1], "groups": np.unique(group).tolist()}
    model = DP2DPClassifier(FrozenEstimator(base), random_state=0, **public)
    model.fit(X[told], y[told], sensitive_features=group[told])
    groups = {"sensitive_features": group[fresh]}
    gaps = [
        demographic_parity_difference(y[fresh], decided, **groups)
        for decided in (base.predict(X[fresh]), model.predict(X[fresh], **groups))
    ]
    assert gaps[0] > 0.4 and gaps[1] < 0.05


def test_a_base_without_a_guarantee_leaves_the_whole_uncovered():
    X, y, group = make_spurious_bias(400, random_state=0)
    model = DP2DPClassifier(GaussianNB(), classes=[0, 1], groups=[0, 1])
    with pytest.warns(PrivacyLeakWarning, match="Not all of estimator is private"):
        model.fit(X, y, sensitive_features=group)  # breach A14
    assert model.privacy_.epsilon == np.inf
    assert model.privacy_.uncovered == ("estimator",)
    (split,) = model.privacy_.events
    assert isinstance(split.left[0], GaussianEvent) and split.right == ()


def test_phases_on_disjoint_rows_cost_the_larger_one():
    X, y, group = make_spurious_bias(2000, random_state=0)
    base = DPWassersteinLogisticRegression(
        epsilon=2.0, fairness_weight=0, data_norm=5.0, classes=[0, 1]
    )
    model = DP2DPClassifier(base, epsilon=0.5, classes=[0, 1], groups=[0, 1])
    model.fit(X, y, sensitive_features=group)
    assert 1.99 < model.privacy_.epsilon <= 2.0
    frozen = DP2DPClassifier(
        FrozenEstimator(model.estimator_), epsilon=0.5, classes=[0, 1], groups=[0, 1]
    ).fit(X, y, sensitive_features=group)
    assert 2.0 < frozen.privacy_.epsilon < 2.5  # composed, tighter than the sum
    declared = DP2DPClassifier(
        GaussianNB(),
        base_guarantee=PrivacyGuarantee(3.0, 0.0, "replace_one", "elsewhere"),
        classes=[0, 1],
        groups=[0, 1],
    ).fit(X, y, sensitive_features=group)
    assert 2.999 < declared.privacy_.epsilon <= 3.0


# --- audits of whole fits -------------------------------------------------------------


def worst_pair(relation):
    """All rows choose class 0; one record chooses class 1, or is missing."""
    P = np.tile([1.0, 0.0], (6, 1))
    y, group = np.zeros(6, dtype=int), np.array([0, 0, 0, 1, 1, 1])
    if relation == "add_remove":
        return (P, y, group), (P[1:], y[1:], group[1:])
    other = P.copy()
    other[0] = [0.0, 1.0]
    return (P, y, group), (other, y, group)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_audit_of_the_gradient_transcript(monkeypatch, relation):
    """The T noisy tables of real fits reveal at most the mu that is spent."""
    solve, transcripts = parity.fit_offsets, []

    def recording(noisy_sums, **params):
        tables = []

        def listen(offsets):
            tables.append(noisy_sums(offsets))
            return tables[-1]

        result = solve(listen, **params)
        transcripts.append(np.mean(tables, axis=0)[0, 0])
        return result

    monkeypatch.setattr(parity, "fit_offsets", recording)
    model = DP2DPClassifier(
        oracle(),
        epsilon=15.0,  # mu near 2.5: few fits tell most of it
        max_iter=3,
        # Steps too small to change a decision: the pair stays the worst one.
        learning_rate=1e-6,
        neighboring=relation,
        **PUBLIC,
    )
    sides = []
    for seed_side, (P, y, group) in enumerate(worst_pair(relation)):
        transcripts.clear()
        for seed in range(100):
            model.set_params(random_state=2 * seed + seed_side)
            model.fit(P, y, sensitive_features=group)
        direction = [1.0, -1.0] if relation == "replace_one" else [1.0, 0.0]
        sides.append(np.array(transcripts) @ direction)
    bound = gaussian_audit(*sides)
    mu = model.privacy_.events[0].mu
    # Too little noise by sqrt(2) would be seen: the bound is then above mu.
    assert 0.6 * mu < bound <= mu


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_audit_of_the_histogram_release(monkeypatch, relation):
    monkeypatch.setattr(DP2DPClassifier, "_solve", lambda self: None)
    model = DP2DPClassifier(
        oracle(), method="histogram", n_bins=2, neighboring=relation, **PUBLIC
    )
    sides = []
    for seed_side, (P, y, group) in enumerate(worst_pair(relation)):
        outputs = []
        for seed in range(1000):
            model.set_params(random_state=2 * seed + seed_side)
            counts = model.fit(P, y, sensitive_features=group).counts_[0, 0]
            # The log-likelihood ratio of double-sided geometric noise is bounded:
            # clipping to the two centres keeps all of it.
            first = np.clip(counts[0], 2, 3)
            second = np.clip(counts[1], 0, 1) if relation == "replace_one" else 0
            outputs.append(first - second)
        sides.append(outputs)
    bound = pure_audit(*sides, beyond=3)
    assert 0.5 < bound <= model.privacy_.epsilon


# --- what comes out ---------------------------------------------------------


@pytest.mark.parametrize("method", ["gradient", "histogram"])
@pytest.mark.parametrize("tolerance", [0.0, 0.15])
def test_demographic_parity_of_two_classes(method, tolerance):
    P, y, group = two_classes(40_000)
    fit, test = slice(20_000), slice(20_000, None)
    plain = oracle().predict(P[test])
    before = demographic_parity_difference(
        y[test], plain, sensitive_features=group[test]
    )
    model = DP2DPClassifier(
        oracle(), method=method, fairness_tolerance=tolerance, random_state=0, **PUBLIC
    ).fit(P[fit], y[fit], sensitive_features=group[fit])
    y_pred = model.predict(P[test], sensitive_features=group[test])
    after = demographic_parity_difference(
        y[test], y_pred, sensitive_features=group[test]
    )
    assert before > 0.4
    # Sampling error of a difference of rates, 8000 rows and more on each side, in
    # calibration and in the test, plus the smoothing: three standard deviations.
    assert abs(after - tolerance) < 0.04
    assert model.score(P[test], y[test], sensitive_features=group[test]) > 0.6


def test_methods_agree_where_noise_is_small():
    P, y, group = two_classes(60_000)
    offsets = [
        DP2DPClassifier(
            oracle(), epsilon=np.inf, method=method, max_iter=200, n_bins=200, **PUBLIC
        )
        .fit(P, y, sensitive_features=group)
        .offsets_
        for method in ("gradient", "histogram")
    ]
    margins = [nu[:, 1] - nu[:, 0] for nu in offsets]
    assert_allclose(margins[0], margins[1], atol=0.03)


def test_many_classes_and_string_labels():
    X, codes, group, P = make_biased_mixture(
        30_000, 4, n_classes=4, return_posteriors=True, random_state=0
    )
    names = np.array(["ash", "birch", "cedar", "dogwood"])
    labels = names[codes]
    model = DP2DPClassifier(
        oracle(4, tuple(names)),
        classes=names,
        groups=[-1, 1],
        base_guarantee="public",
        random_state=0,
    ).fit(P[:15_000], labels[:15_000], sensitive_features=group[:15_000])
    test = {"sensitive_features": group[15_000:]}
    y_pred = model.predict(P[15_000:], **test)
    plain = names[P[15_000:].argmax(axis=1)]
    after = demographic_parity_difference(labels[15_000:], y_pred, **test)
    before = demographic_parity_difference(labels[15_000:], plain, **test)
    assert before > 0.2 and after < 0.04
    scores = model.decision_function(P[15_000:], **test)
    proba = model.predict_proba(P[15_000:], **test)
    assert scores.shape == proba.shape == (15_000, 4)
    assert_array_equal(names[scores.argmax(axis=1)], y_pred)
    assert_array_equal(names[proba.argmax(axis=1)], y_pred)
    assert_allclose(proba.sum(axis=1), 1)


def test_intersections_are_groups():
    P, y, group = two_classes(20_000)
    other = np.random.default_rng(1).integers(2, size=len(y))
    both = np.column_stack([group, other])
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    model = DP2DPClassifier(
        oracle(), classes=[0, 1], groups=pairs, base_guarantee="public", random_state=0
    ).fit(P, y, sensitive_features=both)
    y_pred = model.predict(P, sensitive_features=both)
    assert model.offsets_.shape == (4, 2)
    assert demographic_parity_difference(y, y_pred, sensitive_features=both) < 0.05


@pytest.mark.parametrize("constraint", ["equalized_odds", "equal_opportunity"])
def test_rates_by_true_class(constraint):
    P, y, group = two_classes(60_000)
    fit, test = slice(30_000), slice(30_000, None)
    model = DP2DPClassifier(
        oracle(), constraint=constraint, random_state=0, **PUBLIC
    ).fit(P[fit], y[fit], sensitive_features=group[fit])
    assert model.rule_.shape == (2, 16, 2)
    y_pred = model.predict(P[test], sensitive_features=group[test])
    y_true, a = y[test], group[test]
    rows = np.ones(30_000, dtype=bool)
    metric = equalized_odds_difference
    if constraint == "equal_opportunity":
        rows, metric = y_true == 1, demographic_parity_difference
    before, after = (
        metric(y_true[rows], guess[rows], sensitive_features=a[rows])
        for guess in (P[test].argmax(axis=1), y_pred)
    )
    assert before > 0.25 and after < 0.05


def test_odds_of_unequal_quality_are_closed_by_draws():
    """Groups whose ROC curves differ have no common point but by randomising."""
    rng = np.random.default_rng(0)
    group, y = rng.integers(2, size=(2, 40_000))
    quality = np.where(group == 1, 0.9, 1.8)
    x = (y - 0.5) * quality + rng.normal(size=40_000)
    p = 1 / (1 + np.exp(-quality * x))
    P = np.column_stack([1 - p, p])
    asked = {"constraint": "equalized_odds", "random_state": 0, **PUBLIC}
    counts = DP2DPClassifier(oracle(), method="histogram", **asked)
    counts.fit(P, y, sensitive_features=group)
    steps = DP2DPClassifier(oracle(), method="gradient", max_iter=60, **asked)
    with pytest.warns(RepairWarning, match="some are drawn now") as said:
        steps.fit(P, y, sensitive_features=group)
    assert steps.repair_notes_ == [str(said[0].message)]
    assert steps.offsets_.shape == (2, 2, 2) and steps.rule_.shape == (2, 4, 2)
    decided = [
        P.argmax(axis=1),
        steps._shifted(P, group).argmax(axis=1),
        *(m.predict(P, sensitive_features=group) for m in (steps, counts)),
    ]
    plain, shifted, drawn, counted = (
        equalized_odds_difference(y, one, sensitive_features=group) for one in decided
    )
    assert max(drawn, counted) < 0.03 < 0.05 < shifted < plain
    errors = [np.mean(one != y) for one in decided]
    assert errors[2] < errors[3] + 0.03


def test_auto_by_true_class_is_a_line_of_bins_or_gradient_steps():
    for classes, method in (
        (None, "histogram"), ([0, 1], "histogram"), (range(3), "gradient"),
    ):  # fmt: skip
        for constraint in ("equalized_odds", "equal_opportunity"):
            model = DP2DPClassifier(oracle(2), classes=classes, constraint=constraint)
            assert model._resolved_method() == method
    model = DP2DPClassifier(oracle(3), classes=range(3))
    assert model._resolved_method() == "gradient"
    assert not hasattr(model.set_params(constraint="equalized_odds"), "path")
    assert hasattr(model.set_params(method="histogram"), "path")


def test_a_path_is_of_the_counts_that_were_fitted():
    X, y, group, P = make_biased_mixture(
        2000, 3, n_classes=2, return_posteriors=True, random_state=2
    )
    given, odds = {"sensitive_features": (group > 0).astype(int)}, "equalized_odds"
    told = {"n_bins": 16, "random_state": 0, **PUBLIC}
    model = DP2DPClassifier(oracle(2), method="gradient", constraint=odds, **told)
    model.fit(P, y, **given).set_params(method="histogram")
    changed = pytest.raises(ValueError, match="n_bins.*set them back, or fit again")
    with changed:
        model.path([0.0])  # nothing was counted
    model.fit(P, y, **given)
    assert len(model.path([0.0, 0.1])) == 2
    with changed:
        model.set_params(constraint="demographic_parity").path([0.0])
    model.set_params(method="histogram").fit(P, y, **given)
    with changed:
        model.set_params(n_bins=8).path([0.0])
    assert len(model.set_params(n_bins=16).path([0.0, 0.1])) == 2


def test_odds_of_three_classes_cost_less_by_default_than_by_regions():
    X, y, group, P = make_biased_mixture(
        47_000, 4, n_classes=3, return_posteriors=True, random_state=1
    )
    found = {}
    for method in ("auto", "histogram"):
        model = DP2DPClassifier(
            oracle(3), constraint="equalized_odds", classes=range(3), groups=[-1, 1],
            base_guarantee="public", method=method, random_state=0,
        ).fit(P[:7000], y[:7000], sensitive_features=group[:7000])  # fmt: skip
        assert (model.privacy_.delta > 0) == (method == "auto")
        y_pred = model.predict(P[7000:], sensitive_features=group[7000:])
        found[method] = np.mean(y_pred != y[7000:]), _odds_gap(y, y_pred, group)
    plain = P[7000:].argmax(axis=1)
    assert found["auto"][0] < found["histogram"][0]
    assert found["auto"][1] < _odds_gap(y, plain, group) / 2


def _odds_gap(y, y_pred, group):
    """Largest difference between two groups' rates, of the last rows."""
    y, group = y[-len(y_pred) :], group[-len(y_pred) :]
    chosen = np.eye(y.max() + 1)[y_pred]
    return max(
        np.ptp([chosen[(y == k) & (group == s)].mean(axis=0) for s in (-1, 1)], 0).max()
        for k in np.unique(y)
    )


def test_noisy_rates_differ_by_what_rows_cannot_tell():
    X, y, group, P = make_biased_mixture(
        4000, 3, n_classes=2, return_posteriors=True, random_state=2
    )
    model = DP2DPClassifier(
        oracle(2), constraint="equalized_odds", random_state=0, **PUBLIC
    )
    for tolerance in (0.0, 0.03):
        model.set_params(fairness_tolerance=tolerance)
        model.fit(P, y, sensitive_features=(group > 0).astype(int))
        assert not len(model.pooled_groups_)
        counts, variance = model.counts_, model._noise_variance
        masses, _ = parity.estimate_cells(counts, noise_variance=variance, ordered=True)
        gaps = np.ptp(np.einsum("syb,sby->sy", masses, model.rule_), axis=0)
        allowed = parity.told_tolerance(counts, variance, tolerance)
        assert (allowed > tolerance + 0.01).all()
        assert_allclose(gaps.max(), allowed[gaps.argmax()], atol=1e-9)


def test_randomised_odds_for_three_classes():
    X, y, group, P = make_biased_mixture(
        40_000, 4, n_classes=3, return_posteriors=True, random_state=1
    )
    model = DP2DPClassifier(
        oracle(3), constraint="equal_opportunity", classes=range(3), groups=[-1, 1],
        base_guarantee="public", method="histogram", random_state=0,
    ).fit(P[:30_000], y[:30_000], sensitive_features=group[:30_000])  # fmt: skip
    assert model.rule_.shape == (2, 30, 3)
    test = {"sensitive_features": group[30_000:]}
    y_pred = model.predict(P[30_000:], **test)
    scores = model.decision_function(P[30_000:], **test)
    assert_array_equal(scores.argmax(axis=1), y_pred)

    def gap(y_pred):
        y_true, a = y[30_000:], group[30_000:]
        recalls = [
            [np.mean(y_pred[(y_true == k) & (a == s)] == k) for s in (-1, 1)]
            for k in range(3)
        ]
        return np.ptp(recalls, axis=1).max()

    assert gap(P[30_000:].argmax(axis=1)) > 0.2
    assert gap(y_pred) < 0.08


# --- prediction ---------------------------------------------------------------------


def test_two_class_scores_are_consistent():
    P, y, group = two_classes(2000)
    model = DP2DPClassifier(oracle(), random_state=0, **PUBLIC)
    model.fit(P, y, sensitive_features=group)
    scores = model.decision_function(P, sensitive_features=group)
    proba = model.predict_proba(P, sensitive_features=group)
    y_pred = model.predict(P, sensitive_features=group)
    assert scores.shape == (2000,)
    assert_array_equal(y_pred, scores > 0)
    assert_array_equal(y_pred, proba.argmax(axis=1))
    assert_allclose(proba[:, 1], np.clip((1 + scores) / 2, 0, 1), atol=1e-12)


def test_randomised_answers_belong_to_rows():
    P, y, group = two_classes(3000)
    model = DP2DPClassifier(
        oracle(), constraint="equalized_odds", random_state=0, **PUBLIC
    ).fit(P, y, sensitive_features=group)
    y_pred = model.predict(P, sensitive_features=group)
    order = np.random.default_rng(0).permutation(3000)
    again = model.predict(P[order], sensitive_features=group[order])
    assert_array_equal(again, y_pred[order])
    one = model.predict(P[7:8], sensitive_features=group[7:8])
    assert_array_equal(one, y_pred[7:8])
    scores = model.decision_function(P, sensitive_features=group)
    assert_array_equal(y_pred, scores > 0)
    # A thousand equal rows share the chances of their region.
    chances = model.predict_proba(P, sensitive_features=group)
    row = np.argmin(np.abs(chances[:, 1] - 0.5))
    assert 0.02 < chances[row, 1] < 0.98
    same = model.predict(
        np.tile(P[row], (1000, 1)), sensitive_features=np.full(1000, group[row])
    )
    assert_allclose(same.mean(), chances[row, 1], atol=0.005)


def test_the_tables_of_all_classes_together_say_whether_groups_differ(monkeypatch):
    """In tables of any size: of 20,000 alike nobody is steered."""
    rng, asked, untold = np.random.default_rng(2), [], decisions.untold_cells

    def recorded(*arguments):
        asked.append((*arguments, untold(*arguments)))
        return asked[-1][-1]

    monkeypatch.setattr(decisions, "untold_cells", recorded)
    P, y, _ = two_classes(20_000)
    group = (rng.random(20_000) < 0.1).astype(int)
    with pytest.warns(RepairWarning, match="differ; more rows"):
        model = DP2DPClassifier(
            oracle(), constraint="equalized_odds", random_state=0, **PUBLIC
        ).fit(P, y, sensitive_features=group)
    ((counts, variance, defaults, pooled),) = asked
    assert defaults.tolist() == [0] * 8 + [1] * 8
    assert counts is model.counts_ and variance == model._noise_variance
    assert pooled.all() and model.pooled_groups_.tolist() == [0, 1]
    chosen = model.predict(P, sensitive_features=group)
    assert_array_equal(chosen, P.argmax(axis=1))


@pytest.mark.parametrize(
    ("pooled", "named", "ends"),
    [
        ([[True, False], [False, False]], [0], "part of the true classes only"),
        ([[True, True], [True, False]], [0, 1], "part of the true classes only"),
        ([[True, False], [True, False]], [0], "as all people together"),
        ([[True, True], [True, True]], [0, 1], "as all people together"),
    ],
)
def test_groups_of_few_people_of_one_true_class_are_said_to_be(
    monkeypatch, pooled, named, ends
):
    """They are repaired in the others, which "as all people together" denied."""
    monkeypatch.setattr(decisions, "untold_cells", lambda *_: np.array(pooled))
    P, y, group = two_classes(2000)
    model = DP2DPClassifier(
        oracle(), constraint="equalized_odds", random_state=0, **PUBLIC
    )
    with pytest.warns(RepairWarning, match=rf"{ends}\.$"):
        model.fit(P, y, sensitive_features=group)
    assert model.pooled_groups_.tolist() == named


@pytest.mark.parametrize("constraint", ["equal_opportunity", "equalized_odds"])
def test_groups_that_cannot_be_told_apart_are_decided_for_alike(
    monkeypatch, constraint
):
    """What tolerance noise left was used to part them."""
    pooled = np.array([[True, True, False, False]] * 2)
    monkeypatch.setattr(decisions, "untold_cells", lambda *_: pooled)
    P, y, group = two_classes(3000)
    group += 2 * (np.arange(3000) % 2)
    public = {**PUBLIC, "groups": [0, 1, 2, 3]}
    model = DP2DPClassifier(oracle(), constraint=constraint, random_state=0, **public)
    with pytest.warns(RepairWarning, match="as all people together"):
        model.fit(P, y, sensitive_features=group)
    assert_array_equal(model.rule_[0], model.rule_[1])
    assert_allclose(model.rule_.sum(axis=-1), 1)


@pytest.mark.filterwarnings("ignore::fairpriv_sklearn.postprocessing.RepairWarning")
@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
def test_a_group_of_a_twentieth_at_little_budget(constraint):
    """Alike: hardly harmed in 3,000 rows. Apart: most of its gap goes in 40,000."""
    params = {"epsilon": 0.1, "constraint": constraint, **PUBLIC}
    fresh, truth, _ = two_classes(4000, 1)
    both = np.tile(fresh, (2, 1)), np.repeat([0, 1], 4000)
    harm = []
    for seed in range(12):
        P, y, _ = two_classes(3000, seed)
        group = (np.random.default_rng(100 + seed).random(3000) < 0.05).astype(int)
        model = DP2DPClassifier(oracle(), random_state=seed, **params)
        model.fit(P, y, sensitive_features=group)
        chance = model.predict_proba(both[0], sensitive_features=both[1])[:, 1]
        if constraint == "demographic_parity":
            chance = (chance > 0.5).astype(float)
        apart = np.abs(np.subtract(*chance.reshape(2, -1)))
        harm.append(max(apart[truth == k].mean() for k in (0, 1)))
    assert np.mean(harm) <= 0.01
    P, y, group = two_classes(40_000, share=0.05)
    model = DP2DPClassifier(oracle(), random_state=0, **params)
    model.fit(P, y, sensitive_features=group)
    chosen = model.predict(P, sensitive_features=group)
    gap = (
        demographic_parity_difference
        if constraint == "demographic_parity"
        else equalized_odds_difference
    )
    before, after = (
        gap(y, one, sensitive_features=group) for one in (P.argmax(axis=1), chosen)
    )
    assert before > 0.3 and after < 0.4 * before


@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
def test_unknown_groups(constraint):
    P, y, group = two_classes(2000)
    model = DP2DPClassifier(oracle(), constraint=constraint, random_state=0, **PUBLIC)
    model.fit(P, y, sensitive_features=group)
    with pytest.raises(ValueError, match=r"groups=\[0, 1\]"):
        model.predict(P, sensitive_features=np.full(2000, 9))
    model.set_params(handle_unknown="pooled")
    proba = model.predict_proba(P, sensitive_features=np.full(2000, 9))
    if constraint == "demographic_parity":
        assert_allclose(proba, P, atol=1e-12)
    else:
        assert_allclose(proba.sum(axis=1), 1)
        assert proba.min() >= 0


def test_path_serves_every_tolerance_from_one_release():
    P, y, group = two_classes(20_000)
    model = DP2DPClassifier(oracle(), method="histogram", random_state=0, **PUBLIC)
    model.fit(P, y, sensitive_features=group)
    tolerances = [0.0, 0.1, 0.3]
    models = model.path(tolerances)
    gaps = []
    for other, tolerance in zip(models, tolerances, strict=True):
        assert other.fairness_tolerance == tolerance
        assert other.privacy_ is model.privacy_ and other.counts_ is model.counts_
        y_pred = other.predict(P, sensitive_features=group)
        gaps.append(demographic_parity_difference(y, y_pred, sensitive_features=group))
    assert_allclose(gaps, tolerances, atol=0.03)
    assert_array_equal(models[0].offsets_, model.offsets_)
    assert model.fairness_tolerance == 0.0
    with pytest.raises(ValueError, match="fairness_tolerance"):
        model.path([1.5])
    gradient = DP2DPClassifier(oracle(), **PUBLIC)
    assert not hasattr(gradient, "path")
    odds = DP2DPClassifier(
        oracle(), constraint="equalized_odds", random_state=0, **PUBLIC
    ).fit(P, y, sensitive_features=group)
    assert len(odds.path([0.0, 0.5])) == 2


def test_cross_validation_and_search_with_a_sensitive_column():
    P, y, group = two_classes(900)
    X = np.column_stack([group, P])
    model = DP2DPClassifier(
        LogisticRegression(solver="newton-cholesky"),
        sensitive_features=0,
        classes=[0, 1],
        groups=[0, 1],
        random_state=0,
    )
    assert cross_val_predict(model, X, y, cv=3).shape == (900,)
    search = GridSearchCV(
        model, {"fairness_tolerance": [0.0, 0.2]}, cv=3, scoring="roc_auc"
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# --- the domain: everything in it must fit ----------------------------------


@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("method", ["gradient", "histogram"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("n_rows", [1, 2, 300])
def test_degenerate_tables_fit(constraint, method, relation, n_rows):
    """One record, one group, one class, all scores equal."""
    model = DP2DPClassifier(
        oracle(),
        constraint=constraint,
        method=method,
        neighboring=relation,
        max_iter=3,
        **PUBLIC,
    )
    P = np.tile([0.5, 0.5], (n_rows, 1))
    ones = np.ones(n_rows, dtype=int)
    model.fit(P, ones, sensitive_features=ones)
    assert model.predict(P, sensitive_features=ones).shape == (n_rows,)


def test_no_rows_to_calibrate():
    P, y, group = two_classes(3)
    model = DP2DPClassifier(
        Posteriors(),
        calibration_size=1e-9,
        classes=[0, 1],
        groups=[0, 1],
        random_state=0,
    ).fit(P, y, sensitive_features=group)
    assert np.isfinite(model.offsets_).all()


@pytest.mark.parametrize("missing", [1, 2])
def test_a_class_missing_after_the_split(missing):
    """The base sees one or two of three classes; columns follow its classes_.

    A constant takes the place of a base that refuses one class.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(3 - missing, size=200)
    group = rng.integers(2, size=200)
    model = DP2DPClassifier(
        LogisticRegression(solver="newton-cholesky"),
        classes=["0", "1", "2"],
        groups=[0, 1],
        random_state=0,
    ).fit(X, y.astype(str), sensitive_features=group)
    assert len(model.estimator_.classes_) == (2 if missing == 1 else 3)
    proba = model.predict_proba(X, sensitive_features=group)
    assert proba.shape == (200, 3)
    assert model.decision_function(X, sensitive_features=group).shape == (200, 3)


def test_add_remove_scores_in_blocks_of_one_size():
    shapes = []

    class Watching(Posteriors):
        def predict_proba(self, X):
            shapes.append(len(X))
            return super().predict_proba(X)

    P, y, group = two_classes(700)
    base = FrozenEstimator(Watching().fit(P))
    for relation, expected in (("add_remove", {256}), ("replace_one", {700})):
        shapes.clear()
        DP2DPClassifier(base, neighboring=relation, **PUBLIC).fit(
            P, y, sensitive_features=group
        )
        assert shapes.pop(0) == 1  # of zeros: how many outputs it has
        assert set(shapes) == expected


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"fairness_tolerance": 1.5}, "fairness_tolerance"),
        ({"fairness_tolerance": -0.1}, "fairness_tolerance"),
        ({"constraint": "parity"}, "constraint"),
        ({"smoothing": 0}, "smoothing"),
        ({"learning_rate": 5e-324}, "learning_rate"),
        ({"learning_rate": 1.1e6}, "learning_rate"),
        ({"max_iter": 0}, "max_iter"),
        ({"n_bins": 1}, "n_bins"),
        ({"estimator": LinearSVC()}, "estimator"),
        ({"classes": [0]}, "2 labels or more"),
        ({"groups": [0]}, "at least two groups"),
        ({"classes": [1, 2]}, r"not in classes=\[1, 2\] \(1 is not '1'\)"),
    ],
)
def test_wrong_arguments(params, message):
    P, y, group = two_classes(50)
    params = {"estimator": oracle(), **PUBLIC, **params}
    with pytest.raises(ValueError, match=message):
        DP2DPClassifier(**params).fit(P, y, sensitive_features=group)


@pytest.mark.parametrize(
    "bad",
    [[0.9, 0.3], [-0.5, 1.5], [np.nan, 1.0], [np.inf, 0.0]],
)
def test_scores_must_be_probabilities(bad):
    P, y, group = two_classes(50)
    model = DP2DPClassifier(oracle(), **PUBLIC).fit(P, y, sensitive_features=group)
    P[3] = bad
    with pytest.raises(ValueError, match="sum to one in each row"):
        model.predict(P, sensitive_features=group)
    if np.isfinite(bad).all():
        # Among private rows it would be an answer about one of them: not a word.
        model.fit(P, y, sensitive_features=group)
        assert np.isfinite(model.offsets_).all()


def test_what_counts_as_undecided_is_a_function_of_the_row():
    """A product of 9 columns rounds the sums of equal rows apart, by their places."""
    rng, n_classes = np.random.default_rng(0), 9
    model, base = DP2DPClassifier(None), oracle(n_classes)
    model.n_features_in_, classes = n_classes, list(range(n_classes))
    for _ in range(100):
        p = rng.dirichlet(np.ones(n_classes)) * (1 + repair.SUM_TOLERANCE)
        p[0] += 1 + repair.SUM_TOLERANCE - p.sum()
        for n_rows in (15, 16):
            said = repair.class_probabilities(
                model, base, np.tile(p, (n_rows, 1)), {}, classes, private=True
            )
            assert len(np.unique(said, axis=0)) == 1


def test_shape_and_classes_of_the_base():
    P, y, group = two_classes(50)
    short = oracle()
    short.estimator.classes_ = np.array([0])
    with pytest.raises(ValueError, match="one column per class"):
        DP2DPClassifier(short, **PUBLIC).fit(P, y, sensitive_features=group)
    # as cross_val_predict of probabilities asks a model that lists texts
    said = "knows a class that this fit does not.* cross_val_predict of probabilities"
    with pytest.raises(ValueError, match=said):
        DP2DPClassifier(oracle(labels=(0, 7)), **PUBLIC).fit(
            P, y, sensitive_features=group
        )


def test_one_class_in_the_data():
    P, _, group = two_classes(50)
    with (
        pytest.raises(ValueError, match="Only one class"),
        pytest.warns(PrivacyLeakWarning, match="classes"),
    ):
        DP2DPClassifier(oracle(), groups=[0, 1]).fit(
            P, np.zeros(50), sensitive_features=group
        )


def test_histogram_of_parity_needs_two_classes():
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
    model = DP2DPClassifier(
        oracle(3), method="histogram", classes=range(3), groups=[0, 1]
    )
    with pytest.raises(ValueError, match="use method='gradient'"):
        model.fit(P, np.arange(50) % 3, sensitive_features=np.arange(50) % 2)


def test_the_guarantee_does_not_depend_on_a_record():
    """Breach A9 and A24: whether a constant stands in changes nothing in it."""
    declared = PrivacyGuarantee(
        epsilon=1.0, delta=0.0, neighboring="replace_one", mechanism="declared"
    )
    X, group = np.linspace(-1, 1, 40).reshape(-1, 1), np.arange(40) % 2
    model = DP2DPClassifier(
        SGDClassifier(loss="log_loss", random_state=0),
        base_guarantee=declared,
        classes=[0, 1],
        groups=[0, 1],
        random_state=0,
    )
    both = model.fit(X, (X[:, 0] > 0).astype(int), sensitive_features=group)
    one = clone(model).fit(X, np.zeros(40, dtype=int), sensitive_features=group)
    assert both.privacy_ == one.privacy_
    assert np.isfinite(one.privacy_.epsilon)
    assert one.predict(X, sensitive_features=group).shape == (40,)


@pytest.mark.parametrize("query", [MarginCounts(2, 0.02), SoftCounts(1, 2, 2, 0.02)])
def test_sums_of_billions_of_records_round_within_the_sensitivity(query):
    """Parts of 2**-30 of 2**31 records are no double, and no two round alike."""
    before = np.zeros((2, 2), dtype=np.int64)
    before[0, 0] = 2**61 - 2**29 + 257
    after = before + np.array([[2**30, 0], [0, 0]])
    change = np.linalg.norm(query.value(after, None) - query.value(before, None))
    assert 1 < change <= query.sensitivity("add_remove")
    assert query.sensitivity("replace_one") >= np.sqrt(2) * change


@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("learning_rate", [1e-6, 1e6])
def test_steps_of_any_size_end_in_numbers(learning_rate, constraint):
    P, y, group = two_classes(200)
    model = DP2DPClassifier(
        oracle(),
        **PUBLIC,
        method="gradient",
        constraint=constraint,
        learning_rate=learning_rate,
        smoothing=1e-6,
        random_state=0,
    ).fit(P, y, sensitive_features=group)
    assert np.isfinite(model.offsets_).all()
    assert np.isfinite(model.predict_proba(P, sensitive_features=group)).all()


def test_smoothing_has_a_lower_limit():
    """Breach A10: a subnormal temperature made sums of NaN."""
    P, y, group = two_classes(50)
    model = DP2DPClassifier(oracle(), smoothing=5e-309, **PUBLIC)
    with pytest.raises(ValueError, match="smoothing"):
        model.fit(P, y, sensitive_features=group)


def test_randomised_rules_are_not_row_pure():
    P, y, group = two_classes(300)
    pure = DP2DPClassifier(oracle(), **PUBLIC).fit(P, y, sensitive_features=group)
    drawn = DP2DPClassifier(oracle(), constraint="equalized_odds", **PUBLIC)
    drawn.fit(P, y, sensitive_features=group)
    assert pure.__fairpriv_row_pure__ and not drawn.__fairpriv_row_pure__
    outer = DP2DPClassifier(FrozenEstimator(drawn), **PUBLIC)
    with pytest.raises(ValueError, match="spreads identical rows"):
        outer.fit(P, y, sensitive_features=group)


def test_groups_drowned_by_noise_are_pooled_with_a_word():
    P, y, group = two_classes(3000, share=0.01)
    model = DP2DPClassifier(oracle(), random_state=0, **PUBLIC)
    told = r"groups \[0, 1\] differ; .*without a shift"
    with pytest.warns(RepairWarning, match=told):
        model.fit(P, y, sensitive_features=group)
    assert 1 in model.pooled_groups_ and not model.offsets_[1].any()
    P, y, group = two_classes(4000, share=0.5)
    model.fit(P, y, sensitive_features=group)
    assert len(model.pooled_groups_) == 0


def test_groups_that_are_shifted_in_a_part_of_the_classes_are_said_to_be():
    """All were said to be decided for without a shift, and one was not."""
    rng = np.random.default_rng(0)
    group = np.arange(4000) % 2
    y = (rng.random(4000) < np.where(group, 0.003, 0.5)).astype(int)
    p = 1 / (1 + np.exp(-rng.normal(2 * y - 1.5 + 2 * group, 1.0)))
    P = np.column_stack([1 - p, p])
    model = DP2DPClassifier(
        oracle(),
        constraint="equalized_odds",
        method="gradient",
        random_state=0,
        **PUBLIC,
    )
    with pytest.warns(RepairWarning, match="without a shift") as caught:
        model.fit(P, y, sensitive_features=group)
    said = " ".join(str(w.message) for w in caught)
    assert 1 in model.pooled_groups_
    assert model.offsets_[1, 0].any() and not model.offsets_[1, 1].any()
    assert "in a part of the true classes only" in said
    alike = 1 / (1 + np.exp(-rng.normal(2 * y - 1.5, 1.0)))
    P = np.column_stack([1 - alike, alike])
    with pytest.warns(RepairWarning, match="without a shift") as caught:
        model.fit(P, y, sensitive_features=group)
    said = " ".join(str(w.message) for w in caught)
    assert not model.offsets_[model.pooled_groups_].any() and "part of" not in said


def test_a_small_group_far_from_the_others_is_repaired():
    """A hundred people of two thousand, most of their disparity goes at epsilon 1."""
    rng, before, after = np.random.default_rng(2), [], []
    for seed in range(8):
        group = (np.arange(2000) < 100).astype(int)
        p = 1 / (1 + np.exp(-rng.normal(0.8 - 1.6 * group, 1.0)))
        P, y = np.column_stack([1 - p, p]), (rng.random(2000) < p).astype(int)
        model = DP2DPClassifier(oracle(), random_state=seed, **PUBLIC)
        model.fit(P, y, sensitive_features=group)
        assert len(model.pooled_groups_) == 0
        groups = np.repeat([0, 1], 20_000)
        p = 1 / (1 + np.exp(-rng.normal(0.8 - 1.6 * groups, 1.0)))
        for found, margin in (
            (before, np.zeros(2)),
            (after, np.diff(model.offsets_, axis=1)[:, 0]),
        ):
            chosen = 2 * p - 1 > margin[groups]
            found.append(abs(chosen[groups == 0].mean() - chosen[groups == 1].mean()))
    assert np.mean(before) > 0.5 and np.mean(after) < 0.12


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize(
    "shares", [(0.5, 0.5), (0.9, 0.1), (0.98, 0.02), (0.6, 0.38, 0.02)]
)
def test_the_repair_helps_or_stands_back(epsilon, shares):
    """Small tables: no larger gap on fresh rows than without repair, plus .01."""

    def draw(n_rows, shift, rng, shares=shares):
        group = rng.choice(len(shares), size=n_rows, p=shares)
        z = rng.normal(shift * np.linspace(-1, 1, len(shares))[group], 1.2)
        p = 1 / (1 + np.exp(-z))
        y = (rng.random(n_rows) < p).astype(int)
        return np.column_stack([1 - p, p]), y, group

    rng = np.random.default_rng(0)
    for shift in (0.02, 0.3):
        even = np.full(len(shares), 1 / len(shares))
        fresh, truth, groups = draw(30_000, shift, rng, even)
        before = demographic_parity_difference(
            truth, fresh.argmax(axis=1), sensitive_features=groups
        )
        gaps = []
        for seed in range(20):
            P, y, group = draw(1000, shift, rng)
            model = DP2DPClassifier(
                oracle(),
                epsilon=epsilon,
                random_state=seed,
                classes=[0, 1],
                groups=list(range(len(shares))),
                base_guarantee="public",
            ).fit(P, y, sensitive_features=group)
            y_pred = model.predict(fresh, sensitive_features=groups)
            gaps.append(
                demographic_parity_difference(truth, y_pred, sensitive_features=groups)
            )
        assert np.mean(gaps) <= before + 0.01


def test_large_groups_never_stand_back():
    """2,000 rows a group at epsilon 1: four fifths of what goes without noise."""
    fresh, truth, groups = two_classes(60_000, seed=9, share=0.5)

    def gap(y_pred):
        return demographic_parity_difference(truth, y_pred, sensitive_features=groups)

    before, removed = gap(fresh.argmax(axis=1)), []
    for epsilon in (1.0, np.inf):
        gaps = []
        for seed in range(5):
            P, y, group = two_classes(4000, seed=seed, share=0.5)
            model = DP2DPClassifier(
                oracle(), epsilon=epsilon, random_state=seed, **PUBLIC
            )
            model.fit(P, y, sensitive_features=group)
            gaps.append(gap(model.predict(fresh, sensitive_features=groups)))
        removed.append(before - np.mean(gaps))
    assert removed[0] >= 0.8 * removed[1] > 0


def test_parameters_set_after_the_fit_change_no_answer():
    """Whether a rule is randomised is a fact of the fit: purity hangs on it."""
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(size=(400, 1)), np.arange(400) % 2
    base = FrozenEstimator(GaussianNB().fit(X, X[:, 0] > 0.5))
    for constraint, other in (
        ("equalized_odds", "demographic_parity"),
        ("demographic_parity", "equalized_odds"),
    ):
        model = DP2DPClassifier(
            base, constraint=constraint, base_guarantee="public",
            classes=[False, True], groups=[0, 1],
        ).fit(X, X[:, 0] > 0.6, sensitive_features=groups)  # fmt: skip
        before, randomised = model.predict(X, sensitive_features=groups), spreads(model)
        model.set_params(constraint=other, n_bins=7)
        assert spreads(model) == randomised
        assert_array_equal(model.predict(X, sensitive_features=groups), before)


@pytest.mark.parametrize(
    ("changes", "match"),
    [({"C": -1.0}, "'C' parameter"), ({"bounds": (1, -1)}, "low <= high")],
)
def test_arguments_of_models_inside_are_refused_before_the_budget(changes, match):
    X, y, groups = make_biased_mixture(60, n_classes=2, random_state=0)
    settings = {"bounds": (-4, 4), "classes": [0, 1], "fairness_weight": 0.0}
    good = DPWassersteinLogisticRegression(**settings)
    wrong = clone(good).set_params(**changes)
    ledger = PrivacyLedger(9.0, 1e-3)
    given = {"classes": [0, 1], "groups": [-1, 1], "ledger": ledger}
    for meta in (
        DP2DPClassifier(wrong, **given),
        DP2DPClassifier(make_pipeline(wrong), **given),
        DP2DPClassifier(good, blind=True, group_estimator=wrong, **given),
    ):
        with pytest.raises(ValueError, match=match):
            meta.fit(X, y, sensitive_features=groups)
    assert not ledger.spends()
