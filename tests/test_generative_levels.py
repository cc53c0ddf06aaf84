"""Levels of the columns of raw tables, by hand and by released counts alone."""

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairpriv_sklearn.generative import _levels, _pairs, _raw
from fairpriv_sklearn.generative._levels import LevelColumn
from fairpriv_sklearn.preprocessing import cell_of
from fairpriv_sklearn.preprocessing._cells import TableReader
from fairpriv_sklearn.preprocessing._codebook import Column
from fairpriv_sklearn.preprocessing._places import Places
from fairpriv_sklearn.preprocessing._ranks import LARGEST


def test_no_record_goes_to_a_place_far_from_all():
    column = LevelColumn.of("x", 0, Column("number", missing=False))
    grid = column.located().edges
    noisy = np.zeros(len(grid) + 2)
    noisy[cell_of([-1e7, 38.0], grid)] = 40.0, 5000.0  # 4 and 500 deviations
    edges = np.array([-1.2e7, -9e6, 32.0, 36.0, 37.0, 38.0, 48.0])
    column = dataclasses.replace(column, edges=edges).placed(noisy, 10.0, "number")
    assert_array_equal(column.near(edges), [False, *[True] * 5])
    counts = np.array([3.0, 0.0, 60.0, 2000.0, 2500.0, 440.0])
    found = _pairs._clean(counts, 5000.0, 20.0, column)
    assert found[0] == 0.0
    # Without the place the first two cells would share with the next ones.
    counts[:3] = 45.0, 45.0, 45.0
    assert _pairs._clean(counts, 5000.0, 20.0, column)[0] == 0.0
    blind = dataclasses.replace(column, places=None)
    assert _pairs._clean(counts, 5000.0, 20.0, blind)[0] > 40.0
    # What stands out by itself stays, and is what was counted.
    counts[0] = 90.0
    found = _pairs._clean(counts, counts.sum(), 20.0, column)
    assert_allclose(found[0], 90.0, atol=20.0)
    # The mirror image has the same place.
    mirrored = np.append(noisy[:-3][::-1][1:], 0.0)
    flipped = dataclasses.replace(column, edges=-edges[::-1])
    flipped = flipped.placed(mirrored, 10.0, "number")
    assert_array_equal(flipped.near(flipped.edges), [*[True] * 5, False])
    # Zeros alone say nothing of where other numbers are.
    noisy[cell_of([38.0, 0.0], grid)] = 0.0, 5000.0
    assert column.placed(noisy, 10.0, "number").near(edges).all()


def test_what_is_near_a_crowd():
    """Where parts were counted, within four times the width of where records are."""
    column = LevelColumn.of("x", 0, Column("number", missing=False))
    grid = column.located().edges
    noisy = np.zeros(len(grid))
    noisy[cell_of([1e6, 0.0, -1e9], grid)] = 900.0, 500.0, 49.0  # of noise 10
    column = column.placed(noisy, 10.0, "number")
    low, high = grid[cell_of(1e6, grid) + np.arange(2)]
    edges = np.array([-4e6, 0.0, high, 4e6, 6e6])
    assert_array_equal(column.near(edges), [True] * 4)
    cells = column.places.crowded(1440.0)
    parts = np.zeros(len(column.places.asked(cells)))
    for at, count in ((50, [900.0]), (50, [30.0] * 29)):  # none is sure alone
        counts = parts.copy()
        counts[at : at + len(count)] = count
        looked = dataclasses.replace(
            column, places=column.places.with_parts(cells, counts, 10.0)
        )
        ends = looked.places.edges[
            [looked.places.inner.start, looked.places.inner.stop]
        ]
        assert low in ends or high in ends
        reach = 4 * np.ptp(ends)
        edges = np.array([-5, -1.1, -0.9, 0.9, 1.1, 5]) * reach
        edges += np.where(edges < 0, *ends)
        assert_array_equal(looked.near(edges), [False, True, True, True, False])
        # what is far and not sure is left out, and what is surely there is not
        assert looked.with_cells(1440.0).edges[0] == 0.0
    assert column.with_cells(1440.0).edges[0] == 0.0
    # after two looks zeros are far from the crowd, and surely there
    places = column.places
    for _ in range(2):
        cells = places.crowded(1440.0)
        counts = np.zeros(len(places.asked(cells)))
        counts[cell_of(1e6, places.asked(cells))] = 900.0
        places = places.with_parts(cells, counts, 10.0)
    looked = dataclasses.replace(column, places=places)
    assert not looked.near(np.array([-1e-3, 1e-3]))[0]
    assert looked.with_cells(1440.0).edges[0] == 0.0


