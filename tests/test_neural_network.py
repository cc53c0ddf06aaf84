"""Networks with a sliced Wasserstein penalty: the estimators."""

import math
import pickle
import types
from operator import attrgetter

import numpy as np
import pytest
from _recording import recording
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from sklearn.base import clone

from fairpriv_sklearn import audit
from fairpriv_sklearn._shared.exact_transport import grid_codes
from fairpriv_sklearn._training import _design
from fairpriv_sklearn._training._network import ACTIVATIONS, Network
from fairpriv_sklearn._training._target import (
    CountedPart,
    NarrowedRows,
    RangeCounts,
    TargetCounts,
)
from fairpriv_sklearn.datasets import make_spurious_bias, make_spurious_regression
from fairpriv_sklearn.distributed import Batches, resume
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.neural_network._base import (
    LearntRange,
    _curvature,
    start_from,
)
from fairpriv_sklearn.neural_network._objective import (
    INPUTS,
    GradientSensitivity,
    RealOutputs,
    SimplexOutputs,
)
from fairpriv_sklearn.neural_network._queries import OutputResiduals
from fairpriv_sklearn.privacy import PrivacyLeakWarning

PUBLIC = {"bounds": (-10, 10), "groups": [0, 1], "random_state": 0}


def planar_table(n=3000, seed=0):
    """Two targets that depend on a core and on features that reveal the group."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(2, size=n)
    core = rng.uniform(-1, 1, size=(n, 2)) + 0.5 * (2 * groups - 1)[:, None]
    X = np.hstack([core, groups[:, None] + 0.3 * rng.normal(size=(n, 1))])
    return X, core, groups


def squared_gap(outputs, groups):
    return np.sum((outputs[groups == 0].mean(0) - outputs[groups == 1].mean(0)) ** 2)


def make(kind, **params):
    if kind == "classifier":
        return DPWassersteinMLPClassifier(**{**PUBLIC, "classes": [0, 1], **params})
    if kind == "regressor":
        return DPWassersteinMLPRegressor(
            **{**PUBLIC, "bounds": (-2, 2), "target_bounds": (-2, 2), **params}
        )
    return DPWassersteinAutoencoder(**{**PUBLIC, "bounds": (-2, 2), **params})


def fit_outputs(kind, X, Y, groups, **params):
    model = make(kind, **params)
    if kind == "code":
        return model.fit(X, sensitive_features=groups).transform(X), model
    return model.fit(X, Y, sensitive_features=groups).predict(X), model


@pytest.mark.parametrize("kind", ["regressor", "code"])
def test_the_penalty_moves_the_groups_together(kind):
    X, Y, groups = planar_table()
    gaps = {
        weight: squared_gap(
            fit_outputs(kind, X, Y, groups, fairness_weight=weight, epsilon=np.inf)[0],
            groups,
        )
        for weight in (0.0, 0.9)
    }
    assert gaps[0.9] < 0.2 * gaps[0.0]


def test_classifier_learns_and_the_penalty_lowers_the_disparity():
    X, y, groups = make_spurious_bias(15000, random_state=0)
    gaps, scores = {}, {}
    for weight in (0.0, 0.75):
        model = make("classifier", fairness_weight=weight, max_iter=80, epsilon=2.0)
        model.fit(X, y, sensitive_features=groups)
        p = model.predict_proba(X)
        assert_allclose(p.sum(axis=1), 1)
        gaps[weight], scores[weight] = squared_gap(p, groups), model.score(X, y)
    assert scores[0.0] > 0.8
    assert scores[0.75] > 0.7
    assert gaps[0.75] < 0.2 * gaps[0.0]


def test_equalized_odds_compares_inside_the_classes():
    X, y, groups = make_spurious_bias(8000, p=0.9, random_state=0)
    inside, whole = {}, {}
    for weight, constraint in (
        (0.0, "equalized_odds"),
        (0.9, "equalized_odds"),
        (0.9, "demographic_parity"),
    ):
        model = make(
            "classifier",
            fairness_weight=weight,
            constraint=constraint,
            epsilon=np.inf,
            max_iter=40,
        )
        p = model.fit(X, y, sensitive_features=groups).predict_proba(X)
        case = weight, constraint
        inside[case] = sum(squared_gap(p[y == k], groups[y == k]) for k in (0, 1))
        whole[case] = squared_gap(p, groups)
    none, odds, parity = inside
    assert inside[odds] < 0.2 * inside[none]
    # Groups have other shares of the classes: parity of all is another thing.
    assert inside[odds] < 0.6 * inside[parity]
    assert whole[odds] > 5 * whole[parity]


def test_several_classes_and_groups():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    angle = np.arctan2(X[:, 1], X[:, 0])
    y = np.digitize(angle, [-1, 1])
    groups = rng.integers(3, size=900)
    model = DPWassersteinMLPClassifier(
        epsilon=50.0,
        fairness_weight=0.2,
        bounds=(-3, 3),
        classes=["left", "middle", "right"],
        groups=["a", "b", "c"],
        random_state=0,
    )
    labels = np.array(["left", "middle", "right"])[y]
    model.fit(X, labels, sensitive_features=np.array(["a", "b", "c"])[groups])
    assert model.predict_proba(X).shape == (900, 3)
    assert model.score(X, labels) > 0.7


def test_more_budget_means_less_noise():
    """Distance to the fit without noise from the same initial parameters."""
    X, Y, groups = planar_table(500)
    # Steps so small that no noise makes them smaller.
    params = {"max_iter": 10, "min_group_size": 200, "learning_rate": 1e-4}
    errors = {}
    for seed in range(4):
        fits = {
            epsilon: make("regressor", epsilon=epsilon, random_state=seed, **params)
            .fit(X, Y, sensitive_features=groups)
            .coefs_[0]
            for epsilon in (0.2, 2.0, 20.0, np.inf)
        }
        for epsilon, weights in fits.items():
            errors.setdefault(epsilon, []).append(np.std(weights - fits[np.inf]))
    mean = {epsilon: np.mean(errors[epsilon]) for epsilon in errors}
    assert mean[0.2] > 3 * mean[2.0] > 9 * mean[20.0] > 0


def test_regressor_keeps_the_shape_and_the_bounds_of_the_targets():
    X, Y, groups = planar_table(300)
    for target, shape in ((Y, (300, 2)), (Y[:, :1], (300, 1)), (Y[:, 0], (300,))):
        prediction, model = fit_outputs("regressor", X, target, groups)
        assert prediction.shape == shape
        assert np.abs(prediction).max() <= 2
        assert model.n_outputs_ == target.reshape(300, -1).shape[1]
    model = make("regressor", target_bounds=([-1, -2], [1, 2]))
    model.fit(X, Y, sensitive_features=groups)
    assert_array_equal(model.target_bounds_, [[-1, -2], [1, 2]])


def test_autoencoder_encodes_and_decodes():
    rng = np.random.default_rng(0)
    plane = rng.uniform(-1, 1, size=(4000, 2))
    X = 5 + np.hstack([plane, plane, plane]) + 0.05 * rng.normal(size=(4000, 6))
    model = DPWassersteinAutoencoder(
        n_components=2,
        epsilon=np.inf,
        fairness_weight=0.0,
        bounds=(3.9, 6.1),
        clip_norm=10.0,
        learning_rate=0.05,
        max_iter=300,
        random_state=0,
    ).fit(X)
    codes = model.transform(X)
    assert codes.shape == (4000, 2)
    assert np.abs(codes).max() <= 1
    decoded = model.inverse_transform(codes)
    assert np.mean((decoded - X) ** 2) < 0.1 * X.var()
    scaled_error = np.mean((decoded - X) ** 2) / 1.1**2
    assert model.score(X) == pytest.approx(-scaled_error, rel=0.05)
    assert list(model.get_feature_names_out()) == [
        "dpwassersteinautoencoder0",
        "dpwassersteinautoencoder1",
    ]


@pytest.mark.parametrize("hidden", [(), (5,), (6, 4)])
def test_the_decoder_is_a_contraction(hidden):
    """So a small code cannot hide a distance between decoded groups."""
    X, _, groups = planar_table(400)
    model = make("code", hidden_layer_sizes=hidden, max_iter=60, epsilon=20.0)
    model.fit(X, sensitive_features=groups)
    assert len(model.coefs_) == 2 * len(hidden) + 2
    for weights in model.coefs_[len(hidden) + 1 :]:
        assert np.linalg.norm(weights, 2) <= 1 + 1e-9
    codes = model.transform(X)
    decoded = model.inverse_transform(codes) / 2  # in scaled units
    steps = np.linalg.norm(np.diff(codes, axis=0), axis=1)
    assert (np.linalg.norm(np.diff(decoded, axis=0), axis=1) <= steps + 1e-9).all()


def test_inverse_transform_without_bounds_keeps_units():
    X, _, groups = planar_table(200)
    model = DPWassersteinAutoencoder(
        data_norm=3.0, groups=[0, 1], random_state=0, max_iter=5
    ).fit(X, sensitive_features=groups)
    assert model.bounds_ is None
    assert model.inverse_transform(model.transform(X)).shape == X.shape


@pytest.mark.parametrize("solver", ["adam", "sgd"])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
def test_solvers_and_activations_learn(solver, average, activation):
    X, Y, groups = planar_table(600)
    rate = 0.2 if solver == "sgd" else 0.02
    prediction, model = fit_outputs(
        "regressor",
        X,
        Y,
        groups,
        epsilon=np.inf,
        fairness_weight=0.0,
        solver=solver,
        learning_rate=rate,
        average=average,
        activation=activation,
        max_iter=150,
    )
    assert np.mean((prediction - Y) ** 2) < 0.5 * Y.var()
    assert model.n_iter_ == 150


def test_weight_decay_shrinks_the_weights_only():
    X, Y, groups = planar_table(300)
    norms = []
    for alpha in (0.0, 1.0):
        model = fit_outputs("regressor", X, Y + 1, groups, alpha=alpha, epsilon=50.0)[1]
        norms.append([np.linalg.norm(model.coefs_[0]), abs(model.intercepts_[1]).max()])
    assert norms[1][0] < 0.1 * norms[0][0]
    assert norms[1][1] > 0.1


def test_progress_is_printed_on_demand(capsys):
    X, Y, groups = planar_table(50)
    params = {"max_iter": 10, "epsilon": 30.0}
    fit_outputs("regressor", X, Y, groups, **params)
    assert capsys.readouterr().out == ""
    fit_outputs("regressor", X, Y, groups, verbose=1, **params)
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == "[DPWassersteinMLPRegressor] step 10 of 10"


def test_the_receipt_names_the_public_facts():
    X, Y, groups = planar_table(50)
    params = {"epsilon": 30.0, "data_norm": 2.0, "min_group_size": 20, "max_iter": 3}
    model = fit_outputs("regressor", X, Y, groups, **params)[1]
    facts = " ".join(model.privacy_.assumptions)
    for name in (
        "groups=",
        "bounds=",
        "data_norm=",
        "target_bounds=",
        "min_group_size=20",
    ):
        assert name in facts
    assert model.privacy_.events[0].kind == "gaussian"
    # hidden 16: 3 * 16 + 16 + 16 * 2 + 2 parameters, no noisy count of groups, the
    # constant, the ranges of two targets, twice, the means of their residuals and of
    # what is added, and two numbers of the line search for each
    assert model.privacy_.events[0].n_draws == 3 * 98 + 2 + 2 * 2 * 64 + 2 * 2 + 2 * 2


def test_bounds_from_the_data_leak_and_say_so():
    X, Y, groups = planar_table(60)
    with pytest.warns(PrivacyLeakWarning, match="target_bounds"):
        model = make("regressor", target_bounds=None, max_iter=2)
        model.fit(X, Y, sensitive_features=groups)
    assert model.privacy_.conditional_on == ("target_bounds",)
    constant = np.full((60, 2), 7.0)
    with pytest.warns(PrivacyLeakWarning, match="target_bounds"):
        model.fit(X, constant, sensitive_features=groups)
    assert_array_equal(model.target_bounds_, [[7, 7], [14, 14]])
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        make("classifier", classes=None, max_iter=2).fit(
            X, groups, sensitive_features=groups
        )
    # Without bounds rows are taken as they are: nothing is read from the data.
    model = make("code", bounds=None, max_iter=2).fit(X, sensitive_features=groups)
    assert model.data_norm_ == 1.0 and not model.privacy_.conditional_on


@pytest.mark.parametrize(
    "kind, params, message",
    [
        ("regressor", {"target_bounds": (1, 1)}, "low < high"),
        ("regressor", {"target_bounds": (0, 1, 2)}, "target_bounds must be a tuple"),
        ("regressor", {"target_bounds": ([0] * 3, 1)}, "2 columns"),
        ("regressor", {"hidden_layer_sizes": (4, 0)}, "positive integers"),
        ("regressor", {"n_projections": 0}, "n_projections"),
        ("regressor", {"alpha": 1e300}, "alpha"),
        ("regressor", {"learning_rate": 1e300}, "learning_rate"),
        ("regressor", {"learning_rate": math.nan}, "learning_rate"),
        ("regressor", {"clip_norm": 1e300}, "clip_norm"),
        ("regressor", {"projection_clip_norm": 5e-324}, "projection_clip_norm"),
        ("code", {"n_components": 0}, "n_components"),
        ("code", {"fairness_weight": 1.5}, "fairness_weight"),
        ("code", {"bounds": (1, 0)}, "low <= high"),
        ("classifier", {"constraint": "parity"}, "constraint"),
    ],
)
def test_wrong_parameters_are_refused(kind, params, message):
    X, Y, groups = planar_table(20)
    with pytest.raises(ValueError, match=message):
        fit_outputs(kind, X, groups if kind == "classifier" else Y, groups, **params)


def test_other_refusals(monkeypatch):
    X, Y, groups = planar_table(20)
    with pytest.raises(ValueError, match="requires y to be passed"):
        make("regressor").fit(X, None, sensitive_features=groups)
    model = make("code", max_iter=2).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="n_components=2"):
        model.inverse_transform(np.zeros((3, 5)))
    monkeypatch.setattr("fairpriv_sklearn.neural_network._base.MAX_RECORDS", 19)
    with pytest.raises(ValueError, match="At most 19 records") as refused:
        model.fit(X, sensitive_features=groups)
    assert "20" not in str(refused.value)  # how many there are may be private


def test_no_sensitive_features_are_needed_without_the_penalty():
    X, Y, _ = planar_table(60)
    model = make("regressor", fairness_weight=0.0, max_iter=3).fit(X.tolist(), Y)
    assert not hasattr(model, "groups_")
    counted = make("regressor", neighboring="add_remove", fairness_weight=0.0)
    assert np.isfinite(counted.fit(X, Y).predict(X)).all()


@pytest.mark.parametrize("kind", ["regressor", "code"])
def test_a_named_column_is_not_a_feature(kind):
    X, Y, groups = planar_table(80)
    named = make(kind, sensitive_features=[3], max_iter=4)
    named.fit(np.column_stack([X, groups]), Y)
    assert named.n_features_in_ == 4
    assert named.coefs_[0].shape[0] == 3
    given = fit_outputs(kind, X, Y, groups, max_iter=4)[1]
    for first, second in zip(named.coefs_, given.coefs_, strict=True):
        assert_array_equal(first, second)
    if kind == "code":  # transformers keep to the number of columns
        encoded = named.transform(np.column_stack([X, groups]))
        assert_array_equal(encoded, given.transform(X))
        with pytest.raises(ValueError, match="X has 3 features"):
            named.transform(X)
    else:
        assert_array_equal(named.predict(X), given.predict(X))


@pytest.mark.parametrize("kind", ["regressor", "classifier", "code"])
def test_predictions_do_not_depend_on_the_batch(kind):
    X, Y, groups = planar_table(300)
    Y = groups if kind == "classifier" else Y
    model = fit_outputs(kind, X, Y, groups, max_iter=3)[1]
    method = {"code": "transform", "classifier": "predict_proba"}.get(kind, "predict")
    whole = getattr(model, method)(X)
    assert_array_equal(whole[[250]], getattr(model, method)(X[[250]]))
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(whole, getattr(again, method)(X))
    assert clone(model).get_params() == model.get_params()


def test_directions_are_drawn_without_looking_at_the_data(monkeypatch):
    """Same seed, other data: the same number of draws has been made."""
    module = "fairpriv_sklearn.neural_network._base"
    X, Y, groups = planar_table(64)
    states = []
    for table, target, codes in ((X, Y, groups), (-X, 0 * Y, 1 - groups)):
        noise = noise_source(7)
        monkeypatch.setattr(f"{module}.noise_source", lambda _, noise=noise: noise)
        make("regressor", max_iter=5).fit(table, target, sensitive_features=codes)
        states.append(noise.uint64(4))
    assert_array_equal(*states)


def test_the_simulated_regression_has_its_known_answers():
    X, Y, groups = make_spurious_regression(40000, random_state=0)
    assert X.shape == (40000, 16) and Y.min() >= 0 and Y.max() <= 1
    gap = Y[groups == 1].mean(axis=0) - Y[groups == 0].mean(axis=0)
    assert_allclose(gap, 0.4 / 3, atol=4 * 0.29 / math.sqrt(10000))
    for column, mean in [(0, Y[:, 0]), (1, Y[:, 1]), (7, Y[:, 1]), (8, groups)]:
        rest = X[:, column] - mean
        assert abs(rest.mean()) < 4 * 0.5 / 200
        assert rest.std() == pytest.approx(0.5, rel=0.02)
    assert np.mean((Y.sum(axis=1) > 1) == groups) == pytest.approx(0.7, abs=0.01)


def test_the_decoder_gets_less_noise(monkeypatch):
    """Noise of the released gradient, part by part, over many fits of one step."""
    X, _, groups = planar_table(400)

    def initialize(network, standard_normal):
        network.theta[:] = 0
        return network

    monkeypatch.setattr(Network, "initialize", initialize)
    model = make(
        "code",
        max_iter=1,
        average=False,
        alpha=0.0,
        learning_rate=1e-3,
        min_group_size=150,
        n_components=1,
        random_state=None,
    )
    drawn = []
    for _ in range(200):
        with recording() as seen:
            model.fit(X, sensitive_features=groups)
        drawn.append([model.coefs_[0].ravel(), model.coefs_[1].ravel()])
    encoder, decoder = np.std(np.array(drawn), axis=0).mean(axis=1) / 1e-3
    sensitivity = GradientSensitivity.bound(
        clip_norm=1.0,
        projection_clip_norm=0.25,
        fairness_weight=0.5,
        widths=np.array([2.0]),
        n_records=400,
        min_sizes=np.array([[150, 150]]),
        neighboring="replace_one",
    )
    assert sensitivity.loss == pytest.approx(0.5 * 2 / 400)
    assert sensitivity.penalty == pytest.approx(0.5 * 8 * 0.25 * 2 / 150)
    ratio = sensitivity.best_ratio(4, 6)  # one weight per feature, and biases
    assert ratio < 0.5
    mu = seen.crossings[-1].parameter
    assert encoder == pytest.approx(sensitivity.scaled(ratio) / mu, rel=0.12)
    assert decoder == pytest.approx(ratio * sensitivity.scaled(ratio) / mu, rel=0.12)


@pytest.mark.parametrize("epsilon, on_grid", [(30.0, True), (np.inf, False)])
def test_private_projections_are_rounded_to_the_grid(monkeypatch, epsilon, on_grid):
    module = "fairpriv_sklearn.neural_network._objective"
    calls = []

    def counted(*args):
        calls.append(args)
        return grid_codes(*args)

    monkeypatch.setattr(f"{module}.grid_codes", counted)
    X, Y, groups = planar_table(40)
    params = {"epsilon": epsilon, "max_iter": 3, "n_projections": 2}
    fit_outputs("regressor", X, Y, groups, **params)
    assert len(calls) == (6 if on_grid else 0)
    assert all(args[1:] == (-1.0, 1.0) for args in calls)


@pytest.mark.parametrize("kind", ["regressor", "classifier", "code"])
@pytest.mark.parametrize("solver", ["sgd", "adam"])
def test_no_legal_step_size_leads_to_nan(kind, solver):
    X, Y, groups = planar_table(60)
    Y = groups if kind == "classifier" else Y
    wild = {"learning_rate": 1e3, "alpha": 1e3, "momentum": 0.999, "max_iter": 50}
    outputs, model = fit_outputs(kind, X, Y, groups, solver=solver, **wild)
    assert np.isfinite(outputs.astype(float)).all()
    assert all(np.isfinite(coef).all() for coef in model.coefs_)


@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
def test_adam_beats_a_constant_without_a_step_size_of_ones_own(activation):
    """Its steps have one length: that of gradient descent left R2 at -3.5."""
    X, Y, groups = planar_table(600)
    prediction, _ = fit_outputs(
        "regressor", X, Y, groups, solver="adam", activation=activation, epsilon=10.0
    )
    assert np.mean((prediction - Y) ** 2) < 0.7 * np.mean((Y - Y.mean(axis=0)) ** 2)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("regressor", "predict"), ("classifier", "predict_proba"), ("code", "transform")],
)
def test_parameters_that_are_set_anew_are_those_of_the_next_fit(kind, answer):
    X, Y, groups = planar_table(60)
    Y = groups if kind == "classifier" else Y
    _, model = fit_outputs(kind, X, Y, groups, max_iter=10, epsilon=np.inf)
    before = getattr(model, answer)(X)
    back = kind == "code" and model.inverse_transform(before)
    anew = {"activation": "relu", "hidden_layer_sizes": (3, 3, 3), "bounds": (0, 1)}
    anew |= {"target_bounds": (0, 9), "classes": [5, 6], "n_components": 7}
    names = model.get_params()
    model.set_params(**{name: value for name, value in anew.items() if name in names})
    assert_array_equal(getattr(model, answer)(X), before)
    assert_array_equal(kind == "code" and model.inverse_transform(before), back)


@pytest.mark.parametrize(
    ("old", "new"),
    [("learning_rate_init", "learning_rate"), ("n_slices", "n_projections")],
)
def test_old_names_say_the_new_one(old, new):
    with pytest.raises(TypeError, match=f"{old!r} is now {new!r}"):
        make("regressor", **{old: 1})


def test_a_second_fit_keeps_nothing_of_the_first():
    X, Y, groups = planar_table(60)
    model = make("classifier", max_iter=2).fit(X, groups, sensitive_features=groups)
    assert hasattr(model, "groups_")
    model.set_params(fairness_weight=0.0).fit(X, groups)
    assert not hasattr(model, "groups_")
    model.set_params(alpha=-1)
    with pytest.raises(ValueError, match="alpha"):
        model.fit(X, groups)
    assert model.predict(X).shape == (60,)  # a typo costs no fitted model


@pytest.mark.parametrize("kind", ["regressor", "classifier", "code"])
def test_no_cell_is_quoted_and_no_extreme_value_warns(kind):
    X, Y, groups = planar_table(20)
    Y = groups if kind == "classifier" else Y
    extreme = X.copy()
    extreme[0, :2] = [1.7e308, -1.7e308]
    fit_outputs(kind, extreme, Y, groups, max_iter=2)  # warnings are errors here
    text = X.astype(object)
    text[3, 1] = "HIV-positive"
    with pytest.raises(ValueError, match="X") as error:
        fit_outputs(kind, text, Y, groups, max_iter=2)
    assert "HIV" not in str(error.value) and error.value.__context__ is None


@pytest.mark.parametrize("kind", ["regressor", "classifier", "code"])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_batches_of_any_size_give_the_same_bits(kind, weight):
    X, Y, groups = planar_table(5000)
    Y = {"classifier": groups, "code": None}.get(kind, Y)
    params = {"max_iter": 3, "fairness_weight": weight}
    expected = make(kind, **params)
    if kind == "code":
        expected.fit(X, sensitive_features=groups)
    else:
        expected.fit(X, Y, sensitive_features=groups)

    def cut(size):
        for i in range(0, 5000, size):
            part = slice(i, i + size)
            yield X[part], None if Y is None else Y[part], groups[part]

    for size in (333, 2048, 5000):
        model = make(kind, **params).fit(Batches(lambda size=size: cut(size)))
        for one, other in zip(model.coefs_, expected.coefs_, strict=True):
            assert_array_equal(one, other)
        assert model.privacy_ == expected.privacy_


@pytest.mark.parametrize(
    "params",
    [{"data_norm": 2.0, "epsilon": 2.0}, {"bounds": (-60, 60), "epsilon": 30.0}],
)
def test_a_resumed_fit_goes_on_where_it_was(tmp_path, params):
    X, Y, groups = planar_table(300)
    params = {"max_iter": 6, **params}
    expected = make("regressor", **params).fit(X, Y, sensitive_features=groups)
    assert ("range counts" in expected.privacy_.mechanism) == ("bounds" in params)

    class Death(Exception):
        pass

    for alive in (0, 1, 3):
        with pytest.MonkeyPatch.context() as patch:
            steps = []

            def step(progress, alive=alive, steps=steps):
                steps.append(None)
                if len(steps) > alive:
                    raise Death

            patch.setattr("fairpriv_sklearn._training._progress.Progress.step", step)
            with pytest.raises(Death), resume(tmp_path / "journal"):
                make("regressor", **params).fit(X, Y, sensitive_features=groups)
    with resume(tmp_path / "journal"):
        model = make("regressor", **params).fit(X, Y, sensitive_features=groups)
    assert_array_equal(model.bounds_, expected.bounds_)
    for one, other in zip(model.coefs_, expected.coefs_, strict=True):
        assert_array_equal(one, other)


def test_noise_is_what_the_outputs_see_of_it():
    """Steps are as small as noise times rows, not noise times columns, asks for."""
    rng = np.random.default_rng(0)
    network = Network([300, 16, 2], hidden_activation="tanh")
    units = np.where(np.arange(network.theta.size) < network.n_parameters(1), 2.0, 0.5)
    model = DPWassersteinMLPClassifier(max_iter=50, learning_rate=1.0, momentum=0.5)
    model._scaling = types.SimpleNamespace(data_norm=1.5)
    inputs = [rng.normal(size=300), np.ones(16)]
    inputs[0] *= 1.5 / np.linalg.norm(inputs[0])
    moved = []
    for _ in range(4000):
        weights, biases = network.layers(units * rng.normal(size=units.size))
        moved += [
            sum(
                ((x @ W + b) ** 2).sum()
                for x, W, b in zip(inputs, weights, biases, strict=True)
            )
        ]
    walk = np.sqrt(np.mean(moved) * 50) * 0.1 / (1 - 0.5)
    drowned = np.sqrt(np.mean(moved) * 50) * 0.1 / 50 / 0.5
    head = types.SimpleNamespace(reach=1.0, usual_gradient=0.5)
    found = model._caution(network, units, 0.1, head)
    assert found == pytest.approx(1 / (walk * (1 + drowned**2)), rel=0.02)
    for real_head, reach, usual in (
        (SimplexOutputs(1), 4.0, 1.0),
        (RealOutputs(1), 0.6, 0.5),
        (RealOutputs(1, spread=0.2), 0.8, 0.6),
        (RealOutputs(1, spread=0.1), 0.6, 0.5),
    ):
        slower = (1 + (drowned * 0.5 / usual) ** 2) / reach
        found_here = model._caution(network, units, 0.1, real_head)
        assert found_here == pytest.approx(1 / (walk * slower), rel=0.02)
    # rows longer than the square root of their columns there are not
    model._scaling.data_norm = 1e6
    least = model._caution(network, units, 0.1, head)
    model._scaling.data_norm = 300**0.5
    assert least == model._caution(network, units, 0.1, head) < found
    assert model._caution(network, units, 1e-9, head) == 1.0
    model.solver = "adam"
    assert model._caution(network, units, 0.1, head) == 1.0


def test_curvature_is_what_two_gradients_tell():
    """Along a step, less two standard deviations of what their noise adds."""
    rng = np.random.default_rng(0)
    hessian = np.diag([1.0, 4.0, 9.0])
    old, new = rng.normal(size=(2, 3))
    step, units = new - old, np.array([0.1, 0.2, 0.3])
    exact = step @ hessian @ step / (step @ step)
    places = (old, hessian @ old), (new, hessian @ new)
    assert _curvature(*places, np.zeros(3)) == pytest.approx(exact)
    told = [
        _curvature(
            (old, hessian @ old + units * rng.normal(size=3)),
            (new, hessian @ new + units * rng.normal(size=3)),
            units,
        )
        for _ in range(4000)
    ]
    assert np.mean(told) == pytest.approx(exact - 2 * np.std(told), abs=0.01)
    assert _curvature(places[0], places[0], units) <= 0.0  # no step tells nothing


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_come_to_rest_at_any_curvature(momentum):
    """At half of the largest step size with which they do; Adam has its own."""
    model = DPWassersteinMLPRegressor(learning_rate=0.5, momentum=momentum)
    largest = (1 + momentum) / 0.5
    assert model._steady(0.0) == model._steady(0.99 * largest) == 1.0
    assert model._steady(4 * largest) == pytest.approx(0.25)
    for factor, rests in ((1.9, True), (2.1, False)):
        at, velocity, curvature = 1.0, 0.0, 4 * largest
        for _ in range(300):
            gradient = model._steady(curvature) * factor * curvature * at
            velocity = momentum * velocity + gradient
            at -= 0.5 * velocity
        assert (abs(at) < 1) == rests
    assert model.set_params(solver="adam")._steady(1e9) == 1.0


def test_networks_without_much_noise_do_not_diverge():
    """R2 was -3.4 and -1.6."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.ones(4000), rng.normal(size=(4000, 3)) / 4])
        y = np.exp(X[:, 1] + rng.normal(size=4000) / 2)
        model = DPWassersteinMLPRegressor(
            fairness_weight=0, epsilon=1e4, data_norm=1.5, target_bounds=(0, 100),
            random_state=seed,
        ).fit(X, y)  # fmt: skip
        assert model.score(X, y) > 0.1


