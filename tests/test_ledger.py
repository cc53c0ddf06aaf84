"""The ledger: never overspent, never forgotten, whatever copies, kills or damages."""

import copy
import errno
import itertools
import json
import math
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV

from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PureEvent,
    ThresholdEvent,
    WithoutReplacementGaussianEvent,
    _loss_grid,
    calibrate_gaussian,
    calibrate_poisson,
    compose_epsilon,
    gaussian_mu,
)
from fairpriv_sklearn.accounting import _composition as _sums
from fairpriv_sklearn.accounting._composition import _epsilon_of
from fairpriv_sklearn.accounting._sides import _each_side
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLedger,
    _composition,
    _store,
)
from fairpriv_sklearn.privacy._composition import Composition
from fairpriv_sklearn.privacy._guarantee import UNIT_OF_PRIVACY

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "examples" / "benchmarks"


def guarantee(*events, neighboring="replace_one", delta=0.0, **options):
    return PrivacyGuarantee.from_events(
        events, delta=delta, neighboring=neighboring, mechanism="noise", **options
    )


PURE = guarantee(PureEvent(1.0))


def spend_until_refused(ledger, fit, at_most=100):
    for number in range(at_most):
        try:
            ledger.spend(fit, label=f"fit {number}")
        except BudgetExceededError:
            return number
    return at_most


@pytest.fixture(params=["memory", "SQLite"])
def new_ledger(request, tmp_path):
    """Make ledgers of one kind, each in a file of its own."""
    paths = (tmp_path / f"ledger {number}?#.db" for number in range(100))

    def make(epsilon, delta=0.0, **options):
        path = None if request.param == "memory" else next(paths)
        return PrivacyLedger(epsilon, delta, path, **options)

    return make


@pytest.fixture
def path(tmp_path):
    return tmp_path / "privacy.ledger"


# --- The cap --------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_sixth_of_ten_pure_fits_is_refused(new_ledger, delta):
    ledger = new_ledger(5, delta)
    assert spend_until_refused(ledger, PURE, 10) == 5
    assert len(ledger.spends()) == 5
    assert ledger.total() == (compose_epsilon([PureEvent(1.0)] * 5, delta), delta)


def test_rounding_refuses_nobody_and_admits_nobody(new_ledger):
    assert spend_until_refused(new_ledger(1.0), guarantee(PureEvent(0.1))) == 10
    assert spend_until_refused(new_ledger(1.0 - 1e-8), guarantee(PureEvent(0.1))) == 9
    assert spend_until_refused(new_ledger(0.3), guarantee(PureEvent(0.1))) == 3


def test_a_calibrated_fit_fits_under_a_cap_of_its_own_size(new_ledger):
    mu = calibrate_gaussian(1.0, 1e-5, n_draws=5000)
    assert (
        spend_until_refused(
            new_ledger(1.0, 1e-5), guarantee(GaussianEvent(mu, 5000), delta=1e-5)
        )
        == 1
    )
    multiplier = calibrate_poisson(1.0, 1e-5, 0.05, 20)
    sampled = PoissonGaussianEvent(0.05, multiplier, 20)
    sampled = guarantee(sampled, delta=1e-5, neighboring="add_remove")
    assert spend_until_refused(new_ledger(1.0, 1e-5), sampled) == 1


def test_gaussian_fits_are_composed_tightly(new_ledger):
    mu = calibrate_gaussian(1.0, 1e-5)
    ledger = new_ledger(4.0, 1e-5)
    # mu grows with the root of the number of fits: more fit than 4.
    allowed = int((calibrate_gaussian(4.0, 1e-5) / mu) ** 2)
    assert allowed > 8
    assert spend_until_refused(ledger, guarantee(GaussianEvent(mu, 0), delta=1e-5)) == (
        allowed
    )
    expected = compose_epsilon([GaussianEvent(mu * math.sqrt(allowed), 0)], 1e-5)
    assert ledger.total().epsilon == pytest.approx(expected, rel=1e-9)


def test_equal_sampled_fits_are_composed_as_more_steps(new_ledger):
    ledger = new_ledger(3.0, 1e-5)
    part = PoissonGaussianEvent(0.05, 1.5, 20)
    for _ in range(3):
        ledger.spend(guarantee(part, delta=1e-5, neighboring="add_remove"))
    other = PoissonGaussianEvent(0.1, 2.0, 5)
    ledger.spend(guarantee(other, delta=1e-5, neighboring="add_remove"))
    together = [PoissonGaussianEvent(0.05, 1.5, 60), PoissonGaussianEvent(0.1, 2.0, 5)]
    assert ledger.total().epsilon == compose_epsilon(together, 1e-5)


def test_gaussian_fits_need_a_delta(new_ledger):
    with pytest.raises(BudgetExceededError, match="asks for epsilon = inf at delta"):
        new_ledger(100.0, 0.0).spend(guarantee(GaussianEvent(0.1, 0), delta=1e-5))


def test_declared_deltas_add_up_to_the_cap(new_ledger):
    fit = PrivacyGuarantee(0.1, 4e-6, "replace_one", "elsewhere")
    assert spend_until_refused(new_ledger(5, 1e-5), fit) == 2


def test_infinite_price_needs_an_infinite_cap(new_ledger):
    free = guarantee(GaussianEvent(math.inf, 0), delta=1e-5)
    assert free.epsilon == math.inf
    with pytest.raises(BudgetExceededError):
        new_ledger(1e9, 1e-5).spend(free)
    unlimited = new_ledger(math.inf, 1e-5)
    unlimited.spend(free)
    unlimited.spend(PURE)
    assert unlimited.total() == (math.inf, 1e-5)
    assert unlimited.remaining() == (math.inf, 1e-5)
    assert [spend["epsilon"] for spend in unlimited.spends()] == [math.inf, 1.0]


def test_an_uncovered_fit_pays_for_its_covered_phase(new_ledger):
    ledger = new_ledger(2.5)
    half = guarantee(PureEvent(1.0), uncovered=["estimator"])
    assert half.epsilon == math.inf
    ledger.spend(half)
    (spend,) = ledger.spends()
    assert spend["epsilon"] == 1.0 and spend["uncovered"] == ("estimator",)
    assert ledger.total().epsilon == 1.0
    unknown = PrivacyGuarantee(math.inf, 0.0, "replace_one", "", uncovered=("all",))
    with pytest.raises(BudgetExceededError):
        ledger.spend(unknown)
    ledger.spend(PURE.compose(unknown))  # beside a phase that is covered: left out
    assert ledger.total().epsilon == 2.0 and ledger.spends()[1]["uncovered"] == ("all",)


