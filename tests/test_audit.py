"""The auditor: bounds that hold, mistakes that are found, twins that are not blamed."""

import functools
import json
import math
import os
import random
import re
import struct
import sys
import time
from array import array
from collections import defaultdict, deque
from datetime import datetime, timedelta
from decimal import Decimal
from io import BytesIO
from types import MappingProxyType, SimpleNamespace

import _mistakes
import numpy as np
import pandas as pd
import pytest
from _mistakes import CASES, EPSILON, table
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KDTree
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_X_y

from fairpriv_sklearn import audit
from fairpriv_sklearn._shared.sklearn import StrOptions
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    PureEvent,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from fairpriv_sklearn.audit import (
    EpsilonBound,
    MuBound,
    _tape,
    audit_estimator,
    epsilon_lower_bound,
    gaussian_mu_lower_bound,
    mu_lower_bound,
    replay,
)
from fairpriv_sklearn.audit.__main__ import main
from fairpriv_sklearn.audit._bounds import Event, log_wealth
from fairpriv_sklearn.audit._outcome import leaf_differences, leaves_of
from fairpriv_sklearn.audit._replay import AdditiveNoise, loss_epsilon, realised_events
from fairpriv_sklearn.audit._tables import CANARY, Table
from fairpriv_sklearn.audit._tape import Released, Tape, taped
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    noise_source,
)
from fairpriv_sklearn.postprocessing import DPBarycenterRegressor
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import PrivacyGuarantee, PrivacyLedger

QUICK = {"max_fits": 3000, "random_state": 0}


# --- bounds ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "draw", "shift", "truth"),
    [
        (epsilon_lower_bound, "laplace", 0.0, 0.0),
        (epsilon_lower_bound, "laplace", 1.0, 1.0),
        (mu_lower_bound, "normal", 0.0, 0.0),
        (mu_lower_bound, "normal", 1.0, 1.0),
        (gaussian_mu_lower_bound, "normal", 1.0, 1.0),
    ],
)
def test_bounds_rarely_lie_above_the_truth(bound, draw, shift, truth):
    rng = np.random.default_rng(0)
    n, alpha = 120, 0.1
    wrong = 0
    for _ in range(n):
        a, b = getattr(rng, draw)(size=(2, 200))
        wrong += bound(a + shift, b, confidence=1 - alpha) > truth + 1e-9
    assert wrong <= stats.binom.isf(1e-4, n, alpha)


@pytest.mark.parametrize("m", [2, 3, 10])
def test_bound_of_gaussian_outputs_holds_of_few_runs(m):
    # With the quantile of the normal distribution 11 % of two runs were above 0.
    rng, n = np.random.default_rng(0), 3000
    pairs = rng.normal(size=(n, 2, m))
    wrong = sum(gaussian_mu_lower_bound(a, b, confidence=0.95) > 0 for a, b in pairs)
    assert wrong <= stats.binom.isf(1e-4, n, 0.05)


@pytest.mark.parametrize("m", [2, 7, 600])
def test_bound_of_gaussian_outputs_is_that_of_a_t_test(m):
    rng = np.random.default_rng(m)
    a, b = 30 + 5 * rng.normal(size=m), 5 * rng.normal(size=m)
    shift = stats.ttest_ind(a, b).statistic * math.sqrt(2 / m)
    for confidence in (0.6, 0.95):
        _, upper = stats.t.interval(confidence, 2 * m - 2)
        expected = shift - upper * math.sqrt(2 / m + shift**2 / (4 * m))
        for pair in ((a, b), (b, a)):
            found = gaussian_mu_lower_bound(*pair, confidence=confidence)
            assert found == pytest.approx(max(expected, 0.0), rel=1e-9)
    assert m < 7 or found > 0
    assert gaussian_mu_lower_bound(a[:1], b[:1]) == 0.0
    with pytest.raises(ValueError, match="do not vary"):
        gaussian_mu_lower_bound([1.0, 1.0], [2.0, 2.0])


@pytest.mark.parametrize("kind", [EpsilonBound, MuBound])
def test_a_claim_between_refuted_ones_ends_the_bound(kind):
    # Wealth need not fall with the parameter, as the stakes of each claim are its own.
    class Wavy(kind):
        def _log_wealth(self, parameters):
            kept = (abs(parameters - 0.52) < 0.01) | (parameters > 0.93)
            return np.where(kept, 0.0, 9.0)

    bound = Wavy().update(np.arange(40.0), np.arange(40.0))
    assert 0.5 < bound.value < 0.51


@pytest.mark.parametrize(
    ("bound", "claim"),
    [(EpsilonBound(delta=0.02), 0.7), (MuBound(), 0.7)],
)
def test_wealth_of_many_claims_is_that_of_each(bound, claim):
    event = Event(0, 1, 0.0, (0.6, 0.15))
    event.counts = np.array([9, 2, 30, 5])
    bound._events = [event]
    if isinstance(bound, MuBound):
        epsilon = claim * stats.norm.isf(0.15) - claim**2 / 2
        delta = gaussian_delta(claim, epsilon)
    else:
        epsilon, delta = claim, 0.02
    slope = math.exp(epsilon)
    mean = 0.6 - slope * 0.15 - delta
    variance = 0.6 * 0.4 + slope**2 * 0.15 * 0.85
    expected = 0.0
    for boldness in (0.25, 0.5, 1.0):
        stake = min(boldness * mean / (variance + mean**2), 0.9 / (slope + delta))
        gains = [1 - stake * delta, 1 - stake * (slope + delta)]
        gains += [1 + stake * (1 - delta), 1 + stake * (1 - slope - delta)]
        expected += np.prod(np.power(gains, event.counts)) / 3
    wealth = bound._log_wealth(np.array([0.1, claim, 5.0]))
    assert wealth[1] == pytest.approx(math.log(expected), rel=1e-9)
    assert wealth[0] > wealth[1] > wealth[2] == pytest.approx(0.0, abs=1e-12)


