"""Private rows: read in blocks by a query, kept nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from operator import add
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._shared.arguments import InBatches
from .._shared.arrays import row_slices
from .._shared.domain import check_columns
from .._shared.sklearn import safe_indexing

# One rule for all queries: int64 holds sums of this many contributions of 2**31 units.
MAX_ROWS = 1 << 32

# The journal of :func:`fairpriv_sklearn.distributed.resume`, while one is open.
current_journal: ContextVar = ContextVar("current_journal", default=None)


def refuse_many_rows(n_rows: int, most: int) -> None:
    """Refuse a table longer than some arithmetic is proved for; how long is private.

    Whoever opens a plan with such a query asks before the reserve.
    """
    if n_rows > most:
        raise ValueError(f"A table may have at most {most} rows here.")


class Rows:
    """Private columns of equal length; read in blocks by a query, kept nowhere else.

    Parameters
    ----------
    n_rows : int
    **columns : array-like or None
        Anything that rows can be taken of by a slice or by indices: arrays, CSR
        matrices, data frames, objects with a method `rows_at`.
    """

    def __init__(self, n_rows: int, **columns):
        refuse_many_rows(n_rows, MAX_ROWS)
        self.n_rows = int(n_rows)
        self._columns = columns
        self._reader: object = None  # the filter that alone may read these rows
        self._sampled: tuple | None = None  # ("poisson" or "without_replacement", rate)

    def blocks(self, size: int) -> Iterator[SimpleNamespace]:
        """Blocks of at most `size` consecutive rows, one attribute per column."""
        for rows in row_slices(self.n_rows, size):
            yield self.block(rows)

    def of_blocks(self, function, size: int, beside=()) -> Iterator[Any]:
        """What a function says of the same blocks, one after the other.

        Parameters
        ----------
        function : callable
            Of a block, and of its part of all that is `beside`; it may travel.
        size : int
        beside : sequence of array-like, default=()
            With an entry per row.
        """
        start = 0
        for block in self.blocks(size):
            stop = start + block.n_rows
            yield function(block, *(one[start:stop] for one in beside))
            start = stop

    def block(self, rows: slice) -> SimpleNamespace:
        """Some consecutive rows; `n_rows` says how many."""
        columns = {k: rows_of(column, rows) for k, column in self._columns.items()}
        return SimpleNamespace(n_rows=rows.stop - rows.start, **columns)

    def total(self, query: Any, state) -> Any:
        """Sum the integers of `query` over all blocks."""
        if self.n_rows <= query.block_rows:
            return query.of_block(self.whole(), state)
        blocks = self.blocks(query.block_rows)
        return reduce(add, (query.of_block(block, state) for block in blocks))

    def whole(self) -> SimpleNamespace:
        """All rows, for queries whose terms depend on each other."""
        return self.block(slice(0, self.n_rows))

    def prints(self, fingerprint) -> list:
        """What `fingerprint` says about the columns; private."""
        return [fingerprint(self._columns)]

    def take(self, indices: NDArray) -> Rows:
        """Some of the rows, in this order."""
        indices = np.asarray(indices)
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        columns = {k: rows_of(column, indices) for k, column in self._columns.items()}
        return self._kin(len(indices), columns)

    def seen(self, mask: NDArray) -> Rows:
        """The rows where the mask is True: read where they are, without a copy."""
        places = np.flatnonzero(mask).astype(np.min_scalar_type(len(mask)))
        columns = {
            name: None if column is None else _Seen(column, places)
            for name, column in self._columns.items()
        }
        return Rows(len(places), **columns)

    def only(self, *names: str) -> Rows:
        """The same rows with these columns alone: those that a query reads."""
        return self._kin(self.n_rows, {name: self._columns[name] for name in names})

    def with_columns(self, **columns) -> Rows:
        """The same rows with more columns, functions of each row: scores, say."""
        return self._kin(self.n_rows, {**self._columns, **columns})

    def remade(self, name: str, function) -> Rows:
        """The same rows with a column made anew.

        Parameters
        ----------
        name : str
        function : callable
            Of the column as it was read, or of a part of it; it may travel. What it
            says of a row is a function of this row alone.
        """
        return self.with_columns(**{name: function(self._columns[name])})

    def _kin(self, n_rows: int, columns: dict) -> Rows:
        """Rows in memory that the same filter reads."""
        rows = Rows(n_rows, **columns)
        rows._reader = self._reader
        return rows

    def gathered(self) -> Rows:
        """The same rows, at hand for models that read them often."""
        return self

    def again(self, *names: str | None) -> Any:
        """The columns as `Batches` for another fit; None if memory has room for them.

        Parameters
        ----------
        *names : str or None
            X, y and sensitive features.
        """
        return None

    def answered(self, function, needs, reads) -> tuple[Rows, NDArray]:
        """Rows with the columns `reads`, in memory, and what a function says of others.

        Parameters
        ----------
        function : callable
            ``function(block)`` of the columns `needs`: an array with an entry per row,
            each a function of its row alone.
        needs, reads : sequence of str
        """
        rows = self.only(*dict.fromkeys((*needs, *reads))).with_columns()
        return rows.only(*reads), function(rows.only(*needs).whole())

    def __reduce__(self):
        raise TypeError("Private rows are neither pickled nor copied.")

    def __repr__(self) -> str:
        return "Rows(private)"


@dataclass
class _Seen:
    """Some places of a column."""

    column: Any
    places: NDArray

    def rows_at(self, rows):
        return rows_of(self.column, self.places[rows])


def rows_of(column, rows):
    """Some rows of a column, given as a slice or as indices."""
    if type(column) is np.ndarray:
        if type(rows) is np.ndarray and column.flags.c_contiguous:
            return column.take(rows, axis=0)  # the same, twice as fast
        return column[rows]
    if column is None:
        return None
    if hasattr(type(column), "rows_at"):  # of the type: a frame has its columns too
        return column.rows_at(rows)
    if len(getattr(column, "shape", ())) == 1 and not hasattr(column, "iloc"):
        return column[rows]  # arrays and indices of strings refuse [rows, ...]
    return safe_indexing(column, rows)


def column_length(columns: dict) -> int:
    """Number of rows of the columns of one table."""
    for column in columns.values():
        if column is not None:
            return n_rows_of(column)
    return 0


def n_rows_of(X) -> int:
    """Number of rows of an array, a frame, a sparse matrix or a list."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def n_columns_of(X) -> int:
    """Number of columns of an array, a frame, a sparse matrix or a list of rows."""
    return X.shape[1] if hasattr(X, "shape") else len(X[0])


def read_rows(read, X, y=None, sensitive_features=None) -> Rows:
    """Open the private rows of a table in memory, in `Batches`, or on a cluster.

    Parameters
    ----------
    read : callable
        ``read(X, y, sensitive_features)`` validates a table, or a batch of it, and
        returns a dict of its private columns. What it finds out about the table that
        is public (number of columns, names) it may store on its estimator.
    X, y, sensitive_features : object
        What `fit` was given.
    """
    if isinstance(X, InBatches):
        rows = X.read(read)
    else:
        check_columns(X, y, sensitive_features)
        columns = read(X, y, sensitive_features)
        rows = Rows(column_length(columns), **columns)
    journal = current_journal.get()
    if journal is not None:
        journal.reads(rows)
    return rows