def looked_into(column, number, total):
    """The column after all looks, which have found a crowd at a number."""
    places = column.places
    for _ in range(3):
        cells = places.crowded(total)
        counts = np.zeros(len(places.asked(cells)))
        counts[cell_of(number, places.asked(cells))] = total
        places = places.with_parts(cells, counts, 10.0)
    return dataclasses.replace(column, places=places)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_stands_out_together_far_from_a_crowd_is_near(sign):
    """A few days beside 999 in nearly all rows, in cells of which none is sure."""
    column = LevelColumn.of("x", 0, Column("number", missing=False))
    grid = column.located().edges
    noisy, days = np.zeros(len(grid)), cell_of(sign * np.array([4.5, 7, 9, 13]), grid)
    noisy[cell_of([999.0, -sign * 1e9], grid)] = 9000.0, 49.0  # of noise 10
    noisy[days] = 40.0
    looked = looked_into(column.placed(noisy, 10.0, "number"), 999.0, 9000.0)
    alone = np.where(noisy == 40.0, noisy, 0.0)
    held = np.flatnonzero(_levels.surely_held(alone, np.full(len(grid), 10.0)))
    low, high = grid[[held[0], held[-1] + 1]]  # two neighbours or all of them
    assert len(held) in (2, 4) and set(held) <= set(days)
    reach = 4 * max(abs(low), abs(high))
    edges = low - reach * np.array([1.1, 1.01, 0.99])
    edges = np.array([*edges, 0.0, *(high + reach * np.array([0.99, 1.01])), 500.0])
    assert_array_equal(looked.near(edges), [0, 1, 1, 1, 1, 0])
    ends = looked.with_cells(9200.0).edges[[0, -1]]
    assert -200 < ends[0] <= min(sign * 4, 999) and 999 < ends[1] < 1001
    # Less than that is noise.
    noisy[days] = 20.0
    looked = looked_into(column.placed(noisy, 10.0, "number"), 999.0, 9000.0)
    assert not looked.near(np.array([-20.0, 0.0, 20.0])).any()


def test_what_surely_has_records_together():
    """The least blocks of 1, 2, ..., 16 cells that stand out of their noise."""

    def held(*counts, at=32, noise=10.0):
        noisy = np.zeros(70)
        noisy[at : at + len(counts)] = counts
        sure = _levels.surely_held(noisy, np.broadcast_to(noise, 70))
        return (np.flatnonzero(sure) - at).tolist()

    assert held(49) == [] and held(51) == [0]
    assert held(51, 30, 30) == [0]  # 30 and 30 are not enough for four cells
    assert held(40, 40) == [0, 1] and held(40, 40, at=31) == []
    assert held(34, 34) == [] and held(*[34] * 4) == [0, 1, 2, 3]
    assert held(*[14] * 16) == list(range(16)) and held(*[12] * 16) == []
    assert held(*[10] * 32) == []  # 28 would be enough for both blocks
    assert held(60, at=69) == [0]  # the last block is not whole
    assert held(*[40] * 2, noise=np.r_[np.full(33, 10.0), np.full(37, 90.0)]) == []


def test_places_are_expected_where_a_column_is():
    """Of a known range a tenth of the blocks is empty, of all numbers nine of ten."""
    rng = np.random.default_rng(0)
    for low, high in ((0.0, 40.0), (-3.0, 900.0)):
        column = LevelColumn.of("x", 0, Column("number", range=(low, high)))
        noisy = 30.0 + 20.0 * rng.normal(size=len(column.located().edges) + 2)
        column = column.placed(noisy, 20.0, "number")
        total = column.places.counts(1000.0).sum()
        wanted = _levels.expected_counts(column.places.noisy, 20.0, total, 0.1)[0]
        assert_allclose(column._placed_counts(1000.0), wanted)
    ends = {0.8: [], 0.9: [], 0.95: []}
    found = []
    for _ in range(30):
        column = LevelColumn.of("x", 0, Column("number"))
        grid = column.located().edges
        noisy = 20.0 * rng.normal(size=len(grid) + 2)
        noisy[cell_of(np.exp(rng.normal(2, 1, 20)), grid)] += 65.0
        column = column.placed(noisy, 20.0, "number")
        places = column.places
        total = places.counts(1000.0).sum()
        is_there = column.near(grid) | (places.noisy > 100.0)
        for empty, listed in ends.items():
            held = _levels.expected_counts(places.noisy, 20.0, total, empty)[1]
            held = np.where(is_there, held, 0.0)
            likely = np.flatnonzero(held >= min(0.5, held.max()))
            listed.append((likely[0], likely[-1]))
        counts = column._placed_counts(1000.0)
        found.append(tuple(np.flatnonzero(counts > 0)[[0, -1]]))
        inside = slice(found[-1][0], found[-1][1] + 1)
        wanted = _levels.expected_counts(places.noisy[inside], 20.0, total, 0.1)[0]
        assert_allclose(counts[inside], wanted)
    assert found == ends[0.9] and found != ends[0.8] and found != ends[0.95]


def test_parts_that_noise_hides_lose_nobody():
    """Of a crowd of 1,400 in parts whose noise is 80 no part has most."""
    column = LevelColumn.of("x", 0, Column("number", missing=False))
    grid = column.located().edges
    noisy = np.zeros(len(grid))
    noisy[cell_of([24.0, 32.0], grid)] = 200.0, 1200.0
    column = column.placed(noisy, 20.0, "number")
    cells = column.places.crowded(1400.0)
    n_taken = 0
    for seed in range(200):
        counts = 80.0 * np.random.default_rng(seed).normal(
            size=len(column.places.asked(cells))
        )
        counts += 1400.0 / len(counts)
        places = column.places.with_parts(cells, counts, 80.0)
        if places.inner is not None:
            n_taken += 1
            looked = dataclasses.replace(column, places=places).with_cells(1400.0)
            assert looked.edges[0] <= 24.0 and looked.edges[-1] >= 47.0
    assert n_taken >= 3


