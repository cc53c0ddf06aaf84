"""Noise: the only module that draws random numbers for a private fit.

Two mechanisms cross the wall between private data and released numbers: Gaussian
noise on a grid of powers of two for real vectors, and exact discrete Laplace noise
for integer counts. Both avoid the floating-point attacks of Mironov (2012): the
support of a release is the same grid for every data set.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import blake2b
from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, ndtri_exp

from ._shared.arguments import (
    count,
    described,
    floats,
    having,
    listed,
    number,
    numbers,
    real,
)
from ._shared.arrays import Floats, Integers

Size = int | tuple[int, ...]

_SOURCE = having("a NoiseSource", "uint64", "standard_normal")
_WORD = 1 << 64
# Below this 63-bit integer a normal draw takes 64 more bits. Neighbouring integers
# then change the probability of a grid cell by less than 1e-9 of its value.
_TAIL = np.uint64(1 << 50)
_SIGN = np.uint64(1 << 63)
# Grid units beyond this are saturated, so that adding the noise cannot overflow.
_SATURATION = 1 << 62
# With a larger root of n_coordinates / mu**2 the noise is so many grid units that a
# float does not place it in one accurately enough, and in the end in none at all.
_MOST_ROUNDING = 2.0**22
_MIN_EPSILON, _MAX_EPSILON = 1e-6, 1e6
_MAX_NUMERATOR = 1 << 40
# Thresholds of discrete Laplace noise are products over digits of this many bits. At
# most 100 roundings of 2**-53 come between a threshold and its comparison with a word.
_DIGIT_BITS = 10
_THRESHOLD_ERROR = 2.0**-45


class NoiseSource:
    """Turn a stream of random 64-bit words into the draws a private fit needs.

    Create it with :func:`noise_source`.

    Parameters
    ----------
    words : callable
        ``words(n)`` returns `n` fresh random words, dtype uint64.
    is_secure : bool
        Whether the words come from the operating system's cryptographic generator.

    Attributes
    ----------
    is_secure : bool
        False if the draws can be reproduced from a seed.

    See Also
    --------
    noise_source : The usual way to create one.

    Examples
    --------
    >>> from fairpriv_sklearn.mechanisms import noise_source
    >>> noise_source(0).uniform(3).shape
    (3,)
    """

    def __init__(self, words: Callable[[int], NDArray[np.uint64]], *, is_secure: bool):
        self._words = words
        self.is_secure = is_secure

    def public(self) -> PublicDraws:
        """Return the same stream for numbers that hide nothing.

        Returns
        -------
        draws : PublicDraws
        """
        return PublicDraws(self._words, is_secure=self.is_secure)

    def uint64(self, size: Size) -> NDArray[np.uint64]:
        """Draw uniform 64-bit words.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        words : ndarray of dtype uint64
            Independent and uniform on 0, ..., 2**64 - 1.
        """
        return self._words(math.prod(_shape(size))).reshape(size)

    def uniform(self, size: Size) -> Floats:
        """Draw uniform numbers in the open interval (0, 1).

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        u : ndarray of dtype float64
            Midpoints of 2**52 equal cells: neither 0 nor 1 can occur.
        """
        words = self.uint64(size) >> np.uint64(12)
        return (words.astype(np.float64) + 0.5) * 2.0**-52

    def bernoulli(self, size: Size, p: float) -> NDArray[np.bool_]:
        """Draw independent truth values.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.
        p : float
            Probability of True. Range: [0, 1]. Rounded down to a multiple of 2**-64,
            so that an accounted sampling rate is never exceeded.

        Returns
        -------
        draws : ndarray of dtype bool
        """
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"p must be in [0, 1], got {p!r}.")
        if p == 1.0:
            return np.ones(size, dtype=bool)
        return self.uint64(size) < np.uint64(int(Fraction(float(p)) * _WORD))

    def integers(self, low: int, high: int, size: Size) -> Integers:
        """Draw integers without modulo bias.

        Parameters
        ----------
        low, high : int
            Smallest value, and one more than the largest.
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        values : ndarray of dtype int64
            Uniform on low, ..., high - 1.
        """
        if not low < high:
            raise ValueError(f"low must be below high, got {low!r} and {high!r}.")
        cell = _WORD // (high - low)
        if cell == _WORD:
            return np.full(size, low, dtype=np.int64)
        words = self._words(math.prod(_shape(size)))
        largest = np.uint64(cell * (high - low) - 1)
        while words.size and words.max() > largest:
            rejected = np.flatnonzero(words > largest)
            words[rejected] = self._words(rejected.size)
        values = (words // np.uint64(cell)).view(np.int64)
        values += low
        return values.reshape(size)

    def choice(self, n: int, k: int) -> Integers:
        """Choose `k` of `n` indices without replacement.

        Parameters
        ----------
        n : int
            Size of the population.
        k : int
            Number of indices. Range: [0, n].

        Returns
        -------
        indices : ndarray of shape (k,), dtype int64
            In random order; every ordered selection is equally likely.
        """
        if not 0 <= k <= n:
            raise ValueError(f"k must be in [0, n], got k={k!r} and n={n!r}.")
        if not k:
            return np.empty(0, dtype=np.int64)
        if 2 * k <= n:
            return self._distinct(n, k)
        while True:
            keys = self.uint64(n)
            order = np.argsort(keys)
            # Given that no two keys agree, all orders are exactly equally likely.
            if np.all(np.diff(keys[order])):
                return order[:k].astype(np.int64)

    def _distinct(self, n: int, k: int) -> Integers:
        """The first `k` different ones of a sequence of independent uniform indices.

        Given the indices seen so far, the next new one is uniform on the others.
        """
        chosen: dict[int, None] = {}  # in the order of their first occurrence
        while len(chosen) < k:
            drawn = self.integers(0, n, k - len(chosen))
            chosen.update(dict.fromkeys(drawn.tolist()))
        return np.fromiter(chosen, dtype=np.int64, count=k)

    def key(self, n_bytes: int = 32) -> bytes:
        """Draw a secret key.

        Parameters
        ----------
        n_bytes : int, default=32
            Length of the key.

        Returns
        -------
        key : bytes
        """
        return self._words(-(-n_bytes // 8)).tobytes()[:n_bytes]

    def standard_normal(self, size: Size) -> Floats:
        """Draw standard normal numbers by inverting the distribution function.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        z : ndarray of dtype float64
            One sign bit and 63 bits of the lower tail probability; 64 more bits
            where that probability is small, so that tails keep their resolution.
        """
        words = self._words(math.prod(_shape(size)))
        return _normal(words, lambda tail: self._words(tail.size)).reshape(size)


class PublicDraws(NoiseSource):
    """Random numbers that hide no row: starting points, directions, samples.

    No guarantee rests on them. What does is drawn by mechanisms and the privacy filter.

    Parameters
    ----------
    words : callable
        Called with a number, it returns so many random 64-bit words.
    is_secure : bool
        Whether the words come from a cryptographic generator.
    """


def noise_source(random_state=None) -> NoiseSource:
    """Return the source of all random numbers of one fit.

    Parameters
    ----------
    random_state : None, int, RandomState, Generator or NoiseSource, default=None
        None reads the operating system's cryptographic generator, the only choice
        that makes a release private. An int, a RandomState or a Generator seeds
        PCG64DXSM: reproducible, and therefore not private. A NoiseSource is returned
        as it is.

    Returns
    -------
    noise : NoiseSource

    Raises
    ------
    ValueError
        If `random_state` is of another kind.

    Examples
    --------
    >>> from fairpriv_sklearn.mechanisms import noise_source
    >>> noise_source().is_secure
    True
    >>> noise_source(0).is_secure
    False
    """
    if isinstance(random_state, NoiseSource):
        return random_state
    if random_state is None:
        return NoiseSource(_system_words, is_secure=True)
    if isinstance(random_state, Integral):
        seed = int(random_state)
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state}.")
    elif isinstance(random_state, np.random.RandomState | np.random.Generator):
        seed = int.from_bytes(random_state.bytes(16), "little")
    else:
        raise ValueError(
            "random_state must be None, an int, a numpy RandomState or a numpy "
            f"Generator, got {type(random_state).__name__}."
        )
    return NoiseSource(np.random.PCG64DXSM(seed).random_raw, is_secure=False)


@dataclass(frozen=True)
class GaussianMechanism:
    r"""Release a real vector with Gaussian noise on a grid.

    .. math:: M(x) = \mathrm{round}_g(x) + g\,\mathrm{round}(\sigma z / g),
        \qquad z \sim N(0, I), \quad \sigma = (\Delta + g \sqrt d) / \mu

    .. rubric:: Privacy

    `mu`-Gaussian DP [1]_ for any two vectors at Euclidean distance at most
    `sensitivity`: rounding to the grid g before the noise raises the sensitivity by
    at most g sqrt(d), rounding the noise afterwards is post-processing. Every output
    lies on the grid whatever the data, which defeats the attack of [2]_. Entries
    are saturated at 2**62 grid units, and NaN counts as 0, so no value can raise.

    Parameters
    ----------
    sensitivity : float
        Euclidean sensitivity of the vector in the neighbouring relation in use, in
        units of the vector. Range: (0, inf).
    mu : float
        Gaussian-DP parameter of one release. Range: (0, inf]; inf means no noise.
    n_coordinates : int
        Number of entries of the vector, d. Range: [1, inf).

    Attributes
    ----------
    grid : float
        Spacing of the outputs, the largest power of two not above
        2**-20 `sensitivity` / `mu`. 0.0 if `mu` is inf.
    scale : float
        Standard deviation of the noise, rounded up. 0.0 if `mu` is inf.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or the root of `n_coordinates` is above
        2**22 `mu`.

    See Also
    --------
    fairpriv_sklearn.accounting.calibrate_gaussian : From a budget to `mu`.

    Notes
    -----
    The probability of a grid cell differs from the ideal one by 2.5e-9 of its value
    in the root mean square, by 3e-8 at most up to five standard deviations and by 5e-8
    up to ten. This is a measurement, not a proof; the accounting pays for it.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su, "Gaussian Differential Privacy", Journal of
       the Royal Statistical Society B, 2022.
    .. [2] I. Mironov, "On Significance of the Least Significant Bits for
       Differential Privacy", CCS, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.mechanisms import GaussianMechanism, noise_source
    >>> mechanism = GaussianMechanism(sensitivity=1.0, mu=0.5, n_coordinates=2)
    >>> round(mechanism.scale, 4)
    2.0
    >>> mechanism.release(np.array([3.0, 4.0]), noise_source(0)).shape
    (2,)
    """

    sensitivity: float
    mu: float
    n_coordinates: int

    def __post_init__(self):
        rules = {
            "sensitivity": number(0, math.inf, "neither"),
            "mu": number(0, math.inf, "right"),
            "n_coordinates": number(1, math.inf),
        }
        for name, rule in rules.items():
            object.__setattr__(self, name, rule(name, getattr(self, name)))
        # Far inside the range of floats the grid stays a normal power of two.
        if self.mu < math.inf and not 1e-250 < self.sensitivity / self.mu < 1e250:
            raise ValueError(
                "sensitivity / mu must be in (1e-250, 1e250), got "
                f"{self.sensitivity!r} / {self.mu!r}."
            )
        if math.sqrt(self.n_coordinates) > self.mu * _MOST_ROUNDING:
            raise ValueError(
                f"mu={self.mu!r} is too small for n_coordinates={self.n_coordinates!r}:"
                " noise for the rounding of so many numbers cannot be drawn accurately "
                "enough. Spend more, or release fewer numbers."
            )

    @cached_property
    def grid(self) -> float:
        """Spacing of the outputs, a power of two."""
        if self.mu == math.inf:
            return 0.0
        _, exponent = math.frexp(float(self.sensitivity) / self.mu)
        return math.ldexp(1.0, exponent - 1 - 20)

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the noise, rounded up."""
        if self.mu == math.inf:
            return 0.0
        inflated = self.sensitivity + self.grid * math.sqrt(self.n_coordinates)
        # Five roundings of at most 2**-53 each.
        return float(inflated / self.mu * (1.0 + 2.0**-50))

    def release(self, value: Floats, noise: NoiseSource) -> Floats:
        """Release a vector with noise.

        Parameters
        ----------
        value : ndarray of float with `n_coordinates` entries, any shape
            The private vector.
        noise : NoiseSource
            Where the noise comes from.

        Returns
        -------
        released : ndarray of float64, same shape
            On the grid; `value` itself if `mu` is inf.
        """
        value = np.asarray(numbers("value", value), dtype=np.float64)
        _SOURCE("noise", noise)
        if value.size != self.n_coordinates:
            raise ValueError(
                f"value must have n_coordinates={self.n_coordinates} entries, "
                f"got {value.size}."
            )
        if self.mu == math.inf:
            return value
        return self._with_noise(value, noise.standard_normal(value.shape))

    def _with_noise(self, value, z: Floats) -> Floats:
        with np.errstate(all="ignore"):
            units = np.rint(value / self.grid)
            units = np.where(np.isnan(units), 0.0, units)
            units = np.minimum(np.maximum(units, -_SATURATION), _SATURATION)
            units = units.astype(np.int64)
        added = np.rint(z * (self.scale / self.grid)).astype(np.int64)
        return (units + added) * np.float64(self.grid)

    def release_keyed(self, counts, keys, secret: bytes) -> Floats:
        """Release integer counts, each with noise that its key and a secret determine.

        Parameters
        ----------
        counts : sequence of int
            Below 2**31.
        keys : sequence of bytes
            One key for each count, all different.
        secret : bytes
            A fresh secret of 32 bytes, used once.

        Returns
        -------
        released : ndarray of float64
            As those of `release`: noise under a secret cannot be told from draws.
        """
        counts = np.asarray(numbers("counts", counts), dtype=np.float64)
        keys = listed("keys", keys)
        if not all(isinstance(key, bytes) for key in keys):
            raise TypeError("keys must be bytes.")
        if not isinstance(secret, bytes):
            raise TypeError(f"secret must be bytes, got {described(secret)}.")
        if counts.shape != (len(keys),):
            raise ValueError("counts and keys must be equally many.")
        if self.mu == math.inf or not len(counts):
            return counts
        digests = [blake2b(key, key=secret, digest_size=16).digest() for key in keys]
        words = np.frombuffer(b"".join(digests), dtype="<u8")
        words, more = words[::2], words[1::2]
        return self._with_noise(counts, _normal(words, lambda tail: more[tail]))

    def key_threshold(self, delta: float, n_columns: int) -> float:
        r"""Threshold above which the noisy count of an unlisted key may be shown.

        .. math:: T = 1 + g + \sigma \Phi^{-1}(1 - \delta_0),
            \qquad 1 - (1 - \delta_0)^d = \delta

        Parameters
        ----------
        delta : float
            Probability that one record shows a key that it alone has. Range: (0, 1).
        n_columns : int
            Number of columns with unlisted keys, d.

        Returns
        -------
        threshold : float
            1.0 without noise.
        """
        delta = number(0, 1, closed="left")("delta", delta)
        n_columns = count(0)("n_columns", n_columns)
        if self.mu == math.inf or not n_columns:
            return 1.0
        if not delta:
            return math.inf
        log_delta = math.log(-math.expm1(math.log1p(-delta) / n_columns))
        quantile = -float(ndtri_exp(log_delta)) * (1.0 + 1e-9)
        return 1.0 + self.grid + self.scale * quantile


