"""What to expect of a budget before it is spent: a rehearsal on made-up people."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtri, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator

from .._shared.arguments import checked, count, each, number, seed
from .._shared.callers import hushed
from .._shared.sensitivity import counts_l1, counts_l2
from .._wall import DiscreteLaplaceMechanism, PublicDraws, noise_source
from ..metrics import (
    demographic_parity_difference,
    equalized_odds_difference,
    ks_parity_difference,
)
from ..postprocessing import (
    DP2DPClassifier,
    DPBarycenterRegressor,
    DPBarycenterTransformer,
    bin_scores,
)
from ._candidates import seed_of

# Rows per group on which a rehearsed rule is judged: like a whole population.
_POPULATION = 10_000


@dataclass(frozen=True)
class ExpectedError:
    """What a fit is expected to do at its budget; computed from public numbers.

    Parameters
    ----------
    violation : float
        Expected disparity of the fitted model in the population: the largest KS
        distance between groups, the demographic parity difference, or the equalized
        odds difference.
    violation_without_noise : float
        The same if the fit added no noise: what sampling and the method itself leave.
    error : float
        Expected KS error of the group distributions, mean over the groups (barycenter
        estimators), or expected loss of accuracy against the fit without noise.
    worst_error : float
        The same for the worst group; equal to `error` for a classifier.
    noise_scale : float
        Standard deviation of the noise of one released number, in records.
    """

    violation: float
    violation_without_noise: float
    error: float
    worst_error: float
    noise_scale: float


@checked(
    group_sizes=each(count(0)),
    n_repeats=count(1),
    model_strength=number(0, 1e3),
    group_strength=number(0, 1),
    random_state=seed,
)
def expected_error(
    estimator,
    *,
    group_sizes,
    n_repeats=10,
    model_strength=1.0,
    group_strength=0.5,
    random_state=0,
):
    r"""Predict what the noise of a budget will do, without looking at any data.

    The estimator is fitted to made-up people whose number and groups are given, with
    and without noise, `n_repeats` times. What it then does wrong in a large made-up
    population is the prediction: the noise of counts, and with it

    .. math:: \text{KS error} \sim \frac{\sigma}{n_a} \sqrt{\text{number of bins}},

    hardly depends on what the real scores look like, unless they crowd in one bin or
    repeat: what is left then a continuous repair says after its fit
    (`within_bin_error_`, `repair_notes_`).

    .. rubric:: Privacy

    Free: only public numbers go in. If the group sizes are not public, plan with sizes
    that are known from elsewhere, or with noisy ones.

    Parameters
    ----------
    estimator : DPBarycenterRegressor, DPBarycenterTransformer or DP2DPClassifier
        Not fitted. Its own phase is rehearsed; a wrapped model is taken as given.
    group_sizes : list of int
        Number of people of each group in the table for `fit`.
    n_repeats : int, default=10
        Number of rehearsals.
    model_strength : float, default=1.0
        Distance between the classes in the made-up scores of a classifier, in standard
        deviations. Range: [0, 1000].
    group_strength : float, default=0.5
        Of a blind repair: what its model is assumed to tell about the groups, as a
        blind classifier's `group_strength_` says it after a fit. Range: [0, 1].
    random_state : int, RandomState instance or None, default=0
        Of the made-up people and their noise.

    Returns
    -------
    expected : ExpectedError
        Means over the rehearsals.

    Raises
    ------
    TypeError
        If the estimator is of another kind.
    ValueError
        If fewer than two groups are given.

    See Also
    --------
    DPGridSearchCV.plan : How a search shares out its budget.

    Notes
    -----
    The made-up scores are bell-shaped, with means that differ between groups; the
    made-up classes are Gaussian mixtures with true probabilities as scores. Against
    other simulated data the predictions were within a factor of 1.5.

    Examples
    --------
    >>> from fairpriv_sklearn.model_selection import expected_error
    >>> from fairpriv_sklearn.postprocessing import DPBarycenterTransformer
    >>> repair = DPBarycenterTransformer(epsilon=0.5, bounds=(0, 1), n_bins=36)
    >>> tiny = expected_error(repair, group_sizes=[900, 100], n_repeats=3)
    >>> large = expected_error(repair, group_sizes=[9000, 1000], n_repeats=3)
    >>> tiny.error > large.error
    True
    """
    if len(group_sizes) < 2:
        raise ValueError("group_sizes must list at least two sizes.")
    if isinstance(estimator, DP2DPClassifier):
        rehearse = partial(_rehearse_classifier, model_strength=model_strength)
    elif isinstance(estimator, DPBarycenterRegressor | DPBarycenterTransformer):
        rehearse = _rehearse_barycenter
    else:
        raise TypeError(
            "estimator: expected_error knows DPBarycenterRegressor, "
            "DPBarycenterTransformer and DP2DPClassifier, got "
            f"{type(estimator).__name__}."
        )
    known = {"group_strength": group_strength}
    public = noise_source(random_state).public()
    sizes = _calibration_sizes(estimator, group_sizes)
    if not sum(sizes):
        raise ValueError("group_sizes must list at least one person to calibrate on.")
    with hushed():  # of groups that are made up
        results = [
            rehearse(estimator, sizes, public, **known) for _ in range(n_repeats)
        ]
    return ExpectedError(*np.mean(results, axis=0).tolist())


def _calibration_sizes(estimator, sizes: list[int]) -> list[int]:
    """Group sizes in the phase that adds the noise."""
    models = [estimator.estimator] if hasattr(estimator, "estimator") else []
    models += [estimator.group_estimator] if estimator.blind else []
    frozen = all(isinstance(model, FrozenEstimator) for model in models)
    if frozen or estimator.calibration_size == "all":
        return sizes
    return [round(size * estimator.calibration_size) for size in sizes]


def _rehearse_barycenter(estimator, sizes, public: PublicDraws, *, group_strength):
    named = getattr(estimator, estimator._bounds_name)
    # One column is rehearsed, the first.
    bounds = (0.0, 1.0) if named is None else tuple(np.ravel(end)[0] for end in named)
    made_up = _settings(sizes, public)
    shares, kind = None, partial(DPBarycenterTransformer, bounds=bounds)
    if estimator.blind:
        shares = partial(_told_shares, sizes, _separation(group_strength), public)
        guess = FrozenEstimator(_Given(len(sizes), first=1).fit(None))
        model = FrozenEstimator(_Given().fit(None))
        public_facts = {"base_guarantee": "public", "target_bounds": bounds}
        kind = partial(DPBarycenterRegressor, model, **public_facts)
        made_up |= {"group_estimator": guess, "group_guarantee": "public"}
    noisy = kind()
    # Nobody fits a model here.
    left_out = {"estimator", "calibration_size", "group_size", *kind.keywords}
    names = set(noisy.get_params(deep=False)) - left_out
    given = estimator.get_params(deep=False) | made_up
    noisy.set_params(**{k: v for k, v in given.items() if k in names})
    X, codes = _bell_shaped(sizes, bounds, public, shares)
    everyone, groups = _bell_shaped([_POPULATION] * len(sizes), bounds, public, shares)
    noisy.fit(X, X[:, 0], sensitive_features=codes)
    # Default bins and estimate depend on epsilon: compare with the same ones.
    exact = clone(noisy).set_params(epsilon=np.inf, n_bins=noisy.n_bins_)
    if exact.estimation == "auto":
        exact.set_params(estimation="smooth")
    exact.fit(X, X[:, 0], sensitive_features=codes)
    violations = []
    for repair in (noisy, exact):
        if repair.blind:
            repaired = repair.predict(everyone)
        else:
            repaired = repair.transform(everyone, sensitive_features=groups).ravel()
        violations.append(
            ks_parity_difference(repaired, repaired, sensitive_features=groups)
        )
    errors = _ks_errors(noisy, X[:, 0], codes)
    scale = noisy._noise_variance**0.5
    return *violations, np.mean(errors), np.max(errors), scale


def _ks_errors(repair, scores, codes) -> list[float]:
    """KS distance of the estimated group distributions to the table's own."""
    n_bins, estimated = repair.n_bins_, repair._estimated_cdf()
    bins = bin_scores(repair._scales[0](scores), (0, 1), n_bins)
    errors = []
    for group in np.unique(codes):
        counts = np.bincount(bins[codes == group], minlength=n_bins)
        cdf = np.cumsum(counts) / counts.sum()
        errors.append(np.abs(estimated[group] - cdf).max())
    return errors


