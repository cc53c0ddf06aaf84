"""What all repairs share: the group is known at prediction, or estimated.

A *blind* repair reads the groups in `fit` only. It fits one more model, of the group,
and its rule reads that model's shares instead of a label.
"""

from copy import copy
from functools import partial, reduce
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.metadata_routing import MethodMapping, process_routing

from .._door._stream import to_travel
from .._door.estimator import DPEstimator
from .._door.groups import (
    AttributeAwareMixin,
    as_label_array,
    as_table,
    blind_X,
    column_names,
    named_positions,
    predict_groups,
    public_groups,
    refuse_groups,
    refuse_named_twice,
    refuse_unheard,
    refuse_without_groups,
    without_columns,
    without_sensitive_columns,
)
from .._door.readers import reader_of, refuse_cells
from .._shared.arguments import each
from .._shared.arrays import row_slices
from .._shared.callers import warn_caller
from .._shared.domain import domain
from .._shared.nested import last_step
from .._shared.purity import RowPureMixin
from .._shared.sklearn import (
    HasProbabilities,
    Interval,
    Options,
    StrOptions,
    router_of,
    routing_enabled,
    safe_indexing,
)
from .._wall import PrivacyGuarantee, Rows, expected_guarantee, n_columns_of
from ._phases import (
    Coded,
    ConstantClassifier,
    Model,
    Phases,
    check_cost,
    check_model,
    refuse_other_labels,
    refuse_unlisted,
    score_rows,
    tagged_kind,
)

# Nothing, or so much that its noise can be drawn.
REACH_SIZES = [Options(Real, {0}), Interval(Real, 0.001, 0.9, closed="both")]


# Rows that are predicted at a time: what they need in between stays in the cache.
PREDICTED_ROWS = 1 << 14


class RepairWarning(UserWarning):
    """A repair stood back, in whole or in part, or draws decisions; by noisy numbers.

    `repair_notes_` of the repair keeps it.
    """


