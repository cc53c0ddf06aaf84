"""What a fit by noisy gradients releases, at which share of the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fairpriv_sklearn._training._bounded import COUNT_SHARE
from fairpriv_sklearn._training._counts import count_query
from fairpriv_sklearn._wall import PrivacyFilter, Release, Rows
from fairpriv_sklearn.accounting import calibrate_gaussian
from fairpriv_sklearn.linear_model._preconditioned import (
    MOMENT_SHARE,
    Curvature,
    is_worth_moments,
    number_of_steps,
)
from fairpriv_sklearn.linear_model._queries import (
    Geometry,
    LossGradient,
    SecondMoments,
    TargetCounts,
)

TARGET_SHARE = 0.05
"""Share of the squared Gaussian-DP parameter that counts of the target take."""

# Number of records that public rules assume where the number is private.
NOMINAL_RECORDS = 10_000


@dataclass(frozen=True)
class GradientPlan:
    """Lines of the plan, and what the fit needs to know of them; public numbers."""

    lines: list
    n_steps: int
    n_counts: int = 0
    has_moments: bool = False


def gradient_plan(
    geometry: Geometry,
    *,
    epsilon: float,
    delta: float,
    n_assumed: float,
    n_counts: int,
    max_iter: int | None,
    n_bins: int = 0,
) -> GradientPlan:
    """Counts, noisy second moments where they are worth it, and full gradients."""
    n_weights = geometry.n_columns * geometry.n_outputs
    mu = calibrate_gaussian(epsilon, delta)
    n_steps = max_iter or number_of_steps(mu, n_assumed)
    has_moments = is_worth_moments(geometry.n_columns, geometry.row_norm, mu, n_assumed)
    n_moments = SecondMoments(geometry, 1.0).n_coordinates if has_moments else 0
    n_draws = n_counts + n_bins + n_moments + n_steps * n_weights
    mu = calibrate_gaussian(epsilon, delta, n_draws=n_draws)
    lines = []
    if n_counts:
        name = count_query(n_counts).name
        lines.append(Release(name, "gaussian", COUNT_SHARE * mu, n_counts))
        mu *= math.sqrt(1 - COUNT_SHARE**2)
    if n_bins:
        share = math.sqrt(TARGET_SHARE) * mu
        lines.append(Release(TargetCounts.name, "gaussian", share, n_bins))
        mu *= math.sqrt(1 - TARGET_SHARE)
    if has_moments:
        share = math.sqrt(MOMENT_SHARE) * mu
        lines.append(Release(SecondMoments.name, "gaussian", share, n_moments))
        mu *= math.sqrt(1 - MOMENT_SHARE)
    step = mu / math.sqrt(n_steps)
    line = Release(LossGradient.name, "gaussian", step, n_weights, times=n_steps)
    return GradientPlan([*lines, line], n_steps, n_counts, has_moments)


def noisy_curvature(
    wall: PrivacyFilter,
    rows: Rows,
    geometry: Geometry,
    n_records: float,
    *,
    has_moments: bool,
    factor: float,
) -> Curvature:
    """Public stand-in for the Hessian, from noisy second moments if planned."""
    matrix, noise = None, 0.0
    if has_moments:
        query = SecondMoments(geometry, n_records)
        matrix = query.matrix(wall.release(query, rows))
        noise = wall.scale(query)
    return Curvature.from_moments(
        matrix,
        noise,
        n_columns=geometry.n_columns,
        row_norm=geometry.row_norm,
        constant=geometry.constant,
        factor=factor,
    )
