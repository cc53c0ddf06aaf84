r"""Clipped gradients of loss and penalty, and what one record can change in them.

.. math::

    G = \frac{1 - \alpha}{n} \sum_i \mathrm{clip}_C(\nabla \ell_i)
    + \frac{\alpha}{K} \sum_k \sum_i
    s_{k,i}\, \mathrm{clip}_L(\vartheta_k^\top J_i),
    \qquad s_{k,i} = \frac{\partial W_2^2(\vartheta_k)}{\partial (\vartheta_k^\top u_i)}

with :math:`J_i` the Jacobian of the record's output :math:`u_i` in the parameters.
Everything but the slopes :math:`s_{k,i}` is a function of the record alone.

References
----------
.. [1] D. Rodriguez-Vitores, C. Lalanne, J.-M. Loubes. "Learning with Differentially
   Private (Sliced) Wasserstein Gradients". arXiv:2502.01701, 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from .._shared.arrays import Floats, Integers
from .._shared.exact_transport import grid_codes
from .._shared.rowwise import BLOCK_ROWS, row_scores, row_softmax
from .._training._counts import shares
from .._training._network import Network
from .._training._penalty import (
    WassersteinPenalty,
    record_changes,
    unit_range_directions,
)
from .._wall import Rows

MAX_RECORDS = 1 << 24
"""Largest table; public, as the rounding of a sum grows with its length."""

# Roundings of one record's share before it enters the sum over records: the slope, the
# weight, the sums over projections and over pairs of groups.
SHARE_ROUNDINGS = 1024
# Fewer calls than block by block, and still in the cache.
CHUNK_ROWS = 8 * BLOCK_ROWS
# Of a block of rows: what the network is given.
INPUTS = attrgetter("x")
# From where on all logits are of one weight: smaller ones say less. Chosen on simulated
# tables.
LARGE_LOGIT = 1.4
# Given away in every clipping factor: a computed norm is a little wrong.
CLIP_SLACK = 1e-9


@dataclass(frozen=True)
class RealOutputs:
    """Penalised outputs in R^d, with the squared error at the last layer.

    The groups are compared by projections on directions of length one, clipped to
    [-1, 1]. A record beyond counts as at the end, and is still pulled back.

    Attributes
    ----------
    layer : int
        Index of the penalised layer in what ``Network.forward`` returns.
    spread : float or None
        Standard deviation of the targets, a released number; None: not known.
    """

    layer: int
    spread: float | None = None

    @property
    def reach(self) -> float:
        """How far noise may carry the outputs, see ``FairNetworkMixin``."""
        return 0.6 if self.spread is None else max(0.6, 4 * self.spread)

    @property
    def usual_gradient(self) -> float:
        """Length of a gradient that noise should not drown."""
        return 0.5 if self.spread is None else max(0.5, 3 * self.spread)

    def dimension(self, width: int) -> int:
        """Number of dimensions in which the penalised outputs vary."""
        return width

    def penalised(self, outputs: list[Floats]) -> Floats:
        """Outputs that the groups are compared by."""
        return outputs[self.layer]

    def pull(self, outputs: list[Floats], direction: Floats) -> Floats:
        """Gradient of the projected output with respect to the layer."""
        return direction

    def loss_gradient(self, outputs: list[Floats], targets: Floats) -> Floats:
        """Gradient of the squared error, summed over outputs."""
        return 2.0 * (outputs[-1] - targets)

    def constant(self, sums: Floats, n_records: float, scale: float) -> Floats:
        """Biases of the constant mean, from noisy sums of targets in [-1, 1]."""
        # As if the mean had been 0 with a standard deviation of .3.
        trust = 0.09 / (0.09 + (scale / n_records) ** 2)
        return trust * np.clip(sums / n_records, -1.0, 1.0)

    def evenness(self, constant: Floats) -> float:
        """1 where means are in the middle of their range, 0 at its ends."""
        return max(0.0, 1 - 2 * float(np.abs(constant).max()))

    def n_lines(self, n_outputs: int) -> int:
        """How many factors outputs have: one each."""
        return n_outputs

    def weights(self, own: Floats) -> Floats:
        """Outputs, less the constant, as weights in [-1, 1]."""
        return np.sign(own)

    def along(self, weights: Floats, gradient: Floats) -> Floats:
        """Products, (n, n_lines)."""
        return weights * gradient

    def limits(self, constant: Floats) -> tuple[float, float]:
        """Where derivatives along weights, and their changes, are cut off."""
        return 2 * self.spread, 1.5 * self.spread

    def directions(self, normals: Floats) -> Floats:
        """Directions of length one, from normal draws of shape (d, n_projections)."""
        return normals / np.linalg.norm(normals, axis=0)

    def ranges(self, directions: Floats) -> tuple[Floats, Floats]:
        """Range of the projection on every direction; public."""
        ends = np.ones(directions.shape[1])
        return -ends, ends


@dataclass(frozen=True)
class SimplexOutputs:
    """Class probabilities, with the cross-entropy; the last layer holds the logits."""

    layer: int
    reach: ClassVar[float] = 4.0
    usual_gradient: ClassVar[float] = 1.0

    def dimension(self, width: int) -> int:
        return width - 1  # probabilities add up to one

    def penalised(self, outputs: list[Floats]) -> Floats:
        return row_softmax(outputs[self.layer])

    def pull(self, outputs: list[Floats], direction: Floats) -> Floats:
        p = self.penalised(outputs)
        return p * (direction - (p * direction).sum(axis=1, keepdims=True))

    def loss_gradient(self, outputs: list[Floats], targets: Floats) -> Floats:
        return row_softmax(outputs[-1]) - targets

    def constant(self, sums: Floats, n_records: float, scale: float) -> Floats:
        """Biases of the constant probabilities, from noisy counts of the classes."""
        return np.log(shares(sums, n_records, scale) * len(sums))

    def evenness(self, constant: Floats) -> float:
        """1 where a class has half of the records, 0 where none has any or one all."""
        p = row_softmax(constant[None])
        return 2 * float(np.minimum(p, 1 - p).max())

    def n_lines(self, n_outputs: int) -> int:
        return 1  # all classes have the same

    def weights(self, own: Floats) -> Floats:
        high, low = (f(axis=1, keepdims=True) for f in (own.max, own.min))
        return (own - (high + low) / 2) / np.maximum((high - low) / 2, LARGE_LOGIT)

    def along(self, weights: Floats, gradient: Floats) -> Floats:
        return (weights * gradient).sum(axis=1, keepdims=True)

    def limits(self, constant: Floats) -> tuple[float, float]:
        return 2 - 2 * float(row_softmax(constant[None]).min()), 0.5

    def directions(self, normals: Floats) -> Floats:
        return unit_range_directions(normals)

    def ranges(self, directions: Floats) -> tuple[Floats, Floats]:
        return directions.min(axis=0), directions.max(axis=0)


def padded_chunk(X: Floats) -> Floats:
    """Fill rows up with zeros to whole blocks of 256.

    Products are taken block by block in ``row_scores``; what is element by element may
    run over a chunk, as its length never leaves a remainder to another kernel.
    """
    missing = -len(X) % BLOCK_ROWS
    return np.concatenate([X, np.zeros((missing, X.shape[1]))]) if missing else X


class Chunks:
    """Padded chunks of private rows with their targets, wherever they are.

    Parameters
    ----------
    rows : Rows
        With the column `x` and those that `targets` needs.
    targets : callable
        From a block of rows to what the outputs should be.
    """

    def __init__(self, rows: Rows, targets: Callable):
        self._rows, self._targets = rows, targets

    def told(self, function: Callable, beside=()) -> Iterator[Any]:
        """What a function says of a chunk, its targets, and its part of what is beside.

        One chunk after the other; the function may travel to where the rows are.
        """
        function = partial(_of_chunk, function, self._targets)
        return self._rows.of_blocks(function, CHUNK_ROWS, beside)


def _of_chunk(function, targets, block, *beside):
    return function(padded_chunk(block.x), targets(block), *beside)


@dataclass(frozen=True)
class FairLoss:
    """Loss and penalty of a network on a table; see the module for the gradient.

    Attributes
    ----------
    network : Network
        Its product must be ``row_scores``.
    head : RealOutputs or SimplexOutputs
    chunks : Chunks
        The records and their targets; read twice.
    loss_weight : float
        (1 - alpha) / n, or zero.
    fairness_weight : float
        Weight alpha of the penalty.
    penalty : WassersteinPenalty
    clip_norm, projection_clip_norm : float
        C and L.
    exact : bool
        Whether projections are rounded to the grid that the proof asks for.
    """

    network: Network
    head: RealOutputs | SimplexOutputs
    chunks: Chunks | None
    loss_weight: float
    fairness_weight: float
    penalty: WassersteinPenalty | None
    clip_norm: float
    projection_clip_norm: float
    exact: bool = True

    def gradient(self, directions: Floats) -> Floats:
        """Gradient at the network's parameters, shape (n_parameters,)."""
        pulls = self._pulls(directions)
        total = np.zeros_like(self.network.theta)
        share = partial(self._alone()._share, directions)
        for gradient in self.chunks.told(share, pulls):
            total += gradient
        return total

    def _alone(self) -> FairLoss:
        """The same without the records."""
        return replace(self, chunks=None, penalty=None)

    def _pulls(self, directions: Floats) -> list[Floats]:
        """Weights of the records' projected gradients, for every projection."""
        if not self.fairness_weight:
            return []
        n_records, n_projections = len(self.penalty.stratum), directions.shape[1]
        kind = np.uint32 if self.exact else np.float64
        compared = [np.empty(n_records, dtype=kind) for _ in range(n_projections)]
        ranges, start = self._ranges(directions), 0
        for found in self.chunks.told(partial(self._alone()._compared, directions)):
            stop = start + len(found[0])
            for column, own in zip(compared, found, strict=True):
                column[start:stop] = own
            start = stop
        # The pulls of a projection take the place of what they follow from.
        for k, ends in enumerate(ranges):
            _, compared[k] = self.penalty.slopes(compared[k], *ends)
            compared[k] *= self.fairness_weight / n_projections
        return compared

    def _ranges(self, directions: Floats) -> list[tuple[float, float]]:
        return list(zip(*self.head.ranges(directions), strict=True))

    def _compared(self, directions: Floats, block, targets) -> list:
        """What a chunk's records are compared by, for every projection."""
        outputs = self.network.forward(block, self.head.layer)
        scores = row_scores(self.head.penalised(outputs), directions)
        scores = np.nan_to_num(scores[: len(targets)], nan=0.0)
        pairs = zip(scores.T, self._ranges(directions), strict=True)
        if not self.exact:
            return [np.clip(score, *ends) for score, ends in pairs]
        return [grid_codes(score, *ends).astype(np.uint32) for score, ends in pairs]

    def _share(self, directions: Floats, block, targets, *pulls) -> Floats:
        """Gradient of one chunk; rows that only fill it up have weight zero."""
        outputs, n_rows = self.network.forward(block), len(targets)
        network, layer = self.network, self.head.layer
        deltas = [np.zeros_like(h) for h in outputs[1:]]
        usable = np.ones(len(outputs[0]), dtype=bool)

        def add(parts, part_outputs, weights, bound):
            norms = network.gradient_norms(part_outputs, parts)
            finite = np.isfinite(norms)
            factors = (1 - CLIP_SLACK) * bound / np.maximum(norms, bound)
            factors[:n_rows] *= weights
            factors[n_rows:] = 0.0
            for delta, part in zip(deltas, parts, strict=False):
                if finite.all():
                    delta += factors[:, None] * part
                else:
                    delta[finite] += factors[finite, None] * part[finite]
            usable[~finite] = False

        if self.loss_weight:
            wanted = np.zeros((len(outputs[0]), targets.shape[1]))
            wanted[:n_rows] = targets
            gradient = self.head.loss_gradient(outputs, wanted)
            parts = network.backward(outputs, gradient)
            add(parts, outputs, self.loss_weight, self.clip_norm)
        if self.fairness_weight:
            below = outputs[: layer + 1]
            for direction, weights in zip(directions.T, pulls, strict=True):
                parts = network.backward(below, self.head.pull(below, direction))
                add(parts, below, weights, self.projection_clip_norm)
        if not usable.all():  # infinity times zero would spoil the sum
            outputs = [np.where(usable[:, None], h, 0.0) for h in outputs]
            deltas = [np.where(usable[:, None], delta, 0.0) for delta in deltas]
        return network.gradient(outputs, deltas)


