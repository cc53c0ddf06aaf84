"""Cells, ranks and the basis on them: public arithmetic, bit by bit."""

import bisect
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fairpriv_sklearn.preprocessing._ranks import (
    N_KNOTS,
    RankMap,
    cell_of,
    counts_within,
    edges_within,
    ends_at_records,
    is_zero,
    n_coordinates,
    nearest_knots,
    parts_of_cell,
    quantile_edges,
    rank_basis,
    universal_edges,
)


def test_basis_rows_have_norm_at_most_one():
    u = np.random.default_rng(0).random(5000)
    for width in (1, 4, 24, 64):
        norms = np.linalg.norm(
            rank_basis(width)[nearest_knots(u)].astype(float), axis=1
        )
        assert norms.max() <= 1 + 1e-7
        assert norms.max() >= 0.9999


def test_rank_map_is_a_distribution_function():
    edges = edges_within(-3.0, 5.0)
    counts = np.random.default_rng(0).random(len(edges) - 1)
    ranks = RankMap.from_counts(edges, counts)
    values = np.sort(np.random.default_rng(1).uniform(-5, 7, 1000))
    u = ranks(values)
    assert (np.diff(u) >= 0).all()
    assert u.min() == 0.0
    assert u.max() == 1.0
    assert ranks([np.nan])[0] == 0.5
    zero = universal_edges().searchsorted(0.0)
    atom = np.zeros(len(universal_edges()) - 1)
    atom[zero], atom[zero + 1] = 3.0, 1.0
    ranks = RankMap.from_counts(universal_edges(), atom)
    # The atom is shortened from 3/4 of the records to half of the ranks.
    assert_allclose(ranks([-1.0, 0.0, 5e-324]), [0.0, 0.25, 0.5], atol=1e-3)


def awkward_edges(rng):
    """Edges of cells of many kinds, and values on, beside and far from them."""
    size = 10.0 ** rng.integers(-5, 9)
    universal = universal_edges()
    counts = np.maximum(0, rng.normal(size=len(universal) - 1))
    edges = [
        universal,
        quantile_edges(universal, counts * size, noise=rng.uniform(0, 3)),
        edges_within(*np.sort(rng.normal(size=2)) * size),
        np.unique(rng.normal(size=rng.integers(2, 60)) * size),
        np.unique(np.exp(5 * rng.normal(size=20)) * rng.choice([-1, 1], 20)),
        np.array([-1e300, -1.0, 0.0, 5e-324, 1.0, 1.0 + 2**-52, 1e300]),
        np.array([-size, -1e-38, -1e-40, -1e-300, 0.0, 1e-46, 1e-39, 1e-37, size]),
        np.array([-size, size]),
    ][rng.integers(8)]
    with np.errstate(over="ignore"):
        single = edges.astype(np.float32)
    # Cells are told by the leading bits of single precision.
    beside = [
        np.nextafter(numbers, numbers.dtype.type(end))
        for numbers in (edges, single, single * np.float32(1 - 2**-8))
        for end in (np.inf, -np.inf)
    ]
    beside += [edges, single]
    ends = [np.inf, -np.inf, 0.0, -0.0, 1.7e308, -1.7e308, 5e-324]
    ends += [-5e-324, 1e-310, -1e-310, 2e-46, -2e-46, 1e-39, -1e-39, 1e-40, -1e-40]
    far = rng.normal(size=40) * 10.0 ** rng.integers(-9, 9)
    within = rng.uniform(edges[0] / 2, edges[-1] / 2, size=40)
    return edges, np.concatenate([*beside, ends, far, within])


def rank_by_definition(value, edges, shares):
    """One rank, by Python's own floats and search."""
    at = bisect.bisect_right(edges, value) - 1
    if at == len(edges) - 1:
        return shares[-1]
    rise = (shares[at + 1] - shares[at]) / (edges[at + 1] - edges[at])
    return rise * (value - edges[at]) + shares[at]


