"""The fair barycenter on a grid: targets for every group, solved exactly.

The transport problem of fair regression by post-processing [1]_ moves the score
distribution of every group to a target, as cheaply as possible, so that all targets
agree up to a tolerance.  On a sorted grid it decouples, level by level, into convex
problems in one variable; no linear program is needed.

References
----------
.. [1] R. Xian, Q. Li, G. Kamath, H. Zhao. "Differentially Private Post-Processing for
   Fair Regression". ICML 2024.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._shared.arguments import checked, floats, having, number, places, word
from .._shared.arrays import Floats, Integers, row_slices

_MOST_TABLED = 1 << 23  # numbers in a table of quantile functions
_ROUNDING = 1e-9  # of the range: a mean so near a point of the grid is the point
_LEVELS_PER_BLOCK = 2048  # keeps the temporary arrays of the bisection in the cache


@dataclass(frozen=True, eq=False)
class Coupling:
    """A sparse transport plan between two distributions on the same grid.

    Parameters
    ----------
    source, target : ndarray of shape (n_entries,), int64
        Grid indices, both nondecreasing.
    mass : ndarray of shape (n_entries,), float64
        Positive mass moved from ``source`` to ``target``; sums to one.
    """

    source: Integers
    target: Integers
    mass: Floats

    def cost(self, grid: Floats) -> float:
        """Return the mean squared distance moved.

        Parameters
        ----------
        grid : ndarray of shape (n_points,)
            Places of the points.

        Returns
        -------
        cost : float
            In squared units of the grid.
        """
        grid = floats(1, min_rows=1 + int(max(self.source.max(), self.target.max())))(
            "grid", grid
        )
        return float(self.mass @ (grid[self.source] - grid[self.target]) ** 2)


def monotone_coupling(source_cdf: Floats, target_cdf: Floats) -> Coupling:
    """Couple two distributions in order (the north-west-corner rule).

    Optimal for every convex cost on the line.

    Parameters
    ----------
    source_cdf, target_cdf : ndarray of shape (k,)
        Cumulative distributions on a common grid, both ending at exactly one.

    Returns
    -------
    Coupling
        At most ``2 k - 1`` entries.
    """
    levels = np.concatenate([[0.0], source_cdf, target_cdf])
    levels.sort(kind="stable")
    mass = levels[1:] - levels[:-1]
    positive = mass > 0.0
    levels = levels[1:][positive]
    return Coupling(
        source=source_cdf.searchsorted(levels),
        target=target_cdf.searchsorted(levels),
        mass=mass[positive],
    )


@dataclass(frozen=True, eq=False)
class BarycenterResult:
    """Solution of :func:`fair_barycenter`.

    Parameters
    ----------
    grid : ndarray of shape (k,)
        Increasing support points.
    weights : ndarray of shape (n_groups,)
        Weights of the groups in the objective, as given.
    tolerance : float
        Largest allowed difference of two target CDFs.
    source_cdf, target_cdf : ndarray of shape (n_groups, k)
        CDFs of the groups before and after transport; the last column is exactly one.
    levels : ndarray of shape (k - 1,) or None
        Lower ends ``c_l`` of the windows ``[c_l, c_l + tolerance]`` into which the
        exact solver clips the CDFs; None for linear programming.
    solver : str
        What solved the problem.

    Attributes
    ----------
    source_pmf, target_pmf : ndarray of shape (n_groups, k)
        Probabilities of the groups before and after transport.
    barycenter_cdf, barycenter_pmf : ndarray of shape (k,)
        The distribution within half the tolerance of every target.
    couplings : tuple of Coupling
        For every group, the monotone plan from source to target.
    price_of_fairness : ndarray of shape (n_groups,)
        Squared Wasserstein distance moved by every group, in squared grid units.
    objective : float
        The costs weighted by ``weights``.
    conditional_mean : ndarray of shape (n_groups, k)
        Mean of the target given the group and the source point.  At a source point
        without mass, the target at its level.
    """

    grid: Floats
    weights: Floats
    tolerance: float
    source_cdf: Floats
    target_cdf: Floats
    levels: Floats | None
    solver: str

    @property
    def source_pmf(self) -> Floats:
        """Mass of each group at each point, before."""
        return np.diff(self.source_cdf, prepend=0.0)

    @property
    def target_pmf(self) -> Floats:
        """Mass of each group at each point, after."""
        return np.diff(self.target_cdf, prepend=0.0)

    @cached_property
    def barycenter_cdf(self) -> Floats:
        return (self.target_cdf.max(axis=0) + self.target_cdf.min(axis=0)) / 2

    @property
    def barycenter_pmf(self) -> Floats:
        """Mass of the common distribution at each point."""
        return np.diff(self.barycenter_cdf, prepend=0.0)

    @cached_property
    def couplings(self) -> tuple[Coupling, ...]:
        pairs = zip(self.source_cdf, self.target_cdf, strict=True)
        return tuple(monotone_coupling(source, target) for source, target in pairs)

    @cached_property
    def price_of_fairness(self) -> Floats:
        return np.array([plan.cost(self.grid) for plan in self.couplings])

    @property
    def objective(self) -> float:
        """Weighted mean of the squared distances moved."""
        return float(self.weights @ self.price_of_fairness)

    @cached_property
    def conditional_mean(self) -> Floats:
        n_groups, k = self.source_cdf.shape
        codes, points = np.divmod(np.arange(n_groups * k), k)
        at_level = self.transport(codes, points, np.ones(n_groups * k))
        means = self.grid[at_level].reshape(n_groups, k)
        for mean, plan in zip(means, self.couplings, strict=True):
            mass = np.bincount(plan.source, plan.mass, k)
            moment = np.bincount(plan.source, plan.mass * self.grid[plan.target], k)
            np.divide(moment, mass, out=mean, where=mass > 0.0)
        means = np.clip(means, self.grid[0], self.grid[-1])
        # Rounding must not part groups whose mass goes to the same point.
        middles = self.grid[:-1] / 2 + self.grid[1:] / 2
        points = self.grid[middles.searchsorted(means)]
        is_point = np.abs(means - points) <= _ROUNDING * np.ptp(self.grid)
        return np.where(is_point, points, means)

    def transport(
        self, codes: ArrayLike, source: ArrayLike, uniforms: ArrayLike
    ) -> Integers:
        """Move points of the grid to their targets.

        Point ``i`` of group ``a`` owns the levels ``(F_a(i - 1), F_a(i)]`` of its
        source CDF.  The number ``u`` picks one of them, ``t``, and the target is the
        quantile ``Q_a^{-1}(t)`` of the target distribution.

        Parameters
        ----------
        codes : array-like of shape (n,), int
            Group of every row, in ``range(n_groups)``.
        source : array-like of shape (n,), int
            Grid index of every row.
        uniforms : array-like of shape (n,), float
            Position within the levels, in (0, 1].  Uniform draws give the targets
            their distribution; a constant gives a deterministic monotone map.

        Returns
        -------
        ndarray of shape (n,), int64
            Grid indices.  A source point without mass is sent to the quantile at its
            level, so the map stays monotone there.
        """
        group: Integers = places(len(self.source_cdf))("codes", codes)
        start: Integers = places(len(self.grid))("source", source)
        u: Floats = floats(1, min_rows=0)("uniforms", uniforms)
        if not len(group) == len(start) == len(u):
            raise ValueError("codes, source and uniforms must be equally many.")
        upper = self.source_cdf[group, start]
        lower = np.where(start > 0, self.source_cdf[group, start - 1], 0.0)
        level = np.minimum(lower + u * (upper - lower), upper)
        # Level zero belongs to points below the support: they go to its first point.
        level = np.maximum(level, np.finfo(np.float64).tiny)
        target = np.empty(level.shape, dtype=np.int64)
        for code, cdf in enumerate(self.target_cdf):
            rows = group == code
            target[rows] = np.searchsorted(cdf, level[rows])
        return target


@checked(
    grid=floats(1),
    pmfs=floats(2),
    weights=floats(1),
    tolerance=number(0, 1),
    solver=word,
)
def fair_barycenter(
    grid: ArrayLike,
    pmfs: ArrayLike,
    weights: ArrayLike,
    tolerance: float,
    *,
    solver: str = "exact",
) -> BarycenterResult:
    r"""Move every group to a target so that all targets agree up to a tolerance.

    .. math::

        \min_{q, q_a} \sum_a w_a W_2^2(p_a, q_a) \quad\text{such that}\quad
        \max_l |Q_a(l) - Q(l)| \le \alpha / 2 \text{ for every group } a,

    where all distributions live on the same grid, :math:`Q_a` and :math:`Q` are the
    CDFs of :math:`q_a` and :math:`q`.

    Parameters
    ----------
    grid : array-like of shape (k,)
        Strictly increasing support points, of any spacing.
    pmfs : array-like of shape (n_groups, k)
        Non-negative masses of the groups; every row is divided by its sum.  Points
        without mass are welcome.
    weights : array-like of shape (n_groups,)
        Non-negative weights.  They need not sum to one; if all are zero, the groups
        count alike.
    tolerance : float
        Largest allowed difference :math:`\alpha` of two target CDFs.  Range: [0, 1].
        Zero asks for one common target, one for no change.
    solver : str, default="exact"
        "exact" uses the closed form of the problem.  "cvxpy" solves the linear program
        of [1]_ with cvxpy and HiGHS, for reference; the name of any other solver
        installed for cvxpy, such as "CLARABEL", does it with that solver.

    Returns
    -------
    BarycenterResult
        Targets, barycenter, sparse couplings and the price of fairness per group.

    Raises
    ------
    ValueError
        If an argument has the wrong shape or range, or the solver is not installed.

    See Also
    --------
    optimality_certificate : Check a solution without any solver.

    Notes
    -----
    Write :math:`G_a` for the quantile function of :math:`p_a`,
    :math:`m_l = v_l + v_{l+1}`, and let :math:`c_l` be a sign change of the
    nondecreasing step function

    .. math::

        S_l(c) = \sum_a w_a [(2 G_a(c+) - m_l)^+ - (m_l - 2 G_a((c + \alpha)+))^+].

    Then :math:`Q_a(l) = \mathrm{clip}(F_a(l), c_l, c_l + \alpha)` is optimal.  Where
    :math:`S_l` vanishes on an interval, its midpoint is taken, so that the solution
    does not depend on the order of the groups or the direction of the grid.  The case
    :math:`\alpha = 0` rounds the barycenter of [2]_ to the grid; [3]_ and [4]_ study
    related relaxations.

    Time is :math:`O(k |A| \log(k |A|))`, memory :math:`O(k |A|^2)`.

    References
    ----------
    .. [1] R. Xian, Q. Li, G. Kamath, H. Zhao. "Differentially Private Post-Processing
       for Fair Regression". ICML 2024.
    .. [2] E. Chzhen, C. Denis, M. Hebiri, L. Oneto, M. Pontil. "Fair regression with
       Wasserstein barycenters". NeurIPS 2020.
    .. [3] V. Divol, S. Gaucher. "Demographic parity in regression and classification
       within the unawareness framework". arXiv:2409.02471, 2024.
    .. [4] A. Charpentier et al. arXiv:2603.25224, 2026.

    Examples
    --------
    >>> from fairpriv_sklearn.transport import fair_barycenter
    >>> pmfs = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    >>> result = fair_barycenter([0, 1, 2, 3], pmfs, [0.5, 0.5], tolerance=0.0)
    >>> result.target_pmf
    array([[0. , 0.5, 0.5, 0. ],
           [0. , 0.5, 0.5, 0. ]])
    >>> result.objective
    1.0
    """
    grid, cdfs, weights = _check_problem(grid, pmfs, weights)
    tolerance, levels = float(tolerance), None
    if solver == "exact":
        levels = _window_levels(grid, cdfs, weights, tolerance)
        targets = cdfs.copy()
        targets[:, :-1] = np.clip(cdfs[:, :-1], levels, levels + tolerance)
    else:
        targets = _linear_program(grid, cdfs, weights, tolerance, solver)
    return BarycenterResult(grid, weights, tolerance, cdfs, targets, levels, solver)


@dataclass(frozen=True)
class OptimalityCertificate:
    """What :func:`optimality_certificate` measured; every number should be near zero.

    Parameters
    ----------
    stationarity : float
        Largest wrong-signed one-sided derivative over all levels, divided by the
        largest absolute value of the grid.
    range_excess : float
        Largest range of the target CDFs beyond the tolerance.
    negative_mass : float
        Largest negative mass of a target or of the barycenter, as a positive number.
    cost_gap : float
        Difference of the level-wise cost and the cost of the couplings, relative to
        the larger of the two.
    """

    stationarity: float
    range_excess: float
    negative_mass: float
    cost_gap: float

    @property
    def largest(self) -> float:
        """The largest of the four."""
        return max(astuple(self))


@checked(result=having("a BarycenterResult", "levels", "target_cdf"))
def optimality_certificate(result: BarycenterResult) -> OptimalityCertificate:
    """Check that an exact solution is optimal, without any solver.

    The problem is convex at every level, so a solution is optimal if the left
    derivative at ``c_l`` is at most zero, the right derivative at least zero, the
    constraint holds, and the cost that was minimised is the cost of the couplings.

    Parameters
    ----------
    result : BarycenterResult
        From ``solver="exact"``, of any size.

    Returns
    -------
    OptimalityCertificate

    Raises
    ------
    ValueError
        If the result comes from linear programming, which has no levels ``c_l``.

    Examples
    --------
    >>> from fairpriv_sklearn.transport import fair_barycenter, optimality_certificate
    >>> grid, pmfs = [0.0, 0.5, 1.0], [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]
    >>> result = fair_barycenter(grid, pmfs, [0.5, 0.5], 0.1)
    >>> certificate = optimality_certificate(result)
    >>> certificate.stationarity <= 1e-12, certificate.range_excess <= 1e-12
    (True, True)
    """
    if result.levels is None:
        raise ValueError(
            "result comes from linear programming: a certificate needs the levels of "
            "solver='exact'."
        )
    targets_pmf, barycenter_pmf = result.target_pmf, result.barycenter_pmf
    spread = float(np.ptp(result.target_cdf, axis=0).max())
    by_level, by_coupling = _levelwise_objective(result), result.objective
    larger = max(by_level, by_coupling)
    return OptimalityCertificate(
        stationarity=_stationarity(result),
        range_excess=max(0.0, spread - result.tolerance),
        negative_mass=max(0.0, -float(min(targets_pmf.min(), barycenter_pmf.min()))),
        cost_gap=abs(by_level - by_coupling) / larger if larger > 0.0 else 0.0,
    )


def _check_problem(
    grid: ArrayLike, pmfs: ArrayLike, weights: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Return grid, CDFs and weights, or raise."""
    grid, pmfs, weights = map(np.asarray, (grid, pmfs, weights))
    if (np.diff(grid) <= 0.0).any():
        raise ValueError("grid must be strictly increasing")
    if pmfs.shape[1] != grid.size:
        raise ValueError(
            f"pmfs must have shape (n_groups, {grid.size}), a column for each point of "
            f"grid, got {pmfs.shape}"
        )
    if weights.shape != pmfs.shape[:1]:
        raise ValueError(
            f"weights must have shape ({pmfs.shape[0]},), got {weights.shape}: "
            "a weight for each row of pmfs"
        )
    for name, values in [("pmfs", pmfs), ("weights", weights)]:
        if (values < 0.0).any():
            raise ValueError(f"{name} must be non-negative")
    cdfs = np.cumsum(pmfs, axis=1)
    totals = cdfs[:, -1:]
    if (totals <= 0.0).any():
        raise ValueError("every group needs a positive mass")
    return grid, cdfs / totals, weights


