"""Scorers that hand the sensitive features to the model and to the metric."""

import inspect

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from .._door.groups import named_positions, refuse_twice
from .._shared.arguments import calls, checked, one_of
from .._shared.guarded import ask_wrapped
from .._shared.sklearn import asks_for, safe_indexing


@checked(
    metric=calls,
    response_method=one_of("predict", "predict_proba", "decision_function"),
)
def make_fairness_scorer(metric, *, sensitive_features=None, response_method="predict"):
    """Make a scorer out of a disparity, for `scoring=` in scikit-learn.

    The score is ``-metric(y, predictions, sensitive_features=...)``: greater is
    better, 0 is best. Unlike the scorers of :func:`sklearn.metrics.make_scorer`, this
    one hands the sensitive features on to `predict` where the estimator takes them
    there, so that attribute-aware models can be scored.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_pred, *, sensitive_features) -> float``, smaller is fairer.
    sensitive_features : str, int, list of these, callable or None, default=None
        Where the scorer finds the groups. None: they are metadata, as in
        ``scorer(estimator, X, y, sensitive_features=a)``, or, with metadata routing
        enabled, ``cross_validate(..., params={"sensitive_features": a})``, or another
        name that ``scorer.set_score_request(sensitive_features=name)`` says. Otherwise
        the name(s) or position(s) of columns of `X`, or a callable ``X -> labels``;
        this works with routing on and off.
    response_method : {"predict", "predict_proba", "decision_function"}, \
            default="predict"
        What to compare. With ``"predict_proba"`` the probability of the second class
        of a binary classifier.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, *, sensitive_features=None) -> float``.

    See Also
    --------
    demographic_parity_difference : A disparity of predicted classes.
    ks_parity_difference : A disparity of real-valued predictions.

    Notes
    -----
    The scores are computed from the held-out data as they are: they are not private.
    An estimator that reads its groups from `X` by itself (its own
    ``sensitive_features`` is not None) is left to do so.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.model_selection import cross_val_score
    >>> from fairpriv_sklearn.datasets import make_biased_mixture
    >>> from fairpriv_sklearn.metrics import (
    ...     demographic_parity_difference, make_fairness_scorer)
    >>> X, y, sensitive = make_biased_mixture(500, n_classes=2, random_state=0)
    >>> scorer = make_fairness_scorer(
    ...     demographic_parity_difference, sensitive_features=lambda X: X[:, 0] > 0)
    >>> cross_val_score(GaussianNB(), X, y, scoring=scorer, cv=3).shape
    (3,)
    """
    return _FairnessScorer(metric, sensitive_features, response_method)


class _FairnessScorer:
    """Callable with scikit-learn's scorer signature; asks for the groups it needs."""

    def __init__(self, metric, sensitive_features, response_method):
        self.metric = metric
        self.sensitive_features = sensitive_features
        self.response_method = response_method
        self.asked = sensitive_features is None

    def __call__(self, estimator, X, y, *, sensitive_features=None):
        if self.sensitive_features is not None:
            refuse_twice(self.sensitive_features, sensitive_features)
            sensitive_features = self._read_from(X)
        elif sensitive_features is None:
            raise ValueError(
                "The scorer needs the sensitive features: pass them as metadata with "
                "metadata routing enabled, or make the scorer with "
                "sensitive_features=<column of X>."
            )
        predictions = group_predictions(
            estimator, X, sensitive_features, self.response_method
        )
        return -self.metric(y, predictions, sensitive_features=sensitive_features)

    def _read_from(self, X):
        if callable(self.sensitive_features):
            return self.sensitive_features(X)
        X = X if hasattr(X, "shape") else np.asarray(X)
        names = getattr(X, "columns", None)
        names = None if names is None else np.asarray(names, dtype=object)
        positions = named_positions(self.sensitive_features, X.shape[1], names)
        return safe_indexing(X, positions, axis=1)

    def get_metadata_routing(self):
        """Metadata this scorer asks for: the groups, unless it reads them from X."""
        request = MetadataRequest(owner="make_fairness_scorer")
        request.score.add_request(param="sensitive_features", alias=self.asked)
        return request

    def set_score_request(self, *, sensitive_features):
        """Say whether, or by which name, the groups are asked for."""
        self.asked = sensitive_features
        return self

    def __repr__(self):
        name = getattr(self.metric, "__name__", repr(self.metric))
        return f"make_fairness_scorer({name}, greater_is_better=False)"


def group_predictions(estimator, X, sensitive_features, method="predict"):
    """Predictions of `estimator`, handing it the groups where it takes them.

    For ``method="predict_proba"`` the probabilities of the second of two classes.
    """
    takes = _takes_groups(estimator, method)
    groups = {"sensitive_features": sensitive_features} if takes else {}
    predictions = ask_wrapped(estimator, method, X, private=False, **groups)
    return _second_class(predictions) if method == "predict_proba" else predictions


def _takes_groups(estimator, method: str) -> bool:
    """Whether `method` of `estimator` wants the sensitive features handed to it."""
    if isinstance(estimator, Pipeline):
        return _takes_groups(estimator[-1], method)
    if getattr(estimator, "sensitive_features", None) is not None:
        return False  # it reads them from X
    if getattr(estimator, "blind", False) and method != "fit":
        return False
    parameters = inspect.signature(getattr(estimator, method)).parameters
    if "sensitive_features" in parameters:
        return True
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return False
    # A meta-estimator with `**params`: its router knows
    return asks_for(estimator, method, ["sensitive_features"])


def _second_class(probabilities: np.ndarray) -> np.ndarray:
    if np.ndim(probabilities) != 2 or np.shape(probabilities)[1] != 2:
        raise ValueError(
            "response_method='predict_proba' compares the probability of the second of "
            "two classes, but the estimator does not have two classes."
        )
    return np.asarray(probabilities)[:, 1]
