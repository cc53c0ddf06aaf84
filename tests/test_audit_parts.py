"""What an audit is made of: tapes, pairs, outcomes and bets, each by an own oracle."""

import functools
import json
import logging
import math
import os
import random
import secrets
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import check_random_state

from fairpriv_sklearn import audit
from fairpriv_sklearn._shared import guarded
from fairpriv_sklearn._shared.sklearn import StrOptions
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    PureEvent,
    compose_epsilon,
    gaussian_epsilon,
    gaussian_mu,
)
from fairpriv_sklearn.audit import (
    _contest,
    _estimator,
    _replay,
    _tape,
    audit_estimator,
)
from fairpriv_sklearn.audit._claim import Claim
from fairpriv_sklearn.audit._contest import Contest, Light, apart
from fairpriv_sklearn.audit._outcome import Outcome, differences, leaves_of, run
from fairpriv_sklearn.audit._replay import (
    Finding,
    ReplayReport,
    additive_noise,
    compare,
    fresh_copy,
    maker_of,
    observed,
    replayed,
)
from fairpriv_sklearn.audit._tables import CANARY, Table, as_table, named_columns
from fairpriv_sklearn.audit._tape import Released, Tape, fixed_randomness, taped
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    NoiseSource,
    noise_source,
)
from fairpriv_sklearn.postprocessing import DPBarycenterRegressor
from fairpriv_sklearn.privacy import PrivacyGuarantee

# --- tapes ----------------------------------------------------------------------------

