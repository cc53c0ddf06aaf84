"""Fair regression by post-processing: private histograms, barycenter, remapping."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import (
    MetaEstimatorMixin,
    OneToOneFeatureMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.metrics import r2_score
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from fairpriv_sklearn._door.estimator import DPEstimator, public_fact, read_bounds
from fairpriv_sklearn._door.groups import (
    AttributeAwareMixin,
    blind_X,
    fit_groups,
    predict_groups,
    sensitive_positions,
)
from fairpriv_sklearn._shared.domain import domain
from fairpriv_sklearn._shared.purity import RowPureMixin
from fairpriv_sklearn._shared.rowwise import row_uniforms
from fairpriv_sklearn._shared.sklearn import (
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
    safe_indexing,
)
from fairpriv_sklearn._wall import PrivacyFilter, Release, Rows, read_rows
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.postprocessing import _blind_numbers as blind
from fairpriv_sklearn.postprocessing import _histogram as histogram
from fairpriv_sklearn.postprocessing._parity import n_score_bins, score_bins
from fairpriv_sklearn.postprocessing._phases import (
    BLIND_CONSTRAINTS,
    PHASE_CONSTRAINTS,
    ConstantClassifier,
    ConstantRegressor,
    Model,
    Phases,
    RepairWarning,
    check_cells,
    check_not_blind,
    check_sizes,
    class_probabilities,
    default_group_estimator,
    group_labels,
    inherit_input_tags,
    metadata_routing,
    private_columns,
    requested,
    score_rows,
    without_groups,
)
from fairpriv_sklearn.postprocessing._queries import (
    CellCounts,
    DistinctScores,
    ScoreCounts,
)
from fairpriv_sklearn.privacy import warn_leak
from fairpriv_sklearn.transport import BarycenterResult, fair_barycenter
from fairpriv_sklearn.transport._barycenter import solver_name

# Number of bins where it may not depend on the number of rows (add/remove).
BINS_WITHOUT_N = 36

# Part of the budget of output="auto" that asks whether scores are rounded: one number
# of sensitivity one, so little is enough.
ATOMS_SHARE = 0.05

LARGEST_BOUND = 1e150
# The most bins that a rule may ask for; the plan is made before it is known.
MOST_BINS = 192
BLIND_ARGUMENTS = ("blind", "group_estimator", "group_guarantee", "group_size")
WHAT_IS_RELEASED = "score counts per group with discrete Laplace noise"


class _BarycenterRepair(RowPureMixin, AttributeAwareMixin, DPEstimator):
    """What the transformer and the regressor share: release, solve, remap."""

    _renamed = {"randomized": "output"}
    _bounds_name = "bounds"

    _parameter_constraints: dict = {
        **DPEstimator._parameter_constraints,
        "n_bins": [StrOptions({"auto"}), Interval(Integral, 2, 10_000, closed="both")],
        "fairness_tolerance": [
            StrOptions({"auto"}),
            Interval(Real, 0, 1, closed="both"),
        ],
        "estimation": [StrOptions({"smooth", "isotonic"})],
        "output_refinement": [Interval(Integral, 1, 100, closed="both")],
        "solver": [str],
        "output": [StrOptions({"auto", "continuous", "randomized", "mean"})],
        "handle_unknown": PHASE_CONSTRAINTS["handle_unknown"],
        **{name: BLIND_CONSTRAINTS[name] for name in BLIND_ARGUMENTS},
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
        return np.column_stack([lower, upper]), public_fact(
            name, (lower.tolist(), upper.tolist()), from_data=False
        )

    def _plan(self, n_columns: int) -> list[Release]:
        """What the calibration releases: a function of public numbers only."""
        most = MOST_BINS if self.n_bins == "auto" else self.n_bins
        n_counts = n_columns * len(self.groups_) * most
        if self.output != "auto":
            return [Release("counts", "pure", self.epsilon, n_counts)]
        share = 0.0 if np.isinf(self.epsilon) else ATOMS_SHARE
        return [
            Release("counts", "pure", (1 - share) * self.epsilon, n_counts),
            Release("distinct", "pure", (share or 1) * self.epsilon, n_columns),
        ]

    def _release(self, wall: PrivacyFilter, rows: Rows, bounds, noise) -> None:
        """Release the counts of every column, then solve."""
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
        self._key = noise.key(32)
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
        columns = zip(self.counts_, self.bounds_, self.output_, strict=True)
        for counts, bounds, output in columns:
            tolerance = self.fairness_tolerance
            if tolerance == "auto":
                tolerance = histogram.default_tolerance(
                    counts, noise_variance=self._noise_variance
                )
            if self._noise_variance == 0:
                pmfs, weights = histogram.exact_estimate(counts)
            elif self.estimation == "smooth":
                pmfs, weights = histogram.smooth_estimate(
                    counts, n=self._n_public, noise_variance=self._noise_variance
                )
            else:
                pmfs, weights = histogram.isotonic_estimate(
                    counts, noise_scale=self._noise_scale
                )
            transport = self._transport(pmfs, weights, bounds, tolerance, output)
            continuous = output == "continuous"
            tolerances.append(tolerance)
            transports.append(transport)
            maps.append(
                histogram.continuous_map(transport, bounds) if continuous else None
            )
        self.fairness_tolerance_ = np.array(tolerances)
        self.transports_ = transports
        self._maps = maps

    def _transport(self, pmfs, weights, bounds, tolerance, output):
        """Solve for the targets of one column, on the grid that its output asks for."""
        if output == "continuous":
            pmfs = histogram.fine_pmfs(pmfs)
            grid = histogram.output_grid(bounds, pmfs.shape[1], 1)
        else:
            pmfs = histogram.refine_pmfs(pmfs, self.output_refinement)
            grid = histogram.output_grid(bounds, self.n_bins_, self.output_refinement)
        return fair_barycenter(grid, pmfs, weights, tolerance, solver=self.solver)

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
                repaired[:, column] = repair_scores(
                    values,
                    codes,
                    pooled,
                    self.bounds_[column],
                    self.n_bins_,
                    self.output_refinement,
                    u,
                )
        return repaired

    # --- blind ---------------------------------------------------------------------

    def _check_arguments(self) -> None:
        solver_name(self.solver)  # a typo is found before it costs anything
        if not self.blind:
            check_not_blind(self)
            return
        check_sizes(self)
        if self.output in ("randomized", "mean"):
            raise ValueError(
                f"A blind repair has a continuous output, got output={self.output!r}; "
                "leave it at 'auto'."
            )

    def _blind_shape(self) -> tuple[int, int, int]:
        n_groups = len(self.groups_)
        n_bins = blind.BINS if self.n_bins == "auto" else self.n_bins
        return n_groups, n_score_bins(n_groups, blind.REGIONS), n_bins

    def _blind_plan(self, n_columns: int) -> list[Release]:
        n_counts = n_columns * int(np.prod(self._blind_shape()))
        return [Release("counts", "pure", self.epsilon, n_counts)]

    def _group_model(self, n_columns: int) -> Model:
        given = self.group_estimator
        if given is None:
            given = default_group_estimator(self, n_columns)
        return Model("group_estimator", given, self.group_guarantee)

    def _release_blind(self, wall, rows, X, scores, bounds) -> None:
        """Count by true group, region of the estimated shares and bin; then solve."""
        shape, codes = self._blind_shape(), rows.whole().codes
        cells = np.empty(scores.shape, dtype=np.int64)
        regions = self._regions(X, private=True)
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
            helps = blind.largest_gap(masses) > noise
            tolerances.append(tolerance)
            self.repair_.append("repaired" if helps else "none")
            self._levels.append(blind.solve_levels(masses, tolerance if helps else 1.0))
        self.fairness_tolerance_ = np.array(tolerances)
        if "none" in self.repair_:
            warnings.warn(
                "The blind repair stood back: the groups' scores differ by less than "
                "the noise of its counts. More rows or a larger epsilon may help.",
                RepairWarning,
                stacklevel=6,
            )

    def _regions(self, X, *, private) -> np.ndarray:
        """Region of the estimated group shares in which each row lies."""
        labels = group_labels(self).tolist()
        shares = class_probabilities(
            self,
            self.group_estimator_,
            X,
            {},
            labels,
            private=private,
            what="group_estimator",
        )
        return score_bins(shares, blind.REGIONS)

    def _blind_columns(self, X, sensitive_features):
        """The models' columns of `X`, of which blind answers are made."""
        if sensitive_features is not None:
            raise ValueError(
                f"A blind {type(self).__name__} takes sensitive_features in fit only; "
                "leave them out here."
            )
        return blind_X(self, X)

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

    def _get_metadata_request(self):
        return without_groups(self, super()._get_metadata_request())


