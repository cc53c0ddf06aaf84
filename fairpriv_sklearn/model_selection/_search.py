"""Search for the best parameters under one privacy budget."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from .._door.estimator import DELTA_CONSTRAINT, DPEstimator
from .._door.groups import (
    AttributeAwareMixin,
    as_table,
    refuse_groups,
    refuse_without_groups,
)
from .._door.inside import check_nested_arguments, told_range
from .._shared.callers import warn_caller
from .._shared.domain import check_given, same_length
from .._shared.guarded import ask_wrapped
from .._shared.origin import as_it_is
from .._shared.sklearn import HasMethods, Interval, StrOptions, fit_context, router_of
from .._wall import (
    Combined,
    DeclaredEvent,
    NoiseSource,
    PrivacyFilter,
    Release,
    noise_source,
    open_wall,
    refuse_target,
    refuse_widths,
    surely,
)
from ..postprocessing import enough_rows
from . import _candidates as candidates
from ._plan import (
    FitShare,
    SearchPlan,
    cost_of_fits,
    cost_of_search,
    plan_search,
    total_of,
)
from ._scoring import SCORE_NAMES, BoundedScore, ConstrainedScore, ranking, table_of
from ._task import (
    SCORE_NEEDS_GROUPS,
    Scores,
    Task,
    default_scoring,
    make_task,
    public_facts,
    unless_it_failed,
)

_CHOICE = "choice"
_WINNER = "The chosen candidate"
_WHAT = "the winner of a search over public candidates, fits and scores together"
_THEOREM = "user_guide/model_selection_proofs:search-total"
_MANY = 100  # runs for each candidate
_MOST_RUNS = 10**9  # the number of runs is secret, and paid for by the theorem


def _estimator_has(method: str) -> Callable:
    def check(self) -> bool:
        # Raises AttributeError itself where the method is missing.
        getattr(getattr(self, "best_estimator_", self.estimator), method)
        return True

    return check


class _PrivateSearch(MetaEstimatorMixin, AttributeAwareMixin, DPEstimator):
    """The search over a public list of candidates; subclasses make the list.

    Parameters
    ----------
    estimator : estimator
        A private classifier or regressor, or a pipeline that holds one. Its epsilon,
        delta, ledger and random_state are set by the search.
    scoring : str, BoundedScore or ConstrainedScore, default=None
        "accuracy", "neg_error_rate", "neg_mean_absolute_error",
        "neg_mean_squared_error", "neg_demographic_parity_difference",
        "neg_equalized_odds_difference", "neg_ks_parity_difference", a `BoundedScore`,
        or a `ConstrainedScore` such as the best accuracy with a demographic parity
        difference of at most 0.05. None: accuracy or mean absolute error.
    epsilon : float, default=1.0
        Privacy budget of the whole search. Range: (0, inf]; infinity adds no noise.
    method : {"auto", "repeat", "compose"}, default="auto"
        "auto" takes "repeat" where that leaves a single fit much more, computed
        beforehand from public numbers: as a rule from five candidates on.
    coverage : float, default=0.8
        Probability with which "repeat" tries at least one of the best tenth of the
        candidates (of fewer than twenty: the best one). More takes more runs and
        leaves less to each. Range: (0, 1).
    holdout_size : float, default=0.2
        Chance of a row to be held out. Range: (0, 1).
    refit : bool, default=False
        Whether to fit the winner again on all rows. Otherwise the winner is kept as it
        was trained, which costs nothing more.
    refit_fraction : float, default=0.5
        Share of epsilon and delta that is kept for the new fit. Range: (0, 1).
    classes : array-like of shape (n_classes,), default=None
        Public list of labels, for disparities. None takes the estimator's own list.
    target_bounds : pair of float, default=None
        Public range of a regression target; errors are computed after clipping to it.
        Candidates without one are told it. None takes the estimator's own, or, if the
        score needs it, that of the data, with a warning.
    neighboring : {"replace_one", "add_remove"}, default="replace_one"
        Which tables count as neighbours. The estimator must name the same.
    sensitive_features : str, int, list of these, or callable, default=None
        Columns of `X` that hold the sensitive features, or a function of `X` that
        labels each row on its own; the candidates then get `X` without these columns,
        and the labels in the call. None: pass `sensitive_features` to `fit`, or name
        the columns in the estimator's own constructor.
    groups : array-like of shape (n_groups,), default=None
        Public list of groups, for disparities. None takes the estimator's own list.
    ledger : PrivacyLedger, default=None
        Budget that pays for the whole search, once, before the first fit. The
        candidates get none.
    random_state : int, RandomState instance or None, default=None
        None draws the split, candidates and noise from the operating system. Anything
        else is reproducible and hence not private; `privacy_` says so.
    """

    _parameter_constraints: dict = {
        **DPEstimator._parameter_constraints,
        **DELTA_CONSTRAINT,
        "estimator": [HasMethods(["fit", "predict", "get_params"])],
        "scoring": [None, StrOptions(set(SCORE_NAMES)), BoundedScore, ConstrainedScore],
        "method": [StrOptions({"auto", "repeat", "compose"})],
        "coverage": [Interval(Real, 0, 1, closed="neither")],
        "holdout_size": [Interval(Real, 0, 1, closed="neither")],
        "refit": ["boolean"],
        "refit_fraction": [Interval(Real, 0, 1, closed="neither")],
        "classes": ["array-like", None],
        "target_bounds": ["array-like", None],
    }

    def __getattr__(self, name: str):
        if name in ("cv_results_", "best_score_", "best_index_"):
            raise AttributeError(
                f"{type(self).__name__} has no {name}: scores of candidates are not "
                "released. dp_cross_validate estimates those of one model, for a "
                "budget of its own."
            )
        return self.__getattribute__(name)  # which says what is missing

    def plan(self) -> SearchPlan:
        """Return how the budget will be shared out, before any of it is spent.

        Returns
        -------
        plan : SearchPlan
            Computed from constructor arguments alone. `plan.fit.epsilon` is what each
            candidate is fitted with.

        Raises
        ------
        ValueError
            If a candidate cannot be fitted with its share of the budget.

        Warns
        -----
        UserWarning
            If `coverage` asks for more than a hundred fits of each candidate on
            average.
        """
        self._validate_params()
        for chosen in self._candidates_to_check():
            check_nested_arguments(chosen)
        plan = self._planned()
        self._refuse_shares(self._candidates(noise_source(0)), plan, {})
        _warn_of_many_runs(plan)
        return plan

    def _planned(self) -> SearchPlan:
        """The plan, of arguments that are right."""
        candidates.refuse_without_budget(self.estimator)
        grid = self._candidates(noise_source(0))
        public = public_facts(self)
        kind, n_draws = candidates.expected_fit(self.estimator, grid, public)
        return self._plan(len(grid), kind, n_draws, n_statistics=1)

    def _candidates_to_check(self) -> list:
        """Candidates for checks before the fit, which may draw others."""
        grid, public = self._candidates(noise_source(0)), public_facts(self)
        made = (candidates.made(self.estimator, params) for params in grid)
        return [candidates.told(one, public) for one in made]

    def _check_arguments(self) -> None:
        super()._check_arguments()
        for chosen in self._candidates_to_check():
            check_nested_arguments(chosen)
            candidates.refuse_unpaid(chosen, self.ledger)
            candidates.refuse_uncovered(chosen, self.neighboring)
        self._refuse_shares(self._candidates(noise_source(0)), self._planned(), {})

    def _refuse_shares(self, grid, plan: SearchPlan, public: dict, X=None) -> None:
        """Refuse a candidate whose fit, or second fit, its share cannot pay for."""
        shares = [plan.fit] + [self._refit_budget()] * self.refit
        candidates.refuse_shares(self.estimator, grid, shares, public, X)

    def _refuse_target(self, X, y) -> None:
        if self.classes is not None:
            super()._refuse_target(X, y)
            return
        for chosen in self._candidates_to_check():
            refuse_target(chosen, X, y)

    def _refuse_groups(self, X, sensitive_features) -> None:
        super()._refuse_groups(X, sensitive_features)
        for chosen in self._candidates_to_check():
            refuse_groups(chosen, X, sensitive_features, self.groups)

    def _refuse_width(self, n_columns: int | None, learnt) -> None:
        for chosen in self._candidates_to_check():
            refuse_widths(chosen, n_columns, learnt=learnt)

    def _refuse_without_groups(self) -> None:
        if self.sensitive_features is not None:
            return
        compares = table_of(self._scoring()) is not None
        if compares and candidates.named_groups(self.estimator) is None:
            raise ValueError(SCORE_NEEDS_GROUPS)
        for chosen in self._candidates_to_check():
            refuse_without_groups(chosen)

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, sensitive_features=None):
        """Find a good candidate, at the cost of the whole budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        y : array-like of shape (n_samples,), default=None
            Target of each row.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group label of each row, for the score and for candidates that take it in
            the call.

        Returns
        -------
        self : object
        """
        candidates.refuse_without_budget(self.estimator)
        X = as_table(self, X)
        validate_data(self, X, skip_check_array=True)
        self._fitted_with = self._ways_to_read()
        scoring = self._scoring()
        task = make_task(self, self.estimator, X, y, sensitive_features, [scoring])
        noise = noise_source(self.random_state)
        grid = self._candidates(noise)
        asked = self.estimator, grid, task, self.ledger
        facts, said = candidates.check_candidates(*asked)
        told = self.estimator, grid, task.public
        kind, n_draws = candidates.expected_fit(*told, task.X, task)
        plan = self._plan(len(grid), kind, n_draws, task.statistic.size)
        self._refuse_shares(grid, plan, task.public, task.X)
        candidates.warn_of_lowered(self.estimator, grid, plan.fit, task.public)
        _warn_of_many_runs(plan)
        foreseen = self._is_foreseen(grid, plan, task)
        again = self._refit_budget() if self.refit else None
        if again is not None and foreseen:
            again = self._refit_share(grid, task, n_draws)
        wall = self._open_wall(task, noise, plan if foreseen else None, again)
        holdout = wall.random_split(task.n_rows, self.holdout_size)
        train, test = np.flatnonzero(~holdout), np.flatnonzero(holdout)

        while True:
            plan = self._plan(len(grid), kind, n_draws, task.statistic.size)
            repeats = plan.method == "repeat"
            search = self._best_of_a_random_number if repeats else self._best_of_all
            try:
                model, params, guarantee = search(grid, task, train, test, plan, wall)
                break
            except candidates.OtherCost as cost:
                candidates.refuse_unforeseen(foreseen)
                # The first guarantee tells, whatever the data: start again.
                kind, n_draws = cost.kind, cost.n_draws
        if self.refit:
            model, guarantee = self._refit(task, params, noise, again)
        facts = dict.fromkeys([*guarantee.conditional_on, *sorted(facts)])
        candidates.warn_of_facts(facts.keys() - said)

        candidates.tell_of_the_choice(model)
        self.best_estimator_, self.best_params_ = model, params
        self.plan_ = plan
        self.privacy_ = wall.guarantee().qualified(
            assumptions=guarantee.assumptions,
            conditional_on=facts,
            noise_is_secure=guarantee.noise_is_secure,
        )
        return self

    def _scoring(self):
        if self.scoring is None:
            return default_scoring(self.estimator)
        return self.scoring

    def _search_budget(self) -> tuple[float, float]:
        share = 1.0 - self.refit_fraction if self.refit else 1.0
        return self.epsilon * share, self.delta * share

    def _plan(self, n_candidates, kind, n_draws, n_statistics) -> SearchPlan:
        candidates.refuse_large_epsilon(self.epsilon)
        epsilon, delta = self._search_budget()
        return plan_search(
            n_candidates,
            epsilon,
            delta,
            kind=kind,
            method=self.method,
            coverage=self.coverage,
            n_draws=n_draws,
            n_statistics=n_statistics,
            permute_and_flip=table_of(self._scoring()) is None,
        )

    def _is_foreseen(self, grid, plan, task) -> bool:
        """Whether all is composed, and costs what is planned."""
        if plan.method == "repeat":
            return False  # its theorem states epsilon and delta alone
        n_records = None
        if self.neighboring == "replace_one":
            n_records = surely(task.n_rows, 1.0 - self.holdout_size)
        told = self.estimator, grid, plan.fit, task.public, n_records
        return candidates.are_foreseen(*told)

    def _open_wall(self, task: Task, noise, plan, again) -> PrivacyFilter:
        """The total, as composed where that is foreseen: calibration spends it all."""
        scores = Release(
            Scores.name, "gaussian", np.inf, task.statistic.size, times=_MOST_RUNS
        )
        choice = Release(_CHOICE, "selection", np.inf, 1)
        total = (DeclaredEvent(self.epsilon, self.delta),)
        if plan is not None:
            events = cost_of_search(plan, task.statistic.size)
            if again is not None:
                events += cost_of_fits(again, 1)
            total = total_of(events, self.epsilon, self.delta)
        lines = [Combined(_WHAT, total, (scores, choice), _THEOREM)]
        assumed = enough_rows(self.neighboring, self.holdout_size)
        facts = (*task.assumptions, *assumed)
        return open_wall(self, lines, facts=facts, noise=noise)

    def _best_of_a_random_number(self, grid, task, train, test, plan, wall):
        """Repeat and select: candidates are drawn with replacement."""
        best, winner = None, None
        for _ in range(plan.distribution.quantile(wall.uniform())):
            params = grid[int(wall.integers(len(grid), 1)[0])]
            model, guarantee = task.run(
                self.estimator, params, train, plan.fit, wall.noise
            )
            key = self._key(task, model, test, plan, wall)
            if best is None or key > best:
                best, winner = key, (model, params, guarantee)
        return unless_it_failed(winner, _WINNER)

    def _best_of_all(self, grid, task, train, test, plan, wall):
        """Fit every candidate once; compose the fits and select privately."""
        runs, scores, noisy = [], [], plan.score_mu is not None
        for params in grid:
            model, guarantee = task.run(
                self.estimator, params, train, plan.fit, wall.noise
            )
            runs.append((model, params, guarantee))
            if noisy:
                scores.append(self._key(task, model, test, plan, wall))
            else:
                scores.append(0.0 if model is None else _utility(task, model, test))
        if noisy:
            chosen = max(range(len(scores)), key=scores.__getitem__)
        else:
            share = plan.selection_epsilon
            chosen = wall.choose(scores, 1.0, name=_CHOICE, parameter=share)
        return unless_it_failed(runs[chosen], _WINNER)

    def _key(self, task, model, rows, plan, wall) -> tuple:
        """Place of a run in the order: failed runs last, ties by lot."""
        place = ()
        if model is not None:
            reading = task.release(model, rows, plan.score_mu, wall)
            place = ranking(self._scoring(), reading)
        return (model is not None, place, int(wall.noise.public().uint64(1)[0]))

    def _refit(self, task, params, noise, share):
        """Fit the winner again, on all rows, with what was kept for it."""
        rows = np.arange(task.n_rows)
        try:
            fitted = task.run(self.estimator, params, rows, share, noise)
        except candidates.OtherCost:
            candidates.refuse_unforeseen(True)
        return unless_it_failed(fitted, _WINNER)

    def _refit_budget(self) -> FitShare:
        epsilon = self.epsilon * self.refit_fraction
        delta = self.delta * self.refit_fraction
        return FitShare("approximate", epsilon, delta, np.inf, 0)

    def _refit_share(self, grid, task, n_draws) -> FitShare:
        """What the winner's second fit may cost, whichever candidate wins."""
        n_records = task.n_rows if self.neighboring == "replace_one" else None
        told = self.estimator, grid, self._refit_budget(), task.public, n_records
        return candidates.foreseen_share(*told, n_draws)

    @property
    def classes_(self):
        """Class labels of the winner."""
        _estimator_has("classes_")(self)
        return self.best_estimator_.classes_

    def _told_range(self) -> tuple[float, float] | None:
        ours = type(self) in (DPGridSearchCV, DPRandomizedSearchCV)
        return told_range(self.best_estimator_) if ours else None

    def _call(self, method: str, X, *args, sensitive_features=None, **keywords):
        self = as_it_is(self)
        self._check_is_fitted()
        X = as_table(self, X)
        validate_data(self, X, skip_check_array=True, reset=False)
        model = self.best_estimator_
        groups = candidates.read_groups(self, model, X, sensitive_features)
        keywords |= candidates.groups_for(model, method, groups.given)
        return ask_wrapped(model, method, groups.X, *args, private=False, **keywords)

    @available_if(_estimator_has("predict"))
    def predict(self, X, *, sensitive_features=None):
        """Predict by the winner.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group labels, if the winner takes them in the call.

        Returns
        -------
        y_pred : ndarray of shape (n_samples,)
        """
        return self._call("predict", X, sensitive_features=sensitive_features)

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X, *, sensitive_features=None):
        """Predict class probabilities by the winner.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group labels, if the winner takes them in the call.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self._call("predict_proba", X, sensitive_features=sensitive_features)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X, *, sensitive_features=None):
        """Return the decision scores of the winner.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group labels, if the winner takes them in the call.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._call("decision_function", X, sensitive_features=sensitive_features)

    @available_if(_estimator_has("score"))
    def score(self, X, y=None, sample_weight=None, *, sensitive_features=None):
        """Score the winner by its own `score`; not private where X and y are not.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows, one for each person.
        y : array-like of shape (n_samples,), default=None
            Target of each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, if the winner's own `score` takes weights.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, k), \
                default=None
            Group labels, if the winner takes them in the call.

        Returns
        -------
        score : float
        """
        if get_tags(self.estimator).target_tags.required:
            check_given(self, y)
        if y is not None:
            same_length(X, y)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self._call(
            "score", X, y, sensitive_features=sensitive_features, **weights
        )

    def get_metadata_routing(self) -> Any:
        """Metadata routing: sensitive features for itself, the rest as asked for.

        Returns
        -------
        routing : MetadataRouter
        """
        mapping = MethodMapping()
        for callee in ("fit", "predict", "predict_proba"):
            mapping.add(caller="fit", callee=callee)
        for method in ("predict", "predict_proba", "decision_function"):
            mapping.add(caller=method, callee=method)
        mapping.add(caller="score", callee="predict")
        return router_of(self, mapping)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if not hasattr(self.estimator, "__sklearn_tags__"):
            return tags  # its fit says what is wrong
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.input_tags = inner.input_tags
        tags.target_tags = inner.target_tags
        return tags


