"""Composition of events, and calibration of sampled fits by composing them."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial, reduce

from scipy.optimize import brentq

from .._shared.arguments import checked, number, real
from ._events import (
    DeclaredEvent,
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PrivacyEvent,
    PureEvent,
    ThresholdEvent,
    WithoutReplacementGaussianEvent,
    checked_events,
)
from ._gaussian import (
    _COMPOSITION_MARGIN,
    _MAX_EPSILON,
    SMALLEST_Q,
    _check_budget,
    _check_sampling,
    _sampler_error,
    _sampler_log_delta1,
    _smallest_epsilon,
    calibrate_gaussian,
    gaussian_epsilon,
    without_sampler_error,
)
from ._loss_grid import (
    _FFT_NOISE,
    _MIN_GRID_DELTA,
    _everything,
    _moments_epsilon,
    _worst_curve,
)
from ._privacy_loss import (
    _about_largest_loss,
    _Composition,
    _exact_delta,
    _largest_loss,
    _sum,
)
from ._sides import (
    Sides,
    Splits,
    _dearer,
    _each_side,
    _fewer_sides,
    _fewer_splits,
    _n_sides,
)

Events = Iterable[PrivacyEvent]

# So many totals that a record can pay are gone through one by one.
_MAX_OPTIONS = 128

# Above this delta several kinds of pure releases may be added on a coarse grid.
_ROUGH_DELTA = 1e-9

# What is beyond these numbers counts as the end of the range, where that costs more,
# and else as no privacy at all.
_MOST_EPSILON, _MOST_DRAWS, _MOST_SAMPLED = 1e100, 10**30, 10**15
_LEAST_NOISE, _MOST_NOISE = 1e-3, 1e6

# With few records in a batch delta alone may cover all steps, even without noise: a
# release then keeps at least this noise.
_LEAST_MULTIPLIER = 0.05


@checked(delta=number(0, 1))
def compose_epsilon(events: Events, delta: float) -> float:
    """Return the epsilon of all events together, composed adaptively.

    Parameters
    ----------
    events : iterable of PrivacyEvent
        As listed in :mod:`fairpriv_sklearn.accounting`.
    delta : float
        Range: [0, 1].

    Returns
    -------
    epsilon : float
        Rounded up. inf if no finite epsilon has this delta.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import (
    ...     GaussianEvent,
    ...     PureEvent,
    ...     compose_epsilon,
    ... )
    >>> compose_epsilon([PureEvent(0.5), PureEvent(0.25)], delta=0.0)
    0.75
    >>> events = [GaussianEvent(0.2), PureEvent(0.5)]
    >>> round(compose_epsilon(events, delta=1e-5), 3)
    1.201
    """
    return _dearest_epsilon(*_parted(checked_events(events)), delta)


@checked(epsilon=number(0, math.inf))
def compose_delta(events: Events, epsilon: float) -> float:
    """Return the delta of all events together, composed adaptively.

    Parameters
    ----------
    events : iterable of PrivacyEvent
        As listed in :mod:`fairpriv_sklearn.accounting`.
    epsilon : float
        Range: [0, inf].

    Returns
    -------
    delta : float
        Rounded up: hardly ever below 1e-11 with sampled releases or many splits, nor
        below 1e-12 with more than 16 different pure ones.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import GaussianEvent, compose_delta
    >>> round(compose_delta([GaussianEvent(0.3), GaussianEvent(0.4)], 1.0), 5)
    0.00683
    """
    return _dearest_delta(*_parted(checked_events(events)), epsilon)


def _single(event: PrivacyEvent) -> _Composition:
    match event:
        case GaussianEvent(mu, n_draws):
            return _Composition(mu=mu, n_draws=min(n_draws, _MOST_DRAWS))
        case PureEvent(epsilon):
            return _Composition(pures=((epsilon, 1),))
        case DeclaredEvent(epsilon, delta):
            return _Composition(pures=((epsilon, 1),), failure=delta)
        case ThresholdEvent():
            return _Composition(failure=event.failure)
        case PoissonGaussianEvent(
            q, multiplier, steps, n_draws
        ) | WithoutReplacementGaussianEvent(q, multiplier, steps, n_draws) if q == 1.0:
            if max(1.0 / multiplier, steps) > _MOST_EPSILON:
                return _Composition(mu=math.inf)
            n_draws = min(n_draws, _MOST_DRAWS)
            return _Composition(mu=math.sqrt(steps) / multiplier, n_draws=n_draws)
        case PoissonGaussianEvent() | WithoutReplacementGaussianEvent():
            if event.noise_multiplier < _LEAST_NOISE or event.steps > _MOST_SAMPLED:
                return _Composition(mu=math.inf)
            noise = min(event.noise_multiplier, _MOST_NOISE)
            sampled = (event.kind, max(event.q, SMALLEST_Q), noise, event.steps)
            n_draws = min(event.n_draws, _MOST_DRAWS)
            return _Composition(n_draws=n_draws, sampled=(sampled,))
    raise ValueError(f"There is no composition for the event {event!r}.")


@lru_cache(maxsize=4096)
def _options(events: tuple[PrivacyEvent, ...]) -> tuple[_Composition, ...]:
    """Distribute composition over "maximum": a record is on one side of each split."""
    # All other events at once: hundreds of them must not cost hundreds of sums.
    splits = [event for event in events if isinstance(event, MaximumEvent)]
    others = (event for event in events if not isinstance(event, MaximumEvent))
    options = [_sum(_single(event) for event in others)]
    for split in splits:
        choices = _undominated(_options(split.left) + _options(split.right))
        if len(options) * len(choices) > _MAX_OPTIONS:
            # Too many sides to follow: one that costs as much as any of them.
            choices = [reduce(_dearer, choices)]
        options = _undominated([o.plus(c) for o in options for c in choices])
    return tuple(options)


def _parted(events: Iterable[PrivacyEvent]) -> tuple[_Composition, Splits]:
    """Return what every record pays, and the sides of random splits."""
    plain: list[PrivacyEvent] = []
    splits: Counter[Sides] = Counter()
    for event in events:
        if isinstance(event, MaximumEvent) and len(sides := _options((event,))) > 1:
            splits[sides] += 1
        else:
            plain.append(event)
    (option,) = _options(tuple(plain))
    return option, tuple(splits.items())


def _undominated(options: Iterable[_Composition]) -> list[_Composition]:
    kept: list[_Composition] = []
    for option in options:
        if not any(other.covers(option) for other in kept):
            kept = [other for other in kept if not option.covers(other)] + [option]
    return kept


@lru_cache(maxsize=64)
def _dearest_epsilon(plain: _Composition, splits: Splits, delta: float) -> float:
    """Return an epsilon that covers every side of the splits: tight if they are few."""
    if delta == 0.0:
        # Pure releases only, or infinity: each split costs its dearer side.
        dearest = (
            max(sides, key=partial(_epsilon_of, delta=0.0)).times(count)
            for sides, count in splits
        )
        return _epsilon_of(_sum([plain, *dearest]), 0.0)
    if _n_sides(splits) > _MAX_OPTIONS:
        on_grid = _worst_epsilon(plain, _in_two(splits), delta)
        return min(on_grid, _added_up(plain, splits, delta))
    epsilon = 0.0
    for one in _each_side(plain, splits):
        if not (epsilon and _costs_at_most(one, epsilon, delta)):
            epsilon = max(epsilon, _epsilon_of(one, delta))
    return epsilon


def _added_up(plain: _Composition, splits: Splits, delta: float) -> float:
    """Basic composition: each release has an equal share of delta."""
    share = delta / (1 + sum(count for _, count in splits)) * (1 - 1e-15)
    each = (
        count * max(_epsilon_of(side, share) for side in sides)
        for sides, count in splits
    )
    return math.fsum([_epsilon_of(plain, share), *each]) * (1 + 1e-15)


@lru_cache(maxsize=4096)
def _epsilon_of(total: _Composition, delta: float) -> float:
    return _with_sampler_error(partial(_ideal_epsilon, total), delta, total.n_draws)


def _with_sampler_error(
    ideal_epsilon: Callable[[float], float], delta: float, n_draws: int
) -> float:
    if delta == 1.0:
        return 0.0
    if n_draws == 0:
        return ideal_epsilon(delta)
    if delta == 0.0:
        return math.inf
    epsilon = ideal_epsilon(delta)
    # The correction grows very slowly with epsilon: two rounds reach the fixed point.
    for _ in range(3):
        if epsilon == math.inf:
            break
        ideal, log_delta = without_sampler_error(epsilon, delta, n_draws)
        corrected = ideal_epsilon(math.exp(log_delta))
        epsilon = max(0.0, corrected + (epsilon - ideal))
    return epsilon


@lru_cache(maxsize=64)
def _worst_epsilon(plain: _Composition, splits: Splits, delta: float) -> float:
    """Return an epsilon that covers every side of the splits, for 0 < delta < 1."""
    everything = _everything(plain, splits)
    if max(_about_largest_loss(everything), everything.mu) > _MOST_EPSILON:
        return math.inf

    def ideal(delta: float) -> float:
        if delta < _MIN_GRID_DELTA:
            return _moments_epsilon(plain, splits, delta)
        return _worst_curve(plain, splits).epsilon(delta - _FFT_NOISE)

    return _with_sampler_error(ideal, delta, everything.n_draws)


def _ideal_epsilon(total: _Composition, delta: float) -> float:
    """Return epsilon for a perfect sampler and delta < 1."""
    largest = _largest_loss(total)
    failure = total.failure
    if delta < failure or max(largest, total.mu) == math.inf:
        return math.inf
    if total.sampled:
        if max(largest, total.mu) > _MOST_EPSILON:
            return math.inf
        on_grid = _worst_curve(total).epsilon(delta - _FFT_NOISE)
        if on_grid == math.inf:
            return on_grid
        return min(on_grid, _ideal_epsilon(total.unsampled(), delta))
    if total.mu > 0.0:
        if delta == failure:
            return math.inf
        largest += gaussian_epsilon(total.mu, (delta - failure) / (1.0 - failure))
    if not total.pures or delta == failure or largest > _MOST_EPSILON:
        return largest

    def log_delta(epsilon: float) -> float:
        value = _ideal_delta(total, epsilon)
        return math.log(value) if value > 0.0 else -math.inf

    return _smallest_epsilon(log_delta, delta, largest)


def _dearest_delta(plain: _Composition, splits: Splits, epsilon: float) -> float:
    """Return a delta that covers every side of the splits: tight if they are few."""
    if _n_sides(splits) <= _MAX_OPTIONS:
        return max(_delta_of(one, epsilon) for one in _each_side(plain, splits))
    dearer = (reduce(_dearer, sides).times(count) for sides, count in splits)
    on_grid = _worst_delta(plain, _in_two(splits), epsilon)
    return min(on_grid, _delta_of(_sum([plain, *dearer]), epsilon))


@lru_cache(maxsize=64)
def _in_two(splits: Splits) -> Splits:
    """Fewer splits of two sides each, which cost at least as much."""
    kinds = _fewer_splits(dict(splits))
    return tuple((_fewer_sides(sides, 2), count) for sides, count in kinds)


@lru_cache(maxsize=4096)
def _delta_of(total: _Composition, epsilon: float) -> float:
    return _with_sampler_loss(partial(_ideal_delta, total), epsilon, total.n_draws)


def _worst_delta(plain: _Composition, splits: Splits, epsilon: float) -> float:
    """Return a delta that covers every side of the splits."""
    everything = _everything(plain, splits)
    if max(_about_largest_loss(everything), everything.mu) > _MOST_EPSILON:
        return 1.0

    def ideal(epsilon: float) -> float:
        return min(1.0, _worst_curve(plain, splits).delta(epsilon) + _FFT_NOISE)

    return _with_sampler_loss(ideal, epsilon, everything.n_draws)


def _with_sampler_loss(
    ideal_delta: Callable[[float], float], epsilon: float, n_draws: int
) -> float:
    delta = ideal_delta(epsilon)
    if n_draws == 0:
        return delta
    if delta == 0.0:  # at most what it is at a smaller epsilon, of a known error
        epsilon = min(epsilon, _MAX_EPSILON)
    # Every delta1 gives a bound; a few rounds find the one a calibration chooses.
    for _ in range(5):
        # What is nothing at epsilon need not be at one that is smaller by the error.
        log_delta1, log_loss = _sampler_log_delta1(epsilon, delta or math.ulp(0.0))
        error = _sampler_error(log_delta1, n_draws)
        if error > 1.0:
            return 1.0
        shifted = ideal_delta(epsilon - 2.0 * error)
        delta = min(1.0, math.exp(error) * shifted + math.exp(log_loss))
    return delta


def _costs_at_most(total: _Composition, epsilon: float, delta: float) -> bool:
    """Whether one look proves that the total at `delta` is at most `epsilon`."""
    if delta == 0.0:
        return False
    ideal, log_delta = without_sampler_error(epsilon, delta, total.n_draws)
    if not total.sampled and len(total.pures) > 1 and delta > _ROUGH_DELTA:
        total = replace(total, roughness=2.0)
    return ideal >= 0.0 and _ideal_delta(total, ideal) <= math.exp(log_delta)


def _ideal_delta(total: _Composition, epsilon: float) -> float:
    if max(_about_largest_loss(total), total.mu) > _MOST_EPSILON:
        return 1.0
    if total.sampled:
        on_grid = _worst_curve(total).delta(epsilon) + _FFT_NOISE
        return min(on_grid, _ideal_delta(total.unsampled(), epsilon))
    if epsilon == math.inf:
        return total.failure
    return min(1.0, _exact_delta(total, epsilon) * (1.0 + _COMPOSITION_MARGIN))


# --- Sampled Gaussian releases --------------------------------------------------------


@checked(epsilon=real, delta=real, q=real, steps=real, n_draws=real)
@lru_cache(maxsize=1024)
def calibrate_poisson(
    epsilon: float, delta: float, q: float, steps: int, *, n_draws: int = 0
) -> float:
    """Return the noise multiplier of a Poisson-sampled fit, for add/remove.

    Parameters
    ----------
    epsilon : float
        Budget of the fit. Range: (0, 1e6], or inf.
    delta : float
        Budget of the fit. Range: (1e-10, 1).
    q : float
        Probability with which a record enters a batch. Range: (0, 1].
    steps : int
        Number of releases. Range: [1, 10**7].
    n_draws : int, default=0
        Number of noisy coordinates the whole fit draws. Range: [0, inf).

    Returns
    -------
    noise_multiplier : float
        Noise standard deviation divided by the add/remove sensitivity of one
        release, rounded up. At least 0.05, however small `q` is, unless full batches
        need less; 0.0 if `epsilon` is inf.

    See Also
    --------
    calibrate_without_replacement : The same for replace-one.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import calibrate_poisson
    >>> round(calibrate_poisson(1.0, 1e-5, q=0.1, steps=10), 2)
    1.74
    """
    return _calibrate_sampled(PoissonGaussianEvent, epsilon, delta, q, steps, n_draws)


@checked(epsilon=real, delta=real, q=real, steps=real, n_draws=real, beside=real)
@lru_cache(maxsize=1024)
def calibrate_without_replacement(
    epsilon: float,
    delta: float,
    q: float,
    steps: int,
    *,
    n_draws: int = 0,
    beside: float = 0.0,
) -> float:
    """Return the noise multiplier of a sampled fit, for replace-one.

    Parameters
    ----------
    epsilon : float
        Budget of the fit. Range: (0, 1e6], or inf.
    delta : float
        Budget of the fit. Range: (1e-10, 1).
    q : float
        Fraction of the records in a batch drawn without replacement (or Poisson
        sampling rate). Range: (0, 1].
    steps : int
        Number of releases. Range: [1, 10**7].
    n_draws : int, default=0
        Number of noisy coordinates the whole fit draws. Range: [0, inf).
    beside : float, default=0.0
        Gaussian-DP parameter of what else is released, of all records. Range: [0, what
        the budget allows).

    Returns
    -------
    noise_multiplier : float
        Noise standard deviation divided by the replace-one sensitivity of one
        release, rounded up. At least 0.05, however small `q` is, unless full batches
        need less; 0.0 if `epsilon` is inf.

    See Also
    --------
    calibrate_poisson : The same for add/remove.

    Notes
    -----
    One step is dominated by the curve that joins the "remove" and the "add" branch
    of the sampled Gaussian at epsilon = 0; composing the two separately and taking
    the maximum would be too small [1]_.

    References
    ----------
    .. [1] C. Lebeda, M. Regehr, G. Kamath, T. Steinke, "Avoiding Pitfalls for
       Privacy Accounting of Subsampled Mechanisms under Composition", SaTML, 2025.

    Examples
    --------
    >>> from fairpriv_sklearn.accounting import calibrate_without_replacement
    >>> round(calibrate_without_replacement(1.0, 1e-5, q=0.1, steps=10), 2)
    1.77
    """
    return _calibrate_sampled(
        WithoutReplacementGaussianEvent, epsilon, delta, q, steps, n_draws, beside
    )


def _calibrate_sampled(
    kind: type,
    epsilon: float,
    delta: float,
    q: float,
    steps: int,
    n_draws: int,
    beside: float = 0.0,
) -> float:
    _check_budget(epsilon, delta)
    _check_sampling(q, steps)
    if epsilon == math.inf:
        return 0.0
    mu = calibrate_gaussian(epsilon, delta, n_draws=n_draws)
    if not 0.0 <= beside < mu:
        raise ValueError(
            f"beside must be at least 0 and below {mu:.4g}, the Gaussian-DP parameter "
            f"of the whole budget, got {beside!r}."
        )
    full_batch = math.sqrt(steps / ((mu - beside) * (mu + beside)))
    if q == 1.0:
        return full_batch
    if delta <= _MIN_GRID_DELTA:
        raise ValueError(
            f"delta must be above {_MIN_GRID_DELTA} with sampling, got {delta!r}."
        )

    others = (GaussianEvent(beside),) if beside else ()
    # Clearly inside the budget, so that its composition rounds up to no more.
    aim = math.log(delta) - 1e-6

    def excess(log_multiplier: float, roughness: float = 1.0) -> float:
        sampled = kind(q, math.exp(log_multiplier), steps, n_draws)
        event = _sum(map(_single, (sampled, *others)))
        composed = _delta_of(replace(event, roughness=roughness), epsilon)
        return math.log(composed) - aim

    least, most = math.log(_LEAST_MULTIPLIER), math.log(full_batch)
    root = max(math.log(q) + most, least)
    # Nearly all of the search on a grid that costs little, then close to its root.
    for roughness, width, tolerance in ((16.0, 0.25, 1e-4), (1.0, 1e-3, 1e-6)):
        low = high = root
        step = width
        while excess(high, roughness) > 0.0:
            if high > most:
                return full_batch
            low, high, step = high, high + step, 2.0 * step
        step = width
        while excess(low, roughness) <= 0.0:
            if low == least:
                return min(full_batch, _LEAST_MULTIPLIER)
            high, low, step = low, max(low - step, least), 2.0 * step
        root = brentq(excess, low, high, args=(roughness,), xtol=tolerance)
    while excess(root) > 0.0:
        root += tolerance
    return min(full_batch, math.exp(root))
