"""Fair regression around a regressor: fit it on some rows, repair it by the others."""

from collections.abc import Iterable

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import r2_score
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._door.groups import fit_groups
from .._door.inside import told_range
from .._shared.domain import check_given, domain, refuse_dates, same_length
from .._shared.sklearn import HasMethods, fit_context
from .._wall import noise_source, read_rows
from ._blind import Reach
from ._number_repair import NumberRepair
from ._phases import PHASE_CONSTRAINTS, ConstantRegressor, score_rows
from ._repair import REACH_SIZES, MetaRepair


class DPBarycenterRegressor(RegressorMixin, MetaRepair, NumberRepair):
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
        Public range of the predictions, which are clipped to it; a private estimator
        inside that has none is told it. None takes the range of `y` from the data,
        with a warning.
    n_bins : int or "auto", default="auto"
        Number of bins of the range; see `DPBarycenterTransformer`. Predictions of the
        wrapped regressor are told apart up to a sixteenth of it beyond either end;
        "auto" leaves out what those of a `DPLinearRegression` cannot reach, if that is
        more than half. Range: [2, 10000].
    fairness_tolerance : float or "auto", default=0.0
        Largest difference between two groups' cumulative distributions of the
        predictions, up to estimation error. Range: [0, 1].
    {estimation}
    {output_refinement}
    {solver}
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
        before.
    group_estimator : classifier or None, default=None
        Blind only: estimates the group from the columns that the regressor sees; a
        public one comes in a `FrozenEstimator`. None fits a private
        `DPWassersteinLogisticRegression` without penalty, at the budget of the wrapped
        model and with its `bounds` and `data_norm`, or, if that one has no delta, at
        the epsilon of the repair and a delta of 1e-5; in a private pipeline it takes
        the place of the regressor, behind the same encoders.
    {group_guarantee}
    group_size : float, default=0.25
        Blind only: chance of a row to fit `group_estimator`. Range: (0, 1); what this
        and `calibration_size` leave fits the regressor.
    reach_size : float, default=0.0
        Blind only: share of epsilon that `reach` may read. Range: 0, or
        [.001, .9].
    handle_unknown : {"error", "pooled"}, default="error"
        What `predict` does with a label that is not in `groups`: raise, or repair the
        row as a member of the pooled population.
    {neighboring}
    {sensitive_features}
    {groups}
    ledger : PrivacyLedger, default=None
        Budget from which each fit takes the cost of both phases, or of the second
        alone if the wrapped regressor has a ledger of its own or no guarantee.
    {random_state}

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor.
    privacy_ : PrivacyGuarantee
        What both phases of `fit` released and what they cost.
    counts_ : ndarray of shape (1, n_groups, `n_bins_`), int64
        The noisy counts.
    transports_ : list of one BarycenterResult
        Not if `blind`.
    fairness_tolerance_ : ndarray of shape (1,)
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
    output_ : list of one str
    within_bin_error_ : ndarray of shape (1,)
        Not if `blind`.
    bounds_ : ndarray of shape (1, 2)
        Range of the answers.
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

    _renamed = {**NumberRepair._renamed, "bounds": "target_bounds"}
    _bounds_name = "target_bounds"
    _overshoots = True

    _base_method = "predict"
    _of_fit = ("_public", "_public_pair")

    _parameter_constraints: dict = {
        **NumberRepair._parameter_constraints,
        "target_bounds": [tuple, list, np.ndarray, None],
        **PHASE_CONSTRAINTS,
        "reach_size": REACH_SIZES,
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
        estimation="auto",
        output_refinement=3,
        solver="exact",
        output="auto",
        calibration_size=0.25,
        base_guarantee=None,
        blind=False,
        group_estimator=None,
        group_guarantee=None,
        group_size=0.25,
        reach_size=0.0,
        handle_unknown="error",
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
    ) -> None:
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
        self.reach_size = reach_size
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
            Rows, one for each person.
        y : array-like of shape (n_samples,)
            Target of each row.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row; several columns name the intersections. Not
            needed if the constructor names the columns.

        Returns
        -------
        self : DPBarycenterRegressor
        """
        self._check_arguments()
        rows = read_rows(self._read, X, y, sensitive_features)
        bounds = self._public_pair
        noise = noise_source(self.random_state)
        frozen = isinstance(self.estimator, FrozenEstimator)
        all_rows = frozen or self.calibration_size == "all"
        plan = self._plan(1, rows.n_rows * (1 if all_rows else self.calibration_size))
        stand_in = ConstantRegressor(bounds.mean())
        phases, wall, rows, scores = self._fit_both(
            rows, plan, stand_in, reads=("codes",), noise=noise, delta=0.0
        )
        self._reachable = told_range(self.estimator_)
        self._release(wall, rows.with_columns(scores=scores), bounds)
        self.privacy_ = phases.guarantee()
        return self

    def _read(self, X, y, sensitive_features) -> dict:
        """The private columns of one table; sets public facts."""
        codes, X, about_groups = fit_groups(self, X, sensitive_features)
        check_given(self, y)
        y = check_target(X, y)
        self._public_pair, about_bounds = self._public_bounds(y.reshape(-1, 1))
        facts = (about_groups, about_bounds)
        return self._private_table(X, y, codes, facts, sensitive_features)

    def predict(self, X, *, sensitive_features=None) -> np.ndarray:
        """Predict, each group's predictions sent to the common distribution.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row, as in `fit`.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,), float64
        """
        codes, blocks = self._scored("predict", X, sensitive_features)
        return self._repair(blocks, codes, spread=self._may_spread())[:, 0]

    def score(self, X, y, sample_weight=None, *, sensitive_features=None) -> float:
        """Coefficient of determination of the fair predictions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        y : array-like of shape (n_samples,)
            Target of each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the score.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row, as in `fit`.

        Returns
        -------
        score : float
        """
        return self._score_by(r2_score, X, y, sample_weight, sensitive_features)

    def reach(self, fairness_tolerances: Iterable[float]) -> Reach:
        """Tell what parity costs where the group is not known at prediction.

        For each tolerance the repair is solved anew, as in `path`, and measured by
        counts that `reach_size` paid for in `fit`, which played no part in finding it;
        all of that is free.

        Parameters
        ----------
        fairness_tolerances : iterable of float
            Each in [0, 1].

        Returns
        -------
        reach : Reach
            Largest gap between two groups' distribution functions, at 24 quantiles of
            the answers, and error, with intervals. The error is the mean squared change
            of the predictions: by so much the mean squared error grows if the
            predictions are the target's conditional means.

        Raises
        ------
        ValueError
            If no share of the budget was set aside for it.
        """
        check_is_fitted(self)
        return self._read_reach(fairness_tolerances)

    def _base_scores(self, X, metadata, *, private) -> np.ndarray:
        """Predictions of the wrapped regressor as one column."""
        model = self.estimator_
        scores = score_rows(self, model, "predict", X, metadata, private=private)
        if scores.size != len(scores):
            raise ValueError(
                "The wrapped regressor must predict one number per row, got an output "
                f"of {scores.shape[1:]} numbers."
            )
        return scores.reshape(-1, 1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):  # or its fit says what is wrong
            inner = get_tags(self.estimator).regressor_tags
            # A private model explains little of a few dozen rows, repaired or not.
            tags.regressor_tags.poor_score = inner is not None and inner.poor_score
        return tags


def check_target(X, y) -> np.ndarray:
    """Check a regression target: one finite number per row of `X`."""
    refuse_dates(y, "y")
    with domain("y", own_words=True):
        y = column_or_1d(y, dtype=np.float64, warn=True)
        assert_all_finite(y, input_name="y")
    same_length(X, y)
    return y
