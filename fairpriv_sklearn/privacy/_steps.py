"""What each step of an estimator does to privacy, fitted or not yet."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import getattr_static
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from .._shared.guarded import fit_to_made_up
from .._shared.nested import argument_of, owners
from .._shared.purity import spreads
from .._shared.sklearn import has_weights
from ..accounting import EitherEvent, PureEvent, compose_epsilon
from . import _foreign
from ._budget._costs import is_encoder, or_pure, reads_all_rows, step_events, with_room
from ._budget._pipeline import BudgetPipeline
from ._guarantee import PrivacyGuarantee, own_events

# Attributes that hold the schema or the configuration of scikit-learn, not the data.
_SCHEMA = {"n_features_in_", "feature_names_in_", "_n_features_out"}
_CONFIGURATION = {"_sklearn_output_config", "_metadata_request"}

ROW_PURE = "__fairpriv_row_pure__"


@dataclass(frozen=True)
class StepPrivacy:
    """What one step of a pipeline does to privacy.

    Parameters
    ----------
    name : str
        Its place, in the notation of `set_params`; empty for the whole.
    estimator : str
        Name of its class.
    status : {"private", "conditional", "public", "uncovered"}
        Private: it has a guarantee. Conditional: its privacy, or that it learnt
        nothing, holds on a condition. Public: it learnt nothing from the data.
    guarantee : PrivacyGuarantee or None
        Its own guarantee, if it has one.
    assumption : str
        What is assumed of it.
    fix : str
        How to cover an uncovered step.
    conditional_on : tuple of str
        Names of what it read from the data, or is supposed to do, itself.
    notes : tuple of str
        What a repair left as it was, by its noisy numbers.
    """

    name: str
    estimator: str
    status: str
    guarantee: PrivacyGuarantee | None = None
    assumption: str = ""
    fix: str = ""
    conditional_on: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and class of the step."""
        return f"{self.name} ({self.estimator})" if self.name else self.estimator

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts.

        Returns
        -------
        dict
            The fields by name.
        """
        guarantee = self.guarantee and self.guarantee.to_dict()
        return {
            **vars(self),
            "guarantee": guarantee,
            "conditional_on": list(self.conditional_on),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Found:
    """A step with the estimator it is about."""

    step: StepPrivacy
    estimator: Any
    frozen: bool

    @property
    def is_paid(self) -> bool:
        """Whether it is charged to a ledger of its own, or was in an earlier fit."""
        return self.frozen or getattr(self.estimator, "ledger", None) is not None


# --- steps that learn nothing ---------------------------------------------------------


def _categories_given(step) -> bool:
    # Rare categories are found by counting rows; and whether a row has an unknown one
    # is nobody's business.
    counted = (step.min_frequency, step.max_categories) != (None, None)
    dropped = getattr(step, "drop", None) is not None
    warns = step.handle_unknown == "warn" or (
        dropped and step.handle_unknown != "error"
    )
    return not isinstance(step.categories, str) and not counted and not warns


def _fills_constant(step) -> bool:
    # Columns without any value are dropped, or indicated, by looking at the rows.
    looks_at_rows = not step.keep_empty_features or step.add_indicator
    return step.strategy == "constant" and not looks_at_rows


# Steps of scikit-learn that learn nothing and work on each row on its own. That one
# needs no fit does not say so: a Gaussian process does not, and keeps all rows.
_WITHOUT_FIT = """AdditiveChi2Sampler Binarizer FeatureHasher FunctionTransformer
    HashingVectorizer Normalizer""".split()

# Steps of scikit-learn that may learn nothing beyond what their constructor was told:
# the condition under which that is so, and how to reach it.
_FROM_CONSTRUCTOR = {
    "OneHotEncoder": (
        _categories_given,
        "Pass `categories=[...]`, the public list for each column, leave "
        "`min_frequency` and `max_categories` at None, and do not let it warn of "
        "unknown ones, as it does where one is dropped: `drop=None`, or "
        '`handle_unknown="error"`.',
    ),
    "OrdinalEncoder": (
        _categories_given,
        "Pass `categories=[...]`, the public list for each column, and leave "
        "`min_frequency` and `max_categories` at None.",
    ),
    "SimpleImputer": (
        _fills_constant,
        'Use `strategy="constant"` with a public `fill_value`, '
        "`keep_empty_features=True` and `add_indicator=False`.",
    ),
    "SplineTransformer": (
        lambda step: not isinstance(step.knots, str),
        "Pass `knots` as an array fixed without looking at the data.",
    ),
    "PolynomialFeatures": (lambda step: True, ""),
    "RBFSampler": (
        lambda step: step.gamma != "scale",
        "Pass `gamma` as a number fixed without looking at the data.",
    ),
}
_PUBLIC_BOUNDS = (
    "Leave it out and pass public `bounds` to the private model, which scales by them."
)
_SCALERS = {"StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"}
_FIX_BY_NAME = {
    **dict.fromkeys(_SCALERS, _PUBLIC_BOUNDS),
    **{name: fix for name, (_, fix) in _FROM_CONSTRUCTOR.items()},
}
_ANY_FIX = (
    "Replace it by a private step, or by one that learns nothing from this data, such "
    "as a `FunctionTransformer` around a NumPy ufunc."
)
_FUNCTION_FIX = (
    "Use a NumPy ufunc without `out` and `where`, or declare that the function works "
    f"on each row on its own: set its attribute `{ROW_PURE}` to True."
)
_CLASS_FIX = (
    "Declare that it learns nothing and works on each row on its own: set the class "
    f"attribute `{ROW_PURE}` to True."
)
_SEARCH_FIX = "Use `DPGridSearchCV` or `DPRandomizedSearchCV`, which select privately."
_INSIDE_FIX = "Make what its guarantee lists as not covered private, or declare it."
_SPREAD_FIX = (
    "Its answers are spread over identical rows, so that one record moves those of "
    'others: give it a pure output (`output="continuous"` or `"mean"`).'
)
_OTHER_FIT_FIX = (
    "It was fitted behind another fit of the encoder, whose cost is not counted here: "
    "fit the pipeline again."
)
_DEFINED = "is defined for every cell: NumPy warns of others"
CONDITIONAL = (
    "The guarantee of the whole is conditional on this, and its epsilon infinite"
)
_ONE_FIT = "was fitted behind these fits of the steps before it"
_ON_ANSWERS = "was fitted on what another private fit gave, whose cost comes on top"
_NOTHING_ELSE = "does with its rows what scikit-learn's class does and no more"
_SPARSE_FIX = (
    "Pass `sparse_threshold=0`: whether its output is sparse depends on the rows."
)
_INVERSE_FIX = (
    "Pass `check_inverse=False`: whether the check of the inverse warns depends on the "
    "values of some rows."
)
_MEMORY_FIX = (
    "Pass `memory=None`: whether a step comes from the cache tells whether the rows "
    "are those of an earlier fit, and the cache holds them without noise."
)
_FOLDS = "the models of its folds are not accounted for"
_CHAIN_FIX = f"Pass `cv=None`: {_FOLDS}."
_PREFIT_FIX = f'Pass `cv="prefit"` and private models fitted elsewhere: {_FOLDS}.'
_COLUMNS_FIX = "List the columns by name or position; a callable looks at the rows."

_CLASSES_FIX = "It reads the list of labels from the data, and takes no public one."
# Functions of each number on its own that are no ufuncs.
_ELEMENTWISE = (np.clip, np.nan_to_num, np.round, np.around, np.real, np.imag)


def _works_by_row(function) -> bool:
    """Whether a function is known to work on each row on its own."""
    if function is None or any(function is one for one in _ELEMENTWISE):
        return True
    name = getattr(function, "__name__", "")
    library = any(getattr(home, name, None) is function for home in (np, special))
    return isinstance(function, np.ufunc) and library


def _writes(transformer: FunctionTransformer) -> bool:
    """Whether a ufunc leaves rows in somebody's array, or out."""
    return not {"out", "where"}.isdisjoint(transformer.kw_args or ())