# What is drawn, from what family, and the scale and location that are taken off.
NAMED = {
    "normal": (lambda rng: rng.normal(3.0, 2.0, 4), "gaussian", 3.0, 2.0),
    "one normal": (lambda rng: rng.normal(3.0, 2.0), "gaussian", 3.0, 2.0),
    "laplace": (lambda rng: rng.laplace(-1.0, 0.5, (2, 2)), "laplace", -1.0, 0.5),
    "by default": (lambda rng: rng.laplace(), "laplace", 0.0, 1.0),
    "standard normal": (lambda rng: rng.standard_normal(3), "gaussian", 0.0, 1.0),
    "one of these": (lambda rng: rng.standard_normal(), "gaussian", 0.0, 1.0),
    "randn": (lambda rng: rng.randn(2, 2), "gaussian", 0.0, 1.0),
    "one randn": (lambda rng: rng.randn(), "gaussian", 0.0, 1.0),
}
UNNAMED = {
    "uniform": lambda rng: rng.uniform(size=3),
    "permutation": lambda rng: rng.permutation(5),
    "choice": lambda rng: rng.choice(9, 2),
    "exponential": lambda rng: rng.exponential(size=2),
    "standard_t": lambda rng: rng.standard_t(3),
}
MADE = {
    "generator": lambda: np.random.default_rng(5),
    "generator of another": lambda: np.random.default_rng(np.random.default_rng(5)),
    "generator of an old one": lambda: np.random.default_rng(np.random.RandomState(5)),
    "old generator": lambda: np.random.RandomState(5),
    "functions": lambda: np.random.seed(5) or np.random,
    "checked": lambda: check_random_state(5),
    "shared": lambda: np.random.seed(5) or check_random_state(None),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("draw", [*NAMED, *UNNAMED])
def test_a_tape_hears_every_draw_and_changes_none(made, draw):
    with fixed_randomness(0):
        plain = MADE[made]()
        if "randn" in draw and not hasattr(plain, "randn"):
            return
        call = NAMED[draw][0] if draw in NAMED else UNNAMED[draw]
        expected = call(plain)
        tape = Tape()
        with taped(tape):
            rng = MADE[made]()
            assert rng is np.random or isinstance(
                rng, np.random.Generator | np.random.RandomState
            )
            value = call(rng)
    assert_array_equal(value, expected)
    if draw in NAMED:
        _, family, location, scale = NAMED[draw]
        ((heard, standard),) = tape.draws
        assert heard == family and not tape.other_randomness
        assert_allclose(location + scale * standard, np.ravel(value), rtol=1e-14)
    else:
        # what it calls of its own is heard as well
        assert tape.other_randomness[:1] == [draw] and not tape.draws
    assert not (tape.releases or tape.own_coins or tape.starts)


def test_what_a_tape_puts_in_place_is_gone_after_it():
    def now():
        names = ("normal", "laplace", "randn", "uniform", "default_rng", "RandomState")
        held = [getattr(np.random, name) for name in names]
        held += [np.random.mtrand._rand, os.urandom, random._urandom]
        mechanisms = (GaussianMechanism, DiscreteLaplaceMechanism)
        held += [mechanism.release for mechanism in mechanisms]
        draws = ("uniform", "key", "choice", "bernoulli", "integers")
        return [*held, *(getattr(NoiseSource, name) for name in draws)]

    # as a module that imports a name of NumPy's
    module = sys.modules[__name__]
    module.own_rng = np.random.default_rng
    before = now()
    with pytest.raises(KeyError), fixed_randomness(0), taped(Tape(), _Draws()):
        assert all(new is not old for new, old in zip(now(), before, strict=True))
        assert module.own_rng is np.random.default_rng
        raise KeyError
    assert all(new is old for new, old in zip(now(), before, strict=True))
    assert module.own_rng is np.random.default_rng
    del module.own_rng


class _Draws(BaseEstimator):
    def fit(self, X, y=None):
        return self


SOURCES = {
    "random": random.random,
    "of the system": lambda: random.SystemRandom().random(),
    "secrets": lambda: secrets.token_bytes(8),
    "urandom": lambda: os.urandom(8),
    "functions of NumPy": lambda: np.random.random(),
    "a fresh generator": lambda: np.random.default_rng().random(),
    "a fresh old one": lambda: np.random.RandomState().random_sample(),
    "noise": lambda: float(noise_source(None).uniform(())),
}


@pytest.mark.parametrize("name", SOURCES)
def test_all_randomness_starts_from_the_seed_and_from_nothing_after_it(name):
    draw, found = SOURCES[name], []
    states = random.getstate(), np.random.get_state()
    for seed in (7, 7, 8):
        with fixed_randomness(seed):
            found.append(draw())
    assert found[0] == found[1] != found[2]
    assert random.getstate() == states[0]
    assert str(np.random.get_state()) == str(states[1])
    assert draw() not in found


def _sums(tape, values, kind):
    """What a mechanism releases of these under a tape, one after the other."""
    with taped(tape):
        mechanism = kind(1, 1.0)
        noise = noise_source()
        return [mechanism.release(np.array(value), noise) for value in values]


def _gaussian(sensitivity, mu, size=1):
    return GaussianMechanism(sensitivity, mu, size)


def test_a_tape_gives_back_what_was_released_where_it_was_asked_alike():
    first = Tape()
    one, two = _sums(first, [[1.0], [5.0]], _gaussian)
    assert [float(r.exact[0]) for r in first.releases] == [1.0, 5.0]
    assert {(r.kind, r.sensitivity, r.parameter) for r in first.releases} == {
        ("gaussian", 1.0, 1.0)
    }
    again = Tape(replay=first)
    found = _sums(again, [[2.0], [2.0], [2.0]], _gaussian)
    assert found[0] is one and found[1] is two
    # a third was not asked for before
    assert found[2] is again.releases[2].released and found[2] not in (one, two)
    # another shape, or another kind of noise, is another question
    two_numbers = functools.partial(_gaussian, size=2)
    (pair,) = _sums(Tape(replay=first), [[2.0, 2.0]], two_numbers)
    assert pair.shape == (2,)
    counts = Tape(replay=first)
    (count,) = _sums(counts, [[3]], DiscreteLaplaceMechanism)
    assert count is not one and counts.releases[0].kind == "pure"
    assert counts.releases[0].parameter == pytest.approx(1.0)


@pytest.mark.parametrize("at", [0, 1, 3, 5])
def test_a_fit_is_interrupted_before_the_release_or_draw_of_that_number(at):
    """Of two draws and two releases, then a draw of each other kind."""
    tape, done = Tape(interrupt_at=at), []
    try:
        with taped(tape):
            rng, noise = np.random.default_rng(), noise_source()
            mechanism = _gaussian(1.0, 1.0)
            for step in (
                lambda: rng.normal(),
                lambda: mechanism.release(np.zeros(1), noise),
                lambda: rng.laplace(),
                lambda: mechanism.release(np.zeros(1), noise),
            ):
                done.append(step())
    except KeyboardInterrupt:
        assert len(done) == at
    else:
        assert at == 5
    assert len(tape.releases) + len(tape.draws) == min(at, 4)


def test_a_fit_that_takes_too_long_fails_at_its_next_release_or_draw():
    for step in (
        lambda: np.random.default_rng().normal(),
        lambda: _gaussian(1.0, 1.0).release(np.zeros(1), noise_source()),
    ):
        with taped(Tape(deadline=time.monotonic() + 60)):
            step()
        with pytest.raises(TimeoutError), taped(Tape(deadline=time.monotonic())):
            step()


@pytest.mark.parametrize("name", ["uniform", "key", "choice", "bernoulli", "integers"])
def test_draws_of_this_library_are_no_release(name):
    """What they decide is not replayed, so that no exact loss is read off it."""
    call = {
        "uniform": lambda noise: noise.uniform(2),
        "key": lambda noise: noise.key(),
        "choice": lambda noise: noise.choice(5, 2),
        "bernoulli": lambda noise: noise.bernoulli(3, 0.5),
        "integers": lambda noise: noise.integers(0, 9, 3),
    }[name]
    tape = Tape()
    with taped(tape):
        noise = noise_source(0)
        assert not tape.own_coins
        value = call(noise)
    assert tape.own_coins and not tape.releases
    assert_array_equal(value, call(noise_source(0)))


def test_counts_of_keys_beyond_those_of_the_earlier_fit_keep_their_noise():
    first = Tape()
    assert first.add_keyed({"a": 1.0, "b": 2.0}) == [1.0, 2.0]
    again = Tape(replay=first)
    assert again.add_keyed({"b": 5.0, "c": 6.0}) == [2.0, 6.0]
    assert again.add_keyed({"a": 7.0}) == [7.0]
    assert again.keyed == [{"b": 5.0, "c": 6.0}, {"a": 7.0}]


class _Uniform:
    """As the mechanisms of diffprivlib are, with a generator of NumPy's."""

    epsilon, delta, sensitivity = 0.5, 1e-5, 3.0

    def randomise(self, *value):
        return float(np.random.default_rng().normal()) + (value[0] if value else 0.0)


class _AnalyticGaussian(_Uniform):
    def randomise(self, value):
        return super().randomise(value)


class _Chooser(_Uniform):
    utility, monotonic = [1.0, 4.0], True

    def randomise(self):
        return int(super().randomise() > 0)


@pytest.mark.parametrize(
    ("kind", "mechanism", "value", "parameter"),
    [
        ("pure", _Uniform, (7.0,), 0.5),
        ("gaussian", _AnalyticGaussian, (7.0,), gaussian_mu(0.5, 1e-5)),
        ("choice", _Chooser, (), 0.5),
    ],
)
def test_a_mechanism_of_others_is_one_release(
    monkeypatch, kind, mechanism, value, parameter
):
    """Whatever of its parents it calls, and however it draws."""
    every = [_Uniform, _AnalyticGaussian, _Chooser]
    monkeypatch.setattr(_tape, "_diffprivlib_mechanisms", lambda: every)
    first = Tape()
    for tape in (first, Tape(replay=first)):
        with taped(tape):
            released = mechanism().randomise(*value)
        (noted,) = tape.releases
        assert (noted.kind, noted.sensitivity, noted.parameter) == (
            kind,
            3.0,
            pytest.approx(parameter),
        )
        assert noted.exact.tolist() == (list(value) or _Chooser.utility)
        assert noted.monotonic == (kind == "choice")
        assert not tape.draws and not tape.other_randomness
        assert released is first.releases[0].released
    with pytest.raises(KeyboardInterrupt), taped(Tape(interrupt_at=0)):
        mechanism().randomise(*value)


def test_what_a_foreign_model_learns_is_the_same_on_both_tables():
    """Its guarantee is its own; what a release adds to it is what is audited."""
    X = np.linspace(-1, 1, 40).reshape(20, 2)
    y, groups = X[:, 0], np.arange(20) % 2
    other = Table(np.vstack([X[:-1], [[-1.0, 1.0]]]), np.append(y[:-1], -1.0), groups)
    pair = audit.Neighbours("of one row", Table(X, y, groups), other)
    repair = DPBarycenterRegressor(
        LinearRegression(), target_bounds=(-1, 1), groups=[0, 1]
    )
    first, second = replayed(repair, pair, 0)
    assert len(first.tape.wrapped) == 1 and first.tape.wrapped[0] is not None
    assert_array_equal(first.model.estimator_.coef_, second.model.estimator_.coef_)
    assert first.model.estimator_ is not second.model.estimator_
    findings, ratio = compare(pair, first, second)
    assert not findings and ratio <= 1
    unfed = observed(fresh_copy(repair), other, 0).model
    assert (unfed.estimator_.coef_ != first.model.estimator_.coef_).any()
    # one that releases through mechanisms learns by these, and is audited with them
    own = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    first, second = replayed(repair.set_params(estimator=own), pair, 0)
    assert first.tape.wrapped == [None]
    alone = observed(fresh_copy(own), Table(X, y), 0).tape.releases
    assert len(first.tape.releases) > len(alone) > 0
    assert not compare(pair, first, second)[0]


def test_a_model_takes_what_one_of_its_own_class_has_learnt_and_no_other():
    """A constant that stands in for a model without rows is none."""
    X = np.linspace(-1, 1, 12).reshape(6, 2)
    first = Tape()
    with taped(first):
        for model in (LinearRegression(), LinearRegression()):
            assert guarded.guarded(model.fit, X, X[:, 0]) is model
    second = Tape(replay=first)
    fitted = [DummyRegressor(), LinearRegression(), LinearRegression()]
    with taped(second):
        for model in fitted:
            assert guarded.guarded(model.fit, X, X[:, 1] ** 2) is model
        assert_array_equal(guarded.guarded(model.predict, X), model.predict(X))
    assert_allclose(getattr(fitted[0], "constant_", None), [[np.mean(X[:, 1] ** 2)]])
    assert_allclose(fitted[1].coef_, [0.5, 0.5])  # of the first fit, in its place
    own = LinearRegression().fit(X, X[:, 1] ** 2)
    assert_allclose(fitted[2].coef_, own.coef_)
    assert len(second.wrapped) == 3 == len(first.wrapped) + 1


# --- outcomes -------------------------------------------------------------------------


class _Does(BaseEstimator):
    """What it is told, with the first cell of the table."""

    def __init__(self, act=None):
        self.act = act

    def fit(self, X, y=None):
        self.act(float(X[0, 0]))
        return self


def _raises(error, cause=None, *, hidden=False):
    try:
        if cause is not None:
            raise cause
    except Exception as first:
        if hidden:
            raise error from None
        if isinstance(error, KeyError):
            raise error from first
        raise error  # noqa: B904
    raise error


TELLS = {
    "warning": lambda x: warnings.warn(f"{x}", stacklevel=1),
    "kind of warning": lambda x: warnings.warn(
        "far", UserWarning if x else RuntimeWarning, stacklevel=1
    ),
    "log": lambda x: logging.getLogger("somewhere").warning("%s", x),
    "print": lambda x: print(x),
    "error line": lambda x: print(x, file=sys.stderr),
    "error": lambda x: _raises(ValueError(x)),
    "kind of error": lambda x: _raises((ValueError if x else TypeError)("far")),
    "cause": lambda x: _raises(KeyError("a"), ValueError(x)),
    "what was handled": lambda x: _raises(ValueError("a"), ValueError(x)),
}


@pytest.mark.parametrize("way", TELLS)
def test_whatever_a_fit_says_tells_tables_apart(way):
    one, same, other = (
        run(_Does(TELLS[way]), Table(np.full((2, 1), x))) for x in (0.0, 0.0, 7.5)
    )
    assert differences(one, same) == []
    (said,) = differences(one, other)
    assert said.startswith("exception" if one.error else "warnings or output")
    assert "7.5" not in said
    assert not logging.getLogger().handlers or all(
        type(handler) is not logging.Handler for handler in logging.getLogger().handlers
    )


def test_an_error_is_told_by_its_class_and_nothing_else():
    said = differences(
        Outcome(None, "ValueError: private <- KeyError: private"), Outcome(None)
    )
    assert said == ["exception: ValueError against nothing"]


def test_what_a_hidden_error_was_is_not_part_of_its_words():
    """`raise ... from None` shows it to nobody."""
    act = functools.partial(
        lambda x: _raises(ValueError("a"), ValueError(x), hidden=True)
    )
    assert run(_Does(act), Table(np.ones((2, 1)))).error == "ValueError: a"


def test_numbers_and_structure_of_an_outcome():
    model = SimpleNamespace(a=np.array([[1, 2]]), b="text", c=np.nan, d=True, e=3)
    outcome = Outcome(model)
    assert sorted(outcome.numbers()) == [1.0, 2.0, 3.0, math.inf]
    shape = outcome.signature()

    def changed(**attributes):
        return Outcome(SimpleNamespace(**{**vars(model), **attributes})).signature()

    assert changed() == shape
    assert changed(a=np.array([[1, 5]]), c=0.5, e=4) == shape
    for other in (
        {"a": np.array([1, 2])},
        {"a": np.array([[1.0, 2.0]])},
        {"b": "other"},
        {"d": False},
        {"f": 1},
    ):
        assert changed(**other) != shape
    assert Outcome(model, "ValueError: a").signature() != shape


# --- tables ---------------------------------------------------------------------------

X = np.array([[1.0, -3.0], [2.0, 4.0], [0.5, 0.0], [1.5, 2.0]])
Y = np.array([3.0, 1.0, 2.0, 1.0])
GROUPS = np.array(["b", "a", "b", "c"])
LOW, HIGH = [0.5, -3.0], [2.0, 4.0]  # smallest and largest cell of each column
FAR = [2e6, 4e6]


def pairs_of(relation="replace_one", **changes):
    given = {"X": X, "y": Y, "sensitive_features": GROUPS, **changes}
    pairs = audit.neighbours(given.pop("X"), **given, neighboring=relation)
    return {pair.name: pair for pair in pairs}


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        (
            "extremes: the other corner, target and group",
            (LOW, 1.0, "a"),
            (HIGH, 3.0, "c"),
        ),
        ("far outlier", (LOW, 1.0, "a"), (FAR, 3e6, "c")),
        ("far outlier, negative", (HIGH, 3.0, "c"), ([-2e6, -4e6], -3e6, "c")),
        ("features only", (LOW, 1.0, "a"), (HIGH, 1.0, "a")),
        ("small cells", ([0.0, 0.0], 1.0, "a"), ([2e-3, 4e-3], 3.0, "c")),
        ("target only", (LOW, 1.0, "a"), (LOW, 3.0, "a")),
        ("group only", (LOW, 1.0, "a"), (LOW, 1.0, "c")),
        ("one row", (LOW, 1.0, "a"), (HIGH, 3.0, "c")),
        ("one row, far", (LOW, 1.0, "a"), (FAR, 3e6, "c")),
        ("negative zero", ([0.0, 0.0], 1.0, "a"), ([-0.0, -0.0], 1.0, "a")),
        ("cells of +-1.7e308", (LOW, 1.0, "a"), ([-1.7e308, 1.7e308], 3.0, "c")),
        ("subnormal cells", (LOW, 1.0, "a"), ([5e-324, 5e-324], 1.0, "a")),
    ],
)
def test_the_record_that_differs_is_what_the_name_says(name, first, second):
    pair = pairs_of()[name]
    for table, (cells, target, group) in ((pair.first, first), (pair.second, second)):
        assert table.X[-1].tobytes() == np.array(cells).tobytes()
        assert (table.y[-1], table.sensitive_features[-1]) == (target, group)