def test_no_parts_lie_beyond_a_public_range():
    column = LevelColumn.of("x", 0, Column("number", range=(0, int(LARGEST))))
    n = len(column.located().edges) - 1
    places = column.placed(np.zeros(n + 1), 1.0, "number").places
    parts = places.parts(np.array([n - 2, n - 1]))
    assert parts[-1] == LARGEST and (np.diff(parts[-10:]) == np.diff(parts[-2:])).all()


def test_few_years_of_dates_are_less_likely_empty():
    """Births of eighty years, of which noise hides half: they were put into forty."""
    column = LevelColumn.of("x", 0, Column())
    found = column.placed(np.zeros(200), 7.0, "date")
    cells = found.places.crowded(1000.0)
    seen = np.array([-90, -70, 180, 250, 320, 180, -60, -80, -100, -90, 0.0])
    places = found.places.with_parts(cells, seen, 100.0)
    edges = dataclasses.replace(found, places=places).with_cells(1000.0).edges
    years = np.array(["1920", "2000"], dtype="datetime64[D]").astype(float)
    assert_array_equal(edges[[0, -1]], years)


def test_whether_dates_are_told_is_told_by_the_looks():
    column = LevelColumn.of("x", 0, Column())
    found = column.placed(np.zeros(200), 7.0, "date")
    cells = found.places.crowded(100.0)
    for count, is_placed in ((4.1, True), (3.9, False)):
        seen = np.zeros(len(cells) + 1)
        seen[3] = count * 7.0
        places = found.places.with_parts(cells, seen, 7.0)
        looked = dataclasses.replace(found, places=places)
        assert looked.is_placed == is_placed
        sure = np.zeros(column.located().n_cells)
        sure[-2] = 50.0  # dates
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _raw._tell_of_noise([column], [sure], 7.0, [looked])
        assert len(caught) == (not is_placed)
    assert column.placed(np.zeros(200), 7.0, "number").is_placed
    assert column.placed(np.zeros(200), 7.0, "category").is_placed


