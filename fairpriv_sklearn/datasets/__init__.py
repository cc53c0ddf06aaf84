"""Simulated data with known answers, and loaders for real data with public facts."""

from ._census import make_census
from ._fetch import (
    fetch_adult,
    fetch_communities_crime,
    fetch_credit_default,
    fetch_law_school,
    fetch_parkinsons,
)
from ._simulated import (
    make_biased_mixture,
    make_biased_regression,
    make_spurious_bias,
    make_spurious_regression,
)

__all__ = [
    "fetch_adult",
    "fetch_communities_crime",
    "fetch_credit_default",
    "fetch_law_school",
    "fetch_parkinsons",
    "make_biased_mixture",
    "make_biased_regression",
    "make_census",
    "make_spurious_bias",
    "make_spurious_regression",
]