def test_wealth_is_a_supermartingale_on_the_edge_of_the_claim():
    # Exact expectation over the four outcomes where P(x) = e^eps P(y) + delta.
    epsilon, delta, q = 0.7, 0.01, 0.2
    p = math.exp(epsilon) * q + delta
    probabilities = [(1 - p) * (1 - q), (1 - p) * q, p * (1 - q), p * q]
    expected = 0.0
    for outcome, probability in enumerate(probabilities):
        event = Event(0, 1, 0.0, (0.6, 0.15))
        event.counts = np.bincount([outcome], minlength=4)
        expected += probability * math.exp(log_wealth(1, [(event, epsilon, delta)])[0])
    assert expected == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("bound", [epsilon_lower_bound, mu_lower_bound])
def test_a_factor_of_root_two_is_seen(bound):
    rng = np.random.default_rng(1)
    draw = rng.laplace if bound is epsilon_lower_bound else rng.normal
    seen = [
        bound(math.sqrt(2) + draw(size=2000), draw(size=2000), confidence=0.999) > 1
        for _ in range(20)
    ]
    assert sum(seen) >= 16  # power above .9: fewer with probability .04


def test_a_bound_may_be_fed_in_pieces_and_looked_at():
    rng = np.random.default_rng(0)
    a, b = 1 + rng.laplace(size=1000), rng.laplace(size=1000)
    pieces = EpsilonBound()
    for i in range(0, 1000, 7):
        pieces.update(a[i : i + 7], b[i : i + 7])
    assert pieces.value == EpsilonBound().update(a, b).value
    assert pieces.n_runs == 1000


def test_certain_events_and_ties():
    assert epsilon_lower_bound(np.ones(200), np.zeros(200)) > 2.5
    assert epsilon_lower_bound(np.ones(200), np.ones(200)) == 0.0
    assert mu_lower_bound(np.full(100, np.inf), np.zeros(100)) > 2


@pytest.mark.parametrize("bound", [epsilon_lower_bound, mu_lower_bound])
def test_who_is_to_be_surer_bounds_less(bound):
    noise = np.random.default_rng(0).normal(size=(2, 2000))
    found = [bound(1 + noise[0], noise[1], confidence=c) for c in (0.5, 0.95, 0.999)]
    assert found[0] > found[1] > found[2] > 0
    assert bound(1 + noise[0], noise[1]) == found[1]


def test_delta_is_taken_off():
    rng = np.random.default_rng(0)
    a, b = rng.random(4000) < 0.05, np.zeros(4000)
    assert epsilon_lower_bound(a, b) > 1
    assert epsilon_lower_bound(a, b, delta=0.06) == 0.0


@pytest.mark.parametrize(
    "arguments",
    [
        ([1.0], [1.0, 2.0]),
        (["a"], [1.0]),
        ([np.nan], [1.0]),
        ([[1.0]], [[1.0]]),
        ([1j], [1.0]),
        (np.zeros(1, dtype="datetime64[s]"), [1.0]),
        (np.zeros(1, dtype="timedelta64[s]"), [1.0]),
    ],
)
def test_bounds_name_a_wrong_argument(arguments):
    with pytest.raises(ValueError, match="scores"):
        epsilon_lower_bound(*arguments)
    with pytest.raises(ValueError, match="confidence"):
        MuBound(confidence=1.0)
    with pytest.raises(ValueError, match="delta"):
        EpsilonBound(delta=1.0)


# --- exact losses ---------------------------------------------------------------------


def test_losses_of_additive_noise_against_closed_forms():
    one = np.ones(1)
    gauss = AdditiveNoise(["gaussian"], 0.5 * one, one, one)
    assert gauss.epsilon(1e-5, 1.0) == pytest.approx(gaussian_epsilon(0.5, 1e-5))
    assert gauss.epsilon(0.0, 1.0) == math.inf
    laplace = AdditiveNoise(
        ["laplace"] * 3, np.array([1.0, 0.5, 0.0]), *[2 * np.ones(3)] * 2
    )
    assert laplace.epsilon(0.0, 1.0) == pytest.approx(0.75)
    # delta(eps) of one Laplace release of loss 2 is 1 - exp((eps - 2) / 2)
    shifted = AdditiveNoise(["laplace"], 2 * one, one, one)
    delta = 1 - math.exp((1.0 - 2) / 2)
    assert shifted.epsilon(delta * 1.05, 1.0) == 0.0
    assert shifted.epsilon(delta * 0.95, 1.0) >= 1.0


def test_scales_that_depend_on_the_data_are_simulated():
    # Densities N(0, 1) against N(0, 1/4): the mass where one is e times the other
    unequal = AdditiveNoise(["gaussian"], np.zeros(1), np.ones(1), np.full(1, 0.5))
    x = np.linspace(-8, 8, 400_001)
    p, q = stats.norm.pdf(x), stats.norm.pdf(x, scale=0.5)
    delta = np.trapezoid(np.maximum(p - math.e * q, 0), x)
    assert unequal.epsilon(0.95 * delta, 1.0) >= 1.0
    assert unequal.epsilon(1.05 * delta, 1.0) == 0.0


def test_loss_of_events():
    assert loss_epsilon([PureEvent(0.5), PureEvent(1.0)], 0.0) == 1.5
    gaussians = [GaussianEvent(0.3), GaussianEvent(0.4)]
    assert loss_epsilon(gaussians, 1e-5) == pytest.approx(gaussian_epsilon(0.5, 1e-5))
    assert loss_epsilon([], 1e-5) == 0.0


def released(kind, *values):
    """Outcomes of two fits that released these, told of a sensitivity of 2 at 1."""
    return [
        SimpleNamespace(
            tape=SimpleNamespace(
                releases=[Released(kind, np.array(value, float), None, 2.0, 1.0)]
            )
        )
        for value in values
    ]


