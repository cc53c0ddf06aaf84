"""Read tables as people have them: text of many kinds, Parquet, Arrow, Excel.

pandas and pyarrow parse; this module finds out what there is to parse. What it decides
by (the header line, marks at the start of the file) belongs to the file and not to a
person in it; lines that are not UTF-8 are decoded one by one.
"""

import bz2
import csv
import gzip
import io
import itertools
import lzma
import re
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .._shared.arrays import objects_of
from .._shared.callers import hushed
from .._shared.packages import needed
from ._text_cells import cell_number, is_missing

SEPARATORS = {",": ",", ";": ";", "tab": "\t", "\\t": "\t", "|": "|", "space": " "}
NEEDS_PANDAS = (
    "Reading a table needs pandas, which is not installed: pip install "
    "'fairpriv_sklearn[data]', or pip install pandas."
)
_LOOKED_AT = 30  # lines that are looked at for the separator and the header


class InputError(ValueError):
    """What is wrong with the user's input, in one sentence that says the way out."""


@dataclass
class Raw:
    """Cells as they stand in the file.

    Attributes
    ----------
    columns : dict of str to list
        Cells: text, or what a typed source holds; None where there is none.
    declared : dict of str to Column
        What a typed source (Parquet, Arrow) says of its columns: for a template only,
        as one cell may change the type of a column.
    separator : str or None
        Of a text file.
    left_out : list of str
        What was left out.
    remarks : list of str
        What was guessed.
    repeated : dict of str to str
        Name in the file of every column whose name stood there before.
    assumed : list of str
        What was taken for no record, so that a guarantee does not speak of it.
    """

    columns: dict[str, list]
    declared: dict = field(default_factory=dict)
    separator: str | None = None
    left_out: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    repeated: dict[str, str] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)


def read_table(path, *, separator=None, encoding=None, sheet=None, names=()) -> Raw:
    """Read the file by what it is, whatever its name says.

    Of the sheets of an Excel file with rows the first one that has all `names`, or else
    most of them.
    """
    path = Path(path)
    data, name = _bytes(path), path.name
    if data.startswith(b"PAR1"):
        return _arrow(data, name, "a Parquet file")
    if data.startswith((b"ARROW1", b"FEA1")):
        return _arrow(data, name, "an Arrow or Feather file")
    if data.startswith(b"PK"):
        return _excel(data, name, sheet, names)
    _refuse_others(data, path)
    return _text(data, name, separator, encoding)


# ------------------------------------------------------------------------------- bytes
def _bytes(path: Path) -> bytes:
    """The file's content, unpacked."""
    try:
        if not path.is_file():
            raise InputError(f"There is no file {str(path)!r}; check the path.")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or "not a path"
        raise InputError(f"{str(path)!r} cannot be read: {reason}.") from None
    if path.suffix.lower() == ".gz" and not data.startswith(b"\x1f\x8b"):
        raise InputError(f"{path.name!r} cannot be read: it is not packed by gzip.")
    for _ in range(2):
        data = _unpacked(data, path.name)
    if not data.strip(b"\x00\r\n\t \xef\xbb\xbf\xff\xfe"):
        raise InputError(f"{path.name!r} is empty; it needs a header and rows of data.")
    return data


def _unpacked(data: bytes, name: str) -> bytes:
    unpack = {
        b"\x1f\x8b": gzip.decompress,
        b"BZh": bz2.decompress,
        b"\xfd7zXZ\x00": lzma.decompress,
        b"PK\x03\x04": _unzip,
    }
    for magic, decompress in unpack.items():
        if data.startswith(magic):
            try:
                return decompress(data)
            except InputError:
                raise
            except Exception:  # zlib, lzma, zipfile: each has errors of its own
                raise InputError(
                    f"{name!r} is a damaged archive; pack it again, or unpack it first."
                ) from None
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        raise InputError(f"{name!r} is packed by zstd; unpack it first.")
    return data


