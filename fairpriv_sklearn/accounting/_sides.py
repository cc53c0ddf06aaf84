"""The sides of random splits, and fewer of them that cost at least as much.

A random split leaves two totals, and n equal ones n + 1: k times on the left, n - k
times on the right, for every k. Where a side is split again there are more. A few are
gone through one by one; many are bounded together, each as a split in two
(`_loss_grid`).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np

from ._privacy_loss import _Composition, _sum

# The sides of splits, two or more each, and how many such splits there are.
Sides = tuple[_Composition, ...]
Splits = tuple[tuple[Sides, int], ...]

# How many different splits are kept apart.
_MAX_SPLITS = 16


def _each_side(plain: _Composition, splits: Splits) -> list[_Composition]:
    """Return all that a record can pay, about the dearest first."""
    each = (
        [
            _sum(side.times(n) for side, n in Counter(chosen).items())
            for chosen in itertools.combinations_with_replacement(sides, count)
        ]
        for sides, count in splits
    )
    several = (_sum([plain, *sides]) for sides in itertools.product(*each))
    return sorted(several, key=_size, reverse=True)


def _n_sides(splits: Splits) -> int:
    """How many totals there are."""
    return math.prod(math.comb(n + len(sides) - 1, n) for sides, n in splits)


def _size(total: _Composition) -> float:
    """About the variance of the loss: tells which of two totals is the dearer."""
    sampled = ((q / z) ** 2 * steps for _, q, z, steps in total.sampled)
    pures = (epsilon * epsilon * count for epsilon, count in total.pures)
    return total.mu * total.mu + sum(pures) + sum(sampled)


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


def _fewer_splits(counts: dict[Sides, int]) -> Splits:
    """Splits in the place of more: the nearest are taken for the dearer."""
    if len(counts) <= _MAX_SPLITS:
        return tuple(counts.items())
    pairs = [(_fewer_sides(sides, 2), count) for sides, count in counts.items()]
    kinds = [pair for pair, _ in pairs]
    apart = np.full((len(pairs), len(pairs)), math.inf)
    for i, j in itertools.combinations(range(len(pairs)), 2):
        apart[i, j] = apart[j, i] = _difference(kinds[i], kinds[j])
    while len(pairs) > _MAX_SPLITS:
        i, j = map(int, np.unravel_index(np.argmin(apart), apart.shape))
        (one, n_one), (other, n_other) = pairs[i], pairs.pop(j)
        kinds[i] = tuple(_dearer(a, b) for a, b in zip(one, other, strict=True))
        pairs[i] = (kinds[i], n_one + n_other)
        # The others are as far apart as they were: a thousand kinds take no minutes.
        del kinds[j]
        apart = np.delete(np.delete(apart, j, 0), j, 1)
        apart[i] = apart[:, i] = [_difference(kinds[i], kind) for kind in kinds]
        apart[i, i] = math.inf
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
    apart = sum(
        abs(a.mu - b.mu) + abs(a.failure - b.failure) + abs(_pure(a) - _pure(b))
        for a, b in zip(one, other, strict=True)
    )
    # Less than any kind from itself, which counts as infinite.
    return min(1e300, apart)


def _pure(total: _Composition) -> float:
    return math.fsum(epsilon * count for epsilon, count in total.pures)
