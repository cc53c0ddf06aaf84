"""Read tables as people have them."""

from __future__ import annotations

from pathlib import Path


def read_names(path: Path) -> list[str]:
    """Names of the columns of a text table: its first line."""
    import pandas

    header = pandas.read_csv(path, nrows=0, sep=None, engine="python")
    return [str(name) for name in header.columns]
