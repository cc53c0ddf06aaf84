"""Guarantees: validation, composition against oracles, and round trips."""

import dataclasses
import decimal
import html
import json
import math
import pickle
import warnings

import mpmath
import numpy as np
import pytest
from _ends import approx
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from fairpriv_sklearn._shared.rounded import round_down, round_up
from fairpriv_sklearn.accounting import (
    DeclaredEvent,
    EitherEvent,
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PureEvent,
    ThresholdEvent,
    WithoutReplacementGaussianEvent,
    event_from_dict,
)
from fairpriv_sklearn.linear_model import DPOutputPerturbationLogisticRegression
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.postprocessing import DP2DPClassifier
from fairpriv_sklearn.privacy import (
    Fact,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
    warn_leak,
)
from fairpriv_sklearn.privacy._guarantee import NOTHING, RANDOM_SPLIT, UNIT_OF_PRIVACY

COUNTS = PrivacyGuarantee(
    1.0, 0.0, "replace_one", "noisy counts", (PureEvent(1.0),), assumptions=("groups",)
)
SAMPLED = PoissonGaussianEvent(0.1, 9.0, 1)


def gaussian(mu, **options):
    options = {"delta": 1e-5, "neighboring": "replace_one", "mechanism": "sums"} | (
        options
    )
    return PrivacyGuarantee.from_events([GaussianEvent(mu, 0)], **options)


def epsilon_of_gaussian(mu, delta):
    """Solve (0.1) of Balle and Wang (2018) with SciPy's normal distribution."""

    def excess(epsilon):
        first = norm.cdf(-epsilon / mu + mu / 2)
        return first - np.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2)) - delta

    return brentq(excess, 0, 50, xtol=1e-12)


def taken(make, value):
    try:
        make(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("make", "inside", "outside"),
    [
        (GaussianEvent, [0.0, math.inf], [-1e-300, math.nan]),
        (lambda v: GaussianEvent(1.0, v), [0, 1.0, 2**40], [-1, 0.5, True]),
        (PureEvent, [0.0, math.inf], [-1e-300]),
        (lambda v: DeclaredEvent(v, 0.1), [0.0, math.inf], [-1e-300]),
        (lambda v: DeclaredEvent(1.0, v), [0.0, 1.0], [-1e-300, 1.0000001]),
        (ThresholdEvent, [0.0, 1.0], [-1e-300, 1.0000001]),
        (lambda v: ThresholdEvent(0.1, v), [1, 2.0], [0, 1.5]),
        (lambda v: PoissonGaussianEvent(v, 1.0, 1), [1e-300, 1.0], [0.0, 1.0000001]),
        (lambda v: PoissonGaussianEvent(0.5, v, 1), [1e-300, 1e300], [0.0, math.inf]),
        (lambda v: PoissonGaussianEvent(0.5, 1.0, v), [1, 2.0], [0, 1.5]),
        (lambda v: PoissonGaussianEvent(0.5, 1.0, 1, v), [0, 2.0], [-1, 1.5]),
    ],
)
def test_events_take_their_ranges(make, inside, outside):
    assert [taken(make, v) for v in inside] == [True] * len(inside)
    assert [taken(make, v) for v in outside] == [False] * len(outside)


@pytest.mark.parametrize(
    ("event", "stored"),
    [
        (PureEvent(math.inf), {"kind": "pure", "epsilon": "inf"}),
        (PureEvent(0.5), {"kind": "pure", "epsilon": 0.5}),
        (GaussianEvent(0.5, 3), {"kind": "gaussian", "mu": 0.5, "n_draws": 3}),
    ],
)
def test_a_stored_event_has_its_fields_and_no_others(event, stored):
    assert event.to_dict() == stored
    assert taken(event_from_dict, stored) and event_from_dict(stored) == event
    assert not taken(event_from_dict, {**stored, "more": 1.0})
    assert not taken(event_from_dict, {**stored, "kind": [stored["kind"]]})
    needed = dict(list(stored.items())[:2])
    assert taken(event_from_dict, needed)
    for name in needed:
        rest = {key: value for key, value in needed.items() if key != name}
        with pytest.raises(ValueError, match="privacy event of a kind|has the fields"):
            event_from_dict(rest)


