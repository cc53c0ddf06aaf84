"""One budget for everything that an estimator is made of."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import (
    BaseEstimator,
    OneToOneFeatureMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from .._shared import nested
from .._shared.arguments import having, number
from .._shared.callers import all_checks, warn_caller
from .._shared.domain import (
    check_columns,
    check_given,
    domain,
    refuse_mixed,
    refuse_no_numbers,
    refuse_unlabelled,
    same_length,
)
from .._shared.guarded import WrappedEstimatorError, fit_wrapped
from .._shared.sklearn import alias_of, asks_for, routing_enabled
from ..accounting import (
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PrivacyEvent,
    PureEvent,
    ThresholdEvent,
    calibrate_gaussian,
    compose_epsilon,
)
from ._facts import PrivacyLeakWarning
from ._foreign import epsilon_factor, is_diffprivlibs
from ._guarantee import PrivacyGuarantee, own_events
from ._ledger import PrivacyLedger

# Aim below the total by this much: conversions round to the private side.
_AIM = 1.0 - 1e-6
# Noisy numbers of one step, at most, whose sampler errs a little: of linear models,
# repairs and encoders, and of generators; inputs and outputs of a network, at most.
_FEW_DRAWS, _MANY_DRAWS = 10**5, 10**8
_INPUTS, _OUTPUTS = 1 << 14, 1 << 10
# How many more draws cover what is gained where one of several steps makes fewer.
_ROOM = 2.25
_ENCODER_SHARE = 0.1
# Of one that learns no ranks, and nothing but columns that its code book does not name.
_SPARE_SHARE = 0.0002
_SMALLEST, _LARGEST = 1e-9, 1e4
# What fits one step several times: how often may depend on the data.
_COPIES = """AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor
    CalibratedClassifierCV ClassifierChain GridSearchCV HalvingGridSearchCV
    HalvingRandomSearchCV IterativeImputer MultiOutputClassifier MultiOutputRegressor
    OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier RANSACRegressor RFE
    RFECV RandomizedSearchCV RegressorChain SelfTrainingClassifier
    SequentialFeatureSelector StackingClassifier StackingRegressor
    TunedThresholdClassifierCV""".split()


def with_budget(estimator, epsilon, delta=1e-5, *, shares=None) -> Any:
    r"""Set all private steps of an estimator so that together they cost one budget.

    .. math:: \mu_i^2 = w_i\, \mu^2, \qquad \sum_i w_i = 1,

    for steps that compose, with :math:`\mu` the largest Gaussian-DP parameter for which
    the exact composition is at most (epsilon, delta). Steps that a random split parts,
    such as a post-processor and the model it wraps, each get the whole; with
    ``calibration_size="all"`` they compose.

    .. rubric:: Privacy

    A function of public arguments: nothing is fitted. The composition of the fitted
    steps is at most the budget, and at least .999 of it if every step spends what it
    may, from an epsilon of .1 on (of .5 with networks of 100 steps: with less, or with
    more steps, what the error of their many draws may cost at most weighs more;
    generators .997 at 1; repairs of numbers on all rows .97). A step that is changed
    afterwards costs what it was changed to, and :func:`privacy_report` says so. A
    pipeline fits its steps in turn: what its arguments, the target, the sensitive
    features and the ledgers' room tell is refused before the first one spends; if the
    last one refuses its rows, those before have spent.

    A model of this library, alone or after encoders, gets `min_records`, and so do
    they: of a table with fewer records, too few for features to tell anything, the
    encoders learn nothing and spend nothing, and the model answers a constant that its
    epsilon tells: .9 to 1 of the total. The number of records is public there.

    Parameters
    ----------
    estimator : estimator
        A pipeline or anything nested. Frozen parts stay as they are; what they cost
        counts. What fits one step several times, such as bagging, stacking or
        scikit-learn's own search, is refused. A ledger is an argument of the private
        steps: give each of them the same one.
    epsilon : float
        Total budget. Range: (0, inf].
    delta : float, default=1e-5
        Range: (0, 1).
    shares : mapping of str to float, default=None
        Share of the squared Gaussian parameter by step, in the notation of
        `set_params`. Steps that it does not name share the rest: a table encoder a
        tenth, next to nothing with ``ranks="uniform"`` and a code book that declares
        all columns that it names, the others the same each; with
        ``calibration_size="all"`` the model that is repaired twice as much, and a
        repair of a pure epsilon three times. If it names all, they are taken relative
        to their sum.

    Returns
    -------
    estimator : estimator
        A clone, not fitted, whose steps have their own epsilon and delta. A pipeline
        comes as one that looks for mistakes before any step is fitted.

    Warns
    -----
    PrivacyLeakWarning
        If a step of a pipeline is not private: then the whole is not.

    See Also
    --------
    privacy_report : What the fitted steps cost together.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from fairpriv_sklearn.linear_model import DPLinearRegression
    >>> from fairpriv_sklearn.preprocessing import DPTableEncoder
    >>> from fairpriv_sklearn.privacy import with_budget
    >>> pipeline = make_pipeline(DPTableEncoder(), DPLinearRegression())
    >>> pipeline = with_budget(pipeline, 1.0, 1e-5)
    >>> round(pipeline[0].epsilon, 2), round(pipeline[1].epsilon, 2)
    (0.3, 0.99)
    """
    chosen = clone(having("an estimator", "get_params")("estimator", estimator))
    chosen.set_params(**_each(chosen, "min_records", None))
    budgets = budget_of_steps(chosen, epsilon, delta, shares)
    chosen.set_params(**settings_of(budgets))
    least = _min_records(chosen, epsilon)
    chosen.set_params(**_each(chosen, "min_records", least))
    if type(chosen) is Pipeline:
        chosen = BudgetPipeline(**chosen.get_params(deep=False))
        _warn_of_uncovered(chosen)
    return chosen


def _warn_of_uncovered(pipeline) -> None:
    """Say which steps no budget covers; what wraps a model says so in its own fit."""
    # Which asks this module what steps cost.
    from ._steps import expected_guarantee, ways_out

    expected = expected_guarantee(pipeline)
    if expected is not None and expected.uncovered:
        warn_caller(
            f"Not private: {', '.join(expected.uncovered)}. The budget is that of the "
            "private steps, and the guarantee of the whole is infinite."
            f"{ways_out(pipeline)}",
            PrivacyLeakWarning,
        )


def settings_of(budgets: dict) -> dict:
    """Arguments of `set_params` for (epsilon, delta) of steps by their place."""
    settings = {}
    for place, (epsilon, delta) in budgets.items():
        settings[nested.argument_of(place, "epsilon")] = epsilon
        if delta:
            settings[nested.argument_of(place, "delta")] = delta
    return settings


def _pipeline_has(method: str):
    def check(self) -> bool:
        getattr(super(BudgetPipeline, self), method)  # or it says what is missing
        return True

    return check


class BudgetPipeline(Pipeline):
    """A pipeline that asks all steps for mistakes before the first one spends.

    ``fit(X, y, sensitive_features=a)`` hands the groups to the steps that take them,
    also where metadata routing is off; so do `predict` and `score` to the last one.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As in scikit-learn.
    """

    def __getattr__(self, name: str):
        if name == "privacy_":
            raise AttributeError(
                f"{type(self).__name__} has no privacy_, as its steps have one each: "
                "privacy_report(pipeline).guarantee is that of all together."
            )
        return self.__getattribute__(name)  # which says what is missing

    def fit(self, X, y=None, **params):
        """Fit the steps in turn.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like, default=None
        **params : dict
            As in scikit-learn; or `sensitive_features`, for all steps that take them.

        Returns
        -------
        self : object
        """
        return super().fit(X, y, **self._checked(X, y, params))

    @available_if(_pipeline_has("fit_transform"))
    def fit_transform(self, X, y=None, **params):
        """Fit the steps in turn, and transform by the last one too.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like, default=None
        **params : dict
            As in scikit-learn; or `sensitive_features`, for all steps that take them.

        Returns
        -------
        X_new : array-like or DataFrame
        """
        return super().fit_transform(X, y, **self._checked(X, y, params))

    @available_if(_pipeline_has("score"))
    def score(self, X, y=None, sample_weight=None, **params):
        """Score the last step on what the others make of the table.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like, default=None
        sample_weight : array-like, default=None
            As in scikit-learn.
        **params : dict
            As in scikit-learn; or `sensitive_features`, for the last step.

        Returns
        -------
        score : float
        """
        # Without routing scikit-learn drops them in silence.
        with config_context(enable_metadata_routing=routing_enabled() or bool(params)):
            return super().score(X, y, sample_weight=sample_weight, **params)

    def _checked(self, X, y, params) -> dict:
        """Keywords for the steps, once nothing speaks against a fit."""
        params = self._by_step(params)
        with all_checks():
            self._refuse_mistakes(X, y, params)
        return params

    def _by_step(self, params) -> dict:
        """Groups under the names of the steps that take them, where routing is off."""
        if routing_enabled() or "sensitive_features" not in params:
            return params
        own = dict(params)
        groups = own.pop("sensitive_features")
        takers = [
            name for name, step in self.steps if "sensitive_features" in _keywords(step)
        ]
        if not takers:
            return params
        return {**{f"{name}__sensitive_features": groups for name in takers}, **own}

    def _refuse_keywords(self, params) -> None:
        """Refuse keywords that a later step would, when those before have spent."""
        steps = dict(self.steps)
        for path in params:
            name, _, keyword = path.partition("__")
            if keyword and name in steps and not _takes(steps[name], keyword):
                raise TypeError(
                    f"{type(steps[name]).__name__} takes no {keyword} in fit, which is "
                    f"passed as {path}: leave it out."
                )

    def _refuse_mistakes(self, X, y, params) -> None:
        if self.memory is not None:
            raise ValueError(
                "A pipeline of one budget takes memory=None: whether a step comes from "
                "the cache tells whether the rows are those of an earlier fit."
            )
        check_columns(X, y, *params.values())
        for path, given in params.items():
            if path.endswith("__sample_weight") and np.ndim(given):
                same_length(X, given)
                with domain("sample_weight"):
                    options = {"ensure_2d": False, "dtype": np.float64}
                    check_array(given, input_name="sample_weight", **options)
        for owner in nested.owners(self).values():
            # Estimators of others need not have constraints.
            if isinstance(owner, BaseEstimator) and hasattr(
                type(owner), "_parameter_constraints"
            ):
                owner._validate_params()
        steps = private_steps(self)
        # Asked of the class: a frozen step hands on the attributes of what it holds.
        last = self
        while isinstance(last, Pipeline | FixedThresholdClassifier):
            last = last.steps[-1][1] if isinstance(last, Pipeline) else last.estimator
        if hasattr(type(last), "_refuse_target"):
            last._refuse_target(X, y)
        elif not hasattr(type(X), "compute"):
            _refuse_target(last, X, y)
        for step in (*steps.values(), last):
            if hasattr(type(step), "_refuse_cells_of"):
                step._refuse_cells_of(self, X)
                break  # it looks at the cells for all
        # Where routing is on, sensitive features may have any name.
        names = [name for name, value in params.items() if value is not None]
        routed = routing_enabled() and names
        for path, step in steps.items():
            if hasattr(type(step), "_check_arguments"):
                step._check_arguments()
            if not hasattr(type(step), "_refuse_without_groups"):
                continue
            groups = params.get(f"{path}__sensitive_features")
            is_handed = routed and asks_for(step, "fit", names)
            alias = alias_of(step, "fit", "sensitive_features")
            if is_handed and asks_for(step, "fit", [alias]):
                groups = params.get(alias)
            if groups is not None:
                step._refuse_groups(X, groups)
            elif not is_handed:
                step._refuse_without_groups()
        if not routing_enabled():
            self._refuse_keywords(params)
        n_records, n_columns = (*getattr(X, "shape", ()), None, None)[:2]
        refuse_widths(self, n_columns if isinstance(n_columns, Integral) else None)
        refuse_without_room(_with_room_to_learn(self, n_records))
        for _, step in self.steps:
            _forget(step)


def _refuse_target(model, X, y) -> None:
    """Refuse a target that a model of scikit-learn would, and quote a cell of it."""
    frozen = isinstance(model, FrozenEstimator)
    theirs = type(model).__module__.startswith("sklearn.") and not frozen
    if not theirs or not (is_classifier(model) or is_regressor(model)):
        return
    check_given(model, y)
    same_length(X, y)
    if is_regressor(model):
        refuse_no_numbers(model, y)
        return
    refuse_unlabelled(y)
    with domain("y", own_words=True):
        refuse_mixed("y", y)
        check_classification_targets(y)
        is_one = np.ndim(y) == 1 and len(np.unique(np.asarray(y))) == 1
    if is_one and not private_steps(model):
        with suppress(WrappedEstimatorError):
            fit_wrapped(clone(model), np.arange(40.0).reshape(20, 2), np.zeros(20))
            return
        raise ValueError(
            f"y holds one label only, and {type(model).__name__} takes no such target: "
            "two are needed."
        )


def _keywords(step) -> Mapping[str, inspect.Parameter]:
    """What the `fit` of a step knows by name."""
    fit = getattr(step, "fit", None)  # "passthrough" has none
    return {} if fit is None else inspect.signature(fit).parameters


def _takes(step, keyword: str) -> bool:
    """Whether a keyword may be passed to the `fit` of a step."""
    known = _keywords(step)
    return keyword in known or any(p.kind is p.VAR_KEYWORD for p in known.values())


def _forget(step) -> None:
    """Make a step unfitted that will be fitted anew, unless one before it fails.

    Beside others of a later fit its guarantee would not be that of the whole.
    """
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            _forget(inner)
    elif hasattr(type(step), "_forget"):
        step._forget()
    elif hasattr(step, "get_params") and not isinstance(step, FrozenEstimator):
        for name in set(vars(step)) - set(step.get_params(deep=False)):
            if name.endswith("_") and not name.startswith("_"):
                delattr(step, name)


def refuse_widths(estimator, n_columns: int | None, *, learnt=False) -> None:
    """Refuse bounds that are not for the columns which a step will be handed.

    Parameters
    ----------
    estimator : estimator
        Not fitted; of a pipeline all steps are asked.
    n_columns : int or None
        Of the table that it is handed, if known.
    learnt : bool, default=False
        Whether a private encoder will choose the columns.
    """
    if not isinstance(estimator, Pipeline):
        if hasattr(type(estimator), "_refuse_width"):
            estimator._refuse_width(n_columns, learnt)
        return
    for _, step in estimator.steps:
        refuse_widths(step, n_columns, learnt=learnt)
        if hasattr(step, "fit") and not isinstance(step, OneToOneFeatureMixin):
            learnt = learnt or (is_encoder(step) and not step._needs_nothing())
            n_columns = None


def _with_room_to_learn(pipeline, n_records):
    """A clone whose models say what they spend if they have so many records."""
    pipeline = clone(pipeline)
    known = isinstance(n_records, Integral)
    steps = [s for s in private_steps(pipeline).values() if _tells_constants(s)]
    if known and not any(step._has_few_records(n_records) for step in steps):
        pipeline.set_params(**_each(pipeline, "min_records", None))
    return pipeline


def refuse_without_room(*estimators, beside=None) -> None:
    """Ask each ledger for what steps will spend together, at most, before one does.

    Parameters
    ----------
    *estimators : estimator
        Not fitted.
    beside : tuple (ledger, guarantee), default=None
        What else will be spent, and where.
    """
    from ._steps import composed, walk

    ledgers: dict = {}
    for estimator in estimators:
        for one in filter(_pays_alone, walk(estimator, fitted=False)):
            ledgers.setdefault(one.estimator.ledger, []).append(one)
    for ledger, theirs in ledgers.items():
        asked = composed(iter(theirs), planned=True)
        if beside is not None and beside[0] is ledger:
            asked = beside[1].compose(asked)
        ledger._refuse_beyond(asked)


def _pays_alone(found) -> bool:
    """Whether a step pays from our ledger, and nothing inside from one of its own.

    What is only declared before the fit may cost less than that at the ledger's delta.
    """
    if found.frozen or found.step.guarantee is None:
        return False
    params = found.estimator.get_params(deep=True).items()
    inside = any(k.endswith("__ledger") and v is not None for k, v in params)
    own = getattr(found.estimator, "ledger", None)
    known = is_search(found.estimator) or _kind(found.estimator) != "declared"
    return isinstance(own, PrivacyLedger) and known and not inside


def _each(estimator, name: str, value) -> dict:
    """Settings that give all private steps which have it one argument's value."""
    return {
        nested.argument_of(path, name): value
        for path, step in private_steps(estimator).items()
        if name in step.get_params(deep=False)
    }


