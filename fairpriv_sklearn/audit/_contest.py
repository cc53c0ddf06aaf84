"""Bets on real outputs: statistics that tell two tables apart, and bounds by them."""

import math

import numpy as np

from ._bounds import EpsilonBound, MuBound
from ._claim import Claim
from ._outcome import Outcome

_MEMORY = 4096  # outcomes of each table that statistics are chosen from
_COORDINATES = 8  # numbers that a statistic adds up


class Light:
    """The numbers and the structure of an outcome, without its model."""

    def __init__(self, outcome):
        self._numbers = outcome.numbers()
        self._signature = hash(outcome.signature())

    def numbers(self):
        return self._numbers

    def signature(self):
        return self._signature


class Contest:
    """A pair of tables, what its outputs were so far, and the bets on the next."""

    def __init__(self, pair, claim):
        self.pair = pair
        self.claim = claim
        self.runs = [], []
        self.bounds: list = []
        self._statistics: list = []
        self.promise = 0.0  # how much of the claim the best bound has reached

    @property
    def estimate(self) -> float:
        """How much of the claim the most telling event suggests, without confidence."""
        return max(
            (bound.estimate / level for (_, level, _), bound in self.bounds if level),
            default=math.inf,
        )

    def train(self, first, second):
        """Take in outcomes without a bet on them."""
        for side, new in zip(self.runs, (first, second), strict=True):
            side.extend(new)
            del side[:-_MEMORY]

    def learn(self, confidence) -> bool:
        """Choose statistics from all outcomes so far; False if there are too few."""
        first, second = self.runs
        if min(len(first), len(second)) < 8:
            return False
        self.bounds, self._statistics = [], []
        for statistic in _statistics(first, second):
            past = statistic(first), statistic(second)
            bounds = [
                (test, _new_bound(test, confidence).learn(*past))
                for test in tests_of(self.claim)
            ]
            self.bounds += bounds
            self._statistics.append((statistic, bounds))
        return True

    def play(self, first, second):
        """Bet on fresh outcomes, then remember them."""
        n = min(len(first), len(second))
        if n == 0:
            return
        for statistic, bounds in self._statistics:
            scores = statistic(first[:n]), statistic(second[:n])
            for _, bound in bounds:
                bound.update(*scores)
        self.train(first[:n], second[:n])
        shares = [bound.value / level for (_, level, _), bound in self.bounds if level]
        self.promise = max(shares, default=0.0)


def tests_of(claim: Claim) -> list[tuple[str, float, float]]:
    """Lines of the claim to be refuted: (kind, level, delta)."""
    if claim.mu is not None:
        return [("mu", claim.mu, claim.delta)]
    tests = [("epsilon", claim.epsilon, claim.delta)]
    if claim.guarantee is not None and claim.delta > 0 and claim.guarantee.events:
        half = claim.epsilon / 2
        tests.append(("epsilon", half, claim.guarantee.delta_at(half)))
    return [test for test in tests if test[2] < 1]


def _new_bound(test, confidence):
    kind, _, delta = test
    if kind == "mu":
        return MuBound(confidence=confidence)
    return EpsilonBound(delta=delta, confidence=confidence)


def apart(first: list[Outcome], second: list[Outcome]) -> float:
    """Distance of the outputs with the same seeds, over their spread over seeds."""
    if [o.signature() for o in first] != [o.signature() for o in second]:
        return 1e6
    if len({len(o.numbers()) for o in (*first, *second)}) > 1:
        return 1e6
    A, B = (np.array([o.numbers() for o in side]) for side in (first, second))
    if not A.size:
        return 0.0
    with np.errstate(all="ignore"):
        spread = np.fmax(A.std(axis=0), B.std(axis=0))
        moved = np.abs(B - A).mean(axis=0)
        share = np.where(moved > 0, moved / np.fmax(spread, 1e-12 * moved), 0.0)
        share = np.where(np.isfinite(share), share, 1e6)
        return float(np.sqrt(np.sum(np.minimum(share, 1e6) ** 2)))


