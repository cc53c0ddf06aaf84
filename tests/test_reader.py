"""Files of tables as people have them: packed, encoded, parted, or no tables at all."""

import bz2
import csv
import gzip
import io
import lzma
import zipfile

import pytest

from fairpriv_sklearn.preprocessing._reader import InputError, read_table

pytest.importorskip("pandas")


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        gzip.compress,
        bz2.compress,
        lzma.compress,
        lambda data: gzip.compress(bz2.compress(data)),
        lambda data: zipped({"folder/a.csv": data, "__MACOSX/._a.csv": b"x"}),
    ],
    ids=["plain", "gzip", "bzip2", "xz", "twice", "zip"],
)
@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("utf-16-le", None),
        ("utf-16-be", None),
        ("utf-32", None),
        ("cp1252", None),
        ("cp1252", "cp1252"),
        ("mac-roman", "mac-roman"),
    ],
)
def test_a_table_is_the_same_however_it_is_packed_and_encoded(
    tmp_path, pack, encoding, named
):
    path, cells = tmp_path / "a.csv", [["Zoé", "3,5"], ["a;b", "4"], ["Möller", "5"]]
    for word, mark in (("tab", "\t"), (",", ","), (";", ";"), ("|", "|")):
        text = io.StringIO()
        csv.writer(text, delimiter=mark).writerows([["name", "größe"], *cells])
        for start, separator in (("", None), ("", word), (f"sep={mark}\r\n", None)):
            path.write_bytes(pack((start + text.getvalue()).encode(encoding)))
            raw = read_table(path, separator=separator, encoding=named)
            assert raw.separator == mark
            assert list(raw.columns) == ["name", "größe"]
            assert list(map(list, zip(*raw.columns.values(), strict=True))) == cells
            guessed = encoding == "cp1252" and named is None
            assert [("not UTF-8" in one) for one in raw.remarks] == [True] * guessed


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \r\n\t", "is empty"),
        (gzip.compress(b" \n", mtime=0), "is empty"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "damaged archive"),
        (b"BZh9 no archive", "damaged archive"),
        (b"\x28\xb5\x2f\xfd rest", "packed by zstd"),
        (b"%PDF-1.7", "is a PDF"),
        (b"\n <!DOCTYPE html>", "is a web page"),
        (b'{"a": [1]}', "is JSON"),
        (b"% German credit\n%\n@relation credit\n@attribute a real\n", "an ARFF file"),
        (b"%\r\n \t@RELATION\tcredit\r\n@DATA\r\n1\r\n", "an ARFF file"),
        (b"\xd0\xcf\x11\xe0 rest", "an old Excel file"),
        (b"SQLite format 3\x00", "an SQLite database"),
        (b"a,b\n1,\x002\n", "not a text file"),
        (b"PK\x05\x06" + bytes(18), "cannot be read as an Excel file"),
        (b"PAR1 rest", "damaged file"),
        (b"a,b\n1,2\n1,2,3\n", "3 fields in row 3 but 2 in its header"),
        (b"Staff, all\na,b,c,d\n1,2,3,4\n", "or delete lines above the header"),
        (b'a,b\n1,"2\n', "quotation mark that is never closed"),
        (b"a,b\n", "at least one row"),
        (b"a,b\n,\n \n", "at least one row"),
    ],
)
def test_what_is_no_table_is_told_in_one_sentence(tmp_path, content, says):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as said:
        read_table(path)
    assert says in str(said.value) and "\n" not in str(said.value)


def test_archives_of_several_files_and_wrong_names_of_files(tmp_path):
    data, path = b"a,b\n1,x\n2,y\n", tmp_path / "a.zip"
    good = tmp_path / "a.csv"
    good.write_bytes(data)
    for files, says in (
        ({"a.csv": data, "b.csv": data}, "holds 2 files"),
        ({"folder/": b""}, "holds 0 files"),
    ):
        path.write_bytes(zipped(files))
        with pytest.raises(InputError, match=says):
            read_table(path)
    for name, says in (
        ("a.csv.gz", "not packed by gzip"),
        ("a.sav", "another program"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=says):
            read_table(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read as 'utf-7x'"):
        read_table(good, encoding="utf-7x")
    with pytest.raises(InputError, match="--separator must be one character"):
        read_table(good, separator="ab")


@pytest.mark.parametrize(
    ("text", "n_shorter"),
    [
        ("a,b,c\n1,2,3\n4,5\n", 1),
        ("a,b,c\n1,2,\n,,\n4,5,\n", 0),  # of cells that are there and empty
        ("\na,b,c\n1\n\n  \n4,5\n7,8,9\n", 2),  # blank lines are no rows
        ("Our people\na,b,c\n1,2,3\n4,5\n", 1),  # nor is a title
        ('a,b,c\n"1,\n2",3\n4,"5,6,7"\n', 2),
        ("a b c\n" + "1 2 3\n" * 10 + "4 5\n", 0),  # not parted by blanks
        ("a;b;c\n" + "1;2;3\n" * 40 + "4;5\n", 1),  # below what is looked at first
        (f"a,b,c\n1,2\n{'9' * 140_000},3\n4,5\n", 1),  # up to what no field holds
    ],
)
def test_rows_without_all_cells_are_told(text, n_shorter, tmp_path):
    """pandas does not tell a cell that is not there from an empty one."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    rows = f"{n_shorter} row{'s' * (n_shorter > 1)} shorter than the header"
    told = f"{rows}: the cells that are not there count as missing"
    assert read_table(path).remarks == [told] * bool(n_shorter)
    if text.startswith("a,b,c\n1,2,3\n4"):
        path.write_text(text.replace(",", "  "))  # the same, parted by blanks
        assert read_table(path, separator="space").remarks == [told]


def test_a_header_that_is_parted_otherwise_than_the_rows(tmp_path):
    """A known table of cars: tabs in the header, blanks in the rows, one tab or two."""
    path = tmp_path / "Auto.data"
    header = "mpg\tcylinders\thorsepower weight\tyear\tname\n"
    rows = '18.0   8   130.0      3504.   70\t"chevrolet malibu"\n' * 40
    path.write_text(header + rows)
    raw = read_table(path)
    found = {name: column[-1] for name, column in raw.columns.items()}
    assert found == {
        "mpg": "18.0",
        "cylinders": "8",
        "horsepower": "130.0",
        "weight": "3504.",
        "year": "70",
        "name": "chevrolet malibu",
    }
    assert raw.separator == " " and not raw.remarks
    # A tab parts where blanks do not part all rows alike, or hardly less well.
    path.write_text(header + "18.0 8\t130.0\n" * 3 + "15.0 chevrolet malibu\t3\n" * 9)
    assert read_table(path).separator == "\t"
    path.write_text("a name\tyear\n" + "a b\t70\t\n" * 40)
    assert read_table(path).separator == "\t"


@pytest.mark.parametrize(
    ("text", "separator", "way_out"),
    [
        ("Study of 2020\nage:sex\n" + "40:f\n50:m\n" * 20, ":", "name another by"),
        ("name;pay\n" + "Ann, Lee;40\nBob, Ray;50\n" * 20, ",", "name ';' by"),
    ],
)
def test_a_separator_that_parts_no_line_is_not_named(
    tmp_path, text, separator, way_out
):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=f"seems to have its header above.*{way_out}"):
        read_table(path, separator=separator)
