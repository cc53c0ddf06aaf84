"""Everything that comes out of a fit, as leaves that can be compared and measured."""

import contextlib
import copyreg
import io
import logging
import pickle
import types
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from .._shared.purity import closed_over

_MAX_DEPTH = 60
_SKIPPED = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
# What a fit may know of its own randomness, and where it writes what it spent.
_NOT_RELEASED = {"ledger", "accountant", "random_state", "_draft_of"}


@dataclass
class Outcome:
    """What one fit gave.

    Parameters
    ----------
    model : object
        The estimator after `fit`, also after one that raised.
    error : str
        Class and text of the exception and of its causes; empty without one.
    texts : tuple of str
        Warnings, log records, what was printed.
    tape : object
        What a recorder saw.
    """

    model: Any
    error: str = ""
    texts: tuple[str, ...] = ()
    tape: Any = None
    exception: BaseException | None = None
    _leaves: dict = field(default=None, repr=False)

    @property
    def leaves(self) -> dict:
        """Path to leaf of all attributes."""
        if self._leaves is None:
            self._leaves = leaves_of(self.model)
        return self._leaves

    def numbers(self) -> np.ndarray:
        """All numeric leaves in one vector; NaN reads as infinity."""
        arrays = [v.ravel() for v in self.leaves.values() if isinstance(v, np.ndarray)]
        if not arrays:
            return np.empty(0)
        with np.errstate(all="ignore"):
            vector = np.concatenate([a.astype(np.float64) for a in arrays])
        return np.where(np.isnan(vector), np.inf, vector)

    def signature(self) -> tuple:
        """All of the model that is not a number: names, types, shapes, errors."""
        shape = tuple(
            (path, leaf.dtype.str, leaf.shape)
            if isinstance(leaf, np.ndarray)
            # A Python number may be whole by chance: its value is among the numbers.
            else (path, leaf)
            for path, leaf in self.leaves.items()
        )
        return shape, self.error


def run(estimator, table, tape=None) -> Outcome:
    """Fit an estimator and catch everything that comes out.

    Parameters
    ----------
    estimator : estimator
        Unfitted; it is fitted itself, and not a clone.
    table : Table
    tape : object, default=None
        Kept in the outcome.

    Returns
    -------
    Outcome
    """
    with listening() as texts:
        outcome = attempt(estimator, table, tape)
    outcome.texts = tuple(texts)
    return outcome


def attempt(estimator, table, tape=None) -> Outcome:
    """Fit an estimator and catch what it raises; its warnings are not looked at."""
    try:
        table.fit(estimator)
    except Exception as raised:
        return Outcome(estimator, _error_text(raised), (), tape, raised)
    return Outcome(estimator, tape=tape)


@contextlib.contextmanager
def listening():
    """Yield a list that holds, in the end, all warnings, log records and output."""
    heard, printed, records = [], io.StringIO(), []
    handler, root = logging.Handler(), logging.getLogger()
    handler.emit = lambda record: records.append(f"log: {record.getMessage()}")
    root.addHandler(handler)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            yield heard
    finally:
        root.removeHandler(handler)
    heard += [f"{one.category.__name__}: {one.message}" for one in caught]
    heard += records
    if printed.getvalue():
        heard.append(printed.getvalue())


def _error_text(error) -> str:
    parts, seen = [], set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        parts.append(f"{type(error).__name__}: {error}")
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)
    return " <- ".join(parts)


def leaves_of(value) -> dict:
    """Flatten an object: path to numeric array, or to a hashable text.

    Parameters
    ----------
    value : object

    Returns
    -------
    dict
        Numbers as arrays, everything else as text.
    """
    found: dict[str, Any] = {}
    _walk(value, "", found, {}, 0)
    return found


def _walk(value, path, found, seen, depth):
    if isinstance(value, bool | np.bool_ | type(None) | str | bytes):
        found[path] = f"{type(value).__name__} {value!r}"
    elif isinstance(value, int | float | complex | np.number):
        number = np.asarray(value)
        # a whole number of any length: NumPy would compare where it lies
        found[path] = f"int {value}" if number.dtype == object else number
    elif _is_numeric(value):
        found[path] = value
        if id(value) not in seen:
            seen[id(value)] = value
            for name, item in _beside(value):
                _walk(item, f"{path}{name}", found, seen, depth + 1)
    elif isinstance(value, _SKIPPED) or isinstance(value, types.ModuleType | type):
        found[path] = getattr(value, "__qualname__", type(value).__qualname__)
    elif depth > _MAX_DEPTH or id(value) in seen:
        found[path] = "seen before"
    else:
        seen[id(value)] = value  # kept alive: an id is used again otherwise
        found[path] = _title(value)
        for name, item in chain(_inside(value), _beside(value)):
            _walk(item, f"{path}{name}", found, seen, depth + 1)


def _is_numeric(value) -> bool:
    plain = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)
    return plain and value.dtype.kind in "biufc"


def _title(value) -> str:
    """What is told of an object besides what it holds."""
    if isinstance(value, list | tuple | dict):
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, set | frozenset):
        return f"set {sorted(map(repr, value))}"
    if sparse.issparse(value) or hasattr(value, "iloc"):
        return f"{type(value).__name__} {value.shape}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape}"
    return getattr(value, "__qualname__", type(value).__qualname__)


