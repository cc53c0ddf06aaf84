"""What the noisy gradients ask of private rows: sums in exact integers.

A record with scaled features and the constant of the intercept, z, :math:`|z| \\le R`,
has one bounded slope for each output (one for two classes, else one per class).
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .._shared.arrays import (
    Floats,
    Integers,
    pieces,
    row_slices,
    stretch_triangle,
    unstretch_triangle,
)
from .._shared.sensitivity import rows_changed
from .._training._design import (
    BITS,
    MAX_BLOCK_ROWS,
    UNIT,
    FeatureScaling,
    block_rows,
    dense_block,
    exact_weights,
    from_units,
    to_units,
)
from .._training._penalty import ROUNDING, GroupPenalty
from .._wall import Query, Rows
from ._bounded_slope import (
    LINK_SLOPE,
    SLOPE,
    bounded_slopes,
    largest_slopes,
    shortened,
    slopes_and_links,
)

# Of sums over at most 2**32 records, closed by three roundings, both tables together.
CLOSING = 1e-5

_OF_CHANGES = 0.4  # of the squared sensitivity of a line search
_SEEN = 2.0  # bounds of scores up to which changes of slopes are told apart
_NARROW = 5, 6  # columns of coefficients: of two groups, or three
_MOST_ROWS = 4 * MAX_BLOCK_ROWS  # whose slopes are worked out together: fewer calls
_ONES = np.ones(_MOST_ROWS)  # of no block with more rows there are sums


@dataclass(frozen=True)
class Geometry:
    """Public shape of the rows and of the weights.

    Attributes
    ----------
    n_features : int
    n_outputs : int
        1 for two classes, else the number of classes.
    unit : float
        Power of two: features are the stored rows times this.
    data_norm : float
        Bound of the norm of a row's features.
    constant : float
        Entry of the intercept's column, which no table stores; 0 without intercept.
    """

    n_features: int
    n_outputs: int
    unit: float
    data_norm: float
    constant: float

    @classmethod
    def scaled(cls, scaling: FeatureScaling, n_features: int, n_outputs: int):
        """Of rows by a scaling."""
        constant = scaling.constant if scaling.fit_intercept else 0.0
        return cls(n_features, n_outputs, scaling.unit, scaling.data_norm, constant)

    @property
    def n_columns(self) -> int:
        return self.n_features + (self.constant > 0)

    @property
    def row_norm(self) -> float:
        """Bound R of the norm of a row, the constant included."""
        return math.hypot(self.data_norm, self.constant)

    def scores(self, rows, weights: Floats) -> Floats:
        """Scores of some rows, functions of the row alone; (n_rows, n_outputs)."""
        return self.scores_by(weights)(dense_block(rows))

    def scores_by(self, weights: Floats):
        """Function from dense rows to their scores: weights are rounded once."""
        d = self.n_features
        scaled = exact_weights(weights[:d] * self.unit, self.data_norm / self.unit)
        # As there, what is not a number is 0: it would be an integer that wraps.
        shift = self.constant * np.nan_to_num(weights[-1]) if self.constant else None

        def scores(rows):
            if self.n_outputs == 1:
                found = (rows @ scaled[:, 0])[:, None]
            else:
                found = rows @ scaled
            if shift is not None:
                found += shift
            return found

        return scores

    def sums(self, rows, coefficients: Floats) -> Floats:
        """Sums of integer coefficients times rows, in units of the stored rows."""
        products = np.empty((self.n_columns, *coefficients.shape[1:]))
        own, rows = products[: self.n_features], dense_block(rows)
        if coefficients.shape[-1] in _NARROW:
            own.T[:] = coefficients.T @ rows  # the other way round is slower
        else:
            own[:] = rows.T @ coefficients
        if self.constant:
            products[-1] = _sums_of_columns(coefficients)
        return products

    def in_units(self, sums: Floats) -> Floats:
        """Scale closed sums of features and of the constant."""
        return sums * self._scale

    @cached_property
    def _scale(self) -> Floats:
        scale = np.full((self.n_columns, 1), self.unit)
        if self.constant:
            scale[-1] = self.constant
        return scale


@dataclass(frozen=True)
class _MeanQuery(Query):
    """A sum over rows of this shape, divided by a number of records; both public.

    By default of the rows times slopes, which `slopes_at` tells of scores and a block.
    """

    geometry: Geometry
    n_records: float

    @property
    def block_rows(self) -> int:
        return block_rows(self.geometry.n_features, _MOST_ROWS)

    @cached_property
    def _part_rows(self) -> int:
        """So many that a product with coefficients is exact, and stays in the cache."""
        return block_rows(2 * self.geometry.n_features)

    def value(self, total, state) -> Floats:
        return self.geometry.in_units(from_units(total)) / self.n_records

    def of_block(self, block, state) -> Integers:
        rows = dense_block(block.x)
        slopes = self.slopes_at(self.geometry.scores(rows, state), block)
        return self._exact_sums(rows, _whole(shortened(slopes)))

    def _exact_sums(self, rows, integers: Floats) -> Integers:
        """Sums of whole coefficients, by so many rows that products are exact."""
        if len(integers) <= self._part_rows:
            return to_units(self.geometry.sums(rows, integers) * UNIT)
        parts = row_slices(len(integers), self._part_rows)
        sums = [self.geometry.sums(rows[part], integers[part]) for part in parts]
        return to_units(np.array(sums) * UNIT).sum(axis=1)


@dataclass(frozen=True)
class SecondMoments(_MeanQuery):
    r"""Means of :math:`z z^\top`, without the constant's square, which is public.

    The upper triangle, off-diagonal entries times :math:`\sqrt2`: its norm is the
    Frobenius norm of the matrix.
    """

    name = "second moments"
    theorem = "user_guide/linear_models_proofs:linear-second-moments"

    @property
    def block_rows(self) -> int:
        # Large ones: each closes a whole matrix.
        return min(MAX_BLOCK_ROWS, 8 * block_rows(self.geometry.n_features))

    @property
    def n_coordinates(self) -> int:
        d = self.geometry.n_features
        square = d * (d + 1) // 2
        return square + d if self.geometry.constant else square

    def sensitivity(self, neighboring: str) -> float:
        r"""Return R^2 for one record, and :math:`\sqrt2 R^2` for two."""
        square = self.geometry.row_norm**2 / self.n_records
        return math.sqrt(rows_changed(neighboring)) * square * (1 + CLOSING)

    def of_block(self, block, state) -> Integers:
        rows = dense_block(block.x)
        square = rows.T @ rows
        if hasattr(square, "toarray"):
            square = square.toarray()
        return to_units(np.concatenate([square.ravel(), _sums_of_columns(rows)]))

    def value(self, total, state) -> Floats:
        d, geometry = self.geometry.n_features, self.geometry
        sums = from_units(total) / self.n_records
        square, cross = pieces(sums, (d, d), (d,))
        square = stretch_triangle(square) * geometry.unit**2
        if not geometry.constant:
            return square
        cross = math.sqrt(2) * geometry.constant * geometry.unit * cross
        return np.concatenate([square, cross])

    def matrix(self, released: Floats) -> Floats:
        """The symmetric matrix of (n_columns, n_columns) released numbers."""
        d, constant = self.geometry.n_features, self.geometry.constant
        k = self.geometry.n_columns
        triangle, cross = np.split(released, [d * (d + 1) // 2])
        matrix = np.full((k, k), constant**2)
        matrix[:d, :d] = unstretch_triangle(triangle, d)
        if constant:
            matrix[:d, d] = matrix[d, :d] = cross / math.sqrt(2)
        return matrix


def _whole(coefficients: Floats) -> Floats:
    """Coefficients in whole units of 2**-20, towards zero."""
    units = coefficients * 2.0**BITS
    return np.trunc(units, out=units)


def _sums_of_columns(integers: Floats) -> Floats:
    """Exact sums over a block: a product, as `sum` takes long where rows are short."""
    return _ONES[: integers.shape[0]] @ integers


@dataclass(frozen=True)
class LossGradient(_MeanQuery):
    """Gradient of the weighted mean of the bounded-slope losses.

    Attributes
    ----------
    geometry : Geometry
    n_records : float
        What the sum is divided by.
    class_weights : ndarray of shape (n_classes,)
        Public, at most 1.
    stratum_weights : ndarray of shape (n_strata,) or None
        Public, at most 1.
    """

    name = "gradients"
    theorem = "user_guide/linear_models_proofs:linear-loss"
    largest = SLOPE
    steepness = 0.25

    class_weights: Floats = field(repr=False)
    stratum_weights: Floats | None = field(default=None, repr=False)

    @property
    def n_coordinates(self) -> int:
        return self.geometry.n_columns * self.geometry.n_outputs

    def sensitivity(self, neighboring: str) -> float:
        r"""Half of :math:`\sqrt{\min(K, 2)} R / n` for each record that differs."""
        bound = largest_slopes(self.geometry.n_outputs) * self.geometry.row_norm
        return rows_changed(neighboring) * bound / self.n_records * (1 + CLOSING)

    def slopes_at(self, scores: Floats, block) -> Floats:
        """Weighted slopes of the losses of a block, for some scores."""
        slopes = bounded_slopes(scores, self._is_class(block.y))
        return self._weighted(slopes, block)

    def _is_class(self, y: Integers):
        n_outputs = self.geometry.n_outputs
        return y[:, None] == (np.arange(n_outputs) if n_outputs > 1 else 1)

    @cached_property
    def _weighs_classes(self) -> bool:
        return bool((self.class_weights != 1).any())

    def _weighted(self, slopes: Floats, block) -> Floats:
        if self._weighs_classes:
            slopes *= self.class_weights[block.y][:, None]
        if self.stratum_weights is not None:
            slopes *= self.stratum_weights[block.stratum][:, None]
        return slopes


@dataclass(frozen=True)
class FairGradient(LossGradient):
    """Gradients of loss and penalty and slopes of strata, in multiples of their own.

    The penalty couples the records. The slopes of a stratum are the sum of its records'
    gradients of the outputs: nearly all of the penalty's gradient lies in their span.

    Attributes
    ----------
    multiples : tuple of float
        Of the three, public: how the noise is shared between them. 0 leaves out the
        slopes.
    penalty : GroupPenalty
        Public: its min_sizes, form and directions.
    """

    theorem = "user_guide/linear_models_proofs:linear-penalty"

    multiples: tuple[float, float, float] = (1.0, 1.0, 0.0)
    penalty: GroupPenalty | None = None

    @property
    def block_rows(self) -> int:
        # Long ones, for fewer calls: parts of them are in the cache when they are read.
        return min(_MOST_ROWS, 8 * block_rows(self.geometry.n_features))

    @property
    def max_rows(self) -> int:
        return self.penalty.max_records

    @cached_property
    def n_strata(self) -> int:
        """How many have their slopes told."""
        return math.prod(self.penalty.shape) if self.multiples[2] else 0

    @property
    def n_coordinates(self) -> int:
        return (2 + self.n_strata) * super().n_coordinates

    def sensitivities(self, neighboring: str) -> tuple[float, float, float]:
        """Of the three parts, without their multiples."""
        R, n_outputs = self.geometry.row_norm, self.geometry.n_outputs
        pull = self.penalty.sensitivity(LINK_SLOPE * R, neighboring)
        if self.penalty.directions is None:
            # One penalty per output, averaged: orthogonal parts of the gradient.
            pull /= math.sqrt(n_outputs)
        slopes = LINK_SLOPE * math.sqrt(n_outputs) * R / self.n_records
        slopes *= rows_changed(neighboring)
        return super().sensitivity(neighboring), pull, slopes

    def sensitivity(self, neighboring: str) -> float:
        parts = np.multiply(self.multiples, self.sensitivities(neighboring))
        return math.hypot(*parts.tolist()) * (1 + ROUNDING)

    def of_rows(self, rows: Rows, state) -> Floats:
        # Two passes: the features are not held, and may be larger than the memory.
        n, k = rows.n_rows, self.geometry.n_outputs
        codes = np.empty((n, self.penalty.n_codes or k), dtype=np.uint32)
        stratum = np.empty(n, dtype=np.min_scalar_type(math.prod(self.penalty.shape)))
        slopes, scores = np.empty((n, k)), self.geometry.scores_by(state)
        losses = np.empty((n, k), dtype=np.float32)  # whole numbers, 20 bits
        for part, block in self._blocks(rows):
            loss, outputs, slopes[part] = slopes_and_links(
                self._scores(scores, block.x), self._is_class(block.y)
            )
            losses[part] = _whole(shortened(self._weighted(loss, block)))
            codes[part], stratum[part] = self.penalty.codes(outputs), block.stratum
        pulls = self.penalty.pulls(codes, stratum)
        del codes
        pulls *= slopes
        totals = np.zeros((2, self.geometry.n_columns, self._n_sums), dtype=np.int64)
        for part, block in self._blocks(rows.only("x")):
            coefficients = self._side_by_side(
                losses[part], slopes[part], stratum[part], pulls[part]
            )
            totals += self._exact_sums(block.x, coefficients)
        sums, end = from_units(totals), self._n_alone
        alone = self.geometry.in_units(sums[:, :end]) / self.n_records
        # The second digit counts 2**20 times less.
        coupled = sums[:, end : end + k] + sums[:, end + k : end + 2 * k] * UNIT
        coupled = self.geometry.in_units(coupled) * self._unit
        of_loss, of_penalty, of_slopes = self.multiples
        loss, slopes = alone[:, :k] * of_loss, alone[:, k:] * of_slopes
        return np.concatenate([loss, coupled * of_penalty, slopes], axis=1)

    def _scores(self, scores, rows) -> Floats:
        """Scores of a block, part by part."""
        size = block_rows(self.geometry.n_features, _MOST_ROWS)
        parts = row_slices(max(1, rows.shape[0]), size)
        found = [scores(dense_block(rows[part])) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _blocks(self, rows: Rows):
        rest = range(rows.n_rows)
        for block in rows.blocks(self.block_rows):
            part, rest = rest[: block.n_rows], rest[block.n_rows :]
            yield slice(part.start, part.stop), block

    def parts(self, released: Floats) -> tuple[Floats, Floats, Floats]:
        """Gradients of loss and penalty, and slopes (n_columns, n_strata * n_outputs).

        The outputs of a stratum stand side by side.
        """
        k = self.geometry.n_outputs
        of_loss, of_penalty, of_slopes = self.multiples
        loss, released = released[:, :k] / of_loss, released[:, k:]
        return loss, released[:, :k] / of_penalty, released[:, k:] / of_slopes

    def relative_noise(self, weight: float) -> float:
        """Noise of a gradient of both in one column, relative to what is released.

        The penalty's is left where its pulls are.
        """
        of_loss, of_penalty, _ = self.multiples
        d = self.geometry.n_columns
        in_pulls = min(1.0, self.n_strata / d) if self.n_strata else 1.0
        return math.hypot(
            (1 - weight) / of_loss, weight / of_penalty * math.sqrt(in_pulls)
        )

    def _side_by_side(self, loss: Floats, slopes: Floats, stratum, pulls) -> Floats:
        """Whole coefficients: loss, slopes by the record's stratum, digits of pulls."""
        k, end = self.geometry.n_outputs, self._n_alone
        found = np.empty((len(loss), self._n_sums), order="F")
        found[:, :k], found[:, end + 2 * k :] = loss, 0.0
        slopes = _whole(slopes)
        for own in range(self.n_strata):
            at = (1 + own) * k
            np.multiply(slopes, (stratum == own)[:, None], out=found[:, at : at + k])
        self._digits(pulls, found[:, end : end + k], found[:, end + k : end + 2 * k])
        return found

    @cached_property
    def _n_alone(self) -> int:
        """Columns of loss and slopes."""
        return (1 + self.n_strata) * self.geometry.n_outputs

    @cached_property
    def _n_sums(self) -> int:
        """Those and two digits; else a multiple of four: products are faster so."""
        n_sums = self._n_alone + 2 * self.geometry.n_outputs
        return n_sums if n_sums in _NARROW else 4 * math.ceil(n_sums / 4)

    @cached_property
    def _unit(self) -> float:
        """A power of two that no coefficient of the penalty exceeds."""
        return 2.0 ** math.ceil(math.log2(LINK_SLOPE * self.penalty.largest_pull))

    def _digits(self, pulls: Floats, first: Floats, second: Floats) -> None:
        """The penalty's coefficients, to multiples of 2**-40 of their unit.

        In two digits; none is larger than the unit.
        """
        np.multiply(pulls, 2.0**BITS / self._unit, out=second)
        if not np.abs(second, out=first).max(initial=0.0) <= 2.0**BITS:
            np.clip(second, -(2.0**BITS), 2.0**BITS, out=second)
        np.rint(second, out=first)
        np.subtract(second, first, out=second)
        second *= 2.0**BITS
        np.rint(second, out=second)