def test_a_network_on_many_columns_of_short_rows_is_no_constant():
    """Rows as an encoder makes them: of norm 1, with a hundred columns."""
    rng = np.random.default_rng(0)
    ranks = rng.integers(10, size=(12_000, 10))
    X = np.zeros((12_000, 100))
    X[np.arange(12_000)[:, None], np.arange(0, 100, 10) + ranks] = 10**-0.5
    y = ((ranks - 4.5) @ rng.normal(size=10) + rng.normal(size=12_000) > 0) * 1
    scores = {}
    for epsilon in (1.0, 3.0):
        model = DPWassersteinMLPClassifier(
            epsilon=epsilon,
            fairness_weight=0,
            data_norm=1.0,
            classes=[0, 1],
            random_state=0,
        ).fit(X[:8000], y[:8000])
        scores[epsilon] = model.score(X[8000:], y[8000:])
    assert 0.8 < scores[1.0] < scores[3.0] + 0.02


@pytest.mark.parametrize("sizes", [[3, 7, 2], [3, 5, 6, 1]])
def test_a_network_starts_from_a_constant_and_its_hidden_units_learn_at_once(sizes):
    rng = np.random.default_rng(0)
    network = Network(sizes, hidden_activation="tanh").initialize(rng.standard_normal)
    drawn, n_pairs = network.weights[-1].copy(), sizes[-2] // 2
    constant = rng.normal(size=sizes[-1])
    start_from(network, constant, n_pairs)
    outputs = network.forward(rng.normal(size=(20, 3)))
    assert_allclose(outputs[-1], np.tile(constant, (20, 1)), atol=1e-15)
    second = slice(n_pairs, 2 * n_pairs)
    assert_array_equal(network.weights[-1][:n_pairs], drawn[:n_pairs])
    assert_array_equal(network.weights[-1][second], -drawn[:n_pairs])
    assert not network.weights[-1][2 * n_pairs :].any()
    deltas = network.backward(outputs, rng.normal(size=(20, sizes[-1])))
    below = network.layers(network.gradient(outputs, deltas))[0][-2]
    assert np.abs(below).max() > 0.1
    start_from(network, constant)
    assert not network.weights[-1].any()


