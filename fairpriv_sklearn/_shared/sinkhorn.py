r"""Entropic optimal transport between two weighted point clouds.

Given weights :math:`a, b` and a cost matrix :math:`C`, the entropic problem is

.. math::

    W_\lambda = \min_{P \mathbf 1 = a,\; P^\top \mathbf 1 = b}
    \langle P, C \rangle + \lambda\,\mathrm{KL}(P \,\|\, a b^\top)
    = \max_{f, g} \langle a, f \rangle + \langle b, g \rangle ,
    \qquad
    P_{ij} = a_i b_j \exp\!\big((f_i + g_j - C_{ij}) / \lambda\big),

where the maximum is over potentials that satisfy one of the marginal conditions.
Sinkhorn's algorithm [1]_ fits the rows and the columns in turn. The fast form works
with scalings of a kernel that already contains the potentials; scalings that grow
too large are absorbed into the potentials (Schmitzer [2]_), so a small
regularisation neither overflows nor underflows.

References
----------
.. [1] M. Cuturi, "Sinkhorn Distances: Lightspeed Computation of Optimal Transport",
   NeurIPS 2013.
.. [2] B. Schmitzer, "Stabilized Sparse Scaling Algorithms for Entropy Regularized
   Transport Problems", SIAM Journal on Scientific Computing 41(3), 2019.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from .arguments import checked, column, count, floats, number, optional
from .arrays import row_slices

# Scalings beyond this are absorbed. What underflows in the kernel is below 1e-308, so
# it carries less than 1e-208 of mass even at the largest pair of scalings.
_ABSORB_ABOVE = 1e50

_LARGEST = 1e150

# Rows of the kernel handled together, in elements: one block stays in the cache for
# both products of a sweep, which halves the memory traffic of large problems.
_BLOCK_ELEMENTS = 1 << 16


class SinkhornResult(NamedTuple):
    """What :func:`sinkhorn` returns.

    Parameters
    ----------
    plan : ndarray of shape (n, m), float64
        Transport plan. Its row sums equal ``a`` up to ``marginal_error``, its column
        sums equal ``b`` to rounding.
    cost : float
        Transport cost, the sum of ``plan * cost``.
    f, g : ndarray of shape (n,) and (m,), float64
        Dual potentials.
    n_iter : int
        Sweeps done. Depends on the inputs unless ``tol=None``.
    marginal_error : float
        Total absolute error of the row sums.
    """

    plan: np.ndarray
    cost: float
    f: np.ndarray
    g: np.ndarray
    n_iter: int
    marginal_error: float


@checked(
    cost=floats(2),
    regularization=number(1e-300, np.inf, closed="left"),
    a=optional(floats(1)),
    b=optional(floats(1)),
    max_iter=count(1),
    tol=optional(number(0, np.inf)),
)
def sinkhorn(
    cost: np.ndarray,
    regularization: float,
    a: np.ndarray | None = None,
    b: np.ndarray | None = None,
    *,
    max_iter: int = 1000,
    tol: float | None = 1e-9,
) -> SinkhornResult:
    r"""Solve the entropic transport problem between two weighted point sets.

    .. math::

        \min_{P \ge 0,\; P \mathbf 1 = a,\; P^\top \mathbf 1 = b}
        \langle P, C \rangle + \lambda\,\mathrm{KL}(P \,\|\, a b^\top)

    Parameters
    ----------
    cost : ndarray of shape (n, m), float
        Finite costs :math:`C`.
    regularization : float
        :math:`\lambda`, in units of the cost. Range: (0, inf).
    a, b : ndarray of shape (n,) and (m,), float, default=None
        Non-negative weights with equal totals. ``None`` means equal weights of
        total one.
    max_iter : int, default=1000
        Largest number of sweeps; one sweep fits all rows, then all columns.
    tol : float or None, default=1e-9
        Stop once the total absolute error of the marginals is at most ``tol``.
        ``None``: always do exactly ``max_iter`` sweeps, so that the number of
        iterations says nothing about the data.

    Returns
    -------
    SinkhornResult
        Plan, cost, potentials, number of sweeps, marginal error.

    Raises
    ------
    ValueError
        If the inputs do not form a transport problem.

    See Also
    --------
    point_cost : Costs between two point clouds.
    transport_gradient : Gradient of the transport cost with respect to points.

    Notes
    -----
    Scalings are kept inside a kernel that contains the potentials and are absorbed
    when they leave ``[1e-50, 1e50]``; a sweep that still fails is repeated with
    log-sum-exp, which cannot.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.transport import sinkhorn
    >>> result = sinkhorn(np.array([[0.0, 1.0], [1.0, 0.0]]), 0.1)
    >>> result.plan.round(4)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    cost, a, b = _check_problem(cost, a, b)
    with np.errstate(all="ignore"):
        return _solve(cost, float(regularization), a, b, max_iter, tol)


