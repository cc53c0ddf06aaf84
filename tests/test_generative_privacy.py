"""Generators behind the wall: sensitivities, audits, exactness, accounting."""

import math

import numpy as np
import pytest
from _audit import gaussian_audit
from _generative import network_plan, semidual_plan, sliced_plan, table_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpriv_sklearn._network import Network
from fairpriv_sklearn.accounting import compose_delta
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    _exact,
    _network_training,
    _semidual,
    _slices,
    _tables,
)
from fairpriv_sklearn.generative._sinkhorn import calibrate_network
from fairpriv_sklearn.generative._space import UnitCube, dct_basis
from fairpriv_sklearn.mechanisms import GaussianMechanism, noise_source

RELATIONS = ["replace_one", "add_remove"]
REACHED = 0.95  # of the stated sensitivity, by the fuzzing below


def neighbours(rng, relation, n_tables=40, d=4, n_classes=3):
    """Pairs of tables (Z, codes), with records at and beyond every boundary."""
    for _ in range(n_tables):
        n = int(rng.integers(1, 400))
        Z = rng.normal(size=(n, d)) * rng.choice([0.1, 1, 50])
        codes = rng.integers(0, n_classes, n)
        if rng.random() < 0.3:
            Z[:] = Z[0]  # identical rows
        for _ in range(6):
            i = int(rng.integers(n))
            direction = rng.normal(size=d)
            Z[i] = 1e3 * direction
            if relation == "add_remove":
                yield (Z, codes), (np.delete(Z, i, axis=0), np.delete(codes, i))
                continue
            other_Z, other_codes = Z.copy(), codes.copy()
            other_Z[i] = rng.choice(
                [-1e3 * direction, np.roll(direction, 1), np.zeros(d)]
            )
            if rng.random() < 0.5:
                other_codes[i] = rng.integers(n_classes)
            yield (Z, codes), (other_Z, other_codes)


def largest_change(query, pairs):
    return max(np.linalg.norm(query(*D) - query(*other)) for D, other in pairs)


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivity_of_means(relation):
    plan, rng = semidual_plan(), np.random.default_rng(0)
    bound = _semidual.SENSITIVITY[relation][0]
    change = largest_change(
        lambda Z, codes: _semidual.mean_rows(Z, codes, plan), neighbours(rng, relation)
    )
    assert REACHED * bound < change <= bound


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivity_of_second_moments(relation):
    rng = np.random.default_rng(0)
    bound = _semidual.SENSITIVITY[relation][1]

    def query(Z, codes):
        return _semidual.moment_matrices(_exact.encode_rows(Z, 0.7), codes, 3)

    change = largest_change(query, neighbours(rng, relation))
    assert REACHED * bound < change <= bound


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivity_of_semidual_sums(relation):
    rng = np.random.default_rng(0)
    bound = _semidual.SENSITIVITY[relation][2]
    points = rng.normal(size=(3, 5, 4))
    potentials = rng.normal(size=(3, 5))

    def query(Z, codes):
        coded = _exact.encode_rows(Z, 0.7)
        return np.array(
            [
                _semidual.assignment_sums(
                    np.ascontiguousarray(coded[codes == c]),
                    points[c],
                    potentials[c],
                    0.05,
                    0.7,
                )
                for c in range(3)
            ]
        )

    change = largest_change(query, neighbours(rng, relation))
    assert REACHED * bound < change <= bound


def level_tables(rng, relation, plan, n_tables=60):
    """Pairs of tables of levels, with labels, that differ in one record."""
    for _ in range(n_tables):
        n = int(rng.integers(2, 300))
        levels = np.column_stack([rng.integers(0, m, n) for m in plan.block_sizes])
        codes = rng.integers(0, plan.n_classes, n)
        if relation == "add_remove":
            yield (levels, codes), (levels[1:], codes[1:])
            continue
        other, other_codes = levels.copy(), codes.copy()
        other[0] = (levels[0] + 1) % plan.block_sizes
        other_codes[0] = rng.integers(plan.n_classes)
        yield (levels, codes), (other, other_codes)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("one_way", [True, False])