def _calls(estimator) -> bool:
    """Whether a step calls functions of the user, such as a tokenizer."""
    given = estimator.get_params(deep=False).values()
    return any(callable(value) and not isinstance(value, type) for value in given)


def _plain_step(estimator, name: str, fitted: bool) -> StepPrivacy:
    kind = type(estimator).__name__
    step = StepPrivacy(name, kind, "public")
    if not _learns_nothing(estimator, fitted):
        fix = _FIX_BY_NAME.get(kind, _ANY_FIX)
        return replace(step, status="uncovered", fix=fix)
    function = isinstance(estimator, FunctionTransformer)
    if function and _inverse_refusal(estimator):
        return replace(step, status="uncovered", fix=_INVERSE_FIX)
    function = function and _is_scikit_learns(estimator)  # of others its class counts
    if function and _works_by_row(estimator.func) and not _writes(estimator):
        is_ufunc = isinstance(estimator.func, np.ufunc)
        return replace(step, assumption=_DEFINED) if is_ufunc else step
    if not function and _is_scikit_learns(estimator) and not _calls(estimator):
        return step
    # Somebody's own code: nothing here can see what it does to the rows.
    declared = getattr(estimator.func if function else estimator, ROW_PURE, None)
    what = "works on each row on its own"
    what = what if function else f"learns nothing and {what}"
    if declared is True:
        return replace(step, assumption=what)
    fix, facts = _FUNCTION_FIX if function else _CLASS_FIX, (f"{step.title} {what}",)
    return replace(step, status="conditional", fix=fix, conditional_on=facts)


