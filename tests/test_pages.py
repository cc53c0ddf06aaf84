"""The three tasks of the documentation, run as they stand on their page."""

import json
import re
import shlex
from pathlib import Path

import pytest

from fairpriv_sklearn.__main__ import main
from fairpriv_sklearn.metrics import demographic_parity_difference

PAGE = Path(__file__).parents[1] / "docs" / "tasks.rst"
# Warnings that wrapped estimators of other libraries give are no concern of the pages.
pytestmark = pytest.mark.filterwarnings("default")


def blocks(label):
    """Kind and text of the code blocks below a label, in order."""
    text = PAGE.read_text(encoding="utf-8").split(f".. _{label}:")[1].split("\n.. _")[0]
    found = re.findall(r"\.\. code-block:: (\w+)\n\n((?:   .*\n|\n)+)", text)
    return [(kind, re.sub(r"(?m)^   ", "", block)) for kind, block in found]


def run(label):
    """Run the blocks: Python as Python, the command line by its main function."""
    names = {"__name__": "__main__"}
    for kind, block in blocks(label):
        if kind == "python":
            exec(compile(block, str(PAGE), "exec"), names)
            continue
        for command in block.replace("\\\n", " ").strip().split("$ ")[1:]:
            words = shlex.split(command)
            assert words[:3] == ["python", "-m", "fairpriv_sklearn"]
            assert main(words[3:]) == 0
    return names


def test_a_table_to_a_saved_model(tmp_path, monkeypatch, capsys):
    pytest.importorskip("skops")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    run("task-table")
    report = json.loads(Path("fairpriv-report/report.json").read_text())
    assert report["conditional_on"] == [] and report["task"] == "regression"
    plain, private, fair = report["models"]
    assert fair["epsilon"] <= 1 and fair["gap"] < 0.5 * plain["gap"]
    assert Path("predictions.csv").read_text().count("\n") == 6001
    assert "<html" in Path("card.html").read_text().lower()
    assert list(json.loads(Path("people.json").read_text()))[-1] == "salary"


def test_a_search_under_one_budget(capsys):
    pytest.importorskip("pandas")
    names = run("task-search")
    guarantee = names["search"].privacy_
    assert guarantee.epsilon <= 2.0 and not guarantee.conditional_on
    assert not guarantee.uncovered
    y_pred = names["search"].predict(names["frame"])
    groups = {"sensitive_features": names["sex"]}
    gap = demographic_parity_difference(names["paid"], y_pred, **groups)
    assert gap < 0.1  # without a penalty it is .15


def test_a_finished_classifier_made_fair(capsys):
    names = run("task-repair")
    before, after = map(float, capsys.readouterr().out.split()[:2])
    assert after < 0.1 < before
    assert names["fair"].privacy_.epsilon <= 1.0


def test_what_pages_import_is_there():
    """Their examples run with the documentation only, long after the tests."""
    imported = []
    for page in PAGE.parent.rglob("*.rst"):
        lines = re.sub(r"(?m)^\s*(>>>|\.\.\.|) ?", "", page.read_text(encoding="utf-8"))
        imported += re.findall(
            r"(?m)^from (fairpriv_sklearn[\w.]*) import (\([^)]*\)|.*)$", lines
        )
    for module, names in imported:
        exec(f"from {module} import {names}", {})
    assert len(imported) > 50


def test_what_once_stopped_has_a_test_or_a_page():
    """The tests and pages that the list names are there; every row names one."""
    docs, tests = PAGE.parent, Path(__file__).parent
    rows = (docs / "where_it_stopped.rst").read_text(encoding="utf-8").split("   * - ")
    for row in rows[2:]:
        _, shown = row.split("\n     - ")
        named = re.findall(r"``(test_\w+\.py)::(\w+)``", shown)
        for file, test in named:
            assert f"\ndef {test}(" in (tests / file).read_text(encoding="utf-8"), test
        pages = re.findall(r":doc:`([\w/]+)`", shown)
        assert all((docs / f"{page}.rst").is_file() for page in pages), pages
        scripts = re.findall(r"``(\.ci/[\w.]+)``", shown)
        assert all((docs.parent / script).is_file() for script in scripts), scripts
        assert named or pages or scripts, row
