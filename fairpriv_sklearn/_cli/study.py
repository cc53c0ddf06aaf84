"""The main job: a plain model, a private one, and a private and fair one, compared."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fairpriv_sklearn._cli.table import InputError, Table
from fairpriv_sklearn._groups import AttributeAwareMixin
from fairpriv_sklearn.mechanisms import noise_source
from fairpriv_sklearn.privacy import PrivacyGuarantee

TEST_SHARE = 0.25


@dataclass(frozen=True)
class Result:
    """One model on the test rows."""

    name: str
    error: float
    gap: float
    guarantee: PrivacyGuarantee | None = None

    @property
    def epsilon(self) -> float:
        return math.inf if self.guarantee is None else self.guarantee.epsilon


@dataclass(frozen=True)
class Measures:
    """How one task is measured, with the words for it."""

    error_name: str
    error_meaning: str
    error: Callable
    gap_name: str
    gap_meaning: str
    gap: Callable


@dataclass
class Study:
    """Everything the report shows; not private but for the guarantees."""

    title: str
    table: Table
    measures: Measures
    n_train: int
    n_test: int
    results: list[Result]
    predictions: list[np.ndarray]  # on the test rows, a model each
    test_labels: np.ndarray

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of the private and fair model."""
        return self.results[-1].guarantee


class Progress:
    """One line per model on the terminal, finished with the time it took."""

    def __init__(self, n_steps: int, stream=None):
        self.n_steps, self.step = n_steps, 0
        self.stream = sys.stderr if stream is None else stream

    def run(self, what: str, work: Callable):
        self.step += 1
        print(f"[{self.step}/{self.n_steps}] {what} ...", end="", file=self.stream)
        self.stream.flush()
        start = time.perf_counter()
        with warnings.catch_warnings():
            # Base models warn of things that are no concern of the reader here.
            warnings.simplefilter("ignore")
            result = work()
        print(f" {time.perf_counter() - start:.1f} s", file=self.stream)
        return result


def simulated_table(seed) -> Table:
    """The table of the main job without a CSV: three groups, shifted targets."""
    from fairpriv_sklearn.datasets import make_biased_regression

    X, y, group = make_biased_regression(
        n_samples=40_000, n_features=5, random_state=seed
    )
    # The last feature tells the group, as postcodes or names do in real tables.
    X = np.column_stack([np.clip(X / 4, -1, 1), group - 1.0])
    return Table(
        X=X,
        data_norm=1.5,
        y=y,
        labels=[f"group {g}" for g in group.tolist()],
        groups=[f"group {g}" for g in range(3)],
        target="y",
        sensitive="group",
        task="regression",
        bounds=(-5.0, 5.0),
    )


def run_study(table: Table, args, title: str) -> Study:
    """Fit the three models on the training rows and measure them on the others."""
    coins = noise_source(args.seed).bernoulli(len(table.y), TEST_SHARE)
    train, test = np.flatnonzero(~coins), np.flatnonzero(coins)
    if min(len(train), len(test)) < 2:
        raise InputError("The table has too few rows to part off a test set.")
    task = _regression if table.task == "regression" else _classification
    measures, models = task(table, args)

    X, y, labels = table.X, table.y, np.array(table.labels)
    progress = Progress(len(models))
    results, predictions = [], []
    for name, model in models.items():
        # The plain and the private model know nothing of groups.
        aware = isinstance(model, AttributeAwareMixin)
        groups = {"sensitive_features": labels[train]} if aware else {}
        progress.run(name, partial(model.fit, X[train], y[train], **groups))
        groups = {"sensitive_features": labels[test]} if aware else {}
        y_pred = model.predict(X[test], **groups)
        if table.bounds is not None:
            y_pred = np.clip(y_pred, *table.bounds)
        gap = measures.gap(y[test], y_pred, sensitive_features=labels[test])
        error = float(measures.error(y[test], y_pred))
        results.append(Result(name, error, gap, getattr(model, "privacy_", None)))
        predictions.append(y_pred)
    return Study(
        title, table, measures, len(train), len(test), results, predictions,
        labels[test],
    )  # fmt: skip


def _regression(table: Table, args) -> tuple[Measures, dict]:
    from sklearn.linear_model import Ridge

    from fairpriv_sklearn.linear_model import DPLinearRegression
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
    private = DPLinearRegression(
        epsilon=args.epsilon,
        delta=args.delta,
        bounds=(-1, 1),
        data_norm=table.data_norm,
        target_bounds=table.bounds,
        random_state=args.seed,
    )
    fair = DPBarycenterRegressor(
        private,
        epsilon=args.epsilon,
        target_bounds=table.bounds,
        fairness_tolerance=args.fairness_tolerance,
        groups=table.groups,
        random_state=args.seed,
    )
    return measures, {"plain": Ridge(), "private": private, "private and fair": fair}


def _classification(table: Table, args) -> tuple[Measures, dict]:
    from sklearn.linear_model import LogisticRegression

    from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
    from fairpriv_sklearn.metrics import demographic_parity_difference
    from fairpriv_sklearn.postprocessing import DP2DPClassifier

    measures = Measures(
        "error",
        f"share of rows whose {table.target} is predicted wrongly",
        lambda y, y_pred: np.mean(y != y_pred),
        "parity gap",
        "largest difference between two groups in how often a class is predicted",
        demographic_parity_difference,
    )
    private = DPWassersteinLogisticRegression(
        epsilon=args.epsilon,
        delta=args.delta,
        fairness_weight=0.0,
        bounds=(-1, 1),
        data_norm=table.data_norm,
        classes=table.classes,
        groups=table.groups,
        # Without a penalty groups play no part: no column is looked at.
        sensitive_features=_first_group(table.groups[0]),
        random_state=args.seed,
    )
    fair = DP2DPClassifier(
        private,
        epsilon=args.epsilon,
        delta=args.delta,
        fairness_tolerance=args.fairness_tolerance,
        classes=table.classes,
        groups=table.groups,
        random_state=args.seed,
    )
    plain = LogisticRegression(max_iter=1000)
    return measures, {"plain": plain, "private": private, "private and fair": fair}


def _first_group(group) -> Callable:
    return lambda X: [group] * len(X)