@dataclass(frozen=True)
class DiscreteLaplaceMechanism:
    r"""Release integer counts with exact discrete Laplace noise.

    .. math:: P(Z = z) \propto e^{-|z| s / t}, \qquad t / s \ge \Delta_1 / \varepsilon

    .. rubric:: Privacy

    Pure `epsilon`-DP for any two count vectors at l1 distance at most `sensitivity`
    [1]_. The scale is a ratio of integers t / s, rounded up, and `epsilon_spent` is
    what that ratio implies. Counts are saturated at 2**62 so that no value can
    overflow.

    Parameters
    ----------
    sensitivity : int
        Sensitivity of the counts in the l1 norm and the neighbouring relation in
        use. Range: [1, inf).
    epsilon : float
        Budget of one release. Range: [1e-6, 1e6], or inf for no noise.

    Attributes
    ----------
    epsilon_spent : float
        Budget that the rational scale implies, rounded up. Never above `epsilon`.
    scale : float
        t / s. 0.0 if `epsilon` is inf.
    variance : float
        Variance of the noise of one count.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    The distribution is exact. One random word is inverted in floating point; where
    rounding errors could change the answer, exactly rounded decimal arithmetic decides,
    with as many more random bits [2]_ as it takes.

    References
    ----------
    .. [1] A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally Utility-Maximizing
       Privacy Mechanisms", STOC, 2009.
    .. [2] D. E. Knuth, A. C. Yao, "The Complexity of Nonuniform Random Number
       Generation", in: Algorithms and Complexity: New Directions and Recent Results,
       Academic Press, 1976.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.mechanisms import DiscreteLaplaceMechanism, noise_source
    >>> mechanism = DiscreteLaplaceMechanism(sensitivity=2, epsilon=1.0)
    >>> mechanism.scale, mechanism.epsilon_spent
    (2.0, 1.0)
    >>> mechanism.release(np.array([10, 0, 7]), noise_source(0)).dtype
    dtype('int64')
    """

    sensitivity: int
    epsilon: float

    def __post_init__(self):
        if not isinstance(self.sensitivity, Integral) or self.sensitivity < 1:
            raise ValueError(
                "sensitivity must be a positive integer, got "
                f"{described(self.sensitivity)}."
            )
        for name in ("sensitivity", "epsilon"):
            object.__setattr__(self, name, real(name, getattr(self, name)))
        if self.epsilon == math.inf:
            return
        if not _MIN_EPSILON <= self.epsilon <= _MAX_EPSILON:
            raise ValueError(
                f"epsilon must be in [{_MIN_EPSILON}, {_MAX_EPSILON}] or inf, "
                f"got {self.epsilon!r}."
            )
        if self.sensitivity > self.epsilon * _MAX_NUMERATOR:
            raise ValueError(
                "sensitivity must be at most epsilon * 2**40, got "
                f"{self.sensitivity!r} with epsilon={self.epsilon!r}."
            )

    @cached_property
    def _ratio(self) -> tuple[int, int]:
        """Return (t, log2 s), with 2**39 <= t <= 2**40 and t / s rounded up."""
        exact = Fraction(int(self.sensitivity)) / Fraction(float(self.epsilon))
        shift = 0
        while exact * (2 << shift) <= _MAX_NUMERATOR:
            shift += 1
        return math.ceil(exact * (1 << shift)), shift

    @cached_property
    def epsilon_spent(self) -> float:
        """Budget that the rational scale implies, rounded up."""
        if self.epsilon == math.inf:
            return math.inf
        t, shift = self._ratio
        exact = Fraction(int(self.sensitivity) << shift, t)
        nearest = float(exact)
        return nearest if nearest >= exact else math.nextafter(nearest, math.inf)

    @cached_property
    def scale(self) -> float:
        """Scale t / s of the noise."""
        if self.epsilon == math.inf:
            return 0.0
        t, shift = self._ratio
        return t / (1 << shift)

    @cached_property
    def variance(self) -> float:
        """Variance of the noise of one count."""
        if self.epsilon == math.inf:
            return 0.0
        rate = 1.0 / self.scale
        return 2.0 * math.exp(-rate) / math.expm1(-rate) ** 2

    def release(self, counts: Integers, noise: NoiseSource) -> Integers:
        """Release counts with noise.

        Parameters
        ----------
        counts : ndarray of int64, any shape
            The private counts.
        noise : NoiseSource
            Where the noise comes from.

        Returns
        -------
        released : ndarray of int64, same shape
            `counts` itself if `epsilon` is inf.
        """
        counts = np.asarray(numbers("counts", counts))
        _SOURCE("noise", noise)
        if not np.issubdtype(counts.dtype, np.integer):
            raise ValueError(f"counts must be integers, got dtype {counts.dtype}.")
        if counts.dtype == np.uint64:
            counts = np.minimum(counts, _SATURATION)
        counts = counts.astype(np.int64, copy=False)
        if self.epsilon == math.inf:
            return counts
        t, shift = self._ratio
        added = _discrete_laplace(noise, counts.size, t, shift)
        saturated = np.clip(counts, -_SATURATION, _SATURATION)
        return saturated + added.reshape(counts.shape)


