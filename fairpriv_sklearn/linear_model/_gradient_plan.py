"""What a fit by noisy gradients releases, at which share of the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._training._bounded import COUNT_SHARE
from .._training._counts import Sizes, count_query
from .._training._design import FeatureScaling
from .._training._line_search import search_share
from .._training._target import TARGET_SHARE, RangeCounts, TargetCounts
from .._wall import (
    PrivacyFilter,
    Release,
    Rows,
    calibrate_gaussian,
    calibrate_without_replacement,
)
from ._line_search import N_SEARCHES, SEARCH_SHARE
from ._preconditioned import MOMENT_SHARE, Curvature, is_worth_moments, number_of_steps
from ._queries import AlongSlopes, Geometry, LossGradient, MeanResidual, SecondMoments

# Number of records that public rules assume where the number is private.
NOMINAL_RECORDS = 10_000
_OF_FEATURES = {
    one.name for one in (SecondMoments, LossGradient, AlongSlopes, MeanResidual)
}


@dataclass(frozen=True)
class GradientPlan:
    """Lines of the plan, and what the fit needs to know of them; public numbers."""

    lines: list
    n_steps: int
    n_counts: int = 0
    has_moments: bool = False
    has_constant: bool = False
    mu: float = math.inf

    @property
    def of_features(self) -> list:
        """Lines that may tell a constant instead, where features would bring noise."""
        return [line for line in self.lines if line.name in _OF_FEATURES]

    def left_after(self, n_steps: int) -> list:
        """Those of them that are not released yet after so many gradients."""
        return [
            replace(line, times=line.times - n_steps * (line.name == LossGradient.name))
            for line in self.of_features
            if line.name != SecondMoments.name
        ]


def gradient_plan(
    geometry: Geometry,
    *,
    epsilon: float,
    delta: float,
    n_assumed: float,
    n_counts: int,
    max_iter: int | None,
    targets: TargetCounts | None = None,
    target_share: float = TARGET_SHARE,
    ranges: RangeCounts | None = None,
    constant: dict[str, int] | None = None,
    n_parts: int = 1,
) -> GradientPlan:
    """Counts, noisy second moments where they are worth it, gradients, a line search.

    Counts of a target, if any, take `target_share` of the squared parameter.

    `constant` has the names of what is asked about the constant model, with how many
    numbers that are; a gradient has `n_parts`.
    """
    n_weights = n_parts * geometry.n_columns * geometry.n_outputs
    mu = calibrate_gaussian(epsilon, delta)
    n_steps = max_iter or number_of_steps(mu * n_assumed)
    has_moments = is_worth_moments(geometry.n_columns, geometry.row_norm, mu, n_assumed)
    n_moments = SecondMoments(geometry, 1.0).n_coordinates
    # What is asked in their place may have more numbers.
    n_moments = max([n_moments, *(constant or {}).values()]) if has_moments else 0
    n_draws = n_counts + n_moments + n_steps * n_weights
    n_searched = 2 * geometry.n_outputs
    n_draws += N_SEARCHES * n_searched
    counts = [one for one in (targets, ranges) if one is not None]
    n_draws += sum(one.n_looks * one.n_coordinates for one in counts)
    n_draws += sum(constant.values()) if constant else 0
    mu = calibrate_gaussian(epsilon, delta, n_draws=n_draws)
    lines = []
    if n_counts:
        name = count_query(n_counts).name
        lines.append(Release(name, "gaussian", COUNT_SHARE * mu, n_counts))
        mu *= math.sqrt(1 - COUNT_SHARE**2)
    for one in counts:
        part = target_share if one is targets else TARGET_SHARE
        lines.append(one.line(math.sqrt(part / one.n_looks) * mu, one.n_looks))
        mu *= math.sqrt(1 - part)
    for name, n_numbers in (constant or {}).items():
        share = constant_share(mu * n_assumed)
        lines.append(Release(name, "gaussian", math.sqrt(share) * mu, n_numbers))
        mu *= math.sqrt(1 - share)
    if has_moments:
        share = math.sqrt(MOMENT_SHARE) * mu
        lines.append(Release(SecondMoments.name, "gaussian", share, n_moments))
        mu *= math.sqrt(1 - MOMENT_SHARE)
    share = search_share(mu * n_assumed, SEARCH_SHARE)
    search = mu * math.sqrt(share / N_SEARCHES)
    step = mu * math.sqrt((1 - share) / n_steps)
    lines.append(Release(LossGradient.name, "gaussian", step, n_weights, n_steps))
    lines.append(Release(AlongSlopes.name, "gaussian", search, n_searched, N_SEARCHES))
    has_constant = bool(constant)
    return GradientPlan(lines, n_steps, n_counts, has_moments, has_constant, mu)


def intercept_column(scaling: FeatureScaling, signal: float) -> FeatureScaling:
    """With an intercept's column that is larger where little else can be learnt."""
    share = 0.3 * math.sqrt(300 / max(signal, 1e-9))
    size = min(1.0, min(1.0, max(0.3, share)) * scaling.data_norm)
    return replace(scaling, intercept=size)


