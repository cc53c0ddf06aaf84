"""Private synthetic data."""

from ._sinkhorn import DPSinkhornGenerator
from ._sliced import DPSlicedWassersteinGenerator

__all__ = ["DPSinkhornGenerator", "DPSlicedWassersteinGenerator"]
