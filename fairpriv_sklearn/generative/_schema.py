"""Public description of a table's columns: level codes and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairpriv_sklearn._door.estimator import read_bounds
from fairpriv_sklearn._shared.arrays import is_text_column
from fairpriv_sklearn._shared.domain import domain
from fairpriv_sklearn._wall import warn_leak

MISSING = None


@dataclass(frozen=True)
class CategoricalColumn:
    """A column of public categories; a missing value is the category None."""

    categories: tuple

    ordered = False

    @property
    def n_levels(self) -> int:
        """Number of categories."""
        return len(self.categories)

    def encode(self, values, name) -> np.ndarray:
        """Level codes; a value outside the list is an error."""
        index = {category: code for code, category in enumerate(self.categories)}
        listed, places = values, None
        if is_text_column(values):
            places, texts = values.factorize()
            listed = [MISSING, *texts]
        codes = np.fromiter(
            (_position(v, index) for v in listed), np.int16, len(listed)
        )
        codes = codes if places is None else codes[places + 1]
        if (codes < 0).any():
            raise ValueError(
                f"column {name!r} contains a value that is not in its list in "
                "categories; add it to the public list (None for a missing value)."
            )
        return codes

    def decode(self, levels, public) -> np.ndarray:
        """Categories of the levels."""
        return np.fromiter(self.categories, dtype=object)[levels]


@dataclass(frozen=True)
class BinnedColumn:
    """A numeric column in public bins; values outside count for the outer bins."""

    edges: tuple[float, ...]

    ordered = True

    @property
    def n_levels(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def encode(self, values, name) -> np.ndarray:
        """Bin of every value: its left edge belongs to it."""
        with domain(f"column {name!r}"):
            values = np.asarray(np.asarray(values), dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError(
                f"column {name!r} contains NaN or infinity; give it a list in "
                "categories, or leave out its rows."
            )
        bins = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(bins, 0, self.n_levels - 1).astype(np.int16)

    def decode(self, levels, public) -> np.ndarray:
        """Uniform draws inside the bins."""
        edges = np.asarray(self.edges)
        return edges[levels] + np.diff(edges)[levels] * public.uniform(len(levels))


@dataclass(frozen=True)
class TableSchema:
    """Columns of a table in order, with their names.

    Parameters
    ----------
    names : tuple
        Column names, or positions for an array.
    columns : tuple of CategoricalColumn and BinnedColumn
    """

    names: tuple
    columns: tuple

    def encode(self, X) -> np.ndarray:
        """Level codes (n, A) of a table, every one a function of its record."""
        return np.column_stack(
            [
                column.encode(column_values(X, name, position), name)
                for position, (name, column) in enumerate(
                    zip(self.names, self.columns, strict=True)
                )
            ]
        )

    def decode(self, levels, public) -> list[np.ndarray]:
        """Values of every column."""
        return [
            column.decode(levels[:, position], public)
            for position, column in enumerate(self.columns)
        ]

    def categories(self) -> list:
        """Public list of every categorical column, None for the others."""
        return [None if c.ordered else c.categories for c in self.columns]

    def facts(self) -> dict:
        """The public lists, in plain types."""
        return {
            str(name): list(
                column.edges if column.ordered else map(str, column.categories)
            )
            for name, column in zip(self.names, self.columns, strict=True)
        }


def make_schema(X, categories, bounds, bins) -> tuple[TableSchema, bool]:
    """Build the schema; also whether ranges were read from the data."""
    names = column_names(X)
    refuse_unknown("categories", categories, names)
    edges = bins if isinstance(bins, Mapping) else {}
    n_bins = 16 if isinstance(bins, Mapping) else bins
    numeric = [name for name in names if name not in categories and name not in edges]
    ranges, leaked = _ranges(X, names, numeric, bounds)
    columns = []
    for name in names:
        if name in categories:
            listed = listed_values(categories[name], name)
            values = tuple(dict.fromkeys(map(_plain, listed)))
            columns.append(CategoricalColumn(values))
        elif name in edges:
            columns.append(BinnedColumn(check_edges(edges[name], name)))
        else:
            lower, upper = ranges[name]
            columns.append(
                BinnedColumn(tuple(np.linspace(lower, upper, n_bins + 1).tolist()))
            )
    return TableSchema(tuple(names), tuple(columns)), leaked


def refuse_unknown(argument: str, given, names) -> None:
    """Refuse names of columns that the table does not have."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"{argument} names columns that X does not have: {unknown}.")


def _ranges(X, names, numeric, bounds):
    if not numeric:
        return {}, False
    if bounds is None:
        warn_leak("bounds", "the range of every numeric column without bins")
        ranges = {}
        for name in numeric:
            values = column_values(X, name, names.index(name))
            with domain(f"column {name!r}"):
                values = np.asarray(values, dtype=np.float64)
            lower, upper = float(values.min()), float(values.max())
            ranges[name] = (lower, upper if upper > lower else lower + 1)
        return ranges, True
    ranges = given_ranges(bounds, numeric)
    missing = [name for name in numeric if name not in ranges]
    if missing:
        raise ValueError(f"bounds lists no pair for the columns {missing}.")
    return ranges, False


def given_ranges(bounds, names) -> dict:
    """Public ranges of columns of numbers; a mapping may leave some of them out."""
    if isinstance(bounds, Mapping):
        ends = {}
        for name in names:
            if name in bounds:
                pair = bounds[name]
                # one column: a list of two numbers cannot be misread
                pair = tuple(pair) if isinstance(pair, list) else pair
                low, high = read_bounds(pair, 1, name=f"bounds[{name!r}]")
                ends[name] = low[0], high[0]
    else:
        pairs = zip(*read_bounds(bounds, len(names)), strict=True)
        ends = dict(zip(names, pairs, strict=True))
    return {
        name: (float(low), float(high if high > low else low + 1))
        for name, (low, high) in ends.items()
    }


