"""Estimators inside others, by their places in `set_params`: "" is the outermost."""

from collections.abc import Callable

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline


def owners(estimator, is_closed: Callable = lambda one: False) -> dict:
    """An estimator and those among its arguments, by place; none inside closed ones."""
    arguments = {"": estimator, **estimator.get_params(deep=True)}
    found = {
        place: one
        for place, one in arguments.items()
        if hasattr(one, "get_params") and not isinstance(one, type)
    }
    closed = [place for place, one in found.items() if is_closed(one)]
    return {
        place: one
        for place, one in found.items()
        if not any(is_inside(place, other) for other in closed)
    }


def argument_of(place: str, name: str) -> str:
    """The place of an argument of the estimator at a place."""
    return f"{place}__{name}" if place else name


def argument_with(place: str, outer: str) -> str:
    """The argument, of the estimator at the outer place, that holds what is inside."""
    return place.removeprefix(argument_of(outer, "")).partition("__")[0]


def is_frozen(one) -> bool:
    """Whether an estimator is used as it was fitted, and what is inside it too."""
    return isinstance(one, FrozenEstimator)


def is_inside(place: str, outer: str) -> bool:
    """Whether one place is inside another one."""
    return place != outer and place.startswith(argument_of(outer, ""))


def outermost(places) -> list[str]:
    """The places that are not inside another one of them."""
    return [p for p in places if not any(is_inside(p, other) for other in places)]


def last_step(estimator):
    """The estimator itself, or the last of a pipeline."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator
