"""Replay of the whole registry: released values tell neighbours apart, nothing else.

A fit is recorded on one table and replayed on its neighbour with the same noisy values:
exact values may differ by what their mechanisms were told, and everything else that
comes out is equal bit by bit. What was released composes to what is printed.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from common import ENTRIES, _declared, table
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import BernoulliNB

from fairpriv_sklearn import audit
from fairpriv_sklearn._shared import guarded
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    PoissonGaussianEvent,
    PureEvent,
    WithoutReplacementGaussianEvent,
    compose_epsilon,
)
from fairpriv_sklearn.audit._outcome import leaf_differences, run
from fairpriv_sklearn.audit._replay import observed
from fairpriv_sklearn.audit._tables import Table
from fairpriv_sklearn.audit._tape import Tape
from fairpriv_sklearn.generative import _points
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
)
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLedger,
)

pandas = pytest.importorskip("pandas")

N_ROWS = 30
N_PAIRS = 25  # at least
SIMILAR = ("small cells", "twins of the middle", "permuted", "strided")


@pytest.fixture(autouse=True)
def what_memory_held_differs(monkeypatch):
    """Entries of new arrays that nobody writes tell any two fits apart."""
    number = itertools.count(1000)

    def filled(make):
        def made(*args, **kwargs):
            array = make(*args, **kwargs)
            if array.dtype.kind in "iuf":
                array.fill(next(number) % 120 if array.itemsize < 4 else next(number))
            return array

        return made

    for name in ("empty", "empty_like"):
        monkeypatch.setattr(np, name, filled(getattr(np, name)))


@pytest.fixture(autouse=True)
def few_steps_after_the_releases(monkeypatch):
    """Points of `method="pairs"` are made of what was released: a few steps tell."""
    monkeypatch.setattr(_points, "N_FITS", 2)
    monkeypatch.setattr(_points, "FEWEST_STEPS", 5)


def private_line(relation):
    return DPLinearRegression(
        bounds=(-1, 1), target_bounds=(-1, 1), neighboring=relation
    )


def private_logistic(relation):
    return DPOutputPerturbationLogisticRegression(
        bounds=(-1, 1), classes=[0, 1], neighboring=relation
    )


def with_line(relation):
    return {"estimator": private_line(relation), "base_guarantee": None}


def with_frozen_line(relation):
    X = np.linspace(-1, 1, 30).reshape(10, 3)
    frozen = FrozenEstimator(LinearRegression().fit(X, X[:, 0]))
    return {"estimator": frozen, "base_guarantee": "public"}


def with_logistic(relation):
    return {"estimator": private_logistic(relation), "base_guarantee": None}


def line_on_all_rows(relation):
    return {**with_line(relation), "calibration_size": "all"}


def logistic_on_all_rows(relation):
    return {**with_logistic(relation), "calibration_size": "all"}


def blind(relation):
    return {
        **BINS,
        "blind": True,
        "group_estimator": BernoulliNB(),
        "group_guarantee": _declared({"neighboring": relation}),
    }


WORDS = {
    "tables": "words",
    "bounds": None,
    "categories": {i: ["a", "b"] for i in "xyz"},
}
NETWORK = {"method": "network", "max_iter": 3, "hidden_layer_sizes": (4,)}
FEW = {"max_iter": 4}
BINS = {"n_bins": 4}
CHEAP = {"estimator__n_bins": 4, "estimator__estimation": "isotonic"}
FAR = {"bounds": (-9, 9)}  # ranges are learnt in these
REPLACED = {"neighboring": "replace_one", **FEW}  # add_remove would contradict it
SIZES_PUBLIC = {"group_sizes_public": True, "sensitive_features": None, **REPLACED}
REPAIRS = [
    {},
    {"output": "randomized", **BINS},
    {"output": "continuous", "estimation": "isotonic"},
    {"output": "mean", "fairness_tolerance": 0.2, **BINS},
    {"fairness_tolerance": "auto", "handle_unknown": "pooled", **BINS},
]
NETWORKS = [
    FEW,
    {"fairness_weight": 0.0, **FEW},
    {"solver": "adam", "activation": "relu", "average": False, **FEW},
    {"min_group_size": 5, "hidden_layer_sizes": (3, 2), **FEW},
]
SEARCHES = [
    {"method": "compose"},
    {"method": "compose", "scoring": "neg_error_rate", "refit": True},
    {"method": "repeat", "epsilon": 3.0},
]
# What an estimator can be told that changes what it releases. A function of the
# relation gives parameters that have to know it; "tables" changes the tables.
VARIANTS = {
    "DPBarycenterTransformer": [*REPAIRS, blind],
    "DPBarycenterRegressor": [
        *REPAIRS,
        with_line,
        with_frozen_line,
        line_on_all_rows,
    ],
    "DPBarycenterRegressor-blind": [{}, with_line, {"reach_size": 0.3}],
    "DP2DPClassifier": [
        {},
        {"method": "histogram", **BINS},
        {"method": "histogram", "constraint": "equalized_odds", **BINS},
        {"method": "gradient", "max_iter": 3},
        {"method": "gradient", "max_iter": 3, "constraint": "equal_opportunity"},
        {"method": "gradient", "max_iter": 3, "classes": [0, 1, 2]},
        {"handle_unknown": "pooled", "fairness_tolerance": 0.1, "n_bins": 5},
        with_logistic,
        logistic_on_all_rows,
    ],
    "DP2DPClassifier-blind": [
        {},
        {"reach_size": 0.2},
        {"reach_size": 0.2, "calibration_size": "all", "max_iter": 3},
        {"constraint": "equalized_odds", "method": "gradient", "max_iter": 3},
    ],
    "DPSinkhornGenerator": [
        {},
        {"basis": "identity", "n_points": 3, "max_iter": 2, "variance_cap": False},
        {"epsilon": 60.0, "n_points": 2, **FAR},
        WORDS,
        {"n_points": 3, "max_iter": 2, **WORDS},
        {**NETWORK, "sampling_rate": 0.5},
        {**NETWORK, "batch_size": 6, "n_components": 2, "sampling_rate": 1.0},
    ],
    "DPSinkhornGenerator-pairs": [
        {},
        {"quality": False, "bins": {0: [-1.0, 0.0, 1.0]}},
        {"tables": "frame", "codebook": {"x": [-1, 1]}, "bounds": None},
        {"tables": "words", "bounds": None},
        WORDS,
    ],
    "DPSlicedWassersteinGenerator": [
        {},
        {"n_bins": 4, "n_projections": 3},
        {"epsilon": 60.0, **FAR},
    ],
    "DPSlicedWassersteinGenerator-gradient": [
        {"max_iter": 3},
        {"max_iter": 3, "batch_size": 5, "n_projections": 2, "classes": [0, 1, 2]},
    ],
    "DPWassersteinLogisticRegression": [
        FEW,
        {"fairness_weight": 0.0, **FEW},
        {"fairness_weight": 0.0, "batch_size": 5, **REPLACED},
        {"epsilon": 60.0, "fairness_weight": 0.0, "batch_size": 5, **FAR, **REPLACED},
        {"min_group_size": 5, "average": False, **FEW},
        {"constraint": "equalized_odds", "penalty": "pairs", **FEW},
        {"classes": [0, 1, 2], "n_projections": 2, "data_norm": 1.0, **FEW},
        {"class_weight": {0: 1.0, 1: 2.0}, "fit_intercept": False, **FEW},
        {"min_records": 10**6, **REPLACED},
        {"min_records": 10**6, "classes": [0, 1, 2], **REPLACED},
        SIZES_PUBLIC,
        {**SIZES_PUBLIC, "batch_size": 5},
        {"epsilon": 60.0, **SIZES_PUBLIC, "batch_size": 5, **FAR},
        {**SIZES_PUBLIC, "constraint": "equalized_odds"},
        {"epsilon": 60.0, **FAR, **FEW},
    ],
    "DPLinearRegression": [
        {"solver": "moments"},
        {"solver": "gradients", **FEW},
        {"alpha": 0.1, "fit_intercept": False, "data_norm": 1.0},
        {"epsilon": 60.0, **FAR, **FEW},
        {"min_records": 10**6, **REPLACED},
    ],
    "DPOutputPerturbationLogisticRegression": [
        {},
        {"C": 0.1, "fit_intercept": False},
        {"classes": [0, 1, 2]},
        {"epsilon": 60.0},
        {"epsilon": 60.0, "classes": [0, 1, 2]},
        {"min_records": 10**6, "neighboring": "replace_one"},
    ],
    "DPGridSearchCV": [{"estimator__max_iter": 4, **one} for one in SEARCHES],
    "DPRandomizedSearchCV": [{**CHEAP, **one} for one in SEARCHES],
    "DPWassersteinMLPClassifier": [
        *NETWORKS,
        {"constraint": "equalized_odds", "classes": [0, 1, 2], **FEW},
        {"epsilon": 60.0, **FAR, **FEW},
        {"min_records": 10**6, **REPLACED},
    ],
    "DPWassersteinMLPRegressor": [
        FEW,
        *({"epsilon": 20.0, **one} for one in NETWORKS),
        {"epsilon": 60.0, **FAR, **FEW},
        {"min_records": 10**6, **REPLACED},
    ],
    "DPWassersteinAutoencoder": [*NETWORKS, {"epsilon": 60.0, **FAR, **FEW}],
    "DPTableEncoder": [
        {},
        {"ranks": "uniform", "handle_unknown": "ignore"},
        {"tables": "words"},
        {"tables": "words", "codebook": {"x": ["a", "b"]}},
        {"tables": "frame", "codebook": {"x": [-1, 1]}, "n_coordinates": 2.0},
        {"tables": "frame", "sensitive_features": ["x"]},
        {"interactions": True, "epsilon": 60.0},
    ],
}


def _named(one):
    return one.__name__ if callable(one) else f"{one or ''}".replace(" ", "")


CASES = [
    (entry, variant, relation)
    for entry in ENTRIES
    for variant in VARIANTS[entry.name]
    for relation in ("replace_one", "add_remove")
    if callable(variant) or relation == variant.get("neighboring", relation)
]
IDS = [f"{entry.name}{_named(variant)}-{where}" for entry, variant, where in CASES]
every_case = pytest.mark.parametrize(("entry", "variant", "relation"), CASES, ids=IDS)


def make(entry, variant, relation):
    variant = dict(variant(relation) if callable(variant) else variant)
    variant.pop("tables", None)
    made = entry.make(neighboring=relation, **entry.public)
    return made.set_params(**variant)


def data(entry, n=N_ROWS):
    X, y = table(entry, n=n)
    return Table(X, None if entry.task == "transform" else y)


def with_cells(change):
    """Tables whose features are a data frame of changed cells."""

    def convert(one):
        X = one.X.toarray() if hasattr(one.X, "toarray") else one.X
        return replace(one, X=pandas.DataFrame(change(X), columns=list("xyz")))

    return convert


def words(X):
    """Two categories, and missing cells in place of the text of the auditor."""
    cells = np.array(X, dtype=object)
    return np.array(
        [
            [None if isinstance(cell, str) else "ab"[int(cell > 0)] for cell in row]
            for row in cells
        ],
        dtype=object,
    ).reshape(cells.shape)


TABLES = {
    None: lambda one: one,
    "frame": with_cells(lambda X: X),
    "words": with_cells(words),
}


def inside_its_group(pair, constraint):
    """The last record is replaced inside its group, which is told beside X."""
    codes = np.arange(pair.first.n_rows) % 2
    y = pair.first.y if constraint == "equalized_odds" else pair.second.y
    return replace(
        pair,
        first=replace(pair.first, sensitive_features=codes),
        second=replace(pair.second, sensitive_features=codes, y=y),
    )


def pairs_of(entry, variant, relation):
    """Neighbouring tables that the estimator claims to hide."""
    one, estimator = data(entry), make(entry, variant, relation)
    pairs = audit.neighbours(one.X, one.y, neighboring=relation)
    convert = TABLES[dict(variant).get("tables") if not callable(variant) else None]
    pairs = [
        replace(pair, first=convert(pair.first), second=convert(pair.second))
        for pair in pairs
    ]
    if getattr(estimator, "group_sizes_public", False):
        pairs = [inside_its_group(pair, estimator.constraint) for pair in pairs]
    if relation == "add_remove" and any(
        name.endswith("base_guarantee") for name in estimator.get_params()
    ):
        # A constant stands in for a model without rows: see "The domain" in the
        # documentation, and `test_breaches`.
        pairs = [pair for pair in pairs if pair.second.n_rows > 3]
    less = [pair for pair in pairs if pair.name not in SIMILAR]
    is_first = variant is VARIANTS[entry.name][0]
    return pairs if is_first or len(less) < N_PAIRS else less


@every_case
def test_nothing_but_the_releases_tells_neighbours_apart(entry, variant, relation):
    pairs = pairs_of(entry, variant, relation)
    assert len(pairs) >= N_PAIRS
    report = audit.replay(make(entry, variant, relation), pairs)
    assert not report.findings, str(report)
    assert report.n_pairs == len(pairs)
    assert report.largest_ratio <= 1 + 1e-9
    seed, largest = 0, report.largest_ratio
    while largest < 0.1 and seed < 9:  # the draws put the record where nothing looks
        seed += 1
        again = audit.replay(
            make(entry, variant, relation), pairs[:2], random_state=seed
        )
        assert not again.findings, str(again)
        largest = again.largest_ratio
    assert largest > 0.1


SAMPLED = (PoissonGaussianEvent, WithoutReplacementGaussianEvent)


@every_case
def test_what_is_released_is_what_is_printed(entry, variant, relation):
    estimator = make(entry, variant, relation)
    pair = pairs_of(entry, variant, relation)[0]
    outcome = observed(clone(estimator), pair.first, 0)
    assert not outcome.error
    released = outcome.tape.releases
    events = list(_leaves(outcome.model.privacy_.events))
    mus = [r.parameter for r in released if r.kind == "gaussian"]
    if hasattr(outcome.model, "plan_"):
        if not any(event.kind == "declared" for event in events):
            assert _norm(mus) <= _norm(getattr(e, "mu", 0.0) for e in events)
        return the_search_spends_what_it_planned(outcome)
    sampled = [e for e in events if isinstance(e, SAMPLED)]
    draws = sum(r.exact.size for r in released if r.kind == "gaussian")
    planned = sum(e.n_draws for e in events if isinstance(e, (GaussianEvent, *SAMPLED)))
    for event in sampled:  # steps of a batch, at the cost of the whole table each
        steps = [m for m in mus if m == pytest.approx(1 / event.noise_multiplier)]
        assert len(steps) == event.steps
        mus = [m for m in mus if m not in steps]
    stated = _norm(e.mu for e in events if isinstance(e, GaussianEvent))
    # What a wrapped model will draw is estimated from above, and paid for in advance.
    delta, slack = outcome.model.privacy_.delta, 1e-4 if callable(variant) else 1e-8
    assert _norm(mus) == pytest.approx(stated, rel=slack)
    if delta:
        assert spent(mus, draws, delta) <= spent([stated], planned, delta) * (1 + 1e-9)
    pure = math.fsum(r.parameter for r in released if r.kind == "pure")
    stated = math.fsum(e.epsilon for e in events if isinstance(e, PureEvent))
    assert pure == pytest.approx(stated, rel=1e-8)
    assert draws <= planned
    return None


def spent(mus, n_draws, delta):
    return compose_epsilon([GaussianEvent(_norm(mus), n_draws)], delta)


def the_search_spends_what_it_planned(outcome):
    """All runs cost their share; `test_repeat` has what they cost together."""
    search, plan = outcome.model, outcome.model.plan_
    share = 1 - search.refit_fraction if search.refit else 1.0
    runs, closings = [[]], []
    for release in outcome.tape.releases:
        if release.kind == "choice" or release.parameter == plan.score_mu:
            closings.append(release.parameter)
            runs.append([])
        else:
            runs[-1].append(release)
    refit = runs.pop()
    if plan.method == "compose":
        assert len(runs) == 1 and closings == [plan.selection_epsilon]
        assert plan.selection_epsilon <= search.epsilon * share
        budget = search.epsilon * share, search.delta * share
    else:
        assert len(runs) >= 1 and set(closings) == {plan.score_mu}
        budget = plan.fit.epsilon, plan.fit.delta
    for releases in runs:  # fits and scores read different rows
        assert (
            0.99 * budget[0] < composed(releases, budget[1]) <= budget[0] * (1 + 1e-9)
        )
    rest = search.epsilon * (1 - share), search.delta * (1 - share)
    assert not refit or composed(refit, rest[1]) <= rest[0] * (1 + 1e-9)
    assert bool(refit) == search.refit


def composed(releases, delta):
    events = [
        GaussianEvent(one.parameter, one.exact.size)
        if one.kind == "gaussian"
        else PureEvent(one.parameter)
        for one in releases
    ]
    return compose_epsilon(events, delta)


def _leaves(events):
    for event in events:
        if event.kind == "maximum":
            yield from _leaves([*event.left, *event.right])
        else:
            yield event


def _norm(values):
    return math.sqrt(math.fsum(value**2 for value in values))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_earlier_or_interrupted_fit_leaves_nothing(entry):
    """Every variant after every other one, all the way and only part of it."""
    cases = [case for case in CASES if case[0] is entry and case[2] == "replace_one"]
    for before, now in zip([cases[-1], *cases], cases, strict=False):
        pair = pairs_of(*now)[0]
        first = observed(make(*now), pair.second, 3)
        assert not first.error

        def fitted_before(before=before, now=now):
            model = make(*before)
            observed(model, pairs_of(*before)[0].first, 4)
            assert hasattr(model, "privacy_")
            return become(model, make(*now))

        again = observed(fitted_before(), pair.second, 3)
        assert not leaf_differences(first.leaves, again.leaves)
        n_events = len(first.tape.releases) + len(first.tape.draws)
        for at in {0, n_events // 2, n_events - 1}:
            model = fitted_before()
            with pytest.raises(KeyboardInterrupt):
                observed(model, pair.second, 3, Tape(interrupt_at=at))
            assert not vars(model).keys() - model.get_params(deep=False).keys()


def become(model, other):
    """Change the parameters of an estimator to those of another."""
    return model.set_params(**other.get_params(deep=False))


@pytest.mark.parametrize(
    ("entry", "variant", "relation"),
    [case for case in CASES if case[1] in VARIANTS[case[0].name][::4]],
)
def test_an_exhausted_ledger_says_the_same_for_every_table(
    entry, variant, relation, monkeypatch
):
    """And no wrapped model is fitted."""
    pairs, estimator = (
        pairs_of(entry, variant, relation),
        make(entry, variant, relation),
    )
    stated = run(clone(estimator), pairs[0].first).model.privacy_.neighboring
    ledger, asked = PrivacyLedger(1.0, 1e-5), []
    ledger.spend(PrivacyGuarantee(1.0, 1e-5, stated, "all of it"))
    estimator.set_params(ledger=ledger)
    monkeypatch.setattr(guarded, "guarded", lambda call, *_, **__: asked.append(call))
    fitted = lambda model, *_, **__: asked.append(model)  # noqa: E731
    for base in (BernoulliNB, LinearRegression):
        monkeypatch.setattr(base, "fit", fitted)
    said, n_tables = set(), 0
    for pair in pairs:
        for one in (pair.first, pair.second):
            if pair.outside or hasattr(one.X, "toarray"):
                continue  # a format of the table is public, and may be refused
            outcome = run(clone(estimator), one)
            assert type(outcome.exception) is BudgetExceededError, outcome.error
            assert not hasattr(outcome.model, "privacy_")
            # Replacing a record leaves the number of rows as it is: it is public.
            n_rows = one.n_rows if relation == "replace_one" else None
            said.add((n_rows, outcome.error, outcome.texts))
            n_tables += 1
    assert n_tables >= 40 and not asked
    assert len(said) == len({n_rows for n_rows, *_ in said}), said
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_files_are_equal_up_to_identifiers_and_times(entry, relation, tmp_path):
    """What a ledger's file says of a fit is the same for neighbours."""
    case = entry, VARIANTS[entry.name][0], relation
    pair, told = pairs_of(*case)[0], []
    for i, one in enumerate((pair.first, pair.second)):
        path = tmp_path / str(i) / "ledger.sqlite"
        path.parent.mkdir()
        ledger = PrivacyLedger(1e6, 0.5, path=path)
        assert not run(make(*case).set_params(ledger=ledger), one).error
        (spend,) = ledger.spends()
        sizes = {file.name: file.stat().st_size for file in path.parent.iterdir()}
        told.append(({**spend, "time": None}, sizes))
    assert told[0] == told[1]
