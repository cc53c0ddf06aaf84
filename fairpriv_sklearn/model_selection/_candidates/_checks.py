"""Refuse, before the budget is taken, what no fit of a candidate could do."""

from numbers import Real

import numpy as np
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.multiclass import OneVsRestClassifier

from ..._door.groups import (
    refuse_groups,
    refuse_left_out,
    refuse_unheard,
    refuse_without_groups,
)
from ..._door.inside import check_arguments, label_lists
from ..._door.labels import encode_labels
from ..._door.readers import refuse_cells
from ..._shared import nested
from ..._shared.callers import warn_caller
from ..._shared.purity import estimators_inside, pure_clone, refuse_spreading
from ..._wall import (
    PrivacyGuarantee,
    calibrate_gaussian,
    expected_guarantee,
    n_columns_of,
    noise_source,
    refuse_arguments,
    refuse_learners,
    refuse_target,
    rehearse,
    ways_out,
)
from .._plan import FitShare
from ._costs import DEAR, check_guarantee, is_paid
from ._facts import budget_owners, read_by_fits, told, warn_of_facts
from ._groups import groups_for
from ._making import candidate, made


def refuse_without_budget(estimator) -> None:
    """Refuse an estimator that spends nothing."""
    if not budget_owners(estimator):
        raise ValueError(
            f"{type(estimator).__name__} is not a private estimator: it has no step "
            "with an epsilon. Search over an estimator of this library or of "
            "diffprivlib, or over a pipeline that holds one."
        )


def check_candidates(
    estimator, grid: list[dict], task, ledger
) -> tuple[set[str], set[str]]:
    """Refuse a candidate that no table could fit, or none privately.

    Parameters
    ----------
    estimator : estimator
    grid : list of dict
        Parameters of each candidate.
    task : Task
    ledger : PrivacyLedger or None
        That the whole is paid from.

    Returns
    -------
    conditions : set of str
        What the privacy of some candidates depends on and that of others does not. The
        winner does not tell: it was chosen from all of them.
    said : set of str
        What a warning has told already: what steps depend on that nobody here can see
        through, and what was read from the data for the score.
    """
    conditions, lists = [], set()
    for params in grid:
        chosen = told(made(estimator, params), task.public)
        lists.update(map(tuple, label_lists(chosen)))
        has_names = hasattr(task.X, "columns")
        check_arguments(chosen, n_columns_of(task.X), named=has_names)
        _refuse_mute(chosen, task.statistic.response_methods)
        refuse_unpaid(chosen, ledger)
        refuse_spreading(pure_clone(chosen), "The estimator of the search")
        conditions.append(_check_members(chosen, task))
        if any(map(_reads_otherwise, params.values())):
            refuse_cells(chosen, task.X)
        if groups_for(chosen, "fit", task.given):
            refuse_left_out(chosen)
            refuse_groups(chosen, task.X, task.given, task.public["groups"])
        else:
            refuse_without_groups(chosen)
        if task.given is not None and not groups_for(chosen, "predict", task.given):
            refuse_unheard(chosen)
    for listed in lists:
        encode_labels(task.y, listed)
    known = task.public.get("classes")
    for params in grid:
        chosen = told(made(estimator, params), task.public)
        refuse_target(chosen, task.X, task.y)
        rehearse(chosen, task.y if known is None else np.asarray(known))
    of_any = set().union(*conditions)
    said = {fact for fact in of_any if not fact.isidentifier()}
    warn_of_facts(said)
    said.update(fact.name for fact in task.assumptions if fact.is_read)
    return of_any.difference(set.intersection(*conditions)), said


def _refuse_mute(chosen, methods: list[str]) -> None:
    """Refuse a candidate without what the score asks: a list may hold None for it."""
    for method in methods:
        if not hasattr(chosen, method):
            raise ValueError(
                f"A candidate, {type(chosen).__name__}, has no {method}, which its "
                "score needs: leave it out, or name another model in its place."
            )


def _reads_otherwise(value) -> bool:
    """Whether an argument may decide which cells a candidate takes."""
    if isinstance(value, str):
        return value in ("passthrough", "drop")
    if isinstance(value, list | tuple | np.ndarray):
        return bool(estimators_inside(value))
    return not isinstance(value, Real | None)


def refuse_large_epsilon(epsilon: float) -> None:
    """Refuse a finite budget of which the parts would be too large for noise."""
    calibrate_gaussian(epsilon, 0.5)  # which delta does not matter


