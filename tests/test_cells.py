"""What cells mean, whatever library holds them."""

import datetime
import decimal
import uuid

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fairpriv_sklearn._cli import columns
from fairpriv_sklearn._door import _stream
from fairpriv_sklearn._door._stream import fingerprint
from fairpriv_sklearn.preprocessing import (
    Codebook,
    Column,
    DPTableEncoder,
    Raw,
    _cells,
    parse_cells,
)
from fairpriv_sklearn.preprocessing._cells import TableReader, _cells_of, key_of


@pytest.mark.parametrize(
    "same",
    [
        (3, 3.0, "3", "3.00", " 3", decimal.Decimal("3.0"), np.int8(3), b"3"),
        (1, True, "true", "True", np.True_, "1.0", 1 + 0j, np.complex64(1)),
        (
            None,
            "",
            "nan",
            "NaN",
            float("nan"),
            pd.NA,
            pd.NaT,
            np.datetime64("NaT", "D"),
            1j,
            np.complex64(1j),  # NumPy warns where it is read as a number
            np.complex128(1j),
            complex("nan"),
            # years that Python does not know
            pd.Timestamp(np.datetime64("20000-01-01", "s")),
            np.datetime64("20000-01-01"),
            np.datetime64("400000-01-01", "s"),
            np.datetime64("-5000-01-01"),
        ),
        ("2020-05-01", datetime.date(2020, 5, 1), pd.Timestamp("2020-05-01")),
        (pd.Timestamp("2020-05-01 09:00", tz="Asia/Tokyo"), "2020-05-01T00:00:00Z"),
        ("caf\u00e9", "cafe\u0301", " café "),
        (datetime.time(9, 30), "09:30:00"),
        (uuid.UUID(int=7), str(uuid.UUID(int=7))),
        # a gap in a column of pandas makes floats of the ends
        (pd.Interval(0, 1), pd.Interval(0.0, 1.0), "(0, 1]"),
        (pd.Interval(0.5, 2, closed="left"), "[0.5, 2)"),
        (pd.Period("2020-05"), pd.Period("2020-05-01"), "2020-05-01"),
        # spans without a unit are read as pandas reads them
        (np.int64(10**15).view("m8"), pd.Timedelta(10**15, "ns"), 10**15 / 864e11),
        (np.timedelta64(-1, "ns"), pd.Timedelta(-1, "ns")),
        (np.timedelta64(2**62, "s"), pd.Timedelta(np.timedelta64(2**62, "s"))),
        (pd.Timestamp.min, pd.Timestamp.min.to_datetime64()),
        (
            np.datetime64("2020-05", "M"),
            np.datetime64("2020-05-01", "ns"),
            "2020-05-01",
        ),
    ],
)
def test_equal_cells_have_equal_keys(same):
    assert len({key_of(value) for value in same}) == 1


def columns_that_raise():
    """Cells that a library holds and Python has no value for; each raises as read."""
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    seconds = np.array(["2020-02-01"] * 20 + ["20000-01-01"], dtype="M8[s]")
    days = pyarrow.array(np.r_[np.arange(20), 10**7].astype(np.int32))
    days = days.cast(pyarrow.date32())
    ends = np.r_[np.arange(21), 20 + len(NOT_UTF_8)].astype(np.int32)
    data = b"1" * 20 + NOT_UTF_8
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(data)]
    text = pyarrow.Array.from_buffers(pyarrow.string(), 21, buffers)
    zoned = pd.Series(seconds).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    yield from (pyarrow.array(seconds), days, text)
    yield days.dictionary_encode()
    yield polars.Series(seconds.astype("M8[ms]"))
    yield polars.Series(np.r_[np.arange(20), 2**62]).cast(polars.Duration("ms"))
    yield zoned
    yield zoned.astype("category")
    yield from (pd.Series(c, dtype=pd.ArrowDtype(c.type)) for c in (days, text))
    yield pd.Series(text, dtype=pd.StringDtype("pyarrow"))


def zone(hours):
    return datetime.timezone(datetime.timedelta(hours=hours))