def test_values_at_the_edges_of_cells_are_in_the_cell_above():
    rng = np.random.default_rng(0)
    for _ in range(300):
        edges, values = awkward_edges(rng)
        cells = np.searchsorted(edges, values, side="right") - 1
        cells = np.clip(cells, 0, len(edges) - 2)
        assert_array_equal(cell_of(values, edges), cells)
        counts = np.bincount(cells, minlength=len(edges) - 1)
        assert_array_equal(counts_within(values, edges), counts)
        assert not counts_within(values[:0], edges).any()
        # Many values are looked up, few are searched for.
        many = np.tile(values, 100)
        assert_array_equal(cell_of(many, edges), np.tile(cells, 100))
        assert_array_equal(counts_within(many, edges), 100 * counts)
        for nan in (np.nan, np.copysign(np.nan, -1)):
            assert (cell_of(np.full(5000, nan), edges) == len(edges) - 2).all()
        assert cell_of(np.nan, edges) == len(edges) - 2
        assert cell_of(values[None, :1], edges).shape == (1, 1)


def test_ranks_have_the_bits_of_their_definition():
    rng = np.random.default_rng(1)
    for _ in range(200):
        edges, values = awkward_edges(rng)
        counts = np.maximum(rng.normal(size=len(edges) - 1), 0)
        ranks = RankMap.from_counts(edges, counts)
        found = ranks(values.reshape(1, -1))[0]
        assert_array_equal(ranks(np.tile(values, 100)), np.tile(found, 100))
        clipped = np.clip(values, edges[0], edges[-1])
        # On some machines it fuses a product and a sum.
        expected = np.clip(np.interp(clipped, edges, ranks.cdf), 0.0, 1.0)
        # Zero alone has the rank in the middle of its cell.
        cells = cell_of(clipped, edges)
        others = ~is_zero(edges)[cells]
        expected[~others] = (ranks.cdf[cells] + ranks.cdf[cells + 1])[~others] / 2
        assert_allclose(found, expected, atol=1e-12)
        wanted = [
            min(rank_by_definition(value, edges.tolist(), ranks.cdf.tolist()), 1.0)
            for value in clipped[others].tolist()
        ]
        assert_array_equal(found[others], wanted)
        assert ranks(np.float64(np.nan)).shape == () and ranks(np.nan) == 0.5


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), (-1.0, 0.0), (-3, 4), (1900, 2020), (1e-9, 2e-9), (0, 1e300)]
)
def test_edges_stay_in_the_public_range(bounds):
    edges = edges_within(*bounds)
    assert (np.diff(edges) > 0).all()
    assert (edges[0], edges[-1]) == bounds
    counts = np.random.default_rng(0).random(len(edges) - 1)
    finer = quantile_edges(edges, counts, bounds)
    assert (np.diff(finer) > 0).all()
    assert (finer[0], finer[-1]) == bounds
    assert len(finer) <= 64


def test_empty_cells_are_no_places_where_few_cells_hold_a_column():
    edges, noise = universal_edges(), 25.0
    counts = np.zeros(len(edges) - 1)
    held, zero = cell_of([1600.0, 0.0], edges)
    counts[cell_of([-1e8, -100.0, 0.3, 1e5, 1e8], edges)] = noise
    counts[held] = 8000.0
    # The full cell counts for 20 times the noise, five empty ones for 5 times.
    finer = quantile_edges(edges, counts, noise=noise)
    inside = ((finer > 1536.0) & (finer < 2048.0)).sum()
    assert_allclose(inside, 32 * 20 / 25, atol=1)
    ranks = RankMap.from_counts(edges, counts, noise=noise)([1536.0, 2047.99])
    assert_allclose(np.diff(ranks), 20 / 25, atol=1e-3)
    # Zero alone is a cell that needs no room.
    counts[held], counts[zero] = 0.0, 8000.0
    ranks = RankMap.from_counts(edges, counts, noise=noise)([-1e-300, 1e-300])
    assert_allclose(np.diff(ranks), 1 / 4, atol=1e-3)


