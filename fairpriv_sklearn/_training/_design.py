"""Public scaling of the features, and sums over records that are exact.

A proof of sensitivity speaks of sums of real numbers. Here the computer's sums are
those: features and per-record coefficients are rounded to public binary grids, so
coarse that every product and every partial sum is a multiple of the grid below
2**53 grid units. Then float64 rounds nowhere, whatever the order of summation, the
block size or the memory layout, and the fastest matrix product is as good as any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._shared.arrays import Floats, row_slices
from .._wall import rows_of

BITS = 20
UNIT = 2.0**-BITS
"""Grid of the scaled features and of the per-record coefficients, both in [-1, 1]."""

# 2**12 products of two 20-bit numbers stay below 2**52 grid units.
MAX_BLOCK_ROWS = 1 << 12
_LARGE = 1 << 21  # entries of a table whose memory counts
# Smaller blocks keep a block's second use in the cache.
BLOCK_ENTRIES = 1 << 18
_SCALED_ENTRIES = 1 << 15  # of rows that are scaled together
_TOGETHER = 1 << 10  # entries that have their bounds side by side: loops are long


def default_data_norm(n_features: int) -> float:
    """Norm that a row of independent uniform features rarely exceeds.

    The squared norm of `n_features` uniform variables on [-1, 1] has mean d/3 and
    standard deviation 0.298 sqrt(d); this is two standard deviations above the mean,
    at most the norm sqrt(d) of a corner.
    """
    d = n_features
    return math.sqrt(min(d, d / 3 + 0.6 * math.sqrt(d)))


@dataclass(frozen=True)
class FeatureScaling:
    """Map features to bounded rows on a grid; public, nothing is fitted on data.

    Attributes
    ----------
    low, high : ndarray of shape (n_features,) or None
        Bounds; features are clipped to them, centred and scaled to [-1, 1]. None
        takes the features as they are.
    data_norm : float
        Bound of the Euclidean norm of the scaled rows; longer rows are shortened.
    fit_intercept : bool
        Whether a constant column is appended.
    intercept : float, default=1.0
        The constant, in (0, 1]; it counts in the norm of a row.
    """

    low: Floats | None
    high: Floats | None
    data_norm: float
    fit_intercept: bool = True
    intercept: float = 1.0

    @property
    def center(self) -> Floats | float:
        return 0.0 if self.low is None else self.low / 2 + self.high / 2

    @property
    def half_width(self) -> Floats | float:
        if self.low is None:
            return 1.0
        half_width = self.high / 2 - self.low / 2
        # The centre is rounded: where bounds are close to each other, one is further.
        reach = np.maximum(self.high - self.center, self.center - self.low)
        # A feature known to be constant becomes zero, whatever it is divided by.
        return np.where(half_width > 0, np.maximum(half_width, reach), 1.0)

    @property
    def unit(self) -> float:
        """Power of two that no scaled coordinate exceeds."""
        largest = self.data_norm if self.low is None else min(1.0, self.data_norm)
        return 2.0 ** math.ceil(math.log2(largest))

    @property
    def row_norm(self) -> float:
        """Bound R of the norm of a row, the constant column included."""
        return math.hypot(self.data_norm, self.fit_intercept * self.constant)

    @property
    def constant(self) -> float:
        """Entry of the constant column, on the grid and not zero."""
        return max(1, math.trunc(self.intercept / UNIT)) * UNIT

    def design(self, X, *, exact: bool = True) -> Design:
        """Scale, clip and, if `exact`, round the rows of `X`."""
        norm = self.data_norm / self.unit
        if is_coded(X):
            return Design(_CodedRows(self, X), np.full(X.shape[1], self.unit))
        rows = self._sparse_rows if sparse.issparse(X) else self._dense_rows
        scale = np.full(X.shape[1] + self.fit_intercept, self.unit)
        if self.fit_intercept:
            scale[-1] = 1.0
        return Design(rows(X, norm, exact), scale)

    def within(self, center: Floats, width: Floats) -> FeatureScaling:
        """The same by narrower bounds.

        Parameters
        ----------
        center, width : ndarray of shape (n_features,)
            Middles and half widths of parts of [-1, 1], all of it where the width is 1.
        """
        middle, whole = self.center + center * self.half_width, width == 1.0
        half = width * self.half_width
        # Rounding leaves no part beyond the whole.
        low, high = np.clip([middle - half, middle + half], self.low, self.high)
        low, high = np.where(whole, self.low, low), np.where(whole, self.high, high)
        return replace(self, low=low, high=high)

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Turn weights of scaled features into those of the original features.

        Parameters
        ----------
        weights : ndarray of shape (n_features + fit_intercept, n_outputs)

        Returns
        -------
        coef : ndarray of shape (n_outputs, n_features)
        intercept : ndarray of shape (n_outputs,)
        """
        n_features = len(weights) - self.fit_intercept
        coef = weights[:n_features].T / self.half_width
        intercept = np.zeros(len(coef))
        if self.fit_intercept:
            intercept = weights[-1] * self.constant
        shift = coef @ np.broadcast_to(self.center, n_features)
        return coef, intercept - shift

    def _dense_rows(self, X, norm: float, exact: bool) -> NDArray:
        if exact and X.dtype == np.float32 and self.low is None and self.unit == 1.0:
            return self._narrow_rows(X, norm)
        n, d = X.shape
        # float32 holds the grid as well; small tables stay as they are, for speed.
        dtype = np.float32 if exact and X.size > _LARGE else X.dtype
        rows = np.empty((n, d + self.fit_intercept), dtype=dtype)
        together = self._bounds_of_several[0]
        size = together * max(1, _SCALED_ENTRIES // max(together * d, 1))
        # Arrays that are used again: new ones would take longer than the arithmetic.
        scaled, spare = np.zeros((2, min(size, together * -(-n // together)), d))
        with np.errstate(all="ignore"):
            for block in row_slices(n, size):
                own = scaled[: block.stop - block.start]
                # The norm of a row must not depend on the memory layout.
                own[:] = X[block]
                several = slice(together * -(-len(own) // together))
                self._scale(scaled[several], spare[several], norm, exact)
                rows[block, :d], rows[block, d:] = own, self.constant
        return rows

    @cached_property
    def _bounds_of_several(self) -> tuple:
        """A number of rows, and low, high, center and half width side by side for them.

        For long loops. Of two rows at least: one alone, if long, is summed in another
        order.
        """
        if self.low is None:
            return (2,)
        together = max(2, _TOGETHER // max(1, len(self.low)))
        bounds = self.low, self.high, self.center, self.half_width
        return together, *(np.tile(one, together) for one in bounds)

    def _narrow_rows(self, X, norm: float) -> NDArray:
        """The same of rows in float32, which holds what they become.

        Rows that are short as they are need no more than truncation.
        """
        n, d = X.shape
        rows = np.empty((n, d + self.fit_intercept), dtype=np.float32)
        rows[:, d:] = self.constant
        # In float32 a sum of d squares errs by d 2**-24 / (1 - d 2**-24) of it at most.
        short = (norm * 2.0**BITS) ** 2 * (1 - d * 2.0**-23)
        size = max(1, BLOCK_ENTRIES // max(d, 1))
        for block in row_slices(n, size):
            given, own = X[block], rows[block, :d]
            with np.errstate(all="ignore"):
                np.multiply(given, np.float32(2.0**BITS), out=own)
                np.trunc(own, out=own)
                squares = np.einsum("ij,ij->i", own, own)
                own *= np.float32(UNIT)
            others = np.flatnonzero(~(squares < short))
            if others.size:
                wide = given[others].astype(np.float64)
                own[others] = self._dense_rows(wide, norm, exact=True)[:, :d]
        return rows

    def _scale(self, rows, spare, norm: float, exact: bool) -> None:
        """Scale, shorten and round a few rows in place."""
        if self.low is None:
            _shorten(rows, np.abs(rows, out=spare).max(axis=1), self.unit)
        else:
            together, low, high, center, half_width = self._bounds_of_several
            side_by_side = rows.reshape(len(rows) // together, -1)
            # What clip does, which in NumPy 2.0 takes twice as long.
            np.maximum(side_by_side, low, out=side_by_side)
            np.minimum(side_by_side, high, out=side_by_side)
            side_by_side -= center
            side_by_side /= half_width
        if self.unit != 1.0:
            rows /= self.unit
        if exact:
            rows *= 2.0**BITS
            np.trunc(rows, out=rows)
        in_units = 2.0**BITS if exact else 1.0
        sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows)) / in_units
        # Squares of finite rows are: they are not large any more.
        is_lost = ~np.isfinite(sizes)
        if is_lost.any():
            rows[is_lost], sizes[is_lost] = 0.0, 0.0
        _shorten(rows, sizes, norm, truncate=exact)
        if exact:
            rows *= UNIT

    def _sparse_rows(self, X, norm: float, exact: bool) -> sparse.csr_array:
        X = sparse.csr_array(X, dtype=np.float64, copy=True)
        with np.errstate(all="ignore"):
            X.sum_duplicates()
            lengths = np.diff(X.indptr)
            row_of = np.repeat(np.arange(X.shape[0]), lengths)
            data = X.data
            data[np.isin(row_of, row_of[~np.isfinite(data)])] = 0.0
            if self.low is None:
                largest = np.zeros(X.shape[0])
                np.maximum.at(largest, row_of, np.abs(data))
                data = data * _factors(largest, self.unit)[row_of]
            else:
                columns = X.indices
                data = np.clip(data, self.low[columns], self.high[columns])
                data /= self.half_width[columns]
            data /= self.unit
            if exact:
                data = np.trunc(data * 2.0**BITS) * UNIT
            # bincount adds a row's entries in their order, whatever the other rows.
            squares = np.bincount(row_of, data * data, minlength=X.shape[0])
            data *= _factors(np.sqrt(squares), norm)[row_of]
            if exact:
                data = np.trunc(data * 2.0**BITS) * UNIT
        X.data = data
        if self.fit_intercept:
            column = sparse.csr_array(np.full((X.shape[0], 1), self.constant))
            X = sparse.hstack([X, column], format="csr")
        return X


@dataclass(frozen=True)
class Design:
    """Rows of bounded norm, ready for exact products.

    Attributes
    ----------
    rows : {ndarray, csr_array} of shape (n_rows, n_columns)
        Multiples of 2**-20 in [-1, 1]; if not rounded, arbitrary numbers.
    scale : ndarray of shape (n_columns,)
        Powers of two: the record's scaled features are ``rows * scale``.
    """

    rows: NDArray | sparse.csr_array
    scale: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape

    def scores(self, weights: Floats) -> Floats:
        """Scores of all rows: shape (n_rows,) or (n_rows, n_outputs), as weights."""
        scores = np.empty((self.shape[0], *weights.shape[1:]))
        for part, _, own in self.scored(weights):
            scores[part] = own
        return scores

    def scored(self, weights: Floats) -> Iterator[tuple[slice, NDArray, Floats]]:
        """Which rows are a block, the block itself, and its scores."""
        scale = self.scale if weights.ndim == 1 else self.scale[:, None]
        scaled = scale * weights
        for part, rows in self._blocks():
            yield part, rows, rows @ scaled

    def sums(self, coefficients: Floats) -> Floats:
        """Sum over records of coefficient times features, as floats add up.

        Parameters
        ----------
        coefficients : ndarray of shape (n_rows,) or (n_rows, n_outputs)

        Returns
        -------
        sums : ndarray of shape (n_columns,) or (n_columns, n_outputs)
        """
        return self.added(
            ((rows, coefficients[part]) for part, rows in self._blocks()),
            coefficients.shape[1:],
        )

    def added(self, blocks: Iterator, shape: tuple) -> Floats:
        """The same of blocks with their coefficients, for outputs of this shape."""
        total = np.zeros((*shape, self.shape[1]))
        for rows, coefficients in blocks:
            total += coefficients.T @ rows
        return (total * self.scale).T

    def added_exactly(self, blocks: Iterator, shape: tuple) -> Floats:
        """The same of rounded rows and coefficients, without any other rounding.

        Coefficients in [-1, 1] are rounded to the nearest multiple of 2**-40; the exact
        sum for these is rounded once.
        """
        shape = (*shape, self.shape[1])
        totals = np.zeros((2, 2, *shape), dtype=np.int64)  # of two digits, two halves
        for rows, coefficients in blocks:
            units = coefficients * 2.0**BITS
            first = np.rint(units)
            second = np.rint((units - first) * 2.0**BITS)
            # Scaling by a power of two is exact, and cheaper after the product.
            totals[0] += to_units(first.T @ rows * UNIT)
            totals[1] += to_units(second.T @ rows * UNIT)
        first, second = map(from_units, totals)
        return ((first + second * UNIT) * self.scale).T

    def _blocks(self) -> Iterator[tuple[slice, NDArray]]:
        """Rows as float64, as many at once as an exact sum can hold."""
        for part in row_slices(self.shape[0], block_rows(self.shape[1])):
            yield part, dense_block(self.rows[part])


def is_coded(X) -> bool:
    """Whether a table holds the codes of an encoder, and rows are made of them."""
    return hasattr(type(X), "on_grid")  # a frame may have such a column


class _CodedRows:
    """Rows of a design that are made where they are read: never there all at once."""

    def __init__(self, scaling: FeatureScaling, table):
        self._scaling, self._table, self.values = scaling, table, table.codes
        self.shape = table.shape

    def rows_at(self, rows) -> NDArray:
        """Some of the rows, scaled and rounded."""
        table, scaling = self._table.rows_at(rows), self._scaling
        if scaling.low is None and scaling.data_norm == 1.0:
            return table.on_grid(UNIT)  # no row is longer than 1
        return scaling.design(np.asarray(table)).rows


class MadeRows:
    """Rows that are made where they are read: no copy of a large table is held.

    Subclasses say by `_made` what rows become, each a function of the row alone.
    """

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __len__(self) -> int:
        return self.shape[0]

    @cached_property
    def _small(self) -> NDArray | None:
        """All of them where memory does not count, as training reads them often."""
        if math.prod(self.shape) > _LARGE:
            return None
        rows = self._made(slice(None))
        rows.flags.writeable = False
        return rows

    def rows_at(self, rows) -> NDArray:
        """Some of the rows."""
        return self._made(rows) if self._small is None else rows_of(self._small, rows)


class ScaledRows(MadeRows):
    """Rows of a table, scaled and clipped by the public bounds, on the grid."""

    def __init__(self, X, scaling: FeatureScaling):
        super().__init__(X)
        self._scaling = scaling

    def _made(self, rows) -> NDArray:
        design = self._scaling.design(self.values[rows])
        rows = dense_block(design.rows)
        return rows if self._scaling.unit == 1.0 else rows * design.scale


def to_units(sums: Floats) -> NDArray[np.int64]:
    """Block sums, multiples of 2**-40 below 2**13, as two halves of exact integers.

    An int64 holds the sum of either half over 2**30 blocks.
    """
    integers = (sums * 2.0 ** (2 * BITS)).astype(np.int64)
    halves = np.empty((2, *integers.shape), dtype=np.int64)
    np.right_shift(integers, BITS, out=halves[0])
    np.bitwise_and(integers, (1 << BITS) - 1, out=halves[1])
    return halves


def from_units(total: NDArray[np.int64]) -> Floats:
    """The numbers that the parts stand for, units of 2**-20, 2**-40 and so on."""
    numbers = total[0] * UNIT
    for place in range(1, len(total)):
        numbers += total[place] * UNIT ** (1 + place)
    return numbers


def block_rows(n_columns: int, most: int = MAX_BLOCK_ROWS) -> int:
    """Rows of a block that stays in the cache; of `MAX_BLOCK_ROWS` sums are exact."""
    return min(most, max(256, BLOCK_ENTRIES // max(n_columns, 1)))


def dense_block(rows):
    """Rows as float64; float32 holds the grid as well."""
    return rows if rows.dtype == np.float64 else rows.astype(np.float64)


def exact_weights(weights: Floats, norm: float) -> Floats:
    """Round weights so that scores of rows of norm at most `norm` are exact.

    The integers k of a row and W of the weights satisfy
    sum |k_j W_j| <= |k| |W| <= 2**20 (norm + 1) |W| < 2**53.
    """
    size = math.sqrt(np.square(weights).sum()) * (norm + 1)
    if not 0 < size < math.inf:
        return np.zeros_like(weights)
    grid = 2.0 ** (math.ceil(math.log2(size)) - 32)
    return np.rint(weights / grid) * grid


def _factors(sizes: Floats, bound: float) -> Floats:
    """Factors that bring sizes down to a bound; 1 where they are below it.

    A billionth is given away so that rounding in the factor cannot exceed the bound.
    """
    factors = np.ones(len(sizes))
    np.divide(bound * (1 - 1e-9), sizes, out=factors, where=sizes > bound)
    return factors


def _shorten(rows: Floats, sizes: Floats, bound: float, *, truncate=False) -> None:
    """Bring rows of these sizes down to a bound."""
    (long,) = (sizes > bound).nonzero()
    if not long.size:
        return
    are_few = 4 * long.size < len(rows)
    some, sizes = (rows[long], sizes[long]) if are_few else (rows, sizes)
    some *= _factors(sizes, bound)[:, None]
    if truncate:  # which shortens a row: its norm stays below the bound
        np.trunc(some, out=some)
    if are_few:
        rows[long] = some
