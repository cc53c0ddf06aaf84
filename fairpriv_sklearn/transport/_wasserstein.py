"""The squared Wasserstein distance of samples on the line, and its gradient.

Everything here is a function of the *sorted* samples, and tied records share one
gradient: the result depends on the multisets only, so the order of the rows cannot
reach it, not even in the last bit.  The sensitivity of the gradient in [1]_ needs this.

References
----------
.. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes. "Learning with Differentially
   Private (Sliced) Wasserstein Gradients". arXiv:2502.01701, 2025.
"""

from __future__ import annotations

from copy import copy
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpriv_sklearn._shared.arguments import (
    checked,
    codes,
    count,
    flag,
    number,
    numbers,
)

# Wider ranges would overflow.
_LARGEST = 1e300

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RESOLUTION = 2**20
"""Number of steps into which :func:`quantise` divides the range of the outputs."""


@checked(
    outputs=numbers, low=number(-_LARGEST, _LARGEST), high=number(-_LARGEST, _LARGEST)
)
def quantise(outputs: ArrayLike, low: float, high: float) -> Integers:
    """Round outputs to a grid of ``RESOLUTION`` steps over a public range.

    Sums of integer codes are exact, so a record's share in the gradient does not
    depend on rounding elsewhere in the sample.

    Parameters
    ----------
    outputs : array-like of shape (n,), float
        Outside [low, high] they are moved to its ends; NaN becomes ``low``.
    low, high : float
        Public range, ``low < high``.

    Returns
    -------
    ndarray of shape (n,), int64
        Codes in [0, ``RESOLUTION``].  One step is ``(high - low) / RESOLUTION`` in
        units of the outputs.

    Raises
    ------
    ValueError
        If the range is empty.
    """
    if not low < high:
        raise ValueError(f"low must be smaller than high, got {low} and {high}")
    return grid_codes(np.asarray(outputs, dtype=np.float64), low, high)


def grid_codes(outputs: Floats, low: float, high: float, dtype=np.int64) -> NDArray:
    """The same, unchecked: for blocks of a table."""
    # fmax and fmin drop NaN, and clip before the shift can overflow.
    steps = np.empty_like(outputs)
    np.fmax(outputs, low, out=steps)
    np.fmin(steps, high, out=steps)
    steps -= low
    steps *= RESOLUTION / (high - low)
    return np.rint(steps, out=steps).astype(dtype)


@checked(u=numbers, v=numbers, return_gradient=flag)
def wasserstein_1d(
    u: ArrayLike, v: ArrayLike, *, return_gradient: bool = False
) -> float | tuple[float, Floats, Floats]:
    r"""Squared 2-Wasserstein distance between two samples, by one merge.

    .. math::

        W_2^2(u, v) = \int_0^1 (Q_u(t) - Q_v(t))^2\,dt, \qquad
        \frac{\partial W_2^2}{\partial u_i} = \frac{2}{n} (u_i - T_i),

    where :math:`T_i` is the mean of the quantile function :math:`Q_v` over the ranks
    of :math:`u_i`, averaged over the records tied with it.

    Parameters
    ----------
    u : array-like of shape (n,), float or int
        Non-empty sample.  Integer codes from :func:`quantise` give results in units
        of one step.
    v : array-like of shape (m,), float or int
        Non-empty sample of any size.
    return_gradient : bool, default=False
        Whether to return the gradients too.

    Returns
    -------
    distance : float
        In squared units of the samples.
    gradient_u : ndarray of shape (n,)
    gradient_v : ndarray of shape (m,)
        Derivatives with respect to each record, in the given order.  Only returned
        if ``return_gradient`` is true.  At ties, where the distance has no
        derivative, the average over all ways to order the tied records.

    Raises
    ------
    ValueError
        If a sample is empty, has more than one dimension or is not finite.

    See Also
    --------
    pairwise_wasserstein : Mean over all pairs of groups.

    Notes
    -----
    Time is :math:`O((n+m) \log(n+m))`, almost all of it for sorting; memory is
    :math:`O(n+m)`.

    Permuting a sample permutes its gradient and changes nothing else, bit for bit.
    For codes from :func:`quantise` the sum behind a block of tied records is an exact
    integer, rounded once; for floats it is a pairwise sum whose relative error is a few
    units in the last place.

    Examples
    --------
    >>> from fairpriv_sklearn.transport import wasserstein_1d
    >>> distance, gradient_u, gradient_v = wasserstein_1d(
    ...     [0.0, 1.0], [2.0], return_gradient=True
    ... )
    >>> distance
    2.5
    >>> gradient_u, gradient_v
    (array([-2., -1.]), array([3.]))
    """
    samples = {"u": np.asarray(u), "v": np.asarray(v)}
    if all(map(_are_codes, samples.values())):
        orders, in_order = zip(*map(sort_codes, samples.values()), strict=True)
        coded = [SortedCodes(codes) for codes in in_order]
        distance, *gradients = transport_of_codes(*coded)
        gradients = [g.repeat(c.sizes) for g, c in zip(gradients, coded, strict=True)]
    else:
        u, v = (_check_sample(*sample) for sample in samples.items())
        if not return_gradient:
            return _transport(np.sort(u), np.sort(v)).distance
        (order_u, u), (order_v, v) = _sorted(u), _sorted(v)
        orders = order_u, order_v
        distance, *gradients = _transport(u, v)
    if not return_gradient:
        return distance
    given = []
    for order, gradient in zip(orders, gradients, strict=True):
        given.append(np.empty_like(gradient))
        given[-1][order] = gradient
    return distance, *given