def test_defaults_of_events():
    assert GaussianEvent(0.5) == GaussianEvent(0.5, 0)
    assert ThresholdEvent(0.5) == ThresholdEvent(0.5, 1)
    assert PoissonGaussianEvent(0.5, 1.0, 3) == PoissonGaussianEvent(0.5, 1.0, 3, 0)


def test_as_many_columns_as_a_float_holds_are_counted():
    most, delta0 = 10**300, 1e-301
    failure = ThresholdEvent(delta0, most).failure
    assert failure == pytest.approx(-math.expm1(-0.1), rel=1e-12)
    for more in (most + 1, 10**301, 10**309):
        assert ThresholdEvent(1e-310, more).failure == 1.0


def test_a_float_is_a_whole_number_if_it_is_one():
    columns = ThresholdEvent(0.1, 3.0).n_columns
    assert columns == 3 and type(columns) is int
    for other in (2.5, math.inf, math.nan):
        with pytest.raises(ValueError, match="n_columns must be a whole number"):
            ThresholdEvent(0.1, other)


@pytest.mark.parametrize("n_columns", [1, 2, 3, 1000])
@pytest.mark.parametrize("delta0", [0.0, 1e-12, 0.003, 0.5, 1.0])
def test_a_name_of_one_record_is_shown_as_often_as_is_said(delta0, n_columns):
    with mpmath.workdps(40):
        exact = 1 - (1 - mpmath.mpf(delta0)) ** n_columns
        shown = ThresholdEvent(delta0, n_columns).failure
        assert exact <= shown <= exact * (1 + mpmath.mpf("1.5e-15"))
    assert shown <= 1.0


def test_fields_are_kept_as_plain_immutable_data():
    guarantee = PrivacyGuarantee(
        np.float64(2),
        0.1,
        "add_remove",
        "sums",
        events=[GaussianEvent(np.float32(0.5), np.int64(7))],
        assumptions=["bounds"],
    )
    assert guarantee.events == (GaussianEvent(0.5, 7),)
    assert type(guarantee.events[0].mu) is float
    assert type(guarantee.events[0].n_draws) is int
    assert type(guarantee.epsilon) is float and type(guarantee.delta) is float
    assert guarantee.assumptions == ("bounds", UNIT_OF_PRIVACY)
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.1
    copy = pickle.loads(pickle.dumps(guarantee))
    assert copy == guarantee and hash(copy) == hash(guarantee)
    assert guarantee != COUNTS


@pytest.mark.parametrize(
    "change, message",
    [
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"epsilon": "1"}, "epsilon must be"),
        ({"epsilon": True}, "epsilon must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"delta": 1.1}, "delta must be"),
        ({"delta": math.nan}, "delta must be"),
        ({"neighboring": "swap"}, "neighboring must be one of .*replace_one"),
        ({"mechanism": None}, "mechanism must be a string"),
        ({"assumptions": "groups"}, "assumptions must be a tuple of strings"),
        ({"assumptions": (1,)}, "assumptions must be a tuple of strings"),
        ({"proofs": 5}, "proofs must be a tuple of strings"),
        ({"uncovered": ("scaler",)}, "epsilon must be inf"),
        ({"conditional_on": ("groups",)}, "epsilon must be inf"),
        ({"conditional_on": "groups"}, "conditional_on must be a tuple of strings"),
        (
            {
                "epsilon": math.inf,
                "conditional_on": ("n",),
                "epsilon_if_public": math.nan,
            },
            "epsilon must be",
        ),
        ({"epsilon": 0.5}, "The events cost epsilon = 1 at delta = 0, more than"),
        ({"epsilon": 1 - 1e-5}, "The events cost epsilon = 1 at delta = 0, more than"),
        ({"events": (SAMPLED,)}, "add_remove"),
        ({"events": (MaximumEvent((), (EitherEvent((SAMPLED,), ()),)),)}, "add_remove"),
    ],
)
def test_bad_fields_raise(change, message):
    good = {f.name: getattr(COUNTS, f.name) for f in dataclasses.fields(COUNTS)}
    with pytest.raises((TypeError, ValueError), match=message):
        PrivacyGuarantee(**(good | change))