@pytest.mark.parametrize("width", [1, 2, 3, 4, 16, 17, 32])
def test_a_mixed_layer_has_units_of_two_kinds_and_still_starts_from_a_constant(width):
    rng = np.random.default_rng(0)
    network = Network([3, width, 2], hidden_activation="mixed")
    network.initialize(rng.standard_normal)
    start_from(network, np.zeros(2), width // 2)
    X = rng.normal(size=(20, 3))
    hidden, outputs = network.forward(X)[1:]
    bent = np.arange(width) % max(width // 2, 1) < 3 * (width // 2) // 8
    assert bent.sum() == {4: 0, 16: 6, 17: 7, 32: 12}.get(width, 0)
    inputs = X @ network.weights[0]
    assert_allclose(hidden[:, bent], np.maximum(inputs, 0)[:, bent])
    assert_allclose(hidden[:, ~bent], np.tanh(inputs)[:, ~bent])
    assert_allclose(outputs, 0.0, atol=1e-15)


BENDS = {"fairness_weight": 0, "target_bounds": (-1, 1), "bounds": (-1, 1)}


@pytest.mark.parametrize(
    ("changed", "bends"),
    [
        ({}, True),
        ({"hidden_layer_sizes": (8, 4)}, True),
        ({"fairness_weight": 0.1}, False),
        ({"activation": "relu"}, False),
        ({"bounds": None}, False),
        ({"data_norm": 1.5}, False),
        ({"epsilon": 0.1}, False),
        ({"target_bounds": (-1, 30)}, True),  # their range is learnt
        ({"hidden_layer_sizes": (1,)}, False),  # no pairs
        ({"hidden_layer_sizes": ()}, False),
        ({"epsilon": np.inf}, True),
    ],
)
def test_units_are_mixed_where_records_tell_enough(changed, bends):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (6000, 2)), rng.uniform(-1, 1, 6000)
    groups = rng.integers(0, 2, 6000)
    steps = {"max_iter": 1, "learning_rate": 1e-12, "random_state": 0}
    model = DPWassersteinMLPRegressor(groups=[0, 1], **{**steps, **BENDS, **changed})
    model.fit(X, y, sensitive_features=groups)
    assert (model._activations[0] == "mixed") == bends
    assert "mixed" not in model._activations[1:]
    if changed == {}:  # mostly zero: the mean is near an end of the learnt range
        model.fit(X, np.where(y > 0.6, y, 0.0))
        assert model._activations == ["tanh", "identity"]


@pytest.mark.parametrize(
    ("share", "neighboring", "n", "bends"),
    [
        (0.5, "replace_one", 2000, True),
        (0.2, "replace_one", 2000, False),
        (0.5, "add_remove", 2000, True),
        (0.5, "add_remove", 1000, False),  # by the noisy count, not by a usual number
    ],
)
def test_units_of_a_rare_class_are_not_mixed(share, neighboring, n, bends):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (n, 2)), (np.arange(n) < share * n).astype(int)
    model = DPWassersteinMLPClassifier(
        fairness_weight=0,
        bounds=(-1, 1),
        classes=[0, 1],
        neighboring=neighboring,
        max_iter=1,
        learning_rate=1e-12,
        random_state=0,
    ).fit(X, y)
    assert (model._activations[0] == "mixed") == bends


