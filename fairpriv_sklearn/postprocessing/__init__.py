"""Post-processing: make the output of a fitted model fair, privately."""

from fairpriv_sklearn.postprocessing._barycenter import DPBarycenterTransformer
from fairpriv_sklearn.postprocessing._barycenter_regressor import DPBarycenterRegressor
from fairpriv_sklearn.postprocessing._dp2dp import DP2DPClassifier
from fairpriv_sklearn.postprocessing._phases import (
    ConstantClassifier,
    ConstantRegressor,
    enough_rows,
)
from fairpriv_sklearn.postprocessing._repair import RepairWarning
from fairpriv_sklearn.postprocessing._score_bins import bin_scores

# What is not in this list is for the other rooms of the package.
__all__ = [
    "DP2DPClassifier",
    "DPBarycenterRegressor",
    "DPBarycenterTransformer",
    "RepairWarning",
]
