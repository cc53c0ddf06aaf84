"""Privacy events: what was released, as frozen objects that compose tightly.

The stored form of an event is a dictionary with its `kind` and its fields. It evolves
by one rule: a kind is never removed and never changes its meaning; a new field gets a
default under which everything stored before means what it meant.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from numbers import Integral
from typing import Any, ClassVar

from .._shared.arguments import Rule, described, number
from .._shared.rounded import round_down, round_up


@dataclass(frozen=True)
class PrivacyEvent:
    """Base of the events; `kind` names one in the stored form."""

    kind: ClassVar[str]

    def __post_init__(self):
        for one in fields(self):
            value = _RULES[one.name](one.name, getattr(self, one.name))
            object.__setattr__(self, one.name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts; infinity is the string "inf".

        Returns
        -------
        dict
            With the `kind` and the fields of the event.
        """
        values = {one.name: to_plain(getattr(self, one.name)) for one in fields(self)}
        return {"kind": self.kind, **values}

    def __str__(self) -> str:
        numbers = ((one.name, getattr(self, one.name)) for one in fields(self))
        told = ", ".join(f"{name} = {_told(name, number)}" for name, number in numbers)
        return f"{self.kind} ({told})"


@dataclass(frozen=True)
class GaussianEvent(PrivacyEvent):
    """Gaussian releases, by their total parameter of Gaussian differential privacy.

    Parameters
    ----------
    mu : float
        Sensitivity divided by noise standard deviation; of several releases the root
        of the sum of squares. Range: [0, inf].
    n_draws : int, default=0
        Number of noisy numbers drawn, which pays for the error of the sampler.
        Range: [0, inf).

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import GaussianEvent, compose_epsilon
    >>> round(compose_epsilon([GaussianEvent(mu=0.5)], delta=1e-5), 3)
    1.993
    """

    kind: ClassVar[str] = "gaussian"
    mu: float
    n_draws: int = 0


@dataclass(frozen=True)
class PureEvent(PrivacyEvent):
    """One release of pure differential privacy.

    Parameters
    ----------
    epsilon : float
        Range: [0, inf].

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import PureEvent, compose_epsilon
    >>> compose_epsilon([PureEvent(0.5), PureEvent(0.25)], delta=0.0)
    0.75
    """

    kind: ClassVar[str] = "pure"
    epsilon: float


@dataclass(frozen=True)
class DeclaredEvent(PrivacyEvent):
    """A statement (epsilon, delta) of which nothing else is known.

    Parameters
    ----------
    epsilon : float
        Range: [0, inf].
    delta : float
        Range: [0, 1].

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import DeclaredEvent, compose_epsilon
    >>> compose_epsilon([DeclaredEvent(1.0, 1e-6)], delta=1e-6)
    1.0
    """

    kind: ClassVar[str] = "declared"
    epsilon: float
    delta: float


_MOST_COLUMNS = 10**300  # a float, still


@dataclass(frozen=True)
class ThresholdEvent(PrivacyEvent):
    """Names shown where their noisy count reaches a threshold.

    The failure that a record's own name is shown has probability
    ``1 - (1 - delta0) ** n_columns``: a loss distribution with that mass at infinity.
    The noisy counts themselves are another event.

    Parameters
    ----------
    delta0 : float
        Probability that a name of one record is shown. Range: [0, 1].
    n_columns : int, default=1
        Number of columns of names in the release. Range: [1, inf).

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import (
    ...     PureEvent,
    ...     ThresholdEvent,
    ...     compose_epsilon,
    ... )
    >>> compose_epsilon([PureEvent(0.5), ThresholdEvent(1e-6)], delta=1e-6)
    0.5
    """

    kind: ClassVar[str] = "threshold"
    delta0: float
    n_columns: int = 1

    @property
    def failure(self) -> float:
        """Probability that a record's own name is shown in some column, rounded up."""
        if self.n_columns == 1 or self.delta0 in (0.0, 1.0):
            return self.delta0
        if self.n_columns > _MOST_COLUMNS:
            return 1.0
        exact = -math.expm1(self.n_columns * math.log1p(-self.delta0))
        return min(1.0, exact * (1 + 1e-15))


@dataclass(frozen=True)
class _SampledEvent(PrivacyEvent):
    q: float
    noise_multiplier: float
    steps: int
    n_draws: int = 0


@dataclass(frozen=True)
class PoissonGaussianEvent(_SampledEvent):
    """Gaussian releases on Poisson samples of the rows; for add/remove.

    Parameters
    ----------
    q : float
        Probability with which a record enters a sample. Range: (0, 1].
    noise_multiplier : float
        Noise standard deviation divided by the add/remove sensitivity of one release.
        Range: (0, inf).
    steps : int
        Number of releases. Range: [1, inf).
    n_draws : int, default=0
        Number of noisy numbers drawn in all steps. Range: [0, inf).

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import PoissonGaussianEvent, compose_epsilon
    >>> round(compose_epsilon([PoissonGaussianEvent(0.1, 1.74, 10)], 1e-5), 1)
    1.0
    """

    kind: ClassVar[str] = "poisson_gaussian"


