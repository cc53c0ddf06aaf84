"""Warnings that name the user's line, however deep they are raised."""

from __future__ import annotations

import sys
import warnings

# Code between the user and a warning: this library, and what hands calls on to it.
BETWEEN = ("fairpriv_sklearn", "sklearn", "joblib")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the innermost line that is neither ours nor scikit-learn's."""
    frame, level = sys._getframe(1), 2
    while frame is not None and _is_between(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_between(frame) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN
