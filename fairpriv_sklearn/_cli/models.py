"""The models of the command line, and how they are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairpriv_sklearn._cli.encode import Encoder
from fairpriv_sklearn._cli.table import Table

BASE_MODELS = ("linear", "network")


@dataclass(frozen=True)
class Measures:
    """How one task is measured, with the words for it."""

    error_name: str
    error_meaning: str
    error: Callable
    gap_name: str
    gap_meaning: str
    gap: Callable


def regression(table: Table, encoder: Encoder, args) -> tuple[Measures, dict]:
    """Models of a numeric target."""
    from sklearn.linear_model import Ridge

    from fairpriv_sklearn.metrics import ks_parity_difference
    from fairpriv_sklearn.postprocessing import DPBarycenterRegressor

    measures = Measures(
        "RMSE",
        f"root mean squared error of {table.target}",
        lambda y, y_pred: np.sqrt(np.mean((y - y_pred) ** 2)),
        "KS gap",
        "largest Kolmogorov-Smirnov distance between the predictions of two groups, "
        "0 if their distributions are alike",
        ks_parity_difference,
    )
    private = _private_regressor(table, encoder, args)
    fair = DPBarycenterRegressor(
        private,
        epsilon=args.epsilon,
        target_bounds=table.bounds,
        fairness_tolerance=args.fairness_tolerance,
        groups=table.groups,
        handle_unknown="pooled",
        random_state=args.seed,
    )
    return measures, {"plain": Ridge(), "private": private, "private and fair": fair}


def classification(table: Table, encoder: Encoder, args) -> tuple[Measures, dict]:
    """Models of a target with classes."""
    from sklearn.linear_model import LogisticRegression

    from fairpriv_sklearn.metrics import (
        demographic_parity_difference,
        equalized_odds_difference,
    )
    from fairpriv_sklearn.postprocessing import DP2DPClassifier

    odds = args.constraint == "equalized_odds"
    measures = Measures(
        "error",
        f"share of rows whose {table.target} is predicted wrongly",
        lambda y, y_pred: np.mean(y != y_pred),
        "odds gap" if odds else "parity gap",
        "largest difference between two groups in how often a class is predicted"
        + (", among those of the same class" if odds else ""),
        equalized_odds_difference if odds else demographic_parity_difference,
    )
    private = _private_classifier(table, encoder, args)
    fair = DP2DPClassifier(
        private,
        epsilon=args.epsilon,
        delta=args.delta,
        fairness_tolerance=args.fairness_tolerance,
        constraint=args.constraint,
        classes=table.classes,
        groups=table.groups,
        handle_unknown="pooled",
        random_state=args.seed,
    )
    plain = LogisticRegression(max_iter=1000)
    return measures, {"plain": plain, "private": private, "private and fair": fair}


def _shared(encoder: Encoder, args) -> dict:
    return {
        "epsilon": args.epsilon,
        "delta": args.delta,
        "bounds": (-1, 1),
        "data_norm": encoder.data_norm,
        "random_state": args.seed,
    }


def _private_regressor(table: Table, encoder: Encoder, args):
    from fairpriv_sklearn.linear_model import DPLinearRegression
    from fairpriv_sklearn.neural_network import DPWassersteinMLPRegressor

    shared = {**_shared(encoder, args), "target_bounds": table.bounds}
    if args.base_model == "network":
        return DPWassersteinMLPRegressor(
            fairness_weight=0.0, **_no_groups(table), **shared
        )
    return DPLinearRegression(**shared)


def _private_classifier(table: Table, encoder: Encoder, args):
    from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
    from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier

    network = args.base_model == "network"
    kind = DPWassersteinMLPClassifier if network else DPWassersteinLogisticRegression
    return kind(
        fairness_weight=0.0,
        classes=table.classes,
        **_no_groups(table),
        **_shared(encoder, args),
    )


def _no_groups(table: Table) -> dict:
    """Without a penalty groups play no part: no column is looked at."""
    return {
        "groups": table.groups,
        "sensitive_features": _FirstGroup(table.groups[0]),
    }


@dataclass(frozen=True)
class _FirstGroup:
    """Everybody in the first group."""

    group: object

    def __call__(self, X):
        return [self.group] * len(X)
