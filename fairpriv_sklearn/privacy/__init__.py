"""Privacy objects: what was released, at what cost, out of which budget."""

from .._shared.guarded import WrappedEstimatorError, show_wrapped_errors
from ._budget._costs import (
    CONSTANT_SHARE,
    DRAWS_OF_ONE,
    FEW_DRAWS,
    KEY_SHARE,
    has_budget,
    is_encoder,
    reads_all_rows,
)
from ._budget._division import budget_of_steps, settings_of
from ._budget._refusals import (
    refuse_arguments,
    refuse_one_target,
    refuse_target,
    refuse_together,
    refuse_widths,
    refuse_without_room,
    rehearse,
)
from ._budget._with_budget import (
    places_told,
    surely,
    tell_again,
    untell,
    with_budget,
)
from ._card import CardLine, DeploymentCard, deployment_card
from ._composed import roomier
from ._facts import (
    READ,
    Fact,
    PrivacyLeakWarning,
    leaks_foreseen,
    leaks_refused,
    warn_leak,
)
from ._foreign import epsilon_factor, is_diffprivlibs
from ._guarantee import NOTHING, PrivacyGuarantee, own_events
from ._ledger import BudgetExceededError, PrivacyBudget, PrivacyLedger
from ._report import PrivacyReport, guarantee_of, privacy_report
from ._step import StepPrivacy
from ._steps import (
    CONDITIONAL,
    conditions_of,
    expected_guarantee,
    kept,
    learns_nothing,
    own_guarantee,
    refuse_learners,
    ways_out,
)

# What is not in this list is for the other rooms of the package.
__all__ = [
    "BudgetExceededError",
    "CardLine",
    "DeploymentCard",
    "Fact",
    "PrivacyBudget",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PrivacyReport",
    "StepPrivacy",
    "WrappedEstimatorError",
    "deployment_card",
    "guarantee_of",
    "privacy_report",
    "show_wrapped_errors",
    "warn_leak",
    "with_budget",
]
