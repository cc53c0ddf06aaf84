"""Candidates: give each its share of the budget, fit it quietly, check its guarantee.

What a candidate shows of itself beside its released model is nothing: no warning, no
output, no ledger entry, no numeric error.
"""

import inspect
import math
import sys
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Real
from operator import le
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline

from .._door.estimator import DPEstimator, is_ours
from .._door.groups import (
    label_list,
    labels_by,
    named_positions,
    refuse_groups,
    refuse_left_out,
    refuse_named_twice,
    refuse_twice,
    refuse_unheard,
    refuse_without_groups,
    without_sensitive_columns,
)
from .._door.inside import check_arguments, label_lists
from .._door.labels import encode_labels
from .._door.readers import refuse_cells
from .._shared import nested
from .._shared.callers import warn_caller
from .._shared.guarded import NUMERIC_ERRORS, ask_wrapped, fit_wrapped
from .._shared.nested import last_step
from .._shared.purity import estimators_inside, pure_clone, refuse_spreading
from .._shared.rowwise import BLOCK_ROWS
from .._shared.sklearn import asks_for, routing_enabled, safe_indexing
from .._wall import (
    CONDITIONAL,
    DRAWS_OF_ONE,
    FEW_DRAWS,
    EitherEvent,
    GaussianEvent,
    MaximumEvent,
    NoiseSource,
    PrivacyEvent,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    ThresholdEvent,
    budget_of_steps,
    calibrate_gaussian,
    epsilon_factor,
    expected_guarantee,
    has_budget,
    is_diffprivlibs,
    is_encoder,
    n_columns_of,
    n_rows_of,
    noise_source,
    own_guarantee,
    places_told,
    reads_all_rows,
    refuse_arguments,
    refuse_learners,
    refuse_target,
    rehearse,
    rows_of,
    tell_again,
    untell,
    warn_leak,
    ways_out,
)
from ..metrics import _takes_groups
from ._plan import (
    DRAWS_BEHIND,
    DRAWS_PER_FIT,
    KINDS,
    SLACK,
    USUAL_WIDTH,
    FitShare,
)

# What a guarantee may exceed its share by: rounding.

_DEAR = (
    "A candidate costs more than the budget it was given: its private steps, frozen "
    "ones too, add up in a way the search does not know. Search over one of them, on a "
    "table that the others have transformed."
)
# What hands on labels or targets of its own making: a public list does not fit them.
_RELABEL = """BaggingClassifier OneVsOneClassifier OneVsRestClassifier
    OutputCodeClassifier StackingClassifier TransformedTargetRegressor
    VotingClassifier""".split()
_LISTS = "classes", "groups"
# What an estimator that is not told it may read from the data.
_FACTS = ("bounds", "classes", "data_norm", "groups", "target_bounds")


class OtherCost(Exception):
    """A fit has another kind of guarantee than planned; public, like all costs."""

    def __init__(self, kind: str, n_draws: int):
        super().__init__(kind)
        self.kind, self.n_draws = kind, n_draws


@dataclass(frozen=True)
class Groups:
    """The sensitive features of a table, and how they reach the candidates.

    Attributes
    ----------
    labels : list or None
        Group of each row; None if nobody names the groups.
    X : array-like
        The table for the candidates.
    given : array-like or None
        What is handed to the candidates' methods.
    """

    labels: list | None
    X: Any
    given: Any


def read_groups(owner, estimator, X, sensitive_features) -> Groups:
    """Find the sensitive features: the call, the search's own columns, the estimator's.

    Parameters
    ----------
    owner : object
        With `sensitive_features`, `n_features_in_` and, for names, `feature_names_in_`.
    estimator : estimator
        The candidates' estimator.
    X, sensitive_features : array-like
    """
    refuse_twice(owner.sensitive_features, sensitive_features)
    if owner.sensitive_features is not None:
        names = getattr(owner, "feature_names_in_", None)
        refuse_named_twice(owner.sensitive_features, estimator, names)
        labels = _labels_in(owner, owner.sensitive_features, X)
        return Groups(labels, without_sensitive_columns(owner, X), labels)
    if sensitive_features is not None:
        return Groups(label_list(sensitive_features), X, sensitive_features)
    named = named_groups(estimator)
    labels = None if named is None else _labels_in(owner, named, X)
    return Groups(labels, X, None)


