"""What the fits of candidates cost: foreseen, planned for, and checked."""

import math
from dataclasses import replace
from itertools import chain
from operator import le

from ..._door.estimator import is_ours
from ..._shared import nested
from ..._wall import (
    DRAWS_OF_ONE,
    FEW_DRAWS,
    EitherEvent,
    GaussianEvent,
    MaximumEvent,
    PrivacyEvent,
    PrivacyGuarantee,
    ThresholdEvent,
    calibrate_gaussian,
    expected_guarantee,
    is_encoder,
    n_columns_of,
    noise_source,
    own_guarantee,
    places_told,
    untell,
)
from .._plan import DRAWS_BEHIND, DRAWS_PER_FIT, KINDS, SLACK, USUAL_WIDTH, FitShare
from ._facts import budget_owners, read_by_fits, told
from ._making import candidate, made

DEAR = (
    "A candidate costs more than the budget it was given: its private steps, frozen "
    "ones too, add up in a way the search does not know. Search over one of them, on a "
    "table that the others have transformed."
)
_LISTS = "classes", "groups"


class OtherCost(Exception):
    """A fit has another kind of guarantee than planned; public, like all costs."""

    def __init__(self, kind: str, n_draws: int):
        super().__init__(kind)
        self.kind, self.n_draws = kind, n_draws


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
    if not lengths and task is not None and name in read_by_fits(chosen, task):
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
        raise ValueError(DEAR)


def _has_encoder(chosen) -> bool:
    """Whether a step may learn of how many columns those behind it are fitted."""
    return any(map(is_encoder, budget_owners(chosen).values()))


def _kind_of(events) -> str:
    mu, _, failure = _gaussian_cost(events)
    if mu == math.inf:
        return "approximate"
    return "threshold" if failure else "gaussian"


def check_cost(model, before, share: FitShare, neighboring: str) -> PrivacyGuarantee:
    """Return the guarantee of a fitted candidate; raise if it costs more than planned.

    Guarantees are public and do not depend on the data: raising reveals nothing. Where
    an encoder's release says how many numbers are drawn, enough are planned for, and no
    plan is made anew. Some fits write what they read over the arguments that they had
    `before`.
    """
    guarantee = own_guarantee(model, before)
    left = ", ".join(getattr(guarantee, "uncovered", ()))
    check_guarantee(guarantee, neighboring, f" Not covered: {left}." if left else "")
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
        fits = is_paid(guarantee, share)
    if not fits:
        raise ValueError(DEAR)
    return guarantee


def is_paid(guarantee: PrivacyGuarantee, share: FitShare) -> bool:
    return guarantee.if_public().epsilon_at(share.delta) <= share.epsilon * SLACK


def check_guarantee(guarantee, neighboring: str, ways_out="") -> None:
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