class Repair(RowPureMixin, AttributeAwareMixin, DPEstimator):
    """The group model of a blind repair, and the phases of a fit.

    Parameters
    ----------
    group_guarantee : PrivacyGuarantee, "public" or None, default=None
        Blind only: what fitting `group_estimator` costs, if it does not say so itself.
    groups : array-like of shape (n_groups,), default=None
        Public list of groups, tuples for intersections; a last entry ``"..."`` stands
        for all other labels. None takes it from the data, with a warning.
    """

    _parameter_constraints: dict = {
        **DPEstimator._parameter_constraints,
        "blind": ["boolean"],
        "group_estimator": [HasProbabilities(), None],
        "group_guarantee": [None, StrOptions({"public"}), PrivacyGuarantee],
        "group_size": [Interval(Real, 0, 1, closed="neither")],
    }

    @property
    def _needs_groups(self) -> bool:
        return self.sensitive_features is None

    def _check_arguments(self) -> None:
        super()._check_arguments()
        self._check_blind()
        if self.group_estimator is not None:
            given, said = self.group_estimator, self.group_guarantee
            check_model("group_estimator", given, said, "classifier")
            check_cost(self, "group_estimator", given, said)
            refuse_without_groups(given)  # what it learns is not handed to it besides
            if self.groups is not None:
                labels = labels_of(as_label_array(public_groups(self.groups)))
                refuse_other_labels("group_estimator", given, labels.tolist())
        if hasattr(self, "estimator"):
            kind = tagged_kind(self)
            check_model("estimator", self.estimator, self.base_guarantee, kind)
            check_cost(self, "estimator", self.estimator, self.base_guarantee)
        for given in (getattr(self, "estimator", None), self.group_estimator):
            if given is not None:
                refuse_named_twice(self.sensitive_features, given)

    def _expected_group_model(self):
        """The model of the groups as a blind fit will find or make it, for its cost."""
        if self.group_estimator is not None:
            return self.group_estimator
        planned = copy(self)
        planned.groups_ = np.arange(2)  # which and how many does not matter
        return default_group_estimator(planned, 1)

    def _refuse_shared_budget(self, delta=0.0) -> None:
        """Refuse a budget that the default model of the groups would exceed."""
        if not (self.blind and self.group_estimator is None):
            return
        if getattr(self, "calibration_size", None) == "all":
            raise ValueError(
                "Where all rows calibrate, a blind repair needs its own "
                "group_estimator, which gets its part of the budget."
            )
        if _USUAL_DELTA <= delta:
            return
        if _budget_of_groups(self, getattr(self, "estimator", None))[1] is None:
            raise ValueError(
                f"{type(self).__name__} is blind and no part of it has a delta, which "
                "its default model of the groups needs: give it a group_estimator, "
                "which gets the budget with its delta."
            )

    def _refuse_small_budget(self) -> None:
        """Refuse an epsilon of which a release would get too little for its noise."""
        planned = copy(self)
        # How many groups and classes there are does not matter.
        planned.groups_ = planned.classes_ = np.arange(2)
        planned._plan()

    def _check_blind(self) -> None:
        """Refuse arguments that contradict `blind`."""
        if not self.blind:
            for name in ("group_estimator", "group_guarantee"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} is for blind=True: with blind=False the group itself "
                        "is read at prediction."
                    )
            if getattr(self, "reach_size", 0) > 0:
                raise ValueError("reach_size is for blind=True.")
        elif (
            hasattr(self, "estimator")
            and self.calibration_size != "all"
            and self.calibration_size + self.group_size >= 1
        ):
            raise ValueError(
                "calibration_size and group_size must leave rows for the estimator: "
                f"their sum must be below 1, got "
                f"{self.calibration_size + self.group_size:.3g}."
            )

    def _fit_models(
        self, rows, plan, *, models=(), columns, ask=lambda rows: (rows, None), **about
    ):
        """Reserve, part the rows, fit the models; return what calibrates.

        Parameters
        ----------
        rows : Rows
        plan : list of Release
        models : sequence of Model
            Besides the group model of a blind repair.
        columns : tuple (n_columns, named)
            Of the models' table.
        ask : callable
            ``ask(rows)``: the rows that calibrate, and what the models answer to them.
        **about
            `facts`, `noise` and `delta` of `Phases`.

        Returns
        -------
        phases : Phases
        wall : PrivacyFilter
        rows : Rows
        answers : ndarray or None
        """
        self.repair_notes_: list[str] = []
        self._fitted_with = self._ways_to_read()
        models = list(models)
        if self.blind:
            given = self.group_estimator
            if given is None:
                given = default_group_estimator(self, columns[0])
            stand_in = ConstantClassifier(group_labels(self))
            name, said = "group_estimator", self.group_guarantee
            models.append(Model(name, given, said, "group", stand_in, *columns))
        phases = Phases(self, models, plan, **about)
        wall, rows, answers = phases.begin(rows, ask)
        for model in models:
            setattr(self, f"{model.name}_", model.fitted)
        return phases, wall, rows, answers

    def _note(self, said: str) -> None:
        """Say, and keep for reports, what the repair leaves as it was."""
        self.repair_notes_.append(said)
        warn_caller(said, RepairWarning)

    def _ways_to_read(self) -> dict:
        return {"blind": bool(self.blind), **super()._ways_to_read()}

    def _along(self, tolerances, rule) -> list:
        """Fitted copies, solved for other tolerances, each of which passes a rule."""
        self._check_is_fitted()
        repairs = []
        for tolerance in each(rule)("fairness_tolerances", tolerances):
            repair = copy(self).set_params(fairness_tolerance=tolerance)
            repair._validate_params()
            repair.repair_notes_ = []
            repair._solve()
            repairs.append(repair)
        return repairs

    def _wrapped_parts(self):
        names = ("estimator_", "group_estimator_")
        return tuple(getattr(self, name, None) for name in names)

    def _group_shares(self, X, *, private) -> np.ndarray:
        """What the group model says about rows, one column per group."""
        model, labels = self.group_estimator_, group_labels(self).tolist()
        return class_probabilities(
            self, model, X, {}, labels, private=private, what="group_estimator"
        )

    def _blocks(self, X, sensitive_features):
        """Read a table for prediction, some rows at a time: X itself is not copied.

        Returns
        -------
        codes : ndarray of shape (n_rows,), int64, or None
            The groups, or None where the repair is blind.
        blocks : generator of (slice, table)
            Rows, and the columns of `X` that the wrapped models see.
        """
        self._check_is_fitted()
        if not self.blind:
            codes, X = predict_groups(
                self, X, sensitive_features, handle_unknown=self.handle_unknown
            )
            return codes, self._columns_by_block(without_sensitive_columns, X)
        if sensitive_features is not None:
            raise ValueError(
                f"A blind {type(self).__name__} takes sensitive_features in fit only; "
                "leave them out here."
            )
        return None, self._columns_by_block(blind_X, as_table(self, X))

    def _columns_by_block(self, columns_of, X):
        X = X.tocsr() if sparse.issparse(X) else X
        for rows in row_slices(X.shape[0], PREDICTED_ROWS):
            block = X if X.shape[0] <= PREDICTED_ROWS else safe_indexing(X, rows)
            yield rows, columns_of(self, block)

    def _get_metadata_request(self):
        requests = super()._get_metadata_request()
        if self.blind:  # sensitive features in `fit` only
            for method in ("predict", "predict_proba", "decision_function", "score"):
                if hasattr(requests, method):
                    getattr(requests, method).requests.pop("sensitive_features", None)
        return requests


