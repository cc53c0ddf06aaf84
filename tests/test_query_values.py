"""What the queries of generators compute, against loops that say it plainly."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from _ends import approx, taken
from _generative import network_plan, semidual_plan, sliced_plan
from numpy.testing import assert_allclose, assert_array_equal

from fairpriv_sklearn._training._constant import TargetTotals
from fairpriv_sklearn._training._counts import Sizes
from fairpriv_sklearn._training._network import Network
from fairpriv_sklearn._training._penalty import GroupPenalty
from fairpriv_sklearn._wall import Rows
from fairpriv_sklearn.generative import (
    _network_training,
    _pairs,
    _semidual,
    _sliced_gradient,
    _slices,
)
from fairpriv_sklearn.generative._raw import CategoryCounts
from fairpriv_sklearn.neural_network._objective import RealOutputs
from fairpriv_sklearn.neural_network._queries import (
    NetworkGradient,
    TargetSums,
    TrainingState,
)
from fairpriv_sklearn.postprocessing._queries import SoftCounts
from fairpriv_sklearn.preprocessing._cells import TableReader
from fairpriv_sklearn.preprocessing._counting import ColumnCounts, Counted

N = 57


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def clipped(V, radius):
    return V * np.minimum(1, radius / np.linalg.norm(V, axis=1))[:, None]


def records(k=4, n_classes=3):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, k)) * rng.choice([0.1, 1.0], size=(N, 1))
    codes = rng.integers(0, n_classes, N)
    return rng, z, codes, Rows(N, z=z, codes=codes)


def test_points_that_are_no_numbers_move_the_sums_by_no_more():
    plan = semidual_plan()
    k, C, J = plan.n_components, plan.n_classes, plan.n_points
    points = np.zeros((C, J, k))
    points[1] = np.nan
    state = np.zeros((C, k)), points, np.zeros((C, J)), np.ones(C)
    query, z, codes = _semidual.AssignmentSums(plan), np.ones((5, k)), np.arange(5) // 4
    rows, others = (Rows(n, z=z[:n], codes=codes[:n]) for n in (5, 4))
    with np.errstate(all="ignore"):
        change = query.of_rows(rows, state) - query.of_rows(others, state)
    assert np.linalg.norm(change) <= query.sensitivity("add_remove")


def test_sums_about_the_class_means():
    rng, z, codes, rows = records()
    plan, means = semidual_plan(), rng.normal(size=(3, 4)) * 0.3
    first = _semidual.MeanRows(plan).of_rows(rows, None)
    moments = _semidual.MomentMatrices(plan).of_rows(rows, means)
    points, potentials = rng.normal(size=(3, 3, 4)) * 0.4, rng.normal(size=(3, 3)) * 0.1
    smooth = np.array([0.05, 0.2, 0.7])
    steps = _semidual.AssignmentSums(plan).of_rows(
        rows, (means, points, potentials, smooth)
    )
    for c in range(3):
        own = codes == c
        assert first[c, 0] == own.sum()
        assert_allclose(first[c, 1:], clipped(z[own], 1.5).sum(axis=0) / 1.5, atol=1e-3)
        v = clipped(z[own] - means[c], 0.7)
        matrix = v.T @ v / 0.49
        upper = np.triu_indices(4)
        stretched = matrix[upper] * np.where(upper[0] == upper[1], 1, math.sqrt(2))
        assert_allclose(np.sort(moments[c]), np.sort(stretched), atol=1e-3)
        cost = ((v[:, None] - points[c]) ** 2).sum(axis=2)
        P = softmax((potentials[c] - cost) / smooth[c])
        assert_allclose(steps[c, :, 0], P.sum(axis=0), atol=1e-3)
        assert_allclose(steps[c, :, 1:], P.T @ v / 0.7, atol=2e-3)


@pytest.mark.parametrize("n_bins", [6, 9])
def test_histograms_of_standardised_projections(n_bins):
    rng, z, codes, rows = records()
    plan = replace(sliced_plan(), n_bins=n_bins)
    means, directions = rng.normal(size=(3, 4)), rng.normal(size=(4, 7))
    scales = rng.uniform(0.3, 2.0, size=(3, 7))
    counts = _slices.SliceCounts(plan).of_rows(rows, (means, directions, scales))
    assert counts.shape == (3, 7, n_bins)
    for c in range(3):
        for k in range(7):
            own = (z[codes == c] - means[c]) @ directions[:, k] / scales[c, k]
            want, _ = np.histogram(np.clip(own, -3, 3), np.linspace(-3, 3, n_bins + 1))
            assert_array_equal(counts[c, k], want)
    assert (counts[:, :, 1:-1] > 0).any() and (counts[:, :, [0, -1]] > 0).any()


@pytest.mark.parametrize("n_slots, floor", [(6, 0), (7, 0), (7, 70), (60, 0)])
def test_quantiles_are_means_over_equal_slots(n_slots, floor):
    rng, z, *_ = records()
    directions = rng.normal(size=(4, 5))
    means = _sliced_gradient.slot_means(z, directions, n_slots, floor)
    n = max(N, floor)
    ranked = np.sort(np.vstack([z @ directions, np.zeros((n - N, 5))]), axis=0)
    want = np.repeat(ranked, n_slots, axis=0).reshape(n_slots, n, 5).mean(axis=1)
    assert_allclose(means, want, atol=1e-5)


def test_the_gradient_matches_points_to_quantiles():
    rng = np.random.default_rng(2)
    points, quantiles = rng.normal(size=(2, 6, 4)), rng.normal(size=(2, 6, 5))
    directions, weights = rng.normal(size=(4, 5)), np.array([0.3, 0.7])
    quantiles.sort(axis=1)
    want = np.zeros((2, 6, 4))
    for c in range(2):
        for k, direction in enumerate(directions.T):
            ranks = np.argsort(np.argsort(points[c] @ direction))
            matched = quantiles[c, ranks, k]
            want[c] += 2 / (6 * 5) * weights[c] * np.outer(matched, direction)
    got = _sliced_gradient.private_gradient(points, quantiles, directions, weights)
    assert_allclose(got, want, atol=1e-12)
    plan = _sliced_gradient.GradientPlan(
        semidual_plan(n_classes=2), 5, n_steps=5, batch_size=6,
        hidden_layer_sizes=(4,), learning_rate=0.1,
    )  # fmt: skip
    _, z, codes, rows = records(n_classes=2)
    means, sizes = rng.normal(size=(2, 4)) * 0.3, np.array([40, 5])
    query = _sliced_gradient.SlicedGradient(plan, directions, means, sizes)
    assert_allclose(query.weights, [40 / 45, 5 / 45])
    for c in range(2):
        v = clipped(z[codes == c] - means[c], 0.7) / 0.7
        want = _sliced_gradient.slot_means(v, directions, 6, sizes[c])
        assert_allclose(query.quantiles(rows)[c], want, atol=1e-3)
    assert query.n_coordinates == 48


@pytest.mark.parametrize("relation, rows", [("replace_one", 1.5), ("add_remove", 1.0)])
def test_penalties_of_pairs_of_groups(relation, rows):
    sizes = np.array([[1, 2], [3, 4]])
    penalty = GroupPenalty((2, 2), "pairs", sizes, 10.0)
    # 2 / 2 groups * 4 * slope, over 2 labels and the sizes 1 and 2
    for slope in (0.5, 2.0):
        expected = 4 * slope / 2 * rows
        assert penalty.sensitivity(slope, relation) == approx(expected, rel=1e-12)


def test_class_sums_of_a_block():
    block = SimpleNamespace(z=np.eye(4)[:3] * 9, codes=np.array([2, 0, 2]), n_rows=3)
    got = _semidual.MeanRows(semidual_plan()).of_block(block, None)
    unit = _semidual.UNIT
    assert_array_equal(got[:, 0], np.array([1, 0, 2]) * unit)
    assert_allclose(
        got[:, 1:] / unit, [[0, 1, 0, 0], [0] * 4, [1, 0, 1, 0]], atol=2**-15
    )


@pytest.mark.parametrize("query_of", [TargetSums, TargetTotals])
def test_targets_are_cut_off_and_counts_are_not_scaled(query_of):
    y = np.array([[3.0, -0.25], [0.5, -7.0], [np.nan, 1e-9], [-1.0, 1.0]])
    block = SimpleNamespace(y=y, n_rows=4)
    query = query_of(2, lambda block: block.y, False)
    units = query.of_block(block, None) / 2.0**20
    assert units.tolist() == [1.0 + 0.5 + 0.0 - 1.0, -0.25 - 1.0 + 0.0 + 1.0]
    counts = SimpleNamespace(y=np.eye(3)[[0, 2, 2, 1]], n_rows=4)
    query = query_of(3, lambda block: block.y, True)
    found = query.of_block(counts, None)
    assert (found / found.sum()).tolist() == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("relation, rows", [("replace_one", 2), ("add_remove", 1)])
def test_sensitivities_of_the_semidual_queries(relation, rows):
    """Rows of norm 1 and a one, or matrices of norm 1; with what rounding may add."""
    plan = semidual_plan()
    for query, squared, rounding in [
        (_semidual.MeanRows, 2, 1.0),
        (_semidual.MomentMatrices, 1, 1 + 2e-6),
        (_semidual.AssignmentSums, 2, 1 + 2e-6),
    ]:
        found = query(plan).sensitivity(relation)
        assert found == approx(math.sqrt(squared * rows) * rounding, rel=1e-14)


def test_an_empty_question_counts_nothing_once():
    query = ColumnCounts(())
    assert (query.n_coordinates, query.n_keyed_columns) == (1, 0)
    assert query.sensitivity("replace_one") == math.sqrt(2)
    assert CategoryCounts(()).sensitivity("replace_one") == math.sqrt(2)


@pytest.mark.parametrize("relation, rows", [("replace_one", 2), ("add_remove", 1)])
def test_numbers_count_one_half_beside_categories(relation, rows):
    """So that they add a quarter to the square of the sensitivity."""
    number, list_ = Counted(0, "number", np.array([0.0, 1, 2])), Counted(1, "category")
    query = CategoryCounts((number, list_, number))
    assert query.sensitivity(relation) == math.sqrt(1.5 * rows)
    cells = np.array([[0.5, "a"], [1.5, None], [1.5, "a"]], dtype=object)
    counts, keyed = query.counts(Rows(3, cells=TableReader.of(cells)))
    assert counts.tolist() == [0.5, 1, 0, 1, 0.5, 1, 0] and keyed == {(1, "a"): 2}
    split = [seen.tolist() for seen in query.split(counts)]
    assert split == [[1, 2, 0], [1], [1, 2, 0]]


def test_the_largest_tables_of_soft_counts_are_added_exactly():
    query = SoftCounts(1, 2, 2, 0.1)
    assert query.max_rows * 2**30 <= 2**62  # parts of at most 2**30


def test_parameters_above_are_told_in_their_unit_and_strata_by_label_and_group():
    rng, n = np.random.default_rng(0), 40
    network = Network((2, 1))
    size = network.theta.size
    rows = Rows(
        n,
        x=rng.normal(size=(n, 2)),
        y=rng.normal(size=(n, 1)),
        stratum=np.arange(n) % 4,
    )

    def query(ratio):
        return NetworkGradient(
            RealOutputs(1), lambda block: block.y, None, ratio, 1, size - 1,
            Sizes(float(n), np.full((2, 2), 5)), 0.0, 1.0, 0.5, True,
        )  # fmt: skip

    state = TrainingState(network, None)
    plain, told = (query(ratio).of_rows(rows, state) for ratio in (1.0, 4.0))
    assert plain.all()
    assert_allclose(told, plain / np.repeat([1.0, 4.0], [1, size - 1]), rtol=1e-12)
    penalty = replace(query(1.0), fairness_weight=0.5)._penalty(rows)
    assert_array_equal(penalty.stratum, np.arange(n) % 4)


def test_assignments_of_as_many_records_and_points_as_columns():
    coded, points = np.diag([8192.0, 16384.0]), np.array([[0.5, 0.25], [-1.0, 0.125]])
    cost = ((coded / 2**15 - points[:, None]) ** 2).sum(axis=2)
    P = softmax((np.array([0.1, -0.1]) - cost.T) / 0.5)
    got = _semidual.assignment_sums(coded, points, np.array([0.1, -0.1]), 0.5, 1.0)
    assert_allclose(got[:, 0] / 2**30, P.sum(axis=0), atol=1e-4)
    assert_allclose(got[:, 1:] / 2**30, P.T @ coded / 2**15, atol=1e-4)


def test_how_many_numbers_are_released():
    plan = network_plan(n_features=3, batch_size=5)
    assert _network_training.PointGradient(plan, None).n_coordinates == 15
    assert _network_training.PointGradient(plan, np.eye(3)[:, :2]).n_coordinates == 10
    counts = _pairs.Counts(((0, 1), (1,)), (3, 4), 1)
    block = Rows(
        3, levels=np.array([[0, 0], [2, 3], [2, 3]]), codes=np.array([0, 1, 1])
    )
    assert counts.n_coordinates == 16
    pairs, single = counts.split(counts.of_rows(block, None))  # of no class
    assert_array_equal(single, [[1, 0, 0, 2]])
    assert pairs[0, 0, 0] == 1 and pairs[0, 2, 3] == 2 and pairs.sum() == 3
    features = tuple(np.ones((size, width), dtype=int) for size, width in [(2, 1)] * 4)
    products = _pairs.Products(features, None)
    ordered = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    assert products.tables.tables == ordered and products.n_coordinates == 6


def test_products_of_features_are_of_rows_no_longer_than_one():
    # Sums of products of two are divided by its square without rounding.
    assert math.frexp(_pairs.UNIT)[0] == 0.5

    def products(length):
        return _pairs.Products((np.array([[length, 0]]), np.array([[length, 0]])), 8)

    assert taken(products, [1024, 1025]) == [1024]
    # Two columns of one bin each: the same product for all, and inner products of one.
    assert products(1024).sensitivity("add_remove") == 1.0
    assert products(1024).sensitivity("replace_one") == math.sqrt(2)
    assert _pairs._least_products([0.0, 0.0]) == 0.0
