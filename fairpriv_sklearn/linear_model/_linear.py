"""Linear regression from noisy second moments."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from fairpriv_sklearn._base import DELTA_CONSTRAINT, DPEstimator, public_fact
from fairpriv_sklearn._domain import domain, finite_sparse
from fairpriv_sklearn._sklearn import Interval, fit_context
from fairpriv_sklearn._training._bounded import (
    BOUNDED_CONSTRAINTS,
    INPUT,
    BoundedLinearMixin,
)
from fairpriv_sklearn._training._design import BITS, UNIT
from fairpriv_sklearn._wall import PrivacyFilter, Release, read_rows
from fairpriv_sklearn.accounting import calibrate_gaussian
from fairpriv_sklearn.linear_model._moments import MomentRelease, ridge_from_moments
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.privacy import warn_leak


class DPLinearRegression(BoundedLinearMixin, RegressorMixin, DPEstimator):
    r"""Ridge regression from noisy second moments.

    .. math::
        \min_{w, b} \sum_i (y_i - w^\top x_i - b)^2 + \alpha \|w\|^2,

    computed from :math:`\sum x x^\top`, :math:`\sum x`, :math:`\sum y x` and
    :math:`\sum y`, each with noise.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y): one Gaussian release of the sums over
    scaled features u, :math:`\|u\| \le \rho =` `data_norm`, and the target scaled to
    [-1, 1]. Weighted by :math:`\rho^{-2}, \rho^{-1}, \kappa \rho^{-1}, 1` with
    :math:`\kappa = 1.5` they change by at most :math:`\sqrt{8 + 2 \kappa^2 +
    (\kappa^2 - 1)^2 / 2} = 3.65` when a record is replaced, and with the number of
    records, which is then private too, by :math:`\sqrt{\kappa^2 + 4} = 2.5` when one
    is removed; the user guide has the proof.
    Public: `bounds`, `data_norm`, `target_bounds`, and n under "replace_one".

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget. Range: (0, inf]; infinity adds no noise.
    delta : float, default=1e-5
        Range: (0, 1).
    alpha : float, default=None
        Ridge penalty, as in :class:`~sklearn.linear_model.Ridge` fitted on the scaled
        features. None picks the one with the smallest
        error as estimated from the noisy moments, which costs nothing; where no
        weights promise to be better than none, the prediction is the noisy mean.
        Without noise None is least squares.
    fit_intercept : bool, default=True
        Whether to fit an intercept. Without one the prediction at the centre of
        `bounds` is the centre of `target_bounds`.
    bounds : tuple (low, high), default=None
        Public bounds of the features, each a number or an array of shape
        (n_features,), in units of the features. Features are clipped to them, centred,
        and scaled to [-1, 1]. None: features are taken as they are.
    data_norm : float, default=None
        Public bound of the Euclidean norm of a scaled row; longer rows are shortened.
        None: 1 without `bounds`, as
        :class:`~fairpriv_sklearn.preprocessing.DPTableEncoder` scales rows; with them a
        norm that few rows of independent uniform features exceed,
        :math:`\sqrt{d/3 + 0.6 \sqrt d}`, at most :math:`\sqrt d`, and
        :math:`\sqrt d`, no shortening, if `epsilon` is infinite. Range: [1e-50, 1e50].
    target_bounds : tuple (low, high), default=None
        Public bounds of the target, to which it is clipped. None reads them from the
        data, with a `PrivacyLeakWarning`.
    neighboring : {"replace_one", "add_remove"}, default="replace_one"
        Which tables are neighbours.
    ledger : PrivacyLedger, default=None
        Where the budget is taken from.
    random_state : int, RandomState instance or None, default=None
        None draws secure noise. An int makes the fit reproducible and not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights per unit of the original features, inside `bounds` and `data_norm`.
    intercept_ : float
    bounds_ : ndarray of shape (2, n_features) or None
    data_norm_ : float
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Warns
    -----
    PrivacyLeakWarning
        If `target_bounds` is read from the data.

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
        fit_intercept=True,
        bounds=None,
        data_norm=None,
        target_bounds=None,
        neighboring="replace_one",
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.neighboring = neighboring
        self.ledger = ledger
        self.random_state = random_state

    _reads_batches = True

    _parameter_constraints = {
        **DPEstimator._parameter_constraints,
        **DELTA_CONSTRAINT,
        **BOUNDED_CONSTRAINTS,
        "alpha": [None, Interval(Real, 0, None, closed="left")],
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
        del self._public
        noise = noise_source(self.random_state)

        counted = self.neighboring == "add_remove"
        query = MomentRelease(
            self.n_features_in_, scaling.data_norm, scaling.unit, counted
        )
        n_draws = query.n_coordinates
        mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=n_draws)
        wall = PrivacyFilter(
            self,
            [Release(query.name, "gaussian", mu, n_draws)],
            delta=self.delta,
            neighboring=self.neighboring,
            mechanism="second moments of features and target",
            facts=facts,
            noise=noise,
            ledger=self.ledger,
        )
        wall.reserve()
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
        self._publish(weights / scaling.data_norm, intercept, scaling, low, high)
        self.privacy_ = wall.guarantee()
        return self

    def _read(self, X, y, sensitive_features) -> dict:
        with domain("X"):
            X, y = validate_data(self, finite_sparse(X), y, **INPUT)
        with domain("y"):
            y = y.astype(np.float64)
        scaling, facts = self._public_scaling(X)
        low, high, fact = self._public_target(y)
        self._public = scaling, (low, high), [*facts, fact]
        with np.errstate(all="ignore"):
            design = replace(scaling, fit_intercept=False).design(X)
            return {"x": design.rows, "y": _scaled_target(y, low, high)}

    def predict(self, X):
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

    def _public_target(self, y) -> tuple[float, float, str]:
        """Bounds of the target, and the fact taken as public."""
        if self.target_bounds is None:
            warn_leak("target_bounds", "the range of the target")
            limit = np.finfo(np.float64).max / 4
            low, high = max(float(y.min()), -limit), min(float(y.max()), limit)
            fact = public_fact("target_bounds", None, from_data=True)
            # A constant target needs some range to be scaled by.
            return low, high if high > low else low + max(1.0, abs(low)), fact
        try:
            low, high = (float(bound) for bound in self.target_bounds)
        except (TypeError, ValueError):
            low = high = np.nan
        if not (0 < high / 2 - low / 2 < np.inf):
            raise ValueError(
                "target_bounds must be a pair (low, high) of finite numbers with "
                f"low < high, got {self.target_bounds!r}."
            )
        return low, high, public_fact("target_bounds", (low, high), from_data=False)

    def _publish(self, weights, intercept, scaling, low, high) -> None:
        half = high / 2 - low / 2
        scaled = np.append(weights, intercept)[:, None] * half
        self._publish_linear(scaled, replace(scaling, fit_intercept=True))
        self.coef_ = self.coef_[0]
        self.intercept_ = float(self.intercept_[0] + low / 2 + high / 2)


def _scaled_target(y, low: float, high: float):
    """Targets as numbers in [-1, 1] on the grid, whatever they are; NaN becomes 0."""
    half = high / 2 - low / 2
    scaled = y / half - (low / 2 + high / 2) / half
    scaled = np.nan_to_num(np.clip(scaled, -1.0, 1.0), nan=0.0)
    return np.trunc(scaled * 2.0**BITS) * UNIT
