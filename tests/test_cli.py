"""The command line as a stranger would run it, with good and bad input."""

import json
import re
import subprocess
import sys
import unicodedata
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from _recording import recording
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import fairpriv_sklearn
from fairpriv_sklearn.__main__ import main, parse
from fairpriv_sklearn._cli import learnt as _learnt
from fairpriv_sklearn._cli import models as _models
from fairpriv_sklearn._cli import study
from fairpriv_sklearn._cli.columns import (
    Parsed,
    codes_note,
    outside_note,
    persons_note,
    tells_persons_apart,
)
from fairpriv_sklearn._cli.models import Measures
from fairpriv_sklearn._cli.report import _draw_rates
from fairpriv_sklearn._cli.study import Result
from fairpriv_sklearn._cli.table import load_table, simulated_table
from fairpriv_sklearn._shared.figures import families
from fairpriv_sklearn.accounting import compose_epsilon
from fairpriv_sklearn.audit._outcome import leaf_differences, leaves_of
from fairpriv_sklearn.preprocessing import Column, DPTableEncoder
from fairpriv_sklearn.preprocessing._reader import _separator, read_table
from fairpriv_sklearn.privacy._steps import expected_guarantee

pytest.importorskip("matplotlib").use("Agg")

ERRORS = "fairpriv_sklearn: error: "


@pytest.fixture
def people(tmp_path):
    """A CSV of 3000 people and a function that writes a changed copy."""
    rng = np.random.default_rng(0)
    n = 3000
    sex = rng.choice(["f", "m"], size=n)
    # Where people live tells much of their sex here: models can discriminate by it.
    town = np.where((sex == "m") ^ (rng.random(n) < 0.1), "north", "south")
    age = rng.integers(18, 80, size=n)
    salary = np.round(1 + 0.02 * age + (sex == "m") + rng.normal(0, 0.3, n), 3)
    columns = {
        "age": age.astype(str),
        "town": town,
        "sex": sex,
        "salary": salary.astype(str),
        "hired": np.where(salary > 2.5, "yes", "no"),
    }

    def write(**changes):
        table = {name: list(column) for name, column in columns.items()}
        for name, change in changes.items():
            table[name][3] = change
        path = tmp_path / f"people{len(changes)}.csv"
        rows = [",".join(table), *map(",".join, zip(*table.values(), strict=True))]
        path.write_text("\n".join(rows) + "\n")
        return str(path)

    return write


@pytest.fixture
def pixels():
    """Asks for pictures that can be looked at."""


@pytest.fixture(autouse=True)
def no_pixels(request, monkeypatch):
    """Pictures are laid out and not painted, which would be a fourth of each run."""
    if "pixels" not in request.fixturenames:
        monkeypatch.setattr(
            "matplotlib.figure.Figure.savefig",
            lambda figure, stream, **_: figure.draw_without_rendering(),
        )


def run(tmp_path, *arguments):
    return main([*arguments, "--seed", "0", "--out", str(tmp_path / "out")])


def report(tmp_path):
    return json.loads((tmp_path / "out" / "report.json").read_text())


def test_main_job(tmp_path, capsys, pixels):
    assert run(tmp_path) == 0
    out = capsys.readouterr().out
    models = report(tmp_path)["models"]
    assert [m["name"] for m in models] == ["plain", "private", "private and fair"]
    plain, private, fair = models
    assert fair["gap"] < 0.3 * plain["gap"]
    assert plain["epsilon"] == "inf"
    assert private["epsilon"] <= 1.0 and fair["epsilon"] <= 1.0
    assert all(m["epsilon"] == m["epsilon_if_public"] for m in (plain, private, fair))
    assert fair["error"] < 2 * plain["error"]
    for model in models:
        assert f"{model['error']:.4f}" in out and f"{model['gap']:.4f}" in out
    assert (tmp_path / "out" / "report.png").stat().st_size > 10_000
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.index("For the data holder") < text.index("| plain |")
    assert "Conditional on" not in text
    card = (tmp_path / "out" / "card.md").read_text()
    assert card.startswith("# Privacy card:") and "card.md" in out
    assert "user_guide/fair_regression_proofs.html#score-counts" in card


@pytest.mark.parametrize(
    ("target", "task"), [("salary", "regression"), ("hired", "classification")]
)
def test_csv(people, tmp_path, capsys, target, task):
    other = {"salary": "hired", "hired": "salary"}[target]
    status = run(
        tmp_path, people(), "--target", target, "--sensitive", "sex", "--drop", other
    )
    assert status == 0
    data = report(tmp_path)
    assert data["task"] == task
    assert data["models"][2]["gap"] < 0.3 * data["models"][0]["gap"]
    # What was read from the data is said, on the screen and in the report.
    assert data["conditional_on"] == ["the task"]
    assert "Conditional on facts read from the data" in capsys.readouterr().out
    # What was learnt with noise is within the epsilon.
    learnt = {"the range of age", "the categories of town", "the groups of sex"}
    assert learnt <= set(data["learnt"])
    assert all(m["epsilon_if_public"] <= 1.0 for m in data["models"][1:])
    # Who looks at one number is not misled.
    for model in data["models"][1:]:
        assert model["epsilon"] == model["guarantee"]["epsilon"] == "inf"
        assert model["epsilon_if_public"] == model["guarantee"]["epsilon_if_public"]
    # One line for all columns.
    page = (tmp_path / "out" / "report.md").read_text()
    kinds = [line for line in page.splitlines() if line.startswith("- the kind of ")]
    assert len(kinds) == 1 and {"age", "town"} <= set(
        kinds[0].removeprefix("- the kind of ").split(", ")
    )


def test_public_facts_make_epsilon_unconditional(people, tmp_path):
    codebook = tmp_path / "codebook.json"
    codebook.write_text(json.dumps({"age": [18, 80], "town": ["north", "south"]}))
    arguments = ["--target", "salary", "--sensitive", "sex", "--groups", "f", "m"]
    arguments += ["--bounds", "0", "6", "--codebook", str(codebook), "--drop", "hired"]
    assert run(tmp_path, people(), *arguments) == 0
    assert report(tmp_path)["conditional_on"] == []


def test_codebook_names_classes_and_the_range_of_a_target(people, tmp_path):
    codebook = tmp_path / "codebook.json"
    codebook.write_text(json.dumps({"hired": ["no", "yes"], "salary": [0, 6]}))
    for target in ("hired", "salary"):
        arguments = ["--target", target, "--sensitive", "sex", "--drop", "town"]
        assert run(tmp_path, people(), *arguments, "--codebook", str(codebook)) == 0
        facts = report(tmp_path)["conditional_on"]
        assert not any(target in fact for fact in facts)


def test_category_outside_the_codebook_counts_as_none(people, tmp_path):
    codebook = tmp_path / "codebook.json"
    codebook.write_text(json.dumps({"town": ["north", "east"]}))
    arguments = ["--target", "salary", "--sensitive", "sex", "--drop", "hired"]
    assert run(tmp_path, people(), *arguments, "--codebook", str(codebook)) == 0


def test_text_with_many_values_is_left_out(tmp_path):
    path = tmp_path / "names.csv"
    rows = [f"{i % 40},{'fm'[i % 2]},name{i},{i % 2 + i % 7 / 10}" for i in range(400)]
    path.write_text("\n".join(["age,sex,name,salary", *rows]) + "\n")
    base = ["--target", "salary", "--sensitive", "sex", "--task", "regression"]
    assert run(tmp_path, str(path), *base, "--epsilon", "2") == 0
    assert report(tmp_path)["left_out"] == [
        "the column 'name' (no value in enough rows for this epsilon)"
    ]
    # so few rows that these could not be learnt within the budget
    unlearnt = ["the groups of sex", "the range of salary"]
    assert report(tmp_path)["conditional_on"] == unlearnt


def test_text_that_a_hash_parts_is_not_said_to_be_left_out(tmp_path):
    """The model that was said to know nothing of the names told them apart."""
    path = tmp_path / "names.csv"
    rng = np.random.default_rng(0)
    name, age = rng.integers(0, 400, 5000), rng.integers(18, 80, 5000)
    pay = np.where(name % 7 < 3, 40_000, 10_000) + 10 * age
    rows = [
        f"{a},{'fm'[i % 2]},n{k},{p}"
        for i, (a, k, p) in enumerate(zip(age, name, pay, strict=True))
    ]
    path.write_text("\n".join(["age,sex,word,pay", *rows]) + "\n")
    base = ["--target", "pay", "--sensitive", "sex", "--task", "regression"]
    saved = tmp_path / "model.skops"
    kept = ["--epsilon", "3", "--save", str(saved)]
    assert run(tmp_path, str(path), *base, *kept) == 0
    why = "no value in enough rows for this epsilon"
    how = f"only a hash of the text and gaps count, as there is {why}"
    assert report(tmp_path)["left_out"] == []
    assert (
        f"of the column 'word' {how}; --drop leaves it out"
        in (report(tmp_path)["remarks"])
    )
    assert "Left out" not in (tmp_path / "out" / "report.md").read_text()
    new, out = tmp_path / "new.csv", tmp_path / "new_out.csv"
    new.write_text("age,sex,word\n" + "".join(f"40,f,n{k}\n" for k in range(400)))
    assert main(["predict", str(saved), str(new), "--out", str(out)]) == 0
    told = {line.split(",")[-1] for line in out.read_text().splitlines()[1:]}
    assert 2 < len(told) <= 32


def test_the_plain_model_knows_the_frequent_ones_of_many_categories(tmp_path):
    """It left out the whole column, and looked worse than the private one."""
    path = tmp_path / "breeds.csv"
    rng = np.random.default_rng(0)
    breeds = [f"breed {min(int(e), 99)}" for e in rng.exponential(9, 6000)]
    rows = [f"{b},{'fm'[i % 2]},{int(b[6:]) % 2}" for i, b in enumerate(breeds)]
    path.write_text("\n".join(["breed,sex,barks", *rows]) + "\n")
    assert len(set(breeds)) > 64
    assert run(tmp_path, str(path), "--target", "barks", "--sensitive", "sex") == 0
    plain, private, _ = report(tmp_path)["models"]
    assert plain["error"] < 0.02 < 0.5 * report(tmp_path)["constant"]["error"]
    assert plain["error"] <= private["error"]


def test_too_few_rows_for_features_are_told_by_a_constant(tmp_path, capsys):
    path = tmp_path / "few.csv"
    rows = [f"{i % 40},{'fm'[i % 2]},{i % 2 + i % 7 / 10}" for i in range(400)]
    path.write_text("\n".join(["age,sex,salary", *rows]) + "\n")
    base = ["--target", "salary", "--sensitive", "sex", "--task", "regression"]
    declared = ["--groups", "f", "m", "--bounds", "0", "2"]
    assert run(tmp_path, str(path), *base, *declared, "--interactions") == 0
    found = report(tmp_path)
    told = [text for text in found["remarks"] if "No columns are multiplied" in text]
    assert len(told) == 1 and "records are too few for this epsilon" in told[0]
    assert not told[0].endswith(".")  # the terminal ends the sentence
    assert "the private model answers a constant" in " ".join(found["remarks"])
    assert "The private model predicts one value" in " ".join(found["warnings"])
    assert "Learnt privately" not in capsys.readouterr().out
    assert not found["conditional_on"]
    # so does the fair one, whose repair leaves it alone
    _, private, fair = found["models"]
    assert fair["error"] < 1.02 * private["error"]


def test_predictions_of_a_model_that_learnt_nothing_are_told_to_be_a_constant(
    tmp_path, capsys
):
    """All texts were said to stand where the model had learnt numbers."""
    pytest.importorskip("skops")
    path, model = tmp_path / "few.csv", str(tmp_path / "model.skops")
    rows = [f"job {i % 3},{'fm'[i % 2]},{i % 2 + i % 7 / 10}" for i in range(300)]
    path.write_text("\n".join(["job,sex,salary", *rows]) + "\n")
    base = ["--target", "salary", "--sensitive", "sex", "--task", "regression"]
    assert run(tmp_path, str(path), *base, "--save", model) == 0
    capsys.readouterr()
    out = str(tmp_path / "p.csv")
    assert main(["predict", model, str(path), "--out", out]) == 0
    said = capsys.readouterr().out
    assert said.startswith("! too few rows to learn from: the model answers a constant")
    assert "of the cells" not in said
    values = {line.rsplit(",", 1)[1] for line in Path(out).read_text().splitlines()[1:]}
    assert len(values) == 1


def test_conditions_do_not_hang_on_the_noise(tmp_path):
    """Near the number of rows at which facts are learnt, every run says the same."""
    path = tmp_path / "few.csv"
    rows = [f"{i % 40},{'fm'[i % 2]},{i % 2 + i % 7 / 10}" for i in range(500)]
    path.write_text("\n".join(["age,sex,salary", *rows]) + "\n")
    base = ["--target", "salary", "--sensitive", "sex", "--task", "regression"]
    said = set()
    for seed in range(4):
        arguments = [str(path), *base, "--seed", str(seed)]
        assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
        said.add(tuple(report(tmp_path)["conditional_on"]))
    assert len(said) == 1


def test_what_cannot_be_learnt_stops(people, tmp_path, capsys):
    """A column of names for groups: many rows, but no name is shared by many."""
    path = Path(people())
    header, *rows = path.read_text().splitlines()
    rows = [f"{row},c{i % 36}" for i, row in enumerate(rows)]
    path.write_text("\n".join([f"{header},club", *rows]) + "\n")
    base = ["--target", "salary", "--sensitive", "club", "--task", "regression"]
    assert run(tmp_path, str(path), *base, "--epsilon", "0.8") == 2
    said = capsys.readouterr().err
    told = " ".join(said.split())
    assert "The groups of club cannot be learnt within this budget" in told
    assert "pass --groups" in told


def test_gaps_speak_of_groups_that_can_be_told(people, tmp_path, capsys, monkeypatch):
    """One person of a third group does not decide what the gap is."""
    from fairpriv_sklearn.inspection import GroupDistributionDisplay

    drawn, plot = [], GroupDistributionDisplay.plot
    monkeypatch.setattr(
        GroupDistributionDisplay,
        "plot",
        lambda self, **how: drawn.append(self) or plot(self, **how),
    )
    base = ["--target", "salary", "--sensitive", "sex", "--groups", "f", "m", "x"]
    assert run(tmp_path, people(sex="x"), *base) == 0
    data = report(tmp_path)
    assert data["models"][2]["gap"] < 0.3 * data["models"][0]["gap"]
    assert [one.groups for one in drawn] == [["f", "m"]]
    # The titles say whose gaps they are, and those of the table.
    titles = [axes.get_title() for axes in drawn[0].axes_]
    gaps = [data["models"][i]["gap"] for i in (0, 2)]
    assert titles == [
        f"Before (plain): largest distance {gaps[0]:.3f}",
        f"After (private and fair): largest distance {gaps[1]:.3f}",
    ]
    assert "do not speak of x: fewer than 10 test rows" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize("odds", [False, True])
def test_standard_errors_are_those_of_the_test_rows(odds):
    """Against as many new tables of the same people, with groups alike and not."""
    from fairpriv_sklearn import metrics

    rng = np.random.default_rng(0)
    gap = getattr(
        metrics, "equalized_odds_difference" if odds else "ks_parity_difference"
    )

    def error(y, y_pred):
        return np.mean(y != y_pred) if odds else np.sqrt(np.mean((y - y_pred) ** 2))

    def measured(shift):
        # A group of 8 rows is not in the gaps, but in the errors.
        labels = np.repeat(["a", "b", "c"], [300, 100, 8]).astype(object)
        y_pred = rng.normal(size=408) + np.select(
            [labels == "b", labels == "c"], [shift, 9]
        )
        y = y_pred + rng.normal(size=408)
        if odds:
            y, y_pred = (np.where(v > 0, "u", "v").astype(object) for v in (y, y_pred))
        measures = Measures("", "", error, "", "", gap, within_classes=odds)
        return Result.measured(measures, y, labels, 0, "", y_pred)

    for shift in (0.0, 0.8):
        results = [measured(shift) for _ in range(40)]
        figures = {
            name: np.array([getattr(r, name) for r in results])
            for name in ("error", "error_se", "gap", "gap_se", "gap_by_chance")
        }
        means = {name: x.mean() for name, x in figures.items()}
        # 40 tables tell a standard deviation to 11 %; where the groups are alike, that
        # of a largest distance is overstated.
        assert 0.7 < means["error_se"] / figures["error"].std() < 1.4
        assert 0.7 < means["gap_se"] / figures["gap"].std() < 1.9
        alike = means["gap"] if shift == 0.0 else means["gap_by_chance"]
        assert abs(alike - means["gap_by_chance"]) < 3 * figures["gap"].std() / 40**0.5
        assert (shift == 0.0) == (means["gap"] < 1.5 * means["gap_by_chance"])