def _shares(weights: Floats) -> Floats:
    """Return weights that sum to one; all-zero weights count alike."""
    largest = weights.max()
    scaled = weights / largest if largest > 0.0 else np.ones_like(weights)
    return scaled / scaled.sum()


def _rounding(grid: Floats) -> float:
    """Return the size below which a derivative S counts as zero.

    Equal weights on an evenly spaced grid make S vanish on intervals; the rounding of
    the grid must not turn their midpoint into an end point.
    """
    return 16 * np.finfo(np.float64).eps * float(np.abs(grid).max())


def _window_levels(
    grid: Floats, cdfs: Floats, weights: Floats, tolerance: float
) -> Floats:
    """Return the minimisers c_l, nondecreasing in l, shape (k - 1,)."""
    if tolerance >= 1.0:
        return np.zeros(grid.size - 1)
    shares = _shares(weights)
    counted = shares > 0.0
    shares, cdfs = shares[counted], cdfs[counted]
    middles = grid[:-1] + grid[1:]
    if tolerance == 0.0:
        first, last = _common_levels(grid, cdfs, shares, middles)
    else:
        first, last = _window_intervals(grid, cdfs, shares, middles, tolerance)
    # The midpoint rule is equivariant under reflection; the running maximum only
    # repairs rounding, and any selection stays optimal under it.
    return np.maximum.accumulate((first + last) / 2)


