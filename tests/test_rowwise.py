"""A record's scores may not depend on what stands around it, to the last bit."""

import datetime
import hashlib
import math
from collections import deque
from decimal import Decimal
from functools import partial
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from scipy.special import softmax as scipy_softmax
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpriv_sklearn._shared.purity import pure_clone, spreads
from fairpriv_sklearn._shared.rowwise import (
    BLOCK_ROWS,
    GOLDEN,
    RowDraws,
    padded_blocks,
    row_scores,
    row_softmax,
    siphash,
)
from fairpriv_sklearn.postprocessing import DPBarycenterTransformer


def layouts(X):
    """The same table in memory layouts that take different paths in BLAS."""
    shifted = np.zeros(X.size + 1, dtype=X.dtype)
    shifted[1:] = X.ravel()
    wide = np.zeros((X.shape[0], 2 * X.shape[1]), dtype=X.dtype)
    wide[:, ::2] = X
    yield np.ascontiguousarray(X)
    yield np.asfortranarray(X)
    yield shifted[1:].reshape(X.shape)
    yield wide[:, ::2]
    yield X[::-1].copy()[::-1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [1, 2, 7, 33, 108, 257])
@pytest.mark.parametrize("n_outputs", [None, 1, 2, 6])
def test_row_is_bitwise_the_same_everywhere(dtype, n_features, n_outputs):
    rng = np.random.default_rng(0)
    record = rng.normal(size=n_features).astype(dtype)
    shape = (n_features,) if n_outputs is None else (n_features, n_outputs)
    W = rng.normal(size=shape)
    alone = row_scores(record[None], W)[0]
    for n_rows in (2, 3, 255, 256, 257, 700):
        X = rng.normal(size=(n_rows, n_features)).astype(dtype)
        for position in {0, 1, n_rows // 2, n_rows - 1}:
            X[position] = record
            for table in layouts(X):
                assert_array_equal(row_scores(table, W)[position], alone)


def test_plain_product_would_fail_the_test_above():
    """The reason for the helper: an ordinary product is not row-pure."""
    rng = np.random.default_rng(0)
    differs = 0
    for n_features in range(3, 120, 4):
        X, w = rng.normal(size=(300, n_features)), rng.normal(size=n_features)
        full = X @ w
        differs += any((X[i : i + 1] @ w)[0] != full[i] for i in range(300))
    if not differs:
        pytest.skip("this linear-algebra library happens to be row-pure")
    assert differs > 0


@pytest.mark.parametrize("n_rows", [0, 1, 255, 256, 257, 1000])
def test_equals_product_to_rounding(n_rows):
    rng = np.random.default_rng(1)
    X, W = rng.normal(size=(n_rows, 5)), rng.normal(size=(5, 3))
    assert_allclose(row_scores(X, W), X @ W, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "make", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array]
)
def test_sparse_rows_are_pure(make):
    rng = np.random.default_rng(2)
    X = sparse.random(300, 40, density=0.2, random_state=0).toarray()
    w = rng.normal(size=40)
    scores = row_scores(make(X), w)
    assert_allclose(scores, X @ w, rtol=1e-12, atol=1e-14)
    permutation = rng.permutation(300)
    assert_array_equal(row_scores(make(X[permutation]), w), scores[permutation])


def test_sparse_storage_order_does_not_matter():
    data, columns = np.array([0.1, 0.7, 1e17, -1e17]), np.array([0, 1, 2, 3])
    w = np.array([1.0, 3.0, 1.0, 1.0])
    sums = set()
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 0, 3, 1]):
        X = sparse.csr_matrix((data[order], columns[order], [0, 4]), shape=(1, 4))
        sums.add(float(row_scores(X, w)[0]))
    assert len(sums) == 1


def test_blocks_have_one_shape_and_cover_the_table():
    X = np.arange(601.0)[1:].reshape(300, 2)  # not aligned: blocks are copies
    blocks = [(rows, block.copy()) for rows, block in padded_blocks(X)]
    assert [block.shape for _, block in blocks] == [(BLOCK_ROWS, 2)] * 2
    assert_array_equal(
        np.vstack([block[: rows.stop - rows.start] for rows, block in blocks]), X
    )
    assert not blocks[1][1][44:].any()


