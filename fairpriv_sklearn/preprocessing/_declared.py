"""Names and declared kinds of a table's columns; no cell is looked at."""

import os
import re
from pathlib import Path

from .._shared.arguments import flag_or_none
from .._shared.packages import needed
from ._codebook import Column

ARROW_FILES = (".arrow", ".feather", ".ipc")
PARQUET_FILES = (".parquet", ".pq")


def declared_columns(source, typed=None) -> list[tuple[str, Column]]:
    """Pairs of name and Column of a frame, an Arrow table or a file."""
    flag_or_none("typed", typed)
    if isinstance(source, str | os.PathLike):
        return _of_file(Path(source), typed)
    library = type(source).__module__.split(".")[0]
    if library == "pyarrow" and hasattr(source, "schema"):
        return _of_schema(source.schema, typed is not False)
    if not hasattr(source, "columns"):
        raise TypeError(
            "source must be a data frame, an Arrow table or the path of a file, got "
            f"{type(source).__name__}."
        )
    dtypes = source.dtypes
    names = list(source.columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                "names of columns must be strings; rename them, for example by "
                "frame.rename(columns=str)."
            )
    types = list(dtypes.values()) if isinstance(dtypes, dict) else list(dtypes)
    return [
        (name, _of_type(str(dtype)) if typed else Column())
        for name, dtype in zip(names, types, strict=True)
    ]


def needed_arrow(sentence: str, error: type[Exception] = ImportError):
    """Arrow with what reads its files."""
    for module in ("pyarrow.feather", "pyarrow.parquet"):
        needed(module, sentence, error)
    return needed("pyarrow", sentence, error)


def _of_file(path: Path, typed) -> list[tuple[str, Column]]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-1] if suffixes else ""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    if last in ARROW_FILES + PARQUET_FILES:
        pyarrow = needed_arrow(
            f"reading {path.name} needs pyarrow: pip install pyarrow."
        )
        try:
            if last in PARQUET_FILES:
                schema = pyarrow.parquet.read_schema(path)
            else:
                schema = pyarrow.feather.read_table(path).schema
        except (pyarrow.ArrowException, OSError):
            raise ValueError(f"{path.name} is not a file of its kind.") from None
        return _of_schema(schema, typed is not False)
    from ._reader import read_table

    return [(name, Column()) for name in read_table(path).columns]


def _of_schema(schema, typed) -> list[tuple[str, Column]]:
    return [
        (field.name, _of_type(str(field.type)) if typed else Column())
        for field in schema
        # the index that pandas writes beside the columns
        if not field.name.startswith("__index_level_")
    ]


_KINDS = {
    "category": "dictionary category categorical enum string large_string string_view "
    "utf str".split(),
    "date": ["timestamp", "date", "datetime"],
    "flag": ["bool", "boolean"],
    "number": ["int", "uint", "float", "double", "halffloat", "decimal"],
}


def _of_type(name: str) -> Column:
    """What a declared type says, by its name in Arrow, polars or pandas."""
    word = re.split("[^a-z_]", name.lower())[0]
    kind = next((kind for kind, words in _KINDS.items() if word in words), None)
    values = (False, True) if kind == "flag" else None
    return Column(kind, categories=values, integer=word in ("int", "uint"))
