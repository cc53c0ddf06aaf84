"""Black-box audits: lower bounds on the privacy loss from real releases.

Run a release many times on two neighbouring data sets that are as bad as the
sensitivity allows, reduce every output to one number along the known worst
direction, and compare the bound with the claim. The bounds hold with confidence
1 - alpha, so a correct mechanism fails a test with probability at most alpha.
Audit at mu or epsilon near 1, where the power is best: 600 runs per side for
Gaussian releases and 4000 for pure ones see an error of a factor sqrt(2).
"""

import math

import numpy as np
from scipy import stats

from fairpriv_sklearn._wall import PrivacyFilter, Release
from fairpriv_sklearn.mechanisms import noise_source


def audit_of_releases(query, tables, state, mu, n_runs):
    """Bound on mu of what the wall releases of two tables, along their difference."""
    wall = PrivacyFilter(
        "audit",
        [Release(query.name, "gaussian", mu, query.n_coordinates, times=2 * n_runs)],
        delta=1e-5,
        neighboring="replace_one",
        noise=noise_source(0),
    )
    wall.reserve()
    exact = [query.of_rows(rows, state) for rows in tables]
    direction = (exact[1] - exact[0]).ravel()
    outputs = [
        [wall.release(query, rows, state).ravel() @ direction for _ in range(n_runs)]
        for rows in tables
    ]
    return gaussian_audit(*outputs)


def gaussian_audit(outputs0, outputs1, alpha=1e-3):
    """Return a lower bound on mu of a Gaussian release.

    Parameters
    ----------
    outputs0, outputs1 : array-like of shape (n_runs,)
        Outputs on the two data sets, projected on the difference of the queries.
    alpha : float, default=1e-3
        Probability that the bound is wrong.

    Returns
    -------
    mu : float
        Standardised mean difference minus its normal confidence width; for
        independent Gaussian outputs of equal variance on both sides.
    """
    outputs0, outputs1 = np.asarray(outputs0), np.asarray(outputs1)
    n_runs = len(outputs0)
    pooled = math.sqrt((outputs0.var(ddof=1) + outputs1.var(ddof=1)) / 2)
    mu = abs(outputs1.mean() - outputs0.mean()) / pooled
    width = math.sqrt(2 / n_runs + mu**2 / (4 * n_runs))
    return mu - stats.norm.isf(alpha) * width


def pure_audit(outputs0, outputs1, delta=0.0, alpha=1e-3, beyond=None):
    """Return a lower bound on epsilon of any release with one-dimensional outputs.

    Parameters
    ----------
    outputs0, outputs1 : array-like of shape (n_runs,)
        Outputs on the two data sets, along the worst direction.
    delta : float, default=0.0
        Delta of the claim; 0 audits pure DP.
    alpha : float, default=1e-3
        Probability that the bound is wrong.
    beyond : float, default=None
        Where the event is known that tells most: an output of at least this, likelier
        on the first data set. It sees with four runs what it takes ten to see without.

    Returns
    -------
    epsilon : float
        Unless it is known, the event "beyond a threshold" (either side, either data set
        first) is chosen on one half of the runs; the other half bounds its two
        probabilities by Clopper-Pearson.
    """
    outputs0, outputs1 = np.asarray(outputs0), np.asarray(outputs1)
    if beyond is not None:
        return _log_ratio(outputs0, outputs1, beyond, delta, alpha)
    half = len(outputs0) // 2
    pairs = [
        (sign * first, sign * second)
        for first, second in ((outputs0, outputs1), (outputs1, outputs0))
        for sign in (-1, 1)
    ]
    chosen = max(
        (_log_ratio(first[:half], second[:half], threshold, delta, alpha), i, threshold)
        for i, (first, second) in enumerate(pairs)
        for threshold in _candidates(first[:half])
    )
    first, second = pairs[chosen[1]]
    return _log_ratio(first[half:], second[half:], chosen[2], delta, alpha)


def _candidates(outputs):
    return np.unique(np.quantile(outputs, np.linspace(0.02, 0.98, 49), method="lower"))


def _log_ratio(first, second, threshold, delta, alpha):
    hits, false_hits = np.sum(first >= threshold), np.sum(second >= threshold)
    low = stats.beta.ppf(alpha / 2, hits, len(first) - hits + 1) if hits else 0.0
    high = stats.beta.isf(alpha / 2, false_hits + 1, max(len(second) - false_hits, 0.5))
    return math.log((low - delta) / high) if low > delta else -math.inf
