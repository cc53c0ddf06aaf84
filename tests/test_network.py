"""Networks against finite differences and explicit per-example gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpriv_sklearn._shared.rowwise import row_scores
from fairpriv_sklearn._training._network import ACTIVATIONS, SGD, Adam, Network


def make_network(hidden="tanh", output="identity", sizes=(3, 5, 4, 2), seed=0):
    rng = np.random.default_rng(seed)
    network = Network(sizes, hidden_activation=hidden, output_activation=output)
    network.initialize(rng.standard_normal)
    network.theta += 0.1 * rng.standard_normal(network.theta.shape)
    return network, rng


def scalar(network, X, V):
    return (network.predict(X) * V).sum()


def numerical_gradient(function, x, step=1e-6):
    gradient = np.empty_like(x)
    for i in np.ndindex(x.shape):
        old = x[i]
        x[i] = old + step
        above = function()
        x[i] = old - step
        gradient[i] = (above - function()) / (2 * step)
        x[i] = old
    return gradient


@pytest.mark.parametrize("output", sorted(ACTIVATIONS))
@pytest.mark.parametrize("hidden", ["relu", "tanh", "logistic", "mixed"])
def test_gradients_match_finite_differences(hidden, output):
    # narrow layers that are mixed have units of one kind only
    sizes = (3, 9, 8, 2) if hidden == "mixed" else (3, 5, 4, 2)
    network, rng = make_network(hidden, output, sizes)
    X, V = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    outputs = network.forward(X)
    deltas = network.backward(outputs, V)
    expected = numerical_gradient(lambda: scalar(network, X, V), network.theta)
    np.testing.assert_allclose(network.gradient(outputs, deltas), expected, atol=1e-8)
    expected = numerical_gradient(lambda: scalar(network, X, V), X)
    pulled = network.product(deltas[0], network.weights[0].T)
    np.testing.assert_allclose(pulled, expected, atol=1e-8)


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 7))
def test_norms_and_sums_match_explicit_gradients(seed, n_layers, n):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=n_layers + 1)
    network, rng = make_network(sizes=sizes, seed=seed)
    X, V = rng.standard_normal((n, sizes[0])), rng.standard_normal((n, sizes[-1]))
    outputs = network.forward(X)
    deltas = network.backward(outputs, V)
    explicit = []
    for i in range(n):
        one = network.forward(X[i : i + 1])
        explicit.append(network.gradient(one, network.backward(one, V[i : i + 1])))
    norms = network.gradient_norms(outputs, deltas)
    np.testing.assert_allclose(norms, np.linalg.norm(explicit, axis=1), rtol=1e-12)
    summed = network.gradient(outputs, deltas)
    np.testing.assert_allclose(summed, np.sum(explicit, axis=0), rtol=1e-9, atol=1e-12)


def test_one_direction_serves_every_example():
    network, rng = make_network(output="logistic")
    X, direction = rng.standard_normal((4, 3)), np.array([0.6, -0.8])
    outputs = network.forward(X)
    shared = network.backward(outputs, direction)
    repeated = network.backward(outputs, np.tile(direction, (4, 1)))
    # direction^T J_i through the explicit Jacobian of one example
    jacobian = [
        network.gradient(
            network.forward(X[:1]), network.backward(network.forward(X[:1]), unit)
        )
        for unit in np.eye(2)
    ]
    for got, expected in zip(shared, repeated, strict=True):
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_allclose(
        network.gradient_norms(outputs, shared)[0],
        np.linalg.norm(direction @ np.array(jacobian)),
    )


def test_rows_do_not_see_each_other_with_the_row_pure_product():
    rng = np.random.default_rng(0)
    network = Network((7, 11, 3), output_activation="logistic", product=row_scores)
    network.initialize(rng.standard_normal)
    X = rng.standard_normal((300, 7))
    V = rng.standard_normal(3)

    def norms(X):
        outputs = network.forward(X)
        return network.gradient_norms(outputs, network.backward(outputs, V))

    order = rng.permutation(300)[:131]
    np.testing.assert_array_equal(norms(X)[order], norms(X[order]))


def test_initialisation_keeps_the_scale_and_zero_biases():
    network = Network((400, 300, 2))
    network.initialize(np.random.default_rng(0).standard_normal)
    np.testing.assert_allclose(network.weights[0].std(), np.sqrt(2 / 400), rtol=0.01)
    np.testing.assert_allclose(network.weights[1].std(), np.sqrt(1 / 300), rtol=0.1)
    assert not any(b.any() for b in network.biases)
    assert np.shares_memory(network.weights[0], network.theta)


def test_sgd_and_adam_follow_their_definitions():
    theta, gradients = np.array([1.0, -2.0]), np.array([[1.0, 2.0], [-3.0, 0.5]])
    optimizer = SGD(momentum=0.5)
    for g in gradients:
        optimizer.step(theta, g, 0.1)
    # v1 = g1, v2 = g1 / 2 + g2
    expected = np.array([1.0, -2.0]) - 0.1 * (1.5 * gradients[0] + gradients[1])
    np.testing.assert_allclose(theta, expected)

    theta = np.array([1.0, -2.0])
    optimizer = Adam()
    optimizer.step(theta, gradients[0], 0.1)
    # the first step has length learning_rate in every coordinate
    np.testing.assert_allclose(theta, [0.9, -2.1], rtol=1e-7)
    optimizer.step(theta, gradients[1], 0.1)
    mean = (0.09 * gradients[0] + 0.1 * gradients[1]) / (1 - 0.81)
    square = (0.000999 * gradients[0] ** 2 + 0.001 * gradients[1] ** 2) / (1 - 0.999**2)
    expected = np.array([0.9, -2.1]) - 0.1 * mean / np.sqrt(square)
    np.testing.assert_allclose(theta, expected, rtol=1e-7)


@pytest.mark.parametrize("optimizer, rate", [(SGD(0.9), 0.02), (Adam(), 0.01)])
def test_training_fits_a_smooth_function(optimizer, rate):
    rng = np.random.default_rng(0)
    network = Network((1, 16, 1), hidden_activation="tanh")
    network.initialize(rng.standard_normal)
    X = np.linspace(-2, 2, 64)[:, None]
    Y = np.sin(2 * X)
    for _ in range(3000):
        outputs = network.forward(X)
        deltas = network.backward(outputs, (outputs[-1] - Y) / len(X))
        optimizer.step(network.theta, network.gradient(outputs, deltas), rate)
    assert np.mean((network.predict(X) - Y) ** 2) < 0.002
