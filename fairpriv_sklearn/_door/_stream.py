"""Rows that come in batches, again and again: a table larger than the memory."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from types import SimpleNamespace

import numpy as np
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.utils.validation import check_is_fitted

from .._shared.arguments import InBatches, refuse_batches
from .._shared.arrays import is_text_column, objects_of
from .._shared.callers import hushed
from .._shared.domain import check_columns, same_length
from .._shared.nested import owners
from .._wall import (
    PrivacyLeakWarning,
    Rows,
    column_length,
    leaks_refused,
    n_rows_of,
    rows_of,
)

MOST_HELD = 1 << 32  # bytes of the rows of a wrapped model; more are read again


class Batches(InBatches):
    """A table in batches that `fit` takes in the place of X, with nothing else.

    Every pass over the table asks for a new iterator, checks each batch as a table in
    memory would be checked, and forgets it. The sums that a private fit needs are
    sums of exact integers: the model is bitwise the same for any size of the batches.
    A batch without rows, as a filter may leave it, is as none.

    .. rubric:: Privacy

    The guarantee is that of the fit. A pass reads the same rows in the same order, or
    the fit stops; `groups`, `classes` and bounds have to be given, as nothing is read
    from the data that the budget does not pay for.

    Parameters
    ----------
    make_batches : callable or iterable
        ``make_batches()`` returns a new iterator of (X, y, sensitive_features) tuples
        each time, None for what there is not. Or an object that can be iterated over
        again and again.

    See Also
    --------
    fairpriv_sklearn.distributed.resume : Survive the death of the driver.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.distributed import Batches
    >>> def make_batches():
    ...     for seed in range(10):
    ...         X = np.random.default_rng(seed).uniform(size=(1000, 2))
    ...         yield X, X.sum(axis=1), None
    >>> [len(y) for X, y, groups in Batches(make_batches)][:3]
    [1000, 1000, 1000]
    """

    def __init__(self, make_batches) -> None:
        if not callable(make_batches):
            try:
                is_spent = iter(make_batches) is make_batches
            except TypeError:
                is_spent = True
            if is_spent:
                raise ValueError(
                    "make_batches must be callable, or an object that can be iterated "
                    "over again, got "
                    f"{type(make_batches).__name__}: pass a function that returns a "
                    "new iterator each time."
                )
        self.make_batches = make_batches

    map_X = None  # a function of the X of every batch

    def __iter__(self) -> Iterator[tuple]:
        """Start a new pass over the batches."""
        return (map_batch(self.map_X, batch) for batch in self._given())

    def _given(self) -> Iterator[tuple]:
        """The batches before their X is mapped."""
        batches = self.make_batches
        for batch in batches() if callable(batches) else batches:
            if not (isinstance(batch, tuple) and len(batch) == 3):
                raise ValueError(
                    "A batch must be a tuple (X, y, sensitive_features), with None for "
                    "what there is not."
                )
            if not has_no_rows(batch):
                yield batch

    def _first(self) -> tuple:
        """The first batch, or some of its rows, for who looks at its kind."""
        return next(iter(self), (None, None, None))

    def map(self, function) -> Batches:
        """Apply `function` to the X of every batch, lazily.

        Parameters
        ----------
        function : callable
            Takes the X of one batch, and returns another.

        Returns
        -------
        batches : Batches
        """
        return _altered(self, map_X=both(self.map_X, function))

    def read(self, read) -> Rows:
        """Open the private rows, for `fit`.

        Parameters
        ----------
        read : callable
            Validates a batch and returns its columns.

        Returns
        -------
        rows : Rows
        """
        return StreamRows(read, self)


class ChangedDataError(RuntimeError):
    """The data were not the same in two passes over them."""

    def __init__(self) -> None:
        super().__init__(
            "The data changed between two passes over them. Every pass has to give "
            "the same rows in the same order; the fit stops, as nothing it promises "
            "would hold."
        )


class StreamRows(Rows):
    """Private rows of `Batches`: read again in every pass.

    Parameters
    ----------
    read : callable
        ``read(X, y, sensitive_features)`` returns the private columns of a batch.
    batches : Batches
    """

    _remake: Remake | None = None

    def __init__(self, read, batches):
        self._read = read
        self._batches = batches
        self._mask = self._names = None
        self._empty: dict | None = None
        function = batches.map_X
        # What an encoder is given tells as well as its answers, which are far larger.
        is_encoded = getattr(function, "gives_codes", False)
        self._look = stand_in(function, read.__self__) if is_encoded else None
        self._prints = []
        for given in batches._given():
            columns = self._read_one(map_batch(self._look or function, given))
            self._prints.append(self._print_of(given, columns))
        super().__init__(sum(n_rows for n_rows, _ in self._prints))
        if self._empty is None:
            raise ValueError("make_batches gave no batch with a row.")

    def blocks(self, size: int) -> Iterator[SimpleNamespace]:
        """Blocks of `size` consecutive rows (the last is shorter), whatever batches."""
        return blocks_of(self._parts(), size)

    def block(self, rows: slice) -> SimpleNamespace:
        """Some consecutive rows; the whole stream is read for it."""
        if rows.stop <= rows.start:
            return block_of([self._named(self._empty)], 0)
        pieces, first = [], 0
        for columns in self._parts():
            n_rows = column_length(columns)
            part = slice(max(rows.start - first, 0), min(rows.stop - first, n_rows))
            if part.start < part.stop:
                pieces.append(_slice(columns, part))
            first += n_rows
        return block_of(pieces, rows.stop - rows.start)

    def prints(self, fingerprint) -> list:
        """What was said about the batches in the first pass; private."""
        return list(self._prints or ())

    def take(self, indices) -> Rows:
        """Some of the rows, in the order of the stream."""
        chosen = np.zeros(self.n_rows, dtype=bool)
        chosen[indices] = True
        mask = chosen
        if self._mask is not None:
            mask = self._mask.copy()
            mask[self._mask] = chosen
        return _altered(self, _mask=mask, n_rows=int(chosen.sum()))

    seen = take

    def only(self, *names) -> Rows:
        """The same rows with these columns alone."""
        return _altered(self, _names=names)

    def with_columns(self, **columns) -> Rows:
        """The same rows with more columns, all of them in memory."""
        held = vars(self.whole())
        return self._kin(held.pop("n_rows"), {**held, **columns})

    def remade(self, name, function) -> Rows:
        """The same rows with a column made anew, batch by batch in every pass."""
        return _altered(self, _remake=Remake(name, function))

    def as_codes(self) -> StreamRows:
        """The same rows, for who makes rows of the codes of an encoder."""
        return self

    def again(self, *names):
        """Read once batch by batch, or in each pass where memory has no room."""
        X = getattr(self._empty[names[0]], "values", self._empty[names[0]])
        row = getattr(X, "dtype", np.dtype(float)).itemsize * X.shape[1]
        return _Again(self, names, is_held=self.n_rows * row <= MOST_HELD)

    def read_by(self, read, names) -> StreamRows:
        """The same rows as another door reads them, out of some of the columns."""
        return StreamRows(read, Batches(lambda: self.batches_of(names)))

    def batches_of(self, names) -> Iterator[tuple]:
        """Some of the columns, as batches."""
        for columns in self._parts():
            if column_length(columns):  # a table without rows is refused
                yield batch_of(columns, names)

    def answered(self, function, needs, reads) -> tuple[Rows, np.ndarray]:
        """The same, batch by batch: what the function needs is not held."""
        columns, answers = joined_answers(self._answered(function, needs, reads))
        return self._kin(len(answers), columns), answers

    def _answered(self, function, needs, reads) -> Iterator[tuple]:
        """Columns and answers of the chosen rows, batch by batch."""
        for columns in self.only(*dict.fromkeys((*needs, *reads)))._parts():
            yield answer_to(columns, function, needs, reads)

    def _parts(self) -> Iterator[dict]:
        """Columns of the chosen rows, batch by batch; stop if the data changed."""
        first = 0
        for columns in self._columns_of_batches():
            n_rows = column_length(columns)
            if self._remake is not None:
                columns = self._remake(self._named(columns))
            if self._mask is not None:
                mask = self._mask[first : first + n_rows]
                columns = _slice(columns, np.flatnonzero(mask))
            first += n_rows
            yield self._named(columns)

    def _named(self, columns: dict) -> dict:
        names = columns if self._names is None else self._names
        return {name: columns[name] for name in names}

    def _print_of(self, given: tuple, columns: dict) -> tuple[int, int]:
        if self._look is None:
            return fingerprint(columns)
        X, y, groups = given
        cells = self._batches.map_X.cells(X)
        return fingerprint({"cells": cells, "y": y, "groups": groups})

    def _columns_of_batches(self) -> Iterator[dict]:
        expected = iter(self._prints)
        for given in self._batches._given():
            columns = self._read_one(map_batch(self._batches.map_X, given))
            if self._print_of(given, columns) != next(expected, None):
                raise ChangedDataError
            yield columns
        if next(expected, None) is not None:
            raise ChangedDataError

    def _read_one(self, batch: tuple) -> dict:
        columns = read_batch(self._read, batch)
        if self._empty is None:
            self._empty = {k: _part_copy(c) for k, c in columns.items()}
            self._read = on_a_copy(self._read)
        else:
            _refuse_unlike(self._empty, columns)
        return columns


class KeptRows(StreamRows):
    """Private rows that came in parts and stay: never joined, nor there twice.

    Parameters
    ----------
    parts : iterable of dict
        Private columns.
    """

    def __init__(self, parts):
        self._held = list(parts)
        self._mask = self._names = None
        self._empty = {k: _part_copy(column) for k, column in self._held[0].items()}
        Rows.__init__(self, sum(map(column_length, self._held)))

    def prints(self, fingerprint) -> list:
        return [fingerprint(columns) for columns in self._held]

    def as_codes(self) -> StreamRows:
        """The same rows, for who makes rows of the codes of an encoder."""
        if not any(isinstance(column, Encoded) for column in self._held[0].values()):
            return self
        held = [
            {k: getattr(column, "coded", column) for k, column in columns.items()}
            for columns in self._held
        ]
        return _altered(self, _held=held)

    def remade(self, name, function) -> Rows:
        """The same rows with a column made anew, once."""
        remake = Remake(name, function)
        return _altered(self, _held=[remake(columns) for columns in self._held])

    def _columns_of_batches(self):
        return map(self._named, self._held)


class _HeldRows(KeptRows):
    """Private rows of `Batches` that are read once."""

    def __init__(self, read, batches):
        self._read, self._empty = read, None
        super().__init__([self._read_one(batch) for batch in batches])

    def take(self, indices) -> Rows:
        """Some of the rows: where they are drawn again and again, out of one table."""
        if len(self._held) > 1:
            parts = [_slice(columns, slice(None)) for columns in self._held]
            self._held[:] = [_columns(parts)]
        return super().take(indices)

    seen = take


@dataclass(frozen=True)
class Remake:
    """Makes a column anew where rows have it."""

    name: str
    function: Callable

    def __call__(self, columns: dict) -> dict:
        """Columns of some rows, this one made anew."""
        if self.name not in columns:
            return columns
        return {**columns, self.name: self.function(columns[self.name])}


class Encoded:
    """A private column of rows by an encoder, made of their codes where they are read.

    Parameters
    ----------
    coded : array-like of shape (n_rows, n_columns)
        With a method `rows_at`; an array is made of it by `numpy.asarray`.
    """

    def __init__(self, coded):
        self.coded = coded

    def __len__(self):
        return len(self.coded)

    def rows_at(self, rows):
        return np.asarray(self.coded.rows_at(rows))


class _Again(InBatches):
    """Private rows of a repair, as batches that the model it wraps reads."""

    def __init__(self, rows: StreamRows, names, is_held: bool):
        self._rows, self._names, self._is_held = rows, names, is_held

    def read(self, read) -> Rows:
        """Open the rows: whole, if something public is to be read from them."""
        rows, is_held = self._rows, self._is_held
        if getattr(read.__self__, "_reads_codes", False):
            rows = rows.as_codes()
        try:
            if is_held or rows is not self._rows:
                return _HeldRows(read, rows.batches_of(self._names))
            return self._rows.read_by(read, self._names)
        except ValueError:
            batch = batch_of(vars(self._rows.whole()), self._names)
        columns = read(*batch)
        return Rows(column_length(columns), **columns)


def _altered(one, **changes):
    """A shallow copy with some attributes changed; `copy` refuses private rows."""
    other = object.__new__(type(one))
    other.__dict__ = {**vars(one), **changes}
    return other


def batch_of(columns: dict, names) -> tuple:
    """X, y and sensitive features out of private columns, as they were given."""
    return tuple(n if n is None else rows_of(columns[n], slice(None)) for n in names)


def on_a_copy(read):
    """Bind the method `read` to a copy of its estimator, as it is after one batch.

    What `fit` makes of public facts later is then not overwritten by the next batch.
    """
    estimator = getattr(read, "__self__", None)
    if estimator is None:
        return read
    return getattr(_altered(estimator), read.__name__)


def has_no_rows(batch: tuple) -> bool:
    """Whether a batch, or a partition, adds nothing: nobody reads it then."""
    try:
        n_rows = n_rows_of(batch[0])
    except (TypeError, IndexError):
        return False  # refused where it is read
    if not n_rows:
        same_length(*(column for column in batch if column is not None))
    return not n_rows


def read_batch(read, batch: tuple) -> dict:
    """Read the private columns of one batch; nothing public is read from the data."""
    check_columns(*batch)
    estimator = getattr(read, "__self__", None)
    before = {name: getattr(estimator, name, None) for name in _SHAPE}
    try:
        with leaks_refused():
            columns = read(*batch)
    except PrivacyLeakWarning as warning:
        raise ValueError(
            f"{warning} Batches are not looked through for public facts: give it."
        ) from None
    for name, value in before.items():
        now = getattr(estimator, name, None)
        if value is not None and not np.array_equal(value, now):
            raise ValueError(_UNLIKE)
    return columns


_UNLIKE = (
    "All batches must have the same columns, in this order, and all must be dense or "
    "all sparse, and of one library. In frames of polars and tables of Arrow a column "
    "must have one type, or numbers, in all batches: cast it."
)


def _refuse_unlike(first: dict, columns: dict) -> None:
    """Refuse columns that cannot stand below those of another batch, by their types.

    Rows are put together when the budget is spent.
    """
    try:
        for name, column in columns.items():
            pair = first[name], rows_of(column, slice(0, 0))
            if len(set(map(_library, pair))) > 1:
                break
            _joined([*pair])
        else:
            return
    except Exception:  # each library has its own
        pass
    raise ValueError(_UNLIKE)


def _library(column) -> str:
    """Whose rows these are; a frame of pandas may be read as a sparse matrix."""
    is_sparse = sparse.issparse(column) or hasattr(column, "sparse")
    return "sparse" if is_sparse else type(column).__module__.partition(".")[0]


def batch_arguments(estimator, fit, args: tuple, kwargs: dict) -> tuple:
    """Arguments of `fit`, with everything that comes in parts as one `Batches`."""
    kwargs = dict(kwargs)
    names = [name for name in signature(fit).parameters if name != "self"]
    kwargs |= dict(zip(names, args, strict=False))
    X, y = kwargs.pop(names[0]), kwargs.pop("y", None)
    groups = kwargs.pop("sensitive_features", None)
    if not estimator._reads_batches:
        refuse_batches(X, type(estimator).__name__)
        given = {names[0]: X, "y": y, "sensitive_features": groups}
        return (), kwargs | {k: v for k, v in given.items() if v is not None}
    X = as_batches(X, y, groups)
    return (X,), kwargs | ({"y": None} if "y" in names else {})


def as_batches(X, y, sensitive_features) -> Batches:
    """`Batches` as they are, which hold y themselves; dask collections as such."""
    if not isinstance(X, InBatches):
        from ._dask import DaskBatches

        return DaskBatches(X, y, sensitive_features)
    if y is not None or sensitive_features is not None:
        raise ValueError(
            "Batches hold y and sensitive_features themselves: pass nothing else "
            "beside them."
        )
    return X


def answer_in_parts(estimator, method, X, *, sensitive_features=None):
    """Answer of a prediction method, lazily: `Batches`, or a dask array."""
    check_is_fitted(estimator)
    answer = _Answer(estimator, method)
    if not isinstance(X, Batches):
        from ._dask import blockwise

        return blockwise(answer, X, sensitive_features)
    if sensitive_features is not None:
        raise ValueError("Batches hold sensitive_features themselves: pass them there.")
    wants_groups = "sensitive_features" in signature(method).parameters
    if not wants_groups or getattr(estimator, "blind", False):
        return X.map(answer)
    # A rule that names its columns of X gets no other groups.
    asked = estimator.sensitive_features is None
    return Batches(lambda: ((answer(x, a if asked else None), y, a) for x, y, a in X))


class _Answer:
    """What a prediction method says about one part."""

    def __init__(self, estimator, method):
        self.estimator, self.name = to_travel(estimator), method.__name__
        self.config = get_config()

    def __call__(self, X, sensitive_features=None):
        given = {"sensitive_features": sensitive_features}
        given = {} if sensitive_features is None else given
        with config_context(**self.config):
            answer = getattr(self.estimator, self.name)(X, **given)
        return answer.to_numpy() if hasattr(answer, "to_numpy") else answer

    @property
    def gives_codes(self) -> bool:
        """Whether it is an encoder's, whose rows may be held as codes."""
        return getattr(self.estimator, "_gives_codes", False)

    @property
    def code_bytes(self) -> int:
        """Of a row."""
        return self.estimator._layout().code_bytes

    def codes(self, X):
        """Codes of the cells of one part, of which `coded` makes the answer."""
        with config_context(**self.config):
            return self.estimator._codes(X)

    def coded(self, codes):
        """What is as good as the answer."""
        return self.estimator._coded(codes)

    def cells(self, X):
        """What an encoder reads, or refuses."""
        with config_context(**self.config):
            return self.estimator._refuse_rows(X)

    def looked_at(self, X):
        """Zeros in the place of all answers, if none of these can be refused.

        The estimator, an encoder, refuses what it would not answer to.
        """
        if not self.gives_codes:
            return self(X)
        shape = len(self.cells(X)), self.estimator._layout().width
        return np.broadcast_to(np.float32(0.0), shape)


