"""Private synthetic data by entropic optimal transport."""

from collections.abc import Mapping
from functools import lru_cache
from math import inf, sqrt
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._shared.arguments import InBatches
from .._shared.domain import domain, same_length
from .._shared.sklearn import Interval, StrOptions, fit_context
from .._training._network import hidden_widths
from .._wall import (
    Fact,
    GaussianEvent,
    Rows,
    calibrate_poisson,
    calibrate_without_replacement,
    compose_epsilon,
    gaussian_mu,
    read_rows,
    refuse_many_rows,
)
from ..preprocessing import as_table, check_gaps, check_lists, declared_of, read_cells
from ._base import (
    AUTO_COUNT,
    NOMINAL_RECORDS,
    SCALE,
    BaseGenerator,
    check_n_samples,
    or_default,
)
from ._exact import MAX_RECORDS
from ._network_training import NetworkPlan, PointGradient, latent_inputs, train_network
from ._pairs import PairsPlan, fit_pairs, sample_pairs
from ._quality import quality_lines, quality_text, release_quality
from ._raw import (
    draw_classes,
    encode_rows,
    given_levels,
    has_unlisted,
    label_of,
    learn_columns,
    learning_lines,
    learning_share,
    level_codes,
    most_levels,
    place_share,
    public_columns,
    tell_of_losses,
)
from ._schema import Container
from ._semidual import SemidualPlan, draw_levels, fit_mixture

# Parts of mu**2 for means, second moments, transport steps; without steps, the rest.
MEAN_SHARE = 0.05
ONE_POINT_SHARES = (0.5, 0.5, 0.0)

SEMIDUAL_STEPS = 8
MOST_POINTS = 64

# Published settings are for 28 x 28 images in [0, 1]; these are fractions of the
# diameter (clip) and of its square (costs).
NETWORK_STEPS = 50_000
NETWORK_CLIP = 0.5 / 28
NETWORK_REGULARIZATION = 5 / 784
NETWORK_LABEL_COST = 200 / 784
# Pixels start near the background, at about a tenth of the range.
NETWORK_IMAGE_BIAS = -2.0