def _min_records(estimator, epsilon: float) -> int | None:
    """Below how many records a model beside encoders answers a constant, or None.

    All steps know the same public number of records. So either the encoders spend
    nothing and the model all of its epsilon, which is no more than the total; or none
    of them answers so, and the Gaussian parts have the total.
    """
    steps = private_steps(estimator)
    # Side by side in one pipeline, so that all of them see the same records.
    together = isinstance(estimator, Pipeline) or list(steps) == [""]
    if not together or any("__" in path for path in steps):
        return None
    models = [s for s in steps.values() if _tells_constants(s)]
    encoders = [s for s in steps.values() if is_encoder(s)]
    if len(models) != 1 or len(models) + len(encoders) < len(steps):
        return None
    (model,) = models
    if _kind(model) != "gaussian" or model.neighboring != "replace_one":
        return None
    if CONSTANT_SHARE * model.epsilon > epsilon or _frozen_events(estimator):
        return None
    mu = calibrate_gaussian(model.epsilon, model.delta)
    return max(1, math.ceil(model._signal_of_features / mu))  # 1 without noise


def budget_of_steps(estimator, epsilon, delta, shares=None) -> dict:
    """Return (epsilon, delta) of every private step, by its place.

    A delta of 0 says that the step has none.
    """
    _check(epsilon, delta, shares)
    epsilon, delta = float(epsilon), float(delta)
    steps = private_steps(estimator)
    if not steps:
        raise ValueError(
            f"{type(estimator).__name__} has no private step with an epsilon."
        )
    _refuse_copies(estimator, steps)
    for step in steps.values():
        if hasattr(step, "_refuse_shared_budget"):
            step._refuse_shared_budget()
    unknown = [path for path in shares or {} if path not in steps]
    if unknown:
        raise ValueError(
            f"shares names {unknown}, but the private steps are {list(steps)}."
        )
    relations = {getattr(s, "neighboring", "replace_one") for s in steps.values()}
    if len(relations) > 1:
        raise ValueError("All private steps need the same `neighboring`.")
    tree = _tree(steps, shares or {})
    fixed = with_room(_frozen_events(estimator))
    leaves = _with_deltas(tree, delta)
    scales = dict.fromkeys(leaves, 1.0)

    def total(scales) -> float:
        events = _events(tree, scales, leaves, beside=bool(fixed))
        return compose_epsilon((*fixed, *events), delta)

    if math.isinf(epsilon):
        return {path: (math.inf, leaf.delta) for path, leaf in leaves.items()}
    goal = epsilon * _AIM
    # All steps first; then those that a random split parts from dearer ones.
    for group in (list(leaves), *_parted(leaves)):
        factor = _largest_factor(group, scales, total, goal)
        for path in group:
            scales[path] *= factor
    return {
        path: (leaf.epsilon(scales[path] * leaf.weight), leaf.delta)
        for path, leaf in leaves.items()
    }