class MetaRepair(MetaEstimatorMixin, Repair):
    """A repair around an estimator, which some rows fit and the others calibrate.

    Subclasses name the estimator's method that is repaired, `_base_method`.

    Parameters
    ----------
    calibration_size : float or "all", default=0.25
        Chance of a row to calibrate. Range: (0, 1). With "all", all rows fit the models
        and all calibrate, and the guarantees add up: at the same total (divide it by
        :func:`~fairpriv_sklearn.privacy.with_budget`) a private model of few parameters
        is mostly better so, and fairer. Models that are not private are refused: what
        they answer to rows that they remember is not what they answer to others.
    sensitive_features : str, int, list of these, or callable, default=None
        Columns of `X` that hold the sensitive features, or a function of `X` that
        labels each row on its own. None: pass `sensitive_features` to `fit` and
        `predict`.
    random_state : int, RandomState instance or None, default=None
        None draws the split and the noise from the operating system. Anything else is
        reproducible and hence not private; `privacy_` says so.
    """

    _reads_batches = True

    def _refuse_cells(self, X) -> None:
        super()._refuse_cells(X)
        names = np.asarray(column_names(X), dtype=object)
        names = names if names.size else None
        named = named_positions(self.sensitive_features, X.shape[1], names)
        self._refuse_cells_of_models(without_columns(X, named))

    def _refuse_groups(self, X, sensitive_features) -> None:
        super()._refuse_groups(X, sensitive_features)
        if self._asked_for(sensitive_features)[0]:
            refuse_groups(self.estimator, X, sensitive_features, self.groups)

    def _asked_for(self, sensitive_features) -> tuple[dict, dict]:
        """What the wrapped estimator asks for in its fit, and to score rows."""
        asked = requested(self, "fit", "fit", sensitive_features)
        scored_with = requested(self, "fit", self._base_method, sensitive_features)
        if asked and (self.blind or not scored_with):
            refuse_unheard(self.estimator)
        return asked, scored_with

    def _refuse_cells_of_models(self, X) -> None:
        check_cells(self, X)
        refuse_cells(self.estimator, X)
        self._refuse_cells_of_groups(X)

    def _refuse_cells_of_groups(self, X) -> None:
        if not self.blind:
            return
        try:
            refuse_cells(self._expected_group_model(), X)
        except (TypeError, ValueError):
            if self.group_estimator is not None:
                raise
            raise ValueError(
                "The default model of the groups reads X as finite numbers, and a cell "
                "is none: pass a group_estimator that takes X as it is, such as "
                "with_budget(make_pipeline(DPTableEncoder(), "
                "DPWassersteinLogisticRegression(fairness_weight=0)), epsilon)."
            ) from None

    def _private_table(self, X, y, codes, facts, sensitive_features, **columns) -> dict:
        """The private columns of one checked table; sets what is public about it."""
        names = getattr(self, "feature_names_in_", None)
        refuse_named_twice(self.sensitive_features, self.estimator, names)
        asked, scored_with = self._asked_for(sensitive_features)
        if asked:
            refuse_groups(self.estimator, X, sensitive_features, self.groups)
        self._refuse_cells_of_models(X)
        shape = n_columns_of(X), hasattr(X, "columns")
        self._public = facts, shape, tuple(asked), tuple(scored_with)
        return {
            "y": y,
            "codes": codes,
            "group": Coded(group_labels(self), codes),
            **columns,
            **{f"fit_{name}": value for name, value in asked.items()},
            **{f"score_{name}": value for name, value in scored_with.items()},
            "X": X,
        }

    def _fit_both(self, rows, plan, stand_in, *, reads, **about):
        """Fit the models; return phases, wall, rows and the scores that calibrate.

        The rows keep the columns `reads`, and `X` where the group is estimated.
        """
        facts, shape, asked, scored_with = self._public
        metadata = {name: f"fit_{name}" for name in asked}
        given, said = self.estimator, self.base_guarantee
        groups = None if self.groups_.dtype == object else self.groups_.tolist()
        bounds = getattr(self, "target_bounds", None)
        if bounds is not None:
            bounds = tuple(float(np.ravel(end)[0]) for end in bounds)
        about_rows = metadata, groups, scored_with, bounds
        model = Model("estimator", given, said, "y", stand_in, *shape, *about_rows)
        scores_of = "X", *(f"score_{name}" for name in scored_with)
        reads = (*reads, "X") if self.blind else reads

        def ask(rows):
            # Batches and partitions are read once for all that calibrates.
            one = model.fitted
            one = one.estimator if isinstance(one, FrozenEstimator) else one
            by_row = not self.blind and getattr(one, "_answers_row_by_row", False)
            one = to_travel(one) if by_row else model.fitted
            answered = rows.answered if by_row else partial(Rows.answered, rows)
            return answered(_Scores(self, one, scored_with), scores_of, reads)

        return self._fit_models(
            rows, plan, models=[model], columns=shape, ask=ask, facts=facts, **about
        )

    def _scored(self, caller, X, sensitive_features):
        """Read a table for prediction, and ask the wrapped model.

        Returns
        -------
        codes : ndarray of shape (n_rows,), int64, or None
            The groups, or None where the repair is blind.
        blocks : generator of (slice, scores, table)
            Rows, their scores and the columns that the model sees.
        """
        codes, blocks = self._blocks(X, sensitive_features)
        asked = requested(self, caller, self._base_method, sensitive_features)

        def scored():
            for rows, block in blocks:
                metadata = {k: safe_indexing(v, rows) for k, v in asked.items()}
                yield rows, self._base_scores(block, metadata, private=False), block

        return codes, scored()

    def _score_by(self, metric, X, y, sample_weight, sensitive_features) -> float:
        if self.blind:  # older scikit-learns hand them on, unasked
            sensitive_features = None
        y_pred = self.predict(X, sensitive_features=sensitive_features)
        with domain("y", own_words=True):
            return metric(y, y_pred, sample_weight=sample_weight)

    def get_metadata_routing(self) -> Any:
        """Metadata routing: sensitive features for itself, the rest as asked for.

        Returns
        -------
        routing : MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        later = ("predict", "predict_proba", "decision_function", "score")
        for caller in ("fit", *(() if self.blind else later)):  # it gets none later
            mapping.add(caller=caller, callee=self._base_method)
        return router_of(self, mapping)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):  # or its fit says what is wrong
            tags.input_tags = get_tags(self.estimator).input_tags  # what it accepts
        return tags


class _Scores:
    """What the wrapped model of a repair says of private rows: here or on a worker.

    Only the model goes there, and the little by which the repair reads its answers.
    """

    def __init__(self, meta, model, asked):
        self.asked = asked
        self.meta = object.__new__(type(meta))
        kept = ("neighboring", "classes_")
        self.meta.__dict__ = {k: v for k, v in vars(meta).items() if k in kept}
        self.meta.estimator_ = model

    def __call__(self, block):
        metadata = {name: getattr(block, f"score_{name}") for name in self.asked}
        return self.meta._base_scores(block.X, metadata, private=True)


def check_cells(meta, X) -> None:
    """Refuse a number that is not finite, before the reserve, if the model would."""
    reader = reader_of(getattr(meta, "estimator", meta))
    if get_tags(meta if reader is None else reader).input_tags.allow_nan:
        return
    with domain("X"):
        cells = X if hasattr(X, "dtype") else None
        if hasattr(X, "columns") and not sparse.issparse(X):
            cells = np.asarray(X)
        if isinstance(cells, np.ndarray) and not cells.strides[0]:
            cells = cells[:1]  # one row stands for all
        if cells is not None and np.dtype(cells.dtype).kind == "f":
            assert_all_finite(cells, input_name="X")


def requested(meta, caller: str, callee: str, sensitive_features) -> dict:
    """The metadata that the wrapped estimator's `callee` asks for, if routing is on."""
    if sensitive_features is None or not routing_enabled():
        return {}
    routed = process_routing(meta, caller, sensitive_features=sensitive_features)
    return dict(getattr(routed.estimator, callee))


