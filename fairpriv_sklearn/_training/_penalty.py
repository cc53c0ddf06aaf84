"""The Wasserstein penalty between groups, and what one record can change.

References
----------
.. [1] D. Rodriguez-Vitores, C. Lalanne, J.-M. Loubes. "Learning with Differentially
   Private (Sliced) Wasserstein Gradients". arXiv:2502.01701, 2025.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .._shared.arrays import Floats, Integers
from .._shared.exact_transport import (
    MAX_CODES,
    RESOLUTION,
    SortedCodes,
    grid_codes,
    mean_transport,
    sort_codes,
    transport_of_codes,
    transport_of_samples,
)

# Rounding of the sums, relative to the sensitivity: at most n 2**-39 for the two-digit
# coefficients of the penalty, so this covers tables of up to 5e7 records.
ROUNDING = 1e-4

# From this number on groups are compared with the mean of all quantile functions, which
# is the same but for rounding, and not pair by pair.
MANY_GROUPS = 16


def most_records(n_groups: int) -> int:
    """Largest table whose rounding `ROUNDING` covers."""
    return 50_000_000 if n_groups < MANY_GROUPS else 20_000_000


@dataclass(frozen=True)
class GroupPenalty:
    r"""Distance between groups of outputs: its public numbers, and its sensitivity.

    ``"pairs"``: mean over labels and pairs of groups of the squared 2-Wasserstein
    distance. A group with fewer records than its public minimum is filled up with dummy
    records at the midpoint of the range, which have no gradient: the sensitivity then
    holds for every table, empty groups included.

    ``"barycenter"``: distances to the barycentre weighted by the shares of the groups,

    .. math:: \frac{2 S}{S - 1} \sum_{a < b} w_a w_b W_2^2(\mu_a, \mu_b)
        = \frac{2 S}{S - 1} \sum_a w_a W_2^2(\mu_a, \text{barycentre}),

    summed over labels by their shares: for equal groups the same number as the mean
    over pairs. Its sensitivity does not know the groups' sizes.

    Attributes
    ----------
    shape : tuple of int
        Number of labels compared inside, and of groups.
    form : {"pairs", "barycenter"}
    min_sizes : ndarray of shape (n_labels, n_groups), int64
        At least 1; for "pairs".
    n_records : float
        What sums over records are divided by; for "barycenter".
    directions : ndarray of shape (n_outputs, n_directions) or None
        On a grid of 2**-20: outputs are projected on these, and the penalties
        averaged. None takes every output on its own.
    """

    shape: tuple[int, int]
    form: str
    min_sizes: Integers
    n_records: float = 1.0
    directions: Floats | None = None

    @property
    def max_records(self) -> int:
        """Largest table whose rounding `ROUNDING` covers."""
        return most_records(self.shape[1])

    @property
    def _scale(self) -> float:
        n_groups = self.shape[1]
        return 2 * n_groups / max(n_groups - 1, 1)

    @property
    def largest_pull(self) -> float:
        """Bound of the derivative with respect to one output in [0, 1]."""
        if self.form == "barycenter":
            return 2 * self._scale / self.n_records
        return 4 / (self.shape[0] * self.shape[1] * self.min_sizes.min())

    def sensitivity(self, slope: float, neighboring: str) -> float:
        """Euclidean sensitivity of the gradient for outputs in [0, 1].

        Parameters
        ----------
        slope : float
            Bound L of the gradient of one output.
        neighboring : str
        """
        if self.form == "barycenter":
            return self._scale * slope / self.n_records * self._moved(neighboring)
        _, n_groups = self.shape
        pull = 2 / n_groups * 4 * slope
        return float(sum(record_changes(0.0, pull, self.min_sizes, neighboring)))

    def _moved(self, neighboring: str) -> float:
        """K: n times the l1 change of all coefficients (Theorem 4)."""
        n_labels, n_groups = self.shape
        within_two = n_groups == 2 and (n_labels == 1 or "_in_" in neighboring)
        return 4.0 if neighboring == "add_remove" or within_two else 8.0

    @property
    def n_codes(self) -> int:
        """Number of projections; 0 where every output has a code of its own."""
        return 0 if self.directions is None else self.directions.shape[1]

    def codes(self, outputs: Floats) -> NDArray[np.uint32]:
        """Outputs in [0, 1], or their projections, on the grid: (n_rows, n_codes)."""
        if self.directions is None:
            codes = np.rint(outputs * RESOLUTION).astype(np.uint32)
            return np.minimum(codes, RESOLUTION, out=codes)
        # On the grid the projections are exact: functions of the record alone.
        outputs = (np.trunc(outputs * RESOLUTION) / RESOLUTION) @ self.directions
        codes = np.empty(outputs.shape, dtype=np.uint32)
        for k, (low, high) in enumerate(self._ranges(outputs.shape[1])):
            codes[:, k] = grid_codes(outputs[:, k], low, high, np.uint32)
        return codes

    def pulls(self, codes: NDArray[np.uint32], stratum: Integers) -> Floats:
        """Derivative with respect to the outputs in [0, 1] that have these codes."""
        slopes = np.zeros(codes.shape)
        for k, (low, high) in enumerate(self._ranges(codes.shape[1])):
            into = slopes[:, k]
            ends = RESOLUTION // 2, RESOLUTION
            self._compare(codes[:, k], stratum, *ends, into)
            into *= (high - low) / RESOLUTION / codes.shape[1]
        return slopes if self.directions is None else slopes @ self.directions.T

    def _ranges(self, n_codes: int) -> list[tuple[float, float]]:
        if self.directions is None:
            return [(0.0, 1.0)] * n_codes
        return [
            (np.minimum(direction, 0).sum(), np.maximum(direction, 0).sum())
            for direction in self.directions.T
        ]

    def value_and_slopes(
        self, outputs: NDArray, stratum: Integers, low: float, high: float
    ) -> tuple[float, Floats]:
        """Penalty and its derivative with respect to one-dimensional outputs.

        Parameters
        ----------
        outputs : ndarray of shape (n_records,)
            Or their codes, uint32: sums over records of these slopes are exact.
        stratum : ndarray of shape (n_records,), int
            Number of the record's stratum, row by row of `shape`.
        low, high : float
            Range of the outputs.
        """
        slopes, unit = np.zeros(len(outputs)), 1.0
        middle, top = (low + high) / 2, max(abs(low), abs(high))
        if outputs.dtype == np.uint32:
            unit = (high - low) / RESOLUTION
            middle, top = RESOLUTION // 2, RESOLUTION
        value = self._compare(outputs, stratum, middle, top, slopes)
        slopes *= unit
        return value * unit**2, slopes

    def _compare(
        self, outputs, stratum: Integers, middle, top, slopes: Floats
    ) -> float:
        """Penalty of outputs or codes; fills their `slopes`, which come as zeros."""
        value = 0.0
        n_strata = self.shape[0] * self.shape[1]
        rows, samples = _sorted_strata(outputs, stratum, n_strata)
        for label in range(self.shape[0]):
            first = label * self.shape[1]
            strata = range(first, first + self.shape[1])
            n_label = max(1, sum(samples[c].size for c in strata))
            if self.shape[1] >= MANY_GROUPS:
                added, pulls = self._transports(samples, strata, middle, top, n_label)
            else:
                added, pulls = self._by_pairs(samples, strata, middle, n_label)
            value += added
            for c, pull in pulls:
                slopes[rows[c]] = pull
        return value

    def _pair_weight(self, n_a: int, n_b: int, n_label: int) -> float:
        n_labels, n_groups = self.shape
        if self.form == "pairs":
            return 2 / (n_labels * n_groups * (n_groups - 1))
        return self._scale * (n_a / n_label) * (n_b / self.n_records)

    def _by_pairs(self, samples, strata, middle: float, n_label: int):
        """Weighted distances of all pairs of strata; gradients by stratum."""
        sizes = {c: samples[c].size for c in strata}
        # What is compared takes the place of the samples.
        filled = {c: self._filled(samples.pop(c), c, middle) for c in strata}
        value, pulls = 0.0, {}
        for a, b in combinations(strata, 2):
            weight = self._pair_weight(sizes[a], sizes[b], n_label)
            if weight == 0:
                continue
            u, v = filled[a][0], filled[b][0]
            is_coded = isinstance(u, SortedCodes)
            compare = transport_of_codes if is_coded else transport_of_samples
            distance, *gradients = compare(u, v)
            value += weight * distance
            for c, gradient in zip((a, b), gradients, strict=True):
                gradient *= weight
                pulls[c] = gradient + pulls[c] if c in pulls else gradient
        return value, ((c, pull[filled.pop(c)[1]]) for c, pull in pulls.items())

    def _filled(self, sample, stratum: int, middle: float):
        """A sample as it is compared, and where its own records are."""
        least = int(self.min_sizes.flat[stratum]) if self.form == "pairs" else 0
        filled, own = _fill_up(sample, least, middle)
        if filled.size and filled.dtype != np.float64:
            filled = SortedCodes(filled)
        return filled, own

    def _transports(self, samples, strata, middle: float, top: float, n_label: int):
        """The same by the mean of all quantile functions."""
        samples = {c: samples[c].astype(np.float64) for c in strata}
        if self.form == "barycenter":
            held = [c for c in strata if samples[c].size]
            sizes = np.array([samples[c].size for c in held])
            filled = [(samples[c], slice(None)) for c in held]
            weights, common = sizes, self._scale / n_label / self.n_records
        else:
            held, min_sizes = list(strata), self.min_sizes.ravel()
            filled = [_fill_up(samples[c], int(min_sizes[c]), middle) for c in held]
            weights = np.ones(len(held))
            common = 2 / (self.shape[0] * self.shape[1] * (self.shape[1] - 1))
        if not held:
            return 0.0, ()
        value, pulls = mean_transport([sample for sample, _ in filled], weights, top)
        own = (
            (c, common * pull[kept])
            for c, pull, (_, kept) in zip(held, pulls, filled, strict=True)
        )
        return common * value, own


def _sorted_strata(outputs, stratum: Integers, n_strata: int) -> tuple[dict, dict]:
    """Rows of every stratum by output (or its code), and the outputs in this order."""
    is_coded, width = outputs.dtype.kind in "iu", RESOLUTION + 1
    if is_coded and n_strata * width <= MAX_CODES:
        keys = np.multiply(stratum, width, dtype=np.uint32, casting="unsafe")
        keys += outputs
        order, in_order = sort_codes(keys)
        ends = in_order.searchsorted(width * np.arange(1, n_strata))
        samples = _cut(in_order, ends)
        for c in range(1, n_strata):
            samples[c] -= c * width
    else:
        ends = np.cumsum(np.bincount(stratum, minlength=n_strata))[:-1]
        order = np.argsort(outputs)
        order = order[np.argsort(stratum[order], kind="stable")]
        outputs = outputs[order]
        samples = _cut(outputs.astype(np.int64) if is_coded else outputs, ends)
    return _cut(order, ends), samples


def _cut(array: NDArray, ends: Integers) -> dict[int, NDArray]:
    """Consecutive parts by their number; the last has no end of its own."""
    at = [0, *ends.tolist(), len(array)]
    return {c: array[at[c] : at[c + 1]] for c in range(len(at) - 1)}


def _fill_up(sample: Floats, least: int, middle: float):
    """A sorted sample with dummies at `middle`, and where its own records are."""
    n_dummies = max(0, least - sample.size)
    if not n_dummies:
        return sample, slice(None)
    at = np.searchsorted(sample, middle)
    filled = np.concatenate([sample[:at], np.full(n_dummies, middle), sample[at:]])
    own = np.arange(sample.size)
    own[at:] += n_dummies
    return filled, own


@dataclass(frozen=True)
class WassersteinPenalty:
    r"""A :class:`GroupPenalty` of private records.

    Attributes
    ----------
    stratum : ndarray of shape (n_records,), int
        Number of each record's stratum, row by row of `min_sizes`.
    min_sizes : ndarray of shape (n_labels, n_groups), int64
        At least 1.
    directions : ndarray of shape (n_outputs, n_directions) or None
        On a grid of 2**-20, of range at most 1: outputs are projected on these. None
        for one output in [0, 1].
    form : {"pairs", "barycenter"}, default="pairs"
    """

    stratum: Integers
    min_sizes: Integers
    directions: Floats | None = None
    form: str = "pairs"

    def value_and_coefficients(self, probabilities: Floats):
        """Penalty and its derivative with respect to the scores of each record.

        Parameters
        ----------
        probabilities : ndarray of shape (n_records,) or (n_records, n_outputs)
            Logistic or softmax of the scores.

        Returns
        -------
        value : float
        coefficients : ndarray of the same shape
        """
        p = probabilities
        if self.directions is None:
            value, slopes = self.slopes(p, 0.0, 1.0)
            return value, slopes * p * (1 - p)
        projected = p @ self.directions
        slopes = np.empty_like(projected)
        values = np.empty(self.directions.shape[1])
        for k, direction in enumerate(self.directions.T):
            ends = direction.min(), direction.max()
            values[k], slopes[:, k] = self.slopes(projected[:, k], *ends)
        pulls = slopes @ self.directions.T / len(values)
        coefficients = p * (pulls - (p * pulls).sum(axis=1, keepdims=True))
        return values.mean(), coefficients

    def slopes(self, outputs: NDArray, low: float, high: float):
        """Penalty and its derivative with respect to one-dimensional outputs."""
        public = GroupPenalty(
            self.min_sizes.shape, self.form, self.min_sizes, max(1, len(outputs))
        )
        return public.value_and_slopes(outputs, self.stratum, low, high)


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


def projection_directions(normals: Floats) -> Floats:
    """Directions for vectors in a unit cube, from standard normal draws.

    Parameters
    ----------
    normals : ndarray of shape (n_outputs, n_directions)

    Returns
    -------
    directions : ndarray of the same shape
        Of l1 norm times l2 norm at most 1, on a grid of 2**-20.
    """
    size = np.abs(normals).sum(axis=0) * np.sqrt(np.square(normals).sum(axis=0))
    return np.trunc(normals / np.sqrt(size) * RESOLUTION) / RESOLUTION


def record_changes(
    loss: float, pull: float, min_sizes: Integers, neighboring: str
) -> tuple[float, float, float]:
    """Largest change by one record: in the loss, the stratum it left and its new one.

    Parameters
    ----------
    loss : float
        Bound of one record's share of the loss.
    pull : float
        Bound of a record's share of the penalty, times n_labels and the
        minimum size.
    min_sizes : ndarray of shape (n_labels, n_groups)
    neighboring : {"replace_one", "add_remove", "replace_one_in_group"}
    """
    strata = np.sort(pull / (len(min_sizes) * min_sizes.ravel()))[::-1]
    if neighboring == "add_remove":
        return loss, strata[0], 0.0
    return 2 * loss, strata[0], strata[1] if neighboring == "replace_one" else 0.0
