"""Text of unknown origin in Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def markdown_table(header: list[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table whose cells cannot break it."""

    def line(cells):
        return f"| {' | '.join(map(markdown_line, cells))} |"

    rule = "|" + " --- |" * len(header)
    return "\n".join([line(header), rule, *map(line, rows)])


def markdown_line(text) -> str:
    """The text on one line of Markdown: no markup, link or picture comes of it."""
    text = escape(str(text), quote=False)
    for mark, shown in (("\\", "\\\\"), ("|", "\\|"), ("](", "]\\(")):
        text = text.replace(mark, shown)
    return "".join(c if c.isprintable() else " " for c in text)