@pytest.mark.parametrize("move", [[2, 0, 0], [1, -1, 0], [1, 1, 0]])
@pytest.mark.parametrize("delta", [1e-5, 0.01, 0.1])
def test_a_loss_of_counts_with_noise_is_a_lower_bound(move, delta):
    events = realised_events(*released("pure", [5, 3, 0], np.add([5, 3, 0], move)))
    assert loss_epsilon(events, 0.0) == 1.0
    epsilon = loss_epsilon(events, delta)
    k = np.arange(-150, 151)
    sides = [np.exp(-0.5 * np.abs(k - m)) for m in (0, 0, *move[:2])]
    a, b, c, d = (side / side.sum() for side in sides)
    exact = np.maximum(np.outer(a, b) - math.exp(epsilon) * np.outer(c, d), 0).sum()
    assert exact >= delta * (1 - 1e-9)
    # All of the noise on the far side, with a chance of a quarter at least, tells both.
    assert epsilon >= 1 + math.log1p(-4 * delta)
    if 2 in move:  # a single count tells nearly all of it
        assert epsilon == pytest.approx(1 + 2 * math.log1p(-delta))


@pytest.mark.parametrize("losses", [[1], [0.5, 0.5], [0.1, 0.7, 0.2], [0.2] * 5])
def test_a_loss_of_many_numbers_is_below_that_of_all_and_close_where_delta_is_small(
    losses,
):
    step = 1e-3
    chance = np.ones(1)
    for loss in losses:  # of a number with Laplace noise, rounded up to the steps
        ends = np.arange(-loss, loss + step / 2, step)
        below = 0.5 * np.exp(-(loss - ends) / 2)  # of a loss up to this, short of all
        below[-1] = 1.0
        chance = np.convolve(chance, np.diff(below, prepend=0.0))
    total = math.fsum(losses)
    lost = -total + step * np.arange(len(chance))

    def exact(epsilon):
        return float(np.sum(chance * np.maximum(0.0, -np.expm1(epsilon - lost))))

    for delta in (1e-6, 1e-3, 0.02, 0.1, 0.3):
        epsilon = loss_epsilon([PureEvent(loss) for loss in losses], delta)
        assert exact(epsilon) >= delta or epsilon == 0.0
        if delta == 1e-6:
            assert epsilon >= total * (1 - 1e-4)


def test_a_choice_by_utilities_that_all_rise_alike_loses_nothing():
    assert realised_events(*released("choice", [0, 0], [2, 2])) == []
    (event,) = realised_events(*released("gaussian", [0, 0], [0, 1]))
    assert event == GaussianEvent(0.5)
    (event,) = realised_events(*released("pure", [0, 0], [0, math.nan]))
    assert event == PureEvent(math.inf)


# --- leaves ---------------------------------------------------------------------------


class Thing:
    def __init__(self, **attributes):
        self.__dict__ = attributes


def test_leaves_see_to_the_bottom():
    one = Thing(a={"x": [np.arange(3), ("t", 1.0)]}, b=Thing(c={1, 2}))
    other = Thing(a={"x": [np.arange(3), ("t", 1.0)]}, b=Thing(c={1, 3}))
    assert leaf_differences(leaves_of(one), leaves_of(one)) == []
    assert leaf_differences(leaves_of(one), leaves_of(other)) == ["attribute .b.c"]


def test_long_numbers_are_compared_and_not_where_they_lie():
    """A seed of 16 bytes was a leak of every generator with a `random_state`."""
    first, second = (leaves_of([int("1" + "0" * 30)]) for _ in range(2))
    assert not leaf_differences(first, second)
    assert leaf_differences(first, leaves_of([10**30 + 1]))


@pytest.mark.parametrize(
    "pair",
    [(0.0, -0.0), (1, 1.0), (np.float32(1), np.float64(1)), ([1], [1, 1]), ("a", b"a")],
)
def test_leaves_differ_bit_by_bit(pair):
    first, second = (leaves_of(Thing(a=value)) for value in pair)
    assert leaf_differences(first, second)


def _frame(**attrs):
    frame = pd.DataFrame({"a": [0]})
    frame.attrs = attrs
    return frame


def _given(x, kind, *args):
    given = type("Given", (kind,), {})(*args)
    given.secret = x
    return given


