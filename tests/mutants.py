"""Change one number, comparison or operator at a time; some test must fail.

::

    python tests/mutants.py map --map map.json [--tests "wall mechanisms"]
    python tests/mutants.py run --map map.json --results found.jsonl
    python tests/mutants.py table --results found.jsonl

`map` runs tests once and notes which of them reach which line of the modules that carry
a promise, and how long they take. `run` collects the tests once; for each mutant it
forks, exchanges the code of the one function that is changed, or the constant wherever
it was imported (what else runs at import is imported changed, in a process of its own),
and runs the tests that reach the line: first those that are cheap by design, then those
of the module's own test files, the quickest first, then all others. What is in the file
of results is not run again. A test that takes much longer than usual is left.

A mutant is "killed" by a failing assertion or the wall's own refusal, and "refused" if
only the library itself raises one of its sentences. One that dies of anything else (an
import, a shape, a type) only, is a "crash": it is changed otherwise at the same place,
and "instead" if that is killed. One without an end in the time limit is "slow". Stamps
of proofs, which see every change of a query, do not count.
"""

import argparse
import ast
import difflib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import numbers
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import types
from collections import Counter, defaultdict
from contextlib import nullcontext, redirect_stderr, redirect_stdout, suppress
from itertools import islice
from pathlib import Path

import pytest
from _pytest.main import pytest_runtestloop

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "fairpriv_sklearn"
KINDS = ["killed", "instead", "refused", "crash", "slow"]
SECONDS = 20  # of processor time, for each round of tests of one mutant