@checked(outputs=numbers, codes=codes, n_groups=count(-(10**6), 10**6))
def pairwise_wasserstein(
    outputs: ArrayLike, codes: ArrayLike, n_groups: int
) -> tuple[float, Floats]:
    """Mean squared 2-Wasserstein distance over all pairs of groups.

    Every group is sorted once, whatever the number of pairs.

    Parameters
    ----------
    outputs : array-like of shape (n,), float or int
        Outputs of all groups; codes from :func:`quantise` where the gradient is to be
        released with noise.
    codes : array-like of shape (n,), int
        Group of every row, in ``range(n_groups)``.
    n_groups : int
        Number of groups, at least 2.

    Returns
    -------
    distance : float
        Sum over pairs divided by the number of pairs.  A pair with an empty group
        counts as zero.
    gradient : ndarray of shape (n,)
        Derivative with respect to every output, ties averaged.

    Raises
    ------
    ValueError
        If there are fewer than two groups, or the outputs are not a finite vector.

    Examples
    --------
    >>> from fairpriv_sklearn.transport import pairwise_wasserstein
    >>> pairwise_wasserstein([0.0, 1.0, 3.0], [0, 0, 1], n_groups=2)
    (6.5, array([-3., -2.,  5.]))
    """
    if n_groups < 2:
        raise ValueError(f"n_groups must be at least 2, got {n_groups}")
    outputs, codes = np.asarray(outputs), np.asarray(codes)
    if codes.shape != outputs.shape:
        raise ValueError(
            "outputs and codes must have one entry each per record, got shapes "
            f"{outputs.shape} and {codes.shape}."
        )
    gradient = np.zeros(outputs.shape)
    if outputs.size == 0:
        return 0.0, gradient
    outputs = _check_sample("outputs", outputs)
    order = np.argsort(outputs)
    codes = codes[order]
    rows = [order[codes == code] for code in range(n_groups)]  # sorted by output
    samples = [outputs[row] for row in rows]
    slopes = [np.zeros(row.size) for row in rows]
    total = 0.0
    for a, b in combinations(range(n_groups), 2):
        if samples[a].size and samples[b].size:
            result = _transport(samples[a], samples[b])
            total += result.distance
            slopes[a] += result.gradient_u
            slopes[b] += result.gradient_v
    n_pairs = n_groups * (n_groups - 1) // 2
    for row, slope in zip(rows, slopes, strict=True):
        gradient[row] = slope / n_pairs
    return total / n_pairs, gradient


MAX_CODES = 1 << 32
_ONE = 1 << 62  # the unit of ranks and of integrals over them, where there are many


def sort_codes(codes: NDArray) -> tuple[Integers, Integers]:
    """Return an order of whole numbers from 0 to below `MAX_CODES`, and them in it.

    A sort of numbers that hold their places is several times as fast as an argsort.
    """
    packed = np.left_shift(codes, 32, dtype=np.uint64, casting="unsafe")
    packed |= np.arange(len(packed), dtype=np.uint32)
    packed.sort()
    in_order = packed >> np.uint64(32)
    packed &= np.uint64(MAX_CODES - 1)
    return packed.view(np.int64), in_order.view(np.int64)


def _sorted(values: Floats) -> tuple[Integers, Floats]:
    """Return an order of finite numbers, and them in it.

    By their leading digits, which hold their places; with argsort where they do not do.
    """
    n_places = int(values.size - 1).bit_length()
    low, n_bits = values.min(), min(50, 64 - n_places)
    with np.errstate(all="ignore"):
        factor = (2.0**n_bits - 1) / (values.max() - low)
    if 0 < factor < np.inf:
        packed = ((values - low) * factor).astype(np.uint64)
        packed <<= np.uint64(n_places)
        packed |= np.arange(values.size, dtype=np.uint32)
        packed.sort()
        packed &= np.uint64((1 << n_places) - 1)
        order = packed.view(np.int64)
        in_order = values[order]
        if (in_order[1:] >= in_order[:-1]).all():
            return order, in_order
    order = np.argsort(values)
    return order, values[order]


