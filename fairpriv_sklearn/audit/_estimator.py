"""The auditor: neighbours of its own making, replay, and bets on real outputs."""

import inspect
import math
import operator
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._shared.arguments import count, fits, listed, number
from .._shared.arguments import seed as a_seed
from .._shared.rounded import round_down, round_up
from .._wall import PrivacyGuarantee, compose_epsilon, gaussian_epsilon
from ._bounds import check_confidence
from ._claim import Claim, claim_of
from ._contest import Contest, Light, apart, tests_of
from ._outcome import Outcome, attempt, leaf_differences, leaves_of, listening, run
from ._replay import (
    Finding,
    additive_noise,
    compare,
    loss_epsilon,
    maker_of,
    observed,
    quoted,
    realised_events,
    refused,
    spent_events,
    unbooked,
)
from ._tables import (
    SIZES_PUBLIC,
    Neighbours,
    Table,
    as_table,
    named_columns,
    neighbours,
)
from ._tape import Tape

_SLACK = 1e-6
_clock = time.monotonic
_MAX_FITS = 60_000
_TRAINING = 48  # fits on each table from which the statistics are chosen
# Pairs that are audited by their outputs, and fits to each table, round by round.
_ROUNDS = [(6, 256), (3, 1024), (1, 10**9)]
_FLOATING = (
    "floating-point noise is added to a floating-point number: which numbers can come "
    "out depends on the private one (Mironov, 2012)"
)
_SEEDS = 5  # fits on each table to recognise additive noise, and what draws hide