@dataclass(frozen=True)
class GradientSensitivity:
    r"""What replacing (adding, removing) one record changes in :class:`FairLoss`.

    With S groups of minimum sizes m, widths :math:`D_k` of the projected output domain
    and :math:`\bar D` their mean, a record of stratum c changes the penalty's gradient
    by at most :math:`\alpha \frac2S 4 \bar D L / (n_{labels} m_c)`, and the loss's by
    :math:`(1 - \alpha) C / n`, twice that if it is replaced.

    Attributes
    ----------
    loss, penalty : float
        Euclidean bounds; the penalty's gradient is zero above the penalised layer.
    rounding : float
        Bound of the rounding errors of the two sums over records together.
    """

    loss: float
    penalty: float
    rounding: float

    @classmethod
    def bound(
        cls,
        *,
        clip_norm: float,
        projection_clip_norm: float,
        fairness_weight: float,
        widths: Floats,
        n_records: float,
        min_sizes: Integers,
        neighboring: str,
    ) -> GradientSensitivity:
        """Bound the changes.

        Parameters
        ----------
        clip_norm, projection_clip_norm : float
            C and L.
        fairness_weight : float
            Weight alpha of the penalty, in [0, 1].
        widths : ndarray of shape (n_projections,)
            Widths of the projected output domains.
        n_records : float
            What the sum of the losses is divided by.
        min_sizes : ndarray of shape (n_labels, n_groups)
            Records, or dummies, at least in each stratum.
        neighboring : {"replace_one", "add_remove"}
        """
        mass = 4.0 * fairness_weight * float(np.mean(widths)) * projection_clip_norm
        share = (1 - fairness_weight) * clip_norm / n_records
        loss, left, entered = record_changes(
            share, mass * 2 / min_sizes.shape[1], min_sizes, neighboring
        )
        most_records = MAX_RECORDS if neighboring == "add_remove" else int(n_records)
        # Chunks are summed up one by one: so often a share is rounded at most.
        error = summation_error(CHUNK_ROWS + -(-most_records // CHUNK_ROWS))
        rounding = 2 * error * (share * most_records + mass)
        return cls(float(loss), float(left + entered), float(rounding))

    def scaled(self, ratio: float) -> float:
        r"""Sensitivity once the part above the penalised layer is divided by `ratio`.

        .. math::
            \max_{0 \le c \le 1} (p + c\, l)^2 + (1 - c^2)\, l^2 / \text{ratio}^2,

        as a loss gradient's change of norm l splits into a part c l below that meets
        the penalty's p, and the rest above.
        """
        below = 1.0
        if ratio < 1 and self.loss:
            below = min(1.0, self.penalty * ratio**2 / (self.loss * (1 - ratio**2)))
        above = np.sqrt(1 - below**2) * self.loss / ratio
        size = np.hypot(self.penalty + below * self.loss, above)
        return float(size + self.rounding / ratio) * (1 + CLIP_SLACK)

    def best_ratio(self, n_below: int, n_above: int) -> float:
        """Ratio of the noise above and below the layer with the least noise in all.

        Layers above see no penalty, whose noise is the larger: they get less.
        """
        if not (n_above and self.loss and self.penalty):
            return 1.0
        share = self.loss / (self.loss + self.penalty)
        return min(1.0, float(np.sqrt(share * np.sqrt(n_below / n_above))))


def summation_error(n_terms: int) -> float:
    r"""Largest error of a computed sum, relative to the sum of absolute values.

    :math:`\gamma_n = n u / (1 - n u)`, u = 2^-53, if no term goes through more than n
    additions, in whatever order, fused or not (N. Higham,
    "Accuracy and Stability of Numerical Algorithms", SIAM, 2002, section 4.2).
    """
    error = (n_terms + SHARE_ROUNDINGS) * 2.0**-53
    return error / (1 - error)
