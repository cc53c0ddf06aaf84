"""Divide one budget: steps that compose share it, parted ones get it whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sklearn.frozen import FrozenEstimator

from ..._shared import nested
from ..._shared.arguments import number
from ...accounting import MaximumEvent, PrivacyEvent, compose_epsilon
from .._foreign import epsilon_factor
from .._guarantee import own_events
from .._steps import own_guarantee
from ._costs import (
    Leaf,
    declared_events,
    is_search,
    kind_of,
    n_draws_of,
    or_pure,
    private_steps,
    reads_all_rows,
    with_room,
)
from ._refusals import refuse_copies

# Aim below the total by this much: conversions round to the private side.
_AIM = 1.0 - 1e-6
_ENCODER_SHARE = 0.1
# Of one that learns no ranks, and nothing but columns that its code book does not name.
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
    tree = _tree(steps, shares or {})
    # What they stand in adds them up with others, as often as there are repairs.
    fixed = _with_rooms(frozen_events(estimator), 1 + 2 * len(steps))
    leaves = _with_deltas(tree, delta)
    scales = dict.fromkeys(leaves, 1.0)

    def total(scales) -> float:
        events = _events(tree, scales, leaves, 2 * bool(fixed))
        return compose_epsilon((*fixed, *events), delta)

    if math.isinf(epsilon):
        return {path: (math.inf, leaf.delta) for path, leaf in leaves.items()}
    goal = epsilon * _AIM
    # All steps first; then those that a random split parts from dearer ones.
    for group in (list(leaves), *_parted(leaves)):
        factor = _largest_factor(group, scales, total, goal)
        for path in group:
            scales[path] *= factor
    return {
        path: (leaf.epsilon(scales[path] * leaf.weight), leaf.delta)
        for path, leaf in leaves.items()
    }


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
    """A step and, on other rows, the steps inside it."""

    leaf: Leaf
    inner: tuple[_Node, ...] = ()
    declared: tuple[tuple[PrivacyEvent, ...], ...] = ()


def _tree(steps: dict, shares: Mapping, outer: str | None = None, weight=1.0) -> tuple:
    """Steps side by side divide the square of `weight`; those inside get all of it."""
    inside = [p for p in steps if outer is None or nested.is_inside(p, outer)]
    level = nested.outermost(inside)
    for path in level:  # grows: what reads the same rows stands beside it
        if reads_all_rows(steps[path]):
            level += nested.outermost([p for p in steps if nested.is_inside(p, path)])
    given = {p: float(shares[p]) for p in level if p in shares}
    others = [p for p in level if p not in shares]
    left = 1.0 - math.fsum(given.values())
    if others and left <= 0:
        raise ValueError(
            "shares of steps that compose add up to 1 or more, and leave nothing for "
            f"{others}."
        )
    encoders = [p for p in others if kind_of(steps[p]) == "encoder"]
    parts = {p: _encoder_share(steps[p]) for p in encoders}
    plain = [p for p in others if p not in parts]
    rest = 1.0 - math.fsum(parts.values())
    wanted = {p: _weight(p, steps) for p in plain}
    for p in plain:
        parts[p] = max(rest, _ENCODER_SHARE) * wanted[p] / sum(wanted.values())
    scale = math.fsum(parts.values())
    given |= {p: left * part / scale for p, part in parts.items()}
    sum_of_all = math.fsum(given.values())
    if level and not sum_of_all > 0:
        raise ValueError("shares must not all be 0.")
    nodes = []
    for path in level:
        share = max(given[path] / sum_of_all, 1e-12)
        own = weight * math.sqrt(share)
        step = steps[path]
        is_whole = is_search(step) or reads_all_rows(step)
        nodes.append(
            _Node(
                Leaf(
                    path,
                    kind_of(step),
                    own,
                    n_draws=n_draws_of(step),
                    or_pure=or_pure(step),
                    delta_share=min(1.0, share / _ENCODER_SHARE),
                    factor=epsilon_factor(step),
                    all_rows=reads_all_rows(step),
                ),
                () if is_whole else _tree(steps, shares, path, own),
                declared_events(step),
            )
        )
    return tuple(nodes)


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
    # A code book of lists alone may leave out columns; who declares all says so.
    is_told = step.ranks == "uniform" and step._needs_nothing()
    return _SPARE_SHARE if is_told else _ENCODER_SHARE


def _with_deltas(tree, delta: float) -> dict[str, Leaf]:
    """The steps by place, with deltas that add up to the total.

    A step of a small share gets little: with much, its noise would be that of an
    epsilon of next to nothing, and less than its share allows.
    """
    counted = [node for node in tree if _has_delta(node)]
    shares = math.fsum(node.leaf.delta_share for node in counted)
    leaves = {}
    for node in tree:
        leaf = node.leaf
        own = delta * leaf.delta_share / shares if node in counted else 0.0
        at = 0.0 if leaf.kind == "pure" else own
        leaves[leaf.path] = replace(leaf, delta=at)
        leaves |= _with_deltas(node.inner, own)
    return leaves


def _has_delta(node: _Node) -> bool:
    return node.leaf.kind != "pure" or any(map(_has_delta, node.inner))


def _events(tree, scales, leaves, n_rooms=0) -> tuple[PrivacyEvent, ...]:
    events: tuple = ()
    # Of steps side by side once, of each repair on all rows twice: see `expected_of`.
    n_rooms += (len(tree) > 1) + 2 * sum(node.leaf.all_rows for node in tree)
    for node in tree:
        leaf = leaves[node.leaf.path]
        own = _with_rooms(leaf.events(leaf.weight * scales[leaf.path]), n_rooms)
        others = [_with_rooms(told, n_rooms) for told in node.declared]
        if node.inner:
            others.append(_events(node.inner, scales, leaves, n_rooms))
        for other in others:
            own = own + other if leaf.all_rows else (MaximumEvent(own, other),)
        events += own
    return events


def _with_rooms(events, n_rooms: int) -> tuple[PrivacyEvent, ...]:
    for _ in range(n_rooms):
        events = with_room(events)
    return tuple(events)


def _parted(leaves: dict[str, Leaf]) -> list[list[str]]:
    """Groups of steps on rows of their own, which may be raised by themselves."""
    groups, places = [], [p for p, leaf in leaves.items() if not leaf.all_rows]
    for place in places:
        inner = [other for other in leaves if nested.is_inside(other, place)]
        if inner:
            groups += [[place], inner]
    return groups


def frozen_events(estimator) -> tuple[PrivacyEvent, ...]:
    """What frozen parts cost when they were fitted."""
    found = nested.owners(estimator).values()
    frozen = [one for one in found if isinstance(one, FrozenEstimator)]
    public = [
        one.estimator
        for one in found
        if isinstance(getattr(one, "base_guarantee", None), str)
    ]
    events: tuple = ()
    for one in frozen:
        guarantee = own_guarantee(one)
        if guarantee is not None and not any(one is other for other in public):
            events += tuple(own_events(guarantee))
    return events
