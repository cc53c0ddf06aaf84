"""What is public about a table, and tables turned into bounded numbers."""

from ._cells import MISSING, Cells, TableReader, as_table, key_of
from ._codebook import (
    KINDS,
    Codebook,
    Column,
    category_key,
    declared_of,
    with_role,
)
from ._counting import (
    ColumnCounts,
    Counted,
    check_gaps,
    check_lists,
    placed_columns,
    refuse_unknown,
    told_total,
    without_missing_values,
)
from ._places import SURE, LearntColumn, Places, look_closer, looks
from ._ranks import cell_of, quantile_edges, universal_edges
from ._reader import SEPARATORS, InputError, Raw, needed_pandas, read_table, some
from ._table_encoder import DPTableEncoder, codebook_facts, read_cells
from ._text_cells import (
    OTHER_MARK,
    any_number,
    cell_day,
    cell_value,
    finite_number,
    is_missing,
    parse_cells,
)

# What is not in this list is for the other rooms of the package.
__all__ = ["Codebook", "Column", "DPTableEncoder", "parse_cells"]
