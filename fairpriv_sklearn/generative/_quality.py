"""How good a synthetic table is, released under the budget of its fit."""

import itertools
from dataclasses import dataclass, field

import numpy as np

from .._shared.markdown import markdown_line
from .._wall import Rows
from ._pairs import Counts, Distances, sample_pairs

QUALITY = "quality"
N_QUALITY_ROWS = 50_000
_TWO_SIDED = 1.959963984540054  # 95 % of a normal


@dataclass(frozen=True)
class QualityFigure:
    """A released total variation distance, and where it lies with 95 % confidence.

    Attributes
    ----------
    value, low, high : float
        In [0, 1]: 0 if the tables agree, 1 if they have nothing in common.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, count, scale, n_records):
        """From a noisy number of records, and the deviation of its noise."""
        half = _TWO_SIDED * scale / max(n_records, 1.0)
        ends = count / max(n_records, 1.0) + half * np.array([0.0, -1.0, 1.0])
        value, low, high = np.clip(ends, 0.0, 1.0).tolist()
        # more noise than records says nothing, on whichever side the noise lies
        return cls(value, 0.0, 1.0) if half >= 1 else cls(value, low, high)

    def __str__(self):
        if (self.low, self.high) == (0.0, 1.0):
            return "too few records to say"
        return f"{self.value:.4f} (95 % interval {self.low:.4f} to {self.high:.4f})"


@dataclass(frozen=True)
class TableQuality:
    """Distances between the real and a synthetic table, released with noise.

    Total variation of tables of frequencies, averaged over columns or pairs of
    columns; numbers are cut into the bins of the fit. The intervals cover the noise:
    they are about the rows that were fitted, not about a population.

    Attributes
    ----------
    one_way, two_way : QualityFigure
        Averages over all columns, and all pairs of columns; the label is a column.
    by_group : dict of dict of QualityFigure
        One-way distance within each class or group, by name of the label or column.
    """

    one_way: QualityFigure
    two_way: QualityFigure
    by_group: dict = field(default_factory=dict)


def quality_lines(class_names, groups) -> tuple:
    """Names and sizes of the lines of the plan: overall, by class, by group."""
    axes = [("class", len(class_names))] if len(class_names) else []
    axes += [(name, len(values)) for name, _, values in groups]
    return ((QUALITY, 2), *((f"{QUALITY} by {name}", size) for name, size in axes))


def release_quality(wall, levels, codes, pairs, class_names, groups) -> TableQuality:
    """Compare a sample with the records.

    Parameters
    ----------
    wall : PrivacyFilter
    levels, codes : ndarray
        Of the records, private.
    pairs : Pairs
    class_names : sequence
        Empty without labels.
    groups : list of (str, int, sequence)
        Name, column and names of the levels of the groups.
    """
    n_records, C, A = float(pairs.counts.sum()), len(pairs.counts), pairs.n_columns
    n_rows = int(np.clip(n_records, 1000, N_QUALITY_ROWS))
    shares = np.cumsum(pairs.counts) / n_records
    classes = np.searchsorted(shares[:-1], (np.arange(n_rows) + 0.5) / n_rows, "right")
    sampled, _ = sample_pairs(pairs, classes, {}, wall.public_draws())
    # the label is the last column, overall one like the others
    kind = np.result_type(levels, np.min_scalar_type(-C))
    real = _side_by_side(levels, codes, kind)
    drawn = _side_by_side(sampled, classes, kind)
    sizes = (*map(pairs.n_bins, range(A)), C)
    bins = (*pairs.bins, np.arange(C))

    def release(name, tables, parts, n_classes=1, axis=A, counts=n_records):
        query = Distances(tables, sizes, n_classes, bins, parts=parts, name=name)
        records, synthetic = (
            Rows(len(x), levels=x, codes=x[:, axis]) for x in (real, drawn)
        )
        totals = Counts(tables, sizes, n_classes, bins).of_rows(synthetic, None)
        state = [
            np.rint(table * (n_records / n_rows)).astype(np.int64)
            for table in query.split(totals)
        ]
        noisy, scale = wall.release(query, records, state), wall.scale(query)
        return [QualityFigure.of(v, scale, n) for v, n in np.broadcast(noisy, counts)]

    axes = [("class", A, class_names, pairs.counts)] if len(class_names) else []
    ones = tuple((a,) for a in range(A + len(axes)))
    twos = tuple(itertools.combinations(range(len(ones)), 2)) or ((0,),)
    averages = (
        tuple((t, None) for t in range(len(ones))),
        tuple((len(ones) + t, None) for t in range(len(twos))),
    )
    one_way, two_way = release(QUALITY, (*ones, *twos), averages)
    axes += [(name, a, values, pairs.level_counts(a)) for name, a, values in groups]
    by_group = {}
    for name, axis, values, counts in axes:
        parts = tuple(tuple((a, c) for a in range(A)) for c in range(len(values)))
        seen = release(
            f"{QUALITY} by {name}", ones[:A], parts, len(values), axis, counts
        )
        by_group[name] = dict(zip(map(str, values), seen, strict=True))
    return TableQuality(one_way, two_way, by_group)


def _side_by_side(levels, codes, kind) -> np.ndarray:
    """Levels of the columns and of the label, two bytes each where they fit."""
    both = np.empty((len(codes), levels.shape[1] + 1), dtype=kind)
    both[:, :-1], both[:, -1] = levels, codes
    return both


WARNING = (
    "A synthetic row is nobody. It is drawn from noisy tables of frequencies: single "
    "rows, rare combinations and what more than two columns and the label have in "
    "common must not be read as facts about people. Counts, shares and two-way tables "
    "can be read as far as the distances above allow."
)


TOO_SMALL = (
    "**Do not publish this as it is.** Single columns may be off by a fifth: the table "
    "is small for its budget, or too little about its columns is declared (ranges and "
    "categories in the codebook cost nothing)."
)


# Part of the rows from which it is told that they are "other".
MANY_OTHERS = 0.05
UNLISTED = (
    "Too few rows have the other categories of these columns for them to be shown "
    'within this budget. They became "other", which the distances take for one '
    "category: **what was lost there they do not see.** A codebook can list "
    "categories at no cost."
)


NO_FIGURES = (
    "**not measured**, as its categories are not listed beforehand. A codebook can "
    "list them at no cost."
)


# Part of the rows from which on a column is told to be missing.
NEARLY_ALL = 0.95
EMPTY = (
    "Nearly all cells of these columns are missing: what is not of the kind that a "
    "codebook declares counts as missing too."
)


def quality_text(
    quality: TableQuality, guarantee, others=(), gaps=(), unlisted=()
) -> str:
    """Report for whoever publishes the table, in Markdown.

    `others` has, for each column of categories that were learnt, its name, how many
    there are, and the part of the rows that has another one; `gaps` has, for each
    column, its name and the part of the rows without a value; `unlisted` has the names
    of groups without figures of their own.
    """
    lines = ["## Quality of the synthetic table", ""]
    lines.append(f"- Mean distance of one-way tables: {quality.one_way}.")
    lines.append(f"- Mean distance of two-way tables: {quality.two_way}.")
    if quality.one_way.high > 0.2:
        lines += ["", TOO_SMALL]
    lost = [
        f'- {markdown_line(name)}: **all values are "other"**'
        if not n_shown
        else f'- {markdown_line(name)}: {share:.0%} of the rows are "other", '
        f"categories shown: {n_shown}"
        for name, n_shown, share in others
        if share >= MANY_OTHERS
    ]
    if lost:
        lines += ["", UNLISTED, "", *lost]
    empty = [
        f"- {markdown_line(name)}: {share:.0%} of the rows"
        for name, share in gaps
        if share >= NEARLY_ALL
    ]
    if empty:
        lines += ["", EMPTY, "", *empty]
    for name, figures in quality.by_group.items():
        lines += ["", f"One-way tables by {markdown_line(name)}:", ""]
        lines += [f"- {markdown_line(v)}: {figure}" for v, figure in figures.items()]
    for name in unlisted:
        lines += ["", f"One-way tables by {markdown_line(name)}: {NO_FIGURES}"]
    lines += ["", "Distances are total variation, 0 to 1, of a sample as large as the"]
    lines += ["table; intervals cover the noise added for privacy.", ""]
    lines += ["## Privacy", "", guarantee.to_markdown().strip(), ""]
    declared = [one for one in guarantee.assumptions if one.startswith("columns={")]
    if declared:  # the table may show a part of it
        lines += ["Declared as public:", "", f"- {markdown_line(declared[0])}", ""]
    lines += ["## Reading", ""]
    return "\n".join([*lines, WARNING, ""])