def listed_values(values, name) -> list:
    """The public list of a categorical column."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise ValueError(f"categories[{name!r}] must be a list of values.")
    values = list(values)
    if not values:
        raise ValueError(f"categories[{name!r}] is empty.")
    if not all(np.ndim(value) == 0 for value in values):
        raise ValueError(f"categories[{name!r}] must be a list of single values.")
    return values


def check_edges(edges, name):
    """Public edges of the bins of a column, increasing."""
    with domain(f"bins[{name!r}]"):
        edges = np.asarray(edges, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all():
        raise ValueError(f"bins[{name!r}] must list at least two finite edges.")
    if not (np.diff(edges) > 0).all():
        raise ValueError(f"bins[{name!r}] must increase, got {edges.tolist()}.")
    return tuple(edges.tolist())


def column_names(X) -> list:
    """Names of the columns; positions for an array."""
    if hasattr(X, "column_names"):
        return list(X.column_names)
    return list(X.columns) if hasattr(X, "columns") else list(range(X.shape[1]))


def column_values(X, name, position):
    """One column of a DataFrame or array, as an array unless pandas holds text."""
    column = X[name] if hasattr(X, "columns") else X[:, position]
    return column if is_text_column(column) else np.asarray(column)


def _plain(value):
    """A hashable Python value; every kind of missing value is None."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value).__name__ == "NAType" or value != value:
        return MISSING
    return value


def _position(value, index) -> int:
    try:
        return index.get(_plain(value), -1)
    except (TypeError, ValueError):  # a cell that is no scalar
        return -1


@dataclass(frozen=True)
class Container:
    """The kind of table seen in `fit`, which `sample` gives back.

    Types of columns are not kept: a data-frame library chooses them by the cells.
    They follow from what was declared.

    Parameters
    ----------
    kind : {"array", "pandas", "polars", "pyarrow"}
    names : tuple
    """

    kind: str
    names: tuple = ()

    @classmethod
    def of(cls, X) -> Container:
        """Describe a table by its kind and the names of its columns."""
        if not hasattr(X, "columns"):
            return cls("array")
        library = type(X).__module__.split(".")[0]
        if library == "pyarrow":
            return cls(library, tuple(X.column_names))
        return cls("polars" if library == "polars" else "pandas", tuple(X.columns))

    def build(self, columns, public_lists=None, whole=None, names=None, n_rows=None):
        """Put columns together: numbers, dates, or values out of a public list.

        ``public_lists`` holds a tuple per categorical column, None otherwise, and
        ``whole`` says how a number is stored. The type of a column follows from these
        and not from the values that were drawn. ``names``: of the columns that are
        there, if not all are. ``n_rows`` is kept without any column where a table can.
        """
        columns = list(columns)
        if not columns and n_rows is not None and self.kind in ("array", "pandas"):
            return self._without_columns(n_rows)
        lists = public_lists or [None] * len(columns)
        whole = whole or [None] * len(columns)
        if self.kind == "array":
            return np.column_stack([column.astype(object) for column in columns])
        make = {"pandas": _pandas, "polars": _polars, "pyarrow": _arrow}[self.kind]
        drawn = zip(columns, lists, whole, strict=True)
        names = self.names if names is None else names
        return make(dict(zip(names, drawn, strict=True)))

    def _without_columns(self, n_rows):
        if self.kind == "array":
            return np.empty((n_rows, 0), dtype=object)
        import pandas

        return pandas.DataFrame(index=range(n_rows))


def _pandas(columns):
    import pandas

    frame = {}
    for name, (values, listed, whole) in columns.items():
        if listed is not None:
            # the type of the list, whatever was drawn of it
            column = pandas.Series([*listed, *values.tolist()])
            frame[name] = column.iloc[len(listed) :].reset_index(drop=True)
        elif whole == "date":
            frame[name] = values.astype("datetime64[s]")
        elif whole == "nullable int":
            frame[name] = pandas.Series(values).astype("Int64")
        else:
            frame[name] = values.astype(np.int64 if whole == "int" else np.float64)
    return pandas.DataFrame(frame)


def _polars(columns):
    import polars

    frame = {}
    for name, (values, listed, whole) in columns.items():
        if listed is not None:
            kind = polars.Series([*listed], strict=False).dtype
            frame[name] = polars.Series(values.tolist(), dtype=kind, strict=False)
        elif whole == "date":
            frame[name] = polars.Series(values.tolist(), dtype=polars.Date)
        elif whole is not None:
            series = polars.Series(values).fill_nan(None)
            frame[name] = series.cast(polars.Int64)
        else:
            frame[name] = polars.Series(np.asarray(values, dtype=np.float64))
    return polars.DataFrame(frame)


def _arrow(columns):
    import pyarrow

    arrays = {}
    for name, (values, listed, whole) in columns.items():
        if listed is not None:
            texts = {type(value) for value in listed if value is not None}
            plain = len(texts) <= 1
            given = listed if plain else [v if v is None else str(v) for v in listed]
            kind = pyarrow.array(given).type
            values = values.tolist()
            if not plain:
                values = [v if v is None else str(v) for v in values]
            arrays[name] = pyarrow.array(values, type=kind)
        elif whole == "date":
            arrays[name] = pyarrow.array(values.tolist(), type=pyarrow.date32())
        else:
            missing = np.isnan(values)
            values = np.where(missing, 0, values)
            kind = pyarrow.float64() if whole is None else pyarrow.int64()
            values = values.astype(np.float64 if whole is None else np.int64)
            arrays[name] = pyarrow.array(values, type=kind, mask=missing)
    return pyarrow.table(arrays)
