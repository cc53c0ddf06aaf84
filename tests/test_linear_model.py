"""The linear models as estimators."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from _ends import approx
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.fixes import parse_version

from fairpriv_sklearn._training._penalty import GroupPenalty
from fairpriv_sklearn._training._target import TargetCounts
from fairpriv_sklearn._wall import PrivacyFilter
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    WithoutReplacementGaussianEvent,
    calibrate_gaussian,
)
from fairpriv_sklearn.datasets import make_spurious_bias
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
    _linear,
    _told_target,
)
from fairpriv_sklearn.linear_model._bounded_slope import linked
from fairpriv_sklearn.linear_model._gradient_plan import constant_share
from fairpriv_sklearn.linear_model._line_search import LineSearch
from fairpriv_sklearn.linear_model._output_perturbation import default_C
from fairpriv_sklearn.linear_model._preconditioned import Constant, _without_noise
from fairpriv_sklearn.linear_model._queries import Geometry, MeanResidual
from fairpriv_sklearn.linear_model._told_target import ToldTarget, of_residuals
from fairpriv_sklearn.postprocessing import DP2DPClassifier
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import PrivacyLeakWarning, PrivacyLedger, with_budget
from fairpriv_sklearn.transport import wasserstein_1d

# Scikit-learn's own optimiser: SciPy's warns of deprecations on older versions.
REFERENCE = {"solver": "newton-cg", "tol": 1e-8, "max_iter": 10_000}
PUBLIC = {"bounds": (-1, 1), "classes": [0, 1]}


def table(n=400, d=3, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    scores = X @ np.linspace(3, -1, d) + rng.logistic(size=n)
    cuts = np.quantile(scores, np.arange(1, n_classes) / n_classes)
    return X, np.searchsorted(cuts, scores), (X[:, 0] + rng.normal(size=n) > 0) * 1


def fair(**params):
    params = {"groups": [0, 1], "random_state": 0, **PUBLIC, **params}
    return DPWassersteinLogisticRegression(**params)


def plain(**params):
    return fair(fairness_weight=0, **params)


def parameter_noise(**params):
    params = {"random_state": 0, **PUBLIC, **params}
    return DPOutputPerturbationLogisticRegression(**params)


def linear(**params):
    params = {"bounds": (-1, 1), "target_bounds": (-4, 4), "random_state": 0, **params}
    return DPLinearRegression(**params)


def distance(model, X, groups):
    p = model.predict_proba(X)[:, 1]
    return wasserstein_1d(p[groups == 0], p[groups == 1])


# ---------------------------------------------------- agreement without noise


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_no_noise_no_penalty_is_logistic_regression(n_classes, C, fit_intercept):
    X, y, _ = table(n_classes=n_classes)
    own = plain(
        epsilon=np.inf, C=C, fit_intercept=fit_intercept, classes=range(n_classes)
    ).fit(X, y)
    theirs = LogisticRegression(C=C, fit_intercept=fit_intercept, **REFERENCE).fit(X, y)
    assert_allclose(own.coef_, theirs.coef_, atol=1e-4)
    shift = own.intercept_ - theirs.intercept_  # softmax: up to a common constant
    assert_allclose(shift, shift.mean() * (n_classes > 2), atol=1e-4)
    assert_allclose(own.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_bounds_mean_logistic_regression_on_scaled_features():
    X, y, _ = table()
    raw = 5 + X * [3.0, 0.2, 40.0]
    bounds = (5 - np.array([3.0, 0.2, 40.0]), 5 + np.array([3.0, 0.2, 40.0]))
    own = plain(epsilon=np.inf, bounds=bounds).fit(raw, y)
    scaled = LogisticRegression(**REFERENCE).fit(X, y)
    assert_allclose(own.coef_ * [3.0, 0.2, 40.0], scaled.coef_, atol=1e-4)
    assert_allclose(own.decision_function(raw), scaled.decision_function(X), atol=1e-4)
    # Coefficients are those of the original features.
    assert_allclose(
        own.decision_function(raw), raw @ own.coef_[0] + own.intercept_, atol=1e-10
    )


def test_data_norm_alone_takes_features_as_they_are():
    X, y, _ = table()
    raw = 7 * X + 2
    own = plain(epsilon=np.inf, bounds=None, data_norm=100.0).fit(raw, y)
    theirs = LogisticRegression(**REFERENCE).fit(raw, y)
    assert_allclose(own.coef_, theirs.coef_, atol=1e-4)
    assert own.bounds_ is None and own.data_norm_ == 100.0


@pytest.mark.parametrize("make", [plain, fair, parameter_noise, linear])
def test_sparse_and_float32_input(make):
    X, y, groups = table()
    X = np.round(X * 16) / 16
    params = {"sensitive_features": groups} if make is fair else {}
    given = {"data_norm": 1.5}  # no ranges are learnt then, of dense rows either
    dense = make(**given).fit(X, y, **params)
    for other in (sparse.csr_array(X), sparse.csc_array(X), X.astype(np.float32)):
        model = make(**given).fit(other, y, **params)
        assert_allclose(model.coef_, dense.coef_, rtol=1e-6, atol=1e-9)
        assert_allclose(model.predict(other), model.predict(X), rtol=1e-6, atol=1e-6)


def test_sparse_input_cannot_be_centred():
    X, y, _ = table()
    with pytest.raises(ValueError, match="Sparse X cannot be centred"):
        plain(bounds=(0, 1)).fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_output_perturbation_without_noise_is_liblinear(n_classes):
    X, y, _ = table(n_classes=n_classes)
    own = parameter_noise(epsilon=np.inf, C=0.5, classes=range(n_classes)).fit(X, y)
    if n_classes == 2:
        theirs = LogisticRegression(C=0.5, solver="liblinear", tol=1e-10).fit(X, y)
        assert_allclose(own.intercept_, theirs.intercept_, atol=1e-4)
        assert_allclose(own.coef_, theirs.coef_, atol=1e-4)
    else:
        ones = np.column_stack([X, np.ones(len(X))])  # the intercept is penalised
        theirs = LogisticRegression(C=0.5, fit_intercept=False, **REFERENCE).fit(
            ones, y
        )
        assert_allclose(
            np.column_stack([own.coef_, own.intercept_]), theirs.coef_, atol=1e-4
        )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_linear_regression_without_noise(fit_intercept, neighboring):
    X, _, _ = table()
    y = X @ [1.0, -0.5, 0.2] + 0.3 * fit_intercept + 0.1 * np.sin(50 * X[:, 0])
    params = {
        "epsilon": np.inf,
        "fit_intercept": fit_intercept,
        "neighboring": neighboring,
    }
    own = linear(**params).fit(X, y)
    theirs = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    assert_allclose(own.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(own.intercept_, theirs.intercept_, atol=1e-4)
    assert own.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-6)
    ridge = linear(alpha=3.0, **params).fit(X, y)
    theirs = Ridge(alpha=3.0, fit_intercept=fit_intercept).fit(X, y)
    assert_allclose(ridge.coef_, theirs.coef_, atol=1e-4)


def test_linear_regression_with_collinear_and_constant_features():
    X, _, _ = table()
    X = np.column_stack([X[:, :1], X[:, :1], np.full(len(X), 0.5)])
    y = X[:, 0]
    model = linear(epsilon=np.inf).fit(X, y)
    assert_allclose(model.predict(X), y, atol=1e-3)
    assert np.abs(model.coef_).max() < 2


# --------------------------------------------------------------- scores of rows


@pytest.mark.parametrize("make", [plain, parameter_noise])
def test_scores_are_linear_inside_the_bounds_and_clipped_outside(make):
    X, y, _ = table()
    model = make(data_norm=2.0).fit(X, y)
    want = X @ model.coef_[0] + model.intercept_
    assert_allclose(model.decision_function(X), want, rtol=1e-9, atol=1e-9)
    far = np.array([[50.0, 0.0, 0.0]])
    near = np.array([[1.0, 0.0, 0.0]])
    assert_array_equal(model.decision_function(far), model.decision_function(near))
    p = model.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(model.predict(X), (want > 0).astype(int))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_score_depends_on_its_row_alone(n_classes):
    X, y, groups = table(n=700, d=9, n_classes=n_classes)
    model = fair(classes=range(n_classes), max_iter=5)
    model.fit(X, y, sensitive_features=groups)
    together = model.decision_function(X)
    alone = np.concatenate([model.decision_function(row[None]) for row in X[:300]])
    assert_array_equal(together[:300], alone)
    assert_array_equal(model.decision_function(np.asfortranarray(X)), together)


def test_row_order_does_not_change_the_fit():
    X, y, groups = table(n=3000)
    order = np.random.default_rng(1).permutation(3000)
    for weight in (0.0, 0.5):
        one = fair(fairness_weight=weight).fit(X, y, sensitive_features=groups)
        two = fair(fairness_weight=weight).fit(
            X[order], y[order], sensitive_features=groups[order]
        )
        assert_allclose(one.coef_, two.coef_, rtol=0, atol=1e-9)


# -------------------------------------------------------------- fairness and noise


def decision_gap(model, X, groups):
    decisions = model.predict(X)
    return abs(decisions[groups == 1].mean() - decisions[groups == 0].mean())


def test_simulated_target():
    """Targets of the simulated data at epsilon 1, weight 0.75, delta = 0.1 / n."""
    X, y, groups = make_spurious_bias(30_000, random_state=0)
    params = {"delta": 0.1 / 30_000, "bounds": (-10, 10), "fairness_weight": 0.75}
    noiseless = fair(**{**params, "epsilon": np.inf})
    noiseless.fit(X, y, sensitive_features=groups)
    assert noiseless.score(X, y) >= 0.765
    accuracies, distances, gaps = [], [], []
    for seed in range(4):
        model = fair(**params, random_state=seed)
        model.fit(X, y, sensitive_features=groups)
        accuracies.append(model.score(X, y))
        distances.append(distance(model, X, groups))
        gaps.append(decision_gap(model, X, groups))
    assert abs(np.mean(accuracies) - noiseless.score(X, y)) <= 0.012
    assert abs(np.mean(distances) - distance(noiseless, X, groups)) <= 0.004
    # Nearer probabilities alone could come from scores that shrank: look at decisions.
    assert np.mean(gaps) <= decision_gap(noiseless, X, groups) + 0.03


@pytest.mark.parametrize("epsilon, tolerance", [(np.inf, 0.0), (2.0, 0.002)])
def test_more_weight_means_less_distance(epsilon, tolerance):
    X, y, groups = make_spurious_bias(20_000, random_state=0)
    means = []
    for weight in (0.0, 0.25, 0.5, 0.75, 0.95):
        model = fair(epsilon=epsilon, fairness_weight=weight, bounds=(-10, 10))
        model.fit(X, y, sensitive_features=groups)
        means.append(distance(model, X, groups))
    assert (np.diff(means) <= tolerance).all()
    assert means[-1] < means[0] / 10


def test_equalized_odds_compares_inside_labels():
    X, y, groups = make_spurious_bias(20_000, random_state=0)

    def inside(model):
        return np.mean([distance(model, X[y == k], groups[y == k]) for k in (0, 1)])

    fits = {
        name: fair(
            constraint=name, fairness_weight=0.9, bounds=(-10, 10), epsilon=4.0
        ).fit(X, y, sensitive_features=groups)
        for name in ("demographic_parity", "equalized_odds")
    }
    without = plain(bounds=(-10, 10), epsilon=4.0).fit(X, y)
    assert inside(fits["equalized_odds"]) < inside(without) / 4
    assert distance(fits["demographic_parity"], X, groups) < distance(
        fits["equalized_odds"], X, groups
    )
    # Base rates may differ between groups, so it costs less accuracy.
    parity, odds = (model.score(X, y) for model in fits.values())
    assert odds > parity + 0.02


def test_several_groups_and_classes():
    X, y, groups = table(n=4000, n_classes=3)
    groups = groups + 2 * (X[:, 1] > 0.5)
    params = {"classes": [0, 1, 2], "groups": [0, 1, 2, 3], "epsilon": np.inf}

    def gap(model):
        p = model.predict_proba(X)
        means = np.array([p[groups == a].mean(axis=0) for a in range(4)])
        return np.ptp(means, axis=0).max()

    without = fair(fairness_weight=0.0, **params).fit(X, y, sensitive_features=groups)
    with_penalty = fair(fairness_weight=0.99, **params)
    with_penalty.fit(X, y, sensitive_features=groups)
    assert gap(with_penalty) < gap(without) / 2
    assert with_penalty.coef_.shape == (3, 3)
    noisy = fair(**{**params, "epsilon": 1.0}).fit(X, y, sensitive_features=groups)
    assert np.isfinite(noisy.predict_proba(X)).all()


def test_less_noise_than_the_papers_calibration():
    """12 times less with public group sizes, 7 times with private ones."""
    n = 30_000
    penalty = GroupPenalty((1, 2), "pairs", np.full((1, 2), n // 2))
    # (1 - alpha) 2 C / n + alpha 16 M L / min n_a with M = L = C = 1; here L = 1 / 4.
    paper = 0.25 * 2 / n + 0.75 * 16 / (n / 2)
    loss = 0.25 * 2 / n
    public = loss + 0.75 * penalty.sensitivity(1 / 4, "replace_one_in_group")
    private = loss + 0.75 * penalty.sensitivity(1 / 4, "replace_one")
    assert paper / public == pytest.approx(12.25, rel=1e-3)
    assert paper / private == pytest.approx(7.0, rel=1e-3)


def test_accuracy_at_strong_privacy():
    X, y, _ = make_spurious_bias(30_000, random_state=0)
    for make, least in ((plain, 0.8), (parameter_noise, 0.75)):
        model = make(epsilon=0.1, bounds=(-10, 10)).fit(X, y)
        assert model.score(X, y) > least


@pytest.mark.parametrize("d", [1, 3, 10, 30])
def test_linear_regression_is_no_worse_than_the_mean(d):
    scores = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(4000, d))
        y = X[:, 0] * 0.7 + rng.normal(size=4000)
        model = linear(bounds=(-4, 4), target_bounds=(-5, 5), random_state=seed)
        scores.append(model.fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]))
    assert np.median(scores) > -0.002
    assert np.min(scores) > -0.05


def test_solvers_of_the_linear_regression():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 60))
    y = X[:, :10].sum(axis=1) / 3 + rng.normal(size=4000) / 3
    scores = {}
    for solver in ("moments", "gradients", "auto"):
        models = [
            linear(epsilon=0.5, solver=solver, random_state=seed).fit(X, y)
            for seed in range(3)
        ]
        scores[solver] = np.mean([model.score(X, y) for model in models])
    assert scores["auto"] == scores["gradients"] > scores["moments"] + 0.05
    exact = linear(epsilon=np.inf).fit(X, y)
    close = linear(epsilon=300.0, solver="gradients", max_iter=200).fit(X, y)
    assert_allclose(close.coef_, exact.coef_, atol=0.02)
    assert (exact.n_iter_, close.n_iter_) == (0, 200)


@pytest.mark.parametrize("kind", ["dense", "sparse", "collinear"])
@pytest.mark.parametrize("alpha", [None, 30.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_least_squares_without_noise(kind, alpha, fit_intercept):
    """Those of scikit-learn, of features and a target scaled to [-1, 1]."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 3, size=(500, 4))
    if kind == "collinear":  # rounded rows are not, quite
        X[:, 3] = X[:, 0] + X[:, 1]
    y = X @ [0.3, -0.2, 0.1, 0.0] + 1 + 0.1 * rng.normal(size=500)
    model = linear(
        epsilon=np.inf,
        bounds=(-8, 8),
        target_bounds=(-4, 4),
        alpha=alpha,
        fit_intercept=fit_intercept,
    ).fit(sparse.csr_array(X) if kind == "sparse" else X, y)
    reference = Ridge(alpha or 1e-9, fit_intercept=fit_intercept, solver="svd")
    reference.fit(X / 8, y / 4)
    assert_allclose(model.coef_, reference.coef_ / 2, atol=1e-5)
    assert_allclose(model.intercept_, reference.intercept_ * 4, atol=1e-5)
    assert model.n_iter_ == 0 and model.coef_covariance_ is None


