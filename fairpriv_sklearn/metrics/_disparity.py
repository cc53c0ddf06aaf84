"""How far the predictions of groups are apart, from the data as they are."""

import math
from itertools import combinations

import numpy as np

from .._door.groups import label_list
from .._door.labels import positions_in
from .._shared.arguments import column, is_missing_label
from .._shared.arrays import array_of_lists, count_cells
from .._shared.domain import check_columns
from .._shared.exact_transport import transport_of_samples


def demographic_parity_difference(y_true, y_pred, *, sensitive_features) -> float:
    r"""Largest difference between groups in how often a class is predicted.

    .. math::
        \max_k \Big( \max_a P(\hat y = k \mid a) - \min_a P(\hat y = k \mid a) \Big)

    with the empirical frequencies of the given rows. For two classes this is the
    largest difference in the rate of positive predictions.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True classes. Checked, and otherwise not used.
    y_pred : array-like of shape (n_samples,)
        Predicted classes, numbers or strings.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_attributes)
        One label per row, or several columns whose intersections are the groups.

    Returns
    -------
    difference : float
        In [0, 1]; 0 when every class is predicted equally often in all groups.

    Raises
    ------
    ValueError
        If a target is continuous, a value is missing, the lengths differ or there are
        fewer than two groups.

    See Also
    --------
    equalized_odds_difference : The same comparison within each true class.
    ks_parity_difference : Comparison of continuous predictions.
    dp_group_rates : Private release of the rates behind this number.

    Notes
    -----
    The number is computed from the data as they are: it is not private.

    Examples
    --------
    >>> from fairpriv_sklearn.metrics import demographic_parity_difference
    >>> demographic_parity_difference(
    ...     [0, 1, 1, 0], [1, 1, 1, 0], sensitive_features=["a", "a", "b", "b"]
    ... )
    0.5
    """
    _, y_pred, codes = _check(y_true, y_pred, sensitive_features, _check_classes)
    classes, predicted = np.unique(y_pred, return_inverse=True)
    counts = count_cells((codes.max() + 1, len(classes)), codes, predicted)
    return _largest_rate_difference(counts)


def equalized_odds_difference(y_true, y_pred, *, sensitive_features) -> float:
    r"""Largest difference between groups in prediction rates within a true class.

    .. math::
        \max_y \max_k \Big( \max_a P(\hat y = k \mid a, y)
        - \min_a P(\hat y = k \mid a, y) \Big)

    For two classes this is the larger one of the differences in true positive and
    false positive rates. A group without rows of a true class says nothing about that
    class and is left out there.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True classes, numbers or strings.
    y_pred : array-like of shape (n_samples,)
        Predicted classes, numbers or strings.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_attributes)
        One label per row, or several columns whose intersections are the groups.

    Returns
    -------
    difference : float
        In [0, 1].

    Raises
    ------
    ValueError
        If a target is continuous, a value is missing, the lengths differ, there are
        fewer than two groups, or no true class occurs in two of them.

    See Also
    --------
    demographic_parity_difference : The comparison regardless of the true class.

    Notes
    -----
    The number is computed from the data as they are: it is not private.

    Examples
    --------
    >>> from fairpriv_sklearn.metrics import equalized_odds_difference
    >>> equalized_odds_difference(
    ...     [1, 1, 1, 1, 0, 0],
    ...     [1, 0, 1, 1, 0, 0],
    ...     sensitive_features=["a", "a", "b", "b", "a", "b"],
    ... )
    0.5
    """
    y_true, y_pred, codes = _check(y_true, y_pred, sensitive_features, _check_classes)
    classes, predicted = np.unique(y_pred, return_inverse=True)
    differences, shape = [], (codes.max() + 1, len(classes))
    for label in np.unique(y_true):
        rows = y_true == label
        counts = count_cells(shape, codes[rows], predicted[rows])
        counts = counts[counts.sum(axis=1) > 0]
        if len(counts) >= 2:
            differences.append(_largest_rate_difference(counts))
    if not differences:
        raise ValueError(
            "No true class occurs in two groups, so that the prediction rates within a "
            "true class cannot be compared; use demographic_parity_difference."
        )
    return max(differences)


def ks_parity_difference(y_true, y_pred, *, sensitive_features) -> float:
    r"""Largest Kolmogorov-Smirnov distance between the predictions of two groups.

    .. math::
        \max_{a, b} \; \sup_t | F_a(t) - F_b(t) |

    with the empirical distribution functions of the predictions. Exact for ties.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True values. Checked, and otherwise not used.
    y_pred : array-like of shape (n_samples,)
        Predictions: real numbers, such as regression outputs or probabilities.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_attributes)
        One label per row, or several columns whose intersections are the groups.

    Returns
    -------
    difference : float
        In [0, 1].

    Raises
    ------
    ValueError
        If `y_true` and `y_pred` are both class labels, a value is missing or infinite,
        the lengths differ or there are fewer than two groups.

    See Also
    --------
    wasserstein_parity_difference : How far apart, in units of the predictions.
    demographic_parity_difference : Comparison of predicted classes.

    Notes
    -----
    Strings, booleans, and integers in both `y_true` and `y_pred` count as class
    labels. The number is computed from the data as they are: it is not private.

    Examples
    --------
    >>> from fairpriv_sklearn.metrics import ks_parity_difference
    >>> ks_parity_difference(
    ...     [0.1, 0.4, 0.2, 0.9],
    ...     [0.1, 0.4, 0.3, 0.5],
    ...     sensitive_features=["a", "a", "b", "b"],
    ... )
    0.5
    """
    _, y_pred, codes = _check(y_true, y_pred, sensitive_features, _check_scores)
    _, cdfs = group_cdfs(y_pred, codes)
    # max over pairs of |F_a - F_b| = max over groups of F minus min over groups of F
    return float(np.ptp(cdfs, axis=0).max())


