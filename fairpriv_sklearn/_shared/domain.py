"""The edge of the public domain: what validation of private values may say.

Whether a table is in the domain is the only thing an exception may reveal. The
sentences of NumPy and scikit-learn often quote the cell that they could not read, and
summing finite extremes can warn; neither may reach the outside.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dis import opmap
from inspect import getmembers, isdatadescriptor
from os import PathLike

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .arrays import array_of_lists
from .callers import NOT_OF_SHAPES, hushed

# Sentences about shapes, types and names, which are public; anything else is replaced.
_PUBLIC = re.compile(
    r"contains (NaN|infinity)|minimum of \d+ is required|^X has \d+ features"
    r"|[Ff]eature names|inconsistent numbers of samples|should be a 1d array"
    r"|^Found array with dim|[Ss]parse (data|input)|[Uu]nknown label type"
    r"|requires y to be passed|target y is|cannot be None"
)
_RAISE = opmap["RAISE_VARARGS"]
LABELS = "The sensitive features"
_ROWS = "X, y and sensitive features need a row for each record: "
# How many rows each has may be private.
_UNLIKE = _ROWS + "they have inconsistent numbers of samples."
_NAMELESS = re.compile(
    r"minimum of \d+ is required|should be a 1d array|^Input con|^Found array with dim"
)
_FLAT = (
    "Expected a 2D array. Reshape your data either using array.reshape(-1, 1) if your "
    "data has a single feature or array.reshape(1, -1) if it contains a single sample."
)
_SHORTENED = {
    "Expected 2D array": _FLAT,
    "Expected a 2-dimensional container": _FLAT,
    "Complex data not supported": "Complex data not supported.",
    "np.matrix is not supported": "np.matrix is not supported; pass an array.",
    "Expected unique column names": "Two columns have the same name; "
    "rename one of them.",
    "Sparse data was passed": "Sparse data was passed, and dense data is required: use "
    "X.toarray(), or X.sparse.to_dense() of a frame.",
    "fill value must be 0": "Sparse columns are read with a fill value of 0 only: pass "
    "X.sparse.to_dense().",
    # Where warnings are errors.
    "A column-vector y was": "A column-vector was passed for a 1d array: ravel() it.",
}
_COLLECTED_BY = {"LazyFrame": "collect", "DuckDBPyRelation": "df"}
_ONE_TARGET = "y should be a 1d array"
_OF_SEVERAL = (
    ", one target for each row. For several, fit one model each, as "
    "MultiOutputRegressor and MultiOutputClassifier do; each spends a budget of its "
    "own."
)
_NO_TARGET = "Input y contains NaN"
_GAPS = " does not accept missing values encoded as NaN natively."
_FOR_GAPS = " DPTableEncoder in front does; or fill them with a public number."
_FOR_TEXT = (
    "put a DPTableEncoder in front, which takes data frames as they are, or encode "
    "text with a public list of categories first"
)
_FOR_NUMBERS = (
    "parse_cells in fairpriv_sklearn.preprocessing reads those of text such as money "
    "and percentages; encode other text first"
)


@contextmanager
def domain(name: str = "X", *, own_words: bool = False) -> Iterator[None]:
    """Validate private values: no warning depends on them, no message quotes them.

    With `own_words` what this package says itself, which quotes no cell, is left as it
    is.
    """
    with hushed(NOT_OF_SHAPES), np.errstate(all="ignore"):
        try:
            yield
        except Exception as error:  # Arrow's are none of the usual kinds, and quote
            public = isinstance(error, ImportError | MemoryError)
            if public or (own_words and is_ours(error)):
                error.__context__ = None  # it may quote one
                raise
            raise scrubbed(error, _sentence(error, name)) from None


def same_length(*columns) -> None:
    """Refuse columns of one table that have different numbers of rows."""
    with hushed():  # scikit-learn asks for attributes: pandas looks at the index
        try:
            check_consistent_length(*columns)
            return
        except ValueError:
            told = _UNLIKE
        except Exception:
            told = _ROWS + "each must be an array, a list or a data frame."
    raise ValueError(told)


def check_columns(*columns) -> None:
    """Refuse what reading columns side by side as arrays would get wrong in silence.

    That is masked cells, and rows in another order, as the index of pandas says. A
    frame that is not read yet has no rows.
    """
    indexes = []
    # Of the type: pandas takes what is no attribute for a label of the index.
    for column in columns:
        name = type(column).__name__
        if name in _COLLECTED_BY:
            raise TypeError(
                f"A {name} has no rows before it is collected: pass what its "
                f"{_COLLECTED_BY[name]}() returns."
            )
        if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
            raise ValueError(
                "A masked array hides cells, and their values would be read: fill them "
                "by filled(), with NaN where missing cells are read, or leave out "
                "their rows."
            )
        dtype = getattr(column, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.names:
            raise ValueError(
                "A structured array has fields and no columns: pass a data frame, or "
                "what numpy.lib.recfunctions.structured_to_unstructured makes of it."
            )
        if hasattr(column, "iloc") and not hasattr(type(column), "compute"):
            indexes.append(column.index)
    if any(_is_another_order(indexes[0], index) for index in indexes[1:]):
        raise ValueError(
            "X, y or sensitive features have the same rows in another order, as their "
            "index says, and rows are matched by position: bring them into one order, "
            "or pass arrays if they are in one."
        )


def refuse_no_table(X) -> None:
    """Refuse a file that is not read yet, and a dict of columns, as `X`."""
    if isinstance(X, str | PathLike):
        raise TypeError(
            "X is a text or a path, and no table: read the file first, as by "
            "pandas.read_csv."
        )
    if isinstance(X, Mapping) and not sparse.issparse(X):  # SciPy has dicts of keys
        raise TypeError("X is a dict, and no table: pass pandas.DataFrame(X).")


def _is_another_order(index, other) -> bool:
    """Whether both have the same labels, which are private, at other places."""
    with hushed():
        try:
            is_other = len(index) == len(other) and not index.equals(other)
            return is_other and set(index) == set(other)
        except Exception:  # labels that cannot be compared tell of no order
            return False


def refuse_dates(values, name: str = "X") -> None:
    """Refuse dates and times: as numbers they are counts of whatever unit they have."""
    if hasattr(type(values), "columns"):  # a frame, whose column may be called dtype
        dtypes = list(getattr(values, "dtypes", ()))
    else:
        dtypes = [getattr(values, "dtype", None)]
    if dtypes and all(map(_is_temporal, dtypes)):
        raise ValueError(
            f"{name} holds dates or times, which are no numbers: turn them into "
            "numbers of a unit of your choice, such as days since a public date."
        )


def check_given(estimator, y) -> None:
    """Refuse a fit without a target."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is "
            "None."
        )