def _check_problem(cost, a, b):
    if not cost.size:
        raise ValueError("cost must not be empty.")
    n, m = cost.shape
    a = np.full(n, 1 / n) if a is None else a
    b = np.full(m, 1 / m) if b is None else b
    if a.shape != (n,) or b.shape != (m,):
        raise ValueError(f"a and b must have shapes ({n},) and ({m},) to match cost.")
    if not (_are_weights(a) and _are_weights(b)):
        raise ValueError("a and b must be non-negative, with a total > 0.")
    if not np.isclose(a.sum(), b.sum(), rtol=1e-6, atol=0):
        raise ValueError(f"a and b must have equal totals, got {a.sum()}, {b.sum()}.")
    return np.ascontiguousarray(cost), a, b


def _are_weights(w):
    return bool((w >= 0).all() and w.sum() > 0)


def _solve(cost, regularization, a, b, max_iter, tol):
    f, g = _first_potentials(cost, regularization)
    kernel = _kernel(cost, regularization, f, g)
    bv = b.copy()
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        u, columns = _sweep(kernel, a, bv)
        v = 1 / columns
        if _out_of_range(u) or _out_of_range(v):
            g = g + _log_ratio(bv, b)
            f, g, error = _log_sweep(cost, regularization, g, a, b)
            kernel = _kernel(cost, regularization, f, g)
            u, bv = np.ones(len(a)), b.copy()
        else:
            # the column marginal before the columns are fitted
            error = np.abs(bv * columns - b).sum() if tol is not None else np.inf
            np.multiply(b, v, out=bv)
        if tol is not None and error <= tol:
            break
    f, g = f + np.log(u), g + _log_ratio(bv, b)
    plan = kernel
    plan *= (a * u)[:, None]
    plan *= bv
    return SinkhornResult(
        plan=plan,
        cost=float(np.vdot(plan, cost)),
        f=regularization * f,
        g=regularization * g,
        n_iter=n_iter,
        marginal_error=float(np.abs(plan.sum(axis=1) - a).sum()),
    )


