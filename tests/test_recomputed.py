"""Totals computed once more, by convolving the losses of what really was released.

A small implementation of its own: of `accounting` the events' names are used only.
Losses stand on a grid, rounded up for a bound from above and down for one from below.
"""

import itertools
import math

import numpy as np
import pytest
from _recording import recording
from scipy.signal import fftconvolve
from scipy.stats import norm
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PureEvent,
    ThresholdEvent,
    WithoutReplacementGaussianEvent,
    compose_delta,
    compose_epsilon,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.model_selection import DPGridSearchCV, dp_cross_validate
from fairpriv_sklearn.neural_network import DPWassersteinMLPRegressor
from fairpriv_sklearn.postprocessing import DPBarycenterRegressor
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    privacy_report,
    with_budget,
)

STEP, REACH = 1e-3, 15_000  # losses up to 15
PLACES = np.arange(-REACH, REACH + 1)


def sides(events):
    """Every way that a record can go: one side of each split."""
    several = [
        [*sides(event.left), *sides(event.right)]
        if isinstance(event, MaximumEvent)
        else [(event,)]
        for event in events
    ]
    for chosen in itertools.product(*several):
        yield [event for side in chosen for event in side]


def losses(event, up):
    """Masses on the grid, and at infinity."""
    masses, failure = np.zeros(len(PLACES)), 0.0
    if isinstance(event, GaussianEvent):
        if event.mu == 0.0:
            masses[REACH] = 1.0
            return masses, 0.0
        ends = norm.cdf(PLACES * STEP, event.mu**2 / 2, event.mu)
        between = np.diff(ends)
        masses[1:] = between if up else 0.0
        masses[:-1] += 0.0 if up else between
        masses[0] += ends[0]
        beyond = norm.sf(PLACES[-1] * STEP, event.mu**2 / 2, event.mu)
        masses[-1] += 0.0 if up else beyond
        return masses, beyond if up else 0.0
    if isinstance(event, WithoutReplacementGaussianEvent):  # one step
        above = np.abs(PLACES * STEP)
        mu, likely = 1 / event.noise_multiplier, np.expm1(above) / event.q + 1
        x = np.log(likely) / mu + mu / 2  # of a sampled record the loss is this there
        # The loss of a record that is there or not, and with the opposite sign of one
        # that is not there or is: the rest loses nothing.
        tails = (1 - event.q) * norm.sf(x) + event.q * norm.sf(x - mu)
        ends = np.where(PLACES < 0, norm.sf(x), 1 - tails)
        between = np.diff(ends)
        masses[1:] = between if up else 0.0
        masses[:-1] += 0.0 if up else between
        masses[0] += ends[0]
        masses[-1] += 0.0 if up else tails[-1]
        return masses, tails[-1] if up else 0.0
    if isinstance(event, ThresholdEvent):
        failure = 1 - (1 - event.delta0) ** event.n_columns
        masses[REACH] = 1 - failure
        return masses, failure
    if isinstance(event, DeclaredEvent):
        failure = event.delta
    rounded = math.ceil if up else math.floor
    for loss in (event.epsilon, -event.epsilon):
        share = 1 / (1 + math.exp(-loss))
        masses[REACH + rounded(loss / STEP)] += share * (1 - failure)
    return masses, failure


class Losses:
    """Of several events together."""

    def __init__(self, events, up):
        self.masses, self.failure = losses(PureEvent(0.0), up)
        for event in events:
            masses, failure = losses(event, up)
            both = np.maximum(fftconvolve(self.masses, masses), 0.0)
            middle = both[REACH:-REACH].copy()
            middle[0] += both[:REACH].sum() if up else 0.0
            beyond = both[-REACH:].sum()
            middle[-1] += 0.0 if up else beyond
            failure = self.failure + failure - self.failure * failure
            self.masses, self.failure = middle, failure + (beyond if up else 0.0)

    def delta(self, epsilon):
        gains = -np.expm1(np.minimum(0.0, epsilon - PLACES * STEP))
        return self.failure + float(self.masses @ np.maximum(gains, 0.0))


def between(events):
    """Functions of epsilon, below and above delta of the worst way to go."""
    ways = list(sides(events))
    low, high = ([Losses(way, up) for way in ways] for up in (False, True))
    return tuple(
        lambda epsilon, of=of: max(one.delta(epsilon) for one in of)
        for of in (low, high)
    )