def test_a_refusal_speaks_in_public_numbers_and_records_nothing(new_ledger):
    ledger = new_ledger(2.5)
    with pytest.raises(BudgetExceededError) as first:
        ledger.spend(guarantee(PureEvent(3.0)))
    assert "With epsilon = 0 already spent" in str(first.value)
    ledger.spend(PURE)
    with pytest.raises(BudgetExceededError) as second:
        ledger.spend(guarantee(PureEvent(2.0)))
    assert str(second.value) == (
        "This fit asks for epsilon = 2 at delta = 0. With epsilon = 1 already spent "
        "the total would be epsilon = 3, above the cap of epsilon = 2.5. Nothing was "
        "spent."
    )
    assert len(ledger.spends()) == 1
    ledger.spend(guarantee(PureEvent(1.5)))
    error = pickle.loads(pickle.dumps(second.value))
    assert type(error) is BudgetExceededError and str(error) == str(second.value)


def test_relations_do_not_mix_in_one_data_set(new_ledger):
    ledger = new_ledger(5)
    ledger.spend(PURE)
    other = guarantee(PureEvent(1.0), neighboring="add_remove")
    with pytest.raises(ValueError, match="Fit all models with the same"):
        ledger.spend(other)
    assert len(ledger.spends()) == 1
    ledger.for_dataset("other").spend(other)


simple_fits = st.one_of(
    st.builds(lambda e: (PureEvent(e),), st.floats(1e-3, 2)),
    st.builds(lambda mu, n: (GaussianEvent(mu, n),), st.floats(1e-3, 1), st.just(50)),
    st.builds(
        lambda e, d: (DeclaredEvent(e, d),), st.floats(1e-3, 1), st.floats(0, 6e-6)
    ),
    st.builds(
        lambda e, mu: (MaximumEvent((PureEvent(e),), (GaussianEvent(mu, 0),)),),
        st.floats(1e-3, 1),
        st.floats(1e-3, 1),
    ),
)


@example(  # the side of the largest variance is not the dearest
    2.0,
    1e-9,
    [
        (MaximumEvent((PureEvent(1.0),), (GaussianEvent(0.25, 0),)),),
        (MaximumEvent((PureEvent(0.5),), (GaussianEvent(0.125, 0),)),),
    ],
)
@settings(max_examples=60)
@given(
    st.floats(0.1, 5),
    st.sampled_from([0.0, 1e-9, 1e-5, 0.1]),
    st.lists(simple_fits, max_size=6),
)
def test_what_was_accepted_never_passes_the_cap(epsilon, delta, fits):
    ledger = PrivacyLedger(epsilon, delta)
    accepted = []
    for parts in fits:
        fit = guarantee(*parts, delta=1e-5)
        alone = compose_epsilon([*accepted, *parts], delta)
        try:
            ledger.spend(fit)
        except BudgetExceededError:
            assert alone > epsilon  # nothing is refused that would have fitted
        else:
            accepted += parts
            assert alone <= epsilon * (1 + 2e-9)
    assert len(ledger.spends()) <= len(fits)
    assert ledger.total().epsilon <= epsilon
    expected = min(compose_epsilon(accepted, delta), epsilon)
    assert expected * (1 - 1e-9) <= ledger.total().epsilon <= 1.01 * expected + 1e-12


def test_one_split_costs_what_its_dearer_side_does():
    ledger = PrivacyLedger(2.0, 1e-5)
    mu = calibrate_gaussian(1.0, 1e-5)
    ledger.spend(
        guarantee(MaximumEvent((PureEvent(1.0),), (GaussianEvent(mu, 0),)), delta=1e-5)
    )
    assert ledger.total().epsilon == pytest.approx(1.0, rel=1e-6)


# --- Reading it -----------------------------------------------------------------------


def test_spends_are_listed_in_full(new_ledger):
    ledger = new_ledger(5, 1e-5)
    fit = guarantee(
        GaussianEvent(0.1, 7),
        delta=1e-6,
        assumptions=["groups"],
        noise_is_secure=False,
    )
    ledger.spend(fit, label="first")
    ledger.spend(PURE)
    first, second = ledger.spends()
    assert first.pop("time") <= second.pop("time")
    assert first == {
        "dataset": "default",
        "label": "first",
        "epsilon": fit.epsilon,
        "delta": 1e-6,
        "neighboring": "replace_one",
        "mechanism": "noise",
        "events": (GaussianEvent(0.1, 7),),
        "assumptions": ("groups", UNIT_OF_PRIVACY),
        "conditional_on": (),
        "uncovered": (),
        "noise_is_secure": False,
    }
    assert second["label"] == "" and second["epsilon"] == 1.0
    first["events"] = None
    assert ledger.spends()[0]["events"] is not None


def test_frame_and_markdown(new_ledger):
    ledger = new_ledger(5)
    assert list(ledger.to_frame().columns)[:4] == [
        "dataset",
        "label",
        "time",
        "epsilon",
    ]
    assert len(ledger.to_frame()) == 0
    assert "epsilon = 0 of 5 spent" in ledger.to_markdown()
    ledger.spend(PURE, label="a|b")
    ledger.spend(guarantee(PureEvent(0.5), uncovered=["base"]), label="second")
    assert list(ledger.to_frame()["epsilon"]) == [1.0, 0.5]
    text = ledger.to_markdown()
    assert "epsilon = 1.5 of 5 spent at delta = 0, 3.5 left" in text
    assert "| 1 | a\\|b | 1 | 0 | replace_one | noise | nothing | 20" in text
    assert "| 2 | second | 0.5 | 0 | replace_one | noise | base | 20" in text
    seeded = PURE.qualified(noise_is_secure=False, conditional_on=["groups"])
    ledger.spend(seeded)
    assert "| noise | groups, noise from a seed | 20" in ledger.to_markdown()


def test_prices_are_shown_no_lower_than_they_are(new_ledger):
    ledger = new_ledger(2.0, 1e-5)
    fit = PrivacyGuarantee(1.0001, 1.00001e-6, "replace_one", "")
    ledger.spend(fit)
    assert "| 1.001 | 1.001e-06 |" in ledger.to_markdown()
    with pytest.raises(BudgetExceededError) as said:
        ledger.spend(fit)
    assert "asks for epsilon = 1.001 at delta" in str(said.value)
    assert "With epsilon = 1.001 already spent" in str(said.value)
    assert "would be epsilon = 2.001, above the cap of epsilon = 2." in str(said.value)