def test_sensitivity_of_tables(relation, one_way):
    plan, rng = table_plan(neighboring=relation), np.random.default_rng(0)
    n_blocks = len(plan.block_sizes)
    bound = math.sqrt((2 if relation == "replace_one" else 1) * n_blocks)
    assert plan.sensitivity == bound
    laws = rng.dirichlet(np.ones(4), size=(2, 3, 3)).reshape(2, 3, -1)
    laws = _tables._project_blocks(20 * laws[..., : plan.n_levels], plan)
    potentials = rng.normal(size=(2, 3))

    def query(levels, codes):
        parts = []
        for c in range(2):
            H = _tables.one_hot(levels[codes == c], plan)
            parts.append(
                H.sum(axis=0)
                if one_way
                else _tables.level_sums(
                    levels[codes == c], H, laws[c], potentials[c], 0.01, plan
                )
            )
        return np.array(parts)

    change = largest_change(query, level_tables(rng, relation, plan))
    assert REACHED * bound < change <= bound * (1 + 1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivity_of_slices(relation):
    rng = np.random.default_rng(0)
    plan = sliced_plan(neighboring=relation)
    directions = _slices.draw_directions(4, plan.n_slices, noise_source(0))
    means, scales = rng.normal(size=(3, 4)), rng.uniform(0.5, 2, size=(3, 7))
    bound = math.sqrt((2 if relation == "replace_one" else 1) * plan.n_slices)
    assert plan.sensitivity == bound
    change = largest_change(
        lambda Z, codes: _slices.slice_counts(
            Z, codes, means, directions, scales, plan
        ),
        neighbours(rng, relation),
    )
    assert REACHED * bound < change <= bound * (1 + 1e-12)


def test_sensitivity_of_the_whole_gradient_clip():
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(200):
        first = rng.normal(size=(5, 3)) * 10.0 ** rng.integers(-3, 200)
        second = rng.choice([-first, 10 * rng.normal(size=(5, 3))])
        pair = [_network_training.clip_whole(g, 0.3) for g in (first, second)]
        worst = max(worst, np.linalg.norm(pair[0] - pair[1]))
    assert REACHED * 0.6 < worst <= 0.6
    bad = np.array([[np.inf, 1.0]])
    np.testing.assert_array_equal(_network_training.clip_whole(bad, 0.3), 0)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31), st.floats(-150, 150), st.integers(1, 40))
def test_coded_rows_stay_in_the_ball(seed, exponent, d):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(20, d)) * 10.0**exponent
    V[0] = np.nan
    coded = _exact.encode_rows(V, 0.3)
    assert (coded == np.trunc(coded)).all() and not coded[0].any()
    assert (np.square(coded).sum(axis=1) <= _exact.UNIT**2).all()
    inside = np.linalg.norm(V[1:], axis=1) < 0.299
    np.testing.assert_allclose(
        coded[1:][inside] * 0.3 / _exact.UNIT, V[1:][inside], atol=0.3 / _exact.UNIT
    )


def test_contributions_do_not_depend_on_other_records():
    """Bit for bit: what stays when a record goes contributes the same."""
    rng = np.random.default_rng(0)
    basis = dct_basis(8, 20)
    space = UnitCube(np.zeros(64), np.full(64, 16.0), basis, 0.0)
    X = rng.uniform(0, 16, size=(600, 64))
    order = rng.permutation(600)[:337]
    np.testing.assert_array_equal(
        space.coordinates(X)[order], space.coordinates(np.asfortranarray(X[order]))
    )


def test_sums_are_exact_integers():
    rng = np.random.default_rng(0)
    coded = _exact.encode_rows(rng.normal(size=(5000, 6)), 1.0)
    P = _exact.encode_probabilities(rng.dirichlet(np.ones(3), size=5000))
    exact = np.array(
        [
            [
                sum(int(p) * int(v) for p, v in zip(P[:, j], coded[:, k], strict=True))
                for k in range(6)
            ]
            for j in range(3)
        ]
    )
    np.testing.assert_array_equal(P.T @ coded, exact)
    np.testing.assert_array_equal(P[::-1].T @ coded[::-1], exact)


def test_too_many_records_are_refused():
    with pytest.raises(ValueError, match="summed exactly"):
        _exact.check_n_records(2**23 + 1)


@pytest.mark.parametrize("relation", RELATIONS)
def test_audit_of_the_first_release(relation):
    """600 releases on a worst pair see an error of a factor sqrt(2) at mu = 1."""
    plan = semidual_plan(neighboring=relation, n_classes=1, n_components=2)
    budget = _exact.GaussianBudget(1.0, noise_source(0))
    Z = np.zeros((3, 2))
    first, second = Z.copy(), Z.copy()
    first[0], second[0] = [9.0, 0.0], [-9.0, 0.0]
    if relation == "add_remove":
        second = second[1:]
    codes = np.zeros(3, dtype=int)
    exact = [_semidual.mean_rows(D, codes[: len(D)], plan) for D in (first, second)]
    direction = (exact[1] - exact[0]).ravel()
    direction /= np.linalg.norm(direction)
    sensitivity = _semidual.SENSITIVITY[relation][0]
    outputs = [
        [budget.release(q, sensitivity, 1.0)[0].ravel() @ direction for _ in range(600)]
        for q in exact
    ]
    assert gaussian_audit(*outputs) <= 1.0
    understated = [
        [
            budget.release(q, sensitivity / math.sqrt(2), 1.0)[0].ravel() @ direction
            for _ in range(600)
        ]
        for q in exact
    ]
    assert gaussian_audit(*understated) > 1.0


