"""Decisions that are counted at the end, and drawn where groups still differ."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from _recording import recording
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from fairpriv_sklearn._shared.purity import spreads
from fairpriv_sklearn._wall import CellCounts
from fairpriv_sklearn.datasets import make_biased_mixture, make_spurious_bias
from fairpriv_sklearn.metrics import demographic_parity_difference
from fairpriv_sklearn.postprocessing import DP2DPClassifier, RepairWarning
from fairpriv_sklearn.postprocessing import _blind as blind
from fairpriv_sklearn.postprocessing._certificate import (
    decision_regions,
    drawn_decisions,
    region_costs,
    shared_rule,
)
from fairpriv_sklearn.postprocessing._parity import mass_at

DRAWN = "some are drawn now"
DRAWN_BLIND = "some decisions have to be drawn"


# --- regions -------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_regions_tell_the_decision_and_whether_another_is_near(n_classes):
    rng = np.random.default_rng(n_classes)
    shifted = rng.normal(size=(n_classes, 2000)) / 20
    regions = decision_regions(shifted, 0.02)
    for region, row in zip(regions, shifted.T, strict=True):
        *_, second, first = sorted(row)
        assert row[region // 2] == first
        near = first - second < 0.06  # a softmax gives the best two 19 to 1 there
        assert region_costs(n_classes)[region] == (0.1 if near else 1.0)
    assert set(regions) == set(range(2 * n_classes))


def test_regions_of_two_classes_lie_in_the_order_of_their_score():
    margins = np.linspace(-0.2, 0.2, 401)
    regions = decision_regions(np.array([-margins / 2, margins / 2]), 0.02)
    assert (np.diff(regions) >= 0).all() and regions[0] == 0 and regions[-1] == 3
    assert regions[200] == 1  # a tie goes to the first class, as argmax has it


def test_a_region_is_of_its_row_alone():
    shifted = np.random.default_rng(0).normal(size=(3, 500)) / 20
    alone = [decision_regions(column[:, None], 0.02)[0] for column in shifted.T]
    assert_array_equal(decision_regions(shifted, 0.02), alone)


# --- the rule ------------------------------------------------------------------------


def rates_of(counts, rule):
    """Rate of the second class by group."""
    masses = counts[0] / counts[0].sum(axis=1, keepdims=True)
    return np.einsum("sb,sb->s", masses, rule[:, :, 1])


def least_cost(counts, tolerance):
    """By brute force over the middle of the two rates."""
    masses = counts[0] / counts[0].sum(axis=1, keepdims=True)
    shares = counts[0].sum(axis=1) / counts[0].sum()
    best = np.inf
    for middle in np.linspace(0, 1, 2001):
        cost = 0.0
        for share, (far0, near0, near1, far1) in zip(shares, masses, strict=True):
            rate = near1 + far1
            target = np.clip(rate, middle - tolerance / 2, middle + tolerance / 2)
            moved, near = abs(target - rate), near0 if target > rate else near1
            if moved > near + (far0 if target > rate else far1) + 1e-12:
                cost = np.inf
                break
            cost += share * (0.1 * min(moved, near) + max(moved - near, 0.0))
        best = min(best, cost)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_few_decisions_are_drawn(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(300, 4000, size=(1, 2, 4)) * rng.integers(0, 2, (1, 2, 4))
    counts += 50
    counts[0, 0, 3] += 20_000  # surely different
    tolerance = [0.0, 0.1][seed % 2]
    rule = drawn_decisions(counts, [(0, 1)], 0.0, tolerance)
    rates = rates_of(counts, rule)
    assert np.ptp(rates) <= tolerance + 1e-9
    assert_allclose(rule.sum(axis=2), 1.0, rtol=1e-12)
    moved = 1 - rule[:, np.arange(4), [0, 0, 1, 1]]
    cost = (counts[0] * moved * [1.0, 0.1, 0.1, 1.0]).sum() / counts.sum()
    assert cost == pytest.approx(least_cost(counts, tolerance), abs=1e-3)


def test_equal_groups_decide_as_before():
    even = np.array([[[400, 100, 100, 400], [800, 200, 200, 800]]])
    assert drawn_decisions(even, [(0, 1)], 0.0, 0.0) is None
    apart = np.array([[[400, 100, 100, 400], [400, 100, 400, 1100]]])
    assert drawn_decisions(apart, [(0, 1)], 0.0, 0.0) is not None
    assert drawn_decisions(apart, [(0, 1)], 0.0, 0.3) is None


@pytest.mark.parametrize(
    ("n", "gap", "noise", "drawn"),
    [
        # 250,000 people a group: an error of .0014 by chance, of which 2.3.
        (250_000, 0.0138, 0.0, True),
        (250_000, 0.0132, 0.0, False),
        # 500 people: an error of .032, which is harmless 9 times in a thousand.
        (500, 0.084, 0.0, True),
        (500, 0.080, 0.0, False),
        # 2,000 people, noise of 60 in each count: .042, and .016 by chance.
        (2000, 0.130, 60.0, True),
        (2000, 0.125, 60.0, False),
    ],
)
def test_groups_have_to_differ_for_sure(n, gap, noise, drawn):
    rates = 0.5 - gap / 2, 0.5 + gap / 2
    counts = np.array([[[n * (1 - r), 0, 0, n * r] for r in rates]])
    rule = drawn_decisions(counts, [(0, 1)], noise, 0.0)
    assert (rule is not None) == drawn


def test_the_error_decides_how_sure():
    """Equal groups: what is added to their gap is next to nothing in the mean."""
    rng = np.random.default_rng(0)
    for noise in (10.0, 60.0):
        added = []
        for _ in range(400):
            exact = np.array([[[1000, 0, 0, 1000], [1000, 0, 0, 1000]]])
            counts = exact + noise * rng.normal(size=exact.shape)
            rule = drawn_decisions(counts, [(0, 1)], noise, 0.0)
            added.append(0.0 if rule is None else np.ptp(rates_of(exact, rule)))
        assert np.mean(added) < 0.002


@pytest.mark.parametrize("noise", [0.0, 11.0])
@pytest.mark.parametrize("few", [[[130, 0, 0, 100]], [[260, 0, 0, 190]] * 2])
def test_small_groups_do_not_hide_what_large_ones_surely_differ_by(few, noise):
    """Two groups of thousands differed by six standard errors, and kept their gap."""
    counts = np.array([[*few, [1250, 0, 0, 1300], [990, 0, 0, 710]]])
    rule = drawn_decisions(counts, [(0, 1)], noise, 0.0)
    before = counts[0, -2:, 3] / counts[0, -2:].sum(axis=1)
    after = rates_of(counts, rule)
    assert np.ptp(after) < 0.03 < 0.09 < np.ptp(before)
    # Nor do large ones that are alike hide a small one that is not.
    other = np.array([[[200, 0, 0, 800], [4000, 0, 0, 4000], [4000, 0, 0, 4000]]])
    assert drawn_decisions(other, [(0, 1)], noise, 0.0) is not None


def test_equal_groups_that_are_looked_at_twice_are_seldom_drawn():
    """Of four groups all are looked at, and then the two that are known best."""
    rng = np.random.default_rng(0)
    sizes, drawn = np.array([2550, 1700, 450, 300]), []
    for _ in range(400):
        n_yes = rng.binomial(sizes, 0.45)
        exact = np.zeros((1, 4, 4))
        exact[0, :, 0], exact[0, :, 3] = sizes - n_yes, n_yes
        noisy = exact + 7.0 * rng.normal(size=exact.shape)
        rule = drawn_decisions(noisy, [(0, 1)], 7.0, 0.0)
        drawn.append(rule is not None)
    assert np.mean(drawn) <= 0.02


def test_a_group_that_noise_drowns_decides_as_before():
    """Two standard deviations of the noise in four counts are 40."""
    counts = np.array([[[4000, 0, 0, 1000], [500, 0, 0, 2000], [0, 0, 0, 39]]])
    rule = drawn_decisions(counts, [(0, 1)], 10.0, 0.0)
    assert_array_equal(rule[2].argmax(axis=1), [0, 0, 1, 1])
    assert rule[2].max(axis=1).min() == 1.0
    told = drawn_decisions(counts + [[[0], [0], [1]]], [(0, 1)], 10.0, 0.0)
    assert not np.array_equal(told[2], rule[2])
    # Five are 100: two groups have to be as large.
    for size, none in ((99, True), (101, False)):
        two = np.array([[[4000, 0, 0, 1000], [0, 0, 0, size]]])
        assert (drawn_decisions(two, [(0, 1)], 10.0, 0.0) is None) == none


@pytest.mark.parametrize("small", [41, 99, 102])
@pytest.mark.parametrize("n_conditions", [1, 2])
def test_a_group_that_few_records_tell_is_drawn_by_what_they_tell(small, n_conditions):
    """Its rate is taken to be nearer to that of all people (James and Stein)."""
    one = [[4000, 0, 0, 1000], [2200, 0, 0, 1800], [0, 0, 0, small]]
    noise, rates = 10.0, [(y, 1) for y in range(n_conditions)]
    rule = drawn_decisions(np.array([one] * n_conditions), rates, noise, 0.0)
    of_all = (1000 + 1800 + small) / (5000 + 4000 + small)
    # Rates of .2 and .45 of the others; one of 1 of `small` people, in counts of which
    # two would raise the sum of the chosen and two the other one.
    between = 0.125**2
    error = 2 * (noise / small) ** 2 + 1 / small**2
    taken = of_all + (1 - of_all) * between / (between + error)
    masses = np.array([[0.8, 0, 0, 0.2], [0.55, 0, 0, 0.45], [1 - taken, 0, 0, taken]])
    if small == 102:  # more than five standard deviations: as it is counted
        masses[2] = 0, 0, 0, 1
    chosen = np.einsum("gb,gb->g", masses, rule[:, :, 1])
    allowed = 0.0
    if n_conditions > 1:  # by the sizes of the groups that are surely there
        sizes = np.array([5000, 4000] + [102] * (small == 102))
        allowed = np.sqrt(sizes).sum() / 2 / sizes.sum()
    assert np.ptp(chosen) == pytest.approx(allowed, abs=1e-9)


def test_groups_that_few_records_tell_come_nearer_and_large_ones_stay_as_near():
    rng = np.random.default_rng(0)
    people = np.array([2500, 2000, 130, 130])
    gaps = []
    for _ in range(150):
        large = rng.uniform(0.2, 0.6, size=2)
        large[1] = large[0] + 0.3
        rates = np.array([*large, *rng.choice(large, 2)])
        exact = np.zeros((1, 4, 4))
        exact[0, :, 3] = rng.binomial(people, rates)
        exact[0, :, 0] = people - exact[0, :, 3]
        counts = exact + 18.0 * rng.normal(size=exact.shape)
        rule = drawn_decisions(counts, [(0, 1)], 18.0, 0.0)
        chosen = (1 - rates) * rule[:, 0, 1] + rates * rule[:, 3, 1]
        as_before = [*chosen[:2], *rates[2:]]
        gaps.append([np.ptp(chosen), np.ptp(as_before), np.ptp(chosen[:2])])
    told, left, of_large = np.mean(gaps, axis=0)
    assert of_large < 0.03 and told < 0.85 * left


def test_by_true_class_a_standard_error_of_a_rate_is_allowed():
    counts = np.array(
        [[[4000, 0, 0, 1000], [1000, 0, 0, 4000]], [[900, 0, 0, 900]] * 2]
    )
    rates = [(0, 1), (1, 1)]

    def gap(noise):
        rule = drawn_decisions(counts, rates, noise, 0.0)
        return np.ptp(rates_of(counts[:1], rule))

    assert gap(0.0) < 1e-9
    # sqrt(5000) for each of two groups, over twice 10,000
    assert gap(1e-6) == pytest.approx(2 * 5000**0.5 / 20_000, rel=1e-6)


def test_more_rates_than_a_linear_program_makes_equal():
    """A public number, which a note tells; no decision is drawn then."""
    counts = np.zeros((1, 2, 8))
    counts[0, 0, 0] = counts[0, 1, 7] = 10_000
    rates = [(0, k % 4) for k in range(2000)]
    assert drawn_decisions(counts, rates[:12], 0.0, 0.0) is not None
    assert drawn_decisions(counts, [*rates, (0, 0)], 0.0, 0.0) is None
    n_classes = 46  # 46 * 46 rates of two groups
    X = np.random.default_rng(0).dirichlet(np.ones(n_classes), size=300)
    each = np.repeat(np.eye(n_classes), 3, axis=0)
    base = LogisticRegression().fit(each, each.argmax(axis=1))
    model = DP2DPClassifier(
        FrozenEstimator(base), constraint="equalized_odds", max_iter=2,
        classes=range(n_classes), groups=[0, 1], base_guarantee="public",
    )  # fmt: skip
    with pytest.warns(RepairWarning, match="More than 4000 rates"):
        model.fit(X, X.argmax(axis=1), sensitive_features=np.arange(300) % 2)
    assert not hasattr(model, "rule_")


# --- the classifier ------------------------------------------------------------------


def measured(table, base, method="gradient", **asked):
    X, y, group = (np.asarray(one) for one in table[:3])
    train, told, fresh = slice(0, 5000), slice(5000, 15_000), slice(15_000, None)
    model = DP2DPClassifier(
        FrozenEstimator(base.fit(X[train], y[train])),
        classes=np.unique(y).tolist(),
        groups=np.unique(group).tolist(),
        method=method,
        base_guarantee="public",
        random_state=0,
        **asked,
    )
    model.fit(X[told], y[told], sensitive_features=group[told])
    return model, X[fresh], y[fresh], group[fresh]


def gap_of(y, decided, group):
    return demographic_parity_difference(y, decided, sensitive_features=group)


@pytest.mark.parametrize(
    "base",
    [
        DecisionTreeClassifier(random_state=0),
        DecisionTreeClassifier(max_depth=1),
        KNeighborsClassifier(1),
    ],
)
def test_scores_that_many_people_share(base):
    table = make_spurious_bias(40_000, random_state=3)
    with pytest.warns(RepairWarning, match=DRAWN):
        model, X, y, group = measured(table, base)
    given = {"sensitive_features": group}
    before, after = base.predict(X), model.predict(X, **given)
    assert gap_of(y, before, group) > 0.09 and gap_of(y, after, group) < 0.03
    # The chances, what is drawn by them, and scores whose largest is drawn.
    chances = model.predict_proba(X, **given)
    assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    for code in np.unique(group):
        rows = group == code
        assert chances[rows, 1].mean() == pytest.approx(after[rows].mean(), abs=0.01)
    assert_array_equal(model.decision_function(X, **given) > 0, after)
    in_parts = [
        model.predict(X[part], sensitive_features=group[part])
        for part in (slice(0, 700), slice(700, None))
    ]
    assert_array_equal(np.concatenate(in_parts), after)
    # The regions are those of the fit.
    model.set_params(smoothing=1.0, n_bins=5, fairness_tolerance=1.0)
    assert_array_equal(model.predict(X, **given), after)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_sure_classifiers_of_any_number_of_classes(n_classes):
    table = make_biased_mixture(40_000, n_classes=n_classes, random_state=4)
    base = DecisionTreeClassifier(random_state=0)
    with pytest.warns(RepairWarning, match=DRAWN):
        model, X, y, group = measured(table, base)
    after = gap_of(y, model.predict(X, sensitive_features=group), group)
    assert gap_of(y, base.predict(X), group) > 0.15 and after < 0.05


def test_scores_that_differ_are_decided_without_draws():
    model, X, _, group = measured(
        make_spurious_bias(40_000, random_state=3), LogisticRegression()
    )
    assert not hasattr(model, "rule_") and not spreads(model)
    assert model.repair_notes_ == []
    shifted = model._shifted(model.estimator_.predict_proba(X), group)
    chosen = model.classes_[shifted.argmax(axis=1)]
    assert_array_equal(model.predict(X, sensitive_features=group), chosen)


def test_a_second_fit_forgets_the_draws():
    table = make_spurious_bias(20_000, random_state=3)
    with pytest.warns(RepairWarning, match=DRAWN):
        model, X, y, group = measured(table, DecisionTreeClassifier(max_depth=1))
    assert spreads(model) and model.rule_.shape == (2, 4, 2)
    smooth = FrozenEstimator(LogisticRegression().fit(X, y))
    model.set_params(estimator=smooth).fit(X, y, sensitive_features=group)
    assert not hasattr(model, "rule_") and not spreads(model)


def test_identical_rows_share_the_chances():
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=20_000)
    X = (rng.random(20_000) < np.where(group, 0.7, 0.2)).astype(float)[:, None]
    base = FrozenEstimator(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
    public = {"classes": [0, 1], "groups": [0, 1], "base_guarantee": "public"}
    model = DP2DPClassifier(base, random_state=0, **public)
    with pytest.warns(RepairWarning, match=DRAWN):
        model.fit(X, X[:, 0].astype(int), sensitive_features=group)
    decided = model.predict(X, sensitive_features=group)
    # Four kinds of rows: without spreading each would be decided as one.
    assert gap_of(X[:, 0], decided, group) < 0.02
    unknown = DP2DPClassifier(base, random_state=0, handle_unknown="pooled", **public)
    with pytest.warns(RepairWarning, match=DRAWN):
        unknown.fit(X, X[:, 0].astype(int), sensitive_features=group)
    chances = unknown.predict_proba(X[:500], sensitive_features=np.full(500, 7))
    sizes = np.bincount(group)
    average = sizes @ unknown.rule_[:, [0, 3], 1] / sizes.sum()
    assert_allclose(chances[:, 1], average[X[:500, 0].astype(int)], atol=0.01)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
def test_one_record_moves_the_counts_by_their_sensitivity(constraint, relation):
    made = make_spurious_bias(30_000, random_state=3)
    X, y, group = (np.asarray(column) for column in made[:3])
    base = DecisionTreeClassifier(random_state=0).fit(X[:3000], y[:3000])
    table = [column[3000:].copy() for column in (X, y, group)]
    if relation == "replace_one":  # by one of another decision, label and group
        other = [column.copy() for column in table]
        at = np.flatnonzero(base.predict(table[0]) != base.predict(table[0][:1]))[0]
        other[0][0] = table[0][at]
        other[1][0], other[2][0] = 1 - y[3000], group[group != group[3000]][0]
    else:
        other = [column[1:] for column in table]

    def fitted(X, y, group):
        model = DP2DPClassifier(
            FrozenEstimator(base), constraint=constraint, method="gradient",
            classes=[0, 1], groups=np.unique(table[2]).tolist(), epsilon=30.0,
            base_guarantee="public", neighboring=relation, random_state=0,
        )  # fmt: skip
        with pytest.warns(RepairWarning, match=DRAWN):
            return model.fit(X, y, sensitive_features=group)

    with recording() as first:
        one = fitted(*table)
    with recording(replay=first) as second:
        two = fitted(*other)
    a, b = first.crossings[-1], second.crossings[-1]
    reached = np.linalg.norm(a.exact - b.exact)
    assert a.name == "certificate" and reached == pytest.approx(a.sensitivity)
    assert reached == pytest.approx(2**0.5 if relation == "replace_one" else 1.0)
    spent = sum(one.parameter**2 for one in first.crossings)
    assert a.parameter**2 == pytest.approx(0.1 * spent)
    # All that follows is of what was released.
    assert_array_equal(one.rule_, two.rule_)
    given = {"sensitive_features": group}
    assert_array_equal(one.predict(X, **given), two.predict(X, **given))
    assert one.privacy_ == two.privacy_ and one.repair_notes_ == two.repair_notes_


class GivenScores(ClassifierMixin, BaseEstimator):
    """The feature is the probability of the second class."""

    classes_ = np.arange(2)

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


# --- bins ----------------------------------------------------------------------------


def test_people_in_the_bin_of_a_threshold():
    pmfs = np.array(
        [[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 1.0]]
    )
    for thresholds, expected in (
        ([0.1, 0.3, 0.99], [0.5, 0.2, 1.0]),
        ([0.25, 0.5, 1.0], [0, 0, 0]),  # at an edge nobody is in doubt
        ([0.0, 0.75 - 1e-3, 0.75 + 1e-3], [0, 0.3, 1.0]),
    ):
        assert_allclose(mass_at(np.array(thresholds), pmfs), expected)


@pytest.mark.parametrize("n_bins", [32, 1000])
def test_a_histogram_says_that_it_cannot_part_people(n_bins):
    table = make_spurious_bias(40_000, random_state=3)
    asked = {"method": "histogram", "n_bins": n_bins}
    with pytest.warns(RepairWarning, match="in one bin with its threshold") as said:
        model, *_ = measured(table, DecisionTreeClassifier(random_state=0), **asked)
    assert model.repair_notes_ == [str(said[0].message)]
    smooth, *_ = measured(table, LogisticRegression(), **asked)
    assert smooth.repair_notes_ == []


@pytest.mark.parametrize(("n_bins", "n_notes"), [(14, 0), (9, 1)])
def test_a_tenth_of_a_group_in_a_bin_is_said(n_bins, n_notes):
    """Even scores in (0, 1) and in (0, .8): 1.25 / 14 of a group in a bin, or more."""
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=40_000)
    p = rng.random(40_000) * np.where(group, 0.8, 1.0)
    y = (rng.random(40_000) < p).astype(int)
    model = DP2DPClassifier(
        FrozenEstimator(GivenScores()), method="histogram", n_bins=n_bins,
        epsilon=10.0, classes=[0, 1], groups=[0, 1], base_guarantee="public",
        random_state=0,
    )  # fmt: skip
    model.fit(p[:, None], y, sensitive_features=group)
    assert len(model.repair_notes_) == n_notes


# --- without the group ---------------------------------------------------------------


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_one_rule_serves_all_groups_with_least_error(by_class, tolerance):
    rng = np.random.default_rng(5)
    table = rng.uniform(100, 900, size=(2, 3, 6))
    table[1, :, :2] *= 4
    rates = [(1, 0), (1, 2)] if by_class else None
    compared = rates or [(0, k) for k in range(3)]
    rule = shared_rule(table, rates, compared, tolerance)
    assert_allclose(rule.sum(axis=1), 1.0, rtol=1e-12)

    def gap(rule):
        cells = table[:, 1] if by_class else table.sum(axis=1)
        decided = cells @ rule / cells.sum(axis=1, keepdims=True)
        return np.ptp(decided[:, [k for _, k in compared]], axis=0).max()

    def right(rule):
        return np.einsum("syr,ry->", table, rule) / table.sum()

    assert gap(rule) <= tolerance + 1e-9
    # A local search among fair rules finds none that errs less, nor does a constant.
    best = max(right(np.tile(row, (6, 1))) for row in np.eye(3))
    for _ in range(3000):
        other = rng.dirichlet(np.full(3, 0.3), size=6)
        mixed = 0.9 * rule + 0.1 * other
        if gap(mixed) <= tolerance:
            best = max(best, right(mixed))
    assert right(rule) >= best - 1e-9


def blind_tree(n_rows=40_000, base=None, **params):
    """One tree of three classes: sure of everybody."""
    X, y, group = make_biased_mixture(
        n_rows + 60_000, 8, n_classes=3, random_state=5003
    )[:3]
    base = DecisionTreeClassifier(random_state=0) if base is None else base
    base.fit(X[:10_000], y[:10_000])
    if params.get("constraint") == "equalized_odds":  # rates by true class differ too
        otherwise = (group == 1) & (X @ (-1) ** np.arange(8) > 0)
        y = np.where(otherwise, (y + 1) % 3, y)
    told, fresh = slice(10_000, 10_000 + n_rows), slice(10_000 + n_rows, None)
    model = DP2DPClassifier(
        FrozenEstimator(base), blind=True, classes=range(3), groups=[-1, 1],
        base_guarantee="public", random_state=0,
    )  # fmt: skip
    if params.pop("public_groups", False):  # then all rows calibrate
        telling = LogisticRegression().fit(X[:10_000], group[:10_000])
        params |= {
            "group_estimator": FrozenEstimator(telling),
            "group_guarantee": "public",
        }
    model.set_params(**params)
    table = X[told], y[told], group[told]
    return model, table, (X[fresh], y[fresh], group[fresh])


def test_a_blind_repair_of_a_sure_classifier_draws():
    model, (X, y, group), (fresh, y_fresh, group_fresh) = blind_tree(reach_size=0.1)
    with pytest.warns(RepairWarning, match=DRAWN_BLIND):
        model.fit(X, y, sensitive_features=group)
    assert model.repair_ == "repaired" and model.rule_.shape == (1, 6, 3)
    assert spreads(model)
    decided = model.predict(fresh)
    gap = gap_of(y_fresh, decided, group_fresh)
    assert gap < 0.04 and model.parity_interval_[0] <= gap <= model.parity_interval_[1]
    # By offsets alone, whose decisions are in the regions:
    chances = model.predict_proba(fresh)
    scores = model.estimator_.predict_proba(fresh)
    shares = model._recalibration(model._group_shares(fresh, private=False))
    offsets = model._shifted(scores, shares).argmax(axis=1)
    assert gap_of(y_fresh, offsets, group_fresh) > 2 * gap
    assert gap_of(y_fresh, model.estimator_.predict(fresh), group_fresh) > 0.2
    # A region is that decision and the group that is likelier than among all.
    likelier = (shares[:, 1] > model._recalibration.shares[1]).astype(int)
    assert_array_equal(chances, model.rule_[0][2 * offsets + likelier])
    for k in range(3):
        assert chances[:, k].mean() == pytest.approx(np.mean(decided == k), abs=0.01)
    in_parts = [model.predict(fresh[:700]), model.predict(fresh[700:])]
    assert_array_equal(np.concatenate(in_parts), decided)
    full = model.reach([0.0])
    assert full.violation_interval[0].tolist() == list(model.parity_interval_)
    assert "A tolerance of 0 is met: groups differ by 0.000" in str(full)
    # A second fit forgets the draws.
    smooth = blind_tree(base=LogisticRegression())[0].estimator
    model.set_params(estimator=smooth).fit(X, y, sensitive_features=group)
    assert not hasattr(model, "rule_") and not spreads(model)


def test_a_repair_that_stands_back_draws_nothing(monkeypatch):
    model, (X, y, group), (fresh, *_) = blind_tree()
    monkeypatch.setattr(blind, "stand_back", lambda *told: "none")
    with pytest.warns(RepairWarning, match="stood back"):
        model.fit(X, y, sensitive_features=group)
    assert not hasattr(model, "rule_")
    assert_array_equal(model.predict(fresh), model.estimator_.predict(fresh))


def test_likelier_is_beside_the_shares_of_all():
    told = blind.Recalibration(np.array([0.9, 0.1]), 0.5, None, np.eye(2))
    posterior = np.array([[0.89, 0.11], [0.91, 0.09], [0.2, 0.8]])
    assert told.likelier(posterior).tolist() == [1, 0, 1]


def test_fewer_people_are_counted_by_decision_alone():
    """Noise in twice as many counts would hide what groups differ by."""
    for n_rows, n_numbers in [(10_000, 2 * 18), (40_000, 2 * 36)]:
        model, (X, y, group), _ = blind_tree(n_rows)
        with recording() as seen, warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            model.fit(X, y, sensitive_features=group)
        assert seen.crossings[-1].exact.size == n_numbers
    # 10,000 people calibrate; the noise of a count is 19.3, that of a size 81.7.
    query = CellCounts((3,), name="certificate", norm="l2", n_tables=2)
    wall = SimpleNamespace(scale=lambda asked: {query: 10.0}[asked])
    noise = 10.0 * (2 * 9) ** 0.5
    for people, n_regions in [(20.05 * noise, 6), (19.95 * noise, 3)]:
        assert model._n_regions(wall, np.array([people, 1e9])) == n_regions
    two = clone(model).set_params(classes=[0, 1])
    two.groups_, two.classes_ = np.array([-1, 1]), np.array([0, 1])
    wall = SimpleNamespace(scale=lambda asked: 10.0)
    assert two._n_regions(wall, np.array([1e9, 1e9])) == 2


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
def test_replay_of_a_blind_repair_that_draws(constraint, relation):
    model, table, _ = blind_tree(
        20_000, epsilon=30.0, neighboring=relation, constraint=constraint,
        public_groups=True,
    )  # fmt: skip
    if relation == "replace_one":  # by one of another label and group
        other = [column.copy() for column in table]
        other[0][0], other[1][0], other[2][0] = 3.0, (table[1][0] + 1) % 3, -table[2][0]
    else:
        other = [column[1:] for column in table]

    def fitted(X, y, group):
        with pytest.warns(RepairWarning, match=DRAWN_BLIND):
            return clone(model).fit(X, y, sensitive_features=group)

    with recording() as first:
        one = fitted(*table)
    with recording(replay=first) as second:
        two = fitted(*other)
    for a, b in zip(first.crossings, second.crossings, strict=True):
        assert np.linalg.norm(a.exact - b.exact) <= a.sensitivity * (1 + 1e-9)
    assert_array_equal(one.rule_, two.rule_)
    assert one.parity_interval_ == two.parity_interval_
    assert one.privacy_ == two.privacy_
    assert_array_equal(one.predict(table[0]), two.predict(table[0]))


class _Near(ClassifierMixin, BaseEstimator):
    """All people are near the threshold: soft decisions differ little."""

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def fit(self, X, y=None):
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X):
        found = np.full((len(X), self.n_classes), 1 / self.n_classes)
        found[:, :2] += np.where(X[:, :1] > 0, 1, -1) * [[0.002, -0.002]]
        return found

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_groups_whose_decisions_are_drawn_are_not_said_to_be_untold(n_classes):
    """The steps cannot tell them, and counts of decisions can; few people still not."""
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b", "few"], [1000, 1000, 6])
    X = np.where(group == "b", -1.0, 1.0)
    X = np.where(rng.random(len(X)) < 0.25, -X, X)[:, None]
    repair = DP2DPClassifier(
        FrozenEstimator(_Near(n_classes).fit(X)),
        classes=list(range(n_classes)),
        groups=["a", "b", "few"],
        base_guarantee="public",
        random_state=0,
    )
    with pytest.warns(RepairWarning) as told:
        repair.fit(X, np.zeros(len(X), dtype=int), sensitive_features=group)
    said = [str(warning.message) for warning in told]
    assert any("some are drawn now" in one for one in said)
    assert repair.pooled_groups_.tolist() == ["few"]
    untold = [one for one in said if "it cannot be told" in one]
    assert len(untold) == 1 and "the groups ['few'] differ from the others" in untold[0]


def near(X, y, group, **how):
    """A repair of people near the threshold, and what it said."""
    repair = DP2DPClassifier(
        FrozenEstimator(_Near(2).fit(X)),
        method="gradient",
        classes=[0, 1],
        groups=np.unique(group).tolist(),
        base_guarantee="public",
        **how,
    )
    with pytest.warns(RepairWarning) as told:
        repair.fit(X, y, sensitive_features=group)
    return repair, [str(warning.message) for warning in told]


@pytest.mark.parametrize("seed", range(4))
def test_a_group_that_draws_hardly_repair_is_named(seed):
    """Its rate of 1 is drawn towards those of all people for want of evidence."""
    group = np.repeat(["a", "b", "c"], [1000, 1000, 60])
    first = np.concatenate([np.arange(1000) % 4 > 0, np.arange(1000) % 4 == 0])
    X = np.where(np.append(first, np.ones(60, dtype=bool)), 1.0, -1.0)[:, None]
    repair, said = near(X, np.zeros(len(X), dtype=int), group, random_state=seed)
    assert any("some are drawn now" in one for one in said)
    assert repair.pooled_groups_.tolist() == ["c"]
    assert any("the groups ['c'] differ from the others" in one for one in said)


@pytest.mark.parametrize("seed", range(3))
def test_a_true_class_that_is_not_compared_names_nobody(seed):
    """Equal opportunity asks for the second class; of the first b has 10 people."""
    group = np.repeat(["a", "b"], 2000)
    y = np.concatenate([np.arange(2000) % 2, np.arange(2000) >= 10]).astype(int)
    X = np.where(np.arange(4000) // 2 % 4 > 0, 1.0, -1.0)
    X = np.where(group == "b", -X, X)[:, None]
    how = {"constraint": "equal_opportunity", "random_state": seed}
    repair, said = near(X, y, group, **how)
    assert any("some are drawn now" in one for one in said)
    assert not repair.pooled_groups_.size
    assert not any("it cannot be told" in one for one in said)
