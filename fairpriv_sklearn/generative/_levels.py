"""Columns of a raw table as levels, and back: all that is known of them is public.

Every cell has exactly one level, a function of the cell alone: a cell of a public or
released grid for a number, a position in a list for a category, "other" or missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, log, log2, pi, sqrt

import numpy as np
from scipy.linalg import block_diag
from scipy.special import erfcx, expit, log_ndtr

from ..preprocessing import (
    MISSING,
    SURE,
    Cells,
    Counted,
    LearntColumn,
    Places,
    cell_of,
    key_of,
    quantile_edges,
    universal_edges,
    without_missing_values,
)

# Learnt categories beyond the most frequent ones count as "other".
MOST_LEARNT = 200
# Whole numbers of a known range up to this wide have a level each.
MOST_WHOLE_LEVELS = 128
OTHER = "other"
# Round numbers that are asked for in a column, and that get a cell of their own.
MOST_ROUND, MOST_ATOMS, MOST_DECADES = 1250, 32, 8
# Numbers of a column's decimals that are asked for one by one.
MOST_EVEN = 400
# Whole numbers that are categories where some cells of their column are text.
MOST_BESIDE_TEXT = 20
# Numbers that codebooks give a meaning of their own, such as missing or refused.
SENTINELS = tuple(
    sign * float(number)
    for sign in (-1, 1)
    for number in (
        *range(1, 10),
        *(digit * n for digit in "789" for n in range(2, 10)),
        *("9" * n + digit for digit in "678" for n in range(1, 5)),
        *("99.9", "999.9", "9999.9"),
    )
)
# Decades of the span of a column at which edges of a tail beyond it lie.
TAIL_DECADES = -3, 1
# Part of the records from which a place counts as an atom.
RARE = 1 / 8
# Noise that an atom must stand out of, in standard deviations, and its part of the
# records at least.
ATOM, EDGE_ATOM, SMALLEST_ATOM = 3.5, 2.5, 1 / 250
# Part of the narrower neighbour's width up to which a cell is one of a single number.
SINGLE = 1 / 8
TAIL = 8
# Doubt about how a cell in two places is divided, in parts of its count.
DOUBT = 0.5
# Chance that a block of levels is empty: of a known range, and of all numbers,
# of which a column has few. On simulated columns .05 to .2 are alike, and .8 to .95.
EMPTY, EMPTY_ANYWHERE = 0.1, 0.9
# The same of the years of dates, which are few cells: with .9 births of 75 years were
# put into 20, and with .1 those of one year into 20, in tables of 1,000 records.
FEW_CELLS, EMPTY_OF_FEW = 16, 0.5
# How far from cells that surely have records others are near, in units of their ends.
REACH = 4.0
# Cells that may stand out together, eight powers of two: on simulated columns 8 show
# less, and 64 no more.
MOST_TOGETHER = 16
# What the largest of hundreds of blocks of noise alone seldom reaches; on simulated
# columns of 100 to 3,000 records.
TOLD = 4.0
# Numbers of parts of dates beside the likely ones, which count where they stand out
# together: on simulated dates of 200 to 5,000 days 3 deviations show little more than
# none, and 8 parts more wrong years.
BESIDE, LIKELY = (1, 2, 4), 2.0
# Narrower cells are single numbers, as are those narrower than this part of them.
NO_WIDTH, SAME = 1e-300, 1e-12
# Of levels that only fill up a power of two.
NO_LENGTH = 1e-12


@dataclass(frozen=True, eq=False)
class LevelColumn(LearntColumn):
    """A column while it is learnt, and its levels once it is.

    Parameters
    ----------
    name, position, declared
        See :class:`LearntColumn`.
    edges : ndarray of shape (m + 1,), default=None
        Of the cells of a number.
    keys, values : tuple, default=()
        Of a category: the keys by which cells are compared, and what they stand for.
    places : Places, default=None
        Noisy counts by which a number was located.
    falls : ndarray of shape (m,), default=None
        How much the log density falls along each cell; None: cells are even.
    rounds : Places, default=None
        Noisy counts of round numbers and of what lies between them.
    shown : tuple of (ndarray, float), default=None
        Noisy counts by which its categories were found, or those of its cells, and that
        of missing cells; the standard deviation of their noise.
    decimals : int, default=None
        That numbers which are not whole have at most; None: any number.
    """

    edges: np.ndarray | None = None
    keys: tuple = ()
    values: tuple = ()
    places: Places | None = None
    falls: np.ndarray | None = None
    rounds: Places | None = None
    shown: tuple | None = None
    decimals: int | None = None

    @classmethod
    def of(cls, name, position, declared, edges=None) -> LevelColumn:
        """The column with what the codebook says; ``edges`` of public bins."""
        column = cls(name, position, declared, edges)
        if edges is not None:
            declared = replace(declared, kind=declared.kind or "number")
            return replace(column, declared=declared)
        if declared.categories is not None:
            return column.with_categories(declared.categories)
        if declared.integer and declared.range is not None:
            low, high = declared.bounds
            if high - low < MOST_WHOLE_LEVELS:
                return replace(column, edges=np.arange(low, high + 2))
        return column

    def with_categories(self, values) -> LevelColumn:
        """The column with its list of categories."""
        keys = tuple(dict.fromkeys(key_of(value) for value in values))
        kept = {key_of(value): value for value in reversed(tuple(values))}
        return replace(self, keys=keys, values=tuple(kept[key] for key in keys))

    @property
    def is_located(self) -> bool:
        """Whether its kind or its cells have to be learnt."""
        return self.declared.kind is None or (self.is_number and self.edges is None)

    def keyed(self) -> Counted:
        """How its cells are counted once those of numbers are known."""
        kind = self.declared.kind if self.is_number else "category"
        edges = self.edges if self.is_number else None
        return Counted(self.position, kind, edges, self.missing_values)

    def is_told(self, noisy, scale) -> bool:
        """Whether any number, gap, date or text stands out of the noise."""
        n_places = len(self.located().edges) - 1
        if not scale or (noisy[n_places:] > TOLD * scale).any():
            return True
        *blocks, _ = _dyadic_sums(noisy[:n_places], scale)
        return max((sums / np.sqrt(n)).max() for sums, n in blocks) > TOLD

    @property
    def is_placed(self) -> bool:
        """Whether dates that nobody declared stand out of the noise of a look."""
        if self.places is None or self.places.sure == SURE:
            return True
        noisy, noise = self.places.noisy, self.places.noise
        # what a look into the years of most has found is in many of their parts
        is_looked_into = self.places.inner is not None
        return is_looked_into or bool((noisy > TOLD * noise).any())

    @property
    def is_seen(self) -> bool:
        """Whether noise lets one see where some of its numbers surely lie."""
        seen, noise = self.places.noisy, self.places.noise
        is_looked_into = self.places.inner is not None
        return is_looked_into or bool(surely_held(seen, noise).any())

    def with_cells(self, total) -> LevelColumn:
        """The column with cells at its quantiles, by its places."""
        if not self.is_number:
            return self
        edges = self.places.edges
        counts = self._placed_counts(total)
        occupied = np.flatnonzero(counts > 0)
        places = quantile_edges(edges, counts, self.declared.bounds)
        # what is rare beside large atoms, a tail above all, keeps cells of its own
        rest = np.where(counts >= RARE * counts.sum(), 0.0, counts)
        if rest.any():
            tail = quantile_edges(edges, rest, self.declared.bounds)[1:-1:2]
            places = np.union1d(places, tail)
        if self.declared.range is None and len(occupied):
            # nobody, as far as the noise lets one see, beyond these
            low, high = edges[occupied[0]], edges[occupied[-1] + 1]
            places = places[(places >= low) & (places <= high)]
        return replace(self, edges=rounded_edges(places))

    def _placed_counts(self, total) -> np.ndarray:
        """Counts of the places, none beyond where its numbers are seen to lie."""
        seen, noise = self.places.noisy, self.places.noise
        counts = self.places.counts(total)
        if not noise.any():
            return counts
        total, inside = max(counts.sum(), 1.0), slice(None)
        if self.declared.range is None:
            empty = EMPTY_ANYWHERE if len(seen) > FEW_CELLS else EMPTY_OF_FEW
            held = expected_counts(seen, noise, total, empty)[1]
            # of so many places some stand out by chance
            is_there = self.near(self.places.edges) | (seen > SURE * noise)
            held = np.where(is_there, held, 0.0)
            likely = held >= min(0.5, held.max())
            inner = self.places.inner
            if inner is not None and (
                seen[likely].sum() < total / 2 or not likely[inner].any()
            ):
                likely[inner] = True  # noise hides where among these parts most are
            where = np.flatnonzero(likely)
            first, last = where[0], where[-1] + 1
            if self.declared.kind == "date" and inner is not None:
                # years are in many parts, of which noise hides each
                before, after = slice(inner.start, first), slice(last, inner.stop)
                first -= n_beside(seen[before][::-1], noise[before][::-1])
                last += n_beside(seen[after], noise[after])
            inside = slice(first, last)
        counts = np.zeros(len(seen))
        counts[inside] = expected_counts(seen[inside], noise[inside], total, EMPTY)[0]
        return counts

    def at_round_numbers(self) -> Counted:
        """How its cells are counted at round numbers, between them and beyond.

        What lies beyond is parted at zero where no range is known.
        """
        numbers = round_numbers(self.edges, self.n_decimals)
        low, high = self.edges[[0, -1]]
        far = 2 * max(universal_edges()[-1], -low, high)
        ends = [-far, low, high, far]
        zero = [0.0] if self.declared.range is None else []
        edges = np.unique([*ends, *zero, *numbers, *np.nextafter(numbers, np.inf)])
        return Counted(self.position, "number", edges, self.missing_values)

    def with_atoms(self, noisy, scale) -> LevelColumn:
        """The column with a cell for every frequent round number, from noisy counts.

        Where many records lie beyond the cells, so that noise hid them in the many
        places, these are extended.
        """
        edges = self.at_round_numbers().edges
        rounds = Places.of(edges, noisy, scale, is_open=True)
        noisy = rounds.noisy
        is_number = np.isin(edges[:-1], round_numbers(self.edges, self.n_decimals))
        counts = np.where(is_number, noisy, 0.0)
        smallest = np.maximum(noisy, 0).sum() * SMALLEST_ATOM
        # few of the candidates are edges: less noise has to be stood out of
        of_noise = np.where(np.isin(edges[:-1], self.edges), EDGE_ATOM, ATOM)
        largest = np.argsort(-counts, kind="stable")[:MOST_ATOMS]
        is_atom = counts > np.maximum(of_noise * scale, smallest)
        atoms = edges[:-1][largest[is_atom[largest]]]
        least = max(EDGE_ATOM * scale, smallest)
        found = [self.edges, atoms, np.nextafter(atoms, np.inf)]
        if self.declared.range is None:
            grid, places = self.places.edges, self.places.noisy
            low, high = self.edges[[0, -1]]
            below, above = low - grid[:-1][::-1], grid[1:] - high
            # what lies beyond from far to near, parted at zero if that lies there
            tails = (
                (noisy[: 1 + (low > 0)], below, places[::-1], low, -1),
                (noisy[::-1][: 1 + (high < 0)], above, places, high, 1),
            )
            for counts, far, seen, end, sign in tails:
                is_beyond = far > 0
                if not is_beyond.any() or not (counts > least).any():
                    continue
                seen, far = seen[is_beyond], far[is_beyond]
                tail = end + sign * _tail(seen, far, counts.sum(), high - low)
                if len(counts) > 1:
                    # few columns have both signs: behind zero is what stands out alone
                    is_held = (np.sign(tail) == np.sign(end)) | (counts[0] > least)
                    tail = np.append(tail[is_held], 0.0)
                found.append(tail)
        return replace(self, edges=np.unique(np.concatenate(found)), rounds=rounds)

    def beside_text(self, most) -> LevelColumn:
        """The column where many cells are text: few whole numbers are categories.

        As "0", "1", "2" are beside "3+". More numbers stay numbers, with texts missing.
        """
        is_whole = self.is_number and self.declared.integer
        if not is_whole or np.ptp(self.edges) >= min(most, MOST_BESIDE_TEXT):
            return self
        declared = replace(self.declared, kind="category", integer=False)
        return LevelColumn(self.name, self.position, declared)

    def with_counted(self, counts, scale) -> tuple[np.ndarray, np.ndarray]:
        """Least squares of noisy counts of the levels and of all counted before.

        Returns the counts and F: their covariance is that of `counts` less F F'.
        """
        found = [*self._by_places(counts, scale), *self._by_rounds(), *self._by_shown()]
        if not found:
            return counts, np.zeros((len(counts), 0))
        parts, seen, noise = zip(*found, strict=True)
        parts, seen = np.concatenate(parts), np.concatenate(seen)
        both = block_diag(*noise) + scale**2 * parts @ parts.T
        gap = seen - parts @ counts
        values, vectors = np.linalg.eigh(both)
        least = max(1e-15 * values.max(initial=0.0), 1e-18)
        root = vectors / np.sqrt(np.maximum(values, least))
        whitened = root.T @ np.column_stack([parts, gap])
        factor = scale**2 * whitened[:, :-1].T
        return counts + factor @ whitened[:, -1], factor

    def _by_places(self, counts, scale):
        """Parts of the levels in every place, noisy counts and their covariance.

        A cell that lies in two places counts for each by its length there, with doubt.
        """
        if self.places is None or not self.is_number or self.n_cells < 3:
            return
        seen, noise = self.places.noisy, self.places.noise
        edges = self.places.edges
        edges = self.raised(edges)
        # the first and the last cell have whatever lies beyond as well
        inside = (edges[:-1] >= self.edges[1]) & (edges[1:] <= self.edges[-2])
        inside &= edges[:-1] < edges[1:]
        low, high = edges[:-1][inside, None], edges[1:][inside, None]
        shared = np.minimum(high, self.edges[1:]) - np.maximum(low, self.edges[:-1])
        parts = np.zeros((len(low), len(counts)))
        parts[:, : self.n_cells] = np.clip(shared / np.diff(self.edges), 0.0, 1.0)
        doubt = (DOUBT * np.maximum(counts, scale)) ** 2
        covariance = np.diag(noise[inside] ** 2 + parts @ doubt)
        yield parts, seen[inside], covariance - (parts * doubt) @ parts.T

    def _by_rounds(self):
        """The same of cells and round numbers between edges that both have."""
        if self.rounds is None or not self.is_number:
            return
        edges = self.raised(self.rounds.edges)
        common = np.intersect1d(edges[1:-1], self.edges[1:-1])
        parts = np.zeros((len(common) + 1, self.n_levels))
        of_cell = np.searchsorted(common, self.edges[:-1], "right")
        parts[of_cell, np.arange(self.n_cells)] = 1.0
        # between some edges there is no whole number
        some = edges[:-1] < edges[1:]
        between = np.searchsorted(common, edges[:-1][some], "right")
        variance = np.bincount(between, self.rounds.noise[some] ** 2)
        yield parts, np.bincount(between, self.rounds.noisy[some]), np.diag(variance)

    def _by_shown(self):
        """The same of cells or categories that were found, and of missing cells."""
        if self.shown is not None:
            seen, scale = self.shown
            at = [*range(self.n_cells), self.n_levels - 1]
            at = at[: self.n_cells + self.declared.missing]
            yield np.eye(self.n_levels)[at], seen[: len(at)], scale**2 * np.eye(len(at))

    def near(self, edges) -> np.ndarray:
        """Which cells are not far from where numbers surely are, if that is known.

        Of hundreds of empty places one stands out of the noise now and then, and is a
        number of millions in a column of ages.
        """
        every = np.ones(len(edges) - 1, dtype=bool)
        if self.places is None:
            return every
        places, seen, noise = self.places.edges, self.places.noisy, self.places.noise
        # many zeros say nothing of the other numbers
        is_wide = np.diff(places) > NO_WIDTH
        is_sure = seen > SURE * noise
        is_looked_into = self.places.inner is not None
        if is_looked_into:  # together they hold most
            is_sure[self.places.inner] = True
        sure = np.flatnonzero(is_sure & is_wide)
        if not len(sure):
            return every
        low, high = places[[sure[0], sure[-1] + 1]]
        reach = REACH * (high - low if is_looked_into else max(-low, high))

        def beside(edges):
            return (edges[1:] > low - reach) & (edges[:-1] < high + reach)

        near, others = beside(edges), np.where(beside(places), 0.0, seen)
        # far from a crowd a few numbers may be sure together, in cells of which none is
        told = np.flatnonzero(surely_held(others, noise) & is_wide)
        if len(told):
            low, high = places[[told[0], told[-1] + 1]]
            reach = REACH * max(-low, high)
            near |= beside(edges)
        return near

    def with_shares(self, shares) -> LevelColumn:
        """The column with a density in each cell that goes on in its neighbours.

        It is exponential; its ends are what the densities of the two cells say, in
        logarithms, at the edge between their middles. Cells of single numbers are no
        neighbours.
        """
        if not self.is_number:
            return self
        widths = np.maximum(np.diff(self.edges), 1e-300)
        beside = np.minimum(np.r_[inf, widths[:-1]], np.r_[widths[1:], inf])
        apart = np.maximum(beside * SINGLE, SAME * np.abs(self.edges[1:]))
        wide = np.flatnonzero(widths > apart)
        falls = np.zeros(len(widths))
        w, held = widths[wide], shares[wide]
        logs = np.log(np.maximum(held, 1e-9 * shares.max()) / w)
        between = (w[1:] * logs[:-1] + w[:-1] * logs[1:]) / (w[1:] + w[:-1])
        first, last = (np.r_[logs[:1], between], np.r_[between, logs[-1:]])
        ends = np.exp(np.clip([first - logs, last - logs], -30, 30))
        is_tail = w > TAIL * np.minimum(np.r_[inf, w[:-1]], np.r_[w[1:], inf])
        falls[wide] = np.where(is_tail, ends[0] - ends[1], 0.0)
        return replace(self, falls=falls)

    def with_even_cells(self) -> LevelColumn:
        """The column with cells that begin at numbers of its decimals."""
        if self.n_decimals is None:
            return self
        edges, step = np.unique(self.raised(self.edges)), 10.0**-self.n_decimals
        if edges[-1] == self.edges[-1]:
            if self.declared.range is not None:
                # the upper end belongs to the last cell
                edges[-1] = self.raised(edges[-1] + step / 2)
            elif len(edges) > 1 and edges[-1] - edges[-2] < 1.5 * step:
                # one number alone: what lies beyond, if anything, is no part of it
                edges = np.append(edges, self.raised(edges[-1] + step / 2))
        if len(edges) < 2:
            edges = self.raised(edges[0] + np.array([0.0, step / 2]))
        return replace(self, edges=edges)

    @property
    def n_decimals(self) -> int | None:
        """Decimals of its numbers, if that is known: whole ones have none."""
        return 0 if self.is_whole else self.decimals

    def raised(self, numbers) -> np.ndarray:
        """The next larger numbers, or the same, that the column may have."""
        if self.n_decimals is None:
            return numbers
        nearest = np.round(numbers, self.n_decimals)
        step = 10.0**-self.n_decimals
        above = np.round(nearest + step, self.n_decimals)
        return np.where(nearest >= numbers, nearest, above)

    def lowered(self, numbers) -> np.ndarray:
        """The next smaller numbers, or the same, that the column may have."""
        return 0.0 - self.raised(-numbers)  # which makes no negative zero

    # --- levels -----------------------------------------------------------------------
    @property
    def n_cells(self) -> int:
        """Levels of cells or listed categories."""
        return len(self.edges) - 1 if self.is_number else len(self.keys)

    @property
    def has_other(self) -> bool:
        """Whether an unlisted category counts as "other"."""
        return self.declared.kind == "category" and self.declared.other

    @property
    def n_levels(self) -> int:
        """Number of levels: cells or categories, then "other", then missing."""
        return max(1, self.n_cells + self.has_other + self.declared.missing)

    @property
    def level_type(self) -> type:
        """Integers that hold a level."""
        return np.int16 if self.n_levels < 1 << 15 else np.int32

    def encode(self, cells: Cells) -> np.ndarray:
        """Level of every cell, a function of the cell alone."""
        cells = without_missing_values(cells, self.missing_values)
        missing = self.n_levels - 1
        if self.is_number:
            numbers = cells.numbers(self.declared.kind)
            levels = cell_of(numbers, self.edges)
            # without a level for missing cells they count for the first
            absent = missing if self.declared.missing else 0
            return np.where(np.isnan(numbers), absent, levels).astype(self.level_type)
        keys, inverse = cells.keys()
        index = {key: level for level, key in enumerate(self.keys)}
        # what there is no level for counts for the last
        other = self.n_cells if self.has_other else missing
        levels = [missing if k is None else index.get(k, other) for k in keys]
        return np.array(levels or [0], dtype=self.level_type)[inverse]

    def decode(self, levels, within) -> np.ndarray:
        """A value of every level: of a number at a place in [0, 1) of its cell."""
        if self.is_number:
            return self._decode_numbers(levels, within)
        values = np.empty(self.n_levels, dtype=object)
        values[: self.n_cells] = self.values
        if self.has_other:
            values[self.n_cells] = OTHER
        return values[levels]

    def _decode_numbers(self, levels, within):
        cells = np.minimum(levels, self.n_cells - 1)
        # a cell that ends at the next number there is has its own and no other
        is_single = np.nextafter(self.edges[:-1], inf) >= self.edges[1:]
        widths = np.where(is_single, 0.0, np.diff(self.edges))
        low, width = self.edges[:-1][cells], widths[cells]
        if self.falls is not None:
            within = _falling(within, self.falls[cells])
        drawn = low + width * within
        drawn = self.lowered(drawn)
        if self.declared.range is not None:
            drawn = np.clip(drawn, *self.declared.bounds)
        missing = levels >= self.n_cells
        if self.declared.kind == "date":
            days = np.floor(drawn).astype("timedelta64[D]")
            dates = np.datetime64(0, "D") + days
            return np.where(missing, np.datetime64("NaT", "D"), dates)
        return np.where(missing, np.nan, drawn)

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are whole."""
        return self.declared.kind == "date" or self.declared.integer

    @property
    def level_names(self) -> tuple:
        """A name for every level of a category."""
        names = (*self.values, *(OTHER,) * self.has_other, "missing")
        return names[: self.n_levels]

    @property
    def optional(self) -> tuple:
        """Levels that may well be empty: "other" and missing."""
        return tuple(range(self.n_cells, self.n_levels)) if self.n_cells else ()

    def listed(self, present) -> tuple | None:
        """Values of a category at the levels where `present`; None for a number."""
        if self.is_number:
            return None
        values = (*self.values, *(OTHER,) * self.has_other, None)
        return tuple(v for v, p in zip(values, present, strict=False) if p)

    def whole_type(self, present) -> str | None:
        """How a number is stored: "int", "nullable int", "date", else None."""
        if not self.is_number:
            return None
        if self.declared.kind == "date":
            return "date"
        if not self.is_whole or np.abs(self.edges).max() >= 1 << 62:
            return None
        gaps = present[self.n_cells :].any()
        return "nullable int" if gaps else "int"


