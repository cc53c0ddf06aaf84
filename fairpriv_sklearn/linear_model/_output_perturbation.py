"""Logistic regression made private by noise in its parameters."""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from sklearn.base import ClassifierMixin

from .._door.estimator import DELTA_CONSTRAINT, MIN_RECORDS, DPEstimator
from .._door.labels import encode_labels
from .._shared.sklearn import Interval, fit_context
from .._training._bounded import (
    BOUNDED_CONSTRAINTS,
    BoundedLinearMixin,
    class_probabilities,
    most_probable,
)
from .._training._constant import class_totals, constant_plan, released_constant
from .._training._counts import StratumCounts, asked_again, shares
from .._training._design import FeatureScaling
from .._wall import (
    Query,
    Release,
    Rows,
    calibrate_gaussian,
    noise_source,
    open_wall,
    refuse_many_rows,
)
from ._gradient_plan import NOMINAL_RECORDS, constant_share
from ._minimiser import (
    TOLERANCE,
    RegularisedLogistic,
    parameter_sensitivity,
    rounding_bound,
)

# Under add/remove the number of records is private; the rounding bound of the solver
# then holds for tables of up to this many.
MOST_RECORDS = 1 << 25
# Below this number of records times the Gaussian-DP parameter of the slopes, divided by
# the square of the longest row, only the constant is told: slopes would drown. Where
# they are asked, they count if their squares exceed those of noise by so many standard
# deviations. Both chosen on simulated tables.
LEAST_SIGNAL = 20.0
STANDS_OUT = 2.0
# Below this number of records times the parameter an encoder before it is not worth it.
SIGNAL_OF_FEATURES = 90.0


