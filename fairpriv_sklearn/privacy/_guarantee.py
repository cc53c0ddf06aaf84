"""What was released, at what price: guarantees, and warnings about leaks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal
from html import escape
from numbers import Integral, Real
from typing import Any

from ..accounting import compose_delta, compose_epsilon

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


class PrivacyLeakWarning(RuntimeWarning):
    """Something was read from the data and published without noise."""


def warn_leak(argument: str, what: str) -> None:
    """Warn that a fact was taken from the data, and name the argument that avoids it.

    .. rubric:: Privacy

    The text depends on the arguments only; keep values of the data out of them.

    Parameters
    ----------
    argument : str
        The constructor argument that would have stated the fact publicly.
    what : str
        The fact in plain words ("the list of groups"), never its value.

    Warns
    -----
    PrivacyLeakWarning
        Always.

    Examples
    --------
    >>> import warnings
    >>> from fairpriv_sklearn.privacy import warn_leak
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_leak("groups", "the list of groups")
    >>> print(caught[0].message)
    The list of groups was read from the data and is published without noise, which \
the privacy guarantee does not cover. Pass `groups`, fixed without looking at the data.
    """
    warnings.warn(
        f"{what[:1].upper()}{what[1:]} was read from the data and is published without "
        "noise, which the privacy guarantee does not cover. "
        f"Pass `{argument}`, fixed without looking at the data.",
        PrivacyLeakWarning,
        stacklevel=3,
    )


@dataclass(frozen=True)
class PrivacyGuarantee:
    r"""State what a release costs in differential privacy.

    A release :math:`M` is :math:`(\varepsilon, \delta)`-differentially private if

    .. math:: P(M(D) \in S) \le e^{\varepsilon} P(M(D') \in S) + \delta

    for all sets :math:`S` and all neighbouring tables :math:`D, D'`. The guarantee
    describes the whole fitted object, as a receipt: immutable, hashable, picklable.

    Parameters
    ----------
    epsilon : float
        Range: [0, inf]. `inf` when nothing is promised: no noise, or `uncovered`.
    delta : float
        Range: [0, 1].
    neighboring : {"replace_one", "add_remove", "replace_one_in_group"}
        Which tables are neighbours.
    mechanism : str
        What was released, in plain words.
    parts : tuple of tuples, default=()
        The mechanisms used, as plain tuples that can be composed tightly:
        `("gaussian", mu, n_draws)`, `("pure", epsilon)`,
        `("poisson_gaussian", q, noise_multiplier, steps)`,
        `("without_replacement_gaussian", q, noise_multiplier, steps)`,
        `("declared", epsilon, delta)` or `("maximum", parts_a, parts_b)`. Where there
        are some, composition reads these and not `epsilon`. Empty: the statement
        `(epsilon, delta)` itself is composed.
    assumptions : tuple of str, default=()
        Facts the guarantee takes as public.
    uncovered : tuple of str, default=()
        Steps or data the guarantee does not speak of. Then `epsilon` is `inf`, and
        `parts` still holds the price of what is covered.
    noise_is_secure : bool, default=True
        Whether the noise came from the entropy of the operating system. `False` after
        a fit with `random_state`, which is reproducible and hence not private.

    See Also
    --------
    PrivacyLedger : Keep the sum of many guarantees under a cap.

    Notes
    -----
    Gaussian parts compose exactly in Gaussian differential privacy [1]_.

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
    parts: tuple = ()
    assumptions: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    noise_is_secure: bool = True

    def __post_init__(self):
        checked = {
            "epsilon": check_epsilon(self.epsilon),
            "delta": check_delta(self.delta),
            "parts": plain_parts(self.parts),
            "assumptions": _words("assumptions", self.assumptions),
            "uncovered": _words("uncovered", self.uncovered),
            "noise_is_secure": bool(self.noise_is_secure),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.neighboring not in RELATIONS:
            raise ValueError(
                f"neighboring must be one of {list(RELATIONS)}, got "
                f"{self.neighboring!r}."
            )
        if not isinstance(self.mechanism, str):
            raise ValueError(f"mechanism must be a string, got {self.mechanism!r}.")
        if self.uncovered and self.epsilon != math.inf:
            raise ValueError(
                "A guarantee with `uncovered` entries promises nothing about the "
                f"whole: epsilon must be inf, got {self.epsilon!r}. Keep the price of "
                "the covered phase in `parts`."
            )

    @classmethod
    def from_parts(
        cls,
        parts: Iterable,
        *,
        delta: float,
        neighboring: str,
        mechanism: str,
        assumptions: Iterable[str] = (),
        uncovered: Iterable[str] = (),
        noise_is_secure: bool = True,
    ) -> PrivacyGuarantee:
        """Compose `parts` tightly and state the total at `delta`.

        Parameters
        ----------
        parts : iterable of tuples
            As the attribute of the same name.
        delta : float
            Range: [0, 1].
        neighboring : {"replace_one", "add_remove", "replace_one_in_group"}
            Which tables are neighbours.
        mechanism : str
            What was released, in plain words.
        assumptions : iterable of str, default=()
            Facts the guarantee takes as public.
        uncovered : iterable of str, default=()
            Steps or data the guarantee does not speak of.
        noise_is_secure : bool, default=True
            Whether the noise came from the entropy of the operating system.

        Returns
        -------
        PrivacyGuarantee
            With `epsilon` the composed total at `delta`; `inf` if `uncovered`.
        """
        parts = plain_parts(parts)
        delta = check_delta(delta)
        uncovered = _words("uncovered", uncovered)
        return cls(
            epsilon=math.inf if uncovered else compose_epsilon(parts, delta),
            delta=delta,
            neighboring=neighboring,
            mechanism=mechanism,
            parts=parts,
            assumptions=assumptions,
            uncovered=uncovered,
            noise_is_secure=noise_is_secure,
        )

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest known epsilon at this `delta`; `inf` if uncovered.

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
        return math.inf if self.uncovered else compose_epsilon(own_parts(self), delta)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest known delta at this `epsilon`; 1 if uncovered.

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
        return 1.0 if self.uncovered else compose_delta(own_parts(self), epsilon)

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
        parts = tuple(part for one in several for part in own_parts(one))
        return _merged(several, parts, delta)

    def disjoint(self, *others: PrivacyGuarantee) -> PrivacyGuarantee:
        """Return the guarantee of releases about disjoint data: the maximum.

        Valid only if every record was sent to one of the releases by a fresh coin that
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
        parts = own_parts(self)
        for other in others:
            parts = (("maximum", parts, own_parts(other)),)
        return _merged(several, parts, max(one.delta for one in several))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts; infinity is the string "inf".

        Returns
        -------
        dict
            The fields by name.
        """
        return {name: to_plain(value) for name, value in asdict(self).items()}

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
            If a key is missing or unknown, or a value is out of its range.
        """
        known = [field.name for field in fields(cls)]
        if not isinstance(data, Mapping) or set(data) != set(known):
            raise ValueError(f"Expected a mapping with the keys {known}, got {data!r}.")
        free_text = {"mechanism", "neighboring", "assumptions", "uncovered"}
        return cls(
            **{
                name: value if name in free_text else from_plain(value)
                for name, value in data.items()
            }
        )

    def to_markdown(self) -> str:
        """Return the guarantee as a Markdown table.

        Returns
        -------
        str
            One row for each field.
        """
        return markdown_table(["privacy", "value"], self._rows())

    def __str__(self) -> str:
        sentences = [f"{self._statement()}, {RELATIONS[self.neighboring]}"]
        if self.mechanism:
            sentences[0] += f": {self.mechanism}"
        if self.uncovered:
            sentences.append(f"Not covered: {', '.join(self.uncovered)}")
        if self.assumptions:
            sentences.append(f"Assumed public: {', '.join(self.assumptions)}")
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
        if self.epsilon == math.inf:
            return "No differential privacy for the whole (epsilon = inf)"
        return (
            f"(epsilon = {round_up(self.epsilon)}, delta = {round_up(self.delta)})"
            "-differentially private"
        )

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("epsilon", round_up(self.epsilon)),
            ("delta", round_up(self.delta)),
            ("neighbouring tables", RELATIONS[self.neighboring]),
            ("mechanism", self.mechanism),
            ("parts", "; ".join(_part_text(part) for part in self.parts) or "none"),
            ("assumed public", ", ".join(self.assumptions) or "nothing"),
            ("not covered", ", ".join(self.uncovered) or "nothing"),
            ("noise", "secure" if self.noise_is_secure else _INSECURE),
        ]


_INSECURE = "Noise not secure: drawn from random_state, for study only"


def own_parts(guarantee: PrivacyGuarantee) -> tuple:
    """Return the parts of the covered phase, the statement itself if it has none."""
    if guarantee.parts or guarantee.uncovered:
        return guarantee.parts
    if guarantee.delta > 0:
        return (("declared", guarantee.epsilon, guarantee.delta),)
    return (("pure", guarantee.epsilon),) if guarantee.epsilon > 0 else ()


def _combinable(*several: PrivacyGuarantee) -> tuple[PrivacyGuarantee, ...]:
    for one in several:
        if not isinstance(one, PrivacyGuarantee):
            raise TypeError(f"Expected a PrivacyGuarantee, got {one!r}.")
    check_relations(one.neighboring for one in several)
    return several


def _merged(several: tuple, parts: tuple, delta: float) -> PrivacyGuarantee:
    """Return one guarantee with these parts and the caveats of all."""
    return PrivacyGuarantee.from_parts(
        parts,
        delta=delta,
        neighboring=several[0].neighboring,
        mechanism="; ".join(_union(one.mechanism for one in several if one.mechanism)),
        assumptions=_union(fact for one in several for fact in one.assumptions),
        uncovered=_union(step for one in several for step in one.uncovered),
        noise_is_secure=all(one.noise_is_secure for one in several),
    )


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
    if not _is_real(epsilon) or not epsilon >= 0:
        raise ValueError(f"epsilon must be a number in [0, inf], got {epsilon!r}.")
    return float(epsilon)


def check_delta(delta: float) -> float:
    """Return `delta` as a float in [0, 1], or raise."""
    if not _is_real(delta) or not 0 <= delta <= 1:
        raise ValueError(f"delta must be a number in [0, 1], got {delta!r}.")
    return float(delta)


def round_up(value: float, digits: int = 4) -> str:
    """Write a price so that it never looks smaller than it is (beyond 1e-9).

    >>> round_up(1.23401), round_up(1.0), round_up(1e-5)
    ('1.235', '1', '1e-05')
    """
    if value == math.inf:
        return "inf"
    # An excess of 1e-9 is rounding error: 1.0000000001 should read 1, not 1.001.
    up = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(up.create_decimal(Decimal(value * (1 - 1e-9)))):.{digits}g}"


def markdown_table(header: list[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table whose cells cannot break it."""

    def line(cells):
        safe = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
        return f"| {' | '.join(safe)} |"

    rule = "|" + " --- |" * len(header)
    return "\n".join([line(header), rule, *map(line, rows)]) + "\n"


def _is_real(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _union(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _words(name: str, value) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{name} must be a tuple of strings, got {value!r}.")
    return tuple(value)


def plain_parts(parts) -> tuple:
    """Return parts as nested tuples of Python's own strings and numbers."""
    parts = _as_plain_tuples(parts)
    for part in parts:
        if not isinstance(part, tuple) or not part or not isinstance(part[0], str):
            raise ValueError(
                "Each part must be a tuple that starts with the name of a mechanism, "
                f'such as ("pure", 1.0); got {part!r}.'
            )
    return parts


def _as_plain_tuples(value):
    if isinstance(value, str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Iterable):
        return tuple(_as_plain_tuples(item) for item in value)
    raise ValueError(f"A part holds names and numbers only, got {value!r}.")


def to_plain(value):
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return "inf" if value == math.inf else value


def from_plain(value):
    if isinstance(value, list | tuple):
        return tuple(from_plain(item) for item in value)
    return math.inf if value == "inf" else value


def _part_text(part) -> str:
    if part[0] == "maximum":
        sides = (", ".join(map(_part_text, side)) or "nothing" for side in part[1:])
        return f"maximum of ({') and ('.join(sides)})"
    return " ".join([part[0], *(f"{number:.6g}" for number in part[1:])])
