"""What every private estimator shares: its constructor contract and its budget."""

import inspect
from functools import cache, wraps
from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.utils import get_tags

from .._shared.arguments import as_python, comes_in_parts, refuse_old_names
from .._shared.callers import all_checks, usual_underflow, warn_now, warned_at_the_end
from .._shared.domain import (
    check_columns,
    check_given,
    refuse_no_numbers,
    refuse_no_table,
    same_length,
)
from .._shared.fragments import with_fragments
from .._shared.origin import as_it_is, mark_of, origin, refuse_other_origin
from .._shared.sklearn import DocumentationLink, HasMethods, Interval, StrOptions
from .._wall import current_journal, leaks_foreseen, n_rows_of, refuse_widths, warn_leak
from ._stream import answer_in_parts, as_batches, batch_arguments
from .bounds import n_entries, read_bounds
from .labels import encode_labels, public_classes

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


def is_ours(estimator) -> bool:
    """Whether the code of an estimator's class is that of this library."""
    return type(estimator).__module__.split(".")[0] == _PACKAGE


def _code_of_others(estimator) -> list[str]:
    """What is assumed of code that nothing here can look into."""
    assumed = []
    if not is_ours(estimator):
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
        Delta of the guarantee. Range: [1e-300, 1).
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

    def _told_range(self) -> tuple[float, float] | None:
        """What predictions cannot leave, by what a fit released; None: anything."""
        return None

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
        from .inside import first_step  # both know this class
        from .readers import refuse_cells

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


# Below 2e-308 numbers have fewer digits: what is calibrated to them costs more than
# foreseen.
DELTA_CONSTRAINT = {"delta": [Interval(Real, 1e-300, 1, closed="left")]}
MIN_RECORDS = {"min_records": [None, Interval(Integral, 1, None, closed="left")]}
