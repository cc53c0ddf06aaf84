"""The privacy loss of one composition: exactly, or on a grid."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from .._shared.arrays import Floats
from ._gaussian import Curve, gaussian_epsilon, gaussian_log_delta

# Pure releases of one composition: epsilon and how many, sorted.
Pures = tuple[tuple[float, int], ...]

# Above this number the atoms of a loss distribution are merged.
_MAX_ATOMS = 10_000

# With more different pure releases than this their losses are added on a grid, by one
# Fourier transform; for a first look fewer of them too, on a coarse one.
_MANY_PURES, _GRID_SIZE, _ROUGH_SIZE = 16, 1 << 15, 1 << 10
# Mass of far losses that is put on the largest one, and what a transform may lose.
_NEGLECTED, _TRANSFORM_ERROR = 1e-40, 1e-12

# Number of grid points, mass cut off per step, and the aim for the discretisation
# error, relative to the spread of the total loss.
_MIN_POINTS, _MAX_POINTS = 1 << 14, 1 << 20
_TAIL_MASS = 1e-20
_GRID_ERROR = 1e-4


@dataclass(frozen=True)
class _Composition:
    """All events of a composition without "maximum"."""

    mu: float = 0.0
    n_draws: int = 0
    pures: Pures = ()
    failure: float = 0.0  # probability that a declared guarantee fails entirely
    sampled: tuple[tuple, ...] = ()  # (kind, q, noise multiplier, steps), sorted
    roughness: float = 1.0  # of the grid of losses: a search starts on a coarse one

    def plus(self, other: _Composition) -> _Composition:
        return _sum((self, other))

    def times(self, count: int) -> _Composition:
        """Return `count` copies of it, composed."""
        if count == 1:
            return self
        failure = self.failure
        if failure < 1.0:
            failure = -math.expm1(count * math.log1p(-failure))
        return _Composition(
            math.nextafter(self.mu * math.sqrt(count), math.inf)
            if self.mu and count
            else 0.0,
            self.n_draws * count,
            tuple((epsilon, n * count) for epsilon, n in self.pures if count),
            min(1.0, failure * (1 + 1e-15)),
            tuple((*family, n * count) for *family, n in self.sampled if count),
        )

    def unsampled(self) -> _Composition:
        """The same with full batches: by convexity it costs at least as much."""
        mus = [math.sqrt(steps) / noise for _, _, noise, steps in self.sampled]
        mu = math.hypot(self.mu, *mus) * (1 + 1e-14)
        return replace(self, mu=mu, sampled=(), roughness=1.0)

    def covers(self, other: _Composition) -> bool:
        """Whether `other` costs no more, as far as that can be seen at once."""
        return (
            self.mu >= other.mu
            and self.n_draws >= other.n_draws
            and self.failure >= other.failure
            and _pairwise_at_most(other.pures, self.pures)
            and (other.sampled == self.sampled or not other.sampled)
        )


def _sum(compositions: Iterable[_Composition]) -> _Composition:
    several = tuple(compositions)
    mus = [one.mu for one in several if one.mu > 0.0]
    return _Composition(
        math.hypot(*mus),
        sum(one.n_draws for one in several),
        _counted(pure for one in several for pure in one.pures),
        _any_fails([one.failure for one in several if one.failure > 0.0]),
        _counted(family for one in several for family in one.sampled),
    )


def _any_fails(failures: list[float]) -> float:
    """Return the probability that one of several independent failures happens."""
    if len(failures) < 2 or max(failures) == 1.0:
        return max(failures, default=0.0)
    survival = math.fsum(math.log1p(-failure) for failure in failures)
    return min(1.0, -math.expm1(survival) * (1.0 + 1e-15))


def _counted(several: Iterable[tuple]) -> tuple[tuple, ...]:
    """Add up the last numbers of tuples that are equal but for these."""
    counts: Counter = Counter()
    for *family, count in several:
        counts[tuple(family)] += count
    return tuple((*family, count) for family, count in sorted(counts.items()))


def _pairwise_at_most(small: tuple, large: tuple) -> bool:
    """Whether the largest of `large` match `small` one by one (both sorted)."""
    spare, larger = 0, list(large)
    for epsilon, count in small[::-1]:
        while larger and larger[-1][0] >= epsilon:
            spare += larger.pop()[1]
        spare -= count
        if spare < 0:
            return False
    return True


def _largest_loss(total: _Composition) -> float:
    if any(epsilon == math.inf for epsilon, _ in total.pures):
        return math.inf
    exact = sum((Fraction(e) * count for e, count in total.pures), Fraction(0))
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def _about_largest_loss(total: _Composition) -> float:
    """The same but for rounding; infinite where that is."""
    return sum((epsilon * count for epsilon, count in total.pures), 0.0)


def _exact_delta(total: _Composition, epsilon: float) -> float:
    """Return delta of Gaussian, pure and declared events, without rounding up.

    A pure event is dominated by randomised response, whose privacy loss L is
    +-epsilon. Given the sum of these losses, a Gaussian remains:
    delta(epsilon) = E[delta_Gauss(epsilon - L)].
    """
    losses, weights = _loss_atoms(total.pures, total.roughness > 1.0)
    if total.mu > 0.0:
        deltas = np.exp(gaussian_log_delta(total.mu, epsilon - losses))
    else:
        deltas = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - losses)))
    return total.failure + (1.0 - total.failure) * float(weights @ deltas)


@lru_cache(maxsize=256)
def _loss_atoms(pures: Pures, rough: bool) -> tuple[Floats, Floats]:
    """Return the distribution of the total privacy loss of pure releases."""
    if pures and (rough or len(pures) > _MANY_PURES):
        return _atoms_on_grid(pures, _ROUGH_SIZE if rough else _GRID_SIZE)
    losses, weights = np.zeros(1), np.ones(1)
    for epsilon, count in pures:
        new_losses, new_weights = _randomized_response(epsilon, count)
        losses = np.add.outer(losses, new_losses).ravel()
        weights = np.multiply.outer(weights, new_weights).ravel()
        losses, weights = _thin(losses, weights)
    return losses, weights


def _randomized_response(epsilon: float, count: int) -> tuple[Floats, Floats]:
    """Return losses and weights of `count` equal releases: a binomial distribution."""
    p_minus = math.exp(-epsilon) / (1.0 + math.exp(-epsilon))
    # Hoeffding: what lies further out has a probability below the neglected mass, which
    # is put on the largest loss.
    reach = math.sqrt(-count * math.log(_NEGLECTED) / 2.0)
    low = max(0, math.floor(count * p_minus - reach))
    high = min(count, math.ceil(count * p_minus + reach))
    minus = np.arange(low, high + 1, dtype=np.float64)
    # From ratios: factorials are so long that their logarithms lose what is added up.
    log_ratios = np.log((count - minus[:-1]) / minus[1:]) - epsilon
    log_weights = np.append(0.0, np.cumsum(log_ratios))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    losses = epsilon * (count - 2.0 * minus)
    if len(minus) <= count:
        losses = np.append(losses, epsilon * count)
        weights = np.append(weights, _NEGLECTED)
    return losses, weights


def _on_grid(losses: Floats, weights: Floats, step: float) -> tuple[int, Floats]:
    """Split every atom between its neighbours on a grid, and return the lowest place.

    Both probabilities, with and without the record, are kept.
    """
    below = np.floor(losses / step).astype(np.int64)
    share = np.expm1(below * step - losses) / math.expm1(-step)
    lowest = int(below.min())
    below -= lowest
    masses = np.zeros(int(below.max()) + 2)
    np.add.at(masses, below, (1.0 - share) * weights)
    np.add.at(masses, below + 1, share * weights)
    return lowest, masses


def _atoms_on_grid(pures: Pures, size: int) -> tuple[Floats, Floats]:
    """Return the same on a grid of this size, which only makes it cost more."""
    epsilons, counts = (np.array(column) for column in zip(*pures, strict=True))
    mean = float(counts @ (epsilons * np.tanh(epsilons / 2.0)))
    reach = math.sqrt(-2.0 * math.log(_NEGLECTED) * float(counts @ epsilons**2))
    step = 2.0 * (reach + 2.0 * float(epsilons.max())) / (size - 4)
    masses = np.maximum(0.0, irfft(_spectrum(pures, step, size), size))
    first = math.floor(mean / step) - size // 2
    places = first + (np.arange(size) - first) % size
    # What the transform lost, and what lies beyond the grid, fails.
    highest = epsilons @ counts
    return np.append(step * places, highest), np.append(masses, _TRANSFORM_ERROR)


def _spectrum(pures: Pures, step: float, size: int) -> NDArray:
    """Return the transformed distribution of the total loss of pure releases.

    The losses of each kind of releases are split between neighbours on the grid: this
    adds at most ``step**2 / 4`` a kind to the variance.
    """
    spectrum = np.ones(size // 2 + 1, complex)
    for epsilon, count in pures:
        losses, weights = _randomized_response(epsilon, count)
        held = weights > _NEGLECTED
        spectrum *= _transformed(*_on_grid(losses[held], weights[held], step), size)
    return spectrum


def _transformed(lowest: int, masses: NDArray, size: int) -> NDArray:
    """Return the transform of masses from the place `lowest` on, around the grid."""
    onto = np.zeros(size, masses.dtype)
    np.add.at(onto, (lowest + np.arange(len(masses))) % size, masses)
    return rfft(onto)


def _thin(losses: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Merge atoms on a grid if there are too many, rounding losses up."""
    if losses.size <= _MAX_ATOMS:
        return losses, weights
    highest = losses.max()
    step = (highest - losses.min()) / (_MAX_ATOMS // 2)
    cell = np.floor((highest - losses) / step).astype(np.int64)
    merged = np.bincount(cell, weights).astype(np.float64)
    return highest - step * np.arange(merged.size, dtype=np.float64), merged


# --- Sampled Gaussian releases --------------------------------------------------------


def _gaussian_curve(mu: float) -> Curve:
    return lambda epsilon: np.exp(gaussian_log_delta(mu, epsilon))


def _sampled_curves(q: float, mu: float) -> tuple[Curve, Curve]:
    """Return delta(epsilon >= 0) of P against N(0, 1) and the other way round.

    P = (1 - q) N(0, 1) + q N(mu, 1) is the output with the record, sampled at rate q.
    """
    gaussian = _gaussian_curve(mu)
    log_not = math.log1p(-q)

    def remove(epsilon: Floats) -> Floats:
        # alpha' = 1 + (alpha - 1) / q, written for small and for large epsilon.
        small = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / q)
        large = epsilon - math.log(q) + np.log1p(-np.exp(log_not - epsilon))
        return q * gaussian(np.where(epsilon < 1.0, small, large))

    def add(epsilon: Floats) -> Floats:
        # N0 - alpha P = c (N0 - (alpha q / c) N1) with c = 1 - alpha (1 - q).
        delta = np.zeros_like(epsilon)
        inside = epsilon < -log_not
        c = -np.expm1(epsilon[inside] + log_not)
        shifted = epsilon[inside] + math.log(q) - np.log(c)
        delta[inside] = c * gaussian(shifted)
        return delta

    return remove, add


