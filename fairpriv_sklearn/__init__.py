"""Private and fair machine learning with the scikit-learn interface.

Every estimator is differentially private for whole records and treats groups alike;
what a fit released and what it cost stands in its `privacy_`.
"""

import importlib

__version__ = "0.1.0"

__all__ = [
    "accounting",
    "audit",
    "datasets",
    "distributed",
    "generative",
    "inspection",
    "linear_model",
    "mechanisms",
    "metrics",
    "model_selection",
    "neural_network",
    "postprocessing",
    "preprocessing",
    "privacy",
    "transport",
]


def __getattr__(name):
    # Submodules are imported on first use: the package itself stays light.
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
