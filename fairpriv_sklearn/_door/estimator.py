"""What every private estimator shares: its constructor contract and its budget."""

import inspect
import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import assert_all_finite, check_array, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._shared.arguments import (
    as_python,
    comes_in_parts,
    public_labels,
    refuse_old_names,
)
from .._shared.callers import (
    all_checks,
    hushed,
    usual_underflow,
    warn_now,
    warned_at_the_end,
)
from .._shared.domain import (
    check_columns,
    check_given,
    domain,
    finite_sparse,
    refuse_dates,
    refuse_mixed,
    refuse_no_numbers,
    refuse_no_table,
    refuse_unlabelled,
    same_length,
)
from .._shared.fragments import with_fragments
from .._shared.guarded import WrappedEstimatorError, ask_wrapped, guarded
from .._shared.nested import owners
from .._shared.origin import as_it_is, mark_of, origin, refuse_other_origin
from .._shared.sklearn import (
    DocumentationLink,
    HasMethods,
    Interval,
    StrOptions,
    safe_indexing,
)
from .._wall import (
    Fact,
    current_journal,
    leaks_foreseen,
    learns_nothing,
    n_rows_of,
    refuse_together,
    refuse_widths,
    warn_leak,
)
from ._stream import answer_in_parts, as_batches, batch_arguments

_PACKAGE = __name__.split(".")[0]
_NOT_OURS = "{}, a class of another package, keeps nothing else of its rows"
_LABELS_ROWS = "the function sensitive_features labels each row on its own"
_LARGEST = float(np.finfo(np.float64).max)
POSITIVE = Interval(Real, 0, np.inf, closed="right")  # infinity: no noise


def _on_a_draft(fit):
    """Run `fit` on a copy that holds the arguments only, and publish it whole.

    Validation touches no attribute of an earlier fit; the reserve makes the object
    unfitted (`PrivacyFilter.reserve`); and all that `fit` learnt is published in one
    step, together with `privacy_`. An interrupted fit, or two fits of one object in
    two threads, can then never leave a model beside the guarantee of another. What is
    warned of after the reserve is said when the model is there: as an error it would
    cost the budget.
    """

    @wraps(fit)
    def fit_and_publish(self, *args, **kwargs):
        if "_draft_of" in self.__dict__:  # a fit that calls its parent's
            return fit(self, *args, **kwargs)
        check_columns(*args, *kwargs.values())
        X = args[0] if args else kwargs.get("X", kwargs.get("scores"))
        refuse_no_table(X)
        if comes_in_parts(X):
            args, kwargs = batch_arguments(self, fit, args, kwargs)
        draft = object.__new__(type(self))
        draft.__dict__ = {**unfitted_state(self), "_draft_of": self}
        if origin(X) is not None:
            draft._fitted_behind = origin(X)
        with usual_underflow(), all_checks(), warned_at_the_end() as said:
            fit(draft, *args, **kwargs)
        fitted = dict(draft.__dict__)
        for name in ("_draft_of", *self._of_fit):
            fitted.pop(name, None)
        if "privacy_" in fitted:
            fitted["privacy_"] = fitted["privacy_"].qualified(
                assumptions=_code_of_others(self)
            )
        if hasattr(type(self), "transform"):
            fitted["_mark"] = mark_of(fitted)
        self.__dict__ = fitted
        for message, category in said:
            warn_now(message, category)
        return self

    return fit_and_publish


def _code_of_others(estimator) -> list[str]:
    """What is assumed of code that nothing here can look into."""
    assumed = []
    if type(estimator).__module__.split(".")[0] != _PACKAGE:
        assumed.append(_NOT_OURS.format(type(estimator).__name__))
    if callable(getattr(estimator, "sensitive_features", None)):
        assumed.append(_LABELS_ROWS)
    return assumed


def batched(X, y, sensitive_features) -> tuple:
    """Arguments of `read_rows` for a function: what comes in parts as `Batches`."""
    if not comes_in_parts(X):
        return X, y, sensitive_features
    return as_batches(X, y, sensitive_features), None, None


