"""The exact barycenter solver against linear programs, closed forms and itself."""

import pickle
import re
import subprocess
import sys

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog

from fairpriv_sklearn.transport import (
    fair_barycenter,
    optimality_certificate,
)
from fairpriv_sklearn.transport._barycenter import solver_name


def linear_program(grid, pmfs, weights, tolerance):
    """Objective of the transport problem as a scaled linear program.

    Variables: a k x k plan and a target CDF per group, and the barycenter's CDF.
    """
    n_groups, k = pmfs.shape
    costs = (grid[:, None] - grid[None, :]) ** 2
    unit = 1e6 / (costs.max() * weights.max())
    n_plans = n_groups * k * k

    eye = sparse.identity(k)
    steps = sparse.diags([np.ones(k), -np.ones(k - 1)], [0, -1], shape=(k, k))
    per_group = sparse.identity(n_groups)
    sources = sparse.kron(per_group, sparse.kron(eye, np.ones((1, k))))
    targets = sparse.kron(per_group, sparse.kron(np.ones((1, k)), eye))
    increments = sparse.kron(per_group, steps)
    equal = sparse.bmat(
        [
            [sources, sparse.csr_matrix((n_groups * k, n_groups * k)), None],
            [targets, -increments, sparse.csr_matrix((n_groups * k, k))],
        ]
    )
    difference = sparse.hstack(
        [
            sparse.csr_matrix((n_groups * k, n_plans)),
            sparse.identity(n_groups * k),
            -sparse.kron(np.ones((n_groups, 1)), eye),
        ]
    )
    nondecreasing = sparse.hstack(
        [sparse.csr_matrix((k - 1, n_plans + n_groups * k)), -steps.tocsr()[1:]]
    )
    bounds = np.zeros((n_plans + (n_groups + 1) * k, 2))
    bounds[:, 1] = np.inf
    bounds[-1] = 1e3  # the barycenter's CDF ends at one
    solution = linprog(
        np.concatenate(
            [np.kron(weights, unit * costs.ravel()), np.zeros((n_groups + 1) * k)]
        ),
        A_eq=equal.tocsr(),
        b_eq=np.concatenate([1e3 * pmfs.ravel(), np.zeros(n_groups * k)]),
        A_ub=sparse.vstack([difference, -difference, nondecreasing]).tocsr(),
        b_ub=np.concatenate(
            [np.full(2 * n_groups * k, 1e3 * tolerance / 2), np.zeros(k - 1)]
        ),
        bounds=bounds,
        method="highs-ds",
    )
    assert solution.status == 0
    return solution.fun / unit / 1e3


def random_problem(rng, max_k=14):
    """Draw an instance; degenerate ones are common."""
    k, n_groups = rng.integers(2, max_k), rng.integers(1, 6)
    grid = [
        lambda: np.linspace(-1, 2, k),
        lambda: np.sort(rng.normal(size=k)),
        lambda: np.cumsum(10 ** rng.uniform(-2, 2, k)) - 50,
    ][rng.integers(3)]()
    kind = rng.integers(4)
    if kind == 0:
        pmfs = rng.dirichlet(np.full(k, 0.3), n_groups)
    elif kind == 1:  # empty bins and exact ties
        pmfs = rng.multinomial(6, np.full(k, 1 / k), n_groups) / 6
    elif kind == 2:  # point masses
        pmfs = np.eye(k)[rng.integers(k, size=n_groups)]
    else:
        pmfs = np.full((n_groups, k), 1 / k)
        pmfs[0] = rng.dirichlet(np.ones(k))
    weights = [
        lambda: rng.dirichlet(np.ones(n_groups)),
        lambda: np.ones(n_groups),
        lambda: 7 * rng.random(n_groups) * (rng.random(n_groups) < 0.6),
    ][rng.integers(3)]()
    if not weights.any():
        weights[0] = 1.0
    tolerance = rng.choice(
        [0, 1e-3, 0.1, 1 / 6, 0.25, 1 / 3, 0.5, 0.9, 1, rng.random()]
    )
    return grid, pmfs, weights, tolerance


