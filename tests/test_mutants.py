"""The mutants that `mutants.py` runs are of today's code; running them takes hours."""

import re
from collections import Counter

import mutants
from _mutants_by_hand import EQUIVALENT, MUTANTS


def test_mutants_by_hand_are_of_this_code():
    for number, name, old, new, _ in MUTANTS:
        assert name in mutants.ALL, number
        source = (mutants.ROOT / mutants.PACKAGE / name).read_text(encoding="utf-8")
        assert source.count(old) == 1, (number, name, old)
        compile(source.replace(old, new), name, "exec")
        assert old != new, number
    assert max(Counter(number for number, *_ in MUTANTS).values()) == 1


def test_verdicts_are_of_this_code():
    """Those of a line that changed are to be taken anew."""
    keys = {mutant.key for mutant in mutants.every_mutant()}
    assert set(EQUIVALENT) <= keys, set(EQUIVALENT) - keys
    table = (mutants.ROOT / "tests" / "mutants.txt").read_text(encoding="utf-8")
    kinds = "|".join([*mutants.KINDS, "equivalent", "SURVIVED"])
    named = re.findall(rf"^(?:{kinds}) *\| (.*)", table, re.MULTILINE)
    assert len(named) > 200
    for line in named:
        assert any(line.startswith(f"{key} |") for key in keys), line


def test_modules_that_carry_a_promise_and_their_tests_exist():
    for name, tests in mutants.ALL.items():
        assert (mutants.ROOT / mutants.PACKAGE / name).exists(), name
        for file in mutants.tests_named(tests.split()):
            assert (mutants.ROOT / file).exists(), (name, file)
    for file in (*mutants.tests_named(mutants.NOT_RUN), *mutants.CHEAP):
        assert (mutants.ROOT / file).exists(), file
