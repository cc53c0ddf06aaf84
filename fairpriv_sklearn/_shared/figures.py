"""The common look of the pictures."""

import math

import numpy as np

from .packages import needed

_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_LINES = ["-", "--", "-.", ":"]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*", "<"]
NOT_PRIVATE = "Not private: drawn from the data as they are."
_INSIDE = 6, 24  # lines of a legend, and signs of the longest, that hide no curve
_BESIDE = 14  # lines of a legend in one column beside the axes, in three at most


def _pyplot():
    said = "Drawing a display needs matplotlib: pip install matplotlib."
    return needed("matplotlib.pyplot", said)


def style(i: int, n_points: int = 0, chosen: dict | None = None) -> dict:
    """Look of the i-th line; colour, dashes and marker all differ between lines.

    With `n_points`, about eight markers are spread along the line. What the user has
    `chosen`, in matplotlib's long or short names, wins.
    """
    look = {
        "color": _COLORS[i % len(_COLORS)],
        "linestyle": _LINES[i % len(_LINES)],
        "marker": _MARKERS[i % len(_MARKERS)],
        "markersize": 5,
        "linewidth": 1.6,
    }
    if n_points > 16:
        step = n_points // 8
        look["markevery"] = (step * (i % 4) // 4, step)  # beside each other
    if chosen:
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        look.update(normalize_kwargs(chosen, Line2D))
    return look


def new_axes(ax, n_panels: int = 1):
    """Axes to draw on, one for each panel, and their figure."""
    if ax is None:
        size, several = (4.8 * n_panels + 0.6, 4.0), n_panels > 1
        shared = {"sharex": several, "sharey": several, "layout": "constrained"}
        figure, axes = _pyplot().subplots(
            1, n_panels, figsize=size, squeeze=False, **shared
        )
        return axes.ravel(), figure
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(axes) != n_panels:
        raise ValueError(f"ax must hold {n_panels} axes, got {len(axes)}.")
    return axes, axes[0].figure


def footnote(ax, text: str):
    """Small print below the axes."""
    ax.annotate(
        text,
        xy=(0, 0),
        xycoords="axes fraction",
        xytext=(0, -38),
        textcoords="offset points",
        fontsize=8,
        style="italic",
        color="0.25",
        va="top",
    )


def legend(ax, grow: bool, title: str | None = None, **place):
    """Name the lines: at `place` in the axes or, where it would hide them, beside.

    The figure grows by what that takes if `grow`.
    """
    handles, labels = ax.get_legend_handles_labels()
    most, longest = 3 * _BESIDE, max(map(len, labels), default=0)
    if len(labels) > most:
        labels = [*labels[: most - 1], f"… and {len(labels) - most + 1} more"]
        handles = [*handles[: most - 1], ax.plot([], [], " ")[0]]
    if len(labels) > _INSIDE[0] or longest > _INSIDE[1]:
        columns = math.ceil(len(labels) / _BESIDE)
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "ncols": columns}
        if grow:
            wider = columns * (0.5 + 0.08 * longest)
            ax.figure.set_figwidth(ax.figure.get_figwidth() + wider)
    fonts = {"family": families("".join(labels)), "size": 9}
    ax.legend(handles, labels, title=title, prop=fonts, **place)


def families(text: str) -> list[str]:
    """The usual family of fonts, and of the others here those with signs it lacks."""
    from matplotlib import font_manager as fonts

    def having(file):
        try:
            return signs & set(map(chr, fonts.get_font(file).get_charmap()))
        except (OSError, RuntimeError):  # not every font can be read
            return set()

    signs, usual = set(text), fonts.FontProperties()
    found, lacking = [*usual.get_family()], signs - having(fonts.findfont(usual))
    for font in fonts.fontManager.ttflist:
        upright = (font.style, font.weight) == ("normal", 400)
        # One of the last resort has a box for every sign.
        if lacking and upright and "Last Resort" not in font.name:
            had = having(font.fname) & lacking
            found += [font.name] if had else []
            lacking -= had
    return found


def printable(text, most: int = 60) -> str:
    """One line without control characters, not too long: its middle is left out."""
    text = " ".join(str(text).split())
    # Two signs join or part letters of Persian and Hindi, and parts of emoji.
    text = "".join(
        c if c.isprintable() or c in "\u200c\u200d" else "\ufffd" for c in text
    )
    if len(text) <= most:
        return text
    end = most // 3  # where labels that begin alike may differ
    return f"{text[: most - end - 1]}…{text[-end:]}"


def picture_text(text, most: int = 40) -> str:
    """The text as it is, in matplotlib: no mathematics, no label to be hidden."""
    text = printable(text, most).replace("$", r"\$")
    return text if text and not text.startswith("_") else " " + text


def group_name(group) -> str:
    """A label of the data, in matplotlib."""
    parts = group if isinstance(group, tuple) else [group]
    return picture_text(" / ".join(map(str, parts)))
