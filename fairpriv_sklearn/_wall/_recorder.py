"""A recorder of what crosses the wall, for audits by the holder of the data."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Crossing:
    """One release as a recorder saw it: for audits by the holder of the data."""

    name: str
    theorem: str
    norm: str
    neighboring: str
    sensitivity: float
    parameter: float
    exact: NDArray
    released: NDArray


class Recording:
    """Everything that crossed the wall, in order; see :func:`recording`."""

    def __init__(self, replay: Recording | None = None):
        self.crossings: list[Crossing] = []
        self._earlier = iter(replay.crossings if replay is not None else ())

    def _add(self, crossing: Crossing) -> NDArray:
        self.crossings.append(crossing)
        earlier = next(self._earlier, crossing)
        if earlier.name != crossing.name or earlier.exact.shape != crossing.exact.shape:
            return crossing.released
        return earlier.released.copy()


_recorders: list[Recording] = []


@contextmanager
def recording(replay: Recording | None = None):
    """Record exact and noisy values of all releases, or feed recorded ones back in.

    Parameters
    ----------
    replay : Recording, default=None
        Noisy values of an earlier run, released again in the same order: two runs on
        neighbouring tables then differ by nothing but what the exact values changed.

    Yields
    ------
    Recording
        Its `crossings` hold exact private values.
    """
    recorder = Recording(replay)
    _recorders.append(recorder)
    try:
        yield recorder
    finally:
        _recorders.remove(recorder)


def taped(query, mechanism, neighboring, exact, released) -> NDArray:
    parameter = mechanism.mu if hasattr(mechanism, "mu") else mechanism.epsilon
    for recorder in tuple(_recorders):
        crossing = Crossing(
            query.name,
            query.theorem,
            query.norm,
            neighboring,
            float(mechanism.sensitivity),
            parameter,
            np.array(exact),
            np.array(released),
        )
        released = recorder._add(crossing)
    return released
