"""How far along the slopes: expected falls, two looks, what slopes cost by chance."""

import math
from dataclasses import replace

import numpy as np
import pytest
from _ends import approx
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import erf, expit
from scipy.stats import beta
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn._training._line_search import posterior_mean
from fairpriv_sklearn._training._target import TARGET_BINS
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
    _linear,
)
from fairpriv_sklearn.linear_model._bounded_slope import (
    entropies,
    flattening,
    linked,
    scores_of,
)
from fairpriv_sklearn.linear_model._line_search import LineSearch, Path
from fairpriv_sklearn.linear_model._preconditioned import (
    Constant,
    Curvature,
    _between,
    _Directions,
    _Length,
    _shrunk_minimum,
    preconditioned_descent,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import with_budget

KEPT = erf(1 / math.sqrt(2))


def path(**changes):
    values = {
        "slopes": np.ones((3, 1)), "center": np.zeros(1), "variance": np.ones(1),
        "doubt": np.full(1, 0.1), "typical": np.full(1, 1e-3), "start": np.zeros(1),
        "bend": np.zeros(1), "overfit": np.zeros(1), "sampling": np.zeros(1),
        "flatness": np.ones(1),
    }  # fmt: skip
    return Path(**{**values, **changes})


def search(fall, curvature, noises=(1e-9, 1e-9), seen=None, **changes):
    """Of what is asked, the same is answered, but for what normal scores keep of it."""

    def ask(slopes, center, start, bounds, steps):
        if seen is not None:
            seen.append((bounds, steps))
        own = curvature(steps) if callable(curvature) else np.full(1, curvature)
        found = (np.full(1, fall), own, *(np.full(1, one) for one in noises))
        return tuple(KEPT * one for one in found)

    settings = {"worth": np.full(1, 0.5), "curvature": 0.125, "spread": 1.0, **changes}
    return LineSearch(ask, **settings)


@pytest.mark.parametrize("told", [-4.0, -1.0, 0.0, 0.5, 3.0, 8.0])
@pytest.mark.parametrize("rate", [0.0, 0.7, 3.0])
def test_the_expected_fall_is_that_under_an_exponential_prior(told, rate):
    error = 0.3

    def density(one):
        return math.exp(-rate * one - (told - one) ** 2 / 2)

    middle = max(0.0, told - rate)
    ends = max(0.0, middle - 12), middle + 12
    mean = quad(lambda one: one * density(one), *ends)[0] / quad(density, *ends)[0]
    found = posterior_mean(
        np.full(1, error * told), np.full(1, error), np.full(1, rate)
    )
    assert found == approx(error * mean, rel=1e-6)


def test_a_parabola_ends_where_it_is_lowest():
    scale, variance, _, curvature, *_ = search(0.3, 0.2).scale(path())
    assert scale == approx(1.5, rel=1e-6) and curvature == approx(0.2, rel=1e-6)
    assert variance == approx(0.0, abs=1e-12)
    scale, *_ = search(0.3, 0.2).scale(path(bend=np.full(1, 0.1)))
    assert scale == approx(1.0, rel=1e-6)


@pytest.mark.parametrize("fall", [0.02, 0.1, 0.3, 0.5])
def test_slopes_fit_by_chance_what_they_leave_unexplained(fall):
    """Of the loss, half a unit, slopes explain the fall squared by twice the bend."""
    overfit, bend, worth = 0.1, 0.3, 0.5
    scale, *_ = search(fall, bend).scale(path(overfit=np.full(1, overfit)))

    def left(true):
        return fall - overfit * (1 - true**2 / (2 * bend * worth)) - true

    true = brentq(left, 0.0, min(fall, math.sqrt(bend))) if fall > overfit else 0.0
    assert scale == approx(true / bend, rel=1e-6, abs=1e-6)
    # Where all is explained, nothing is by chance.
    scale, *_ = search(2.0, bend).scale(path(overfit=np.full(1, overfit)))
    assert scale == approx(2.0 / bend, rel=1e-6)


def test_the_second_look_is_where_the_first_one_led():
    """Curvature at 2 is not that at the end: the root of a cubic is met nearly."""
    seen = []
    found = search(0.3, lambda steps: 0.1 + 0.1 * steps, seen=seen)
    scale, *_ = found.scale(path())
    (bounds, first), (_, second) = seen
    assert bounds == approx(math.sqrt(1.05)) and first == 2.0
    assert second == approx(1.0, rel=1e-6)  # .3 / (.1 + .2)
    # .3 / (.1 + .1 * 1): curvatures within a fifth of each other count as one.
    assert scale == approx(1.5, rel=1e-3)
    seen.clear()
    search(0.3, 0.001, seen=seen, spread=5.0).scale(path())
    assert seen[0][1] == 5.0 and seen[1][1] == 4.0
    seen.clear()
    search(-9.0, 0.2, seen=seen).scale(path())
    assert seen[1][1] == 0.3


def test_where_the_first_look_is():
    """Twice as far as the slopes, or where scores spread as they may well do."""
    for variance, doubt, spread, expected in (
        (4.0, 0.1, 1.0, 2.0),
        (4.0, 0.1, 20.0, 10.0),
        # None are seen: a fifth of the deviation that their noise allows for.
        (0.0, 1.0, 1.0, 5 * math.sqrt(2)),
    ):
        seen = []
        known = path(variance=np.full(1, variance), doubt=np.full(1, doubt))
        search(0.3, 0.2, seen=seen, spread=spread).scale(known)
        assert seen[0][0] == approx(math.sqrt(variance + doubt / 2), rel=1e-12)
        assert seen[0][1] == approx(expected, rel=1e-12)
    hidden = path(variance=np.full(1, 0.1), doubt=np.full(1, 0.2))
    assert search(0.3, 0.2).scale(hidden)[0] == approx(1.5, rel=1e-6)


def test_without_any_noise_all_is_finite():
    quiet = path(doubt=np.zeros(1))
    scale, variance, *_ = search(0.3, 0.125, (0.0, 0.0)).scale(quiet)
    assert scale == approx(0.3 / 0.125) and variance == 0.0


def test_the_variance_of_the_scale():
    """Of two looks at the fall, of the curvature, and from table to table."""
    scale, variance, *_ = search(0.3, 0.2, (0.01, 1e-9)).scale(path())
    assert scale == approx(1.5, rel=2e-3)
    assert variance == approx(0.01**2 / 2 / 0.2**2, rel=1e-6)
    found = search(0.3, 0.2, (0.01, 0.01)).scale(path())
    of_falls = 0.01**2 / 2 / (found[3] + found[4] / 2) ** 2
    assert found[5] == approx(of_falls, rel=1e-6) and found[1] > 1.5 * found[5]
    scale, variance, by_draw, curvature, noise, of_falls = search(
        0.3, 0.2, (1e-9, 0.01)
    ).scale(path())
    assert by_draw == 0.0 and of_falls == approx(0.0, abs=1e-12)
    # Half a standard deviation is taken for curvature.
    assert scale == approx(0.3 / (curvature + noise / 2), rel=1e-6)
    assert variance == approx((noise * 0.3 / (curvature + noise / 2) ** 2) ** 2)
    known = path(sampling=np.full(1, 1e-4), variance=np.full(1, 4.0))
    _, variance, by_draw, *_ = search(0.3, 0.2).scale(known)
    assert variance == approx(1e-4 * 4.05 / 0.2**2, rel=1e-6)
    assert by_draw == approx(1e-4 * 4.05 / 0.2**2, rel=1e-6)


def test_curvature_follows_how_flat_the_loss_is():
    flat, curvatures = np.array([0.5]), []
    least = 0.1 * 0.125 * 0.5 * 0.3
    for told, noise, doubt in (
        (9.0, 9.0, 1e-6),
        (-9.0, least, 0.1),
        (-9.0, 3 * least, 0.1),
        (-9.0, 1e-9, 0.1),
        (0.4 * least, 0.3 * least, 0.9),
    ):
        known = path(flatness=flat, doubt=np.full(1, doubt), typical=np.full(1, 0.3))
        curvatures.append(search(0.3, told, (1e-9, noise)).scale(known)[3])
    # What the moments say; a tenth of what is typical at most, however large the noise,
    # and a tenth of that where there is none; what was released between the two.
    shares = [0.7], [1.0], [0.1], [0.4]
    expected = [[0.125 * 0.5], *np.multiply(shares, least)]
    assert_allclose(curvatures, expected, rtol=0.02)


@pytest.mark.parametrize("noise", [1e-6, 1e-4, 0.01, 1.0])
def test_variances_are_as_told_as_far_as_noise_lets_them_be(noise):
    """Slopes may lie where features vary little: that is no noise."""
    moments, slopes = np.diag([1.0, 1.0, 0.001]), np.array([[0.0], [0.0], [2.0]])
    curvature = Curvature.from_moments(
        moments, noise, n_columns=3, row_norm=2.0, constant=0.0, factor=0.125
    )
    _, variance, doubt = curvature.along(slopes)
    typical = 8 * 4 * curvature.typical  # of slopes of this length
    assert doubt == approx(4 * noise, rel=1e-9)
    assert variance == approx(max(0.004, min(typical, 4 * noise)), rel=1e-6)


def test_more_budget_is_no_worse_on_flags_and_a_target_with_a_long_tail():
    """Rare flags vary less than is typical of a table, and the target in its range too.

    Taken for typical, scores were cut off at the deviation of the target: half of each
    slope was lost, the more the larger epsilon (R2 .067 at 1, .039 at 10).
    """
    rng = np.random.default_rng(0)
    n = 40_000
    flags = rng.random((n, 14)) < rng.uniform(0.05, 0.5, 14)
    X = np.column_stack([flags, rng.integers(1, 6, (n, 3))])
    y = 28 + X[:, :15] @ np.append(rng.normal(size=14), 1.0) + 6 * rng.gamma(2, 1, n)
    y[rng.random(n) < 0.001] = 90.0
    scores = []
    for epsilon in (1.0, 10.0):
        model = make_pipeline(
            DPTableEncoder(random_state=0),
            DPLinearRegression(target_bounds=(10, 100), random_state=0),
        )
        model = with_budget(model, epsilon).fit(X[:30_000], y[:30_000])
        scores.append(model.score(X[30_000:], y[30_000:]))
    assert scores[0] > 0.05 and scores[1] > scores[0] - 0.003


def test_without_slopes_there_is_no_scale():
    nothing = path(variance=np.zeros(1), doubt=np.zeros(1))
    scale, variance, *_ = search(0.3, 0.2, (0.1, 0.1)).scale(nothing)
    assert scale == 0.0 and variance == 0.0


def test_curvature_is_told_by_whoever_knows_it_better():
    """The released moments, with their noise, and the search with its own."""
    for noise, doubt in ((0.01, 4.0), (1.0, 0.01), (0.05, 0.8)):
        known = path(doubt=np.full(1, doubt))
        *_, found, left, _ = search(0.3, 0.2, (1e-9, noise)).scale(known)
        own, other = noise**2, (0.125 * doubt) ** 2
        # Of two looks, nearly even where noise is larger than what they differ by.
        part = own / (2 * own + (0.2 * 0.2) ** 2)
        own *= part**2 + (1 - part) ** 2
        expected = (0.2 * other + 0.125 * own) / (own + other)
        assert found == approx(expected, rel=1e-6)
        assert left == approx(math.sqrt(own * other / (own + other)), rel=1e-3)


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1, 0.4])
def test_slopes_without_signal_cost_little(noise):
    rng, costs, worth = np.random.default_rng(0), [], 0.5
    for _ in range(4000):
        draws = iter(noise * rng.normal(size=2))

        def ask(*asked, draws=draws):
            fall = np.full(1, next(draws))
            noises = np.full(1, noise), np.full(1, 1e-9)
            return tuple(KEPT * one for one in (fall, np.full(1, 0.1), *noises))

        found = LineSearch(ask, worth=np.full(1, worth), curvature=0.125, spread=1.0)
        scale, *_ = found.scale(path())
        costs.append(0.1 * scale[0] ** 2 / 2)
    # About a hundredth of the constant model's loss, half as much more at most.
    assert np.mean(costs) <= 0.015 * worth
    # Shyness has a price where there is signal: none is asked where noise is little.
    if noise < 0.05:
        assert np.mean(costs) >= 0.3 * noise**2 / 2 / (2 * 0.1)