def test_rows_that_were_drawn_at_random_are_one_more_or_less():
    options = {"delta": 1e-5, "neighboring": "add_remove", "mechanism": "gradients"}
    for event in (SAMPLED, MaximumEvent((SAMPLED,), (PureEvent(0.01),))):
        one = PrivacyGuarantee.from_events([event], **options)
        assert one.events == (event,) and 0 < one.epsilon < math.inf


@pytest.mark.parametrize("facts", ["groups", 5, None])
def test_facts_are_several(facts):
    """One string is no list of its letters."""
    for state in (
        lambda: gaussian(0.7, assumptions=facts),
        lambda: COUNTS.qualified(assumptions=facts),
    ):
        with pytest.raises(ValueError, match="tuple of strings and facts, got"):
            state()


def test_from_events_states_the_composed_total():
    assert gaussian(0.7).epsilon == approx(epsilon_of_gaussian(0.7, 1e-5))
    uncovered = gaussian(0.7, uncovered=["estimator"])
    assert uncovered.epsilon == math.inf
    assert uncovered.events == (GaussianEvent(0.7, 0),)
    assert uncovered.epsilon_at(0.1) == math.inf
    assert uncovered.delta_at(100.0) == 1.0


def test_epsilon_at_and_delta_at_read_the_same_curve():
    guarantee = gaussian(0.7)
    assert guarantee.epsilon_at(1e-3) == approx(epsilon_of_gaussian(0.7, 1e-3))
    assert guarantee.delta_at(guarantee.epsilon_at(1e-3)) == approx(1e-3)
    stated = PrivacyGuarantee(1.0, 1e-6, "replace_one", "elsewhere")
    assert stated.epsilon_at(1e-6) == 1.0
    assert stated.epsilon_at(0.0) == math.inf
    assert stated.delta_at(1.0) == approx(1e-6)
    with pytest.raises(ValueError, match="delta must be"):
        guarantee.epsilon_at(2)
    with pytest.raises(ValueError, match="epsilon must be"):
        guarantee.delta_at(-1)


def test_gaussians_compose_by_the_root_of_squares():
    total = gaussian(0.3).compose(gaussian(0.4))
    assert total.delta == 2e-5
    assert total.epsilon == approx(epsilon_of_gaussian(0.5, 2e-5))
    at_one_delta = gaussian(0.3).compose(gaussian(0.4), delta=1e-5)
    assert at_one_delta.epsilon == approx(epsilon_of_gaussian(0.5, 1e-5))
    # Tight: less than the sum of the two statements.
    assert at_one_delta.epsilon < gaussian(0.3).epsilon + gaussian(0.4).epsilon


def test_compose_adds_up_pure_parts_and_keeps_every_caveat():
    other = PrivacyGuarantee(
        math.inf,
        0.0,
        "replace_one",
        "noisy medians",
        events=(PureEvent(0.5),),
        assumptions=("groups", "bounds"),
        uncovered=("scaler",),
        noise_is_secure=False,
    )
    total = COUNTS.compose(other, COUNTS)
    assert total.events == (PureEvent(1.0), PureEvent(0.5), PureEvent(1.0))
    assert total.epsilon == math.inf
    assert total.assumptions == ("groups", "bounds", UNIT_OF_PRIVACY)
    assert total.uncovered == ("scaler",)
    assert total.noise_is_secure is False
    assert total.mechanism == "noisy counts; noisy medians"
    assert COUNTS.compose(COUNTS).epsilon == 2.0
    assert COUNTS.compose(COUNTS).noise_is_secure is True
    assert COUNTS.compose() == COUNTS


def test_what_releases_nothing_is_told_only_where_nothing_else_is():
    nothing = PrivacyGuarantee(0.0, 0.0, "replace_one", NOTHING)
    assert nothing.compose(nothing).mechanism == NOTHING
    assert nothing.compose(COUNTS, nothing).mechanism == COUNTS.mechanism


def test_noise_is_as_secure_as_that_of_any_part():
    for one, parts in ((True, True), (True, False), (False, True), (False, False)):
        whole = dataclasses.replace(COUNTS, noise_is_secure=one)
        found = whole.qualified(noise_is_secure=parts).noise_is_secure
        assert found == (one and parts)