@pytest.mark.parametrize(
    ("name", "rows", "rest"),
    [
        ("extremes: the other corner, target and group", 4, X[:3]),
        ("twins", 4, [LOW] * 3),
        ("twins of the middle", 4, [X[2]] * 3),
        ("twins in two halves", 4, [LOW, HIGH, LOW]),
        ("twins with both targets", 20, [LOW] * 19),
        ("one target", 2, X[[1]]),
        ("one group", 1, np.empty((0, 2))),
        ("one row", 1, np.empty((0, 2))),
        ("two rows", 2, [LOW]),
        ("two rows, apart", 2, [HIGH]),
        ("alone in its block of 256", 257, X[np.arange(256) % 4]),
        ("float16 target", 257, X[np.arange(256) % 4]),
        ("constant and one far", 4, [LOW] * 3),
        ("twins and a cell of -1.7e308", 3, np.full((2, 2), 1.7e308)),
    ],
)
def test_the_records_that_stay_are_what_the_name_says(name, rows, rest):
    pair = pairs_of()[name]
    assert pair.first.n_rows == pair.second.n_rows == rows
    assert_array_equal(pair.first.X[:-1], rest)


def test_only_what_no_guarantee_speaks_of_may_be_refused():
    """A pair that is outside excuses errors, and a hostile one warnings."""
    pairs = pairs_of()
    assert {name for name, pair in pairs.items() if pair.outside} == {
        "sparse, duplicate entries that overflow",
        "a cell of text",
    }
    hostile = [pair.hostile for pair in pairs.values()]
    assert hostile == sorted(hostile)
    assert list(pairs)[hostile.index(True)] == "a cell of 1.7e308"
    (text,) = [name for name, p in pairs.items() if CANARY in str(p.second.X)]
    assert text == "a cell of text" and CANARY not in str(pairs[text].first.X)


