"""Noisy second moments of bounded records, and a ridge regression from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._shared.arrays import Floats, pieces, stretch_triangle, unstretch_triangle
from .._training._design import UNIT, block_rows, dense_block, from_units, to_units
from .._wall import Query

# Of the sums over at most 2**32 records, relative to the sensitivity.
ROUNDING = 1e-5


@dataclass(frozen=True)
class MomentRelease(Query):
    r"""Second moments of features and target.

    A record with scaled features u, :math:`|u| \le \rho`, and scaled target y in
    [-1, 1] contributes

    .. math::
        v = \big(\operatorname{svec}(u u^\top) / \rho^2,\ u / \rho,\
            \kappa\,y u / \rho,\ y,\ [1]\big),

    where svec lists the upper triangle with off-diagonal entries times sqrt(2), so
    that its norm is the Frobenius norm of the matrix. The 1 is there under add/remove
    only, where the number of records is private.

    Attributes
    ----------
    n_features : int
    data_norm : float
        rho.
    unit : float
        Power of two: the features are the rows times this.
    counted : bool
        Whether the number of records is released too.
    emphasis : float
        kappa: how much less noise the products of features and target get.
    """

    name = "second moments of features and target"
    theorem = "user_guide/linear_models_proofs:linear-moments"

    n_features: int
    data_norm: float
    unit: float
    counted: bool
    emphasis: float = 1.5

    @property
    def block_rows(self) -> int:
        return block_rows(self.n_features)

    @property
    def n_coordinates(self) -> int:
        d = self.n_features
        return d * (d + 1) // 2 + 2 * d + 1 + self.counted

    def sensitivity(self, neighboring: str) -> float:
        r"""Euclidean sensitivity of the sum of the v.

        Removing a record changes the sum by :math:`|v| \le \sqrt{3 + \kappa^2}`.
        Replacing one changes it by the square root of :math:`|v|^2 + |v'|^2 - 2 v
        \cdot v'`, where with :math:`s = u \cdot u' / \rho^2` and :math:`q = y y'` in
        [-1, 1]

        .. math:: v \cdot v' = s^2 + (1 + \kappa^2 q) s + q,

        linear in q and quadratic in s: its minimum is at q = 1 or -1 and at the
        vertex of a parabola or an end.
        """
        square = 2 + self.emphasis**2 + 1
        if neighboring == "add_remove":
            return math.sqrt(square + 1) * (1 + ROUNDING)
        smallest = min(
            s**2 + (1 + self.emphasis**2 * q) * s + q
            for q in (-1.0, 1.0)
            for s in (-1.0, min(1.0, max(-1.0, -(1 + self.emphasis**2 * q) / 2)), 1.0)
        )
        return math.sqrt(2 * square - 2 * smallest) * (1 + ROUNDING)

    def of_block(self, block, state) -> NDArray[np.int64]:
        """Sums of u u', u, y u, y and 1 in units of 2**-40."""
        u, y = dense_block(block.x), block.y
        pairs = np.stack([np.ones(len(y)), y])
        square = u.T @ u
        if hasattr(square, "toarray"):
            square = square.toarray()
        counts = [y.sum(), float(len(y))]
        sums = [square.ravel(), np.asarray(pairs @ u).ravel(), counts]
        return to_units(np.concatenate(sums))

    def value(self, total, state) -> Floats:
        """The vector v, from the exact sums."""
        d = self.n_features
        shapes = (d, d), (d,), (d,), (), ()
        second, features, products, targets, n = pieces(from_units(total), *shapes)
        # Rows are stored in units of a power of two.
        unit = self.unit / self.data_norm
        parts = [
            stretch_triangle(second) * unit**2,
            features * unit,
            products * unit * self.emphasis,
            [targets],
        ]
        return np.concatenate([*parts, [n]] if self.counted else parts)

    def unpack(self, released: Floats, n_records: float | None) -> Moments:
        """Means out of the released sums; `n_records` if that is public."""
        d = self.n_features
        if self.counted:
            n_records = max(1.0, released[-1])
        shapes = (d * (d + 1) // 2,), (d,), (d,), ()
        triangle, features, products, square = pieces(released / n_records, *shapes)
        second = unstretch_triangle(triangle, d)
        products /= self.emphasis
        return Moments(second, features, products, float(square), n_records)


@dataclass(frozen=True)
class Moments:
    """Noisy means of u u', u, y u and y, for features divided by their norm bound."""

    second: Floats
    features: Floats
    products: Floats
    target: float
    n_records: float


def ridge_from_moments(
    moments: Moments,
    *,
    noise: float,
    emphasis: float,
    alpha: float | None,
    fit_intercept: bool = True,
) -> tuple[Floats, float]:
    r"""Ridge regression from noisy moments.

    Parameters
    ----------
    moments : Moments
    noise : float
        Standard deviation of the noise in the released means.
    emphasis : float
        The noise in `products` is smaller by this factor.
    alpha : float or None
        Ridge penalty of the sum of squares. None picks the one with the smallest
        estimate of the squared error, the noise taken into account; where no penalty
        promises to be better than the mean, the weights are zero.
    fit_intercept : bool, default=True

    Returns
    -------
    weights : ndarray of shape (n_features,)
    intercept : float
    """
    mean, target = moments.features, moments.target
    if not fit_intercept:
        mean, target = np.zeros_like(mean), 0.0
    covariance = moments.second - np.outer(mean, mean)
    products = moments.products - mean * target
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)  # noise may have made some negative
    rotated = vectors.T @ products
    if alpha is not None:
        weights = _divide(rotated, values + alpha / moments.n_records)
    elif noise == 0:
        # Directions of which only the rounding of rows tells are none.
        cutoff = len(values) * UNIT**2 * values.max()
        weights = np.where(values > cutoff, _divide(rotated, values), 0.0)
    else:
        weights = _best_ridge(values, rotated, noise, noise / emphasis)
    weights = vectors @ weights
    return weights, float(target - mean @ weights)


def _best_ridge(values, rotated, matrix_noise, vector_noise):
    """Weights in the eigenbasis with the smallest estimate of the squared error.

    For weights w = b / (a + r) the error relative to the mean is w'Aw - 2 w'b. Its
    estimate from noisy b is too small by 2 var(b) / (a + r) per direction, which is
    added; and a is raised by the noise of a quadratic form, so that directions that
    may owe their size to noise are not trusted.
    """
    floor = matrix_noise * math.sqrt(2 * len(values))
    ridges = floor * 2.0 ** np.arange(-2, 24)
    shrunk = rotated / (values + ridges[:, None])
    errors = (values + floor / 2) * shrunk**2 - 2 * shrunk * rotated
    errors += 2 * vector_noise**2 / (values + ridges[:, None])
    errors = errors.sum(axis=1)
    best = errors.argmin()
    return shrunk[best] if errors[best] < 0 else np.zeros_like(rotated)


def _divide(numerator, denominator):
    return np.divide(
        numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0
    )
