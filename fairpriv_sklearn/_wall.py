"""The wall: the only way from private rows to anything public.

A fit states a plan of releases (public numbers) and opens a `PrivacyFilter` (a privacy
filter in the sense of Rogers, Roth, Ullman, Vadhan, NeurIPS 2016, with a plan fixed
beforehand). `reserve` takes the cost of the plan out of the ledger. From then on
`release` computes a `Query` on private `Rows`, adds the noise that the plan paid for,
and writes it down. `guarantee` states the reserved plan: a guarantee cannot be printed
that was not spent, and a release that was not reserved is refused before its noise is
drawn.

A `Query` sums a pure function of blocks of rows, in exact integers: the sum is the
same for every order, chunking and number of workers, and a record's contribution is
the same whatever stands around it.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairpriv_sklearn._shared.guarded import fit_wrapped
from fairpriv_sklearn._shared.rowwise import BLOCK_ROWS
from fairpriv_sklearn._shared.sklearn import safe_indexing
from fairpriv_sklearn.accounting import (
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PrivacyEvent,
    PureEvent,
    ThresholdEvent,
    WithoutReplacementGaussianEvent,
)
from fairpriv_sklearn.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    NoiseSource,
    PermuteAndFlip,
)
from fairpriv_sklearn.privacy import PrivacyGuarantee, own_events

# One rule for all queries: int64 holds sums of this many contributions of 2**31 units.
MAX_ROWS = 1 << 32
_DRAW_ROWS = 1 << 16  # draws come in chunks, so that a stream of rows needs no other


class PlanError(RuntimeError):
    """A release that was not planned, or a plan that was not carried out: a bug."""


# --- rows -----------------------------------------------------------------------------


class Rows:
    """Private columns of equal length; read in blocks by a query, kept nowhere else.

    Parameters
    ----------
    n_rows : int
    **columns : array-like or None
        Anything that rows can be taken of by a slice or by indices: arrays, CSR
        matrices, data frames, objects with a method `rows_at`.
    """

    def __init__(self, n_rows: int, **columns):
        if n_rows > MAX_ROWS:
            raise ValueError(f"A table may have at most {MAX_ROWS} rows.")
        self.n_rows = int(n_rows)
        self._columns = columns
        self._reader: object = None  # the filter that alone may read these rows
        self._sampled: tuple | None = None  # ("poisson" or "without_replacement", rate)

    def blocks(self, size: int) -> Iterator[SimpleNamespace]:
        """Blocks of at most `size` consecutive rows, one attribute per column."""
        for start in range(0, self.n_rows, size):
            yield self.block(slice(start, min(start + size, self.n_rows)))

    def block(self, rows: slice) -> SimpleNamespace:
        """Some consecutive rows; `n_rows` says how many."""
        columns = {k: rows_of(column, rows) for k, column in self._columns.items()}
        return SimpleNamespace(n_rows=rows.stop - rows.start, **columns)

    def total(self, query: Any, state) -> Any:
        """Sum the integers of `query` over all blocks."""
        if self.n_rows <= query.block_rows:
            return query.of_block(self.whole(), state)
        parts = (query.of_block(b, state) for b in self.blocks(query.block_rows))
        total = next(parts)
        for part in parts:
            total = total + part
        return total

    def whole(self) -> SimpleNamespace:
        """All rows, for queries whose terms depend on each other."""
        return self.block(slice(0, self.n_rows))

    def prints(self, fingerprint) -> list:
        """What `fingerprint` says about the columns; private."""
        return [fingerprint(self._columns)]

    def take(self, indices: NDArray) -> Rows:
        """Some of the rows, in this order."""
        indices = np.asarray(indices)
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        columns = {k: rows_of(column, indices) for k, column in self._columns.items()}
        rows = type(self)(len(indices), **columns)
        rows._reader = self._reader
        return rows

    def seen(self, mask: NDArray) -> Rows:
        """The rows where the mask is True: read where they are, without a copy."""
        places = np.flatnonzero(mask).astype(np.uint32 if len(mask) < 1 << 32 else None)
        columns = {
            name: None if column is None else _Seen(column, places)
            for name, column in self._columns.items()
        }
        return Rows(len(places), **columns)

    def only(self, *names: str) -> Rows:
        """The same rows with these columns alone: those that a query reads."""
        rows = type(self)(self.n_rows, **{name: self._columns[name] for name in names})
        rows._reader = self._reader
        return rows

    def with_columns(self, **columns) -> Rows:
        """The same rows with more columns, functions of each row: scores, say."""
        rows = type(self)(self.n_rows, **{**self._columns, **columns})
        rows._reader = self._reader
        return rows

    def __reduce__(self):
        raise TypeError("Private rows are neither pickled nor copied.")

    def __repr__(self) -> str:
        return "Rows(private)"


@dataclass
class _Seen:
    """Some places of a column."""

    column: Any
    places: NDArray

    def rows_at(self, rows):
        return rows_of(self.column, self.places[rows])


def rows_of(column, rows):
    """Some rows of a column, given as a slice or as indices."""
    if type(column) is np.ndarray:
        return column[rows]
    if column is None:
        return None
    part = getattr(column, "rows_at", None)
    if part is not None:
        return part(rows)
    return safe_indexing(column, rows) if hasattr(column, "iloc") else column[rows]


def column_length(columns: dict) -> int:
    """Number of rows of the columns of one table."""
    for column in columns.values():
        if column is not None:
            return column.shape[0] if hasattr(column, "shape") else len(column)
    return 0


def read_rows(read, X, y=None, sensitive_features=None) -> Rows:
    """Open the private rows of a table in memory, in `Batches`, or on a cluster.

    Parameters
    ----------
    read : callable
        ``read(X, y, sensitive_features)`` validates a table, or a batch of it, and
        returns a dict of its private columns. What it finds out about the table that
        is public (number of columns, names) it may store on its estimator.
    X, y, sensitive_features : object
        What `fit` was given.
    """
    if hasattr(X, "make_batches"):
        rows = X.read(read)
    else:
        columns = read(X, y, sensitive_features)
        rows = Rows(column_length(columns), **columns)
    journal = current_journal.get()
    if journal is not None:
        journal.reads(rows)
    return rows


# --- queries --------------------------------------------------------------------------


class Query(ABC):
    """What may be asked of private rows; public and immutable.

    Class attributes
    ----------------
    name : str
        Name in the plan.
    theorem : str
        Page and label of the proof of `sensitivity`, as ``folder/page:label``.
    norm : {"l2", "l1"}
        Norm of the sensitivity: "l2" for Gaussian noise, "l1" for discrete Laplace.
    block_rows : int
        How many rows `of_block` sees at most.
    """

    name: ClassVar[str]
    theorem: ClassVar[str]
    norm: ClassVar[str] = "l2"
    block_rows: ClassVar[int] = 16 * BLOCK_ROWS

    @property
    @abstractmethod
    def n_coordinates(self) -> int:
        """Number of entries of the released value."""

    @property
    def max_rows(self) -> int:
        """Largest table for which the arithmetic is proved to be exact."""
        return MAX_ROWS

    @abstractmethod
    def sensitivity(self, neighboring: str) -> float:
        """By how much the value differs between neighbouring tables, in `norm`."""

    def of_block(self, block: SimpleNamespace, state) -> NDArray[np.int64]:
        """Sum of the rows of one block: exact integers, a pure function of each row."""
        raise NotImplementedError

    def value(self, total: NDArray[np.int64], state) -> NDArray:
        """Turn the integers into the units of `sensitivity`; public arithmetic."""
        return total

    def of_rows(self, rows: Rows, state) -> NDArray:
        """Return the exact value; queries that couple records override this."""
        return self.value(rows.total(self, state), state)


class KeyedQuery(Query):
    """Counts of which some belong to keys that nobody listed.

    `counts` gives the listed counts and a dict of the others by (column, key).
    """

    @property
    @abstractmethod
    def n_keyed_columns(self) -> int:
        """Number of columns with unlisted keys; a record has one key in each."""

    @abstractmethod
    def keys_of_block(self, block: SimpleNamespace) -> dict:
        """Count the keys of one block by (column, key): a pure function of each row."""

    def counts(self, rows: Rows) -> tuple[NDArray, dict]:
        """Exact listed counts, and those of the keys."""
        sums = rows.total(_WithKeys(self), None)
        return self.value(sums.listed, None), sums.keyed


class _WithKeys:
    """A keyed query as a sum over blocks."""

    def __init__(self, query: KeyedQuery):
        self.query, self.block_rows = query, query.block_rows

    def of_block(self, block: SimpleNamespace, state) -> _KeyedSum:
        keyed = Counter(self.query.keys_of_block(block))
        return _KeyedSum(self.query.of_block(block, None), keyed)


@dataclass
class _KeyedSum:
    listed: NDArray
    keyed: Counter

    def __add__(self, other: _KeyedSum) -> _KeyedSum:
        return _KeyedSum(self.listed + other.listed, self.keyed + other.keyed)


# --- plans ----------------------------------------------------------------------------


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

    def events(self, neighboring: str) -> tuple:
        """What the accounting composes."""
        n_draws = self.n_coordinates * self.times
        if self.kind == "pure":
            return (PureEvent(self.parameter * self.times),)
        if self.sampling is not None and self.parameter < math.inf:
            how, rate = self.sampling
            # The dominating pair of Poisson sampling holds for add/remove; replacing a
            # record costs the symmetrised curve (Lemma C), however rows are sampled.
            poisson = how == "poisson" and neighboring == "add_remove"
            kind = PoissonGaussianEvent if poisson else WithoutReplacementGaussianEvent
            return (kind(rate, 1 / self.parameter, self.times, n_draws),)
        return (GaussianEvent(self.parameter * math.sqrt(self.times), n_draws),)


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
        shown = (ThresholdEvent(self.delta),) if self.delta else ()
        return (*super().events(neighboring), *shown)


@dataclass(frozen=True)
class Wrapped:
    """A line of a plan: a wrapped estimator, at the cost of its own guarantee."""

    name: str
    guarantee: PrivacyGuarantee

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

    def events(self, neighboring: str) -> tuple:
        left, right = (_events(plan, neighboring) for plan in (self.left, self.right))
        return (MaximumEvent(left, right),)


@dataclass(frozen=True)
class Combined:
    """Lines whose total cost a theorem of its own states, such as repeat and select.

    They are released at most as often as planned; how often may be secret.

    Attributes
    ----------
    name : str
    event : PrivacyEvent
        What all of them cost together.
    lines : tuple of Release
    theorem : str
        Page and label of the proof of that.
    """

    name: str
    event: PrivacyEvent
    lines: tuple
    theorem: str

    def events(self, neighboring: str) -> tuple:
        return (self.event,)


def _events(plan: Sequence, neighboring: str) -> tuple:
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


# --- the filter -----------------------------------------------------------------------


@dataclass
class PrivacyFilter:
    """Reserve a plan, carry it out, and state what was reserved.

    Parameters
    ----------
    estimator : object
        Whose fit this is; its name labels the spend, and `reserve` makes it unfitted.
    plan : sequence of Release, Wrapped or Split
        Public numbers only.
    delta : float
        Where the guarantee is stated.
    neighboring : str
        Which tables are neighbours.
    mechanism : str
        What is released, in plain words.
    facts : sequence, default=()
        Facts taken as public.
    noise : NoiseSource
        Where noise and draws come from.
    ledger : PrivacyLedger, default=None
    """

    estimator: Any
    plan: Sequence
    delta: float
    neighboring: str
    mechanism: str
    noise: NoiseSource
    facts: Sequence = ()
    ledger: Any = None
    cost: PrivacyGuarantee | None = None  # what the ledger is charged, if not the whole
    log: list = field(default_factory=list)

    def __post_init__(self):
        self.plan = tuple(self.plan)
        combined = [line for line in self.plan if isinstance(line, Combined)]
        inner = [line for one in combined for line in one.lines]
        lines = [line for line in self.plan if not isinstance(line, Combined)] + inner
        self._lines = {line.name: line for line in _unique(lines)}
        self._left = {line.name: getattr(line, "times", 1) for line in lines}
        self._at_most = {line.name for line in inner}
        self._reserved = False
        self._branches: list[PrivacyFilter] = []
        self._last: tuple = (None, None, None)  # a query, its line and mechanism
        self._theorems: list[str] = []  # of the queries that were released

    @cached_property
    def planned(self) -> PrivacyGuarantee:
        """The guarantee that `reserve` will pay for."""
        return PrivacyGuarantee.from_events(
            _events(self.plan, self.neighboring),
            delta=self.delta,
            neighboring=self.neighboring,
            mechanism=self.mechanism,
            assumptions=self.facts,
            noise_is_secure=self.noise.is_secure,
        )

    def reserve(self) -> None:
        """Take the cost of the plan out of the ledger; the estimator is then unfitted.

        Call it after everything that can be checked cheaply, before the first query.
        """
        if self._reserved:
            raise PlanError("A plan is reserved once.")
        journal = current_journal.get()
        if journal is None:
            self._spend()
        elif getattr(self.estimator, "_can_resume", False) and all(
            isinstance(line, Release) for line in self.plan
        ):
            journal.reserve(self, self._spend)
        else:
            raise ValueError(NOT_RESUMED)
        unfit = getattr(self.estimator, "_unfit", None)
        if unfit is not None:
            unfit()
        self._reserved = True

    def _spend(self, journal: str = "") -> None:
        if self.ledger is None:
            return
        named = isinstance(self.estimator, str)  # a function has no estimator
        label = self.estimator if named else type(self.estimator).__name__
        if journal:
            label = f"{label} ({journal})"
            if any(spend["label"] == label for spend in self.ledger.spends()):
                return
        self.ledger.spend(self.cost or self.planned, label=label)

    def release(
        self, query: Query, rows: Rows, state=None, *, name=None, parameter=None
    ) -> NDArray:
        """Release the value of `query` with the noise that the plan paid for.

        Parameters
        ----------
        query : Query
        rows : Rows
            That belong to this filter.
        state : object, default=None
            Released numbers that the query depends on.
        name : str, default=None
            Line of the plan; the name of the query by default.
        parameter : float, default=None
            Where a theorem states the total (`Combined`), what it pays for this one.
        """
        line = self._take_line(query.name if name is None else name, Release)
        if parameter is not None:
            if line.name not in self._at_most:
                raise PlanError(f"The parameter of {line.name!r} is in the plan.")
            line = replace(line, parameter=parameter)
        self._check_reader(rows)
        if rows.n_rows > query.max_rows:
            raise ValueError(f"A table may have at most {query.max_rows} rows here.")
        if line.sampling is not None and line.parameter < math.inf:
            _check_sample(line.name, line.sampling, rows._sampled)
        mechanism = self._mechanism(query, line)
        if query.n_coordinates > line.n_coordinates:
            raise PlanError(f"{line.name!r} releases more numbers than planned.")

        def draw():
            with np.errstate(all="ignore"):
                exact = query.of_rows(rows, state)
            released = mechanism.release(exact, self.noise)
            return _taped(query, mechanism, self.neighboring, exact, released)

        journal = current_journal.get()
        if journal is None:
            released = draw()
        else:
            if journal.holds() and not self.noise.is_secure:
                # A seeded source then goes on as if the fit had not been interrupted.
                mechanism.release(np.zeros(query.n_coordinates, int), self.noise)
            released = journal.value("released", line.name, draw)
        self._note(line, query, mechanism)
        return released

    def _note(self, line: Release, query: Query, mechanism) -> None:
        self.log.append((line.name, mechanism.sensitivity, line.parameter))
        if line.name not in self._at_most:
            self._theorems.append(query.theorem)

    def public(self, draw) -> NDArray:
        """Random numbers that are public: ``draw()``, and the same in a resumed fit.

        Parameters
        ----------
        draw : callable
            Returns an array: initial weights, directions. Never draws or keys.
        """
        journal = current_journal.get()
        if journal is None:
            return draw()
        drawn = draw() if journal.holds() else None
        return journal.value("public", "", draw if drawn is None else lambda: drawn)

    def release_keyed(self, query: KeyedQuery, rows: Rows, *, name=None):
        """Release counts, and those of unlisted keys that pass a threshold.

        The noise of a key depends on a fresh secret and the key alone, so that neither
        the number of draws nor the noise of another key tells which keys there are.

        Returns
        -------
        counts : ndarray of shape (query.n_coordinates,)
        shown : dict
            Noisy count by (column, key), in the order of columns and keys.
        """
        line = self._take_line(query.name if name is None else name, KeyedRelease)
        self._check_reader(rows)
        if rows.n_rows > query.max_rows:
            raise ValueError(f"A table may have at most {query.max_rows} rows here.")
        mechanism = self.mechanism_of(query, name=line.name)
        if query.n_coordinates > line.n_coordinates:
            raise PlanError(f"{line.name!r} releases more numbers than planned.")
        secret = self.noise.key(32)

        def draw():
            with np.errstate(all="ignore"):
                exact, keyed = query.counts(rows)
            counts = mechanism.release(exact, self.noise)
            keys = sorted(keyed)
            texts = [_key_bytes(*key) for key in keys]
            noisy = mechanism.release_keyed([keyed[k] for k in keys], texts, secret)
            threshold = mechanism.key_threshold(line.delta, query.n_keyed_columns)
            pairs = zip(keys, noisy.tolist(), strict=True)
            shown = [[*key, count] for key, count in pairs if count >= threshold]
            buckets = np.zeros(_KEY_BUCKETS)
            for text, key in zip(texts, keys, strict=True):
                buckets[zlib.crc32(text) % _KEY_BUCKETS] += keyed[key]
            released = json.dumps([counts.tolist(), shown]).encode()
            exact = np.concatenate([exact, buckets])
            released = np.frombuffer(released, dtype=np.uint8)
            return _taped(query, mechanism, self.neighboring, exact, released)

        journal = current_journal.get()
        if journal is None:
            released = draw()
        else:
            if journal.holds() and not self.noise.is_secure:
                mechanism.release(np.zeros(query.n_coordinates), self.noise)
            released = journal.value("released", line.name, draw)
        self._note(line, query, mechanism)
        counts, shown = json.loads(released.tobytes())
        return np.array(counts), {(column, key): count for column, key, count in shown}

    def mechanism_of(self, query: Query, *, name=None, parameter=None):
        """The mechanism of a planned release: its noise is public."""
        line = self._lines[query.name if name is None else name]
        if parameter is not None:
            line = replace(line, parameter=parameter)
        return self._mechanism(query, line)

    def _mechanism(self, query: Query, line: Release):
        """The mechanism of a release; that of the last one is at hand."""
        last_query, last_line, mechanism = self._last
        if query is not last_query or line is not last_line:
            mechanism = self._new_mechanism(query, line)
            self._last = query, line, mechanism
        return mechanism

    def _new_mechanism(self, query: Query, line: Release):
        sensitivity = query.sensitivity(self.neighboring)
        if line.kind == "pure":
            if query.norm != "l1":
                raise PlanError("Discrete Laplace noise needs a sensitivity in l1.")
            return DiscreteLaplaceMechanism(int(sensitivity), line.parameter)
        if query.norm != "l2":
            raise PlanError("Gaussian noise needs a sensitivity in l2.")
        return GaussianMechanism(sensitivity, line.parameter, query.n_coordinates)

    def choose(self, utilities, sensitivity: float, *, name: str, parameter) -> int:
        """Choose an index of a large utility by permute-and-flip.

        Parameters
        ----------
        utilities : sequence of float
            Exact and private.
        sensitivity : float
            Largest change of one utility.
        name : str
            Line of the plan, of kind "selection", whose total a theorem states.
        parameter : float
            Epsilon of the choice.
        """
        line = self._take_line(name, Release)
        if line.kind != "selection" or line.name not in self._at_most:
            raise PlanError(f"{name!r} is not a selection.")
        # Adding a record can only raise sums of scores that are not negative.
        monotonic = self.neighboring == "add_remove"
        mechanism = PermuteAndFlip(sensitivity, parameter, monotonic)
        self.log.append((line.name, sensitivity, parameter))
        return mechanism.release(utilities, self.noise)

    def scale(self, query: Query, *, name=None) -> float:
        """Public scale of the noise of a planned release (0 without noise)."""
        return self.mechanism_of(query, name=name).scale

    def split(self, rows: Rows, p: float, *, name: str = "split"):
        """Part the rows by one independent draw each, True with probability `p`.

        Returns
        -------
        left, right : tuple of (PrivacyFilter, Rows)
            `left` gets the rows whose draw is True. Each filter reads its own rows
            only; the parent's rows cannot be read any more.
        """
        line = self._take_line(name, Split)
        self._check_reader(rows)
        heads = self.random_split(rows.n_rows, p)
        branches = []
        for plan, chosen in ((line.left, heads), (line.right, ~heads)):
            branch = PrivacyFilter(
                self.estimator,
                plan,
                delta=self.delta,
                neighboring=self.neighboring,
                mechanism=self.mechanism,
                noise=self.noise,
                log=self.log,
            )
            branch._reserved = True
            part = rows.seen(chosen)
            part._reader = branch
            branches.append((branch, part))
        self._branches += [branch for branch, _ in branches]
        rows._reader = _NOBODY
        return tuple(branches)

    def random_split(self, n_rows: int, p: float) -> NDArray[np.bool_]:
        """One independent draw per row number, whatever the number of rows.

        Keyed by a fresh secret: the draw of row i is the same in a table with more
        rows behind it, and however the rows are cut into batches.
        """
        return keyed_draws(self.noise.key(32), n_rows, p)

    def uniform(self) -> float:
        """A secret number from (0, 1): how often something is done, say."""
        return float(self.noise.uniform(()))

    def integers(self, high: int, size: int) -> NDArray[np.int64]:
        """Secret integers from 0 to `high` - 1: which fold every row is in, say."""
        return self.noise.integers(0, high, size)

    def sample(self, rows: Rows, q: float) -> Rows:
        """A Poisson sample: each row by a draw of its own."""
        self._check_reader(rows)
        sampled = rows.take(self.random_split(rows.n_rows, q))
        sampled._sampled = ("poisson", q)
        return sampled

    def draw(self, rows: Rows, strata: Sequence, drawn: NDArray, q: float) -> Rows:
        """Rows drawn without replacement from public strata, at a rate of at most q."""
        self._check_reader(rows)
        chosen = [
            own[self.noise.choice(len(own), int(n))]
            for own, n in zip(strata, drawn, strict=True)
        ]
        sampled = rows.take(np.concatenate(chosen))
        sampled._sampled = ("without_replacement", q)
        return sampled

    def fit_wrapped(self, estimator, name: str, *args, **params):
        """Fit a wrapped estimator of the plan, in one guarded call.

        Parameters
        ----------
        estimator : estimator
            Unfitted.
        name : str
            Its line of the plan.
        *args, **params
            What its `fit` takes: rows of this filter, as the estimator wants them.
        """
        line = self._take_line(name, Wrapped)
        self.log.append((line.name, None, line.guarantee.epsilon))
        return fit_wrapped(estimator, *args, **params)

    def spend_unused(self, name: str) -> None:
        """Pass over a wrapped estimator that has no rows: it is paid for."""
        line = self._take_line(name, Wrapped)
        self.log.append((line.name, None, line.guarantee.epsilon))

    def guarantee(self) -> PrivacyGuarantee:
        """State the reserved plan; raise if part of it was never released."""
        self._check_done()
        return replace(self.planned, proofs=tuple(dict.fromkeys(self._proofs())))

    def _proofs(self) -> Iterator[str]:
        """Where to read why: what a plan of public numbers says, not what happened."""
        for line in self.plan:
            if isinstance(line, Combined):
                yield _link(line.theorem)
            elif isinstance(line, Split):
                yield _link("privacy/composition:splits")
            elif isinstance(line, Wrapped):
                yield from line.guarantee.proofs
        yield from map(_link, self._theorems)
        for branch in self._branches:
            yield from branch._proofs()

    def _check_done(self) -> None:
        missing = [
            name
            for name, times in self._left.items()
            if times and name not in self._at_most
        ]
        if missing:
            raise PlanError(f"Reserved and never released: {missing}.")
        for branch in self._branches:
            branch._check_done()

    def _take_line(self, name: str, kind: type):
        if not self._reserved:
            raise PlanError("Reserve the plan before the first release.")
        line = self._lines.get(name)
        if not isinstance(line, kind) or self._left[name] < 1:
            raise PlanError(f"{name!r} is not in the plan, or was released before.")
        self._left[name] -= 1
        return line

    def _check_reader(self, rows: Rows) -> None:
        if rows._reader is None:
            rows._reader = self
        if rows._reader is not self:
            raise PlanError("These rows belong to another branch of a random split.")


def _check_sample(name: str, paid: tuple, drawn: tuple | None) -> None:
    (how, rate), (was, at_rate) = paid, drawn or ("", math.inf)
    if was != how or at_rate > rate:
        raise PlanError(f"{name!r} is paid for on a sample of rate {rate}.")


def _link(theorem: str) -> str:
    """A theorem as a link into the documentation."""
    page, _, label = theorem.partition(":")
    return f"{page}.html#{label.replace('_', '-')}"


_NOBODY = object()
_KEY_BUCKETS = 1 << 12  # a recorder sees the counts of keys by a hash of the key


def _key_bytes(column: int, key: str) -> bytes:
    return f"{column}:{key}".encode("utf-8", "surrogatepass")


def _unique(plan: Sequence) -> Sequence:
    if len({line.name for line in plan}) < len(plan):
        raise PlanError("The lines of a plan need different names.")
    return plan


def keyed_draws(key: bytes, n_rows: int, p: float, start: int = 0) -> NDArray[np.bool_]:
    """Draws of rows `start`, ..., `start` + `n_rows` - 1 under a secret key.

    A draw is True with probability `p`, rounded down to a multiple of 2**-64.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p must be in [0, 1], got {p!r}.")
    if p == 1.0:
        return np.ones(n_rows, dtype=bool)
    stop = start + n_rows
    heads = [np.empty(0, dtype=bool)]
    threshold = np.uint64(int(p * 2**64))
    for chunk in range(start // _DRAW_ROWS, -(-stop // _DRAW_ROWS)):
        first = chunk * _DRAW_ROWS
        words = _draw_words(key, chunk, min(stop - first, _DRAW_ROWS))
        heads.append(words[max(start - first, 0) :] < threshold)
    return np.concatenate(heads)


def _draw_words(key: bytes, chunk: int, n_words: int) -> NDArray[np.uint64]:
    # Of an extendable-output function a shorter output is the start of a longer one.
    stream = hashlib.shake_256(key + chunk.to_bytes(8, "little"))
    return np.frombuffer(stream.digest(8 * n_words), dtype="<u8")


NOT_RESUMED = (
    "This fit cannot be resumed: fit it outside of `resume`. The linear models, the "
    "networks, DPTableEncoder and DPBarycenterTransformer can be; what parts its rows "
    "at random or wraps an estimator cannot."
)

# The journal of :func:`fairpriv_sklearn.distributed.resume`, while one is open.
current_journal: ContextVar = ContextVar("current_journal", default=None)


# --- recorder -------------------------------------------------------------------------


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


def _taped(query, mechanism, neighboring, exact, released) -> NDArray:
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
