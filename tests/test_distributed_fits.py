"""Every fit that reads batches: one model, bit for bit, however the rows come."""

import datetime
import itertools
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from common import ENTRIES, outputs
from common import table as tabulated
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from fairpriv_sklearn._door import _stream
from fairpriv_sklearn.distributed import Batches, ChangedDataError
from fairpriv_sklearn.generative import DPSinkhornGenerator
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.metrics import dp_group_rates
from fairpriv_sklearn.model_selection import DPGridSearchCV, dp_cross_validate
from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.preprocessing._cells import TableReader
from fairpriv_sklearn.privacy import PrivacyLedger

da = pytest.importorskip("dask.array")
N = 700

# So wide, and with so much budget, that a narrower range is learnt.
WIDE = {"bounds": (-20, 20), "epsilon": 8.0}
VARIANTS = {
    "DPWassersteinLogisticRegression": [
        {},
        {"fairness_weight": 0.0},
        {"penalty": "pairs"},
        {"neighboring": "add_remove"},
        {"batch_size": 50, "group_sizes_public": True, "max_iter": 20},
        WIDE,
    ],
    "DPLinearRegression": [{}, {"neighboring": "add_remove"}, WIDE],
    "DPBarycenterTransformer": [{}, {"neighboring": "add_remove"}],
    "DP2DPClassifier": [{}, {"method": "histogram"}],
    "DPSinkhornGenerator": [
        {"epsilon": 9.0},
        {"method": "network", "max_iter": 3},
        {"neighboring": "add_remove"},
        WIDE,
    ],
    "DPSlicedWassersteinGenerator": [{}, WIDE],
    "DPWassersteinAutoencoder": [{}, WIDE],
    "DPWassersteinMLPClassifier": [{}, WIDE, {"neighboring": "add_remove", **WIDE}],
    "DPWassersteinMLPRegressor": [
        {},
        {"target_bounds": (-20, 20), "epsilon": 8.0},
        {"target_bounds": (-20, 20), **WIDE},
    ],
}


@dataclass
class Fit:
    """A fit that reads batches, and its table."""

    name: str
    make: Any
    X: Any
    y: Any = None
    groups: Any = None
    wants: Any = None  # what the fitted model says about the first rows

    def columns(self):
        return self.X, self.y, self.groups

    def __call__(self, X, y=None, groups=None):
        """Fit to a table in memory, to batches, or to dask collections."""
        given = {} if groups is None else {"sensitive_features": groups}
        with config_context(enable_metadata_routing=True):
            model = self.make()
            if isinstance(X, Batches):
                return model.fit(X)
            return model.fit(X, **given) if y is None else model.fit(X, y, **given)


def of_entry(entry, variant):
    X, y = tabulated(entry, n=N)
    groups = (X[:, 0] > 0).astype(int) if entry.needs_groups else None
    public = (
        {"groups": [0, 1], "sensitive_features": None} if entry.needs_groups else {}
    )

    def make():
        return entry.make(random_state=0, **{**entry.public, **public, **variant})

    def says(model):
        aware = entry.attribute_aware and entry.needs_groups
        asked = {"sensitive_features": groups[:50]} if aware else {}
        return outputs(entry, model, X[:50], **asked)

    name = "-".join([entry.name, *map(str, variant.values())])
    y = None if entry.task == "transform" else y
    return Fit(name, make, X, y, groups, says)


class Rates:
    """`dp_group_rates` as an estimator, for these tests."""

    def __init__(self, **params):
        self.params = params

    def fit(self, X, y=None, sensitive_features=None):
        return dp_group_rates(
            y,
            X,
            sensitive_features=sensitive_features,
            groups=["f", "m"],
            epsilon=1.0,
            random_state=0,
            **self.params,
        )