def with_pooled_group(transport: BarycenterResult) -> BarycenterResult:
    """Append the pooled group, the last row, to which code -1 points."""
    weights = transport.weights / transport.weights.sum()
    noise = np.minimum(weights @ transport.source_cdf, 1.0)
    noise[-1] = 1.0
    return replace(
        transport,
        weights=np.append(weights, 0.0),
        source_cdf=np.vstack([transport.source_cdf, noise]),
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


class DPBarycenterTransformer(
    OneToOneFeatureMixin, TransformerMixin, _BarycenterRepair
):
    r"""Map the scores of all groups to one distribution, at the least squared change.

    From noisy counts of the scores per group, with distributions :math:`p_a` and
    weights :math:`w_a`, it solves

    .. math:: \min_{q, q_a} \sum_a w_a W_2^2(p_a, q_a) \quad \text{such that} \quad
        \|Q_a - Q\|_\infty \le \alpha / 2 ,

    and sends each score to its target under the optimal coupling, ties broken at
    random.

    .. rubric:: Privacy

    epsilon-DP for the records (scores, group). Released: one table of counts, groups
    by bins, per score column, with discrete Laplace noise; l1-sensitivity 2 if
    neighbours differ by replacing one record, 1 if by adding or removing one. Several
    columns share epsilon evenly. Everything else is post-processing. Public: `groups`,
    `bounds` and, under replace-one, the number of rows.

    Parameters
    ----------
    {epsilon}
    bounds : tuple (low, high), default=None
        Public range of the scores, each end a number or an array with an entry per
        column; scores outside are clipped to it. None takes it from the data, with a
        warning. The edges of the bins should not lie on the
        lattice of rounded scores: shift the bounds a little then.
    n_bins : int or "auto", default="auto"
        Number of equal bins of the range. "auto" is a rule of the number of rows and
        `epsilon`, between 8 and 64; under add/remove, where the number of rows is
        private, it is 36.
    fairness_tolerance : float or "auto", default=0.0
        Largest difference between two groups' cumulative distributions after the
        repair (Kolmogorov-Smirnov distance), up to estimation error. Range: [0, 1].
        "auto" takes the size of that error, which the noisy counts tell.
    estimation : {"smooth", "isotonic"}, default="smooth"
        How distributions are estimated from the noisy counts. "smooth" treats each
        group as a smooth share of the pooled distribution; "isotonic" is the method
        of [1]_, for comparison.
    {output_refinement}
    {solver_2}
    output : {"auto", "continuous", "randomized", "mean"}, default="auto"
        "continuous" is a deterministic, increasing map of each group's scores; where
        scores are rounded or otherwise repeat, the groups then differ by more than the
        tolerance. "randomized" sends the scores of a bin to several targets in
        proportion, which keeps the tolerance on any scores. "mean" is the mean of those
        targets. "auto" is "continuous" where nearly all scores are distinct and
        "randomized" otherwise; it spends 5 % of epsilon to find out. Identical rows get
        different answers under "randomized" only, so nothing private may be fitted on
        those.
    blind : bool, default=False
        Whether `transform` does without the group: the repair then reads an estimate of
        it off all score columns. The output is a continuous one.
    group_estimator : classifier or None, default=None
        Blind only: estimates the group from the score columns; a public one comes in a
        `FrozenEstimator`. None fits a private `DPWassersteinLogisticRegression` without
        penalty, at the budget of the repair.
    group_guarantee : PrivacyGuarantee, "public" or None, default=None
        Blind only: what fitting `group_estimator` costs, if it does not say so itself.
    group_size : float, default=0.25
        Blind only: chance of a row to fit `group_estimator`. Range: (0, 1); the other
        rows are counted.
    handle_unknown : {"error", "pooled"}, default="error"
        What `transform` does with a label that is not in `groups`: raise, or repair it
        as a member of the pooled population.
    {neighboring_2}
    sensitive_features : str, int, list of these, or callable, default=None
        Columns of the input that hold the sensitive features (they are then no
        scores), or a function of the input that returns the labels. None: pass
        `sensitive_features` to `fit` and `transform`.
    {groups_2}
    ledger : PrivacyLedger, default=None
        Budget from which each fit takes its cost.
    random_state : int, RandomState instance or None, default=None
        None draws noise from the operating system. Anything else is reproducible and
        hence not private; `privacy_` says so.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    counts_ : ndarray of shape (n_columns, n_groups, `n_bins_`), int64
        The noisy counts, from which all else follows.
    transports_ : list of BarycenterResult
        One solution per score column.
    fairness_tolerance_ : ndarray of shape (n_columns,)
    output_ : list of str
        What `output` came to, for each column.
    within_bin_error_ : ndarray of shape (n_columns,)
        Largest gap beyond the tolerance that positions within bins can make.
    bounds_ : ndarray of shape (n_columns, 2)
    n_bins_ : int
    groups_ : ndarray of shape (n_groups,)
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if `fit` saw a DataFrame with string names.

    Raises
    ------
    ValueError
        If the sensitive features are not given, have a missing label or one outside
        `groups`, or an argument is out of range.
    BudgetExceededError
        If the ledger has not enough left.

    Warns
    -----
    PrivacyLeakWarning
        If `groups` or `bounds` are taken from the data.

    See Also
    --------
    DPBarycenterRegressor : Fit a regressor and repair it in one estimator.
    transport.fair_barycenter : The problem that is solved.

    Notes
    -----
    The draw for a row is a keyed function of the row and its group, so distinct rows
    get the same answer in every batch, and rows that are alike share the targets
    evenly.

    References
    ----------
    .. [1] R. Xian, Q. Li, G. Kamath, H. Zhao. "Differentially Private Post-Processing
       for Fair Regression". ICML 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.metrics import ks_parity_difference
    >>> from fairpriv_sklearn.postprocessing import DPBarycenterTransformer
    >>> rng = np.random.RandomState(0)
    >>> group = rng.randint(2, size=4000)
    >>> scores = rng.normal(loc=group, size=4000).reshape(-1, 1)
    >>> repair = DPBarycenterTransformer(
    ...     epsilon=1.0, bounds=(-3, 4), groups=[0, 1], random_state=0
    ... )
    >>> fair = repair.fit_transform(scores, sensitive_features=group)
    >>> before = ks_parity_difference(
    ...     scores[:, 0], scores[:, 0], sensitive_features=group
    ... )
    >>> after = ks_parity_difference(scores[:, 0], fair[:, 0], sensitive_features=group)
    >>> bool(before > 0.3), bool(after < 0.1)
    (True, True)
    """

    _reads_batches = True
    _can_resume = True

    _parameter_constraints: dict = {
        **_BarycenterRepair._parameter_constraints,
        "bounds": [tuple, list, np.ndarray, None],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        bounds=None,
        n_bins="auto",
        fairness_tolerance=0.0,
        estimation="smooth",
        output_refinement=3,
        solver="exact",
        output="auto",
        blind=False,
        group_estimator=None,
        group_guarantee=None,
        group_size=0.25,
        handle_unknown="error",
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.bounds = bounds
        self.n_bins = n_bins
        self.fairness_tolerance = fairness_tolerance
        self.estimation = estimation
        self.output_refinement = output_refinement
        self.solver = solver
        self.output = output
        self.blind = blind
        self.group_estimator = group_estimator
        self.group_guarantee = group_guarantee
        self.group_size = group_size
        self.handle_unknown = handle_unknown
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, scores, y=None, *, sensitive_features=None):
        """Release noisy counts of the scores and solve for the targets.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_columns)
            One or more columns of scores, each repaired on its own.
        y : None
            Ignored.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k)
            Group label of each row; several columns name the intersections. Not
            needed if the constructor names the columns.

        Returns
        -------
        self : DPBarycenterTransformer
        """
        self._check_arguments()
        noise = noise_source(self.random_state)
        rows = read_rows(self._read, scores, y, sensitive_features)
        if self.blind:
            return self._fit_blind(rows, noise)
        wall = PrivacyFilter(
            self,
            self._plan(len(self._bounds)),
            delta=0.0,
            neighboring=self.neighboring,
            mechanism=WHAT_IS_RELEASED,
            facts=self._facts,
            noise=noise,
            ledger=self.ledger,
        )
        wall.reserve()
        self._release(wall, rows, self._bounds, noise)
        self.privacy_ = wall.guarantee()
        return self

    def _read(self, scores, y, sensitive_features) -> dict:
        """The private columns of one table; sets public facts."""
        codes, scores, about_groups = fit_groups(self, scores, sensitive_features)
        with domain("X"):
            scores = check_array(scores, dtype=np.float64)
        self._bounds, about_bounds = self._public_bounds(scores)
        self._facts = (about_groups, about_bounds)
        columns = {"scores": scores, "codes": codes}
        if self.blind:
            columns |= {"X": scores, "group": group_labels(self)[codes]}
        return columns

    def _fit_blind(self, rows, noise):
        """Fit a model of the group on some rows, count the scores of the others."""
        n_columns = len(self._bounds)
        model = self._group_model(n_columns)
        phases = Phases(
            self,
            [model],
            self._blind_plan(n_columns),
            mechanism=WHAT_IS_RELEASED,
            facts=self._facts,
            noise=noise,
            delta=0.0,
        )
        stand_in = ConstantClassifier(group_labels(self))
        wall, rows = phases.fit(
            rows,
            {"group_estimator": "group"},
            {"group_estimator": stand_in},
            {},
        )
        self.group_estimator_ = model.fitted
        scores = rows.whole().scores
        self._release_blind(wall, rows, scores, scores, self._bounds)
        self.privacy_ = phases.guarantee()
        return self

    @property
    def calibration_size(self) -> float:
        """Blind: chance of a row to be counted, what the group model leaves."""
        return 1 - self.group_size

    def _wrapped_parts(self):
        return (getattr(self, "group_estimator_", None),)

    def transform(self, scores, *, sensitive_features=None):
        """Send the scores to the common distribution.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_columns)
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k)
            Group label of each row, as in `fit`.

        Returns
        -------
        repaired : ndarray of shape (n_samples, n_columns), float64
        """
        return self._transform(scores, sensitive_features, spread=self._may_spread())

    def _transform(self, scores, sensitive_features, *, spread):
        check_is_fitted(self)
        if self.blind:
            scores = self._blind_columns(scores, sensitive_features)
            scores = check_array(scores, dtype=np.float64)
            return self._repair_blind(scores, scores)
        codes, scores = predict_groups(
            self, scores, sensitive_features, handle_unknown=self.handle_unknown
        )
        with domain("X"):
            scores = check_array(scores, dtype=np.float64)
        # Rounded scores key the draws: the last bits of a score depend on the batch.
        steps = [
            histogram.quantize_scores(column, pair)
            for column, pair in zip(scores.T, self.bounds_, strict=True)
        ]
        return self._repair(scores, codes, np.column_stack(steps), spread=spread)

    def fit_transform(self, scores, y=None, *, sensitive_features=None):
        """Fit and transform the same scores; see `fit` and `transform`.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_columns)
        y : None
            Ignored.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k)

        Returns
        -------
        repaired : ndarray of shape (n_samples, n_columns), float64
            Depends on the fitted rows themselves: publishing it is a release that
            `privacy_` does not cover. Unlike in `transform`, identical rows get
            identical answers, so that a private step behind this one sees records
            that do not depend on each other.
        """
        self.fit(scores, y, sensitive_features=sensitive_features)
        if self.blind:
            sensitive_features = None
        # In a pipeline the next step learns from these rows: each must be a function
        # of its own record, so identical rows are not spread over their targets.
        return self._transform(scores, sensitive_features, spread=False)

    def get_feature_names_out(self, input_features=None):
        """Names of the repaired columns: those of the score columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of all columns of the input; those seen in `fit` by default.

        Returns
        -------
        names : ndarray of shape (n_columns,), object
        """
        names = super().get_feature_names_out(input_features)
        sensitive = sensitive_positions(self, self.n_features_in_)
        return np.delete(names, sensitive)


class DPBarycenterRegressor(MetaEstimatorMixin, RegressorMixin, _BarycenterRepair):
    r"""Fit a regressor and repair its predictions to one distribution for all groups.

    Some rows, drawn at random, fit the wrapped regressor; on the others its predictions
    are counted per group, with noise, and each prediction is sent to its target as in
    `DPBarycenterTransformer`.

    .. rubric:: Privacy

    The repair is epsilon-DP for the records (x, y, group): noisy counts of the
    predictions per group, l1-sensitivity 2 under replace-one and 1 under add/remove.
    A record either fits the regressor or calibrates, by a draw that does not look at
    it, so the whole costs the larger of epsilon and the regressor's own guarantee. A
    regressor without one leaves the whole uncovered: `privacy_.epsilon` is infinite.
    With a `FrozenEstimator` all rows calibrate and the two guarantees add up. Public:
    `groups`, `target_bounds`, the draws and, under replace-one, the number of rows.

    Parameters
    ----------
    estimator : regressor
        Anything with `fit` and `predict`, a pipeline for example; already fitted if
        wrapped in `FrozenEstimator`. It is fitted without the sensitive columns that
        the constructor names.
    epsilon : float, default=1.0
        Privacy budget of the repair. Range: (0, inf]; infinity adds no noise.
    target_bounds : tuple (low, high), default=None
        Public range of the predictions, which are clipped to it. None takes the range
        of `y` from the data, with a warning.
    n_bins : int or "auto", default="auto"
        Number of equal bins of the range; see `DPBarycenterTransformer`.
    fairness_tolerance : float or "auto", default=0.0
        Largest difference between two groups' cumulative distributions of the
        predictions, up to estimation error. Range: [0, 1].
    estimation : {"smooth", "isotonic"}, default="smooth"
        How distributions are estimated from the noisy counts.
    {output_refinement}
    {solver_2}
    output : {"auto", "continuous", "randomized", "mean"}, default="auto"
        A deterministic increasing map, or one that splits the scores of a bin at
        random, or its mean; see `DPBarycenterTransformer`.
    {calibration_size}
    base_guarantee : PrivacyGuarantee, "public" or None, default=None
        What fitting the wrapped regressor costs. None reads it from our estimators and
        from diffprivlib's; "public" says that it saw no data under protection, so it
        has to come fitted, in a `FrozenEstimator`.
    blind : bool, default=False
        Whether prediction does without the group: the repair then reads an estimate of
        it off `X`, and `predict` takes no sensitive features. `fit` needs them as
        before. The answer is a continuous one.
    group_estimator : classifier or None, default=None
        Blind only: estimates the group from the columns that the regressor sees; a
        public one comes in a `FrozenEstimator`. None fits a private
        `DPWassersteinLogisticRegression` without penalty, at the budget of the repair.
    group_guarantee : PrivacyGuarantee, "public" or None, default=None
        What fitting `group_estimator` costs, as `base_guarantee` for the regressor.
    group_size : float, default=0.25
        Blind only: chance of a row to fit `group_estimator`. Range: (0, 1); what this
        and `calibration_size` leave fits the regressor.
    handle_unknown : {"error", "pooled"}, default="error"
        What `predict` does with a label that is not in `groups`: raise, or repair the
        row as a member of the pooled population.
    {neighboring_2}
    {sensitive_features_3}
    {groups_2}
    ledger : PrivacyLedger, default=None
        Budget from which each fit takes the cost of both phases, or of the second
        alone if the wrapped regressor has a ledger of its own or no guarantee.
    {random_state_4}

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor.
    privacy_ : PrivacyGuarantee
        What both phases of `fit` released and what they cost.
    counts_ : ndarray of shape (1, n_groups, `n_bins_`), int64
        The noisy counts.
    transports_ : list of one BarycenterResult
    fairness_tolerance_ : ndarray of shape (1,)
    output_ : list of one str
    within_bin_error_ : ndarray of shape (1,)
    bounds_ : ndarray of shape (1, 2)
    n_bins_ : int
    groups_ : ndarray of shape (n_groups,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of `X`, if `fit` saw a DataFrame with string names.

    Raises
    ------
    ValueError
        If the sensitive features are not given, have a missing label or one outside
        `groups`, or an argument is out of range.
    BudgetExceededError
        If the ledger has not enough left.

    Warns
    -----
    PrivacyLeakWarning
        If `groups` or `target_bounds` are taken from the data.

    See Also
    --------
    DPBarycenterTransformer : The repair alone, as a transformer.

    References
    ----------
    .. [1] R. Xian, Q. Li, G. Kamath, H. Zhao. "Differentially Private Post-Processing
       for Fair Regression". ICML 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from fairpriv_sklearn.datasets import make_biased_regression
    >>> from fairpriv_sklearn.metrics import ks_parity_difference
    >>> from fairpriv_sklearn.postprocessing import DPBarycenterRegressor
    >>> X, y, group = make_biased_regression(n_samples=4000, random_state=0)
    >>> X = np.column_stack([X, group])
    >>> model = DPBarycenterRegressor(
    ...     Ridge(), target_bounds=(-6, 6), groups=[0, 1, 2], random_state=0
    ... )
    >>> model = model.fit(X, y, sensitive_features=group)
    >>> y_fair = model.predict(X, sensitive_features=group)
    >>> y_plain = model.estimator_.predict(X)
    >>> bool(
    ...     ks_parity_difference(y, y_fair, sensitive_features=group)
    ...     < ks_parity_difference(y, y_plain, sensitive_features=group)
    ... )
    True
    """

    _renamed = {**_BarycenterRepair._renamed, "bounds": "target_bounds"}
    _bounds_name = "target_bounds"

    _reads_batches = True

    _parameter_constraints: dict = {
        **_BarycenterRepair._parameter_constraints,
        "target_bounds": [tuple, list, np.ndarray, None],
        **PHASE_CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict"])],
    }

    def __init__(
        self,
        estimator,
        *,
        epsilon=1.0,
        target_bounds=None,
        n_bins="auto",
        fairness_tolerance=0.0,
        estimation="smooth",
        output_refinement=3,
        solver="exact",
        output="auto",
        calibration_size=0.25,
        base_guarantee=None,
        blind=False,
        group_estimator=None,
        group_guarantee=None,
        group_size=0.25,
        handle_unknown="error",
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.epsilon = epsilon
        self.target_bounds = target_bounds
        self.n_bins = n_bins
        self.fairness_tolerance = fairness_tolerance
        self.estimation = estimation
        self.output_refinement = output_refinement
        self.solver = solver
        self.output = output
        self.calibration_size = calibration_size
        self.base_guarantee = base_guarantee
        self.blind = blind
        self.group_estimator = group_estimator
        self.group_guarantee = group_guarantee
        self.group_size = group_size
        self.handle_unknown = handle_unknown
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, *, sensitive_features=None):
        """Fit the regressor on some rows and calibrate its repair on the others.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k)
            Group label of each row; several columns name the intersections. Not
            needed if the constructor names the columns.

        Returns
        -------
        self : DPBarycenterRegressor
        """
        self._check_arguments()
        rows = read_rows(self._read, X, y, sensitive_features)
        bounds, facts, asked, scored_with = self._public
        del self._public
        noise = noise_source(self.random_state)
        model = Model("estimator", self.estimator, self.base_guarantee)
        models = [model]
        if self.blind:
            models += [self._group_model(self._n_columns)]
        phases = Phases(
            self,
            models,
            self._blind_plan(1) if self.blind else self._plan(1),
            mechanism=WHAT_IS_RELEASED,
            facts=facts,
            noise=noise,
            delta=0.0,
        )
        wall, rows = phases.fit(
            rows,
            {"estimator": "y", "group_estimator": "group"},
            {
                "estimator": ConstantRegressor(bounds.mean()),
                "group_estimator": ConstantClassifier(group_labels(self)),
            },
            {"estimator": {name: f"fit_{name}" for name in asked}},
        )
        block = rows.whole()
        metadata = {name: getattr(block, f"score_{name}") for name in scored_with}
        scores = self._scores(model.fitted, block.X, metadata, private=True)
        if self.blind:
            self.group_estimator_ = models[1].fitted
            self._release_blind(wall, rows, block.X, scores, bounds)
        else:
            rows = rows.with_columns(scores=scores)
            self._release(wall, rows, bounds, noise)
        self.estimator_ = model.fitted
        self.privacy_ = phases.guarantee()
        return self

    def _read(self, X, y, sensitive_features) -> dict:
        """The private columns of one table; sets public facts."""
        codes, X, about_groups = fit_groups(self, X, sensitive_features)
        y = check_target(X, y)
        check_cells(self, X)
        bounds, about_bounds = self._public_bounds(y.reshape(-1, 1))
        asked = requested(self, "fit", "fit", sensitive_features)
        scored_with = requested(self, "fit", "predict", sensitive_features)
        facts = (about_groups, about_bounds)
        self._public = bounds, facts, tuple(asked), tuple(scored_with)
        self._n_columns = X.shape[1] if hasattr(X, "shape") else len(X[0])
        return private_columns(
            X,
            y=y,
            codes=codes,
            group=group_labels(self)[codes],
            **{f"fit_{name}": value for name, value in asked.items()},
            **{f"score_{name}": value for name, value in scored_with.items()},
        )

    def predict(self, X, *, sensitive_features=None):
        """Predict, each group's predictions sent to the common distribution.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k)
            Group label of each row, as in `fit`.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,), float64
        """
        check_is_fitted(self)
        if self.blind:
            X = self._blind_columns(X, sensitive_features)
            scores = self._scores(self.estimator_, X, {}, private=False)
            return self._repair_blind(scores, X)[:, 0]
        codes, X = predict_groups(
            self, X, sensitive_features, handle_unknown=self.handle_unknown
        )
        asked = requested(self, "predict", "predict", sensitive_features)
        scores = self._scores(self.estimator_, X, asked, private=False)
        return self._repair(scores, codes, X, spread=self._may_spread())[:, 0]

    def _wrapped_parts(self):
        names = ("estimator_", "group_estimator_")
        return tuple(getattr(self, name, None) for name in names)

    def score(self, X, y, sample_weight=None, *, sensitive_features=None):
        """Coefficient of determination of the fair predictions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the score.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k)
            Group label of each row, as in `fit`.

        Returns
        -------
        score : float
        """
        if self.blind:  # older scikit-learns hand them on, unasked
            sensitive_features = None
        y_pred = self.predict(X, sensitive_features=sensitive_features)
        return r2_score(y, y_pred, sample_weight=sample_weight)

    def _scores(self, estimator, X, metadata, *, private) -> np.ndarray:
        """Predictions of the wrapped regressor as one column."""
        scores = score_rows(self, estimator, "predict", X, metadata, private=private)
        if scores.size != len(scores):
            raise ValueError(
                "The wrapped regressor must predict one number per row, got an output "
                f"of {scores.shape[1:]} numbers."
            )
        return scores.astype(np.float64).reshape(-1, 1)

    _base_method = "predict"

    def get_metadata_routing(self):
        """Metadata routing: sensitive features for itself, the rest as asked for.

        Returns
        -------
        routing : MetadataRouter
        """
        return metadata_routing(self)

    def __sklearn_tags__(self):
        return inherit_input_tags(self, super().__sklearn_tags__())


def check_target(X, y) -> np.ndarray:
    """Check a regression target: one finite number per row of `X`."""
    if y is None:
        raise ValueError(
            "DPBarycenterRegressor requires y to be passed, but the target y is None."
        )
    with domain("y"):
        y = column_or_1d(y, dtype=np.float64, warn=True)
    assert_all_finite(y, input_name="y")
    check_consistent_length(X, y)
    return y