def test_layouts_hold_the_cells_that_they_are_made_of():
    pairs = pairs_of()
    plain = pairs["extremes: the other corner, target and group"]
    for name, kind in (
        ("Fortran order", lambda X: X.flags.f_contiguous and not X.flags.c_contiguous),
        ("strided", lambda X: not X.flags.forc),
        ("object features", lambda X: X.dtype == object),
        ("sparse", lambda X: X.format == "csr"),
        ("float32 features", lambda X: X.dtype == np.float32),
        ("float16 features", lambda X: X.dtype == np.float16),
    ):
        for one, expected in (
            (pairs[name].first, plain.first),
            (pairs[name].second, plain.second),
        ):
            assert kind(one.X), name
            cells = one.X.toarray() if name == "sparse" else one.X
            assert_array_equal(cells.astype(float), expected.X)
            assert_array_equal(one.y, expected.y)
    for name in ("float16", "float32"):
        pair = pairs[f"{name} target"]
        assert pair.first.y.dtype == pair.second.y.dtype == name
        assert pair.first.X.dtype == float
        assert_array_equal(pair.second.y, np.append(Y[np.arange(256) % 4], 3.0))
    twice = pairs["sparse, duplicate entries that overflow"].second.X
    assert np.isfinite(twice.data).all() and len(twice.data) == 4 * 2 + 1
    with np.errstate(over="ignore"):
        assert twice.toarray()[-1, -1] == math.inf
    ramp = pairs["a ramp"].first.X
    assert_allclose(ramp[:3], np.linspace(LOW, HIGH, 4)[:3])


def test_arrays_get_the_names_of_a_data_frame_and_of_nothing_else():
    pairs = pairs_of()
    frame = pd.DataFrame(X, columns=["a", "b"])
    pair = named_columns(pairs["features only"], frame)
    for one, plain in (
        (pair.first, pairs["features only"].first),
        (pair.second, pairs["features only"].second),
    ):
        assert one.X.columns.tolist() == ["a", "b"]
        assert_array_equal(one.X.to_numpy(), plain.X)
        assert one.y is plain.y
    for name, given in (
        ("features only", X),
        ("features only", SimpleNamespace(columns=["a", "b"])),
        ("features only", SimpleNamespace(iloc=X)),
        ("sparse", frame),
    ):
        assert named_columns(pairs[name], given) is pairs[name]


def test_of_add_remove_the_last_row_leaves():
    replaced, removed = pairs_of(), pairs_of("add_remove")
    # a table of one row would leave none
    assert set(replaced) - set(removed) == {"one row", "one row, far", "one group"}
    for name, pair in removed.items():
        if not hasattr(pair.first.X, "format"):
            assert_array_equal(pair.first.X, replaced[name].second.X)
            assert_array_equal(pair.second.X, pair.first.X[:-1])
        assert_array_equal(pair.second.y, pair.first.y[:-1])
        assert (pair.outside, pair.hostile) == (
            replaced[name].outside,
            replaced[name].hostile,
        )


def test_tables_without_targets_or_of_equal_cells_have_neighbours():
    bare = pairs_of(y=None, sensitive_features=None)
    assert not {"target only", "group only", "one target", "one group"} & set(bare)
    assert all(pair.first.y is pair.second.y is None for pair in bare.values())
    constant = pairs_of(X=np.ones((3, 2)), y=None, sensitive_features=None)
    pair = constant["features only"]
    assert_array_equal(pair.first.X, np.ones((3, 2)))
    assert_array_equal(pair.second.X[-1], [2.0, 2.0])
    # several targets in a row, and labels that cannot be sorted
    several = pairs_of(y=np.column_stack([Y, -Y]))["target only"]
    assert_array_equal(several.first.y[-1], [1.0, -1.0])
    assert_array_equal(several.second.y[-1], [3.0, -3.0])
    mixed = np.array(["a", None, 3, "a"], dtype=object)
    pair = pairs_of(sensitive_features=mixed)["group only"]
    labels = [one.sensitive_features[-1] for one in (pair.first, pair.second)]
    assert set(labels) < {"a", None, 3} and labels[0] != labels[1]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"y": Y[:3]}, "y must have as many rows as X"),
        ({"sensitive_features": GROUPS[:3]}, "sensitive_features must have as many"),
        ({"y": np.array(1.0)}, "y must have as many rows as X"),
        ({"X": np.empty((4, 0))}, "two-dimensional and not empty"),
        ({"X": X[0]}, "two-dimensional and not empty"),
    ],
)
def test_columns_of_other_lengths_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        pairs_of(**changes)


def test_a_table_is_taken_as_it_is_written():
    table = Table(X, Y, GROUPS)
    assert as_table(table) is table
    for written in ((X, Y, GROUPS), dict(X=X, y=Y, sensitive_features=GROUPS)):
        one = as_table(written)
        assert one.X is X and one.y is Y and one.sensitive_features is GROUPS
    assert as_table((X,)).y is None
    for wrong in ((), (X, Y, GROUPS, X), [X, Y], X):
        with pytest.raises(TypeError, match="must be tables, or tuples"):
            as_table(wrong)
    assert Table(X.tolist()).n_rows == 4


# --- bets -----------------------------------------------------------------------------


def outcomes(*values, error=""):
    return [Outcome(SimpleNamespace(a=np.array(v, float)), error) for v in values]


def test_how_far_outputs_are_apart_is_counted_in_their_spread():
    first, second = outcomes([0, 5], [2, 5], [4, 5]), outcomes([3, 5], [5, 5], [7, 5])
    assert apart(first, second) == pytest.approx(3 / np.std([0, 2, 4]))
    # two numbers that move alike are the root of two as far
    doubled = [outcomes(*([x, x] for x in side)) for side in ([0, 2, 4], [3, 5, 7])]
    assert apart(*doubled) == pytest.approx(math.sqrt(2) * 3 / np.std([0, 2, 4]))
    assert apart(first, first) == 0.0
    assert apart(outcomes([], []), outcomes([], [])) == 0.0
    assert apart(first, outcomes([0, 5], [2, 5], error="ValueError: x")) == 1e6
    assert apart(outcomes([1], [1]), outcomes([2], [2])) == 1e6
    assert apart(outcomes([1], [2]), outcomes([1], [math.inf])) >= 1e6


@pytest.mark.parametrize(("delta", "mu"), [(1e-5, None), (0.0, None), (1e-5, 0.5)])
def test_lines_of_a_claim_lie_on_what_its_guarantee_says(delta, mu):
    events = [GaussianEvent(0.5, 1)] if mu else [PureEvent(0.4), PureEvent(0.6)]
    guarantee = PrivacyGuarantee.from_events(
        events, delta=delta, neighboring="replace_one", mechanism="two counts"
    )
    claim = Claim(guarantee.epsilon, delta, "replace_one", mu, guarantee)
    lines = _contest.tests_of(claim)
    if mu:
        assert lines == [("mu", 0.5, delta)]
        return
    assert lines[0] == ("epsilon", guarantee.epsilon, delta)
    assert len(lines) == 1 + (delta > 0)
    for _, epsilon, at in lines[1:]:
        assert epsilon == guarantee.epsilon / 2
        # both lose all with a chance of a quarter at least, and never more
        assert 0.25 <= at / (1 - math.exp(epsilon - 1.0)) <= 1.0
    assert _contest.tests_of(Claim(1.0, delta, "replace_one"))[1:] == []
    assert _contest.tests_of(Claim(1.0, 1.0, "replace_one")) == []


