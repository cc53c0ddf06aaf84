"""Repair of numbers: release counts of the scores, solve, remap.

The estimators of `_barycenter` and `_barycenter_regressor` share it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairpriv_sklearn._door.estimator import n_entries, read_bounds
from fairpriv_sklearn._shared.arguments import each, number
from fairpriv_sklearn._shared.callers import warn_caller
from fairpriv_sklearn._shared.rowwise import RowDraws
from fairpriv_sklearn._shared.sklearn import Interval, StrOptions, safe_indexing
from fairpriv_sklearn._wall import (
    CellCounts,
    Fact,
    PrivacyFilter,
    Release,
    Rows,
    warn_leak,
)
from fairpriv_sklearn.postprocessing import _blind_numbers as blind
from fairpriv_sklearn.postprocessing import _histogram as histogram
from fairpriv_sklearn.postprocessing._blind import UNPAID, Reach
from fairpriv_sklearn.postprocessing._phases import PHASE_CONSTRAINTS
from fairpriv_sklearn.postprocessing._queries import DistinctScores, ScoreCounts
from fairpriv_sklearn.postprocessing._repair import Repair, RepairWarning, row_blocks
from fairpriv_sklearn.transport import BarycenterResult, fair_barycenter, solver_name

# Number of bins where it may not depend on the number of rows (add/remove).
BINS_WITHOUT_N = 36

# Part of the budget of output="auto" that asks whether scores are rounded: one number
# of sensitivity one, so little is enough.
ATOMS_SHARE = 0.05

COUNTS_THEOREM = "user_guide/fair_regression:score_counts"
LARGEST_BOUND = 1e150
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


_SIZES = "group sizes"


def _tolerance(name, value):
    if isinstance(value, str) and value == "auto":
        return value
    return number(0, 1)(name, value)


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
        return self._along(fairness_tolerances, _tolerance)

    def _spreads(self) -> bool:
        # Not fitted yet: "auto" may turn out either way.
        planned = ["continuous" if self.blind else self.output]
        outputs = getattr(self, "output_", planned)
        return any(output in ("auto", "randomized") for output in outputs)

    def _public_bounds(self, values: np.ndarray):
        """Bounds per column of `values` and the fact taken as public."""
        name = self._bounds_name
        given = getattr(self, name)
        if given is None:
            fact = warn_leak(name, "the range of the scores")
            lower, upper = values.min(axis=0), values.max(axis=0)
            upper = np.where(upper > lower, upper, lower + 1.0)
            return np.column_stack([lower, upper]), fact
        lower, upper = self._given_bounds(values.shape[1])
        ends = tuple(e.item() if e.size == 1 else e.tolist() for e in (lower, upper))
        return np.column_stack([lower, upper]), Fact(name, ends)

    def _given_bounds(self, n_columns: int):
        name, given = self._bounds_name, getattr(self, self._bounds_name)
        lower, upper = read_bounds(given, n_columns, name=name)
        if not (lower < upper).all():
            raise ValueError(f"{name} must have low < high, got {given!r}.")
        if max(np.abs(lower).max(), np.abs(upper).max()) > LARGEST_BOUND:
            raise ValueError(f"{name} must lie within +-1e150: squares overflow.")
        return lower, upper

    def _plan(self, n_columns: int) -> list[Release]:
        """What the calibration releases: a function of public numbers only."""
        if self.blind:
            n_groups = len(self.groups_)
            shape = self._blind_shape(blind.most_regions(n_groups))
            n_counts = n_columns * int(np.prod(shape))
            share = getattr(self, "reach_size", 0.0)
            sizes = (1 - share) * blind.SIZES_SHARE
            parts = [(_SIZES, sizes, n_groups)]
            parts.append((ScoreCounts.name, 1 - share - sizes, n_counts))
            if share > 0:
                n_counts = int(np.prod(shape[:2])) * blind.MEASURED_BINS
                parts.append(("reach", share, n_counts))
        else:
            most = MOST_BINS if self.n_bins == "auto" else self.n_bins
            n_counts = n_columns * len(self.groups_) * most
            share = ATOMS_SHARE if self.output == "auto" else 0.0
            parts = [(ScoreCounts.name, 1 - share, n_counts)]
            if share > 0:
                parts.append((DistinctScores.name, share, n_columns))
        return [
            Release(name, "pure", part * self.epsilon, n) for name, part, n in parts
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
        public_n = self.neighboring == "replace_one"
        # The draws may leave no row to calibrate: estimate as if there were one.
        self._n_public = max(rows.n_rows, 1) if public_n else None
        if self.blind:
            self._release_blind(wall, rows, bounds)
            return
        pairs = tuple(map(tuple, bounds.tolist()))
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

    def _pooled(self, counts) -> np.ndarray:
        """Groups that noise does not let be told from the rest."""
        if self.estimation == "isotonic":
            return np.zeros(len(counts), dtype=bool)
        return histogram.untold_groups(counts, self._noise_variance, self._n_public)

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

    def _estimated_cdf(self) -> np.ndarray:
        """The groups' distribution functions of the first column at the bins' ends."""
        if self.blind:
            masses = blind.estimate_masses(self.counts_[0], self._noise_variance)
            masses = masses.sum(axis=1)
            return masses.cumsum(axis=1) / masses.sum(axis=1, keepdims=True)
        transport = self.transports_[0]
        per_bin = transport.grid.size // self.n_bins_
        return transport.source_cdf[:, per_bin - 1 :: per_bin]

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

    def _repair(self, blocks, codes, *, spread):
        """Send every score to its target.

        Parameters
        ----------
        blocks : iterable of (slice, scores, table)
            Rows, their scores, and what keys their draws.
        codes : ndarray of shape (n_rows,)
        spread : bool
        """
        n_columns = len(self.transports_)
        repaired = np.empty((len(codes), n_columns))
        plans = {
            column: DrawnTargets(self, column)
            for column, (transport, output) in enumerate(
                zip(self.transports_, self.output_, strict=True)
            )
            if transport.tolerance < 1 and output != "continuous"
        }
        for rows, scores, keyed in blocks:
            for column, transport in enumerate(self.transports_):
                lower, upper = self.bounds_[column]
                values = np.nan_to_num(scores[:, column], nan=lower).clip(lower, upper)
                if column in plans:
                    # Another draw for each column.
                    key_codes = codes[rows] * n_columns + column
                    plans[column].read(values, codes[rows], keyed, key_codes)
                elif transport.tolerance < 1:
                    values = self._maps[column](values, codes[rows])
                repaired[rows, column] = values
        for column, plan in plans.items():
            u = plan.draws.uniforms(spread=spread)
            for rows in row_blocks(len(codes)):
                values = repaired[rows, column]
                repaired[rows, column], u = plan.targets(values, codes[rows], u)
        return repaired

    # --- blind ---------------------------------------------------------------------

    def _check_arguments(self) -> None:
        super()._check_arguments()
        solver_name(self.solver)  # a typo is found before it costs anything
        given = getattr(self, self._bounds_name)
        if given is not None:
            one = self._bounds_name == "target_bounds"
            self._given_bounds(1 if one else n_entries(given))
        if self.blind and self.output in ("randomized", "mean"):
            raise ValueError(
                f"A blind repair has a continuous output, got output={self.output!r}; "
                "leave it at 'auto'."
            )

    def _blind_shape(self, n_regions: int) -> tuple[int, int, int]:
        n_bins = blind.BINS if self.n_bins == "auto" else self.n_bins
        return len(self.groups_), n_regions, n_bins

    def _release_blind(self, wall, rows, bounds) -> None:
        """Count by true group, region of the estimated shares and bin; then solve."""
        block = rows.whole()
        query = CellCounts((len(self.groups_),), name=_SIZES, theorem=COUNTS_THEOREM)
        sizes = wall.release(query, rows.with_columns(cells=block.codes))
        self._centres = blind.region_centres(sizes, self.epsilon)
        shape = self._blind_shape(len(self._centres))
        regions = self._regions(block.X, private=True)

        def counted(name, shape):
            cells = np.empty(block.scores.shape, dtype=np.int64)
            for column, pair in enumerate(bounds):
                bins = histogram.bin_scores(
                    block.scores[:, column], tuple(pair), shape[2]
                )
                cells[:, column] = (block.codes * shape[1] + regions) * shape[2] + bins
            about = {"theorem": COUNTS_THEOREM, "n_tables": len(bounds)}
            query = CellCounts(shape, name=name, **about)
            counts = wall.release(query, rows.with_columns(cells=cells))
            variance = float(wall.mechanism_of(query).variance)
            return counts.reshape(len(bounds), *shape), variance

        self.counts_, self._noise_variance = counted(ScoreCounts.name, shape)
        self._measured = None
        if getattr(self, "reach_size", 0.0) > 0:
            self._measured = counted("reach", (*shape[:2], blind.MEASURED_BINS))
        self.bounds_, self.n_bins_ = bounds, self.counts_.shape[-1]
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
            _, levels, why = self._blind_levels(counts, tolerance)
            tolerances.append(tolerance)
            self.repair_.append("none" if why else "repaired")
            self._levels.append(levels)
            if why:
                warn_caller(f"The blind repair stood back: {why}", RepairWarning)
        self.fairness_tolerance_ = np.array(tolerances)

    def _blind_levels(self, counts, tolerance):
        """Estimated masses, maps, and why the repair stands back, if it does."""
        masses = blind.estimate_masses(counts, self._noise_variance)
        # What noise makes of the smallest group's distribution function.
        sizes = counts.sum(axis=(1, 2))
        smallest = max(sizes.min(), 1.0)
        doubt = np.sqrt(self._noise_variance * counts[0].size) / 2 / smallest
        if doubt and (self._n_public or sizes.sum()) <= histogram.LARGE:
            doubt = blind.TOLD * np.hypot(doubt, 0.5 / np.sqrt(smallest))
        gap = blind.largest_gap(masses)
        if gap <= doubt:
            return masses, blind.solve_levels(masses, 1.0), DROWNED
        levels = blind.solve_levels(masses, tolerance)
        left = blind.reached_gap(masses, levels) - tolerance
        useless = left > blind.LEFT * max(gap - tolerance, 0.0)
        if useless or blind.cost(masses, levels) > blind.WORTH:
            return masses, blind.solve_levels(masses, 1.0), WORTHLESS
        return masses, levels, None

    def _read_reach(self, tolerances) -> Reach:
        """Measure the repair for other tolerances by counts that were paid for."""
        if getattr(self, "_measured", None) is None:
            raise ValueError(UNPAID)
        (table,), variance = self._measured
        lower, upper = self.bounds_[0]
        tolerances = np.asarray(each(number(0, 1))("fairness_tolerances", tolerances))
        measured, strengths = [], []
        for tolerance in tolerances:
            masses, levels, why = self._blind_levels(self.counts_[0], tolerance)
            measured.append(blind.measure(table, masses, levels, variance))
            strengths.append(float(why is None and tolerance < 1))
        return Reach.of(
            measured,
            tolerances,
            strengths,
            scale=(upper - lower) ** 2,
            error_name="mean squared change",
        )

    def _regions(self, X, *, private) -> np.ndarray:
        """Region of the estimated group shares in which each row lies."""
        shares = self._group_shares(X, private=private)
        return blind.nearest_region(shares, self._centres)

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


class DrawnTargets:
    """Targets of one score column on the grid, drawn where a bin has several."""

    def __init__(self, repair: NumberRepair, column: int):
        self.transport = with_pooled_group(repair.transports_[column])
        self.bounds, self.n_bins = repair.bounds_[column], repair.n_bins_
        self.refinement = repair.output_refinement
        self.draws = RowDraws(repair._key)
        n_groups = len(self.transport.weights)
        self.mixed = np.zeros((n_groups, self.n_bins), dtype=bool)
        self.random = repair.output_[column] == "randomized"
        if self.random:
            group, point = np.divmod(np.arange(self.mixed.size), self.n_bins)
            centres = histogram.centre_indices(self.n_bins, self.refinement)[point]
            ends = [
                self.transport.transport(group, centres, np.full(len(group), end))
                for end in (np.finfo(np.float64).tiny, 1.0)
            ]
            self.mixed = (ends[0] != ends[1]).reshape(self.mixed.shape)

    def read(self, values, codes, keyed, key_codes) -> None:
        """Note the rows of a block that need a draw."""
        bins = histogram.bin_scores(values, self.bounds, self.n_bins)
        rows = np.flatnonzero(self.mixed[codes, bins])
        if len(rows):
            self.draws.add(safe_indexing(keyed, rows), key_codes[rows])

    def targets(self, values, codes, u):
        """Targets of a block, and the draws that are left for later ones."""
        levels = None
        if self.random:
            bins = histogram.bin_scores(values, self.bounds, self.n_bins)
            rows = np.flatnonzero(self.mixed[codes, bins])
            levels = np.ones(len(values))
            levels[rows] -= u[: len(rows)]  # in (0, 1]
            u = u[len(rows) :]
        targets = repair_scores(
            values,
            codes,
            self.transport,
            self.bounds,
            self.n_bins,
            self.refinement,
            levels,
        )
        return targets, u


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
