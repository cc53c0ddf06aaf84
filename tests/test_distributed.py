"""The same fit on an array, in batches, and on dask: the same bits."""

import importlib.util
import json
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from fairpriv_sklearn._door import _dask, _journal, _stream
from fairpriv_sklearn._door._dask import DaskBatches, _Part
from fairpriv_sklearn._door._stream import StreamRows, as_batches, to_travel
from fairpriv_sklearn._door.estimator import DPEstimator
from fairpriv_sklearn._wall import (
    PrivacyFilter,
    Query,
    Release,
    Rows,
    Split,
    current_journal,
    read_rows,
)
from fairpriv_sklearn.accounting import calibrate_gaussian
from fairpriv_sklearn.distributed import Batches, ChangedDataError, resume
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.model_selection import DPGridSearchCV, dp_cross_validate
from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier
from fairpriv_sklearn.postprocessing import DP2DPClassifier
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.preprocessing._codebook import category_key
from fairpriv_sklearn.preprocessing._encoded import CodedTable, NumberColumn
from fairpriv_sklearn.privacy import BudgetExceededError, PrivacyLedger, warn_leak

GRID = 2.0**20


class Death(BaseException):
    """No error: an interrupt, which would end the tests as well if it got away."""


@dataclass(frozen=True)
class Slope(Query):
    """Gradient of squared errors at released weights, in integers."""

    n_features: int
    name = "slope"
    theorem = "test"

    @property
    def n_coordinates(self):
        return self.n_features

    def sensitivity(self, neighboring):
        return 8.0 * np.sqrt(self.n_features)

    def of_block(self, block, state):
        errors = np.zeros(block.n_rows)
        for column, weight in zip(block.x.T, state, strict=True):
            errors += column * weight
        errors = np.clip(errors - block.y, -4, 4)
        units = np.trunc(errors[:, None] * block.x * GRID).astype(np.int64)
        return units.sum(axis=0)

    def value(self, total, state):
        return total / GRID


class Descent(RegressorMixin, DPEstimator):
    """A private fit of a few steps, for these tests."""

    _reads_batches = True
    _can_resume = True

    def __init__(self, bounds=None, n_steps=3, ledger=None, random_state=None):
        self.bounds = bounds
        self.n_steps = n_steps
        self.ledger = ledger
        self.random_state = random_state

    def _read(self, X, y, sensitive_features):
        if self.bounds is None:
            warn_leak("bounds", "the range of the features")
        X = validate_data(self, X, dtype=np.float64)
        return {"x": np.clip(X, -1, 1), "y": np.asarray(y, dtype=np.float64)}

    def fit(self, X, y=None, *, sensitive_features=None):
        rows = read_rows(self._read, X, y, sensitive_features)
        d = self.n_features_in_
        mu = calibrate_gaussian(1.0, 1e-5, n_draws=d * self.n_steps)
        mu /= np.sqrt(self.n_steps)
        noise = noise_source(self.random_state)
        wall = PrivacyFilter(
            self,
            [Release("slope", "gaussian", mu, d, times=self.n_steps)],
            delta=1e-5,
            neighboring="replace_one",
            noise=noise,
            ledger=self.ledger,
        )
        wall.reserve()
        weights = 0.01 * wall.public(lambda: noise.standard_normal(d))
        for step in range(self.n_steps):
            self._step(step)
            weights = weights - wall.release(Slope(d), rows, weights) / rows.n_rows
        self.coef_ = weights
        self.privacy_ = wall.guarantee()
        return self

    def _step(self, step):
        pass

    def predict(self, X):
        check_is_fitted(self)
        return validate_data(self, X, reset=False) @ self.coef_


N = 10_000


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, X @ [1.0, -0.5, 0.2] + 0.1 * rng.normal(size=n)


def batches(X, y, size):
    return Batches(
        lambda: (
            (X[i : i + size], y[i : i + size], None) for i in range(0, len(X), size)
        )
    )


def descent(**params):
    return Descent(**{"bounds": (-1, 1), "random_state": 0, **params})


# --- the same bits --------------------------------------------------------------------


@pytest.mark.parametrize("size", [7, 1000, 4096, N])
def test_batches_of_any_size_give_the_model_of_the_array(size):
    X, y = table()
    expected = descent().fit(X, y)
    model = descent().fit(batches(X, y, size))
    assert_array_equal(model.coef_, expected.coef_)
    assert model.privacy_ == expected.privacy_


@pytest.mark.parametrize("chunks", [1000, (3333, 6000, 667)])
def test_dask_arrays_in_any_chunks_give_the_model_of_the_array(chunks):
    da = pytest.importorskip("dask.array")
    X, y = table()
    expected = descent().fit(X, y)
    cut = da.from_array(X, chunks=(chunks, 2))
    model = descent().fit(cut, da.from_array(y, chunks=5000))
    assert_array_equal(model.coef_, expected.coef_)
    lazy = model.predict(cut)
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), expected.predict(X), rtol=1e-12)


def test_dask_frames_give_the_model_of_the_frame():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = table()
    frame, target = pd.DataFrame(X, columns=list("abc")), pd.Series(y)
    expected = descent().fit(frame, target)
    frames = dd.from_pandas(frame, npartitions=4)
    model = descent().fit(frames, dd.from_pandas(target, npartitions=4))
    assert_array_equal(model.coef_, expected.coef_)
    assert_array_equal(model.feature_names_in_, list("abc"))
    lazy = model.predict(frames)
    np.testing.assert_allclose(lazy.compute(), expected.predict(frame), rtol=1e-12)


