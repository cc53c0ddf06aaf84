"""What is public about a table, and tables turned into bounded numbers."""

from fairpriv_sklearn.preprocessing._codebook import Codebook, Column
from fairpriv_sklearn.preprocessing._table_encoder import DPTableEncoder

__all__ = [
    "Codebook",
    "Column",
    "DPTableEncoder",
]
