"""What comes in through the door: ranges, labels, and numbers that are written down."""

import enum
import math
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from fairpriv_sklearn._door.bounds import (
    n_entries,
    public_target_range,
    range_of,
    read_bounds,
    read_target_range,
)
from fairpriv_sklearn._door.labels import encode_labels, positions_in, public_classes
from fairpriv_sklearn._shared.rounded import round_down, round_up
from fairpriv_sklearn.linear_model import (
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.privacy import PrivacyLeakWarning, PrivacyLedger

BIG = 2**53
LISTS = [
    [0, 1],
    [1, 0, -1],
    [0.0, 0.5, 1.0],
    [False, True],
    ["a", "b\0", ""],
    ["1", "0", "a"],
    ["True", "1.0"],
    [BIG, BIG + 1, -BIG - 1],
    [float(BIG), 0.1, np.inf],
    [2**63, 255, 2**64 - 1],
    ["a", 1, None],
    list(range(16)),
    list(range(300)),
    ["b\0"],
    [0, BIG + 1],
    [float(np.float32(0.1)), 0.1],
]
ARRAYS = [
    np.array([0, 1, 2, 255, -1]),
    np.array([0, 1, 255, 2**63, 2**64 - 1], dtype=np.uint64),
    np.array([0, 1, 255], dtype=np.uint8),
    np.array([0, 1, -1], dtype=np.int8),
    np.array([BIG, BIG + 1, BIG + 2, -BIG - 1, -BIG]),
    np.array([0.0, -0.0, 0.5, 1.0, 0.1, np.inf, np.nan, float(BIG), -float(BIG)]),
    np.array([0.0, 0.5, 0.1, np.inf], dtype=np.float32),
    np.array([0.0, 0.5, 0.1], dtype=np.float16),
    np.array([np.longdouble("0.1"), 1.0, float(BIG)], dtype=np.longdouble),
    np.array([True, False]),
    np.array(["a", "b", "b\0", "", "1", "True", "1.0"]),
    np.array(["a", "b\0", 1, 1.0, True, None, "1", BIG, [1], {}], dtype=object),
]


@pytest.mark.parametrize("listed", LISTS, ids=lambda listed: str(listed)[:20])
@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_labels_are_found_as_python_compares_them(number, listed):
    """However they are held; what is not listed has no place."""
    labels = ARRAYS[number]
    if labels.dtype == np.float32 or labels.dtype == np.float16:
        plain = [float(one) for one in labels]  # 0.1 of them is no 0.1
    else:
        plain = labels.tolist()

    def place(label):
        return next((i for i, k in enumerate(listed) if label == k), -1)

    expected = [place(one) for one in plain]
    for held in (labels, plain):
        found = positions_in(held, listed)
        assert found.dtype == np.int64
        assert found.tolist() == expected
    assert positions_in(labels[:0], listed).shape == (0,)


def test_classes_that_are_given_are_sorted_and_no_fact_of_the_data():
    y = np.array(["b", "a", "b"])
    codes, classes, fact = encode_labels(y, ["c", "b", "a"])
    assert classes.tolist() == ["a", "b", "c"] and codes.tolist() == [1, 0, 1]
    assert (fact.name, fact.value, fact.origin) == (
        "classes",
        ["a", "b", "c"],
        "given",
    )
    with pytest.warns(PrivacyLeakWarning, match="classes"):
        codes, classes, fact = encode_labels(y, None)
    assert classes.tolist() == ["a", "b"] and codes.tolist() == [1, 0, 1]
    assert fact.origin != "given"
    with pytest.raises(ValueError, match="not in classes") as raised:
        encode_labels(np.array([0, 1]), ["a", "b"])
    assert "hand on numbers for labels" in str(raised.value)
    for labels, listed in ((["a", "x"], ["a", "b"]), ([0, 7], [0, 1])):
        with pytest.raises(ValueError, match="not in classes") as raised:
            encode_labels(np.array(labels), listed)
        assert "hand on numbers" not in str(raised.value)
        assert "x" not in str(raised.value).replace("public", "") and "7" not in str(
            raised.value
        )


def test_classes_that_differ_by_a_zero_at_the_end_stay_two():
    y = np.array(["a", "a\0", "a"], dtype=object)
    codes, classes, _ = encode_labels(y, ["a\0", "a"])
    assert classes.tolist() == ["a", "a\0"] and codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("listed", [None, ["n", "nan", "y"]])
def test_a_gap_in_a_list_of_text_is_no_class_of_its_own(listed, kind):
    """NumPy makes the text 'nan' of it."""
    with pytest.raises(ValueError, match="y has a row without a label"):
        encode_labels(kind(["y", "n", math.nan]), listed)


def test_a_number_in_a_list_of_text_is_no_text():
    for listed in (None, ["1", "n"]):
        with pytest.raises(ValueError, match="y mixes text with labels of other kinds"):
            encode_labels(["1", "n", 1], listed)
    with pytest.warns(PrivacyLeakWarning):
        assert encode_labels(["n", "y"], None)[1].dtype == np.dtype("U1")


@pytest.mark.parametrize("listed", [None, ["n", "nan", "y"]])
def test_a_gap_in_a_list_costs_no_budget(listed):
    ledger = PrivacyLedger(10, 1e-3)
    makes = {"epsilon": 1.0, "classes": listed, "ledger": ledger}
    model = DPWassersteinLogisticRegression(fairness_weight=0, bounds=(0, 1))
    for one in (
        clone(model).set_params(**makes),
        DPOutputPerturbationLogisticRegression(data_norm=2.0, **makes),
        DPGridSearchCV(model.set_params(classes=listed), {"max_iter": [1, 2]}, **makes),
    ):
        with pytest.raises(ValueError, match="y has a row without a label"):
            one.fit(np.zeros((60, 1)), ["y", "n", math.nan] * 20)
    assert not ledger.spends()


def test_classes_without_an_order_are_refused_in_one_sentence():
    class Sex(enum.Enum):
        F = "f"
        M = "m"

    with pytest.raises(TypeError, match="classes must list labels that have an order"):
        encode_labels([Sex.F, Sex.M], list(Sex))


@pytest.mark.parametrize("least", [1, 2])
def test_of_one_class_only_what_needs_two_complains(least):
    one = np.array([3, 3])
    if least == 1:
        assert public_classes([3], 1).tolist() == [3]
        with pytest.warns(PrivacyLeakWarning):
            assert encode_labels(one, None, 1)[1].tolist() == [3]
        return
    with pytest.raises(ValueError, match="list 2 labels or more"):
        public_classes([3])
    with pytest.warns(PrivacyLeakWarning), pytest.raises(ValueError, match="Only one"):
        encode_labels(one, None)
    assert public_classes([4, 3]).tolist() == [3, 4]
    with pytest.raises(ValueError, match="not lists of them"):
        public_classes([(1, 2), 3])
    with pytest.raises(ValueError, match="classes"):
        public_classes(["a", 1])
    for y in ([0.0, math.nan], [0.25, 0.5], np.array(["a", 1], dtype=object)):
        with pytest.raises(ValueError) as raised:
            encode_labels(np.array(y), None)
        assert "0.25" not in str(raised.value)
    with pytest.raises(ValueError, match="y is None"):
        encode_labels(None, [0, 1])


def test_ends_of_a_range_are_numbers_or_one_for_each_column():
    low, high = read_bounds((0, [1, 2, 0]), 3)
    assert low.tolist() == [0.0] * 3 and high.tolist() == [1.0, 2.0, 0.0]
    assert low.dtype == high.dtype == np.float64
    high[0] = 5.0  # a copy, and no view of what was given
    given = np.array([1.0, 2.0])
    read_bounds((0, given), 2)[1][0] = 9.0
    assert given[0] == 1.0
    assert n_entries((0, [1, 2, 0])) == 3 and n_entries(([0, 0], 1)) == 2
    assert n_entries((0, 1)) == n_entries(None) == n_entries(()) == 1


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ([0, 1], "must be a tuple"),
        ((0, 1, 2), "must be a tuple"),
        ((0,), "must be a tuple"),
        (("a", 1), "must be a tuple"),
        ((0, [1, 2, 3]), r"got an entry of shape \(3,\)"),
        ((0, [[1, 2]]), r"got an entry of shape \(1, 2\)"),
        ((1, 0), "must be finite with low <= high"),
        (([0, 1], [1, 0.5]), "must be finite with low <= high"),
        ((-1e308, 1e308), "high - low finite"),
        ((0, math.inf), "must be finite"),
        ((math.nan, 1), "must be finite"),
        ((0, [1, math.nan]), "must be finite"),
        ((0, [1, math.inf]), "must be finite"),
    ],
)
def test_bounds_that_bound_nothing_are_refused(bounds, says):
    with pytest.raises(ValueError, match=says) as raised:
        read_bounds(bounds, 2, name="limits")
    assert str(raised.value).startswith("limits must be")
    assert "codebook" not in str(raised.value)
    with pytest.raises(ValueError, match="bounds by name go into the codebook"):
        read_bounds({"a": (0, 1)}, 2)