def named_groups(estimator):
    """The columns of groups that the candidates' estimator names itself, or None."""
    owners = nested.owners(estimator)
    # Behind the transformers of a pipeline a column is not where it was.
    behind = [path for path, one in owners.items() if isinstance(one, Pipeline)]
    return _inner_parameter(estimator, "sensitive_features", behind)


def _labels_in(owner, named, X) -> list:
    if callable(named):
        return label_list(labels_by(named, X))
    names = getattr(owner, "feature_names_in_", None)
    positions = named_positions(named, owner.n_features_in_, names)
    columns = safe_indexing(X, positions, axis=1)
    return label_list(columns.toarray() if issparse(columns) else columns)


def public_argument(estimator, name: str, own):
    """Return a public fact of the search, or the one its estimator was given."""
    return own if own is not None else _inner_parameter(estimator, name)


def _inner_parameter(estimator, name: str, closed=()):
    """The first value of a parameter of this name, from the outside in."""
    params = estimator.get_params(deep=True).items()
    found = (
        value
        for place, value in sorted(params, key=lambda one: one[0].count("__"))
        if place.rpartition("__")[2] == name
        and not _is_of_groups(place)
        and not any(nested.is_inside(place, path) for path in closed)
    )
    return next((value for value in found if value is not None), None)


def _is_of_groups(place: str) -> bool:
    """Whether a place is in a model of the groups, whose classes are theirs."""
    return "group_estimator" in place.split("__")


# --- Budgets --------------------------------------------------------------------------


def budget_owners(estimator) -> dict[str, BaseEstimator]:
    """Return the steps that have a budget, by their place in `set_params`."""
    # What is frozen was fitted, and paid for, before.
    found = nested.owners(estimator, nested.is_frozen)
    return {place: owner for place, owner in found.items() if has_budget(owner)}


def refuse_without_budget(estimator) -> None:
    """Refuse an estimator that spends nothing."""
    if not budget_owners(estimator):
        raise ValueError(
            f"{type(estimator).__name__} is not a private estimator: it has no step "
            "with an epsilon. Search over an estimator of this library or of "
            "diffprivlib, or over a pipeline that holds one."
        )


def expected_fit(estimator, grid: list[dict], public: dict, X=None, task=None):
    """Kind that the guarantees of all fits are of, and noisy numbers of one of them.

    By public arguments, which are checked, for enough records; of what is not known a
    guess. Of a task, lists that a fit would read are as long as those of all rows.
    """
    n_columns = 0 if X is None else n_columns_of(X) or 0
    kinds, most = [], DRAWS_PER_FIT
    for params in grid:
        chosen = told(made(estimator, params), public)
        untell(chosen, places_told(chosen))
        wide = _as_many(n_columns, *(_n_labels(chosen, k, task) for k in _LISTS))
        events = _events_of_enough(chosen)
        kinds.append(_kind_of(events))
        n_draws = _gaussian_cost(events)[1]
        if _has_encoder(chosen):
            n_draws = max(DRAWS_BEHIND, n_draws)
        elif n_draws > DRAWS_BEHIND:
            continue  # far from what it draws: of a network in a table of any width
        most = max(most, math.ceil(wide * n_draws))
    return max(kinds, key=KINDS.index), most


