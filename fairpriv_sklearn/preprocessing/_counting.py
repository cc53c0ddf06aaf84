"""What the table encoder asks of private rows: one count per record and column."""

import math
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from .._shared.sensitivity import counts_l2
from .._wall import KeyedQuery, Rows
from ._cells import DATE, MISSING, TEXT, Cells, TableReader
from ._ranks import counts_within

_RARE_KIND = 0.02  # no kind of column is less likely
SURE = 5.0  # standard deviations by which a count surely stands out of its noise
_CHECKED = 1 << 14  # rows that are held against lists at once


@dataclass(frozen=True, eq=False)
class Counted:
    """How the cells of one column are counted: every cell counts once.

    Parameters
    ----------
    position : int
        Of the column in the table.
    kind : {"number", "date", "category", None}
        None: the kind is asked for as well.
    edges : ndarray of shape (m + 1,), default=None
        Of the cells that numbers are counted in; None for a category.
    missing_values : tuple of str, default=()
        Keys of the cells that mean missing.
    """

    position: int
    kind: str | None
    edges: NDArray | None = None
    missing_values: tuple = ()

    @property
    def n_cells(self) -> int:
        """Number of listed counts: numbers, then missing, dates and text."""
        extra = 3 if self.kind is None else 1
        return (0 if self.edges is None else len(self.edges) - 1) + extra

    def counts(self, cells: Cells) -> NDArray[np.intp]:
        """Listed counts; a cell that has a key is in none."""
        cells = without_missing_values(cells, self.missing_values)
        if self.kind == "category":
            return np.array([np.count_nonzero(cells.kinds == MISSING)])
        numbers = cells.numbers("date" if self.kind == "date" else "number")
        absent = np.isnan(numbers)
        counts = counts_within(numbers[~absent], self.edges)
        if self.kind is not None:
            return np.append(counts, np.count_nonzero(absent))
        others = [np.count_nonzero(cells.kinds == k) for k in (MISSING, DATE, TEXT)]
        return np.append(counts, others)


@dataclass(frozen=True, eq=False)
class ColumnCounts(KeyedQuery):
    """Counts of the cells of several columns, one per record and column.

    A record adds one to a single count of every column, so replacing it moves two
    counts of each by one (Lemma A).

    Parameters
    ----------
    columns : tuple of Counted
    """

    columns: tuple[Counted, ...]

    name = "columns"
    theorem = "privacy/tables:tables-counts"
    norm = "l2"
    block_rows = 16_384  # a call per column and block

    @property
    def n_coordinates(self) -> int:
        """Number of listed counts; an empty question counts nothing, once."""
        return max(1, sum(column.n_cells for column in self.columns))

    @property
    def n_keyed_columns(self) -> int:
        """Number of columns of unlisted categories."""
        return sum(column.kind == "category" for column in self.columns)

    def sensitivity(self, neighboring: str) -> float:
        """Euclidean: every column has one changed cell, or two."""
        return counts_l2(neighboring, max(1, len(self.columns)))

    def counts(self, rows: Rows) -> tuple[NDArray, dict]:
        """Exact counts; for an empty question no row is read."""
        if not self.columns:
            return np.zeros(self.n_coordinates, dtype=np.int64), {}
        return super().counts(rows)

    def of_block(self, block: SimpleNamespace, state) -> NDArray[np.int64]:
        """Listed counts of one block."""
        counts = [c.counts(block.cells.cells(c.position)) for c in self.columns]
        return np.concatenate(counts)

    def keys_of_block(self, block: SimpleNamespace) -> dict:
        """Counts of categories by position of the column and key."""
        found: Counter = Counter()
        for column in self.columns:
            if column.kind != "category":
                continue
            cells = block.cells.cells(column.position)
            keys, inverse = without_missing_values(cells, column.missing_values).keys()
            counts = np.bincount(inverse, minlength=len(keys)).tolist()
            for key, count in zip(keys, counts, strict=True):
                if key is not None and count:
                    found[column.position, key] += count
        return found

    def split(self, counts) -> list[NDArray]:
        """Listed counts of each column."""
        ends = np.cumsum([column.n_cells for column in self.columns])
        return np.split(counts, ends)[: len(self.columns)]


def without_missing_values(cells: Cells, missing_values: tuple) -> Cells:
    """Cells of which those with one of these keys are missing."""
    if not missing_values:
        return cells
    keys, inverse = cells.keys()
    absent = np.array([key in missing_values for key in keys], dtype=bool)[inverse]
    kinds = np.where(absent, MISSING, cells.kinds)
    return Cells(kinds, np.where(absent, np.nan, cells.values), cells._texts)


