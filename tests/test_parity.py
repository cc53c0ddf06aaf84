"""Sums over groups, offsets, thresholds and randomised rules against oracles."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx
from scipy.optimize import brentq, minimize
from scipy.special import expit, softmax

from fairpriv_sklearn._shared.arrays import project_simplex
from fairpriv_sklearn._wall import CellCounts, Rows
from fairpriv_sklearn.postprocessing import _parity as parity
from fairpriv_sklearn.postprocessing._histogram import smooth_estimate
from fairpriv_sklearn.postprocessing._queries import (
    MarginCounts,
    SoftCounts,
)

SQRT2 = 2**0.5


def random_scores(rng, n_rows, n_classes):
    return rng.dirichlet(np.full(n_classes, 0.5), size=n_rows)


def soft_sums(scores, codes, n_groups, smoothing, labels=None):
    """The query ``offsets -> sums`` of the gradient mechanism, as a fit asks it."""
    n_classes = scores.shape[1]
    if labels is None and n_classes == 2:
        query = MarginCounts(n_groups, smoothing)
        n_margins = len(parity.margin_grid(smoothing))
        places = codes * n_margins + parity.margin_bins(scores, smoothing)
        rows = Rows(len(codes), places=places)
    else:
        cells = codes if labels is None else labels * n_groups + codes
        n_conditions = 1 if labels is None else n_classes
        query = SoftCounts(n_conditions, n_groups, n_classes, smoothing)
        rows = Rows(len(codes), scores=scores, groups=codes, cells=cells)
    return lambda offsets: query.of_rows(rows, offsets)


# --- sums over groups of records ----------------------------------------------------


@pytest.mark.parametrize("n_groups", [2, 8, 9])
def test_the_sums_are_the_same_integers_whatever_the_number_of_groups(n_groups):
    """Few are summed by a product, many by counting; another group changes nothing."""
    rng = np.random.default_rng(0)
    scores, codes = random_scores(rng, 9000, 3), rng.integers(2, size=9000)
    offsets = rng.uniform(-0.3, 0.3, size=(1, n_groups, 3))
    found = soft_sums(scores, codes, n_groups, 0.05)(offsets)
    parts = parity.softmax_parts(parity.shifted_scores(scores, codes, offsets), 0.05)
    exact = [[sum(map(int, part[codes == s])) for part in parts] for s in range(2)]
    assert_array_equal(found[0, :2] / parity.SUM_GRID, exact)
    assert not found[0, 2:].any()


@pytest.mark.parametrize("offset", [np.nan, np.inf, -np.inf, 1.7e308])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_record_moves_the_sums_by_no_more_whatever_the_offsets(n_classes, offset):
    """Steps may overflow: what is not a number was the least integer, and wrapped."""
    rng = np.random.default_rng(0)
    scores, codes = (
        random_scores(rng, 9, n_classes),
        np.arange(9) // 8,
    )  # one in a group
    offsets = np.zeros((1, 2, n_classes))
    offsets[0, 1, -1] = offset
    with np.errstate(all="ignore"):
        sums = soft_sums(scores, codes, 2, 0.05)(offsets)
        for row in range(9):
            others = np.arange(9) != row
            less = soft_sums(scores[others], codes[others], 2, 0.05)(offsets)
            assert np.linalg.norm(sums - less) <= 1
            moved = np.where(others, codes, 1 - codes)
            there = soft_sums(scores, moved, 2, 0.05)(offsets)
            assert np.linalg.norm(sums - there) <= np.sqrt(2)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_soft_sums_are_sums_of_softmax_rows(n_classes):
    rng = np.random.default_rng(0)
    p = random_scores(rng, 500, n_classes)
    codes = rng.integers(3, size=500)
    offsets = rng.uniform(-0.3, 0.3, size=(1, 3, n_classes))
    beta = 0.05
    compared = p
    if n_classes == 2:
        spread = parity.spread_out(p[:, 1] - p[:, 0])
        compared = np.column_stack([-spread, spread]) / 2
    rows = softmax((compared - offsets[0][codes]) / beta, axis=1)
    expected = np.array([rows[codes == s].sum(axis=0) for s in range(3)])
    sums = soft_sums(p, codes, 3, beta)(offsets)
    # Two classes: margins are rounded to beta / 16, a slope of at most 1 / (4 beta)
    # for half a cell; sums are cut to 2**-30 per row.
    width = 500 * (0.25 / 32 if n_classes == 2 else 2.0**-29)
    assert_allclose(sums[0], expected, rtol=0, atol=width)
    assert_allclose(sums[0].sum(axis=1), np.bincount(codes, minlength=3), atol=1e-5)


def test_margins_are_spread_out_and_drawn_together():
    margins = np.array([-1.0, -0.999, -0.5, -1e-3, 0.0, 1e-3, 0.5, 0.999, 1.0])
    spread = parity.spread_out(margins)
    assert (np.diff(spread) > 0).all()
    assert_allclose(spread, -spread[::-1], atol=1e-15)
    assert spread[8] == parity.FARTHEST == approx(16 / 9) and spread[4] == 0
    odds = np.log((1 + margins[1:-1]) / (1 - margins[1:-1]))
    assert_allclose(spread[1:-1], (margins[1:-1] + odds / 16) * 8 / 9, atol=1e-14)
    assert spread[5] == approx(1e-3, rel=1e-6)
    # Log-odds of 16 and more are as good as certain, and none is beyond.
    assert parity.spread_out(np.array([1 - 1e-9, 1.5])) == approx(spread[[8, 8]])
    offsets = np.column_stack([0.3 - spread / 2, 0.3 + spread / 2])
    drawn = parity.drawn_together(offsets)
    ends = np.array([-parity.FARTHEST, *margins[1:-1], parity.FARTHEST])
    assert_allclose(drawn[:, 1] - drawn[:, 0], ends, atol=1e-11)
    assert_array_equal(drawn[:, 0], -drawn[:, 1])
    beyond = parity.drawn_together(np.array([[0.0, 1.8], [1.8, 0.0]]))
    assert_array_equal(beyond, [[-0.9, 0.9], [0.9, -0.9]])


@given(
    st.floats(-2.0, 2.0),
    hnp.arrays(float, 40, elements=st.floats(-30, 30)),
)
def test_drawn_offsets_decide_as_spread_margins_do(threshold, odds):
    second = expit(odds)
    p = np.column_stack([expit(-odds), second])
    spread = parity.spread_out(p[:, 1] - p[:, 0])
    clear = abs(spread - threshold) > 1e-9
    (offsets,) = parity.drawn_together(np.array([[0.0, threshold]]))
    shifted = p - offsets
    chosen = shifted[:, 1] > shifted[:, 0]
    assert_array_equal(chosen[clear], (spread > threshold)[clear])


def test_cell_sums_are_sums_of_the_rule_by_true_class():
    rng = np.random.default_rng(1)
    p = random_scores(rng, 300, 3)
    codes, labels = rng.integers(2, size=300), rng.integers(3, size=300)
    offsets = rng.uniform(-0.3, 0.3, size=(3, 2, 3))
    shifted = p - np.einsum("ny,nyk->nk", p, offsets[:, codes].swapaxes(0, 1))
    rows = softmax(shifted / 0.05, axis=1)
    sums = soft_sums(p, codes, 2, 0.05, labels)(offsets)
    for y in range(3):
        for s in range(2):
            expected = rows[(labels == y) & (codes == s)].sum(axis=0)
            assert_allclose(sums[y, s], expected, atol=300 * 2.0**-29)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("by_labels", [False, True])
def test_sensitivity_of_a_release(n_classes, by_labels):
    """Search neighbours: group switches, label switches, vertices, ties, few rows.

    The bounds are exact, hence no tolerance, and the search has to reach them.
    """
    rng = np.random.default_rng(2)
    n_groups, largest = 3, {"replace_one": 0.0, "add_remove": 0.0}
    bounds = {"replace_one": SQRT2, "add_remove": 1.0}
    for trial in range(1500):
        n_rows = int(rng.integers(1, 8))
        p = random_scores(rng, n_rows + 1, n_classes)
        if trial % 3 == 0:
            p = np.eye(n_classes)[rng.integers(n_classes, size=n_rows + 1)]
        elif trial % 3 == 1:
            p[:] = 1 / n_classes  # all tied, one record moves
            p[-1] = np.eye(n_classes)[0]
        codes = rng.integers(n_groups, size=n_rows + 1)
        labels = rng.integers(n_classes, size=n_rows + 1)
        n_conditions = n_classes if by_labels else 1
        offsets = rng.uniform(-1, 1, size=(n_conditions, n_groups, n_classes))
        offsets *= rng.integers(2)
        beta = [0.02, 1e-3, 1.0][trial % 3]

        def query(rows, p=p, codes=codes, labels=labels, offsets=offsets, beta=beta):
            marks = labels[rows] if by_labels else None
            return soft_sums(p[rows], codes[rows], n_groups, beta, marks)(offsets)

        kept = np.arange(n_rows - 1)
        with_first = query(rng.permutation(np.append(kept, n_rows - 1)))
        with_other = query(rng.permutation(np.append(kept, n_rows)))
        without = query(kept)
        for relation, change in (
            ("replace_one", with_first - with_other),
            ("add_remove", with_first - without),
        ):
            size = np.linalg.norm(change)
            assert size**2 <= bounds[relation] ** 2 * (1 + 2**-50)
            largest[relation] = max(largest[relation], size)
    for relation, bound in bounds.items():
        assert largest[relation] >= 0.95 * bound


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_record_counts_the_same_wherever_it_stands(n_classes):
    rng = np.random.default_rng(3)
    p = random_scores(rng, 10_000, n_classes)
    codes = rng.integers(2, size=10_000)
    offsets = rng.uniform(-0.2, 0.2, size=(1, 2, n_classes))
    total = soft_sums(p, codes, 2, 0.02)(offsets)
    order = rng.permutation(10_000)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        again = soft_sums(layout(p[order]), codes[order], 2, 0.02)(offsets)
        assert_array_equal(again, total)
    parts = sum(
        soft_sums(p[rows], codes[rows], 2, 0.02)(offsets)
        for rows in np.array_split(order, [1, 7, 300, 5000])
    )
    assert_array_equal(parts, total)


def test_empty_tables_and_groups_count_zero():
    for n_classes in (2, 3):
        query = soft_sums(
            np.empty((0, n_classes)), np.empty(0, dtype=np.int64), 3, 0.02
        )
        assert_array_equal(
            query(np.zeros((1, 3, n_classes))), np.zeros((1, 3, n_classes))
        )


# --- offsets ------------------------------------------------------------------------


def fitted(query, n_classes, n_groups=2, *, noise=0.0, rng=None, **params):
    """Steps by the sums of a query and normal noise, all rates to be shared."""

    def noisy_sums(offsets):
        sums = query(offsets)
        return sums + rng.normal(scale=noise, size=sums.shape) if noise else sums

    defaults = {"max_iter": 30, "learning_rate": 1.0, "tolerance": 0.0}
    return parity.fit_offsets(
        noisy_sums,
        steered=np.ones((1, n_classes), dtype=bool),
        n_groups=n_groups,
        noise_scale=noise,
        **{**defaults, **params},
    )


def noiseless(p, codes, *, tolerance=0.0, max_iter=400, n_groups=2, smoothing=0.01):
    query = soft_sums(p, codes, n_groups, smoothing)
    params = {"max_iter": max_iter, "tolerance": tolerance}
    found = fitted(query, p.shape[1], n_groups, **params)
    return found.offsets[0], found.told[0]


def shifted_population(rng, n_rows, n_classes):
    """Scores of two groups, the second leaning to the first class."""
    codes = rng.integers(2, size=n_rows)
    p = rng.dirichlet(np.full(n_classes, 1.5), size=n_rows)
    p[codes == 1, 0] *= 2.0
    return p / p.sum(axis=1, keepdims=True), codes


def rate_gap(p, codes, offsets):
    chosen = (p - offsets[codes]).argmax(axis=1)
    rates = [np.bincount(chosen[codes == s], minlength=p.shape[1]) for s in (0, 1)]
    rates = np.array([r / r.sum() for r in rates])
    return np.ptp(rates, axis=0).max(), chosen


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_offsets_meet_the_tolerance_at_the_best_accuracy(n_classes, tolerance):
    p, codes = shifted_population(np.random.default_rng(4), 20_000, n_classes)
    assert rate_gap(p, codes, np.zeros((2, n_classes)))[0] > 0.2
    offsets, told = noiseless(p, codes, tolerance=tolerance)
    assert_allclose(np.bincount(codes) @ offsets, 0, atol=1e-6 * len(p))
    if n_classes == 2:
        offsets = parity.drawn_together(offsets)
    gap, chosen = rate_gap(p, codes, offsets)
    assert tolerance - 0.02 <= gap <= tolerance + 0.02
    assert told.all()  # nothing is in doubt without noise
    # Oracle: the same rates are reached no better by any other offsets. Expected
    # accuracy from the linear program over the empirical table, at the same gap.
    reached = p[np.arange(len(p)), chosen].mean()
    assert reached >= best_expected_accuracy(p[:1500], codes[:1500], gap) - 0.02


def best_expected_accuracy(p, codes, tolerance):
    """Linear program over randomised decisions of every row."""
    import cvxpy as cp

    x = cp.Variable(p.shape, nonneg=True)
    rates = [cp.sum(x[np.flatnonzero(codes == s)], axis=0) / np.sum(codes == s)
             for s in (0, 1)]  # fmt: skip
    constraints = [cp.sum(x, axis=1) == 1, cp.abs(rates[0] - rates[1]) <= tolerance]
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(p, x)) / len(p)), constraints)
    return problem.solve(solver=cp.HIGHS)


def test_offsets_by_true_class_narrow_the_gap_in_error_rates():
    rng = np.random.default_rng(5)
    n_rows = 20_000
    codes = rng.integers(2, size=n_rows)
    p1 = rng.beta(np.where(codes, 2.0, 1.0), 1.5)
    p = np.column_stack([1 - p1, p1])
    labels = (rng.random(n_rows) < p1).astype(np.int64)
    steered = np.array([[False, True], [False, True]])
    offsets = parity.fit_offsets(
        soft_sums(p, codes, 2, 0.02, labels),
        steered=steered,
        n_groups=2,
        noise_scale=0.0,
        max_iter=200,
        learning_rate=1.0,
        tolerance=0.0,
    ).offsets
    assert_array_equal(offsets[:, :, 0], 0)

    def gaps(nu):
        shifted = p - np.einsum("ny,nyk->nk", p, nu[:, codes].swapaxes(0, 1))
        chosen = shifted.argmax(axis=1)
        rate = [[chosen[(codes == s) & (labels == y)].mean() for s in (0, 1)]
                for y in (0, 1)]  # fmt: skip
        return np.ptp(rate, axis=1)

    # Equal quality in both groups: here deterministic shifts nearly suffice.
    assert gaps(np.zeros_like(offsets)).max() > 0.2
    assert gaps(offsets).max() < 0.06


@pytest.mark.parametrize("n_classes", [2, 3])
def test_steps_tell_the_rates_of_the_rule_that_they_find(n_classes):
    p, codes = shifted_population(np.random.default_rng(4), 4000, n_classes)
    query, noise = soft_sums(p, codes, 2, 0.02), 20.0
    rng = np.random.default_rng(8)
    errors, variance = [], 0.0
    for _ in range(40):
        found = fitted(query, n_classes, noise=noise, rng=rng)
        soft = query(found.offsets)
        errors.append(found.rates - soft / soft.sum(axis=2, keepdims=True))
        variance = found.variances.mean()
    # The released tables are used twice, for the offsets and here: the errors are no
    # larger than those of noise, and a small curvature.
    assert np.mean(np.square(errors)) < 1.5 * variance + 0.005**2
    assert np.abs(np.mean(errors, axis=0)).max() < 0.01
    assert variance == pytest.approx(
        noise**2 * (1 - 1 / n_classes) * 4 / 3 / 30 / 2000**2, rel=0.1
    )


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("held", [1, 10])
def test_groups_alike_are_seldom_told_apart_and_others_are(n_classes, share, held):
    rng = np.random.default_rng(3)
    noise, n_rows, told = 10.0, 1000, {0.0: 0, 2.0: 0}
    for lean in told:
        for _ in range(60):
            codes = (rng.random(n_rows) < share).astype(np.int64)
            p = rng.dirichlet(np.ones(n_classes), size=n_rows)
            p[codes == 1, 0] *= 1 + lean
            p /= p.sum(axis=1, keepdims=True)
            query = soft_sums(p, codes, 2, 0.02)
            steps = fitted(query, n_classes, noise=noise, rng=rng, held=held)
            assert steps.told[0, 0] == steps.told[0, 1]  # from each other
            told[lean] += steps.told[0, 0]
    assert told[0.0] <= 8 and told[2.0] >= 50


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_confident_scores_do_not_part_groups_that_are_alike(share):
    """Offsets that have no effect wander far: that is no evidence of a difference."""
    rng, told = np.random.default_rng(5), 0
    for _ in range(60):
        codes = (rng.random(800) < share).astype(np.int64)
        p1 = (rng.random(800) < 0.5).astype(float)  # zero or one, as of a deep tree
        query = soft_sums(np.column_stack([1 - p1, p1]), codes, 2, 0.02)
        told += fitted(query, 2, noise=28.0, rng=rng, held=8).told[0, 0]
    assert told <= 20  # two thirds, where a slope of one is taken for granted


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("noise", [0.0, 20.0])
def test_groups_alike_stay_alike_where_all_scores_are_nearly_the_same(n_classes, noise):
    """A step of the first size goes past all of them; the steps become small enough."""
    rng = np.random.default_rng(11)
    codes = rng.integers(2, size=12_000)
    gaps = []
    for _ in range(5):
        p1 = 0.505 + 0.005 * rng.normal(size=len(codes))
        p = np.zeros((len(codes), n_classes))
        p[:, 0], p[:, 1] = 1 - p1, p1
        query = soft_sums(p, codes, 2, 0.02)
        found = fitted(query, n_classes, noise=noise, rng=rng)
        gaps.append(rate_gap(p, codes, found.offsets[0])[0])
    assert np.mean(gaps) < 0.03  # .4 to .6 with steps that no turn makes smaller


@pytest.mark.parametrize("rare", [0.0, 0.01, 0.1])
def test_a_class_that_hardly_anybody_gets_does_not_part_groups(rare):
    """Its offsets wander freely, and so do those of two classes together."""
    rng, noise, n_groups = np.random.default_rng(12), 30.0, 5
    told = 0
    for _ in range(40):
        codes = rng.choice(n_groups, p=[0.36, 0.3, 0.3, 0.03, 0.01], size=700)
        p1 = 1 / (1 + np.exp(rng.normal(0.5, 1.0, size=len(codes))))
        p = np.column_stack([1 - p1, p1, np.zeros_like(p1)]) * (1 - rare)
        p[:, 2] = rare
        query = soft_sums(p, codes, n_groups, 0.02)
        found = fitted(query, 3, n_groups, noise=noise, rng=rng)
        told += found.told[0].any()
        assert not found.told[0, 3:].any()  # drowned
    assert told <= 2  # half of the runs, where offsets count as they are


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_step_turns_by_more_than_eight_squares_of_noise_and_a_tenth(noise):
    least = 8 * noise**2 + 0.01
    for size, turned in ((1.001, True), (0.999, False), (-5.0, False)):
        last = np.array([[[0.3, -0.3], [0.0, 0.0]]])
        move = -size * least / 0.18 * last
        found = parity.turns(move, last, np.full((1, 2), noise))
        assert_array_equal(found, [[turned, False]])


def test_after_a_turn_the_next_step_is_not_judged():
    """Of rates that change sides each time every second step is halved."""
    asked = []

    def sums(offsets):
        asked.append(offsets[0, 0, 1])
        chosen = len(asked) % 2
        return 1000.0 * np.array([[[1 - chosen, chosen], [chosen, 1 - chosen]]])

    fitted(sums, 2, max_iter=9)
    moves = np.diff(asked)
    assert_allclose(
        np.abs(moves) * 2 * np.sqrt(np.arange(1, 9)),
        [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125],
    )


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        # one part of the offset where two classes are chosen, whatever their rates
        ((0.5, 0.5), 1.0),
        ((0.8, 0.2), 1.0),
        # less where next to everybody gets one class: of 2 * .98 * .02, a tenth at most
        ((0.98, 0.02), 0.392),
        # a third class that hardly anybody gets does not count, at twice that it does
        ((0.6, 0.36, 0.04), 0.6 * (1 - 0.24) / 0.48),
        ((0.55, 0.35, 0.1), 0.55 * (1 - 0.2) / (1.5 * 0.55 * 0.45)),
    ],
)
def test_offsets_count_as_in_a_softmax(rates, expected, monkeypatch):
    size, shift, steps, seen = 1000.0, 0.1, 30, []
    sums = np.tile(size * np.array(rates), (steps, 1, 2, 1))
    offsets = np.zeros_like(sums)
    offsets[:, 0, 0, :2], offsets[:, 0, 1, :2] = (shift, -shift), (-shift, shift)
    estimate = parity.rates_without_offsets
    monkeypatch.setattr(
        parity,
        "rates_without_offsets",
        lambda rates, moves, *more: seen.append(moves) or estimate(rates, moves, *more),
    )
    parity.clear_differences(
        sums, offsets, np.full((1, 2), size), np.ones((1, len(rates)), bool), 30.0
    )
    assert_allclose(seen[0][:, 0, :, 0], [[expected * shift, -expected * shift]] * 30)


def told_apart(rates, sizes, steered, noise, steps=20):
    """By releases without offsets that all say the same."""
    sizes = np.asarray(sizes, dtype=float)
    sums = np.tile(sizes[..., None] * rates, (steps, 1, 1, 1))
    offsets = np.zeros_like(sums)
    return parity.clear_differences(sums, offsets, sizes, steered, noise)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("n_conditions", [1, 2])
@pytest.mark.parametrize("noise", [1.0, 20.0])
def test_groups_are_told_from_the_difference_on_that_pays(
    n_classes, n_conditions, noise
):
    """Two groups: its error times exp(-z^2 / 2) is the harm of those that are alike."""
    sizes, steps = np.tile([300.0, 150.0], (n_conditions, 1)), 20
    chance = noise**2 / steps * (1 - 1 / n_classes) / sizes[0] ** 2 + 0.25 / sizes[0]
    error = np.sqrt(chance.sum())
    cost = 2.0 * n_conditions * (n_classes - 1) * error
    least = np.sqrt(2 * np.log(cost / 0.01)) * error
    for factor, expected in ((1.004, True), (0.996, False)):
        rates = np.zeros((n_conditions, 2, n_classes))
        rates[:, :, 0] = 0.5
        rates[0, :, 0] += factor * least * np.array([1, -2]) / 3
        rates[:, :, 1] = 1 - rates[:, :, 0]
        found = told_apart(
            rates, sizes, np.ones((n_conditions, n_classes), bool), noise
        )
        # In all true classes, where it is in one.
        assert_array_equal(found, np.full((n_conditions, 2), expected))
    nothing = np.zeros((n_conditions, n_classes), bool)
    nothing[-1, 0] = n_conditions > 1
    assert not told_apart(rates, sizes, nothing, noise).any()


def test_others_may_add_a_part_of_the_gap_that_goes():
    """Of three groups one is far from all: the others are told by less."""
    sizes, noise, steps = np.full((1, 3), 100.0), 10.0, 20
    for factor, expected in ((1.01, True), (0.99, False)):
        # the third from the mean of the first two, which are as far on either side
        far, near = 0.16, 0.0
        for _ in range(50):  # the mean rate, and so the errors, hang on both
            rates = np.array([0.5 + far, 0.5 - far / 2 - near, 0.5 - far / 2 + near])
            chance = noise**2 / steps / 2 / 100**2 + 0.25 / 100
            error = np.sqrt(chance * (1 + 1 / 2))
            apart = np.abs(rates - 0.5) * 1.5
            harmless = 0.01 + 0.5 * (apart[0] - error)
            least = np.sqrt(2 * np.log(2.0 * 3 * error / harmless)) * error
            near = far / 2 - factor * least / 1.5
        table = np.stack([rates, 1 - rates], axis=-1)[None]
        found = told_apart(table, sizes, np.ones((1, 2), bool), noise)
        assert_array_equal(found, [[True, True, expected]])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_group_below_five_deviations_of_its_size_is_drowned(n_classes):
    noise, steps = 20.0, 20
    rates = np.eye(n_classes)[[0, 1, 1]][None]
    least = 5 * noise * np.sqrt(n_classes / steps)
    for size, expected in ((1.005 * least, True), (0.995 * least, False)):
        sizes = [[2000.0, 2000.0, size]]
        found = told_apart(rates, sizes, np.ones((1, n_classes), bool), noise)
        assert_array_equal(found, [[True, True, expected]])


def test_of_one_group_that_is_seen_nothing_is_told():
    """But where one alone is listed, nothing is in doubt."""
    for sizes, expected in (([[900.0]], [[True]]), ([[900.0, 8.0]], [[False, False]])):
        rates = np.full((1, len(sizes[0]), 2), [0.7, 0.3])
        found = told_apart(rates, sizes, np.ones((1, 2), dtype=bool), 20.0, steps=30)
        assert_array_equal(found, expected)


@pytest.mark.parametrize("n_conditions", [1, 3])
@pytest.mark.parametrize("true", [0.2, 1.0, 5.0])
def test_rates_without_offsets_are_a_mean_over_slopes(n_conditions, true):
    """By brute force: each slope, and each mixture of the true classes' offsets."""
    rng, steps = np.random.default_rng(13), 12
    shares = np.array([[1.0], [0.0], [0.0]])[:n_conditions, 0] + 0.1
    shares /= shares.sum()
    moves = rng.normal(size=(steps, n_conditions, 3, 2)) * 0.2
    noise = np.tile([0.1, 0.2, 0.05], (n_conditions, 1)) ** 2
    seen = np.ones((n_conditions, 3), bool)
    seen[:, 2] = False
    start = rng.normal(size=(n_conditions, 3, 2)) * 0.3
    rates = (
        start - true * moves + np.sqrt(noise)[..., None] * rng.normal(size=moves.shape)
    )
    found = parity.rates_without_offsets(rates, moves, noise, seen, shares)
    for c in range(n_conditions):
        for k in range(2):
            tried = []
            for mixture in (0.0, 0.5, 1.0) if n_conditions > 1 else (0.0,):
                mixed = (1 - mixture) * moves[:, c, :, k] + mixture * sum(
                    share * moves[:, y, :, k] for y, share in enumerate(shares)
                )
                for slope in 0.03 * (100 / 0.03) ** (np.arange(60) / 59):
                    x = rates[:, c, :, k] + slope * mixed
                    misfit = (x[:, :2].var(axis=0) / noise[c, :2]).sum() * steps
                    tried.append((misfit, np.log(slope) ** 2 / 0.64, x.mean(axis=0)))
            misfits, priors, means = map(np.array, zip(*tried, strict=True))
            scale = max(misfits.min() / (2 * (steps - 1)), 1)
            log = misfits / scale + priors
            weights = np.exp(-(log - log.min()) / 2)
            weights /= weights.sum()
            mean = weights @ means
            variance = weights @ (means - mean) ** 2 + scale * noise[c] / steps
            assert (variance < noise[c]).all()
            assert_allclose(found[0][c, :, k], mean, rtol=1e-9)
            assert_allclose(found[1][c, :, k], variance, rtol=1e-9)
    if n_conditions == 1:
        assert (np.abs(found[0] - start)[:, :2] < 4 * np.sqrt(found[1][:, :2])).all()


