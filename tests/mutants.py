"""Change one number, comparison or operator at a time; some test must fail.

::

    python tests/mutants.py map --map map.json
    python tests/mutants.py run --map map.json [--only PART] [--sample N] [--seed S]

`map` runs the tests once and notes which of them reach which line of the modules that
carry a promise, and how long they take. `run` then imports the package once for each
mutant, in a process of its own, with one module changed in memory, and runs the tests
that reach the line: first those of the module's own test files, then all others.

A mutant is "killed" by a failing assertion or the wall's own refusal, and "refused" if
only the library itself raises one of its sentences. One that dies of anything else (an
import, a shape, a type) only, is a "crash"; one that runs into the time limit is
"slow". Stamps of proofs, which see every change of a query, do not count.
"""

import argparse
import ast
import copy
import difflib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import platform
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "fairpriv_sklearn"
SECONDS = 45  # of processor time, for each round of tests of one mutant

# What carries a promise, and the tests that look after it. Of a module that holds more
# than that, only queries, what they call, and plans and shares are changed.
WHOLE = {
    "_shared/sensitivity.py": "sensitivity",
    "_wall.py": "wall wall_plans",
    "mechanisms.py": "mechanisms",
    "accounting/_events.py": "accounting privacy_objects",
    "accounting/_gaussian.py": "accounting",
    "accounting/_composition.py": "accounting privacy_objects",
    "accounting/_privacy_loss.py": "accounting",
    "privacy/_composition.py": "ledger",
}
QUERIES = {
    "_training/_bounded.py": "linear_sensitivity linear_queries",
    "_training/_counts.py": "linear_queries linear_sensitivity",
    "_training/_noisy_gradients.py": "linear_sensitivity neural_objective",
    "_training/_penalty.py": "linear_sensitivity neural_objective",
    "generative/_levels.py": "generative_privacy",
    "generative/_pairs.py": "budgets generative_pairs",
    "generative/_network_training.py": "budgets generative_privacy",
    "generative/_raw.py": "budgets generative_pairs generative",
    "generative/_semidual.py": "budgets generative_privacy",
    "generative/_sliced.py": "budgets generative_privacy",
    "generative/_sliced_gradient.py": "budgets generative_gradient",
    "generative/_slices.py": "budgets generative_privacy",
    "generative/_tables.py": "budgets generative_privacy",
    "linear_model/_gradient_plan.py": "budgets linear_queries linear_model",
    "linear_model/_minimiser.py": "linear_sensitivity",
    "linear_model/_moments.py": "linear_sensitivity linear_model",
    "linear_model/_output_perturbation.py": "budgets linear_sensitivity",
    "linear_model/_preconditioned.py": "linear_queries linear_model",
    "linear_model/_queries.py": "linear_queries linear_sensitivity",
    "linear_model/_wasserstein_logistic.py": "linear_sensitivity linear_model",
    "metrics/_private.py": "metrics",
    "model_selection/_plan.py": "budgets plan repeat search",
    "model_selection/_scoring.py": "scoring",
    "model_selection/_task.py": "scoring search validation",
    "neural_network/_base.py": "budgets neural_network neural_objective",
    "neural_network/_objective.py": "neural_objective",
    "neural_network/_queries.py": "neural_objective neural_network",
    "postprocessing/_decisions.py": "budgets dp2dp blind",
    "postprocessing/_number_repair.py": "budgets postprocessing barycenter",
    "postprocessing/_phases.py": "postprocessing dp2dp",
    "postprocessing/_queries.py": "postprocessing dp2dp barycenter blind",
    "preprocessing/_counting.py": "table_encoder",
}
# Changed by hand only.
OTHERS = {
    "_shared/guarded.py": "wall breaches",
    "_shared/purity.py": "breaches barycenter rowwise",
    "_training/_design.py": "linear_sensitivity linear_model",
    "generative/_base.py": "generative generative_privacy",
    "generative/_exact.py": "generative_privacy",
    "model_selection/_candidates.py": "search",
    "model_selection/_search.py": "search",
    "postprocessing/_histogram.py": "histogram",
    "preprocessing/_table_encoder.py": "budgets table_encoder",
}
ALL = {**WHOLE, **QUERIES, **OTHERS}
# Slow, or about something else; proof stamps see every change and say nothing.
NOT_RUN = """audit audit_breaches card cli codebook common datasets distributed
    inspection network pages parity proof_stamps rooms sinkhorn syntax wasserstein
    words""".split()

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