def others():
    """Fits to text, pipelines, and the function."""
    rng = np.random.default_rng(0)
    words = rng.choice(["x", "y", "z"], size=N).astype(object)
    numbers = rng.uniform(-1, 1, size=(N, 2))
    mixed = np.column_stack([words, numbers.astype(object)])
    labels = (numbers[:, 0] + 0.5 * rng.normal(size=N) > 0).astype(int)
    target = np.clip(numbers[:, 0] + 0.2 * rng.normal(size=N), -1, 1)
    groups = rng.choice(["f", "m"], size=N)
    named = {"groups": ["f", "m"], "random_state": 0}

    def repaired_classifier():
        model = DPWassersteinLogisticRegression(
            fairness_weight=0.0, max_iter=5, classes=[0, 1], random_state=0
        )
        repair = DP2DPClassifier(model, classes=[0, 1], **named)
        return make_pipeline(DPTableEncoder(random_state=0), repair)

    def repaired_fair_classifier():
        model = DPWassersteinLogisticRegression(
            fairness_weight=0.5, max_iter=2, classes=[0, 1], random_state=0
        )
        repair = DP2DPClassifier(model, classes=[0, 1], **named)
        return make_pipeline(DPTableEncoder(random_state=0), repair)

    def repaired_blindly():
        repair = repaired_classifier().set_params(dp2dpclassifier__blind=True)
        return repair.set_params(dp2dpclassifier__group_size=0.5)

    def repaired_on_all_rows():
        return repaired_blindly().set_params(dp2dpclassifier__calibration_size="all")

    def repaired_regressor():
        model = DPLinearRegression(target_bounds=(-1, 1), random_state=0)
        repair = DPBarycenterRegressor(model, target_bounds=(-1, 1), **named)
        return make_pipeline(DPTableEncoder(random_state=0), repair)

    def says(model):
        return model.predict(mixed[:50], sensitive_features=groups[:50])

    def says_blindly(model):
        return model.predict(mixed[:50])

    def table_generator():
        return DPSinkhornGenerator(
            epsilon=9.0,
            bounds=(-1, 1),
            categories={0: ["x", "y", "z"]},
            classes=[0, 1],
            random_state=0,
        )

    def rates(**params):
        return lambda: Rates(**params)

    parity = rates(classes=[0, 1])
    odds = rates(classes=[0, 1], constraint="equalized_odds")
    binned = rates(bounds=(-1, 1))
    guess = rng.integers(2, size=N)
    pairs = DPSinkhornGenerator(
        method="pairs", epsilon=3.0, classes=[0, 1], random_state=0
    )

    known = DPWassersteinLogisticRegression(
        fairness_weight=0.0, classes=[0, 1], bounds=(-1, 1), random_state=0
    ).fit(numbers, labels)

    def calibrated():
        return DP2DPClassifier(FrozenEstimator(known), classes=[0, 1], **named)

    def repaired_in_wide_bounds():
        model = DPWassersteinLogisticRegression(
            fairness_weight=0.0, classes=[0, 1], random_state=0, **WIDE
        )
        return DP2DPClassifier(model, classes=[0, 1], **named)

    def says_calibrated(model):
        return model.predict(numbers[:50], sensitive_features=groups[:50])

    return [
        Fit("frozen", calibrated, numbers, labels, groups, says_calibrated),
        Fit("wide", repaired_in_wide_bounds, numbers, labels, groups, says_calibrated),
        Fit("pipeline-labels", repaired_classifier, mixed, labels, groups, says),
        Fit("pipeline-blind", repaired_blindly, mixed, labels, groups, says_blindly),
        Fit("all-rows", repaired_on_all_rows, mixed, labels, groups, says_blindly),
        Fit("pipeline-fair", repaired_fair_classifier, mixed, labels, groups, says),
        Fit("pipeline-numbers", repaired_regressor, mixed, target, groups, says),
        Fit("encoder-text", lambda: DPTableEncoder(random_state=0), mixed),
        Fit("generator-table", table_generator, mixed, labels),
        Fit("generator-pairs-text", lambda: pairs, mixed, labels),
        Fit("generator-pairs-far", lambda: pairs, 1e6 + numbers, labels),
        Fit("rates", parity, guess, None, groups),
        Fit("rates-odds", odds, guess, labels, groups),
        Fit("rates-numbers", binned, target, None, groups),
    ]


FITS = [
    of_entry(entry, variant)
    for entry in ENTRIES
    if type(entry.make())._reads_batches
    for variant in VARIANTS.get(entry.name, [{}])
] + others()
every_fit = pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit.name)


