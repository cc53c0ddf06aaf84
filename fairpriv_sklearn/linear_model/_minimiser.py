"""Regularised logistic regression, solved until its error is certified.

References
----------
.. [1] K. Chaudhuri, C. Monteleoni, A. D. Sarwate. "Differentially Private Empirical
   Risk Minimization". Journal of Machine Learning Research 12, 2011.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit

from .._shared.arrays import Floats
from .._shared.rowwise import row_softmax
from .._training._design import UNIT, Design

# Solver tolerance relative to the largest gradient of one record.
TOLERANCE = 1e-4
ROUNDOFF = 2.0**-53


def rounding_bound(
    n_records: int, n_columns: int, n_outputs: int, row_norm: float, C: float
) -> float:
    r"""Bound of the rounding error of a computed gradient near the minimum.

    At the minimum the objective is at most its value at zero, n log K, so
    :math:`|W| \le \sqrt{2 C n \log K}`, and where the gradient is at most R it is C R
    away. A score of p products is then wrong by at most (p + 2) roundings of R |W|, a
    probability by as much, and a coefficient is rounded to a multiple of 2**-40.
    """
    n_classes = max(2, n_outputs)
    largest = math.sqrt(2 * C * n_records * math.log(n_classes)) + C * row_norm
    score = (n_columns + 2) * ROUNDOFF * row_norm * largest
    coefficient = score + UNIT**2 + 16 * n_classes * ROUNDOFF
    return n_records * row_norm * math.sqrt(n_outputs) * coefficient


def parameter_sensitivity(
    row_norm: float, n_outputs: int, C: float, tolerance: float, neighboring: str
) -> float:
    r"""Euclidean sensitivity of the weights of a certified minimiser.

    The objective :math:`F_D(W) = \sum_i \ell_i(W) + |W|^2 / (2 C)` is
    1/C-strongly convex, and one record's gradient is at most L = R for the logistic
    and :math:`\sqrt2 R` for the softmax loss. With gradients at most `tolerance` at
    the two returned points, :math:`|W - W'| \le C (k L + 2\,\text{tolerance})`,
    k = 2 for a replaced and k = 1 for a removed record.
    """
    largest = row_norm if n_outputs == 1 else math.sqrt(2) * row_norm
    n_changed = 2 if neighboring == "replace_one" else 1
    return C * (n_changed * largest + 2 * tolerance) * (1 + 1e-12)


@dataclass(frozen=True)
class RegularisedLogistic:
    """Sum of logistic (softmax) losses plus |W|^2 / (2 C), intercept included."""

    design: Design
    targets: Floats
    C: float

    def minimise(self, gradient_norm: float) -> Floats:
        """Newton's method until the gradient's norm is at most `gradient_norm`.

        The step solves H p = -g by conjugate gradients up to a tenth of |g|, hence
        halving it often enough lowers |g|. Should rounding in the linear solver
        spoil that, a step of length 1/L along -g lowers |g| for a smooth, strongly
        convex function. So the loop ends for every table; how long it takes is not
        published.
        """
        weights = np.zeros((self.design.shape[1], *self.targets.shape[1:]))
        p, gradient = self._gradient(weights)
        while (size := np.linalg.norm(gradient)) > gradient_norm:
            direction = self._newton_direction(p, gradient)
            step = 1.0
            while step > 1e-6:
                candidate = weights + step * direction
                candidate_p, candidate_gradient = self._gradient(candidate)
                if np.linalg.norm(candidate_gradient) <= (1 - step / 4) * size:
                    break
                step /= 2
            else:
                candidate = weights - gradient / self._smoothness()
                candidate_p, candidate_gradient = self._gradient(candidate)
            weights, p, gradient = candidate, candidate_p, candidate_gradient
        return weights

    def _gradient(self, weights: Floats) -> tuple[Floats, Floats]:
        p = np.empty_like(self.targets)

        def residuals():  # block by block, which stays in the cache
            for part, rows, scores in self.design.scored(weights):
                p[part] = expit(scores) if scores.ndim == 1 else row_softmax(scores)
                yield rows, p[part] - self.targets[part]

        gradient = self.design.added_exactly(residuals(), p.shape[1:])
        return p, gradient + weights / self.C

    def _newton_direction(self, p: Floats, gradient: Floats) -> Floats:
        """Conjugate gradients for H x = -gradient."""

        def curved(flat):
            return self._hessian_product(p, flat.reshape(gradient.shape)).ravel()

        hessian = LinearOperator((gradient.size, gradient.size), curved, dtype=float)
        x, _ = cg(hessian, -gradient.ravel(), rtol=0.1, maxiter=10 * gradient.size)
        return x.reshape(gradient.shape)

    def _hessian_product(self, p: Floats, weights: Floats) -> Floats:
        def changes():
            for part, rows, change in self.design.scored(weights):
                own = p[part]
                if p.ndim == 1:
                    yield rows, own * (1 - own) * change
                else:
                    mean = (own * change).sum(axis=1, keepdims=True)
                    yield rows, own * (change - mean)

        return self.design.added(changes(), p.shape[1:]) + weights / self.C

    def _smoothness(self) -> float:
        """Bound of the largest eigenvalue of the Hessian: trace of X'X / 2 + 1 / C."""
        rows = self.design.rows
        squares = rows.multiply(rows) if hasattr(rows, "multiply") else rows * rows
        return (
            float((squares.sum(axis=0) * self.design.scale**2).sum()) / 2 + 1 / self.C
        )