# --- mutants --------------------------------------------------------------------------


def places(tree, only_promises):
    """Yield the nodes that can be changed, with the kind of change."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            skipped.update(ast.walk(node.annotation))
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            skipped.update(ast.walk(node.returns))
        if isinstance(node, ast.Raise | ast.JoinedStr):
            skipped.update(ast.walk(node))
    for top in promises(tree) if only_promises else tree.body:
        for node in ast.walk(top):
            if node in skipped:
                continue
            if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                yield node, "number"
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
                yield node, "comparison"
            elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
                left = getattr(node.left, "value", 0)
                if not isinstance(node.left, ast.JoinedStr | ast.Constant) or not (
                    isinstance(left, str) or isinstance(node.left, ast.JoinedStr)
                ):
                    yield node, "operator"


def promises(tree):
    """Queries, plans and shares, and what of the module they name."""
    tops = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            tops[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        tops[name.id] = node
    waiting, found, alone = [], [], []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = " ".join(map(ast.unparse, node.bases))
            if re.search(r"Query|Release|Moments", f"{bases} {node.name}"):
                waiting.append(node)
                continue
            inner = node.body
        else:
            inner = [node]
        for part in inner:
            if not isinstance(part, ast.Import | ast.ImportFrom) and re.search(
                r"Release\(|share|SHARE|SENSITIVITY|sensitivity", ast.unparse(part)
            ):
                alone.append(part)
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.append(node)
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        waiting += [
            tops[n]
            for n in sorted(names & set(tops))
            if not isinstance(tops[n], ast.ClassDef)
        ]
    found += [node for node in alone if node not in found]
    within = {inner for node in found for inner in ast.walk(node) if inner is not node}
    return sorted((n for n in found if n not in within), key=lambda n: n.lineno)


def mutants(name):
    """Yield (name, line, words, source) of every mutant of a module."""
    source = (ROOT / PACKAGE / name).read_text(encoding="utf-8")
    tree = ast.parse(source)
    for node, kind in list(places(tree, name in QUERIES)):
        before, old = ast.unparse(node), copy.copy(node)
        if kind == "number":
            node.value = node.value + 1 if type(node.value) is int else node.value * 2
            if node.value == 0.0:
                node.value = 1.0
        elif kind == "comparison":
            node.ops = [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
        else:
            node.op = OPERATORS[type(node.op)]()
        words = f"{before[:60]} -> {ast.unparse(node)[:60]}".replace("\n", " ")
        yield name, node.lineno, words, Edited(source, node, ast.unparse(node))
        node.__dict__.update(old.__dict__)


class Edited:
    """A source with one node written anew; made when it is asked for."""

    def __init__(self, source, node, words):
        lines = source.split("\n")
        first = lines[node.lineno - 1].encode()[: node.col_offset].decode()
        last = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
        self._before = "\n".join([*lines[: node.lineno - 1], first])
        self._after = "\n".join([last, *lines[node.end_lineno :]])
        self._words = words

    def __str__(self):
        return f"{self._before}({self._words}){self._after}"


def by_hand():
    """Yield the mutants that were written by hand; see `_mutants_by_hand.py`."""
    from _mutants_by_hand import MUTANTS

    for number, name, old, new, what in MUTANTS:
        source = (ROOT / PACKAGE / name).read_text(encoding="utf-8")
        if source.count(old) != 1:
            raise SystemExit(
                f"{number}: {name} holds {old!r} {source.count(old)} times"
            )
        line = source[: source.index(old)].count("\n") + 1
        yield name, line, f"{number}: {what}", source.replace(old, new)


# --- tests ----------------------------------------------------------------------------


class Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Import one module of the package from changed source."""

    def __init__(self, name, source):
        module = f"{PACKAGE}.{name.removesuffix('.py').replace('/', '.')}"
        super().__init__(module, str(Path(PACKAGE, name).resolve()))
        self._code = compile(source, self.path, "exec")

    def find_spec(self, fullname, path=None, target=None):
        if fullname == self.name:
            return importlib.machinery.ModuleSpec(
                fullname, self, origin=self.path, is_package=False
            )
        return None

    def get_code(self, fullname):
        return self._code


