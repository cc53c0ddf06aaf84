"""Lines of a plan, public numbers only, and what they cost together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ..accounting import (
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PrivacyEvent,
    PureEvent,
    ThresholdEvent,
    WithoutReplacementGaussianEvent,
)
from ..mechanisms import DiscreteLaplaceMechanism, GaussianMechanism
from ..privacy import NOTHING, PrivacyGuarantee, own_events


@dataclass(frozen=True)
class Release:
    """One line of a plan: a statistic that is released `times` times.

    Attributes
    ----------
    name : str
        Name of the query.
    kind : {"gaussian", "pure"}
    parameter : float
        Gaussian-DP parameter mu, or epsilon, of one release; inf adds no noise.
    n_coordinates : int
        Largest number of entries of one release.
    times : int, default=1
    sampling : tuple or None, default=None
        ``("poisson", q)`` or ``("without_replacement", q)`` if each release reads a
        fresh sample of the rows, drawn by the filter.
    """

    name: str
    kind: str
    parameter: float
    n_coordinates: int
    times: int = 1
    sampling: tuple | None = None

    def __post_init__(self):
        try:
            if self.kind == "pure":
                DiscreteLaplaceMechanism(1, self.parameter)
            elif self.kind == "gaussian":
                # Keys may take twice the noise, see `PrivacyFilter`.
                GaussianMechanism(1.0, self.parameter / 2, self.n_coordinates)
        except ValueError as error:  # here nothing is spent yet
            raise ValueError(
                f"The share of epsilon that is for {self.name}: {error}"
            ) from None

    @property
    def n_draws(self) -> int:
        """Largest number of noisy entries of all its releases."""
        return self.n_coordinates * self.times

    @property
    def noise(self) -> str:
        """Which noise, in words."""
        kind = "Gaussian" if self.kind == "gaussian" else "discrete Laplace"
        return f"{kind if self.parameter < math.inf else 'no'} noise on "

    def __str__(self) -> str:
        return self.name if self.times == 1 else f"{self.name} ({self.times} times)"

    def events(self, neighboring: str) -> tuple:
        """What the accounting composes."""
        if self.kind == "pure":
            return (PureEvent(self.parameter * self.times),)
        if self.sampling is not None and self.parameter < math.inf:
            how, rate = self.sampling
            # The dominating pair of Poisson sampling holds for add/remove; replacing a
            # record costs the symmetrised curve (Lemma C), however rows are sampled.
            poisson = how == "poisson" and neighboring == "add_remove"
            kind = PoissonGaussianEvent if poisson else WithoutReplacementGaussianEvent
            return (kind(rate, 1 / self.parameter, self.times, self.n_draws),)
        return (GaussianEvent(self.parameter * math.sqrt(self.times), self.n_draws),)


@dataclass(frozen=True)
class KeyedRelease(Release):
    """A line of a plan: Gaussian counts, some of them of keys that nobody listed.

    Attributes
    ----------
    delta : float, default=0.0
        Probability that a key shows which one record alone has.
    """

    delta: float = 0.0

    def events(self, neighboring: str) -> tuple:
        shown = (ThresholdEvent(self.delta),) * self.times if self.delta else ()
        return (*super().events(neighboring), *shown)


@dataclass(frozen=True)
class Wrapped:
    """A line of a plan: a wrapped estimator, at the cost of its own guarantee."""

    name: str
    guarantee: PrivacyGuarantee

    def __str__(self) -> str:
        return f"a fit of the {self.name} ({self.guarantee.mechanism})"

    def events(self, neighboring: str) -> tuple:
        return own_events(self.guarantee)


@dataclass(frozen=True)
class Split:
    """A line of a plan: rows parted by one independent draw each, two plans.

    A record is read in one branch only, so the cost is the larger one (Lemma B).
    """

    name: str
    left: tuple
    right: tuple

    def __str__(self) -> str:
        left, right = map(in_words, (self.left, self.right))
        return f"on records parted at random [{left}] or [{right}]"

    def events(self, neighboring: str) -> tuple:
        sides = (plan_events(side, neighboring) for side in (self.left, self.right))
        return (MaximumEvent(*sides),)


@dataclass(frozen=True)
class Combined:
    """Lines whose total cost a theorem of its own states, such as repeat and select.

    They are released at most as often as planned; how often may be secret.

    Attributes
    ----------
    name : str
        What is released, in plain words.
    total : tuple of PrivacyEvent
        What all of them cost together.
    lines : tuple of Release
    theorem : str
        Page and label of the proof of that.
    """

    name: str
    total: tuple[PrivacyEvent, ...]
    lines: tuple
    theorem: str

    def __str__(self) -> str:
        return self.name

    def events(self, neighboring: str) -> tuple:
        return self.total


def in_words(plan: Sequence) -> str:
    """What a plan releases, line by line."""
    by_noise = groupby(plan, lambda line: getattr(line, "noise", ""))
    said = [noise + ", ".join(map(str, lines)) for noise, lines in by_noise]
    return "; ".join(said) or NOTHING


def plan_is_secure(plan: Sequence) -> bool:
    """Whether no wrapped estimator of the plan draws its noise from a seed."""
    wrapped = [line for line in plan if isinstance(line, Wrapped)]
    sides = [
        s for line in plan if isinstance(line, Split) for s in (line.left, line.right)
    ]
    return all(line.guarantee.noise_is_secure for line in wrapped) and all(
        map(plan_is_secure, sides)
    )


def plan_events(plan: Sequence, neighboring: str) -> tuple:
    """Events of a plan; Gaussian releases are merged, as they compose exactly."""
    squares, draws, others = [], 0, []
    for line in plan:
        for event in line.events(neighboring):
            if isinstance(event, GaussianEvent):
                squares.append(event.mu**2)
                draws += event.n_draws
            else:
                others.append(event)
    if squares:
        others.insert(0, GaussianEvent(math.sqrt(math.fsum(squares)), draws))
    return tuple(others)
