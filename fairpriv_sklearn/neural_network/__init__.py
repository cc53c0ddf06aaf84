"""Networks that are private, and fair by a sliced Wasserstein penalty in the fit."""

from ._autoencoder import DPWassersteinAutoencoder
from ._mlp import DPWassersteinMLPClassifier, DPWassersteinMLPRegressor

__all__ = [
    "DPWassersteinAutoencoder",
    "DPWassersteinMLPClassifier",
    "DPWassersteinMLPRegressor",
]