@dataclass
class AuditReport:
    """What an audit saw, from `audit_estimator`.

    Parameters
    ----------
    estimator : str
        Name of its class.
    claim : str
        What was audited.
    claimed_epsilon, claimed_delta : float
        The claim as numbers.
    violated : bool
        Whether the claim is refuted: by an exact difference, or by a lower bound above
        it, corrected for all that was tried.
    conclusive : bool
        Violated; or all pairs were replayed, or their noise was recognised in all
        outputs; or the bound reached half of what was claimed, so that a mistake of a
        factor two would have shown.
    epsilon_lower : float
        Largest lower bound on epsilon at the claim's delta.
    confidence : float
        With which `epsilon_lower` holds, for all that was tried together.
    findings : list of Finding
        What was seen. Those with `violates` refute the claim.
    bounds : dict
        Name of the pair to the lower bound reached on it.
    n_fits : int
        Fits that were made.
    n_pairs : int
        Pairs of tables that were tried.
    seconds : float
        Time that it took.
    largest_ratio : float
        Largest change of a released exact value over the sensitivity claimed for it;
        NaN where nothing was replayed.
    worst : Neighbours or None
        The pair behind the largest bound, or behind the first violation.
    """

    estimator: str
    claim: str
    claimed_epsilon: float
    claimed_delta: float
    violated: bool = False
    conclusive: bool = False
    epsilon_lower: float = 0.0
    confidence: float = 0.999
    findings: list[Finding] = field(default_factory=list)
    bounds: dict[str, float] = field(default_factory=dict)
    n_fits: int = 0
    n_pairs: int = 0
    seconds: float = 0.0
    largest_ratio: float = math.nan
    worst: Neighbours | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts, without any table.

        Returns
        -------
        dict
            The fields by name; infinity is the string "inf".
        """
        plain = {**vars(self), "worst": self.worst and self.worst.name}
        plain["findings"] = [finding.to_dict() for finding in self.findings]
        plain["bounds"] = {name: _plain(bound) for name, bound in self.bounds.items()}
        return {name: _plain(value) for name, value in plain.items()}

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not violated"
        if not self.conclusive:
            verdict += ", not conclusive"
        lines = [
            f"{self.estimator}: {self.claim}: {verdict}.",
            f"epsilon >= {round_down(self.epsilon_lower)} at delta = "
            f"{round_up(self.claimed_delta)} with confidence "
            f"{round_down(self.confidence)}; {self.n_fits} fits to "
            f"{self.n_pairs} pair{'s' * (self.n_pairs != 1)} of tables in "
            f"{self.seconds:.1f} s.",
        ]
        lines += [
            f"- {'VIOLATION' if f.violates else 'note'} ({f.kind}; {f.pair}): {f.text}"
            for f in self.findings
        ]
        return "\n".join(lines)


def audit_estimator(
    estimator,
    X,
    y=None,
    *,
    sensitive_features=None,
    claim=None,
    neighboring=None,
    pairs=None,
    confidence=0.999,
    max_seconds=60,
    max_fits=None,
    random_state=None,
) -> AuditReport:
    r"""Try to refute the privacy guarantee of an estimator.

    Neighbouring tables are made from the one that is given (`neighbours`). Where noise
    comes from the mechanisms of this library or of diffprivlib, one pair of fits is
    replayed: the second is fed the noisy values of the first, and nothing else may
    differ. Where noise is drawn from NumPy and added, it is recognised and the loss is
    computed. Everything else is a black box: bets on the outputs of repeated fits give
    a lower bound,

    .. math:: P(S) \le e^\epsilon P'(S) + \delta \quad \text{for all events } S .

    .. rubric:: Privacy

    Reads exact private values and fits many times: for audits by the holder of the
    data, or on simulated data. `findings` hold no cell of a table.

    Parameters
    ----------
    estimator : estimator
        Unfitted; cloned for every fit, without its ledgers: nothing is released that
        they would pay for. A `Pipeline` is one too. A seed that was passed
        to it is replaced by a fresh one for every fit; one that it sets itself is not.
    X : array-like of shape (n_samples, n_features)
        Features, numbers.
    y : array-like of shape (n_samples,) or None, default=None
        Target.
    sensitive_features : array-like of shape (n_samples,) or None, default=None
        Handed to `fit` if given.
    claim : float, tuple, mapping, PrivacyGuarantee or None, default=None
        Epsilon, (epsilon, delta), ``{"mu": mu}`` or a guarantee. None: `privacy_` of
        the fitted estimator, or its `epsilon` and `delta`.
    neighboring : {"replace_one", "add_remove"} or None, default=None
        Which tables are neighbours. None: what the claim or the estimator says.
    pairs : list of Neighbours, or of pairs of tables, or None, default=None
        Instead of those of `neighbours`.
    confidence : float, default=0.999
        Of the lower bound, for all that is tried together. Range: (0, 1).
    max_seconds : float, default=60
        When to stop.
    max_fits : int or None, default=None
        How many fits to make at most. None: 60,000.
    random_state : int, RandomState instance or None, default=None
        Fixes the audit's own choices, and not the noise of the estimator.

    Returns
    -------
    AuditReport
        With `violated`, `conclusive`, `epsilon_lower`, `findings`.

    Raises
    ------
    ValueError
        If the estimator cannot be fitted to the table, or claims nothing.

    See Also
    --------
    replay : White box only, for pairs of one's own.

    Notes
    -----
    That nothing is found proves nothing: an audit can refute a claim, not prove it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from fairpriv_sklearn.audit import audit_estimator
    >>> class NoisyMean(BaseEstimator):
    ...     def fit(self, X, y=None):
    ...         noise = np.random.default_rng().laplace(scale=1 / len(X))
    ...         self.mean_ = X.mean() + noise  # forgot to clip
    ...         return self
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> report = audit_estimator(NoisyMean(), X, claim=1.0)
    >>> report.violated, [finding.kind for finding in report.findings]
    (True, ['floating_point', 'loss'])
    """
    audit = _Audit(
        unbooked(fits("estimator", estimator)),
        Table(X, y, sensitive_features),
        confidence=check_confidence(confidence),
        max_seconds=number(0, math.inf)("max_seconds", max_seconds),
        max_fits=_MAX_FITS if max_fits is None else count(1)("max_fits", max_fits),
        random_state=check_random_state(a_seed("random_state", random_state)),
    )
    state = np.random.get_state()
    try:
        return audit.run(claim, neighboring, pairs)
    finally:
        np.random.set_state(state)


def _two_tables(pair) -> tuple:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError("pairs must list pairs of tables, as audit.neighbours does.")
    return tuple(pair)


class _Audit:
    """One audit: what was tried so far."""

    def __init__(
        self, estimator, table, *, confidence, max_seconds, max_fits, random_state
    ):
        self.prototype = estimator
        self.table = table
        self.confidence = confidence
        self.max_fits = max_fits
        self.start = _clock()
        self.deadline = self.start + 0.9 * max_seconds
        self.rng = random_state
        self.seeds = _given_seeds(estimator)
        self.fresh = maker_of(estimator)
        self.started_again = False

    def run(self, claim, neighboring, pairs) -> AuditReport:
        self.claim = claim_of(claim, self._first_fit(), neighboring)
        claim, name = self.claim, type(self.prototype).__name__
        told = name, str(claim), claim.epsilon, claim.delta
        self.report = AuditReport(*told, confidence=self.confidence, n_fits=1)
        if self.seeds:
            self._note(
                f"{', '.join(self.seeds)} fixes the noise: the release is not private "
                "for anybody who knows the seed; audited with fresh seeds"
            )
        if self.claim.epsilon == math.inf or self.claim.delta == 1.0:
            self._note("the claim is infinite: there is nothing to refute")
            return self._done()
        pairs = self._pairs(pairs)
        suspects = self._look(pairs)
        if not self.report.violated:
            self._refits(pairs)
        if not self.report.violated:
            self._bet(suspects)
        return self._done()

    # --- fits -------------------------------------------------------------------------

    def make(self):
        """A fresh estimator; seeds that were passed to it are drawn anew."""
        estimator = self.fresh()
        if self.seeds:
            fresh = {name: int(self.rng.randint(2**31 - 1)) for name in self.seeds}
            estimator.set_params(**fresh)
        return estimator

    def _first_fit(self):
        estimator = self.make()
        outcome = run(estimator, self.table)
        if outcome.exception is not None:
            # Its own words may quote rows: the auditor, who may look, fits it alone.
            raise ValueError(
                "The estimator could not be fitted to X, y and sensitive_features: "
                f"{type(outcome.exception).__name__}; its own fit says why."
            )
        return estimator

    def _observed(self, table, seed, tape=None) -> Outcome:
        self.report.n_fits += 1
        return observed(self._made(seed), table, seed, tape)

    def _made(self, seed):
        """A new estimator; seeds that are drawn anew are the same for the same seed."""
        state = self.rng.get_state()
        self.rng.seed(seed)
        try:
            return self.make()
        finally:
            self.rng.set_state(state)

    def _out_of_time(self, share=1.0) -> bool:
        return _clock() > self._until(share) or self.report.n_fits >= self.max_fits

    def _until(self, share) -> float:
        """The time at which so much of the time is over."""
        return self.start + share * (self.deadline - self.start)

    # --- what is tried ----------------------------------------------------------------

    def _pairs(self, pairs) -> list[Neighbours]:
        if pairs is None:
            relation = self.claim.neighboring
            made = neighbours(
                self.table.X,
                self.table.y,
                sensitive_features=self.table.sensitive_features,
                neighboring="replace_one" if relation in SIZES_PUBLIC else relation,
            )
            kept = [pair for pair in made if _same_sizes(pair, relation)]
            return [named_columns(pair, self.table.X) for pair in kept]
        return [
            pair
            if isinstance(pair, Neighbours)
            else Neighbours(f"pair {i}", *map(as_table, _two_tables(pair)))
            for i, pair in enumerate(listed("pairs", pairs), 1)
        ]

    def _look(self, pairs) -> list[tuple[float, Neighbours]]:
        """One pair of fits for each pair of tables; those worth more, with a score."""
        suspects, replayed, failed = [], 0, 0
        for pair in pairs:
            if self._out_of_time(0.6) or self.report.violated:
                break
            self.report.n_pairs += 1
            first = self._observed(pair.first, 1)
            second = self._observed(pair.second, 1, Tape(replay=first.tape))
            failed += bool(first.error and second.error)
            if refused(pair, first, second):
                self._add(quoted(first, second, pair, self.claim.own), pair)
                replayed += 1
                continue
            if _is_white(first, second, self.claim):
                replayed += 1
                self._replayed(pair, first, second)
            else:
                self._texts(pair, first, second)
                score = self._score(pair, first, second)
                replayed += score == 0.0
                if score > 0:
                    suspects.append((score, pair))
        self.report.conclusive = replayed == len(pairs) and 2 * failed < len(pairs)
        if 2 * failed >= self.report.n_pairs > 0:
            self._note(
                f"{failed} of {self.report.n_pairs} pairs could not be fitted, to "
                "neither of their tables: pass others"
            )
        suspects.sort(key=lambda one: -one[0])
        return suspects

    def _replayed(self, pair, first, second):
        findings, ratio = compare(pair, first, second, strict=self.claim.own)
        self._add(findings, pair)
        self.report.largest_ratio = float(np.fmax(self.report.largest_ratio, ratio))
        if first.tape.starts and not self.started_again:
            self._start_again(pair, first)
        if self.report.violated:
            return
        if first.tape.own_coins or first.tape.other_randomness:
            return  # the loss of one outcome of the draws is not that of the fit
        realised = realised_events(first, second)
        self._lower(pair, loss_epsilon(realised, self.claim.delta))
        spent = compose_epsilon(spent_events(first), self.claim.delta)
        # A guarantee states what it composes to; a claim by hand may be rounded.
        slack = 1e-9 if self.claim.own else 1e-3
        if spent > self.claim.epsilon * (1 + slack):
            text = (
                f"the releases cost epsilon = {spent:.7g} together, more than claimed"
            )
            self._add([Finding("overspent", pair.name, text, True)], pair)

    def _start_again(self, pair, first):
        """What was replayed hides where noise came from: fit again, by other seeds."""
        self.started_again = True
        again = self._observed(pair.first, 2).tape.starts
        if any(map(operator.eq, first.tape.starts, again)):
            text = (
                "the noise of the mechanisms starts from the same seed in every fit: "
                "whoever knows it takes the noise off"
            )
            self._add([Finding("seed", pair.name, text, True)], pair)

    def _score(self, pair, first, second) -> float:
        """How far the outputs of a pair are apart, in the noise; 0 if all is known."""
        if pair.hostile and (first.error or second.error):
            return 0.0  # a stranger's model may refuse such tables
        sides = [[first], [second]]
        for seed in range(2, _SEEDS + 1):
            for side, table in zip(sides, (pair.first, pair.second), strict=True):
                side.append(self._observed(table, seed))
        additive = additive_noise(*sides)
        if additive is not None:
            self._once("floating_point", pair, _FLOATING)
            self._lower(pair, additive.epsilon(self.claim.delta, self.claim.epsilon))
            if additive.is_all:
                return 0.0  # nothing is left to bet on
        return apart(*sides)

    def _texts(self, pair, first, second):
        """Note warnings and errors that tell a pair apart; they are no model."""
        hostile = pair.hostile and first.error != second.error
        if hostile or first.texts != second.texts:
            text = "warnings, output or refusals differ between the tables"
            self._once("message", pair, text)

    def _once(self, kind, pair, text):
        """Note a finding, the first of its kind, that refutes nothing."""
        if not any(finding.kind == kind for finding in self.report.findings):
            self._add([Finding(kind, pair.name, text, False)], pair)

    def _lower(self, pair, epsilon):
        """Take in an exact loss."""
        self._bound(pair, epsilon)
        if epsilon > self.claim.epsilon * (1 + _SLACK):
            text = (
                f"the exact outputs and the noise that was drawn give epsilon >= "
                f"{round_down(epsilon)}"
            )
            self._add([Finding("loss", pair.name, text, True)], pair)

    def _refits(self, pairs):
        """What survives of an earlier fit, and of one that was interrupted."""
        if not pairs or self._out_of_time(0.7):
            return
        pair = pairs[0]
        fresh = self._observed(pair.second, 3)
        again = self._observed(pair.second, 3)
        if fresh.error or leaf_differences(fresh.leaves, again.leaves):
            return
        for params in [{}, *_alternatives(self.prototype)]:
            if self._out_of_time(0.75):
                return
            self._refit(pair, fresh, params)
        self._interrupted(pair, fresh)

    def _refit(self, pair, fresh, params):
        model = self._fitted_before(pair.first, params)
        if model is None:
            return
        outcome = observed(model, pair.second, 3)
        self.report.n_fits += 2
        for text in leaf_differences(fresh.leaves, outcome.leaves)[:3]:
            told = f" after {params}" if params else ""
            text = f"{text} is not that of a first fit: an earlier one{told} survives"
            self._add([Finding("refit", pair.name, text, True)], pair)

    def _fitted_before(self, table, params):
        model = self._made(3)
        before = {name: getattr(model, name) for name in params}
        try:
            model.set_params(**params)
            # other arguments may take much longer than those that are audited
            outcome = observed(model, table, 4, Tape(deadline=self._until(0.75)))
            model.set_params(**before)
        except Exception:
            return None
        return None if outcome.error else model

    def _interrupted(self, pair, fresh):
        """A second fit that is interrupted must not state a guarantee for the first."""
        if not self.claim.own or not hasattr(fresh.model, "privacy_"):
            return
        epsilon = getattr(self.prototype, "epsilon", None)
        other = {"epsilon": 2 * epsilon} if isinstance(epsilon, float | int) else {}
        n_events = len(fresh.tape.releases) + len(fresh.tape.draws)
        for at in sorted({0, n_events - 1} if n_events else ()):
            for earlier in (False, True):
                model = (
                    self._fitted_before(pair.first, other) if earlier else self.make()
                )
                if model is None:
                    return
                before = leaves_of(model)
                self.report.n_fits += 1
                with suppress(KeyboardInterrupt):
                    observed(model, pair.second, 3, Tape(interrupt_at=at))
                self._judge_interrupted(pair, model, before)

    def _judge_interrupted(self, pair, model, before):
        if not isinstance(getattr(model, "privacy_", None), PrivacyGuarantee):
            return
        after = leaves_of(model)
        if not any(".privacy_" in one for one in leaf_differences(before, after)):
            return
        names = model.get_params(deep=False) if hasattr(model, "get_params") else ()
        known = tuple(f".{name}" for name in names)
        learnt = set(after) - set(before) - {""}
        if all(path.startswith((".privacy_", *known)) for path in learnt):
            text = "an interrupted fit states a guarantee for what it did not release"
            self._add([Finding("interrupted", pair.name, text, True)], pair)

    # --- black box --------------------------------------------------------------------

    def _bet(self, suspects):
        """Bet on the outputs of the pairs that are farthest apart, in a knock-out."""
        contests = [Contest(pair, self.claim) for _, pair in suspects[: _ROUNDS[0][0]]]
        n_tests = sum(2 * n for n, _ in _ROUNDS) * len(tests_of(self.claim))
        confidence = 1 - (1 - self.confidence) / n_tests
        for contest in contests:
            contest.train(*self._runs(contest.pair, _TRAINING))
        for n_contests, n_runs in _ROUNDS:
            contests.sort(key=lambda one: -one.promise)
            contests = [one for one in contests[:n_contests] if one.learn(confidence)]
            for contest in contests:
                if not (self.report.violated or self._out_of_time()):
                    self._play(contest, n_runs)
        best = max(self.report.bounds.values(), default=0.0)
        self.report.conclusive |= best >= self.claim.epsilon / 2

    def _play(self, contest, n_runs):
        size, done = 64, 0
        while done < n_runs and not self._out_of_time():
            contest.play(*self._runs(contest.pair, size))
            self._judge(contest)
            done += size
            # No event suggests more than the claim: further runs would not refute it.
            if self.report.violated or (done >= 4000 and contest.estimate < 1.08):
                return
            size = min(2 * size, 1024)

    def _runs(self, pair, n) -> tuple[list, list]:
        sides = [], []
        with listening():
            for _ in range(n):
                if self._out_of_time():
                    break
                for side, table in zip(sides, (pair.first, pair.second), strict=True):
                    self.report.n_fits += 1
                    side.append(Light(attempt(self.make(), table)))
        return sides

    def _judge(self, contest):
        for (kind, level, delta), bound in contest.bounds:
            value = bound.value
            if kind == "mu":
                self._bound(contest.pair, gaussian_epsilon(value, self.claim.delta))
            elif delta == self.claim.delta:
                self._bound(contest.pair, value)
            if value > level * (1 + _SLACK):
                name = "mu" if kind == "mu" else f"epsilon at delta = {round_up(delta)}"
                text = (
                    f"{name} >= {round_down(value)} from {bound.n_runs} fits to each "
                    f"table, above {round_up(level)}"
                )
                finding = Finding("bound", contest.pair.name, text, True)
                return self._add([finding], contest.pair)

    # --- report -----------------------------------------------------------------------

    def _bound(self, pair, epsilon):
        bounds = self.report.bounds
        bounds[pair.name] = max(epsilon, bounds.get(pair.name, 0.0))
        if epsilon > self.report.epsilon_lower:
            self.report.epsilon_lower = float(epsilon)
            if not self.report.violated:
                self.report.worst = pair

    def _add(self, findings, pair):
        for finding in findings:
            self.report.findings.append(finding)
            if finding.violates and not self.report.violated:
                self.report.violated = True
                self.report.worst = pair
            certain = finding.kind in ("sensitivity", "leak", "refit", "seed")
            if finding.violates and certain:
                # Not a matter of chance: outputs tell the tables apart for certain,
                # or no statement about them is left.
                self.report.epsilon_lower = max(
                    self.report.epsilon_lower, self.claim.epsilon
                )

    def _note(self, text):
        self.report.findings.append(Finding("note", "all", text, False))

    def _done(self) -> AuditReport:
        self.report.seconds = _clock() - self.start
        self.report.conclusive |= self.report.violated
        return self.report


# --- what kind of estimator it is -----------------------------------------------------


def _given_seeds(estimator) -> list[str]:
    """Seeds that were passed as arguments, unlike those that are defaults."""
    if not hasattr(estimator, "get_params"):
        return []
    found, params = [], estimator.get_params(deep=True)
    for name, value in params.items():
        path, _, last = name.rpartition("__")
        if last != "random_state" or value is None:
            continue
        owner = params.get(path, estimator)
        default = inspect.signature(type(owner).__init__).parameters.get("random_state")
        if default is None or default.default is None:
            found.append(name)
    return found


def _is_white(first: Outcome, second: Outcome, claim: Claim) -> bool:
    """Whether all randomness comes from mechanisms whose values were replayed."""
    tapes = first.tape, second.tape
    if any(tape.draws for tape in tapes):
        return False
    others = [tape.other_randomness for tape in tapes]
    if others[0] != others[1] or (others[0] and claim.neighboring != "replace_one"):
        return False
    if any(tape.releases for tape in tapes):
        return True
    # Nothing released, no randomness: an error, or a model without noise.
    return claim.own and bool(first.error or second.error) and not others[0]


def _same_sizes(pair: Neighbours, relation: str) -> bool:
    tables = pair.first, pair.second
    return all(
        np.array_equal(*(getattr(table, name) for table in tables))
        for name in SIZES_PUBLIC.get(relation, ())
    )


def _alternatives(estimator) -> list[dict]:
    """Other values of arguments that take one of a list of words."""
    constraints = getattr(type(estimator), "_parameter_constraints", {})
    found = []
    for name, options in constraints.items():
        words = [o for option in options for o in getattr(option, "options", ())]
        now = getattr(estimator, name, None)
        if name in ("neighboring", "constraint", "criterion") or now not in words:
            continue
        found += [{name: word} for word in words if word != now]
    return found[:6]


def _plain(value):
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
