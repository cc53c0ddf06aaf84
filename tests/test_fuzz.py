"""A few cases of `_fuzz.py` in every run; thousands by hand, see there."""

import pytest
from _fuzz import CALLS, one_case
from _fuzz_targets import LEFT_OUT, public_names


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_bad_arguments_are_named_and_cells_are_not_quoted(first):
    complaints = [one_case(seed) for seed in range(first, first + 50)]
    assert not any(complaints), "\n".join(filter(None, complaints))


def test_every_public_callable_is_called_or_left_out_with_a_reason():
    there, called = set(public_names()), {name for name, _, _ in CALLS}
    assert there - called - set(LEFT_OUT) == set()
    assert set(LEFT_OUT) - there == set()  # nothing is left out that is gone
    assert called - there == set() and not called & set(LEFT_OUT)
    assert len(there) > 150 and all(LEFT_OUT.values())
