"""Estimators of scikit-learn made of others: which, and why some are not covered."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from .._shared.sklearn import has_weights
from ._plain_step import inverse_refusal, is_scikit_learns, works_by_row

SPARSE_FIX = (
    "Pass `sparse_threshold=0`: whether its output is sparse depends on the rows."
)
_FOLDS = "the models of its folds are not accounted for"
_CHAIN_FIX = f"Pass `cv=None`: {_FOLDS}."
_PREFIT_FIX = (
    'Pass `cv="prefit"` and private models fitted elsewhere, each in a '
    f"FrozenEstimator: {_FOLDS}."
)
_INDICATOR_FIX = (
    "Use a `MultiOutputClassifier`: for a label in which all rows agree no model is "
    "fitted here."
)
_COLUMNS_FIX = "List the columns by name or position; a callable looks at the rows."


def _numbered(meta) -> list[tuple[str, Any]]:
    return [(f"estimators_{i}", one) for i, one in enumerate(meta.estimators_)]


@dataclass(frozen=True)
class _Meta:
    """How an estimator of scikit-learn that is made of others fits them."""

    # -> list of (name, fitted estimator), each fitted on all rows
    fitted: Callable = _numbered
    planned: Callable | None = None  # -> the same before the fit, if that is known
    refusal: Callable = lambda estimator: ""  # why it is not covered, if so
    keeps_count: bool = False  # whether the number of rows is kept


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
    return ""


def _stacked(stack) -> list[tuple[str, Any]]:
    models = [(name, FrozenEstimator(one)) for name, one in _fitted_voters(stack)]
    return [*models, ("final_estimator", stack.final_estimator_)]


# What the last of their parts is fitted on are answers of the others, given after these
# were fitted: a `fit_transform` of ours gives twins one answer, a `transform` need not.
FEED_THE_LAST = (
    "StackingRegressor",
    "StackingClassifier",
    "TransformedTargetRegressor",
)
# These read the list of classes from the data.
READ_CLASSES = """VotingClassifier OneVsRestClassifier BaggingClassifier
    StackingClassifier""".split()
_VOTING = _Meta(_fitted_voters, lambda one: _kept(one.estimators))
_BAGGING = _Meta(planned=_bags, refusal=_bagging_refusal, keeps_count=True)
_STACKING = _Meta(
    _stacked, refusal=lambda one: "" if one.cv == "prefit" else _PREFIT_FIX
)
_METAS = {
    **dict.fromkeys(("VotingRegressor", "VotingClassifier"), _VOTING),
    **dict.fromkeys(("BaggingRegressor", "BaggingClassifier"), _BAGGING),
    **dict.fromkeys(FEED_THE_LAST, _STACKING),
    "OneVsRestClassifier": _Meta(
        refusal=lambda one: getattr(one, "multilabel_", False) and _INDICATOR_FIX
    ),
    **dict.fromkeys(("MultiOutputRegressor", "MultiOutputClassifier"), _Meta()),
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
        refusal=inverse_refusal,
    ),
    "FixedThresholdClassifier": _Meta(
        lambda one: [("estimator", one.estimator_)],
        lambda one: [("estimator", one.estimator)],
    ),
    "CalibratedClassifierCV": _Meta(
        refusal=lambda one: "Its calibration is fitted without noise: leave it out."
    ),
}


def meta_of(estimator) -> _Meta | None:
    kind = type(estimator).__name__
    return _METAS.get(kind) if is_scikit_learns(estimator) else None


def parts_of(estimator, fitted: bool) -> list[tuple[str, Any]] | None:
    """The estimators inside of one made of others; None if it is none."""
    if isinstance(estimator, Pipeline):
        return estimator.steps
    if isinstance(estimator, FeatureUnion):
        return estimator.transformer_list
    if isinstance(estimator, ColumnTransformer):
        if fitted:
            return [(name, step) for name, step, _ in estimator.transformers_]
        inner = [(name, step) for name, step, _ in estimator.transformers]
        return [*inner, ("remainder", estimator.remainder)]
    meta = meta_of(estimator)
    inside = meta and (meta.fitted if fitted else meta.planned)
    parts = inside(estimator) if inside else [("", None)]
    # A model that is not given is one of scikit-learn's, which learns.
    return None if any(one is None for _, one in parts) else parts


def column_problems(columns: ColumnTransformer, fitted: bool) -> Iterator[str]:
    if any(callable(chosen) for _, _, chosen in columns.transformers):
        yield _COLUMNS_FIX
    steps = parts_of(columns, fitted)
    if columns.sparse_threshold > 0 and any(_density_varies(step) for _, step in steps):
        yield SPARSE_FIX


def _density_varies(step) -> bool:
    """Whether a step may give sparse output whose density depends on the rows."""
    if isinstance(step, Pipeline):  # the last may hand on what those before it give
        return any(_density_varies(one) for _, one in step.steps)
    if isinstance(step, FeatureUnion):
        return any(_density_varies(one) for _, one in step.transformer_list)
    if isinstance(step, FrozenEstimator):
        return _density_varies(step.estimator)
    if type(step).__name__ == "OneHotEncoder" and step.sparse_output:
        # Without exceptions every row has exactly one 1 for each column.
        return not (step.drop is None and step.handle_unknown == "error")
    if isinstance(step, FunctionTransformer):
        return not works_by_row(step.func)
    hashes = type(step).__name__ in ("FeatureHasher", "HashingVectorizer")
    return hashes or bool(getattr(step, "sparse_output", False))