@settings(max_examples=50)
@given(st.integers(1, 40), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_softmax_rows_are_pure(n_rows, n_classes, seed):
    logits = np.random.default_rng(seed).normal(scale=5, size=(n_rows, n_classes))
    probabilities = row_softmax(logits)
    assert_allclose(probabilities, scipy_softmax(logits, axis=1), rtol=1e-13)
    assert_array_equal(row_softmax(np.asfortranarray(logits)), probabilities)
    for i in range(n_rows):
        assert_array_equal(row_softmax(logits[i : i + 1])[0], probabilities[i])


# --- Keyed draws ----------------------------------------------------------------------

KEY = bytes(range(32))


def row_uniforms(X, codes, key, *, spread=False):
    """The draws of rows that come in one block."""
    draws = RowDraws(key)
    draws.add(X, codes)
    return draws.uniforms(spread=spread)


MASK = 2**64 - 1


def plain_siphash(key, words):
    """SipHash-2-4 of whole words, one Python integer at a time."""

    def rotate(x, n):
        return ((x << n) | (x >> (64 - n))) & MASK

    def sip_round(v):
        a, b, c, d = v
        a = (a + b) & MASK
        b = rotate(b, 13) ^ a
        a = rotate(a, 32)
        c = (c + d) & MASK
        d = rotate(d, 16) ^ c
        a = (a + d) & MASK
        d = rotate(d, 21) ^ a
        c = (c + b) & MASK
        b = rotate(b, 17) ^ c
        return a, b, rotate(c, 32), d

    letters = b"somepseudorandomlygeneratedbytes"
    v = [
        int.from_bytes(letters[i : i + 8], "big") ^ key[i // 8 % 2]
        for i in (0, 8, 16, 24)
    ]
    for word in [*words, (8 * len(words) % 256) << 56]:
        v[3] ^= word
        v = list(sip_round(sip_round(v)))
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        v = sip_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize(
    ("n_words", "published"), [(1, 0x93F5F5799A932462), (2, 0x3F2ACC7F57C29BDB)]
)
def test_siphash_has_the_published_values(n_words, published):
    key = np.frombuffer(bytes(range(16)), dtype="<u8").astype(np.uint64)
    message = np.frombuffer(bytes(range(8 * n_words)), dtype="<u8").astype(np.uint64)
    assert int(siphash(key, [word[None] for word in message])[0]) == published


def test_draws_are_the_keyed_hash_of_the_row():
    """Against Python integers: universal hash of the halves, then SipHash."""
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(50, 3)), rng.integers(-1, 3, 50)
    keys = np.frombuffer(hashlib.shake_256(KEY).digest(16 + 32 * 3), dtype="<u8")
    keys = [int(key) for key in keys]
    for row, code, u in zip(X, codes, row_uniforms(X, codes, KEY), strict=True):
        halves = [int(half) for half in row.astype("<f8").view("<u4")]
        folded = 0
        for multipliers in (keys[2:8], keys[8:]):
            total = sum(k * h for k, h in zip(multipliers, halves, strict=True))
            folded = (folded << 32) | ((total & MASK) >> 32)
        digest = plain_siphash(keys[:2], [folded, int(code) & MASK])
        assert u == (digest >> 11) * 2.0**-53


def test_a_draw_is_a_function_of_row_and_group_alone():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, size=(5000, 2)).astype(float)
    codes = rng.integers(0, 2, 5000)
    u = row_uniforms(X, codes, KEY)
    assert len(set(u)) == 18
    order = rng.permutation(5000)
    assert_array_equal(row_uniforms(X[order], codes[order], KEY), u[order])
    for i in (0, 17, 4999):
        assert row_uniforms(X[i : i + 1], codes[i : i + 1], KEY)[0] == u[i]


def test_equal_rows_draw_alike_in_every_container():
    pd = pytest.importorskip("pandas")
    X = np.array([[0.0, 1.0, 2.5], [-0.0, 7.0, np.nan], [3.0, 0.0, 0.0]])
    codes = np.array([0, 1, 1])
    u = row_uniforms(X, codes, KEY)
    others = [
        np.asfortranarray(X),
        X.astype(np.float32),
        X.astype(object),
        sparse.csr_array(X),
        sparse.csc_matrix(X),
        pd.DataFrame(X),
        pd.DataFrame(X, dtype=object),
        X.tolist(),
    ]
    for other in others:
        assert_array_equal(row_uniforms(other, codes, KEY), u)
    integers = np.array([[1, 2], [3, 4]])
    for other in (integers.astype(bool).astype(int), integers.astype(np.uint64)):
        assert_array_equal(
            row_uniforms(other, codes[:2], KEY),
            row_uniforms(other.astype(float), codes[:2], KEY),
        )
    mixed = pd.DataFrame({"a": [1, 2, 1], "b": ["x", None, "x"], "c": [True, False, 1]})
    u = row_uniforms(mixed, np.zeros(3, int), KEY)
    assert u[0] == u[2] != u[1]
    assert_array_equal(row_uniforms(mixed.astype(object), np.zeros(3, int), KEY), u)
    assert_array_equal(row_uniforms(mixed.to_numpy(), np.zeros(3, int), KEY), u)


