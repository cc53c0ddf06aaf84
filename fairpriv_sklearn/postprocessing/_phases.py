"""The two phases of post-processing: fit a model, then calibrate its output.

A meta-estimator parts its rows by independent coins: some fit the wrapped model, the
others calibrate. A record is then in one phase only and the whole costs the larger of
the two guarantees, also though the second phase looks at the first one's model
(`PrivacyGuarantee.disjoint`). A `FrozenEstimator` is not fitted again and all rows
calibrate; its own guarantee, if it has one, is added, since nobody knows here whether
it saw the same people.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from fairpriv_sklearn._rowwise import BLOCK_ROWS, repeats_share_a_draw
from fairpriv_sklearn._sklearn import (
    Interval,
    StrOptions,
    routing_enabled,
    safe_indexing,
)
from fairpriv_sklearn.privacy import PrivacyGuarantee
from fairpriv_sklearn.privacy._report import guarantee_of

PHASE_CONSTRAINTS: dict = {
    "calibration_size": [Interval(Real, 0, 1, closed="neither")],
    "base_guarantee": [None, StrOptions({"public"}), PrivacyGuarantee],
    "handle_unknown": [StrOptions({"error", "pooled"})],
}
ROW_PURITY = "the wrapped estimator scores each row on its own"


@dataclass(frozen=True)
class FirstPhase:
    """What the first phase leaves: a fitted model and the rows for the second."""

    estimator: Any
    calibrate: np.ndarray  # indices of the calibration rows
    frozen: bool
    replaced: bool = False  # the estimator refused its rows, a constant stands in

    def total(self, own: PrivacyGuarantee, declared) -> PrivacyGuarantee:
        """The guarantee of both phases, `own` being the second one's."""
        own = own.qualified(assumptions=[ROW_PURITY])
        if declared == "public":
            return own.qualified(
                assumptions=["the wrapped estimator saw public data only"]
            )
        # A declaration speaks of the estimator as given, not of its stand-in.
        base = None if self.replaced else declared or guarantee_of(self.estimator)
        if base is None:
            return own.qualified(uncovered=["estimator"])
        return own.compose(base) if self.frozen else own.disjoint(base)

    def charge(
        self, own: PrivacyGuarantee, total: PrivacyGuarantee
    ) -> PrivacyGuarantee:
        """What this fit takes out of the ledger.

        The whole, unless the wrapped estimator was paid for elsewhere (fitted before,
        or with a ledger of its own) or has no price.
        """
        params = self.estimator.get_params(deep=True)
        has_ledger = any(
            name.rpartition("__")[2] == "ledger" and value is not None
            for name, value in params.items()
        )
        if self.frozen or has_ledger or total.uncovered:
            return own
        return total


def fit_first_phase(
    meta, X, y, source, sensitive_features, *, if_one_label=None
) -> FirstPhase:
    """Part the rows by coins and fit a clone of `meta.estimator` on one part.

    Parameters
    ----------
    meta : estimator
        With attributes `estimator` and `calibration_size`.
    X, y : array-like
        The model's columns, and the target.
    source : NoiseSource
        Draws the coins; they may be public, the rows are not.
    sensitive_features : array-like or None
        As given to `fit`; handed on to an estimator that requests them.
    if_one_label : classifier, default=None
        Fitted where the estimator refuses its rows and they hold one label only.
    """
    n_rows = len(y)
    if isinstance(meta.estimator, FrozenEstimator):
        check_is_fitted(meta.estimator)
        return FirstPhase(meta.estimator, np.arange(n_rows), frozen=True)
    if meta.base_guarantee == "public":
        raise ValueError(
            'base_guarantee="public" says that the estimator saw public rows only, but '
            "rows of this table would fit it. Fit it on public rows and pass it in a "
            "FrozenEstimator, or leave base_guarantee=None."
        )
    calibrate = source.bernoulli(n_rows, meta.calibration_size)
    rows = np.flatnonzero(~calibrate)
    if not len(rows):
        raise ValueError(
            "The coins left no row to fit the estimator: one sample or a few are too "
            "small a table to be parted. Lower calibration_size or pass a fitted "
            "FrozenEstimator."
        )
    params = requested(meta, "fit", "fit", sensitive_features)
    X, y = safe_indexing(X, rows), safe_indexing(y, rows)
    replaced = False
    try:
        estimator = clone(meta.estimator).fit(X, y, **_take(params, rows))
    except ValueError:
        if if_one_label is None or len(set(y.tolist())) > 1:
            raise
        estimator, replaced = if_one_label.fit(X, y), True
    calibrate = np.flatnonzero(calibrate)
    return FirstPhase(estimator, calibrate, frozen=False, replaced=replaced)


def call_base(meta, phase_estimator, caller, X, sensitive_features) -> np.ndarray:
    """Score the rows of `X` by the wrapped estimator, each row on its own.

    Under replace-one all rows keep their positions, and one call on the whole table
    is enough. Under add/remove a deletion moves rows: they go through in blocks of
    one size, the last filled up with a repeated row.

    Parameters
    ----------
    meta : estimator
        With attributes `neighboring` and `_base_method`, the method to call.
    phase_estimator : estimator
        The fitted wrapped estimator.
    caller : str
        Method of `meta` that is running.
    X, sensitive_features : array-like
        The rows, and their labels as given to `caller`, or None.
    """
    if caller == "fit":
        # A randomised wrapped model spreads its answers over identical rows: among
        # private rows, one record would then move the answers of others.
        with repeats_share_a_draw():
            return _call(meta, phase_estimator, caller, X, sensitive_features)
    return _call(meta, phase_estimator, caller, X, sensitive_features)


def _call(meta, phase_estimator, caller, X, sensitive_features) -> np.ndarray:
    method = getattr(phase_estimator, meta._base_method)
    params = requested(meta, caller, meta._base_method, sensitive_features)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if not n_rows:  # the coins left nothing to calibrate on: legal, all noise
        return np.empty(0)
    if meta.neighboring == "replace_one":
        return np.asarray(method(X, **params))
    outputs = []
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = np.minimum(np.arange(start, start + BLOCK_ROWS), n_rows - 1)
        outputs.append(
            np.asarray(method(safe_indexing(X, rows), **_take(params, rows)))
        )
    return np.concatenate(outputs)[:n_rows]


def take_rows(values, rows: np.ndarray):
    """Some rows of an array-like or DataFrame; None stays None."""
    return None if values is None else safe_indexing(values, rows)


def _take(params: dict, rows: np.ndarray) -> dict:
    return {name: take_rows(value, rows) for name, value in params.items()}


def requested(meta, caller: str, callee: str, sensitive_features) -> dict:
    """The metadata that the wrapped estimator's `callee` asks for, if routing is on."""
    if sensitive_features is None or not routing_enabled():
        return {}
    routed = process_routing(meta, caller, sensitive_features=sensitive_features)
    return dict(getattr(routed.estimator, callee))


def metadata_routing(meta) -> MetadataRouter:
    """Router of a meta-estimator whose every prediction calls `_base_method`."""
    mapping = MethodMapping().add(caller="fit", callee="fit")
    for caller in ("fit", "predict", "predict_proba", "decision_function", "score"):
        mapping.add(caller=caller, callee=meta._base_method)
    return (
        MetadataRouter(owner=type(meta).__name__)
        .add_self_request(meta)
        .add(estimator=meta.estimator, method_mapping=mapping)
    )


def inherit_input_tags(meta, tags):
    """Accept what the wrapped estimator accepts."""
    base = get_tags(meta.estimator)
    tags.input_tags = base.input_tags
    return tags
