"""The wall: what is printed was reserved, and only that is released."""

import ctypes
import hashlib
import math
import pickle
import platform
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from _recording import recording
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from fairpriv_sklearn._shared.guarded import (
    WrappedEstimatorError,
    guarded,
    show_wrapped_errors,
)
from fairpriv_sklearn._wall import (
    MAX_ROWS,
    PlanError,
    PrivacyFilter,
    Query,
    Release,
    Rows,
    Split,
    Wrapped,
    _draws,
    column_length,
    keyed_draws,
    n_columns_of,
    open_wall,
)
from fairpriv_sklearn.accounting import (
    GaussianEvent,
)
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLedger,
)


@dataclass(frozen=True)
class Counts(Query):
    name = "counts"
    theorem = "tests"
    n_coordinates: int = 3

    def sensitivity(self, neighboring):
        return {"replace_one": math.sqrt(2), "add_remove": 1.0}[neighboring]

    def of_block(self, block, state):
        return np.bincount(block.codes, minlength=self.n_coordinates)


@dataclass(frozen=True)
class PureCounts(Counts):
    norm = "l1"

    def sensitivity(self, neighboring):
        return {"replace_one": 2, "add_remove": 1}[neighboring]


CODES = np.random.default_rng(0).integers(0, 3, 10_000)


def rows(codes=CODES):
    return Rows(len(codes), codes=codes)


def wall(plan, estimator="test", seed=0, **params):
    settings = {"delta": 1e-5, "neighboring": "replace_one", **params}
    return PrivacyFilter(estimator, plan, noise=noise_source(seed), **settings)


def test_a_release_is_the_exact_sum_plus_the_planned_noise():
    opened = wall([Release("counts", "gaussian", 0.5, 3)])
    opened.reserve()
    with recording() as seen:
        released = opened.release(Counts(), rows())
    exact = np.bincount(CODES)
    assert_array_equal(seen.crossings[0].exact, exact)
    assert_array_equal(seen.crossings[0].released, released)
    mechanism = opened.mechanism_of(Counts())
    assert mechanism.scale == pytest.approx(math.sqrt(2) / 0.5, rel=1e-5)
    assert np.abs(released - exact).max() < 6 * mechanism.scale
    assert (released != exact).all()


def test_the_guarantee_is_the_reserved_plan_and_the_ledger_is_charged():
    ledger = PrivacyLedger(10.0, 1e-5)
    plan = [Release("counts", "gaussian", 0.3, 3, times=4)]
    opened = wall(plan, ledger=ledger)
    opened.reserve()
    for _ in range(4):
        opened.release(Counts(), rows())
    expected = PrivacyGuarantee.from_events(
        [GaussianEvent(0.6, 12)],
        delta=1e-5,
        neighboring="replace_one",
        mechanism="m",
    )
    assert opened.guarantee().epsilon == pytest.approx(expected.epsilon, rel=1e-9)
    assert ledger.total().epsilon == pytest.approx(expected.epsilon, rel=1e-2)


@pytest.mark.parametrize("n_released", [0, 1, 3])
def test_another_number_of_releases_than_planned_is_refused(n_released):
    opened = wall([Release("counts", "gaussian", 0.3, 3, times=2)])
    opened.reserve()

    def carry_out():
        for _ in range(n_released):
            opened.release(Counts(), rows())
        opened.guarantee()

    with recording() as seen, pytest.raises(PlanError):
        carry_out()
    assert len(seen.crossings) == min(n_released, 2)  # refused before any noise


def test_nothing_is_released_before_the_reserve_or_beside_the_plan():
    opened = wall([Release("counts", "gaussian", 0.3, 2)])
    with pytest.raises(PlanError, match="Reserve"):
        opened.release(Counts(2), rows())
    opened.reserve()
    with pytest.raises(PlanError, match="more numbers"):
        opened.release(Counts(3), rows())
    with pytest.raises(PlanError, match="not in the plan"):
        opened.release(Counts(2), rows(), name="other")
    with pytest.raises(PlanError, match="once"):
        opened.reserve()