def learnt(model, seen=()):
    """All that was learnt, of wrapped models and parts too: bits by path."""
    if isinstance(model, list | tuple):
        inside = dict(enumerate(model))
    elif isinstance(model, dict):
        inside = model
    else:
        names = getattr(model, "__dataclass_fields__", ())
        inside = {n: getattr(model, n) for n in names} | getattr(model, "__dict__", {})
    found = {}
    for name, value in inside.items() if id(model) not in seen else ():
        if value is None or isinstance(value, bytes | str | int | float | np.generic):
            found[name,] = repr(value)
        elif isinstance(value, np.ndarray):
            bits = repr(value.tolist()) if value.dtype == object else value.tobytes()
            found[name,] = value.dtype.str, value.shape, bits
        else:
            deeper = learnt(value, (*seen, id(model)))
            found |= {(name, *path): bits for path, bits in deeper.items()}
    return found


def assert_same(fit, model, expected):
    assert learnt(model) == learnt(expected)
    if fit.wants is not None:
        with config_context(enable_metadata_routing=True):
            found, wanted = fit.wants(model), fit.wants(expected)
        if np.asarray(found).dtype.kind == "O":  # where NaN is not NaN
            found, wanted = (repr(one.tolist()) for one in (found, wanted))
        assert_array_equal(found, wanted)


def cut(columns, size, empty=False):
    """Batches; with `empty` there is one without rows before each of them."""
    for i in range(0, N, size):
        for part in [slice(i, i)] * empty + [slice(i, i + size)]:
            yield tuple(None if c is None else c[part] for c in columns)


def read_on_dask(columns, size):
    """Arrays whose blocks are read by tasks, as from files."""
    from dask import delayed

    def read(column):
        blocks = [
            da.from_delayed(
                delayed(np.asarray)(column[i : i + size]),
                column[i : i + size].shape,
                column.dtype,
            )
            for i in range(0, N, size)
        ]
        return da.concatenate(blocks)

    return [None if column is None else read(column) for column in columns]


def on_dask(columns, chunks):
    return [
        None if c is None else da.from_array(c, chunks=(chunks, -1)[: c.ndim])
        for c in columns
    ]


class Death(Exception):
    """Of a worker."""


def with_a_death(graph, keys, **kwargs):
    """Compute on threads, amid which a worker dies: all that it did runs again."""
    import dask

    class Dies(dask.callbacks.Callback):
        n_tasks = 0

        def _pretask(self, key, dsk, state):
            self.n_tasks += 1
            if self.n_tasks > len(state["waiting"]) + len(state["ready"]):
                raise Death

    try:
        with Dies():
            dask.threaded.get(graph, keys, num_workers=2)
    except Death:
        pass
    return dask.threaded.get(graph, keys, num_workers=1)


@every_fit
def test_array_batches_and_dask_give_the_same_bits(fit):
    """In memory, three sizes of batches, two chunkings, one with deaths of workers.

    Batches and chunks without rows are among them.
    """
    import dask

    columns = fit.columns()
    expected = fit(*columns)
    for size in (64, 333, N):
        batches = Batches(lambda size=size: cut(columns, size, empty=size > 64))
        assert_same(fit, fit(batches), expected)
    assert_same(fit, fit(*on_dask(columns, (0, 100, 513, 0, 87))), expected)
    with dask.config.set(scheduler=with_a_death):
        assert_same(fit, fit(*read_on_dask(columns, 260)), expected)


def test_ranges_are_learnt_in_wide_bounds():
    """So that the variants above say something about it."""
    wide = [fit for fit in FITS if fit.name.endswith(("(-20, 20)-8.0", "wide"))]
    assert len(wide) == 10
    for fit in wide:
        model = fit(*fit.columns())
        plan = str(getattr(model, "estimator_", model).privacy_)
        assert "range counts" in plan or "target counts" in plan, fit.name


REPAIRS = ("pipeline-labels", "pipeline-numbers", "pipeline-fair", "frozen")


