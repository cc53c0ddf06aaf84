"""What to expect before spending: the planner against what comes out."""

import math

import numpy as np
import pytest
from _model_selection import (
    barycenter,
    logistic,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.model_selection import _planner as planner
from fairpriv_sklearn.model_selection import (
    expected_error,
)
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)

# The sizes of Communities and Crime, and of Law School; the scores are other ones than
# those of the rehearsal.
SHAPES = [(2, 5), (5, 2), (3, 3), (1.5, 1.5)]


def measured_repair(sizes, epsilon, rng):
    groups = list(range(len(sizes)))
    codes = np.repeat(groups, sizes)
    scores = np.concatenate([rng.beta(*SHAPES[a], n) for a, n in enumerate(sizes)])
    repair = DPBarycenterTransformer(
        epsilon=epsilon,
        n_bins=36,
        output="randomized",
        bounds=(0, 1),
        groups=groups,
        random_state=int(rng.integers(1 << 30)),
    ).fit(scores[:, None], sensitive_features=codes)
    edges = np.arange(1, 37) / 36
    errors = []
    for a in groups:
        cdf = np.mean(scores[codes == a][:, None] <= edges, axis=0)
        places = repair.output_refinement * np.arange(1, 37) - 1
        estimate = repair.transports_[0].source_cdf[a, places]
        errors.append(np.abs(estimate - cdf).max())
    return np.mean(errors), np.max(errors)


@pytest.mark.parametrize(
    "sizes, epsilon", [([711, 684], 1.0), ([628, 1000, 2000, 11760], 0.5)]
)
def test_expected_ks_error(sizes, epsilon):
    rng = np.random.default_rng(0)
    measured = [measured_repair(sizes, epsilon, rng) for _ in range(40)]
    mean, worst = np.mean(measured, axis=0)
    repair = DPBarycenterTransformer(
        epsilon=epsilon, n_bins=36, output="randomized", bounds=(0, 1)
    )
    expected = expected_error(repair, group_sizes=sizes, n_repeats=40)
    assert mean / 1.5 < expected.error < 1.5 * mean
    assert worst / 1.5 < expected.worst_error < 1.5 * worst
    assert 0 < expected.violation_without_noise < expected.violation
    assert expected.noise_scale == pytest.approx(2 * math.sqrt(2) / epsilon, rel=0.02)


def two_class_mixture(sizes, rng):
    codes = np.repeat([0, 1], sizes)
    chance = np.array([0.3, 0.65])[codes]
    y = (rng.uniform(size=len(codes)) < chance).astype(int)
    logit = 1.5 * (rng.normal(size=len(codes)) + 1.5 * y) - 1.125
    p = 1 / (1 + np.exp(-logit) * (1 - chance) / chance)
    return np.column_stack([1 - p, p]), y, codes


@pytest.mark.parametrize("sizes", [[1340, 660], [1900, 100]])
def test_expected_violation(sizes):
    rng = np.random.default_rng(1)
    given = FrozenEstimator(planner._Given().fit(None))
    model = DP2DPClassifier(
        given, epsilon=0.5, classes=[0, 1], groups=[0, 1], base_guarantee="public"
    )
    measured = []
    for seed in range(20):
        X, y, codes = two_class_mixture(sizes, rng)
        model.set_params(random_state=seed).fit(X, y, sensitive_features=codes)
        X, y, codes = two_class_mixture([10_000, 10_000], rng)
        rates = model.predict(X, sensitive_features=codes).reshape(2, -1).mean(axis=1)
        measured.append(abs(rates[1] - rates[0]))
    expected = expected_error(model, group_sizes=sizes, n_repeats=20)
    assert np.mean(measured) / 1.5 < expected.violation < 1.5 * np.mean(measured)
    assert expected.error == expected.worst_error >= 0
    assert expected.noise_scale > 20


def test_planning_other_phases_and_constraints():
    regressor = barycenter(epsilon=1.0, calibration_size=0.25)
    part = expected_error(regressor, group_sizes=[4000, 4000], n_repeats=2)
    whole = expected_error(
        DPBarycenterTransformer(epsilon=1.0), group_sizes=[1000, 1000], n_repeats=2
    )
    assert part.noise_scale == whole.noise_scale
    odds = DP2DPClassifier(
        LogisticRegression(), classes=["a", "b", "c"], constraint="equalized_odds"
    )
    assert 0 < expected_error(odds, group_sizes=[8000, 4000], n_repeats=1).violation < 1
    with pytest.raises(TypeError, match="expected_error knows"):
        expected_error(logistic(), group_sizes=[10, 10])
    with pytest.raises(ValueError, match="at least two sizes"):
        expected_error(regressor, group_sizes=[10])


@pytest.mark.filterwarnings("error")
def test_nothing_is_warned_of_made_up_people():
    """Groups [1, 2] cannot be told apart, it said: these have no names."""
    public = {"groups": ["a", "b", "c"], "target_bounds": (0, 1)}
    numbers = DPBarycenterRegressor(DPLinearRegression(), **public)
    classes = DP2DPClassifier(logistic(), classes=[0, 1], groups=["a", "b", "c"])
    for repair in (numbers, classes):
        expected = expected_error(repair, group_sizes=[4000, 40, 40], n_repeats=3)
        assert expected.violation > 0.0


def test_a_group_model_that_tells_all_can_be_planned_with():
    """A fitted `group_strength_` may be 1: a root finder found no root."""
    repair = DP2DPClassifier(logistic(), blind=True)
    sure, unsure = (
        expected_error(
            repair, group_sizes=[900, 900], n_repeats=1, group_strength=strength
        )
        for strength in (1.0, 0.1)
    )
    assert sure.violation < unsure.violation
    with pytest.raises(ValueError, match=r"group_strength must be in \[0, 1\]"):
        expected_error(repair, group_sizes=[9, 9], group_strength=1.1)


def test_classes_are_as_far_apart_as_the_model_tells():
    """Where it tells nothing all people of a group have one score."""
    repair, sizes = DP2DPClassifier(logistic(), classes=[0, 1]), [900, 900]
    nothing, usual = (
        expected_error(repair, group_sizes=sizes, n_repeats=1, model_strength=strength)
        for strength in (0.0, 1.0)
    )
    assert nothing.violation_without_noise == 0.0 < usual.violation_without_noise
    assert usual == expected_error(repair, group_sizes=sizes, n_repeats=1)
    scores, y, codes = planner._mixture(
        [40_000], 2, noise_source(0).public(), model=1.5, group=0.0
    )
    odds = np.log(scores[:, 1] / scores[:, 0])
    apart = odds[y == 1].mean() - odds[y == 0].mean()
    assert apart == pytest.approx(2 * 1.5**2, rel=0.05)


@pytest.mark.parametrize("strength", [0.3, 0.999, 1.0])
def test_groups_are_as_far_apart_as_their_model_tells(strength):
    distance = planner._separation(strength)
    scores = np.random.default_rng(0).normal(size=200_000)
    odds = distance**2 + 2**0.5 * distance * scores
    assert np.mean(np.tanh(odds / 2) ** 2) == pytest.approx(strength, abs=3e-3)
    assert distance < 10
