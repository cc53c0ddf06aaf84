"""Ridge regression without noise, from sums over blocks of records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpriv_sklearn._shared.arrays import Floats, pieces
from fairpriv_sklearn._training._design import (
    UNIT,
    block_rows,
    dense_block,
    from_units,
    to_units,
)
from fairpriv_sklearn._wall import Query


@dataclass(frozen=True)
class LeastSquares(Query):
    """Second moments of features and target, for fits that claim nothing.

    Attributes
    ----------
    n_features : int
    unit : float
        Power of two: the features are the rows times this.
    """

    name = "second moments of features and target"
    theorem = "user_guide/linear_models:without-noise"

    n_features: int
    unit: float

    @property
    def block_rows(self) -> int:
        return block_rows(self.n_features)

    @property
    def n_coordinates(self) -> int:
        return self.n_features**2 + 2 * self.n_features + 1

    def sensitivity(self, neighboring: str) -> float:
        return 1.0  # of no use: there is no noise

    def of_block(self, block, state) -> NDArray[np.int64]:
        """Sums of u u', u, y u and y in units of 2**-40."""
        u, y = dense_block(block.x), block.y
        square = u.T @ u
        if hasattr(square, "toarray"):
            square = square.toarray()
        products = np.stack([np.ones(len(y)), y]) @ u
        sums = [square.ravel(), np.asarray(products).ravel(), [y.sum()]]
        return to_units(np.concatenate(sums))

    def value(self, total, state) -> Floats:
        """The sums as numbers."""
        return from_units(total)

    def solved(
        self, sums: Floats, n_records: int, alpha: float, fit_intercept: bool
    ) -> tuple[Floats, float]:
        """Weights of the scaled features with the least squares, and the intercept.

        Of several the shortest; `alpha` times their square is added.
        """
        d = self.n_features
        second, mean, products, target = pieces(
            sums / n_records, (d, d), (d,), (d,), ()
        )
        mean, products = mean * self.unit, products * self.unit
        covariance = second * self.unit**2 + alpha / n_records * np.eye(d)
        if not fit_intercept:
            mean, target = np.zeros(d), 0.0
        covariance -= np.outer(mean, mean)
        # Directions of which only the rounding of rows tells are none.
        inverse = np.linalg.pinv(covariance, d * UNIT**2, hermitian=True)
        weights = inverse @ (products - mean * target)
        return weights, float(target - mean @ weights)