def assert_valid(result):
    """Check what must hold for every solution."""
    eps = np.finfo(np.float64).eps
    assert (result.target_pmf >= 0).all()
    assert (result.barycenter_pmf >= 0).all()
    assert (result.target_cdf[:, -1] == 1).all()
    deviation = np.abs(result.target_cdf - result.barycenter_cdf).max()
    assert deviation <= result.tolerance / 2 + eps
    grid, k = result.grid, result.grid.size
    for a, plan in enumerate(result.couplings):
        assert plan.mass.size <= 2 * k - 1
        assert (plan.mass > 0).all()
        assert (np.diff(plan.source) >= 0).all()
        assert (np.diff(plan.target) >= 0).all()
        atol = 4 * k * eps
        assert_allclose(
            np.bincount(plan.source, plan.mass, k), result.source_pmf[a], atol=atol
        )
        assert_allclose(
            np.bincount(plan.target, plan.mass, k), result.target_pmf[a], atol=atol
        )
        cost = plan.mass @ (grid[plan.source] - grid[plan.target]) ** 2
        assert_allclose(result.price_of_fairness[a], cost, rtol=1e-12)


@pytest.mark.parametrize("seed", range(120))
def test_objective_of_linear_program(seed):
    grid, pmfs, weights, tolerance = random_problem(np.random.default_rng(seed))
    result = fair_barycenter(grid, pmfs, weights, tolerance)
    assert_valid(result)
    scale = weights.sum() * np.ptp(grid) ** 2
    assert_allclose(
        result.objective,
        linear_program(grid, pmfs, weights, tolerance),
        rtol=1e-9,
        atol=1e-12 * scale,  # what rounding leaves of an objective of zero
    )
    assert optimality_certificate(result).largest < 1e-10


def test_cvxpy_returns_the_same_record():
    for seed in range(12):
        problem = random_problem(np.random.default_rng(seed), max_k=10)
        exact = fair_barycenter(*problem)
        program = fair_barycenter(*problem, solver="cvxpy")
        assert program.levels is None
        scale = exact.weights.sum() * np.ptp(exact.grid) ** 2
        assert_allclose(
            program.objective, exact.objective, rtol=1e-9, atol=1e-12 * scale
        )
        assert_allclose(program.source_cdf, exact.source_cdf)
        assert (program.target_pmf >= 0).all()
        deviation = np.abs(program.target_cdf - program.barycenter_cdf).max()
        assert deviation <= program.tolerance / 2 + 1e-9
        assert len(program.couplings) == len(exact.couplings)


def test_other_solvers():
    rng = np.random.default_rng(0)
    problem = np.arange(6.0), rng.dirichlet(np.ones(6), 2), [0.4, 0.6], 0.1
    exact = fair_barycenter(*problem)
    program = fair_barycenter(*problem, solver="clarabel")
    assert program.solver == "clarabel"
    # An interior-point method stops short of the vertex.
    assert_allclose(program.objective, exact.objective, rtol=1e-4)
    assert_allclose(program.target_cdf, exact.target_cdf, atol=1e-4)


def test_cvxpy_on_one_point():
    result = fair_barycenter([3.0], [[1.0], [2.0]], [1, 1], 0.0, solver="cvxpy")
    assert_array_equal(result.target_cdf, [[1.0], [1.0]])
    assert result.objective == 0.0


def test_unknown_solver_lists_the_installed_ones():
    with pytest.raises(ValueError, match="'nonesuch'.*installed solvers: .*HIGHS"):
        fair_barycenter([0, 1], np.eye(2), [1, 1], 0.0, solver="nonesuch")


def test_failed_solver_is_reported(monkeypatch):
    import cvxpy

    def stop(self, **options):
        self._status = cvxpy.INFEASIBLE

    monkeypatch.setattr(cvxpy.Problem, "solve", stop)
    with pytest.raises(RuntimeError, match="HIGHS ended with status 'infeasible'"):
        fair_barycenter([0, 1], np.eye(2), [1, 1], 0.0, solver="cvxpy")


