"""Noisy group rates with confidence intervals: what an auditor may publish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr
from sklearn.utils.validation import column_or_1d

from fairpriv_sklearn._base import public_fact
from fairpriv_sklearn._groups import (
    POOLED,
    encode_against,
    label_list,
    public_groups,
)
from fairpriv_sklearn.accounting import (
    PureEvent,
)
from fairpriv_sklearn.mechanisms import DiscreteLaplaceMechanism, noise_source
from fairpriv_sklearn.privacy import PrivacyGuarantee


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Noisy prediction rates per group; everything in it may be published.

    With ``criterion="demographic_parity"`` a row is a group; with
    ``criterion="equalized_odds"`` a row is a pair of group and true class.

    Parameters
    ----------
    groups : list
        Public list of groups, the first axis of the arrays.
    classes : list
        Public list of classes, the last axis of the arrays, and in between for
        ``"equalized_odds"`` the axis of true classes.
    criterion : str
        ``"demographic_parity"`` or ``"equalized_odds"``.
    counts : ndarray of shape (n_groups, [n_classes,] n_classes), int64
        Released counts, noise included; they can be negative.
    rates : ndarray of shape (n_groups, [n_classes,] n_classes)
        Estimated share of each predicted class within its row. NaN where the noise
        leaves no positive row total.
    rate_intervals : ndarray of shape (n_groups, [n_classes,] n_classes, 2)
        One confidence interval for each rate, noise and sampling error included.
    disparity : float
        Estimate of the demographic parity (equalized odds) difference; NaN if fewer
        than two groups can be compared. Noise makes it too large rather than too small.
    disparity_interval : tuple of float
        Confidence interval of the disparity.
    confidence_level : float
        Probability with which an interval covers the population's value.
    privacy_ : PrivacyGuarantee
        What the release cost.
    """

    groups: list
    classes: list
    criterion: str
    counts: np.ndarray
    rates: np.ndarray
    rate_intervals: np.ndarray
    disparity: float
    disparity_interval: tuple[float, float]
    confidence_level: float
    privacy_: PrivacyGuarantee


