"""Generators behind the wall: sensitivities, audits, exactness, accounting."""

import math
import traceback
from functools import partial

import numpy as np
import pytest
from _audit import gaussian_audit
from _ends import approx
from _generative import network_plan, semidual_plan, sliced_plan
from _recording import recording
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from fairpriv_sklearn._shared.arrays import stretch_triangle, unstretch_triangle
from fairpriv_sklearn._training._network import Network
from fairpriv_sklearn._wall import PlanError, PrivacyFilter, Release, Rows
from fairpriv_sklearn.accounting import compose_delta
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
    _exact,
    _network_training,
    _semidual,
    _slices,
)
from fairpriv_sklearn.generative._sinkhorn import calibrate_network
from fairpriv_sklearn.generative._space import UnitCube, dct_basis
from fairpriv_sklearn.mechanisms import GaussianMechanism, noise_source
from fairpriv_sklearn.privacy import BudgetExceededError, PrivacyLedger

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


def records(D):
    return Rows(len(D[0]), z=D[0], codes=D[1])


def reached(query, relation, pairs, state=None, rows=records):
    """Largest change among neighbouring tables, over the stated sensitivity."""

    def value(D):
        return query.of_rows(rows(D), state)

    bound = query.sensitivity(relation)
    return largest_change(lambda *D: value(D), pairs) / bound


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_sensitivity_of_semidual_sums(relation, position):
    rng = np.random.default_rng(0)
    query = semidual_plan().queries[position]
    means, potentials = rng.normal(size=(3, 4)), rng.normal(size=(3, 3))
    points, one = rng.normal(size=(3, 3, 4)), np.ones(3)
    state = [None, 0 * means, (0 * means, points, potentials, 0.05 * one)][position]
    assert (
        REACHED
        < reached(query, relation, neighbours(rng, relation), state)
        <= 1 + 1e-12
    )
    # about a mean that is not zero, and in blocks of any size
    D = rng.normal(size=(700, 4)), rng.integers(0, 3, 700)
    state = [None, means, (means, points, potentials, 0.05 * one)][position]
    whole = query.of_rows(records(D), state)
    parts = [query.of_block(records(D).block(s), state) for s in _cut(700, 130)]
    np.testing.assert_array_equal(query.value(sum(parts), state), whole)


