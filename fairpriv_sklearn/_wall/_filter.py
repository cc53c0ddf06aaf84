"""The filter: a plan is reserved, carried out, and stated."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._shared.callers import spent
from .._shared.guarded import fit_wrapped
from ..mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    NoiseSource,
    PermuteAndFlip,
    PublicDraws,
    noise_source,
)
from ..privacy import PrivacyGuarantee, roomier
from ._draws import keyed_draws
from ._plan import (
    Combined,
    KeyedRelease,
    Release,
    Split,
    Wrapped,
    in_words,
    plan_events,
    plan_is_secure,
)
from ._query import KeyedQuery, Query
from ._rows import Rows, current_journal, refuse_many_rows

NOT_RESUMED = (
    "This fit cannot be resumed: fit it outside of `resume`. The linear models, the "
    "networks, the generators, DPTableEncoder and DPBarycenterTransformer can be; what "
    "parts its rows at random or wraps an estimator cannot."
)


class PlanError(RuntimeError):
    """A release that was not planned, or a plan that was not carried out: a bug."""


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
    noise: NoiseSource
    facts: Sequence = ()
    ledger: Any = None
    cost: PrivacyGuarantee | None = None  # what the ledger is charged, if not the whole
    leaves_room: bool = False  # for what wrapped estimators gain by fewer draws
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
        events = plan_events(self.plan, self.neighboring)
        planned = PrivacyGuarantee.from_events(
            events,
            delta=self.delta if events else 0.0,  # nothing released costs nothing
            neighboring=self.neighboring,
            mechanism=in_words(self.plan),
            assumptions=self.facts,
            noise_is_secure=self.noise.is_secure and plan_is_secure(self.plan),
        )
        return roomier(planned) if self.leaves_room else planned

    def reserve(self) -> None:
        """Take the cost of the plan out of the ledger; the estimator is then unfitted.

        Call it after everything that can be checked cheaply, before the first query.
        """
        if self._reserved:
            raise PlanError("A plan is reserved once.")
        _refuse_other_rounding()
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
        spent()
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
        mechanism = self._checked(query, line, rows)

        def draw():
            with np.errstate(all="ignore"):
                exact = query.of_rows(rows, state)
            released = mechanism.release(exact, self.noise)
            return self._crossed(query, mechanism, exact, released)

        return self._released(query, line, mechanism, draw)

    def _crossed(self, query: Query, mechanism, exact, released) -> NDArray:
        """What crosses the wall; our tests look here at what it was without noise."""
        return released

    def _checked(self, query: Query, line: Release, rows: Rows):
        """The mechanism for some rows, which the plan has to allow."""
        self._check_reader(rows)
        refuse_many_rows(rows.n_rows, query.max_rows)
        if line.sampling is not None and line.parameter < math.inf:
            _check_sample(line.name, line.sampling, rows._sampled)
        mechanism = self._mechanism(query, line)
        if query.n_coordinates > line.n_coordinates:
            raise PlanError(f"{line.name!r} releases more numbers than planned.")
        return mechanism

    def _released(self, query: Query, line: Release, mechanism, draw) -> NDArray:
        """What is drawn, or what a journal has in its place; written down."""
        journal = current_journal.get()
        if journal is None:
            released = draw()
        else:
            if journal.holds() and not self.noise.is_secure:
                # A seeded source then goes on as if the fit had not been interrupted.
                mechanism.release(np.zeros(query.n_coordinates, int), self.noise)
            released = journal.value("released", line.name, draw)
        self.log.append((line.name, mechanism.sensitivity, line.parameter))
        if line.name not in self._at_most:
            self._theorems.append(query.theorem)
        return released

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

    def public_draws(self) -> PublicDraws:
        """A stream of random numbers that are public, the same in a resumed fit."""
        public = self.noise.public()
        if current_journal.get() is None or not public.is_secure:
            return public
        words = self.public(lambda: public.uint64(2))
        return noise_source(int(words[0]) << 64 | int(words[1])).public()

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
        mechanism = self._checked(query, line, rows)
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
            released = json.dumps([counts.tolist(), shown]).encode()
            released = np.frombuffer(released, dtype=np.uint8)
            return self._crossed(query, mechanism, (exact, keyed), released)

        released = self._released(query, line, mechanism, draw)
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
        mechanism = GaussianMechanism(sensitivity, line.parameter, query.n_coordinates)
        if isinstance(query, KeyedQuery) and mechanism.grid > 1.0:
            # Counts of keys are rounded as well, which twice the noise pays for.
            mechanism = replace(mechanism, mu=line.parameter / 2)
        return mechanism

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
            branch = replace(self, plan=plan, facts=(), ledger=None, cost=None)
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
            own.take(self.noise.choice(len(own), int(n)))
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


def open_wall(
    estimator, plan: Sequence, *, facts: Sequence, noise: NoiseSource, neighboring=None
) -> PrivacyFilter:
    """A filter for the fit of an estimator of ours, its plan reserved.

    `neighboring` says whether it differs from the estimator's argument.
    """
    wall = PrivacyFilter(
        estimator,
        plan,
        delta=estimator.delta,
        neighboring=neighboring or estimator.neighboring,
        facts=facts,
        noise=noise,
        ledger=estimator.ledger,
    )
    wall.reserve()
    return wall


def _refuse_other_rounding() -> None:
    """Refuse sums that are not what the proofs say, before anything is spent."""
    one, little = 1.0, 2.0**-54  # a quarter of what is next to one
    if not -(-one - little) == one == one + little < one + 3 * little:
        raise RuntimeError(
            "This process does not round to the nearest floating-point number, and "
            "sums that a guarantee counts on are not exact then: some library has set "
            "another rounding mode (fesetround); set FE_TONEAREST again."
        )


def _check_sample(name: str, paid: tuple, drawn: tuple | None) -> None:
    (how, rate), (was, at_rate) = paid, drawn or ("", math.inf)
    if was != how or at_rate > rate:
        raise PlanError(f"{name!r} is paid for on a sample of rate {rate}.")


def _link(theorem: str) -> str:
    """A theorem as a link into the documentation."""
    page, _, label = theorem.partition(":")
    return f"{page}.html#{label.replace('_', '-')}"


_NOBODY = object()


def _key_bytes(column: int, key: str) -> bytes:
    return f"{column}:{key}".encode("utf-8", "surrogatepass")


def _unique(plan: Sequence) -> Sequence:
    if len({line.name for line in plan}) < len(plan):
        raise PlanError("The lines of a plan need different names.")
    return plan
