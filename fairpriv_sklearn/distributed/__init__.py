"""One fit on a table larger than the memory: in batches, or on a dask cluster."""

from .._door._journal import resume
from .._door._stream import Batches, ChangedDataError

__all__ = ["Batches", "ChangedDataError", "resume"]
