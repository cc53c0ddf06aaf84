"""The steps of an estimator, fitted or not yet, and what each does to privacy."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from inspect import getattr_static
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from .._shared.nested import argument_of
from .._shared.purity import spreads
from ..accounting import PureEvent
from . import _foreign
from ._budget._costs import reads_all_rows, step_events
from ._budget._pipeline import BudgetPipeline
from ._composed import composed, roomier
from ._guarantee import PrivacyGuarantee
from ._metas import (
    FEED_THE_LAST,
    READ_CLASSES,
    SPARSE_FIX,
    column_problems,
    meta_of,
    parts_of,
)
from ._plain_step import ANY_FIX, is_scikit_learns, plain_step
from ._step import Found, StepPrivacy

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
_ONE_FIT = "was fitted behind these fits of the steps before it"
_ON_ANSWERS = "was fitted on what another private fit gave, whose cost comes on top"
_NOTHING_ELSE = "does with its rows what scikit-learn's class does and no more"
_MEMORY_FIX = (
    "Pass `memory=None`: whether a step comes from the cache tells whether the rows "
    "are those of an earlier fit, and the cache holds them without noise."
)
_COUNT_FIX = (
    "It keeps the number of rows, which is private where records come and go: use a "
    '`VotingClassifier` or `VotingRegressor`, or `neighboring="replace_one"`.'
)
_DENSE = "is handed no sparse table"
_CLASSES_FIX = "It reads the list of labels from the data, and takes no public one."


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
    fix = _refusal(estimator)
    parts = None if fix else parts_of(estimator, fitted)
    if parts is None:
        is_plain = meta_of(estimator) is None
        plain = plain_step(estimator, name, fitted)
        yield found(plain if is_plain else replace(uncovered, fix=fix or ANY_FIX))
        return
    if isinstance(estimator, ColumnTransformer):
        problems = list(column_problems(estimator, fitted))
        yield from (found(replace(uncovered, fix=fix)) for fix in problems)
        # Who follows that way out needs no such assumption.
        if estimator.sparse_threshold > 0 and SPARSE_FIX not in problems:
            yield found(StepPrivacy(name, kind, "public", assumption=_DENSE))
    if getattr(estimator, "memory", None) is not None:
        yield found(replace(uncovered, fix=_MEMORY_FIX))
    if not is_scikit_learns(estimator) and type(estimator) is not BudgetPipeline:
        yield found(StepPrivacy(name, kind, "public", assumption=_NOTHING_ELSE))
    if kind in READ_CLASSES:
        step = StepPrivacy(name, kind, "conditional", fix=_CLASSES_FIX)
        read = (f"classes (read by {step.title})",)
        yield found(replace(step, conditional_on=read))
    options = {"fitted": fitted, "frozen": frozen, "before": before}
    several = [list(walk(s, argument_of(name, n), **options)) for n, s in parts]
    if isinstance(estimator, Pipeline) or kind in FEED_THE_LAST:
        steps = [step for _, step in parts]
        several = _with_spreading(steps, several, fitted, kind in FEED_THE_LAST)
    if isinstance(estimator, Pipeline) and fitted:
        several = _with_other_fits(several, type(estimator) is BudgetPipeline)
    for steps in several:
        yield from steps


def _refusal(estimator) -> str:
    """Why an estimator of scikit-learn that is made of others is not covered, if so."""
    meta = meta_of(estimator)
    fix = "" if meta is None else meta.refusal(estimator)
    if fix or meta is None or not meta.keeps_count:
        return fix
    inner = walk(estimator.estimator, fitted=False)
    relations = {one.step.guarantee.neighboring for one in inner if one.step.guarantee}
    return _COUNT_FIX if "add_remove" in relations else ""


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
        return any(_holds_frozen(one) for _, one in parts_of(estimator, fitted=False))
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


def places(estimator) -> dict[str, Any]:
    """Map the places of the steps of an estimator that is not fitted to the steps."""
    if estimator is None:
        return {}
    return {one.step.name: one.estimator for one in walk(estimator, fitted=False)}