def rounded_edges(edges) -> np.ndarray:
    """Edges moved to the roundest numbers near them: many people share round numbers.

    An inner edge moves by less than half the way to its neighbours, so their order
    stays; the ends, and the cell of zero alone, stay where they are.
    """
    moved = edges.copy()
    for i in range(1, len(edges) - 1):
        low, high = (edges[i - 1] + edges[i]) / 2, (edges[i] + edges[i + 1]) / 2
        if edges[i - 1] != 0.0 and edges[i] != 0.0:
            moved[i] = roundest(low, high)
    return moved


def _falling(u, falls) -> np.ndarray:
    """Places in [0, 1] of a density that falls by ``exp(-falls)``, by inversion."""
    size = np.maximum(np.abs(falls), 1e-6)
    places = -np.log1p(u * np.expm1(-size)) / size
    return np.clip(np.where(falls < 0, 1 - places, places), 0.0, 1.0)


def _tail(seen, far, count, span) -> np.ndarray:
    """Distances of edges for `count` records beyond the cells, a decade each.

    As far as nearly all of them are seen, if noise lets one see it, else one `span`.
    """
    enough = np.flatnonzero(np.cumsum(seen) >= 0.8 * count)
    reach = far[enough[0]] if len(enough) else span
    first, last = TAIL_DECADES
    if span < NO_WIDTH:  # all cells are those of single numbers, such as zero
        if reach < NO_WIDTH:
            return np.zeros(0)
        span = reach / 10.0**last
    decades = span * 10.0 ** np.arange(first, last + 1)
    return decades[: np.searchsorted(decades, max(reach, span)) + 1]


