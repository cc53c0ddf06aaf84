"""What an estimator claims, as something that can be refuted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from .._shared.arguments import number, one_of
from .._shared.rounded import round_up
from .._wall import PrivacyGuarantee, gaussian_epsilon, guarantee_of, privacy_report
from ._tables import RELATIONS, SIZES_PUBLIC


@dataclass(frozen=True)
class Claim:
    """A claim and its source.

    Parameters
    ----------
    epsilon, delta : float
        Where the claim is stated.
    neighboring : str
        Which tables are neighbours.
    mu : float or None
        If the claim is one of Gaussian differential privacy.
    guarantee : PrivacyGuarantee or None
        If it is one.
    own : bool
        Whether it is the `privacy_` of the estimator and not an argument.
    """

    epsilon: float
    delta: float
    neighboring: str
    mu: float | None = None
    guarantee: PrivacyGuarantee | None = None
    own: bool = False

    def __str__(self) -> str:
        if self.mu is not None:
            return f"{round_up(self.mu)}-Gaussian DP, {self.neighboring}"
        epsilon, delta = round_up(self.epsilon), round_up(self.delta)
        return f"(epsilon = {epsilon}, delta = {delta})-DP, {self.neighboring}"


def claim_of(claim, fitted, neighboring) -> Claim:
    """Return the claim that was stated, or that the fitted estimator makes.

    Parameters
    ----------
    claim : PrivacyGuarantee, float, tuple, mapping or None
    fitted : estimator
    neighboring : str or None

    Returns
    -------
    Claim
    """
    relation = neighboring
    if relation is None:
        relation = getattr(fitted, "neighboring", None) or "replace_one"
    relation = one_of(*RELATIONS, *SIZES_PUBLIC)("neighboring", relation)
    own = claim is None
    if own:
        claim = _own_claim(fitted)
    if isinstance(claim, PrivacyGuarantee):
        return _of_guarantee(claim, neighboring or claim.neighboring, own)
    if isinstance(claim, Mapping):
        unknown = set(claim) - {"epsilon", "delta", "mu"}
        if unknown or not {"epsilon", "mu"} & set(claim):
            raise ValueError(
                'claim must have the key "epsilon" or "mu", and may have "delta".'
            )
        if "mu" in claim:
            mu = _number("mu", claim["mu"])
            delta = _number("delta", claim.get("delta", 1e-5), 1.0)
            return Claim(gaussian_epsilon(mu, delta), delta, relation, mu)
        claim = (claim["epsilon"], claim.get("delta", 0.0))
    if isinstance(claim, Real):
        claim = (claim, 0.0)
    if not isinstance(claim, tuple | list) or len(claim) != 2:
        raise ValueError(
            "claim must be epsilon, (epsilon, delta), {'mu': ...} or a "
            "PrivacyGuarantee."
        )
    epsilon = _number("epsilon", claim[0])
    return Claim(epsilon, _number("delta", claim[1], 1.0), relation, own=False)


def _own_claim(fitted):
    own = getattr(fitted, "privacy_", None)
    if isinstance(own, PrivacyGuarantee):
        return own
    if hasattr(fitted, "steps") or type(fitted).__module__.startswith("diffprivlib"):
        return privacy_report(fitted).guarantee
    if isinstance(own, Real | tuple | list) and not isinstance(own, bool):
        return own
    if isinstance(own, Mapping):
        return {k: own[k] for k in ("epsilon", "delta", "mu") if k in own}
    for name in ("epsilon", "epsilon_"):
        epsilon = getattr(fitted, name, None)
        if isinstance(epsilon, Real):
            delta = getattr(fitted, name.replace("epsilon", "delta"), 0.0)
            return (epsilon, delta if isinstance(delta, Real) else 0.0)
    guarantee = guarantee_of(fitted)
    if guarantee is None:
        raise ValueError(
            "The estimator states no guarantee: pass claim=(epsilon, delta)."
        )
    return guarantee


def _of_guarantee(guarantee, relation, own) -> Claim:
    mu = None
    is_gaussian = {e.kind for e in guarantee.events} == {"gaussian"}
    if guarantee.delta > 0 and guarantee.epsilon < math.inf and is_gaussian:
        # A claim of Gaussian DP says more than one pair does; the sampler's error is
        # beyond what runs can see.
        total = math.sqrt(math.fsum(event.mu**2 for event in guarantee.events))
        mu = total if 0 < total < math.inf else None
    return Claim(guarantee.epsilon, guarantee.delta, relation, mu, guarantee, own)


def _number(name, value, largest=math.inf) -> float:
    return float(number(0, largest)(f"The claim's {name}", value))
