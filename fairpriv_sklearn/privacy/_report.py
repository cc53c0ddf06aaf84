"""The privacy of a whole pipeline, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ..accounting import PureEvent, compose_epsilon
from ._guarantee import PrivacyGuarantee, markdown_table, round_up

# Attributes that hold the schema or the configuration of scikit-learn, not the data.
_SCHEMA = {"n_features_in_", "feature_names_in_", "_n_features_out"}
_CONFIGURATION = {"_sklearn_output_config", "_metadata_request"}


def _categories_given(step) -> bool:
    # Rare categories are found by counting rows.
    counted = (step.min_frequency, step.max_categories) != (None, None)
    return not isinstance(step.categories, str) and not counted


def _fills_constant(step) -> bool:
    # Columns without any value are dropped, or indicated, by looking at the rows.
    looks_at_rows = not step.keep_empty_features or step.add_indicator
    return step.strategy == "constant" and not looks_at_rows


# Steps of scikit-learn that may learn nothing beyond what their constructor was told:
# the condition under which that is so, and how to reach it.
_FROM_CONSTRUCTOR = {
    "OneHotEncoder": (
        _categories_given,
        "Pass `categories=[...]`, the public list for each column, and leave "
        "`min_frequency` and `max_categories` at None.",
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
    "Replace it by a `FunctionTransformer` that scales with public bounds, such as "
    "`(X - low) / (high - low)`."
)
_SCALERS = {"StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"}
_FIX_BY_NAME = {
    **dict.fromkeys(_SCALERS, _PUBLIC_BOUNDS),
    **{name: fix for name, (_, fix) in _FROM_CONSTRUCTOR.items()},
}
_ANY_FIX = (
    "Replace it by a private step, or by one that learns nothing from this data, such "
    "as a `FunctionTransformer` with public constants."
)
_SEARCH_FIX = "Use `DPGridSearchCV` or `DPRandomizedSearchCV`, which select privately."
_INSIDE_FIX = "Make what its guarantee lists as not covered private, or declare it."


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
        Private: it has a guarantee. Conditional: it has one for readers who regard
        what it read from the data as public. Public: it learnt nothing from the data.
    guarantee : PrivacyGuarantee or None
        Its own guarantee, if it has one.
    assumption : str
        What is assumed of a public step.
    fix : str
        How to cover an uncovered step.
    """

    name: str
    estimator: str
    status: str
    guarantee: PrivacyGuarantee | None = None
    assumption: str = ""
    fix: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} ({self.estimator})" if self.name else self.estimator

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts.

        Returns
        -------
        dict
            The fields by name.
        """
        guarantee = self.guarantee and self.guarantee.to_dict()
        return {**vars(self), "guarantee": guarantee}


@dataclass(frozen=True)
class PrivacyReport:
    """The privacy of a fitted estimator or pipeline, from `privacy_report`.

    Parameters
    ----------
    estimator : str
        Name of its class.
    guarantee : PrivacyGuarantee
        All steps composed; `uncovered` names the steps without a guarantee.
    steps : tuple of StepPrivacy
        In the order of the pipeline.
    """

    estimator: str
    guarantee: PrivacyGuarantee
    steps: tuple[StepPrivacy, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts.

        Returns
        -------
        dict
            The fields by name.
        """
        return {
            "estimator": self.estimator,
            "guarantee": self.guarantee.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
        }

    def to_markdown(self) -> str:
        """Return the report as Markdown.

        Returns
        -------
        str
            Sections with tables.
        """
        header = ["step", "estimator", "status", "epsilon", "delta"]
        rows = [
            [step.name or "-", step.estimator, step.status, *_prices(step)]
            for step in self.steps
        ]
        fixes = [f"- **{step.title}**: {step.fix}" for step in self.steps if step.fix]
        to_do = ["### To cover the whole", "\n".join(fixes)] if fixes else []
        sections = [
            f"## Privacy of {self.estimator}",
            str(self.guarantee),
            *self._covered_phase(),
            markdown_table(header, rows).rstrip(),
            *to_do,
            "### All steps together",
            self.guarantee.to_markdown().rstrip(),
        ]
        return "\n\n".join(sections) + "\n"

    _repr_markdown_ = to_markdown

    def __str__(self) -> str:
        return self.to_markdown()

    def _covered_phase(self) -> list[str]:
        if not (self.guarantee.uncovered and self.guarantee.events):
            return []
        cost = compose_epsilon(self.guarantee.events, self.guarantee.delta)
        return [
            f"The covered steps cost epsilon = {round_up(cost)} at delta = "
            f"{round_up(self.guarantee.delta)}, which counts only once the others are "
            "covered."
        ]