def _unzip(data: bytes) -> bytes:
    """The one file of a zip archive; Excel files stay as they are."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [n for n in archive.namelist() if not n.endswith("/")]
        if "[Content_Types].xml" in names or "mimetype" in names:
            return data
        names = [n for n in names if not n.startswith("__MACOSX")]
        if len(names) != 1:
            raise InputError(
                f"The zip archive holds {len(names)} files; unpack it and name one."
            )
        return archive.read(names[0])


def _refuse_others(data: bytes, path: Path):
    """One sentence for files that are no tables of ours."""
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    others = {
        b"%pdf": "a PDF",
        b"<!doctype": "a web page",
        b"<html": "a web page",
        b"<?xml": "an XML file",
        b"<table": "a web page",
        b"{": "JSON",
        b"[": "JSON",
        b"\xd0\xcf\x11\xe0": "an old Excel file (.xls)",
        b"sqlite format 3": "an SQLite database",
        b"\x89hdf": "an HDF5 file",
        b"\x89png": "a picture",
        b"{\\rtf": "a text document",
    }
    found = [f"is {what}" for magic, what in others.items() if start.startswith(magic)]
    # Comments stand above what tells it.
    if re.search(
        rb"^[ \t]*@relation[ \t]", data[:20_000], re.IGNORECASE | re.MULTILINE
    ):
        found.append("is an ARFF file")
    if path.suffix.lower() in (".sav", ".dta", ".sas7bdat", ".rds", ".rdata", ".pkl"):
        found.append("belongs to another program")
    if found:
        raise InputError(
            f"{path.name!r} {found[0]}; save the table as CSV, Excel (.xlsx) or "
            "Parquet."
        )


# -------------------------------------------------------------------------------- text
def _text(data: bytes, name: str, separator, encoding) -> Raw:
    pandas = needed_pandas()
    left_out: list[str] = []
    remarks: list[str] = []
    text = _decoded(data, name, encoding, remarks)
    if text.count("\x00") > 0:
        raise InputError(f"{name!r} is not a text file; save the table as CSV.")
    first = _first_lines(text)[0].rstrip("\n")
    if first.lower().startswith("sep=") and len(first) <= 6:
        separator = separator or first[4:].replace("\\t", "\t") or None
        text = text.split(first, 1)[1].lstrip("\r\n")
    named = separator is not None
    separator = SEPARATORS.get(separator, separator) or _separator(text)
    if len(separator) != 1:
        raise InputError(
            f"--separator must be one character or a word of {', '.join(SEPARATORS)}."
        )
    skip, extra, row_names = _header_line(text, separator)
    if skip:
        left_out.append(f"{some(skip, 'line')} above the header")
    try:
        frame = pandas.read_csv(
            io.StringIO(_from_line(text, skip)),
            sep=r"\s+" if separator == " " else separator,
            header=None,
            names=range(extra) if extra else None,
            dtype=object,
            keep_default_na=False,  # then only cells that are not there are NaN
            skipinitialspace=True,
            skip_blank_lines=True,
            low_memory=False,
        )
    except Exception as error:  # pandas' parser raises more than its own errors
        raise InputError(_parser_sentence(name, error)) from None
    rows = [list(frame.iloc[0]), *frame.iloc[1:].to_numpy(dtype=object).tolist()]
    if named:
        _refuse_other_separator(rows[0], separator, name)
        _refuse_a_header_as_title(text, separator, skip, name)
    if any(row[-1] == "" for row in rows):  # pandas does not tell it from no cell
        torn = _n_shorter(_from_line(text, skip), separator, extra or len(rows[0]))
        if torn:
            remarks.append(
                f"{some(torn, 'row')} shorter than the header: the cells that are not "
                "there count as missing"
            )
    return _raw(rows, name, separator, left_out, remarks, row_names=row_names)


def _n_shorter(text: str, separator: str, width: int) -> int:
    """How many rows below the header have fewer cells."""
    lines = io.StringIO(text, None)
    rows = csv.reader(
        (" ".join(line.split()) for line in lines) if separator == " " else lines,
        delimiter=separator,
        skipinitialspace=True,
    )
    filled = (row for row in rows if any(map(str.strip, row)))
    n_shorter = 0
    with suppress(csv.Error):  # a field too long for it: of the rows above
        next(filled)
        for row in filled:
            n_shorter += len(row) < width
    return n_shorter


def _decoded(data: bytes, name: str, encoding, remarks) -> str:
    """The text, by its mark, as UTF-8, or line by line as Windows-1252."""
    if encoding is None:
        encoding = _marked_encoding(data)
    if encoding is not None:
        try:
            return data.decode(encoding).lstrip("\ufeff")
        except (LookupError, UnicodeError):
            raise InputError(
                f"{name!r} cannot be read as {encoding[:20]!r}; name its encoding by "
                "--encoding, or save it as UTF-8."
            ) from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        remarks.append(
            "the file is not UTF-8: lines with other characters were read as "
            "Windows-1252 (--encoding names another)"
        )
    return "".join(map(_line, data.splitlines(keepends=True)))


def _marked_encoding(data: bytes) -> str | None:
    marks = {
        b"\xff\xfe\x00\x00": "utf-32",
        b"\x00\x00\xfe\xff": "utf-32",
        b"\xff\xfe": "utf-16",
        b"\xfe\xff": "utf-16",
    }
    for mark, encoding in marks.items():
        if data.startswith(mark):
            return encoding
    start = data[: data.find(b"\n") + 1] or data[:512]  # the header line
    if len(start) > 3 and start[1::2].count(0) > 0.6 * len(start[1::2]):
        return "utf-16-le"
    if len(start) > 3 and start[::2].count(0) > 0.6 * len(start[::2]):
        return "utf-16-be"
    return None


def _line(line: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        try:
            return line.decode(encoding)
        except UnicodeDecodeError:
            continue
    return line.decode("latin-1")


def _first_lines(text: str) -> list[str]:
    """The first lines, parted where pandas parts them: not at page breaks."""
    return list(itertools.islice(io.StringIO(text[:200_000], None), _LOOKED_AT))


def _from_line(text: str, skip: int) -> str:
    """The text without its first lines."""
    ends = (found.end() for found in re.finditer("\r\n?|\n", text))
    return text[[0, *itertools.islice(ends, skip)][-1] :]


def _rows(text: str, separator: str) -> list[list[str]]:
    """The first rows, for a look at their shape."""
    return [row for _, row in _placed_rows(text, separator)]


def _placed_rows(text: str, separator: str) -> list[tuple[int, list[str]]]:
    """The first rows as pandas reads them, and in which line each begins."""
    lines = _first_lines(text)
    if separator == " ":
        lines = [" ".join(line.split()) for line in lines]
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    found, begin = [], 0
    with suppress(csv.Error):  # a field too long for it: the rows above tell
        for row in reader:
            if row:
                found.append((begin, row))
            begin = reader.line_num
    return found


def _separator(text: str) -> str:
    """The character that parts most lines, and the header, into as many fields.

    Decimal commas part all lines but the header, which then looks like a title.
    """

    def merit(candidate):
        rows = _rows(text, candidate)
        widths = [len(row) for row in rows]
        if not widths or max(widths) < 2:
            return (0.0, 0, 0, 0)
        common = max(set(widths), key=lambda w: (widths.count(w) * (w > 1), w))
        share = round(widths.count(common) / len(widths), 1)
        first = _n_titles(rows, common)
        off = abs(common - widths[min(first, len(rows) - 1)])  # of the header
        return (share, -first, -off, common)

    best = max(("\t", ";", ",", "|"), key=merit)
    if merit(best)[-1] < 2 or (best == "," and _only_decimal_commas(text)):
        spaced = merit(" ")[0] == 1 or _is_even(_rows(text, " "))
        if not spaced and "," in text and "," not in _first_lines(text.lstrip())[0]:
            return ";"  # one column of numbers: its name has no comma
        return " " if spaced else ","
    # Of a header that tabs part, above rows that blanks do, both are parted by blanks.
    off = -merit(best)[2]
    return " " if off > 1 and _is_even(_rows(text, " ")) else best


def _only_decimal_commas(text: str) -> bool:
    start = "".join(_first_lines(text))
    return start.count(",") == len(re.findall(r"(?<=\d),(?=\d)", start))


def _is_even(rows: list[list[str]]) -> bool:
    """Whether all rows are equally wide, but for names of rows below a header."""
    widths = [len(row) for row in rows]
    common = max(widths[1:], default=0)
    return common > 1 and set(widths[1:]) == {common} and common - widths[0] in (0, 1)


def _header_line(text: str, separator: str) -> tuple[int, int, bool]:
    """Lines above the header; the width of rows wider than it; whether they have names.

    If not, each of them ends with a separator.
    """
    placed = _placed_rows(text, separator)
    rows = [row for _, row in placed]
    widths = [len(row) for row in rows]
    if not rows:
        return 0, 0, False
    common = max(set(widths), key=lambda w: (widths.count(w), w))
    first = _n_titles(rows, common)
    skip = placed[first][0] if first else 0
    body = widths[first + 1 :]
    one_more = body and all(w == widths[first] + 1 for w in body)
    if not (one_more and widths[first] > 0 and rows[first][-1]):
        return skip, 0, False
    # R writes the names of rows without a name of their column
    return skip, common, any(row[-1].strip() for row in rows[first + 1 :])


def _n_titles(rows: list[list[str]], common: int) -> int:
    """How many rows stand above the header."""
    first = 0
    while first < len(rows) - 1 and _is_title(rows[first], common):
        first += 1
    return first + _is_title_with_separator(rows[first:])


def _is_title(row: list[str], common: int) -> bool:
    filled = [cell for cell in row if cell.strip()]
    if common < 2:
        return False
    return len(filled) < 2 or (len(row) != common and row[0].startswith("#"))


def _is_title_with_separator(rows: list[list[str]]) -> bool:
    """Whether a title such as "Staff, 2020" stands above a header one column wider.

    So stands the header of R above rows with names. But a row with a name has one, and
    R lets no name of a column be a number.
    """
    if len(rows) < 3 or {len(row) for row in rows[1:]} != {len(rows[0]) + 1}:
        return False
    title, header, *body = rows
    if any(map(_is_number, header)) or not all(map(str.strip, header[1:])):
        return False
    holds_numbers = any(
        all(map(_is_number, cells)) for cells in zip(*body, strict=True)
    )
    return not header[0].strip() or (holds_numbers and any(map(_is_number, title)))


def _is_number(cell: str) -> bool:
    return cell_number(cell.strip(), ".") is not None


def _parser_sentence(name: str, error: Exception) -> str:
    words = str(error)
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", words)
    if found:
        wanted, line, saw = found.groups()
        return (
            f"{name!r} has {saw} fields in row {line} but {wanted} in its header; "
            "quote fields that contain the separator, name another separator by "
            "--separator, or delete lines above the header."
        )
    if "EOF inside string" in words:
        return f"{name!r} has a quotation mark that is never closed."
    return f"{name!r} cannot be read as a CSV file; save it again as CSV, UTF-8."


# ---------------------------------------------------------------------- typed and Excel
def _arrow(data: bytes, name: str, what: str) -> Raw:
    from ._declared import declared_columns, needed_arrow

    pyarrow = needed_arrow(
        f"{name!r} is {what}, which needs pyarrow: pip install "
        "'fairpriv_sklearn[data]', or pip install pyarrow.",
        InputError,
    )
    try:
        read = pyarrow.parquet if data.startswith(b"PAR1") else pyarrow.feather
        table = read.read_table(pyarrow.BufferReader(data))
        keep = [n for n in table.column_names if not n.startswith("__index_level_")]
        names = [str(n) for n in keep]
        _check_names(names, name)
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise InputError(
                f"{name!r} names a column twice ({twice[:40]!r}); give each its own "
                "name."
            )
        # As columns without any value: one cell decides whether the type is that.
        nested = [n for n in keep if pyarrow.types.is_nested(table.field(n).type)]
        columns = {
            n: [None] * table.num_rows if n in nested else list(objects_of(one))
            for n, one in zip(keep, table.select(keep).columns, strict=True)
        }
        declared = dict(declared_columns(table.select(keep)))
    except InputError:
        raise
    except Exception:  # pyarrow raises a dozen kinds
        raise InputError(f"{name!r} is a damaged file: it is not {what}.") from None
    if not keep or table.num_rows == 0:
        raise InputError(f"{name!r} holds no row.")
    left_out = [f"{n!r}, whose cells are lists or records" for n in nested]
    return Raw(columns, declared=declared, left_out=left_out)


def _excel(data: bytes, name: str, sheet, names) -> Raw:
    pandas = needed_pandas()
    left_out: list[str] = []
    needed(
        "openpyxl",
        f"{name!r} is an Excel file, which needs openpyxl: pip install "
        "'fairpriv_sklearn[data]', or save it as CSV.",
        InputError,
    )
    try:
        with hushed():  # warnings may quote cells
            book = pandas.ExcelFile(io.BytesIO(data), engine="openpyxl")
            sheets = list(map(str, book.sheet_names))
            if sheet is not None and sheet not in sheets:
                raise InputError(
                    f"{name!r} has no sheet {sheet!r}; its sheets are "
                    f"{', '.join(sheets)}."
                )
            tables, held = {}, {}
            for used in sheets if sheet is None else [sheet]:
                found = book.parse(used, header=None, dtype=object, na_filter=False)
                rows = found.to_numpy(dtype=object).tolist()
                rows, _ = tables[used] = _below_titles(rows)
                held[used] = _n_named(names, rows)
                if held[used] == len(set(names)):
                    break
            used = max(held, key=held.get)  # the first one of those with the most
    except InputError:
        raise
    except Exception:  # openpyxl and zipfile raise what they meet
        raise InputError(
            f"{name!r} cannot be read as an Excel file; save it again as .xlsx or CSV."
        ) from None
    if len(sheets) > 1 and sheet is None:
        others = [repr(one) for one in sheets if one != used]
        left_out.append(
            f"the other sheet{'s' * (len(others) > 1)}, {', '.join(others)}: {used!r} "
            "was read (--sheet names another)"
        )
    rows, n_above = tables[used]
    if n_above:
        left_out.append(f"{some(n_above, 'line')} above the header")
    return _raw(rows, name, None, left_out, [])


def _below_titles(rows) -> tuple[list[list], int]:
    """The header of a sheet and the rows below it, and how many lines are above."""
    rows = [[None if _empty(cell) else cell for cell in row] for row in rows]
    rows = [row for row in rows if any(cell is not None for cell in row)]
    filled = [sum(cell is not None for cell in row) for row in rows]
    # Of one column no line above is told from the header.
    first = next((i for i, n_cells in enumerate(filled) if n_cells > 1), 0)
    return rows[first:], first


def _n_named(names, rows) -> int:
    """How many of the names stand in the header; -1 of a sheet without rows."""
    return len(set(names) & set(map(_name, rows[0]))) if len(rows) > 1 else -1


def _empty(cell) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell != cell


def _name(cell) -> str:
    """A name without what would break lines of a report."""
    return "" if _empty(cell) else " ".join(str(cell).split())


def _raw(rows, name, separator, left_out, remarks, row_names=False) -> Raw:
    """Columns by name from rows, the first of which is the header."""
    header, *body = rows or [()]
    if row_names:
        header = [None, *header[:-1]]
    names = list(map(_name, header))
    if all(len(n) > 2 and n[0] == n[-1] == "'" for n in names if n):
        names = [n[1:-1] for n in names]
        body = [[_unquoted(cell) for cell in row] for row in body]
    body = [
        [None if _empty(cell) else cell.strip() if isinstance(cell, str) else cell
         for cell in row]
        for row in body
    ]  # fmt: skip
    body = [row for row in body if any(cell is not None for cell in row)]
    if not body:
        raise InputError(f"{name!r} needs a header and at least one row of data.")
    columns = list(zip(*body, strict=True))
    for i, (label, column) in enumerate(zip(names, columns, strict=True)):
        if not label and not all(map(is_missing, column)):
            where = "the first column" if i == 0 else f"column {i + 1}"
            left_out.append(f"{where}, which has no name")
    _check_names(list(filter(None, names)), name)
    _refuse_a_row(names, columns, name)
    in_file, names = names, _apart(names)
    pairs = zip(names, in_file, strict=True)
    repeated = {new: old for new, old in pairs if new != old}
    remarks += [
        f"the name {old!r} stands in the file again: that column is {new!r} here"
        for new, old in repeated.items()
    ]
    return Raw(
        {n: list(c) for n, c in zip(names, columns, strict=True) if n},
        separator=separator,
        left_out=left_out,
        remarks=remarks,
        repeated=repeated,
        assumed=["a row without any value is no record"],
    )


def _apart(names: list[str]) -> list[str]:
    """Names with a number behind those that stood there before, as in pandas."""
    taken, seen, apart = set(names), set(), []
    for name in names:
        if name and name in seen:
            numbers = (f"{name}.{k}" for k in itertools.count(1))
            name = next(n for n in numbers if n not in taken)
            taken.add(name)
        seen.add(name)
        apart.append(name)
    return apart


def _unquoted(cell):
    """A cell without single quotes around it, where all names have them."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else cell