def test_rows_and_groups_are_drawn_within_their_cells():
    rng = np.random.default_rng(0)
    cells, groups = rng.integers(3, size=(2, 500))
    drawn = np.array([study._resampled(cells, rng) for _ in range(200)])
    for rows in drawn:
        assert np.array_equal(np.bincount(cells[rows]), np.bincount(cells))
    # with replacement, each row as often as any other
    times = np.bincount(drawn.ravel(), minlength=500)
    assert 150 < times.min() and times.max() < 250
    assert 0.6 < len(set(drawn[0].tolist())) / 500 < 0.66
    dealt = np.array([study._shuffled(groups, cells, rng) for _ in range(200)])
    for one in dealt:
        for cell in range(3):
            there = cells == cell
            assert np.array_equal(np.bincount(one[there]), np.bincount(groups[there]))
    shares = (dealt == groups).mean(axis=0)  # a third of the time, by chance
    assert 0.15 < shares.min() and shares.max() < 0.55


def test_a_small_group_does_not_hide_that_large_ones_differ():
    """Of 12 rows chance makes a gap of .3: one of .2 of others was called chance."""
    from fairpriv_sklearn.metrics import ks_parity_difference as gap

    rng = np.random.default_rng(0)
    labels = np.repeat(["f", "m", "all others"], [500, 500, 12])
    measures = Measures("", "", lambda y, p: np.mean(np.abs(y - p)), "", "", gap)
    for apart, seen in ((0.5, True), (0.0, False)):
        y_pred = rng.normal(size=1012) + apart * (labels == "m")
        y_pred[-12:] = np.linspace(-1.5, 1.5, 12) + apart / 2
        told = Result.measured(measures, y_pred, labels, 0, "", y_pred)
        assert told.gap < told.gap_by_chance + 2 * told.gap_se
        assert told.gap_is_seen == seen


def test_a_gap_is_seen_beyond_two_standard_errors():
    """Also of a constant, whose gap of zero is no more than chance makes."""
    from fairpriv_sklearn.metrics import ks_parity_difference as gap

    labels = np.repeat(["f", "m"], 500)
    measures = Measures("", "", lambda y, p: np.mean(np.abs(y - p)), "", "", gap)
    scores = np.random.default_rng(0).normal(size=1000)
    apart = []
    for shift in (0.0, 0.2, 0.25, 0.4):
        y_pred = scores + shift * (labels == "m")
        told = Result.measured(measures, scores, labels, 0, "", y_pred)
        apart.append((told.gap - told.gap_by_chance) / told.gap_se)
        assert told.gap_is_seen == (apart[-1] > 2)
    assert apart[0] < 1 < apart[1] < 2 < apart[2] < 3 < apart[3]
    same = np.zeros(1000)
    assert not Result.measured(measures, scores, labels, 0, "", same).gap_is_seen


@pytest.mark.parametrize("within", [False, True])
def test_chance_within_classes_knows_of_rare_ones(within):
    """A group with 3 rows of a class: its rate there is of thirds, by chance too."""
    from fairpriv_sklearn.metrics import equalized_odds_difference as gap

    rng = np.random.default_rng(0)
    y = np.repeat(["u", "v", "u", "v"], [150, 150, 3, 97]).astype(object)
    labels = np.repeat(["a", "b"], [300, 100]).astype(object)
    y_pred = rng.choice(["u", "v"], size=400).astype(object)
    measures = Measures("", "", lambda y, p: np.mean(y != p), "", "", gap, within)
    by_chance = Result.measured(measures, y, labels, 0, "", y_pred).gap_by_chance
    # the mean of |share - 1/2| of three fair draws is 1/4
    assert by_chance > 0.2 if within else by_chance < 0.2


def test_page_terminal_and_data_tell_the_same(people, tmp_path, capsys):
    base = ["--target", "hired", "--sensitive", "sex", "--drop", "salary"]
    assert run(tmp_path, people(), *base) == 0
    out = capsys.readouterr().out
    data, page = report(tmp_path), (tmp_path / "out" / "report.md").read_text()
    for model in [*data["models"], {"name": "constant", **data["constant"]}]:
        cells = [
            f"{model['error']:.4f} ± {model['error_se']:.4f}",
            f"{model['gap']:.4f} ± {model['gap_se']:.4f}",
            f"{model['gap_by_chance']:.4f}",
        ]
        assert f"| {model['name']} | {' | '.join(cells)} |" in page
        assert re.search(rf"^{model['name']} +{' +'.join(cells)}", out, re.MULTILINE)
        assert 0 < model["error_se"] < 0.03
        assert (model["gap_se"] > 0) == (model["name"] != "constant")
    for group in "fm":
        n, n_test = (data[f"group_{kind}sizes"][group] for kind in ("", "test_"))
        assert f"{group}: {n:,} + {n_test:,}" in " ".join(out.split())
        assert f"| {group} | {n} | {n_test} |" in page
    what = data["not_private"]["what"]
    figures = {f"models[].{key}" for key in data["constant"] if key != "figures"}
    assert figures | {"constant", "group_sizes", "group_test_sizes"} <= set(what)


def test_groups_of_few_test_rows_are_marked(people, tmp_path, capsys):
    text = Path(people()).read_text().splitlines()
    n = 150  # of each, women and men; x: about 3/4 of it to train, 1/4 to test
    rows = [row.replace(",f,", ",x,") for row in text[1 : n + 1]]
    path = tmp_path / "few.csv"
    path.write_text("\n".join([text[0], *rows, *text[n + 1 :]]) + "\n")
    base = ["--target", "hired", "--sensitive", "sex", "--groups", "f", "m", "x"]
    assert run(tmp_path, str(path), *base) == 0
    n_train, n_test = (
        report(tmp_path)[f"group_{kind}sizes"]["x"] for kind in ("", "test_")
    )
    assert 10 <= n_test < 100
    page = (tmp_path / "out" / "report.md").read_text()
    assert f"| x | {n_train} | {n_test} (few) |" in page and page.count("(few)") == 1
    said = (
        f"Few test rows: x ({n_test}); a share of {n_test} has a standard error of up "
    )
    said += f"to {0.5 / n_test**0.5:.2f}, and the largest gap is mostly theirs."
    assert said in " ".join(capsys.readouterr().out.split())
    assert sum(
        text.startswith("Few test rows") for text in report(tmp_path)["warnings"]
    )


def test_ends_of_a_range_may_have_exponents():
    arguments = ["--sensitive", "sex", "--target", "pay"]
    for ends in (["-1e3", "-2.5e-7"], ["-1E+3", "1e4"], ["0", "-.5e-30"]):
        args = parse(["a.csv", "--bounds", *ends, *arguments])
        assert args.bounds == [float(end) for end in ends]
    with pytest.raises(SystemExit):
        parse(["a.csv", *arguments, "--bounds", "-1e3"])


@pytest.mark.parametrize("apart", [0, 20])
def test_a_gap_of_chance_is_called_so(tmp_path, capsys, apart):
    rng = np.random.default_rng(0)
    age, sex = rng.integers(18, 80, size=1500), rng.integers(2, size=1500)
    pay = age + apart * sex + rng.integers(20, size=1500)
    path = tmp_path / "pay.csv"
    rows = [
        f"{a + apart * s},{'fm'[s]},{p}" for a, s, p in zip(age, sex, pay, strict=True)
    ]
    path.write_text("\n".join(["age,sex,pay", *rows]) + "\n")
    base = ["--target", "pay", "--sensitive", "sex", "--bounds", "0", "120"]
    assert run(tmp_path, str(path), *base) == 0
    said = " ".join(capsys.readouterr().out.split())
    words = "are within two standard errors of what chance makes on these test rows"
    assert (words in said) == (apart == 0)
    _, *models = report(tmp_path)["models"]
    for model in models if apart == 0 else models[:1]:
        beyond = model["gap"] - model["gap_by_chance"]
        assert (beyond < 2 * model["gap_se"]) == (apart == 0)
    assert "more alike than the private one" not in said


def test_gaps_that_nothing_tells_are_left_open(tmp_path, capsys):
    """No class that two groups have: odds cannot be compared."""
    rows = [f"{i % 37 + i % 2 * 9},{'fm'[i % 2]},{'uv'[i % 2]}" for i in range(900)]
    path = tmp_path / "parted.csv"
    path.write_text("\n".join(["age,sex,pay", *rows]) + "\n")
    base = ["--target", "pay", "--sensitive", "sex", "--constraint", "equalized_odds"]
    assert run(tmp_path, str(path), *base) == 0
    plain = report(tmp_path)["models"][0]
    assert plain["gap"] is plain["gap_se"] is plain["gap_by_chance"] is None
    assert re.search(r"^plain +\S+ ± \S+ +- +- +none$", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("rows_to_noise", [39.9, 40.0, 44.9, 45.0])
@pytest.mark.parametrize(
    "target, fact, least", [("hired", "classes", 40.0), ("salary", "range", 45.0)]
)
def test_lists_and_ranges_are_learnt_from_enough_rows_on(
    people, tmp_path, monkeypatch, target, fact, least, rows_to_noise
):
    monkeypatch.setattr(_learnt, "_rows_to_noise", lambda *_: rows_to_noise)
    base = ["--target", target, "--sensitive", "sex", "--epsilon", "5"]
    assert run(tmp_path, people(), *base) == 0
    read = report(tmp_path)["conditional_on"]
    assert ("the groups of sex" in read) == (rows_to_noise < 40.0)
    assert (f"the {fact} of {target}" in read) == (rows_to_noise < least)


@pytest.mark.parametrize(
    "n_rows, read",
    [
        (1250, ["the groups of sex", "the range of pay"]),
        (1450, ["the range of pay"]),
        (2050, ["the range of pay"]),
        (2300, []),
    ],
)
def test_the_guide_says_from_how_many_rows_on_lists_are_learnt(tmp_path, n_rows, read):
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(n_rows, 2)).round(2)
    path = tmp_path / "pay.csv"
    rows = [f"{x},{'fm'[i % 2]},{x + y:.2f}" for i, (x, y) in enumerate(cells)]
    path.write_text("\n".join(["x,sex,pay", *rows]) + "\n")
    base = ["--target", "pay", "--task", "regression", "--sensitive", "sex"]
    assert run(tmp_path, str(path), *base, "--epsilon", "1", "--seed", "0") == 0
    assert report(tmp_path)["conditional_on"] == read
    # What is read is not paid for: of categories one threshold for each encoder.
    events = report(tmp_path)["models"][-1]["guarantee"]["events"]
    paid = [event["kind"] for event in events].count("threshold")
    assert paid == 2 - ("the groups of sex" in read)


@pytest.mark.parametrize(
    "n_rows, read",
    [
        (1700, ["the groups of sex", "the classes of hired"]),
        (2050, []),
    ],
)
def test_groups_and_classes_are_learnt_together(tmp_path, n_rows, read):
    cells = np.random.default_rng(0).normal(size=n_rows).round(2)
    path = tmp_path / "hired.csv"
    rows = [f"{x},{'fm'[i % 2]},{'ny'[int(x > 0)]}" for i, x in enumerate(cells)]
    path.write_text("\n".join(["x,sex,hired", *rows]) + "\n")
    base = ["--target", "hired", "--task", "classification", "--sensitive", "sex"]
    assert run(tmp_path, str(path), *base, "--epsilon", "1", "--seed", "0") == 0
    assert report(tmp_path)["conditional_on"] == read


def test_the_statement_says_what_both_encoders_do_once(people, tmp_path):
    base = ["--target", "salary", "--sensitive", "sex", "--epsilon", "5"]
    assert run(tmp_path, people(), *base) == 0
    statement = report(tmp_path)["models"][-1]["guarantee"]
    assert statement["mechanism"].count("quantiles and categories") == 1
    (book,) = [a for a in statement["assumptions"] if a.startswith("codebook=")]
    assert "'salary'" in book and "'sex'" in book and "'age'" in book


def test_what_a_codebook_declares_is_said_to_whoever_signs(people, tmp_path, capsys):
    """Ranges and lists are taken as public: names of columns do not say which."""
    book = tmp_path / "book.json"
    book.write_text('{"age": [0, 99], "sex": ["f", "m"]}')
    base = ["--target", "salary", "--sensitive", "sex", "--codebook", str(book)]
    assert run(tmp_path, people(), *base, "--epsilon", "5") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Assumed: the codebook (see the card); " in said
    declared = "codebook={'age': {'kind': 'number', 'range': [0, 99]}}"
    for name in ("report.md", "card.md"):
        assert declared in (tmp_path / "out" / name).read_text()


def test_what_costs_nothing_is_not_named(tmp_path, capsys):
    assert run(tmp_path, "--seed", "0") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "-differentially private, one record replaced by any other: a fit of" in said


def test_a_seed_gives_both_encoders_noise_of_their_own():
    args = SimpleNamespace(seed=7, base_model="linear", interactions=True)
    listed = {"sex": Column("category")}
    encoders = _learnt.unfitted_encoders(simulated_table(0), args, listed)
    assert encoders["encoder"].interactions
    assert encoders["encoder"].random_state == 7
    assert encoders["lists"].random_state not in (None, 7)
    args.seed = None
    encoders = _learnt.unfitted_encoders(simulated_table(0), args, listed)
    assert {one.random_state for one in encoders.values()} == {None}


@pytest.mark.parametrize("hired, known", [("yes", True), ("", False)])
def test_the_card_has_the_number_of_rows_where_all_are_used(
    people, tmp_path, hired, known
):
    base = ["--target", "hired", "--sensitive", "sex", "--task", "classification"]
    assert run(tmp_path, people(hired=hired), *base) == 0
    card = (tmp_path / "out" / "card.md").read_text()
    assert ("below 1/n = 0.000333" in card) == known
    assert ("to be held against 1/n" in card) == (not known)


@pytest.mark.parametrize("task", [_models.regression, _models.classification])
@pytest.mark.parametrize("delta", [1e-9, 1e-4])
def test_each_model_and_the_encoders_they_share_keep_the_total(task, delta):
    """The two models divide the rest of it by deltas of their own."""
    args = SimpleNamespace(
        **{"epsilon": 1.0, "delta": delta, "seed": None, "base_model": "linear"},
        **{"blind": False, "constraint": "demographic_parity"},
        fairness_tolerance=0.0,
    )
    encoders = {"encoder": DPTableEncoder(), "lists": DPTableEncoder()}
    _, models = task(SimpleNamespace(target="y"), _models.UNKNOWN, args)
    encoders, settings = _models.with_shares(encoders, models, args, 10**6)
    for name in ("private", "private and fair"):
        model = clone(models[name]).set_params(**settings[name])
        whole = expected_guarantee(Pipeline([*encoders.items(), ("model", model)]))
        assert 0.9 < compose_epsilon(whole.events, delta) <= 1.0


@pytest.mark.parametrize("n_columns", [1, 30])
def test_groups_and_classes_have_noise_of_their_own(tmp_path, n_columns):
    """However many columns there are to predict from."""
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(3000, n_columns)).round(2).astype(str)
    path = tmp_path / "wide.csv"
    names = [f"x{i}" for i in range(n_columns)]
    rows = [
        ",".join([*row, "fm"[i % 2], "uv"[i % 3 % 2]]) for i, row in enumerate(cells)
    ]
    path.write_text("\n".join([",".join([*names, "sex", "pay"]), *rows]) + "\n")
    base = ["--target", "pay", "--sensitive", "sex", "--epsilon", "1"]
    assert run(tmp_path, str(path), *base) == 0
    told = report(tmp_path)
    assert told["groups"] == ["f", "m", "all others"]
    assert not [fact for fact in told["conditional_on"] if "of sex" in fact]
    assert {"the groups of sex", "the classes of pay"} <= set(told["learnt"])
    assert told["models"][-1]["epsilon_if_public"] <= 1.0
    card = (tmp_path / "out" / "card.md").read_text()
    assert "whether the groups ['f', 'm'] and those of no listed group differ" in card