def test_what_is_asked_before_the_first_step_spends_is_refused_alike(new_ledger):
    ledger = new_ledger(1.5)
    for spent in (0.0, 1.0):
        ledger._refuse_beyond(guarantee(PureEvent(1.5 - spent)))
        with pytest.raises(BudgetExceededError, match=f"epsilon = {spent:g} already"):
            ledger._refuse_beyond(guarantee(PureEvent(1.6 - spent)))
        assert ledger.total().epsilon == spent
        if not spent:
            ledger.spend(PURE)


def test_remaining_is_accepted_and_more_is_not(new_ledger):
    ledger = new_ledger(3.0)
    assert ledger.total() == (0.0, 0.0) and ledger.remaining() == (3.0, 0.0)
    ledger.spend(PURE)
    assert ledger.remaining() == (2.0, 0.0)
    with pytest.raises(BudgetExceededError):
        ledger.spend(guarantee(PureEvent(2.0 + 1e-6)))
    ledger.spend(guarantee(PureEvent(ledger.remaining().epsilon)))
    assert ledger.remaining().epsilon == 0.0


def test_remaining_leaves_out_the_delta_of_declared_guarantees(new_ledger):
    declared = DeclaredEvent(1.0, 4e-6)
    ledger = new_ledger(3.0, 1e-5)
    ledger.spend(guarantee(MaximumEvent([declared], [PureEvent(1.5)]), delta=1e-5))
    left = ledger.remaining()
    assert left == (pytest.approx(1.5, rel=1e-4), pytest.approx(6e-6, rel=1e-12))
    with pytest.raises(BudgetExceededError):
        mu = gaussian_mu(1.01 * left.epsilon + 0.5, left.delta)
        ledger.spend(guarantee(GaussianEvent(mu, 0), delta=1e-5))
    ledger.spend(guarantee(GaussianEvent(gaussian_mu(*left), 0), delta=1e-5))
    all_of_delta = new_ledger(3.0, 1e-5)
    all_of_delta.spend(guarantee(DeclaredEvent(1.0, 1e-5), delta=1e-5))
    assert all_of_delta.remaining() == (2.0, 0.0)
    all_of_delta.spend(guarantee(PureEvent(2.0), delta=1e-5))


def test_datasets_add_up_separately_under_one_cap(new_ledger):
    ledger = new_ledger(2)
    north, south = ledger.for_dataset("north"), ledger.for_dataset("south")
    assert ledger.datasets() == []
    assert spend_until_refused(north, PURE) == 2
    assert spend_until_refused(south, PURE) == 2
    ledger.spend(PURE)
    assert ledger.total().epsilon == 1.0 and len(ledger.spends()) == 1
    assert ledger.datasets() == ["default", "north", "south"] == south.datasets()
    # The view is of the same account, however it was reached.
    assert south.for_dataset("north").total() == north.total() == (2.0, 0.0)
    assert south.for_dataset("default").total() == ledger.total()
    assert {spend["dataset"] for spend in north.spends()} == {"north"}
    assert "'north'" in north.to_markdown()
    assert north.dataset == "north" and (north.epsilon, north.delta) == (2.0, 0.0)
    for name in ("", None, 3):
        with pytest.raises(ValueError, match="name must be a string"):
            ledger.for_dataset(name)


def test_repr(new_ledger):
    ledger = new_ledger(2, 1e-5)
    text = repr(ledger.for_dataset("x"))
    assert text.startswith("PrivacyLedger(epsilon=2.0, delta=1e-05")
    assert text.endswith(").for_dataset('x')")
    assert (f"path={ledger.path!r}" in text) == (ledger.path is not None)
    assert "for_dataset" not in repr(ledger)


@pytest.mark.parametrize(
    "cap", [(-1, 0), (math.nan, 0), ("1", 0), (1, -0.1), (1, 1.1), (1, math.nan)]
)
def test_bad_caps_raise(cap):
    with pytest.raises((TypeError, ValueError), match="must be"):
        PrivacyLedger(*cap)


def test_only_guarantees_are_spent(new_ledger):
    with pytest.raises(TypeError, match="must be a PrivacyGuarantee, got 1.0"):
        new_ledger(5).spend(1.0)


# --- Mirror ---------------------------------------------------------------------------


class Accountant:
    """Speaks like diffprivlib's BudgetAccountant."""

    def __init__(self, epsilon=math.inf):
        self.epsilon, self.spent = epsilon, []

    def spend(self, epsilon, delta):
        if sum(spent for spent, _ in self.spent) + epsilon > self.epsilon:
            raise RuntimeError("accountant says no")
        self.spent.append((epsilon, delta))


def test_spends_are_mirrored(new_ledger):
    mirror, other = Accountant(), Accountant()
    ledger = new_ledger(3, 1e-5, mirror=mirror)
    ledger.spend(PURE)
    clone(ledger).spend(guarantee(PureEvent(0.5), delta=0.0, uncovered=["base"]))
    assert mirror.spent == [(1.0, 0.0), (0.5, 0.0)]
    with pytest.raises(BudgetExceededError):
        ledger.spend(guarantee(PureEvent(2.0)))
    assert len(mirror.spent) == 2
    ledger.for_dataset("x").spend(PURE)
    ledger.for_dataset("x", mirror=other).spend(PURE)
    assert len(mirror.spent) == 2 and other.spent == [(1.0, 0.0)]


@pytest.mark.parametrize(("delta", "is_told"), [(2e-6, True), (1e-6, False)])
def test_deltas_that_add_up_to_more_than_the_ledgers_are_told(delta, is_told):
    """Two searches at the ledger's own delta have no epsilon there together."""
    events = [DeclaredEvent(1.0, delta)]
    told = {"neighboring": "replace_one", "mechanism": "a search"}
    fit = PrivacyGuarantee.from_events(events, delta=delta, **told)
    ledger = PrivacyLedger(1.5, 2e-6)
    ledger.spend(fit)
    with pytest.raises(BudgetExceededError) as said:
        ledger.spend(fit)
    assert ("a part of the ledger's delta" in str(said.value)) == is_told
    alone = PrivacyGuarantee.from_events([DeclaredEvent(0.1, 3e-6)], delta=3e-6, **told)
    for spent in (PrivacyLedger(1.5, 2e-6), ledger):  # no part of it is enough
        with pytest.raises(BudgetExceededError) as said:
            spent.spend(alone)
        assert "a part of" not in str(said.value)


