"""The phases of post-processing: fit models, then calibrate their output.

A meta-estimator parts its rows at random: some fit the wrapped model, others
an estimator of the group if the repair is blind, the rest calibrate. A record is then
in one phase only and the whole costs the largest of the guarantees, also though a later
phase looks at an earlier one's model (Lemma B). With ``calibration_size="all"`` every
phase reads all rows, and the guarantees are added. A `FrozenEstimator` is not fitted
again; its own guarantee, if it has one, is added, since nobody knows here whether it
saw the same people.

All that a fit costs is known, and reserved, before a wrapped estimator sees a row.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import PredefinedSplit
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .._door.estimator import DPEstimator
from .._door.groups import (
    refuse_left_out,
    refuse_without_groups,
    sensitive_positions,
)
from .._door.inside import check_arguments, first_step, label_lists
from .._door.labels import NUMBERED
from .._shared.callers import warn_caller
from .._shared.guarded import WrappedEstimatorError, fit_wrapped, guarded, numbers_of
from .._shared.nested import is_frozen, last_step, owners
from .._shared.purity import pure_clone, refuse_spreading
from .._shared.rowwise import BLOCK_ROWS
from .._shared.sklearn import Interval, StrOptions, safe_indexing
from .._wall import (
    CONDITIONAL,
    PrivacyFilter,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    Rows,
    Split,
    Wrapped,
    conditions_of,
    expected_guarantee,
    kept,
    n_rows_of,
    own_guarantee,
    refuse_without_room,
    rehearse,
    roomier,
    ways_out,
)

PHASE_CONSTRAINTS: dict = {
    "calibration_size": [
        Interval(Real, 0, 1, closed="neither"),
        StrOptions({"all"}),
    ],
    "base_guarantee": [None, StrOptions({"public"}), PrivacyGuarantee],
    "handle_unknown": [StrOptions({"error", "pooled"})],
}
ROW_PURITY = "the wrapped estimator scores each row on its own"
# Probability, next to nothing, that a table of enough rows leaves a model without any.
WITHOUT_ROWS = 1e-12


@dataclass
class Model:
    """A wrapped estimator: where it comes from, and what fitting it costs.

    Parameters
    ----------
    name : str
        The argument that holds it.
    given : estimator
    declared : PrivacyGuarantee, "public" or None
    target : str
        The column that it learns.
    stand_in : estimator
        A public constant, for where there are no rows to fit.
    n_columns : int
        Of the table that it sees.
    named : bool
        Whether these columns have names.
    metadata : dict
        Columns that its `fit` asked for by routing.
    groups : list or None
        Their public list, for an estimator that asked for sensitive features.
    scored_with : tuple of str
        What it asks for, besides X, to score rows.
    target_bounds : tuple or None
        Public range of the target, for an estimator that would read it from rows.
    """

    name: str
    given: Any
    declared: Any
    target: str
    stand_in: Any
    n_columns: int
    named: bool
    metadata: dict = field(default_factory=dict)
    groups: list | None = None
    scored_with: tuple = ()
    target_bounds: Any = None
    fitted: Any = None
    stands_in: bool = False  # a constant took its place
    refused: bool = False  # as rows of one label were refused

    def __post_init__(self):
        self.frozen = isinstance(self.given, FrozenEstimator)
        if self.frozen:
            check_is_fitted(self.given)
            self._refuse_another_width()
            self._refuse_several_outputs()
            self.fitted = self.given
        else:
            n_labels = len(self.stand_in.classes) if self._is_classifier else 2
            check_arguments(self.given, self.n_columns, n_labels, named=self.named)
        if self._is_classifier:
            refuse_other_labels(self.name, self.given, self.stand_in.classes_.tolist())
        refuse_spreading(pure_clone(self.given), f"The {self.name}")
        if "sensitive_features" in self.metadata:
            refuse_left_out(self.given)
        else:
            refuse_without_groups(self.given)
        self.cost = cost_of(self.given, self.declared)
        if self.frozen and self.declared is None and self.cost is not None:
            # Fitted anew, what is frozen would have another guarantee than this.
            self.fitted = deepcopy(self.given)

    def _refuse_another_width(self) -> None:
        """Refuse a fitted model that saw another number of columns."""
        # It may choose among columns that have names; ours take some or all of them.
        if self.named or isinstance(first_step(self.given.estimator), DPEstimator):
            return
        fitted_to = getattr(self.given, "n_features_in_", self.n_columns)
        if fitted_to != self.n_columns:
            raise ValueError(
                f"The {self.name} was fitted to {fitted_to} columns, and this table "
                f"has {self.n_columns} for it, without those that sensitive_features "
                "names."
            )

    def _refuse_several_outputs(self) -> None:
        """Refuse a fitted model that answers a public row, of zeros, in another form.

        Of a pipeline the last step is asked; one that takes no numbers is not.
        """
        last = last_step(self.given.estimator)
        width = getattr(last, "n_features_in_", self.n_columns)
        try:
            call = getattr(last, self._method)
            answer = np.asarray(guarded(call, np.zeros((1, width))))
        except Exception:
            return
        classes = self._is_classifier
        if answer.ndim != 2 if classes else answer.size != 1:
            wanted = "probability per class and row" if classes else "number per row"
            raise ValueError(
                f"The {self.name} must answer one {wanted}; it was fitted to several "
                "targets, or answers in another form."
            )

    def _refuse_answers(self, estimator, row) -> None:
        """Refuse a model that answers for other classes than it says it has.

        A vote has the classes that it saw, and the models in it those that they list.
        """
        answer = numbers_of(estimator, self._method, row, private=True)
        if answer.shape != (1, len(estimator.classes_)):
            raise WrappedEstimatorError(self.name)

    @property
    def _is_classifier(self) -> bool:
        return isinstance(self.stand_in, ConstantClassifier)

    @property
    def _method(self) -> str:
        return "predict_proba" if self._is_classifier else "predict"

    def rehearse(self, rows: Rows) -> None:
        """Refuse a target that it would not hand on.

        Of labels the public list is asked: which of them occur is nobody's business.
        """
        y = getattr(rows.whole(), self.target)
        listed = self.stand_in.classes if self._is_classifier else None
        rehearse(self.given, y if listed is None else np.asarray(listed))

    def answer(self, block) -> None:
        """Answer rows, or refuse them."""
        given = {name: getattr(block, f"score_{name}") for name in self.scored_with}
        numbers_of(self.fitted, self._method, block.X, private=True, **given)

    @property
    def uncovered(self) -> bool:
        return self.declared != "public" and self.cost is None

    def lines(self) -> tuple:
        """Its part of the plan: nothing if it is not fitted here or has no cost."""
        if self.frozen or self.cost is None:
            return ()
        return (Wrapped(self.name, self.cost),)

    def unpaid(self) -> tuple:
        """The same for the ledger: steps with a ledger of their own have paid."""
        if not self.lines() or self.declared is not None:
            return self.lines()
        due = expected_guarantee(self.given, unpaid=True)
        return () if due is None else (Wrapped(self.name, due),)

    def learn(self, wall: PrivacyFilter, rows: Rows) -> None:
        """Fit a clone on private rows; a public constant stands in where none are."""
        stand_in = self.stand_in
        if not rows.n_rows:
            # What was reserved for the fit is spent on nothing.
            wall.spend_unused(self.name) if self.lines() else None
            self.fitted, self.stands_in = stand_in, True
            return
        estimator = pure_clone(self.given)
        _tell(estimator, "target_bounds", self.target_bounds)
        table = rows.only("X", self.target, *self.metadata.values())
        again, groups = None, self.metadata.get("sensitive_features")
        # In each pass anew, where it can.
        reads_batches = isinstance(estimator, DPEstimator) and estimator._reads_batches
        if reads_batches and self.metadata.keys() <= {"sensitive_features"}:
            again = table.again("X", self.target, groups)
        if again is not None:
            given, y, params = (again,), None, {}
        else:
            block = table.whole()
            y = getattr(block, self.target)
            given = block.X, y
            params = {
                name: getattr(block, column) for name, column in self.metadata.items()
            }
        if self._is_classifier:
            _tell(estimator, "classes", list(stand_in.classes))
        if groups is not None:
            _tell(estimator, "groups", self.groups)
        one_label = self._is_classifier and y is not None and len(set(y.tolist())) == 1
        try:
            if self.lines():
                wall.fit_wrapped(estimator, self.name, *given, **params)
            else:
                fit_wrapped(estimator, *given, **params)
            if one_label and not self.scored_with:
                self._refuse_answers(estimator, safe_indexing(given[0], [0]))
        except WrappedEstimatorError:
            # Many classifiers refuse rows of one label. The cost is the same either
            # way: it was reserved before.
            if not one_label:
                raise
            estimator, self.stands_in, self.refused = stand_in, True, True
        refuse_spreading(estimator)
        self.fitted = estimator


def tagged_kind(estimator) -> str | None:
    """What an estimator says it is: "classifier", say; None if it does not."""
    if not hasattr(estimator, "__sklearn_tags__"):
        return None
    return get_tags(estimator).estimator_type


def check_model(name: str, given, declared, wanted: str) -> None:
    """Refuse a model that predicts something else, or is declared what it is not.

    Parameters
    ----------
    name : str
        The argument that holds it.
    given : estimator
    declared : PrivacyGuarantee, "public" or None
    wanted : str
        "classifier" or "regressor"; a model that does not say passes.
    """
    frozen = isinstance(given, FrozenEstimator)
    kind = tagged_kind(given)
    if kind not in (None, wanted):
        inner = given.estimator if frozen else given
        raise ValueError(
            f"The {name} must be a {wanted}, but {type(inner).__name__} is a "
            f"{kind.replace('_', ' ')}."
        )
    if declared == "public" and not frozen:
        said = {"estimator": "base_guarantee"}.get(name, "group_guarantee")
        raise ValueError(
            f'{said}="public" says that the {name} saw public rows only, but rows of '
            "this table would fit it. Fit it on public rows and pass it in a "
            f"FrozenEstimator, or leave {said}=None."
        )


def cost_of(given, declared) -> PrivacyGuarantee | None:
    """What a wrapped model costs; None if that is nothing, or if nobody knows."""
    if declared is not None:
        return None if declared == "public" else declared
    frozen = isinstance(given, FrozenEstimator)
    return own_guarantee(given) if frozen else expected_guarantee(given)


def check_cost(meta, name: str, given, declared) -> None:
    """Refuse a model that costs what a repair cannot add up, or may remember its rows.

    Differential privacy bounds by how much a model answers to the rows of its fit as to
    no others; without it a repair of what a forest answers to these rows may make
    groups differ more.
    """
    frozen = isinstance(given, FrozenEstimator)
    if frozen:
        check_is_fitted(given)
    else:
        check_arguments(given, None)  # how wide its table is comes with the rows
        _refuse_folds_of_rows(name, given)
    cost = cost_of(given, declared)
    if cost is not None and cost.neighboring != meta.neighboring:
        raise ValueError(
            f"The {name} counts tables as neighbours by {cost.neighboring!r}, this "
            f"estimator by {meta.neighboring!r}: give both the same neighboring."
        )
    covered = declared == "public" or (cost is not None and not cost.uncovered)
    if meta.calibration_size == "all" and not (frozen or covered):
        raise ValueError(
            f'calibration_size="all", but not all of {name} is private: it may '
            "remember its rows, and what is repaired on these is not on others. Let a "
            "share of the rows calibrate, use private steps, or state what a fit costs "
            "by base_guarantee or group_guarantee."
        )


def _refuse_folds_of_rows(name: str, given) -> None:
    """Refuse folds that are named by rows of the whole table, of which some fit."""
    for owner in owners(given, is_frozen).values():
        cv = getattr(owner, "cv", None)
        # A number of folds, a share of the rows, or a word.
        is_any = cv is None or isinstance(cv, Real | str) or hasattr(cv, "split")
        theirs = type(owner).__module__.startswith("sklearn.")
        if theirs and (not is_any or isinstance(cv, PredefinedSplit)):
            raise ValueError(
                f"The {name} is fitted to some of the rows, and cv of "
                f"{type(owner).__name__} names folds by their numbers in the whole "
                "table: pass a number of folds, or a splitter such as KFold()."
            )


# What asks a fitted model, of the labels as they are.
_AS_THEY_ARE = "CalibratedClassifierCV", "TunedThresholdClassifierCV"


def refuse_other_labels(name: str, given, listed: list) -> None:
    """Refuse a classifier that was told, or has seen, labels that nobody listed."""
    if not isinstance(given, FrozenEstimator):
        refuse_other_lists(name, given, listed)
        around = last_step(given)
        if type(around).__name__ in _AS_THEY_ARE:
            if isinstance(around.estimator, FrozenEstimator):
                refuse_other_labels(name, around.estimator, listed)
        return
    known = getattr(last_step(given), "classes_", listed)
    if not any(map(np.ndim, known)):  # or it was fitted to several targets
        refuse_unlisted(np.asarray(known).tolist(), listed, name)


def refuse_unlisted(labels, classes: list, what: str) -> None:
    """Refuse a classifier that knows labels which are not among those of this fit.

    Either may have been read from private rows, so none is printed.
    """
    if labels is not None and not set(labels) <= set(classes):
        raise ValueError(
            f"The wrapped {what} knows a class that this fit does not: list all that "
            "it knows, in public, as the classes (or groups) of this estimator."
            + NUMBERED
        )


def refuse_other_lists(name: str, given, classes: list) -> None:
    """Refuse a model to be fitted whose list of labels is not that of this fit.

    If it is shorter, whether a row holds what it lacks would be found out too late.
    """
    for known in label_lists(given):
        refuse_unlisted(known, classes, name)
        if len(known) < len(classes):
            raise ValueError(
                f"The wrapped {name} does not list all classes that this fit does: "
                "give both the same list, or it none."
            )


def _tell(estimator, name: str, public) -> None:
    """Give a public list or range to a private estimator that would read it."""
    estimator = last_step(estimator)
    if isinstance(estimator, DPEstimator) and public is not None:
        if estimator.get_params(deep=False).get(name, ()) is None:
            estimator.set_params(**{name: public})


class _Constant(BaseEstimator):
    """Knows its answers without a fit."""

    def fit(self, X=None, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True


class ConstantClassifier(ClassifierMixin, _Constant):
    """Stands in for a classifier that has no rows: all classes are equally likely."""

    def __init__(self, classes=(0, 1)):
        self.classes = classes

    @property
    def classes_(self):
        return np.asarray(self.classes)

    def predict_proba(self, X):
        return np.full((n_rows_of(X), len(self.classes_)), 1 / len(self.classes_))

    def predict(self, X):
        return np.full(n_rows_of(X), self.classes_[0])


class ConstantRegressor(RegressorMixin, _Constant):
    """Stands in for a regressor that has no rows: the middle of the public bounds."""

    def __init__(self, constant=0.0):
        self.constant = constant

    def predict(self, X):
        return np.full(n_rows_of(X), float(self.constant))


def enough_rows(neighboring: str, elsewhere: float) -> tuple[str, ...]:
    """What is assumed of a private number of rows: a model may be left without any.

    Parameters
    ----------
    neighboring : str
    elsewhere : float
        Probability that a row is not among those that fit the model.
    """
    if neighboring != "add_remove":
        return ()
    if not elsewhere:
        return ("the table has a row: a model without any is a constant, and tells",)
    n_rows = math.ceil(math.log(WITHOUT_ROWS) / math.log(elsewhere))
    return (
        f"the table has {n_rows} rows or more: in a smaller one the random split may "
        "leave a model without rows, and the constant in its place tells",
    )


class Phases:
    """One fit of a meta-estimator: the plan, the filter, the models, the guarantee.

    Parameters
    ----------
    meta : estimator
        With `delta` or none, `neighboring`, `ledger`, `calibration_size`.
    models : list of Model
        The wrapped estimator if there is one, and the group estimator of a blind
        repair.
    own : sequence of Release
        What the calibration releases.
    """

    def __init__(self, meta, models, own, *, facts, noise, delta):
        self.meta, self.models = meta, models
        self.fitted_here = [model for model in models if not model.frozen]
        bare = [m for m in models if m.uncovered or (m.cost and m.cost.uncovered)]
        self._warn_of_uncovered(bare)

        def plan(lines_of):
            if not self.fitted_here:
                return tuple(own)
            parts = [lines_of(model) for model in self.fitted_here]
            if self.on_all_rows:
                return (*chain(*parts), *own)
            others = parts[0] if len(parts) == 1 else (Split("models", *parts),)
            return (Split("calibration", tuple(own), tuple(others)),)

        def opened(lines_of, **more):
            return PrivacyFilter(
                meta,
                plan(lines_of),
                delta=self._delta(delta),
                neighboring=meta.neighboring,
                facts=(*facts, *self._assumptions()),
                noise=noise,
                leaves_room=self.on_all_rows and bool(self.fitted_here),
                **more,
            )

        cost = None
        if any(model.unpaid() != model.lines() for model in self.fitted_here):
            cost = opened(Model.unpaid).planned
        self.wall = opened(Model.lines, ledger=meta.ledger, cost=cost)

    def begin(self, rows: Rows, ask):
        """Reserve, part the rows, fit the models; return what calibrates.

        Parameters
        ----------
        rows : Rows
            With a column `X` if there are models.
        ask : callable
            ``ask(rows)``: the rows that calibrate, and what the models answer to them.

        Returns
        -------
        wall : PrivacyFilter
        rows : Rows
        answers : ndarray or None
        """
        frozen = [model for model in self.models if model.frozen]
        # Models may refuse rows, which costs nothing before the reserve.
        room = getattr(self.meta.ledger, "_refuse_beyond", lambda planned: None)
        room(self.wall.cost or self.wall.planned)
        # The first is asked below if nothing is fitted here. A stream would be read
        # once more.
        asked = frozen if self.fitted_here else frozen[1:]
        try:
            if asked and type(rows) is Rows:
                table = rows.whole()
                for model in asked:
                    model.answer(table)
            answered = None if self.fitted_here else ask(rows)
        except WrappedEstimatorError:
            self._refuse_taken_columns(frozen)
            raise
        if answered is not None:
            self.wall.reserve()
            return self.wall, *answered
        refuse_without_room(
            *(model.given for model in self.fitted_here),
            beside=(self.meta.ledger, self.wall.cost or self.wall.planned),
        )
        for model in self.fitted_here if type(rows) is Rows else ():
            model.rehearse(rows)
        self.wall.reserve()
        if self.on_all_rows:
            rows = rows.gathered()
            for model in self.fitted_here:
                model.learn(self.wall, rows)
            return self.wall, *ask(rows)
        calibrate, (wall, others) = self.wall.split(
            rows.gathered(), self.meta.calibration_size, name="calibration"
        )
        branches = [(wall, others)]
        if len(self.fitted_here) == 2:
            share = self.meta.group_size / (1 - self.meta.calibration_size)
            branches = wall.split(others, 1 - share, name="models")
        for model, (wall, part) in zip(self.fitted_here, branches, strict=True):
            model.learn(wall, part)
        wall, part = calibrate
        return wall, *ask(part)

    def _refuse_taken_columns(self, frozen: list[Model]) -> None:
        """Say of fitted models that refused rows which column they may have missed."""
        names = getattr(self.meta, "feature_names_in_", None)
        if names is None:
            return
        taken = {names[i] for i in sensitive_positions(self.meta, len(names))}
        for model in frozen:
            if taken & {*getattr(model.given, "feature_names_in_", ())}:
                raise ValueError(
                    f"The {model.name} was fitted with a column that "
                    "sensitive_features names, which is taken out of the table before "
                    "it: leave sensitive_features=None, and pass the labels to fit and "
                    "predict, as in fit(X, y, sensitive_features=labels)."
                ) from None

    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee of all phases; part of the plan left out raises."""
        total = self.wall.guarantee()
        before = [model.cost for model in self.models if model.frozen and model.cost]
        if before and self.fitted_here:
            # What is planned is known by the draws that a fit may make; one that makes
            # fewer has more of a parameter for the same epsilon.
            total = total if self.wall.leaves_room else roomier(total)
            before = [roomier(cost) for cost in before]
        for cost in before:
            total = total.compose(cost)
        said_before = total.conditional_on
        for model in self.models:
            if model.lines() and model.declared is None and not model.stands_in:
                # What the fit read from the data is known after it only.
                said = kept(model.cost, model.fitted, model.given)
                told = (*said_before, *model.cost.conditional_on)
                for fact in (one for one in said.conditional_on if one not in told):
                    warn_caller(
                        f"{CONDITIONAL}: {fact}. Pass it to what is inside of the "
                        f"{model.name}, fixed without looking at the data.",
                        PrivacyLeakWarning,
                    )
                assumed = said.assumptions
                if model.name == "group_estimator":
                    # Its classes are the groups, which are stated or were read.
                    assumed = [a for a in assumed if not a.startswith("classes=")]
                total = total.qualified(
                    assumptions=assumed,
                    uncovered=said.uncovered,
                    conditional_on=said.conditional_on,
                    noise_is_secure=said.noise_is_secure,
                )
            elif model.refused and model.declared is None:
                # What the fit would have read: the statement must not tell the labels.
                total = total.qualified(conditional_on=("classes",))
        missing = tuple(model.name for model in self.models if model.uncovered)
        if missing:
            total = total.qualified(uncovered=missing)
        return total

    @property
    def on_all_rows(self) -> bool:
        """Whether each phase reads all rows."""
        return self.meta.calibration_size == "all"

    def _delta(self, own: float) -> float:
        """Where the whole is stated: the largest delta of any phase, or their sum."""
        deltas = [model.cost.delta for model in self.fitted_here if model.cost]
        return min(1.0, sum(deltas, own)) if self.on_all_rows else max([own, *deltas])

    def _warn_of_uncovered(self, bare: list[Model]) -> None:
        if bare:
            names = " and ".join(model.name for model in bare)
            warn_caller(
                f"Not all of {names} is private, which voids the "
                "guarantee of the whole: `privacy_.epsilon` is infinite. Use private "
                "steps, state what a fit costs by `base_guarantee` or "
                "`group_guarantee`, or pass a model of public data in a "
                'FrozenEstimator and say "public" there.'
                + "".join(ways_out(one.given) for one in bare if one.declared is None),
                PrivacyLeakWarning,
            )
        else:
            doubts = (conditions_of(m.given) for m in self.models if m.declared is None)
            for said in dict.fromkeys(filter(None, doubts)):
                warn_caller(said, PrivacyLeakWarning)

    def _assumptions(self) -> list:
        public = [model.name for model in self.models if model.declared == "public"]
        said = [f"the wrapped {name} saw public data only" for name in public]
        if self.fitted_here:
            said += enough_rows(self.meta.neighboring, self._elsewhere())
        return [ROW_PURITY, *said] if self.models else []

    def _elsewhere(self) -> float:
        """Largest probability that a row is not among those of a model."""
        calibration = self.meta.calibration_size
        if self.on_all_rows:
            return 0.0
        if len(self.fitted_here) == 1:
            return calibration
        group = self.meta.group_size
        return max(1 - group, calibration + group)


