"""Columns as numbers for the plain model, which may look at everything."""

from collections import Counter

import numpy as np

from ..preprocessing import Column, category_key
from .columns import MOST_CATEGORIES, Parsed, range_of

_SEVERAL = 10  # rows of a category among many


def plain_numbers(features: dict[str, Parsed]) -> np.ndarray:
    """Numbers scaled to [-1, 1] by their ranges; categories and gaps as indicators.

    What is not declared is read from the columns.
    """
    n_rows = len(next(iter(features.values())).values)
    blocks = [_block(p) for p in features.values() if not _is_useless(p)]
    return np.hstack([np.zeros((n_rows, 1)), *blocks])


def _block(p: Parsed) -> np.ndarray:
    column = _complete(p)
    if column.bounds is not None:
        low, high = column.bounds
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        values = np.clip(np.nan_to_num(p.values, nan=middle), low, high)
        block = ((values - middle) / half).reshape(-1, 1)
    else:
        keys = np.fromiter(map(category_key, column.categories), dtype=object)
        block = (p.values[:, None] == keys[None]).astype(float)
    gaps = p.gaps
    if p.column.missing if p.declared else gaps.any():
        block = np.column_stack([block * ~gaps[:, None], gaps])
    return block


def _is_useless(p: Parsed) -> bool:
    """Empty, or text that names people rather than kinds."""
    if p.column.bounds is not None or p.column.categories:
        return False
    return bool(p.gaps.all()) if p.is_number else not _kinds(p)


def _kinds(p: Parsed) -> list:
    """Categories of a text; of many the frequent ones, which are no names of people."""
    counts = Counter(v for v in p.values if v is not None)
    least = _SEVERAL if len(counts) > MOST_CATEGORIES else 1
    return sorted(v for v, n in counts.most_common(MOST_CATEGORIES) if n >= least)


def _complete(p: Parsed) -> Column:
    if p.is_number and p.column.range is None:
        return Column("number", range=range_of(p.values[~np.isnan(p.values)]))
    if not p.is_number and p.column.categories is None:
        return Column("category", categories=tuple(_kinds(p)))
    return p.column