def test_small_groups_are_named_as_others(people, tmp_path, capsys):
    path, model = people(sex="x"), str(tmp_path / "model.skops")
    arguments = [path, "--target", "salary", "--sensitive", "sex", "--save", model]
    assert run(tmp_path, *arguments) == 0
    assert (
        "1 row of a group too small to be learnt, counted as 'all others'"
        in " ".join(capsys.readouterr().out.split())
    )
    # whoever writes F and M has nobody of these groups: predictions were silent
    said = "row of a group that the model does not know, counted as 'all others'"
    out = str(tmp_path / "predictions.csv")
    assert main(["predict", model, path, "--out", out]) == 0
    assert f"! 1 {said}\n" in capsys.readouterr().out
    capitals = tmp_path / "capitals.csv"
    cells = Path(path).read_text()
    capitals.write_text(cells.replace(",f,", ",F,").replace(",m,", ",M,"))
    assert main(["predict", model, str(capitals), "--out", out, "--force"]) == 0
    assert f"! 3,000 {said.replace('row', 'rows')}\n" in capsys.readouterr().out


def test_a_wrong_argument_gets_one_line(capsys):
    for arguments, says in (
        (["people.csv", "--task", "guess"], "invalid choice: 'guess'"),
        (["predict", "model.skops"], "required: DATA"),
        (["audit", "people.csv"], "not 'audit' and 'people.csv'; commands are predict"),
        (["people.csv", "--verbose"], "unrecognized arguments: --verbose"),
        (["people.csv", "--targt", "pay"], "unrecognized arguments: --targt pay"),
        (["people.csv", "--fairness-tolerance", "5%"], "0 to 1, or auto, got '5%'"),
        (["synthesize", "people.csv", "--rows", "few"], "invalid int value: 'few'"),
    ):
        with pytest.raises(SystemExit):
            main(arguments)
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and says in said and said.startswith(ERRORS)


def test_lists_that_are_given_in_parts_are_taken_whole():
    """The last part alone would publish a column that was to be left out."""
    parts = ["--drop", "name", "--drop", "town", "--groups", "f", "--groups", "m", "x"]
    parts += ["--sensitive", "sex", "--target", "pay", "--sensitive", "race", "age"]
    args = parse(["people.csv", *parts])
    assert args.drop == ["name", "town"] and args.groups == ["f", "m", "x"]
    assert args.sensitive == ["sex", "race", "age"]
    assert parse([]).drop == parse([]).sensitive == []


def test_rows_outside_groups_are_left_out(people, tmp_path):
    status = run(
        tmp_path, people(sex="unknown"), "--target", "salary", "--sensitive", "sex",
        "--groups", "f", "m",
    )  # fmt: skip
    assert status == 0
    data = report(tmp_path)
    assert data["n_train"] + data["n_test"] == 2999


def test_rows_with_missing_values_can_be_dropped(people, tmp_path, capsys):
    path = people(age="")
    arguments = [path, "--target", "salary", "--sensitive", "sex"]
    # by default nobody is lost
    assert run(tmp_path, *arguments) == 0
    data = report(tmp_path)
    assert data["n_train"] + data["n_test"] == 3000 and data["left_out"] == []
    way_out = "The number of rows is no condition of a file whose rows are all used."
    assert way_out not in capsys.readouterr().out
    assert run(tmp_path, *arguments, "--missing", "error") == 2
    assert "--missing drop" in capsys.readouterr().err
    assert run(tmp_path, *arguments, "--missing", "drop") == 0
    assert report(tmp_path)["left_out"] == ["1 row with a missing value"]
    assert "the number of complete rows" in report(tmp_path)["conditional_on"]
    out = capsys.readouterr().out
    assert "1 row with a missing value" in out and way_out in out
    assert way_out in (tmp_path / "out" / "report.md").read_text()


def test_a_missing_value_that_a_list_names_is_a_value(tmp_path, capsys):
    """Classes + and -, and people of no school, were missing whatever lists said."""
    path, model = tmp_path / "credit.csv", tmp_path / "model.skops"
    rows = [
        f"{i % 50},{'none' if i % 3 else 'high'},{'+-'[i % 50 > 25]}"
        for i in range(3000)
    ]
    path.write_text("\n".join(["debt,school,good", *rows]) + "\n")
    base = [str(path), "--target", "good", "--sensitive", "school"]
    assert run(tmp_path, *base) == 2
    assert "missing values unless a codebook lists them" in capsys.readouterr().err
    book = tmp_path / "book.json"
    book.write_text(json.dumps({"good": ["+", "-"]}))
    base += ["--codebook", str(book), "--groups", "high", "none"]
    assert run(tmp_path, *base, "--save", str(model)) == 0
    data = report(tmp_path)
    assert data["n_train"] + data["n_test"] == 3000 and data["left_out"] == []
    assert set(data["group_sizes"]) == {"high", "none"}
    predictions = tmp_path / "predictions.csv"
    capsys.readouterr()
    assert main(["predict", str(model), str(path), "--out", str(predictions)]) == 0
    said = capsys.readouterr()
    assert "does not know" not in said.out + said.err


def test_dropping_that_leaves_little_behind_stops(tmp_path, capsys):
    rows = [f"{i if i % 3 == 0 else ''},{'fm'[i % 2]},{i % 7}" for i in range(300)]
    two_thirds = tmp_path / "gaps.csv"
    two_thirds.write_text("\n".join(["age,sex,pay", *rows]) + "\n")
    rows = [f"{'' if i % 9 == 0 else i},{'fm'[i % 2]},{i % 9 > 0}" for i in range(300)]
    one_class = tmp_path / "class.csv"
    one_class.write_text("\n".join(["age,sex,pay", *rows]) + "\n")
    base = ["--target", "pay", "--sensitive", "sex"]
    for path, says in (
        (two_thirds, "would leave out 200 of 300 rows"),
        (one_class, "one class only"),
    ):
        assert run(tmp_path, str(path), *base, "--missing", "drop") == 2
        assert says in capsys.readouterr().err
        assert run(tmp_path, str(path), *base) == 0


@pytest.mark.parametrize(
    ("changes", "arguments", "says"),
    [
        ({}, ["--target", "wage"], "has no column 'wage'"),
        ({}, ["--drop", "wage"], "has no column 'wage'"),
        ({}, ["--drop", "salary"], "--drop names the target"),
        (
            {},
            ["--target", "town", "--task", "regression"],
            "No row has a number in 'town'; name another --target, or another --task.",
        ),
        (
            {},
            ["--target", "town", "--bounds", "0", "1"],
            "No row has a number in 'town'; name another --target, or leave out --bou",
        ),
        ({}, ["--sensitive", "salary"], "two different columns"),
        ({}, ["--groups", "x", "y"], "listed groups x, y the file holds none"),
        ({}, ["--groups", "f", "male"], "listed groups f, male the file holds f only"),
        (
            {},
            ["--groups", " F", "m"],
            "file holds m only; capitals and blanks count: write them as the file does",
        ),
        ({}, ["--groups", "F", "male"], "holds none; check how they are written."),
        (
            {},
            ["--sensitive", "sex", "town", "--groups", "f/north", "f/south"],
            "groups of several columns are a value of each, as in 'one / other'.",
        ),
        ({"salary": "nan"}, ["--missing", "error"], "missing"),
        ({"age": "NaN"}, ["--missing", "error"], "missing"),
        ({"age": "-inf"}, ["--missing", "error"], "missing"),
        ({}, ["--task", "classification"], "did you mean --task regression"),
        ({}, ["--task", "classification", "--bounds", "1", "4"], "no range"),
        ({}, ["--fairness-tolerance", "auto", "--target", "hired"], "regression"),
        ({}, ["--constraint", "equalized_odds"], "belongs to a classification"),
        ({}, ["--sensitive", "sex", "sex"], "names a column twice"),
        ({}, ["--separator", "ab"], "one character"),
        ({}, ["--encoding", "klingon"], "cannot be read as 'klingon'"),
        ({}, ["--codebook", "other.json"], "the file does not have"),
        ({}, ["--out", "short.json"], "is a file"),
        ({}, ["--bounds", "4", "1"], "low < high"),
        ({}, ["--bounds", "-1e3", "-2.5e4"], "low < high"),
        ({}, ["--codebook", "nowhere.json"], "codebook"),
        ({}, ["--codebook", "short.json"], "at least two values"),
        ({"age": "1,2"}, [], "6 fields in row 5"),
    ],
)
def test_bad_input_gets_one_sentence(
    people, tmp_path, capsys, monkeypatch, changes, arguments, says
):
    (tmp_path / "short.json").write_text('{"age": [18]}')
    (tmp_path / "other.json").write_text('{"wage": [18, 20]}')
    monkeypatch.chdir(tmp_path)
    base = ["--target", "salary", "--seed", "0", "--out", "out"]
    base += [] if "--sensitive" in arguments else ["--sensitive", "sex"]
    assert main([people(**changes), *base, *arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(ERRORS) and says in error
    assert "\n" not in error
    assert not (tmp_path / "out").exists()


def test_a_name_that_stands_twice_gets_a_number(people, tmp_path, capsys):
    """As in pandas; `--drop` leaves out both."""
    path = Path(people())
    lines = path.read_text().splitlines()
    header = lines[0].split(",")
    cells = [line.split(",") for line in lines[1:]]
    header += ["town", "town.1", "town"]  # the first free number is 2
    rows = [[*row, row[0], row[0], row[0]] for row in cells]
    path.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n")
    base = [str(path), "--target", "salary", "--sensitive", "sex", "--force"]
    assert run(tmp_path, *base) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name in ("'town.2'", "'town.3'"):
        assert f"name 'town' stands in the file again: that column is {name}" in said
    text = (tmp_path / "out" / "report.md").read_text()
    assert "town.1" in text and "town.3" in text
    assert run(tmp_path, *base, "--drop", "town") == 0
    text = (tmp_path / "out" / "report.json").read_text()
    assert "town.1" in text and "town.2" not in text.split('"remarks"')[0]


def test_files_that_are_no_tables(tmp_path, capsys):
    base = ["--target", "a", "--sensitive", "b"]
    empty, twice, torn = (tmp_path / name for name in ("e.csv", "t.csv", "z.csv.gz"))
    empty.write_text("a,b\n")
    twice.write_text("a,a,b\n1,2,x\n")
    torn.write_bytes(b"not gzip")
    one_group, few, one_class, bare, gaps = (
        tmp_path / f"{name}.csv" for name in ("one", "few", "class", "bare", "gaps")
    )
    one_group.write_text("a,b,c\n1,x,1\n2,x,2\n3,x,1\n")
    few.write_text("a,b,c\n1,x,1\n2,y,2\n")
    one_class.write_text("a,b,c\nu,x,1\nu,y,2\n")
    bare.write_text("a,b\n1,x\n2,y\n")
    gaps.write_text("a,b,c\n1,x,\n2,,2\n")
    for path, says in (
        (tmp_path / "nowhere.csv", "no file"),
        (tmp_path, "no file"),
        (empty, "at least one row"),
        (twice, "names 'a' twice"),
        (torn, "cannot be read"),
        (one_group, "one group only"),
        (few, "too few rows"),
        (one_class, "one class only"),
        (bare, "No feature is left"),
        (gaps, "would leave out 2 of 2 rows"),
    ):
        assert run(tmp_path, str(path), *base, "--missing", "drop") == 2
        error = capsys.readouterr().err.strip()
        assert says in error and "\n" not in error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x.csv"], "--target"),
        (["--epsilon", "0"], "--epsilon must lie in [0.0001, 10000]"),
        (["--epsilon", "nan"], "--epsilon must lie in [0.0001, 10000]"),
        (["--delta", "1"], "--delta"),
        (["--fairness-tolerance", "2"], "--fairness-tolerance"),
    ],
)
def test_bad_arguments_are_usage_errors(capsys, arguments, says):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(ERRORS) and says in error


