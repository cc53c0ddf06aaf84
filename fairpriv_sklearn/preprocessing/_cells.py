"""Cells of a table, whatever holds it: a number, a date, text, or missing.

What a cell is depends on the cell alone. A data-frame library decides the type of a
column by all of its values: integers become floats because of one gap, and objects
because of one word. So 3, 3.0, "3" and Decimal("3.00") are the same cell here, True is
1, and a day is the same as its ISO text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from numbers import Real
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from .._shared.arrays import is_text_column, objects_of, row_slices
from .._shared.callers import hushed
from .._shared.domain import domain
from ._codebook import category_key

NUMBER, DATE, TEXT, MISSING = range(4)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WORDS = {"true": 1.0, "false": 0.0}
_WORDS |= {
    sign + word: float(sign + "inf")
    for sign in ("", "+", "-")
    for word in ("inf", "infinity")
}
_ABSENT = {"", "nan", "<na>", "nat"}
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)
_TORN = re.compile("[\ud800-\udfff]")
_DAY = 86_400 * 10**6  # in microseconds, as an integer: a quotient is rounded once
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Units of NumPy that are no whole parts of a day, or tiny; pandas takes none for ns.
_READ_AS = {"Y": "s", "M": "s", "W": "D", "ps": "ns", "fs": "ns", "as": "ns"}
_READ_AS |= {"generic": "ns"}


class Cells:
    """Some cells of one column.

    Parameters
    ----------
    kinds : ndarray of int8
        NUMBER, DATE, TEXT or MISSING.
    values : ndarray of float64
        A number, or a date in days since 1970, UTC; NaN for the rest. May be infinite.
    texts : sequence of str, default=None
        The text of the cells that are TEXT.
    """

    def __init__(self, kinds, values, texts: Sequence | None = None):
        self.kinds, self.values, self._texts = kinds, values, texts

    def __len__(self) -> int:
        return len(self.kinds)

    @classmethod
    def joined(cls, parts: list[Cells]) -> Cells:
        """Cells of several parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        texts: list = []
        for part in parts:
            texts += [None] * len(part) if part._texts is None else list(part._texts)
        kinds = np.concatenate([part.kinds for part in parts])
        return cls(kinds, np.concatenate([part.values for part in parts]), texts)

    def numbers(self, kind: str) -> NDArray[np.float64]:
        """Values of the cells of a column of numbers or dates; the others are NaN."""
        wanted = DATE if kind == "date" else NUMBER
        return np.where(self.kinds == wanted, self.values, np.nan)

    def keys(self) -> tuple[list, NDArray[np.intp]]:
        """Distinct keys of the cells, None for a missing one, and each cell's."""
        if self._texts is None:
            kinds = self.kinds.astype(np.float64)
            # Infinite stays infinite: the key must not tell how the column is held.
            values = np.where(self.kinds == MISSING, 0.0, self.values) + 0.0
            pairs = np.column_stack([kinds, values])
            pairs, inverse = np.unique(pairs, axis=0, return_inverse=True)
            keys = [_key(int(kind), value, None) for kind, value in pairs.tolist()]
            return keys, inverse.reshape(-1)
        # NaN differs from itself, and must not make a key for every cell.
        values = np.where(np.isin(self.kinds, (NUMBER, DATE)), self.values, 0.0)
        triples = zip(self.kinds.tolist(), values.tolist(), self._texts, strict=True)
        cells = list(triples)
        found = {cell: i for i, cell in enumerate(dict.fromkeys(cells))}
        inverse = np.fromiter(map(found.__getitem__, cells), np.intp, len(cells))
        return [_key(*cell) for cell in found], inverse

    @cached_property
    def once(self) -> tuple[list, NDArray[np.intp]]:
        """The same for a list that many blocks of rows share."""
        return self.keys()


class _Coded(Cells):
    """Cells out of few listed ones; `codes` are their positions there."""

    def __init__(self, listed: Cells, codes: NDArray):
        self.kinds, self.values = listed.kinds.take(codes), listed.values.take(codes)
        self._listed, self._codes = listed, codes

    @cached_property
    def _texts(self) -> NDArray | None:
        texts = self._listed._texts
        return None if texts is None else np.array(texts, dtype=object)[self._codes]

    def keys(self) -> tuple[list, NDArray[np.intp]]:
        listed, inverse = self._listed.once
        inverse = inverse[self._codes]
        is_held = np.bincount(inverse, minlength=len(listed)) > 0
        keys = [listed[i] for i in np.flatnonzero(is_held).tolist()]
        return keys, (np.cumsum(is_held) - 1)[inverse]


def key_of(value) -> str | None:
    """Key of a single cell: cells with equal keys are the same category."""
    kind, number, text = _read(value)
    return _key(kind, number, text)