def _are_codes(values: NDArray) -> bool:
    if values.ndim != 1 or not values.size or values.dtype.kind not in "iu":
        return False
    return 0 <= values.min() <= values.max() < MAX_CODES


class _Transport(NamedTuple):
    distance: float
    gradient_u: Floats
    gradient_v: Floats


def _transport(u: Floats, v: Floats) -> _Transport:
    """Distance and gradients of two sorted samples, in sorted order; O(n + m).

    Ranks are counted in units of 1 / (n m), in which a record of ``u`` owns ``m`` and
    one of ``v`` owns ``n``: integers, so that no rank is ever rounded.
    """
    n, m = u.size, v.size
    if n < m:
        distance, gradient_v, gradient_u = _transport(v, u)
        return _Transport(distance, gradient_u, gradient_v)
    # The ranks of one record of the larger sample meet at most two of the smaller one:
    # first[j] is the first record that starts inside record j of v, and the record
    # before it may still reach into j, by ``reach`` units.
    first = np.arange(m - 1, n * m + m - 1, n) // m
    crossing = first[1:] - 1
    reach = first[1:] * m - np.arange(n, n * m, n)
    ahead = u[crossing] - v[1:]
    work_ahead = reach * ahead
    difference = v.repeat(_sizes(first, n))
    np.subtract(u, difference, out=difference)
    work = m * difference
    work[crossing] = (m - reach) * difference[crossing]
    distance = float((work * difference).sum() + (work_ahead * ahead).sum()) / (n * m)

    work_v = np.add.reduceat(work, first)
    work_v[1:] += work_ahead
    work[crossing] += work_ahead
    # Scaled last: until here, codes give exact integers.
    gradient_u, gradient_v = _average_ties(u, work), _average_ties(v, work_v)
    gradient_u *= 2 / (n * m)
    gradient_v *= -2 / (n * m)
    return _Transport(distance, gradient_u, gradient_v)


class SortedCodes:
    """A sorted sample of codes: its values, where each begins, and sums of the first.

    Parameters
    ----------
    codes : ndarray of shape (n,), int64
        Sorted and not empty.

    Attributes
    ----------
    edges : ndarray of shape (n_values + 1,), int64
        First record of every value, and n.
    values, sizes : ndarray of shape (n_values,), int64
        The values, and how many records have them.
    sums : ndarray of shape (n + 1,), int64
        Of the first 0, 1, ..., n codes: the codes are their differences.
    """

    def __init__(self, codes: Integers):
        is_edge = np.ones(codes.size + 1, dtype=bool)
        np.not_equal(codes[1:], codes[:-1], out=is_edge[1:-1])
        self.edges = np.flatnonzero(is_edge)
        self.values = codes[self.edges[:-1]]
        self.sizes = self.edges[1:] - self.edges[:-1]
        self.sums = np.zeros(codes.size + 1, dtype=np.int64)
        np.cumsum(codes, out=self.sums[1:])

    @property
    def n(self) -> int:
        """Number of records."""
        return self.sums.size - 1

    def digits(self, low: int, shift: int, n_bits: int) -> SortedCodes:
        """The same records with some binary digits of their codes above `low`."""
        part = copy(self)
        part.values = (self.values - low) >> shift & ((1 << n_bits) - 1)
        part.sums = np.zeros_like(self.sums)
        np.cumsum(part.values.repeat(self.sizes), out=part.sums[1:])
        return part


def transport_of_codes(u: SortedCodes, v: SortedCodes, *, gradients_only=False):
    """Distance, and the gradient of the records of every value; O(n + m).

    Sums over ranks are differences of integrals, in units of 1 / (n m): integers modulo
    2**64, and so exact where the sums themselves are below 2**63; where they might not
    be, codes are cut into digits.
    """
    n, m = u.n, v.n
    low = min(u.values[0], v.values[0])
    n_bits = int(max(u.values[-1], v.values[-1]) - low).bit_length()
    room = 62 - max(int(u.sizes.max()) * m, int(v.sizes.max()) * n).bit_length()
    if n_bits <= room:
        of_u, of_v = _surplus(u, v), _surplus(v, u)
    else:
        of_u, of_v = np.zeros(u.sizes.size), np.zeros(v.sizes.size)
        for shift in range(0, n_bits, room):
            a, b = (one.digits(low, shift, room) for one in (u, v))
            of_u += _surplus(a, b) * 2.0**shift
            of_v += _surplus(b, a) * 2.0**shift
    distance = np.nan
    if not gradients_only:
        # They add up to zero: from where values are counted does not matter.
        distance = ((u.values - u.values[0]) * of_u).sum()
        distance += ((v.values - u.values[0]) * of_v).sum()
        distance = max(0.0, float(distance)) / (n * m)
    of_u /= u.sizes
    of_v /= v.sizes
    of_u *= 2 / (n * m)
    of_v *= 2 / (n * m)
    return _Transport(distance, of_u, of_v)


