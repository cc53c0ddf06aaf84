"""Whole fits of blind repairs, encoders and raw generators, by their real noisy values.

Each fit to one table of a bad pair is replayed on the other with its released values:
what both tables would have released exactly gives the likelihood ratio of the
transcript, as an attacker would compute it who knows all records but one. A lower bound
from many of these may not lie above what is printed, and does with half the noise.
"""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from _audit import gaussian_audit, pure_audit
from _recording import recording
from test_blind import model, regressor

from fairpriv_sklearn._training._target import RangeCounts, TargetCounts
from fairpriv_sklearn._wall import CellCounts
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
    _base,
    _points,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPWassersteinLogisticRegression,
    _gradient_plan,
    _linear,
    _ranges,
)
from fairpriv_sklearn.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.neural_network import _base as neural
from fairpriv_sklearn.postprocessing import (
    DPBarycenterRegressor,
    DPBarycenterTransformer,
    _blind_numbers,
    _scale,
)
from fairpriv_sklearn.postprocessing._queries import ScoreCounts
from fairpriv_sklearn.preprocessing import DPTableEncoder


def log_ratio(crossing, other) -> float:
    """How much likelier a released value is on the other table."""
    released, exact = crossing.released, [crossing.exact, other.exact]
    if released.dtype == np.uint8:  # listed counts, before those of keys
        released = np.array(json.loads(released.tobytes())[0])
        exact = [one[: released.size] for one in exact]
    first, second = (np.ravel(released) - np.ravel(one) for one in exact)
    rate = crossing.parameter / crossing.sensitivity
    if crossing.norm == "l1":
        return rate * float(np.abs(first).sum() - np.abs(second).sum())
    return rate**2 / 2 * float((first**2).sum() - (second**2).sum())


def log_ratios(estimator, pair, n_fits):
    """Log likelihood ratios of transcripts, for fits to each table of the pair."""
    sides = []
    for side, (fit, fit_other) in enumerate((pair, pair[::-1])):
        ratios, second = [], None
        for number in range(n_fits):
            # Both have the same public draws, such as directions of slices.
            estimator.set_params(random_state=2 * number + side)
            with recording() as first:
                fit(estimator)
            if second is None or len(second.crossings) > 1:  # one: exact the same
                with recording(first) as second:
                    fit_other(estimator)
            both = zip(first.crossings, second.crossings, strict=True)
            ratios.append(sum(log_ratio(*one) for one in both))
        sides.append(np.array(ratios))
    return sides[0], -sides[1]


def halve_the_noise(monkeypatch):
    """Mechanisms are told twice the mu or epsilon that was planned for them."""
    for mechanism in (GaussianMechanism, DiscreteLaplaceMechanism):
        honest = mechanism.__init__

        def told(self, sensitivity, parameter, *args, honest=honest):
            honest(self, sensitivity, 2 * parameter, *args)

        monkeypatch.setattr(mechanism, "__init__", told)


def blind_pair(target):
    """A record that changes its group, its features and its target."""
    X = np.array([[3.0, 2.0, 0.0], [-3.0, -2.0, 0.0]] * 3)
    y, group = np.array([1, 0] * 3), np.array([1, 0] * 3)
    X2, y2, group2 = (np.concatenate([a[:-1], a[:1]]) for a in (X, y, group))

    def fit(X, y, group):
        y = X[:, 1] if target == "number" else y
        return lambda one: one.fit(X, y, sensitive_features=group)

    return fit(X, y, group), fit(X2, y2, group2)


def table_pair(*cells, same=()):
    """A record with the last of the cells in place of the first, in every column.

    But for the columns that are the `same`.
    """
    first = [cells[0]] * 4 + list(cells)
    tables = [
        pd.DataFrame({"a": column, "b": column, **dict.fromkeys(same, first)})
        for column in (first, [*first[:-1], cells[0]])
    ]
    return [lambda one, X=X: one.fit(X) for X in tables]