def _largest_sampled_loss(q: float, mu: float) -> float:
    """Return an epsilon at which delta of one sampled step is negligible."""
    inner = gaussian_epsilon(mu, min(1.0, _TAIL_MASS / q))
    # Rounding makes it negative where the tail is heavier than a rare record.
    return max(0.0, inner + math.log(q + (1.0 - q) * math.exp(-inner)))


def _grid_step(total: _Composition) -> float:
    """Return the spacing of privacy losses for all events of a composition."""
    n_steps, variance, widest, narrowest = 0, total.mu**2, 0.0, math.inf
    for _, q, noise_multiplier, steps in total.sampled:
        mu = 1.0 / noise_multiplier
        spread = min(mu, q * math.sqrt(math.expm1(min(mu**2, 50.0))))
        n_steps += steps
        variance += steps * spread**2
        widest = max(widest, _largest_sampled_loss(q, mu))
        narrowest = min(narrowest, spread)
    # Connecting the dots adds about step^2 / 8 to the mean loss of each release.
    step = math.sqrt(8.0 * _GRID_ERROR * math.sqrt(variance) / n_steps)
    step = min(step, narrowest / 30.0)
    reach = _largest_loss(total) + variance + 10.0 * math.sqrt(variance) + widest
    # Rare batches make `reach` long and `step` short. With this many points the steps
    # together still add no more than 6e-6 `reach`**2 to the mean loss.
    n_points = min(max(_MIN_POINTS, 300 * math.sqrt(n_steps)), _MAX_POINTS)
    return total.roughness * max(step, 2.0 * reach / n_points)


