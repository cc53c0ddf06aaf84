"""An autoencoder whose code has the same distribution in every group."""

from numbers import Integral

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from .._door.estimator import DPEstimator
from .._shared.domain import domain
from .._shared.origin import remembering
from .._shared.sklearn import Interval, fit_context
from .._training._network import Network
from .._training._progress import with_callbacks
from .._training._target import RangeCounts
from .._wall import read_rows
from ._base import FairNetworkMixin
from ._objective import INPUTS, RealOutputs


@remembering
class DPWassersteinAutoencoder(
    FairNetworkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, DPEstimator
):
    r"""Codes of the rows whose distribution is the same in all groups.

    .. math::
        \min_{e, d}\ (1 - \alpha) \frac1n \sum_i \|d(e(x_i)) - x_i\|^2
        + \alpha\, \mathbb E_\vartheta\, \overline{W_2^2}
        \big(\vartheta^\top e(X) \mid \text{groups}\big),

    with the squared 2-Wasserstein distance between the groups' distributions of the
    code :math:`e(x) \in [-1, 1]^k`, projected on random directions :math:`\vartheta`
    and averaged over all pairs of groups [1]_. The decoder's layers are contractions:
    otherwise a small code would make the penalty small, with the groups as far apart
    as before. No sensitive feature is needed to encode.

    .. rubric:: Privacy

    (epsilon, delta)-DP for the records (x, a): `max_iter` full-batch gradients with
    Gaussian noise, composed exactly. With minimum sizes :math:`m_a` of the sizes of two
    groups, replacing a record, its group included, changes a gradient by at most

    .. math::
        \Delta = (1 - \alpha) \frac{2 C}{n}
        + 8 \alpha L \Big(\frac1{m_0} + \frac1{m_1}\Big),

    as projected codes are clipped to the public range [-1, 1]. Groups
    smaller than their minimum size are filled up with public dummy records; the minimum
    sizes come from noisy counts that 1 % of the squared Gaussian-DP parameter pays for,
    or are given. Where there are records enough, and `bounds` alone scale the features,
    counts of every column, with 5 %, tell a narrower range inside `bounds`. The
    mean of the features, from which the network starts, is released before the
    gradients, with at least 1 % of the squared parameter and more where the noise is
    large. The rounding errors of the sums over records are bounded
    and added to :math:`\Delta`. The decoder never sees the penalty, and gets less
    noise. Public: `groups`, `bounds`, `data_norm`, all parameters, and n under
    "replace_one". Under "add_remove" n is replaced by a noisy count. There is no early
    stopping: a validation score is a function of the data that would have to be paid
    for.

    Parameters
    ----------
    n_components : int, default=2
        Length k of the code.
    hidden_layer_sizes : array-like of int, default=()
        Widths of the encoder's hidden layers; the decoder has them in reverse order.
    {activation}
    {epsilon}
    {delta}
    {fairness_weight}
    n_projections : int, default=5
        Number of random directions of a step; every step draws new ones. On a line
        (one component) there is only one. Range: [1, 512].
    {clip_norm}
    projection_clip_norm : float, default=0.25
        Bound L of the norm of the gradient of one record's projected code. The
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
    {min_group_size}
    {neighboring}
    {sensitive_features}
    {groups}
    {ledger}
    {random_state}
    {verbose}

    Attributes
    ----------
    coefs_ : list of ndarray of shape (n_inputs, n_outputs)
        Weights of the layers, for features scaled by `bounds` and `data_norm`.
    intercepts_ : list of ndarray of shape (n_outputs,)
        Biases of the layers.
    groups_ : ndarray of shape (n_groups,)
        Only if there are sensitive features.
    n_iter_ : int
        `max_iter`.
    n_layers_ : int
        Number of layers, input and output included.
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
        group is not in its public list, a public bound is malformed, or there are
        more than 16777216 records.

    Warns
    -----
    PrivacyLeakWarning
        If `groups` are read from the data.
    UserWarning
        If a data frame that no encoder of ours gave comes without `bounds` and
        `data_norm`.

    See Also
    --------
    DPWassersteinMLPRegressor : Fair predictions of given targets.

    Notes
    -----
    Per-example gradients are never formed: their norms follow from the layers' inputs
    and the back-propagated vectors [2]_, and one weighted product per layer sums the
    clipped gradients. A projected code beyond [-1, 1] counts
    as at the end of the range and is still pulled back. Singular values of the
    decoder's weights above one are set to one after every step.

    References
    ----------
    .. [1] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes, "Learning with
       Differentially Private (Sliced) Wasserstein Gradients", arXiv:2502.01701, 2025.
    .. [2] I. Goodfellow, "Efficient Per-Example Gradient Computations",
       arXiv:1510.01799, 2015.

    Examples
    --------
    >>> from fairpriv_sklearn.datasets import make_spurious_bias
    >>> from fairpriv_sklearn.neural_network import DPWassersteinAutoencoder
    >>> X, _, group = make_spurious_bias(20000, random_state=0)
    >>> encoder = DPWassersteinAutoencoder(
    ...     n_components=2, bounds=(-10, 10), groups=[0, 1], random_state=0
    ... ).fit(X, sensitive_features=group)
    >>> encoder.transform(X).shape
    (20000, 2)
    >>> encoder.inverse_transform(encoder.transform(X)).shape
    (20000, 16)
    """

    def __init__(
        self,
        n_components=2,
        hidden_layer_sizes=(),
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
        min_group_size=None,
        neighboring="replace_one",
        sensitive_features=None,
        groups=None,
        ledger=None,
        random_state=None,
        verbose=0,
    ) -> None:
        self.n_components = n_components
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
        self.min_group_size = min_group_size
        self.neighboring = neighboring
        self.sensitive_features = sensitive_features
        self.groups = groups
        self.ledger = ledger
        self.random_state = random_state
        self.verbose = verbose

    _parameter_constraints = {
        **FairNetworkMixin._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None):
        """Fit encoder and decoder.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, float64 or float32.
        y : None
            Ignored.
        sensitive_features : array-like of shape (n_samples,) or \
                (n_samples, n_attributes), default=None
            Group labels out of `groups`; not needed by `transform`.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        rows = read_rows(self._read, X, y, sensitive_features)
        hidden, n_inputs = self._hidden_sizes(), self._n_columns
        network = self._new_network(
            [n_inputs, *hidden, self.n_components, *hidden[::-1], n_inputs]
        )
        head = RealOutputs(_code_layer(network))
        self._train(rows, network, head)
        self._n_features_out = self.n_components
        return self

    def _read(self, X, y, sensitive_features):
        columns, groups = self._read_features(X, sensitive_features)
        return {**columns, "stratum": self._strata(groups, len(columns["x"]))}

    def transform(self, X):
        """Encode the rows; no sensitive feature is needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With or without the columns that the constructor names as sensitive.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_components)
            In [-1, 1].
        """
        network, rows = self._fitted_network(), self._predict_rows(X)
        return network.forward(rows)[_code_layer(network)]

    def inverse_transform(self, X) -> np.ndarray:
        """Decode codes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Codes, as from `transform`.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            Features of the model, inside `bounds`, in their original units.
        """
        check_is_fitted(self)
        with domain():
            codes = check_array(X, estimator=self, input_name="X", dtype=np.float64)
        network = self._fitted_network()
        layer = _code_layer(network)
        if codes.shape[1] != network.sizes[layer]:
            raise ValueError(
                f"X has {codes.shape[1]} columns, but a code has n_components="
                f"{network.sizes[layer]}."
            )
        decoder = Network(network.sizes[layer:], product=network.product)
        decoder.activations = network.activations[layer:]
        decoder.theta[:] = network.theta[-decoder.theta.size :]
        scaling = self._fitted_scaling()
        rows = decoder.predict(codes)
        if scaling.low is not None:
            rows = np.clip(rows, -1.0, 1.0)
        return scaling.center + rows * scaling.half_width

    def score(self, X, y=None) -> float:
        """Return minus the mean squared error of the reconstruction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            With or without the columns that the constructor names as sensitive.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Mean over rows and features, in units of the features scaled to [-1, 1].
        """
        rows = self._predict_rows(X)
        return -float(np.mean((self._fitted_network().predict(rows) - rows) ** 2))

    # Its decoder is a contraction, which longer outputs would not be.
    _is_searched = False

    # One width for all columns is told more easily, and saves less.

    def _column_counts(self, n_columns: int, signal: float) -> list:
        counts = RangeCounts(n_targets=n_columns, targets=INPUTS)
        return [counts] if counts.tell(signal) else []

    def _n_pairs(self, network: Network) -> int:
        return 0  # two components that are alike would be one

    def _project(self, network: Network) -> None:
        """Clip the singular values of the decoder's layers to one.

        The decoder is then a contraction. Otherwise the penalty could be made small by
        a small code and a large decoder, with the groups as far apart as before.
        """
        for weights in network.weights[_code_layer(network) :]:
            left, values, right = np.linalg.svd(weights, full_matrices=False)
            weights[...] = (left * np.minimum(values, 1.0)) @ right

    def _new_network(self, sizes) -> Network:
        network = super()._new_network(sizes)
        # A bounded code, without a boundary at which its gradient stops.
        network.activations[_code_layer(network) - 1] = "tanh"
        return network


def _code_layer(network: Network) -> int:
    """Position of the code among the inputs and outputs of the layers: the middle."""
    return len(network.weights) // 2