def _largest_factor(group, scales, total, goal) -> float:
    """Return by how much the steps of a group can be raised within the goal."""

    def fits(factor) -> bool:
        raised = {p: s * factor if p in group else s for p, s in scales.items()}
        return total(raised) <= goal

    if not fits(_SMALLEST):
        raise ValueError(
            "epsilon is too small: the frozen steps, those with a declared guarantee "
            "and the error of the noise cost all of it, nothing is left for the others."
        )
    if fits(_LARGEST):
        return 1.0  # they cost nothing that counts
    low, high = math.log(_SMALLEST), math.log(_LARGEST)
    while high - low >= 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(math.exp(middle)) else (low, middle)
    return math.exp(low)


# --- the steps ------------------------------------------------------------------------


def private_steps(estimator) -> dict:
    """Return the steps that have a budget, by their place in `set_params`.

    What a search or a frozen estimator holds is not looked into: a search gives its
    candidates their budgets itself, and frozen parts are fitted.
    """
    found = nested.owners(
        estimator, lambda one: isinstance(one, FrozenEstimator) or is_search(one)
    )
    declared = [
        nested.argument_of(path, argument)
        for path, owner in found.items()
        for argument in _declared(owner)
    ]
    return {
        path: owner
        for path, owner in found.items()
        if has_budget(owner)
        and path not in declared
        and not any(nested.is_inside(path, one) for one in declared)
    }