def test_audit_of_the_symmetric_release():
    budget = _exact.GaussianBudget(1.0, noise_source(1))
    u, v = np.array([1.0, 0.0]), np.array([0.6, 0.8])
    exact = [np.outer(w, w)[None] for w in (u, v)]
    distance = np.linalg.norm(exact[1] - exact[0])
    direction = (exact[1] - exact[0]) / distance
    outputs = [
        [
            (budget.release_symmetric(q, distance, 1.0)[0] * direction).sum()
            for _ in range(600)
        ]
        for q in exact
    ]
    assert 0.8 < gaussian_audit(*outputs) + 0.2 and gaussian_audit(*outputs) <= 1.0
    released, scale = budget.release_symmetric(np.zeros((4000, 2, 2)), distance, 1.0)
    np.testing.assert_array_equal(released[:, 0, 1], released[:, 1, 0])
    assert released[:, 0, 0].std() == pytest.approx(scale, rel=0.05)
    assert released[:, 0, 1].std() == pytest.approx(scale / math.sqrt(2), rel=0.05)


def test_audit_of_a_whole_fit():
    """One record of 40 moves across the box; the receipt's mu bounds what is seen."""
    X = np.zeros((40, 2))
    other = X.copy()
    X[0], other[0] = [1, 1], [-1, -1]
    outputs = []
    for D in (X, other):
        fits = [
            DPSinkhornGenerator(
                epsilon=4.0, bounds=(-1, 1), n_points=1, random_state=seed
            ).fit(D)
            for seed in range(600)
        ]
        outputs.append([fit._mixture.means.sum() for fit in fits])
    mu = fits[0].privacy_.events[0].mu
    assert 0 < gaussian_audit(*outputs) <= mu


@pytest.mark.parametrize("relation", RELATIONS)
def test_network_accounting_against_a_simulated_loss(relation):
    """Monte-Carlo of the privacy loss of the sampled Gaussian, remove direction."""
    q, n_steps, epsilon, delta = 0.1, 30, 2.0, 1e-2
    multiplier, parts = calibrate_network(epsilon, delta, q, n_steps, 1000, relation)
    rng = np.random.default_rng(0)
    n = 100_000
    loss = np.zeros(n)
    for _ in range(n_steps):
        x = multiplier * rng.standard_normal(n) + (rng.random(n) < q)
        loss += np.log1p(q * np.expm1((2 * x - 1) / (2 * multiplier**2)))
    seen = np.maximum(0, -np.expm1(epsilon - loss))
    error = seen.std() / math.sqrt(n)
    assert seen.mean() - 4 * error <= delta
    assert compose_delta(parts, epsilon) <= delta * (1 + 1e-6)
    if relation == "add_remove":  # there the direction simulated is the worse one
        assert seen.mean() + 4 * error >= 0.95 * delta


def test_network_accounting_edges():
    assert calibrate_network(np.inf, 1e-5, 0.1, 10, 100, "replace_one")[0] == 0
    with pytest.raises(ValueError, match="does not cover the error"):
        calibrate_network(1e-3, 1e-5, 0.1, 10, 10**12, "replace_one")


