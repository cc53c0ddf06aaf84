"""Descent by noisy gradients in the metric of noisy second moments.

Constants of the classifier were chosen on simulated tables, Adult and Credit default;
those of the regression on simulated tables, Communities, Law School and Parkinsons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.linalg import lapack
from scipy.special import betaincinv
from sklearn.isotonic import isotonic_regression

from .._shared.arrays import Floats
from ._line_search import CAUTION, LineSearch, Path
from ._pulls import Pulls

MOMENT_SHARE = 0.1
"""Share of the squared Gaussian-DP parameter that the second moments take."""

LOSS_CURVATURE = 1 / 8
"""Of the bounded-slope loss, per second moment: about half the records are not cut."""

LOGISTIC_CURVATURE = 1 / 4
"""Of the logistic loss, per second moment, where its scores are 0."""

PENALTY_CURVATURE = 1 / 20
"""Of the penalty between many groups, per second moment, where the fit ends."""

SQUARE_CURVATURE = 0.8
"""Of the squared loss with a bounded residual, per second moment."""

_FLOOR = 0.7  # of the spectrum, in units of the spectral norm of the noise
_LARGEST_FLOOR = 0.5  # in units of the squared norm of a row
_LIKELY = 0.15  # least share of its bound that hidden curvature is likely to have
_LEAST_PART = 0.05  # of the stand-in, that curvature is taken for in a covariance
_MOST_PART = 2.0  # the same, where noise made the stand-in too small
_NODES = (np.arange(8) + 0.5) / 8  # of what is supposed of hidden curvature
_ABOVE_MEAN = 1.25  # up to where mixed curvature goes, relative to its mean
_WIDEST = 0.9  # of the variance of what is either nothing or all
_ABOVE_MOST = 1.4  # the mean of hidden curvature, relative to what most of it is
_LEFT = 0.3  # of the variation of labels' slopes, where features explain the rest
_FLATTEST = 0.3  # share of the stand-in that a loss has where features tell anything
_BEYOND = 0.1  # relative error of a search, but for noise: scores are not normal
_UNSURE = 0.5  # of what the descent lost to few steps, and what noise added to it
_MOST_COLUMNS = 2000  # whose second moments are worth their time and memory
_MOST_TOLD = 1000  # whose covariance is worth its memory
_MOST_HIDDEN = 0.4  # share of the variance that noise may hide where errors are told
_LEAST_POWER = 2.0  # of the number of a step, by which it counts in an average
_NOISE_OF_STEP = 0.1  # of the constant model's loss, by the power, that one may add
# Of the last step in an average, but for the first one: steps come to rest where the
# curvature is at most (2 + 2 / _MOST_OF_LAST) / 3 times the stand-in's.
_MOST_OF_LAST = 0.8
_LEAST_FILL = 1e-3  # of the norm of rows by their spread, however little there is


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


# `signal` is the number of records times the Gaussian-DP parameter; public.


def number_of_steps(signal: float) -> int:
    """More steps for more signal: 10 on Adult at epsilon .1, 17 at 1, at most 40."""
    return round(min(40.0, max(10.0, 10 * (signal / 1000) ** 0.25)))


def regression_steps(signal: float) -> int:
    """The same for regression, which gains by 20 sooner."""
    return max(number_of_steps(signal), round(min(20.0, signal / 50)))


def largest_residual(signal: float) -> float:
    """Where residuals of a target in [-1, 1] are cut off: nowhere, given much signal.

    Noise is proportional to it, and a small one draws the mean towards the median.
    """
    return min(2.0, 0.4 * math.sqrt(max(1.0, signal / 2000)))


def averaging_power(inverse: Floats, noise: float, worth: Floats) -> float:
    r"""Power of the number of a step by which it counts in the average.

    Where the loss has a part r of the stand-in's curvature, T steps that count by a
    power p leave about :math:`T^{-(p + 1) r}` of the way, and have p / (2 T) of the
    noise of one. Rare labels have flat losses: with little noise p is large, so that
    the model does not stay where steps began.

    Parameters
    ----------
    inverse : ndarray of shape (n_columns, n_columns)
        Of the stand-in.
    noise : float
        Standard deviation of the noise in one gradient.
    worth : ndarray of shape (n_outputs,)
        Loss of the constant model.
    """
    lost = noise**2 * float(np.trace(inverse)) / 2  # by one output, if p is infinite
    return max(_LEAST_POWER, _NOISE_OF_STEP * float(worth.mean()) / max(lost, 1e-300))


CLASSIFICATION_RIDGE = 100.0
"""Ridge during descent, in units of the squared noise of the whole fit."""


def regression_ridge(signal: float) -> float:
    """More of a ridge where there is more signal: less of it is needed to see it."""
    return 1000.0 * min(4.0, max(1.0, signal / 600))


@dataclass(frozen=True)
class Constant:
    """The constant model, as it is known before the descent.

    Attributes
    ----------
    intercept : ndarray of shape (n_outputs,)
        Its scores.
    variance : ndarray of shape (n_outputs,)
        Of their noise.
    sampling : ndarray of shape (n_outputs,)
        Mean square of a record's slope there, by the number of records: what gradients
        vary by from table to table, per second moment.
    curvature : ndarray of shape (n_outputs,)
        Of the mean loss in the score there.
    left : float, default=_LEFT
        Share of `sampling` that counts where a ridge is chosen.
    """

    intercept: Floats
    variance: Floats
    sampling: Floats
    curvature: Floats
    left: float = _LEFT

    @classmethod
    def guessed(cls, intercept: float, sampling: float) -> Constant:
        """Only where to start is known, and how much gradients vary."""
        zero = np.zeros(1)
        unknown = zero + np.inf
        return cls(zero + intercept, unknown, zero + sampling, unknown, left=1.0)


@dataclass(frozen=True)
class Curvature:
    """Public stand-in for the Hessian.

    Attributes
    ----------
    matrix : ndarray of shape (n_columns, n_columns)
        Positive definite; its spectrum was raised to `floor`.
    floor : float
        Below it the noise hides what the curvature is.
    typical : float
        What it is there on average; `floor` if that is not known.
    likely : ndarray of shape (n_columns, n_columns)
        What the matrix is without noise and floor, by :func:`_without_noise`.
    cross : ndarray of shape (n_features, 1) or (n_features, 0)
        Column of the intercept, as it was released.
    released : ndarray of shape (n_columns, n_columns)
        The matrix as it was released, without a floor; a guess if it was not.
    noise : float
        Standard deviation of its diagonal.
    factor : float
        Hessian per second moment.
    unit : float
        Entry of the intercept's column.
    """

    matrix: Floats
    floor: float
    typical: float
    likely: Floats
    cross: Floats
    released: Floats
    noise: float
    factor: float
    unit: float

    @classmethod
    def from_moments(
        cls, moments: Floats | None, noise: float, *, n_columns: int, row_norm: float,
        constant: float, factor: float,
    ) -> Curvature:  # fmt: skip
        """Build the stand-in out of noisy second moments.

        Parameters
        ----------
        moments : ndarray of shape (n_columns, n_columns) or None
            None: nothing is known of them.
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
        d = max(1, n_columns - (constant > 0))
        if moments is None:
            diagonal = np.full(n_columns, most)
            if constant:
                diagonal[-1] = constant**2
            hessian = np.diag(diagonal * factor)
            typical = min(most, 2 * (row_norm**2 - constant**2) / d) * factor
            likely = np.diag(np.append(np.full(d, typical), hessian[d:, d:]))
            cross = hessian[:d, d:]
            told = likely, cross, likely, most * factor / 3
            return cls(hessian, most * factor, typical, *told, factor, constant)
        floor = min(most, _FLOOR * noise * math.sqrt(2 * n_columns))
        floor = max(floor, 1e-9 * row_norm**2)
        values, vectors = np.linalg.eigh(moments)
        likely = (vectors * (_without_noise(values, noise) * factor)) @ vectors.T
        values = np.maximum(values, floor)
        typical = max(np.trace(moments) - constant**2, 0.0) / d
        matrix = (vectors * (values * factor)) @ vectors.T
        cross = moments[:d, d:] * factor
        typical = min(floor, typical) * factor
        told = likely, cross, moments * factor, noise * factor
        return cls(matrix, floor * factor, typical, *told, factor, constant)

    def fill(self, data_norm: float) -> float:
        """Mean squared distance of the rows from their mean, by that of the longest.

        As released, and taken higher by as much as noise may hide.
        """
        d, moments = len(self.cross), self.released / self.factor
        noise = self.noise / self.factor
        square = np.trace(moments[:d, :d]) + math.sqrt(d) * noise
        if self.unit:
            # The squares of noisy means are too large by d / 2 squares of the noise.
            by_means = np.square(moments[:d, d]).sum() - d * noise**2
            square -= by_means / self.unit**2
        return min(1.0, max(_LEAST_FILL, float(square) / data_norm**2))

    def along(self, slopes: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean and variance of the scores by slopes, and the noise of the variance.

        The released moments tell one direction with little noise: it needs no floor
        that holds for all of them.
        """
        d, factor = len(slopes), self.factor
        squares = np.square(slopes).sum(axis=0)
        found = np.einsum("ik,ij,jk->k", slopes, self.released[:d, :d], slopes)
        own = np.diag(self.matrix)[d:, None]
        found -= (np.square(self.released[d:, :d] @ slopes) / own).sum(axis=0)
        means = np.zeros(slopes.shape[1])
        if self.unit:
            means = self.cross[:, 0] @ slopes / factor / self.unit
        # What is typical stands for what the noise may hide, and no more.
        hidden = min(self.typical, self.noise)
        found = np.maximum(found, hidden * squares)
        return means, found / factor, self.noise * squares / factor

    def bent(self, factor: Floats) -> Curvature:
        """The same and F F^T of a penalty."""
        d = len(self.cross)
        cross = self.cross + factor[:d] @ factor[d:].T
        return replace(self, matrix=self.matrix + factor @ factor.T, cross=cross)


def _without_noise(values: Floats, noise: float) -> Floats:
    """Expected quadratic forms of a matrix in the eigenvectors of a noisy one.

    Noise pushes eigenvalues apart; of a symmetric matrix with independent entries it
    does so by twice what each of the others pushes (the rotationally invariant
    estimator of J. Bun, R. Allez, J.-P. Bouchaud and M. Potters, 2016).
    """
    apart = values[:, None] - values
    near = noise**2 / 8  # a smoothing that matters between neighbours only
    pushed = noise**2 * (apart / (apart**2 + near)).sum(axis=1) if noise else 0.0
    return np.maximum(isotonic_regression(values - pushed), 0.0)


def preconditioned_descent(
    gradient: Callable[[Floats], Floats],
    curvature: Curvature,
    *,
    n_outputs: int,
    ridge: Floats,
    noise: float,
    max_iter: int,
    average: bool,
    noise_ridge: float,
    constant: Constant | None = None,
    at_scores: Callable | None = None,
    pulls: Pulls | None = None,
    search: LineSearch | None = None,
    worth: Floats | None = None,
    trial: int = 0,
) -> tuple[Floats | None, Floats | None]:
    r"""Minimise by models :math:`w^\top H w / 2 - b^\top w` with averaged b.

    A noisy gradient g at v says :math:`b = H v - g`; where the curvature is H, all of
    them say the same b. Each step minimises the model of their average, later ones
    counting more, with Nesterov's momentum: noise is averaged as it comes. Where it is
    smaller early ones say less, and count less (:func:`averaging_power`).

    Parameters
    ----------
    gradient : callable
        Noisy gradient, (n_columns, n_outputs); called `max_iter` times.
    curvature : Curvature
    n_outputs : int
    ridge : ndarray of shape (n_columns,)
    noise : float
        Standard deviation of the noise in one gradient.
    max_iter : int
    average : bool
        False takes each gradient on its own.
    noise_ridge : float
        Ridge during descent, in units of the squared noise of the whole fit.
    constant : Constant, default=None
        Where the descent starts, and what the intercept is where nothing else is known.
        From farther away the intercept's slopes, through noisy second moments, would
        pass for those of features.
    at_scores : callable, default=None
        Means and variances of the scores to `Constant.sampling` and the curvature
        there, and to how it falls, as `_Length.on_a_curve` takes it. None: no
        covariance is asked for.
    pulls : Pulls, default=None
        Of a penalty, to which `gradient` adds; it returns the gradient of the loss.
    search : LineSearch, default=None
        How far to go along the slopes. None: as far as the descent says.
    worth : ndarray of shape (n_outputs,), default=None
        Loss of the constant model, where late steps say more: see
        :func:`averaging_power`. None: all of them say the same.
    trial : int, default=0
        After so many steps, without pulls, it ends if they promise no more than noise.

    Returns
    -------
    weights : ndarray of shape (n_columns, n_outputs) or None
        See :func:`_shrunk_minimum`; None if the trial was the end.
    covariance : ndarray of shape (n_outputs, n_features, n_features) or None
        Of the errors of the slopes.
    """
    hessian, n_columns = curvature.matrix, len(curvature.matrix)
    factor = np.zeros((n_columns, 0))
    shrinkage = np.full(n_columns, noise_ridge * noise**2 / max_iter)
    shrinkage[ridge == 0] = 0.0  # the intercept
    inverse = np.linalg.inv(hessian + np.diag(ridge + shrinkage))
    weights = np.zeros((n_columns, n_outputs))
    if constant is not None and curvature.unit:
        weights[-1] = constant.intercept / curvature.unit
    power = _LEAST_POWER if average else math.inf
    if average and worth is not None:
        power = averaging_power(inverse, noise, worth)
    previous, model = weights, _AverageModel(power)
    for t in range(max_iter):
        ahead = weights + t / (t + 3) * (weights - previous)
        previous = weights
        b = model.add(hessian @ ahead - gradient(ahead))
        if pulls is None:
            weights = inverse @ b
            if t + 1 == trial:
                tried = (trial, power), noise_ridge, 0.0
                found = _Directions(b, curvature, ridge, noise, constant, *tried)
                if not found.faded().any():
                    return None, None
            continue
        pulled, factor = pulls.model()
        b = b + pulled
        weights = inverse @ b
        if not factor.size:
            continue
        # Woodbury's formula: the penalty bends few directions.
        bent = inverse @ factor
        inner = np.eye(factor.shape[1]) + factor.T @ bent
        weights = weights - bent @ lapack.dposv(inner, factor.T @ weights)[1]
    # The loss's weight does not scale it: a strong penalty's fit would fade away.
    lifts = ridge.max(initial=0.0) if pulls is None else 0.0
    known = constant, (max_iter, power), noise_ridge, lifts
    found = _Directions(b, curvature.bent(factor), ridge, noise, *known)
    return _shrunk_minimum(
        weights, found, curvature, ridge, noise, constant, at_scores, search
    )


def _between(means: Floats, variances: Floats) -> Floats:
    """Nodes of beta distributions on [0, 1] with these moments, (n_nodes, n).

    Large means have more room above. The means of the nodes are exact.
    """
    top = np.maximum(1.0, _ABOVE_MEAN * means)
    means, variances = means / top, variances / top**2
    widest = means * (1 - means)
    size = widest / np.clip(variances, 1e-4 * widest, _WIDEST * widest) - 1
    nodes = betaincinv(means * size, (1 - means) * size, _NODES[:, None])
    return nodes * (means / nodes.mean(axis=0)) * top


@lru_cache(maxsize=1000)
def _part_of_last(n: int, power: float) -> float:
    """Of n steps, in an average that weighs them by a power of their number."""
    part = float(1 / ((np.arange(1, n + 1) / n) ** power).sum())
    return part if n == 1 or power == math.inf else min(part, _MOST_OF_LAST)


class _AverageModel:
    """Average of b that weighs them by a power of their number; inf takes the last."""

    def __init__(self, power: float):
        self._power, self._n_added, self._mean = power, 0, 0.0

    def add(self, b: Floats) -> Floats:
        """Return the average with one more."""
        self._n_added += 1
        part = _part_of_last(self._n_added, self._power)
        self._mean = self._mean + part * (b - self._mean)
        return self._mean


def _carried(
    ratios: Floats, max_iter: int, power: float, damping: Floats | float = 1.0
) -> tuple[Floats, Floats]:
    """What the last b has of fresh noise, and of noise that all steps share.

    By their variances in one gradient, where H is 1 / ratio too large: noise that moved
    the weights comes back in H v - g, but for `ratio` of it, and `damping` is the part
    that the ridge during the descent leaves.
    """
    impulses = np.eye(max_iter)[:, :, None]  # (step, impulse, 1)
    weights = previous = np.zeros((max_iter, len(ratios)))
    model, kept = _AverageModel(power), 1 - ratios
    for t in range(max_iter):
        # In place: this takes longer than all else of a fit to few records.
        ahead = weights - previous
        ahead *= t / (t + 3)
        ahead += weights
        ahead *= damping
        ahead *= kept
        ahead += impulses[t]
        previous, weights = weights, model.add(ahead)
    return np.square(weights).sum(axis=0), np.square(weights.sum(axis=0))


def _shrunk_minimum(
    weights: Floats,
    found: _Directions,
    curvature: Curvature,
    ridge: Floats,
    noise: float,
    constant: Constant | None,
    at_scores: Callable | None,
    search: LineSearch | None,
) -> tuple[Floats, Floats | None]:
    r"""Weights with the smallest estimate of the error, the noise taken into account.

    With the intercept profiled out, weights :math:`w = b / (h + r)` in the eigenbasis
    gain :math:`b w - h w^2 / 2`; from noisy b this is too large by :math:`\sigma^2 /
    (h + r)` a direction, which is subtracted (Stein's estimate of the risk). How far to
    go along the best ones is searched: where the noise hid the curvature, its floor
    makes all of them too short.

    Parameters
    ----------
    weights : ndarray of shape (n_columns, n_outputs)
        Where the descent ended: the gradient of the intercept vanishes there.
    found : _Directions
    curvature : Curvature
        Without that of a penalty.
    ridge : ndarray of shape (n_columns,)
    noise : float
    constant : Constant or None
    at_scores : callable or None
    search : LineSearch or None

    Returns
    -------
    weights : ndarray of shape (n_columns, n_outputs)
    covariance : ndarray of shape (n_outputs, n_features, n_features) or None
        Of noise, of who was drawn, of the search, and of what shrinking leaves away:
        the variance that is left of a prior under which these ridges are the best ones
        (Bayesian intervals of smoothing splines, G. Wahba, 1983).
    """
    hessian, d, unit = found.hessian, len(found.values), curvature.unit
    cross = found.cross / np.diag(hessian)[d:]
    level = weights[d:] + cross.T @ weights[:d]

    def constant_level(doubt):
        """Of the descent and of the constant model, each as far as it is known."""
        if constant is None or not unit:
            return level
        own = hessian[-1, -1]
        ratios = np.minimum(1.0, constant.curvature * unit**2 / own)
        noisy = noise**2 * _carried(ratios, *found.steps)[0] / own**2
        trust = noisy / (noisy + (constant.variance + doubt**2) / unit**2)
        return trust * constant.intercept / unit + (1 - trust) * level

    scores = means, variance, doubt = curvature.along(found.slopes)
    if search is None:
        length = _Length(found.faded())
        wide = found.at_most / curvature.factor
    else:
        start = constant_level(0.0)[0] * unit if unit else 0.0 * means
        length = found.searched(search, scores, start, ridge.max(initial=0.0))
        wide = variance + doubt
    slopes = found.slopes * length.scale + 0.0  # no negative zeros
    if constant is not None:
        # What the constant model says, but for what the slopes take over.
        doubt = (np.abs(constant.intercept) + 1) * length.scale**2 * wide / 6
        level = constant_level(doubt)
    intercept = level - cross.T @ slopes
    weights = np.concatenate([slopes, intercept])
    if at_scores is None or d > _MOST_TOLD or found.hides_too_much:
        return weights, None
    means = means * length.scale
    if unit:
        means = means + intercept[0] * unit
    return weights, found.covariance(length, means, at_scores)


@dataclass(frozen=True)
class _Length:
    """How far the slopes go, in multiples of their own; (n_outputs,) each.

    Attributes
    ----------
    scale : ndarray
    variance : ndarray or float, default=0.0
        Of its error, but for who was drawn; 0 where nothing is known of that.
    spread : ndarray or float, default=0.0
        Variance of the scores of the slopes themselves.
    of_falls : ndarray or float, default=0.0
        Of the variance, what noise says of how fast the loss falls.
    alike : ndarray or float, default=0.0
        Twice the covariance of search and descent, had the search only followed it.
    """

    scale: Floats
    variance: Floats | float = 0.0
    spread: Floats | float = 0.0
    of_falls: Floats | float = 0.0
    alike: Floats | float = 0.0

    def on_a_curve(self, flattens: Floats, before: Floats) -> _Length:
        """The same where the curvature along the slopes falls, relative to itself.

        The search took it up to where its first release, that looked at twice the
        length (where it falls by `before`), led with its noise: what is found errs by
        `flattens` of that. And what the first release did not follow, the descent does
        not either.
        """
        variance = self.variance + flattens * before * self.alike
        variance = variance + 2 * flattens * (1 + flattens) * self.of_falls
        return replace(self, variance=variance)


class _Directions:
    """What a descent says in the directions in which its model is diagonal.

    Parameters
    ----------
    b : ndarray of shape (n_columns, n_outputs)
    curvature : Curvature
        With that of a penalty.
    ridge : ndarray of shape (n_columns,)
        Added in any case; 0 for the intercept, which is the last column.
    noise : float
        Standard deviation of the noise in one gradient.
    constant : Constant or None
    steps : tuple
        How many there were, and the power by which they were averaged.
    noise_ridge : float
    lifts : float
        Ridge by which a direction that noise hides may stand above the floor.

    Attributes
    ----------
    hessian : ndarray of shape (n_columns, n_columns)
    cross : ndarray of shape (n_features, 0 or 1)
        Of the features with the constant, before any floor.
    values : ndarray of shape (n_features,)
        Curvature, the intercept profiled out.
    slopes : ndarray of shape (n_features, n_outputs)
        The best ones.
    at_most : ndarray of shape (n_outputs,)
        Curvature along them.
    """

    def __init__(self, b, curvature, ridge, noise, constant, steps, noise_ridge, lifts):
        self.hessian = hessian = curvature.matrix + np.diag(ridge)
        self.cross, self.steps = curvature.cross, steps
        d = int(np.count_nonzero(ridge))
        ratio = hessian[:d, d:] / np.diag(hessian)[d:]  # (d, 1), or (d, 0) without
        values, vectors = np.linalg.eigh(hessian[:d, :d] - ratio @ hessian[d:, :d])
        self.values = values = np.maximum(values, 1e-12 * np.trace(hessian))
        self._vectors, self._curvature = vectors, curvature
        self._held = (ridge.max(initial=0.0) / values)[:, None]
        self._hidden = values - lifts <= 1.1 * curvature.floor
        self._signal = vectors.T @ (b[:d] - ratio @ b[d:])
        self._drawn = values / curvature.factor
        self._damping = values / (values + noise_ridge * noise**2 / steps[0])
        self._profiled = noise**2 * (1 + np.square(vectors.T @ ratio).sum(axis=1))
        # Rare labels have flatter losses than the stand-in takes for granted.
        n_outputs = b.shape[1]
        self._flatness, self._sampling = np.ones(n_outputs), np.zeros(n_outputs)
        self._left = _LEFT
        if constant is not None:
            flatness = constant.curvature / LOSS_CURVATURE
            self._flatness = np.clip(flatness, _FLATTEST, 1.0)
            self._sampling = np.broadcast_to(constant.sampling, (n_outputs,))
            self._left = constant.left
        likely = curvature.likely
        across = likely[:d, d:]
        own = np.maximum(np.diag(likely)[d:], curvature.floor / 99)
        self._likely = likely[:d, :d] - across @ (across / own).T
        self._part = np.einsum("ij,ij->j", vectors, self._likely @ vectors) / values
        self._shrink(noise**2 / steps[0] * 4.0 ** np.arange(-3, 16))
        self.slopes = vectors @ self._chosen
        self.at_most = (values[:, None] * self._chosen**2).sum(axis=0)

    def _shrink(self, ridges: Floats) -> None:
        """Choose a ridge for each output."""
        divided = 1 / (self.values + ridges[:, None])[..., None]  # (n_ridges, d, 1)
        shrunk = divided * self._signal
        gains = shrunk * self._signal - self.values[:, None] / 2 * shrunk**2
        gains = gains.sum(axis=1)
        at_once = self._variance(self._at_bound, self._left * self._sampling)
        best = (gains - (at_once * divided).sum(axis=1)).argmax(axis=0)
        self._chosen = np.stack([shrunk[r, :, k] for k, r in enumerate(best)], axis=1)
        self._divided = divided[best][..., 0].T  # (d, n_outputs)
        self._gain = np.take_along_axis(gains, best[None], axis=0)[0]

    @property
    def _at_bound(self) -> Floats:
        return np.tile(self._flatness, (len(self.values), 1))

    def _bent(self, ratios: Floats) -> Floats:
        """Curvature of the objective by the stand-in's, of that of the loss.

        The ridge bends as it says: it holds what a flat loss would let go.
        """
        return np.minimum(ratios + self._held, np.maximum(ratios, 1.0))

    def _variance(self, ratios: Floats, sampling: Floats) -> Floats:
        """Of the last b, where H is 1 / ratio too large; (d, n_outputs)."""
        ratios = np.reshape(ratios, (len(self.values), -1))
        distinct, which = np.unique(ratios, return_inverse=True)
        which = which.reshape(ratios.shape)
        fresh, shared = (one[which] for one in _carried(distinct, *self.steps))
        by_draw = self._drawn[:, None] * ratios * shared * sampling
        return self._profiled[:, None] * fresh + by_draw

    def _of_steps(self, ratios: Floats) -> Floats:
        """Fresh and shared noise with the ridge during the descent, by output."""
        return self._at_nodes(ratios.T).transpose(0, 2, 1)

    def faded(self) -> Floats:
        """Multiple of the slopes by how much more they promise than chance would.

        Of noise alone a gain has this mean, and varies by so much: where the curvature
        is known at its bound, and where it is as small as is likely. Between the two
        the slopes fade in: a doubtful order of the records is kept, at little risk for
        the loss.
        """
        least = self._curvature.typical / _ABOVE_MOST / self.values
        least = np.where(self._hidden, np.clip(least, _LIKELY, 1.0), 1.0)
        share = self._divided - self.values[:, None] / 2 * self._divided**2

        def by_noise(ratios):
            of_noise = self._variance(ratios, self._sampling) * share
            return of_noise.sum(axis=0), np.linalg.norm(of_noise, axis=0)

        (mean, spread), (larger, wider) = map(
            by_noise, (self._at_bound, self._at_bound * least[:, None])
        )
        little, enough = mean + math.sqrt(2) * spread, larger + math.sqrt(2) * wider
        faded = (self._gain - little) / np.maximum(enough - little, 1e-300)
        return np.clip(faded, 0.0, 1.0)

    def searched(self, search: LineSearch, scores, start: Floats, ridge) -> _Length:
        """What a search and the descent itself say, each as far as it is sure.

        `scores` are those of the slopes: means, variances and the noise of these.
        """
        curvature, sampling = self._curvature, self._sampling
        means, squares, doubt = scores
        known = np.clip(self._part, 0.0, 1.0)[:, None] * self._flatness
        lengths = np.square(self.slopes).sum(axis=0)
        by_chance = self._variance(known, sampling) * self._divided**2
        bend = ridge * np.maximum(lengths - by_chance.sum(axis=0), 0.0)
        # Slopes were learnt from the sampled gradient, as far as they carry it.
        bends = known.mean(axis=1) * self._spreads[0]
        _, shared = self._of_steps(self._bent(bends.T))
        learnt = self._drawn * (bends * np.sqrt(shared.T)).mean(axis=0) @ self._divided
        path = Path(
            slopes=self.slopes,
            center=means,
            variance=squares,
            doubt=doubt,
            typical=curvature.typical / curvature.factor * lengths,
            start=start,
            bend=bend,
            overfit=sampling * learnt,
            sampling=sampling,
            flatness=self._flatness,
        )
        scale, error, by_draw, bends, noise, of_falls = search.scale(path)
        if not search.lengthens:
            return _Length(np.minimum(scale, 1.0))
        own, own_error, own_by_draw, longer = self._said(known, bends, noise)
        error = error + (_BEYOND * scale) ** 2
        trust = error / np.maximum(own_error + error, 1e-300)
        of_bends = scale * noise / np.maximum(bends, 1e-100)
        error = error - by_draw + (CAUTION * of_bends) ** 2
        own_error = own_error - own_by_draw
        both = 2 * trust * (1 - trust)
        spread = np.sqrt(np.maximum(squares, 1e-300))
        return _Length(
            np.minimum(scale + trust * (own - scale), search.most / spread),
            trust**2 * own_error + (1 - trust) ** 2 * error + both * longer * of_bends,
            squares,
            of_falls=(1 - trust) ** 2 * of_falls,
            alike=both * own_error,
        )

    def _said(self, known: Floats, bends: Floats, bends_noise: Floats):
        """What the descent itself says of the scale, and the variance of that.

        Then what of it is by who was drawn, and by how much it says more where the
        curvature is smaller by its noise.

        It says 1, but for the noise in its slopes and for what few steps and their
        ridge lose, where the loss is as flat along the slopes as the search found.
        """
        chosen, divided = self._chosen, self._divided
        weight = self.values[:, None] * chosen**2
        at_most = np.maximum(weight.sum(axis=0), 1e-100)
        relative = at_most / np.maximum((known * weight).sum(axis=0), 1e-100)

        def lost(bends):
            ratios = np.clip(bends / at_most, 0.0, 1.0) * relative
            ratios = self._bent(np.minimum(known * ratios, 1.0))
            carried = ratios * np.sqrt(self._of_steps(ratios)[1])
            return 1 - (weight * carried).sum(axis=0) / at_most

        fresh, shared = self._of_steps(self._bent(known))
        by_draw = self._drawn[:, None] * known * shared * self._sampling
        noisy = self._profiled[:, None] * fresh + by_draw
        own = (self._signal * chosen - noisy * divided).sum(axis=0)
        own = np.maximum(own, 0.0) / at_most
        error = (noisy * chosen**2 + 2 * np.square(noisy * divided)).sum(axis=0)
        by_draw = (by_draw * chosen**2).sum(axis=0)
        added = (noisy * divided).sum(axis=0) / at_most
        flatter = lost(bends - bends_noise)
        unsure = _UNSURE * np.hypot(flatter, added)
        kept, less = (np.maximum(1 - one, 1e-3) for one in (lost(bends), flatter))
        by_draw, error = by_draw / at_most**2, error / at_most**2 + unsure**2
        longer = own / less - own / kept
        return own / kept, error / kept**2, by_draw / kept**2, longer

    @property
    def _known_part(self) -> Floats:
        return np.clip(self._part, _LEAST_PART, _MOST_PART)

    @property
    def hides_too_much(self) -> bool:
        """Whether noise hides so much variance that errors are not told."""
        variances = self._known_part * self.values
        return variances[self._hidden].sum() > _MOST_HIDDEN * variances.sum()

    @property
    def _spreads(self) -> tuple[Floats, Floats]:
        """What curvature may be relative to its mean in a direction, (n_nodes, d).

        What is hidden varies between zero and the floor: so, with the mean that is
        known. And the directions are not those of the true second moments: noise mixes
        them, seen ones too, with a variance that is known: where much is mixed, some
        directions are flat. What is lost depends on the slopes; noise is averaged over
        all that is mixed.
        """
        part, values, hidden = self._known_part, self.values, self._hidden
        power = np.where(hidden, (1 / np.minimum(part, 1.0) - 1) / 2, 0.0)
        pairs = np.outer(part * values, part * values)
        pairs = np.minimum(self._curvature.noise**2 / 2, pairs)
        pairs[hidden[:, None] & hidden | np.eye(len(values), dtype=bool)] = 0.0
        varied = (pairs / np.outer(values, values)).sum(axis=1)
        varied = np.maximum(varied, (part * power) ** 2 / (2 * power + 1))
        spread = _NODES[:, None] ** power * (1 + power)
        return spread, _between(part, varied) / part

    def _at_nodes(self, ratios: Floats) -> Floats:
        """Fresh and shared noise with the ridge during the descent, (2, n_nodes, d)."""
        damping = np.tile(self._damping, len(ratios))
        found = _carried(ratios.ravel(), *self.steps, damping)
        return np.reshape(found, (2, *ratios.shape))

    def covariance(self, length: _Length, means: Floats, at_scores) -> Floats:
        """Of the errors of slopes of this length, whose scores have these means."""
        part, values, chosen = self._known_part, self.values, self._chosen
        hidden, variances = self._hidden, self._known_part * self.values
        # Of the scores, less what noise alone would make of them.
        by_noise = self._variance(part, 0.0 * self._sampling) * self._divided**2
        spread = variances @ (chosen**2 - by_noise) / self._curvature.factor
        spread = length.scale**2 * np.maximum(spread, 0.0)
        spreads, mixed = self._spreads
        covariance = []
        *at, flattens, before = at_scores(means, spread)
        length = length.on_a_curve(flattens, before)
        for k, (sampled, true) in enumerate(zip(*at, strict=True)):
            flat = true / self._curvature.factor * part
            ratios, (_, shared) = spreads * flat, self._at_nodes(spreads * flat)
            # As errors of scores: directions weigh by their variance.
            error = mixed * self._profiled * self._at_nodes(mixed * flat)[0]
            error += spreads * self._drawn * ratios * shared * sampled
            error, divided = error.mean(axis=0) / values, self._divided[:, k]
            # From zero on, few steps and their ridge lose a part of what they look for,
            # but for the mean of it, which the search made good.
            carried = length.scale[k] * ratios * np.sqrt(shared)
            told = chosen[:, k] ** 2 - error * divided
            told[hidden] = told[hidden].sum() / max(1, hidden.sum())
            told = np.maximum(told, 0.0)
            weight = variances * told
            if length.variance[k] > 0 and weight.any():
                mean = (spreads * carried).mean(axis=0) @ weight / weight.sum()
                carried = carried / mean
            lost = (spreads * (1 - carried) ** 2).mean(axis=0)
            # A scale above two says that the ridge was far too large for the noise.
            divided = np.minimum(length.scale[k] ** 2 * divided, 4 / values)
            error = error * divided + lost * told
            errors = (self._vectors * error) @ self._vectors.T
            covariance.append(self._along_anew(errors, length, k, sampled / true**2))
        return np.stack(covariance)

    def _along_anew(self, errors: Floats, length: _Length, k: int, by_draw) -> Floats:
        """With the error along the slopes as the search told it.

        Who was drawn moves what the search and the descent say alike, by what the fit
        leaves: `by_draw` is that variance per inverse second moment.
        """
        if length.variance[k] <= 0:
            return errors
        own, bent = self.slopes[:, k], self._likely @ self.slopes[:, k]
        # Where noise hides all of it, what is likely may be nothing, or less.
        least = max(_LEAST_PART * self.at_most[k], 1e-300)
        along = max(own @ bent, least)
        variance = by_draw / max(length.spread[k], least / self._curvature.factor)
        variance += length.variance[k]
        other = np.eye(len(own)) - np.outer(own, bent) / along
        return other @ errors @ other.T + variance * np.outer(own, own)