def _key(kind: int, value: float, text: str | None) -> str | None:
    if kind == MISSING:
        return None
    if kind == NUMBER:
        return category_key(value)
    if kind == DATE:
        try:
            moment = _EPOCH + timedelta(days=value)
        except OverflowError:
            return repr(value)
        whole = value == int(value)
        return moment.date().isoformat() if whole else moment.isoformat()
    return text


def _read(value) -> tuple[int, float, str | None]:
    """Kind, value and text of one cell; one that cannot be read is missing."""
    try:
        return _read_object(value)
    except Exception:  # in words of its own, which may quote it
        return MISSING, np.nan, None


def _read_object(value) -> tuple[int, float, str | None]:
    if value is None:
        return MISSING, np.nan, None
    if type(value) is float:
        return _number(value)
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, bytes):
        return _read_text(value.decode("utf-8", "replace"))
    value = getattr(value, "asm8", value)  # of pandas: what NumPy holds
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return _moment(datetime.combine(value, time()))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _numpy_time(value)
    if isinstance(value, timedelta):
        return _number(_days(value))
    if isinstance(value, complex | np.complexfloating) and value.imag == 0:
        value = value.real  # pandas holds all numbers beside a complex one so
    if isinstance(value, Real | Decimal | Fraction | np.bool_):
        try:
            return _number(float(value))
        except OverflowError:
            return _number(np.inf if value > 0 else -np.inf)
        except (TypeError, ValueError):
            pass
    if isinstance(value, time | UUID):
        return _read_text(str(value))
    of_pandas = type(value).__module__.startswith("pandas") and type(value).__name__
    if of_pandas == "Period":
        return _read(value.start_time)
    if of_pandas == "Interval":  # a gap beside it makes floats of whole ends
        ends = f"{key_of(value.left)}, {key_of(value.right)}"
        left, right = "(["[value.closed_left], ")]"[value.closed_right]
        return TEXT, np.nan, left + ends + right
    return MISSING, np.nan, None  # pandas.NA, and what is no cell of a table


def _read_text(text: str) -> tuple[int, float, str | None]:
    # Half a character, as a file read with "surrogateescape" has it, is no text.
    text = text.encode("utf-8", "replace").decode() if _TORN.search(text) else text
    text = unicodedata.normalize("NFC", text).strip()
    if _NUMBER.fullmatch(text):
        return _number(float(text))
    lower = text.lower()
    if lower in _ABSENT:
        return MISSING, np.nan, None
    if lower in _WORDS:
        return _number(_WORDS[lower])
    if _DATE.fullmatch(text):
        try:
            return _moment(datetime.fromisoformat(text))
        except ValueError:
            pass
    return TEXT, np.nan, text


def _number(value: float) -> tuple[int, float, None]:
    if np.isnan(value):
        return MISSING, np.nan, None
    return NUMBER, value + 0.0, None  # no negative zero


def _moment(moment: datetime) -> tuple[int, float, None]:
    try:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        span = moment - _EPOCH
        _EPOCH + span  # beyond Python's years in UTC, where pandas holds no date either
        return DATE, _days(span), None
    except (OverflowError, ValueError, TypeError):
        return MISSING, np.nan, None


def _numpy_time(value) -> tuple[int, float, None]:
    """A date or a span of NumPy, in whole microseconds; one of pandas may be longer."""
    if np.isnat(value):
        return MISSING, np.nan, None
    kind, unit = value.dtype.kind, np.datetime_data(value.dtype)[0]
    unit = _READ_AS.get(unit, unit)
    count = int(value.astype(f"{kind}8[{unit}]").astype(np.int64))
    span = count * _DAY // int(np.timedelta64(1, "D") / np.timedelta64(1, unit))
    if kind == "m":
        return _number(span / _DAY)
    try:
        return _moment(_EPOCH + timedelta(microseconds=span))
    except OverflowError:  # no year of Python's, nor a date where pandas holds it
        return MISSING, np.nan, None


def _days(span: timedelta) -> float:
    return span // timedelta(microseconds=1) / _DAY


class _Text:
    """A column that pandas knows to be text; it is looked through once."""

    def __init__(self, column):
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    @cached_property
    def coded(self) -> tuple[Cells, NDArray]:
        """What its distinct texts say, a missing one first, and which a cell has."""
        codes, texts = self.column.factorize()
        return _cells_of_objects([None, *objects_of(texts)]), codes + 1

    def rows_at(self, rows) -> _Text:
        """Some of its rows."""
        part, (listed, codes) = _Text(self.column.iloc[rows]), self.coded
        part.coded = listed, codes[rows]
        return part


