"""The squared Wasserstein distance of samples on the line, and its gradient."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._shared.arguments import checked, flag, floats, number, numbers
from .._shared.exact_transport import (
    MAX_CODES,
    Floats,
    Integers,
    SortedCodes,
    grid_codes,
    sort_codes,
    sort_samples,
    transport_of_codes,
    transport_of_samples,
)

# Wider ranges would overflow.
_LARGEST = 1e300


@checked(
    outputs=numbers, low=number(-_LARGEST, _LARGEST), high=number(-_LARGEST, _LARGEST)
)
def quantise(outputs: ArrayLike, low: float, high: float) -> Integers:
    """Round outputs to a grid of ``RESOLUTION`` steps over a public range.

    Sums of integer codes are exact, so a record's share in the gradient does not
    depend on rounding elsewhere in the sample.

    Parameters
    ----------
    outputs : array-like of shape (n,), float
        Outside [low, high] they are moved to its ends; NaN becomes ``low``.
    low, high : float
        Public range, ``low < high``.

    Returns
    -------
    ndarray of shape (n,), int64
        Codes in [0, ``RESOLUTION``].  One step is ``(high - low) / RESOLUTION`` in
        units of the outputs.

    Raises
    ------
    ValueError
        If the range is empty.

    Examples
    --------
    >>> from fairpriv_sklearn.transport import RESOLUTION, quantise
    >>> codes = quantise([-3.0, 0.0, 0.5, 1.0], 0.0, 1.0)
    >>> (codes / RESOLUTION).tolist()
    [0.0, 0.0, 0.5, 1.0]
    """
    if not low < high:
        raise ValueError(f"low must be smaller than high, got {low} and {high}")
    return grid_codes(np.asarray(outputs, dtype=np.float64), low, high)


@checked(u=numbers, v=numbers, return_gradient=flag)
def wasserstein_1d(
    u: ArrayLike, v: ArrayLike, *, return_gradient: bool = False
) -> float | tuple[float, Floats, Floats]:
    r"""Squared 2-Wasserstein distance between two samples, by one merge.

    .. math::

        W_2^2(u, v) = \int_0^1 (Q_u(t) - Q_v(t))^2\,dt, \qquad
        \frac{\partial W_2^2}{\partial u_i} = \frac{2}{n} (u_i - T_i),

    where :math:`T_i` is the mean of the quantile function :math:`Q_v` over the ranks
    of :math:`u_i`, averaged over the records tied with it.

    Parameters
    ----------
    u : array-like of shape (n,), float or int
        Non-empty sample.  Integer codes from :func:`quantise` give results in units
        of one step.
    v : array-like of shape (m,), float or int
        Non-empty sample of any size.
    return_gradient : bool, default=False
        Whether to return the gradients too.

    Returns
    -------
    distance : float
        In squared units of the samples.
    gradient_u : ndarray of shape (n,)
    gradient_v : ndarray of shape (m,)
        Derivatives with respect to each record, in the given order.  Only returned
        if ``return_gradient`` is true.  At ties, where the distance has no
        derivative, the average over all ways to order the tied records.

    Raises
    ------
    ValueError
        If a sample is empty, has more than one dimension or is not finite.

    Notes
    -----
    Time is :math:`O((n+m) \log(n+m))`, almost all of it for sorting; memory is
    :math:`O(n+m)`.

    Permuting a sample permutes its gradient and changes nothing else, bit for bit.
    For codes from :func:`quantise` the sum behind a block of tied records is an exact
    integer, rounded once; for floats it is a pairwise sum whose relative error is a few
    units in the last place.

    Examples
    --------
    >>> from fairpriv_sklearn.transport import wasserstein_1d
    >>> distance, gradient_u, gradient_v = wasserstein_1d(
    ...     [0.0, 1.0], [2.0], return_gradient=True
    ... )
    >>> distance
    2.5
    >>> gradient_u, gradient_v
    (array([-2., -1.]), array([3.]))
    """
    samples = {"u": np.asarray(u), "v": np.asarray(v)}
    if all(map(_are_codes, samples.values())):
        orders, coded = zip(*map(sort_codes, samples.values()), strict=True)
        found = transport_of_codes(*map(SortedCodes, coded))
    else:
        rows = [floats(1)(*sample) for sample in samples.items()]
        if not return_gradient:
            return transport_of_samples(*map(np.sort, rows)).distance
        orders, in_order = zip(*map(sort_samples, rows), strict=True)
        found = transport_of_samples(*in_order)
    if not return_gradient:
        return found.distance
    given = []
    for order, gradient in zip(orders, found[1:], strict=True):
        given.append(np.empty_like(gradient))
        given[-1][order] = gradient
    return found.distance, given[0], given[1]


def _are_codes(values: NDArray) -> bool:
    if values.ndim != 1 or not values.size or values.dtype.kind not in "iu":
        return False
    return 0 <= values.min() <= values.max() < MAX_CODES
