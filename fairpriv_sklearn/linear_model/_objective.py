"""Logistic loss plus penalty, minimised without noise."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from .._shared.arrays import Floats
from .._shared.rowwise import row_softmax
from .._training._design import Design, FeatureScaling
from .._training._penalty import WassersteinPenalty, unit_range_directions
from .._wall import Query, Rows, noise_source


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
        alpha, c = self.fairness_weight, self.weights
        scores = self.design.scores(weights)
        if scores.ndim == 1:
            p, losses = expit(scores), np.logaddexp(0, scores) - self.targets * scores
        else:
            p, right = row_softmax(scores), (self.targets * scores).sum(axis=1)
            losses, c = logsumexp(scores, axis=1) - right, c[:, None]
        value = (1 - alpha) * (losses * self.weights).sum()
        coefficients = (p - self.targets) * ((1 - alpha) * c)
        if alpha > 0:
            penalty, pull = self.penalty.value_and_coefficients(p)
            value += alpha * penalty
            coefficients += alpha * pull
        return value, self.design.sums(coefficients)


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


@dataclass(frozen=True)
class Optimum(Query):
    """The minimum itself, for fits that add no noise and claim nothing.

    Attributes
    ----------
    n_weights : int
    scaling : FeatureScaling
    class_weights : ndarray of shape (n_classes,)
        Of the loss, relative to the largest.
    shape : tuple of int
        Labels that are compared on their own, and groups.
    form : {"barycenter", "pairs"}
        Of the penalty.
    fairness_weight, C : float
    """

    name = "weights"
    theorem = "user_guide/linear_models_proofs:without-noise"

    n_weights: int
    scaling: FeatureScaling
    class_weights: Floats
    shape: tuple[int, int]
    form: str
    fairness_weight: float
    C: float

    @property
    def n_coordinates(self) -> int:
        return self.n_weights

    def sensitivity(self, neighboring: str) -> float:
        return 1.0  # of no use: there is no noise

    def of_rows(self, rows: Rows, state):
        """Weights that minimise the objective with the logistic (softmax) loss."""
        table, n_records = rows.whole(), rows.n_rows
        y, n_classes = table.y, len(self.class_weights)
        design = self.scaling.design(table.x, exact=False)
        targets, directions = y.astype(float), None
        if n_classes > 2:
            targets = np.eye(n_classes)[y]
            normals = noise_source(0).public().standard_normal((n_classes, 10))
            directions = unit_range_directions(normals)
        counts = np.bincount(table.stratum, minlength=math.prod(self.shape))
        min_sizes = np.maximum(counts, 1).reshape(self.shape)
        penalty = WassersteinPenalty(table.stratum, min_sizes, directions, self.form)
        weights = self.class_weights[y] / n_records
        objective = FairLogisticLoss(
            design, targets, weights, self.fairness_weight, penalty
        )
        start = np.zeros((design.shape[1], *targets.shape[1:]))
        ridge = np.zeros((design.shape[1],) + (1,) * (start.ndim - 1))
        ridge[: len(ridge) - self.scaling.fit_intercept] = 1 / (self.C * n_records)
        found = minimise_without_noise(objective, start, ridge)
        return found.reshape(len(found), -1)
