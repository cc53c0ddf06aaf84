"""Optimal transport: the fair barycenter and one-dimensional distances."""

from fairpriv_sklearn._shared.exact_transport import RESOLUTION
from fairpriv_sklearn._shared.sinkhorn import (
    SinkhornResult,
    point_cost,
    sinkhorn,
    transport_gradient,
)
from fairpriv_sklearn.transport._barycenter import (
    BarycenterResult,
    Coupling,
    OptimalityCertificate,
    fair_barycenter,
    optimality_certificate,
    solver_name,
)
from fairpriv_sklearn.transport._wasserstein import quantise, wasserstein_1d

# What is not in this list is for the other rooms of the package.
__all__ = [
    "BarycenterResult",
    "Coupling",
    "OptimalityCertificate",
    "fair_barycenter",
    "optimality_certificate",
    "quantise",
    "wasserstein_1d",
    "SinkhornResult",
    "point_cost",
    "sinkhorn",
    "transport_gradient",
]
