"""Plans, number by number: what is released, its share of mu squared, size, times.

Written down by hand from the pages; a share or a size that moves is seen here.
"""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from _ends import approx, ends_within
from _generative import semidual_plan, sliced_plan
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

from fairpriv_sklearn._training._line_search import search_share
from fairpriv_sklearn._training._penalty import record_changes
from fairpriv_sklearn._training._target import TargetCounts
from fairpriv_sklearn._wall import PrivacyFilter, Query
from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    calibrate_gaussian,
    calibrate_without_replacement,
    compose_delta,
    gaussian_epsilon,
)
from fairpriv_sklearn.accounting._gaussian import without_sampler_error
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
    _base,
    _pairs,
    _raw,
    _sliced_gradient,
)
from fairpriv_sklearn.generative._slices import SlicedPlan
from fairpriv_sklearn.linear_model import (
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.linear_model._gradient_plan import (
    Strata,
    constant_share,
    gradient_plan,
)
from fairpriv_sklearn.linear_model._line_search import SEARCH_SHARE
from fairpriv_sklearn.linear_model._queries import Geometry
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.metrics import dp_group_rates
from fairpriv_sklearn.model_selection import _plan
from fairpriv_sklearn.model_selection._plan import (
    gaussian_share,
    plan_search,
    plan_validation,
    share_of_composition,
)
from fairpriv_sklearn.model_selection._repeat import (
    calibrate_repeat,
    distribution_for_coverage,
)
from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier
from fairpriv_sklearn.neural_network._base import CONSTANT_NOISE
from fairpriv_sklearn.neural_network._objective import (
    MAX_RECORDS,
    GradientSensitivity,
    summation_error,
)
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.postprocessing._phases import Phases
from fairpriv_sklearn.postprocessing._queries import (
    DistinctScores,
    ScoreCounts,
    SoftCounts,
)

COUNTS, SOFT = ScoreCounts.name, SoftCounts.name


def n_draws(plan):
    """Number of noisy coordinates of the whole."""
    return sum(line.n_draws for line in plan.lines(1.0))


def numbers(lines, mu):
    """(share of mu squared, all times together; size; times) by name."""
    return {
        line.name: (
            round(line.times * (line.parameter / mu) ** 2, 9),
            line.n_coordinates,
            line.times,
        )
        for line in lines
    }


def test_plans_of_the_semidual_generators():
    # Class means: 3 x 4 and counts; triangles of 4 x 4; 3 points each, 4 + 1 numbers.
    assert numbers(semidual_plan().lines(0.7), 0.7) == {
        "class means": (0.1, 15, 1),
        "second moments": (0.3, 30, 1),
        "transport sums": (0.6, 45, 2),
    }
    assert n_draws(semidual_plan()) == 15 + 30 + 90
    short = semidual_plan(n_steps=0, shares=(0.4, 0.0, 0.6))
    assert numbers(short.lines(0.7), 0.7) == {"class means": (0.4, 15, 1)}
    plan = sliced_plan()
    assert numbers(plan.lines(0.7), 0.7) == numbers(semidual_plan().lines(0.7), 0.7) | {
        "projections": (0.4, 3 * 7 * 6, 1)
    }
    assert n_draws(plan) == 135 + 126


def test_plan_of_the_sliced_gradients():
    plan = _sliced_gradient.GradientPlan(
        semidual_plan(), 7, n_steps=5, batch_size=6, hidden_layer_sizes=(4,),
        learning_rate=0.1,
    )  # fmt: skip
    assert numbers(plan.lines(0.7), 0.7) == {
        "class means": (0.1, 15, 1),
        "sliced gradients": (0.9, 3 * 6 * 4, 5),
    }
    assert n_draws(plan) == 15 + 5 * 72


@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("n_components", [2, 3, 5])
@pytest.mark.parametrize("relation, rows", [("replace_one", 2), ("add_remove", 1)])
def test_sensitivity_of_the_sliced_gradients(n_classes, n_components, relation, rows):
    """2 |D| (2 |D| + grid) / (K n), times sqrt 2 where a record changes its class."""
    plan = _sliced_gradient.GradientPlan(
        semidual_plan(n_classes=n_classes, n_components=n_components),
        7, n_steps=5, batch_size=6, hidden_layer_sizes=(4,), learning_rate=0.1,
    )  # fmt: skip
    D = np.random.default_rng(0).normal(size=(n_components, 7))
    sizes = np.full(n_classes, 10**7)
    query = _sliced_gradient.SlicedGradient(plan, D, None, sizes)
    norm = np.linalg.norm(D, 2)
    expected = 2 * norm * (2 * norm + 2 * math.sqrt(7) / 2**20) / (7e7 * n_classes)
    expected *= math.sqrt(rows) if n_classes > 1 else 1
    rounding = 4 * math.sqrt(n_components / 6) * 15 * 2.0**-53
    stated = query.sensitivity(relation)
    assert stated / expected == approx(1, rel=1e-7)
    assert (stated - expected) / rounding == approx(1, rel=1e-3)
    assert query.n_coordinates == n_classes * 6 * n_components
    assert_allclose(query.weights, 1 / n_classes)


def test_plans_of_pairs_of_columns():
    quality = (("one", 2), ("other", 3))

    def plan(C, A, quality=quality, share=0.8):
        lines = _pairs.PairsPlan(C, A, 20, quality, share, None).lines(0.5)
        return numbers(lines, 0.5 * math.sqrt(share))

    rest = {"one": (0.01, 2, 1), "other": (0.01, 3, 1)}
    levels, classes, pairs = _pairs.LEVELS, _pairs.CLASS_TABLES, _pairs.PAIR_TABLES
    assert plan(3, 4) == rest | {
        levels: (0.38, 80, 1),
        classes: (0.2, 3 * 4 * 20, 1),
        pairs: (0.4, 6 * 400, 1),
    }
    assert plan(1, 4, ()) == {levels: (0.38, 80, 1), pairs: (0.62, 2400, 1)}
    assert plan(1, 1, ()) == {levels: (1.0, 20, 1)}
    assert plan(1, 2, ()) == {levels: (0.38, 40, 1), pairs: (0.62, 400, 1)}
    assert plan(2, 1) == rest | {levels: (0.78, 20, 1), classes: (0.2, 40, 1)}
    wide = _pairs.PairsPlan(1, 100, 500, (), 1.0, None)
    assert (wide.most_bins, wide.most_categories) == (4, 19)
    assert numbers(wide.lines(1.0), 1.0)[pairs] == (0.62, 4950 * 21**2, 1)
    few = _pairs.PairsPlan(1, 5, 500, (), 1.0, None)
    assert (few.most_bins, few.most_categories) == (32, 64)
    assert n_draws(wide) == 100 * 500 + 4950 * 21**2
    counted = _pairs.PairsPlan(1, 2, 20, (), 1.0, None, is_counted=True).lines(1.0)
    assert numbers(counted, 1.0) == {levels: (0.3, 40, 1), pairs: (0.7, 400, 1)}


def test_plan_of_what_is_learnt_about_columns():
    columns = _raw.public_columns(["a", "b"], None, None, None, 16)
    lines = _raw.learning_lines(columns, 0.5, 1e-5, 0.071)
    assert [numbers([line], 0.5)[line.name][0] for line in lines] == [
        0.071, 0.009, 0.05, 0.0175, 0.2
    ]  # fmt: skip
    assert [line.times for line in lines] == [1, 3, 1, 1, 1]
    assert [line.n_coordinates for line in lines[3:]] == [4 * 2, 2 * (202 + 1)]
    assert lines[2].n_coordinates == 2 * 2 * _raw.MOST_ROUND
    assert lines[1].n_coordinates == lines[0].n_coordinates
    assert [getattr(line, "delta", 0) for line in lines] == [0, 0, 0, 0, 0.01 * 1e-5]
    assert _raw.learning_share(columns, 0.071) == approx(0.3475, rel=1e-12)
    assert _raw.DecimalCounts(()).n_coordinates == 1


@pytest.mark.parametrize(
    "k, directions", [(1, 1), (3, 24), (10, 80), (11, 88), (30, 200)]
)
@pytest.mark.parametrize("epsilon, share", [(9.9, 0.3), (10.0, 0.4)])
def test_plan_of_the_sliced_generator(k, directions, epsilon, share):
    class Space:
        n_components = k

    generator = DPSlicedWassersteinGenerator(epsilon=epsilon)
    generator.classes_ = np.arange(2)
    generator._clip_norms = lambda space: (1.5, 0.7)
    plan = generator._plan(Space(), 100)
    assert isinstance(plan, SlicedPlan)
    seven = generator.set_params(n_projections=7)._plan(Space(), 100)
    assert isinstance(seven, SlicedPlan) and seven.n_projections == 7
    share = 0.7 if k <= 10 else share
    assert plan.share == share and plan.n_projections == directions
    assert plan.moments.shares == approx((0.05, 0.95 - share, 0.0), rel=1e-12)
    assert (plan.moments.mean_clip, plan.moments.clip) == (1.5, 0.7)
    assert plan.edges[[0, -1]].tolist() == [-3.0, 3.0]
    assert {line.name for line in plan.lines(1.0)} == {
        "class means", "second moments", "projections"
    }  # fmt: skip
    shares = [share for share, *_ in numbers(plan.lines(1.0), 1.0).values()]
    assert sum(shares) == approx(1.0, rel=1e-9)


def test_plan_of_noisy_gradients():
    shape = Geometry(3, 2, 0.5, 2.0, 1.5)
    settings = {"epsilon": 1.0, "delta": 1e-5, "n_assumed": 5000.0, "max_iter": 7}
    plan = gradient_plan(
        shape,
        n_counts=4,
        targets=TargetCounts(64, n_looks=3),
        constant={"mean residual": 1},
        **settings,
    )
    n_moments = 9 if plan.has_moments else 0
    n_draws = 4 + 3 * 64 + n_moments + 7 * 8 + 1 + 2 * 4
    mu = calibrate_gaussian(1.0, 1e-5, n_draws=n_draws)
    left, expected = 1.0, {}
    expected["stratum counts"] = (0.01, 4, 1)
    left *= 0.99
    expected["target counts"] = (0.05 * left, 64, 3)
    left *= 0.95
    share = 40 / (mu * math.sqrt(left) * 5000)
    assert 0.03 < share < 0.3
    expected["mean residual"] = (share * left, 1, 1)
    left *= 1 - share
    if plan.has_moments:
        expected["second moments"] = (0.1 * left, 9, 1)
        left *= 0.9
    share = max(0.03, 60 / (mu * math.sqrt(left) * 5000))
    expected["gradients"] = ((1 - share) * left, 8, 7)
    expected["line search"] = (share * left, 4, 2)
    found = numbers(plan.lines, mu)
    assert [(size, times) for _, size, times in found.values()] == [
        (size, times) for _, size, times in expected.values()
    ]
    for (stated, *_), (share, *_) in zip(
        found.values(), expected.values(), strict=True
    ):
        assert stated == approx(share, abs=1e-9)
    assert plan.mu == approx(mu * math.sqrt(left), rel=1e-9)
    bare = gradient_plan(shape, n_counts=0, **settings)
    assert not bare.has_constant and plan.has_constant
    # To the last draw: of these alone, and with moments that are not worth it left out.
    only = calibrate_gaussian(1.0, 1e-5, n_draws=7 * 8 + 8 + 9 * bare.has_moments)
    total = sum(line.times * line.parameter**2 for line in bare.lines)
    assert total == approx(only**2, rel=1e-10)
    few = gradient_plan(shape, n_counts=0, **{**settings, "n_assumed": 1.0})
    only = calibrate_gaussian(1.0, 1e-5, n_draws=7 * 8 + 8)
    assert not few.has_moments and few.mu == approx(only, rel=1e-11)
    assert constant_share(1e9) == 0.03 and constant_share(1.0) == 0.3
    assert [line.name for line in few.lines] == ["gradients", "line search"]
    assert [search_share(one, SEARCH_SHARE) for one in (0.0, 50.0, 600.0, 1e9)] == [
        0.2,
        0.2,
        0.1,
        0.03,
    ]
    assert constant_share(400.0) == 0.1 and constant_share(0.0) == 0.3


@pytest.mark.parametrize("weight, n_parts", [(0.0, 1), (0.5, 4)])
@pytest.mark.parametrize("max_iter, n_steps", [(7, 7), (None, 100)])
def test_plan_of_batches(max_iter, n_steps, weight, n_parts):
    model = DPWassersteinLogisticRegression(
        epsilon=1.0, delta=1e-5, max_iter=max_iter, fairness_weight=weight
    )
    model._shape = (1, 2)  # loss, penalty and the slopes of two groups
    shape, n_numbers = Geometry(3, 2, 0.5, 2.0, 1.5), 8 * n_parts
    strata = Strata.proportional(np.zeros(10), 1, 2)
    (line,) = model._plan(shape, 5000.0, strata).lines
    multiplier = calibrate_without_replacement(
        1.0, 1e-5, 0.2, n_steps, n_draws=n_steps * n_numbers
    )
    assert line.parameter == 1 / multiplier and line.times == n_steps
    assert line.n_coordinates == n_numbers
    assert line.sampling == ("without_replacement", 0.2)


def test_sizes_of_batches():
    codes = np.repeat([0, 1, 3], [60, 30, 10])
    strata = Strata.proportional(codes, 4, 20)
    assert strata.drawn.tolist() == [12, 6, 0, 2] and strata.rate == 0.2
    # Of a stratum without records none is drawn; its size counts as one.
    sizes = strata.batch_sizes((2, 2))
    assert sizes.min_sizes.tolist() == [[12, 6], [1, 2]]
    assert_allclose(strata.weights(), [0.05, 0.05, 0.0, 0.05])
    assert sizes.n_records == approx(20.0, rel=1e-12)
    few = Strata.proportional(np.repeat([0, 1], [199, 1]), 2, 20)
    assert few.drawn.tolist() == [20, 1] and few.rate == 1.0
    assert_allclose(few.weights(), [199 / 200 / 20, 1 / 200])


def interrupted(walls):
    def reserve(wall):
        walls.append(wall)
        raise InterruptedError

    return reserve


@pytest.mark.parametrize(
    "relation, C, fit_intercept, counted",
    [
        ("replace_one", None, True, True),
        ("replace_one", None, False, False),
        ("add_remove", None, False, True),
        ("add_remove", 0.1, False, False),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_output_perturbation_pays_for_its_numbers(
    relation, C, fit_intercept, counted, n_classes, monkeypatch
):
    X, y = np.linspace(-1, 1, 80).reshape(40, 2), np.arange(40) % n_classes
    model = DPOutputPerturbationLogisticRegression(
        epsilon=1.0, delta=1e-5, C=C, neighboring=relation, data_norm=1.0,
        bounds=(-1, 1), classes=range(n_classes), random_state=0,
        fit_intercept=fit_intercept,
    )  # fmt: skip
    n_outputs, plans = 1 if n_classes == 2 else 3, []
    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(PrivacyFilter, "reserve", interrupted(plans))
        model.fit(X, y)
    *counts, line = plans[0].plan
    n_weights = (2 + fit_intercept) * n_outputs
    assert (line.name, line.n_coordinates) == ("parameters", n_weights)
    (event,) = model.fit(X, y).privacy_.events
    assert event.n_draws == n_weights + counted * n_classes
    mu = calibrate_gaussian(1.0, 1e-5, n_draws=event.n_draws)
    assert event.mu == approx(mu, rel=1e-9)
    assert sum(one.parameter**2 for one in (*counts, line)) == approx(mu**2, rel=1e-9)
    n_usual = 40 if relation == "replace_one" else 10_000
    for one in counts:
        assert (one.name, one.n_coordinates) == ("counts", n_classes)
        assert one.parameter**2 == approx(constant_share(n_usual * mu) * mu**2)
    assert model.coef_.shape == (n_outputs, 2)
    if n_classes == 3:  # only differences between classes matter
        assert_allclose(
            model.coef_.sum(axis=0), 0, atol=1e-12 + 1e-12 * abs(model.coef_).max()
        )


@pytest.mark.parametrize("kind", ["gaussian", "threshold", "approximate"])
def test_shares_of_fits_that_are_repeated(kind):
    runs = distribution_for_coverage(0.9, 0.1)
    inner = _plan._repeated(20, 1.0, 1e-5, kind, 5, 3, runs)
    assert inner.score_mu > 0 and inner.fit.epsilon > 0
    plan = plan_search(
        n_candidates=20, epsilon=1.0, delta=1e-5, kind=kind, method="repeat",
        coverage=0.9, n_draws=5, n_statistics=3, permute_and_flip=False,
    )  # fmt: skip
    runs = plan.distribution
    ideal, log_delta = without_sampler_error(1.0, 1e-5, runs.largest * 8)
    delta = math.exp(log_delta)
    assert plan.score_mu == calibrate_repeat("gaussian", ideal, delta, runs)
    shape = 1 if kind == "approximate" else 2
    assert runs == distribution_for_coverage(0.9, 0.1, shape)
    assert plan.expected_runs == runs.mean and plan.fit.n_draws == 5
    if kind == "gaussian":
        assert plan.fit.mu == plan.score_mu
    elif kind == "threshold":
        assert plan.fit.failure == approx(
            2 * _plan.KEY_SHARE * delta / runs.mean, rel=1e-12
        )
        asked = "gaussian", ideal, delta, runs, plan.fit.failure
        assert plan.fit.mu == approx(calibrate_repeat(*asked), rel=1e-9)
    else:
        assert plan.fit.delta == approx(delta / 2 / runs.mean, rel=1e-12)
        asked = "pure", ideal, delta, runs, plan.fit.delta
        assert plan.fit.epsilon == calibrate_repeat(*asked)


def test_searches_that_can_only_compose_and_those_that_cannot_repeat():
    asked = {
        "delta": 1e-5, "kind": "gaussian", "coverage": 0.9, "n_draws": 5,
        "n_statistics": 3, "permute_and_flip": False,
    }  # fmt: skip
    for n, epsilon, method in [(1, 1.0, "compose"), (2, 1.0, "repeat")]:
        plan = plan_search(n, epsilon, method="repeat", **asked)
        assert plan.method == method
    endless = plan_search(20, math.inf, method="repeat", **asked)
    assert endless.method == "compose"
    # So many draws that their error takes all of epsilon: nothing is left for a fit.
    asked["n_draws"] = 10**15
    runs = distribution_for_coverage(0.9, 0.1)
    drowned = _plan._repeated(20, 1.0, 1e-5, "gaussian", 10**15, 3, runs)
    assert (drowned.fit.epsilon, drowned.fit.mu, drowned.score_mu) == (0.0, 0.0, 0.0)
    assert gaussian_share("gaussian", 1.0, 1e-5, 1, 3).mu == 1.0


def test_shares_of_fits_that_compose():
    one = share_of_composition("approximate", 1, 1.0, 1e-5, 5)
    assert (one.epsilon, one.delta) == (1.0, 1e-5)
    with ends_within(500, _plan):
        four = share_of_composition("approximate", 4, 1.0, 1e-5, 5)
        wide = share_of_composition("approximate", 4, 1.0, 0.5, 5)
    assert four.delta == 1e-5 / 16 and 0.25 < four.epsilon < 0.35
    spent = [DeclaredEvent(wide.epsilon, wide.delta)] * 4
    assert wide.delta == 0.5 / 16 and 0.499 < compose_delta(spent, 1.0) <= 0.5
    free = [DeclaredEvent(1.0, wide.delta)] * 4  # a little too much, and noticed
    assert 0.5 < compose_delta(free, 1.0) < 0.5 * math.e
    pure = share_of_composition("approximate", 4, math.inf, 1e-5, 5)
    assert (pure.epsilon, pure.delta) == (math.inf, 1e-5)
    gaussian = share_of_composition("gaussian", 4, 1.0, 1e-5, 5)
    assert gaussian.mu == calibrate_gaussian(1.0, 1e-5, n_draws=20) / 2
    assert gaussian_share("gaussian", 0.0, 1e-5, 1, 3).epsilon == 0.0
    below = gaussian_epsilon(0.3 * (1 - 1e-9), 1e-5)
    share = gaussian_share("gaussian", 0.3, 1e-5, 9, 3)
    assert share.epsilon == below < gaussian_epsilon(0.3, 1e-5)
    plan = plan_validation(
        4, 1.0, 1e-5, kind="gaussian", score_fraction=0.2, n_draws=5, n_statistics=3
    )
    mu = calibrate_gaussian(1.0, 1e-5, n_draws=23)
    assert plan.score_mu == approx(mu * math.sqrt(0.2), rel=1e-12)
    assert plan.fit.mu == approx(mu * math.sqrt(0.2), rel=1e-12)


SIZES = np.array([[1, 2], [3, 4]])  # min_sizes: 2 labels, 2 groups


def test_changes_by_one_record_number_by_number():
    # 6 / (2 labels * sizes) = 3, 1.5, 1, .75
    assert record_changes(0.5, 6.0, SIZES, "add_remove") == (0.5, 3.0, 0.0)
    assert record_changes(0.5, 6.0, SIZES, "replace_one") == (1.0, 3.0, 1.5)
    assert record_changes(0.5, 6.0, SIZES, "replace_one_in_group") == (1.0, 3.0, 0.0)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_bounds_of_the_networks_number_by_number(relation):
    n, widths = 10.0, np.array([1.0, 3.0])  # of mean 2
    bound = GradientSensitivity.bound(
        clip_norm=5.0, projection_clip_norm=0.5, fairness_weight=0.25, widths=widths,
        n_records=n, min_sizes=SIZES, neighboring=relation,
    )  # fmt: skip
    twice = 2 if relation == "replace_one" else 1
    # alpha 4 D L = 1, times 2 / 2 groups, over 2 labels and the sizes 1 and 2.
    assert bound.loss == approx(twice * 0.75 * 5 / n, rel=1e-12)
    assert bound.penalty == approx(0.75 if twice == 2 else 0.5, rel=1e-12)
    most = 10 if twice == 2 else MAX_RECORDS
    unit = (2048 + -(-most // 2048) + 1024) * 2.0**-53
    expected = 2 * unit / (1 - unit) * (0.375 * most + 1.0)
    assert bound.rounding == approx(expected, rel=1e-9)
    assert summation_error(3) == 1027 * 2.0**-53 / (1 - 1027 * 2.0**-53)


def test_a_ratio_of_noises_number_by_number():
    bound = GradientSensitivity(1.0, 3.0, 0.25)
    # share 1/4 of the loss; sqrt(1/4 sqrt(4/64)) = 1/4
    assert bound.best_ratio(4, 64) == approx(0.25, rel=1e-12)
    assert bound.best_ratio(4000, 1) == 1.0 == bound.best_ratio(4, 0)
    for one in (GradientSensitivity(0.0, 3.0, 0.0), GradientSensitivity(1.0, 0.0, 0.0)):
        assert one.best_ratio(4, 64) == 1.0
    below = np.linspace(0, 1, 10_001)
    for ratio in (0.1, 0.4, 0.9, 1.0):
        for loss, penalty in ((1.0, 3.0), (5.0, 0.2), (0.0, 1.0)):
            one = GradientSensitivity(loss, penalty, 0.25)
            square = (penalty + below * loss) ** 2 + (1 - below**2) * (
                loss / ratio
            ) ** 2
            largest = (math.sqrt(square.max()) + 0.25 / ratio) * (1 + 1e-9)
            assert one.scaled(ratio) == approx(largest, rel=1e-7)


def repair(estimator, n_groups, n_classes=2):
    estimator.groups_, estimator.classes_ = np.arange(n_groups), np.arange(n_classes)
    return estimator


@pytest.mark.parametrize(
    ("constraint", "n_groups", "n_classes", "size"),
    [
        ("demographic_parity", 3, 2, 6),
        ("demographic_parity", 2, 4, 8),
        ("equalized_odds", 3, 2, 12),
        ("equalized_odds", 2, 3, 18),
    ],
)
def test_plans_of_repaired_decisions(constraint, n_groups, n_classes, size):
    asked = {"constraint": constraint, "epsilon": 2.0, "delta": 1e-6, "max_iter": 9}
    model = repair(
        DP2DPClassifier(None, method="gradient", **asked), n_groups, n_classes
    )
    lines, delta = model._plan()
    mu = calibrate_gaussian(2.0, 1e-6, n_draws=9 * size + 2 * size)
    assert numbers(lines, mu) == {
        SOFT: (0.9, size, 9),
        "certificate": (0.1, 2 * size, 1),
    }
    assert delta == 1e-6
    if n_classes > 2:
        return
    model = repair(DP2DPClassifier(None, method="histogram", **asked), n_groups)
    (line,), delta = model._plan()
    bins = 32 if constraint == "demographic_parity" else 16 * 2
    assert (line.name, line.kind) == ("counts by score", "pure")
    assert line.n_coordinates == n_groups * bins
    assert line.parameter == 2.0 and delta == 0.0


def test_parts_of_the_random_splits():
    told = []

    class Wall:
        cost = planned = None

        def reserve(self):
            told.append("reserve")

        def split(self, rows, p, *, name):
            told.append((name, p))
            return [(self, f"{rows} of {name}"), (self, f"{rows} but {name}")]

    class AllRows(str):
        def gathered(self):
            told.append("gathered")
            return self

    learns = SimpleNamespace(
        given=LinearRegression(),
        learn=lambda wall, rows: told.append(rows),
        frozen=False,
    )
    phases = object.__new__(Phases)
    phases.meta = SimpleNamespace(calibration_size=0.25, group_size=0.15, ledger=None)
    phases.wall, phases.models = Wall(), [learns, learns]
    phases.fitted_here = phases.models

    def ask(rows):
        told.append(f"answers to {rows}")
        return rows, "answers"

    part = "rows of calibration"
    assert phases.begin(AllRows("rows"), ask) == (phases.wall, part, "answers")
    models = ["rows but calibration of models", "rows but calibration but models"]
    splits = [("calibration", 0.25), ("models", approx(0.8, rel=1e-12))]
    asked = ["answers to rows of calibration"]
    assert told == ["reserve", "gathered", *splits, *models, *asked]


@pytest.mark.parametrize("reach_size", [0.0, 0.2])
@pytest.mark.parametrize(("n_groups", "n_classes"), [(2, 2), (7, 2), (2, 3)])
def test_plans_of_decisions_without_the_group(n_groups, n_classes, reach_size):
    asked = {"epsilon": 2.0, "delta": 1e-6, "max_iter": 16, "reach_size": reach_size}
    model = DP2DPClassifier(None, group_estimator=None, blind=True, **asked)
    lines, delta = repair(model, n_groups, n_classes)._plan()
    sizes = {
        # 32 bins a group, or as many as there are ordered pairs of groups
        "recalibration": n_groups * {2: 32, 7: 42}[n_groups],
        # of three classes each decision may be counted by likelier group as well
        "certificate": 2 * n_groups * n_classes**2 * (n_groups if n_classes > 2 else 1),
        "reach": 8 * n_groups * n_classes**2,
    }
    steps = 16 * n_classes * n_groups
    if not reach_size:
        del sizes["reach"]
    mu = calibrate_gaussian(2.0, 1e-6, n_draws=steps + sum(sizes.values()))
    expected = {
        SOFT: (0.75 * (1 - reach_size), n_classes * n_groups, 16),
        "recalibration": (0.1, sizes["recalibration"], 1),
        "certificate": (0.15, sizes["certificate"], 1),
        "reach": (0.75 * reach_size, sizes.get("reach"), 1),
    }
    if not reach_size:
        del expected["reach"]
    assert numbers(lines, mu) == {
        name: (round(share, 9), *rest) for name, (share, *rest) in expected.items()
    }
    assert delta == 1e-6


def test_plans_of_repaired_numbers():
    asked = {"epsilon": 2.0, "base_guarantee": "public"}
    for output, n_bins, lines in (
        ("auto", 10, [(COUNTS, 1.9, 3 * 10), ("number of distinct scores", 0.1, 1)]),
        ("continuous", 10, [(COUNTS, 2.0, 3 * 10)]),
        (
            "continuous",
            "auto",
            [(COUNTS, 1.96, 3 * 192), ("scores of all groups", 0.04, 32)],
        ),
    ):
        model = DPBarycenterRegressor(None, output=output, n_bins=n_bins, **asked)
        found = repair(model, 3)._plan(1)
        assert [(one.name, one.n_coordinates) for one in found] == [
            (name, size) for name, _, size in lines
        ]
        assert [one.parameter for one in found] == approx(
            [epsilon for _, epsilon, _ in lines]
        )
    # 30 over rows and epsilon, between 2 and 4 %.
    for n_rows, n_columns, relation, share in (
        (1000, 1, "replace_one", 0.02),
        (500, 1, "replace_one", 0.03),
        (500, 2, "replace_one", 0.02),
        (1000, 2, "replace_one", 0.03),
        (500, 1, "add_remove", 0.02),
        (None, 1, "replace_one", 0.02),
    ):
        model = DPBarycenterRegressor(
            None, output="continuous", neighboring=relation, **asked
        )
        found = repair(model, 3)._plan(n_columns, n_rows)
        assert [(one.name, one.parameter) for one in found] == [
            (COUNTS, approx(2 * (1 - share))),
            ("scores of all groups", approx(2 * share)),
        ]
    silent = DPBarycenterRegressor(None, n_bins=10, epsilon=math.inf)
    assert [one.parameter for one in repair(silent, 3)._plan(2)] == [math.inf] * 2
    for reach_size in (0.0, 0.25):
        model = DPBarycenterRegressor(
            None,
            group_estimator=None,
            blind=True,
            n_bins=10,
            reach_size=reach_size,
            **asked,
        )
        found = repair(model, 2)._plan(1)
        first, sizes, atoms, *rest = [(one.name, one.parameter) for one in found]
        assert sizes == ("group sizes", approx(0.1 * (1 - reach_size)))
        assert atoms == (DistinctScores.name, approx(0.04 * (1 - reach_size)))
        assert first == (COUNTS, approx(1.86 * (1 - reach_size)))
        assert rest == ([("reach", approx(0.5))] if reach_size else [])
        # At most five regions.
        sizes = [2 * 5 * 10, 2, 1, 2 * 5 * 32][: len(found)]
        assert [one.n_coordinates for one in found] == sizes
        model.set_params(output="continuous")
        assert DistinctScores.name not in [
            one.name for one in repair(model, 2)._plan(1)
        ]
        # Scores that repeat are measured in the bins that are counted.
        many = repair(model.set_params(n_bins=50), 2)._plan(1)
        assert many[-1].n_coordinates == (2 * 5 * 50 if reach_size else 2)
        model.set_params(output="auto")
        whole = repair(model.set_params(n_bins="auto"), 2)._plan(1, 500)
        left = 2.0 * (1 - reach_size)
        assert [(one.parameter, one.n_coordinates) for one in whole[:4]] == [
            (approx(0.88 * left), 2 * 5 * 24),
            (approx(0.05 * left), 2),
            (approx(0.02 * left), 1),
            (approx(0.05 * left), 32),
        ]
        assert len(whole) == len(found) + 1
    scores = DPBarycenterTransformer(blind=True, n_bins=10, epsilon=2.0)
    assert [(one.name, one.parameter) for one in repair(scores, 2)._plan(1)] == [
        (COUNTS, approx(1.86)),
        ("group sizes", approx(0.1)),
        (DistinctScores.name, approx(0.04)),
    ]


@pytest.mark.parametrize(
    ("relation", "n_rows", "are_counts", "sensitivity", "n_counts", "share", "n_bins"),
    [
        # The share of mu: noise of the mean over what is wanted, within .1 and .7.
        ("replace_one", 1000, False, 4.0, 0, None, 16),
        ("replace_one", 2000, True, 2.0, 6, None, 64),
        ("add_remove", 7, False, 20.0, 1, None, 64),
        ("replace_one", 10**7, False, 1.0, 0, 0.1, 64),
        ("replace_one", 0, True, 1.0, 6, 0.7, 0),
        # Too few for gradients: the constant has what ranges leave.
        ("replace_one", 200, False, 4.0, 1, 0.94**0.5, 0),
        ("replace_one", 100, False, 4.0, 0, 1.0, 0),
        ("replace_one", 3000, False, 8.0, 0, None, 64),  # one step
    ],
)
def test_plan_of_the_networks(
    relation, n_rows, are_counts, sensitivity, n_counts, share, n_bins
):
    model = DPWassersteinMLPClassifier(
        epsilon=2.0,
        delta=1e-6,
        max_iter=9,
        neighboring=relation,
        min_group_size=5,
        bounds=(0, 1),
    )
    model._facts = []
    constant = SimpleNamespace(
        name="constant",
        n_coordinates=3,
        sensitivity=lambda _: sensitivity,
        are_counts=are_counts,
        n_outputs=3,
    )
    constant.line = partial(Query.line, constant)
    network = SimpleNamespace(theta=np.zeros(50), sizes=(5, 4, 3))
    signal = model._n_usual(n_rows) * calibrate_gaussian(2.0, 1e-6)
    steps_of = {100: (0, 0), 200: (16, 0), 3000: (64, 1)}
    of_targets, n_steps = steps_of.get(n_rows, (64, 9))
    of_targets *= not are_counts
    counts = model._range_counts(network, not are_counts, signal, n_steps)
    n_looks = max(1, min(4, int(signal / 75 / math.sqrt(3))))
    arguments = network, n_counts, constant, counts, n_rows, noise_source(0), n_steps
    wall = model._open_wall(*arguments)
    corrects = of_targets and n_steps > 0
    n_draws = n_steps * 50 + 3 + n_counts + 2 * 5 * n_bins
    n_draws += 3 * of_targets * n_looks
    n_draws += 6 * corrects
    # Two numbers of three factors, or of one, with room for three counts.
    n_searched = (3 if are_counts else 6) * (n_steps > 0)
    n_draws += n_searched
    mu = calibrate_gaussian(2.0, 1e-6, n_draws=n_draws)
    wanted = CONSTANT_NOISE["shares" if are_counts else "targets"]
    usual = n_rows if relation == "replace_one" else 5000
    share = share or sensitivity / usual / wanted / mu
    assert 0.1 <= share <= (0.7 if n_steps else 1.0)
    left = 1 - share**2 - (0.01 if n_counts else 0.0)
    expected = {}
    if n_bins:
        expected = {"range counts": (0.05, 5 * n_bins, 2)}
        left -= 0.05
    if of_targets:
        expected |= {"target counts": (0.05, 3 * of_targets, n_looks)}
        left -= 0.05
    if corrects:
        expected |= {"mean residual": (0.045, 6, 1)}
        left -= 0.045
    if n_steps:
        search = min(0.1, max(0.03, 30 / max(usual * mu, 1e-9)))
        expected |= {"line search": (approx(search), n_searched, 1)}
        left -= search
    expected |= {"constant": (round(share**2, 9), 3, 1)}
    if n_steps:
        expected |= {"gradients": (round(left, 9), 50, n_steps)}
    else:
        assert left == approx(0.0, abs=1e-12)
    if n_counts:
        expected[wall.plan[0].name] = (0.01, n_counts, 1)
        assert wall.plan[0].name in ("count", "stratum counts", "counts")
    assert numbers(wall.plan, mu) == expected
    silent = model.set_params(epsilon=math.inf)._open_wall(*arguments)
    assert {one.parameter for one in silent.plan} == {math.inf}


def test_released_rates_of_numbers():
    rates = dp_group_rates(
        None, np.linspace(0.0, 1.0, 40), sensitive_features=np.arange(40) % 2,
        groups=[0, 1], bounds=(0, 1), epsilon=2.0, random_state=0,
    )  # fmt: skip
    assert rates.counts.shape == (2, 10)
    assert (rates.privacy_.epsilon, rates.privacy_.delta) == (2.0, 0.0)
    assert np.isnan(rates.ratio) and rates.ratio_interval == (0.0, 1.0)
    low, high = rates.disparity_interval
    assert 0.0 <= low < high <= 1.0
    exact = dp_group_rates(
        None, np.arange(400) % 2, sensitive_features=np.arange(400) // 200,
        groups=[0, 1], classes=[0, 1], epsilon=math.inf,
    )  # fmt: skip
    assert exact.estimable.all() and (exact.rates == 0.5).all()
    few = dp_group_rates(
        None, np.arange(404) % 2, sensitive_features=np.arange(404) // 400,
        groups=[0, 1], classes=[0, 1], epsilon=1.0, random_state=0,
    )  # fmt: skip
    assert few.estimable.tolist() == [True, False]
    with pytest.raises(ValueError, match="equalized_odds' needs classes"):
        dp_group_rates(
            [0.5], [0.5], sensitive_features=[0], groups=[0, 1], bounds=(0, 1),
            epsilon=1.0, constraint="equalized_odds",
        )  # fmt: skip


def test_a_raw_table_pays_for_every_number_that_is_drawn(monkeypatch):
    """Looks are several releases of one line; each has its own numbers."""
    asked = []

    def calibrated(*args, n_draws, failure):
        asked.append(n_draws)
        return calibrate_gaussian(*args, n_draws=n_draws, failure=failure)

    monkeypatch.setattr(_base, "calibrate_gaussian", calibrated)
    X = np.random.default_rng(0).normal(size=(200, 3))
    generator = DPSinkhornGenerator(method="pairs", random_state=0)
    generator.fit(pd.DataFrame(X, columns=list("abc")))
    gaussian = [e for e in generator.privacy_.events if e.kind == "gaussian"]
    assert asked == [sum(event.n_draws for event in gaussian)]