class Chosen:
    """Plugin: run these tests in this order, and say how they fail."""

    def __init__(self, order, tell):
        self.order, self.tell = order, tell

    def pytest_collection_modifyitems(self, session, config, items):
        self.session = session
        if self.order is not None:
            items[:] = sorted(
                (item for item in items if item.nodeid in self.order),
                key=lambda item: self.order[item.nodeid],
            )

    def pytest_exception_interact(self, node, call, report):
        how = how_it_failed(call.excinfo)
        words = str(call.excinfo.value).strip().splitlines() or [""]
        self.tell(how, node.nodeid, f"{call.excinfo.typename}: {words[0][:80]}")
        if how == "killed":
            self.session.shouldstop = "killed"


def how_it_failed(excinfo):
    """Whether an assertion, or the wall itself, saw what is broken."""
    names = {cls.__name__ for cls in excinfo.type.__mro__}
    if names & {"PlanError", "BudgetExceededError", "Failed"}:
        return "killed"
    if "AssertionError" in names and not re.search(
        r"shapes? .*mismatch|\(shapes", str(excinfo.value)
    ):
        return "killed"
    last = excinfo.traceback[-1]
    if f"{PACKAGE}{os.sep}" in str(last.path) and str(last.statement).startswith(
        "raise"
    ):
        return "refused"
    return "crash"


class Mapping:
    """Plugin: note which test runs which line, and for how long."""

    def __init__(self, coverage):
        self.coverage, self.seconds = coverage, {}

    def pytest_runtest_protocol(self, item, nextitem):
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report):
        before = self.seconds.get(report.nodeid, 0.0)
        self.seconds[report.nodeid] = before + report.duration


def tests_named(names):
    return [f"tests/test_{name}.py" for name in names]


def all_tests():
    names = [path.stem.removeprefix("test_") for path in ROOT.glob("tests/test_*.py")]
    return tests_named(sorted(set(names) - set(NOT_RUN)))


def run_pytest(files, plugin):
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    # Plugins were imported before the fork.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with open(os.devnull, "w") as nowhere:
        with redirect_stdout(nowhere), redirect_stderr(nowhere):
            return pytest.main([*options, *files], plugins=[plugin])


def make_map(path, files):
    """Run tests once, and add to a file which of them reach which line."""
    import coverage

    folder, names = ROOT / PACKAGE, list(ALL)
    measured = coverage.Coverage(
        data_file=None,
        config_file=False,
        include=[str(folder / name) for name in names],
    )
    plugin = Mapping(measured)
    measured.start()
    run_pytest(files, plugin)
    measured.stop()
    data, sources = measured.get_data(), {}
    known = {"tests": [], "seconds": [], "lines": {}, "sources": {}}
    if Path(path).exists():
        known = json.loads(Path(path).read_text())
    numbers = {test: i for i, test in enumerate(known["tests"])}
    for test in plugin.seconds:
        if test not in numbers:
            numbers[test] = len(numbers)
            known["seconds"].append(round(plugin.seconds[test], 4))
    for name in names:
        lines = known["lines"].setdefault(name, {})
        for line, tests in data.contexts_by_lineno(str(folder / name)).items():
            found = {numbers[test] for test in tests if test in numbers}
            lines[str(line)] = sorted(found.union(lines.get(str(line), ())))
        sources[name] = (folder / name).read_text(encoding="utf-8")
    if known["sources"] not in ({}, sources):
        raise SystemExit("The package has changed since the map was begun: begin anew.")
    known.update(tests=list(numbers), sources=sources)
    Path(path).write_text(json.dumps(known))
    print(f"{len(plugin.seconds)} tests, {sum(plugin.seconds.values()):.0f} s")