def _as_many(n_columns: int, n_classes: int, n_groups: int) -> float:
    """How many times as many numbers as it foresees a step may draw in such a table.

    The largest of products of a pair of columns, once; of gradients with their pulls
    towards other groups of each class, in a step; of what a blind repair measures.
    """
    slopes = (n_columns + 1) * n_classes * (2 + n_classes * n_groups)
    rates = (n_classes * n_groups) ** 3
    squared = max(1.0, n_columns / USUAL_WIDTH) ** 2
    return max(squared, slopes / DRAWS_OF_ONE, rates / FEW_DRAWS)


def _n_labels(chosen, name: str, task=None) -> int:
    """How many classes or groups a candidate tells apart at most."""
    given = chosen.get_params().items()
    found = [v for place, v in given if place.rpartition("__")[2] == name]
    lengths = [len(listed) for listed in found if listed is not None]
    if not lengths and task is not None and name in _read_by_fits(chosen, task):
        known = name == "classes" or task.groups is not None
        lengths = [len(task.labels(name))] if known else []
    return max(lengths, default=2)


def _events_of_enough(chosen) -> list[PrivacyEvent]:
    """What a fit of enough records costs at most; nothing if that is not known."""
    expected = expected_guarantee(chosen)
    events = () if expected is None else expected.events
    if _may_see_few(chosen):
        return [*events]
    plans = (one.left if isinstance(one, EitherEvent) else (one,) for one in events)
    return [*chain.from_iterable(plans)]


def _may_see_few(chosen) -> bool:
    """Whether enough records for the whole do not settle the plan of a model inside.

    A repair states both of its plans, and bagging hands on a part of its rows.
    """
    around = [
        place
        for place, one in nested.owners(chosen).items()
        if hasattr(one, "base_guarantee") or hasattr(one, "max_samples")
    ]
    return any(
        few and any(nested.is_inside(place, outer) for outer in around)
        for place, few in chosen.get_params().items()
        if place.rpartition("__")[2] == "min_records"
    )


def are_foreseen(estimator, grid, share: FitShare, public: dict, n_records) -> bool:
    """Whether no fit costs more than is planned, by what each says before there is one.

    Of at least so many records, where their number is public. By epsilon and delta all
    shares are checked anyway.
    """
    if share.kind == "approximate":
        return True
    costs = _foreseen(estimator, grid, share, public, n_records)
    return all(map(le, costs, (share.most, share.n_draws, share.failure)))


def foreseen_share(estimator, grid, share: FitShare, public: dict, n_records, n_draws):
    """A share with the cost of one fit, if that is foreseen to be Gaussian."""
    if not 0.0 < share.epsilon < math.inf:
        return share
    mu, most, failure = _foreseen(estimator, grid, share, public, n_records)
    if mu == math.inf or most > n_draws:
        return share
    kind = "threshold" if failure else "gaussian"
    # No fit has more, however few numbers it draws.
    mu = calibrate_gaussian(share.epsilon, share.delta) * SLACK
    return replace(share, kind=kind, mu=mu, n_draws=n_draws, failure=failure)


def _foreseen(estimator, grid, share, public, n_records) -> tuple[float, int, float]:
    """The most that fits with a share may cost, as of `_gaussian_cost`."""
    costs = []
    for params in grid:
        asked = estimator, params, share, noise_source(0), public, n_records
        chosen = candidate(*asked)
        if _may_widen(chosen):
            return math.inf, 0, 0.0
        given = chosen.get_params().items()
        least = [few for name, few in given if name.endswith("min_records") and few]
        if any(n_records is None or few > n_records for few in least) or not all(
            map(is_ours, budget_owners(chosen).values())
        ):
            return math.inf, 0, 0.0
        costs.append(_gaussian_cost(_events_of_enough(chosen)))
    return tuple(map(max, zip(*costs, strict=True)))


def _may_widen(chosen) -> bool:
    """Whether others' steps may hand a model more columns than those of the table."""
    owners = nested.owners(chosen).values()
    theirs = (hasattr(one, "transform") and not is_ours(one) for one in owners)
    return any(theirs) and not _has_encoder(chosen)


