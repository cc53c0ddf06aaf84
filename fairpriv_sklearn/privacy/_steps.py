"""What each step of an estimator does to privacy, asked before a fit and after."""

from ..accounting import compose_epsilon
from ._composed import composed
from ._guarantee import PrivacyGuarantee, own_events
from ._metas import parts_of
from ._plain_step import ANY_FIX, is_scikit_learns, learns_from_made_up
from ._step import StepPrivacy  # noqa: F401 - where older pickles look for it
from ._walk import places, walk

CONDITIONAL = (
    "The guarantee of the whole is conditional on this, and its epsilon infinite"
)
# Two calibrations to one budget compose to the same but for rounding. Compositions are
# rounded up by ten times this, so what costs so little more is below what is printed.
_ROUNDED = 1.0 + 1e-11


def expected_guarantee(estimator, *, unpaid: bool = False) -> PrivacyGuarantee | None:
    """Return the guarantee that a fit of an estimator will have at most.

    Parameters
    ----------
    estimator : estimator
        Not fitted; pipelines and the like are looked into. Frozen parts are fitted.
    unpaid : bool, default=False
        Only what no ledger of a step of its own pays for, nor an earlier fit did.

    Returns
    -------
    PrivacyGuarantee or None
        A function of public arguments only. None if no part is private. What a fit
        reads from the data is known after it only (`kept`).
    """
    steps = list(walk(estimator, fitted=False))
    if unpaid:
        steps = [one for one in steps if not one.is_paid]
    return composed(iter(steps), planned=True)


def learns_nothing(estimator) -> bool:
    """Whether a fit of an estimator, by its arguments, learns nothing of its rows."""
    return all(one.step.status == "public" for one in walk(estimator, fitted=False))


def ways_out(estimator) -> str:
    """What a fit of an estimator will leave uncovered, and how to cover it."""
    found = (one.step for one in walk(estimator, fitted=False))
    said = [
        f" {step.title} is not covered. {step.fix}".removesuffix(f" {ANY_FIX}")
        for step in found
        if step.status == "uncovered"
    ]
    return "".join(dict.fromkeys(said))


def refuse_learners(estimator, X) -> None:
    """Refuse steps of other packages that learn, which only a fit tells.

    Here one to made-up cells in the form of X; a step that takes none is left alone.
    """
    for one in walk(estimator, fitted=False):
        is_known = one.step.guarantee or one.frozen or is_scikit_learns(one.estimator)
        steps = parts_of(one.estimator, fitted=False)  # judged one by one
        if is_known or steps is not None or not hasattr(one.estimator, "fit"):
            continue
        if any(learns_from_made_up(one.estimator, kind, X) for kind in (float, str)):
            raise ValueError(
                f"{one.step.title} learns from its rows, and is not private. {ANY_FIX}"
            )


def conditions_of(estimator) -> str:
    """A sentence on what the guarantee of a fit will be conditional, if it will be."""
    found = (one.step for one in walk(estimator, fitted=False))
    steps = [step for step in found if step.conditional_on]
    facts = dict.fromkeys(fact for step in steps for fact in step.conditional_on)
    fixes = dict.fromkeys(step.fix for step in steps)
    if not facts:
        return ""
    return f"{CONDITIONAL}: {'; '.join(facts)}. {' '.join(fixes)}"


def kept(expected: PrivacyGuarantee, estimator, before=None) -> PrivacyGuarantee:
    """Return the expected guarantee with what the fitted estimator says of itself.

    Parameters
    ----------
    expected : PrivacyGuarantee
        From `expected_guarantee`, before the fit.
    estimator : estimator
        Fitted.
    before : estimator, default=None
        The same before its fit.

    Raises
    ------
    ValueError
        If the fit cost more than expected.
    """
    actual = own_guarantee(estimator, before)
    if actual is None:
        return expected.qualified(uncovered=["estimator"])
    delta = max(expected.delta, actual.delta)
    most, cost = (compose_epsilon(own_events(one), delta) for one in (expected, actual))
    if cost > most * _ROUNDED:
        raise ValueError(
            "The wrapped estimator cost more than its arguments say: its fit cannot be "
            "covered by the budget that was reserved for it."
        )
    return expected.qualified(
        assumptions=actual.assumptions,
        uncovered=actual.uncovered,
        conditional_on=actual.conditional_on,
        # A bagging estimator seeds what it wraps, whatever that was told.
        noise_is_secure=actual.noise_is_secure,
    )


def own_guarantee(estimator, before=None) -> PrivacyGuarantee | None:
    """Of the steps that are in an estimator, wherever that stands itself."""
    return composed(walk(estimator, before=places(before)))