def _warn_of_many_runs(plan: SearchPlan) -> None:
    """Warn of a coverage for which a search would fit candidates over and over."""
    if plan.method == "repeat" and plan.expected_runs > _MANY * plan.n_candidates:
        warn_caller(
            f"For this coverage the search fits {plan.expected_runs:,.0f} models on "
            f"average, of {plan.n_candidates} candidates: lower coverage, or use "
            "method='compose', which fits each once.",
            UserWarning,
        )


def _utility(task: Task, model, rows: np.ndarray) -> float:
    """Sum of the scores of the rows, each in [0, 1]."""
    # The statistic counts from -1/2; half a row each puts the zero back.
    return float(task.query(model, rows)[0]) + len(rows) / 2.0


class DPGridSearchCV(_PrivateSearch):
    r"""Choose parameters from a grid under one privacy budget.

    .. math:: \hat\theta \approx \arg\max_{\theta \in \Theta}
        \sum_{i \in \text{holdout}} s(y_i, f_\theta(x_i)),
        \qquad f_\theta \text{ fitted on the other rows}

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y, group), fits, scores and the choice
    together. One independent draw per record sends it to the training rows or to the
    holdout; a record costs the larger one of the two. "repeat" runs a random number of
    candidates, drawn with replacement from the public list, each fitted on the
    training rows and scored on the holdout with Gaussian noise, and keeps the best
    [1]_: only the winner leaves, and the number of runs stays secret. "compose" fits
    every candidate once, composes the fits, and chooses by permute-and-flip [2]_, or,
    where a disparity counts, by noisy tables. Neither the losers nor the scores nor the
    number of runs are stored, and no warning or numeric error of a fit is shown. The
    running time shows the number of runs to whoever measures it: then use "compose".
    Public: all arguments; the number of rows under replace-one.

    Parameters
    ----------
    {estimator}
    param_grid : dict or list of dict
        Parameters and their values, as in scikit-learn; the public list. An epsilon in
        it is an upper limit: the search lowers it to what one fit may cost.
    {scoring}
    {epsilon}
    {delta}
    {method}
    {coverage}
    {holdout_size}
    {refit}
    {refit_fraction}
    {classes}
    {target_bounds}
    {neighboring}
    {sensitive_features}
    {groups}
    {ledger}
    {random_state}

    Attributes
    ----------
    best_estimator_ : estimator
        The winner. Its own `privacy_` speaks of its fit alone, and is conditional on
        the choice: that is private too, and paid for by the search.
    best_params_ : dict
        Its parameters, as the list has them: what the search sets itself is set aside.
    privacy_ : PrivacyGuarantee
        What the whole search cost.
    plan_ : SearchPlan
        How the budget was shared out: public numbers.
    classes_ : ndarray of shape (n_classes,)
        Only if the winner has them.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of `X`, if `fit` saw a DataFrame with string names.

    Raises
    ------
    ValueError
        If the candidates are not private as a whole, sensitive features are needed and
        not given, or an argument is out of range.
    RuntimeError
        If the chosen candidate could not be fitted.
    BudgetExceededError
        If the ledger has not enough left.

    Warns
    -----
    PrivacyLeakWarning
        If a public fact is taken from the data.
    UserWarning
        If candidates differ only in an epsilon above what one fit may cost, or
        `coverage` asks for more than a hundred fits of each on average.

    See Also
    --------
    DPRandomizedSearchCV : The list drawn from distributions.
    dp_cross_validate : The quality of one configuration.

    Notes
    -----
    There is no `cv_results_`: each line of it would have to be paid for. Of several
    private steps in a pipeline each gets its part of a fit's budget; a step inside
    another one works on other rows and gets the same.

    References
    ----------
    .. [1] N. Papernot, T. Steinke. "Hyperparameter Tuning with Renyi Differential
       Privacy". ICLR 2022. The cost is that of the guide's theorem, about two thirds.
    .. [2] R. McKenna, D. Sheldon. "Permute-and-Flip: A New Mechanism for
       Differentially Private Selection". NeurIPS 2020.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_biased_mixture
    >>> from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
    >>> from fairpriv_sklearn.model_selection import DPGridSearchCV
    >>> X, y, group = make_biased_mixture(4000, n_classes=2, random_state=0)
    >>> model = DPWassersteinLogisticRegression(
    ...     bounds=(-4, 4), classes=[0, 1], groups=[-1, 1]
    ... )
    >>> search = DPGridSearchCV(
    ...     model, {"fairness_weight": [0.0, 0.5, 0.9]}, epsilon=3.0, random_state=0
    ... )
    >>> search = search.fit(X, y, sensitive_features=group)
    >>> sorted(search.best_params_), round(search.privacy_.epsilon, 6)
    (['fairness_weight'], 3.0)
    """

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        scoring=None,
        epsilon=1.0,
        delta=1e-5,
        method="auto",
        coverage=0.8,
        holdout_size=0.2,
        refit=False,
        refit_fraction=0.5,
        classes=None,
        target_bounds=None,
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.coverage = coverage
        self.holdout_size = holdout_size
        self.refit = refit
        self.refit_fraction = refit_fraction
        self.classes = classes
        self.target_bounds = target_bounds
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state

    _parameter_constraints: dict = {
        **_PrivateSearch._parameter_constraints,
        "param_grid": [dict, list],
    }

    def _candidates(self, noise: NoiseSource) -> list[dict]:
        try:
            candidates = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError) as error:
            raise type(error)(f"param_grid: {error}") from None
        if not candidates:
            raise ValueError(
                "param_grid has no candidates; [{}] is the estimator alone."
            )
        return candidates


