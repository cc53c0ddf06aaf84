"""Logistic loss plus penalty, minimised without noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from fairpriv_sklearn._shared.rowwise import row_softmax
from fairpriv_sklearn._training._design import Design, ExactSum
from fairpriv_sklearn._training._penalty import WassersteinPenalty

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FairLogisticLoss:
    r"""Sum of logistic (softmax) losses and the penalty between groups.

    .. math::
        (1 - \alpha) \sum_i c_i \ell(w; x_i, y_i) + \alpha P(w)

    Attributes
    ----------
    design : Design
    targets : ndarray of shape (n_records,) or (n_records, n_outputs)
        0 or 1; one-hot for softmax.
    weights : ndarray of shape (n_records,) or float
        c_i: what makes the sum a mean. One public number in a full batch.
    fairness_weight : float
    penalty : WassersteinPenalty
    """

    design: Design
    targets: Floats
    weights: Floats | float
    fairness_weight: float
    penalty: WassersteinPenalty

    def gradient(self, weights: Floats) -> Floats:
        """Gradient, a sum over records that is exact if the design is."""
        if self.fairness_weight == 0 and np.isscalar(self.weights):
            return self._loss_sums(weights) * self.weights
        p = self._probabilities(self.design.scores(weights))
        _, coefficients = self._coefficients(p)
        unit = 2.0 ** np.ceil(np.log2(self._largest_coefficient()))
        coefficients *= 1 / unit
        return self.design.sums(coefficients, digits=2) * unit

    def value_and_gradient(self, weights: Floats) -> tuple[float, Floats]:
        """Objective and gradient, for fits without noise."""
        scores = self.design.scores(weights)
        penalty, coefficients = self._coefficients(self._probabilities(scores))
        loss = (1 - self.fairness_weight) * (self._losses(scores) * self.weights).sum()
        gradient = self.design.sums(coefficients, digits=2)
        return loss + self.fairness_weight * penalty, gradient

    def _loss_sums(self, weights: Floats) -> Floats:
        """Sum of the loss gradients in one pass over the rows."""
        design, total = (
            self.design,
            ExactSum((*self.targets.shape[1:], self.design.shape[1])),
        )
        scaled = design.public_weights(weights)
        for block in design.blocks():
            residual = self._probabilities(design.block_scores(block, scaled))
            residual -= self.targets[block]
            design.add_block(total, block, residual)
        return design.total(total)

    def _coefficients(self, p: Floats) -> tuple[float, Floats]:
        alpha = self.fairness_weight
        weights = np.reshape(self.weights, (-1,) + (1,) * (p.ndim - 1))
        coefficients = p - self.targets
        coefficients *= (1 - alpha) * weights
        if alpha == 0:
            return 0.0, coefficients
        value, pull = self.penalty.value_and_coefficients(p, exact=self.design.exact)
        pull *= alpha
        pull += coefficients
        return value, pull

    def _largest_coefficient(self) -> float:
        """Public bound of a record's coefficient in the gradient."""
        n_labels, n_groups = self.penalty.min_sizes.shape
        pull = 1 / (n_groups * n_labels * self.penalty.min_sizes.min())
        loss = np.max(self.weights)
        return (1 - self.fairness_weight) * loss + self.fairness_weight * pull

    def _probabilities(self, scores: Floats) -> Floats:
        return expit(scores) if scores.ndim == 1 else row_softmax(scores)

    def _losses(self, scores: Floats) -> Floats:
        if scores.ndim == 1:
            return np.logaddexp(0, scores) - self.targets * scores
        return logsumexp(scores, axis=1) - (self.targets * scores).sum(axis=1)


def minimise_without_noise(
    objective: FairLogisticLoss, start: Floats, penalty: Floats
) -> Floats:
    """Minimise objective + |penalty^(1/2) w|^2 / 2 by L-BFGS, to convergence."""

    def value_and_gradient(flat):
        weights = flat.reshape(start.shape)
        value, gradient = objective.value_and_gradient(weights)
        value += (penalty * weights**2).sum() / 2
        return value, (gradient + penalty * weights).ravel()

    options = {"maxiter": 10_000, "maxfun": 100_000, "gtol": 1e-8, "ftol": 1e-15}
    result = minimize(
        value_and_gradient, start.ravel(), jac=True, method="L-BFGS-B", options=options
    )
    return result.x.reshape(start.shape)