def _part_by_part(method):
    """Answer for `Batches` and dask collections lazily, part by part.

    A fit in another thread changes nothing of it.
    """

    @wraps(method)
    def answer(self, *args, **kwargs):
        self = as_it_is(self)
        check_columns(*args, *kwargs.values())
        X = args[0] if args else kwargs.get("X")
        refuse_no_table(X)
        refuse_other_origin(self, X)
        if args and comes_in_parts(args[0]):
            return answer_in_parts(self, method, *args, **kwargs)
        with usual_underflow():
            return method(self, *args, **kwargs)

    return answer


def unfitted_state(estimator) -> dict:
    """The constructor's arguments, and the settings that scikit-learn keeps."""
    names = estimator.get_params(deep=False)
    return {
        key: value
        for key, value in vars(estimator).items()
        if key in names or key.startswith(_SETTINGS)
    }


# What scikit-learn stores outside `fit`: routing, containers, callbacks.
_SETTINGS = ("_metadata_request", "_sklearn_", "_skl_", "_parent_callback")


class DPEstimator(DocumentationLink, BaseEstimator):
    """Base of the private estimators; checks and spends, learns nothing itself.

    .. rubric:: Privacy

    Releases nothing. `fit` of a subclass runs on a draft that is published whole when
    it has ended; what the draft released is what its filter reserved.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget. Range: (0, inf]; infinity adds no noise.
    delta : float, default=1e-5
        Delta of the guarantee. Range: (0, 1).
    classes : array-like of shape (n_classes,), default=None
        Public list of the labels. None reads it from the data, with a
        `PrivacyLeakWarning`.
    min_records : int, default=None
        Below this public number of records .99 of `epsilon` tells a constant, with
        discrete Laplace noise, and nothing is learnt of the features. None, and under
        "add_remove": never. :func:`~fairpriv_sklearn.privacy.with_budget` sets it.
    neighboring : {"replace_one", "add_remove"}, default="replace_one"
        Which tables are neighbours.
    ledger : PrivacyLedger, default=None
        Budget that `fit` reserves its cost from.
    random_state : int, RandomState instance or None, default=None
        None draws secure noise. An int makes the fit reproducible and not private.
    """

    _parameter_constraints: dict = {
        "epsilon": [POSITIVE],
        "neighboring": [StrOptions({"replace_one", "add_remove"})],
        "ledger": [None, HasMethods(["spend"])],
        "random_state": ["random_state"],
    }

    # Whether all that `fit` draws besides noise comes from `PrivacyFilter.public`.
    _can_resume = False

    # Its errors quote no cell, and what it wraps is called guarded.
    _guards_what_it_wraps = True

    # Whether `fit` reads its rows with `read_rows`, and so takes `Batches`.
    _reads_batches = False

    # What `_read` finds out for the rest of `fit`: not published.
    _of_fit: tuple[str, ...] = ("_public",)

    # Names that arguments had once, and the ones they have now.
    _renamed: dict[str, str] = {}

    def __new__(cls, *args, **kwargs):
        refuse_old_names(cls, cls._renamed, kwargs)
        return super().__new__(cls)

    def __setattr__(self, name, value):
        # Arguments, wherever they are set: sensitivities and prices follow from them.
        is_argument = not name.startswith("_") and not name.endswith("_")
        super().__setattr__(name, as_python(value) if is_argument else value)

    def __setstate__(self, state):
        # What was pickled before an argument was there gets its default.
        super().__setstate__({**self._defaults(), **state})

    @classmethod
    @cache
    def _defaults(cls) -> dict:
        known = inspect.signature(cls.__init__).parameters.values()
        return {k.name: k.default for k in known if k.default is not k.empty}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.__doc__ = with_fragments(cls)
        if "fit" in vars(cls) and inspect.isfunction(cls.fit):
            cls.fit = _on_a_draft(cls.fit)
        for name in ("predict", "predict_proba", "decision_function", "transform"):
            if inspect.isfunction(vars(cls).get(name)):
                setattr(cls, name, _part_by_part(vars(cls)[name]))

    def set_params(self, **params) -> Self:
        """Set the arguments of this estimator.

        Parameters
        ----------
        **params : dict
            By name; ``step__name`` reaches into a wrapped estimator.

        Returns
        -------
        self : object
        """
        refuse_old_names(type(self), self._renamed, params)
        return super().set_params(**params)

    @classmethod
    @cache  # reading a signature each time is a tenth of a small fit
    def _get_param_names(cls) -> list[str]:
        return super()._get_param_names()

    def _validate_params(self) -> None:
        """As scikit-learn does; besides, a truth value is no number."""
        super()._validate_params()
        for name, allowed in self._parameter_constraints.items():
            if not any(isinstance(one, type(POSITIVE)) for one in allowed):
                continue
            value = getattr(self, name, None)
            if isinstance(value, bool | np.bool_) and "boolean" not in allowed:
                raise ValueError(f"{name} must be a number, got a truth value.")
            if isinstance(value, int) and value > _LARGEST:
                raise ValueError(f"{name} must be a number that a float can hold.")

    def _check_arguments(self) -> None:
        """Refuse arguments that are wrong for any table, before anything is spent.

        For who fits this one inside: what a `fit` finds out later comes on top.
        """
        self._validate_params()
        bounds = getattr(self, "bounds", None)
        if bounds is not None:
            read_bounds(bounds, n_entries(bounds))
        if getattr(self, "classes", None) is not None:
            public_classes(self.classes)

    def _refuse_width(self, n_columns: int | None, learnt) -> None:
        """Refuse bounds for other columns than it is handed, itself or what it wraps.

        Without `n_columns`, which nobody knows, if they are `learnt`.
        """
        bounds, named = (
            getattr(self, k, None) for k in ("bounds", "sensitive_features")
        )
        if learnt and named is not None and not callable(named):
            name = type(self).__name__
            # What scikit-learn's own scorers call is handed no labels.
            around = f"have it wrap both, as in {name}(make_pipeline(encoder, model)), "
            raise ValueError(
                f"{name} stands behind an encoder that learns its "
                "columns: sensitive_features cannot name one of them; pass the labels "
                f"in the call, {around if hasattr(self, 'estimator') else ''}or let a "
                "ColumnTransformer pass that column by."
            )
        if named is not None:
            several = isinstance(named, list | tuple)
            if n_columns == (len(named) if several else 1) and not callable(named):
                raise ValueError(
                    f"sensitive_features names all columns that {type(self).__name__} "
                    f"gets, {n_columns}; nothing is left to learn from."
                )
            n_columns = None  # fewer, as the named ones are left out
        if bounds is not None and n_columns is not None:
            read_bounds(bounds, n_columns)
        elif bounds is not None and learnt and n_entries(bounds) > 1:
            raise ValueError(
                f"{type(self).__name__} stands behind an encoder that learns its "
                "columns: bounds must be a tuple (low, high) of two numbers there, "
                "for all of them."
            )
        refuse_widths(getattr(self, "estimator", None), n_columns, learnt=learnt)

    def _refuse_cells(self, X) -> None:
        """Refuse cells that a `fit` would, for who spends before it.

        What reads numbers only, and nothing else, needs not say so here.
        """

    def _refuse_cells_of(self, pipeline, X) -> None:
        """Refuse cells that a pipeline which ends here would, once a step has spent."""
        if not comes_in_parts(X) and not isinstance(first_step(pipeline), DPEstimator):
            refuse_cells(pipeline, X)

    def _refuse_target(self, X, y) -> None:
        """Refuse a target that `fit` would, for who spends before it."""
        if comes_in_parts(X) or not get_tags(self).target_tags.required:
            return
        check_given(self, y)
        same_length(X, y)
        if hasattr(self, "classes") and is_classifier(self):
            with leaks_foreseen():
                encode_labels(y, self.classes)
        elif is_regressor(self):
            self._refuse_outputs(refuse_no_numbers(self, y))
            if getattr(self, "target_bounds", "none") is None:
                with leaks_foreseen():
                    warn_leak("target_bounds", "the range of the target")

    def _refuse_journal(self) -> None:
        """Refuse to be one of several fits in one `resume`."""
        if current_journal.get() is not None:
            raise ValueError(
                "A pipeline fits several private steps, and one journal serves one "
                "fit: fit it outside of `resume`, or each step in one of its own."
            )

    def _refuse_parts(self, X, y, sensitive_features) -> None:
        """Refuse a target or groups in any part of a table, in a pass over it.

        For who spends before a `fit` that would.
        """
        as_batches(X, y, sensitive_features).read(clone(self)._read_labels)

    def _read_labels(self, X, y, sensitive_features) -> dict:
        self._refuse_target(X, y)
        if sensitive_features is not None:
            self._refuse_groups(X, sensitive_features)
        elif hasattr(self, "_refuse_without_groups"):
            self._refuse_without_groups()
        return {"seen": np.zeros(n_rows_of(X))}

    def _refuse_groups(self, X, sensitive_features) -> None:
        """Refuse groups that `fit` would, for who spends before it."""

    def _refuse_outputs(self, n_outputs: int) -> None:
        """Refuse arguments for another number of targets."""

    def _has_few_records(self, n_records: int) -> bool:
        """Whether `min_records` says that features tell nothing; public numbers."""
        least = getattr(self, "min_records", None)
        is_public = self.neighboring != "add_remove" and self.epsilon < np.inf
        return is_public and least is not None and n_records < least

    def _unfit(self) -> None:
        """Forget earlier fits: from the reserve on the object is unfitted."""
        published = self.__dict__.get("_draft_of", self)
        if published is not self:
            published._forget()

    def _forget(self) -> None:
        """Become unfitted."""
        self.__dict__ = unfitted_state(self)