def _bell_shaped(sizes, bounds, public, shares=None):
    """Scores with means from 0.4 to 0.6 of the range, one mean per group.

    The first column of a table; `shares` of the codes are the others.
    """
    codes = np.repeat(np.arange(len(sizes)), sizes)
    a = np.linspace(4.0, 6.0, len(sizes))[codes]
    low, high = map(float, bounds)
    scores = low + (high - low) * betaincinv(a, 10 - a, public.uniform(len(codes)))
    others = [] if shares is None else [shares(codes)]
    return np.hstack([scores[:, None], *others]), codes


def _rehearse_classifier(
    estimator, sizes, public: PublicDraws, *, model_strength, group_strength
):
    n_classes = 2 if estimator.classes is None else len(estimator.classes)
    shared = _settings(sizes, public) | {
        "estimator": FrozenEstimator(_Given(n_classes).fit(None)),
        "classes": list(range(n_classes)),
        "base_guarantee": "public",
    }
    separation = 0.0
    if estimator.blind:
        separation = _separation(group_strength)
        guess = _Given(len(sizes), first=n_classes)
        shared["group_estimator"] = FrozenEstimator(guess.fit(None))
        shared["group_guarantee"] = "public"
    strengths = {"model": model_strength, "group": separation}
    X, y, codes = _mixture(sizes, n_classes, public, **strengths)
    everyone = _mixture([_POPULATION] * len(sizes), n_classes, public, **strengths)
    by_parity = estimator.constraint == "demographic_parity"
    metric = demographic_parity_difference if by_parity else equalized_odds_difference
    noisy = clone(estimator).set_params(**shared)
    exact = clone(noisy).set_params(epsilon=np.inf)
    violations, accuracies = [], []
    for model in (noisy, exact):
        model.fit(X, y, sensitive_features=codes)
        X_all, y_all, groups = everyone
        given = {} if estimator.blind else {"sensitive_features": groups}
        predicted = model.predict(X_all, **given)
        violations.append(metric(y_all, predicted, sensitive_features=groups))
        # Weighted as in the table, not as in the population.
        weights = np.array(sizes)[groups]
        accuracies.append(np.average(predicted == y_all, weights=weights))
    loss = max(0.0, accuracies[1] - accuracies[0])
    return *violations, loss, loss, _noise_scale(noisy)