def test_a_statement_without_parts_is_composed_as_stated():
    stated = PrivacyGuarantee(1.0, 1e-6, "replace_one", "elsewhere")
    total = stated.compose(stated)
    assert total.epsilon == approx(2.0) and total.delta == 2e-6
    half = PrivacyGuarantee(1.0, 0.6, "replace_one", "elsewhere")
    assert half.compose(half).delta == 1.0
    pure = PrivacyGuarantee(1.0, 0.0, "replace_one", "elsewhere")
    assert pure.compose(pure).events == (PureEvent(1.0),) * 2
    free = PrivacyGuarantee(0.0, 0.0, "replace_one", "nothing")
    assert free.compose(pure).events == (PureEvent(1.0),)


def test_disjoint_data_cost_the_maximum():
    noisy = gaussian(0.3)
    both = COUNTS.disjoint(noisy)
    assert both.events == (MaximumEvent(COUNTS.events, noisy.events),)
    assert both.delta == 1e-5
    assert both.epsilon == approx(max(COUNTS.epsilon_at(1e-5), noisy.epsilon))
    assert both.assumptions == ("groups", RANDOM_SPLIT, UNIT_OF_PRIVACY)
    # Two plans for the same rows are no split of them, unless one of them is.
    for events, split in (
        ((EitherEvent(COUNTS.events, noisy.events),), False),
        ((EitherEvent(both.events, ()),), True),
        ((EitherEvent((), both.events),), True),
        ((*COUNTS.events, *both.events), True),
    ):
        stated = PrivacyGuarantee(math.inf, 1e-5, "replace_one", "", events)
        assert (RANDOM_SPLIT in stated.assumptions) == split
    three = COUNTS.disjoint(noisy, gaussian(1.5))
    assert three.epsilon == approx(gaussian(1.5).epsilon)
    # Composition afterwards is on top of either side.
    assert both.compose(COUNTS).epsilon == approx(
        max(
            COUNTS.compose(COUNTS).epsilon_at(1e-5),
            noisy.compose(COUNTS).epsilon_at(1e-5),
        )
    )


def test_relations_do_not_mix():
    other = dataclasses.replace(COUNTS, neighboring="add_remove")
    for combine in (COUNTS.compose, COUNTS.disjoint):
        with pytest.raises(ValueError, match="Fit all models with the same"):
            combine(other)


@pytest.mark.parametrize("other", [1.0, None, {"epsilon": 1.0}])
def test_only_guarantees_combine(other):
    with pytest.raises(TypeError, match="Expected a PrivacyGuarantee"):
        COUNTS.compose(other)
    with pytest.raises(TypeError, match="Expected a PrivacyGuarantee"):
        COUNTS.disjoint(other)


numbers = st.floats(0.0, math.inf, exclude_min=True)
words = st.lists(st.text(max_size=8), max_size=3).map(tuple)
draws = st.integers(0, 10**9)
simple_events = st.one_of(
    st.builds(PureEvent, numbers),
    st.builds(GaussianEvent, numbers, draws),
    st.builds(DeclaredEvent, numbers, st.floats(0, 1)),
    st.builds(ThresholdEvent, st.floats(0, 1), st.integers(1, 99)),
    st.builds(
        WithoutReplacementGaussianEvent,
        st.floats(0, 1, exclude_min=True),
        st.floats(0, 1e9, exclude_min=True),
        st.integers(1, 999),
        draws,
    ),
)
several = st.lists(simple_events, max_size=3).map(tuple)
events = st.lists(
    st.one_of(simple_events, st.builds(MaximumEvent, several, several)),
    max_size=3,
).map(tuple)


@given(
    epsilon=st.one_of(numbers, st.just(math.inf)),
    delta=st.floats(0, 1),
    relation=st.sampled_from(["replace_one", "add_remove", "replace_one_in_group"]),
    mechanism=st.text(max_size=8) | st.just("inf"),
    events=events,
    assumptions=words,
    uncovered=words,
    names=words,
    secure=st.booleans(),
)
def test_round_trip_through_strict_json(
    epsilon, delta, relation, mechanism, events, assumptions, uncovered, names, secure
):
    if_public = math.inf if uncovered or events else epsilon
    guarantee = PrivacyGuarantee(
        math.inf if names else if_public,
        delta,
        relation,
        mechanism,
        events,
        assumptions,
        uncovered,
        secure,
        names,
        if_public,
    )
    text = json.dumps(guarantee.to_dict(), allow_nan=False)
    assert PrivacyGuarantee.from_dict(json.loads(text)) == guarantee
    assert PrivacyGuarantee.from_dict(guarantee.to_dict()) == guarantee


