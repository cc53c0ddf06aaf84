"""Noisy group rates with confidence intervals: what an auditor may publish."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.special import log_ndtr, ndtr
from sklearn.utils.validation import column_or_1d

from .._door.estimator import batched
from .._door.groups import POOLED, encode_groups, label_values, public_groups
from .._door.labels import positions_in
from .._shared.arguments import (
    checked,
    listed,
    number,
    one_of,
    public_labels,
    real,
    spender,
)
from .._shared.arrays import array_of_lists
from .._shared.domain import domain, refuse_dates
from .._shared.sensitivity import counts_l1
from .._wall import (
    CellCounts,
    DiscreteLaplaceMechanism,
    Fact,
    PrivacyFilter,
    PrivacyGuarantee,
    Release,
    noise_source,
    read_rows,
)

_THEOREM = "user_guide/audit:group_counts"
_TOO_WIDE = 0.5  # an interval that leaves out less than half of [0, 1] says nothing


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Noisy prediction rates per group; everything in it may be published.

    With ``constraint="demographic_parity"`` a row is a group; with
    ``constraint="equalized_odds"`` a row is a pair of group and true class.

    Parameters
    ----------
    groups : list
        Public list of groups, the first axis of the arrays.
    classes : list
        Public list of classes, the last axis of the arrays, and in between for
        ``"equalized_odds"`` the axis of true classes.
    constraint : str
        ``"demographic_parity"`` or ``"equalized_odds"``.
    counts : ndarray of shape (n_groups, [n_classes,] n_classes), int64
        Released counts, noise included; they can be negative.
    rates : ndarray of shape (n_groups, [n_classes,] n_classes)
        Estimated share of each predicted class within its row. NaN where the noise
        leaves no positive row total.
    rate_intervals : ndarray of shape (n_groups, [n_classes,] n_classes, 2)
        One confidence interval for each rate, noise and sampling error included.
    disparity : float
        Estimate of the demographic parity (equalized odds) difference, of all
        estimable rows, and no less than the interval says of the others too; NaN if
        fewer than two groups can be compared. Noise makes it too large rather than too
        small.
    disparity_interval : tuple of float
        Confidence interval of the disparity of all rows, estimable or not.
    confidence_level : float
        Probability with which an interval covers the population's value.
    privacy_ : PrivacyGuarantee
        What the release cost.
    estimable : ndarray of shape (n_groups, [n_classes]), bool
        Whether the intervals of a row are short enough to say anything, at most half
        of [0, 1]. Where not, say "not estimable" rather than a number.
    ratio : float
        Smallest over largest rate of the last class, of all estimable rows that can be
        compared, and no more than the interval says of the others too; NaN if there
        are none, and for regression.
    ratio_interval : tuple of float
        Confidence interval of the ratio of all rows, estimable or not.
    """

    groups: list
    classes: list
    constraint: str
    counts: np.ndarray
    rates: np.ndarray
    rate_intervals: np.ndarray
    disparity: float
    disparity_interval: tuple[float, float]
    confidence_level: float
    privacy_: PrivacyGuarantee
    estimable: np.ndarray
    ratio: float
    ratio_interval: tuple[float, float]

    def __str__(self) -> str:
        told = [f"{item}: {said}" for item, said in self.card_lines()]
        return "\n".join([*told, str(self.privacy_)])

    def card_lines(self) -> list[tuple[str, str]]:
        """Return what a deployment card says: items and sentences.

        Returns
        -------
        list of tuple of str
            The last class (for regression the mean bin) of each row, difference and
            ratio with intervals; "not estimable" where a number would mislead.
        """
        lines = []
        for row in np.ndindex(self.estimable.shape):
            name = str(self.groups[row[0]])
            if len(row) > 1:
                name += f", true class {self.classes[row[1]]}"
            lines.append((f"group {name}", self._row(row)))
        level = f"{self.confidence_level:.0%} interval"
        told = f"{self.disparity:.3f} ({level} {_range(self.disparity_interval)})"
        few = np.count_nonzero(self.estimable) < 2
        lines.append(("largest difference", "not estimable" if few else told))
        told = f"{self.ratio:.3f} ({level} {_range(self.ratio_interval)})"
        known = not few and np.isfinite(self.ratio)
        lines.append(("smallest ratio", told if known else "not estimable"))
        return lines

    def _row(self, row) -> str:
        total = max(int(self.counts[row].sum()), 0)
        if not self.estimable[row]:
            return f"not estimable (about {total} records, noise included)"
        interval = _range(self.rate_intervals[row][-1])
        return (
            f"{self.rates[row][-1]:.3f} in {self.classes[-1]} ({interval}) of about "
            f"{total} records, noise included"
        )


