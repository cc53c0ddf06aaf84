"""Cross-validation that is private as a whole: fits and scores under one budget."""

import math
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.utils.validation import validate_data

from .._door.groups import as_table
from .._shared.arguments import (
    checked,
    fits,
    flag,
    number,
    one_of,
    refuse_batches,
    spender,
)
from .._shared.domain import check_columns, same_length
from .._wall import (
    Combined,
    DeclaredEvent,
    PrivacyFilter,
    PrivacyGuarantee,
    Release,
    noise_source,
    surely,
)
from ..postprocessing import enough_rows
from . import _candidates as candidates
from ._plan import ValidationPlan, cost_of_validation, plan_validation, total_of
from ._scoring import BoundedScore, ConstrainedScore, Reading, table_of
from ._task import Scores, Task, default_scoring, make_task, unless_it_failed

_THEOREM = "user_guide/model_selection_proofs:cross-validation-total"
_MOST_FOLDS = 10_000
SMALLEST_SHARE = 1e-6  # of a budget; less would be all noise

_NOT_AT_RANDOM = (
    "cv must be a number of folds, KFold(shuffle=True), or under "
    "neighboring='replace_one' a PredefinedSplit that you know not to depend on the "
    "data, got {}. Records are sent to folds by one independent draw each: in "
    "stratified, grouped or ordered folds a change of one record moves others, and "
    "the cost of a split at random would be claimed for a split that costs more."
)


@dataclass(frozen=True, eq=False)
class FoldScores:
    """Noisy scores of one metric; everything in it may be published.

    Parameters
    ----------
    name : str
        The metric.
    scores : ndarray of shape (n_folds,)
        Score of each fold, greater is better: disparities have a minus.
    intervals : ndarray of shape (n_folds, 2)
        Confidence interval of each, sampling error and noise included.
    mean : float
        Mean over the folds.
    interval : tuple of float
        Confidence interval of the mean score of the models of the folds. For a
        disparity, of the mean of the folds' disparities: the mean of the limits.
    """

    name: str
    scores: np.ndarray
    intervals: np.ndarray
    mean: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """What a private cross-validation releases.

    Parameters
    ----------
    scores : dict of str to FoldScores
        By the name of the metric.
    fit_epsilon, fit_delta : float
        Budget with which the model of each fold was fitted.
    confidence_level : float
        Of all intervals, one by one.
    estimators : list or None
        The models of the folds, if asked for; part of what the budget pays for.
    privacy_ : PrivacyGuarantee
        What all of it cost.
    """

    scores: dict[str, FoldScores]
    fit_epsilon: float
    fit_delta: float
    confidence_level: float
    estimators: list | None
    privacy_: PrivacyGuarantee

    def __str__(self) -> str:
        lines = [
            f"{one.name}: {one.mean:.4f}, {self.confidence_level:.0%} interval "
            f"{one.interval[0]:.4f} to {one.interval[1]:.4f}, {len(one.scores)} folds"
            for one in self.scores.values()
        ]
        return "\n".join([*lines, str(self.privacy_)])


@dataclass(frozen=True)
class _Folds:
    """Fold of each row; -1 is always in training, None is still to be drawn."""

    fold_of: np.ndarray | None
    n_folds: int
    assumption: str | None = None

    @property
    def n_fits_per_record(self) -> int:
        """In how many training sets a record is, at most."""
        always = self.assumption is not None and bool((self.fold_of < 0).any())
        return self.n_folds - 1 + always

    def least_records(self, task: Task) -> int | None:
        """How many records each fit sees at least, if that is public."""
        if task.neighboring != "replace_one":
            return None
        if self.fold_of is None:
            return surely(task.n_rows, 1 - 1 / self.n_folds)
        return min(len(train) for train, _ in self)

    def assumptions(self, neighboring: str) -> tuple[str, ...]:
        """What the guarantee takes for granted about the folds."""
        if self.assumption is not None:
            return (self.assumption,)
        return enough_rows(neighboring, 1 / self.n_folds)

    def __iter__(self):
        for fold in range(self.n_folds):
            test = self.fold_of == fold
            yield np.flatnonzero(~test), np.flatnonzero(test)


