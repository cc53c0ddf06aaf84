"""How far outputs of networks are scaled: see ``neural_network/_line_search.py``."""

from operator import attrgetter
from types import SimpleNamespace

import numpy as np
import pytest
from _recording import recording
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from fairpriv_sklearn._shared.rowwise import row_scores
from fairpriv_sklearn._training._line_search import posterior_mean, search_share
from fairpriv_sklearn._training._network import Network
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.neural_network._line_search import (
    LONGEST,
    SEARCH_SHARE,
    derivatives_along,
    scale_outputs,
)
from fairpriv_sklearn.neural_network._objective import (
    RealOutputs,
    SimplexOutputs,
)
from fairpriv_sklearn.neural_network._queries import AlongOutputs

TARGETS = attrgetter("y")
N = 5000


class Wall:
    """Exact sums and a known noise, which is not added."""

    def __init__(self, noise=0.0):
        self.noise = noise

    def scale(self, query):
        return N * self.noise

    def release(self, query, rows):
        return query.of_block(rows, None) / query.unit


def linear(weights, constant):
    """A network whose outputs are linear in its inputs, above a constant."""
    network = Network((len(weights), weights.shape[1]), product=row_scores)
    network.weights[0][:], network.biases[0][:] = weights, constant
    return network


def block(x, y):
    return SimpleNamespace(x=x, y=y, n_rows=len(x))


def numbers(signal=1.0, noise=0.1):
    rng = np.random.default_rng(0)
    x = 0.2 * rng.normal(size=(N, 2))
    return x, signal * x + noise * rng.normal(size=(N, 2)) + [0.1, -0.2]


def factors(network, head, constant, rows, longest=LONGEST, noise=0.0):
    before = network.weights[-1].copy()
    told = Wall(noise), rows, network, head, constant, TARGETS, N, longest
    scale_outputs(*told)
    off = network.biases[-1] - constant
    return np.diag(network.weights[-1] / before), off


@pytest.mark.parametrize("longest", [1.0, LONGEST])
def test_outputs_of_every_target_are_scaled_to_what_they_tell(longest):
    x, y = numbers()
    constant = np.array([0.1, -0.2])
    network = linear(np.array([[4.0, 1e-9], [1e-9, 0.8]]), constant)
    head = RealOutputs(1, spread=10.0)  # nothing is cut off
    found, off = factors(network, head, constant, block(x, y), longest)
    own = x * [4.0, 0.8]
    best = ((y - constant) * np.sign(own)).mean(axis=0) / np.abs(own).mean(axis=0)
    assert best == approx([0.25, 1.25], rel=0.02)
    assert_allclose(found, np.minimum(best, longest), atol=1e-4)
    assert_array_equal(off, 0.0)


def test_an_offset_of_the_outputs_is_scaled_with_them():
    x, y = numbers()
    constant = np.zeros(2)
    network = linear(2 * np.eye(2) + 1e-12, constant + [0.01, 0.0])
    found, off = factors(network, RealOutputs(1, spread=2.0), constant, block(x, y))
    assert off == approx(found * [0.01, 0.0], abs=1e-12)