def test_a_refusing_ledger_stops_before_anything_is_read():
    ledger = PrivacyLedger(0.1, 1e-9)
    opened = wall([Release("counts", "gaussian", 0.3, 3)], ledger=ledger)
    with pytest.raises(BudgetExceededError):
        opened.reserve()
    with pytest.raises(PlanError):
        opened.release(Counts(), rows())


X86 = {"nearest": 0, "downward": 0x400, "upward": 0x800, "towards zero": 0xC00}


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the numbers of the rounding modes are those of this processor",
)
@pytest.mark.parametrize("mode", X86)
def test_sums_that_would_not_be_exact_are_refused_before_the_spend(mode):
    ledger, library = PrivacyLedger(10.0, 1e-5), ctypes.CDLL("libm.so.6")
    opened = wall([Release("counts", "gaussian", 0.3, 3)], ledger=ledger)
    context = pytest.raises(RuntimeError, match="FE_TONEAREST")
    with nullcontext() if mode == "nearest" else context:
        assert library.fesetround(X86[mode]) == 0
        try:
            opened.reserve()
        finally:
            library.fesetround(X86["nearest"])
    assert len(ledger.spends()) == (mode == "nearest")


@pytest.mark.parametrize(
    ("kind", "query"), [("gaussian", PureCounts()), ("pure", Counts())]
)
def test_the_norm_of_a_sensitivity_must_fit_the_noise(kind, query):
    opened = wall([Release("counts", kind, 0.3, 3)])
    opened.reserve()
    with pytest.raises(PlanError, match="sensitivity"):
        opened.release(query, rows())


def test_a_split_costs_the_larger_branch_and_parts_the_rows():
    left = [Release("counts", "pure", 1.0, 3)]
    right = [Release("counts", "pure", 0.4, 3)]
    opened = wall([Split("split", tuple(left), tuple(right))], delta=0.0)
    opened.reserve()
    table = rows()
    (one, ours), (other, theirs) = opened.split(table, 0.25)
    assert ours.n_rows + theirs.n_rows == table.n_rows
    assert abs(ours.n_rows - 2500) < 250
    with recording() as seen:
        one.release(PureCounts(), ours)
        with pytest.raises(PlanError, match="another branch"):
            other.release(PureCounts(), ours)
    other._left["counts"] = 1
    with recording() as rest:
        other.release(PureCounts(), theirs)
    both = seen.crossings[0].exact + rest.crossings[0].exact
    assert_array_equal(both, np.bincount(CODES))
    assert opened.guarantee().epsilon == 1.0


def test_the_parent_of_a_split_is_read_no_more_and_split_once():
    plan = [
        Split("split", (), ()),
        Split("again", (), ()),
        Release("counts", "pure", 1.0, 3),
    ]
    opened = wall(plan)
    opened.reserve()
    table = rows()
    opened.split(table, 0.5)
    with pytest.raises(PlanError, match="another branch"):
        opened.release(PureCounts(), table)
    with pytest.raises(PlanError, match="another branch"):
        opened.split(table, 0.5, name="again")


def test_a_sampled_release_needs_a_sample_of_the_paid_rate():
    sampling = ("poisson", 0.1)
    plan = [Release("counts", "gaussian", 0.5, 3, times=3, sampling=sampling)]
    opened = wall(plan)
    opened.reserve()
    table = rows()
    (sampled,) = opened.planned.events
    assert sampled.kind == "without_replacement_gaussian"
    assert sampled.n_draws == 9  # the sampler's error is paid for as well
    poisson = wall(plan, neighboring="add_remove").planned.events[0]
    assert poisson.kind == "poisson_gaussian"
    opened.release(Counts(), opened.sample(table, 0.1))
    for wrong in (table, opened.sample(table, 0.2)):
        with pytest.raises(PlanError, match="sample"):
            opened.release(Counts(), wrong)


@pytest.mark.parametrize("held", [np.array, pd.DataFrame, csr_array, list])
def test_columns_are_counted_however_a_table_is_held(held):
    assert n_columns_of(held([[1.0, 2.0, 3.0]])) == 3


def test_nothing_released_costs_nothing():
    planned = wall([]).planned
    assert (planned.epsilon, planned.delta, planned.events) == (0.0, 0.0, ())
    some = wall([Release("counts", "gaussian", 0.5, 3)], delta=1e-6).planned
    assert some.delta == 1e-6 and some.epsilon > 0.0


