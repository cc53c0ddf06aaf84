"""The sensitive features of a table, and how they reach candidates."""

import inspect
from dataclasses import dataclass
from typing import Any

from scipy.sparse import issparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from ..._door.groups import (
    label_list,
    labels_by,
    named_positions,
    refuse_named_twice,
    refuse_twice,
    without_sensitive_columns,
)
from ..._shared import nested
from ..._shared.sklearn import asks_for, routing_enabled, safe_indexing
from ...metrics import _takes_groups
from ._facts import inner_parameter


@dataclass(frozen=True)
class Groups:
    """The sensitive features of a table, and how they reach the candidates.

    Attributes
    ----------
    labels : list or None
        Group of each row; None if nobody names the groups.
    X : array-like
        The table for the candidates.
    given : array-like or None
        What is handed to the candidates' methods.
    """

    labels: list | None
    X: Any
    given: Any


def read_groups(owner, estimator, X, sensitive_features) -> Groups:
    """Find the sensitive features: the call, the search's own columns, the estimator's.

    Parameters
    ----------
    owner : object
        With `sensitive_features`, `n_features_in_` and, for names, `feature_names_in_`.
    estimator : estimator
        The candidates' estimator.
    X, sensitive_features : array-like
    """
    refuse_twice(owner.sensitive_features, sensitive_features)
    if owner.sensitive_features is not None:
        names = getattr(owner, "feature_names_in_", None)
        refuse_named_twice(owner.sensitive_features, estimator, names)
        labels = _labels_in(owner, owner.sensitive_features, X)
        return Groups(labels, without_sensitive_columns(owner, X), labels)
    if sensitive_features is not None:
        return Groups(label_list(sensitive_features), X, sensitive_features)
    named = named_groups(estimator)
    labels = None if named is None else _labels_in(owner, named, X)
    return Groups(labels, X, None)


def named_groups(estimator):
    """The columns of groups that the candidates' estimator names itself, or None."""
    owners = nested.owners(estimator)
    # Behind the transformers of a pipeline a column is not where it was.
    behind = [path for path, one in owners.items() if isinstance(one, Pipeline)]
    return inner_parameter(estimator, "sensitive_features", behind)


def _labels_in(owner, named, X) -> list:
    if callable(named):
        return label_list(labels_by(named, X))
    names = getattr(owner, "feature_names_in_", None)
    positions = named_positions(named, owner.n_features_in_, names)
    columns = safe_indexing(X, positions, axis=1)
    return label_list(columns.toarray() if issparse(columns) else columns)


def groups_for(model, method: str, given) -> dict:
    """The keyword by which the groups reach `method`, if it wants them."""
    if given is None:
        return {}
    name = "sensitive_features"
    if isinstance(model, Pipeline) and method == "fit":
        if routing_enabled():
            return {name: given} if asks_for(model, method, [name]) else {}
        last, model = model.steps[-1]
        name = f"{last}__{name}"
    return {name: given} if _wants(model, method) else {}


def _wants(model, method: str) -> bool:
    if isinstance(model, FrozenEstimator):
        return False
    if method == "fit" and not routing_enabled():
        # What takes any keyword refuses this one without routing, and one hands it on.
        said = inspect.signature(getattr(model, method)).parameters
        if "sensitive_features" not in said:
            hands_on = isinstance(model, TransformedTargetRegressor)
            return hands_on and _takes_groups(model, method)
    return _takes_groups(model, method)
