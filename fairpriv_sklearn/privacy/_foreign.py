"""Guarantees of other libraries' private models, judged model by model.

A statement "epsilon" of another library is not enough: for which neighbouring tables
does it hold, what does the fit read from the data besides, and what does it publish
without noise? Where one of these cannot be answered the model is not covered.
"""

from dataclasses import dataclass

from ..accounting import PureEvent
from ._guarantee import PrivacyGuarantee


@dataclass(frozen=True)
class _Model:
    """How a model of diffprivlib keeps its epsilon.

    Attributes
    ----------
    factor : float
        What its epsilon is multiplied by for one replaced record.
    given : tuple of str
        Arguments that it reads from the data if they are None.
    why_not : str
        Why it is not covered, if so.
    """

    factor: float = 1.0
    given: tuple[str, ...] = ()
    why_not: str = ""


# Read in diffprivlib 0.6.6. A leaf's label is drawn by permute-and-flip on counts that
# one *added* record changes by one; a replaced one changes two of them. A forest deals
# its rows to the trees by position: a replaced record stays in one tree.
_TREE = _Model(2.0, given=("bounds", "classes"))
_CLASSES_READ = "it reads the list of labels from the data and takes no public one"
_DIFFPRIVLIB = {
    "DecisionTreeClassifier": _TREE,
    "RandomForestClassifier": _TREE,
    "GaussianNB": _Model(why_not=_CLASSES_READ),
    "LogisticRegression": _Model(why_not=_CLASSES_READ),
    "LinearRegression": _Model(
        why_not="the sensitivity of its second moments looks at the lower bounds only"
    ),
    "KMeans": _Model(
        why_not="it keeps labels and inertia without noise, and leaves empty clusters"
    ),
}
_UNKNOWN = _Model(why_not="what it reads from the data has not been examined")


def is_diffprivlibs(estimator) -> bool:
    """Whether an estimator is a model of diffprivlib, known by its module's name."""
    return type(estimator).__module__.partition(".")[0] == "diffprivlib"


def epsilon_factor(estimator) -> float:
    """What the epsilon of a private estimator is multiplied by in its guarantee."""
    if not is_diffprivlibs(estimator):
        return 1.0
    return _DIFFPRIVLIB.get(type(estimator).__name__, _UNKNOWN).factor


def diffprivlib_guarantee(model, before=None) -> PrivacyGuarantee:
    """Return the guarantee of a model of diffprivlib, for one replaced record.

    Parameters
    ----------
    model : estimator
        Fitted or not.
    before : estimator, default=None
        The same model before its fit. A fit writes what it read from the data over the
        arguments, so that a fitted model alone does not tell which of them were given.
    """
    kind = type(model).__name__
    known = _DIFFPRIVLIB.get(kind, _UNKNOWN)
    uncovered = [f"diffprivlib's {kind}: {known.why_not}"] if known.why_not else []
    if getattr(model, "warm_start", False):
        uncovered.append(f"earlier fits of diffprivlib's {kind}, kept by warm_start")
    told = model if before is None else before
    # What a search that chose it wrote on it; its `fit` leaves such attributes alone.
    written = vars(model).get("privacy_")
    others = written.conditional_on if isinstance(written, PrivacyGuarantee) else ()
    others = [fact for fact in others if not fact.endswith(f"diffprivlib's {kind}")]
    fitted = before is None and hasattr(model, "classes_")
    read = [
        f"{argument} of diffprivlib's {kind}"
        for argument in known.given
        if fitted or getattr(told, argument, None) is None
    ]
    return PrivacyGuarantee.from_events(
        [PureEvent(known.factor * model.epsilon)],
        delta=0.0,
        neighboring="replace_one",
        mechanism=f"diffprivlib {kind}",
        assumptions=[f"diffprivlib's own statement of epsilon for {kind}"],
        uncovered=uncovered,
        conditional_on=[] if uncovered else read + others,
        noise_is_secure=model.random_state is None,
    )
