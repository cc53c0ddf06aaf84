"""What the three networks share: parameters, public scaling, training."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from fairpriv_sklearn._groups import blind_X
from fairpriv_sklearn._network import SGD, Adam, Network, hidden_widths
from fairpriv_sklearn._rowwise import row_scores
from fairpriv_sklearn._sklearn import Interval, StrOptions
from fairpriv_sklearn._training._design import FeatureScaling
from fairpriv_sklearn._training._noisy_gradients import NoisyGradientsMixin
from fairpriv_sklearn._training._penalty import WassersteinPenalty
from fairpriv_sklearn._training._progress import Progress
from fairpriv_sklearn.mechanisms import GaussianMechanism, noise_source
from fairpriv_sklearn.neural_network._objective import (
    MAX_RECORDS,
    FairLoss,
    GradientSensitivity,
    padded_chunks,
)
from fairpriv_sklearn.neural_network._training import noisy_descent


class FairNetworkMixin(NoisyGradientsMixin):
    """Networks trained by noisy gradients of a loss and a sliced Wasserstein penalty.

    Subclasses build the network and its head, and give `constraint` if they have one.
    """

    # The biases of the first layer are the intercept of the features' scaling.
    fit_intercept = False

    _parameter_constraints: dict = {
        **NoisyGradientsMixin._parameter_constraints,
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
        "activation": [StrOptions({"identity", "logistic", "tanh", "relu"})],
        "n_projections": [Interval(Integral, 1, 512, closed="both")],
        "clip_norm": [Interval(Real, 0, None, closed="neither")],
        "projection_clip_norm": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"adam", "sgd"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _fit_features(self, X, sensitive_features):
        """Validated features, group codes (None without groups), public facts."""
        groups, X, facts = self._fit_groups(X, sensitive_features)
        X = self._check_X(X)
        if len(X) > MAX_RECORDS:
            raise ValueError(
                f"At most {MAX_RECORDS} records can be summed with a proved rounding "
                f"error, got {len(X)}; fit on a part of the table."
            )
        return X, groups, facts

    def _default_data_norm(self, n_features: int) -> float:
        # Gradients are clipped whatever the features: no reason to shorten rows.
        return math.sqrt(n_features)

    def _check_X(self, X):
        return check_array(X, estimator=self, input_name="X", dtype=np.float64)

    def _hidden_sizes(self) -> list[int]:
        return list(hidden_widths(self.hidden_layer_sizes))

    def _new_network(self, sizes) -> Network:
        return Network(sizes, hidden_activation=self.activation, product=row_scores)

    def _train(self, X, scaling: FeatureScaling, targets, cells, network, head, facts):
        """Reserve the budget, release noisy gradients, publish the parameters.

        `targets` is a function of the scaled features, called inside the private part.
        """
        noise = noise_source(self.random_state)
        budget = self._budget(cells, network.theta.size)
        guarantee = self._reserve_gradients(budget, facts, noise)

        with np.errstate(all="ignore"):
            rows = self._scaled_rows(X, scaling)
            self._descend(rows, targets(rows), cells, budget, network, head, noise)
        self._publish_network(network, scaling)
        self.n_iter_ = self.max_iter
        self.privacy_ = guarantee

    def _scaled_rows(self, X, scaling: FeatureScaling, *, exact: bool = True):
        design = scaling.design(X, exact=exact)
        return design.rows * design.scale

    def _descend(self, rows, targets, cells, budget, network, head, noise) -> None:
        # First of all draws: with a seed, the same start for every epsilon.
        network.initialize(noise.standard_normal)
        sizes = self._public_sizes(cells, budget, noise)
        loss = FairLoss(
            network,
            head,
            padded_chunks(rows),
            targets,
            (1 - self.fairness_weight) / sizes.n_records,
            self.fairness_weight,
            WassersteinPenalty(cells.groups, cells.labels, sizes.floors),
            self.clip_norm,
            self.projection_clip_norm,
            exact=self.epsilon != np.inf,
        )
        width = network.sizes[head.layer]
        # On a line all directions are one.
        n_projections = self.n_projections if head.dimension(width) > 1 else 1
        progress = Progress(self, self.max_iter)

        n_below = network.n_parameters(head.layer)
        n_above = network.theta.size - n_below

        def noisy_gradient():
            # Fresh directions in every step: the average over steps sees many.
            normals = noise.standard_normal((width, n_projections))
            directions = head.directions(normals)
            low, high = head.ranges(directions)
            sensitivity = GradientSensitivity.bound(
                clip_norm=self.clip_norm,
                projection_clip_norm=self.projection_clip_norm,
                fairness_weight=self.fairness_weight,
                widths=high - low,
                n_records=sizes.n_records,
                floors=sizes.floors,
                neighboring=self.neighboring,
            )
            ratio = sensitivity.best_ratio(n_below, n_above)
            units = np.repeat([1.0, ratio], [n_below, n_above])
            mechanism = GaussianMechanism(
                sensitivity.scaled(ratio), budget.mu_step, network.theta.size
            )
            gradient = loss.gradient(directions)
            released = units * mechanism.release(gradient / units, noise)
            progress.step()
            return released

        noisy_descent(
            network.theta,
            noisy_gradient,
            Adam() if self.solver == "adam" else SGD(self.momentum),
            n_steps=self.max_iter,
            learning_rate=self.learning_rate_init,
            decay=self._decay(network),
            average=self.average,
            project=lambda: self._project(network),
        )
        progress.close()

    def _decay(self, network: Network):
        """Weight decay of every parameter: `alpha` for weights, none for biases."""
        decay = np.zeros_like(network.theta)
        for weights in network.layers(decay)[0]:
            weights[...] = self.alpha
        return decay

    def _project(self, network: Network) -> None:
        """Bring the parameters back into the model's set after a step."""

    def _publish_network(self, network: Network, scaling: FeatureScaling) -> None:
        self.coefs_ = [weights.copy() for weights in network.weights]
        self.intercepts_ = [biases.copy() for biases in network.biases]
        self.n_layers_ = len(network.sizes)
        self._publish_scaling(scaling)

    def _fitted_network(self) -> Network:
        """The network of the fitted attributes."""
        sizes = [len(self.coefs_[0]), *(len(biases) for biases in self.intercepts_)]
        network = self._new_network(sizes)
        for fitted, values in zip(
            (*network.weights, *network.biases),
            (*self.coefs_, *self.intercepts_),
            strict=True,
        ):
            fitted[...] = values
        return network

    def _predict_rows(self, X):
        """Rows of `X`, scaled and clipped by the public bounds as in `fit`."""
        check_is_fitted(self)
        X = self._check_X(blind_X(self, X))
        return self._scaled_rows(X, self._fitted_scaling(), exact=False)
