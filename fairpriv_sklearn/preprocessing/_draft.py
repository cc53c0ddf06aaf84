"""A column while an encoder learns it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .._shared.arrays import project_simplex
from ._cells import key_of
from ._codebook import Column, whole_days
from ._counting import Counted
from ._encoded import (
    CategoryColumn,
    NumberColumn,
    spread_of_indicators,
    spread_of_number,
)
from ._places import SURE, LearntColumn, Places
from ._ranks import (
    RankMap,
    ends_at_records,
    is_zero,
    quantile_edges,
    with_prior,
    with_shares,
)

# A count of missing cells below so many standard deviations is noise.
_SIGNIFICANT = 3.0
# Texts beside numbers count as missing, and are told of from this part of records on.
_FREQUENT = 1 / 20
# An atom is a cell that has at least this part of the records, this many times as many
# as each beside it, and more than so many standard deviations of the noise explain. On
# simulated columns 1/8 to 1/16 and 2 to 3 are alike; by its part alone a cell of 1/16
# is often none.
_ATOM, _ABOVE_BESIDE, _SURE_ATOM = 1 / 12, 2.0, 5.0
# Where no cell but zero is sure alone, cells side by side are together from so many
# standard deviations on: of noise alone one column in 300 has such a run, at 4 one in
# 30, and at 5 amounts beside many zeros are found later. On simulated columns.
_SURE_RUN = 4.5
_REACH = 4.0  # how far from sure cells tails are looked for, in units of their ends


@dataclass(frozen=True, eq=False)
class Draft(LearntColumn):
    """A column while it is learnt: everything in it is public or released."""

    ranks: str
    edges: np.ndarray | None = None
    shares: np.ndarray | None = None  # of the records between the edges, by and large
    places: Places | None = None
    place: tuple = (math.inf, -math.inf)  # ends of cells that surely have records
    rank_map: RankMap | None = None
    range: tuple | None = None
    categories: tuple | None = None
    has_missing: bool | None = None
    has_many_others: bool = False  # whether categories that do not show are frequent
    has_texts: bool = False  # whether texts are frequent beside its numbers or dates
    counts: np.ndarray | None = None  # of cells or categories, others, and missing ones

    @property
    def is_located(self) -> bool:
        """Whether the first release counts it."""
        if self.declared.kind is None:
            return True
        return self.is_number and not (self.ranks == "uniform" and self.declared.range)

    @property
    def is_mostly_hashed(self) -> bool:
        """Whether most of its cells are texts that no category shows."""
        if not self.has_many_others:
            return False
        *listed, others, missing = self.counts
        return bool(others > missing + math.fsum(listed))

    def with_texts(self, noisy, total, scale, doubt) -> Draft:
        """The column, with whether texts are frequent: the last of its noisy counts.

        If they may be most of its cells, noise took it for numbers. `doubt` is the
        standard deviation of `total`.
        """
        if not self.is_number:
            return self
        least = _FREQUENT * (total + SURE * doubt) + SURE * scale
        most = (total - SURE * doubt) / 2 - SURE * scale
        return replace(self, has_texts=bool(least < noisy[-1] < most))

    def with_location(self, total, scale, common) -> Draft:
        """The column with edges at its quantiles; `common` are the shares of many."""
        if not self.is_number:
            return self
        places, place = self.places, self.place
        edges = places.edges
        is_sure = places.noisy > SURE * places.noise
        parts = places.inner or slice(0)
        # All parts together hold most numbers but zero.
        if is_sure.any() and not is_sure[parts].any():
            is_sure[parts] = True
        beside = np.flatnonzero(~is_zero(edges))
        if places.inner is None and not is_sure[beside].any():
            runs = _outer_runs(beside, places.noisy, places.noise[0], _SURE_RUN)
            is_sure[runs] = True
        sure = np.flatnonzero(is_sure)
        if len(sure):
            place = edges[sure[0]], edges[sure[-1] + 1]
        counts = places.counts(total)
        # What was looked into is no place that noise hides.
        is_shared = common is not None and self.is_universal and places.inner is None
        if is_shared:
            counts = with_shares(counts, common, scale, total)
        finer = quantile_edges(edges, counts, self.declared.bounds, noise=places.noise)
        if places.inner is not None:
            finer = np.union1d(finer, edges[places.alone(counts)])
        if not is_shared or not counts.any():
            return replace(self, edges=finer, place=place)
        cumulated = np.append(0.0, np.cumsum(counts)) / counts.sum()
        shares = np.diff(np.interp(finer, edges, cumulated))
        return replace(self, edges=finer, shares=shares, place=place)

    def counted(self) -> Counted:
        """How the second release counts it."""
        kind = "category" if self.is_keyed else self.declared.kind
        return Counted(self.position, kind, self.edges, self.missing_values)

    def with_counts(self, noisy, total, keys, scale) -> Draft:
        """The column with its ranks or categories, `keys` with their noisy counts."""
        has_missing = bool(noisy[-1] > _SIGNIFICANT * scale)
        if self.is_keyed:
            told = [*keys.values(), *noisy[-1:]]
            others = total - math.fsum(told)
            many = others > _SIGNIFICANT * scale * math.sqrt(len(told))
            return replace(
                self,
                categories=tuple(keys),
                has_missing=has_missing,
                has_many_others=bool(many),
                counts=np.maximum([*keys.values(), others, noisy[-1]], 0.0),
            )
        *counts, missing = project_simplex(noisy, total)
        counts = np.array(counts)
        atoms = _atoms(counts, noisy[:-1], scale, total)
        counts = with_prior(counts, self.edges, self.declared.bounds, scale)
        if self.shares is not None:
            counts = with_shares(counts, self.shares, scale, total)
        rank_map = RankMap.from_counts(self.edges, counts, noise=scale, atoms=atoms)
        return replace(
            self,
            rank_map=rank_map,
            has_missing=has_missing,
            range=self._ends(noisy[:-1], scale, rank_map),
            counts=np.append(counts, missing),
        )

    def _ends(self, noisy, scale, rank_map) -> tuple[float, float]:
        """Ends of the cells with records, as far as noise lets them be seen."""
        edges, (low, high) = self.edges, self.place
        is_placed = low < high
        # Far from where records surely are, a cell has to be as sure as these.
        reach = _REACH * max(-low, high)
        far = is_placed & ((edges[1:] <= low - reach) | (edges[:-1] >= high + reach))
        sure = np.flatnonzero(far & (noisy > SURE * scale))
        runs = _outer_runs(np.flatnonzero(~far), noisy, scale)
        crowded = np.union1d(sure, runs).astype(np.intp)
        if is_placed and not len(crowded):
            return float(low), float(high)
        if not len(crowded):
            crowded = np.flatnonzero(np.diff(rank_map.cdf))
        first, last = crowded[[0, -1]]
        ends = float(edges[first]), float(edges[last + 1])
        inner = edges[first + 1], edges[last]
        return ends_at_records(ends, inner, self.place, self.places.edges)

    def with_ranks(self) -> Draft:
        """The column with its place in the range as rank, where none was learnt."""
        if self.rank_map is not None or not self.is_number:
            return self
        low, high = self.declared.bounds
        line = RankMap(np.array([low, high]), np.array([0.0, 1.0]))
        return replace(self, rank_map=line)

    def described(self) -> Column:
        """The column in a codebook."""
        if self.categories is not None:
            kind = replace(self.declared, kind="category")
            return replace(kind, categories=self.categories or None)
        if self.is_number and self.declared.range is None:
            low, high = self.range
            if self.declared.kind == "date":
                low, high = whole_days(low, high)
            elif self.declared.integer:
                low, high = math.floor(low), math.ceil(high)
            return replace(self.declared, range=(low, high))
        return self.declared

    def finished(self, width, n_others, has_atoms) -> NumberColumn | CategoryColumn:
        """The column as `transform` uses it."""
        declared = self.declared
        has_flag = declared.missing and self.has_missing is not False
        known = self.name, self.position, self.missing_values
        if self.is_number:
            ranks = self.rank_map
            atoms = tuple(map(ranks.knots, ranks.atoms if has_atoms else ()))
            spread = spread_of_number(width, atoms, has_flag, self._shares_of_knots())
            ends = declared.bounds or self.range
            return NumberColumn(
                *known, declared.kind, ranks, width, atoms, has_flag, ends, spread
            )
        labels = keys = self.categories
        if labels is None:
            labels = declared.categories
            keys = tuple(key_of(label) for label in labels)
        n_others = n_others if self.has_many_others else min(n_others, 1)
        n_others *= declared.other
        is_complete = not declared.other and declared.categories is not None
        spread = spread_of_indicators(
            self._shares_of_categories(len(keys)), n_others, has_flag
        )
        texts = tuple(map(str, labels))
        return CategoryColumn(
            *known, texts, keys, has_flag, n_others, is_complete, spread
        )

    def _shares_of_knots(self) -> np.ndarray:
        """Shares of the ranks, and of missing cells; even, if they are not counted."""
        counts = self.counts
        if counts is None or not counts[:-1].any():
            counts = np.append(np.diff(self.rank_map.cdf), 0.0)
        knots = self.rank_map.shares(counts[:-1]) * counts[:-1].sum()
        return np.append(knots, counts[-1]) / counts.sum()

    def _shares_of_categories(self, n_listed) -> np.ndarray:
        """Shares of those listed, of others and missing ones; even, if not counted."""
        counts = self.counts
        if counts is None or not 0 < counts.sum() < math.inf:
            counts = np.r_[np.ones(n_listed), float(not n_listed), 0.0]
        return counts / counts.sum()


def _atoms(counts, noisy, scale, total) -> list[int]:
    """Cells of a number that many records have, and none beside them nearly so many."""
    around = np.pad(counts, 1)
    beside = np.maximum(around[:-2], around[2:])
    is_atom = counts >= np.maximum(_ATOM * total, _ABOVE_BESIDE * beside)
    return np.flatnonzero(is_atom & (noisy > _SURE_ATOM * scale)).tolist()


def _outer_runs(cells, noisy, scale, sure: float = _SIGNIFICANT) -> list[int]:
    """Ends of the outermost runs of cells that hold many together.

    Quantiles are cells of few records each, of which noise may hide every one.
    """
    ends = []
    for side in (cells, cells[::-1]):
        cumulated = np.append(0.0, np.cumsum(noisy[side]))
        for last in range(1, len(cumulated)):
            held = cumulated[last] - cumulated[:last]
            held /= np.sqrt(np.arange(last, 0, -1))
            if held.max() > sure * scale:
                ends.append(int(side[held.argmax()]))
                break
    return ends
