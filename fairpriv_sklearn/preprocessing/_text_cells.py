"""What the text of a cell says: a number, a date, or nothing.

Every function is a rule for one cell. What a whole column must agree on (which mark is
the decimal one, whether days come first) is an argument.
"""

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache

import numpy as np

from .._shared.arguments import checked, flag_or_none, having, one_of
from .._shared.arrays import objects_of

MISSING = {
    *("", "?", "-", "--", ".", "na", "n/a", "#n/a", "nan", "-nan", "null", "nil"),
    *("none", "<na>", "nat", "missing", "(missing)", "#null!", "#div/0!", "#value!"),
    *("#ref!", "#name?", "#num!", "1.#qnan", "\\n"),
}

LARGEST = 1e300  # numbers beyond count as no numbers: their ranges would overflow
OTHER_MARK = {".": ",", ",": "."}

_CURRENCIES = (
    r"US\$|A\$|C\$|R\$|[$€£¥₹₽₩₪₺₫฿]|"
    r"(?:USD|EUR|GBP|CHF|JPY|CNY|CAD|AUD|INR|SEK|NOK|DKK|PLN|CZK|BRL|zł|kr\.?|Fr\.|Rs\.?)"
)
_MONEY = re.compile(rf"(?:{_CURRENCIES})", re.IGNORECASE)
_SPACES = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u2002\u2003\ufeff"), " ")
_SIGNS = dict.fromkeys(map(ord, "\u2212\u2012\u2013\ufe63\uff0d"), "-")
_POWERS = {"%": -2, "k": 3, "K": 3, "M": 6}  # of ten

_EXPONENT = r"(?:[eE][+-]?\d{1,3})?"
_PLAIN = re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}")


def _grouped(thousands: str, decimal: str) -> re.Pattern:
    """Numbers in groups of three (or, in India, of two) digits."""
    t, d = thousands, re.escape(decimal)
    three = rf"\d{{1,3}}(?P<mark>{t})\d{{3}}(?:(?P=mark)\d{{3}})*"
    indian = r"\d{1,2}(?:,\d{2})+,\d{3}" if decimal == "." else r"(?!)"
    return re.compile(rf"[+-]?(?:{three}|{indian})(?:{d}\d*)?")


_GROUPED = {".": _grouped(r"[,'’_ ]", "."), ",": _grouped(r"[.'’_ ]", ",")}


def is_missing(value) -> bool:
    """Whether a cell says that there is no value."""
    if value is None:
        return True
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return isinstance(value, float) and math.isnan(value)


def number(text: str, decimal: str = ".") -> float | None:
    """The number that a text writes, or None.

    ``$24,000``, ``1.234,50 €``, ``(300)`` for -300, ``12.5%`` for 0.125 and ``24k``
    are numbers.
    """
    text = text.translate({**_SPACES, **_SIGNS}).strip()
    if _PLAIN.fullmatch(text) and (decimal == "." or "." not in text):
        return float(text)
    sign = 1.0
    if text.startswith("(") and text.endswith(")"):
        text, sign = text[1:-1].strip(), -1.0
    text, power = _without_marks(text)
    if len(text) > 1 and text.endswith("-"):
        text, sign = text[:-1].strip(), -sign
    if text[:1] in "+-" and text[1:2] == " ":
        text = text[0] + text[1:].strip()
    match = _GROUPED[decimal].fullmatch(text)
    if match:
        text = re.sub(r"[^\d+\-" + re.escape(decimal) + "]", "", text)
    if decimal == ",":
        if "." in text:
            return None
        text = text.replace(",", ".")
    if not _PLAIN.fullmatch(text):
        return None
    # Rounded once: as floats, 12.3 times .01 is not 0.123, which has three decimals.
    digits, _, exponent = text.lower().partition("e")
    return sign * float(f"{digits}e{int(exponent or 0) + power}")


def _without_marks(text: str) -> tuple[str, int]:
    """The text without one currency and one factor, and its power of ten."""
    power = 0
    stripped = _MONEY.sub("", text, count=1).strip()
    if stripped != text:
        sign = text[0] if text[:1] in "+-" and stripped[:1] not in "+-" else ""
        text = sign + stripped
    if (
        len(text) > 1
        and text[-1] in _POWERS
        and (text[-2].isdigit() or text[-2] in " .")
    ):
        power = _POWERS[text[-1]]
        text = text[:-1].strip()
    return text, power


def cell_number(value, decimal: str = ".") -> float | None:
    """The number in a cell of any type, or None."""
    if isinstance(value, bool | int | float | Decimal):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return number(value, decimal) if isinstance(value, str) else None


def finite_number(value, decimal: str) -> float | None:
    """The number in a cell, if one can reckon with it."""
    found = cell_number(value, decimal)
    return None if found is None or not abs(found) <= LARGEST else found


def any_number(value, decimal: str) -> float | None:
    """By this mark, or else by the other one."""
    found = finite_number(value, decimal)
    return finite_number(value, OTHER_MARK[decimal]) if found is None else found


