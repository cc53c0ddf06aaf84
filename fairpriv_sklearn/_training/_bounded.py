"""Glue of the linear models: public bounds in, honest coefficients out."""

import math
from numbers import Real

import numpy as np
from scipy import sparse
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._door.bounds import n_entries, read_bounds
from .._door.groups import sensitive_positions
from .._shared.arguments import number
from .._shared.arrays import row_slices
from .._shared.callers import warn_now
from .._shared.domain import domain, finite_sparse, refuse_dates, refuse_unlabelled
from .._shared.origin import origin
from .._shared.rowwise import row_scores, row_softmax
from .._shared.sklearn import Interval
from .._wall import Fact
from ._design import FeatureScaling, default_data_norm, is_coded

# Share of the Gaussian-DP parameter that private counts take: 1 % of its square.
COUNT_SHARE = 0.1
BOUNDED_CONSTRAINTS = {
    "bounds": "no_validation",  # by read_bounds
    # Squares and fourth powers of the norm have to be finite numbers above zero.
    "data_norm": [None, Interval(Real, 1e-50, 1e50, closed="both")],
    "fit_intercept": ["boolean"],
}
_DENSE_ROWS = 4096
UNSCALED = (
    "{} shortens rows to norm 1 where bounds and data_norm are left out: of this data "
    "frame the columns in large units drown the others. Pass public bounds, put a "
    "DPTableEncoder before the model, or say data_norm=1.0 if such rows are meant."
)
INPUT = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class BoundedMixin:
    """Scale features by public bounds; predict with the same scaling.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to add an intercept. Without one the score is zero at the centre of
        `bounds`.
    bounds : tuple (low, high), default=None
        Public bounds of the features, each a number or an array of shape
        (n_features,), in units of the features. Features are clipped to them, centred,
        and scaled to [-1, 1]. None: features are taken as they are.
    """

    # Whether its answers to a row are the same bits in any table.
    _answers_row_by_row = True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Noise costs accuracy on the few dozen rows of scikit-learn's checks.
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True
        return tags

    def _refuse_cells(self, X) -> None:
        if hasattr(X, "columns") and origin(X) is None:
            self._warn_of_units()
        named = getattr(self, "sensitive_features", None)
        # Named columns have bounds as well, and are not centred.
        if self.bounds is not None and (named is None or callable(named)):
            ends = read_bounds(self.bounds, n_entries(self.bounds))
            _refuse_centred(X, FeatureScaling(*ends, data_norm=1.0))

    def _public_scaling(self, X) -> tuple[FeatureScaling, list[str]]:
        """The scaling stated by `bounds` and `data_norm`, and the facts it rests on."""
        facts = []
        low = high = None
        if self.bounds is not None:
            low, high = _check_bounds(self, X.shape[1])
            facts.append(Fact("bounds", _plain(self.bounds)))
        data_norm = self.data_norm
        if data_norm is None:
            # Without bounds, rows as an encoder gives them: nothing is read from data.
            bounded = self.bounds is not None
            is_frame = hasattr(self, "feature_names_in_")
            if is_frame and "_fitted_behind" not in vars(self):
                self._warn_of_units()
            data_norm = self._default_data_norm(X.shape[1]) if bounded else 1.0
        scaling = FeatureScaling(low, high, float(data_norm), self.fit_intercept)
        _refuse_centred(X, scaling)
        return scaling, [*facts, Fact("data_norm", data_norm)]

    def _warn_of_units(self) -> None:
        """Warn of a data frame that is not an encoder's: few have columns alike."""
        if self.bounds is None and self.data_norm is None:
            warn_now(UNSCALED.format(type(self).__name__), UserWarning)

    def _default_data_norm(self, n_features: int) -> float:
        # Without noise there is nothing to gain from shortening a row.
        noiseless = self.epsilon == np.inf
        return math.sqrt(n_features) if noiseless else default_data_norm(n_features)

    def _publish_linear(self, weights, scaling: FeatureScaling, covariance=None):
        """Set the fitted attributes of a linear model from released weights."""
        self.coef_, self.intercept_ = scaling.coefficients(weights)
        self.coef_covariance_ = None
        if covariance is not None:
            widths = np.broadcast_to(scaling.half_width, self.coef_.shape[1])
            self.coef_covariance_ = covariance / widths / widths[:, None]
        self._publish_scaling(scaling)

    def _publish_scaling(self, scaling: FeatureScaling) -> None:
        self.bounds_ = (
            None if scaling.low is None else np.stack([scaling.low, scaling.high])
        )
        self.data_norm_ = scaling.data_norm

    def _fitted_scaling(self) -> FeatureScaling:
        low, high = (None, None) if self.bounds_ is None else self.bounds_
        return FeatureScaling(low, high, self.data_norm_, fit_intercept=False)

    def _linear_scores(self, X) -> np.ndarray:
        """Scores of the rows as the model saw rows in `fit`; (n_rows, n_outputs)."""
        scaling = self._fitted_scaling()
        if sparse.issparse(X) and np.any(scaling.center):
            # Not in sparse rows: a few at a time are dense.
            parts = row_slices(X.shape[0], _DENSE_ROWS)
            return np.concatenate([self._linear_scores(X[p].toarray()) for p in parts])
        design = scaling.design(X, exact=False)
        coef = np.atleast_2d(self.coef_)
        weights = (coef * scaling.half_width).T * scaling.unit
        center = np.broadcast_to(scaling.center, coef.shape[1])
        return row_scores(design.rows, weights) + (self.intercept_ + coef @ center)

    def _check_X_y(self, X, y) -> tuple:
        refuse_dates(X)
        if is_classifier(self):
            refuse_unlabelled(y)
        with domain("X or y"):
            return validate_data(self, finite_sparse(X), y, **INPUT)

    def _predict_X(self, X):
        check_is_fitted(self)
        refuse_dates(X)
        with domain("X"):
            return validate_data(self, finite_sparse(X), reset=False, **INPUT)


