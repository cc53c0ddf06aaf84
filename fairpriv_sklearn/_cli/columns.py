"""From cells to columns: numbers, categories and dates, by the codebook or by a look.

What a codebook declares is read by a fixed rule for each cell; what is not declared is
found out from the cells, and is then a fact read from the data. The types of a typed
file declare nothing: who writes it takes them from the cells, and one text makes a text
of a whole column.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from ..inspection import printable
from ..preprocessing import (
    OTHER_MARK,
    Column,
    InputError,
    Raw,
    any_number,
    category_key,
    cell_day,
    cell_value,
    finite_number,
    is_missing,
    read_table,
    some,
)

LARGE = 5_000_000  # bytes of a file that takes seconds to read
MOST_CATEGORIES = 64  # of a text column that the plain model looks at
ENOUGH = 0.9  # share of the filled cells that make a column one of numbers or of dates
TOLD_EACH = 4  # columns with cells of another kind that are told of one by one
_KINDS = {"number": "a number", "date": "a date"}
FEW_OUTSIDE = 0.001  # share of the cells that a public range or list may not hold
_PERSON = (
    "person|people|subject|patient|participant|respondent|resp|individual|user|"
    "customer|client|member|employee|student|applicant|borrower|citizen|donor|voter"
)
# Of these, and of what mostly one person has, a number may be how many there are.
_HOLDER = (
    "host|guest|owner|tenant|driver|passenger|rider|player|pupil|worker|candidate|"
    "defendant|offender|inmate|household|policy ?holder|cust|emp|"
    "loan|invoice|order|policy|claim|contract|booking|application|transaction|"
    "arrest|incident|visit|encounter|admission|citation|ticket|complaint|crash|accident"
)
# Names of columns that tell one person from another, as whole words
_IDENTIFIER = re.compile(
    rf"(the )?(({_PERSON}) ?)?(id|ids|uid|uuid|guid|ident|identifier)"
    rf"|({_PERSON}|id) ?(no|nr|num|number|code|key|name|e?mail)|unnamed 0"
    r"|(personal|personnel|staff|case|record|row|account|file) ?"
    r"(ids?|no|nr|num|number)|row ?(names?|index)"
    r"|(p|pt|pat|u?subj|hh|rec|per|pers|indiv) ?id ?(no|nr|num|number)?"
    r"|serial ?(no|nr|num|number)|s ?no|seqn|mrn|medical record ?(id|no|number)"
    r"|user|username|login|patient|participant|respondent"
    rf"|({_HOLDER}) ?(ids?|uid)"
    r"|(full|short|first|last|given|family|sur|fore|maiden) ?name|names?"
    r"|e ?mail( address)?|(tele|mobile |cell )?phone( no| nr| number)?"
    r"|ssn|soc(ial)? ?sec(urity)?( id| no| number)?|passport( no| number)?|iban"
    r"|nhs number"
)
_CODE = re.compile(r"0\d+")  # 01234: a code, not a number
_DIGITS = re.compile(r"\d+")
# 1,0: one with a decimal comma. Three zeros may be thousands.
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*)),(?:0{1,2}|0{4,})")


def tells_persons_apart(name: str) -> bool:
    """Whether a column is an identifier, by its name alone, which is public.

    >>> [tells_persons_apart(n) for n in ("patient_id", "subject#", "UserName", "paid")]
    [True, True, True, False]
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.replace("#", " no "))
    words = re.sub(r"[\W_]+", " ", words).strip().lower()
    return _IDENTIFIER.fullmatch(words) is not None


def persons_note(names) -> list[str]:
    """What is to be said of columns that tell persons apart, if there are any."""
    apart = [name for name in names if tells_persons_apart(name)]
    if not apart:
        return []
    several, names = len(apart) > 1, ", ".join(map(repr, apart))
    who = "By their names, the columns" if several else "By its name, the column"
    verb, them = ("tell", "them") if several else ("tells", "it")
    return [
        f"{who} {names} {verb} persons apart: leave {them} out by "
        "--drop. Epsilon is for one row: who has k of them is protected k times less, "
        "so keep few rows of each person."
    ]