def test_a_spend_is_listed_at_what_its_guarantee_states(new_ledger):
    """What is stated may be more than the events cost, and a mirror is told so."""
    mirror = Accountant()
    ledger = new_ledger(3.0, mirror=mirror)
    ledger.spend(PrivacyGuarantee(2.0, 0.0, "replace_one", "", PURE.events))
    (spend,) = ledger.spends()
    assert spend["epsilon"] == 2.0 and mirror.spent == [(2.0, 0.0)]
    assert ledger.total() == (1.0, 0.0)


def test_a_mirror_that_refuses_stops_the_spend(new_ledger):
    ledger = new_ledger(3, mirror=Accountant(1.0))
    ledger.spend(PURE)
    with pytest.raises(RuntimeError, match="accountant says no"):
        ledger.spend(PURE)
    assert len(ledger.spends()) == 1 and ledger.total().epsilon == 1.0


def test_a_spend_in_the_midst_of_another_is_not_forgotten():
    """As a mirror may begin one, or a handler of signals: the lock lets it in."""

    class Once:
        told = 0

        def spend(self, epsilon, delta):
            self.told += 1
            if self.told == 1:
                ledger.spend(PURE, label="inner")

    ledger = PrivacyLedger(3, mirror=Once())
    with pytest.raises(RuntimeError, match="in the midst of a spend"):
        ledger.spend(PURE, label="outer")
    assert ledger.total().epsilon == 1.0
    assert [spend["label"] for spend in ledger.spends()] == ["inner"]
    ledger.spend(PURE)
    assert ledger.total().epsilon == len(ledger.spends()) == 2


@pytest.mark.parametrize("path", ["ledger", "link"])
def test_a_spend_in_the_midst_of_another_of_one_file_is_refused(
    tmp_path, path, monkeypatch
):
    """It would wait five minutes for the file, which waits for it."""
    monkeypatch.setattr(_store, "_BUSY_SECONDS", 0.1)
    ledger = PrivacyLedger(3, path=tmp_path / "ledger")
    (tmp_path / "link").symlink_to(tmp_path / "ledger")
    inner, other = PrivacyLedger(3, path=tmp_path / path), PrivacyLedger(3)
    seen = []

    def of_mirror(epsilon, delta):
        seen.append(inner.total().epsilon)
        other.spend(PURE)
        inner.spend(PURE)

    mirrored = ledger.for_dataset("default", mirror=SimpleNamespace(spend=of_mirror))
    with pytest.raises(RuntimeError, match="in the midst of a spend.*cannot spend"):
        mirrored.spend(PURE)
    assert seen == [0.0] and ledger.spends() == [] and len(other.spends()) == 1
    ledger.spend(PURE)
    assert inner.total().epsilon == 1.0


def test_a_spend_in_the_midst_of_a_reading_of_the_file_is_refused(
    tmp_path, monkeypatch
):
    """As a handler of signals may begin one; the reader keeps the file meanwhile."""
    monkeypatch.setattr(_store, "_BUSY_SECONDS", 0.1)
    ledger = PrivacyLedger(3, path=tmp_path / "ledger")
    with ledger._store._transaction():
        with pytest.raises(RuntimeError, match="cannot spend"):
            ledger.spend(PURE)
        thread = threading.Thread(target=ledger.spend, args=(PURE,))
        thread.start()  # waits for its turn
    thread.join()
    assert len(ledger.spends()) == 1


def test_a_mirror_must_be_able_to_spend(new_ledger):
    with pytest.raises(TypeError, match="must have a method spend"):
        new_ledger(3, mirror=object())
    with pytest.raises(TypeError, match="must have a method spend"):
        new_ledger(3).for_dataset("x", mirror=SimpleNamespace(spend=3))


def test_diffprivlib_accountant_as_mirror():
    diffprivlib = pytest.importorskip(
        "diffprivlib.accountant", exc_type=ImportError, reason="too new a scikit-learn"
    )
    accountant = diffprivlib.BudgetAccountant(2.0, 1e-4)
    ledger = PrivacyLedger(5, 1e-5, mirror=accountant)
    ledger.spend(PURE)
    ledger.spend(guarantee(GaussianEvent(0.1, 0), delta=1e-6))
    assert accountant.spent_budget[0] == (1.0, 0.0)
    with pytest.raises(diffprivlib.BudgetError):
        ledger.spend(PURE)
    assert len(ledger.spends()) == 2


# --- Copies, threads, processes -------------------------------------------------------


def test_copies_are_the_same_ledger(new_ledger):
    view = new_ledger(2).for_dataset("x")
    for same in (clone(view), copy.copy(view), copy.deepcopy(view)):
        assert same is view
    assert copy.deepcopy({"ledger": view})["ledger"] is view


def test_memory_cannot_be_pickled():
    with pytest.raises(RuntimeError, match=r"path=\.\.\."):
        pickle.dumps(PrivacyLedger(2))
    with pytest.raises(RuntimeError, match=r"path=\.\.\."):
        pickle.dumps({"a": PrivacyLedger(2).for_dataset("x")})
    model = DPLinearRegression(
        target_bounds=(0, 1), epsilon=1.0, ledger=PrivacyLedger(2, 1e-5)
    ).fit([[0.0], [1.0]] * 50, [0.0, 1.0] * 50)
    with pytest.raises(RuntimeError, match=r"set_params\(ledger=None\)"):
        pickle.dumps(model)
    again = pickle.loads(pickle.dumps(model.set_params(ledger=None)))
    assert again.predict([[0.5]]) == model.predict([[0.5]])
    assert again.privacy_ == model.privacy_


def test_memory_cannot_be_spent_after_a_fork(monkeypatch):
    ledger = PrivacyLedger(2)
    ledger.spend(PURE)
    parent = os.getpid()
    monkeypatch.setattr(_store.os, "getpid", lambda: parent + 1)
    with pytest.raises(RuntimeError, match=r"path=\.\.\."):
        ledger.spend(PURE)