def _connect_dots(
    forward: Curve, backward: Curve, highest: float, step: float
) -> tuple[int, Floats, float]:
    """Return losses on a grid whose delta is never below `forward`.

    delta as a function of exp(epsilon) is convex, so the polygon through its values
    on the grid lies above it, and the polygon is again the curve of a pair of
    distributions (Doroshenko et al., "Connect the Dots", PETS, 2022). `backward` is
    the curve with the two distributions exchanged: it gives the negative losses
    without the cancellation of 1 - exp(epsilon) + delta.

    Returns
    -------
    lowest : int
        Place of the first loss on the grid.
    masses : ndarray
    infinite : float
        Mass of infinite loss.
    """
    epsilon = step * np.arange(math.ceil(highest / step) + 1, dtype=np.float64)
    deltas = forward(epsilon)
    positive = _polygon_masses(deltas, step)
    negative = _polygon_masses(backward(epsilon), step) * np.exp(-epsilon[1:])
    failure = float(deltas[-1])
    zero = max(0.0, 1.0 - failure - positive.sum() - negative.sum())
    masses = np.concatenate([negative[::-1], [zero], positive])
    return 1 - epsilon.size, masses, failure


def _polygon_masses(deltas: Floats, step: float) -> Floats:
    """Return the probability of each positive loss on the grid, from the kinks."""
    rise = np.append(np.diff(deltas), 0.0)
    with np.errstate(over="ignore"):
        masses = rise[1:] / np.expm1(step) + rise[:-1] / math.expm1(-step)
    return np.maximum(0.0, masses)