def test_what_is_enough_goes_by_columns_and_by_evenness():
    model = DPWassersteinMLPRegressor(**BENDS)
    targets = TargetCounts(n_targets=1)
    for n_columns, evenness in [(1, 1.0), (4, 1.0), (4, 0.5)]:
        counts = [RangeCounts(64, n_columns, INPUTS), targets]
        least = 150 * n_columns / evenness**2
        assert model._bends(counts, 1.02 * least, evenness)
        assert not model._bends(counts, 0.98 * least, evenness)
        fewer = [RangeCounts(16, n_columns, INPUTS), targets]
        assert not model._bends(fewer, 2 * least, evenness)
    assert not model._bends([targets], 1e9, 1.0)
    assert model._bends(counts, np.float64(np.inf), 0.0)  # and no warning
    assert RealOutputs(1).evenness(np.array([0.1, -0.25])) == 0.5
    assert RealOutputs(1).evenness(np.array([0.7])) == 0.0
    for shares, evenness in [((0.1, 0.9), 0.2), ((0.2, 0.3, 0.5), 1.0)]:
        found = SimplexOutputs(1).evenness(np.log(shares))
        assert found == pytest.approx(evenness)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_replay_of_mixed_units(relation, monkeypatch):
    """Whether units are mixed is decided by what was released."""
    bent, base = [], "fairpriv_sklearn.neural_network._base"
    forward, backward = ACTIVATIONS["mixed"]
    monkeypatch.setattr(f"{base}.SIGNAL_OF_BENDS", 1e-3)

    def seen(z):
        bent.append(z.shape)
        return forward(z)

    monkeypatch.setitem(ACTIVATIONS, "mixed", (seen, backward))
    X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    few = {"max_iter": 2, "hidden_layer_sizes": (8,), "epsilon": 100.0}
    for model, y in (
        (DPWassersteinMLPRegressor(**BENDS), X[:, 0] * X[:, 1]),
        (DPWassersteinMLPClassifier(classes=[0, 1]), (X[:, 0] > 0).astype(int)),
    ):
        model.set_params(bounds=(-1, 1), fairness_weight=0, neighboring=relation, **few)
        pairs = audit.neighbours(X, y, neighboring=relation)
        report = audit.replay(model, pairs)
        assert not report.findings, str(report)
        assert 0.1 < report.largest_ratio <= 1 + 1e-9
        assert bent
        bent.clear()