DELTA_CONSTRAINT = {"delta": [Interval(Real, 0, 1, closed="neither")]}
MIN_RECORDS = {"min_records": [None, Interval(Integral, 1, None, closed="left")]}


def encode_labels(y, classes, least=2) -> tuple[np.ndarray, np.ndarray, Fact]:
    """Encode the labels `y` against the public list of classes.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    classes : array-like of shape (n_classes,) or None
        The public list; None takes it from `y`, with a `PrivacyLeakWarning`.
    least : {1, 2}
        How many classes there must be.

    Returns
    -------
    codes : ndarray of shape (n_samples,), int64
    classes : ndarray of shape (n_classes,)
        Sorted.
    fact : Fact
        The fact taken as public.
    """
    if y is None:
        raise ValueError("A fit requires y to be passed, but the target y is None.")
    refuse_unlabelled(y)
    with domain("y", own_words=True):
        y = column_or_1d(y, warn=True)
        if classes is None:
            assert_all_finite(y, input_name="y")
            refuse_mixed("y", y)
            check_classification_targets(y)
            found = np.unique(y)
    if classes is None:
        classes = found
        fact = warn_leak("classes", "the list of labels")
        if len(classes) < least:
            raise ValueError(
                "Only one class was found in y and classes=None; this classifier needs "
                "at least two: pass the public list of labels as classes=[...]."
            )
    else:
        classes = public_classes(classes, least)
        fact = Fact("classes", classes.tolist())
    return label_codes(y, classes), classes, fact


