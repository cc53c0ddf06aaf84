"""What was released, at what cost, and what that rests on: guarantees."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import Any

from .._shared.arguments import described, flag, number, one_of, word
from .._shared.markdown import markdown_table
from .._shared.rounded import round_up
from ..accounting import (
    DeclaredEvent,
    EitherEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PrivacyEvent,
    PureEvent,
    checked_events,
    compose_delta,
    compose_epsilon,
    event_from_dict,
    from_plain,
    to_plain,
)
from ._facts import Fact

# The first two are offered by every estimator, the others, with public sizes, only
# where an argument names them.
RELATIONS = {
    "replace_one": "one record replaced by any other",
    "add_remove": "one record added or removed",
    "replace_one_in_group": "one record replaced inside its group, group sizes public",
    "replace_one_in_cell": (
        "one record replaced inside its group and label, the sizes of both public"
    ),
}

# Version of the stored form. It grows when a field is added; a stored form without the
# field then means what it meant before. Events have their own rule (`accounting`).
VERSION = 3

# What the documentation says of every guarantee, and of every random split.
UNIT_OF_PRIVACY = "a record is one row, and each person has one"
RANDOM_SPLIT = "rows were split at random, one for each record"

NOTHING = "nothing that is paid for"  # the mechanism of a plan without releases

# Rounding that may differ between machines.
_STATEMENT_SLACK = 1e-6


@dataclass(frozen=True)
class PrivacyGuarantee:
    r"""State what a release costs in differential privacy.

    A release :math:`M` is :math:`(\varepsilon, \delta)`-differentially private if

    .. math:: P(M(D) \in S) \le e^{\varepsilon} P(M(D') \in S) + \delta

    for all sets :math:`S` and all neighbouring tables :math:`D, D'`. The guarantee
    describes the whole fitted object: immutable, hashable, picklable.

    Parameters
    ----------
    epsilon : float
        Range: [0, inf]. `inf` when nothing is promised: no noise, `uncovered`, or
        `conditional_on`.
    delta : float
        Range: [0, 1].
    neighboring : {"replace_one", "add_remove", "replace_one_in_group"}
        Which tables are neighbours.
    mechanism : str
        What was released, in plain words.
    events : tuple of PrivacyEvent, default=()
        What was released, as objects of :mod:`fairpriv_sklearn.accounting` that compose
        tightly. Where there are some, composition reads these and not `epsilon`; they
        may not cost more than it says. Empty: the statement `(epsilon, delta)` itself
        is composed.
    assumptions : tuple of str, default=()
        What the guarantee rests on: facts that were given as public, and what the
        documentation assumes (added here: the unit of privacy, the random split).
    uncovered : tuple of str, default=()
        Steps or data the guarantee does not speak of. Then `epsilon` is `inf`, and
        `events` still holds the cost of what is covered.
    noise_is_secure : bool, default=True
        Whether the noise came from the entropy of the operating system. `False` after
        a fit with `random_state`, which is reproducible and hence not private.
    conditional_on : tuple of str, default=()
        Names of facts that were read from the data, or of what is only supposed of a
        step. Then `epsilon` is `inf`.
    epsilon_if_public : float, default=None
        The epsilon for a reader who regards the facts in `conditional_on` as public.
        Default: composed from `events`; `epsilon` if there is no such fact.
    proofs : tuple of str, default=()
        Where the documentation proves the sensitivities of what was released, as
        ``page.html#anchor``; a wrapped model has its own. No part of the statement:
        ignored by ``==``.

    See Also
    --------
    PrivacyLedger : Keep the sum of many guarantees under a cap.

    Notes
    -----
    Gaussian events compose exactly in Gaussian differential privacy [1]_.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su. Gaussian differential privacy. Journal of the
       Royal Statistical Society B, 2022.

    Examples
    --------
    >>> from fairpriv_sklearn.privacy import PrivacyGuarantee
    >>> counts = PrivacyGuarantee(1.0, 0.0, "replace_one", "discrete Laplace counts")
    >>> counts.compose(counts).epsilon
    2.0
    >>> print(counts)  # doctest: +ELLIPSIS
    (epsilon = 1, delta = 0)-differentially private, one record replaced by any ...
    """

    epsilon: float
    delta: float
    neighboring: str
    mechanism: str
    events: tuple[PrivacyEvent, ...] = ()
    assumptions: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    noise_is_secure: bool = True
    conditional_on: tuple[str, ...] = ()
    epsilon_if_public: float | None = None
    proofs: tuple[str, ...] = field(default=(), compare=False)

    def __new__(cls, *args, **kwargs):
        if "parts" in kwargs:
            raise TypeError(_NO_PARTS)
        return super().__new__(cls)

    def __getattr__(self, name):
        raise AttributeError(
            _NO_PARTS if name == "parts" else f"A guarantee has no attribute {name!r}."
        )

    def __post_init__(self):
        checked = {
            "epsilon": check_epsilon(self.epsilon),
            "delta": check_delta(self.delta),
            "events": checked_events(self.events),
            "assumptions": _words("assumptions", self.assumptions),
            "uncovered": _words("uncovered", self.uncovered),
            "conditional_on": _words("conditional_on", self.conditional_on),
            "proofs": _words("proofs", self.proofs),
            "noise_is_secure": flag("noise_is_secure", self.noise_is_secure),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        one_of(*RELATIONS)("neighboring", self.neighboring)
        word("mechanism", self.mechanism)
        object.__setattr__(self, "assumptions", self._listed_assumptions())
        object.__setattr__(self, "epsilon_if_public", self._checked_if_public())
        self._check_caveats()
        self._check_events()

    def _listed_assumptions(self) -> tuple[str, ...]:
        # A step that was handed what was read takes it for given, and would tell it.
        read = tuple(f"{name}=" for name in self.conditional_on)
        own = [one for one in self.assumptions if not one.startswith(read)]
        own = [one for one in own if one not in _STANDING]
        if _is_split(self.events):
            own.append(RANDOM_SPLIT)
        return _union((*own, UNIT_OF_PRIVACY))

    def _checked_if_public(self) -> float:
        if self.uncovered or not self.conditional_on:
            return self.epsilon
        if self.epsilon_if_public is not None:
            return check_epsilon(self.epsilon_if_public)
        return compose_epsilon(self.events, self.delta) if self.events else math.inf

    def _check_caveats(self) -> None:
        if self.uncovered and self.epsilon < math.inf:
            raise ValueError(
                "A guarantee with `uncovered` entries promises nothing about the "
                f"whole: epsilon must be inf, got {self.epsilon!r}. Keep the cost of "
                "the covered phase in `events`."
            )
        if self.conditional_on and self.epsilon < math.inf:
            raise ValueError(
                "A guarantee with `conditional_on` entries promises nothing to those "
                f"who do not know them: epsilon must be inf, got {self.epsilon!r}. "
                "State it as `epsilon_if_public`."
            )

    def _check_events(self) -> None:
        sampled = any(isinstance(one, PoissonGaussianEvent) for one in self._leaves())
        if sampled and self.neighboring != "add_remove":
            raise ValueError(
                "A PoissonGaussianEvent states the cost for neighboring='add_remove'; "
                "for replace-one use a WithoutReplacementGaussianEvent."
            )
        stated = self.epsilon_if_public
        if stated == math.inf:
            return
        cost = compose_epsilon(self.events, self.delta)
        if cost > stated * (1 + _STATEMENT_SLACK):
            raise ValueError(
                f"The events cost epsilon = {round_up(cost)} at delta = "
                f"{round_up(self.delta)}, more than the epsilon = {stated!r} that is "
                "stated. Use PrivacyGuarantee.from_events, which states their cost."
            )

    def _leaves(self) -> Iterator[PrivacyEvent]:
        waiting = list(self.events)
        while waiting:
            event = waiting.pop()
            if isinstance(event, MaximumEvent):
                waiting += [*event.left, *event.right]
            else:
                yield event

    @classmethod
    def from_events(
        cls,
        events: Iterable[PrivacyEvent],
        *,
        delta: float,
        neighboring: str,
        mechanism: str,
        assumptions: Iterable[Fact | str] = (),
        uncovered: Iterable[str] = (),
        noise_is_secure: bool = True,
        conditional_on: Iterable[str] = (),
    ) -> PrivacyGuarantee:
        """Compose `events` tightly and state the total at `delta`.

        Parameters
        ----------
        events : iterable of PrivacyEvent
            As the attribute of the same name.
        delta : float
            Range: [0, 1].
        neighboring : {"replace_one", "add_remove", "replace_one_in_group"}
            Which tables are neighbours.
        mechanism : str
            What was released, in plain words.
        assumptions : iterable of Fact or str, default=()
            What the guarantee rests on. A fact that was read from the data makes it
            conditional.
        uncovered : iterable of str, default=()
            Steps or data the guarantee does not speak of.
        noise_is_secure : bool, default=True
            Whether the noise came from the entropy of the operating system.
        conditional_on : iterable of str, default=()
            Names of further facts that were read from the data.

        Returns
        -------
        PrivacyGuarantee
            With `epsilon` the composed total at `delta`; `inf` if `uncovered` or
            conditional.
        """
        events, delta = checked_events(events), check_delta(delta)
        words, read = _words_and_names(assumptions)
        uncovered = _words("uncovered", uncovered)
        conditional_on = _union((*_words("conditional_on", conditional_on), *read))
        total = math.inf if uncovered else compose_epsilon(events, delta)
        return cls(
            epsilon=math.inf if conditional_on else total,
            delta=delta,
            neighboring=neighboring,
            mechanism=mechanism,
            events=events,
            assumptions=words,
            uncovered=uncovered,
            noise_is_secure=noise_is_secure,
            conditional_on=conditional_on,
            epsilon_if_public=total,
        )

    @classmethod
    def from_parts(cls, *args, **kwargs) -> PrivacyGuarantee:
        """Refuse the old name of :meth:`from_events`.

        Parameters
        ----------
        *args, **kwargs : object
            Whatever it was given.
        """
        raise TypeError(_NO_PARTS)

    def qualified(
        self,
        *,
        assumptions: Iterable[Fact | str] = (),
        uncovered: Iterable[str] = (),
        conditional_on: Iterable[str] = (),
        noise_is_secure: bool = True,
    ) -> PrivacyGuarantee:
        """Return this guarantee with more that it rests on or does not speak of.

        Parameters
        ----------
        assumptions : iterable of Fact or str, default=()
            What else it rests on.
        uncovered : iterable of str, default=()
            Further steps or data that it does not speak of.
        conditional_on : iterable of str, default=()
            Names of further facts that were read from the data.
        noise_is_secure : bool, default=True
            Whether the noise of a part, drawn elsewhere, came from the operating
            system's cryptographic generator.

        Returns
        -------
        PrivacyGuarantee
            With the same events; `epsilon` is `inf` where it has to be.
        """
        words, read = _words_and_names(assumptions)
        uncovered = _union((*self.uncovered, *_words("uncovered", uncovered)))
        names = (*self.conditional_on, *_words("conditional_on", conditional_on), *read)
        if_public = math.inf if uncovered else self.epsilon_if_public
        return replace(
            self,
            epsilon=math.inf if names else if_public,
            assumptions=(*self.assumptions, *words),
            uncovered=uncovered,
            conditional_on=_union(names),
            noise_is_secure=self.noise_is_secure and noise_is_secure,
            epsilon_if_public=if_public,
        )

    def if_public(self) -> PrivacyGuarantee:
        """Return the guarantee for a reader who regards all facts as public.

        Returns
        -------
        PrivacyGuarantee
            With `epsilon_if_public` as its `epsilon`, and the facts that were read from
            the data among the `assumptions`.
        """
        words = "{}, which was not given, is public or holds"
        assumed = (*self.assumptions, *map(words.format, self.conditional_on))
        total = self.epsilon_if_public
        return replace(self, epsilon=total, assumptions=assumed, conditional_on=())

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest known epsilon at this `delta`, `inf` without a promise.

        Parameters
        ----------
        delta : float
            Range: [0, 1].

        Returns
        -------
        float
            Rounded up.
        """
        delta = check_delta(delta)
        if self.uncovered or self.conditional_on:
            return math.inf
        return compose_epsilon(own_events(self), delta)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest known delta at this `epsilon`, 1 without a promise.

        Parameters
        ----------
        epsilon : float
            Range: [0, inf].

        Returns
        -------
        float
            Rounded up.
        """
        epsilon = check_epsilon(epsilon)
        if self.uncovered or self.conditional_on:
            return 1.0
        return compose_delta(own_events(self), epsilon)

    def compose(
        self, *others: PrivacyGuarantee, delta: float | None = None
    ) -> PrivacyGuarantee:
        """Return the guarantee of releasing all of these about the same data.

        Each release may depend on the ones before it.

        Parameters
        ----------
        *others : PrivacyGuarantee
            Guarantees for the same neighbouring relation.
        delta : float, default=None
            Where to state the total. Default: the sum of the deltas, at most 1.

        Returns
        -------
        PrivacyGuarantee
            Of all of them together.

        Raises
        ------
        ValueError
            If the neighbouring relations differ.
        """
        several = _combinable(self, *others)
        if delta is None:
            delta = min(1.0, math.fsum(one.delta for one in several))
        events = tuple(event for one in several for event in own_events(one))
        return _merged(several, events, delta)

    def disjoint(self, *others: PrivacyGuarantee) -> PrivacyGuarantee:
        """Return the guarantee of releases about disjoint data: the maximum.

        Valid only if every record was sent to one of the releases by a fresh draw that
        does not depend on the data; a later release may use the outcome of an earlier
        one. Splits that are stratified, by row number or by a hash of the row have to
        use `compose`.

        Parameters
        ----------
        *others : PrivacyGuarantee
            Guarantees for the same neighbouring relation.

        Returns
        -------
        PrivacyGuarantee
            Stated at the largest of the deltas.

        Raises
        ------
        ValueError
            If the neighbouring relations differ.
        """
        several = _combinable(self, *others)
        events = own_events(self)
        for other in others:
            events = (MaximumEvent(events, own_events(other)),)
        return _merged(several, events, max(one.delta for one in several))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts; infinity is the string "inf".

        Returns
        -------
        dict
            The fields by name, and the version of this form.
        """
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        stored = {name: to_plain(value) for name, value in values.items()}
        return {"version": VERSION, **stored}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PrivacyGuarantee:
        """Rebuild a guarantee from `to_dict`, also after a journey through JSON.

        Parameters
        ----------
        data : mapping
            The fields by name.

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        ValueError
            If it was stored by a version that cannot be read, if a key is missing or
            unknown, or if a value is out of its range.
        """
        if isinstance(data, Mapping) and data.get("version") == 2:
            data = {**data, "version": VERSION, "proofs": ()}
        if not isinstance(data, Mapping) or data.get("version") != VERSION:
            raise ValueError(
                f"data must be a guarantee stored in version {VERSION} of the form; "
                "it was stored by an older or newer version of the library, or is none."
            )
        known = ["version", *(field.name for field in fields(cls))]
        if set(data) != set(known):
            raise ValueError(f"Expected a mapping with the keys {known}, got {data!r}.")
        numbers = {"epsilon", "delta", "epsilon_if_public"}
        values = {
            name: from_plain(data[name]) if name in numbers else data[name]
            for name in known[1:]
        }
        if not isinstance(values["events"], list | tuple):
            raise ValueError(f"events must be a list, got {values['events']!r}.")
        try:
            events = tuple(map(event_from_dict, values["events"]))
            return cls(**values | {"events": events})
        except RecursionError:
            raise ValueError("The events are nested too deeply to be read.") from None

    def to_markdown(self) -> str:
        """Return the guarantee as a Markdown table.

        Returns
        -------
        str
            One row for each field.
        """
        return markdown_table(["privacy", "value"], self._rows()) + "\n"

    def __str__(self) -> str:
        sentences = [f"{self._statement()}, {RELATIONS[self.neighboring]}"]
        if self.mechanism:
            sentences[0] += f": {self.mechanism}"
        if self.conditional_on and self.epsilon_if_public == math.inf:
            names = ", ".join(self.conditional_on)
            sentences.append(f"Conditional on: {names}")
        if self.uncovered:
            sentences.append(f"Not covered: {', '.join(self.uncovered)}")
        sentences.append(f"Assumed: {'; '.join(map(_in_short, self.assumptions))}")
        if not self.noise_is_secure:
            sentences.append(_INSECURE)
        return ". ".join(sentences) + "."

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        return f"<table>{rows}</table>"

    def _statement(self) -> str:
        if self.epsilon_if_public == math.inf:
            return "No differential privacy for the whole (epsilon = inf)"
        stated = (
            f"(epsilon = {round_up(self.epsilon_if_public)}, "
            f"delta = {round_up(self.delta)})-differentially private"
        )
        if self.conditional_on:
            return (
                "No differential privacy (epsilon = inf) unless these are public, or "
                f"hold: {', '.join(self.conditional_on)}; then {stated}"
            )
        return stated

    def _rows(self) -> list[tuple[str, str]]:
        names, epsilon = self.conditional_on, round_up(self.epsilon_if_public)
        conditions = [
            ("conditional on", ", ".join(names)),
            ("epsilon if these are public or hold", epsilon),
        ] * bool(names)
        uncovered = [*self.uncovered, *(f"{name} (condition)" for name in names)]
        return [
            ("epsilon", round_up(self.epsilon)),
            *conditions,
            ("delta", round_up(self.delta)),
            ("neighbouring tables", RELATIONS[self.neighboring]),
            ("mechanism", self.mechanism),
            ("events", "; ".join(map(str, self.events)) or "none"),
            *([("proved in", ", ".join(self.proofs))] if self.proofs else []),
            ("assumed", "; ".join(map(_in_short, self.assumptions))),
            ("not covered", ", ".join(uncovered) or "nothing"),
            ("noise", "secure" if self.noise_is_secure else _INSECURE),
        ]


# The refusal of an old name hides the arguments from `help`.
_INIT = inspect.signature(PrivacyGuarantee.__init__).parameters.values()
PrivacyGuarantee.__signature__ = inspect.Signature(list(_INIT)[1:])


# From so many characters on a value in an assumption is not shown whole.
_LONG = 200


def _in_short(assumption: str) -> str:
    """An assumption as it is, but of a long value its beginning and end only."""
    value = assumption.partition("=")[2]
    if len(assumption) < _LONG or not value.startswith(("[", "{", "(")):
        return assumption
    return f"{assumption[:130]} ... {assumption[-30:]} (whole in `assumptions`)"


_STANDING = (UNIT_OF_PRIVACY, RANDOM_SPLIT)
_NO_PARTS = (
    "`parts` is now `events`: pass objects such as GaussianEvent(mu, n_draws) from "
    "fairpriv_sklearn.accounting (`from_parts` is `from_events`)."
)
_INSECURE = "Noise not secure: drawn from random_state, for study only"


def own_events(guarantee: PrivacyGuarantee) -> tuple[PrivacyEvent, ...]:
    """Return the events of the covered phase, the statement itself if it has none."""
    if guarantee.events or guarantee.uncovered:
        return guarantee.events
    epsilon, delta = guarantee.epsilon_if_public, guarantee.delta
    if delta > 0:
        return (DeclaredEvent(epsilon, delta),)
    return (PureEvent(epsilon),) if epsilon > 0 else ()


def _combinable(*several: PrivacyGuarantee) -> tuple[PrivacyGuarantee, ...]:
    for one in several:
        if not isinstance(one, PrivacyGuarantee):
            raise TypeError(
                f"others: Expected a PrivacyGuarantee, got {described(one)}."
            )
    check_relations(one.neighboring for one in several)
    return several


def _merged(several: tuple, events: tuple, delta: float) -> PrivacyGuarantee:
    """Return one guarantee with these events and the caveats of all."""
    words = _union(one.mechanism for one in several if one.mechanism)
    merged = PrivacyGuarantee.from_events(
        events,
        delta=delta,
        neighboring=several[0].neighboring,
        mechanism="; ".join([w for w in words if w != NOTHING] or words),
        assumptions=_union(fact for one in several for fact in one.assumptions),
        uncovered=_union(step for one in several for step in one.uncovered),
        noise_is_secure=all(one.noise_is_secure for one in several),
        conditional_on=_union(name for one in several for name in one.conditional_on),
    )
    return replace(
        merged, proofs=_union(one for each in several for one in each.proofs)
    )


def _is_split(events: tuple) -> bool:
    """Whether rows were parted at random, also in one of two plans."""
    return any(
        _is_split((*event.left, *event.right))
        if isinstance(event, EitherEvent)
        else isinstance(event, MaximumEvent)
        for event in events
    )


def _words_and_names(facts: Iterable[Fact | str]) -> tuple[list[str], list[str]]:
    """Part facts into the words to list and the names of those read from the data."""
    if isinstance(facts, str) or not isinstance(facts, Iterable):
        raise ValueError(
            f"assumptions must be a tuple of strings and facts, got {described(facts)}."
        )
    facts = list(facts)
    read = [one.name for one in facts if isinstance(one, Fact) and one.is_read]
    words = [one for one in facts if not (isinstance(one, Fact) and one.is_read)]
    return [str(one) if isinstance(one, Fact) else one for one in words], read


def check_relations(relations: Iterable[str]) -> None:
    """Raise unless all neighbouring relations are the same."""
    names = sorted(set(relations))
    if len(names) > 1:
        raise ValueError(
            f"Guarantees for different neighbouring relations ({', '.join(names)}) do "
            "not compose. Fit all models with the same `neighboring`."
        )


def check_epsilon(epsilon: float) -> float:
    """Return `epsilon` as a float in [0, inf], or raise."""
    return float(number(0, math.inf)("epsilon", epsilon))


def check_delta(delta: float) -> float:
    """Return `delta` as a float in [0, 1], or raise."""
    return float(number(0, 1)("delta", delta))


def _union(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _words(name: str, value) -> tuple[str, ...]:
    several = isinstance(value, Iterable) and not isinstance(value, str)
    words = tuple(value) if several else (None,)
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"{name} must be a tuple of strings, got {described(value)}.")
    return words
