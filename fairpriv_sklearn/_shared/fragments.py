"""Parameter descriptions that several estimators share, one wording each.

A line ``{name}`` of a class docstring is replaced by the fragment of that name.
"""

from __future__ import annotations

import inspect
import re

FRAGMENTS = {
    "activation": """\
activation : {"identity", "logistic", "tanh", "relu"}, default="tanh"
    Of the hidden layers.
""",
    "alpha": """\
alpha : float, default=1e-4
    Strength of the L2 penalty of the weights, added to the mean loss as
    alpha / 2 times their squared norm; biases are free. Range: [0, 1000].
""",
    "average": """\
average : bool, default=True
    Whether to average the second half of the iterates, which averages noise out.
""",
    "bounds": """\
bounds : tuple (low, high), default=None
    Public bounds of the features, each a number or an array of shape
    (n_features,), in units of the features. Features are clipped to them, centred,
    and scaled to [-1, 1]. None: features are taken as they are.
""",
    "bounds_2": """\
bounds : tuple (low, high), default=None
    Public bounds of the features, numbers or arrays of shape (n_features,), in
    units of the features. Features are clipped to them, centred, and scaled to
    [-1, 1]. None: features are taken as they are.
""",
    "calibration_size": """\
calibration_size : float, default=0.25
    Chance of a row to calibrate. Range: (0, 1).
""",
    "classes": """\
classes : array-like of shape (n_classes,), default=None
    Public list of the labels. None reads it from the data, with a
    `PrivacyLeakWarning`.
""",
    "classes_2": """\
classes : array-like, default=None
    Public list of the labels. None: read from the data, with a
    `PrivacyLeakWarning`.
""",
    "classes_3": """\
classes : array-like of shape (n_classes,), default=None
    Public list of labels, for disparities. None takes the estimator's own list.
""",
    "clip_norm": """\
clip_norm : float, default=1.0
    Bound C of the Euclidean norm of one record's loss gradient; longer ones are
    shortened. Public. Range: (0, inf).
""",
    "coverage": """\
coverage : float, default=0.8
    Probability with which "repeat" tries at least one of the best tenth of the
    candidates (of fewer than twenty: the best one). More takes more runs and
    leaves less to each. Range: (0, 1).
""",
    "data_norm": """\
data_norm : float, default=None
    Public bound of the Euclidean norm of a scaled row; longer rows are shortened.
    None: 1 without `bounds`, as
    :class:`~fairpriv_sklearn.preprocessing.DPTableEncoder` scales rows; with them
    the square root of the number of features, which shortens none. The noise does
    not depend on it.
""",
    "delta": """\
delta : float, default=1e-5
    Range: (0, 1).
""",
    "delta_2": """\
delta : float, default=1e-5
    Probability that the budget is exceeded. Range: (0, 1).
""",
    "epsilon": """\
epsilon : float, default=1.0
    Privacy budget. Range: (0, inf]; infinity adds no noise.
""",
    "epsilon_2": """\
epsilon : float, default=1.0
    Privacy budget. Range: (0, inf]. Infinity adds no noise.
""",
    "epsilon_3": """\
epsilon : float, default=1.0
    Privacy budget. Range: (0, inf]; inf means no noise.
""",
    "epsilon_4": """\
epsilon : float, default=1.0
    Privacy budget of the whole search. Range: (0, inf]; infinity adds no noise.
""",
    "estimator": """\
estimator : estimator
    A private classifier or regressor, or a pipeline that holds one. Its epsilon,
    delta, ledger and random_state are set by the search.
""",
    "estimation": """\
estimation : {"auto", "smooth", "isotonic"}, default="auto"
    How distributions are estimated from the noisy counts. "smooth" treats each group
    as a smooth share of the pooled distribution; "isotonic" is the published method,
    for comparison. "auto" is "smooth" where there is noise; without it the counts are
    taken as they are, so that the tolerance holds for the calibration rows themselves.
""",
    "fairness_weight": """\
fairness_weight : float, default=0.5
    Weight alpha of the penalty. Range: [0, 1]. With 0 the network is private and
    plain, and sensitive features may be left out.
""",
    "fit_intercept": """\
fit_intercept : bool, default=True
    Whether to add an intercept. Without one the score is zero at the centre of
    `bounds`.
""",
    "groups": """\
groups : array-like of shape (n_groups,), default=None
    Public list of the groups; a last entry ``"..."`` stands for all other labels.
    None reads it from the data, with a `PrivacyLeakWarning`.
""",
    "groups_2": """\
groups : array-like of shape (n_groups,), default=None
    Public list of groups, tuples for intersections; a last entry ``"..."`` stands
    for all other labels. None takes it from the data, with a warning.
""",
    "groups_3": """\
groups : array-like of shape (n_groups,), default=None
    Public list of groups, for disparities. None takes the estimator's own list.
""",
    "hidden_layer_sizes": """\
hidden_layer_sizes : array-like of int, default=(16,)
    Widths of the hidden layers. Every weight gets its noise: fewer are better.
""",
    "holdout_size": """\
holdout_size : float, default=0.2
    Chance of a row to be held out. Range: (0, 1).
""",
    "jitter": """\
jitter : float, default="auto"
    Standard deviation of white noise added to every sample, as a fraction of
    each column's range. "auto": 0.1 if the basis leaves directions out, else 0.
""",
    "learning_rate": """\
learning_rate : float, default=1.0
    Largest step size. Gradient descent takes smaller steps where the noise, whose
    size is public, would carry the network away. About 0.03 suits Adam. Range:
    (0, 1000].
""",
    "group_guarantee": """\
group_guarantee : PrivacyGuarantee, "public" or None, default=None
    Blind only: what fitting `group_estimator` costs, if it does not say so itself.
""",
    "ledger": """\
ledger : PrivacyLedger, default=None
    Where the budget is taken from.
""",
    "ledger_2": """\
ledger : PrivacyLedger, default=None
    Budget that `fit` reserves its cost from.
""",
    "ledger_3": """\
ledger : PrivacyLedger, default=None
    Budget that pays for the whole search, once, before the first fit. The
    candidates get none.
""",
    "max_iter": """\
max_iter : int, default=100
    Number of gradients that are released, all of them always.
""",
    "method": """\
method : {"auto", "repeat", "compose"}, default="auto"
    "auto" takes the way that leaves a single fit the larger budget, computed
    beforehand from public numbers: as a rule "repeat" from five candidates on.
""",
    "min_group_size": """\
min_group_size : int, default=None
    Public minimum of the group sizes, in place of noisy counts. Range:
    [1, 4194304].
""",
    "min_records": """\
min_records : int, default=None
    Below this public number of records .99 of `epsilon` tells a constant, with discrete
    Laplace noise, and nothing is learnt of the features. None, and under "add_remove":
    never. :func:`~fairpriv_sklearn.privacy.with_budget` sets it.
""",
    "momentum": """\
momentum : float, default=0.9
    For ``solver="sgd"``. Range: [0, 1).
""",
    "neighboring": """\
neighboring : {"replace_one", "add_remove"}, default="replace_one"
    Which tables are neighbours.
""",
    "neighboring_2": """\
neighboring : {"replace_one", "add_remove"}, default="replace_one"
    Which tables count as neighbours.
""",
    "neighboring_3": """\
neighboring : {"replace_one", "add_remove"}, default="replace_one"
    Neighbouring relation of the guarantee.
""",
    "neighboring_4": """\
neighboring : {"replace_one", "add_remove"}, default="replace_one"
    Which tables count as neighbours. The estimator must name the same.
""",
    "output_refinement": """\
output_refinement : int, default=3
    Number of output values per bin. Range: [1, 100].
""",
    "random_state": """\
random_state : int, RandomState instance or None, default=None
    None draws secure noise. An int makes the fit reproducible and not private.
""",
    "random_state_2": """\
random_state : int, RandomState, Generator or None, default=None
    None: secure noise. Anything else makes fit and samples reproducible, and
    the noise no longer secret.
""",
    "random_state_3": """\
random_state : int, RandomState instance or None, default=None
    None draws the split, candidates and noise from the operating system. Anything
    else is reproducible and hence not private; `privacy_` says so.
""",
    "random_state_4": """\
random_state : int, RandomState instance or None, default=None
    None draws the split and the noise from the operating system. Anything else is
    reproducible and hence not private; `privacy_` says so.
""",
    "refit": """\
refit : bool, default=False
    Whether to fit the winner again on all rows. Otherwise the winner is kept as it
    was trained, which costs nothing more.
""",
    "refit_fraction": """\
refit_fraction : float, default=0.5
    Share of epsilon and delta that is kept for the new fit. Range: (0, 1).
""",
    "scoring": """\
scoring : str, BoundedScore or ConstrainedScore, default=None
    "accuracy", "neg_error_rate", "neg_mean_absolute_error",
    "neg_mean_squared_error", "neg_demographic_parity_difference",
    "neg_equalized_odds_difference", "neg_ks_parity_difference", a `BoundedScore`,
    or a `ConstrainedScore` such as the best accuracy with a demographic parity
    difference of at most 0.05. None: accuracy or mean absolute error.
""",
    "sensitive_features": """\
sensitive_features : str, int, list or callable, default=None
    Column(s) of X that hold the sensitive features, which the model then does not
    use, or a callable ``X -> labels`` that labels each row on its own. None: they
    are passed to `fit`.
""",
    "sensitive_features_2": """\
sensitive_features : str, int, list of these, or callable, default=None
    Columns of `X` that hold the sensitive features, or a function of `X` that
    labels each row on its own; the candidates then get `X` without these columns,
    and the labels in the call. None: pass `sensitive_features` to `fit`, or name the
    columns in the estimator's own constructor.
""",
    "sensitive_features_3": """\
sensitive_features : str, int, list of these, or callable, default=None
    Columns of `X` that hold the sensitive features, or a function of `X` that
    labels each row on its own. None: pass `sensitive_features` to `fit` and
    `predict`.
""",
    "solver": """\
solver : {"adam", "sgd"}, default="sgd"
    Gradient descent with momentum, or Adam. Both see noisy gradients only.
""",
    "solver_2": """\
solver : str, default="exact"
    "exact", "cvxpy", or a solver's name; see `transport.fair_barycenter`.
""",
    "target_bounds": """\
target_bounds : pair of float, default=None
    Public range of a regression target; errors are computed after clipping to it.
    None takes it from the data, with a warning, if the score needs it.
""",
    "verbose": """\
verbose : int, default=0
    Whether to print the progress.
""",
}


def with_fragments(doc: str | None) -> str | None:
    """Fill the shared descriptions into a docstring."""
    if doc is None or "{" not in doc:
        return doc
    doc = inspect.cleandoc(doc)

    def fragment(match):
        return FRAGMENTS.get(match[1], match[0]).rstrip("\n")

    return re.sub(r"(?m)^\{(\w+)\}$", fragment, doc)
