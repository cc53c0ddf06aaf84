"""What arguments say of a table's columns, and tables made of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._door.bounds import read_bounds
from .._door.groups import column_names
from .._shared.domain import domain


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
    for name, (low, high) in ends.items():
        if low == high:
            raise ValueError(
                f"bounds of the column {name!r} must have low < high, got {low} and "
                f"{high}; leave out a column of one number."
            )
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}


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
        kind = library if library in ("polars", "pyarrow") else "pandas"
        return cls(kind, tuple(column_names(X)))

    def build(self, columns, public_lists=None, whole=None, names=None):
        """Put columns together: numbers, dates, or values out of a public list.

        ``public_lists`` holds a tuple per categorical column, None otherwise, and
        ``whole`` says how a number is stored. The type of a column follows from these
        and not from the values that were drawn. ``names``: of the columns that are
        there, if not all are.
        """
        columns = list(columns)
        lists = public_lists or [None] * len(columns)
        whole = whole or [None] * len(columns)
        if self.kind == "array":
            return np.column_stack([column.astype(object) for column in columns])
        make = {"pandas": _pandas, "polars": _polars, "pyarrow": _arrow}[self.kind]
        drawn = zip(columns, lists, whole, strict=True)
        names = self.names if names is None else names
        return make(dict(zip(names, drawn, strict=True)))


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
        else:
            # Whole numbers with gaps are floats, as in a file that pandas has read:
            # scikit-learn refuses pandas.NA in columns that it hands through.
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
