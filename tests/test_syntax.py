"""Where what may be called: read from the syntax trees of the package."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "fairpriv_sklearn"
MODULES = sorted(PACKAGE.rglob("*.py"))


def calls(path, *names):
    """Calls of a method by one of these names: (line, text of the object)."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in names:
                yield node.lineno, ast.unparse(node.func.value)


def named(path):
    return path.relative_to(PACKAGE).as_posix()


def test_noise_is_added_at_the_wall_only():
    found = {
        named(path)
        for path in MODULES
        for _, value in calls(path, "release")
        if "mechanism" in value.lower()
    }
    assert found == {"_wall.py"}


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_numpy_noise_is_drawn_nowhere(path):
    # Simulated data and the auditor's own choices are no noise.
    if named(path).startswith(("datasets/", "audit/", "distributed/")):
        return
    names = ("normal", "laplace", "standard_normal", "geometric", "uniform")
    for line, value in calls(path, *names):
        assert "np.random" not in value and "default_rng" not in value, (line, value)


def test_few_rooms_read_the_entropy_of_the_operating_system():
    found = {named(p) for p in MODULES for _, v in calls(p, "urandom") if v == "os"}
    # A journal of a distributed fit has a secret of its own.
    assert found <= {"mechanisms.py", "distributed/_journal.py"}