@dataclass(frozen=True)
class PermuteAndFlip:
    r"""Choose an index with a large utility, exactly.

    Candidates are visited in random order; one with utility u is taken with
    probability :math:`\exp(\varepsilon (u - \max u) / (2 \Delta))` [1]_, without the 2
    if a record can only raise all utilities or only lower them (`monotonic`).

    .. rubric:: Privacy

    Pure `epsilon`-DP if one record changes each utility by at most `sensitivity`. The
    draws are exact: exponents are rational numbers, and a draw of probability
    exp(-x) is tossed without computing it [2]_.

    Parameters
    ----------
    sensitivity : float
        Largest change of one utility. Range: (0, inf).
    epsilon : float
        Range: (0, inf]; infinity takes the largest utility.
    monotonic : bool, default=False
        Whether a record can only raise all utilities, or only lower them.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon, "Permute-and-Flip: A New Mechanism for
       Differentially Private Selection", NeurIPS, 2020.
    .. [2] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential
       Privacy", NeurIPS, 2020.

    Examples
    --------
    >>> from fairpriv_sklearn.mechanisms import PermuteAndFlip, noise_source
    >>> PermuteAndFlip(1.0, epsilon=20.0).release([0, 50, 3], noise_source(0))
    1
    """

    sensitivity: float
    epsilon: float
    monotonic: bool = False

    def __post_init__(self):
        for name in ("sensitivity", "epsilon"):
            above_zero = number(0, math.inf, "right")(name, getattr(self, name))
            object.__setattr__(self, name, above_zero)

    def release(self, utilities, noise: NoiseSource) -> int:
        """Choose an index.

        Parameters
        ----------
        utilities : sequence of float
            Finite; taken as the rational numbers that they are.
        noise : NoiseSource
            Where the draws come from.

        Returns
        -------
        index : int
        """
        utilities = floats(1)("utilities", utilities)
        _SOURCE("noise", noise)
        exact = [Fraction(float(utility)) for utility in utilities]
        largest = max(exact)
        if self.epsilon == math.inf:
            return exact.index(largest)
        factor = Fraction(float(self.epsilon)) / Fraction(float(self.sensitivity))
        if not self.monotonic:
            factor /= 2
        order = list(range(len(exact)))
        while True:
            place = int(noise.integers(0, len(order), ()))
            candidate = order.pop(place)
            if _true_with_exp(noise, factor * (largest - exact[candidate])):
                return candidate


