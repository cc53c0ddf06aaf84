"""Logistic loss plus penalty, minimised without noise."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from fairpriv_sklearn._shared.arrays import Floats
from fairpriv_sklearn._shared.rowwise import row_softmax
from fairpriv_sklearn._training._design import Design
from fairpriv_sklearn._training._penalty import WassersteinPenalty


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
    weights : ndarray of shape (n_records,)
        c_i: what makes the sum a mean.
    fairness_weight : float
    penalty : WassersteinPenalty
    """

    design: Design
    targets: Floats
    weights: Floats
    fairness_weight: float
    penalty: WassersteinPenalty

    def value_and_gradient(self, weights: Floats) -> tuple[float, Floats]:
        """Objective and gradient, for fits without noise."""
        scores = self.design.scores(weights)
        penalty, coefficients = self._coefficients(self._probabilities(scores))
        loss = (1 - self.fairness_weight) * (self._losses(scores) * self.weights).sum()
        gradient = self.design.sums(coefficients)
        return loss + self.fairness_weight * penalty, gradient

    def _coefficients(self, p: Floats) -> tuple[float, Floats]:
        alpha = self.fairness_weight
        weights = np.reshape(self.weights, (-1,) + (1,) * (p.ndim - 1))
        coefficients = p - self.targets
        coefficients *= (1 - alpha) * weights
        if alpha == 0:
            return 0.0, coefficients
        value, pull = self.penalty.value_and_coefficients(p)
        pull *= alpha
        pull += coefficients
        return value, pull

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