def refuse_shares(
    estimator, grid: list[dict], shares: list[FitShare], public, X=None
) -> None:
    """Refuse a candidate that no fit can pay for out of its share of the budget.

    Of a table, if there is one: what is asked of many columns needs more of it.
    """
    least = min(share.delta for share in shares)
    for params in grid:
        for step in budget_owners(made(estimator, params)).values():
            if hasattr(step, "_refuse_shared_budget"):
                step._refuse_shared_budget(least)
        for share in shares:
            # The numbers that these would draw are drawn by nobody.
            chosen = candidate(estimator, params, share, noise_source(0), public)
            expected = _expected_of_share(chosen)
            # Once, or once for each class: only the fitted model says so.
            if expected is not None and not is_paid(expected, share):
                raise ValueError(DEAR)
            if X is not None:
                refuse_cells(chosen, X)


def _expected_of_share(chosen) -> PrivacyGuarantee | None:
    """What a candidate will cost that has its share of the budget, if that suffices."""
    try:
        for step in budget_owners(chosen).values():
            refuse_arguments(step)
            if hasattr(step, "_refuse_small_budget"):
                step._refuse_small_budget()
        return expected_guarantee(chosen)
    except ValueError as error:
        raise ValueError(
            "A candidate cannot be fitted with its share of the budget: raise it, or "
            f"share it among fewer fits. {error}"
        ) from None


def warn_of_lowered(estimator, grid: list[dict], share: FitShare, public) -> None:
    """Warn of candidates that differ in an epsilon alone, and once it is paid not.

    All that is looked at is public.
    """
    asked: dict[str, set] = {}
    for params in grid:
        named = [place for place in params if place.rpartition("__")[2] == "epsilon"]
        if named:
            chosen = candidate(estimator, params, share, noise_source(0), public)
            given = chosen.get_params()
            what = repr(params | {place: given[place] for place in named})
            asked.setdefault(what, set()).add(repr(params))
    if any(len(ways) > 1 for ways in asked.values()):
        warn_caller(
            "Candidates that differ only in an epsilon above what one fit may cost are "
            "the same model, as the search lowers it; each of them costs as much as "
            "another candidate. Search over other parameters, or smaller epsilons.",
            UserWarning,
        )


def refuse_unpaid(chosen, ledger) -> None:
    """Refuse a candidate with a ledger where nobody pays: its fits are not booked."""
    steps = budget_owners(chosen).values()
    if ledger is None and any(getattr(s, "ledger", None) is not None for s in steps):
        raise ValueError(
            "A candidate has a ledger, which its fits do not pay from: give the ledger "
            "to what fits the candidates, as in DPGridSearchCV(..., ledger=ledger)."
        )


def refuse_uncovered(chosen, neighboring: str) -> PrivacyGuarantee | None:
    """What a fit of a candidate will cost; refused if it is not private as a whole."""
    steps, expected = budget_owners(chosen), expected_guarantee(chosen)
    # Once, or once for each class: only the fitted model says so.
    several = any(
        isinstance(owner, OneVsRestClassifier)
        and any(nested.is_inside(step, path) for step in steps)
        for path, owner in nested.owners(chosen).items()
    )
    if expected is not None or not several:
        check_guarantee(expected, neighboring, ways_out(chosen))
    return expected


def _check_members(chosen, task) -> set[str]:
    """Refuse, before the budget is taken, what no fit could pay for or be covered.

    Returns what the privacy of a fit will depend on.
    """
    steps, owners = budget_owners(chosen), nested.owners(chosen)
    classes = task.public.get("classes")
    for path, owner in owners.items():
        if not any(nested.is_inside(step, path) for step in steps):
            continue  # frozen, or without a budget
        n_fits = 1
        if isinstance(owner, BaggingClassifier | BaggingRegressor):
            n_fits = owner.n_estimators
        elif isinstance(owner, OneVsRestClassifier):
            n_labels = len(set(task.y.tolist()) if classes is None else classes)
            n_fits = n_labels if n_labels > 2 else 1
        if n_fits > 1:
            raise ValueError(
                f"{type(owner).__name__} fits its estimator several times, and each "
                "fit costs what the search has for one: search over that estimator."
            )
    expected = refuse_uncovered(chosen, task.neighboring)
    refuse_learners(chosen, task.X)
    conditions = set() if expected is None else set(expected.conditional_on)
    return conditions | read_by_fits(chosen, task)