def _common_levels(
    grid: Floats, cdfs: Floats, shares: Floats, middles: Floats
) -> tuple[Floats, Floats]:
    """Intervals of minimisers for tolerance 0.

    They round the barycenter with free support to the nearest points of the grid.
    """
    points, quantiles = _merged_quantiles(cdfs, 1.0, 2 * grid)
    slack, last = _rounding(grid), points.size - 1
    if isinstance(quantiles, np.ndarray):
        doubled = shares @ quantiles[:, :-1]  # twice the barycenter right of each point
        first = np.searchsorted(doubled, middles - slack, side="left")
        after = np.searchsorted(doubled, middles + slack, side="right")
        return points[first], points[after]

    def doubled_at(tried):
        return np.where(tried < last, shares @ quantiles.take(tried), np.inf)

    first = _count_while(last, lambda i: doubled_at(i) < middles - slack, middles.size)
    after = _count_while(last, lambda i: doubled_at(i) <= middles + slack, middles.size)
    return points[first], points[after]


def _count_while(last: int, holds, n_searches: int) -> NDArray[np.int64]:
    """Number of points 0, ..., `last` from the first on for which `holds` is true."""
    step = np.zeros(n_searches, dtype=np.int64)
    for exponent in reversed(range((last + 1).bit_length())):
        stride = 1 << exponent
        step += stride * holds(np.minimum(step + (stride - 1), last))
    return step