def round_numbers(edges, n_decimals=None) -> np.ndarray:
    """Numbers of two digits where the edges are dense, multiples of a power of ten.

    Edges are dense where the records are. `SENTINELS` are among them wherever they lie.
    Of so many decimals are none others, and all of them where these are few.
    """
    sizes = edges[np.abs(edges) >= 1e-9]
    decades = np.sign(sizes) * (np.floor(np.log10(np.abs(sizes))) + 100)
    values, counts = np.unique(decades, return_counts=True)
    dense = values[np.argsort(-counts, kind="stable")[:MOST_DECADES]]
    digits = np.arange(10.0, 100.0)
    two = [np.sign(d) * digits * 10.0 ** (abs(d) - 101) for d in dense]
    low, high = np.quantile(edges, [0.1, 0.9])
    unit = 10.0 ** np.ceil(np.log10(max(high - low, 1e-6) / 128))
    if n_decimals:
        units = np.multiply.outer(10.0 ** np.arange(-n_decimals, 16), [1, 5]).ravel()
        unit = min(units[(high - low) / units < MOST_EVEN], default=unit)
    even = unit * np.arange(np.ceil(low / unit), np.floor(high / unit) + 1)
    numbers = np.concatenate([[0.0], SENTINELS, *two, even])
    numbers = np.array([decimal(x) for x in numbers])
    if n_decimals is not None:
        numbers = numbers[np.round(numbers, n_decimals) == numbers]
    return np.unique(numbers[(numbers >= edges[0]) & (numbers <= edges[-1])])


