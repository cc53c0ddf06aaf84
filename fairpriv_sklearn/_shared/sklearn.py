"""The one door to scikit-learn's private names.

scikit-learn offers no public spelling for these; when one of them moves, this file
is the only one to change.
"""

from sklearn import get_config
from sklearn.base import _fit_context as fit_context
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metadata_routing import MetadataRouter, get_routing_for_object
from sklearn.utils.validation import _check_feature_names_in as check_feature_names

__all__ = [
    "DocumentationLink",
    "HasMethods",
    "HasProbabilities",
    "Interval",
    "Options",
    "StrOptions",
    "alias_of_groups",
    "asks_for",
    "check_feature_names",
    "fit_context",
    "gives_frames",
    "has_weights",
    "refuse_composition",
    "router_of",
    "routing_enabled",
    "safe_indexing",
]


class HasProbabilities(HasMethods):
    """What may be wrapped for its probabilities; the way out for SVC and its like."""

    def __init__(self):
        super().__init__(["fit", "predict_proba"])

    def __str__(self):
        return f"{super().__str__()} (CalibratedClassifierCV around one without)"


# To be replaced, here and in setup.cfg, when the pages have a home.
DOCUMENTATION = "https://example.org/fairpriv_sklearn"


class DocumentationLink:
    """Estimators whose HTML representation links to our pages of the API."""

    _doc_link_module = "fairpriv_sklearn"
    _doc_link_template = (
        DOCUMENTATION + "/generated/{estimator_module}.{estimator_name}.html"
    )


def has_weights(bagging) -> bool:
    """Whether fitted bagging keeps the weights of its rows."""
    return getattr(bagging, "_sample_weight", None) is not None


def refuse_composition(estimator) -> None:
    """Refuse steps, or names of theirs, that a fit by scikit-learn would."""
    if isinstance(estimator, Pipeline):
        estimator._validate_steps()
    elif isinstance(estimator, ColumnTransformer | FeatureUnion):
        estimator._validate_transformers()
    elif hasattr(type(estimator), "_validate_estimators"):  # a vote or a stack
        estimator._validate_estimators()


def routing_enabled() -> bool:
    """Whether the user has switched metadata routing on."""
    return get_config()["enable_metadata_routing"]


def gives_frames(transformer) -> bool:
    """Whether `set_output`, or scikit-learn's configuration, asks for data frames."""
    return _get_output_config("transform", transformer)["dense"] != "default"


def asks_for(estimator, method: str, names) -> bool:
    """Whether a method, or what it hands metadata on to, asks for one of these."""
    return bool(get_routing_for_object(estimator).consumes(method, names))


def alias_of_groups(estimator) -> str:
    """What the sensitive features are called by who passes them to `fit`."""
    name = "sensitive_features"
    asked = estimator._get_metadata_request().fit.requests.get(name)
    return asked if isinstance(asked, str) else name


def router_of(meta, mapping) -> MetadataRouter:
    """Metadata for a meta-estimator itself, and for what it wraps by a mapping."""
    router = MetadataRouter(owner=type(meta).__name__).add_self_request(meta)
    return router.add(estimator=meta.estimator, method_mapping=mapping)
