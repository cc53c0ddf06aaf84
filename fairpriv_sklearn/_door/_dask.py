"""Sums computed where the rows are: dask arrays and data frames.

Tasks are pure: no randomness, no side effect, nothing kept. A task that runs twice
gives the same integers, and its answer is used once. Noise is drawn at the driver.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from contextlib import contextmanager
from functools import lru_cache, partial, reduce, wraps
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn import config_context, get_config
from threadpoolctl import threadpool_info, threadpool_limits

from .._shared.arguments import is_dask
from .._shared.arrays import row_slices
from .._shared.rowwise import row_scores
from .._wall import Rows, column_length, n_rows_of, rows_of
from . import _stream
from ._stream import (
    Batches,
    ChangedDataError,
    Encoded,
    KeptRows,
    StreamRows,
    answer_to,
    batch_of,
    block_of,
    blocks_of,
    both,
    fingerprint,
    has_no_rows,
    joined_answers,
    map_batch,
    read_batch,
    stand_in,
    to_travel,
)

AT_ONCE = 4  # partitions at the driver, where records are coupled; or in one task
WITHOUT_ROWS = 16  # partitions of which the driver gets sums of blocks
MANY = 128  # partitions, from which on a task opens more than one
# Memory that a task has room for its arrays in: pieces below the 128 KiB from which on
# each would be memory of its own.
_PIECE, _PIECES = 120_000, 192
_MAPPED = 1 << 14  # rows that are mapped to many numbers at a time: they have room
_ANSWERS = "_fairpriv_answers"  # an attribute of arrays


class DaskBatches(Batches):
    """Dask collections, one batch per partition.

    Parameters
    ----------
    X, y, sensitive_features : dask collection or None
        Cut alike; arrays are cut like X.
    """

    def __init__(self, X, y=None, sensitive_features=None):
        X, self.map_X = _asked(X, y, sensitive_features)
        self.collections = (X, y, sensitive_features)

    def _first(self) -> tuple:
        """The first row: it tells names and number of columns."""
        import dask

        task, held = dask.delayed(_first, pure=False), _Held(self.map_X)
        for part in self.partitions():
            (first,) = _computed([task(held, part)])
            if first:
                return first
        raise ValueError("The dask collection has no rows.")

    def partitions(self) -> list:
        """(X, y, sensitive_features) of every partition, delayed or a `_Part`.

        As they are: `map_X` comes after.
        """
        return _as_one(_apart(self._delayed()))

    def _delayed(self) -> list:
        import dask

        X, y, groups = self.collections
        frame = _one_frame(self.collections)
        if frame is not None:
            names = [_names_of(column) for column in self.collections]
            take = dask.delayed(_taken, pure=False)
            return [take(names, part) for part in _pieces(frame, None)]
        X = _one_block_wide(X)
        columns = [_pieces(X, None), _pieces(y, X), _pieces(groups, X)]
        n_parts = len(columns[0])
        if any(column is not None and len(column) != n_parts for column in columns):
            raise ValueError(
                "X, y and sensitive_features must have the same partitions: "
                "repartition them alike."
            )
        bundle = dask.delayed(_bundle, pure=False)
        return [
            bundle(*(None if column is None else column[i] for column in columns))
            for i in range(n_parts)
        ]

    def read(self, read) -> Rows:
        """Open the private rows; partitions are read on the workers."""
        return DaskRows(read, self)


class DaskRows(StreamRows):
    """Private rows of dask collections: sums of integers are taken on the workers.

    Where the driver needs rows themselves, workers choose them: only those travel.
    """

    def __init__(self, read, batches: DaskBatches):
        import dask

        self._read, self._batches = read, batches
        self._mask = self._names = self._empty = self._prints = None
        self._through = None  # the reader of a repair, and columns that it hands on
        self._read_one(batches._first())
        measure, reader = dask.delayed(_measure, pure=False), self._reader_there()
        tasks = [measure(reader, few) for few in _few(batches.partitions())]
        self._prints = _agreed(_computed(tasks))
        Rows.__init__(self, sum(n_rows for n_rows, _ in self._prints))

    def total(self, query, state):
        """Sum over the blocks of all partitions, each on its worker."""
        import dask

        task = dask.delayed(_partition_total, pure=False)
        reader, held = self._reader_there(), dask.delayed(_Held(state), pure=False)
        tasks = [task(reader, query, held, few) for few in _few(self._pairs())]
        answers = _computed(tasks)
        if _agreed(answers) != self._prints:
            raise ChangedDataError
        nothing = query.of_block(self.block(slice(0, 0)), state)
        totals = (total for _, _, total in answers if total is not None)
        return reduce(add, totals, nothing)

    def _parts(self):
        reader = self._its_reader()
        read, given = self._named(self._empty).values(), self._batches.collections
        # Rows that are read as far more numbers than were given travel before.
        if _width(read) <= 2 * _width(given):
            yield from self._told(partial(_chosen, reader, self._names))
            return
        lengths = [n_rows for n_rows, _ in self._prints]
        pairs = [pair for pair, n in zip(self._pairs(), lengths, strict=True) if n]
        for (_, mask), given in zip(pairs, self._told(_picked), strict=True):
            for few in reader.few(given):
                yield self._named(_read_here(reader, few, mask))

    def gathered(self):
        """Workers send codes of all rows: the driver makes rows of these, often.

        The same rows where nobody has codes, or memory has no room.
        """
        reader, function = self._its_reader(), self._batches.map_X
        if self._mask is not None or not reader.gives_codes:
            return self
        empty = self._named(self._empty)
        if self.n_rows * (function.code_bytes + 8 * len(empty)) > _stream.MOST_HELD:
            return self
        rows = KeptRows(
            {**columns, "X": Encoded(function.coded(columns["X"]))}
            for columns in self._told(reader.coded)
        )
        rows._reader = self._reader
        return rows

    def of_blocks(self, function, size, beside=()):
        """The same: a worker says it of blocks that are in one partition."""
        work = partial(
            _of_blocks, self._its_reader(), self._names, function, size, _blas_threads()
        )
        pieces, start, stop = [], 0, 0
        asked = self._shares(size, beside)
        for found in self._told(work, WITHOUT_ROWS, asked):
            for piece in found:
                if not isinstance(piece, _Piece):
                    yield piece
                    start = stop = stop + size
                    continue
                pieces.append(piece.columns)
                stop += column_length(piece.columns)
                if stop - start == size or stop == self.n_rows:
                    parts = (one[start:stop] for one in beside)
                    yield function(block_of(pieces, stop - start), *parts)
                    pieces, start = [], stop

    def _shares(self, size, beside) -> list[tuple]:
        """Partitions; their masks, rows before a whole block, and what is beside."""
        shares, start = [], 0
        for (part, mask), (n_rows, _) in zip(self._pairs(), self._prints, strict=True):
            stop = start + (n_rows if mask is None else int(mask.sum()))
            own = [one[start:stop] for one in beside]
            shares.append((part, (mask, -start % size, own)))
            start = stop
        return shares

    def _told(self, work, at_once: int = AT_ONCE, pairs: list | None = None):
        """What `work` says of partitions with rows and their masks, some at a time."""
        tasks = _tasks(work, pairs or self._pairs())
        for part in row_slices(len(tasks), at_once):
            answers = _computed(tasks[part])
            if _agreed(answers) != self._prints[part]:
                raise ChangedDataError
            for _, _, found in answers:
                if found is not None:
                    yield found

    def _answered(self, function, needs, reads):
        """Answers are given on the workers: only these travel, and what is read."""
        work = partial(_answers, self._its_reader(), function, needs, reads)
        return self._told(work, at_once=len(self._prints))

    def _pairs(self) -> list[tuple]:
        """Every partition, and a mask of its rows or None for all of them."""
        masks = [None] * len(self._prints)
        if self._mask is not None:
            ends = np.cumsum([n_rows for n_rows, _ in self._prints])
            masks = np.split(self._mask, ends[:-1])
        return list(zip(self._batches.partitions(), masks, strict=True))

    def read_by(self, read, names) -> DaskRows:
        """The same rows as another door reads them, out of some of the columns."""
        one = self.take(np.arange(1))
        pair = next(pair for pair in one._pairs() if pair[1].any())
        rows = object.__new__(type(self))
        Rows.__init__(rows, self.n_rows)
        kept = {k: v for k, v in vars(self).items() if k not in vars(rows)}
        rows.__dict__ |= {**kept, "_read": read, "_names": None, "_empty": None}
        rows._remake = None
        first, given = self._its_reader(), [name for name in names if name]
        rows._through = first, names
        (answer,) = _computed(_tasks(partial(_chosen, first, given), [pair]))
        _agreed([answer])
        rows._read_one(batch_of(answer[2], names))
        return rows

    def _its_reader(self):
        if self._through is not None:
            return _SecondReader(self._read, *self._through, self._remake)
        return _Reader(self._read, self._batches.map_X, self._remake)

    def _reader_there(self):
        import dask

        return dask.delayed(self._its_reader(), pure=False)


class _Reader:
    """The door of an estimator as a worker gets it: no ledger, no noise, no draft.

    Settings of scikit-learn, such as metadata routing, are the driver's.
    """

    def __init__(self, read, function, remake=None):
        self._config, self._function = get_config(), function
        self._remake = remake
        self._name, self._estimator = read.__name__, to_travel(read.__self__)

    def read(self, batch: tuple, mask=None) -> dict:
        """Private columns of a partition, or of some of its rows, and of no others.

        A row is mapped and read on its own: these are the bits of all rows together.
        """
        return self.read_picked(_picked(batch, mask), mask)

    def few(self, batch: tuple):
        """Some rows at a time, where each is mapped to many numbers."""
        lengths = {n_rows_of(column) for column in batch if column is not None}
        if not self._is_mapped or len(lengths) > 1:  # columns that differ are refused
            yield batch
            return
        for rows in row_slices(max(1, *lengths), _MAPPED):
            yield tuple(rows_of(column, rows) for column in batch)

    @property
    def _is_mapped(self) -> bool:
        return self._function is not None

    def read_picked(self, batch: tuple, mask) -> dict:
        """The same, of rows that were picked before."""
        columns = self.columns(self.mapped(batch))
        if mask is not None and not mask.any():
            columns = {k: rows_of(column, slice(0, 0)) for k, column in columns.items()}
        return columns

    def mapped(self, batch: tuple) -> tuple:
        """A partition as it is read; what is wrong here may quote a cell."""
        with config_context(**self._config):
            return map_batch(self._function, batch)

    @property
    def stands_in(self):
        """A function of X to what its answer can be refused for, None if to none."""
        return stand_in(self._function, self._estimator)

    def looked_at(self, batch: tuple):
        """The partition in parts, each as good as mapped for what may be refused."""
        if self.stands_in is None:
            return map(self.mapped, self.few(batch))
        X, y, groups = batch
        return [(self.stands_in(X), y, groups)]

    @property
    def gives_codes(self) -> bool:
        """Whether X is the answer of an encoder, and codes may stand for it."""
        return self.stands_in is not None and self._function.gives_codes

    def coded(self, batch: tuple, mask: None) -> dict:
        """Private columns of all rows, the codes of an encoder in the place of X."""
        (mapped,) = self.looked_at(batch)
        return {**self.columns(mapped), "X": self._function.codes(batch[0])}

    def columns(self, mapped: tuple) -> dict:
        """Private columns of a partition; what is wrong here quotes none."""
        with config_context(**self._config):
            columns = read_batch(getattr(self._estimator, self._name), mapped)
        return columns if self._remake is None else self._remake(columns)


class _SecondReader(_Reader):
    """The door of a wrapped model, which reads what the door of a repair has read."""

    def __init__(self, read, first, names, remake=None):
        super().__init__(read, None, remake)
        self._first, self._names = first, names

    @property
    def _is_mapped(self):
        return self._first._is_mapped

    stands_in = None

    def mapped(self, batch):
        columns = self._first.columns(self._first.mapped(batch))
        return batch_of(columns, self._names)


class _Held:
    """An object that dask neither looks into nor names by its contents."""

    def __init__(self, value):
        self.value = value


class _Part:
    """A partition and all that comes before it, done within the task that opens it."""

    def __init__(self, tasks: dict, key):
        self.tasks, self.key = tasks, key

    def open(self):
        from dask.core import get

        return get(self.tasks, self.key)


def _asked(X, *others) -> tuple:
    """A collection as it was before a model answered to it, and this model or None.

    A fit to answers chooses rows first, and asks for no answer that it leaves out.
    """
    answers = getattr(X, "__dict__", {}).get(_ANSWERS)
    if answers is None or answers.name != X.name:  # arrays can be written into
        return X, None
    if not _is_array(answers.X) and any(map(_is_array, others)):
        return X, None  # only arrays are cut like arrays
    X, function = _asked(answers.X, *others)
    return X, both(function, answers.model)


class _Answers(NamedTuple):
    """What a dask array is made of: remembered as an attribute of it."""

    name: str
    X: Any
    model: Any


def _silent(task):
    """A task that fails without a word: dask logs what an exception says."""

    @wraps(task)
    def answer(*args):
        end = _room()  # noqa: F841
        try:
            return task(*args)
        except Exception:
            return None

    return answer


def _room() -> np.ndarray:
    """Free memory, for as long as what is returned is held.

    Dask has the C library give back at once what is free at the end of its memory. New
    pages for each array cost more than the arithmetic: what is returned is the end.
    """
    spread = [np.empty(_PIECE, dtype=np.uint8) for _ in range(_PIECES)]
    end = np.empty(_PIECE, dtype=np.uint8)
    del spread
    return end


def _opened(part) -> tuple:
    batch = part.open() if isinstance(part, _Part) else part
    # Not all sparse formats have rows.
    return tuple(c.tocsr() if sparse.issparse(c) else c for c in batch)


@_silent
def _first(function, part):
    """The first row of a partition for the driver."""
    batch = _opened(part)
    if not n_rows_of(batch[0]):
        return ()  # another one tells
    return map_batch(function.value, tuple(rows_of(c, slice(0, 1)) for c in batch))


def _print_of(batch: tuple) -> tuple[int, int]:
    """Length and checksum of a partition as it is, before it is mapped and read."""
    return fingerprint(dict(enumerate(batch)))


def _bundle(X, y, groups) -> tuple:
    return X, y, groups


@_silent
def _measure(reader: _Reader, parts: list):
    """Length and checksum of partitions, or the sentence of what is wrong."""
    found = []
    for part in parts:
        found.append(_measured(reader, _opened(part)))
        if isinstance(found[-1], Exception):
            return found[-1]
    return found, kernels()


def _measured(reader: _Reader, batch: tuple):
    """The same of one, which is gone before the next is opened."""
    try:
        is_empty = has_no_rows(batch)
    except ValueError as error:
        return error
    for mapped in () if is_empty else reader.looked_at(batch):
        try:
            reader.columns(mapped)
        except (ValueError, TypeError) as error:
            return error
    return _print_of(batch)


@_silent
def _partition_total(reader: _Reader, query, state, pairs: list):
    totals: list = []
    prints = [_summed(reader, query, state, _opened(p), m, totals) for p, m in pairs]
    return prints, kernels(), reduce(add, totals) if totals else None


def _summed(reader: _Reader, query, state, batch: tuple, mask, totals: list) -> tuple:
    """Length and checksum of a partition, which is gone before the next is opened."""
    for few in () if has_no_rows(batch) else reader.few(_picked(batch, mask)):
        columns = reader.read_picked(few, mask)
        rows = Rows(column_length(columns), **columns)
        with np.errstate(all="ignore"):
            totals.append(rows.total(query, state.value))
    return _print_of(batch)


@_silent
def _told(work, part, mask):
    """What `work` says of the chosen rows of a partition, if it has rows."""
    batch = _opened(part)
    found = None if has_no_rows(batch) else work.value(batch, mask)
    return [_print_of(batch)], kernels(), found


def _tasks(work, pairs: list) -> list:
    """Tasks that each do some work on a partition and a mask of its rows."""
    import dask

    task, held = (dask.delayed(one, pure=False) for one in (_told, _Held(work)))
    return [task(held, *pair) for pair in pairs]


def _chosen(reader: _Reader, names, batch: tuple, mask) -> dict:
    """Columns of chosen rows."""
    columns = reader.read(batch, mask)
    return columns if names is None else {name: columns[name] for name in names}


def _answers(reader: _Reader, function, needs, reads, batch: tuple, mask) -> tuple:
    """Columns of chosen rows, and what a function says of others."""
    answers = []
    for few in reader.few(_picked(batch, mask)):
        with np.errstate(all="ignore"):
            columns = reader.read_picked(few, mask)
            answers.append(answer_to(columns, function, needs, reads))
    return joined_answers(answers)


def _of_blocks(
    reader: _Reader, names, function, size, n_threads, batch: tuple, asked
) -> list:
    """What a function says of whole blocks, and the rows of those that are not whole.

    With as many threads as the driver: sums of large products may depend on these.
    """
    mask, first, beside = asked
    picked = reader.few(_picked(batch, mask))
    parts = (reader.read_picked(few, mask) for few in picked)
    found: list = []
    start = 0
    with _of_threads(n_threads), np.errstate(all="ignore"):
        for block in blocks_of(parts, size, first):
            stop = start + block.n_rows
            if block.n_rows == size:
                found.append(function(block, *(one[start:stop] for one in beside)))
            else:
                columns = vars(block)
                found.append(_Piece({k: columns[k] for k in names or columns}))
            start = stop
    return found


class _Piece:
    """Rows of a block that goes on in another partition."""

    def __init__(self, columns: dict):
        self.columns = {k: c for k, c in columns.items() if k != "n_rows"}


_TURNS = threading.Lock()


@contextmanager
def _of_threads(n_threads):
    """As many threads for products of matrices; tasks of a worker take turns.

    The number belongs to the process: a task that ends would change it amid another.
    """
    with _TURNS, threadpool_limits(n_threads, "blas"):
        yield


def _blas_threads() -> int:
    """Threads of a product of matrices here."""
    pools = threadpool_info()
    counts = [pool["num_threads"] for pool in pools if pool["user_api"] == "blas"]
    return max(counts, default=1)


def _read_here(reader: _Reader, batch: tuple, mask) -> dict:
    """What :func:`_picked` gave, read at the driver; what is wrong is not told."""
    columns = _silent(reader.read_picked)(batch, mask)
    if columns is None:
        raise RuntimeError(_NOT_COMPUTED)
    return columns


def _picked(batch: tuple, mask) -> tuple:
    """Some rows; the first where none is chosen, as a table without rows is refused."""
    if mask is None:
        return batch
    rows = np.flatnonzero(mask) if mask.any() else np.arange(1)
    return tuple(rows_of(column, rows) for column in batch)


def _width(columns) -> int:
    """Number of cells of a row of some columns."""
    held = [column for column in columns if column is not None]
    shapes = [c.shape if hasattr(c, "shape") else np.shape(c.values) for c in held]
    return sum(shape[1] if len(shape) > 1 else 1 for shape in shapes)


def _taken(names: list, part) -> tuple:
    return tuple(None if name is None else part[name] for name in names)


def _names_of(column):
    """Of a frame's columns, or of a series."""
    if column is None:
        return None
    return list(column.columns) if column.ndim == 2 else column.name