class DPOutputPerturbationLogisticRegression(
    BoundedLinearMixin, ClassifierMixin, DPEstimator
):
    r"""Logistic regression with noise in its parameters.

    .. math::
        \hat W = \arg\min_W \sum_i \ell(W; x_i, y_i) + \frac{\|W\|_F^2}{2 C},
        \qquad W = \hat W + \sigma Z, \quad \sigma = \Delta / \mu

    with the logistic loss for two classes and the softmax loss for more, as in
    :class:`~sklearn.linear_model.LogisticRegression`, except that the intercept is
    penalised too, as solver "liblinear" does.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y): noisy counts of the classes (3 to 30 %
    of the squared Gaussian-DP parameter) and then W, once, with Gaussian noise;
    predictions are free. Where the slopes do not stand out of their noise, the
    prediction is the constant that the counts tell, and where rules of public or noisy
    numbers expect this, all counts the classes. The objective is
    1/C-strongly convex and a record's gradient is at most L = R (softmax:
    :math:`\sqrt2 R`), :math:`R^2 = \text{data\_norm}^2 + 1`, so replacing a record
    moves the minimum by at most :math:`\Delta = 2 L C` and removing one by L C [1]_.
    The solver stops where the gradient's norm, rounding included, is at most t, about
    1e-4 R; the returned point is then within C t of the minimum and 2 C t is added.
    Public: `classes`, `bounds`, `data_norm`, C, and n under "replace_one".

    Parameters
    ----------
    {epsilon}
    {delta}
    C : float, default=None
        Inverse strength of the penalty, as in scikit-learn, on the scaled features.
        The noise grows with C. None balances the two by a rule of public numbers, at
        most 1; under "add_remove" the sum of the noisy counts takes the place of n.
        Range: [1e-100, 1e50].
    fit_intercept : bool, default=True
        Whether to add an intercept. Without one the score is zero at the centre of
        `bounds`, and slopes are kept whatever their noise.
    {bounds}
    data_norm : float, default=None
        Public bound of the Euclidean norm of a scaled row; longer rows are shortened.
        None: 1 without `bounds`, as
        :class:`~fairpriv_sklearn.preprocessing.DPTableEncoder` scales rows; with them a
        norm that few rows of independent uniform features exceed,
        :math:`\sqrt{d/3 + 0.6 \sqrt d}`, at most :math:`\sqrt d`, and
        :math:`\sqrt d`, no shortening, if `epsilon` is infinite. Range: [1e-50, 1e50].
    {classes}
    {min_records}
    {neighboring}
    {ledger}
    {random_state}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights per unit of the original features, inside `bounds` and `data_norm`;
        zero for a constant model.
    coef_covariance_ : None
        The errors of `coef_` are not worked out for this model.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    C_ : float
        The C in use; None below `min_records`.
    classes_ : ndarray of shape (n_classes,)
    bounds_ : ndarray of shape (2, n_features) or None
    data_norm_ : float
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Raises
    ------
    ValueError
        Before the budget is spent, if a feature is no finite number, a label is not in
        its public list, or a public bound is malformed.

    Warns
    -----
    PrivacyLeakWarning
        If `classes` is read from the data.
    UserWarning
        If a data frame that no encoder of ours gave comes without `bounds` and
        `data_norm`.

    See Also
    --------
    DPWassersteinLogisticRegression : Noisy gradients of a bounded loss, and fair.
    fairpriv_sklearn.postprocessing.DP2DPClassifier : Repairs such a model.

    Notes
    -----
    A record's gradient sums are exact in floating point and the certificate includes
    a bound of all other rounding, for tables of up to 2**25 records under
    "add_remove". Time and memory of the solver may depend on the data.

    References
    ----------
    .. [1] K. Chaudhuri, C. Monteleoni, A. D. Sarwate, "Differentially Private
       Empirical Risk Minimization", Journal of Machine Learning Research 12, 2011.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_spurious_bias
    >>> from fairpriv_sklearn.linear_model import DPOutputPerturbationLogisticRegression
    >>> X, y, _ = make_spurious_bias(20000, random_state=0)
    >>> model = DPOutputPerturbationLogisticRegression(
    ...     epsilon=1.0, bounds=(-10, 10), classes=[0, 1], random_state=0
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> print(round(model.privacy_.epsilon, 3))
    1.0
    """

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-5,
        C=None,
        fit_intercept=True,
        bounds=None,
        data_norm=None,
        classes=None,
        min_records=None,
        neighboring="replace_one",
        ledger=None,
        random_state=None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.C = C
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.data_norm = data_norm
        self.classes = classes
        self.min_records = min_records
        self.neighboring = neighboring
        self.ledger = ledger
        self.random_state = random_state

    _signal_of_features = SIGNAL_OF_FEATURES

    _parameter_constraints = {
        **DPEstimator._parameter_constraints,
        **DELTA_CONSTRAINT,
        **BOUNDED_CONSTRAINTS,
        **MIN_RECORDS,
        "C": [None, Interval(Real, 1e-100, 1e50, closed="both")],
        "classes": [None, "array-like"],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float64 or float32.
        y : array-like of shape (n_samples,)
            Labels out of `classes`.

        Returns
        -------
        self : object
            The fitted model.
        """
        X, y = self._check_X_y(X, y)
        labels, self.classes_, fact = encode_labels(y, self.classes)
        scaling, facts = self._public_scaling(X)
        noise = noise_source(self.random_state)
        rows, facts = Rows(X.shape[0], x=X, y=labels), [fact, *facts]
        if self.fit_intercept and self._has_few_records(rows.n_rows):
            query = class_totals(len(self.classes_))
            plan = constant_plan(query, self.epsilon)
            wall = open_wall(self, plan, facts=facts, noise=noise)
            weights = self._constant(scaling, released_constant(wall, rows, query))
            self.C_ = None
        else:
            weights, wall = self._fit_noisily(rows, scaling, facts, noise)
        self._publish_linear(weights, scaling)
        self.privacy_ = wall.guarantee()
        return self

    def _constant(self, scaling: FeatureScaling, found) -> np.ndarray:
        """Weights of the model that answers these shares of the classes."""
        weights = np.zeros((self.n_features_in_ + 1, self._n_outputs))
        scores = np.log(found)
        scores -= scores[0] if self._n_outputs == 1 else scores.mean()
        weights[-1] = scores[-self._n_outputs :] / scaling.constant
        return weights

    def _fit_noisily(self, rows: Rows, scaling: FeatureScaling, facts, noise):
        """Weights, and the wall that released what they follow from."""
        n_classes, n_outputs = len(self.classes_), self._n_outputs
        n_records, n_columns = rows.n_rows, self.n_features_in_ + self.fit_intercept
        is_public = self.neighboring == "replace_one"
        # The rounding is bounded for the largest table, or for this one.
        most = n_records if is_public else MOST_RECORDS
        refuse_many_rows(n_records, most)

        counted = self.fit_intercept or (self.C is None and not is_public)
        n_draws = n_columns * n_outputs + counted * n_classes
        mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=n_draws)
        plan, counts = [], StratumCounts(n_classes, "y")
        if counted:
            share = constant_share(mu * (n_records if is_public else NOMINAL_RECORDS))
            part = math.sqrt(share) * mu
            plan.append(Release(counts.name, "gaussian", part, n_classes))
            mu *= math.sqrt(1 - share)
        line = Release(Parameters.name, "gaussian", mu, n_columns * n_outputs)
        wall = open_wall(self, [*plan, line], facts=facts, noise=noise)
        if counted:
            told = wall.release(counts, rows), wall.scale(counts)
            if not is_public:
                n_records = max(1.0, 2 * told[1], told[0].sum())
        self.C_ = self.C or default_C(n_records, scaling.row_norm, mu, n_classes)
        if self.fit_intercept and n_records * mu < LEAST_SIGNAL * scaling.row_norm**2:
            told = asked_again(wall, rows, counts, [line], told=told)
            return self._constant(scaling, shares(told[0], n_records, told[1])), wall
        query = Parameters(scaling, n_columns, n_outputs, self.C_, most)
        weights, n_free = wall.release(query, rows), n_outputs
        if n_outputs > 1:
            # Only differences between classes matter; the noise in their mean does not.
            weights = weights - weights.mean(axis=1, keepdims=True)
            n_free -= 1
        if self.fit_intercept:
            # The squares of noise alone, in units of its variance: chi-squared.
            n_free *= self.n_features_in_
            least = n_free + STANDS_OUT * math.sqrt(2 * n_free)
            if np.linalg.norm(weights[:-1]) < math.sqrt(least) * wall.scale(query):
                weights = self._constant(scaling, shares(told[0], n_records, told[1]))
        return weights, wall

    def decision_function(self, X) -> np.ndarray:
        """Compute scores of rows clipped and scaled by the public bounds as in `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of the second class, or one score per class.
        """
        scores = self._linear_scores(self._predict_X(X))
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
        return class_probabilities(self.decision_function(X))

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


def default_C(
    n_records: float, row_norm: float, mu: float, n_classes: int = 2
) -> float:
    r"""C that balances noise against shrinkage, from public numbers.

    With noise of scale 2 R C / mu in every weight the mean loss grows by about
    :math:`R^4 C^2 / (2 \mu^2)`, and shrinking weights of squared norm B by about
    B / (2 n C); the sum is least at :math:`C^3 = B \mu^2 / (2 n R^4)`. B = 8 suits
    features of a few informative directions. Softmax of k classes has twice the noise
    variance, and curvatures of 1 - 1/k in all in the place of 1/4: the loss grows
    8 (1 - 1/k) times as much. At most 1, scikit-learn's default.
    """
    balance = 8.0 * mu**2 / (2 * n_records * row_norm**4)
    if n_classes > 2:
        balance /= 8.0 * (1 - 1 / n_classes)
    return min(1.0, balance ** (1 / 3))


@dataclass(frozen=True)
class Parameters(Query):
    """Weights of the certified minimiser; (n_columns, n_outputs).

    Attributes
    ----------
    scaling : FeatureScaling
    n_columns : int
    n_outputs : int
        1 for two classes, else the number of classes.
    C : float
    n_most : int
        Largest table for which the rounding of the solver is bounded.
    """

    name = "parameters"
    theorem = "user_guide/linear_models_proofs:output-perturbation"

    scaling: FeatureScaling
    n_columns: int
    n_outputs: int
    C: float
    n_most: int

    @property
    def max_rows(self) -> int:
        return self.n_most

    @property
    def n_coordinates(self) -> int:
        return self.n_columns * self.n_outputs

    @property
    def rounding(self) -> float:
        return rounding_bound(
            self.n_most, self.n_columns, self.n_outputs, self.scaling.row_norm, self.C
        )

    @property
    def solved(self) -> float:
        """Norm of the computed gradient at which the solver stops."""
        return TOLERANCE * self.scaling.row_norm + self.rounding

    def sensitivity(self, neighboring: str) -> float:
        tolerance, row_norm = self.solved + self.rounding, self.scaling.row_norm
        return parameter_sensitivity(
            row_norm, self.n_outputs, self.C, tolerance, neighboring
        )

    def of_rows(self, rows: Rows, state):
        table = rows.whole()
        k, y = self.n_outputs, table.y
        targets = (y if k == 1 else y[:, None] == np.arange(k)).astype(np.float64)
        problem = RegularisedLogistic(self.scaling.design(table.x), targets, self.C)
        return problem.minimise(self.solved).reshape(self.n_columns, -1)