def _true_with_exp(noise: NoiseSource, x: Fraction) -> bool:
    """Return True with probability exp(-x), x >= 0, exactly."""
    while x > 1:
        if not _true_with_exp(noise, Fraction(1)):
            return False
        x -= 1
    tosses = 1
    while _true_with(noise, x / tosses):
        tosses += 1
    return tosses % 2 == 1


def _true_with(noise: NoiseSource, p: Fraction) -> bool:
    """Return True with rational probability p in [0, 1], bit by bit."""
    numerator, denominator = p.numerator, p.denominator
    while True:
        word = int(noise.uint64(()))
        # The word is the next 64 binary digits of a uniform number; so are these of p.
        digits, numerator = divmod(numerator << 64, denominator)
        if word != digits or numerator == 0:
            return word < digits


def _system_words(n: int) -> NDArray[np.uint64]:
    # No buffer is kept: after a fork two processes would release the same noise.
    return np.frombuffer(bytearray(os.urandom(8 * n)), dtype=np.uint64)


def _shape(size: Size) -> tuple[int, ...]:
    return size if isinstance(size, tuple) else (size,)


def _normal(words: NDArray[np.uint64], more_bits: Callable) -> Floats:
    """Normal numbers of a sign and 63 bits each, and of more bits in the tail."""
    magnitude = words & ~_SIGN
    in_tail = np.flatnonzero(magnitude < _TAIL)
    z = _lower_normal_quantile(magnitude, in_tail, more_bits(in_tail))
    return np.negative(z, out=z, where=words >= _SIGN)


