"""Private steps, and what each costs by its own arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral

import numpy as np
from sklearn.frozen import FrozenEstimator

from ..._shared import nested
from ...accounting import (
    DeclaredEvent,
    EitherEvent,
    GaussianEvent,
    MaximumEvent,
    PrivacyEvent,
    PureEvent,
    ThresholdEvent,
    calibrate_gaussian,
    compose_epsilon,
)
from .._foreign import epsilon_factor, is_diffprivlibs
from .._guarantee import PrivacyGuarantee, own_events

# Noisy numbers of one step, at most, whose sampler errs a little: of linear models,
# repairs and encoders, in all or in an iteration, and of generators; inputs and outputs
# of a network, at most.
FEW_DRAWS, DRAWS_OF_ONE, _MANY_DRAWS = 10**5, 10**3, 10**8
_INPUTS, _OUTPUTS = 1 << 14, 1 << 10
# How many more draws cover what is gained where one of several steps makes fewer.
_ROOM = 2.25
# Of the delta of what learns categories, what pays for one that a record alone has.
KEY_SHARE = 0.01
# Of a model's epsilon, what tells a constant: no more than the total it is part of.
CONSTANT_SHARE = 0.99
# Where a guarantee is declared, by the argument that holds the model.
_SAID = {"estimator": "base_guarantee", "group_estimator": "group_guarantee"}


def private_steps(estimator) -> dict:
    """Return the steps that have a budget, by their place in `set_params`.

    What a search or a frozen estimator holds is not looked into: a search gives its
    candidates their budgets itself, and frozen parts are fitted.
    """
    found = nested.owners(
        estimator, lambda one: isinstance(one, FrozenEstimator) or is_search(one)
    )
    priced = [
        nested.argument_of(path, argument)
        for path, owner in found.items()
        for argument in declared(owner)
    ]
    return {
        path: owner
        for path, owner in found.items()
        if has_budget(owner)
        and path not in priced
        and not any(nested.is_inside(path, one) for one in priced)
    }


def declared(step) -> dict:
    """What is declared of the models that a step wraps, by the argument."""
    said = {model: getattr(step, name, None) for model, name in _SAID.items()}
    return {model: told for model, told in said.items() if told is not None}


def declared_events(step) -> tuple[tuple[PrivacyEvent, ...], ...]:
    """What is declared of each model that a repair fits; frozen ones count apart."""
    return tuple(
        own_events(told)
        for model, told in declared(step).items()
        if isinstance(told, PrivacyGuarantee)
        and not isinstance(getattr(step, model), FrozenEstimator)
    )


def has_budget(estimator) -> bool:
    """Whether an estimator is private and takes an epsilon."""
    private = hasattr(estimator, "_unfit") or is_diffprivlibs(estimator)
    return private and "epsilon" in estimator.get_params(deep=False)


def is_encoder(step) -> bool:
    """Whether a step spends nothing on a table with too few records."""
    return getattr(step, "_budget_kind", None) == "encoder"


def is_search(estimator) -> bool:
    """Whether an estimator chooses among candidates, privately."""
    names = {"param_grid", "param_distributions"}
    return has_budget(estimator) and bool(names & set(estimator.get_params(deep=False)))


def reads_all_rows(step) -> bool:
    """Whether a repair and the models that it wraps read the same rows."""
    return isinstance(getattr(step, "calibration_size", None), str)


def or_pure(step) -> bool:
    """Whether all of epsilon may tell a constant, without a delta."""
    return tells_constants(step) and step.min_records is not None


def tells_constants(step) -> bool:
    """Whether a step answers a constant where there are few records: no autoencoder."""
    return hasattr(step, "_signal_of_features") and hasattr(step, "min_records")


def min_records_of(estimator, least: int | None) -> dict:
    """Settings that give one minimum to all private steps which have it."""
    return {
        nested.argument_of(path, "min_records"): least
        for path, step in private_steps(estimator).items()
        if "min_records" in step.get_params(deep=False)
    }


def kind_of(step) -> str:
    """How the cost of a step composes: public arguments say so."""
    told = getattr(step, "_budget_kind", None)
    if told is not None:
        return told
    method = getattr(step, "_resolved_method", None)
    if "delta" not in step.get_params(deep=False) or (
        method and method() == "histogram"
    ):
        return "pure"
    if is_search(step) or getattr(step, "batch_size", None) is not None:
        return "declared"
    return "gaussian" if hasattr(step, "_unfit") else "declared"


def _n_draws(step) -> int:
    """How many noisy numbers a step may draw."""
    arguments = step.get_params(deep=False)
    hidden, n_steps = (arguments.get(k) for k in ("hidden_layer_sizes", "max_iter"))
    if "jitter" in arguments:
        return _MANY_DRAWS
    if hidden is None:
        is_number = isinstance(n_steps, Integral)
        return max(FEW_DRAWS, int(n_steps) * DRAWS_OF_ONE if is_number else 0)
    hidden = np.ravel(hidden)
    is_wrong = hidden.size and hidden.dtype.kind not in "iu"
    if is_wrong or not isinstance(n_steps, Integral):
        return _MANY_DRAWS  # or none: a fit refuses what is no number
    widths = [_INPUTS, *hidden.tolist(), _OUTPUTS]
    return int(n_steps) * sum(a * b for a, b in pairwise(widths))


@dataclass(frozen=True)
class Cost:
    """What a step costs by its Gaussian parameter, or the like, and its delta."""

    kind: str
    delta: float
    n_draws: int
    or_pure: bool
    factor: float

    def epsilon(self, mu: float) -> float:
        """The epsilon at which the step has this parameter."""
        if self.kind == "pure":
            return mu / self.factor
        return compose_epsilon(
            (GaussianEvent(mu, self.n_draws), *self._shown), self.delta
        )

    def mu(self, epsilon: float) -> float:
        """Gaussian parameter of this epsilon, keys that the step may show beside."""
        failure = self.delta * KEY_SHARE if self._shown else 0.0
        return calibrate_gaussian(
            epsilon, self.delta, n_draws=self.n_draws, failure=failure
        )

    def events(self, mu: float) -> tuple[PrivacyEvent, ...]:
        """What the accounting composes."""
        if self.kind == "pure":
            return (PureEvent(mu),)
        if self.kind == "declared":
            return (DeclaredEvent(self.epsilon(mu), self.delta),)
        return self.released(mu, self.epsilon(mu))

    def released(self, mu: float, epsilon: float) -> tuple[PrivacyEvent, ...]:
        """Gaussian noise of this parameter, and what else this epsilon may tell."""
        events = (GaussianEvent(self._bought(mu), self.n_draws), *self._shown)
        if not self.or_pure:
            return events
        # Or a constant in their place: the number of records decides.
        return (EitherEvent(events, (PureEvent(CONSTANT_SHARE * epsilon),)),)

    @property
    def _shown(self) -> tuple[PrivacyEvent, ...]:
        """Keys that the step may show."""
        if self.kind != "encoder":
            return ()
        return (ThresholdEvent(self.delta * KEY_SHARE),)

    def _bought(self, mu: float) -> float:
        """What a fit makes of this parameter's epsilon: more, of next to nothing."""
        try:
            return max(mu, self.mu(self.epsilon(mu)))
        except ValueError:
            return mu  # the fit refuses it