def _refuse_copies(estimator, steps) -> None:
    for path, owner in nested.owners(estimator).items():
        name = type(owner).__name__
        if name in _COPIES and any(nested.is_inside(step, path) for step in steps):
            raise ValueError(
                f"{name} fits its estimator several times, and each fit costs: give "
                "one of them its part of the budget, and add up by privacy_report."
            )


def has_budget(estimator) -> bool:
    """Whether an estimator is private and takes an epsilon."""
    private = hasattr(estimator, "_unfit") or is_diffprivlibs(estimator)
    return private and "epsilon" in estimator.get_params(deep=False)


def is_encoder(step) -> bool:
    """Whether a step spends nothing on a table with too few records."""
    return getattr(step, "_budget_kind", None) == "encoder"


def is_search(estimator) -> bool:
    """Whether an estimator chooses among candidates, privately."""
    names = {"param_grid", "param_distributions"}
    return has_budget(estimator) and bool(names & set(estimator.get_params(deep=False)))


def reads_all_rows(step) -> bool:
    """Whether a repair and the models that it wraps read the same rows."""
    return isinstance(getattr(step, "calibration_size", None), str)


# Where a guarantee is declared, by the argument that holds the model.
_SAID = {"estimator": "base_guarantee", "group_estimator": "group_guarantee"}


