"""Where the numbers of a column lie, from noisy counts.

Beside the counts that are asked for, public arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .._shared.arrays import project_simplex
from .._wall import KeyedRelease, PrivacyFilter, Rows
from ._cells import key_of
from ._codebook import Column
from ._counting import SURE, ColumnCounts, Counted
from ._ranks import (
    PARTS,
    date_edges,
    edges_within,
    is_zero,
    parts_of_cell,
    universal_edges,
)

LOOKS, N_LOOKS = "parts of crowded cells", 3  # these divide a cell by 2**18
# Two cells are looked into that surely hold so much of a column. With .8 a quarter of
# other numbers hides the rest.
_CROWD = 0.6
# That the cells of a column are dates is known before it is asked where they lie: so
# many are enough there. On simulated tables 1.5 is as good and 5 is worse.
_LIKELY = 3.0
# Numbers that are taken to lie evenly in parts, in standard deviations of the noise of
# a count: 10 is better than 0 or 3 where noise is as large as what the parts hold.
_EVEN = 10.0
# Parts tell more than cells where so much of their width holds all but so much, chosen
# with Law School in view, and where that is not noise: the difference is more than
# noise makes of it, or two neighbouring parts hold as much, and more than noise makes
# of two in one column of thirty. Those were chosen on simulated columns, with two
# held-out tables in view, FIFA and Computers.
_NARROW, _SELDOM = 0.25, 3.5
# A part with so much of a column keeps its ends. On simulated columns .1 is as good,
# and .5 helps less where two in five records have one value.
_OWN_PART = 0.25


@dataclass(frozen=True, eq=False)
class Places:
    """Noisy counts in the cells of a column, finer ones where it is crowded.

    Parameters
    ----------
    edges : ndarray of shape (m + 1,)
    noisy : ndarray of shape (m,)
        Counts between the edges.
    others : ndarray
        Noisy counts of the cells that hold no number.
    noise : ndarray of shape (m,)
        Standard deviation of the noise of each count.
    is_open : bool
        Whether the outer cells hold what lies beyond.
    inner : slice, default=None
        Cells that are parts of others, the last ones that were counted.
    is_settled : bool, default=False
        Whether parts were no better than cells.
    sure : float, default=SURE
        How many standard deviations of the noise make a crowd.
    """

    edges: NDArray
    noisy: NDArray
    others: NDArray
    noise: NDArray
    is_open: bool
    inner: slice | None = None
    is_settled: bool = False
    sure: float = SURE

    @classmethod
    def of(cls, edges, counts, scale: float, *, is_open: bool) -> Places:
        """Places by the counts of one release."""
        n_cells = len(edges) - 1
        noise = np.full(n_cells, scale)
        return cls(edges, counts[:n_cells], counts[n_cells:], noise, is_open)

    def crowded(self, total: float) -> NDArray[np.intp]:
        """Two neighbouring cells that hold most numbers, or none.

        Zero alone is no number here: it is an atom, and parts two that are neighbours.

        Parameters
        ----------
        total : float
            Number of records.
        """
        zero = is_zero(self.edges)
        cells = np.flatnonzero(~zero)
        if self.is_settled or len(cells) < 2:
            return cells[:0]
        pairs = self.noisy[cells[:-1]] + self.noisy[cells[1:]]
        best = int(np.argmax(pairs))
        cells = cells[best : best + 2]
        doubt = math.hypot(*self.noise[cells])
        rest = total - max(0.0, self.others.sum()) - self.noisy[zero].sum()
        is_crowd = pairs[best] > max(_CROWD * rest, self.sure * doubt)
        return cells if is_crowd else cells[:0]

    def parts(self, cells) -> NDArray[np.float64]:
        """Edges of the parts of two cells."""
        last = len(self.edges) - 2
        parts = []
        for i in cells.tolist():
            is_last = self.is_open and i in (0, last)
            parts.append(parts_of_cell(*self.edges[i : i + 2], is_last=is_last))
        return np.unique(np.concatenate(parts))

    def asked(self, cells) -> NDArray[np.float64]:
        """Edges of the parts and, where there are some, of what lies beyond them."""
        return np.union1d(self.parts(cells), self.edges[[0, -1]])

    def with_parts(self, cells, counts, scale: float) -> Places:
        """The places with counts of parts instead of those of two cells, if they help.

        Parameters
        ----------
        cells : ndarray of shape (2,)
        counts : ndarray
            Of the cells of `asked` and of what is no number.
        scale : float
            Of their noise.
        """
        parts, asked = self.parts(cells), self.asked(cells)
        first = int(np.searchsorted(asked, parts[0]))
        counts = counts[first : first + len(parts) - 1]
        start, stop = int(cells[0]), int(cells[-1]) + 1
        # Ranks by parts have a mean squared error of noise, m / 6 of its variance, and
        # ranks by cells one that is seen in the difference, beside that noise.
        by_parts = np.append(0.0, np.cumsum(counts))
        cumulated = np.append(0.0, np.cumsum(self.noisy[start:stop]))
        apart = by_parts - np.interp(parts, self.edges[start : stop + 1], cumulated)
        apart -= np.linspace(0.0, apart[-1], len(apart))
        is_told = np.mean(apart**2) > 2.0 * len(counts) / 6.0 * scale**2
        two = (by_parts[2:] - by_parts[:-2]).max()
        reach = parts + _NARROW * (parts[-1] - parts[0])
        stops = np.searchsorted(parts, reach, side="right") - 1
        most = (1.0 - _NARROW) * self.noisy[cells].sum()
        is_told |= two >= max(most, _SELDOM * math.sqrt(2.0) * scale)
        is_narrow = (by_parts[stops] - by_parts).max() >= most
        if len(parts) != 2 * PARTS + 1:
            # Powers of two down to zero or up without end are within little of the
            # width, and their noise adds up; beyond there are few parts.
            inner = int(np.argmax(stops - np.arange(len(parts))))
            beyond = np.delete(counts, slice(inner, stops[inner]))
            noise = _SELDOM * math.sqrt(len(beyond)) * scale
            is_narrow, is_told = True, is_told | (beyond.sum() < most - noise)
        if not is_narrow or not is_told:
            return replace(self, is_settled=True)

        def spliced(old, new, stop):
            return np.concatenate([old[:start], new, old[stop:]])

        return replace(
            self,
            edges=spliced(self.edges, parts, stop + 1),
            noisy=spliced(self.noisy, counts, stop),
            noise=spliced(self.noise, np.full(len(counts), scale), stop),
            inner=slice(start, start + len(counts)),
        )

    def counts(self, total: float) -> NDArray[np.float64]:
        """Counts between the edges, not negative."""
        seen = np.concatenate([self.noisy, self.others])
        counts = project_simplex(seen, total)[: len(self.noisy)]
        if self.inner is not None:
            noise = self.noise[self.inner]
            counts[self.inner] += _EVEN * noise / len(noise)
        return counts

    def alone(self, counts) -> NDArray[np.intp]:
        """Positions of the ends of parts that hold much of the column each.

        Quantiles fall into them: a few records beside one would share its cell.
        """
        is_own = counts > _OWN_PART * counts.sum()
        is_own[: self.inner.start] = is_own[self.inner.stop :] = False
        own = np.flatnonzero(is_own)
        return np.union1d(own, own + 1)


@dataclass(frozen=True, eq=False)
class UnseenDates(Places):
    """Dates that were counted in one cell: the first look finds the years of most."""

    @classmethod
    def anywhere(cls) -> UnseenDates:
        """Dates of which nothing more is known."""
        edges = date_edges()
        zeros = np.zeros(len(edges) - 1)
        unknown = np.full(len(zeros), math.inf)
        return cls(edges, zeros, zeros[:0], unknown, is_open=True)

    def crowded(self, total: float) -> NDArray[np.intp]:
        """All cells."""
        return np.arange(len(self.noisy))

    def asked(self, cells) -> NDArray[np.float64]:
        """Edges of all cells."""
        return self.edges

    def with_parts(self, cells, counts, scale: float) -> Places:
        """Places by the counts of the cells."""
        return replace(Places.of(self.edges, counts, scale, is_open=True), sure=_LIKELY)


@dataclass(frozen=True, eq=False)
class LearntColumn:
    """What encoder and generators know alike of a column while it is learnt.

    Parameters
    ----------
    name : str
    position : int
        In the table.
    declared : Column
        What the codebook says; the kind is filled in once it is learnt.
    """

    name: str
    position: int
    declared: Column

    @property
    def missing_values(self) -> tuple:
        """Keys of the cells that mean missing."""
        return tuple(map(key_of, self.declared.missing_values))

    def check_categories(self) -> None:
        """Refuse categories that are read alike: they would be one."""
        read: dict = {}
        for category in self.declared.categories or ():
            other = read.setdefault(key_of(category), category)
            if other is not category:
                raise ValueError(
                    f"The category {category!r} of the column {self.name!r} is read "
                    f"like {other!r}: leave it out of the list."
                )

    def complete_list(self) -> set | None:
        """Keys of all cells there may be, None if there may be others."""
        declared = self.declared
        if declared.other or declared.categories is None:
            return None
        return {key_of(label) for label in declared.categories} | {None}

    @property
    def is_number(self) -> bool:
        """Whether it is a number or a date."""
        return self.declared.kind in ("number", "date")

    @property
    def is_universal(self) -> bool:
        """Whether it is a number of which no range is known."""
        return self.declared.kind == "number" and self.declared.range is None

    @property
    def is_used(self) -> bool:
        """Whether it is part of the result."""
        return self.declared.kind != "left out"

    @property
    def is_keyed(self) -> bool:
        """Whether its categories have to be learnt."""
        kind = self.declared.kind
        return kind in ("category", "flag") and self.declared.categories is None

    def located(self) -> Counted:
        """How its cells are counted to find where they lie."""
        bounds = self.declared.bounds
        edges = universal_edges() if bounds is None else edges_within(*bounds)
        return Counted(self.position, self.declared.kind, edges, self.missing_values)

    def placed(self, noisy, scale, kind):
        """The column of this kind, with noisy counts of where its numbers lie."""
        declared = replace(self.declared, kind=kind)
        column = replace(self, declared=declared)
        if not column.is_number:
            return column
        if kind == "date" and self.declared.kind is None:
            return replace(column, places=UnseenDates.anywhere())
        is_open = declared.range is None
        places = Places.of(self.located().edges, noisy, scale, is_open=is_open)
        return replace(column, places=places)


def looks(mu: float, n_coordinates: int) -> KeyedRelease:
    """The line of a plan for `look_closer`: each release has parameter `mu`."""
    return KeyedRelease(LOOKS, "gaussian", mu, n_coordinates, N_LOOKS)


def look_closer(wall: PrivacyFilter, rows: Rows, columns, total: float) -> list:
    """Count the parts of cells that hold most of a column, a few times over.

    Parameters
    ----------
    wall : PrivacyFilter
        Reserved, with the line of `looks`.
    rows : Rows
    columns : sequence of LearntColumn
        With `places` where they are numbers.
    total : float
        Number of records.

    Returns
    -------
    columns : list
        With their places by all of these counts.
    """
    columns = list(columns)
    for _ in range(N_LOOKS):
        crowded = {
            i: column.places.crowded(total)
            for i, column in enumerate(columns)
            if column.is_number
        }
        crowded = {i: cells for i, cells in crowded.items() if len(cells)}
        query = ColumnCounts(tuple(_parts(columns[i], crowded[i]) for i in crowded))
        noisy, _ = wall.release_keyed(query, rows, name=LOOKS)
        scale = wall.scale(query, name=LOOKS)
        for i, counts in zip(crowded, query.split(noisy), strict=True):
            places = columns[i].places.with_parts(crowded[i], counts, scale)
            columns[i] = replace(columns[i], places=places)
    return columns


def _parts(column, cells) -> Counted:
    """How the parts of two cells of a column are counted."""
    edges, kind = column.places.asked(cells), column.declared.kind
    return Counted(column.position, kind, edges, column.missing_values)