class Coded:
    """Labels of private codes, looked up where they are read."""

    def __init__(self, labels: np.ndarray, codes: np.ndarray):
        self.labels, self.values = labels, codes

    def __len__(self):
        return len(self.values)

    def rows_at(self, rows):
        return self.labels[self.values[rows]]


def score_rows(
    meta, estimator, method: str, X, metadata: dict, *, private: bool
) -> np.ndarray:
    """Score rows by a wrapped estimator: each is a function of its row alone.

    Under replace-one all rows keep their positions, and one call on the whole table is
    enough. Under add/remove a deletion moves rows: they go through in blocks of one
    size, the last filled up with a repeated row.

    Parameters
    ----------
    meta : estimator
        With an attribute `neighboring`.
    estimator : estimator
        The fitted wrapped estimator.
    method : str
        "predict" or "predict_proba".
    X : array-like
    metadata : dict
        What the method asked for by routing, row by row.
    private : bool
        Whether the rows are private: nothing that the estimator says then leaves.
    """
    call = partial(numbers_of, estimator, method, private=private)
    n_rows = n_rows_of(X)

    if not n_rows:  # the draws left nothing to calibrate on: legal, all noise
        return np.empty(0)
    if meta.neighboring == "replace_one":
        return call(X, **metadata)
    outputs = []
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = np.minimum(np.arange(start, start + BLOCK_ROWS), n_rows - 1)
        taken = {name: safe_indexing(value, rows) for name, value in metadata.items()}
        outputs.append(call(safe_indexing(X, rows), **taken))
    return np.concatenate(outputs)[:n_rows]
