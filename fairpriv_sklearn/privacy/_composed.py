"""Guarantees of steps, composed."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..accounting import EitherEvent, compose_epsilon
from ._budget._costs import is_encoder, or_pure, with_room
from ._guarantee import PrivacyGuarantee
from ._step import Found, StepPrivacy


def composed(steps: Iterator[Found], planned=False) -> PrivacyGuarantee | None:
    """Compose the steps, fitted or only planned; None if no part is private."""
    found = list(steps)
    private = [one for one in found if one.step.guarantee is not None]
    if not private:
        return None
    if not planned or len(private) == 1:
        return total_of([one.step for one in found])
    found = [replace(one, step=_step_with_room(one.step)) for one in found]
    total = total_of([one.step for one in found])
    return _learn_or_not(total, found) if _learn_together(private) else total


def _learn_together(private: list[Found]) -> bool:
    """Whether all steps or none learn from features: one public number decides.

    Side by side they see the same number of records.
    """
    least = {getattr(one.estimator, "min_records", None) for one in private}
    alone = (one.frozen or "__" in one.step.name for one in private)
    return len(least) == 1 and None not in least and not any(alone)


def _learn_or_not(total: PrivacyGuarantee, found: list[Found]) -> PrivacyGuarantee:
    """What all steps learn, or the constants of the models without any encoder."""
    learnt, constants = [], []
    for one in found:
        events = () if one.step.guarantee is None else one.step.guarantee.events
        either = events[0] if or_pure(one.estimator) else None
        if isinstance(either, EitherEvent):
            learnt += either.left
            constants += either.right
        else:
            learnt += events
            constants += () if is_encoder(one.estimator) else events
    events = (EitherEvent(tuple(learnt), tuple(constants)),)
    if total.epsilon == np.inf:  # for what is not covered, or not public
        return replace(total, events=events)
    return replace(total, events=events, epsilon=compose_epsilon(events, total.delta))


def _step_with_room(step: StepPrivacy) -> StepPrivacy:
    own = step.guarantee
    return step if own is None else replace(step, guarantee=roomier(own))


def roomier(own: PrivacyGuarantee) -> PrivacyGuarantee:
    """A guarantee with room for what steps gain, beside others, by fewer draws."""
    events = with_room(own.events)
    cost = compose_epsilon(events, own.delta)
    stated = {k: max(getattr(own, k), cost) for k in ("epsilon", "epsilon_if_public")}
    return replace(own, events=events, **stated)


def total_of(steps: list[StepPrivacy]) -> PrivacyGuarantee:
    """Compose the steps, with what they assume, depend on and leave uncovered."""
    private = [_with_place(step) for step in steps if step.guarantee is not None]
    if private:
        total = private[0].compose(*private[1:])
    else:
        total = PrivacyGuarantee(0.0, 0.0, "replace_one", "nothing released privately")
    # A step whose own guarantee lists what it leaves uncovered need not be named again.
    bare = [one for one in steps if one.status == "uncovered"]
    bare = [one for one in bare if one.guarantee is None or not one.guarantee.uncovered]
    return total.qualified(
        assumptions=[
            f"{one.title} {one.assumption}" for one in steps if one.assumption
        ],
        uncovered=dict.fromkeys(one.title for one in bare),
        conditional_on=[name for one in steps for name in one.conditional_on],
    )


def _with_place(step: StepPrivacy) -> PrivacyGuarantee:
    """Return the guarantee of a step, saying where its uncovered parts are."""
    own = step.guarantee
    if not step.name:
        return own
    return replace(own, uncovered=tuple(f"{step.name}: {one}" for one in own.uncovered))