def test_where_no_slope_fits_the_first_release_is_believed():
    """Of scores that are nearly alike a step takes all of them past a threshold."""
    moves = np.tile([[0.3, -0.3], [-0.3, 0.3]], (15, 1)).reshape(30, 1, 1, 2)
    moves[0] = 0
    rates = np.where(moves > 0, -0.5, 0.5)
    rates[0] = [0.2, -0.2]
    rates = np.concatenate([rates, -rates], axis=2)
    moves = np.concatenate(
        [moves, -moves * np.linspace(1, 9, 30)[:, None, None, None]], 2
    )
    noise = np.full((1, 2), 0.01**2)
    found = parity.rates_without_offsets(
        rates, moves, noise, np.ones((1, 2), bool), np.ones(1)
    )
    assert_allclose(found[0], rates[0])
    assert_allclose(found[1], 0.01**2)


def test_the_first_step_follows_the_mean_of_a_quarter_of_the_releases():
    for noise in (1e-3, 0.5, 5.0):
        assert [parity.n_held(n, noise) for n in (1, 30, 100)] == [1, 8, 25]
    assert parity.n_held(30, 0.0) == 1  # nothing is in doubt
    size, noise = 500.0, 40.0

    def path(max_iter):
        rng, asked, told = np.random.default_rng(14), [], []

        def sums(offsets):
            asked.append(offsets)
            told.append(size / 2 + noise * rng.normal(size=(1, 2, 2)))
            return told[-1]

        params = {"noise_scale": noise, "learning_rate": 1.0, "tolerance": 0.0}
        steered = np.ones((1, 2), bool)
        found = parity.fit_offsets(
            sums, steered=steered, n_groups=2, max_iter=max_iter, held=4, **params
        )
        return asked, told, found.offsets

    asked, told, _ = path(9)
    found = path(8)[2]  # the same, but for the last step
    assert_allclose(found, np.tensordot(np.arange(1, 6) / 15, asked[4:], axes=1))
    assert_array_equal(asked[:4], 0)
    sizes = np.sum(told[:4], axis=(0, 3))[0] / 4
    steps = 1 / (1 + 4 * noise / 2 / sizes)
    mean = np.mean(told[:4], axis=0)[0]
    z = steps[:, None] * (
        0.5 + (mean - mean.mean(axis=1, keepdims=True)) / sizes[:, None]
    )
    moved = z - steps[:, None] * (sizes @ z) / (sizes @ steps)
    assert_allclose(asked[4][0], moved)
    assert np.abs(asked[5] - asked[4]).max() > 0