HOLDERS = {
    "deque": lambda x: deque([x]),
    "bytearray": lambda x: bytearray(struct.pack("d", x)),
    "memoryview": lambda x: memoryview(struct.pack("d", x)),
    "array": lambda x: array("d", [x]),
    "Decimal": lambda x: Decimal(x),
    "day": lambda x: datetime(2020, 1, 1) + timedelta(days=x),
    "span": lambda x: timedelta(days=x),
    "days": lambda x: np.array([x * 1e9]).astype("M8[us]"),
    "spans": lambda x: np.array([x * 1e9]).astype("m8[us]"),
    "one day": lambda x: np.datetime64(int(x * 1e9), "us"),
    "fields": lambda x: np.array([(1, x)], dtype=[("a", int), ("b", float)]),
    "one of fields": lambda x: np.array((x,), dtype=[("a", float)])[()],
    "bytes of fixed size": lambda x: np.array(struct.pack("d", x)).view("V8"),
    "under a mask": lambda x: np.ma.MaskedArray([x], mask=[True]),
    "a mask": lambda x: np.ma.MaskedArray([0.0], mask=[x > 1]),
    "index": lambda x: pd.DataFrame({"a": [0]}, index=[x]),
    "columns": lambda x: pd.DataFrame([[0]], columns=[x]),
    "attrs": lambda x: _frame(x=x),
    "types": lambda x: pd.DataFrame({"a": [0]}).astype("int8" if x > 1 else "int64"),
    "name": lambda x: pd.Series([0], name=x),
    "name of an index": lambda x: pd.Index([0], name=x),
    "categories": lambda x: pd.Series([0]).astype(pd.CategoricalDtype([0, x])),
    "categories of an index": lambda x: pd.CategoricalIndex([0], categories=[0, x]),
    "a moment": lambda x: pd.Timestamp(int(x * 1e9)),
    "an interval": lambda x: pd.Interval(0, x),
    "partial": lambda x: functools.partial(max, x),
    "closure": lambda x: lambda: x,
    "default": lambda x: lambda a=x: a,
    "default by name": lambda x: lambda *, a=x: a,
    "method": lambda x: Thing(x=x).__repr__,
    "method of C": lambda x: np.array([x]).sum,
    "tree": lambda x: DecisionTreeRegressor().fit([[0], [1]], [0, x]).tree_,
    "neighbours": lambda x: KDTree([[x]]),
    "iterator": lambda x: iter([x]),
    "file": lambda x: BytesIO(struct.pack("d", x)),
    "mapping": lambda x: MappingProxyType({"a": x}),
    "attribute of a list": lambda x: _given(x, list),
    "attribute of a dict": lambda x: _given(x, dict),
    "attribute of an array": lambda x: _given(x, np.ndarray, 0),
    "beneath an array": lambda x: np.array([1.0, x])[:1],
    "beneath an array of objects": lambda x: np.array([1.0, x], dtype=object)[:1],
    "default of a dict": lambda x: defaultdict(lambda: x),
    "slice": lambda x: slice(x),
    "exception": lambda x: ValueError(x),
    "pattern": lambda x: re.compile(str(x)),
    "depth": lambda x: functools.reduce(lambda held, _: [held], range(40), x),
}


def test_an_array_may_hold_itself():
    """Directly and by what it holds; what it holds besides is seen."""
    found = []
    for x in (1.5, 0.5):
        array = _given(x, np.ndarray, 2)
        array[:] = 0.0
        array.itself, array.more = array, [array, {"deep": array}]
        found.append(leaves_of({"first": array, "second": array}))
    assert leaf_differences(found[0], found[0]) == []
    assert leaf_differences(*found)


@pytest.mark.parametrize("holder", HOLDERS)
def test_leaves_see_what_an_object_holds_however_it_is_made(holder):
    one, twin, other = (leaves_of(HOLDERS[holder](x)) for x in (1.5, 1.5, 0.5))
    assert leaf_differences(one, twin) == []
    assert leaf_differences(one, other)


def test_a_replay_looks_into_functions():
    class Remembers(DPLinearRegression):
        def fit(self, X, y):
            super().fit(X, y)
            self.recall_ = lambda: X
            return self

    X = np.linspace(-1, 1, 40).reshape(20, 2)
    model = Remembers(bounds=(-1, 1), target_bounds=(-1, 1))
    assert replay(model, audit.neighbours(X, X[:, 0])[:1]).violated


def test_leaves_end():
    knot = Thing()
    knot.self = knot
    assert leaves_of(knot)[".self"] == "seen before"


# --- neighbours -----------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_neighbours_are_neighbours(relation):
    X, y = table()
    pairs = audit.neighbours(X, y, sensitive_features=y, neighboring=relation)
    assert len({pair.name for pair in pairs}) == len(pairs) > 25
    for pair in pairs:
        one, other = pair.first, pair.second
        assert one.n_rows - other.n_rows == (relation == "add_remove")
        if pair.name.startswith(("object", "a cell of text", "sparse")):
            continue
        n = one.n_rows - 1  # they differ in their last row only
        for name in ("X", "y", "sensitive_features"):
            a, b = getattr(one, name), getattr(other, name)
            assert np.array_equal(a[:n], b[:n])
            assert a.dtype == b.dtype
        if relation == "replace_one":
            assert (
                any(
                    a[n:].tobytes() != b[n:].tobytes()
                    for a, b in ((one.X, other.X), (one.y, other.y))
                )
                or "group" in pair.name
            )


def test_the_tables_that_are_given_are_left_alone():
    X, y = table()
    before = X.copy()
    audit.neighbours(X, y)
    assert np.array_equal(X, before)


@pytest.mark.parametrize("X", [[["a"]], [1.0], np.empty((0, 2))])
def test_neighbours_name_a_wrong_argument(X):
    with pytest.raises(ValueError, match="X must"):
        audit.neighbours(X)


# --- ten classic mistakes -------------------------------------------------------------

# Statistical ones need thousands of fits; a script runs all of them on twenty seeds.
SLOW = {"OneSplitTwice"}