def refuse_unforeseen(foreseen: bool) -> None:
    """Refuse to plan anew what was paid for as it was planned."""
    if foreseen:
        raise ValueError(_DEAR)


def _has_encoder(chosen) -> bool:
    """Whether a step may learn of how many columns those behind it are fitted."""
    return any(map(is_encoder, budget_owners(chosen).values()))


def _kind_of(events) -> str:
    mu, _, failure = _gaussian_cost(events)
    if mu == math.inf:
        return "approximate"
    return "threshold" if failure else "gaussian"


def made(estimator, params: dict) -> BaseEstimator:
    """Return an unfitted candidate as the public list says."""
    return clone(estimator).set_params(**clone(params, safe=False))


def told(chosen, public: dict) -> BaseEstimator:
    """Give `public` facts to those steps of a candidate that have none of their own."""
    return chosen.set_params(**_untold(chosen, public))


def _untold(chosen, public: dict) -> dict:
    """Settings that tell steps of a candidate what they have none of their own of."""
    settings = {}
    for path, step in budget_owners(chosen).items():
        if _is_of_groups(path):
            continue  # the repair around it tells it
        names = step.get_params(deep=False)
        for name, fact in public.items():
            serves = name == "groups" or not _is_relabelled(chosen, path)
            if serves and names.get(name, ...) is None:
                settings[nested.argument_of(path, name)] = fact
    return settings


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


def lists_of_all(chosen, estimator, task) -> tuple[list[str], dict]:
    """What a candidate without public lists would read, and settings that tell it all.

    Else a label that is not among the rows of one fit would stop it, once all is paid.
    """
    read = _read_by_fits(chosen, task) & {"classes"}
    if _reads_known_groups(chosen, estimator, task):
        read.add("groups")
    lists = {name: task.labels(name) for name in read}
    # One label is no list: what a fit says of it shows no cell.
    several = {name: listed for name, listed in lists.items() if len(listed) > 1}
    return sorted(read), _untold(chosen, several)


def _reads_known_groups(chosen, estimator, task) -> bool:
    """Whether a fit would list the groups of its rows, and they are those of `task`."""
    named = {
        place: columns
        for place, columns in chosen.get_params().items()
        if place.rpartition("__")[2] == "sensitive_features" and columns is not None
    }
    own = getattr(estimator, "sensitive_features", None)
    # Labels of the call are not those of columns that a candidate names itself.
    known = {} if own is None or task.given is not None else {"sensitive_features": own}
    if task.groups is None or repr(named) != repr(known):
        return False  # nobody here knows them, or of some steps they are others
    steps = budget_owners(chosen)  # those inside a repair are not handed groups
    outer = [steps[path] for path in nested.outermost(steps)]
    return any("groups" in _read_from_data(step, task) for step in outer)


def _is_relabelled(chosen, path: str) -> bool:
    """Whether the target that a step sees may be another than that of the whole."""
    return any(
        type(one).__name__ in _RELABEL and nested.is_inside(path, place)
        for place, one in nested.owners(chosen).items()
    )


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
            if expected is not None and not _is_paid(expected, share):
                raise ValueError(_DEAR)
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
        _check_guarantee(expected, neighboring, ways_out(chosen))
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
    return conditions | _read_by_fits(chosen, task)


def _read_by_fits(chosen, task) -> set[str]:
    """Facts that nobody stated, and that the fits inside a candidate read."""
    owners = nested.owners(chosen).values()
    repairs = [one for one in owners if hasattr(one, "base_guarantee")]
    arguments = ("estimator", "group_estimator")
    models = [getattr(one, name, None) for one in repairs for name in arguments]
    labelled = [last_step(model) for model in models]  # these are told their labels
    found = set()
    for step in budget_owners(chosen).values():
        read = _read_from_data(step, task)
        found |= read - ({"classes"} if step in labelled else set())
    return found


