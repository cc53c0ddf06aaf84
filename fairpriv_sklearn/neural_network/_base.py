"""What the three networks share: parameters, public scaling, training."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_array

from .._door.groups import blind_X
from .._shared.arrays import Floats
from .._shared.domain import domain, refuse_dates
from .._shared.rowwise import row_scores
from .._shared.sklearn import Interval, StrOptions
from .._training._bounded import COUNT_SHARE
from .._training._constant import TargetTotals, constant_plan, released_constant
from .._training._counts import asked_again, count_query, public_sizes, telling_records
from .._training._design import FeatureScaling, ScaledRows
from .._training._line_search import search_share
from .._training._network import SGD, Adam, Network, hidden_widths
from .._training._noisy_gradients import NoisyGradientsMixin
from .._training._progress import Progress
from .._training._target import (
    TARGET_BINS,
    TARGET_SHARE,
    CountedPart,
    Parts,
    RangeCounts,
    TargetCounts,
    bins_that_tell,
    counted_parts,
    learnt_parts,
    target_counts,
)
from .._wall import (
    PrivacyFilter,
    Release,
    Rows,
    calibrate_gaussian,
    gaussian_mu,
    noise_source,
)
from ._line_search import LONGEST, SEARCH_SHARE, scale_outputs
from ._objective import (
    INPUTS,
    MAX_RECORDS,
    GradientSensitivity,
    SimplexOutputs,
    padded_chunk,
)
from ._queries import (
    AlongOutputs,
    NetworkGradient,
    OutputResiduals,
    TargetSums,
    TrainingState,
)

# Chosen on simulated tables, as are `reach` of the outputs and the default step size.
ADAM_RATE = 0.03
# Share of the Gaussian-DP parameter for the constant: what makes its noise .03 of half
# the range of the targets, or .005 in the share of a class, within these limits.
CONSTANT_SHARE = 0.1, 0.7
CONSTANT_NOISE = {"targets": 0.03, "shares": 0.005}
# Expected records of a class, times the parameter, for features to tell something.
LEAST_SIGNAL = 12.0
# Below this number of records times the parameter networks hardly ever beat a constant.
SIGNAL_OF_FEATURES = 150.0
LARGEST_WEIGHT = 1e6
# The learnt range is made so much wider: clipped gradients pull less, the further the
# targets are from the start.
WIDER = 2.0
# Targets of one value lie in one bin.
LEAST_SPREAD = 0.05
# Ranges of columns are counted where that tells so many times as much as counts of a
# target have to: of fewer records noise narrows bounds that belong to the columns.
# Chosen on simulated tables.
SURER = 3.0
# Under add/remove, where the number of rows is private.
USUAL_RECORDS = 5000
# Share of the squared parameter for the mean of residuals, and of what the network adds
# to the constant. Residuals are cut off where their noise is this, in half the range,
# what is added at so many deviations of the targets. Chosen on simulated targets.
RESIDUAL_SHARE = 0.045
NOISE_OF_LEVEL = 0.02
MOST_ADDED = 2.0
# Records times the parameter, per column and as far as the targets are even, from where
# on some units of the first layer are "relu". Chosen on simulated tables.
SIGNAL_OF_BENDS = 150.0
# So small a part of the targets' deviation costs their mean little. Simulated tables.
LITTLE_NOISE = 0.15


def start_from(network: Network, constant, n_pairs: int = 0) -> None:
    """Let the network answer a constant.

    In so many pairs of units of the last hidden layer both are alike, with opposite
    weights in the layer above, where the other weights are zero.
    """
    above = network.weights[-1]
    above[n_pairs:] = 0.0
    if n_pairs:
        below, second = network.weights[-2], slice(n_pairs, 2 * n_pairs)
        below[:, second], above[second] = below[:, :n_pairs], -above[:n_pairs]
    network.biases[-1][...] = constant


def _left(mu: float, spent: float) -> float:
    """What is left of a Gaussian-DP parameter beside another."""
    return mu if mu == math.inf else math.sqrt((mu - spent) * (mu + spent))


@dataclass(frozen=True)
class LearntRange(Parts):
    """Ranges of the targets that a fit scales to [-1, 1] once more.

    Attributes
    ----------
    spread : float or None
        Standard deviation of the targets in their ranges, of all together.
    """

    spread: float | None = None

    @classmethod
    def of(cls, told: list[CountedPart]) -> LearntRange:
        """Read it from noisy counts of the targets."""
        center, found = np.array([part.of_bounds(*part.found) for part in told]).T
        width = found
        if told[0].counts.n_bins == TARGET_BINS:  # fewer are for a constant
            width = np.minimum(WIDER * found, 1.0)
        variances = [part.variance for part in told] * (found / width) ** 2
        spread = math.sqrt(max(np.mean(variances), LEAST_SPREAD**2))
        return cls(center, width, spread)

    @classmethod
    def of_inputs(cls, counts, released, n_records: float, noise: float) -> LearntRange:
        """The same of one width, as errors of an autoencoder count by the bounds."""
        ones = np.ones(counts.n_targets)
        center, width = counts.learnt(released, n_records, noise, ones)
        width = np.max(width) * ones
        return cls(np.clip(center, width - 1, 1 - width), width)

    def around(self, targets, network, reach: Floats, constant, most: float):
        """What a block's targets are above the outputs, and these above a constant.

        In units of `reach` and of `most`.
        """

        def around(block):
            outputs = network.forward(padded_chunk(block.x))[-1][: block.n_rows]
            above = (self.scaled(targets(block)) - outputs) / reach
            return np.hstack([above, (outputs - constant) / most])

        return around

    def undo(self, network: Network, of_inputs: bool = False) -> None:
        """Let the network answer in the units of before, which inputs may have too."""
        if of_inputs:
            network.biases[0] -= (self.center / self.width) @ network.weights[0]
            network.weights[0] /= self.width[:, None]
        network.weights[-1] *= self.width
        network.biases[-1] *= self.width
        network.biases[-1] += self.center


class FairNetworkMixin(NoisyGradientsMixin):
    """Networks trained by noisy gradients of a loss and a sliced Wasserstein penalty.

    Subclasses build the network and its head, and give `constraint` if they have one.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(16,)
        Widths of the hidden layers. Every weight gets its noise: fewer are better.
    activation : {"identity", "logistic", "tanh", "relu"}, default="tanh"
        Of the hidden layers.
    fairness_weight : float, default=0.5
        Weight alpha of the penalty. Range: [0, 1]. With 0 the network is private and
        plain, and sensitive features may be left out.
    clip_norm : float, default=1.0
        Bound C of the Euclidean norm of one record's loss gradient; longer ones are
        shortened. Public. Range: [1e-50, 1e50].
    solver : {"adam", "sgd"}, default="sgd"
        Gradient descent with momentum, or Adam. Both see noisy gradients only.
    alpha : float, default=1e-4
        Strength of the L2 penalty of the weights, added to the mean loss as
        alpha / 2 times their squared norm; biases are free. Range: [0, 1000].
    learning_rate : float, default="auto"
        Largest step size. Gradient descent takes smaller steps where the noise, whose
        size is public, would carry the network away. "auto": 1, and 0.03 for Adam.
        Range: (0, 1000].
    max_iter : int, default=100
        Number of gradients that are released, all of them always.
    momentum : float, default=0.9
        For ``solver="sgd"``. Range: [0, 1).
    average : bool, default=True
        Whether to average the second half of the iterates, which averages noise out.
    data_norm : float, default=None
        Public bound of the Euclidean norm of a scaled row; longer rows are shortened.
        None: 1 without `bounds`, as
        :class:`~fairpriv_sklearn.preprocessing.DPTableEncoder` scales rows; with them
        the square root of the number of features, which shortens none. The noise does
        not depend on it. Range: [1e-50, 1e50].
    """

    _reads_batches = True
    _can_resume = True
    _of_fit = ("_scaling", "_facts", "_n_columns", "_shape")
    _is_searched = True  # outputs are scaled by a line search
    _signal_of_features = SIGNAL_OF_FEATURES
    _renamed = {"learning_rate_init": "learning_rate", "n_slices": "n_projections"}

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
        "clip_norm": [Interval(Real, 1e-50, 1e50, closed="both")],
        "projection_clip_norm": [Interval(Real, 1e-50, 1e50, closed="both")],
        "solver": [StrOptions({"adam", "sgd"})],
        "alpha": [Interval(Real, 0, 1e3, closed="both")],
        "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, 1e3, closed="right")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _read_features(self, X, sensitive_features):
        """Validate a table: its columns, and the group codes (None without groups)."""
        groups, X, facts = self._fit_groups(X, sensitive_features)
        X = self._check_X(X)
        self._scaling, more_facts = self._public_scaling(X)
        self._facts = [*facts, *more_facts]
        self._n_columns = X.shape[1]
        return {"x": ScaledRows(X, self._scaling)}, groups

    def _default_data_norm(self, n_features: int) -> float:
        # Gradients are clipped whatever the features: no reason to shorten rows.
        return math.sqrt(n_features)

    def _check_X(self, X):
        refuse_dates(X)
        with domain("X"):
            return check_array(X, estimator=self, input_name="X", dtype=np.float64)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        self._hidden_sizes()

    def _hidden_sizes(self) -> list[int]:
        return list(hidden_widths(self.hidden_layer_sizes))

    def _new_network(self, sizes) -> Network:
        return Network(sizes, hidden_activation=self.activation, product=row_scores)

    def _train(self, rows: Rows, network, head, targets=None, scales_targets=False):
        """Reserve the budget, release noisy gradients, publish the parameters.

        Parameters
        ----------
        rows : Rows
            With columns `x`, `stratum` and what `targets` needs.
        network : Network
        head : RealOutputs or SimplexOutputs
        targets : callable, default=None
            From a block of rows to what the outputs should be. None: the inputs, whose
            ranges are then learnt.
        scales_targets : bool
            Whether they are targets in [-1, 1], whose range is then learnt.
        """
        if rows.n_rows > MAX_RECORDS:
            raise ValueError(
                f"At most {MAX_RECORDS} records can be summed with a proved rounding "
                "error; fit on a part of the table."
            )
        noise = noise_source(self.random_state)
        of_inputs = targets is None
        targets = INPUTS if of_inputs else targets
        if self._has_few_records(rows.n_rows):
            self._fit_constant(rows, network, head, targets, noise)
            return
        n_counts = self._n_counts()
        constant = TargetSums(
            network.sizes[-1], targets, isinstance(head, SimplexOutputs)
        )
        # Noise of a wide range would drown gradients: all of the budget tells the mean.
        mu = gaussian_mu(self.epsilon, self.delta)
        signal = self._n_usual(rows.n_rows) * mu
        tells = TargetCounts(n_targets=network.sizes[-1]).tell(signal)
        n_steps = 0 if scales_targets and not tells else self.max_iter
        counts = self._range_counts(network, scales_targets, signal, n_steps)
        wall = self._open_wall(
            network, n_counts, constant, counts, rows.n_rows, noise, n_steps
        )
        start = wall.public(lambda: network.initialize(noise.standard_normal).theta)
        network.theta[:] = start
        known = {"n_counts": n_counts, "min_group_size": self.min_group_size}
        sizes = public_sizes(wall, rows, self._shape, **known)
        n_records = max(sizes.n_records, 1)
        whole, learnt, scaling = targets, None, self._scaling
        for one in counts:
            if one.name == RangeCounts.name and not of_inputs:
                rows, scaling = self._learn_columns(wall, rows, one, n_records)
            elif of_inputs:
                told = one, wall.release(one, rows), n_records, wall.scale(one)
                learnt = LearntRange.of_inputs(*told)
                rows = rows.remade("x", learnt.narrow)
            else:
                learnt = LearntRange.of(counted_parts(wall, rows, one, n_records))
                targets = learnt.clipped(whole)
                head = replace(head, spread=learnt.spread)
        constant = replace(constant, targets=targets)
        sums, scale, is_known = self._constant(wall, rows, constant, n_records, n_steps)
        n_pairs = 0 if is_known else self._n_pairs(network)
        start = head.constant(sums, n_records, scale)
        if n_pairs and self._bends(counts, n_records * mu, head.evenness(start)):
            network.activations[0] = "mixed"
        start_from(network, start, n_pairs)
        if not is_known:
            self._descend(wall, rows, network, head, targets, sizes)
        if self._is_searched and not is_known:
            # What a penalty holds short is not made longer.
            longest = 1.0 if self.fairness_weight > 0 else LONGEST
            where = start, targets, n_records
            scale_outputs(wall, rows, network, head, *where, longest)
        if learnt is not None:
            if not (of_inputs or is_known):
                where = start, scale / n_records, whole, n_records
                self._correct(wall, rows, network, learnt, *where)
            learnt.undo(network, of_inputs)
        self._publish_fit(network, scaling, n_steps or 1, wall)

    def _constant(self, wall, rows, constant, n_records: float, n_steps: int):
        """Sums that tell the constant, their noise, and whether nothing else is asked.

        Counts of classes that tell too few records are asked for again, with all that
        is left of the budget.
        """
        sums, scale = wall.release(constant, rows), wall.scale(constant)
        if not constant.are_counts:
            return sums, scale, n_steps == 0
        names = NetworkGradient.name, AlongOutputs.name
        lines = [one for one in wall.plan if one.name in names]
        least = max(LEAST_SIGNAL / lines[0].parameter / n_steps**0.5, 3 * scale)
        is_known = telling_records(sums, n_records, scale) < least
        if is_known:
            told = sums, scale
            sums, scale = asked_again(wall, rows, constant, lines, told=told)
        return sums, scale, is_known

    def _n_usual(self, n_rows: int) -> int:
        """Number of rows; under add/remove it is private, and a usual one taken."""
        return n_rows if self.neighboring == "replace_one" else USUAL_RECORDS

    def _range_counts(
        self, network: Network, scales_targets: bool, signal: float, n_steps: int
    ):
        """Counts that may be expected to tell ranges, by public numbers.

        Of inputs where bounds alone scale them, and of targets. `signal` is the number
        of records times the Gaussian-DP parameter.
        """
        counts = []
        if n_steps and self.bounds is not None and self.data_norm is None:
            counts += self._column_counts(network.sizes[0], signal)
        told = target_counts(signal, network.sizes[-1]) if scales_targets else None
        return counts if told is None else [*counts, told]

    def _column_counts(self, n_columns: int, signal: float) -> list:
        """Counts of inputs, in as many bins as tell ranges; none, if no number does."""
        n_bins = bins_that_tell(signal / SURER, n_columns)
        return [RangeCounts(n_bins, n_columns, INPUTS, n_looks=2)] if n_bins else []

    def _learn_columns(self, wall, rows, counts, n_records):
        """Rows scaled to the ranges of the columns, and how `predict` scales them."""
        scaling = self._scaling
        known = scaling.low == scaling.high  # what is known to be constant stays so
        parts = learnt_parts(wall, rows, counts, n_records, lambda *_: known)
        scaling = scaling.within(parts.center, parts.width)
        return rows.remade("x", parts.narrow), scaling

    def _fit_constant(self, rows: Rows, network, head, targets, noise) -> None:
        """Only the mean of the targets, or the shares of the classes."""
        is_simplex = isinstance(head, SimplexOutputs)
        query = TargetTotals(network.sizes[-1], targets, is_simplex)
        wall = self._open(constant_plan(query, self.epsilon), noise)
        network.theta[:] = wall.public(
            lambda: network.initialize(noise.standard_normal).theta
        )
        means = released_constant(wall, rows, query)
        start_from(network, np.log(means) if is_simplex else means)
        self._publish_fit(network, self._scaling, 0, wall)

    def _correct(
        self, wall, rows, network, learnt, constant, doubt, targets, n_records
    ):
        """Shift the outputs to the mean of the targets, where they are off by more.

        Clipped gradients draw the mean of a skewed target towards its median. The mean
        residual tells how far, and the constant, of which `doubt` is the noise, less
        the mean of the outputs: outputs are told with less noise than targets.
        """
        n_outputs = network.sizes[-1]
        noise = wall.scale(OutputResiduals(2 * n_outputs, targets, False)) / n_records
        # As much of the target's range as its noise allows.
        largest = 1 + (1 + abs(learnt.center)) / learnt.width
        reach = np.clip(NOISE_OF_LEVEL / max(noise, 1e-300), 1.0, largest)
        most = MOST_ADDED * learnt.spread
        around = learnt.around(targets, network, reach, constant, most)
        query = OutputResiduals(2 * n_outputs, around, are_counts=False)
        above, added = np.split(wall.release(query, rows) / n_records, 2)
        # Their variances are weights; without noise the residual alone is exact.
        own, other = (noise * reach) ** 2, doubt**2 + (noise * most) ** 2
        part = own / np.maximum(own + other, 1e-300)
        off = (1 - part) * reach * above - part * most * added
        variance = part * other
        costs_little = variance <= (LITTLE_NOISE * learnt.spread) ** 2
        # Not by a quotient: what is released may be zero.
        sure = np.maximum(0.0, off**2 - np.where(costs_little, 2, 4) * variance)
        network.biases[-1] += sure / np.maximum(off**2, 1e-300) * off

    def _publish_fit(self, network: Network, scaling, n_iter: int, wall) -> None:
        self._publish_network(network, scaling)
        self.n_iter_ = n_iter
        self.privacy_ = wall.guarantee()

    def _n_pairs(self, network: Network) -> int:
        """In how many pairs of units the last hidden layer starts.

        They learn from the first step on, as a linear model does. Below zero weights
        they would once the last layer has learnt something, which noise may prevent.
        """
        return network.sizes[-2] // 2 if len(network.weights) > 1 else 0

    def _bends(self, counts, signal: float, evenness: float) -> bool:
        """Whether some units of the first layer are "relu": by released numbers.

        Odd functions alone learn little of what is even. Beside a penalty, where counts
        do not tell well where columns are, and of few records or uneven targets, units
        that are not odd took more than they gave.
        """
        is_plain = self.fairness_weight == 0 and self.activation == "tanh"
        least = SIGNAL_OF_BENDS / max(evenness, 1e-9) ** 2
        return is_plain and any(
            one.n_bins == TARGET_BINS and signal >= least * one.n_targets
            for one in counts
            if one.name == RangeCounts.name
        )

    def _n_counts(self) -> int:
        """How many counts a fit needs: one per stratum, one for all, or none."""
        unknown = self.min_group_size is None or self.epsilon == np.inf
        if self.fairness_weight > 0 and unknown:
            return math.prod(self._shape)
        return int(self.neighboring == "add_remove")

    def _open_wall(
        self, network, n_counts, constant, counts, n_rows, noise, n_steps
    ) -> PrivacyFilter:
        """Share the budget out over the counts, the constant and the gradients.

        `counts` tell ranges, with a share for each of them. Without steps the constant
        has all of the rest.
        """
        n_parameters = network.theta.size
        n_draws = n_steps * n_parameters + n_counts + constant.n_coordinates
        n_draws += sum(one.n_looks * one.n_coordinates for one in counts)
        corrects = any(one.name == TargetCounts.name for one in counts) and n_steps > 0
        n_draws += corrects * 2 * constant.n_coordinates
        is_searched = self._is_searched and n_steps > 0
        n_lines = 1 if constant.are_counts else constant.n_outputs
        # Room for the constant, which may take its place.
        n_searched = is_searched * max(2 * n_lines, constant.n_coordinates)
        n_draws += n_searched
        mu = calibrate_gaussian(self.epsilon, self.delta, n_draws=n_draws)
        n_usual = self._n_usual(n_rows)
        noise_of_mean = constant.sensitivity(self.neighboring) / max(n_usual, 1)
        wanted = CONSTANT_NOISE["shares" if constant.are_counts else "targets"]
        mu_constant = np.clip(noise_of_mean / wanted / mu, *CONSTANT_SHARE) * mu
        mu_ranges = math.sqrt(TARGET_SHARE * len(counts)) * mu if counts else 0.0
        mu_counts = COUNT_SHARE * mu if n_counts else 0.0
        mu_residual = math.sqrt(RESIDUAL_SHARE) * mu if corrects else 0.0
        share = search_share(n_usual * mu, SEARCH_SHARE)
        mu_search = is_searched * math.sqrt(share) * mu
        spent = math.hypot(mu_ranges, mu_residual, mu_counts, mu_search)
        if n_steps == 0:
            mu_constant = _left(mu, spent)

        def line(query, parameter, n_numbers, times=1):
            return Release(query.name, "gaussian", parameter, n_numbers, times)

        plan = [constant.line(mu_constant)]
        if n_steps > 0:
            mu_step = _left(mu, math.hypot(spent, mu_constant)) / math.sqrt(n_steps)
            plan.append(line(NetworkGradient, mu_step, n_parameters, n_steps))
        for one in counts[::-1]:
            share = math.sqrt(TARGET_SHARE / one.n_looks) * mu
            plan.insert(0, one.line(share, one.n_looks))
        if is_searched:
            plan.append(line(AlongOutputs, mu_search, n_searched))
        if corrects:
            plan.append(line(OutputResiduals, mu_residual, 2 * constant.n_coordinates))
        if n_counts:
            plan.insert(0, line(count_query(n_counts), mu_counts, n_counts))
        return self._open(plan, noise, n_steps)

    def _descend(self, wall, rows, network, head, targets, sizes) -> None:
        """Noisy steps; the network ends at the mean of the second half of its path."""
        width = network.sizes[head.layer]
        # On a line all directions are one.
        n_projections = self.n_projections if head.dimension(width) > 1 else 1
        progress = Progress(self, self.max_iter)
        state = TrainingState(network, np.empty(0))
        public = wall.noise.public()
        optimizer = Adam() if self.solver == "adam" else SGD(self.momentum)
        theta, decay = network.theta, self._decay(network)
        total, n_dropped = np.zeros_like(theta), self.max_iter // 2
        last, steepest = None, 0.0
        for step in range(self.max_iter):
            # Fresh directions in every step: the average over steps sees many.
            normals = wall.public(
                lambda: public.standard_normal((width, n_projections))
            )
            state.directions = head.directions(normals)
            query = self._gradient_query(head, targets, sizes, state)
            released = query.units * wall.release(query, rows, state)
            progress.step()
            scale = wall.scale(query)
            caution = self._caution(network, query.units, scale, head)
            if last is not None:
                here = (theta, released), query.units * scale
                steepest = max(steepest, _curvature(last, *here))
            caution = min(caution, self._steady(steepest))
            last = theta.copy(), released
            gradient = released * caution + decay * theta
            optimizer.step(theta, gradient, self._rate)
            # Weights of this size say nothing any more; infinities would become NaN.
            np.clip(theta, -LARGEST_WEIGHT, LARGEST_WEIGHT, out=theta)
            self._project(network)
            if step >= n_dropped:
                total += theta
        if self.average:
            theta[:] = total / (self.max_iter - n_dropped)
        progress.close()

    def _gradient_query(self, head, targets, sizes, state) -> NetworkGradient:
        """What is asked in a step."""
        n_below = state.network.n_parameters(head.layer)
        n_above = state.network.theta.size - n_below
        low, high = head.ranges(state.directions)
        bound = GradientSensitivity.bound(
            clip_norm=self.clip_norm,
            projection_clip_norm=self.projection_clip_norm,
            fairness_weight=self.fairness_weight,
            widths=high - low,
            n_records=sizes.n_records,
            min_sizes=sizes.min_sizes,
            neighboring=self.neighboring,
        )
        return NetworkGradient(
            head,
            targets,
            bound,
            bound.best_ratio(n_below, n_above),
            n_below,
            n_above,
            sizes,
            self.fairness_weight,
            self.clip_norm,
            self.projection_clip_norm,
            exact=self.epsilon != np.inf,
        )

    @property
    def _rate(self) -> float:
        if self.learning_rate != "auto":
            return self.learning_rate
        return ADAM_RATE if self.solver == "adam" else 1.0

    def _caution(self, network: Network, units, scale: float, head) -> float:
        """Factor of the step size, at most 1, by what is known about the noise.

        The noise of all steps together may carry the layers' outputs no further than
        the reach of the head, and less if it drowns gradients of the usual size: the
        network then stays close to the constant that it starts from. An output sees
        the noise of its weights along one row, however many columns that has.
        """
        if self.solver == "adam":  # its steps have one size, whatever the gradients
            return 1.0
        squared, length = 0.0, self._scaling.data_norm
        for weights, biases in zip(*network.layers(units), strict=True):
            along_row = weights[0] ** 2 * min(len(weights), length**2)
            squared += (along_row + biases**2).sum()
            length = math.inf  # of hidden layers: their width
        norm = math.sqrt(squared * self.max_iter) * scale
        walk = norm * self._rate / (1 - self.momentum)
        drowned = norm / self.max_iter / head.usual_gradient
        return 1.0 / max(1.0, walk / head.reach * (1 + drowned**2))

    def _steady(self, curvature: float) -> float:
        """Factor of the step size with which steps along a curvature come to rest."""
        if self.solver == "adam":
            return 1.0
        # With steps twice as large the error would grow for ever.
        largest = (1 + self.momentum) / self._rate
        return min(1.0, largest / max(curvature, 1e-300))

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
        self._activations = list(network.activations)  # of this fit, not of the next
        self.n_layers_ = len(network.sizes)
        self._publish_scaling(scaling)

    def _fitted_network(self) -> Network:
        """The network of the fitted attributes."""
        sizes = [len(self.coefs_[0]), *(len(biases) for biases in self.intercepts_)]
        network = Network(sizes, product=row_scores)
        network.activations = self._activations
        for fitted, values in zip(
            (*network.weights, *network.biases),
            (*self.coefs_, *self.intercepts_),
            strict=True,
        ):
            fitted[...] = values
        return network

    def _predict_rows(self, X):
        """Rows of `X`, scaled and clipped by the public bounds as in `fit`."""
        self._check_is_fitted()
        X = self._check_X(blind_X(self, X))
        design = self._fitted_scaling().design(X, exact=False)
        return design.rows * design.scale


def _curvature(last, here, noise) -> float:
    """How fast the gradient grows along the last step, less twice its noise.

    Of two places, each with its noisy gradient: no more is asked of the data.
    """
    step, change = (new - old for old, new in zip(last, here, strict=True))
    doubt = 2 * math.sqrt(2) * np.linalg.norm(noise * step)
    return (change @ step - doubt) / max(step @ step, 1e-300)
