"""Tables that have hurt, and neighbours of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._shared.arguments import checked, codes, described, numbers, one_of
from .._wall import rows_of

CANARY = "audit canary: private text"
_HUGE = 1.7e308
RELATIONS = ("replace_one", "add_remove")
# Where the sizes of the strata are public: what a replaced record keeps.
SIZES_PUBLIC = {
    "replace_one_in_group": ("sensitive_features",),
    "replace_one_in_cell": ("sensitive_features", "y"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """What a `fit` is given.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,) or None
        Target.
    sensitive_features : array-like of shape (n_samples,) or None
        Handed to `fit` if not None.
    """

    X: Any
    y: Any = None
    sensitive_features: Any = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)

    @checked(rows=codes)
    def take(self, rows) -> Table:
        """Return some of the rows, in this order.

        Parameters
        ----------
        rows : array-like of int
            Their numbers.

        Returns
        -------
        Table
        """
        return Table(*(rows_of(column, rows) for column in self._columns()))

    def fit(self, estimator) -> Any:
        """Fit an estimator to this table.

        Parameters
        ----------
        estimator : estimator
            Unfitted.

        Returns
        -------
        estimator
            Fitted.
        """
        params = {}
        if self.sensitive_features is not None:
            params["sensitive_features"] = self.sensitive_features
        if self.y is None:
            return estimator.fit(self.X, **params)
        return estimator.fit(self.X, self.y, **params)

    def _columns(self):
        return self.X, self.y, self.sensitive_features


@dataclass(frozen=True, eq=False, repr=False)
class Neighbours:
    """Two neighbouring tables.

    Parameters
    ----------
    name : str
        What they are and where they differ.
    first, second : Table
        The tables.
    hostile : bool, default=False
        Whether they hold what an ordinary table does not: cells beyond all bounds,
        text, unusual types.
    outside : bool, default=False
        Whether one of them is outside the domain of a guarantee, by a cell of text or
        one that is not finite. It may be refused, in words that do not quote it.
    """

    name: str
    first: Table
    second: Table
    hostile: bool = False
    outside: bool = False


def as_table(table) -> Table:
    """Return a `Table` from one, from (X, y, sensitive_features), or from a mapping."""
    if isinstance(table, Table):
        return table
    if isinstance(table, dict):
        return Table(**table)
    if isinstance(table, tuple) and 1 <= len(table) <= 3:
        return Table(*table)
    raise TypeError(
        "tables and neighbours must be tables, or tuples (X, y, sensitive_features), "
        f"got {described(table)}."
    )


def neighbours(
    X, y=None, *, sensitive_features=None, neighboring="replace_one"
) -> list[Neighbours]:
    """Make pairs of neighbouring tables from one: ordinary ones, and ones that hurt.

    .. rubric:: Privacy

    The tables are made of the rows that are given, without noise: for audits by the
    holder of the data, or on simulated data.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Features, numbers.
    y : array-like of shape (n_samples,) or None, default=None
        Target.
    sensitive_features : array-like of shape (n_samples,) or None, default=None
        One label per row.
    neighboring : {"replace_one", "add_remove"}, default="replace_one"
        Which tables are neighbours.

    Returns
    -------
    list of Neighbours
        Extremes, far outliers, twins, one row, one class, one group, a row alone in
        its block of 256, and then hostile ones: cells of 1e308, subnormal numbers,
        -0.0, float16, float32 and object types, sparse rows with duplicate entries,
        Fortran order, strides, a cell of text.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn import audit
    >>> pairs = audit.neighbours(np.arange(6.0).reshape(3, 2), [0, 1, 1])
    >>> pairs[0].name, pairs[0].second.n_rows
    ('extremes: the other corner, target and group', 3)
    """
    one_of(*RELATIONS)("neighboring", neighboring)
    table = _plain(Table(X, y, sensitive_features))
    pairs = list(_bases(table))
    if neighboring == "add_remove":
        # The last row leaves; which one it was makes the pair.
        return [
            replace(pair, first=one, second=one.take(np.arange(one.n_rows - 1)))
            for pair in pairs
            for one in (pair.second,)
            if one.n_rows > 1
        ]
    return pairs


def named_columns(pair: Neighbours, X) -> Neighbours:
    """Return the pair with the column names of a data frame `X`."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "iloc"):
        return pair
    if not all(type(one.X) is np.ndarray for one in (pair.first, pair.second)):
        return pair
    return _converted(pair, lambda one: type(X)(one.X, columns=columns))


