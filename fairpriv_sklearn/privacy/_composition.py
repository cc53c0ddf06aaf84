"""The running composition of a ledger: of bounded size, whatever the number of spends.

What composes exactly is merged exactly: Gaussians into one, equal sampled runs into one
with more steps, equal pure releases into a count. Of what differs a bounded number is
kept apart and the nearest are merged, each taken for the dearer: an upper bound.

Random splits (`MaximumEvent`) are kept by their sides (`accounting._sides`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace

from ..accounting import (
    PrivacyEvent,
    Splits,
    _Composition,
    _costs_at_most,
    _dearest_epsilon,
    _fewer_sides,
    _fewer_splits,
    _parted,
    _sum,
    to_plain,
)
from ._guarantee import check_relations

# Rounding only: ten spends of 0.1 fit under a cap of 1.
RELATIVE_SLACK = 1e-9

# How many different releases of a kind are kept apart.
_MAX_PURES, _MAX_SAMPLED = 128, 16
# So many sides of one split are kept apart.
_MAX_SIDES = 4
# By how much more than asked is tried, to know the answer to the next questions.
_GROWTH = (1 / 8, 1 / 64, 1 / 512, 0)


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
    splits: Splits = ()

    @classmethod
    def of(cls, events: Iterable[PrivacyEvent], neighboring: str) -> Composition:
        """Return the composition of these events."""
        plain, splits = _parted(events)
        total = cls(neighboring, plain)
        for sides, count in splits:
            few = _fewer_sides(sides, _MAX_SIDES)
            total = total.plus(cls(neighboring, splits=((few, count),)))
        return total.plus(cls(neighboring))

    def plus(self, other: Composition) -> Composition:
        """Return both together."""
        check_relations((self.neighboring, other.neighboring))
        counts = dict(self.splits)
        for sides, count in other.splits:
            counts[sides] = counts.get(sides, 0) + count
        plain = _bounded(_sum((self.plain, other.plain)))
        return Composition(self.neighboring, plain, _fewer_splits(counts))

    @property
    def failure(self) -> float:
        """The part of delta at most for which there is no epsilon."""
        sides = (n * max(side.failure for side in both) for both, n in self.splits)
        return self.plain.failure + math.fsum(sides)

    def epsilon_at(self, delta: float) -> float:
        """Return the total at `delta`: an upper bound, tight without many splits."""
        return _dearest_epsilon(self.plain, self.splits, delta)

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
    return total.epsilon_at(delta) <= epsilon


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
