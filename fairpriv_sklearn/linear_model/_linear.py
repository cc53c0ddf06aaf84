"""Linear regression from noisy second moments."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted

from .._door.bounds import public_target_range, read_target_range
from .._door.estimator import DELTA_CONSTRAINT, MIN_RECORDS, DPEstimator
from .._shared.domain import domain, refuse_dates
from .._shared.sklearn import Interval, StrOptions, fit_context
from .._training._bounded import BOUNDED_CONSTRAINTS, BoundedLinearMixin
from .._training._constant import TargetTotals, constant_plan, released_constant
from .._training._counts import public_sizes
from .._training._target import (
    TARGET_BINS,
    TARGET_SHARE,
    scaled_target,
    target_counts,
)
from .._wall import Rows, calibrate_gaussian, noise_source, open_wall, read_rows
from ._gradient_plan import (
    NOMINAL_RECORDS,
    gradient_plan,
    intercept_column,
    line_search_oracle,
    noisy_curvature,
)
from ._line_search import LineSearch
from ._moments import MomentRelease, ridge_from_moments
from ._preconditioned import (
    SQUARE_CURVATURE,
    Constant,
    largest_residual,
    preconditioned_descent,
    regression_ridge,
    regression_steps,
)
from ._queries import Geometry, MeanResidual, ResidualGradient
from ._ranges import learn_ranges, may_learn, range_counts, scaled_rows
from ._told_target import ToldTarget

# Below this number of records times the Gaussian-DP parameter, only the mean is told.
SIGNAL_OF_FEATURES = 80.0
# Below this features are on trial: where half of the gradients promise no more than
# noise, all that is left tells the mean. Chosen on simulated tables, as is the above.
SIGNAL_OF_TRIALS = 125.0
# There the counts of a target tell its range as they would at this signal: noise may be
# taken for the crowd, and costs a mean far more than its own noise. Chosen on simulated
# targets.
SURE_SIGNAL = 160.0


class DPLinearRegression(BoundedLinearMixin, RegressorMixin, DPEstimator):
    r"""Linear regression from noisy gradients or noisy second moments.

    .. math::
        \min_{w, b} \sum_i \rho_c(y_i - w^\top x_i - b) + \alpha \|w\|^2,

    with the squares of residuals continued linearly beyond a public c (Huber's loss),
    by noisy gradients in the metric of noisy second moments of the features; or, with
    plain squares, from :math:`\sum x x^\top`, :math:`\sum x`, :math:`\sum y x` and
    :math:`\sum y`, each with noise.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y), features scaled to rows u of norm at
    most :math:`\rho =` `data_norm` and the target to [-1, 1].

    *Gradients:* with :math:`R^2 = \rho^2 + \kappa^2`, :math:`\kappa` the intercept's
    column, replacing a record changes the mean gradient by at most 2 c R / n,
    counts of the target in 64 bins or fewer, up to four times in ever shorter parts of
    its bounds for together a twentieth of the squared Gaussian-DP parameter (more where
    only a mean is told), from which the range of the target is learnt, by
    :math:`\sqrt2`, and
    such counts of A features, once or twice with together as large a share of the rest,
    where `bounds` alone scale them and a rule of public numbers says that they tell the
    ranges inside, by :math:`\sqrt{2 A}`, and the second moments, which take a tenth of
    the squared Gaussian-DP parameter, by
    :math:`\sqrt2 R^2 / n`, and the mean residual, which takes 3 to 30 %, by the range
    within which it is cut off / n, and what tells how far to go along the slopes,
    two releases for 3 to 20 %, by 2 / n; composed exactly. Where n times the
    Gaussian-DP parameter is below 80, everything tells the mean, and the prediction is
    a constant; below 125, all that is left after half of the gradients does, if these
    promise no more than noise. Under "add_remove" n is replaced by a noisy count.

    *Moments:* one release. Weighted by :math:`\rho^{-2}, \rho^{-1}, \lambda \rho^{-1},
    1` with :math:`\lambda = 1.5` they change by at most :math:`\sqrt{8 + 2 \lambda^2 +
    (\lambda^2 - 1)^2 / 2} = 3.65` when a record is replaced, and with the number of
    records, which is then private too, by :math:`\sqrt{\lambda^2 + 4} = 2.5` when one
    is removed. The user guide has the proofs.

    Public: `bounds`, `data_norm`, `target_bounds`, and n under "replace_one".

    Parameters
    ----------
    {epsilon}
    {delta}
    alpha : float, default=None
        Ridge penalty, as in :class:`~sklearn.linear_model.Ridge` fitted on the scaled
        features. Range: [0, 1e50]. None picks the one with the smallest error as
        estimated from what was released, which costs nothing; where no weights promise
        to be better than none, the prediction is a constant. Without noise None is
        least squares. Gradients shrink the weights further where noise asks for it.
    solver : {"auto", "gradients", "moments"}, default="auto"
        Gradients need d noisy numbers a step where moments need d^2 / 2 at once, and
        their noise is proportional to c instead of the range of the target. "auto" is
        "gradients", and "moments" without noise.
    max_iter : int, default=None
        Number of gradients. None: 10 to 40, by a rule of n and `epsilon` ("add_remove":
        of `epsilon`).
    fit_intercept : bool, default=True
        Whether to fit an intercept. Without one the prediction at the centre of
        `bounds` is the centre of `target_bounds`.
    {bounds}
    data_norm : float, default=None
        Public bound of the Euclidean norm of a scaled row; longer rows are shortened.
        None: 1 without `bounds`, as
        :class:`~fairpriv_sklearn.preprocessing.DPTableEncoder` scales rows; with them a
        norm that few rows of independent uniform features exceed,
        :math:`\sqrt{d/3 + 0.6 \sqrt d}`, at most :math:`\sqrt d`, and
        :math:`\sqrt d`, no shortening, if `epsilon` is infinite. With a number no
        ranges are learnt inside `bounds`. Range: [1e-50, 1e50].
    target_bounds : tuple (low, high), default=None
        Public bounds of the target, to which it is clipped. None reads them from the
        data, with a `PrivacyLeakWarning`.
    {min_records}
    {neighboring}
    {ledger}
    {random_state}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights per unit of the original features, inside `bounds` and `data_norm`.
    coef_covariance_ : ndarray of shape (n_features, n_features) or None
        Of the errors of `coef_`, see `coef_interval`. None where they are not known:
        with the moments as solver, for constant models, with more than 1,000 columns,
        and where noise hides .4 of the features' variance.
    intercept_ : float
    bounds_ : ndarray of shape (2, n_features) or None
        To which features are clipped: `bounds`, or the ranges learnt inside.
    data_norm_ : float
    n_iter_ : int
        Number of gradients that were released; 0 for moments and a mean alone.
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Raises
    ------
    ValueError
        Before the budget is spent, if a feature or target is no finite number, a public
        bound is malformed, or `epsilon` is too small for its noise to be drawn.

    Warns
    -----
    PrivacyLeakWarning
        If `target_bounds` is read from the data.
    UserWarning
        If a data frame that no encoder of ours gave comes without `bounds` and
        `data_norm`.

    See Also
    --------
    fairpriv_sklearn.postprocessing.DPBarycenterRegressor : Repairs such a model.

    Notes
    -----
    Regression from noisy sufficient statistics is analysed in [1]_. Eigenvalues that
    the noise made negative count as zero.

    References
    ----------
    .. [1] Y.-X. Wang, "Revisiting differentially private linear regression: optimal
       and adaptive prediction & estimation in unbounded domain", UAI, 2018.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_biased_regression
    >>> from fairpriv_sklearn.linear_model import DPLinearRegression
    >>> X, y, _ = make_biased_regression(20000, random_state=0)
    >>> model = DPLinearRegression(
    ...     epsilon=1.0, bounds=(-4, 4), target_bounds=(-8, 8), random_state=0
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.3
    True
    """

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-5,
        alpha=None,
        solver="auto",
        max_iter=None,
        fit_intercept=True,
        bounds=None,
        data_norm=None,
        target_bounds=None,
        min_records=None,
        neighboring="replace_one",
        ledger=None,
        random_state=None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.solver = solver
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.min_records = min_records
        self.neighboring = neighboring
        self.ledger = ledger
        self.random_state = random_state

    _reads_batches = True
    _can_resume = True
    _of_fit = ("_public", "_learns")
    _signal_of_features = SIGNAL_OF_FEATURES

    _parameter_constraints = {
        **DPEstimator._parameter_constraints,
        **DELTA_CONSTRAINT,
        **BOUNDED_CONSTRAINTS,
        **MIN_RECORDS,
        "alpha": [None, Interval(Real, 0, 1e50, closed="both")],
        "solver": [StrOptions({"auto", "moments", "gradients"})],
        "max_iter": [None, Interval(Integral, 1, None, closed="left")],
        "target_bounds": [None, tuple, list, np.ndarray],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float64 or float32.
        y : array-like of shape (n_samples,)
            Targets; clipped to `target_bounds`.

        Returns
        -------
        self : object
            The fitted model.
        """
        rows = read_rows(self._read, X, y)
        scaling, (low, high), facts = self._public
        noise = noise_source(self.random_state)
        if self.fit_intercept and self._has_few_records(rows.n_rows):
            fit = self._fit_constant
        elif self._by_gradients:
            fit = self._fit_gradients
        else:
            fit = self._fit_moments
        weights, intercept, wall, covariance, scaling = fit(rows, scaling, facts, noise)
        self._publish(weights, intercept, scaling, low, high, covariance)
        self.privacy_ = wall.guarantee()
        return self

    @property
    def _by_gradients(self) -> bool:
        without_noise = self.solver == "auto" and self.epsilon == np.inf
        return self.solver != "moments" and not without_noise

    def _fit_constant(self, rows: Rows, scaling, facts, noise):
        query = TargetTotals(1, lambda block: block.y[:, None], are_counts=False)
        plan = constant_plan(query, self.epsilon)
        wall = open_wall(self, plan, facts=facts, noise=noise)
        mean = released_constant(wall, rows, query)[0]
        self.n_iter_ = 0
        return np.zeros(self.n_features_in_), mean, wall, None, scaling

    def _fit_moments(self, rows: Rows, scaling, facts, noise):
        counted = self.neighboring == "add_remove"
        query = MomentRelease(
            self.n_features_in_, scaling.data_norm, scaling.unit, counted
        )
        n_draws = query.n_coordinates
        mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=n_draws)
        wall = open_wall(self, [query.line(mu)], facts=facts, noise=noise)
        released = wall.release(query, rows)
        moments = query.unpack(released, None if counted else rows.n_rows)
        alpha = self.alpha
        if alpha is not None:
            alpha = alpha / scaling.data_norm**2  # the moments are of u / data_norm
        weights, intercept = ridge_from_moments(
            moments,
            noise=wall.scale(query) / moments.n_records,
            emphasis=query.emphasis,
            alpha=alpha,
            fit_intercept=self.fit_intercept,
        )
        self.n_iter_ = 0
        return weights / scaling.data_norm, intercept, wall, None, scaling

    def _fit_gradients(self, rows: Rows, scaling, facts, noise):
        counted = self.neighboring == "add_remove"
        n_assumed = NOMINAL_RECORDS if counted else rows.n_rows
        signal = n_assumed * calibrate_gaussian(self.epsilon, self.delta)
        is_constant = self.fit_intercept and signal < SIGNAL_OF_FEATURES
        on_trial = self.fit_intercept and signal < SIGNAL_OF_TRIALS
        own = intercept_column(scaling, signal)
        geometry = Geometry.scaled(own, self.n_features_in_, 1)
        targets, share = self._target_counts(signal, on_trial)
        learns = self._learns and not is_constant
        ranges = range_counts(scaling, signal) if learns else None
        plan = gradient_plan(
            geometry,
            epsilon=self.epsilon,
            delta=self.delta,
            n_assumed=n_assumed,
            n_counts=int(counted),
            max_iter=self.max_iter or regression_steps(signal),
            targets=targets,
            target_share=share,
            ranges=ranges,
            constant={MeanResidual.name: 1} if self.fit_intercept else None,
        )
        wall = open_wall(self, plan.lines, facts=facts, noise=noise)
        n_records = public_sizes(
            wall, rows, (1, 1), n_counts=plan.n_counts, min_group_size=None
        ).n_records
        rows, scaling = learn_ranges(wall, rows, scaling, ranges, n_records)
        target = ToldTarget(largest_residual(signal))
        if targets:
            target = target.counted(wall, rows, targets, n_records)
        level = target.level(wall, geometry, n_records)
        trial = plan.n_steps // 2 if on_trial else 0
        weights = covariance = None
        if not is_constant:
            told = wall, rows, plan, geometry, target, n_records
            weights, covariance = self._descend(*told, signal, trial)
        if weights is None:
            # Features would only bring noise.
            lines = plan.of_features if is_constant else plan.left_after(trial)
            weights = np.zeros(self.n_features_in_)
            intercept = target.mean(wall, rows, level, lines)
        elif self.fit_intercept:
            off = _level_off(wall, rows, level, weights)
            weights, last = weights[:-1, 0], weights[-1, 0]
            intercept = (last - off / geometry.constant) * geometry.constant
        else:
            weights, intercept = weights[:, 0], 0.0
        self.n_iter_, width = plan.n_steps, target.width
        if covariance is not None:
            covariance = covariance * width**2
        intercept = intercept * width + target.center
        return weights * width, intercept, wall, covariance, scaling

    def _descend(
        self, wall, rows: Rows, plan, geometry: Geometry, target, n_records, signal,
        trial,
    ):  # fmt: skip
        """Weights by noisy gradients, and the covariance of their errors, if known.

        No weights where after the trial they promise no more than noise.
        """
        curvature = noisy_curvature(
            wall, rows, geometry, n_records, plan, SQUARE_CURVATURE
        )
        known = target.largest, target.center, target.width
        query = ResidualGradient(geometry, n_records, *known)
        ridge = np.full(geometry.n_columns, (self.alpha or 0.0) / n_records + 1e-12)
        if self.fit_intercept:
            ridge[-1] = 0.0

        def at_scores(means, variances):
            squares, slopes = target.at_scores(variances)
            return squares / n_records, slopes, 0.0, 0.0

        return preconditioned_descent(
            lambda weights: wall.release(query, rows, weights),
            curvature,
            n_outputs=1,
            ridge=ridge,
            noise=wall.scale(query),
            max_iter=plan.n_steps,
            average=True,
            noise_ridge=regression_ridge(signal),
            constant=Constant.guessed(target.start, target.sampling / n_records),
            at_scores=at_scores,
            search=LineSearch(
                line_search_oracle(wall, rows, query),
                worth=np.full(1, target.square / 2),
                curvature=SQUARE_CURVATURE,
                spread=0.3,
                most=target.most,
            ),
            trial=trial,
        )

    def _target_counts(self, signal: float, on_trial: bool):
        """Counts that tell the range of the target, if any, and their share."""
        targets = target_counts(signal) if self.fit_intercept else None
        share = TARGET_SHARE
        if on_trial and targets and targets.n_bins == TARGET_BINS:
            targets = target_counts(SURE_SIGNAL)
            share *= (SURE_SIGNAL / signal) ** 2
        return targets, share

    def _read(self, X, y, sensitive_features) -> dict:
        refuse_dates(y, "y")
        X, y = self._check_X_y(X, y)
        with domain("y"):
            y = y.astype(np.float64, copy=False)
            assert_all_finite(y, input_name="y")  # objects may be so before
        scaling, facts = self._public_scaling(X)
        low, high, fact = public_target_range(self.target_bounds, y)
        self._public = scaling, (low, high), [*facts, fact]
        self._learns = self._by_gradients and may_learn(self, X)
        x = scaled_rows(X, scaling, learns=self._learns)
        with np.errstate(all="ignore"):
            return {"x": x, "y": scaled_target(y, low, high)}

    @property
    def prediction_range_(self) -> tuple[float, float]:
        """No row whatever is given less or more.

        The norm of the weights of the scaled features times that of the longest row,
        about the prediction of a row in the middle of `bounds_`, or of zeros.
        """
        check_is_fitted(self)
        scaling = self._fitted_scaling()
        with np.errstate(all="ignore"):  # beyond all numbers it is unbounded
            at = self.intercept_ + np.sum(self.coef_ * scaling.center)
            size = np.linalg.norm(self.coef_ * scaling.half_width)
            reach = size * self.data_norm_
            return float(at - reach), float(at + reach)

    def _told_range(self) -> tuple[float, float] | None:
        # Of a subclass only `predict` may tell.
        return self.prediction_range_ if type(self) is DPLinearRegression else None

    def predict(self, X) -> np.ndarray:
        """Predicted targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Clipped and scaled by the public bounds as in `fit`.

        Returns
        -------
        targets : ndarray of shape (n_samples,)
        """
        return self._linear_scores(self._predict_X(X))[:, 0]

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.target_bounds is not None:
            read_target_range(self.target_bounds)

    def _publish(self, weights, intercept, scaling, low, high, covariance) -> None:
        half = high / 2 - low / 2
        scaled = np.append(weights, intercept)[:, None] * half
        if covariance is not None:
            with np.errstate(over="ignore"):  # beyond all numbers: unbounded intervals
                covariance = covariance * half * half
        scaling = replace(scaling, fit_intercept=True)
        self._publish_linear(scaled, scaling, covariance)
        self.coef_ = self.coef_[0]
        if covariance is not None:
            self.coef_covariance_ = self.coef_covariance_[0]
        self.intercept_ = float(self.intercept_[0] + low / 2 + high / 2)


def _level_off(wall, rows: Rows, level: MeanResidual, weights) -> float:
    """How far the mean residual is off, as far as it is to be trusted.

    Bounded residuals draw the mean of a skewed target towards its median.
    """
    off = float(wall.release(level, rows, weights)[0])
    # Not by a quotient: what is released may be zero.
    trust = max(0.0, off**2 - wall.scale(level) ** 2) / max(off**2, 1e-300)
    return off * trust
