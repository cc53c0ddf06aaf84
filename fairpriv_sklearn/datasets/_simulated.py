"""Simulated data whose best predictor and group disparity are known."""

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.utils import check_random_state

from .._shared.arguments import (
    checked,
    count,
    flag,
    floats,
    number,
    numbers,
    optional,
    seed,
)


@checked(
    n_samples=count(1),
    n_features=count(1, 10**6),
    n_classes=count(2, 10**6),
    n_components=count(1, 10**6),
    p=number(0, 1),
    group_share=number(0, 1),
    return_posteriors=flag,
    random_state=seed,
)
def make_biased_mixture(
    n_samples=5000,
    n_features=20,
    *,
    n_classes=6,
    n_components=10,
    p=0.75,
    group_share=0.5,
    return_posteriors=False,
    random_state=None,
):
    r"""Simulate classes that are Gaussian mixtures and depend on the group.

    Class :math:`k` of :math:`K` is a mixture of `n_components` unit Gaussians,

    .. math::
        X \mid Y = k \;\sim\; \frac1m \sum_{i=1}^m N(c_k + \mu_{k,i}, I_d), \qquad
        c_k \sim U[-1, 1]^d, \quad \mu_{k,i} \sim N(0, I_d),

    and the group leans to the first half of the classes or to the second:
    :math:`P(S = 1 \mid Y = k) = p` for :math:`k < \lfloor K/2 \rfloor`, and
    :math:`1 - p` otherwise. This is the design of [1]_, followed by [2]_. Given the
    class, features and group are independent.

    Parameters
    ----------
    n_samples : int, default=5000
        Number of rows.
    n_features : int, default=20
        Dimension :math:`d`. Fewer features make the classes overlap more.
    n_classes : int, default=6
        Number of classes :math:`K`, at least 2.
    n_components : int, default=10
        Number of Gaussians :math:`m` in each class.
    p : float, default=0.75
        Dependence between class and group, in [0, 1]; 0.5 is none, 0 and 1 the most.
    group_share : float, default=0.5
        Weight of the group 1, in (0, 1). With another value than 0.5 the joint
        distribution is :math:`P(Y=k, S=1) \propto w\,P(S{=}1|Y{=}k)` and
        :math:`P(Y=k, S=-1) \propto (1-w)\,P(S{=}{-1}|Y{=}k)`; for an even number of
        classes the group 1 then has exactly this share of the population.
    return_posteriors : bool, default=False
        Whether to return the exact class probabilities as well.
    random_state : int, RandomState instance or None, default=None
        Fixes both the mixture and the rows. For training and test data from one
        mixture, draw all rows at once and split them.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,), int
        Classes 0 to `n_classes` - 1.
    sensitive : ndarray of shape (n_samples,), int
        Groups, -1 or 1.
    posteriors : ndarray of shape (n_samples, n_classes)
        :math:`P(Y = k \mid X, S)`, only if `return_posteriors`. Their argmax is the
        most accurate classifier there is.

    See Also
    --------
    make_spurious_bias : Two classes, and features that reveal the group.
    make_biased_regression : Real-valued target, any number of groups.

    Notes
    -----
    Known answer: with `group_share` 0.5 the classes are equally likely, and with an
    even number of them the demographic parity difference of the labels themselves is
    :math:`2 |2p - 1| / K` in the population (0.1667 with the defaults).

    References
    ----------
    .. [1] C. Denis, R. Elie, M. Hebiri, F. Hu, "Fairness guarantees in multi-class
       classification with demographic parity", JMLR 25, 2024.
    .. [2] L. Say, C. Denis, R. Pinot, "Fairness meets privacy: integrating differential
       privacy and demographic parity in multi-class classification",
       arXiv:2511.18876, 2025 (appendix E.1).

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_biased_mixture
    >>> X, y, sensitive = make_biased_mixture(1000, random_state=0)
    >>> X.shape, y.shape, sensitive.shape
    ((1000, 20), (1000,), (1000,))
    """
    rng = check_random_state(random_state)
    centers = rng.uniform(-1.0, 1.0, size=(n_classes, 1, n_features))
    means = centers + rng.normal(size=(n_classes, n_components, n_features))

    first_half = np.arange(n_classes) < n_classes // 2
    given_class = np.where(first_half, p, 1.0 - p)  # P(S = 1 | Y = k)
    joint = np.stack([(1 - group_share) * (1 - given_class), group_share * given_class])
    joint /= joint.sum()  # (2, n_classes), rows S = -1 and S = 1

    cells = rng.choice(2 * n_classes, size=n_samples, p=joint.ravel())
    group, y = np.divmod(cells, n_classes)
    component = rng.randint(n_components, size=n_samples)
    X = means[y, component] + rng.normal(size=(n_samples, n_features))
    sensitive = 2 * group - 1
    if not return_posteriors:
        return X, y, sensitive

    with np.errstate(divide="ignore"):  # a class that a group never has
        log_prior = np.log(joint)[group]  # (n_samples, n_classes)
    return X, y, sensitive, softmax(log_prior + _log_mixture(X, means), axis=1)


