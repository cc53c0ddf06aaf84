"""Calls of wrapped estimators: nothing of theirs leaves but the fitted model."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import contextmanager

import numpy as np

_show = threading.local()


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
    before = getattr(_show, "errors", False)
    _show.errors = True
    try:
        yield
    finally:
        _show.errors = before


def guarded(call: Callable, *args, what: str = "The wrapped estimator", **kwargs):
    """Call a wrapped estimator: no warning, exception or cause of its leaves.

    Parameters
    ----------
    call : callable
        A bound method such as ``estimator.fit``.
    *args, **kwargs
        Its arguments.
    what : str
        Who is at fault, for the one sentence that replaces every exception.
    """
    if getattr(_show, "errors", False):
        return call(*args, **kwargs)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call(*args, **kwargs)
        except Exception:
            failed = True
    if failed:
        raise WrappedEstimatorError(
            f"{what} refused the rows it was given. Its own message may quote private "
            "rows and is not shown; fairpriv_sklearn.privacy.show_wrapped_errors() "
            "shows it to a holder of the data who may look."
        )


class WrappedEstimatorError(ValueError):
    """A wrapped estimator raised; its message, cause and context are not shown."""
