"""Every statistic has a proof, and its code is the code the proof speaks of.

A stamp is a hash of the syntax trees, without comments and docstrings, of the methods
of a query and of the functions of the same module that they call. When a stamp is
stale, read the named theorem again beside the code, and then stamp anew::

    python tests/test_proof_stamps.py
"""

import ast
import hashlib
import importlib
import inspect
import json
import pathlib
import pkgutil
import sys

import numpy as np
import pytest

import fairpriv_sklearn
from fairpriv_sklearn._wall import Query
from fairpriv_sklearn.linear_model import DPLinearRegression
from fairpriv_sklearn.metrics import dp_group_rates
from fairpriv_sklearn.model_selection import _search, _validation
from fairpriv_sklearn.privacy import PrivacyGuarantee

ROOT = pathlib.Path(__file__).parents[1]
STAMPS = pathlib.Path(__file__).parent / "proof_stamps.json"
METHODS = ("n_coordinates", "max_rows", "sensitivity", "of_block", "value", "of_rows")


def queries():
    """All queries of the package, by the name of their class."""
    for found in pkgutil.walk_packages(fairpriv_sklearn.__path__, "fairpriv_sklearn."):
        if "__main__" not in found.name:
            importlib.import_module(found.name)
    waiting, known = [Query], {}
    while waiting:
        for cls in waiting.pop().__subclasses__():
            waiting.append(cls)
            if cls.__module__.startswith("fairpriv_sklearn") and not inspect.isabstract(
                cls
            ):
                known[f"{cls.__module__}.{cls.__qualname__}"] = cls
    return dict(sorted(known.items()))


QUERIES = queries()


def stamp(cls) -> str:
    """Hash of the code that a proof speaks of."""
    sources, known = [], set()
    for home in cls.__mro__[: cls.__mro__.index(Query)]:  # what it inherits counts too
        own = [name for name in METHODS if name in vars(home) and name not in known]
        known.update(own)
        code = [_tree(_function(vars(home)[name])) for name in own]
        sources += code + _helpers(code, sys.modules[home.__module__])
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]


def _helpers(sources: list[str], module) -> list[str]:
    """Canonical sources of the package's functions that some code calls by name."""
    names = {
        node.id
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name)
    }
    helpers = [getattr(module, name, None) for name in sorted(names)]
    return [
        _tree(helper)
        for helper in helpers
        if inspect.isfunction(helper)
        and (helper.__module__ or "").startswith("fairpriv_sklearn")
    ]


def _function(member):
    return getattr(member, "fget", None) or getattr(member, "func", None) or member


def _tree(function) -> str:
    """Canonical source of a function: no comments, docstrings, layout or types."""
    if not inspect.isfunction(function):
        return repr(function)
    tree = ast.parse(
        inspect.cleandoc("\n" + inspect.getsource(inspect.unwrap(function)))
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
            node.returns = None
            for argument in [*node.args.args, *node.args.kwonlyargs]:
                argument.annotation = None
    return ast.unparse(tree)


def theorem_of(cls) -> str:
    theorem = inspect.getattr_static(cls, "theorem", None)
    return (
        theorem
        if isinstance(theorem, str)
        else cls.__dataclass_fields__["theorem"].default
    )


TOTALS = [_validation._THEOREM, _search._THEOREM, "privacy/composition:splits"]


@pytest.mark.parametrize("theorem", [*map(theorem_of, QUERIES.values()), *TOTALS])
def test_every_query_names_a_theorem_that_exists(theorem):
    page, _, label = theorem.partition(":")
    text = (ROOT / "docs" / f"{page}.rst").read_text()
    assert f".. _{label}:" in text, f"no label {label!r} on the page {page!r}"


def test_a_guarantee_links_to_its_proofs():
    X = np.random.default_rng(0).uniform(size=(600, 2))
    model = DPLinearRegression(bounds=(0, 1), target_bounds=(0, 1)).fit(X, X[:, 0])
    proofs = model.privacy_.proofs
    page = "user_guide/linear_models_proofs.html"
    assert proofs == (
        "privacy/accounting.html#lemma-a",
        *(
            f"{page}#linear-{part}"
            for part in ("second-moments", "loss", "line-search", "constant")
        ),
    )
    labels = (X > 0.5).astype(int)
    counts = dp_group_rates(
        *(None, labels[:, 0]),
        sensitive_features=labels[:, 1],
        groups=[0, 1],
        classes=[0, 1],
        epsilon=1.0,
    ).privacy_
    both = model.privacy_.compose(PrivacyGuarantee(1.0, 0.0, "replace_one", "mine"))
    assert both.proofs == proofs == both.qualified(uncovered=["x"]).proofs
    assert counts.proofs == ("user_guide/audit.html#group-counts",)
    assert proofs[0] in model.privacy_.to_markdown()
    stored = PrivacyGuarantee.from_dict(json.loads(json.dumps(both.to_dict())))
    assert stored == both and stored.proofs == proofs
    older = {**both.to_dict(), "version": 2}
    del older["proofs"]
    assert PrivacyGuarantee.from_dict(older) == both


@pytest.mark.parametrize("name", QUERIES)
def test_proofs_are_about_this_code(name):
    stamps = json.loads(STAMPS.read_text())
    told = f"read {theorem_of(QUERIES[name])} again beside the code, then stamp anew"
    assert name in stamps, f"{name} has no stamp: {told}"
    assert stamps[name] == stamp(QUERIES[name]), f"{name} has changed: {told}"


def test_no_stamp_without_a_query():
    assert set(json.loads(STAMPS.read_text())) == set(QUERIES)


def test_a_stamp_sees_code_and_not_comments():
    class One(Query):
        name, theorem, n_coordinates = "n", "t:t", 1

        def sensitivity(self, neighboring):
            return 1.0

    class Same(Query):
        name, theorem, n_coordinates = "n", "t:t", 1

        def sensitivity(self, neighboring):
            """Documented."""
            # and explained
            return 1.0

    class Other(Query):
        name, theorem, n_coordinates = "n", "t:t", 1

        def sensitivity(self, neighboring):
            return 2.0

    assert stamp(One) == stamp(Same) != stamp(Other)


if __name__ == "__main__":
    stamps = {name: stamp(cls) for name, cls in QUERIES.items()}
    STAMPS.write_text(json.dumps(stamps, indent=1) + "\n")
