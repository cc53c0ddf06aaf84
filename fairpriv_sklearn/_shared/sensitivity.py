"""Lemma A: by how much tables of counts, or of bounded sums, differ between neighbours.

A record adds a vector of norm at most one to one row of each of several tables. Adding
or removing it changes each table by that vector; replacing it by two such vectors,
which are orthogonal in the worst case, being non-negative or in different rows.
"""

import math

_ROWS_CHANGED = {
    "add_remove": 1,
    "replace_one": 2,
    "replace_one_in_group": 2,
    "replace_one_in_cell": 2,
}


def rows_changed(neighboring: str) -> int:
    """Return how many records differ between neighbouring tables, or raise.

    >>> rows_changed("replace_one")
    2
    """
    try:
        return _ROWS_CHANGED[neighboring]
    except (KeyError, TypeError):
        raise ValueError(
            f"neighboring must be one of {list(_ROWS_CHANGED)}, got {neighboring!r}."
        ) from None


def counts_l1(neighboring: str, n_tables: int = 1) -> int:
    """L1 sensitivity of `n_tables` tables in which each record counts once."""
    return rows_changed(neighboring) * n_tables


def counts_l2(neighboring: str, n_tables: int = 1) -> float:
    """Euclidean sensitivity of `n_tables` tables in which each record counts once."""
    return math.sqrt(rows_changed(neighboring) * n_tables)