# Numbers by which surveys say that there is no answer; others may stand beside them.
_CODES = {-float(str(digit) * times) for digit in (7, 8, 9) for times in (1, 2, 3, 4)}
_BESIDE, _MOST_CODES, _MOST_NAMED = {-6.0, -5.0, -4.0, -3.0, -2.0, -1.0}, 5, 5


def codes_note(columns: dict[str, np.ndarray]) -> list[str]:
    """What is to be said of numbers that look like missing answers, if there are any.

    >>> columns = {"hours": [38.0, -9.0, 0.0, np.nan], "balance": [38.0, -9.0, -12.5]}
    >>> print(*codes_note({name: np.array(x) for name, x in columns.items()}))
    The only numbers below zero look like codes of no answer: 'hours' has -9. They \
count as numbers unless a codebook says otherwise: {"hours": {"missing_values": [-9]}}.
    """
    found = {name: codes for name, x in columns.items() if (codes := _codes_of(x))}
    if not found:
        return []
    shown = [f"{name!r} has {str(codes)[1:-1]}" for name, codes in found.items()]
    more = f" and {len(shown) - _MOST_NAMED} more columns" * (len(shown) > _MOST_NAMED)
    name, codes = next(iter(found.items()))
    said = json.dumps({name: {"missing_values": codes}}, ensure_ascii=False)
    return [
        "The only numbers below zero look like codes of no answer: "
        f"{', '.join(shown[:_MOST_NAMED])}{more}. They count as numbers unless a "
        f"codebook says otherwise: {said}."
    ]


def _codes_of(values) -> list[int]:
    """Codes of no answer, if nothing else is below zero and something is not."""
    codes = set(values[values < 0].tolist())
    known = codes & _CODES and codes <= _CODES | _BESIDE and len(codes) <= _MOST_CODES
    return sorted(map(int, codes)) if known and np.any(values >= 0) else []


@dataclass
class Parsed:
    """One column: float64 with NaN (dates: days since 1970), or object with None."""

    name: str
    column: Column
    values: np.ndarray
    declared: bool
    n_odd: int = 0  # filled cells that are not of the kind and count as missing
    cells: np.ndarray | None = None  # not declared: what each cell is, by itself
    day_first: bool | None = None  # the order that dates were read in, None: by cell
    n_month_first: int = 0  # cells read so beside others that were not, nobody said how
    decimal: str | None = None  # mark of its numbers, unless the file's form tells it

    def take(self, rows) -> Parsed:
        """Some of the rows."""
        cells = None if self.cells is None else self.cells[rows]
        return replace(self, values=self.values[rows], cells=cells)

    @property
    def is_number(self) -> bool:
        return self.column.kind in ("number", "date")

    @property
    def gaps(self) -> np.ndarray:
        if self.is_number:
            return np.isnan(self.values)
        return np.array([value is None for value in self.values], dtype=bool)


@dataclass(frozen=True)
class Writing:
    """How numbers and dates are written; None: to be found out.

    Parameters
    ----------
    decimal : {".", ","} or None
    day_first : bool or None
    separator : str or None
        Of the file. In a file parted by commas the decimal mark is the point.
    orders : dict of str to bool
        Whether days come first in a column where the cells do not tell: as in those
        that a model learnt from.
    learnt_decimal : str or None
        Decimal mark where the cells do not tell: as of those that a model learnt from.
    """

    decimal: str | None = None
    day_first: bool | None = None
    separator: str | None = None
    orders: dict[str, bool] = field(default_factory=dict)
    learnt_decimal: str | None = None

    @classmethod
    def of(cls, args, raw: Raw) -> Writing:
        """As the command line says."""
        order = args.dates and args.dates == "day-first"
        return cls(args.decimal, order, raw.separator)

    @property
    def public_decimal(self) -> str | None:
        """The decimal mark, if the cells need not be looked at to know it."""
        return self.decimal or ("." if self.separator in (None, ",") else None)


def read_named(args, names=()) -> Raw:
    """The table that the command line names, with columns that it names and these."""
    with suppress(OSError, ValueError):  # what is wrong with the path is said below
        if os.path.getsize(args.data) > LARGE:
            said = f"Reading {printable(args.data, 400)} ..."
            print(said, file=sys.stderr, flush=True)
    given = [getattr(args, "target", None), *(getattr(args, "sensitive", None) or ())]
    return read_table(
        args.data,
        separator=args.separator,
        encoding=args.encoding,
        sheet=args.sheet,
        names=[*names, *filter(None, given)],
    )


