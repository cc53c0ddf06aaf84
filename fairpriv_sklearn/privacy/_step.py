"""One step of an estimator, and what it does to privacy."""

from dataclasses import dataclass
from typing import Any

from ._guarantee import PrivacyGuarantee


@dataclass(frozen=True)
class StepPrivacy:
    """What one step of a pipeline does to privacy.

    Parameters
    ----------
    name : str
        Its place, in the notation of `set_params`; empty for the whole.
    estimator : str
        Name of its class.
    status : {"private", "conditional", "public", "uncovered"}
        Private: it has a guarantee. Conditional: its privacy, or that it learnt
        nothing, holds on a condition. Public: it learnt nothing from the data.
    guarantee : PrivacyGuarantee or None
        Its own guarantee, if it has one.
    assumption : str
        What is assumed of it.
    fix : str
        How to cover an uncovered step.
    conditional_on : tuple of str
        Names of what it read from the data, or is supposed to do, itself.
    notes : tuple of str
        What a repair left as it was, by its noisy numbers.
    """

    name: str
    estimator: str
    status: str
    guarantee: PrivacyGuarantee | None = None
    assumption: str = ""
    fix: str = ""
    conditional_on: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and class of the step."""
        return f"{self.name} ({self.estimator})" if self.name else self.estimator

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that `json.dumps` accepts.

        Returns
        -------
        dict
            The fields by name.
        """
        guarantee = self.guarantee and self.guarantee.to_dict()
        return {
            **vars(self),
            "guarantee": guarantee,
            "conditional_on": list(self.conditional_on),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Found:
    """A step with the estimator it is about."""

    step: StepPrivacy
    estimator: Any
    frozen: bool

    @property
    def is_paid(self) -> bool:
        """Whether it is charged to a ledger of its own, or was in an earlier fit."""
        return self.frozen or getattr(self.estimator, "ledger", None) is not None
