"""The one place that calls wrapped estimators: only a model and answers leave."""

from contextlib import contextmanager
from types import MethodType

import numpy as np

from .callers import ThreadFlag, hushed
from .domain import is_ours, quotes_no_cell

_shown = ThreadFlag()
_REFUSED = (
    "The wrapped estimator refused the rows it was given. Its own message may quote "
    "private rows and is not shown; fairpriv_sklearn.privacy.show_wrapped_errors() "
    "shows it to a holder of the data who may look."
)
_BEFORE = (
    " Fit it to public rows of the same form first: that shows, at no cost, what it "
    "takes."
)


@contextmanager
def show_wrapped_errors():
    """Show errors and warnings of wrapped estimators as they are, in this thread.

    They may quote private rows: for the holder of the data, while looking for a
    mistake, and not where anybody else can see them.

    Yields
    ------
    None

    Examples
    --------
    >>> from fairpriv_sklearn.privacy import show_wrapped_errors
    >>> with show_wrapped_errors():
    ...     pass  # model.fit(X, y)
    """
    with _shown.switched_on():
        yield


class WrappedEstimatorError(ValueError):
    """A wrapped estimator raised; its message, cause and context are not shown."""


class WrappedNumbersError(WrappedEstimatorError, ArithmeticError):
    """The numbers of a wrapped estimator broke down; which ones is not shown."""


# What raises where numbers break down: an overflow, a singular matrix.
NUMERIC_ERRORS = (ArithmeticError, np.linalg.LinAlgError, RuntimeError)


def fit_wrapped(estimator, *args, **params):
    """Fit a wrapped estimator to private rows, guarded."""
    return guarded(estimator.fit, *args, **params)


def fit_to_made_up(estimator, X, y) -> None:
    """Fit an estimator to rows that are made up: its errors are of no private row."""
    fit = estimator.fit
    with hushed(), np.errstate(all="ignore"):
        fit(X, y)


def ask_wrapped(estimator, method: str, *args, private: bool, **params):
    """Call a method of a fitted wrapped estimator, guarded if its rows are private.

    Rows to predict are those of whoever asks: what is said about shapes and names is
    left as it is, and what may quote a cell is not.
    """
    return _ask(getattr(estimator, method), *args, private=private, **params)


def numbers_of(estimator, method: str, *args, private: bool, **params):
    """The same for a method that answers numbers."""
    call = getattr(estimator, method)

    def numbers(*args, **params):
        answers = call(*args, **params)
        try:
            return np.asarray(answers).astype(np.float64, copy=False)
        except Exception:  # it may quote a cell
            pass
        raise ValueError(f"{method} must answer numbers.")

    return _ask(numbers, *args, private=private, **params)


def _ask(call, *args, private: bool, **params):
    if private:
        return guarded(call, *args, **params)
    try:
        return call(*args, **params)
    except Exception as error:
        is_public = isinstance(error, ImportError | MemoryError)
        if _shown.is_on or is_public or quotes_no_cell(error):
            raise
        kind = type(error)
    raise _error_for(kind)(_REFUSED)


def _error_for(kind: type[BaseException]) -> type[WrappedEstimatorError]:
    """What stands for an error of a wrapped estimator."""
    numeric = issubclass(kind, NUMERIC_ERRORS)
    return WrappedNumbersError if numeric else WrappedEstimatorError


def guarded(call: MethodType, *args, own_words: bool = False, **kwargs):
    """Call a wrapped estimator: no warning, exception, cause or context leaves.

    What this library itself says of its arguments and lists, which quotes no cell, is
    repeated in the one sentence that does.

    Parameters
    ----------
    call : callable
        A bound method such as ``estimator.fit``.
    *args, **kwargs
        Its arguments.
    own_words : bool, default=False
        Whether an estimator of this library, which quotes no cell and guards what it
        wraps, may say itself what is wrong.
    """
    if _shown.is_on:
        return call(*args, **kwargs)
    own_words = own_words and getattr(call.__self__, "_guards_what_it_wraps", False)
    with hushed(), np.errstate(all="ignore"):
        if own_words:
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            kind, said = type(error), _REFUSED + _BEFORE
            told = TypeError | ValueError | RuntimeError | Warning
            if isinstance(error, told) and is_ours(error):
                said = f"The wrapped estimator refused its rows or arguments: {error}"
    # Out of the handler: what is raised here has no context.
    if issubclass(kind, KeyboardInterrupt):
        raise KeyboardInterrupt
    raise _error_for(kind)(said)