def test_exact_solver_does_not_import_cvxpy():
    code = (
        "import sys; from fairpriv_sklearn.transport import fair_barycenter; "
        "fair_barycenter([0, 1], [[1, 0], [0, 1]], [1, 1], 0.0).objective; "
        "assert 'cvxpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("seed", range(60))
def test_reflection_and_permutation(seed):
    rng = np.random.default_rng(1000 + seed)
    grid, pmfs, weights, tolerance = random_problem(rng)
    result = fair_barycenter(grid, pmfs, weights, tolerance)

    mirrored = fair_barycenter(-grid[::-1], pmfs[:, ::-1], weights, tolerance)
    assert_allclose(mirrored.target_pmf[:, ::-1], result.target_pmf, atol=1e-14)

    order = rng.permutation(len(weights))
    permuted = fair_barycenter(grid, pmfs[order], weights[order], tolerance)
    assert_allclose(permuted.target_pmf, result.target_pmf[order], atol=1e-14)


def test_midpoint_of_a_flat_problem():
    # Any split of the mass between the middle points costs the same: take half.
    result = fair_barycenter(np.arange(4), np.eye(4)[[0, 3]], [1, 1], 0.0)
    assert_allclose(result.target_pmf, [[0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0]])
    assert_allclose(result.price_of_fairness, [2.5, 2.5])
    assert_allclose(result.objective, 5.0)


@settings(max_examples=60)
@given(
    counts=st.lists(
        st.lists(st.integers(0, 3), min_size=5, max_size=5).filter(any),
        min_size=1,
        max_size=4,
    ),
    weights=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    tolerance=st.one_of(
        st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1, allow_subnormal=True)
    ),
    gaps=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4),
)
def test_any_problem_is_certified(counts, weights, tolerance, gaps):
    grid = np.concatenate([[0.0], np.cumsum(gaps)])
    result = fair_barycenter(grid, counts, weights[: len(counts)], tolerance)
    assert_valid(result)
    certificate = optimality_certificate(result)
    assert certificate.stationarity < 1e-14
    assert certificate.range_excess < 3e-16
    assert certificate.negative_mass == 0.0
    # Relative; rounding of a CDF moves up to 1e-16 of mass across the grid.
    smallest = 1e-14 * np.ptp(grid) ** 2
    if result.objective > smallest:
        assert certificate.cost_gap < 1e-14 * np.ptp(grid) ** 2 / result.objective


@pytest.mark.parametrize("tolerance", [0.0, 0.01, 0.2])
def test_certificate_of_a_large_problem(tolerance):
    k, n_groups = 100_000, 4
    grid = np.linspace(-2, 3, k)
    pmfs = np.exp(-((grid - np.arange(n_groups)[:, None] / 3) ** 2))
    pmfs *= np.random.default_rng(0).random(pmfs.shape)
    pmfs[:, ::3] = 0.0
    result = fair_barycenter(grid, pmfs, [0.1, 0.2, 0.3, 0.4], tolerance)
    assert optimality_certificate(result).largest < 1e-12
    assert result.objective > 0.01
    assert all(plan.mass.size <= 2 * k - 1 for plan in result.couplings)


def test_certificate_notices_a_wrong_solution():
    rng = np.random.default_rng(3)
    pmfs = rng.dirichlet(np.ones(20), 3)
    result = fair_barycenter(np.linspace(0, 1, 20), pmfs, [1, 1, 1], 0.1)

    def changed(**changes):
        fields = {name: getattr(result, name) for name in result.__dataclass_fields__}
        return optimality_certificate(type(result)(**(fields | changes)))

    for shift in [-0.02, 0.02]:
        levels = np.clip(result.levels + shift, 0, 0.9)
        assert changed(levels=levels).stationarity > 1e-3
    assert changed(tolerance=0.05).range_excess > 0.04
    swapped = result.target_cdf.copy()
    swapped[:, 5] = result.target_cdf[:, 9]
    assert changed(target_cdf=swapped).negative_mass > 1e-3
    assert changed(grid=result.grid**2).stationarity > 1e-3


