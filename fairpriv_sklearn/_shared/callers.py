"""Warnings: they name the user's line, and calls on private rows raise none."""

import re
import sys
import threading
import warnings
from contextlib import contextmanager, nullcontext
from weakref import WeakSet

import numpy as np
from sklearn import config_context

# Code between the user and a warning: this library, and what hands calls on to it.
BETWEEN = ("fairpriv_sklearn", "sklearn", "joblib")
# Messages: all, and all but those of scikit-learn about shapes and names of columns.
ANY = ""
NOT_OF_SHAPES = "(?!A column-vector y|X (does not have valid|has) feature names)"


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line that is neither ours nor scikit-learn's.

    A fit that has spent goes on, and says it when its model is there.
    """
    if _waiting.has_spent:
        _waiting.said.append((message, category))
    else:
        warn_now(message, category)


def warn_now(message: str, category: type[Warning]) -> None:
    """Warn at that line, also where a fit inside of another one has ended."""
    if _waiting.later is not None and not _is_hushed.is_on:
        _waiting.later.append((message, category))
        return
    frame, level = sys._getframe(1), 2
    while frame is not None and _is_between(frame):
        frame, level = frame.f_back, level + 1
    # Ours say nothing of private rows: those of other threads do not hush them.
    with nullcontext() if _is_hushed.is_on else _is_ours.switched_on():
        warnings.warn(message, category, stacklevel=level)


def is_error(category: type[Warning]) -> bool:
    """Whether filters make an error of such warnings, where nothing hushes them."""
    known = () if _is_hushed.is_on else warnings.filters
    for action, pattern, kind, module, _ in known:
        if pattern is module is None and issubclass(category, kind):
            return action == "error"
    return False


def _is_between(frame) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN


class _Waiting(threading.local):
    """What the innermost fit of a thread warns of, once it has spent."""

    is_fit = has_spent = False
    said: tuple | list = ()
    later: list | None = None  # what several fits together warn of


_waiting = _Waiting()


@contextmanager
def warned_at_the_end():
    """Let what is warned of after `spent` wait: as an error it would cost the budget.

    Yields
    ------
    said : list of (str, type)
        What to call `warn_now` with after the block.
    """
    before, said = (_waiting.is_fit, _waiting.has_spent, _waiting.said), []
    try:
        _waiting.is_fit, _waiting.has_spent, _waiting.said = True, False, said
        yield said
    finally:
        _waiting.is_fit, _waiting.has_spent, _waiting.said = before


@contextmanager
def warned_after_all():
    """Let what the fits inside warn of wait for the last: one of them is not the whole.

    As an error it would stop the later ones, when the earlier have spent.

    Yields
    ------
    said : list of (str, type)
        What to call `warn_now` with after the block.
    """
    before, said = _waiting.later, []
    try:
        _waiting.later = said
        yield said
    finally:
        _waiting.later = before


def spent() -> None:
    """From here on what a fit warns of waits for its end."""
    _waiting.has_spent = _waiting.is_fit


@contextmanager
def hushed(pattern: str = ANY):
    """Ignore warnings, also of threads and processes that are started inside.

    `warnings.catch_warnings` puts back the filters that it found, so that of two
    threads the one that leaves last may restore the other's: what is meant for private
    rows only would then go on for the whole process, or end too early. Here one filter
    is shared, and it holds as long as any thread is inside.

    Parameters
    ----------
    pattern : {ANY, NOT_OF_SHAPES}, default=ANY
        What the messages that are ignored begin with.
    """
    if getattr(sys.flags, "context_aware_warnings", False):  # filters of a context
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", pattern)
            yield
        return
    shared, token = _HUSHED[pattern], _Token()
    try:
        shared.enter(token)  # an interrupt here must not leave the silence behind
        with _is_hushed.switched_on():
            yield
    finally:
        shared.leave(token)


def usual_underflow() -> np.errstate:
    """Tiny numbers become zero, as is usual, also where `np.seterr` made them errors.

    An error or a warning would say of private rows, or of one call, what others do not.
    """
    return np.errstate(under="ignore")


def all_checks():
    """Arguments and cells are checked, also where scikit-learn was told to trust them.

    The budget is spent on what passes: a negative price, or a cell without a value,
    must not get there.
    """
    return config_context(assume_finite=False, skip_parameter_validation=False)


class ThreadFlag(threading.local):
    """Off, but in those blocks of a thread that switch it on."""

    is_on = False

    @contextmanager
    def switched_on(self):
        before, self.is_on = self.is_on, True
        try:
            yield
        finally:
            self.is_on = before


# Whether a thread is inside `hushed`, and whether it warns of its own accord.
_is_hushed, _is_ours = ThreadFlag(), ThreadFlag()


class _Token:
    """Stands for one block that is hushed, and is gone with it at the latest."""


class _WhileHushed:
    """Stands for the pattern of a filter's message: matches while hushed."""

    def __init__(self, pattern: str) -> None:
        self.filter = ("ignore", self, Warning, None, 0)
        self._pattern = re.compile(pattern, re.IGNORECASE)
        # Weak: an interrupt may come before `leave`, and must not prolong the silence.
        self.lock, self.inside = threading.Lock(), WeakSet()

    def match(self, text: str) -> bool:
        is_hushed = bool(self.inside) and not _is_ours.is_on
        return is_hushed and self._pattern.match(text) is not None

    @property
    def pattern(self) -> str:
        """What matches here or nothing: what workers are told of the filter."""
        return self._pattern.pattern if self.inside else "(?!)"

    def __reduce__(self):
        return re.compile, (self.pattern, re.IGNORECASE)

    def enter(self, token: _Token) -> None:
        with self.lock:
            self.inside.add(token)
            if not warnings.filters or warnings.filters[0] is not self.filter:
                warnings.filters.insert(0, self.filter)

    def leave(self, token: _Token) -> None:
        with self.lock:
            self.inside.discard(token)
            while not self.inside and self.filter in warnings.filters:
                warnings.filters.remove(self.filter)


_HUSHED = {pattern: _WhileHushed(pattern) for pattern in (ANY, NOT_OF_SHAPES)}
