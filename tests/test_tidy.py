"""Style that no linter checks: docstrings, sizes, forbidden sources of time and chance.

The ratchets only go down: a module or function listed here is too large and known; nothing new may
be added, and an entry that no longer holds has to go.
"""

import ast
import subprocess
from collections.abc import Iterator
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


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_module_says_what_it_is_for(path: Path) -> None:
    """Every module that holds code has a docstring."""
    tree = ast.parse(path.read_text())
    assert not tree.body or ast.get_docstring(tree), f"{name_of(path)} has no docstring"


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
        for node in functions(ast.parse(path.read_text())):
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            assert node.end_lineno is not None
            if node.end_lineno - first.lineno + 1 > MAX_BODY_LINES:
                large.add(f"{name_of(path)}:{node.name}")
    assert large == set(LARGE_FUNCTIONS)


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if name_of(p).startswith("nodes/")], ids=name_of
)
def test_the_broker_takes_time_and_chance_from_outside(path: Path) -> None:
    """No wall clock, no global randomness, no threads: a simulated loop can run the same code."""
    if name_of(path) == "nodes/__main__.py":
        return  # where clocks and randomness are handed in
    allowed = {"random": {"Random"}}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
            assert not names & {"time", "threading", "secrets", "subprocess"}, name_of(path)
        elif isinstance(node, ast.ImportFrom):
            assert node.module not in {"time", "threading", "secrets", "subprocess"}
            if node.module == "random":
                assert {alias.name for alias in node.names} <= allowed["random"]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            dotted = (node.value.id, node.attr)
            assert node.value.id != "random" or node.attr == "Random", name_of(path)
            assert dotted not in {("os", "urandom"), ("uuid", "uuid4"), ("uuid", "uuid1")}
            assert dotted not in {("datetime", "now"), ("datetime", "utcnow")}


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
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").split(".")[0]}
            else:
                continue
            assert not names & {"asyncio", "socket", "uvloop"}, name_of(path)
