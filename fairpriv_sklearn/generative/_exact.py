r"""Integers that records contribute, and sums of them that are exact.

Every record contributes integers, a pure function of the record. Products of two
integers of ``CODE_BITS`` bits, summed over a block of records, stay below
:math:`2^{53}`: each partial sum is an exact double, whatever order and blocks the
linear-algebra library picks. Sums of blocks are whole numbers of 64 bits, and
neighbouring tables differ by one record's term and by nothing else.
"""

import numpy as np

from .._shared.arrays import row_slices

CODE_BITS = 15
UNIT = float(2**CODE_BITS)  # the clip radius, or a probability of one, in code units
_ENTRIES = 1 << 13  # of rows that are coded together
MAX_RECORDS = 2**30  # products of two codes then add up to 2**60 at most

# A sum rounds as it becomes a double, and twice by a factor: by 2**-53 of itself each
# time. As a vector it is no longer than sqrt(2) MAX_RECORDS, so that two tables move by
# 6 sqrt(2) 2**-23, less than 2e-6 of the sensitivity.
ROUNDING = 1 + 2e-6


def encode_rows(V: np.ndarray, clip_norm: float) -> np.ndarray:
    """Clip every row to ``clip_norm`` and code it by integers, ``clip_norm`` = UNIT.

    A row with an entry that is not finite counts as zero. Truncation towards zero
    never makes a row longer.
    """
    coded = np.empty(V.shape)
    # Few rows at a time: what is made of them in between stays in the cache.
    n_rows = max(1, _ENTRIES // max(1, V.shape[1]))
    for rows in row_slices(len(V), n_rows):
        coded[rows] = _encoded(V[rows], clip_norm)
    return coded


def _encoded(V: np.ndarray, clip_norm: float) -> np.ndarray:
    # C order: one reduction per row over contiguous numbers, the same for every row
    V = np.ascontiguousarray(V) / clip_norm
    V[~np.isfinite(V).all(axis=1)] = 0.0
    # dividing by the largest entry first: squares must not overflow
    top = np.maximum(np.abs(V).max(axis=1, keepdims=True), 1.0)
    norms = top * np.sqrt(np.square(V / top).sum(axis=1, keepdims=True))
    # the factor keeps rounded norms inside the ball
    V *= (1 - 2.0**-40) / np.maximum(norms, 1.0)
    V *= UNIT
    return np.trunc(V, out=V)


def encode_probabilities(P: np.ndarray) -> np.ndarray:
    """Code probabilities by integers, rounded down; their 2-norm is at most UNIT.

    What is not a number, of points that overflowed, is 0.
    """
    return np.floor(np.fmax(P, 0.0) * UNIT)


def class_sums(codes: np.ndarray, coded: np.ndarray, n_classes: int) -> np.ndarray:
    """Sums of integer rows (n, m) per class, (n_classes, m) int64."""
    members = np.zeros((len(codes), n_classes))
    members[np.arange(len(codes)), codes] = 1
    return (members.T @ coded).astype(np.int64)
