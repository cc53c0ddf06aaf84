"""Checks of arguments of public functions: one sentence that names the argument."""

import contextlib
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Set
from functools import wraps
from numbers import Integral, Real
from typing import Any

import numpy as np

from .callers import all_checks, usual_underflow

Rule = Callable[[str, Any], Any]


def checked(old_names: Mapping[str, str] | None = None, /, **rules: Rule):
    """Pass the named arguments of a function through their rules.

    A rule takes the name and the value, and returns the value to go on with or raises
    a `ValueError` or `TypeError` that names the argument and quotes no array. Names
    that arguments had once are refused.
    """

    def decorate(function):
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args, **kwargs):
            refuse_old_names(function, old_names or {}, kwargs)
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:  # Python's names no function
                names = signature.parameters.values()  # without the types
                bare = [name.replace(annotation=name.empty) for name in names]
                takes = inspect.Signature(bare)
                said = f"{function.__qualname__}: {error}; it takes {takes}."
                raise TypeError(said) from None
            for name, rule in rules.items():
                if name in bound.arguments:
                    bound.arguments[name] = rule(name, bound.arguments[name])
            with usual_underflow(), all_checks():
                return function(*bound.args, **bound.kwargs)

        return call

    return decorate


def refuse_old_names(owner, old_names: Mapping[str, str], given) -> None:
    """Refuse names that arguments had once; one sentence says those they have now."""
    for old, new in old_names.items():
        if old in given:
            raise TypeError(f"{owner.__name__}: the argument {old!r} is now {new!r}.")


def number(low: float, high: float, closed: str = "both") -> Rule:
    """A real number between two ends, as a float."""
    left = "[" if closed in ("both", "left") else "("
    right = "]" if closed in ("both", "right") else ")"
    interval = f"{left}{low}, {high}{right}"

    def rule(name, value):
        if not is_number(value):
            raise TypeError(
                f"{name} must be a number in {interval}, got {described(value)}."
            )
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        above = low < number or (number == low and left == "[")
        below = number < high or (number == high and right == "]")
        if not (above and below):
            raise ValueError(f"{name} must be in {interval}, got {number!r}.")
        return value if isinstance(value, int) and abs(value) < 2**53 else number

    return rule


def real(name: str, value):
    """A real number; its range is the function's own to check."""
    if not is_number(value):
        raise TypeError(f"{name} must be a number, got {described(value)}.")
    if isinstance(value, int) and abs(value) > 2**53:
        # NumPy does not know integers of any size.
        return math.copysign(math.inf, value) if abs(value) > 2**1000 else float(value)
    return as_python(value)


def as_python(value):
    """A number of NumPy as one of Python: half precision, or 256 = 0, is not meant."""
    if isinstance(value, np.floating):
        return float(value)
    return int(value) if isinstance(value, np.integer) else value


def count(low: int, high: int = 2**62) -> Rule:
    """A whole number between two ends, as an int."""

    def rule(name, value):
        if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
            raise TypeError(
                f"{name} must be an int of at least {low}, got {described(value)}."
            )
        if not low <= value <= high:
            raise ValueError(f"{name} must be an int in [{low}, {high}], got {value}.")
        return int(value)

    return rule


def optional(rule: Rule) -> Rule:
    """None, or what `rule` lets pass."""
    return lambda name, value: None if value is None else rule(name, value)


def must_be(what: str, check: Callable[[Any], bool], error=TypeError) -> Rule:
    """What passes a check, as it is, and what it is then called."""

    def rule(name, value):
        if not check(value):
            raise error(f"{name} must be {what}, got {described(value)}.")
        return value

    return rule


def one_of(*words) -> Rule:
    """One of some words."""
    return must_be(
        f"one of {list(words)}",
        lambda value: isinstance(value, str) and value in words,
        ValueError,
    )


def each(rule: Rule) -> Rule:
    """A list whose values all pass a rule."""

    def of(name, value):
        return [rule(name, one) for one in listed(name, value)]

    return of


def listed(name: str, value) -> list:
    """A list, or anything like one; what is in it is the function's own to check."""
    several = isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0
    if isinstance(value, str | bytes) or not several:
        raise TypeError(f"{name} must be a list, got {described(value)}.")
    return list(value)


def having(what: str, *attributes: str) -> Rule:
    """An object that has some attributes, and what it is then called."""

    def has_all(value) -> bool:
        return not isinstance(value, type) and all(
            hasattr(value, a) for a in attributes
        )

    return must_be(what, has_all)


calls = must_be("callable", callable, ValueError)
fits = having("an estimator", "fit")
path = must_be("a path", lambda value: isinstance(value, str | os.PathLike))
spender = must_be(
    "a PrivacyLedger or None",
    lambda value: value is None or hasattr(value, "spend"),
    ValueError,
)
text = must_be(
    "a string", lambda value: isinstance(value, str) and value != "", ValueError
)
# Which strings there are is the function's own to check.
word = must_be("a string", lambda value: isinstance(value, str))