def _read_from_data(step, task) -> set[str]:
    """Facts that nobody stated, and that a fit of a step reads."""
    params = step.get_params(deep=False)
    found = {name for name in _FACTS if params.get(name, name) is None}
    if isinstance(step, DPEstimator) and "data_norm" in params:
        found -= {"bounds", "data_norm"}  # rows are shortened to a public length
    if task.given is None and params.get("sensitive_features") is None:
        found.discard("groups")
    return found


def warn_of_facts(facts) -> None:
    """Warn of what the guarantee of a candidate is conditional on."""
    for fact in sorted(facts):
        if fact.isidentifier():
            warn_leak(fact, f"`{fact}` of the estimator")
        else:
            warn_caller(f"{CONDITIONAL}: {fact}.", PrivacyLeakWarning)


CHOSEN = "the choice of this candidate, which the guarantee of its search pays for"


def tell_of_the_choice(winner) -> None:
    """Let no guarantee inside the winner stand alone: which one won is private too."""
    tell_inside(winner, {CHOSEN})


def tell_inside(model, conditions: set[str]) -> None:
    """Write into all guarantees inside a model what they depend on as well.

    What came frozen is the caller's own. Models of diffprivlib have no statement of
    their own, and get one.
    """
    inside = estimators_inside(model)
    frozen = [one for one in inside if isinstance(one, FrozenEstimator)]
    given = {id(one) for each in frozen for one in estimators_inside(each)}
    for one in inside:
        own = vars(one).get("privacy_")
        if is_diffprivlibs(one):
            own = own_guarantee(one)
        if isinstance(own, PrivacyGuarantee) and id(one) not in given:
            one.privacy_ = own.qualified(conditional_on=sorted(conditions))


# --- Fitting and predicting -----------------------------------------------------------


def fit_quietly(model, X, y, given) -> bool:
    """Fit `model`; return whether it could be fitted. Nothing else is shown.

    Where the numbers of a fit break down the candidate fails, and nobody is told. Other
    errors are about parameters, or say that the table is outside the domain.
    """
    try:
        groups = groups_for(model, "fit", given)
        fit_wrapped(model, X, y, own_words=True, **groups)
    except NUMERIC_ERRORS:
        return False
    return True


def responses(model, methods: list[str], X, given, neighboring: str) -> dict:
    """Return what `model` says about the rows, each row on its own."""
    return {m: _respond(model, m, X, given, neighboring) for m in methods}


def _respond(model, method: str, X, given, neighboring: str) -> np.ndarray:
    n_rows = n_rows_of(X)
    # A deleted record moves the others: rows then go through in blocks of one size.
    size = n_rows if neighboring == "replace_one" else BLOCK_ROWS
    starts = range(0, n_rows, size)
    blocks = [np.minimum(np.arange(i, i + size), n_rows - 1) for i in starts]

    def say(rows):
        keywords = groups_for(model, method, rows_of(given, rows))
        keywords |= {"private": True, "own_words": True}
        return np.asarray(ask_wrapped(model, method, rows_of(X, rows), **keywords))

    try:
        return np.concatenate([say(rows) for rows in blocks])[:n_rows]
    except NUMERIC_ERRORS:
        # One row must not spoil the answers about the others.
        return _row_by_row(say, n_rows)


def _row_by_row(say, n_rows: int) -> np.ndarray:
    """Answers row by row; None, or NaN among numbers, where that fails."""
    answers = []
    for row in range(n_rows):
        try:
            answers.append(say(np.array([row]))[0])
        except NUMERIC_ERRORS:
            answers.append(None)
    shape = next((np.shape(a) for a in answers if a is not None), ())
    if shape:
        missing = np.full(shape, np.nan)
        return np.array([missing if a is None else a for a in answers])
    if all(answer is None or isinstance(answer, float) for answer in answers):
        return np.array(answers, dtype=np.float64)
    return np.fromiter(answers, dtype=object)


