"""Real-world forms of one table: what the command line reads of each.

One known table is written in every form in which such tables are met: separators,
encodings, decimal marks, money, dates, gaps, packed, Excel, Parquet. A variant is right
if the parsed table equals the known one; files without a right answer must get one
sentence. Run:

    python examples/benchmarks/read_variants.py > examples/benchmarks/read_variants.txt
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import sys
import tempfile
import zipfile
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from fairpriv_sklearn._cli.columns import Writing, parse_columns
from fairpriv_sklearn.preprocessing import Codebook
from fairpriv_sklearn.preprocessing._reader import InputError, read_table

N = 40
AGE = [20 + (7 * i) % 60 for i in range(N)]
INCOME = [round(812.25 + 1713.5 * i, 2) for i in range(N)]  # 812.25 to 67,638.75
RATE = [round(0.005 * (i % 31), 3) for i in range(N)]  # as a share of one
JOINED = [date(2019, 1, 3) + timedelta(days=29 * i) for i in range(N)]
TOWN = [["Köln", "São Paulo", "Zürich", "Malmö"][i % 4] for i in range(N)]
MEMBER = [["no", "yes"][i % 3 == 0] for i in range(N)]
NAMES = ["age", "income", "rate", "joined", "town", "member"]
GAPS = {"age": {3, 11}, "town": {5}, "income": {8}, "joined": {13}}


def grouped(value, thousands, decimal, digits=2):
    text = f"{value:,.{digits}f}"
    return text.translate(str.maketrans({",": thousands, ".": decimal}))


def cells(
    *,
    age=str,
    income=str,
    rate=str,
    joined=date.isoformat,
    town=str,
    member=str,
    gap="",
    gaps=False,
):
    """The known table as text, cell by cell."""
    forms = (age, income, rate, joined, town, member)
    columns = []
    for name, form, values in zip(
        NAMES, forms, (AGE, INCOME, RATE, JOINED, TOWN, MEMBER), strict=True
    ):
        holes = GAPS.get(name, set()) if gaps else set()
        columns.append([gap if i in holes else form(v) for i, v in enumerate(values)])
    return [list(row) for row in zip(*columns, strict=True)]


def text(rows=None, header=NAMES, sep=",", end="\n", quoting=csv.QUOTE_MINIMAL):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=sep, lineterminator=end, quoting=quoting)
    writer.writerows([header, *(cells() if rows is None else rows)])
    return stream.getvalue()


def frame():
    return pd.DataFrame(
        {
            "age": AGE,
            "income": INCOME,
            "rate": RATE,
            "joined": pd.to_datetime(JOINED),
            "town": TOWN,
            "member": MEMBER,
        }
    )


def excel(table=None, **options):
    stream = io.BytesIO()
    with pd.ExcelWriter(stream, engine="openpyxl") as book:
        (frame() if table is None else table).to_excel(book, index=False, **options)
    return stream.getvalue()


def two_sheets():
    stream = io.BytesIO()
    with pd.ExcelWriter(stream, engine="openpyxl") as book:
        pd.DataFrame().to_excel(book, index=False, sheet_name="cover")
        frame().to_excel(book, index=False, sheet_name="people")
    return stream.getvalue()


def parquet(table=None):
    stream = io.BytesIO()
    (frame() if table is None else table).to_parquet(stream)
    return stream.getvalue()


def feather():
    stream = io.BytesIO()
    frame().to_feather(stream)
    return stream.getvalue()


def typed():
    table = frame()
    table["town"] = table["town"].astype("category")
    table["age"] = table["age"].astype("Int16")
    table["joined"] = table["joined"].dt.tz_localize("UTC")
    return table


def archive(**files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for name, content in files.items():
            packed.writestr(name + ".csv", content)
    return stream.getvalue()


def german(value):
    return grouped(value, ".", ",")


def plain_comma(value):
    return str(value).replace(".", ",")


def percent(value):
    return f"{100 * value:.1f}%"


def day_first(mark):
    return lambda d: f"{d.day:02d}{mark}{d.month:02d}{mark}{d.year}"


def month_first(d):
    return f"{d.month}/{d.day}/{d.year}"


def variants():
    """Name, file name, content, and what differs from the known table."""
    plain = text()
    continental = cells(income=plain_comma, rate=plain_comma)
    gap_columns = {"gaps": True}
    yield "comma", "a.csv", plain
    yield "semicolon", "a.csv", text(sep=";")
    yield "tab, .tsv", "a.tsv", text(sep="\t")
    yield "tab, named .csv", "a.csv", text(sep="\t")
    yield "tab, named .txt", "a.txt", text(sep="\t")
    yield "pipe", "a.csv", text(sep="|")
    yield (
        "spaces",
        "a.dat",
        text(sep=" ", rows=cells(town=lambda t: t.replace(" ", "_"))),
    )
    yield "carriage return and line feed", "a.csv", text(end="\r\n")
    yield "carriage returns only", "a.csv", text(end="\r")
    yield "no line end at the end", "a.csv", plain.rstrip("\n")
    yield "blank lines between", "a.csv", plain.replace("\n", "\n\n")
    yield "blank lines at both ends", "a.csv", f"\n\n{plain}\n\n\n"
    yield "everything quoted", "a.csv", text(quoting=csv.QUOTE_ALL)
    yield "text quoted", "a.csv", text(quoting=csv.QUOTE_NONNUMERIC)
    yield "spaces after commas", "a.csv", plain.replace(",", ", ")
    yield "sep= line of Excel", "a.csv", "sep=;\n" + text(sep=";")
    yield "name.with.dots, no suffix", "export.2024.final", plain
    yield "UTF-8 with mark", "a.csv", plain.encode("utf-8-sig")
    yield "Latin-1", "a.csv", plain.encode("latin-1")
    yield "Windows-1252", "a.csv", plain.encode("cp1252")
    yield "UTF-16 with mark", "a.csv", plain.encode("utf-16")
    yield (
        "UTF-16, big end first, with mark",
        "a.csv",
        b"\xfe\xff" + plain.encode("utf-16-be"),
    )
    yield "UTF-16 without mark", "a.csv", plain.encode("utf-16-le")
    yield (
        "UTF-16, tabs (Excel's Unicode text)",
        "a.txt",
        text(sep="\t").encode("utf-16"),
    )
    yield "UTF-32", "a.csv", plain.encode("utf-32")
    yield "gzip", "a.csv.gz", gzip.compress(plain.encode())
    yield "gzip without its suffix", "a.csv", gzip.compress(plain.encode())
    yield (
        "gzip, semicolon, Latin-1",
        "a.csv.gz",
        gzip.compress(text(sep=";").encode("latin-1")),
    )
    yield "bzip2", "a.csv.bz2", bz2.compress(plain.encode())
    yield "xz", "a.csv.xz", lzma.compress(plain.encode())
    yield "zip of one file", "a.zip", archive(people=plain)
    yield "decimal comma, semicolon", "a.csv", text(continental, sep=";")
    yield "decimal comma, tab", "a.csv", text(continental, sep="\t")
    yield "decimal comma, quoted, comma", "a.csv", text(continental)
    yield "1.234,50", "a.csv", text(cells(income=german, rate=plain_comma), sep=";")
    yield (
        "1.234,50 EUR",
        "a.csv",
        text(cells(income=lambda v: german(v) + " EUR"), sep=";"),
    )
    yield (
        "1.234,50 €, Windows-1252",
        "a.csv",
        text(
            cells(income=lambda v: german(v) + " €", rate=plain_comma), sep=";"
        ).encode("cp1252"),
    )
    yield "$1,234.50", "a.csv", text(cells(income=lambda v: "$" + grouped(v, ",", ".")))
    yield (
        "$ 1,234.50 with spaces",
        "a.csv",
        text(cells(income=lambda v: f" $ {v:,.2f} ")),
    )
    yield "1,234.50 USD", "a.csv", text(cells(income=lambda v: f"{v:,.2f} USD"))
    yield (
        "£1,234.50, semicolon",
        "a.csv",
        text(cells(income=lambda v: f"£{v:,.2f}"), sep=";"),
    )
    yield (
        "1 234,50 (France)",
        "a.csv",
        text(
            cells(income=lambda v: grouped(v, "\u202f", ","), rate=plain_comma), sep=";"
        ),
    )
    yield (
        "1'234.50 (Switzerland)",
        "a.csv",
        text(cells(income=lambda v: grouped(v, "'", "."))),
    )
    yield (
        "kr 1 234,50",
        "a.csv",
        text(
            cells(income=lambda v: "kr " + grouped(v, "\u00a0", ","), rate=plain_comma),
            sep=";",
        ),
    )
    yield "exponents", "a.csv", text(cells(income=lambda v: f"{v:.6e}"))
    yield "percent", "a.csv", text(cells(rate=percent))
    yield (
        "percent with a space and a comma",
        "a.csv",
        text(
            cells(rate=lambda v: percent(v).replace("%", " %").replace(".", ",")),
            sep=";",
        ),
    )
    yield (
        "dates 2019-01-03 00:00:00",
        "a.csv",
        text(cells(joined=lambda d: f"{d} 00:00:00")),
    )
    yield (
        "dates 2019-01-03T00:00:00Z",
        "a.csv",
        text(cells(joined=lambda d: f"{d}T00:00:00Z")),
    )
    yield "dates 03.01.2019", "a.csv", text(cells(joined=day_first(".")))
    yield "dates 03/01/2019", "a.csv", text(cells(joined=day_first("/")))
    yield "dates 1/3/2019", "a.csv", text(cells(joined=month_first))
    yield "dates 2019/01/03", "a.csv", text(cells(joined=lambda d: f"{d:%Y/%m/%d}"))
    yield "dates 03-Jan-2019", "a.csv", text(cells(joined=lambda d: f"{d:%d-%b-%Y}"))
    yield "dates Jan 03, 2019", "a.csv", text(cells(joined=lambda d: f"{d:%b %d, %Y}"))
    for gap in ("", "NA", "?", "NULL", "n/a", "-", "#N/A", "nan"):
        yield (
            f"gaps as {gap!r}",
            "a.csv",
            text(cells(gap=gap, **gap_columns)),
            gap_columns,
        )
    yield (
        "gaps that make whole numbers 20.0",
        "a.csv",
        text(cells(age=lambda a: f"{a}.0", **gap_columns)),
        gap_columns,
    )
    yield "index column of pandas", "a.csv", frame().to_csv()
    yield (
        "row names of R",
        "a.csv",
        "\n".join(
            [
                ",".join(NAMES),
                *(f"{i},{line}" for i, line in enumerate(plain.splitlines()[1:])),
            ]
        ),
    )
    yield "a separator at the end of each line", "a.csv", plain.replace("\n", ",\n")
    yield (
        "two title lines above the header",
        "a.csv",
        f"Report 2024\n\nall people\n{plain}",
    )
    yield (
        "comment lines above the header",
        "a.csv",
        f"# source: survey\n# n: 40\n{plain}",
    )
    yield "line breaks inside cells", "a.csv", text(cells(town=lambda t: f"{t}\n"))
    yield (
        "commas inside quoted names",
        "a.csv",
        text(
            header=["age", "income", "rate", "joined", "town", "member"],
            quoting=csv.QUOTE_ALL,
        ),
    )
    yield "Excel", "a.xlsx", excel()
    yield "Excel, cells of text", "a.xlsx", excel(frame().astype(str))
    yield "Excel, title above the header", "a.xlsx", excel(startrow=3)
    yield "Excel, first sheet empty", "a.xlsx", two_sheets()
    yield "Excel named .csv", "a.csv", excel()
    yield "Parquet", "a.parquet", parquet()
    yield "Parquet, typed columns", "a.parquet", parquet(typed())
    yield (
        "Parquet with an index",
        "a.parquet",
        parquet(frame().set_index(pd.RangeIndex(5, 45))),
    )
    yield "Feather", "a.feather", feather()


def no_right_answer():
    """Files that get one sentence."""
    plain = text()
    yield "money with commas, unquoted", "a.csv", plain.replace("812.25", "1,812.25")
    yield "torn gzip", "a.csv.gz", gzip.compress(plain.encode())[:-20]
    yield "a PDF", "a.pdf", b"%PDF-1.7 ..."
    yield "a web page", "a.csv", "<!DOCTYPE html><html><table></table></html>"
    yield "JSON", "a.json", '[{"age": 20}]'
    yield "old Excel", "a.xls", b"\xd0\xcf\x11\xe0" + bytes(600)
    yield "zip of two files", "a.zip", archive(a=plain, b=plain)
    yield "empty", "a.csv", ""
    yield "header only", "a.csv", ",".join(NAMES) + "\n"
    yield "quotation mark never closed", "a.csv", plain + '"1,2,3,4,5,6\n'
    yield "damaged Parquet", "a.parquet", parquet()[:300]
    yield "damaged Excel", "a.xlsx", excel()[:900]
    yield "a picture", "a.png", b"\x89PNG\r\n\x1a\n" + bytes(100)


def is_right(path, gaps=False):
    """Whether the parsed table equals the known one."""
    raw = read_table(path)
    names = list(raw.columns)
    if names != NAMES:
        return f"columns {names}"
    parsed = parse_columns(raw, Codebook(), names, Writing(separator=raw.separator))
    days = [np.datetime64(d).astype("datetime64[D]").astype(int) for d in JOINED]
    wrong = []
    for name, known in (
        ("age", AGE),
        ("income", INCOME),
        ("rate", RATE),
        ("joined", days),
    ):
        known = np.array(known, dtype=float)
        if gaps:
            known[list(GAPS.get(name, ()))] = np.nan
        p = parsed[name]
        kind = "date" if name == "joined" else "number"
        if p.column.kind != kind or not np.allclose(
            p.values, known, equal_nan=True, atol=1e-9
        ):
            wrong.append(name)
    for name, known in (("town", TOWN), ("member", MEMBER)):
        known = [
            None if gaps and i in GAPS.get(name, ()) else v for i, v in enumerate(known)
        ]
        found = [v and v.replace("_", " ") for v in parsed[name].values]
        if parsed[name].column.kind != "category" or found != known:
            wrong.append(name)
    return f"wrong: {', '.join(wrong)}" if wrong else ""


def outcomes(folder):
    """Outcome of every file: kind of file, name, and what happened."""
    folder = Path(folder)
    for right, files in ((True, variants()), (False, no_right_answer())):
        for number, (name, file, content, *options) in enumerate(files):
            place = folder / f"{right}-{number}"
            place.mkdir()
            path = place / file
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            try:
                wrong = is_right(path, **(options[0] if options else {}))
                outcome = wrong or "right"
            except InputError as error:
                outcome = f"sentence: {error}"
            except Exception as error:
                outcome = f"TRACEBACK: {type(error).__name__}"
            yield right, name, outcome


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = list(outcomes(folder))
    print("python examples/benchmarks/read_variants.py")
    versions = f"pandas {pd.__version__}, Python {sys.version.split()[0]}"
    print(f"one table of {N} rows and {len(NAMES)} columns; {versions}\n")
    for _, name, outcome in found:
        print(f"{name:40} {outcome}")
    good = [o for right, _, o in found if right]
    bad = [o for right, _, o in found if not right]
    print(
        f"\n{sum(o == 'right' for o in good)} of {len(good)} variants right; "
        f"{sum(o.startswith('sentence') for o in bad)} of {len(bad)} files without a "
        f"right answer got one sentence; "
        f"{sum('TRACEBACK' in o for _, _, o in found)} tracebacks"
    )


if __name__ == "__main__":
    main()
