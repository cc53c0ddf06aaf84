"""Generators: what they learn, what they return, what they refuse."""

import itertools
import warnings
from functools import partial

import numpy as np
import ot
import pytest
from _generative import sliced_plan
from _recording import recording
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest
from sklearn.base import clone

from fairpriv_sklearn._shared.arrays import project_simplex
from fairpriv_sklearn.distributed import Batches
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
    _semidual,
    _slices,
)
from fairpriv_sklearn.generative._space import Box, UnitCube, dct_basis
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.privacy import PrivacyLeakWarning, PrivacyLedger

RELATIONS = ["replace_one", "add_remove"]

# --- the mathematics behind the wall --------------------------------------------------


def gaussian_classes(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    factors = [np.diag([0.12, 0.04, 0.06]), np.diag([0.03, 0.1, 0.05])]
    centres = np.array([[0.3, 0.5, 0.6], [0.7, 0.4, 0.5]])
    noise = np.einsum("nij,nj->ni", np.array(factors)[y], rng.normal(size=(n, 3)))
    return centres[y] + noise, y


def test_without_noise_moments_are_those_of_the_data():
    X, y = gaussian_classes()
    generator = DPSinkhornGenerator(
        epsilon=np.inf,
        bounds=(0, 1),
        classes=[0, 1],
        n_points=1,
        variance_cap=False,
        clip_norm=1.0,
    ).fit(X, y)
    S, labels = generator.sample(40_000)
    for c in (0, 1):
        np.testing.assert_allclose(
            S[labels == c].mean(axis=0), X[y == c].mean(axis=0), atol=0.005
        )
        np.testing.assert_allclose(
            np.cov(S[labels == c].T), np.cov(X[y == c].T), atol=0.0008
        )
    np.testing.assert_allclose(
        generator.class_weights_, np.bincount(y) / len(y), atol=1e-12
    )


def test_points_find_clusters_that_no_gaussian_has():
    rng = np.random.default_rng(0)
    corners = np.array(list(itertools.product([0.2, 0.8], repeat=2)))
    X = corners[rng.integers(0, 4, 8000)] + 0.03 * rng.normal(size=(8000, 2))

    def distance(**params):
        generator = DPSinkhornGenerator(
            epsilon=3.0, bounds=(0, 1), random_state=0, **params
        ).fit(X)
        S = generator.sample(4000)
        return np.linalg.norm(S[:, None] - corners, axis=2).min(axis=1).mean()

    assert distance(n_points=16) < 0.5 * distance(n_points=1)
    assert distance() < 0.6 * distance(n_points=1)


def test_more_budget_means_less_error():
    X, y = gaussian_classes(1500)
    errors = []
    for epsilon in (0.2, 2.0, 20.0):
        error = [
            np.abs(
                DPSinkhornGenerator(
                    epsilon=epsilon, bounds=(0, 1), classes=[0, 1], random_state=seed
                )
                .fit(X, y)
                .sample(y=np.zeros(2000, dtype=int))[0]
                .mean(axis=0)
                - X[y == 0].mean(axis=0)
            ).max()
            for seed in range(5)
        ]
        errors.append(np.mean(error))
    assert errors[0] > errors[1] > errors[2]


def test_variance_cap_and_bounds():
    X = np.full((500, 4), 3.0)
    X[:, 1] = np.random.default_rng(0).uniform(2, 4, 500)
    generator = DPSinkhornGenerator(
        epsilon=0.05, bounds=([2, 2, 0, 3], [4, 4, 9, 5]), random_state=0
    ).fit(X)
    S = generator.sample(3000)
    lower, upper = np.array([2, 2, 0, 3]), np.array([4, 4, 9, 5])
    assert (S >= lower).all() and (S <= upper).all()
    space = UnitCube(np.zeros(2), np.ones(2), None, 0.5)
    factor = np.diag([2.0, 0.1])
    cap = space.variance_cap(np.array([[0.5, 0.5], [1.3, 0.5]]), factor)
    np.testing.assert_allclose(cap, [[0.25, 1.0], [0.0, 1.0]])


@settings(max_examples=50)
@given(st.integers(0, 2**31), st.integers(1, 9))
def test_simplex_projection_is_the_nearest_law(seed, m):
    rng = np.random.default_rng(seed)
    value = rng.normal(size=m) * 3
    distribution = project_simplex(value)
    assert distribution.sum() == pytest.approx(1) and (distribution >= 0).all()
    # optimality: no other distribution is on the far side of the supporting plane
    for vertex in np.eye(m):
        assert (value - distribution) @ (vertex - distribution) <= 1e-9


def test_draws_follow_their_law():
    distribution = np.array([0.0, 0.5, 0.0, 0.3, 0.2])
    u = (np.arange(1000) + 0.5) / 1000
    drawn = _semidual.draw_levels(np.tile(distribution, (1000, 1)), u)
    np.testing.assert_array_equal(np.bincount(drawn, minlength=5), 1000 * distribution)


def test_flow_reaches_released_quantiles():
    rng = np.random.default_rng(0)
    target = np.concatenate([rng.normal(-1, 0.2, 500), rng.normal(1, 0.2, 500)])
    target = np.column_stack([target, rng.normal(size=1000)])
    directions = _slices.draw_directions(2, 8, noise_source(0))
    quantiles = np.sort(target @ directions, axis=0)
    start = rng.normal(size=(1000, 2))
    moved = _slices.flow(start, quantiles, directions, 100)
    before, after = (
        ot.sliced_wasserstein_distance(points, target, projections=directions)
        for points in (start, moved)
    )
    assert after < 0.1 * before


def test_shrinkage_goes_to_the_normal_law_when_all_is_noise():
    plan = sliced_plan()
    rng = np.random.default_rng(0)
    counts = np.array([50.0, 1e6, 1e6])
    noisy = 400 * rng.normal(size=(3, 7, 6))
    noisy[1:] += counts[1] * np.eye(6)[2]
    distributions = _slices.shrink_distributions(noisy, counts, 400.0, plan)
    np.testing.assert_allclose(distributions.sum(axis=2), 1)
    assert distributions[1:, :, 2].min() > 0.99  # signal is kept
    assert (
        np.abs(distributions[0] - distributions[0].mean(axis=0)).max() < 0.5
    )  # noise is not


def test_particles_flow_as_often_as_is_asked():
    """Without a step they are those of one bell; the flow parts them."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((2000, 1)) < 0.5, 0.2, 0.8) + 0.02 * rng.normal(
        size=(2000, 1)
    )
    middle = {}
    for n_steps in (0, 30):
        generator = DPSlicedWassersteinGenerator(
            bounds=(0, 1), epsilon=np.inf, n_flow_steps=n_steps, random_state=0
        ).fit(X)
        sample = generator.sample(2000)
        middle[n_steps] = np.mean(np.abs(sample - 0.5) < 0.1)
    assert middle[30] < 0.02 < 0.15 < middle[0]


def test_sliced_generator_fits_a_uniform_line():
    X = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 1))
    generator = DPSlicedWassersteinGenerator(
        epsilon=3.0, bounds=(-2, 2), random_state=0
    ).fit(X)
    assert generator.directions_.shape == (1, 1)
    assert kstest(generator.sample(5000)[:, 0], "uniform", (-1, 2)).statistic < 0.05


# --- labels, containers, errors -------------------------------------------------------

GRADIENT = partial(DPSlicedWassersteinGenerator, method="gradient", max_iter=20)
GENERATORS = [
    pytest.param(DPSinkhornGenerator, id="sinkhorn"),
    pytest.param(DPSlicedWassersteinGenerator, id="sliced"),
    pytest.param(GRADIENT, id="sliced-gradient"),
]


@pytest.mark.parametrize("Generator", GENERATORS)
def test_samples_with_and_without_labels(Generator):
    X, y = gaussian_classes(300)
    words = np.array(["no", "yes"])[y]
    generator = Generator(
        bounds=(0, 1), classes=["yes", "no", "never"], random_state=0
    ).fit(X, words)
    np.testing.assert_array_equal(generator.classes_, ["never", "no", "yes"])
    S, labels = generator.sample(50)
    assert S.shape == (50, 3) and set(labels) <= {"never", "no", "yes"}
    wanted = ["yes"] * 3 + ["never"] * 2
    S, labels = generator.sample(y=wanted)
    assert labels.tolist() == wanted and S.shape == (5, 3)
    one = Generator(bounds=(0, 1), classes=["yes"], random_state=0)
    assert set(one.fit(X, ["yes"] * 300).sample(5)[1]) == {"yes"}
    mixed = np.array([1, "yes"] * 150, dtype=object)
    with pytest.raises(ValueError, match="y mixes text with labels of other kinds"):
        Generator(bounds=(0, 1)).fit(X, mixed)
    with pytest.raises(ValueError, match="disagree"):
        generator.sample(4, y=wanted)
    with pytest.raises(ValueError, match="not in classes"):
        generator.sample(y=["maybe"])
    with pytest.raises(ValueError, match="positive int"):
        generator.sample(0)
    alone = Generator(bounds=(0, 1), random_state=0).fit(X)
    assert alone.sample().shape == (1, 3) and alone.classes_ is None
    with pytest.raises(ValueError, match="fitted with labels"):
        alone.sample(y=["yes"])


@pytest.mark.parametrize("Generator", GENERATORS)
def test_seeds_reproduce_samples_and_chunks_are_bounded(Generator, monkeypatch):
    X, y = gaussian_classes(300)
    make = lambda seed: Generator(bounds=(0, 1), classes=[0, 1], random_state=seed)  # noqa: E731
    first, second = make(0).fit(X, y).sample(20), make(0).fit(X, y).sample(20)
    np.testing.assert_array_equal(first[0], second[0])
    sizes = []
    generator = make(None).fit(X, y)
    original = generator._sample_class

    def spy(c, n, noise):
        sizes.append(n)
        return original(c, n, noise)

    monkeypatch.setattr(generator, "_sample_class", spy)
    S, _ = generator.sample(10_000)
    assert max(sizes) <= 4096 and np.isfinite(S).all()
    assert not np.array_equal(generator.sample(20)[0], generator.sample(20)[0])


@pytest.mark.parametrize("Generator", GENERATORS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_degenerate_tables_are_legal(Generator, relation):
    public = {"bounds": (0, 1), "classes": range(6), "neighboring": relation}
    rng = np.random.default_rng(0)
    tables = [
        (np.full((30, 3), 0.5), np.zeros(30, dtype=int)),  # constant, one class
        (rng.random((2, 3)), np.array([1, 2])),  # more classes than rows
        (rng.random((1, 3)), np.array([5])),
        (np.ones((20, 3)), np.full(20, 3)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X, y in tables:
            for epsilon in (0.01, 1.0, np.inf):
                generator = Generator(epsilon=epsilon, **public).fit(X, y)
                S, _ = generator.sample(y=np.arange(6))
                assert np.isfinite(S).all() and (S >= 0).all() and (S <= 1).all()


@pytest.mark.parametrize("Generator", GENERATORS)
def test_errors_and_leaks(Generator):
    X, y = gaussian_classes(50)
    with pytest.raises(ValueError, match="NaN"):
        Generator(bounds=(0, 1)).fit(np.where(X < 0.4, np.nan, X))
    with pytest.raises(ValueError, match="not in classes"):
        Generator(bounds=(0, 1), classes=[0]).fit(X, y)
    with pytest.raises(ValueError, match="without y"):
        Generator(bounds=(0, 1), classes=[0]).fit(X)
    with pytest.raises(ValueError, match="low <= high"):
        Generator(bounds=(1, 0)).fit(X)
    for pairs in ([0, 1], [(0, 1)] * 3, (0, 1, 2), ([0, 0], 1)):
        with pytest.raises(ValueError, match="tuple \\(low, high\\)"):
            Generator(bounds=pairs).fit(X)
    with pytest.raises(ValueError, match="square images"):
        Generator(bounds=(0, 1), basis="dct").fit(X)
    with pytest.raises(ValueError, match="orthonormal"):
        Generator(bounds=(0, 1), basis=np.ones((3, 2))).fit(X)
    with pytest.warns(PrivacyLeakWarning) as caught:
        leaking = Generator().fit(np.column_stack([X, np.ones(50)]), y)
    assert {"bounds", "classes"} <= {
        word for w in caught for word in str(w.message).replace("`", " ").split()
    }
    assert len(leaking.privacy_.conditional_on) == 2


def test_public_basis_of_an_image():
    basis = dct_basis(9, 81)
    np.testing.assert_allclose(basis.T @ basis, np.eye(81), atol=1e-12)
    np.testing.assert_allclose(basis[:, 0], 1 / 9)
    X = np.random.default_rng(0).random((200, 81))
    generator = DPSinkhornGenerator(bounds=(0, 1), random_state=0).fit(X)
    assert generator._space_.n_components == 45
    own = DPSinkhornGenerator(bounds=(0, 1), basis=basis[:, :5], random_state=0)
    assert own.fit(X).sample(3).shape == (3, 81)
    sliced = DPSlicedWassersteinGenerator(bounds=(0, 1), random_state=0).fit(X)
    assert sliced.sample(3).shape == (3, 81)
    assert GRADIENT(bounds=(0, 1)).fit(X).sample(3).shape == (3, 81)
    wide = DPSinkhornGenerator(bounds=(0, 1), basis="dct", n_components=500)
    assert wide.fit(X)._space_.n_components == 81


def people(n=3000, seed=0):
    """A table whose columns depend on each other and on the label."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    job = np.where(rng.random(n) < 0.8, kind, 1 - kind)
    frame = pd.DataFrame(
        {
            "job": np.array(["clerk", "smith"])[job],
            "age": rng.integers(20, 40, n) + 20 * kind,
            "city": pd.Categorical(np.array(["A", "B", "C"])[rng.integers(0, 3, n)]),
            "hours": rng.uniform(0, 10, n).astype(np.float32),
        }
    )
    return frame, np.where(rng.random(n) < 0.9, kind, 1 - kind)


@pytest.mark.parametrize("widths", [(16, 0), (2.5,), ("a",), ((1, 2), (3, 4))])
@pytest.mark.parametrize(
    ("Generator", "method"),
    [(DPSinkhornGenerator, "network"), (DPSlicedWassersteinGenerator, "gradient")],
)
def test_bad_widths_cost_nothing(Generator, method, widths):
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    generator = Generator(
        method=method, bounds=(0, 1), hidden_layer_sizes=widths, ledger=ledger
    )
    with pytest.raises(ValueError, match="hidden_layer_sizes must be positive"):
        generator.fit(np.random.default_rng(0).random((50, 3)))
    assert ledger.spends() == []


def test_what_is_for_raw_tables_is_refused_elsewhere():
    X = np.random.default_rng(0).random((50, 2))
    anywhere = [{"bins": {0: [0, 1]}}, {"bounds": {0: (0, 1)}}]
    named = [{"categories": {0: [0, 1]}}, {"codebook": {}}]
    for method, wrong in [
        ("auto", anywhere),
        ("semidual", anywhere + named),
        ("network", anywhere + named),
    ]:
        for params in wrong:
            with pytest.raises(ValueError, match='for raw tables: use method="pairs"'):
                DPSinkhornGenerator(method=method, **params).fit(X)


def test_numbers_come_back_in_the_container_of_the_fit():
    frame, _ = people(300)
    frame = frame[["age", "hours"]]
    for Generator in (DPSinkhornGenerator, DPSlicedWassersteinGenerator):
        S = Generator(bounds=(0, 60)).fit(frame).sample(3)
        assert list(S.columns) == list(frame.columns)
        assert (S.dtypes == np.float64).all()
        pl = pytest.importorskip("polars")
        table = pl.DataFrame({name: frame[name].tolist() for name in frame})
        S = Generator(bounds=(0, 60)).fit(table).sample(3)
        assert S.schema == {"age": pl.Float64, "hours": pl.Float64}


def test_refitting_forgets_the_kind_of_the_last_fit():
    frame, y = people(200)
    generator = DPSinkhornGenerator(classes=[0, 1], random_state=0).fit(frame, y)
    generator.set_params(method="network")
    assert "job" in generator.sample(3)[0].columns
    generator.set_params(method="semidual", bounds=(0, 60))
    S, _ = generator.fit(frame[["age"]], y).sample(3)
    assert list(S.columns) == ["age"]


# --- ranges of the columns ------------------------------------------------------------


def test_boxes_are_cubes_again():
    space = UnitCube(np.array([0.0, -8]), np.array([4.0, 8]), None, 0.5)
    box = Box(np.array([0.25, -0.25]), np.array([0.5, 0.25]))
    inner = space.within(box)
    assert inner.lower.tolist() == [2, -6] and inner.width.tolist() == [2, 4]
    X = np.array([[2.0, -6], [3.5, -2], [4, -3], [0, 8], [9, -9]])
    found = box.coordinates(space.coordinates(X))
    np.testing.assert_array_equal(found, inner.coordinates(X))
    assert found[[0, 1]].tolist() == [[-0.5, -0.5], [0.25, 0.5]]
    assert np.abs(found).max() == 0.5


@pytest.mark.parametrize(
    "generator",
    [
        DPSinkhornGenerator(),
        DPSinkhornGenerator(method="network", max_iter=3),
        DPSlicedWassersteinGenerator(),
    ],
    ids=["semidual", "network", "sliced"],
)
@pytest.mark.parametrize("is_given", [True, False])
def test_samples_lie_inside_the_bounds_to_the_last_bit(generator, is_given):
    """A column of one number keeps it; -3 + (0.1 + 3) is more than 0.1."""
    X = np.column_stack([np.tile([-3, 0.1], 500), np.full(1000, 7.0)])
    ends = X.min(axis=0), X.max(axis=0)
    generator = clone(generator).set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        S = generator.set_params(bounds=ends if is_given else None).fit(X).sample(500)
    assert (S >= ends[0]).all() and (S <= ends[1]).all() and 0.1 < -3 + (0.1 + 3)


def test_numbers_for_labels_have_a_way_out():
    X, _ = gaussian_classes(20)
    with pytest.raises(ValueError, match="no classes: make it a column of X"):
        DPSinkhornGenerator(bounds=(0, 1)).fit(X, X[:, 0])


@pytest.mark.parametrize("Generator", GENERATORS[:2])
@pytest.mark.parametrize("relation", RELATIONS)
def test_bounds_much_wider_than_the_columns_cost_little(Generator, relation):
    """In units of their own; before, means or spreads were several deviations off."""
    X, y = gaussian_classes(3000)
    X = X * [1, 1e-3, 50] + [1000, 7, 0]
    low, high = np.array([[990, 6.99, -300], [1014, 7.02, 600]])
    generator = Generator(
        epsilon=2.0,
        bounds=(low, high),
        classes=np.unique(y),
        neighboring=relation,
        random_state=0,
    ).fit(X, y)
    S, labels = generator.sample(3000)
    assert "range counts" in generator.privacy_.mechanism
    assert (S >= low).all() and (S <= high).all()
    for c in np.unique(y):
        own, drawn = X[y == c], S[labels == c]
        off = np.abs(drawn.mean(axis=0) - own.mean(axis=0)) / own.std(axis=0)
        assert off.max() < 0.5
        wider = drawn.std(axis=0) / own.std(axis=0)
        assert wider.min() > 1 / 3 and wider.max() < 3


@pytest.mark.parametrize(
    ("n_rows", "params", "is_told"),
    [
        # 75 sqrt(3) over the parameter of epsilon 1, .26
        (510, {}, True),
        (480, {}, False),
        (20, {"neighboring": "add_remove"}, True),
        (20, {"neighboring": "add_remove", "epsilon": 0.1}, False),
        (510, {"bounds": None}, False),
        (510, {"basis": np.eye(3)}, False),
        (510, {"basis": "dct", "X": np.zeros((510, 4))}, False),
    ],
)
@pytest.mark.parametrize("Generator", GENERATORS[:2])
@pytest.mark.filterwarnings("ignore::fairpriv_sklearn.privacy.PrivacyLeakWarning")
def test_when_ranges_are_learnt_is_public(Generator, n_rows, params, is_told):
    X = params.get("X", np.zeros((n_rows, 3)))
    params = {"bounds": (-1, 1), **params}
    params.pop("X", None)
    generator = Generator(random_state=0, **params).fit(X)
    assert ("range counts" in generator.privacy_.mechanism) == is_told


@pytest.mark.parametrize("Generator", GENERATORS[:2])
def test_counts_of_columns_take_a_twentieth(Generator):
    with recording() as seen:
        Generator(epsilon=3.0, bounds=(-1, 1), random_state=0).fit(np.zeros((900, 2)))
    first, *others = seen.crossings
    assert first.name == "range counts" and first.exact.shape == (128,)
    assert first.exact.max() == 900 and first.exact.sum() == 1800
    squares = [one.parameter**2 for one in seen.crossings]
    assert squares[0] / sum(squares) == pytest.approx(0.05)
    assert "range counts" not in [one.name for one in others]


@pytest.mark.parametrize("Generator", GENERATORS[:2])
def test_ranges_are_the_same_bits_however_rows_come(Generator):
    X, y = gaussian_classes(1500)
    params = {"bounds": (-90, 90), "classes": np.unique(y), "random_state": 0}
    whole = Generator(**params).fit(X, y)
    cuts = [0, 1, 700, 1500]
    batches = [(X[i:j], y[i:j], None) for i, j in zip(cuts[:-1], cuts[1:], strict=True)]
    parts = Generator(**params).fit(Batches(batches))
    for one, other in zip(whole.sample(50), parts.sample(50), strict=True):
        np.testing.assert_array_equal(one, other)