def _is_scikit_learns(estimator) -> bool:
    return type(estimator).__module__.startswith("sklearn.")


def _learns_nothing(estimator, fitted: bool) -> bool:
    kind = type(estimator)
    if hasattr(estimator, "fit_resample"):
        return False  # leaves rows out, or makes more of them, by the others
    if not hasattr(estimator, "fit"):
        return True
    if _is_scikit_learns(estimator):
        if kind.__name__ in _FROM_CONSTRUCTOR:
            return _FROM_CONSTRUCTOR[kind.__name__][0](estimator)
        if kind.__name__ in _WITHOUT_FIT:
            return True
    # Any attribute that is no argument counts, whatever its name: many an estimator
    # keeps what it learnt under a leading underscore. Unfitted, scikit-learn's own
    # estimators are known to learn, and of others nothing is known.
    if not fitted:
        return not _is_scikit_learns(estimator)
    arguments = estimator.get_params(deep=False) if hasattr(kind, "get_params") else ()
    return set(vars(estimator)) <= {*arguments, *_SCHEMA, *_CONFIGURATION}


# --- estimators made of others --------------------------------------------------------


def _numbered(meta) -> list[tuple[str, Any]]:
    return [(f"estimators_{i}", one) for i, one in enumerate(meta.estimators_)]


@dataclass(frozen=True)
class _Meta:
    """How an estimator of scikit-learn that is made of others fits them."""

    # -> list of (name, fitted estimator), each fitted on all rows
    fitted: Callable = _numbered
    planned: Callable | None = None  # -> the same before the fit, if that is known
    refusal: Callable = lambda estimator: ""  # why it is not covered, if so


def _kept(pairs) -> list[tuple[str, Any]]:
    return [(name, one) for name, one in pairs if not isinstance(one, str)]


def _fitted_voters(voting) -> list[tuple[str, Any]]:
    names = [name for name, _ in _kept(voting.estimators)]
    if len(names) != len(voting.estimators_):
        return _numbered(voting)  # one was dropped since
    return list(zip(names, voting.estimators_, strict=True))


def _bags(bagging) -> list[tuple[str, Any]]:
    inner = getattr(bagging, "estimator", None)
    return [(f"estimators_{i}", inner) for i in range(bagging.n_estimators)]


def _bagging_refusal(bagging) -> str:
    if bagging.bootstrap:
        return (
            "A bootstrap sample holds a record several times: pass `bootstrap=False`, "
            "or use a `VotingClassifier` or `VotingRegressor`."
        )
    if has_weights(bagging):
        return (
            "It keeps the weights of the rows, by which it draws: fit it without "
            "`sample_weight`."
        )
    inner = walk(bagging.estimator, fitted=False)
    relations = {one.step.guarantee.neighboring for one in inner if one.step.guarantee}
    if "add_remove" not in relations:
        return ""
    return (
        "It keeps the number of rows, which is private where records come and go: use "
        'a `VotingClassifier` or `VotingRegressor`, or `neighboring="replace_one"`.'
    )


def _inverse_refusal(transformer) -> str:
    """Of what is transformed, rows or the target, with an inverse that is checked."""
    both = None not in (transformer.func, transformer.inverse_func)
    has_inverse = both or getattr(transformer, "transformer", None) is not None
    return _INVERSE_FIX if has_inverse and transformer.check_inverse else ""


def _stacked(stack) -> list[tuple[str, Any]]:
    models = [(name, FrozenEstimator(one)) for name, one in _fitted_voters(stack)]
    return [*models, ("final_estimator", stack.final_estimator_)]