def named_columns(raw: Raw) -> str:
    """The columns of a file, in words; of very many the first."""
    if len(raw.columns) == 1 and raw.separator is not None:
        return (
            f"all of a line is read as one column, {next(iter(raw.columns))!r}: name "
            "the character between columns by --separator; columns that are only lined "
            "up need one"
        )
    more = ", ..." if len(raw.columns) > 30 else ""
    return f"its columns are {', '.join(list(raw.columns)[:30])}{more}"


def parse_columns(
    raw: Raw, codebook, names, writing: Writing, sensitive=(), groups=()
) -> dict[str, Parsed]:
    """Parse the named columns of a table; odd cells are missing, if all are as well.

    A refusal of a column without any number would hang on its last filled cell.
    """
    labels = {label for group in groups for label in (group, *group.split(" / "))}
    mark = writing.decimal or _decimal_mark(raw, codebook, writing.learnt_decimal)
    columns = {}
    for name in names:
        column = codebook[name] if name in codebook else Column()
        named = labels if name in sensitive else ()
        columns[name] = _parse(name, raw.columns[name], column, writing, mark, named)
        # Where no number is read the mark is no condition, and must not be told.
        if column.kind in (None, "number"):
            columns[name].decimal = writing.decimal if writing.public_decimal else mark
    return columns


def looked_up(parsed: dict[str, Parsed], writing: Writing) -> list[str]:
    """What had to be found out to read the columns whose kind is declared."""
    kinds = {p.column.kind for p in parsed.values() if p.declared}
    facts = []
    undeclared = any(not p.declared for p in parsed.values())
    if (undeclared or "number" in kinds) and writing.public_decimal is None:
        facts.append("the decimal mark (--decimal)")
    # In a typed file as well: whether its dates are texts hangs on one cell.
    if "date" in kinds and writing.day_first is None:
        facts.append("the order of day and month (--dates)")
    return facts


def _parse(name, cells, column: Column, writing: Writing, mark, labels=()) -> Parsed:
    gaps = {label_key(cell) for cell in column.missing_values}
    listed = {*map(category_key, column.categories or ()), *labels}

    def is_gap(cell):
        if is_missing(cell):  # unless a list has "none" or "-" among what it names
            return not (isinstance(cell, str) and label_key(cell) in listed)
        return bool(gaps) and label_key(cell) in gaps

    cells = [None if is_gap(cell) else cell for cell in cells]
    if column.kind == "left out":
        return Parsed(name, column, np.full(len(cells), None, dtype=object), True)
    if column.kind is None:
        return _looked_at(name, cells, column, writing, mark)
    if column.kind in ("category", "flag"):
        return _category(name, cells, column)
    order = None
    if column.kind == "date":
        order = _order(name, cells, writing)
        values = _converted(cells, _to_day, order)
    else:
        values = _converted(cells, any_number, writing.public_decimal or mark)
    if column.integer:
        values = np.round(values)
    n_odd = _n_odd(cells, values)
    return Parsed(name, column, values, True, n_odd, day_first=order)


def label_key(value) -> str:
    """Text by which categories are compared: 1,0 and 1.0 are 1."""
    key = category_key(value)
    whole = _WHOLE.fullmatch(key)
    return whole[1] if whole else key


def _keys(cells) -> np.ndarray:
    return np.fromiter(
        (None if c is None else label_key(c) for c in cells), dtype=object
    )


def _category(name, cells, column: Column) -> Parsed:
    """Categories as text; what is not on a public list is "other"."""
    values = _keys(cells)
    if any(_WHOLE.fullmatch(str(one)) for one in column.categories or ()):
        listed = tuple(dict.fromkeys(map(label_key, column.categories)))
        column = replace(column, categories=listed)
    # A saved model lists the words, and a template the values of a typed file. Compared
    # as text: False and True equal 0 and 1, which whoever lists them wants back.
    usual = map(repr, (None, _NO_YES, (False, True)))
    if column.kind == "flag" and repr(column.categories) in usual:
        values, column = _flag(values, column)
    if column.categories is None:
        return Parsed(name, column, values, True)
    listed = {category_key(c) for c in column.categories}
    outside = np.array([v is not None and v not in listed for v in values], dtype=bool)
    if outside.any() and not column.other:
        raise InputError(
            f"The column {name!r} holds a value that is not in its list in the "
            'codebook, which says "other": false; add it there.'
        )
    n_odd = 0
    if column.kind == "flag":
        values[outside], n_odd = None, int(outside.sum())
    return Parsed(name, column, values, True, n_odd)


