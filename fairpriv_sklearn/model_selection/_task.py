"""What search and cross-validation share: the table, its groups, its statistic."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.validation import column_or_1d

from .._door.bounds import public_target_range, read_target_range
from .._door.groups import NEEDED, code_groups, sorted_groups
from .._door.labels import encode_labels
from .._door.readers import refuse_cells
from .._shared.domain import (
    check_columns,
    check_given,
    domain,
    refuse_dates,
    refuse_unlabelled,
    same_length,
)
from .._shared.sensitivity import rows_changed
from .._wall import Fact, PrivacyFilter, Query, Rows, rows_of
from ..postprocessing import ConstantClassifier, ConstantRegressor
from . import _candidates as candidates
from ._plan import FitShare
from ._scoring import Reading, Statistic, bounded_score, needs_target_bounds, table_of

SCORE_NEEDS_GROUPS = NEEDED.format("The score compares groups and")
_ROW_PURITY = Fact("the candidates predict each row on its own")


@dataclass(frozen=True)
class Task:
    """A checked table and the statistic by which models are scored on it.

    Attributes
    ----------
    X : array-like
        For the candidates.
    y : ndarray of shape (n_rows,)
    given : array-like or None
        Sensitive features to hand to the candidates.
    codes : ndarray or None
        Position of each row's group in the public list, where the score needs it.
    statistic : Statistic
    neighboring : str
    public : dict
        What candidates are told that were not: see `public_facts`.
    assumptions : tuple of Fact
    is_classifier : bool
    groups : list or None
        Group of each row, where anybody names them.
    """

    X: Any
    y: np.ndarray
    given: Any
    codes: np.ndarray | None
    statistic: Statistic
    neighboring: str
    public: dict
    assumptions: tuple[Fact, ...]
    is_classifier: bool = True
    groups: list | None = None

    @property
    def n_rows(self) -> int:
        return len(self.y)

    def run(self, estimator, params, rows: np.ndarray, share: FitShare, noise):
        """Fit a candidate on some rows, quietly; return it with its guarantee.

        Both are None if its numbers broke down.
        """
        n_records = len(rows) if self.neighboring == "replace_one" else None
        asked = estimator, params, share, noise, self.public, n_records
        model = candidates.candidate(*asked)
        if not len(rows):
            return self.stand_in(), candidates.expected_cost(model, self.neighboring)
        read, lists = candidates.lists_of_all(model, estimator, self)
        before = clone(model.set_params(**lists))
        X, given = rows_of(self.X, rows), rows_of(self.given, rows)
        if not candidates.fit_quietly(model, X, self.y[rows], given):
            return None, None
        cost = candidates.check_cost(model, before, share, self.neighboring)
        if read:
            model.set_params(**dict.fromkeys(lists))  # in no clone are they public
            cost = cost.qualified(conditional_on=read)
            candidates.tell_inside(model, read)
        return model, cost

    def labels(self, name: str) -> list:
        """Return the labels of all rows, of "classes" or of "groups"."""
        if name == "classes":
            return np.unique(self.y).tolist()
        return sorted_groups(set(self.groups))

    def query(self, model, rows: np.ndarray) -> np.ndarray:
        """Return the exact statistic of `model` on some rows."""
        if not len(rows):
            return np.zeros(self.statistic.size)
        X, given = rows_of(self.X, rows), rows_of(self.given, rows)
        methods = self.statistic.response_methods
        said = candidates.responses(model, methods, X, given, self.neighboring)
        codes = None if self.codes is None else self.codes[rows]
        return self.statistic.query(self.y[rows], said, codes)

    def release(self, model, rows: np.ndarray, mu: float, wall: PrivacyFilter):
        """Release the statistic of `model` on some rows with noise.

        Returns
        -------
        reading : Reading
        """
        query = Scores(self, model)
        private = Rows(len(rows), row=rows)
        noisy = wall.release(query, private, parameter=mu)
        scale = wall.mechanism_of(query, parameter=mu).scale
        n_rows = len(rows) if self.neighboring == "replace_one" else None
        return Reading(self.statistic, noisy, scale, n_rows)

    def stand_in(self):
        """A constant model, public, for a random split that left no row to fit one."""
        if self.statistic.classes or self.is_classifier:
            return ConstantClassifier(self.statistic.classes or (0, 1))
        low, high = self.statistic.target_bounds or (0.0, 0.0)
        return ConstantRegressor(low / 2 + high / 2)


@dataclass(frozen=True, eq=False)
class Scores(Query):
    """The sum of the scores of a released model over the rows of a test set."""

    task: Task
    model: Any

    name = "scores"
    theorem = "user_guide/model_selection_proofs:model_selection_scores"

    @property
    def n_coordinates(self) -> int:
        """Sums of the scores, and counts of the table."""
        return self.task.statistic.size

    def sensitivity(self, neighboring: str) -> float:
        """Euclidean; each score is in [-1/2, 1/2], each record in one cell."""
        rows_changed(neighboring)
        return self.task.statistic.sensitivity

    def of_rows(self, rows: Rows, state) -> np.ndarray:
        """The exact sums, of integers."""
        return self.task.query(self.model, rows.whole().row)


def unless_it_failed(run: tuple, what: str) -> tuple:
    """A fitted model and its guarantee, from `Task.run`, with what goes with it."""
    if run[0] is None:
        raise RuntimeError(
            f"{what} could not be fitted. Which numbers broke down is private; fit it "
            "on made-up data of the same shape to see."
        )
    return run


def default_scoring(estimator) -> str:
    """Return the score in use if none is named."""
    if is_classifier(estimator):
        return "accuracy"
    if is_regressor(estimator):
        return "neg_mean_absolute_error"
    raise ValueError(
        f"{type(estimator).__name__} is neither a classifier nor a regressor: pass "
        "scoring=BoundedScore(...)."
    )


def public_facts(owner) -> dict:
    """The lists and the range that candidates without their own are told."""
    bounds = owner.target_bounds
    bounds = None if bounds is None else read_target_range(bounds)
    return {"groups": owner.groups, "classes": owner.classes, "target_bounds": bounds}


def make_task(owner, estimator, X, y, sensitive_features, scorings: Iterable) -> Task:
    """Check a table against its public facts.

    Parameters
    ----------
    owner : object
        With `sensitive_features`, `groups`, `classes`, `target_bounds`, `neighboring`,
        `n_features_in_` and, for names, `feature_names_in_`.
    estimator : estimator
    X, y, sensitive_features : array-like
    scorings : iterable of str, BoundedScore or ConstrainedScore
    """
    scorings, public = list(scorings), public_facts(owner)
    check_columns(X, y, sensitive_features)
    check_given(owner, y)
    if is_regressor(estimator):
        refuse_dates(y, "y")
    else:
        refuse_unlabelled(y)
    with domain("y"):
        y = column_or_1d(y, warn=True)
        if is_regressor(estimator):
            y = y.astype(np.float64, copy=False)
    same_length(X, y)
    if y.dtype.kind == "c":
        raise ValueError("Complex data not supported, got a complex y.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity: leave out such rows.")
    groups = candidates.read_groups(owner, estimator, X, sensitive_features)
    refuse_cells(estimator, groups.X)
    same_length(X, groups.labels)
    table = _one_table(scorings)
    codes, listed, about_groups = _encode_groups(owner, estimator, groups.labels, table)
    y, class_list, about_classes = _encode_classes(owner, estimator, y, table)
    bounds, about_bounds = None, None
    if any(needs_target_bounds(scoring) for scoring in scorings):
        given = candidates.public_argument(
            estimator, "target_bounds", public["target_bounds"]
        )
        low, high, about_bounds = public_target_range(given, y)
        bounds = low, high
    scores = [bounded_score(scoring, bounds) for scoring in scorings]
    scores = tuple(score for score in scores if score is not None)
    lists = tuple(listed), tuple(class_list)
    statistic = Statistic(scores, table, owner.neighboring, *lists, bounds)
    facts = [_ROW_PURITY, about_groups, about_classes, about_bounds]
    return Task(
        groups.X,
        y,
        groups.given,
        codes,
        statistic,
        owner.neighboring,
        public,
        tuple(filter(None, facts)),
        is_classifier(estimator),
        groups.labels,
    )


def _one_table(scorings) -> str | None:
    tables = {table_of(scoring) for scoring in scorings} - {None}
    if "bins" in tables and len(tables) > 1:
        raise ValueError(
            "Disparities of classes and of continuous predictions cannot be asked for "
            "together."
        )
    # The table by true classes also holds the one without.
    return next((t for t in ("bins", "cells", "groups") if t in tables), None)


def _encode_groups(owner, estimator, labels, table):
    """Codes, public list and fact; the list is checked wherever there is one."""
    listed = candidates.public_argument(estimator, "groups", owner.groups)
    if labels is None and table is not None:
        raise ValueError(SCORE_NEEDS_GROUPS)
    if labels is None or (listed is None and table is None):
        return None, (), None
    return code_groups(labels, listed)


def _encode_classes(owner, estimator, y, table):
    """Labels as listed, public list and fact; checked wherever there is a list."""
    listed = candidates.public_argument(estimator, "classes", owner.classes)
    if listed is None and table not in ("groups", "cells"):
        return y, (), None
    codes, listed, fact = encode_labels(y, listed)
    return listed[codes], listed.tolist(), fact
