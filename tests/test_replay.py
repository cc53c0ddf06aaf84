"""Replay of the whole registry: released values tell neighbours apart, nothing else.

A fit is recorded on one table and replayed on its neighbour with the same noisy values:
exact values may differ by what their mechanisms were told, and everything else that
comes out is equal bit by bit. What was released composes to what is printed.
"""

import math

import pytest
from common import ENTRIES, table
from sklearn.base import clone

from fairpriv_sklearn import audit
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    PoissonGaussianEvent,
    PureEvent,
    WithoutReplacementGaussianEvent,
)
from fairpriv_sklearn.audit._replay import observed
from fairpriv_sklearn.audit._tables import Table

VARIANTS = {
    "DP2DPClassifier": [{}, {"method": "histogram"}],
    "DPSinkhornGenerator": [
        {},
        {"method": "network", "max_iter": 3, "sampling_rate": 0.5},
    ],
    "DPOutputPerturbationLogisticRegression": [{}, {"C": 0.1}],
    "DPWassersteinLogisticRegression": [
        {"max_iter": 10},
        {"max_iter": 10, "fairness_weight": 0.0},
    ],
}
CASES = [(e, v) for e in ENTRIES for v in VARIANTS.get(e.name, [{}])]
every_case = pytest.mark.parametrize(
    ("entry", "variant"),
    CASES,
    ids=[f"{e.name}{v or ''}" for e, v in CASES],
)
both_relations = pytest.mark.parametrize("relation", ["replace_one", "add_remove"])

SLOW = {"DPGridSearchCV", "DPRandomizedSearchCV"}
# A model that is declared to cost nothing does not fit one row as it fits none.
TINY = {"two rows", "two rows, apart", "twins and a cell of -1.7e308"}
N_ROWS = 30


def make(entry, variant, relation):
    return entry.make(neighboring=relation, **{**entry.public, **variant})


def data(entry, n=N_ROWS):
    X, y = table(entry, n=n)
    return Table(X, None if entry.task == "transform" else y)


@both_relations
@every_case
def test_nothing_but_the_releases_tells_neighbours_apart(entry, variant, relation):
    one = data(entry)
    pairs = audit.neighbours(one.X, one.y, neighboring=relation)
    if relation == "add_remove" and hasattr(
        make(entry, variant, relation), "base_guarantee"
    ):
        pairs = [pair for pair in pairs if pair.name not in TINY]
    if entry.name in SLOW or "sampling_rate" in variant:
        pairs = pairs[::4]
    report = audit.replay(make(entry, variant, relation), pairs)
    assert not report.findings, str(report)
    assert report.n_pairs == len(pairs)
    assert report.largest_ratio <= 1 + 1e-9
    assert report.largest_ratio > 0.1 or entry.name in SLOW


@both_relations
@every_case
def test_what_is_released_is_what_is_printed(entry, variant, relation):
    estimator = make(entry, variant, relation)
    outcome = observed(lambda: clone(estimator), data(entry, 60), 0)
    assert not outcome.error
    released = outcome.tape.releases
    events = list(_leaves(outcome.model.privacy_.events))
    if any(event.kind == "declared" for event in events):
        pytest.skip("states what somebody declared")
    sampled = [e for e in events if isinstance(e, SAMPLED)]
    mus = [r.parameter for r in released if r.kind == "gaussian"]
    draws = sum(r.exact.size for r in released if r.kind == "gaussian")
    planned = sum(e.n_draws for e in events if isinstance(e, (GaussianEvent, *SAMPLED)))
    for event in sampled:  # steps of a batch, at the cost of the whole table each
        steps = [m for m in mus if m == pytest.approx(1 / event.noise_multiplier)]
        assert len(steps) == event.steps
        mus = [m for m in mus if m not in steps]
    stated = _norm(e.mu for e in events if isinstance(e, GaussianEvent))
    assert _norm(mus) == pytest.approx(stated, rel=1e-8)
    pure = math.fsum(r.parameter for r in released if r.kind == "pure")
    stated = math.fsum(e.epsilon for e in events if isinstance(e, PureEvent))
    assert pure == pytest.approx(stated, rel=1e-8)
    assert draws <= planned


SAMPLED = (PoissonGaussianEvent, WithoutReplacementGaussianEvent)


def _leaves(events):
    for event in events:
        if event.kind == "maximum":
            yield from _leaves([*event.left, *event.right])
        else:
            yield event


def _norm(values):
    return math.sqrt(math.fsum(value**2 for value in values))


@every_case
def test_an_earlier_or_interrupted_fit_leaves_nothing(entry, variant):
    if entry.task == "generate" or entry.name in SLOW:
        pytest.skip("other methods and searches are slow; see their own tests")
    one = data(entry)
    report = audit.audit_estimator(
        make(entry, variant, "replace_one"),
        one.X,
        one.y,
        pairs=audit.neighbours(one.X, one.y)[:1],
        max_fits=40,
        random_state=0,
    )
    assert not report.violated, str(report)
