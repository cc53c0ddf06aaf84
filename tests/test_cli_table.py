"""From a file to columns: which rows are used, what is known, what was found out."""

import json
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fairpriv_sklearn.__main__ import parse
from fairpriv_sklearn._cli.columns import Parsed
from fairpriv_sklearn._cli.encode import plain_numbers
from fairpriv_sklearn._cli.table import (
    in_order,
    load_codebook,
    load_table,
    simulated_table,
)
from fairpriv_sklearn.preprocessing import Column, InputError


@pytest.fixture
def load(tmp_path):
    """Read a file of these lines as the command line does."""

    def loaded(lines, *arguments, book=None, target="pay", sensitive=("sex",)):
        path = tmp_path / "rows.csv"
        path.write_text("\n".join(lines) + "\n")
        told = ["--target", target, "--sensitive", *sensitive]
        if book is not None:
            (tmp_path / "book.json").write_text(json.dumps(book))
            arguments += ("--codebook", str(tmp_path / "book.json"))
        return load_table(parse([str(path), *told, *arguments]))

    return loaded


# Six people: the third has no pay, the fifth no age, the last is in a group of one.
PEOPLE = [
    "age,sex,pay",
    "20,f,1.5",
    "30,m,2.5",
    "40,f,",
    "50,m,4.5",
    ",f,5.5",
    "60,x,6.5",
]
REGRESSION = ("--task", "regression")
NO_PAY = "the number of rows with a value of pay"
NO_GROUP = "the number of rows in the listed groups"
COMPLETE = "the number of complete rows"


@pytest.mark.parametrize(
    ("arguments", "rows", "left_out", "facts"),
    [
        ((), [0, 1, 3, 4, 5], ["1 row without a value of pay"], [NO_PAY]),
        (
            ("--groups", "f", "m"),
            [0, 1, 3, 4],
            [
                "1 row without a value of pay",
                "1 row outside the listed groups f, m",
            ],
            [NO_PAY, NO_GROUP],
        ),
        (
            ("--missing", "drop"),
            [0, 1, 3, 5],
            ["1 row without a value of pay", "1 row with a missing value"],
            [NO_PAY, COMPLETE],
        ),
        # the row without an age is left out already, and gaps are no fact of it twice
        (
            ("--groups", "m", "x", "--missing", "drop"),
            [1, 3, 5],
            [
                "1 row without a value of pay",
                "2 rows outside the listed groups m, x",
            ],
            [NO_PAY, NO_GROUP, COMPLETE],
        ),
    ],
)
def test_rows_that_are_left_out_are_told_and_their_number_is_a_condition(
    load, arguments, rows, left_out, facts
):
    table = load(PEOPLE, *REGRESSION, *arguments)
    cells = [PEOPLE[1 + row].split(",") for row in rows]
    age, sex, pay = zip(*cells, strict=True)
    assert_array_equal(table.y, np.array(pay, float))
    assert table.labels.tolist() == list(sex)
    assert_array_equal(table.features["age"].values, [float(a or "nan") for a in age])
    assert table.left_out == left_out and table.from_data == facts
    assert not table.size_is_public
    assert not {"every row has a value of pay"} & set(table.assumed)


def test_what_holds_of_all_rows_is_assumed_of_them(load):
    whole = [line for line in PEOPLE if not line.endswith(",")]
    table = load(whole, *REGRESSION, "--groups", "f", "m", "x")
    assert table.assumed[-2:] == [
        "every row has a value of pay",
        "every row is in a listed group",
    ]
    assert not table.from_data and not table.left_out and table.size_is_public
    assert table.groups == ["f", "m", "x"]
    # that none was dropped is what the rows have told
    table = load(whole[:5], *REGRESSION, "--missing", "drop")
    assert table.from_data == [COMPLETE] and not table.size_is_public
    assert table.assumed[-1] == "every row has a value of pay"