NUMBER = {"kind": "number", "range": [0, 10]}
STEPS = {"max_iter": 3, "epsilon": 15.0}  # mu near 2.5: few fits tell most of it
TABLES = {
    "declared": ({"a": NUMBER, "b": NUMBER}, table_pair(1.0, 9.0)),
    "nothing declared": (None, table_pair(1.0, 9.0)),
    "a number or text": (None, table_pair(1.0, "z")),
    "far from zero": (None, table_pair(*[1e6 + 0.1] * 60, 1.0)),
}
CASES = {
    "blind, parity": (model(**STEPS), blind_pair("label")),
    "blind, odds": (
        model(constraint="equalized_odds", reach_size=0.2, **STEPS),
        blind_pair("label"),
    ),
    **{
        f"encoder, {name}": (DPTableEncoder(codebook, epsilon=15.0), pair)
        for name, (codebook, pair) in TABLES.items()
    },
    # two of three columns: products of all pairs move most
    "pairs, declared": (
        DPSinkhornGenerator(codebook=dict.fromkeys("abc", NUMBER), epsilon=15.0),
        table_pair(1.0, 9.0, same="c"),
    ),
    "pairs, a number or text": (
        DPSinkhornGenerator(epsilon=15.0),
        table_pair(1.0, "z", same="c"),
    ),
    "pairs, far from zero": (
        DPSinkhornGenerator(epsilon=15.0),
        table_pair(*[1e6 + 0.1] * 60, 1.0),
    ),
}


# That one of each kind is convicted of half its noise shows what the audits can see:
# of the others it is enough that their bounds are as near to what is claimed.
TWINS = ["blind, parity", "encoder, a number or text", "pairs, a number or text"]


@pytest.mark.filterwarnings("ignore:Of the columns? .* nearly all samples are missing")
@pytest.mark.parametrize(
    "case, honest", [(case, True) for case in CASES] + [(case, False) for case in TWINS]
)
def test_audit_of_gaussian_releases(case, honest, monkeypatch):
    estimator, pair = CASES[case]
    monkeypatch.setattr(_points, "N_FITS", 1)  # what is released does not depend on it
    monkeypatch.setattr(_points, "FEWEST_STEPS", 2)
    pair[0](estimator.set_params(random_state=0))
    (event,) = (e for e in estimator.privacy_.events if e.kind == "gaussian")
    if not honest:
        halve_the_noise(monkeypatch)
    bound = gaussian_audit(*log_ratios(estimator, pair, n_fits=40))
    assert (bound <= event.mu) == honest
    assert bound > 0.4 * event.mu


@pytest.mark.parametrize("reach_size, honest", [(0.0, True), (0.0, False), (0.9, True)])
def test_audit_of_counts(reach_size, honest, monkeypatch):
    monkeypatch.setattr(DPBarycenterRegressor, "_solve_blind", lambda self: None)
    estimator = regressor(epsilon=2.0, n_bins=3, reach_size=reach_size)
    if not honest:
        halve_the_noise(monkeypatch)
    ratios = log_ratios(estimator, blind_pair("number"), n_fits=250)
    bound = pure_audit(*np.negative(ratios), beyond=1.0)
    assert bound > 0.7 and (bound <= 2.0) == honest


@pytest.mark.parametrize("honest", [True, False])
def test_audit_of_sizes(honest, monkeypatch):
    """Nearly all of the budget is theirs; a record that changes sides counts twice."""
    monkeypatch.setattr(DPBarycenterRegressor, "_solve_blind", lambda self: None)
    monkeypatch.setattr(_blind_numbers, "SIZES_SHARE", 0.9)
    sensitivity = CellCounts.sensitivity

    def forgetful(self, neighboring):
        return sensitivity(self, neighboring) // (1 + (self.name == "group sizes"))

    if not honest:
        monkeypatch.setattr(CellCounts, "sensitivity", forgetful)
    estimator = regressor(epsilon=2.0, n_bins=3)
    ratios = log_ratios(estimator, blind_pair("number"), 150 if honest else 300)
    bound = pure_audit(*np.negative(ratios), beyond=1.0)
    assert bound > 0.7 and (bound <= 2.0) == honest