def random_events(rng, depth=2):
    events = []
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(0, 5 if depth else 4)
        events += [
            {
                0: lambda: GaussianEvent(rng.uniform(0.05, 0.8)),
                1: lambda: PureEvent(STEP * int(rng.integers(10, 700))),
                2: lambda: DeclaredEvent(STEP * int(rng.integers(10, 700)), 1e-6),
                3: lambda: ThresholdEvent(
                    rng.uniform(0, 1e-5), int(rng.integers(1, 9))
                ),
                4: lambda: MaximumEvent(
                    random_events(rng, depth - 1), random_events(rng, depth - 1)
                ),
            }[int(kind)]()
        ]
    return events


@pytest.mark.parametrize("seed", range(16))
def test_nested_splits_cost_their_worst_way(seed):
    events = random_events(np.random.default_rng(seed))
    low, high = between(events)
    for epsilon in (0.1, 0.7, 2.0):
        assert low(epsilon) * (1 - 1e-6) - 1e-12 <= compose_delta(events, epsilon)
        assert compose_delta(events, epsilon) <= high(epsilon) * (1 + 1e-3) + 1e-12
    for delta in (1e-4, 1e-2):
        epsilon = compose_epsilon(events, delta)
        if 0.0 < epsilon < math.inf:
            assert low(epsilon) <= delta * (1 + 1e-6) <= high(epsilon - STEP) * 1.01


@pytest.mark.parametrize("seed", range(6))
def test_a_ledger_adds_up_what_was_spent(seed):
    rng, delta = np.random.default_rng(seed), 1e-3
    ledger, spent = PrivacyLedger(1e6, delta), []
    for _ in range(4):
        events = random_events(rng, depth=1)
        spent += events
        ledger.spend(
            PrivacyGuarantee.from_events(
                events, delta=delta, neighboring="replace_one", mechanism="a test"
            )
        )
    low, high = between(spent)
    epsilon = ledger.total().epsilon
    assert low(epsilon) <= delta * (1 + 1e-6) <= high(epsilon - STEP) * 1.01


def table(n=2000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.clip(X[:, 0] + X[:, 1], -1, 1), (X[:, 2] > 0).astype(int)


def line(**params):
    return DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), **params)


def repaired(**params):
    params = {"target_bounds": (-1, 1), "groups": [0, 1], **params}
    return DPBarycenterRegressor(line(neighboring=params.pop("within")), **params)


def events_of(crossings):
    """What was drawn, as events: the noise itself tells its parameter."""
    return [
        GaussianEvent(one.parameter) if one.norm == "l2" else PureEvent(one.parameter)
        for one in crossings
    ]


def spends(events, epsilon, delta, least=0.97):
    """That events cost no more than this, and nearly as much."""
    low, high = between(events)
    assert low(epsilon) <= delta <= high(least * epsilon)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_two_phases_cost_the_dearer_one(relation):
    X, y, groups = table()
    model = repaired(epsilon=0.9, within=relation, neighboring=relation)
    model.set_params(estimator__epsilon=0.9)
    with recording() as seen:
        model.fit(X, y, sensitive_features=groups)
    kinds = [one.norm for one in seen.crossings]
    first = kinds.index("l1")
    assert set(kinds[:first]) == {"l2"} and set(kinds[first:]) == {"l1"}
    events = events_of(seen.crossings)
    split = MaximumEvent(events[:first], events[first:])
    spends([split], model.privacy_.epsilon, 1e-5)
    (printed,) = model.privacy_.events
    assert isinstance(printed, MaximumEvent)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_batches_and_ranges_of_all_records_cost_one_budget(epsilon):
    X, _, classes = table()
    model = DPWassersteinLogisticRegression(
        epsilon=epsilon, fairness_weight=0, bounds=(-9, 9), classes=[0, 1],
        batch_size=200, max_iter=8,
    )  # fmt: skip
    with recording() as seen:
        model.fit(X, classes)
    first, steps = seen.crossings[:-8], seen.crossings[-8:]
    assert {one.name for one in first} == {"range counts"}
    assert {one.name for one in steps} == {"gradients"}
    sampled = [
        WithoutReplacementGaussianEvent(0.1, 1 / one.parameter, 1) for one in steps
    ]
    spends([*events_of(first), *sampled], model.privacy_.epsilon, 1e-5, 0.95)
    assert 0.999 * epsilon <= model.privacy_.epsilon <= epsilon


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("model", ["line", "network"])
def test_an_encoder_and_a_model_cost_one_budget(relation, model):
    pandas = pytest.importorskip("pandas")
    X, y, groups = table()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    frame["text"] = np.where(groups, "u", "v")
    model = {
        "line": DPLinearRegression(target_bounds=(-1, 1)),
        "network": DPWassersteinMLPRegressor(
            target_bounds=(-1, 1), fairness_weight=0, max_iter=3
        ),
    }[model].set_params(neighboring=relation)
    encoder = DPTableEncoder(neighboring=relation)
    whole = with_budget(make_pipeline(encoder, model), 2.0)
    with recording() as seen:
        whole.fit(frame, y)
    printed = privacy_report(whole).guarantee
    shown = [e for e in whole[0].privacy_.events if isinstance(e, ThresholdEvent)]
    assert len(shown) == 1 and 1.999 < printed.epsilon <= 2.0
    spends([*events_of(seen.crossings), *shown], printed.epsilon, printed.delta)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_folds_cost_all_fits_but_one_and_one_score(relation):
    X, y, _ = table()
    kwargs = {"target_bounds": (-1, 1), "neighboring": relation}
    model = line(neighboring=relation)
    with recording() as seen:
        found = dp_cross_validate(model, X, y, cv=4, epsilon=0.8, **kwargs)
    fits = in_fits([one for one in seen.crossings if one.name != "scores"])
    scores = [one.parameter for one in seen.crossings if one.name == "scores"]
    assert len(fits) == len(scores) == 4
    for tested, score in enumerate(scores):
        others = fits[:tested] + fits[tested + 1 :]
        whole = GaussianEvent(math.hypot(*others, score))
        spends([whole], found.privacy_.epsilon, 1e-5)