@pytest.mark.parametrize(
    ("model", "claim", "relation"),
    [case for case in CASES if case[0].__name__ not in SLOW],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_classic_mistake_is_convicted(model, claim, relation):
    """The models draw afresh, and one audit in ten misses the weakest mistake."""
    for _ in range(4):
        report = audit_estimator(
            model(), *table(3), claim=claim, neighboring=relation, **QUICK
        )
        if report.violated:
            break
    assert report.violated and report.conclusive
    assert report.epsilon_lower > EPSILON
    assert any(finding.violates for finding in report.findings)


@pytest.mark.parametrize(
    ("model", "claim", "relation"),
    CASES,
    ids=lambda value: getattr(value, "__name__", None),
)
def test_its_corrected_twin_is_not(model, claim, relation):
    report = audit_estimator(
        model(right=True), *table(4), claim=claim, neighboring=relation, **QUICK
    )
    assert not report.violated, str(report)
    assert report.epsilon_lower <= EPSILON * (1 + 1e-9)


def test_a_seed_that_is_passed_is_noted_and_one_that_is_built_in_convicts():
    model = CASES[-1][0](right=True, random_state=0)
    report = audit_estimator(model, *table(), claim=1.0, **QUICK)
    assert not report.violated
    assert any("random_state fixes" in finding.text for finding in report.findings)

    class SeededByDefault(CASES[-1][0]):
        def __init__(self, right=True, epsilon=1.0, random_state=0):
            super().__init__(right, epsilon, random_state)

    assert audit_estimator(SeededByDefault(), *table(), claim=1.0, **QUICK).violated


@pytest.mark.parametrize("seed", [lambda X: 7, lambda X: int(X[0].sum() * 1e6)])
def test_noise_of_a_mechanism_that_starts_anew_from_one_seed_convicts(seed):
    """A replay feeds noise in, and does not see that it was no secret."""

    class Seeded(BaseEstimator):
        def __init__(self, random_state=None):
            self.random_state = random_state

        def fit(self, X, y=None):
            own = self.random_state
            noise = noise_source(seed(X) if own is None else own)
            mechanism = DiscreteLaplaceMechanism(2, 1.0)
            counts = np.bincount(np.clip(X[:, 0], 0, 1) > 0.5, minlength=2)
            self.counts_ = mechanism.release(counts, noise)
            return self

    report = audit_estimator(Seeded(), *table(), claim=1.0, **QUICK)
    assert report.violated and report.epsilon_lower == 1.0
    assert "seed" in {finding.kind for finding in report.findings}
    report = audit_estimator(Seeded(0), *table(), claim=1.0, **QUICK)
    assert not report.violated, str(report)


@pytest.mark.parametrize(("seed", "violated"), [(0, True), (None, False)])
def test_so_does_that_of_a_mechanism_of_diffprivlib(seed, violated, monkeypatch):
    class Rounded:
        """As its mechanisms are: the noise is theirs, and so is the generator."""

        epsilon, sensitivity = 1.0, 2

        def __init__(self):
            self._rng = random.SystemRandom()
            if seed is not None:
                self._rng = np.random.RandomState(seed)

        def randomise(self, value):
            return value + round(4 * (self._rng.random() - self._rng.random()))

    monkeypatch.setattr(_tape, "_diffprivlib_mechanisms", lambda: [Rounded])

    class Counts(BaseEstimator):
        def fit(self, X, y=None):
            self.count_ = Rounded().randomise(int((np.clip(X[:, 0], 0, 1) > 0.5).sum()))
            return self

    report = audit_estimator(Counts(), *table(), claim=1.0, **QUICK)
    assert report.violated == violated, str(report)
    assert violated == ("seed" in {finding.kind for finding in report.findings})


class FarFromZero(BaseEstimator):
    """A sum on top of a public number, with noise for `claim`."""

    def __init__(self, offset=1e9, claim=0.1):
        self.offset = offset
        self.claim = claim

    def fit(self, X, y=None):
        total = 2.0 * np.clip(np.asarray(X, dtype=float)[:, 0], 0, 1).sum()
        noise = np.random.default_rng().laplace(scale=2.0 / self.claim)
        self.sum_ = self.offset + total + noise
        return self


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_numbers_far_from_zero_hide_nothing(offset):
    """What one record changed there was taken for rounding."""
    X = np.random.default_rng(0).random((30, 1))
    report = audit_estimator(FarFromZero(offset, 1.0), X, claim=0.1, **QUICK)
    assert report.violated and report.epsilon_lower == pytest.approx(1.0, abs=0.05)
    report = audit_estimator(FarFromZero(offset), X, claim=0.1 * 1.05, **QUICK)
    assert not report.violated and report.conclusive


class OneNoiseForTwo(BaseEstimator):
    """Both outputs have noise enough; their difference has none, if they are two."""

    def __init__(self, is_wrong=True, draw="laplace"):
        self.is_wrong = is_wrong
        self.draw = draw

    def fit(self, X, y=None):
        X = np.clip(np.asarray(X, dtype=float), 0, 1)
        first, second = X.sum(axis=0)[[0, -1 if self.is_wrong else 0]]
        noise = getattr(np.random.default_rng(), self.draw)(scale=20.0)
        self.first_ = first + noise
        self.second_ = 3.0 * (second + noise) - 7.0
        return self


@pytest.mark.parametrize("draw", ["laplace", "normal"])
def test_a_noise_that_two_outputs_share_hides_none_of_them(draw):
    X = np.random.default_rng(0).random((30, 3))
    # the first column moves alone
    other = np.vstack([X[:-1], [[1.0 - X[-1, 0], *X[-1, 1:]]]])
    pairs, claim = [((X,), (other,))], (1.0, 1e-5 if draw == "normal" else 0.0)
    right = OneNoiseForTwo(False, draw)
    report = audit_estimator(right, X, claim=claim, pairs=pairs, **QUICK)
    assert not report.violated and report.conclusive
    wrong = OneNoiseForTwo(True, draw)
    report = audit_estimator(wrong, X, claim=claim, pairs=pairs, **QUICK)
    assert report.violated and report.epsilon_lower == math.inf
    assert audit_estimator(wrong, X, claim=claim, **QUICK).violated


def test_a_table_with_text_needs_pairs_of_ones_own():
    frame = pd.DataFrame({"job": ["clerk", "smith"] * 20, "age": np.arange(40.0)})
    model = DPTableEncoder(epsilon=1.0)
    for call in (audit.neighbours, functools.partial(audit_estimator, model)):
        with pytest.raises(ValueError, match="pass pairs of your own") as raised:
            call(frame)
        assert raised.value.__context__ is None and "clerk" not in str(raised.value)
    other = frame.assign(job=[*frame["job"][:-1], "sailor"])
    report = audit_estimator(model, frame, pairs=[((frame,), (other,))], **QUICK)
    assert report.n_pairs == 1 and report.conclusive and not report.violated


# --- claims ---------------------------------------------------------------------------


def test_an_infinite_claim_is_printed_as_one():
    """The scaler is not covered: what the other step says of itself is no claim."""
    X, y = table()[:2]
    model = DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1))
    report = audit_estimator(make_pipeline(StandardScaler(), model), X, y, **QUICK)
    assert report.claim.startswith("(epsilon = inf, ")
    assert [finding.kind for finding in report.findings] == ["note"]


