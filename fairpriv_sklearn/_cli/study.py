"""The main job: a plain model, a private one, and a private and fair one, compared."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from fairpriv_sklearn._cli.encode import Encoder
from fairpriv_sklearn._cli.errors import InputError
from fairpriv_sklearn._cli.models import Measures, classification, regression
from fairpriv_sklearn._cli.table import Table
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
    n_predicted: int = 0  # different predictions on the test rows
    epsilon: float = math.inf  # if the facts read from the data are public


@dataclass
class Study:
    """Everything the report shows; not private but for the guarantees."""

    title: str
    table: Table
    encoder: Encoder
    measures: Measures
    n_train: int
    n_test: int
    group_sizes: dict[str, int]  # in the training rows
    results: list[Result]
    constant: Result  # the best constant prediction, for comparison
    predictions: list[np.ndarray]  # on the test rows, a model each
    test_labels: np.ndarray
    warnings: list[str] = field(default_factory=list)
    n_before: int = 0  # so many of the warnings were said before spending
    model: object = None  # the fitted private and fair model

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
        try:
            with warnings.catch_warnings():
                # Base models warn of things that are no concern of the reader here.
                warnings.simplefilter("ignore")
                result = work()
        except BaseException:
            print(file=self.stream)
            raise
        print(f" {time.perf_counter() - start:.1f} s", file=self.stream)
        return result


def run_study(table: Table, args, title: str, say: Callable = lambda text: None):
    """Fit the three models on the training rows and measure them on the others."""
    coins = noise_source(args.seed).bernoulli(len(table.y), TEST_SHARE)
    train, test = np.flatnonzero(~coins), np.flatnonzero(coins)
    if min(len(train), len(test)) < 2 or len(train) < 8:
        raise InputError(
            f"The table has too few rows, {len(table.y)}, to learn from and to test on."
        )
    y, labels = table.y, table.labels
    if table.task == "classification" and len(set(y[train].tolist())) < 2:
        raise InputError(
            f"Nearly all rows have the same {table.target!r}; there is nothing to "
            "learn."
        )
    encoder = Encoder.of(table.features, table.row_norm)
    X = encoder.encode(table.features)
    task = regression if table.task == "regression" else classification
    measures, models = task(table, encoder, args)
    sizes = {str(g): int(np.sum(labels[train] == g)) for g in table.groups}
    warned = before_spending(table, sizes, models["private and fair"], args)
    for sentence in warned:
        say(sentence)

    progress = Progress(len(models))
    results, predictions = [], []
    for name, model in models.items():
        # The plain and the private model know nothing of groups.
        aware = isinstance(model, AttributeAwareMixin)
        groups = {"sensitive_features": labels[train]} if aware else {}
        fitting = partial(model.fit, X[train], y[train], **groups)
        try:
            progress.run(name, fitting)
        except (ValueError, FloatingPointError, ArithmeticError) as error:
            raise InputError(
                f"The {name} model cannot be fitted: {' '.join(str(error).split())}"
            ) from None
        groups = {"sensitive_features": labels[test]} if aware else {}
        y_pred = model.predict(X[test], **groups)
        results.append(
            _measured(name, measures, table, y[test], y_pred, labels[test], model)
        )
        predictions.append(y_pred)
    constant = _constant(measures, table, y, labels, train, test)
    study = Study(
        title, table, encoder, measures, len(train), len(test), sizes, results,
        constant, predictions, labels[test], n_before=len(warned), model=model,
    )  # fmt: skip
    study.warnings = [*warned, *after_fitting(study)]
    return study


def _measured(name, measures, table, y, y_pred, labels, model=None) -> Result:
    if table.bounds is not None:
        y_pred = np.clip(y_pred, *table.bounds)
    gap = measures.gap(y, y_pred, sensitive_features=labels)
    error = float(measures.error(y, y_pred))
    n_predicted = len(set(np.asarray(y_pred).tolist()))
    guarantee = getattr(model, "privacy_", None)
    if guarantee is None:
        return Result(name, error, gap, None, n_predicted)
    epsilon = guarantee.epsilon_if_public
    guarantee = statement(guarantee, table)
    return Result(name, error, gap, guarantee, n_predicted, epsilon)


def _constant(measures, table, y, labels, train, test) -> Result:
    """The best constant prediction: the mean, or the most frequent class."""
    if table.task == "regression":
        best = float(np.mean(np.clip(y[train], *table.bounds)))
    else:
        found, counts = np.unique(y[train].astype(str), return_counts=True)
        best = found[np.argmax(counts)]
    y_pred = np.full(len(test), best, dtype=y.dtype)
    error = float(measures.error(y[test], y_pred))
    return Result("constant", error, 0.0, None, 1)


def statement(guarantee: PrivacyGuarantee, table: Table) -> PrivacyGuarantee:
    """The guarantee with what was read from the file: conditional, without values."""
    given = {
        "groups": table.groups_given,
        "classes": table.classes_given,
        "bounds": not table.from_data,
        "target_bounds": table.bounds_given,
        "data_norm": not table.from_data,
    }
    hidden = tuple(f"{name}=" for name, is_given in given.items() if not is_given)
    guarantee = replace(
        guarantee,
        assumptions=tuple(
            text for text in guarantee.assumptions if not text.startswith(hidden)
        ),
    )
    if not table.from_data:
        return guarantee
    return guarantee.qualified(conditional_on=table.from_data)


# --------------------------------------------------------------------------- sentences
def before_spending(table: Table, sizes: dict, model, args) -> list[str]:
    """What can be said before any budget is spent."""
    from fairpriv_sklearn.model_selection import expected_error

    said = []
    n = len(table.y)
    if args.delta >= 1 / n:
        said.append(
            f"delta = {args.delta:g} is not below 1 / n = {1 / n:.1g}: a mechanism "
            "that publishes a random person in full would be allowed; choose a smaller "
            "--delta."
        )
    if args.epsilon > 10:
        said.append(
            f"epsilon = {args.epsilon:g} promises little: one person's record may make "
            f"an outcome exp({args.epsilon:g}) times as likely; below 3 is usual."
        )
    small = [f"{group} ({size})" for group, size in sizes.items() if size < 50]
    if small:
        said.append(
            f"Groups with few training rows: {', '.join(small)}; what is said of them "
            "is mostly noise."
        )
    if table.share_clipped >= 0.001:
        said.append(
            f"{table.share_clipped:.1%} of the values of {table.target} lie outside "
            "the bounds and count as the nearer one."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = expected_error(
                model, group_sizes=list(sizes.values()), n_repeats=3
            )
    except (ValueError, TypeError, ArithmeticError):
        return said  # nothing to rehearse: an empty group, another kind of model
    if expected.violation > 0.1:
        said.append(
            "The groups are small for this budget: on made-up people of the same "
            f"numbers a gap of about {expected.violation:.2f} remains, of which "
            f"{expected.violation_without_noise:.2f} without noise; more rows, fewer "
            "groups or a larger --epsilon help."
        )
    return said


def after_fitting(study: Study) -> list[str]:
    """Plain sentences about results that are not what was hoped for."""
    plain, private, fair = study.results
    said = []
    name = study.measures.error_name
    if fair.gap >= private.gap and private.gap > 0:
        said.append(
            "The fair model does not treat the groups more alike than the private one "
            f"(gap {fair.gap:.4f} against {private.gap:.4f}): noise and sampling are "
            "larger than what there was to repair."
        )
    if fair.error > private.error * 1.02:
        said.append(
            f"Fairness costs accuracy here: {name} {fair.error:.4f} of the fair model "
            f"against {private.error:.4f} of the private one."
        )
    for result in study.results:
        if result.n_predicted == 1:
            what = "class" if study.table.task == "classification" else "value"
            said.append(
                f"The {result.name} model predicts one {what} for everybody; its gap "
                "of 0 is no sign of fairness."
            )
        elif result.error >= study.constant.error:
            said.append(
                f"The {result.name} model is no better than a constant prediction "
                f"({name} {result.error:.4f} against {study.constant.error:.4f})."
            )
    if len(study.table.groups) > len(set(study.test_labels.tolist())):
        said.append("Some groups have no test row; the gaps do not speak of them.")
    return said
