"""One pair of fits: what else than the released values tells neighbours apart?"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._shared.arguments import checked, count, fits, listed
from .._shared.rounded import round_up
from .._wall import (
    GaussianEvent,
    PrivacyEvent,
    PrivacyLedger,
    PureEvent,
    gaussian_epsilon,
)
from ._outcome import Outcome, differences, leaf_differences, pickled, run
from ._tables import CANARY, Neighbours, as_table
from ._tape import Tape, fixed_randomness, taped

_SLACK = 1e-9
_MAX_CELLS = 4_000_000
_MONTE_CARLO = 200_000
_SIMPLE = (bool, int, float, str, type(None))  # arguments that need no clones


@dataclass(frozen=True)
class Finding:
    """One thing that an audit saw.

    Parameters
    ----------
    kind : str
        ``"sensitivity"``, ``"loss"``, ``"leak"``, ``"overspent"``, ``"bound"``,
        ``"refit"``, ``"interrupted"``, ``"seed"``, ``"message"``,
        ``"floating_point"`` or ``"note"``.
    pair : str
        Name of the pair of tables.
    text : str
        One sentence; it holds no cell of a table.
    violates : bool
        Whether it refutes the claim.
    """

    kind: str
    pair: str
    text: str
    violates: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts.

        Returns
        -------
        dict
            The fields by name.
        """
        return dict(vars(self))