class HonestSum(BaseEstimator):
    """A Gaussian sum with a guarantee of its own."""

    def __init__(self, mu=0.5, times=1):
        self.mu = mu
        self.times = times

    def fit(self, X, y=None):
        total = np.clip(X[:, 0], 0, 1).sum()
        rng = np.random.default_rng()
        noise = rng.normal(0, 1 / (self.times * self.mu))
        self.sum_ = total + noise
        self.privacy_ = PrivacyGuarantee.from_events(
            [GaussianEvent(self.mu, 1)],
            delta=1e-5,
            neighboring="replace_one",
            mechanism="a sum",
        )
        return self


def test_the_guarantee_of_the_estimator_is_the_claim():
    report = audit_estimator(HonestSum(), *table(), **QUICK)
    assert "0.5-Gaussian DP" in report.claim and not report.violated
    assert audit_estimator(HonestSum(times=1.01), *table(), **QUICK).violated


@pytest.mark.parametrize(
    ("claim", "violated"),
    [
        ({"mu": 0.5}, False),
        ({"mu": 0.45}, True),
        ((gaussian_epsilon(0.5, 1e-5) * 1.001, 1e-5), False),
        ((gaussian_epsilon(0.45, 1e-5), 1e-5), True),
        ({"epsilon": 1.0, "delta": gaussian_delta(0.5, 1.0) * 1.01}, False),
        (5.0, True),  # no Gaussian release is purely private
        (math.inf, False),
    ],
)
def test_claims_by_hand(claim, violated):
    report = audit_estimator(HonestSum(), *table(), claim=claim, **QUICK)
    assert report.violated == violated


@pytest.mark.parametrize(
    "claim",
    [
        "1",
        (1, 2, 3),
        {"eps": 1},
        -1.0,
        (1.0, 2.0),
        {},
        {"delta": 1e-5},
        {"epsilon": 1.0, "eps": 1.0},
        {"mu": -0.5},
        {"mu": 0.5, "delta": 2.0},
    ],
)
def test_a_wrong_claim_is_named(claim):
    with pytest.raises(ValueError, match="claim"):
        audit_estimator(HonestSum(), *table(), claim=claim)


def test_an_estimator_that_claims_nothing_or_cannot_be_fitted():
    class Silent(BaseEstimator):
        def fit(self, X, y=None):
            self.mean_ = X.mean()
            return self

    with pytest.raises(ValueError, match="claim"):
        audit_estimator(Silent(), *table())
    with pytest.raises(ValueError, match="could not be fitted"):
        audit_estimator(DPLinearRegression(alpha=-1), *table())


# --- this library's mechanisms and estimators -----------------------------------------


class OnMechanisms(BaseEstimator):
    """A sum through a mechanism of this library; each flaw is one argument."""

    def __init__(self, sensitivity=1.0, times=1, leak=False):
        self.sensitivity = sensitivity
        self.times = times
        self.leak = leak

    def fit(self, X, y=None):
        x = np.clip(X[:, 0], 0, 1)
        mechanism = GaussianMechanism(
            self.sensitivity, gaussian_mu(1.0, 1e-5) * 0.999, 1
        )
        noise = noise_source()
        self.sums_ = [
            mechanism.release(np.array([x.sum()]), noise)[0] for _ in range(self.times)
        ]
        if self.leak:
            self.n_high_ = int((x > 0.5).sum())
        return self


@pytest.mark.parametrize(
    ("flaw", "kind"),
    [
        ({"sensitivity": 0.9}, "sensitivity"),
        ({"times": 2}, "loss"),
        ({"leak": True}, "leak"),
    ],
)
def test_replay_convicts_with_one_pair(flaw, kind):
    claim = (1.0, 1e-5)
    report = audit_estimator(OnMechanisms(**flaw), *table(), claim=claim, **QUICK)
    assert report.violated
    assert kind in {finding.kind for finding in report.findings}
    assert report.n_fits < 10
    assert not audit_estimator(OnMechanisms(), *table(), claim=claim, **QUICK).violated


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "model",
    [
        DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1)),
        DPWassersteinLogisticRegression(
            bounds=(0, 1), classes=[0, 1], fairness_weight=0.0, max_iter=5
        ),
    ],
    ids=lambda model: (
        type(model).__name__ if isinstance(model, BaseEstimator) else None
    ),
)
def test_estimators_of_this_library_pass(model, relation):
    model.set_params(neighboring=relation)
    report = audit_estimator(model, *table(n=40), random_state=0)
    assert not report.violated, str(report)
    assert report.conclusive
    assert 0.3 < report.epsilon_lower / report.claimed_epsilon <= 1


def test_counts_of_keys_are_replayed():
    """What only one of the tables has keeps its own noise."""

    def released(tape, counts, keys):
        with taped(tape):
            return GaussianMechanism(1.0, 1.0, 1).release_keyed(counts, keys, bytes(32))

    first = Tape()
    counts = released(first, [5, 7], [b"a", b"b"])
    again = released(Tape(replay=first), [1, 8, 7], [b"c", b"a", b"b"])
    own = released(Tape(), [1, 8], [b"c", b"a"])
    assert again.tolist() == [own[0], *counts] and own[1] != counts[0]


def _votes_of_private_models():
    models = [
        (name, DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1)))
        for name in ("first", "second")
    ]
    votes = VotingRegressor(models)
    return VotingRegressor([("one", votes), ("other", votes)])