def both(first, second):
    """One function after the other, which may be None."""
    return second if first is None else partial(_one_by_one, first, second)


def _one_by_one(first, second, X):
    return second(first(X))


def map_batch(function, batch: tuple) -> tuple:
    """A batch whose X is mapped by a function, or by none."""
    X, y, groups = batch
    return (X if function is None else function(X)), y, groups


def stand_in(function, reader):
    """A function of X to what its answer can be refused for, None if to none.

    Parameters
    ----------
    function : callable or None
        Whose answers are read.
    reader : estimator
        That reads them.
    """
    look = getattr(function, "looked_at", None)
    named = getattr(reader, "sensitive_features", None)
    if look is None or named is not None or _has_lists(reader):
        return None  # cells can be refused
    return look


def _has_lists(estimator) -> bool:
    """Whether an estimator, or one inside, is told which cells X may have."""
    inside = owners(estimator).values()
    told = (getattr(one, name, None) for one in inside for name in _LISTS)
    return any(given is not None for given in told)


_LISTS = ("codebook", "categories")


def to_travel(estimator):
    """A copy for the workers, without a ledger, a seed or a draft."""
    copy = _altered(estimator, ledger=None, random_state=None)
    copy.__dict__.pop("_draft_of", None)
    return copy


# Attributes that every batch has to agree on.
_SHAPE = ("n_features_in_", "feature_names_in_", "_learns")