def test_noise_moves_offsets_of_an_empty_group_only_a_little():
    """An empty group must not throw the others off, nor produce NaN."""
    p, codes = shifted_population(np.random.default_rng(6), 3000, 3)
    rng = np.random.default_rng(7)
    query = soft_sums(p, codes, 3, 0.02)
    found = fitted(query, 3, 3, noise=20.0, rng=rng)
    offsets, told = found.offsets, found.told
    assert np.isfinite(offsets).all()
    assert_array_equal(told, [[True, True, False]])
    assert np.abs(offsets).max() <= 1
    assert rate_gap(p, codes, offsets[0])[0] < 0.1


@given(
    z=st.lists(st.floats(-3, 3), min_size=2, max_size=5),
    penalty=st.floats(0, 2),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60)
def test_centred_shrinkage_solves_its_problem(z, penalty, seed):
    rng = np.random.default_rng(seed)
    z = np.array(z)
    weights, steps = rng.uniform(0.1, 1, size=(2, len(z)))
    nu = parity.centred_shrinkage(z[:, None], weights, steps, penalty)[:, 0]
    assert_allclose(weights @ nu, 0, atol=1e-9)

    def objective(nu):
        return weights @ ((nu - z) ** 2 / (2 * steps) + penalty * np.abs(nu))

    # Optimality: no move that keeps the weighted mean lowers the objective.
    for i in range(len(z)):
        for j in range(len(z)):
            for size in (1e-4, -1e-4, 1e-2, -1e-2):
                moved = nu.copy()
                moved[i] += size / weights[i]
                moved[j] -= size / weights[j]
                assert objective(moved) >= objective(nu) - 1e-9