def dp_group_rates(
    y_true,
    y_pred,
    *,
    sensitive_features,
    groups,
    classes,
    epsilon,
    criterion="demographic_parity",
    neighboring="replace_one",
    confidence_level=0.95,
    ledger=None,
    random_state=None,
):
    r"""Release prediction rates per group, and their disparity, with noise.

    .. math::
        \tilde c_{a,k} = \#\{i : a_i = a, \hat y_i = k\} + Z_{a,k}, \qquad
        P(Z = z) \propto e^{-\epsilon |z| / \Delta}

    and, for ``criterion="equalized_odds"``, the same counts within each true class.

    .. rubric:: Privacy

    epsilon-DP for the records (true class, prediction, sensitive features): the
    predictions must come from a model that is public or was trained privately. A record
    is in one cell of the table, so the l1 sensitivity of the counts is
    :math:`\Delta = 2` when neighbours differ by replacing one record and 1 when they
    differ by adding or removing one; groups and group sizes are protected. The noise is
    exact discrete Laplace noise. Rates, disparity and intervals are computed from the
    noisy counts alone. Public: `groups`, `classes`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or None
        True classes. None is possible for ``criterion="demographic_parity"``, which
        does not use them.
    y_pred : array-like of shape (n_samples,)
        Predicted classes.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_attributes)
        One label per row, or several columns whose intersections are the groups.
    groups : list
        Public list of groups; tuples for intersections. Groups without rows are legal.
    classes : list
        Public list of at least two classes. Classes without rows are legal.
    epsilon : float
        Privacy budget, in (0, inf]; ``inf`` adds no noise.
    criterion : {"demographic_parity", "equalized_odds"}, default="demographic_parity"
        Which rates: of predictions in each group, or in each group and true class.
    neighboring : {"replace_one", "add_remove"}, default="replace_one"
        Which tables are neighbours.
    confidence_level : float, default=0.95
        In (0, 1).
    ledger : PrivacyLedger or None, default=None
        Budget that pays for the release before the data are counted.
    random_state : int, RandomState instance, Generator or None, default=None
        None draws the noise from the operating system. Anything else is reproducible
        and therefore not private; the receipt says so.

    Returns
    -------
    result : GroupRates
        Noisy counts, rates, disparity, intervals and the receipt `privacy_`.

    Raises
    ------
    ValueError
        If the lengths differ or a value is missing or outside the public lists.

    See Also
    --------
    demographic_parity_difference : The same disparity without noise, not private.
    equalized_odds_difference : The same disparity without noise, not private.

    Notes
    -----
    The intervals are for the rates of the population from which the rows were drawn.
    For a rate :math:`r` with noisy count :math:`\tilde c` and noisy row total
    :math:`\tilde n`, the statistic :math:`\tilde c - r \tilde n` has mean zero,
    sampling variance :math:`n r (1 - r)`, and noise of variance
    :math:`v ((1 - r)^2 + (K - 1) r^2)`, with :math:`v` the variance of one draw. The
    interval holds every :math:`r` that a test based on the sum of a Gaussian and a
    Laplace variable with these two variances does not reject, as in Wilson's and
    Fieller's intervals. It stays honest for groups so small that the noise hides them:
    it is then all of [0, 1]. Intervals of single rates hold one by one. The interval of
    the disparity holds for all pairs of groups and all classes at once (Bonferroni) and
    combines the intervals of two rates into one of their difference [1]_.

    References
    ----------
    .. [1] R. G. Newcombe, "Interval estimation for the difference between independent
       proportions: comparison of eleven methods", Statistics in Medicine 17, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.metrics import dp_group_rates
    >>> y_pred = np.repeat([1, 0, 1, 0], [300, 700, 500, 500])
    >>> sex = np.repeat(["f", "m"], 1000)
    >>> result = dp_group_rates(
    ...     None,
    ...     y_pred,
    ...     sensitive_features=sex,
    ...     groups=["f", "m"],
    ...     classes=[0, 1],
    ...     epsilon=1.0,
    ...     random_state=0,
    ... )
    >>> low, high = result.disparity_interval
    >>> bool(low < 0.2 < high)
    True
    """
    groups, classes = public_groups(groups), _public_classes(classes)
    _check_options(criterion, neighboring, confidence_level)
    by_truth = criterion == "equalized_odds"
    mechanism = DiscreteLaplaceMechanism(
        sensitivity=2 if neighboring == "replace_one" else 1, epsilon=epsilon
    )
    noise = noise_source(random_state)
    cells, shape = _cells(y_true, y_pred, sensitive_features, groups, classes, by_truth)
    guarantee = PrivacyGuarantee.from_events(
        [PureEvent(mechanism.epsilon_spent)],
        delta=0.0,
        neighboring=neighboring,
        mechanism="discrete Laplace noise on the counts of predictions per group",
        assumptions=(
            public_fact("groups", groups, from_data=False),
            public_fact("classes", classes, from_data=False),
            "the model behind y_pred is public or accounted for on its own, and each "
            "prediction depends on its own record only",
        ),
        noise_is_secure=noise.is_secure,
    )
    if ledger is not None:
        ledger.spend(guarantee, label="dp_group_rates")

    counts = np.bincount(cells, minlength=np.prod(shape)).astype(np.int64)
    counts = mechanism.release(counts.reshape(shape), noise)
    alpha = 1.0 - confidence_level
    rates, low, high = _rate_intervals(counts, mechanism.variance, alpha)
    disparity, disparity_interval = _disparity(counts, mechanism.variance, alpha)
    return GroupRates(
        groups=groups,
        classes=classes,
        criterion=criterion,
        counts=counts,
        rates=rates,
        rate_intervals=np.stack([low, high], axis=-1),
        disparity=disparity,
        disparity_interval=disparity_interval,
        confidence_level=confidence_level,
        privacy_=guarantee,
    )


def _public_classes(classes) -> list:
    classes = np.asarray(classes).tolist()
    if len(set(classes)) != len(classes) or len(classes) < 2:
        raise ValueError(
            f"classes must list at least two different classes, got {classes!r}."
        )
    return classes


def _check_options(criterion, neighboring, confidence_level):
    if criterion not in ("demographic_parity", "equalized_odds"):
        raise ValueError(
            "criterion must be 'demographic_parity' or 'equalized_odds', got "
            f"{criterion!r}."
        )
    if neighboring not in ("replace_one", "add_remove"):
        raise ValueError(
            f"neighboring must be 'replace_one' or 'add_remove', got {neighboring!r}."
        )
    if not 0.0 < confidence_level < 1.0:
        raise ValueError(f"confidence_level must be in (0, 1), got {confidence_level}.")


