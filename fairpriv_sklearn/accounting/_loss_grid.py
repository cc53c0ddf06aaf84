"""delta as a function of epsilon for many events, on a grid of privacy losses.

With L the loss of everything, ``delta(epsilon) = E[(1 - exp(epsilon - L))+]``: one
convolution of a curve with the distribution of L, by a Fourier transform. Every
distribution is put on the grid so that it only costs more, what lies beyond it fails.

Of n equal random splits a record is k times on the left, for any k from 0 to n. The
worst k is bounded by the value of a game: the splits come in blocks of 1, 2, 4, ... (of
which any k can be made), and somebody who knows all losses so far chooses the side of
each whole block. This can do whatever a fixed k does, so the value is never too small;
it gains hardly anything over that, as both sides of a large block look Gaussian and
small blocks matter little. Few splits are not played but gone through one by one.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from .._shared.arrays import Floats
from ._gaussian import gaussian_epsilon
from ._privacy_loss import (
    _NEGLECTED,
    _TAIL_MASS,
    _Composition,
    _connect_dots,
    _gaussian_curve,
    _grid_step,
    _largest_sampled_loss,
    _sampled_curves,
    _spectrum,
    _sum,
    _transformed,
)
from ._sides import Splits

# What the transforms can lose, and the smallest delta this can be used for.
_FFT_NOISE, _SPLIT_NOISE = 1e-11, 1e-14
# A power of a transform multiplies its error: of more steps it is one of long doubles
# (where the machine has them), and what these can lose is added to what fails.
_MANY_STEPS, _STEP_NOISE = 1 << 14, 8.0 * float(np.finfo(np.longdouble).eps)
# Mass of totals that may lie beyond the grid, and is then taken for infinite.
_BEYOND = 1e-16
_MIN_GRID_DELTA = 1e-10
# Points of the grid where no sampled release asks for more.
_POINTS = 1 << 13
# Sides of so few equal splits are gone through, with so many points in all; and the
# largest grid, and step, before everything is taken to fail.
_FEW, _MOST_POINTS = 8, 1 << 21
_LARGEST_GRID, _LONGEST_STEP = 1 << 22, 500.0


@dataclass(frozen=True)
class _Curve:
    """delta on a grid of epsilons, between two points as from their chord: above it."""

    step: float
    first: int
    deltas: Floats

    def delta(self, epsilon: float) -> float:
        """Return delta, that of the last point beyond it."""
        last = self.step * (self.first + len(self.deltas))
        place = min(epsilon, last) / self.step - self.first
        below = max(0, min(math.floor(place), len(self.deltas) - 1))
        if below == len(self.deltas) - 1:
            return float(self.deltas[-1])
        share = math.expm1((place - below) * self.step) / math.expm1(self.step)
        low, high = self.deltas[below : below + 2]
        return float(low + share * (high - low))

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 for a delta, inf if there is none."""
        above = np.flatnonzero(self.deltas > delta)
        last = int(above[-1]) if above.size else -1
        if last + 1 == len(self.deltas):
            return math.inf
        if last + 1 + self.first <= 0:
            return 0.0
        low, high = self.deltas[last], self.deltas[last + 1]
        share = float((low - delta) / (low - high))
        inside = math.log1p(share * math.expm1(self.step))
        return max(0.0, self.step * (self.first + last) + inside)