def test_more_budget_means_less_error():
    X, y, _ = make_spurious_bias(4000, random_state=0)
    target = X @ np.ones(16) / 10
    for make, labels in ((plain, y), (parameter_noise, y), (linear, target)):
        errors = [
            np.mean(
                [
                    1
                    - make(epsilon=e, bounds=(-10, 10), random_state=s)
                    .fit(X, labels)
                    .score(X, labels)
                    for s in range(5)
                ]
            )
            for e in (0.2, 2.0, 20.0)
        ]
        assert errors[0] > errors[1] > errors[2]


def test_default_C_balances():
    assert default_C(1000, 2.0, math.inf) == 1.0
    assert default_C(1000, 2.0, 0.3) > default_C(8000, 2.0, 0.3)
    model = parameter_noise(neighboring="add_remove")
    X, y, _ = table(n=4000)
    # A noisy count stands in for n: the C in use moves little.
    private = model.fit(X, y).C_
    mu = calibrate_gaussian(1.0, 1e-5, n_draws=5)
    assert private == pytest.approx(
        default_C(4000, math.hypot(model.data_norm_, 1), mu), rel=0.05
    )


@pytest.mark.parametrize("n, norm, mu", [(1000, 2.0, 0.3), (30_000, 1.4, 1.1)])
def test_default_C_costs_least(n, norm, mu):
    """What noise of 2 R C / mu adds to the loss, and shrinking slopes of square 8."""
    tried = np.geomspace(1e-3, 1.0, 100_001)
    costs = norm**4 * tried**2 / (2 * mu**2) + 8 / (2 * n * tried)
    least = tried[costs.argmin()]
    assert default_C(n, norm, mu) == pytest.approx(least, rel=1e-3)


