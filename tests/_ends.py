"""A loop must come to its end: lines that run are counted. A small number is small."""

import sys
from contextlib import contextmanager

import pytest


def approx(expected, rel=None, abs=None):
    """The same as pytest's, but that a relative error forgives no absolute one."""
    if abs is None:
        rel, abs = 1e-6 if rel is None else rel, 0.0
    return pytest.approx(expected, rel=rel, abs=abs)


@contextmanager
def ends_within(n_lines, module):
    """Let no more than so many lines of a module run."""
    count, file = 0, module.__file__

    def trace(frame, event, _):
        nonlocal count
        count += event == "line"
        assert count <= n_lines, "It does not end."
        return trace if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def answer(function, *arguments, **options):
    """What a function returns, or the error that it should not raise."""
    try:
        return function(*arguments, **options)
    except (ArithmeticError, ValueError) as error:
        return error


def taken(check, values):
    """Those of the values that are not refused."""
    found = []
    for value in values:
        try:
            check(value)
        except ValueError:
            continue
        found.append(value)
    return found
