"""Labels of a table in places that read some characters as markup."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fairpriv_sklearn.inspection import printable
from fairpriv_sklearn.preprocessing import InputError

_MARKDOWN = re.compile(r"([\\`*_\[\]#|~$])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown_text(text) -> str:
    """The text as it is, in Markdown."""
    text = printable(text, most=2000)
    text = "".join(_HTML.get(c, c) for c in text)
    return _MARKDOWN.sub(r"\\\1", text)


def wrap(text: str, indent: str = "") -> str:
    """Lines of at most 88 characters."""
    import textwrap

    own = text[: len(text) - len(text.lstrip())]
    return textwrap.fill(
        text,
        88,
        subsequent_indent=own or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def lenient(*streams) -> None:
    """Let a terminal that lacks a character show an escape instead of failing."""
    for stream in streams or (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def written(path: str, data: bytes) -> None:
    """Write a file that the user has named."""
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise InputError(f"{path!r} cannot be written: {error.strerror}.") from None
