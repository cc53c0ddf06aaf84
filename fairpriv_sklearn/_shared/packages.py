"""Packages that need not be installed."""

from importlib import import_module
from typing import Any


def needed(module: str, sentence: str, error: type[Exception] = ImportError) -> Any:
    """Import a module, or raise a sentence that says how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise error(sentence) from None
