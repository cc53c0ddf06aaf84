"""One-dimensional Wasserstein distances and gradients against exact arithmetic."""

import os
import platform
import re
import subprocess
import sys
import tracemalloc
from fractions import Fraction
from itertools import accumulate, pairwise, permutations, product

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog

from fairpriv_sklearn._shared import exact_transport
from fairpriv_sklearn._shared.exact_transport import (
    MAX_CODES,
    RESOLUTION,
    sort_codes,
    sort_samples,
)
from fairpriv_sklearn.transport import (
    quantise,
    wasserstein_1d,
)

SMALL = st.lists(st.integers(-3, 3), min_size=1, max_size=6)


def exact_distance(u, v):
    """W2^2 of integer samples by the quantile formula, as a fraction."""
    n, m = len(u), len(v)
    pairs = zip(np.repeat(np.sort(u), m), np.repeat(np.sort(v), n), strict=True)
    return Fraction(sum((int(x) - int(y)) ** 2 for x, y in pairs), n * m)


def exact_gradient(u, v):
    """Derivative with respect to u: T_i is a mean over the ranks of u's tie block."""
    n, m = len(u), len(v)
    quantiles = [int(y) for y in np.repeat(np.sort(v), n)]  # n m ranks
    slots = [int(x) for x in np.repeat(np.sort(u), m)]
    gradient = []
    for x in u:
        block = [q for q, s in zip(quantiles, slots, strict=True) if s == x]
        gradient.append(Fraction(2, n) * (int(x) - Fraction(sum(block), len(block))))
    return gradient


@settings(max_examples=200)
@given(u=SMALL, v=SMALL)
def test_exact_arithmetic(u, v):
    distance, gradient_u, gradient_v = wasserstein_1d(u, v, return_gradient=True)
    assert_allclose(distance, float(exact_distance(u, v)), rtol=1e-15)
    assert_allclose(gradient_u, [float(g) for g in exact_gradient(u, v)], rtol=1e-15)
    assert_allclose(gradient_v, [float(g) for g in exact_gradient(v, u)], rtol=1e-15)
    assert wasserstein_1d(u, v) == distance


@settings(max_examples=50)
@given(
    u=st.lists(st.integers(0, 2), min_size=1, max_size=4),
    v=st.lists(st.integers(0, 4), min_size=1, max_size=5),
)
def test_ties_average_over_all_orders(u, v):
    n, m = len(u), len(v)
    quantiles = np.repeat(np.sort(v), n)
    total = np.zeros(n)
    orders = [p for p in permutations(range(n)) if (np.diff(np.take(u, p)) >= 0).all()]
    for order in orders:
        for rank, i in enumerate(order):
            total[i] += u[i] - quantiles[rank * m : (rank + 1) * m].mean()
    _, gradient, _ = wasserstein_1d(u, v, return_gradient=True)
    assert_allclose(gradient, 2 / n * total / len(orders), atol=1e-14)


@pytest.mark.parametrize("n, m", [(1, 1), (1, 9), (9, 1), (7, 7), (12, 8), (50, 33)])
def test_optimal_transport_solvers(n, m):
    rng = np.random.default_rng(n + m)
    u, v = rng.normal(size=n), rng.normal(1, 2, size=m)
    distance = wasserstein_1d(u, v)
    assert_allclose(distance, ot.emd2_1d(u, v), rtol=1e-12)
    costs = (u[:, None] - v) ** 2
    marginals = sparse.vstack(
        [
            sparse.kron(sparse.identity(n), np.ones((1, m))),
            sparse.kron(np.ones((1, n)), sparse.identity(m)),
        ]
    )
    program = linprog(
        costs.ravel(), A_eq=marginals, b_eq=np.repeat([1 / n, 1 / m], [n, m])
    )
    assert_allclose(distance, program.fun, rtol=1e-9)