def test_a_network_learns_what_is_not_odd(monkeypatch):
    base, scores = "fairpriv_sklearn.neural_network._base", []
    for _ in range(2):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            X = rng.uniform(-1, 1, (8500, 4))
            y = np.sign(X[:, 0] * X[:, 1])
            model = DPWassersteinMLPRegressor(**BENDS, random_state=seed)
            scores.append(model.fit(X[:4500], y[:4500]).score(X[4500:], y[4500:]))
        monkeypatch.setattr(f"{base}.SIGNAL_OF_BENDS", np.inf)
    assert np.mean(scores[:3]) > np.mean(scores[3:]) + 0.05


def test_networks_start_in_pairs_and_codes_do_not():
    X, Y, groups = planar_table(300)
    steps = {"max_iter": 1, "learning_rate": 1e-9, "average": False, "epsilon": 2.0}
    for sizes, n_pairs in [((16,), 8), ((4, 5), 2), ((1,), 0), ((), 0)]:
        model = make("regressor", hidden_layer_sizes=sizes, **steps)
        model.fit(X, Y, sensitive_features=groups)
        above = model.coefs_[-1]  # in units of a learnt range, here of half
        assert np.abs(above[: 2 * n_pairs]).min(initial=1.0) > 1e-3 / 2
        assert_allclose(above[:n_pairs], -above[n_pairs : 2 * n_pairs], atol=1e-6)
        assert_allclose(above[2 * n_pairs :], 0.0, atol=1e-6)
        if n_pairs:
            below = model.coefs_[-2]
            assert_allclose(
                below[:, :n_pairs], below[:, n_pairs : 2 * n_pairs], atol=1e-6
            )
    model = make("code", hidden_layer_sizes=(), n_components=2, **steps)
    codes = model.fit(X, sensitive_features=groups).transform(X)
    assert np.abs(codes[:, 0] - codes[:, 1]).mean() > 0.1