@pytest.mark.parametrize("name", REPAIRS)
def test_rows_of_a_repair_stay_on_the_workers(name, monkeypatch):
    """The model it wraps reads them again, and answers there: the same bits."""
    import dask

    from fairpriv_sklearn._door import _dask, _stream

    fit = next(fit for fit in FITS if fit.name == name)
    columns, answered, read_again = fit.columns(), [], []
    expected = fit(*columns)
    compute, read_by = _dask._computed, _dask.DaskRows.read_by

    def computed(tasks):
        answers = compute(tasks)
        answered.extend(answers)
        return answers

    def counted(rows, *args):
        read_again.append(rows.n_rows)
        return read_by(rows, *args)

    monkeypatch.setattr(_dask, "_computed", computed)
    monkeypatch.setattr(_dask.DaskRows, "read_by", counted)
    assert_same(fit, fit(*on_dask(columns, (0, 100, 0, 513, 87))), expected)
    assert not read_again
    monkeypatch.setattr(_stream, "MOST_HELD", 0)
    answered.clear()
    with dask.config.set(scheduler=with_a_death):
        assert_same(fit, fit(*read_on_dask(columns, 260)), expected)
    # One row tells the driver names and the number of columns; no other one comes.
    tables = [part[2] for part in answered if len(part) == 3]
    columns = [part for part in tables if isinstance(part, dict)]
    brought = [len(part["X"]) for part in columns if "X" in part]
    assert name == "pipeline-fair" or not any("x" in part for part in columns)
    assert brought == [1] * len(read_again) == [1] * (name != "frozen")
    scored = [columns for columns, _ in (t for t in tables if isinstance(t, tuple))]
    assert len(scored) == -(-N // 260)
    assert {name for columns in scored for name in columns} <= {"codes", "labels"}


@pytest.mark.parametrize("name", REPAIRS)
def test_batches_of_a_repair_are_read_again_where_memory_has_no_room(name, monkeypatch):
    from fairpriv_sklearn._door import _stream

    fit = next(fit for fit in FITS if fit.name == name)
    columns, joined, passes = fit.columns(), [], []
    expected, whole = fit(*columns), _stream.StreamRows.whole

    def noted(rows):
        joined.extend(rows._named(rows._empty))
        return whole(rows)

    def counted(size):
        passes.append(size)
        return cut(columns, size)

    monkeypatch.setattr(_stream.StreamRows, "whole", noted)
    # Also where none of the rows of a batch are the model's.
    for size in (3, 64, N):
        assert_same(fit, fit(Batches(lambda size=size: counted(size))), expected)
    assert len({passes.count(size) for size in passes}) == 1
    monkeypatch.setattr(_stream, "MOST_HELD", 0)
    assert_same(fit, fit(Batches(lambda: counted(65))), expected)
    assert (passes.count(65) > passes.count(64)) == (name != "frozen")
    # Rows of the model are nowhere brought together.
    assert "X" not in joined


def test_a_model_that_would_read_public_facts_gets_its_rows_whole(monkeypatch):
    """Its list of groups is that of the repair; the bounds are read from the rows."""
    from fairpriv_sklearn._door import _stream

    fit = next(fit for fit in FITS if fit.name == "frozen")
    monkeypatch.setattr(_stream, "MOST_HELD", 0)

    def make():
        base = DPWassersteinMLPClassifier(
            max_iter=1, classes=[0, 1], bounds=None, random_state=0
        )
        named = {"groups": ["f", "m"], "random_state": 0}
        return DP2DPClassifier(base, classes=[0, 1], **named)

    fit = Fit("network", make, *fit.columns())
    expected = fit(*fit.columns())
    assert_same(fit, fit(*read_on_dask(fit.columns(), 260)), expected)
    assert_same(fit, fit(Batches(lambda: cut(fit.columns(), 64))), expected)
    assert "groups" not in expected.privacy_.conditional_on


@pytest.mark.filterwarnings("ignore:The guarantee of the whole is conditional")
@pytest.mark.parametrize("inside", [False, True])
def test_a_model_that_reads_a_public_fact_gets_its_rows_whole(monkeypatch, inside):
    """The range of the target is read from them, where a repair cannot tell it."""
    from fairpriv_sklearn._door import _dask, _stream

    monkeypatch.setattr(_stream, "MOST_HELD", 0)
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-1, 1, (N, 2)), np.array(["f", "m"])[np.arange(N) % 2]
    read_whole = []
    whole = _dask.DaskRows.whole

    def counted(rows):
        read_whole.append(rows.n_rows)
        return whole(rows)

    def make():
        base = DPLinearRegression(bounds=(-1, 1), random_state=0)
        base = TransformedTargetRegressor(base) if inside else base
        said = {"target_bounds": (-2, 2), "groups": ["f", "m"], "random_state": 0}
        return DPBarycenterRegressor(base, **said)

    fit = Fit("reads", make, X, X[:, 0] + 0.1 * rng.normal(size=N), groups)
    expected = fit(*fit.columns())
    assert ("target_bounds" in expected.privacy_.conditional_on) == inside
    monkeypatch.setattr(_dask.DaskRows, "whole", counted)
    assert_same(fit, fit(*read_on_dask(fit.columns(), 260)), expected)
    assert bool(read_whole) == inside
    assert_same(fit, fit(Batches(lambda: cut(fit.columns(), 64))), expected)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_repair_takes_batches_of_frames_of_any_library(library):
    """Frames of polars and tables of Arrow were joined column by column, after a spend.

    The first batch holds whole numbers, and its type is another.
    """
    frames = pytest.importorskip(library)
    make = frames.table if library == "pyarrow" else frames.DataFrame
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-1, 1, (60, 3)), np.arange(60) % 2
    X[:20] = np.rint(X[:20])

    def batches():
        for rows in (slice(0, 20), slice(20, 40), slice(40, 60)):
            part = X[rows].astype(int) if rows.stop == 20 else X[rows]
            frame = make({name: part[:, i] for i, name in enumerate("abc")})
            yield frame, X[rows, 0], groups[rows]

    def repair(*table, **given):
        shared = {"target_bounds": (-1, 1), "random_state": 0}
        model = DPLinearRegression(bounds=(-1, 1), **shared)
        model = DPBarycenterRegressor(model, groups=[0, 1], **shared)
        model.fit(*table, **given)
        return model.estimator_.coef_, model.counts_

    whole = repair(X, X[:, 0], sensitive_features=groups)
    for one, other in zip(whole, repair(Batches(batches)), strict=True):
        assert_array_equal(one, other)