# What carries a promise, and the tests that look after it. Of a module that holds more
# than that, only queries, what they call, and plans and shares are changed.
WHOLE = {
    "_shared/sensitivity.py": "sensitivity",
    "_wall/_draws.py": "wall_ends wall wall_plans",
    "_wall/_filter.py": "wall_ends wall wall_plans",
    "_wall/_plan.py": "wall_ends wall wall_plans",
    "_wall/_query.py": "wall_ends wall wall_plans bounds metrics dp2dp",
    "_wall/_rows.py": "wall_ends wall wall_plans",
    "mechanisms.py": "wall_ends mechanisms wall_plans",
    "accounting/_events.py": "privacy_objects",
    "accounting/_gaussian.py": "accounting_numbers accounting_ends accounting",
    "accounting/_composition.py": "accounting_numbers accounting_ends accounting "
    "privacy_objects",
    "accounting/_privacy_loss.py": "accounting_numbers accounting_ends accounting",
    "accounting/_loss_grid.py": "accounting_numbers accounting_ends composition "
    "accounting ledger",
    "accounting/_sides.py": "composition ledger accounting accounting_numbers",
    "privacy/_composition.py": "accounting_numbers composition ledger accounting",
}
QUERIES = {
    "_training/_bounded.py": "linear_sensitivity linear_queries",
    "_training/_constant.py": "few_records",
    "_training/_counts.py": "linear_queries linear_sensitivity",
    "_training/_line_search.py": "line_search network_line_search",
    "_training/_noisy_gradients.py": "linear_sensitivity neural_objective",
    "_training/_penalty.py": "linear_values linear_sensitivity neural_objective",
    "generative/_levels.py": "generative_privacy generative_levels generative_pairs",
    "generative/_pairs.py": "budgets generative_levels generative_pairs",
    "generative/_network_training.py": "budgets generative_privacy",
    "generative/_raw.py": "budgets generative_levels generative_pairs generative",
    "generative/_semidual.py": "budgets generative_privacy",
    "generative/_sliced.py": "budgets generative_privacy",
    "generative/_sliced_gradient.py": "budgets generative_gradient",
    "generative/_slices.py": "budgets generative_privacy",
    "linear_model/_gradient_plan.py": "linear_values budgets linear_queries "
    "linear_sensitivity linear_model",
    "linear_model/_minimiser.py": "linear_values linear_sensitivity",
    "linear_model/_moments.py": "linear_values linear_sensitivity linear_model",
    "linear_model/_output_perturbation.py": "linear_values budgets "
    "linear_sensitivity linear_queries linear_model",
    "linear_model/_line_search.py": "line_search plan_numbers",
    "linear_model/_preconditioned.py": "descent line_search linear_queries "
    "linear_model",
    "linear_model/_queries.py": "linear_values linear_queries linear_sensitivity",
    "linear_model/_wasserstein_logistic.py": "descent linear_sensitivity linear_model",
    "metrics/_private.py": "metrics",
    "model_selection/_plan.py": "budgets plan repeat search",
    "model_selection/_repeat.py": "repeat plan plan_numbers recomputed",
    "model_selection/_scoring.py": "scoring",
    "model_selection/_task.py": "scoring search validation",
    "neural_network/_base.py": "budgets neural_network neural_objective "
    "network_line_search",
    "neural_network/_line_search.py": "network_line_search",
    "neural_network/_objective.py": "network_line_search neural_objective "
    "neural_network",
    "neural_network/_queries.py": "few_records neural_objective neural_network",
    "postprocessing/_decisions.py": "budgets certificate dp2dp blind",
    "postprocessing/_number_repair.py": "budgets postprocessing barycenter",
    "postprocessing/_phases.py": "postprocessing dp2dp blind",
    "postprocessing/_queries.py": "postprocessing dp2dp barycenter blind",
    "preprocessing/_counting.py": "table_encoder",
    "preprocessing/_table_encoder.py": "budgets table_encoder",
}
# Changed by hand only.
OTHERS = {
    "__main__.py": "cli_files",
    "_cli/columns.py": "cli_synthetic cli_files cli_table",
    "_cli/encode.py": "cli_table",
    "_cli/learnt.py": "cli",
    "_cli/models.py": "cli_files",
    "_cli/report.py": "cli_files",
    "_cli/saved.py": "cli_files",
    "_cli/study.py": "cli_files",
    "_cli/synthetic.py": "cli_synthetic",
    "_cli/table.py": "cli_table",
    "_cli/words.py": "cli_files",
    "_door/_dask.py": "distributed_fits",
    "_door/_journal.py": "distributed",
    "_door/_stream.py": "linear_ranges",
    "_door/bounds.py": "door",
    "_door/estimator.py": "refusals",
    "_door/groups.py": "groups",
    "_door/inside.py": "refusals",
    "_door/labels.py": "door",
    "_door/readers.py": "refusals",
    "_shared/arguments.py": "groups",
    "_shared/arrays.py": "breaches_variants",
    "_shared/callers.py": "hushed",
    "_shared/domain.py": "breaches_variants",
    "_shared/guarded.py": "wall breaches",
    "_shared/rounded.py": "door",
    "_shared/purity.py": "breaches barycenter rowwise",
    "_shared/rowwise.py": "rowwise",
    "_training/_design.py": "linear_sensitivity linear_model neural_network",
    "_training/_network.py": "neural_network",
    "_training/_target.py": "linear_values linear_queries linear_ranges bounds",
    "audit/__main__.py": "audit",
    "audit/_bounds.py": "audit",
    "audit/_claim.py": "audit",
    "audit/_contest.py": "audit_parts",
    "audit/_estimator.py": "audit audit_parts",
    "audit/_outcome.py": "audit audit_parts",
    "audit/_replay.py": "audit audit_parts",
    "audit/_tables.py": "audit_parts",
    "audit/_tape.py": "audit audit_parts",
    "generative/_base.py": "generative generative_pairs generative_privacy "
    "plan_numbers",
    "generative/_exact.py": "generative_privacy",
    "generative/_points.py": "generative_points generative_pairs",
    "generative/_space.py": "generative",
    "generative/_sinkhorn.py": "budgets generative_pairs plan_numbers",
    "inspection/_tradeoff.py": "inspection",
    "linear_model/_bounded_slope.py": "linear_queries linear_values",
    "linear_model/_linear.py": "linear_model",
    "linear_model/_ranges.py": "linear_ranges",
    "linear_model/_told_target.py": "linear_model",
    "model_selection/_candidates/_answers.py": "search",
    "model_selection/_candidates/_checks.py": "search",
    "model_selection/_candidates/_costs.py": "search",
    "model_selection/_candidates/_facts.py": "search",
    "model_selection/_candidates/_groups.py": "search",
    "model_selection/_candidates/_making.py": "search",
    "model_selection/_search.py": "search",
    "model_selection/_validation.py": "validation",
    "postprocessing/_barycenter_regressor.py": "scale",
    "postprocessing/_blind.py": "blind",
    "postprocessing/_blind_numbers.py": "blind",
    "postprocessing/_certificate.py": "certificate",
    "postprocessing/_dp2dp.py": "dp2dp",
    "postprocessing/_histogram.py": "histogram",
    "postprocessing/_parity.py": "parity",
    "postprocessing/_repair.py": "blind",
    "postprocessing/_scale.py": "scale",
    "postprocessing/_score_bins.py": "histogram",
    "postprocessing/_significance.py": "scale",
    "preprocessing/_cells.py": "cells",
    "preprocessing/_codebook.py": "codebook",
    "preprocessing/_draft.py": "table_encoder",
    "preprocessing/_encoded.py": "table_encoder",
    "preprocessing/_places.py": "generative_levels generative_pairs table_encoder",
    "preprocessing/_ranks.py": "ranks table_encoder",
    "preprocessing/_reader.py": "reader cli",
    "preprocessing/_text_cells.py": "cli_files",
    "privacy/_attacker.py": "card",
    "privacy/_budget/_costs.py": "with_budget",
    "privacy/_budget/_division.py": "with_budget all_rows",
    "privacy/_budget/_pipeline.py": "with_budget",
    "privacy/_budget/_refusals.py": "with_budget refusals",
    "privacy/_budget/_with_budget.py": "few_records",
    "privacy/_card.py": "card",
    "privacy/_composed.py": "privacy_steps all_rows",
    "privacy/_facts.py": "with_budget refusals",
    "privacy/_guarantee.py": "privacy_objects",
    "privacy/_ledger.py": "ledger",
    "privacy/_metas.py": "privacy_steps",
    "privacy/_plain_step.py": "privacy_steps",
    "privacy/_report.py": "privacy_report",
    "privacy/_steps.py": "privacy_steps",
    "privacy/_store.py": "ledger",
    "privacy/_walk.py": "privacy_steps",
}
ALL = {**WHOLE, **QUERIES, **OTHERS}
# Slow, or about something else; proof stamps see every change and say nothing.
NOT_RUN = """audit audit_breaches card cli codebook common datasets distributed
    inspection network pages parity proof_stamps rooms sinkhorn syntax wasserstein
    words""".split()

