"""Files that the command line reads and writes: models of others, links, one name."""

import io
import json
import os
import runpy
import sys
import threading
import zipfile
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from fairpriv_sklearn.__main__ import main
from fairpriv_sklearn._cli import models as _models
from fairpriv_sklearn._cli import saved, study
from fairpriv_sklearn._cli.columns import label_key
from fairpriv_sklearn._cli.words import written
from fairpriv_sklearn.preprocessing import DPTableEncoder, InputError, _text_cells

SECRET = "Secr3t"


def all_types(data):
    return pytest.importorskip("skops.io").get_untrusted_types(data=data)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A CSV of people, with a gap and a date; nobody may overwrite it."""
    rng = np.random.default_rng(3)
    n = 1500
    sex, town = rng.choice(["f", "m"], n), rng.choice(["north", "south"], n)
    age = rng.integers(18, 80, n)
    pay = np.round(1 + 0.02 * age + (sex == "m") + rng.normal(0, 0.3, n), 3)
    hired = np.where(pay > 2.5, "yes", "no")
    grade = np.array(["low", "mid", "high"])[np.digitize(pay, [2.0, 3.0])]
    lines = ["age,town,sex,since,pay,hired,grade"]
    rows = zip(age, town, sex, pay, hired, grade, strict=True)
    for i, (a, t, s, p, h, g) in enumerate(rows):
        lines.append(
            f"{a if i % 9 else ''},{t},{s},2015-{1 + i % 12:02}-03,{p},{h},{g}"
        )
    path = tmp_path_factory.mktemp("table") / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o400)
    return path


def fit(table, out, *arguments, target="pay", groups=("sex",)):
    others = {"pay", "hired", "grade"} - {target}
    asked = ["--target", target, "--sensitive", *groups, "--drop", *sorted(others)]
    return main([str(table), *asked, "--out", str(out), *map(str, arguments)])


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    pytest.importorskip("skops")
    folder = tmp_path_factory.mktemp("model")
    assert fit(table, folder / "out", "--seed", 0, "--save", folder / "m.skops") == 0
    return (folder / "m.skops").read_bytes()


@pytest.fixture
def predict(tmp_path, capsys):
    """Predict by a model of these bytes; the exit status and what is said."""
    new = tmp_path / "new.csv"
    new.write_text(f"age,town,sex,since\n30,north,f,2015-01-03\n{SECRET},x,m,never\n")

    def by(data, *arguments):
        path = tmp_path / "given.skops"
        path.write_bytes(data)
        out = ["--out", str(tmp_path / "p.csv"), "--force", *arguments]
        status = main(["predict", str(path), str(new), *out])
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err
        return status, said.out + said.err

    return by


# ----------------------------------------------------------------- models of others
def call(module, name, *arguments):
    """A file that asks skops to call a function while it is read."""
    skops = pytest.importorskip("skops.io")
    plain = skops.dumps({"format": saved.FORMAT, "model": arguments})
    archive = zipfile.ZipFile(io.BytesIO(plain))
    schema = json.loads(archive.read("schema.json"))
    schema["content"]["model"] = {
        "__class__": name,
        "__module__": module,
        "__loader__": "ConstructorFromReduceNode",
        "__id__": 10**15,
        "content": schema["content"]["model"],
    }
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as new:
        for one in archive.namelist():
            text = json.dumps(schema) if one == "schema.json" else archive.read(one)
            new.writestr(one, text)
    return changed.getvalue()


@pytest.mark.parametrize("module", ["builtins", "ours", "an import"])
def test_a_file_of_a_stranger_runs_nothing(predict, tmp_path, module):
    """Neither of Python nor of this library, where something writes files."""
    proof = tmp_path / "proof"
    text = f"open({str(proof)!r}, 'w').close()"
    words = "fairpriv_sklearn._cli.words"
    files = {
        "builtins": call("builtins", "exec", text),
        "ours": call(words, "written", str(proof), b"1"),
        "an import": call("fairpriv_sklearn_of_a_stranger", "written", str(proof)),
    }
    status, said = predict(files[module])
    assert status == 2 and "is not a model that this program has saved" in said
    assert not proof.exists()


def test_only_what_holds_numbers_is_made_of_a_file():
    only_holds = saved._only_holds
    assert only_holds("fairpriv_sklearn.linear_model._linear.DPLinearRegression")
    assert only_holds("fairpriv_sklearn.accounting._events.GaussianEvent")
    for name in (
        "_cli.words.written",  # functions
        "__main__.main",
        "privacy._store.FileStore",  # classes that open files
        "privacy._ledger.PrivacyLedger",
        "_door._journal.Journal",
        "_cli.words.Path",  # what is only imported there
        "_cli.saved.BaseEstimator",
        "_cli.saved.nothing",
    ):
        assert not only_holds(f"fairpriv_sklearn.{name}")
    for name in ("builtins.exec", "os.system", "fairpriv_sklearns.x", "print", ""):
        assert not only_holds(name)


def test_what_is_not_whole_gets_one_sentence(predict, model):
    skops = pytest.importorskip("skops.io")
    content = skops.loads(model, trusted=all_types(model))
    broken = [model[:size] for size in (0, 9, len(model) // 2, len(model) - 1)]
    broken += [skops.dumps(content["model"]), skops.dumps([]), b"\x80\x04N.", b"PK"]
    for name in content:
        without = {key: value for key, value in content.items() if key != name}
        broken.append(skops.dumps(without))
    broken.append(skops.dumps(content | {"format": "fairpriv_sklearn model 2"}))
    broken.append(skops.dumps(content | {"groups": "fm", "guarantee": "{}"}))
    for data in broken:
        status, said = predict(data)
        assert status == 2
        assert said.strip().endswith("another version: save it again.")
        assert said.count("\n") == 1
    assert predict(model)[0] == 0


def test_a_model_of_another_version_says_so(predict, model):
    """Where what it learnt then cannot be used now."""
    skops = pytest.importorskip("skops.io")
    content = skops.loads(model, trusted=all_types(model))
    del content["model"].privacy_, content["model"].estimator_
    status, said = predict(skops.dumps(content))
    assert status == 3 and "internal error" in said  # a bug of ours
    content["versions"] = "fairpriv_sklearn 0.0.1 with scikit-learn 1.2"
    status, said = predict(skops.dumps(content))
    assert status == 2 and said.count("\n") == 1
    assert "was saved by fairpriv_sklearn 0.0.1 with scikit-learn 1.2" in said


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("pay", ["--base-model", "network"]),
        ("pay", ["--blind"]),
        ("pay", ["--blind", "--fairness-tolerance", "auto"]),
        ("pay", ["--epsilon", "0.2", "--bounds", "0", "5", "--groups", "f", "m"]),
        ("hired", []),
        ("hired", ["--base-model", "network", "--blind"]),
        ("hired", ["--constraint", "equalized_odds", "--blind"]),
        ("hired", ["--fairness-tolerance", "0.2", "--blind"]),
        ("grade", ["--epsilon", "8"]),
        ("grade", ["--blind", "--epsilon", "8", "--constraint", "equalized_odds"]),
    ],
)
def test_every_model_that_is_saved_can_be_read(
    table, tmp_path, predict, target, arguments
):
    pytest.importorskip("skops")
    path = tmp_path / "m.skops"
    assert fit(table, tmp_path, *arguments, "--save", path, target=target) == 0
    status, said = predict(path.read_bytes())
    assert status == 0 and "2 predictions written" in said, said


def test_a_group_that_a_model_does_not_know(model, predict, tmp_path, monkeypatch):
    """Its rows are of the others where these are a group, and the remark says so."""
    skops, asked = pytest.importorskip("skops.io"), []
    content = skops.loads(model, trusted=all_types(model))
    other = content["groups"][-1]
    assert content["groups"] == ["f", "m", other]

    def answer(self, X, sensitive_features):
        asked.append(list(sensitive_features))
        return np.array([-99.0, 99.0])

    monkeypatch.setattr(type(content["model"]), "predict", answer)
    for groups, label, told in (
        (["f", other], other, f"counted as {other!r}"),
        (["f", "w"], "m", "treated like everybody together"),
    ):
        status, said = predict(skops.dumps({**content, "groups": groups}))
        assert status == 0 and asked.pop() == ["f", label]
        assert f"! 1 row of a group that the model does not know, {told}\n" in said
        # what a model says is within the range of the target, as it was learnt
        answers = (tmp_path / "p.csv").read_text().splitlines()[1:]
        assert [float(one.split(",")[-1]) for one in answers] == content["bounds"]
    assert "does not know" not in predict(model)[1] and asked.pop() == ["f", "m"]


@pytest.mark.parametrize("template", ["", ', "categories": [false, true]'])
@pytest.mark.parametrize("words", [("nein", "ja"), ("False", "true"), ("0", "1")])
def test_a_model_reads_a_flag_as_it_learnt_it(tmp_path, capsys, words, template):
    """All of its cells were missing to a saved model, but for "no" and "yes"."""
    pytest.importorskip("skops")
    rng = np.random.default_rng(0)
    told, sex = rng.integers(2, size=1500), rng.choice(["f", "m"], 1500)
    pay = np.round(1 + 2 * told + rng.normal(0, 0.1, 1500), 3)
    rows = zip(np.array(words)[told], sex, pay, strict=True)
    table, book = tmp_path / "people.csv", tmp_path / "book.json"
    table.write_text("flag,sex,pay\n" + "".join(f"{f},{s},{p}\n" for f, s, p in rows))
    flag = f'{{"kind": "flag"{template}}}'
    book.write_text(f'{{"flag": {flag}, "sex": ["f", "m"], "pay": [0, 5]}}')
    asked = ["--target", "pay", "--sensitive", "sex", "--codebook", str(book)]
    model, new = str(tmp_path / "m.skops"), tmp_path / "new.csv"
    asked += ["--epsilon", "8", "--save", model, "--out", str(tmp_path / "out")]
    assert main([str(table), *asked]) == 0
    assert main(["predict", model, str(table), "--out", str(new)]) == 0
    assert "as missing" not in capsys.readouterr().out
    answers = np.genfromtxt(new, delimiter=",", skip_header=1)[:, -1]
    assert answers[told == 1].mean() > 1 + answers[told == 0].mean()


# ------------------------------------------------------------- what is written over
def test_what_is_read_is_never_written_over(table, model, tmp_path, capsys):
    """Not with --force and not through a link: it may be the only copy."""
    (tmp_path / "m.skops").write_bytes(model)
    (tmp_path / "link").symlink_to(table)
    os.link(table, tmp_path / "twin")
    book = tmp_path / "book.json"
    book.write_text('{"age": [18, 80]}')
    before = table.read_bytes(), book.read_bytes()
    given = ["--codebook", book]
    for path in (table, tmp_path / "link", tmp_path / "twin", book):
        for option in ("--save", "--card"):
            assert fit(table, tmp_path / "o", *given, option, path, "--force") == 2
            assert "is read by this call" in capsys.readouterr().err
    for path in (table, tmp_path / "link"):
        arguments = ["--write-codebook", str(path), "--force"]
        assert main([str(table), *arguments]) == 2
        arguments = ["--out", str(path), "--force"]
        assert main(["predict", str(tmp_path / "m.skops"), str(table), *arguments]) == 2
    arguments = ["--out", str(tmp_path / "m.skops"), "--force"]
    assert main(["predict", str(tmp_path / "m.skops"), str(table), *arguments]) == 2
    # A table that is called as the report is.
    (tmp_path / "report.json").write_bytes(before[0])
    assert fit(tmp_path / "report.json", tmp_path, "--force") == 2
    assert capsys.readouterr().err.count("is read by this call") == 6
    assert (tmp_path / "report.json").read_bytes() == before[0]
    assert (table.read_bytes(), book.read_bytes()) == before
    assert (tmp_path / "m.skops").read_bytes() == model


def test_two_things_are_not_written_to_one_file(table, tmp_path, capsys):
    pytest.importorskip("skops")
    one, out = tmp_path / "one", tmp_path / "out"
    for arguments in (
        ["--save", one, "--card", one],
        ["--save", one, "--card", tmp_path / "." / "out" / ".." / "one"],
        ["--save", out / "report.json"],
        ["--card", out / "report.md"],
        ["--save", out / "card.md"],
    ):
        out.mkdir(exist_ok=True)
        assert fit(table, out, *arguments) == 2
        assert "Two things would be written" in capsys.readouterr().err
    assert not one.exists() and not list(out.iterdir())


def test_what_cannot_be_written_is_known_before_the_fit(
    table, tmp_path, capsys, monkeypatch
):
    def no_fit(*args, **kwargs):
        raise AssertionError("a fit")

    monkeypatch.setattr("fairpriv_sklearn._cli.study.run_study", no_fit)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "file")
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "out"
    for arguments in (
        ["--save", tmp_path / "dangling"],
        ["--save", tmp_path / "file" / "m.skops"],
        ["--card", tmp_path, "--force"],
        ["--out", tmp_path / "file", "--force"],
        ["--out", tmp_path / "file" / "folder" / "deeper"],
        ["--save", tmp_path / f"{'m' * 300}.skops"],
        ["--save", out / f"{'m' * 300}.skops"],
        ["--out", tmp_path / ("o" * 300)],
        ["--out", tmp_path / "new" / ("o" * 300) / "deeper"],
    ):
        assert fit(table, out, *arguments) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "report it" not in said
    (tmp_path / "reports" / "report.md").mkdir(parents=True)
    assert fit(table, tmp_path / "reports", "--force") == 2
    assert "is no file" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine" and not out.exists()

    def missing():
        raise InputError("Saved models need skops")

    monkeypatch.setattr(saved, "needed_skops", missing)
    assert fit(table, out, "--save", tmp_path / "m.skops") == 2
    assert "need skops" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "synthesize", "predict", "book"])
def test_a_folder_that_lets_nobody_write_is_known_before_the_table_is_read(
    table, tmp_path, capsys, monkeypatch, command
):
    def nothing(*args, **kwargs):
        raise AssertionError("the table is read")

    closed = Path("/proc")  # to the superuser as well
    if not closed.is_dir():
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
    for name in ("table.load_table", "synthetic.run_synthesize", "saved.run_predict"):
        monkeypatch.setattr(f"fairpriv_sklearn._cli.{name}", nothing)
    out, data = str(tmp_path / "new.csv"), str(table)
    several = {
        "fit": [["--out", closed / "a" / "b"], ["--card", closed / "c.md"]],
        "synthesize": [["--out", closed / "s.csv"], ["--report", closed / "s.md"]],
        "predict": [["--out", closed / "p.csv"]],
        "book": [["--write-codebook", closed / "book.json"]],
    }
    given = {
        "fit": [data, "--target", "pay", "--sensitive", "sex"],
        "synthesize": ["synthesize", data, "--out", out],
        "predict": ["predict", data, data],
        "book": [data],
    }
    for arguments in several[command]:
        assert main([*given[command], *map(str, arguments)]) == 2
        said = capsys.readouterr().err
        assert "cannot be written" in said and said.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if path != closed]


# ----------------------------------------------------------------- whole or nothing
def full_disk(path, data):
    """A write that ends after two bytes."""
    with open(path, "wb") as file:
        file.write(data[:2])
    raise OSError(28, "No space left on device")


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path, link = tmp_path / "model", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(InputError, match="No space left on device"):
            written(str(path), b"new")
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 2
    written(str(link), b"new")
    assert path.read_bytes() == b"new" and link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert len(list(tmp_path.iterdir())) == 2


def test_a_report_replaces_an_older_one_whole_and_the_model_is_saved_first(
    table, tmp_path, capsys, monkeypatch
):
    pytest.importorskip("skops")
    out, model = tmp_path / "out", tmp_path / "m.skops"
    assert fit(table, out, "--seed", 0) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    write = Path.write_bytes

    def full_at_the_card(path, data):
        (full_disk if data.startswith(b"# Privacy card") else write)(path, data)

    monkeypatch.setattr(Path, "write_bytes", full_at_the_card)
    capsys.readouterr()
    assert fit(table, out, "--seed", 1, "--save", model) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert model.exists()


def test_writers_at_one_time_leave_one_whole_file(tmp_path):
    path = tmp_path / "model"
    contents = [bytes([65 + i]) * 200_000 for i in range(6)]
    threads = [
        threading.Thread(target=written, args=(str(path), data)) for data in contents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_the_program_names_what_it_writes(table, tmp_path, capsys):
    asked = ["--card", tmp_path / "c.html"]
    assert fit(table, tmp_path / "out", *asked, target="hired") == 0
    assert str(tmp_path / "c.html") in capsys.readouterr().out.replace("\n", "")
    assert not (tmp_path / "out" / "card.md").exists()
    # Nothing of a function that nobody gave: this program's own puts all in one group.
    for path in (tmp_path / "c.html", tmp_path / "out" / "report.json"):
        assert "sensitive_features" not in path.read_text()


@pytest.mark.parametrize("groups", [[], ["1", "2"], ["1,0", "2,0"], ["1.0", "2.0"]])
@pytest.mark.parametrize("book", [None, [1, 2], ["1,0", "2,0"]])
def test_whole_groups_with_a_decimal_comma_are_whole(tmp_path, groups, book):
    """As pandas writes a column of numbers with a gap, for Excel in most of Europe."""
    pytest.importorskip("skops")
    rng = np.random.default_rng(0)
    rows = [
        f"{a};{1 + s},0;{'vwxy'[s + 2 * int(a > 50)]},00;{a * 0.5 + s:.1f}".replace(
            ".", ","
        )
        for a, s in zip(rng.integers(18, 80, 400), rng.integers(0, 2, 400), strict=True)
    ]
    table = tmp_path / "europe.csv"
    table.write_text("\n".join(["age;sex;town;pay", *rows]) + "\n")
    out = tmp_path / "out"
    arguments = [str(table), "--target", "pay", "--sensitive", "sex", "--seed", "0"]
    arguments += ["--task", "regression", "--bounds", "0", "50", "--out", str(out)]
    arguments += ["--groups", *groups] if groups else []
    if book is not None:
        path = tmp_path / "book.json"
        column = {"kind": "category", "categories": book}
        path.write_text(json.dumps({"sex": column}))
        arguments += ["--codebook", str(path)]
    model, predicted = str(tmp_path / "m.skops"), str(tmp_path / "p.csv")
    assert main([*arguments, "--save", model]) == 0
    found = json.loads((out / "report.json").read_text())
    assert set(found["group_sizes"]) == {"1", "2"}
    assert sum(found["group_sizes"].values()) + found["n_test"] == 400
    assert main(["predict", model, str(table), "--out", predicted]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 401


@pytest.mark.parametrize(
    "cell, key",
    [
        ("1,0", "1"),
        ("-3,00", "-3"),
        ("1,000", "1,000"),
        ("01,0", "01,0"),
        ("a,0", "a,0"),
    ],
)
def test_thousands_and_codes_are_no_whole_numbers(cell, key):
    assert label_key(cell) == key


@pytest.mark.parametrize(("mark", "of"), [("%", "1/100"), ("k", "1000"), ("M", "1e6")])
def test_a_share_or_thousands_are_the_nearest_number(mark, of):
    """12.3% was .12300000000000001: no number of three decimals, nor that of 0.123."""
    for i in range(0, 10_000, 7):
        for text in (f"{i / 10:.1f}", f"{i / 1000:.3f}", f"{i}", f"{i}e-2"):
            exact = float(Fraction(text) * Fraction(of))
            assert _text_cells.number(f"{text}{mark}") == exact, text
            assert _text_cells.number(f"(${text} {mark})") == -exact, text
            if "e" not in text:
                comma = text.replace(".", ",")
                assert _text_cells.number(f"{comma} {mark}", ",") == exact, text


@pytest.mark.parametrize("form", _text_cells._NAMED_DATES)
def test_a_date_with_a_named_month_is_read_in_every_form(form):
    for year, month, of_month in ((2024, 5, 3), (1999, 12, 31), (2001, 9, 10)):
        when = datetime(year, month, of_month)
        for text in (
            when.strftime(form),
            when.strftime(form).replace(" 0", " ").upper(),
        ):
            for written_so in (text, f" {text} ", text.replace(" ", "  ")):
                assert _text_cells.day(written_so) == when


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        *(("7:05", (7, 5)), ("07:05:09", (7, 5, 9)), ("7:05 PM", (19, 5))),
        *(("12:30:01 am", (0, 30, 1)), ("07:05:09.5", (7, 5, 9, 500_000))),
        ("07:05 +02:00", (5, 5)),
    ],
)
def test_a_date_may_have_a_clock(clock, expected):
    assert _text_cells.day(f"2024-05-03 {clock}") == datetime(2024, 5, 3, *expected)
    assert _text_cells.day("2024-05-03 seven") is None


def test_names_and_addresses_are_not_tried_in_the_forms_of_dates(monkeypatch):
    """Ten forms for each of them, five times, were nine tenths of the time."""
    monkeypatch.delattr(_text_cells, "_in_form")
    texts = ["Apollo 13", "12 Rose Street", "5-18 years", "A-12/7", "1936, February"]
    assert [_text_cells.day(text) for text in texts] == [None] * len(texts)
    assert _text_cells.day("2024-05-03 07:05:09") == datetime(2024, 5, 3, 7, 5, 9)


def test_ctrl_c_while_the_program_starts_is_one_line(monkeypatch, capsys):
    class Stopped:
        def find_spec(self, name, path, target=None):
            if name == "fairpriv_sklearn._cli.models":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "fairpriv_sklearn._cli.models")
    monkeypatch.setattr(sys, "meta_path", [Stopped(), *sys.meta_path])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(sys.modules[main.__module__].__file__, run_name="__main__")
    assert left.value.code == 130
    assert capsys.readouterr().err == "\nfairpriv_sklearn: stopped\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
@pytest.mark.parametrize("buffered", [True, False])
def test_standard_output_on_a_full_disk(buffered, table, tmp_path, monkeypatch, capsys):
    """What was asked for is in its file, and a sentence says what is not to be seen."""
    book = tmp_path / "book.json"
    full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    stream = io.TextIOWrapper(io.BufferedWriter(full), write_through=not buffered)
    monkeypatch.setattr(sys, "stdout", stream)
    assert main([str(table), "--write-codebook", str(book)]) == 1
    stream.flush()  # as Python does at its exit
    assert capsys.readouterr().err == (
        "fairpriv_sklearn: standard output cannot be written: No space left on device\n"
    )
    assert json.loads(book.read_text())
    stream.close()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"base_model": "network"},
        {"blind": True},
        {"constraint": "equalized_odds"},
        {"epsilon": 3.0, "delta": 1e-9},
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
@pytest.mark.parametrize("task", [_models.regression, _models.classification])
def test_constants_and_their_repair_keep_the_total(task, given):
    """With few rows the encoders spend nothing; a constant tells all of an epsilon."""
    if task is _models.regression and "constraint" in given:
        return
    told = {"base_model": "linear", "blind": False, "constraint": "demographic_parity"}
    told |= {"epsilon": 1.0, "delta": 1e-5, "seed": None, "fairness_tolerance": 0.0}
    args = SimpleNamespace(**{**told, **given})
    encoders = {"encoder": DPTableEncoder(), "lists": DPTableEncoder()}
    _, models = task(SimpleNamespace(target="y"), _models.UNKNOWN, args)
    encoders, settings = _models.with_shares(encoders, models, args, 40)
    assert all(encoder.min_records > 40 for encoder in encoders.values())
    rng = np.random.default_rng(0)
    X, codes = rng.uniform(size=(40, 2)) / 2, np.array(["a", "b"])[np.arange(40) % 2]
    y = X[:, 0] if task is _models.regression else codes
    for name in ("private", "private and fair"):
        groups = {"sensitive_features": codes} if name != "private" else {}
        model = clone(models[name]).set_params(**settings[name]).fit(X, y, **groups)
        spent = model.privacy_.epsilon_at(args.delta)
        assert 0.98 * args.epsilon < spent <= args.epsilon


def test_of_many_columns_the_reason_is_said_whole(tmp_path, capsys):
    """Its beginning was left out with the names in the middle."""
    rng = np.random.default_rng(0)
    names = [f"a column of words {i}" for i in range(30)]
    words = np.char.add("w", rng.integers(0, 500, (1500, 30)).astype(str))
    rows = zip(rng.integers(0, 2, 1500), rng.normal(size=1500), words, strict=True)
    lines = [f"{'fm'[s]},{p:.3f},{','.join(w)}" for s, p, w in rows]
    path = tmp_path / "people.csv"
    path.write_text("\n".join([f"sex,pay,{','.join(names)}", *lines]) + "\n")
    asked = ["--target", "pay", "--task", "regression", "--sensitive", "sex"]
    asked += ["--epsilon", "3", "--out", str(tmp_path / "out")]
    assert main([str(path), *asked]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "'a column of words 0', 'a column of words 1'" in said
    told = "only a hash of the text and gaps count, as there is no value in enough rows"
    assert f"{told} for this epsilon; --drop leaves them out" in said
    assert "Of the columns 'a column of words 0'" in said


@pytest.mark.parametrize(
    ("gap", "notes", "verb", "why"),
    [
        (0.35, [], None, ""),
        (0.375, [], "hardly treats", "noise"),
        (0.42, [], "does not treat", "noise"),
        # Not repaired is what the note says; a larger gap is not.
        (0.42, ["The repair stood back."], None, ""),
        (0.46, ["The repair stood back."], "does not treat", "it is not repaired"),
        # Noise and sampling were said to be larger than a constant's gap.
        (0.3, [], "does not treat", "that one answers the same for everybody."),
    ],
)
def test_a_gap_that_shrinks_by_little_is_not_said_to_stay(gap, notes, verb, why):
    """It was: "does not treat the groups more alike (gap 0.3750 against 0.4103)"."""
    of_private = 0.0 if "everybody" in why else 0.41

    def result(gap):
        told = {"error": 0.1, "error_se": 0.01, "n_predicted": 1 + (gap > 0)}
        told["name"] = "private"
        return SimpleNamespace(gap=gap, gap_is_seen=True, gap_by_chance=0.1, **told)

    said = study.after_fitting(
        SimpleNamespace(
            results=[result(0.4), result(of_private), result(gap)],
            constant=SimpleNamespace(error=0.5),
            model=SimpleNamespace(repair_notes_=notes),
            measures=SimpleNamespace(error_name="error"),
            table=SimpleNamespace(target="y", task="classification"),
            share_clipped=0.0,
            errs_more=lambda other: False,
            test_labels=np.repeat(["a", "b"], 200),
            group_sizes={"a": (600, 200), "b": (600, 200)},
            rough=[],
        )
    )
    assert said[: len(notes)] == notes
    assert len(said) == len(notes) + (verb is not None) + (of_private == 0)
    if verb:
        of = f"{verb} the groups more alike than the private one (gap {gap:.4f} "
        of += f"against {of_private:.4f})"
        assert f"The fair model {of}: {why}" in said[len(notes)]


def test_names_that_differ_in_capitals_only_are_told(tmp_path, capsys):
    """Groups Male and MALE were compared with each other, and nothing said so."""
    rng = np.random.default_rng(0)
    sex, told = rng.choice(["f", "m", "M"], 400), rng.choice(["No", "Yes", "yes"], 400)
    cells = zip(sex, rng.normal(size=400), told, strict=True)
    rows = [f"{s},{p:.2f},{t}" for s, p, t in cells]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["sex,pay,told", *rows]) + "\n")
    asked = ["--sensitive", "sex", "--out", str(tmp_path / "out"), "--force"]
    assert main([str(path), "--target", "told", *asked]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Groups that differ in capitals only are not the same here: M, m." in said
    assert (
        "Classes that differ in capitals only are not the same here: Yes, yes." in said
    )
    assert main([str(path), "--target", "pay", "--task", "regression", *asked]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Groups that differ in capitals" in said and "Classes that" not in said