def test_from_dict_accepts_a_float_infinity_and_rejects_the_rest():
    data = COUNTS.to_dict()
    assert PrivacyGuarantee.from_dict(data | {"epsilon": math.inf}).epsilon == math.inf
    with pytest.raises(ValueError, match="with the keys"):
        PrivacyGuarantee.from_dict(data | {"extra": 1})
    with pytest.raises(ValueError, match="with the keys"):
        PrivacyGuarantee.from_dict({"version": 2, "epsilon": 1.0})
    for other in ([1.0, 0.0], data | {"version": 4}, {"epsilon": 1.0, "parts": []}):
        with pytest.raises(ValueError, match="older or newer version"):
            PrivacyGuarantee.from_dict(other)
    with pytest.raises(ValueError, match="stored privacy event"):
        PrivacyGuarantee.from_dict(data | {"events": [["pure", 1.0]]})
    for other in (5, None, {}, "", {"kind": "pure", "epsilon": 1.0}):
        with pytest.raises(ValueError, match="events must be a list"):
            PrivacyGuarantee.from_dict(data | {"events": other})
    with pytest.raises(TypeError, match="epsilon must be"):
        PrivacyGuarantee.from_dict(data | {"epsilon": "one"})


def test_str_says_what_a_reader_must_know():
    assert str(COUNTS) == (
        "(epsilon = 1, delta = 0)-differentially private, one record replaced by any "
        f"other: noisy counts. Assumed: groups; {UNIT_OF_PRIVACY}."
    )
    loose = gaussian(0.3, uncovered=["estimator"], noise_is_secure=False)
    text = str(loose)
    assert text.startswith("No differential privacy for the whole (epsilon = inf)")
    assert "Not covered: estimator." in text
    assert "Noise not secure" in text and "random_state" in text
    assert "not secure" not in str(COUNTS)
    assert "one record added or removed." in str(
        PrivacyGuarantee(1, 0, "add_remove", "")
    )


@pytest.mark.parametrize("origin", ["given", "released"])
def test_a_long_value_is_shown_by_its_beginning_and_end(origin):
    """Its object has all of it; what is short, or no value, stands as it is."""
    value = {"a": [f"category, {i:03}]" for i in range(60)]}
    told = str(Fact("codebook", value, origin))
    one = dataclasses.replace(COUNTS, assumptions=(told,))
    for text in (str(one), html.unescape(one._repr_html_())):
        assert "codebook={'a': ['category, 000]', 'cat" in text
        assert f"{told[-30:]} (whole in `assumptions`)" in text
        assert "category, 030" not in text
    assert told in one.assumptions and told in one.to_dict()["assumptions"]
    for length in (199, 200):
        edge = "x" * (length - 2 - len(repr([1] * 20))) + "s=" + repr([1] * 20)
        assert len(edge) == length
        text = str(dataclasses.replace(COUNTS, assumptions=(edge,)))
        assert (edge in text) == (length < 200)
    for words in ("rows = those of " + "nobody " * 40, "word" * 60, "x = {" * 60):
        assert words in str(dataclasses.replace(COUNTS, assumptions=(words,)))


def test_html_is_escaped():
    nasty = dataclasses.replace(
        COUNTS, mechanism="<script>x</script>", assumptions=('a"<b>&',)
    )
    page = nasty._repr_html_()
    assert "<script>" not in page and "<b>" not in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "a&quot;&lt;b&gt;&amp;" in page