def _cut(n, size):
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivity_of_slices(relation):
    rng = np.random.default_rng(0)
    plan = sliced_plan()
    directions = _slices.draw_directions(4, plan.n_projections, noise_source(0))
    means, scales = rng.normal(size=(3, 4)), rng.uniform(0.5, 2, size=(3, 7))
    bound = math.sqrt((2 if relation == "replace_one" else 1) * plan.n_projections)
    query = _slices.SliceCounts(plan)
    assert query.sensitivity(relation) == bound
    state = (means, directions, scales)
    change = largest_change(
        lambda *D: query.of_rows(records(D), state), neighbours(rng, relation)
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


@settings(max_examples=100)
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


@pytest.mark.parametrize("d", [1, 6, 9000])
def test_rows_are_coded_each_by_itself(d):
    """However many are coded together."""
    rng = np.random.default_rng(0)
    V = rng.normal(size=(17_000 // d + 2, d)) * 10.0 ** rng.integers(-3, 2, (1, d))
    V[1, 0] = np.inf
    coded = _exact.encode_rows(V, 0.3)
    one_by_one = [_exact.encode_rows(row[None], 0.3)[0] for row in V]
    np.testing.assert_array_equal(coded, one_by_one)


@pytest.mark.parametrize("n", [0, 3, 700])
def test_every_record_counts_once_per_direction(n):
    """Also one whose projections are beyond the bins, or no numbers."""
    rng, plan = np.random.default_rng(0), sliced_plan()
    z, codes = rng.normal(size=(n, 4)), rng.integers(0, 3, n)
    for i, bad in enumerate([np.nan, np.inf, -np.inf, 1e300]):
        z[i::10] = bad
    directions = _slices.draw_directions(4, plan.n_projections, noise_source(0))
    state = rng.normal(size=(3, 4)), directions, rng.uniform(1, 2, directions.shape)[:3]

    def counted(rows):
        records = Rows(len(codes[rows]), z=z[rows], codes=codes[rows])
        with np.errstate(all="ignore"):
            return _slices.SliceCounts(plan).of_rows(records, state)

    counts = counted(slice(None))
    assert (counts == sum(counted(slice(i, i + 1)) for i in range(n))).all()
    members = np.bincount(codes, minlength=3)
    assert (counts.sum(axis=2) == members[:, None]).all()
    unknown = np.bincount(codes[::10], minlength=3)
    assert (counts[:, :, 0] >= unknown[:, None]).all()


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
    """More, and rounding sums to doubles were not paid for: before the noise."""
    plan = semidual_plan()
    wall = open_wall(plan.lines(1.0))
    rows = Rows(2**30 + 1, z=None, codes=None)
    with pytest.raises(ValueError, match="at most 1073741824 rows"):
        wall.release(plan.queries[0], rows)
    assert wall.log == []
    assert 2**30 * int(_exact.UNIT) ** 2 < 2**63
    # Three roundings in each of two tables, of sums of rows of norm sqrt(2).
    assert 6 * 2**0.5 * 2**30 * 2.0**-53 < _exact.ROUNDING - 1


def test_sliced_gradients_refuse_many_records_before_they_spend(monkeypatch):
    """Sorted integers times slots would overflow; histograms have no such limit."""
    monkeypatch.setattr("fairpriv_sklearn.generative._sliced.MAX_RECORDS", 19)
    X, ledger = np.linspace(0, 1, 40).reshape(20, 2), PrivacyLedger(9.0, 1e-4)
    params = dict(bounds=(0, 1), ledger=ledger, random_state=0)
    with pytest.raises(ValueError, match='at most 19 records.*method="histogram"'):
        DPSlicedWassersteinGenerator(method="gradient", **params).fit(X)
    assert ledger.spends() == []
    DPSlicedWassersteinGenerator(method="histogram", **params).fit(X)
    assert len(ledger.spends()) == 1
    params["ledger"] = PrivacyLedger(0.1, 1e-4)
    with pytest.raises(BudgetExceededError):  # as many as that are taken
        DPSlicedWassersteinGenerator(method="gradient", **params).fit(X[:19])


def open_wall(lines, relation="replace_one", seed=0):
    wall = PrivacyFilter("test", lines, 1e-5, relation, noise=noise_source(seed))
    wall.reserve()
    return wall


PLANS = [semidual_plan(), sliced_plan()]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)
def test_plans_spend_their_budget_and_nothing_more(plan):
    lines = plan.lines(0.7)
    spent = sum(line.parameter**2 * line.times for line in lines)
    if plan is PLANS[1]:
        spent = spent - lines[2].parameter ** 2 * lines[2].times  # no points there
        spent = spent - 0.49 * sum(plan.moments.shares[:2]) - 0.49 * plan.share + 0.49
    assert spent == approx(0.49, rel=1e-12)
    wall = open_wall(lines)
    with pytest.raises(PlanError, match="never released"):
        wall.guarantee()


@pytest.mark.parametrize("relation", RELATIONS)
def test_audit_of_the_first_release(relation):
    """600 releases on a worst pair see an error of a factor sqrt(2) at mu = 1."""
    plan = semidual_plan(n_classes=1, n_components=2)
    query = _semidual.MeanRows(plan)
    Z = np.zeros((3, 2))
    first, second = Z.copy(), Z.copy()
    first[0], second[0] = [9.0, 0.0], [-9.0, 0.0]
    if relation == "add_remove":
        second = second[1:]
    tables = [records((D, np.zeros(len(D), dtype=int))) for D in (first, second)]
    exact = [query.of_rows(rows, None) for rows in tables]
    direction = exact[1] - exact[0]
    direction /= np.linalg.norm(direction)

    def bound(factor):
        mechanism = GaussianMechanism(query.sensitivity(relation) * factor, 1.0, 3)
        noise = noise_source(0)
        outputs = [
            [np.vdot(mechanism.release(q, noise), direction) for _ in range(600)]
            for q in exact
        ]
        return gaussian_audit(*outputs)

    assert bound(1.0) <= 1.0 < bound(1 / math.sqrt(2))


def test_audit_of_the_symmetric_release():
    u, v = np.array([1.0, 0.0]), np.array([0.6, 0.8])
    exact = [stretch_triangle(np.outer(w, w)) for w in (u, v)]
    distance = np.linalg.norm(np.outer(u, u) - np.outer(v, v))
    # stretched triangles are as far apart as the matrices
    assert np.linalg.norm(exact[1] - exact[0]) == approx(distance, rel=1e-12)
    back = unstretch_triangle(exact[1], 2)
    np.testing.assert_allclose(back, np.outer(v, v), rtol=1e-12)
    mechanism = GaussianMechanism(distance, 1.0, 3)
    noise = noise_source(1)
    noisy = np.array([mechanism.release(exact[0], noise) for _ in range(4000)])
    released = unstretch_triangle(noisy, 2)
    scale = mechanism.scale
    np.testing.assert_array_equal(released[:, 0, 1], released[:, 1, 0])
    assert released[:, 0, 0].std() == approx(scale, rel=0.05)
    assert released[:, 0, 1].std() == approx(scale / math.sqrt(2), rel=0.05)


def test_audit_of_a_whole_fit():
    """One record of 40 moves across the box; the guarantee's mu bounds what is seen."""
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
    multiplier = calibrate_network(epsilon, delta, q, n_steps, 1000, relation)
    steps = Release("s", "gaussian", 1 / multiplier, 33, n_steps, ("poisson", q))
    parts = steps.events(relation)
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
    assert calibrate_network(np.inf, 1e-5, 0.1, 10, 100, "replace_one") == 0
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

    gradient = _network_training.self_gradient(points, labels, plan)
    gradient[:4] += _network_training.records_gradient(
        points[:4], labels[:4], records, record_labels, plan
    )
    for i, k in np.ndindex(points.shape):
        step = np.zeros_like(points)
        step[i, k] = 1e-5
        slope = (loss(points + step) - loss(points - step)) / 2e-5
        assert gradient[i, k] == approx(slope, abs=1e-5)


def test_empty_batches_are_released_like_any_other():
    plan = network_plan()
    rng = np.random.default_rng(0)
    points, labels = rng.random((6, 3)), np.zeros(6, dtype=int)
    private = _network_training.records_gradient(
        points, labels, np.empty((0, 3)), labels[:0], plan
    )
    assert private.shape == (6, 3) and not private.any()
    # practically every batch of this run is empty
    plan = network_plan(sampling_rate=1e-12)
    query = _network_training.PointGradient(plan, None)
    wall = open_wall([Release(query.name, "gaussian", 1.0, 12, 5, ("poisson", 1e-12))])
    rows = Rows(3, u=rng.random((3, 3)), codes=np.zeros(3, dtype=int))
    network = _network_training.train_network(rows, plan, wall)
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


def test_network_has_the_normal_inputs_that_are_asked_for():
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 3
    generator = DPSinkhornGenerator(
        method="network", epsilon=50, bounds=(0, 1), classes=[0, 1, 2], max_iter=2,
        latent_dim=5, hidden_layer_sizes=(4,), random_state=0,
    ).fit(X, y)  # fmt: skip
    assert [one.shape for one in generator._network.weights] == [(5 + 3, 4), (4, 2)]
    assert generator.sample(7)[0].shape == (7, 2)


def test_network_releases_the_chosen_components_only(monkeypatch):
    released, pulled = [], []
    release, backward = GaussianMechanism.release, Network.backward

    def record_release(self, value, noise):
        released.append(value.shape)
        return release(self, value, noise)

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
    """Two tables, the same draws for the rest: all that shows has the same form."""
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


# --- replay: neighbours differ by the released values and by nothing else -------------

VARIANTS = [
    (DPSinkhornGenerator, {"n_points": 3, "max_iter": 2}),
    (DPSinkhornGenerator, {"n_points": 1}),
    (DPSinkhornGenerator, {"method": "network", "max_iter": 3, "sampling_rate": 0.2}),
    (DPSlicedWassersteinGenerator, {}),
    (DPSlicedWassersteinGenerator, {"method": "gradient", "max_iter": 3}),
]


def frozen(value):
    """What an object holds, deep, bit for bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [frozen(item) for item in value]
    return frozen(vars(value)) if hasattr(value, "__dict__") else repr(value)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("Generator", "variant"), VARIANTS, ids=lambda v: getattr(v, "__name__", "")
)
def test_replay(Generator, variant, relation):
    rng = np.random.default_rng(0)
    public = {"bounds": (-1, 1), "classes": [0, 1], "neighboring": relation}
    make = partial(Generator, random_state=3, **{**public, **variant})
    for _ in range(5):
        n = int(rng.choice([1, 2, 40]))
        X, y = rng.choice([-1.0, 1.0], (n, 3)), rng.integers(0, 2, n)
        if relation == "replace_one":
            other = X.copy(), y.copy()
            other[0][0] *= -1
            other[1][0] = rng.integers(2)
        else:
            other = np.vstack([X, -X[:1]]), np.append(y, y[0])
        with recording() as seen:
            first = make().fit(X, y)
        with recording(replay=seen) as again:
            second = make().fit(*other)
        for a, b in zip(seen.crossings, again.crossings, strict=True):
            assert a.name == b.name and a.sensitivity == b.sensitivity
            change = np.linalg.norm(a.exact - b.exact)
            assert change <= a.sensitivity * (1 + 1e-12)
        assert frozen(vars(first)) == frozen(vars(second))
        spent = math.sqrt(math.fsum(c.parameter**2 for c in seen.crossings))
        if variant.get("method") != "network":
            (stated,) = first.privacy_.events
            assert spent == approx(stated.mu, rel=1e-9)
            assert sum(c.exact.size for c in seen.crossings) <= stated.n_draws


def test_what_pandas_inferred_does_not_show():
    """One gap turns integers into floats, one word a column into objects (W2)."""
    pd = pytest.importorskip("pandas")
    y = [0, 1, 0, 1]
    public = {"bounds": (0, 9), "classes": [0, 1], "random_state": 0}
    for Generator in (DPSinkhornGenerator, DPSlicedWassersteinGenerator):
        ints = Generator(**public).fit(pd.DataFrame({"a": [1, 2, 3, 4]}), y)
        floats = Generator(**public).fit(pd.DataFrame({"a": [1.5, 2, 3, 4]}), y)
        words = Generator(**public).fit(
            pd.DataFrame({"a": [1, 2, "3", 4]}, dtype=object), y
        )
        dtypes = {str(g.sample(3)[0].dtypes.iloc[0]) for g in (ints, floats, words)}
        assert dtypes == {"float64"}
    public |= {"categories": {"a": [1, 2, None]}, "bounds": None}
    whole = DPSinkhornGenerator(**public).fit(pd.DataFrame({"a": [1, 2, 1, 2]}), y)
    gap = DPSinkhornGenerator(**public).fit(pd.DataFrame({"a": [1, None, 1, 2]}), y)
    assert (whole.sample(9)[0].dtypes == gap.sample(9)[0].dtypes).all()


@pytest.mark.parametrize(
    "Generator", [DPSinkhornGenerator, DPSlicedWassersteinGenerator]
)
def test_a_text_cell_is_not_quoted(Generator):
    X = np.full((5, 2), 0.5, dtype=object)
    X[3, 1] = "HIV-positive: John Doe"
    with pytest.raises(ValueError) as caught:
        Generator(bounds=(0, 1)).fit(X)
    assert "John" not in "".join(traceback.format_exception(caught.value))
    assert "cannot be read as a number" in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip_norm": 1e-300},
        {"clip_norm": 1e300},
        {"regularization": 1e-300},
        {"learning_rate": 1e300, "method": "network"},
        {"l1_weight": 1.1e6, "method": "network", "max_iter": 1},
        {"bounds": [0, 1]},
        {"bounds": (0, np.inf)},
        {"classes": [7]},
        {"jitter": 1.1e6},
    ],
)
def test_mistakes_cost_nothing(wrong):
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    X, y = np.full((20, 2), 0.5), np.arange(20) % 2
    public = {"bounds": (0, 1), "classes": [0, 1], "ledger": ledger}
    with pytest.raises(ValueError):
        DPSinkhornGenerator(**{**public, **wrong}).fit(X, y)
    assert ledger.spends() == []


@pytest.mark.parametrize("l1_weight", [0.0, 1e6])
def test_the_largest_l1_weight_ends_in_numbers(l1_weight):
    """Beyond it costs overflowed, and the error told how far records are apart."""
    X = np.vstack([np.zeros((1, 3)), np.full((19, 3), 0.5)])
    generator = DPSinkhornGenerator(
        bounds=(0, 1),
        method="network",
        l1_weight=l1_weight,
        max_iter=20,
        batch_size=4,
        sampling_rate=1.0,
        hidden_layer_sizes=(4,),
        random_state=0,
    ).fit(X)
    assert np.isfinite(generator.sample(20)).all()


@pytest.mark.parametrize(
    "Generator", [DPSinkhornGenerator, DPSlicedWassersteinGenerator]
)
@pytest.mark.parametrize("high", [1e-300, 1e300])
def test_the_largest_jitter_ends_in_numbers(Generator, high):
    X = np.linspace(0, high, 60).reshape(20, 3)
    generator = Generator(bounds=(0, high), jitter=1e6, random_state=0).fit(X)
    drawn = generator.sample(20)
    assert drawn.min() >= 0 and drawn.max() <= high


def test_old_name_says_the_new_one():
    with pytest.raises(TypeError, match="n_projections"):
        DPSlicedWassersteinGenerator(n_slices=3)


@pytest.mark.parametrize(
    "Generator", [DPSinkhornGenerator, DPSlicedWassersteinGenerator]
)
def test_a_failing_second_fit_leaves_nothing_behind(Generator, monkeypatch):
    X = np.full((20, 2), 0.5)
    generator = Generator(epsilon=np.inf, bounds=(0, 1)).fit(X)
    with pytest.raises(ValueError):  # a typo costs no model
        generator.set_params(bounds=[0, 1]).fit(X)
    assert generator.privacy_.epsilon == np.inf and generator.sample(2).shape == (2, 2)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(GaussianMechanism, "release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generator.set_params(bounds=(0, 1), epsilon=1.0).fit(X)
    with pytest.raises(NotFittedError):
        generator.sample(2)
    assert not hasattr(generator, "privacy_")
