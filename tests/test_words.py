"""One word per idea: the words that went do not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GONE = {
    "receipt": r"\breceipts?\b",
    "law": r"\blaws?\b(?!_school| school| students|\[|\.)|\bRunLaw\b",
    "coins": r"\bcoins\b",
    "strata": r"\bcell_(sizes|weights)\b|\bCellSizes\b",
    "minimum sizes": r"\bfloors\b",
    "code book": r"\b[Cc]ode\s+books?\b",
    "noise": r"\bsource: NoiseSource\b|\bsource = noise_source\b",
}
# The law itself, and names of data sets.
FINE = re.compile(r"fetch_law|law_school|whose law|\blaw = |\(law\b|, law\b")
BUILT = {"_build", "auto_examples", "generated"}  # from these files
HERE = ("fairpriv_sklearn", "docs", "examples", "tests")


def files():
    for folder in HERE:
        for path in sorted((ROOT / folder).rglob("*")):
            known = path.suffix in (".py", ".rst", ".svg", ".css")
            if known and not BUILT & {*path.parts} and path.name != Path(__file__).name:
                yield path


@pytest.mark.parametrize("word", GONE)
def test_an_old_word_stays_away(word):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if re.search(GONE[word], line) and not (word == "law" and FINE.search(line))
    ]
    assert not found, "\n".join(found)