def _log_mixture(X, means):
    """Log density of the unit-Gaussian mixtures, up to a constant in the class."""
    n_classes, n_components, n_features = means.shape
    flat = means.reshape(-1, n_features)
    squared = -0.5 * (flat**2).sum(axis=1) + X @ flat.T  # |x|^2 is common to all
    return logsumexp(squared.reshape(len(X), n_classes, n_components), axis=2)


_SPURIOUS = {
    "n_samples": count(1),
    "n_core": count(1, 10**6),
    "n_spurious": count(1, 10**6),
    "p": number(0, 1),
    "core_scale": number(1e-100, 1e100),
    "spurious_scale": number(1e-100, 1e100),
    "random_state": seed,
}


@checked(**_SPURIOUS, return_posteriors=flag)
def make_spurious_bias(
    n_samples=30000,
    *,
    n_core=8,
    n_spurious=8,
    p=0.7,
    core_scale=3.0,
    spurious_scale=3.0,
    return_posteriors=False,
    random_state=None,
):
    r"""Simulate two classes, with features that reveal the class and the group.

    .. math::
        Y \sim U\{0, 1\}, \qquad P(S = Y) = p, \qquad
        X_{\text{core}} \mid Y \sim N\big((2Y - 1) \mathbf 1, \sigma_c^2 I\big), \qquad
        X_{\text{spurious}} \mid S \sim N\big((2S - 1) \mathbf 1, \sigma_s^2 I\big)

    The spurious features say nothing about the class beyond what the group says. A
    model that is trained for accuracy uses them all the same when `p` is not 0.5, and
    so treats the groups differently.

    Parameters
    ----------
    n_samples : int, default=30000
        Number of rows.
    n_core : int, default=8
        Number of features that depend on the class.
    n_spurious : int, default=8
        Number of features that depend on the group.
    p : float, default=0.7
        Probability that group and class agree, in [0, 1].
    core_scale : float, default=3.0
        Standard deviation :math:`\sigma_c` of the core features.
    spurious_scale : float, default=3.0
        Standard deviation :math:`\sigma_s` of the spurious features.
    return_posteriors : bool, default=False
        Whether to return the exact class probabilities as well.
    random_state : int, RandomState instance or None, default=None
        Fixes the rows.

    Returns
    -------
    X : ndarray of shape (n_samples, n_core + n_spurious)
        Core features first.
    y : ndarray of shape (n_samples,), int
        Classes, 0 or 1.
    sensitive : ndarray of shape (n_samples,), int
        Groups, 0 or 1.
    posteriors : ndarray of shape (n_samples, 2)
        :math:`P(Y = k \mid X)`, only if `return_posteriors`: the best scores that do
        not see the group itself.

    See Also
    --------
    make_biased_mixture : Several classes.
    make_biased_regression : Real-valued target, any number of groups.

    Notes
    -----
    Known answers: the best classifier on the core features alone has accuracy
    :math:`\Phi(\sqrt{d_c} / \sigma_c)`, 0.827 with the defaults; its demographic parity
    difference is :math:`|2p - 1| (2 \Phi(\sqrt{d_c} / \sigma_c) - 1)`, 0.262.

    The sizes (30000 rows, 8 + 8 features, `p` = 0.7) are those of the experiment in
    [1]_; the distribution of the features is the one of [2]_, written out above because
    the two scales are ours.

    References
    ----------
    .. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes, "Learning with differentially
       private (sliced) Wasserstein gradients", arXiv:2502.01701, 2025 (appendix B).
    .. [2] S. Sagawa, A. Raghunathan, P. W. Koh, P. Liang, "An investigation of why
       overparameterization exacerbates spurious correlations", ICML 2020.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_spurious_bias
    >>> X, y, sensitive = make_spurious_bias(1000, random_state=0)
    >>> X.shape
    (1000, 16)
    """
    rng = check_random_state(random_state)
    y = rng.randint(2, size=n_samples)
    sensitive = np.where(rng.uniform(size=n_samples) < p, y, 1 - y)
    core = (2 * y - 1)[:, None] + core_scale * rng.normal(size=(n_samples, n_core))
    noise = spurious_scale * rng.normal(size=(n_samples, n_spurious))
    spurious = (2 * sensitive - 1)[:, None] + noise
    X = np.hstack([core, spurious])
    if not return_posteriors:
        return X, y, sensitive

    # log-likelihood ratio of a +1 against a -1 mean: 2 sum(x) / sigma^2
    class_ratio = 2 * core.sum(axis=1) / core_scale**2
    group_ratio = 2 * spurious.sum(axis=1) / spurious_scale**2
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log1p(-p)
    logit = (
        class_ratio
        + np.logaddexp(log_p + group_ratio, log_q)
        - np.logaddexp(log_q + group_ratio, log_p)
    )
    return X, y, sensitive, softmax(np.stack([np.zeros(n_samples), logit], 1), axis=1)


