"""Who inside an estimator reads the cells of its table, and which these refuse.

Before anything is spent: what learns nothing is tried, what learns is asked.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_array, get_tags

from .._shared.domain import domain, finite_sparse, refuse_dates
from .._shared.guarded import (
    WrappedEstimatorError,
    ask_wrapped,
    fit_to_made_up,
    guarded,
)
from .._shared.nested import owners
from .._shared.sklearn import safe_indexing
from .._wall import learns_nothing
from .estimator import DPEstimator
from .inside import first_step, is_scikit_learns_model, models_inside


def refuse_cells(estimator, X) -> None:
    """Refuse cells that an estimator inside would, before anything is spent.

    Arrays of numbers are checked for all, other tables for those that read every column
    as a number; elsewhere frames may hold text.
    """
    readers = list(_readers(estimator, X))
    for reader, table in readers:
        if isinstance(reader, DPEstimator):
            reader._refuse_cells(table)
    first = reader_of(estimator)
    if all(first is not reader for reader, _ in readers):
        readers.append((first, X))
    for reader, table in readers:
        if reader is not None:  # nothing but "passthrough"
            _refuse_unread(reader, table)


def _readers(estimator, X=None) -> Iterator[tuple]:
    """Estimators that see columns as they are, and the table of these.

    Those are private ones: a first step, what it wraps, what a `ColumnTransformer` or
    a `FeatureUnion` hands columns; and whatever stands behind steps that learn nothing.
    Without a table only private ones are told that see all of it.
    """
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if hasattr(step, "fit")]
        for step, behind in zip(steps, [*steps[1:], None], strict=True):
            X, table = (yield from _read_by(step, X)), X
            if X is None:
                if not (table is None or behind is None):
                    _refuse_passed(step, table, _reader_behind(behind))
                return
    elif isinstance(estimator, ColumnTransformer) and X is not None:
        for _, step, columns in estimator.transformers:
            if not callable(columns):
                table = _choose(guarded, safe_indexing, X, columns, axis=1)
                yield from _read_by(step, table)
    elif isinstance(estimator, FeatureUnion) and X is not None:
        for _, step in estimator.transformer_list:
            yield from _read_by(step, X)
    elif isinstance(estimator, DPEstimator):
        yield estimator, X
        if getattr(estimator, "sensitive_features", None) is None:
            # Else what it wraps sees fewer.
            yield from _readers(getattr(estimator, "estimator", None), X)
    elif is_scikit_learns_model(estimator):
        for inner in models_inside(estimator):
            yield from _readers(inner, X)


def _read_by(step, X) -> Generator[tuple, None, Any]:
    """`_readers` of a step, itself if it does more than hand on, and what it hands on.

    That is None where it learns, which may take time.
    """
    yield from _readers(step, X)
    if X is None or not hasattr(step, "fit"):
        return X
    if _is_tried(step):
        with suppress(WrappedEstimatorError):
            return _tried(step, X)
        raise ValueError(_not_taken(step))
    if not isinstance(step, DPEstimator) and len(getattr(X, "shape", "XY")) == 2:
        yield step, X  # one that chooses a column by its name alone reads no table
    return None


def _refuse_passed(step, X, reader) -> None:
    """Refuse cells of columns that go by a private encoder to what reads numbers."""
    for table in _passed(step, X):
        if not hasattr(table, "shape"):
            table = np.array(table, dtype=object)
        if len(table.shape) != 2:
            return  # the encoder says so
        if reader is not None and table.shape[1]:
            if _reads_numbers(reader, table)[0]:
                refuse_dates(table)  # beside numbers no model takes them
            _refuse_unread(reader, table)


def _passed(step, X) -> Iterator:
    """What a step that puts tables side by side hands on as it is, or may be tried."""
    if isinstance(step, ColumnTransformer):
        parts = [(name, one) for name, one, _ in step.transformers]
        parts.append(("remainder", step.remainder))
        kept = [name for name, one in parts if isinstance(one, str) or _is_tried(one)]
        others = {name: "drop" for name, _ in parts if name not in kept}
        passed = clone(step).set_params(sparse_threshold=0, **others)
        yield _choose(_tried, passed, X)
    elif isinstance(step, FeatureUnion):
        for _, one in step.transformer_list:
            if one == "passthrough":
                yield X
            elif _is_tried(one):  # and takes these cells, as was found before
                yield _tried(one, X)


def _tried(step, X):
    """What a step that may be tried makes of a table."""
    method = "transform" if isinstance(step, FrozenEstimator) else "fit_transform"
    # With copy=False a step writes into what it is handed.
    table = X.copy() if hasattr(X, "copy") else X
    return ask_wrapped(clone(step), method, table, private=True)


def _is_tried(step) -> bool:
    """Whether a step may be tried: cells that it does not take, no fit inside takes.

    It is fitted already, learns nothing, or fills gaps in a way that no other cell
    makes fail.
    """
    if isinstance(step, Pipeline):
        # A cache would hold rows that nothing was spent for.
        return step.memory is None and all(_is_tried(one) for _, one in step.steps)
    if isinstance(step, ColumnTransformer):
        parts = [step.remainder, *(one for _, one, _ in step.transformers)]
        return all(isinstance(one, str) or _is_tried(one) for one in parts)
    if isinstance(step, FunctionTransformer):
        return isinstance(step.func, np.ufunc) or learns_nothing(step)
    if isinstance(step, FrozenEstimator):
        return hasattr(step, "transform")
    if isinstance(step, SimpleImputer):
        return step.strategy in ("constant", "most_frequent")
    return hasattr(step, "transform") and learns_nothing(step)


def _not_taken(step) -> str:
    """What is said of a cell that a step which learns nothing does not take."""
    step = step.estimator if isinstance(step, FrozenEstimator) else step
    if isinstance(step, FunctionTransformer):
        return (
            "X has a cell that the function of a FunctionTransformer does not take: "
            "pass it columns of numbers, and these not as objects."
        )
    if hasattr(step, "handle_unknown") and not isinstance(step, DPEstimator):
        return (
            f"X has a cell that is not in the categories of {type(step).__name__}: add "
            "it to the public lists, or set handle_unknown to what takes it."
        )
    return (
        f"X has a column or a cell that {type(step).__name__}, which stands before the "
        "model, does not take: leave it out or replace it; where columns have names, "
        "pass X as a data frame."
    )


def _choose(call, *args, **named):
    """Choose columns, or say what is wrong: their names are public."""
    with suppress(WrappedEstimatorError):
        return call(*args, **named)
    raise ValueError(
        "A ColumnTransformer cannot choose its columns from X: let it name columns of "
        "X, none that `sensitive_features` takes out of it, and pass X as a data frame "
        "of pandas or polars."
    )


def _refuse_unread(reader, X) -> None:
    """Refuse cells that one estimator cannot read."""
    reads_numbers, allow_nan = _reads_numbers(reader, X)
    is_plain = isinstance(X, np.ndarray) and X.dtype.kind != "O"
    # Numbers need no copy in double precision to be looked at; longer ones may be
    # finite before it and not after.
    has_numbers = is_plain and X.dtype.kind in "biuf" and X.dtype.itemsize <= 8
    if reads_numbers and isinstance(reader, DPEstimator):
        refuse_dates(X)
    if reads_numbers or is_plain or sparse.issparse(X):
        with domain("X"):
            check_array(
                finite_sparse(X),
                accept_sparse=get_tags(reader).input_tags.sparse,
                dtype=np.float64 if reads_numbers and not has_numbers else None,
                ensure_all_finite=not allow_nan,
                estimator=reader,
                input_name="X",
            )
    of_text = is_plain and X.dtype.kind in "US"
    if of_text and reads_numbers and not isinstance(reader, DPEstimator):
        _refuse_text(reader, X.shape[1])


def _refuse_text(reader, n_columns: int) -> None:
    """Refuse numbers that are text where a model takes numbers, and none that are text.

    Half of those of scikit-learn take an array of them; made-up rows tell.
    """
    rows, y = np.resize([0.0, 1.0], (40, n_columns)), np.arange(40) % 2
    is_taken = []
    for table in (rows, rows.astype(str)):
        with suppress(Exception):
            fit_to_made_up(clone(reader), table, y)
            is_taken.append(table)
    if len(is_taken) == 1:
        raise ValueError(
            f"X is an array of text, and {type(reader).__name__} takes numbers that "
            "are no text: pass X.astype(float)."
        )


def _reads_numbers(reader, X) -> tuple[bool, bool]:
    """Whether a reader takes numbers only, as it says, and whether these may be gaps.

    What one of another package, or behind named columns, takes is not known.
    """
    tags = get_tags(reader)
    told = tags.input_tags.string or tags.input_tags.categorical or tags.no_validation
    if isinstance(reader, DPEstimator):
        is_last = not hasattr(reader, "estimator")
        known = is_last and getattr(reader, "sensitive_features", None) is None
    else:
        # Boosted trees take categories of pandas, and do not say so.
        dtypes = getattr(X, "dtypes", ())
        listed = any(hasattr(dtype, "categories") for dtype in dtypes)
        listed = listed and hasattr(reader, "categorical_features")
        # What fills gaps, or picks columns, takes text, and does not say so either;
        # but for means.
        is_theirs = re.match(r"sklearn\.(?!impute|compose)", type(reader).__module__)
        known = is_theirs is not None or getattr(reader, "strategy", "") in _MEANS
        known = known and len(owners(reader)) == 1 and not listed
        known = known and tags.input_tags.two_d_array
    return known and not told, tags.input_tags.allow_nan


_MEANS = ("mean", "median")


def reader_of(estimator):
    """What reads the cells that an estimator is handed; None if nothing does."""
    if isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    *_, reader = first_step(estimator), *(reader for reader, _ in _readers(estimator))
    known = hasattr(reader, "__sklearn_tags__")
    return reader if known else None  # who fits what is no estimator says so


def _reader_behind(step):
    """The same of a step behind others: a repair hands its columns on."""
    reader = reader_of(step)
    while hasattr(type(reader), "_base_method") and reader.sensitive_features is None:
        reader = reader_of(reader.estimator)
    return reader