def _declared(estimator) -> list[str]:
    """Arguments, of models that this one wraps, for which a guarantee is declared."""
    return [
        k for k, name in _SAID.items() if getattr(estimator, name, None) is not None
    ]


def _declared_events(step) -> tuple[tuple[PrivacyEvent, ...], ...]:
    """What is declared of each model that a repair fits; frozen ones count apart."""
    return tuple(
        own_events(told)
        for model, name in _SAID.items()
        if isinstance(told := getattr(step, name, None), PrivacyGuarantee)
        and not isinstance(getattr(step, model), FrozenEstimator)
    )


@dataclass(frozen=True)
class _Leaf:
    """A step with its weight, the root of its share of the squared parameter."""

    path: str
    kind: str
    weight: float
    delta: float = 0.0
    n_draws: int = _FEW_DRAWS
    or_pure: bool = False
    delta_share: float = 1.0
    factor: float = 1.0
    all_rows: bool = False

    def epsilon(self, mu: float) -> float:
        """The epsilon at which the step has this Gaussian parameter, or its like."""
        if self.kind == "pure":
            return mu / self.factor
        return compose_epsilon(
            (GaussianEvent(mu, self.n_draws), *self._shown), self.delta
        )

    @property
    def _shown(self) -> tuple[PrivacyEvent, ...]:
        """Keys that the step may show."""
        if self.kind != "encoder":
            return ()
        return (ThresholdEvent(self.delta * KEY_SHARE),)

    def _bought(self, mu: float) -> float:
        """What a fit makes of this parameter's epsilon: more, of next to nothing."""
        try:
            return max(mu, _mu(self.kind, self.epsilon(mu), self.delta, self.n_draws))
        except ValueError:
            return mu  # the fit refuses it

    def events(self, mu: float) -> tuple[PrivacyEvent, ...]:
        """What the accounting composes."""
        if self.kind == "pure":
            return (PureEvent(mu),)
        if self.kind == "declared":
            return (DeclaredEvent(self.epsilon(mu), self.delta),)
        gaussian = GaussianEvent(self._bought(mu), self.n_draws)
        if self.or_pure:
            return _or_constant((gaussian,), self.epsilon(mu))
        return (gaussian, *self._shown)