def test_rounding_is_bounded_for_the_largest_table_if_the_size_is_private(monkeypatch):
    sizes, release = [], PrivacyFilter.release

    def seen(self, query, *args, **kwargs):
        sizes.append(query.max_rows)
        return release(self, query, *args, **kwargs)

    monkeypatch.setattr(PrivacyFilter, "release", seen)
    X, y, _ = table(n=4000)
    for relation, size in (("replace_one", 4000), ("add_remove", 2**25)):
        parameter_noise(neighboring=relation).fit(X, y)
        assert sizes[-1] == size


@pytest.mark.parametrize("k", [3, 10])
def test_default_C_knows_what_noise_costs_several_classes(k):
    """How much the mean loss at zero grows with the noise, softmax over logistic."""
    normals = np.random.default_rng(0).normal(size=(200_000, k)) * 0.05
    one = np.logaddexp(normals[:, 0] / 2, -normals[:, 0] / 2).mean() - math.log(2)
    scores = math.sqrt(2) * normals
    many = (np.log(np.exp(scores).mean(axis=1)) - scores.mean(axis=1)).mean()
    ratio = (default_C(1000, 2.0, 0.3) / default_C(1000, 2.0, 0.3, k)) ** 3
    assert ratio == pytest.approx(many / one, rel=0.02)
    X, y, _ = table(n=600)
    labels = np.arange(600) % k
    model = parameter_noise(classes=list(range(k))).fit(X, labels)
    mu = calibrate_gaussian(1.0, 1e-5, n_draws=k * (X.shape[1] + 2))
    mu *= math.sqrt(1 - constant_share(600 * mu))
    norm = math.hypot(model.data_norm_, 1)
    assert model.C_ == pytest.approx(default_C(600, norm, mu, k))