def _range(interval) -> str:
    """An interval in words, rounded outwards."""
    low, high = interval
    return f"{np.floor(low * 1e3) / 1e3:.3f} to {np.ceil(high * 1e3) / 1e3:.3f}"


@checked(
    {"criterion": "constraint"},
    epsilon=real,
    confidence_level=number(0, 1, "neither"),
    constraint=one_of("demographic_parity", "equalized_odds"),
    neighboring=one_of("replace_one", "add_remove"),
    ledger=spender,
)
def dp_group_rates(
    y_true,
    y_pred,
    *,
    sensitive_features=None,
    groups,
    classes=None,
    bounds=None,
    n_bins=10,
    epsilon,
    constraint="demographic_parity",
    neighboring="replace_one",
    confidence_level=0.95,
    ledger=None,
    random_state=None,
):
    r"""Release prediction rates per group, and their disparity, with noise.

    .. math::
        \tilde c_{a,k} = \#\{i : a_i = a, \hat y_i = k\} + Z_{a,k}, \qquad
        P(Z = z) \propto e^{-\epsilon |z| / \Delta}

    and, for ``constraint="equalized_odds"``, the same counts within each true class.

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
        True classes. None is possible for ``constraint="demographic_parity"``, which
        does not use them.
    y_pred : array-like of shape (n_samples,), or Batches
        Predicted classes. :class:`~fairpriv_sklearn.distributed.Batches` of
        (prediction, true class, sensitive features) come in the place of all three,
        as `predict` answers to batches.
    sensitive_features : array-like of n_samples rows, default=None
        One label per row, or several columns whose intersections are the groups. None
        with `Batches`, which hold them.
    groups : list
        Public list of groups; tuples for intersections. Groups without rows are legal.
    classes : list or None, default=None
        Public list of at least two classes. Classes without rows are legal. None for
        the predictions of a regression, with `bounds`.
    bounds : tuple (low, high) or None, default=None
        Public range of real-valued predictions, which are clipped to it and counted in
        `n_bins` bins of equal width. The disparity is then the largest difference of
        two groups' distribution functions at the edges of the bins.
    n_bins : int, default=10
        Number of bins for real-valued predictions. Range: [2, 1000].
    epsilon : float
        Privacy budget, in (0, inf]; ``inf`` adds no noise.
    constraint : {"demographic_parity", "equalized_odds"}, default="demographic_parity"
        Which rates: of predictions in each group, or in each group and true class.
    neighboring : {"replace_one", "add_remove"}, default="replace_one"
        Which tables are neighbours.
    confidence_level : float, default=0.95
        In (0, 1).
    ledger : PrivacyLedger or None, default=None
        Budget that pays for the release before the data are counted.
    random_state : int, RandomState instance, Generator or None, default=None
        None draws the noise from the operating system. Anything else is reproducible
        and therefore not private; the guarantee says so.

    Returns
    -------
    result : GroupRates
        Noisy counts, rates, disparity, intervals and the guarantee `privacy_`.

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
    combines the intervals of two rates into one of their difference [1]_; where one
    ends at 0 or 1, their errors are added up.

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
    groups = public_groups(groups)
    binned = classes is None
    classes = _outcomes(classes, bounds, n_bins, constraint)
    by_truth = constraint == "equalized_odds"
    mechanism = DiscreteLaplaceMechanism(counts_l1(neighboring), epsilon)
    noise = noise_source(random_state)
    reader = _Reader(groups, classes, by_truth, bounds if binned else None)
    rows = read_rows(reader.read, *batched(y_pred, y_true, sensitive_features))
    query = CellCounts(reader.shape, "counts of predictions", theorem=_THEOREM)
    ends = tuple(map(float, bounds)) if binned else None
    wall = PrivacyFilter(
        "dp_group_rates",
        [Release(query.name, "pure", mechanism.epsilon_spent, query.n_coordinates)],
        delta=0.0,
        neighboring=neighboring,
        facts=(
            Fact("groups", groups),
            Fact("bounds", ends) if binned else Fact("classes", classes),
            "the model behind y_pred is public or accounted for on its own, and each "
            "prediction depends on its own record only",
        ),
        noise=noise,
        ledger=ledger,
    )
    wall.reserve()
    counts = wall.release(query, rows)
    alpha = 1.0 - confidence_level
    rates, low, high = _rate_intervals(counts, mechanism.variance, alpha)
    intervals = np.stack([low, high], axis=-1)
    estimable = (high - low).max(axis=-1) <= _TOO_WIDE
    known = counts, mechanism.variance, alpha, estimable
    if binned:
        gap, gap_interval = _distribution_gap(*known)
        ratio, ratio_interval = np.nan, (0.0, 1.0)
    else:
        gap, gap_interval = _disparity(*known)
        ratio, ratio_interval = _ratio(*known)
    return GroupRates(
        groups=groups,
        classes=classes,
        constraint=constraint,
        counts=counts,
        rates=rates,
        rate_intervals=intervals,
        disparity=gap,
        disparity_interval=gap_interval,
        confidence_level=confidence_level,
        privacy_=wall.guarantee(),
        estimable=estimable,
        ratio=ratio,
        ratio_interval=ratio_interval,
    )


def _outcomes(classes, bounds, n_bins, constraint) -> list:
    """Public names of what is counted: the classes, or bins of real predictions."""
    if classes is None:
        if constraint != "demographic_parity":
            raise ValueError("constraint='equalized_odds' needs classes.")
        return _bins(bounds, n_bins)
    if bounds is not None:
        raise ValueError("Pass either classes or bounds, not both.")
    return _public_classes(classes)


def _bins(bounds, n_bins) -> list:
    """Names of the bins."""
    try:
        low, high = map(float, listed("bounds", bounds))
    except (TypeError, ValueError):
        raise ValueError(
            "Pass classes, or for real-valued predictions bounds=(low, high)."
        ) from None
    if not (low < high and np.isfinite(high - low)):
        raise ValueError(
            "bounds must be two finite numbers (low, high) with low < high and a "
            "finite difference."
        )
    if not isinstance(n_bins, Integral) or not 2 <= n_bins <= 1000:
        raise ValueError(f"n_bins must be an integer in [2, 1000], got {n_bins!r}.")
    edges = np.linspace(low, high, n_bins + 1)
    names = [f"[{a:g}, {b:g}]" for a, b in zip(edges[:-1], edges[1:], strict=True)]
    if len(set(names)) < n_bins:
        names = [f"bin {i}" for i in range(n_bins)]
    return names


def _places(y_pred, bounds, n_bins) -> np.ndarray:
    """Bin of each prediction."""
    low, high = map(float, bounds)
    refuse_dates(y_pred, "y_pred")
    try:
        with domain("y_pred"):
            values = np.asarray(column_or_1d(np.asarray(y_pred)), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("y_pred must be a column of numbers.") from None
    if np.isnan(values).any():
        raise ValueError("y_pred has missing values; leave out these rows.")
    with np.errstate(all="ignore"):
        share = np.clip(values / (high - low) - low / (high - low), 0.0, 1.0)
    return np.minimum((np.nan_to_num(share) * n_bins).astype(np.int64), n_bins - 1)


def _public_classes(classes) -> list:
    # Not as an array, which makes one kind of several: text of numbers.
    classes = public_labels("classes", classes)
    if len(classes) < 2:
        raise ValueError(f"classes must list 2 labels or more, got {classes!r}.")
    return [one.item() if isinstance(one, np.generic) else one for one in classes]


class _Reader:
    """Reads tables, or batches of them, by the public lists."""

    def __init__(self, groups, classes, by_truth, bounds):
        self.groups, self.classes = groups, classes
        self.by_truth, self.bounds = by_truth, bounds

    @property
    def shape(self) -> tuple:
        """Of the table of counts."""
        return (len(self.groups),) + (len(self.classes),) * (1 + self.by_truth)

    def read(self, y_pred, y_true, sensitive_features) -> dict:
        """Position of every record in the flattened table of counts."""
        codes = encode_groups(label_values(sensitive_features), self.groups)
        n_classes = len(self.classes)
        if self.bounds is None:
            predicted = _class_codes("y_pred", y_pred, self.classes)
        else:
            predicted = _places(y_pred, self.bounds, n_classes)
        columns = {"sensitive_features": codes, "y_pred": predicted}
        if self.by_truth:
            if y_true is None:
                raise ValueError("constraint='equalized_odds' needs y_true.")
            columns["y_true"] = _class_codes("y_true", y_true, self.classes)
        if len({len(column) for column in columns.values()}) > 1:
            # How many there are is private where records come and go.
            raise ValueError(f"The numbers of rows differ: {', '.join(columns)}.")
        for name, column in columns.items():
            if (column == POOLED).any():
                public = "groups" if name == "sensitive_features" else "classes"
                raise ValueError(
                    f"{name} has a label that is not in the list {public} (1 is not "
                    "'1', and labels of several columns are tuples)."
                )
        if self.by_truth:
            codes = codes * n_classes + columns["y_true"]
        return {"cells": codes * n_classes + predicted}


def _class_codes(name: str, y, classes: list) -> np.ndarray:
    with domain(name):
        y = np.asarray(y) if hasattr(y, "dtype") else array_of_lists(y)
        y = column_or_1d(y)
    return positions_in(y, classes)


def _rate_intervals(counts: np.ndarray, variance: float, alpha: float):
    """Estimate and interval of each entry's share in its row (the last axis)."""
    total = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    return _share_intervals(counts, total, (1, counts.shape[-1] - 1), variance, alpha)