# What the last of their parts is fitted on are answers of the others, given after these
# were fitted: a `fit_transform` of ours gives twins one answer, a `transform` need not.
_FEED_THE_LAST = (
    "StackingRegressor",
    "StackingClassifier",
    "TransformedTargetRegressor",
)
# These read the list of classes from the data.
_READ_CLASSES = """VotingClassifier OneVsRestClassifier BaggingClassifier
    StackingClassifier""".split()
_VOTING = _Meta(_fitted_voters, lambda one: _kept(one.estimators))
_BAGGING = _Meta(planned=_bags, refusal=_bagging_refusal)
_STACKING = _Meta(
    _stacked, refusal=lambda one: "" if one.cv == "prefit" else _PREFIT_FIX
)
_METAS = {
    **dict.fromkeys(("VotingRegressor", "VotingClassifier"), _VOTING),
    **dict.fromkeys(("BaggingRegressor", "BaggingClassifier"), _BAGGING),
    **dict.fromkeys(_FEED_THE_LAST, _STACKING),
    **dict.fromkeys(
        ("OneVsRestClassifier", "MultiOutputRegressor", "MultiOutputClassifier"),
        _Meta(),
    ),
    **dict.fromkeys(
        ("RegressorChain", "ClassifierChain"),
        _Meta(refusal=lambda one: "" if one.cv is None else _CHAIN_FIX),
    ),
    "TransformedTargetRegressor": _Meta(
        lambda one: [("transformer", one.transformer_), ("regressor", one.regressor_)],
        lambda one: [
            ("transformer", one.transformer or FunctionTransformer(one.func)),
            ("regressor", one.regressor),
        ],
        refusal=_inverse_refusal,
    ),
    "FixedThresholdClassifier": _Meta(
        lambda one: [("estimator", one.estimator_)],
        lambda one: [("estimator", one.estimator)],
    ),
    "CalibratedClassifierCV": _Meta(
        refusal=lambda one: "Its calibration is fitted without noise: leave it out."
    ),
}


def _meta_of(estimator) -> _Meta | None:
    kind = type(estimator).__name__
    return _METAS.get(kind) if _is_scikit_learns(estimator) else None


def _parts(estimator, fitted: bool) -> list[tuple[str, Any]] | None:
    """The estimators inside a container; None if it is none."""
    if isinstance(estimator, Pipeline):
        return estimator.steps
    if isinstance(estimator, FeatureUnion):
        return estimator.transformer_list
    if isinstance(estimator, ColumnTransformer):
        if fitted:
            return [(name, step) for name, step, _ in estimator.transformers_]
        inner = [(name, step) for name, step, _ in estimator.transformers]
        return [*inner, ("remainder", estimator.remainder)]
    meta = _meta_of(estimator)
    if meta is None or meta.refusal(estimator):
        return None
    if fitted:
        return meta.fitted(estimator)
    return meta.planned(estimator) if meta.planned else None


# --- containers of columns ------------------------------------------------------------


def _column_problems(columns: ColumnTransformer, fitted: bool) -> Iterator[str]:
    if any(callable(chosen) for _, _, chosen in columns.transformers):
        yield _COLUMNS_FIX
    steps = _parts(columns, fitted)
    if columns.sparse_threshold > 0 and any(_density_varies(step) for _, step in steps):
        yield _SPARSE_FIX


def _density_varies(step) -> bool:
    """Whether a step may give sparse output whose density depends on the rows."""
    if isinstance(step, Pipeline):
        return _density_varies(step[-1])
    if isinstance(step, FeatureUnion):
        return any(_density_varies(one) for _, one in step.transformer_list)
    if isinstance(step, FrozenEstimator):
        return _density_varies(step.estimator)
    if type(step).__name__ == "OneHotEncoder" and step.sparse_output:
        # Without exceptions every row has exactly one 1 for each column.
        return not (step.drop is None and step.handle_unknown == "error")
    if isinstance(step, FunctionTransformer):
        return not _works_by_row(step.func)
    return bool(getattr(step, "sparse_output", False))


# --- the walk -------------------------------------------------------------------------