@dataclass(frozen=True)
class _Node:
    """A step and, on other rows, the steps inside it."""

    leaf: _Leaf
    inner: tuple[_Node, ...] = ()
    declared: tuple[tuple[PrivacyEvent, ...], ...] = ()


def step_events(step) -> tuple[PrivacyEvent, ...]:
    """Return what a step will cost by its own epsilon and delta, before any fit.

    A fit calibrates its noise to the two; fewer draws leave more to mu, for the same
    total. Beside other steps, see `with_room`.
    """
    kind, epsilon = _kind(step), float(step.epsilon)
    if kind == "pure":
        return (PureEvent(epsilon),)
    if kind == "declared" or math.isinf(epsilon):
        return (DeclaredEvent(epsilon, step.delta),)
    n_draws = _n_draws(step)
    mu = _mu(kind, epsilon, step.delta, n_draws)
    events = _Leaf("", kind, 1.0, step.delta, n_draws).events(mu)
    return _or_constant(events, epsilon) if or_pure(step) else events


def _mu(kind: str, epsilon: float, delta: float, n_draws: int) -> float:
    """Gaussian parameter of a step of this kind, keys that it may show beside."""
    failure = delta * KEY_SHARE if kind == "encoder" else 0.0
    return calibrate_gaussian(epsilon, delta, n_draws=n_draws, failure=failure)


def _or_constant(events, epsilon: float) -> tuple[PrivacyEvent, ...]:
    """These events or a constant in their place: the number of records decides."""
    return (MaximumEvent(events, (PureEvent(CONSTANT_SHARE * epsilon),)),)