def test_without_matplotlib_the_picture_is_skipped_and_said(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    pytest.importorskip("skops")
    assert run(tmp_path, "--save", str(tmp_path / "model.skops")) == 0
    assert "install matplotlib" in capsys.readouterr().out
    assert not (tmp_path / "out" / "report.png").exists()
    assert "report.png" not in (tmp_path / "out" / "report.md").read_text()


def test_package_is_light_and_heavy_parts_wait():
    """Importing the package must not import what only some methods need."""
    heavy = "cvxpy matplotlib dp_accounting diffprivlib pandas polars torch ot".split()
    modules = ", ".join(f"fairpriv_sklearn.{name}" for name in fairpriv_sklearn.__all__)
    # scikit-learn itself imports pandas where it is installed.
    code = (
        "import sys, sklearn.compose, sklearn.model_selection; old = set(sys.modules); "
        f"import {modules}; print([m for m in {heavy} if m in set(sys.modules) - old])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_unknown_names_of_the_package():
    assert "privacy" in dir(fairpriv_sklearn)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fairpriv_sklearn.nonsense


def test_program_of_the_readme_runs(capsys):
    readme = Path(__file__).parents[1] / "README.md"
    (program,) = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(4000, 3)), rng.uniform(1, 4, size=4000)
    race = rng.choice(["asian", "black", "hisp", "white"], size=4000)
    exec(program, {"X": X, "y": y, "race": race, "X_new": X, "race_new": race})
    assert "(epsilon = 1, delta = 1e-05)" in capsys.readouterr().out


def test_targets_of_whole_numbers(tmp_path):
    """Whole predictions of a regression are no class labels."""
    path = tmp_path / "whole.csv"
    rows = [f"{i % 37},{'fm'[i % 2]},{1000 * (i % 60)}" for i in range(600)]
    path.write_text("\n".join(["age,sex,salary", *rows]) + "\n")
    arguments = ["--target", "salary", "--sensitive", "sex", "--bounds", "0", "120000"]
    assert run(tmp_path, str(path), *arguments) == 0


# ------------------------------------------------------------- what one record may tell
FACTS = {"age": [17, 90], "smoker": ["0", "1", "unknown"], "pay": [0, 2000]}


def neighbour(tmp_path, name, last, **codebook):
    """The statement about a table whose last record is this one."""
    header = ["age", "smoker", "zip", "sex", "pay"]
    rows = [
        [20 + i % 60, i % 2, f"z{i % 64}", "FM"[i % 2], 1000 + i % 10]
        for i in range(400)
    ]
    rows.append([last.get(h, v) for h, v in zip(header, rows[0], strict=True)])
    path, facts = tmp_path / f"{name}.csv", tmp_path / "facts.json"
    lines = [header, *rows]
    path.write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")
    facts.write_text(json.dumps({**FACTS, **codebook}))
    arguments = ["--target", "pay", "--sensitive", "sex", "--groups", "F", "M"]
    status = run(tmp_path, str(path), *arguments, "--codebook", str(facts))
    assert status == 0
    data = report(tmp_path)
    guarantees = [m["guarantee"] for m in data["models"] if m["guarantee"]]
    return data["conditional_on"], data["task"], guarantees


@pytest.mark.parametrize(
    "last",
    [
        {"smoker": "unknown"},
        {"smoker": "never heard of"},
        {"age": "n/k"},
        {"age": "1e400"},
        {"age": "1e308"},
        {"age": '"1,5"'},
        {"pay": 1999},  # an eleventh value
        {"zip": "z64"},  # a 65th category, of a column that is left out
    ],
)
def test_one_record_changes_no_statement(tmp_path, last):
    """Everything that the statement depends on is declared, or it is conditional."""
    both = [
        neighbour(tmp_path, name, record, zip="left out")
        for name, record in (("a", {}), ("b", last))
    ]
    assert both[0] == both[1]
    assert both[0][0] == []


@pytest.mark.parametrize(
    ("last", "assumed"),
    [
        ({"pay": ""}, "every row has a value of pay"),
        ({"sex": "X"}, "every row is in a listed group"),
    ],
)
def test_what_holds_of_every_row_is_assumed(tmp_path, last, assumed):
    """One record made a statement conditional, and none told that there is no such."""
    (facts, _, whole), (others, _, less) = (
        neighbour(tmp_path, name, record, zip="left out")
        for name, record in (("a", {}), ("b", last))
    )
    assert not facts and others
    blank = "a row without any value is no record"
    assert all(blank in one["assumptions"] for one in (*whole, *less))
    assert [assumed in one["assumptions"] for one in whole] == [True] * len(whole)
    assert [assumed in one["assumptions"] for one in less] == [False] * len(less)


def test_what_is_neither_declared_nor_learnt_is_a_condition(tmp_path):
    facts, _, guarantees = neighbour(tmp_path, "a", {}, age=None, zip=None, pay=None)
    assert facts == ["the task", "the classes of pay"]
    # Nothing is promised to those for whom these facts are not public.
    assert all(g["epsilon"] == "inf" for g in guarantees)


def test_the_richest_person_is_nowhere(tmp_path, capsys):
    path = tmp_path / "rich.csv"
    rows = [f"{20 + i % 60},{'fm'[i % 2]},{1000 + i}.25" for i in range(400)]
    path.write_text("\n".join(["age,sex,pay", *rows, "33,f,987654.5"]) + "\n")
    assert run(tmp_path, str(path), "--target", "pay", "--sensitive", "sex") == 0
    text = (tmp_path / "out" / "report.json").read_text()
    text += (tmp_path / "out" / "report.md").read_text() + capsys.readouterr().out
    for extreme in ("987654.5", "987,654.5", "1000.25", "987655"):
        assert extreme not in text


def test_a_gap_makes_no_other_column(tmp_path):
    """Whole numbers that one gap turned into floats are the same categories."""
    statements = []
    for dot, last in (("", "2"), (".0", "")):
        path = tmp_path / f"kids{last}.csv"
        rows = [f"{i % 3}{dot},{'fm'[i % 2]},{i % 7}" for i in range(300)]
        path.write_text("\n".join(["kids,sex,pay", *rows, f"{last},f,3"]) + "\n")
        book = tmp_path / "kids.json"
        book.write_text(
            '{"kids": {"kind": "category", "categories": [0, 1, 2]}, "pay": [0, 7]}'
        )
        arguments = ["--target", "pay", "--sensitive", "sex", "--groups", "f", "m"]
        arguments += ["--codebook", str(book)]
        assert run(tmp_path, str(path), *arguments) == 0
        statements.append([m["guarantee"] for m in report(tmp_path)["models"]])
        assert report(tmp_path)["conditional_on"] == []
    assert statements[0] == statements[1]


def test_wide_tables_of_numbers_are_read_without_detours(tmp_path, monkeypatch):
    """No number is tried as a date, and codebooks are not written for each column."""
    from fairpriv_sklearn._cli import columns
    from fairpriv_sklearn._cli.table import Table
    from fairpriv_sklearn.preprocessing import _text_cells

    calls = []
    written, tried = Table.codebook.fget, columns.cell_day
    codebook = property(lambda table: calls.append("codebook") or written(table))
    monkeypatch.setattr(Table, "codebook", codebook)
    for home in (columns, _text_cells):
        monkeypatch.setattr(
            home, "cell_day", lambda *cell: calls.append("date") or tried(*cell)
        )
    path, n_columns = tmp_path / "wide.csv", 40
    cells = np.random.default_rng(0).normal(size=(90, n_columns)).round(3)
    lines = [",".join([*(f"x{j}" for j in range(n_columns)), "sex", "pay"])]
    for i, row in enumerate(cells):
        lines.append(",".join([*map(str, row), "fm"[i % 2], str(row[0])]))
    path.write_text("\n".join(lines) + "\n")
    arguments = [str(path), "--target", "pay", "--sensitive", "sex", "--epsilon", "50"]
    assert run(tmp_path, *arguments) == 0
    assert "date" not in calls
    assert calls.count("codebook") < n_columns


# --------------------------------------------------------- several groups, saved models
@pytest.fixture
def staff(tmp_path):
    """A table with money, dates and gaps, and new rows of the same kind."""
    rng = np.random.default_rng(1)
    lines = ["age,town,joined,sex,race,salary,hired"]
    for i in range(1200):
        sex, race = rng.choice(["f", "m"]), rng.choice(["a", "b"])
        age, town = rng.integers(18, 75), rng.choice(["north", "south", ""])
        pay = 20_000 + 400 * age + 8000 * (sex == "m") + rng.normal(0, 3000)
        lines.append(
            f"{age if i % 11 else ''},{town},{1 + i % 28}/{1 + i % 12}/2015,{sex},"
            f'{race},"${pay:,.0f}",{"yes" if pay > 40_000 else "no"}'
        )
    path, new = tmp_path / "staff.csv", tmp_path / "new.csv"
    path.write_text("\n".join(lines) + "\n")
    rows = [line.split(',"')[0] for line in lines[1:9]]
    new.write_text("\n".join(["age,town,joined,sex,race", *rows]) + "\n")
    return str(path), str(new)


@pytest.mark.parametrize("told", [True, False])
def test_a_saved_model_reads_new_dates_in_the_order_it_learnt(tmp_path, capsys, told):
    """Whether told by --dates or found; no cell of the new rows tells it."""
    pytest.importorskip("skops")
    path, new, book = (tmp_path / name for name in ("a.csv", "new.csv", "book.json"))
    rng = np.random.default_rng(0)
    lines = ["joined,sex,pay"]
    for i in range(3000):
        day, month = rng.integers(1, 29), rng.integers(1, 13)
        pay = 100 * month + rng.integers(0, 9)
        lines.append(f"{day}/{month}/2015,{'fm'[i % 2]},{pay}")
    path.write_text("\n".join(lines) + "\n")
    new.write_text("joined,sex\n12/1/2015,f\n1/12/2015,f\n")
    dates = {"kind": "date", "range": ["2015-01-01", "2015-12-31"]}
    book.write_text(json.dumps({"joined": dates}))
    model, out = str(tmp_path / "m.skops"), tmp_path / "p.csv"
    arguments = [str(path), "--target", "pay", "--sensitive", "sex", "--save", model]
    arguments += ["--bounds", "0", "1300", "--epsilon", "20", "--codebook", str(book)]
    arguments += ["--dates", "day-first"] if told else []
    assert run(tmp_path, *arguments) == 0

    def predicted(*more):
        assert main(["predict", model, str(new), "--out", str(out), *more]) == 0
        return [float(row.split(",")[-1]) for row in out.read_text().splitlines()[1:]]

    january, december = predicted()
    assert january < 500 < 900 < december
    # What is said of the new table counts first, and then what its cells tell.
    assert predicted("--dates", "month-first", "--force") == [december, january]
    new.write_text("joined,sex\n1/12/2015,f\n12/1/2015,f\n2/25/2015,f\n")
    assert predicted("--force")[:2] == [january, december]


@pytest.mark.parametrize("order", ["ISO", "month-first", None])
def test_dates_that_nobody_declared_are_learnt(tmp_path, order):
    """By a rule for each cell, which a saved model goes on with; not left out."""
    pytest.importorskip("skops")
    from fairpriv_sklearn._cli.saved import load_model

    path, new, out = (tmp_path / name for name in ("a.csv", "new.csv", "p.csv"))
    rng = np.random.default_rng(0)
    form = "{2}-{1:02}-{0:02}" if order == "ISO" else "{1}/{0}/{2}"
    lines = ["joined,sex,pay"]
    for i in range(6000):
        day, month, year = rng.integers(1, 29), rng.integers(1, 13), 2010 + i % 8
        pay = 100 * (month + 12 * (year - 2010)) + rng.integers(0, 9)
        lines.append(f"{form.format(day, month, year)},{'fm'[i % 3 == 0]},{pay}")
    path.write_text("\n".join(lines) + "\n")
    rows = [f"{form.format(12, month, 2012)},f" for month in (1, 12)]
    new.write_text("\n".join(["joined,sex", *rows]) + "\n")
    model = str(tmp_path / "m.skops")
    arguments = [str(path), "--target", "pay", "--sensitive", "sex", "--save", model]
    arguments += ["--bounds", "0", "9700", "--epsilon", "20"]
    arguments += ["--dates", order] if order == "month-first" else []
    assert run(tmp_path, *arguments, "--groups", "f", "m", "--task", "regression") == 0
    written = report(tmp_path)
    assert written["conditional_on"] == []
    assert {"the kind of joined", "the range of joined"} <= {*written["learnt"]}
    months = sum(int(line.split("/")[1]) > 12 for line in lines[1:] if "/" in line)
    said = f"{months:,} cells of joined can only have the month first"
    assert (said in (tmp_path / "out" / "report.md").read_text()) == (order is None)
    content = load_model(model)
    assert content["encoder"].codebook_["joined"].kind == "date"
    told = {"joined": False} if order == "month-first" else {}
    assert content["day_first"] == told
    assert main(["predict", model, str(new), "--out", str(out)]) == 0
    pay = [float(row.split(",")[-1]) for row in out.read_text().splitlines()[1:]]
    # 1/12 is the twelfth of January or the first of December.
    assert (pay[1] - pay[0] > 600) == (order is not None)


@pytest.mark.parametrize("day, month", [("3/4/2015", "3/5/2015"), ("4/25/2015",) * 2])
def test_a_saved_model_tells_no_more_of_dates_than_their_order(tmp_path, day, month):
    """Not whether a cell told it: that is no condition."""
    pytest.importorskip("skops")
    from fairpriv_sklearn._cli.saved import load_model

    path, book, model = (tmp_path / name for name in ("a.csv", "b.json", "m.skops"))
    rows = [
        f"{(day, month)[i % 2]},{'fm'[i % 3 == 0]},{'ny'[i % 2]}" for i in range(300)
    ]
    path.write_text("\n".join(["joined,sex,hired", *rows]) + "\n")
    dates = {"kind": "date", "range": ["2015-01-01", "2015-12-31"]}
    book.write_text(
        json.dumps({"joined": dates, "sex": ["f", "m"], "hired": ["n", "y"]})
    )
    arguments = [str(path), "--target", "hired", "--sensitive", "sex"]
    arguments += ["--codebook", str(book), "--save", str(model)]
    assert run(tmp_path, *arguments) == 0
    told = report(tmp_path)["conditional_on"]
    assert told == ["the order of day and month (--dates)"]
    assert load_model(str(model))["day_first"] == {"joined": False}


@pytest.mark.parametrize("typed", [True, False])
def test_dates_of_a_typed_file_have_an_order_too(tmp_path, typed):
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    path, book = tmp_path / "a.parquet", tmp_path / "b.json"
    joined = ["3/4/2015", "13/5/2015"] * 150
    if typed:
        joined = pd.to_datetime(joined, format="%d/%m/%Y")
    table = {"joined": joined, "sex": ["f", "f", "m"] * 100, "hired": ["n", "y"] * 150}
    pd.DataFrame(table).to_parquet(path)
    dates = {"kind": "date", "range": ["2015-01-01", "2015-12-31"]}
    book.write_text(
        json.dumps({"joined": dates, "sex": ["f", "m"], "hired": ["n", "y"]})
    )
    arguments = [str(path), "--target", "hired", "--sensitive", "sex"]
    assert run(tmp_path, *arguments, "--codebook", str(book)) == 0
    order = "the order of day and month (--dates)"
    assert order in report(tmp_path)["conditional_on"]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("mark", [".", ","])
def test_a_saved_model_reads_new_numbers_by_the_mark_it_learnt(
    tmp_path, mark, told, declared
):
    """Whether told by --decimal or found; no cell of the one new row tells it."""
    pytest.importorskip("skops")
    path, new, book = (tmp_path / name for name in ("a.csv", "new.csv", "book.json"))
    # Another separator than the one that usually goes with the mark
    separator = {".": ";", ",": "\t"}[mark]
    table = [["size", "weight", "sex", "pay"]]
    rng = np.random.default_rng(0)
    for i, (number, weight) in enumerate(rng.uniform(0, 1, size=(3000, 2))):
        numbers = f"{2000 * number:.3f}", f"{9 * weight:.2f}", f"{1000 * number:.2f}"
        size, weight, pay = (n.replace(".", mark) for n in numbers)
        table.append([size, weight, "fm"[i % 2], pay])
    path.write_text("\n".join(map(separator.join, table)) + "\n")
    # 1.5 where the comma is the decimal mark, and 1500 where the point is
    header, row = ["size", "weight", "sex"], ["1,500", "5", "f"]
    new.write_text("\n".join(map(separator.join, (header, row))) + "\n")
    facts = {"size": {"kind": "number", "range": [0, 2000]}} if declared else {}
    book.write_text(json.dumps(facts))
    model, out = str(tmp_path / "m.skops"), tmp_path / "p.csv"
    arguments = [str(path), "--target", "pay", "--sensitive", "sex", "--save", model]
    arguments += ["--bounds", "0", "1000", "--epsilon", "20", "--codebook", str(book)]
    arguments += ["--decimal", mark] if told else []
    assert run(tmp_path, *arguments) == 0

    def predicted(*more):
        assert main(["predict", model, str(new), "--out", str(out), *more]) == 0
        said = out.read_text().splitlines()[1].split(separator)[-1]
        return float(said.replace(",", "."))

    def is_by(read, value):
        return value < 300 if read == "," else 600 < value

    assert is_by(mark, predicted())
    # What is said of the new table counts first, and then what its cells tell.
    other = {".": ",", ",": "."}[mark]
    assert is_by(other, predicted("--decimal", other, "--force"))
    row[1] = f"5{other}25"
    new.write_text("\n".join(map(separator.join, (header, row))) + "\n")
    assert is_by(other, predicted("--force"))


@pytest.mark.parametrize("above", ["", "Report\n\n"])
@pytest.mark.parametrize(
    "header, row, separator",
    [
        ("a;b;c", "1,5;2,5;3,5", ";"),
        ("a\tb", "1,5\t2,5", "\t"),
        ("a|b|c|d", "1,5|2,5|3,5|x", "|"),
        ("a;b", "first;1,5;2,5", ";"),  # rows have names, as R writes them
        ("name,quote,n", 'x,"hi; there; you",3', ","),
        ("a,b,c", "1,2,3", ","),
        ("how often, about;why, in a word;age", "often, I fear;no, none;3,5", ";"),
    ],
)
@pytest.mark.parametrize("n", [3, 40])
def test_the_header_tells_the_separator(header, row, separator, above, n):
    """Decimal commas in nearly all columns parted each row, and a quote did."""
    text = above + "\n".join([header] + [row] * n) + "\n"
    assert _separator(text) == separator


@pytest.mark.parametrize(
    "row", ["5.1,3.5,0.2,0.9,a", "30,64,1,1", "M,12,7,x,30", "0,0"]
)
def test_a_file_without_a_header_is_refused_before_its_first_row_is_shown(
    row, tmp_path, capsys
):
    """Cells of a person were names of columns, on the terminal and in reports."""
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([row] * 30))
    assert run(tmp_path, str(path), "--target", "pay", "--sensitive", "sex") == 2
    said = capsys.readouterr().err
    assert "seems to have no header" in said
    assert not any(cell in said for cell in ("5.1", "64", "M", "12", "0,"))


def test_a_first_line_that_stands_in_the_rows_is_no_header(tmp_path, capsys):
    """Also of files that were put together; a ticked box may hold its name."""
    rows = ["ann,Paris,no,28,38147.96", "bob,Rome,yes,30,1.5", "cyd,Paris,no,28,2.5"]
    rows += ["dan,Rome,no,31,3.5", "eve,Paris,yes,30,4.5"]
    header, path = "name,town,hired,age,pay", tmp_path / "rows.csv"
    for lines in (rows, [header, *rows, header, *rows]):
        path.write_text("\n".join(lines))
        for job in (["--target", "pay", "--sensitive", "town"], ["--write-codebook"]):
            job += [str(tmp_path / "book.json")] * (len(job) == 1)
            assert run(tmp_path, str(path), *job) == 2
            said = capsys.readouterr().err
            assert "seems to have no header" in said and "Paris" not in said
    for text in ("tea,milk\ntea,\n,milk\n", "other,town\nother,Rome\nthis,Paris\n"):
        path.write_text(text)
        assert list(read_table(path).columns) == text.split("\n")[0].split(",")


