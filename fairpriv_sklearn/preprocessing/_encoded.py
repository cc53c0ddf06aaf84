"""Columns as they are encoded: numbers by their ranks, categories by indicators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import murmurhash3_32

from fairpriv_sklearn._shared.rowwise import BLOCK_ROWS
from fairpriv_sklearn.preprocessing._cells import DATE, NUMBER, Cells, TableReader
from fairpriv_sklearn.preprocessing._counting import without_missing_values
from fairpriv_sklearn.preprocessing._ranks import (
    N_KNOTS,
    RankMap,
    moments,
    nearest_knots,
    rank_basis,
)

# Rows are shortened by more than single precision can lengthen them.
_SLACK = 1.0 - 1e-5
# Rows whose numbers are written at once: they stay in the cache.
_WRITTEN = 512
# Rows that are encoded at once: their numbers stay below the 128 KiB from which on an
# array may be new memory of the system.
_ENCODED = 48 * BLOCK_ROWS
# Indicators that the others of one column share, and those of all columns. Chosen on
# simulated tables: 8 to 128 were tried.
_MOST_OTHERS, _ALL_OTHERS, _SIGNAL_OF_OTHERS = 32, 256, 60.0
# Rows this many standard deviations longer than the mean are shortened.
_LONG = 1.0


@dataclass(frozen=True)
class NumberColumn:
    """A number as smooth functions of its rank; a flag stands for a missing one."""

    name: str
    position: int
    missing_values: tuple
    kind: str
    rank_map: RankMap
    width: int
    has_flag: bool
    ends: tuple

    def complete_list(self) -> None:
        """Any number may occur."""

    def feature_names(self) -> list[str]:
        """Names of its columns in the result."""
        names = [f"{self.name}_rank{i}" for i in range(self.width)]
        return names + [f"{self.name}: missing"] * self.has_flag

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
        return self.width, self.has_flag

    def codes(self, cells: Cells) -> np.ndarray:
        """Rows of the table of :func:`_basis` that the cells become."""
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

    def write(self, codes, out, scale: float, unit: float | None = None) -> None:
        """Write columns like this one, given a column of codes for each."""
        table, _ = _basis(self.width, self.has_flag, scale, unit)
        shape = codes.shape[1], table.shape[1]
        # An array that is used again: a new one would take longer than what is done.
        found = np.empty((_WRITTEN, *shape), dtype=table.dtype)
        for start in range(0, len(out), _WRITTEN):
            rows = slice(start, start + _WRITTEN)
            together, own = codes[rows], out[rows]
            # Where no other column stands between them, they are written in place.
            is_whole = own.flags.c_contiguous and own.dtype == table.dtype
            part = own.reshape(len(own), *shape) if is_whole else found[: len(own)]
            # No code needs to be clipped: it is the fast way.
            table.take(together, axis=0, out=part, mode="clip")
            if not is_whole:
                own[:] = part.reshape(own.shape)

    def squares(self, codes, scale: float) -> np.ndarray:
        """Squared norms of what columns like this one become, for each row."""
        _, squares = _basis(self.width, self.has_flag, scale)
        return sum(squares.take(own) for own in codes.T)


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
    is_complete: bool = False

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

    def write(self, codes, out, scale: float, unit: float | None = None) -> None:
        """Write the indicators of this column."""
        (places,), out[:] = codes.T, 0.0
        rows = np.flatnonzero(places >= 0)
        if unit is not None:
            scale = _on_grid(np.float32(scale), unit)
        out[rows, places[rows]] = scale

    def squares(self, codes, scale: float) -> np.ndarray:
        """Squared norms of the indicators."""
        return np.where(codes[:, 0] >= 0, float(np.float32(scale)) ** 2, 0.0)


class Layout:
    """Where the columns of an encoder stand, and how rows are made of their codes.

    Parameters
    ----------
    columns : list of NumberColumn or CategoryColumn
    slices : dict of str to slice
        Where each stands in the result.
    width : int
        Number of columns of the result.
    """

    def __init__(self, columns, slices, width: int):
        self.columns, self.width = columns, width
        self.scale, self._runs, first = row_scale(columns), [], 0
        for _, run in groupby(columns, lambda one: one.layout):
            run = [*run]
            own = slice(first, first := first + len(run))
            out = slice(slices[run[0].name].start, slices[run[-1].name].stop)
            self._runs.append((run[0], own, out))
        self._end = max((out.stop for *_, out in self._runs), default=0)
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

    def write(self, codes, out, unit: float | None = None) -> None:
        """Write rows that are not shortened, given their codes, on a grid or as is."""
        out[:, self._end :] = 0.0  # the column that is there where no other is
        for column, own, part in self._runs:
            column.write(codes[:, own], out[:, part], self.scale, unit)

    def squares(self, codes) -> NDArray:
        """Their squared norms."""
        squares = np.zeros(len(codes))
        for column, own, _ in self._runs:
            squares += column.squares(codes[:, own], self.scale)
        return squares


class CodedTable:
    """Encoded rows, held as the codes of their cells: far less memory.

    As an array it is what the encoder gives.

    Parameters
    ----------
    layout : Layout
    codes : ndarray of shape (n_rows, n_columns), of integers
    squares : ndarray of shape (n_rows,), default=None
        What `layout` says of the codes.
    """

    def __init__(self, layout: Layout, codes, squares=None):
        self.layout, self.codes = layout, codes
        self.squares = layout.squares(codes) if squares is None else squares
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
        shorten(out, self.squares)

    def on_grid(self, unit: float) -> NDArray[np.float64]:
        """The rows in whole multiples of a unit, a power of two, towards zero."""
        out = np.empty(self.shape)
        self.layout.write(self.codes, out, unit)
        long = _long(self.squares)
        if long.size:
            out[long] = _on_grid(np.asarray(self.rows_at(long)), unit)
        return out

    def rows_at(self, rows) -> CodedTable:
        """Some of its rows."""
        return CodedTable(self.layout, self.codes[rows], self.squares[rows])


def n_other_indicators(n_lists: int, signal: float = math.inf) -> int:
    """How many indicators others share where so many columns have frequent others.

    One where noise reigns, by the number of records times the Gaussian parameter of the
    encoder: each further one has noise of its own in a model.
    """
    if signal < _SIGNAL_OF_OTHERS:
        return 1
    return max(1, min(_MOST_OTHERS, _ALL_OTHERS // max(1, n_lists)))


def row_scale(columns) -> float:
    """Scale at which few rows are longer than 1; those are shortened.

    Of evenly spread ranks a column has squared norm 1/2 on average, and variance at
    most 1/8; a category has norm 1.
    """
    n_numbers = sum(isinstance(column, NumberColumn) for column in columns)
    typical = len(columns) - n_numbers / 2 + _LONG * math.sqrt(n_numbers / 8)
    return 1.0 / math.sqrt(max(1.0, min(typical, len(columns))))


def shorten(rows, squares) -> None:
    """Shorten rows of these squared norms to less than 1, each by itself."""
    long = _long(squares)
    rows[long] *= (_SLACK / np.sqrt(squares[long]))[:, None]


def _long(squares) -> NDArray:
    return np.flatnonzero(squares > _SLACK**2)


@lru_cache(maxsize=32)
def _basis(width: int, has_flag: bool, scale: float, unit: float | None = None):
    """What a number becomes by its knot, with squared norms; a missing one comes last.

    Columns are the functions of the rank, and the flag.
    """
    table = rank_basis(width) * np.float32(scale)
    if has_flag:
        table = np.pad(table, (0, 1))
        table[-1, -1] = scale
    squares = np.square(table, dtype=np.float64).sum(axis=1)
    table = _on_grid(table, unit)
    for shared in (table, squares):
        shared.setflags(write=False)
    return table, squares


def _on_grid(numbers, unit: float | None):
    """Multiples of a unit, a power of two, not farther from zero; None for no unit."""
    return numbers if unit is None else np.trunc(np.float64(numbers) / unit) * unit
