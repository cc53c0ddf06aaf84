"""Repair of numbers: release counts of the scores, solve, remap.

The estimators of `_barycenter` and `_barycenter_regressor` share it.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._door.bounds import n_entries, read_bounds
from .._shared.arguments import each, number
from .._shared.arrays import row_slices
from .._shared.rowwise import RowDraws
from .._shared.sklearn import Interval, StrOptions, safe_indexing
from .._wall import CellCounts, Fact, PrivacyFilter, Release, Rows, warn_leak
from ..transport import BarycenterResult, fair_barycenter, solver_name
from . import _blind_numbers as blind
from . import _continuous_map as continuous_map
from . import _histogram as histogram
from . import _repair, _scale
from . import _score_bins as score_bins
from . import _significance as significance
from ._blind import UNPAID, Reach
from ._phases import PHASE_CONSTRAINTS
from ._queries import DistinctScores, ScoreCounts
from ._repair import Repair
from ._scale import UNIT, Scale

# Number of bins where it may not depend on the number of rows (add/remove).
BINS_WITHOUT_N = 36

# Part of the budget of output="auto" that asks whether scores are rounded: one number
# of sensitivity one, so little is enough.
ATOMS_SHARE = 0.05

COUNTS_THEOREM = "user_guide/fair_regression_proofs:score_counts"
LARGEST_BOUND = 1e150
# The most bins that a rule may ask for; the plan is made before it is known.
MOST_BINS = 192
UNTOLD = (
    "by the noise of its counts, or by chance in few rows, the groups' scores might "
    "differ as much afterwards. More rows, a larger epsilon or a stronger model of the "
    "groups may help."
)
CROWDED = (
    "the scores lie in so small a part of the bounds that noise does not let them be "
    "told apart there, as those of a model do that answers nearly the same for "
    "everybody. More rows, a larger epsilon, narrower bounds or, where their number is "
    "given, more bins may help."
)
COARSE = (
    "By noisy counts more than a tenth of a group have scores in one bin, and "
    'output="mean" answers all of them alike: a gap of about {:.2f} is left of one of '
    '{:.2f}. output="randomized" parts them, and more bins (n_bins) may help.'
)
WORSE = (
    'The repair stood back: output="mean" answers all of one bin alike, which by noisy '
    "counts would make a gap of about {:.2f} of one of {:.2f}. "
    'output="randomized" parts them, and more bins (n_bins) may help.'
)
PEAKED = (
    "By noisy counts more than half of a group have scores in bins that stand out from "
    "those beside them, as scores do that crowd or repeat. Where in a bin they are is "
    "not known, and by that a gap of up to {:.2f} may remain. Narrower bounds, more "
    "bins or the logarithm of what is predicted may help scores that crowd, and an "
    "output that is drawn those that repeat."
)
WORTHLESS = (
    "by its noisy counts equal answers for all groups would be nearly constant. Here X "
    "hardly tells the groups, or tells the target by the same means, and parity costs "
    "more than it is worth. A stronger model of the groups or a larger tolerance may "
    "help."
)


# Bounds that are nearer, relative to the larger, cannot be cut into all bins.
NARROWEST = 1e-9
_SIZES = "group sizes"
_ALL_SCORES = "scores of all groups"


def too_narrow(lower, upper) -> np.ndarray:
    """Whether bounds are so near that floating-point numbers between them run out."""
    larger = np.maximum(np.abs(lower), np.abs(upper))
    return ~(upper - lower > np.maximum(NARROWEST * larger, 1e-150))


def _tolerance(name, value):
    if isinstance(value, str) and value == "auto":
        return value
    return number(0, 1)(name, value)


def _is_worse(left: float, before: float) -> bool:
    return left > before + significance.MAY_REMAIN


def _parts_of(epsilon: float, shares) -> list[float]:
    """Parts of epsilon, which are no more than all of it although they are rounded."""
    parts = [share * epsilon for share in shares]
    while epsilon < math.inf and sum(map(Fraction, parts)) > epsilon:
        parts[0] = math.nextafter(parts[0], 0.0)
    return parts


class NumberRepair(Repair):
    """What the transformer and the regressor share: release, solve, remap.

    Parameters
    ----------
    estimation : {"auto", "smooth", "isotonic"}, default="auto"
        How distributions are estimated from the noisy counts. "smooth" treats each
        group as a smooth share of the pooled distribution; "isotonic" is the published
        method, for comparison. "auto" is "smooth" where there is noise; without it the
        counts are taken as they are, so that the tolerance holds for the calibration
        rows themselves, up to `within_bin_error_` and the draws of "randomized".
    output_refinement : int, default=3
        Number of output values per bin. Range: [1, 100].
    solver : str, default="exact"
        "exact", "cvxpy", or a solver's name; see `transport.fair_barycenter`.
    """

    _renamed = {"randomized": "output"}
    _bounds_name = "bounds"
    _overshoots = False  # whether scores may lie beyond their bounds
    # Low and high of the scores that any row may be given, if that was released.
    _reachable: tuple[float, float] | None = None

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
        outputs = getattr(self, "output_", [self.output])
        return any(output in ("auto", "randomized") for output in outputs)

    def _public_bounds(self, values: np.ndarray):
        """Bounds per column of `values` and the fact taken as public."""
        name = self._bounds_name
        given = getattr(self, name)
        if given is None:
            fact = warn_leak(name, "the range of the scores")
            ends = values.min(axis=0), values.max(axis=0)
            lower, upper = np.clip(ends, -LARGEST_BOUND, LARGEST_BOUND)
            middle, half = (lower + upper) / 2, np.maximum(1.0, np.abs(upper)) / 2
            narrow = too_narrow(lower, upper)
            lower = np.where(narrow, middle - half, lower)
            upper = np.where(narrow, middle + half, upper)
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
        if (too_narrow(lower, upper)).any():
            raise ValueError(
                f"{name} must be further apart, at least {NARROWEST:g} of the larger: "
                "between them numbers have too few digits."
            )
        return lower, upper

    def _plan(self, n_columns: int = 1, n_rows: float | None = None) -> list[Release]:
        """What the calibration releases: a function of public numbers only.

        `n_rows` is the number of rows that are expected to calibrate.
        """
        n_groups = len(self.groups_)
        others, reach, n_cells, most = [], 0.0, n_groups, MOST_BINS
        if self.blind:
            others.append((_SIZES, blind.SIZES_SHARE, n_groups))
            reach = getattr(self, "reach_size", 0.0)
            n_cells *= blind.most_regions(n_groups)
            most = round(_scale.GROWTH * blind.BINS)
        if self.output == "auto":
            share = blind.ATOMS_SHARE if self.blind else ATOMS_SHARE
            others.append((DistinctScores.name, share, n_columns))
        if self.n_bins == "auto":
            n_public = n_rows if self.neighboring == "replace_one" else None
            share = _scale.share(n_public, self.epsilon / n_columns)
            if self.blind:
                share = blind.SCALE_SHARE
            others.append((_ALL_SCORES, share, n_columns * _scale.CELLS))
        else:
            most = self.n_bins
        left = 1 - sum(share for _, share, _ in others)
        parts = [(ScoreCounts.name, left, n_columns * n_cells * most), *others]
        parts = [(name, (1 - reach) * share, n) for name, share, n in parts]
        if reach > 0:
            parts.append(("reach", reach, n_cells * max(blind.MEASURED_BINS, most)))
        names, shares, sizes = zip(*parts, strict=True)
        epsilons = _parts_of(float(self.epsilon), shares)
        lines = zip(names, epsilons, sizes, strict=True)
        return [Release(name, "pure", epsilon, n) for name, epsilon, n in lines]

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
        self.bounds_ = bounds
        if self.blind:
            self._release_blind(wall, rows)
            return
        growth = self._choose_scales(wall, rows)
        distinct, scale = self._release_distinct(wall, rows)
        if public_n:
            self._choose_output(distinct, scale, self._n_public)
        self.n_bins_ = self._number_of_bins(growth)
        query = ScoreCounts(tuple(self._scales), len(self.groups_), self.n_bins_)
        self.counts_ = wall.release(query, rows)
        if not public_n:
            self._choose_output(distinct, scale, float(self.counts_[0].sum()))
        mechanism = wall.mechanism_of(query)
        self._noise_variance = float(mechanism.variance)
        self._noise_scale = float(mechanism.scale)
        self._unsplit(distinct, scale)
        self._key = wall.noise.public().key(32)
        self._solve()

    @property
    def _counted(self) -> np.ndarray:
        """Range per column in which a fit tells scores apart."""
        if not self._overshoots:
            return self.bounds_
        bounds = _scale.beyond(self.bounds_)
        if self.n_bins == "auto" and self._reachable is not None:
            bounds = _scale.within(bounds, self._reachable)
        return bounds

    def _choose_scales(self, wall, rows) -> float:
        """Stretch crowded parts of the ranges; by how much the bins are to grow."""
        self._scales = [Scale.even(pair) for pair in self._counted]
        if self.n_bins != "auto":
            return 1.0
        query = ScoreCounts(tuple(self._scales), 1, _scale.CELLS, name=_ALL_SCORES)
        counts = wall.release(query, rows)[:, 0]
        variance = float(wall.mechanism_of(query).variance)
        even, asked = self._scales, (_scale.CROWDED, self._n_public)
        if self.blind:
            asked = (blind.CROWDED,)
        self._scales = [
            scale.stretched(column, variance, *asked)
            for scale, column in zip(even, counts, strict=True)
        ]
        return 1.0 if self._scales == even else _scale.GROWTH

    def _release_distinct(self, wall, rows):
        """The numbers of distinct scores, and their noise, if "auto" asks for them."""
        if self.output != "auto":
            return None, 0.0
        query = DistinctScores(tuple(map(tuple, self._counted.tolist())))
        return wall.release(query, rows), wall.scale(query)

    def _choose_output(self, distinct, scale, n) -> None:
        """Settle what "auto" stands for, from noisy and public numbers."""
        self._output_was_auto = self.output == "auto"
        if distinct is None:
            self.output_ = [self.output] * len(self._counted)
            return
        told = (significance.is_continuous(one, n, scale) for one in distinct.tolist())
        self.output_ = ["continuous" if one else "randomized" for one in told]

    def _unsplit(self, distinct, scale) -> None:
        """Leave bins whole where atoms are small or bins wide, by released numbers."""
        if distinct is None:
            return
        for column, counts in enumerate(self.counts_):
            counts = counts.reshape(-1, self.n_bins_)
            told = counts.sum(axis=0), len(counts) * self._noise_variance
            small = significance.has_small_atoms(distinct[column], scale, *told)
            if small or self._are_wide(counts, self._scales[column]):
                self.output_[column] = "continuous"

    def _are_wide(self, counts, scale) -> bool:
        """Whether a draw within few default bins would hide what the scores tell."""
        variance = self._noise_variance
        if self.n_bins != "auto" or not self._in_few_bins(counts):
            return False
        if significance.is_constant(counts, variance):
            return False  # nobody is moved
        told = counts.sum(axis=0), len(counts) * variance
        return significance.lost_in_bins(*told, scale) > significance.MOST_LOST

    def _number_of_bins(self, growth) -> int:
        """Number of bins: a rule of public and of released numbers."""
        if self.n_bins != "auto":
            return self.n_bins
        if self.blind:
            return round(growth * blind.BINS)
        if self._n_public is None:
            return round(growth * BINS_WITHOUT_N)
        continuous = set(self.output_) == {"continuous"}
        n_bins = score_bins.default_n_bins(
            self._n_public, self.epsilon, continuous=continuous
        )
        return min(round(growth * n_bins), MOST_BINS)

    def _solve(self):
        """Estimate the group distributions and solve for their targets."""
        if self.blind:
            self._solve_blind()
            return
        pooled = np.array([self._pooled(counts) for counts in self.counts_])
        crowded = [
            output == "continuous" and self._crowded(counts)
            for output, counts in zip(self.output_, self.counts_, strict=True)
        ]
        seen = np.flatnonzero(np.invert(crowded))
        pooled[crowded] = True
        columns = zip(self.counts_, pooled, self._scales, self.output_, strict=True)
        solved = zip(*(self._solve_column(*column) for column in columns), strict=True)
        tolerances, self.transports_, self._windows, self._maps = map(list, solved)
        self.fairness_tolerance_ = np.array(tolerances)
        self.pooled_groups_ = [self.groups_[alike] for alike in pooled]
        if any(crowded):
            self._note(f"The repair stood back: {CROWDED}")
        coarse = self.within_bin_error_ > 2 * significance.MAY_REMAIN
        coarse &= (np.array(self.output_) == "mean") & ~pooled.all(axis=1)
        for column in np.flatnonzero(coarse):
            gaps = self._gaps_of_means(column)
            self._note((WORSE if _is_worse(*gaps) else COARSE).format(*gaps))
        peaked = [column for column in seen if self._is_peaked(column)]
        if peaked:
            self._note(PEAKED.format(self.within_bin_error_[peaked].max()))
        groups = self.groups_.tolist()
        none_told = seen.size > 0 and pooled[seen].any(axis=0).all()
        left = np.array([self._left_gap(column) for column in seen])
        most = 0.0 if none_told else significance.MAY_REMAIN
        may, repaired = left.max(initial=0.0), seen[left <= most]
        untold = self.groups_[pooled[repaired].any(axis=0)].tolist()
        if untold and not (none_told and may > most):
            self._note(
                f"{significance.untold_message(untold, len(groups))} Their scores "
                "are repaired as those of all people together."
            )
        if may > most:
            hidden = self._hidden()
            known = self.groups_[~hidden].tolist()
            self._note(
                f"{significance.untold_message(known, len(known))} They may by up to "
                f"{may:.2f}, and their scores are hardly moved."
            )
            if hidden.any():
                self._note(
                    "Noise hides even how many people there are of the groups "
                    f"{self.groups_[hidden].tolist()!r}: by how much they differ is "
                    "not known."
                )

    def _solve_column(self, counts, pooled, scale, output):
        """Tolerance, transport, window and, of a continuous output, map of a column."""
        tolerance = self._tolerance(counts)
        pmfs, weights = self._estimate(counts, pooled)
        window = self._window(pmfs, counts, scale)
        transport = self._transport(pmfs, weights, scale, tolerance, output)
        fitted = None
        if output == "continuous":
            fitted = continuous_map.continuous_map(transport, scale, window)
        return tolerance, transport, window, fitted

    def _is_peaked(self, column) -> bool:
        """Whether places within bins decide what an increasing map leaves of a gap."""
        n_pooled = len(self.pooled_groups_[column])
        if self._maps[column] is None or n_pooled == len(self.groups_):
            return False
        if self.transports_[column].tolerance >= 1:
            return False  # nobody is moved
        sizes = self.counts_[column].sum(axis=1)
        return significance.are_peaked(self._bin_masses(column), sizes)

    def _left_gap(self, column) -> float:
        """By how much groups may differ that are hardly moved for want of evidence."""
        counts, variance = self.counts_[column], self._noise_variance
        constant = variance == 0 or significance.is_constant(counts, variance)
        if constant or self._is_told(column):
            return 0.0
        gaps = significance.largest_gaps(counts, variance)
        pooled = np.isin(self.groups_, self.pooled_groups_[column])
        return float(gaps[(~pooled | pooled.all()) & ~self._hidden()].max(initial=0))

    def _hidden(self) -> np.ndarray:
        """Groups whose size noise hides; none if it hides nearly all of them."""
        counts = self.counts_.reshape(*self.counts_.shape[:2], -1)
        drowned = significance.are_drowned(counts, self._noise_variance)
        hidden = drowned.any(axis=0)
        return hidden & (np.count_nonzero(~hidden) > 1)

    def _tolerance(self, counts) -> float:
        """The tolerance of a column with these counts by group and bin."""
        if self.fairness_tolerance != "auto":
            return self.fairness_tolerance
        return significance.default_tolerance(
            counts.reshape(len(counts), -1), noise_variance=self._noise_variance
        )

    def _pooled(self, counts) -> np.ndarray:
        """Groups that noise does not let be told from the rest."""
        if self.estimation == "isotonic":
            return np.zeros(len(counts), dtype=bool)
        return significance.untold_numbers(counts, self._noise_variance, self._n_public)

    def _in_few_bins(self, counts) -> bool:
        """Whether nearly all scores are in very few of the bins."""
        counts, variance = counts.reshape(-1, self.n_bins_), self._noise_variance
        asked = self.n_bins != "auto"
        if variance == 0 or (self.blind and asked):
            return False
        fewest = blind.FEWEST_BINS if self.blind else significance.FEWEST_BINS
        if asked:  # who asks for few bins has few of them in use
            fewest = min(fewest, self.n_bins_ / 2)
        told = counts.sum(axis=0), len(counts) * variance
        return significance.bins_in_use(*told, self._n_public) < fewest

    def _crowded(self, counts) -> bool:
        """Whether these are so few that a repair stands back."""
        if not self._in_few_bins(counts):
            return False
        if self.blind:
            return True
        told = counts.sum(axis=0), len(counts) * self._noise_variance
        return not significance.has_third_bin(*told, self._n_public)

    def _estimate(self, counts, pooled):
        """The groups' distributions and weights behind the noisy counts."""
        if self.estimation == "isotonic":
            return histogram.isotonic_estimate(counts, noise_scale=self._noise_scale)
        if self.estimation == "auto" and self._noise_variance == 0:
            return histogram.exact_estimate(counts)
        return histogram.smooth_estimate(
            counts, n=self._n_public, noise_variance=self._noise_variance, pooled=pooled
        )

    def _window(self, pmfs, counts, scale) -> np.ndarray:
        """Range that holds all scores but few; takes the mass beyond it off `pmfs`.

        What is estimated far away is noise, but sends scores there. A score beyond is
        moved as far as the end of the window.
        """
        first, last = 0, self.n_bins_
        if self.estimation != "isotonic" and self._noise_variance > 0:
            variance = len(counts) * self._noise_variance
            first, last = significance.told_bins(counts.sum(axis=0), variance, scale)
        pmfs[:, :first], pmfs[:, last:] = 0.0, 0.0
        pmfs /= pmfs.sum(axis=1, keepdims=True)
        # The upper end of a bin is in the next one.
        end = last - 2.0**-20 if last < self.n_bins_ else last
        return scale.inverse(np.array([first, end]) / self.n_bins_)

    def _transport(self, pmfs, weights, scale, tolerance, output):
        """Solve for the targets of one column, on the grid that its output asks for."""
        if output == "continuous":
            pmfs = continuous_map.fine_pmfs(pmfs)
            grid = score_bins.output_grid(UNIT, pmfs.shape[1], 1)
        else:
            pmfs = score_bins.refine_pmfs(pmfs, self.output_refinement)
            grid = score_bins.output_grid(UNIT, self.n_bins_, self.output_refinement)
        return fair_barycenter(
            scale.inverse(grid), pmfs, weights, float(tolerance), solver=self.solver
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
        up, and 1 at most. It speaks of the estimated distributions; a randomised output
        does not look at positions within bins, and its number is zero.
        """
        check_is_fitted(self)
        errors = []
        for column, output in enumerate(self.output_):
            if output == "randomized" or self.transports_[column].tolerance >= 1:
                errors.append(0.0)
                continue
            largest = np.sort(self._bin_masses(column).max(axis=1))
            errors.append(min(float(largest[-2:].sum()), 1.0))
        return np.array(errors)

    def _bin_masses(self, column) -> np.ndarray:
        """The groups' estimated masses in the bins of a column."""
        transport = self.transports_[column]
        firsts = transport.grid.size // self.n_bins_ * np.arange(self.n_bins_)
        return np.add.reduceat(transport.source_pmf, firsts, axis=1)

    def _gaps_of_means(self, column) -> tuple[float, float]:
        """The gap that means of bins leave, and that of the bins, as estimated."""
        transport, masses = self.transports_[column], self._bin_masses(column)
        refinement = transport.grid.size // self.n_bins_
        centres = score_bins.centre_indices(self.n_bins_, refinement)
        answers = transport.conditional_mean[:, centres].clip(*self.bounds_[column])
        cdfs = [
            np.append(0.0, mass.cumsum())[np.searchsorted(own, answers, side="right")]
            for own, mass in zip(answers, masses, strict=True)
        ]
        before = np.ptp(masses.cumsum(axis=1), axis=0).max()
        return float(np.ptp(cdfs, axis=0).max()), float(before)

    def _repair(self, blocks, codes, *, spread):
        """Send every score to its target.

        Parameters
        ----------
        blocks : iterable of (slice, scores, table)
            Rows, their scores, and what keys their draws or, blind, tells their groups.
        codes : ndarray of shape (n_rows,) or None
        spread : bool
        """
        if self.blind:
            return self._repair_blind(blocks, spread)
        n_columns = len(self.transports_)
        repaired = np.empty((len(codes), n_columns))
        plans = {}
        columns = zip(self.transports_, self.output_, strict=True)
        for column, (transport, output) in enumerate(columns):
            has_draws = transport.tolerance < 1 and output != "continuous"
            if has_draws and self._differ(column):
                plans[column] = DrawnTargets(self, column)
        for rows, scores, keyed in blocks:
            for column, transport in enumerate(self.transports_):
                lower, upper = self._scales[column].knots[[0, -1]]
                values = np.nan_to_num(scores[:, column], nan=lower).clip(lower, upper)
                if column in plans:
                    # Another draw for each column.
                    key_codes = codes[rows] * n_columns + column
                    plans[column].read(values, codes[rows], keyed, key_codes)
                elif transport.tolerance < 1 and self._maps[column] is not None:
                    values = self._maps[column](values, codes[rows])
                repaired[rows, column] = values
        for column, plan in plans.items():
            u = plan.draws.uniforms(spread=spread)
            for rows in row_slices(len(codes), _repair.PREDICTED_ROWS):
                values = repaired[rows, column]
                repaired[rows, column], u = plan.targets(values, codes[rows], u)
        return repaired.clip(*self.bounds_.T, out=repaired)

    def _differ(self, column) -> bool:
        """Whether groups are told apart; a plan would else but round scores to bins.

        Who asks for a randomised output gets that, as groups may differ within bins;
        "auto" asks that they differ by more than the error of their distributions.
        """
        if len(self.pooled_groups_[column]) == len(self.groups_):
            return False
        if self.output_[column] == "mean":
            return not _is_worse(*self._gaps_of_means(column))
        if not self._output_was_auto or self._noise_variance == 0:
            return True
        counts, variance = self.counts_[column], self._noise_variance
        constant = significance.is_constant(counts, variance)
        return not constant and self._is_told(column)

    def _is_told(self, column) -> bool:
        """Whether a group differs from all others by more than both may be wrong by.

        Not by more than the smallest group may be: "all others" has hardly anybody.
        """
        counts, variance = self.counts_[column], self._noise_variance
        transport = self.transports_[column]
        of_all = transport.weights @ transport.source_cdf
        for own, cdf, weight in zip(
            counts, transport.source_cdf, transport.weights, strict=True
        ):
            apart = np.abs(cdf - of_all).max() / max(1 - weight, 1e-9)
            both = np.stack([own, counts.sum(axis=0) - own])
            if apart > significance.default_tolerance(both, noise_variance=variance):
                return True
        return False

    # --- blind ---------------------------------------------------------------------

    def _check_arguments(self) -> None:
        super()._check_arguments()
        solver_name(self.solver)  # a typo is found before it costs anything
        given = getattr(self, self._bounds_name)
        if given is not None:
            one = self._bounds_name == "target_bounds"
            self._given_bounds(1 if one else n_entries(given))
        if self.blind and self.output == "mean":
            raise ValueError(
                "A blind repair does not answer means, got output='mean'; leave it at "
                "'auto'."
            )

    def _release_blind(self, wall, rows) -> None:
        """Count by true group, region of the estimated shares and bin; then solve."""
        block = rows.whole()
        query = CellCounts((len(self.groups_),), name=_SIZES, theorem=COUNTS_THEOREM)
        sizes = wall.release(query, rows.with_columns(cells=block.codes))
        self._centres = blind.region_centres(sizes, self.epsilon)
        self.n_bins_ = self._number_of_bins(self._choose_scales(wall, rows))
        distinct, noise = self._release_distinct(wall, rows)
        shape = len(self.groups_), len(self._centres)
        regions = self._regions(block.X, private=True)
        columns = zip(self._scales, block.scores.T, strict=True)
        places = np.column_stack([scale(column) for scale, column in columns])

        def counted(name, n_bins):
            bins = score_bins.bin_scores(places, UNIT, n_bins)
            cells = (block.codes * shape[1] + regions)[:, None] * n_bins + bins
            n_tables = len(self._scales)
            about = {"theorem": COUNTS_THEOREM, "n_tables": n_tables}
            query = CellCounts((*shape, n_bins), name=name, **about)
            counts = wall.release(query, rows.with_columns(cells=cells))
            variance = float(wall.mechanism_of(query).variance)
            return counts.reshape(n_tables, *shape, n_bins), variance

        self.counts_, self._noise_variance = counted(ScoreCounts.name, self.n_bins_)
        n = self._n_public or float(self.counts_[0].sum())
        self._choose_output(distinct, noise, n)
        self._unsplit(distinct, noise)
        self._measured = None
        if getattr(self, "reach_size", 0.0) > 0:
            split = self.output_ == ["randomized"]
            n_bins = self.n_bins_ if split else blind.MEASURED_BINS
            self._measured = counted("reach", n_bins)
        self._key = wall.noise.public().key(32)
        self._solve_blind()

    def _solve_blind(self) -> None:
        self.fairness_tolerance_ = np.array([self._tolerance(c) for c in self.counts_])
        self._levels, self.repair_, self.pooled_groups_ = [], [], []
        for column, tolerance in enumerate(self.fairness_tolerance_):
            told, _, levels, why = self._blind_levels(column, tolerance)
            self.repair_.append("none" if why else "repaired")
            self._levels.append(levels)
            self.pooled_groups_.append(self.groups_[~told])
            if why:
                self._note(f"The blind repair stood back: {why}")
                if why is UNTOLD and (hidden := self._hidden()).any():
                    self._note(
                        "Noise hides how many people the groups "
                        f"{self.groups_[hidden].tolist()!r} have: more of them may let "
                        "all be repaired or, if there is nobody, a list without them."
                    )
            elif not told.all():
                untold = self.pooled_groups_[-1].tolist()
                self._note(
                    f"{significance.untold_message(untold, len(self.groups_))} The "
                    "answers are made equal for the other groups alone."
                )

    def _blind_levels(self, column, tolerance):
        """Solve for all groups but those with next to nobody.

        Of these the ones that drown are left out, and, where the repair would stand
        back, the smallest ones, one after the other.

        Returns
        -------
        told : ndarray of shape (n_groups,), bool
            Groups whose answers are made equal.
        masses : ndarray of shape (n_told, n_regions, n_bins)
        levels : LevelMaps
        why : str or None
            Why the repair stands back, if it does.
        """
        counts = self.counts_[column]
        levels_of = partial(
            self._levels_of,
            scale=self._scales[column],
            split=self.output_[column] == "randomized",
        )
        sizes = counts.sum(axis=(1, 2))
        noise = np.sqrt(counts[0].size * self._noise_variance)
        few = significance.next_to_nobody(sizes, noise)
        told = ~few | (sizes >= significance.DROWNED * noise)
        while True:
            solved = levels_of(counts[told], tolerance)
            small = told & few & (sizes < blind.SMALL * noise)
            if solved[-1] is not UNTOLD:
                return told, *solved
            if not small.any():
                masses, levels, _ = levels_of(counts, 1.0)
                return np.ones_like(told), masses, levels, UNTOLD
            told[np.where(small, sizes, np.inf).argmin()] = False

    def _levels_of(self, counts, tolerance, *, scale, split):
        """Estimated masses, maps, and why the repair stands back, if it does."""
        variance = self._noise_variance
        masses = told = blind.estimate_masses(counts, variance)

        def stood_back(why):
            return masses, blind.solve_levels(masses, 1.0), why

        if self._crowded(counts):
            return stood_back(CROWDED)
        gap = blind.largest_gap(masses) - tolerance
        of_groups = counts.sum(axis=1), counts.shape[1] * variance
        if gap > 0 and significance.is_none_told(*of_groups):
            return stood_back(UNTOLD)
        narrow = scale
        if variance > 0:
            told, narrow = blind.leave_ends(counts, masses, variance, scale, split)
        levels = blind.solve_levels(told, tolerance, narrow)
        sizes = counts.sum(axis=(1, 2))
        left = blind.expected_gap(told, levels, sizes, variance) - tolerance
        if left > blind.LEFT * max(gap, 0.0):
            return stood_back(UNTOLD)
        if blind.cost(told, levels, narrow, split) > blind.WORTH:
            return stood_back(WORTHLESS)
        return masses, levels.widened(narrow, scale), None

    def _read_reach(self, tolerances) -> Reach:
        """Measure the repair for other tolerances by counts that were paid for."""
        if getattr(self, "_measured", None) is None:
            raise ValueError(UNPAID)
        (table,), variance = self._measured
        lower, upper = self._scales[0].knots[[0, -1]]
        about = variance, self._scales[0], self.output_ == ["randomized"]
        tolerances = np.asarray(each(number(0, 1))("fairness_tolerances", tolerances))
        measured, strengths = [], []
        for tolerance in tolerances:
            told, *solved, why = self._blind_levels(0, tolerance)
            measured.append(blind.measure(table[told], *solved, *about))
            strengths.append(float(why is None and tolerance < 1))
        units = {"scale": (upper - lower) ** 2, "error_name": "mean squared change"}
        return Reach.of(measured, tolerances, strengths, **units)

    def _regions(self, X, *, private) -> np.ndarray:
        """Region of the estimated group shares in which each row lies."""
        shares = self._group_shares(X, private=private)
        return blind.nearest_region(shares, self._centres)

    def _repair_blind(self, blocks, spread) -> np.ndarray:
        """Send every score to its target by the region of its row.

        A score that others share is anywhere in its bin, by a draw.
        """
        columns = zip(self.output_, self.repair_, self.fairness_tolerance_, strict=True)
        draws = {
            column: RowDraws(self._key)
            for column, (output, repair, tolerance) in enumerate(columns)
            if output == "randomized" and repair == "repaired" and tolerance < 1
        }
        maps = [*zip(self._scales, self._levels, strict=True)]
        read = []
        for rows, scores, X in blocks:
            regions, answers = self._regions(X, private=False), np.empty(scores.shape)
            for column, (scale, levels) in enumerate(maps):
                places = scale(np.nan_to_num(scores[:, column], nan=scale.knots[0]))
                if column in draws:
                    draws[column].add(X, np.full(len(scores), column))
                    bins = score_bins.bin_scores(places, UNIT, self.n_bins_)
                    answers[:, column] = bins
                else:
                    answers[:, column] = scale.inverse(levels(places, regions))
            read.append((rows, answers, regions.astype(np.uint16)))
        for column, of_column in draws.items():
            u, (scale, levels) = of_column.uniforms(spread=spread), maps[column]
            for rows, answers, regions in read:
                places = (answers[:, column] + u[rows]) / self.n_bins_
                answers[:, column] = scale.inverse(levels(places, regions))
        return np.concatenate([one for _, one, _ in read]).clip(*self.bounds_.T)


class DrawnTargets:
    """Targets of one score column on the grid, drawn where a bin has several."""

    def __init__(self, repair: NumberRepair, column: int):
        self.transport = with_pooled_group(repair.transports_[column])
        self.scale, self.window = repair._scales[column], repair._windows[column]
        self.n_bins = repair.n_bins_
        self.refinement = self.transport.grid.size // self.n_bins
        self.draws = RowDraws(repair._key)
        n_groups = len(self.transport.weights)
        self.mixed = np.zeros((n_groups, self.n_bins), dtype=bool)
        self.random = repair.output_[column] == "randomized"
        if self.random:
            group, point = np.divmod(np.arange(self.mixed.size), self.n_bins)
            centres = score_bins.centre_indices(self.n_bins, self.refinement)[point]
            ends = [
                self.transport.transport(group, centres, np.full(len(group), end))
                for end in (np.finfo(np.float64).tiny, 1.0)
            ]
            self.mixed = (ends[0] != ends[1]).reshape(self.mixed.shape)

    def places(self, values):
        """Where the values lie on the scale, as far as it is told apart."""
        return self.scale(values.clip(*self.window))

    def read(self, values, codes, keyed, key_codes) -> None:
        """Note the rows of a block that need a draw."""
        bins = score_bins.bin_scores(self.places(values), UNIT, self.n_bins)
        rows = np.flatnonzero(self.mixed[codes, bins])
        if len(rows):
            self.draws.add(safe_indexing(keyed, rows), key_codes[rows])

    def targets(self, values, codes, u):
        """Targets of a block, and the draws that are left for later ones.

        Bin i of group a owns the levels between its two CDF values; the draw picks one
        of them and the answer is the target's quantile there, or their mean.
        """
        bins = score_bins.bin_scores(self.places(values), UNIT, self.n_bins)
        centres = score_bins.centre_indices(self.n_bins, self.refinement)[bins]
        transport = self.transport
        own = np.where(codes < 0, len(transport.weights) - 1, codes)
        if self.random:
            rows = np.flatnonzero(self.mixed[codes, bins])
            levels = np.ones(len(values))
            levels[rows] -= u[: len(rows)]  # in (0, 1]
            u = u[len(rows) :]
            points = transport.transport(own, centres, levels)
            # A bin that the estimate leaves empty has no plan: as in [1]_, it is not
            # moved. Its target at its level costs much more (isotonic, little budget).
            empty = transport.source_pmf[own, centres] == 0.0
            targets = transport.grid[np.where(empty, centres, points)]
        else:
            targets = transport.conditional_mean[own, centres]
        return targets + (values - values.clip(*self.window)), u


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
