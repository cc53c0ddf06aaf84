"""Repair of numbers: release counts of the scores, solve, remap.

The estimators of `_barycenter` and `_barycenter_regressor` share it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairpriv_sklearn._door.estimator import public_fact, read_bounds
from fairpriv_sklearn._shared.callers import warn_caller
from fairpriv_sklearn._shared.rowwise import row_uniforms
from fairpriv_sklearn._shared.sklearn import Interval, StrOptions, safe_indexing
from fairpriv_sklearn._wall import PrivacyFilter, Release, Rows
from fairpriv_sklearn.postprocessing import _blind_numbers as blind
from fairpriv_sklearn.postprocessing import _histogram as histogram
from fairpriv_sklearn.postprocessing._parity import n_score_bins, score_bins
from fairpriv_sklearn.postprocessing._phases import PHASE_CONSTRAINTS
from fairpriv_sklearn.postprocessing._queries import (
    CellCounts,
    DistinctScores,
    ScoreCounts,
)
from fairpriv_sklearn.postprocessing._repair import Repair, RepairWarning
from fairpriv_sklearn.privacy import warn_leak
from fairpriv_sklearn.transport import BarycenterResult, fair_barycenter, solver_name

# Number of bins where it may not depend on the number of rows (add/remove).
BINS_WITHOUT_N = 36

# Part of the budget of output="auto" that asks whether scores are rounded: one number
# of sensitivity one, so little is enough.
ATOMS_SHARE = 0.05

LARGEST_BOUND = 1e150
# Rows that are remapped at a time: what they need in between stays in the cache.
BLOCK = 1 << 14
# The most bins that a rule may ask for; the plan is made before it is known.
MOST_BINS = 192
DROWNED = (
    "the groups' scores differ by less than the noise of its counts. More rows or a "
    "larger epsilon may help."
)
WORTHLESS = (
    "by its noisy counts equal answers for all groups would be nearly constant. Here X "
    "hardly tells the groups, or tells the target by the same means, and parity costs "
    "more than it is worth. A stronger group_estimator or a larger fairness_tolerance "
    "may help."
)
WHAT_IS_RELEASED = "score counts per group with discrete Laplace noise"


class NumberRepair(Repair):
    """What the transformer and the regressor share: release, solve, remap."""

    _renamed = {"randomized": "output"}
    _bounds_name = "bounds"

    _parameter_constraints: dict = {
        **Repair._parameter_constraints,
        "n_bins": [StrOptions({"auto"}), Interval(Integral, 2, 10_000, closed="both")],
        "fairness_tolerance": [
            StrOptions({"auto"}),
            Interval(Real, 0, 1, closed="both"),
        ],
        "estimation": [StrOptions({"auto", "smooth", "isotonic"})],
        "output_refinement": [Interval(Integral, 1, 100, closed="both")],
        "solver": [str],
        "output": [StrOptions({"auto", "continuous", "randomized", "mean"})],
        "handle_unknown": PHASE_CONSTRAINTS["handle_unknown"],
    }

    def path(self, fairness_tolerances: Iterable[float]) -> list:
        """Solve again for other tolerances, from the same release and at no cost.

        Parameters
        ----------
        fairness_tolerances : iterable of {float, "auto"}
            Each in [0, 1].

        Returns
        -------
        estimators : list
            Fitted copies of this estimator, one per tolerance. They share its release
            and its `privacy_`: using all of them costs no more than using one.
        """
        check_is_fitted(self)
        estimators = []
        for tolerance in fairness_tolerances:
            estimator = copy.copy(self).set_params(fairness_tolerance=tolerance)
            estimator._validate_params()
            estimator._solve()
            estimators.append(estimator)
        return estimators

    def _spreads(self) -> bool:
        if self.blind:
            return False
        # Not fitted yet: "auto" may turn out either way.
        outputs = getattr(self, "output_", [self.output])
        return any(output in ("auto", "randomized") for output in outputs)

    def _public_bounds(self, values: np.ndarray):
        """Bounds per column of `values` and the fact taken as public."""
        name = self._bounds_name
        given = getattr(self, name)
        if given is None:
            warn_leak(name, "the range of the scores")
            lower, upper = values.min(axis=0), values.max(axis=0)
            upper = np.where(upper > lower, upper, lower + 1.0)
            bounds = np.column_stack([lower, upper])
            return bounds, public_fact(name, None, from_data=True)
        lower, upper = read_bounds(given, values.shape[1], name=name)
        if not (lower < upper).all():
            raise ValueError(f"{name} must have low < high, got {given!r}.")
        if max(np.abs(lower).max(), np.abs(upper).max()) > LARGEST_BOUND:
            raise ValueError(f"{name} must lie within +-1e150: squares overflow.")
        ends = tuple(e.item() if e.size == 1 else e.tolist() for e in (lower, upper))
        return np.column_stack([lower, upper]), public_fact(name, ends, from_data=False)

    def _plan(self, n_columns: int) -> list[Release]:
        """What the calibration releases: a function of public numbers only."""
        if self.blind:
            n_counts = n_columns * int(np.prod(self._blind_shape()))
            return [Release("counts", "pure", self.epsilon, n_counts)]
        most = MOST_BINS if self.n_bins == "auto" else self.n_bins
        n_counts = n_columns * len(self.groups_) * most
        if self.output != "auto":
            return [Release("counts", "pure", self.epsilon, n_counts)]
        share = 0.0 if self.epsilon == np.inf else ATOMS_SHARE
        return [
            Release("counts", "pure", (1 - share) * self.epsilon, n_counts),
            Release("distinct", "pure", (share or 1) * self.epsilon, n_columns),
        ]

    def _release(self, wall: PrivacyFilter, rows: Rows, bounds) -> None:
        """Release the counts of every column, then solve.

        Parameters
        ----------
        wall : PrivacyFilter
        rows : Rows
            With the columns `scores` and `codes`; a blind repair reads `X` too.
        bounds : ndarray of shape (n_columns, 2)
        """
        if self.blind:
            self._release_blind(wall, rows, bounds)
            return
        pairs = tuple(map(tuple, bounds.tolist()))
        # The draws may leave no row to calibrate: estimate as if there were one.
        public_n = self.neighboring == "replace_one"
        self._n_public = max(rows.n_rows, 1) if public_n else None
        distinct, scale = None, 0.0
        if self.output == "auto":
            query = DistinctScores(pairs)
            distinct, scale = wall.release(query, rows), wall.scale(query)
        if public_n:
            self._choose_output(distinct, scale, self._n_public, len(pairs))
        self.n_bins_ = self._number_of_bins()
        query = ScoreCounts(pairs, len(self.groups_), self.n_bins_)
        self.counts_ = wall.release(query, rows)
        if not public_n:
            total = float(self.counts_[0].sum())
            self._choose_output(distinct, scale, total, len(pairs))
        self.bounds_ = bounds
        mechanism = wall.mechanism_of(query)
        self._noise_variance = float(mechanism.variance)
        self._noise_scale = float(mechanism.scale)
        self._key = wall.noise.public().key(32)
        self._solve()

    def _choose_output(self, distinct, scale, n, n_columns) -> None:
        """Settle what "auto" stands for, from noisy and public numbers."""
        if distinct is None:
            self.output_ = [self.output] * n_columns
            return
        self.output_ = [
            "continuous" if histogram.is_continuous(number, n, scale) else "randomized"
            for number in distinct.tolist()
        ]

    def _number_of_bins(self) -> int:
        """Number of bins: a rule of public and of released numbers."""
        if self.n_bins != "auto":
            return self.n_bins
        if self._n_public is None:
            return BINS_WITHOUT_N
        continuous = set(self.output_) == {"continuous"}
        return histogram.default_n_bins(
            self._n_public, self.epsilon, continuous=continuous
        )

    def _solve(self):
        """Estimate the group distributions and solve for their targets."""
        if self.blind:
            self._solve_blind()
            return
        tolerances, transports, maps = [], [], []
        pooled = np.array([self._pooled(counts) for counts in self.counts_])
        columns = zip(self.counts_, pooled, self.bounds_, self.output_, strict=True)
        for counts, alike, bounds, output in columns:
            tolerance = self.fairness_tolerance
            if tolerance == "auto":
                tolerance = histogram.default_tolerance(
                    counts, noise_variance=self._noise_variance
                )
            pmfs, weights = self._estimate(counts, alike)
            transport = self._transport(pmfs, weights, bounds, tolerance, output)
            continuous = output == "continuous"
            tolerances.append(tolerance)
            transports.append(transport)
            maps.append(
                histogram.continuous_map(transport, bounds) if continuous else None
            )
        self.fairness_tolerance_ = np.array(tolerances)
        self.pooled_groups_ = [self.groups_[alike] for alike in pooled]
        if pooled.any():
            groups = self.groups_[pooled.any(axis=0)].tolist()
            warn_caller(
                f"{histogram.untold_message(groups)} Their scores are repaired as "
                "those of all people together.",
                RepairWarning,
            )
        self.transports_ = transports
        self._maps = maps

    def _pooled(self, counts, n_summed=1) -> np.ndarray:
        """Groups that noise does not let be told from the rest.

        Each number of `counts` is the sum of `n_summed` released ones.
        """
        if self.estimation == "isotonic":
            return np.zeros(len(counts), dtype=bool)
        variance = n_summed * self._noise_variance
        return histogram.untold_groups(counts, variance, self._n_public)

    def _estimate(self, counts, pooled):
        """The groups' distributions and weights behind the noisy counts."""
        if self.estimation == "isotonic":
            return histogram.isotonic_estimate(counts, noise_scale=self._noise_scale)
        if self.estimation == "auto" and self._noise_variance == 0:
            return histogram.exact_estimate(counts)
        return histogram.smooth_estimate(
            counts,
            n=self._n_public,
            noise_variance=self._noise_variance,
            pooled=pooled,
        )

    def _transport(self, pmfs, weights, bounds, tolerance, output):
        """Solve for the targets of one column, on the grid that its output asks for."""
        if output == "continuous":
            pmfs = histogram.fine_pmfs(pmfs)
            grid = histogram.output_grid(bounds, pmfs.shape[1], 1)
        else:
            pmfs = histogram.refine_pmfs(pmfs, self.output_refinement)
            grid = histogram.output_grid(bounds, self.n_bins_, self.output_refinement)
        return fair_barycenter(
            grid, pmfs, weights, float(tolerance), solver=self.solver
        )

    @property
    def within_bin_error_(self) -> np.ndarray:
        """Largest gap beyond the tolerance that positions within bins can make.

        One number per column: the two largest masses that a group has in one bin, added
        up. It speaks of the estimated distributions; a randomised output does not look
        at positions within bins, and its number is zero.
        """
        check_is_fitted(self)
        errors = []
        for transport, fitted in zip(self.transports_, self._maps, strict=True):
            if fitted is None or transport.tolerance >= 1:
                errors.append(0.0)
                continue
            masses = transport.source_pmf.reshape(
                len(transport.weights), self.n_bins_, -1
            )
            largest = np.sort(masses.sum(axis=2).max(axis=1))
            errors.append(float(largest[-2:].sum()))
        return np.array(errors)

    def _mixed_rows(self, values, codes, transport, column) -> np.ndarray:
        """Rows whose bin has several targets: the others need no draw."""
        n_groups = len(transport.weights)
        centres = histogram.centre_indices(self.n_bins_, self.output_refinement)
        group, point = np.divmod(np.arange(n_groups * len(centres)), len(centres))
        ends = [
            transport.transport(group, centres[point], np.full(len(group), end))
            for end in (np.finfo(np.float64).tiny, 1.0)
        ]
        mixed = (ends[0] != ends[1]).reshape(n_groups, len(centres))
        bins = histogram.bin_scores(values, self.bounds_[column], self.n_bins_)
        return np.flatnonzero(mixed[codes, bins])

    def _repair(self, scores, codes, rows, *, spread):
        """Send every score to its target; `rows` key the draws."""
        repaired = np.empty(scores.shape)
        for column, transport in enumerate(self.transports_):
            lower, upper = self.bounds_[column]
            values = np.nan_to_num(scores[:, column], nan=lower).clip(lower, upper)
            if transport.tolerance >= 1:
                repaired[:, column] = values
            elif self.output_[column] == "continuous":
                repaired[:, column] = self._maps[column](values, codes)
            else:
                pooled = with_pooled_group(transport)
                u = None
                if self.output_[column] == "randomized":
                    # Another draw for each column; 1 - u lies in (0, 1].
                    keyed = codes * len(self.transports_) + column
                    mixed = self._mixed_rows(values, codes, pooled, column)
                    u = np.ones(len(values))
                    u[mixed] -= row_uniforms(
                        safe_indexing(rows, mixed),
                        keyed[mixed],
                        self._key,
                        spread=spread,
                    )
                for start in range(0, len(values), BLOCK):
                    part = slice(start, start + BLOCK)
                    repaired[part, column] = repair_scores(
                        values[part],
                        codes[part],
                        pooled,
                        self.bounds_[column],
                        self.n_bins_,
                        self.output_refinement,
                        None if u is None else u[part],
                    )
        return repaired

    # --- blind ---------------------------------------------------------------------

    def _check_arguments(self) -> None:
        solver_name(self.solver)  # a typo is found before it costs anything
        self._check_blind()
        if self.blind and self.output in ("randomized", "mean"):
            raise ValueError(
                f"A blind repair has a continuous output, got output={self.output!r}; "
                "leave it at 'auto'."
            )

    def _blind_shape(self) -> tuple[int, int, int]:
        n_groups = len(self.groups_)
        n_bins = blind.BINS if self.n_bins == "auto" else self.n_bins
        return n_groups, n_score_bins(n_groups, blind.REGIONS), n_bins

    def _release_blind(self, wall, rows, bounds) -> None:
        """Count by true group, region of the estimated shares and bin; then solve."""
        shape, block = self._blind_shape(), rows.whole()
        scores, codes = block.scores, block.codes
        cells = np.empty(scores.shape, dtype=np.int64)
        regions = self._regions(block.X, private=True)
        for column, pair in enumerate(bounds):
            bins = histogram.bin_scores(scores[:, column], tuple(pair), shape[2])
            cells[:, column] = (codes * shape[1] + regions) * shape[2] + bins
        query = CellCounts(
            shape,
            name="counts",
            theorem="user_guide/fair_regression:score_counts",
            n_tables=len(bounds),
        )
        counts = wall.release(query, rows.with_columns(cells=cells))
        self.counts_ = counts.reshape(len(bounds), *shape)
        self._noise_variance = float(wall.mechanism_of(query).variance)
        public_n = self.neighboring == "replace_one"
        self._n_public = max(rows.n_rows, 1) if public_n else None
        self.bounds_, self.n_bins_ = bounds, shape[2]
        self.output_ = ["continuous"] * len(bounds)
        self._solve_blind()

    def _solve_blind(self) -> None:
        tolerances, self._levels, self.repair_ = [], [], []
        for counts in self.counts_:
            tolerance = self.fairness_tolerance
            if tolerance == "auto":
                tolerance = histogram.default_tolerance(
                    counts.sum(axis=1), noise_variance=self._noise_variance
                )
            masses = blind.estimate_masses(counts, self._n_public, self._noise_variance)
            # What noise makes of the smallest group's distribution function.
            smallest = max(counts.sum(axis=(1, 2)).min(), 1.0)
            noise = np.sqrt(self._noise_variance * counts[0].size) / 2 / smallest
            untold = self._pooled(counts.sum(axis=1), counts.shape[1])
            helps = blind.largest_gap(masses) > noise and not untold.all()
            levels = blind.solve_levels(masses, tolerance if helps else 1.0)
            why = None if helps else DROWNED
            if helps and blind.cost(masses, levels) > blind.WORTH:
                why, levels = WORTHLESS, blind.solve_levels(masses, 1.0)
            tolerances.append(tolerance)
            self.repair_.append("none" if why else "repaired")
            self._levels.append(levels)
            if why:
                warn_caller(f"The blind repair stood back: {why}", RepairWarning)
        self.fairness_tolerance_ = np.array(tolerances)

    def _regions(self, X, *, private) -> np.ndarray:
        """Region of the estimated group shares in which each row lies."""
        return score_bins(self._group_shares(X, private=private), blind.REGIONS)

    def _repair_blind(self, scores, X) -> np.ndarray:
        """Send every score to its target by the region of its row."""
        regions = self._regions(X, private=False)
        repaired = np.empty(scores.shape)
        for column, (lower, upper) in enumerate(self.bounds_):
            values = np.nan_to_num(scores[:, column], nan=lower).clip(lower, upper)
            unit = (values - lower) / (upper - lower)
            mapped = self._levels[column](unit, regions)
            repaired[:, column] = lower + (upper - lower) * mapped
        return repaired