def or_pure(step) -> bool:
    """Whether all of epsilon may tell a constant, without a delta."""
    return _tells_constants(step) and step.min_records is not None


def _tells_constants(step) -> bool:
    """Whether a step answers a constant where there are few records: no autoencoder."""
    return hasattr(step, "_signal_of_features") and hasattr(step, "min_records")


def with_room(events) -> tuple[PrivacyEvent, ...]:
    r"""Events of one of several steps, such that fewer draws cost no more together.

    A step i with :math:`n_i` draws instead of :math:`N_i` has a larger parameter; that
    adds about :math:`w_i (E(N_i) - E(n_i))` to the total, where E is the error of the
    draws, nearly proportional to the root of their number, and :math:`\sum w_i^2 = 1`.
    With that of the draws themselves, :math:`E(\sum_i n_i)`, this is convex in the
    roots of :math:`n_i`, so largest where some steps, S, make all their draws and the
    others none: at most :math:`E(\sum_S N_i) + E(\sum_{i \notin S} N_i) \le
    E(2 \sum_i N_i)`. A little more covers what is not quite proportional.
    """
    changed = []
    for event in events:
        if isinstance(event, MaximumEvent):
            event = MaximumEvent(with_room(event.left), with_room(event.right))
        elif getattr(event, "n_draws", 0):
            event = replace(event, n_draws=math.ceil(_ROOM * event.n_draws))
        changed.append(event)
    return tuple(changed)


def _n_draws(step) -> int:
    """How many noisy numbers a step may draw."""
    arguments = step.get_params(deep=False)
    hidden, n_steps = (arguments.get(k) for k in ("hidden_layer_sizes", "max_iter"))
    if "jitter" in arguments:
        return _MANY_DRAWS
    if hidden is None:
        return _FEW_DRAWS
    hidden = np.ravel(hidden)
    is_wrong = hidden.size and hidden.dtype.kind not in "iu"
    if is_wrong or not isinstance(n_steps, Integral):
        return _MANY_DRAWS  # or none: a fit refuses what is no number
    widths = [_INPUTS, *hidden.tolist(), _OUTPUTS]
    return int(n_steps) * sum(a * b for a, b in pairwise(widths))


# Of the delta of what learns categories, what pays for one that a record alone has.
KEY_SHARE = 0.01
# Of a model's epsilon, what tells a constant: no more than the total it is part of.
CONSTANT_SHARE = 0.99


def _kind(step) -> str:
    """How the cost of a step composes: public arguments say so."""
    told = getattr(step, "_budget_kind", None)
    if told is not None:
        return told
    method = getattr(step, "_resolved_method", None)
    if "delta" not in step.get_params(deep=False) or (
        method and method() == "histogram"
    ):
        return "pure"
    if is_search(step) or getattr(step, "batch_size", None) is not None:
        return "declared"
    return "gaussian" if hasattr(step, "_unfit") else "declared"


def _tree(steps: dict, shares: Mapping, outer: str | None = None, weight=1.0) -> tuple:
    """Steps side by side divide the square of `weight`; those inside get all of it."""
    inside = [p for p in steps if outer is None or nested.is_inside(p, outer)]
    level = nested.outermost(inside)
    for path in level:  # grows: what reads the same rows stands beside it
        if reads_all_rows(steps[path]):
            level += nested.outermost([p for p in steps if nested.is_inside(p, path)])
    given = {p: float(shares[p]) for p in level if p in shares}
    others = [p for p in level if p not in shares]
    left = 1.0 - math.fsum(given.values())
    if others and left <= 0:
        raise ValueError(
            "shares of steps that compose add up to 1 or more, and leave nothing for "
            f"{others}."
        )
    encoders = [p for p in others if _kind(steps[p]) == "encoder"]
    parts = {p: _encoder_share(steps[p]) for p in encoders}
    plain = [p for p in others if p not in parts]
    rest = 1.0 - math.fsum(parts.values())
    wanted = {p: _weight(p, steps) for p in plain}
    for p in plain:
        parts[p] = max(rest, _ENCODER_SHARE) * wanted[p] / sum(wanted.values())
    scale = math.fsum(parts.values())
    given |= {p: left * part / scale for p, part in parts.items()}
    sum_of_all = math.fsum(given.values())
    if level and not sum_of_all > 0:
        raise ValueError("shares must not all be 0.")
    nodes = []
    for path in level:
        share = max(given[path] / sum_of_all, 1e-12)
        own = weight * math.sqrt(share)
        step = steps[path]
        is_whole = is_search(step) or reads_all_rows(step)
        nodes.append(
            _Node(
                _Leaf(
                    path,
                    _kind(step),
                    own,
                    n_draws=_n_draws(step),
                    or_pure=or_pure(step),
                    delta_share=min(1.0, share / _ENCODER_SHARE),
                    factor=epsilon_factor(step),
                    all_rows=reads_all_rows(step),
                ),
                () if is_whole else _tree(steps, shares, path, own),
                _declared_events(step),
            )
        )
    return tuple(nodes)


