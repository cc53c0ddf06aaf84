"""Columns as numbers for the plain model, which may look at everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpriv_sklearn._cli.columns import MOST_CATEGORIES, Parsed
from fairpriv_sklearn.preprocessing import Codebook, Column, category_key


@dataclass(frozen=True)
class Encoder:
    """Numbers scaled to [-1, 1] by their ranges; categories and gaps as indicators.

    Parameters
    ----------
    codebook : Codebook
        The columns in order, with range or categories each.
    gaps : tuple of str
        Columns with an indicator of missing values.
    """

    codebook: Codebook
    gaps: tuple = ()

    @classmethod
    def of(cls, features: dict[str, Parsed]) -> Encoder:
        """Complete what is not declared by what the columns hold."""
        features = {n: p for n, p in features.items() if not _is_useless(p)}
        columns = {name: _complete(p) for name, p in features.items()}
        gaps = [
            name
            for name, p in features.items()
            if (p.column.missing if p.declared else p.gaps.any())
        ]
        return cls(Codebook(tuple(columns.items())), tuple(gaps))

    def encode(self, features: dict[str, Parsed]) -> np.ndarray:
        """Bounded numbers of columns of these names and kinds."""
        n_rows = len(next(iter(features.values())).values)
        blocks = [
            self._block(name, column, features[name])
            for name, column in self.codebook.columns.items()
        ]
        return np.hstack([np.zeros((n_rows, 1)), *blocks])

    def _block(self, name, column: Column, p: Parsed) -> np.ndarray:
        if column.bounds is not None:
            low, high = column.bounds
            middle, half = low / 2 + high / 2, high / 2 - low / 2
            values = np.clip(np.nan_to_num(p.values, nan=middle), low, high)
            block = ((values - middle) / half).reshape(-1, 1)
        else:
            keys = np.fromiter(map(category_key, column.categories), dtype=object)
            block = (p.values[:, None] == keys[None]).astype(float)
        if name in self.gaps:
            gaps = p.gaps
            block = np.column_stack([block * ~gaps[:, None], gaps])
        return block


def _is_useless(p: Parsed) -> bool:
    """Empty, or text that names people rather than kinds."""
    if p.column.bounds is not None or p.column.categories:
        return False
    found = {v for v in p.values if v is not None and v == v}
    return not found or (not p.is_number and len(found) > MOST_CATEGORIES)


def _complete(p: Parsed) -> Column:
    if p.is_number and p.column.range is None:
        filled = p.values[~np.isnan(p.values)]
        low, high = float(filled.min()), float(filled.max())
        if not high > low:
            high = low + max(1.0, abs(low))
        return Column("number", range=(low, high))
    if not p.is_number and p.column.categories is None:
        found = sorted({v for v in p.values if v is not None})
        return Column("category", categories=tuple(found))
    return p.column