@pytest.mark.parametrize("n, m", [(5, 5), (40, 25), (17, 60)])
def test_finite_differences(n, m):
    rng = np.random.default_rng(n)
    u, v = rng.permutation(n) / n, rng.random(m)  # no ties, gaps of at least 1 / n
    _, gradient_u, gradient_v = wasserstein_1d(u, v, return_gradient=True)
    # Off ties the distance is a quadratic of each record: central differences are
    # exact but for rounding.
    step = np.min(np.diff(np.sort(v))) / 4
    for sample, gradient in [(u, gradient_u), (v, gradient_v)]:
        for i in range(sample.size):
            value = sample[i]
            sample[i] = value + step
            above = wasserstein_1d(u, v)
            sample[i] = value - step
            below = wasserstein_1d(u, v)
            sample[i] = value
            assert_allclose(
                gradient[i], (above - below) / (2 * step), atol=1e-15 / step
            )


@settings(max_examples=100)
@given(
    u=st.lists(st.sampled_from([-0.0, 0.0, 0.1, 0.3, 1e9, -1e-9]), min_size=1),
    v=st.lists(st.floats(-10, 10), min_size=1),
    seed=st.integers(0, 100),
)
def test_row_order_changes_no_bit(u, v, seed):
    rng = np.random.default_rng(seed)
    order_u, order_v = rng.permutation(len(u)), rng.permutation(len(v))
    u, v = np.array(u), np.array(v)
    distance, gradient_u, gradient_v = wasserstein_1d(u, v, return_gradient=True)
    shuffled = wasserstein_1d(u[order_u], v[order_v], return_gradient=True)
    assert shuffled[0] == distance
    assert_array_equal(shuffled[1], gradient_u[order_u])
    assert_array_equal(shuffled[2], gradient_v[order_v])


def test_row_order_of_many_rows():
    rng = np.random.default_rng(0)
    u, v = rng.random(30_000).round(3), rng.random(20_000).round(3)
    order = rng.permutation(u.size)
    distance, gradient, _ = wasserstein_1d(u, v, return_gradient=True)
    again, shuffled, _ = wasserstein_1d(u[order], v, return_gradient=True)
    assert again == distance
    assert_array_equal(shuffled, gradient[order])


@settings(max_examples=100)
@given(u=SMALL, v=SMALL, shift=st.integers(-5, 5), factor=st.sampled_from([-2, 0.5, 4]))
def test_invariances(u, v, shift, factor):
    u, v = np.array(u), np.array(v)
    distance, gradient_u, gradient_v = wasserstein_1d(u, v, return_gradient=True)
    assert distance >= (u.mean() - v.mean()) ** 2 - 1e-14
    # The derivative along a common shift, and the sum of each gradient, are known.
    assert_allclose(gradient_u.sum(), 2 * (u.mean() - v.mean()), atol=1e-14)
    assert_allclose(gradient_v.sum(), 2 * (v.mean() - u.mean()), atol=1e-14)
    # Euler's identity for a quadratic form, which ties do not disturb.
    assert_allclose(gradient_u @ u + gradient_v @ v, 2 * distance, atol=1e-13)
    moved = wasserstein_1d(factor * u + shift, factor * v + shift, return_gradient=True)
    assert_allclose(moved[0], factor**2 * distance, atol=1e-13)
    assert_allclose(moved[1], factor * gradient_u, atol=1e-13)
    assert wasserstein_1d(u, np.repeat(u, 3)) == 0.0


def sorted_gradient(a, b, n_blocks):
    """Derivatives of the first tie blocks of integers a, one per record, sorted.

    Integrals of the quantile function of b between rank ends, in Python's integers.
    """
    a, b = sorted(a.tolist()), sorted(b.tolist())
    prefix = [0, *accumulate(b)]

    def integral(rank):  # times len(a) * len(b)
        whole, part = divmod(rank * len(b), len(a))
        return prefix[whole] * len(a) + (part * b[whole] if part else 0)

    blocks = [0, *(i for i in range(1, len(a)) if a[i] != a[i - 1]), len(a)]
    gradient = []
    for start, stop in list(pairwise(blocks))[:n_blocks]:
        size = (stop - start) * len(b)
        residual = Fraction(a[start] * size - integral(stop) + integral(start), size)
        gradient += [float(2 * residual / len(a))] * (stop - start)
    return np.array(gradient)