class _Heard:
    """A bound that notes what it is given."""

    every: list = []

    def __init__(self, *, delta=0.0, confidence):
        self.confidence = confidence
        self.learnt, self.seen = 0, 0
        self.value, self.estimate, self.n_runs = 0.0, math.inf, 0
        self.every.append(self)

    def learn(self, first, second):
        self.learnt += len(first)
        return self

    def update(self, first, second):
        assert len(first) == len(second)
        self.seen += len(first)


class _Chance(BaseEstimator):
    """A count with noise of no family that is recognised."""

    def fit(self, X, y=None):
        total = np.clip(X[:, 0], 0, 1).sum()
        self.sum_ = total + np.random.default_rng().gumbel(scale=5.0)
        return self


@pytest.mark.parametrize("confidence", [0.999, 0.8])
def test_all_bets_of_an_audit_together_keep_its_confidence(monkeypatch, confidence):
    """By the union bound, over every pair, statistic, line of the claim and round."""
    monkeypatch.setattr(_Heard, "every", [])
    monkeypatch.setattr(_contest, "EpsilonBound", _Heard)
    rounds = [(n_pairs, 64) for n_pairs, _ in _estimator._ROUNDS]
    monkeypatch.setattr(_estimator, "_ROUNDS", rounds)
    data = np.random.default_rng(0).random((20, 2))
    audit_estimator(_Chance(), data, claim=1.0, confidence=confidence)
    alphas = [1 - bound.confidence for bound in _Heard.every]
    assert len(alphas) == 20  # of six pairs, of three and of one
    assert math.fsum(alphas) <= (1 - confidence) * (1 + 1e-9)
    assert math.fsum(alphas) >= (1 - confidence) / 2
    # what chose the statistic is no evidence: only what came after it is
    assert all(bound.learnt >= 48 and bound.seen > 0 for bound in _Heard.every)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda n: ([n], ""), None),  # numbers
        (lambda n: ([0.0] * (1 + (n > 0.4)), ""), None),  # how many of them
        (lambda n: ([0.0], "ValueError: x" * bool(n > 0.4)), None),  # an error
        (lambda n: ([round(3 * n)], ""), None),  # of few values
        (lambda n: ([n**3 * 1e300], ""), None),
    ],
)
def test_a_contest_learns_what_tells_two_tables_apart(change, says):
    """One table moves what comes out by a half of the spread."""
    rng = np.random.default_rng(0)

    def runs(n, shift):
        values = [change(x + shift) for x in rng.normal(size=n)]
        return [Light(outcomes(numbers, error=error)[0]) for numbers, error in values]

    contest = Contest(None, Claim(0.1, 1e-5, "replace_one"))
    contest.train(runs(7, 0.0), runs(7, 1.0))
    assert not contest.learn(0.99) and contest.estimate == math.inf
    contest.train(runs(300, 0.0), runs(300, 1.0))
    assert contest.learn(0.99) and contest.promise == 0.0
    contest.play(runs(2000, 0.0), runs(2000, 1.0))
    value = max(bound.value for _, bound in contest.bounds)
    assert 0.3 < value
    assert contest.promise == pytest.approx(value / 0.1)
    # what is more telling than any event of a normal shift would be wrong
    assert contest.estimate < 60


def test_a_contest_finds_nothing_where_nothing_is():
    rng = np.random.default_rng(0)

    def runs(n):
        return [Light(one) for one in outcomes(*rng.normal(size=(n, 3)))]

    for _ in range(5):
        contest = Contest(None, Claim(0.1, 0.0, "replace_one"))
        contest.train(runs(60), runs(60))
        contest.learn(0.99)
        contest.play(runs(500), runs(500))
        assert contest.promise == 0.0


# --- replays --------------------------------------------------------------------------


class _Pickles(BaseEstimator):
    """Says nothing in its attributes, and all in a pickle."""

    held: dict = {}

    def __init__(self, is_told=True):
        self.is_told = is_told

    def fit(self, X, y=None, sensitive_features=None):
        noise = noise_source()
        self.sum_ = _gaussian(1.0, 1.0).release(np.zeros(1), noise)
        self.held[id(self)] = float(X[-1, 0])
        return self

    def __getstate__(self):
        more = {"more": self.held.get(id(self))} if self.is_told else {}
        return {**vars(self), **more}


@pytest.mark.parametrize("is_told", [False, True])
def test_what_only_a_pickle_holds_tells_tables_apart(is_told):
    _Pickles.held = {}
    pair = pairs_of()["features only"]
    first, second = replayed(_Pickles(is_told), pair, 0)
    findings, ratio = compare(pair, first, second)
    assert ratio == 0.0
    assert [finding.kind for finding in findings] == ["leak"] * is_told
    for finding in findings:
        assert finding.violates and finding.text.startswith("pickle: attribute .more")


def releases(*told, kind="gaussian", sensitivity=2.0, parameter=1.0, monotonic=False):
    return [
        Released(kind, np.array(x, float), None, sensitivity, parameter, monotonic)
        for x in told
    ]


def compared(first, second, *, pair=None, strict=True, **changes):
    """What is found of two outcomes that released these."""
    sides = [
        Outcome(SimpleNamespace(a=1.0), tape=SimpleNamespace(releases=one))
        for one in (first, second)
    ]
    for name, value in changes.items():
        setattr(sides[1], name, value)
    pair = audit.Neighbours("a pair", None, None) if pair is None else pair
    return compare(pair, *sides, strict=strict)


@pytest.mark.parametrize(
    ("kind", "change", "ratio"),
    [
        ("gaussian", [3.0, 4.0], 2.5),  # the length of the way
        ("pure", [3.0, -4.0], 3.5),  # and the sum of its parts
        ("choice", [3.0, -4.0], 2.0),  # the longest of them
        ("monotonic", [3.0, 4.0], 2.0),
        ("monotonic", [3.0, -4.0], 4.0),  # is twice that where they part
        ("monotonic", [0.0, -4.0], 2.0),
        ("gaussian", [0.0, 0.0], 0.0),
        ("pure", [math.nan, 0.0], math.inf),
        ("gaussian", [2.0 * (1 + 1e-10), 0.0], 1.0),
        ("gaussian", [2.0 * (1 + 1e-8), 0.0], 1.0),
    ],
)
def test_a_change_is_measured_as_its_mechanism_measures_it(kind, change, ratio):
    told = {"kind": kind, "monotonic": False}
    if kind == "monotonic":
        told = {"kind": "choice", "monotonic": True}
    first, second = (releases(x, **told) for x in ([5.0, 7.0], np.add([5, 7], change)))
    findings, found = compared(first, second)
    assert found == pytest.approx(ratio, rel=1e-7)
    is_too_much = found > 1 + 1e-9
    assert [f.kind for f in findings] == ["sensitivity"] * is_too_much
    assert all(f.violates for f in findings)
    first, second = (releases([x], sensitivity=0.0) for x in (1.0, 1.5))
    assert compared(first, second)[1] == math.inf
    assert compared(first, first) == ([], 0.0)