def fingerprint(columns: dict) -> tuple[int, int]:
    """Length and a checksum of the columns, to notice that the data changed."""
    total = 0
    with hushed():
        for column in columns.values():
            for part in _arrays_of(column):
                total = zlib.crc32(_bytes_of(part), total)
    return column_length(columns), total


def _arrays_of(column) -> list:
    """Arrays, or lists of objects, of a private column of any kind."""
    if hasattr(type(column), "parts"):  # a table of cells; a frame has its columns too
        return [_array_of(part) for part in column.parts()]
    if hasattr(type(column), "rows_at"):  # a wrapper
        column = column.values
    if column is None or isinstance(column, list):
        return [column or []]
    if sparse.issparse(column):
        return [column.data, column.indices, column.indptr]
    if hasattr(type(column), "get_columns"):
        return [_array_of(part) for part in column.get_columns()]
    if hasattr(column, "iloc") and column.ndim == 2:
        return [_array_of(column.iloc[:, i]) for i in range(column.shape[1])]
    return [_array_of(column)]


def _array_of(column):
    if is_text_column(column):
        return column
    try:
        return np.asarray(column)
    except Exception:  # it quotes a cell
        return list(objects_of(column))


def _bytes_of(array):
    """What a column says, alike in every process: the text of each object."""
    if is_text_column(array):
        codes, texts = array.factorize(use_na_sentinel=False)
        return _coded_texts(codes, map(repr, objects_of(texts)))
    if isinstance(array, np.ndarray) and array.dtype.kind != "O":
        return np.ascontiguousarray(array).view(np.uint8)
    cells = array if isinstance(array, list) else array.ravel().tolist()
    said, texts = cache(repr), {}  # numbers are equal that say it otherwise
    codes = [
        texts.setdefault(said(c) if type(c) is str else _text_of(c), len(texts))
        for c in cells
    ]
    return _coded_texts(codes, texts)