@pytest.mark.parametrize(
    ("moment", "beside"),
    [
        (datetime.datetime(1, 1, 1, 4, 59, 59, tzinfo=zone(5)), zone(5)),
        (datetime.datetime(9999, 12, 31, 19, tzinfo=zone(-5)), zone(-5)),
    ],
)
def test_a_moment_of_no_year_in_utc_is_missing_whatever_is_beside_it(moment, beside):
    """Objects were dates; where all have one zone pandas holds no such date.

    So one record that has another zone changed the cells of all others.
    """
    near = [datetime.datetime(2020, 1, 1, tzinfo=z) for z in (beside, zone(1))]
    for other in (None, *near, "text", 1):
        for dtype in (None, object):
            column = pd.Series([moment, other], dtype=dtype)
            assert _cells_of(column).kinds[0] == _cells.MISSING
    assert key_of(moment) is None and key_of(moment.isoformat()) is None
    half = datetime.timedelta(hours=12)
    inside = moment + half if moment.year == 1 else moment - half
    cells = [_cells_of(pd.Series([inside, other])) for other in (None, near[1])]
    assert all(one.kinds[0] == _cells.DATE for one in cells)
    assert cells[0].values[0] == cells[1].values[0]


NOT_UTF_8 = b"\xffsecret"


@pytest.mark.parametrize("position", range(11))
def test_a_cell_that_python_has_no_value_for_is_missing(position):
    """It raised after the spend, in words that quote the cell."""
    column = list(columns_that_raise())[position]
    cells = _cells_of(column)
    assert cells.kinds[-1] == _cells.MISSING and len(cells) == 21
    assert (cells.kinds[:-1] != _cells.MISSING).all()
    batch = {"cells": TableReader([[column]])}
    assert fingerprint(batch) == fingerprint(batch)


class Quoting(float):
    """A number that quotes itself when somebody reads it."""

    def __float__(self):
        raise OSError("secret")


def test_a_cell_that_raises_when_it_is_read_is_missing():
    """The error, of whatever kind, came after the spend."""
    cells = _cells_of(np.array([1.0, Quoting(2.0)], dtype=object))
    assert cells.kinds.tolist() == [_cells.NUMBER, _cells.MISSING]


@pytest.mark.skipif(
    np.finfo(np.longdouble).max == np.finfo(np.float64).max, reason="none is longer"
)
@pytest.mark.parametrize("dtype", [np.longdouble, object])
def test_a_number_too_long_for_a_float_is_infinite_without_a_word(dtype):
    """NumPy warned, or raised where it was told to, of that one cell."""
    column = np.array([1, np.longdouble("1e4000"), np.longdouble("-1e4000")], dtype)
    book = Codebook((("a", Column("number", (0, 1), missing=False)),))
    for X in (pd.DataFrame({"a": column}), column[:, None]):
        with np.errstate(all="raise"):
            cells = TableReader.of(X).cells(0)
        assert cells.values.tolist() == [1.0, np.inf, -np.inf]
        assert cells.kinds.tolist() == [_cells.NUMBER] * 3
    frame = pd.DataFrame({"a": column})
    with np.errstate(all="raise"):
        encoder = DPTableEncoder(book, random_state=0).fit(frame)
        assert np.isfinite(encoder.transform(frame)).all()


def test_numbers_that_are_held_as_objects_are_read_in_one_go(monkeypatch):
    """One by one, as the command line holds them, took twenty times as long."""
    pd = pytest.importorskip("pandas")
    numbers = [1.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 5e-324]
    whole = [2, 10**17 + 1, -(2**53) - 1, 10**30, 0]  # what pandas holds beside text
    objects = np.array([*numbers, None, *whole], dtype=object)
    one_by_one = [_cells._read(cell) for cell in objects]
    monkeypatch.delattr(_cells, "_read")
    held = [*numbers, None]
    columns = [objects, pd.Series(objects, dtype=object), pd.Series(held)]
    for column in (*columns, columns[2].astype("category")):
        cells = _cells_of(column)
        alike = one_by_one[: len(column)]
        assert_array_equal(cells.kinds, [kind for kind, _, _ in alike])
        assert_array_equal(cells.values, [value for _, value, _ in alike])
        assert not np.signbit(cells.values[1])
        keys, places = cells.keys()
        expected = [_cells._key(*cell) for cell in alike]
        assert [keys[place] for place in places] == expected


def test_numbers_beside_one_that_no_float_holds_are_read_one_by_one():
    objects = np.array([10**400, None, 2, -(10**400)], dtype=object)
    cells = _cells_of(objects)
    assert_array_equal(cells.values, [np.inf, np.nan, 2.0, -np.inf])