def test_entropies_of_constant_models():
    shares = np.array([0.1])
    expected = -0.1 * math.log(0.1) - 0.9 * math.log(0.9)
    assert entropies(scores_of(shares)) == approx(expected, rel=1e-9)
    shares = np.array([0.5, 0.3, 0.2])
    expected = -(shares @ np.log(shares)) / 3
    assert_allclose(entropies(scores_of(shares)), np.full(3, expected), rtol=1e-9)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_slopes_of_small_tables_are_not_too_short(kind):
    """The loss of new rows is nearly that of the best length."""
    lost, gained = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (5000, 30)) @ np.diag(np.linspace(1.5, 0.1, 30))
        score, n = 3 * X[:, 0] + 2 * X[:, 1] - X[:, 2], 1000
        settings = {"bounds": (-1.5, 1.5), "epsilon": 2.0, "random_state": seed}
        if kind == "classifier":
            y = (rng.random(5000) < linked(score)).astype(int)
            model = DPWassersteinLogisticRegression(
                fairness_weight=0.0, classes=[0, 1], **settings
            )
        else:
            y = np.clip(score / 8 + rng.normal(size=5000) / 8, -1, 1)
            model = DPLinearRegression(target_bounds=(-1, 1), **settings)
        model.fit(X[:n], y[:n])
        X, y = X[n:], y[n:]
        mean, losses = X.mean(axis=0), {}
        slopes, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        for scale in (0.0, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0, 3.0):
            scores = intercept + mean @ slopes + scale * (X - mean) @ slopes
            p = linked(scores)
            losses[scale] = (
                -np.mean(np.log(np.where(y == 1, p, 1 - p)))
                if kind == "classifier"
                else np.mean((y - scores) ** 2)
            )
        lost.append(losses[1.0] - min(losses.values()))
        gained.append(losses[0.0] - losses[1.0])
    assert np.mean(gained) > 0
    assert np.mean(lost) <= 0.2 * np.mean(gained)