@checked(**_SPURIOUS)
def make_spurious_regression(
    n_samples=30000,
    *,
    n_core=8,
    n_spurious=8,
    p=0.7,
    core_scale=0.5,
    spurious_scale=0.5,
    random_state=None,
):
    r"""Simulate a target in the plane, with features that reveal target and group.

    .. math::
        Y \sim U[0, 1]^2, \qquad
        P\big(S = \mathbf 1\{Y_1 + Y_2 > 1\}\big) = p,

    .. math::
        X_{\text{core}} \mid Y \sim N\big((Y_1, Y_2, Y_1, \dots), \sigma_c^2 I\big),
        \qquad X_{\text{spurious}} \mid S \sim N\big(S \mathbf 1, \sigma_s^2 I\big)

    This is the design of the experiments with several outputs and with
    representations in [1]_; the two scales are ours.

    Parameters
    ----------
    n_samples : int, default=30000
        Number of rows.
    n_core : int, default=8
        Number of features that depend on the target, in turn on its two coordinates.
    n_spurious : int, default=8
        Number of features that depend on the group.
    p : float, default=0.7
        Probability that the group tells the side of the diagonal, in [0, 1].
    core_scale : float, default=0.5
        Standard deviation :math:`\sigma_c` of the core features.
    spurious_scale : float, default=0.5
        Standard deviation :math:`\sigma_s` of the spurious features.
    random_state : int, RandomState instance or None, default=None
        Fixes the rows.

    Returns
    -------
    X : ndarray of shape (n_samples, n_core + n_spurious)
        Core features first.
    Y : ndarray of shape (n_samples, 2)
        Target, in the unit square.
    sensitive : ndarray of shape (n_samples,), int
        Groups, 0 or 1.

    See Also
    --------
    make_spurious_bias : The same with two classes.

    Notes
    -----
    Known answer: the mean targets of the groups differ by
    :math:`|2p - 1| / 3` in each coordinate, 0.133 with the defaults.

    References
    ----------
    .. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes, "Learning with differentially
       private (sliced) Wasserstein gradients", arXiv:2502.01701, 2025 (appendix).

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_spurious_regression
    >>> X, Y, sensitive = make_spurious_regression(1000, random_state=0)
    >>> X.shape, Y.shape
    ((1000, 16), (1000, 2))
    """
    rng = check_random_state(random_state)
    Y = rng.uniform(size=(n_samples, 2))
    above = (Y.sum(axis=1) > 1).astype(int)
    sensitive = np.where(rng.uniform(size=n_samples) < p, above, 1 - above)
    means = Y[:, np.arange(n_core) % 2]
    core = means + core_scale * rng.normal(size=(n_samples, n_core))
    noise = spurious_scale * rng.normal(size=(n_samples, n_spurious))
    spurious = sensitive[:, None] + noise
    return np.hstack([core, spurious]), Y, sensitive