class DPSinkhornGenerator(BaseGenerator):
    r"""Learn to draw synthetic records by private entropic optimal transport.

    The generated points :math:`x_j` of a class and their potentials :math:`\psi_j`
    solve the semi-dual of the entropic transport problem between points and records,

    .. math::

        \min_x \max_\psi \sum_j a_j \psi_j
        - \lambda \sum_i \log \sum_j \exp\frac{\psi_j - \|y_i - x_j\|^2}{\lambda} ,

    whose gradients are sums over the records. A synthetic record is a point plus a
    Gaussian with what the points leave of the class covariance. Raw tables - data
    frames with text, dates, missing cells - are not points in a space: their default
    is one distribution per column at every point, fitted to noisy tables of all pairs
    of columns (``method="pairs"``).

    .. rubric:: Privacy

    (epsilon, delta)-DP for whole records (x, y). ``method="semidual"``: counts of the
    columns, class means, class second moments and `max_iter` transport sums, clipped,
    with Gaussian noise; l2 sensitivities :math:`\sqrt{2A}` for A columns,
    :math:`2R_1`, :math:`\sqrt2 R^2` and :math:`2R` when one record is replaced,
    :math:`\sqrt A`, :math:`\sqrt2 R_1`, :math:`R^2` and :math:`\sqrt2 R` when one is
    added or removed, for clip norms :math:`R_1, R`. Composition is exact Gaussian DP.
    ``method="network"``: `max_iter` point gradients clipped as a whole to c, l2
    sensitivity :math:`2c`, Poisson sampling, privacy loss distributions.
    ``method="pairs"``: one count per record and column for what the codebook does not
    say, several per number, counts of levels, tables of class and column, tables of all
    pairs of columns, quality figures; sensitivities in the user guide. Public: the
    codebook, bounds, classes, categories, bins, every hyper-parameter, column names,
    and the number of records if one record is replaced. `sample` is free.

    Parameters
    ----------
    {epsilon}
    {delta}
    method : {"auto", "pairs", "semidual", "network"}, default="auto"
        "pairs" is for raw tables: points fitted to noisy tables of all pairs of
        columns. "auto": "pairs" if there is a `codebook` or `categories`, or X
        is a data frame and `bounds` no tuple; else "semidual". "network" is the
        published algorithm [1]_: a network trained step by step on noisy gradients.
        It is kept for comparison: on MNIST at epsilon 10 a fit took more than a
        hundred times as long, and classifiers trained on its samples were 0.11 to 0.15
        less accurate.
    bounds : tuple (low, high), or dict, default=None
        Public range of the columns: two numbers, or two arrays with an entry per
        column; values outside are clipped. Narrower ranges are learnt inside, but for
        images and "network". In a raw table of the numeric columns without `bins`,
        or a dict from their names to pairs.
        None: read from the data, with a `PrivacyLeakWarning`.
    {classes}
    codebook : Codebook or dict, default=None
        "pairs": what is public about the columns, see
        :class:`~fairpriv_sklearn.preprocessing.Codebook`. The rest is learnt: kinds,
        places of numbers, whether they are whole, frequent categories. A target that
        it names is the label if its categories are listed and `fit` gets no y; what
        columns have to do with any other target is measured with less noise. Groups
        whose categories it lists get quality figures of their own.
    categories : dict, default=None
        "pairs": public list of values for categorical columns, by column name
        (position in an array); None in a list stands for missing values.
    bins : dict, default=None
        "pairs": from names of columns to public edges. Those of other numbers are
        learnt: their quantiles.
    basis : {"auto", "dct", "identity"} or array of shape (n_columns, k), default="auto"
        Public orthonormal basis of the released coordinates. "auto": cosine basis
        for a square number of at least 65 columns, taken for images, else identity.
        An array is the basis itself.
    n_components : int, default="auto"
        Number of cosine frequencies. "auto": 150 from epsilon 10 on, 120 from 3 on,
        100 below, and at most 9/16 of the columns; "network": all of them. Fewer
        leave that gradient, and its noise, in the lowest frequencies.
    n_points : int, default="auto"
        Points per class. "auto": as many as the noise allows, at most 64. One
        point: no transport steps, class mean and covariance only.
    max_iter : int, default="auto"
        Noisy steps. "auto": 8; 50000 for "network".
    clip_norm : float, default="auto"
        Largest distance of a record from its class mean, as a fraction of the
        diameter of the bounds. "auto": 5/28 to 6/28 in the cosine basis, else 0.3.
        For "network", the norm c of the gradient of all points, 0.5/28. Range: [1e-6,
        1e6].
    regularization : float, default="auto"
        Entropic regularisation: "semidual" as a fraction of twice the class
        variance (0.02), "network" as a fraction of the squared diameter (5/784).
        Range: [1e-6, 1e6].
    {jitter}
    variance_cap : bool, default=True
        Scale the local noise of each column to at most the largest variance that a
        number in its range with the mean of the point can have.
    batch_size : int, default=50
        "network": generated points per step, and expected batch of records.
    sampling_rate : float, default="auto"
        "network": probability of a record to enter a batch. "auto": `batch_size` over
        the number of records, possible only if that number is public. Range: (0, 1].
    l1_weight : float, default=0.0
        "network": weight m of the l1 distance in the cost, on columns scaled to
        [0, 1]. The published value 1 is three times slower and gave worse
        classifiers here. Range: [0, 1e6].
    debiasing : float, default=0.2
        "network": share of points drawn afresh for the self term. Range: [0, 1].
    hidden_layer_sizes : tuple of int, default=(128, 256)
        "network": widths of the hidden layers.
    latent_dim : int, default=16
        "network": number of normal inputs.
    learning_rate : float, default=4e-4
        "network": first learning rate of Adam, decaying linearly to zero. Range:
        [1e-6, 1e6].
    quality : bool, default=True
        "pairs": spend a fiftieth of the squared Gaussian parameter on figures of how
        far samples are from the records.
    {neighboring}
    {ledger}
    {random_state}

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        What `fit` released and what it cost.
    classes_ : ndarray or None
        Labels; None if fitted without `y`.
    class_weights_ : ndarray of shape (n_classes,)
        Released class frequencies ("network": equal, public).
    quality_ : TableQuality
        "pairs" with `quality`: distances of one-way and two-way tables, overall and by
        class and group, with intervals. `quality_report` words them.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X was a DataFrame with string names.

    Raises
    ------
    ValueError
        If X has missing values outside the public lists, or labels, categories or
        parameters do not fit.

    Warns
    -----
    PrivacyLeakWarning
        If `bounds` or `classes` were read from the data.
    UserWarning
        If noise hides what a column of a raw table holds, or where its numbers lie,
        if they may lie beyond all that is looked for, or if nearly all samples of a
        column are missing or "other".

    See Also
    --------
    DPSlicedWassersteinGenerator : Noisy histograms of projections; for few columns.

    Notes
    -----
    In raw tables text that says a number is a number, and text that says a day as ISO
    8601 does, as in 2021-12-31, is a date. "31.12.2021" and "$1,234" are categories, of
    which next to nothing is learnt, and missing where a codebook declares dates and
    numbers: :func:`~fairpriv_sklearn.preprocessing.parse_cells` reads them first.

    Most of the quality on images comes from one noisy covariance per class. The
    default constants were chosen by looking at MNIST and Adult, which is not a private
    selection for these two.

    References
    ----------
    .. [1] T. Cao, A. Bie, A. Vahdat, S. Fidler, K. Kreis, "Don't Generate Me:
       Training Differentially Private Generative Models with Sinkhorn Divergence",
       NeurIPS 2021.
    .. [2] A. Genevay, M. Cuturi, G. Peyré, F. Bach, "Stochastic Optimization for
       Large-scale Optimal Transport", NIPS 2016.
    .. [3] J. Dong, A. Roth, W. J. Su, "Gaussian Differential Privacy", Journal of
       the Royal Statistical Society B, 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from fairpriv_sklearn.generative import DPSinkhornGenerator
    >>> X, y = load_digits(return_X_y=True)
    >>> generator = DPSinkhornGenerator(
    ...     epsilon=3.0, bounds=(0, 16), classes=range(10), random_state=0
    ... ).fit(X, y)
    >>> X_synthetic, y_synthetic = generator.sample(500)
    >>> X_synthetic.shape
    (500, 64)
    >>> round(generator.privacy_.epsilon, 4)
    3.0
    """

    _parameter_constraints: dict = {
        **BaseGenerator._parameter_constraints,
        "method": [StrOptions({"auto", "pairs", "semidual", "network"})],
        "categories": [dict, None],
        "codebook": "no_validation",  # `Codebook.from_dict` says what is wrong
        "quality": ["boolean"],
        "bins": [dict, None],
        "n_points": AUTO_COUNT,
        "max_iter": AUTO_COUNT,
        "regularization": [StrOptions({"auto"}), SCALE],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "sampling_rate": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="right")],
        "l1_weight": [Interval(Real, 0, 1e6, closed="both")],
        "debiasing": [Interval(Real, 0, 1, closed="both")],
        "hidden_layer_sizes": ["array-like"],
        "latent_dim": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [SCALE],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-5,
        method="auto",
        bounds=None,
        classes=None,
        codebook=None,
        categories=None,
        bins=None,
        basis="auto",
        n_components="auto",
        n_points="auto",
        max_iter="auto",
        clip_norm="auto",
        regularization="auto",
        jitter="auto",
        variance_cap=True,
        batch_size=50,
        sampling_rate="auto",
        l1_weight=0.0,
        debiasing=0.2,
        hidden_layer_sizes=(128, 256),
        latent_dim=16,
        learning_rate=4e-4,
        quality=True,
        neighboring="replace_one",
        ledger=None,
        random_state=None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.bounds = bounds
        self.classes = classes
        self.codebook = codebook
        self.categories = categories
        self.quality = quality
        self.bins = bins
        self.basis = basis
        self.n_components = n_components
        self.n_points = n_points
        self.max_iter = max_iter
        self.clip_norm = clip_norm
        self.regularization = regularization
        self.jitter = jitter
        self.variance_cap = variance_cap
        self.batch_size = batch_size
        self.sampling_rate = sampling_rate
        self.l1_weight = l1_weight
        self.debiasing = debiasing
        self.hidden_layer_sizes = hidden_layer_sizes
        self.latent_dim = latent_dim
        self.learning_rate = learning_rate
        self.neighboring = neighboring
        self.ledger = ledger
        self.random_state = random_state

    _reads_batches = True

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Release noisy statistics of the records and fit the generator to them.

        Parameters
        ----------
        X : array-like, DataFrame or Arrow table of shape (n_samples, n_features)
            Records: numbers, or a raw table.
        y : array-like of shape (n_samples,), default=None
            Labels.

        Returns
        -------
        self : object
            Fitted generator.
        """
        if self._learns_ranges(X):
            return self._fit_raw(X, y)
        for name in ("codebook", "categories", "bins"):
            if getattr(self, name) is not None:
                raise ValueError(f'{name} is for raw tables: use method="pairs".')
        # what was fitted stays known when parameters are set anew
        self._kind = "semidual" if self.method == "auto" else self.method
        rows = read_rows(self._read_numbers, X, y)
        fit_rows = self._fit_network if self._kind == "network" else self._fit_semidual
        fit_rows(rows, *self._public)
        return self

    def _read_numbers(self, X, y, sensitive_features) -> dict:
        """The private columns of records that are numbers; sets public facts."""
        if isinstance(self.bounds, Mapping):
            raise ValueError('bounds as a dict is for raw tables: use method="pairs".')
        default = None if self._kind == "network" else self._default_components
        return self._read_records(X, y, default)

    def __sklearn_tags__(self):
        """Tags: raw tables may have text and missing cells."""
        tags = super().__sklearn_tags__()
        if self.method == "pairs":
            tags.input_tags.string = True
            tags.input_tags.categorical = True
            tags.input_tags.allow_nan = True
        return tags

    # --- raw tables, pairs ------------------------------------------------------------

    def _learns_ranges(self, X) -> bool:
        return self.method == "pairs" or (self.method == "auto" and self._is_raw(X))

    def _is_raw(self, X) -> bool:
        """Whether X is taken for a raw table: by its container and public arguments."""
        if self.codebook is not None or self.categories is not None:
            return True
        if isinstance(X, InBatches):
            X, *_ = X._first()
        is_frame = hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__")
        return is_frame and (self.bounds is None or isinstance(self.bounds, Mapping))

    def _fit_raw(self, X, y):
        """Learn the columns, release their tables, and fit points to them."""
        rows = read_rows(self._read_raw, X, y)
        columns, label, facts = self._public
        groups = [
            (column.name, a, column.level_names)
            for a, column in enumerate(columns)
            if column.declared.role == "group" and column.keys
        ]
        if label is not None:
            class_names = label.level_names
        else:
            class_names = () if self.classes_ is None else tuple(self.classes_.tolist())
        n_records = self._public_n(rows.n_rows)
        mu = gaussian_mu(self.epsilon, self.delta)
        places = place_share(columns, n_records, mu)
        plan = PairsPlan(
            n_classes=max(1, len(class_names)),
            n_columns=len(columns),
            most_levels=most_levels(columns),
            quality=quality_lines(class_names, groups) if self.quality else (),
            share=1 - learning_share(columns, places),
            n_records=n_records,
            is_counted=has_unlisted(columns),
        )

        def lines(mu):
            learnt = learning_lines(columns, mu, self.delta, places)
            return [*learnt, *plan.lines(mu)]

        wall = self._calibrated(lines, facts)
        with np.errstate(all="ignore"):
            columns = learn_columns(wall, rows, columns, plan.n_records)
            # Two bytes a cell: these are held in memory, wherever the rows are.
            labels = [] if label is None else [label]
            coded, levels = encode_rows(rows, [*columns, *labels])
            if label is None:
                codes = coded.whole().codes
            else:
                levels, codes = levels[:, :-1], levels[:, -1].astype(np.int64)
            coded = Rows(rows.n_rows, levels=levels, codes=codes)
            pairs = fit_pairs(coded, columns, plan, wall)
            if self.quality:
                self.quality_ = release_quality(
                    wall, levels, codes, pairs, class_names, groups
                )
        counted = [(c, pairs.level_counts(a)) for a, c in enumerate(columns)]
        tell_of_losses(self._public[0], counted)
        columns = [c.with_shares(x) for c, x in zip(columns, pairs.levels, strict=True)]
        self._kind, self._pairs = "pairs", pairs
        self._columns, self._label = columns, label
        self._publish(wall, pairs.counts)
        return self

    def _read_raw(self, X, y, sensitive_features) -> dict:
        """The private cells and codes of a table; sets public facts."""
        with domain("X", own_words=True):
            table = read_cells(self, X, reset=True)
            X = as_table(X)
        if y is not None:
            same_length(table, y)
        codes, facts = self._encode_labels(y, len(table))
        self._container = Container.of(X)
        self._names = list(self._container.names) or list(range(X.shape[1]))
        columns = public_columns(
            self._names, self.codebook, self.categories, self.bounds, self.bins
        )
        known = declared_of((c.name, c.declared) for c in columns)
        columns = [column for column in columns if column.is_used]
        label = None if y is not None else label_of(columns, self.codebook)
        columns = [column for column in columns if column is not label]
        if not columns:
            raise ValueError("X has no column left to model.")
        checked = [*columns, *([label] if label else [])]
        check_lists(table, checked)
        check_gaps(table, checked)
        # Where nothing is declared the names are what is public.
        facts = [Fact("columns", known or list(self._names)), *facts]
        self._public = columns, label, facts
        return {"cells": table, "codes": codes.astype(np.int64)}

    def _sample_raw(self, n_samples, y, given, public):
        pairs, label = self._pairs, self._label
        if not isinstance(given, Mapping | None):
            raise TypeError("given must be a dict from names of columns to values.")
        given = dict(given or {})
        if label is not None and label.name in given:
            raise ValueError(f"pass the values of {label.name!r} as y.")
        n = check_n_samples(n_samples, y, given)
        levels = given_levels(given, self._columns, n)
        if y is not None:
            codes = self._raw_codes(y)
        else:
            codes = draw_classes(pairs, levels, n, public)
        drawn, within = sample_pairs(pairs, codes, levels, public)
        shown = [
            (column, drawn[:, a], within[:, a], pairs.levels[a] > 0)
            for a, column in enumerate(self._columns)
        ]
        if label is not None:
            shown.append((label, codes, None, np.ones(label.n_levels, dtype=bool)))
        shown.sort(key=lambda column: column[0].position)
        X = self._container.build(
            [column.decode(levels, places) for column, levels, places, _ in shown],
            [column.listed(present) for column, *_, present in shown],
            [column.whole_type(present) for column, *_, present in shown],
            names=[self._names[column.position] for column, *_ in shown],
        )
        return X if self.classes_ is None else (X, self.classes_[codes])

    def _raw_codes(self, y):
        if self._label is None:
            return self._label_codes(y)
        return level_codes(column_or_1d(y), self._label, "y")

    def quality_report(self) -> str:
        """Quality, privacy statement and a warning, for whoever publishes samples.

        Returns
        -------
        report : str
            Markdown. Of ``method="pairs"`` with `quality`; released by `fit`, so asking
            for it is free.
        """
        check_is_fitted(self, "class_weights_")
        if not hasattr(self, "quality_"):
            raise ValueError(
                'quality_report needs a fit with method="pairs" and quality=True.'
            )
        n_records = self._pairs.counts.sum()
        both = [
            (column, self._pairs.level_counts(a) / n_records)
            for a, column in enumerate(self._columns)
        ]
        others = [(c.name, c.n_cells, x[c.n_cells]) for c, x in both if c.has_other]
        gaps = [(c.name, x[-1]) for c, x in both if c.declared.missing]
        groups = [c.name for c in self._columns if c.declared.role == "group"]
        unlisted = [name for name in groups if name not in self.quality_.by_group]
        return quality_text(self.quality_, self.privacy_, others, gaps, unlisted)

    # --- numeric records, semi-dual ---------------------------------------------------

    def _fit_semidual(self, rows, space, facts):
        plan = self._semidual_plan(space, rows.n_rows)
        ranges = self._range_counts(space, rows.n_rows)
        wall = self._open(plan, facts, ranges)
        with np.errstate(all="ignore"):
            space, plan = self._learn_box(wall, rows, space, plan, ranges)
            mixture = fit_mixture(rows, plan, wall)
        self._space_, self._mixture = space, mixture
        self._publish(wall, mixture.counts)

    def _semidual_plan(self, space, n_records):
        refuse_many_rows(n_records, MAX_RECORDS)
        mean_clip, clip = self._clip_norms(space)
        moments = 0.2 if self.epsilon >= 10 else 0.35 if self.epsilon >= 3 else 0.5
        shares = (MEAN_SHARE, moments, 1 - MEAN_SHARE - moments)
        n_steps = SEMIDUAL_STEPS if self.max_iter == "auto" else self.max_iter
        n_points = self.n_points
        if n_points == "auto":
            # as many as keep the noise of each centre at a fifth of the clip
            mu = gaussian_mu(self.epsilon, self.delta) * sqrt(shares[2] / n_steps)
            known = self.neighboring == "replace_one"
            size = n_records / self._n_classes if known else NOMINAL_RECORDS
            noise_times_mu = 2 * sqrt(space.n_components)  # in clips, of one record
            n_points = int(np.clip(size * mu / (5 * noise_times_mu), 1, MOST_POINTS))
        if n_points == 1:
            n_steps, shares = 0, ONE_POINT_SHARES
        return SemidualPlan(
            n_classes=self._n_classes,
            n_components=space.n_components,
            n_points=n_points,
            n_steps=n_steps,
            mean_clip=mean_clip,
            clip=clip,
            shares=shares,
            regularization=or_default(self.regularization, 0.02),
            n_records=self._public_n(n_records),
        )

    def _sample_mixture(self, c, n, public):
        space, mixture = self._space_, self._mixture
        centres = space.pixels(mixture.means[c] + mixture.points[c])  # (J, d)
        j = draw_levels(np.tile(mixture.weights[c], (n, 1)), public.uniform(n))
        factor = mixture.factors[c]
        local = space.spread(public.standard_normal((n, factor.shape[1])) @ factor.T)
        if self.variance_cap:
            local *= space.variance_cap(centres, factor)[j]
        return self._add_jitter(centres[j] + local, public)

    # --- the published network --------------------------------------------------------

    def _fit_network(self, rows, space, facts):
        plan = self._network_plan(space, rows.n_rows)
        # a square basis would only turn the noise
        basis = space.basis if space.n_components < self.n_features_in_ else None
        mu = 1 / plan.noise_multiplier if plan.noise_multiplier else inf
        sampling = "poisson", plan.sampling_rate
        steps = PointGradient(plan, basis).line(mu, plan.n_steps, sampling)
        wall = self._filter([steps], facts)
        with np.errstate(all="ignore"):
            self._network = train_network(rows, plan, wall, basis)
        self._space_, self._network_plan_ = space, plan
        self._publish(wall, np.ones(self._n_classes))

    def _network_plan(self, space, n_records):
        n_steps = NETWORK_STEPS if self.max_iter == "auto" else self.max_iter
        rate = self.sampling_rate
        if rate == "auto":
            if self.neighboring == "add_remove":
                raise ValueError(
                    'sampling_rate="auto" divides by the number of records, which '
                    "add_remove keeps private: pass a public rate."
                )
            rate = min(1.0, self.batch_size / n_records)
        n_features = len(space.lower)
        n_draws = n_steps * self.batch_size * space.n_components
        multiplier = calibrate_network(
            self.epsilon, self.delta, rate, n_steps, n_draws, self.neighboring
        )
        diameter = space.diameter
        return NetworkPlan(
            n_classes=self._n_classes,
            n_features=n_features,
            n_steps=n_steps,
            batch_size=self.batch_size,
            sampling_rate=rate,
            noise_multiplier=multiplier,
            clip=or_default(self.clip_norm, NETWORK_CLIP) * diameter,
            regularization=or_default(self.regularization, NETWORK_REGULARIZATION)
            * diameter**2,
            l1_weight=self.l1_weight,
            label_cost=NETWORK_LABEL_COST * diameter**2,
            debiasing=self.debiasing,
            hidden_layer_sizes=hidden_widths(self.hidden_layer_sizes),
            latent_dim=self.latent_dim,
            learning_rate=self.learning_rate,
            output_bias=NETWORK_IMAGE_BIAS if space.centre == 0 else 0.0,
        )

    # --- sampling ---------------------------------------------------------------------

    def _sample_class(self, c, n, public):
        if self._kind == "semidual":
            return self._sample_mixture(c, n, public)
        plan = self._network_plan_
        inputs = latent_inputs(np.full(n, c), plan, public)
        return self._space_.restore(self._network.predict(inputs))


@lru_cache(maxsize=64)
def calibrate_network(epsilon, delta, rate, n_steps, n_draws, neighboring):
    """Noise multiplier of a sampled run, the error of the sampler included."""
    if epsilon == inf:
        return 0.0
    replaced = neighboring == "replace_one"
    calibrate = calibrate_without_replacement if replaced else calibrate_poisson
    # what drawing the noise costs enters epsilon about twice: directly, and through
    # the share of delta it takes
    sampler = 2 * compose_epsilon([GaussianEvent(0.0, n_draws)], delta)
    if epsilon <= sampler:
        raise ValueError(
            f"epsilon={epsilon} does not cover the error of drawing {n_draws} noisy "
            "numbers: raise epsilon or lower max_iter."
        )
    return calibrate(epsilon - sampler, delta, rate, n_steps)