def walk(
    estimator,
    name: str = "",
    *,
    fitted: bool = True,
    frozen=False,
    before: Mapping | None = None,
) -> Iterator[Found]:
    """Yield the steps of an estimator, nested ones in the notation of `set_params`.

    Parameters
    ----------
    estimator : estimator
    name : str
        Its place.
    fitted : bool
        Whether to tell what was learnt, or from the arguments what will be.
    frozen : bool
        Whether it stands inside a `FrozenEstimator`.
    before : mapping or None
        Place to estimator before the fit, where that is known.
    """
    if estimator is None or isinstance(estimator, str):  # "passthrough", "drop"
        return

    # First of all, for it hands on the attributes of what it holds.
    if isinstance(estimator, FrozenEstimator):
        yield from walk(estimator.estimator, name, fitted=True, frozen=True)
        return

    def found(step: StepPrivacy) -> Found:
        return Found(step, estimator, frozen)

    own = _own_guarantee(estimator, fitted, (before or {}).get(name))
    if own is not None:
        yield found(_private_step(estimator, name, own))
        return
    kind = type(estimator).__name__
    uncovered = StepPrivacy(name, kind, "uncovered")
    searches = hasattr(estimator, "refit") and hasattr(estimator, "cv")
    if hasattr(estimator, "cv_results_") or searches:
        yield found(replace(uncovered, fix=_SEARCH_FIX))
        if hasattr(estimator, "best_estimator_"):
            place = argument_of(name, "estimator")
            yield from walk(estimator.best_estimator_, place, before=before)
        return
    parts = _parts(estimator, fitted)
    if parts is None:
        meta = _meta_of(estimator)
        fix = "" if meta is None else meta.refusal(estimator) or _ANY_FIX
        plain = _plain_step(estimator, name, fitted)
        yield found(replace(uncovered, fix=fix) if fix else plain)
        return
    if isinstance(estimator, ColumnTransformer):
        for fix in _column_problems(estimator, fitted):
            yield found(replace(uncovered, fix=fix))
    if getattr(estimator, "memory", None) is not None:
        yield found(replace(uncovered, fix=_MEMORY_FIX))
    if not _is_scikit_learns(estimator) and type(estimator) is not BudgetPipeline:
        yield found(StepPrivacy(name, kind, "public", assumption=_NOTHING_ELSE))
    if kind in _READ_CLASSES:
        step = StepPrivacy(name, kind, "conditional", fix=_CLASSES_FIX)
        read = (f"classes (read by {step.title})",)
        yield found(replace(step, conditional_on=read))
    options = {"fitted": fitted, "frozen": frozen, "before": before}
    several = [list(walk(s, argument_of(name, n), **options)) for n, s in parts]
    if isinstance(estimator, Pipeline) or kind in _FEED_THE_LAST:
        steps = [step for _, step in parts]
        several = _with_spreading(steps, several, fitted, kind in _FEED_THE_LAST)
    if isinstance(estimator, Pipeline) and fitted:
        several = _with_other_fits(several, type(estimator) is BudgetPipeline)
    for steps in several:
        yield from steps


def _with_spreading(
    estimators: list, several: list[list[Found]], fitted: bool, all_asked: bool
) -> list[list[Found]]:
    """Uncover steps whose answers, spread over twins, a private step is fed.

    Frozen ones in a pipeline, or all of which a `transform` or `predict` is asked.
    """
    for i, estimator in enumerate(estimators[:-1]):
        # Whatever stands around: what is frozen in here was not fitted in here.
        later = [walk(one, fitted=fitted) for one in estimators[i + 1 :]]
        fed = any(
            one.step.guarantee is not None and not one.frozen
            for steps in later
            for one in steps
        )
        asked = all_asked or _holds_frozen(estimator)
        if fed and asked and spreads(estimator):
            several[i] = [_uncovered(one, _SPREAD_FIX) for one in several[i]]
    return several


def _with_other_fits(several: list[list[Found]], unfits: bool) -> list[list[Found]]:
    """Uncover steps that stood behind other fits of those before them in a pipeline.

    What was between them may hide that: then it is assumed that they did not, unless
    the pipeline `unfits` its steps before it fits them again.
    """
    marks = [{_kept_by(one, "_mark") for one in found} - {None} for found in several]
    for i, found in enumerate(several):
        before = set().union(*marks[:i])
        for j, one in enumerate(found if before else ()):
            behind = _kept_by(one, "_fitted_behind")
            if behind is None and hasattr(type(one.estimator), "_unfit"):
                step = one.step if unfits else replace(one.step, assumption=_ONE_FIT)
                found[j] = replace(one, step=step)
            elif behind not in {None, *before, *marks[i]}:
                found[j] = _uncovered(one, _OTHER_FIT_FIX)
    return several