def test_what_of_a_column_stands_out_of_noise():
    column = LevelColumn.of("x", 0, Column())
    n = len(column.located().edges) - 1
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert not column.is_told(7.0 * rng.normal(size=n + 3), 7.0)
    for place in (n, n + 1, n + 2, n // 2):  # gaps, dates, text, a number
        one = np.zeros(n + 3)
        one[place] = 3.9 * 7
        assert not column.is_told(one, 7.0)
        one[place] = 4.1 * 7
        assert column.is_told(one, 7.0)
        assert not column.is_told(-one, 7.0)
    spread, start = np.zeros(n + 3), n // 32 * 16
    spread[start : start + 16] = 7.0 * 4.1 / 4  # sixteen cells, each one deviation
    assert column.is_told(spread, 7.0)
    spread[start : start + 16] = 7.0 * 3.9 / 4
    assert not column.is_told(spread, 7.0)
    assert column.is_told(np.zeros(n + 3), 0.0)


def test_numbers_beside_many_zeros_are_none_that_nobody_has():
    column = LevelColumn.of("x", 0, Column("number", missing=False))
    zero = np.array([0.0, np.nextafter(0.0, 1.0)])
    column = dataclasses.replace(column, edges=np.append(zero, 10.0))
    drawn = column.decode(np.array([0, 0, 1]), np.array([0.0, 0.9, 0.5]))
    assert_array_equal(drawn, [0.0, 0.0, 5.0])
    # A tail beyond zero is as wide as it is seen to be, and none where it is not.
    far = 2.0 ** np.arange(20)
    seen = np.where(far == 1024.0, 500.0, 0.0)
    found = _levels._tail(seen, far, 500.0, np.diff(zero)[0])
    assert_allclose(found, 1024.0 / 10.0 ** np.arange(4.0, -1.0, -1.0))
    assert not len(_levels._tail(0.0 * seen, far, 500.0, np.diff(zero)[0]))


def test_a_grid_of_round_numbers_reaches_beyond_all():
    """Cells beyond those of the column hold all that is there, parted at zero."""
    for low, high in ((1.0, 90.0), (1.7e12, 1.8e12), (-1.8e12, -1.7e12), (-9e11, 9e11)):
        column = LevelColumn.of("x", 0, Column("number"))
        column = dataclasses.replace(column, edges=np.linspace(low, high, 20))
        at = column.at_round_numbers()
        assert at.edges[0] < min(low, -(2.0**34)) and at.edges[-1] > max(high, 2.0**34)
        cells = TableReader.of(
            np.array([[low - 1], [-1e15], [high + 1], [1e15]])
        ).cells(0)
        counts = at.counts(cells)[: len(at.edges) - 1]
        beyond = counts[: 1 + (low > 0)], counts[::-1][: 1 + (high < 0)]
        assert [cells.sum() for cells in beyond] == [2, 2]


def test_levels_there_and_back():
    within = np.full(5, 0.4)
    column = LevelColumn.of("a", 0, Column("category", categories=("x", 3)))
    cells = TableReader.of(np.array([["x"], [3.0], ["3"], ["z"], [None]], dtype=object))
    levels = column.encode(cells.cells(0))
    assert levels.tolist() == [0, 1, 1, 2, 3]
    assert column.decode(levels, within).tolist() == ["x", 3, 3, "other", None]
    whole = LevelColumn.of("a", 0, Column("number", range=(0, 5), integer=True))
    cells = TableReader.of(np.array([[-3.0], [0], [2.9], [5], [99], [np.nan]]))
    levels, within = whole.encode(cells.cells(0)), np.full(6, 0.4)
    assert levels.tolist() == [0, 0, 2, 5, 5, 6]
    np.testing.assert_array_equal(whole.decode(levels, within), [0, 0, 2, 5, 5, np.nan])
    declared = Column("number", range=(0, 5), integer=True, missing=False)
    never = LevelColumn.of("a", 0, declared)
    assert never.n_levels == 6 and never.encode(cells.cells(0))[-1] == 0


def test_blocks_keep_what_stands_out():
    rng = np.random.default_rng(0)
    truth = np.zeros(200)
    truth[40], truth[64:96] = 5000, 30
    noisy = truth + 20 * rng.normal(size=200)
    clean, held = _levels.expected_counts(noisy, 20.0, truth.sum(), 0.5)
    assert clean.sum() == pytest.approx(truth.sum())
    assert np.abs(clean - truth).sum() < 0.4 * np.abs(noisy - truth).sum()
    assert clean[40] == pytest.approx(5000, rel=0.05) and (clean >= 0).all()
    assert held[truth > 0].min() > 0.9 and np.mean(held[truth == 0]) < 0.1
    assert_allclose(_levels.expected_counts(np.zeros(4), 1.0, 10, 0.1)[0], 2.5)


@pytest.mark.parametrize("empty", [0.1, 0.9])
def test_counts_are_expected_over_all_partitions(empty):
    """Against all dyadic partitions one by one, the counts by numerical integration."""
    rng = np.random.default_rng(0)

    def partitions(start, stop):
        """Blocks and prior of every partition."""
        if stop - start == 1:
            return [([(start, stop)], 1.0)]
        middle = (start + stop) // 2
        parted = [
            (left + right, p * q / 2)
            for left, p in partitions(start, middle)
            for right, q in partitions(middle, stop)
        ]
        return [([(start, stop)], 0.5), *parted]

    def block(seen, scale, rate):
        """Likelihood, mean count and chance that somebody has these levels."""
        counts = np.linspace(0.0, 600.0, 30_001)
        log_density = -((seen[:, None] - counts) ** 2 / (2 * scale[:, None] ** 2))
        density = np.exp(log_density.sum(axis=0))
        some = density * rate * np.exp(-rate * counts)
        nobody = empty * density[0]
        somebody = (1 - empty) * np.trapezoid(some, counts)
        mean = (1 - empty) * np.trapezoid(some * counts, counts)
        both = nobody + somebody
        return both, mean / both, somebody / both

    for n in (4, 4, 4, 8):
        scale = rng.choice([5.0, 10.0, 40.0], n)
        truth = np.repeat(rng.choice([0.0, 30.0, 200.0], n // 2), 2)
        seen, total = truth + scale * rng.normal(size=n), max(truth.sum(), 100.0)
        found = np.zeros((3, n))
        for blocks, prior in partitions(0, n):
            parts = [
                block(seen[i:j], scale[i:j], n * (1 - empty) / total) for i, j in blocks
            ]
            chance = prior * np.prod([part[0] for part in parts])
            sizes = [j - i for i, j in blocks]
            found[0] += chance
            found[1] += chance * np.repeat([part[1] for part in parts], sizes)
            found[2] += chance * np.repeat([part[2] for part in parts], sizes)
        mean, held = found[1:] / found[0]
        expected = _levels.expected_counts(seen, scale, total, empty)
        assert_allclose(expected[0], mean * (total / mean.sum()), rtol=1e-4, atol=1e-6)
        assert_allclose(expected[1], held, rtol=1e-4, atol=1e-6)


def test_what_noise_hides_is_told_by_blocks_of_places():
    column = LevelColumn.of("x", 0, Column())
    noisy = np.zeros(len(column.located().edges) + 2)
    assert not column.is_told(noisy, 1.0)
    noisy[:-3] = 0.33  # all of them together are 4.3 deviations: somewhere they are
    assert not column.is_told(noisy, 1.0)
    noisy[40:44] = 2.5
    assert column.is_told(noisy, 1.0)
    noisy[:] = 0.0
    noisy[-1] = 4.1
    assert column.is_told(noisy, 1.0) and not column.is_told(noisy, 1.1)


def test_cells_that_are_likely_empty_are_emptied():
    column = LevelColumn.of("x", 0, Column("number", range=(0, 8), missing=False))
    column = dataclasses.replace(column, edges=np.arange(9.0))
    counts = np.array([1000.0, 900.0, 1100.0, 1000.0, 15.0, -20.0, 10.0, 0.0])
    found = _pairs._clean(counts, 4000.0, 20.0, column)
    assert_array_equal(found > 0, counts > 100)
    wanted = _levels.expected_counts(counts, 20.0, 4000.0, 0.1)[0][:4]
    assert_allclose(found[:4], wanted + (4000.0 - wanted.sum()) / 4)
    # where all is noise nobody is left out
    assert (_pairs._clean(-np.ones(8), 1.0, 20.0, column) > 0).any()


@given(
    seen=st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40),
    scale=st.floats(1e-6, 1e9),
    total=st.floats(1.0, 1e12),
    empty=st.sampled_from([0.1, 0.9]),
)
def test_expected_counts_of_anything_are_counts(seen, scale, total, empty):
    counts, held = _levels.expected_counts(np.array(seen), scale, total, empty)
    assert (counts >= 0).all() and counts.sum() == pytest.approx(total)
    assert ((held >= 0) & (held <= 1 + 1e-9)).all()


def test_atoms_and_tails():
    """Frequent round numbers get a cell; so does a tail that the grid's noise hid."""
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            np.full(3000, 40),
            np.full(900, 35),
            rng.uniform(1, 100, 6000),
            -rng.exponential(5, 600),
        ]
    )
    column = LevelColumn.of("x", 0, Column("number"))
    places = np.histogram(values, column.located().edges)[0].astype(float)
    column = column.placed(places, 20.0, "number")
    column = dataclasses.replace(column, edges=np.array([0.0, 5e-324, 10, 30, 60, 100]))
    at = column.at_round_numbers()
    assert len(at.edges) < 2 * _levels.MOST_ROUND
    cells = TableReader.of(values[:, None]).cells(0)
    noisy = at.counts(cells).astype(float)
    found = column.with_atoms(noisy, 20.0).edges
    for atom in (35.0, 40.0):
        assert {atom, np.nextafter(atom, np.inf)} <= set(found)
    assert 36.0 not in found and found[0] == -100
    assert column.with_atoms(np.zeros(at.n_cells), 20.0).edges.tolist() == (
        column.edges.tolist()
    )
    narrow = _levels.round_numbers(np.array([1990.0, 2000.0, 2010.0, 2020.0]))
    assert {1993.0, 2001.0} <= set(narrow)
    assert {0.3, 0.35, 2.0} <= set(_levels.round_numbers(np.array([0.1, 0.5, 1, 3.0])))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_tail_ends_at_zero(sign):
    """But where more surely lie behind it, and only where some lie before it."""
    column = LevelColumn.of("x", 0, Column("number"))
    places = np.zeros(column.located().n_cells)
    column = column.placed(places, 10.0, "number")
    plain = [2.0, 5.1, 8.0]
    column = dataclasses.replace(column, edges=np.sort(sign * np.array(plain)))
    at = column.at_round_numbers().edges
    zero = np.searchsorted(at, 0.0)
    assert at[zero] == 0.0
    known = dataclasses.replace(column.declared, range=(-500, 500))
    known = dataclasses.replace(column, declared=known)
    assert known.at_round_numbers().edges.tolist() == at[at != 0.0].tolist()

    def found(behind, before, at_ends=0.0):
        noisy = np.zeros(len(at) - 1)
        noisy[[zero - 1, zero]] = [behind, before][::sign]
        noisy[np.isin(at[:-1], [sign * 2.0, sign * 8.0])] = at_ends
        edges = column.with_atoms(noisy, 10.0).edges
        return np.unique(np.round(sign * edges, 9)).tolist()  # atoms end where they are

    decades = np.ptp(plain) * 10.0 ** np.arange(-3, 1)
    tail = (plain[0] - decades[::-1]).tolist()
    # numbers at the ends are no tail
    assert found(0.0, 0.0, 1e3) == plain
    assert found(24.9, 24.9) == plain
    assert_allclose(found(24.9, 25.1), [0.0, *tail[1:], *plain])
    assert_allclose(found(25.1, 0.0), [tail[0], 0.0, *tail[1:], *plain])