@lru_cache(maxsize=64)
def _worst_curve(plain: _Composition, splits: Splits = ()) -> _Curve:
    """Return delta(epsilon) of `plain` and the worst sides of `splits`."""
    everything = _everything(plain, splits)
    step, size, reach = _grid_of(plain, splits)
    if not step <= _LONGEST_STEP:
        return _Curve(1.0, 0, np.ones(1))
    losses = step * (np.arange(size) - size // 2)
    grids = [_Grid(step, size, add) for add in _directions(everything)]
    played = [one.play(plain, splits, losses, losses > reach) for one in grids]
    deltas = np.max(played, axis=0)
    kept = np.abs(losses) <= reach
    return _Curve(step, size // 2 - int(np.flatnonzero(kept)[-1]), deltas[kept][::-1])


def _grid_of(plain: _Composition, splits: Splits) -> tuple[float, int, float]:
    """Return a step, how many, and how far losses reach. Each step is safe, if long."""
    if not _everything(plain, splits).sampled:
        # Each transform may move the largest loss by a step.
        wider = 1.0 + 4.0 * _n_transforms(plain, splits) / _POINTS
        reach = _reach(plain, splits, math.nan) * wider
        return 4.0 * reach / _POINTS, _POINTS, reach
    total = replace(_everything(plain, splits), roughness=plain.roughness)
    step = _grid_step(total)
    while step <= _LONGEST_STEP:
        reach = _reach(plain, splits, step)
        if 4.0 * reach / step <= _LARGEST_GRID:
            points = max(_POINTS, math.ceil(4.0 * reach / step))
            return step, next_fast_len(points, real=True), reach
        step *= 2.0
    return math.inf, 0, math.inf


def _n_transforms(plain: _Composition, splits: Splits) -> int:
    def kinds(total):
        return len(total.pures) + 1

    return kinds(plain) + sum(
        len(_blocks(count)) * max(map(kinds, sides)) for sides, count in splits
    )


def _everything(plain: _Composition, splits: Splits) -> _Composition:
    return _sum([plain, *(_sum(sides).times(n) for sides, n in splits)])


def _directions(everything: _Composition) -> tuple[bool, ...]:
    """The record is in the first of two tables; and in the second if that differs."""
    poisson = any(kind == "poisson_gaussian" for kind, *_ in everything.sampled)
    return (False, True) if poisson else (False,)


def _blocks(count: int) -> list[int]:
    """Sizes 1, 2, 4, ... and a rest, of which sums give each number up to `count`."""
    sizes: list[int] = []
    while count:
        sizes.append(min(1 << len(sizes), count))
        count -= sizes[-1]
    return sizes


def _parted(splits: Splits, n_sides: int) -> tuple[list, list]:
    """The kinds with the fewest splits, so that they have few sides; and the others."""
    few: list = []
    many: list = []
    for kind, count in sorted(splits, key=itemgetter(1)):
        n_sides //= count + 1
        (few if n_sides and count <= _FEW else many).append((kind, count))
    return few, many


@dataclass(frozen=True)
class _Grid:
    """Distributions of losses on one grid, as their transforms and what fails."""

    step: float
    size: int
    add: bool  # the record is in the second of two tables, not in the first

    def play(self, plain, splits: Splits, losses: NDArray, beyond: NDArray) -> NDArray:
        """Return the value of the game for each loss before it: delta(-loss)."""
        values = np.maximum(0.0, -np.expm1(np.minimum(0.0, -losses)))
        few, many = _parted(splits, _MOST_POINTS // self.size)
        # From the last decision to the first: the largest block is the last.
        decisions = [(n, sides) for sides, count in many for n in _blocks(count)]
        for i in np.argsort([-n for n, _ in decisions], kind="stable"):
            n, sides = decisions[i]
            values = self.worst(values, (self.losses(side.times(n)) for side in sides))
            values[beyond] = 1.0
        return self.worst(values, self.all_sides(plain, few))

    def worst(self, values: NDArray, several: Iterable[tuple]) -> NDArray:
        """Return the largest expectation of `values` at a loss so far and one more."""
        transform, result = rfft(values), np.zeros(self.size)
        for spectrum, infinite in several:
            mean = irfft(transform * spectrum.conj(), self.size)
            np.maximum(result, mean + (infinite + _SPLIT_NOISE), out=result)
        return np.minimum(1.0, result)

    def all_sides(self, plain, splits: Iterable[tuple]) -> Iterator[tuple]:
        """Yield the losses of everything that a record can pay."""
        several = [self.losses(plain)]
        for (left, right), count in splits:
            sides = [
                self.losses(_sum([left.times(k), right.times(count - k)]))
                for k in range(count + 1)
            ]
            several = [(a * b, p + q) for a, p in several for b, q in sides]
        yield from several

    def losses(self, total: _Composition) -> tuple[NDArray, float]:
        """Return the transformed distribution of a total, and its infinite mass."""
        infinite = total.failure + len(total.pures) * _NEGLECTED
        spectrum = _spectrum(total.pures, self.step, self.size)
        for steps, (lowest, masses, lost) in _gaussians(total, self.step, self.add):
            if steps > _MANY_STEPS:
                masses = masses.astype(np.longdouble)
                masses[-lowest] += 1.0 - lost - masses.sum()  # of no loss
                infinite += steps * _STEP_NOISE
            transform = _transformed(lowest, masses, self.size)
            spectrum *= (transform**steps).astype(complex)
            infinite += min(1.0, steps * lost)
        return spectrum, min(1.0, infinite + _BEYOND)


def _gaussians(total: _Composition, step: float, add: bool) -> Iterator[tuple]:
    """Yield how often, and losses on a grid, of (sampled) Gaussian releases."""
    if total.mu > 0.0:
        yield 1, _gaussian_losses(total.mu, step)
    for kind, q, multiplier, steps in total.sampled:
        yield steps, _sampled_losses(kind, q, multiplier, step, add)


@lru_cache(maxsize=64)
def _gaussian_losses(mu: float, step: float):
    curve = _gaussian_curve(mu)
    return _connect_dots(curve, curve, gaussian_epsilon(mu, _TAIL_MASS), step)


@lru_cache(maxsize=64)
def _sampled_losses(kind: str, q: float, multiplier: float, step: float, add: bool):
    remove, backward = _sampled_curves(q, 1.0 / multiplier)
    highest = _largest_sampled_loss(q, 1.0 / multiplier)
    if kind != "poisson_gaussian":
        # Lemma C of the privacy analysis: the "remove" curve on both sides.
        backward = remove
    pair = (backward, remove) if add else (remove, backward)
    return _connect_dots(*pair, highest, step)


# --- how far losses reach -------------------------------------------------------------


def _log_moments(total: _Composition, orders: NDArray, step: float) -> NDArray:
    """Return log E[exp(order L)], the larger one of both directions."""
    result = 0.5 * total.mu**2 * (orders + orders**2)
    for epsilon, count in total.pures:
        both = np.logaddexp(orders * epsilon, -epsilon - orders * epsilon)
        result += count * (both - math.log1p(math.exp(-epsilon)))
    sampled = [np.zeros(len(orders)) for _ in _directions(total)]
    for add, moments in enumerate(sampled):
        for *family, steps in total.sampled:
            lowest, masses, _ = _sampled_losses(*family, step, bool(add))
            highest = step * (lowest + len(masses) - 1)
            below = step * np.arange(1 - len(masses), 1)
            means = np.array([np.exp(order * below) @ masses for order in orders])
            known = means > 0.0  # the others are underflow
            logs = np.log(means, out=np.full(len(orders), np.inf), where=known)
            moments += steps * (orders * highest + logs)
    return result + np.max(sampled, axis=0)


def _bounding(plain, splits: Splits, step: float, log_mass: float) -> tuple:
    """Return orders, and log moments of a total with the larger of each side."""
    everything = _everything(plain, splits)
    variance = everything.mu**2 + sum(n * e * e for e, n in everything.pures)
    for _, q, multiplier, steps in everything.sampled:
        variance += steps * (q / multiplier) ** 2
    first = math.sqrt(-2.0 * log_mass / variance) if variance else 1.0
    orders = np.geomspace(min(1.0, first / 4.0), 8.0 * max(1.0, first), 24)
    if everything.sampled:  # these have heavy tails: the best order is a small one
        orders = np.append(np.geomspace(1e-4, 1.0, 24), orders)
    moments = _log_moments(plain, orders, step)
    for sides, count in splits:
        each = [_log_moments(side, orders, step) for side in sides]
        moments = moments + count * np.maximum(*each)
    return orders, moments


def _reach(plain: _Composition, splits: Splits, step: float) -> float:
    """Return a loss that no total passes but with the neglected probability."""
    log_mass = math.log(_BEYOND)
    orders, moments = _bounding(plain, splits, step, log_mass)
    return max(float(np.min((moments - log_mass) / orders)), 1e-9)


def _moments_epsilon(plain: _Composition, splits: Splits, delta: float) -> float:
    """Return an upper bound of epsilon for the smallest deltas, from Renyi moments.

    Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy",
    NeurIPS 2020, Proposition 12.
    """
    everything = _everything(plain, splits)
    if everything.sampled or delta <= everything.failure:
        return math.inf
    log_delta = math.log(delta - everything.failure)
    orders, moments = _bounding(plain, splits, math.nan, log_delta)
    losses = (moments - log_delta - np.log1p(orders)) / orders
    return max(0.0, float(np.min(losses + np.log1p(-1.0 / (orders + 1.0)))))