# ------------------------------------------------------------------ the arguments


def test_private_sizes_cost_a_hundredth_of_the_budget():
    X, y, groups = table(n=2000)
    for params in (
        {},
        {"min_group_size": 700},
        {"neighboring": "add_remove"},
        {"neighboring": "add_remove", "fairness_weight": 0.0},
        {"neighboring": "add_remove", "min_group_size": 500},
        {"constraint": "equalized_odds"},
        {"group_sizes_public": True},
    ):
        model = fair(**params).fit(X, y, sensitive_features=groups)
        guarantee = model.privacy_
        assert guarantee.epsilon == pytest.approx(1.0, rel=1e-6)
        assert np.isfinite(model.coef_).all()
        in_group = bool(params.get("group_sizes_public"))
        assert (guarantee.neighboring == "replace_one_in_group") == in_group
        said = " ".join(guarantee.assumptions)
        assert ("number of records of each group" in said) == in_group
        assert ("min_group_size" in said) == ("min_group_size" in params)


@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
def test_minibatches(constraint):
    X, y, groups = make_spurious_bias(20_000, random_state=0)
    params = {"bounds": (-10, 10), "batch_size": 2000, "max_iter": 60}
    model = fair(group_sizes_public=True, constraint=constraint, **params)
    model.fit(X, y, sensitive_features=groups)
    assert model.score(X, y) > 0.75
    ranges, event = model.privacy_.events
    q = event.q
    assert isinstance(ranges, GaussianEvent)
    assert isinstance(event, WithoutReplacementGaussianEvent) and event.steps == 60
    assert q == pytest.approx(0.1, abs=0.001)
    assert 0.99 < model.privacy_.epsilon <= 1.0
    unfair = plain(**params).fit(X, y)
    assert unfair.score(X, y) > 0.8
    assert unfair.privacy_.neighboring == "replace_one"


def test_minibatches_without_a_penalty_are_of_everybody():
    # Weights of groups that batches were not drawn from left all but the first out.
    X, y, groups = make_spurious_bias(2000, random_state=0)
    params = {"bounds": (-10, 10), "data_norm": 1.0, "batch_size": 200, "max_iter": 5}
    everybody = plain(**params).fit(X, y)
    by_label = plain(constraint="equalized_odds", **params).fit(X, y)
    assert_array_equal(by_label.coef_, everybody.coef_)
    last = X.shape[1]
    named = plain(sensitive_features=last, **params)
    named.fit(np.column_stack([X, groups]), y)
    assert_array_equal(named.coef_, everybody.coef_)


def test_minibatches_of_small_and_empty_groups():
    X, y, _ = table(n=60)
    groups = np.r_[2, np.zeros(59)]  # one record in group 2, none in group 1
    for batch_size in (1, 7, 10_000):
        model = fair(
            groups=[0, 1, 2], group_sizes_public=True, batch_size=batch_size, max_iter=4
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y, sensitive_features=groups)
        assert np.isfinite(model.coef_).all()
        assert [str(w.message)[:30] for w in caught] == (
            ["Batches hold all records of a "] if batch_size < 60 else []
        )


def test_a_group_that_no_draw_hides_is_told_before_the_spend():
    X, y, _ = table(n=60)
    ledger, given = PrivacyLedger(9.0, 1e-3), {"group_sizes_public": True}
    model = fair(groups=[0, 1], batch_size=30, max_iter=4, ledger=ledger, **given)
    # The suite makes errors of warnings.
    with pytest.raises(UserWarning, match="hold all records of a group"):
        model.fit(X, y, sensitive_features=np.arange(60) == 0)
    assert ledger.spends() == []
    model.fit(X, y, sensitive_features=np.arange(60) < 2)
    model.set_params(epsilon=np.inf, ledger=None)
    model.fit(X, y, sensitive_features=np.arange(60) == 0)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"neighboring": "add_remove", "group_sizes_public": True}, "contradicts"),
        ({"batch_size": 10}, "group_sizes_public=True"),
        ({"batch_size": 10, "neighboring": "add_remove"}, "replace_one"),
        ({"bounds": (1, -1)}, "low <= high"),
        ({"bounds": (-1, 1, 2)}, "tuple"),
        ({"bounds": [(-1, 1), (-1, 1)]}, "tuple"),
        ({"penalty": "triples"}, "penalty"),
        ({"class_weight": {2: 1.0}}, "class_weight"),
        ({"class_weight": {1: 0.0}}, "class_weight"),
        ({"class_weight": "balanced"}, "class_weight"),
        ({"bounds": ([0, 0], [1, 1])}, "3 columns"),
        ({"bounds": (-np.inf, 1)}, "finite"),
        ({"fairness_weight": 1.5}, "fairness_weight"),
        ({"classes": [0]}, "2 labels or more"),
        ({"classes": [0, 2]}, "not in classes"),
    ],
)
def test_contradictions_are_refused(params, message):
    X, y, groups = table()
    with pytest.raises(ValueError, match=message):
        fair(**params).fit(X, y, sensitive_features=groups)


