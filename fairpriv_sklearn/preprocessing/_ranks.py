"""Ranks from noisy counts, and a smooth basis on them: public arithmetic.

Nothing here sees a private row but :func:`cell_of` and :class:`RankMap`, which map
every value by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LARGEST = 2.0**34
_ABOVE_ZERO = math.ulp(0.0)  # the smallest number: up to it the cell of zero goes
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -8, 34
_N_QUANTILES = 32
# No cell sets more than a tenth of the edges, nor a quarter of the ranks.
_EDGE_CAP, _WIDTH_CAP, _CAP_STEPS = 0.1, 0.25, 20
# No cell but that of zero is taken for less than so many standard deviations of the
# noise of a count: where few cells hold a column, what noise left in empty ones would
# be as large as they. 10 to 40 are alike on simulated columns, 5 is worse.
_LEAST = 20.0
N_KNOTS = (1 << 14) + 1
"""Ranks at which the basis is tabulated."""
_MAX_COORDINATES, _MIN_COORDINATES, _ALL_COORDINATES = 24, 2, 250
_SIGNAL_PER_COORDINATE = 100.0
_DOUBT = 5.0  # standard deviations of a count, relative to all of them
_PRIOR = 10.0  # of a range, in standard deviations of the noise of a count
_FEW = 1 << 12  # values, found sooner than a table for them is made
PARTS = 64  # of a cell that is looked into
_POWERS = _LARGEST_EXPONENT - _SMALLEST_EXPONENT  # or so many powers of two
# Leading bits of the smallest normal number of single precision, and of infinity.
_NORMAL, _INFINITE = 0x0080, 0x7F80


def universal_edges() -> NDArray[np.float64]:
    """Edges of cells for any column: signed powers of two, cut in half, and zero."""
    exponents = np.arange(_SMALLEST_EXPONENT, _LARGEST_EXPONENT)
    powers = np.ldexp(np.array([[1.0], [1.5]]), exponents).T.ravel()
    powers = np.append(powers, LARGEST)
    return np.concatenate([-powers[::-1], [0.0, _ABOVE_ZERO], powers])


def date_edges() -> NDArray[np.float64]:
    """Edges of cells for dates, in days since 1970: twenty years, and all beyond."""
    years = ["0001", *map(str, range(1900, 2061, 20)), "9999-12-31"]
    return np.array(years, dtype="datetime64[D]").astype(np.float64)


def moments(days) -> NDArray[np.datetime64]:
    """Dates and times of so many days since 1970, none beyond the ends of all dates."""
    days = np.clip(days, *date_edges()[[0, -1]])
    seconds = np.rint(days * 86_400).astype("timedelta64[s]")
    return np.datetime64(0, "s") + seconds


def edges_within(low: float, high: float) -> NDArray[np.float64]:
    """Edges of cells for a column of known range: universal and equal cells in one."""
    universal = universal_edges()
    inner = universal[(universal > low) & (universal < high)]
    equal = np.linspace(low, high, 17)
    return np.unique(np.concatenate([inner, equal[1:-1], [low, high]]))


def parts_of_cell(low, high, *, is_last=False) -> NDArray[np.float64]:
    """Edges of the parts of a cell: powers of two where zero or infinity is an end.

    Parameters
    ----------
    low, high : float
        Ends of the cell.
    is_last : bool, default=False
        Whether a cell that ends at the largest number holds what lies beyond.
    """
    powers = np.ldexp(np.array([[1.0], [1.5]]), np.arange(_POWERS)).T.ravel()
    if low == _ABOVE_ZERO:
        inner = np.ldexp(high * powers, -_POWERS)
    elif high == 0.0:
        inner = np.ldexp(low * powers, -_POWERS)
    elif is_last and high == LARGEST:
        inner = high * powers
        high = inner[-1]
    elif is_last and low == -LARGEST:
        inner = low * powers
        low = inner[-1]
    else:
        inner = np.linspace(low, high, PARTS + 1)
    return np.unique(np.clip([low, *inner, high], low, high))


def quantile_edges(edges, counts, bounds=None, *, noise=0.0) -> NDArray[np.float64]:
    """Edges of cells of about equal counts, given counts in coarser cells.

    Parameters
    ----------
    edges : ndarray of shape (m + 1,)
    counts : ndarray of shape (m,)
        Not negative. All zero count as equal.
    bounds : tuple of float, default=None
        Public range of the column.
    noise : float or ndarray of shape (m,), default=0.0
        Standard deviation of the noise that a count had.
    """
    counts = capped(counts, _EDGE_CAP, _least(edges, noise))
    occupied = np.flatnonzero(counts)
    ends = [edges[occupied[0]], edges[occupied[-1] + 1]]
    cumulated = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
    levels = np.arange(1, _N_QUANTILES) / _N_QUANTILES
    inner = np.interp(levels, cumulated, edges)
    low, high = (-LARGEST, LARGEST) if bounds is None else bounds
    # Zero is where most atoms are: it keeps a cell of its own.
    zero = [0.0, _ABOVE_ZERO] if low < 0.0 < high else []
    if low == 0.0:
        zero = [_ABOVE_ZERO]
    return np.unique(np.concatenate([inner, ends, zero, [low, high]]))


def ends_at_records(ends, inner, place, edges) -> tuple[float, float]:
    """Ends of a column, as near as cells allow where its range is not public.

    Parameters
    ----------
    ends : tuple of float
        Ends of the outermost cells with records: as far away as the noise of any empty
        cell was taken for records.
    inner : tuple of float
        Where these cells begin, seen from the middle.
    place : tuple of float
        Ends of the outermost of `edges` with many records.
    edges : ndarray
        Of the cells in which the column was located.
    """
    below = edges[max(0, np.searchsorted(edges, inner[0]) - 1)]
    after = np.searchsorted(edges, inner[1], side="right")
    above = edges[min(after, len(edges) - 1)]
    low = max(ends[0], min(below, place[0]))
    high = min(ends[1], max(above, place[1]))
    return (float(low), float(high)) if low < high else ends


def cell_of(values, edges) -> NDArray[np.intp]:
    """Cell of every value; those beyond the ends count for the outer cells."""
    inner = np.asarray(edges[1:-1], dtype=np.float64)
    values = np.asarray(values, dtype=np.float64)
    if values.size < _FEW:
        return inner.searchsorted(values, side="right")
    flat = values.ravel()
    cells = _first_cells(inner.tobytes()).take(_leading_bits(flat), mode="clip")
    cells, unsure = cells.astype(np.intp), np.flatnonzero(cells < 0)
    cells[unsure] = inner.searchsorted(flat[unsure], side="right")
    return cells.reshape(values.shape)


def counts_within(values, edges) -> NDArray[np.intp]:
    """Count the values in each cell, those beyond the ends in the outer cells."""
    return np.bincount(cell_of(values, edges), minlength=len(edges) - 1)


def _leading_bits(values) -> NDArray[np.uint32]:
    """Sign, exponent and seven digits: numbers of the same are neighbours."""
    with np.errstate(all="ignore"):
        return values.astype(np.float32).view(np.uint32) >> 16


@lru_cache(maxsize=512)
def _first_cells(inner: bytes) -> NDArray[np.signedinteger]:
    """Cell of the numbers of each leading bits, -1 where an edge is among them.

    A binary search for every value would take most of the time of the encoder. Numbers
    above zero grow with their bits, those below fall: cells are runs.
    """
    edges = np.frombuffer(inner) + 0.0  # no edge is a negative zero
    n_edges, half = len(edges), 1 << 15
    bits = _leading_bits(edges).astype(np.intp)
    below, above = bits[edges < 0][::-1] - half, bits[edges >= 0]
    kind = np.min_scalar_type(-n_edges - 1)
    up = np.arange(len(below), n_edges + 1, dtype=kind)
    down = np.arange(len(below), -1, -1, dtype=kind)
    up = up.repeat(np.diff(above, prepend=0, append=half))
    down = down.repeat(np.diff(below, prepend=0, append=half))
    cells = np.stack([up, down])
    cells[:, _INFINITE + 1 :] = n_edges  # no number
    # Zero and the numbers next to it, of either sign, have the same bits.
    cells[:, :_NORMAL] = -1
    cells = cells.ravel()
    cells[bits] = -1
    cells.setflags(write=False)
    return cells


def with_prior(counts, edges, bounds, scale: float) -> NDArray[np.float64]:
    """Add a few records' worth of noise that lie evenly in the public range.

    Where counts are lost in their noise, ranks then follow the range.
    """
    if bounds is None or not scale:
        return counts
    return counts + _PRIOR * scale * np.diff(edges) / (bounds[1] - bounds[0])


def with_shares(counts, shares, scale: float, total: float) -> NDArray[np.float64]:
    """Add records that lie by some released shares, more the more noise there is."""
    return counts + (_DOUBT * scale) ** 2 / total * shares


def capped(counts, share: float, least=0.0) -> NDArray[np.float64]:
    """Lower the counts above a share of their sum, none below `least`.

    All zero become equal.

    >>> from fairpriv_sklearn.preprocessing._ranks import capped
    >>> capped([1.0, 1.0, 1.0, 97.0], 0.4).round().tolist()
    [1.0, 1.0, 1.0, 2.0]
    """
    counts = np.asarray(counts, dtype=np.float64)
    if not counts.any():
        return np.ones(len(counts))
    for _ in range(_CAP_STEPS):
        counts = np.minimum(counts, np.maximum(least, share * counts.sum()))
    return counts


def _least(edges, noise) -> NDArray[np.float64]:
    """What no cell is lowered to less than; that of zero alone needs no room."""
    return np.where(is_zero(edges), 0.0, _LEAST * noise)


def is_zero(edges) -> NDArray[np.bool_]:
    """Whether a cell is that of zero alone."""
    return (edges[:-1] == 0.0) & (edges[1:] == _ABOVE_ZERO)


@dataclass(frozen=True, eq=False)
class RankMap:
    """A value's rank in its column, between 0 and 1; linear inside every cell.

    Parameters
    ----------
    edges : ndarray of shape (m + 1,)
        Increasing.
    cdf : ndarray of shape (m + 1,)
        Rank at each edge, from 0 to 1, not decreasing: the share of the records below,
        atoms shortened.
    atoms : tuple of int, default=()
        Cells of which all values have the middle rank, beside that of zero alone.
    """

    edges: NDArray
    cdf: NDArray
    atoms: tuple = ()

    @classmethod
    def from_counts(cls, edges, counts, *, noise: float = 0.0, atoms=()) -> RankMap:
        """Build the map from counts with noise in the cells; all zero count as equal.

        An atom takes less room than its share, so that the rest of the column stays
        apart: ranks are of the records outside atoms, nearly.
        """
        counts = capped(counts, _WIDTH_CAP, _least(edges, noise))
        cdf = np.concatenate([[0.0], np.cumsum(counts)])
        return cls(edges, cdf / cdf[-1], tuple(atoms))

    def __call__(self, values) -> NDArray[np.float64]:
        """Ranks of values; NaN has the middle rank."""
        given = np.asarray(values, dtype=np.float64)
        knots, shares, slopes = _lines(self)
        ranks = given.ravel().clip(knots[0], knots[-1])
        is_missing = np.isnan(ranks)
        cells = cell_of(ranks, np.append(knots, np.inf))
        # What `np.interp` computes, in a quarter of the time. No cell needs to be
        # clipped: it is the fast way.
        found = knots.take(cells, mode="clip")
        ranks -= found
        ranks *= slopes.take(cells, mode="clip", out=found)
        ranks += shares.take(cells, mode="clip", out=found)
        ranks.clip(0.0, 1.0, out=ranks)
        ranks[is_missing] = 0.5
        return ranks.reshape(given.shape)

    def inverse(self, ranks) -> NDArray[np.float64]:
        """Values of ranks."""
        return np.interp(ranks, self.cdf, self.edges)

    @property
    def is_atom(self) -> NDArray[np.bool_]:
        """Whether all values of a cell have one rank: where they lie is unknown."""
        is_atom = is_zero(self.edges)
        is_atom[list(self.atoms)] = True
        return is_atom

    @property
    def middles(self) -> NDArray[np.float64]:
        """Middle rank of every cell: that of all values in an atom."""
        return (self.cdf[:-1] + self.cdf[1:]) / 2

    def knots(self, cell) -> tuple[int, int]:
        """The first knot of :func:`rank_basis` in a cell, and the first after it."""
        first, end = nearest_knots(self.cdf[cell : cell + 2]).tolist()
        return first, end + (end == N_KNOTS - 1)

    def shares(self, counts) -> NDArray[np.float64]:
        """Shares of the knots of :func:`rank_basis`, given the counts of the cells."""
        is_atom = self.is_atom
        ends = (np.arange(N_KNOTS + 1) - 0.5) / (N_KNOTS - 1)
        cumulated = np.append(0.0, np.cumsum(np.where(is_atom, 0.0, counts)))
        shares = np.diff(np.interp(ends, self.cdf, cumulated))
        # Two atoms may be as narrow as to have one knot.
        np.add.at(shares, nearest_knots(self.middles[is_atom]), counts[is_atom])
        return shares / shares.sum()


@lru_cache(maxsize=512)
def _lines(ranks: RankMap) -> tuple[NDArray, NDArray, NDArray]:
    """Edges, ranks there, and the slopes after them."""
    knots, shares, is_atom = ranks.edges, ranks.cdf.copy(), ranks.is_atom
    with np.errstate(all="ignore"):
        slopes = np.append(np.diff(shares) / np.diff(knots), 0.0)
    slopes[~np.isfinite(slopes)] = 0.0  # a cell of one number
    shares[:-1][is_atom], slopes[:-1][is_atom] = ranks.middles[is_atom], 0.0
    return knots, shares, slopes


def n_coordinates(n_columns: int, signal: float = math.inf) -> int:
    """How many coordinates a number gets: few in wide tables, and where noise reigns.

    Parameters
    ----------
    n_columns : int
        Number of numbers in the table.
    signal : float, default=inf
        Number of records times the Gaussian parameter of the encoder.
    """
    most = max(_MIN_COORDINATES, _ALL_COORDINATES // max(1, n_columns))
    return max(1, int(min(_MAX_COORDINATES, most, signal / _SIGNAL_PER_COORDINATE)))


@lru_cache(maxsize=32)
def rank_basis(n_coordinates: int) -> NDArray[np.float32]:
    r"""Smooth functions of a rank, on a fine grid of ranks.

    .. math:: \phi_k(u) = a_k \cos(\pi k u), \qquad a_k \propto 1 / k, \quad
        \sum_k a_k^2 = 1

    so that no row is longer than 1. They are the eigenfunctions of the kernel
    :math:`\sum_k a_k^2 \cos(\pi k u) \cos(\pi k v)`: weights of equal size, or
    equal noise in each, make a function of one derivative, and the constant is left
    to the intercept.

    Returns
    -------
    table : ndarray of shape (16385, n_coordinates), float32
    """
    ranks = np.linspace(0.0, 1.0, N_KNOTS)
    frequencies = np.arange(1.0, n_coordinates + 1)
    amplitudes = 1 / frequencies
    amplitudes /= np.linalg.norm(amplitudes) * (1 + 1e-12)
    table = np.cos(np.pi * ranks[:, None] * frequencies) * amplitudes
    table = table.astype(np.float32)
    table.setflags(write=False)
    return table


def nearest_knots(ranks) -> NDArray[np.intp]:
    """Rows of the basis that stand for some ranks."""
    return np.rint(ranks * (N_KNOTS - 1)).astype(np.intp)