class Answer:
    """A search that says how far, with this error."""

    most = np.inf

    def __init__(
        self, error, bends, told=2.0, lengthens=True, by_draw=0.0, noise=0.0, falls=0.0
    ):
        one = np.ones(1)
        self.said = told * one, error * one, by_draw * one, bends, noise * one
        self.falls, self.told, self.lengthens = falls * one, told * one, lengthens

    def scale(self, path):
        self.path = path
        return *self.said, self.falls


def test_search_and_descent_count_as_far_as_they_are_sure():
    moments = np.diag([1.0, 0.5, 0.25])
    curvature = Curvature.from_moments(
        moments, 1e-9, n_columns=3, row_norm=2.0, constant=0.0, factor=0.125
    )
    b = np.array([[0.3], [0.2], [0.1]])
    found = _Directions(
        b, curvature, np.full(3, 1e-9), 1e-7, None, (5, 2.0), 1.0, lifts=0.0
    )
    bends = found.at_most / 4  # so few steps lose a part
    scores = curvature.along(found.slopes)
    alone = found.searched(Answer(1e9, bends), scores, np.zeros(1), 0.0)
    # Without noise the descent is unsure by half of what it holds to be lost.
    assert 1.01 < alone.scale[0] < 2
    assert alone.variance[0] == approx((0.5 * (alone.scale[0] - 1)) ** 2, rel=1e-3)
    # A search without noise errs by a tenth all the same.
    both = found.searched(Answer(0.0, bends), scores, np.zeros(1), 0.0)
    trust = 0.2**2 / (0.2**2 + alone.variance[0])
    assert both.scale[0] == approx(2 + trust * (alone.scale[0] - 2), rel=1e-3)
    assert both.spread == approx(scores[1], rel=1e-12)
    # Scores vary by no more than what they are to tell.
    held = Answer(0.0, bends)
    for share in (0.9, 1.1):
        held.most = share * both.scale[0] * math.sqrt(scores[1][0])
        shorter = found.searched(held, scores, np.zeros(1), 0.0)
        assert shorter.scale[0] == approx(min(share, 1.0) * both.scale[0], rel=1e-9)
    # Who was drawn makes either less sure, but is no noise of it.
    answer = Answer(0.05, bends, by_draw=0.03)
    shared = found.searched(answer, scores, np.zeros(1), 0.0)
    trust = 0.09 / (0.09 + alone.variance[0])
    expected = trust**2 * alone.variance[0] + (1 - trust) ** 2 * 0.06
    assert shared.scale[0] == approx(2 + trust * (alone.scale[0] - 2), rel=1e-3)
    assert shared.variance[0] == approx(expected, rel=1e-3)
    # Where the curvature is smaller by its noise, both say more.
    noisy, still = (
        found.searched(Answer(0.01, bends, noise=one * bends), scores, np.zeros(1), 0.0)
        for one in (0.2, 0.0)
    )
    unsure = found._said(np.ones((3, 1)), bends, 0.2 * bends)
    assert unsure[3][0] > 0.01
    trust = 0.05 / (0.05 + unsure[1][0])
    expected = trust**2 * unsure[1] + (1 - trust) ** 2 * (0.05 + (0.5 * 0.4) ** 2)
    expected += 2 * trust * (1 - trust) * unsure[3] * 2.0 * 0.2
    assert noisy.variance > still.variance
    assert noisy.variance == approx(expected[0], rel=0.05)
    assert noisy.alike == approx(2 * trust * (1 - trust) * unsure[1][0], rel=0.05)
    drawn = Constant.guessed(0.0, 1e-4)
    found = _Directions(
        b, curvature, np.full(3, 1e-9), 1e-7, drawn, (5, 2.0), 1.0, lifts=0.0
    )
    sampled = found.searched(Answer(1e9, bends), scores, np.zeros(1), 0.0)
    assert sampled.variance == approx(alone.variance, rel=1e-3)
    unsure = Answer(0.0, bends), scores, np.zeros(1), 0.0
    assert found.searched(*unsure).scale[0] > both.scale[0] + 5e-4
    falls = found.searched(Answer(0.01, bends, falls=0.01), scores, np.zeros(1), 0.0)
    trust = (falls.scale - 2) / (alone.scale - 2)
    assert falls.of_falls == approx(0.01 * (1 - trust[0]) ** 2, rel=0.05)
    # With a penalty the search alone counts, and never lengthens.
    for told, expected in ((2.0, 1.0), (0.4, 0.4)):
        answer = Answer(0.0, bends, told, lengthens=False)
        held = found.searched(answer, scores, np.zeros(1), 0.0)
        assert held.scale[0] == expected and held.variance == 0.0