def test_target_bounds():
    X, y, _ = table()
    for wrong in ((1, 1), (2, 1), (0, np.inf), (0,), ("a", "b")):
        with pytest.raises(ValueError, match="target_bounds must be a pair"):
            linear(target_bounds=wrong).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="range of the target"):
        model = linear(target_bounds=None).fit(X, np.full(len(X), 3.0))
    assert "target_bounds" in model.privacy_.conditional_on
    clipped = linear(epsilon=np.inf, target_bounds=(0, 1)).fit(X, 100.0 * y)
    assert_allclose(clipped.coef_, linear(epsilon=np.inf).fit(X, y).coef_, atol=1e-4)


def test_bounds_may_list_the_sensitive_column():
    X, y, groups = table()
    with_group = np.column_stack([X, groups])
    bounds = (np.r_[-1, -1, -1, 0], np.ones(4))
    named = fair(sensitive_features=[3], bounds=bounds).fit(with_group, y)
    called = fair().fit(X, y, sensitive_features=groups)
    assert_array_equal(named.coef_, called.coef_)
    assert_array_equal(named.predict(with_group), called.predict(X))
    assert_array_equal(named.predict(with_group), named.predict(X))


def test_leaks_are_said():
    X, y, groups = table()
    for argument in ("classes", "groups"):
        with pytest.warns(PrivacyLeakWarning, match=argument):
            model = fair(**{argument: None}).fit(X, y, sensitive_features=groups)
        assert model.privacy_.conditional_on == (argument,)


def test_options_of_the_descent(capsys):
    X, y, _ = table(n=2000)
    models = [
        plain(**params).fit(X, y)
        for params in ({}, {"average": False}, {"learning_rate": 0.05}, {"max_iter": 3})
    ]
    assert len({model.coef_.tobytes() for model in models}) == 4
    assert [model.n_iter_ for model in models] == [10, 10, 10, 3]
    assert not capsys.readouterr().out
    plain(verbose=1, max_iter=20).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10 and lines[-1].endswith("step 20 of 20")


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="no callbacks"
)
def test_callbacks_see_steps_and_no_data():
    class Recorder:
        def __init__(self):
            self.events = []

        def setup(self, estimator, context):
            self.events.append("setup")

        def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
            assert X is None and y is None

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            assert fitted_estimator is None
            self.events.append(context.task_name)

        def teardown(self, estimator, context):
            self.events.append("teardown")

    X, y, _ = table()
    recorder = Recorder()
    plain(max_iter=7).set_callbacks(recorder).fit(X, y)
    assert recorder.events == ["setup", *["step"] * 7, "fit", "teardown"]


# --------------------------------------------------------------- edges of the domain


EDGES = {
    "separable": lambda X, y, a: (X, (X[:, 0] > 0) * 1, a),
    "constant features": lambda X, y, a: (np.full_like(X, 0.3), y, a),
    "a group of one": lambda X, y, a: (X, y, np.r_[1, np.zeros(len(y) - 1)]),
    "an empty group": lambda X, y, a: (X, y, np.zeros(len(y))),
    "a group without a label": lambda X, y, a: (X, y, np.where(y == 1, a, 0)),
    "one label": lambda X, y, a: (X, 0 * y, a),
    "one record": lambda X, y, a: (X[:1], y[:1], a[:1]),
    "huge features": lambda X, y, a: (X * 1e300, y, a),
    "tiny features": lambda X, y, a: (X * 1e-300, y, a),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_edges_fit_silently(edge, constraint, neighboring):
    X, y, groups = EDGES[edge](*table(n=120))
    for params in (
        {},
        {"fairness_weight": 1.0, "min_group_size": 10},
        {"epsilon": np.inf},
        {"C": 1e-100, "epsilon": 1e-3},
        {"C": 1e100, "epsilon": 1e6},
        {"bounds": None, "data_norm": 1.0},
    ):
        model = fair(
            constraint=constraint, neighboring=neighboring, max_iter=10, **params
        ).fit(X, y, sensitive_features=groups)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
        assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("C", [5e-324, 0.9e-100, 1.1e100, 1.7e308])
def test_a_penalty_that_numbers_cannot_hold_costs_nothing(C):
    X, y, groups = table(n=120)
    ledger = PrivacyLedger(1.0, 1e-5)
    with pytest.raises(ValueError, match="'C'"):
        fair(C=C, ledger=ledger).fit(X, y, sensitive_features=groups)
    assert ledger.spends() == []


@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_the_sensitivity_of_the_largest_C_is_a_number(neighboring):
    """Beyond it the mechanism refused the noise when the plan had been paid."""
    X, y, _ = table(n=120)
    known = {"bounds": None, "data_norm": 1e50, "neighboring": neighboring}
    ledger = PrivacyLedger(1.0, 1e-5)
    with pytest.raises(ValueError, match="'C'"):
        parameter_noise(C=1e80, ledger=ledger, **known).fit(X, y)
    assert ledger.spends() == []
    for epsilon in (1e-3, 1e3):
        model = parameter_noise(C=1e50, epsilon=epsilon, **known).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("solver", ["gradients", "moments"])
@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_the_largest_ridge_ends_in_numbers(neighboring, solver):
    """Beyond it squares of curvatures overflow in the line search."""
    asked = {"neighboring": neighboring, "solver": solver}
    for seed in range(10):
        X, y, _ = table(n=1 + seed, seed=seed)
        model = linear(alpha=1e50, random_state=seed, **asked).fit(X, y)
        assert np.isfinite(model.coef_).all()
    ledger = PrivacyLedger(1.0, 1e-5)
    with pytest.raises(ValueError, match="'alpha'"):
        linear(alpha=1e80, ledger=ledger, **asked).fit(X, y)
    assert ledger.spends() == []


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_edges_of_the_other_models(edge, neighboring):
    X, y, _ = EDGES[edge](*table(n=120))
    for params in (
        {},
        {"epsilon": np.inf},
        {"epsilon": 2e-6},
        {"epsilon": 1e6},
        {"bounds": None, "data_norm": 1.0},
    ):
        for make in (parameter_noise, linear):
            model = make(neighboring=neighboring, **params).fit(X, y)
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.predict(X)).all()
    for C in (1e-12, 1e10):
        assert np.isfinite(parameter_noise(C=C).fit(X, y).coef_).all()


