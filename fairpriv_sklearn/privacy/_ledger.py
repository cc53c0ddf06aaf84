"""A privacy budget that is shared by many fits and never overspent."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from typing import Any, NamedTuple

from .._shared.arguments import described, text
from .._shared.markdown import markdown_line, markdown_table
from .._shared.packages import needed
from .._shared.rounded import round_down, round_up
from ..accounting import PureEvent
from ._composition import Composition
from ._guarantee import PrivacyGuarantee, check_delta, check_epsilon, own_events
from ._store import FileStore, MemoryStore


class BudgetExceededError(RuntimeError):
    """A fit asked for more privacy budget than the ledger has left."""


class PrivacyBudget(NamedTuple):
    """An amount of privacy budget.

    Parameters
    ----------
    epsilon : float
        Range: [0, inf].
    delta : float
        Range: [0, 1].
    """

    epsilon: float
    delta: float


class PrivacyLedger:
    r"""Keep the total privacy cost of many fits on the same data under a cap.

    With :math:`\varepsilon_{1..k}(\delta)` the tight composition of the first `k`
    spends, a spend is accepted if and only if

    .. math:: \varepsilon_{1..k}(\delta_{\rm cap}) \le \varepsilon_{\rm cap}.

    An estimator with `ledger=` reserves its cost when its `fit` has validated the
    input and before it computes anything from it, or raises `BudgetExceededError`.
    Nothing is ever given back, also when a fit fails later.

    .. rubric:: Privacy

    The ledger holds public numbers only. Its promise is the cap, for all fits that
    were given this ledger, each data set on its own (`for_dataset`). A guarantee with
    `uncovered` steps is charged for its covered phase and listed with the steps, whose
    cost nobody knows and the total leaves out; one without a covered phase is charged
    an infinite epsilon. One that is conditional is charged as if its condition held.

    Parameters
    ----------
    epsilon : float
        Largest total. Range: [0, inf]; `inf` records without limit.
    delta : float, default=0.0
        Where the total is measured. Range: [0, 1]. With 0, only fits of pure epsilon
        can be paid.
    path : str or path-like, default=None
        File of the ledger. A path that does not exist is created; an existing ledger
        with the same cap is resumed; anything else raises. Without a path the ledger
        lives in the memory of one process.
    mirror : object with `spend(epsilon, delta)`, default=None
        Told of each spend of this object before it is recorded, such as diffprivlib's
        `BudgetAccountant`; if it raises, nothing is recorded. It is not part of the
        file and does not follow the ledger into other processes.

    Attributes
    ----------
    epsilon, delta : float
        The cap.
    dataset : str
        The data set whose account this is.
    path : str or None
        Absolute path of the file.

    Raises
    ------
    RuntimeError
        If the file is missing, damaged, no ledger, another ledger than the one this
        object was made for, or older than what this object has seen. A missing ledger
        is only ever created here, never by a later use.
    ValueError
        If the file holds a ledger with another cap.

    See Also
    --------
    PrivacyGuarantee : What a fit spends.

    Notes
    -----
    `clone` and `deepcopy` return the same ledger, so that a grid search pays for all of
    its fits. A ledger with a path may be used by many threads and processes at once:
    each reservation is one immediate SQLite transaction, on the disk before `spend`
    returns, which takes five flushes of the disk (a millisecond in all where nothing
    else keeps the machine busy). Put the file on a local disk; locks of network file
    systems are unreliable. A copy of an older file, or one whose digests somebody has
    computed anew, looks sound to a process that has not seen the newer one: keep the
    file where only those can write who may be trusted with the budget.

    The cap is compared with a relative slack of 1e-9 for rounding. So that a spend
    costs the same after ten thousand others, what differs from fit to fit is merged for
    the dearer beyond a fixed number (16 kinds of random splits, 128 of pure releases),
    and many random splits are bounded together: the total is then an upper bound, never
    below the tight one. With up to 16 kinds of splits in two it is at most 1 % above it
    at a delta of 1e-10 or more, also where their sides nearly tie; at smaller deltas,
    with more kinds, and where a side is split again and again, it is further above.

    Examples
    --------
    >>> from fairpriv_sklearn.privacy import PrivacyGuarantee, PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=2.5)
    >>> fit = PrivacyGuarantee(1.0, 0.0, "replace_one", "discrete Laplace counts")
    >>> ledger.spend(fit, label="first")
    >>> ledger.spend(fit, label="second")
    >>> ledger.total()
    PrivacyBudget(epsilon=2.0, delta=0.0)
    >>> ledger.spend(fit, label="third")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairpriv_sklearn...BudgetExceededError: This fit asks for epsilon = 1 at ...
    """

    def __init__(self, epsilon, delta=0.0, path=None, *, mirror=None) -> None:
        if path is not None and not (isinstance(path, str | os.PathLike) and path):
            raise TypeError(f"path must be a path or None, got {described(path)}.")
        self._cap = PrivacyBudget(check_epsilon(epsilon), check_delta(delta))
        self._store = MemoryStore() if path is None else FileStore.open(path, self._cap)
        self._dataset = "default"
        self._mirror = _checked_mirror(mirror)

    @property
    def epsilon(self) -> float:
        """Largest total epsilon."""
        return self._cap.epsilon

    @property
    def delta(self) -> float:
        """Delta where the total is measured."""
        return self._cap.delta

    @property
    def dataset(self) -> str:
        """Name of the data set whose account this is."""
        return self._dataset

    @property
    def path(self) -> str | None:
        """Absolute path of the file, None in memory."""
        return self._store.path

    def for_dataset(self, name: str, *, mirror=None) -> PrivacyLedger:
        """Return the account of another data set, under the same cap in the same file.

        Use it for data about different people only: two tables about the same person
        are one data set.

        Parameters
        ----------
        name : str
            Name of the data set. A new ledger speaks of the one called "default".
        mirror : object with `spend(epsilon, delta)`, default=None
            Told of each spend of the returned view; the mirror of this one is not.

        Returns
        -------
        PrivacyLedger
            It shares the file and the cap with this one.
        """
        view = object.__new__(type(self))
        view._cap, view._store = self._cap, self._store
        view._dataset, view._mirror = text("name", name), _checked_mirror(mirror)
        return view

    def datasets(self) -> list[str]:
        """Return the names of the data sets with spends, sorted.

        Returns
        -------
        list of str
            Empty before the first spend.
        """
        return self._store.datasets()

    def spend(self, guarantee: PrivacyGuarantee, *, label: str = "") -> None:
        """Reserve the cost of `guarantee`, or raise and record nothing.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What the fit will release.
        label : str, default=""
            What the budget is spent for, such as the name of the estimator.

        Raises
        ------
        BudgetExceededError
            If the total would pass the cap.
        ValueError
            If earlier spends on this data set used another neighbouring relation.
        """
        if not isinstance(guarantee, PrivacyGuarantee):
            raise TypeError(
                f"guarantee must be a PrivacyGuarantee, got {described(guarantee)}."
            )
        asked = _charge(guarantee)
        cost = _cost(guarantee, asked)
        record = {
            "label": str(label),
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "cost": cost.epsilon,
            "guarantee": guarantee.to_dict(),
        }
        # Composes the spend once outside the lock of the file: what is slow (a first
        # subsampled composition) is cached from then on.
        asked.fits(*self._cap)

        def step(spent: Composition | None) -> Composition:
            total = self._total(asked, spent)
            if self._mirror is not None:
                self._mirror.spend(*cost)
            return total

        self._store.append(self._dataset, record, step)

    def spends(self) -> list[dict[str, Any]]:
        """Return what was spent on this data set, oldest first.

        Returns
        -------
        list of dict
            With the keys `dataset`, `label`, `time` (UTC, ISO 8601), `epsilon` and
            `delta` (the cost of the covered phase, also where it is conditional), and
            `neighboring`, `mechanism`, `events`, `assumptions`, `uncovered`,
            `conditional_on`, `noise_is_secure` of the guarantee, as known before the
            fit: what a model inside of a search or a repair read is in theirs.
        """
        records = self._store.records(self._dataset)
        return [_spend_row(self._dataset, record) for record in records]

    def to_frame(self) -> Any:
        """Return `spends` as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row for each spend.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = needed(
            "pandas", "to_frame needs pandas: pip install pandas, or use spends()."
        )
        return pandas.DataFrame(self.spends(), columns=_SPEND_KEYS)

    def total(self) -> PrivacyBudget:
        """Return what all spends cost together, at the delta of the cap.

        Returns
        -------
        PrivacyBudget
            A named tuple `(epsilon, delta)`; `(0, 0)` before the first spend.
        """
        spent = self._store.running(self._dataset)
        if spent is None:
            return PrivacyBudget(0.0, 0.0)
        # Never above the cap, which a total may pass by rounding only.
        epsilon = min(spent.epsilon_at(self.delta), self.epsilon)
        return PrivacyBudget(epsilon, self.delta)

    def remaining(self) -> PrivacyBudget:
        """Return the cap less the total.

        A fit of pure epsilon, or one Gaussian release, of at most this much is accepted
        next, but for rounding, which counts at an epsilon of several units: leave a
        thousandth of the cap. As composition is tight, less is gone after a Gaussian
        fit than its cost.

        Returns
        -------
        PrivacyBudget
            A named tuple `(epsilon, delta)`: delta is that of the cap, less what has
            been spent on guarantees that fail with this probability, as that of a
            search which repeats.
        """
        spent = self._store.running(self._dataset)
        failure = 0.0 if spent is None else spent.failure
        delta = max(0.0, self.delta - failure)
        if self.epsilon == math.inf:
            return PrivacyBudget(math.inf, delta)
        return PrivacyBudget(self.epsilon - self.total().epsilon, delta)

    def to_markdown(self) -> str:
        """Return the cap, the total and all spends as Markdown.

        Returns
        -------
        str
            A sentence and a table.
        """
        total, left = self.total(), self.remaining()
        rows = []
        for number, one in enumerate(self.spends(), start=1):
            price = round_up(one["epsilon"]), round_up(one["delta"])
            seed = () if one["noise_is_secure"] else ("noise from a seed",)
            bare = (*one["uncovered"], *one["conditional_on"], *seed)
            not_covered = ", ".join(bare) or "nothing"
            said = one["neighboring"], one["mechanism"], not_covered, one["time"]
            rows.append([str(number), one["label"], *price, *said])
        name = markdown_line(repr(self._dataset))
        return (
            f"Privacy ledger of the data set {name}: epsilon = "
            f"{round_up(total.epsilon)} of {round_up(self.epsilon)} spent at delta = "
            f"{round_up(self.delta)}, {round_down(left.epsilon)} left.\n\n"
        ) + f"{markdown_table(_MARKDOWN_HEADER, rows)}\n"

    def __repr__(self) -> str:
        arguments = [f"epsilon={self.epsilon!r}", f"delta={self.delta!r}"]
        if self.path is not None:
            arguments.append(f"path={self.path!r}")
        view = "" if self._dataset == "default" else f".for_dataset({self._dataset!r})"
        return f"PrivacyLedger({', '.join(arguments)}){view}"

    # A budget is one thing: copies of an estimator spend from the same one.
    def __sklearn_clone__(self):
        return self

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __getstate__(self):
        # The mirror is an object of this process; a copy of it would count for nobody.
        return {**self.__dict__, "_mirror": None}

    def _refuse_beyond(self, guarantee: PrivacyGuarantee) -> None:
        """Raise where `spend` would now; for several steps before the first spends."""
        self._total(_charge(guarantee), self._store.running(self._dataset))

    def _total(self, asked: Composition, spent: Composition | None) -> Composition:
        """Return the total with what is asked for, or raise."""
        total = asked if spent is None else spent.plus(asked)
        if not total.fits(*self._cap):
            raise BudgetExceededError(self._refusal(asked, spent, total))
        return total

    def _refusal(self, asked, spent, total) -> str:
        """Say why, in public numbers only."""

        def at_cap(composition):
            return round_up(composition.epsilon_at(self.delta))

        # Alone it has an epsilon at this delta, with the others none: deltas add up.
        alone, together = (one.epsilon_at(self.delta) for one in (asked, total))
        is_delta = alone < together == math.inf
        advice = " Give each fit a part of the ledger's delta." if is_delta else ""
        return (
            f"This fit asks for epsilon = {at_cap(asked)} at delta = "
            f"{round_up(self.delta)}. With epsilon = {at_cap(spent) if spent else 0} "
            f"already spent the total would be epsilon = {at_cap(total)}, above the "
            f"cap of epsilon = {round_up(self.epsilon)}. Nothing was spent.{advice}"
        )


