"""Optimal transport: the fair barycenter and one-dimensional distances."""

from .._shared.exact_transport import RESOLUTION
from .._shared.sinkhorn import SinkhornResult, point_cost, sinkhorn, transport_gradient
from ._barycenter import (
    BarycenterResult,
    Coupling,
    OptimalityCertificate,
    fair_barycenter,
    optimality_certificate,
    solver_name,
)
from ._wasserstein import quantise, wasserstein_1d

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