def group_labels(meta) -> np.ndarray:
    """What a group estimator learns: the groups, or their numbers if not plain."""
    return labels_of(meta.groups_)


def labels_of(groups: np.ndarray) -> np.ndarray:
    """The same of an array of them."""
    return np.arange(len(groups)) if groups.dtype.kind in "Oc" else groups


# Of a default model of the groups, where no part of the repair has a delta.
_USUAL_DELTA = 1e-5
# What it takes over from a private model in whose place it stands.
_OF_THE_MODEL = (
    *("epsilon", "delta", "bounds", "data_norm"),
    *("neighboring", "ledger", "random_state"),
)


def default_group_estimator(meta, n_features: int):
    """A private model of the group on the columns of the wrapped model.

    The wrapped model itself, taught the groups, if it is private and takes `classes`;
    else a private logistic regression, behind the encoders of a private pipeline. Of
    few records it tells no constant, by which a repair would be blind to the groups.
    """
    from ..linear_model import DPWassersteinLogisticRegression

    base, labels = _bare(getattr(meta, "estimator", None)), group_labels(meta).tolist()
    names = {} if base is None else base.get_params(deep=True)
    ends = [name for name in names if name.rpartition("__")[2] == "classes"]
    few = [name for name in names if name.rpartition("__")[2] == "min_records"]
    owned = base is not None and not isinstance(base, FrozenEstimator)
    private = owned and expected_guarantee(base) is not None
    ours = isinstance(last_step(base), DPEstimator) and is_classifier(base)
    if private and ours and len(ends) == 1:
        weights = [n for n in names if n.rpartition("__")[2] == "fairness_weight"]
        settings = {ends[0]: labels, **dict.fromkeys(weights, 0.0)}
        return clone(base).set_params(**settings, **dict.fromkeys(few))
    piped = isinstance(base, Pipeline)
    last = base[-1] if piped else base
    if private and hasattr(last, "data_norm"):
        told = last.get_params(deep=False)
        kept = {name: told[name] for name in _OF_THE_MODEL if name in told}
        head = DPWassersteinLogisticRegression(
            fairness_weight=0.0, classes=labels, **kept
        )
        if not piped:
            return head
        settings = {base.steps[-1][0]: head, **dict.fromkeys(few)}
        return clone(base).set_params(**settings)
    seed = meta.random_state
    epsilon, delta = _budget_of_groups(meta, base)
    delta = _USUAL_DELTA if delta is None else delta
    return DPWassersteinLogisticRegression(
        epsilon=epsilon,
        delta=delta,
        fairness_weight=0.0,
        data_norm=float(np.sqrt(n_features)),
        classes=labels,
        neighboring=meta.neighboring,
        random_state=seed if isinstance(seed, Integral) else None,
    )