def test_parts_that_stand_out_together():
    """The most of 1, 2 and 4 cells from the first on, by two deviations of the sum."""
    n_beside = _levels.n_beside
    for noisy, expected in (
        ([], 0),
        ([0.0] * 9, 0),
        ([2.1], 1),
        ([2.0], 0),
        ([2.1, 0, 0, 0, 0], 1),
        ([0.0, 2.9, 0, 0, 0], 2),  # 2.9 > 2 sqrt(2)
        ([0.0, 2.8, 0, 0, 0], 0),
        ([0.0, 1.5, 1.4, 1.2, 0], 4),  # 4.1 > 2 sqrt(4)
        ([0.0, 1.5, 1.4, 1.0, 9], 0),
        ([1.5, 1.4, 1.4], 3),  # 4.3 > 2 sqrt(3)
    ):
        noisy = np.array(noisy)
        assert n_beside(noisy, np.ones(len(noisy))) == expected
        assert n_beside(5 * noisy, np.full(len(noisy), 5.0)) == expected


@pytest.mark.parametrize("kind", ["date", "number"])
@pytest.mark.parametrize(("first", "last"), [(26, 40), (30, 44), (26, 44)])
def test_months_are_found_in_parts_that_noise_hides(kind, first, last):
    """Of dates, beside a crowd: of all numbers there are, a column has few."""
    edges = np.concatenate([[-1e4, 0], np.arange(100.0, 6500, 100), [2e4]])
    seen, noise = np.zeros(len(edges) - 1), np.full(len(edges) - 1, 96.0)
    seen[first:last] = 110.0  # of four 440 stand out of 2 * 96 * sqrt(4), one does not
    seen[30:40] = 900.0
    places = Places(edges, seen, np.zeros(3), noise, True, slice(2, len(seen) - 1))
    column = LevelColumn("x", 0, Column(kind), places=places)
    held = np.flatnonzero(column._placed_counts(seen.sum()) > 0)
    if kind == "number":
        first, last = 30, 40
    assert_array_equal(held, np.arange(first, last))