def _one_frame(collections) -> Any:
    """The data frame that all are columns of: its files are then read once; or None.

    Also None where another version of dask has other names inside.
    """
    given = [column for column in collections if column is not None]
    try:
        return _frame_of(given)
    except (AttributeError, TypeError):
        return None


def _frame_of(given: list) -> Any:
    expressions = [getattr(column, "expr", None) for column in given]
    if {type(expression).__name__ for expression in expressions} != {"Projection"}:
        return None
    names = [_names_of(column) for column in given]
    wanted = sum((n if isinstance(n, list) else [n] for n in names), [])
    first = expressions[0].frame
    is_one = all(expression.frame._name == first._name for expression in expressions)
    if not is_one or len(set(first.columns)) < len(first.columns):
        return None
    # In a package of its own in older versions.
    home = sys.modules[type(given[0]).__module__]
    # In their order there: else the reader moves them.
    return home.new_collection(first)[[c for c in first.columns if c in set(wanted)]]


def _agreed(answers: list) -> list[tuple]:
    """Prints of all partitions; every worker has to compute like the driver."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise type(answer)(str(answer)) from None
        if answer[1] != kernels():
            raise RuntimeError(
                "A worker computes other bits than the driver: use the same versions "
                "of NumPy and fairpriv_sklearn and one kind of machine everywhere."
            )
    return [one for prints, *_ in answers for one in prints]


@lru_cache
def kernels() -> str:
    """Digest of what this machine makes of a canonical block of numbers."""
    block = np.sin(np.arange(1.0, 1 + 256 * 20)).reshape(256, 20)
    seen = [row_scores(block, block[:20, :7]), np.exp(block), np.tanh(block)]
    seen.append(block.T @ block)
    digest = hashlib.blake2b(np.__version__.encode(), digest_size=16)
    for values in (*seen, np.log1p(block**2)):
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _apart(parts: list) -> list:
    """The same with their own tasks alone: asked for one by one, all go along else."""
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph
    from dask.optimization import cull

    graph = HighLevelGraph.merge(*(part.__dask_graph__() for part in parts)).to_dict()
    return [Delayed(part.key, cull(graph, [part.key])[0]) for part in parts]


def _as_one(parts: list) -> list:
    """Partitions that open within one task, if no two of them share what comes before.

    Partitions stay as they are cut; an optimised graph may join those of files.
    """
    graphs = [part.dask for part in parts]
    if len(set().union(*graphs)) < sum(map(len, graphs)):
        return parts
    for tasks in graphs:
        for task in tasks.values():
            # A task of older versions says nothing of them, nor do data that a cluster
            # or the driver holds: those are asked for as they were.
            needs = getattr(task, "dependencies", None)
            if not isinstance(needs, frozenset) or not needs <= tasks.keys():
                return parts
    return [_Part(part.dask, part.key) for part in parts]


def _few(parts: list) -> list:
    """What each task opens: a partition, or a few of many, one after the other.

    The number of partitions decides, and nothing that is in them.
    """
    first = parts[0][0] if isinstance(parts[0], tuple) else parts[0]
    size = 1
    if isinstance(first, _Part):
        size = min(AT_ONCE, 1 + len(parts) // MANY)
    return [parts[i : i + size] for i in range(0, len(parts), size)]


def _computed(tasks: list) -> list:
    """Answers of the tasks; what went wrong in one of them is not told."""
    import dask

    try:
        answers = list(dask.compute(*tasks))
    except Exception:
        answers = [None]
    if any(answer is None for answer in answers):
        raise RuntimeError(_NOT_COMPUTED)
    return answers


_NOT_COMPUTED = (
    "A partition could not be computed. What went wrong is left out, as it may hold "
    "private values: compute the collection alone to see it."
)


def _pieces(collection, X):
    if collection is None:
        return None
    if not is_dask(collection):
        raise ValueError(
            "With a dask X, y and sensitive_features must be dask collections as well."
        )
    if _is_array(X) and _is_array(collection):
        sizes = [X.chunks[0], *((n,) for n in collection.shape[1:])]
        if collection.shape[0] != X.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples."
            )
        collection = collection.rechunk(tuple(sizes))
    # Only the columns that are asked for are read from a Parquet file. Optimised as a
    # whole, one by one, columns of a file may get other partitions.
    if hasattr(type(collection), "simplify"):
        collection = collection.simplify()
    delayed = collection.to_delayed(optimize_graph=False)
    return list(np.ravel(delayed)) if isinstance(delayed, np.ndarray) else delayed


def _one_block_wide(X):
    """An array cut along its rows only, with known lengths."""
    if not _is_array(X):
        return X
    if any(np.isnan(size) for size in X.chunks[0]):
        X = X.compute_chunk_sizes()
    return X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X


def _is_array(collection) -> bool:
    """Whether this is a dask array: a frame has columns of any name as attributes."""
    return hasattr(type(collection), "rechunk")


def blockwise(answer, X, sensitive_features=None):
    """Answers of a prediction method for a dask X: lazy, partition by partition.

    Parameters
    ----------
    answer : callable
        ``answer(X, sensitive_features)`` of one partition; it is pickled.
    X, sensitive_features : dask collection or None
        Cut alike; arrays are cut like X.
    """
    import dask
    import dask.array as da

    X = _one_block_wide(X)
    parts = _pieces(X, None)
    groups = _pieces(sensitive_features, X) or [None] * len(parts)
    if len(groups) != len(parts):
        raise ValueError("X and sensitive_features must have the same partitions.")
    is_typed = hasattr(type(X), "dtype") and X.dtype.kind in "biuf"
    if groups[0] is None and is_typed:
        shape, dtype = _example(answer, np.zeros((1, *X.shape[1:]), X.dtype), None)
    else:
        task = dask.delayed(_example, pure=False)
        tasks = (task(answer, *both) for both in zip(parts, groups, strict=True))
        examples = (_computed([task])[0] for task in tasks)
        shape, dtype = next(filter(None, examples), ((), np.float64))
    sizes = X.chunks[0] if _is_array(X) else [np.nan] * len(parts)
    there, empty = dask.delayed(_answer, pure=False), np.empty((0, *shape), dtype)
    blocks = [
        da.from_delayed(there(answer, empty, part, group), (size, *shape), dtype=dtype)
        for part, group, size in zip(parts, groups, sizes, strict=True)
    ]
    answers = da.concatenate(blocks, axis=0, allow_unknown_chunksizes=True)
    if sensitive_features is None:
        setattr(answers, _ANSWERS, _Answers(answers.name, X, answer))
    return answers


def _answer(answer, empty, part, groups):
    """The answer to a partition, which may have no rows."""
    return answer(part, groups) if n_rows_of(part) else empty


def _example(answer, X, groups) -> tuple:
    """Shape and type of the answer to the first row of a partition, if there is one."""
    if not n_rows_of(X):
        return ()
    X, groups = (None if c is None else rows_of(c, slice(0, 1)) for c in (X, groups))
    answered = answer(X, groups)
    return answered.shape[1:], answered.dtype