def test_a_pickle_spends_from_the_same_file(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    ledger = PrivacyLedger(3, 0.0, path.name, mirror=Accountant()).for_dataset("x")
    ledger.spend(PURE)
    data = pickle.dumps(ledger)
    monkeypatch.chdir("/")
    other = pickle.loads(data)
    assert other.path == str(path) and other.dataset == "x"
    other.spend(PURE)
    assert ledger.total() == other.total() == (2.0, 0.0)
    ledger.spend(PURE)
    with pytest.raises(BudgetExceededError):
        other.spend(PURE)


def test_threads_share_a_budget(new_ledger):
    ledger = new_ledger(20)
    accepted = []

    def work():
        accepted.append(spend_until_refused(ledger, PURE, 6))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(accepted) == 20 == len(ledger.spends())
    assert ledger.total().epsilon == 20.0


class Spender(ClassifierMixin, BaseEstimator):
    """The smallest estimator with a ledger."""

    def __init__(self, alpha=1, ledger=None):
        self.alpha, self.ledger = alpha, ledger

    def fit(self, X, y):
        self.ledger.spend(PURE, label=f"alpha {self.alpha}")
        self.classes_ = [0, 1]
        return self

    def predict(self, X):
        return [0] * len(X)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_grid_search_pays_for_all_its_fits(path, n_jobs):
    ledger = PrivacyLedger(10, 0.0, path)
    search = GridSearchCV(
        Spender(ledger=ledger), {"alpha": [1, 2, 3]}, cv=3, n_jobs=n_jobs
    )
    X, y = [[number] for number in range(12)], [0, 1] * 6
    search.fit(X, y)
    labels = [spend["label"] for spend in ledger.spends()]
    assert sorted(labels[:9]) == sorted(["alpha 1", "alpha 2", "alpha 3"] * 3)
    assert labels[9:] == ["alpha 1"]
    assert search.best_estimator_.ledger is ledger
    with pytest.raises(BudgetExceededError):
        search.best_estimator_.fit(X, y)


def run(code, *arguments):
    """Run code in a fresh interpreter that can fork; return what it printed as JSON."""
    paths = [str(ROOT), str(BENCHMARKS), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@needs_fork
def test_sixteen_processes_never_overspend(tmp_path):
    code = """
import json, os, sys
import ledger_stress
folders = [os.path.join(sys.argv[1], str(number)) for number in range(2)]
for folder in folders:
    os.mkdir(folder)
print(json.dumps([ledger_stress.race(folder) for folder in folders]))
"""
    for result in run(code, tmp_path):
        assert result["answers"] == 32
        assert result["accepted"] == 2
        assert result["recorded"] == 5
        assert result["epsilon"] == compose_epsilon([PureEvent(1.0)] * 5, 1e-5)


@needs_fork
def test_kill_9_loses_no_acknowledged_spend(tmp_path):
    code = """
import json, os, sys
import ledger_stress
results = []
for number, seconds in enumerate([0.1, 0.2]):
    folder = os.path.join(sys.argv[1], str(number))
    os.mkdir(folder)
    results.append(ledger_stress.kill(folder, seconds))
print(json.dumps(results))
"""
    results = run(code, tmp_path)
    assert sum(result["acknowledged"] for result in results) > 0
    for result in results:
        assert result["lost"] == 0
        assert result["twice"] == 0
        assert result["unacknowledged"] <= 4  # one per process
        assert result["recorded"] == result["acknowledged"] + result["unacknowledged"]
        assert result["sound"]


@needs_fork
def test_forks_amid_the_spends_of_other_threads(path):
    code = """
import json, os, sys, threading
from fairpriv_sklearn.accounting import PureEvent
from fairpriv_sklearn.privacy import PrivacyGuarantee, PrivacyLedger
fit = PrivacyGuarantee(0.01, 0.0, "replace_one", "counts", (PureEvent(0.01),))
ledger = PrivacyLedger(100, 0.0, sys.argv[1])
memory = PrivacyLedger(100)
stop = threading.Event()
def spend():
    while not stop.is_set():
        ledger.spend(fit, label="parent")
threads = [threading.Thread(target=spend) for _ in range(3)]
for thread in threads:
    thread.start()
codes = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        ledger.spend(fit, label="child")
        try:
            memory.spend(fit)
        except RuntimeError:
            os._exit(7)
        os._exit(1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
labels = [spend["label"] for spend in ledger.spends()]
print(json.dumps([codes, labels.count("child"), len(labels), ledger.total().epsilon]))
"""
    codes, n_children, n_spends, epsilon = run(code, path)
    assert codes == [7] * 5
    assert n_children == 5
    assert epsilon == pytest.approx(0.01 * n_spends)


@needs_fork
def test_an_interrupt_while_a_fork_waits_for_a_spend_locks_nothing(path):
    code = """
import faulthandler, json, os, signal, sys, threading, time
from fairpriv_sklearn.accounting import PureEvent
from fairpriv_sklearn.privacy import PrivacyGuarantee, PrivacyLedger
faulthandler.dump_traceback_later(60, exit=True)
inside = threading.Event()
class Mirror:
    def spend(self, epsilon, delta):
        inside.set()
        time.sleep(0.6)
fit = PrivacyGuarantee(0.5, 0.0, "replace_one", "counts", (PureEvent(0.5),))
ledger = PrivacyLedger(10, 0.0, sys.argv[1], mirror=Mirror())
other = PrivacyLedger(10, 0.0, sys.argv[1])
thread = threading.Thread(target=ledger.spend, args=(fit,))
thread.start()
inside.wait()
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
child = os.fork()
if child == 0:
    other.spend(fit)
    os._exit(7)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
thread.join()
other.spend(fit)
print(json.dumps([codes, other.total().epsilon]))
"""
    assert run(code, path) == [[7], 1.5]


# --- The file -------------------------------------------------------------------------


def test_an_existing_ledger_is_resumed_with_its_own_cap_only(path):
    PrivacyLedger(3, 1e-5, path).spend(PURE)
    ledger = PrivacyLedger(3.0, 1e-5, os.fspath(path))
    assert len(ledger.spends()) == 1
    for cap in [(4, 1e-5), (3, 0.0), (2, 1e-5)]:
        with pytest.raises(ValueError, match="Resume it with its own cap"):
            PrivacyLedger(*cap, path)
    assert PrivacyLedger(math.inf, 0.0, path.with_suffix(".other")).epsilon == math.inf


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes there")
def test_a_file_may_have_a_name_that_is_no_utf_8(tmp_path):
    name = os.fsdecode(b"caf\xe9 ?#%41")
    PrivacyLedger(2, path=tmp_path / name).spend(PURE)
    assert name in os.listdir(tmp_path)
    again = pickle.loads(pickle.dumps(PrivacyLedger(2, path=tmp_path / name)))
    assert again.total() == (1.0, 0.0)


def test_a_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        PrivacyLedger(1, 0.0, tmp_path / "nowhere" / "ledger")


def test_creation_never_replaces_a_file_that_came_first(path, monkeypatch):
    rival = PrivacyLedger(2, 0.0, path)
    rival.spend(PURE)
    # The loser of a race saw no file when it looked.
    monkeypatch.setattr(_store.os.path, "lexists", lambda path: False)
    ledger = PrivacyLedger(2, 0.0, path)
    assert ledger.total().epsilon == 1.0
    assert [entry.name for entry in path.parent.iterdir()] == [
        entry.name for entry in path.parent.iterdir() if "ledger" in entry.name[1:]
    ]
    assert not list(path.parent.glob(".ledger-*"))


def each_use(ledger):
    return [
        lambda: ledger.spend(PURE),
        ledger.spends,
        ledger.total,
        ledger.remaining,
        ledger.datasets,
        ledger.to_markdown,
        lambda: pickle.loads(pickle.dumps(ledger)).spend(PURE),
        lambda: ledger.for_dataset("new").spend(PURE),
    ]


def test_a_missing_file_is_never_made_anew(path):
    ledger = PrivacyLedger(3, 0.0, path)
    ledger.spend(PURE)
    path.unlink()
    for use in each_use(ledger):
        with pytest.raises(FileNotFoundError, match="missing. It is not made anew"):
            use()
    assert not path.exists()
    path.symlink_to(path.parent / "nowhere")
    with pytest.raises(FileNotFoundError, match="missing"):
        PrivacyLedger(3, 0.0, path)


def test_a_file_that_vanishes_while_it_is_opened_is_not_made_anew(path, monkeypatch):
    ledger = PrivacyLedger(3, 0.0, path)
    path.unlink()
    monkeypatch.setattr(_store.os.path, "exists", lambda path: True)
    with pytest.raises(RuntimeError, match="cannot be used: unable to open"):
        ledger.spend(PURE)
    assert not path.is_file()


def test_another_ledger_in_its_place_raises(path, tmp_path):
    ledger = PrivacyLedger(3, 0.0, path)
    ledger.spend(PURE)
    other = PrivacyLedger(3, 0.0, tmp_path / "other")
    os.replace(other.path, path)
    for use in each_use(ledger):
        with pytest.raises(RuntimeError, match="another ledger than the one"):
            use()


def test_an_older_copy_raises(path, tmp_path):
    ledger = PrivacyLedger(3, 0.0, path)
    ledger.spend(PURE)
    shutil.copy(path, tmp_path / "copy")
    ledger.spend(PURE)
    os.replace(tmp_path / "copy", path)
    for use in each_use(ledger):
        with pytest.raises(RuntimeError, match="older copy"):
            use()


def other_database(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE spends (id)")
    connection.close()


@pytest.mark.parametrize(
    "replace",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("epsilon,delta\n1,0\n" * 200),
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: (path.unlink(), other_database(path)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["empty", "text", "header", "half", "database", "folder"],
)
def test_a_foreign_or_cut_file_raises_and_is_left_alone(path, replace):
    ledger = PrivacyLedger(3, 0.0, path)
    ledger.spend(PURE)
    replace(path)
    before = path.read_bytes() if path.is_file() else None
    for use in [*each_use(ledger), lambda: PrivacyLedger(3, 0.0, path)]:
        with pytest.raises(
            RuntimeError, match="damaged|not the file of|cannot be used"
        ):
            use()
    assert before == (path.read_bytes() if path.is_file() else None)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE totals SET composition = replace(composition, '1.0', '0.0')",
        "UPDATE spends SET record = replace(record, 'fit', 'fat')",
        "DELETE FROM spends WHERE id = 3",
        "DELETE FROM spends WHERE id = 2",
        "DELETE FROM spends",
        "UPDATE spends SET id = 9 WHERE id = 1",
        "DELETE FROM ledger",
    ],
)
def test_edited_spends_are_noticed(path, statement):
    ledger = PrivacyLedger(5, 0.0, path)
    spend_until_refused(ledger, PURE, 3)
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(RuntimeError, match="damaged"):
        PrivacyLedger(5, 0.0, path).spends()


def test_no_flipped_byte_makes_it_forget(path, tmp_path):
    ledger = PrivacyLedger(5, 0.0, path)
    spend_until_refused(ledger, PURE, 3)
    content = path.read_bytes()
    damaged = tmp_path / "damaged"
    noticed = 0
    for offset in range(0, len(content), 5):
        if not content[offset]:
            continue  # mostly free space
        flipped = bytearray(content)
        flipped[offset] ^= 0xFF
        damaged.write_bytes(flipped)
        try:
            resumed = PrivacyLedger(5, 0.0, damaged)
            assert resumed.total().epsilon == 3.0
            assert len(resumed.spends()) == 3
        except (RuntimeError, ValueError):
            noticed += 1
    assert noticed > 100


def test_a_locked_file_says_so(path, monkeypatch):
    monkeypatch.setattr(_store, "_BUSY_SECONDS", 0.05)
    ledger = PrivacyLedger(5, 0.0, path)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(RuntimeError, match="cannot be used: database is locked"):
        ledger.spend(PURE)
    blocker.execute("ROLLBACK")
    blocker.close()
    ledger.spend(PURE)
    assert ledger.total().epsilon == 1.0


def test_a_full_disk_forgets_nothing_and_says_so(path, monkeypatch):
    """SQLite then says what it says where the disk has no room for one page more."""
    ledger = PrivacyLedger(1e6, 0.0, path)
    n_pages = path.stat().st_size // 4096 + 4

    def without_room(connection, honest=_store._make_durable):
        honest(connection)
        connection.execute(f"PRAGMA max_page_count = {n_pages}")

    monkeypatch.setattr(_store, "_make_durable", without_room)
    n_spends = 0
    with pytest.raises(RuntimeError, match="cannot be used: database or disk is full"):
        for n_spends in range(1000):  # noqa: B007
            ledger.spend(PURE)
    assert 0 < n_spends == len(ledger.spends()) == ledger.total().epsilon
    n_pages = 2
    with pytest.raises(RuntimeError, match="cannot be made: database or disk is full"):
        PrivacyLedger(5, 0.0, path.with_name("new"))
    assert {file.name.partition("-")[0] for file in path.parent.iterdir()} == {
        path.name
    }
    monkeypatch.undo()
    ledger.spend(PURE)
    assert ledger.total().epsilon == n_spends + 1


# --- Speed ----------------------------------------------------------------------------


def test_a_spend_stays_cheap_after_many(new_ledger):
    """Time on a CPU, as the disk of a test machine may be busy; generous by 5."""
    ledger = new_ledger(50, 1e-5)
    fit = guarantee(GaussianEvent(0.01, 100), delta=1e-5)
    for _ in range(200 if ledger.path is None else 60):
        ledger.spend(fit)
    start = time.process_time()
    for _ in range(20):
        ledger.spend(fit)
    milliseconds = 1e3 * (time.process_time() - start) / 20
    assert milliseconds < (2.5 if ledger.path is None else 10.0)


def test_to_frame_without_pandas_says_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas.*spends\(\)"):
        PrivacyLedger(1.0, 0.0).to_frame()


def test_a_file_system_without_hard_links_is_said_to_have_none(tmp_path, monkeypatch):
    def without(source, target):
        raise PermissionError(errno.EPERM, "Operation not permitted", source, None)

    monkeypatch.setattr(_store.os, "link", without)
    with pytest.raises(
        RuntimeError, match="not permitted. It needs a folder on a local"
    ):
        PrivacyLedger(3, path=tmp_path / "ledger")
    assert list(tmp_path.iterdir()) == []


# --- cost, and what stands around the file --------------------------------------------

REPAIR = MaximumEvent((GaussianEvent(0.01, 100),), (PureEvent(0.01),))
SAMPLED = WithoutReplacementGaussianEvent(0.01, 5.0, 10, 100)


def test_the_running_composition_stays_small_and_close_to_the_tight_total():
    rng = np.random.default_rng(0)
    kinds = {
        "splits": [REPAIR] * 60,
        "two kinds of splits": [
            REPAIR,
            MaximumEvent((PureEvent(0.02),), (GaussianEvent(0.01),)),
        ] * 8,
        "different releases": [PureEvent(e) for e in rng.uniform(0, 0.1, 200)],
        "declared": [DeclaredEvent(0.01 + i % 3 / 100, 1e-9) for i in range(90)],
        "names": [PureEvent(0.1), ThresholdEvent(1e-8)] * 20,
    }  # fmt: skip
    for events in kinds.values():
        total = Composition("replace_one")
        for event in events:
            total = total.plus(Composition.of([event], "replace_one"))
        tight = compose_epsilon(events, 1e-5)
        assert tight * (1 - 1e-9) <= total.epsilon_at(1e-5) <= 1.01 * tight
        assert total.fits(1.012 * tight, 1e-5) and not total.fits(0.99 * tight, 1e-5)
        assert Composition.from_plain(json.loads(json.dumps(total.to_plain()))) == total
        assert len(json.dumps(total.to_plain())) < 10_000


@pytest.mark.parametrize("neighbors", [20, 200])
def test_what_differs_too_much_is_merged_for_the_dearer(neighbors):
    """Never below the tight total, however many kinds there are."""
    rng = np.random.default_rng(neighbors)
    events = [
        MaximumEvent((PureEvent(e),), (GaussianEvent(mu),))
        for e, mu in rng.uniform(0.01, 0.02, (neighbors, 2))
    ]
    total = Composition("replace_one")
    for event in events:
        total = total.plus(Composition.of([event], "replace_one"))
    assert len(total.splits) <= 16
    one_side = compose_epsilon([e for event in events for e in event.left], 1e-5)
    assert one_side <= total.epsilon_at(1e-5) < 3 * one_side


def split_total(kinds, counts, plain=()):
    """Many spends of a few kinds of splits, at once."""
    total = Composition.of(plain, "replace_one")
    for (left, right), count in zip(kinds, counts, strict=True):
        one = Composition.of([MaximumEvent((left,), (right,))], "replace_one")
        ((pair, _),) = one.splits
        total = total.plus(Composition("replace_one", splits=((pair, count),)))
    return total


def epsilon_of_side(side, delta):
    """The tight total of pure and Gaussian releases, from binomial atoms."""
    losses, weights, mu2 = np.zeros(1), np.ones(1), 0.0
    for event, count in side:
        if isinstance(event, GaussianEvent):
            mu2 += count * event.mu**2
            continue
        n_plus = np.arange(count + 1)
        p = 1 / (1 + math.exp(-event.epsilon))
        losses = np.add.outer(losses, event.epsilon * (2 * n_plus - count)).ravel()
        weights = np.multiply.outer(weights, binom.pmf(n_plus, count, p)).ravel()
    mu = math.sqrt(mu2)

    def excess(epsilon):
        x = epsilon - losses
        if mu == 0:
            return weights @ np.maximum(0.0, -np.expm1(x)) - delta
        gauss = norm.cdf(mu / 2 - x / mu) - np.exp(x + norm.logcdf(-mu / 2 - x / mu))
        return weights @ gauss - delta

    return 0.0 if excess(0.0) <= 0 else brentq(excess, 0.0, 50.0, xtol=1e-9)


def epsilon_of_sides(kinds, counts, delta, sides):
    """The largest total over numbers of splits on the left."""
    return max(
        epsilon_of_side(
            [
                (event, n)
                for (left, right), count, k in zip(kinds, counts, ks, strict=True)
                for event, n in ((left, k), (right, count - k))
                if n
            ],
            delta,
        )
        for ks in sides
    )


# Their sides nearly tie: equal variances of the loss but other tails.
TIED = [(GaussianEvent(0.1 * f), PureEvent(0.1 * f)) for f in (1.0, 1.4, 0.7, 2.2)]


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
@pytest.mark.parametrize(
    ("kinds", "counts"),
    [
        (TIED[:1], (70,)),
        (TIED[:2], (9, 8)),
        (TIED[:3], (5, 4, 3)),
        (TIED, (3, 4, 2, 2)),
        ([(GaussianEvent(0.25), PureEvent(1.0)), (GaussianEvent(0.6), PureEvent(0.7))],
         (7, 9)),
    ],
)  # fmt: skip
def test_a_total_over_splits_is_within_one_per_cent_of_brute_force(
    kinds, counts, delta
):
    def epsilon(module, name, value):
        caches = (_sums._dearest_epsilon, _sums._worst_epsilon, _loss_grid._worst_curve)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, value)
            for cached in caches:
                cached.cache_clear()
            found = split_total(kinds, counts).epsilon_at(delta)
        for cached in caches:
            cached.cache_clear()
        return found

    sides = itertools.product(*(range(count + 1) for count in counts))
    tight = epsilon_of_sides(kinds, counts, delta, sides)
    for few_sides in (_sums._MAX_OPTIONS, 1):  # one by one if they are few, and played
        found = epsilon(_sums, "_MAX_OPTIONS", few_sides)
        assert tight * (1 - 1e-9) <= found <= 1.01 * tight
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sums, "_MAX_OPTIONS", 1)
        played = epsilon(_loss_grid, "_MOST_POINTS", 0)  # no side is gone through
    assert tight * (1 - 1e-9) <= played <= 1.03 * tight