@pytest.mark.parametrize("named", [",", "|"])
def test_a_separator_that_is_named_and_wrong(named, tmp_path, capsys):
    """Decimal commas parted the rows, and the first one passed for the header."""
    path = tmp_path / "rows.csv"
    path.write_text("name;pay;town\nann;1.500,25;Paris\nbob;2.000,75;Rome\n" * 2)
    arguments = ["--target", "pay", "--sensitive", "town", "--separator", named]
    assert run(tmp_path, str(path), *arguments) == 2
    said = capsys.readouterr().err
    assert "';' in each name of its header" in said and "ann" not in said


@pytest.mark.parametrize(
    ("text", "named", "right"),
    [
        ("pay;town\n1500,25;Paris, 3\n2000,75;Rome, 1\n", ",", ";"),
        ("pay|town\n1500|Paris; 3\n2000|Rome; 1\n", ";", "|"),
        ("pay\ttown\n1500\tParis, 3\n2000\tRome, 1\n", ",", "\t"),
    ],
)
def test_a_separator_that_makes_a_title_of_the_header(
    text, named, right, tmp_path, capsys
):
    """Cells of the first person were printed, and published, as names of columns."""
    path = tmp_path / "rows.csv"
    path.write_text(text)
    arguments = ["--target", "pay", "--sensitive", "town", "--separator", named]
    assert run(tmp_path, str(path), *arguments) == 2
    said = capsys.readouterr().err
    assert f"name {right!r} by --separator, or none" in said
    assert "Paris" not in said and "1500" not in said
    assert list(read_table(path, separator=right).columns) == ["pay", "town"]
    path.write_text("Staff of 2020\n" + text)
    assert list(read_table(path, separator=right).columns) == ["pay", "town"]


@pytest.mark.parametrize(
    "names",
    [
        "id,2019,2020,2019",
        "1,2,3",
        "400.5,400,399.5,a",
        "1,10,2",
        "q1,1,q2,2",
        "mean,25%,50%",
    ],
)
def test_numbers_that_are_names(names, tmp_path):
    path = tmp_path / "named.csv"
    path.write_text(names + "\n" + ",".join("x" for _ in names.split(",")) + "\n")
    assert list(read_table(path).columns)[:2] == names.split(",")[:2]


@pytest.mark.parametrize("n", [2, 40])
@pytest.mark.parametrize(
    "header, row, separator",
    [
        ('"age" "pay"', "30 3,5", " "),
        ('"age" "pay"', '"first" 30 3,5', " "),  # rows have names
        ("age pay", "first 30 3", " "),
        ("Income report\nage,full name", "30,John Smith", ","),
        ("Income report\nage,name", "30,5,John", ","),
        ("a title\nage;full name", "30;John Smith", ";"),
        ("2019,2020", "1,2", ","),
    ],
)
def test_decimal_commas_between_spaces(header, row, separator, n):
    """Cells became names of columns, which sentences quote, as R writes such tables."""
    assert _separator("\n".join([header] + [row] * n) + "\n") == separator


@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize(
    "text, row, names, first",
    [
        # one column: the comma is in its numbers
        ("x\n1,5\n", "2,5\n", ["x"], ["1,5"]),
        ("pay\n1,200\n", "300\n", ["pay"], ["1,200"]),
        # every row ends with a separator, the header does not
        ("a,b\n1,2,\n", "3,4,\n", ["a", "b"], ["1", "2"]),
        ("a;b\n1;x; \n", "3;y;\n", ["a", "b"], ["1", "x"]),
        # a title with a comma, and not the header of R
        ("Staff, all\n,age,sex\nann,3,f\n", "bob,4,m\n", ["age", "sex"], ["3", "f"]),
        ("Pay,2020\nid,age,sex\nann,3,f\n", "bob,4,m\n", ["id", "age", "sex"], None),
        # R's own: names of rows, whatever is in them
        ("age,sex\nann,3,f\n", "bob,4,m\n", ["age", "sex"], ["3", "f"]),
        ("age,sex\nann,no,f\n", "bob,4,m\n", ["age", "sex"], ["no", "f"]),
        ("X1,sex\n1,3,\n", "2,4,f\n", ["X1", "sex"], ["3", None]),
        ("2019,2020\n1,3,4\n", "2,4,f\n", ["2019", "2020"], ["3", "4"]),
        ("2019,s\nann,no,f\n", "bob,no,m\n", ["2019", "s"], ["no", "f"]),
        ("2019,s\nann,,f\nbob,3,m\n", "cyd,4,m\n", ["2019", "s"], None),
        # a title holds what parts lines elsewhere, or a line of blanks stands below it
        ("Staff\x0cpage 1\njob,sex\nit,f\n", "hr,m\n", ["job", "sex"], ["it", "f"]),
        ("Staff\u2028all\njob,sex\nit,f\n", "hr,m\n", ["job", "sex"], ["it", "f"]),
        ('"Staff\n\nall"\njob,sex\nit,f\n', "hr,m\n", ["job", "sex"], ["it", "f"]),
        ("Staff\n \t\njob,sex\nit,f\n", "hr,m\n", ["job", "sex"], ["it", "f"]),
        (" \n\njob,sex\nit,f\n", "hr,m\n", ["job", "sex"], ["it", "f"]),
        ("Staff\r \rjob,sex\rit,f\r", "hr,m\r", ["job", "sex"], ["it", "f"]),
        # the separator stands in quotes behind a blank
        ('job, sex\n"it, a", f\n', '"hr, b", m\n', ["job", "sex"], ["it, a", "f"]),
        ('sex, job\nf, "it, a"\n', 'm, "hr, b"\n', ["sex", "job"], ["f", "it, a"]),
        ('sex job\nf "it a"\n', 'm "hr b"\n', ["sex", "job"], ["f", "it a"]),
        # a long text stands in a cell
        ("Staff\njob;sex\nit;f\n", f"{140_000 * 'h'};m\n", ["job", "sex"], ["it", "f"]),
    ],
)
def test_no_row_of_a_person_becomes_the_header(tmp_path, text, row, names, first, n):
    """Names of columns are public: they stand in reports and sentences."""
    path = tmp_path / "a.csv"
    path.write_text(text + n * row)
    columns = read_table(path).columns
    assert list(columns) == names
    if first:
        assert [cells[0] for cells in columns.values()] == first
        assert len(columns[names[0]]) == n + 1


def test_single_quotes_around_all_names_are_around_cells_too(tmp_path):
    """They hid that a target is a number."""
    path = tmp_path / "a.csv"
    rows = ["'age','sex','note'", "'40','f','x'", "'41.5',' m',y", "'','''','"]
    path.write_text("\n".join(rows) + "\n")
    columns = read_table(path).columns
    assert columns["age"] == ["40", "41.5", None]
    assert columns["sex"] == ["f", "m", "''"]
    assert columns["note"] == ["x", "y", "'"]
    path.write_text("age,'sex'\n'40','f'\n")
    assert read_table(path).columns["age"] == ["'40'"]


def test_model_and_card_may_go_into_the_folder_of_the_report(people, tmp_path):
    pytest.importorskip("skops")
    folder = tmp_path / "out"
    base = [people(), "--target", "salary", "--sensitive", "sex", "--epsilon", "9"]
    files = [str(folder / name) for name in ("m.skops", "own.html")]
    assert run(tmp_path, *base, "--save", files[0], "--card", files[1]) == 0
    assert {"m.skops", "own.html", "report.md"} <= {f.name for f in folder.iterdir()}
    assert run(tmp_path, *base, "--force", "--save", str(tmp_path / "no" / "m.skops"))


def test_a_learnt_range_of_the_target_ends_where_targets_do(tmp_path):
    """It ended at 2.6e10, where the noise of an empty cell was, and models with it."""
    rng = np.random.default_rng(0)
    sizes = rng.uniform(1, 2000, 3000)
    rows = [f"{size:.3f},{'fm'[i % 2]},{size / 2:.2f}" for i, size in enumerate(sizes)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["size,sex,pay", *rows]) + "\n")
    arguments = [str(path), "--target", "pay", "--sensitive", "sex", "--seed", "0"]
    for epsilon in ("1", "20"):
        assert run(tmp_path, *arguments, "--epsilon", epsilon, "--force") == 0
        told = report(tmp_path)
        constant = told["constant"]["error"]
        for model in told["models"]:
            assert model["error"] < constant / 5


def test_a_saved_model_tells_no_mark_that_its_statement_does_not(tmp_path):
    """Here the mark is found in a column that is not used, and read by none."""
    pytest.importorskip("skops")
    from fairpriv_sklearn._cli.saved import load_model

    path, book, model = (tmp_path / name for name in ("a.csv", "b.json", "m.skops"))
    rows = [f"{'ab'[i % 2]};{'fm'[i % 3 == 0]};{'ny'[i % 2]};1,5" for i in range(300)]
    path.write_text("\n".join(["town;sex;hired;size", *rows]) + "\n")
    book.write_text('{"town": ["a", "b"], "sex": ["f", "m"], "hired": ["n", "y"]}')
    arguments = [str(path), "--target", "hired", "--sensitive", "sex", "--drop", "size"]
    arguments += ["--codebook", str(book), "--save", str(model)]
    assert run(tmp_path, *arguments) == 0
    assert report(tmp_path)["conditional_on"] == []
    assert load_model(str(model))["decimal"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"age": "1e308", "town": "13/25/2001", "sex": "?"},
        {"age": '"1,5"', "town": "True", "salary": "$5"},
        {"age": "12/31/2001", "town": "007", "salary": "nan", "hired": "maybe"},
    ],
)
def test_a_record_changes_what_leaves_through_releases_only(
    people, tmp_path, monkeypatch, changes
):
    """With what was released of one table the other gives the same model and card."""
    pytest.importorskip("skops")
    from fairpriv_sklearn._cli.saved import load_model

    # Warnings for the holder alone, by made-up people with releases of their own.
    monkeypatch.setattr(study, "before_spending", lambda *given: [])
    monkeypatch.setattr(study, "N_RESAMPLES", 2)
    today = SimpleNamespace(today=lambda: "2026-01-02")  # also past midnight
    monkeypatch.setattr("fairpriv_sklearn.privacy._card.date", today)
    model, card = tmp_path / "model.skops", tmp_path / "card.json"
    arguments = ["--target", "hired", "--sensitive", "sex", "--force"]
    arguments += ["--task", "classification", "--save", str(model), "--card", str(card)]

    def leaving(table, replayed=None):
        with recording(replayed) as seen:
            assert run(tmp_path, table, *arguments) == 0
        return seen, leaves_of(load_model(str(model))), card.read_text()

    first, content, stated = leaving(people())
    guarantee = load_model(str(model))["guarantee"]
    assert not guarantee.conditional_on and guarantee.epsilon <= 1
    second, again, stated_again = leaving(people(**changes), first)
    assert not leaf_differences(content, again) and stated == stated_again
    pairs = list(zip(first.crossings, second.crossings, strict=True))
    for one, other in pairs:
        change = np.linalg.norm(one.exact.astype(float) - other.exact)
        assert change <= one.sensitivity
    assert any((one.exact != other.exact).any() for one, other in pairs)


@pytest.mark.parametrize("target", ["salary", "hired"])
def test_a_saved_model_predicts_new_rows(staff, tmp_path, capsys, target):
    pytest.importorskip("skops")
    path, new = staff
    model, out = str(tmp_path / "m.skops"), str(tmp_path / "p.csv")
    card = tmp_path / "card.md"
    other = {"salary": "hired", "hired": "salary"}[target]
    arguments = [path, "--target", target, "--sensitive", "sex", "--drop", other]
    assert run(tmp_path, *arguments, "--save", model, "--card", str(card)) == 0
    assert card.read_text().startswith("# Privacy card: Private and fair")
    assert (
        report(tmp_path)["task"]
        == {
            "salary": "regression",
            "hired": "classification",
        }[target]
    )
    assert "the saved model" in report(tmp_path)["releasable"]
    assert main(["predict", model, new, "--out", out]) == 0
    said = capsys.readouterr().out
    assert "8 predictions" in said and "of the cells of" not in said
    assert "answers a constant" not in said
    header, *lines = Path(out).read_text().splitlines()
    assert header == f"age,town,joined,sex,race,predicted {target}"
    values = [line.rsplit(",", 1)[1] for line in lines]
    if target == "salary":
        assert all(20_000 < float(v) < 70_000 for v in values), values
    else:
        assert set(values) <= {"yes", "no"}
    # rows one at a time, in another order: the same predictions
    reversed_rows = tmp_path / "reversed.csv"
    header, *rows = Path(new).read_text().splitlines()
    reversed_rows.write_text("\n".join([header, *rows[::-1]]) + "\n")
    assert main(["predict", model, str(reversed_rows), "--out", out, "--force"]) == 0
    again = [x.rsplit(",", 1)[1] for x in Path(out).read_text().splitlines()[1:]]
    assert again[::-1] == values
    # what is written otherwise than where the model learnt is said
    rows = [row.upper().replace(",", " years,", 1) for row in rows]
    reversed_rows.write_text("\n".join([header, *rows]) + "\n")
    capsys.readouterr()
    assert main(["predict", model, str(reversed_rows), "--out", out, "--force"]) == 0
    said = capsys.readouterr().out
    assert "100.0% of the cells of age, text where the model learnt numbers" in said
    assert "% of the cells of town, not in the list that the model learnt" in said