def _row_blocks(shape):
    return row_slices(shape[0], max(1, _BLOCK_ELEMENTS // shape[1]))


def _first_potentials(cost, regularization):
    """Give every row and every column of the kernel an entry 1, and none above."""
    f = cost.min(axis=1)
    g = np.full(cost.shape[1], np.inf)
    for rows in _row_blocks(cost.shape):
        np.minimum(g, (cost[rows] - f[rows, None]).min(axis=0), out=g)
    return f / regularization, g / regularization


def _kernel(cost, regularization, f, g):
    kernel = np.empty_like(cost)
    for rows in _row_blocks(cost.shape):
        part = np.multiply(cost[rows], -1 / regularization, out=kernel[rows])
        part += f[rows, None]
        part += g
        np.exp(part, out=part)
    return kernel


def _sweep(kernel, a, bv):
    """Return the row scalings and the column sums they lead to."""
    if kernel.size <= _BLOCK_ELEMENTS:
        u = 1 / (kernel @ bv)
        return u, (a * u) @ kernel
    u, columns = np.empty(len(a)), np.zeros(len(bv))
    for rows in _row_blocks(kernel.shape):
        u[rows] = 1 / (kernel[rows] @ bv)
        columns += (a[rows] * u[rows]) @ kernel[rows]
    return u, columns


def _out_of_range(scaling):
    # written so that nan counts as out of range
    return not (scaling.min() >= 1 / _ABSORB_ABOVE and scaling.max() <= _ABSORB_ABOVE)


def _log_ratio(bv, b):
    return np.where(b > 0, np.log(bv / b), 0.0)


def _log_sweep(cost, regularization, g, a, b):
    """One sweep in logarithms; also the column error before the columns are fitted."""
    scaled = cost / regularization
    f = -logsumexp(np.log(b) + g - scaled, axis=1)
    fitted = -logsumexp((np.log(a) + f)[:, None] - scaled, axis=0)
    # a column sum is b * exp(g - fitted): fitting makes it b
    return f, fitted, np.abs(b * np.expm1(g - fitted)).sum()


@checked(
    X=floats(2),
    Y=floats(2),
    l1_weight=number(0, np.inf, closed="left"),
    label_cost=number(0, np.inf, closed="left"),
)
def point_cost(
    X: np.ndarray,
    Y: np.ndarray,
    *,
    l1_weight: float = 0.0,
    x_labels: np.ndarray | None = None,
    y_labels: np.ndarray | None = None,
    label_cost: float = 0.0,
) -> np.ndarray:
    r"""Cost of moving each point of X to each point of Y.

    .. math::

        C_{ij} = \|x_i - y_j\|_2^2 + m \|x_i - y_j\|_1
        + \kappa\,\mathbf 1[\ell_i \ne \ell'_j]

    Parameters
    ----------
    X, Y : ndarray of shape (n, d) and (m, d), float
        Points.
    l1_weight : float, default=0.0
        :math:`m`. Range: [0, inf).
    x_labels, y_labels : ndarray of shape (n,) and (m,), default=None
        Class labels; both or neither.
    label_cost : float, default=0.0
        :math:`\kappa`, the cost of a label mismatch, in units of the cost.

    Returns
    -------
    ndarray of shape (n, m), float64
        Costs.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.transport import point_cost
    >>> point_cost(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]), l1_weight=1.0)
    array([[32.]])
    """
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y must have as many columns as each other, got {X.shape[1]} and "
            f"{Y.shape[1]}."
        )
    if max(np.abs(X).max(initial=0), np.abs(Y).max(initial=0)) > _LARGEST:
        raise ValueError(f"X and Y must not be above {_LARGEST:g}: squares overflow.")
    for name, labels, points in (("x_labels", x_labels, X), ("y_labels", y_labels, Y)):
        if labels is not None and len(column(name, labels)) != len(points):
            raise ValueError(f"{name} must have a label for each point.")
    cost = (X**2).sum(axis=1)[:, None] + (Y**2).sum(axis=1) - 2 * (X @ Y.T)
    np.maximum(cost, 0, out=cost)  # cancellation can leave a tiny negative number
    if l1_weight:
        cost += l1_weight * cdist(X, Y, "cityblock")
    if x_labels is not None and y_labels is not None:
        cost += label_cost * (np.asarray(x_labels)[:, None] != np.asarray(y_labels))
    return cost


@checked(
    plan=floats(2), X=floats(2), Y=floats(2), l1_weight=number(0, np.inf, closed="left")
)
def transport_gradient(
    plan: np.ndarray, X: np.ndarray, Y: np.ndarray, *, l1_weight: float = 0.0
) -> np.ndarray:
    r"""Gradient of the transport cost with respect to the points X.

    .. math::

        \nabla_{x_i} = \sum_j P_{ij} \big( 2 (x_i - y_j)
        + m\,\mathrm{sign}(x_i - y_j) \big)

    With the optimal plan this is the gradient of :math:`W_\lambda` itself, because
    the plan minimises it (envelope theorem).

    Parameters
    ----------
    plan : ndarray of shape (n, m), float
        Transport plan between X and Y.
    X, Y : ndarray of shape (n, d) and (m, d), float
        Points.
    l1_weight : float, default=0.0
        :math:`m`, as in :func:`point_cost`.

    Returns
    -------
    ndarray of shape (n, d), float64
        One gradient per row of X.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.transport import transport_gradient
    >>> transport_gradient(np.array([[1.0]]), np.array([[2.0]]), np.array([[0.5]]))
    array([[3.]])
    """
    if plan.shape != (len(X), len(Y)) or X.shape[1] != Y.shape[1]:
        raise ValueError(
            "plan, X and Y must have shapes (n, m), (n, d) and (m, d), got "
            f"{plan.shape}, {X.shape} and {Y.shape}."
        )
    gradient = plan @ Y
    gradient *= -2
    gradient += 2 * plan.sum(axis=1)[:, None] * X
    if l1_weight:
        for i, x in enumerate(X):  # one row at a time: memory stays at (m, d)
            gradient[i] += l1_weight * (plan[i] @ np.sign(x - Y))
    return gradient