def test_string_labels_and_groups():
    X, y, groups = table()
    labels = np.array(["no", "yes"])[y]
    names = np.array(["a", "b"])[groups]
    model = fair(classes=["yes", "no"], groups=["a", "b"])
    model.fit(X, labels, sensitive_features=names)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) <= {"no", "yes"}
    numbers = fair().fit(X, y, sensitive_features=groups)
    assert_array_equal(model.coef_, numbers.coef_)


# ------------------------------------------------------------------------- search


@pytest.mark.parametrize("routing", [True, False])
def test_grid_search_in_a_pipeline(routing):
    X, y, groups = table(n=300)
    with_group = np.column_stack([X, groups])
    grid = {
        "dpwassersteinlogisticregression__epsilon": [0.5, 5.0],
        "dpwassersteinlogisticregression__fairness_weight": [0.0, 0.7],
    }
    with config_context(enable_metadata_routing=routing), warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fair(max_iter=5, sensitive_features=None if routing else [3])
        pipeline = make_pipeline(FunctionTransformer(), model)
        search = GridSearchCV(pipeline, grid, cv=3)
        if routing:
            search.fit(X, y, sensitive_features=groups)
            assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
        else:
            search.fit(with_group, y)
            assert search.predict(with_group).shape == (300,)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("n", [1, 300])
@pytest.mark.parametrize("target", [0.0, 0.5])
def test_a_mean_residual_of_zero_is_no_error(n, target):
    X = np.random.default_rng(0).uniform(size=(n, 2))
    model = DPLinearRegression(
        epsilon=np.inf, solver="gradients", bounds=(0, 1), target_bounds=(0, 1)
    )
    assert_allclose(model.fit(X, np.full(n, target)).predict(X), target, atol=0.05)


# ---------------------------------------------------- intervals


def drawn(kind, seed, n=2000):
    """A table whose population coefficients are known, and a fit to it."""
    rng = np.random.default_rng(seed)
    X, truth = rng.uniform(-1, 1, size=(n, 4)), np.array([-2.0, 0.0, 1.0, 2.0])
    scores = X @ truth - 0.5
    if kind == "classifier":
        y = (rng.random(n) < linked(scores)).astype(int)
        return truth, plain(data_norm=2.0, random_state=seed).fit(X, y)
    y = np.clip(0.5 * scores + 0.5 * rng.normal(size=n), -4, 4)
    return truth / 2, linear(data_norm=2.0, random_state=seed).fit(X, y)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_intervals_cover_the_population(kind):
    covered = []
    for seed in range(100):
        truth, model = drawn(kind, seed)
        low, high = model.coef_interval(0.95)
        assert low.shape == model.coef_.shape
        covered.append((low <= truth) & (truth <= high))
    # Four standard errors of 400 independent intervals around .95, at most.
    assert 0.905 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize("tail", ["lognormal", "mostly zero", "heavy"])
def test_odd_targets_cost_no_more_than_a_constant(tail):
    """The range of the data is declared: with this budget most of it is empty."""
    kept = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(5000, 4))
        score = X @ np.array([1.0, 0.5, 0.0, 0.0]) + rng.normal(size=5000)
        y = {
            "lognormal": np.exp(score),
            "mostly zero": np.where(score > 0.7, np.exp(score), 0.0),
            "heavy": score + rng.standard_t(2, size=5000),
        }[tail]
        ends = y.min(), y.max()
        model = linear(epsilon=0.1, data_norm=1.5, target_bounds=ends)
        fit = model.set_params(random_state=seed).fit(X, y)
        kept.append(1 - np.mean((y - fit.predict(X)) ** 2) / y.var())
    assert np.mean(kept) > -0.01


def test_descent_starts_from_the_mean_that_counts_tell(monkeypatch):
    rng, asked, told = np.random.default_rng(0), [], []
    X, y = rng.uniform(-1, 1, size=(3000, 3)), rng.exponential(size=3000)
    of_block, guessed = MeanResidual.of_block, Constant.guessed

    def recorded(query, block, state):
        asked.append(query)
        return of_block(query, block, state)

    def kept(start, sampling):
        told.append(start)
        return guessed(start, sampling)

    monkeypatch.setattr(MeanResidual, "of_block", recorded)
    monkeypatch.setattr(Constant, "guessed", kept)
    linear(target_bounds=(0, 30), epsilon=5.0).fit(X, y)
    (query,), (start,) = asked, told
    mean = (y.mean() / 15 - 1 - query.center) / query.width
    assert mean < -0.3 and mean < start < mean / 2  # it is told less its noise