@pytest.mark.parametrize("n_kinds", [1, 2, 4, 8, 16])
def test_ten_thousand_splits_are_within_one_per_cent_and_take_few_steps(n_kinds):
    scale = np.linspace(1.0, 3.0, n_kinds)
    kinds = [(GaussianEvent(0.01 * f), PureEvent(0.01 * f)) for f in scale]
    counts = [10_000 // n_kinds] * n_kinds
    total = split_total(kinds, counts)
    start = time.process_time()
    epsilon = total.epsilon_at(1e-5)
    assert time.process_time() - start < 3.0  # tens of milliseconds, one machine idle
    # Many different pure releases have too many atoms for the oracle.
    sides = [counts] if n_kinds > 1 else [(k,) for k in range(0, 10_001, 1250)]
    tight = epsilon_of_sides(kinds, counts, 1e-5, sides)
    assert tight * (1 - 1e-9) <= epsilon <= 1.01 * tight


@pytest.mark.parametrize("delta", [0.0, 1e-12, 1e-5])
def test_several_kinds_of_splits_cost_no_less_than_any_side(delta):
    kinds = [
        MaximumEvent([PureEvent(1.2 * f)], [PureEvent(f), PureEvent(f / 2)])
        for f in (0.01, 0.05, 0.12)
    ]
    several = [Composition.of([e], "replace_one") for e in kinds]
    splits = tuple((one.splits[0][0], 4) for one in several)
    total = Composition("replace_one", splits=splits)
    sides = [_epsilon_of(side, delta) for side in _each_side(total.plain, total.splits)]
    assert len(sides) == 5**3
    assert max(sides) * (1 - 1e-9) <= total.epsilon_at(delta) <= 1.2 * max(sides)


@pytest.mark.parametrize("event", [WithoutReplacementGaussianEvent,
                                   PoissonGaussianEvent])  # fmt: skip
def test_splits_with_sampled_sides_cost_no_less_than_either(event):
    sampled = event(0.05, 2.0, 10)
    split = MaximumEvent([sampled], [PureEvent(0.03)])
    total, relation = Composition("replace_one"), "replace_one"
    for _ in range(70):
        total = total.plus(Composition.of([split], relation))
    left = compose_epsilon([event(0.05, 2.0, 700)], 1e-5)
    right = compose_epsilon([PureEvent(0.03)] * 70, 1e-5)
    assert max(left, right) <= total.epsilon_at(1e-5) <= 1.01 * max(left, right)


@pytest.mark.parametrize("event", [REPAIR, SAMPLED])
def test_spends_cost_the_same_after_thousands(event):
    """A spend of a repair once cost 0.5 ms first and 72 ms at the 120th."""
    ledger = PrivacyLedger(6.0, 1e-5)
    fit = guarantee(event, delta=1e-5)
    n_compositions = []
    real = _composition._fits

    def counted(*arguments):
        n_compositions.append(1)
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_composition, "_fits", counted)
        for _ in range(2000):
            ledger.spend(fit)
    assert len(n_compositions) < 200  # each composition answers many questions