@pytest.mark.parametrize("ridge", [1e-9, 0.01, 0.1])
def test_what_few_steps_lose_is_told_by_loss_and_ridge(ridge):
    """Of a flat parabola with a ridge the descent knows how far its minimum is."""
    bend, flat, true, n_steps = 0.125, 0.08, 1.7, 6
    curvature = Curvature.from_moments(
        np.eye(1), 1e-9, n_columns=1, row_norm=2.0, constant=0.0, factor=bend
    )
    w = previous = total = weights = 0.0
    for t in range(n_steps):
        ahead = w + t / (t + 3) * (w - previous)
        total += (t + 1) ** 2 * (bend * ahead - flat * bend * (ahead - true))
        weights += (t + 1) ** 2
        previous, w = w, total / weights / (bend + ridge)
    steps, b = (n_steps, 2.0), np.full((1, 1), total / weights)
    drawn = Constant(np.zeros(1), np.ones(1), np.full(1, 1e-9), np.full(1, 0.05))
    found = _Directions(b, curvature, np.full(1, ridge), 1e-7, drawn, steps, 1.0, 0.0)
    answer = Answer(1e9, flat * bend * found.slopes[0] ** 2)
    length = found.searched(answer, curvature.along(found.slopes), np.zeros(1), ridge)
    lowest = flat * bend * true / (flat * bend + ridge)
    assert found.slopes[0] == approx(w, rel=1e-5)
    assert length.scale * found.slopes[0] == approx(lowest, rel=1e-4)
    assert lowest / w > 1.02


