"""The running composition of a ledger: of bounded size, whatever the number of spends.

What composes exactly is merged exactly: Gaussians into one, equal sampled runs into one
with more steps, equal pure releases into a count. Of what differs a bounded number is
kept apart and the nearest are merged, each taken for the dearer: an upper bound.

A random split (`MaximumEvent`) leaves two totals, and n equal ones n + 1: k records on
the left, n - k on the right, for every k. They are not followed one by one. A range of
k costs at most its largest k on the left and its largest n - k on the right; ranges are
halved only where that does not settle the question.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from fairpriv_sklearn.accounting import (
    _Composition,
    _costs_at_most,
    _delta_of,
    _epsilon_of,
    _options,
    _sum,
)

from ..accounting import PrivacyEvent
from ._guarantee import check_relations

# Rounding only: ten spends of 0.1 fit under a cap of 1.
RELATIVE_SLACK = 1e-9

# How many different releases of a kind are kept apart.
_MAX_PURES, _MAX_SAMPLED, _MAX_SPLITS = 128, 16, 4
# Ranges of a split that are narrower than this share of it are not halved.
_NARROW = 1 / 128
_MAX_RANGES = 200
# Steps in which a total is raised until it is enough for all sides.
_STEP = 1.002
# So many totals are known exactly before.
_MOST_EXACT = 8
# By how much more than asked is tried, to know the answer to the next questions.
_GROWTH = (1 / 8, 1 / 64, 1 / 512, 0)

Pair = tuple[_Composition, _Composition]


@dataclass(frozen=True)
class Composition:
    """Events with their multiplicities, for one neighbouring relation.

    Parameters
    ----------
    neighboring : str
    plain : _Composition
        What every record pays.
    splits : tuple of ((_Composition, _Composition), int)
        Either side of random splits, and how many there were.
    """

    neighboring: str
    plain: _Composition = _Composition()
    splits: tuple[tuple[Pair, int], ...] = ()

    def add(self, events: Iterable[PrivacyEvent], neighboring: str) -> Composition:
        """Return the composition with more events."""
        options = _options(tuple(events))
        if len(options) == 1:
            other = Composition(neighboring, options[0])
        else:
            pair = (options[0], _sum(options[1:]))
            other = Composition(neighboring, splits=((pair, 1),))
        return self.plus(other)

    def plus(self, other: Composition) -> Composition:
        """Return both together."""
        check_relations((self.neighboring, other.neighboring))
        counts = dict(self.splits)
        for pair, count in other.splits:
            counts[pair] = counts.get(pair, 0) + count
        plain = _bounded(_sum((self.plain, other.plain)))
        return Composition(self.neighboring, plain, _fewer_splits(counts))

    def epsilon_at(self, delta: float) -> float:
        """Return the total at `delta`: an upper bound, tight for splits that differ."""
        return _largest_epsilon(self, delta)

    def fits(self, epsilon: float, delta: float) -> bool:
        """Return whether the total at `delta` is at most `epsilon`."""
        if epsilon == math.inf:
            return True
        known = _KNOWN.setdefault((epsilon, delta), _Known())
        answer = known.about(self)
        if answer is not None:
            return answer
        for share in _GROWTH:
            grown = self._grown(share)
            answer = known.about(grown)
            if answer is None:
                answer = grown._fits(epsilon * (1 + RELATIVE_SLACK), delta)
                known.remember(grown, answer)
            if answer:
                return True
        return False

    def _fits(self, epsilon: float, delta: float) -> bool:
        return all(
            _epsilon_of(total, delta) <= epsilon
            for total in self._unsettled(epsilon, delta)
        )

    def within(self, other: Composition) -> bool:
        """Whether this is part of `other`, as far as that can be seen at once."""
        counts = dict(other.splits)
        return (
            self.neighboring == other.neighboring
            and _within(self.plain, other.plain)
            and all(count <= counts.get(pair, 0) for pair, count in self.splits)
        )

    def _grown(self, share: float) -> Composition:
        """More of everything by this share, rounded up."""
        if not share:
            return self
        plain = self.plain

        def more(count):
            return math.ceil(count * (1 + share))

        grown = _Composition(
            plain.mu * math.sqrt(1 + share),
            more(plain.n_draws),
            tuple((epsilon, more(count)) for epsilon, count in plain.pures),
            min(1.0, plain.failure * (1 + share)),
            tuple((*family, more(steps)) for *family, steps in plain.sampled),
        )
        splits = tuple((pair, more(count)) for pair, count in self.splits)
        return Composition(self.neighboring, grown, splits)

    def _unsettled(self, epsilon: float, delta: float) -> Iterator[_Composition]:
        """Yield totals, on ranges of the sides, that do not fit at the first glance."""
        waiting = [tuple((0, count) for _, count in self.splits)]
        n_seen = 0
        while waiting:
            ranges = waiting.pop()
            total, n_seen = self._at(ranges), n_seen + 1
            if _surely_fits(total, epsilon, delta):
                continue
            halves = self._halved(ranges) if n_seen < _MAX_RANGES else None
            if halves is None:
                yield total
            else:
                waiting += halves

    def _dearest(self) -> list[tuple[tuple, _Composition]]:
        """Ranges that hold all sides, with their totals, about the dearest first.

        The dearest range is halved until it is narrow.
        """
        numbers = itertools.count()  # so that equal sizes are not compared further

        def sized(ranges):
            total = self._at(ranges)
            return -_size(total), next(numbers), ranges, total

        heap = [sized(tuple((0, count) for _, count in self.splits))]
        while len(heap) < _MAX_RANGES and (halves := self._halved(heap[0][2])):
            heapq.heappop(heap)
            for half in halves:
                heapq.heappush(heap, sized(half))
        return [(ranges, total) for *_, ranges, total in sorted(heap)]

    def _at(self, ranges: tuple) -> _Composition:
        several = [self.plain]
        for ((left, right), count), (low, high) in zip(
            self.splits, ranges, strict=True
        ):
            several += [left.times(high), right.times(count - low)]
        return _sum(several)

    def _halved(self, ranges: tuple) -> list[tuple] | None:
        """Halve the range that is widest for its split; None if all are narrow."""
        widths = [
            (high - low) / count
            for (low, high), (_, count) in zip(ranges, self.splits, strict=True)
        ]
        if not widths or max(widths) <= _NARROW:
            return None
        widest = widths.index(max(widths))
        low, high = ranges[widest]
        middle = (low + high) // 2
        parts = ((low, middle), (middle + 1, high))
        return [(*ranges[:widest], part, *ranges[widest + 1 :]) for part in parts]

    def to_plain(self) -> dict:
        """Return data for `json.dumps`."""
        return {
            "neighboring": self.neighboring,
            "plain": _to_plain(self.plain),
            "splits": [
                [_to_plain(left), _to_plain(right), count]
                for (left, right), count in self.splits
            ],
        }

    @classmethod
    def from_plain(cls, data: dict) -> Composition:
        """Rebuild a composition from `to_plain`."""
        splits = tuple(
            ((_from_plain(left), _from_plain(right)), int(count))
            for left, right, count in data["splits"]
        )
        return cls(data["neighboring"], _from_plain(data["plain"]), splits)


def _surely_fits(total: _Composition, epsilon: float, delta: float) -> bool:
    # From cheap to costly; each "yes" is a proof. With delta = 0 a delta below it
    # could only be underflow, which proves nothing.
    rest = replace(total, pures=(), failure=0.0)
    left = epsilon - math.fsum(e * count for e, count in total.pures)
    spare = delta - total.failure
    if left >= 0 and spare >= 0:
        if rest == _Composition():
            return True
        if spare > 0 and rest != total and _delta_of(rest, left) <= spare:
            return True
    return _costs_at_most(total, epsilon, delta)


@lru_cache(maxsize=64)
def _largest_epsilon(total: Composition, delta: float) -> float:
    if not total.splits:
        return _epsilon_of(total.plain, delta)
    # At most what the dearest ranges cost; most others are seen to cost no more.
    (_, dearest), *waiting = total._dearest()
    epsilon, n_seen, n_exact = _epsilon_of(dearest, delta), len(waiting), 0
    while waiting:
        ranges, one = waiting.pop(0)
        if _surely_fits(one, epsilon, delta):
            continue
        halves = total._halved(ranges) if n_seen < 2 * _MAX_RANGES else None
        if halves is not None:
            waiting = [(half, total._at(half)) for half in halves] + waiting
            n_seen += 2
            continue
        n_exact += 1
        for _ in range(8 if n_exact > _MOST_EXACT else 0):
            epsilon *= _STEP
            if _surely_fits(one, epsilon, delta):
                break
        else:
            epsilon = max(epsilon, _epsilon_of(one, delta))
    return epsilon


def _size(total: _Composition) -> float:
    """About the variance of the loss: tells which of two totals is the dearer."""
    sampled = ((q / z) ** 2 * steps for _, q, z, steps in total.sampled)
    pures = (epsilon * epsilon * count for epsilon, count in total.pures)
    return total.mu**2 + sum(pures) + sum(sampled)


# --- what is known --------------------------------------------------------------------


class _Known:
    """Compositions that fit under one cap, and such that do not; the latest of each."""

    def __init__(self):
        self._fitting: tuple[Composition, ...] = ()
        self._refused: tuple[Composition, ...] = ()

    def about(self, total: Composition) -> bool | None:
        """Whether a total fits, None if that is not known yet."""
        if any(total.within(one) for one in self._fitting):
            return True
        return False if any(one.within(total) for one in self._refused) else None

    def remember(self, total: Composition, fits: bool) -> None:
        """Remember an answer."""
        if fits:
            self._fitting = (total, *self._fitting[:7])
        else:
            self._refused = (total, *self._refused[:7])


_KNOWN: dict[tuple[float, float], _Known] = {}


def _within(one: _Composition, other: _Composition) -> bool:
    steps = {tuple(family): n for *family, n in other.sampled}
    return other.covers(replace(one, sampled=())) and all(
        n <= steps.get(tuple(family), 0) for *family, n in one.sampled
    )


# --- keeping it small -----------------------------------------------------------------


def _bounded(total: _Composition) -> _Composition:
    pures, sampled = list(total.pures), list(total.sampled)
    while len(pures) > _MAX_PURES:
        # The pair whose merging adds least, all taken for the dearer.
        added = [
            count * (higher - epsilon)
            for (epsilon, count), (higher, _) in zip(pures, pures[1:], strict=False)
        ]
        i = added.index(min(added))
        pures[i : i + 2] = [(pures[i + 1][0], pures[i][1] + pures[i + 1][1])]
    while len(sampled) > _MAX_SAMPLED:
        i = min(
            range(len(sampled) - 1), key=lambda i: _apart(sampled[i], sampled[i + 1])
        )
        (kind, q, z, steps), (_, q2, z2, steps2) = sampled[i : i + 2]
        sampled[i : i + 2] = [(kind, max(q, q2), min(z, z2), steps + steps2)]
    return replace(total, pures=tuple(pures), sampled=tuple(sorted(sampled)))


def _apart(one: tuple, other: tuple) -> float:
    """How different two sampled runs are; infinitely so if they are of two kinds."""
    if one[0] != other[0]:
        return math.inf
    return abs(math.log(one[1] / other[1])) + abs(math.log(one[2] / other[2]))


def _fewer_splits(counts: dict[Pair, int]) -> tuple[tuple[Pair, int], ...]:
    pairs = list(counts.items())
    while len(pairs) > _MAX_SPLITS:
        i, j = min(
            ((i, j) for j in range(len(pairs)) for i in range(j)),
            key=lambda ij: _difference(pairs[ij[0]][0], pairs[ij[1]][0]),
        )
        (one, n_one), (other, n_other) = pairs[i], pairs.pop(j)
        dearer = tuple(_dearer(a, b) for a, b in zip(one, other, strict=True))
        pairs[i] = (dearer, n_one + n_other)
    return tuple(pairs)


def _dearer(one: _Composition, other: _Composition) -> _Composition:
    """A composition that costs at least as much as either."""
    if one.covers(other):
        return one
    if other.covers(one):
        return other
    if one.sampled or other.sampled:
        return _sum((one, other))
    return _Composition(
        max(one.mu, other.mu),
        max(one.n_draws, other.n_draws),
        _dearer_pures(_expanded(one.pures), _expanded(other.pures)),
        max(one.failure, other.failure),
    )


def _expanded(pures: tuple) -> list[float]:
    return [epsilon for epsilon, count in pures[::-1] for _ in range(count)]


def _dearer_pures(one: list[float], other: list[float]) -> tuple:
    length = max(len(one), len(other))
    padded = (values + [0.0] * (length - len(values)) for values in (one, other))
    highest = [max(pair) for pair in zip(*padded, strict=True)]
    return tuple((epsilon, highest.count(epsilon)) for epsilon in sorted(set(highest)))


def _difference(one: Pair, other: Pair) -> float:
    return sum(
        abs(a.mu - b.mu) + abs(a.failure - b.failure) + abs(_pure(a) - _pure(b))
        for a, b in zip(one, other, strict=True)
    )


def _pure(total: _Composition) -> float:
    return math.fsum(epsilon * count for epsilon, count in total.pures)


# --- stored form ----------------------------------------------------------------------


def _to_plain(total: _Composition) -> list:
    def number(value):
        return "inf" if value == math.inf else value

    pures = [[number(epsilon), count] for epsilon, count in total.pures]
    mu = number(total.mu)
    return [
        mu,
        total.n_draws,
        pures,
        total.failure,
        [list(one) for one in total.sampled],
    ]


def _from_plain(data: list) -> _Composition:
    mu, n_draws, pures, failure, sampled = data
    return _Composition(
        float(mu),
        int(n_draws),
        tuple((float(epsilon), int(count)) for epsilon, count in pures),
        float(failure),
        tuple((kind, float(q), float(z), int(n)) for kind, q, z, n in sampled),
    )