@dataclass(frozen=True)
class WithoutReplacementGaussianEvent(_SampledEvent):
    """Gaussian releases on samples without replacement, or Poisson ones; replace-one.

    Parameters
    ----------
    q : float
        Fraction of the records in a sample. Range: (0, 1].
    noise_multiplier : float
        Noise standard deviation divided by the replace-one sensitivity of one release.
        Range: (0, inf).
    steps : int
        Number of releases. Range: [1, inf).
    n_draws : int, default=0
        Number of noisy numbers drawn in all steps. Range: [0, inf).

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import (
    ...     WithoutReplacementGaussianEvent,
    ...     compose_epsilon,
    ... )
    >>> event = WithoutReplacementGaussianEvent(0.1, 1.77, 10)
    >>> round(compose_epsilon([event], 1e-5), 1)
    1.0
    """

    kind: ClassVar[str] = "without_replacement_gaussian"


@dataclass(frozen=True)
class MaximumEvent(PrivacyEvent):
    """Two phases on disjoint rows, split by a fair or biased draw for each record.

    A record is in one phase only and pays the larger of the two.

    Parameters
    ----------
    left, right : tuple of PrivacyEvent
        The events of either phase.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import MaximumEvent, PureEvent, compose_epsilon
    >>> event = MaximumEvent([PureEvent(0.5)], [PureEvent(0.2), PureEvent(0.2)])
    >>> compose_epsilon([event], delta=0.0)
    0.5
    """

    kind: ClassVar[str] = "maximum"
    left: tuple
    right: tuple

    def __str__(self) -> str:
        sides = [", ".join(map(str, s)) or "nothing" for s in (self.left, self.right)]
        return f"maximum of [{'] and ['.join(sides)}]"


@dataclass(frozen=True)
class EitherEvent(MaximumEvent):
    """One of two plans for the same rows: a public number decides which is released.

    A fit that has fewer records than `min_records` tells a constant, for example. The
    cost counts as that of the dearer plan.

    Parameters
    ----------
    left, right : tuple of PrivacyEvent
        The events of either plan.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import EitherEvent, PureEvent, compose_epsilon
    >>> compose_epsilon([EitherEvent([PureEvent(0.5)], [PureEvent(0.2)])], delta=0.0)
    0.5
    """

    kind: ClassVar[str] = "either"


_KINDS = {
    event.kind: event
    for event in (
        GaussianEvent,
        PureEvent,
        DeclaredEvent,
        ThresholdEvent,
        PoissonGaussianEvent,
        WithoutReplacementGaussianEvent,
        MaximumEvent,
        EitherEvent,
    )
}


def checked_events(
    events: Iterable[PrivacyEvent], name: str = "events"
) -> tuple[PrivacyEvent, ...]:
    """Return the events as a tuple, or raise."""
    if isinstance(events, str | Mapping) or not isinstance(events, Iterable):
        raise TypeError(
            f"{name} must be a list of privacy events, got {described(events)}."
        )
    events = tuple(events)
    for event in events:
        if not isinstance(event, PrivacyEvent):
            raise TypeError(
                f"Each of {name} must be one of the event classes in "
                "fairpriv_sklearn.accounting, such as PureEvent(1.0); got "
                f"{described(event)}."
            )
    return events


def event_from_dict(data: Mapping[str, Any]) -> PrivacyEvent:
    """Rebuild an event from `to_dict`, also after a journey through JSON."""
    if not isinstance(data, Mapping) or data.get("kind") not in list(_KINDS):
        raise ValueError(
            f"Expected a stored privacy event of a kind in {list(_KINDS)}, got {data!r}"
            ". A newer version of the library may have written it."
        )
    event = _KINDS[data["kind"]]
    known = {one.name for one in fields(event)}
    needed = {one.name for one in fields(event) if one.default is MISSING}
    if not {"kind", *needed} <= set(data) <= {"kind", *known}:
        raise ValueError(f"A {event.kind} event has the fields {known}, got {data!r}.")
    values = {name: from_plain(data[name]) for name in known & set(data)}
    return event(**values)


def to_plain(value):
    """What is stored of an event, of a number, or of a tuple of these."""
    if isinstance(value, PrivacyEvent):
        return value.to_dict()
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return "inf" if value == math.inf else value


def from_plain(value):
    """A number, or several events, as they were stored."""
    if isinstance(value, list | tuple):
        return tuple(event_from_dict(one) for one in value)
    return math.inf if value == "inf" else value


def _told(name: str, value) -> str:
    """A number of an event, short, on the side that costs more."""
    if isinstance(value, Integral):
        return str(value)
    return round_down(value) if name == "noise_multiplier" else round_up(value)


def _real(*interval) -> Rule:
    rule = number(*interval)
    return lambda name, value: float(rule(name, value))


def _whole(low: int) -> Rule:
    def rule(name, value):
        is_float = isinstance(value, float) and value % 1 == 0
        whole = is_float or isinstance(value, Integral)
        if not whole or isinstance(value, bool) or value < low:
            raise ValueError(
                f"{name} must be a whole number >= {low}, got {described(value)}."
            )
        return int(value)

    return rule


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("mu", "epsilon"), _real(0, math.inf)),
    **dict.fromkeys(("delta", "delta0"), _real(0, 1)),
    "q": _real(0, 1, "right"),
    "noise_multiplier": _real(0, math.inf, "neither"),
    "n_draws": _whole(0),
    **dict.fromkeys(("n_columns", "steps"), _whole(1)),
    **dict.fromkeys(("left", "right"), lambda name, value: checked_events(value, name)),
}
