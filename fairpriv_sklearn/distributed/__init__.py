"""One fit on a table larger than the memory: in batches, or on a dask cluster."""

from fairpriv_sklearn._door._journal import resume
from fairpriv_sklearn._door._stream import Batches, ChangedDataError

__all__ = ["Batches", "ChangedDataError", "resume"]
