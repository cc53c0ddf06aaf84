"""Public geometry: from the columns of a table to coordinates in a public basis."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.fft import idctn

from .._shared.rowwise import padded_blocks, row_scores


def dct_basis(side: int, n_components: int) -> np.ndarray:
    """Lowest frequencies of the cosine transform of square images.

    Returns
    -------
    ndarray of shape (side * side, n_components)
        Orthonormal columns, by increasing squared frequency.
    """
    frequencies = sorted(
        (i * i + j * j, i, j) for i in range(side) for j in range(side)
    )
    basis = np.empty((side * side, n_components))
    for column, (_, i, j) in enumerate(frequencies[:n_components]):
        unit = np.zeros((side, side))
        unit[i, j] = 1
        basis[:, column] = idctn(unit, norm="ortho").ravel()
    return basis


def image_side(n_features: int) -> int | None:
    """Side of square images with this many pixels; None if there are none."""
    side = round(n_features**0.5)
    return side if side * side == n_features else None


@dataclass(frozen=True)
class UnitCube:
    """Columns with public bounds, scaled to [0, 1].

    Parameters
    ----------
    lower, upper : ndarray of shape (d,)
        Ends of the bounds; where they are equal, the column is a constant.
    basis : ndarray of shape (d, k) or None
        Orthonormal columns; None is the identity.
    centre : float
        Origin of the coordinates, the same value in every scaled column.
    """

    lower: np.ndarray
    upper: np.ndarray
    basis: np.ndarray | None
    centre: float

    @property
    def width(self) -> np.ndarray:
        """What a column is divided by: a positive number, also for a constant."""
        with np.errstate(over="ignore"):
            width = self.upper - self.lower
        return np.where((width > 0) & (width < np.inf), width, 1.0)

    @property
    def diameter(self) -> float:
        """Diameter of the cube."""
        return float(np.sqrt(len(self.lower)))

    @property
    def n_components(self) -> int:
        """Number of coordinates."""
        return len(self.lower) if self.basis is None else self.basis.shape[1]

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """Coordinates of records, each a bitwise function of the record, (n, k)."""
        Z, width = np.empty((len(X), self.n_components)), self.width
        for rows, block in padded_blocks(X):
            unit = np.clip((block - self.lower) / width, 0, 1) - self.centre
            part = unit if self.basis is None else row_scores(unit, self.basis)
            Z[rows] = part[: rows.stop - rows.start]
        return Z

    def within(self, box: Box) -> UnitCube:
        """The cube of the part of the bounds that a box is; without a basis."""
        corner = box.center - box.width / 2 + self.centre
        lower = self.lower + self.width * corner
        ends = lower, lower + self.width * box.width
        lower, upper = (np.clip(end, self.lower, self.upper) for end in ends)
        return replace(self, lower=lower, upper=upper)

    def pixels(self, Z: np.ndarray) -> np.ndarray:
        """Back from coordinates to scaled columns, not clipped, (n, d)."""
        return (Z if self.basis is None else Z @ self.basis.T) + self.centre

    def spread(self, local: np.ndarray) -> np.ndarray:
        """Back from coordinates of displacements to scaled columns, (n, d)."""
        return local if self.basis is None else local @ self.basis.T

    def variance_cap(self, centres: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Factors (J, d) that scale the spread around centres to what [0, 1] allows.

        A number in [0, 1] with mean m has variance at most m (1 - m); ``factor`` is
        the square root of the covariance in coordinates.
        """
        m = np.clip(centres, 0, 1)
        spread = np.sqrt(np.square(self.spread(factor.T)).sum(axis=0))
        return np.minimum(1, np.sqrt(m * (1 - m)) / np.maximum(spread, 1e-12))

    def restore(self, unit: np.ndarray) -> np.ndarray:
        """Scaled columns in the original units, inside the bounds."""
        X = self.lower + self.width * np.clip(unit, 0, 1)
        return np.clip(X, self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class Box:
    """Part of the unit cube about zero that coordinates are scaled to; released.

    Parameters
    ----------
    center, width : ndarray of shape (d,)
    """

    center: np.ndarray
    width: np.ndarray

    def coordinates(self, Z: np.ndarray) -> np.ndarray:
        """Coordinates in the box, which is a unit cube again; clipped to it."""
        return np.clip((Z - self.center) / self.width, -0.5, 0.5)
