"""The running composition of a ledger: small, whatever the number of spends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..accounting import (
    DeclaredEvent,
    GaussianEvent,
    PoissonGaussianEvent,
    PrivacyEvent,
    PureEvent,
    WithoutReplacementGaussianEvent,
    compose_delta,
    compose_epsilon,
)
from ..accounting._events import event_from_dict
from ._guarantee import check_relations

# Rounding only: ten spends of 0.1 fit under a cap of 1.
RELATIVE_SLACK = 1e-9

_SAMPLED = (PoissonGaussianEvent, WithoutReplacementGaussianEvent)


@dataclass(frozen=True)
class Composition:
    """Events with their multiplicities, for one neighbouring relation.

    Gaussian events are kept as one Gaussian, subsampled Gaussians of equal settings as
    one with more steps, everything else as a count: both merges are exact.
    """

    neighboring: str
    counts: tuple[tuple[PrivacyEvent, int], ...] = ()

    def add(self, events: Iterable[PrivacyEvent], neighboring: str) -> Composition:
        """Return the composition with more events."""
        check_relations((self.neighboring, neighboring))
        counts = dict(self.counts)
        for event in events:
            kept = _same_family(counts, event)
            if kept is not None:
                del counts[kept]
                event = _merge(kept, event)
            counts[event] = counts.get(event, 0) + 1
        return Composition(self.neighboring, tuple(counts.items()))

    def events(self) -> tuple[PrivacyEvent, ...]:
        """Return the events as the accounting wants them."""
        return tuple(event for event, count in self.counts for _ in range(count))

    def epsilon_at(self, delta: float) -> float:
        """Return the tight total at `delta`."""
        return compose_epsilon(self.events(), delta)

    def fits(self, epsilon: float, delta: float) -> bool:
        """Return whether the tight total at `delta` is at most `epsilon`."""
        if epsilon == math.inf:
            return True
        epsilon *= 1 + RELATIVE_SLACK
        # From cheap to costly; each "yes" is a proof. With delta = 0 a delta below it
        # could only be underflow, which proves nothing.
        return (
            self._fits_by_sums(epsilon, delta)
            or (delta > 0 and compose_delta(self.events(), epsilon) <= delta)
            or self.epsilon_at(delta) <= epsilon
        )

    def _fits_by_sums(self, epsilon: float, delta: float) -> bool:
        # What is stated as pure or (epsilon, delta) adds up, and the rest has to fit
        # into what that leaves: quick after hundreds of spends, and mostly enough.
        rest = []
        for event, count in self.counts:
            match event:
                case PureEvent():
                    epsilon -= count * event.epsilon
                case DeclaredEvent():
                    epsilon -= count * event.epsilon
                    delta -= count * event.delta
                case _:
                    rest.extend([event] * count)
        if epsilon < 0 or delta < 0:
            return False
        return not rest or (delta > 0 and compose_delta(rest, epsilon) <= delta)

    def to_plain(self) -> dict:
        """Return data for `json.dumps`."""
        counts = [[event.to_dict(), count] for event, count in self.counts]
        return {"neighboring": self.neighboring, "counts": counts}

    @classmethod
    def from_plain(cls, data: dict) -> Composition:
        """Rebuild a composition from `to_plain`."""
        counts = (
            (event_from_dict(event), int(count)) for event, count in data["counts"]
        )
        return cls(data["neighboring"], tuple(counts))


def _same_family(counts: dict, event: PrivacyEvent) -> PrivacyEvent | None:
    """Return the kept event that `event` merges with, if any."""
    for kept in counts:
        if type(kept) is not type(event):
            continue
        if isinstance(event, GaussianEvent) or (
            isinstance(event, _SAMPLED)
            and (kept.q, kept.noise_multiplier) == (event.q, event.noise_multiplier)
        ):
            return kept
    return None


def _merge(kept: PrivacyEvent, event: PrivacyEvent) -> PrivacyEvent:
    n_draws = kept.n_draws + event.n_draws
    if isinstance(event, GaussianEvent):
        # Rounded up, so that a long sum stays on the private side.
        mu = math.nextafter(math.hypot(kept.mu, event.mu), math.inf)
        return GaussianEvent(mu, n_draws)
    return replace(kept, steps=kept.steps + event.steps, n_draws=n_draws)
