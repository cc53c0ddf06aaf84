"""Answers that depend on other rows, and where they may not be.

A randomised repair spreads identical rows over their targets: its answer depends on how
many twins came before. The public may ask it as often as it likes, but nothing private
may be fitted on its answers: one record would move those of all its twins. So purity is
a property of the object, ``__fairpriv_row_pure__``, and not of the moment: it goes
through freezing, pickling, pipelines and threads.
"""

import functools
from collections import deque
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator

# scikit-learn keeps names that begin like this on an estimator outside `fit`.
_SHARES = "_sklearn_rows_share_a_draw"


class RowPureMixin:
    """Estimators whose answers may depend on identical rows before."""

    def _spreads(self) -> bool:
        """Whether the fitted rule spreads identical rows over several answers."""
        raise NotImplementedError

    def _wrapped_parts(self) -> tuple:
        """Fitted estimators whose answers this one's are made of."""
        return ()

    @property
    def __fairpriv_row_pure__(self) -> bool:
        """Whether each answer is a function of its row alone, in any batch."""
        mine = not self._may_spread() or not self._spreads()
        return mine and not any(spreads(part) for part in self._wrapped_parts())

    def _may_spread(self) -> bool:
        return not getattr(self, _SHARES, False)


def pure_clone(estimator):
    """Clone an estimator so that its answers will depend on their own row only.

    Randomised parts, however deep, then give identical rows the same draw; what is
    frozen stays as it is. For whoever owns the estimator and fits something private on
    its answers.
    """
    cloned = clone(estimator)
    for part in _owned(cloned):
        if isinstance(part, RowPureMixin):
            setattr(part, _SHARES, True)
    return cloned


def _owned(item) -> list[BaseEstimator]:
    """Estimators that a clone has copied: arguments, and steps in lists of them."""
    if isinstance(item, FrozenEstimator):
        return []
    if isinstance(item, list | tuple):
        return [part for inner in item for part in _owned(inner)]
    if not isinstance(item, BaseEstimator):
        return []
    inner = item.get_params(deep=False).values()
    return [item, *(part for value in inner for part in _owned(value))]


def spreads(estimator) -> bool:
    """Tell whether any part of an estimator spreads identical rows.

    Looked into are arguments and fitted attributes, whatever object or container holds
    them, and functions: bound methods, partial ones, closures and defaults.
    """
    return any(
        isinstance(part, RowPureMixin) and part._may_spread() and part._spreads()
        for part in estimators_inside(estimator)
    )


def refuse_spreading(estimator, what: str = "The wrapped estimator") -> None:
    """Raise if private statistics of the estimator's answers would not be covered."""
    if spreads(estimator):
        raise ValueError(
            f"{what} spreads identical rows over several answers, so that one record "
            "moves the answers of others: nothing private can be fitted on them. Use "
            'output="continuous" or output="mean" in a barycenter repair, and '
            'method="gradient" in DP2DPClassifier; one that had to draw decisions (it '
            "has a rule_) cannot be wrapped as it is."
        )


def estimators_inside(root) -> list[Any]:
    """All estimators within an object, itself included."""
    found, seen, queue = [], set(), [root]
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, BaseEstimator):
            found.append(item)
        queue += _inside(item)
    return found


def _inside(item) -> list:
    if isinstance(item, Mapping):
        return list(item.values())
    if isinstance(item, list | tuple | set | frozenset | deque):
        return [
            part for part in item if not isinstance(part, str | bytes | int | float)
        ]
    if isinstance(item, np.ndarray):
        return item.ravel().tolist() if item.dtype == object else []
    if isinstance(item, functools.partial):
        return [item.func, *item.args, *item.keywords.values()]
    if isinstance(item, FunctionType):
        return [*closed_over(item), item.__defaults__, item.__kwdefaults__, vars(item)]
    if callable(item) and hasattr(item, "__self__"):
        return [item.__self__]
    if isinstance(item, type | ModuleType):
        return []
    state = object.__getstate__(item)  # attributes, or these and what is in slots
    parts = state if isinstance(state, tuple) else (state,)
    return [value for part in parts if part for value in part.values()]


def closed_over(function: FunctionType) -> list:
    """Values of the outer variables that a function uses, as far as they have one."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found