@pytest.mark.parametrize("separator", [";", "\t", " "])
def test_predictions_are_written_as_the_file_is(people, tmp_path, separator):
    """Beside 40354,36 stood 40354.36, which a German Excel takes for text or more."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("skops")
    model, out = str(tmp_path / "m.skops"), str(tmp_path / "p.csv")
    arguments = ["--target", "salary", "--sensitive", "sex", "--save", model]
    assert run(tmp_path, people(), *arguments) == 0
    frame = pd.read_csv(people())[:40].round(2)  # 2,345 might be thousands
    for decimal in (".", ","):
        new = str(tmp_path / "new.csv")
        frame.to_csv(new, sep=separator, decimal=decimal, index=False)
        assert main(["predict", model, new, "--out", out, "--force"]) == 0
        parted = separator.strip(" ") or ","
        told = pd.read_csv(out, sep=parted, decimal=decimal)
        assert told["predicted salary"].between(0, 5).all()
        assert told["salary"].tolist() == frame["salary"].tolist()


def test_predict_gets_one_sentence_for_what_it_cannot_use(staff, tmp_path, capsys):
    skops = pytest.importorskip("skops.io")
    path, new = staff
    model, out = str(tmp_path / "m.skops"), str(tmp_path / "p.csv")
    base = ["--target", "salary", "--sensitive", "sex", "--drop", "hired"]
    assert run(tmp_path, path, *base, "--save", model) == 0
    # nothing is overwritten
    assert run(tmp_path, path, *base, "--save", model) == 2
    assert "--force" in capsys.readouterr().err
    (tmp_path / "no.skops").write_bytes(b"nothing")
    (tmp_path / "other.skops").write_bytes(skops.dumps({"format": "another"}))
    (tmp_path / "few.csv").write_text("age,sex\n1,f\n")
    (tmp_path / "there.csv").write_text("mine")
    for arguments, says in (
        (["nowhere.skops", new], "cannot be read"),
        (["no.skops", new], "is not a model"),
        (["other.skops", new], "is not a model"),
        (["m.skops", "nowhere.csv"], "no file"),
        (["m.skops", "few.csv"], "no column 'town'"),
        (["m.skops", new, "--out", str(tmp_path / "there.csv")], "there already"),
    ):
        arguments = [str(tmp_path / a) if "." in a else a for a in arguments]
        if "--out" not in arguments:
            arguments += ["--out", out]
        assert main(["predict", *arguments]) == 2
        error = capsys.readouterr().err.strip()
        assert says in error and "\n" not in error
    assert (tmp_path / "there.csv").read_text() == "mine"
    # an unknown group, a gap and nonsense in a cell still get a prediction
    strange = tmp_path / "strange.csv"
    strange.write_text("age,town,joined,sex,race\nold,west,never,x,a\n")
    assert main(["predict", model, str(strange), "--out", out]) == 0
    assert "1 prediction written" in capsys.readouterr().out


def test_several_sensitive_columns_and_equalized_odds(staff, tmp_path, capsys):
    path, _ = staff
    arguments = [path, "--target", "hired", "--drop", "salary", "--constraint"]
    arguments += ["equalized_odds", "--sensitive", "sex", "race"]
    assert run(tmp_path, *arguments) == 0
    data = report(tmp_path)
    assert data["groups"] == ["f / a", "f / b", "m / a", "m / b"]
    assert data["gap"] == "odds gap"
    assert sum(data["group_sizes"].values()) == data["n_train"]
    out = capsys.readouterr().out
    assert "for the data holder only, as are the group" in out
    assert "constant" in out


def test_a_blind_model_predicts_without_the_group(staff, tmp_path, capsys):
    pytest.importorskip("skops")
    path, new = staff
    model, out = str(tmp_path / "m.skops"), str(tmp_path / "p.csv")
    arguments = [path, "--target", "hired", "--sensitive", "sex", "--drop", "salary"]
    assert run(tmp_path, *arguments, "--blind", "--save", model) == 0
    assert report(tmp_path)["models"][2]["epsilon_if_public"] <= 1
    rows = [line.split(",") for line in Path(new).read_text().splitlines()]
    without = tmp_path / "without.csv"
    without.write_text("\n".join(",".join(r[:3] + r[4:]) for r in rows) + "\n")
    assert main(["predict", model, str(without), "--out", out]) == 0
    assert "8 predictions" in capsys.readouterr().out


@pytest.mark.parametrize("n_others", [0, 5, 600])
def test_a_group_of_nobody_does_not_stop_a_blind_repair(tmp_path, capsys, n_others):
    """The noise of "all others" hid what the groups that were learnt differ by."""
    rng = np.random.default_rng(0)
    sex = np.repeat(["f", "m"], [1600, 2400]).astype(object)
    x = rng.normal(size=4000) + 1.5 * (sex == "m")
    pay = np.clip(0.8 * x + 0.5 * rng.normal(size=4000), -3, 5)
    sex[:n_others] = [f"o{i % 20}" for i in range(n_others)]
    path = tmp_path / "pay.csv"
    rows = [f"{a:.3f},{b},{c:.3f}" for a, b, c in zip(x, sex, pay, strict=True)]
    path.write_text("\n".join(["x,sex,pay", *rows]) + "\n")
    options = ["--target", "pay", "--sensitive", "sex", "--bounds", "-3", "5"]
    assert run(tmp_path, str(path), *options, "--blind", "--seed", "0") == 0
    said, told = " ".join(capsys.readouterr().out.split()), report(tmp_path)
    assert ("groups=['f', 'm', 'all others']" in said) == (n_others == 600)
    assert ("the blind repair counts them as 'm'" in said) == (n_others == 5)
    _, private, fair = (model["gap"] for model in told["models"])
    if n_others < 600:
        assert fair < 0.3 < private
    assert set(told["group_sizes"]) == {"f", "m", *["all others"][: bool(n_others)]}


@pytest.mark.parametrize(
    ("blind", "said"),
    [(True, "The blind repair stood back: "), (False, "cannot be told whether the")],
)
def test_a_repair_that_stands_back_says_so_wherever_it_is_read(
    tmp_path, capsys, blind, said
):
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 600)  # which nothing tells
    age, pay = rng.integers(18, 80, 600), rng.normal(3, 1, 600)
    rows = [f"{a},{s},{p:.3f}" for a, s, p in zip(age, sex, pay, strict=True)]
    table = tmp_path / "people.csv"
    table.write_text("\n".join(["age,sex,pay", *rows]) + "\n")
    book = tmp_path / "book.json"
    book.write_text('{"age": [18, 80], "sex": ["f", "m"], "pay": [0, 6]}')
    arguments = [str(table), "--target", "pay", "--sensitive", "sex"]
    arguments += ["--codebook", str(book)]
    arguments += ["--blind"] if blind else ["--epsilon", "0.2"]
    assert run(tmp_path, *arguments) == 0
    data = report(tmp_path)
    (note,) = data["repair_notes"]
    assert said in note
    # Not a word of the test rows: it may be published with the model.
    assert "repair_notes" in data["releasable"]
    assert said in " ".join(capsys.readouterr().out.split())
    for name in ("report.md", "card.md"):
        assert said in (tmp_path / "out" / name).read_text(), name


@pytest.mark.parametrize(
    ("options", "few"),
    [
        (["--blind", "--epsilon", "0.2"], 50),
        (["--epsilon", "0.3"], None),  # enough, for two fifths of the squared budget
        (["--epsilon", "0.1"], 100),
        (["--blind"], None),
    ],
)
def test_a_model_that_cannot_learn_is_told_before_the_spend(
    tmp_path, capsys, options, few
):
    rng = np.random.default_rng(0)
    sex, age = rng.choice(["f", "m"], 3000), rng.integers(18, 80, 3000)
    pay = 1000 + 50 * age + rng.normal(0, 300, 3000)
    rows = [f"{a},{s},{p:.0f}" for a, s, p in zip(age, sex, pay, strict=True)]
    table = tmp_path / "people.csv"
    table.write_text("\n".join(["age,sex,pay", *rows]) + "\n")
    arguments = [str(table), "--target", "pay", "--sensitive", "sex", *options]
    assert run(tmp_path, *arguments) == 0
    before = " ".join(capsys.readouterr().err.partition("[1/5]")[0].split())
    learns = r"learns from (?:about ([\d,]+) of )?the ([\d,]+) training rows"
    told = re.search(learns, before)
    assert bool(told) == (few is not None)
    if told:
        # Of all rows, which are about all rows of themselves, it is not said.
        assert bool(told[1]) == (few < 100)
        n_inner, n_rows = (int((n or told[2]).replace(",", "")) for n in told.groups())
        assert round(100 * n_inner / n_rows) == few
        assert ("without --blind it is more" in before) == ("--blind" in options)
        fair = report(tmp_path)["models"][2]
        # It is so: what it predicts is no better than a constant.
        assert fair["error"] > 0.97 * report(tmp_path)["constant"]["error"]


def test_rows_of_one_person_are_told_wherever_epsilon_is(people, tmp_path, capsys):
    base = ["--target", "hired", "--sensitive", "sex"]
    pages = [tmp_path / "out" / name for name in ("report.md", "card.md")]
    assert run(tmp_path, people(), *base) == 0
    assert "say how many at most" in pages[1].read_text()
    capsys.readouterr()
    assert run(tmp_path, people(), *base, "--rows-per-person", "3") == 0
    epsilon = report(tmp_path)["models"][2]["epsilon_if_public"]
    for text in (capsys.readouterr().out, *(page.read_text() for page in pages)):
        text = " ".join(text.split())
        (told,) = set(re.findall(r"At most 3; .*? is \(epsilon = ([\d.]+), ", text))
        assert 3 * epsilon <= float(told) <= 4 * epsilon
        assert "At most 3; for a person" in text and "delta = 1e-05)" in text
        assert "if the conditions hold" in text  # the task was read
        assert "each person has one" not in text
    assert report(tmp_path)["rows_per_person"] == 3
    model = str(tmp_path / "model.skops")
    saved = ["--save", model, "--rows-per-person", "3", "--force"]
    assert run(tmp_path, people(), *base, *saved) == 0
    capsys.readouterr()
    assert main(["predict", model, people(), "--out", str(tmp_path / "p.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "a person has at most 3" in said and "each person has one" not in said


def test_a_repair_that_does_its_work_has_no_notes(people, tmp_path):
    arguments = ["--target", "salary", "--sensitive", "sex", "--drop", "hired"]
    assert run(tmp_path, people(), *arguments, "--groups", "f", "m") == 0
    assert report(tmp_path)["repair_notes"] == []
    assert "| repair |" not in (tmp_path / "out" / "card.md").read_text()
    assert run(tmp_path, people(), *arguments) == 0  # nobody is in no learnt group
    assert not any("cannot be told" in text for text in report(tmp_path)["warnings"])


def test_network_as_base_model(staff, tmp_path):
    path, _ = staff
    arguments = [path, "--target", "salary", "--sensitive", "sex", "--drop", "hired"]
    assert run(tmp_path, *arguments, "--base-model", "network") == 0
    assert report(tmp_path)["models"][2]["epsilon_if_public"] <= 1


@pytest.mark.parametrize(
    "written, marker", [("000", "000"), ("-9.0", -9), ('"-9,0"', -9)]
)
def test_what_means_missing_in_a_file_is_its_text(tmp_path, written, marker):
    """Not any cell that is the same number, though whole ones may be written so."""
    path, book = tmp_path / "people.csv", tmp_path / "people.json"
    rows = [f"{i % 5 or written},{i % 3},{'ab'[i % 2]}" for i in range(1000)]
    path.write_text("x,y,g\n" + "\n".join(rows + ["0,1,a"] * 50))
    known = {"kind": "number", "range": [0, 5], "missing_values": [marker]}
    book.write_text(json.dumps({"x": known, "y": [0, 3], "g": ["a", "b"]}))
    args = [str(path), "--target", "y", "--sensitive", "g", "--codebook", str(book)]
    table = load_table(parse([*args, "--task", "regression"]))
    x = table.features["x"].values
    assert np.isnan(x).sum() == 200 and (x == 0).sum() == 50
    X = _learnt._frame({"x": table.features["x"].values.astype(object)})
    encoder = DPTableEncoder(table.codebook, epsilon=np.inf).fit(X)
    assert encoder.get_feature_names_out()[-1] == "x: missing"
    assert_array_equal(encoder.transform(X)[:, -1] > 0, np.isnan(x))


def test_codebook_to_fill_in(staff, tmp_path, capsys):
    path, _ = staff
    book = tmp_path / "book.json"
    arguments = [path, "--write-codebook", str(book), "--target", "salary"]
    assert main([*arguments, "--sensitive", "sex"]) == 0
    template = json.loads(book.read_text())
    assert template["salary"] == {"kind": None, "role": "target"}
    assert list(template) == "age town joined sex race salary hired".split()
    said = capsys.readouterr().out
    assert "types of the file" not in said
    assert "one of the kinds number, category, flag, date, left out," in said
    # nothing of the cells shows, and nothing is overwritten
    assert "north" not in book.read_text()
    assert main([*arguments, "--sensitive", "sex"]) == 2
    # filled in, it names target and groups, and nothing is conditional
    template |= {
        "age": [18, 90],
        "town": ["north", "south"],
        "joined": {"kind": "date", "range": ["2010-01-01", "2020-12-31"]},
        "sex": {"kind": "category", "categories": ["f", "m"], "role": "group"},
        "race": "left out",
        "salary": {"kind": "number", "range": [0, 100_000], "role": "target"},
        "hired": "left out",
    }
    book.write_text(json.dumps(template))
    again = [path, "--codebook", str(book), "--dates", "day-first"]
    assert run(tmp_path, *again) == 0
    data = report(tmp_path)
    assert data["conditional_on"] == [] and data["task"] == "regression"
    assert "by the codebook" in data["left_out"][0]


def test_cells_that_a_codebook_does_not_hold_are_told_of(people, tmp_path, capsys):
    """Ages in years and towns in small letters were one number and one category."""
    path, model = people(), str(tmp_path / "model.skops")
    base = [path, "--target", "salary", "--sensitive", "sex", "--drop", "hired"]
    book, out = tmp_path / "book.json", str(tmp_path / "predictions.csv")
    ages = "of the cells of age, outside the range of the codebook, count as the near"
    towns = "of the cells of town, not in the list of the codebook, count as other"
    for held, share in (
        ({"age": [0, 1], "town": ["North", "South"]}, "100.0%"),
        ({"age": [18, 79], "town": ["north", "south"]}, None),
    ):
        book.write_text(json.dumps(held))
        arguments = [*base, "--codebook", str(book), "--save", model, "--force"]
        assert run(tmp_path, *arguments) == 0
        assert main(["predict", model, path, "--out", out, "--force"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        for said in (ages, towns):
            assert told.count(said) == told.count(f"{share} {said}") == 2 * bool(share)


def test_a_cell_outside_a_range_is_told_of_from_one_in_a_thousand_on():
    column = Column("number", (0, 9))
    for n, said in (
        (1000, ["0.1% of the cells of a, outside the range of the"]),
        (1001, []),
    ):
        values = np.array([np.nan, 10.0, *np.zeros(n - 2)])
        notes = outside_note(Parsed("a", column, values, True))
        assert [note[: len(said[0])] for note in notes] == said


def test_kinds_that_a_typed_file_has_are_to_be_struck_from_a_codebook(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    path, book = tmp_path / "people.parquet", tmp_path / "book.json"
    pd.DataFrame({"age": [20, 30]}).to_parquet(path)
    assert main([str(path), "--write-codebook", str(book)]) == 0
    assert json.loads(book.read_text())["age"]["kind"] == "number"
    assert "strike those that the questionnaire does not say" in " ".join(
        capsys.readouterr().out.split()
    )


# --------------------------------------------------------------------- plain sentences
def test_identifiers_are_told_by_name():
    for name in (
        *("id", "ID", "userId", "PatientID", "patient_id", "subject#", "Subject No."),
        *("name", "Full name", "e-mail", "EMail", "email address", "person code"),
        *("Personal-Nr.", "rownames", "row_index", "Case No", "record_id"),
        *("customer number", "Telephone", "SSN", "user", "GUID", "last_name", "names"),
        *("Resp. ID", "respid", "id_nr", "ID-No", "Unnamed: 0", "short_name"),
        *("PassengerId", "Host Id", "Loan_ID", "InvoiceID", "custid"),
        *("seqn", "PERID", "rec_id", "soc_sec_id", "USUBJID", "MRN", "pers. id no."),
        *("Medical Record Number", "Social Security", "socsec no"),
        *("pidnum", "PATID", "ptid", "hhid", "subj_id", "Arrest Id", "incident_id"),
        *("sno", "S.No.", "Serial Number", "visitID"),
    ):
        assert tells_persons_apart(name), name
    for name in (
        *("paid", "humidity", "age", "student", "subject", "school_id", "n_users"),
        *(
            "names of towns",
            "video",
            "number",
            "client age",
            "user rating",
            "phone bill",
        ),
        *("nativity", "candidate", "mailbox", "id_like", "code", "customer", "", "#"),
        *("resp", "response", "response id", "product id", "guest_no", "PassengerNr"),
        *("claim number", "order", "Owner", "emp", "loan amount", "player name length"),
        *("per", "rec", "sequence", "period", "security", "medical record", "indiv no"),
        *("arrest", "visit no", "crash number", "serial", "snow", "p", "pt no", "paid"),
    ):
        assert not tells_persons_apart(name), name


def test_identifiers_are_told_from_the_words_around_them():
    """ "By name, name, ID tell persons apart" was said of two columns."""
    (said,) = persons_note(["name", "age", "ID"])
    assert said.startswith(
        "By their names, the columns 'name', 'ID' tell persons apart: "
    )
    assert "leave them out" in said and not persons_note(["age"])


@pytest.mark.parametrize(
    "values, codes",
    [
        ([38, -9, 0, np.nan, -9], [-9]),
        ([4.5, -99, -777, -1], [-777, -99, -1]),
        ([1, -8888, -9, -8, -7, -6], [-8888, -9, -8, -7, -6]),
        ([1, -8888, -9, -8, -7, -6, -1], []),  # too many of them
        ([1, -1, 2], []),  # a difference
        ([1, -9, -9.5], []),
        ([1, -9, -10], []),
        ([-77, -88, -99], []),  # nothing else: places of a map
        ([9, 99, 999], []),
        ([], []),
    ],
)
def test_codes_of_no_answer_are_told_from_numbers(values, codes):
    said = codes_note({"hours": np.array(values, float)})
    assert len(said) == bool(codes)
    if codes:
        assert said[0].endswith(f'{{"hours": {{"missing_values": {codes}}}}}.')


def test_codes_of_many_columns_are_one_sentence():
    asked = {f"q{i}": np.array([1.0, -9.0]) for i in range(7)}
    (said,) = codes_note(asked)
    assert "'q4' has -9 and 2 more columns. They" in said and "q5" not in said
    (said,) = codes_note(dict(list(asked.items())[:5]))
    assert "'q4' has -9. They" in said


def test_codes_of_no_answer_are_told_before_spending(tmp_path, capsys):
    """-9 was a number of years, of the target as well, and nothing said so."""
    path, book = tmp_path / "survey.csv", tmp_path / "book.json"
    rows = [
        f"{-9 if i % 9 == 0 else i % 20},{-8 if i % 7 == 0 else i % 13},"
        f"{'fm'[i % 2]},{1950 + i % 40}-01-01"
        for i in range(900)
    ]
    path.write_text("\n".join(["Q1: years?,Q2,sex,born", *rows]) + "\n")
    asked = [str(path), "--target", "Q1: years?", "--sensitive", "sex", "--task"]
    assert run(tmp_path, *asked, "regression") == 0
    said = " ".join(capsys.readouterr().err.split())
    told = said[: said.index("[1/5]")]
    assert "no answer: 'Q2' has -8, 'Q1: years?' has -9. They count" in told
    assert report(tmp_path)["warnings"][0].startswith("The only numbers below zero")
    # As a class it is seen among the others; a codebook has it its way.
    assert run(tmp_path, *asked, "classification") == 0
    assert "no answer: 'Q2' has -8. They" in " ".join(capsys.readouterr().err.split())
    known = {name: {"missing_values": [-9, -8]} for name in ("Q1: years?", "Q2")}
    book.write_text(json.dumps(known))
    assert run(tmp_path, *asked, "regression", "--codebook", str(book)) == 0
    assert "no answer" not in " ".join(capsys.readouterr().err.split())
    assert "100 rows without a value of Q1: years?" in " ".join(
        (tmp_path / "out" / "report.md").read_text().split()
    )


def test_that_a_large_file_is_read_is_said(people, tmp_path, capsys, monkeypatch):
    path = people()
    arguments = [path, "--target", "salary", "--sensitive", "nobody"]
    assert run(tmp_path, *arguments) == 2
    assert "Reading" not in capsys.readouterr().err
    monkeypatch.setattr("fairpriv_sklearn._cli.columns.LARGE", 10_000)
    assert run(tmp_path, *arguments) == 2
    assert capsys.readouterr().err.startswith(f"Reading {path} ...\n")


def test_identifiers_get_one_line_before_the_fit(people, tmp_path, capsys):
    path = Path(people())
    header, *rows = path.read_text().splitlines()
    wide = [f"{i % 300},{row}" for i, row in enumerate(rows)]
    path.write_text("\n".join([f"subject#,{header}", *wide]) + "\n")
    base = ["--target", "salary", "--sensitive", "sex"]
    assert run(tmp_path, str(path), *base) == 0
    said = capsys.readouterr()
    line = (
        "By its name, the column 'subject#' tells persons apart: leave it out by --drop"
    )
    assert line in " ".join(said.err.split("[1/4]")[0].split())
    assert "\n" in said.err and line in " ".join(report(tmp_path)["warnings"])
    assert run(tmp_path, str(path), *base, "--drop", "subject#") == 0
    assert "tells persons apart" not in " ".join(capsys.readouterr().err.split())


def test_fewer_rows_of_a_person_than_one_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--rows-per-person", "0"])
    assert "--rows-per-person must be 1 or more" in capsys.readouterr().err


def test_sentences_about_numbers_that_promise_little(tmp_path, capsys):
    path = tmp_path / "few.csv"
    rows = [f"{i % 37},{'fm'[i % 2]},{i % 60}" for i in range(200)]
    path.write_text("\n".join(["age,sex,pay", *rows]) + "\n")
    arguments = [str(path), "--target", "pay", "--sensitive", "sex", "--bounds"]
    arguments += ["10", "40", "--epsilon", "50", "--delta", "0.01"]
    assert run(tmp_path, *arguments) == 0
    captured = capsys.readouterr()
    said = captured.err + captured.out
    for words in (
        "delta = 0.01 is not below 1 / n",
        "epsilon = 50 promises little",
        "lie outside the bounds",
    ):
        assert words in " ".join(said.split())
    assert run(tmp_path, *arguments, "--epsilon", "0.05") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "The groups are small for this budget" in said
    # said before the first model is fitted
    assert said.index("small for this budget") < said.index("[1/5]")


def test_a_group_of_next_to_nobody_does_not_make_the_others_small(tmp_path, capsys):
    path = tmp_path / "two.csv"
    rows = [f"{i % 37},{'fm'[i % 2]},{i % 60}" for i in range(6000)]
    path.write_text("\n".join(["age,sex,pay", *rows, "30,x,7", "31,x,8", "5,x,8"]))
    arguments = [str(path), "--target", "pay", "--sensitive", "sex", "--bounds"]
    assert run(tmp_path, *arguments, "0", "60") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Groups with few training rows: x (" in said
    assert "groups are small" not in said


@pytest.mark.parametrize("listed", [False, True])
def test_made_up_people_are_of_the_groups_that_are_learnt(
    tmp_path, capsys, monkeypatch, listed
):
    """Six groups were rehearsed where three are learnt: .49 was said of .23."""
    from fairpriv_sklearn import model_selection

    rehearsed = []

    def expected_error(estimator, *, group_sizes, n_repeats):
        rehearsed.append(dict(zip(estimator.groups, group_sizes, strict=True)))
        return SimpleNamespace(violation=0.3, violation_without_noise=0.1)

    monkeypatch.setattr(model_selection, "expected_error", expected_error)
    path, sizes = tmp_path / "six.csv", (2000, 600, 90, 80, 75, 500)
    names = np.repeat([*"abcde", "all others"], sizes)
    rows = [f"{i % 37},{name},{i % 60}" for i, name in enumerate(names)]
    path.write_text("\n".join(["age,tribe,pay", *rows]) + "\n")
    arguments = [str(path), "--target", "pay", "--sensitive", "tribe"]
    arguments += ["--groups", *"abcde", "all others"] if listed else []
    assert run(tmp_path, *arguments) == 0
    said = " ".join(capsys.readouterr().err.split())
    as_one = ", groups too small to be learnt as 'all others', a gap of about 0.30"
    assert (as_one in said) == (not listed)
    (told,) = rehearsed
    assert told == report(tmp_path)["group_sizes"]
    assert len(told) == (6 if listed else 3)


@pytest.mark.parametrize(
    ("without", "words"),
    [
        (0.12, "The groups are small for this budget: .* of about 0.30 remains, and"),
        (0.31, "The groups are small: .* remains, with noise or without; more rows or"),
    ],
)
def test_a_gap_that_remains_is_put_down_to_noise_or_chance(
    tmp_path, capsys, monkeypatch, without, words
):
    from fairpriv_sklearn import model_selection

    expected = SimpleNamespace(violation=0.3, violation_without_noise=without)
    monkeypatch.setattr(model_selection, "expected_error", lambda *a, **k: expected)
    assert run(tmp_path) == 0
    assert re.search(words, " ".join(capsys.readouterr().err.split()))


@pytest.mark.parametrize(
    ("note", "more", "said"),
    [
        (None, 0.5, "Fairness costs accuracy here: RMSE 1.52"),
        ("The repair stood back: no.", 0.5, "learnt from less and is less"),
        (None, 0.0, None),  # in one of 400 rows: by chance
    ],
)
def test_fairness_costs_accuracy_only_where_it_is_seen(note, more, said):
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    errors = rng.choice([-1.0, 1.0], 400) * [[1.0], [1 + more]]
    errors[1, 0] = 6.0
    found = [
        Result(name, float(np.sqrt(np.mean(e**2))), 1e-3, 0.3 - 0.1 * i, 0.01, 0.02)
        for i, (name, e) in enumerate(
            zip(
                ("plain", "private", "private and fair"), errors[[0, 0, 1]], strict=True
            )
        )
    ]
    table = SimpleNamespace(task="regression", target="pay")
    measures = SimpleNamespace(error_name="RMSE")
    one = study.Study(
        "", table, SimpleNamespace(bounds=None), measures, 400, 400, {},
        found, replace(found[0], error=9.0), [y + errors[i] for i in (0, 0, 1)],
        np.array(["f", "m"] * 200), y, model=SimpleNamespace(repair_notes_=[]),
    )  # fmt: skip
    one.results = [replace(r, n_predicted=400) for r in found]
    one.model.repair_notes_ = [note] if note else []
    warned = study.after_fitting(one)
    about = [w for w in warned if "accura" in w]
    assert (said in about[0]) if said else not about
    one.model.repair_notes_ = ["groups ['f', 'all others'] differ", "['all others']"]
    assert study.after_fitting(one)[0] == "groups ['f'] differ"
    assert not any("all others" in w for w in study.after_fitting(one))
    one.group_sizes = {"f": (400, 400), "all others": (300, 300)}
    named = "['f', 'all others']", "['all others']"
    one.model.repair_notes_ = [f"the groups {groups} differ" for groups in named]
    assert study.after_fitting(one)[:2] == [
        "the groups ['f'] and those of no listed group differ",
        "those of no listed group differ",
    ]


def test_a_plain_model_that_errs_more_is_no_sign_that_privacy_is_free(tmp_path, capsys):
    path = tmp_path / "curve.csv"
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, 6000)
    ill = np.abs(age - 50) + rng.normal(0, 5, 6000) > 25
    rows = [
        f"{a},{'fm'[i % 2]},{int(b)}"
        for i, (a, b) in enumerate(zip(age, ill, strict=True))
    ]
    path.write_text("\n".join(["age,sex,ill", *rows]) + "\n")
    base = [str(path), "--target", "ill", "--sensitive", "sex"]
    assert run(tmp_path, *base, "--epsilon", "3") == 0
    said = "That privacy costs nothing does not follow."
    assert said in " ".join(capsys.readouterr().out.split())
    assert said in (tmp_path / "out" / "report.md").read_text()
    assert run(tmp_path) == 0  # its target is linear in the columns
    assert said not in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("option", "name", "endings"),
    [
        ("--card", "card.pdf", ".md or .html or .yaml or .yml or .json"),
        ("--save", "model.pkl", ".skops"),
    ],
)
def test_a_file_is_what_its_name_says(tmp_path, capsys, option, name, endings):
    assert run(tmp_path, option, str(tmp_path / name)) == 2
    assert f"{name}' must end in {endings}." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # nothing was fitted
    assert main(["predict", "m.skops", "new.csv", "--out", "p.xlsx"]) == 2
    assert "'p.xlsx' must end in .csv or .txt" in capsys.readouterr().err


def test_a_model_with_one_class_is_called_so(tmp_path, capsys, monkeypatch):
    from fairpriv_sklearn._cli import report as page

    drawn, draw = [], page._draw_rates
    monkeypatch.setattr(
        page, "_draw_rates", lambda *args: drawn.append(draw(*args)) or drawn[0]
    )
    path = tmp_path / "rare.csv"
    rows = [
        f"{i % 37},{'fm'[i % 2]},{'yes' if i % 40 == 0 else 'no'}" for i in range(800)
    ]
    path.write_text("\n".join(["age,sex,ill", *rows]) + "\n")
    assert run(tmp_path, str(path), "--target", "ill", "--sensitive", "sex") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "predicts one class for everybody" in out
    # Shares are not negative, and none of one is not a twentieth.
    assert drawn[0].axes[0].get_xlim() == (0.0, 1.0)


@pytest.mark.parametrize("target", ["salary", "hired"])
def test_a_column_that_says_the_target_is_told_of(people, tmp_path, capsys, target):
    """An error of nearly nothing was printed without a word, as if it were good."""
    lines = Path(people()).read_text().splitlines()
    copied = lines[0].split(",").index(target)
    for share, told in ((1.0, True), (0.9, False)):
        path = tmp_path / "copied.csv"
        rows = [
            f"{line},{line.split(',')[copied] if i < share * 3000 else ''}"
            for i, line in enumerate(lines[1:])
        ]
        path.write_text("\n".join([f"{lines[0]},copy", *rows]) + "\n")
        drop = {"salary": "hired", "hired": "salary"}[target]
        base = [str(path), "--target", target, "--sensitive", "sex", "--drop", drop]
        assert run(tmp_path, *base, "--force") == 0
        said = " ".join(capsys.readouterr().out.split())
        assert (f"a column may say what {target} is" in said) is told


def test_panels_of_a_picture_leave_room_for_each_other(tmp_path, monkeypatch):
    """A question as the name of a column, and answers as classes."""
    from fairpriv_sklearn._cli import report as page

    drawn, draw = [], page._draw_rates
    monkeypatch.setattr(
        page, "_draw_rates", lambda *args: drawn.append(draw(*args)) or drawn[0]
    )
    answers = ["Once a year or less", "A few times per month, or per week", "Never"]
    path, target = tmp_path / "planes.csv", "How often do you travel by plane?"
    rows = [f'{i % 37},{"fm"[i % 2]},"{answers[i % 3]}"' for i in range(900)]
    path.write_text("\n".join([f"age,sex,{target}", *rows]) + "\n")
    assert run(tmp_path, str(path), "--target", target, "--sensitive", "sex") == 0
    (figure,) = drawn
    figure.draw_without_rendering()
    titles = [ax.title for ax in figure.axes]
    assert [" ".join(t.get_text().split()) for t in titles] == [
        f"{target} = {answer}" for answer in sorted(answers)
    ]
    for texts in titles, [ax.xaxis.label for ax in figure.axes]:
        boxes = [text.get_window_extent() for text in texts]
        assert all(a.x1 < b.x0 for a, b in zip(boxes, boxes[1:], strict=False))


@pytest.mark.parametrize(
    "labels",
    [("True", "False"), ("TRUE", "no"), ("31 Jan", "2020-01-31"), ("e\u0301", "n")],
)
def test_labels_are_learnt_whatever_they_look_like(tmp_path, capsys, labels):
    """Not as the flags, the numbers and the dates that cells of features are."""
    rng = np.random.default_rng(0)
    n, (one, other) = 3000, labels
    sex, age = rng.random(n) < 0.5, rng.integers(18, 80, size=n)
    ill = rng.random(n) < np.where(age > 50, 0.8, 0.2)
    rows = [
        f"{a},{one if s else other},{one if i else other}"
        for a, s, i in zip(age, sex, ill, strict=True)
    ]
    path, saved = tmp_path / "flags.csv", tmp_path / "model.skops"
    path.write_text("\n".join(["age,group,ill", *rows]) + "\n", encoding="utf-8")
    base = ["--target", "ill", "--sensitive", "group", "--epsilon", "5"]
    assert run(tmp_path, str(path), *base, "--save", str(saved)) == 0
    assert {"the groups of group", "the classes of ill"} <= set(
        report(tmp_path)["learnt"]
    )
    assert (
        "too small" not in (said := capsys.readouterr().out) and "too rare" not in said
    )
    sizes = report(tmp_path)["group_sizes"]
    listed = {unicodedata.normalize("NFC", label) for label in labels}
    assert set(sizes) == listed and min(sizes.values()) > 1000
    for model in report(tmp_path)["models"]:
        assert model["error"] < 0.3
    out = tmp_path / "predicted.csv"
    assert main(["predict", str(saved), str(path), "--out", str(out)]) == 0
    told = [line.rsplit(",", 1)[1] for line in out.read_text().splitlines()[1:]]
    assert set(told) == listed
    assert "does not know" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "declared", "stated"),
    [
        ("salary", [], "groups=['f', 'm'] (released)"),
        ("hired", ["f", "m"], "groups=['f', 'm'];"),
    ],
)
def test_the_classes_of_a_model_of_the_groups_are_stated_as_the_groups(
    people, tmp_path, capsys, target, declared, stated
):
    arguments = ["--target", target, "--sensitive", "sex", "--blind"]
    arguments += ["--groups", *declared] if declared else []
    assert run(tmp_path, people(), *arguments) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert stated in said and "classes=['f', 'm']" not in said


def test_a_rare_class_is_what_the_frequent_one_is_not(tmp_path, capsys):
    """One case in forty: too few for its name, not to be learnt."""
    rng = np.random.default_rng(0)
    ill = rng.random(3000) < 1 / 40
    sign = (rng.normal(size=3000) + 5 * ill).round(3)
    path = tmp_path / "cases.csv"
    words = np.where(ill, "yes", "no")
    rows = [
        f"{s},{'fm'[i % 2]},{w}"
        for i, (s, w) in enumerate(zip(sign, words, strict=True))
    ]
    path.write_text("\n".join(["sign,sex,state", *rows]) + "\n")
    saved = tmp_path / "model.skops"
    base = ["--target", "state", "--sensitive", "sex", "--epsilon", "1.2"]
    assert run(tmp_path, str(path), *base, "--save", str(saved)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{ill.sum()} rows of a class too rare to be learnt" in said
    plain = report(tmp_path)["models"][0]  # learns the same two classes
    assert plain["error"] < 0.5 * report(tmp_path)["constant"]["error"]
    assert "classes=['all others', 'no'] (released)" in said
    out = tmp_path / "predicted.csv"
    assert main(["predict", str(saved), str(path), "--out", str(out)]) == 0
    told = [line.rsplit(",", 1)[1] for line in out.read_text().splitlines()[1:]]
    assert set(told) <= {"no", "all others"}


@pytest.mark.parametrize("label", ["$x^$", "a|b", "<b>", "_x", "`c`", "\x1b[31m"])
@pytest.mark.parametrize("where", ["groups", "classes", "target"])
def test_labels_with_markup_break_nothing(tmp_path, label, where):
    path = tmp_path / "markup.csv"
    group = [label if where == "groups" else "f", "m"]
    name = label if where == "target" else "pay"
    cls = [label if where == "classes" else "u", "v"]
    rows = [f"{i % 37},{group[i % 2]},{cls[i % 3 % 2]}" for i in range(300)]
    path.write_text("\n".join([f"age,sex,{name}", *rows]) + "\n")
    assert run(tmp_path, str(path), "--target", name, "--sensitive", "sex") == 0
    assert (tmp_path / "out" / "report.png").exists()
    text = (tmp_path / "out" / "report.md").read_text()
    assert "<b>" not in text and "\x1b" not in text
    for line in text.splitlines():
        if line.startswith("| a"):
            bars = 3 if line.startswith("| assumed") else 4
            assert line.replace("\\|", "").count("|") == bars


def test_groups_with_long_names_alike_stay_two_in_the_picture(tmp_path, monkeypatch):
    from fairpriv_sklearn.inspection import GroupDistributionDisplay

    drawn = []
    plot = GroupDistributionDisplay.plot
    monkeypatch.setattr(
        GroupDistributionDisplay,
        "plot",
        lambda self, **how: drawn.append(self.groups) or plot(self, **how),
    )
    names = ["x" * 50 + end for end in "ab"]
    rows = [f"{i % 37},{names[i % 2]},{i % 101}" for i in range(300)]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["age,sex,pay", *rows]) + "\n")
    asked = ["--target", "pay", "--task", "regression", "--sensitive", "sex"]
    assert run(tmp_path, str(path), *asked) == 0
    assert drawn == [names]


@pytest.mark.parametrize(
    "classes, told", [("ab", ""), ("abcdef", ""), ("abcdefgh", "Not drawn: 2 more")]
)
def test_the_picture_says_how_many_classes_it_leaves_out(classes, told):
    plt = pytest.importorskip("matplotlib.pyplot")
    y = np.array(list(classes))
    drawn = SimpleNamespace(
        group_sizes={"g": (9, len(y))},
        learnt=SimpleNamespace(classes=list(classes)),
        table=SimpleNamespace(target="level"),
        results=[SimpleNamespace(name="plain")],
        predictions=[y],
        test_labels=np.full(len(y), "g"),
    )
    figure = _draw_rates(drawn, plt)
    (note,) = (text.get_text() for text in figure.axes[0].texts)
    assert note.startswith("Not private") and ("Not drawn" in note) == bool(told)
    assert told in note
    plt.close(figure)


def test_the_picture_has_fonts_for_the_signs_that_the_usual_one_lacks():
    fonts = pytest.importorskip("matplotlib.font_manager")
    usual = fonts.FontProperties().get_family()
    # In none, in the usual one, in one that comes with matplotlib.
    assert families("\U0010fffd") == families("abc 1é") == usual
    sign = "\ue000"
    (other,) = families("a" + sign)[len(usual) :]
    file = fonts.findfont(fonts.FontProperties(family=[other]))
    assert ord(sign) in fonts.get_font(file).get_charmap()
    assert fonts.FontProperties().get_family() == usual  # for what others draw


def test_a_name_that_another_encoding_hides_is_no_riddle(tmp_path, capsys):
    path = tmp_path / "japan.csv"
    path.write_bytes("年齢,性別,給与\n30,女,5\n31,男,6\n".encode("cp932"))
    asked = ["--target", "給与", "--sensitive", "性別"]
    assert run(tmp_path, str(path), *asked) == 2
    assert "not UTF-8" in (said := capsys.readouterr().err) and "--encoding" in said


def test_reports_of_others_are_not_overwritten(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.md").write_text("mine")
    assert run(tmp_path) == 2
    assert "is no report of this program" in capsys.readouterr().err
    assert (tmp_path / "out" / "report.md").read_text() == "mine"


def test_a_card_that_was_filled_in_is_not_overwritten(people, tmp_path, capsys):
    again = [people(), "--target", "salary", "--sensitive", "sex"]
    card = tmp_path / "out" / "card.md"
    assert run(tmp_path, *again) == 0 and run(tmp_path, *again) == 0
    filled = card.read_text(encoding="utf-8").replace("[ ]", "[x]")
    card.write_text(filled, encoding="utf-8")
    assert run(tmp_path, *again) == 2
    assert "card.md has been written in; name another" in capsys.readouterr().err
    assert card.read_text(encoding="utf-8") == filled
    assert run(tmp_path, *again, "--force") == 0
    assert "[ ]" in card.read_text(encoding="utf-8")
    card.unlink()
    assert run(tmp_path, *again) == 0 and card.exists()


# --------------------------------------------------------------------------- real files
def script(name):
    """A script of examples/benchmarks as a module."""
    import importlib.util

    path = Path(__file__).parents[1] / "examples" / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_real_world_files(tmp_path):
    pytest.importorskip("openpyxl")
    pytest.importorskip("pyarrow")
    found = list(script("read_variants").outcomes(tmp_path))
    good = [outcome for right, _, outcome in found if right]
    assert len(good) >= 60 and set(good) == {"right"}
    rest = [outcome for right, _, outcome in found if not right]
    assert all(outcome.startswith("sentence: ") for outcome in rest)


def test_a_column_of_another_sheet_is_missing(tmp_path, capsys):
    pytest.importorskip("openpyxl")
    import pandas as pd

    path = tmp_path / "people.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"note": ["a"]}).to_excel(book, sheet_name="about", index=False)
        pd.DataFrame({"wage": [1], "sex": ["f"]}).to_excel(book, sheet_name="people")
        pd.DataFrame({"code": [1]}).to_excel(book, sheet_name="more")
    assert run(tmp_path, str(path), "--target", "pay", "--sensitive", "sex") == 2
    said = capsys.readouterr().err
    assert "no column 'pay'" in said
    said = " ".join(said.split())
    assert (
        "Left out: the other sheets, 'about', 'more': 'people' was read (--sheet names "
        "another)." in said
    )
    with pd.ExcelWriter(path, mode="a") as book:
        book.book.remove(book.book["more"])
    (said,) = (one for one in read_table(path).left_out if "sheet" in one)
    assert said.startswith("the other sheet, 'people': 'about' was read")


def test_malformed_inputs_get_a_result_or_one_sentence(tmp_path):
    pytest.importorskip("openpyxl")
    malformed = script("malformed_inputs")
    for number, (files, arguments) in enumerate(malformed.inputs(64, seed=1)):
        folder = tmp_path / str(number)
        folder.mkdir()
        what = malformed.outcome(main, files, arguments, folder)
        assert what in ("result", "sentence"), (arguments, what)


@pytest.mark.parametrize("model", ["linear", "network"])
def test_an_epsilon_near_nothing_ends_in_one_sentence(people, tmp_path, capsys, model):
    for epsilon in ("1e-4", "2e-4", "3e-3"):
        base = ["--target", "salary", "--sensitive", "sex", "--base-model", model]
        status = run(tmp_path, people(), *base, "--epsilon", epsilon, "--force")
        said = capsys.readouterr().err
        assert status in (0, 2) and "internal" not in said, said


def test_without_pandas_one_sentence_says_what_to_install(
    people, tmp_path, capsys, monkeypatch
):
    path = people()
    monkeypatch.setitem(sys.modules, "pandas", None)
    base = ["--target", "salary", "--sensitive", "sex"]
    for arguments in ([path, *base], []):
        assert run(tmp_path, *arguments) == 2
        assert "pip install pandas" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *[("size", "text"), ("size", None), ("size", 0.5), ("size", date(2020, 1, 31))],
        *[("pay", "text"), ("late", None), ("late", 0.5), ("since", 0.5)],
        *[("sex", None), ("sex", "text"), ("tags", ["a"])],
    ],
)
def test_cells_of_a_typed_file_change_releases_only(tmp_path, monkeypatch, name, cell):
    """One text, or one gap, makes another type of the whole column."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("skops")
    pd = pytest.importorskip("pandas")
    from fairpriv_sklearn._cli.saved import load_model

    monkeypatch.setattr(study, "before_spending", lambda *given: [])
    monkeypatch.setattr(study, "N_RESAMPLES", 2)
    n = np.arange(3000)
    table = {
        "size": n % 7,
        "pay": n % 11 / 4,
        "late": n % 5 > 3,
        "since": pd.date_range("2015-01-01", periods=len(n)),
        "tags": [None] * len(n),
        "sex": n % 3 > 0,
        "hired": np.where(n % 7 > 3, "y", "n"),
    }
    path, model = tmp_path / "a.parquet", tmp_path / "m.skops"
    named = ["--target", "hired", "--sensitive", "sex", "--task", "classification"]
    named += ["--force", "--save", str(model)]

    def leaving(table, replayed=None):
        pd.DataFrame(table).to_parquet(path)
        with recording(replayed) as seen:
            assert run(tmp_path, str(path), *named) == 0
        return seen, leaves_of(load_model(str(model)))

    first, content = leaving(table)
    assert not load_model(str(model))["guarantee"].conditional_on
    cells = list(table[name])
    cells[3] = cell
    if type(cell) in (str, date) or name in ("late", "since"):
        cells = list(map(str, cells))  # of one type, as a writer needs them
    second, again = leaving(table | {name: cells}, first)
    assert not leaf_differences(content, again)
    for one, other in zip(first.crossings, second.crossings, strict=True):
        change = np.linalg.norm(one.exact.astype(float) - other.exact)
        assert change <= one.sensitivity


