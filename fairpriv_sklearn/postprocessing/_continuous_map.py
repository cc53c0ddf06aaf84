"""Increasing maps from each group's scores to the target, without a grid."""

from dataclasses import dataclass

import numpy as np

# Equal parts of a bin in which a tolerance is kept by the continuous map.
SUB_BINS = 16
# Mass spread evenly over the range: distribution functions without it have flat
# stretches, where the map would jump.
UNIFORM_MASS = 1e-3

# Levels of a barycenter without a grid; hundreds of groups would have more.
MOST_LEVELS = 1 << 14


@dataclass(frozen=True, eq=False)
class ContinuousMap:
    r"""The increasing maps :math:`Q_a^{-1} \circ F_a` of one score column.

    Parameters
    ----------
    edges : ndarray of shape (n_edges,)
        Where the distribution functions have their kinks.
    cdfs : ndarray of shape (n_groups + 1, n_edges)
        :math:`F_a` at the edges, the pooled population last.
    levels, values : ndarray of shape (n_groups + 1, n_points)
        Points of the target quantile functions :math:`Q_a^{-1}`.
    window : ndarray of shape (2,)
        Scores beyond are moved as far as its end.
    """

    edges: np.ndarray
    cdfs: np.ndarray
    levels: np.ndarray
    values: np.ndarray
    window: np.ndarray

    def __call__(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Map the scores of each group; code -1 is the pooled population."""
        inside = scores.clip(*self.window)
        mapped = scores - inside
        n_groups = len(self.cdfs)
        for code in range(n_groups):
            rows = np.flatnonzero(codes % n_groups == code)
            level = np.interp(inside[rows], self.edges, self.cdfs[code])
            mapped[rows] += np.interp(level, self.levels[code], self.values[code])
        return mapped


def fine_pmfs(pmfs: np.ndarray) -> np.ndarray:
    """Masses in equal parts of the bins, all of them positive."""
    pmfs = (1 - UNIFORM_MASS) * pmfs + UNIFORM_MASS / pmfs.shape[1]
    return np.repeat(pmfs / SUB_BINS, SUB_BINS, axis=1)


def continuous_map(transport, scale, window) -> ContinuousMap:
    r"""Read the continuous maps off a transport between equal bins of a `Scale`.

    A distribution that is even within bins has a distribution function that is linear
    between their edges. The solver's window :math:`[c_l, c_l + \alpha]` holds at the
    edges and, as interpolation is monotone, between them.

    With tolerance zero the target is the barycenter without a grid,
    :math:`F_s \mapsto \sum_r w_r F_r^{-1}`.
    """
    n_groups, k = transport.source_cdf.shape
    edges = scale.inverse(np.linspace(0, 1, k + 1))
    weights = transport.weights / transport.weights.sum()
    cdfs = np.vstack([transport.source_cdf, weights @ transport.source_cdf])
    nothing = np.zeros((n_groups + 1, 1))
    cdfs = np.hstack([nothing, cdfs])
    cdfs[:, -1] = 1.0
    if transport.tolerance == 0:
        levels = np.unique(cdfs[:-1])
        # Any increasing target is as fair: between so many levels a line will do.
        levels = levels[:: -(-len(levels) // MOST_LEVELS)]
        levels[-1] = 1.0
        values = np.zeros(len(levels))
        for weight, cdf in zip(weights, cdfs, strict=False):
            values += weight * np.interp(levels, cdf, edges)
    else:
        targets = np.vstack([transport.target_cdf, transport.barycenter_cdf])
        levels, values = np.hstack([nothing, targets]), edges
    shape = (n_groups + 1, len(values))
    levels, values = (np.broadcast_to(one, shape) for one in (levels, values))
    return ContinuousMap(edges, cdfs, levels, values, window)