@checked(
    estimator=fits,
    epsilon=number(0, math.inf, "right"),
    delta=number(0, 1, "neither"),
    score_fraction=number(SMALLEST_SHARE, 1 - SMALLEST_SHARE),
    neighboring=one_of("replace_one", "add_remove"),
    confidence_level=number(0, 1, "neither"),
    return_estimator=flag,
    ledger=spender,
)
def dp_cross_validate(
    estimator,
    X,
    y,
    *,
    sensitive_features=None,
    groups=None,
    cv=5,
    scoring=None,
    epsilon=1.0,
    delta=1e-5,
    score_fraction=0.1,
    classes=None,
    target_bounds=None,
    neighboring="replace_one",
    confidence_level=0.95,
    return_estimator=False,
    ledger=None,
    random_state=None,
):
    r"""Estimate the quality of a private model by cross-validation, privately.

    A record is in the training sets of all folds but one, and in one test set. With
    models of Gaussian-DP parameter :math:`\mu_f` and scores of :math:`\mu_s` the whole
    is :math:`\mu`-Gaussian DP,

    .. math:: \mu^2 = (K - 1) \mu_f^2 + \mu_s^2 .

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y, group), models and scores together.
    Folds are drawn by one independent draw per record. Each fold releases one vector
    with Gaussian noise: the sum of every score, scaled to [-1/2, 1/2] per record, and
    a table of counts where a disparity is asked for. With m scores its Euclidean
    sensitivity is sqrt(m), or sqrt(m + 2) with a table, under replace-one, and
    sqrt(m / 4 + 1) under add/remove, where the number of rows is part of the vector.
    Models that are not Gaussian releases are composed by their (epsilon, delta).
    Public: everything but X, y and the sensitive features; the number of rows under
    replace-one.

    Parameters
    ----------
    estimator : estimator
        A private classifier or regressor, or a pipeline that holds one. Its epsilon,
        delta, ledger and random_state are set here.
    X : array-like or DataFrame of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,)
        Target.
    sensitive_features : array-like of n_samples rows, default=None
        Group label of each row, for disparities and for models that take it in the
        call. None: the columns that the estimator's constructor names, if any.
    groups : list, default=None
        Public list of groups. None takes the estimator's own list.
    cv : int, KFold or PredefinedSplit, default=5
        Number of folds; `KFold(shuffle=True)` is read as its number. A
        `PredefinedSplit` is taken as public, under replace-one only.
    scoring : str, BoundedScore or list of these, default=None
        "accuracy", "neg_error_rate", "neg_mean_absolute_error",
        "neg_mean_squared_error", "neg_demographic_parity_difference",
        "neg_equalized_odds_difference", "neg_ks_parity_difference" or a
        `BoundedScore`. None: accuracy or mean absolute error.
    epsilon : float, default=1.0
        Privacy budget of everything. Range: (0, inf]; infinity adds no noise.
    delta : float, default=1e-5
        Range: (0, 1).
    score_fraction : float, default=0.1
        Share of :math:`\mu^2` that the scores take. Range:
        [1e-6, 1 - 1e-6].
    classes : list, default=None
        Public list of labels, for disparities. None takes the estimator's own list.
    target_bounds : pair of float, default=None
        Public range of a regression target; errors are computed after clipping to it.
        An estimator without one is told it. None takes the estimator's own, or that of
        the data, with a warning.
    neighboring : {"replace_one", "add_remove"}, default="replace_one"
        Which tables count as neighbours.
    confidence_level : float, default=0.95
        Range: (0, 1).
    return_estimator : bool, default=False
        Whether to return the models of the folds.
    ledger : PrivacyLedger, default=None
        Budget that pays for the whole before the first fit.
    random_state : int, RandomState instance or None, default=None
        None draws folds and noise from the operating system. Anything else is
        reproducible and hence not private; the guarantee says so.

    Returns
    -------
    result : CrossValidation
        Scores with intervals, and the guarantee `privacy_`.

    Raises
    ------
    ValueError
        If `cv` depends on the data, the estimator is not private as a whole, or an
        argument is out of range.
    BudgetExceededError
        If the ledger has not enough left.

    Warns
    -----
    PrivacyLeakWarning
        If a public fact is taken from the data.

    See Also
    --------
    DPGridSearchCV : Choose parameters under one budget.
    fairpriv_sklearn.metrics.dp_group_rates : Private rates of a fitted model.

    Notes
    -----
    Intervals treat the rows of the test sets as independent and the models as given.
    scikit-learn's `cross_validate` works as well; its scores are not private.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_biased_mixture
    >>> from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
    >>> from fairpriv_sklearn.model_selection import dp_cross_validate
    >>> X, y, group = make_biased_mixture(4000, n_classes=2, random_state=0)
    >>> model = DPWassersteinLogisticRegression(
    ...     bounds=(-4, 4), classes=[0, 1], groups=[-1, 1]
    ... )
    >>> result = dp_cross_validate(
    ...     model, X, y, sensitive_features=group, cv=3, epsilon=3.0, random_state=0
    ... )
    >>> result.scores["accuracy"].scores.shape, round(result.privacy_.epsilon, 6)
    ((3,), 3.0)
    """
    scorings = _scorings(scoring, estimator)
    refuse_batches(X, "dp_cross_validate")
    candidates.refuse_large_epsilon(epsilon)
    candidates.refuse_without_budget(estimator)
    check_columns(X)
    X = as_table(estimator, X)
    public = _PublicFacts(groups, classes, target_bounds, neighboring)
    validate_data(public, X, skip_check_array=True)
    task = make_task(public, estimator, X, y, sensitive_features, scorings.values())
    noise = noise_source(random_state)
    folds = _folds(cv, task)
    _, said = candidates.check_candidates(estimator, [{}], task, ledger)
    size = task.statistic.size
    asked = folds.n_fits_per_record, epsilon, delta
    shared = {"score_fraction": score_fraction, "n_statistics": size}
    kind, n_draws = candidates.expected_fit(estimator, [{}], task.public, task.X, task)
    plan = plan_validation(*asked, kind=kind, n_draws=n_draws, **shared)
    candidates.refuse_shares(estimator, [{}], [plan.fit], task.public, task.X)
    scores = Release(Scores.name, "gaussian", math.inf, size, times=folds.n_folds)
    what = f"cross-validation in {folds.n_folds} folds, models and noisy scores"
    told = estimator, [{}], plan.fit, task.public, folds.least_records(task)
    total = (DeclaredEvent(epsilon, delta),)
    if foreseen := candidates.are_foreseen(*told):
        events = cost_of_validation(plan, folds.n_fits_per_record, size)
        total = total_of(events, epsilon, delta)
    wall = PrivacyFilter(
        "dp_cross_validate",
        [Combined(what, total, (scores,), _THEOREM)],
        delta=delta,
        neighboring=neighboring,
        facts=(*task.assumptions, *folds.assumptions(neighboring)),
        noise=noise,
        ledger=ledger,
    )
    wall.reserve()
    if folds.fold_of is None:
        folds = replace(folds, fold_of=wall.integers(folds.n_folds, task.n_rows))

    while True:
        try:
            models, readings, caveats = _run(estimator, task, folds, plan, wall, said)
            break
        except candidates.OtherCost as cost:
            candidates.refuse_unforeseen(foreseen)
            paid = {"kind": cost.kind, "n_draws": cost.n_draws}
            plan = plan_validation(*asked, **paid, **shared)
    return CrossValidation(
        scores=_fold_scores(scorings, readings, confidence_level),
        fit_epsilon=plan.fit.epsilon,
        fit_delta=plan.fit.delta,
        confidence_level=confidence_level,
        estimators=models if return_estimator else None,
        privacy_=wall.guarantee().qualified(**caveats),
    )