def test_a_checksum_asks_for_the_words_of_a_text_once(monkeypatch):
    """For each cell, in each pass, it took a third of a fit in batches."""
    asked = []
    monkeypatch.setattr(
        _stream, "repr", lambda cell: asked.append(cell) or repr(cell), raising=False
    )
    one = [*["a", "b", None] * 100, 1, True, 1.0, "1", -0.0, 0.0]
    first = fingerprint({"x": np.array(one, dtype=object)})
    assert asked.count("a") == asked.count("b") == 1
    for cell in range(len(one)):
        other = one.copy()
        other[cell] = "1" if one[cell] != "1" else 1
        assert fingerprint({"x": np.array(other, dtype=object)}) != first


@pytest.mark.parametrize("dtype", ["str", "string", "category"])
def test_text_that_pandas_knows_to_be_text_is_read_once_and_alike(dtype):
    pd = pytest.importorskip("pandas")
    texts = ["a", "", "3", "nan", "é", "2020-01-02", "b\x1f", None, "a", "3"]
    for some in (texts, texts[:7], [None, None], []):
        column = pd.Series(some, dtype=dtype)
        objects = np.asarray(column, dtype=object)
        assert fingerprint({"x": column}) == fingerprint({"x": np.asarray(column)})
        table = TableReader.of(pd.DataFrame({"x": column}))
        assert fingerprint({"x": table}) == fingerprint({"x": column})
        for rows in (slice(None), slice(1, 5), slice(5, 8)):
            told, places = [], np.arange(len(column))[rows]
            held_in = (table.rows_at(rows), table.rows_at(places), column.iloc[rows])
            for held in (*held_in, objects[rows]):
                is_table = isinstance(held, TableReader)
                cells = held.cells(0) if is_table else _cells_of(held)
                assert len(cells) == len(held)
                keys, inverse = cells.keys()
                no_texts = [None] * len(cells)  # as where all are NaN
                assert sorted(set(inverse.tolist())) == list(range(len(set(keys))))
                told.append(
                    [
                        [keys[i] for i in inverse],
                        cells.kinds.tolist(),
                        repr(cells.values.tolist()),
                        no_texts if cells._texts is None else list(cells._texts),
                    ]
                )
            assert told[0] == told[1] == told[2] == told[3]


def test_distinct_texts_are_made_keys_of_once_not_in_every_block(monkeypatch):
    made, key = [], _cells._key
    monkeypatch.setattr(_cells, "_key", lambda *cell: made.append(cell) or key(*cell))
    table = TableReader.of(
        pd.DataFrame({"x": pd.Series([*map(str, range(300))], dtype="str")})
    )
    for rows, block in table.blocks(10):
        keys, inverse = block.cells(0).keys()
        assert [keys[i] for i in inverse] == [*map(str, range(300))][rows]
    assert len(made) <= 301  # with a missing one


@pytest.mark.parametrize(
    "span",
    [
        datetime.timedelta(seconds=3, microseconds=106352),
        -datetime.timedelta(days=3, microseconds=8),
        datetime.timedelta(days=42215, seconds=76709, microseconds=307616),
    ],
)
@pytest.mark.parametrize("starts", [None, datetime.datetime(1970, 1, 1)])
def test_spans_and_days_are_alike_however_they_are_held(span, starts):
    """A column of pandas rounded twice, and one of objects once: all rows moved."""
    cell = span if starts is None else starts + span
    exact = span // datetime.timedelta(microseconds=1) / (86_400 * 10**6)
    kind = "timedelta64" if starts is None else "datetime64"
    for unit in ("us", "ns"):
        held = (
            pd.Series([cell], dtype=f"{kind}[{unit}]"),
            np.array([cell], dtype=f"{kind}[{unit}]"),
            pd.Series([cell], dtype=f"{kind}[{unit}]").astype("category"),
            np.array([cell], dtype=object),
        )
        assert [_cells_of(one).values.tolist() for one in held] == [[exact]] * 4


@pytest.mark.parametrize("kind", ["float16", "float32", "Float32", "int8"])
def test_one_cell_of_another_kind_leaves_the_others_as_they_were(kind):
    """Pandas holds a column in another type then, so nothing may hang on the type."""
    numbers = pd.Series([39.8, 0.1, 7.0]).astype("int" if kind == "int8" else "float")
    column = numbers.astype(kind)
    before = TableReader.of(pd.DataFrame({"a": column})).cells(0)
    for other in ("x", 2.3, None):
        mixed = pd.concat([column.astype(object), pd.Series([other], dtype=object)])
        joined = pd.concat([column, pd.Series([other])])
        for after in (mixed, joined):
            cells = TableReader.of(pd.DataFrame({"a": after.array})).cells(0)
            assert_array_equal(cells.values[:3], before.values)