def test_columns_of_databases(tmp_path):
    """DECIMAL, lists, a year that Python does not know: "damaged", or an error."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, amounts = tmp_path / "a.parquet", np.arange(300) % 7
    days = np.r_[np.full(299, 18_000), 10**7].astype(np.int32)
    table = {
        "amount": pa.array([Decimal(f"{amount}.10") for amount in amounts]),
        "since": pa.array(days).cast(pa.date32()),
        "tags": pa.array([["a", "b"]] * 300),
        "sex": ["f", "f", "m"] * 100,
        "hired": np.where(amounts > 3, "y", "n"),
    }
    parquet.write_table(pa.table(table), path)
    columns = read_table(path).columns
    assert columns["since"][-2:] == [date(2019, 4, 14), None]
    arguments = [str(path), "--target", "hired", "--sensitive", "sex"]
    assert run(tmp_path, *arguments, "--epsilon", "100") == 0
    told = report(tmp_path)
    assert told["left_out"] == ["'tags', whose cells are lists or records"]
    assert min(row["error"] for row in told["models"][1:]) < 0.1


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    told = f"fairpriv_sklearn {fairpriv_sklearn.__version__}\n"
    assert capsys.readouterr().out == told


def test_who_names_no_target_is_told_the_columns(tmp_path, capsys):
    path = tmp_path / "pension.csv"
    path.write_text("age,sex,pension\n60,f,1\n61,m,2\n")
    for more in ([], ["--target", "pension"], ["--sensitive", "sex"]):
        with pytest.raises(SystemExit):
            main([str(path), *more])
        said = capsys.readouterr().err
        assert "needs --target COLUMN and --sensitive COLUMN" in said
        assert "; its columns are age, sex, pension (--help" in said


def test_columns_that_are_only_lined_up_are_told_to_need_a_separator(tmp_path, capsys):
    """A published table of marriages is so; its header passed for five columns."""
    path = tmp_path / "divorce.dat"
    rows = ["  id       heduc  div"]
    rows += [f"{i:4}  {'< 12 years' if i % 3 else 'none'}  No" for i in range(20)]
    path.write_text("\n".join(rows))
    assert run(tmp_path, str(path), "--target", "div", "--sensitive", "heduc") == 2
    said = " ".join(capsys.readouterr().err.split())
    told = (
        "one column, 'id heduc div': name the character between columns by --separator"
    )
    assert told in said and "its columns are" not in said
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "one.parquet"  # has no lines
    pd.DataFrame({"age": [1, 2]}).to_parquet(path)
    assert run(tmp_path, str(path), "--target", "div", "--sensitive", "heduc") == 2
    assert "'div'; its columns are age." in capsys.readouterr().err


def test_a_target_of_dates_is_read_where_the_codebook_says_so(tmp_path, capsys):
    path, book = tmp_path / "people.csv", tmp_path / "people.json"
    days = [f"20{10 + i % 9}-0{1 + i % 8}-1{i % 7}" for i in range(300)]
    rows = [f"{day},{'fm'[i % 2]},{i % 50}" for i, day in enumerate(days)]
    path.write_text("\n".join(["größe,sex,age", *rows]) + "\n", "utf-8")
    arguments = [str(path), "--target", "größe", "--sensitive", "sex"]
    arguments += ["--task", "regression"]
    assert run(tmp_path, *arguments) == 2
    said = capsys.readouterr().err
    told = re.search(r"a codebook says (\{.*\})\.", said)
    assert "größe" in told[1]
    book.write_text(told[1], "utf-8")
    assert run(tmp_path, *arguments, "--codebook", str(book)) == 0


def test_the_sheet_with_the_named_columns_is_read(tmp_path, capsys):
    pytest.importorskip("openpyxl")
    import pandas as pd

    path, model = tmp_path / "people.xlsx", tmp_path / "model.skops"
    people = pd.DataFrame(
        {
            "wage": [i % 60 for i in range(300)],
            "sex": ["fm"[i % 2] for i in range(300)],
            "age": [i % 50 for i in range(300)],
        }
    )
    with pd.ExcelWriter(path) as book:
        about = pd.DataFrame({"wage": ["of a month"], "note": ["2024"]})
        about.to_excel(book, sheet_name="about", index=False)
        people[:0].to_excel(book, sheet_name="form", index=False)
        people.to_excel(book, sheet_name="people", index=False, startrow=2)
        people[:200].to_excel(book, sheet_name="old", index=False)
        book.sheets["people"].cell(1, 1).value = "All people"
    arguments = [str(path), "--target", "wage", "--sensitive", "sex", "--task"]
    assert run(tmp_path, *arguments, "regression", "--save", str(model)) == 0
    said = " ".join(capsys.readouterr().out.split())
    sizes = re.search(r"([\d,]+) training rows \+ ([\d,]+) test rows", said)
    assert int(sizes[1]) + int(sizes[2]) == 300
    out = tmp_path / "predicted.csv"
    assert main(["predict", str(model), str(path), "--out", str(out)]) == 0
    assert len(pd.read_csv(out)) == 300
    drawn = tmp_path / "drawn.csv"
    arguments = ["synthesize", str(path), "--target", "age", "--out", str(drawn)]
    assert main(arguments) == 0
    assert len(pd.read_csv(drawn)) == 300
    # What a codebook names is looked for, too, and what is named for one to fill in.
    book = tmp_path / "book.json"
    arguments = [str(path), "--target", "wage", "--sensitive", "sex"]
    assert main([*arguments, "--write-codebook", str(book)]) == 0
    assert list(json.loads(book.read_text())) == ["wage", "sex", "age"]
    told = [str(path), "--codebook", str(book), "--out", str(drawn), "--force"]
    assert main(["synthesize", *told]) == 0
    assert len(pd.read_csv(drawn)) == 300
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([str(path), "--target", "age"])
    assert "; its columns are wage, sex, age (--help" in capsys.readouterr().err
    # A name that is misspelt is missing from the sheet that has the others.
    arguments = [str(path), "--target", "wages", "--sensitive", "sex"]
    assert run(tmp_path, *arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "no column 'wages'; its columns are wage, sex, age." in said
    assert "'about', 'form', 'old': 'people' was read (--sheet names" in said
    # Without such a sheet it is the first one with rows, as a codebook to fill in has.
    assert list(read_table(path).columns) == ["wage", "note"]
    assert list(read_table(path, names=["wages"]).columns) == ["wage", "note"]