def _surplus(u: SortedCodes, v: SortedCodes) -> Floats:
    """Sum over the ranks of every value of u of it less the quantile function of v."""
    ranks = u.edges * v.n
    record = ranks // u.n
    ranks -= record * u.n  # of the record that begins there
    integral = v.sums[record]
    record += 1
    record[-1] = v.n  # none begins at the end
    ranks *= v.sums[record] - integral
    integral *= u.n
    integral += ranks
    found = u.sizes * u.values
    found *= v.n
    found -= integral[1:]
    found += integral[:-1]
    return found.astype(np.float64)


def _transports(samples: list[Floats], weights: NDArray, top: float):
    r"""Sum of ``w_a w_b`` times the distance of all pairs, in O(N log N).

    A record of sample a is pulled to the mean of all quantile functions:
    :math:`\sum_b w_b (u_i - T_{ab, i}) = W u_i - T_{a, i}` with :math:`T_a` the mean
    over its ranks of :math:`\sum_b w_b Q_b`, the same step function for all. Ranks and
    integrals are whole multiples of 2**-62: nothing is rounded in sums.

    Parameters
    ----------
    samples : list of ndarray
        Sorted and not empty.
    weights : ndarray of shape (n_samples,)
        Positive; whole numbers where the values are.
    top : float
        Bound of all absolute values.

    Returns
    -------
    value : float
    gradients : list of ndarray
        With respect to the records of each sample, ties averaged.
    """
    values, sizes = np.concatenate(samples), np.array([len(one) for one in samples])
    last = np.cumsum(sizes) - 1
    size, weight = np.repeat(sizes, sizes), np.repeat(weights, sizes).astype(float)
    number = np.arange(1, len(values) + 1) - np.repeat(last + 1 - sizes, sizes)
    # A record owns the ranks up to number / size.
    ends = number * (_ONE // size) + number * (_ONE % size) // size
    order = np.argsort(ends, kind="stable")
    jumps = weight * np.diff(values, append=0.0)
    jumps[last] = 0.0
    level = np.cumsum(np.append(weights @ values[last + 1 - sizes], jumps[order][:-1]))
    lengths = np.diff(ends[order], prepend=0) / _ONE
    whole = float(weights.sum()) * top
    integral = np.empty(len(values), dtype=np.int64)
    integral[order] = np.cumsum(np.rint(level / whole * lengths * _ONE).astype(int))
    inside = np.diff(integral, prepend=0)
    inside[last[:-1] + 1] = integral[last[:-1] + 1]
    starts = np.flatnonzero(
        (np.diff(values, prepend=np.nan) != 0) | (number == 1)
    )  # of ties
    ties = _sizes(starts, len(values))
    means = np.add.reduceat(inside, starts) * (whole / _ONE) * size[starts]
    means = (means / ties).repeat(ties)
    gradient = 2 * weight / size * (weights.sum() * values - means)
    value = weights.sum() * (weight / size * values) @ values - level**2 @ lengths
    return max(0.0, float(value)), np.split(gradient, last[:-1] + 1)


def _average_ties(sample: Floats, values: Floats) -> Floats:
    """Average values over blocks of equal entries of a sorted sample."""
    starts = np.flatnonzero(np.concatenate([[True], sample[1:] != sample[:-1]]))
    if starts.size == sample.size:
        return values
    sizes = _sizes(starts, sample.size)
    means = np.add.reduceat(values, starts)
    means /= sizes
    return means.repeat(sizes)


def _sizes(starts: Integers, end: int) -> Integers:
    """Lengths of consecutive blocks, the last of which stops at ``end``."""
    sizes = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=sizes[:-1])
    sizes[-1] = end - starts[-1]
    return sizes


def _check_sample(name: str, values: ArrayLike) -> Floats:
    """Return a non-empty finite vector of float64; codes are exact in it."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"{name} must be a non-empty one-dimensional array, got shape "
            f"{values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite")
    return values
