"""Fair regression by post-processing: one distribution of the scores for all groups."""

from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array

from .._door.groups import fit_groups, sensitive_positions
from .._shared.domain import domain, refuse_dates
from .._shared.origin import remembering
from .._shared.sklearn import fit_context
from .._wall import noise_source, read_rows
from . import _score_bins as score_bins
from ._number_repair import NumberRepair
from ._repair import group_labels


@remembering
class DPBarycenterTransformer(OneToOneFeatureMixin, TransformerMixin, NumberRepair):
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
        private, it is 36. It spends 2 % of epsilon (up to 4 % where few rows need it,
        blind 5 %) to find out where the scores are: if they crowd, bins are narrower
        there, and half as many again. Range: [2, 10000].
    fairness_tolerance : float or "auto", default=0.0
        Largest difference between two groups' cumulative distributions after the
        repair (Kolmogorov-Smirnov distance), up to estimation error. Range: [0, 1].
        "auto" takes the size of that error, which the noisy counts tell.
    {estimation}
    {output_refinement}
    {solver}
    output : {"auto", "continuous", "randomized", "mean"}, default="auto"
        "continuous" is a deterministic, increasing map of each group's scores; where
        scores are rounded or otherwise repeat, the groups then differ by more than the
        tolerance. "randomized" sends the scores of a bin to several targets in
        proportion, which keeps the tolerance on any scores. "mean" is the mean of those
        targets. "auto" is "continuous" where nearly all scores are distinct, or six
        and more in a bin while no bin stands out, and
        "randomized" otherwise; it spends 5 % of epsilon (blind 2 %) to find out. Blind
        repairs have no "mean", and send the scores of a bin anywhere in it before they
        map them, instead of to several targets. Identical rows get
        different answers under "randomized" only, so nothing private may be fitted on
        those.
    blind : bool, default=False
        Whether `transform` does without the group: the repair then reads an estimate of
        it off all score columns.
    group_estimator : classifier or None, default=None
        Blind only: estimates the group from the score columns; a public one comes in a
        `FrozenEstimator`. None fits a private `DPWassersteinLogisticRegression` without
        penalty, at the epsilon of the repair and a delta of 1e-5.
    {group_guarantee}
    group_size : float, default=0.25
        Blind only: chance of a row to fit `group_estimator`. Range: (0, 1); the other
        rows are counted.
    handle_unknown : {"error", "pooled"}, default="error"
        What `transform` does with a label that is not in `groups`: raise, or repair it
        as a member of the pooled population.
    {neighboring}
    sensitive_features : str, int, list of these, or callable, default=None
        Columns of the input that hold the sensitive features (they are then no
        scores), or a function of the input that returns the labels. None: pass
        `sensitive_features` to `fit` and `transform`.
    {groups}
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
        One solution per score column. Not if `blind`.
    fairness_tolerance_ : ndarray of shape (n_columns,)
    pooled_groups_ : list of ndarray
        For each column, groups that noise does not let be told from the others; they
        are repaired as all people together, or, blind, their answers are not made
        equal to the others'. A `RepairWarning` names them.
    repair_notes_ : list of str
        What a `RepairWarning` said: which groups cannot be told from the others, why
        the repair stood back, or what crowded bins may leave. Empty if all was
        repaired.
    group_estimator_ : classifier
        Blind only: the fitted model of the group.
    repair_ : list of {"repaired", "none"}
        Blind only: for each column, whether the repair is used, or stood back.
    output_ : list of str
        What `output` came to, for each column.
    within_bin_error_ : ndarray of shape (n_columns,)
        Largest gap beyond the tolerance that positions within bins can make. Not if
        `blind`.
    bounds_ : ndarray of shape (n_columns, 2)
        Range of the answers.
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
    fairpriv_sklearn.transport.fair_barycenter : The problem that is solved.

    Notes
    -----
    The draw for a row is a keyed function of its scores, clipped to `bounds`, and its
    group, so that distinct ones get the same answer in every batch, and rows that are
    alike share the targets evenly.

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
        **NumberRepair._parameter_constraints,
        "bounds": [tuple, list, np.ndarray, None],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        bounds=None,
        n_bins="auto",
        fairness_tolerance=0.0,
        estimation="auto",
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
    ) -> None:
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
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row; several columns name the intersections. Not
            needed if the constructor names the columns.

        Returns
        -------
        self : DPBarycenterTransformer
        """
        self._check_arguments()
        noise = noise_source(self.random_state)
        rows = read_rows(self._read, scores, y, sensitive_features)
        bounds, facts = self._public
        plan, columns = self._plan(len(bounds), rows.n_rows), (len(bounds), False)
        phases, wall, rows, _ = self._fit_models(
            rows, plan, columns=columns, facts=facts, noise=noise, delta=0.0
        )
        self._release(wall, rows, bounds)
        self.privacy_ = phases.guarantee()
        return self

    def _read(self, scores, y, sensitive_features) -> dict:
        """The private columns of one table; sets public facts."""
        codes, scores, about_groups = fit_groups(self, scores, sensitive_features)
        refuse_dates(scores)
        with domain("X"):
            scores = check_array(scores, dtype=np.float64)
        bounds, about_bounds = self._public_bounds(scores)
        self._public = bounds, (about_groups, about_bounds)
        columns = {"scores": scores, "codes": codes}
        if self.blind:
            columns |= {"X": scores, "group": group_labels(self)[codes]}
        return columns

    @property
    def calibration_size(self) -> float:
        """Blind: chance of a row to be counted, what the group model leaves."""
        return 1 - self.group_size

    def transform(self, scores, *, sensitive_features=None):
        """Send the scores to the common distribution.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_columns)
            One or more columns of scores.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row, as in `fit`.

        Returns
        -------
        repaired : ndarray of shape (n_samples, n_columns), float64
        """
        return self._transform(scores, sensitive_features, spread=self._may_spread())

    def _transform(self, scores, sensitive_features, *, spread):
        codes, blocks = self._blocks(scores, sensitive_features)

        def checked():
            for rows, block in blocks:
                refuse_dates(block)
                with domain("X"):
                    scores = check_array(block, dtype=np.float64)
                yield rows, scores, scores if self.blind else self._keys(scores)

        return self._repair(checked(), codes, spread=spread)

    def _keys(self, scores) -> np.ndarray:
        """What keys the draws: the last bits of a score depend on the batch."""
        columns = zip(scores.T, self.bounds_, strict=True)
        return np.column_stack([score_bins.quantize_scores(*one) for one in columns])

    def fit_transform(self, scores, y=None, *, sensitive_features=None) -> Any:
        """Fit and transform the same scores; see `fit` and `transform`.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_columns)
            One or more columns of scores.
        y : None
            Ignored.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row.

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

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the repaired columns: those of the score columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of all columns of the input; those seen in `fit` by default.

        Returns
        -------
        names : ndarray of shape (n_columns,), object
        """
        names = super().get_feature_names_out(input_features)
        return np.delete(names, sensitive_positions(self, self.n_features_in_))
