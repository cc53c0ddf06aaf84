"""Decisions that are drawn, where noisy counts say that groups still differ.

Steps make *soft* decisions equal. Scores that many people share, those of one tree for
example, cannot be parted by thresholds, and a step may not reach those next to zero and
one: the decisions themselves may then differ as before. They are counted at the end,
and where groups surely differ some are drawn, as few as parity asks for.

Only `decision_regions` looks at records, each row on its own. The rest is
post-processing of noisy counts, and costs no privacy.
"""

import numpy as np

from .._shared.arrays import project_simplex
from . import _blind as blind
from . import _parity as parity
from ._significance import DROWNED

# Share of the squared Gaussian budget. Chosen, as what follows, on simulated tables.
SHARE = 0.1
# A decision is near another if the best two classes are closer than this part of the
# smoothing: a soft decision gives it less than 19/20.
NEAR = 3.0
# What it costs to draw such a decision, where any other costs one.
NEAR_COST = 0.1
# Groups have to differ by so much more than the tolerance, with this confidence or a
# larger one: what errors make of equal rates, times how seldom they do, is harmless.
HARMLESS = 0.01
CONFIDENCE, HARM = 0.98, 0.0003
# Rates of groups that a linear program makes equal in seconds.
MOST_RATES = 4000
# Blind: standard deviations of its noise that the size of a group has to exceed for
# decisions to be counted by likelier group as well.
PARTED = 20.0


def decision_regions(shifted: np.ndarray, smoothing: float) -> np.ndarray:
    """Decision of each row, and whether another one is near.

    Parameters
    ----------
    shifted : ndarray of shape (n_classes, n_rows)
    smoothing : float

    Returns
    -------
    regions : ndarray of shape (n_rows,), int64
        Twice the class that is chosen, plus zero or one; of two classes in the order
        of the score: far from the second, near to it, near to the first, far from it.
    """
    chosen = np.zeros(shifted.shape[1], dtype=np.int64)
    first, second = shifted[0], -np.inf
    for k, scores in enumerate(shifted[1:], start=1):  # three times as fast as a sort
        second = np.maximum(second, np.minimum(first, scores))
        chosen[scores > first] = k
        first = np.maximum(first, scores)
    near = first - second < NEAR * smoothing
    return 2 * chosen + (near == (chosen == 0))


def region_costs(n_classes: int) -> np.ndarray:
    """What it costs to draw the decision of a region, shape (2 * n_classes,)."""
    chosen, odd = np.divmod(np.arange(2 * n_classes), 2)
    near = odd == (chosen == 0)
    return np.where(near, NEAR_COST, 1.0)


def smallest_sizes(counts: np.ndarray, rates: list) -> np.ndarray:
    """Sizes of groups in the true class that has fewest, of those that are compared.

    In units of the noise of a size, were that of one count 1. `counts` and `rates` are
    those of `drawn_decisions`.
    """
    compared = counts[[y for y, _ in rates]].sum(axis=2)
    return compared.min(axis=0) / np.sqrt(counts.shape[2])


