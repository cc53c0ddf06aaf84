"""The codebook: what it accepts, what it refuses in one sentence, and its forms."""

import copy
import dataclasses
import json
import os
import pickle

import numpy as np
import pandas as pd
import pytest

from fairpriv_sklearn.datasets._sources import SOURCES
from fairpriv_sklearn.preprocessing import Codebook, Column, DPTableEncoder
from fairpriv_sklearn.preprocessing._codebook import (
    category_key,
    whole_days,
    with_role,
)

FULL = {
    "age": {"kind": "number", "range": [17, 90], "integer": True, "missing": False},
    "smoker": {
        "kind": "category",
        "categories": ["no", "yes"],
        "other": False,
        "missing": False,
    },
    "code": {"kind": "category", "categories": [1, 2, 9], "missing_values": ["?", -1]},
    "member": {"kind": "flag", "categories": [False, True]},
    "born": {"kind": "date", "range": ["1920-01-01", "2010-12-31"]},
    "name": "left out",
    "sex": {"kind": "category", "categories": ["f", "m"], "role": "group"},
    "income": {"kind": "number", "range": [0, 2e5], "role": "target"},
    "unknown": None,
}


def test_every_form_survives_dict_json_pickle_and_copy(tmp_path):
    codebook = Codebook.from_dict(FULL)
    path = tmp_path / "codebook.json"
    text = codebook.to_json(path)
    again = [
        Codebook.from_dict(codebook.to_dict()),
        Codebook.from_json(text),
        Codebook.from_json(path),
        Codebook.from_json(str(path)),
        pickle.loads(pickle.dumps(codebook)),
        copy.deepcopy(codebook),
        eval(repr(codebook)),
    ]
    for other in again:
        assert other == codebook and hash(other) == hash(codebook)
    assert json.loads(text)["income"]["role"] == "target"
    assert codebook != Codebook.from_dict({**FULL, "age": [17, 91]})


def test_what_it_says():
    codebook = Codebook.from_dict(FULL)
    assert list(codebook) == list(FULL) and len(codebook) == 9
    assert codebook.target == "income" and codebook.groups == ("sex",)
    assert codebook["age"] == Column("number", (17, 90), None, True, missing=False)
    assert codebook["age"].bounds == (17.0, 90.0)
    days = np.array(["1920-01-01", "2010-12-31"], dtype="datetime64[D]").astype(int)
    assert codebook["born"].bounds == tuple(days)
    assert codebook["code"].missing_values == ("?", "-1")
    assert codebook["name"].kind == "left out"
    assert codebook["unknown"] == Column() and "nobody" not in codebook
    assert len(Codebook()) == 0 and Codebook.from_json("{}") == Codebook()
    assert Codebook().to_json() == "{}\n"
    most = Codebook.from_dict({"a": [-1e300, 1e300]})
    assert most["a"].bounds == (-1e300, 1e300)


def test_short_forms():
    codebook = Codebook.from_dict(
        {"age": [17, 90], "smoker": ["0", "1", None], "yes": [False, True]}
    )
    assert codebook["age"] == Column("number", range=(17, 90))
    assert codebook["smoker"] == Column("category", categories=("0", "1"))
    assert codebook["yes"].kind == "flag"
    # the key that is there says what the kind is
    by_key = Codebook.from_dict({"a": {"range": [0, 1]}, "b": {"categories": [1, 2]}})
    assert (by_key["a"].kind, by_key["b"].kind) == ("number", "category")


