"""What speaks against a fit, said before its first step spends."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.base import (
    BaseEstimator,
    OneToOneFeatureMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    ParameterGrid,
    ParameterSampler,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_array, get_tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..._shared import nested
from ..._shared.arguments import InBatches, comes_in_parts, refuse_batches
from ..._shared.domain import (
    check_columns,
    check_given,
    domain,
    refuse_mixed,
    refuse_no_numbers,
    refuse_unlabelled,
    same_length,
)
from ..._shared.guarded import WrappedEstimatorError, fit_to_made_up, fit_wrapped
from ..._shared.nested import last_step
from ..._shared.sklearn import (
    alias_of_groups,
    asks_for,
    gives_frames,
    refuse_composition,
    routing_enabled,
)
from .._composed import composed
from .._facts import leaks_foreseen
from .._ledger import PrivacyLedger
from ._costs import (
    is_encoder,
    is_search,
    kind_of,
    private_steps,
    tells_constants,
)

# What fits one step several times: how often may depend on the data.
COPIES = """AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor
    CalibratedClassifierCV ClassifierChain GridSearchCV HalvingGridSearchCV
    HalvingRandomSearchCV IterativeImputer MultiOutputClassifier MultiOutputRegressor
    OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier RANSACRegressor RFE
    RFECV RandomizedSearchCV RegressorChain SelfTrainingClassifier
    SequentialFeatureSelector StackingClassifier StackingRegressor
    TunedThresholdClassifierCV""".split()


def refuse_copies(estimator, steps) -> None:
    for path, owner in nested.owners(estimator).items():
        name = type(owner).__name__
        if name in COPIES and any(nested.is_inside(step, path) for step in steps):
            raise ValueError(
                f"{name} fits its estimator several times, and each fit costs: give "
                "one of them its part of the budget, and add up by privacy_report."
            )


def refuse_mistakes(pipeline, X, y, params) -> None:
    """Refuse what would speak against a fit of the steps, before the first one."""
    if pipeline.memory is not None:
        raise ValueError(
            "A pipeline of one budget takes memory=None: whether a step comes from "
            "the cache tells whether the rows are those of an earlier fit."
        )
    in_parts = comes_in_parts(X)
    _refuse_batches(pipeline, X)
    check_columns(X, y, *params.values())
    _refuse_sample_weights(X, params)
    for owner in nested.owners(pipeline, nested.is_frozen).values():
        refuse_arguments(owner)
    steps = private_steps(pipeline)
    last = _reader_of_target(pipeline)
    refuse_together(last)
    refuse_target(last, X, y)
    for step in (*steps.values(), last):
        if hasattr(type(step), "_refuse_cells_of"):
            step._refuse_cells_of(pipeline, X)
            break  # it looks at the cells for all
    # Where routing is on, sensitive features may have any name.
    names = [name for name, value in params.items() if value is not None]
    routed = routing_enabled() and names
    of_last = None
    for path, step in steps.items():
        if len(steps) > 1 and hasattr(type(step), "_refuse_journal"):
            step._refuse_journal()
        if hasattr(type(step), "_check_arguments"):
            step._check_arguments()
        if hasattr(type(step), "_refuse_small_budget"):
            step._refuse_small_budget()
        if not hasattr(type(step), "_refuse_without_groups"):
            continue
        groups = params.get(f"{path}__sensitive_features")
        is_handed = routed and asks_for(step, "fit", names)
        alias = alias_of_groups(step)
        if is_handed and asks_for(step, "fit", [alias]):
            groups = params.get(alias)
        of_last = groups if step is last else None
        if groups is not None:
            step._refuse_groups(X, groups)
        elif not is_handed and not _holds_groups(X):
            step._refuse_without_groups()
    _refuse_keywords(pipeline, params)
    n_records, n_columns = (*getattr(X, "shape", ()), None, None)[:2]
    refuse_widths(pipeline, n_columns if isinstance(n_columns, Integral) else None)
    refuse_without_room(_with_room_to_learn(pipeline, n_records))
    if not in_parts:
        with leaks_foreseen():
            rehearse(pipeline, y)
    elif len(steps) > 1 and hasattr(type(last), "_refuse_parts"):
        last._refuse_parts(X, y, of_last)


def refuse_arguments(estimator) -> None:
    """Refuse arguments of an estimator, or names of its steps, wrong for any table."""
    # Estimators of others need not have constraints.
    if isinstance(estimator, BaseEstimator) and hasattr(
        type(estimator), "_parameter_constraints"
    ):
        estimator._validate_params()
    if nested.is_frozen(estimator):
        check_is_fitted(estimator)
    refuse_composition(estimator)
    if type(estimator).__module__.startswith("sklearn."):
        _refuse_prefit(estimator)
    if type(estimator).__module__.startswith("sklearn.model_selection."):
        _refuse_candidates(estimator)


def _refuse_prefit(estimator) -> None:
    """Refuse what takes its models as fitted: a fit is one of copies, which are not."""
    cv = getattr(estimator, "cv", None)  # folds may be an array
    if not (isinstance(cv, str) and cv == "prefit") or nested.is_frozen(estimator):
        return
    given = [
        one
        for name, one in estimator.get_params().items()
        if hasattr(one, "fit") and "__" not in name and name != "final_estimator"
    ]
    if getattr(estimator, "refit", False) or not all(map(nested.is_frozen, given)):
        name = type(estimator).__name__
        also = ", with refit=False" * hasattr(estimator, "refit")
        raise ValueError(
            f'{name}(cv="prefit") takes fitted models, and copies are not: give it '
            f"FrozenEstimator(fitted_model){also}."
        )


def _refuse_candidates(search) -> None:
    """Refuse a search that names other arguments, or of which no candidate is valid.

    Of those that are drawn one tells their names; another may be valid where it is not.
    """
    is_grid = hasattr(search, "param_grid")
    if is_grid:
        listed = ParameterGrid(search.param_grid)
    elif hasattr(search, "param_distributions"):
        listed = ParameterSampler(search.param_distributions, 1, random_state=0)
    else:
        return
    errors: list[Exception | None] = []
    for params in listed:
        one = clone(search.estimator).set_params(**clone(params, safe=False))
        try:
            for owner in nested.owners(one, nested.is_frozen).values():
                refuse_arguments(owner)
            errors.append(None)
        except (TypeError, ValueError) as error:
            errors.append(error)
    if is_grid and errors and errors[0] is not None and all(errors):
        raise errors[0]


def _refuse_sample_weights(X, params) -> None:
    for path, given in params.items():
        if path.endswith("__sample_weight") and np.ndim(given):
            same_length(X, given)
            with domain("sample_weight"):
                options = {"ensure_2d": False, "dtype": np.float64}
                given = check_array(given, input_name="sample_weight", **options)
            if given.ndim > 1 or not given.any():
                raise ValueError(
                    "sample_weight must hold one number for each row, and not only "
                    "zeros."
                )


def _refuse_batches(pipeline, X) -> None:
    """Refuse `Batches` that a step would, which reads whole tables."""
    for _, step in pipeline.steps:
        theirs = type(step).__module__.startswith("sklearn.")
        if isinstance(step, Pipeline):
            _refuse_batches(step, X)
        elif not isinstance(step, FrozenEstimator | FunctionTransformer):
            if theirs or getattr(type(step), "_reads_batches", None) is False:
                refuse_batches(X, type(step).__name__)


def _holds_groups(X) -> bool:
    """Whether X is `Batches` that come with sensitive features."""
    return isinstance(X, InBatches) and X._first()[2] is not None


def _refuse_keywords(pipeline, params) -> None:
    """Refuse keywords that a later step would, when those before have spent.

    Where routing is on that is what it hands them: a router says that it takes what is
    inside of it does.
    """
    steps = dict(pipeline.steps)
    if routing_enabled():
        routed = process_routing(pipeline, "fit", **params)
        calls = (
            (name, call) for name in steps for call in routed.get(name, {}).items()
        )
        params = {
            f"{name}__{keyword}": value
            for name, (method, given) in calls
            for keyword, value in given.items()
            if method.startswith("fit")
        }
    for path in params:
        name, _, keyword = path.partition("__")
        if keyword and name in steps and not _takes(steps[name], keyword):
            raise TypeError(
                f"{type(steps[name]).__name__} takes no {keyword} in fit, which is "
                f"passed as {path}: leave it out."
            )


def _takes(step, keyword: str) -> bool:
    """Whether a keyword may be passed to the `fit` of a step."""
    known = keywords_of(step)
    return keyword in known or any(p.kind is p.VAR_KEYWORD for p in known.values())


def keywords_of(step) -> Mapping[str, inspect.Parameter]:
    """What the `fit` of a step knows by name."""
    fit = getattr(step, "fit", None)  # "passthrough" has none
    return {} if fit is None else inspect.signature(fit).parameters


def _reader_of_target(estimator):
    """What is handed the target as it is."""
    while isinstance(estimator, Pipeline | FixedThresholdClassifier):
        is_last = not isinstance(estimator, Pipeline)
        estimator = estimator.estimator if is_last else estimator.steps[-1][1]
    return estimator


def refuse_target(estimator, X, y) -> None:
    """Refuse a target that a fit of an estimator would."""
    last = _reader_of_target(estimator)
    # Asked of the class: a frozen step hands on the attributes of what it holds.
    if hasattr(type(last), "_refuse_target"):
        last._refuse_target(X, y)
    elif not comes_in_parts(X):
        _refuse_target(last, X, y)


def _refuse_target(model, X, y) -> None:
    """Refuse a target that a model of scikit-learn would, and quote a cell of it."""
    frozen = isinstance(model, FrozenEstimator)
    theirs = type(model).__module__.startswith("sklearn.") and not frozen
    if not theirs or not (is_classifier(model) or is_regressor(model)):
        return
    check_given(model, y)
    same_length(X, y)
    with domain("y"):
        n_axes = np.ndim(y)
    refuse_one_target(model, n_axes)
    if is_regressor(model):
        refuse_no_numbers(model, y)
        return
    refuse_unlabelled(y)
    with domain("y", own_words=True):
        refuse_mixed("y", y)
        check_classification_targets(y)
        tags = get_tags(model)
        if not (tags.target_tags.multi_output or tags.classifier_tags.multi_label):
            column_or_1d(y)
        n_labels = len(np.unique(np.asarray(y))) if np.ndim(y) == 1 else None
    if n_labels is not None:
        refuse_together(model, n_labels)
    if n_labels == 1 and not private_steps(model):
        with suppress(WrappedEstimatorError):
            fit_wrapped(clone(model), np.arange(40.0).reshape(20, 2), np.zeros(20))
            return
        raise ValueError(
            f"y holds one label only, and {type(model).__name__} takes no such target: "
            "two are needed."
        )


def refuse_one_target(model, n_axes: int = 1) -> None:
    """Refuse a model of several targets where there is one."""
    if n_axes == 1 and not get_tags(model).target_tags.single_output:
        raise ValueError(
            f"{type(model).__name__} takes several targets, and here there is one: "
            "pass the estimator that it wraps."
        )


def refuse_together(model, n_labels: int = 2) -> None:
    """Refuse arguments of a model of scikit-learn that do not go together.

    Such as a penalty that the solver of a linear one does not take, or more labels,
    which only a fit finds out: here one to rows that are made up. What depends on how
    many rows and columns there are is not known before.
    """
    if re.match(r"sklearn\.ensemble\._(forest|bagging)", type(model).__module__):
        _refuse_samples(model)
    if not re.match(
        r"sklearn\.(linear_model|neural_network|svm)\.", type(model).__module__
    ):
        return  # "passthrough" has no parameters
    params = model.get_params()
    chooses = params.keys() & {"loss", "penalty", "solver"}
    # Folds may need more rows, several targets have a penalty each, and what is inside
    # of it may be anything.
    is_known = not (params.keys() & {"cv", "estimator"} or np.ndim(params.get("alpha")))
    if not (chooses and is_known and _predicts(model)):
        return
    y = np.arange(1, 21) % (2 + (n_labels > 2)) + is_regressor(model)
    _refuse_made_up(model, _made_up(20, 2), y)


# What takes a table by its number of columns, whatever the cells; and what names it.
_BY_WIDTH = re.compile(
    r"sklearn\.(decomposition\._(pca|truncated_svd)|ensemble\._hist|tree)"
)
_OF_COLUMNS = "categorical_features", "monotonic_cst", "n_components"
_WIDEST = 500  # columns, of which a fit takes no time to speak of


def _refuse_columns(step, n_columns: int) -> None:
    """Refuse a step of scikit-learn that takes no such number of columns.

    Such as one with more components, or a list with an entry for each of others.
    """
    if not _BY_WIDTH.match(type(step).__module__) or n_columns > _WIDEST:
        return
    params = step.get_params(deep=False)
    asked = (np.asarray(params[name]) for name in _OF_COLUMNS if name in params)
    # Names are those of a frame, and a share of the variance is of any width.
    if any(one.dtype.kind in "biu" for one in asked):
        # As categories, too, these are few.
        X = _made_up(n_columns + 20, n_columns).round()
        _refuse_made_up(step, X, np.arange(1, len(X) + 1) % 2 + is_regressor(step))


def _made_up(n_rows: int, n_columns: int) -> np.ndarray:
    """Cells between 0 and 1, in no order that anybody would see."""
    waves = 1e4 * np.sin(np.arange(1.0, n_rows * n_columns + 1))
    return np.abs(np.modf(waves)[0]).reshape(n_rows, n_columns)


def _refuse_made_up(estimator, X, y) -> None:
    """Refuse an estimator that takes none of what is made up, and say what it says."""
    # Of so few rows a share, to stop by, may be none.
    settings = {"class_weight": None, "early_stopping": False, "random_state": 0}
    # More rounds take their time, or diverge on rows that are not the user's.
    if re.match("Hist|MLP", type(estimator).__name__):
        settings["max_iter"] = 1
    known = estimator.get_params()
    settings = {k: v for k, v in {**settings, "verbose": 0}.items() if k in known}
    try:
        fit_to_made_up(clone(estimator).set_params(**settings), X, y)
        return
    except Exception as error:
        said = str(error)
    raise ValueError(f"{type(estimator).__name__}: {said}")


def _refuse_samples(several) -> None:
    is_forest = hasattr(several, "criterion")  # bagging draws without it as well
    is_asked = several.oob_score or (is_forest and several.max_samples is not None)
    if is_asked and not several.bootstrap:
        raise ValueError(
            f"{type(several).__name__} with bootstrap=False leaves no rows out: it "
            f"takes no oob_score{' nor max_samples' * is_forest}."
        )


# What hands a target, or something made of it, on to models that it fits once each.
_HAND_ON = """FixedThresholdClassifier TransformedTargetRegressor VotingClassifier
    VotingRegressor""".split()


# What fits models to parts of a table, with labels as they are.
_HAND_ON_LABELS = "AdaBoostClassifier CalibratedClassifierCV TunedThresholdClassifierCV"
_STACK = "StackingClassifier", "StackingRegressor"


def _handed_on(estimator) -> dict[str, BaseEstimator] | None:
    """Models that one of scikit-learn's hands its table and target on to, by name."""
    theirs = type(estimator).__module__.startswith("sklearn.")
    if not theirs or type(estimator).__name__ not in _HAND_ON:
        return None
    params = estimator.get_params().items()
    return {name: one for name, one in params if "__" not in name and _predicts(one)}


