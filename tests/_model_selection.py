"""Estimators and tables of the tests of model selection."""

import warnings

import numpy as np
from common import first_sign
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LinearRegression

from fairpriv_sklearn._door.estimator import DELTA_CONSTRAINT, DPEstimator
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    PureEvent,
    ThresholdEvent,
    calibrate_gaussian,
)
from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    noise_source,
)
from fairpriv_sklearn.model_selection._plan import plan_search
from fairpriv_sklearn.postprocessing import (
    DPBarycenterRegressor,
)
from fairpriv_sklearn.privacy import (
    PrivacyGuarantee,
)


class Stub(ClassifierMixin, DPEstimator):
    """Releases the noisy sum of column 0; predicts a column, whatever it learned."""

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        column=1,
        fails="",
        kind="gaussian",
        verbose=0,
        neighboring="replace_one",
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.column = column
        self.fails = fails
        self.kind = kind
        self.verbose = verbose
        self.neighboring = neighboring
        self.ledger = ledger
        self.random_state = random_state

    _parameter_constraints = {**DPEstimator._parameter_constraints, **DELTA_CONSTRAINT}

    def fit(self, X, y):
        noise = noise_source(self.random_state)
        shown = {"names": 0.01, "many names": 0.1}.get(self.kind, 0.0) * self.delta
        if self.kind != "pure":
            mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=1, failure=shown)
            part = GaussianEvent(mu, 1)
            self.mechanism_ = GaussianMechanism(1.0, mu, 1)
            value = self.mechanism_.release(np.clip(X[:, 0], 0, 1).sum(), noise)
        else:
            self.mechanism_ = DiscreteLaplaceMechanism(1, self.epsilon)
            part = PureEvent(self.mechanism_.epsilon_spent)
            count = np.array([(X[:, 0] > 0.5).sum()])
            value = self.mechanism_.release(count, noise)
        guarantee = PrivacyGuarantee.from_events(
            [part, ThresholdEvent(shown)] if shown else [part],
            delta=self.delta,
            neighboring=self.neighboring,
            mechanism="a noisy sum",
            noise_is_secure=noise.is_secure,
        )
        if self.ledger is not None:
            self.ledger.spend(guarantee, label=type(self).__name__)
        self._unfit()
        if self.verbose:
            print("fitting")
        warnings.warn("a data-dependent warning", RuntimeWarning, stacklevel=1)
        if self.fails:
            raise {
                "overflow": FloatingPointError("17 rows overflowed"),
                "singular": np.linalg.LinAlgError("row 3 is singular"),
                "domain": ValueError("outside the domain"),
            }[self.fails]
        self.value_ = float(np.ravel(value)[0])
        self.classes_ = np.array([0, 1])
        self.privacy_ = guarantee
        return self

    def predict(self, X):
        return X[:, self.column].astype(int)


class RowPicky(Stub):
    """Cannot predict rows whose column 2 is negative."""

    def predict(self, X):
        if (X[:, 2] < 0).any():
            raise FloatingPointError("a negative row")
        return super().predict(X)


def stub_table(n=60, seed=0):
    """Column 1 is always right, column 2 always wrong, column 3 right half the time."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    columns = [rng.uniform(size=n), y, 1 - y, rng.integers(0, 2, n)]
    return np.column_stack(columns).astype(float), y


def fair_table(n=4000, seed=0):
    """Group 1 gets label 1 far more often; the groups are the sign of column 0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    y = (X @ [1.0, 0.6, 0.3] + 0.2 * rng.normal(size=n) > 0).astype(int)
    return X, y, first_sign(X)


def logistic(**params):
    given = {"bounds": (-1, 1), "classes": [0, 1], "groups": [0, 1], "max_iter": 20}
    return DPWassersteinLogisticRegression(**{**given, **params})


def barycenter(**params):
    free = PrivacyGuarantee.from_events(
        [PureEvent(0.0)],
        delta=0.0,
        neighboring="replace_one",
        mechanism="declared for a test",
    )
    return DPBarycenterRegressor(
        LinearRegression(),
        target_bounds=(-2, 2),
        groups=[0, 1],
        base_guarantee=free,
        **params,
    )


def plan(n_candidates, **params):
    given = {
        "epsilon": 3.0,
        "delta": 1e-5,
        "kind": "gaussian",
        "method": "auto",
        "coverage": 0.8,
        "n_draws": 1000,
        "n_statistics": 1,
        "permute_and_flip": True,
    }
    return plan_search(n_candidates, **{**given, **params})