@pytest.mark.parametrize("strength", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_logits_are_scaled_to_where_the_log_loss_is_least(n_classes, strength):
    rng = np.random.default_rng(1)
    x = 0.5 * rng.normal(size=(N, n_classes))
    constant = np.log(np.arange(1.0, n_classes + 1))
    chances = softmax(constant + x, axis=1)
    labels = (chances.cumsum(axis=1) < rng.uniform(size=(N, 1))).sum(axis=1)
    rows = block(x, np.eye(n_classes)[labels])

    def loss(factor):
        logits = log_softmax(constant + factor * strength * x, axis=1)
        return -logits[np.arange(N), labels].mean()

    best = minimize_scalar(loss, bounds=(0, 3), method="bounded").x
    network = linear(strength * np.eye(n_classes) + 1e-12, constant)
    found, _ = factors(network, SimplexOutputs(1), constant, rows, longest=3.0)
    assert_allclose(found, found[0])
    # No more than a line through two of its points.
    assert found[0] == approx(best, rel=0.08)


@pytest.mark.parametrize("head", [RealOutputs(1, spread=0.3), SimplexOutputs(1)])
def test_derivatives_are_those_of_the_loss(head):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 3)) * 0.3
    is_simplex = isinstance(head, SimplexOutputs)
    y = np.eye(3)[rng.integers(3, size=300)] if is_simplex else 0.3 * x + 0.1
    constant = np.array([0.1, 0.0, -0.1])
    network = linear(np.eye(3), constant)
    along = derivatives_along(network, head, constant, TARGETS)
    own = network.predict(x) - constant
    weights, step = head.weights(own), 1e-6

    def losses(outputs):
        if is_simplex:
            return -(y * log_softmax(outputs, axis=1)).sum(axis=1, keepdims=True)
        return (outputs - y) ** 2

    def slopes(share):
        ends = (constant + share * own + sign * step * weights for sign in (1, -1))
        return np.subtract(*map(losses, ends)) / (2 * step)

    largest, largest_change = head.limits(constant)
    found, changes = np.split(along(block(x, y)), 2, axis=1)
    assert_allclose(found * largest, slopes(1), atol=1e-8)
    changes = (changes + 1) / 2 * largest_change
    assert_allclose(changes, slopes(1) - slopes(0.5), atol=1e-8)
    assert changes.min() >= -1e-12


@pytest.mark.parametrize("spread", [0.1, 0.4])
def test_derivatives_of_numbers_are_cut_off_at_parts_of_their_deviation(spread):
    """At 2 deviations on either side, and 1.5 of what they gain on half of the way."""
    constant = np.zeros(1)
    network = linear(np.ones((1, 1)), constant)
    head = RealOutputs(1, spread=spread)
    own = spread * np.array([[-2.0], [-1.5], [0.75], [1.5], [2.0]])
    residuals = spread * np.array([[-2.0], [-1.0], [0.5], [1.0], [3.0]])
    rows = block(own, own - residuals * np.sign(own))
    along = derivatives_along(network, head, constant, TARGETS)
    query = AlongOutputs(2, along, are_counts=False)
    expected = [(-1, 1), (-1, 1), (0.5, 0), (1, 1), (1, 1)]
    for x, y, told in zip(rows.x, rows.y, expected, strict=True):
        found = query.of_block(block(x[None], y[None]), None) / query.unit
        assert found == approx(told, abs=1e-5)


def test_limits_of_classes_are_what_a_rare_class_may_have():
    constant = np.log([0.02, 0.98])
    (largest, change) = SimplexOutputs(1).limits(constant)
    assert largest == approx(2 * 0.98) and change == 0.5
    far = np.array([[-40.0, 40.0]])
    weights = SimplexOutputs(1).weights(far)
    assert_allclose(weights, [[-1, 1]])
    gradient = SimplexOutputs(1).loss_gradient([constant + far], np.eye(2)[:1])
    assert SimplexOutputs(1).along(weights, gradient) == approx(2.0)
    assert_allclose(SimplexOutputs(1).weights(np.array([[0.1, 0.8]])), [[-0.25, 0.25]])