@dataclass(frozen=True)
class ResidualGradient(_MeanQuery):
    """Gradient of the mean of squared losses whose residual is cut off (Huber's).

    Attributes
    ----------
    geometry : Geometry
    n_records : float
    largest : float
        Where residuals of the scaled target are cut off.
    center, width : float
        Released numbers that scale the target once more.
    """

    name = "gradients"
    theorem = "user_guide/linear_models_proofs:linear-loss"
    steepness = 1.0

    largest: float
    center: float = 0.0
    width: float = 1.0

    @property
    def n_coordinates(self) -> int:
        return self.geometry.n_columns

    def sensitivity(self, neighboring: str) -> float:
        """Largest residual times R / n for each record that differs."""
        bound = self.largest * self.geometry.row_norm
        return rows_changed(neighboring) * bound / self.n_records * (1 + CLOSING)

    def slopes_at(self, scores: Floats, block) -> Floats:
        """Bounded residuals, the slopes of the losses of a block, for some scores."""
        target = (block.y - self.center) / self.width
        residuals = scores - np.clip(target, -1.0, 1.0)[:, None]
        return np.clip(residuals, -self.largest, self.largest, out=residuals)


@dataclass(frozen=True)
class MeanResidual(_MeanQuery):
    """Mean of bounded residuals: by how much predictions are off as a whole.

    Attributes
    ----------
    geometry : Geometry
    n_records : float
    low, high : float
        Not above and not below 0: where the scaled target is cut off, and residuals
        as those of a prediction of 0.
    center, width : float
        Released numbers that scale the target once more.
    """

    name = "mean residual"
    theorem = "user_guide/linear_models_proofs:linear-constant"
    n_coordinates = 1

    low: float = -1.0
    high: float = 1.0
    center: float = 0.0
    width: float = 1.0

    def sensitivity(self, neighboring: str) -> float:
        """The residuals' range / n for two records, the largest one / n for one."""
        is_one = rows_changed(neighboring) == 1
        bound = max(self.high, -self.low) if is_one else self.high - self.low
        return bound / self.n_records * (1 + CLOSING)

    def of_block(self, block, state) -> Integers:
        target = np.clip((block.y - self.center) / self.width, self.low, self.high)
        residuals = self.geometry.scores(block.x, state) - target[:, None]
        residuals = _whole(np.clip(residuals, -self.high, -self.low))
        return _sums_of_columns(residuals).astype(np.int64)

    def value(self, total, state) -> Floats:
        return total * UNIT / self.n_records