def _coded_texts(codes, texts) -> bytes:
    """Distinct texts in the order they come, and which it is in each cell."""
    texts = list(texts)
    listed = "\x1f".join(texts).encode("utf-8", "surrogatepass")
    return np.asarray(codes, np.min_scalar_type(len(texts))).tobytes() + listed


def _text_of(cell) -> str:
    kind = type(cell)
    try:
        return str(kind) if kind.__repr__ is object.__repr__ else repr(cell)
    except Exception:  # pandas has years that it cannot write
        return str(kind)


def _slice(columns: dict, rows) -> dict:
    return {name: rows_of(column, rows) for name, column in columns.items()}


def _part_copy(column):
    empty = rows_of(column, slice(0, 0))
    return empty.copy() if hasattr(empty, "copy") else empty


def answer_to(columns: dict, function, needs, reads) -> tuple[dict, np.ndarray]:
    """Columns `reads` of a batch, and what a function says of its columns `needs`."""
    asked = {name: rows_of(columns[name], slice(None)) for name in needs}
    answers = function(SimpleNamespace(n_rows=column_length(columns), **asked))
    return {name: columns[name] for name in reads}, answers


def joined_answers(answers) -> tuple[dict, np.ndarray]:
    """The same of several batches, one after the other."""
    pieces, answers = zip(*answers, strict=True)
    return _columns(pieces), np.concatenate(answers)