DAY = datetime.date(2020, 1, 2)
FAR, LONG = "3000-01-01", 2**53 + 1


def of_types(library):
    """Pairs of columns of two types that have no cell of each other's, and others."""
    frames, pd = map(pytest.importorskip, (library, "pandas"))
    if library == "pandas":
        long, far = pd.Series([1, LONG]), pd.Series([FAR, FAR], dtype="M8[us]")
        return [
            (pd.Series(["2020-01-01", None], dtype="M8[ns]"), far),
            (long, pd.Series([1.5, None], dtype="double[pyarrow]")),
            (pd.Series([10**12], dtype="m8[s]"), pd.Series([1], dtype="m8[ns]")),
            (pd.Series([True]), long),
        ]
    make = frames.Series if library == "polars" else frames.array
    return [
        (make([1, LONG]), make([1.5, None])),
        (make([None, None]), make([DAY, None])),
        (make([1.5]), make(np.array([2**64 - 1], dtype=np.uint64))),
    ]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_cells_are_what_they_were_before_their_batches_were_joined(library):
    """The libraries raised, after the spend and with a cell in their words."""
    frames, pd, _ = map(pytest.importorskip, (library, "pandas", "pyarrow"))
    make = frames.table if library == "pyarrow" else frames.DataFrame
    for one, other in of_types(library):
        for pair in ((one, other), (other, one)):
            tables = [make({"a": column, "b": column}) for column in pair]
            both = TableReader.of(_stream._joined(tables))
            apart = TableReader.joined([TableReader.of(table) for table in tables])
            for i in range(2):
                joined, own = both.cells(i), apart.cells(i)
                assert_array_equal(joined.kinds, own.kinds)
                assert_array_equal(joined.values, own.values)
    series = [pd.Series([LONG]), pd.Series([1.5], dtype="double[pyarrow]")]
    assert _stream._joined(series).tolist() == [LONG, 1.5]
    labels = np.array(["a"]), np.array([1])
    assert _stream._joined(list(labels)).tolist() == ["a", 1]