def test_nothing_can_be_changed():
    codebook = Codebook.from_dict(FULL)
    with pytest.raises(AttributeError):
        codebook.entries = ()
    with pytest.raises(TypeError):
        codebook.columns["age"] = Column()
    with pytest.raises(AttributeError):
        codebook["age"].kind = "category"
    changed = codebook.with_columns(age=[0, 120])
    assert changed["age"].range == (0, 120) and codebook["age"].range == (17, 90)
    assert list(changed) == list(codebook)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ([90, 17], "low < high"),
        ([17, 17], "low < high"),
        ([float("nan"), 1], "finite"),
        ([0, float("inf")], "finite"),
        ([-1.7e308, 1.7e308], "finite"),
        ([0, 10**400], "finite"),
        ([1, 2, 3], "two numbers"),
        ([1], "two numbers"),
        (["a"], "at least two values"),
        ([1, None], "two numbers"),
        ([1, 2, None], "two numbers"),
        ([0, 1.001e300], "at most 1e300"),
        ([-1.001e300, 0], "at most 1e300"),
        ([], "two numbers"),
        ([None, None], "two numbers"),
        (["a", 1], "two numbers"),
        ([[1, 2], [3, 4]], "two numbers"),
        ({"range": 5}, "two numbers"),
        ({"range": [1, 2, 3]}, "two numbers"),
        ({"range": ["17", "90"]}, "two numbers"),
        ({"range": [False, True]}, "two numbers"),
        ({"range": {"low": 1}}, "two numbers"),
        ({"range": "1" * 500}, "two numbers"),
        ({"range": list(range(500))}, "two numbers"),
        ({"kind": "k" * 500}, "kind must be one of"),
        ({"kind": "category", "range": [0, 1]}, "range belongs"),
        ({"kind": "number", "categories": [1, 2]}, "categories belong"),
        ({"categories": "abc"}, "must be a list"),
        ({"categories": []}, "at least one"),
        ({"categories": [None]}, "at least one"),
        ({"categories": ["a", "a"]}, "twice"),
        ({"categories": [1, "1"]}, "twice"),
        ({"categories": [["a"]]}, "strings, numbers or booleans"),
        ({"categories": [float("nan")]}, "finite"),
        ({"categories": ["a", None], "missing": False}, "missing"),
        ({"kind": "flag", "categories": ["a"]}, "a flag has two"),
        ({"kind": "integer"}, "kind must be one of"),
        ({"kind": ["number"]}, "kind must be one of"),
        ({"kind": 3}, "kind must be one of"),
        ({"range": [0, 1], "role": "label"}, "role must be one of"),
        ({"range": [0, 1], "integer": 1}, "true or false"),
        ({"range": [0, 0.5], "integer": True}, "whole"),
        ({"categories": ["a"], "integer": True}, "integer belongs"),
        ({"range": [0, 1], "other": False}, "other=False"),
        ({"range": [0, 1], "missing_values": "?"}, "must be a list"),
        ({"range": [0, 1], "missing_values": [["?"]]}, "strings or numbers"),
        (
            {"range": [0, 1], "missing": False, "missing_values": ["?"]},
            "missing_values",
        ),
        ({"range": [0, 1], "bounds": [0, 1]}, "unknown key 'bounds'"),
        ({3: 4}, "unknown key 3"),
        ({"kind": "date", "range": [0, 1]}, "ISO dates"),
        ({"kind": "date", "range": 5}, "ISO dates"),
        ({"kind": "date", "range": ["2001-01-01"] * 3}, "ISO dates"),
        ({"kind": "date", "range": ["2001-13-01", "2002-01-01"]}, "ISO dates"),
        ({"kind": "date", "range": ["2002-01-01", "2001-01-01"]}, "low < high"),
        ({"kind": "left out", "role": "target"}, "left out"),
        (5, "a range"),
        ("number", "a range"),
        (True, "a range"),
    ],
)
def test_wrong_entries_get_one_sentence(entry, says):
    with pytest.raises(ValueError) as caught:
        Codebook.from_dict({"age": [0, 1], "column": entry})
    text = str(caught.value)
    assert says in text and "'column'" in text
    assert "\n" not in text and len(text) < 250


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ('{"a": [0, NaN]}', "finite"),
        ('{"a": [0, Infinity]}', "finite"),
        ('{"a": [0, 1e999]}', "finite"),
        ('{"a": [0, 1' + "0" * 5000 + "]}", "codebook"),
        ('{"a": [0, 1], "a": [0, 2]}', "'a' twice"),
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", "at least two values"),
        ('{"a": {"range": [0, 1], "range": [0, 2]}}', "twice"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "too deeply"),
        ('{"a": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}", "too deeply"),
        ('{"a": [0, 1], "": [0, 1]}', "without a name"),
        ("{'a': [0, 1]}", "not JSON"),
        (
            '{"a": {"kind": "flag", "role": "target"},'
            '"b": {"kind": "flag", "role": "target"}}',
            "2 targets",
        ),
    ],
)
def test_wrong_json_gets_one_sentence(tmp_path, text, says):
    path = tmp_path / "codebook.json"
    path.write_text(text)
    for source in (text, path):
        with pytest.raises(ValueError, match=says) as caught:
            Codebook.from_json(source)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_files_that_are_no_code_books(tmp_path):
    latin, array = tmp_path / "latin.json", tmp_path / "array.json"
    latin.write_bytes('{"größe": [0, 1]}'.encode("latin-1"))
    array.write_text("[1, 2]")
    marked = tmp_path / "mark.json"
    marked.write_bytes(b"\xef\xbb\xbf" + '{"größe": [0, 1]}'.encode())
    for path, says in (
        (latin, "UTF-8"),
        (array, "maps the names"),
        (tmp_path / "nowhere.json", "cannot be read"),
        (tmp_path, "cannot be read"),
        ("\0", "cannot be read"),
    ):
        with pytest.raises(ValueError, match=says):
            Codebook.from_json(path)
    assert list(Codebook.from_json(marked)) == ["größe"]
    for wrong in (None, 3, "age", [("age", [0, 1])]):
        with pytest.raises(ValueError, match="maps the names"):
            Codebook.from_dict(wrong)
    with pytest.raises(ValueError, match="strings"):
        Codebook.from_dict({0: [0, 1]})
    for entries in (["age"], [("age", [0, 1])]):
        with pytest.raises(TypeError, match="pairs"):
            Codebook(entries)
    for column in (Column(), Column("number")):
        with pytest.raises(ValueError, match="names a column twice"):
            Codebook([("age", Column()), ("pay", Column()), ("age", column)])