def test_files_grow_by_the_same_for_every_spend(path):
    ledger = PrivacyLedger(math.inf, 1e-5, path)
    rng = np.random.default_rng(0)

    def spend_until(n_bytes, n_spends):
        for _ in range(n_spends):
            ledger.spend(guarantee(PureEvent(float(rng.uniform(0.1, 0.2)))))
        return os.path.getsize(path) - n_bytes

    spend_until(0, 60)
    first = spend_until(os.path.getsize(path), 60)
    last = spend_until(os.path.getsize(path), 60)
    assert last <= 1.3 * first < 300_000


def test_a_ledger_is_read_by_its_owner_only_and_leaves_nothing_beside(path):
    stale = Path(path).parent / ".ledger-999999999-abc"
    stale.write_text("left by a process that was killed")
    PrivacyLedger(1.0, path=path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert [name for name in os.listdir(Path(path).parent)] == [Path(path).name]


@pytest.mark.parametrize("version", [0, 1, 3])
def test_files_of_other_versions_are_refused_in_a_sentence(path, version):
    PrivacyLedger(1.0, path=path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    with pytest.raises(RuntimeError, match="version"):
        PrivacyLedger(1.0, path=path)


def test_a_raised_cap_is_noticed(path):
    ledger = PrivacyLedger(1.0, path=path)
    ledger.spend(PURE)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE ledger SET epsilon = 9.0")
        connection.commit()
    with pytest.raises(RuntimeError, match="damaged"):
        ledger.spend(PURE)
    with pytest.raises(RuntimeError, match="damaged"):
        PrivacyLedger(9.0, path=path).spend(PURE)


def test_a_missing_file_is_a_runtime_error(path):
    ledger = PrivacyLedger(1.0, path=path)
    os.unlink(path)
    with pytest.raises(RuntimeError, match="missing"):
        ledger.spend(PURE)


def test_two_ledgers_never_wait_for_each_other(tmp_path):
    one, other = (PrivacyLedger(9.0, path=tmp_path / name) for name in "ab")
    with closing(sqlite3.connect(tmp_path / "a", isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        waiting = threading.Thread(target=one.spend, args=(PURE,))
        waiting.start()
        start = time.perf_counter()
        other.spend(PURE)
        assert time.perf_counter() - start < 5
        assert waiting.is_alive()
        held.execute("COMMIT")
        waiting.join(60)
    assert len(one.spends()) == len(other.spends()) == 1


def test_splits_that_no_epsilon_covers_are_refused_in_one_sentence():
    """A side of random batches whose delta alone is above the cap's: not a crash."""
    sampled = WithoutReplacementGaussianEvent(0.1, 2.0, 10)
    split = MaximumEvent([sampled, DeclaredEvent(0.1, 1e-3)], [GaussianEvent(0.3)])
    asked = PrivacyGuarantee.from_events(
        [split], delta=1e-2, neighboring="replace_one", mechanism="for a test"
    )
    ledger = PrivacyLedger(10.0, 1e-5)
    with pytest.raises(BudgetExceededError, match="epsilon = inf"):
        ledger.spend(asked)


@pytest.mark.parametrize("epsilon", [5.0, 30.0])
def test_a_thousand_dear_splits_have_a_total(epsilon):
    """Losses that are nearly certain: rounding does not make them infinite."""
    split = MaximumEvent([PureEvent(epsilon)], [GaussianEvent(0.5)])
    one = Composition.of([split], "replace_one")
    many = replace(one, splits=tuple((pair, 1000) for pair, _ in one.splits))
    tight = compose_epsilon([PureEvent(epsilon)] * 1000, 1e-5)
    assert tight <= many.epsilon_at(1e-5) <= 1.01 * tight