MAY_4, APRIL_5 = datetime.datetime(2020, 5, 4), datetime.datetime(2020, 4, 5)


@pytest.mark.parametrize(
    ("text", "value", "decimal", "day_first"),
    [
        ("$1,200", 1200.0, ".", None),
        ("1.234,50 €", 1234.5, ".", None),  # a number with the other mark only
        ("1.234", 1.234, ".", None),
        ("1.234", 1234.0, ",", None),
        ("12 %", 0.12, ".", None),
        ("(300)", -300.0, ".", None),
        ("24k", 24000.0, ".", None),
        ("9" * 400, "9" * 400, ".", None),  # nothing to reckon with
        ("4/5/2020", MAY_4, ".", None),
        ("4/5/2020", APRIL_5, ".", False),
        ("4/14/2020", datetime.datetime(2020, 4, 14), ".", None),
        ("4/14/2020", "4/14/2020", ".", True),
        ("4.5.2020 10:30", datetime.datetime(2020, 5, 4, 10, 30), ".", False),
        ("N/A", None, ".", None),
        (" ? ", None, ".", None),
        (" low ", " low ", ".", None),
        ("yes", "yes", ".", None),
        (7, 7, ".", None),
        (None, None, ".", None),
        (datetime.date(2020, 1, 2), datetime.date(2020, 1, 2), ".", None),
    ],
)
def test_cells_are_parsed_each_by_itself(text, value, decimal, day_first):
    """Whatever stands beside them, and in frames that name a column twice."""
    options = {"decimal": decimal, "day_first": day_first}
    alone = parse_cells(pd.DataFrame({"x": pd.Series([text], dtype=object)}), **options)
    frame = pd.DataFrame([["a", text], ["13.4.2020", "5"]], columns=["x", "x"])
    frame.index = ["one", "two"]
    beside = parse_cells(frame, **options)
    assert list(beside.index) == ["one", "two"] and list(beside.columns) == ["x", "x"]
    for parsed, at in ((alone, 0), (beside, 1)):
        assert all(kind is np.dtype(object) for kind in parsed.dtypes)
        found = parsed.iat[0, at]
        missing = value is None and pd.isna(found)
        assert missing or (type(found), found) == (type(value), value)


def test_parsed_cells_are_what_the_command_line_reads():
    texts = ["$1,200", "12 %", "3/4/2020", "3/14/2020", "1.234,5", "N/A", "x", "01234"]
    of_file = columns.parse_columns(
        Raw({"x": [None if t == "N/A" else t for t in texts], "y": ["p", "q"] * 4}),
        Codebook(),
        ["x"],
        columns.Writing(separator=","),
    )["x"].cells
    assert parse_cells(pd.DataFrame({"x": texts}))["x"].tolist() == of_file.tolist()


@pytest.mark.parametrize(
    ("X", "options", "says"),
    [
        ([["1"]], {}, "X must be a data frame of pandas, .* got an object"),
        (pd.DataFrame({"x": ["Secr3t"]}), {"decimal": ";"}, "decimal must be one of"),
        (pd.DataFrame({"x": ["Secr3t"]}), {"day_first": "y"}, "day_first must be True"),
    ],
)
def test_arguments_of_parsing_are_refused_in_one_sentence(X, options, says):
    with pytest.raises((TypeError, ValueError), match=says) as refused:
        parse_cells(X, **options)
    assert "Secr3t" not in str(refused.value)


def test_what_parse_cells_takes_is_said():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    held = {"pay": ["$1,200", "?"], "day": ["3/4/2020", "low"]}
    with pytest.raises(TypeError, match=r"to_pandas\(\) of others makes one, got"):
        parse_cells(pl.DataFrame(held))
    frame = pl.DataFrame(held).to_pandas()
    assert parse_cells(frame).equals(parse_cells(pd.DataFrame(held)))
    with pytest.raises(TypeError, match="day_first must be True, False or None, got 3"):
        parse_cells(frame, day_first=3)
    for order in (None, True, False, np.True_, np.False_):
        months = [parse_cells(frame, day_first=order)["day"][0].month]
        assert months == [4 if order is None or order else 3]