def test_certificate_needs_levels():
    result = fair_barycenter([0, 1], np.eye(2), [1, 1], 0.0, solver="cvxpy")
    with pytest.raises(ValueError, match="levels of solver='exact'"):
        optimality_certificate(result)


def test_path_is_monotone():
    rng = np.random.default_rng(0)
    pmfs = rng.dirichlet(np.full(25, 0.5), 3)
    tolerances = np.linspace(0, 1, 41)
    problem = np.arange(25), pmfs, [0.5, 0.2, 0.3]
    path = [fair_barycenter(*problem, tolerance) for tolerance in tolerances]
    objectives = [result.objective for result in path]
    assert [result.tolerance for result in path] == list(tolerances)
    assert (np.diff(objectives) <= 1e-14).all()
    assert objectives[0] > 0.1
    assert objectives[-1] == 0.0
    largest = np.abs(pmfs.cumsum(axis=1)[:, None] - pmfs.cumsum(axis=1)).max()
    for result in path:  # nothing moves once the groups agree
        if result.tolerance > largest:
            assert_allclose(result.target_pmf, pmfs, atol=1e-15)


def test_tolerance_one_is_the_identity():
    pmfs = np.random.default_rng(0).dirichlet(np.ones(7), 3)
    result = fair_barycenter(np.arange(7), pmfs, np.ones(3), 1.0)
    assert_array_equal(result.target_cdf, result.source_cdf)
    assert_array_equal(result.conditional_mean, np.broadcast_to(np.arange(7.0), (3, 7)))


@pytest.mark.parametrize("seed", range(20))
def test_common_target_rounds_the_free_barycenter(seed):
    # Brute force on quantiles: with counts in sixtieths, every quantile function is
    # constant between multiples of 1/60.
    rng = np.random.default_rng(seed)
    k, n_groups = 9, 3
    grid = np.sort(rng.normal(size=k))
    counts = rng.multinomial(60, rng.dirichlet(np.ones(k)), n_groups)
    weights = rng.dirichlet(np.ones(n_groups))
    quantiles = np.array([np.repeat(grid, c) for c in counts])  # (n_groups, 60)
    free = weights @ quantiles
    nearest = np.abs(free[:, None] - grid).argmin(axis=1)
    result = fair_barycenter(grid, counts, weights, 0.0)
    expected = np.bincount(nearest, minlength=k) / 60
    assert_allclose(result.barycenter_pmf, expected, atol=1e-15)


def test_prices_are_wasserstein_distances():
    rng = np.random.default_rng(5)
    grid = np.sort(rng.random(15))
    pmfs = rng.dirichlet(np.full(15, 0.4), 4)
    result = fair_barycenter(grid, pmfs, np.full(4, 0.25), 0.15)
    for cost, source, target in zip(
        result.price_of_fairness, result.source_pmf, result.target_pmf, strict=True
    ):
        expected = ot.emd2_1d(grid, grid, source, target / target.sum())
        assert_allclose(cost, expected, rtol=1e-12)
    assert_allclose(result.objective, result.price_of_fairness.mean())


def test_zero_weight_groups_get_a_feasible_target():
    pmfs = np.eye(5)[[0, 2, 4]]
    result = fair_barycenter(np.arange(5), pmfs, [1, 1, 0], 0.0)
    assert_allclose(result.target_pmf, np.eye(5)[[1, 1, 1]])
    assert result.objective == 2.0
    assert result.price_of_fairness[2] == 9.0
    # The group without weight does not choose the target, but pays as little as it can.
    free = fair_barycenter(np.arange(5), pmfs[[0, 2]], [1, 0], 0.25)
    assert_allclose(free.target_pmf, [[1, 0, 0, 0, 0], [0.75, 0, 0, 0, 0.25]])


def test_all_weights_zero_count_alike():
    pmfs = np.random.default_rng(0).dirichlet(np.ones(6), 2)
    equal = fair_barycenter(np.arange(6), pmfs, [1, 1], 0.05)
    zero = fair_barycenter(np.arange(6), pmfs, [0, 0], 0.05)
    assert_array_equal(zero.target_cdf, equal.target_cdf)
    assert zero.objective == 0.0