def constant_share(signal: float) -> float:
    """Share of the squared Gaussian-DP parameter that the constant model takes.

    `signal` is the number of records times the parameter.
    """
    return min(0.3, max(0.03, 40 / max(signal, 1e-9)))


def noisy_curvature(
    wall: PrivacyFilter,
    rows: Rows,
    geometry: Geometry,
    n_records: float,
    plan: GradientPlan,
    factor: float,
) -> Curvature:
    """Public stand-in for the Hessian, from noisy second moments if planned."""
    matrix, noise = None, 0.0
    if plan.has_moments:
        query = SecondMoments(geometry, n_records)
        matrix = query.matrix(wall.release(query, rows))
        noise = wall.scale(query)
    known = {"row_norm": geometry.row_norm, "constant": geometry.constant}
    return Curvature.from_moments(
        matrix, noise, n_columns=geometry.n_columns, factor=factor, **known
    )


def line_search_oracle(wall: PrivacyFilter, rows: Rows, loss):
    """Return what tells a line search how a loss changes along slopes."""

    def ask(slopes, center, start, bounds, steps):
        query, constant = AlongSlopes(loss, bounds, steps), loss.geometry.constant
        weights = np.zeros((loss.geometry.n_columns, loss.geometry.n_outputs))
        weights[: len(slopes)] = slopes
        if constant:
            weights[-1] = -center / constant
        released = wall.release(query, rows, (weights, start))
        return query.told(released, wall.scale(query))

    return ask


@dataclass(frozen=True)
class Strata:
    """Rows by stratum, and how many of each a batch draws without replacement."""

    rows: list[np.ndarray]
    drawn: np.ndarray

    @classmethod
    def proportional(cls, codes, n_strata: int, batch_size: int) -> Strata:
        rows = [np.flatnonzero(codes == stratum) for stratum in range(n_strata)]
        sizes = np.array([len(stratum) for stratum in rows])
        wanted = np.rint(batch_size * sizes / len(codes)).astype(np.int64)
        return cls(rows, np.minimum(np.maximum(wanted, 1), sizes))

    @cached_property
    def rate(self) -> float:
        """Largest probability that a record is drawn."""
        return max(
            drawn / len(rows)
            for drawn, rows in zip(self.drawn, self.rows, strict=True)
            if len(rows)
        )

    def weights(self) -> np.ndarray:
        """Weight of a drawn record in the mean loss, per stratum."""
        sizes = np.array([len(rows) for rows in self.rows])
        return sizes / sizes.sum() / np.maximum(self.drawn, 1)

    def batch_sizes(self, shape: tuple[int, int]) -> Sizes:
        """The sizes that take the place of the whole table's in the sensitivity."""
        min_sizes = np.maximum(self.drawn, 1).reshape(shape)
        return Sizes(1 / self.weights().max(), min_sizes)

    def stratum_weights(self) -> np.ndarray:
        """Weights of the records relative to the largest."""
        weights = self.weights()
        return weights / weights.max()

    def draw(self, wall, rows: Rows) -> Rows:
        """Rows of a batch."""
        return wall.draw(rows, self.rows, self.drawn, self.rate)

    def plan(
        self,
        epsilon: float,
        delta: float,
        n_steps: int,
        n_weights: int,
        ranges: RangeCounts | None,
    ) -> GradientPlan:
        """Gradients of batches, beside counts of all records that tell ranges."""
        lines, beside, n_draws = [], 0.0, n_steps * n_weights
        if ranges is not None:
            beside = math.sqrt(TARGET_SHARE) * calibrate_gaussian(epsilon, delta)
            own = ranges.line(beside / math.sqrt(ranges.n_looks), ranges.n_looks)
            lines, n_draws = [own], n_draws + own.n_draws
        multiplier = calibrate_without_replacement(
            epsilon, delta, self.rate, n_steps, n_draws=n_draws, beside=beside
        )
        how, name = ("without_replacement", self.rate), LossGradient.name
        line = Release(name, "gaussian", 1 / multiplier, n_weights, n_steps, how)
        return GradientPlan([*lines, line], n_steps)
