"""Change one number, comparison or operator at a time; some test must fail.

::

    python tests/mutants.py [--sample N] [--seed S] [--only PART_OF_PATH] > mutants.txt

Each mutant runs in a copy of the repository against the test files named beside its
module. A mutant is killed by a failing assertion; one that dies of an import, syntax or
shape error counts as "error", one that runs into the time limit as "slow".
"""

import argparse
import ast
import copy
import itertools
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "fairpriv_sklearn"
SECONDS = 240

# What carries a promise, and the tests that look after it.
TARGETS = {
    "_shared/sensitivity.py": ["test_sensitivity.py"],
    "_wall.py": ["test_wall.py"],
    "mechanisms.py": ["test_mechanisms.py"],
    "accounting/_gaussian.py": ["test_accounting.py"],
    "accounting/_composition.py": ["test_accounting.py"],
    "accounting/_privacy_loss.py": ["test_accounting.py"],
    "linear_model/_moments.py": ["test_linear_sensitivity.py", "test_linear_model.py"],
    "linear_model/_queries.py": [
        "test_linear_queries.py",
        "test_linear_sensitivity.py",
    ],
    "neural_network/_queries.py": [
        "test_neural_objective.py",
        "test_neural_network.py",
    ],
    "postprocessing/_queries.py": ["test_postprocessing.py", "test_dp2dp.py"],
    "metrics/_private.py": ["test_metrics.py"],
    "audit/_bounds.py": ["test_audit.py"],
    "audit/_replay.py": ["test_audit.py"],
}
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}


def places(tree):
    """Yield the nodes that can be changed, with the change in words."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            skipped.update(ast.walk(node.annotation))
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            skipped.update(ast.walk(node.returns))
        if isinstance(node, ast.Raise | ast.JoinedStr):
            skipped.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node, "number"
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            yield node, "comparison"
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            if not isinstance(
                node.left, ast.Constant | ast.JoinedStr
            ) or not isinstance(getattr(node.left, "value", 0), str):
                yield node, "operator"


def mutants(path):
    """Yield (line, words, source) of every mutant of a file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for number in range(sum(1 for _ in places(tree))):
        changed = copy.deepcopy(tree)
        node, kind = next(itertools.islice(places(changed), number, None))
        before = ast.unparse(node)
        if kind == "number":
            node.value = node.value + 1 if type(node.value) is int else node.value * 2
            if node.value == 0.0:
                node.value = 1.0
        elif kind == "comparison":
            node.ops[0] = COMPARISONS[type(node.ops[0])]()
        else:
            node.op = OPERATORS[type(node.op)]()
        words = f"{before[:50]} -> {ast.unparse(node)[:50]}"
        yield node.lineno, words.replace("\n", " "), ast.unparse(changed)


def verdict(folder, tests):
    """Run the tests in `folder` and say how they ended."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line"]
    command += ["-p", "no:cacheprovider", *(f"tests/{name}" for name in tests)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        run = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "slow", ""
    if run.returncode == 0:
        return "SURVIVED", ""
    failed = re.findall(r"(?:FAILED|ERROR) (\S+)", run.stdout)
    by_assertion = re.search(r"Assert|DID NOT RAISE|Failed:|assert ", run.stdout)
    return "killed" if by_assertion else "error", failed[0] if failed else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    found = []
    for name, tests in TARGETS.items():
        path = ROOT / PACKAGE / name
        if arguments.only in name and path.exists():
            found += [(name, tests, *mutant) for mutant in mutants(path)]
    print(f"{len(found)} mutants; Python {platform.python_version()}")
    if arguments.sample is not None:
        found = random.Random(arguments.seed).sample(
            found, min(arguments.sample, len(found))
        )
    counts = {}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "copy"
        ignore = shutil.ignore_patterns(".git", "__pycache__", "docs", ".hypothesis")
        shutil.copytree(ROOT, folder, ignore=ignore)
        for name, tests, line, words, source in sorted(
            found, key=lambda m: (m[0], m[2])
        ):
            target = folder / PACKAGE / name
            original = target.read_text(encoding="utf-8")
            target.write_text(source, encoding="utf-8")
            how, by = verdict(
                folder, [t for t in tests if (folder / "tests" / t).exists()]
            )
            target.write_text(original, encoding="utf-8")
            counts[how] = counts.get(how, 0) + 1
            print(f"{how:8} | {name}:{line} | {words} | {by}", flush=True)
    print(counts)


if __name__ == "__main__":
    main()