def wasserstein_parity_difference(y_true, y_pred, *, sensitive_features) -> float:
    r"""Largest 2-Wasserstein distance between the predictions of two groups.

    .. math::
        \max_{a, b} \Big( \int_0^1 \big( Q_a(u) - Q_b(u) \big)^2 du \Big)^{1/2}

    with the empirical quantile functions of the predictions, integrated exactly.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True values. Checked, and otherwise not used.
    y_pred : array-like of shape (n_samples,)
        Predictions: real numbers, such as regression outputs or probabilities.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_attributes)
        One label per row, or several columns whose intersections are the groups.

    Returns
    -------
    difference : float
        In units of `y_pred`, not squared; at least 0.

    Raises
    ------
    ValueError
        If `y_true` and `y_pred` are both class labels, a value is missing or infinite,
        the lengths differ or there are fewer than two groups.

    See Also
    --------
    ks_parity_difference : A distance that does not depend on the unit.

    Notes
    -----
    Strings, booleans, and integers in both `y_true` and `y_pred` count as class
    labels. The number is computed from the data as they are: it is not private.

    Examples
    --------
    >>> from fairpriv_sklearn.metrics import wasserstein_parity_difference
    >>> wasserstein_parity_difference(
    ...     [0.5, 1.5, 2.5, 3.5],
    ...     [0.0, 1.0, 3.0, 4.0],
    ...     sensitive_features=["a", "a", "b", "b"],
    ... )
    3.0
    """
    _, y_pred, codes = _check(y_true, y_pred, sensitive_features, _check_scores)
    # Unsigned numbers have no differences.
    pairs = combinations(_samples(y_pred.astype(np.float64), codes), 2)
    return math.sqrt(max(transport_of_samples(*pair).distance for pair in pairs))


def group_cdfs(scores: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct scores, and the distribution function of every group at them."""
    values = np.unique(scores)
    below = [one.searchsorted(values, "right") for one in _samples(scores, codes)]
    return values, np.array([counts / counts[-1] for counts in below])


def _samples(scores: np.ndarray, codes: np.ndarray) -> list[np.ndarray]:
    """The scores of every group, sorted."""
    return [np.sort(scores[codes == group]) for group in range(codes.max() + 1)]


def _largest_rate_difference(counts: np.ndarray) -> float:
    rates = counts / counts.sum(axis=1, keepdims=True)  # (n_groups, n_classes)
    return float(np.max(rates.max(axis=0) - rates.min(axis=0)))


def _check(y_true, y_pred, sensitive_features, check_kind):
    """Validated targets and group codes 0 .. n_groups - 1."""
    check_columns(y_true, y_pred, sensitive_features)
    groups, codes = group_codes(sensitive_features)
    y_true, y_pred = _target("y_true", y_true), _target("y_pred", y_pred)
    if not len(y_true) == len(y_pred) == len(codes):
        raise ValueError(
            "y_true, y_pred and sensitive_features must have the same number of rows, "
            f"got {len(y_true)}, {len(y_pred)} and {len(codes)}."
        )
    if len(groups) < 2:
        raise ValueError(
            f"The sensitive features hold {len(groups)} group(s); a disparity compares "
            "at least two."
        )
    check_kind(y_true, y_pred)
    return y_true, y_pred, codes


def group_codes(sensitive_features, order=list) -> tuple[list, np.ndarray]:
    """Groups that occur, in this order, and the number of every row's group."""
    labels = label_list(sensitive_features)
    groups = order(dict.fromkeys(labels))
    return groups, positions_in(labels, groups)


def _target(name: str, y) -> np.ndarray:
    """One-dimensional array without missing values, of numbers or of strings."""
    y = column(name, array_of_lists(y) if isinstance(y, list | tuple) else y)
    if y.dtype == object:
        if any(map(is_missing_label, y)):
            raise ValueError(f"{name} has missing values; leave out these rows.")
        kinds = {isinstance(value, str) for value in y}
        if len(kinds) > 1:
            raise ValueError(f"{name} mixes strings and numbers; use one kind.")
        y = np.array(y.tolist())
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(
            f"{name} has missing or infinite values; leave out these rows."
        )
    return y


def _check_classes(y_true, y_pred):
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if y.dtype.kind == "f" and (y != np.rint(y)).any():
            raise ValueError(
                f"{name} is continuous, but this metric compares predicted classes; "
                "use ks_parity_difference or wasserstein_parity_difference."
            )


def _check_scores(y_true, y_pred):
    # By type and not by value: the predictions of a regressor may all be whole.
    kinds = {y_true.dtype.kind, y_pred.dtype.kind}
    if y_pred.dtype.kind not in "iuf" or "f" not in kinds:
        raise ValueError(
            "y_true and y_pred are class labels, but this metric compares real-valued "
            "predictions; use demographic_parity_difference or "
            "equalized_odds_difference."
        )