def flag(name: str, value):
    """True or false."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {described(value)}.")
    return bool(value)


flag_or_none = must_be(
    "True, False or None",
    lambda value: value is None or isinstance(value, bool | np.bool_),
)


def position(name: str, value, size: int) -> int:
    """One of `size` places, counted from 0."""
    return count(0, size - 1)(name, value)


def codes(name: str, value):
    """One non-negative whole number per row."""
    array = np.asarray(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must be a one-dimensional array of integers, got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    return array if array.size else array.astype(np.int64)


def places(size: int) -> Rule:
    """One of `size` places for each row, counted from 0."""

    def rule(name, value):
        array = codes(name, value)
        if array.size and not 0 <= array.min() <= array.max() < size:
            raise ValueError(f"{name} must be in [0, {size - 1}].")
        return array.astype(np.int64, copy=False)

    return rule


def numbers(name: str, value):
    """An array of numbers; shape and range are the function's own to check."""
    if type(value) is np.ndarray and value.dtype.kind in "iuf":
        return value
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        with np.errstate(all="ignore"):
            array = np.asarray(value)
            if array.dtype.kind not in "cmM":  # complex, or counts of some unit of time
                return array if array.dtype.kind in "iuf" else array.astype(np.float64)
    # Outside the handler: the first error, which quotes a cell, is not the context.
    raise ValueError(
        f"{name} must be an array of numbers; a value cannot be read as one."
    )


def floats(ndim: int, *, min_rows: int = 1) -> Rule:
    """A finite array of float64 with `ndim` dimensions."""

    def rule(name, value):
        form = f"{name} must be an array of finite numbers with {ndim} dimension"
        form += "s" if ndim > 1 else ""
        array = np.asarray(numbers(name, value), dtype=np.float64)
        if array.ndim != ndim:
            raise ValueError(f"{form}, got {array.ndim}.")
        if len(array) < min_rows:
            rows = "row" if min_rows == 1 else "rows"
            raise ValueError(
                f"{form} and at least {min_rows} {rows}, got {len(array)}."
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{form}; it holds NaN or infinity.")
        return array

    return rule


def seed(name: str, value):
    """None, an int of 32 bits, or a random generator of NumPy."""
    if isinstance(value, np.random.RandomState | np.random.Generator) or value is None:
        return value
    if isinstance(value, Integral) and not isinstance(value, bool | np.bool_):
        if 0 <= int(value) < 2**32:
            return int(value)
    raise ValueError(
        f"{name} must be None, an int in [0, 2**32 - 1] or a RandomState, got "
        f"{described(value)}."
    )


def column(name: str, value):
    """One value per row, as a one-dimensional array."""
    with np.errstate(all="ignore"):
        array = np.asarray(value)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got an array of shape {array.shape}."
        )
    return array


def plain_labels(name: str, value) -> list:
    """Labels that can be told apart and counted: strings, numbers, tuples of them."""
    # What has no order of its own would be in another one in another process.
    no_list = isinstance(value, str | bytes | Mapping | Set)
    if no_list or not hasattr(value, "__iter__"):
        raise TypeError(f"{name} must list the labels, got {described(value)}.")
    value = value.tolist() if isinstance(value, np.ndarray) else value
    labels = [tuple(one) if isinstance(one, list) else one for one in value]
    try:
        hash(tuple(labels))
    except TypeError:
        what = "must list plain labels, such as strings or numbers."
        raise TypeError(f"{name} {what}") from None
    return labels


def public_labels(name: str, value) -> list:
    """A public list of labels: each of them once, none missing."""
    labels = plain_labels(name, value)
    if any(map(is_missing_label, labels)):
        raise ValueError(f"{name} contains a missing label; give it a name.")
    if len(set(labels)) < len(labels):
        raise ValueError(f"{name} lists a label twice: {labels!r}; list each once.")
    # One float among whole numbers makes a column of floats, which moves all records.
    if len(set(map(_in_double_precision, labels))) < len(labels):
        raise ValueError(
            f"{name} lists whole numbers that are the same as floats: {labels!r}; pass "
            "them as text."
        )
    return labels


def _in_double_precision(label):
    if isinstance(label, tuple):
        return tuple(map(_in_double_precision, label))
    try:
        return float(label) if is_number(label) else label
    except (OverflowError, TypeError):  # a span of time is a number for NumPy
        return label


def is_missing_label(label) -> bool:
    """None, NaN, NaT, pandas.NA, the infinities, and tuples that hold one of them."""
    if isinstance(label, tuple):
        return any(map(is_missing_label, label))
    if label is None or type(label).__name__ == "NAType":
        return True
    return bool(label != label) or (isinstance(label, float) and math.isinf(label))


def is_number(value) -> bool:
    """Whether a value is a real number, not a truth value."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def described(value) -> str:
    """A short value as it is, anything else by its type: arrays are not quoted."""
    if value is None or isinstance(value, bool | int | float):
        text = repr(value)
        return text if len(text) <= 30 else type(value).__name__
    if isinstance(value, str) and len(value) <= 30:
        return repr(value)
    return f"an object of type {type(value).__name__}"


class InBatches:
    """What is read batch by batch.

    Told by its type: a frame hands out a column of any name as an attribute.
    """

    def read(self, read: Callable):
        """Hand each batch to `read`, as `read_rows` hands it a whole table."""
        raise NotImplementedError


def is_dask(collection) -> bool:
    """Whether this is a dask collection; dask is not imported to find out."""
    return type(collection).__module__.split(".")[0] in ("dask", "dask_expr")


def comes_in_parts(X) -> bool:
    """Whether X is `Batches` or a dask collection."""
    return isinstance(X, InBatches) or is_dask(X)


def refuse_batches(X, name: str) -> None:
    """Raise if `X` is `Batches`, where the whole table is needed."""
    if isinstance(X, InBatches):
        raise TypeError(
            f"{name} needs the whole table in memory: pass arrays or data frames in "
            "place of Batches."
        )