def test_slopes_fit_who_was_drawn_by_what_a_ridge_leaves_free():
    """Gradients of a finished descent count by their effective degrees of freedom."""
    moments, ridge = np.array([1.0, 1.0, 1.0]), 0.05
    curvature = Curvature.from_moments(
        np.diag(moments), 1e-9, n_columns=3, row_norm=2.0, constant=0.0, factor=0.125
    )
    drawn = Constant(np.zeros(1), np.ones(1), np.full(1, 1e-4), np.full(1, 0.05))
    b, held = np.full((3, 1), 0.3), np.full(3, ridge)
    found = _Directions(b, curvature, held, 1e-9, drawn, (300, math.inf), 1.0, 0.0)
    answer = Answer(0.01, found.at_most)
    found.searched(answer, curvature.along(found.slopes), np.zeros(1), ridge)
    bends = 0.05 / 0.125 * 0.125 * moments
    free = (moments / moments * bends / (bends + ridge)).sum() / 0.125
    assert answer.path.overfit[0] == approx(1e-4 * free, rel=1e-3)


def test_slopes_fit_who_was_drawn_less_where_hidden_curvature_varies():
    """Eight directions that noise hides, each with one of what it may well have."""
    floor, part, sampling, b = 0.2, 0.25, 1e-4, 0.3
    power = (1 / part - 1) / 2  # of a uniform number: mean part, up to the floor
    true = floor * part * (1 + power) * ((np.arange(8) + 0.5) / 8) ** power
    curvature = Curvature(
        matrix=floor * np.eye(8), floor=floor, typical=floor * part,
        likely=floor * part * np.eye(8), cross=np.zeros((8, 0)),
        released=floor * part * np.eye(8), noise=1e-9, factor=1.0, unit=0.0,
    )  # fmt: skip
    answer = Answer(0.01, np.full(1, 0.1))
    preconditioned_descent(
        lambda weights: true[:, None] * weights - b, curvature, n_outputs=1,
        ridge=np.full(8, 1e-9), noise=1e-9, max_iter=12, average=True,
        noise_ridge=0.0, search=answer,
        constant=Constant(*np.zeros((2, 1)), np.full(1, sampling), np.full(1, 0.125)),
    )  # fmt: skip
    # Gradients vary as the curvature, and slopes with them, each as the descent has it.
    overfit = sampling * true @ (answer.path.slopes[:, 0] / b)
    assert answer.path.overfit[0] == approx(overfit, rel=1e-4)


def test_a_search_beside_a_penalty_keeps_signal_and_clears_noise():
    """Rows far from zero: the centre is that of the loss, not that of the penalty."""
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(4000, 4)) + 1.5, rng.integers(0, 2, 4000)
    X[:, 0] += 0.5 * a
    label = (X[:, 0] + X[:, 1] > 3 + rng.normal(size=4000)).astype(int)

    def spread(y, **settings):
        model = DPWassersteinLogisticRegression(
            bounds=(-2, 5), data_norm=6.0, classes=[0, 1], groups=[0, 1],
            random_state=1, **settings,
        ).fit(X, y, sensitive_features=a)  # fmt: skip
        return (X @ model.coef_.T).std()

    little = {"fairness_weight": 0.5, "epsilon": 0.3}
    assert spread(rng.permutation(label), **little) < 0.3 * spread(label, **little)
    assert spread(label, fairness_weight=0.5, epsilon=1.0) > 0.9
    # A strong penalty holds slopes short; the search does not clear them.
    assert spread(label, fairness_weight=0.9, epsilon=1.0) > 0.06