def _columns(pieces) -> dict:
    return {name: _joined([piece[name] for piece in pieces]) for name in pieces[0]}


def block_of(pieces: list[dict], n_rows: int) -> SimpleNamespace:
    """Pieces with so many rows together, as one block."""
    return SimpleNamespace(n_rows=n_rows, **_columns(pieces))


def blocks_of(parts, size: int, first: int = 0) -> Iterator[SimpleNamespace]:
    """Blocks of `size` consecutive rows out of parts; the last may be shorter.

    So many rows as `first` says come before, in a block of their own.
    """
    pieces: list[dict] = []
    wanted, held = first or size, 0
    for columns in parts:
        n_rows, begin = column_length(columns), 0
        while n_rows - begin >= wanted - held:
            stop = begin + wanted - held
            pieces.append(_slice(columns, slice(begin, stop)))
            yield block_of(pieces, wanted)
            pieces, held, begin, wanted = [], 0, stop, size
        if begin < n_rows:
            pieces.append(_slice(columns, slice(begin, n_rows)))
            held += n_rows - begin
    if held:
        yield block_of(pieces, held)


def _joined(parts: list):
    """Rows of several parts, one after the other; a cell is what it was in its part."""
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    if isinstance(parts[0], np.ndarray):
        kinds = {part.dtype.kind for part in parts}
        # Beside text NumPy makes text of numbers.
        mixed = len(kinds) > 1 and not kinds <= {*"biuf"}
        return np.concatenate(parts, dtype=object if mixed else None)
    if hasattr(parts[0], "iloc"):
        return _joined_pandas(parts)
    if hasattr(parts[0], "get_columns"):
        import polars

        _of_several_types([map(str, part.dtypes) for part in parts])
        return polars.concat(parts, how="vertical_relaxed")
    if hasattr(parts[0], "column_names"):
        return _joined_arrow(parts)
    if hasattr(parts[0], "joined"):
        return parts[0].joined(parts)
    return [entry for part in parts for entry in part]