@pytest.mark.parametrize(("n_gaps", "is_read"), [(4, True), (5, False)])
def test_half_of_the_rows_may_be_dropped_and_no_more(load, n_gaps, is_read):
    lines = ["age,sex,pay"]
    lines += [f"{'' if i < n_gaps else i},{'fm'[i % 2]},{i}.5" for i in range(8)]
    if is_read:
        assert len(load(lines, *REGRESSION, "--missing", "drop").y) == 4
    else:
        with pytest.raises(InputError, match="would leave out 5 of 8 rows"):
            load(lines, *REGRESSION, "--missing", "drop")


def test_gaps_of_a_column_that_is_not_used_are_none(load):
    book = {"age": {"kind": "left out"}}
    lines = ["age,sex,pay,n", *(f"{row},1" for row in PEOPLE[1:] if row[-1] != ",")]
    table = load(lines, *REGRESSION, "--missing", "error", book=book)
    assert list(table.features) == ["n"] and len(table.y) == 5
    assert table.left_out == ["the column 'age' (by the codebook)"]
    table = load(lines, *REGRESSION, "--missing", "drop", book=book)
    assert len(table.y) == 5
    with pytest.raises(InputError, match="Values are missing in age; use"):
        load(lines, *REGRESSION, "--missing", "error")
    table = load(lines, *REGRESSION, "--missing", "error", "--drop", "age")
    assert table.left_out == ["the column 'age' (by --drop)"]


def test_gaps_that_a_codebook_rules_out_are_refused(load):
    book = {"age": {"kind": "number", "range": [0, 99], "missing": False}}
    with pytest.raises(InputError, match="'age' has missing values, which the code"):
        load(PEOPLE, *REGRESSION, book=book)
    load([*PEOPLE[:5], *PEOPLE[6:]], *REGRESSION, book=book)
    # of what kind the cells are need not be said for it
    with pytest.raises(InputError, match="'age' has missing values, which the code"):
        load(PEOPLE, *REGRESSION, book={"age": {"missing": False}})
    book["age"]["missing"] = True
    load(PEOPLE, *REGRESSION, book=book)


@pytest.mark.parametrize(("n_values", "task"), [(10, "class"), (11, "regress")])
def test_a_number_of_few_values_is_taken_as_classes(load, n_values, task):
    lines = ["age,sex,pay"]
    lines += [f"{i},{'fm'[i % 2]},{i % n_values}" for i in range(40)]
    table = load(lines)
    assert table.task.startswith(task)
    assert table.from_data == ["the task"]
    kinds = {"number": "regression", "category": "classification"}
    for kind, told in kinds.items():
        table = load(lines, book={"pay": {"kind": kind}})
        assert table.task == told
        assert "the task" not in table.from_data


@pytest.mark.parametrize("n", [36, 37])
def test_up_to_36_classes_and_groups_can_be_told_apart(load, n):
    lines = ["age,sex,pay"]
    rows = [(i, f"g{i % 2}", f"c{i % n}") for i in range(2 * n)]
    classes = lines + [f"{i},{g},{c}" for i, g, c in rows]
    groups = lines + [f"{i},{c},{g}" for i, g, c in rows]
    for table, says in ((classes, "37 classes"), (groups, "37 groups")):
        if n == 37:
            with pytest.raises(InputError, match=says):
                load(table)
        else:
            assert load(table).task == "classification"
    # those that are listed count, whoever is in them
    few = ["--groups", *(f"c{i}" for i in range(5))]
    assert len(set(load(groups, *few).labels)) == 5
    if n == 37:
        with pytest.raises(InputError, match="37 groups"):
            load(groups[:9], "--groups", *(f"c{i}" for i in range(n)))
    book = {"pay": {"kind": "category", "categories": ["c0", "c1", "c2"]}}
    table = load(classes, book=book)
    assert table.classes == ["c0", "c1", "c2"] and set(table.y) == {"c0", "c1", "c2"}
    assert table.from_data[0] == NO_PAY
    # which of them are there is not looked at
    table = load([*classes[:2], classes[1].replace("g0", "g1")], book=book)
    assert set(table.y) == {"c0"} and table.classes == ["c0", "c1", "c2"]


def test_a_range_of_no_length_or_beyond_all_numbers_is_refused(load):
    with pytest.raises(InputError, match="must be finite with low < high"):
        load(PEOPLE, "--bounds", "1", "1")
    far = "17" + "0" * 307
    with pytest.raises(InputError, match="must be finite with low < high"):
        load(PEOPLE, "--bounds", f"-{far}", far)