@pytest.mark.parametrize("told", [-3.0, -0.2, 0.4, 0.9, 1.3, 4.0])
@pytest.mark.parametrize("error", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("longest", [1.0, 1.5])
def test_what_noise_leaves_open_is_the_mean_of_what_it_may_be(told, error, longest):
    factors = np.linspace(0, longest, 400_001)
    shape = -(((told - factors) / error) ** 2) / 2 - 3 * factors
    mean = np.average(factors, weights=np.exp(shape - shape.max()))
    found = posterior_mean(np.array([told]), np.array([error]), 3 * error, longest)
    assert found == approx(mean, abs=0.04 * error)


def test_without_an_error_it_is_what_is_told():
    told = np.array([-2.0, 0.0, 0.3, 1.0, 1.5, 7.0])
    with np.errstate(all="raise", under="ignore"):
        found = posterior_mean(told, np.zeros(6), 0.0, 1.5)
    assert_allclose(found, np.clip(told, 0, 1.5), atol=1e-7)


@pytest.mark.parametrize("noise, least, most", [(1e-4, 0, 0.01), (0.5, 0.2, 0.5)])
def test_outputs_that_tell_nothing_are_shortened(noise, least, most):
    x, y = numbers(signal=0.0)
    constant = np.array([0.1, -0.2])
    network = linear(np.eye(2) + 1e-12, constant)
    head = RealOutputs(1, spread=1.0)
    found, _ = factors(network, head, constant, block(x, y), noise=noise)
    assert (least <= found).all() and (found < most).all(), found


@pytest.mark.parametrize("longest", [1.0, LONGEST])
def test_errors_of_the_factor_are_those_of_the_noise(longest, monkeypatch):
    """The spread of what is told with noise around the same sums."""
    x, y = numbers()
    constant, noise = np.array([0.1, -0.2]), 0.002
    head, rows = RealOutputs(1, spread=2.0), block(x, y)
    drawn, stated = [], []

    class NoisyWall(Wall):
        def release(self, query, rows):
            noise = N * self.noise * rng.normal(size=query.n_coordinates)
            return super().release(query, rows) + noise

    def told(told, error, *_):
        drawn.append(told)
        stated.append(error)
        return told

    monkeypatch.setattr(
        "fairpriv_sklearn.neural_network._line_search.posterior_mean", told
    )
    rng = np.random.default_rng(0)
    for _ in range(400):
        network = linear(np.diag([8.0, 1.0]) + 1e-12, constant)
        where = network, head, constant, TARGETS, N, longest
        scale_outputs(NoisyWall(noise), rows, *where)
    assert_allclose(np.std(drawn, axis=0), np.mean(stated, axis=0), rtol=0.12)


def test_share_of_the_search():
    shares = [
        search_share(one, SEARCH_SHARE) for one in (0.0, 300.0, 600.0, 1000.0, 1e9)
    ]
    assert shares == approx([0.1, 0.1, 0.05, 0.03, 0.03])


def table(n=3000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 20))
    return X, rng.normal(size=n), rng.integers(0, 2, size=n)


def searched(model, monkeypatch, **fit):
    """Names of releases; the model, whose next fits leave outputs as they are."""
    model.set_params(random_state=0, bounds=(-1, 1), groups=[0, 1])
    with recording() as seen:
        model.fit(**fit)
    names = [one.name for one in seen.crossings]
    monkeypatch.setattr(
        "fairpriv_sklearn.neural_network._line_search.posterior_mean",
        lambda told, *_: np.ones_like(told),
    )
    return names, model


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_noise_is_taken_out_of_networks_that_learn_nothing(weight, monkeypatch):
    X, y, groups = table()
    model = DPWassersteinMLPRegressor(target_bounds=(-4, 4), fairness_weight=weight)
    fit = {"X": X, "y": y, "sensitive_features": groups}
    names, model = searched(model, monkeypatch, **fit)
    assert names[-2:] == ["line search", "mean residual"]
    now = model.predict(X).std()
    before = model.fit(**fit).predict(X).std()
    assert now < 0.8 * before, now / before


@pytest.mark.parametrize("weight, longest", [(0.0, 1.5), (0.3, 1.0)])
def test_a_penalty_is_not_undone(weight, longest, monkeypatch):
    X, _, groups = table()
    asked = []
    monkeypatch.setattr(
        "fairpriv_sklearn.neural_network._line_search.posterior_mean",
        lambda told, error, rate, longest: asked.append(longest) or told,
    )
    model = DPWassersteinMLPClassifier(
        fairness_weight=weight, classes=[0, 1], bounds=(-1, 1), groups=[0, 1]
    )
    model.fit(X, groups, sensitive_features=groups)
    assert asked == [longest]


def test_a_decoder_is_not_scaled():
    X, _, groups = table()
    model = DPWassersteinAutoencoder(bounds=(-1, 1), groups=[0, 1], max_iter=3)
    with recording() as seen:
        model.fit(X, sensitive_features=groups)
    assert "line search" not in {one.name for one in seen.crossings}
