"""The command of a node of the built-in broker, and what a run records of its build."""

from pathlib import Path

import pytest

import nodes
from harness.brokers.built_in import BuiltIn
from harness.brokers.program import NodeFiles
from nodes import sources

SOURCES = Path(nodes.__path__[0]).parent
FILES = NodeFiles(
    node=1,
    local_dir=Path("here"),
    properties=Path("server.properties"),
    log_dir=Path("log"),
    python="python",
    environment={},
)


def test_node_runs_the_broker_of_this_process_wherever_it_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`python -m` would prefer a source tree in the current directory to a compiled broker."""
    (tmp_path / "nodes").mkdir()
    monkeypatch.chdir(tmp_path)
    assert BuiltIn("nodes").command(FILES).argv[:4] == ("python", "-P", "-m", "nodes")
    assert BuiltIn("nodes").required_files() == [SOURCES / "nodes"]
    monkeypatch.chdir(SOURCES)
    assert BuiltIn("nodes").command(FILES).argv[:3] == ("python", "-m", "nodes")


def test_module_in_the_current_directory_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A broker of one's own."""
    monkeypatch.chdir(tmp_path)
    assert BuiltIn("own.broker").command(FILES).argv[:3] == ("python", "-m", "own.broker")


def test_versions_say_whether_the_broker_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant runs the sources in any case."""
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    monkeypatch.setattr(sources, "compiled_modules", lambda package: ["nodes.ids"])
    assert BuiltIn("nodes").versions() == {"built-in broker": "compiled (modules: 1)"}
    mutant = BuiltIn("harness.zoo.mutants.accepts_gaps")
    assert mutant.versions() == {"built-in broker": "interpreted"}
    monkeypatch.setenv(sources.VARIABLE, "1")
    assert BuiltIn("nodes").versions() == {"built-in broker": "interpreted"}