class TestMap:
    """Which tests reach a line, the quickest first."""

    def __init__(self, path):
        known = json.loads(Path(path).read_text())
        self.tests, self.seconds = known["tests"], known["seconds"]
        self.lines, self.sources = known["lines"], known["sources"]
        self.files = [test.partition("::")[0] for test in self.tests]
        # Files that have gone since are left out.
        there = {file for file in set(self.files) if (ROOT / file).exists()}
        self.order = sorted(
            (i for i, file in enumerate(self.files) if file in there),
            key=self.seconds.__getitem__,
        )
        self._old = {}

    def old_lines(self, name, line):
        """Where the line stood when the map was made."""
        if name not in self._old:
            now = (ROOT / PACKAGE / name).read_text(encoding="utf-8").splitlines()
            before = self.sources.get(name, "").splitlines()
            matcher = difflib.SequenceMatcher(None, before, now, autojunk=False)
            old = {}
            for _, b1, b2, n1, n2 in matcher.get_opcodes():
                for i in range(n1, n2):
                    same = b2 - b1 == n2 - n1
                    old[i + 1] = [b1 + i - n1 + 1] if same else range(b1 + 1, b2 + 1)
            self._old[name] = old
        return self._old[name].get(line, [])

    def reaching(self, name, line):
        """The tests that reach a line, or one of those close above it."""
        for near in range(line, max(line - 12, 0), -1):
            found = set()
            for old in self.old_lines(name, near):
                found.update(self.lines.get(name, {}).get(str(old), ()))
            if found:
                return [i for i in self.order if i in found]
        return []

    def rounds(self, name, line):
        """Files and tests of the own files that reach the line; then all others."""
        own = tests_named(ALL[name].split())
        reach = self.reaching(name, line)
        first = [t for t in reach if self.files[t] in own]
        # Values that a cache keeps are computed under another test's name.
        late = [t for t in self.order if self.files[t] in own and t not in set(reach)]
        for tests in (first, [t for t in reach if t not in set(first)] + late):
            if tests:
                files = list(dict.fromkeys(self.files[t] for t in tests))
                yield files, {self.tests[t]: i for i, t in enumerate(tests)}
        unknown = [file for file in own if file not in set(self.files)]
        if unknown:
            yield unknown, None