def decimal(number) -> float:
    """The nearest number to a decimal one: 0.3 is 3 / 10 and not 3 * 0.1."""
    return float(f"{number:.12g}")


def roundest(low, high) -> float:
    """The number with the fewest digits in (low, high]."""
    if low < 0 <= high:
        return 0.0
    if high - low < 1e-12 * abs(high):
        return float(high)
    for power in range(20, -20, -1):
        unit = 10.0**power
        number = decimal(np.floor(high / unit) * unit)
        if low < number <= high:
            return number
    return float(high)


def surely_held(noisy, noise) -> np.ndarray:
    """Which cells surely have records, by themselves or with those beside them.

    A few numbers beside one that nearly all records have may lie in several cells, each
    of which is hidden by its noise. Of the dyadic blocks that stand out the least do.

    Parameters
    ----------
    noisy : ndarray of shape (n,)
    noise : ndarray of shape (n,)
        Its standard deviations.
    """
    left, variance = np.zeros((2, -(-len(noisy) // MOST_TOGETHER) * MOST_TOGETHER))
    left[: len(noisy)], variance[: len(noisy)] = noisy, noise**2
    sure = np.zeros(len(left), dtype=bool)
    for size in 2 ** np.arange(MOST_TOGETHER.bit_length()):
        sums, variances = (x.reshape(-1, size).sum(axis=1) for x in (left, variance))
        told = np.repeat(sums > SURE * np.sqrt(variances), size)
        left[told] = 0.0  # a larger block has to stand out by what is left
        sure |= told
    return sure[: len(noisy)]


def n_beside(noisy, noise) -> int:
    """How many cells, from the first on, stand out together; 0 if none do."""
    ends = np.minimum(BESIDE, len(noisy))
    sums, variances = (np.append(0.0, np.cumsum(x))[ends] for x in (noisy, noise**2))
    return int(ends[sums > LIKELY * np.sqrt(variances)].max(initial=0))


def expected_counts(noisy, scale, total, empty) -> tuple[np.ndarray, np.ndarray]:
    """Counts of ordered levels as noisy ones let one expect them.

    A priori the levels of a dyadic block are alike, or its halves are blocks by
    themselves, with even chances; where they are alike nobody has them, with chance
    `empty`, or as many records each as an exponential distribution says. The mean over
    all partitions is a recursion (Willems, Shtarkov, Tjalkens, IEEE Transactions on
    Information Theory, 1995).

    Parameters
    ----------
    noisy : ndarray of shape (n,)
    scale : float or ndarray of shape (n,)
        Standard deviation of the noise of each.
    total : float
        What the counts add up to.
    empty : float

    Returns
    -------
    counts : ndarray of shape (n,)
    held : ndarray of shape (n,)
        Chance that somebody has a level.
    """
    n, unit = len(noisy), np.min(scale)
    rate = n * (1 - empty) * unit / total  # of the exponential distribution
    tiers, evidence = [], None
    for sums, lengths in _dyadic_sums(noisy, scale):
        root = np.sqrt(lengths)
        z = (sums - rate) / root
        # the integral over all counts, relative to nobody; and their mean
        log_ratio = np.log(sqrt(2 * pi) * rate / root) + _log_tail(z)
        mean = np.maximum(z + np.exp(-0.5 * log(2 * pi) - _log_tail(z)), 0.0) / root
        alike = np.logaddexp(log(empty), log(1 - empty) + log_ratio)
        held = np.exp(log(1 - empty) + log_ratio - alike)
        parted = np.zeros(len(sums))
        if evidence is not None:
            halves = evidence.reshape(-1, 2).sum(axis=1)
            alike, whole = np.logaddexp(alike, halves) - log(2), alike
            parted = expit(halves - whole)
        evidence = alike
        tiers.append((held, mean, parted))
    counts, chance, still = np.zeros(1), np.zeros(1), np.ones(1)
    for tier, (held, mean, parted) in enumerate(reversed(tiers)):
        if tier:
            counts, chance, still = (np.repeat(x, 2) for x in (counts, chance, still))
        here = still * (1 - parted) * held
        counts, chance, still = counts + here * mean, chance + here, still * parted
    counts, chance = counts[:n], chance[:n]
    if not counts.sum() > 0:
        return np.full(n, total / n), chance
    return counts * (total / counts.sum()), chance


def _dyadic_sums(noisy, scale):
    """Sums over blocks, in the least noise of a level, and their squared noise."""
    n, unit = len(noisy), np.min(scale)
    size = 1 << max(1, ceil(log2(max(n, 2))))
    sums, lengths = np.zeros(size), np.full(size, NO_LENGTH)
    lengths[:n] = (unit / scale) ** 2
    sums[:n] = noisy / unit * lengths[:n]
    yield sums, lengths
    while len(sums) > 1:
        sums, lengths = (x.reshape(-1, 2).sum(axis=1) for x in (sums, lengths))
        yield sums, lengths


def _log_tail(z) -> np.ndarray:
    """Logarithm of ``exp(z**2 / 2)`` times the normal distribution function at z."""
    below = np.log(erfcx(-np.minimum(z, 0.0) / sqrt(2)) / 2)
    return np.where(z < 0, below, np.maximum(z, 0.0) ** 2 / 2 + log_ndtr(z))


def has_more_decimals(cells: Cells, n_decimals: int) -> np.ndarray:
    """Whether a cell is a number that so many decimals do not give."""
    values = np.where(np.isfinite(cells.values), cells.values, 0.0)
    return (cells.kinds != MISSING) & (values != np.round(values, n_decimals))