def refuse_unlabelled(y) -> None:
    """Refuse missing labels: among text scikit-learn calls them no number.

    And in a list text beside other labels, of all of which NumPy makes text.
    """
    with domain("y"):
        is_list = isinstance(y, list | tuple)
        labels = array_of_lists(y) if is_list else np.asarray(y)
        if labels.dtype.kind == "f":  # integers with a gap
            missing = np.isnan(labels).any()
        else:
            cells = labels.ravel() if labels.dtype == object and labels.ndim else ()
            missing = any(map(_is_no_label, cells))
    if missing:
        raise ValueError(
            "y has a row without a label: leave such rows out, or give them a label of "
            "their own."
        )
    if is_list:
        refuse_mixed("y", labels)


def _is_no_label(cell) -> bool:
    is_none = cell is None or type(cell).__name__ in ("NAType", "NaTType")
    return is_none or (isinstance(cell, float | np.floating) and bool(cell != cell))


def refuse_mixed(name: str, labels) -> None:
    """Refuse text beside other labels: they have no order; in NumPy all are text."""
    if np.dtype(object) == getattr(labels, "dtype", object):
        each = np.asarray(labels, dtype=object).ravel()
        if len({isinstance(label, str) for label in each}) > 1:
            raise ValueError(
                f"{name} mixes text with labels of other kinds; make all of one kind."
            )


