"""Per-record computations whose result depends on the record alone.

The privacy proofs assume that an unchanged record contributes the same number to
both neighbouring tables. A plain ``X @ w`` breaks this in floating point: the
linear-algebra library may sum a row in another order when the row stands elsewhere
or has other neighbours. Everything private that multiplies rows goes through here.
"""

import math
import numbers
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b, shake_256

import numpy as np
from scipy import sparse

from .arrays import row_slices
from .domain import finite_sparse

# Every product has this many rows, whatever the table: the kernel chosen by the
# linear-algebra library, and hence the order of summation, is then the same for
# every row. 256 is a multiple of all kernel heights in use.
BLOCK_ROWS = 256
GOLDEN = (5**0.5 - 1) / 2

# Rows hashed at a time, and cells of a block: buffers that stay in the cache.
_HASH_ROWS = 1 << 12
_HASH_CELLS = 1 << 16


def padded_blocks(X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield ``(rows, block)``: C-contiguous blocks of exactly 256 rows.

    The last block is padded with zero rows; ``rows`` says which rows of `X` its
    first rows are. A block is there until the next one: its memory is used again.
    """
    buffer = None
    # Unaligned or strided blocks may take another kernel: copy those. 256 rows of any
    # width end where 64 bytes do, so that blocks are aligned if the table is.
    is_ready = X.flags.c_contiguous and X.ctypes.data % 64 == 0
    for rows in row_slices(X.shape[0], BLOCK_ROWS):
        block = X[rows]
        n_block = block.shape[0]
        if n_block < BLOCK_ROWS or not is_ready:
            if buffer is None:
                buffer = _aligned_zeros((BLOCK_ROWS, X.shape[1]), X.dtype)
            buffer[:n_block], buffer[n_block:] = block, 0
            block = buffer
        yield rows, block


def row_scores(X, W: np.ndarray) -> np.ndarray:
    """Multiply `X` by `W`, each row bitwise independent of all the others.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        float64 or float32. Sparse input is read as CSR, where a row's sum runs over
        its own entries only.
    W : ndarray of shape (n_features,) or (n_features, n_outputs)

    Returns
    -------
    scores : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Not bitwise equal to ``X @ W``; equal to rounding.
    """
    W = np.ascontiguousarray(W, dtype=X.dtype)
    if sparse.issparse(X):
        # Sums run in storage order: a canonical order makes them a function of the
        # record and not of how its entries were stored.
        return np.asarray(finite_sparse(X) @ W)
    scores = np.empty((X.shape[0], *W.shape[1:]), dtype=X.dtype)
    for rows, block in padded_blocks(X):
        scores[rows] = (block @ W)[: rows.stop - rows.start]
    return scores


def row_softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, each row bitwise independent of the others.

    Element-wise operations and one reduction per row over a contiguous axis; a
    strided array may be sent through other vector kernels, hence the copy.
    """
    logits = np.ascontiguousarray(logits)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


class RowDraws:
    """One draw from [0, 1) per row, a keyed function of the row and its group.

    Nobody who lacks the key can tell the draws from random ones: a row is folded into
    64 bits by a secret universal hash [1]_, and these, with the group code, go through
    SipHash-2-4 [2]_, a pseudorandom function. Equal rows get equal draws, whatever
    holds them. Rows come block by block.

    Parameters
    ----------
    key : bytes
        Secret key.

    References
    ----------
    .. [1] D. Lemire, O. Kaser, "Strongly Universal String Hashing is Fast", The
       Computer Journal 57, 2014.
    .. [2] J.-P. Aumasson, D. J. Bernstein, "SipHash: A Fast Short-Input PRF",
       INDOCRYPT, 2012.
    """

    def __init__(self, key: bytes):
        self._key = key
        self._digests: list = []

    def add(self, X, codes: np.ndarray) -> None:
        """Read one more block of rows."""
        self._digests.append(_row_digests(X, codes, self._key))

    def uniforms(self, *, spread: bool) -> np.ndarray:
        """Draws of all rows read so far, once: the blocks are forgotten.

        With `spread` k identical rows share the unit interval almost evenly
        (golden-ratio sequence), so that an atom of the data is split as a randomised
        rule asks. A row's draw then depends on the rows before it: never where a
        private fit sees the answers.
        """
        digests = np.concatenate([np.empty(0, dtype=np.uint64), *self._digests])
        self._digests.clear()
        twins = _earlier_twins(digests) if spread else None
        # 53 bits: the sum below stays exact up to rounding and never reaches 1.
        digests >>= np.uint64(11)
        u = digests * 2.0**-53
        return u if twins is None else (u + twins * GOLDEN) % 1.0


def _row_digests(X, codes: np.ndarray, key: bytes) -> np.ndarray:
    """One keyed hash of 64 bits per row and group."""
    codes = np.ascontiguousarray(codes, dtype=np.int64).view(np.uint64)
    siphash_key, folding_keys = _expanded_keys(key, np.shape(X)[1])
    digests = np.empty(codes.size, dtype=np.uint64)
    for rows, words in _row_words(X):
        digests[rows] = _fold(words, folding_keys)
    for rows in row_slices(codes.size, _HASH_ROWS):
        digests[rows] = siphash(siphash_key, [digests[rows], codes[rows]])
    return digests


def siphash(key: np.ndarray, words: list[np.ndarray]) -> np.ndarray:
    """SipHash-2-4 of messages of whole 64-bit words, for many messages at once.

    Parameters
    ----------
    key : ndarray of shape (2,), uint64
    words : list of ndarray of shape (n,), uint64
        Word by word, of every message.

    Returns
    -------
    digests : ndarray of shape (n,), uint64
    """
    n = words[0].size
    constants = np.frombuffer(b"somepseudorandomlygeneratedbytes", dtype=">u8")
    state = [np.full(n, one, dtype=np.uint64) for one in constants ^ np.tile(key, 2)]
    spare = np.empty(n, dtype=np.uint64)
    length = np.uint64((8 * len(words) % 256) << 56)
    for word in [*words, length]:
        state[3] ^= word
        _sip_rounds(state, spare, 2)
        state[0] ^= word
    state[2] ^= np.uint64(0xFF)
    _sip_rounds(state, spare, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _sip_rounds(state: list[np.ndarray], spare: np.ndarray, n_rounds: int) -> None:
    a, b, c, d = state
    for _ in range(n_rounds):
        _mix(a, b, 13, spare)
        _rotate(a, 32, spare)
        _mix(c, d, 16, spare)
        _mix(a, d, 21, spare)
        _mix(c, b, 17, spare)
        _rotate(c, 32, spare)


def _mix(x, y, n_bits: int, spare) -> None:
    x += y
    _rotate(y, n_bits, spare)
    y ^= x


def _rotate(x, n_bits: int, spare) -> None:
    np.right_shift(x, np.uint64(64 - n_bits), out=spare)
    np.left_shift(x, np.uint64(n_bits), out=x)
    x |= spare


def _expanded_keys(key: bytes, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the key of SipHash and keys of shape (2, 2 n_words) that fold a row."""
    n_bytes = 16 + 32 * n_words
    words = np.frombuffer(shake_256(key).digest(n_bytes), dtype="<u8")
    return words[:2].astype(np.uint64), words[2:].astype(np.uint64).reshape(2, -1)


def _fold(words: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Fold rows of 64-bit words into one: twice the upper half of sum(key * half).

    The halves of 32 bits make the sum modulo 2**64 almost universal: two different
    rows meet with probability 2**-64, over the keys.
    """
    # uint32 views of little-endian words, so that every machine folds alike.
    halves = words.astype("<u8", copy=False).view("<u4").astype(np.uint64)
    upper = np.einsum("ij,j->i", halves, keys[0]) >> np.uint64(32)
    lower = np.einsum("ij,j->i", halves, keys[1]) >> np.uint64(32)
    return (upper << np.uint64(32)) | lower


def _row_words(X) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield blocks of rows as 64-bit words, equal for equal rows in any container."""
    if sparse.issparse(X):
        X = X.tocsr()
    elif not isinstance(X, np.ndarray):
        X = _Columns(X) if _is_mixed_frame(X) else np.asarray(X)
    height = max(1, _HASH_CELLS // max(1, X.shape[1]))
    for rows in row_slices(X.shape[0], height):
        block = X[rows]
        if sparse.issparse(block):
            block = block.toarray()
        words = block if isinstance(X, _Columns) else _cell_words(block)
        yield rows, np.ascontiguousarray(words)


def _is_mixed_frame(X) -> bool:
    """Whether X is a pandas frame whose columns are better read one by one."""
    return hasattr(X, "iloc") and any(dtype.kind not in "buif" for dtype in X.dtypes)


class _Columns:
    """A pandas frame as blocks of words."""

    def __init__(self, X):
        self.shape = X.shape
        self._columns = [np.asarray(X.iloc[:, j]) for j in range(X.shape[1])]

    def __getitem__(self, rows):
        return np.stack([_cell_words(column[rows]) for column in self._columns], axis=1)


def _cell_words(cells: np.ndarray) -> np.ndarray:
    """One 64-bit word per cell: numbers by value, whatever their type."""
    if cells.dtype.kind in "buif":
        # Adding zero makes a copy, and turns -0.0 into 0.0.
        numbers_ = cells.astype(np.float64) + 0.0
        numbers_[np.isnan(numbers_)] = np.nan
        return numbers_.view(np.uint64)
    if cells.dtype.kind in "mM":  # whatever its unit
        cells = cells.astype(f"{cells.dtype.kind}8[us]").astype(object)
    words: dict = {}
    out = np.empty(cells.size, dtype=np.uint64)
    for i, cell in enumerate(cells.ravel().tolist()):
        if type(cell) not in (str, float, int):
            out[i] = _cell_word(cell)
            continue
        kind = type(cell), cell
        if kind not in words:
            words[kind] = _cell_word(cell)
        out[i] = words[kind]
    return out.reshape(cells.shape)


def _cell_word(cell) -> int:
    """Word of one cell that comes as an object: numbers as above, the rest by text.

    Libraries have classes of their own for dates, text and what is missing.
    """
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        cell = math.nan
    if isinstance(cell, numbers.Real | Decimal | np.bool_):
        try:
            return int(_cell_words(np.array([float(cell)]))[0])
        except (OverflowError, TypeError, ValueError):
            pass  # an integer beyond all floats, a decimal's NaN that signals
    if isinstance(cell, date):
        cell = cell if isinstance(cell, datetime) else datetime.combine(cell, time())
        cell = cell.isoformat()
    elif isinstance(cell, timedelta):
        cell = f"{cell / timedelta(microseconds=1)} microseconds"
    kind = "str" if isinstance(cell, str) else type(cell).__name__
    text = f"{kind} {str(cell) if kind == 'str' else cell!r}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def _earlier_twins(digests: np.ndarray) -> np.ndarray | None:
    """Count, for every entry, the equal ones before it; None if there are none."""
    ordered = np.sort(digests)  # several times as fast as an argsort
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not repeated.size:
        return None
    twins = np.zeros(digests.size)
    rows = np.arange(digests.size)
    if 4 * repeated.size < digests.size:
        rows = np.flatnonzero(np.isin(digests, repeated))
    order = rows[np.argsort(digests[rows], kind="stable")]
    ordered, position = digests[order], np.arange(rows.size)
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    twins[order] = position - np.maximum.accumulate(np.where(is_first, position, 0))
    return twins


def _aligned_zeros(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """Zeros that start at a multiple of 64 bytes, as vector kernels prefer."""
    dtype = np.dtype(dtype)
    n_bytes = shape[0] * shape[1] * dtype.itemsize
    raw = np.zeros(n_bytes + 64, dtype=np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset : offset + n_bytes].view(dtype).reshape(shape)
