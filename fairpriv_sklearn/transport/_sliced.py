"""Sliced Wasserstein distance between point clouds, and its gradient."""

import numpy as np

from fairpriv_sklearn._shared.arguments import checked, floats


@checked(X=floats(2), Y=floats(2), directions=floats(2))
def sliced_wasserstein(
    X: np.ndarray, Y: np.ndarray, directions: np.ndarray
) -> tuple[float, np.ndarray]:
    r"""Squared sliced 2-Wasserstein distance and its gradient in the points X.

    .. math::

        SW_2^2 = \frac1K \sum_k \int_0^1
        \big(Q_{X\theta_k}(t) - Q_{Y\theta_k}(t)\big)^2\,dt

    with :math:`Q` the quantile functions of the projected clouds, all points of a
    cloud weighing the same [1]_.

    Parameters
    ----------
    X, Y : ndarray of shape (n, d) and (m, d), float
        Points.
    directions : ndarray of shape (d, K), float
        One direction per column. In a private fit they must be drawn independently
        of the data.

    Returns
    -------
    value : float
        The squared distance.
    gradient : ndarray of shape (n, d), float64
        Gradient with respect to X. Where projections tie, one of the subgradients.

    References
    ----------
    .. [1] N. Bonneel, J. Rabin, G. Peyré, H. Pfister, "Sliced and Radon Wasserstein
       Barycenters of Measures", Journal of Mathematical Imaging and Vision 51, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.transport import sliced_wasserstein
    >>> value, gradient = sliced_wasserstein(
    ...     np.array([[0.0], [1.0]]), np.array([[3.0], [2.0]]), np.eye(1)
    ... )
    >>> value
    4.0
    >>> gradient
    array([[-2.],
           [-2.]])
    """
    if not X.shape[1] == Y.shape[1] == len(directions):
        raise ValueError(
            "X, Y and directions must agree, with shapes (n, d), (m, d) and (d, k), "
            f"got {X.shape}, {Y.shape} and {directions.shape}."
        )
    n, m = len(X), len(Y)
    projected = X @ directions
    order = np.argsort(projected, axis=0)
    sorted_x = np.take_along_axis(projected, order, axis=0)
    sorted_y = np.sort(Y @ directions, axis=0)
    lengths, in_x, in_y, first_of_x = _common_levels(n, m)
    difference = sorted_x[in_x] - sorted_y[in_y]  # (n_intervals, K)
    weighted = lengths[:, None] * difference
    value = float((weighted * difference).sum() / directions.shape[1])
    slopes = np.empty_like(projected)
    by_rank = np.add.reduceat(weighted, first_of_x, axis=0)
    np.put_along_axis(slopes, order, 2 * by_rank / directions.shape[1], axis=0)
    return value, slopes @ directions.T


def _common_levels(n, m):
    """Split [0, 1] so that both quantile functions are constant on every interval.

    In units of 1 / (n m) all levels are integers, so none is lost to rounding.
    """
    levels = np.union1d(np.arange(n + 1) * m, np.arange(m + 1) * n)
    starts = levels[:-1]
    first_of_x = np.searchsorted(starts, np.arange(n) * m)
    return np.diff(levels) / (n * m), starts // m, starts // n, first_of_x