def found_in(estimator, before=None) -> list[Found]:
    """The steps of a fitted estimator, saying which stood behind another private fit.

    What is frozen inside of a repair stood behind what it was fitted behind itself.
    """
    found = list(walk(estimator, before=places(before)))
    several = [[one, *_inside(one.estimator)] for one in found]
    marks = {None, *(_kept_by(one, "_mark") for inner in several for one in inner)}
    return [
        one
        if marks.issuperset(_kept_by(each, "_fitted_behind") for each in inner)
        else replace(one, step=replace(one.step, assumption=_ON_ANSWERS))
        for one, inner in zip(found, several, strict=True)
    ]


def _inside(estimator) -> Iterator[Found]:
    """The steps of the models that one of ours has fitted inside."""
    if not hasattr(estimator, "_unfit"):
        return
    for name in ("estimator_", "group_estimator_", "best_estimator_"):
        for one in walk(vars(estimator).get(name)):
            yield one
            yield from _inside(one.estimator)


def _kept_by(found: Found, name: str) -> str | None:
    """An attribute of its own: somebody's wrapper hands on those of what it holds."""
    return getattr(found.estimator, "__dict__", {}).get(name)


def _uncovered(found: Found, fix: str) -> Found:
    return replace(found, step=replace(found.step, status="uncovered", fix=fix))


def _holds_frozen(estimator) -> bool:
    if isinstance(estimator, FrozenEstimator):
        return True
    if isinstance(estimator, Pipeline | FeatureUnion | ColumnTransformer):
        return any(_holds_frozen(one) for _, one in _parts(estimator, fitted=False))
    return False


def _private_step(estimator, name: str, own: PrivacyGuarantee) -> StepPrivacy:
    status, fix = "private", ""
    if own.uncovered:
        status, fix = "uncovered", _INSIDE_FIX
    elif own.conditional_on:
        names = ", ".join(own.conditional_on)
        status, fix = "conditional", f"Pass as arguments what was read: {names}."
    notes = tuple(vars(estimator).get("repair_notes_", ()))
    inner = [one.step.guarantee for one in _inside(estimator) if one.step.guarantee]
    proofs = [own.proofs, *(one.proofs for one in inner)]
    own = replace(own, proofs=dict.fromkeys(one for each in proofs for one in each))
    return StepPrivacy(
        name, type(estimator).__name__, status, own, fix=fix, notes=notes
    )


def _own_guarantee(estimator, fitted, before) -> PrivacyGuarantee | None:
    if _foreign.is_diffprivlibs(estimator):
        return _foreign.diffprivlib_guarantee(estimator, before)
    # Somebody's wrapper may hand on the attributes of what it holds: not its own.
    if fitted and getattr_static(estimator, "privacy_", None) is not None:
        own = estimator.privacy_
        if isinstance(own, PrivacyGuarantee):
            return own
    if not fitted and hasattr(estimator, "_unfit"):
        return expected_of(estimator)
    return None


# Two calibrations to one budget compose to the same but for rounding. Compositions are
# rounded up by ten times this, so what costs so little more is below what is printed.
_ROUNDED = 1.0 + 1e-11


# --- before the fit -------------------------------------------------------------------


def expected_of(estimator) -> PrivacyGuarantee:
    """Return the guarantee that a private estimator of this library will have."""
    expected, models = own_releases(estimator), wrapped_models(estimator)
    # First what is fitted to other rows, then what was to any.
    for one in sorted(models, key=lambda one: isinstance(one[1], FrozenEstimator)):
        expected = _with_model(expected, *one, is_parted=not reads_all_rows(estimator))
    composes = reads_all_rows(estimator) or any(map(_costs_before, models))
    # The fit plans with room for the draws of its models, not knowing them; here its
    # own are not known either.
    return roomier(roomier(expected)) if composes else expected


def own_releases(estimator) -> PrivacyGuarantee:
    """The same of what it releases itself, without the models that it wraps."""
    relation = getattr(estimator, "_relation", lambda: estimator.neighboring)
    events = step_events(estimator)
    is_pure = all(isinstance(event, PureEvent) for event in events)
    return PrivacyGuarantee.from_events(
        events,
        delta=0.0 if is_pure else estimator.delta,
        neighboring=relation(),
        mechanism=type(estimator).__name__,
        noise_is_secure=estimator.random_state is None,
    )


def wrapped_models(estimator) -> list[tuple]:
    """Models that a repair wraps: their argument, themselves, and what is declared."""
    models = []
    if hasattr(estimator, "base_guarantee"):
        models.append(("estimator", estimator.estimator, estimator.base_guarantee))
    if getattr(estimator, "blind", False):
        model = estimator._expected_group_model()
        models.append(("group_estimator", model, estimator.group_guarantee))
    return models


