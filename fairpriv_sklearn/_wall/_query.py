"""What may be asked of private rows: exact integers, summed over blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._shared.rowwise import BLOCK_ROWS
from .._shared.sensitivity import counts_l1, counts_l2
from ._plan import Release
from ._rows import MAX_ROWS, Rows


class Query(ABC):
    """What may be asked of private rows; public and immutable.

    Class attributes
    ----------------
    name : str
        Name in the plan.
    theorem : str
        Page and label of the proof of `sensitivity`, as ``folder/page:label``.
    norm : {"l2", "l1"}
        Norm of the sensitivity: "l2" for Gaussian noise, "l1" for discrete Laplace.
    block_rows : int
        How many rows `of_block` sees at most.
    max_rows : int
        Largest table for which the arithmetic is proved to be exact.
    """

    name: str
    theorem: str
    norm: str = "l2"
    block_rows: ClassVar[int] = 16 * BLOCK_ROWS
    max_rows: ClassVar[int] = MAX_ROWS

    @property
    @abstractmethod
    def n_coordinates(self) -> int:
        """Number of entries of the released value."""

    @abstractmethod
    def sensitivity(self, neighboring: str) -> float:
        """By how much the value differs between neighbouring tables, in `norm`."""

    def line(self, mu: float, times: int = 1, sampling: tuple | None = None) -> Release:
        """The line of a plan for this value with Gaussian noise."""
        return Release(self.name, "gaussian", mu, self.n_coordinates, times, sampling)

    def of_block(self, block: SimpleNamespace, state) -> NDArray[np.int64]:
        """Sum of the rows of one block: exact integers, a pure function of each row."""
        raise NotImplementedError

    def value(self, total: NDArray[np.int64], state) -> NDArray:
        """Turn the integers into the units of `sensitivity`; public arithmetic."""
        return total

    def of_rows(self, rows: Rows, state) -> NDArray:
        """Return the exact value; queries that couple records override this."""
        return self.value(rows.total(self, state), state)


@dataclass(frozen=True)
class CellCounts(Query):
    """Counts of rows per cell of a public table; column `cells` says which.

    With `n_tables` a row has one cell in each of several tables of this shape: column
    `cells` then has as many columns.
    """

    shape: tuple
    name: str = "counts by score"
    norm: str = "l1"
    theorem: str = "user_guide/dp2dp_proofs:cell_counts"
    n_tables: int = 1

    @property
    def n_coordinates(self) -> int:
        return self.n_tables * int(np.prod(self.shape))

    def sensitivity(self, neighboring):
        if self.norm == "l1":
            return counts_l1(neighboring, self.n_tables)
        return counts_l2(neighboring, self.n_tables)

    def of_block(self, block, state):
        size = int(np.prod(self.shape))
        cells = block.cells.reshape(block.n_rows, self.n_tables)
        index = cells + size * np.arange(self.n_tables)
        counts = np.bincount(index.ravel(), minlength=self.n_coordinates)
        counts = counts.astype(np.int64)
        if self.n_tables == 1:
            return counts.reshape(self.shape)
        return counts.reshape(self.n_tables, *self.shape)


class KeyedQuery(Query):
    """Counts of which some belong to keys that nobody listed.

    `counts` gives the listed counts and a dict of the others by (column, key).
    """

    @property
    @abstractmethod
    def n_keyed_columns(self) -> int:
        """Number of columns with unlisted keys, and a listed count or more each.

        A record has at most one key in each.
        """

    @abstractmethod
    def keys_of_block(self, block: SimpleNamespace) -> dict:
        """Count the keys of one block by (column, key): a pure function of each row."""

    def counts(self, rows: Rows) -> tuple[NDArray, dict]:
        """Exact listed counts, and those of the keys."""
        sums = rows.total(_WithKeys(self), None)
        return self.value(sums.listed, None), sums.keyed


class _WithKeys:
    """A keyed query as a sum over blocks."""

    def __init__(self, query: KeyedQuery):
        self.query, self.block_rows = query, query.block_rows

    def of_block(self, block: SimpleNamespace, state) -> _KeyedSum:
        keyed = Counter(self.query.keys_of_block(block))
        return _KeyedSum(self.query.of_block(block, None), keyed)


@dataclass
class _KeyedSum:
    listed: NDArray
    keyed: Counter

    def __add__(self, other: _KeyedSum) -> _KeyedSum:
        return _KeyedSum(self.listed + other.listed, self.keyed + other.keyed)
