"""Columns as bounded numbers, by public facts or by facts read from the file."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpriv_sklearn._cli.columns import Parsed
from fairpriv_sklearn.preprocessing import Codebook, Column
from fairpriv_sklearn.preprocessing._codebook import category_key


@dataclass(frozen=True)
class Encoder:
    """Numbers scaled to [-1, 1] by their ranges; categories and gaps as indicators.

    Parameters
    ----------
    codebook : Codebook
        The columns in order, with range or categories each.
    gaps : tuple of str
        Columns with an indicator of missing values.
    row_norm : float or None, default=None
        A smaller norm than the largest possible one; longer rows are shortened.
    """

    codebook: Codebook
    gaps: tuple = ()
    row_norm: float | None = None

    @classmethod
    def of(cls, features: dict[str, Parsed], row_norm=None) -> Encoder:
        """Complete what is not declared by what the columns hold."""
        columns = {name: _complete(p) for name, p in features.items()}
        gaps = [
            name
            for name, p in features.items()
            if (p.column.missing if p.declared else p.gaps.any())
        ]
        return cls(Codebook(tuple(columns.items())), tuple(gaps), row_norm)

    @property
    def data_norm(self) -> float:
        """Euclidean norm to which the models bound a row."""
        return self.row_norm or math.sqrt(len(self.codebook))

    def encode(self, features: dict[str, Parsed]) -> np.ndarray:
        """Bounded numbers of columns of these names and kinds."""
        return np.hstack(
            [
                self._block(name, column, features[name])
                for name, column in self.codebook.columns.items()
            ]
        )

    def _block(self, name, column: Column, p: Parsed) -> np.ndarray:
        if column.bounds is not None:
            low, high = column.bounds
            middle, half = low / 2 + high / 2, high / 2 - low / 2
            values = np.clip(np.nan_to_num(p.values, nan=middle), low, high)
            block = ((values - middle) / half).reshape(-1, 1)
        else:
            keys = np.array([*map(category_key, column.categories), None], dtype=object)
            block = (p.values[:, None] == keys[None, :-1]).astype(float)
        if name in self.gaps:
            gaps = p.gaps
            block = np.column_stack([block * ~gaps[:, None], gaps])
        return block


def _complete(p: Parsed) -> Column:
    if p.is_number and p.column.range is None:
        filled = p.values[~np.isnan(p.values)]
        low, high = float(filled.min()), float(filled.max())
        if not high > low:
            high = low + max(1.0, abs(low))
        if p.column.kind == "date":
            return Column("date", range=(_iso(math.floor(low)), _iso(math.ceil(high))))
        return Column("number", range=(low, high))
    if not p.is_number and p.column.categories is None:
        found = sorted({v for v in p.values if v is not None})
        return Column("category", categories=tuple(found))
    return p.column


def _iso(days: int) -> str:
    return str(np.datetime64(days, "D"))
