"""Equal bins of a public range, the scores in them, and the grid of the answers.

`quantize_scores`, `bin_scores` and `distinct_scores` alone see private scores; the
first two are pure functions of one score.
"""

import numpy as np

# Scores are rounded to this part of their range before they are binned (or hashed):
# the last bits of a base model's output depend on the machine and the batch.
SCORE_STEPS = 2**32


def quantize_scores(scores: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Clip scores into `bounds` and round them to ``2**-32`` of the range.

    Parameters
    ----------
    scores : ndarray of any shape
        Infinite scores go to the nearest bound and NaN to the lower one, a rule that
        does not look at the other scores.
    bounds : (float, float)
        Public range ``(s, t)``, ``s < t``.

    Returns
    -------
    steps : ndarray of int64, same shape
        Number of steps above ``s``, from 0 to ``2**32``.
    """
    lower, upper = map(float, bounds)
    scores = np.asarray(scores, dtype=np.float64)
    scores = np.clip(np.where(np.isnan(scores), lower, scores), lower, upper)
    return np.rint((scores - lower) / (upper - lower) * SCORE_STEPS).astype(np.int64)


def bin_scores(
    scores: np.ndarray, bounds: tuple[float, float], n_bins: int
) -> np.ndarray:
    """Return the index of the bin, 0 to ``n_bins - 1``, that holds each score.

    The bins divide `bounds` equally and include their lower edge; the last one also
    includes the upper bound. `scores` and `bounds` are as in `quantize_scores`.
    """
    # A rounded score stands for an interval of one step and is placed by its upper
    # end: a score on an edge is in the upper bin, however its rounding went.
    steps = 2 * quantize_scores(scores, bounds) + 1
    return np.minimum(steps * n_bins // (2 * SCORE_STEPS), n_bins - 1)


def output_grid(
    bounds: tuple[float, float], n_bins: int, refinement: int
) -> np.ndarray:
    """Return the values that outputs may take: `refinement` points per bin.

    The points are ``1 / refinement`` of a bin apart and every bin centre is one of
    them (see `centre_indices`). For odd `refinement` they are the centres of equal
    parts of the bins, ``n_bins * refinement`` in all. For even `refinement` they
    include the bin edges instead, and are one more.
    """
    lower, upper = map(float, bounds)
    first = refinement // 2
    n_points = centre_indices(n_bins, refinement)[-1] + first + 1
    in_bins = 0.5 + (np.arange(n_points) - first) / refinement
    return lower + (upper - lower) * in_bins / n_bins


def centre_indices(n_bins: int, refinement: int) -> np.ndarray:
    """Return the positions of the bin centres in the output grid."""
    return refinement // 2 + refinement * np.arange(n_bins)


def refine_pmfs(pmfs: np.ndarray, refinement: int) -> np.ndarray:
    """Put the mass of every bin on the centre of that bin in the output grid.

    Parameters
    ----------
    pmfs : ndarray of shape (n_groups, n_bins)
    refinement : int

    Returns
    -------
    refined : ndarray of shape (n_groups, n_points)
    """
    n_groups, n_bins = pmfs.shape
    centres = centre_indices(n_bins, refinement)
    refined = np.zeros((n_groups, centres[-1] + refinement // 2 + 1))
    refined[:, centres] = pmfs
    return refined


def distinct_scores(scores: np.ndarray, bounds: tuple[float, float]) -> int:
    """Count the distinct scores, after rounding to ``2**-32`` of the range.

    Sensitivity 1 under either relation: taking a record away lowers the number by one
    or not at all, and putting one in raises it by one or not at all.
    """
    steps = np.sort(quantize_scores(scores, bounds))  # np.unique is ten times slower
    return np.count_nonzero(steps[1:] != steps[:-1]) + (steps.size > 0)


def default_n_bins(n: float, epsilon: float, *, continuous: bool = False) -> int:
    """Return the number of bins for public `n` and `epsilon`.

    ``1.5 (n min(1, 4 epsilon)**2)**(1/3)``, rounded and kept in [8, 64]; three times as
    many for a continuous map from counts without noise, since nothing but the width of
    the bins is then in its way.
    """
    n_bins = 1.5 * (n * min(1.0, 4 * epsilon) ** 2) ** (1 / 3)
    if continuous and np.isinf(epsilon):
        return int(np.clip(round(3 * n_bins), 8, 192))
    return int(np.clip(round(n_bins), 8, 64))