@pytest.mark.parametrize("honest", [True, False])
@pytest.mark.parametrize(
    "kind",
    ["semidual", "histogram", "autoencoder", "classifier", "regressor"]
    + ["line", "logistic", "line, twice", "logistic, twice"],
)
def test_audit_of_ranges(kind, honest, monkeypatch):
    """Most of the budget asks for them; a record moves in every column."""
    kind, *twice = kind.split(", ")
    looks_twice_from = 0.0 if twice else np.inf
    monkeypatch.setattr(_base, "TARGET_SHARE", 0.9)
    n_counts = 2 if kind == "regressor" else 1  # the target has its own
    monkeypatch.setattr(neural, "TARGET_SHARE", 0.9 / n_counts)
    monkeypatch.setattr(neural, "CONSTANT_SHARE", (0.1, 0.1))
    monkeypatch.setattr(neural, "search_share", lambda *_: 0.001)
    tells = TargetCounts if kind == "regressor" else RangeCounts
    monkeypatch.setattr(tells, "tell", lambda self, signal: True)
    # six rows tell no linear model anything
    monkeypatch.setattr(_gradient_plan, "TARGET_SHARE", 0.9)
    for module in (_ranges, neural):
        monkeypatch.setattr(module, "bins_that_tell", lambda signal, n: 64)
    monkeypatch.setattr(_ranges, "_TWICE", looks_twice_from)
    monkeypatch.setattr(_linear, "SIGNAL_OF_FEATURES", 0.0)
    monkeypatch.setattr(_linear, "SIGNAL_OF_TRIALS", 0.0)
    sensitivity = RangeCounts.sensitivity

    def forgetful(self, neighboring):
        return sensitivity(self, neighboring) / np.sqrt(1 if honest else self.n_targets)

    monkeypatch.setattr(RangeCounts, "sensitivity", forgetful)
    X = np.array([[0.1] * 8, [0.9] * 8] * 3)
    moved = np.concatenate([X[:-1], X[:1]])
    public = {"epsilon": 15.0, "bounds": (0, 1)}
    networks = {
        "autoencoder": DPWassersteinAutoencoder,
        "classifier": partial(DPWassersteinMLPClassifier, classes=[0, 1]),
        "regressor": partial(DPWassersteinMLPRegressor, target_bounds=(0, 1)),
    }
    if kind in networks:
        one = networks[kind](max_iter=1, fairness_weight=0.0, groups=[0, 1], **public)
        given = {"sensitive_features": np.array([0, 1] * 3)}
    elif kind in ("line", "logistic"):
        public |= {"bounds": (-1, 1), "min_records": 1, "max_iter": 1}
        one = DPLinearRegression(target_bounds=(0, 1), **public)
        if kind == "logistic":
            one = DPWassersteinLogisticRegression(
                fairness_weight=0.0, classes=[0, 1], **public
            )
        given = {"y": np.array([0, 1] * 3)}
    else:
        make = {
            "semidual": DPSinkhornGenerator,
            "histogram": DPSlicedWassersteinGenerator,
        }
        one, given = make[kind](method=kind, **public), {}

    def fit(X):
        moves = {"y": (X[:, 0] > 0.5).astype(int)} if kind in networks else {}
        return lambda model: model.fit(X, **moves, **given)

    pair = fit(X), fit(moved)
    pair[0](one.set_params(random_state=0))
    assert "range counts" in one.privacy_.mechanism
    (event,) = (e for e in one.privacy_.events if e.kind == "gaussian")
    bound = gaussian_audit(*log_ratios(one, pair, n_fits=40))
    assert bound > 0.4 * event.mu and (bound <= event.mu) == honest


@pytest.mark.parametrize("honest", [True, False])
def test_audit_of_where_scores_are(honest, monkeypatch):
    """Nearly all of the budget asks that; a score that moves is in two cells."""
    monkeypatch.setattr(DPBarycenterTransformer, "_solve", lambda self: None)
    monkeypatch.setattr(_scale, "SHARE", 0.9)
    sensitivity = ScoreCounts.sensitivity

    def forgetful(self, neighboring):
        of_all = self.name == "scores of all groups"
        return sensitivity(self, neighboring) // (1 + of_all)

    if not honest:
        monkeypatch.setattr(ScoreCounts, "sensitivity", forgetful)
    scores = np.array([[0.1], [0.9]] * 3)
    codes = np.array([0, 1] * 3)
    moved = np.concatenate([scores[:-1], scores[:1]])

    def fit(scores, codes):
        return lambda one: one.fit(scores, sensitive_features=codes)

    pair = fit(scores, codes), fit(moved, np.append(codes[:-1], 0))
    repair = DPBarycenterTransformer(epsilon=2.0, bounds=(0, 1), groups=[0, 1])
    bound = pure_audit(*log_ratios(repair, pair, n_fits=500))
    assert bound > 0.6 and (bound <= 2.0) == honest
