"""Divide one budget: steps that compose share it, parted ones get it whole."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sklearn.frozen import FrozenEstimator

from ..._shared import nested
from ..._shared.arguments import number
from ...accounting import MaximumEvent, PrivacyEvent, compose_epsilon
from .._guarantee import PrivacyGuarantee, own_events
from .._steps import own_guarantee
from ._costs import (
    Cost,
    cost_of,
    declared,
    declared_events,
    kind_of,
    private_steps,
    reads_all_rows,
    with_room,
)
from ._refusals import refuse_arguments, refuse_copies

# Aim below the total by this much: conversions round to the private side.
_AIM = 1.0 - 1e-6
_ENCODER_SHARE = 0.1
# Of one that learns no ranks, and nothing but columns that its codebook does not name.
_SPARE_SHARE = 0.0002
_SMALLEST, _LARGEST = 1e-9, 1e4


def settings_of(budgets: dict) -> dict:
    """Arguments of `set_params` for (epsilon, delta) of steps by their place."""
    settings = {}
    for place, (epsilon, delta) in budgets.items():
        settings[nested.argument_of(place, "epsilon")] = epsilon
        if delta:
            settings[nested.argument_of(place, "delta")] = delta
    return settings


def budget_of_steps(estimator, epsilon, delta, shares=None) -> dict:
    """Return (epsilon, delta) of every private step, by its place.

    A delta of 0 says that the step has none.
    """
    _check(epsilon, delta, shares)
    epsilon, delta = float(epsilon), float(delta)
    steps = private_steps(estimator)
    if not steps:
        raise ValueError(
            f"{type(estimator).__name__} has no private step with an epsilon."
        )
    refuse_copies(estimator, steps)
    for step in steps.values():
        refuse_arguments(step)
        if hasattr(step, "_refuse_shared_budget"):
            step._refuse_shared_budget()
    unknown = [path for path in shares or {} if path not in steps]
    if unknown:
        raise ValueError(
            f"shares names {unknown}, but the private steps are {list(steps)}."
        )
    relations = {getattr(s, "neighboring", "replace_one") for s in steps.values()}
    if len(relations) > 1:
        raise ValueError("All private steps need the same `neighboring`.")
    tree = _tree(steps, shares or {}, delta)
    # What they stand in adds them up with others, as often as there are repairs.
    fixed = _with_rooms(frozen_events(estimator), 1 + 2 * len(steps))
    return dict(_budgets(tree, fixed, epsilon, delta))


@lru_cache(maxsize=256)  # searches and ensembles ask for the same many times
def _budgets(tree, fixed, epsilon, delta) -> tuple:
    """Place of every step, and its (epsilon, delta)."""
    nodes = list(_nodes(tree))
    if math.isinf(epsilon):
        return tuple((node.path, (math.inf, node.cost.delta)) for node in nodes)
    scales = {node.path: 1.0 for node in nodes}

    def total(scales) -> float:
        events = _events(tree, scales, 2 * bool(fixed))
        return compose_epsilon((*fixed, *events), delta)

    # All steps first; then those that a random split parts from dearer ones.
    for group in (nodes, *_parted(tree)):
        paths = [node.path for node in group]
        factor = _largest_factor(paths, scales, total, epsilon * _AIM)
        scales |= {path: scales[path] * factor for path in paths}
    epsilons = (n.cost.epsilon(scales[n.path] * n.weight) for n in nodes)
    return tuple(
        (node.path, (own, node.cost.delta))
        for node, own in zip(nodes, epsilons, strict=True)
    )


def _check(epsilon, delta, shares) -> None:
    number(0, math.inf, "right")("epsilon", epsilon)
    number(0, 1, "neither")("delta", delta)
    if not isinstance(shares, Mapping | None):
        raise ValueError("shares must map the places of steps to numbers.")
    for path, share in (shares or {}).items():
        number(0, math.inf, "left")(f"shares[{path!r}]", share)


def _largest_factor(group, scales, total, goal) -> float:
    """Return by how much the steps of a group can be raised within the goal."""

    def fits(factor) -> bool:
        raised = {p: s * factor if p in group else s for p, s in scales.items()}
        return total(raised) <= goal

    if not fits(_SMALLEST):
        raise ValueError(
            "epsilon is too small: the frozen steps, those with a declared guarantee "
            "and the error of the noise cost all of it, nothing is left for the others."
        )
    if fits(_LARGEST):
        return 1.0  # they cost nothing that counts
    low, high = math.log(_SMALLEST), math.log(_LARGEST)
    while high - low >= 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(math.exp(middle)) else (low, middle)
    return math.exp(low)


@dataclass(frozen=True)
class _Node:
    """A step with its weight, the root of its share of the squared parameter.

    With it what it wraps: declared models, and other steps if they have other rows than
    itself, those in each of its arguments rows of their own.
    """

    path: str
    cost: Cost
    weight: float
    all_rows: bool
    declared: tuple[tuple[PrivacyEvent, ...], ...]
    parted: tuple[tuple[_Node, ...], ...]


def _tree(steps: dict, shares: Mapping, delta: float, weight: float = 1.0) -> tuple:
    """Steps side by side divide delta and the square of `weight`; parted ones do not.

    A step of a small share gets little of delta: with much, its noise would be that of
    an epsilon of next to nothing, and less than its share allows.
    """
    level = nested.outermost(steps)
    for path in level:  # grows: what reads the same rows stands beside it
        if reads_all_rows(steps[path]):
            level += nested.outermost([p for p in steps if nested.is_inside(p, path)])
    squares = _divided(level, steps, shares)
    parted = {p: _by_argument(p, steps) for p in level}
    counted = {}
    for path in level:
        inner = [step for branch in parted[path] for step in branch.values()]
        if any(kind_of(step) != "pure" for step in (steps[path], *inner)):
            counted[path] = min(1.0, squares[path] / _ENCODER_SHARE)
    sum_of_all = math.fsum(counted.values())
    nodes = []
    for path in level:
        step, own = steps[path], weight * math.sqrt(squares[path])
        its = delta * counted[path] / sum_of_all if path in counted else 0.0
        nodes.append(
            _Node(
                path,
                cost_of(step, its),
                own,
                reads_all_rows(step),
                declared_events(step),
                tuple(_tree(branch, shares, its, own) for branch in parted[path]),
            )
        )
    return tuple(nodes)


def _by_argument(path: str, steps: dict) -> list[dict]:
    """The steps inside one on rows of their own: those of each of its arguments."""
    found: dict = {}
    for place, step in steps.items():
        if nested.is_inside(place, path) and not reads_all_rows(steps[path]):
            found.setdefault(nested.argument_with(place, path), {})[place] = step
    return list(found.values())


def _divided(level: list[str], steps: dict, shares: Mapping) -> dict[str, float]:
    """Shares of the squared parameter of steps side by side, which add up to 1."""
    given = {p: float(shares[p]) for p in level if p in shares}
    others = [p for p in level if p not in shares]
    left = 1.0 - math.fsum(given.values())
    if others and left <= 0:
        raise ValueError(
            "shares of steps that compose add up to 1 or more, and leave nothing for "
            f"{others}."
        )
    parts = {
        p: _encoder_share(steps[p]) for p in others if kind_of(steps[p]) == "encoder"
    }
    plain = {p: _weight(p, steps) for p in others if p not in parts}
    rest = max(1.0 - math.fsum(parts.values()), _ENCODER_SHARE)
    parts |= {p: rest * wanted / sum(plain.values()) for p, wanted in plain.items()}
    scale = math.fsum(parts.values())
    given |= {p: left * part / scale for p, part in parts.items()}
    sum_of_all = math.fsum(given.values())
    if not sum_of_all > 0:
        raise ValueError("shares must not all be 0.")
    return {p: max(share / sum_of_all, 1e-12) for p, share in given.items()}


def _weight(path: str, steps: dict) -> int:
    """Of a step beside others: more for a model that is repaired on the same rows.

    And for a repair of a pure epsilon there: of a squared parameter it makes less.
    """
    if reads_all_rows(steps[path]) and kind_of(steps[path]) == "pure":
        return 3
    wrapped = [
        nested.argument_of(place, "estimator")
        for place, step in steps.items()
        if reads_all_rows(step)
    ]
    return 1 + any(path == one or nested.is_inside(path, one) for one in wrapped)


def _encoder_share(step) -> float:
    # A codebook of lists alone may leave out columns; who declares all says so.
    is_told = step.ranks == "uniform" and step._needs_nothing()
    return _SPARE_SHARE if is_told else _ENCODER_SHARE


def _nodes(tree) -> Iterator[_Node]:
    """All steps of a tree."""
    for node in tree:
        yield node
        for branch in node.parted:
            yield from _nodes(branch)


def _parted(tree) -> Iterator[list[_Node]]:
    """Groups of steps on rows of their own, which may be raised by themselves."""
    for node in _nodes(tree):
        if node.parted:
            yield [node]
        for branch in node.parted:
            yield list(_nodes(branch))


def _events(tree, scales, n_rooms=0) -> tuple[PrivacyEvent, ...]:
    events: tuple = ()
    # Of steps side by side once, of each repair on all rows twice: see `expected_of`.
    n_rooms += max(len(tree) > 1, _n_sums(tree))
    n_rooms += 2 * sum(node.all_rows for node in tree)
    for node in tree:
        own = node.cost.events(node.weight * scales[node.path])
        own = _with_rooms(own, n_rooms)
        others = [_with_rooms(told, n_rooms) for told in node.declared]
        others += [_events(branch, scales, n_rooms) for branch in node.parted]
        for other in others:
            own = own + other if node.all_rows else (MaximumEvent(own, other),)
        events += own
    return events


def _n_sums(tree) -> int:
    """How often steps stand side by side: outside, and in repairs on all rows."""
    repairs = [node.path for node in tree if node.all_rows]
    outer = ([r for r in repairs if nested.is_inside(n.path, r)] for n in tree)
    found = Counter(max(one, key=len, default=None) for one in outer)
    return sum(n > 1 for n in found.values())


def _with_rooms(events, n_rooms: int) -> tuple[PrivacyEvent, ...]:
    for _ in range(n_rooms):
        events = with_room(events)
    return tuple(events)


def frozen_events(estimator) -> tuple[PrivacyEvent, ...]:
    """What frozen parts cost when they were fitted, as is declared or as they say."""
    found = nested.owners(estimator)
    said = {
        nested.argument_of(place, argument): told
        for place, owner in found.items()
        for argument, told in declared(owner).items()
    }
    frozen = {p: one for p, one in found.items() if isinstance(one, FrozenEstimator)}
    costs = (said.get(place, own_guarantee(one)) for place, one in frozen.items())
    told = [cost for cost in costs if isinstance(cost, PrivacyGuarantee)]
    return tuple(event for one in told for event in own_events(one))