class TableReader:
    """Columns of a table, or of some of its rows; cells are read when asked for.

    Parameters
    ----------
    columns : list of list
        The parts of each column, one after the other.
    """

    def __init__(self, columns: list[list]):
        self._columns = columns

    @classmethod
    def of(cls, X) -> TableReader:
        """Columns of a data frame, an Arrow table or an array."""
        columns = _columns_of(X)
        return cls([[_Text(c) if is_text_column(c) else c] for c in columns])

    @classmethod
    def joined(cls, tables) -> TableReader:
        """Rows of several tables, one after the other."""
        columns = zip(*(table._columns for table in tables), strict=True)
        return cls([[part for parts in column for part in parts] for column in columns])

    def parts(self) -> list:
        """All parts of all columns, as their library holds them."""
        parts = [part for column in self._columns for part in column]
        return [p.column if isinstance(p, _Text) else p for p in parts]

    def __len__(self) -> int:
        return sum(len(part) for part in self._columns[0]) if self._columns else 0

    def rows_at(self, rows) -> TableReader:
        """Some of the rows of a table in one part."""
        return TableReader([[_part(part, rows) for part in c] for c in self._columns])

    def cells(self, position: int) -> Cells:
        """Read the cells of a column; of numbers too long for a float none is told."""
        with np.errstate(all="ignore"):
            return Cells.joined([_cells_of(part) for part in self._columns[position]])

    def blocks(self, size: int):
        """Blocks of consecutive rows, with their slice."""
        for rows in row_slices(len(self), size):
            yield rows, self.rows_at(rows)


def _part(column, rows):
    if isinstance(column, _Text):
        return column.rows_at(rows)
    if hasattr(column, "iloc"):
        return column.iloc[rows]
    if isinstance(column, np.ndarray) or isinstance(rows, slice):
        return column[rows]
    return column.take(rows) if hasattr(column, "take") else column.gather(rows)


def as_table(X):
    """Return a data frame or Arrow table as it is, and anything else as an array."""
    if hasattr(X, "iloc") or hasattr(X, "get_columns"):
        return X
    has_type = hasattr(X, "dtype")
    speaks_arrow = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")
    # An array of labelled axes, as of xarray, would give Arrow a row for each cell.
    if speaks_arrow and not has_type:
        import pyarrow

        return X if isinstance(X, pyarrow.Table) else pyarrow.table(X)
    # Lists become objects: NumPy would turn the numbers beside a word into text.
    is_array = has_type or hasattr(X, "__array__")
    with domain("X"):
        X = np.asarray(X, dtype=None if is_array else object)
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: pass real and imaginary parts.")
    if X.dtype.kind == "V":
        raise ValueError("X must be a two-dimensional table, not a structured array.")
    return X


def _columns_of(X) -> list:
    """Columns as pandas or polars series, Arrow arrays, or NumPy arrays."""
    if hasattr(X, "iloc"):
        columns = (X.iloc[:, position] for position in range(X.shape[1]))
        return [c.to_numpy() if _is_plain(c) else c for c in columns]
    if hasattr(X, "get_columns"):
        return list(X.get_columns())
    return list(X.T if isinstance(X, np.ndarray) else X.columns)


def _is_plain(column) -> bool:
    """Whether a column of pandas holds numbers of NumPy, which are cut faster."""
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"


def _cells_of(column) -> Cells:
    """Read the cells of a column."""
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if hasattr(column, "cat") and hasattr(column, "iloc") and categories is not None:
        listed = _cells_of_objects([None, *objects_of(categories)])
        return _Coded(listed, np.asarray(column.cat.codes) + 1)
    if isinstance(column, _Text):
        return _Coded(*column.coded)
    if is_text_column(column):
        return _Coded(*_Text(column).coded)
    numbers = _as_numbers(column)
    if numbers is not None:
        return _cells_of_numbers(numbers)
    return _cells_of_objects(objects_of(column))


def _cells_of_numbers(numbers) -> Cells:
    numbers = numbers + 0.0
    missing = np.isnan(numbers)
    return Cells(np.where(missing, np.int8(MISSING), np.int8(NUMBER)), numbers)


def _as_numbers(column) -> NDArray[np.float64] | None:
    """Return a column of a numeric type as floats, None for another type."""
    if hasattr(column, "iloc"):
        if column.dtype.kind in "biuf":
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        return None
    if isinstance(column, np.ndarray):
        return column.astype(np.float64) if column.dtype.kind in "biuf" else None
    if type(column).__module__.startswith("polars"):
        if column.dtype.is_numeric() and "Decimal" not in str(column.dtype):
            import polars

            return column.cast(polars.Float64).to_numpy()  # NumPy has no Int128
        return None
    import pyarrow

    kind = column.type
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        return column.to_numpy(zero_copy_only=False).astype(np.float64)
    return None


def _cells_of_objects(objects) -> Cells:
    kinds = {*map(type, objects)} - {type(None)}
    if kinds and kinds <= {float, int}:
        with suppress(OverflowError):  # each on its own is then infinite
            return _cells_of_numbers(np.array(objects, dtype=np.float64))  # in one go
    read_text = cache(_read_text)
    with hushed():
        cells = [read_text(c) if type(c) is str else _read(c) for c in objects]
    kinds = np.array([kind for kind, _, _ in cells], dtype=np.int8)
    values = np.array([value for _, value, _ in cells], dtype=np.float64)
    return Cells(kinds, values, [text for _, _, text in cells])
