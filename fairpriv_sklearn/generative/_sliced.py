"""Private synthetic data from projections: noisy histograms, or noisy gradients."""

from dataclasses import replace
from numbers import Integral

import numpy as np

from .._shared.sklearn import Interval, StrOptions, fit_context
from .._training._network import hidden_widths
from .._wall import read_rows, refuse_many_rows
from ._base import AUTO_COUNT, SCALE, BaseGenerator
from ._exact import MAX_RECORDS as MOST_SUMMED
from ._network_training import latent_inputs
from ._semidual import SemidualPlan, fit_mixture
from ._sliced_gradient import MAX_BATCH, MAX_RECORDS, GradientPlan, train_on_projections
from ._slices import (
    SliceCounts,
    SlicedPlan,
    draw_directions,
    flow,
    shrink_distributions,
    slice_quantiles,
    slice_scales,
)

MEAN_SHARE = 0.05
# Part of the budget for the histograms: by number of coordinates, then by epsilon.
FEW_COMPONENTS = 10
FEW_COMPONENTS_SHARE = 0.7
MOST_SLICES = 200
# Particles that move together: enough for smooth empirical quantiles.
PARTICLES = 1024


class DPSlicedWassersteinGenerator(BaseGenerator):
    r"""Learn to draw synthetic records from their noisy projections.

    Particles :math:`x_i` follow the gradient of the sliced squared Wasserstein
    distance to the released one-dimensional distributions,

    .. math::

        \min_x \frac1K \sum_{k=1}^K
        W_2^2\Big(\tfrac1n \sum_i \delta_{\langle x_i, \theta_k \rangle},\;
        \hat\mu_{k}\Big) ,

    from draws of the released Gaussian of their class. The distributions are
    histograms, released once. With ``method="gradient"`` the particles come from a
    network, and the gradient is released anew in every step [3]_.

    .. rubric:: Privacy

    (epsilon, delta)-DP for whole records (x, y): counts of the columns, class means
    and second moments, then the histograms of K public directions, with Gaussian
    noise. A record adds one count per direction: l2 sensitivity :math:`\sqrt{2K}`
    when one record is replaced, :math:`\sqrt K` when one is added or removed; the
    others as in `DPSinkhornGenerator`. ``method="gradient"``: class means, then
    `max_iter` gradients at the generated points. For records in a ball of radius R
    about the released mean, the public matrix :math:`\Theta` of directions, and m
    records and dummies at least, l2 sensitivity :math:`4 R \|\Theta\|^2 / (K m)` when
    a record is added or removed, and :math:`\sqrt2` times that, with several classes,
    when one is replaced. Composition is exact Gaussian DP. Public: bounds, classes,
    directions, bins, every hyper-parameter, and the number of records if one record
    is replaced. Flow, network and `sample` are free.

    Parameters
    ----------
    {epsilon}
    {delta}
    method : {"histogram", "gradient"}, default="histogram"
        "gradient" is the published alternative [3]_, kept for comparison: a network
        trained on noisy gradients, which pays at every step.
    bounds : tuple (low, high), default=None
        Public range of the columns: two numbers, or two arrays with an entry per
        column; values outside are clipped. Narrower ranges are learnt inside, but for
        images and "gradient".
        None: read from the data, with a `PrivacyLeakWarning`.
    {classes}
    n_projections : int, default="auto"
        Number of directions K. "auto": 8 per component, at most 200; one for one
        component.
    n_bins : int, default=24
        "histogram": bins of each, over three standard deviations on both sides.
    n_flow_steps : int, default=30
        "histogram": steps of the particle flow; free.
    max_iter : int, default=200
        "gradient": noisy steps. The noise of each grows with the root of their
        number.
    batch_size : int, default=32
        "gradient": points of every class that a step generates. Range: [1, 65536].
    hidden_layer_sizes : tuple of int, default=(32, 32, 32, 32)
        "gradient": widths of the hidden layers.
    learning_rate : float, default=0.01
        "gradient": first learning rate of Adam, decaying linearly to zero. Range:
        [1e-6, 1e6].
    basis : {"auto", "dct", "identity"} or array of shape (n_columns, k), default="auto"
        Public orthonormal basis of the released coordinates, as in
        `DPSinkhornGenerator`.
    n_components : int, default="auto"
        Number of cosine frequencies. "auto": 150 from epsilon 10 on, 120 from 3 on,
        100 below, and at most 9/16 of the columns.
    clip_norm : float, default="auto"
        Largest distance of a record from its class mean, as a fraction of the
        diameter of the bounds. "auto": 5/28 to 6/28 in the cosine basis, else 0.3.
        Range: [1e-6, 1e6].
    {jitter}
    variance_cap : bool, default=True
        "histogram": scale the deviations of each column to at most the largest
        variance that a number in its range with the class mean can have. Only where
        the basis leaves directions out.
    {neighboring}
    {ledger}
    {random_state}

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    directions_ : ndarray of shape (n_components, n_projections)
        The public directions.
    classes_ : ndarray or None
        Labels; None if fitted without `y`.
    class_weights_ : ndarray of shape (n_classes,)
        Released class frequencies.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X was a DataFrame with string names.

    Raises
    ------
    ValueError
        If X is not finite, labels or parameters do not fit, or there are more than
        16777216 records with ``method="gradient"``.

    Warns
    -----
    PrivacyLeakWarning
        If `bounds` or `classes` were read from the data.

    See Also
    --------
    DPSinkhornGenerator : Points and covariances; the better choice for images.

    Notes
    -----
    The natural choice for up to about ten columns, where few directions see
    everything. Each of K histograms sees one dimension and together they cost
    sqrt(K) in sensitivity: on images, classifiers trained on the samples do worse
    than with `DPSinkhornGenerator`, at every epsilon tried.

    References
    ----------
    .. [1] N. Bonneel, J. Rabin, G. Peyré, H. Pfister, "Sliced and Radon Wasserstein
       Barycenters of Measures", Journal of Mathematical Imaging and Vision 51, 2015.
    .. [2] A. Liutkus, U. Şimşekli, S. Majewski, A. Durmus, F.-R. Stöter,
       "Sliced-Wasserstein Flows: Nonparametric Generative Modeling via Optimal
       Transport and Diffusions", ICML 2019.
    .. [3] D. Rodríguez-Vítores, C. Lalanne, J.-M. Loubes, "Learning with
       Differentially Private (Sliced) Wasserstein Gradients", arXiv:2502.01701, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpriv_sklearn.generative import DPSlicedWassersteinGenerator
    >>> angle = np.linspace(0, 2 * np.pi, 2000)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> generator = DPSlicedWassersteinGenerator(
    ...     epsilon=1.0, bounds=(-1.5, 1.5), random_state=0
    ... ).fit(ring)
    >>> radius = np.linalg.norm(generator.sample(1000), axis=1)
    >>> bool(abs(radius.mean() - 1) < 0.1)
    True
    """

    _renamed = {"n_slices": "n_projections"}

    _parameter_constraints: dict = {
        **BaseGenerator._parameter_constraints,
        "n_projections": AUTO_COUNT,
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "n_flow_steps": [Interval(Integral, 0, None, closed="left")],
        "method": [StrOptions({"histogram", "gradient"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, MAX_BATCH, closed="both")],
        "hidden_layer_sizes": ["array-like"],
        "learning_rate": [SCALE],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-5,
        method="histogram",
        bounds=None,
        classes=None,
        n_projections="auto",
        n_bins=24,
        n_flow_steps=30,
        max_iter=200,
        batch_size=32,
        hidden_layer_sizes=(32, 32, 32, 32),
        learning_rate=0.01,
        basis="auto",
        n_components="auto",
        clip_norm="auto",
        jitter="auto",
        variance_cap=True,
        neighboring="replace_one",
        ledger=None,
        random_state=None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.bounds = bounds
        self.classes = classes
        self.n_projections = n_projections
        self.n_bins = n_bins
        self.n_flow_steps = n_flow_steps
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate = learning_rate
        self.basis = basis
        self.n_components = n_components
        self.clip_norm = clip_norm
        self.jitter = jitter
        self.variance_cap = variance_cap
        self.neighboring = neighboring
        self.ledger = ledger
        self.random_state = random_state

    _reads_batches = True

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Release noisy statistics of the records and fit the generator to them.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records.
        y : array-like of shape (n_samples,), default=None
            Labels.

        Returns
        -------
        self : object
            Fitted generator.
        """
        rows = read_rows(self._read, X, y)
        space, facts = self._public
        plan = self._plan(space, rows.n_rows)
        ranges = None
        if self.method == "histogram":
            ranges = self._range_counts(space, rows.n_rows)
        wall = self._open(plan, facts, ranges)
        self.directions_ = draw_directions(
            space.n_components, plan.n_projections, wall.public_draws()
        )
        with np.errstate(all="ignore"):
            space, moments = self._learn_box(wall, rows, space, plan.moments, ranges)
            plan = replace(plan, moments=moments)
            if self.method == "gradient":
                counts, self._means, self._network = train_on_projections(
                    rows, self.directions_, plan, wall
                )
            else:
                counts = self._fit_histograms(rows, plan, wall)
        self._space_, self._plan_ = space, plan
        self._publish(wall, counts)
        return self

    def _read(self, X, y, sensitive_features) -> dict:
        """The private columns of one table; sets public facts."""
        return self._read_records(X, y, self._default_components)

    def _fit_histograms(self, rows, plan, wall):
        mixture = fit_mixture(rows, plan.moments, wall)
        self._scales = slice_scales(mixture.factors, self.directions_)
        query = SliceCounts(plan)
        state = (mixture.means, self.directions_, self._scales)
        noisy, scale = wall.release(query, rows, state), wall.scale(query)
        self._distributions = shrink_distributions(noisy, mixture.counts, scale, plan)
        self._mixture = mixture
        return mixture.counts

    def _plan(self, space, n_records):
        refuse_many_rows(n_records, MOST_SUMMED)
        if self.method == "gradient" and n_records > MAX_RECORDS:
            raise ValueError(
                f'method="gradient" takes at most {MAX_RECORDS} records: fit on a part '
                'of the table, or with method="histogram".'
            )
        k = space.n_components
        mean_clip, clip = self._clip_norms(space)
        share = 0.4 if self.epsilon >= 10 else 0.3
        if k <= FEW_COMPONENTS:
            share = FEW_COMPONENTS_SHARE
        n_projections = self.n_projections
        if n_projections == "auto":
            n_projections = 1 if k == 1 else min(8 * k, MOST_SLICES)
        n_projections = int(n_projections)
        moments = SemidualPlan(
            n_classes=self._n_classes,
            n_components=k,
            n_points=1,
            n_steps=0,
            mean_clip=mean_clip,
            clip=clip,
            shares=(MEAN_SHARE, 1 - MEAN_SHARE - share, 0.0),
            regularization=0.0,
            n_records=self._public_n(n_records),
        )
        if self.method == "gradient":
            return GradientPlan(
                moments=moments,
                n_projections=n_projections,
                n_steps=self.max_iter,
                batch_size=int(self.batch_size),
                hidden_layer_sizes=hidden_widths(self.hidden_layer_sizes),
                learning_rate=self.learning_rate,
            )
        return SlicedPlan(
            moments=moments,
            n_projections=n_projections,
            n_bins=self.n_bins,
            share=share,
            n_flow_steps=self.n_flow_steps,
        )

    def _sample_class(self, c, n, public):
        # what was fitted counts, not a parameter set anew
        if isinstance(self._plan_, GradientPlan):
            return self._sample_network(c, n, public)
        space, mixture = self._space_, self._mixture
        # few particles would have poor quantiles: move enough, keep what is wanted
        n_moved = max(n, PARTICLES)
        factor = mixture.factors[c]
        particles = public.standard_normal((n_moved, len(factor))) @ factor.T
        targets = slice_quantiles(self._distributions[c], n_moved, self._plan_)
        targets = targets * self._scales[c]
        local = flow(particles, targets, self.directions_, self._plan_.n_flow_steps)[:n]
        centre = space.pixels(mixture.means[c])
        local = space.spread(local)
        if self.variance_cap and space.basis is not None:
            local *= space.variance_cap(centre[None], factor)
        return self._add_jitter(centre + local, public)

    def _sample_network(self, c, n, public):
        space, plan = self._space_, self._plan_
        inputs = latent_inputs(np.full(n, c), plan, public)
        local = plan.moments.clip * self._network.predict(inputs)
        return self._add_jitter(space.pixels(self._means[c] + local), public)
