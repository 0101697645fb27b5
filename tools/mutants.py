"""Mutation testing: change the source in many small ways, and find the changes that no test notices.

``make mutants`` installs coverage and mutmut, whose operators this script uses. A mutant is one change in a function of
``numerics`` or ``pair``: another operator, number or condition, or a keyword argument left out. Each mutant has its own
forked process, in which the code of the functions of its module is replaced; no file changes. There, tests that execute
the changed lines run until one fails: those whose id contains the name of the module first, then the fastest. A mutant
is killed if a test fails, or if the tests take much longer than usual. The folder ``.mutants`` keeps the results, and
the lines that each test executes; delete it after changes of the source. After new tests, ``--again`` repeats only the
mutants that survived the last time.
"""

import argparse
import gc
import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, cast

import coverage
import libcst as cst
import pytest
from _pytest.main import pytest_runtestloop as run_tests
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "scarless"
OUT = ROOT / ".mutants"
RESULTS = OUT / "results.jsonl"
PACKAGES = ("numerics", "pair")
TESTS = [f"tests/{name}" for name in ("numerics", "pair", "engines", "models", "metrics", "diagnostics")]
TESTS += [f"src/scarless/{name}" for name in (*PACKAGES, "models")]
PYTEST = ["-m", "not slow and not extra", "-o", "addopts=--doctest-modules --import-mode=importlib"]
PYTEST += [word for name in ("terminal", "xdist", "cacheprovider") for word in ("-p", f"no:{name}")]
# Nodes whose content is not changed: messages, type hints, and decorators, which run on import.
UNCHANGED = (cst.Raise, cst.Annotation, cst.Decorator, cst.Assert, cst.FormattedString, cst.ConcatenatedString)
UNCHANGED += (cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Import, cst.ImportFrom)
UNCHANGED_CALLS = {"isinstance", "len", "cast", "warn"}
# Operators that put None in the place of a value. Every test that executes the line fails, so their mutants would
# measure coverage only; so would the removal of positional arguments.
NONE_OPERATORS = {"operator_assignment", "operator_lambda", "operator_dict_arguments"}


class Mutant(NamedTuple):
    """One change of the source; `old` and `new` are nodes of the tree of the module."""

    path: str
    place: CodeRange
    function: CodeRange
    module: cst.Module
    old: cst.CSTNode
    new: cst.CSTNode

    @property
    def name(self) -> str:
        """Place and content of the change, which identify the mutant."""
        before, after = (" ".join(self.module.code_for_node(each).split()) for each in (self.old, self.new))
        return f"{self.path}:{self.place.start.line}:{self.place.start.column}: {before} -> {after}"


def mutants_in(node: cst.CSTNode, function: CodeRange | None, given: tuple[Any, ...]) -> Iterator[Mutant]:
    """Yield the mutants of a node and of the nodes below it; `given` are path, module and positions of nodes."""
    path, module, places = given
    called = module.code_for_node(node.func).split(".")[-1] if isinstance(node, cst.Call) else ""
    if isinstance(node, UNCHANGED) or called in UNCHANGED_CALLS:
        return
    function = places[node] if isinstance(node, cst.FunctionDef) else function
    if function is not None:
        yield from (Mutant(path, places.get(node, function), function, module, node, new) for new in _changes(node))
    for child in node.children:
        yield from mutants_in(child, function, given)


def _changes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(node, cst.SimpleString) and " " in node.value:
        return
    for kind, operator in mutation_operators:
        name = operator.__name__
        if isinstance(node, kind) and name not in NONE_OPERATORS:
            found = list(operator(node))
            if name == "operator_arg_removal":
                found = [each for each in found if _positional(each) == _positional(node)]
            yield from found[:1] if name == "operator_string" else found


def _positional(call: Any) -> list[int]:
    return [id(each.value) for each in call.args if each.keyword is None]


def all_mutants() -> list[Mutant]:
    """Return the mutants of all modules."""
    found: list[Mutant] = []
    for path in sorted(path for package in PACKAGES for path in (SOURCE / package).glob("*.py")):
        wrapper = MetadataWrapper(cst.parse_module(path.read_text(encoding="utf-8")))
        given = (str(path.relative_to(SOURCE)), wrapper.module, wrapper.resolve(PositionProvider))
        found += mutants_in(wrapper.module, None, given)
    return found


def draw(mutants: list[Mutant], n: int, seed: int) -> list[Mutant]:
    """Draw `n` mutants in random order, as many from each module as its share of all mutants says."""
    rng = random.Random(seed)
    places = {id(mutant): (mutant.path, rng.random()) for mutant in mutants}
    ordered = sorted(mutants, key=lambda mutant: places[id(mutant)])
    step, first = len(ordered) / n, rng.random()
    return rng.sample([ordered[int((first + i) * step)] for i in range(n)], n)


def functions_in(where: str) -> list[tuple[tuple[str, int], FunctionType]]:
    """Return all functions in memory whose source is in this file or folder, with name and line as key."""
    found = [(each.__code__, each) for each in gc.get_objects() if isinstance(each, FunctionType)]
    return [((c.co_qualname, c.co_firstlineno), each) for c, each in found if c.co_filename.startswith(where)]


def replace_code(mutant: Mutant, functions: list[tuple[tuple[str, int], FunctionType]]) -> None:
    """Replace the code of the functions of a module by that of the mutant."""
    path, source = str(SOURCE / mutant.path), cast(cst.Module, mutant.module.deep_replace(mutant.old, mutant.new))
    name = "scarless." + mutant.path.removesuffix(".py").replace("/", ".")
    exec(compile(source.code, "<mutant>", "exec"), {"__name__": name, "__file__": path})
    changed = dict(functions_in("<mutant>"))
    for key, each in functions:
        if each.__code__.co_filename == path and (new := changed.get(key)) is not None:
            each.__defaults__, each.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
            if len(each.__code__.co_freevars) == len(new.__code__.co_freevars):
                each.__code__ = new.__code__


