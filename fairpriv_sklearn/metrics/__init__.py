"""Group disparities of predictions, their scorers, and private group rates.

The disparities are plain functions of the data they are given: *they are not private*.
Publish group rates with :func:`dp_group_rates`, which adds noise.
"""

from ._disparity import (
    demographic_parity_difference,
    equalized_odds_difference,
    group_cdfs,
    group_codes,
    ks_parity_difference,
    wasserstein_parity_difference,
)
from ._private import GroupRates, _disparity, dp_group_rates
from ._scorer import _takes_groups, group_predictions, make_fairness_scorer

# What is not in this list is for the other rooms of the package.
__all__ = [
    "GroupRates",
    "demographic_parity_difference",
    "dp_group_rates",
    "equalized_odds_difference",
    "ks_parity_difference",
    "make_fairness_scorer",
    "wasserstein_parity_difference",
]
