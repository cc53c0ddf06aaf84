"""What an estimator is made of, and whether the arguments of all that are right."""

from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .._shared.nested import is_frozen, last_step, owners
from .._wall import (
    refuse_arguments,
    refuse_one_target,
    refuse_together,
    refuse_widths,
)
from .estimator import DPEstimator
from .groups import named_positions
from .labels import public_classes


def check_arguments(
    estimator, n_columns: int | None, n_labels: int = 2, *, named: bool = True
) -> None:
    """Refuse arguments, nested ones too, that are wrong for any table of this width.

    Or of any, without one; and columns that are named where the table names none.

    For who fits others, before anything is spent.
    """
    check_nested_arguments(estimator)
    first = first_step(estimator)
    if not named and n_columns is not None and isinstance(first, DPEstimator):
        named_positions(getattr(first, "sensitive_features", None), n_columns)
    last = last_step(estimator)
    if isinstance(last, BaseEstimator):
        refuse_together(last, n_labels)
        refuse_one_target(last)
    if isinstance(last, DPEstimator):
        last._refuse_outputs(1)
    refuse_widths(estimator, n_columns)


def check_nested_arguments(estimator) -> None:
    """Refuse arguments, nested ones too, that are wrong for any table."""
    for owner in owners(estimator, is_frozen).values():
        if isinstance(owner, DPEstimator):
            owner._check_arguments()
        elif isinstance(owner, BaseEstimator):
            refuse_arguments(owner)
            _refuse_labels_as_numbers(owner)


def label_lists(estimator) -> list[list]:
    """Lists of labels of the private models inside that are handed labels as they are.

    Those without a list of their own get that of whoever fits them.
    """
    last = last_step(estimator)
    inside = models_inside(last) if is_scikit_learns_model(last) else []
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
    if kind not in _NUMBER_LABELS or not is_scikit_learns_model(estimator) or prefit:
        return
    for model in map(last_step, models_inside(estimator)):
        listed = getattr(model, "classes", None)
        if not isinstance(model, DPEstimator) or listed is None:
            continue
        if not {0, 1} <= set(public_classes(listed, 1).tolist()):
            raise ValueError(
                f"{kind} hands on numbers for labels: in the {type(model).__name__} in "
                "it list classes=[0, 1, ...]."
            )


def is_scikit_learns_model(estimator) -> bool:
    ours = not isinstance(estimator, FrozenEstimator)
    theirs = type(estimator).__module__.startswith("sklearn.")
    return ours and theirs and (is_classifier(estimator) or is_regressor(estimator))


def models_inside(estimator) -> list:
    """What a model of scikit-learn that is made of others hands its table to."""
    found = [getattr(estimator, name, None) for name in ("estimator", "regressor")]
    several = estimator.get_params(deep=False).get("estimators") or ()
    return [*found, *(model for _, model in several)]


def first_step(estimator):
    """The estimator itself, or what a pipeline hands its table to."""
    while isinstance(estimator, Pipeline):
        steps = (step for _, step in estimator.steps if hasattr(step, "fit"))
        estimator = next(steps, None)
    return estimator


def told_range(model) -> tuple[float, float] | None:
    """What the predictions of a fitted model of ours cannot leave, if it tells.

    It follows from what the model released, as its predictions do.
    """
    while isinstance(model, FrozenEstimator | Pipeline):
        frozen = isinstance(model, FrozenEstimator)
        model = model.estimator if frozen else last_step(model)
    return model._told_range() if isinstance(model, DPEstimator) else None