_NO_YES = ("no", "yes")
_FALSE = {"false", "no", "n", "f", "0", "off", "nein", "non"}
_TRUE = {"true", "yes", "y", "t", "1", "on", "ja", "oui"}


def _flag(values, column: Column) -> tuple[np.ndarray, Column]:
    """A flag without a list: the usual words for no and yes."""
    words = {**dict.fromkeys(_FALSE, "no"), **dict.fromkeys(_TRUE, "yes")}
    changed = [None if v is None else words.get(v.lower(), v) for v in values]
    return np.fromiter(changed, dtype=object), replace(column, categories=_NO_YES)


def _looked_at(name, cells, column: Column, writing: Writing, mark) -> Parsed:
    """Find out the kind from the cells: a fact read from the data."""
    filled = [c for c in cells if c is not None]
    order = writing.day_first
    order = writing.orders.get(name) if order is None else order
    each = _each(cells, writing.public_decimal or mark, order)
    if not filled:
        left_out = replace(column, kind="left out", role="feature")
        return Parsed(name, left_out, np.full(len(cells), None, dtype=object), False)
    distinct = list(dict.fromkeys(filled))
    if not _are_codes(distinct) and not all(isinstance(c, bool) for c in distinct):
        for kind, convert, style in _readings(name, distinct, writing, mark):
            values = _converted(cells, convert, style)
            n_odd = _n_odd(cells, values)
            if len(filled) - n_odd >= ENOUGH * len(filled):
                whole = bool(np.all(np.nan_to_num(values) % 1 == 0))
                column = replace(column, kind=kind, integer=whole and kind == "number")
                found = Parsed(name, column, values, False, n_odd, each, order)
                if kind == "date" and order is None:
                    found.n_month_first = _n_month_first(filled)
                return found
    kept = replace(column, kind="category")
    return Parsed(name, kept, _keys(cells), False, 0, each, order)


def _readings(name, distinct, writing: Writing, mark):
    """What cells may be, one after the other: the look for dates is slow."""
    for style in (writing.decimal,) if writing.decimal else (mark, OTHER_MARK[mark]):
        yield "number", finite_number, style
    yield "date", _to_day, _order(name, distinct, writing)


def _each(cells, mark, order) -> np.ndarray:
    """A number, a date, a text or None: by a rule for each cell."""

    @lru_cache(maxsize=None, typed=True)
    def read(cell):
        if cell is None:
            return cell
        value = cell_value(cell, mark, order)
        return category_key(cell) if value is None else value

    return np.fromiter(map(read, cells), dtype=object)


def _are_codes(cells) -> bool:
    """01234 beside 98765: codes of one length, such as postcodes, and no numbers."""
    return (
        all(isinstance(c, str) and _DIGITS.fullmatch(c) for c in cells)
        and len({len(c) for c in cells}) == 1
        and any(_CODE.fullmatch(c) for c in cells)
    )


def _order(name, cells, writing: Writing) -> bool:
    """Whether days come first: 13/04/2020 in one cell tells it for all.

    If nothing tells, as a model learnt it, or as usual with such a separator.
    """
    if writing.day_first is not None:
        return writing.day_first
    texts = {c for c in cells if isinstance(c, str)}
    month_first, day_first = (
        sum(_to_day(t, order) is not None for t in texts) for order in (False, True)
    )
    if month_first == day_first:
        usual = writing.decimal == "," or writing.separator == ";"
        return writing.orders.get(name, usual)
    return day_first > month_first


def _n_month_first(cells) -> int:
    """How many are dates with the month first only."""

    @lru_cache(maxsize=None, typed=True)
    def is_one(cell):
        if not isinstance(cell, str) or _to_day(cell, True) is not None:
            return False
        return _to_day(cell, False) is not None

    return sum(map(is_one, cells))


def range_of(values) -> tuple[float, float]:
    """The range of some numbers; that of one number has a length as well."""
    low, high = float(values.min()), float(values.max())
    return low, high if high > low else low + max(1.0, abs(low))


