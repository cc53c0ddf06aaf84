"""Cutting tables and vectors, triangles, counts, and the nearest distribution."""

import math
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def row_slices(n_rows: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` rows that cover a table."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def pieces(vector: np.ndarray, *shapes: tuple) -> list[np.ndarray]:
    """Cut a vector into arrays of these shapes; a rest at its end is left out."""
    parts = np.split(vector, np.cumsum([math.prod(shape) for shape in shapes]))
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)]


def count_cells(shape: tuple, *places) -> np.ndarray:
    """How often each cell of a table is named by its places along the axes."""
    cells = np.ravel_multi_index(places, shape)
    return np.bincount(cells.ravel(), minlength=math.prod(shape)).reshape(shape)


def stretch_triangle(matrices: np.ndarray) -> np.ndarray:
    """Upper triangles of symmetric matrices (..., k, k), off-diagonal times sqrt(2).

    An isometric image of the matrices for the Frobenius norm.
    """
    rows, columns, stretch = _triangle(matrices.shape[-1])
    return matrices[..., rows, columns] * stretch


def unstretch_triangle(values: np.ndarray, k: int) -> np.ndarray:
    """The symmetric matrices (..., k, k) of stretched triangles."""
    rows, columns, stretch = _triangle(k)
    matrices = np.empty((*values.shape[:-1], k, k))
    matrices[..., rows, columns] = matrices[..., columns, rows] = values / stretch
    return matrices


def _triangle(k):
    rows, columns = np.triu_indices(k)
    return rows, columns, np.where(rows == columns, 1.0, 2**0.5)


def is_text_column(column) -> bool:
    """Whether pandas knows that a column holds text and missing values only.

    Its `factorize` then gives the position of each in distinct texts, -1 if missing.
    """
    kind = getattr(getattr(column, "dtype", None), "type", None)
    return kind is str and hasattr(column, "factorize")


def objects_of(column):
    """Cells of a column as objects of Python; None for one that it has no value for.

    A library raises there, and quotes it: a date of the year 10000, text that is no
    UTF-8.
    """
    try:
        if hasattr(column, "iloc"):
            return column.to_numpy(dtype=object)
        for name in ("to_pylist", "to_list"):
            if hasattr(column, name):
                return getattr(column, name)()
        return column.astype(object) if column.dtype.kind in "OSU" else list(column)
    except Exception:
        return [_object_at(column, i) for i in range(len(column))]


def _object_at(column, i):
    try:
        cell = getattr(column, "iloc", column)[i]
        return cell.as_py() if hasattr(cell, "as_py") else cell
    except Exception:
        return None


def array_of_lists(lists) -> np.ndarray:
    """An array of lists of numbers; of other cells, one of these as they are.

    By itself NumPy makes all of one kind, which a single cell decides: text has no zero
    at its end, and a complex number none of its value, but beside None they have.
    """
    cells = np.asarray(lists, dtype=object)
    with suppress(ValueError):  # bytes that are no text
        numbers = np.asarray(lists)
        if numbers.dtype.kind in "biuf":
            return numbers
    return cells


def project_simplex(values, total: float = 1.0) -> np.ndarray:
    """Return the nearest numbers, not negative and of this sum along the last axis.

    Equivalently: all are lowered by one number, and negative ones are zero. Of noisy
    counts, empty cells lose their noise by a threshold that the noise itself sets.

    Parameters
    ----------
    values : array-like of shape (..., m)
    total : float, default=1.0
        Range: (0, inf).

    Examples
    --------
    >>> from fairpriv_sklearn._shared.arrays import project_simplex
    >>> project_simplex([8.0, 5.0, -1.0], 10.0).tolist()
    [6.5, 3.5, 0.0]
    """
    values = np.asarray(values, dtype=np.float64)
    falling = -np.sort(-values, axis=-1)
    sums = np.cumsum(falling, axis=-1)
    # Lowering by this keeps the largest 1, 2, ...: the right one is the largest.
    excess = (sums - total) / np.arange(1, values.shape[-1] + 1)
    return np.maximum(values - excess.max(axis=-1, keepdims=True), 0.0)