def _weight(path: str, steps: dict) -> int:
    """Of a step beside others: more for a model that is repaired on the same rows.

    And for a repair of a pure epsilon there: of a squared parameter it makes less.
    """
    if reads_all_rows(steps[path]) and _kind(steps[path]) == "pure":
        return 3
    wrapped = [
        nested.argument_of(place, "estimator")
        for place, step in steps.items()
        if reads_all_rows(step)
    ]
    return 1 + any(path == one or nested.is_inside(path, one) for one in wrapped)


def _encoder_share(step) -> float:
    # A code book of lists alone may leave out columns; who declares all says so.
    is_told = step.ranks == "uniform" and step._needs_nothing()
    return _SPARE_SHARE if is_told else _ENCODER_SHARE


def _with_deltas(tree, delta: float) -> dict[str, _Leaf]:
    """The steps by place, with deltas that add up to the total.

    A step of a small share gets little: with much, its noise would be that of an
    epsilon of next to nothing, and less than its share allows.
    """
    counted = [node for node in tree if _has_delta(node)]
    shares = math.fsum(node.leaf.delta_share for node in counted)
    leaves = {}
    for node in tree:
        leaf = node.leaf
        own = delta * leaf.delta_share / shares if node in counted else 0.0
        at = 0.0 if leaf.kind == "pure" else own
        leaves[leaf.path] = replace(leaf, delta=at)
        leaves |= _with_deltas(node.inner, own)
    return leaves


def _has_delta(node: _Node) -> bool:
    return node.leaf.kind != "pure" or any(map(_has_delta, node.inner))


def _events(tree, scales, leaves, beside=False) -> tuple[PrivacyEvent, ...]:
    events: tuple = ()
    # What a repair wraps has its room in the plan already, where it is several steps.
    same_rows = any(node.leaf.all_rows for node in tree)
    beside = beside or len(tree) > 1 or same_rows
    for node in tree:
        leaf = leaves[node.leaf.path]
        own = leaf.events(leaf.weight * scales[leaf.path])
        own = with_room(own) if beside else own
        own = with_room(own) if same_rows else own
        others = [*node.declared]
        if node.inner:
            others.append(_events(node.inner, scales, leaves, beside))
        for other in others:
            other = with_room(other) if leaf.all_rows else other
            own = own + other if leaf.all_rows else (MaximumEvent(own, other),)
        events += own
    return events


def _parted(leaves: dict[str, _Leaf]) -> list[list[str]]:
    """Groups of steps on rows of their own, which may be raised by themselves."""
    groups, places = [], [p for p, leaf in leaves.items() if not leaf.all_rows]
    for place in places:
        inner = [other for other in leaves if nested.is_inside(other, place)]
        if inner:
            groups += [[place], inner]
    return groups


def _frozen_events(estimator) -> tuple[PrivacyEvent, ...]:
    """What frozen parts cost when they were fitted."""
    from ._steps import own_guarantee

    found = nested.owners(estimator).values()
    frozen = [one for one in found if isinstance(one, FrozenEstimator)]
    public = [
        one.estimator
        for one in found
        if isinstance(getattr(one, "base_guarantee", None), str)
    ]
    events: tuple = ()
    for one in frozen:
        guarantee = own_guarantee(one)
        if guarantee is not None and not any(one is other for other in public):
            events += tuple(own_events(guarantee))
    return events


def _check(epsilon, delta, shares) -> None:
    number(0, math.inf, "right")("epsilon", epsilon)
    number(0, 1, "neither")("delta", delta)
    if not isinstance(shares, Mapping | None):
        raise ValueError("shares must map the places of steps to numbers.")
    for path, share in (shares or {}).items():
        number(0, math.inf, "left")(f"shares[{path!r}]", share)
