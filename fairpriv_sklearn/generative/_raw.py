"""Raw tables: what is public about their columns, what is learnt, and the way back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt

import numpy as np

from .._shared.callers import warn_caller
from .._shared.sensitivity import counts_l2, rows_changed
from .._wall import KEY_SHARE, KeyedRelease, Query, Release, Rows
from ..preprocessing import (
    Codebook,
    Column,
    ColumnCounts,
    Places,
    key_of,
    look_closer,
    looks,
    placed_columns,
    refuse_unknown,
    told_total,
    universal_edges,
    without_missing_values,
)
from ._levels import (
    MOST_ATOMS,
    MOST_LEARNT,
    MOST_ROUND,
    OTHER,
    SMALLEST_ATOM,
    TOLD,
    LevelColumn,
    has_more_decimals,
)
from ._pairs import draw_evenly, evidence_weights
from ._quality import NEARLY_ALL
from ._schema import check_edges, given_ranges, listed_values

PLACES, CATEGORIES = "kinds and places of the columns", "categories"
WHOLE, ATOMS = "numbers that are not whole", "round numbers"
# Parts of mu**2. Three looks into crowded cells have theirs out of that of places, .08.
PLACE_SHARE, LOOK_SHARE, ATOM_SHARE = 0.071, 0.003, 0.05
CATEGORY_SHARE, WHOLE_SHARE = 0.2, 0.0175
# What a cell counts that is not whole, and that has more than 1, 2 and 3 decimals.
DECIMAL_WEIGHTS = 1.0, 0.5, 0.5, 0.5
# What a record counts for the levels of numbers beside those of unlisted categories.
NUMBER_WEIGHT = 0.5
# Places of columns without a range have more where all records would not be so many
# times the noise of a count, up to a third: chosen on simulated tables.
SEEN, MOST_PLACE_SHARE = 70.0, 0.35
# A number is whole if at most this part of its cells are not, up to the noise, and has
# some decimals at most likewise, where those that are not whole are seen to be many: so
# many standard deviations. On simulated counts 4 takes more for rounded that are not.
MOST_FRACTIONAL, FRACTIONAL = 0.02, 5.0
MOST_CELLS = 64
MOST_NAMED = 5  # columns that a warning names
MANY_BEYOND = 0.05  # part of the records beyond all places from which it is told
ROWS_TOGETHER = 1 << 14


@dataclass(frozen=True, eq=False)
class DecimalCounts(Query):
    """How many cells of each column have more than 0, 1, 2 and 3 decimals.

    Parameters
    ----------
    columns : tuple of LevelColumn
    """

    columns: tuple

    name = WHOLE
    theorem = "user_guide/synthetic_tables_proofs:pair-tables"
    block_rows = ColumnCounts.block_rows

    @property
    def n_coordinates(self) -> int:
        return max(1, len(self.columns) * len(DECIMAL_WEIGHTS))

    def sensitivity(self, neighboring: str) -> float:
        """Every count moves by its weight: a replaced record counts or does not."""
        rows_changed(neighboring)  # refuses a relation that it does not know
        return sqrt(max(1, len(self.columns)) * sum(w * w for w in DECIMAL_WEIGHTS))

    def of_block(self, block, state):
        """Exact counts."""
        counts = np.zeros((len(self.columns), len(DECIMAL_WEIGHTS)), dtype=np.int64)
        for i, column in enumerate(self.columns):
            cells = block.cells.cells(column.position)
            cells = without_missing_values(cells, column.missing_values)
            for n in range(len(DECIMAL_WEIGHTS)):
                counts[i, n] = has_more_decimals(cells, n).sum()
        return counts.ravel()

    def value(self, total, state):
        """Exact counts, each times its weight, a power of two."""
        return total * np.tile(DECIMAL_WEIGHTS, len(self.columns))


@dataclass(frozen=True, eq=False)
class CategoryCounts(ColumnCounts):
    """Counts of categories that nobody listed; those of numbers count one half.

    Few columns of either kind leave the others less noise: nothing is spent in vain.
    """

    name = CATEGORIES
    theorem = "user_guide/synthetic_tables_proofs:pair-tables"

    def sensitivity(self, neighboring: str) -> float:
        """As in the sum of the squares of what a record counts in each column."""
        return counts_l2(neighboring, sum(w * w for w in self.weights) or 1)

    @property
    def weights(self) -> list[float]:
        """What a record counts in each column."""
        return [1.0 if c.kind == "category" else NUMBER_WEIGHT for c in self.columns]

    def value(self, total, state):
        """Exact counts, each times its weight, a power of two."""
        return total * np.repeat(self.weights, [c.n_cells for c in self.columns])

    def split(self, counts) -> list[np.ndarray]:
        """Counts of each column, over its weight."""
        parts = super().split(counts)
        return [seen / w for seen, w in zip(parts, self.weights, strict=True)]


def public_columns(names, codebook, categories, bounds, bins) -> list[LevelColumn]:
    """Columns with what the arguments say about them."""
    declared = _declared(names, codebook, categories)
    edges = dict(bins) if isinstance(bins, Mapping) else {}
    refuse_unknown("bins", edges, names)
    if isinstance(bounds, Mapping):
        refuse_unknown("bounds", bounds, names)
    numbers = [
        name
        for name in names
        if name not in edges
        and declared[name].kind in (None, "number")
        and declared[name].range is None
    ]
    ranges = given_ranges(bounds, numbers) if numbers and bounds is not None else {}
    for name, pair in ranges.items():
        declared[name] = replace(declared[name], kind="number", range=pair)
    columns = [
        LevelColumn.of(
            str(name),
            position,
            declared[name],
            np.array(check_edges(edges[name], name)) if name in edges else None,
        )
        for position, name in enumerate(names)
    ]
    for column in columns:
        column.check_categories()
    return columns


def read_codebook(codebook) -> Codebook:
    """The codebook, empty for None; an error names the argument."""
    try:
        return Codebook.from_dict({} if codebook is None else codebook)
    except (TypeError, ValueError) as error:
        raise ValueError(f"codebook: {error}") from None


def _declared(names, codebook, categories) -> dict:
    codebook = read_codebook(codebook)
    used = [name for name in codebook if codebook[name].kind != "left out"]
    used = [name for name in used if codebook[name].role != "target"]
    refuse_unknown("codebook", used, names)
    columns = {name: codebook.columns.get(name, Column()) for name in names}
    refuse_unknown("categories", categories or {}, names)
    for name, values in (categories or {}).items():
        values = listed_values(values, name)
        present = [value for value in values if value is not None and value == value]
        columns[name] = Column(
            "category",
            categories=tuple(present),
            missing=len(present) < len(values),
            other=False,
            role=columns[name].role,
        )
    return columns


# --- what is learnt -------------------------------------------------------------------


def place_share(columns, n_records, mu) -> float:
    """Part of ``mu**2`` for the places, by public numbers.

    Parameters
    ----------
    columns : list of LevelColumn
    n_records : int or None
        Number of records where it is public.
    mu : float
        Of the whole fit.
    """
    located = _tasks(columns)[0]
    if n_records is None or all(c.declared.range is not None for c in located):
        return PLACE_SHARE
    noise = sqrt(2 * len(located)) / mu
    share = (SEEN * noise / max(n_records, 1)) ** 2
    return float(np.clip(share, PLACE_SHARE, MOST_PLACE_SHARE))


def learning_lines(columns, mu, delta, places) -> list[Release]:
    """What is released to learn kinds, cells and categories.

    Parameters
    ----------
    columns : list of LevelColumn
    mu, delta : float
        Of the whole fit.
    places : float
        Part of ``mu**2`` for the places.
    """
    located, unknown, keyed, maybe_whole = _tasks(columns)
    lines: list[Release] = []
    if located:
        n_first = len(located) * (len(universal_edges()) + MOST_CELLS)
        mu_places = mu * sqrt(places)
        lines.append(KeyedRelease(PLACES, "gaussian", mu_places, n_first))
        lines.append(looks(mu * sqrt(LOOK_SHARE), n_first))
        n_atoms = len(located) * 2 * MOST_ROUND
        mu_atoms = mu * sqrt(ATOM_SHARE)
        lines.append(KeyedRelease(ATOMS, "gaussian", mu_atoms, n_atoms))
    if maybe_whole:
        mu_whole = mu * sqrt(WHOLE_SHARE)
        n_whole = len(maybe_whole) * len(DECIMAL_WEIGHTS)
        lines.append(Release(WHOLE, "gaussian", mu_whole, n_whole))
    if keyed or unknown:
        n_keyed = len(columns) * (most_levels(columns) + 1)
        mu_keys = mu * sqrt(CATEGORY_SHARE)
        shown = KEY_SHARE * delta
        line = KeyedRelease(CATEGORIES, "gaussian", mu_keys, n_keyed, delta=shown)
        lines.append(line)
    return lines


def learning_share(columns, places) -> float:
    """Part of ``mu**2`` that `learning_lines` takes."""
    lines = learning_lines(columns, 1.0, 0.5, places)
    return sum(line.parameter**2 * line.times for line in lines)


def has_unlisted(columns) -> bool:
    """Whether a column has, or may have, categories that nobody listed."""
    return any(c.is_keyed or c.declared.kind is None for c in columns)


def most_levels(columns) -> int:
    """Largest number of levels that any column may come to have."""
    learnt = MOST_LEARNT + 2 if has_unlisted(columns) else 1
    cells = MOST_CELLS + 2 * MOST_ATOMS + 16
    cells = cells if any(c.is_located for c in columns) else 1
    known = [c.n_levels for c in columns if not (c.is_located or c.is_keyed)]
    return max([learnt, cells, *known])


def learn_columns(wall, rows, columns, n_records) -> list[LevelColumn]:
    """Release kinds, cells and categories; the columns with all that is known then."""
    located, unknown, keyed, maybe_whole = _tasks(columns)
    found = {column.position: column for column in columns}
    if located:
        query = ColumnCounts(tuple(column.located() for column in located))
        counts, _ = wall.release_keyed(query, rows, name=PLACES)
        scale = wall.scale(query, name=PLACES)
        counts = query.split(counts)
        total, doubt = (n_records, 0.0) if n_records else told_total(counts, scale)
        placed = placed_columns(located, counts, total, scale, doubt)
        placed = look_closer(wall, rows, placed, total)
        _tell_of_noise(located, counts, scale, placed)
        of_all = _places_of_all(placed, counts, scale)
        for column in placed:
            is_lost = column.is_universal and not column.is_seen
            cells = replace(column, places=of_all if is_lost else column.places)
            cells = cells.with_cells(total)
            found[column.position] = replace(cells, places=column.places)
        _tell_of_ends(placed, total)
    if maybe_whole:
        learn_decimals(wall, rows, found, maybe_whole, total)
    if located:
        learn_atoms(wall, rows, found)
        least = max(TOLD * scale, SMALLEST_ATOM * total)
        for column, seen in zip(located, counts, strict=True):
            if column.declared.kind is None and seen[-1] > least:
                beside_text = found[column.position].beside_text(total / least)
                found[column.position] = beside_text
    for at, column in found.items():
        if column.is_number:
            found[at] = column.with_even_cells()
    if keyed or unknown:
        learn_categories(wall, rows, found)
    learnt = [found[column.position] for column in columns]
    return [column for column in learnt if column.is_used]


def _places_of_all(placed, counts, scale) -> Places | None:
    """Mean counts of all numbers of unknown range.

    Columns of one table often lie in one place: together they stand out of the noise
    that hides each of them.
    """
    edges, pairs = universal_edges(), zip(placed, counts, strict=True)
    alike = [seen[: len(edges) - 1] for column, seen in pairs if column.is_universal]
    if not alike:
        return None
    noise = scale / sqrt(len(alike))
    return Places.of(edges, np.mean(alike, axis=0), noise, is_open=True)


def _tell_of_noise(located, counts, scale, placed) -> None:
    """Warn of columns whose noisy counts do not say where their numbers lie."""
    hidden = [
        column.name
        for column, seen, found in zip(located, counts, placed, strict=True)
        if column.declared.range is None
        and not (column.is_told(seen, scale) and found.is_placed)
    ]
    if hidden:
        told = f"{_named(hidden)} holds, or where its numbers lie"
        if len(hidden) > 1:
            told = f"{_named(hidden)} hold, or where their numbers lie"
        warn_caller(
            f"By noisy counts it cannot be told what the {told}: samples may have "
            "anything there, or numbers like those of other columns. Declare kinds and "
            "ranges in a codebook, or use more rows or a larger epsilon.",
            UserWarning,
        )


def _tell_of_ends(placed, total) -> None:
    """Warn of columns with many numbers in the outer places, which have no end."""
    far = [
        column.name
        for column in placed
        if column.declared.kind == "number"
        and column.places.is_open
        and (_at_ends(column.places) > MANY_BEYOND * total).any()
    ]
    if far:
        warn_caller(
            f"Numbers of the {_named(far)} may lie beyond the largest that are looked "
            "for, where samples have none: declare ranges in a codebook, or use larger "
            "units.",
            UserWarning,
        )


def tell_of_losses(declared, counted) -> None:
    """Warn of columns of which samples show next to nothing.

    Parameters
    ----------
    declared : list of LevelColumn
        As they were before anything was learnt.
    counted : list of (LevelColumn, ndarray of shape (n_levels,))
        As they are now, and the number of records at every level, as released.
    """
    given = {column.name for column in declared if column.declared.kind is not None}
    lost = []
    for column, counts in counted:
        # of columns that noise hides is told before
        scale = column.shown[1] if column.shown else 0.0
        if column.places is not None:
            scale = max(scale, column.places.noise.min())
        least = max(NEARLY_ALL * counts.sum(), TOLD * scale)
        without = counts[column.n_cells :]
        if (column.has_other and without[0] >= least) or (
            column.name in given and without.sum() >= least
        ):
            lost.append(column.name)
    if lost:
        warn_caller(
            f"Of the {_named(lost)} nearly all samples are missing or {OTHER!r}, as no "
            "category is frequent enough to be shown, or cells are not of the kind in "
            "the codebook: parse_cells (fairpriv_sklearn.preprocessing) reads money, "
            "percentages and dates, and a codebook lists categories or leaves columns "
            "out.",
            UserWarning,
        )


def _at_ends(places) -> np.ndarray:
    """Counts in the first and the last place that stand out of their noise."""
    seen, noise = places.noisy[[0, -1]], places.noise[[0, -1]]
    return np.where(seen > TOLD * noise, seen, 0.0)


def _named(names) -> str:
    """Columns by name, the first few of many."""
    more = ", ..." if len(names) > MOST_NAMED else ""
    listed = ", ".join(map(repr, names[:MOST_NAMED]))
    return f"column{'s' * (len(names) > 1)} {listed}{more}"


def learn_decimals(wall, rows, found, columns, total) -> None:
    """Release how many numbers are not whole, or have more than some decimals."""
    query = DecimalCounts(tuple(columns))
    weights = np.array(DECIMAL_WEIGHTS)
    noisy = wall.release(query, rows).reshape(-1, len(weights)) / weights
    scales = wall.scale(query) / weights
    most = MOST_FRACTIONAL * total + 2 * scales
    for column, seen in zip(columns, noisy, strict=True):
        learnt = found[column.position]
        # where noise hides which, either is as likely
        half = np.r_[total, np.full(len(seen) - 1, seen[0])] / 2
        is_told = np.r_[True, seen[0] >= FRACTIONAL * scales[1:]]
        enough = np.flatnonzero((seen <= np.minimum(most, half)) & is_told)
        if learnt.declared.kind != "number" or not len(enough):
            continue
        if enough[0] == 0:
            learnt = replace(learnt, declared=_whole(learnt.declared))
        else:
            learnt = replace(learnt, decimals=int(enough[0]))
        found[column.position] = learnt


def learn_atoms(wall, rows, found) -> None:
    """Release counts of round numbers; frequent ones get a cell of their own."""
    located = [column for column in found.values() if column.places is not None]
    asked = [column for column in located if column.declared.kind == "number"]
    query = ColumnCounts(tuple(column.at_round_numbers() for column in asked))
    counts, _ = wall.release_keyed(query, rows, name=ATOMS)
    scale = wall.scale(query, name=ATOMS)
    for column, seen in zip(asked, query.split(counts), strict=True):
        found[column.position] = column.with_atoms(seen, scale)


def learn_categories(wall, rows, found) -> None:
    """Release counts of categories that nobody listed, and of levels of numbers."""
    used = [column for column in found.values() if column.is_used]
    asked = [
        column
        for column in used
        if column.is_keyed or (column.is_number and column.n_levels <= MOST_LEARNT)
    ]
    query = CategoryCounts(tuple(column.keyed() for column in asked))
    counts, shown = wall.release_keyed(query, rows)
    scales = wall.scale(query) / np.array(query.weights)
    for column, seen, scale in zip(asked, query.split(counts), scales, strict=True):
        if column.is_number:
            found[column.position] = replace(column, shown=(seen, scale))
            continue
        listed = {k: n for (at, k), n in shown.items() if at == column.position}
        largest = sorted(listed, key=lambda k: (-listed[k], k))[:MOST_LEARNT]
        names = sorted(largest)
        seen = np.array([*(listed[name] for name in names), *seen])
        if column.declared.kind == "flag" and {*names} <= {key_of(0), key_of(1)}:
            names = [name == key_of(1) for name in names]
        column = replace(column, shown=(seen, scale))
        found[column.position] = column.with_categories(names)


def _whole(declared: Column) -> Column:
    """The column as one of whole numbers; a range that is not whole is widened."""
    if declared.range is None:
        return replace(declared, integer=True)
    low, high = declared.bounds
    whole = np.floor(low).item(), np.ceil(high).item()
    return replace(declared, integer=True, range=whole)


def _tasks(columns):
    used = [column for column in columns if column.is_used]
    located = [column for column in used if column.is_located]
    unknown = [column for column in used if column.declared.kind is None]
    keyed = [column for column in used if column.is_keyed]
    maybe_whole = [
        column
        for column in located
        if column.declared.kind in (None, "number") and not column.declared.integer
    ]
    return located, unknown, keyed, maybe_whole


def encode_rows(rows: Rows, columns, size=ROWS_TOGETHER) -> tuple[Rows, np.ndarray]:
    """The codes, and levels of all cells, (n, A), encoded where the rows are."""
    encode = partial(_levels_of, columns=columns, size=size)
    return rows.answered(encode, ("cells",), ("codes",))


def _levels_of(block, columns, size) -> np.ndarray:
    """Levels of the cells of some rows: in two bytes each if they fit."""
    kind = np.result_type(*(column.level_type for column in columns))
    levels = np.empty((block.n_rows, len(columns)), dtype=kind)
    for part, cells in block.cells.blocks(size):
        for a, column in enumerate(columns):
            levels[part, a] = column.encode(cells.cells(column.position))
    return levels


# --- the table ------------------------------------------------------------------------


def label_of(columns, codebook) -> LevelColumn | None:
    """The column that the codebook names as the target, if its values are listed."""
    target = read_codebook(codebook).target
    found = [c for c in columns if c.name == target and c.keys]
    return found[0] if found else None


def level_codes(values, column, name) -> np.ndarray:
    """Levels of given categories of a column; anything else is an error."""
    index = {key: level for level, key in enumerate(column.keys)}
    if column.has_other:  # a category may have this name
        index.setdefault(OTHER, column.n_cells)
    if column.declared.missing:
        index[None] = column.n_levels - 1
    levels = [index.get(key_of(value), -1) for value in values]
    if -1 in levels:
        raise ValueError(
            f"{name} has a value that is not among {list(column.values)!r}; sample "
            "values of the public list only."
        )
    return np.array(levels, dtype=np.int64)


def given_levels(given, columns, n) -> dict:
    """Levels of the columns that a sample must have, by position among `columns`."""
    position = {column.name: a for a, column in enumerate(columns)}
    levels = {}
    for name, values in given.items():
        column = columns[position[name]] if name in position else None
        if column is None or column.is_number:
            raise ValueError(
                f"given names {name!r}, which is not a column of categories; these "
                f"are {[c.name for c in columns if not c.is_number]}, and a codebook "
                "can declare others."
            )
        one = isinstance(values, str) or np.ndim(values) == 0
        values = [values] if one else list(values)
        # Read as cells these would be missing.
        if any(
            hasattr(v, "__iter__") and not isinstance(v, str | bytes) for v in values
        ):
            raise TypeError(f"given[{name!r}] must be a category, or a list of them.")
        coded = level_codes(values, column, f"given[{name!r}]")
        levels[position[name]] = np.repeat(coded, n) if one else coded
        if len(levels[position[name]]) != n:
            raise ValueError(f"given[{name!r}] needs one value or {n} values.")
    return levels


def draw_classes(pairs, levels, n, public) -> np.ndarray:
    """Classes of a sample, given the levels of some columns."""
    if not levels:
        return draw_evenly(pairs.counts[None], np.zeros(n, dtype=np.int64), public)
    wanted = np.column_stack(list(levels.values()))
    combinations, group = np.unique(wanted, axis=0, return_inverse=True)
    weights = np.array(
        [
            evidence_weights(pairs, dict(zip(levels, map(int, row), strict=True)))
            for row in combinations
        ]
    )
    return draw_evenly(weights, group.reshape(-1), public)