def test_the_first_release_that_changes_too_much_says_all():
    first, second = releases([0.0], [0.0], [0.0]), releases([1.0], [9.0], [30.0])
    (finding,), ratio = compared(first, second)
    assert "release 1 changed by 4.5 times" in finding.text and ratio == 4.5


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (releases([0.0], [0.0]), "1 against 2"),
        ([], "1 against 0"),
        (releases([0.0], kind="pure"), "1 against 1"),
        (releases([0.0], parameter=2.0), "1 against 1"),
        (releases([0.0], sensitivity=1.0), "1 against 1"),
        (releases([0.0, 0.0]), "1 against 1"),
    ],
)
def test_releases_that_hang_on_the_table_tell_it(second, says):
    (finding,), ratio = compared(releases([0.0]), second)
    assert finding.kind == "leak" and finding.violates
    assert f"the releases differ in number or kind: {says}" == finding.text
    assert not ratio > 0.0


def test_words_of_a_strangers_model_on_hostile_tables_are_no_breach():
    """Ours are, anywhere; and so is what either holds."""
    for hostile in (False, True):
        pair = audit.Neighbours("a pair", None, None, hostile=hostile)
        for strict in (False, True):
            for changes in ({"texts": ("far",)}, {"error": "ValueError: far"}):
                (finding,), _ = compared([], [], pair=pair, strict=strict, **changes)
                assert finding.violates == (strict or not hostile)
            told = {"model": SimpleNamespace(a=2.0)}
            findings, _ = compared([], [], pair=pair, strict=strict, **told)
            assert findings and all(finding.violates for finding in findings)


def test_of_what_may_be_refused_only_a_quoted_cell_counts():
    pair = audit.Neighbours("a pair", None, None, hostile=True, outside=True)
    assert compared([], [], pair=pair, error="ValueError: a cell of text")[0] == []
    for changes in (
        {"error": f"ValueError: {CANARY}"},
        {"error": "ValueError", "texts": (f"UserWarning: {CANARY}.",)},
    ):
        for strict in (False, True):
            (finding,), ratio = compared([], [], pair=pair, strict=strict, **changes)
            assert finding.violates == strict and math.isnan(ratio)
            assert CANARY not in finding.text
    # of a pair that may not be refused a refusal counts
    (finding,), _ = compared([], [], error="ValueError: a cell of text")
    assert finding.kind == "leak" and finding.violates


def test_the_words_of_a_replay():
    report = ReplayReport([], {"p": 0.5}, 1)
    start = "largest change over claimed sensitivity"
    assert str(report) == f"1 pair replayed; {start} 0.5; nothing found."
    found = [Finding("leak", "p", "it leaks", True)]
    report = ReplayReport(found, {"p": 1.00001, "q": math.nan}, 2, 1)
    assert str(report) == (
        f"2 pairs replayed; {start} 1.001; VIOLATED found. Neither table of 1 of them "
        "could be fitted, which tells nothing.\n- p: it leaks"
    )
    assert report.to_dict()["ratios"] == {"p": 1.00001, "q": None}


# --- noise that is added --------------------------------------------------------------

G, L = "gaussian", "laplace"


def drawn(output, families, **tape):
    """Four fits that give these numbers of their draws."""
    draws = np.random.default_rng(0).normal(size=(4, len(families)))
    told = {"releases": [], "other_randomness": [], **tape}
    return [
        Outcome(
            SimpleNamespace(a=np.array(output(*z), float)),
            tape=SimpleNamespace(
                draws=[(f, np.array([x])) for f, x in zip(families, z, strict=True)],
                **told,
            ),
        )
        for z in draws
    ]


@pytest.mark.parametrize(
    ("one", "other", "families", "shift", "scale", "others", "is_all", "is_bare"),
    [
        (lambda z: [2 + 3 * z], lambda z: [2.5 + 3 * z], [G], 0.5, 3, 3, True, False),
        (lambda z: [2 - 3 * z], lambda z: [2 - 4 * z], [L], 0, 3, 4, True, False),
        (
            lambda z, w: [z, 1 + 2 * w, 7],
            lambda z, w: [z, 2 + 2 * w, 7],
            *([G, L], [0, 1], [1, 2], [1, 2], True, False),
        ),
        # another number moves, by itself or as no line
        (lambda z: [z, 7], lambda z: [1 + z, 8], [G], 1, 1, 1, False, False),
        (lambda z: [z, z * z], lambda z: [z, z * z], [L], 0, 1, 1, False, False),
        (
            lambda z, w: [z, z + w],
            lambda z, w: [z, z + w],
            [G, G],
            0,
            1,
            1,
            False,
            False,
        ),
        # two of one draw: by as much noise, by less, and by noise of another scale
        (
            lambda z: [1 + z, 5 - 2 * z],
            lambda z: [1.5 + z, 4 - 2 * z],
            *([G], 0.5, 1, 1, True, False),
        ),
        (
            lambda z: [1 + z, 5 + 2 * z],
            lambda z: [1.5 + z, 5 + 2 * z],
            *([G], 0.5, 1, 1, False, True),
        ),
        (
            lambda z: [1 + z, 5 + 2 * z],
            lambda z: [1.5 + z, 5 + 4 * z],
            *([G], 0.5, 1, 1, False, False),
        ),
        (
            lambda z, w: [1 + z, 5 + 2 * z, w],
            lambda z, w: [1.5 + z, 5 + 2 * z, w],
            *([G, G], [0.5, 0], [1, 1], [1, 1], False, True),
        ),
        # what rounding makes of no shift, and what it does not
        (lambda z: [1e6 + z], lambda z: [1e6 + 1e-7 + z], [G], 0, 1, 1, True, False),
        (lambda z: [1e6 + z], lambda z: [1e6 + 1e-4 + z], [G], 1e-4, 1, 1, True, False),
    ],
)
def test_noise_that_is_added_is_recognised_for_what_it_is(
    one, other, families, shift, scale, others, is_all, is_bare
):
    found = additive_noise(drawn(one, families), drawn(other, families))
    assert found.families == families[: np.size(shift)]
    assert_allclose(found.shift, np.ravel(shift), rtol=1e-5, atol=1e-12)
    assert_allclose(found.scale, np.ravel(scale))
    assert_allclose(found.other_scale, np.ravel(others))
    assert (found.is_all, found.is_bare) == (is_all, is_bare)
    if is_bare:
        assert found.epsilon(1e-5, 1.0) == math.inf


def test_what_is_not_known_to_be_added_is_left_to_bets(monkeypatch):
    plain = drawn(lambda z: [z], [G])
    failed = drawn(lambda z: [z], [G])
    failed[1].error = "ValueError: x"
    for other in (
        drawn(lambda z: [z * z], [G]),
        drawn(lambda z, w: [z], [G, G]),
        drawn(lambda z: [z, z], [G]),
        drawn(lambda z: [z], [L]),
        drawn(lambda z: [z], [G], other_randomness=["choice"]),
        drawn(lambda z: [z], [G], releases=[1]),
        failed,
    ):
        assert additive_noise(plain, other) is additive_noise(other, plain) is None
    for alike in (drawn(lambda: [1.0], []), drawn(lambda z, w: [z + w], [G, G])):
        assert additive_noise(alike, alike) is None
    two = drawn(lambda z, w: [z], [G, G])
    for most in (8, 7):  # runs times outputs times draws
        monkeypatch.setattr(_replay, "_MAX_CELLS", most)
        assert (additive_noise(two, two) is not None) == (most == 8)


