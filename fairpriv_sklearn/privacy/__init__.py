"""Privacy objects: what was released, at what cost, out of which budget."""

from fairpriv_sklearn._shared.guarded import WrappedEstimatorError, show_wrapped_errors

from ._card import CardLine, DeploymentCard, deployment_card
from ._facts import Fact, PrivacyLeakWarning, warn_leak
from ._guarantee import PrivacyGuarantee
from ._ledger import BudgetExceededError, PrivacyBudget, PrivacyLedger
from ._report import PrivacyReport, guarantee_of, privacy_report
from ._steps import StepPrivacy
from ._with_budget import with_budget

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