def test_the_range_of_a_target_is_that_of_the_argument_first(load):
    book = {"pay": {"kind": "number", "range": [0, 9]}}
    assert load(PEOPLE, book=book).bounds == (0.0, 9.0)
    assert load(PEOPLE, "--bounds", "1", "8", book=book).bounds == (1.0, 8.0)
    assert load(PEOPLE, *REGRESSION).bounds is None
    assert load(PEOPLE, "--bounds", "1", "8").task == "regression"
    for line in load(PEOPLE, "--bounds", "1", "8").from_data:
        assert line == NO_PAY


def test_a_kind_that_is_declared_stays_whatever_the_column_is_used_for(load):
    lines = [PEOPLE[0], *(f"{line}0" for line in PEOPLE[1:] if line[-1] != ",")]
    texts = load(lines, "--task", "classification").y
    assert texts.tolist() == ["1.50", "2.50", "4.50", "5.50", "6.50"]
    book = {"pay": {"kind": "number"}}
    numbers = load(lines, "--task", "classification", book=book).y
    assert numbers.tolist() == ["1.5", "2.5", "4.5", "5.5", "6.5"]


def test_several_sensitive_columns_are_one_label(load):
    lines = ["age,sex,town,pay"]
    lines += [f"{i},{'fm'[i % 2]},{'' if i == 3 else i % 3},{i}.5" for i in range(12)]
    table = load(lines, *REGRESSION, sensitive=("sex", "town"))
    expected = [
        f"{'fm'[i % 2]} / {'not stated' if i == 3 else i % 3}" for i in range(12)
    ]
    assert table.labels.tolist() == expected and table.groups is None
    assert table.sensitive_name == "sex and town" and list(table.features) == ["age"]
    book = {
        "sex": {"kind": "category", "categories": ["m", "f"]},
        "town": {"kind": "category", "categories": ["0", "1", "2"]},
    }
    table = load(lines, *REGRESSION, sensitive=("sex", "town"), book=book)
    assert table.groups == ["m / 0", "m / 1", "m / 2", "f / 0", "f / 1", "f / 2"]
    assert len(table.y) == 11 and NO_GROUP in table.from_data
    # with one list only there is none of both
    del book["town"]
    assert load(lines, *REGRESSION, sensitive=("sex", "town"), book=book).groups is None


