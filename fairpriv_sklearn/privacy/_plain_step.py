"""Steps that hold no other: do they learn, and are they known to work row by row?"""

from dataclasses import replace

import numpy as np
from scipy import special
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from .._shared.guarded import fit_to_made_up
from .._shared.nested import owners
from ._step import StepPrivacy

# Attributes that hold the schema or the configuration of scikit-learn, not the data.
_SCHEMA = {"n_features_in_", "feature_names_in_", "_n_features_out"}
_CONFIGURATION = {"_sklearn_output_config", "_metadata_request"}

ROW_PURE = "__fairpriv_row_pure__"


def _categories_given(step) -> bool:
    # Rare categories are found by counting rows; and whether a row has an unknown one
    # is nobody's business.
    counted = (step.min_frequency, step.max_categories) != (None, None)
    dropped = getattr(step, "drop", None) is not None
    warns = step.handle_unknown == "warn" or (
        dropped and step.handle_unknown != "error"
    )
    return not isinstance(step.categories, str) and not counted and not warns


def _keeps_types(step) -> bool:
    """Whether it keeps types of columns that a cell, such as a gap, may decide.

    Columns that text is listed for, or put into, are of text: others are refused.
    """
    if type(step).__name__ == "SimpleImputer":
        return not isinstance(step.fill_value, str)
    if type(step).__name__ not in ("OneHotEncoder", "OrdinalEncoder"):
        return False
    lists = [np.ravel(np.asarray(some, dtype=object)) for some in step.categories]
    of_text = all(isinstance(one, str) for some in lists for one in some)
    return not (of_text and step.handle_unknown == "error")


def _fills_constant(step) -> bool:
    # Columns without any value are dropped, or indicated, by looking at the rows.
    looks_at_rows = not step.keep_empty_features or step.add_indicator
    return step.strategy == "constant" and not looks_at_rows


# Steps of scikit-learn that learn nothing and work on each row on its own. That one
# needs no fit does not say so: a Gaussian process does not, and keeps all rows.
_WITHOUT_FIT = """AdditiveChi2Sampler Binarizer FeatureHasher FunctionTransformer
    HashingVectorizer Normalizer""".split()
# They compute: NumPy warns of cells that are too large.
_OVERFLOW = "AdditiveChi2Sampler Normalizer PolynomialFeatures RBFSampler".split()
# Steps of scikit-learn that may learn nothing beyond what their constructor was told:
# the condition under which that is so, and how to reach it.
_FROM_CONSTRUCTOR = {
    "OneHotEncoder": (
        _categories_given,
        "Pass `categories=[...]`, the public list for each column, leave "
        "`min_frequency` and `max_categories` at None, and do not let it warn of "
        "unknown ones, as it does where one is dropped: `drop=None`, or "
        '`handle_unknown="error"`.',
    ),
    "OrdinalEncoder": (
        _categories_given,
        "Pass `categories=[...]`, the public list for each column, and leave "
        "`min_frequency` and `max_categories` at None.",
    ),
    "SimpleImputer": (
        _fills_constant,
        'Use `strategy="constant"` with a public `fill_value`, '
        "`keep_empty_features=True` and `add_indicator=False`.",
    ),
    "SplineTransformer": (
        lambda step: not isinstance(step.knots, str),
        "Pass `knots` as an array fixed without looking at the data.",
    ),
    "PolynomialFeatures": (lambda step: True, ""),
    "RBFSampler": (
        lambda step: step.gamma != "scale",
        "Pass `gamma` as a number fixed without looking at the data.",
    ),
}
_PUBLIC_BOUNDS = (
    "Leave it out and pass public `bounds` to the private model, which scales by them."
)
_SCALERS = {"StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"}
_FIX_BY_NAME = {
    **dict.fromkeys(_SCALERS, _PUBLIC_BOUNDS),
    **{name: fix for name, (_, fix) in _FROM_CONSTRUCTOR.items()},
}
ANY_FIX = (
    "Replace it by a private step, or by one that learns nothing from this data, such "
    "as a `FunctionTransformer` around a NumPy ufunc."
)
_DRAWN_FIX = (
    "Leave it out: a row that is drawn twice counts twice, and the others decide which "
    "are. Where labels are rare, give a model that takes one a public `class_weight`."
)
_FUNCTION_FIX = (
    "Use a NumPy ufunc without `out` and `where`, or declare that the function works "
    f"on each row on its own: set its attribute `{ROW_PURE}` to True."
)
_CLASS_FIX = (
    "Declare that it learns nothing and works on each row on its own: set the class "
    f"attribute `{ROW_PURE}` to True."
)
_TYPES = "keeps the types of its columns, which no cell has decided"
_DEFINED = "is handed no cell that NumPy warns of"
_INVERSE_FIX = (
    "Pass `check_inverse=False`: whether the check of the inverse warns depends on the "
    "values of some rows."
)
# Functions of each number on its own that are no ufuncs.
_ELEMENTWISE = (np.clip, np.nan_to_num, np.round, np.around, np.real, np.imag)