class BoundedLinearMixin(BoundedMixin):
    """With coefficients of the features, and their errors where they are known."""

    @property
    def _n_outputs(self) -> int:
        """Scores of a row, of a classifier."""
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def coef_interval(self, level=0.95) -> np.ndarray:
        """Return intervals for the coefficients, by their covariance.

        They allow for the noise, for who happens to be in the table and for shrinkage,
        and are for what the model would find in the whole population. They follow from
        what the fit released: looking at them costs nothing. Coverage is near the
        level on average over the coefficients, not for each of them.

        Parameters
        ----------
        level : float, default=0.95
            Range: (0, 1).

        Returns
        -------
        interval : ndarray of shape (2, n_features) or (2, n_classes, n_features)
            Lower and upper ends of the entries of `coef_`.
        """
        check_is_fitted(self)
        level = number(0, 1, closed="neither")("level", level)
        if self.coef_covariance_ is None:
            raise ValueError(
                "There is no interval of any level: the errors of these coefficients "
                "are not known, see coef_covariance_."
            )
        errors = np.sqrt(np.diagonal(self.coef_covariance_, axis1=-2, axis2=-1))
        width = norm.ppf(0.5 + level / 2) * errors
        return np.stack([self.coef_ - width, self.coef_ + width])


def check_blind(estimator, X):
    """Validate the model's columns of `X`."""
    if is_coded(X):  # an encoder gives finite numbers
        return X
    refuse_dates(X)
    with domain("X"):
        X = finite_sparse(X)
        return check_array(X, estimator=estimator, input_name="X", **INPUT)


def class_probabilities(scores) -> np.ndarray:
    """Logistic of one score per row, softmax of several; (n_rows, n_classes)."""
    if scores.ndim == 1:
        positive = expit(scores)
        return np.column_stack([1 - positive, positive])
    return row_softmax(scores)


def most_probable(scores, classes):
    """Labels of the largest scores."""
    if scores.ndim == 1:
        return classes[(scores > 0).astype(np.int64)]
    return classes[scores.argmax(axis=1)]


def _check_bounds(estimator, n_features: int):
    """Bounds of the model's features, as two arrays.

    Arrays may have an entry for every column of `X`, the sensitive ones included.
    """
    bounds, n_given = estimator.bounds, estimator.n_features_in_
    if n_given == n_features or n_entries(bounds) != n_given:
        return read_bounds(bounds, n_features)
    ends = read_bounds(bounds, n_given)
    sensitive = sensitive_positions(estimator, n_given)
    return tuple(np.delete(end, sensitive) for end in ends)


def _refuse_centred(X, scaling: FeatureScaling) -> None:
    """Refuse sparse rows that would be dense once they are centred."""
    if sparse.issparse(X) and np.any(scaling.center):
        raise ValueError(
            "Sparse X cannot be centred: give bounds that are symmetric about zero, or "
            "data_norm alone, or pass X.toarray()."
        )


def _plain(bounds):
    return tuple(np.asarray(bound).tolist() for bound in bounds)