def _hands_table_to(estimator) -> list[BaseEstimator]:
    """Models that one of scikit-learn's hands its table to, with all its columns."""
    names = [*_HAND_ON, *_HAND_ON_LABELS.split(), *_STACK]
    theirs = type(estimator).__module__.startswith("sklearn.")
    if not theirs or type(estimator).__name__ not in names:
        return []
    params = estimator.get_params().items()
    inside = {k: one for k, one in params if "__" not in k and _predicts(one)}
    inside.pop("final_estimator", None)  # it reads what the others answer
    return [*inside.values()]


def _refuse_fitted_to_others(model, n_columns: int) -> None:
    """Refuse a fitted model, inside another one, of another number of columns."""
    # It may choose among columns that have names; ours take some or all of them.
    if not isinstance(model, FrozenEstimator) or not _predicts(model.estimator):
        return
    fitted_to = getattr(model, "n_features_in_", n_columns)
    named = hasattr(model, "feature_names_in_") or private_steps(model.estimator)
    if fitted_to != n_columns and not named:
        raise ValueError(
            f"{type(model.estimator).__name__} was fitted to {fitted_to} columns, and "
            f"is handed {n_columns} here."
        )


def rehearse(estimator, y) -> None:
    """Refuse a target that what stands around a model would not hand on.

    Such as logarithms, numbers in the place of labels, or three labels at a threshold:
    those that the model lists, as which of them occur is nobody's business.
    """
    estimator = last_step(estimator)
    kind = type(estimator)
    theirs = kind.__module__.startswith("sklearn.") and kind is not FrozenEstimator
    if theirs and is_classifier(estimator):
        labels = np.asarray(y)
        with domain("y"):
            check_classification_targets(labels)  # numbers between integers are none
        _refuse_weights(estimator, labels)
        if kind.__name__ in _HAND_ON_LABELS.split():
            rehearse(estimator.estimator, y)
    elif _predicts(estimator) and is_classifier(estimator):
        if kind is not FrozenEstimator and not private_steps(estimator):
            _refuse_labels(estimator, np.asarray(y))
    if "base_guarantee" in getattr(kind, "_parameter_constraints", ()):
        given = getattr(estimator, "classes", None)
        rehearse(estimator.estimator, y if given is None else np.asarray(given))
    handed_on = _handed_on(estimator)
    if handed_on is not None:
        models = {name: _StandIn(model) for name, model in handed_on.items()}
        model = last_step(getattr(estimator, "estimator", None))
        listed = getattr(model, "classes", None)
        y = y if listed is None else np.asarray(listed)
        label = getattr(estimator, "pos_label", None)
        if listed is not None and label is not None and label not in list(listed):
            raise ValueError(
                f"pos_label of {kind.__name__} must be one of {list(listed)}, got "
                f"{label!r}."
            )
        rehearsal = clone(estimator).set_params(**models)
        fit_wrapped(rehearsal, np.zeros((len(y), 1)), y)