_SPEND_KEYS = [
    "dataset", "label", "time", "epsilon", "delta", "neighboring", "mechanism",
    "events", "assumptions", "uncovered", "conditional_on", "noise_is_secure",
]  # fmt: skip
_MARKDOWN_HEADER = [
    "no.", "label", "epsilon", "delta", "neighbouring", "mechanism", "not covered",
    "time",
]  # fmt: skip


def _charge(guarantee: PrivacyGuarantee) -> Composition:
    """Return what is to be paid for: the covered phase, or infinity if unknown."""
    unknown = guarantee.uncovered and not guarantee.events
    events = (PureEvent(math.inf),) if unknown else own_events(guarantee)
    return Composition.of(events, guarantee.neighboring)


def _cost(guarantee: PrivacyGuarantee, asked: Composition) -> PrivacyBudget:
    """Return what the spend is listed at: the covered phase on its own."""
    if guarantee.uncovered:
        return PrivacyBudget(asked.epsilon_at(guarantee.delta), guarantee.delta)
    return PrivacyBudget(guarantee.epsilon_if_public, guarantee.delta)


def _spend_row(dataset: str, record: dict) -> dict[str, Any]:
    guarantee = PrivacyGuarantee.from_dict(record["guarantee"])
    return {
        **dict.fromkeys(_SPEND_KEYS),
        **{name: getattr(guarantee, name) for name in _SPEND_KEYS[4:]},
        "dataset": dataset,
        "label": record["label"],
        "time": record["time"],
        "epsilon": record["cost"],
    }


def _checked_mirror(mirror):
    if mirror is not None and not callable(getattr(mirror, "spend", None)):
        raise TypeError(
            f"mirror must have a method spend(epsilon, delta), got {described(mirror)}."
        )
    return mirror