# --- audits ---------------------------------------------------------------------------


class _Seeded(BaseEstimator):
    _parameter_constraints = {
        "way": [StrOptions({"one", "two", "three"}), None],
        "criterion": [StrOptions({"one", "two"})],
        "number": [int],
    }

    def __init__(self, random_state=None, way="one", criterion="one", number=1):
        self.random_state = random_state
        self.way = way
        self.criterion = criterion
        self.number = number


class _SeededOfItself(_Seeded):
    def __init__(self, random_state=0):
        super().__init__(random_state)


def test_seeds_that_were_passed_are_told_from_defaults():
    found = _estimator._given_seeds
    assert found(_Seeded()) == [] and found(_Seeded(0)) == ["random_state"]
    assert found(_SeededOfItself()) == [] == found(_SeededOfItself(1))
    assert found(SimpleNamespace(random_state=0)) == []
    chain = make_pipeline(_Seeded(0), make_pipeline(_SeededOfItself(), _Seeded(7)))
    assert found(chain) == [
        "_seeded__random_state",
        "pipeline___seeded__random_state",
    ]


def test_other_words_are_tried_where_an_argument_takes_some():
    found = _estimator._alternatives
    words = [{"way": "three"}, {"way": "two"}]
    assert sorted(found(_Seeded()), key=str) == words
    assert found(_Seeded(way=None)) == [] == found(SimpleNamespace())


def test_estimators_that_are_made_have_nothing_in_common():
    for model in (_Seeded(5, number=3), make_pipeline(_Seeded(way="two"))):
        make = maker_of(model)
        one, other = make(), make()
        assert one is not other is not model and type(one) is type(model)
        assert str(one) == str(model)
        if hasattr(one, "steps"):
            assert one.steps[0][1] is not other.steps[0][1]
    plain = SimpleNamespace(held=[1])  # what scikit-learn cannot clone
    copied = maker_of(plain)()
    assert copied is not plain and copied.held == [1]
    assert copied.held is not plain.held


def test_an_audit_changes_no_random_numbers_of_others():
    np.random.seed(3)
    before = str(np.random.get_state())
    data = np.linspace(0, 1, 10)[:, None]
    audit_estimator(_Chance(), data, claim=1.0, max_fits=20, random_state=0)
    assert str(np.random.get_state()) == before
    with pytest.raises(ValueError, match="could not be fitted"):
        audit_estimator(_Does(TELLS["error"]), data, claim=1.0)
    assert str(np.random.get_state()) == before


@pytest.mark.parametrize(("n_good", "is_conclusive"), [(1, False), (2, True)])
def test_an_audit_of_pairs_of_which_half_cannot_be_fitted_says_so(
    n_good, is_conclusive
):
    model = DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1))
    rows = np.random.default_rng(0).random((20, 2))
    target = rows[:, 0]
    other = np.vstack([rows[:-1], [[1.0, 0.0]]])
    broken = (np.full((20, 2), "x", dtype=object), target)
    pairs = [((rows, target), (other, target))] * n_good + [(broken, broken)]
    report = audit_estimator(model, rows, target, pairs=pairs, random_state=0)
    assert report.conclusive == is_conclusive and not report.violated
    assert ("could not be fitted" in str(report)) != is_conclusive
    assert report.n_pairs == n_good + 1
    assert f"fits to {n_good + 1} pairs of tables in" in str(report)


def test_infinity_is_a_word_in_plain_data():
    report = audit.AuditReport("A", "b", 1.0, 0.0, epsilon_lower=math.inf, n_pairs=1)
    report.bounds = {"a pair": np.float64(math.inf), "other": np.float64(0.5)}
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["epsilon_lower"] == "inf" and plain["largest_ratio"] == "nan"
    assert plain["bounds"] == {"a pair": "inf", "other": 0.5}
    assert plain["worst"] is None and "0 fits to 1 pair of tables" in str(report)


def begun(epsilon=1.0, delta=0.0, own=False):
    """An audit of this claim before its first fit."""
    made = _estimator._Audit(
        *(BaseEstimator(), Table(np.zeros((2, 1)))),
        **{"confidence": 0.9, "max_seconds": 60, "max_fits": 9},
        random_state=np.random.RandomState(0),
    )
    made.claim = Claim(epsilon, delta, "replace_one", own=own)
    made.report = audit.AuditReport("A", "claimed", epsilon, delta)
    return made


P, Q = (audit.Neighbours(name, None, None) for name in "pq")


def found_by(made):
    assert all(finding.violates for finding in made.report.findings)
    return [finding.kind for finding in made.report.findings]


def test_the_words_of_an_audit_promise_no_more_than_it_saw():
    report = audit.AuditReport("A", "claimed", 1.0, 1.00001e-5, confidence=0.99999)
    report.epsilon_lower, report.n_fits, report.n_pairs = 0.49999, 3, 2
    report.findings = [
        Finding("note", "p", "seen", False),
        Finding("leak", "q", "it leaks", True),
    ]
    for violated, conclusive, verdict in (
        (False, False, "not violated, not conclusive"),
        (False, True, "not violated"),
        (True, True, "VIOLATED"),
    ):
        report.violated, report.conclusive = violated, conclusive
        assert str(report).splitlines() == [
            f"A: claimed: {verdict}.",
            "epsilon >= 0.4999 at delta = 1.001e-05 with confidence 0.9999; 3 fits to "
            "2 pairs of tables in 0.0 s.",
            "- note (note; p): seen",
            "- VIOLATION (leak; q): it leaks",
        ]


@pytest.mark.parametrize(
    ("kind", "lower"),
    [
        *(("sensitivity", 2.0), ("leak", 2.0), ("refit", 2.0), ("seed", 2.0)),
        *(("bound", 0.0), ("loss", 0.0), ("overspent", 0.0), ("interrupted", 0.0)),
    ],
)
def test_only_what_is_no_matter_of_chance_is_a_bound(kind, lower):
    made = begun(2.0)
    made._add([Finding(kind, "p", "x", False)], P)
    assert (made.report.violated, made.report.worst) == (False, None)
    assert made.report.epsilon_lower == 0.0
    for pair in (Q, P):
        made._add([Finding(kind, pair.name, "x", True)], pair)
    assert made.report.violated and made.report.worst is Q
    assert made.report.epsilon_lower == lower and len(made.report.findings) == 3


def test_an_exact_loss_above_the_claim_refutes_it():
    made = begun(1.0)
    for pair, epsilon, lower, worst in (
        (P, 0.5, 0.5, P),
        (Q, 0.25, 0.5, P),
        (Q, 1 + 5e-7, 1 + 5e-7, Q),  # but for rounding
        (P, 0.75, 1 + 5e-7, Q),
        (P, 0.25, 1 + 5e-7, Q),
    ):
        made._lower(pair, epsilon)
        assert (made.report.epsilon_lower, made.report.worst) == (lower, worst)
    assert made.report.bounds == {"p": 0.75, "q": 1 + 5e-7}
    assert not made.report.findings and not made.report.violated
    made._lower(P, 1.49999)
    assert found_by(made) == ["loss"] and made.report.worst is P
    assert made.report.findings[0].text.endswith("epsilon >= 1.499")
    made._lower(Q, 3.0)
    assert made.report.worst is P and made.report.epsilon_lower == 3.0