def public_classes(classes, least=2) -> np.ndarray:
    """The public list of labels, sorted."""
    labels = public_labels("classes", classes)
    if any(isinstance(label, tuple) for label in labels):
        raise ValueError(f"classes must list labels, not lists of them: {labels!r}.")
    if len(labels) < least:
        raise ValueError(f"classes must list {least} labels or more, got {labels!r}.")
    refuse_mixed("classes", classes)
    return np.unique(np.asarray(classes))


def label_codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Positions of labels in the public list of classes."""
    codes = positions_in(y, classes.tolist())
    if (codes < 0).any():
        hint = ""
        if y.dtype.kind in "iu" and classes.dtype.kind not in "iuf":
            hint = (
                " Voting, stacking and bagging of scikit-learn, and cross_val_predict "
                "of probabilities, hand on numbers for labels: in them list "
                "classes=[0, 1, ...]."
            )
        raise ValueError(
            f"y contains a label that is not in classes={classes.tolist()!r} (1 is not "
            f"'1'); add it to the public list or leave out its rows.{hint}"
        )
    return codes


def positions_in(labels: list | np.ndarray, listed: list) -> np.ndarray:
    """Positions of `labels` in `listed`, as Python compares them; -1 where not in it.

    Labels of another type than the listed ones are unknown rather than silently cast.
    """
    if isinstance(labels, np.ndarray):
        if labels.dtype.kind == "f" and labels.dtype.itemsize < 8:
            labels = labels.astype(np.float64)  # else 0.1 would be cast to theirs
        if _compares_as_python(labels, listed):
            positions = np.full(len(labels), -1, dtype=np.int8)
            for position, label in enumerate(listed):
                # Ten times as fast as assigning under a mask.
                positions += (labels == label) * np.int8(position + 1)
            return positions.astype(np.int64)
        labels = labels.tolist()
    with hushed():
        index = {label: position for position, label in enumerate(listed)}
        try:
            places = [index.get(label, -1) for label in labels]
        except Exception:  # one has no hash, or cannot be compared
            places = [_place_of(label, index) for label in labels]
    return np.array(places, dtype=np.int64)


def _place_of(label, index: dict) -> int:
    """Position of one label; -1 where it is not listed, or can be no label."""
    try:
        return index.get(label, -1)
    except Exception:  # it has no hash, or cannot be compared
        return -1


def _compares_as_python(labels: np.ndarray, listed: list) -> bool:
    """Whether ``==`` of an array says of few labels what that of Python does."""
    kind, few = labels.dtype.kind, len(listed) <= _FEW_LABELS
    if kind == "U":  # NumPy leaves out zeros at the end of a text
        return few and all(isinstance(k, str) and k[-1:] != "\0" for k in listed)
    if kind in "biu":
        return few and all(isinstance(label, int) for label in listed)
    is_double = labels.dtype == np.float64
    exact = (isinstance(k, int | float) and abs(k) < 2**53 for k in listed)
    return few and is_double and all(exact)


_FEW_LABELS = 16  # with more a dictionary is faster


def check_arguments(estimator, n_columns: int | None, n_labels: int = 2) -> None:
    """Refuse arguments, nested ones too, that are wrong for any table of this width.

    Or of any, without one.

    For who fits others, before anything is spent.
    """
    check_nested_arguments(estimator)
    last = last_step(estimator)
    if isinstance(last, BaseEstimator):
        refuse_together(last, n_labels)
    if isinstance(last, BaseEstimator) and not get_tags(last).target_tags.single_output:
        raise ValueError(
            f"{type(last).__name__} takes several targets, and here there is one: pass "
            "the estimator that it wraps."
        )
    if isinstance(last, DPEstimator):
        last._refuse_outputs(1)
    refuse_widths(estimator, n_columns)


def check_nested_arguments(estimator) -> None:
    """Refuse arguments, nested ones too, that are wrong for any table."""
    for owner in owners(estimator).values():
        if isinstance(owner, DPEstimator):
            owner._check_arguments()
        # Estimators of others need not have constraints.
        elif isinstance(owner, BaseEstimator):
            if hasattr(owner, "_parameter_constraints"):
                owner._validate_params()
            _refuse_labels_as_numbers(owner)


def label_lists(estimator) -> list[list]:
    """Lists of labels of the private models inside that are handed labels as they are.

    Those without a list of their own get that of whoever fits them.
    """
    last = last_step(estimator)
    inside = _models_inside(last) if _is_scikit_learns_model(last) else []
    if isinstance(last, DPEstimator):
        listed = getattr(last, "classes", None)
        if listed is not None:
            return [public_classes(listed).tolist()]
        inside = [getattr(last, "estimator", None)]
    elif type(last).__name__ in _NUMBER_LABELS:
        return []
    return [listed for model in inside for listed in label_lists(model)]


# These hand on 0, 1, ... for the labels that they find.
_NUMBER_LABELS = """VotingClassifier StackingClassifier BaggingClassifier
    OneVsRestClassifier OneVsOneClassifier""".split()


def _refuse_labels_as_numbers(estimator) -> None:
    """Refuse lists of classes inside an ensemble that will not hold its numbers."""
    kind = type(estimator).__name__
    prefit = getattr(estimator, "cv", None) == "prefit"
    if kind not in _NUMBER_LABELS or not _is_scikit_learns_model(estimator) or prefit:
        return
    for model in map(last_step, _models_inside(estimator)):
        listed = getattr(model, "classes", None)
        if not isinstance(model, DPEstimator) or listed is None:
            continue
        if not {0, 1} <= set(public_classes(listed, 1).tolist()):
            raise ValueError(
                f"{kind} hands on numbers for labels: in the {type(model).__name__} in "
                "it list classes=[0, 1, ...]."
            )


def _readers(estimator, X=None) -> Iterator[tuple]:
    """Estimators that see columns as they are, and the table of these.

    Those are private ones: a first step, what it wraps, what a `ColumnTransformer` or
    a `FeatureUnion` hands columns; and whatever stands behind steps that learn nothing.
    Without a table only private ones are told that see all of it.
    """
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if hasattr(step, "fit")]
        for step, behind in zip(steps, [*steps[1:], None], strict=True):
            X, table = (yield from _read_by(step, X)), X
            if X is None:
                if not (table is None or behind is None):
                    _refuse_passed(step, table, _reader_behind(behind))
                return
    elif isinstance(estimator, ColumnTransformer) and X is not None:
        for _, step, columns in estimator.transformers:
            if not callable(columns):
                table = _choose(guarded, safe_indexing, X, columns, axis=1)
                yield from _read_by(step, table)
    elif isinstance(estimator, FeatureUnion) and X is not None:
        for _, step in estimator.transformer_list:
            yield from _read_by(step, X)
    elif isinstance(estimator, DPEstimator):
        yield estimator, X
        if getattr(estimator, "sensitive_features", None) is None:
            # Else what it wraps sees fewer.
            yield from _readers(getattr(estimator, "estimator", None), X)
    elif _is_scikit_learns_model(estimator):
        for inner in _models_inside(estimator):
            yield from _readers(inner, X)


def _is_scikit_learns_model(estimator) -> bool:
    ours = not isinstance(estimator, FrozenEstimator)
    theirs = type(estimator).__module__.startswith("sklearn.")
    return ours and theirs and (is_classifier(estimator) or is_regressor(estimator))


def _models_inside(estimator) -> list:
    """What a model of scikit-learn that is made of others hands its table to."""
    found = [getattr(estimator, name, None) for name in ("estimator", "regressor")]
    several = estimator.get_params(deep=False).get("estimators") or ()
    return [*found, *(model for _, model in several)]


def _read_by(step, X) -> Generator[tuple, None, Any]:
    """`_readers` of a step, itself if it does more than hand on, and what it hands on.

    That is None where it learns, which may take time.
    """
    yield from _readers(step, X)
    if X is None or not hasattr(step, "fit"):
        return X
    if _is_tried(step):
        with suppress(WrappedEstimatorError):
            return _tried(step, X)
        raise ValueError(_not_taken(step))
    if not isinstance(step, DPEstimator) and len(getattr(X, "shape", "XY")) == 2:
        yield step, X  # one that chooses a column by its name alone reads no table
    return None


def _refuse_passed(step, X, reader) -> None:
    """Refuse cells of columns that go by a private encoder to what reads numbers."""
    for table in _passed(step, X):
        if reader is not None and table.shape[1]:
            if _reads_numbers(reader, table)[0]:
                refuse_dates(table)  # beside numbers no model takes them
            _refuse_unread(reader, table)


def _passed(step, X) -> Iterator:
    """What a step that puts tables side by side hands on as it is, or may be tried."""
    if isinstance(step, ColumnTransformer):
        parts = [(name, one) for name, one, _ in step.transformers]
        parts.append(("remainder", step.remainder))
        kept = [name for name, one in parts if isinstance(one, str) or _is_tried(one)]
        others = {name: "drop" for name, _ in parts if name not in kept}
        passed = clone(step).set_params(sparse_threshold=0, **others)
        yield _choose(_tried, passed, X)
    elif isinstance(step, FeatureUnion):
        for _, one in step.transformer_list:
            if one == "passthrough":
                yield X
            elif _is_tried(one):  # and takes these cells, as was found before
                yield _tried(one, X)


def _tried(step, X):
    """What a step that may be tried makes of a table."""
    method = "transform" if isinstance(step, FrozenEstimator) else "fit_transform"
    # With copy=False a step writes into what it is handed.
    table = X.copy() if hasattr(X, "copy") else X
    return ask_wrapped(clone(step), method, table, private=True)


def _is_tried(step) -> bool:
    """Whether a step may be tried: cells that it does not take, no fit inside takes.

    It is fitted already, learns nothing, or fills gaps in a way that no other cell
    makes fail.
    """
    if isinstance(step, Pipeline):
        # A cache would hold rows that nothing was spent for.
        return step.memory is None and all(_is_tried(one) for _, one in step.steps)
    if isinstance(step, ColumnTransformer):
        parts = [step.remainder, *(one for _, one, _ in step.transformers)]
        return all(isinstance(one, str) or _is_tried(one) for one in parts)
    if isinstance(step, FunctionTransformer):
        return isinstance(step.func, np.ufunc) or learns_nothing(step)
    if isinstance(step, FrozenEstimator):
        return hasattr(step, "transform")
    if isinstance(step, SimpleImputer):
        return step.strategy in ("constant", "most_frequent")
    return hasattr(step, "transform") and learns_nothing(step)


def _not_taken(step) -> str:
    """What is said of a cell that a step which learns nothing does not take."""
    step = step.estimator if isinstance(step, FrozenEstimator) else step
    if isinstance(step, FunctionTransformer):
        return (
            "X has a cell that the function of a FunctionTransformer does not take: "
            "pass it columns of numbers, and these not as objects."
        )
    if hasattr(step, "handle_unknown") and not isinstance(step, DPEstimator):
        return (
            f"X has a cell that is not in the categories of {type(step).__name__}: add "
            "it to the public lists, or set handle_unknown to what takes it."
        )
    return (
        f"X has a column or a cell that {type(step).__name__}, which stands before the "
        "model, does not take: leave it out or replace it; where columns have names, "
        "pass X as a data frame."
    )


def _choose(call, *args, **named):
    """Choose columns, or say what is wrong: their names are public."""
    with suppress(WrappedEstimatorError):
        return call(*args, **named)
    raise ValueError(
        "A ColumnTransformer cannot choose its columns from X: let it name columns of "
        "X, and pass X as a data frame of pandas or polars."
    )


def refuse_cells(estimator, X) -> None:
    """Refuse cells that an estimator inside would, before anything is spent.

    Arrays of numbers are checked for all, other tables for those that read every column
    as a number; elsewhere frames may hold text.
    """
    readers = list(_readers(estimator, X))
    for reader, table in readers:
        if isinstance(reader, DPEstimator):
            reader._refuse_cells(table)
    first = reader_of(estimator)
    if all(first is not reader for reader, _ in readers):
        readers.append((first, X))
    for reader, table in readers:
        if reader is not None:  # nothing but "passthrough"
            _refuse_unread(reader, table)


def _refuse_unread(reader, X) -> None:
    """Refuse cells that one estimator cannot read."""
    reads_numbers, allow_nan = _reads_numbers(reader, X)
    is_plain = isinstance(X, np.ndarray) and X.dtype.kind != "O"
    # Numbers need no copy in double precision to be looked at; longer ones may be
    # finite before it and not after.
    has_numbers = is_plain and X.dtype.kind in "biuf" and X.dtype.itemsize <= 8
    if reads_numbers and isinstance(reader, DPEstimator):
        refuse_dates(X)
    if reads_numbers or is_plain or sparse.issparse(X):
        with domain("X"):
            check_array(
                finite_sparse(X),
                accept_sparse=get_tags(reader).input_tags.sparse,
                dtype=np.float64 if reads_numbers and not has_numbers else None,
                ensure_all_finite=not allow_nan,
                estimator=reader,
                input_name="X",
            )


def _reads_numbers(reader, X) -> tuple[bool, bool]:
    """Whether a reader takes numbers only, as it says, and whether these may be gaps.

    What one of another package, or behind named columns, takes is not known.
    """
    tags = get_tags(reader)
    told = tags.input_tags.string or tags.input_tags.categorical or tags.no_validation
    if isinstance(reader, DPEstimator):
        is_last = not hasattr(reader, "estimator")
        known = is_last and getattr(reader, "sensitive_features", None) is None
    else:
        # Boosted trees take categories of pandas, and do not say so.
        dtypes = getattr(X, "dtypes", ())
        listed = any(hasattr(dtype, "categories") for dtype in dtypes)
        listed = listed and hasattr(reader, "categorical_features")
        # What fills gaps, or picks columns, takes text, and does not say so either;
        # but for means.
        is_theirs = re.match(r"sklearn\.(?!impute|compose)", type(reader).__module__)
        known = is_theirs is not None or getattr(reader, "strategy", "") in _MEANS
        known = known and len(owners(reader)) == 1 and not listed
        known = known and tags.input_tags.two_d_array
    return known and not told, tags.input_tags.allow_nan


_MEANS = ("mean", "median")


def reader_of(estimator):
    """What reads the cells that an estimator is handed; None if nothing does."""
    if isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    *_, reader = first_step(estimator), *(reader for reader, _ in _readers(estimator))
    return reader


def _reader_behind(step):
    """The same of a step behind others: a repair hands its columns on."""
    reader = reader_of(step)
    while hasattr(type(reader), "_base_method") and reader.sensitive_features is None:
        reader = reader_of(reader.estimator)
    return reader


def first_step(estimator):
    """The estimator itself, or what a pipeline hands its table to."""
    while isinstance(estimator, Pipeline):
        steps = (step for _, step in estimator.steps if hasattr(step, "fit"))
        estimator = next(steps, None)
    return estimator


def last_step(estimator):
    """The estimator itself, or the last of a pipeline."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def n_entries(bounds) -> int:
    """How many columns bounds are for, by the longer end."""
    return max(map(np.size, bounds if isinstance(bounds, tuple) else ()), default=1)