def _bare(base):
    """The model itself, without a threshold, a bag or the like around it.

    Those may take labels of two classes only, or hand on numbers for them.
    """
    closed = DPEstimator | Pipeline | FrozenEstimator
    while not isinstance(base, closed) and hasattr(base, "estimator"):
        base = base.estimator
    return base


def _budget_of_groups(meta, base) -> tuple[float, float | None]:
    """What a default model of the groups may spend, on rows that no other phase reads.

    That of the repair; where it has no delta that of the model it wraps, which costs
    nothing more: the whole costs the larger of the two. None: no part has a delta.
    """
    if hasattr(meta, "delta"):
        return meta.epsilon, meta.delta
    if isinstance(base, DPEstimator) and hasattr(base, "delta"):
        return base.epsilon, base.delta
    frozen = base is None or isinstance(base, FrozenEstimator)
    cost = None if frozen else expected_guarantee(base)
    if cost is None or cost.uncovered or not cost.delta:
        return meta.epsilon, None
    return cost.epsilon_if_public, cost.delta


# How far the sum of a row's probabilities may be from one: single precision passes.
SUM_TOLERANCE = 1e-3


def class_probabilities(
    meta, estimator, X, metadata, classes: list, *, private: bool, what="classifier"
) -> np.ndarray:
    """Probabilities of a wrapped classifier, one column per public class.

    Among private rows an answer that is no distribution is undecided, in silence.
    """
    method = "predict_proba"
    scores = score_rows(meta, estimator, method, X, metadata, private=private)
    seen = np.asarray(estimator.classes_).tolist()
    if not len(scores):
        return np.empty((0, len(classes)))
    if scores.ndim != 2 or scores.shape[1] != len(seen):
        raise ValueError(
            f"predict_proba of the wrapped {what} must return one column per "
            f"class, got {scores.shape[1:]} numbers for {len(seen)} classes."
        )
    # NaN fails both comparisons. Column by column: a product may round the sums of
    # equal rows apart, by where they stand.
    sums, lowest = sum(scores.T), reduce(np.minimum, scores.T)
    close = (np.abs(sums - 1) <= SUM_TOLERANCE) & (lowest >= -SUM_TOLERANCE)
    if private:
        # No refusal here may depend on a row: it counts as undecided.
        scores = np.where(close[:, None], scores, 1 / len(seen))
    elif not close.all():
        raise ValueError(
            f"predict_proba of the wrapped {what} must return non-negative "
            "numbers that sum to one in each row."
        )
    if seen == classes:
        return scores
    refuse_unlisted(seen, classes, what)
    columns = {label: column for column, label in enumerate(classes)}
    aligned = np.zeros((len(scores), len(columns)))
    aligned[:, [columns[label] for label in seen]] = scores
    return aligned