class _Structure:
    """How much more often a structure, text or error came from the one table."""

    def __init__(self, first, second):
        self.counts: dict = {}
        for i, side in enumerate((first, second)):
            for outcome in side:
                self.counts.setdefault(outcome.signature(), [0, 0])[i] += 1

    @property
    def tells(self) -> bool:
        return any(abs(a - b) > 3 for a, b in self.counts.values())

    def __call__(self, runs):
        table = {
            key: math.log((b + 0.5) / (a + 0.5)) for key, (a, b) in self.counts.items()
        }
        return np.array([table.get(outcome.signature(), 0.0) for outcome in runs])


class _Numbers:
    """A sum over some numbers of the output: linear, or of log likelihood ratios."""

    def __init__(self, first, second, *, linear):
        self.linear = linear
        lengths = [len(o.numbers()) for o in (*first, *second)]
        self.length = max(set(lengths), key=lengths.count)
        A, B = self._matrix(first), self._matrix(second)
        pooled = np.concatenate([A, B])
        with np.errstate(all="ignore"):
            spread = np.sqrt((A.var(axis=0) + B.var(axis=0)) / 2)
            shift = np.median(B, axis=0) - np.median(A, axis=0)
            level = np.abs(pooled).max(axis=0)
            share = np.where(shift == 0, 0.0, shift / np.fmax(spread, 1e-9 * level))
            share = np.nan_to_num(share, nan=0.0, posinf=1e6, neginf=-1e6)
        unlike = np.abs(np.log((_spread(A) + 1e-300) / (_spread(B) + 1e-300)))
        strength = np.maximum(np.abs(share), np.nan_to_num(unlike, posinf=1e3) / 2)
        self.chosen = _unequal_columns(pooled, np.argsort(-strength))[:_COORDINATES]
        with np.errstate(all="ignore"):
            self.weights = np.nan_to_num(
                share / np.fmax(spread, 1e-9 * level), posinf=1e6, neginf=-1e6
            )[self.chosen]
        self.middle = np.median(pooled[:, self.chosen], axis=0)
        self.tables = [
            self._ratios(A[:, i], B[:, i], pooled[:, i]) for i in self.chosen
        ]

    def _matrix(self, runs):
        out = np.full((len(runs), self.length), 1e300)
        for i, row in enumerate(one.numbers() for one in runs):
            if len(row) == self.length:
                out[i] = np.clip(row, -1e300, 1e300)
        return out

    @staticmethod
    def _ratios(a, b, pooled):
        values = np.unique(pooled)
        n_bins = int(np.clip(len(pooled) / 50, 8, 24))
        if len(values) > n_bins:
            inner = np.linspace(0, 1, n_bins + 1)[1:-1]
            values = np.unique(np.quantile(pooled, inner))
        edges = (values[1:] + values[:-1]) / 2
        counts = [
            np.bincount(np.searchsorted(edges, side), minlength=len(edges) + 1)
            for side in (a, b)
        ]
        return edges, np.log((counts[1] + 1.0) / (counts[0] + 1.0))

    def __call__(self, runs):
        X = self._matrix(runs)[:, self.chosen]
        if self.linear:
            with np.errstate(all="ignore"):
                scores = (X - self.middle) @ self.weights
            return np.nan_to_num(scores, nan=0.0, posinf=1e300, neginf=-1e300)
        total = np.zeros(len(X))
        for column, (edges, ratios) in zip(X.T, self.tables, strict=True):
            total += ratios[np.searchsorted(edges, column)]
        return total


def _spread(A) -> np.ndarray:
    """Half the distance of the quartiles, column by column."""
    with np.errstate(all="ignore"):
        return np.subtract(*np.quantile(A, [0.75, 0.25], axis=0)) / 2


def _unequal_columns(pooled, order) -> np.ndarray:
    """The columns in this order, without repetitions of the same numbers."""
    seen, kept = set(), []
    for i in order[: 8 * _COORDINATES]:
        column = pooled[:, i]
        with np.errstate(all="ignore"):
            scale = np.ptp(column)
            normed = (column - column[0]) / scale if scale > 0 else column
        if scale == 0:
            continue
        key = np.abs(np.nan_to_num(normed)).round(9).tobytes()
        if key not in seen:
            seen.add(key)
            kept.append(i)
    return np.array(kept, dtype=int)


def _statistics(first, second) -> list:
    """What to look at: one statistic of the structure if it tells, two of numbers."""
    told = _Structure(first, second)
    if not told.tells:
        told = _Numbers(first, second, linear=True)
    return [told, _Numbers(first, second, linear=False)]