def test_coins_of_a_row_do_not_know_how_many_rows_follow():
    key = b"k" * 32
    drawn = keyed_draws(key, 200_000, 0.3)
    assert_array_equal(drawn[:70_001], keyed_draws(key, 70_001, 0.3))
    assert abs(drawn.mean() - 0.3) < 5 * math.sqrt(0.21 / 200_000)
    assert not keyed_draws(key, 1000, 0.0).any()
    assert keyed_draws(key, 1000, 1.0).all()


@pytest.mark.parametrize("n_rows", [65_536, 65_537, 150_000])
def test_draws_are_words_of_a_stream_per_chunk_below_a_threshold(n_rows):
    key, p = b"k" * 32, 0.7
    streams = [
        hashlib.shake_256(key + bytes([chunk, *[0] * 7])).digest(8 * 65_536)
        for chunk in range(3)
    ]
    words = np.frombuffer(b"".join(streams), dtype="<u8")[:n_rows]
    assert_array_equal(keyed_draws(key, n_rows, p), words < p * 2**64)
    assert keyed_draws(key, 0, p).shape == (0,)
    for wrong in (-0.1, 1.5):
        with pytest.raises(ValueError, match="p must be in"):
            keyed_draws(key, 1, wrong)


def test_a_word_at_the_threshold_is_no_draw(monkeypatch):
    words = np.uint64([2**62 - 1, 2**62, 2**62 + 1])
    monkeypatch.setattr(_draws, "_draw_words", lambda key, chunk, n: words)
    assert_array_equal(keyed_draws(b"", 3, 0.25), [True, False, False])


def test_sums_do_not_know_the_blocks():
    class Small(Counts):
        block_rows = 7

    table = rows()
    assert_array_equal(Small().of_rows(table, None), Counts().of_rows(table, None))
    assert_array_equal(Counts().of_rows(rows(CODES[:0]), None), np.zeros(3))

    class HowMany(Counts):
        def of_block(self, block, state):
            assert block.n_rows == len(block.codes)
            return np.array([block.n_rows])

    assert_array_equal(HowMany().of_rows(rows(CODES[:0]), None), [0])


def test_the_first_column_that_is_there_says_how_many_rows():
    assert column_length({"y": None, "X": np.zeros((5, 2)), "z": [1]}) == 5
    assert column_length({"y": None}) == 0


def test_a_replay_releases_what_was_recorded():
    def fit(codes, replay=None):
        opened = wall([Release("counts", "gaussian", 0.5, 3)])
        opened.reserve()
        with recording(replay) as seen:
            return opened.release(Counts(), rows(codes)), seen

    released, seen = fit(CODES)
    neighbour = CODES.copy()
    neighbour[0] = 2 - neighbour[0]
    again, changed = fit(neighbour, seen)
    assert_array_equal(released, again)
    change = changed.crossings[0].exact - seen.crossings[0].exact
    assert np.linalg.norm(change) <= changed.crossings[0].sensitivity


def test_a_replay_of_fewer_releases_goes_on_by_itself():
    plan = [Release("counts", "gaussian", 0.5, 3, times=2)]
    opened = wall(plan)
    opened.reserve()
    with recording() as seen:
        first = opened.release(Counts(), rows())
    again = wall(plan, seed=1)
    again.reserve()
    with recording(seen) as more:
        assert_array_equal(again.release(Counts(), rows()), first)
        second = again.release(Counts(), rows())
    assert_array_equal(second, more.crossings[1].released)
    assert (second != first).all()


def test_secrets_have_the_bytes_of_a_key():
    opened, asked = wall([]), []
    opened.noise.key = lambda n: asked.append(n) or bytes(n)
    opened.random_split(3, 0.5)
    assert asked == [32]


def test_what_a_journal_paid_for_is_not_paid_again():
    ledger = PrivacyLedger(10.0, 1e-5)
    opened = wall([Release("counts", "gaussian", 0.3, 3)], ledger=ledger)
    for journal in ("one", "other", "one"):
        opened._spend(journal)
    labels = [spend["label"] for spend in ledger.spends()]
    assert labels == ["test (one)", "test (other)"]