class _HoldsItself(LinearRegression):
    """As models that call something back do."""

    def fit(self, X, y):
        super().fit(X, y)
        self.itself, self.answer = self, self.predict
        return self


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(3),
        _votes_of_private_models(),
        LinearRegression(),
        _HoldsItself(),
    ],
)
def test_equal_tables_are_equal_whatever_else_a_wrapped_model_draws(model):
    """Forests and votes fit beside random names, which a replayed fit draws no more.

    Coefficients are a part of a larger array, and in a replay one of their own. A model
    that holds itself holds no other one there.
    """
    X = np.linspace(-1, 1, 40).reshape(20, 2)
    same = Table(X, X[:, 0], np.arange(20) % 2)
    repaired = DPBarycenterRegressor(model, target_bounds=(-1, 1), groups=[0, 1])
    report = replay(repaired, [audit.Neighbours("equal", same, same)] * 2)
    assert not report.findings, str(report)
    assert report.largest_ratio == 0 and not report.n_refused


def test_a_replay_says_what_could_not_be_fitted():
    X, y = table()
    pairs = audit.neighbours(X, y)[:3]
    wrong = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), alpha=-1.0)
    report = replay(wrong, pairs)
    assert report.to_dict()["n_refused"] == report.n_refused == report.n_pairs == 3
    assert not report.violated and "Neither table of 3 of them" in str(report)
    one_refused = audit.neighbours(X, y)[-1:]
    report = replay(wrong.set_params(alpha=1.0), pairs + one_refused)
    assert report.n_refused == 0 and "Neither" not in str(report)


def test_no_ledger_pays_for_an_audit():
    ledger = PrivacyLedger(1.0, 1e-5)
    model = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), ledger=ledger)
    X, y = table()
    for audited in (model, make_pipeline(model)):
        report = audit_estimator(audited, X, y, random_state=0, max_fits=20)
        assert report.claimed_epsilon == pytest.approx(1.0)
        assert not replay(audited, audit.neighbours(X, y)[:2]).violated
    assert ledger.spends() == [] and model.ledger is ledger
    model.fit(X, y)
    assert len(ledger.spends()) == 1


def test_a_pipeline():
    good = make_pipeline(
        FunctionTransformer(np.negative),
        DPLinearRegression(bounds=(-1, 0), target_bounds=(0, 1)),
    )
    X, y = table(n=600)  # with few rows the model is a constant, whatever X is
    report = audit_estimator(good, X, y, claim=(1.0, 1e-5), random_state=0)
    assert not report.violated, str(report)

    def centred(X):
        return X - X.mean(axis=0)

    bad = make_pipeline(
        FunctionTransformer(centred),
        DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1)),
    )
    report = audit_estimator(bad, X, y, claim=(1.0, 1e-5), random_state=0)
    assert report.violated


class SlowInOneWord(OnMechanisms):
    """Its other word releases for ten seconds."""

    _parameter_constraints = {"speed": [StrOptions({"quick", "slow"})]}
    epsilon, delta = 1.0, 1e-5

    def __init__(self, speed="quick"):
        super().__init__()
        self.speed = speed

    def fit(self, X, y=None):
        for _ in range(200 * (self.speed == "slow")):
            time.sleep(0.05)
            super().fit(X)
        return super().fit(X)


class Plain:
    """No estimator of scikit-learn's: attributes, and a claim of its own."""

    def __init__(self, epsilon, delta=0.0):
        self.epsilon, self.delta = epsilon, delta

    def fit(self, X, y=None):
        total = np.clip(X[:, 0], 0, 1).sum()
        self.sum_ = total + np.random.default_rng().laplace(0, 1.0)
        return self


@pytest.mark.parametrize(("epsilon", "violated"), [(1.0, False), (0.8, True)])
def test_any_object_with_fit_and_epsilon(epsilon, violated):
    report = audit_estimator(Plain(epsilon), *table(), **QUICK)
    assert report.violated == violated and report.conclusive


class CheckedGradients(BaseEstimator):
    """Clipped gradients, correct; scikit-learn's check and exp warn on far cells."""

    def fit(self, X, y):
        X, y = check_X_y(X, y)
        w, mu = np.zeros(X.shape[1]), gaussian_mu(1.0, 1e-5)
        rng = np.random.default_rng()
        for _ in range(3):
            gradients = (1 / (1 + np.exp(-X @ w)) - (y == 1))[:, None] * X
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            gradients = np.nan_to_num(gradients / np.maximum(1, norms))
            noise = rng.normal(0, 2 * math.sqrt(3) / mu, len(w))
            w = w - (gradients.sum(axis=0) + noise) / len(X)
        self.coef_ = w
        return self


def test_warnings_of_a_black_box_are_noted_only():
    report = audit_estimator(CheckedGradients(), *table(), claim=(1.0, 1e-5), **QUICK)
    assert not report.violated, str(report)
    assert any(finding.kind == "message" for finding in report.findings)


def test_data_frames_keep_their_columns():
    pd = pytest.importorskip("pandas")

    class Named(BaseEstimator):
        def fit(self, X, y=None):
            total = np.clip(X["a"].to_numpy(dtype=float), 0, 1).sum()
            self.sum_ = total + np.random.default_rng().laplace(0, 1.0)
            return self

    X, y = table()
    frame = pd.DataFrame(X, columns=list("abc"))
    assert audit_estimator(Named(), frame, y, claim=0.9, **QUICK).violated
    assert not audit_estimator(Named(), frame, y, claim=1.0, **QUICK).violated


def test_an_audit_that_cannot_fit_is_not_conclusive():
    X, y = table()

    class Picky(BaseEstimator):
        def fit(self, rows, target=None):
            if rows is not X:
                raise ValueError("not this one")
            self.sum_ = 0.0
            return self

    report = audit_estimator(Picky(), X, y, claim=1.0, **QUICK)
    assert not report.violated and not report.conclusive
    assert "could not be fitted" in str(report)


