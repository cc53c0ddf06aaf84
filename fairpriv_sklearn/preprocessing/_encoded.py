"""Columns as they are encoded: numbers by their ranks, categories by indicators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import murmurhash3_32

from .._shared.arrays import row_slices
from .._shared.rowwise import BLOCK_ROWS
from ._cells import DATE, NUMBER, Cells, TableReader
from ._counting import without_missing_values
from ._ranks import N_KNOTS, RankMap, moments, nearest_knots, rank_basis

# Numbers are multiples of this: sums of two are exact in single precision, too.
_GRID = 2.0**-20
# Rows are shortened by more than single precision can lengthen them, and looked at
# again in double precision from the second on.
_SLACK, _NEARLY = 1.0 - 1e-5, 0.99
# Rows whose numbers are written at once: they stay in the cache.
_WRITTEN = 512
# Rows that are encoded at once: their numbers stay below the 128 KiB from which on an
# array may be new memory of the system.
_ENCODED = 48 * BLOCK_ROWS
# Indicators that the others of one column share, and those of all columns. Chosen on
# simulated tables: 8 to 128 were tried.
_MOST_OTHERS, _ALL_OTHERS = 32, 256
# Records times the Gaussian parameter below which noise reigns: each further indicator
# has noise of its own in a model.
SIGNAL_OF_INDICATORS = 60.0
# Rows this many standard deviations longer than the mean are shortened. With none
# simulated tables win .003 of AUC at epsilon .3 and lose as little at 3, and a table
# whose rare cells tell most of its target loses; with 2 they lose as much.
_LONG = 1.0
# Indicator of an atom, beside cosines of squared norm 1/2: more of it helps columns of
# which each value acts by itself, and costs those that act smoothly.
_OWN = math.sqrt(0.5)
# No row is made longer than by this: what is known of columns may be noise.
_LARGEST_SCALE = 4.0
# Part of the squared norm of a row that products have. Where columns do not act
# together, .03 takes little less from a model than .1, which gives more where they do.
_OF_PRODUCTS = 0.06
# Records times the Gaussian parameter of the encoder for each product, and four times
# as many where two functions of a column are multiplied. Chosen on simulated tables.
_SIGNAL_OF_PRODUCT = 25.0
_MOST_PRODUCTS, _MOST_LEADING = 128, 2  # that are worth their time
_VARIES = 0.1  # of the largest variance, from which an indicator says something new
_LEAST_SQUARE = 0.02  # of all products: those of rare cells would make rows long
_NO_ATOMS = np.empty((1, 0, 2), dtype=np.int16)


@dataclass(frozen=True, eq=False)
class Spread:
    """What is known of the rows that a column becomes: released, or public.

    Attributes
    ----------
    centre : ndarray of shape (n_features,)
        About their mean, which is taken off.
    square, variance : float
        About the mean and the variance of their squared distances from it.
    """

    centre: NDArray
    square: float
    variance: float

    def offset(self, scale: float) -> NDArray[np.float64]:
        """The centre at a scale, on the grid."""
        return np.rint(self.centre * (scale / _GRID)) * _GRID


def spread_of_number(width: int, atoms, has_flag: bool, shares) -> Spread:
    """Spread of a number, given the shares of its knots and of missing cells."""
    basis, knots, missing = rank_basis(width), shares[:-1], shares[-1] * has_flag
    own = [knots[first:end].sum() for first, end in atoms]
    indicators = [_OWN * share for share in own] + [missing] * has_flag
    centre = np.append(knots @ basis, indicators)
    squares = np.einsum("ij,ij->i", basis, basis) - 2 * (basis @ centre[:width])
    for share, (first, end) in zip(own, atoms, strict=False):
        squares[first:end] += _OWN**2 * (1 - 2 * share)
    shares = np.append(knots, missing)
    return _spread(centre, np.append(squares, 1 - 2 * missing), shares)


def spread_of_indicators(shares, n_others: int, has_flag: bool) -> Spread:
    """The same of indicators: of what is listed, of others, which share some, a flag.

    The last of `shares` are those of others and of missing cells.
    """
    *listed, others, missing = shares
    parts = [others / n_others] * n_others if n_others else []
    centre = np.array([*listed, *parts, *[missing] * has_flag])
    without = max(0.0, 1 - centre.sum())  # any indicator
    return _spread(centre, np.append(1 - 2 * centre, 0.0), np.append(centre, without))


def _spread(centre, squares, shares) -> Spread:
    """By squared norms of the rows less twice their products with the centre."""
    squares = squares + centre @ centre
    square = float(shares @ squares)
    return Spread(centre, square, float(shares @ np.square(squares - square)))


@dataclass(frozen=True)
class NumberColumn:
    """A number as smooth functions of its rank; a flag stands for a missing one.

    Ranks that many records have, the knots between the pairs `atoms`, have an indicator
    each, too.
    """

    name: str
    position: int
    missing_values: tuple
    kind: str
    rank_map: RankMap
    width: int
    atoms: tuple
    has_flag: bool
    ends: tuple
    spread: Spread

    def complete_list(self) -> None:
        """Any number may occur."""

    def feature_names(self) -> list[str]:
        """Names of its columns in the result."""
        names = [f"{self.name}_rank{i}" for i in range(self.width)]
        names += [f"{self.name}_atom{i}" for i in range(len(self.atoms))]
        return names + [f"{self.name}: missing"] * self.has_flag

    def leading(self, most: int) -> tuple[NDArray[np.intp], float]:
        """Its smoothest functions, and about their variance."""
        basis = rank_basis(self.width)[0, :most].astype(np.float64)
        return np.arange(len(basis)), float(basis @ basis) / 2

    def points(self, n_points: int) -> tuple[np.ndarray, Cells]:
        """Values between the learnt ends, as cells too."""
        values = np.clip(self.rank_map.inverse([0.01, 0.99]), *self.ends)
        values = np.linspace(*values, n_points)
        kind = DATE if self.kind == "date" else NUMBER
        cells = Cells(np.full(n_points, kind, dtype=np.int8), values)
        return moments(values) if kind == DATE else values, cells

    @property
    def layout(self) -> tuple:
        """Columns alike that stand side by side are written together."""
        return self.width, len(self.atoms), self.has_flag

    def codes(self, cells: Cells) -> np.ndarray:
        """Rows of the table of :func:`_number_rows` that the cells become."""
        cells = without_missing_values(cells, self.missing_values)
        numbers = cells.numbers(self.kind)
        codes = nearest_knots(self.rank_map(numbers))
        if self.has_flag:
            codes[np.isnan(numbers)] = N_KNOTS
        return codes

    @property
    def largest_code(self) -> int:
        """No code is larger."""
        return N_KNOTS

    def write(self, codes, out, scale: float, atoms=_NO_ATOMS) -> None:
        """Write columns like this one, given a column of codes for each.

        Their `atoms`, if they have any, are of shape (n_columns, n_atoms, 2).
        """
        table = _number_rows(*self.layout, scale, out.dtype)
        shape = codes.shape[1], table.shape[1]
        indicator = table.dtype.type(_on_grid(_OWN * scale))
        # An array that is used again: a new one would take longer than what is done.
        found = np.empty((_WRITTEN, *shape), dtype=table.dtype)
        for rows in row_slices(len(out), _WRITTEN):
            together, own = codes[rows], out[rows]
            # Where no other column stands between them, they are written in place.
            is_whole = own.flags.c_contiguous
            part = own.reshape(len(own), *shape) if is_whole else found[: len(own)]
            # No code needs to be clipped: it is the fast way.
            table.take(together, axis=0, out=part, mode="clip")
            for i, (first, end) in enumerate(atoms.transpose(1, 2, 0), self.width):
                is_atom = (together >= first) & (together < end)
                part[:, :, i] = is_atom * indicator
            if not is_whole:
                own[:] = part.reshape(own.shape)


@dataclass(frozen=True)
class CategoryColumn:
    """A category as an indicator; the others share some, parted by a hash."""

    name: str
    position: int
    missing_values: tuple
    labels: tuple
    keys: tuple
    has_flag: bool
    n_others: int
    is_complete: bool
    spread: Spread

    atoms: ClassVar[tuple] = ()

    def complete_list(self) -> set | None:
        """Keys of all cells there may be, None if there may be others."""
        return {*self.keys, None} if self.is_complete else None

    def feature_names(self) -> list[str]:
        """Names of its columns in the result."""
        names = [f"{self.name}_{label}" for label in self.labels]
        others = [f" {i}" for i in range(1, self.n_others + 1)]
        others = [""] if self.n_others == 1 else others
        names += [f"{self.name}: other{i}" for i in others]
        return names + [f"{self.name}: missing"] * self.has_flag

    def leading(self, most: int) -> tuple[NDArray[np.intp], float]:
        """Its indicators of the largest variance, and that variance."""
        variances = self.spread.centre * (1 - self.spread.centre)
        # The last one of those that vary follows from the others.
        least = _VARIES * variances.max(initial=0.0)
        most = min(most, max(1, np.count_nonzero(variances > least) - 1))
        own = np.sort(np.argsort(-variances, kind="stable")[:most])
        return own, float(variances[own].sum())

    def points(self, n_points: int) -> tuple[np.ndarray, Cells]:
        """The categories, as cells too; the text of none of them is a cell."""
        keys = np.array([[key] for key in self.keys], dtype=object)
        listed = TableReader.of(keys.reshape(len(self.keys), 1))
        return np.array(self.labels, dtype=object), listed.cells(0)

    @property
    def layout(self) -> str:
        """No other column is written together with this one."""
        return self.name

    def codes(self, cells: Cells) -> np.ndarray:
        """Places of the indicators; -1 for cells that have none."""
        keys, inverse = without_missing_values(cells, self.missing_values).keys()
        index = {key: i for i, key in enumerate(self.keys)}
        index[None] = self.largest_code if self.has_flag else self._other("")
        at = [index[key] if key in index else self._other(key) for key in keys]
        return np.array(at, dtype=np.intp)[inverse]

    @property
    def largest_code(self) -> int:
        """No code is larger."""
        return len(self.keys) + self.n_others

    def _other(self, key: str) -> int:
        """Place of a category that is not listed: a public function of its text."""
        if not self.n_others:
            return -1
        text = key.encode("utf-8", "surrogatepass")
        return len(self.keys) + murmurhash3_32(text, positive=True) % self.n_others

    def write(self, codes, out, scale: float) -> None:
        """Write the indicators of this column."""
        (places,), out[:] = codes.T, 0.0
        rows = np.flatnonzero(places >= 0)
        out[rows, places[rows]] = _on_grid(scale)


class Layout:
    """Where the columns of an encoder stand, and how rows are made of their codes.

    Parameters
    ----------
    columns : list of NumberColumn or CategoryColumn
    slices : dict of str to slice
        Where each stands in the result.
    n_leading : int, default=0
        How many functions of a column are multiplied with those of others.
    """

    def __init__(self, columns, slices, n_leading: int = 0):
        ends = [own.stop for own in slices.values()]
        width = max([1, *ends])  # a column is there where no other is
        self.columns, self._width = columns, width
        self._products = Products(columns, slices, n_leading)
        self.width = width + len(self._products)
        self.scale, self._runs, first = row_scale(columns), [], 0
        if len(self._products):
            self.scale *= math.sqrt(1 - _OF_PRODUCTS)
        self._offset = np.zeros(width)
        for one in columns:
            self._offset[slices[one.name]] = one.spread.offset(self.scale)
        for _, run in groupby(columns, lambda one: one.layout):
            run = [*run]
            own = slice(first, first := first + len(run))
            out = slice(slices[run[0].name].start, slices[run[-1].name].stop)
            write = run[0].write
            if run[0].atoms:
                atoms = np.array([one.atoms for one in run], dtype=np.int16)
                write = partial(write, atoms=atoms)
            self._runs.append((write, own, out))
        self._end = max((out.stop for _, _, out in self._runs), default=0)
        largest = max((one.largest_code for one in columns), default=0)
        self._dtype = np.min_scalar_type(-largest - 1)
        self.code_bytes = self._dtype.itemsize * len(columns)

    def codes(self, table: TableReader) -> Iterator[tuple[slice, NDArray]]:
        """Yield blocks of rows, and codes of their cells, a column for each."""
        for rows, cells in table.blocks(_ENCODED):
            codes = np.empty((len(cells), len(self.columns)), dtype=self._dtype)
            for i, one in enumerate(self.columns):
                codes[:, i] = one.codes(cells.cells(one.position))
            yield rows, codes

    def write(self, codes, out) -> None:
        """Write rows that are not shortened, given their codes."""
        out, products = np.split(out, [self._width], axis=1)
        out[:, self._end :] = 0.0  # the column that is there where no other is
        for write, own, part in self._runs:
            write(codes[:, own], out[:, part], self.scale)
        out -= self._offset.astype(out.dtype)
        self._products.write(out, products, self.scale)


class Products:
    """Products of the leading functions of two columns each.

    Parameters
    ----------
    columns : list of NumberColumn or CategoryColumn
    slices : dict of str to slice
        Where each stands in a row.
    n_leading : int
        How many functions of a column.
    """

    def __init__(self, columns, slices, n_leading: int):
        found = [one.leading(n_leading) for one in columns] if n_leading else []
        starts = [slices[one.name].start for one in columns]
        at = [start + own for start, (own, _) in zip(starts, found, strict=False)]
        self._at = np.concatenate([np.zeros(0, dtype=np.intp), *at])
        of = np.repeat(np.arange(len(at)), [len(own) for own in at])
        self.first, self.second = np.nonzero(of[:, None] < of)
        squares = np.array([square for _, square in found])
        self._square = (squares.sum() ** 2 - squares @ squares) / 2

    def __len__(self) -> int:
        return len(self.first)

    def feature_names(self, names) -> list[str]:
        """Names of the products, given those of the columns of a row."""
        names = [names[at] for at in self._at]
        pairs = zip(self.first, self.second, strict=True)
        return [f"{names[i]} * {names[j]}" for i, j in pairs]

    def write(self, rows, out, scale: float) -> None:
        """Write the products of rows, multiples of the grid, on the grid."""
        if not len(self):
            return
        # As long as the rows' share says, if columns are independent; in double
        # precision, so that they are the same in rows of any.
        factor = math.sqrt(_OF_PRODUCTS / max(self._square, _LEAST_SQUARE)) / scale**2
        for part in row_slices(len(rows), _WRITTEN):
            leading = rows[part, self._at].T.astype(np.float64)
            found = leading[self.first]
            found *= leading[self.second]
            found *= factor / _GRID
            np.trunc(found, out=found)
            found *= _GRID
            out[part] = found.T


def n_leading(columns, slices, signal: float = math.inf) -> int:
    """How many functions of a column are multiplied: none where noise reigns.

    Parameters
    ----------
    columns : list of NumberColumn or CategoryColumn
    slices : dict of str to slice
    signal : float, default=inf
        Number of records times the Gaussian parameter of the encoder.
    """
    for n in range(_MOST_LEADING, 0, -1):
        most = min(_MOST_PRODUCTS, signal / n**2 / _SIGNAL_OF_PRODUCT)
        if 0 < len(Products(columns, slices, n)) <= most:
            return n
    return 0


class CodedTable:
    """Encoded rows, held as the codes of their cells: far less memory.

    As an array it is what the encoder gives.

    Parameters
    ----------
    layout : Layout
    codes : ndarray of shape (n_rows, n_columns), of integers
    """

    def __init__(self, layout: Layout, codes):
        self.layout, self.codes = layout, codes
        self.shape = len(codes), layout.width

    def __len__(self):
        return len(self.codes)

    def __array__(self, dtype=None, copy=None):
        rows = np.empty(self.shape, dtype=np.float32)
        self.write(rows)
        return rows if dtype is None else rows.astype(dtype, copy=False)

    def write(self, out) -> None:
        """Write the rows, each by itself."""
        self.layout.write(self.codes, out)
        shorten(out)

    def on_grid(self, unit: float) -> NDArray[np.float64]:
        """The rows in whole multiples of a unit, a power of two, towards zero."""
        out = np.empty(self.shape)
        self.layout.write(self.codes, out)
        long, _ = _long(out)
        for part in row_slices(len(long), _WRITTEN):
            out[long[part]] = _on_grid(np.asarray(self.rows_at(long[part])))
        return out if unit == _GRID else _on_grid(out, unit)

    def rows_at(self, rows) -> CodedTable:
        """Some of its rows."""
        return CodedTable(self.layout, self.codes[rows])


def n_other_indicators(n_lists: int, signal: float = math.inf) -> int:
    """How many indicators others share where so many columns have frequent others.

    One where noise reigns.
    """
    if signal < SIGNAL_OF_INDICATORS:
        return 1
    return max(1, min(_MOST_OTHERS, _ALL_OTHERS // max(1, n_lists)))


def row_scale(columns) -> float:
    """Scale at which few rows are longer than 1; those are shortened."""
    square = sum(column.spread.square for column in columns)
    variance = sum(column.spread.variance for column in columns)
    typical = square + _LONG * math.sqrt(variance)
    return 1.0 / math.sqrt(max(_LARGEST_SCALE**-2, typical))


def shorten(rows) -> None:
    """Shorten rows of norm above 1 to less than that, each by itself."""
    long, squares = _long(rows)
    rows[long] *= (_SLACK / np.sqrt(squares))[:, None]


def _long(rows) -> tuple[NDArray, NDArray]:
    """Which rows are too long, and their squared norms."""
    near = np.flatnonzero(np.einsum("ij,ij->i", rows, rows) > _NEARLY)
    squares = np.empty(len(near))
    for part in row_slices(len(near), _WRITTEN):
        exact = rows[near[part]].astype(np.float64)
        squares[part] = np.einsum("ij,ij->i", exact, exact)
    is_long = squares > _SLACK**2
    return near[is_long], squares[is_long]


@lru_cache(maxsize=32)
def _number_rows(width: int, n_atoms: int, has_flag: bool, scale: float, dtype):
    """What a number becomes by its knot at a scale, on the grid; a missing one is last.

    Columns are the functions of the rank, those of atoms, still empty, and the flag.
    """
    table = np.zeros((N_KNOTS + 1, width + n_atoms + has_flag))
    table[:-1, :width] = rank_basis(width)
    if has_flag:
        table[-1, -1] = 1.0
    table = _on_grid(table * scale).astype(dtype)
    table.setflags(write=False)
    return table


def _on_grid(numbers, unit: float = _GRID):
    """Multiples of a unit, a power of two, not farther from zero."""
    return np.trunc(np.float64(numbers) / unit) * unit