@pytest.mark.parametrize("n, m", [(100_000, 99_991), (3, 50_000), (20_000, 20_000)])
def test_codes_of_large_samples(n, m):
    rng = np.random.default_rng(n)
    u = quantise(rng.beta(2, 3, n), 0, 1)
    v = quantise(rng.beta(3, 2, m), 0, 1)
    u[: n // 3] = 12345  # a large tie block
    _, gradient_u, gradient_v = wasserstein_1d(u, v, return_gradient=True)
    for a, b, gradient in [(u, v, gradient_u), (v, u, gradient_v)]:
        expected = sorted_gradient(a, b, n_blocks=3000)
        actual = gradient[np.argsort(a)][: expected.size]
        assert_allclose(actual, expected, rtol=4e-15)


def test_sums_that_no_integer_holds():
    """70,000 times 70,000 times 2**32 is above 2**63: codes are cut into digits."""
    n, top = 70_000, 2**32 - 1
    tied, other = np.zeros(n, dtype=np.int64), top - np.arange(n)
    distance, of_tied, of_other = wasserstein_1d(tied, other, return_gradient=True)
    again = wasserstein_1d(other, tied, return_gradient=True)
    expected = sum(value**2 for value in other.tolist()) / n
    assert_allclose([distance, again[0]], expected, rtol=1e-15)
    assert_allclose([of_tied, again[2]], -2 * (sum(other.tolist()) / n) / n, rtol=1e-15)
    assert_allclose([of_other, again[1]], [2 * other / n] * 2, rtol=1e-15)


def test_floats_of_large_samples():
    rng = np.random.default_rng(0)
    u, v = rng.random(100_000), rng.random(77_777)  # multiples of 2**-53
    _, gradient_u, gradient_v = wasserstein_1d(u, v, return_gradient=True)
    for a, b, gradient in [(u, v, gradient_u), (v, u, gradient_v)]:
        scaled = [np.ldexp(sample, 53).astype(np.int64) for sample in (a, b)]
        expected = np.ldexp(sorted_gradient(*scaled, n_blocks=20_000), -53)
        actual = gradient[np.argsort(a)][: expected.size]
        assert_allclose(actual, expected, atol=1e-15 / a.size, rtol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 300, 70_000, exact_transport._LARGE])
@pytest.mark.parametrize(
    "kind", ["spread", "ties", "equal", "outlier", "close", "wide", "subnormal"]
)
def test_the_order_of_samples_is_the_stable_one(n, kind):
    """Leading digits tell many apart, few, or none, or are out of range."""
    rng = np.random.default_rng(n)
    values = {
        "spread": lambda: rng.normal(size=n),
        "ties": lambda: rng.integers(-9, 9, n) / 7,
        "equal": lambda: np.full(n, -0.3),
        "outlier": lambda: np.append(rng.normal(size=n - 1), -1e15),
        "close": lambda: np.append(1 + rng.integers(0, 9, n - 1) * 2.0**-52, 2.0),
        "wide": lambda: rng.uniform(-1, 1, n) * 1.7e308,
        "subnormal": lambda: rng.integers(-9, 9, n) * 5e-324,
    }[kind]()
    order, in_order = sort_samples(values)
    assert_array_equal(order, np.argsort(values, kind="stable"))
    assert_array_equal(in_order, values[order])


@pytest.mark.parametrize("end", [3, RESOLUTION + 1, MAX_CODES])
def test_the_order_of_codes_is_the_stable_one(end):
    codes = np.random.default_rng(0).integers(0, end, 5000)
    codes[[7, 4000]] = end - 1
    order, in_order = sort_codes(codes)
    assert_array_equal(order, np.argsort(codes, kind="stable"))
    assert_array_equal(in_order, codes[order])


