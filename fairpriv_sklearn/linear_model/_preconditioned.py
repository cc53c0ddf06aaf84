"""Descent by noisy gradients in the metric of noisy second moments.

All constants were chosen on simulated tables, Adult and Credit default.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOMENT_SHARE = 0.1
"""Share of the squared Gaussian-DP parameter that the second moments take."""

LOSS_CURVATURE = 1 / 8
"""Of the bounded-slope loss, per second moment: about half the records are not cut."""

PENALTY_CURVATURE = 1 / 20
"""Of the penalty between groups, per second moment, where the fit ends."""

_FLOOR = 0.7  # of the spectrum, in units of the spectral norm of the noise
_LARGEST_FLOOR = 0.5  # in units of the squared norm of a row
_NOISE_RIDGE = 100.0  # during descent, in units of the squared noise of the whole fit
_MOST_COLUMNS = 2000  # whose second moments are worth their time and memory


def moments_noise(row_norm: float, mu: float, n_records: float) -> float:
    """Noise of the mean second moments that `MOMENT_SHARE` of `mu`^2 pays for."""
    return math.sqrt(2) * row_norm**2 / (math.sqrt(MOMENT_SHARE) * mu * n_records)


def is_worth_moments(
    n_columns: int, row_norm: float, mu: float, n_records: float
) -> bool:
    """Whether noisy second moments tell anything; a rule of public numbers."""
    spectral = moments_noise(row_norm, mu, n_records) * math.sqrt(2 * n_columns)
    worth = _FLOOR * spectral <= _LARGEST_FLOOR * row_norm**2
    return worth and n_columns <= _MOST_COLUMNS


def number_of_steps(mu: float, n_records: float) -> int:
    """More steps for more signal: 10 on Adult at epsilon .1, 17 at 1, at most 40."""
    return round(min(40.0, max(10.0, 10 * (n_records * mu / 1000) ** 0.25)))


def intercept_column(data_norm: float, mu: float, n_records: float) -> float:
    """Size of the intercept's column: larger where little else can be learnt."""
    share = 0.3 * math.sqrt(300 / max(n_records * mu, 1e-9))
    return min(1.0, min(1.0, max(0.3, share)) * data_norm)


def curvature(
    moments: Floats | None, noise: float, *, n_columns: int, row_norm: float,
    constant: float, factor: float,
) -> Floats:  # fmt: skip
    """Positive definite matrix that stands for the Hessian; public.

    Parameters
    ----------
    moments : ndarray of shape (n_columns, n_columns) or None
        Noisy second moments. None: nothing is known of them.
    noise : float
        Standard deviation of their diagonal.
    n_columns : int
    row_norm : float
    constant : float
        Entry of the intercept's column, the last; 0 without one.
    factor : float
        Hessian per second moment.
    """
    most = _LARGEST_FLOOR * row_norm**2
    if moments is None:
        diagonal = np.full(n_columns, most)
        if constant:
            diagonal[-1] = constant**2
        return np.diag(diagonal * factor)
    floor = min(most, _FLOOR * noise * math.sqrt(2 * n_columns))
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, max(floor, 1e-9 * row_norm**2))
    return (vectors * (values * factor)) @ vectors.T


def preconditioned_descent(
    gradient: Callable[[Floats], Floats],
    hessian: Floats,
    *,
    n_outputs: int,
    ridge: Floats,
    noise: float,
    max_iter: int,
    average: bool,
) -> tuple[Floats, float]:
    r"""Minimise by models :math:`w^\top H w / 2 - b^\top w` with averaged b.

    A noisy gradient g at v says :math:`b = H v - g`; where the curvature is H, all of
    them say the same b. Each step minimises the model of their average, later ones
    counting more, with Nesterov's momentum: noise is averaged as it comes.

    Parameters
    ----------
    gradient : callable
        Noisy gradient, (n_columns, n_outputs); called `max_iter` times.
    hessian : ndarray of shape (n_columns, n_columns)
    n_outputs : int
    ridge : ndarray of shape (n_columns,)
    noise : float
        Standard deviation of the noise in one gradient.
    max_iter : int
    average : bool
        False takes each gradient on its own.

    Returns
    -------
    b : ndarray of shape (n_columns, n_outputs)
        Of the last model.
    noise : float
        Standard deviation of the noise in it.
    """
    n_columns = len(hessian)
    shrinkage = np.full(n_columns, _NOISE_RIDGE * noise**2 / max_iter)
    shrinkage[ridge == 0] = 0.0  # the intercept
    inverse = np.linalg.inv(hessian + np.diag(ridge + shrinkage))
    weights = previous = np.zeros((n_columns, n_outputs))
    total, sum_of_weights, sum_of_squares = np.zeros_like(weights), 0.0, 0.0
    for t in range(max_iter):
        ahead = weights + t / (t + 3) * (weights - previous)
        previous = weights
        b = hessian @ ahead - gradient(ahead)
        if not average:
            total, sum_of_weights, sum_of_squares = 0 * total, 0.0, 0.0
        weight = (t + 1.0) ** 2
        total = total + weight * b
        sum_of_weights += weight
        sum_of_squares += weight**2
        weights = inverse @ (total / sum_of_weights)
    return total / sum_of_weights, noise * math.sqrt(sum_of_squares) / sum_of_weights


def shrunk_minimum(
    b: Floats, hessian: Floats, *, ridge: Floats, noise: float, fit_intercept: bool
) -> Floats:
    r"""Weights with the smallest estimate of the error, the noise taken into account.

    With the intercept profiled out, weights :math:`w = b / (h + r)` in the eigenbasis
    gain :math:`b w - h w^2 / 2`; from noisy b this is too large by :math:`\sigma^2 /
    (h + r)` a direction, which is subtracted (Stein's estimate of the risk). Where no r
    promises a gain over the constant model, the weights are zero.

    Parameters
    ----------
    b : ndarray of shape (n_columns, n_outputs)
    hessian : ndarray of shape (n_columns, n_columns)
    ridge : ndarray of shape (n_columns,)
        Added in any case; 0 for the intercept.
    noise : float
    fit_intercept : bool
        Whether the last column is the intercept's.

    Returns
    -------
    weights : ndarray of shape (n_columns, n_outputs)
    """
    hessian = hessian + np.diag(ridge)
    d = len(hessian) - fit_intercept
    ratio = hessian[:d, d:] / np.diag(hessian)[d:]  # (d, 1), or (d, 0) without
    values, vectors = np.linalg.eigh(hessian[:d, :d] - ratio @ hessian[d:, :d])
    values = np.maximum(values, 1e-12 * np.trace(hessian))
    signal = vectors.T @ (b[:d] - ratio @ b[d:])
    variance = noise**2 * (1 + np.square(vectors.T @ ratio).sum(axis=1))
    ridges = noise**2 * 4.0 ** np.arange(-3, 16)
    divided = 1 / (values + ridges[:, None])  # (n_ridges, d)
    shrunk = divided[..., None] * signal
    gains = shrunk * signal - values[:, None] / 2 * shrunk**2
    gains = (gains - (variance * divided)[..., None]).sum(axis=1)
    best = gains.argmax(axis=0)
    chosen = np.stack([shrunk[r, :, k] for k, r in enumerate(best)], axis=1)
    chosen[:, gains.max(axis=0) <= 0] = 0.0
    slopes = vectors @ chosen
    intercept = (b[d:] - hessian[d:, :d] @ slopes) / np.diag(hessian)[d:, None]
    return np.concatenate([slopes, intercept])
