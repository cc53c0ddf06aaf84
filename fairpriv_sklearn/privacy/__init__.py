"""Privacy objects: what was released, at what cost, out of which budget."""

from fairpriv_sklearn._guarded import WrappedEstimatorError, show_wrapped_errors

from ._facts import Fact, PrivacyLeakWarning, warn_leak
from ._guarantee import PrivacyGuarantee
from ._ledger import BudgetExceededError, PrivacyBudget, PrivacyLedger
from ._report import PrivacyReport, guarantee_of, privacy_report
from ._steps import StepPrivacy
from ._with_budget import with_budget

__all__ = [
    "BudgetExceededError",
    "Fact",
    "PrivacyBudget",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PrivacyReport",
    "StepPrivacy",
    "WrappedEstimatorError",
    "guarantee_of",
    "privacy_report",
    "show_wrapped_errors",
    "warn_leak",
    "with_budget",
]