def _costs_before(model: tuple) -> bool:
    """Whether a wrapped model, by its name, comes fitted, and not to public rows."""
    _, given, declared = model
    return isinstance(given, FrozenEstimator) and not isinstance(declared, str)


def _with_model(
    own: PrivacyGuarantee, name: str, model, declared, *, is_parted: bool
) -> PrivacyGuarantee:
    """Add a wrapped model: fitted on other rows, on the same, or before."""
    if isinstance(declared, str):
        return own
    if declared is None:
        declared = composed(walk(model, fitted=False), True)
    if declared is None or declared.neighboring != own.neighboring:
        return own.qualified(uncovered=[name])
    apart = is_parted and not isinstance(model, FrozenEstimator)
    return (own.disjoint if apart else own.compose)(declared)


def composed(steps: Iterator[Found], planned=False) -> PrivacyGuarantee | None:
    """Compose the steps, fitted or only planned; None if no part is private."""
    found = list(steps)
    private = [one for one in found if one.step.guarantee is not None]
    if not private:
        return None
    if not planned or len(private) == 1:
        return total_of([one.step for one in found])
    found = [replace(one, step=_step_with_room(one.step)) for one in found]
    total = total_of([one.step for one in found])
    return _learn_or_not(total, found) if _learn_together(private) else total


def _learn_together(private: list[Found]) -> bool:
    """Whether all steps or none learn from features: one public number decides.

    Side by side they see the same number of records.
    """
    least = {getattr(one.estimator, "min_records", None) for one in private}
    alone = (one.frozen or "__" in one.step.name for one in private)
    return len(least) == 1 and None not in least and not any(alone)


def _learn_or_not(total: PrivacyGuarantee, found: list[Found]) -> PrivacyGuarantee:
    """What all steps learn, or the constants of the models without any encoder."""
    learnt, constants = [], []
    for one in found:
        events = () if one.step.guarantee is None else one.step.guarantee.events
        either = events[0] if or_pure(one.estimator) else None
        if isinstance(either, EitherEvent):
            learnt += either.left
            constants += either.right
        else:
            learnt += events
            constants += () if is_encoder(one.estimator) else events
    events = (EitherEvent(tuple(learnt), tuple(constants)),)
    if total.epsilon == np.inf:  # for what is not covered, or not public
        return replace(total, events=events)
    return replace(total, events=events, epsilon=compose_epsilon(events, total.delta))


def _step_with_room(step: StepPrivacy) -> StepPrivacy:
    own = step.guarantee
    return step if own is None else replace(step, guarantee=roomier(own))


def roomier(own: PrivacyGuarantee) -> PrivacyGuarantee:
    """A guarantee with room for what steps gain, beside others, by fewer draws."""
    events = with_room(own.events)
    cost = compose_epsilon(events, own.delta)
    stated = {k: max(getattr(own, k), cost) for k in ("epsilon", "epsilon_if_public")}
    return replace(own, events=events, **stated)


def total_of(steps: list[StepPrivacy]) -> PrivacyGuarantee:
    """Compose the steps, with what they assume, depend on and leave uncovered."""
    private = [_with_place(step) for step in steps if step.guarantee is not None]
    if private:
        total = private[0].compose(*private[1:])
    else:
        total = PrivacyGuarantee(0.0, 0.0, "replace_one", "nothing released privately")
    # A step whose own guarantee lists what it leaves uncovered need not be named again.
    bare = [one for one in steps if one.status == "uncovered"]
    bare = [one for one in bare if one.guarantee is None or not one.guarantee.uncovered]
    return total.qualified(
        assumptions=[
            f"{one.title} {one.assumption}" for one in steps if one.assumption
        ],
        uncovered=dict.fromkeys(one.title for one in bare),
        conditional_on=[name for one in steps for name in one.conditional_on],
    )


def _with_place(step: StepPrivacy) -> PrivacyGuarantee:
    """Return the guarantee of a step, saying where its uncovered parts are."""
    own = step.guarantee
    if not step.name:
        return own
    return replace(own, uncovered=tuple(f"{step.name}: {one}" for one in own.uncovered))


