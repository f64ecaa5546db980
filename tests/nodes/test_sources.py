"""The compiled build: which modules it may compile, that they answer alike, and how it is left."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from nodes.sources import INTERPRETED, VARIABLE, compiled_modules, description

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = (ROOT / "pyproject.toml").read_text()
COMPILED: Final = tomllib.loads(PROJECT)["tool"]["highwater"]["compiled"]
BUILT: Final = "nodes/log/leader_epochs.py"
BUILD_S: Final = 300

ANSWERS: Final = """
import json, random, sys
from nodes.ids import Epoch, Offset
from nodes.log import leader_epochs
from nodes.log.errors import EpochRegression
rng, seen = random.Random(5), []
for _ in range(200):
    table, end = leader_epochs.LeaderEpochs(), 0
    for _ in range(20):
        end += rng.randrange(3)
        try:
            seen.append(table.assign(Epoch(rng.randrange(12)), Offset(end)))
        except EpochRegression as error:
            seen.append(str(error))
        if rng.random() < 0.2:
            end = rng.randrange(end + 1)
            seen.append(table.truncate_from_end(Offset(end)))
        if rng.random() < 0.2:
            seen.append(table.truncate_from_start(Offset(rng.randrange(end + 1))))
        seen.append(table.entries)
        seen.append(table.end_offset_for(Epoch(rng.randrange(-1, 13)), Offset(end)))
print(json.dumps({"file": leader_epochs.__file__, "answers": seen}))
"""
CHANGES: Final = """
import nodes.log.leader_epochs
from nodes import sources
try:
    sources.use_sources()
except sources.CompiledModuleError as error:
    print(error)
"""
SOURCES_FIRST: Final = """
from nodes import sources
sources.use_sources()
import nodes.log.leader_epochs
print(nodes.log.leader_epochs.__file__, sources.description())
"""


def classes(path: Path) -> Iterator[ast.ClassDef]:
    """All classes of a module."""
    tree = ast.parse(path.read_text())
    return (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef))


def test_every_compiled_module_exists() -> None:
    """In order, each once: the list is read by people, too."""
    assert [name for name in COMPILED if not (ROOT / name).is_file()] == []
    assert sorted(set(COMPILED)) == COMPILED


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    """mypyc does not allow it; the broker would fail when it makes the first object."""
    native = {each.name for name in COMPILED for each in classes(ROOT / name)}
    errors = {each.name for each in classes(ROOT / "nodes/log/errors.py")}
    compiled = {ROOT / name for name in COMPILED}
    heirs = [
        f"{path.relative_to(ROOT)}: {each.name}"
        for folder in ("nodes", "harness")
        for path in (ROOT / folder).rglob("*.py")
        if path not in compiled
        for each in classes(path)
        if {ast.unparse(base).split("[")[0] for base in each.bases} & (native - errors)
    ]
    assert heirs == []


def test_no_compiled_class_is_a_schema_of_kio() -> None:
    """kio reads attributes of the class, and makes classes like it, that mypyc's classes lack."""
    schemas = [
        f"{name}: {each.name}"
        for name in COMPILED
        for each in classes(ROOT / name)
        for line in each.body
        if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) == "__type__"
    ]
    assert schemas == []


def test_a_module_with_an_extension_of_this_python_is_compiled(tmp_path: Path) -> None:
    """An extension of another Python is not loaded, so it does not count."""
    from importlib.machinery import EXTENSION_SUFFIXES

    package = tmp_path / "nodes"
    (package / "log").mkdir(parents=True)
    for name in ("log/batch", "log/index", "ids"):
        (package / f"{name}.py").touch()
    assert description(package) == INTERPRETED
    (package / f"log/index{EXTENSION_SUFFIXES[0]}").touch()
    (package / "ids.cpython-27-of-another.so").touch()
    assert compiled_modules(package) == ["nodes.log.index"]
    assert description(package) == "compiled (modules: 1)"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the broker in which the project's build has compiled one small module."""
    headers = subprocess.run(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if shutil.which("gcc") is None or not (Path(headers) / "Python.h").exists():
        pytest.skip("a compiled build needs gcc and Python's headers: apt-get install python3-dev")
    place = tmp_path_factory.mktemp("built")
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "nodes", place / "nodes", ignore=ignored)
    for name in ("setup.py", "README.md"):
        shutil.copy(ROOT / name, place / name)
    start, end = PROJECT.index("compiled = [") + len("compiled = ["), PROJECT.index("[tool.ruff]")
    text = f'{PROJECT[:start]}"{BUILT}"]\n\n{PROJECT[end:]}'
    (place / "pyproject.toml").write_text(text)
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=place,
        env={**os.environ, "HIGHWATER_COMPILE": "1"},
        check=True,
        timeout=BUILD_S,
        capture_output=True,
    )
    return place


def run(script: str, place: Path, **variables: str) -> str:
    """What a script prints that imports the broker of that place."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place), **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def answers(place: Path, **variables: str) -> Mapping[str, Any]:
    """What LeaderEpochs answers to the same random calls, and the file that it was loaded from."""
    found: Mapping[str, Any] = json.loads(run(ANSWERS, place, **variables))
    return found


@pytest.mark.slow
def test_a_compiled_module_answers_as_its_source_does(built: Path) -> None:
    """Random calls, errors among them; the variable runs the source."""
    compiled, interpreted = answers(built), answers(built, **{VARIABLE: "1"})
    assert Path(compiled["file"]).suffix == ".so"
    assert Path(interpreted["file"]).suffix == ".py"
    assert len(compiled["answers"]) > 4000
    assert compiled["answers"] == interpreted["answers"]


@pytest.mark.slow
def test_sources_are_used_before_a_module_is_loaded_and_refused_after(built: Path) -> None:
    """A mutant's patch of a compiled function would have no effect: better an error."""
    file, _, described = run(SOURCES_FIRST, built).strip().partition(" ")
    assert Path(file).suffix == ".py"
    assert described == INTERPRETED
    assert f"set {VARIABLE}=1" in run(CHANGES, built)


@pytest.mark.slow
def test_the_shared_library_is_inside_of_the_package(built: Path) -> None:
    """Nodes in containers and on other machines get the package, and nothing beside it."""
    assert list(built.glob("*.so")) == []
    assert list((built / "nodes").glob("compiled__mypyc*.so"))
