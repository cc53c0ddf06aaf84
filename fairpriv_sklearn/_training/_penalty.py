"""The Wasserstein penalty between groups, and what one record can change.

References
----------
.. [1] D. Rodriguez-Vitores, C. Lalanne, J.-M. Loubes. "Learning with Differentially
   Private (Sliced) Wasserstein Gradients". arXiv:2502.01701, 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fairpriv_sklearn.transport import (
    RESOLUTION,
    quantise,
    wasserstein_1d,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Rounding of the sums, relative to the sensitivity: at most n 2**-39 for the two-digit
# coefficients of the penalty, so this covers tables of up to 5e7 records.
ROUNDING = 1e-4


@dataclass(frozen=True)
class WassersteinPenalty:
    r"""Mean over labels and pairs of groups of the squared 2-Wasserstein distance.

    A group with fewer records than its public floor is filled up with dummy records
    at the midpoint of the range, which have no gradient: the sensitivity then holds
    for every table, empty groups included.

    Attributes
    ----------
    groups : ndarray of shape (n_records,), int64
    cells : ndarray of shape (n_records,), int64
        Label inside which a record's group is compared; all zero for parity.
    floors : ndarray of shape (n_labels, n_groups), int64
        At least 1.
    directions : ndarray of shape (n_outputs, n_directions) or None
        On a grid of 2**-20, of range at most 1: outputs are projected on these. None
        for one output in [0, 1].
    """

    groups: Integers
    cells: Integers
    floors: Integers
    directions: Floats | None = None

    def value_and_coefficients(self, probabilities: Floats, *, exact: bool = True):
        """Penalty and its derivative with respect to the scores of each record.

        Parameters
        ----------
        probabilities : ndarray of shape (n_records,) or (n_records, n_outputs)
            Logistic or softmax of the scores.
        exact : bool, default=True
            Whether to round outputs to a grid, on which sums over records are exact.

        Returns
        -------
        value : float
        coefficients : ndarray of the same shape
        """
        p = probabilities
        if self.directions is None:
            value, slopes = self.slopes(p, 0.0, 1.0, exact)
            return value, slopes * p * (1 - p)
        # On the grid the projections are exact: functions of the record alone.
        outputs = np.trunc(p * RESOLUTION) / RESOLUTION if exact else p
        projected = outputs @ self.directions
        slopes = np.empty_like(projected)
        values = np.empty(self.directions.shape[1])
        for k, direction in enumerate(self.directions.T):
            values[k], slopes[:, k] = self.slopes(
                projected[:, k], direction.min(), direction.max(), exact
            )
        pulls = slopes @ self.directions.T / len(values)
        coefficients = p * (pulls - (p * pulls).sum(axis=1, keepdims=True))
        return values.mean(), coefficients

    def slopes(self, outputs: Floats, low: float, high: float, exact: bool):
        """Penalty and its derivative with respect to one-dimensional outputs."""
        if exact:
            outputs, middle = quantise(outputs, low, high), RESOLUTION // 2
            unit = (high - low) / RESOLUTION
        else:
            middle, unit = (low + high) / 2, 1.0
        slopes, value = np.zeros(len(outputs)), 0.0
        n_labels, n_groups = self.floors.shape
        n_pairs = n_labels * n_groups * (n_groups - 1) / 2
        for cells in self._padded_cells:
            samples = [
                np.concatenate([outputs[rows], np.full(n_dummies, middle)])
                for rows, n_dummies in cells
            ]
            for a, b in combinations(range(n_groups), 2):
                distance, *gradients = wasserstein_1d(
                    samples[a], samples[b], return_gradient=True
                )
                value += distance
                for cell, gradient in zip((a, b), gradients, strict=True):
                    rows, _ = cells[cell]
                    slopes[rows] += gradient[: len(rows)]
        return value * unit**2 / n_pairs, slopes * (unit / n_pairs)

    @cached_property
    def _padded_cells(self) -> list[list[tuple[Integers, int]]]:
        """For each label and group the rows, and how many dummies they need."""
        n_labels, n_groups = self.floors.shape
        cell = self.cells * n_groups + self.groups
        by_cell = np.argsort(cell, kind="stable")
        ends = np.cumsum(np.bincount(cell, minlength=self.floors.size))[:-1]
        rows = np.split(by_cell, ends)
        padded = [
            (own, max(0, int(floor) - len(own)))
            for own, floor in zip(rows, self.floors.ravel(), strict=True)
        ]
        return [padded[k : k + n_groups] for k in range(0, len(padded), n_groups)]


def unit_range_directions(normals: Floats) -> Floats:
    """Directions for probability vectors, from standard normal draws.

    Parameters
    ----------
    normals : ndarray of shape (n_outputs, n_directions)

    Returns
    -------
    directions : ndarray of the same shape
        Centred, as the constant direction sees no difference between probability
        vectors, and of range 1, on a grid of 2**-20.
    """
    centred = normals - normals.mean(axis=0)
    centred /= np.ptp(centred, axis=0)
    # Towards zero: the range stays at most 1.
    return np.trunc(centred * RESOLUTION) / RESOLUTION


def gradient_sensitivity(
    *,
    row_norm: float,
    fairness_weight: float,
    n_records: float,
    floors: Integers,
    neighboring: str,
    n_outputs: int = 1,
) -> float:
    r"""Euclidean sensitivity of the gradient of loss and penalty.

    With R the norm of a row, C = R for the logistic and :math:`\sqrt2 R` for the
    softmax loss, alpha the fairness weight, S groups and m the floors, a record of
    cell c can change the penalty's gradient by at most :math:`b_c = \frac2S \alpha C /
    (n_{labels} m_c)`.

    Parameters
    ----------
    row_norm : float
    fairness_weight : float
        alpha, in [0, 1].
    n_records : float
        What the sum of the losses is divided by.
    floors : ndarray of shape (n_labels, n_groups)
        Records, or dummies, at least in each cell.
    neighboring : {"replace_one", "add_remove", "replace_one_in_group"}
    n_outputs : int, default=1
        1 for the logistic model, the number of classes for softmax.

    Returns
    -------
    sensitivity : float
    """
    bound = row_norm if n_outputs == 1 else np.sqrt(2) * row_norm
    loss = (1 - fairness_weight) * bound / n_records
    pull = fairness_weight * 2 / floors.shape[1] * bound
    loss, left, entered = record_changes(loss, pull, floors, neighboring)
    return float(loss + left + entered) * (1 + ROUNDING)


def record_changes(
    loss: float, pull: float, floors: Integers, neighboring: str
) -> tuple[float, float, float]:
    """Largest change by one record: in the loss, the cell it left and its new one.

    Parameters
    ----------
    loss : float
        Bound of one record's share of the loss.
    pull : float
        Bound of a record's share of the penalty, times n_labels and its cell's floor.
    floors : ndarray of shape (n_labels, n_groups)
    neighboring : {"replace_one", "add_remove", "replace_one_in_group"}
    """
    cells = np.sort(pull / (len(floors) * floors.ravel()))[::-1]
    if neighboring == "add_remove":
        return loss, cells[0], 0.0
    return 2 * loss, cells[0], cells[1] if neighboring == "replace_one" else 0.0