def _share_intervals(counts, total, n_noisy, variance: float, alpha: float):
    """Estimate and interval of the share of `counts` in `total`.

    Solves `p(r) = alpha` on both sides of the estimate, where `p(r)` is the
    probability, if the share is `r`, of a statistic as far from zero as the one seen.
    `n_noisy` says how many noisy numbers the count and the rest are the sums of.
    """
    inner, rest = n_noisy
    seen = total > 0
    rate = np.clip(counts / np.where(seen, total, 1), 0.0, 1.0)

    def accepts(r):
        sampling = np.maximum(total, 1) * r * (1 - r)
        noise = variance * (inner * (1 - r) ** 2 + rest * r**2)
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


def _disparity(counts: np.ndarray, variance: float, alpha: float, usable=True):
    """Largest difference between two groups in one rate, with its interval."""
    n_groups, n_classes = counts.shape[0], counts.shape[-1]
    a, b = np.triu_indices(n_groups, k=1)
    # The two rates of a row add up to one, so one of them decides for two classes
    n_rates = np.prod(counts.shape[1:]) // (2 if n_classes == 2 else 1)
    intervals = _rate_intervals(counts, variance, alpha / (len(a) * n_rates))
    return _largest_difference(*intervals, usable)


def _distribution_gap(counts: np.ndarray, variance: float, alpha: float, usable):
    """Largest difference of two groups' distribution functions at the edges of bins."""
    n_groups, n_bins = counts.shape
    below = np.cumsum(counts, axis=1)[:, :-1]  # (n_groups, n_bins - 1)
    total = np.broadcast_to(counts.sum(axis=1, keepdims=True), below.shape)
    n_noisy = np.arange(1, n_bins), np.arange(n_bins - 1, 0, -1)
    n_tests = n_groups * (n_groups - 1) // 2 * (n_bins - 1)
    return _largest_difference(
        *_share_intervals(below, total, n_noisy, variance, alpha / n_tests), usable
    )