def test_errors_along_slopes_that_noise_hides_are_finite():
    """What is likely of the curvature there is nothing, or rounding below it."""
    curvature = Curvature.from_moments(
        None, 0.0, n_columns=2, row_norm=1.0, constant=0.0, factor=0.125
    )
    for likely in (np.zeros((2, 2)), np.array([[1.0, -1.0], [-1.0, 1.0 - 1e-15]])):
        known = replace(curvature, likely=likely)
        b, ridge = np.full((2, 1), 0.3), np.full(2, 1e-9)
        found = _Directions(b, known, ridge, 1e-7, None, (5, 2.0), 1.0, lifts=0.0)
        length = _Length(np.ones(1), np.full(1, 0.1), np.zeros(1))
        told = found._along_anew(np.eye(2), length, 0, 0.0)
        assert np.abs(told).max() < 1e3 and np.all(np.linalg.eigvalsh(told) > 0)
        if not likely.any():  # scores vary by a twentieth of the most, at least
            told = found._along_anew(np.eye(2), length, 0, 0.3)
            own = found.slopes[:, 0]
            variance = 0.1 + 0.3 / (0.05 * found.at_most[0] / 0.125)
            assert_allclose(told, np.eye(2) + variance * np.outer(own, own))


def test_who_was_drawn_moves_the_length_by_what_the_fit_leaves():
    """However search and descent share what they say: a sandwich of known parts."""
    moments = np.array([[1.0, 0.2, 0.1], [0.2, 0.5, 0.0], [0.1, 0.0, 0.25]])
    curvature = Curvature.from_moments(
        moments, 1e-9, n_columns=3, row_norm=2.0, constant=0.0, factor=0.125
    )
    b, ridge = np.array([[0.3], [0.2], [0.1]]), np.full(3, 1e-9)
    drawn = Constant.guessed(0.0, 1e-3)
    found = _Directions(b, curvature, ridge, 1e-7, drawn, (9, 2.0), 1.0, lifts=0.0)
    own = found.slopes[:, 0]
    spread = own @ moments @ own
    length = _Length(np.full(1, 1.2), np.full(1, 0.01), np.full(1, spread))
    (told,) = found.covariance(
        length, np.zeros(1), lambda *_: (np.full(1, 3e-4), np.full(1, 0.1), 0.0, 0.0)
    )
    bent = moments @ own
    variance = bent @ told @ bent / spread**2
    assert variance == approx(0.01 + 3e-4 / (0.1**2 * spread), rel=1e-6)
    # And what a loss that flattens adds to the error of the search.
    length = replace(length, alike=np.full(1, 0.02))
    (told,) = found.covariance(
        length, np.zeros(1), lambda *_: (np.full(1, 3e-4), np.full(1, 0.1), 0.5, 0.6)
    )
    assert bent @ told @ bent / spread**2 == approx(variance + 0.3 * 0.02, rel=1e-6)


def test_noise_mixes_directions_by_what_is_known():
    """Relative variance of curvature along what is taken for its axes."""
    nodes = (np.arange(8) + 0.5) / 8
    for own, n_hidden in (([1.0, 0.5, 0.25], 0), ([1.0, 0.4, 0.03, 0.02], 2)):
        d, noise = len(own), 0.02
        curvature = Curvature.from_moments(
            np.diag(own), noise, n_columns=d, row_norm=2.0, constant=0.0, factor=0.5
        )
        b, ridge = np.full((d, 1), 0.3), np.full(d, 1e-12)
        found = _Directions(b, curvature, ridge, 1e-7, None, (5, 2.0), 1.0, lifts=0.0)
        plain, mixed = found._spreads
        power = np.log(plain[-1] / plain[0]) / np.log(15)  # of uniforms
        values = found.values / 0.5
        hidden = values <= 0.7 * noise * math.sqrt(2 * d) * 1.1
        assert hidden.sum() == n_hidden
        likely = np.einsum("ij,ij->j", found._vectors, found._likely @ found._vectors)
        likely = np.maximum(likely / 0.5, 0.05 * values)
        for j in range(d):
            varied = sum(
                min(noise**2 / 2, likely[j] * likely[k]) / (values[j] * values[k])
                for k in range(d)
                if k != j and not (hidden[j] and hidden[k])
            )
            part = likely[j] / values[j]
            least = (1 / part - 1) / 2 if hidden[j] else 0.0
            assert power[j] == approx(least, rel=1e-9, abs=1e-12)
            varied = max(varied, part**2 * least**2 / (1 + 2 * least))
            top = max(1.0, 1.25 * part)
            m, v = part / top, varied / top**2
            size = m * (1 - m) / min(max(v, 1e-4 * m * (1 - m)), 0.9 * m * (1 - m)) - 1
            mixes = beta(m * size, (1 - m) * size)
            expected = mixes.ppf(nodes) / mixes.ppf(nodes).mean()
            assert_allclose(mixed[:, j], expected, rtol=1e-7)