def test_networks_learn_on_small_tables():
    """A disc and its rim; from zero weights above .01 and .66 were reached."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(8000, 2))
    radius = (X**2).sum(axis=1)
    y = radius + 0.2 * rng.normal(size=8000)
    train, test = np.split(rng.permutation(8000), [5000])
    fair = {"epsilon": 2.0, "fairness_weight": 0, "bounds": (-1, 1)}
    scores = [[], []]
    for seed in range(4):
        fair["random_state"] = seed
        model = DPWassersteinMLPRegressor(target_bounds=(-1, 3), **fair)
        scores[0].append(model.fit(X[train], y[train]).score(X[test], y[test]))
        model = DPWassersteinMLPClassifier(classes=[False, True], **fair)
        model.fit(X[train], y[train] > 2 / 3)
        scores[1].append(model.score(X[test], y[test] > 2 / 3))
    assert np.mean(scores[0]) > 0.15
    assert np.mean(scores[1]) > 0.75


def wide_regressor(**params):
    settings = {"fairness_weight": 0, "bounds": (-1, 1), "random_state": 0}
    return DPWassersteinMLPRegressor(**{**settings, **params})


def test_bounds_much_wider_than_the_targets_cost_little():
    """Two targets in different units; before, R2 was below -10."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(6000, 2))
    Y = X + 0.3 * rng.normal(size=X.shape)
    Y = np.column_stack([5e4 + 1e4 * Y[:, 0], Y[:, 1]])
    model = wide_regressor(target_bounds=([0, -40], [2e6, 40]), epsilon=2.0)
    model.fit(X[:5000], Y[:5000])
    unexplained = np.mean((model.predict(X[5000:]) - Y[5000:]) ** 2, axis=0)
    assert (1 - unexplained / Y[5000:].var(axis=0)).min() > 0.5
    assert_array_equal(model.target_bounds_, [[0, -40], [2e6, 40]])


def test_the_learnt_range_is_twice_what_holds_the_targets():
    """Where it is not wider than the bounds; the middle is that of what holds them."""
    seen = np.zeros((2, 64))
    seen[0, 40:48] = 1000  # from .25 to .5, and a cell more on either side
    seen[1] = 125
    learnt = LearntRange.of(
        [
            CountedPart(TargetCounts(), 8000, released=counts, looks=1, scale=0.0)
            for counts in seen
        ]
    )
    assert learnt.center == approx([0.375, 0.0])
    assert learnt.width == approx([2 * (0.125 + 1 / 32), 1.0])