def _to_day(cell, day_first) -> float | None:
    when = cell_day(cell, day_first)
    if when is None:
        return None
    return float(np.datetime64(when, "us").astype(np.int64) / 86_400e6)


def _converted(cells, convert, style) -> np.ndarray:
    @lru_cache(maxsize=None, typed=True)
    def read(cell):
        value = None if cell is None else convert(cell, style)
        return math.nan if value is None else value

    return np.fromiter(map(read, cells), dtype=np.float64)


def odd_notes(parsed: Iterable[Parsed]) -> list[str]:
    """What is to be said of cells that are not of the kind of their column."""
    kinds: dict[str, list[Parsed]] = {}
    for p in parsed:
        if p.n_odd:
            kinds.setdefault(_KINDS.get(p.column.kind, "a listed value"), []).append(p)
    notes = []
    for kind, columns in kinds.items():
        if len(columns) <= TOLD_EACH:
            notes += [_odd_note(p.n_odd, p.name, kind) for p in columns]
            continue
        most = sorted(columns, key=lambda p: -p.n_odd)[:TOLD_EACH]
        total = sum(p.n_odd for p in columns)
        named = ", ".join(f"{p.n_odd:,} of {p.name}" for p in most)
        note = _odd_note(total, f"{len(columns)} columns", kind)
        notes.append(f"{note}: {named}, and no more of any other")
    return notes


def _odd_note(n_cells: int, where: str, kind: str) -> str:
    verb = "counts" if n_cells == 1 else "count"
    return f"{some(n_cells, 'cell')} of {where}, not {kind}, {verb} as missing"


def outside_note(p: Parsed) -> list[str]:
    """What is to be said of cells that a public range or list does not hold."""
    if p.column.bounds is not None:
        low, high = p.column.bounds
        outside = int(np.sum((p.values < low) | (p.values > high)))
        where = "outside the range of the codebook, count as the nearer end"
    elif p.column.categories is not None:
        listed = {None, *map(category_key, p.column.categories)}
        outside = sum(value not in listed for value in p.values)
        where = "not in the list of the codebook, count as other"
    else:
        return []
    if outside < FEW_OUTSIDE * len(p.values):
        return []
    return [f"{outside / len(p.values):.1%} of the cells of {p.name}, {where}"]


def unlike_note(p: Parsed, learnt: Column) -> list[str]:
    """What is to be said of a column that is not written as a model has learnt it."""
    filled = [] if p.cells is None else [cell for cell in p.cells if cell is not None]
    if learnt.kind != "category":
        unlike = sum(isinstance(cell, str) for cell in filled)
        where = "text where the model learnt numbers or dates, count as missing"
    elif learnt.categories:
        listed = {*map(category_key, learnt.categories)}
        unlike = sum(category_key(cell) not in listed for cell in filled)
        where = "not in the list that the model learnt, count as other"
    else:
        return []
    if 2 * unlike <= len(filled):
        return []
    return [f"{unlike / len(p.values):.1%} of the cells of {p.name}, {where}"]


def _n_odd(cells, values) -> int:
    return sum(c is not None for c in cells) - int(np.sum(~np.isnan(values)))


def _decimal_mark(raw: Raw, codebook, learnt) -> str:
    """The decimal mark of the columns that nobody declared.

    A column that makes sense with one mark only decides; with none, the mark that a
    model learnt; without a model, a comma in a file whose separator is a semicolon is
    the decimal mark.
    """
    only = {".": 0, ",": 0}
    ambiguous = 0
    for name, cells in raw.columns.items():
        if name in codebook and codebook[name].kind is not None:
            continue
        texts = {c for c in cells if isinstance(c, str) and not is_missing(c)}
        texts = [t for t in texts if "," in t or "." in t]
        if not texts:
            continue
        reads = {
            mark: sum(finite_number(t, mark) is not None for t in texts)
            >= ENOUGH * len(texts)
            for mark in only
        }
        if reads["."] != reads[","]:
            only["." if reads["."] else ","] += 1
        ambiguous += reads["."] and any("," in t for t in texts)
    if bool(only["."]) != bool(only[","]):
        return "," if only[","] else "."
    if learnt:
        return learnt
    return "," if raw.separator == ";" and ambiguous and not only["."] else "."
