"""Draws of rows under a secret key: the same however the rows are cut."""

import hashlib

import numpy as np
from numpy.typing import NDArray

_DRAW_ROWS = 1 << 16  # words that are held at once


def keyed_draws(key: bytes, n_rows: int, p: float) -> NDArray[np.bool_]:
    """Draws of so many rows under a secret key.

    A draw is True with probability `p`, rounded down to a multiple of 2**-64.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p must be in [0, 1], got {p!r}.")
    if p == 1.0:
        return np.ones(n_rows, dtype=bool)
    heads = [np.empty(0, dtype=bool)]
    threshold = np.uint64(int(p * 2**64))
    for chunk, first in enumerate(range(0, n_rows, _DRAW_ROWS)):
        words = _draw_words(key, chunk, min(n_rows - first, _DRAW_ROWS))
        heads.append(words < threshold)
    return np.concatenate(heads)


def _draw_words(key: bytes, chunk: int, n_words: int) -> NDArray[np.uint64]:
    # Of an extendable-output function a shorter output is the start of a longer one.
    stream = hashlib.shake_256(key + chunk.to_bytes(8, "little"))
    return np.frombuffer(stream.digest(8 * n_words), dtype="<u8")
