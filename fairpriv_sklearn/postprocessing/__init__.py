"""Post-processing: make the output of a fitted model fair, privately."""

from ._barycenter import DPBarycenterTransformer
from ._barycenter_regressor import DPBarycenterRegressor
from ._dp2dp import DP2DPClassifier
from ._phases import ConstantClassifier, ConstantRegressor, enough_rows
from ._repair import RepairWarning
from ._score_bins import bin_scores

# What is not in this list is for the other rooms of the package.
__all__ = [
    "DP2DPClassifier",
    "DPBarycenterRegressor",
    "DPBarycenterTransformer",
    "RepairWarning",
]