def test_what_is_mixed_has_its_mean_and_variance():
    means, variances = np.array([0.2, 0.5, 0.9]), np.array([0.02, 0.1, 0.01])
    nodes = _between(means, variances)
    assert nodes.shape == (8, 3) and (nodes > 0).all()
    assert_allclose(nodes.mean(axis=0), means, rtol=1e-12)
    assert_allclose(nodes.var(axis=0), variances, rtol=0.2)  # eight nodes
    assert (nodes[:, 1] < 1).all() and (nodes[:, 2] < 1.13).all()
    assert np.isfinite(
        _between(np.array([1e-9, 1.0, 2.0]), np.array([0, 9.0, 9]))
    ).all()


@pytest.mark.parametrize("mean, sd", [(0.0, 1.0), (0.5, 1.2), (-1.5, 0.6), (0.0, 2.0)])
def test_how_the_loss_flattens_along_its_scores(mean, sd):
    """Against quadrature of what the loss itself bends, label by label."""

    def bend(length):  # where slopes are cut off on the side of a wrong label
        def density(z):
            own, there = mean + sd * z, mean + length * sd * z
            p = linked(np.array([own]))[0]
            right = p if there > 0 else 1 - p
            q = expit(there)
            return right * q * (1 - q) * z**2 * math.exp(-(z**2) / 2)

        edge = -mean / (length * sd) if length else 0.0
        return sum(
            quad(density, *ends)[0]
            for ends in ((-9, edge), (edge, 9))
            if edge is not None
        )

    for length, found in zip(
        (1.0, 2.0), flattening(np.array([mean]), np.array([sd**2])), strict=True
    ):
        secant = quad(bend, 1e-9, length, limit=200)[0] / length
        assert found[0] == approx(1 - bend(length) / secant, abs=0.02)


def test_a_loss_that_flattens_makes_the_length_less_sure():
    length = _Length(
        *np.array([[1.2], [0.01], [1.0]]),
        of_falls=np.full(1, 0.004),
        alike=np.full(1, 0.02),
    )
    assert length.on_a_curve(np.zeros(1), np.zeros(1)).variance == approx(0.01)
    bent = length.on_a_curve(np.full(1, 0.3), np.full(1, 0.6))
    # The first release errs by noise of its own half, and leads by .3 of that.
    by_noise = 0.004 * ((1 + 2 * 0.3) ** 2 + 1) / 2
    assert bent.variance == approx(0.01 - 0.004 + by_noise + 0.3 * 0.6 * 0.02)
    assert bent.scale == length.scale
    none = np.array(flattening(np.array([0.0, 30.0, -800.0]), np.array([0.0, 1, 1])))
    assert (none >= 0).all() and (none <= 1).all() and none[0, 0] < 1e-5


@pytest.mark.parametrize("kind, moved", [("classifier", True), ("regressor", False)])
def test_the_loss_of_the_classifier_alone_flattens(kind, moved, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 3))
    scores = X @ [2.0, -1.0, 0.5]
    if kind == "classifier":
        y = (rng.random(4000) < linked(scores)).astype(int)
        model = DPWassersteinLogisticRegression(
            fairness_weight=0, classes=[0, 1], bounds=(-1, 1), random_state=0
        )
    else:
        y = np.clip(scores / 8 + 0.1 * rng.normal(size=4000), -1, 1)
        model = DPLinearRegression(
            bounds=(-1, 1), target_bounds=(-1, 1), random_state=0
        )
    own = model.fit(X, y).coef_covariance_
    monkeypatch.setattr(_Length, "on_a_curve", lambda length, *_: length)
    straight = model.fit(X, y).coef_covariance_
    apart = np.trace(np.squeeze(own)) / np.trace(np.squeeze(straight)) - 1
    assert (apart > 1e-4) == moved and (moved or apart == 0.0)


