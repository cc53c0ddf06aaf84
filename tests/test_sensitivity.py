"""Lemma A by brute force: all pairs of neighbouring small tables."""

import itertools
import math

import numpy as np
import pytest

from fairpriv_sklearn._shared.sensitivity import counts_l1, counts_l2, rows_changed


def tables(records, n_cells, n_tables):
    """Stacked counts of every column's cell."""
    counts = np.zeros((n_tables, n_cells), dtype=int)
    for record in records:
        counts[range(n_tables), record] += 1
    return counts


@pytest.mark.parametrize("n_tables", [1, 2])
@pytest.mark.parametrize("neighboring", ["replace_one", "add_remove"])
def test_the_largest_change_is_the_stated_one(neighboring, n_tables):
    domain = list(itertools.product(range(3), repeat=n_tables))
    changes = []
    for old, other in itertools.product(domain, repeat=2):
        before = [old, other]
        after = (
            [[other]]
            if neighboring == "add_remove"
            else [[new, other] for new in domain]
        )
        for records in after:
            change = tables(before, 3, n_tables) - tables(records, 3, n_tables)
            changes.append((np.abs(change).sum(), np.linalg.norm(change)))
    assert max(c[0] for c in changes) == counts_l1(neighboring, n_tables)
    assert max(c[1] for c in changes) == pytest.approx(counts_l2(neighboring, n_tables))


def test_sizes_public_is_a_replacement():
    assert rows_changed("replace_one_in_group") == 2
    assert rows_changed("replace_one_in_cell") == 2
    assert counts_l2("replace_one_in_group") == math.sqrt(2)
    assert counts_l1("replace_one_in_group") == 2


@pytest.mark.parametrize("relation", ["replace", None, "ADD_REMOVE", ["add_remove"]])
def test_an_unknown_relation_raises(relation):
    with pytest.raises(ValueError, match="neighboring must be"):
        counts_l1(relation)