class _PublicFacts(BaseEstimator):
    """What `make_task` asks its owner for; bears the column names of `X`."""

    def __init__(self, groups, classes, target_bounds, neighboring):
        self.groups, self.classes = groups, classes
        self.target_bounds, self.neighboring = target_bounds, neighboring
        self.sensitive_features = None


def _run(estimator, task: Task, folds: _Folds, plan: ValidationPlan, wall, said):
    models, facts, assumed, secure = [], {}, {}, True
    for train, _ in folds:
        fitted = task.run(estimator, {}, train, plan.fit, wall.noise)
        model, guarantee = unless_it_failed(fitted, "A fold's model")
        facts.update(dict.fromkeys(guarantee.conditional_on))
        assumed.update(dict.fromkeys(guarantee.assumptions))
        secure = secure and guarantee.noise_is_secure
        models.append(model)
    # Only now: the model of any fold may turn out to need another plan.
    readings = [
        task.release(model, test, plan.score_mu, wall)
        for model, (_, test) in zip(models, folds, strict=True)
    ]
    candidates.warn_of_facts(facts.keys() - said)
    caveats = {"assumptions": assumed, "conditional_on": facts}
    return models, readings, {**caveats, "noise_is_secure": secure}


_SCORES = str | BoundedScore | ConstrainedScore