def refuse_no_numbers(estimator, y) -> int:
    """Refuse a target that no regressor reads; how many targets it is."""
    refuse_dates(y, "y")
    with domain("y"):
        Y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if not get_tags(estimator).target_tags.multi_output:
            column_or_1d(Y)
    return Y[0].size


def _is_temporal(dtype) -> bool:
    said = getattr(dtype, "is_temporal", None)  # polars
    return bool(said()) if callable(said) else getattr(dtype, "kind", "") in tuple("mM")


def scrubbed(error: Exception, sentence: str) -> Exception:
    """The same error with another sentence: nothing of the first one stays behind.

    A new error would carry the old one, and the cell it quotes, as its context.
    """
    error.__cause__ = error.__context__ = None
    if type(error) not in (TypeError, ValueError):
        kind = TypeError if isinstance(error, TypeError) else ValueError
        _empty(error)
        error = kind(sentence)
    error.args = (sentence,)
    vars(error).clear()
    return error


def _empty(error: Exception) -> None:
    """Leave nothing of what an error holds, in fields of its class neither."""
    error.args = ()
    vars(error).clear()
    if isinstance(error, UnicodeError):
        error.object = error.object[:0]
    for name, _ in getmembers(type(error), isdatadescriptor):
        if not name.startswith("__"):
            with suppress(Exception):  # of another type, or read only
                setattr(error, name, None)


def finite_sparse(X):
    """Sum duplicate entries of a sparse `X` first: the sum is what has to be finite."""
    if not sparse.issparse(X):
        return X
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        with np.errstate(all="ignore"):
            X.sum_duplicates()
    return X


def quotes_no_cell(error: Exception) -> bool:
    """Whether an error is our own, or about shapes, types and names only."""
    known = isinstance(error, NotFittedError) or is_ours(error)
    return known or bool(_PUBLIC.search(_unquoted(str(error))))


def _unquoted(text: str) -> str:
    """What a sentence says before its first quotation, which may be of a cell."""
    return re.split("['\"]", text, maxsplit=1)[0]


def is_ours(error: BaseException) -> bool:
    """Whether a line of this library raised it, in words that quote no cell.

    What NumPy raises in such a line is not ours, and may quote one.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    where = last.tb_frame.f_globals.get("__name__", "")
    is_raised = last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE
    return where.startswith("fairpriv_sklearn.") and is_raised


def _sentence(error: Exception, name: str) -> str:
    text, said = str(error), _unquoted(str(error))
    for start, shortened in _SHORTENED.items():
        if text.startswith(start):
            return f"{name}: {shortened}"
    if text.startswith(_NO_TARGET):
        return _NO_TARGET + ": leave out the rows without a target."
    if text.startswith(_ONE_TARGET) and name in ("y", "X or y"):
        return _ONE_TARGET + _OF_SEVERAL
    if "inconsistent numbers of samples" in said:
        return _UNLIKE
    if _NAMELESS.search(said) and not re.search(rf"\b{name}\b", text):
        return f"{name}: {text}"
    if _PUBLIC.search(said):
        head, gaps, _ = text.partition(_GAPS)  # then: models that are not private
        return head + gaps + (_FOR_GAPS if gaps else "")
    if name == LABELS:
        return f"{name} have a label that cannot be read; leave out its row."
    way_out = _FOR_TEXT if name.startswith("X") else _FOR_NUMBERS
    return (
        f"{name} has a cell that cannot be read as a number (cells of this argument "
        f"must be numbers, or strings that say a number); {way_out}."
    )