@pytest.mark.parametrize(
    "ends", [(1, 1), (1, 0), (0, math.inf), (math.nan, 1), "ab", (0,), None, (0, 1, 2)]
)
def test_a_range_of_a_target_has_a_finite_length(ends):
    with pytest.raises(ValueError, match="must be a pair"):
        read_target_range(ends)
    assert read_target_range((-1e308, 1e308)) == (-1e308, 1e308)
    assert read_target_range(np.array([0, 2])) == (0.0, 2.0)


def test_a_range_that_is_read_from_a_target_is_told():
    y = np.array([3.0, -1.0, 2.0])
    with pytest.warns(PrivacyLeakWarning, match="target_bounds"):
        low, high, fact = public_target_range(None, y)
    assert (low, high) == (-1.0, 3.0) and fact.origin != "given"
    low, high, fact = public_target_range((0, 1), y)
    assert (low, high, fact.value) == (0.0, 1.0, (0.0, 1.0))
    assert fact.origin == "given"
    # a constant is given a length, and what is beyond all numbers an end
    both = np.array([[5.0, 0.25, 0.0, -1.7e308], [5.0, 0.25, 0.0, 1.7e308]])
    low, high = range_of(both)
    limit = np.finfo(float).max / 4
    assert_array_equal(low, [5.0, 0.25, 0.0, -limit])
    assert_array_equal(high, [10.0, 1.25, 1.0, limit])


def test_numbers_are_written_on_the_safe_side_and_close():
    rng = np.random.default_rng(0)
    values = [*10.0 ** rng.uniform(-12, 6, 300), *rng.integers(1, 10**5, 100), 1.0]
    for value in map(float, values):
        for digits in (1, 3, 4, 6):
            up, down = round_up(value, digits), round_down(value, digits)
            exact, slack = Decimal(value), Decimal(value) * Decimal("1.1e-9")
            step = Decimal(10) ** (exact.adjusted() - digits + 1)
            assert exact - slack <= Decimal(up) < exact + step * Decimal("1.1")
            assert exact + slack >= Decimal(down) > exact - step * Decimal("1.1")
            kept = up.lower().partition("e")[0].replace(".", "").strip("0")
            assert len(kept) <= digits
    for write in (round_up, round_down):
        assert write(1.0) == write(1.0 + 1e-10) == write(1.0 - 1e-10) == "1"
        assert (write(0.0), write(math.inf), write(math.nan)) == ("0", "inf", "nan")
    over, under = 1.0 + 1.5e-9, 1.0 - 1.5e-9
    assert round_up(over) == "1.001" and round_down(under) == "0.9999"
