"""Accounting: budgets to noise and back, as pure functions of public numbers.

A fit is described by *events*, frozen objects such as ``GaussianEvent(mu, n_draws)``
or ``PureEvent(epsilon)``. A noise multiplier is the noise standard deviation divided by
the sensitivity *of the relation in use*. Gaussian, pure, declared and threshold events
are composed exactly, sampled ones through privacy loss distributions. Every result is
rounded to the private side.
"""

from ._composition import (
    _costs_at_most,
    _dearest_epsilon,
    _parted,
    calibrate_poisson,
    calibrate_without_replacement,
    compose_delta,
    compose_epsilon,
)
from ._events import (
    DeclaredEvent,
    EitherEvent,
    GaussianEvent,
    MaximumEvent,
    PoissonGaussianEvent,
    PrivacyEvent,
    PureEvent,
    ThresholdEvent,
    WithoutReplacementGaussianEvent,
    checked_events,
    event_from_dict,
    from_plain,
    to_plain,
)
from ._gaussian import (
    _sampler_error,
    calibrate_gaussian,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    without_sampler_error,
)
from ._loss_grid import _everything
from ._privacy_loss import _Composition, _sum
from ._sides import Splits, _fewer_sides, _fewer_splits

# What is not in this list is for the other rooms of the package.
__all__ = [
    "DeclaredEvent",
    "EitherEvent",
    "GaussianEvent",
    "MaximumEvent",
    "PoissonGaussianEvent",
    "PrivacyEvent",
    "PureEvent",
    "ThresholdEvent",
    "WithoutReplacementGaussianEvent",
    "calibrate_gaussian",
    "calibrate_poisson",
    "calibrate_without_replacement",
    "compose_delta",
    "compose_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
]