def test_markdown_is_one_table_with_all_the_facts():
    both = dataclasses.replace(
        COUNTS.disjoint(gaussian(0.3)),
        mechanism="a|b\nc",
        noise_is_secure=False,
    )
    lines = both.to_markdown().splitlines()
    assert lines[1] == "| --- | --- |"
    assert all(line.replace("\\|", "").count("|") == 3 for line in lines)
    table = "\n".join(lines)
    assert "a\\|b c" in table
    assert (
        "maximum of [pure (epsilon = 1)] and [gaussian (mu = 0.3, n_draws = 0)]"
        in table
    )
    assert f"| assumed | groups; {RANDOM_SPLIT}; {UNIT_OF_PRIVACY} |" in table
    assert "| not covered | nothing |" in table
    assert "Noise not secure" in table
    assert "| events | none |" in PrivacyGuarantee(1, 0, "add_remove", "").to_markdown()


def test_prices_are_never_rounded_down():
    assert round_up(1.00001) == "1.001"
    assert round_up(0.9999999999999) == "1"
    assert round_up(1.0 + 1e-12) == "1"
    assert round_up(math.inf) == "inf"
    assert round_down(0.99999) == "0.9999" and round_down(1.0 - 1e-12) == "1"
    assert round_down(math.inf) == "inf" and round_down(0.0) == "0"
    assert round_up(0.0) == "0"
    with decimal.localcontext() as strict:  # an application that forbids floats
        strict.traps[decimal.FloatOperation] = strict.traps[decimal.Inexact] = True
        assert round_up(1.00001) == "1.001"


@given(st.floats(1e-12, 1e6))
def test_round_up_rounds_up_by_little(value):
    shown = float(round_up(value))
    assert value * (1 - 1e-9) <= shown <= value * 1.002
    shown = float(round_down(value))
    assert value * 0.998 <= shown <= value * (1 + 1e-9)


def test_what_is_printed_of_events_costs_more_than_they_do():
    """Few digits, and none that promises more."""
    gaussian = GaussianEvent(0.08474181130303331, n_draws=12345)
    assert str(gaussian) == "gaussian (mu = 0.08475, n_draws = 12345)"
    shown = ThresholdEvent(5.0000000000000004e-08)
    assert str(shown) == "threshold (delta0 = 5e-08, n_columns = 1)"
    sampled = PoissonGaussianEvent(0.123456, 1.23456, 10)
    assert "q = 0.1235, noise_multiplier = 1.234, steps = 10" in str(sampled)
    assert str(MaximumEvent([gaussian], [shown])).count("0.08475") == 1
    assert str(PureEvent(math.inf)) == "pure (epsilon = inf)"


def test_what_is_left_in_a_ledger_is_never_rounded_up():
    ledger = PrivacyLedger(1.0, 1e-5)
    ledger.spend(PrivacyGuarantee(0.50004, 0.0, "replace_one", "counts"))
    assert "0.5001 of 1 spent at delta = 1e-05, 0.4999 left" in ledger.to_markdown()