def _refuse_weights(model, labels) -> None:
    """Refuse weights of other labels than there are."""
    weights = getattr(model, "class_weight", None)
    # Boosted trees are told numbers for labels.
    is_plain = not type(model).__name__.startswith("Hist")
    if isinstance(weights, Mapping) and is_plain and labels.ndim == 1:
        with suppress(ValueError):
            compute_class_weight(weights, classes=np.unique(labels), y=labels)
            return
        raise ValueError(
            f"class_weight of {type(model).__name__} names labels that y does not have "
            "(1 is not '1')."
        )


def _refuse_labels(model, labels) -> None:
    """Refuse labels where a model of another package takes numbers from 0 on only.

    Rows that are made up tell.
    """
    with suppress(TypeError):  # of several kinds, which have no order
        labels = np.unique(labels)
        codes = np.arange(10 * len(labels)) % len(labels)
        known = labels.tolist() == np.unique(codes).tolist()
        if known or not _fits(model, codes) or _fits(model, labels[codes]):
            return
        raise ValueError(
            f"{type(model).__name__} takes no labels but the numbers from 0 to "
            f"{len(labels) - 1}: encode its labels so, in the public list too."
        )


def _fits(model, y) -> bool:
    """Whether a copy of a model fits rows that are made up."""
    with suppress(Exception):
        X = (0.618 * np.arange(2 * len(y)) % 1).reshape(-1, 2)
        fit_to_made_up(clone(model), X, y)
        return True
    return False