def test_a_mean_residual_counts_by_what_exceeds_its_noise(monkeypatch):
    rng, told = np.random.default_rng(0), []
    X, y = rng.uniform(-1, 1, size=(1500, 3)), rng.exponential(size=1500)
    release, descent = PrivacyFilter.release, _linear.preconditioned_descent

    def released(wall, query, *args):
        found = release(wall, query, *args)
        if isinstance(query, MeanResidual):
            told.append((query, float(found[0]), wall.scale(query)))
        return found

    def descended(*args, **settings):
        weights, covariance = descent(*args, **settings)
        told.append(float(weights[-1, 0]))
        return weights, covariance

    monkeypatch.setattr(PrivacyFilter, "release", released)
    monkeypatch.setattr(_linear, "preconditioned_descent", descended)
    trusts = []
    for seed in range(6):
        told.clear()
        given = {"target_bounds": (0, 30), "epsilon": 0.3, "data_norm": 3**0.5}
        model = linear(**given, random_state=seed).fit(X, y)
        weight, (query, off, noise) = told
        trusts.append(max(0.0, 1 - (noise / off) ** 2))
        level = weight * query.geometry.constant - off * trusts[-1]
        assert model.intercept_ == approx(
            15 + 15 * (query.center + query.width * level)
        )
    assert min(trusts) == 0 and max(trusts) > 0.2


@pytest.mark.parametrize("found", [0.75, 1.0])
def test_the_mean_residual_is_cut_off_by_what_was_found_without_room(found):
    wall = SimpleNamespace(scale=lambda level: (level.high - level.low) / 100)
    target = ToldTarget(1.0, center=0.2, width=0.05, without_room=found)
    noise = wall.scale(target.level(wall, Geometry(1, 1, 1.0, 1.0, 1.0), 100))
    assert 0.9 < noise / (_told_target.NOISE_OF_LEVEL * found) <= 1


def test_the_mean_residual_reaches_as_far_as_its_noise_allows(monkeypatch):
    rng, asked = np.random.default_rng(0), []
    X, y = rng.uniform(-1, 1, size=(3000, 3)), np.exp(rng.normal(size=3000))
    of_block = MeanResidual.of_block

    def recorded(query, block, state):
        asked.append(query)
        return of_block(query, block, state)

    monkeypatch.setattr(MeanResidual, "of_block", recorded)
    for noise in (np.inf, 0.0, _told_target.NOISE_OF_LEVEL):
        monkeypatch.setattr(_told_target, "NOISE_OF_LEVEL", noise)
        linear(target_bounds=(0, 30), epsilon=0.5).fit(X, y)
    whole, least, usual = asked
    ends = (-1 - whole.center) / whole.width, (1 - whole.center) / whole.width
    assert (whole.low, whole.high) == approx(ends) and ends[1] > 2 * -ends[0]
    assert (least.low, least.high) == approx((-1, 1))
    assert usual.low == approx(ends[0]) and 1 < usual.high < ends[1]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"solver": "moments"},
        {"epsilon": 0.003},
        {"fit_intercept": False},
        {"bounds": None, "data_norm": 0.7},
        {"data_norm": 0.5},
        {"bounds": ([-1, -4, 0], [1, 3, 2])},
        {"bounds": (1e8, 1e8 + 1e-7)},
        {"epsilon": np.inf},
    ],
)
def test_no_row_is_predicted_beyond_what_the_weights_allow(params):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(2000, 3)), 40 + 20 * rng.normal(size=2000)
    y += X @ [30, -10, 4]
    model = linear(target_bounds=(-100, 200)).set_params(**params).fit(X, y)
    low, high = model.prediction_range_
    ends = model.bounds_ if model.bounds_ is not None else np.array([[-1.0], [1.0]])
    middle, half = ends.mean(axis=0), np.ptp(ends, axis=0) / 2
    steepest = model.coef_ * half
    steepest /= max(np.linalg.norm(steepest), 1e-300)
    # Rows at and far beyond all corners, and those along the weights.
    rows = middle + half * np.vstack(
        [
            rng.choice([-1e9, -1, 0, 1, 1e9], size=(500, 3)),
            rng.normal(size=(500, 3)),
            np.outer([-1, 1], steepest * model.data_norm_),
        ]
    )
    found = model.predict(rows)
    room = 1e-6 * (high - low) + 1e-9
    assert low - room <= found.min() and found.max() <= high + room
    if model.data_norm_ <= 1:  # such rows are within the bounds
        assert found[-2:] == approx([low, high], rel=1e-4)


def test_scores_vary_no_more_than_the_clipped_target(monkeypatch):
    rng, asked = np.random.default_rng(0), []
    X, y = rng.uniform(-1, 1, size=(3000, 3)), rng.normal(size=3000)

    def recorded(*args, **settings):
        asked.append(LineSearch(*args, **settings))
        return asked[-1]

    monkeypatch.setattr(_linear, "LineSearch", recorded)
    monkeypatch.setattr(TargetCounts, "variance", lambda *_: 0.2)
    for outside, square in ((-0.1, 0.2), (0.0, 0.2), (0.1, 0.28)):
        monkeypatch.setattr(TargetCounts, "outside", lambda *_, o=outside: o)
        linear().fit(X, y)
        assert asked[-1].most == approx(math.sqrt(square))
        assert asked[-1].worth == approx(0.1)
    monkeypatch.setattr(TargetCounts, "variance", lambda *_: 0.0)
    monkeypatch.setattr(TargetCounts, "outside", lambda *_: 0.0)
    linear().fit(X, y)
    assert asked[-1].most == approx(math.sqrt(1e-3)) and asked[-1].worth == 5e-4
    linear(fit_intercept=False).fit(X, y)  # nothing is learnt of the target then
    assert asked[-1].most == np.inf


@pytest.mark.parametrize(
    ("n_columns", "often", "share"), [(60, 0.1, 0.9), (150, 0.05, 0.6)]
)
def test_long_tails_do_not_make_slopes_shorter_where_there_is_more_budget(
    n_columns, often, share
):
    """The wider the learnt range, the more of them was put down to who was drawn."""
    rng = np.random.default_rng(0)
    X = (rng.random((12_000, n_columns)) < often).astype(float)
    y = np.exp(X @ rng.normal(size=n_columns) / 3 + rng.normal(size=len(X)))
    train, test = slice(4000), slice(4000, None)
    bounds = {"bounds": (0, 1), "target_bounds": (0, np.ceil(y.max()))}
    model = linear(**bounds, epsilon=100.0).fit(X[train], y[train])
    plain = LinearRegression().fit(X[train], y[train]).score(X[test], y[test])
    assert model.score(X[test], y[test]) > share * plain > 0.05


