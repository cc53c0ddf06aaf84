"""The running composition of a ledger: of bounded size, whatever the number of spends.

What composes exactly is merged exactly: Gaussians into one, equal sampled runs into one
with more steps, equal pure releases into a count. Of what differs a bounded number is
kept apart and the nearest are merged, each taken for the dearer: an upper bound.

A random split (`MaximumEvent`) leaves two totals, and n equal ones n + 1: k times on
the left, n - k times on the right, for every k. Where a side is split again there are
more. A few are gone through one by one; many are bounded together, each as a split in
two (`accounting._loss_grid`).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from functools import lru_cache, partial

import numpy as np

from ..accounting import (
    MaximumEvent,
    PrivacyEvent,
    _Composition,
    _costs_at_most,
    _epsilon_of,
    _options,
    _sum,
    _worst_epsilon,
    to_plain,
)
from ._guarantee import check_relations

# Rounding only: ten spends of 0.1 fit under a cap of 1.
RELATIVE_SLACK = 1e-9

# How many different releases of a kind are kept apart.
_MAX_PURES, _MAX_SAMPLED, _MAX_SPLITS = 128, 16, 16
# So many sides of one split are kept apart, and of all are composed one by one.
_MAX_SIDES = 4
_FEW_SIDES = 64
# By how much more than asked is tried, to know the answer to the next questions.
_GROWTH = (1 / 8, 1 / 64, 1 / 512, 0)

Sides = tuple[_Composition, ...]


@dataclass(frozen=True)
class Composition:
    """Events with their multiplicities, for one neighbouring relation.

    Parameters
    ----------
    neighboring : str
    plain : _Composition
        What every record pays.
    splits : tuple of (tuple of _Composition, int)
        The sides of random splits, two or more, and how many there were.
    """

    neighboring: str
    plain: _Composition = _Composition()
    splits: tuple[tuple[Sides, int], ...] = ()

    def add(self, events: Iterable[PrivacyEvent], neighboring: str) -> Composition:
        """Return the composition with more events."""
        plain, total = [], Composition(neighboring)
        for event in events:
            if isinstance(event, MaximumEvent) and len(sides := _options((event,))) > 1:
                splits = ((_fewer_sides(sides, _MAX_SIDES), 1),)
                total = total.plus(Composition(neighboring, splits=splits))
            else:
                plain.append(event)
        (option,) = _options(tuple(plain))
        return total.plus(Composition(neighboring, option))

    def plus(self, other: Composition) -> Composition:
        """Return both together."""
        check_relations((self.neighboring, other.neighboring))
        counts = dict(self.splits)
        for sides, count in other.splits:
            counts[sides] = counts.get(sides, 0) + count
        plain = _bounded(_sum((self.plain, other.plain)))
        return Composition(self.neighboring, plain, _fewer_splits(counts))

    def epsilon_at(self, delta: float) -> float:
        """Return the total at `delta`: an upper bound, tight without many splits."""
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
                answer = _fits(grown, epsilon * (1 + RELATIVE_SLACK), delta)
                known.remember(grown, answer)
            if answer:
                return True
        return False

    def within(self, other: Composition) -> bool:
        """Whether this is part of `other`, as far as that can be seen at once."""
        counts = dict(other.splits)
        return (
            self.neighboring == other.neighboring
            and _within(self.plain, other.plain)
            and all(count <= counts.get(sides, 0) for sides, count in self.splits)
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
        splits = tuple((sides, more(count)) for sides, count in self.splits)
        return Composition(self.neighboring, grown, splits)

    def to_plain(self) -> dict:
        """Return data for `json.dumps`."""
        return {
            "neighboring": self.neighboring,
            "plain": _to_plain(self.plain),
            "splits": [[*map(_to_plain, sides), count] for sides, count in self.splits],
        }

    @classmethod
    def from_plain(cls, data: dict) -> Composition:
        """Rebuild a composition from `to_plain`."""
        splits = tuple(
            (tuple(map(_from_plain, sides)), int(count))
            for *sides, count in data["splits"]
        )
        return cls(data["neighboring"], _from_plain(data["plain"]), splits)


def _fits(total: Composition, epsilon: float, delta: float) -> bool:
    if not total.splits and _costs_at_most(total.plain, epsilon, delta):
        return True
    return _largest_epsilon(total, delta) <= epsilon


@lru_cache(maxsize=64)
def _largest_epsilon(total: Composition, delta: float) -> float:
    if delta == 0.0:
        # Pure releases only, or infinity: each split costs its dearer side.
        dearest = (
            max(sides, key=partial(_epsilon_of, delta=0.0)).times(count)
            for sides, count in total.splits
        )
        return _epsilon_of(_sum([total.plain, *dearest]), 0.0)
    ways = (math.comb(n + len(sides) - 1, n) for sides, n in total.splits)
    if math.prod(ways) > _FEW_SIDES:
        in_two = tuple((_fewer_sides(sides, 2), n) for sides, n in total.splits)
        return _worst_epsilon(total.plain, in_two, delta)
    epsilon = 0.0
    for one in _sides(total):
        if not (epsilon and _costs_at_most(one, epsilon, delta)):
            epsilon = max(epsilon, _epsilon_of(one, delta))
    return epsilon


def _sides(total: Composition) -> list[_Composition]:
    """Return all that a record can pay, about the dearest first."""
    each = (
        [
            _sum(side.times(n) for side, n in Counter(chosen).items())
            for chosen in itertools.combinations_with_replacement(sides, count)
        ]
        for sides, count in total.splits
    )
    several = (_sum([total.plain, *sides]) for sides in itertools.product(*each))
    return sorted(several, key=_size, reverse=True)


def _size(total: _Composition) -> float:
    """About the variance of the loss: tells which of two totals is the dearer."""
    sampled = ((q / z) ** 2 * steps for _, q, z, steps in total.sampled)
    pures = (epsilon * epsilon * count for epsilon, count in total.pures)
    return total.mu * total.mu + sum(pures) + sum(sampled)


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
        one, other = min(itertools.pairwise(sampled), key=lambda two: _apart(*two))
        (kind, q, z, steps), (_, q2, z2, steps2) = one, other
        sampled[sampled.index(one)] = (kind, max(q, q2), min(z, z2), steps + steps2)
        sampled.remove(other)
    return replace(total, pures=tuple(pures), sampled=tuple(sorted(sampled)))


def _apart(one: tuple, other: tuple) -> float:
    """How different two sampled runs are; infinitely so if they are of two kinds."""
    if one[0] != other[0]:
        return math.inf
    return abs(math.log(one[1] / other[1])) + abs(math.log(one[2] / other[2]))


def _fewer_sides(sides: Sides, most: int) -> Sides:
    """Sides in the place of more: the nearest are taken for the dearer."""
    left = dict(enumerate(sides))
    both = itertools.combinations(left, 2)
    pairs = [(_added(left[i], left[j]), i, j) for i, j in both]
    for new in range(len(left), 2 * len(left) - most):
        _, *nearest = min(pairs)
        dearer = _dearer(*map(left.pop, nearest))
        # The others are as far apart as they were: a hundred sides take no seconds.
        pairs = [pair for pair in pairs if not {*pair[1:]} & {*nearest}]
        pairs += [(_added(side, dearer), i, new) for i, side in left.items()]
        left[new] = dearer
    return tuple(left.values())


def _added(one: _Composition, other: _Composition) -> float:
    """By how much what stands for both is above them."""
    return _size(_dearer(one, other)) - max(_size(one), _size(other))


def _fewer_splits(counts: dict[Sides, int]) -> tuple[tuple[Sides, int], ...]:
    if len(counts) <= _MAX_SPLITS:
        return tuple(counts.items())
    pairs = [(_fewer_sides(sides, 2), count) for sides, count in counts.items()]
    while len(pairs) > _MAX_SPLITS:
        kinds = [pair for pair, _ in pairs]
        i, j = min(
            zip(*np.triu_indices(len(pairs), 1), strict=True),
            key=lambda two: _difference(*(kinds[i] for i in two)),
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
    highest = list(map(max, itertools.zip_longest(one, other, fillvalue=0.0)))
    return tuple((epsilon, highest.count(epsilon)) for epsilon in sorted(set(highest)))


def _difference(one: Sides, other: Sides) -> float:
    return sum(
        abs(a.mu - b.mu) + abs(a.failure - b.failure) + abs(_pure(a) - _pure(b))
        for a, b in zip(one, other, strict=True)
    )


def _pure(total: _Composition) -> float:
    return math.fsum(epsilon * count for epsilon, count in total.pures)


# --- stored form ----------------------------------------------------------------------


def _to_plain(total: _Composition) -> list:
    return to_plain(astuple(total)[:-1])  # without the roughness of a search


def _from_plain(data: list) -> _Composition:
    mu, n_draws, pures, failure, sampled = data
    return _Composition(
        float(mu),
        int(n_draws),
        tuple((float(epsilon), int(count)) for epsilon, count in pures),
        float(failure),
        tuple((kind, float(q), float(z), int(n)) for kind, q, z, n in sampled),
    )