@pytest.mark.parametrize("end", [3, 1 << 16, RESOLUTION + 1, MAX_CODES])
def test_many_codes_are_sorted_by_parts(end):
    """All in one part, some parts empty, or more digits than two radix sorts have."""
    codes = np.random.default_rng(0).integers(0, end, exact_transport._LARGE + 7)
    codes[: len(codes) // 2] //= 3
    order, in_order = sort_codes(codes)
    assert_array_equal(order, np.argsort(codes, kind="stable"))
    assert_array_equal(in_order, codes[order])


@pytest.mark.parametrize(("n", "m"), [(1, 1), (37, 1), (30, 30), (41, 17), (17, 41)])
@pytest.mark.parametrize("is_coded", [False, True])
def test_what_is_compared_at_once_does_not_matter(n, m, is_coded, monkeypatch):
    rng = np.random.default_rng(n)
    u, v = rng.normal(size=n), rng.normal(size=m)
    if is_coded:
        u, v = quantise(u, -2, 0.5), quantise(v, -2, 2)
    whole = wasserstein_1d(u, v, return_gradient=True)
    for size in (1, 2, 5, 16):
        monkeypatch.setattr(exact_transport, "_PART", size)
        for part, expected in zip(
            wasserstein_1d(u, v, return_gradient=True), whole, strict=True
        ):
            assert_array_equal(part, expected)


@pytest.mark.parametrize("n", [100_000, exact_transport._LARGE])
@pytest.mark.parametrize("is_coded", [False, True])
def test_memory_is_linear(n, is_coded):
    """What a call frees stays below what the C library gives back, at 1e6 points."""
    rng = np.random.default_rng(0)
    u, v = rng.random(n), rng.random(4 * n // 5)
    if is_coded:
        u, v = quantise(u, 0, 1), quantise(v, 0, 1)
    wasserstein_1d(u, v, return_gradient=True)
    tracemalloc.start()
    wasserstein_1d(u, v, return_gradient=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * (u.nbytes + v.nbytes)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_what_a_step_frees_the_next_one_uses():
    code = """
import resource
import numpy as np
import fairpriv_sklearn.linear_model

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(300_000) for _ in range(16)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(pages(), pages())"""
    unset = {name: end for name, end in os.environ.items() if "MALLOC" not in name}
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, env=unset
    )
    first, again = map(int, found.stdout.split())
    assert again < first / 100


def test_quantise():
    codes = quantise([-1.0, 0.0, 1.0, 3.0, 9.0, np.nan, np.inf, -np.inf], -1, 3)
    assert codes.dtype == np.int64
    quarter = RESOLUTION // 4
    expected = [0, quarter, 2 * quarter, RESOLUTION, RESOLUTION, 0, RESOLUTION, 0]
    assert_array_equal(codes, expected)
    values = np.random.default_rng(0).uniform(2, 5, 1000)
    restored = 2 + quantise(values, 2, 5) * (3 / RESOLUTION)
    assert_allclose(restored, values, atol=1.5001 / RESOLUTION, rtol=0)
    with pytest.raises(ValueError, match="low must be smaller than high, got 1 and 1"):
        quantise([0.0], 1, 1)


@pytest.mark.parametrize(
    "u, v, message",
    [
        ([], [1], "u must be an array of finite numbers with 1 dimension"),
        ([1], [[1]], "v must be an array of finite numbers with 1 dimension, got 2"),
        (
            [1, np.nan],
            [1],
            "u must be an array of finite numbers with 1 dimension; it holds",
        ),
    ],
)
def test_invalid_samples(u, v, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        wasserstein_1d(u, v)


# Sensitivity of the gradient sum_i dW/du_i a_i + sum_j dW/dv_j b_j over records with
# outputs in [0, 1] and gradients |a_i| <= slope_u, |b_j| <= slope_v.  For given outputs
# the worst gradients are known: aligned for the records that stay, opposite for the one
# that changes.  So only the outputs are searched.


def _gradients(u, v):
    """Gradients on codes in units of the range, as an estimator computes them."""
    u, v = quantise(u, 0, 1), quantise(v, 0, 1)
    _, gradient_u, gradient_v = wasserstein_1d(u, v, return_gradient=True)
    return gradient_u / RESOLUTION, gradient_v / RESOLUTION


def replacement(u, v, output, slope_u, slope_v):
    """Largest change when record 0 of u is replaced."""
    before_u, before_v = _gradients(u, v)
    after_u, after_v = _gradients(np.concatenate([[output], u[1:]]), v)
    own = abs(before_u[0]) + abs(after_u[0])
    others = np.abs(before_u[1:] - after_u[1:]).sum()
    return slope_u * (own + others) + slope_v * np.abs(before_v - after_v).sum()


def removal(u, v, slope_u, slope_v):
    """Largest change when record 0 of u is removed."""
    before_u, before_v = _gradients(u, v)
    after_u, after_v = _gradients(u[1:], v)
    own, others = abs(before_u[0]), np.abs(before_u[1:] - after_u).sum()
    return slope_u * (own + others) + slope_v * np.abs(before_v - after_v).sum()


def group_switch(u, v, output, slope_u, slope_v):
    """Largest change when record 0 of u becomes a record of v."""
    before_u, before_v = _gradients(u, v)
    after_u, after_v = _gradients(u[1:], np.append(v, output))
    return slope_u * (
        abs(before_u[0]) + np.abs(before_u[1:] - after_u).sum()
    ) + slope_v * (abs(after_v[-1]) + np.abs(before_v - after_v[:-1]).sum())


def bound(slope_u, slope_v):
    """B of Theorem 2 for outputs in [0, 1]."""
    return 2 * max(2 * slope_u, slope_u + slope_v)


# Rounding of the quantised gradient, as the estimators allow for it.
INFLATION = 1 + 1e-5
SLOPES = [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.3, 1.0)]


def configurations(seed, n_random=400):
    """All vertices for a few sizes, then random outputs with and without ties."""
    for n, m in [(2, 1), (2, 2), (3, 2), (2, 3)]:
        for outputs in product([0.0, 1.0], repeat=n + m + 1):
            yield np.array(outputs[:n]), np.array(outputs[n:-1]), outputs[-1]
    rng = np.random.default_rng(seed)
    for _ in range(n_random):
        n, m = rng.integers(2, 12), rng.integers(1, 12)
        outputs = rng.beta(0.3, 0.3, n + m + 1)
        if rng.random() < 0.5:
            outputs = outputs.round(1)
        yield outputs[:n], outputs[n:-1], outputs[-1]


@pytest.mark.parametrize(
    "slopes, attained", zip(SLOPES, [4.0, 4.0, 2.0, 2.6], strict=True)
)
def test_replacing_a_record(slopes, attained):
    assert_allclose(bound(*slopes), attained)
    changes = [
        u.size * replacement(u, v, output, *slopes)
        for u, v, output in configurations(seed=1)
    ]
    assert max(changes) <= attained * INFLATION
    assert_allclose(max(changes), attained)


@pytest.mark.parametrize("slopes", SLOPES)
def test_removing_a_record(slopes):
    changes = [u.size * removal(u, v, *slopes) for u, v, _ in configurations(seed=2)]
    assert max(changes) <= bound(*slopes) * INFLATION
    assert_allclose(max(changes), bound(*slopes))


@pytest.mark.parametrize("slopes", SLOPES)
def test_switching_the_group(slopes):
    shares = []
    for u, v, output in configurations(seed=3):
        limit = bound(*slopes) / u.size + bound(*slopes[::-1]) / (v.size + 1)
        shares.append(group_switch(u, v, output, *slopes) / limit)
    assert max(shares) <= INFLATION
    if slopes == (1.0, 1.0):  # a common gradient bound, as in every estimator
        assert_allclose(max(shares), 1.0)


def test_index_tie_breaking_would_break_the_bound():
    # What ties averaged away: equal outputs, gradients of both signs, rows permuted.
    u, v = np.full(100, 0.5), np.linspace(0, 1, 100)
    signs = np.repeat([1.0, -1.0], 50)
    gradient, _ = _gradients(u, v)
    assert abs(gradient @ signs) < 1e-12
    by_index = 2 / 100 * (u - v)
    assert abs(by_index @ signs) * 100 > 10 * bound(1, 1)