def searched(method, relation, **params):
    X, y, _ = table(12_000)  # so many that no fit tells the mean alone
    kwargs = {"target_bounds": (-1, 1), "neighboring": relation, "method": method}
    model = line(neighboring=relation)
    search = DPGridSearchCV(
        model, {"alpha": [0.1, 1.0, 10.0]}, epsilon=0.8, random_state=1, **kwargs
    ).set_params(**params)
    with recording() as seen:
        search.fit(X, y)
    return search, seen.crossings


def in_fits(crossings):
    """Gaussian-DP parameters of one fit after the other, by their last release."""
    fits, squares = [], []
    for one in crossings:
        assert one.norm == "l2"
        squares.append(one.parameter**2)
        if one.name == "mean residual":
            fits.append(math.sqrt(math.fsum(squares)))
            squares = []
    assert not squares
    return fits


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("refit", [False, True])
def test_every_candidate_once_costs_all_fits_or_the_choice(relation, refit):
    params = {"refit": refit, "refit_fraction": 0.6}
    search, crossings = searched("compose", relation, **params)
    fits = in_fits([one for one in crossings if one.norm == "l2"])
    assert len(fits) == 3 + refit
    choice = [PureEvent(search.plan_.selection_epsilon)]
    split = MaximumEvent([GaussianEvent(math.hypot(*fits[:3]))], choice)
    last = [GaussianEvent(fits[3])] if refit else []
    # Two parts of a budget add up to the whole by a bound that is not sharp.
    least = 0.7 if refit else 0.97
    spends([split, *last], search.privacy_.epsilon, 1e-5, least)


@pytest.mark.parametrize("coverage", [0.5, 0.98])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_the_best_of_a_random_number_costs_no_more_than_is_printed(relation, coverage):
    """The worst score there is: the released number itself, whose largest is kept."""
    search, crossings = searched("repeat", relation, coverage=coverage)
    fits = in_fits([one for one in crossings if one.name != "scores"])
    scores = [one.parameter for one in crossings if one.name == "scores"]
    assert len(fits) == len(scores) > 0
    mu, runs = max(*fits, *scores), search.plan_.distribution
    x = np.linspace(-12, 12, 400_001)

    def largest(mean):
        """Density of the largest: f(x) g'(F(x)), g generating the number of runs."""
        below, stop = norm.cdf(x, mean), runs.stop  # of shape 2
        slope = runs.mean * (stop / (1 - (1 - stop) * below)) ** 3
        return norm.pdf(x, mean) * slope

    epsilon = search.privacy_.epsilon
    for one, other in ((0.0, mu), (mu, 0.0)):
        gain = largest(one) - math.exp(epsilon) * largest(other)
        assert np.trapezoid(np.maximum(gain, 0.0), x) <= 1e-5
