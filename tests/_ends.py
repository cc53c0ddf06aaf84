"""A loop must come to its end: lines that run are counted."""

import sys
from contextlib import contextmanager


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
