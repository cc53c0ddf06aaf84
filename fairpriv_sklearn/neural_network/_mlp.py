"""Multi-layer perceptrons with a sliced Wasserstein penalty between groups."""

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_array

from .._door.bounds import n_entries, range_of, read_bounds
from .._door.estimator import MIN_RECORDS, DPEstimator
from .._door.labels import encode_labels
from .._shared.domain import check_given, domain, refuse_dates, same_length
from .._shared.rowwise import row_softmax
from .._shared.sklearn import StrOptions, fit_context
from .._training._progress import with_callbacks
from .._training._target import scaled_target
from .._wall import Fact, read_rows, warn_leak
from ._base import FairNetworkMixin
from ._objective import RealOutputs, SimplexOutputs


class DPWassersteinMLPRegressor(FairNetworkMixin, RegressorMixin, DPEstimator):
    r"""Multi-output regression by a network with a penalty between groups.

    .. math::
        \min_\theta\ (1 - \alpha) \frac1n \sum_i \|g_\theta(x_i) - y_i\|^2
        + \alpha\, \mathbb E_\vartheta\, \overline{W_2^2}
        \big(\vartheta^\top g_\theta(X) \mid \text{groups}\big),

    the squared 2-Wasserstein distance between the groups' distributions of the
    predictions, projected on random directions :math:`\vartheta` and averaged over
    all pairs of groups [1]_. Targets are scaled to [-1, 1] in this. No sensitive
    feature is needed at prediction.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y, a): `max_iter` full-batch gradients with
    Gaussian noise, composed exactly. With minimum sizes :math:`m_a` of the sizes of two
    groups, replacing a record, its group included, changes a gradient by at most

    .. math::
        \Delta = (1 - \alpha) \frac{2 C}{n}
        + 8 \alpha L \Big(\frac1{m_0} + \frac1{m_1}\Big),

    as projected predictions are clipped to the public range [-1, 1]. Groups smaller
    than their minimum size are filled up with public dummy records; the minimum sizes
    come from noisy counts that 1 % of the squared Gaussian-DP parameter pays for, or
    are given. Where there are records enough, and `bounds` alone scale the features,
    two counts of every column, 5 % of the squared parameter together, tell narrower
    ranges inside `bounds`, to which features are clipped and scaled instead. The range
    of the targets inside `target_bounds` is learnt from counts in 64 bins each, up to
    four times in ever shorter parts of the bounds, for together 5 % of the squared
    parameter, where the number of records tells it; [-1, 1] is twice that range then.
    Where public numbers say that so many bins tell nothing, counts in 16 or 8, if these
    tell it, and the mean have all of the budget, and predictions are
    constant. The mean of the targets, from which the network starts, is released next,
    with at least 1 % of the squared parameter and more where the noise is large. At the
    end a line search, two numbers of each output for 3 to 10 %, tells how much of what
    the gradients taught the outputs keep, and two more of each, 4.5 %, by how much they
    are off on average. The rounding errors of the sums over records are bounded and
    added to :math:`\Delta`. Public: `groups`, `bounds`, `data_norm`, `target_bounds`,
    all parameters, and n under "replace_one". Under "add_remove" n is replaced by a
    noisy count. There is no early stopping: a validation score is a function of the
    data that would have to be paid for.

    Parameters
    ----------
    {hidden_layer_sizes}
    {activation}
    {epsilon}
    {delta}
    {fairness_weight}
    n_projections : int, default=5
        Number of random directions of a step; every step draws new ones. On a line
        (one output) there is only one. Range: [1, 512].
    {clip_norm}
    projection_clip_norm : float, default=0.25
        Bound L of the norm of the gradient of one record's projected prediction. The
        noise is proportional to it; the ratio of L to C weighs the penalty against
        the loss where most gradients are clipped. Public. Range: [1e-50, 1e50].
    {solver}
    {alpha}
    {learning_rate}
    {max_iter}
    {momentum}
    {average}
    {bounds}
    {data_norm}
    target_bounds : tuple (low, high), default=None
        Public bounds of the targets, numbers or arrays of shape (n_outputs,), to which
        targets and predictions are clipped. Where targets lie in them is learnt. None
        reads them from the data, with a `PrivacyLeakWarning`.
    {min_group_size}
    {min_records}
    {neighboring}
    {sensitive_features}
    {groups}
    {ledger}
    {random_state}
    {verbose}

    Attributes
    ----------
    coefs_ : list of ndarray of shape (n_inputs, n_outputs)
        Weights of the layers, for features scaled by `bounds_` and `data_norm_`.
    intercepts_ : list of ndarray of shape (n_outputs,)
        Biases of the layers.
    target_bounds_ : ndarray of shape (2, n_outputs)
    n_outputs_ : int
    out_activation_ : str
        "identity".
    groups_ : ndarray of shape (n_groups,)
        Only if there are sensitive features.
    n_iter_ : int
        `max_iter`, or 1 where the mean alone was asked, and 0 below `min_records`.
    n_layers_ : int
        Number of layers, input and output included.
    bounds_ : ndarray of shape (2, n_features) or None
        What features are clipped to, and scaled by: `bounds`, or the learnt ranges.
    data_norm_ : float
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Raises
    ------
    ValueError
        If there are no sensitive features although `fairness_weight` is positive, a
        group is not in its public list, a public bound is malformed, or there are
        more than 16777216 records.

    Warns
    -----
    PrivacyLeakWarning
        If `groups` or `target_bounds` are read from the data.
    UserWarning
        If a data frame that no encoder of ours gave comes without `bounds` and
        `data_norm`.

    See Also
    --------
    DPWassersteinMLPClassifier : For labels.
    fairpriv_sklearn.postprocessing.DPBarycenterRegressor : Parity of one output by
        post-processing; needs the sensitive feature at prediction.

    Notes
    -----
    Per-example gradients are never formed: their norms follow from the layers' inputs
    and the back-propagated vectors [2]_, and one weighted product per layer sums the
    clipped gradients. A projected prediction beyond [-1, 1]
    counts as at the end of the range and is still pulled back.

    Without a penalty, with "tanh", and where the ranges of the columns are learnt, 3 of
    8 units of the first layer are "relu" instead, the same ones of either half of them,
    if records are many and targets even enough: functions that are not odd are learnt
    sooner.

    References
    ----------
    .. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes, "Learning with
       Differentially Private (Sliced) Wasserstein Gradients", arXiv:2502.01701, 2025.
    .. [2] I. Goodfellow, "Efficient Per-Example Gradient Computations",
       arXiv:1510.01799, 2015.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_spurious_regression
    >>> from fairpriv_sklearn.neural_network import DPWassersteinMLPRegressor
    >>> X, Y, group = make_spurious_regression(20000, random_state=0)
    >>> model = DPWassersteinMLPRegressor(
    ...     fairness_weight=0.75,
    ...     bounds=(-2, 3),
    ...     target_bounds=(0, 1),
    ...     groups=[0, 1],
    ...     random_state=0,
    ... ).fit(X, Y, sensitive_features=group)
    >>> model.predict(X).shape
    (20000, 2)
    """

    def __init__(
        self,
        hidden_layer_sizes=(16,),
        activation="tanh",
        *,
        epsilon=1.0,
        delta=1e-5,
        fairness_weight=0.5,
        n_projections=5,
        clip_norm=1.0,
        projection_clip_norm=0.25,
        solver="sgd",
        alpha=1e-4,
        learning_rate="auto",
        max_iter=100,
        momentum=0.9,
        average=True,
        bounds=None,
        data_norm=None,
        target_bounds=None,
        min_group_size=None,
        min_records=None,
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
        verbose=0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.epsilon = epsilon
        self.delta = delta
        self.fairness_weight = fairness_weight
        self.n_projections = n_projections
        self.clip_norm = clip_norm
        self.projection_clip_norm = projection_clip_norm
        self.solver = solver
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.momentum = momentum
        self.average = average
        self.bounds = bounds
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.min_group_size = min_group_size
        self.min_records = min_records
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    _parameter_constraints = {
        **FairNetworkMixin._parameter_constraints,
        **MIN_RECORDS,
        "target_bounds": "no_validation",  # by read_bounds
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.target_bounds is not None:
            _given_targets(self.target_bounds, n_entries(self.target_bounds))

    def _refuse_outputs(self, n_outputs) -> None:
        if self.target_bounds is not None:
            _given_targets(self.target_bounds, n_outputs)

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sensitive_features=None):
        """Fit the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, float64 or float32.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; clipped to `target_bounds`.
        sensitive_features : array-like of shape (n_samples,) or \
                (n_samples, n_attributes), default=None
            Group labels out of `groups`; not needed at prediction.

        Returns
        -------
        self : object
            The fitted model.
        """
        rows = read_rows(self._read, X, y, sensitive_features)
        n_outputs = self.target_bounds_.shape[1]
        network = self._new_network([self._n_columns, *self._hidden_sizes(), n_outputs])
        head = RealOutputs(len(network.weights))
        self._train(rows, network, head, lambda block: block.y, scales_targets=True)
        self.n_outputs_ = n_outputs
        self.out_activation_ = "identity"
        return self

    def _read(self, X, y, sensitive_features):
        columns, groups = self._read_features(X, sensitive_features)
        check_given(self, y)
        refuse_dates(y, "y")
        with domain("y"):
            Y = check_array(
                y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self
            )
        same_length(columns["x"], Y)
        self._y_is_1d, Y = Y.ndim == 1, Y.reshape(len(Y), -1)
        low, high, fact = _public_targets(self.target_bounds, Y)
        self.target_bounds_ = np.stack([low, high])
        self._facts.append(fact)
        with np.errstate(all="ignore"):
            targets = scaled_target(Y, low, high)
        return {**columns, "y": targets, "stratum": self._strata(groups, len(Y))}

    def predict(self, X) -> np.ndarray:
        """Predicted targets, inside `target_bounds`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With or without the columns that the constructor names as sensitive.

        Returns
        -------
        targets : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            As many dimensions as in `fit`.
        """
        rows = self._predict_rows(X)
        low, high = self.target_bounds_
        outputs = np.clip(self._fitted_network().predict(rows), -1, 1)
        targets = (low / 2 + high / 2) + outputs * (high / 2 - low / 2)
        return targets[:, 0] if self._y_is_1d else targets


class DPWassersteinMLPClassifier(FairNetworkMixin, ClassifierMixin, DPEstimator):
    r"""Classification by a network with a penalty between groups.

    .. math::
        \min_\theta\ (1 - \alpha) \frac1n \sum_i -\log p_\theta(y_i \mid x_i)
        + \alpha\, \mathbb E_\vartheta\, \overline{W_2^2}
        \big(\vartheta^\top p_\theta(X) \mid \text{groups}\big),

    the squared 2-Wasserstein distance between the groups' distributions of the
    predicted probabilities, projected on random directions :math:`\vartheta` and
    averaged over all pairs of groups [1]_. No sensitive feature is needed at
    prediction.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, y, a): `max_iter` full-batch gradients with
    Gaussian noise, composed exactly. With minimum sizes :math:`m_a` of the sizes of two
    groups, replacing a record, its group included, changes a gradient by at most

    .. math::
        \Delta = (1 - \alpha) \frac{2 C}{n}
        + 4 \alpha L \Big(\frac1{m_0} + \frac1{m_1}\Big),

    as projected probabilities have a range of length one. Groups
    smaller than their minimum size are filled up with public dummy records; the minimum
    sizes come from noisy counts that 1 % of the squared Gaussian-DP parameter pays for,
    or are given. Where there are records enough, and `bounds` alone scale the features,
    two counts of every column, 5 % of the squared parameter together, tell narrower
    ranges inside `bounds`, to which features are clipped and scaled instead. The
    shares of the classes, from which the network starts, are released before the
    gradients, with at least 1 % of the squared parameter and more where the noise is
    large. At the end a line search, two numbers for 3 to 10 %, tells how much of what
    the gradients taught the logits keep. The rounding errors of the sums over records
    are bounded and added to :math:`\Delta`. Public: `groups`, `classes`, `bounds`,
    `data_norm`, all parameters, and n under "replace_one".
    Under "add_remove" n is replaced by a noisy count. There is no early stopping: a
    validation score is a function of the data that would have to be paid for.

    Parameters
    ----------
    {hidden_layer_sizes}
    {activation}
    {epsilon}
    {delta}
    {fairness_weight}
    constraint : {"demographic_parity", "equalized_odds"}, default="demographic_parity"
        Compare the groups as a whole, or the groups inside each class, averaged over
        the classes.
    n_projections : int, default=5
        Number of random directions of a step; every step draws new ones. On a line
        (two classes) there is only one. Range: [1, 512].
    clip_norm : float, default=2.0
        Bound C of the Euclidean norm of one record's loss gradient; longer ones are
        shortened. Public. Range: [1e-50, 1e50].
    projection_clip_norm : float, default=0.5
        Bound L of the norm of the gradient of one record's projected probabilities. The
        noise is proportional to it; the ratio of L to C weighs the penalty against
        the loss where most gradients are clipped. Public. Range: [1e-50, 1e50].
    {solver}
    {alpha}
    {learning_rate}
    {max_iter}
    {momentum}
    {average}
    {bounds}
    {data_norm}
    {classes}
    min_group_size : int, default=None
        Public minimum of the group sizes (with equalized odds: of every group and
        class), in place of noisy counts. Range: [1, 4194304].
    {min_records}
    {neighboring}
    {sensitive_features}
    {groups}
    {ledger}
    {random_state}
    {verbose}

    Attributes
    ----------
    coefs_ : list of ndarray of shape (n_inputs, n_outputs)
        Weights of the layers, for features scaled by `bounds_` and `data_norm_`.
    intercepts_ : list of ndarray of shape (n_outputs,)
        Biases of the layers.
    classes_ : ndarray of shape (n_classes,)
    n_outputs_ : int
        Number of classes.
    out_activation_ : str
        "softmax".
    groups_ : ndarray of shape (n_groups,)
        Only if there are sensitive features.
    n_iter_ : int
        `max_iter`.
    n_layers_ : int
        Number of layers, input and output included.
    bounds_ : ndarray of shape (2, n_features) or None
        What features are clipped to, and scaled by: `bounds`, or the learnt ranges.
    data_norm_ : float
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Raises
    ------
    ValueError
        If there are no sensitive features although `fairness_weight` is positive, a
        label or group is not in its public list, a public bound is malformed, or there
        are more than 16777216 records.

    Warns
    -----
    PrivacyLeakWarning
        If `groups` or `classes` are read from the data.
    UserWarning
        If a data frame that no encoder of ours gave comes without `bounds` and
        `data_norm`.

    See Also
    --------
    fairpriv_sklearn.linear_model.DPWassersteinLogisticRegression : The linear model,
        with less noise as it clips no gradients.
    fairpriv_sklearn.postprocessing.DP2DPClassifier : Parity by post-processing; needs
        the sensitive feature at prediction.

    Notes
    -----
    Per-example gradients are never formed: their norms follow from the layers' inputs
    and the back-propagated vectors [2]_, and one weighted product per layer sums the
    clipped gradients. Directions are centred and have a range
    of one, as the constant direction sees no difference between probabilities.

    Without a penalty, with "tanh", and where the ranges of the columns are learnt, 3 of
    8 units of the first layer are "relu" instead, the same ones of either half of them,
    if records are many and classes even enough: functions that are not odd are learnt
    sooner.

    References
    ----------
    .. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes, "Learning with
       Differentially Private (Sliced) Wasserstein Gradients", arXiv:2502.01701, 2025.
    .. [2] I. Goodfellow, "Efficient Per-Example Gradient Computations",
       arXiv:1510.01799, 2015.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_spurious_bias
    >>> from fairpriv_sklearn.neural_network import DPWassersteinMLPClassifier
    >>> X, y, group = make_spurious_bias(20000, random_state=0)
    >>> model = DPWassersteinMLPClassifier(
    ...     fairness_weight=0.75,
    ...     bounds=(-10, 10),
    ...     classes=[0, 1],
    ...     groups=[0, 1],
    ...     random_state=0,
    ... ).fit(X, y, sensitive_features=group)
    >>> model.score(X, y) > 0.7
    True
    """

    def __init__(
        self,
        hidden_layer_sizes=(16,),
        activation="tanh",
        *,
        epsilon=1.0,
        delta=1e-5,
        fairness_weight=0.5,
        constraint="demographic_parity",
        n_projections=5,
        clip_norm=2.0,
        projection_clip_norm=0.5,
        solver="sgd",
        alpha=1e-4,
        learning_rate="auto",
        max_iter=100,
        momentum=0.9,
        average=True,
        bounds=None,
        data_norm=None,
        classes=None,
        min_group_size=None,
        min_records=None,
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
        verbose=0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.epsilon = epsilon
        self.delta = delta
        self.fairness_weight = fairness_weight
        self.constraint = constraint
        self.n_projections = n_projections
        self.clip_norm = clip_norm
        self.projection_clip_norm = projection_clip_norm
        self.solver = solver
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.momentum = momentum
        self.average = average
        self.bounds = bounds
        self.data_norm = data_norm
        self.classes = classes
        self.min_group_size = min_group_size
        self.min_records = min_records
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    _parameter_constraints = {
        **FairNetworkMixin._parameter_constraints,
        **MIN_RECORDS,
        "constraint": [StrOptions({"demographic_parity", "equalized_odds"})],
        "classes": [None, "array-like"],
    }

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sensitive_features=None):
        """Fit the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, float64 or float32.
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
        rows = read_rows(self._read, X, y, sensitive_features)
        n_classes = len(self.classes_)
        network = self._new_network([self._n_columns, *self._hidden_sizes(), n_classes])
        head = SimplexOutputs(len(network.weights))
        indicators = np.eye(n_classes)
        self._train(rows, network, head, lambda block: indicators[block.label])
        self.n_outputs_ = n_classes
        self.out_activation_ = "softmax"
        return self

    def _read(self, X, y, sensitive_features):
        columns, groups = self._read_features(X, sensitive_features)
        labels, self.classes_, fact = encode_labels(y, self.classes)
        same_length(columns["x"], labels)
        self._facts.append(fact)
        return {
            **columns,
            "label": labels.astype(np.min_scalar_type(len(self.classes_) - 1)),
            "stratum": self._strata(groups, len(labels), labels),
        }

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With or without the columns that the constructor names as sensitive.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        rows = self._predict_rows(X)
        return row_softmax(self._fitted_network().predict(rows))

    def predict(self, X) -> np.ndarray:
        """Most probable classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With or without the columns that the constructor names as sensitive.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Out of `classes_`.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]


def _public_targets(target_bounds, Y):
    """Bounds of the targets as arrays of shape (n_outputs,), and the fact."""
    if target_bounds is None:
        fact = warn_leak("target_bounds", "the range of the targets")
        return *range_of(Y), fact
    low, high = _given_targets(target_bounds, Y.shape[1])
    given = (low.tolist(), high.tolist())
    return low, high, Fact("target_bounds", given)


def _given_targets(target_bounds, n_outputs: int):
    low, high = read_bounds(target_bounds, n_outputs, name="target_bounds")
    if not (low < high).all():
        raise ValueError("target_bounds must have low < high.")
    return low, high