def _inside(value):
    """Names and values of all that an object holds."""
    if isinstance(value, np.generic | np.ndarray):
        yield from _inside_array(np.asanyarray(value))
    elif sparse.issparse(value):
        coo = value.tocoo()
        yield ".data", coo.data
        yield ".coords", np.stack([coo.row, coo.col])
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        return  # its title tells all
    elif isinstance(value, memoryview | bytearray):
        yield ".bytes", bytes(value)
    elif isinstance(value, types.FunctionType):
        yield ".defaults", [value.__defaults__, value.__kwdefaults__, vars(value)]
        yield ".closure", closed_over(value)
    elif isinstance(value, types.MethodType | types.BuiltinFunctionType):
        yield ".of", value.__self__
    elif hasattr(value, "iloc") or callable(getattr(value, "__array__", None)):
        yield from _inside_column(value)
    else:
        attributes = _attributes(value)
        yield from ((f".{name}", item) for name, item in attributes.items())
        yield from _inside_state(value, bool(attributes))


def _beside(value):
    """Attributes that a list, or whatever holds items, was given besides.

    And the array of which another one is a part: it stays in memory as a whole.
    """
    if isinstance(value, np.ndarray):
        whole = value.base
        if isinstance(whole, np.ndarray) and whole.nbytes > value.nbytes:
            yield ".base", whole
    if isinstance(value, Mapping | list | tuple | set | frozenset | np.ndarray):
        yield from ((f".{name}", item) for name, item in _attributes(value).items())
    if isinstance(value, defaultdict):
        yield ".default", value.default_factory


def _inside_array(array):
    """An array that is not one of numbers."""
    if isinstance(array, np.ma.MaskedArray):
        yield ".data", array.data
        yield ".mask", np.ma.getmaskarray(array)
    elif array.dtype.names is not None:
        yield from ((f"[{name!r}]", array[name]) for name in array.dtype.names)
    elif array.dtype.kind in "OUST":
        yield from ((f"[{i}]", item) for i, item in enumerate(array.ravel().tolist()))
    elif array.dtype.kind in "mM":
        yield ".numbers", array.astype(np.int64)
    else:
        yield ".bytes", array.tobytes()


def _inside_column(value):
    """Frames, their columns and indexes, and whatever else becomes an array."""
    yield ".values", np.asarray(value)
    for name in ("index", "columns", "names", "name", "attrs"):
        held = getattr(value, name, None)
        if held is not None and not callable(held):
            yield f".{name}", held
    dtypes = getattr(value, "dtypes", None)
    dtypes = (
        [getattr(value, "dtype", None)] if dtypes is None else np.atleast_1d(dtypes)
    )
    for i, dtype in enumerate(dtypes):
        yield f".dtypes[{i}]", [str(dtype), getattr(dtype, "categories", None)]


def _inside_state(value, has_attributes: bool):
    """What pickle would keep of an object that is not written in Python."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        parts = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:
        return
    if isinstance(parts, str):
        return
    _, made_of, state, members, items = (*parts, None, None, None)[:5]
    held = {
        ".made_of": [one for one in made_of if not isinstance(one, type)],
        ".state": None if has_attributes else state,
        ".members": list(members or ()),
        ".items": list(items or ()),
    }
    yield from ((name, item) for name, item in held.items() if item)


def _attributes(value) -> dict:
    attributes = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if isinstance(name, str) and hasattr(value, name):
                attributes.setdefault(name, getattr(value, name))
    return {k: v for k, v in attributes.items() if k not in _NOT_RELEASED}


def differences(first: Outcome, second: Outcome) -> list[str]:
    """Say where two outcomes differ, bit by bit; empty if nowhere.

    Parameters
    ----------
    first, second : Outcome

    Returns
    -------
    list of str
        One line for each attribute or text; no values.
    """
    found = []
    if first.error != second.error:
        kinds = [one.error.partition(":")[0] or "nothing" for one in (first, second)]
        found.append(f"exception: {kinds[0]} against {kinds[1]}")
    if first.texts != second.texts:
        found.append(f"warnings or output: {len(first.texts)} or {len(second.texts)}")
    return found + leaf_differences(first.leaves, second.leaves)


def leaf_differences(first: dict, second: dict) -> list[str]:
    """Say which leaves differ.

    Parameters
    ----------
    first, second : dict
        From `leaves_of`.

    Returns
    -------
    list of str
    """
    found = []
    for path in dict.fromkeys([*first, *second]):
        if path not in first or path not in second:
            found.append(f"attribute {path}: there in one only")
        elif not _same(first[path], second[path]):
            found.append(f"attribute {path}")
    return found


def _same(a, b) -> bool:
    are_arrays = [isinstance(one, np.ndarray) for one in (a, b)]
    if not all(are_arrays):
        return not any(are_arrays) and a == b
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def pickled(model) -> dict:
    """Leaves of an object after a journey through pickle; a text if it has none.

    Parameters
    ----------
    model : object

    Returns
    -------
    dict
    """
    try:
        return leaves_of(pickle.loads(pickle.dumps(model)))
    except Exception as error:
        return {"": f"not pickled: {type(error).__name__}"}
