r"""Points fitted to noisy tables of all pairs of columns: public arithmetic.

A record of class y is drawn by drawing a point, and then every column by itself:

.. math::

    P(y, x) = \sum_k w_k \, e^{b_y} \prod_a p_{ka}(x_a) \, e^{f_{ya}(x_a)} .

The points carry what the columns have to do with each other; the class tilts them, so
that the log odds of the class are a sum over the columns, as in an additive model, and
in every class the distribution is again one of points. The points lie in a space of few
dimensions, and their logits are linear in it. The logits are those whose
tables of class and column, and products of features of all pairs of columns, are
nearest to the noisy ones, in the norm of their noise, with a Gaussian prior that keeps
points near the margins and neighbouring bins alike (relaxed projection [1]_ [2]_ with
soft records). The tables of class and column are then raked, as far as they were off by
more than their noise.

References
----------
.. [1] S. Aydore, W. Brown, M. Kearns, K. Kenthapadi, L. Melis, A. Roth, A. Siva,
   "Differentially Private Query Release Through Adaptive Projection", ICML 2021.
.. [2] T. Liu, G. Vietri, Z. S. Wu, "Iterative Methods for Private Synthetic Data:
   Unifying Framework and New Methods", NeurIPS 2021.
.. [3] W. James, C. Stein, "Estimation with Quadratic Loss", Berkeley Symposium 1961.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

# Points of a fit, of all classes and of one; fits that are averaged; steps of each.
ALL_POINTS, MOST_POINTS, N_FITS, N_STEPS = 256, 128, 10, 450
# A point of a fit has records for this many deviations of the noise of a cell, and
# this many, or more, and a step this many.
NOISE_PER_POINT = 1.2
ROWS_PER_POINT, ROWS_PER_STEP, FEWEST_STEPS = 60, 5, 50
# Dimension of the space that the points lie in.
RANK = 24
# First rates of the points and of the class effects, and spread of the start.
RATE, EFFECT_RATE, SPREAD = 0.05, 0.015, 0.5
# Prior deviations of the logits of a point from the margin's, in the mean over the bins
# of a column, and of their change from one bin to the next; the same of class effects.
# Those of a point are multiplied by something in `SPREADS`, column by column.
PRIORS = ((1.2, 0.8), (0.5, 0.6))
SPREADS = 0.3, 3.0
# No table is taken to be more exact than this part of the records.
EXACT = 1e-4
RAKING_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Targets:
    """Noisy tables in shares of the records, and the precision of their noise.

    Attributes
    ----------
    n : float
        Number of records.
    starts : ndarray of shape (A + 1,)
        Where the bins of the columns begin.
    pairs, precision : ndarray of shape (Q, Q)
        Products of features of two columns. Symmetric; the precision is zero where
        nothing was released.
    classes, class_precision : ndarray of shape (C, D)
    smooth : ndarray of shape (D - 1,)
        Whether a bin and the next are neighbours.
    features : ndarray of shape (D, Q)
        Of the bins of each column, block by block.
    """

    n: float
    starts: np.ndarray
    pairs: np.ndarray
    precision: np.ndarray
    classes: np.ndarray
    class_precision: np.ndarray
    smooth: np.ndarray
    features: np.ndarray


def targets_of(tables, deviations, pairs, pair_deviations, smooth, features) -> Targets:
    """Lay all tables side by side.

    Parameters
    ----------
    tables : list of ndarray of shape (C, m_a)
        Counts of class and bin.
    deviations : list of ndarray of shape (C, m_a)
        Of their noise.
    pairs : dict of (int, int) to ndarray of shape (q_a, q_b)
        Noisy sums of products of features.
    pair_deviations : dict of (int, int) to float
    smooth : list of ndarray of shape (m_a,)
        Whether a bin and the next are neighbours.
    features : list of ndarray of shape (m_a, q_a)
    """
    n = tables[0].sum()
    starts = np.concatenate([[0], np.cumsum([t.shape[1] for t in tables])])
    ends = np.cumsum([f.shape[1] for f in features])
    blocks = [slice(e - f.shape[1], e) for e, f in zip(ends, features, strict=True)]
    shares, precision = np.zeros((2, ends[-1], ends[-1]))
    for (a, b), table in pairs.items():
        shares[blocks[a], blocks[b]] = table / n
        precision[blocks[a], blocks[b]] = max(pair_deviations[a, b] / n, EXACT) ** -2
    return Targets(
        n,
        starts,
        shares + shares.T,
        precision + precision.T,
        np.concatenate(tables, axis=1) / n,
        np.maximum(np.concatenate(deviations, axis=1) / n, EXACT) ** -2.0,
        np.concatenate(smooth)[:-1],
        block_diag(*features),
    )


def fit_points(targets: Targets, public):
    """Weights (C, K) and distributions (C, K, D), from several starts together."""
    fits = [_fit(targets, public) for _ in range(N_FITS)]
    weights, tables = zip(*fits, strict=True)
    return np.concatenate(weights, axis=1) / N_FITS, np.concatenate(tables, axis=1)


def _fit(targets, public):
    """Adam on the logits, from a start around the margins."""
    C, D = targets.classes.shape
    by_noise = targets.precision.max() ** 0.5 / NOISE_PER_POINT
    K = min(ALL_POINTS / C, by_noise / C, targets.n / ROWS_PER_POINT)
    K = int(np.clip(K, 8, MOST_POINTS))
    starts, widths = targets.starts[:-1], np.diff(targets.starts)
    unit = max(targets.precision.max(), targets.class_precision.max())
    features, pairs, classes, precision, class_precision, smooth, spread = (
        x.astype(np.float32)
        for x in (
            targets.features,
            targets.pairs,
            targets.classes,
            targets.precision / unit,
            targets.class_precision / unit,
            targets.smooth * K / unit,
            np.repeat(_spread(targets), widths),
        )
    )
    ridge = np.repeat(K / unit / widths, widths).astype(np.float32)
    margins = np.log(np.maximum(classes.sum(axis=0), 1e-6))
    shapes = [(RANK, D), (C, D), (K,), (C,), (K, RANK)]
    logits = [np.zeros(shape, np.float32) for shape in shapes]
    logits[0] += SPREAD / RANK**0.5 * public.standard_normal((RANK, D))
    logits[4] += public.standard_normal((K, RANK))
    by_class = classes[:, : widths[0]].sum(axis=1, keepdims=True)
    logits[3] += np.log(np.maximum(by_class[:, 0], 1e-6))
    # half of what a column alone says, as far as it stands out of the noise
    noise = np.maximum(targets.class_precision**-0.5, EXACT).astype(np.float32)
    expected = by_class * classes.sum(axis=0) + noise
    logits[1] += np.log((classes + noise) / expected) / 2
    first, second = ([np.zeros_like(x) for x in logits] for _ in range(2))
    tables = features, precision, pairs, class_precision, classes
    deviations = [spread / np.float32(RANK**0.5), np.ones(D, np.float32)]
    n_steps = int(np.clip(targets.n / ROWS_PER_STEP, FEWEST_STEPS, N_STEPS))
    for t in range(1, n_steps + 1):
        loadings, *others, places = logits
        gradient = _gradient([places @ loadings, *others], margins, starts, tables)
        gradient = [K * g for g in gradient]
        gradient.append(gradient[0] @ loadings.T + places * np.float32(2 * K / unit))
        gradient[0] = places.T @ gradient[0]
        for x, g, of, (deviation, change) in zip(
            logits, gradient, deviations, PRIORS, strict=False
        ):
            g += x * (ridge / (of * np.float32(deviation)) ** 2)
            step = smooth * np.diff(x, axis=1) / (of[1:] * np.float32(change)) ** 2
            g[:, 1:] += step
            g[:, :-1] -= step
        decay = min(1.0, 2 * (1 - t / n_steps) + 0.02) / (1 - 0.9**t)
        rates = (RATE, EFFECT_RATE, RATE, EFFECT_RATE, RATE)
        for x, g, m, v, rate in zip(
            logits, gradient, first, second, rates, strict=True
        ):
            m += 0.1 * (g - m)
            v += 0.01 * (g * g - v)
            x -= decay * rate * m / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
    loadings, *others, places = logits
    w, p, _ = _distributions([places @ loadings, *others], margins, starts, widths)
    return w.astype(np.float64), p.astype(np.float64)


def _spread(targets) -> np.ndarray:
    """How much more than the mean a column has to do with the others, (A,).

    Squares of the covariances of its features with all others, less their noise, per
    variance of its features.
    """
    margins = targets.classes.sum(axis=0)
    means = margins @ targets.features
    seen = targets.precision > 0
    noise = 1 / np.where(seen, targets.precision, 1.0)
    covariances = np.where(seen, (targets.pairs - np.outer(means, means)) ** 2, noise)
    starts = targets.starts[:-1]
    own = np.add.reduceat(targets.features != 0, starts, axis=0) > 0  # (A, Q)
    squares = own @ (covariances - noise).sum(axis=1)
    variances = own @ (margins @ targets.features**2 - means**2)
    strength = np.maximum(squares, 0.0) / np.maximum(variances, 1e-9)
    return np.clip(strength / max(strength.mean(), 1e-300), *SPREADS)


def _gradient(logits, margins, starts, targets) -> list:
    """Gradient of the squared distances of all tables, each by its precision."""
    features, precision, pairs, class_precision, classes = targets
    widths = np.diff(starts, append=len(margins))
    w, p, base = _distributions(logits, margins, starts, widths)
    flat = p.reshape(-1, len(margins))
    seen = flat @ features
    off = precision * ((seen * w.reshape(-1, 1)).T @ seen - pairs)
    slope = (seen @ off @ features.T).reshape(p.shape)  # (C, K, D)
    gain = (slope * p).sum(axis=2)
    off = class_precision * (np.einsum("ck,ckd->cd", w, p) - classes)
    slope = 2 * (slope + off[:, None])
    gain += 2 * (off[:, None] * p).sum(axis=2)
    gain = w * (gain - (w * gain).sum())
    slope *= w[:, :, None] * p
    inner = np.add.reduceat(slope, starts, axis=2)
    slope += p * (gain[:, :, None] - np.repeat(inner, widths, axis=2))
    both = slope.sum(axis=0)
    inner = np.add.reduceat(both, starts, axis=1)
    both = both - base * np.repeat(inner, widths, axis=1)
    return [both, slope.sum(axis=1), gain.sum(axis=0), gain.sum(axis=1)]


def _distributions(logits, margins, starts, widths):
    """Weights (C, K) and distributions (C, K, D); those of the points alone (K, D)."""
    points, effects, weights, classes = logits
    base = np.exp(np.clip(margins + points, -30, 30))
    base /= np.repeat(np.add.reduceat(base, starts, axis=1), widths, axis=1)
    p = base * np.exp(np.clip(effects[:, None], -30, 30))
    totals = np.add.reduceat(p, starts, axis=2)
    p /= np.repeat(totals, widths, axis=2)
    exponents = weights + classes[:, None] + np.log(totals).sum(axis=2)
    w = np.exp(exponents - exponents.max())
    return w / w.sum(), p, base


def rake(weights, points, targets):
    """Tilt the points until tables of class and column agree up to their noise.

    Iterative proportional fitting of one column after the other. Of what a row of a
    table is off, the part stays that noise alone makes [3]_.
    """
    blocks = [slice(s, e) for s, e in itertools.pairwise(targets.starts)]
    variance = 1 / targets.class_precision
    variance = np.where(variance <= EXACT**2, 0.0, variance)
    means = np.einsum("ck,ckd->cd", weights, points)
    wanted = targets.classes - means
    for block in blocks:
        noise = variance[:, block].sum(axis=1, keepdims=True)
        energy = np.maximum((wanted[:, block] ** 2).sum(axis=1, keepdims=True), 1e-300)
        wanted[:, block] *= np.maximum(0.0, 1 - noise / energy)
    wanted = np.maximum(wanted + means, 0.0)
    points = points.copy()
    for _ in range(RAKING_ROUNDS):
        for block in blocks:
            means = np.einsum("ck,ckd->cd", weights, points[:, :, block])
            tilt = wanted[:, block] / np.maximum(means, 1e-300)
            points[:, :, block] *= tilt[:, None]
            total = np.maximum(points[:, :, block].sum(axis=2), 1e-300)
            points[:, :, block] /= total[:, :, None]
            weights = weights * total
        weights = weights / weights.sum()
    return weights, points