def _window_intervals(
    grid: Floats, cdfs: Floats, shares: Floats, middles: Floats, tolerance: float
) -> tuple[Floats, Floats]:
    """Intervals of minimisers for a tolerance in (0, 1)."""
    cdf = cdfs[:, :-1]
    # Where the groups agree already, every window that holds their CDFs is free.
    first = np.maximum(cdf.max(axis=0) - tolerance, 0.0)
    last = np.minimum(cdf.min(axis=0), 1.0 - tolerance)
    contested = np.flatnonzero(first > last)
    if contested.size:
        first[contested], last[contested] = _bisect_slopes(
            grid, cdfs, shares, middles[contested], tolerance
        )
    return first, last


def _bisect_slopes(
    grid: Floats, cdfs: Floats, shares: Floats, middles: Floats, tolerance: float
) -> Floats:
    """Intervals on which the slopes S_l of some levels vanish or change sign.

    Returns first and last minimisers as an array of shape (2, n_levels).
    """
    # Both brackets of S_l as one: 2 G_a(c+) against m_l for the lower window end, and
    # -2 G_a((c + tolerance)+) against -m_l for the upper one, with a negative share.
    signs = np.repeat([1.0, -1.0], len(cdfs))
    points, quantiles = _merged_quantiles(
        np.concatenate([cdfs, cdfs - tolerance]),
        1.0 - tolerance,
        np.multiply.outer(2 * signs, grid),
    )
    beyond = np.where(signs > 0.0, np.inf, 0.0)[:, None]  # the last step: up
    signed_shares = signs * np.tile(shares, 2)
    last = points.size - 1
    steps = np.empty((2, middles.size), dtype=np.int64)
    for block in row_slices(middles.size, _LEVELS_PER_BLOCK):
        signed_middles = np.multiply.outer(signs, np.tile(middles[block], 2))
        n_searches = signed_middles.shape[1]
        # The first points at which S_l exceeds -slack, then those for slack.
        limits = np.repeat([-_rounding(grid), _rounding(grid)], n_searches // 2)

        def holds(tried, signed_middles=signed_middles, limits=limits):
            values = quantiles.take(tried, axis=1)
            values = np.where(tried < last, values, beyond)
            brackets = np.maximum(values - signed_middles, 0.0)
            return signed_shares @ brackets <= limits

        steps[:, block] = _count_while(last, holds, n_searches).reshape(2, -1)
    return points[steps]


def _merged_quantiles(
    cdfs: Floats, end: float, supports: Floats
) -> tuple[Floats, Floats | _Searched]:
    """Quantile functions on the merged breakpoints of all of them.

    Every step is placed by the sorted order of the very numbers that are breakpoints,
    so no rounding can put it on the wrong side.

    Parameters
    ----------
    cdfs : ndarray of shape (n_rows, k)
        Nondecreasing rows that end at ``end`` or beyond; numbers outside [0, end] are
        moved to its ends.
    end : float
        Last breakpoint.
    supports : ndarray of shape (k,) or (n_rows, k)
        Values of the quantile functions.

    Returns
    -------
    points : ndarray of shape (n_points,)
        Distinct breakpoints, from 0 to ``end``.
    quantiles : ndarray of shape (n_rows, n_points), or _Searched
        Right limits at the points; the last column only fills the table. Where the
        table would be large, an object that finds the same numbers.
    """
    n_rows, k = cdfs.shape
    cdfs = cdfs.clip(0.0, end)
    merged = np.concatenate([[0.0], cdfs.ravel(), [end]])
    order = merged.argsort(kind="stable")
    merged = merged[order]
    starts_run = np.concatenate([[True], merged[1:] > merged[:-1]])
    points = merged[starts_run]
    position = np.empty(merged.size, dtype=np.int64)
    position[order] = np.cumsum(starts_run) - 1
    # From its row's step before up to its own step, a value is repeated.
    steps = position[1:-1].reshape(n_rows, k)
    counts = np.diff(steps, axis=1, prepend=0)
    counts[:, -1] += 1
    values = np.broadcast_to(supports, (n_rows, k))
    if n_rows * points.size > _MOST_TABLED:
        return points, _Searched(points, cdfs, values)
    return points, values.ravel().repeat(counts.ravel()).reshape(n_rows, -1)


class _Searched:
    """Right limits of quantile functions, found row by row: a table's numbers."""

    def __init__(self, points: Floats, cdfs: Floats, values: Floats):
        self.points, self.cdfs, self.values = points, cdfs, values

    def take(self, indices: Integers, axis: int = 1) -> Floats:
        """Columns of the table."""
        levels, last = self.points[indices], self.cdfs.shape[1] - 1
        steps = [np.searchsorted(cdf, levels, side="right") for cdf in self.cdfs]
        steps = np.minimum(np.array(steps), last)
        return np.take_along_axis(self.values, steps, axis=1)


def _stationarity(result: BarycenterResult) -> float:
    """Largest wrong-signed one-sided derivative, relative to the size of the grid."""
    grid, cdfs, tolerance = result.grid, result.source_cdf, result.tolerance
    middles, levels = grid[:-1] + grid[1:], np.asarray(result.levels)
    width = 2 * np.finfo(np.float64).eps  # levels are known to rounding only

    def slope(c: Floats) -> Floats:
        total = np.zeros_like(c)
        for share, cdf in zip(_shares(result.weights), cdfs, strict=True):
            # Right limits; beyond one, the quantile is the last point of the grid.
            above = grid[np.searchsorted(cdf[:-1], c, side="right")]
            below = grid[np.searchsorted(cdf[:-1], c + tolerance, side="right")]
            total += share * np.maximum(2 * above - middles, 0.0)
            total -= share * np.maximum(middles - 2 * below, 0.0)
        return total

    movable = tolerance < 1.0  # otherwise the window is the whole interval
    left = slope(levels - width)[movable & (levels > 0.0)]
    right = slope(levels + width)[movable & (levels < 1.0 - tolerance)]
    wrong = max(left.max(initial=0.0), -right.min(initial=0.0))
    return float(wrong) / float(np.abs(grid).max()) if wrong > 0.0 else 0.0


def _levelwise_objective(result: BarycenterResult) -> float:
    """Sum over levels of the integrals of 2 G_a - m_l between source and target."""
    grid = result.grid - result.grid[0]
    middles, gaps = grid[:-1] + grid[1:], np.diff(grid)
    total = 0.0
    rows = zip(result.weights, result.source_cdf, result.target_cdf, strict=True)
    for weight, source, target in rows:
        # Integral of the quantile function up to a level: piecewise linear.
        knots = np.concatenate([[0.0], source])
        integral = np.concatenate([[0.0], np.cumsum(np.diff(knots) * grid)])
        moved = np.interp(target[:-1], knots, integral) - integral[1:-1]
        cost = 2 * moved - middles * (target[:-1] - source[:-1])
        total += float(weight) * float(gaps @ cost)
    return total


def solver_name(solver: str) -> str:
    """Name of an installed solver of cvxpy, or raise; "exact" needs none."""
    if solver == "exact":
        return solver
    import cvxpy as cp

    installed = cp.installed_solvers()
    highs = "HIGHS" if "HIGHS" in installed else "SCIPY"  # SciPy has one of its own
    name = highs if solver == "cvxpy" else solver.upper()
    if name not in installed:
        raise ValueError(
            f"solver {solver!r} is neither 'exact' nor 'cvxpy' nor installed for "
            f"cvxpy; installed solvers: {', '.join(sorted(installed))}"
        )
    return name


def _linear_program(
    grid: Floats, cdfs: Floats, weights: Floats, tolerance: float, solver: str
) -> Floats:
    """Solve the linear program of the paper with cvxpy; return the target CDFs."""
    import cvxpy as cp

    name = solver_name(solver)
    # Solver tolerances are absolute: masses of 1e3 and costs of 1e6 put the rounding
    # of the answer far below what is reported.
    n_groups, k = cdfs.shape
    masses = 1e3 * np.diff(cdfs, prepend=0.0)
    unit = grid / (np.abs(grid).max() or 1.0)  # squares of huge scores would overflow
    costs = (unit[:, None] - unit[None, :]) ** 2
    shares = _shares(weights)
    costs *= 1e6 / (costs.max() or 1.0)

    barycenter = cp.Variable(k, nonneg=True)  # CDF, in units of 1e-3
    constraints = [cp.diff(barycenter) >= 0] if k > 1 else []
    constraints.append(barycenter[-1] == 1e3)
    plans, objective = [], 0.0
    for share, mass in zip(shares, masses, strict=True):
        support = np.flatnonzero(mass)
        plan = cp.Variable((support.size, k), nonneg=True)
        target = cp.cumsum(cp.sum(plan, axis=0))
        constraints.append(cp.sum(plan, axis=1) == mass[support])
        constraints.append(cp.abs(target - barycenter) <= 1e3 * tolerance / 2)
        objective += share * cp.sum(cp.multiply(costs[support], plan))
        plans.append((plan, mass[support]))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=name)
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RuntimeError(f"solver {name} ended with status {problem.status!r}")

    targets = np.empty((n_groups, k))
    for row, (plan, mass) in enumerate(plans):
        # Solvers leave tiny negative masses and row sums slightly off.
        cleaned = np.maximum(np.asarray(plan.value), 0.0)
        cleaned *= (mass / cleaned.sum(axis=1))[:, None]
        cdf = np.cumsum(cleaned.sum(axis=0))
        targets[row] = cdf / cdf[-1]
    return targets