def _predicts(value) -> bool:
    is_one = isinstance(value, BaseEstimator)
    return is_one and (is_classifier(value) or is_regressor(value))


class _StandIn(BaseEstimator):
    """In the place of a model: it looks at its target, and learns nothing."""

    def __init__(self, model) -> None:
        self.model = model

    def fit(self, X, y):
        refuse_target(self.model, X, y)
        rehearse(self.model, y)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X))

    predict_proba = decision_function = predict

    def __sklearn_tags__(self):
        return get_tags(self.model)


_SIDE_BY_SIDE = (FeatureUnion, ColumnTransformer)


def refuse_widths(estimator, n_columns: int | None, *, learnt=False) -> None:
    """Refuse bounds that are not for the columns which a step will be handed.

    And a fitted model that was fitted to others.

    Parameters
    ----------
    estimator : estimator
        Not fitted; of a pipeline all steps are asked.
    n_columns : int or None
        Of the table that it is handed, if known.
    learnt : {False, "array", "frame"}, default=False
        Whether a private encoder will choose the columns, and as what it comes.
    """
    if not isinstance(estimator, Pipeline):
        if learnt == "array" and type(estimator) is ColumnTransformer:
            _refuse_names(estimator)
        if learnt and isinstance(estimator, _SIDE_BY_SIDE):
            is_union = isinstance(estimator, FeatureUnion)
            kept = "transformer_list" if is_union else "transformers"
            for _, one, *_ in getattr(estimator, kept):
                if isinstance(one, (Pipeline, *_SIDE_BY_SIDE)):
                    refuse_widths(one, None, learnt=learnt)
        for model in _hands_table_to(estimator):
            refuse_widths(model, n_columns, learnt=learnt)
        if n_columns is not None:
            _refuse_columns(estimator, n_columns)
            _refuse_fitted_to_others(estimator, n_columns)
        if learnt and isinstance(estimator, FrozenEstimator) and _predicts(estimator):
            name = type(estimator.estimator).__name__
            raise ValueError(
                f"{name} is fitted already and stands behind an encoder that learns "
                "its columns anew: they are not those that it was fitted to. Freeze "
                "both, as in FrozenEstimator(fitted_pipeline), or fit both here."
            )
        if hasattr(type(estimator), "_refuse_width"):
            estimator._refuse_width(n_columns, learnt)
        return
    for _, step in estimator.steps[:-1]:
        if type(step).__module__.startswith("sklearn.cross_decomposition."):
            raise ValueError(
                f"{type(step).__name__} hands on two tables in a pipeline, of X and of "
                "y, which no step takes: choose another one, such as PCA."
            )
    for _, step in estimator.steps:
        refuse_widths(step, n_columns, learnt=learnt)
        learnt = _learnt_behind(step, learnt)
        if hasattr(step, "fit") and not isinstance(step, OneToOneFeatureMixin):
            n_columns = None