def test_replay_of_own_pairs():
    X, y = table(n=600)  # with few rows only the mean is asked
    other = X.copy()
    other[3] = 1 - other[3]
    model = DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1))
    report = replay(model, [(X, y)], [(other, y)])
    assert not report.violated and 0 < report.largest_ratio <= 1
    assert report.n_pairs == 1
    json.dumps(report.to_dict())
    assert "1 pair replayed" in str(report)
    with pytest.raises(ValueError, match="equally many"):
        replay(model, [(X, y)], [])
    with pytest.raises(ValueError, match="pairs"):
        replay(model, [(X, y)])


# --- report ---------------------------------------------------------------------------


def test_a_report_is_plain_and_holds_no_cell():
    X, y = table()
    X[0, 0] = 0.123456789
    report = audit_estimator(CASES[-1][0](), X, y, claim=1.0, **QUICK)
    text = json.dumps(report.to_dict()) + str(report)
    assert "VIOLATED" in text and "0.1234" not in text and CANARY not in text
    assert report.worst is not None and isinstance(report.worst.first, Table)


def test_limits_are_kept():
    model, claim, relation = CASES[0]
    report = audit_estimator(
        model(right=True), *table(), claim=claim, neighboring=relation, max_fits=100
    )
    assert report.n_fits <= 101
    report = audit_estimator(
        model(right=True), *table(), claim=claim, neighboring=relation, max_seconds=0.5
    )
    assert report.seconds < 3


def test_arguments_that_nobody_asked_for_do_not_take_all_the_time():
    """With another word the fit took minutes, and no limit was looked at."""
    report = audit_estimator(SlowInOneWord(), *table(), max_seconds=2, random_state=0)
    assert report.seconds < 4 and report.conclusive and not report.violated


def test_a_display_shows_the_claim_and_the_worst():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    report = audit_estimator(CASES[-1][0](), *table(), claim=1.0, **QUICK)
    display = audit.AuditDisplay.from_report(report)
    assert display.largest in display.violated
    assert display.ax_.get_xlabel().startswith("lower bound")
    # Beside a claim of infinity bars are told apart, too.
    display = audit.AuditDisplay(bounds={"a": 2.0, "b": 3.0}, claimed=np.inf).plot()
    assert [bar.get_width() for bar in display.ax_.patches] == [2.0, 3.0]
    assert display.ax_.get_xlim()[1] > 3.0
    # A bar that ends at the edge says its number: 3.228 looked like 1.5.
    bounds = {"a": 0.5, "b": 1.2, "c": 3.228, "d": np.inf}
    display = audit.AuditDisplay(bounds=bounds, claimed=1.0).plot()
    assert [text.get_text() for text in display.ax_.texts[:-1]] == ["3.228 "]
    plt.close("all")


# --- command line ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factory", "code"),
    [
        ("_mistakes:leaking", 1),
        ("_mistakes:noisy_mean", 0),
        ("_mistakes:missing", 2),
        ("_mistakes", 2),
        ("no_such_module:f", 2),
    ],
)
def test_exit_codes(factory, code, capsys):
    assert main([factory, "--max-fits", "1500", "--json"]) == code
    printed = capsys.readouterr()
    if code < 2:
        assert json.loads(printed.out)["violated"] == bool(code)
    else:
        assert "could not run" in printed.err
        assert ("takes a table" in printed.err) == (":" not in factory)


def test_a_factory_in_a_file_is_told_the_name_of_its_module(capsys):
    assert main(["folder/theirs.py:make"]) == 2
    assert "write theirs:make in the folder of the file" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, None])
def test_a_factory_that_exits_was_no_audit(code, monkeypatch, capsys):
    """Whatever its code says: 0 would mean that nothing was found."""
    monkeypatch.setattr(_mistakes, "exits", lambda: sys.exit(code), raising=False)
    assert main(["_mistakes:exits"]) == 2
    assert "could not run: SystemExit" in capsys.readouterr().err


def test_a_factory_that_fails_is_told_with_its_line(monkeypatch, capsys):
    """Of KeyError: 'x' alone nobody knows whose key that is."""
    monkeypatch.setattr(_mistakes, "keyless", lambda: {}["x"], raising=False)
    assert main(["_mistakes:keyless"]) == 2
    line = r"KeyError: 'x' \(test_audit.py, line \d+\)\n"
    assert re.search(line, capsys.readouterr().err)
    assert main(["_mistakes"]) == 2
    assert "line" not in capsys.readouterr().err


def test_a_delta_without_an_epsilon_is_refused(capsys):
    with pytest.raises(SystemExit) as left:
        main(["_mistakes:noisy_mean", "--delta", "0.1"])
    assert left.value.code == 2
    assert "give its --epsilon" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
@pytest.mark.parametrize(("factory", "code"), [("leaking", 1), ("noisy_mean", 0)])
def test_a_report_that_cannot_be_written_changes_no_exit_code(
    factory, code, monkeypatch, capsys
):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main([f"_mistakes:{factory}", "--max-fits", "1500"]) == code
    said = "The report cannot be written: No space left on device\n"
    assert capsys.readouterr().err == said


def test_an_audit_that_is_stopped_says_so_in_a_line(monkeypatch, capsys):
    from fairpriv_sklearn.audit import __main__ as command

    def stopped(**asked):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "audit_estimator", stopped)
    assert command.main(["_mistakes:noisy_mean"]) == 130
    assert capsys.readouterr().err == "\nThe audit was stopped: it says nothing.\n"


def test_sizes_of_groups_and_labels_may_be_public():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    a, y = np.arange(60) % 2, np.arange(60) // 2 % 2
    model = DPWassersteinLogisticRegression(
        classes=[0, 1],
        groups=[0, 1],
        data_norm=2.0,
        max_iter=3,
        constraint="equalized_odds",
        group_sizes_public=True,
    )
    report = audit_estimator(model, X, y, sensitive_features=a, random_state=0)
    assert "replace_one_in_cell" in report.claim
    assert report.conclusive and not report.violated and report.n_pairs > 3
