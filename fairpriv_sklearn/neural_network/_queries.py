"""What the networks ask of private rows: counts, and one gradient a step."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from .._shared.arrays import Floats
from .._shared.sensitivity import counts_l2, rows_changed
from .._training._constant import TargetTotals
from .._training._counts import Sizes
from .._training._network import Network
from .._training._penalty import WassersteinPenalty
from .._wall import Query, Rows
from ._objective import (
    CHUNK_ROWS,
    MAX_RECORDS,
    Chunks,
    FairLoss,
    GradientSensitivity,
    RealOutputs,
    SimplexOutputs,
)


@dataclass(frozen=True, eq=False)
class TargetSums(TargetTotals):
    """Sums of the targets, each in [-1, 1], or counts of the classes.

    The constant that a fit starts from, and falls back to where noise drowns the rest.
    """

    theorem = "privacy/accounting:lemma-a"
    norm = "l2"

    @property
    def n_coordinates(self) -> int:
        return self.n_outputs

    def sensitivity(self, neighboring: str) -> float:
        if self.are_counts:
            return counts_l2(neighboring)
        return rows_changed(neighboring) * math.sqrt(self.n_outputs)

    def value(self, total, state):
        return total / self.unit


@dataclass(frozen=True, eq=False)
class OutputResiduals(TargetSums):
    """Sums of how far targets are above outputs, and these above a constant.

    The network and the constant are released. Each is cut off to [-1, 1]: a vector like
    the targets, a function of the record.
    """

    name = "mean residual"
    theorem = "user_guide/networks_proofs:network-residuals"


@dataclass(frozen=True, eq=False)
class AlongOutputs(TargetSums):
    """Sums of derivatives of the loss along the outputs of a released network.

    At the network, and how much they change up to there. Both are cut off to [-1, 1]: a
    vector like the targets, a function of the record.
    """

    name = "line search"
    theorem = "user_guide/networks_proofs:network-line-search"


@dataclass
class TrainingState:
    """Where a fit stands: released parameters, and codes that never leave the query.

    Attributes
    ----------
    network : Network
        Released parameters.
    directions : ndarray of shape (width, n_projections)
        Public.
    penalty : WassersteinPenalty or None
        Private codes of the records, read in the first step; not released.
    """

    network: Network
    directions: Floats
    penalty: WassersteinPenalty | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class NetworkGradient(Query):
    """Clipped gradient of loss and penalty, the part above the penalty in `ratio`.

    Attributes
    ----------
    head : RealOutputs or SimplexOutputs
    targets : callable
        Targets of a block of rows.
    bound : GradientSensitivity
    ratio : float
        Unit of the parameters above the penalised layer, which get less noise.
    n_below, n_above : int
        Number of parameters below and above.
    sizes : Sizes
    fairness_weight, clip_norm, projection_clip_norm : float
    exact : bool
        Whether projections are rounded to the grid that the proof asks for.
    """

    name = "gradients"
    theorem = "user_guide/networks_proofs:network-step"
    max_rows = MAX_RECORDS

    head: RealOutputs | SimplexOutputs
    targets: Callable[[SimpleNamespace], Floats]
    bound: GradientSensitivity
    ratio: float
    n_below: int
    n_above: int
    sizes: Sizes
    fairness_weight: float
    clip_norm: float
    projection_clip_norm: float
    exact: bool

    @property
    def n_coordinates(self) -> int:
        return self.n_below + self.n_above

    @property
    def units(self) -> Floats:
        """Unit of every parameter."""
        return np.repeat([1.0, self.ratio], [self.n_below, self.n_above])

    def sensitivity(self, neighboring: str) -> float:
        return self.bound.scaled(self.ratio)

    def of_rows(self, rows: Rows, state: TrainingState) -> Floats:
        if state.penalty is None:
            state.penalty = self._penalty(rows)
        loss = FairLoss(
            state.network,
            self.head,
            Chunks(rows, self.targets),
            (1 - self.fairness_weight) / self.sizes.n_records,
            self.fairness_weight,
            state.penalty,
            self.clip_norm,
            self.projection_clip_norm,
            self.exact,
        )
        return loss.gradient(state.directions) / self.units

    def _penalty(self, rows: Rows) -> WassersteinPenalty:
        strata = np.zeros(0, dtype=np.uint8)
        if self.fairness_weight:
            blocks = rows.only("stratum").blocks(CHUNK_ROWS)
            strata = np.concatenate([strata, *(block.stratum for block in blocks)])
        return WassersteinPenalty(strata, self.sizes.min_sizes)