class DPRandomizedSearchCV(_PrivateSearch):
    r"""Choose parameters from a random list under one privacy budget.

    As `DPGridSearchCV`, with a list of candidates drawn from distributions before the
    data are looked at:

    .. math:: \hat\theta \approx \arg\max_{\theta \in \{\theta_1, \dots, \theta_n\}}
        \sum_{i \in \text{holdout}} s(y_i, f_\theta(x_i)),
        \qquad \theta_j \sim \Theta

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y, group), fits, scores and the choice
    together. One independent draw per record sends it to the training rows or to the
    holdout; a record costs the larger one of the two. "repeat" runs a random number of
    candidates, drawn with replacement from the public list, each fitted on the
    training rows and scored on the holdout with Gaussian noise, and keeps the best
    [1]_: only the winner leaves, and the number of runs stays secret. "compose" fits
    every candidate once, composes the fits, and chooses by permute-and-flip [2]_, or,
    where a disparity counts, by noisy tables. Neither the losers nor the scores nor the
    number of runs are stored, and no warning or numeric error of a fit is shown. The
    running time shows the number of runs to whoever measures it: then use "compose".
    Public: all arguments; the number of rows under replace-one.

    Parameters
    ----------
    {estimator}
    param_distributions : dict or list of dict
        Parameters and their lists or distributions, as in scikit-learn.
    n_iter : int, default=10
        Number of candidates. Range: [1, inf).
    {scoring}
    {epsilon}
    {delta}
    {method}
    {coverage}
    {holdout_size}
    {refit}
    {refit_fraction}
    {classes}
    {target_bounds}
    {neighboring}
    {sensitive_features}
    {groups}
    {ledger}
    {random_state}

    Attributes
    ----------
    best_estimator_ : estimator
        The winner. Its own `privacy_` speaks of its fit alone, and is conditional on
        the choice: that is private too, and paid for by the search.
    best_params_ : dict
        Its parameters, as the list has them: what the search sets itself is set aside.
    privacy_ : PrivacyGuarantee
        What the whole search cost.
    plan_ : SearchPlan
        How the budget was shared out: public numbers.
    classes_ : ndarray of shape (n_classes,)
        Only if the winner has them.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of `X`, if `fit` saw a DataFrame with string names.

    Raises
    ------
    ValueError
        If the candidates are not private as a whole, sensitive features are needed and
        not given, or an argument is out of range.
    RuntimeError
        If the chosen candidate could not be fitted.
    BudgetExceededError
        If the ledger has not enough left.

    Warns
    -----
    PrivacyLeakWarning
        If a public fact is taken from the data.
    UserWarning
        If candidates differ only in an epsilon above what one fit may cost, or
        `coverage` asks for more than a hundred fits of each on average.

    See Also
    --------
    DPGridSearchCV : All combinations of a grid.
    dp_cross_validate : The quality of one configuration.

    Notes
    -----
    There is no `cv_results_`: each line of it would have to be paid for. Of several
    private steps in a pipeline each gets its part of a fit's budget; a step inside
    another one works on other rows and gets the same.

    References
    ----------
    .. [1] N. Papernot, T. Steinke. "Hyperparameter Tuning with Renyi Differential
       Privacy". ICLR 2022. The cost is that of the guide's theorem, about two thirds.
    .. [2] R. McKenna, D. Sheldon. "Permute-and-Flip: A New Mechanism for
       Differentially Private Selection". NeurIPS 2020.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_biased_mixture
    >>> from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
    >>> from fairpriv_sklearn.model_selection import DPRandomizedSearchCV
    >>> X, y, group = make_biased_mixture(4000, n_classes=2, random_state=0)
    >>> model = DPWassersteinLogisticRegression(
    ...     bounds=(-4, 4), classes=[0, 1], groups=[-1, 1]
    ... )
    >>> search = DPRandomizedSearchCV(
    ...     model,
    ...     {"fairness_weight": [0.0, 0.5, 0.9]},
    ...     n_iter=3,
    ...     epsilon=3.0,
    ...     random_state=0,
    ... )
    >>> search = search.fit(X, y, sensitive_features=group)
    >>> sorted(search.best_params_), round(search.privacy_.epsilon, 6)
    (['fairness_weight'], 3.0)
    """

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        n_iter=10,
        scoring=None,
        epsilon=1.0,
        delta=1e-5,
        method="auto",
        coverage=0.8,
        holdout_size=0.2,
        refit=False,
        refit_fraction=0.5,
        classes=None,
        target_bounds=None,
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.scoring = scoring
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.coverage = coverage
        self.holdout_size = holdout_size
        self.refit = refit
        self.refit_fraction = refit_fraction
        self.classes = classes
        self.target_bounds = target_bounds
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state

    _parameter_constraints: dict = {
        **_PrivateSearch._parameter_constraints,
        "param_distributions": [dict, list],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def _candidates(self, noise: NoiseSource) -> list[dict]:
        # Drawn before the data are looked at: the list is public.
        seed = candidates.seed_of(noise.public())
        return list(
            ParameterSampler(self.param_distributions, self.n_iter, random_state=seed)
        )