# Names of functions and constants that say how a budget is shared, or what a record
# can change. Arithmetic on released numbers is not among them.
PLANS = "share|SHARE|plan|^bound$|changes|ratio|error|lines|begin|repeated|composed"

RELEASED = """shares _share_intervals _ratio likely_share card_lines
    within_bin_error_ with_shares _common_shares""".split()
CHEAP = tuple(
    f"tests/test_{name}.py"
    for name in (
        "accounting_ends",
        "wall_ends",
        "accounting_numbers",
        "bounds",
        "plan_numbers",
        "query_values",
        "composition",
    )
)

# What each is changed into; what follows, only if that can do nothing but crash.
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq, ast.Lt, ast.Gt),
    ast.NotEq: (ast.Eq, ast.Lt),
}
OPERATORS = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mult),
    ast.Mult: (ast.Div, ast.FloorDiv, ast.Add),
    ast.Div: (ast.Mult, ast.Add),
    ast.Pow: (ast.Mult, ast.Add),
    ast.LShift: (ast.RShift, ast.Add),
    ast.RShift: (ast.LShift, ast.Sub),
    ast.FloorDiv: (ast.Mult, ast.Add),
    ast.Mod: (ast.Mult, ast.FloorDiv),
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
        for decorator in getattr(node, "decorator_list", ()):  # sizes of caches
            skipped.update(ast.walk(decorator))
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
            bases = list(map(ast.unparse, node.bases))
            derived = any(tops.get(base) in waiting for base in bases)
            if derived or re.search("Query|Release|Moments", f"{bases} {node.name}"):
                waiting.append(node)
                continue
            inner = node.body
        else:
            inner = [node]
        for part in inner:
            named = getattr(part, "name", ast.unparse(part).partition("=")[0])
            if (
                isinstance(part, ast.FunctionDef | ast.Assign | ast.AnnAssign)
                and (
                    re.search(r"Release\(|SENSITIVITY|sensitivity", ast.unparse(part))
                    or re.search(PLANS, named)
                )
                and named not in RELEASED
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


class Mutant:
    """A module, a line, what is changed in words, and the changed source."""

    def __init__(self, name, lines, line, words, source):
        self.name, self.line, self.words, self.source = name, line, words, source
        self.code = lines[line - 1].strip()
        self.key = f"{name} | {self.code} | {words}"
        self.instead = []

    def __str__(self):
        return f"{self.name}:{self.line} | {self.words}"


def every_mutant(hand_only=False):
    found = list(by_hand())
    if not hand_only:
        for name in {**WHOLE, **QUERIES}:
            found += mutants(name)
    times = Counter()
    for mutant in found:  # the same words twice in a line, or in equal lines
        times[mutant.key] += 1
        if times[mutant.key] > 1:
            mutant.key += f" | {times[mutant.key]}"
        for other in mutant.instead:
            other.key = mutant.key
    return found


def mutants(name):
    """Yield every mutant of a module that is made by rule."""
    source = (ROOT / PACKAGE / name).read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines()
    for node, kind in list(places(tree, name in QUERIES)):
        before, several = ast.unparse(node), []
        for after in changes(node, kind):
            words = f"{before[:60]} -> {after[:60]}".replace("\n", " ")
            changed = Edited(source, node, after)
            several.append(Mutant(name, lines, node.lineno, words, changed))
        several[0].instead = several[1:]
        yield several[0]


def changes(node, kind):
    """Yield in words the change of the rule, then others in its stead."""
    if kind == "number":
        value = node.value
        if type(value) is int:
            several = [value + 1, value - 1, 2 * value + 3]
            several += [-value] if value else []
        else:
            several = [value * 2, value / 2, value + 1.0] if value else [1.0, 0.5, -1.0]
        yield from map(repr, several)
    elif kind == "comparison":
        for other in COMPARISONS[type(node.ops[0])]:
            ops = [other(), *node.ops[1:]]
            yield ast.unparse(ast.Compare(node.left, ops, node.comparators))
        yield from ("True", "False")
    else:
        left, right = node.left, node.right
        for other in OPERATORS[type(node.op)]:
            yield ast.unparse(ast.BinOp(left, other(), right))
        yield ast.unparse(ast.BinOp(right, node.op, right))
        yield from map(ast.unparse, (left, right))


class Edited:
    """A source with one node written anew; made when it is asked for."""

    def __init__(self, source, node, words):
        self._source, self._words = source, words
        self._from = node.lineno - 1, node.col_offset
        self._to = node.end_lineno - 1, node.end_col_offset

    def __str__(self):
        lines = self._source.split("\n")
        (row, column), (last_row, last_column) = self._from, self._to
        first = lines[row].encode()[:column].decode()
        last = lines[last_row].encode()[last_column:].decode()
        # As many lines as before: the code of all other functions stays equal.
        words = self._words + "\n" * (last_row - row)
        changed = f"{first}({words}){last}"
        return "\n".join([*lines[:row], changed, *lines[last_row + 1 :]])


def by_hand():
    """Yield the mutants that were written by hand; see `_mutants_by_hand.py`."""
    from _mutants_by_hand import MUTANTS

    for number, name, old, new, what in MUTANTS:
        source = (ROOT / PACKAGE / name).read_text(encoding="utf-8")
        if source.count(old) != 1:
            print(f"{number}: {name} holds {old!r} {source.count(old)} times")
            continue
        line = source[: source.index(old)].count("\n") + 1
        changed = source.replace(old, new)
        yield Mutant(name, source.splitlines(), line, f"{number}: {what}", changed)


# --- tests ----------------------------------------------------------------------------


def module_of(name):
    return f"{PACKAGE}.{name.removesuffix('.py').replace('/', '.')}"


class Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Import one module of the package from changed source."""

    def __init__(self, name, source):
        super().__init__(module_of(name), str(Path(PACKAGE, name).resolve()))
        self._code = compile(source, self.path, "exec")

    def find_spec(self, fullname, path=None, target=None):
        if fullname == self.name:
            return importlib.util.spec_from_file_location(
                fullname, self.path, loader=self
            )
        return None

    def get_code(self, fullname):
        return self._code


class Collected:
    """Plugin: collect tests once, then leave the rest to `work`."""

    def __init__(self, work, usual=None):
        self.work, self.tell, self.usual = work, None, usual or {}

    def pytest_runtestloop(self, session):
        # Another process does not see the mutant.
        here = [i for i in session.items if not names_of(i) & {"subprocess"}]
        self.session, self.items = session, {i.nodeid: i for i in here}
        self.work(self)
        return True

    def pytest_exception_interact(self, node, call, report):
        how = how_it_failed(call.excinfo)
        words = str(call.excinfo.value).strip().splitlines() or [""]
        self.tell(how, node.nodeid, f"{call.excinfo.typename}: {words[0][:80]}")
        self.failed += 1
        if how == "killed" or self.failed > 15:
            self.session.shouldstop = how

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        """Leave a test that takes much longer than it should, and go on."""
        usual = self.usual.get(item.nodeid, 0.3)
        signal.signal(signal.SIGVTALRM, too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.4 + 4.0 * usual, 0.4)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)

    def run(self, tests, tell):
        """Run these tests in this order, and tell how they fail."""
        self.tell, self.failed, self.session.testsfailed = tell, 0, 0
        self.session.items = [self.items[test] for test in tests if test in self.items]
        with suppress(self.session.Interrupted):
            pytest_runtestloop(self.session)


def names_of(item):
    return set(getattr(getattr(item.obj, "__code__", None), "co_names", ()))


class TooLong(Exception):
    """A test has not ended in time."""


def too_long(*_):
    raise TooLong("no end")


class Live:
    """The functions of the imported package, whose code can be exchanged."""

    def __init__(self):
        self.functions, self.caches = defaultdict(list), []
        folder = str(Path(PACKAGE).resolve())
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType):
                if thing.__code__.co_filename.startswith(folder):
                    self.functions[thing.__code__].append(thing)
            elif isinstance(thing, functools._lru_cache_wrapper):
                if str(thing.__module__).startswith(PACKAGE):
                    self.caches.append(thing)

    def exchanges(self, name, source):
        """Pairs of (function, new code), or None if what runs at import differs."""
        path = Path(PACKAGE, name).resolve()
        changed = functions_changed(compiled(path), compile(source, str(path), "exec"))
        if changed is None or not all(code in self.functions for code, _ in changed):
            return None
        return [(f, new) for code, new in changed for f in self.functions[code]]

    def constants(self, name, line):
        """Names of plain numbers that a line gives at the top of a module."""
        source = (ROOT / PACKAGE / name).read_text(encoding="utf-8")
        module = vars(sys.modules[module_of(name)])
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and (
                node.lineno <= line <= node.end_lineno
            ):
                target = (
                    node.targets[0] if isinstance(node, ast.Assign) else node.target
                )
                names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
                if all(isinstance(module[n], numbers.Number | tuple) for n in names):
                    return names
        return ()

    def assign(self, name, source, names):
        """Give such names their changed values, wherever they were imported."""
        if not names:
            return
        module = sys.modules[module_of(name)]
        old, new = {**vars(module)}, {**vars(module)}
        exec(compile(source, module.__file__, "exec"), new)
        for other in [m for m in sys.modules.values() if isinstance(m, type(sys))]:
            for one in names:
                if vars(other).get(one, self) is old[one]:
                    setattr(other, one, new[one])
        self.exchange(())

    def exchange(self, pairs):
        for function, code in pairs:
            function.__code__ = code
        for cache in self.caches:
            cache.cache_clear()


@functools.cache
def compiled(path):
    return compile(path.read_text(encoding="utf-8"), str(path), "exec")


def functions_changed(old, new):
    """Pairs of codes of functions that differ; None if anything else differs."""
    if old == new:
        return []
    if old.co_flags & inspect.CO_OPTIMIZED:
        return [(old, new)]
    inner, shells = [], []
    for code in (old, new):
        codes = [c for c in code.co_consts if isinstance(c, types.CodeType)]
        rest = tuple(c for c in code.co_consts if not isinstance(c, types.CodeType))
        inner.append(codes)
        # Where a function ends is noted where it is made: without lines and columns.
        shells.append(code.replace(co_consts=rest, co_linetable=b""))
    if shells[0] != shells[1] or len(inner[0]) != len(inner[1]):
        return None
    found = [functions_changed(*pair) for pair in zip(*inner, strict=True)]
    return None if None in found else [pair for pairs in found for pair in pairs]


def how_it_failed(excinfo):
    """Whether an assertion, or the wall itself, saw what is broken."""
    names = {cls.__name__ for cls in excinfo.type.__mro__}
    for error in getattr(excinfo.value, "exceptions", ()):  # what Hypothesis found
        names |= {cls.__name__ for cls in type(error).__mro__}
    if "TooLong" in names:
        return "slow"
    if names & {"PlanError", "BudgetExceededError", "Failed", "AssertionError"}:
        return "killed"
    last = excinfo.traceback[-1]
    if f"{PACKAGE}{os.sep}" in str(last.path) and str(
        last.statement
    ).strip().startswith("raise"):
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
    import _ends
    import coverage

    _ends.ends_within = lambda *_: nullcontext()  # it would trace in coverage's place
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


def lines_before(name, before):
    """Yield where each line of a module stood when a map was made."""
    now = (ROOT / PACKAGE / name).read_text(encoding="utf-8").splitlines()
    matcher = difflib.SequenceMatcher(None, before.splitlines(), now, autojunk=False)
    for _, b1, b2, n1, n2 in matcher.get_opcodes():
        for i in range(n1, n2):
            same = b2 - b1 == n2 - n1
            for line in [b1 + i - n1] if same else range(b1, b2):
                yield i + 1, line + 1


class TestMap:
    """Which tests reach a line, the quickest first."""

    def __init__(self, paths):
        self.tests, self.seconds, self.lines = [], [], {}
        for path in paths:
            known, first = json.loads(Path(path).read_text()), len(self.tests)
            self.tests += known["tests"]
            self.seconds += known["seconds"]
            for name in ALL:
                there = self.lines.setdefault(name, defaultdict(set))
                source = known["sources"].get(name, "")
                for line, before in lines_before(name, source):
                    tests = known["lines"].get(name, {}).get(str(before), ())
                    there[line].update(first + i for i in tests)
        self.files = [test.partition("::")[0] for test in self.tests]
        # Files that have gone since are left out.
        there = {file for file in set(self.files) if (ROOT / file).exists()}
        self.order = sorted(
            (i for i, file in enumerate(self.files) if file in there),
            key=self.seconds.__getitem__,
        )
        self.known = set(self.tests)

    def own(self, name):
        every = ["bounds", "plan_numbers", "query_values"] if name in QUERIES else []
        return tuple(tests_named([*every, *ALL[name].split()]))

    def reaching(self, name, line):
        """The tests that reach a line, or one of those close above it."""
        for near in range(line, max(line - 12, 0), -1):
            found = self.lines[name].get(near, ())
            if found:
                return [i for i in self.order if i in found]
        return []

    def rounds(self, name, line, collected, importing=False):
        """Own tests that reach the line, or are new since the map; then all others."""
        own = self.own(name)
        reached = set().union(*self.lines[name].values())
        whole = importing or not any(self.files[t] in own for t in reached)
        reach = self.order if whole else self.reaching(name, line)
        first = [t for t in reach if self.files[t] in own]
        # Values that a cache keeps are computed under another test's name.
        other = [t for t in self.order if self.files[t] in own and t not in set(reach)]
        last = [t for t in reach if t not in set(first)] + other
        new = [t for t in collected if t.startswith(own) and t not in self.known]
        mapped = {self.files[t] for t in self.order}
        early, late = [], []
        for test in new:
            file = test.partition("::")[0]
            (early if file in mapped or file in CHEAP else late).append(test)
        order = [self.tests[t] for t in first] + early
        order.sort(key=lambda test: not test.startswith(CHEAP))
        yield order + late, sum(self.seconds[t] for t in first) + len(late)
        yield [self.tests[t] for t in last], sum(self.seconds[t] for t in last)


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
    told, stop = b"", time.time() + 20 * seconds
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


def verdict(rounds, seconds, run, more=0):
    """How the tests end on a mutant, the test that says so, and its words."""
    worst, ran = None, 0
    for tests, usual in rounds:
        ran += len(tests)
        limit = min(seconds, 2 + int(2 * usual)) + more
        told, done = in_a_child(lambda tell, tests=tests: run(tests, tell), limit)
        for how, test, words in told:
            if how == "broken":
                return "crash", "", words
            if how == "killed":
                return how, test, words
            if worst is None or KINDS.index(how) < KINDS.index(worst[0]):
                worst = (how, test, words)
        if not done:
            return worst or ("slow", "", f"after {limit} s")
    return worst or ("SURVIVED", "", f"of {ran} tests")


def run_all(found, test_map, seconds, own_only, tell):
    """Tell the verdict of every mutant, those of functions first in one process."""
    own = {file for name in {m.name for m in found} for file in test_map.own(name)}
    files = sorted(own if own_only else own.union(test_map.files))
    files = [file for file in files if (ROOT / file).exists()]
    left, tests = [], []
    usual = dict(zip(test_map.tests, test_map.seconds, strict=True))

    def judged(mutant, collected, run, importing=False, more=0):
        rounds = test_map.rounds(mutant.name, mutant.line, collected, importing)
        rounds = islice(rounds, 1 if own_only else None)
        return verdict(rounds, seconds, run, more)

    def settled(mutant, judge):
        """Tell a verdict; of another change at the same place if one only crashes."""
        found = judge(mutant)
        if found is None:
            return False
        how, test, said = found
        if how in ("crash", "refused"):
            for other in mutant.instead:
                better = judge(other)
                if better and better[0] in ("killed", "SURVIVED"):
                    first = said
                    how, test, said = better
                    how = "instead" if how == "killed" else how
                    said = f"instead ({first[:60]}): {other.words} | {said}"
                    break
        tell(mutant, how, test, said)
        return True

    def by_exchange(collected):
        tests.extend(collected.items)
        live = Live()
        gc.freeze()

        def judge(mutant):
            source = str(mutant.source)
            pairs = live.exchanges(mutant.name, source)
            names = () if pairs else live.constants(mutant.name, mutant.line)
            if not pairs and not names:
                return None

            def run(tests, tell):
                live.exchange(pairs or ())
                live.assign(mutant.name, source, names)
                collected.run(tests, tell)

            return judged(mutant, collected.items, run, bool(names))

        for mutant in found:
            if not settled(mutant, judge):
                left.append(mutant)

    def first(tell):
        run_pytest(files, Collected(by_exchange, usual))
        tell([mutant.key for mutant in left], tests)

    told, done = in_a_child(first, 10**6)
    if not done:
        raise SystemExit(f"The tests could not be collected: {told}")
    left_keys, tests = told[-1]
    importing = [mutant for mutant in found if mutant.key in set(left_keys)]
    preload()

    def judge(mutant):
        def run(tests, tell):
            sys.meta_path.insert(0, Changed(mutant.name, str(mutant.source)))
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            ran = run_pytest(files, Collected(lambda c: c.run(tests, tell), usual))
            if tests and ran > 2:
                raise RuntimeError("It cannot be imported.")

        return judged(mutant, tests, run, importing=True, more=10)

    for mutant in importing:
        settled(mutant, judge)


def preload():
    """Import what is not of the package once, before all forks."""

    def probe(tell):
        importlib.import_module(f"{PACKAGE}")
        for path in (ROOT / "tests").glob("common.py"):
            importlib.import_module(path.stem)
        tell("modules", *sys.modules)

    told, _ = in_a_child(probe, 300)
    foreign = (PACKAGE, "common", "_", "test_", "conftest")
    for module in next(line for line in told if line[0] == "modules")[1:]:
        if not module.startswith(foreign):
            with suppress(Exception):
                importlib.import_module(module)
    assert PACKAGE not in sys.modules


class Results:
    """A file of verdicts, a line each; the last one of a mutant counts."""

    def __init__(self, path):
        self.path, self.found = Path(path), {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                record = json.loads(line)
                self.found[record["key"]] = record

    def tell(self, mutant, how, test, said):
        record = dict(
            key=mutant.key, how=how, test=test, said=said, t=round(time.time())
        )
        with open(self.path, "a") as file:
            file.write(json.dumps(record) + "\n")
        print(f"{how:8} | {mutant} | {test} | {said}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["map", "run", "count", "table"])
    parser.add_argument("--map", nargs="+", default=["mutants.json"])
    parser.add_argument("--results", default="mutants.jsonl")
    parser.add_argument("--tests", help="for a map: these test files only")
    parser.add_argument("--only", default="", help="modules, or how they begin")
    parser.add_argument("--hand", action="store_true", help="those by hand only")
    parser.add_argument("--own", action="store_true", help="the module's own tests")
    parser.add_argument("--sample", type=int, help="so many of them, at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again", default="", help='verdicts that are run again, as in "new slow"'
    )
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each round")
    parser.add_argument("--plain", action="store_true", help="the rule's change only")
    arguments = parser.parse_args()
    if arguments.what == "map":
        path = os.path.abspath(arguments.map[0])
        in_copy()
        files = tests_named(arguments.tests.split()) if arguments.tests else all_tests()
        make_map(path, files)
        return
    found, results = every_mutant(arguments.hand), Results(arguments.results)
    parts = arguments.only.split() or [""]
    found = [m for part in parts for m in found if m.name.startswith(part)]
    if arguments.what == "count":
        print(*sorted(Counter(m.name for m in found).items()), len(found), sep="\n")
        return
    if arguments.what == "table":
        print_table(found, results.found)
        return
    again = set(arguments.again.replace("new", "").split(" "))
    from _mutants_by_hand import EQUIVALENT

    found = [m for m in found if results.found.get(m.key, {"how": ""})["how"] in again]
    found = [m for m in found if m.key not in EQUIVALENT]
    if arguments.sample is not None:
        random.Random(arguments.seed).shuffle(found)
        found = found[: arguments.sample]
    if arguments.plain:
        for mutant in found:
            mutant.instead = []
    paths = [os.path.abspath(path) for path in arguments.map]
    results.path = results.path.absolute()
    in_copy()
    run_all(found, TestMap(paths), arguments.seconds, arguments.own, results.tell)
    spent = [resource.getrusage(who) for who in (0, resource.RUSAGE_CHILDREN)]
    print(f"processor: {sum(s.ru_utime + s.ru_stime for s in spent):.0f} s")


def print_table(found, verdicts):
    """Counts for each module, then every mutant that was not killed."""
    from _mutants_by_hand import EQUIVALENT

    kinds = [*KINDS, "equivalent", "SURVIVED", "not run"]
    counts, others = defaultdict(Counter), []
    for mutant in found:
        verdict = verdicts.get(mutant.key, {"how": "not run", "said": "", "test": ""})
        how, proof = verdict["how"], EQUIVALENT.get(mutant.key)
        if proof and how not in ("killed", "refused"):
            how = "equivalent"
        counts[mutant.name][how] += 1
        counts["all"][how] += 1
        if how not in ("killed", "instead", "not run"):
            said = f"{verdict['test']} {verdict['said']}".replace("tests/test_", "")
            others.append(f"{how:10} | {mutant.key} | {(proof or said)[:140]}")
    print(" ".join(f"{kind:>10}" for kind in kinds))
    for name, count in sorted(counts.items()):
        print(" ".join(f"{count[kind] or '':>10}" for kind in kinds), "", name)
    print("", *sorted(others), sep="\n")


def in_copy():
    """Go to a copy of the package and its tests, which nobody changes meanwhile."""
    old = (ROOT, ROOT / "tests")
    folder = Path(tempfile.mkdtemp()) / "copy"
    ignore = shutil.ignore_patterns(".git", "_build", ".hypothesis", "build")
    shutil.copytree(ROOT, folder, ignore=ignore)
    os.chdir(folder)
    globals()["ROOT"] = folder
    sys.path[:] = [str(folder), str(folder / "tests")] + [
        p for p in sys.path if p and Path(p).resolve() not in old
    ]


if __name__ == "__main__":
    main()