def unlike_batches():
    """Pairs of tables that are read one by one, and cannot be joined."""
    polars, pyarrow, pd = map(pytest.importorskip, ("polars", "pyarrow", "pandas"))
    cells = {"a": [0.1, 0.2], "b": [0.3, 0.4]}
    other = {**cells, "a": [DAY, DAY]}
    frame, array = pd.DataFrame(cells), np.array(list(cells.values()))
    yield frame, polars.DataFrame(cells)
    yield pyarrow.table(cells), frame
    yield array, sparse.csr_array(array)
    yield frame.astype(object), frame.astype(pd.SparseDtype(float, 0.0))
    yield polars.DataFrame(cells), polars.DataFrame(other)
    yield pyarrow.table(cells), pyarrow.table(other)
    yield pyarrow.table(cells), pyarrow.table({**cells, "a": ["x", "y"]})


@pytest.mark.parametrize("i, swapped", itertools.product(range(7), [False, True]))
def test_batches_that_cannot_be_joined_are_refused_before_the_spend(i, swapped):
    """Polars made days of dates beside numbers: a batch changed cells of another."""
    pair = list(unlike_batches())[i][:: -1 if swapped else 1]
    line = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    line = make_pipeline(DPTableEncoder(), line) if i != 2 else line
    ledger = PrivacyLedger(epsilon=9, delta=0.1)
    model = DPBarycenterRegressor(
        line, groups=[0, 1], target_bounds=(-1, 1), ledger=ledger
    )
    batches = Batches([(X, [0.1, 0.2], [0, 1]) for X in pair])
    with pytest.raises(ValueError, match="of one library|All batches|dense"):
        model.fit(batches)
    assert not ledger.spends()


@pytest.mark.parametrize(
    "name, n_passes",
    [
        ("DP2DPClassifier", 3),
        ("DP2DPClassifier-histogram", 3),
        ("DP2DPClassifier-blind", 4),
        ("DPBarycenterRegressor", 3),
        ("DPBarycenterRegressor-blind", 4),
        ("frozen", 2),
    ],
)
def test_a_repair_reads_once_for_each_model_and_once_to_calibrate(name, n_passes):
    fit = next(fit for fit in FITS if fit.name == name)
    passes = []

    def counted():
        passes.append(None)
        return cut(fit.columns(), 100)

    fit(Batches(counted))
    assert len(passes) == n_passes


def test_dask_frames_of_text_and_numbers():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    by_name = {fit.name: fit for fit in FITS}
    for name in ("pipeline-labels", "generator-pairs-text"):
        fit = by_name[name]
        X = pd.DataFrame(fit.X, columns=list("abc")).astype({"b": float, "c": float})
        columns = [X, pd.Series(fit.y), None]
        if fit.groups is not None:
            columns[2] = pd.Series(fit.groups)
        parts = [
            None if c is None else dd.from_pandas(c, npartitions=3) for c in columns
        ]
        assert learnt(fit(*parts)) == learnt(fit(*columns))


@pytest.mark.parametrize("name", ["rechunk", "chunks", "dtype", "simplify"])
def test_columns_of_a_dask_frame_may_have_any_name(name):
    """A frame hands them out as attributes: it passed for an array."""
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    fit = next(fit for fit in FITS if fit.name == "pipeline-labels")
    columns = [pd.DataFrame(fit.X, columns=["a", name, "c"]), pd.Series(fit.y), None]
    if fit.groups is not None:
        columns[2] = pd.Series(fit.groups)
    parts = [None if c is None else dd.from_pandas(c, npartitions=3) for c in columns]
    assert learnt(fit(*parts)) == learnt(fit(*columns))