def test_weights_are_relative():
    pmfs = np.random.default_rng(0).dirichlet(np.ones(6), 3)
    for scale in [1e-300, 1e300]:
        small = fair_barycenter(np.arange(6), pmfs, [1, 2, 4], 0.05)
        large = fair_barycenter(np.arange(6), pmfs, scale * np.array([1, 2, 4]), 0.05)
        assert_allclose(large.target_cdf, small.target_cdf, atol=1e-15)


def test_transport_has_the_target_distribution():
    rng = np.random.default_rng(0)
    pmfs = rng.dirichlet(np.full(12, 0.5), 3)
    pmfs[0, :4] = 0
    result = fair_barycenter(np.arange(12), pmfs, [0.2, 0.3, 0.5], 0.1)
    n = 200_000
    codes = rng.integers(3, size=n)
    source = np.empty(n, dtype=int)
    for a in range(3):
        rows = codes == a
        source[rows] = rng.choice(12, size=rows.sum(), p=result.source_pmf[a])
    uniforms = rng.random(n)
    targets = result.transport(codes, source, uniforms)
    assert targets.dtype == np.int64
    for a in range(3):
        rows = codes == a
        drawn = np.bincount(targets[rows], minlength=12) / rows.sum()
        # Five standard deviations of a frequency.
        assert_allclose(drawn, result.target_pmf[a], atol=2.5 / np.sqrt(rows.sum()))
        for i in np.flatnonzero(result.source_pmf[a]):
            here = targets[rows & (source == i)]
            if here.size > 100:
                mean = result.conditional_mean[a, i]
                assert abs(here.mean() - mean) < 5 * 12 / np.sqrt(here.size) / 2
    # Row by row, the answer is the same.
    for row in range(20):
        one = result.transport([codes[row]], [source[row]], [uniforms[row]])
        assert one == targets[row]


def test_transport_by_hand():
    # Each group moves half of its mass to the middle: the CDFs then differ by 1/2.
    pmfs = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    result = fair_barycenter([0, 1, 2], pmfs, [1, 1], 0.5)
    assert_allclose(result.target_pmf, [[0.5, 0.5, 0], [0, 0.5, 0.5]])
    assert_allclose(result.barycenter_pmf, [0.25, 0.5, 0.25])
    codes, source = [0, 0, 0, 1, 1, 1], [0, 0, 0, 2, 2, 2]
    moved = result.transport(codes, source, [0.1, 0.5, 0.51, 0.5, 0.51, 1.0])
    assert_array_equal(moved, [0, 0, 1, 1, 2, 2])
    assert_allclose(result.conditional_mean, [[0.5, 1, 1], [1, 1, 1.5]])


def test_points_without_mass_stay_monotone():
    pmfs = [[0, 1, 0, 1, 0], [0, 0, 0, 0, 1]]
    result = fair_barycenter(np.arange(5), pmfs, [1, 1], 0.0)
    assert_allclose(result.target_pmf[0], [0, 0, 0.25, 0.5, 0.25])
    codes, source = np.divmod(np.arange(10), 5)
    for u in [1e-9, 0.5, 1.0]:
        targets = result.transport(codes, source, np.full(10, u)).reshape(2, 5)
        assert (np.diff(targets, axis=1) >= 0).all()
        assert result.target_pmf[0][targets].all()  # only points with mass are hit
    means = result.conditional_mean
    assert (np.diff(means, axis=1) >= 0).all()


def test_conditional_mean_keeps_the_mean():
    rng = np.random.default_rng(2)
    pmfs = rng.dirichlet(np.ones(30), 2)
    result = fair_barycenter(np.linspace(1, 4, 30), pmfs, [0.7, 0.3], 0.0)
    before = (result.source_pmf * result.conditional_mean).sum(axis=1)
    assert_allclose(before, result.target_pmf @ result.grid)


