"""One fit on a table larger than the memory: in batches, or on a dask cluster."""

from fairpriv_sklearn.distributed._journal import resume
from fairpriv_sklearn.distributed._stream import (
    Batches,
    ChangedDataError,
    answer_in_parts,
    as_batches,
    batch_arguments,
)

# What is not in this list is for the other rooms of the package.
__all__ = ["Batches", "ChangedDataError", "resume"]
