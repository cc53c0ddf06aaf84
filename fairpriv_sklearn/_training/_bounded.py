"""Glue of the linear models: public bounds in, honest coefficients out."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fairpriv_sklearn._base import public_fact
from fairpriv_sklearn._domain import domain, finite_sparse
from fairpriv_sklearn._groups import sensitive_positions
from fairpriv_sklearn._rowwise import row_scores, row_softmax
from fairpriv_sklearn._sklearn import Interval
from fairpriv_sklearn._training._design import FeatureScaling, default_data_norm
from fairpriv_sklearn.privacy import warn_leak

# Share of the Gaussian-DP parameter that private counts take: 1 % of its square.
COUNT_SHARE = 0.1
BOUNDED_CONSTRAINTS = {
    "bounds": [None, tuple, list, np.ndarray],
    # Squares and fourth powers of the norm have to be finite numbers above zero.
    "data_norm": [None, Interval(Real, 1e-50, 1e50, closed="both")],
    "fit_intercept": ["boolean"],
}
INPUT = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class BoundedLinearMixin:
    """Scale features by public bounds; predict with the same scaling."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Noise costs accuracy on the few dozen rows of scikit-learn's checks.
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True
        return tags

    def _public_scaling(self, X) -> tuple[FeatureScaling, list[str]]:
        """The scaling stated by `bounds` and `data_norm`, and the facts it rests on."""
        facts = []
        low = high = None
        if self.bounds is not None:
            low, high = _check_bounds(self, X.shape[1])
            facts.append(public_fact("bounds", _plain(self.bounds), from_data=False))
        elif self.data_norm is None:
            warn_leak("bounds", "the range of the features")
            low, high = _bounds_of(X)
            facts.append(public_fact("bounds", None, from_data=True))
        data_norm = self.data_norm
        if data_norm is None:
            data_norm = self._default_data_norm(X.shape[1])
        scaling = FeatureScaling(low, high, float(data_norm), self.fit_intercept)
        if sparse.issparse(X) and np.any(scaling.center):
            raise ValueError(
                "Sparse X cannot be centred: give bounds that are symmetric about "
                "zero, or data_norm alone, or pass X.toarray()."
            )
        return scaling, [*facts, public_fact("data_norm", data_norm, from_data=False)]

    def _default_data_norm(self, n_features: int) -> float:
        # Without noise there is nothing to gain from shortening a row.
        noiseless = self.epsilon == np.inf
        return math.sqrt(n_features) if noiseless else default_data_norm(n_features)

    def _publish_linear(self, weights, scaling: FeatureScaling) -> None:
        """Set the fitted attributes of a linear model from released weights."""
        self.coef_, self.intercept_ = scaling.coefficients(weights)
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
        design = scaling.design(X, exact=False)
        coef = np.atleast_2d(self.coef_)
        weights = (coef * scaling.half_width).T * scaling.unit
        center = np.broadcast_to(scaling.center, coef.shape[1])
        return row_scores(design.rows, weights) + (self.intercept_ + coef @ center)

    def _predict_X(self, X):
        check_is_fitted(self)
        with domain("X"):
            return validate_data(self, finite_sparse(X), reset=False, **INPUT)


def check_blind(estimator, X):
    """Validate the model's columns of `X`."""
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
    """Bounds of the model's features, as two arrays."""
    try:
        low, high = estimator.bounds
        given = [np.asarray(bound, dtype=np.float64) for bound in (low, high)]
        given = [_model_columns(estimator, bound, n_features) for bound in given]
        low, high = (np.broadcast_to(bound, n_features).copy() for bound in given)
    except (TypeError, ValueError):
        raise ValueError(
            "bounds must be a pair (low, high) of numbers or of arrays with one entry "
            f"per feature ({n_features} features), got {estimator.bounds!r}."
        ) from None
    if not (np.isfinite(high / 2 - low / 2).all() and (low <= high).all()):
        raise ValueError("bounds must be finite with low <= high.")
    return low, high


def _model_columns(estimator, bound, n_features: int):
    """Leave out the entries of columns that are named as sensitive."""
    n_given = estimator.n_features_in_
    if bound.shape != (n_given,) or n_given == n_features:
        return bound
    return np.delete(bound, sensitive_positions(estimator, n_given))


def _bounds_of(X):
    """Smallest and largest value of each feature; symmetric for sparse `X`."""
    if sparse.issparse(X):
        largest = abs(X).max(axis=0).toarray().ravel().astype(np.float64)
        return -largest, largest
    limit = np.finfo(np.float64).max / 2
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    return np.maximum(low, -limit), np.minimum(high, limit)


def _plain(bounds):
    return tuple(np.asarray(bound).tolist() for bound in bounds)