def _scorings(scoring, estimator) -> dict[str, str | BoundedScore]:
    if scoring is None:
        scoring = default_scoring(estimator)
    several = scoring if isinstance(scoring, list | tuple) else [scoring]
    if not several or not all(isinstance(one, _SCORES) for one in several):
        raise TypeError("scoring must be a name or a BoundedScore, or a list of them.")
    if any(isinstance(one, ConstrainedScore) for one in several):
        raise ValueError(
            "A ConstrainedScore ranks candidates; ask for its score and its disparity "
            "as a list instead."
        )
    return {one if isinstance(one, str) else one.name: one for one in several}


def _folds(cv, task: Task) -> _Folds:
    if isinstance(cv, PredefinedSplit) and task.neighboring == "replace_one":
        fold_of = np.asarray(cv.test_fold)
        same_length(task.y, fold_of)
        used = np.unique(fold_of[fold_of >= 0])
        if len(used) < 1 + (fold_of >= 0).all():
            raise ValueError(
                "cv must leave rows to fit and rows to score: two folds, or one beside "
                "rows that are in none."
            )
        recoded = np.where(fold_of < 0, -1, np.searchsorted(used, fold_of))
        fact = "the given folds do not depend on the data"
        return _Folds(recoded, len(used), fact)
    if isinstance(cv, KFold) and cv.shuffle:
        cv = cv.n_splits
    if not isinstance(cv, Integral) or isinstance(cv, bool):
        raise ValueError(_NOT_AT_RANDOM.format(repr(cv)))
    if not 2 <= cv <= _MOST_FOLDS:
        raise ValueError(
            f"cv must be at least 2 folds and at most {_MOST_FOLDS}, got {cv}."
        )
    return _Folds(None, int(cv))


def _fold_scores(scorings, readings: list[Reading], level: float):
    result, place = {}, 0
    for name, scoring in scorings.items():
        if table_of(scoring) is not None:
            result[name] = _disparities(name, readings, level)
        else:
            result[name] = _means(name, readings, place, level)
            place += 1
    return result


def _means(name, readings, place, level) -> FoldScores:
    scores = np.array([reading.score(place) for reading in readings])
    intervals = np.array([r.score_interval(place, level) for r in readings])
    score = readings[0].statistic.scores[place]
    # The test sets are disjoint and their noise is independent.
    widths = np.array([reading.half_width(place, level) for reading in readings])
    width = (score.high - score.low) * math.sqrt(np.sum(widths**2)) / len(widths)
    mean = float(scores.mean())
    low, high = max(score.low, mean - width), min(score.high, mean + width)
    return FoldScores(name, scores, intervals, mean, (low, high))


def _disparities(name, readings, level) -> FoldScores:
    disparity = name.removeprefix("neg_")
    scores = -np.array([reading.disparity(disparity) for reading in readings])
    limits = [reading.disparity_interval(disparity, level) for reading in readings]
    intervals = -np.array(limits)[:, ::-1]
    low, high = intervals.mean(axis=0).tolist()
    return FoldScores(name, scores, intervals, float(scores.mean()), (low, high))