@pytest.mark.parametrize("inner", [slice(28, 42), None])
def test_no_dates_are_found_beyond_the_parts_of_a_look(inner):
    """Where nobody looked into a cell, cells are decades and not months."""
    edges = np.concatenate([[-1e4, 0], np.arange(100.0, 6500, 100), [2e4]])
    seen, noise = np.zeros(len(edges) - 1), np.full(len(edges) - 1, 96.0)
    seen[26:44], seen[30:40] = 110.0, 900.0
    places = Places(edges, seen, np.zeros(3), noise, True, inner)
    column = LevelColumn("x", 0, Column("date"), places=places)
    held = np.flatnonzero(column._placed_counts(seen.sum()) > 0)
    assert_array_equal(held, np.arange(30, 40))


def test_numbers_of_code_books_are_asked_for():
    """Wherever they lie among the cells, within the coordinates of the plan."""
    inside = np.array([0.0, 5e-324, 5, 10, 20, 30, 64, 1024])
    found = set(_levels.round_numbers(inside))
    assert {9.0, 98.0, 777.0, 888.0, 998.0, 999.0, 999.9} <= found
    assert not {-1.0, 9999.0} & found
    wide = np.geomspace(1e-5, 1e9, 40)
    asked = _levels.round_numbers(np.concatenate([-wide[::-1], [0.0], wide]))
    assert {-1.0, -9.0, -99.0, -999.9, -9999.0, 9999.0, 999999999.0} <= set(asked)
    # decades, multiples on a span of 128, zero; an edge before and behind each, four
    # ends, and zero once more where it lies beyond
    most = 90 * _levels.MOST_DECADES + 129 + 1 + len(_levels.SENTINELS)
    assert len(asked) <= most and 2 * most + 5 <= 2 * _levels.MOST_ROUND


def test_levels_and_places_are_least_squares():
    """Against a solver; as exact as is said; nothing is said of what lies beyond."""
    rng, n_draws = np.random.default_rng(0), 2000
    column = LevelColumn.of("x", 0, Column("number", missing=True))
    cells = np.array([0.0, 3.0, 8.0, 10.0, 24.0, 64.0, 70.0])
    edges, scale, deviation = column.located().edges, 30.0, 50.0
    inside = (edges[:-1] >= 3.0) & (edges[1:] <= 64.0)
    n_inside = inside.sum()
    assert n_inside == 9
    truth = np.array([700.0, 500, 200, 1400, 900, 300, 0])
    parts = np.zeros((n_inside, len(truth)))
    for i, low, high in zip(
        range(n_inside), edges[:-1][inside], edges[1:][inside], strict=True
    ):
        for j in range(1, 5):
            shared = min(high, cells[j + 1]) - max(low, cells[j])
            parts[i, j] = max(shared, 0) / (cells[j + 1] - cells[j])
    found, stated = [], []
    for _ in range(n_draws):
        counts = truth + scale * rng.normal(size=len(truth))
        seen = rng.normal(0, 1e6, size=len(edges) - 1)
        seen[inside] = parts @ truth + deviation * rng.normal(size=n_inside)
        placed = dataclasses.replace(column, edges=cells)
        placed = placed.placed(seen, deviation, "number")
        both, factor = placed.with_counted(counts, scale)
        found.append(both)
        stated.append(scale**2 - (factor**2).sum(axis=1))
    doubt = (_levels.DOUBT * np.maximum(counts, scale)) ** 2
    noise = deviation**2 * np.eye(n_inside)
    for part, size in zip(parts.T, doubt, strict=True):
        noise += size * (np.diag(part) - np.outer(part, part))
    root = np.linalg.inv(np.linalg.cholesky(noise))
    design = np.concatenate([np.eye(len(truth)) / scale, root @ parts])
    target = np.concatenate([counts / scale, root @ seen[inside]])
    np.testing.assert_allclose(both, np.linalg.lstsq(design, target)[0])
    covariance = np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(scale**2 * np.eye(7) - factor @ factor.T, covariance)
    np.testing.assert_allclose(np.mean(found, axis=0), truth, atol=4.0)
    spread = np.std(found, axis=0)
    assert (spread < 1.05 * np.sqrt(np.mean(stated, axis=0))).all()
    assert (spread[3:5] < 0.97 * scale).all()
    assert spread[[0, 5, 6]] == pytest.approx(scale, rel=0.1)
    bins = np.array([0, 0, 1, 1, 1, 2, 3])
    sums = (bins == np.arange(4)[:, None]) @ factor
    np.testing.assert_allclose(_pairs._of_bins(factor, bins), np.diag(sums @ sums.T))
    mean = np.diag(covariance).mean()
    assert _pairs._left(scale, factor) == pytest.approx(np.sqrt(mean))
    # places of whole numbers are those of the numbers in them
    declared = Column("number", range=(0, 40), integer=True)
    whole = LevelColumn.of("x", 0, declared)
    numbers = np.repeat(np.arange(41), rng.integers(100, 300, 41))
    edges = whole.located().edges
    seen = np.histogram(numbers, edges)[0].astype(float)
    whole = whole.placed(seen, 1.0, "number")
    counts, factor = whole.with_counted(np.full(whole.n_levels, 150.0), 40.0)
    at = np.flatnonzero(edges == 22.5)[0]
    assert edges[at + 1] == 24.0
    assert counts[23] == pytest.approx(seen[at], rel=0.02)
    unplaced = dataclasses.replace(whole, places=None).with_counted(counts, 40.0)
    assert unplaced[0] is counts and not unplaced[1].size


