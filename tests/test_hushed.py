"""What is silenced for private rows: in every thread, and no longer than meant."""

import gc
import itertools
import pickle
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from common import ENTRIES, first_sign, fit, table
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.parallel import Parallel, delayed

from fairpriv_sklearn._shared import callers
from fairpriv_sklearn._shared.callers import NOT_OF_SHAPES, hushed
from fairpriv_sklearn.distributed import Batches
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.model_selection import DPGridSearchCV
from fairpriv_sklearn.postprocessing import (
    DPBarycenterRegressor,
    DPBarycenterTransformer,
    RepairWarning,
)
from fairpriv_sklearn.privacy import (
    PrivacyLeakWarning,
    PrivacyLedger,
    leaks_refused,
    warn_leak,
)

CONTEXTS = [hushed, leaks_refused]


def _interleaved(context, inside=lambda: None):
    """Two threads: the first enters before and leaves before the second."""
    steps = [threading.Event() for _ in range(3)]

    def first():
        with context():
            steps[0].set()
            steps[1].wait(10)
        steps[2].set()

    def second():
        steps[0].wait(10)
        with context():
            steps[1].set()
            steps[2].wait(10)
            inside()

    threads = [threading.Thread(target=one) for one in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("context", CONTEXTS)
def test_filters_are_as_before_after_two_threads(context):
    before = list(warnings.filters)
    _interleaved(context)
    assert warnings.filters == before
    with pytest.warns(PrivacyLeakWarning):
        warn_leak("groups", "the list of groups")


def test_one_thread_stays_hushed_when_the_other_leaves():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        _interleaved(hushed, lambda: warnings.warn("private", stacklevel=1))
        assert not heard
        warnings.warn("public", stacklevel=1)
    assert [str(one.message) for one in heard] == ["public"]


def test_what_we_warn_of_is_heard_beside_private_rows_of_another_thread():
    """It says nothing of them, and a repair that stood back is not to be missed."""

    def warned():
        callers.warn_caller("ours", RepairWarning)
        warnings.warn("theirs", stacklevel=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hushed():
            warned()
            thread = threading.Thread(target=warned)
            thread.start()
            thread.join()
            warned()
        assert [str(one.message) for one in heard] == ["ours"]
        warned()
    assert [str(one.message) for one in heard] == ["ours", "ours", "theirs"]


@pytest.mark.parametrize("at", ["enter", "leave"])
def test_an_interrupt_leaves_no_silence_behind(at, monkeypatch):
    shared = callers._HUSHED[callers.ANY]
    honest = getattr(shared, at)

    def interrupted(token):
        honest(token)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(shared, at, interrupted)
    with pytest.raises(KeyboardInterrupt), hushed():
        pass
    assert not shared.inside and shared.filter not in warnings.filters


def test_an_interrupt_before_the_end_does_not_prolong_the_silence(monkeypatch):
    shared = callers._HUSHED[callers.ANY]

    def interrupted(token):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(shared, "leave", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught, hushed():
        pass
    del caught  # and with it the frames of the block
    gc.collect()
    with pytest.warns(PrivacyLeakWarning):
        warn_leak("groups", "the list of groups")
    with hushed():  # which puts the filters in order again
        pass
    assert shared.filter not in warnings.filters


def test_threads_that_are_started_inside_are_hushed():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hushed():
            with hushed():
                pass
            thread = threading.Thread(target=warnings.warn, args=("private",))
            thread.start()
            thread.join()
    assert not heard


def test_filters_that_another_thread_put_back_silence_nothing():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hushed():
            stale = list(warnings.filters)
        warnings.filters[:] = stale
        warnings.warn("public", stacklevel=1)
    assert len(heard) == 1


def _warned(_):
    warnings.warn("private", stacklevel=1)


def test_tasks_of_scikit_learn_are_hushed():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hushed():
            Parallel(2, backend="threading")(delayed(_warned)(i) for i in range(2))
    assert not heard


def test_workers_are_sent_the_silence_of_now():
    with hushed():
        inside, sent = warnings.filters[0][1], pickle.dumps(warnings.filters[0])
    assert pickle.loads(sent)[1].match("anything")
    assert not pickle.loads(pickle.dumps(inside)).match("anything")


def test_a_refused_leak_is_an_error_whatever_the_filters():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with leaks_refused(), hushed(), pytest.raises(PrivacyLeakWarning):
            warn_leak("groups", "the list of groups")


SCORES, TWO = np.linspace(-1, 1, 40)[:, None], np.arange(40) % 2


def _noisy_repair(**params):
    params = {"bounds": (-1, 1), "groups": [0, 1], "epsilon": 0.1, **params}
    return DPBarycenterTransformer(random_state=0, **params)


def test_a_warning_that_is_an_error_does_not_cost_the_budget():
    ledger = PrivacyLedger(1.0, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for missing, spent in (({"bounds": None}, 0.0), ({}, 0.1)):
            repair = _noisy_repair(ledger=ledger, **missing)
            expected = RepairWarning if spent else PrivacyLeakWarning
            with pytest.raises(expected):
                repair.fit(SCORES, sensitive_features=TWO)
            assert ledger.total().epsilon == pytest.approx(spent, rel=0.1)
            assert hasattr(repair, "privacy_") == bool(spent)
    assert repair.transform(SCORES, sensitive_features=TWO).shape == SCORES.shape


def test_a_warning_after_the_spend_is_said_once_at_the_line_of_the_user():
    with pytest.warns(RepairWarning) as heard:
        _noisy_repair().fit(SCORES, sensitive_features=TWO)
    assert len(heard) == 1 and heard[0].filename == __file__
    assert not callers._waiting.is_fit and not callers._waiting.has_spent


@pytest.mark.filterwarnings("error")
def test_what_a_fit_inside_another_warns_of_is_not_heard_at_the_end():
    repair = DPBarycenterRegressor(DPLinearRegression(), epsilon=0.1)
    search = DPGridSearchCV(
        repair.set_params(random_state=0, estimator__data_norm=1.0),
        {"fairness_tolerance": [0.0, 0.5]},
        groups=[0, 1],
        target_bounds=(-1, 1),
        epsilon=0.1,
        random_state=0,
    )
    search.fit(SCORES, SCORES[:, 0], sensitive_features=TWO)  # warnings are errors
    with pytest.warns(RepairWarning):
        search.best_estimator_.fit(SCORES, SCORES[:, 0], sensitive_features=TWO)


def test_a_fit_that_fails_leaves_no_warning_waiting():
    with pytest.raises(ZeroDivisionError), callers.warned_at_the_end() as said:
        callers.spent()
        callers.warn_caller("private", RepairWarning)
        raise ZeroDivisionError
    assert said == [("private", RepairWarning)]
    assert not callers._waiting.is_fit and not callers._waiting.has_spent
    callers.spent()  # of a function, whose warnings do not wait
    assert not callers._waiting.has_spent


# --- cells that speak for themselves -------------------------------------------------


class Speaks:
    """A cell that quotes itself, in a warning or an error, wherever it is asked."""

    def __init__(self, error=None):
        self.error = error

    def _say(self):
        if self.error is not None:
            raise self.error("secret")
        warnings.warn("secret", stacklevel=2)

    def __float__(self):
        self._say()
        return 0.5

    def __hash__(self):
        self._say()
        return 7

    def __eq__(self, other):
        self._say()
        return False

    def __ne__(self, other):
        self._say()
        return True

    def __lt__(self, other):
        self._say()
        return True

    def __repr__(self):
        self._say()
        return "secret"


class SpeakingNumber(Speaks, float):
    """The same, as a number of Python, which is equal to itself."""

    def __ne__(self, other):
        self._say()
        return False

    def __new__(cls, error=None):
        return super().__new__(cls, 0.5)


CELLS = {
    "masked": np.ma.masked,
    "warns": Speaks(),
    "number": SpeakingNumber(),
    "type": Speaks(TypeError),
    "value": Speaks(ValueError),
    "runtime": Speaks(RuntimeError),
}
# A generator that reads one list of columns and of labels stands for the others.
LIKE_OTHERS = ("DPSinkhornGenerator-pairs", "DPSlicedWassersteinGenerator-gradient")
CELL_PLACES, CELL_LISTS = (
    ("X", "y", "groups"),
    ({}, {"classes": None}, {"groups": None}),
)
SPOKEN_TO = [entry for entry in ENTRIES if entry.name not in LIKE_OTHERS]


def _heard(call) -> list[str]:
    """All that is said: warnings, and an error with what it came from."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            call()
            error = None
        except Exception as raised:
            error = raised
    texts = [str(one.message) for one in said]
    while error is not None:
        texts.append(f"{error} {vars(error)}")
        error = error.__cause__ or error.__context__
    return texts


def _fit_with(entry, place, cell, **lists):
    X, y = table(entry, n=40)
    columns = {"X": X.astype(object), "y": y.astype(object), "groups": first_sign(X)}
    columns["groups"] = columns["groups"].astype(object)
    columns[place][(7, 1) if place == "X" else 7] = cell
    model = entry.make(**entry.public).set_params(random_state=0, **lists)
    given = {}
    if "groups" in model.get_params():
        model.set_params(sensitive_features=None)
        given = {"sensitive_features": columns["groups"]}
    fit(entry, model, columns["X"], columns["y"], **given)


@pytest.mark.parametrize("cell", CELLS.values(), ids=list(CELLS))
@pytest.mark.parametrize("entry", SPOKEN_TO, ids=lambda entry: entry.name)
def test_a_cell_that_speaks_is_not_heard(entry, cell):
    known = entry.make(**entry.public).get_params()
    for place, read in itertools.product(CELL_PLACES, CELL_LISTS):
        published = place in read and cell is CELLS["number"]  # as one of the groups
        if read.keys() <= known.keys() and not published:
            heard = _heard(partial(_fit_with, entry, place, cell, **read))
            assert not any("secret" in t or "masked" in t for t in heard), heard


@pytest.mark.parametrize("cell", [*CELLS.values(), []], ids=[*CELLS, "list"])
def test_a_label_of_the_index_is_not_heard(cell):
    """It names a record, and the rows of y and X are compared by it."""
    pandas = pytest.importorskip("pandas")
    labels = np.arange(40).astype(object)
    labels[7] = cell
    X = pandas.DataFrame(SCORES, columns=["a"], index=pandas.Index(labels))
    y = pandas.Series(TWO, index=pandas.Index(labels.copy()))
    models = (
        DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1)),
        DPSlicedWassersteinGenerator(bounds=(-1, 1), classes=[0, 1]),
    )
    for model, target in itertools.product(models, (y, y.iloc[::-1])):
        heard = _heard(partial(model.fit, X, target))
        assert not any("secret" in text or "hash" in text for text in heard), heard


@pytest.mark.parametrize("label", ["columns", "compute", "make_batches"])
def test_a_label_of_the_index_is_no_attribute(label):
    """Pandas says that a series has what is in its index: one record stopped a fit."""
    pandas = pytest.importorskip("pandas")
    index = pandas.Index(["a", label, *range(38)])
    groups = pandas.Series(TWO.astype(object), index=index)
    y = pandas.Series(TWO, index=index)
    repair = _noisy_repair(epsilon=1e4).fit(SCORES, sensitive_features=groups)
    assert repair.groups_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="same rows in another order"):
        DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1)).fit(
            pandas.DataFrame(SCORES, columns=["a"], index=index), y.iloc[::-1]
        )


@pytest.mark.parametrize("name", ["make_batches", "read", "compute", "rechunk"])
def test_a_name_of_a_column_is_no_attribute(name):
    """Pandas says that a frame has what is among its columns: it passed for batches."""
    pandas = pytest.importorskip("pandas")

    def answers(model, column):
        X = pandas.DataFrame(SCORES, columns=[column])
        if isinstance(model, DPSinkhornGenerator):
            model.set_params(codebook={column: {"kind": "number", "range": [-1, 1]}})
        model = clone(model).fit(X, TWO)
        return str(model.predict(X) if hasattr(model, "predict") else model.sample(9))

    for model in (
        DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1), random_state=0),
        DPSlicedWassersteinGenerator(bounds=(-1, 1), classes=[0, 1], random_state=0),
        DPSinkhornGenerator(classes=[0, 1], random_state=0),
    ):
        # As many letters as the name has: samples are printed under it.
        other = "z" * len(name)
        assert answers(model, name) == answers(model, other).replace(other, name)


@pytest.mark.parametrize("cell", CELLS.values(), ids=list(CELLS))
def test_a_cell_of_a_batch_is_not_heard(cell):
    y = TWO.astype(object)
    y[7] = cell
    model = DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1))
    heard = _heard(lambda: model.fit(Batches([(SCORES, y, None)])))
    assert not any("secret" in text or "masked" in text for text in heard), heard


def test_a_function_that_labels_rows_is_not_heard():
    def labels(X):
        warnings.warn(f"secret {X[0]}", stacklevel=1)
        return TWO

    repair = _noisy_repair(epsilon=1e4, sensitive_features=labels)
    assert not _heard(lambda: repair.fit(SCORES))


@pytest.mark.parametrize("cell", [None, "nan", "inf", "9" * 400, np.ma.masked])
def test_a_target_that_is_no_number_once_it_is_read(cell):
    """As a cell of objects it passed for finite, and was read as 0 or the largest."""
    y = TWO.astype(object)
    y[7] = cell
    ledger = PrivacyLedger(10.0, 1e-5)
    model = DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1), ledger=ledger)
    with pytest.raises(ValueError, match="Input y contains (NaN|infinity)"):
        model.fit(SCORES, y)
    assert ledger.spends() == []


def test_what_scikit_learn_says_of_shapes_and_names_is_heard():
    pandas = pytest.importorskip("pandas")
    model = DPLinearRegression(bounds=(-1, 1), target_bounds=(0, 1))
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        model.fit(SCORES, TWO[:, None])
    with warnings.catch_warnings(action="error"):
        with pytest.raises(ValueError, match="column-vector"):
            model.fit(SCORES, TWO[:, None])
    with pytest.warns(UserWarning, match="X has feature names"):
        model.predict(pandas.DataFrame(SCORES, columns=["a"]))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.fit(pandas.DataFrame(SCORES, columns=["a"]), TWO).predict(SCORES)
    with pytest.warns(UserWarning, match="X has feature"), hushed(NOT_OF_SHAPES):
        sent = pickle.loads(pickle.dumps(warnings.filters[0]))[1]
        assert sent.match("secret") and not sent.match("X has feature names, but")
        warnings.warn("X has feature names, but", stacklevel=1)