def _lower_normal_quantile(
    magnitude: NDArray[np.uint64],
    in_tail: NDArray[np.intp],
    more_bits: NDArray[np.uint64],
) -> Floats:
    """Map 63-bit integers k to Phi^-1((k + fraction) 2**-64), which is at most 0.

    The fraction is 1/2, and in the tail (r + 1/2) 2**-64 with 64 more bits r.
    """
    probability = magnitude + 0.5
    if in_tail.size:
        probability[in_tail] = magnitude[in_tail] + (more_bits + 0.5) * 2.0**-64
    probability *= 2.0**-64
    return ndtri(probability, out=probability)


def _discrete_laplace(noise: NoiseSource, size: int, t: int, shift: int) -> Integers:
    """Draw `size` integers with P(z) proportional to r**|z|, r = exp(-2**shift / t).

    By inversion: P(|Z| >= k) = c r**k for k >= 1, with c = 2 / (1 + r). So a fair draw
    is the sign, and a uniform U < 1 <= c gives the magnitude k with
    c r**(k + 1) <= U < c r**k. One word holds the sign and the first 63 bits of U. A
    logarithm guesses k, and the guess stands if all U with these bits lie between the
    two thresholds, whatever the rounding errors. Otherwise more bits of U decide, so
    that floating point decides how long a draw takes, but not what it is.
    """
    ratio, factor, powers = _laplace_thresholds(t, shift)
    words = noise.uint64(size)
    u = (words & ~_SIGN).astype(np.float64)  # U lies between u and u + 1, times 2**-63
    guess = np.log(u + 0.5)
    guess -= math.log(factor)
    guess *= -t / (1 << shift)
    magnitude = guess.astype(np.int64)
    # No guess is too wrong to be compared with its own thresholds.
    magnitude &= math.prod(power.size for power in powers) - 1
    threshold, digits = factor, magnitude
    for power in powers:
        threshold *= power[digits & (power.size - 1)]
        digits = digits >> _DIGIT_BITS
    is_sure = u + 1.0 < threshold * (1.0 - _THRESHOLD_ERROR)
    is_sure &= u > threshold * (ratio * (1.0 + _THRESHOLD_ERROR))
    for i in np.flatnonzero(~is_sure):
        magnitude[i] = _laplace_magnitude(noise, int(words[i] & ~_SIGN), t, shift)
    return np.negative(magnitude, out=magnitude, where=words >= _SIGN)