@checked(
    n_samples=count(1),
    n_features=count(1, 10**6),
    shifts=floats(1),
    scales=numbers,
    weights=optional(floats(1)),
    noise=number(0, 1e100),
    return_optimal=flag,
    random_state=seed,
)
def make_biased_regression(
    n_samples=1000,
    n_features=5,
    *,
    shifts=(-0.5, 0.0, 0.5),
    scales=1.0,
    weights=None,
    noise=0.5,
    return_optimal=False,
    random_state=None,
):
    r"""Simulate a regression whose best predictor is shifted from group to group.

    .. math::
        X \sim N(0, I), \qquad f^*(X, a) = s_a\, w^\top X + m_a, \qquad
        Y = f^*(X, a) + \sigma \xi, \quad \xi \sim N(0, 1),

    with a random direction :math:`w` of length one. The best predictions of group
    :math:`a` therefore have the distribution :math:`N(m_a, s_a^2)`.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=5
        Number of features.
    shifts : sequence of float, default=(-0.5, 0.0, 0.5)
        Mean :math:`m_a` of each group's best predictions; as many groups as shifts.
    scales : float or sequence of float, default=1.0
        Standard deviation :math:`s_a` of each group's best predictions, above 0.
    weights : sequence of float or None, default=None
        Share of each group, normalised to sum 1. None: equal shares.
    noise : float, default=0.5
        Standard deviation :math:`\sigma` of the target around the best prediction.
    return_optimal : bool, default=False
        Whether to return the best predictions as well.
    random_state : int, RandomState instance or None, default=None
        Fixes the direction and the rows.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Features; the group is not among them.
    y : ndarray of shape (n_samples,)
        Target.
    sensitive : ndarray of shape (n_samples,), int
        Groups 0 to ``len(shifts) - 1``.
    optimal : ndarray of shape (n_samples,)
        Best predictions :math:`f^*(X, a)`, only if `return_optimal`.

    See Also
    --------
    make_biased_mixture : Classification with several classes.

    Notes
    -----
    Known answers in the population, with group shares :math:`p_a`: the 2-Wasserstein
    distance between the best predictions of two groups is
    :math:`\sqrt{(m_a - m_b)^2 + (s_a - s_b)^2}`; for equal scales their
    Kolmogorov-Smirnov distance is :math:`2 \Phi(|m_a - m_b| / (2 s)) - 1` (0.383 with
    the defaults). The best predictions with equal distributions in all groups are
    :math:`\bar s\, w^\top X + \bar m` with :math:`\bar m = \sum_a p_a m_a` and
    :math:`\bar s = \sum_a p_a s_a` [1]_; their cost is a mean squared error larger by
    :math:`\sum_a p_a ((m_a - \bar m)^2 + (s_a - \bar s)^2)`, 0.1667 with the defaults.

    References
    ----------
    .. [1] E. Chzhen, C. Denis, M. Hebiri, L. Oneto, M. Pontil, "Fair regression with
       Wasserstein barycenters", NeurIPS 2020.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_biased_regression
    >>> X, y, sensitive = make_biased_regression(100, random_state=0)
    >>> X.shape, y.shape, sorted(set(sensitive.tolist()))
    ((100, 5), (100,), [0, 1, 2])
    """
    rng = check_random_state(random_state)
    shifts = np.asarray(shifts, dtype=float)
    scales = np.asarray(scales, dtype=float)
    weights = np.ones(len(shifts)) if weights is None else np.asarray(weights, float)
    if scales.shape not in ((), shifts.shape) or weights.shape != shifts.shape:
        raise ValueError("scales and weights must have one entry for each of shifts.")
    if weights.min(initial=0) < 0 or not weights.sum() > 0:
        raise ValueError("weights must not be negative, nor all zero.")
    scales = np.broadcast_to(scales, shifts.shape)

    direction = rng.normal(size=n_features)
    direction /= np.linalg.norm(direction)
    sensitive = rng.choice(len(shifts), size=n_samples, p=weights / weights.sum())
    X = rng.normal(size=(n_samples, n_features))
    optimal = scales[sensitive] * (X @ direction) + shifts[sensitive]
    y = optimal + noise * rng.normal(size=n_samples)
    if return_optimal:
        return X, y, sensitive, optimal
    return X, y, sensitive