def _check_names(names: list[str], file: str):
    if not names:
        raise InputError(f"{file!r} has no header: its first line names the columns.")


def _refuse_other_separator(header: list, separator: str, file: str):
    """Refuse a separator that is named but not of the file: rows may pass for names."""
    for mark in (";", "\t", "|", ","):
        if mark != separator and all(mark in str(cell) for cell in header):
            raise InputError(
                f"{file!r} has {mark!r} in each name of its header, parted at "
                f"{separator!r}; name the right character by --separator, or none."
            )


def _refuse_a_header_as_title(text: str, separator: str, skip: int, file: str):
    """Refuse a separator that is named and makes a title of what is the header.

    As decimal commas do where they part all lines but that one: names of columns, which
    are public, would then be the cells of the first row.
    """
    other = _separator(text)
    if other != separator and _header_line(text, other)[0] < skip:
        # Where it parts no line either, it is a guess, and a title may stand there.
        way_out = repr(other) if max(map(len, _rows(text, other))) > 1 else "another"
        raise InputError(
            f"{file!r} seems to have its header above what {separator!r} parts into "
            f"columns: name {way_out} by --separator, or none; or delete the lines "
            "above the header."
        )


def _refuse_a_row(names: list[str], columns: list, file: str):
    """Refuse a first line that is a row: its cells would be published as names."""
    # a box that is ticked may hold its name, and nothing else
    named = [pair for pair in zip(names, columns, strict=True) if pair[0]]
    own = [name in column and len({*column} - {None}) > 1 for name, column in named]
    if 2 * sum(own) > len(own):
        raise InputError(
            f"{file!r} seems to have no header: what stands in its first line stands "
            "in the rows too. Write a line of names above the rows, and only there."
        )
    texts = [name for name in names if cell_number(name) is not None]
    numbers = list(map(cell_number, texts))
    in_order = any(
        all(a < b for a, b in itertools.pairwise(one))
        for one in (numbers, numbers[::-1], texts)
    )
    if not (in_order or all(1900 <= number <= 2100 for number in numbers)):
        raise InputError(
            f"{file!r} seems to have no header: in its first line are numbers without "
            "order, as in a row. Write a line of names above the rows."
        )


def some(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("s" if count != 1 else "")


def needed_pandas():
    return needed("pandas", NEEDS_PANDAS, InputError)