def told_total(counts, noise: float) -> tuple[float, float]:
    """Number of records by noisy counts of columns, and its standard deviation.

    Each column counts every record once. There are as many as stand out of the noise.
    """
    total = max(1.0, float(np.mean([seen.sum() for seen in counts])))
    sure = max(float(seen[seen > SURE * noise].sum()) for seen in counts)
    return max(total, sure), noise * math.sqrt(sum(map(len, counts))) / len(counts)


def voted_kinds(
    declared, counts, total: float, noise: float, doubt: float = 0.0
) -> list[str]:
    """Kinds of some columns: declared, or most likely by noisy counts of their cells.

    A column's cells that are not missing are of one kind; a kind that few columns have
    needs clearer counts.

    Parameters
    ----------
    declared : sequence of str or None
    counts : sequence of array-like
        The last three are missing cells, dates and text; the rest is left aside: three
        noisy counts instead of hundreds.
    total : float
        Number of cells of each.
    noise : float
        Standard deviation of a count.
    doubt : float, default=0.0
        That of `total`.
    """
    pairs = zip(declared, counts, strict=True)
    votes = np.reshape([seen[-3:] for kind, seen in pairs if kind is None], (-1, 3))
    missing, others = votes[:, :1], votes[:, 1:]
    if not len(votes):
        return list(declared)
    shares = np.clip(others.mean(axis=0) / total, _RARE_KIND, 1.0)
    odds = np.log(shares / max(_RARE_KIND, 1.0 - shares.sum()))
    cells = np.where(missing > 3 * noise, np.maximum(total - missing, 1.0), total)
    square = max(noise, 1e-9) ** 2
    scores = cells * (others - cells / 2) / square + odds
    # If a column is of that kind, its count misses the cells by their doubt, too.
    wide = square + doubt**2
    scores += (others - cells) ** 2 * (1 / square - 1 / wide) / 2
    scores -= math.log(wide / square) / 2
    scores = np.column_stack([np.zeros(len(scores)), scores])
    found = (("number", "date", "category")[best] for best in scores.argmax(axis=1))
    return [next(found) if kind is None else kind for kind in declared]


def placed_columns(
    columns, counts, total: float, scale: float, doubt: float = 0.0
) -> list:
    """The columns, of the kinds that noisy counts tell, with where their numbers lie.

    Parameters
    ----------
    columns : sequence of LearntColumn
    counts : sequence of ndarray
        Noisy counts of each, as `LearntColumn.located` asks for them.
    total : float
        Number of records.
    scale : float
        Standard deviation of a count.
    doubt : float, default=0.0
        That of `total`.
    """
    declared = [column.declared.kind for column in columns]
    kinds = voted_kinds(declared, counts, total, scale, doubt)
    triples = zip(columns, counts, kinds, strict=True)
    return [column.placed(seen, scale, kind) for column, seen, kind in triples]


def refuse_unknown(argument: str, given, names, way_out="") -> None:
    """Refuse names of columns that the table does not have."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(
            f"{argument} names columns that X does not have: {unknown}; leave them out"
            f"{way_out}."
        )


def check_lists(table: TableReader, columns) -> None:
    """Refuse a cell outside a list that is said to be complete."""
    closed = [c for c in columns if c.complete_list() is not None]
    for _, block in table.blocks(_CHECKED) if closed else ():
        for column in closed:
            cells = block.cells(column.position)
            keys, _ = without_missing_values(cells, column.missing_values).keys()
            if not set(keys) <= column.complete_list():
                raise ValueError(
                    f"column {column.name!r} has a cell outside its list of "
                    "categories; add it to the public list (None for a missing "
                    "value), or set other=True in the codebook."
                )


def check_gaps(table: TableReader, columns) -> None:
    """Refuse a missing cell where the codebook says that there are none."""
    full = [c for c in columns if not c.declared.missing]
    for _, block in table.blocks(_CHECKED) if full else ():
        for column in full:
            cells = block.cells(column.position)
            gaps = cells.kinds == MISSING
            if column.is_number:  # what is no number is missing, too
                gaps = np.isnan(cells.numbers(column.declared.kind))
            if gaps.any():
                raise ValueError(
                    f"column {column.name!r} has a missing cell, or one that is not of "
                    "its kind, which is ruled out: set missing=True in the codebook, "
                    "or put None into its list of categories."
                )