def cost_of(step, delta: float) -> Cost:
    """What a step costs with this delta, if its kind has one."""
    kind = kind_of(step)
    at = 0.0 if kind == "pure" else delta
    return Cost(kind, at, _n_draws(step), or_pure(step), epsilon_factor(step))


def step_events(step) -> tuple[PrivacyEvent, ...]:
    """Return what a step will cost by its own epsilon and delta, before any fit.

    A fit calibrates its noise to the two; fewer draws leave more to mu, for the same
    total. Beside other steps, see `with_room`.
    """
    kind, epsilon = kind_of(step), float(step.epsilon)
    if kind == "pure":
        return (PureEvent(epsilon),)
    if kind == "declared" or math.isinf(epsilon):
        return (DeclaredEvent(epsilon, step.delta),)
    cost = cost_of(step, step.delta)
    return cost.released(cost.mu(epsilon), epsilon)


def with_room(events) -> tuple[PrivacyEvent, ...]:
    r"""Events of one of several steps, such that fewer draws cost no more together.

    A step i with :math:`n_i` draws instead of :math:`N_i` has a larger parameter; that
    adds about :math:`w_i (E(N_i) - E(n_i))` to the total, where E is the error of the
    draws, nearly proportional to the root of their number, and :math:`\sum w_i^2 = 1`.
    With that of the draws themselves, :math:`E(\sum_i n_i)`, this is convex in the
    roots of :math:`n_i`, so largest where some steps, S, make all their draws and the
    others none: at most :math:`E(\sum_S N_i) + E(\sum_{i \notin S} N_i) \le
    E(2 \sum_i N_i)`. A little more covers what is not quite proportional.
    """
    changed = []
    for event in events:
        if isinstance(event, MaximumEvent):
            sides = with_room(event.left), with_room(event.right)
            event = replace(event, left=sides[0], right=sides[1])
        elif getattr(event, "n_draws", 0):
            event = replace(event, n_draws=math.ceil(_ROOM * event.n_draws))
        changed.append(event)
    return tuple(changed)