def groups_for(model, method: str, given) -> dict:
    """The keyword by which the groups reach `method`, if it wants them."""
    if given is None:
        return {}
    name = "sensitive_features"
    if isinstance(model, Pipeline) and method == "fit":
        if routing_enabled():
            return {name: given} if asks_for(model, method, [name]) else {}
        last, model = model.steps[-1]
        name = f"{last}__{name}"
    return {name: given} if _wants(model, method) else {}


def _wants(model, method: str) -> bool:
    if isinstance(model, FrozenEstimator):
        return False
    if method == "fit" and not routing_enabled():
        # What takes any keyword refuses this one without routing, and one hands it on.
        said = inspect.signature(getattr(model, method)).parameters
        if "sensitive_features" not in said:
            hands_on = isinstance(model, TransformedTargetRegressor)
            return hands_on and _takes_groups(model, method)
    return _takes_groups(model, method)


# --- Guarantees -----------------------------------------------------------------------


def check_cost(model, before, share: FitShare, neighboring: str) -> PrivacyGuarantee:
    """Return the guarantee of a fitted candidate; raise if it costs more than planned.

    Guarantees are public and do not depend on the data: raising reveals nothing. Where
    an encoder's release says how many numbers are drawn, enough are planned for, and no
    plan is made anew. Some fits write what they read over the arguments that they had
    `before`.
    """
    guarantee = own_guarantee(model, before)
    left = ", ".join(getattr(guarantee, "uncovered", ()))
    _check_guarantee(guarantee, neighboring, f" Not covered: {left}." if left else "")
    if share.epsilon == math.inf:
        return guarantee
    if share.kind != "approximate":
        mu, n_draws, failure = _gaussian_cost(guarantee.events)
        if mu == math.inf or failure > share.failure:
            kind = _kind_of(guarantee.events)
            again = kind == share.kind  # more names than planned
            raise OtherCost("approximate" if again else kind, share.n_draws)
        is_more = n_draws > share.n_draws
        if is_more and not _has_encoder(model):
            raise OtherCost(share.kind, n_draws)
        fits = mu <= share.most and not is_more
    else:
        fits = _is_paid(guarantee, share)
    if not fits:
        raise ValueError(_DEAR)
    return guarantee


def _is_paid(guarantee: PrivacyGuarantee, share: FitShare) -> bool:
    return guarantee.if_public().epsilon_at(share.delta) <= share.epsilon * SLACK


def _check_guarantee(guarantee, neighboring: str, ways_out="") -> None:
    if guarantee is None or guarantee.uncovered:
        raise ValueError(
            "The candidates are not private as a whole: every step has to be private, "
            "or learn nothing from the data, or be declared with base_guarantee."
            f"{ways_out}"
        )
    if guarantee.neighboring != neighboring:
        raise ValueError(
            f"The candidates protect against {guarantee.neighboring!r} and the search "
            f"against {neighboring!r}; give both the same `neighboring`."
        )


def _gaussian_cost(events) -> tuple[float, int, float]:
    """Total mu, number of draws, and probability that names are shown that must not be.

    If all events are Gaussian or show names, else (inf, 0, 0).
    """
    squares, draws, failure = 0.0, 0, 0.0
    for event in events:
        if isinstance(event, GaussianEvent):
            cost = event.mu, event.n_draws, 0.0
        elif isinstance(event, ThresholdEvent):
            cost = 0.0, 0, event.failure
        elif isinstance(event, MaximumEvent):
            sides = [_gaussian_cost(side) for side in (event.left, event.right)]
            cost = tuple(map(max, zip(*sides, strict=True)))
        else:
            return math.inf, 0, 0.0
        squares, draws = squares + cost[0] ** 2, draws + cost[1]
        failure += cost[2]
    return (math.sqrt(squares) if events else math.inf), draws, failure


def expected_cost(model, neighboring: str) -> PrivacyGuarantee:
    """Return the guarantee that a candidate would have had, were there rows to fit."""
    nothing = PrivacyGuarantee(0.0, 0.0, neighboring, "nothing was fitted")
    return expected_guarantee(model) or nothing
