"""Where what may be called: read from the syntax trees of the package."""

import ast
import functools
import importlib
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "fairpriv_sklearn"
MODULES = sorted(PACKAGE.rglob("*.py"))
EXAMPLES = sorted((PACKAGE.parent / "examples").rglob("*.py"))
DRAWS = (
    "bernoulli",
    "choice",
    "integers",
    "key",
    "standard_normal",
    "uint64",
    "uniform",
)
ASKED = (
    "decision_function",
    "fit",
    "fit_predict",
    "fit_transform",
    "predict",
    "predict_log_proba",
    "predict_proba",
    "transform",
)
# Whose methods these are: the estimator's own, or those of its network.
OWN = {"self", "self._network", "self._fitted_network()", "decoder"}
# Wrapping the methods of a class; the share of the budget for a fit.
NO_METHODS = {"cls.fit", "plan.fit"}
# The auditor looks at estimators from outside, the command line and the comparison of
# models are their users, a stream asks the estimator it belongs to part by part, and
# the planner fits made-up people.
USERS = (
    "audit/",
    "_door/_dask.py",
    "_door/_stream.py",
    "_cli/",
    "inspection/_tradeoff.py",
    "model_selection/_planner.py",
)
# The user's own pipeline, which fits its steps as scikit-learn's does.
PIPELINE = ("privacy/_budget/_pipeline.py", "super()")


@functools.cache
def nodes(path):
    return list(ast.walk(ast.parse(path.read_text())))


def calls(path, *names):
    """Calls of a method by one of these names: (line, text of the object)."""
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in names:
                yield node.lineno, ast.unparse(node.func.value)


def named(path):
    return path.relative_to(PACKAGE).as_posix()


def where(*names, of=lambda value: True):
    """Modules that call such a method of such an object."""
    return {named(p) for p in MODULES for _, value in calls(p, *names) if of(value)}


def test_noise_is_added_at_the_wall_only():
    assert where("release", of=lambda v: "mechanism" in v.lower()) == {
        "_wall/_filter.py"
    }
    assert where("release_keyed", of=lambda v: v == "mechanism") == {"_wall/_filter.py"}


def test_noise_is_drawn_by_mechanisms_and_the_filter_only():
    """Other rooms draw what hides nothing, from `NoiseSource.public()`."""
    hides_nothing = ("public", ".public()", "np", "wall")  # what the filter draws, too
    found = where(*DRAWS, of=lambda v: not v.endswith(hides_nothing))
    outside = ("datasets/", "audit/")
    assert {name for name in found if not name.startswith(outside)} == {
        "mechanisms.py",
        "_wall/_filter.py",
    }


def test_wrapped_estimators_are_called_in_one_module():
    found = {
        (named(path), line, value)
        for path in MODULES
        for line, value in calls(path, *ASKED)
        if value not in OWN and not named(path).startswith(USERS)
        if (named(path), value) != PIPELINE
    }
    assert not found, found
    guarded = nodes(PACKAGE / "_shared" / "guarded.py")
    taken = {getattr(node, "attr", None) for node in guarded}
    assert taken & set(ASKED) == {"fit"}


def test_no_method_of_a_wrapped_estimator_is_looked_up_or_handed_on():
    """As in ``getattr(estimator, name)(X)`` or ``call(estimator.fit)``."""
    for path in MODULES:
        if named(path).startswith((*USERS, "_shared/guarded.py")):
            continue
        for call in nodes(path):
            if not isinstance(call, ast.Call):
                continue
            if isinstance(call.func, ast.Call) and "getattr" in ast.unparse(call.func):
                told = ast.unparse(call.func)
                assert told.startswith("getattr(column, "), (named(path), told)
            for given in [*call.args, *(one.value for one in call.keywords)]:
                if isinstance(given, ast.Attribute) and given.attr in ASKED:
                    assert ast.unparse(given) in NO_METHODS, named(path)


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_numpy_noise_is_drawn_nowhere(path):
    # Simulated data and the auditor's own choices are no noise.
    if named(path).startswith(("datasets/", "audit/")):
        return
    names = ("normal", "laplace", "standard_normal", "geometric", "uniform")
    for line, value in calls(path, *names):
        assert "np.random" not in value and "default_rng" not in value, (line, value)


def test_few_rooms_read_the_entropy_of_the_operating_system():
    found = {named(p) for p in MODULES for _, v in calls(p, "urandom") if v == "os"}
    # A journal of a distributed fit has a secret of its own.
    assert found <= {"mechanisms.py", "_door/_journal.py"}


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_warnings_name_the_line_of_the_caller(path):
    """One function counts the frames: a fixed number is wrong after the next one."""
    allowed = named(path) == "_shared/callers.py"
    found = [line for line, owner in calls(path, "warn") if owner == "warnings"]
    assert allowed or not found, found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_what_exists(path):
    """Long studies are not run here; what they take from the package is still there."""
    for node in nodes(path):
        if not isinstance(node, ast.ImportFrom) or node.level:
            continue
        if node.module.split(".")[0] != PACKAGE.name:
            continue
        module = importlib.import_module(node.module)
        gone = [name.name for name in node.names if not hasattr(module, name.name)]
        assert not gone