def _bases(table: Table) -> Iterator[Neighbours]:
    """Pairs that differ in their last row."""
    low, high = _corner(table, 0), _corner(table, 1)
    far, n = _scaled(high, 1e6), table.n_rows
    other_target = _with(low, y=high, group=low)
    name = "extremes: the other corner, target and group"
    yield _pair(name, table, low, high)
    yield _pair("far outlier", table, low, far)
    yield _pair("far outlier, negative", table, high, _scaled(high, -1e6))
    yield _pair("features only", table, low, _with(high, y=low, group=low))
    yield _pair("small cells", table, _scaled(low, 0.0), _scaled(high, 1e-3))
    if table.y is not None:
        yield _pair("target only", table, low, other_target)
    if table.sensitive_features is not None:
        yield _pair("group only", table, low, _with(low, y=low, group=high))
    twins = _repeat(low, max(n, 2))
    yield _pair("twins", twins, low, high)
    middle = _repeat(table.take([n // 2]), max(n, 2))
    yield _pair("twins of the middle", middle, low, high)
    half = _repeat(_join(low, high), max(n // 2, 1))
    yield _pair("twins in two halves", half, low, high)
    if table.y is not None:
        equal = _repeat(_join(low, other_target), 10)
        yield _pair("twins with both targets", equal, low, other_target)
        others = table.take(np.flatnonzero(_equal(table.y, low.y[0])))
        if 0 < others.n_rows < n:
            yield _pair("one target", others, low, other_target)
    if table.sensitive_features is not None:
        same = _equal(table.sensitive_features, low.sensitive_features[0])
        others = table.take(np.flatnonzero(same))
        if 0 < others.n_rows < n:
            yield _pair("one group", others, low, _with(low, y=low, group=high))
    yield _pair("one row", low, low, high)
    yield _pair("one row, far", low, low, far)
    yield _pair("two rows", _join(low, low), low, high)
    yield _pair("two rows, apart", _join(high, low), low, high)
    ramp = _ramp(table)
    yield _pair("constant and one far", twins, low, far)
    yield _pair("a ramp", ramp, _corner(ramp, 0), _corner(ramp, 1))
    block = table.take(np.arange(257) % n)
    yield _pair("alone in its block of 256", block, low, high)
    order = np.random.default_rng(0).permutation(n)
    yield _pair("permuted", table.take(order), low, high)
    yield from _hostile(table, low, high)


def _hostile(table: Table, low: Table, high: Table) -> Iterator[Neighbours]:
    def pair(name, base, first, second):
        return replace(_pair(name, base, first, second), hostile=True)

    huge = _with(high, X=np.full_like(high.X, _HUGE))
    mixed = np.full_like(high.X, _HUGE)
    mixed[:, ::2] *= -1
    yield pair("a cell of 1.7e308", table, low, huge)
    twins = _repeat(huge, 3)
    yield pair("twins and a cell of -1.7e308", twins, huge, _scaled(huge, -1))
    yield pair("cells of +-1.7e308", table, low, _with(high, X=mixed))
    tiny = _with(low, X=np.full_like(low.X, 5e-324))
    yield pair("subnormal cells", table, low, tiny)
    minus = _with(low, X=np.full_like(low.X, -0.0))
    yield pair("negative zero", table, _scaled(low, 0.0), minus)
    for dtype in (np.float32, np.float16):
        with np.errstate(all="ignore"):
            yield _converted(
                pair(f"{np.dtype(dtype)} features", table, low, high),
                lambda one, dtype=dtype: one.X.astype(dtype),
            )
            if table.y is not None and table.y.dtype.kind == "f":
                block = table.take(np.arange(257) % table.n_rows)
                short = pair(f"{np.dtype(dtype)} target", block, low, high)
                yield _converted(short, y=lambda one, dtype=dtype: one.y.astype(dtype))
    layouts = {
        "object features": lambda one: one.X.astype(object),
        "Fortran order": lambda one: np.asfortranarray(one.X),
        "strided": lambda one: np.repeat(one.X, 2, axis=1)[:, ::2],
        "sparse": lambda one: sparse.csr_array(one.X),
    }
    for name, convert in layouts.items():
        yield _converted(pair(name, table, low, high), convert)
    overflow = pair("sparse, duplicate entries that overflow", table, low, huge)
    yield replace(_converted(overflow, _duplicated), outside=True)
    text = pair("a cell of text", table, low, high)
    text = _converted(text, layouts["object features"])
    text.second.X[-1, -1] = CANARY
    yield replace(text, outside=True)


def _duplicated(one: Table):
    """The last cell stored twice, so that the stored entries are finite."""
    matrix = sparse.csr_array(np.where(one.X == 0, 1e-300, one.X))
    width = one.X.shape[1]
    data = np.append(matrix.data, matrix.data[-1])
    indices = np.append(matrix.indices, width - 1)
    indptr = np.append(matrix.indptr[:-1], matrix.indptr[-1] + 1)
    return sparse.csr_array((data, indices, indptr), shape=matrix.shape)


def _converted(pair: Neighbours, X=None, y=None) -> Neighbours:
    def convert(one):
        return replace(one, X=X(one) if X else one.X, y=y(one) if y else one.y)

    return replace(pair, first=convert(pair.first), second=convert(pair.second))


def _pair(name: str, base: Table, first: Table, second: Table) -> Neighbours:
    rest = base.take(np.arange(base.n_rows - 1))
    return Neighbours(name, _join(rest, first), _join(rest, second))


def _plain(table: Table) -> Table:
    X = table.X.toarray() if sparse.issparse(table.X) else table.X
    try:
        X = np.array(numbers("X", X), dtype=np.float64)
    except ValueError:  # neighbours are made by moving numbers
        X = None
    if X is None:
        raise ValueError(
            "X must be an array of numbers for neighbours to be made of it; for a "
            "table of another kind pass pairs of your own that differ in one record, "
            "as in audit_estimator(..., pairs=[((X, y), (X_other, y))])."
        )
    if X.ndim != 2 or not X.size:
        raise ValueError("X must be two-dimensional and not empty.")
    columns = [None if c is None else np.asarray(c) for c in table._columns()[1:]]
    for name, column in zip(("y", "sensitive_features"), columns, strict=True):
        if column is not None and (column.ndim < 1 or len(column) != len(X)):
            raise ValueError(f"{name} must have as many rows as X.")
    return Table(X, *columns)


def _corner(table: Table, side: int) -> Table:
    """One row: the smallest or largest cell of every column."""
    pick = np.max if side else np.min
    X = pick(table.X, axis=0, keepdims=True)
    if (table.X.min(axis=0) == table.X.max(axis=0)).all():
        X = X + side
    return Table(X, *(_extreme(column, side) for column in table._columns()[1:]))


def _extreme(column, side: int):
    if column is None:
        return None
    if column.ndim > 1:
        rows = sorted(map(tuple, column.tolist()), key=repr)
        row = np.empty((1, column.shape[1]), dtype=column.dtype)
        row[0] = rows[-1 if side else 0]
        return row
    try:
        values = np.sort(column)
    except TypeError:
        values = np.array(sorted(column.tolist(), key=repr), dtype=object)
    return values[[-1 if side else 0]]


def _ramp(table: Table) -> Table:
    """As many rows, evenly spread between the corners."""
    share = np.linspace(0, 1, table.n_rows)[:, None]
    low, high = table.X.min(axis=0), table.X.max(axis=0)
    with np.errstate(all="ignore"):
        return replace(table, X=low + share * (high - low))


def _scaled(row: Table, factor: float) -> Table:
    with np.errstate(all="ignore"):
        X = np.clip(row.X * factor, -_HUGE, _HUGE) + 0.0  # -3 times 0 is -0.0
        if abs(factor) > 1:
            X = np.where(X == 0, factor, X)
    y = row.y
    if abs(factor) > 1 and y is not None and y.dtype.kind == "f":
        y = np.clip(np.where(y == 0, 1.0, y) * factor, -_HUGE, _HUGE)
    return replace(row, X=X, y=y)


def _with(row: Table, *, X=None, y=None, group=None) -> Table:
    """Some columns of a row from elsewhere: X as an array, the others from a row."""
    return Table(
        row.X if X is None else X,
        row.y if y is None else y.y,
        row.sensitive_features if group is None else group.sensitive_features,
    )


def _join(*tables: Table) -> Table:
    columns = zip(*(table._columns() for table in tables), strict=True)
    return Table(
        *(None if c[0] is None else np.concatenate(c, axis=0) for c in columns)
    )


def _repeat(table: Table, times: int) -> Table:
    return table.take(np.tile(np.arange(table.n_rows), times))


def _equal(column, value) -> np.ndarray:
    column = np.asarray(column)
    if column.ndim > 1:
        return (column == value).all(axis=1)
    return column == value
