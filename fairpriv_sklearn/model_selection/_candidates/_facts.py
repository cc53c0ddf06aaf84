"""Public facts that candidates are told, and those that their fits read."""

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from ..._door.estimator import DPEstimator
from ..._shared import nested
from ..._shared.callers import warn_caller
from ..._shared.nested import last_step
from ..._shared.purity import estimators_inside
from ..._wall import (
    CONDITIONAL,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    has_budget,
    is_diffprivlibs,
    own_guarantee,
    warn_leak,
)

# What hands on labels or targets of its own making: a public list does not fit them.
_RELABEL = """BaggingClassifier OneVsOneClassifier OneVsRestClassifier
    OutputCodeClassifier StackingClassifier TransformedTargetRegressor
    VotingClassifier""".split()
# What an estimator that is not told it may read from the data.
_FACTS = ("bounds", "classes", "data_norm", "groups", "target_bounds")


def public_argument(estimator, name: str, own):
    """Return a public fact of the search, or the one its estimator was given."""
    return own if own is not None else inner_parameter(estimator, name)


def inner_parameter(estimator, name: str, closed=()):
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


def budget_owners(estimator) -> dict[str, BaseEstimator]:
    """Return the steps that have a budget, by their place in `set_params`."""
    # What is frozen was fitted, and paid for, before.
    found = nested.owners(estimator, nested.is_frozen)
    return {place: owner for place, owner in found.items() if has_budget(owner)}


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


def lists_of_all(chosen, estimator, task) -> tuple[list[str], dict]:
    """What a candidate without public lists would read, and settings that tell it all.

    Else a label that is not among the rows of one fit would stop it, once all is paid.
    """
    read = read_by_fits(chosen, task) & {"classes"}
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


def read_by_fits(chosen, task) -> set[str]:
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