def works_by_row(function) -> bool:
    """Whether a function is known to work on each row on its own."""
    if function is None or any(function is one for one in _ELEMENTWISE):
        return True
    name = getattr(function, "__name__", "")
    library = any(getattr(home, name, None) is function for home in (np, special))
    return isinstance(function, np.ufunc) and library


def _writes(transformer: FunctionTransformer) -> bool:
    """Whether a ufunc leaves rows in somebody's array, or out."""
    return not {"out", "where"}.isdisjoint(transformer.kw_args or ())


def _calls(estimator) -> bool:
    """Whether a step calls functions of the user, such as a tokenizer."""
    given = estimator.get_params(deep=False).values()
    return any(callable(value) and not isinstance(value, type) for value in given)


def plain_step(estimator, name: str, fitted: bool) -> StepPrivacy:
    kind = type(estimator).__name__
    step = StepPrivacy(name, kind, "public")
    if not _learns_nothing(estimator, fitted):
        fix = _FIX_BY_NAME.get(kind) if is_scikit_learns(estimator) else None
        fix = _DRAWN_FIX if hasattr(estimator, "fit_resample") else fix or ANY_FIX
        return replace(step, status="uncovered", fix=fix)
    function = isinstance(estimator, FunctionTransformer)
    if function and inverse_refusal(estimator):
        return replace(step, status="uncovered", fix=_INVERSE_FIX)
    function = function and is_scikit_learns(estimator)  # of others its class counts
    if function and works_by_row(estimator.func) and not _writes(estimator):
        is_ufunc = isinstance(estimator.func, np.ufunc)
        return replace(step, assumption=_DEFINED) if is_ufunc else step
    if not function and is_scikit_learns(estimator) and not _calls(estimator):
        if kind in _OVERFLOW:
            return replace(step, assumption=_DEFINED)
        return replace(step, assumption=_TYPES) if _keeps_types(estimator) else step
    # Somebody's own code: nothing here can see what it does to the rows.
    declared = getattr(estimator.func if function else estimator, ROW_PURE, None)
    what = "works on each row on its own"
    what = what if function else f"learns nothing and {what}"
    if declared is True:
        return replace(step, assumption=what)
    fix, facts = _FUNCTION_FIX if function else _CLASS_FIX, (f"{step.title} {what}",)
    return replace(step, status="conditional", fix=fix, conditional_on=facts)


def inverse_refusal(transformer) -> str:
    """Of what is transformed, rows or the target, with an inverse that is checked."""
    both = None not in (transformer.func, transformer.inverse_func)
    has_inverse = both or getattr(transformer, "transformer", None) is not None
    return _INVERSE_FIX if has_inverse and transformer.check_inverse else ""


def is_scikit_learns(estimator) -> bool:
    return type(estimator).__module__.startswith("sklearn.")


def _learns_nothing(estimator, fitted: bool) -> bool:
    kind = type(estimator)
    if hasattr(estimator, "fit_resample"):
        return False  # leaves rows out, or makes more of them, by the others
    if not hasattr(estimator, "fit"):
        return True
    if is_scikit_learns(estimator):
        if kind.__name__ in _FROM_CONSTRUCTOR:
            return _FROM_CONSTRUCTOR[kind.__name__][0](estimator)
        if kind.__name__ in _WITHOUT_FIT:
            return True
    # Any attribute that is no argument counts, whatever its name: many an estimator
    # keeps what it learnt under a leading underscore. Unfitted, scikit-learn's own
    # estimators are known to learn, and of others nothing is known.
    if not fitted:
        return not is_scikit_learns(estimator)
    arguments = estimator.get_params(deep=False) if hasattr(kind, "get_params") else ()
    return set(vars(estimator)) <= {*arguments, *_SCHEMA, *_CONFIGURATION}


def learns_from_made_up(estimator, kind: type, X) -> bool:
    """Whether a step learns of a made-up table: as wide as X, and named like it."""
    tried, y = clone(estimator), np.arange(20) % 2
    cells = [[kind(0.618 * i * j % 1) for j in range(X.shape[1])] for i in range(20)]
    table = np.array(cells, dtype=object if kind is str else float)
    try:
        for one in owners(tried, lambda one: isinstance(one, FrozenEstimator)).values():
            if getattr(one, "ledger", None) is not None:
                one.ledger = None  # no private row is looked at
        if hasattr(type(X), "iloc"):
            table = type(X)(table, columns=X.columns)
        fit_to_made_up(tried, table, y)
    except Exception:
        return False
    # What tells its guarantee is no matter of ours.
    return not (hasattr(tried, "privacy_") or _learns_nothing(tried, fitted=True))
