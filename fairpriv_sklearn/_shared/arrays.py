"""Cutting vectors into arrays, and counting in tables."""

import math

import numpy as np


def pieces(vector: np.ndarray, *shapes: tuple) -> list[np.ndarray]:
    """Cut a vector into arrays of these shapes; a rest at its end is left out."""
    parts = np.split(vector, np.cumsum([math.prod(shape) for shape in shapes]))
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)]


def count_cells(shape: tuple, *places) -> np.ndarray:
    """How often each cell of a table is named by its places along the axes."""
    cells = np.ravel_multi_index(places, shape)
    return np.bincount(cells.ravel(), minlength=math.prod(shape)).reshape(shape)
