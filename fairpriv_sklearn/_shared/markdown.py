"""Text of unknown origin in Markdown."""

import re
from collections.abc import Iterable
from html import escape

# Names between backticks are code, as our sentences write them; inside of a word "_" is
# no markup.
_MARKUP = re.compile(r"`[\w.=\"'-]+`|([`*$~]|^#|(?<![^\W_])_|_(?![^\W_]))")


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
    text = _MARKUP.sub(lambda found: f"\\{found[0]}" if found[1] else found[0], text)
    return "".join(c if c.isprintable() else " " for c in text)