def test_events_are_checked_when_made_and_told_by_name():
    for make, message in [
        (lambda: PureEvent(-1.0), "epsilon must be in"),
        (lambda: GaussianEvent(math.nan), "mu must be in"),
        (lambda: GaussianEvent(1.0, 0.5), "n_draws must be a whole number"),
        (lambda: DeclaredEvent(1.0, 1.5), "delta must be in"),
        (lambda: ThresholdEvent(0.1, 0), "n_columns must be a whole number"),
        (lambda: PoissonGaussianEvent(0.0, 1.0, 1), "q must be in"),
        (lambda: PoissonGaussianEvent(0.5, math.inf, 1), "noise_multiplier must be in"),
        (lambda: PoissonGaussianEvent(0.5, 1.0, 0), "steps must be a whole number"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    for wrong in (PureEvent(1.0), "pure", (("pure", 1.0),), 5):
        with pytest.raises(TypeError, match="event"):
            dataclasses.replace(COUNTS, events=wrong)


def test_a_name_above_a_threshold_is_a_failure_and_no_root():
    threshold = ThresholdEvent(1e-6, 10)
    exact = -math.expm1(10 * math.log1p(-1e-6))
    assert threshold.failure == approx(exact, rel=1e-14)
    assert threshold.failure >= exact
    both = PrivacyGuarantee.from_events(
        [PureEvent(0.5), threshold, threshold],
        delta=2e-5,
        neighboring="add_remove",
        mechanism="names",
    )
    assert both.epsilon == approx(0.5, rel=1e-8)
    assert both.delta_at(0.5) == approx(1 - (1 - exact) ** 2, rel=1e-9)
    assert both.epsilon_at(1.99e-5) == math.inf


def test_parts_is_now_called_events():
    with pytest.raises(TypeError, match="`parts` is now `events`"):
        PrivacyGuarantee(1.0, 0.0, "replace_one", "counts", parts=(("pure", 1.0),))
    with pytest.raises(TypeError, match="`from_parts` is `from_events`"):
        PrivacyGuarantee.from_parts([], delta=0.0)
    with pytest.raises(AttributeError, match="`parts` is now `events`"):
        COUNTS.parts  # noqa: B018


def test_a_fact_read_from_the_data_makes_the_guarantee_conditional():
    secret = Fact("bounds", (0, 93.7), origin="read from the data")
    assert secret.value is None and "93" not in repr(secret)
    given = Fact("groups", [0, 1])
    book = Fact("classes", ["a", "b"], origin="public source")
    learnt = Fact("target_bounds", (15396.788839458763, 7.0), origin="released")
    assert str(learnt) == "target_bounds=(15396.8, 7.0) (released)"
    one = gaussian(0.7, assumptions=[secret, given, book, "rows are shuffled"])
    number = epsilon_of_gaussian(0.7, 1e-5)
    assert one.epsilon == math.inf and one.conditional_on == ("bounds",)
    assert one.epsilon_if_public == approx(number)
    assert one.assumptions[:3] == (
        "groups=[0, 1]",
        "classes=['a', 'b'] (public source)",
        "rows are shuffled",
    )
    assert one.epsilon_at(1e-5) == math.inf and one.delta_at(50.0) == 1.0
    for text in (str(one), one.to_markdown(), one._repr_html_(), repr(one)):
        assert "bounds" in text and "93" not in text
        assert round_up(one.epsilon_if_public) in text or "epsilon_if_public" in text
    assert "unless these are public, or hold: bounds; then (epsilon" in str(one)
    assert "| not covered | bounds (condition) |" in one.to_markdown()
    assert one.to_dict()["conditional_on"] == ["bounds"]
    assert one.to_dict()["epsilon"] == "inf"
    held = one.if_public()
    assert held.epsilon == one.epsilon_if_public and held.conditional_on == ()
    assert "bounds, which was not given, is public or holds" in held.assumptions


def test_conditions_survive_every_way_of_combining():
    conditional = COUNTS.qualified(assumptions=[Fact("n", origin="read from the data")])
    assert conditional.epsilon == math.inf and conditional.epsilon_if_public == 1.0
    for both, number in (
        (COUNTS.compose(conditional), 2.0),
        (conditional.disjoint(COUNTS), 1.0),
        (conditional.qualified(assumptions=["more"]), 1.0),
        (dataclasses.replace(conditional, mechanism="other"), 1.0),
    ):
        assert both.conditional_on == ("n",)
        assert both.epsilon == math.inf and both.epsilon_if_public == number
    stated = PrivacyGuarantee(1.0, 0.0, "replace_one", "").qualified(
        conditional_on=["n"]
    )
    assert stated.compose(stated).epsilon_if_public == 2.0
    uncovered = conditional.qualified(uncovered=["scaler"])
    assert uncovered.epsilon_if_public == math.inf
    assert uncovered.events == (PureEvent(1.0),)
    assert "(epsilon = inf), one record" in str(uncovered)
    assert "Conditional on: n. Not covered: scaler." in str(uncovered)


LABELS = DPOutputPerturbationLogisticRegression()
CONDITIONAL = pytest.mark.filterwarnings(
    "ignore::fairpriv_sklearn.privacy.PrivacyLeakWarning"
)


def test_a_statement_names_a_condition_once():
    conditional = COUNTS.qualified(conditional_on=["n"], assumptions=["n=3", "nn=4"])
    said = str(conditional)
    assert said.count(" n;") == 1 and "onditional on" not in said
    assert "nn=4" in said and " n=3" not in said


@CONDITIONAL
@pytest.mark.parametrize(
    "fitted",
    [
        lambda told: DP2DPClassifier(LABELS, epsilon=5.0, **told),
        lambda told: DP2DPClassifier(LABELS, epsilon=5.0, blind=True, **told),
        lambda told: DPGridSearchCV(
            LABELS, {}, epsilon=5.0, classes=told.get("classes")
        ),
    ],
)
def test_a_list_that_was_read_is_not_told_by_the_model_it_was_handed_to(fitted):
    """The model takes it for given; the statement tells no value that was read."""
    X = np.linspace(-1, 1, 200).reshape(-1, 1)
    y, group = np.where(X[:, 0] > 0, "yes", "no"), np.tile(["shore", "land"], 100)
    for told in ({}, {"classes": ["no", "yes"]}, {"groups": ["land", "shore"]}):
        model = fitted(told)
        repairs = isinstance(model, DP2DPClassifier)
        params = {"sensitive_features": group} if repairs else {}
        said = str(model.fit(X, y, **params).privacy_.to_dict())
        assert ("yes" in said) == ("classes" in told)
        assert ("shore" in said) == (repairs and "groups" in told)
        assert said.count("classes=") == ("classes" in told)


def test_what_holds_if_facts_are_public_is_never_less_than_is_known():
    """No number is taken where a step is not covered, or where none is known."""

    def if_public(**options):
        fields = {"epsilon": math.inf, "delta": 0.0, "neighboring": "replace_one"}
        one = PrivacyGuarantee(**fields, mechanism="", conditional_on=("n",), **options)
        return one.epsilon_if_public

    three = (PureEvent(1.0), PureEvent(2.0))
    assert if_public() == math.inf
    assert if_public(events=three) == 3.0
    assert if_public(events=three, epsilon_if_public=4.0) == 4.0
    assert if_public(epsilon_if_public=4.0) == 4.0
    uncovered = {"uncovered": ("scaler",)}
    for more in ({}, {"events": three}, {"epsilon_if_public": 4.0}):
        assert if_public(**more, **uncovered) == math.inf
    with pytest.raises(ValueError, match="events cost epsilon = 3 at delta = 0, more"):
        if_public(events=three, epsilon_if_public=2.9)


def test_nothing_is_known_of_a_part_that_is_not_covered():
    """It adds no event: what it may cost is not a number."""
    bare = PrivacyGuarantee(math.inf, 0.1, "replace_one", "", uncovered=("scaler",))
    total = COUNTS.compose(bare)
    assert total.events == COUNTS.events and total.epsilon == math.inf
    # Noise that is none is known to cost without limit.
    loud = PrivacyGuarantee(math.inf, 0.0, "replace_one", "")
    assert COUNTS.compose(loud).events == (*COUNTS.events, PureEvent(math.inf))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"name": ""}, "name must be a string"),
        ({"name": 5}, "name must be a string"),
        ({"name": "n", "origin": "guessed"}, "origin must be one of"),
    ],
)
def test_bad_facts_raise(options, message):
    with pytest.raises(ValueError, match=message):
        Fact(**options)


def test_warn_leak_names_the_argument_and_the_caller():
    def fit():
        warn_leak("classes", "the list of labels")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    (warning,) = caught
    assert warning.category is PrivacyLeakWarning
    assert issubclass(PrivacyLeakWarning, RuntimeWarning)
    assert "The list of labels was read from the data" in str(warning.message)
    assert "Pass `classes`" in str(warning.message)
    assert warning.filename == __file__


def test_a_stored_guarantee_that_is_nested_too_deeply_is_refused_in_one_sentence():
    guarantee = PrivacyGuarantee.from_events(
        [PureEvent(0.1)], delta=0.0, neighboring="replace_one", mechanism="a test"
    )
    stored, event = guarantee.to_dict(), PureEvent(0.1).to_dict()
    for _ in range(3000):
        event = {"kind": "maximum", "left": [event], "right": []}
    with pytest.raises(ValueError, match="nested too deeply"):
        PrivacyGuarantee.from_dict({**stored, "events": [event]})


def test_more_columns_of_names_than_a_float_holds_are_not_covered():
    assert ThresholdEvent(1e-9, 10**400).failure == 1.0
    assert ThresholdEvent(0.0, 10**400).failure == 0.0
    assert ThresholdEvent(1e-9, 10**300).failure == 1.0