# --- answers --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pipeline-labels", "pipeline-numbers"])
def test_an_aware_pipeline_answers_part_by_part(name):
    fit = next(fit for fit in FITS if fit.name == name)
    columns = fit.columns()
    started = []

    def counted():
        started.append(None)
        return cut(columns, 64)

    with config_context(enable_metadata_routing=True):
        model = fit(*columns)
        expected = model.predict(fit.X, sensitive_features=fit.groups)
        lazy = model.predict(Batches(counted))
        assert isinstance(lazy, Batches) and not started
        parts = [part for part, _, _ in lazy]
        assert_array_equal(np.concatenate(parts), expected)
        X, _, groups = on_dask(columns, 260)
        lazy = model.predict(X, sensitive_features=groups)
    assert isinstance(lazy, da.Array)
    assert_array_equal(lazy.compute(), expected)


def test_answers_to_batches_are_counted_without_being_held():
    """Predictions of a model are batches, which the rates of groups read."""
    fit = next(fit for fit in FITS if fit.name == "pipeline-labels")
    X, y, groups = fit.columns()
    with config_context(enable_metadata_routing=True):
        model = fit(X, y, groups)
        answers = model.predict(Batches(lambda: cut(fit.columns(), 100)))
        said = model.predict(X, sensitive_features=groups)
    public = {"groups": ["f", "m"], "classes": [0, 1], "epsilon": 1.0}
    expected = dp_group_rates(
        y, said, sensitive_features=groups, random_state=0, **public
    )
    result = dp_group_rates(None, answers, random_state=0, **public)
    assert_array_equal(result.counts, expected.counts)
    with pytest.raises(ValueError, match="pass nothing else"):
        dp_group_rates(y, answers, **public)
    with pytest.raises(ValueError, match="Batches hold sensitive_features"):
        model[-1].predict(answers, sensitive_features=groups)


def test_a_rule_that_names_its_column_answers_to_batches():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, size=N), rng.integers(2, size=N)])
    model = DPBarycenterTransformer(
        bounds=(-1, 1), groups=[0, 1], sensitive_features=[1], random_state=0
    )
    other = np.zeros(N)  # what else the batches hold is not asked
    model.fit(Batches(lambda: cut((X, None, None), 90)))
    lazy = model.transform(Batches(lambda: cut((X, None, other), 90)))
    parts = [part for part, _, _ in lazy]
    assert_array_equal(np.concatenate(parts), model.transform(X))


# --- what stops a fit -----------------------------------------------------------------

NEEDS_ALL = [
    DPOutputPerturbationLogisticRegression(bounds=(-1, 1), classes=[0, 1]),
    DPGridSearchCV(
        DPWassersteinLogisticRegression(bounds=(-1, 1)), {"C": [0.1]}, classes=[0, 1]
    ),
]


@pytest.mark.parametrize("model", NEEDS_ALL, ids=lambda m: type(m).__name__)
def test_an_estimator_that_needs_the_whole_table_says_so(model):
    with pytest.raises(TypeError, match="whole table in memory"):
        model.fit(Batches([]))
    with pytest.raises(TypeError, match="dp_cross_validate needs the whole table"):
        dp_cross_validate(model, Batches([]), None, epsilon=1.0)


@pytest.mark.parametrize(
    "name", ["encoder-text", "generator-pairs-text", "pipeline-labels"]
)
@pytest.mark.parametrize("column", [0, 1])
def test_a_changed_cell_of_any_kind_stops_the_fit(name, column):
    """Text in an array of objects, in a frame, and the numbers beside it."""
    pd = pytest.importorskip("pandas")
    fit = next(fit for fit in FITS if fit.name == name)
    X, y, groups = fit.columns()
    changed = X.copy()
    changed[500, column] = "x" if X[500, 0] != "x" else "y"
    if column:
        changed[500, column] = X[500, 1] / 2

    def as_frame(X):
        return pd.DataFrame(X, columns=list("abc")).astype({"b": float, "c": float})

    for kind in (np.asarray, as_frame):
        passes = []

        def make_batches(kind=kind, passes=passes):
            passes.append(None)
            rows = changed if len(passes) == 2 else X
            for part, *rest in cut((rows, y, groups), 100):
                yield kind(part), *rest

        with pytest.raises(ChangedDataError):
            fit(Batches(make_batches))