def _cells(y_true, y_pred, sensitive_features, groups, classes, by_truth):
    """Position of every record in the flattened table of counts, and its shape."""
    labels = label_list(sensitive_features)
    codes = encode_against(labels, groups)
    columns = {"sensitive_features": codes, "y_pred": _class_codes(y_pred, classes)}
    if by_truth:
        if y_true is None:
            raise ValueError("criterion='equalized_odds' needs y_true.")
        columns["y_true"] = _class_codes(y_true, classes)
    if len({len(column) for column in columns.values()}) > 1:
        sizes = {name: len(column) for name, column in columns.items()}
        raise ValueError(f"The numbers of rows differ: {sizes}.")
    for name, column in columns.items():
        if (column == POOLED).any():
            public = "groups" if name == "sensitive_features" else "classes"
            raise ValueError(f"{name} has a label that is not in the list {public}.")
    n_classes = len(classes)
    if by_truth:
        codes = codes * n_classes + columns["y_true"]
    shape = (len(groups),) + (n_classes,) * (2 if by_truth else 1)
    return codes * n_classes + columns["y_pred"], shape


def _class_codes(y, classes: list) -> np.ndarray:
    y = column_or_1d(np.asarray(y))
    return encode_against(y.tolist(), classes)


def _rate_intervals(counts: np.ndarray, variance: float, alpha: float):
    """Estimate and interval of each entry's share in its row (the last axis).

    Solves `p(r) = alpha` on both sides of the estimate, where `p(r)` is the
    probability, if the rate is `r`, of a statistic as far from zero as the one seen.
    """
    n_classes = counts.shape[-1]
    total = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    seen = total > 0
    rate = np.clip(counts / np.where(seen, total, 1), 0.0, 1.0)

    def accepts(r):
        sampling = np.maximum(total, 1) * r * (1 - r)
        noise = variance * ((1 - r) ** 2 + (n_classes - 1) * r**2)
        return _tail(np.abs(counts - r * total), sampling, noise) >= alpha

    ends = np.stack([np.zeros(counts.shape), np.ones(counts.shape)])
    inside, outside = np.stack([rate, rate]), ends
    reached = accepts(ends) | ~seen
    for _ in range(45):  # bisection to 3e-14
        middle = (inside + outside) / 2
        good = accepts(middle)
        inside = np.where(good, middle, inside)
        outside = np.where(good, outside, middle)
    low, high = np.where(reached, ends, outside)
    return np.where(seen, rate, np.nan), low, high


def _tail(t: np.ndarray, gaussian: np.ndarray, laplace: np.ndarray) -> np.ndarray:
    """P(|G + L| >= t) for a Gaussian and a Laplace variable of the given variances.

    One Laplace variable stands for a weighted sum of several of the same total
    variance: its tails are the heavier ones at the levels of use.
    """
    tiny = 1e-12
    sigma = np.sqrt(np.maximum(gaussian, tiny))
    scale = np.where(laplace > tiny, np.sqrt(laplace / 2), sigma)
    ratio = sigma / scale
    # exp(ratio^2 / 2) overflows by itself; inside one exponential with log Phi it is
    # harmless (the exponents are at most 0)
    near = np.exp(ratio**2 / 2 - t / scale + log_ndtr(t / sigma - ratio))
    far = np.exp(ratio**2 / 2 + t / scale + log_ndtr(-t / sigma - ratio))
    mixed = 2 * ndtr(-t / sigma) + near - far
    return np.where(laplace > tiny, mixed, 2 * ndtr(-t / sigma))


def _disparity(counts: np.ndarray, variance: float, alpha: float):
    """Largest difference between two groups in one rate, with its interval."""
    n_groups, n_classes = counts.shape[0], counts.shape[-1]
    a, b = np.triu_indices(n_groups, k=1)
    # The two rates of a row add up to one, so one of them decides for two classes
    n_rates = np.prod(counts.shape[1:]) // (2 if n_classes == 2 else 1)
    rate, low, high = _rate_intervals(counts, variance, alpha / (len(a) * n_rates))
    difference, below, above = _difference_interval(
        (rate[a], low[a], high[a]), (rate[b], low[b], high[b])
    )
    known = np.isfinite(difference)
    disparity = np.abs(difference[known]).max() if known.any() else np.nan
    low = np.maximum(0.0, np.maximum(below, -above)).max()
    high = np.maximum(np.abs(below), np.abs(above)).max()
    return float(disparity), (float(low), float(min(high, 1.0)))


def _difference_interval(first, second):
    """Interval of a difference of two rates from their two intervals [Newcombe]."""
    (rate_a, low_a, high_a), (rate_b, low_b, high_b) = first, second
    difference = rate_a - rate_b
    below = difference - np.hypot(rate_a - low_a, high_b - rate_b)
    above = difference + np.hypot(high_a - rate_a, rate_b - low_b)
    unknown = np.isnan(difference)  # a row without information: the whole range
    below = np.where(unknown, low_a - high_b, below)
    above = np.where(unknown, high_a - low_b, above)
    return difference, below, above
