"""Columns as they are encoded: numbers by their ranks, categories by indicators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairpriv_sklearn.preprocessing._cells import DATE, NUMBER, Cells, TableReader
from fairpriv_sklearn.preprocessing._counting import without_missing_values
from fairpriv_sklearn.preprocessing._ranks import (
    N_KNOTS,
    RankMap,
    nearest_knots,
    rank_basis,
)

# Rows are shortened by more than single precision can lengthen them.
_SLACK = 1.0 - 1e-5
# Rows whose numbers are written at once: they stay in the cache.
_WRITTEN = 512
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
        return values, Cells(np.full(n_points, kind, dtype=np.int8), values)

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

    def write(self, codes: list, out, scale: float) -> np.ndarray:
        """Write columns like this one, given their codes; return squared norms."""
        table, squares = _basis(self.width, self.has_flag, scale)
        shape = len(codes), table.shape[1]
        # An array that is used again: a new one would take longer than what is done.
        found = np.empty((_WRITTEN, *shape), dtype=table.dtype)
        for start in range(0, len(out), _WRITTEN):
            rows = slice(start, start + _WRITTEN)
            together, own = np.stack([one[rows] for one in codes], axis=1), out[rows]
            # Where no other column stands between them, they are written in place.
            is_whole = own.flags.c_contiguous and own.dtype == table.dtype
            part = own.reshape(len(own), *shape) if is_whole else found[: len(own)]
            # No code needs to be clipped: it is the fast way.
            table.take(together, axis=0, out=part, mode="clip")
            if not is_whole:
                own[:] = part.reshape(own.shape)
        return sum(squares.take(own) for own in codes)


@dataclass(frozen=True)
class CategoryColumn:
    """A category as an indicator; the rest is "other"."""

    name: str
    position: int
    missing_values: tuple
    labels: tuple
    keys: tuple
    has_flag: bool
    has_other: bool
    is_complete: bool = False

    def complete_list(self) -> set | None:
        """Keys of all cells there may be, None if there may be others."""
        return {*self.keys, None} if self.is_complete else None

    def feature_names(self) -> list[str]:
        """Names of its columns in the result."""
        names = [f"{self.name}_{label}" for label in self.labels]
        names += [f"{self.name}: other"] * self.has_other
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
        other = len(self.keys) if self.has_other else -1
        missing = len(self.keys) + self.has_other if self.has_flag else other
        at = [missing if key is None else index.get(key, other) for key in keys]
        return np.array(at, dtype=np.intp)[inverse]

    def write(self, codes: list, out, scale: float) -> np.ndarray:
        """Write the indicators of this column; return squared norms."""
        (places,) = codes
        rows = np.flatnonzero(places >= 0)
        out[rows, places[rows]] = scale
        return np.where(places >= 0, float(np.float32(scale)) ** 2, 0.0)


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
    long = np.flatnonzero(squares > _SLACK**2)
    rows[long] *= (_SLACK / np.sqrt(squares[long]))[:, None]


@lru_cache(maxsize=32)
def _basis(width: int, has_flag: bool, scale: float) -> tuple:
    """What a number becomes by its knot, with squared norms; a missing one comes last.

    Columns are the functions of the rank, and the flag.
    """
    table = rank_basis(width) * np.float32(scale)
    if has_flag:
        table = np.pad(table, (0, 1))
        table[-1, -1] = scale
    squares = np.square(table, dtype=np.float64).sum(axis=1)
    for shared in (table, squares):
        shared.setflags(write=False)
    return table, squares
