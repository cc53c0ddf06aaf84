"""The registry of estimators: add an entry and get all common tests for it.

Groups come from the sign of the first column, so that scikit-learn's own checks, which
know nothing of sensitive features, can run: `sensitive_features=first_sign`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import BernoulliNB

from fairpriv_sklearn.accounting import (
    PureEvent,
)
from fairpriv_sklearn.generative import (
    DPSinkhornGenerator,
    DPSlicedWassersteinGenerator,
)
from fairpriv_sklearn.linear_model import (
    DPLinearRegression,
    DPOutputPerturbationLogisticRegression,
    DPWassersteinLogisticRegression,
)
from fairpriv_sklearn.model_selection import DPGridSearchCV, DPRandomizedSearchCV
from fairpriv_sklearn.neural_network import (
    DPWassersteinAutoencoder,
    DPWassersteinMLPClassifier,
    DPWassersteinMLPRegressor,
)
from fairpriv_sklearn.postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
)
from fairpriv_sklearn.preprocessing import DPTableEncoder
from fairpriv_sklearn.privacy import PrivacyGuarantee


class FirstSign:
    """Group 1 where the first column is positive, else 0.

    A class, so that its name in test ids is the same in every process.
    """

    def __call__(self, X):
        if hasattr(X, "columns"):
            X = X.to_numpy()
        column = X[:, [0]].toarray()[:, 0] if sparse.issparse(X) else X[:, 0]
        column = np.asarray(column)
        if column.dtype.kind == "c":
            column = column.real
        return (column.astype(float) > 0).astype(int)

    def __repr__(self):
        return "first_sign"

    def __eq__(self, other):
        return isinstance(other, FirstSign)

    def __hash__(self):
        return hash(FirstSign)


first_sign = FirstSign()

GROUPS = {"sensitive_features": first_sign, "groups": [0, 1]}


@dataclass(frozen=True)
class Entry:
    """One estimator and how the common tests are to use it.

    Parameters
    ----------
    name : str
        Class name.
    make : callable
        ``make(**params)`` returns an instance that scikit-learn's checks can fit.
    task : {"regression", "classification", "transform", "generate"}
        What `fit` takes and which methods there are.
    public : dict
        Parameters that turn every public fact into an argument for the tables of the
        common tests (features and targets in [-1, 1], classes 0 and 1), so that no
        `PrivacyLeakWarning` is raised.
    attribute_aware : bool
        Whether predictions need the sensitive features.
    needs_groups : bool
        Whether `fit` needs sensitive features at all.
    epsilon_of : callable
        ``epsilon_of(estimator)``: the epsilon that the guarantee should show.
    """

    name: str
    make: Callable[..., Any]
    task: str
    public: dict
    attribute_aware: bool = True
    needs_groups: bool = True
    epsilon_of: Callable[[Any], float] = lambda estimator: estimator.epsilon
    private_base: bool = False


def _barycenter_transformer(**params):
    return DPBarycenterTransformer(**{"bounds": (-3, 3), **GROUPS, **params})


def _declared(params):
    # A linear regression is not private, so the whole would be infinite:
    # the common tests look at the second phase.
    return PrivacyGuarantee.from_events(
        [PureEvent(0.0)],
        delta=0.0,
        neighboring=params.get("neighboring", "replace_one"),
        mechanism="declared for a test",
    )


def _barycenter_regressor(**params):
    params = {
        "target_bounds": (-3, 3),
        "base_guarantee": _declared(params),
        **GROUPS,
        **params,
    }
    return DPBarycenterRegressor(LinearRegression(), **params)


def _blind_regressor(**params):
    blind = {
        "blind": True,
        "group_estimator": BernoulliNB(),
        "group_guarantee": _declared(params),
    }
    return _barycenter_regressor(**{**blind, **params})


def _blind_classifier(**params):
    blind = {
        "blind": True,
        "group_estimator": BernoulliNB(),
        "group_guarantee": _declared(params),
    }
    return _dp2dp_classifier(**{**blind, **params})


def _dp2dp_classifier(**params):
    # Naive Bayes also fits rows of one class.
    params = {"base_guarantee": _declared(params), **GROUPS, **params}
    return DP2DPClassifier(BernoulliNB(), **params)


# Generators, with the budget that the common tests count on.
def _sinkhorn_generator(**params):
    return DPSinkhornGenerator(**{"epsilon": 1.0, **params})


def _sliced_generator(**params):
    return DPSlicedWassersteinGenerator(**{"epsilon": 1.0, **params})


def _pairs_generator(**params):
    return _sinkhorn_generator(**{"method": "pairs", **params})


def _gradient_generator(**params):
    return _sliced_generator(**{"method": "gradient", "max_iter": 10, **params})


def _wasserstein_logistic(**params):
    return DPWassersteinLogisticRegression(**{**GROUPS, **params})


def _grid_search(**params):
    model = DPWassersteinLogisticRegression(
        neighboring=params.get("neighboring", "replace_one"), bounds=(-1, 1)
    )
    return DPGridSearchCV(model, {"C": [0.1, 1.0]}, **{**GROUPS, **params})


def _randomized_search(**params):
    model = DPBarycenterRegressor(
        LinearRegression(),
        target_bounds=(-3, 3),
        base_guarantee=_declared(params),
        neighboring=params.get("neighboring", "replace_one"),
    )
    tolerances = {"fairness_tolerance": [0.0, 0.1]}
    return DPRandomizedSearchCV(model, tolerances, n_iter=2, **{**GROUPS, **params})


# Few steps: the common tests look at contracts, and are many.
def _mlp_classifier(**params):
    return DPWassersteinMLPClassifier(**{"max_iter": 10, **GROUPS, **params})


def _mlp_regressor(**params):
    return DPWassersteinMLPRegressor(**{"max_iter": 10, **GROUPS, **params})


def _autoencoder(**params):
    return DPWassersteinAutoencoder(**{"max_iter": 10, **GROUPS, **params})


ENTRIES = [
    Entry("DPBarycenterTransformer", _barycenter_transformer, "transform", {}),
    Entry("DPBarycenterRegressor", _barycenter_regressor, "regression", {}),
    Entry(
        "DPBarycenterRegressor-blind",
        _blind_regressor,
        "regression",
        {},
        attribute_aware=False,
    ),
    Entry("DP2DPClassifier", _dp2dp_classifier, "classification", {"classes": [0, 1]}),
    Entry(
        "DP2DPClassifier-blind",
        _blind_classifier,
        "classification",
        {"classes": [0, 1]},
        attribute_aware=False,
    ),
    Entry(
        "DPSinkhornGenerator",
        _sinkhorn_generator,
        "generate",
        {"bounds": (-1, 1), "classes": [0, 1]},
        needs_groups=False,
    ),
    Entry(
        "DPSinkhornGenerator-pairs",
        _pairs_generator,
        "generate",
        {"bounds": (-1, 1), "classes": [0, 1]},
        needs_groups=False,
    ),
    Entry(
        "DPSlicedWassersteinGenerator",
        _sliced_generator,
        "generate",
        {"bounds": (-1, 1), "classes": [0, 1]},
        needs_groups=False,
    ),
    Entry(
        "DPSlicedWassersteinGenerator-gradient",
        _gradient_generator,
        "generate",
        {"bounds": (-1, 1), "classes": [0, 1]},
        needs_groups=False,
    ),
    Entry(
        "DPWassersteinLogisticRegression",
        _wasserstein_logistic,
        "classification",
        {"bounds": (-1, 1), "classes": [0, 1]},
        attribute_aware=False,
    ),
    Entry(
        "DPLinearRegression",
        DPLinearRegression,
        "regression",
        {"bounds": (-1, 1), "target_bounds": (-1, 1)},
        needs_groups=False,
    ),
    Entry(
        "DPOutputPerturbationLogisticRegression",
        DPOutputPerturbationLogisticRegression,
        "classification",
        {"bounds": (-1, 1), "classes": [0, 1]},
        needs_groups=False,
    ),
    Entry(
        "DPGridSearchCV",
        _grid_search,
        "classification",
        {"classes": [0, 1]},
        attribute_aware=False,
    ),
    Entry(
        "DPRandomizedSearchCV",
        _randomized_search,
        "regression",
        {"target_bounds": (-1, 1)},
    ),
    Entry(
        "DPWassersteinMLPClassifier",
        _mlp_classifier,
        "classification",
        {"bounds": (-1, 1), "classes": [0, 1]},
        attribute_aware=False,
    ),
    Entry(
        "DPWassersteinMLPRegressor",
        _mlp_regressor,
        "regression",
        {"bounds": (-1, 1), "target_bounds": (-1, 1)},
        attribute_aware=False,
    ),
    Entry(
        "DPWassersteinAutoencoder",
        _autoencoder,
        "transform",
        {"bounds": (-1, 1)},
        attribute_aware=False,
    ),
    Entry("DPTableEncoder", DPTableEncoder, "transform", {}, needs_groups=False),
]


def table(entry, n=200, seed=0, dtype=np.float64):
    """Features and a target in [-1, 1] (classes 0 and 1), both groups present."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3)).astype(dtype)
    target = np.clip(X @ [0.5, -0.3, 0.2] + 0.1 * rng.normal(size=n), -1, 1)
    if entry.task in ("classification", "generate"):
        return X, (target > 0).astype(int)
    return X, target


def fit(entry, estimator, X, y, **params):
    """Fit with or without a target, as the task wants."""
    if entry.task == "transform":
        return estimator.fit(X, **params)
    return estimator.fit(X, y, **params)


def outputs(entry, estimator, X, **params):
    """What the estimator says about the rows of `X`, as floats or labels."""
    if entry.task == "transform":
        return np.asarray(estimator.transform(X, **params))
    if entry.task == "generate":
        return np.asarray(estimator.sample(len(X))[0])
    return np.asarray(estimator.predict(X, **params))
