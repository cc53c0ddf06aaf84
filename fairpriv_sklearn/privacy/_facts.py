"""Facts that a guarantee takes as public, and the warning where one was not given."""

from dataclasses import dataclass
from typing import Any

from .._shared.arguments import one_of, text
from .._shared.callers import ThreadFlag, hushed, is_error, warn_caller

ORIGINS = ("given", "public source", "released", "read from the data")
READ = ORIGINS[-1]
_refused = ThreadFlag()


class PrivacyLeakWarning(RuntimeWarning):
    """Something was read from the data and published without noise."""


@dataclass(frozen=True)
class Fact:
    """A fact taken as public, and where it came from.

    .. rubric:: Privacy

    A fact that was read from the data makes a guarantee conditional: it promises
    nothing to a reader who does not regard the fact as public. Its value is exactly
    what would leak, and is not kept.

    Parameters
    ----------
    name : str
        The argument that states it ("groups"), or plain words.
    value : object, default=None
        The fact itself; None if it was read from the data, or where the name says all.
    origin : {"given", "public source", "released", "read from the data"}, \
default="given"
        An argument; a codebook or the like; a mechanism, paid for; or the data.

    See Also
    --------
    PrivacyGuarantee : Lists facts as `assumptions` or in `conditional_on`.

    Examples
    --------
    >>> from fairpriv_sklearn.privacy import Fact
    >>> str(Fact("groups", [0, 1]))
    'groups=[0, 1]'
    >>> Fact("bounds", origin="read from the data").is_read
    True
    """

    name: str
    value: Any = None
    origin: str = "given"

    def __post_init__(self):
        text("name", self.name)
        one_of(*ORIGINS)("origin", self.origin)
        if self.is_read:
            object.__setattr__(self, "value", None)

    @property
    def is_read(self) -> bool:
        """Whether the fact was read from the data."""
        return self.origin == READ

    def __str__(self) -> str:
        if self.is_read:
            return f"{self.name} (read from the data)"
        value = _few_digits(self.value) if self.origin == "released" else self.value
        words = self.name if value is None else f"{self.name}={value!r}"
        return words if self.origin == "given" else f"{words} ({self.origin})"


def _few_digits(value):
    """A released range, which has the digits of its noise, for a reader."""
    if isinstance(value, list | tuple):
        return type(value)(map(_few_digits, value))
    return float(f"{value:.6g}") if isinstance(value, float) else value


def warn_leak(argument: str, what: str) -> Fact:
    """Warn that a fact was read from the data, and name the argument that avoids it.

    .. rubric:: Privacy

    The text depends on the arguments only; keep values of the data out of them.

    Parameters
    ----------
    argument : str
        The constructor argument that would have stated the fact publicly.
    what : str
        The fact in plain words ("the list of groups"), never its value.

    Returns
    -------
    Fact
        The fact on which the guarantee is then conditional, without a value.

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
    ...     fact = warn_leak("groups", "the list of groups")
    >>> print(caught[0].message)
    The list of groups was read from the data and is published without noise, which \
the privacy guarantee does not cover. Pass `groups`, fixed without looking at the data.
    >>> fact.origin
    'read from the data'
    """
    text("argument", argument)
    text("what", what)
    message = (
        f"{what[:1].upper()}{what[1:]} was read from the data and is published without "
        "noise, which the privacy guarantee does not cover. "
        f"Pass `{argument}`, fixed without looking at the data."
    )
    if _refused.is_on:
        raise PrivacyLeakWarning(message)
    warn_caller(message, PrivacyLeakWarning)
    return Fact(argument, origin=READ)


def leaks_refused():
    """Raise what `warn_leak` would warn of, in this thread and whatever the filters."""
    return _refused.switched_on()


def leaks_foreseen():
    """Leave what `warn_leak` would warn of to a later fit, unless filters raise it.

    As an error it would come when the steps before that fit have spent.
    """
    return leaks_refused() if is_error(PrivacyLeakWarning) else hushed()
