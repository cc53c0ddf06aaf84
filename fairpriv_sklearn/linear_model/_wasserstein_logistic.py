"""Logistic regression with a Wasserstein penalty between groups, privately."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from fairpriv_sklearn._base import DPEstimator, encode_labels
from fairpriv_sklearn._groups import blind_X
from fairpriv_sklearn._sklearn import Interval, StrOptions, fit_context
from fairpriv_sklearn._training._bounded import (
    BOUNDED_CONSTRAINTS,
    check_blind,
    class_probabilities,
    most_probable,
)
from fairpriv_sklearn._training._noisy_gradients import (
    Budget,
    Cells,
    NoisyGradientsMixin,
    Sizes,
)
from fairpriv_sklearn._training._penalty import (
    WassersteinPenalty,
    gradient_sensitivity,
    unit_range_directions,
)
from fairpriv_sklearn._training._progress import Progress, with_callbacks
from fairpriv_sklearn.accounting import (
    WithoutReplacementGaussianEvent,
    calibrate_without_replacement,
)
from fairpriv_sklearn.linear_model._descent import accelerated_descent
from fairpriv_sklearn.linear_model._objective import (
    NOISE_RIDGE,
    FairLogisticLoss,
    minimise_without_noise,
)
from fairpriv_sklearn.mechanisms import GaussianMechanism, noise_source


class DPWassersteinLogisticRegression(
    NoisyGradientsMixin, ClassifierMixin, DPEstimator
):
    r"""Logistic regression with a Wasserstein penalty between groups.

    .. math::
        \min_w\ (1 - \alpha) \frac1n \sum_i \ell(w; x_i, y_i)
        + \alpha\, \overline{W_2^2}\big(p_w(X) \mid \text{groups}\big)
        + \frac{\|w\|^2}{2 n C},

    the squared 2-Wasserstein distance between the groups' distributions of the
    predicted probability :math:`p_w`, averaged over all pairs of groups, by noisy
    gradient descent [1]_. No sensitive feature is needed at prediction.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y, a): `max_iter` full-batch gradients with
    Gaussian noise, composed exactly. With rows of norm at most R,
    :math:`R^2 = \text{data\_norm}^2 + 1`, and floors :math:`m_a` of the group sizes,
    replacing a record, its group included, changes a gradient by at most

    .. math::
        \Delta = (1 - \alpha) \frac{2 R}{n}
        + \alpha R \Big(\frac1{m_0} + \frac1{m_1}\Big),

    without clipping gradients. Groups smaller than their floor are filled up with
    public dummy records; the floors come from noisy counts that 1 % of the squared
    Gaussian-DP parameter pays for, or are given. Public: `groups`, `classes`,
    `bounds`, `data_norm`, all parameters, and n under "replace_one". Under
    "add_remove" n is replaced by a noisy count.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget. Range: (0, inf]. Infinity adds no noise; the objective is then
        minimised by L-BFGS to convergence.
    delta : float, default=1e-5
        Range: (0, 1).
    fairness_weight : float, default=0.5
        Weight alpha of the penalty. Range: [0, 1]. With 0 the model is a private
        logistic regression, and sensitive features may be left out.
    constraint : {"demographic_parity", "equalized_odds"}, default="demographic_parity"
        Compare the groups as a whole, or the groups inside each label, averaged over
        the labels.
    C : float, default=1.0
        Inverse strength of the penalty of the weights, as in
        :class:`~sklearn.linear_model.LogisticRegression` fitted on the scaled
        features; the intercept is free.
    fit_intercept : bool, default=True
        Whether to add an intercept. Without one the score is zero at the centre of
        `bounds`.
    bounds : tuple (low, high), default=None
        Public bounds of the features, numbers or arrays of shape (n_features,), in
        units of the features. Features are clipped to them, centred, and scaled to
        [-1, 1]. None: features are taken as they are if `data_norm` is given, else the
        bounds are read from the data, with a `PrivacyLeakWarning`.
    data_norm : float, default=None
        Public bound of the Euclidean norm of a scaled row; longer rows are shortened.
        None: a norm that few rows of independent uniform features exceed,
        :math:`\sqrt{d/3 + 0.6 \sqrt d}`, at most :math:`\sqrt d`; and
        :math:`\sqrt d`, no shortening, if `epsilon` is infinite.
    classes : array-like of shape (n_classes,), default=None
        Public list of the labels. None reads it from the data, with a
        `PrivacyLeakWarning`.
    max_iter : int, default=100
        Number of gradients that are released, all of them always.
    learning_rate : float, default=None
        Step size. None: one over the smoothness constant of the loss, 4 / R^2 for two
        classes and 2 / R^2 for more.
    average : bool, default=True
        Whether to average the second half of the iterates.
    batch_size : int, default=None
        None uses all records in every step, which has the least noise. A number draws
        about so many, without replacement inside each group; for large tables. Needs
        ``group_sizes_public=True`` unless `fairness_weight` is 0.
    group_sizes_public : bool, default=False
        Whether the number of records of each group (and label, for equalized odds) is
        public. The guarantee is then for replacing a record inside its group.
    min_group_size : int, default=None
        Public floor of the group sizes (with equalized odds: of every group and
        label), in place of noisy counts. Range: [1, 4194304].
    n_directions : int, default=10
        Number of random directions along which probability vectors of more than two
        classes are compared.
    neighboring : {"replace_one", "add_remove"}, default="replace_one"
        Which tables are neighbours.
    sensitive_features : str, int, list or callable, default=None
        Column(s) of X that hold the sensitive features, which the model then does not
        use, or a callable ``X -> labels``. None: they are passed to `fit`.
    groups : array-like of shape (n_groups,), default=None
        Public list of the groups. None reads it from the data, with a
        `PrivacyLeakWarning`.
    ledger : PrivacyLedger, default=None
        Where the budget is taken from.
    random_state : int, RandomState instance or None, default=None
        None draws secure noise. An int makes the fit reproducible and not private.
    verbose : int, default=0
        Whether to print the progress.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights per unit of the original features, inside `bounds` and `data_norm`.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    groups_ : ndarray of shape (n_groups,)
        Only if there are sensitive features.
    n_iter_ : int
        `max_iter`.
    bounds_ : ndarray of shape (2, n_features) or None
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
        If `groups`, `classes` or the bounds are read from the data.

    See Also
    --------
    fairpriv_sklearn.postprocessing.DP2DPClassifier : Parity by post-processing; needs
        the sensitive feature at prediction.

    Notes
    -----
    The bound above is four times smaller than the one in [1]_ for two groups of public
    sizes; it rests on averaging the gradient over ties. Weights are also shrunk by a
    ridge that grows with the squared noise, 4 k sigma^2 for k weights and noise sigma
    in the average of all gradients, and descent is accelerated by momentum. Features,
    and the coefficients of the records in the gradient, are rounded to public grids on
    which sums are exact in floating point, for up to 5e7 records. Progress goes to the
    callbacks of scikit-learn 1.9 and later.

    References
    ----------
    .. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes, "Learning with
       Differentially Private (Sliced) Wasserstein Gradients", arXiv:2502.01701, 2025.

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
        C=1.0,
        fit_intercept=True,
        bounds=None,
        data_norm=None,
        classes=None,
        max_iter=100,
        learning_rate=None,
        average=True,
        batch_size=None,
        group_sizes_public=False,
        min_group_size=None,
        n_directions=10,
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
        verbose=0,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.fairness_weight = fairness_weight
        self.constraint = constraint
        self.C = C
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.data_norm = data_norm
        self.classes = classes
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.average = average
        self.batch_size = batch_size
        self.group_sizes_public = group_sizes_public
        self.min_group_size = min_group_size
        self.n_directions = n_directions
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    _parameter_constraints = {
        **NoisyGradientsMixin._parameter_constraints,
        "fit_intercept": BOUNDED_CONSTRAINTS["fit_intercept"],
        "constraint": [StrOptions({"demographic_parity", "equalized_odds"})],
        "C": [Interval(Real, 0, None, closed="neither")],
        "classes": [None, "array-like"],
        "learning_rate": [None, Interval(Real, 0, None, closed="neither")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "group_sizes_public": ["boolean"],
        "n_directions": [Interval(Integral, 1, None, closed="left")],
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
        groups, X, facts = self._fit_groups(X, sensitive_features)
        X = check_blind(self, X)
        labels, self.classes_, fact = encode_labels(y, self.classes)
        check_consistent_length(X, labels)
        scaling, more_facts = self._public_scaling(X)
        cells = self._cells(groups, len(labels), labels)
        noise = noise_source(self.random_state)

        n_classes = len(self.classes_)
        n_outputs = 1 if n_classes == 2 else n_classes
        n_weights = (X.shape[1] + self.fit_intercept) * n_outputs
        budget = self._budget(cells, n_weights)
        guarantee = self._reserve_gradients(budget, [*facts, fact, *more_facts], noise)

        targets = labels.astype(float) if n_classes == 2 else np.eye(n_classes)[labels]
        with np.errstate(all="ignore"):
            design = scaling.design(X, exact=self.epsilon != np.inf)
            weights = self._descend(design, scaling, targets, cells, budget, noise)

        self._publish_linear(weights.reshape(len(weights), -1), scaling)
        self.n_iter_ = self.max_iter
        self.privacy_ = guarantee
        return self

    def decision_function(self, X):
        """Scores of the rows, clipped and scaled by the public bounds as in `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With or without the columns that the constructor names as sensitive.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of the second class, or one score per class.
        """
        check_is_fitted(self)
        scores = self._linear_scores(check_blind(self, blind_X(self, X)))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X):
        """Class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        return class_probabilities(self.decision_function(X))

    def predict(self, X):
        """Most probable classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return most_probable(self.decision_function(X), self.classes_)

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

    def _budget(self, cells: Cells, n_parameters: int) -> Budget:
        if self.batch_size is None or self.epsilon == np.inf:
            return super()._budget(cells, n_parameters)
        q, n_draws = self._strata(cells).rate, self.max_iter * n_parameters
        multiplier = calibrate_without_replacement(
            self.epsilon, self.delta, q, self.max_iter, n_draws=n_draws
        )
        event = WithoutReplacementGaussianEvent(q, multiplier, self.max_iter, n_draws)
        return Budget(event, 1 / multiplier)

    def _strata(self, cells: Cells) -> _Strata:
        """The public groups from which batches are drawn."""
        if self.fairness_weight == 0 and not self.group_sizes_public:
            strata = np.zeros(len(cells.groups), dtype=np.int64)
        else:
            strata = cells.codes
        return _Strata.proportional(strata, math.prod(cells.shape), self.batch_size)

    def _descend(self, design, scaling, targets, cells, budget, noise):
        """The weights of the scaled features, by noisy gradient descent."""
        binary = targets.ndim == 1
        start = np.zeros((design.shape[1], *targets.shape[1:]))
        directions = None
        if not binary:
            normals = noise.standard_normal((targets.shape[1], self.n_directions))
            directions = unit_range_directions(normals)
        sizes = self._public_sizes(cells, budget, noise)
        ridge = np.zeros((design.shape[1],) + (1,) * (start.ndim - 1))
        ridge[: design.shape[1] - self.fit_intercept] = 1 / (self.C * sizes.n_records)
        objective = FairLogisticLoss(
            design,
            targets,
            1 / sizes.n_records,
            self.fairness_weight,
            WassersteinPenalty(cells.groups, cells.labels, sizes.floors, directions),
        )
        if self.epsilon == np.inf:
            return minimise_without_noise(objective, start, ridge)

        draw = None
        if self.batch_size is not None:
            strata = self._strata(cells)
            sizes = strata.batch_sizes(cells.shape)

            def draw():
                return objective.take(*strata.draw(noise), sizes.floors)

        sensitivity = gradient_sensitivity(
            row_norm=scaling.row_norm,
            fairness_weight=self.fairness_weight,
            n_records=sizes.n_records,
            floors=sizes.floors,
            neighboring=self._relation(),
            n_outputs=1 if binary else targets.shape[1],
        )
        mechanism = GaussianMechanism(sensitivity, budget.mu_step, start.size)
        progress = Progress(self, self.max_iter)

        def noisy_gradient(weights):
            current = objective if draw is None else draw()
            gradient = mechanism.release(current.gradient(weights), noise)
            progress.step()
            return gradient

        # Noise of the whole fit, as if all steps had looked at the same weights.
        noise_scale = mechanism.scale / math.sqrt(self.max_iter)
        weights = accelerated_descent(
            noisy_gradient,
            start,
            penalty=ridge + NOISE_RIDGE * start.size * noise_scale**2,
            step_size=self.learning_rate or (4 if binary else 2) / scaling.row_norm**2,
            max_iter=self.max_iter,
            average=self.average,
        )
        progress.close()
        return weights


@dataclass(frozen=True)
class _Strata:
    """Rows by stratum, and how many of each a batch draws without replacement."""

    rows: list[np.ndarray]
    drawn: np.ndarray

    @classmethod
    def proportional(cls, codes, n_strata: int, batch_size: int) -> _Strata:
        rows = [np.flatnonzero(codes == stratum) for stratum in range(n_strata)]
        sizes = np.array([len(stratum) for stratum in rows])
        wanted = np.rint(batch_size * sizes / len(codes)).astype(np.int64)
        return cls(rows, np.minimum(np.maximum(wanted, 1), sizes))

    @property
    def rate(self) -> float:
        """Largest probability that a record is drawn."""
        return max(
            drawn / len(rows)
            for drawn, rows in zip(self.drawn, self.rows, strict=True)
            if len(rows)
        )

    def weights(self) -> np.ndarray:
        """Weight of a drawn record in the mean loss, per stratum."""
        sizes = np.array([len(rows) for rows in self.rows])
        return sizes / sizes.sum() / np.maximum(self.drawn, 1)

    def batch_sizes(self, shape: tuple[int, int]) -> Sizes:
        """The sizes that take the place of the whole table's in the sensitivity."""
        floors = np.maximum(self.drawn, 1).reshape(shape)
        return Sizes(1 / self.weights().max(), floors)

    def draw(self, noise) -> tuple[np.ndarray, np.ndarray]:
        """Rows of a batch and their weights."""
        chosen = [
            rows[noise.choice(len(rows), drawn)]
            for rows, drawn in zip(self.rows, self.drawn, strict=True)
        ]
        return np.concatenate(chosen), np.repeat(self.weights(), self.drawn)