@dataclass(frozen=True)
class AlongSlopes(Query):
    r"""How fast the mean loss falls along given slopes, and how its derivative changes.

    Attributes
    ----------
    loss : LossGradient or ResidualGradient
        Whose slopes are meant.
    bounds : ndarray of shape (n_outputs,)
        Public, where scores are cut off as weights.
    steps : ndarray of shape (n_outputs,)
        Public, how far to look.
    """

    name = "line search"
    theorem = "user_guide/linear_models_proofs:linear-line-search"

    loss: LossGradient | ResidualGradient
    bounds: Floats = field(repr=False)
    steps: Floats = field(repr=False)

    @property
    def block_rows(self) -> int:
        return self.loss.block_rows

    @property
    def n_coordinates(self) -> int:
        return 2 * self.loss.geometry.n_outputs

    def sensitivity(self, neighboring: str) -> float:
        """Products of one record lie in a box; of two, twice as far apart only in one.

        Those of the first kind have both signs, those of the second are positive.
        """
        own = (
            (1 - _OF_CHANGES) + 4 * _OF_CHANGES if rows_changed(neighboring) == 1 else 4
        )
        return math.sqrt(own) / self.loss.n_records * (1 + CLOSING)

    @property
    def _multiples(self) -> tuple[float, Floats, Floats]:
        """Of both kinds, and the largest change of a slope that is counted."""
        loss, n_outputs = self.loss, self.loss.geometry.n_outputs
        changes = loss.steepness * self.steps * self.bounds * _SEEN
        changes = np.minimum(2 * loss.largest, changes)
        first = math.sqrt((1 - _OF_CHANGES) / n_outputs) / loss.largest
        return first, 2 * math.sqrt(_OF_CHANGES / n_outputs) / changes, changes

    def of_block(self, block, state) -> Integers:
        weights, start = state
        scores = self.loss.geometry.scores(block.x, weights)
        own = np.clip(scores, -self.bounds, self.bounds) / self.bounds
        there = self.loss.slopes_at(start + self.steps * scores, block)
        slopes = self.loss.slopes_at(start + 0.0 * scores, block)
        first, second, largest = self._multiples
        # Slopes do not decrease: what rounding says against that is left out.
        changes = np.clip((there - slopes) * own, 0.0, largest)
        found = np.hstack([slopes * own * first, changes * second])
        return _sums_of_columns(_whole(found)).astype(np.int64)

    def value(self, total, state) -> Floats:
        return total * UNIT / self.loss.n_records

    def told(self, released: Floats, noise: float) -> tuple[Floats, ...]:
        """How fast the loss falls, its curvature, and the noise of both."""
        first, second, _ = self._multiples
        falls, bends = np.split(released, 2)
        first, second = self.bounds / first, self.bounds / (second * self.steps)
        return -falls * first, bends * second, noise * first, noise * second