def _noise_scale(classifier) -> float:
    (line, *_), _ = classifier._plan()
    if line.kind == "pure":
        sensitivity = counts_l1(classifier.neighboring)
        mechanism = DiscreteLaplaceMechanism(sensitivity, line.parameter)
        return mechanism.variance**0.5
    return counts_l2(classifier.neighboring) / line.parameter


def _separation(strength: float) -> float:
    """Distance of the groups at which true shares explain this part of their variance.

    For two equal groups with one Gaussian coordinate each.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    strength = min(strength, 1 - 1e-9)  # all: no distance tells quite that

    def missing(distance):
        odds = distance**2 + np.sqrt(2) * distance * points
        return weights @ np.tanh(odds / 2) ** 2 - strength

    return brentq(missing, 0.0, 20.0)


def _mixture(sizes, n_classes: int, public: PublicDraws, *, model, group):
    """True class probabilities, classes and groups; classes depend on the group.

    One Gaussian coordinate per class, its mean `model` higher for that class. With
    `group`, the true shares of the groups given one coordinate per group stand behind
    the class probabilities.
    """
    codes = np.repeat(np.arange(len(sizes)), sizes)
    tilt = np.linspace(-0.5, 0.5, len(sizes))[:, None]
    log_p = tilt * np.linspace(-1.0, 1.0, n_classes) * 0.8
    distribution = np.exp(log_p) / np.exp(log_p).sum(axis=1, keepdims=True)
    u = public.uniform(len(codes))[:, None]
    y = (u > distribution.cumsum(axis=1)[codes, :-1]).sum(axis=1)
    x = ndtri(public.uniform((len(codes), n_classes)))
    x[np.arange(len(codes)), y] += model
    p = softmax(model * x + np.log(distribution[codes]), axis=1)
    if group:
        p = np.hstack([p, _told_shares(sizes, group, public, codes)])
    return p, y, codes


def _told_shares(sizes, separation, public: PublicDraws, codes):
    """True shares of the groups given one Gaussian coordinate for each."""
    z = ndtri(public.uniform((len(codes), len(sizes))))
    z[np.arange(len(codes)), codes] += separation
    shares = np.maximum(sizes, 1) / np.sum(sizes)
    return softmax(separation * z + np.log(shares), axis=1)


class _Given(BaseEstimator):
    """Takes its rows as class probabilities, or their first column as scores.

    It serves as a classifier and as a regressor, so it says nothing of its kind.
    """

    def __init__(self, n_classes=2, first=0):
        self.n_classes = n_classes
        self.first = first

    def fit(self, X, y=None):
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X):
        return np.asarray(X)[:, self.first : self.first + self.n_classes]

    def predict(self, X):
        return np.asarray(X)[:, 0]


def _settings(sizes, public: PublicDraws) -> dict:
    return {
        "groups": list(range(len(sizes))),
        "sensitive_features": None,
        "ledger": None,
        "random_state": seed_of(public),
    }