@pytest.mark.parametrize("integer", [False, True])
def test_levels_and_round_numbers_are_least_squares(integer):
    """Counts between edges that both have are one count more of the cells between."""
    declared = Column("number", range=(0, 40), integer=integer)
    column = LevelColumn.of("x", 0, declared)
    column = dataclasses.replace(column, edges=np.array([0.0, 7.0, 7.5, 9.0, 23.0, 40]))
    at = column.at_round_numbers()
    rng = np.random.default_rng(0)
    seen, truth = rng.normal(100, 30, at.n_cells), rng.normal(300, 60, 6)
    column = column.placed(np.zeros(200), 50.0, "number")
    column = dataclasses.replace(column, places=None).with_atoms(seen, 1e3)
    if integer:
        column = column.with_even_cells()
        assert column.edges.tolist() == [0, 7, 8, 9, 23, 41]
    counts, factor = column.with_counted(truth, 20.0)
    ends = column.edges[1:-1]
    starts = np.ceil(at.edges[:-1]) if integer else at.edges[:-1]
    empty = starts == (np.ceil(at.edges[1:]) if integer else at.edges[1:])
    assert empty.any() == integer
    both = np.isin(ends, starts)
    assert both.all() or not integer
    wanted, variance = truth.copy(), np.full(6, 400.0)
    common = [-np.inf, *ends[both], np.inf]
    for low, high in itertools.pairwise(common):
        cells = (column.edges[:-1] >= low) & (column.edges[:-1] < high)
        cells = np.flatnonzero(cells)
        asked = (starts >= low) & (starts < high) & ~empty
        gap = seen[:-1][asked].sum() - truth[cells].sum()
        noise = 1e6 * asked.sum() + 400.0 * len(cells)
        wanted[cells] += 400.0 * gap / noise
        variance[cells] -= 400.0**2 / noise
    np.testing.assert_allclose(counts, wanted)
    np.testing.assert_allclose(400.0 - (factor**2).sum(axis=1), variance)


def test_levels_and_categories_are_least_squares():
    column = LevelColumn.of("x", 0, Column("category", other=True))
    column = column.with_categories(["a", "b", "c"])
    seen, counts = np.array([90.0, 70.0, 40.0, 12.0]), np.array([80.0, 80, 50, 9, 8])
    for missing, variance in ((True, [80.0, 80, 80, 400, 80]), (False, [80.0] * 3)):
        declared = dataclasses.replace(column.declared, missing=missing)
        found = dataclasses.replace(column, declared=declared, shown=(seen, 10.0))
        both, factor = found.with_counted(counts[: found.n_levels], 20.0)
        wanted = 0.2 * counts + 0.8 * np.r_[seen[:3], 0.0, seen[3]]
        wanted[3] = counts[3]
        np.testing.assert_allclose(both, wanted[: found.n_levels])
        left = 400.0 - (factor**2).sum(axis=1)
        np.testing.assert_allclose(left[: len(variance)], variance)
    assert found.n_levels == 4 and left[3] == 400.0
    # where none was found
    empty = dataclasses.replace(found.with_categories([]), shown=(seen[3:], 10.0))
    assert empty.with_counted(counts[:1], 20.0)[0] == counts[0]


def test_wide_cells_fall_from_their_neighbours():
    """A tail is not even: its density goes on where that of the next cell ends."""
    column = LevelColumn.of("x", 0, Column("number"))
    edges = np.array([-1e9, 0.0, 5e-324, 1.0, 2.0, 3.0, 1000.0])
    column = dataclasses.replace(column, edges=edges)
    shares = np.array([0.02, 0.3, 0.2, 0.3, 0.1, 0.08])
    falling = column.with_shares(shares)
    assert falling.falls[1:5].tolist() == [0.0] * 4
    within = np.tile((np.arange(4000) + 0.5) / 4000, 6)
    drawn = falling.decode(np.repeat(np.arange(6), 4000), within).reshape(6, 4000)
    for values, low, high in zip(drawn, edges[:-1], edges[1:], strict=True):
        assert low <= values.min() and values.max() <= high
    # rate: the density of the next cell over the share
    assert np.mean(drawn[5]) == pytest.approx(3 + 0.08 / 0.1, rel=0.05)
    assert np.mean(drawn[0]) == pytest.approx(-0.02 / 0.2, rel=0.1)
    assert np.mean(drawn[4]) == pytest.approx(2.5, abs=0.02)
    for falls in (-40.0, -0.7, 1e-9, 0.7, 40.0):
        u = (np.arange(20_000) + 0.5) / 20_000
        places = _levels._falling(u, np.full(20_000, falls))
        grid = np.linspace(0, 1, 20_001)
        density = np.exp(-falls * grid)
        mean = np.trapezoid(grid * density, grid) / np.trapezoid(density, grid)
        assert places.mean() == pytest.approx(mean, abs=1e-4)
    lists = LevelColumn.of("a", 0, Column("category", categories=("x", "y")))
    assert lists.with_shares(np.ones(4)) is lists


def test_round_edges():
    edges = np.array([-7.3, 0.0, 5e-324, 6.7, 10.4, 19.2, 31.0, 1e6])
    rounded = _levels.rounded_edges(edges)
    assert (np.diff(rounded) > 0).all()
    assert rounded.tolist() == [-7.3, 0.0, 5e-324, 8.0, 10.0, 20.0, 500000.0, 1e6]
    assert _levels.roundest(-3.0, 2.0) == 0.0 and _levels.roundest(-300, -120) == -200