def _learnt_behind(step, handed):
    """`learnt` of what a step hands on."""
    if isinstance(step, Pipeline):
        for _, one in step.steps:
            handed = _learnt_behind(one, handed)
        return handed
    if not hasattr(step, "fit"):
        return handed
    is_fitted = isinstance(step, FrozenEstimator)  # its columns are known
    learns = is_encoder(step) and not (is_fitted or step._needs_nothing())
    if not (learns or handed):
        return False
    return "array" if _gives_array(step, handed) else "frame"


def _gives_array(step, handed) -> bool:
    """Whether a private encoder, or what stands behind it, surely gives no names."""
    if gives_frames(step):
        return False
    if is_encoder(step):
        return step._gives_codes
    if type(step) in _SIDE_BY_SIDE:
        return True
    theirs = type(step).__module__.startswith("sklearn.")
    other = isinstance(step, Pipeline | FrozenEstimator | FunctionTransformer)
    return handed == "array" and theirs and not other


def _refuse_names(columns: ColumnTransformer) -> None:
    for _, _, chosen in columns.transformers:
        if isinstance(chosen, slice):
            chosen = [chosen.start, chosen.stop]
        if any(isinstance(one, str) for one in np.ravel(np.array(chosen, object))):
            raise ValueError(
                "A ColumnTransformer names columns and stands behind an encoder that "
                'hands on an array, without names: set_output(transform="pandas") on '
                "the steps before it, or choose by position."
            )