def read_bounds(bounds, n_columns: int, *, name: str = "bounds") -> tuple:
    """Read public bounds ``(low, high)``, each a number or one entry per column.

    Parameters
    ----------
    bounds : tuple (low, high)
        Each a number or a one-dimensional array with `n_columns` entries.
    n_columns : int
    name : str, default="bounds"
        Name of the argument, for errors.

    Returns
    -------
    low, high : ndarray of shape (n_columns,), float64
        Finite, with low <= high and a finite difference.
    """
    form = (
        f"{name} must be a tuple (low, high), each a number or a one-dimensional array "
        f"with an entry for each of the {n_columns} columns; write a list of pairs "
        "as tuple(zip(*pairs))"
    )
    if isinstance(bounds, dict):
        form += "; bounds by name go into the codebook of a DPTableEncoder before it"
    if not (isinstance(bounds, tuple) and len(bounds) == 2):
        raise ValueError(f"{form}.")
    ends = []
    for end in bounds:
        try:
            end = np.asarray(end, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{form}.") from None
        if end.ndim > 1 or (end.ndim == 1 and len(end) != n_columns):
            raise ValueError(f"{form}; got an entry of shape {end.shape}.")
        ends.append(np.broadcast_to(end, n_columns).copy())
    low, high = ends
    with np.errstate(all="ignore"):
        proper = np.isfinite(high - low).all() and (low <= high).all()
    if not proper:
        raise ValueError(
            f"{name} must be finite with low <= high and high - low finite."
        )
    return low, high


def read_target_range(target_bounds) -> tuple[float, float]:
    """Read the public range ``(low, high)`` of a target."""
    try:
        low, high = (float(bound) for bound in target_bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (0 < high / 2 - low / 2 < np.inf):
        raise ValueError(
            "target_bounds must be a pair (low, high) of finite numbers with "
            f"low < high, got {target_bounds!r}."
        )
    return low, high


def public_target_range(target_bounds, y) -> tuple[float, float, Fact]:
    """Range of a target, read from `y` if it is not given, and the fact about it."""
    if target_bounds is None:
        fact = warn_leak("target_bounds", "the range of the target")
        return *map(float, range_of(y)), fact
    low, high = read_target_range(target_bounds)
    return low, high, Fact("target_bounds", (low, high))


def range_of(y) -> tuple[np.ndarray, np.ndarray]:
    """Range of each target, of which a constant one has some to be scaled by."""
    limit = np.finfo(np.float64).max / 4
    low, high = np.maximum(y.min(axis=0), -limit), np.minimum(y.max(axis=0), limit)
    return low, np.where(high > low, high, low + np.maximum(1.0, np.abs(low)))