def told(*released, **tape):
    outcome = Outcome(SimpleNamespace(a=1.0), tape=Tape())
    outcome.tape.releases = list(released)
    vars(outcome.tape).update(tape)
    return outcome


@pytest.mark.parametrize(
    ("own", "excess", "kinds"),
    [
        (True, 1e-10, []),
        (True, 1e-8, ["overspent"]),
        (False, 9e-4, []),  # a claim by hand may be rounded
        (False, 2e-3, ["overspent"]),
    ],
)
def test_releases_cost_what_they_compose_to(own, excess, kinds):
    (before,), (after,) = releases([0.0]), releases([1.0])
    cost = compose_epsilon([GaussianEvent(1.0, 1)], 1e-5)
    made = begun(cost / (1 + excess), 1e-5, own)
    made._replayed(P, told(before), told(after))
    assert found_by(made) == kinds and made.report.largest_ratio == 0.5
    assert made.report.epsilon_lower == pytest.approx(gaussian_epsilon(0.5, 1e-5))
    made._replayed(P, told(), told())  # nothing is no change
    assert made.report.largest_ratio == 0.5
    # the loss of one outcome of other draws is not that of the fit
    made = begun(cost / 2, 1e-5, own)
    for draws in ({"own_coins": True}, {"other_randomness": ["choice"]}):
        made._replayed(P, told(before, **draws), told(after, **draws))
    assert not made.report.findings and made.report.epsilon_lower == 0.0
    made._replayed(P, told(before), told(*releases([3.0])))
    assert found_by(made) == ["sensitivity"] and made.report.largest_ratio == 1.5


@pytest.mark.parametrize("own", [True, False])
def test_a_hostile_table_excuses_the_words_of_strangers_only(own):
    made, other = begun(own=own), told()
    other.texts = ("UserWarning: far",)
    hostile = audit.Neighbours("a pair", None, None, hostile=True)
    made._replayed(hostile, told(), other)
    assert [f.kind for f in made.report.findings] == ["leak"]
    assert made.report.violated == own


@pytest.mark.parametrize(
    ("again", "kinds"), [(["x"], ["seed"]), (["y"], []), ([], []), (["y", "x"], [])]
)
def test_noise_that_starts_alike_in_every_fit_is_looked_for_once(again, kinds):
    made, asked = begun(), []
    made._observed = lambda table, seed: asked.append(seed) or told(starts=again)
    made._replayed(P, told(), told())
    for _ in range(2):
        made._replayed(P, told(starts=["x"]), told(starts=["x"]))
    assert asked == [2] and found_by(made) == kinds


@pytest.mark.parametrize(
    ("kind", "level", "delta", "value", "lower", "says"),
    [
        ("epsilon", 1.0, 1e-5, 0.9, 0.9, ""),
        ("epsilon", 1.0, 1e-5, 1 + 5e-7, 1 + 5e-7, ""),
        ("epsilon", 1.0, 1e-5, 1.2345, 1.2345, "epsilon at delta = 1e-05 >= 1.234"),
        # at another delta it is no bound at the claim's
        ("epsilon", 0.5, 1e-3, 0.6, 0.0, "epsilon at delta = 0.001 >= 0.6"),
        ("mu", 0.3, 1e-5, 0.29, gaussian_epsilon(0.29, 1e-5), ""),
        ("mu", 0.3, 1e-5, 0.31, gaussian_epsilon(0.31, 1e-5), "mu >= 0.31"),
    ],
)
def test_a_bound_above_a_line_of_the_claim_refutes_it(
    kind, level, delta, value, lower, says
):
    made = begun(1.0, 1e-5)
    bound = SimpleNamespace(value=value, n_runs=7)
    made._judge(SimpleNamespace(pair=P, bounds=[((kind, level, delta), bound)]))
    assert made.report.epsilon_lower == lower
    assert found_by(made) == ["bound"] * bool(says)
    for finding in made.report.findings:
        assert finding.text == f"{says} from 7 fits to each table, above {level:g}"


def test_what_is_replayed_as_a_whole():
    """All randomness is that of mechanisms, or decides the same for both tables."""
    (one,) = releases([0.0])
    drew = told(one, draws=[("gaussian", np.zeros(1))])
    failed, chosen = told(), told(other_randomness=["choice"])
    failed.error = chosen.error = "ValueError: x"
    split = [told(one, other_randomness=["choice"]) for _ in range(2)]
    for first, second, own, relation, is_white in (
        (told(one), told(one), False, "add_remove", True),
        (told(one), told(), False, "replace_one", True),
        (told(), told(one), False, "replace_one", True),
        (drew, told(one), True, "replace_one", False),
        (told(one), drew, True, "replace_one", False),
        (*split, True, "replace_one", True),
        # a row more has draws of its own
        (*split, True, "add_remove", False),
        (split[0], told(one), True, "replace_one", False),
        # nothing is released: by an error, or without noise
        (told(), told(), True, "replace_one", False),
        (failed, told(), True, "replace_one", True),
        (told(), failed, True, "replace_one", True),
        (failed, failed, False, "replace_one", False),
        (chosen, chosen, True, "replace_one", False),
    ):
        claim = Claim(1.0, 0.0, relation, own=own)
        assert _estimator._is_white(first, second, claim) == is_white


@pytest.mark.parametrize(
    ("y", "groups", "kept"),
    [
        ([0, 1], ["a", "b"], {"in_group", "in_cell"}),
        ([0, 0], ["a", "b"], {"in_group"}),
        ([0, 1], ["a", "a"], set()),
    ],
)
def test_a_replaced_record_keeps_what_is_public_of_it(y, groups, kept):
    first = Table(np.zeros((2, 1)), np.array([0, 1]), np.array(["a", "b"]))
    second = Table(first.X, np.array(y), np.array(groups))
    pair = audit.Neighbours("a pair", first, second)
    for relation in ("replace_one", "add_remove"):
        assert _estimator._same_sizes(pair, relation)
    for name in ("in_group", "in_cell"):
        same = _estimator._same_sizes(pair, f"replace_one_{name}")
        assert same == (name in kept)


@pytest.mark.parametrize(
    ("before", "after", "is_found"),
    [
        ({}, {}, False),
        ({}, {"privacy_": 1}, True),
        ({}, {"privacy_": 1, "number": 3}, True),
        ({}, {"privacy_": 1, "coef_": 1.0}, False),  # it has ended in time
        ({"privacy_": 1, "coef_": 1.0}, {"privacy_": 1, "coef_": 1.0}, False),
        ({"privacy_": 2, "coef_": 1.0}, {"privacy_": 1, "coef_": 1.0}, True),
        ({"privacy_": 2, "coef_": 1.0}, {"coef_": 1.0}, False),
    ],
)
def test_what_an_interrupted_fit_may_leave(before, after, is_found):
    """A guarantee with the model that it is of, or the old one with the old model."""

    def model(attributes):
        made = _Seeded()
        for name, value in attributes.items():
            if name == "privacy_":
                value = PrivacyGuarantee(value, 0.0, "replace_one", "counts")
            setattr(made, name, value)
        return made

    made = begun()
    made._judge_interrupted(P, model(after), leaves_of(model(before)))
    assert found_by(made) == ["interrupted"] * is_found