def with_pooled_group(transport: BarycenterResult) -> BarycenterResult:
    """Append the pooled group, the last row, to which code -1 points."""
    weights = transport.weights / transport.weights.sum()
    source = np.minimum(weights @ transport.source_cdf, 1.0)
    source[-1] = 1.0
    return replace(
        transport,
        weights=np.append(weights, 0.0),
        source_cdf=np.vstack([transport.source_cdf, source]),
        target_cdf=np.vstack([transport.target_cdf, transport.barycenter_cdf]),
    )


def repair_scores(scores, codes, transport, bounds, n_bins, refinement, u):
    """Remap one column of scores; without draws `u`, to the conditional mean.

    Bin i of group a owns the levels between its two CDF values; the draw picks one of
    them and the answer is the target's quantile there.
    """
    bins = histogram.bin_scores(scores, bounds, n_bins)
    centres = histogram.centre_indices(n_bins, refinement)[bins]
    codes = np.where(codes < 0, len(transport.weights) - 1, codes)
    if u is None:
        return transport.conditional_mean[codes, centres]
    targets = transport.transport(codes, centres, u)
    # A bin that the estimate leaves empty has no plan: as in [1]_, it is not moved.
    # Sending it to the target at its level costs much more (isotonic, little budget).
    empty = transport.source_pmf[codes, centres] == 0.0
    targets = np.where(empty, centres, targets)
    return transport.grid[targets]