def privacy_report(estimator) -> PrivacyReport:
    r"""Report the privacy of each step of a fitted estimator, and of the whole.

    The steps see the same records, so that their guarantees compose:

    .. math:: M_{\rm pipeline} = M_1 \otimes \dots \otimes M_k .

    .. rubric:: Privacy

    Reads fitted attributes and constructor arguments only; the report may be published.
    A step is *private* if it has a `privacy_` (or is a model of diffprivlib, whose
    `epsilon` is then taken at its word), *public* if it learnt nothing from the data,
    and otherwise *uncovered*, which voids the guarantee of the whole. Public are steps
    that need no fit, that hold nothing beyond their arguments and the names of the
    columns, and on these conditions: `OneHotEncoder` and `OrdinalEncoder` with lists of
    `categories` and no counting of rare ones; `SimpleImputer` with a constant
    `fill_value`, keeping empty columns and without indicator; `SplineTransformer` with
    an array of `knots`; `PolynomialFeatures`; `RBFSampler` with a number as `gamma`.

    Parameters
    ----------
    estimator : estimator
        Fitted. `Pipeline`, `ColumnTransformer`, `FeatureUnion` and `FrozenEstimator`
        are looked into. A grid search of scikit-learn is always uncovered, since it
        selects by scores without noise.

    Returns
    -------
    PrivacyReport
        With `guarantee`, `steps`, `to_markdown()` and `to_dict()`.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    ValueError
        If the steps' neighbouring relations differ.

    See Also
    --------
    PrivacyLedger : The cost of all fits, not of one fitted object.

    Notes
    -----
    Data may only enter through `fit`: constants that were read from the data and passed
    to a constructor cannot be seen here.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures
    >>> from fairpriv_sklearn.privacy import privacy_report
    >>> X = np.array([[0.0], [1.0]])
    >>> report = privacy_report(
    ...     make_pipeline(MinMaxScaler(), PolynomialFeatures()).fit(X)
    ... )
    >>> [(step.name, step.status) for step in report.steps]
    [('minmaxscaler', 'uncovered'), ('polynomialfeatures', 'public')]
    >>> report.guarantee.epsilon
    inf
    """
    check_is_fitted(estimator)
    steps = tuple(_walk(estimator, ""))
    return PrivacyReport(type(estimator).__name__, _composed(steps), steps)


def guarantee_of(estimator) -> PrivacyGuarantee | None:
    """Return the guarantee of a fitted estimator, None if no part of it is private.

    Parameters
    ----------
    estimator : estimator
        Looked into as by `privacy_report`.

    Returns
    -------
    PrivacyGuarantee or None
        Of all steps composed.
    """
    steps = tuple(_walk(estimator, ""))
    private = any(step.guarantee is not None for step in steps)
    return _composed(steps) if private else None


def _walk(estimator, name: str) -> Iterator[StepPrivacy]:
    """Yield the steps of an estimator, nested ones in the notation of `set_params`."""
    if estimator is None or isinstance(estimator, str):  # "passthrough", "drop"
        return
    own = _own_guarantee(estimator)
    if own is not None:
        yield _private_step(estimator, name, own)
    elif isinstance(estimator, FrozenEstimator):
        yield from _walk(estimator.estimator, name)
    elif (inner := _inner_steps(estimator)) is not None:
        for step_name, step in inner:
            yield from _walk(step, f"{name}__{step_name}" if name else step_name)
    elif hasattr(estimator, "cv_results_"):
        yield from _search_steps(estimator, name)
    else:
        yield _plain_step(estimator, name)