@pytest.mark.parametrize("relation", ["add_remove", None])
def test_a_wall_that_is_opened_for_an_estimator_is_paid_for(relation):
    ledger = PrivacyLedger(10.0, 1e-5)
    estimator = SimpleNamespace(delta=1e-6, neighboring="replace_one", ledger=ledger)
    plan = [Release("counts", "gaussian", 0.5, 3)]
    noise = noise_source(0)
    opened = open_wall(estimator, plan, facts=(), noise=noise, neighboring=relation)
    assert opened.neighboring == (relation or "replace_one")
    spent = [(spend["label"], spend["epsilon"]) for spend in ledger.spends()]
    assert spent == [("SimpleNamespace", opened.planned.epsilon)]
    assert opened.planned.epsilon > 0.0


def test_rows_are_not_pickled():
    with pytest.raises(TypeError, match="Private rows"):
        pickle.dumps(rows())


class Refuses:
    def fit(self, X):
        np.log(X)
        raise KeyError("HIV-positive: John Doe")


def test_errors_of_wrapped_estimators_are_replaced():
    with pytest.raises(WrappedEstimatorError) as caught:
        guarded(Refuses().fit, np.array([-1.0]))
    error = caught.value
    assert error.__cause__ is None and error.__context__ is None
    assert "HIV" not in str(error)
    frame = error.__traceback__
    while frame is not None:
        assert frame.tb_frame.f_code.co_name != "fit"
        frame = frame.tb_next


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_holder_may_look_at_the_error():
    with show_wrapped_errors(), pytest.raises(KeyError, match="John Doe"):
        guarded(Refuses().fit, np.array([-1.0]))


def test_a_wrapped_estimator_costs_what_its_guarantee_says():
    base = PrivacyGuarantee(2.0, 0.0, "replace_one", "base")
    plan = [
        Split(
            "split",
            (Release("counts", "pure", 1.0, 3),),
            (Wrapped("estimator", base),),
        )
    ]
    assert wall(plan, delta=0.0).planned.epsilon == 2.0
    assert wall(plan[0].right, delta=0.0).planned.epsilon == 2.0


def test_a_sampled_line_is_priced_by_its_rate_multiplier_and_steps():
    line = Release(
        "counts", "gaussian", 0.25, 3, times=7, sampling=("without_replacement", 0.1)
    )
    (event, *rest) = line.events("replace_one")
    assert (event.q, event.noise_multiplier, event.steps) == (0.1, 4.0, 7)
    # The error of the sampler of the noise is paid for as well.
    assert (
        sum(extra.n_draws for extra in (event, *rest) if hasattr(extra, "n_draws"))
        == 21
    )


def test_a_block_holds_the_rows_it_says():
    table = rows(np.arange(10) % 3)
    block = table.block(slice(3, 7))
    assert block.n_rows == 4
    assert_array_equal(block.codes, [0, 1, 2, 0])
    assert table.whole().n_rows == 10
    assert_array_equal(table.whole().codes, np.arange(10) % 3)
    assert [block.n_rows for block in table.blocks(4)] == [4, 4, 2]


def test_a_table_too_large_for_exact_sums_is_refused():
    assert MAX_ROWS * 2**30 < 2**63  # contributions of up to 30 bits
    with pytest.raises(ValueError, match="at most"):
        Rows(MAX_ROWS + 1)
    Rows(MAX_ROWS)

    class Short(Counts):
        max_rows = 5

    opened = wall([Release("counts", "gaussian", 0.5, 3)])
    opened.reserve()
    with pytest.raises(ValueError, match="at most 5 rows"):
        opened.release(Short(), rows(CODES[:6]))


def test_what_lies_beside_the_rows_is_cut_as_they_are():
    x, beside = np.arange(10), (np.arange(10) * 2, np.arange(20).reshape(10, 2))
    told = list(
        Rows(10, x=x).of_blocks(
            lambda block, two, both: (block.x.tolist(), two.tolist(), both.tolist()),
            4,
            beside,
        )
    )
    blocks = [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert told == [tuple(a[part].tolist() for a in (x, *beside)) for part in blocks]