@pytest.mark.parametrize("l1_weight", [0.0, 0.5])
def test_loss_gradient_against_finite_differences(l1_weight):
    plan = network_plan(regularization=1.0, l1_weight=l1_weight, label_cost=0.4)
    rng = np.random.default_rng(0)
    points, records = rng.random((6, 3)), rng.random((5, 3))
    labels, record_labels = rng.integers(0, 2, 6), np.array([0, 1, 0, 0, 0])
    balanced = np.array([1 / 8, 1 / 2, 1 / 8, 1 / 8, 1 / 8])  # classes weigh the same

    def loss(points):
        total = 0.0
        for weight, A, a, B, b, mass in (
            (2, points[:4], labels[:4], records, record_labels, balanced),
            (-1, points[:4], labels[:4], points[2:], labels[2:], np.full(4, 1 / 4)),
        ):
            cost = _network_training.point_cost(
                A, B, l1_weight=l1_weight, x_labels=a, y_labels=b, label_cost=0.4
            )
            result = _network_training.sinkhorn(
                cost, 1.0, b=mass, max_iter=2000, tol=1e-14
            )
            total += weight * (result.f.mean() + mass @ result.g)
        return total

    gradient = np.vstack(
        _network_training.loss_gradient(points, labels, records, record_labels, plan)
    )
    for i, k in np.ndindex(points.shape):
        step = np.zeros_like(points)
        step[i, k] = 1e-5
        slope = (loss(points + step) - loss(points - step)) / 2e-5
        assert gradient[i, k] == pytest.approx(slope, abs=1e-5)


def test_empty_batches_are_released_like_any_other():
    plan = network_plan()
    rng = np.random.default_rng(0)
    points, labels = rng.random((6, 3)), np.zeros(6, dtype=int)
    private, public = _network_training.loss_gradient(
        points, labels, np.empty((0, 3)), labels[:0], plan
    )
    assert private.shape == (4, 3) and public.shape == (2, 3)
    assert np.isfinite(private).all()
    # practically every batch of this run is empty
    plan = network_plan(sampling_rate=1e-12)
    network = _network_training.train_network(
        rng.random((3, 3)), np.zeros(3, dtype=int), plan, noise_source(0)
    )
    assert np.isfinite(network.theta).all()


def test_network_learns_two_clusters_and_their_labels():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    X = 0.05 * rng.normal(size=(2000, 2)) + np.where(y[:, None], 0.75, 0.25)
    generator = DPSinkhornGenerator(
        method="network",
        epsilon=50,
        bounds=(0, 1),
        classes=[0, 1],
        max_iter=300,
        learning_rate=2e-3,
        random_state=0,
    ).fit(X, y)
    S, labels = generator.sample(400)
    for label, centre in ((0, 0.25), (1, 0.75)):
        np.testing.assert_allclose(S[labels == label].mean(axis=0), centre, atol=0.08)
    np.testing.assert_array_equal(generator.class_weights_, 0.5)


def test_network_releases_the_chosen_components_only(monkeypatch):
    released, pulled = [], []
    release, backward = GaussianMechanism.release, Network.backward

    def record_release(self, value, source):
        released.append(value.shape)
        return release(self, value, source)

    def record_backward(self, outputs, gradient):
        pulled.append(gradient)
        return backward(self, outputs, gradient)

    monkeypatch.setattr(GaussianMechanism, "release", record_release)
    monkeypatch.setattr(Network, "backward", record_backward)
    X = np.random.default_rng(0).random((100, 81))
    generator = DPSinkhornGenerator(
        method="network",
        epsilon=5.0,
        bounds=(0, 1),
        n_components=7,
        debiasing=0.0,
        max_iter=3,
        random_state=0,
    ).fit(X)
    assert released == [(50, 7)] * 3
    basis = dct_basis(9, 7)
    for gradient in pulled:  # nothing outside the span, up to single precision
        assert gradient.shape == (50, 81)
        np.testing.assert_allclose(gradient @ basis @ basis.T, gradient, atol=1e-4)
    assert generator.privacy_.events[0].n_draws == 3 * 50 * 7


def test_network_shows_nothing_of_its_batches():
    """Two tables, the same coins for the rest: all that shows has the same form."""
    rng = np.random.default_rng(0)
    forms = []
    for X in (rng.random((30, 2)), np.zeros((30, 2))):
        generator = DPSinkhornGenerator(
            method="network", epsilon=5.0, bounds=(0, 1), max_iter=3, random_state=0
        ).fit(X)
        shown = vars(generator)
        forms.append(
            (
                sorted(shown),
                generator.privacy_,
                generator._network_plan_,
                generator.class_weights_.tolist(),
                {
                    name: np.shape(value)
                    for name, value in vars(generator._network).items()
                    if isinstance(value, np.ndarray)
                },
            )
        )
    assert forms[0] == forms[1]


def test_network_needs_a_public_rate_under_add_remove():
    generator = DPSinkhornGenerator(
        method="network", bounds=(0, 1), neighboring="add_remove", max_iter=2
    )
    X = np.random.default_rng(0).random((20, 2))
    with pytest.raises(ValueError, match="sampling_rate"):
        generator.fit(X)
    generator.set_params(sampling_rate=0.1).fit(X)
    assert generator.privacy_.neighboring == "add_remove"
