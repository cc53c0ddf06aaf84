"""A recorder of what crosses the wall, and of what it was without noise."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from fairpriv_sklearn._wall import PrivacyFilter

KEY_BUCKETS = 1 << 12  # counts of keys stand by a hash of the key


@dataclass(frozen=True)
class Crossing:
    """One release as a recorder saw it."""

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
    recorder, before = Recording(replay), PrivacyFilter._crossed

    def crossed(wall, query, mechanism, exact, released):
        released = before(wall, query, mechanism, exact, released)
        return recorder._add(
            Crossing(
                query.name,
                query.theorem,
                query.norm,
                wall.neighboring,
                float(mechanism.sensitivity),
                mechanism.mu if hasattr(mechanism, "mu") else mechanism.epsilon,
                _in_one(*exact) if isinstance(exact, tuple) else np.array(exact),
                np.array(released),
            )
        )

    with patch.object(PrivacyFilter, "_crossed", crossed):
        yield recorder


def _in_one(counts, keyed) -> NDArray:
    """Counts of listed cells and of keys, as many numbers for every table."""
    buckets = np.zeros(KEY_BUCKETS)
    for (column, key), count in keyed.items():
        text = f"{column}:{key}".encode("utf-8", "surrogatepass")
        buckets[zlib.crc32(text) % KEY_BUCKETS] += count
    return np.concatenate([counts, buckets])