# ------------------------------------------------------------------------------- dates
_NUMERIC_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?:[T ,]+(.+))?")
_NAMED_DATES = (
    *("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y"),
    *("%b %d %Y", "%B %d %Y", "%d. %B %Y", "%d/%b/%Y"),
)
# What all of these look like, whatever months are called: to try each of them on every
# name or address takes most of the time.
_LIKE_NAMED = re.compile(
    r"\d{1,2}(?:\.?\s|[-/]).*(?:\s|[-/])\d{2}(?:\d{2})?|.*\s\d{1,2},?\s+\d{4}",
    re.DOTALL,
)


def day(text: str, day_first: bool = False) -> datetime | None:
    """The date that a text writes, or None; ``3.4.2020`` has the day first."""
    text = text.translate(_SPACES).strip()
    if not 6 <= len(text) <= 40 or not any(c.isdigit() for c in text):
        return None
    match = _NUMERIC_DATE.fullmatch(text)
    try:
        if match:
            return _numeric_date(match, day_first)
    except ValueError:
        return None
    return _in_form(text, _NAMED_DATES) if _LIKE_NAMED.fullmatch(text) else None


def _in_form(text: str, forms) -> datetime | None:
    """What the text says in the first of the forms that it has."""
    for form in forms:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return None


def _numeric_date(match, day_first) -> datetime | None:
    first, mark, second, third, time = match.groups()
    if len(first) == 4:
        year, month, of_month = int(first), int(second), int(third)
    elif len(third) in (2, 4):
        of_month, month = int(first), int(second)
        if mark != "." and not day_first:
            of_month, month = month, of_month
        year = int(third)
        if len(third) == 2:
            year += 2000 if year < 69 else 1900
    else:
        return None
    when = datetime(year, month, of_month)
    if time is None:
        return when
    clock = _clock(time.strip())
    if clock is None:
        return None
    return plain_date(datetime.combine(when.date(), clock.time(), clock.tzinfo))


def _clock(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat("2000-01-01T" + text.replace(" ", ""))
    except ValueError:
        return _in_form(text, ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p"))


def plain_date(value) -> datetime | None:
    """A date or time of any kind without a time zone, in UTC."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            try:
                value = value.astimezone(UTC)
            except OverflowError:
                return None
        return datetime(*value.timetuple()[:6], value.microsecond)
    return datetime(value.year, value.month, value.day)


def cell_day(value, day_first: bool = False) -> datetime | None:
    """The date in a cell of any type, or None."""
    if isinstance(value, date):  # and so a datetime
        return plain_date(value) if value == value else None
    return day(value, day_first) if isinstance(value, str) else None


# ------------------------------------------------------------------------- whole tables
def cell_value(value, decimal: str, day_first: bool | None) -> float | datetime | None:
    """The number or the date in a cell; None if it holds neither.

    Where nobody says whether days come first, they do wherever that is a date.
    """
    found = any_number(value, decimal)
    if found is not None:
        return found
    orders = (True, False) if day_first is None else (day_first,)
    return next(filter(None, (cell_day(value, order) for order in orders)), None)


@checked(
    X=having(
        "a data frame of pandas, as to_pandas() of others makes one", "iloc", "columns"
    ),
    decimal=one_of(*OTHER_MARK),
    day_first=flag_or_none,
)
def parse_cells(X, *, decimal=".", day_first=None):
    """Read numbers and dates that a data frame holds as text, as people write them.

    ``$1,200`` becomes 1200.0, ``12 %`` 0.12, ``(300)`` -300.0, ``24k`` 24000.0 and
    ``31.12.2021`` a date; ``N/A``, ``?``, ``-`` and the like become None. Other text,
    and cells that are no text, stay as they are. Each cell is read by itself and by
    public arguments: what is fitted to the result keeps its guarantee, whatever stands
    in other rows, and new rows are read alike.

    Parameters
    ----------
    X : DataFrame of shape (n_samples, n_features)
        Of pandas.
    decimal : {".", ","}, default="."
        Decimal mark. Text that is a number with the other mark only is read by that.
    day_first : bool, default=None
        Whether 3/4/2020 is in April. None: yes, and 3/14/2020 is in March.

    Returns
    -------
    X : DataFrame of shape (n_samples, n_features)
        With objects for cells.

    See Also
    --------
    DPTableEncoder : Learns from such a frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairpriv_sklearn.preprocessing import parse_cells
    >>> parse_cells(pd.DataFrame({"pay": ["$1,200", "?"], "rise": ["12 %", "low"]}))
          pay  rise
    0  1200.0  0.12
    1    None   low
    """

    @cache
    def read(text):
        if is_missing(text):
            return None
        found = cell_value(text, decimal, day_first)
        return text if found is None else found

    cells = np.empty(X.shape, dtype=object)
    for at in range(X.shape[1]):
        column = objects_of(X.iloc[:, at])
        cells[:, at] = [read(c) if isinstance(c, str) else c for c in column]
    return type(X)(cells, index=X.index, columns=X.columns, dtype=object)


# As a step of a pipeline: what comes of a row depends on no other one.
parse_cells.__fairpriv_row_pure__ = True