def _with_room_to_learn(pipeline, n_records):
    """A clone whose models say what they spend if they have so many records.

    What a repair wraps may see fewer of them, and says what it spends at most.
    """
    pipeline = clone(pipeline)
    steps = private_steps(pipeline)
    alone = [steps[path] for path in nested.outermost(steps)]
    models = [step for step in alone if tells_constants(step)]
    known = isinstance(n_records, Integral)
    if known and not any(step._has_few_records(n_records) for step in models):
        for step in alone:
            if hasattr(step, "min_records"):
                step.set_params(min_records=None)
    return pipeline


def refuse_without_room(*estimators, beside=None) -> None:
    """Ask each ledger for what steps will spend together, at most, before one does.

    Parameters
    ----------
    *estimators : estimator
        Not fitted.
    beside : tuple (ledger, guarantee), default=None
        What else will be spent, and where.
    """
    ledgers: dict = {}
    for one in (one for estimator in estimators for one in _payers(estimator)):
        ledgers.setdefault(one.estimator.ledger, []).append(one)
    for ledger, theirs in ledgers.items():
        asked = composed(iter(theirs), planned=True)
        if beside is not None and beside[0] is ledger:
            asked = beside[1].compose(asked)
        ledger._refuse_beyond(asked)


def _payers(estimator, name: str = "") -> Iterator:
    """Steps that pay from our ledger, and what each of them pays.

    A repair pays for its own releases, what it wraps for itself. What is only declared
    before the fit may cost less than that at the ledger's delta.
    """
    from .._walk import own_releases, walk, wrapped_models  # which know its pipeline

    for one in walk(estimator, name, fitted=False):
        step = one.estimator
        if one.frozen or one.step.guarantee is None:
            continue
        params = step.get_params(deep=True).items()
        if any(k.endswith("__ledger") and v is not None for k, v in params):
            if is_search(step):
                continue
            for argument, model, _ in wrapped_models(step):
                yield from _payers(model, nested.argument_of(one.step.name, argument))
            one = replace(one, step=replace(one.step, guarantee=own_releases(step)))
        known = is_search(step) or kind_of(step) != "declared"
        if known and isinstance(getattr(step, "ledger", None), PrivacyLedger):
            yield one
