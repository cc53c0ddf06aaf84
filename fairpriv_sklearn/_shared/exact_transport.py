"""Transport between sorted samples on the line, exact where they are whole numbers.

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .arrays import Floats, Integers, row_slices

RESOLUTION = 2**20
"""Number of steps into which :func:`grid_codes` divides the range of the outputs."""

# Let arrays be made of what others freed: new pages cost more than the arithmetic. The
# GNU C library gives freed memory back where it is more than twice the largest block,
# of at most 32 MiB, that was ever freed. This one is never touched. Other allocators,
# and where a threshold is set, do as before.
np.empty((1 << 25) - (1 << 14), dtype=np.uint8)

MAX_CODES = 1 << 32
_PART = 1 << 14  # how many are sorted or compared together: they stay in the cache
_LARGE = 1 << 18  # samples that are sorted part by part
_ONE = 1 << 62  # the unit of ranks and of integrals over them, where there are many


def grid_codes(outputs: Floats, low: float, high: float, dtype=np.int64) -> NDArray:
    """Round outputs to `RESOLUTION` steps over a range; NaN is its low end."""
    # fmax and fmin drop NaN, and clip before the shift can overflow.
    steps = np.empty_like(outputs)
    np.fmax(outputs, low, out=steps)
    np.fmin(steps, high, out=steps)
    steps -= low
    steps *= RESOLUTION / (high - low)
    return np.rint(steps, out=steps).astype(dtype)


def sort_codes(codes: NDArray) -> tuple[Integers, NDArray[np.uint32]]:
    """Return the stable order of whole numbers below `MAX_CODES`, and them."""
    codes = codes.astype(np.uint32, copy=False)
    if codes.size < _LARGE:
        order = _order_of_codes(codes)
        return order, codes.take(order, mode="clip")
    # Parts so small that most codes have 16 bits left, for which one sort is enough.
    n_bits = (codes.size // (_PART // 2)).bit_length()
    shift = max(0, int(codes.max()).bit_length() - n_bits)

    def sort(part):
        order = _order_of_codes(part & np.uint32((1 << shift) - 1))
        return order, part.take(order)

    return _sorted_by_parts(codes, codes >> np.uint32(shift), n_bits, sort)


def _order_of_codes(codes: NDArray[np.uint32]) -> Integers:
    """The stable order.

    Numbers of 16 bits have a radix sort: one by the lower half, one by the upper half
    are several times as fast as a sort of the whole numbers.
    """
    order = codes.astype(np.uint16).argsort(kind="stable")
    upper = codes >> np.uint32(16)
    largest = upper.max(initial=0)
    if not largest:
        return order
    upper = upper.astype(np.min_scalar_type(largest)).take(order, mode="clip")
    return order.take(upper.argsort(kind="stable"), mode="clip")


def sort_samples(values: Floats) -> tuple[Integers, Floats]:
    """Return the stable order of finite numbers, and them in it."""
    if values.size < _LARGE:
        return _sorted_samples(values)
    n_bits = (values.size // _PART).bit_length()
    parts = _leading_digits(values, n_bits)
    if parts is None:
        return _sorted_samples(values)
    return _sorted_by_parts(values, parts, n_bits, _sorted_samples)


def _sorted_samples(values: Floats) -> tuple[Integers, Floats]:
    """The same at once.

    By their leading digits first, as codes: a stable sort is fast where nearly all is
    in order.
    """
    digits = _leading_digits(values, 32)
    if digits is None:
        order = values.argsort(kind="stable")
        return order, values.take(order)
    order = _order_of_codes(digits)
    in_order = values.take(order)
    if (in_order[1:] < in_order[:-1]).any():
        again = in_order.argsort(kind="stable")
        order, in_order = order.take(again), in_order.take(again)
    return order, in_order


def _leading_digits(values: Floats, n_bits: int) -> NDArray[np.uint32] | None:
    """Where values lie between the least and the largest; None if nobody can tell."""
    low = values.min()
    with np.errstate(all="ignore"):
        factor = ((1 << n_bits) - 1) / (values.max() - low)
    if not 0 < factor < np.inf:
        return None
    return ((values - low) * factor).astype(np.uint32)


def _sorted_by_parts(values: NDArray, parts: NDArray, n_bits: int, sort):
    """Order of values and they in it; parts that a cache can hold are sorted alone.

    Their numbers, below ``2**n_bits``, rise with the values. A table with one entry in
    each row, turned on its side, has the rows in the stable order of their columns.
    """
    n = values.size
    kind = np.min_scalar_type(-n)
    table = values, parts.astype(kind), np.arange(n + 1, dtype=kind)
    rows = sparse.csr_array(table, shape=(n, 1 << n_bits)).tocsc()
    del parts, table
    order, in_order = np.empty(n, dtype=np.int64), rows.data
    ends = rows.indptr.tolist()
    for start, end in zip(ends, ends[1:], strict=False):
        if start < end:
            own = slice(start, end)
            within, in_order[own] = sort(in_order[own])
            order[own] = rows.indices[own].take(within)
    return order, in_order


class Transport(NamedTuple):
    distance: float
    gradient_u: Floats
    gradient_v: Floats


def transport_of_samples(u: Floats, v: Floats) -> Transport:
    """Distance and gradients of two sorted samples, in sorted order; O(n + m).

    Ranks are counted in units of 1 / (n m), in which a record of ``u`` owns ``m`` and
    one of ``v`` owns ``n``: integers, so that no rank is ever rounded.
    """
    n, m = u.size, v.size
    if n < m:
        distance, gradient_v, gradient_u = transport_of_samples(v, u)
        return Transport(distance, gradient_u, gradient_v)
    # The ranks of one record of the larger sample meet at most two of the smaller one:
    # starts[j] is the first record that starts inside record j of v, and the record
    # before it may still reach into j, by ``reach`` units.
    work, work_v, squares, squares_ahead = map(np.zeros, (n, m, n, m))
    for block in row_slices(m, _PART):
        starts = -(np.arange(block.start, block.stop + 1) * -n // m)
        own, at = slice(starts[0], starts[-1]), starts - starts[0]
        difference = v[block].repeat(at[1:] - at[:-1])
        np.subtract(u[own], difference, out=difference)
        np.multiply(difference, m, out=work[own])
        into = slice(block.start + 1, min(block.stop + 1, m))
        inside = slice(1, 1 + into.stop - into.start)
        crossing = at[inside] - 1
        reach = starts[inside] * m - np.arange(into.start, into.stop) * n
        ahead = u[own].take(crossing) - v[into]
        work[own][crossing] = (m - reach) * difference.take(crossing)
        np.multiply(work[own], difference, out=squares[own])
        work_v[block] += np.add.reduceat(work[own], at[:-1])
        reach = reach * ahead
        np.multiply(reach, ahead, out=squares_ahead[into])
        work_v[into] += reach
        work[own][crossing] += reach
    distance = float(squares.sum() + squares_ahead[1:].sum()) / (n * m)
    del squares, squares_ahead
    # Scaled last: until here, codes give exact integers.
    gradient_u, gradient_v = _average_ties(u, work), _average_ties(v, work_v)
    gradient_u *= 2 / (n * m)
    gradient_v *= -2 / (n * m)
    return Transport(distance, gradient_u, gradient_v)


class SortedCodes:
    """A sorted sample of codes: its values, and where each begins.

    Parameters
    ----------
    codes : ndarray of shape (n,), int
        Sorted and not empty.

    Attributes
    ----------
    codes : ndarray of shape (n,), int
    n : int
        Number of records.
    edges : ndarray of shape (n_values + 1,), int
        First record of every value, and n.
    """

    def __init__(self, codes: NDArray):
        self.codes, self.n = codes, codes.size
        is_edge = np.ones(codes.size + 1, dtype=bool)
        np.not_equal(codes[1:], codes[:-1], out=is_edge[1:-1])
        self.edges: Integers = is_edge.nonzero()[0]

    @property
    def values(self) -> Integers:
        return self.codes.take(self.edges[:-1]).astype(np.int64)

    @property
    def sizes(self) -> Integers:
        """How many records have each value."""
        return self.edges[1:] - self.edges[:-1]

    def shared(self, surplus: Floats) -> Floats:
        """What is told of every value, shared between the records that have it."""
        surplus /= self.sizes
        return surplus.repeat(self.sizes)

    @property
    def sums(self) -> Integers:
        """Sums of the first 0, 1, ..., n codes."""
        sums = np.zeros(self.n + 1, dtype=np.int64)
        self.codes.cumsum(dtype=np.int64, out=sums[1:])
        return sums

    def digits(self, low: int, shift: int, n_bits: int) -> SortedCodes:
        """The same records with some binary digits of their codes above `low`."""
        part = copy(self)
        part.codes = (self.codes.astype(np.int64) - low) >> shift & ((1 << n_bits) - 1)
        return part


def transport_of_codes(u: SortedCodes, v: SortedCodes) -> Transport:
    """Distance, and the gradient of every record, ties averaged; O(n + m).

    Sums over ranks are differences of integrals, in units of 1 / (n m): integers modulo
    2**64, and so exact where the sums themselves are below 2**63; where they might not
    be, codes are cut into digits.
    """
    n, m = u.n, v.n
    low = int(min(u.codes[0], v.codes[0]))
    n_bits = (int(max(u.codes[-1], v.codes[-1])) - low).bit_length()
    room = 62 - (n * m).bit_length()
    if n_bits > room:  # most values are of few records
        room = 62 - max(int(u.sizes.max()) * m, int(v.sizes.max()) * n).bit_length()
    if n_bits <= room:
        of_u, of_v = _of_values(u, v)
    else:
        of_u, of_v = np.zeros(u.edges.size - 1), np.zeros(v.edges.size - 1)
        for shift in range(0, n_bits, room):
            digits = _of_values(*(one.digits(low, shift, room) for one in (u, v)))
            of_u += digits[0] * 2.0**shift
            of_v += digits[1] * 2.0**shift
    # They add up to zero: from where values are counted does not matter.
    first = int(u.codes[0])
    distance = ((u.values - first) * of_u).sum() + ((v.values - first) * of_v).sum()
    of_u = u.shared(of_u)  # one after the other: memory
    of_v = v.shared(of_v)
    of_u *= 2 / (n * m)
    of_v *= 2 / (n * m)
    return Transport(max(0.0, float(distance)) / (n * m), of_u, of_v)


def _of_values(u: SortedCodes, v: SortedCodes) -> tuple[Floats, Floats]:
    """Surplus of the values of u above v, and of those of v above u."""
    own, other = u.sums, v.sums
    return _surplus(u, v, own, other), _surplus(v, u, other, own)


def _surplus(u: SortedCodes, v: SortedCodes, own, other) -> Floats:
    """Sum over the ranks of every value of u of it less the quantile function of v.

    `own` and `other` are the sums of both.
    """
    edges, found = u.edges, np.empty(u.edges.size - 1)
    for part in row_slices(found.size, _PART):
        ends = slice(part.start, part.stop + 1)
        ranks = edges[ends] * v.n
        record = ranks // u.n
        ranks -= record * u.n  # of the record that begins there, if there is one
        ranks *= v.codes.take(record, mode="clip")
        # Up to every edge, of v and of u.
        integral = other.take(record, mode="clip")
        integral *= u.n
        integral += ranks
        surplus = own.take(edges[ends], mode="clip") * v.n
        surplus -= integral
        np.subtract(surplus[1:], surplus[:-1], out=found[part])
    return found


def mean_transport(samples: list[Floats], weights: NDArray, top: float):
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
    # Where ties begin, and how many there are.
    starts = np.flatnonzero((np.diff(values, prepend=np.nan) != 0) | (number == 1))
    ties = np.diff(starts, append=len(values))
    means = np.add.reduceat(inside, starts) * (whole / _ONE) * size[starts]
    means = (means / ties).repeat(ties)
    gradient = 2 * weight / size * (weights.sum() * values - means)
    value = weights.sum() * (weight / size * values) @ values - level**2 @ lengths
    return max(0.0, float(value)), np.split(gradient, last[:-1] + 1)


def _average_ties(sample: Floats, values: Floats) -> Floats:
    """Average values over blocks of equal entries of a sorted sample."""
    is_start = np.ones(sample.size, dtype=bool)
    np.not_equal(sample[1:], sample[:-1], out=is_start[1:])
    if is_start.all():
        return values
    (starts,) = is_start.nonzero()
    sizes = np.diff(starts, append=sample.size)
    means = np.add.reduceat(values, starts)
    means /= sizes
    return means.repeat(sizes)
