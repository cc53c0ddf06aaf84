"""The models of the command line, and how they are measured."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .._wall import budget_of_steps, settings_of, with_budget
from ..preprocessing import InputError
from .learnt import Learnt
from .table import Table

BASE_MODELS = ("linear", "network")
# Of the squared budget, for lists of groups and classes and the range of a target, so
# that they are learnt from 2,100 rows on at epsilon 1; columns have .1 together. Chosen
# on simulated tables of 5 to 40 columns, where .02 was enough for lists, and for ranges
# with SLID and Males in view.
_LIST_SHARE = 0.09

# What is assumed of any function of the groups, and holds of the one below.
OF_A_FUNCTION = "the function sensitive_features labels each row on its own"


@dataclass(frozen=True)
class Measures:
    """How one task is measured, with the words for it."""

    error_name: str
    error_meaning: str
    error: Callable
    gap_name: str
    gap_meaning: str
    gap: Callable
    within_classes: bool = False  # the gap compares rows of the same class


@dataclass(frozen=True)
class Facts:
    """What the models are told about the rows; `Learnt` has it all."""

    groups: list
    classes: list | None
    bounds: tuple[float, float] | None


# Stand for facts that are not known yet: what a fit costs does not depend on them.
UNKNOWN = Facts(["a", "b"], ["a", "b"], (0.0, 1.0))


def regression(table: Table, facts: Facts | Learnt, args) -> tuple[Measures, dict]:
    """Models of a numeric target."""
    from sklearn.linear_model import Ridge

    from ..linear_model import DPLinearRegression
    from ..metrics import ks_parity_difference
    from ..neural_network import DPWassersteinMLPRegressor
    from ..postprocessing import DPBarycenterRegressor

    if args.constraint == "equalized_odds":
        raise InputError("--constraint equalized_odds belongs to a classification.")
    measures = Measures(
        "RMSE",
        f"root mean squared error of {table.target}",
        lambda y, y_pred: np.sqrt(np.mean((y - y_pred) ** 2)),
        "KS gap",
        "largest Kolmogorov-Smirnov distance between the predictions of two groups, "
        "0 if their distributions are alike",
        ks_parity_difference,
    )
    bounds = {"target_bounds": facts.bounds}
    if args.base_model == "network":
        private = DPWassersteinMLPRegressor(**_without_penalty(facts, args), **bounds)
    else:
        private = DPLinearRegression(**_of_a_model(args), **bounds)
    fair = DPBarycenterRegressor(private, **_of_a_repair(facts, args), **bounds)
    return measures, {"plain": Ridge(), "private": private, "private and fair": fair}


def classification(table: Table, facts: Facts | Learnt, args) -> tuple[Measures, dict]:
    """Models of a target with classes."""
    from sklearn.linear_model import LogisticRegression

    from ..linear_model import DPWassersteinLogisticRegression
    from ..metrics import demographic_parity_difference, equalized_odds_difference
    from ..neural_network import DPWassersteinMLPClassifier
    from ..postprocessing import DP2DPClassifier

    if args.fairness_tolerance == "auto":
        raise InputError("--fairness-tolerance auto belongs to a regression.")
    odds = args.constraint == "equalized_odds"
    measures = Measures(
        "error",
        f"share of rows whose {table.target} is predicted wrongly",
        lambda y, y_pred: np.mean(y != y_pred),
        "odds gap" if odds else "parity gap",
        "largest difference between two groups in how often a class is predicted"
        + (", among those of the same class" if odds else ""),
        equalized_odds_difference if odds else demographic_parity_difference,
        odds,
    )
    network = args.base_model == "network"
    kind = DPWassersteinMLPClassifier if network else DPWassersteinLogisticRegression
    private = kind(**_without_penalty(facts, args), classes=facts.classes)
    fair = DP2DPClassifier(
        private,
        delta=args.delta,
        constraint=args.constraint,
        classes=facts.classes,
        **_of_a_repair(facts, args),
    )
    plain = LogisticRegression(max_iter=1000)
    return measures, {"plain": plain, "private": private, "private and fair": fair}


def _of_a_model(args) -> dict:
    return {
        "epsilon": args.epsilon,
        "delta": args.delta,
        "data_norm": 1.0,
        "random_state": args.seed,
    }


def _without_penalty(facts: Facts | Learnt, args) -> dict:
    """Groups play no part: no column is looked at."""
    return {
        **_of_a_model(args),
        "fairness_weight": 0.0,
        "groups": facts.groups,
        "sensitive_features": _FirstGroup(facts.groups[0]),
    }


def _of_a_repair(facts: Facts | Learnt, args) -> dict:
    return {
        # At one total all rows are worth more than all of the budget; a model of the
        # groups that knows more would make all alike at the cost of the accuracy.
        **({} if args.blind else {"calibration_size": "all"}),
        "epsilon": args.epsilon,
        "fairness_tolerance": args.fairness_tolerance,
        "blind": args.blind,
        "groups": facts.groups,
        "handle_unknown": "pooled",
        "random_state": args.seed,
    }


@dataclass(frozen=True)
class _FirstGroup:
    """Everybody in the first group."""

    group: object

    def __call__(self, X):
        return [self.group] * len(X)


def with_shares(encoders: dict, models: dict, args, n_rows: int) -> tuple:
    """Encoders and models such that each model, with the encoders, costs the total.

    With so few rows that the private model answers a constant, the encoders release
    nothing, and each model has the total: the number of rows is public.
    """
    total = (args.epsilon, args.delta)
    shares = {"lists": _LIST_SHARE} if "lists" in encoders else {}
    private = {name: model for name, model in models.items() if name != "plain"}
    pipelines = {
        name: Pipeline([*encoders.items(), ("model", model)])
        for name, model in private.items()
    }
    try:
        whole = with_budget(pipelines["private"], *total, shares=shares)
        least = whole[-1].min_records
        if least is not None and n_rows < least:
            encoders = {
                name: clone(encoder).set_params(min_records=least)
                for name, encoder in encoders.items()
            }
            return encoders, {
                name: _settings_of_few(model, least, total)
                for name, model in private.items()
            }
        budgets = {
            name: budget_of_steps(steps, *total, shares)
            for name, steps in pipelines.items()
        }
    except ValueError:
        raise InputError(
            "--epsilon is too small for all that is to be released."
        ) from None
    fitting = {}
    for name, encoder in encoders.items():
        # Of the smaller delta: the other model's total has more for the encoders.
        both = [steps.pop(name) for steps in budgets.values()]
        epsilon, delta = min(both, key=lambda budget: budget[::-1])
        fitting[name] = clone(encoder).set_params(epsilon=epsilon, delta=delta)
    return fitting, {name: _settings(steps) for name, steps in budgets.items()}


def _settings_of_few(model, least: int, total: tuple) -> dict:
    """Settings of a model that answers a constant, or is made of one that does.

    That tells all of its epsilon, without a delta: beside a repair, more than features.
    """
    places = [k for k in model.get_params() if k.rpartition("__")[2] == "min_records"]
    few = dict.fromkeys(places, least)
    return {**_settings(budget_of_steps(clone(model).set_params(**few), *total)), **few}


def _settings(steps: dict) -> dict:
    """Arguments of the model's `set_params`, of its steps in a pipeline or alone."""
    settings = settings_of(steps)
    return {name.removeprefix("model__"): value for name, value in settings.items()}