@given(
    scores=st.lists(st.floats(-5, 5), min_size=2, max_size=6),
)
@settings(max_examples=100)
def test_projection_on_the_simplex(scores):
    scores = np.array(scores)
    projected = project_simplex(scores[None])[0]
    assert_allclose(projected.sum(), 1, atol=1e-12)
    assert (projected >= 0).all()
    # The obtuse angle condition at the vertices characterises the projection.
    assert ((np.eye(len(scores)) - projected) @ (scores - projected)).max() <= 1e-9
    assert projected[scores.argmax()] == projected.max()


# --- thresholds ---------------------------------------------------------------------


def expected_accuracy(pmfs, weights, thresholds):
    """Accuracy of thresholds for calibrated scores spread evenly in their bins."""
    n_bins = pmfs.shape[1]
    total = 0.0
    for pmf, weight, threshold in zip(pmfs, weights, thresholds, strict=True):
        low = np.arange(n_bins) / n_bins
        high = low + 1 / n_bins
        cut = np.clip(threshold, low, high)
        # integral of p above the cut and of 1 - p below it, density pmf * n_bins
        above = (high**2 - cut**2) / 2
        below = (cut - low) - (cut**2 - low**2) / 2
        total += weight * np.sum(pmf * n_bins * (above + below))
    return total


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("n_groups", [2, 4])
def test_parity_thresholds_are_optimal(tolerance, n_groups):
    rng = np.random.default_rng(8)
    pmfs = rng.dirichlet(np.full(16, 0.7), size=n_groups)
    weights = rng.dirichlet(np.ones(n_groups))
    thresholds, rates = parity.parity_thresholds(pmfs, weights, tolerance)
    edges = np.linspace(0, 1, 17)
    tails = 1 - np.column_stack([np.zeros(n_groups), pmfs.cumsum(axis=1)])
    direct = [np.interp(t, edges, tail) for t, tail in zip(thresholds, tails)]  # noqa: B905
    assert_allclose(rates, direct, atol=1e-7)
    assert np.ptp(rates) <= tolerance + 1e-9
    reached = expected_accuracy(pmfs, weights, thresholds)

    def accuracy_at(rates):
        cuts = [np.interp(-r, -tail, edges) for r, tail in zip(rates, tails)]  # noqa: B905
        return expected_accuracy(pmfs, weights, cuts)

    best = np.array([np.interp(0.5, edges, tail) for tail in tails])
    grid = max(
        accuracy_at(np.clip(best, c - tolerance / 2, c + tolerance / 2))
        for c in np.linspace(0, 1, 2001)
    )
    assert reached >= grid - 1e-6
    # ... and no other rates within the tolerance do better.
    found = minimize(
        lambda r: -accuracy_at(np.clip(r, r.mean() - tolerance / 2,
                                       r.mean() + tolerance / 2)),
        rates + rng.normal(scale=0.02, size=n_groups),
        method="Nelder-Mead",
    )  # fmt: skip
    assert reached >= -found.fun - 1e-6


