"""Logistic regression with a Wasserstein penalty between groups, privately."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassifierMixin

from .._door.estimator import MIN_RECORDS, DPEstimator
from .._door.groups import blind_X
from .._door.labels import encode_labels, public_classes
from .._shared.callers import warn_caller
from .._shared.domain import same_length
from .._shared.sklearn import Interval, StrOptions, fit_context
from .._training._bounded import (
    BOUNDED_CONSTRAINTS,
    BoundedLinearMixin,
    check_blind,
    class_probabilities,
    most_probable,
)
from .._training._constant import class_totals, constant_plan, released_constant
from .._training._counts import (
    SIZES_PUBLIC,
    Sizes,
    StratumCounts,
    asked_again,
    public_sizes,
    shares,
    telling_records,
)
from .._training._noisy_gradients import NoisyGradientsMixin
from .._training._penalty import GroupPenalty, most_records, projection_directions
from .._training._progress import Progress, with_callbacks
from .._wall import (
    Fact,
    Rows,
    calibrate_gaussian,
    noise_source,
    read_rows,
    refuse_many_rows,
)
from ._bounded_slope import (
    at_constant,
    at_normal,
    entropies,
    flattening,
    linked,
    linked_with_slopes,
    scores_of,
)
from ._gradient_plan import (
    NOMINAL_RECORDS,
    GradientPlan,
    Strata,
    gradient_plan,
    intercept_column,
    line_search_oracle,
    noisy_curvature,
)
from ._line_search import LineSearch
from ._objective import Optimum
from ._preconditioned import (
    CLASSIFICATION_RIDGE,
    LOGISTIC_CURVATURE,
    LOSS_CURVATURE,
    PENALTY_CURVATURE,
    Constant,
    preconditioned_descent,
)
from ._pulls import MOST_STRATA, PULL_CURVATURE, Pulls, noise_multiples
from ._queries import FairGradient, Geometry, LossGradient
from ._ranges import learn_ranges, may_learn, range_counts, scaled_rows

# Line of the plan for the counts of the classes.
_LABELS = "label counts"
# Expected records of a class, times the Gaussian-DP parameter, for features to tell.
LEAST_SIGNAL = 8.0
# Below this number of records times the parameter they hardly ever do.
SIGNAL_OF_FEATURES = 90.0
# A fact that is public where the sizes of groups are.
_SIZES_READ = "the number of records of each group, and label if compared"


class DPWassersteinLogisticRegression(
    NoisyGradientsMixin, BoundedLinearMixin, ClassifierMixin, DPEstimator
):
    r"""Logistic regression with a Wasserstein penalty between groups.

    .. math::
        \min_w\ (1 - \alpha) \frac1n \sum_i \ell(w; x_i, y_i)
        + \alpha\, P\big(\eta_w(X) \mid \text{groups}\big)
        + r\, \frac{\|w\|^2}{2 n C},

    a distance P between the groups' distributions of the predicted probability
    :math:`\eta_w`, by noisy gradient descent [1]_ in the metric of noisy second
    moments. No sensitive feature is needed at prediction. The loss is the logistic loss
    with its slope cut off at 1/2 [2]_, whose scores s mean :math:`\eta = 2 p / (1 + 2
    p)`, p the logistic of s, below 1/2, and mirrored above; more than two classes one
    versus the rest, a record's slopes together not longer than :math:`\sqrt{1/2}`.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y, a), composed exactly: noisy counts of
    A columns (once or twice, together a twentieth of the squared Gaussian-DP parameter,
    a record changes them by :math:`\sqrt{2 A}`; only where `bounds` alone scale the
    features and a rule of public numbers says that they tell the ranges inside), noisy
    counts of the classes (3 to 30 %), noisy second
    moments of the features (a tenth, left out by a rule of public numbers where
    they would tell nothing), then `max_iter` full-batch gradients with Gaussian
    noise, and without batches two releases along the slopes that tell how far to
    go (3 to 20 %; a record changes them by 2 / n); or as many counts again
    where those before say that features would only bring noise. With rows of norm at
    most R and K = 1 output for two classes, else one for each, replacing a record, its
    group included, changes the gradients of the loss and of the penalty, and the sums
    of the outputs' slopes over each group, by at most

    .. math::
        \Delta_1 = \frac{\sqrt{\min(K, 2)}\, R}{n}, \quad
        \Delta_2 = \frac{R}{6 \sqrt K}\, \frac{8 \kappa}{n}, \quad
        \Delta_3 = \frac{\sqrt K R}{3 n},

    without clipping gradients: :math:`\kappa = 2` for two groups that are compared as a
    whole, and :math:`2 S / (S - 1)` for S groups else. They are released side by side,
    in public multiples: of the penalty's gradient only what the sums span is used. Of
    ``penalty="pairs"`` and of the other relations the user guide speaks. Public:
    `groups`, `classes`, `bounds`, `data_norm`, all parameters, and n under
    "replace_one". Under "add_remove" n is replaced by a noisy count.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget. Range: (0, inf]. Infinity adds no noise; the objective, then
        with the logistic (softmax) loss itself and its probabilities, is minimised by
        L-BFGS to convergence.
    {delta}
    fairness_weight : float, default=0.5
        Weight alpha of the penalty. Range: [0, 1]. With 0 the model is a private
        logistic regression, and sensitive features may be left out.
    constraint : {"demographic_parity", "equalized_odds"}, default="demographic_parity"
        Compare the groups as a whole, or the groups inside each label.
    penalty : {"barycenter", "pairs"}, default="barycenter"
        Squared 2-Wasserstein distances to the groups' barycentre, weighted by the
        shares of the groups: the noise does not know how small a group is. Or the mean
        over all pairs of groups, in which a small group counts as much as a large one
        and sets the noise of all. Equal for two groups of one size.
    C : float, default=1.0
        Inverse strength of the penalty of the weights, as in
        :class:`~sklearn.linear_model.LogisticRegression` fitted on the scaled
        features; the intercept is free. With noise the loss bends half as much, and r
        is :math:`\alpha + (1 - \alpha) s / 2`, s the mean squared distance of rows from
        their mean, as released, by the square of `data_norm`; without noise r is 1.
        Range: [1e-100, 1e100].
    {fit_intercept}
    {bounds}
    data_norm : float, default=None
        Public bound of the Euclidean norm of a scaled row; longer rows are shortened.
        None: 1 without `bounds`, as
        :class:`~fairpriv_sklearn.preprocessing.DPTableEncoder` scales rows; with them a
        norm that few rows of independent uniform features exceed,
        :math:`\sqrt{d/3 + 0.6 \sqrt d}`, at most :math:`\sqrt d`, and
        :math:`\sqrt d`, no shortening, if `epsilon` is infinite. With a number no
        ranges are learnt inside `bounds`. Range: [1e-50, 1e50].
    {classes}
    class_weight : dict, default=None
        Public weights ``{label: weight}`` of the classes in the loss, 1 where none is
        given, relative to the largest. Weights of single records are private and not
        offered.
    max_iter : int, default=None
        Number of gradients that are released, all of them always. None: 10 to 40, by a
        rule of n and `epsilon` ("add_remove": of `epsilon`); 100 with `batch_size`.
    learning_rate : float, default=None
        Length of the steps in units of the preconditioned one. None is 1. Range: [1e-6,
        1e6].
    average : bool, default=True
        Whether each step minimises the model of all gradients so far, later ones
        counting more, the less noise the more, which averages the noise out; or of the
        last one alone.
    batch_size : int, default=None
        None uses all records in every step, which has the least noise. A number draws
        about so many, without replacement inside each group; for large tables. One of
        each group at least, so that the smallest decides how much noise there is. Needs
        ``group_sizes_public=True`` unless `fairness_weight` is 0.
    group_sizes_public : bool, default=False
        Whether the number of records of each group (and label, for equalized odds) is
        public. The guarantee is then for replacing a record inside its group.
    min_group_size : int, default=None
        For ``penalty="pairs"``: public least size of the groups (with equalized odds:
        of every group and label), in place of noisy counts. Range: [1, 4194304].
    n_projections : int, default=None
        Number of random directions along which probability vectors of more than two
        classes are compared. None compares class by class, with less noise. Range:
        [1, 512].
    {min_records}
    {neighboring}
    {sensitive_features}
    {groups}
    {ledger}
    {random_state}
    {verbose}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights per unit of the original features, inside `bounds` and `data_norm`.
    coef_covariance_ : ndarray of shape (n_outputs, n_features, n_features) or None
        Of the errors of `coef_`, see `coef_interval`. None where they are not known:
        with a penalty, batches or weights of classes, for constant models, with more
        than 1,000 columns, and where noise hides .4 of the features' variance.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    groups_ : ndarray of shape (n_groups,)
        Only if there are sensitive features.
    n_iter_ : int
        Number of gradients, or counts in their place, that were released; 0 without
        noise.
    link_ : {"bounded slope", "logistic"}
        What turns scores into probabilities; "logistic" without noise.
    bounds_ : ndarray of shape (2, n_features) or None
        To which features are clipped: `bounds`, or the ranges learnt inside.
    data_norm_ : float
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Raises
    ------
    ValueError
        If there are no sensitive features although `fairness_weight` is positive, a
        label or group is not in its public list, or arguments contradict each other.

    Warns
    -----
    PrivacyLeakWarning
        If `groups` or `classes` are read from the data.
    UserWarning
        If a data frame that no encoder of ours gave comes without `bounds` and
        `data_norm`. If batches hold all of a group, and of others not.

    See Also
    --------
    fairpriv_sklearn.postprocessing.DP2DPClassifier : Parity by post-processing; needs
        the sensitive feature at prediction.

    Notes
    -----
    The last step picks the ridge with the smallest estimate of the error, the noise
    taken into account; where none promises to be better than the constant model by
    more than noise would, the slopes fade to zero. Features, and the coefficients of
    the records in the gradient, are rounded to public grids on which sums are exact
    in floating point, for up to 5e7 records with a penalty. Constants were
    chosen on simulated tables and the data sets Adult and Credit default, one with
    Communities in view. Progress
    goes to the callbacks of scikit-learn 1.9 and later.

    References
    ----------
    .. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes, "Learning with
       Differentially Private (Sliced) Wasserstein Gradients", arXiv:2502.01701, 2025.

    .. [2] S. Song, T. Steinke, O. Thakkar, A. Thakurta, "Evading the Curse of
       Dimensionality in Unconstrained Private GLMs", AISTATS, 2021.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_spurious_bias
    >>> from fairpriv_sklearn.linear_model import DPWassersteinLogisticRegression
    >>> X, y, group = make_spurious_bias(20000, random_state=0)
    >>> model = DPWassersteinLogisticRegression(
    ...     fairness_weight=0.75,
    ...     bounds=(-10, 10),
    ...     classes=[0, 1],
    ...     groups=[0, 1],
    ...     random_state=0,
    ... ).fit(X, y, sensitive_features=group)
    >>> model.score(X, y) > 0.7
    True
    >>> rates = [model.predict(X)[group == a].mean() for a in (0, 1)]
    >>> print(abs(rates[0] - rates[1]) < 0.2)
    True
    """

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-5,
        fairness_weight=0.5,
        constraint="demographic_parity",
        penalty="barycenter",
        C=1.0,
        fit_intercept=True,
        bounds=None,
        data_norm=None,
        classes=None,
        class_weight=None,
        max_iter=None,
        learning_rate=None,
        average=True,
        batch_size=None,
        group_sizes_public=False,
        min_group_size=None,
        n_projections=None,
        min_records=None,
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
        verbose=0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.fairness_weight = fairness_weight
        self.constraint = constraint
        self.penalty = penalty
        self.C = C
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.data_norm = data_norm
        self.classes = classes
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.average = average
        self.batch_size = batch_size
        self.group_sizes_public = group_sizes_public
        self.min_group_size = min_group_size
        self.n_projections = n_projections
        self.min_records = min_records
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    _renamed = {"n_directions": "n_projections"}

    _reads_batches = True
    _can_resume = True
    _signal_of_features = SIGNAL_OF_FEATURES
    _of_fit = (
        *("_scaling", "_facts", "_class_weights", "_shape"),
        *("_n_model_features", "_learns"),
    )

    _parameter_constraints = {
        **NoisyGradientsMixin._parameter_constraints,
        **MIN_RECORDS,
        "fit_intercept": BOUNDED_CONSTRAINTS["fit_intercept"],
        "constraint": [StrOptions({"demographic_parity", "equalized_odds"})],
        "C": [Interval(Real, 1e-100, 1e100, closed="both")],
        "classes": [None, "array-like"],
        "learning_rate": [None, Interval(Real, 1e-6, 1e6, closed="both")],
        "max_iter": [None, Interval(Integral, 1, None, closed="left")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "group_sizes_public": ["boolean"],
        "n_projections": [None, Interval(Integral, 1, 512, closed="both")],
        "penalty": [StrOptions({"pairs", "barycenter"})],
        "class_weight": [None, dict],
    }

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sensitive_features=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float64 or float32.
        y : array-like of shape (n_samples,)
            Labels out of `classes`.
        sensitive_features : array-like of shape (n_samples,) or \
                (n_samples, n_attributes), default=None
            Group labels out of `groups`; not needed at prediction.

        Returns
        -------
        self : object
            The fitted model.
        """
        self._check_relation()
        noise = noise_source(self.random_state)
        rows = read_rows(self._read, X, y, sensitive_features)
        if self.epsilon == np.inf:
            self._fit_without_noise(rows, noise)
        elif self.fit_intercept and self._has_few_records(rows.n_rows):
            self._fit_constant(rows, noise)
        else:
            self._fit_privately(rows, noise)
        return self

    def decision_function(self, X) -> np.ndarray:
        """Compute scores of rows clipped and scaled by the public bounds as in `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With or without the columns that the constructor names as sensitive.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Of the second class, or one score per class; linear in the features.
            Probabilities are those of :meth:`predict_proba`.
        """
        self._check_is_fitted()
        scores = self._linear_scores(check_blind(self, blind_X(self, X)))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        scores = self.decision_function(X)
        if self.link_ == "logistic":
            return class_probabilities(scores)
        probabilities = linked(scores)
        if scores.ndim == 1:
            return np.column_stack([1 - probabilities, probabilities])
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def predict(self, X) -> np.ndarray:
        """Most probable classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return most_probable(self.decision_function(X), self.classes_)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        self._check_relation()
        if self.classes is not None:
            self._weights_of(public_classes(self.classes))

    @property
    def _reads_codes(self) -> bool:
        """Whether rows may be held as codes: they are read one after the other."""
        is_plain = self.batch_size is None and self.sensitive_features is None
        return is_plain and self.epsilon < np.inf

    def _check_relation(self) -> None:
        if self.group_sizes_public and self.neighboring == "add_remove":
            raise ValueError(
                "group_sizes_public=True contradicts neighboring='add_remove', which "
                "protects the group sizes."
            )
        if self.batch_size is None:
            return
        if self.neighboring == "add_remove":
            raise ValueError(
                "batch_size needs neighboring='replace_one': batches are drawn without "
                "replacement from a table of public size."
            )
        if self.fairness_weight > 0 and not self.group_sizes_public:
            raise ValueError(
                "batch_size needs group_sizes_public=True: batches are drawn inside "
                "groups of public size. The default, batch_size=None, keeps the sizes "
                "private, with less noise."
            )

    def _relation(self) -> str:
        if not self.group_sizes_public:
            return self.neighboring
        by_label = self.constraint == "equalized_odds"
        return "replace_one_in_cell" if by_label else "replace_one_in_group"

    def _read(self, X, y, sensitive_features) -> dict:
        """Private columns of a table; what is public about it goes to the estimator."""
        groups, X, facts = self._fit_groups(X, sensitive_features)
        X = check_blind(self, X)
        labels, self.classes_, fact = encode_labels(y, self.classes)
        same_length(X, labels)
        self._scaling, more_facts = self._public_scaling(X)
        self._facts = [*facts, fact, *more_facts]
        self._class_weights = self._weights_of(self.classes_)
        if self.class_weight is not None:
            self._facts.append(Fact("class_weight", self.class_weight))
        if self._relation() in SIZES_PUBLIC:
            self._facts.append(_SIZES_READ)
        codes = self._strata(groups, len(labels), labels)
        if self.fairness_weight == 0 and not self.group_sizes_public:
            codes[:] = 0  # nobody is compared: batches are of all records alike
        self._n_model_features = X.shape[1]
        self._learns = may_learn(self, X)
        if self.epsilon < np.inf:
            X = scaled_rows(X, self._scaling, learns=self._learns)
        return {"x": X, "y": labels, "stratum": codes}

    def _weights_of(self, classes):
        """Weights of the classes relative to the largest."""
        weights = np.ones(len(classes))
        for label, weight in (self.class_weight or {}).items():
            at = np.flatnonzero(classes == label)
            proper = isinstance(weight, Real) and 0 < weight < np.inf
            if len(at) != 1 or not proper:
                raise ValueError(
                    "class_weight must map labels out of classes to positive numbers, "
                    f"got {self.class_weight!r}; 'balanced' would read the data."
                )
            weights[at] = weight
        return weights / weights.max()

    def _fit_privately(self, rows: Rows, noise) -> None:
        strata = None if self.batch_size is None else self._batch_strata(rows)
        if self.fairness_weight > 0:
            n_summed = rows.n_rows if strata is None else strata.drawn.sum()
            refuse_many_rows(n_summed, most_records(self._shape[1]))
        # Under add/remove the rules of public numbers assume a table of some size.
        counted = self._relation() == "add_remove"
        n_assumed = NOMINAL_RECORDS if counted else rows.n_rows
        signal = n_assumed * calibrate_gaussian(self.epsilon, self.delta)
        self._scaling = intercept_column(self._scaling, signal)
        shape = self._n_model_features, self._n_outputs
        geometry = Geometry.scaled(self._scaling, *shape)
        ranges = range_counts(self._scaling, signal) if self._learns else None
        plan = self._plan(geometry, n_assumed, strata, ranges)
        wall = self._open(plan.lines, noise, plan.n_steps)
        directions = self._directions(wall, geometry.n_outputs)
        known = {"n_counts": plan.n_counts, "min_group_size": self.min_group_size}
        sizes = public_sizes(wall, rows, self._shape, **known)
        told = wall, rows, self._scaling, ranges, sizes.n_records
        rows, self._scaling = learn_ranges(*told)
        constant, is_known, covariance = None, False, None
        if plan.has_constant:
            constant, is_known = self._constant(wall, rows, plan, sizes.n_records)
        if is_known:
            weights = np.zeros((geometry.n_columns, geometry.n_outputs))
            weights[-1] = constant.intercept / geometry.constant
        else:
            query = self._gradient_query(geometry, sizes, strata, directions)
            told = wall, rows, plan, geometry, query, sizes.n_records, constant
            weights, covariance = self._descend(*told, strata)
        self._publish_fit(weights, plan.n_steps, "bounded slope", wall, covariance)

    def _directions(self, wall, n_outputs: int):
        """Public directions on which several outputs are compared, if on any."""
        if n_outputs == 1 or self.n_projections is None:
            return None
        shape, public = (n_outputs, self.n_projections), wall.noise.public()
        return projection_directions(wall.public(lambda: public.standard_normal(shape)))

    def _descend(
        self, wall, rows: Rows, plan, geometry: Geometry, query, n_records, constant,
        strata,
    ):  # fmt: skip
        """Weights by noisy gradients, and the covariance of their errors, if known."""
        alpha, has_batches = self.fairness_weight, strata is not None
        factor = self._bend(query)
        curvature = noisy_curvature(wall, rows, geometry, n_records, plan, factor)
        noise_of_one, pulls = wall.scale(query), None
        if alpha > 0:
            noise_of_one *= query.relative_noise(alpha)
            bend = alpha * PULL_CURVATURE / (self.learning_rate or 1.0)
            pulls = Pulls(curvature.matrix / factor, bend, self.average)
        progress = Progress(self, plan.n_steps)

        def noisy_gradient(weights):
            batch = strata.draw(wall, rows) if has_batches else rows
            released = wall.release(query, batch, weights)
            progress.step()
            if pulls is None:
                return released
            of_loss, of_penalty, slopes = query.parts(released)
            pulls.add(alpha * of_penalty, slopes, weights)
            return (1 - alpha) * of_loss

        def at_scores(means, variances):
            squares, slopes = at_normal(means, variances)
            return squares / n_records, slopes, *flattening(means, variances)

        # The sampling error of the penalty, and of weighted classes, is not worked out.
        is_plain = alpha == 0 and not has_batches and self.class_weight is None
        level = np.zeros(geometry.n_outputs)
        worth = entropies(level if constant is None else constant.intercept)
        search = None
        if not has_batches:
            search = LineSearch(
                line_search_oracle(wall, rows, query),
                worth=worth,
                curvature=LOSS_CURVATURE,
                spread=1.0,
                lengthens=alpha == 0,
            )
        found = preconditioned_descent(
            noisy_gradient,
            curvature,
            n_outputs=geometry.n_outputs,
            ridge=self._ridge(curvature.fill(geometry.data_norm), geometry, n_records),
            noise=noise_of_one,
            max_iter=plan.n_steps,
            average=self.average,
            noise_ridge=CLASSIFICATION_RIDGE,
            constant=constant,
            at_scores=at_scores if is_plain else None,
            pulls=pulls,
            search=search,
            worth=worth if alpha == 0 and not has_batches else None,
        )
        progress.close()
        return found

    def _bend(self, query) -> float:
        """How much the objective is taken to bend, per second moment of the rows."""
        alpha = self.fairness_weight
        factor = max(1 - alpha, 1e-3) * LOSS_CURVATURE
        # Many strata leave open where the penalty bends: everywhere, then.
        if alpha > 0 and not query.n_strata:
            factor += alpha * PENALTY_CURVATURE
        return factor / (self.learning_rate or 1.0)

    def _ridge(self, fill: float, geometry: Geometry, n_records: float) -> np.ndarray:
        """Penalty of each weight: as strong as beside the logistic loss.

        And in ranges of any width: in those that more budget makes wider it would weigh
        more. `fill` is the part of the squared norm that rows are told to have.
        """
        alpha, size = self.fairness_weight, LOSS_CURVATURE / LOGISTIC_CURVATURE * fill
        size = alpha + (1 - alpha) * size
        ridge = min(1e50, size / (self.C * n_records))
        ridge = np.full(geometry.n_columns, ridge)
        if self.fit_intercept:
            ridge[-1] = 0.0
        return ridge

    def _plan(
        self, geometry: Geometry, n_assumed: float, strata, ranges=None
    ) -> GradientPlan:
        """What is released, at which share of the budget; public numbers only."""
        n_parts = 1 if self.fairness_weight == 0 else 2 + self._n_strata()
        n_weights = n_parts * geometry.n_columns * geometry.n_outputs
        if strata is not None:
            return strata.plan(
                self.epsilon, self.delta, self.max_iter or 100, n_weights, ranges
            )
        constant = {_LABELS: len(self.classes_)}
        return gradient_plan(
            geometry,
            epsilon=self.epsilon,
            delta=self.delta,
            n_assumed=n_assumed,
            n_counts=self._n_counts(),
            max_iter=self.max_iter,
            ranges=ranges,
            constant=constant if self.fit_intercept else None,
            n_parts=n_parts,
        )

    def _constant(self, wall, rows: Rows, plan: GradientPlan, n_records: float):
        """The constant model, and whether all that is left of the budget told it.

        It does where even the class that is told apart best has too few records for
        the noise: what was released says so.
        """
        query, rows = StratumCounts(len(self.classes_), "y"), rows.only("y")
        lines = [line for line in plan.lines if line.name == _LABELS]
        noisy, noise = asked_again(wall, rows, query, lines)
        signal = telling_records(noisy, n_records, noise)
        is_known = signal < max(LEAST_SIGNAL / plan.mu, 3 * noise)
        if is_known:
            told = noisy, noise
            noisy, noise = asked_again(wall, rows, query, plan.of_features, told=told)
        weighted = self._weighted(shares(noisy, n_records, noise))
        squares, curvature = at_constant(weighted)
        scores = scores_of(weighted)
        _, link_slopes = linked_with_slopes(scores)
        spread = noise / n_records * math.sqrt(0.5) / link_slopes
        constant = Constant(scores, spread**2, squares / n_records, curvature)
        return constant, is_known

    def _fit_constant(self, rows: Rows, noise) -> None:
        """Only the shares of the classes."""
        query = class_totals(len(self.classes_))
        wall = self._open(constant_plan(query, self.epsilon), noise)
        scores = scores_of(self._weighted(released_constant(wall, rows, query)))
        weights = np.zeros((self._n_model_features + 1, self._n_outputs))
        weights[-1] = scores / self._scaling.constant
        self._publish_fit(weights, 0, "bounded slope", wall)

    def _weighted(self, found):
        """Shares of the classes in the loss, one for each output."""
        weighted = found * self._class_weights
        return (weighted / weighted.sum())[-self._n_outputs :]

    def _fit_without_noise(self, rows: Rows, noise) -> None:
        n_weights = (self._n_model_features + self.fit_intercept) * self._n_outputs
        about_rows = self._scaling, self._class_weights, self._shape
        about_loss = self.penalty, self.fairness_weight, self.C
        query = Optimum(n_weights, *about_rows, *about_loss)
        wall = self._open([query.line(np.inf)], noise)
        self._publish_fit(wall.release(query, rows), 0, "logistic", wall)

    def _publish_fit(self, weights, n_steps, link: str, wall, covariance=None) -> None:
        """Publish what the wall released."""
        self._publish_linear(weights, self._scaling, covariance)
        self.n_iter_, self.link_ = n_steps, link
        self.privacy_ = wall.guarantee()

    def _n_strata(self) -> int:
        """Strata whose slopes are released beside the penalty's gradient."""
        n_strata = math.prod(self._shape)
        return n_strata if n_strata <= MOST_STRATA else 0

    def _n_counts(self) -> int:
        """Noisy counts that are released first: one per stratum, the total, or none."""
        relation = self._relation()
        if relation in SIZES_PUBLIC:
            return 0
        pairs = self.fairness_weight > 0 and self.penalty == "pairs"
        if pairs and self.min_group_size is None:
            return math.prod(self._shape)
        return int(relation == "add_remove")

    def _gradient_query(self, geometry, sizes: Sizes, strata, directions):
        """What is asked in every step."""
        weights = None
        if strata is not None:
            sizes, weights = strata.batch_sizes(self._shape), strata.stratum_weights()
        common = (geometry, sizes.n_records, self._class_weights, weights)
        if self.fairness_weight == 0:
            return LossGradient(*common)
        penalty = GroupPenalty(
            self._shape, self.penalty, sizes.min_sizes, sizes.n_records, directions
        )
        query = FairGradient(*common, penalty=penalty)
        multiples = noise_multiples(
            query, self.fairness_weight, self._relation(), self._n_strata()
        )
        return replace(query, multiples=multiples)

    def _batch_strata(self, rows: Rows) -> Strata:
        """The public groups from which batches are drawn."""
        stratum = rows.only("stratum").whole().stratum
        strata = Strata.proportional(stratum, math.prod(self._shape), self.batch_size)
        is_part = strata.drawn.sum() < rows.n_rows
        if is_part and strata.rate == 1 and self.epsilon < np.inf:
            warn_caller(
                "Batches hold all records of a group whose public size is small. "
                "Nothing is gained by drawing then: the noise is that of max_iter "
                "steps with all records. Join groups, or leave batch_size out.",
                UserWarning,
            )
        return strata