def in_a_child(work, seconds):
    """Run ``work(tell)`` in a forked process; return what it told, and whether done."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))

        def tell(*words):
            os.write(writing, (json.dumps(words) + "\n").encode())

        try:
            work(tell)
            tell("done", "", "")
        except BaseException as error:
            tell("broken", "", repr(error))
        finally:
            os._exit(0)
    os.close(writing)
    told, stop = b"", time.time() + 6 * seconds
    os.set_blocking(reading, False)
    while True:
        with suppress(BlockingIOError):
            while part := os.read(reading, 65536):
                told += part
            break  # the other end is closed
        if time.time() > stop:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)
    os.waitpid(child, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what it may have left behind
    os.close(reading)
    lines = [json.loads(line) for line in told.decode().splitlines()]
    return [line for line in lines if line[0] != "done"], ["done", "", ""] in lines


def verdict(test_map, name, line, source):
    """How the tests end on a mutant, the test that says so, and its words."""
    crash = None
    for files, order in test_map.rounds(name, line):

        def work(tell, files=files, order=order):
            sys.meta_path.insert(0, Changed(name, source))
            if run_pytest(files, Chosen(order, tell)) > 2:
                raise RuntimeError("pytest did not run")

        told, done = in_a_child(work, SECONDS)
        for how, test, words in told:
            if how == "broken":
                raise SystemExit(words)
            if how == "killed":
                return how, test, words
            if crash is None or (how == "refused" and crash[0] == "crash"):
                crash = (how, test, words)
        if not done:
            return "slow", *(crash or ("", "", ""))[1:]
        if crash and crash[1].count("::") == 0:
            break  # it cannot even be imported
    return crash or ("SURVIVED", "", "")


def preload(files):
    """Import what is not of the package once, before all forks."""

    def probe(tell):
        Chosen.pytest_collection_modifyitems = lambda self, items: items.clear()
        run_pytest(files, Chosen({}, tell))
        tell("modules", *sys.modules)

    told, _ = in_a_child(probe, 300)
    foreign = (PACKAGE, "common", "_", "test_", "conftest")
    for module in next(line for line in told if line[0] == "modules")[1:]:
        if not module.startswith(foreign) or module.startswith("_pytest"):
            with suppress(Exception):
                importlib.import_module(module)
    assert PACKAGE not in sys.modules


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["map", "run", "count"])
    parser.add_argument("--map", default="mutants.json")
    parser.add_argument("--tests", help="for a map: these test files only")
    parser.add_argument("--sample", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--hand", action="store_true", help="those by hand only")
    parser.add_argument(
        "--mapped", action="store_true", help="where the map knows all own tests"
    )
    parser.add_argument("--skip", help="an earlier output: what is in it is left out")
    parser.add_argument("--again", help="an earlier output: its survivors only")
    arguments = parser.parse_args()
    if arguments.what == "map":
        in_copy()
        files = tests_named(arguments.tests.split()) if arguments.tests else all_tests()
        make_map(os.path.abspath(arguments.map), files)
        return
    found = list(by_hand())
    if not arguments.hand:
        for name in sorted({**WHOLE, **QUERIES}):
            found += mutants(name)
    found = [mutant for mutant in found if arguments.only in mutant[0]]
    print(f"{len(found)} mutants; Python {platform.python_version()}", flush=True)
    if arguments.what == "count":
        for name in sorted({mutant[0] for mutant in found}):
            print(sum(mutant[0] == name for mutant in found), name)
        return
    if arguments.mapped:
        test_map = TestMap(arguments.map)
        found = [
            mutant
            for mutant in found
            if set(tests_named(ALL[mutant[0]].split())) <= set(test_map.files)
        ]
    if arguments.sample is not None:
        found = random.Random(arguments.seed).sample(
            found, min(arguments.sample, len(found))
        )
        found.sort(key=lambda mutant: (mutant[0], mutant[1]))
    earlier = seen(arguments.skip) if arguments.skip else {}
    if arguments.again:
        again = seen(arguments.again)
        found = [m for m in found if again.get(_key(m), "") in ("SURVIVED", "slow")]
    test_map = TestMap(arguments.map)
    in_copy()
    preload(tests_named({test for name, *_ in found for test in ALL[name].split()}))
    counts = {}
    for name, line, words, source in found:
        if earlier.get(_key((name, line, words))):
            continue
        how, test, said = verdict(test_map, name, line, str(source))
        counts[how] = counts.get(how, 0) + 1
        test = test.replace("tests/", "")
        print(f"{how:8} | {name}:{line} | {words} | {test} | {said}", flush=True)
    print(counts)
    spent = [resource.getrusage(who) for who in (0, resource.RUSAGE_CHILDREN)]
    print(f"processor: {sum(s.ru_utime + s.ru_stime for s in spent):.0f} s")


def _key(mutant):
    return f"{mutant[0]}:{mutant[1]} | {mutant[2]}"


def seen(path):
    """Verdicts of an earlier output."""
    found = {}
    for line in Path(path).read_text().splitlines():
        if line.count(" | ") >= 3:
            how, where, words, *_ = line.split(" | ")
            found[f"{where} | {words}"] = how.strip()
    return found


def in_copy():
    """Go to a copy of the package and its tests, which nobody changes meanwhile."""
    old = (ROOT, ROOT / "tests")
    folder = Path(tempfile.mkdtemp()) / "copy"
    ignore = shutil.ignore_patterns(".git", "docs", ".hypothesis", "build")
    shutil.copytree(ROOT, folder, ignore=ignore)
    os.chdir(folder)
    globals()["ROOT"] = folder
    sys.path[:] = [str(folder), str(folder / "tests")] + [
        p for p in sys.path if p and Path(p).resolve() not in old
    ]


if __name__ == "__main__":
    main()