@dataclass
class ReplayReport:
    """What a replay saw, from `replay`.

    Parameters
    ----------
    findings : list of Finding
        Empty if nothing but the released values differs, and those by no more than
        their mechanisms were told.
    ratios : dict
        Name of the pair to the largest change of a released value over its claimed
        sensitivity; NaN without a release.
    n_pairs : int
        Pairs replayed.
    n_refused : int
        Those of which neither table could be fitted: they tell nothing.
    """

    findings: list[Finding] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    n_pairs: int = 0
    n_refused: int = 0

    @property
    def violated(self) -> bool:
        """Whether a finding refutes the claim."""
        return any(finding.violates for finding in self.findings)

    @property
    def largest_ratio(self) -> float:
        """Largest change over claimed sensitivity of all pairs."""
        return float(np.fmax.reduce([math.nan, *self.ratios.values()]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts.

        Returns
        -------
        dict
            The fields by name.
        """
        ratios = {k: None if math.isnan(v) else v for k, v in self.ratios.items()}
        return {
            "violated": self.violated,
            "findings": [finding.to_dict() for finding in self.findings],
            "ratios": ratios,
            "n_pairs": self.n_pairs,
            "n_refused": self.n_refused,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.n_pairs} pair{'s' * (self.n_pairs != 1)} replayed; "
            f"largest change over claimed sensitivity {round_up(self.largest_ratio)}; "
            f"{'VIOLATED' if self.violated else 'nothing'} found."
        ]
        if self.n_refused:
            lines[0] += (
                f" Neither table of {self.n_refused} of them could be fitted, which "
                "tells nothing."
            )
        return "\n".join(lines + [f"- {f.pair}: {f.text}" for f in self.findings])


@checked(estimator=fits, random_state=count(0, 2**32 - 1))
def replay(estimator, tables, neighbours=None, *, random_state=0):
    """Fit on neighbouring tables with the same released values, and compare.

    The exact values of all releases of the first fit are recorded, and its noisy values
    are released again in the second. Then nothing may differ in what comes out, bit by
    bit: attributes to their depth, pickles, warnings, errors, output; and the exact
    values may differ by what their mechanisms were told. One pair convicts.

    .. rubric:: Privacy

    Reads exact private values: for audits by the holder of the data.

    Parameters
    ----------
    estimator : estimator
        Cloned for every fit, without its ledgers. Its noise has to come from this
        library's mechanisms or from diffprivlib's; others are audited by
        `audit_estimator` from outside.
    tables : list of Neighbours, or list of tables
        From `audit.neighbours`, or tables as tuples (X, y, sensitive_features).
    neighbours : list of tables or None, default=None
        One neighbour for each of `tables`; None if `tables` are pairs already. Of two
        that are not equally long the longer has one row more at its end: a random split
        tosses for row after row, and all behind a missing one would change sides.
    random_state : int, default=0
        Seed of all randomness, the same in both fits.

    Returns
    -------
    ReplayReport
        With `violated`, `findings`, `ratios`.

    See Also
    --------
    audit_estimator : Searches for neighbours, and audits black boxes too.

    References
    ----------
    .. [1] T. Cebere, D. Erb, D. Desfontaines, A. Bellet, J. Fitzsimons, "Privacy in
       Theory, Bugs in Practice: Grey-Box Auditing of Differential Privacy Libraries",
       PETS, 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn import audit
    >>> from fairpriv_sklearn.linear_model import DPLinearRegression
    >>> X = np.linspace(-1, 1, 40).reshape(20, 2)
    >>> model = DPLinearRegression(bounds=(-1, 1), target_bounds=(-1, 1))
    >>> audit.replay(model, audit.neighbours(X, X[:, 0])[:5]).violated
    False
    """
    estimator, report = unbooked(estimator), ReplayReport()
    for pair in _as_pairs(tables, neighbours):
        first, second = replayed(estimator, pair, random_state)
        findings, ratio = compare(pair, first, second)
        report.findings += findings
        report.ratios[pair.name] = ratio
        report.n_pairs += 1
        report.n_refused += bool(first.error and second.error)
    return report


def _as_pairs(tables, neighbours) -> list[Neighbours]:
    if neighbours is None:
        one = isinstance(tables, Neighbours)
        pairs = [tables] if one else listed("tables", tables)
        if not all(isinstance(pair, Neighbours) for pair in pairs):
            raise ValueError(
                "tables must be pairs of audit.neighbours, or pass theirs."
            )
        return pairs
    if not isinstance(tables, list) or not isinstance(neighbours, list):
        tables, neighbours = [tables], [neighbours]
    if len(tables) != len(neighbours):
        raise ValueError("tables and neighbours must be equally many.")
    both = zip(tables, neighbours, strict=True)
    return [
        Neighbours(f"pair {i}", as_table(a), as_table(b))
        for i, (a, b) in enumerate(both, 1)
    ]


def observed(estimator, table, seed: int, tape: Tape | None = None) -> Outcome:
    """Fit an estimator with fixed randomness under a tape.

    Parameters
    ----------
    estimator : estimator
        Unfitted.
    table : Table
    seed : int
    tape : Tape, default=None

    Returns
    -------
    Outcome
    """
    tape = tape or Tape()
    with fixed_randomness(seed), taped(tape, estimator):
        return run(estimator, table, tape)


def replayed(estimator, pair: Neighbours, seed: int) -> tuple[Outcome, Outcome]:
    """Return the outcomes on both tables, the second with the values of the first."""
    first = observed(fresh_copy(estimator), pair.first, seed)
    tape = Tape(replay=first.tape)
    return first, observed(fresh_copy(estimator), pair.second, seed, tape)


def unbooked(estimator):
    """Return an estimator whose fits no ledger pays for: an audit releases nothing."""
    if not hasattr(estimator, "get_params"):
        return estimator
    params = estimator.get_params(deep=True).items()
    ledgers = [name for name, value in params if isinstance(value, PrivacyLedger)]
    if not ledgers:
        return estimator
    return fresh_copy(estimator).set_params(**dict.fromkeys(ledgers))


def fresh_copy(estimator):
    """Return an unfitted clone; a copy of what scikit-learn cannot clone."""
    try:
        return clone(estimator)
    except TypeError:
        return copy.deepcopy(estimator)


def maker_of(estimator) -> Callable:
    """Return a function that makes unfitted clones, some thousands in a second."""
    own_clone = getattr(type(estimator), "__sklearn_clone__", None)
    if own_clone is BaseEstimator.__sklearn_clone__:
        params = estimator.get_params(deep=False)
        simple = all(isinstance(value, _SIMPLE) for value in params.values())
        if simple and set(vars(fresh_copy(estimator))) <= set(params):
            return lambda: type(estimator)(**params)
    return lambda: fresh_copy(estimator)


def compare(
    pair: Neighbours, first: Outcome, second: Outcome, *, strict: bool = True
) -> tuple[list[Finding], float]:
    """Return what tells two replayed fits apart, and the largest ratio of a change.

    Parameters
    ----------
    pair : Neighbours
    first, second : Outcome
    strict : bool, default=True
        Whether errors and warnings on hostile tables refute the claim.

    Returns
    -------
    findings : list of Finding
    ratio : float
    """
    if refused(pair, first, second):
        return quoted(first, second, pair, strict), math.nan
    findings, ratio = [], math.nan
    a, b = first.tape.releases, second.tape.releases
    if [_asked(r) for r in a] != [_asked(r) for r in b]:
        text = f"the releases differ in number or kind: {len(a)} against {len(b)}"
        findings.append(Finding("leak", pair.name, text, True))
    for i, (one, other) in enumerate(zip(a, b, strict=False)):
        if one.exact.shape != other.exact.shape:
            continue
        own = _ratio(one, other)
        ratio = float(np.fmax(ratio, own))
        if own > 1 + _SLACK:
            text = (
                f"release {i} changed by {own:.6g} times the sensitivity that its "
                "mechanism was told"
            )
            findings.append(Finding("sensitivity", pair.name, text, True))
            break  # what follows is computed from it
    different = differences(first, second)
    if not different and not first.error:
        different = leaf_differences(pickled(first.model), pickled(second.model))
        different = [f"pickle: {text}" for text in different]
    for text in different[:8]:
        text_only = text.startswith(("warnings", "exception"))
        violates = strict or not (pair.hostile and text_only)
        text = f"{text} tells the tables apart, noise and all"
        findings.append(Finding("leak", pair.name, text, violates))
    return findings, ratio


def refused(pair: Neighbours, first: Outcome, second: Outcome) -> bool:
    """Whether a table is refused as outside the domain."""
    return pair.outside and bool(first.error or second.error)


def quoted(first: Outcome, second: Outcome, pair: Neighbours, strict: bool):
    """Return a finding if an error or a warning quotes the cell of text."""
    texts = [first.error, second.error, *first.texts, *second.texts]
    if not any(CANARY in text for text in texts):
        return []
    text = "an error message quotes the content of a cell"
    return [Finding("message", pair.name, text, strict)]


def _asked(release) -> tuple:
    sensitivity = (release.sensitivity, release.parameter)
    return release.kind, release.exact.shape, *sensitivity


def _ratio(one, other) -> float:
    """Change of the exact value over the sensitivity that the mechanism was told."""
    if one.exact.tobytes() == other.exact.tobytes():
        return 0.0
    with np.errstate(all="ignore"):
        change = np.ravel(other.exact - one.exact)
        if one.kind == "gaussian":
            size = float(np.linalg.norm(change))
        elif one.kind == "pure":
            size = float(np.abs(change).sum())
        else:
            # A choice by monotonic utilities needs them all to rise, or all to fall.
            size = float(np.abs(change).max())
            if one.monotonic and change.min() < 0 < change.max():
                size *= 2
    if math.isnan(size):
        return math.inf
    return size / one.sensitivity if one.sensitivity else math.inf


# --- what a pair of fits proves about the loss ----------------------------------------


def realised_events(first: Outcome, second: Outcome) -> list[PrivacyEvent]:
    """Events that the releases amount to for this pair, or less.

    Gaussian noise: mu times the ratio. Laplace noise: epsilon times the part of the
    sensitivity, number by number. A choice by utilities may lose nothing, however
    these change.

    Parameters
    ----------
    first, second : Outcome
        Replayed, without any other randomness than the mechanisms'.

    Returns
    -------
    list of PrivacyEvent
    """
    events = []
    pairs = zip(first.tape.releases, second.tape.releases, strict=False)
    for one, other in pairs:
        if one.exact.shape != other.exact.shape:
            continue
        ratio = _ratio(one, other)
        if ratio == 0 or one.kind == "choice" or one.parameter in (0.0, math.inf):
            continue
        event, parts = GaussianEvent, [ratio]
        if one.kind == "pure":
            event = PureEvent
            if ratio < math.inf:
                change = np.abs(np.ravel(other.exact - one.exact))
                parts = (change[change > 0] / one.sensitivity).tolist()
        losses = [one.parameter * part for part in parts]
        events += [event(loss if loss <= 1e4 else math.inf) for loss in losses]
    return events


def spent_events(outcome: Outcome) -> list[PrivacyEvent]:
    """Events that the releases of a fit amount to, at the sensitivities they state."""
    return [
        GaussianEvent(one.parameter, one.exact.size)
        if one.kind == "gaussian"
        else PureEvent(one.parameter)
        for one in outcome.tape.releases
    ]


def loss_epsilon(events: Sequence[PrivacyEvent], delta: float) -> float:
    """Return the epsilon of events at a delta; exact if all are Gaussian, or at 0.

    Parameters
    ----------
    events : list of PrivacyEvent
    delta : float

    Returns
    -------
    float
        A lower bound on what these releases cost together.
    """
    if not events:
        return 0.0
    losses = [event.epsilon for event in events if event.kind == "pure"]
    pure = math.fsum(losses)
    mu = math.sqrt(math.fsum(e.mu**2 for e in events if e.kind == "gaussian"))
    lowest = gaussian_epsilon(mu, delta) if mu else 0.0
    if delta == 0.0:
        return math.inf if mu else pure
    if pure == math.inf:
        return math.inf
    if delta == 1.0:
        return 0.0
    # One Laplace release of loss e: delta(eps) = 1 - exp((eps - e) / 2)
    lowest = max(lowest, max(losses, default=0.0) + 2 * math.log1p(-delta), 0.0)
    # k of them lose all, of sum e, with a chance of 2^-k: 2^k delta >= 1 - exp(eps - e)
    for k, loss in enumerate(accumulate(sorted(losses, reverse=True)), 1):
        if delta >= 0.5**k:
            break
        lowest = max(lowest, loss + math.log1p(-delta / 0.5**k))
    return lowest


@dataclass(frozen=True)
class AdditiveNoise:
    """Outputs found to be a number plus scaled noise of a known family, one by one.

    Parameters
    ----------
    families : list of str
        Of each output: "gaussian" or "laplace".
    shift : ndarray
        How far the number moves between the tables.
    scale, other_scale : ndarray
        Of the noise on the one table and on the other.
    is_all : bool, default=False
        Whether nothing else in the outputs moves, so that their loss is known exactly.
    is_bare : bool, default=False
        Whether two outputs with one noise differ by what tells the tables apart.
    """

    families: list
    shift: np.ndarray
    scale: np.ndarray
    other_scale: np.ndarray
    is_all: bool = False
    is_bare: bool = False

    def epsilon(self, delta: float, claimed: float) -> float:
        """Return a lower bound on epsilon at a delta.

        Parameters
        ----------
        delta : float
        claimed : float
            Where a simulation, if there has to be one, looks first.

        Returns
        -------
        float
        """
        if self.is_bare:
            return math.inf
        with np.errstate(all="ignore"):
            same = np.abs(self.other_scale / self.scale - 1) < 1e-6
            ratio = np.abs(self.shift) / self.scale
        gaussian = np.array([family == "gaussian" for family in self.families])
        best = 0.0
        if same[gaussian].any() and delta > 0:
            mu = float(np.linalg.norm(ratio[gaussian & same]))
            best = gaussian_epsilon(min(mu, 1e3), delta)
        if same[~gaussian].any() and delta == 0:
            best = max(best, float(ratio[~gaussian & same].sum()))
        if delta == 0:
            unequal = (~same).any() or (ratio[gaussian] > 1e-9).any()
            return math.inf if unequal else best
        if (~same).any() or (~gaussian).any():
            best = max(best, self._simulated(delta, claimed))
        return best

    def _simulated(self, delta: float, claimed: float) -> float:
        """Epsilon refuted by the exact losses of simulated outputs."""
        rng = np.random.default_rng(0)
        with np.errstate(all="ignore"):
            size = np.abs(self.shift / self.scale)
            size += np.abs(np.log(self.other_scale / self.scale))
        chosen = np.argsort(-size)[:40]
        best = 0.0
        for back in (False, True):
            loss = np.zeros(_MONTE_CARLO)
            for i in chosen:
                b, c = self.scale[i], self.other_scale[i]
                b, c = (c, b) if back else (b, c)
                if self.families[i] == "gaussian":
                    z = rng.normal(size=_MONTE_CARLO)
                    other = (b * z - self.shift[i]) / c
                    loss += np.log(c / b) + (other**2 - z**2) / 2
                else:
                    z = rng.laplace(size=_MONTE_CARLO)
                    other = np.abs(b * z - self.shift[i]) / c
                    loss += np.log(c / b) + other - np.abs(z)
            for epsilon in claimed * np.array([1.0, 1.02, 1.1, 1.3, 1.6, 2, 3, 5]):
                gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
                sure = gain.mean() - 6 * gain.std() / math.sqrt(_MONTE_CARLO)
                if sure > delta:
                    best = max(best, float(epsilon) * (1 + 1e-6))
        return best


def additive_noise(first: list[Outcome], second: list[Outcome]) -> AdditiveNoise | None:
    """Recognise outputs that are a private number plus scaled noise from NumPy.

    Parameters
    ----------
    first, second : list of Outcome
        Of at least three fits on each table, with the same seeds.

    Returns
    -------
    AdditiveNoise or None
        None if the draws do not determine the outputs in this way.
    """
    every = [*first, *second]
    shapes = {tuple((f, len(z)) for f, z in one.tape.draws) for one in every}
    if len(shapes) != 1 or any(one.tape.other_randomness for one in every):
        return None
    if any(one.error or one.tape.releases for one in every):
        return None
    if len({len(one.numbers()) for one in every}) != 1 or not first[0].tape.draws:
        return None
    families = [family for family, z in first[0].tape.draws for _ in z]
    Z = np.array([np.concatenate([z for _, z in o.tape.draws]) for o in first])
    A, B = (np.array([one.numbers() for one in side]) for side in (first, second))
    if A.shape[1] * Z.shape[1] * len(A) > _MAX_CELLS:
        return None
    slope, other = _slopes(A, Z), _slopes(B, Z)
    both = (slope != 0) & (other != 0)
    j = np.flatnonzero(both.any(axis=0))
    if not len(j):
        return None
    i = both[:, j].argmax(axis=0)  # the first output that a draw moves
    b, c = slope[i, j], other[i, j]
    # a' - a, with outputs a + b z and a' + c z
    shift = (B[:, i] - c * Z[:, j]).mean(axis=0) - (A[:, i] - b * Z[:, j]).mean(axis=0)
    # more than rounding makes of no shift, and little beside noise that is recognised
    size = 1e-11 * (np.abs(A[:, i]).max(axis=0) + np.abs(B[:, i]).max(axis=0))
    shift = np.where(np.abs(shift) <= size, 0.0, shift)
    apart = _steps_apart(A, B, both, Z)
    is_bare = bool((apart > 1.0).any())
    is_all = len({one.signature() for one in every}) == 1 and _explains(A, B, both)
    is_all &= bool((apart <= 0.0).all())
    names = [families[k] for k in j]
    return AdditiveNoise(names, shift, np.abs(b), np.abs(c), is_all, is_bare)


def _explains(A, B, both) -> bool:
    """Whether every output that moves is affine in one draw."""
    moves = (np.ptp(A, axis=0) > 0) | (np.ptp(B, axis=0) > 0) | (A != B).any(axis=0)
    return both[moves].any(axis=1).all() and bool(np.isfinite(A[:, moves]).all())


def _steps_apart(A, B, both, Z) -> np.ndarray:
    """How far outputs of one draw move by unlike multiples of their noise.

    Otherwise their difference is free of noise, and tells the tables apart: for each
    draw 0 if it does not, and more than 1 if that is no matter of rounding.
    """
    apart = np.zeros(both.shape[1])
    for j in np.flatnonzero(both.sum(axis=0) > 1):
        outputs = np.flatnonzero(both[:, j])
        with np.errstate(all="ignore"):
            slopes = _slopes(A[:, outputs], Z[:, [j]])[:, 0]
            others = _slopes(B[:, outputs], Z[:, [j]])[:, 0]
            steps = (B[0, outputs] - A[0, outputs]) / slopes
            sizes = (np.abs(A[0, outputs]) + np.abs(B[0, outputs])) / np.abs(slopes)
        gap, largest = np.ptp(steps), np.abs(steps).max()
        if gap <= 1e-6 * largest:
            continue
        is_sure = np.isfinite(gap) and np.allclose(slopes, others, rtol=1e-6, atol=0.0)
        apart[j] = gap / (1e-6 * largest + 1e-11 * sizes.max()) if is_sure else 1.0
    return apart


def _slopes(outputs, z) -> np.ndarray:
    """Slope of output i in draw j where it is affine in that draw alone, else 0."""
    with np.errstate(all="ignore"):
        rise = (outputs[1:] - outputs[0])[:, :, None]  # (n_runs - 1, n_outputs, 1)
        slopes = rise / (z[1:] - z[0])[:, None, :]
        middle = slopes.mean(axis=0)
        spread = np.abs(slopes - middle).max(axis=0)
        exact = np.isfinite(middle) & (spread <= 1e-7 * np.abs(middle))
    return np.where(exact, middle, 0.0)
