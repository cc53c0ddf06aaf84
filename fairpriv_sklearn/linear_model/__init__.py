"""Linear models that are private, and fair by a penalty during the fit."""

from ._linear import DPLinearRegression
from ._output_perturbation import DPOutputPerturbationLogisticRegression
from ._wasserstein_logistic import DPWassersteinLogisticRegression

__all__ = [
    "DPLinearRegression",
    "DPOutputPerturbationLogisticRegression",
    "DPWassersteinLogisticRegression",
]