def _inner_steps(estimator) -> list[tuple[str, Any]] | None:
    if isinstance(estimator, Pipeline):
        return estimator.steps
    if isinstance(estimator, FeatureUnion):
        return estimator.transformer_list
    if isinstance(estimator, ColumnTransformer):
        return [(name, step) for name, step, _ in estimator.transformers_]
    return None


def _own_guarantee(estimator) -> PrivacyGuarantee | None:
    own = getattr(estimator, "privacy_", None)
    if isinstance(own, PrivacyGuarantee):
        return own
    if type(estimator).__module__.partition(".")[0] == "diffprivlib":
        return _diffprivlib_guarantee(estimator)
    return None


def _diffprivlib_guarantee(model) -> PrivacyGuarantee:
    name = type(model).__name__
    return PrivacyGuarantee(
        model.epsilon,
        0.0,
        "replace_one",
        f"diffprivlib {name}",
        events=(PureEvent(model.epsilon),),
        assumptions=(
            f"diffprivlib's own statement of epsilon for {name}",
            f"bounds and norms of diffprivlib's {name} not read from the data",
        ),
        noise_is_secure=model.random_state is None,
    )


def _private_step(estimator, name: str, own: PrivacyGuarantee) -> StepPrivacy:
    status, fix = "private", ""
    if own.uncovered:
        status, fix = "uncovered", _INSIDE_FIX
    elif own.conditional_on:
        names = ", ".join(own.conditional_on)
        status = "conditional"
        fix = f"Pass what it read from the data ({names}) as arguments."
    return StepPrivacy(name, type(estimator).__name__, status, own, fix=fix)


def _search_steps(search, name: str) -> Iterator[StepPrivacy]:
    yield StepPrivacy(name, type(search).__name__, "uncovered", fix=_SEARCH_FIX)
    if hasattr(search, "best_estimator_"):
        inner = f"{name}__estimator" if name else "estimator"
        yield from _walk(search.best_estimator_, inner)


def _plain_step(estimator, name: str) -> StepPrivacy:
    kind = type(estimator).__name__
    if _learns_nothing(estimator):
        custom = isinstance(estimator, FunctionTransformer) and estimator.func
        assumption = "works on each row on its own" if custom else ""
        return StepPrivacy(name, kind, "public", assumption=assumption)
    return StepPrivacy(name, kind, "uncovered", fix=_FIX_BY_NAME.get(kind, _ANY_FIX))


def _learns_nothing(estimator) -> bool:
    kind = type(estimator)
    if not hasattr(estimator, "fit") or not get_tags(estimator).requires_fit:
        return True
    if kind.__module__.startswith("sklearn.") and kind.__name__ in _FROM_CONSTRUCTOR:
        return _FROM_CONSTRUCTOR[kind.__name__][0](estimator)
    # Any attribute that is no argument counts, whatever its name: many an estimator
    # keeps what it learnt under a leading underscore.
    arguments = estimator.get_params(deep=False) if hasattr(kind, "get_params") else ()
    return set(vars(estimator)) <= {*arguments, *_SCHEMA, *_CONFIGURATION}


def _composed(steps: tuple[StepPrivacy, ...]) -> PrivacyGuarantee:
    private = [_with_place(step) for step in steps if step.guarantee is not None]
    if private:
        total = private[0].compose(*private[1:])
    else:
        total = PrivacyGuarantee(0.0, 0.0, "replace_one", "nothing released privately")
    assumed = tuple(f"{one.title} {one.assumption}" for one in steps if one.assumption)
    bare = [one for one in steps if one.status == "uncovered" and not one.guarantee]
    uncovered = (*total.uncovered, *(step.title for step in bare))
    return total.qualified(assumptions=assumed, uncovered=uncovered)


def _with_place(step: StepPrivacy) -> PrivacyGuarantee:
    """Return the guarantee of a step, saying where its uncovered parts are."""
    own = step.guarantee
    if not step.name:
        return own
    return replace(own, uncovered=tuple(f"{step.name}: {one}" for one in own.uncovered))


def _prices(step: StepPrivacy) -> tuple[str, str]:
    if step.guarantee is None:
        return ("inf", "-") if step.status == "uncovered" else ("0", "0")
    return round_up(step.guarantee.epsilon), round_up(step.guarantee.delta)