# -------------------------------------------------------------------------- templates
def test_template_of_what_a_source_declares(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    feather = pytest.importorskip("pyarrow.feather")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {
            "age": pyarrow.array([1, None], pyarrow.int64()),
            "pay": pyarrow.array([1.5, None]),
            "town": pyarrow.array(["a", "b"]),
            "sex": pyarrow.array(["f", "m"]).dictionary_encode(),
            "yes": pyarrow.array([True, None]),
            "born": pyarrow.array([0, 1], pyarrow.date32()),
            "blob": pyarrow.array([b"", b""]),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    kinds = ["number", "number", "category", "category", "flag", "date", None]
    for source in (table, tmp_path / "t.parquet", str(tmp_path / "t.feather")):
        template = Codebook.template(source)
        assert [column.kind for column in template.columns.values()] == kinds
        assert list(template) == table.column_names
        assert template["age"].integer and not template["pay"].integer
        # nothing but names and kinds, and what booleans are: no cell shows
        told = {name: column.categories for name, column in template.columns.items()}
        assert told == {**dict.fromkeys(template), "yes": (False, True)}
        assert not any(column.range for column in template.columns.values())
    plain = json.loads(template.to_json())
    assert plain["pay"] == {"kind": "number", "range": None}
    assert plain["sex"] == {"kind": "category", "categories": None}
    assert Codebook.from_json(template.to_json()) == template
    assert Codebook.template(table, typed=False)["age"] == Column()
    frame = pd.DataFrame({"yes": [True, False] * 50})
    book = Codebook.template(frame, typed=True)
    encoder = DPTableEncoder(codebook=book, ranks="uniform").fit(frame)
    assert encoder.privacy_.epsilon == 0  # it learns nothing of booleans


def test_template_of_a_frame_knows_names_only_unless_types_are_declared(tmp_path):
    """pandas infers types from values: one gap makes whole numbers floats."""
    frame = pd.DataFrame({"kids": [1, 2], "town": ["a", "b"]})
    gap = pd.DataFrame({"kids": [1, None], "town": ["a", "b"]})
    assert Codebook.template(frame) == Codebook.template(gap)
    assert Codebook.template(frame)["kids"] == Column()
    typed = Codebook.template(frame, typed=True)
    assert typed["kids"].kind == "number" and typed["town"].kind == "category"
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    assert list(Codebook.template(path)) == ["kids", "town"]
    with pytest.raises(TypeError, match="strings"):
        Codebook.template(pd.DataFrame({0: [1]}))
    with pytest.raises(TypeError, match="data frame"):
        Codebook.template(np.zeros((2, 2)))
    with pytest.raises(FileNotFoundError):
        Codebook.template(tmp_path / "nowhere.csv")
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"kids": [1], "town": ["a"]})
    assert Codebook.template(table)["town"] == Column()
    assert Codebook.template(table, typed=True)["town"].kind == "category"