def test_targets_beyond_the_learnt_range_widen_intervals(monkeypatch):
    """They are clipped to its ends: their squares are one, in units of its width."""
    _, known = drawn("regressor", 0)
    residuals = []

    def told(squares, largest):
        residuals.append(float(squares[0]))
        return of_residuals(squares, largest)

    monkeypatch.setattr(_told_target, "of_residuals", told)
    for share in (0.0, 0.1):
        monkeypatch.setattr(TargetCounts, "outside", lambda *_, share=share: share)
        _, model = drawn("regressor", 0)
        assert_array_equal(model.coef_, known.coef_)
    # Of a square of less than a fifth.
    assert 0.08 < residuals[1] - residuals[0] < 0.1


def test_intervals_follow_the_units_of_the_features():
    X, y, _ = table(n=3000)
    one = plain(epsilon=3.0).fit(X, y)
    ten = plain(epsilon=3.0, bounds=(-10, 10)).fit(10 * X, y)
    assert_allclose(ten.coef_interval(), one.coef_interval() / 10, rtol=1e-6)
    narrow, wide = np.diff(one.coef_interval(0.5), axis=0), one.coef_interval(0.99)
    assert np.all(narrow < np.diff(wide, axis=0))
    X, y, _ = table(n=6000, n_classes=3)
    three = plain(epsilon=3.0, classes=[0, 1, 2]).fit(X, y)
    assert three.coef_covariance_.shape == (3, 3, 3)
    assert three.coef_interval().shape == (2, 3, 3)


def test_intervals_of_a_class_without_signal_are_as_wide_as_others():
    """Its slopes are nearly zero before the search makes them longer."""
    X, y, _ = table(n=4000, n_classes=3)
    for params in ({}, {"fit_intercept": False}, {"max_iter": 3}):
        model = plain(classes=[0, 1, 2], random_state=0, **params).fit(X, y)
        low, high = model.coef_interval()
        widths = (high - low).mean(axis=1)
        assert widths.max() < 4 * widths.min()


def test_where_no_error_is_known_none_is_given():
    X, y, groups = table(n=3000)
    for model in (
        plain(epsilon=np.inf).fit(X, y),
        plain(epsilon=3.0, class_weight={1: 2.0}).fit(X, y),
        plain(epsilon=3.0, batch_size=100).fit(X, y),
        fair(epsilon=3.0).fit(X, y, sensitive_features=groups),
        plain(epsilon=0.001).fit(X, y),  # a constant model
        linear(solver="moments").fit(X, X[:, 0]),
        parameter_noise().fit(X, y),
    ):
        assert model.coef_covariance_ is None
        with pytest.raises(ValueError, match="coef_covariance_"):
            model.coef_interval()
    with pytest.raises(ValueError, match="level"):
        plain(epsilon=3.0).fit(X, y).coef_interval(1.0)


@pytest.mark.parametrize("spectrum", [[0.2] * 30, [0.02] * 20 + [0.1] * 9 + [1.0]])
def test_the_push_of_noise_is_taken_out_of_eigenvalues(spectrum):
    true, noise = np.diag(spectrum), 0.03
    rng = np.random.default_rng(0)
    raw, mended = [], []
    for _ in range(20):
        upper = np.triu(rng.normal(size=true.shape) * noise / 2**0.5, 1)
        seen = true + upper + upper.T + np.diag(rng.normal(size=len(true)) * noise)
        values, vectors = np.linalg.eigh(seen)
        forms = np.diag(vectors.T @ true @ vectors)
        raw.append(np.abs(values - forms).mean())
        mended.append(np.abs(_without_noise(values, noise) - forms).mean())
    assert np.mean(mended) < 0.25 * np.mean(raw)
    assert_allclose(_without_noise(np.sort(spectrum), 0.0), np.sort(spectrum))


def test_strata_are_numbered_label_by_label():
    """One code for each label and group that are compared, in as few bytes as do."""
    groups, labels = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
    model = DPWassersteinLogisticRegression(constraint="equalized_odds")
    model.groups_, model.classes_ = np.arange(3), np.arange(2)
    codes = model._strata(groups, 6, labels)
    assert codes.tolist() == [0, 1, 2, 3, 4, 5] and codes.dtype == np.uint8
    assert model._shape == (2, 3)
    model.constraint = "demographic_parity"
    assert model._strata(groups, 6, labels).tolist() == groups.tolist()
    assert model._shape == (1, 3)
    assert model._strata(None, 6, labels).tolist() == [0] * 6
    assert model._shape == (1, 2)


def test_a_frame_without_bounds_is_warned_of():
    """Large columns drown the others there; not of what an encoder gave."""
    pandas = pytest.importorskip("pandas")
    X, y, group = make_spurious_bias(200, random_state=0)
    X = pandas.DataFrame(X).add_prefix("x")
    model, units = plain(bounds=None, data_norm=None), ".* shortens rows to norm 1"
    repair = DP2DPClassifier(model, classes=[0, 1], groups=[0, 1])
    for fit in (model.fit, with_budget(model, epsilon=1.0).fit, repair.fit):
        given = {"sensitive_features": group} if fit == repair.fit else {}
        with pytest.warns(UserWarning, match=units):
            fit(X, y, **given)
    model.ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", units)
        with pytest.raises(UserWarning, match=units):
            model.fit(X, y)
        assert not model.ledger.spends()  # as an error it costs nothing
        encoded = DPTableEncoder().set_output(transform="pandas").fit_transform(X)
        repair.fit(encoded, y, sensitive_features=group)
        for said in ({"data_norm": 1.0}, {"bounds": (-1, 1)}):
            model = plain(**{"bounds": None, "data_norm": None, **said}).fit(X, y)
            repair.set_params(estimator=model).fit(X, y, sensitive_features=group)
        plain(bounds=None, data_norm=None).fit(X.to_numpy(), y)
        plain(bounds=None, data_norm=None).fit(encoded[50:], y[50:])