def test_equal_groups_keep_the_threshold_one_half():
    pmf = np.random.default_rng(9).dirichlet(np.ones(10))
    thresholds, _ = parity.parity_thresholds(np.tile(pmf, (3, 1)), np.ones(3) / 3, 0.0)
    assert_allclose(thresholds, 0.5, atol=1e-6)


# --- regions and randomised rules -----------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_score_bins_agree_with_their_classes(n_classes):
    rng = np.random.default_rng(10)
    p = random_scores(rng, 4000, n_classes)
    bins = parity.score_bins(p, 32)
    n_regions = parity.n_score_bins(n_classes, 32)
    assert bins.min() >= 0 and bins.max() < n_regions
    assert_array_equal(parity.bin_classes(n_classes, 32)[bins], p.argmax(axis=1))
    corners = parity.score_bins(np.eye(n_classes), 32)
    assert len(set(corners.tolist())) == n_classes
    assert (parity.score_bins(np.full((1, n_classes), 1 / n_classes), 32) >= 0).all()


def test_the_rates_that_groups_must_share():
    odds, chances = "equalized_odds", "equal_opportunity"
    assert parity.constrained_rates(odds, 2) == [(0, 1), (1, 1)]
    every = [(y, k) for y in range(3) for k in range(3)]
    assert parity.constrained_rates(odds, 3) == every
    assert parity.constrained_rates(chances, 2) == [(1, 1)]
    assert parity.constrained_rates(chances, 3) == [(0, 0), (1, 1), (2, 2)]


def test_a_cell_of_nobody_gets_the_distribution_of_the_others():
    """Without noise counts are taken as they are, where there are some."""
    counts = np.arange(1.0, 37).reshape(3, 2, 6)
    counts[0, 1] = 0
    masses, weights = parity.estimate_cells(counts, noise_variance=0.0, ordered=False)
    assert_allclose(masses.sum(axis=2), 1.0)
    others = np.where(counts.sum(axis=2) > 0)
    found = masses.transpose(1, 0, 2)[others]
    shares = counts[others] / counts[others].sum(axis=1, keepdims=True)
    assert_allclose(found, shares, atol=1e-6)
    sizes = np.maximum(counts.sum(axis=2), 1.0)
    assert_allclose(weights.T, sizes / sizes.sum(), atol=1e-9)


