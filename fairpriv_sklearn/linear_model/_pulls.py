"""What a penalty between groups pulls at: few directions, told with little noise.

Constants were chosen on Adult with two groups and on simulated groups.
"""

import math

import numpy as np
from scipy.linalg import lapack

from .._shared.arrays import Floats

PULL_CURVATURE = 3 / 20
"""Of the penalty in the span of its pulls, per second moment."""

MOST_STRATA = 16  # whose slopes are told
_SLOPES_NOISE = 3.0  # of the slopes, relative to the penalty's, in their sensitivities
_LEAST_RATIO, _LARGEST_RATIO = 0.25, 4.0


def noise_multiples(
    query, weight: float, neighboring: str, n_strata: int
) -> tuple[float, float, float]:
    """How noise is shared between loss, penalty and slopes; from public numbers.

    The sum of the noise's variances, of the loss in all columns, of the penalty in
    those directions that its pulls have, is smallest for parts in the ratio of
    ``(1 - weight) * loss * sqrt(n_columns)`` and ``weight * penalty * sqrt(n_strata)``,
    each the root of it; half as much for the loss is better where slopes are learnt.
    """
    loss, penalty, slopes = query.sensitivities(neighboring)
    n_columns = query.geometry.n_columns
    shares = (1 - weight) * loss * math.sqrt(n_columns)
    ratio = (
        math.sqrt(shares / (weight * penalty * math.sqrt(n_strata or n_columns))) / 2
    )
    ratio = min(max(ratio, _LEAST_RATIO), _LARGEST_RATIO)
    of_slopes = penalty / slopes / _SLOPES_NOISE if n_strata else 0.0
    return ratio * penalty / loss, 1.0, of_slopes


class Pulls:
    r"""Average gradient of the penalty out of noisy ones, and where it bends.

    Records of a stratum are pulled at nearly alike: the gradient
    :math:`\sum_i c_i \nabla f_i` nearly lies in the span of the sums of
    :math:`\nabla f_i` over the strata. What is outside of the span is noise: left out;
    inside, the penalty has the largest curvature that second moments allow.

    Parameters
    ----------
    moments : ndarray of shape (n_columns, n_columns)
        Stand-in for the second moments.
    curvature : float
        Of the penalty, per second moment.
    average : bool
        Whether gradients are averaged, later ones counting more.
    """

    def __init__(self, moments: Floats, curvature: float, average: bool):
        self._root, self._curvature = np.linalg.cholesky(moments), curvature
        self._average = average
        self._n_added = 0
        self._slopes: Floats | float = 0.0
        self._pull: Floats | float = 0.0
        self._at: Floats | float = 0.0

    def add(self, gradient: Floats, slopes: Floats, at: Floats) -> None:
        """One more noisy gradient at some weights, and the slopes there."""
        self._n_added += 1
        n = self._n_added
        # Of squared numbers of steps: the part of the last one in their sum.
        part = 6 * n / ((n + 1) * (2 * n + 1))
        self._slopes = self._slopes + part * (slopes - self._slopes)
        part = part if self._average else 1.0
        self._pull = self._pull + part * (gradient - self._pull)
        self._at = self._at + part * (at - self._at)

    def model(self) -> tuple[Floats, Floats]:
        r"""The penalty as :math:`w^\top F F^\top w / 2 - b^\top w`.

        Returns
        -------
        b : ndarray of shape (n_columns, n_outputs)
        F : ndarray of shape (n_columns, n_directions)
        """
        n_outputs = self._pull.shape[1]
        if not self._slopes.size:
            return -self._pull, np.zeros((len(self._pull), 0))
        pull, span = np.empty_like(self._pull), _span(self._slopes)
        for k in range(n_outputs):
            own = span if n_outputs == 1 else _span(self._slopes[:, k::n_outputs])
            pull[:, k] = own @ (own.T @ self._pull[:, k])
        # The inverse of S^T M^-1 S for the span S is that of a root of it, twice.
        whitened, _ = lapack.dtrtrs(self._root, span, lower=True)
        root, _ = lapack.dpotrf(whitened.T @ whitened, lower=True)
        factor = lapack.dtrtrs(root, math.sqrt(self._curvature) * span.T, lower=True)[0]
        factor = factor.T
        return factor @ (factor.T @ self._at) - pull, factor


def _span(columns: Floats) -> Floats:
    """Orthonormal columns that span these."""
    # What numpy's qr calls, without R: several times as fast for few columns.
    reflectors, factors, _, _ = lapack.dgeqrf(columns[:, : len(columns)])
    return np.ascontiguousarray(lapack.dorgqr(reflectors, factors)[0])