def _largest_difference(rate, low, high, usable):
    """Largest difference of two usable rows, and an interval for all [Newcombe]."""
    a, b = np.triu_indices(len(rate), k=1)
    difference = rate[a] - rate[b]
    known = np.isfinite(difference)

    def apart(falls, rises):
        """By how much one rate is smaller and the other larger: seldom by more."""
        fall, rise = rate[falls] - low[falls], high[rises] - rate[rises]
        # No rate is beyond 0 and 1: to be as far as that is not seldom.
        at_end = (low[falls] <= 0.0) | (high[rises] >= 1.0)
        return np.where(at_end, fall + rise, np.hypot(fall, rise))

    below, above = difference - apart(a, b), difference + apart(b, a)
    # A row without information: the whole range.
    below = np.where(known, below, low[a] - high[b])
    above = np.where(known, above, high[a] - low[b])
    low = np.maximum(0.0, np.maximum(below, -above)).max()
    high = np.maximum(np.abs(below), np.abs(above)).max()
    usable = np.broadcast_to(np.expand_dims(usable, -1), rate.shape)
    shown = np.abs(difference[known & usable[a] & usable[b]])
    disparity = max(low, shown.max()) if shown.size else np.nan
    return float(disparity), (float(low), float(min(high, 1.0)))


def _ratio(counts: np.ndarray, variance: float, alpha: float, estimable: np.ndarray):
    """Smallest over largest rate of usable rows, the last class; of all an interval."""
    n_groups = len(counts)
    # Both ends of one interval for each row and class: a union bound over rows.
    intervals = _rate_intervals(counts, variance, alpha / estimable.size)
    rate, low, high = (one[..., -1].reshape(n_groups, -1) for one in intervals)
    a, b = np.nonzero(~np.eye(n_groups, dtype=bool))  # all pairs, either way round
    usable = estimable.reshape(n_groups, -1)

    def smallest(over, under, rows, unknown):
        with np.errstate(all="ignore"):
            ratios = (over[a] / under[b])[rows[a] & rows[b]]
        found = float(np.fmin.reduce(ratios, initial=np.nan))
        return unknown if np.isnan(found) else min(found, 1.0)

    every = np.ones_like(usable)
    interval = smallest(low, high, every, 0.0), smallest(high, low, every, 1.0)
    return float(
        np.minimum(smallest(rate, rate, usable, np.nan), interval[1])
    ), interval