@pytest.mark.parametrize("first_changed", [2, 4])
def test_a_repair_says_that_batches_changed_while_its_model_read_them(
    first_changed, monkeypatch
):
    """It said that its model refused the rows."""
    monkeypatch.setattr("fairpriv_sklearn._door._stream.MOST_HELD", 0)
    rng, passes = np.random.default_rng(0), []
    X, groups = rng.uniform(-1, 1, size=(300, 2)), np.arange(300) % 2

    def make_batches():
        passes.append(None)
        is_changed = len(passes) >= first_changed
        yield np.nextafter(X, 1) if is_changed else X, X[:, 0], groups

    line = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    repair = DPBarycenterRegressor(line, target_bounds=(-1, 1), groups=[0, 1])
    with pytest.raises((ValueError, RuntimeError), match="data changed between two"):
        repair.fit(Batches(make_batches))


@pytest.mark.parametrize("is_changed", [False, True])
def test_batches_behind_an_encoder_are_told_apart_by_their_cells(
    is_changed, monkeypatch
):
    """A change that no answer shows counts, and the first pass asks for no answer."""
    rng = np.random.default_rng(0)
    X, answered = rng.normal(size=(600, 2)), []
    y, passes, encode = (X[:, 0] > 0).astype(int), [], DPTableEncoder.transform
    encoder = DPTableEncoder(random_state=0).fit(X)

    def transform(self, X):
        answered.append(len(passes))
        return encode(self, X)

    monkeypatch.setattr(DPTableEncoder, "transform", transform)

    def make_batches():
        passes.append(None)
        for rows in np.split(np.arange(600), 3):
            part = X[rows]
            if len(passes) > 1 and is_changed and rows[0] == 200:
                part[7, 1] = np.nextafter(part[7, 1], np.inf)
                assert_array_equal(encode(encoder, part), encode(encoder, X[rows]))
            yield part, y[rows], None

    model = DPLinearRegression(target_bounds=(0, 1), solver="moments", random_state=0)
    mapped = encoder.transform(Batches(make_batches))
    if is_changed:
        with pytest.raises(ChangedDataError):
            model.fit(mapped)
        return
    coef = model.fit(mapped).coef_
    assert 1 not in answered and 2 in answered
    answered.clear()
    assert_array_equal(model.fit(encode(encoder, X), y).coef_, coef)


def test_the_checksum_of_cells_is_one_of_values():
    """Equal tables in other objects, and on other machines, give the same number."""
    from fairpriv_sklearn._door._stream import fingerprint

    class Odd:
        pass

    first = np.array(["ab", "c", None, 1.5, float("nan"), Odd()], dtype=object)
    second = np.array(["a" + "b", "c", None, 1.5, float("nan"), Odd()], dtype=object)
    assert fingerprint({"x": first}) == fingerprint({"x": second})
    assert fingerprint({"x": first.tolist()}) == fingerprint({"x": first})
    third = np.array(["a", "bc", None, 1.5, float("nan"), Odd()], dtype=object)
    assert fingerprint({"x": first}) != fingerprint({"x": third})
    dates = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    assert fingerprint({"x": dates}) != fingerprint({"x": dates[::-1].copy()})


# --- Parquet --------------------------------------------------------------------------


def test_the_example_of_a_parquet_file(monkeypatch, capsys):
    """The gallery's page, on as few people as it says: the same bits in all ways."""
    for package in ("matplotlib", "pyarrow", "pandas", "dask.dataframe"):
        pytest.importorskip(package)
    monkeypatch.setenv("MPLBACKEND", "agg")
    page = Path(__file__).parents[1] / "examples" / "distributed" / "plot_parquet.py"
    names = runpy.run_path(page)
    assert "bit for bit: True" in capsys.readouterr().out
    people = names["make_people"](2500, 0)
    for seed in range(1, 8):
        people = names["pd"].concat([people, names["make_people"](2500, seed)])
    with config_context(enable_metadata_routing=True):
        in_memory = names["make_model"]().fit(
            people[["trade", "years", "hours"]],
            people["salary"],
            sensitive_features=people["sex"],
        )
    assert learnt(in_memory) == learnt(names["model"]) == learnt(names["again"])
    names["plt"].close("all")