def in_fork(work: Callable[..., Any], *given: Any, limit: int = 0) -> Any:
    """Return the result of `work` in a forked process, or "time-out" after `limit` seconds of CPU time."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if limit:
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                signal.alarm(10 * limit)  # for a process that waits
            with os.fdopen(write, "wb") as pipe:
                pipe.write(json.dumps(work(*given)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        result = pipe.read()
    if os.WIFEXITED(os.waitpid(pid, 0)[1]) and not result:
        raise SystemExit(f"A forked process failed: {given}")
    return json.loads(result) if result else "time-out"


class Runner:
    """Plugin of pytest: instead of running the tests once, run those of each mutant."""

    def __init__(self, mutants: list[Mutant], limit: float) -> None:
        self.mutants, self.limit = mutants, limit
        self.failed: list[str] = []
        self.seconds: dict[str, float] = {}
        self.functions: list[tuple[tuple[str, int], FunctionType]] = []
        self.cover: coverage.Coverage | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the tests that fail."""
        self.failed += [report.nodeid] * report.failed

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Measure the CPU time of a test, and the lines that it executes."""
        begin = time.process_time()
        if self.cover is not None:
            self.cover.switch_context(item.nodeid)
        result = yield
        self.seconds[item.nodeid] = time.process_time() - begin
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests that are new, and then run the tests of each mutant."""
        stored, items = OUT / "seconds.json", {item.nodeid: item for item in session.items}
        seconds = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
        if new := [item for test, item in items.items() if test not in seconds]:
            print(f"{len(new)} tests run once, to find the lines that each executes", flush=True)
            failed, measured = in_fork(self.measure, session, new)
            print(f"tests that fail without any change, and are left out: {failed}", flush=True)
            seconds |= {test: spent for test, spent in measured.items() if test not in failed}
            stored.write_text(json.dumps(seconds), encoding="utf-8")
        gc.unfreeze()  # tests/conftest.py hides all objects from the garbage collector
        self.functions = functions_in(str(SOURCE))
        gc.freeze()
        data = coverage.CoverageData(str(OUT / "coverage"))
        data.read()
        with RESULTS.open("a", encoding="utf-8") as results:
            for mutant in self.mutants:
                lines = data.contexts_by_lineno(str(SOURCE / mutant.path))
                tests = [items[test] for test in covering(mutant, lines, seconds, self.limit) if test in items]
                killer = in_fork(self.kill, session, mutant, tests, limit=int(3 * self.limit) + 20) if tests else None
                results.write(json.dumps({"mutant": mutant.name, "killer": killer, "tests": len(tests)}) + "\n")
                results.flush()
                if killer is None:
                    print(f"survived {len(tests)} tests: {mutant.name}", flush=True)
        return True

    def measure(self, session: pytest.Session, items: list[pytest.Item]) -> tuple[list[str], dict[str, float]]:
        """Run tests once, store the lines that each executes, and return the tests that fail and all CPU times."""
        folders = [f"{SOURCE / name}/*" for name in PACKAGES]
        self.cover = coverage.Coverage(data_file=str(OUT / "coverage"), config_file=False, include=folders)
        self.cover.load()
        session.items = items
        self.cover.start()
        run_tests(session)
        self.cover.stop()
        self.cover.save()
        return self.failed, self.seconds

    def kill(self, session: pytest.Session, mutant: Mutant, items: list[pytest.Item]) -> str | None:
        """Return the first test that fails, or None."""
        replace_code(mutant, self.functions)
        session.items, session.config.option.maxfail = items, 1
        with suppress(session.Failed, session.Interrupted):
            run_tests(session)
        return self.failed[0] if self.failed else None


def covering(mutant: Mutant, lines: dict[int, list[str]], seconds: dict[str, float], limit: float) -> list[str]:
    """Return tests that execute the lines of a mutant, or else its function, and take `limit` seconds together."""
    module, tests = Path(mutant.path).stem, set()
    for place in (mutant.place, mutant.function):
        numbers = range(place.start.line, place.end.line + 1)
        tests = tests or {test for line in numbers for test in lines.get(line, ()) if test in seconds}
    chosen, total = [], 0.0
    for test in sorted(tests, key=lambda test: (module not in test, seconds[test])):
        if total + seconds[test] <= limit or not chosen:
            chosen.append(test)
            total += seconds[test]
    return chosen


def killers() -> dict[str, str | None]:
    """Return the test that killed each mutant, or None, from the stored results; the last result counts."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {record["mutant"]: record["killer"] for record in map(json.loads, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Find changes of the source that no test notices.")
    parser.add_argument("-n", type=int, default=500, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of tests for each mutant")
    parser.add_argument("--again", action="store_true", help="only the mutants that survived the last time")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    mutants = all_mutants()
    print(f"{options.n} of {len(mutants)} mutants, seed {options.seed}", flush=True)
    mutants = draw(mutants, options.n, options.seed)
    if not options.again:
        RESULTS.unlink(missing_ok=True)
    before = killers()
    os.chdir(ROOT)
    runner = Runner([mutant for mutant in mutants if before.get(mutant.name) is None], options.limit)
    pytest.main([*PYTEST, *TESTS], plugins=[runner])
    last = killers()
    print(f"{sum(killer is not None for killer in last.values())} of {len(last)} mutants killed")


if __name__ == "__main__":
    main()
