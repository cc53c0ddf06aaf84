"""How far to go along the slopes that a descent found: what the loss says there.

Noisy gradients in many directions tell where to go. How far is one number, which a
small part of the budget tells much better than what bounds the curvature in all
directions at once. Constants were chosen on simulated tables (settings of the benchmark
``bad_bargain.py`` from seed 30,000 on), Adult, Credit default, Communities and
breast cancer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from .._shared.arrays import Floats
from .._training._line_search import posterior_mean

N_SEARCHES = 2
"""Releases of a search: the second looks where the first one led."""

SEARCH_SHARE = 0.2
"""Of the squared Gaussian-DP parameter, at most."""

_WIDTH = 1.0  # where scores are cut off as weights, in their standard deviations
_DOUBT = 0.5  # standard deviations of its noise that their variance is taken higher
_NARROWEST = 0.2  # of the standard deviation that this allows for
_FIRST = 2.0  # how far the first release looks: slopes end too short, mostly
_NEAREST, _FARTHEST = 0.3, 4.0  # the same, of the second one
_APART = 0.2  # by which curvature differs there, relative to itself
_LEAST_CURVATURE = 0.1  # of its bound, in units of what is typical, if noise hides it
CAUTION = 0.5  # standard deviations that curvature is taken higher
_RISK = 0.01  # of the constant model's loss, for slopes without any signal
_SHY = 0.62  # how risks fall with the rate of the prior: about (1 + _SHY * rate)**-2
_TINY = math.sqrt(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Path:
    """Slopes along which the loss is searched; public, (n_outputs,) each.

    Attributes
    ----------
    slopes : ndarray of shape (n_features, n_outputs)
    center : ndarray
        What mean their scores are taken for.
    variance : ndarray
        Of the scores, as released; 0 where there are no slopes.
    doubt : ndarray
        Standard deviation of its noise.
    typical : ndarray
        What slopes of this length have in directions that noise hides.
    start : ndarray
        Score of the constant model.
    bend : ndarray
        Curvature of the ridge along the slopes.
    overfit : ndarray
        By how much the loss falls faster on these records than on others, since the
        slopes were learnt from them.
    sampling : ndarray
        Variance of a gradient from table to table, per second moment.
    flatness : ndarray
        Of the loss, relative to the public stand-in for its curvature.
    """

    slopes: Floats
    center: Floats
    variance: Floats
    doubt: Floats
    typical: Floats
    start: Floats
    bend: Floats
    overfit: Floats
    sampling: Floats
    flatness: Floats


@dataclass(frozen=True)
class LineSearch:
    """What a model knows before the search; public.

    Attributes
    ----------
    ask : callable
        Of slopes, centre, start, bounds of the scores, how far to look: releases how
        fast the loss falls at the start and its curvature up to there, each with its
        noise.
    worth : ndarray of shape (n_outputs,)
        Loss of the constant model.
    curvature : float
        Public stand-in for the curvature of the loss, per second moment.
    spread : float
        Standard deviation that scores may well have.
    lengthens : bool, default=True
        Whether slopes may get longer: not those that a penalty holds short.
    most : float, default=inf
        Standard deviation that scores have at most: that of what they are to tell.
    """

    ask: Callable
    worth: Floats
    curvature: float
    spread: float
    lengthens: bool = True
    most: float = math.inf

    def scale(self, path: Path) -> tuple[Floats, ...]:
        r"""By what to multiply the slopes, and the variance of that.

        The derivative of the loss along the slopes, at the constant model, is a mean of
        bounded products. Scores are cut off at a standard deviation where they weigh
        these: noise falls more than signal. Of scores that are normal both derivative
        and curvature fall by the same known factor.

        Where noise leaves open whether the loss falls at all, the answer is the mean of
        what it may be, under an exponential prior: large enough a rate that slopes
        without any signal cost about `_RISK` of the constant model's loss.

        Returns
        -------
        scale : ndarray of shape (n_outputs,)
        variance : ndarray of shape (n_outputs,)
        by_draw : ndarray of shape (n_outputs,)
            Of it, by who was drawn.
        curvature : ndarray of shape (n_outputs,)
            Of the loss along the slopes.
        noise : ndarray of shape (n_outputs,)
            Of that.
        of_falls : ndarray of shape (n_outputs,)
            Of the variance, by the noise in how fast the loss falls.
        """
        none = path.variance + path.doubt <= _TINY
        variance = np.where(none, 1.0, path.variance + _DOUBT * path.doubt)
        bounds = _WIDTH * np.sqrt(variance)
        spread = np.sqrt(np.maximum(path.variance, _NARROWEST**2 * variance))
        steps = np.maximum(_FIRST, self.spread / spread)
        kept = erf(_WIDTH / math.sqrt(2))
        likely, likely_noise = (
            self.curvature * path.flatness * one for one in (path.variance, path.doubt)
        )
        least = _LEAST_CURVATURE * self.curvature * path.flatness
        least = np.maximum(least * path.typical, _TINY)
        falls, before = 0.0, None
        for n_asked in range(1, N_SEARCHES + 1):
            released = self.ask(path.slopes, path.center, path.start, bounds, steps)
            fall, curvature, fall_noise, noise = (one / kept for one in released)
            falls = falls + (fall - falls) / n_asked
            own = curvature
            if before is not None:
                apart = (_APART * np.maximum(own, least)) ** 2
                part = noise**2 / np.maximum(2 * noise**2 + apart, _TINY**2)
                curvature = part * before + (1 - part) * own
                noise = noise * np.hypot(part, 1 - part)
            before = own
            trust = likely_noise**2 / np.maximum(likely_noise**2 + noise**2, _TINY**2)
            noise = np.sqrt(trust) * noise
            curvature = trust * curvature + (1 - trust) * likely
            # What is typical stands for what the noise may hide, and for little more.
            floor = np.clip(noise, _LEAST_CURVATURE * least, least)
            curvature = np.maximum(curvature, floor)
            of_falls = fall_noise**2 / n_asked
            by_draw = path.sampling * variance
            error = of_falls + by_draw
            risk = error / (2 * curvature * _RISK * self.worth)
            rate = np.maximum(np.sqrt(risk) - 1, 0.0) / _SHY
            fall = posterior_mean(falls - path.overfit, np.sqrt(error), rate)
            bends = curvature + CAUTION * noise + path.bend
            # Slopes fit by chance only what they do not explain: of the loss of the
            # constant model they explain fall^2 / (2 bends), which is solved for.
            share = 2 * path.overfit / (bends * self.worth)
            longer = 2 * fall / (1 + np.sqrt(np.maximum(1 - share * fall, 0.0)))
            fall = np.minimum(longer, fall + path.overfit)
            found = np.where(none, 0.0, fall / bends)
            steps = np.clip(found, _NEAREST, _FARTHEST)
        varied = (error + (found * noise) ** 2) / bends**2
        parts = varied, by_draw / bends**2, of_falls / bends**2
        varied, by_draw, of_falls = np.where(none, 0.0, parts)
        return found, varied, by_draw, curvature, noise, of_falls
