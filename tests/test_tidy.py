"""Style that no linter checks: docstrings, sizes, forbidden sources of time and chance.

The ratchets only go down: a module or function listed here is too large and known; nothing new may
be added, and an entry that no longer holds has to go.
"""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("highwater", "nodes", "harness", "nemesis", "checkers")
TOP = {
    *PACKAGES,
    *("docs", "examples", "tests"),
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"),
    *("Containerfile", "Makefile", "Vagrantfile", "action.yml", "mkdocs.yml"),
    *("pyproject.toml", "setup.py"),
}
"""What stands at the top of the project."""

MAX_MODULE_LINES = 500
MAX_BODY_LINES = 60
"""Of a function, without its signature and docstring: the options of a command are a table."""
LARGE_MODULES: frozenset[str] = frozenset()
LARGE_FUNCTIONS: frozenset[str] = frozenset()

SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def docstring_of(path: Path) -> str | None:
    return ast.get_docstring(tree_of(path))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_nothing_stray_stands_at_the_top() -> None:
    """What a tool leaves behind is not to be committed."""
    tracked = subprocess.run(
        ("git", "ls-files"), cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()  # nothing where the project is no clone
    visible = {name.partition("/")[0] for name in tracked if not name.startswith(".")}
    assert visible <= TOP


def test_modules_say_what_they_are_for() -> None:
    """Every module that holds code has a docstring."""
    silent = [path for path in SOURCES if tree_of(path).body and not docstring_of(path)]
    assert [name_of(path) for path in silent] == []


def test_modules_stay_small() -> None:
    """A module that outgrows a few screens does more than one thing."""
    modules = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    large = {name_of(p) for p in modules if len(p.read_text().splitlines()) > MAX_MODULE_LINES}
    assert large == set(LARGE_MODULES)


def test_imports_have_no_circle() -> None:
    """Imports for type checkers count, too."""
    graph = grimp.build_graph(*PACKAGES)
    imports = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_functions_stay_small() -> None:
    """A function fits on a screen."""
    large = set()
    for path in SOURCES:
        for node in functions(tree_of(path)):
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            assert node.end_lineno is not None
            if node.end_lineno - first.lineno + 1 > MAX_BODY_LINES:
                large.add(f"{name_of(path)}:{node.name}")
    assert large == set(LARGE_FUNCTIONS)


TIME_AND_CHANCE = {"time", "threading", "secrets", "subprocess"}
CALLS_OF_BOTH = {
    *(("os", "urandom"), ("uuid", "uuid4"), ("uuid", "uuid1")),
    *(("datetime", "now"), ("datetime", "utcnow")),
}


def sources_of_time_and_chance(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports or calls of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from TIME_AND_CHANCE & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            yield from TIME_AND_CHANCE & {node.module}
            if node.module == "random":
                yield from {alias.name for alias in node.names} - {"Random"}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            dotted = (node.value.id, node.attr)
            if dotted in CALLS_OF_BOTH or (dotted[0] == "random" and dotted[1] != "Random"):
                yield ".".join(dotted)


def test_the_broker_takes_time_and_chance_from_outside() -> None:
    """No wall clock, no global randomness, no threads: a simulated loop can run the same code."""
    found = {
        name_of(path): list(sources_of_time_and_chance(tree_of(path)))
        for path in SOURCES
        if path.is_relative_to(ROOT / "nodes")
    }
    assert found.pop("nodes/__main__.py")  # where clocks and randomness are handed in
    assert {name: each for name, each in found.items() if each} == {}


def test_everything_that_rich_draws_goes_through_one_console() -> None:
    """Another console would write its colours to a stream that prints them as escapes."""
    made = {
        name_of(path)
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Console", "Terminal")
    }
    assert made == {"harness/reports/terminal.py"}


@pytest.mark.parametrize(
    "folder",
    [
        "nodes/raft",
        "nodes/controller",
        "nodes/coordinators",
        "nodes/metadata",
        "nodes/replication",
        "checkers",
    ],
)
def test_pure_parts_do_no_io(folder: str) -> None:
    """Decisions import neither sockets nor the event loop."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").split(".")[0]}
            else:
                continue
            assert not names & {"asyncio", "socket", "uvloop"}, name_of(path)
