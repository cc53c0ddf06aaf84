"""A pipeline of one budget."""

from __future__ import annotations

from functools import wraps

from sklearn import config_context
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.metaestimators import available_if

from ..._shared.callers import all_checks, warn_now, warned_after_all
from ..._shared.sklearn import routing_enabled
from ._refusals import keywords_of, refuse_mistakes


def _pipeline_has(method: str):
    def check(self) -> bool:
        getattr(super(BudgetPipeline, self), method)  # or it says what is missing
        return True

    return check


def _whole(fit):
    """Look for mistakes first, and warn of what the steps say when all are fitted."""

    @wraps(fit)
    def fit_all(self, X, y=None, **params):
        params = self._checked(X, y, params)
        try:
            with warned_after_all() as said:
                return fit(self, X, y, **params)
        finally:  # where a step fails, too: those before it are fitted
            for message, category in said:
                warn_now(message, category)

    return fit_all


class BudgetPipeline(Pipeline):
    """A pipeline that asks all steps for mistakes before the first one spends.

    ``fit(X, y, sensitive_features=a)`` hands the groups to the steps that take them,
    also where metadata routing is off; so do `predict` and `score` to the last one.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As in scikit-learn.
    """

    def __getattr__(self, name: str):
        if name == "privacy_":
            raise AttributeError(
                f"{type(self).__name__} has no privacy_, as its steps have one each: "
                "privacy_report(pipeline).guarantee is that of all together."
            )
        return self.__getattribute__(name)  # which says what is missing

    @_whole
    def fit(self, X, y=None, **params):
        """Fit the steps in turn.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like, default=None
        **params : dict
            As in scikit-learn; or `sensitive_features`, for all steps that take them.

        Returns
        -------
        self : object
        """
        return super().fit(X, y, **params)

    @available_if(_pipeline_has("fit_transform"))
    @_whole
    def fit_transform(self, X, y=None, **params):
        """Fit the steps in turn, and transform by the last one too.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like, default=None
        **params : dict
            As in scikit-learn; or `sensitive_features`, for all steps that take them.

        Returns
        -------
        X_new : array-like or DataFrame
        """
        return super().fit_transform(X, y, **params)

    @available_if(_pipeline_has("fit_predict"))
    @_whole
    def fit_predict(self, X, y=None, **params):
        """Fit the steps in turn, and predict the same rows by the last one.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like, default=None
        **params : dict
            As in scikit-learn; or `sensitive_features`, for all steps that take them.

        Returns
        -------
        y_pred : array-like
        """
        return super().fit_predict(X, y, **params)

    @available_if(_pipeline_has("score"))
    def score(self, X, y=None, sample_weight=None, **params):
        """Score the last step on what the others make of the table.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like, default=None
        sample_weight : array-like, default=None
            As in scikit-learn.
        **params : dict
            As in scikit-learn; or `sensitive_features`, for the last step.

        Returns
        -------
        score : float
        """
        # Without routing scikit-learn drops them in silence.
        with config_context(enable_metadata_routing=routing_enabled() or bool(params)):
            return super().score(X, y, sample_weight=sample_weight, **params)

    def _checked(self, X, y, params) -> dict:
        """Keywords for the steps, once nothing speaks against a fit."""
        params = self._by_step(params)
        with all_checks():
            refuse_mistakes(self, X, y, params)
            for _, step in self.steps:
                _forget(step)
        return params

    def _by_step(self, params) -> dict:
        """Groups under the names of the steps that take them, where routing is off."""
        if routing_enabled() or "sensitive_features" not in params:
            return params
        own = dict(params)
        groups = own.pop("sensitive_features")
        known = {name: keywords_of(step) for name, step in self.steps}
        takers = [name for name, keys in known.items() if "sensitive_features" in keys]
        if not takers:
            return params
        return {**{f"{name}__sensitive_features": groups for name in takers}, **own}


def _forget(step) -> None:
    """Make a step unfitted that will be fitted anew, unless one before it fails.

    Beside others of a later fit its guarantee would not be that of the whole.
    """
    if isinstance(step, Pipeline | FeatureUnion):  # which fit the very steps
        several = step.steps if isinstance(step, Pipeline) else step.transformer_list
        for _, inner in several:
            _forget(inner)
    elif hasattr(type(step), "_forget"):
        step._forget()
    elif hasattr(step, "get_params") and not isinstance(step, FrozenEstimator):
        for name in set(vars(step)) - set(step.get_params(deep=False)):
            if name.endswith("_") and not name.startswith("_"):
                delattr(step, name)