def test_cell_counts_change_by_one_record():
    rng = np.random.default_rng(11)
    for _ in range(200):
        bins, cells = rng.integers(5, size=9), rng.integers(4, size=9)
        counts = CellCounts((2, 2, 5)).of_rows(
            Rows(len(cells), cells=cells * 5 + bins), None
        )
        assert counts.sum() == 9 and counts.dtype == np.int64
        assert counts.ravel()[cells[0] * 5 + bins[0]] >= 1
        bins[0], cells[0] = rng.integers(5), rng.integers(4)
        change = (
            CellCounts((2, 2, 5)).of_rows(
                Rows(len(cells), cells=cells * 5 + bins), None
            )
            - counts
        )
        assert np.abs(change).sum() <= 2


def roc(masses, scores_fall):
    """ROC points (false, true positive rate) of thresholds, from none to all."""
    tail = np.cumsum(masses[:, ::-1], axis=1)
    return np.column_stack([[0, 0], tail]) if scores_fall else tail


@pytest.mark.parametrize("seed", range(4))
def test_equalized_odds_reaches_the_best_common_point_of_the_roc_hulls(seed):
    """Oracle: the intersection of convex hulls, searched on a grid of their edges."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0.02, 0.98, 12)
    masses = np.array(
        [
            [x ** (a - 1) * (1 - x) ** (b - 1) for a, b in pair]
            for pair in (((1, 3), (3, 1)), ((1, 1.5), (2, 1 + rng.random())))
        ]
    )
    masses /= masses.sum(axis=2, keepdims=True)
    weights = rng.dirichlet(np.ones(4)).reshape(2, 2)
    defaults = parity.bin_classes(2, 12)
    rule = parity.randomised_rule(masses, weights, [(0, 1), (1, 1)], 0.0, defaults)
    assert_allclose(rule.sum(axis=2), 1)
    assert (np.diff(rule[:, :, 1], axis=1) >= -1e-9).all()
    points = np.einsum("syb,sb->sy", masses, rule[:, :, 1])  # (FPR, TPR) per group
    assert_allclose(points[0], points[1], atol=1e-9)
    reached = weights[:, 1] @ points[:, 1] + weights[:, 0] @ (1 - points[:, 0])
    # Likelihood ratios rise with the score, so the curves are concave already.
    curves = [roc(m, True) for m in masses]
    f = np.linspace(0, 1, 20_001)
    common = np.min([np.interp(f, curve[0], curve[1]) for curve in curves], axis=0)
    best = np.max(weights[:, 1].sum() * common + weights[:, 0].sum() * (1 - f))
    assert_allclose(reached, best, atol=1e-4)


def test_equal_opportunity_and_tolerance_relax_the_rule():
    rng = np.random.default_rng(12)
    masses = rng.dirichlet(np.ones(8), size=(2, 2))
    weights = rng.dirichlet(np.ones(4)).reshape(2, 2)
    defaults = parity.bin_classes(2, 8)

    def solve(constraint, tolerance):
        pairs = parity.constrained_rates(constraint, 2)
        rule = parity.randomised_rule(masses, weights, pairs, tolerance, defaults)
        rates = np.einsum("syb,sb->sy", masses, rule[:, :, 1])
        accuracy = weights[:, 1] @ rates[:, 1] + weights[:, 0] @ (1 - rates[:, 0])
        return np.ptp(rates, axis=0), accuracy

    gaps, strict = solve("equalized_odds", 0.0)
    assert gaps.max() < 1e-9
    gaps, loose = solve("equalized_odds", 0.1)
    assert gaps.max() < 0.1 + 1e-9 and loose >= strict - 1e-9
    gaps, only_recall = solve("equal_opportunity", 0.0)
    assert gaps[1] < 1e-9 and only_recall >= strict - 1e-9
    assert solve("equalized_odds", 1.0)[1] >= only_recall - 1e-9


def test_tolerance_of_each_true_class_is_its_own():
    rng = np.random.default_rng(12)
    masses = rng.dirichlet(np.ones(8), size=(3, 2))
    weights = rng.dirichlet(np.ones(6)).reshape(3, 2)
    pairs = parity.constrained_rates("equalized_odds", 2)
    allowed = np.array([0.02, 0.1])
    rule = parity.randomised_rule(
        masses, weights, pairs, allowed, parity.bin_classes(2, 8)
    )
    gaps = np.ptp(np.einsum("syb,sb->sy", masses, rule[:, :, 1]), axis=0)
    assert_allclose(gaps, allowed, atol=1e-9)  # accuracy asks for all that is allowed


def test_told_tolerance_is_the_chance_of_a_mean_person():
    sizes = np.array([[400, 100, 0], [10_000, 0, 2500]])
    counts = sizes[:, :, None] * np.full(4, 0.25)
    error = [
        (400 * 0.025 + 100 * 0.05 + 0.5) / 501,
        (10_000 * 0.005 + 2500 * 0.01 + 0.5) / 12_501,
    ]
    assert_allclose(parity.told_tolerance(counts, 2.0, 0.1), np.add(0.1, error))
    assert parity.told_tolerance(counts, 0.0, 0.1) == 0.1  # rows get what is asked for


def test_what_few_rows_cannot_tell_is_not_paid_for():
    """Fresh people: equal rates of few rows cost accuracy, and hardly any gap."""
    rng, found = np.random.default_rng(5), []
    slopes = np.linspace(0.03, 0.97, 16)
    for _ in range(30):
        # Distributions of scores of a calibrated model; the second group's are higher.
        scores = np.array([slopes**a * (1 - slopes) ** 1.2 for a in (0.5, 1.5)])
        masses = scores[:, None] * np.stack([1 - slopes, slopes])
        weights = masses.sum(axis=2) / scores.sum(axis=1)[:, None] / 2
        masses /= masses.sum(axis=2, keepdims=True)
        seen = np.array(
            [[rng.multinomial(300 * w, m) for w, m in zip(*of, strict=True)]
             for of in zip(2 * weights, masses, strict=True)]
        )  # fmt: skip
        counts = seen.swapaxes(0, 1) + rng.laplace(scale=2, size=(2, 2, 16)).round()
        estimate = parity.estimate_cells(counts, noise_variance=8.0, ordered=True)
        pairs = parity.constrained_rates("equalized_odds", 2)
        for tolerance in (0.0, parity.told_tolerance(counts, 8.0, 0.0)):
            rule = parity.randomised_rule(
                *estimate, pairs, tolerance, parity.bin_classes(2, 16)
            )
            rates = np.einsum("syb,sb->sy", masses, rule[:, :, 1])
            right = weights[:, 1] @ rates[:, 1] + weights[:, 0] @ (1 - rates[:, 0])
            found.append((right, np.ptp(rates, axis=0).max()))
    (strict, gap), (right, wider) = np.array(found).reshape(30, 2, 2).mean(axis=0)
    assert right > strict + 0.005
    assert wider < 1.25 * gap


@pytest.mark.parametrize("constraint", ["equalized_odds", "equal_opportunity"])
def test_randomised_rule_for_three_classes_shares_the_rates(constraint):
    rng = np.random.default_rng(13)
    n_bins = parity.n_score_bins(3, 12)
    masses = rng.dirichlet(np.ones(n_bins), size=(2, 3))
    weights = rng.dirichlet(np.ones(6)).reshape(2, 3)
    pairs = parity.constrained_rates(constraint, 3)
    rule = parity.randomised_rule(
        masses, weights, pairs, 0.05, parity.bin_classes(3, 12)
    )
    rates = np.einsum("syb,sbk->syk", masses, rule)
    gaps = np.ptp(rates, axis=0)
    assert max(gaps[pair] for pair in pairs) <= 0.05 + 1e-9
    assert len(pairs) == (9 if constraint == "equalized_odds" else 3)


def test_regions_without_mass_keep_the_most_probable_class():
    masses = np.zeros((2, 3, 6))
    masses[:, :, 0] = 1.0
    defaults = parity.bin_classes(3, 6)
    pairs = parity.constrained_rates("equalized_odds", 3)
    rule = parity.randomised_rule(masses, np.full((2, 3), 1 / 6), pairs, 0.0, defaults)
    assert_array_equal(rule[:, 1:].argmax(axis=2), np.tile(defaults[1:], (2, 1)))


@pytest.mark.parametrize("ordered", [True, False])
def test_cells_are_estimated_and_small_ones_pooled(ordered):
    rng = np.random.default_rng(14)
    pmf = rng.dirichlet(np.full(12, 3.0), size=2)
    counts = np.stack([np.outer([4000, 0], row) for row in pmf])
    noisy = counts + rng.normal(scale=3, size=counts.shape)
    masses, weights = parity.estimate_cells(noisy, noise_variance=9.0, ordered=ordered)
    assert masses.shape == (2, 2, 12) and weights.shape == (2, 2)
    assert_allclose(masses.sum(axis=2), 1)
    assert_allclose(weights.sum(), 1)
    assert (masses >= 0).all() and (weights >= 0).all()
    for y in range(2):
        assert np.abs(masses[0, y] - pmf[y]).sum() < 0.05
        # The empty group has the shape of its class.
        assert np.abs(masses[1, y] - pmf[y]).sum() < 0.1


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("noise_variance", [0.0, 4.0])
def test_cells_weigh_as_many_people_as_they_have(ordered, noise_variance):
    sizes = np.array([[5000.0, 3000.0], [400.0, 1600.0]])  # by class and group
    counts = sizes[:, :, None] * np.array([0.2, 0.3, 0.3, 0.2])
    _, weights = parity.estimate_cells(
        counts, noise_variance=noise_variance, ordered=ordered
    )
    assert_allclose(weights, sizes.T / 10_000, atol=2e-3)


def test_one_rule_for_all_groups_need_not_rise_with_the_score():
    """Only the first region gains by the second class; rates may differ by half."""
    masses = np.array([[[0.5, 0.0, 0.5]], [[0.0, 1.0, 0.0]]])
    gain = np.zeros((1, 3, 2))
    gain[0, :, 1] = 1.0, -1.0, -0.1
    (rule,) = parity.most_gain(masses, gain, [(0, 1)], 0.5)
    assert_allclose(rule[:, 1], [1, 0, 0], atol=1e-9)


def test_nothing_but_noise_gives_finite_cells():
    noisy = np.random.default_rng(15).normal(scale=50, size=(3, 2, 12))
    masses, weights = parity.estimate_cells(
        noisy - 60, noise_variance=2500.0, ordered=False
    )
    assert_allclose(masses, 1 / 12, atol=0.01)
    assert_allclose(weights, 1 / 6)


def test_cells_of_a_calibrated_classifier_borrow_from_each_other():
    """1,500 rows in 300 cells: nearer the truth than the closest counts are."""
    rng = np.random.default_rng(16)
    of_group = rng.dirichlet(np.full(20, 2.0), size=3)
    of_region = rng.dirichlet(np.ones(5), size=20)
    truth = np.einsum("sb,by->ysb", of_group / 3, of_region)
    counts = rng.multinomial(1500, truth.ravel()).reshape(truth.shape)
    noisy = counts + rng.normal(scale=2.8, size=truth.shape)

    def error(masses, weights):
        estimate = (masses * weights[:, :, None]).swapaxes(0, 1)
        return np.abs(estimate - truth).sum() / 2

    found = error(*parity.estimate_cells(noisy, noise_variance=8.0, ordered=False))
    closest = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()
    assert found < 0.9 * np.abs(closest - truth).sum() / 2
    # Without noise the counts are what they are.
    exact = error(*parity.estimate_cells(counts, noise_variance=0.0, ordered=False))
    assert exact == pytest.approx(np.abs(counts / 1500 - truth).sum() / 2)


def test_cells_that_are_told_are_drawn_to_no_other():
    """Whether a difference is believed is decided before, for all classes at once."""
    rng, variance = np.random.default_rng(21), 30.0
    slope = np.linspace(0.9, 1.1, 16)
    counts = np.array([[slope, slope[::-1]]] * 2) * [[[40.0], [20.0]]]
    counts += rng.normal(scale=variance**0.5, size=counts.shape)
    pooled = np.array([[False, False], [True, True]])
    masses, _ = parity.estimate_cells(
        counts, noise_variance=variance, ordered=True, pooled=pooled
    )
    params = {"n": None, "noise_variance": variance}
    told, _ = smooth_estimate(counts[0], doubted=False, **params)
    assert_array_equal(masses[:, 0], told)
    drawn, _ = smooth_estimate(counts[0], **params)
    assert (
        np.abs(np.diff(told, axis=0)).sum() > 2 * np.abs(np.diff(drawn, axis=0)).sum()
    )
    assert_allclose(masses[0, 1], masses[1, 1])


def steps_by_hand(script, steered, noise_scale, *, rate, tolerance, largest, held):
    """Offsets, rates and variances of scripted answers, one group at a time."""
    max_iter, n_conditions, n_groups, n_classes = script.shape
    found, n_turns = [], 0
    for condition in range(n_conditions):
        answers = script[:, condition]
        nu, last = np.zeros((2, n_groups, n_classes))
        parts, reached, weights = np.ones(n_groups), [], []
        for t in range(held, max_iter + 1):
            size = answers[:t].sum(axis=2).mean(axis=0)
            size = np.maximum(size, 1 + 2 * noise_scale * math.sqrt(n_classes / t))
            now, of_mean = answers[t - 1], 1.0
            if t == held:
                now, of_mean = answers[:t].mean(axis=0), math.sqrt(held)
            step, z = np.empty(n_groups), np.empty((n_groups, n_classes))
            for s in range(n_groups):
                seen = 1 / n_classes + (now[s] - now[s].mean()) / size[s]
                caution = 1 + 4 * noise_scale / size[s] / of_mean
                step[s] = parts[s] * rate / math.sqrt(t + 1 - held) / caution
                z[s] = nu[s] + step[s] * np.clip(seen, 0, 1)

            def shrunk(centre, k, z=z, step=step):
                moved = z[:, k] - step * centre
                least = np.maximum(np.abs(moved) - step * tolerance / 2, 0.0)
                return np.sign(moved) * least

            new = np.zeros((n_groups, n_classes))
            for k in np.flatnonzero(steered[condition]):
                centre = brentq(lambda c, k=k: size @ shrunk(c, k), -99, 99, xtol=1e-14)  # noqa: B023
                new[:, k] = np.clip(shrunk(centre, k), -largest, largest)
            reached.append(new)
            weights.append((t + 1 - held) / parts**2)
            for s in range(n_groups):
                move = (new[s] - nu[s]) / step[s]
                least = 8 * (noise_scale / size[s]) ** 2 + 0.1**2
                has_turned = move @ last[s] < -least
                last[s] = 0.0 if has_turned else move
                parts[s] /= 2 if has_turned else 1
                n_turns += has_turned
            nu = new
        weights = np.array(weights) / np.sum(weights, axis=0)
        offsets = np.einsum("ts,tsk->sk", weights, reached)
        size = np.maximum(answers.sum(axis=2).mean(axis=0), 1.0)
        parted = answers - answers.mean(axis=2, keepdims=True)
        rates = 1 / n_classes + np.array(
            [weights[:, s] @ parted[held - 1 :, s] / size[s] for s in range(n_groups)]
        )
        spread = (weights**2).sum(axis=0) * (1 - 1 / n_classes) * noise_scale**2
        found.append((offsets, np.clip(rates, 0, 1), spread / size**2))
    return *map(np.array, zip(*found, strict=True)), n_turns


@pytest.mark.parametrize("largest", [1.0, 0.2])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("held", [1, 3])
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
@pytest.mark.parametrize("noise_scale", [0.0, 3.0])
def test_steps_are_those_that_are_written_down(
    largest, n_classes, held, tolerance, noise_scale
):
    """Groups of some people and of nobody, and one whose answers turn round."""
    rng = np.random.default_rng(held + 10 * n_classes)
    script = rng.dirichlet(np.ones(n_classes), size=(9, 2, 4))
    script *= np.array([60.0, 25.0, 40.0, 0.0])[:, None]
    script[::2, :, 2] = 40.0 * np.eye(n_classes)[0]
    script[1::2, :, 2] = 40.0 * np.eye(n_classes)[1]
    script += noise_scale * rng.normal(size=script.shape)
    steered = np.ones((2, n_classes), bool)
    steered[1, 0] = False
    answers = iter(script)
    found = parity.fit_offsets(
        lambda offsets: next(answers),
        steered=steered,
        n_groups=4,
        noise_scale=noise_scale,
        max_iter=len(script),
        learning_rate=3.0,
        tolerance=tolerance,
        **({} if largest == 1.0 else {"largest": largest}),
        **({} if held == 1 else {"held": held}),
    )
    offsets, rates, variances, n_turns = steps_by_hand(
        script, steered, noise_scale, rate=3.0, tolerance=tolerance, largest=largest,
        held=held,
    )  # fmt: skip
    assert n_turns > 0 and (np.abs(offsets).max() > 0.2 or largest == 0.2)
    assert_allclose(found.offsets, offsets, atol=1e-9)
    assert_allclose(found.rates, rates, atol=1e-12)
    assert_allclose(found.variances, variances[..., None] + np.zeros(n_classes))


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("n_bins", [5, 12, 40])
def test_certain_scores_stay_in_the_regions_of_their_class(n_classes, n_bins):
    certain = np.eye(n_classes)
    bins, classes = (
        parity.score_bins(certain, n_bins),
        parity.bin_classes(n_classes, n_bins),
    )
    assert bins.max() < len(classes) == parity.n_score_bins(n_classes, n_bins)
    assert classes[bins].tolist() == list(range(n_classes))


def test_of_two_classes_the_first_has_the_region_in_the_middle():
    """There both are equally likely, and the first of equal scores is chosen."""
    assert parity.bin_classes(2, 5).tolist() == [0, 0, 0, 1, 1]
    assert parity.bin_classes(2, 4).tolist() == [0, 0, 1, 1]


def told_by_hand(sums, sizes, steered, noise_scale, rates, variances):
    """Groups that differ, of rates without offsets that are given."""
    max_iter, n_conditions, n_groups, n_classes = sums.shape
    drowned = sizes < 5 * noise_scale * math.sqrt(n_classes / max_iter)
    errors, apart = np.zeros((2, n_conditions, n_groups, n_classes))
    compared = np.zeros(errors.shape, bool)
    for c in range(n_conditions):
        seen = np.where(drowned[c], 0, sizes[c])
        share = seen / max(seen.sum(), 1)
        parted = sums[:, c] - sums[:, c].mean(axis=2, keepdims=True)
        mean_rates = parted.mean(axis=0) / sizes[c][:, None]
        for k in range(n_classes):
            chosen = min(max(share @ mean_rates[:, k] + 1 / n_classes, 0), 1)
            of_rate = variances[c, :, k] + chosen * (1 - chosen) / sizes[c]
            mean = share @ rates[c, :, k]
            for s in range(n_groups):
                others = max(1 - share[s], 1e-9)
                of_gap = share**2 @ of_rate + (1 - 2 * share[s]) * of_rate[s]
                errors[c, s, k] = math.sqrt(max(of_gap, 0)) / others
                apart[c, s, k] = abs(rates[c, s, k] - mean) / others
                is_alone = share[s] == 1 and n_groups > 1
                compared[c, s, k] = steered[c, k] and not drowned[c, s] and not is_alone
    n_pairs = n_groups * (n_groups - 1) // 2 * steered.any(axis=1).sum()
    worst = (errors * compared).max(axis=(0, 2))

    def clear(s, harmless):
        least = parity.COST * n_pairs * (n_classes - 1) * worst[s] / harmless
        doubt = math.sqrt(2 * math.log(max(least, 1)))
        return compared[:, s] & (apart[:, s] >= doubt * errors[:, s])

    groups = range(n_groups)
    sure = [apart[:, s] - errors[:, s] for s in groups]
    sure = [np.where(clear(s, parity.HARMLESS), sure[s], 0).max() for s in groups]
    least = parity.HARMLESS + parity.BESIDE * max(0, *sure)
    told = np.array([clear(s, least).any() for s in groups])
    return told & ~drowned


def test_groups_are_told_by_what_is_written_down(monkeypatch):
    rng, found = np.random.default_rng(0), []
    for _ in range(1000):
        n_conditions, n_groups, n_classes = rng.integers([1, 2, 2], [4, 5, 5])
        shape = (n_conditions, n_groups, n_classes)
        noise_scale = rng.uniform(0.5, 20) * rng.choice([0.1, 1])
        sizes = rng.choice([rng.choice([1, 3]), 60, 900, 2e4], shape[:2]) * rng.uniform(
            1, 2
        )
        sums = rng.dirichlet(np.ones(n_classes), (8, *shape[:2])) * sizes[..., None]
        sums *= rng.choice([1, 3])  # at times more than a size says
        steered = rng.random((n_conditions, n_classes)) < 0.8
        rates = np.clip(rng.normal(0.5, rng.uniform(0, 0.2), shape), 0, 1)
        variances = rng.uniform(0, (noise_scale / sizes[:, :, None]) ** 2, shape)
        asked = []

        def given(own, moves, noise, seen, of_classes, rates=rates, asked=asked):
            asked.append((noise, of_classes))
            return rates, variances  # noqa: B023

        monkeypatch.setattr(parity, "rates_without_offsets", given)
        about = sizes, steered, noise_scale
        told = parity.clear_differences(sums, np.zeros_like(sums), *about)
        expected = told_by_hand(sums, *about, rates, variances)
        assert_array_equal(told, expected)
        ((noise, of_classes),) = asked
        assert_allclose(noise, (noise_scale / sizes) ** 2 * (1 - 1 / n_classes))
        assert_allclose(of_classes, sizes.sum(axis=1) / sizes.sum())
        found += expected.ravel().tolist()
    assert 0.1 < np.mean(found) < 0.9
