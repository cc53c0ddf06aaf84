"""Check the printed guarantee of a private estimator, one's own or anybody's."""

from ._bounds import (
    EpsilonBound,
    MuBound,
    epsilon_lower_bound,
    gaussian_mu_lower_bound,
    mu_lower_bound,
)
from ._display import AuditDisplay
from ._estimator import AuditReport, audit_estimator
from ._replay import Finding, ReplayReport, replay
from ._tables import Neighbours, Table, neighbours

__all__ = [
    "AuditDisplay",
    "AuditReport",
    "EpsilonBound",
    "Finding",
    "MuBound",
    "Neighbours",
    "ReplayReport",
    "Table",
    "audit_estimator",
    "epsilon_lower_bound",
    "gaussian_mu_lower_bound",
    "mu_lower_bound",
    "neighbours",
    "replay",
]