@pytest.mark.parametrize("part, sign", [(0.1, -1), (0.9, 1)])
def test_noise_is_averaged_over_directions_that_are_mixed(part, sign):
    """In scores it is concave in curvature that steps hardly see, then convex."""
    curvature = Curvature.from_moments(
        np.diag([1.0, 0.5, 0.3]), 0.1, n_columns=3, row_norm=2.0, constant=0.0,
        factor=0.125,
    )  # fmt: skip
    curvature = replace(curvature, likely=0.125 * part * np.diag([1.0, 0.5, 0.3]))
    b, ridge, noises = np.full((3, 1), 1e-6), np.full(3, 1e-12), []
    for noise in (0.0, curvature.noise):
        known = replace(curvature, noise=noise)
        found = _Directions(b, known, ridge, 0.01, None, (9, 2.0), 0.0, lifts=0.0)
        (told,) = found.covariance(
            _Length(np.ones(1), np.zeros(1), np.zeros(1)),
            np.zeros(1),
            lambda *_: (np.zeros(1), np.full(1, 0.125), 0.0, 0.0),
        )
        noises.append(np.diag(told))
    assert np.all(sign * np.log(noises[1] / noises[0]) > 0.002)
    assert_allclose(noises[1], noises[0], rtol=0.6)


def test_a_penalty_does_not_move_where_scores_are():
    moments = np.array([[1.0, 0.2, 0.3], [0.2, 0.5, 0.1], [0.3, 0.1, 0.25]])
    curvature = Curvature.from_moments(
        moments, 1e-9, n_columns=3, row_norm=2.0, constant=0.5, factor=0.125
    )
    answer = Answer(0.0, np.full(1, 0.1), told=0.7, lengthens=False)
    b, ridge = np.array([[0.3], [0.2], [0.1]]), np.array([1e-9, 1e-9, 0.0])
    bent = curvature.bent(np.array([[0.5], [0.1], [0.9]]))
    found = _Directions(b, bent, ridge, 1e-7, None, (5, 2.0), 1.0, lifts=0.0)
    weights, _ = _shrunk_minimum(
        np.zeros((3, 1)), found, curvature, ridge, 1e-7, None, None, answer
    )
    slopes = answer.path.slopes
    assert_allclose(weights[:2], 0.7 * slopes, rtol=1e-12)
    assert answer.path.center == approx(moments[:2, 2] @ slopes / 0.5, rel=1e-12)
    inner = moments[:2, :2] - np.outer(moments[:2, 2], moments[2, :2]) / 0.25
    expected = slopes.T @ inner @ slopes
    assert answer.path.variance == approx(expected.item(), rel=1e-6)


def test_what_a_search_risks_on_a_constant_target(monkeypatch):
    """No loss is left to lose: what is risked is a share of a small public one."""
    seen = []

    def spied(*args, **settings):
        seen.append(settings["worth"])
        return LineSearch(*args, **settings)

    monkeypatch.setattr(_linear, "LineSearch", spied)
    X = np.random.default_rng(0).uniform(-1, 1, (3000, 4))
    settings = {"epsilon": 1.0, "bounds": (-1, 1), "target_bounds": (-1, 1)}
    model = DPLinearRegression(**settings, random_state=0)
    model.fit(X, np.full(3000, 0.3))
    assert seen[0] == approx(5e-4, rel=1e-12)
    # A hundredth of it, of a loss that is half a square, in units of the learnt range.
    width = 3 / TARGET_BINS
    assert model.predict(X).var() < 0.01 * 1e-3 * width**2
    seen.clear()
    model.fit(X, np.sign(X[:, 0]))
    assert seen[0] == approx(0.5, rel=0.05)


def categories(seed, n=300):
    """Many rare categories in columns that hang together; and a target, half noise."""
    rng = np.random.default_rng(seed)
    size, columns, levels = n + 3000, 12, 25
    shares = 1 / np.arange(1, levels + 1) ** 1.2
    cells = rng.choice(levels, size=(size, columns), p=shares / shares.sum())
    hidden = rng.normal(size=size)
    near = hidden[:, None] + 0.7 * rng.normal(size=(size, 4))
    cells[:, :4] = near.argsort(axis=0).argsort(axis=0) * 6 // size
    one_hot = (cells[:, :, None] == np.arange(levels)).reshape(size, -1)
    return one_hot / math.sqrt(columns), hidden + rng.normal(size=size)


def test_more_budget_does_not_fit_more_of_who_was_drawn():
    def error(epsilon, seed, n=300):
        X, y = categories(seed)
        model = DPLinearRegression(
            epsilon=epsilon, data_norm=1.0, target_bounds=(-7, 7), random_state=seed
        ).fit(X[:n], y[:n])
        return np.mean((model.predict(X[n:]) - y[n:]) ** 2) / y[n:].var()

    some, lots, ample = (
        np.mean([error(epsilon, seed) for seed in range(9100, 9104)])
        for epsilon in (10.0, 100.0, 1000.0)
    )
    assert some < 0.75
    assert max(lots, ample) < some + 0.05