def expected_guarantee(estimator, *, unpaid: bool = False) -> PrivacyGuarantee | None:
    """Return the guarantee that a fit of an estimator will have at most.

    Parameters
    ----------
    estimator : estimator
        Not fitted; pipelines and the like are looked into. Frozen parts are fitted.
    unpaid : bool, default=False
        Only what no ledger of a step of its own pays for, nor an earlier fit did.

    Returns
    -------
    PrivacyGuarantee or None
        A function of public arguments only. None if no part is private. What a fit
        reads from the data is known after it only (`kept`).
    """
    steps = list(walk(estimator, fitted=False))
    if unpaid:
        steps = [one for one in steps if not one.is_paid]
    return composed(iter(steps), planned=True)


def learns_nothing(estimator) -> bool:
    """Whether a fit of an estimator, by its arguments, learns nothing of its rows."""
    return all(one.step.status == "public" for one in walk(estimator, fitted=False))


def ways_out(estimator) -> str:
    """What a fit of an estimator will leave uncovered, and how to cover it."""
    found = (one.step for one in walk(estimator, fitted=False))
    said = [
        f" {step.title} is not covered. {step.fix}".removesuffix(f" {_ANY_FIX}")
        for step in found
        if step.status == "uncovered"
    ]
    return "".join(dict.fromkeys(said))


def refuse_learners(estimator, X) -> None:
    """Refuse steps of other packages that learn, which only a fit tells.

    Here one to made-up cells in the form of X; a step that takes none is left alone.
    """
    for one in walk(estimator, fitted=False):
        is_known = one.step.guarantee or one.frozen or _is_scikit_learns(one.estimator)
        holds_others = len(owners(one.estimator)) > 1  # which may have a ledger
        if is_known or holds_others or not hasattr(one.estimator, "fit"):
            continue
        if any(_learns(one.estimator, kind, X) for kind in (float, str)):
            raise ValueError(
                f"{one.step.title} learns from its rows, and is not private. {_ANY_FIX}"
            )


def _learns(estimator, kind: type, X) -> bool:
    """Whether a step learns of a made-up table: as wide as X, and named like it."""
    tried, y = clone(estimator), np.arange(20) % 2
    cells = [[kind(0.618 * i * j % 1) for j in range(X.shape[1])] for i in range(20)]
    table = np.array(cells, dtype=object if kind is str else float)
    try:
        if hasattr(type(X), "iloc"):
            table = type(X)(table, columns=X.columns)
        fit_to_made_up(tried, table, y)
    except Exception:
        return False
    # What tells its guarantee is no matter of ours.
    return not (hasattr(tried, "privacy_") or _learns_nothing(tried, fitted=True))


def conditions_of(estimator) -> str:
    """A sentence on what the guarantee of a fit will be conditional, if it will be."""
    found = (one.step for one in walk(estimator, fitted=False))
    steps = [step for step in found if step.conditional_on]
    facts = dict.fromkeys(fact for step in steps for fact in step.conditional_on)
    fixes = dict.fromkeys(step.fix for step in steps)
    if not facts:
        return ""
    return f"{CONDITIONAL}: {'; '.join(facts)}. {' '.join(fixes)}"


def kept(expected: PrivacyGuarantee, estimator, before=None) -> PrivacyGuarantee:
    """Return the expected guarantee with what the fitted estimator says of itself.

    Parameters
    ----------
    expected : PrivacyGuarantee
        From `expected_guarantee`, before the fit.
    estimator : estimator
        Fitted.
    before : estimator, default=None
        The same before its fit.

    Raises
    ------
    ValueError
        If the fit cost more than expected.
    """
    actual = own_guarantee(estimator, before)
    if actual is None:
        return expected.qualified(uncovered=["estimator"])
    delta = max(expected.delta, actual.delta)
    most, cost = (compose_epsilon(own_events(one), delta) for one in (expected, actual))
    if cost > most * _ROUNDED:
        raise ValueError(
            "The wrapped estimator cost more than its arguments say: its fit cannot be "
            "covered by the budget that was reserved for it."
        )
    return expected.qualified(
        assumptions=actual.assumptions,
        uncovered=actual.uncovered,
        conditional_on=actual.conditional_on,
        # A bagging estimator seeds what it wraps, whatever that was told.
        noise_is_secure=actual.noise_is_secure,
    )


def own_guarantee(estimator, before=None) -> PrivacyGuarantee | None:
    """Of the steps that are in an estimator, wherever that stands itself."""
    return composed(walk(estimator, before=places(before)))


def places(estimator) -> dict[str, Any]:
    """Map the places of the steps of an estimator that is not fitted to the steps."""
    if estimator is None:
        return {}
    return {one.step.name: one.estimator for one in walk(estimator, fitted=False)}