def drawn_decisions(
    counts: np.ndarray, rates: list, noise_scale: float, tolerance: float
) -> np.ndarray | None:
    """Chances of the classes by group and region, if the groups surely differ.

    Parameters
    ----------
    counts : ndarray of shape (n_conditions, n_groups, 2 * n_classes)
        Noisy counts by true class (or one), group and region.
    rates : list of (int, int)
        Pairs (condition, chosen class) whose rate the groups must share.
    noise_scale : float
        Standard deviation of the noise in one count.
    tolerance : float

    Returns
    -------
    rule : ndarray of shape (n_groups, 2 * n_classes, n_classes) or None
        Groups that noise drowns keep their decisions, and all do if there are more
        than `MOST_RATES` rates. Of what a group that few records tell differs by from
        all people a part is believed.
    """
    n_regions = counts.shape[2]
    n_classes = n_regions // 2
    sizes = counts.sum(axis=2)
    conditions = np.array([y for y, _ in rates])
    smallest = smallest_sizes(counts, rates)
    known = smallest > parity.DROWNED * noise_scale
    if known.sum() < 2 or len(rates) * len(known) > MOST_RATES:
        return None
    drawn = smallest > DROWNED * noise_scale
    counts, sizes, known = counts[:, drawn], sizes[:, drawn], known[drawn]
    sizes = np.maximum(sizes, 1.0)
    masses = project_simplex(counts / sizes[:, :, None])
    costs = region_costs(n_classes)
    found, variances = [], []
    for y, k in rates:
        rate = masses[y, :, 2 * k : 2 * k + 2].sum(axis=1)
        noise = 2 * (1 - rate) ** 2 + (n_regions - 2) * rate**2
        chance = np.maximum(rate * (1 - rate), 1 / sizes[y]) / sizes[y]
        variances.append((noise_scale / sizes[y]) ** 2 * noise + chance)
        found.append(rate)
    found, variances = np.array(found)[:, known], np.array(variances)
    low = surely_apart(found, variances[:, known])
    if low <= tolerance + HARMLESS:
        return None
    if noise_scale > 0 and len(counts) > 1:
        of_known = counts[:, known]
        tolerance = parity.told_tolerance(of_known, noise_scale**2, tolerance)
    kept = np.eye(n_classes)[np.arange(n_regions) // 2]
    people = (sizes[:, :, None] * masses).sum(axis=0) / sizes.sum()
    gain = people[:, :, None] * costs[:, None] * kept
    for y in set(conditions.tolist()):  # noise adds to how far rates lie apart
        apart = found[conditions == y].var(axis=1).sum()
        part = apart / (apart + variances[conditions == y].sum(axis=0))
        together = sizes[y] @ masses[y] / sizes[y].sum()
        masses[y] -= (masses[y] - together) * np.where(known, 0, 1 - part)[:, None]
    rule = np.tile(kept, (len(drawn), 1, 1))
    rule[drawn] = parity.most_gain(masses.swapaxes(0, 1), gain, rates, tolerance)
    return rule


def surely_apart(rates: np.ndarray, variances: np.ndarray) -> float:
    """By how much some groups surely differ in one of their rates.

    Groups that few rows tell may differ by much for all that is known, and would hide
    what the others surely differ by: all groups are looked at, and then the better
    known half of them, down to two.

    Parameters
    ----------
    rates, variances : ndarray of shape (n_rates, n_groups)
        Estimates, and the variances of their errors.
    """
    order, low = np.argsort(variances.max(axis=0), kind="stable"), 0.0
    while True:
        known = np.sort(order)
        of_known = variances[:, known]
        error = np.sqrt(np.sort(of_known, axis=1)[:, -2:].sum(axis=1).max())
        confidence = max(CONFIDENCE, 1 - HARM / error)
        told, _ = blind.disparity_interval(rates[:, known], of_known, confidence)
        low = max(low, told)
        if len(order) <= 2:
            return low
        order = order[: (len(order) + 1) // 2]


def shared_rule(table, rates, compared, tolerance) -> np.ndarray:
    """Chances of the classes by region, the same for all groups, with least error.

    Parameters
    ----------
    table : ndarray of shape (n_groups, n_classes, n_regions)
        Noisy counts by group, true class and region.
    rates, compared : lists of (int, int)
        As of `blind.measure` and `blind.compared`.
    tolerance : float

    Returns
    -------
    rule : ndarray of shape (n_regions, n_classes)
    """
    cells = table.sum(axis=1, keepdims=True) if rates is None else table
    masses = project_simplex(cells / np.maximum(cells.sum(axis=2, keepdims=True), 1.0))
    gain = table.sum(axis=0).T / max(table.sum(), 1.0)
    return parity.most_gain(masses, gain[None], compared, tolerance)[0]