@lru_cache
def _laplace_thresholds(t: int, shift: int) -> tuple[float, float, list[Floats]]:
    """Return r, 2**63 c and tables: one entry of each, by the digits of k, make r**k.

    Entry j of table i is r**(j 2**(10 i)), a product of correctly rounded r**(2**b).
    Only an r that is nearly 0 can underflow: its thresholds are below u = 1 either way.
    """
    n_bits = max(1, (45 * t >> shift).bit_length())  # r**k < 2**-64 beyond
    with localcontext(Context(prec=40)):
        ratios = [float((Decimal(-1 << (shift + b)) / t).exp()) for b in range(n_bits)]
    powers = []
    for first in range(0, n_bits, _DIGIT_BITS):
        power = np.ones(1)
        for ratio in ratios[first : first + _DIGIT_BITS]:
            power = np.concatenate([power, power * ratio])
        powers.append(power)
    return ratios[0], 2.0**64 / (1.0 + ratios[0]), powers


def _laplace_magnitude(noise: NoiseSource, u: int, t: int, shift: int) -> int:
    """Return the magnitude for a U that starts with the 63 bits of `u`.

    It is the integer part of log(c / U) t / 2**shift. Exponentials and logarithms of
    decimal numbers are correctly rounded: all roundings together move this product,
    which is below 2**40 n_bits, by far less than `slack`.
    """
    n_bits = 63
    while True:
        precision = 30 + n_bits // 3
        with localcontext(Context(prec=precision)):
            scale = Decimal(t) / (1 << shift)
            factor = (2 << n_bits) / (1 + (-1 / scale).exp())
            slack = Decimal(10) ** (20 - precision)
            if u > 0:
                smallest = math.floor((factor / (u + 1)).ln() * scale - slack)
                largest = math.floor((factor / u).ln() * scale + slack)
                if smallest == largest:
                    return largest
        u = (u << 64) + int(noise.uint64(()))
        n_bits += 64