@pytest.mark.parametrize("width", [1, 20])
def test_the_mean_of_a_skewed_target_is_kept(width, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(5000, 2)), np.exp(1.2 * rng.normal(size=5000))
    bounds = (-width, width)
    model = wide_regressor(target_bounds=(0, 50), epsilon=np.inf, bounds=bounds)
    assert model.fit(X, y).predict(X).mean() == approx(y.clip(0, 50).mean(), abs=1e-3)
    monkeypatch.setattr(OutputResiduals, "value", lambda _, total, __: 0.0 * total)
    assert model.fit(X, y).predict(X).mean() < y.mean() - 0.2


@pytest.mark.parametrize(
    ("noise", "doubt", "above", "added", "reach", "spread", "shift"),
    # In half the range: all of it above any output, 12, or as far as .02 of noise. The
    # square of a mean with weights is believed less twice its variance, or four times,
    # where its noise is more than .15 of the spread.
    [
        (0.0, 0.0, 0.4, 0.1, 12, 0.5, 4.8),
        (0.0, 0.1, 0.4, 0.1, 12, 0.5, 4.8),
        (0.001, 1e9, 0.004, 0.5, 12, 0.5, 0.048 * 7 / 8),
        (0.01, 1e9, 0.04, 0.5, 2, 0.5, 0.08 * 7 / 8),
        (0.01, 1e9, -0.04, 0.5, 2, 0.5, -0.08 * 7 / 8),
        (0.01, 1e9, 0.0141, 0.5, 2, 0.5, 0.0),
        (0.1, 1e9, 0.4, 0.5, 1, 0.5, 0.4 * 3 / 4),
        (0.01, 1e9, 0.04, 0.5, 2, 0.1335, 0.08 * 7 / 8),
        (0.01, 1e9, 0.04, 0.5, 2, 0.1333, 0.08 * 3 / 4),
        (0.01, 1e9, 0.0199, 0.5, 2, 0.1333, 0.0),
        (0.01, 0.0, 0.04, -0.03, 2, 0.5, 0.04 * 0.9),
        (0.01, 0.0, 0.04, -0.06, 2, 0.25, 0.56 / 17 - 0.0008 / 0.56),
        (0.01, 0.0003**0.5, 0.04, -0.04, 2, 0.5, 0.06 * 8 / 9),
        (0.01, 0.0003**0.5, -0.01, 0.01, 2, 0.5, 0.0),
    ],
)
def test_outputs_are_shifted_by_what_stands_out(
    noise, doubt, above, added, reach, spread, shift
):
    class Wall:
        def scale(self, query):
            assert query.n_outputs == 2
            return 100 * noise

        def release(self, query, rows):
            block = types.SimpleNamespace(y=np.full((1, 1), 0.6), n_rows=1)
            block.x = np.ones((1, 1))
            # Of the range from 0 to .2, 5 above the centre; the output is 2.
            expected = [[3.0 / reach, 0.5 / (2 * spread)]]
            assert query.targets(block) == approx(np.array(expected))
            return 100 * np.array([above, added])

    learnt = LearntRange(np.array([0.1]), np.array([0.1]), spread)
    network, targets = Network((1, 1)), attrgetter("y")
    network.theta[:] = [1.0, 1.0]
    where = np.array([1.5]), doubt, targets, 100
    wide_regressor()._correct(Wall(), None, network, learnt, *where)
    assert network.biases[0] == approx(1.0 + shift, abs=1e-6)
    learnt.undo(network)
    assert network.theta == approx([0.1, 0.1 * (1.0 + shift) + 0.1], abs=1e-6)


def skewed(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, size=(n, 4)), np.exp(rng.normal(size=n)).clip(0, 12)


def test_outputs_are_held_against_the_constant_that_was_paid_for(monkeypatch):
    told, correct = [], DPWassersteinMLPRegressor._correct

    def noted(*given):
        told.append(given)
        return correct(*given)

    monkeypatch.setattr(DPWassersteinMLPRegressor, "_correct", noted)
    with recording() as seen:
        wide_regressor(target_bounds=(0, 12), epsilon=1.0).fit(*skewed())
    (crossing,) = (one for one in seen.crossings if one.name == "constant")
    constant, doubt = told[0][5:7]
    noise = crossing.sensitivity / crossing.parameter / 1500
    assert doubt == approx(noise, rel=1e-4)
    assert constant == approx(crossing.released / 1500, rel=0.02)


def test_the_mean_of_a_skewed_target_that_no_feature_tells_is_kept():
    """Residuals alone, with more noise, left twice as much: .025 of the variance."""
    off = []
    for seed in range(24):
        X, y = skewed(seed=seed)
        model = wide_regressor(target_bounds=(0, 12), epsilon=1.0, random_state=seed)
        off.append((model.fit(X, y).predict(X).mean() - y.mean()) / y.std())
    assert np.mean(np.square(off)) < 0.017, np.mean(np.square(off))


def correlated(n=4000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1)) * [1.0, 2e-3, 30] + [5, 0, -200]
    return X + 0.3 * rng.normal(size=X.shape) * [1.0, 2e-3, 30]


WIDE = {"bounds": ([-20, -0.2, -900], [40, 0.05, 400]), "fairness_weight": 0}


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_bounds_much_wider_than_the_features_cost_codes_little(relation):
    """A line in three units."""
    X = correlated(8000)
    model = DPWassersteinAutoencoder(
        1, epsilon=2.0, neighboring=relation, random_state=0, **WIDE
    ).fit(X)
    assert "range counts" in model.privacy_.mechanism
    assert_array_equal(model.bounds_, WIDE["bounds"])
    rows = model.inverse_transform(model.transform(X))
    assert (np.mean((rows - X) ** 2, axis=0) / X.var(axis=0)).max() < 0.5


def test_ranges_of_inputs_are_folded_into_the_network():
    network, rng = (
        Network((2, 3, 2), hidden_activation="tanh"),
        np.random.default_rng(0),
    )
    network.theta[:] = rng.normal(size=network.theta.size)
    learnt = LearntRange(np.array([0.25, -0.5]), np.array([0.125, 0.25]))
    X = rng.uniform(-1, 1, size=(9, 2)) * learnt.width + learnt.center
    inside = learnt.clipped(lambda block: block.x)(types.SimpleNamespace(x=X))
    answers = network.predict(inside) * learnt.width + learnt.center
    learnt.undo(network, of_inputs=True)
    assert_allclose(network.predict(X), answers, rtol=1e-12)


@pytest.mark.parametrize(
    ("params", "is_told"),
    [
        ({}, True),
        ({"epsilon": 0.1}, False),
        ({"data_norm": 2.0}, False),
        ({"bounds": None}, False),
    ],
)
def test_ranges_of_inputs_are_learnt_where_bounds_alone_scale_them(params, is_told):
    model = DPWassersteinAutoencoder(1, max_iter=2, **{**WIDE, **params})
    model.fit(np.zeros((900, 3)))
    assert ("range counts" in model.privacy_.mechanism) == is_told


