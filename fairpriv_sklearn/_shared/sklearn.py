"""The one door to scikit-learn's private names.

scikit-learn offers no public spelling for these; when one of them moves, this file
is the only one to change.
"""

from sklearn import get_config
from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

__all__ = [
    "HasMethods",
    "Interval",
    "StrOptions",
    "fit_context",
    "routing_enabled",
    "safe_indexing",
]


def routing_enabled() -> bool:
    """Whether the user has switched metadata routing on."""
    return get_config()["enable_metadata_routing"]
