"""The command line draws a table of nobody: what it writes, says and refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from _recording import recording

from fairpriv_sklearn.__main__ import main
from fairpriv_sklearn.generative import _points

pd = pytest.importorskip("pandas")

BOOK = {
    "age": [17, 90],
    "sex": ["f", "m"],
    "grade": {"kind": "category", "categories": [1, 2, 3], "other": False},
    "joined": {"kind": "date", "range": ["2019-01-01", "2019-12-31"]},
    "note": {"kind": "left out"},
}


@pytest.fixture(autouse=True)
def quick_fits(monkeypatch):
    monkeypatch.setattr(_points, "N_STEPS", 5)
    monkeypatch.setattr(_points, "FEWEST_STEPS", 5)
    monkeypatch.setattr(_points, "N_FITS", 1)


@pytest.fixture
def people(tmp_path):
    """A CSV of 2,000 people, one row of which may be another, and a codebook."""

    def write(**changes):
        rng = np.random.default_rng(0)
        n = 2000
        sex = rng.choice(["f", "m"], n)
        columns = {
            "age": [str(a) if a > 20 else "" for a in rng.integers(18, 80, n)],
            "town": np.where(rng.random(n) < 0.7, "north", "south").tolist(),
            "sex": sex.tolist(),
            "pay": [
                f'"${x:,.2f}"' for x in rng.normal(30_000, 4_000, n) * (sex == "m")
            ],
            "grade": [str(1 + i % 3) for i in range(n)],
            "joined": [f"{d}/6/2019" for d in rng.integers(1, 29, n)],
            "empty": [""] * n,
            "note": ["x"] * n,
        }
        for name, change in changes.items():
            columns[name][3] = change
        path = tmp_path / f"people{len(changes)}.csv"
        rows = map(",".join, zip(*columns.values(), strict=True))
        path.write_text("\n".join([",".join(columns), *rows]) + "\n")
        return str(path)

    (tmp_path / "book.json").write_text(json.dumps(BOOK))
    return write


def synthesize(tmp_path, *arguments):
    return main(["synthesize", *arguments, "--out", str(tmp_path / "out.csv")])


def test_a_table_of_nobody_is_like_the_one_of_people(people, tmp_path, capsys):
    book = ["--codebook", str(tmp_path / "book.json"), "--sensitive", "sex"]
    assert synthesize(tmp_path, people(), *book, "--seed", "0", "--epsilon", "3") == 0
    said = capsys.readouterr().out
    drawn = pd.read_csv(tmp_path / "out.csv", parse_dates=["joined"])
    report = (tmp_path / "out.md").read_text()
    # What the codebook leaves out is not drawn; an empty column that it does not
    # name is, as that it is empty is not public.
    assert list(drawn) == ["age", "town", "sex", "pay", "grade", "joined", "empty"]
    assert len(drawn) == 2000 and "2,000 synthetic rows written" in said
    assert drawn["age"].between(17, 90).sum() == drawn["age"].notna().sum() > 1800
    assert drawn["age"].isna().mean() == pytest.approx(3 / 62, abs=0.03)
    # Whole numbers are written as such, though gaps make them floats for pandas.
    cells = pd.read_csv(tmp_path / "out.csv", dtype=str)["age"].dropna()
    assert cells.str.isdecimal().all()
    assert set(drawn["town"].value_counts().index[:2]) == {"north", "south"}
    assert set(drawn["sex"].dropna()) <= {"f", "m", "other"}
    assert set(drawn["grade"].dropna()) == {1, 2, 3}
    assert drawn["joined"].between("2019-06-01", "2019-06-28").mean() > 0.8
    assert (drawn["pay"] == 0).mean() == pytest.approx(0.5, abs=0.1)
    assert drawn["empty"].isna().mean() > 0.9
    # Of the group, and of what had to be read: 3/6 is in March or in June.
    assert "One-way tables by sex" in report and "- f: " in report
    fact = "the order of day and month (--dates)"
    assert fact in report and "Conditional on facts read from the data" in said
    assert fact in said.replace("\n", " ") and "study only" in report
    more = ["--dates", "day-first", "--rows", "7", "--rows-per-person", "4"]
    more += ["--target", "pay"]
    assert synthesize(tmp_path, people(), *book, *more, "--force") == 0
    said = capsys.readouterr().out
    assert len(pd.read_csv(tmp_path / "out.csv")) == 7
    report = (tmp_path / "out.md").read_text()
    assert "Conditional on" not in said and "study only" not in said
    for text in (said.replace("\n", " "), report):
        assert "a person has at most 4" in text and fact not in text
    declared = report.partition("Declared as public:")[2]
    assert "'role': 'target'" in declared and "'role': 'group'" in declared
    assert "'range': [17, 90]" in declared and "the codebook (see the report)" in said


@pytest.mark.parametrize(
    ("listed", "drawn"), [([0, 1], {"0", "1"}), ([False, True], {"no", "yes"})]
)
def test_a_flag_that_is_listed_as_numbers_is_drawn_as_numbers(tmp_path, listed, drawn):
    """These lists are equal to Python; the other one stands for no and yes."""
    path, book = tmp_path / "people.csv", tmp_path / "flags.json"
    book.write_text(json.dumps({"paid": {"kind": "flag", "categories": listed}}))
    path.write_text("paid,sex\n" + "0,f\n1,m\n" * 300)
    assert synthesize(tmp_path, str(path), "--codebook", str(book)) == 0
    paid = pd.read_csv(tmp_path / "out.csv", dtype=str)["paid"]
    assert {*paid.dropna()} == drawn


def test_of_columns_without_frequent_texts_options_are_told(tmp_path, capsys):
    """Not the function that reads money and dates, which are read by then."""
    path = tmp_path / "people.csv"
    rows = [f"n{i},{'fm'[i % 2]},${i % 90}.50" for i in range(2000)]
    path.write_text("\n".join(["remark,sex,pay", *rows]) + "\n")
    assert synthesize(tmp_path, str(path), "--epsilon", "3") == 0
    said = " ".join(capsys.readouterr().out.split())
    told = "the kind in the codebook: a codebook lists categories, and --drop leaves"
    assert (
        "Of the column 'remark' nearly all" in said and f"{told} columns out." in said
    )
    assert "parse_cells" not in said and "Of the columns" not in said


def test_what_cannot_be_drawn_gets_one_sentence_and_no_budget(people, tmp_path, capsys):
    path, book = people(), str(tmp_path / "book.json")
    (tmp_path / "holes.json").write_text(
        '{"age": {"kind": "number", "range": [17, 90], "missing": false}}'
    )
    (tmp_path / "none.json").write_text('{"a": {"kind": "left out"}}')
    (tmp_path / "none.csv").write_text("a\n1\n2\n")
    (tmp_path / "there.md").write_text("mine")
    for arguments, says in (
        ([path, "--drop", "sexe"], "no column 'sexe'"),
        ([path, "--sensitive", "sexe"], "no column 'sexe'"),
        ([path, "--sensitive", "sex", "--drop", "sex"], "keep both"),
        ([path, "--codebook", book, "--sensitive", "note"], "leaves out"),
        ([path, "--codebook", str(tmp_path / "holes.json")], "rules out"),
        ([str(tmp_path / "none.csv"), "--codebook", str(tmp_path / "none.json")], "No"),
        ([path, "--report", str(tmp_path / "there.md")], "there already"),
        ([path, "--report", str(tmp_path / "r.pdf")], "must end in .md"),
        ([path, "--report", path, "--force"], "is read by this call"),
        (["nowhere.csv"], "no file"),
    ):
        with recording() as seen:
            assert synthesize(tmp_path, *arguments) == 2, arguments
        error = capsys.readouterr().err.strip()
        assert says in error and "\n" not in error, error
        assert seen.crossings == [] and not (tmp_path / "out.csv").exists()
    for n_rows in ("0", "10000001"):
        with pytest.raises(SystemExit), recording() as seen:
            synthesize(tmp_path, path, "--rows", n_rows)
        assert f"in [1, 10000000], got {n_rows}" in capsys.readouterr().err
        assert seen.crossings == []
    with pytest.raises(SystemExit):
        synthesize(tmp_path, path, "--epsilon", "nan")
    # What the generator refuses, and what it warns of.
    small = tmp_path / "small.csv"
    small.write_text("person_id,b\n1,5\n2,7\n")
    capsys.readouterr()
    assert synthesize(tmp_path, str(small)) == 0
    said = capsys.readouterr().out
    assert "'person_id' tells persons apart" in said
    assert "cannot be told what the columns" in said


@pytest.mark.parametrize(
    "changes",
    [
        {"age": "1e308", "town": "13/25/2001", "sex": "?", "empty": "x"},
        {"age": "nan", "town": "True", "pay": "$5", "joined": "5/6/2019"},
        {"empty": "x"},  # the only cell of the target
    ],
)
def test_a_record_changes_what_leaves_through_releases_only(
    people, tmp_path, capsys, changes
):
    """With what was released of one table the other gives the same files and words."""
    arguments = ["--codebook", str(tmp_path / "book.json"), "--dates", "day-first"]
    arguments += ["--force", "--seed", "0", "--target", "empty"]

    def leaving(table, replayed=None):
        with recording(replayed) as seen:
            assert synthesize(tmp_path, table, *arguments) == 0
        files = [(tmp_path / f"out.{end}").read_text() for end in ("csv", "md")]
        return seen, [*files, capsys.readouterr().out]

    first, files = leaving(people())
    second, again = leaving(people(**changes), first)
    assert files == again
    pairs = list(zip(first.crossings, second.crossings, strict=True))
    assert any((one.exact != other.exact).any() for one, other in pairs)


def test_a_blank_row_is_no_record_and_the_guarantee_says_so(tmp_path, capsys):
    """Files end in rows of separators, so their number is not hidden."""
    assumed = "a row without any value is no record"
    rows = "a,b\n" + "1,x\n2,y\n" * 20
    for ending in ("", ",\n,\n"):
        (tmp_path / "rows.csv").write_text(rows + ending)
        assert synthesize(tmp_path, str(tmp_path / "rows.csv"), "--force") == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "40 synthetic rows" in said and assumed in said
        assert "columns=['a', 'b'];" in said
        assert assumed in (tmp_path / "out.md").read_text()
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.0, None] * 20, "b": ["x", None] * 20})
    frame.to_parquet(tmp_path / "rows.parquet")
    assert synthesize(tmp_path, str(tmp_path / "rows.parquet"), "--force") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "40 synthetic rows" in said and assumed not in said


def test_one_column_of_a_sheet_has_a_header(tmp_path):
    """The lines above the header were all but the last one; titles are left out."""
    pytest.importorskip("openpyxl")
    for above, names in (([], ["pay"]), ([["Staff", None]], ["pay", "sex"])):
        rows = [*above, names, *[[i % 7 for _ in names] for i in range(60)]]
        sheet = tmp_path / f"{len(names)}.xlsx"
        pd.DataFrame(rows).to_excel(sheet, index=False, header=False)
        assert synthesize(tmp_path, str(sheet), "--force") == 0
        drawn = pd.read_csv(tmp_path / "out.csv")
        assert list(drawn) == names and len(drawn) == 60


def test_columns_that_are_named_one_by_one_all_count(people, tmp_path):
    given = ["--drop", "pay", "--drop", "town", "note", "--drop", "empty"]
    given += ["--sensitive", "sex", "--sensitive", "grade"]
    assert synthesize(tmp_path, people(), *given, "--seed", "0") == 0
    assert list(pd.read_csv(tmp_path / "out.csv")) == ["age", "sex", "grade", "joined"]
    report = (tmp_path / "out.md").read_text()
    assert "by sex" in report and "by grade" in report


def test_the_argument_names_the_target_whatever_the_code_book_says(people, tmp_path):
    """Two targets were an internal error."""
    book = {**BOOK, "grade": {"categories": [1, 2, 3], "role": "target"}}
    (tmp_path / "book.json").write_text(json.dumps(book))
    arguments = ["--codebook", str(tmp_path / "book.json"), "--target", "sex"]
    assert synthesize(tmp_path, people(), *arguments) == 0


def test_the_report_is_beside_the_table(people, tmp_path):
    out, report = tmp_path / "a.txt", tmp_path / "told.md"
    assert main(["synthesize", people(), "--out", str(out), "--rows", "5"]) == 0
    assert Path(tmp_path / "a.md").exists()
    arguments = ["--report", str(report), "--force", "--rows", "5"]
    assert main(["synthesize", people(), "--out", str(out), *arguments]) == 0
    assert report.read_text().startswith("## Quality of the synthetic table")


@pytest.mark.parametrize("command", ["fit", "synthesize"])
@pytest.mark.parametrize("kind", ["number", "date"])
def test_the_last_filled_cell_of_a_column_decides_nothing(
    people, tmp_path, capsys, command, kind
):
    """Neither that the run stops, nor which columns there are."""
    book, out = tmp_path / "kinds.json", tmp_path / "out.csv"
    book.write_text(json.dumps(BOOK | {"empty": {"kind": kind}}))
    asked = ["--codebook", str(book), "--seed", "0", "--force", "--out", str(out)]
    if command == "fit":
        asked += ["--target", "pay", "--sensitive", "sex", "--bounds", "0", "50000"]
    told = []
    for cell in ("", "Müller", "3", "2019-03-04"):
        given = [people(empty=cell), *asked]
        assert main([command, *given] if command == "synthesize" else given) == 0
        said = capsys.readouterr().err
        if command == "synthesize":
            told.append((said, out.read_text().splitlines()[0]))
        else:
            found = json.loads((out / "report.json").read_text())
            assert "Müller" not in (out / "report.md").read_text()
            told.append(
                [found[key] for key in ("conditional_on", "learnt", "left_out")]
            )
    assert all(one == told[0] for one in told)
