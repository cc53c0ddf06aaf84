"""How many records there are, in all and in every cell: the first release of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpriv_sklearn._shared.sensitivity import counts_l2
from fairpriv_sklearn._wall import Query


@dataclass(frozen=True)
class Count(Query):
    """The number of records."""

    name = "count"
    theorem = "accounting:lemma-a"
    n_coordinates = 1

    def sensitivity(self, neighboring: str) -> float:
        # Replacing a record never changes it; asked under add/remove only.
        return 1.0

    def of_block(self, block, state):
        return np.array([block.n_rows])


@dataclass(frozen=True)
class CellCounts(Query):
    """The number of records of every cell; the column `cell` holds the numbers."""

    name = "counts"
    theorem = "accounting:lemma-a"

    n_cells: int

    @property
    def n_coordinates(self) -> int:
        return self.n_cells

    def sensitivity(self, neighboring: str) -> float:
        return counts_l2(neighboring)

    def of_block(self, block, state):
        return np.bincount(block.cell, minlength=self.n_cells)
