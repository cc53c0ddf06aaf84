"""A few cases of `_fuzz.py` in every run; thousands by hand, see there."""

import pytest
from _fuzz import CALLS, one_case


@pytest.mark.parametrize("first", range(0, 320, 40))
def test_bad_arguments_are_named_and_cells_are_not_quoted(first):
    complaints = [one_case(seed) for seed in range(first, first + 40)]
    assert not any(complaints), "\n".join(filter(None, complaints))


def test_the_fuzz_reaches_every_room():
    rooms = {call.__module__ for call, _ in CALLS}
    for room in ("accounting", "datasets", "mechanisms", "metrics", "transport"):
        assert any(f"fairpriv_sklearn.{room}" in found for found in rooms), room
    fitted = {call.__name__ for call, _ in CALLS if call.__name__.startswith("DP")}
    assert len(fitted) >= 10
