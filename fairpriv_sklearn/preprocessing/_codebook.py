"""The codebook: the one public description of the columns of a table."""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from pathlib import Path
from types import MappingProxyType

from .._shared.arguments import listed
from .._shared.arguments import path as a_path

KINDS = ("number", "category", "flag", "date", "left out")
ROLES = ("feature", "group", "target")


@dataclass(frozen=True)
class Column:
    """What is public about one column.

    Everything here is declared by a person, never read from the data. What is left at
    None is not declared: it must be learnt at a cost, or makes a guarantee
    conditional.

    Parameters
    ----------
    kind : {"number", "category", "flag", "date", "left out"} or None, default=None
        What the cells are. A flag has two values. A column left out is not used.
        None: not declared.
    range : tuple of two floats, or of two ISO dates, or None, default=None
        Lowest and highest value of a number or date; values outside count as the
        nearer end.
    categories : tuple or None, default=None
        Categories of a category, or the values (false, true) of a flag: strings,
        numbers or booleans.
    integer : bool, default=False
        Whether a number is whole.
    missing : bool, default=True
        Whether cells may be missing. False: in the table of a `fit` a missing cell, or
        one that is not of the kind, is an error.
    missing_values : tuple of str, default=()
        Cells that mean missing, beside the empty ones.
    other : bool, default=True
        Whether a category outside the list counts as "other"; False: it is an error.
    role : {"feature", "group", "target"}, default="feature"
        What the column is for.

    Examples
    --------
    >>> from fairpriv_sklearn.preprocessing import Column
    >>> Column("number", range=(17, 90), integer=True).bounds
    (17.0, 90.0)
    """

    kind: str | None = None
    range: tuple | None = None
    categories: tuple | None = None
    integer: bool = False
    missing: bool = True
    missing_values: tuple = ()
    other: bool = True
    role: str = "feature"

    def __post_init__(self):
        set_field = object.__setattr__  # the dataclass is frozen
        _check_word("kind", self.kind, (None, *KINDS))
        _check_word("role", self.role, ROLES)
        for name in ("integer", "missing", "other"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false.")
        set_field(self, "missing_values", _missing_values(self.missing_values))
        if self.missing_values and not self.missing:
            raise ValueError(
                "missing_values names cells that are missing; missing=False forbids "
                "them."
            )
        if self.range is not None:
            if self.kind not in ("number", "date"):
                raise ValueError('range belongs to the kinds "number" and "date".')
            check = _date_range if self.kind == "date" else _number_range
            set_field(self, "range", check(self.range))
        if self.categories is not None:
            if self.kind not in ("category", "flag"):
                raise ValueError('categories belong to a "category" or "flag".')
            categories, has_missing = _categories(self.categories)
            set_field(self, "categories", categories)
            if has_missing and not self.missing:
                raise ValueError(
                    "categories list null, which stands for a missing value; "
                    "missing=False forbids it."
                )
            if self.kind == "flag" and len(categories) != 2:
                raise ValueError(
                    "a flag has two categories, the false and the true one; got "
                    f"{len(categories)}."
                )
        if self.integer and self.kind != "number":
            raise ValueError('integer belongs to the kind "number".')
        if self.integer and self.range and any(v % 1 for v in self.range):
            raise ValueError("the range of whole numbers must be whole.")
        if not self.other and self.kind != "category":
            raise ValueError('other=False belongs to the kind "category".')
        if self.kind == "left out" and self.role != "feature":
            raise ValueError(f"a column left out cannot be a {self.role}.")

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Range as two numbers, days since 1970 for a date; None if not declared."""
        if self.range is None:
            return None
        if self.kind == "date":
            low, high = map(date.fromisoformat, self.range)
            return (float(_days(low)), float(_days(high)))
        low, high = self.range
        return (float(low), float(high))

    def to_dict(self) -> dict:
        """Return what is declared, and what is still to be filled in, as plain data.

        Returns
        -------
        column : dict
            Plain data, as JSON holds them.
        """
        asked = {"number": "range", "date": "range", "category": "categories"}
        shown = {"kind", asked.get(self.kind)}
        out = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default or field.name in shown:
                out[field.name] = list(value) if isinstance(value, tuple) else value
        return out


def declared_of(columns) -> dict[str, dict]:
    """What is declared of columns, pairs of name and Column; nothing is asked for."""
    return {
        name: {what: said for what, said in one.to_dict().items() if said is not None}
        for name, one in columns
        if one != Column()
    }


@dataclass(frozen=True, repr=False)
class Codebook:
    """The public description of a table's columns.

    A codebook says of each column what may be known without looking at the data: its
    kind, its range or categories, whether values may be missing, and what it is for.
    It is an immutable value: two codebooks that say the same are equal.

    .. rubric:: Privacy

    Everything in a codebook is taken as public. Write it from the questionnaire or
    the documentation of the source, never from the data.

    Parameters
    ----------
    entries : tuple of (str, Column)
        The columns in order; :meth:`from_dict` and :meth:`from_json` are the
        convenient ways to make one.

    Examples
    --------
    >>> from fairpriv_sklearn.preprocessing import Codebook
    >>> codebook = Codebook.from_dict(
    ...     {
    ...         "age": [17, 90],
    ...         "smoker": ["no", "yes", None],
    ...         "income": {"kind": "number", "range": [0, 200_000], "role": "target"},
    ...     }
    ... )
    >>> codebook["age"].kind, codebook["smoker"].categories, codebook.target
    ('number', ('no', 'yes'), 'income')
    """

    entries: tuple = ()

    def __post_init__(self):
        entries = tuple(listed("entries", self.entries))
        for entry in entries:
            match entry:
                case tuple((str(), Column())):
                    continue
            raise TypeError(
                "entries must be pairs of a name and a Column; Codebook.from_dict "
                "reads plain data."
            )
        names = [name for name, _ in entries]
        if not all(names):
            raise ValueError("the codebook has a column without a name.")
        if len(set(names)) < len(names):
            raise ValueError("the codebook names a column twice.")
        targets = [name for name, column in entries if column.role == "target"]
        if len(targets) > 1:
            raise ValueError(
                f"the codebook names {len(targets)} targets, {targets[0]!r} and "
                f"{targets[1]!r} among them; keep one."
            )
        object.__setattr__(self, "entries", entries)

    # -- reading ----------------------------------------------------------------------
    @classmethod
    def from_dict(cls, columns) -> Codebook:
        """Read a codebook from plain data, and check it.

        Parameters
        ----------
        columns : mapping of str to list, dict, str or Column
            One entry per column. A list of two numbers is a range, a list of strings
            (None among them for a missing value) the categories, the string
            "left out" leaves the column out, None declares nothing. A dict has the
            parameters of :class:`Column`.

        Returns
        -------
        codebook : Codebook
        """
        if isinstance(columns, Codebook):
            return columns
        if not isinstance(columns, Mapping):
            raise ValueError(
                "a codebook maps the names of columns to what is public about them, "
                f'as in {{"age": [17, 90]}}; got {_kind_of(columns)}.'
            )
        entries = []
        for name, entry in columns.items():
            if not isinstance(name, str):
                raise ValueError(
                    f"names of columns in a codebook are strings, got {_shown(name)}."
                )
            try:
                entries.append((name, _column(entry)))
            except ValueError as error:
                raise ValueError(
                    f"the column {_shown(name)} of the codebook: {error}"
                ) from None
        return cls(tuple(entries))

    @classmethod
    def from_json(cls, source) -> Codebook:
        """Read a codebook from a JSON file, and check it.

        Parameters
        ----------
        source : str or path-like
            Path of the file, or the JSON text itself if it begins with ``{``.

        Returns
        -------
        codebook : Codebook
        """
        text, what = a_path("source", source), "the codebook"
        if not (isinstance(source, str) and source.lstrip().startswith("{")):
            what = f"the codebook {os.fspath(source)!r}"
            text = _read_text(source, what)
        try:
            plain = json.loads(
                text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant
            )
        except RecursionError:
            raise ValueError(f"{what} is nested too deeply.") from None
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{what} is not JSON: {error.msg} in line {error.lineno}."
            ) from None
        except ValueError as error:
            raise ValueError(f"{what} cannot be read: {str(error)[:80]}") from None
        return cls.from_dict(plain)

    @classmethod
    def template(cls, source, *, typed=None) -> Codebook:
        """Names and declared kinds of a table's columns, for a person to fill in.

        No cell is looked at. Kinds are taken from the types that the source declares:
        Arrow tables, Parquet and Arrow files. What a parser inferred from values, as
        pandas does when it reads a CSV file, is no declaration.

        Parameters
        ----------
        source : DataFrame, Arrow table, or path of a Parquet, Arrow or CSV file
            The table.
        typed : bool or None, default=None
            Whether the types of a data frame are declared (by a database, say) rather
            than inferred from its values. None: True for Arrow and Parquet only.

        Returns
        -------
        codebook : Codebook
            With no range, and no categories but the two of booleans; ``to_json``
            writes null where they belong.
        """
        from ._declared import declared_columns

        return cls(tuple(declared_columns(source, typed)))

    # -- writing ----------------------------------------------------------------------
    def to_dict(self) -> dict:
        """Return the codebook as plain data, which :meth:`from_dict` reads.

        Returns
        -------
        codebook : dict
            One entry per column.
        """
        return {name: column.to_dict() for name, column in self.entries}

    def to_json(self, path=None) -> str:
        """Return the codebook as JSON, and write it to a file if a path is given.

        Parameters
        ----------
        path : str or path-like or None, default=None
            File to write.

        Returns
        -------
        text : str
        """
        lines = [
            f"  {_json(name)}: {_json(column.to_dict())}"
            for name, column in self.entries
        ]
        text = "{\n" + ",\n".join(lines) + "\n}\n" if lines else "{}\n"
        if path is not None:
            a_path("path", path)
            Path(path).write_text(text, encoding="utf-8")
        return text

    # -- asking -----------------------------------------------------------------------
    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns by name, read only."""
        return MappingProxyType(dict(self.entries))

    @property
    def target(self) -> str | None:
        """Name of the target, or None."""
        return next((n for n, c in self.entries if c.role == "target"), None)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the columns that name the groups."""
        return tuple(n for n, c in self.entries if c.role == "group")

    def with_columns(self, **columns) -> Codebook:
        """Return a codebook in which some columns are replaced or added.

        Parameters
        ----------
        **columns : list, dict, str or Column
            New entries by name, as in :meth:`from_dict`.

        Returns
        -------
        codebook : Codebook
        """
        new = Codebook.from_dict(columns).columns
        return Codebook(tuple({**self.columns, **new}.items()))

    def __getitem__(self, name) -> Column:
        return self.columns[name]

    def __contains__(self, name) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self):
        return f"Codebook.from_dict({self.to_dict()!r})"


def category_key(value) -> str:
    """Text by which categories are compared: 1, 1.0, "1" and "1.0" are the same.

    So are both ways of writing an accent, as one character and as two.
    A column of whole numbers with a gap is often written with ".0" everywhere.

    Parameters
    ----------
    value : str, number or bool
        A category of a codebook, or a cell that is not missing.
    """
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    text = unicodedata.normalize("NFC", str(value)).strip()
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text


_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)\.0+")


# -------------------------------------------------------------------------- plain data
def _column(entry) -> Column:
    """One entry of a codebook, in any of its forms."""
    if isinstance(entry, Column):
        return entry
    if entry is None:
        return Column()
    if entry == "left out":
        return Column("left out")
    if isinstance(entry, list | tuple):
        return _from_list(list(entry))
    if not isinstance(entry, Mapping):
        raise ValueError(
            "it must be a range [low, high], a list of categories, a dict with its "
            f'kind, or "left out"; got {_kind_of(entry)}.'
        )
    known = [field.name for field in fields(Column)]
    unknown = [key for key in entry if key not in known]
    if unknown:
        raise ValueError(
            f"it has the unknown key {_shown(unknown[0])}; known are "
            f"{', '.join(known)}."
        )
    values = {key: value for key, value in entry.items() if value is not None}
    if "kind" not in values and "range" in values:
        values["kind"] = "number"
    if "kind" not in values and "categories" in values:
        values["kind"] = "category"
    return Column(**values)


def _from_list(entry: list) -> Column:
    """The short form: two numbers are a range, strings are categories."""
    listed = [value for value in entry if value is not None]
    if len(entry) == 2 and all(map(_is_number, entry)):
        return Column("number", range=tuple(entry))
    if len(entry) > 1 and listed and all(isinstance(v, str) for v in listed):
        return Column("category", categories=tuple(entry))
    if len(listed) == 2 and all(isinstance(value, bool) for value in listed):
        return Column("flag", categories=tuple(listed))
    raise ValueError(
        "a list must hold at least two values: two numbers, a range, or strings, the "
        "categories; for categories that are numbers write "
        '{"kind": "category", "categories": [1, 2]}.'
    )


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_range(value) -> tuple:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not (is_pair and all(map(_is_number, value))):
        raise ValueError(f"range must be two numbers [low, high], got {_shown(value)}.")
    try:
        low, high = map(float, value)
    except OverflowError:
        low = high = math.inf
    if not (abs(low) <= 1e300 and abs(high) <= 1e300):
        raise ValueError("the ends of range must be finite, and at most 1e300.")
    if not low < high:
        raise ValueError(
            f"range must be [low, high] with low < high, got [{low:g}, {high:g}]."
        )
    return tuple(value)


def _date_range(value) -> tuple:
    wanted = 'range of a date must be two ISO dates, as in ["2001-01-01", "2020-12-31"]'
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{wanted}, got {_shown(value)}.")
    try:
        low, high = map(date.fromisoformat, value)
    except (TypeError, ValueError):
        raise ValueError(f"{wanted}, got {_shown(value)}.") from None
    if not low < high:
        raise ValueError(f"range must be [low, high] with low < high, got {value}.")
    return (low.isoformat(), high.isoformat())


def _categories(value) -> tuple[tuple, bool]:
    """The categories without the missing marker, and whether it was there."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"categories must be a list, got {_kind_of(value)}.")
    listed = tuple(_plain(category) for category in value if category is not None)
    for category in listed:
        if not isinstance(category, str | bool | int | float):
            raise ValueError(
                "categories must be strings, numbers or booleans, got "
                f"{_kind_of(category)} among them."
            )
        if isinstance(category, float) and not math.isfinite(category):
            raise ValueError("categories must be finite; write null for missing.")
    if not listed:
        raise ValueError("categories must list at least one category.")
    keys = set()
    for category in listed:
        key = category_key(category)
        if key in keys:
            raise ValueError(f"categories list {_shown(category)} twice.")
        keys.add(key)
    return listed, len(listed) < len(value)


def _missing_values(value) -> tuple:
    if not isinstance(value, list | tuple):
        raise ValueError(
            'missing_values must be a list of cells, as in ["?", "n/a"], got '
            f"{_kind_of(value)}."
        )
    for cell in value:
        if not isinstance(cell, str) and not _is_number(cell):
            raise ValueError(
                f"missing_values must be strings or numbers, got {_kind_of(cell)}."
            )
    return tuple(category_key(cell) for cell in value)


def _check_word(name, value, allowed):
    if not isinstance(value, str | None) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed if word is not None)
        raise ValueError(f"{name} must be one of {words}; got {_shown(value)}.")


def _plain(value):
    """A NumPy scalar as its Python value."""
    return value.item() if hasattr(value, "item") else value


def _days(day: date) -> int:
    return (day - date(1970, 1, 1)).days


def whole_days(low: float, high: float) -> tuple[str, str]:
    """Ends of a range in days since 1970, as the range of a date, none of it left out.

    >>> from fairpriv_sklearn.preprocessing._codebook import whole_days
    >>> whole_days(365.0, 365.5)
    ('1971-01-01', '1971-01-02')
    """
    first, last = _days(date.min), _days(date.max)
    low = min(max(math.floor(low), first), last - 1)
    high = max(min(math.ceil(high), last), low + 1)
    days = (date.fromordinal(date(1970, 1, 1).toordinal() + day) for day in (low, high))
    return tuple(day.isoformat() for day in days)


# -------------------------------------------------------------------------------- JSON
def _read_text(path, what) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{what} is not UTF-8 text.") from None
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or "no such file"
        raise ValueError(f"{what} cannot be read: {told}.") from None


def _no_duplicates(pairs) -> dict:
    plain = dict(pairs)
    if len(plain) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it names {_shown(twice)} twice.")
    return plain


def _no_constant(name):
    raise ValueError(f"{name} is not a value of JSON; ranges must be finite.")


def _json(value) -> str:
    return json.dumps(value, ensure_ascii=False)


def _kind_of(value) -> str:
    """The kind of a plain value, in words."""
    words = {dict: "a mapping", list: "a list", tuple: "a list", str: "a string"}
    words |= {bool: "true or false", int: "a number", float: "a number"}
    return words.get(type(value), f"{type(value).__name__}")


def _shown(value) -> str:
    """A short text of a public value for a message, however long or deep it is."""
    if isinstance(value, list | tuple | dict | set):
        if any(isinstance(v, list | tuple | dict | set) for v in value):
            return _kind_of(value)
        value = list(value)[:6]
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def with_role(codebook: Codebook, role: str, name: str) -> Codebook:
    """The codebook with a role given to a column, added if it is not there.

    There is one target: a column that was it is a feature then.
    """
    columns = dict(codebook.columns)
    if role == "target" and codebook.target:
        columns[codebook.target] = replace(columns[codebook.target], role="feature")
    columns[name] = replace(columns.get(name, Column()), role=role)
    return Codebook(tuple(columns.items()))
