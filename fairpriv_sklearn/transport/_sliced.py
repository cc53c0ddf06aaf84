"""Sliced Wasserstein distance between point clouds, and its gradient."""

import numpy as np

from fairpriv_sklearn._shared.arguments import checked, floats
from fairpriv_sklearn.transport._wasserstein import wasserstein_1d


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
    pairs = zip((X @ directions).T, (Y @ directions).T, strict=True)
    found = [wasserstein_1d(u, v, return_gradient=True) for u, v in pairs]
    distances, slopes, _ = zip(*found, strict=True)
    gradient = np.column_stack(slopes) @ directions.T / len(found)
    return float(np.mean(distances)), gradient