@pytest.mark.parametrize(
    "low, high, is_last, n_parts",
    [
        (1.5, 2.0, False, 64),
        (-4.0, -3.0, False, 64),
        (5e-324, 2.0**-8, False, 85),
        (-(2.0**-8), 0.0, False, 85),
        (1.5 * 2.0**33, 2.0**34, True, 84),
        (-(2.0**34), -1.5 * 2.0**33, True, 84),
        (1.5 * 2.0**33, 2.0**34, False, 64),
        (1.0, 1.0 + 2.0**-51, False, 2),
        (5e-324, 1e-323, False, 1),
    ],
)
def test_parts_of_a_cell(low, high, is_last, n_parts):
    parts = parts_of_cell(low, high, is_last=is_last)
    assert len(parts) == n_parts + 1
    assert (np.diff(parts) > 0).all()
    if n_parts == 64:
        assert_array_equal(parts, np.linspace(low, high, 65))
    if n_parts >= 84:  # universal cells of numbers smaller or larger by 2**42
        inner = np.setdiff1d(np.abs(parts), [0.0, 5e-324, 2.0**-8, 1.5 * 2.0**33])
        universal = universal_edges()
        size = 2.0**42 if is_last else 2.0**-42
        assert_array_equal(inner / size, universal[universal > 1e-300][:84])
    if not is_last:
        assert (parts[0], parts[-1]) == (low, high)
    assert low in parts and high in parts


def test_many_numbers_get_few_coordinates():
    widths = [n_coordinates(n) for n in (1, 16, 30, 100, 1000)]
    assert widths == [24, 15, 8, 2, 2]
    assert [n_coordinates(6, s) for s in (10, 800, 1e4)] == [1, 8, 24]


@pytest.mark.parametrize("atoms", [(), (0,), (1, 4)])
@pytest.mark.parametrize("seed", range(5))
def test_shares_of_knots_are_those_of_values_drawn_in_the_cells(seed, atoms):
    rng = np.random.default_rng(seed)
    edges = np.unique(np.r_[0.0, 5e-324, rng.normal(size=6)])
    counts = rng.dirichlet(np.ones(len(edges) - 1))
    ranks = RankMap.from_counts(edges, counts, atoms=atoms)
    cells = rng.choice(len(counts), 200_000, p=counts)
    values = edges[cells] + np.diff(edges)[cells] * rng.random(len(cells))
    knots = nearest_knots(ranks(np.where(is_zero(edges)[cells], 0.0, values)))
    seen = np.bincount(knots, minlength=N_KNOTS) / len(knots)
    shares = ranks.shares(counts)
    assert_allclose(shares.sum(), 1.0)
    assert_allclose(np.cumsum(shares), np.cumsum(seen), atol=0.005)
    for cell in atoms:
        assert len(np.unique(knots[cells == cell])) == 1
    firsts, ends = zip(*map(ranks.knots, range(len(counts))), strict=True)
    assert_array_equal(firsts[1:], ends[:-1])
    assert (firsts[0], ends[-1]) == (0, N_KNOTS)


def test_ends_at_records():
    nowhere = math.inf, -math.inf

    def ends_at(*ends, edges=None):
        return ends_at_records(*ends, universal_edges() if edges is None else edges)

    # As far as the next universal edge, or as cells that surely have records.
    assert ends_at((-1e9, 1e9), (3.0, 900.0), nowhere) == (2.0, 1024.0)
    assert ends_at((-1e9, 1e9), (3.0, 900.0), (1.0, 2048.0)) == (1.0, 2048.0)
    assert ends_at((-1e9, 1e9), (3.0, 900.0), (4.0, 512.0)) == (2.0, 1024.0)
    assert ends_at((2.5, 950.0), (3.0, 900.0), (1.0, 2048.0)) == (2.5, 950.0)
    assert ends_at((-1e9, 1e9), (-900.0, -3.0), nowhere) == (-1024.0, -2.0)
    # Beyond an edge lies the next cell.
    assert ends_at((-1e9, 1e9), (2.0, 1024.0), nowhere) == (1.5, 1536.0)
    # All in one cell, of which nothing else is known.
    assert ends_at((100.0, 200.0), (200.0, 100.0), nowhere) == (100.0, 200.0)
    assert ends_at((100.0, 200.0), (200.0, 100.0), (96.0, 192.0)) == (
        100.0,
        192.0,
    )
    top = 2.0**34
    assert ends_at((-top, top), (-top, top), nowhere) == (-top, top)
    finer = np.linspace(0.0, 10.0, 11)
    assert ends_at((-1e9, 1e9), (3.5, 6.5), nowhere, edges=finer) == (3.0, 7.0)
