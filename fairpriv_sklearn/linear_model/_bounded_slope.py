r"""The logistic loss with its slope cut off, and what its scores mean.

The slope :math:`\sigma(s) - y`, cut off at 1/2 and -1/2, does not decrease in s: it is
the derivative of a convex loss [1]_, and one record changes a sum of such slopes half
as much. Where the score is unrestricted the expected slope vanishes at the score with

.. math:: \eta = \frac{2 p}{1 + 2 p}, \qquad p = \sigma(s) \le \tfrac12,

and mirrored above, :math:`\eta` the probability of the label: that is the link.

References
----------
.. [1] S. Song, T. Steinke, O. Thakkar, A. Thakurta. "Evading the Curse of
   Dimensionality in Unconstrained Private GLMs". AISTATS, 2021.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, logit

from .._shared.arrays import Floats

SLOPE = 0.5
"""Where slopes are cut off; below it no link would exist."""

LINK_SLOPE = 1 / 6
"""Largest derivative of the link, at p = 1/4."""


def bounded_slopes(scores: Floats, is_class: NDArray) -> Floats:
    """Derivative of the loss in each score; `is_class` is 0 or 1, of the same shape."""
    # The logistic function: NumPy has a fast hyperbolic tangent.
    p = 0.5 * scores
    np.tanh(p, out=p)
    p *= 0.5
    p += 0.5
    np.subtract(p, is_class, out=p)
    np.maximum(p, -SLOPE, out=p)
    return np.minimum(p, SLOPE, out=p)


def largest_slopes(n_outputs: int) -> float:
    """Norm of the slopes of one record, those of all outputs together."""
    return SLOPE * math.sqrt(min(n_outputs, 2))


def shortened(slopes: Floats) -> Floats:
    """The slopes, in their place, of records whose norm would be larger scaled down.

    These are wrong by one half about more than two classes, which few records are.
    """
    n_outputs = slopes.shape[1]
    if n_outputs > 2:
        # Of two rows at least: one alone, if long, is summed in another order.
        rows = slopes if len(slopes) > 1 else np.repeat(slopes, 2, axis=0)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[: len(slopes)]
        most = largest_slopes(n_outputs)
        slopes *= (most / np.maximum(norms, most))[:, None]
    return slopes


def linked(scores: Floats) -> Floats:
    """Probabilities that the scores stand for."""
    return linked_with_slopes(scores)[0]


def linked_with_slopes(scores: Floats) -> tuple[Floats, Floats]:
    """The same, and the derivatives of the link."""
    p = 2 * expit(-np.abs(scores))
    tail = p / (1 + p)
    return np.where(scores > 0, 1 - tail, tail), (1 - 1.5 * tail) * tail


def slopes_and_links(scores: Floats, is_class: NDArray) -> tuple:
    """What :func:`bounded_slopes` and :func:`linked_with_slopes` say, at one price.

    Values near 0 are not told as well as there.
    """
    e, is_positive = np.abs(scores), scores > 0
    np.exp(np.negative(e, out=e), out=e)
    # On the wrong side slopes are cut off: they are as large as that of a score of 0.
    p = np.maximum(e, is_positive != is_class)
    slopes = 1 + p
    p /= slopes
    p *= 1 - 2 * is_class.view(np.int8)
    np.multiply(e, 3, out=slopes)
    slopes += 1
    e += e
    e /= slopes  # the tail of the link
    np.divide(e, slopes, out=slopes)
    np.subtract(e, is_positive, out=e)
    return p, np.abs(e, out=e), slopes


def scores_of(probabilities: Floats) -> Floats:
    """Scores that stand for probabilities: the inverse of :func:`linked`."""
    tail = np.maximum(np.minimum(probabilities, 1 - probabilities), 1e-9)
    scores = logit(tail / (2 * (1 - tail)))
    return np.where(probabilities > 0.5, -scores, scores)


def at_constant(probabilities: Floats) -> tuple[Floats, Floats]:
    """Mean square and mean derivative of the slopes where all have one score.

    The score is the one that stands for these probabilities of the label.
    """
    tail = np.minimum(probabilities, 1 - probabilities)
    p = tail / (2 * (1 - tail))
    return (1 - tail) * p**2 + tail * SLOPE**2, (1 - tail) * p * (1 - p)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_LEAST = 1e-6  # variance of scores whose curvature is told


def at_normal(means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """The same where the scores are normal and the link holds for each of them."""
    scores = means[:, None] + np.sqrt(variances)[:, None] * _NODES
    weights = _WEIGHTS / _WEIGHTS.sum()
    squares, slopes = at_constant(linked(scores))
    return squares @ weights, slopes @ weights


def flattening(means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Of the loss along scores that are normal, the link holding for each of them.

    By how much its mean curvature, from the mean of the scores on, falls relative to
    itself as all of them get longer: at their own length, and at twice that.
    """
    apart = np.sqrt(np.maximum(variances, _LEAST))[:, None] * _NODES
    p, weights = linked(means[:, None] + apart), apart * _WEIGHTS

    def rise(length):
        there = means[:, None] + length * apart
        none, one = (bounded_slopes(there, label) for label in (0, 1))
        return ((none + p * (one - none)) * weights).sum(axis=1)

    def flattens(length):
        before, at, after = (rise(length * part) for part in (0.95, 1.0, 1.05))
        tangent, secant = (after - before) / 0.1, at - rise(0.0)
        return np.clip(1 - tangent / np.maximum(secant, 1e-300), 0.0, 1.0)

    return flattens(1.0), flattens(2.0)


def entropies(scores: Floats) -> Floats:
    """Log loss of the constant model with these scores, shared between the outputs."""
    p = linked(scores)
    if len(p) == 1:
        return entr(p) + entr(1 - p)
    return np.full(len(p), entr(p / p.sum()).sum() / len(p))