@pytest.mark.parametrize(
    ("lines", "arguments", "book", "says"),
    [
        (PEOPLE, ("--drop", "sex"), None, "--drop names the target or the sensitive"),
        (PEOPLE, (), {"sex": {"kind": "left out"}}, "leaves out the column 'sex'"),
        (PEOPLE, (), {"wage": [0, 1]}, "describes a column 'wage' that the file"),
        (PEOPLE, ("--drop", "age"), None, "No feature is left beside the target"),
        (
            ["pay,age,sex,pay", "1.5,20,f,2.5", "2.5,30,m,3.5"],
            (),
            None,
            "names 'pay' twice, and it cannot be told which is meant",
        ),
        (PEOPLE[:2] + PEOPLE[3:4], (), None, "holds one group only"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(load, lines, arguments, book, says):
    with pytest.raises(InputError, match=says):
        load(lines, *REGRESSION, *arguments, book=book)


def test_a_name_that_stands_twice_is_dropped_with_both_its_columns(load):
    lines = ["age,age,sex,pay", "1,2,f,1.5", "3,4,m,2.5"]
    assert len(load([*lines], *REGRESSION).features) == 2
    with pytest.raises(InputError, match="No feature is left"):
        load(lines, *REGRESSION, "--drop", "age")


def test_a_codebook_that_cannot_be_read_gets_a_sentence(tmp_path):
    (tmp_path / "book.json").write_text('{"age": [18]}')
    with pytest.raises(InputError, match=r"^[A-Z].*at least two values") as raised:
        load_codebook(str(tmp_path / "book.json"))
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    assert len(load_codebook(None)) == 0


def test_what_is_declared_of_the_features_is_known_and_nothing_else(load):
    lines = ["age,day,town,n,sex,pay"]
    lines += [
        f"{i},2020-01-{i + 1:02},{'ab'[i % 2]},{i},{'fm'[i % 2]},{i}.5"
        for i in range(9)
    ]
    book = {
        "age": {"kind": "number", "range": [0, 9], "integer": True},
        "day": {"kind": "date", "range": ["2020-01-01", "2020-01-31"]},
        "town": {"kind": "category", "categories": ["a", "b"], "missing": False},
    }
    known = load(lines, *REGRESSION, book=book).codebook
    assert list(known) == ["age", "day", "town", "n"]
    assert known["age"].bounds == (0, 9) and not known["age"].integer
    # days since 1970
    assert known["day"].kind == "number" and known["day"].bounds == (18262, 18292)
    assert known["day"].missing
    assert known["town"].categories == ("a", "b") and not known["town"].missing
    assert known["n"] == Column()
    assert all(column.role == "feature" for _, column in known.entries)


def test_cells_that_count_as_missing_are_told_by_their_kind(load):
    lines = ["age,day,flag,sex,pay"]
    rows = [("x", "2020-01-03", "yes"), ("y", "never", "no"), ("1", "2020-01-04", "?!")]
    lines += [f"{','.join(row)},{'fm'[i % 2]},{i}.5" for i, row in enumerate(rows)]
    book = {
        "age": {"kind": "number", "range": [0, 9]},
        "day": {"kind": "date", "range": ["2020-01-01", "2020-01-31"]},
        "flag": {"kind": "flag"},
    }
    table = load(lines, *REGRESSION, book=book)
    assert table.remarks == [
        "2 cells of age, not a number, count as missing",
        "1 cell of day, not a date, counts as missing",
        "1 cell of flag, not a listed value, counts as missing",
    ]


@pytest.mark.parametrize("n_columns", [4, 5])
def test_such_cells_of_many_columns_are_told_of_in_one_sentence(load, n_columns):
    names = [f"f{i}" for i in range(n_columns)]
    odd = {name: 2 + i for i, name in enumerate(names)} | {"f0": 9}
    rows = [["x" if k < odd[name] else f"{k}.5" for name in names] for k in range(200)]
    lines = [f"{','.join(row)},{'fm'[k % 2]},{k}.5" for k, row in enumerate(rows)]
    table = load([",".join([*names, "sex", "pay"]), *lines], *REGRESSION)
    told = [text for text in table.remarks if "as missing" in text]
    if n_columns == 4:
        assert told == [
            f"{n} cells of {name}, not a number, count as missing"
            for name, n in odd.items()
        ]
    else:
        assert told == [
            "27 cells of 5 columns, not a number, count as missing: 9 of f0, 6 of f4, "
            "5 of f3, 4 of f2, and no more of any other"
        ]


def test_a_word_for_none_that_many_targets_are_may_be_a_class(load):
    """Three people in four had no disease, and were left out without a word why."""
    header, group = "age,sex,pay", "fm"
    kinds = ["-"] * 14 + ["FG"[i % 2] for i in range(5)] + ["NA"]
    lines = [f"{i % 50},{group[i % 3 > 0]},{kinds[i % 20]}" for i in range(200)]
    said = (
        "140 cells of pay say '-', which counts as missing unless a codebook lists it "
        "as a category (--codebook)"
    )
    table = load([header, *lines])  # a twentieth says NA, and not more
    assert [text for text in table.remarks if "cells of pay" in text] == [said]
    assert len(table.y) == 50
    table = load([header, *lines, "20,f,NA"])
    assert any("11 cells of pay say 'NA'" in text for text in table.remarks)
    table = load([header, *lines], book={"pay": ["-", "F", "G"]})
    assert not any("cells of pay" in text for text in table.remarks)
    assert len(table.y) == 190
    # a number is none, and what is empty says nothing
    for kind, task in (("-", "regression"), ("", "classification")):
        lines = [f"{i % 50},{group[i % 3 > 0]},{i % 9 or kind}" for i in range(200)]
        table = load([header, *lines], "--task", task)
        assert not any("cells of pay" in text for text in table.remarks)


@pytest.mark.parametrize(("n", "said"), [(0, []), (1, ["1 cell"]), (2, ["2 cells"])])
def test_dates_that_change_their_order_are_told(load, n, said):
    """Nine in ten cells make a column one of dates."""
    lines = ["age,day,sex,pay"]
    lines += [f"{i},{13 + i}/04/2020,{'fm'[i % 2]},{i}.5" for i in range(9 * (n or 1))]
    lines += [f"{i},04/{20 + i}/2020,{'fm'[i % 2]},{i}.5" for i in range(n)]
    table = load(lines, *REGRESSION)
    assert table.features["day"].column.kind == "date"
    told = [line.partition(" of day can only have")[0] for line in table.remarks]
    assert [one for one in told if "missing" not in one] == said
    one_more = [*lines, "1,04/29/2020,f,1.5"]
    if n:
        assert load(one_more, *REGRESSION).features["day"].column.kind == "category"


def test_texts_stand_in_order_numbers_first():
    texts = ["b", "10", "9", "a", "-1.5"]
    assert sorted(texts, key=in_order) == ["-1.5", "9", "10", "a", "b"]


def test_the_simulated_town_tells_the_group():
    table = simulated_table(0)
    town = table.features["town"].values
    assert_array_equal([f"group {int(one)}" for one in town], table.labels)
    assert table.groups == ["group 0", "group 1", "group 2"]
    assert all(one.declared for one in table.features.values())


# ------------------------------------------------------------------- the plain model's
def _number(values, bounds=None, *, declared=True, missing=True):
    column = Column("number", bounds, missing=missing)
    return Parsed("x", column, np.array(values, float), declared)


def _text(values, categories=None, *, declared=True, missing=True):
    column = Column("category", categories=categories, missing=missing)
    return Parsed("x", column, np.array(values, dtype=object), declared)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        # a public range; beyond it cells are cut, and gaps are in its middle
        (
            _number([0.0, 15.0, 20.0, 99.0, math.nan], (10, 20)),
            [[-1, 0], [0, 0], [1, 0], [1, 0], [0, 1]],
        ),
        (_number([10.0, 20.0], (10, 20), missing=False), [[-1], [1]]),
        (_number([10.0, 20.0], (10, 20)), [[-1, 0], [1, 0]]),
        (_number([math.nan] * 2, (10, 20)), [[0, 1], [0, 1]]),
        (_text([None] * 2, ("a", "b")), [[0, 0, 1], [0, 0, 1]]),
        # a range that is read; a column for gaps where there are some
        (_number([1.0, 3.0, 5.0], declared=False), [[-1], [0], [1]]),
        (_number([1.0, math.nan, 5.0], declared=False), [[-1, 0], [0, 1], [1, 0]]),
        (_number([4.0, 4.0], declared=False), [[-1], [-1]]),
        (_number([math.nan] * 3, declared=False), None),
        (
            _text(["b", "a", None, "c"], ("a", "b")),
            [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]],
        ),
        (_text(["b", "a"], ("a", "b"), missing=False), [[0, 1], [1, 0]]),
        (_text(["b", "a", "b"], declared=False), [[0, 1], [1, 0], [0, 1]]),
        (_text([None, "a"], declared=False), [[0, 1], [1, 0]]),
        # names of people are no kinds
        (_text([f"n{i}" for i in range(65)], declared=False), None),
        (_text([f"n{i}" for i in range(64)], declared=False), np.eye(64)),
        # of many texts the frequent ones are
        (
            _text(
                ["a"] * 10 + ["b"] * 9 + [f"n{i}" for i in range(63)], declared=False
            ),
            [[1]] * 10 + [[0]] * 72,
        ),
    ],
)
def test_columns_as_numbers_for_the_plain_model(column, expected):
    found = plain_numbers({"x": column})
    n_rows = len(column.values)
    assert_array_equal(found[:, 0], np.zeros(n_rows))  # never none at all
    if column.values.dtype == object and isinstance(expected, np.ndarray):
        order = np.argsort([f"n{i}" for i in range(64)])
        expected = expected[:, order]
    expected = np.empty((n_rows, 0)) if expected is None else expected
    assert_allclose(found[:, 1:], np.array(expected, float))