def test_dates_text_and_gaps_draw_alike_whoever_holds_them():
    """Each library has classes of its own for them, and dates have units."""
    pd = pytest.importorskip("pandas")
    days = ["2020-01-02", None, "1999-12-31", "2020-01-02"]
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(days),
            "town": ["x", None, "y", "x"],
            "span": pd.to_timedelta([1, None, 3, 1], unit="h"),
        }
    )
    codes = np.zeros(4, int)
    u = row_uniforms(frame, codes, KEY)
    assert u[0] == u[3] and len(set(u)) == 3
    others = [frame.astype({"day": f"datetime64[{unit}]"}) for unit in ("s", "ns")]
    others += [frame.astype({"town": kind}) for kind in ("string", "category")]
    others += [frame.astype({"span": "timedelta64[ns]"}), frame.astype(object)]
    others += [frame.convert_dtypes(), frame.to_numpy()]
    of_python = [
        [datetime.date(2020, 1, 2), np.str_("x"), datetime.timedelta(hours=1)],
        [None, math.nan, pd.NaT],
        [datetime.datetime(1999, 12, 31), "y", datetime.timedelta(hours=3)],
    ]
    others.append(np.array([*of_python, of_python[0]], dtype=object))
    for other in others:
        assert_array_equal(row_uniforms(other, codes, KEY), u)


def test_a_cell_of_a_mixed_column_is_read_alone():
    """1, 1.0 and True are equal; which one came first must not show."""
    cells = [1, 1.0, True, "1", "1.0", None, 10**400, 10**400 + 1]
    X = np.array([[cell] for cell in cells], dtype=object)
    codes = np.zeros(len(cells), int)
    u = row_uniforms(X, codes, KEY)
    assert u[0] == u[1] == u[2] and len(set(u)) == 6
    for i in range(len(cells)):
        assert row_uniforms(X[i : i + 1], codes[:1], KEY)[0] == u[i]
    assert_array_equal(row_uniforms(X[::-1], codes, KEY)[::-1], u)


@pytest.mark.parametrize(
    "cell", [Decimal("sNaN"), Decimal("NaN"), np.complex64(1), np.complex128(1 + 2j)]
)
def test_a_cell_that_is_no_number_raises_nothing_and_warns_of_nothing(cell):
    """A private score is asked of such rows when the budget is spent."""
    X = np.array([[cell, 1.0], [1.0, 1.0], [cell, 1.0]], dtype=object)
    draws = RowDraws(b"key")
    draws.add(X, np.zeros(3, dtype=int))
    u = draws.uniforms(spread=False)
    assert u[0] == u[2] != u[1]


def test_draws_are_uniform_and_another_key_or_group_draws_anew():
    X = np.arange(40_000.0)[:, None]
    codes = np.zeros(40_000, int)
    u = row_uniforms(X, codes, KEY)
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    for other in (row_uniforms(X, codes, bytes(32)), row_uniforms(X, codes - 1, KEY)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 0.02
        assert not np.any(u == other)
    # Neighbouring bits of the input leave no trace.
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.02


def test_identical_rows_spread_only_if_asked():
    X, codes = np.ones((100, 2)), np.zeros(100, int)
    assert len(set(row_uniforms(X, codes, KEY))) == 1
    u = np.sort(row_uniforms(X, codes, KEY, spread=True))
    assert np.diff(np.concatenate([u, [1 + u[0]]])).max() < 2.7 / 100
    first = row_uniforms(X, codes, KEY)[0]
    expected = (first + np.arange(100) * GOLDEN) % 1.0
    assert_array_equal(row_uniforms(X, codes, KEY, spread=True), expected)
    distinct = np.arange(100.0)[:, None]
    assert_array_equal(
        row_uniforms(distinct, codes, KEY, spread=True),
        row_uniforms(distinct, codes, KEY),
    )
    assert row_uniforms(X[:0], codes[:0], KEY, spread=True).size == 0


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


class SlottedToo(Slotted):
    def __init__(self, held):
        super().__init__(held)
        self.other = None


@pytest.mark.parametrize(
    "hold",
    [
        SimpleNamespace,
        Slotted,
        SlottedToo,
        lambda held: [{"a": (held,)}],
        lambda held: deque([held]),
        lambda held: MappingProxyType({"a": held}),
        lambda held: np.array([None, held], dtype=object),
        lambda held: partial(print, held),
        lambda held: partial(print, end=held),
        lambda held: held.get_params,
        lambda held: lambda: held,
        lambda held: lambda one=held: one,
        lambda held: lambda *, one=held: one,
    ],
)
def test_what_spreads_is_found_whatever_holds_it(hold):
    """A base that keeps a repair in an object of another kind gave a finite epsilon."""

    class Base(BaseEstimator):
        pass

    base = Base()
    for output in ("randomized", "mean"):
        held = DPBarycenterTransformer(
            bounds=(0, 1), groups=[0, 1], sensitive_features=1, output=output
        )
        base.held_ = hold(held) if hold is not SimpleNamespace else hold(held=held)
        assert spreads(FrozenEstimator(base)) == (output == "randomized")


def test_a_pure_clone_spreads_nothing_but_what_is_frozen():
    given = DPBarycenterTransformer(
        epsilon=1.0, bounds=(0, 1), n_bins=3, groups=[0, 1], sensitive_features=1
    )
    pipeline = make_pipeline(StandardScaler(), given)
    for estimator in (given, pipeline):
        assert spreads(estimator) and not spreads(pure_clone(estimator))
        assert spreads(estimator)  # the one that was given is as it was
    assert spreads(pure_clone(make_pipeline(FrozenEstimator(given))))