def test_codes_are_the_same_bits_however_rows_come():
    X = correlated(3000)
    params = {"max_iter": 3, "random_state": 0, "groups": [0, 1], **WIDE}
    params["fairness_weight"] = 0.5
    groups = np.arange(3000) % 2
    whole = DPWassersteinAutoencoder(2, **params).fit(X, sensitive_features=groups)
    cuts = [0, 1, 700, 3000]
    batches = [
        (X[i:j], None, groups[i:j]) for i, j in zip(cuts[:-1], cuts[1:], strict=True)
    ]
    parts = DPWassersteinAutoencoder(2, **params).fit(Batches(batches))
    for one, other in zip(whole.coefs_, parts.coefs_, strict=True):
        assert_array_equal(one, other)


def test_inputs_have_one_range_of_the_largest_width():
    counts = RangeCounts(64, n_targets=2)
    released = np.zeros((2, 64))
    released[0, [4, 8]] = released[1, [1, 14]] = 50.0
    learnt = LearntRange.of_inputs(counts, released.ravel(), 100, 0.0)
    assert_allclose(learnt.width, np.full(2, 16 * 1.25 / 64))
    assert_allclose(learnt.center, [-1 + 20 / 64, -1 + 20 / 64])


def in_units(n, rng):
    """Columns in three units, and one that is known to be constant."""
    Z = rng.normal(size=(n, 4))
    return Z * [1.0, 2e-3, 30, 0] + [5, 0, -200, 7], Z @ [1, -1, 1, 0]


WIDE_COLUMNS = {
    "bounds": ([-40, -0.2, -2400, 7], [60, 0.03, 600, 7]),
    "fairness_weight": 0,
    "random_state": 0,
}


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_bounds_much_wider_than_the_features_cost_networks_little(kind, relation):
    """Before, accuracy was .52 and R2 .00."""
    rng = np.random.default_rng(0)
    (X, score), (fresh, wanted) = in_units(4000, rng), in_units(2000, rng)
    params = {**WIDE_COLUMNS, "neighboring": relation, "epsilon": 2.0}
    if kind == "classifier":
        score, wanted = (score > 0).astype(int), (wanted > 0).astype(int)
        model, least = DPWassersteinMLPClassifier(classes=[0, 1], **params), 0.92
    else:
        model = DPWassersteinMLPRegressor(target_bounds=(-6, 6), **params)
        least = 0.85
    model.fit(X, score)
    assert model.score(fresh, wanted) > least
    (low, high), given = model.bounds_, params["bounds"]
    assert (given[0] <= low).all() and (high <= given[1]).all()
    assert_array_equal((low[3], high[3]), 7)
    spread = X[:, :3].std(axis=0)
    assert (2 * spread < (high - low)[:3]).all()
    assert ((high - low)[:3] < 16 * spread).all()
    # A row beyond the ranges is what the training saw of it.
    far, nearest = np.tile(given, (1, 1)), np.stack([low, high])
    assert_array_equal(model.predict(far), model.predict(nearest))


def test_rows_of_a_large_table_are_made_in_every_step_and_are_the_same(monkeypatch):
    X, score = in_units(4000, np.random.default_rng(0))
    params = {"classes": [0, 1], "epsilon": 1.0, "max_iter": 2, **WIDE_COLUMNS}
    model = DPWassersteinMLPClassifier(**params)
    given = X, (score > 0).astype(int)
    once = model.fit(*given).coefs_
    made, narrowed = [], NarrowedRows._made
    monkeypatch.setattr(_design, "_LARGE", X.size - 1)
    monkeypatch.setattr(
        NarrowedRows, "_made", lambda *told: made.append(0) or narrowed(*told)
    )
    for own, other in zip(model.fit(*given).coefs_, once, strict=True):
        assert_array_equal(own, other)
    assert len(made) > 2


def test_training_sees_rows_as_prediction_does(monkeypatch):
    """And the second look is at what the first one left."""
    looks, seen = [], []

    def learnt(counts, released, n_records, noise, units):
        assert_array_equal(units, np.arange(4))
        looks.append(released.reshape(4, -1))
        return np.full(4, 0.25), np.full(4, 0.5)

    descend = DPWassersteinMLPClassifier._descend

    def watched(self, wall, rows, network, head, targets, sizes):
        seen.extend(block.x for block in rows.blocks(4000))
        descend(self, wall, rows, network, head, targets, sizes)

    monkeypatch.setattr(RangeCounts, "learnt", learnt)
    monkeypatch.setattr(DPWassersteinMLPClassifier, "_descend", watched)
    X, score = in_units(4000, np.random.default_rng(0))
    params = {"classes": [0, 1], "epsilon": np.inf, "max_iter": 1, **WIDE_COLUMNS}
    model = DPWassersteinMLPClassifier(**params).fit(X, (score > 0).astype(int))
    low, high = np.array(WIDE_COLUMNS["bounds"])
    center, half = (low + high) / 2, (high - low) / 2
    # .25 + .5 * (.25 - .5) = .125 and .25 + .5 * (.25 + .5) = .625
    assert_allclose(model.bounds_, [center + 0.125 * half, center + 0.625 * half])
    assert_allclose(np.concatenate(seen), model._predict_rows(X), atol=1e-5)
    scaled = (X - center) / np.where(half > 0, half, 1.0)
    first, second = scaled, np.clip((scaled - [0.25, 0.25, 0.25, 0]) / 0.5, -1, 1)
    for look, column in zip(looks, (first, second), strict=True):
        for counted, values in zip(look, column.T, strict=True):
            expected, _ = np.histogram(values, bins=64, range=(-1, 1))
            assert abs(counted - expected).sum() < 20  # on the grid, at edges


@pytest.mark.parametrize(
    ("params", "n_bins"),
    # Records times the parameter are 225 times the root of 4 columns in 64 bins.
    [
        ({"n": 3000, "epsilon": 1.0}, 64),
        ({"n": 1500, "epsilon": 1.0}, 16),
        ({"n": 700, "epsilon": 1.0}, 8),
        ({"n": 550, "epsilon": 1.0}, None),
        ({"n": 3000, "epsilon": 1.0, "data_norm": 2.0}, None),
        ({"n": 3000, "epsilon": 1.0, "bounds": None}, None),
        ({"n": 550, "epsilon": 1.0, "neighboring": "add_remove"}, 64),
    ],
)
def test_ranges_of_columns_are_learnt_where_that_tells_them(params, n_bins):
    """Twice, with half of 5 % of the squared parameter each."""
    params = {**WIDE_COLUMNS, **params}
    X, score = in_units(params.pop("n"), np.random.default_rng(0))
    model = DPWassersteinMLPRegressor(max_iter=2, target_bounds=(-6, 6), **params)
    with recording() as told:
        model.fit(X, score)
    looks = [one for one in told.crossings if one.name == "range counts"]
    assert len(looks) == 2 * bool(n_bins)
    total = sum(one.parameter**2 for one in told.crossings)
    for look in looks:
        assert look.exact.shape == (4 * n_bins,)
        assert look.parameter**2 == approx(0.025 * total, rel=1e-6)
    (event,) = (one for one in model.privacy_.events if one.kind == "gaussian")
    assert total == approx(event.mu**2, rel=1e-6)