@pytest.mark.parametrize("name", ["parts", "rows_at"])
def test_columns_of_a_frame_may_have_any_name(name):
    """pandas makes attributes of them, which are not those that we look for."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y = table(600)
    frame = pd.DataFrame(X, columns=[name, "b", "c"])
    given = [dd.from_pandas(one, npartitions=3) for one in (frame, pd.Series(y))]
    assert_array_equal(descent().fit(*given).coef_, descent().fit(X, y).coef_)


def test_groups_in_a_dask_frame_of_their_own():
    """Its index is not compared with that of X: it is nowhere."""
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = table()
    group = pd.DataFrame({"old": y > 0.5})
    public = {"groups": [False, True], "classes": [False, True], "random_state": 0}
    expected, model = (
        DPWassersteinLogisticRegression(fairness_weight=0.5, **public) for _ in "ab"
    )
    expected.fit(X, y > 0, sensitive_features=group)
    parts = [dd.from_pandas(one, npartitions=4) for one in (pd.DataFrame(X), group)]
    target = dd.from_pandas(pd.Series(y > 0), npartitions=4)
    model.fit(parts[0], target, sensitive_features=parts[1])
    assert_array_equal(model.coef_, expected.coef_)


@pytest.fixture
def read_apart():
    """Targets in the frame of the features and in another; how often fits read it."""
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = table(600)
    whole, reads = pd.DataFrame(X).add_prefix("x").assign(y=y), []

    def read(i):
        reads.append(i)
        return whole[200 * i : 200 * (i + 1)]

    one, other = (
        dd.from_map(read, range(3), meta=whole[:0], label=label) for label in "ab"
    )
    names = [f"x{i}" for i in range(X.shape[1])]
    expected = descent(random_state=0).fit(whole[names], y).coef_

    def n_reads(target):
        reads.clear()
        with pytest.importorskip("dask").config.set(scheduler="synchronous"):
            model = descent(random_state=0).fit(one[names], target)
        assert_array_equal(model.coef_, expected)
        return len(reads)

    return one["y"], other["y"], n_reads


def test_columns_of_one_frame_are_read_together(read_apart):
    own, other, n_reads = read_apart
    assert n_reads(other) == 2 * n_reads(own)


def test_where_dask_has_other_names_columns_are_read_one_by_one(
    read_apart, monkeypatch
):
    own, _, n_reads = read_apart
    at_once = n_reads(own)  # the bits are those of the array, here and below
    home = SimpleNamespace(modules={type(own).__module__: object()})
    monkeypatch.setattr("fairpriv_sklearn._door._dask.sys", home)
    assert n_reads(own) >= at_once


def read_by_tasks(X, y, n_parts=6, change=None):
    """Columns of one dask frame, a task of its own for every partition."""
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    whole = pd.DataFrame(X).add_prefix("x").assign(y=y)
    parts = [
        whole[i * len(X) // n_parts :][: len(X) // n_parts] for i in range(n_parts)
    ]

    def read(i):
        return parts[i] if change is None else change(i, parts[i].copy())

    frame = dd.from_map(read, range(n_parts), meta=whole[:0])
    return frame[[name for name in whole if name != "y"]], frame["y"]


@pytest.mark.parametrize("many", [2, 128])
def test_one_task_opens_one_or_more_partitions_and_sums(many, monkeypatch):
    dask = pytest.importorskip("dask")
    monkeypatch.setattr("fairpriv_sklearn._door._dask.MANY", many)
    X, y = table(600)
    names = []

    class Names(dask.callbacks.Callback):
        def _pretask(self, key, dsk, state):
            names.append(str(key).split("-")[0])

    with dask.config.set(scheduler="synchronous"), Names():
        model = descent().fit(*read_by_tasks(X, y))
    assert_array_equal(model.coef_, descent().fit(X, y).coef_)
    n_tasks = 2 if many == 2 else 6
    # The first partition tells the names of the columns.
    done = ["_first"] + ["_measure"] * n_tasks + ["_partition_total"] * 3 * n_tasks
    assert names == done


def test_partitions_that_share_a_task_or_are_held_are_not_opened_in_one():
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    X, y = table(600)
    both = dask.delayed(lambda: (X, y))()
    blocks = [
        [
            da.from_delayed(both[j][i : i + 200], (200, 3)[: 2 - j], np.float64)
            for i in (0, 200, 400)
        ]
        for j in range(2)
    ]
    shared = [da.concatenate(some) for some in blocks]
    read = read_by_tasks(X, y)
    held = [column.persist(scheduler="synchronous") for column in read]
    in_memory = [da.from_array(column, chunks=200) for column in (X, y)]
    expected = descent().fit(X, y).coef_
    for columns in (shared, held, in_memory, read):
        parts = DaskBatches(*columns).partitions()
        assert {isinstance(part, _Part) for part in parts} == {columns is read}
        assert_array_equal(descent().fit(*columns).coef_, expected)


@pytest.mark.parametrize("many", [2, 128])
def test_a_partition_that_changes_or_fails_within_its_task(many, monkeypatch, caplog):
    monkeypatch.setattr("fairpriv_sklearn._door._dask.MANY", many)
    X, y = table(600)
    reads = []

    def changed(i, part):
        reads.append(i)
        if i == 4 and reads.count(4) == 3:
            part.iloc[7, 1] += 1e-12
        return part

    def fails_at(bad):
        def read(i, part):
            if i == bad:
                raise ValueError(f"could not convert {PLANTED!r}")
            return part

        return read

    with pytest.raises(ChangedDataError):
        descent().fit(*read_by_tasks(X, y, change=changed))
    for bad in (0, 4):
        with pytest.raises(RuntimeError, match="could not be computed") as error:
            descent().fit(*read_by_tasks(X, y, change=fails_at(bad)))
        assert_no_trace(repr(error.getrepr(chain=True)).encode())
    assert_no_trace(caplog.text.encode())


def test_predict_on_batches_is_lazy():
    X, y = table()
    model = descent().fit(X, y)
    assert isinstance(model.predict(batches(X, y, 900)), Batches)
    parts = [part for part, _, _ in model.predict(batches(X, y, 900))]
    np.testing.assert_allclose(np.concatenate(parts), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("size", [1, 100, 256, 999, 5000])
def test_blocks_do_not_depend_on_the_batches(size):
    X, y = table(2500)
    whole = Rows(2500, x=X, y=y)
    stream = StreamRows(lambda X, y, a: {"x": X, "y": y}, batches(X, y, 300))
    assert stream.n_rows == 2500
    rng = np.random.default_rng(0)
    mask = rng.uniform(size=2500) < 0.3
    for one, other in (
        (stream, whole),
        (stream.take(mask), whole.take(mask)),
        (stream.take(np.flatnonzero(mask)), whole.take(mask)),
        (stream.take(mask).take(~mask[mask]), whole.take(mask & False)),
        (
            stream.take(mask).take(np.arange(mask.sum()) % 3 == 0),
            whole.take(np.flatnonzero(mask)[::3]),
        ),
    ):
        pairs = list(zip(one.blocks(size), other.blocks(size), strict=True))
        for a, b in pairs:
            assert a.n_rows == b.n_rows
            assert_array_equal(a.x, b.x)
            assert_array_equal(a.y, b.y)
        if one.n_rows:
            assert_array_equal(one.whole().x, other.whole().x)
            middle = slice(one.n_rows // 3, one.n_rows // 2)
            assert_array_equal(one.block(middle).y, other.block(middle).y)


def test_a_split_gives_the_same_rows_however_they_come():
    X, y = table(3000)
    sums = []
    for rows in (
        Rows(3000, x=X, y=y),
        StreamRows(lambda X, y, a: {"x": X, "y": y}, batches(X, y, 7)),
        StreamRows(lambda X, y, a: {"x": X, "y": y}, batches(X, y, 1024)),
    ):
        line = Release("slope", "gaussian", 0.5, 3)
        wall = PrivacyFilter(
            "test", [Split("split", (line,), (line,))], 1e-5, "replace_one",
            noise_source(0),
        )  # fmt: skip
        wall.reserve()
        (left, first), (right, second) = wall.split(rows, 0.3)
        assert first.n_rows + second.n_rows == 3000
        state = np.zeros(3)
        sums.append(
            [
                left.release(Slope(3), first, state),
                right.release(Slope(3), second, state),
            ]
        )
    assert_array_equal(sums[0], sums[1])
    assert_array_equal(sums[0], sums[2])


class Reads:
    """What a door makes of rows of any kind, and how many it saw at a time."""

    def __init__(self):
        self.saw = []

    def read(self, X, y, sensitive_features):
        if not X.shape[0]:
            raise ValueError("no rows")
        self.saw.append(X.shape[0])
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return {"x": dense, "cells": X, "y": y}


def doubled(X):
    return 2 * X


def as_kind(kind, X):
    """A dask collection of five partitions."""
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    if kind == "frame":
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X, columns=list("abc"))
        return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=5)
    if kind == "array":
        return da.from_array(X, chunks=(len(X) // 5, 3))
    blocks = [
        da.from_delayed(dask.delayed(kind)(part), part.shape, np.float64)
        for part in np.split(X, 5)
    ]
    return da.concatenate(blocks)


@pytest.mark.parametrize(
    "kind", ["array", "frame", sparse.csr_array, sparse.coo_array, sparse.csc_array]
)
@pytest.mark.parametrize("mapped", [False, True])
def test_workers_choose_the_rows_that_travel(kind, mapped, monkeypatch):
    dask = pytest.importorskip("dask")
    X, y = table(600)
    collection = DaskBatches(as_kind(kind, X))
    if mapped:
        X, collection = doubled(X), collection.map(doubled)
    door, answered = Reads(), []
    with dask.config.set(scheduler="synchronous"):
        rows = collection.read(door.read)
        mask = np.random.default_rng(0).uniform(size=600) < 0.3
        mask[120:240] = False  # nothing of the second partition
        mask[240:360] = True
        compute = _dask._computed
        monkeypatch.setattr(
            _dask, "_computed", lambda tasks: answered.extend(a := compute(tasks)) or a
        )
        door.saw.clear()
        chosen = rows.take(mask).only("x", "cells")
        block = chosen.whole()
        assert_array_equal(block.x, X[mask])
        cells = block.cells
        cells = cells.toarray() if sparse.issparse(cells) else np.asarray(cells)
        assert_array_equal(cells, X[mask])
        # The rows that were asked for are all that is mapped and read, and travels.
        sizes = [part.sum() for part in np.split(mask, 5)]
        assert sorted(door.saw) == sorted(max(size, 1) for size in sizes)
        assert [len(columns["x"]) for *_, columns in answered] == sizes
        assert {tuple(columns) for *_, columns in answered} == {("x", "cells")}
        for size in (1, 100, 999):
            blocks = list(chosen.blocks(size))
            assert {b.n_rows for b in blocks[:-1]} <= {size}
            assert_array_equal(np.concatenate([b.x for b in blocks]), X[mask])
        assert_array_equal(rows.whole().x, X)
        none = rows.take(np.zeros(600, dtype=bool)).whole()
        assert none.x.shape == (0, 3) and none.n_rows == 0


def widened(X):
    return np.hstack([X, X**2, X**3])


def refuses_few(X):
    if 1 < len(X) < 60:  # one row tells the number of columns
        raise ValueError(f"could not convert {PLANTED!r}")
    return widened(X)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_rows_that_are_encoded_as_many_numbers_travel_before(kind, monkeypatch, caplog):
    dask = pytest.importorskip("dask")
    X, y = table(600)
    door, answered, compute = Reads(), [], _dask._computed
    mask = np.random.default_rng(0).uniform(size=600) < 0.3
    mask[120:240] = False  # nothing of the second partition
    with dask.config.set(scheduler="synchronous"):
        rows = DaskBatches(as_kind(kind, X)).map(widened).read(door.read)
        monkeypatch.setattr(
            _dask, "_computed", lambda tasks: answered.extend(a := compute(tasks)) or a
        )
        door.saw.clear()
        chosen = rows.take(mask).only("x")
        assert_array_equal(chosen.whole().x, widened(X)[mask])
        # One row stands for none of a partition: a table without rows is refused.
        sizes = [max(part.sum(), 1) for part in np.split(mask, 5)]
        assert [given[0].shape for *_, given in answered] == [(n, 3) for n in sizes]
        assert door.saw == sizes
        assert_array_equal(rows.whole().x, widened(X))
        none = rows.take(np.zeros(600, dtype=bool)).whole()
        assert none.x.shape == (0, 9) and none.n_rows == 0

        refusing = DaskBatches(as_kind(kind, X)).map(refuses_few).read(door.read)
        with pytest.raises(RuntimeError, match="could not be computed") as error:
            refusing.take(mask).whole()
    assert_no_trace(repr(error.getrepr(chain=True)).encode())
    assert_no_trace(caplog.text.encode())


def of_block(block, *beside):
    """What tells every row of a block, and what came beside it."""
    assert all(len(own) == block.n_rows for own in beside)
    return [block.n_rows, *block.x.sum(axis=1), *np.concatenate([[], *beside])]


@pytest.mark.parametrize("size", [1, 7, 50, 120, 130, 599, 600, 1000])
@pytest.mark.parametrize("mapped", [False, True])
def test_blocks_are_answered_to_where_they_are(size, mapped, monkeypatch):
    """In one partition: on its worker; the driver gets the rows of all others."""
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(_dask, "_MAPPED", 25)
    monkeypatch.setattr(_dask, "WITHOUT_ROWS", 2)
    X, y = table(600)
    collection = DaskBatches(as_kind("array", X))
    if mapped:
        X, collection = widened(X), collection.map(widened)
    rng, door, answered = np.random.default_rng(0), Reads(), []
    some = rng.uniform(size=600) < 0.3
    some[120:240] = False  # nothing of the second partition
    one = np.arange(600) == 300
    compute = _dask._computed
    monkeypatch.setattr(
        _dask, "_computed", lambda tasks: answered.extend(a := compute(tasks)) or a
    )
    with dask.config.set(scheduler="synchronous"):
        rows = collection.read(door.read)
        for mask in (np.ones(600, dtype=bool), some, one, np.zeros(600, dtype=bool)):
            n_rows = int(mask.sum())
            beside = [rng.uniform(size=n_rows) for _ in range(2)]
            alone = Rows(n_rows, x=X[mask])
            answered.clear()
            chosen = rows if mask.all() else rows.take(mask)
            found = list(chosen.only("x").of_blocks(of_block, size, beside))
            assert found == list(alone.of_blocks(of_block, size, beside))
            told = [piece for *_, pieces in answered for piece in pieces]
            pieces = [piece for piece in told if isinstance(piece, _dask._Piece)]
            assert {name for piece in pieces for name in piece.columns} <= {"x"}
            ends = np.cumsum([part.sum() for part in np.split(mask, 5)])
            inside = [
                np.searchsorted(ends, start, "right")
                == np.searchsorted(ends, start + size)
                for start in range(0, n_rows - size + 1, size)
            ]
            assert len(told) - len(pieces) == sum(inside)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_gradients_of_networks_are_added_up_as_in_one_process(epsilon):
    """Chunks of rows on the workers, and those between partitions at the driver."""
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    X, group = rng.uniform(-1, 1, size=(9000, 3)), rng.integers(2, size=9000)
    y = (X[:, 0] + 0.5 * group > 0).astype(np.int64)
    model = DPWassersteinMLPClassifier(
        max_iter=3,
        epsilon=epsilon,
        bounds=(-1, 1),
        classes=[0, 1],
        groups=[0, 1],
        random_state=0,
    )
    expected = clone(model).fit(X, y, sensitive_features=group)
    for chunks in (4096, (3000, 100, 5000, 900)):
        columns = [da.from_array(c, chunks=(chunks, *c.shape[1:])) for c in (X, y)]
        asked = {"sensitive_features": da.from_array(group, chunks=(chunks,))}
        found = clone(model).fit(*columns, **asked)
        for coef, same in zip(expected.coefs_, found.coefs_, strict=True):
            assert_array_equal(coef, same)


def test_threads_of_products_stay_as_they_are_until_a_task_has_ended():
    """With `threadpool_limits` alone, the one that ends first changes the other's."""
    before, seen = _dask._blas_threads(), []
    wanted = 2 if before == 1 else 1

    def work(seconds):
        with _dask._of_threads(wanted):
            time.sleep(seconds)
            seen.append(_dask._blas_threads())

    tasks = [threading.Thread(target=work, args=(s,)) for s in (0.05, 0.25)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert seen == [wanted, wanted]
    assert _dask._blas_threads() == before


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_few_rows_at_a_time_are_mapped(kind, monkeypatch):
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(_dask, "_MAPPED", 25)
    X, y = table(600)
    mask = np.random.default_rng(0).uniform(size=600) < 0.3
    mask[120:240] = False  # nothing of the second partition
    door, sums = Reads(), _Moment()
    with dask.config.set(scheduler="synchronous"):
        rows = DaskBatches(as_kind(kind, X)).map(widened).read(door.read)
        assert door.saw == [1] + 5 * [25, 25, 25, 25, 20]
        door.saw.clear()
        chosen = rows.take(mask)
        assert_array_equal(chosen.only("x").whole().x, widened(X)[mask])
        assert_array_equal(chosen.total(sums, None), sums.of(widened(X)[mask]))
        _, answers = chosen.answered(lambda block: block.x[:, 5], ["x"], [])
        assert_array_equal(answers, widened(X)[mask, 5])
        assert max(door.saw) == 25
        assert_array_equal(rows.total(sums, None), sums.of(widened(X)))


def test_rows_that_are_held_are_read_once_and_joined_where_batches_are_drawn():
    X, y = table(600)
    door = Reads()
    parts = [(X[i : i + 70], y[i : i + 70], None) for i in range(0, 600, 70)]
    rows = _stream._HeldRows(door.read, parts)
    assert rows.n_rows == 600 == sum(door.saw)
    assert_array_equal(np.concatenate([b.x for b in rows.blocks(64)]), X)
    assert rows.prints(lambda columns: len(columns["y"])) == door.saw
    assert len(rows.only("y")._held) == len(parts)
    drawn = rows.only("x").take(np.array([300, 5, 2]))
    assert_array_equal(drawn.whole().x, X[[2, 5, 300]])
    assert len(rows._held) == 1
    mask = np.arange(600) % 3 == 1
    assert_array_equal(rows.seen(mask).whole().y, y[mask])
    assert sum(door.saw) == 600


def test_an_encoder_looks_at_all_rows_and_encodes_one(monkeypatch):
    """Before the reserve: what it refuses is not told, what is wrong beside it is."""
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    X, words = table(600)[0], np.array(["red", "green"])[np.arange(600) % 2]
    frame = pd.DataFrame(X).add_prefix("x").assign(word=words, label=0)
    listed = {"kind": "category", "categories": ["red", "green"], "other": False}
    encoder = DPTableEncoder(codebook={"x0": None, "word": listed}, random_state=0)
    encoder.fit(frame[["x0", "word"]])

    def opened(frame, n_parts=3, **named):
        own = dd.from_pandas(frame, npartitions=n_parts)
        named = {"classes": [0, 1], "fairness_weight": 0.0, **named}
        model = DPWassersteinLogisticRegression(**named)
        encoded = encoder.transform(own[["x0", "word"]])
        return as_batches(encoded, own["label"], None).read(model._read)

    answered, write = [], NumberColumn.write

    def noted(column, codes, *args, **atoms):
        answered.append(len(codes))
        return write(column, codes, *args, **atoms)

    monkeypatch.setattr(NumberColumn, "write", noted)
    with dask.config.set(scheduler="synchronous"):
        rows = opened(frame)
        assert rows.n_rows == 600 and set(answered) == {1}
        assert_array_equal(rows.whole().y, frame["label"])
        assert max(answered) == 200
        with pytest.raises(ValueError, match="classes"):
            opened(frame.assign(label=[*599 * [1], 2]))
        with pytest.raises(RuntimeError, match="could not be computed") as error:
            opened(frame.assign(word=[*words[:599], PLANTED]))
        assert_no_trace(repr(error.getrepr(chain=True)).encode())
        # Labels out of the encoded columns are all looked at.
        first = float(encoder.transform(frame[["x0", "word"]])[0, 0])
        with pytest.raises(ValueError, match="groups"):
            opened(frame, 1, sensitive_features=[0], groups=[first, 2.0])


def encoded_repair():
    model = DPWassersteinLogisticRegression(
        fairness_weight=0.0, max_iter=2, classes=[0, 1], random_state=0
    )
    named = {"classes": [0, 1], "groups": [0, 1], "random_state": 0}
    return DP2DPClassifier(model, **named)


def encoded_columns(n, n_parts=6):
    """A frame, labels, groups, and a function that has tasks read them for dask."""
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = table(n)
    frame = pd.DataFrame(X).add_prefix("x")
    names = list(frame)
    frame = frame.assign(label=(y > 0).astype(int), group=(X[:, 1] > 0).astype(int))

    def read(change=None):
        def one(i):
            part = frame[i * n // n_parts : (i + 1) * n // n_parts]
            return part if change is None else change(i, part.copy())

        whole = dd.from_map(one, range(n_parts), meta=frame[:0])
        return whole[names], whole["label"], whole["group"]

    return frame[names], frame["label"], frame["group"], read


def test_rows_of_an_encoder_are_held_as_codes(monkeypatch):
    """They travel once, for the model and what calibrates; few are made at a time."""
    dask = pytest.importorskip("dask")
    X, label, group, read = encoded_columns(6000)
    encoder = DPTableEncoder(random_state=0).fit(X)
    compute, on_grid = _dask._computed, CodedTable.on_grid
    tasks, answered, made = [], [], []

    def computed(given):
        tasks.extend(task.key for task in given)
        answered.extend(found := compute(given))
        return found

    def noted(coded, unit):
        made.append(len(coded))
        return on_grid(coded, unit)

    Z = encoder.transform(X)
    expected = encoded_repair().fit(Z, label, sensitive_features=group)
    dask_X, *labels = read()
    with dask.config.set(scheduler="synchronous"):
        encoded = encoder.transform(dask_X)
        monkeypatch.setattr(_dask, "_computed", computed)
        monkeypatch.setattr(CodedTable, "on_grid", noted)
        model = encoded_repair().fit(encoded, labels[0], sensitive_features=labels[1])
    assert_array_equal(model.estimator_.coef_, expected.estimator_.coef_)
    assert_array_equal(model.offsets_, expected.offsets_)
    n_parts = dask_X.npartitions
    names = [key.rsplit("-", 5)[0] for key in tasks]
    assert names == ["_first", *n_parts * ["_measure"], *n_parts * ["_told"]]
    codes = [found[2]["X"] for found in answered[-n_parts:]]
    assert sum(map(len, codes)) == 6000
    assert {one.dtype for one in codes} == {np.dtype(np.int16)}
    assert 0 < max(made) <= 4096

    # Another model, of another package say, gets rows as they were encoded.
    class Other(DPWassersteinLogisticRegression):
        _reads_codes = False

    made.clear()
    given = Other(fairness_weight=0.0, max_iter=2, classes=[0, 1], random_state=0)
    other = encoded_repair().set_params(estimator=given)
    with dask.config.set(scheduler="synchronous"):
        other.fit(encoded, labels[0], sensitive_features=labels[1])
    assert_array_equal(other.estimator_.coef_, expected.estimator_.coef_)
    assert not made


def test_rows_that_change_before_their_codes_travel_stop_the_fit():
    dask = pytest.importorskip("dask")
    X, *_, read = encoded_columns(600)
    encoder, reads = DPTableEncoder(random_state=0).fit(X), []

    def changed(i, part):
        reads.append(i)
        if i == 3 and reads.count(3) == 2:
            part.iloc[50, 1] += 1e-12
        return part

    def opened(change):
        X_dask, *labels = read(change)
        encoded = encoder.transform(X_dask)
        return as_batches(encoded, *labels).read(encoded_repair()._read)

    with dask.config.set(scheduler="synchronous"):
        kept = opened(None).gathered()
        assert_array_equal(kept.only("X").whole().X, encoder.transform(X))
        rows = opened(changed)
        with pytest.raises(ChangedDataError):
            rows.gathered()


def test_an_encoder_behind_an_encoder_refuses_before_the_reserve():
    """Cells of all rows, not the first one alone, where a list is complete."""
    dask = pytest.importorskip("dask")
    X, _ = table(600)
    X[::120] = X[0]  # the first row of each partition
    first = DPTableEncoder(random_state=0).fit(X)
    seen = category_key(float(first.transform(X[:1])[0, 0]))
    listed = {"kind": "category", "categories": [seen, "?"], "other": False}
    ledger = PrivacyLedger(10.0, 1e-4)
    second = DPTableEncoder(codebook={"x0": listed}, ledger=ledger, random_state=0)
    encoded = first.transform(as_kind("array", X))
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(ValueError, match="outside its list"):
            second.fit(encoded)
    assert ledger.spends() == []


ONE_EMPTY = [[(0, 0), (0, 300)], [(0, 200), (200, 200), (200, 300), (300, 300)]]


@pytest.mark.parametrize("parts", ONE_EMPTY)
def test_a_partition_that_a_filter_left_empty_is_as_none(parts, tmp_path):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X = pd.DataFrame(table(300)[0], columns=list("abc"))
    X["d"] = pd.Series(np.arange(300) % 7).map(str)
    one = X.iloc[:1].assign(a=-1.0, d="planted")  # a record that a filter takes out
    known = DPTableEncoder(random_state=0).fit(X)
    empty = X[:0].astype(object)  # decides nothing

    def of_part(part):
        rows = X[slice(*part)]
        return rows if len(rows) else one[one["a"] > 0].astype(empty.dtypes)

    frame = dd.from_map(of_part, parts, meta=X[:0])
    for given in (frame, Batches(lambda: ((of_part(p), None, None) for p in parts))):
        path = tmp_path / type(given).__name__
        with resume(path):
            model = DPTableEncoder(random_state=0).fit(given)
        for name in ("bounds_", "guarantee_", "feature_names_in_"):
            if hasattr(known, name):
                assert_array_equal(getattr(model, name), getattr(known, name))
        assert_array_equal(model.transform(X), known.transform(X))
        assert b"planted" not in path.read_bytes()
    answers = known.transform(frame)
    assert_array_equal(answers.compute(), known.transform(X))
    assert answers.dtype == known.transform(X).dtype
    batches = Batches(lambda: ((of_part(p), None, None) for p in parts))
    found = [answer for answer, *_ in known.transform(batches)]
    assert_array_equal(np.concatenate(found), known.transform(X))


class Dies(Descent):
    at = 2

    def _step(self, step):
        if step == self.at:
            raise Death


def test_a_fit_goes_on_after_its_death_whatever_batches_are_empty(
    tmp_path, monkeypatch
):
    X, y = table(300)
    parts = [(X[:200], y[:200], None), (X[200:], y[200:], None)]
    model = Dies(bounds=(-1, 1), random_state=0)
    with pytest.raises(Death), resume(tmp_path / "journal"):
        model.fit(Batches(parts))
    monkeypatch.setattr(Dies, "at", None)
    nothing = (X[:0], y[:0], None)
    with resume(tmp_path / "journal"):
        model.fit(Batches([nothing, parts[0], nothing, parts[1]]))
    assert_array_equal(model.coef_, descent().fit(X, y).coef_)


@pytest.mark.parametrize("n_parts", [1, 3])
def test_nothing_but_empty_batches_is_refused_before_the_spend(n_parts):
    da = pytest.importorskip("dask.array")
    X, y = table(3)
    ledger = PrivacyLedger(10.0, 1e-4)
    model = descent(ledger=ledger)
    with pytest.raises(ValueError, match="no batch with a row"):
        model.fit(Batches(n_parts * [(X[:0], y[:0], None)]))
    chunks = (n_parts * (0,), (3,))
    given = da.from_array(X[:0], chunks), da.from_array(y[:0], chunks[:1])
    with pytest.raises(ValueError, match="collection has no rows"):
        model.fit(*given)
    assert ledger.spends() == []


def test_an_empty_batch_with_labels_is_refused():
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = table(300)
    with pytest.raises(ValueError, match="need a row for each record"):
        descent().fit(Batches([(X, y, None), (X[:0], y, None)]))
    X, y = pd.DataFrame(X), pd.Series(y)
    own = dd.from_map(lambda n: X[:n], [300, 0], meta=X[:0])
    labels = dd.from_map(lambda n: y[:n], [300, 300], meta=y[:0])
    with pytest.raises(ValueError, match="need a row for each record"):
        descent().fit(own, labels)


class _Moment:
    """Sums of the columns, whole units of 2**-10 of each cell."""

    block_rows = 64

    def of_block(self, block, state):
        return self.of(block.x)

    @staticmethod
    def of(x):
        return np.trunc(x * 2**10).astype(np.int64).sum(axis=0)


@pytest.mark.parametrize("last", [599, 650])
def test_labels_of_other_rows_are_refused_where_few_are_mapped(last, monkeypatch):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    monkeypatch.setattr(_dask, "_MAPPED", 50)
    X, y = pd.DataFrame(table(600)[0]), pd.Series(np.arange(last) % 2)
    ends = {0: 300, 300: last}
    own = dd.from_map(lambda i: X[i : i + 300], [0, 300], meta=X[:0])
    labels = dd.from_map(lambda i: y[i : ends[i]], [0, 300], meta=y[:0])
    named = {"classes": [0, 1], "bounds": (-1, 1), "fairness_weight": 0.0}
    model = DPWassersteinLogisticRegression(**named)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        DaskBatches(own, labels).map(np.asarray).read(model._read)


ARRAYS_IN_A_TASK = """
import resource
import numpy as np
from fairpriv_sklearn._door._dask import _silent

def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for size in 100 * [14_000, 100_000]:
        np.ones(size)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(new_pages(), _silent(new_pages)())
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other allocators keep it"
)
def test_tasks_have_room_where_workers_give_freed_memory_back():
    environ = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}  # as dask sets it
    out = subprocess.check_output([sys.executable, "-c", ARRAYS_IN_A_TASK], env=environ)
    without, within = map(int, out.split())
    assert without > 20 * within


def answer(X, sensitive_features=None):
    return doubled(np.asarray(X))


def shifted(X, sensitive_features=None):
    return np.asarray(X) + 1


def test_a_fit_to_answers_asks_for_those_of_the_rows_it_chooses():
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    X, y = table(600)
    for kind in ("array", "frame"):
        source = as_kind(kind, X)
        once = _dask.blockwise(answer, source)
        twice = _dask.blockwise(shifted, once)
        for answers, shift in ((once, 0), (twice, 1)):
            batches = DaskBatches(answers)
            assert batches.collections[0] is source
            door = Reads()
            with dask.config.set(scheduler="synchronous"):
                rows = batches.read(door.read).only("x")
                door.saw.clear()
                even = rows.take(np.arange(600) % 2 == 0).whole().x
            assert_array_equal(even, 2 * X[::2] + shift)
            assert door.saw == [60] * 5

        target = da.from_array(y, chunks=(100, 140, 120, 120, 120))
        batches = DaskBatches(once, target)
        assert (batches.collections[0] is source) == (kind == "array")
        read = batches.read(Reads().read).whole()
        assert_array_equal(read.x, 2 * X)
        assert_array_equal(read.y, y)
        aware = _dask.blockwise(answer, source, source)
        assert DaskBatches(aware).map_X is None
        once[once < 0] = 0
        with dask.config.set(scheduler="synchronous"):
            changed = DaskBatches(once).read(Reads().read).whole().x
        assert_array_equal(changed, np.maximum(2 * X, 0))


@pytest.mark.parametrize("bad", [0, 3])
def test_a_model_that_cannot_answer_to_private_rows_is_not_quoted(bad, caplog):
    pytest.importorskip("dask")

    def refuses(X):
        if (np.asarray(X) == table(600)[0][120 * bad, 0]).any():
            raise ValueError(f"could not convert {PLANTED!r}")
        return X

    collection = DaskBatches(as_kind("array", table(600)[0])).map(refuses)
    with pytest.raises(RuntimeError, match="could not be computed") as error:
        collection.read(Reads().read)
    assert_no_trace(repr(error.getrepr(chain=True)).encode())
    assert_no_trace(caplog.text.encode())


def first_column(block):
    return block.x[:, 0]


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("row", [300, 301])
def test_rows_that_change_stop_a_choice_that_leaves_them_out(row, scored):
    dask = pytest.importorskip("dask")
    X, y = table(600)
    reads = []

    def changed(i, part):
        reads.append(i)
        if i == row // 100 and reads.count(i) == 3:
            part.iloc[row % 100, 1] += 1e-12
        return part

    with dask.config.set(scheduler="synchronous"):
        collections = read_by_tasks(X, y, change=changed)
        rows = DaskBatches(*collections).read(Reads().read)
        even = rows.take(np.arange(600) % 2 == 0)

        def asked():
            if scored:
                return even.answered(first_column, ["x"], ["y"])[1]
            return even.only("x").whole().x[:, 0]

        assert_array_equal(asked(), X[::2, 0])
        with pytest.raises(ChangedDataError):
            asked()


def test_what_travels_has_no_ledger_and_no_seed():
    pytest.importorskip("dask")
    ledger = PrivacyLedger(10.0, 1e-4)
    model = descent(ledger=ledger, random_state=7).fit(*table(600))
    model._draft_of = model
    travelling = (
        to_travel(model),
        _stream._Answer(model, model.predict).estimator,
        _dask._Reader(model._read, None)._estimator,
    )
    for copy in travelling:
        assert type(copy) is type(model) and copy is not model
        assert copy.ledger is None and copy.random_state is None
        assert "_draft_of" not in vars(copy)
        assert copy.coef_ is model.coef_
    assert model.ledger is ledger and model.random_state == 7


def test_a_worker_of_another_kind_chooses_nothing(monkeypatch):
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        rows = DaskBatches(*read_by_tasks(*table(600))).read(Reads().read)
        kinds = iter("abcdefghijklmnopqrstuvwxyz")
        monkeypatch.setattr(_dask, "kernels", lambda: next(kinds))
        with pytest.raises(RuntimeError, match="other bits"):
            rows.whole()


# --- what is refused ------------------------------------------------------------------


def test_batches_have_to_be_iterable_again():
    X, y = table(10)
    with pytest.raises(ValueError, match="iterated over again"):
        Batches(iter([(X, y, None)]))
    with pytest.raises(ValueError, match="iterated over again"):
        Batches(5)
    descent().fit(Batches([(X, y, None), (X, y, None)]))
    with pytest.raises(ValueError, match="must be a tuple"):
        descent().fit(Batches([(X, y)]))
    with pytest.raises(ValueError, match="gave no batch with a row"):
        descent().fit(Batches([]))
    with pytest.raises(ValueError, match="pass nothing else"):
        descent().fit(batches(X, y, 5), y)
    with pytest.raises(ValueError, match=r"features|same columns"):
        descent().fit(Batches([(X, y, None), (X[:, :2], y, None)]))


def test_public_facts_have_to_be_given_with_batches():
    X, y = table(10)
    with pytest.raises(ValueError, match="bounds"):
        descent(bounds=None).fit(batches(X, y, 5))


@pytest.mark.parametrize("change", ["value", "order", "length", "fewer", "more"])
def test_data_that_change_between_passes_stop_the_fit(change):
    X, y = table(1000)
    passes = []

    def make_batches():
        passes.append(None)
        other = X.copy()
        stop = 1000
        if len(passes) == 3:
            if change == "value":
                other[500, 1] += 1e-12
            elif change == "order":
                other[[400, 401]] = other[[401, 400]]
            elif change == "length":
                stop = 999
            elif change == "fewer":
                stop = 900
            else:
                yield X[:100], y[:100], None
        for start in range(0, stop, 100):
            end = min(start + 100, stop)
            yield other[start:end], y[start:end], None

    ledger = PrivacyLedger(epsilon=10.0, delta=1e-4)
    model = descent(ledger=ledger)
    with pytest.raises(ChangedDataError, match="changed between two passes"):
        model.fit(Batches(make_batches))
    assert len(ledger.spends()) == 1  # the first pass was looked at
    assert not hasattr(model, "coef_")


# --- naive ways, and why not ----------------------------------------------------------


def rerun(tasks, rng):
    """Tasks on workers that die: any task may run again, its last answer is used."""
    answers = []
    for task in tasks:
        answer = task()
        while rng.uniform() < 0.5:
            answer = task()
        answers.append(answer)
    return answers


def test_noise_in_tasks_is_drawn_too_often():
    """Each rerun draws anew: an observer of the attempts averages the noise away."""
    X, y = table(1000)
    drawn = []
    noise = noise_source(0)

    def naive(start):
        def task():
            added = noise.standard_normal(3)
            drawn.append(added)
            return X[start : start + 100].sum(axis=0) + added

        return task

    rerun([naive(i) for i in range(0, 1000, 100)], np.random.default_rng(0))
    assert len(drawn) > 10  # ten parts, and more noises than parts


def test_counts_by_side_effect_count_rows_twice():
    X, _ = table(1000)
    seen = []
    naive = [lambda: seen.append(100) for _ in range(10)]
    pure = [lambda: 100 for _ in range(10)]
    rerun(naive, np.random.default_rng(0))
    assert sum(seen) > 1000
    assert sum(rerun(pure, np.random.default_rng(0))) == 1000


def test_redrawn_coins_put_rows_into_both_phases():
    """One record in both phases voids the split; keyed draws fall alike again."""
    from fairpriv_sklearn._wall import keyed_draws

    noise = noise_source(0)
    first, again = noise.bernoulli(1000, 0.5), noise.bernoulli(1000, 0.5)
    assert (first & ~again).any()
    key = noise.key(32)
    attempts = [keyed_draws(key, 800, 0.5) for _ in range(2)]
    assert_array_equal(*attempts)
    assert_array_equal(attempts[0], keyed_draws(key, 1000, 0.5)[:800])


# --- journal --------------------------------------------------------------------------

SCRIPT = textwrap.dedent(
    """
    import os, signal, sys
    import numpy as np
    from test_distributed import Descent, batches, resume, table
    from fairpriv_sklearn.privacy import PrivacyLedger

    folder, die_at, seed = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])

    class Mortal(Descent):
        def _step(self, step):
            if step == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    Mortal.__name__ = Mortal.__qualname__ = "Descent"
    X, y = table(1000)
    ledger = PrivacyLedger(10.0, 1e-4, path=os.path.join(folder, "ledger"))
    model = Mortal(bounds=(-1, 1), ledger=ledger, random_state=seed, n_steps=5)
    with resume(os.path.join(folder, "journal")):
        model.fit(batches(X, y, 130))
    np.save(os.path.join(folder, "coef.npy"), model.coef_)
    print(len(ledger.spends()))
    """
)


def run(folder, die_at, seed=None):
    here = os.path.dirname(os.path.abspath(__file__))
    paths = [here, os.path.dirname(here)]
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), str(die_at), repr(seed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal to kill")
def test_a_killed_driver_draws_and_spends_nothing_twice(tmp_path):
    seen = []
    for die_at in (0, 1, 3, 4):
        assert run(tmp_path, die_at).returncode == -signal.SIGKILL
        lines = (tmp_path / "journal").read_text().splitlines()
        seen.append([json.loads(line) for line in lines])
    for earlier, later in zip(seen[:-1], seen[1:], strict=True):
        assert later[: len(earlier)] == earlier  # nothing recorded is drawn again
    finished = run(tmp_path, -1)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == "1"  # one spend
    again = run(tmp_path, -1)
    assert again.returncode and "ended" in again.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal to kill")
def test_with_a_seed_a_killed_fit_ends_with_the_same_bits(tmp_path):
    for die_at in (2, 4, -1):
        run(tmp_path, die_at, seed=3)
    X, y = table(1000)
    expected = descent(random_state=3, n_steps=5).fit(X, y)
    assert_array_equal(np.load(tmp_path / "coef.npy"), expected.coef_)


class Fails(Descent):
    """Dies at its second step, as a driver may."""

    def _step(self, step):
        if step == 1:
            raise Death


def test_a_journal_serves_one_fit(tmp_path):
    X, y = table(300)
    path = tmp_path / "journal"
    with pytest.raises(Death), resume(path):
        Fails(bounds=(-1, 1)).fit(X, y)
    with pytest.raises(ValueError, match="other parameters"), resume(path):
        Fails(bounds=(-1, 1), n_steps=4).fit(X, y)
    for bounds in (1, -1, (-1, 2), (-1, True), [-1, 1, None], "(-1, 1)"):
        with pytest.raises(ValueError, match="other parameters"), resume(path):
            Fails(bounds=bounds).fit(X, y)
    with pytest.raises(ValueError, match="other parameters"), resume(path):
        descent().fit(X, y)
    with pytest.raises(ValueError, match="one fit"), resume(tmp_path / "two"):
        descent().fit(X, y)
        descent().fit(X, y)
    with resume(tmp_path / "three"):
        descent().fit(X, y)
    with pytest.raises(ValueError, match="ended"), resume(tmp_path / "three"):
        descent().fit(X, y)
    with resume(tmp_path / "none"):
        pass
    if os.name == "posix":
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with resume(tmp_path / "none"):
            with pytest.raises(RuntimeError, match="Another process"):
                with resume(tmp_path / "none"):
                    pass


def test_a_resumed_fit_is_paid_from_the_ledger_that_it_has_now(tmp_path):
    """It was free where the fit began without one, or with one that is no more."""
    X, y = table(300)
    ledgers = [PrivacyLedger(10.0, 1e-4) for _ in range(2)]
    for ledger in (None, ledgers[0], ledgers[0], ledgers[1]):
        with pytest.raises(Death), resume(tmp_path / "journal"):
            Fails(bounds=(-1, 1), ledger=ledger).fit(X, y)
    assert [len(ledger.spends()) for ledger in ledgers] == [1, 1]
    small = PrivacyLedger(1e-3, 1e-4)
    with pytest.raises(BudgetExceededError), resume(tmp_path / "journal"):
        Fails(bounds=(-1, 1), ledger=small).fit(X, y)


def test_an_interrupt_before_the_fit_leaves_no_journal_open(tmp_path, monkeypatch):
    X, y = table(300)

    class Interrupted:
        get = current_journal.get

        def set(self, journal):
            current_journal.set(journal)
            monkeypatch.undo()
            raise Death

    monkeypatch.setattr(_journal, "current_journal", Interrupted())
    with pytest.raises(Death), resume(tmp_path / "journal"):
        descent().fit(X, y)
    assert current_journal.get() is None
    with resume(tmp_path / "journal"):
        descent().fit(X, y)


@pytest.mark.parametrize(
    "make",
    [
        lambda: lambda X: X,
        lambda: partial(np.multiply, np.random.RandomState(0)),
        lambda: np.random.default_rng(0),
        lambda: (np.array([-1.23456789, -1.0]), np.ones(2)),
        lambda: Fails(bounds=np.array([-1.23456789])),
    ],
    ids=["function", "partial", "generator", "bounds", "estimator"],
)
def test_a_restart_knows_its_parameters_in_another_process(make, tmp_path):
    """Objects lie elsewhere there, and NumPy may print otherwise."""
    X, y = table(300)
    path, ledger = tmp_path / "journal", PrivacyLedger(10.0, 1e-4)
    first, second = make(), make()
    with pytest.raises(Death), resume(path):
        Fails(bounds=first, ledger=ledger).fit(X, y)
    with np.printoptions(precision=2), pytest.raises(Death), resume(path):
        Fails(bounds=second, ledger=ledger).fit(X, y)
    assert len(ledger.spends()) == 1


def test_parameters_of_a_model_inside_are_told_apart(tmp_path):
    X, y = table(300)
    ledger = PrivacyLedger(10.0, 1e-4)
    for n_steps, end in ((4, Death), (5, ValueError)):
        with pytest.raises(end), resume(tmp_path / "journal"):
            inside = descent(n_steps=n_steps, ledger=ledger)
            Fails(bounds=inside, ledger=ledger).fit(X, y)
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize("estimator", [Fails, Descent], ids=["dies", "ends"])
def test_what_is_written_is_on_the_disk_before_it_is_used(
    tmp_path, monkeypatch, estimator
):
    """Flushed, each line before its count and before the next draw; all is closed."""
    X, y = table(300)
    done, opened = [], set()
    here = {"write": os.write, "fsync": os.fsync, "open": os.open, "close": os.close}

    def kept(what):
        def call(file, *rest):
            if what == "open":
                found = here[what](file, *rest)
                opened.add(found)
                return found
            done.append((what, file))
            if what == "close":
                opened.remove(file)
            return here[what](file, *rest)

        return call

    class Watched(estimator):
        def _step(self, step):
            done.append("used")
            super()._step(step)

    calls = {name: kept(name) for name in here}
    monkeypatch.setattr(_journal, "os", SimpleNamespace(**{**vars(os), **calls}))
    with suppress(Death), resume(tmp_path / "journal"):
        Watched(bounds=(-1, 1), n_steps=3).fit(X, y)
    assert not opened
    lines = (tmp_path / "journal").read_bytes().count(b"\n")
    writes = [i for i, one in enumerate(done) if one[0] == "write"]
    assert len(writes) == 2 * lines + 1  # and the key
    for i in writes:
        assert done[i + 1] == ("fsync", done[i][1])
    assert done.count("used") == (2 if estimator is Fails else 3)
    for i in np.flatnonzero([one == "used" for one in done]):
        assert [one[0] for one in done[i - 4 : i]] == ["write", "fsync"] * 2


def test_bounds_of_many_columns_are_told_apart(tmp_path):
    X, y = table(300)
    low, other = np.full(2000, -1.0), np.full(2000, -1.0)
    other[1000] = -2.0
    with pytest.raises(Death), resume(tmp_path / "journal"):
        Fails(bounds=(low, 1.0)).fit(X, y)
    with pytest.raises(ValueError, match="other parameters"):
        with resume(tmp_path / "journal"):
            Fails(bounds=(other, 1.0)).fit(X, y)


@pytest.mark.parametrize("n_rows", [None, 100])
def test_a_restart_on_other_data_stops_the_fit(tmp_path, n_rows):
    """A cell of one row is enough, in memory and in batches."""
    X, y = table(300)
    given = (lambda X, y: (X, y)) if n_rows is None else lambda *t: (batches(*t, 100),)
    path, ledger = tmp_path / "journal", PrivacyLedger(10.0, 1e-4)
    with pytest.raises(Death), resume(path):
        Fails(bounds=(-1, 1), ledger=ledger).fit(*given(X, y))
    written = path.read_bytes()
    assert len(ledger.spends()) == 1
    other = X.copy()
    other[217, 1] = np.nextafter(other[217, 1], 2.0)
    swapped = np.concatenate([X[100:200], X[:100], X[200:]])
    for changed in ((other, y), (X, -y), (X[:-1], y[:-1]), (swapped, y)):
        with pytest.raises(ChangedDataError, match="changed"), resume(path):
            Fails(bounds=(-1, 1), ledger=ledger).fit(*given(*changed))
    assert path.read_bytes() == written and len(ledger.spends()) == 1
    with pytest.raises(Death), resume(path):
        Fails(bounds=(-1, 1), ledger=ledger).fit(*given(X.copy(), y))


def test_the_digest_of_the_rows_tells_nothing_without_a_key_that_ends_with_the_fit(
    tmp_path,
):
    X, y = table(300)
    rows = []
    left = tmp_path / "b.key"  # by others, to be read by them
    left.write_bytes(b"")
    left.chmod(0o644)
    for name in "ab":  # the same rows under two keys
        with pytest.raises(Death), resume(tmp_path / name):
            Fails(bounds=(-1, 1)).fit(X, y)
        rows.append(json.loads((tmp_path / name).read_text().splitlines()[0])["rows"])
        key = (tmp_path / f"{name}.key").read_bytes()[:32]
        assert len(key) == 32
        assert key.hex() not in (tmp_path / name).read_text()
        if os.name == "posix":
            assert stat.S_IMODE(os.stat(tmp_path / f"{name}.key").st_mode) == 0o600
    assert rows[0] != rows[1]
    (tmp_path / "a.key").unlink()
    with pytest.raises(ValueError, match="key beside this journal is missing"):
        with resume(tmp_path / "a"):
            Fails(bounds=(-1, 1)).fit(X, y)
    with resume(tmp_path / "done"):
        descent().fit(X, y)
    assert not (tmp_path / "done.key").exists()


def test_a_line_cut_off_by_death_is_forgotten_and_damage_is_not(tmp_path):
    X, y = table(300)
    path = tmp_path / "journal"
    with pytest.raises(Death), resume(path):
        Fails(bounds=(-1, 1)).fit(X, y)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"entry": "rel')
    with pytest.raises(Death), resume(path):
        Fails(bounds=(-1, 1)).fit(X, y)
    assert path.read_bytes() == whole
    later = whole[whole.index(b"\n") + 1 :]
    for damaged in (
        b"some file\n",
        b"no journal",
        b"{}\n",
        b"xx\n" + whole,
        later,
        b'{"entry": "end"}\n',
        b'{"entry": "end"}\n' + whole,
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not a journal"), resume(path):
            pass
        assert path.read_bytes() == damaged


def test_a_journal_that_was_cut_off_draws_nothing_anew(tmp_path):
    X, y = table(300)
    path, key = tmp_path / "journal", tmp_path / "journal.key"

    def fit(estimator=Fails):
        with resume(path):
            estimator(bounds=(-1, 1)).fit(X, y)

    with pytest.raises(Death):
        fit()
    whole, counted = path.read_bytes(), key.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(counted) == 32 + len(lines) and len(lines) > 2
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="cut off"):
        fit()
    for left in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:left]))
        with pytest.raises(ValueError, match="cut off"):
            fit()
        assert path.read_bytes() == b"".join(lines[:left])
    path.write_bytes(whole)
    key.write_bytes(counted[:-1])  # death came between the entry and its count
    with pytest.raises(Death):
        fit()
    assert path.read_bytes() == whole and key.read_bytes() == counted
    path.write_bytes(whole[:-1])  # before it ended its last line, which nobody used
    key.write_bytes(counted[:-1])
    with pytest.raises(Death):
        fit()
    again = path.read_bytes().splitlines(keepends=True)
    assert again[:-1] == lines[:-1] and again[-1] != lines[-1]
    assert [json.loads(line)["entry"] for line in again] == [
        "start", "public", "released",
    ]  # fmt: skip


def test_a_journal_of_another_version_is_refused(tmp_path):
    """One without a number is of the first."""
    X, y = table(300)
    path, ledger = tmp_path / "journal", PrivacyLedger(10.0, 1e-4)
    with pytest.raises(Death), resume(path):
        Fails(bounds=(-1, 1), ledger=ledger).fit(X, y)
    start, *rest = path.read_bytes().splitlines(keepends=True)
    start = json.loads(start)
    assert start.pop("version") == 2
    for version, end, match in (
        (1, ValueError, "another version of the library"),
        (3, ValueError, "another version of the library"),
        ("2", ValueError, "another version of the library"),
        (None, ValueError, "another version of the library"),
        (2, Death, None),
    ):
        numbered = start if version is None else {**start, "version": version}
        more = b'{"entry": "of another kind"}\n' if end is ValueError else b""
        written = json.dumps(numbered).encode() + b"\n" + b"".join(rest) + more
        path.write_bytes(written)
        with pytest.raises(end, match=match), resume(path):
            Fails(bounds=(-1, 1), ledger=ledger).fit(X, y)
        assert path.read_bytes() == written
    assert len(ledger.spends()) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[2].pop("value"),
        lambda lines: lines[2].update(value="no digits"),
        lambda lines: lines[2].update(dtype="O"),
        lambda lines: lines[2].update(shape=[1, 7]),
        lambda lines: lines[2].update(shape=None),
        lambda lines: lines[2].update(entry=[]),
        lambda lines: lines[0].pop("digest"),
        lambda lines: lines[0].update(rows=None),
        lambda lines: lines.__setitem__(2, [1]),
    ],
)
def test_a_damaged_journal_says_so(tmp_path, damage):
    X, y = table(300)
    path = tmp_path / "journal"
    with pytest.raises(Death), resume(path):
        Fails(bounds=(-1, 1)).fit(X, y)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    damage(lines)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(ValueError, match="damaged"), resume(path):
        Fails(bounds=(-1, 1)).fit(X, y)


def test_a_fit_that_parts_its_rows_is_not_resumed(tmp_path):
    line = Release("slope", "gaussian", 0.5, 3)
    ledger = PrivacyLedger(10.0, 1e-4)
    wall = PrivacyFilter(
        "test", [Split("split", (line,), (line,))], 1e-5, "replace_one",
        noise_source(0), ledger=ledger,
    )  # fmt: skip
    with pytest.raises(ValueError, match="cannot be resumed"), resume(tmp_path / "j"):
        wall.reserve()
    assert ledger.spends() == []


# --- nothing private is left behind ---------------------------------------------------

PLANTED = float(np.float64(3.5) / 31)  # no source that a report quotes holds it


def traces(value):
    """The planted value as text and as bytes."""
    bits = np.float64(value).tobytes()
    return [repr(value)[:10].encode(), bits, bits.hex().encode(), repr(bits).encode()]


def assert_no_trace(content):
    for trace in traces(PLANTED):
        assert trace not in content


def planted(n):
    X, y = table(n)
    X[:, 1], y[:] = PLANTED, PLANTED
    return X, y


def test_a_planted_value_is_not_in_the_journal(tmp_path):
    X, y = planted(300)
    with resume(tmp_path / "journal"):
        descent().fit(batches(X, y, 100))
    assert_no_trace((tmp_path / "journal").read_bytes())


class Fragile(Descent):
    """Its query fails on the workers, and names a cell."""

    def fit(self, X, y=None, *, sensitive_features=None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Slope, "of_block", fails_on_a_block)
            return super().fit(X, y, sensitive_features=sensitive_features)


def fails_on_a_block(query, block, state):
    if block.n_rows:
        raise ArithmeticError(f"cell {block.y[0]}")
    return np.zeros(query.n_features, dtype=np.int64)


def test_a_planted_value_is_not_in_what_a_cluster_writes(tmp_path, caplog):
    """Logs at debug level, names of tasks, errors, the report of performance."""
    da = pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    X, y = planted(300)
    columns = da.from_array(X, chunks=100), da.from_array(y, chunks=100)
    names = []

    class Watch(distributed.SchedulerPlugin):
        def transition(self, key, start, finish, *args, **kwargs):
            names.append(str(key))

    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address=":0",
        silence_logs=False,
    )
    with caplog.at_level("DEBUG"), cluster, distributed.Client(cluster) as client:
        cluster.scheduler.add_plugin(Watch())
        if importlib.util.find_spec("bokeh"):
            with distributed.performance_report(filename=tmp_path / "report.html"):
                descent().fit(*columns)
            assert_no_trace((tmp_path / "report.html").read_bytes())
        descent().fit(*columns)
        encoder = DPTableEncoder(random_state=0).fit(columns[0])
        labels = da.from_array(np.arange(300) % 2, chunks=100)
        encoded = encoder.transform(columns[0])
        encoded_repair().fit(encoded, labels, sensitive_features=labels)
        with pytest.raises(RuntimeError, match="could not be computed") as error:
            Fragile(bounds=(-1, 1)).fit(*columns)
        logs = repr([*client.get_worker_logs().values(), client.get_scheduler_logs()])
    assert "partition_total" in repr(names) and "distributed" in caplog.text
    assert "_told" in repr(names)
    assert_no_trace(repr(names).encode() + caplog.text.encode() + logs.encode())
    assert repr(PLANTED)[:6] not in str(error.value)
    assert error.value.__cause__ is None and error.value.__context__ is None


def test_a_collection_that_cannot_be_computed_is_not_quoted():
    da = pytest.importorskip("dask.array")
    X, y = planted(300)

    def broken(block):
        raise ArithmeticError(f"cell {PLANTED}")

    bad = da.from_array(X, chunks=100).map_blocks(broken, dtype=float, meta=X[:0])
    with pytest.raises(RuntimeError, match="could not be computed") as error:
        descent().fit(bad, da.from_array(y, chunks=100))
    assert repr(PLANTED)[:6] not in str(error.value)
    assert error.value.__cause__ is None and error.value.__context__ is None


def test_nothing_of_dask_is_imported_without_need():
    script = (
        "import sys, fairpriv_sklearn.distributed, fairpriv_sklearn.linear_model\n"
        "names = {name.split('.')[0] for name in sys.modules}\n"
        "assert not names & {'dask', 'distributed'}, names"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


# --- estimators and the journal -------------------------------------------------------


def test_estimators_that_cannot_be_resumed_say_so_before_they_spend(tmp_path):
    from fairpriv_sklearn.postprocessing import DP2DPClassifier

    ledger = PrivacyLedger(10.0, 1e-4)
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(size=(60, 2)), rng.integers(2, size=60)
    base = DPWassersteinLogisticRegression(
        fairness_weight=0, bounds=(0, 1), classes=[0, 1]
    )
    given = {"classes": [0, 1], "ledger": ledger}
    repair = DP2DPClassifier(base, groups=[0, 1], **given)
    search = DPGridSearchCV(base, {"C": [0.1, 1.0]}, **given)
    for fit in (
        lambda: repair.fit(X, groups, sensitive_features=groups),
        lambda: search.fit(X, groups),
        lambda: dp_cross_validate(base, X, groups, **given),
    ):
        with pytest.raises(ValueError, match="cannot be resumed"):
            with resume(tmp_path / "j"):
                fit()
    assert ledger.spends() == []


def test_public_directions_are_the_same_after_a_restart(tmp_path):
    """Multi-class, with secure noise: what was drawn for released gradients stays."""
    rng = np.random.default_rng(0)
    X, y, groups = (
        rng.uniform(size=(900, 2)),  # with few rows only the classes are counted
        np.arange(900) % 3,
        rng.integers(2, size=900),
    )
    model = DPWassersteinLogisticRegression(
        max_iter=3, n_projections=2, bounds=(0, 1), classes=[0, 1, 2], groups=[0, 1]
    )
    entries = []
    for alive in (1, 3):
        steps = []

        def step(progress, alive=alive, steps=steps):
            steps.append(None)
            if len(steps) > alive - 1:
                raise Death

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fairpriv_sklearn._training._progress.Progress.step", step)
            with pytest.raises(Death), resume(tmp_path / "journal"):
                model.fit(X, y, sensitive_features=groups)
        lines = (tmp_path / "journal").read_text().splitlines()
        entries.append([json.loads(line) for line in lines])
    assert [one["entry"] for one in entries[0]].count("public") == 1
    assert entries[1][: len(entries[0])] == entries[0]
    assert len(entries[1]) > len(entries[0])


GENERATORS = {
    "semidual": (DPSinkhornGenerator, {"n_points": 2, "max_iter": 3}),
    "pairs": (DPSinkhornGenerator, {"method": "pairs"}),
    "network": (DPSinkhornGenerator, {"method": "network", "max_iter": 4}),
    "histogram": (DPSlicedWassersteinGenerator, {"n_flow_steps": 2}),
    "gradient": (DPSlicedWassersteinGenerator, {"method": "gradient", "max_iter": 4}),
}


def numbers_of(value):
    """All fitted numbers of a generator."""
    if isinstance(value, np.ndarray | float | int):
        return [np.asarray(value).tolist()]
    inside = getattr(value, "__dict__", value if isinstance(value, dict) else {})
    names = inside if isinstance(inside, dict) else ()
    kept = [inside[n] for n in names if n not in ("random_state", "_sampling_seed")]
    kept += value if isinstance(value, list | tuple) else []
    return [n for one in kept for n in numbers_of(one)]


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_goes_on_after_its_death(tmp_path, name):
    """With a seed to the bits of a fit without deaths; else by what is recorded."""
    kind, params = GENERATORS[name]
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(400, 3)), np.arange(400) % 2
    if name == "table":
        X = np.column_stack(
            [np.array(list("abc"))[np.arange(400) % 3], X.astype(object)]
        )
    public = {"bounds": (0, 1)} if name != "pairs" else {}
    ledger = PrivacyLedger(100.0, 1e-2)

    def fit(seed=None, dies_at=None):
        releases, release = [], PrivacyFilter.release
        model = kind(
            epsilon=3.0, classes=[0, 1], ledger=ledger, random_state=seed,
            **public, **params,
        )  # fmt: skip

        def mortal(wall, *args, **kwargs):
            if len(releases) == dies_at:
                raise Death
            releases.append(None)
            return release(wall, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PrivacyFilter, "release", mortal)
            if dies_at == "end":
                patch.setattr(PrivacyFilter, "guarantee", raises_interrupt)
            model.fit(X, y)
        return model, len(releases)

    def dies(path, *args):
        with pytest.raises(Death), resume(path):
            fit(*args)

    whole, n_releases = fit(0)
    for dies_at in (0, n_releases // 2, n_releases - 1):
        dies(tmp_path / "seeded", 0, dies_at)
    with resume(tmp_path / "seeded"):
        again, _ = fit(0)
    assert len(ledger.spends()) == 2
    assert numbers_of(again.__dict__) == numbers_of(whole.__dict__)
    assert_array_equal(again.sample(9)[0], whole.sample(9)[0])

    # Released values come from the journal, directions and starting points as well.
    dies(tmp_path / "one", None, n_releases - 1)
    dies(tmp_path / "one", None, "end")
    for end in ("", ".key"):
        shutil.copy(f"{tmp_path / 'one'}{end}", f"{tmp_path / 'two'}{end}")
    found = []
    for path in (tmp_path / "one", tmp_path / "two"):
        with resume(path):
            found.append(numbers_of(fit()[0].__dict__))
    assert found[0] == found[1] != numbers_of(whole.__dict__)
    assert len(ledger.spends()) == 3


def raises_interrupt(*args):
    raise Death