@pytest.mark.parametrize("seed", range(5))
def test_means_of_one_point_are_that_point(seed):
    """One group's was .1 and the other's the next number, a gap of their mass."""
    rng = np.random.default_rng(seed)
    grid = np.sort(rng.normal(size=60))
    result = fair_barycenter(grid, rng.dirichlet(np.ones(60), 3), [1, 1, 1], 0.1)
    n_alone = 0
    for means, plan in zip(result.conditional_mean, result.couplings, strict=True):
        for source in np.unique(plan.source):
            targets = plan.target[(plan.source == source) & (plan.mass > 1e-6)]
            if len(targets) == 1:
                assert means[source] == grid[targets[0]]
                n_alone += 1
    assert n_alone > 60


def test_result_survives_pickling():
    result = fair_barycenter([0, 1, 2], np.eye(3)[:2], [1, 1], 0.2)
    copy = pickle.loads(pickle.dumps(result))
    assert_array_equal(copy.target_cdf, result.target_cdf)
    assert copy.objective == result.objective


def test_masses_are_normalised():
    one = fair_barycenter([0, 1, 2], [[2, 2, 4], [6, 1, 1]], [1, 1], 0.1)
    other = fair_barycenter(
        [0, 1, 2], np.array([[2, 2, 4], [6, 1, 1]]) / 8, [1, 1], 0.1
    )
    assert_allclose(one.target_pmf, other.target_pmf)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"grid": []}, "grid must be an array of finite numbers with 1 dimension"),
        ({"grid": [0, np.nan]}, "grid must be an array of finite numbers with 1"),
        ({"grid": [0, 0]}, "grid must be strictly increasing"),
        (
            {"pmfs": np.ones((2, 3))},
            "(n_groups, 2), a column for each point of grid, got (2, 3)",
        ),
        ({"pmfs": [1, 1]}, "pmfs must be an array of finite numbers with 2 dimensions"),
        ({"pmfs": [[1, -1], [1, 1]]}, "pmfs must be non-negative"),
        ({"pmfs": [[0, 0], [1, 1]]}, "every group needs a positive mass"),
        ({"weights": [1]}, "weights must have shape (2,), got (1,)"),
        ({"weights": [1, np.inf]}, "weights must be an array of finite numbers"),
        ({"tolerance": 1.1}, "tolerance must be in [0, 1], got 1.1"),
        ({"tolerance": np.nan}, "tolerance must be in [0, 1], got nan"),
    ],
)
def test_invalid_input(changes, message):
    problem = {"grid": [0, 1], "pmfs": np.eye(2), "weights": [1, 1], "tolerance": 0.0}
    with pytest.raises(ValueError, match=re.escape(message)):
        fair_barycenter(**(problem | changes))


@pytest.mark.parametrize("seed", range(40))
def test_searched_quantile_functions_are_the_tabled_ones(seed, monkeypatch):
    """Where a table would be large each number is searched: not a bit is different."""
    problem = random_problem(np.random.default_rng(seed))
    tabled = fair_barycenter(*problem)
    monkeypatch.setattr("fairpriv_sklearn.transport._barycenter._MOST_TABLED", 0)
    searched = fair_barycenter(*problem)
    assert_array_equal(searched.levels, tabled.levels)
    assert_array_equal(searched.target_cdf, tabled.target_cdf)


def test_a_thousand_groups():
    """Certified, and without a table of all groups at all of their steps."""
    rng = np.random.default_rng(0)
    pmfs = rng.dirichlet(np.ones(20), size=1000)
    grid, weights = np.linspace(0, 1, 20), rng.uniform(1, 2, size=1000)
    for tolerance in (0.0, 0.05):
        result = fair_barycenter(grid, pmfs, weights, tolerance)
        certificate = optimality_certificate(result)
        assert certificate.stationarity < 1e-9 and certificate.range_excess < 1e-12


def test_the_linear_program_is_solved_where_cvxpy_brings_no_solver(monkeypatch):
    """Older ones come without HiGHS, but SciPy has it inside."""
    monkeypatch.setattr("cvxpy.installed_solvers", lambda: ["OSQP", "SCIPY"])
    assert solver_name("cvxpy") == "SCIPY"
    assert solver_name("osqp") == "OSQP"
    with pytest.raises(ValueError, match="installed solvers: OSQP, SCIPY"):
        solver_name("highs")
