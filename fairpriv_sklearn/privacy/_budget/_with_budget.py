"""One budget for everything that an estimator is made of."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..._shared.arguments import having
from ..._shared.callers import warn_caller
from ..._shared.nested import argument_of, is_inside
from ...accounting import calibrate_gaussian, compose_epsilon
from .._facts import PrivacyLeakWarning
from .._steps import conditions_of, expected_guarantee, ways_out
from ._costs import (
    has_budget,
    is_encoder,
    kind_of,
    min_records_of,
    private_steps,
    tells_constants,
)
from ._division import budget_of_steps, settings_of
from ._pipeline import BudgetPipeline

# Standard deviations by which more records are expected than there are at least.
_SURE = 6.0


def with_budget(estimator, epsilon, delta=1e-5, *, shares=None) -> Any:
    r"""Set all private steps of an estimator so that together they cost one budget.

    .. math:: \mu_i^2 = w_i\, \mu^2, \qquad \sum_i w_i = 1,

    for steps that compose, with :math:`\mu` the largest Gaussian-DP parameter for which
    the exact composition is at most (epsilon, delta). Steps that a random split parts,
    such as a post-processor, the model that it wraps and, if it is blind, that of the
    groups, each get the whole; with ``calibration_size="all"`` they compose.

    .. rubric:: Privacy

    A function of public arguments: nothing is fitted. The composition of the fitted
    steps is at most the budget, and at least .999 of it if every step spends what it
    may, from an epsilon of .1 on (of .5 with networks of 100 steps: with less, or with
    more steps, what the error of their many draws may cost at most weighs more;
    generators .997 at 1; repairs of numbers on all rows .97; beside other steps what
    samples batches counts by its epsilon and delta alone, and two thirds are spent). A
    step that is changed afterwards costs what it was changed to, and
    :func:`privacy_report` says so. A pipeline fits its steps in turn: what its
    arguments, the target, the sensitive features and the ledgers' room tell is refused
    before the first one spends; if the last one refuses its rows, those before have
    spent.

    A model of this library, alone or after encoders, gets `min_records`, and so do
    they: of a table with fewer records, too few for features to tell anything, the
    encoders learn nothing and spend nothing, and the model answers a constant that its
    epsilon tells: .9 to 1 of the total. The number of records is public there. A model
    inside a repair, alone or after encoders, gets it too, by the records that it sees;
    where all rows calibrate only if a pure epsilon does (the constant's and a Gaussian
    repair's would exceed the total).

    Parameters
    ----------
    estimator : estimator
        A pipeline or anything nested. Frozen parts stay as they are; what they cost
        counts. What fits one step several times, such as bagging, stacking or
        scikit-learn's own search, is refused. A ledger is an argument of the private
        steps: give each of them the same one, but for what a repair wraps, which the
        repair pays for; beside it that would count as if it read the same rows.
    epsilon : float
        Total budget. Range: (0, inf].
    delta : float, default=1e-5
        Range: (0, 1).
    shares : mapping of str to float, default=None
        Share of the squared Gaussian parameter by step, in the notation of
        `set_params`. Steps that it does not name share the rest: a table encoder a
        tenth, next to nothing with ``ranks="uniform"`` and a codebook that declares
        all columns that it names, the others the same each; with
        ``calibration_size="all"`` the model that is repaired twice as much, and a
        repair of a pure epsilon three times. If it names all of those that compose,
        they are taken relative to their sum.

    Returns
    -------
    estimator : estimator
        A clone, not fitted, whose steps have their own epsilon and delta. A pipeline
        comes as one that looks for mistakes before any step is fitted.

    Warns
    -----
    PrivacyLeakWarning
        If a step of a pipeline, or what scikit-learn wraps around one, is not private:
        then the whole is not; or if it is on a condition only.

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
    chosen.set_params(**min_records_of(chosen, None))
    budgets = budget_of_steps(chosen, epsilon, delta, shares)
    chosen.set_params(**settings_of(budgets))
    _tell_constants(chosen, float(epsilon), float(delta))
    if type(chosen) is Pipeline:
        chosen = BudgetPipeline(**chosen.get_params(deep=False))
    if not has_budget(chosen):
        _warn_of_uncovered(chosen)
    return chosen


def _warn_of_uncovered(estimator) -> None:
    """Say which steps no budget covers, or on what it holds; repairs say so later."""
    expected = expected_guarantee(estimator)
    # No part is private where what holds them all is not.
    whole = (type(estimator).__name__,)
    uncovered = whole if expected is None else expected.uncovered
    if uncovered:
        warn_caller(
            f"Not private: {', '.join(uncovered)}. The budget is that of the "
            "private steps, and the guarantee of the whole is infinite."
            f"{ways_out(estimator)}",
            PrivacyLeakWarning,
        )
    elif conditions := conditions_of(estimator):
        warn_caller(conditions, PrivacyLeakWarning)


def _tell_constants(estimator, epsilon: float, delta: float) -> None:
    """Set `min_records` of models, and of encoders beside them, that see the same rows.

    All steps of such a place know the same public number of records. So either the
    encoders spend nothing and the model nearly all of its epsilon, or none of them
    does: with what stands around, such as an encoder in front of the repair, which sees
    more rows, either may cost the total and no more.
    """
    for place in _places(estimator):
        _tell_constant(estimator, place, epsilon, delta)


def _tell_constant(estimator, place, epsilon, delta, n_records=None) -> None:
    steps, least = _told_at(estimator, place)
    if least is None or _are_enough(estimator, place, n_records, least):
        return
    estimator.set_params(**dict.fromkeys(steps, least))
    planned = expected_guarantee(estimator)
    cost = math.inf if planned is None else compose_epsilon(planned.events, delta)
    if cost > epsilon:
        estimator.set_params(**dict.fromkeys(steps))


def _places(estimator) -> list[str]:
    """Where steps may see the same rows: the whole, and what each repair fits."""
    repairs = {
        path: step
        for path, step in private_steps(estimator).items()
        if getattr(step, "base_guarantee", step) is None
    }
    return ["", *(argument_of(path, "estimator") for path in repairs)]


def _told_at(estimator, place: str) -> tuple[list[str], int | None]:
    """Arguments of steps that tell the least number of records, and that number."""
    whole = {"": estimator, **estimator.get_params()}[place]
    least = _min_records(whole)
    return [argument_of(place, name) for name in min_records_of(whole, None)], least


def _are_enough(estimator, place: str, n_records: int | None, least: int) -> bool:
    """Whether what a repair fits sees more records, but by next to no chance."""
    if n_records is None or not place:
        return False
    part = 1.0
    for path, step in private_steps(estimator).items():
        model = argument_of(path, "estimator")
        if place == model or is_inside(place, model):
            others = step.calibration_size, step.group_size if step.blind else 0.0
            part *= 1.0 - math.fsum(one for one in others if isinstance(one, Real))
    return surely(n_records, part) > least


def surely(n_records: int, part: float) -> int:
    """How many records are drawn at least, but by next to no chance."""
    expected = max(part * n_records, 0.0)
    return math.floor(expected - _SURE * math.sqrt(expected))


def places_told(estimator) -> list[str]:
    """Where steps have the least number of records that `with_budget` gave them."""
    given, places = estimator.get_params(), []
    for place in _places(estimator):
        steps, least = _told_at(estimator, place)
        if least is not None and {given[name] for name in steps} == {least}:
            places.append(place)
    return places


def untell(estimator, places: list[str]) -> None:
    """Take the least number of records from all steps of some places."""
    for place in places:
        whole = {"": estimator, **estimator.get_params()}.get(place)
        steps = {} if whole is None else min_records_of(whole, None)
        estimator.set_params(**{argument_of(place, name): None for name in steps})


def tell_again(estimator, places, epsilon, delta, n_records=None) -> None:
    """Give steps of some places theirs anew, for other budgets.

    With a number of records that is public, only those that may see fewer: a plan for
    few costs what composes worse with other fits.
    """
    for place in places:
        if place in ("", *estimator.get_params()):
            _tell_constant(estimator, place, epsilon, delta, n_records)


def _min_records(estimator) -> int | None:
    """Below how many records a model beside encoders answers a constant, or None."""
    steps = private_steps(estimator)
    # Side by side in one pipeline, so that all of them see the same records.
    together = isinstance(estimator, Pipeline) or list(steps) == [""]
    if not together or any("__" in path for path in steps):
        return None
    models = [s for s in steps.values() if tells_constants(s)]
    encoders = [s for s in steps.values() if is_encoder(s)]
    if len(models) != 1 or len(models) + len(encoders) < len(steps):
        return None
    (model,) = models
    if kind_of(model) != "gaussian" or model.neighboring != "replace_one":
        return None
    mu = calibrate_gaussian(model.epsilon, model.delta)
    return max(1, math.ceil(model._signal_of_features / mu))  # 1 without noise
