"""Model selection under one privacy budget: search, cross-validation, planning."""

from ._plan import FitShare, SearchPlan
from ._planner import ExpectedError, expected_error
from ._scoring import BoundedScore, ConstrainedScore
from ._search import DPGridSearchCV, DPRandomizedSearchCV
from ._validation import CrossValidation, FoldScores, dp_cross_validate

__all__ = [
    "BoundedScore",
    "ConstrainedScore",
    "CrossValidation",
    "DPGridSearchCV",
    "DPRandomizedSearchCV",
    "ExpectedError",
    "FitShare",
    "FoldScores",
    "SearchPlan",
    "dp_cross_validate",
    "expected_error",
]