def test_round_edges_are_the_numbers_that_people_write():
    """-1183 * 0.1 is below -118.3: a cell of nothing lay between the two."""
    for tenth in range(-3000, 3000):
        exact = tenth / 10
        assert _levels.roundest(exact - 0.004, exact + 0.003) == exact
    # Where so few digits are not between them, what is.
    assert _levels.roundest(1.0, 1 + 2e-12) == 1 + 2e-12


def test_a_cell_of_nothing_is_no_neighbour():
    """Records of the cells beside it were all put at their far ends."""
    column = LevelColumn.of("x", 0, Column("number"))
    low = -118.30000000000001
    number = [-118.3, np.nextafter(-118.3, 0)]  # many records have it
    edges = np.array([-119.0, -118.5, low, *number, -118.1, -118.0])
    assert np.diff(edges)[2:4].max() < 2e-14
    falling = dataclasses.replace(column, edges=edges).with_shares(np.full(6, 0.2))
    assert not falling.falls.any()


def test_numbers_with_the_decimals_of_the_column():
    column = LevelColumn.of("x", 0, Column("number"))
    column = dataclasses.replace(column, decimals=2)
    for k in range(-1200, 1200):
        number, after = k / 100, (k + 1) / 100
        assert column.raised(number) == number == column.lowered(number)
        assert column.raised(np.nextafter(number, 99)) == after
        assert column.lowered(np.nextafter(number, -99)) == (k - 1) / 100
    # A file would have "-0.0".
    assert not np.signbit(column.lowered(np.array([0.0, -0.0, 0.004]))).any()
    # A frequent number, cells that begin between two numbers, and one that has none.
    edges = np.array([-0.015, 1.29, np.nextafter(1.29, 2), 1.501, 1.509, 2.0])
    even = dataclasses.replace(column, edges=edges).with_even_cells()
    assert even.edges.tolist() == [-0.01, 1.29, 1.3, 1.51, 2.0]
    within = (np.arange(2000) + 0.5) / 2000
    for cell, low, high in [(0, -1, 129), (1, 129, 130), (2, 130, 151), (3, 151, 200)]:
        drawn = even.decode(np.full(2000, cell), within)
        values, counts = np.unique(drawn, return_counts=True)
        assert values.tolist() == [k / 100 for k in range(low, high)]
        assert counts.max() - counts.min() <= 1 + 0.01 * counts.max()
    ends = dataclasses.replace(column, edges=np.array([1.0, 7.5, 7.51]))
    assert ends.with_even_cells().edges.tolist() == [1.0, 7.5, 7.51, 7.52]
    declared = Column("number", range=(1, 7.51))
    ends = dataclasses.replace(ends, declared=declared)
    assert ends.with_even_cells().edges.tolist() == [1.0, 7.5, 7.52]
    unknown = dataclasses.replace(column, decimals=None, edges=edges)
    assert unknown.with_even_cells() is unknown and unknown.raised(0.123) == 0.123


def test_round_numbers_have_the_decimals_of_the_column():
    grades = np.array([2.0, 2.4, 2.9, 3.3, 3.6, 4.0])
    assert not {2.33, 3.67} & set(_levels.round_numbers(grades))
    found = _levels.round_numbers(grades, 2)
    assert {2.33, 3.67, 3.5} <= set(found) and (np.round(found, 2) == found).all()
    # 399 steps of .05, but not 400, are asked for one by one
    for high, asked in [(24.0, True), (26.0, False)]:
        found = _levels.round_numbers(np.linspace(0, high, 40), 2)
        assert (7.35 in found) == asked and 7.36 not in found
    whole = _levels.round_numbers(np.array([0.0, 1.0, 7.0, 30.0]), 0)
    assert (np.round(whole) == whole).all() and 7.0 in whole


def test_no_more_round_numbers_than_are_planned():
    """A column with more would be refused behind the spend."""
    of_digits = 90 * _levels.MOST_DECADES + len(_levels.SENTINELS) + 1
    assert of_digits + _levels.MOST_EVEN <= _levels.MOST_ROUND
    rng, most = np.random.default_rng(0), 0
    for _ in range(300):
        sizes = 10 ** rng.uniform(*np.sort(rng.uniform(-3, 10, 2)), size=50)
        edges = np.unique(sizes * rng.choice([-1, 1], 50))
        for decimals in (None, 0, 1, 2, 3):
            most = max(most, len(_levels.round_numbers(edges, decimals)))
    assert 1000 < most <= _levels.MOST_ROUND


def test_ends_of_whole_numbers():
    def ends(*edges, **declared):
        column = Column("number", integer=True, **declared)
        column = LevelColumn("a", 0, column, np.array(edges))
        return column.with_even_cells().edges.tolist()

    after = np.nextafter(2.0, 3.0)
    assert ends(1.0, 2.0, after, 3.0) == [1, 2, 3, 4]  # beyond 2 is a cell
    assert ends(1.0, 4.0, 8.0) == [1, 4, 8] and ends(1.0, 1.3, 1.5) == [1, 2]
    assert ends(2.0, 3.0) == [2, 3, 4] and ends(2.0) == [2, 3]
    assert ends(1.0, 7.0, 8.0, range=(1, 8)) == [1, 7, 9]