def _joined_pandas(parts: list):
    import pandas

    with suppress(Exception):  # where one type has no value for a cell, it quotes it
        return pandas.concat(parts)
    if parts[0].ndim == 1:
        cells = (pandas.Series(objects_of(p), p.index, object, p.name) for p in parts)
        return pandas.concat(cells)
    columns = [[part.iloc[:, i] for part in parts] for i in range(parts[0].shape[1])]
    return pandas.concat(map(_joined_pandas, columns), axis=1)


def _joined_arrow(parts: list):
    import pyarrow

    parts = [pyarrow.table(part) for part in parts]
    for i in _of_several_types([map(str, part.schema.types) for part in parts]):
        # Else a whole number that has no exact float raises, and is quoted.
        columns = [part.column(i).cast(pyarrow.float64(), safe=False) for part in parts]
        name = parts[0].column_names[i]
        pairs = zip(parts, columns, strict=True)
        parts = [part.set_column(i, name, column) for part, column in pairs]
    return pyarrow.concat_tables(parts, promote_options="default")


def _of_several_types(types) -> list[int]:
    """Positions of columns that are numbers of several types.

    Of other types a column has one: both libraries make, or refuse to make, other
    cells of two, such as counts of days of the dates beside numbers.

    Parameters
    ----------
    types : list of iterable of str
        Of the columns of each part; "null" has no value that could change.
    """
    several = []
    for i, column in enumerate(zip(*types, strict=True)):
        known = {*column} - {"Null", "null"}
        if len(known) > 1:
            if not all(map(_NUMBERS.fullmatch, known)):
                raise TypeError
            several.append(i)
    return several


_NUMBERS = re.compile(r"u?int\d+|float\d*|double|halffloat", re.IGNORECASE)