def test_types_whose_names_begin_alike_are_not_taken_for_each_other():
    pyarrow = pytest.importorskip("pyarrow")
    # struct begins as str does, and interval as int
    table = pyarrow.table({"place": [{"x": 1}], "town": ["a"]})
    template = Codebook.template(table)
    assert template["place"] == Column() and template["town"].kind == "category"
    ages = pd.interval_range(0, 10, periods=2)
    frame = pd.DataFrame({"age": ages, "kids": [1, 2]})
    template = Codebook.template(frame, typed=True)
    assert template["age"] == Column() and template["kids"].integer


def test_categories_are_compared_by_their_text():
    values = (1, 1.0, np.int64(1), np.float64(1.0), "1", " 1 ")
    assert {category_key(value) for value in values} == {"1"}
    assert category_key(True) == "True" and category_key(1.5) == "1.5"
    for text, key in (("1.0", "1"), ("-20.00", "-20"), ("0.0", "0"), (-0.0, "0")):
        assert category_key(text) == key
    for text in ("01.0", "1.", ".0", "1.0.0", "1.50", "v1.0", "1.0 kg"):
        assert category_key(text) == text
    assert category_key("e\u0301") == category_key("\u00e9") == "\u00e9"


def test_there_is_one_target_and_several_groups():
    codebook = Codebook.from_dict(FULL)
    roles = {name: column.role for name, column in codebook.columns.items()}

    def changed(role, name):
        found = with_role(codebook, role, name).columns
        assert list(found)[: len(FULL)] == list(FULL)
        for other, column in found.items():
            kept = codebook.columns.get(other, Column())
            assert dataclasses.replace(column, role=kept.role) == kept
        now = {other: column.role for other, column in found.items()}
        return {k: v for k, v in now.items() if v != roles.get(k)}

    assert changed("target", "age") == {"age": "target", "income": "feature"}
    assert changed("target", "new") == {"new": "target", "income": "feature"}
    assert changed("target", "income") == {}
    assert changed("group", "age") == {"age": "group"}
    assert changed("group", "income") == {"income": "group"}
    without = Codebook.from_dict({"age": [0, 1], "sex": ["f", "m"]})
    assert with_role(without, "target", "age").target == "age"
    assert with_role(without, "group", "sex").target is None


@pytest.mark.parametrize(
    ("low", "high", "days"),
    [
        (365.0, 365.5, ("1971-01-01", "1971-01-02")),
        (364.2, 366.0, ("1970-12-31", "1971-01-02")),
        (0.0, 0.0, ("1970-01-01", "1970-01-02")),
        (-0.5, 0.5, ("1969-12-31", "1970-01-02")),
        (-1e9, 1e9, ("0001-01-01", "9999-12-31")),
        (-1e9, -9e8, ("0001-01-01", "0001-01-02")),
        (9e8, 1e9, ("9999-12-30", "9999-12-31")),
    ],
)
def test_a_range_of_days_holds_what_it_held(low, high, days):
    assert whole_days(low, high) == days
    first, last = np.array(days, dtype="datetime64[D]").astype(int)
    assert Column("date", range=days).bounds == (first, last)
    if abs(low) + abs(high) < 1e6:
        assert first <= low <= high <= last < high + 2


# --------------------------------------------------------------------- shipped sources
@pytest.mark.parametrize("name", SOURCES)
def test_sources_have_code_books(name):
    source = SOURCES[name]
    codebook = source.codebook()
    assert set(codebook) == {*source.bounds, *source.categories}
    for column, (low, high) in source.bounds.items():
        assert codebook[column].bounds == (low, high)
    for column, categories in source.categories.items():
        assert codebook[column].categories == tuple(categories)
    assert codebook.target == source.targets[0]
    assert codebook.groups == source.sensitive[:1]
    assert Codebook.from_json(codebook.to_json()) == codebook


@pytest.mark.skipif(
    "FAIRPRIV_SKLEARN_DATA" not in os.environ, reason="needs the data folder"
)
def test_a_loaded_data_set_brings_its_code_book():
    from fairpriv_sklearn.datasets import fetch_law_school

    data = fetch_law_school(target="pass_bar", sensitive_features="gender")
    assert list(data.codebook) == [*data.feature_names, "pass_bar", "gender"]
    assert data.codebook.target == "pass_bar" and data.codebook.groups == ("gender",)
    assert data.codebook["lsat"].bounds == tuple(data.bounds["lsat"])
