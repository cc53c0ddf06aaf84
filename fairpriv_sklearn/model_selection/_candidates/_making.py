"""Make candidates: unfitted models, each with its share of the budget."""

import sys
from numbers import Real

from sklearn.base import BaseEstimator, clone

from ..._shared import nested
from ..._shared.purity import pure_clone
from ..._wall import (
    NoiseSource,
    budget_of_steps,
    epsilon_factor,
    places_told,
    reads_all_rows,
    tell_again,
    untell,
)
from .._plan import FitShare
from ._facts import budget_owners, told


def made(estimator, params: dict) -> BaseEstimator:
    """Return an unfitted candidate as the public list says."""
    return clone(estimator).set_params(**clone(params, safe=False))


def candidate(
    estimator,
    params: dict,
    share: FitShare,
    noise: NoiseSource,
    public: dict,
    n_records: int | None = None,
) -> BaseEstimator:
    """Return an unfitted candidate with its share of the budget.

    Steps divide it as :func:`~fairpriv_sklearn.privacy.with_budget` says, as do those
    that it has divided another. An epsilon that the candidate itself names is lowered
    to its share. `n_records` is the number of rows of its fit, where that is public.
    """
    chosen = told(made(estimator, params), public)
    # Scores on private rows: identical ones must get identical answers.
    chosen = pure_clone(chosen)
    divided = places_told(estimator)
    if any(place.rpartition("__")[2] == "min_records" for place in params):
        divided = []  # it is for the search to choose
    untell(chosen, divided)
    steps = budget_owners(chosen)
    budgets = _budgets(chosen, steps, share)
    settings = {}
    for path, step in steps.items():
        names = step.get_params(deep=False)
        own = names["epsilon"], names.get("delta")  # inside a declared guarantee
        epsilon, delta = budgets.get(path, own)
        is_named = nested.argument_of(path, "epsilon") in params
        if is_named and isinstance(names["epsilon"], Real):
            epsilon = min(epsilon, names["epsilon"])
        values = {
            "epsilon": epsilon,
            "delta": delta or names.get("delta"),
            "ledger": None,
            "verbose": 0,
            "random_state": None if noise.is_secure else seed_of(noise.public()),
        }
        if "accountant" in names:
            values["accountant"] = _throwaway_accountant()
        settings |= {
            nested.argument_of(path, k): v for k, v in values.items() if k in names
        }
    chosen.set_params(**settings)
    tell_again(chosen, divided, share.epsilon, share.delta, n_records)
    _forget_callbacks(chosen)
    return chosen


def _budgets(chosen, steps: dict, share: FitShare) -> dict:
    """Budget of every step: all of it for one, and else what composes to it."""
    if not (_compose(steps) and share.delta):
        alone = steps if _read_all_rows(steps) else nested.outermost(steps)
        epsilon = share.epsilon / max(1, len(alone))
        return {k: (epsilon / epsilon_factor(s), share.delta) for k, s in steps.items()}
    return budget_of_steps(chosen, share.epsilon, share.delta)


def _compose(steps: dict) -> bool:
    """Whether some of the steps see the same rows: in one argument of another, or none.

    Arguments of one step, such as a repair's two models, are fitted on parted rows.
    """
    places = []
    for path in steps:
        around = [other for other in steps if nested.is_inside(path, other)]
        outer = max(around, key=len, default=None)
        inner = outer is not None
        places.append((outer, nested.argument_with(path, outer) if inner else None))
    return len(set(places)) < len(places) or _read_all_rows(steps)


def _read_all_rows(steps: dict) -> bool:
    """Whether a repair and the models inside it read the same rows."""
    return any(
        reads_all_rows(step) and any(nested.is_inside(other, path) for other in steps)
        for path, step in steps.items()
    )


def seed_of(public: NoiseSource) -> int:
    """A seed for what takes integers only."""
    return int(public.integers(0, 2**31 - 1, 1)[0])


def _throwaway_accountant():
    # diffprivlib's models book every fit in a shared accountant otherwise: the number
    # of runs would show there.
    return sys.modules["diffprivlib.accountant"].BudgetAccountant()


def _forget_callbacks(estimator) -> None:
    """Take scikit-learn's callbacks off: they would count the runs."""
    for owner in nested.owners(estimator).values():
        if isinstance(owner, BaseEstimator):
            owner.__dict__.pop("_skl_callbacks", None)
