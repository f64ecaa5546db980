"""Who is excused for not running, and who is not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.systems.refused_starts import RefusedStarts
from nemesis.faults.fault import Injection
from nemesis.record import FaultRecord
from nemesis.schedule import Event

SAID = "node cannot run: quorum-state cannot be read"


class Nodes:
    """Those that ended, with their exit codes."""

    def __init__(self, ended: dict[int, int]) -> None:
        self.ended = ended

    def is_running(self, node: int) -> bool:
        return node not in self.ended

    def exit_code(self, node: int) -> int | None:
        return self.ended.get(node)


def damage(*nodes: int, file: str = "vote", took: bool = True) -> FaultRecord:
    """A file of each of these nodes was damaged."""
    event = Event(id=4, at_ms=0, fault="disk.cut-tail", duration_ms=1)
    return FaultRecord(
        event=event,
        label="disk.cut-tail node 3",
        injection=Injection(nodes=nodes, details=(("file", file), ("key", "k"))),
        started_ns=1,
        effective_ns=2 if took else None,
    )


def refusals(tmp_path: Path, ended: dict[int, int], said: str = f"one\n{SAID}\n") -> RefusedStarts:
    path = tmp_path / "node.log"
    path.write_text(said)
    return RefusedStarts(Nodes(ended), lambda node: path if node == 3 else tmp_path / "none")


def test_refused_start_is_reported_once_with_its_fault_and_reason(tmp_path: Path) -> None:
    """It stays in the list of all refused starts."""
    found = refusals(tmp_path, {3: 1})
    found.note(damage(3))
    [news] = found.find_new()
    assert news.text == (
        f"node 3 refused its damaged files (fault 4, disk.cut-tail node 3): {SAID}"
    )
    assert news.as_json()["text"] == news.text
    assert found.find_new() == []
    assert found.found == [news]


@pytest.mark.parametrize(
    ("ended", "record"),
    [
        ({3: 1}, damage(2)),
        ({3: 1}, damage(3, took=False)),
        ({3: 1}, damage(3, file="log")),
        ({3: 1}, replace(damage(3), injection=None)),
        ({3: -9}, damage(3)),
        ({3: 0}, damage(3)),
        ({}, damage(3)),
    ],
)
def test_node_that_ends_for_another_reason_does_not_count(
    tmp_path: Path, ended: dict[int, int], record: FaultRecord
) -> None:
    """Other nodes' files, no damage, files that can be restored, a kill, a clean end."""
    found = refusals(tmp_path, ended)
    found.note(record)
    assert found.find_new() == []


@pytest.mark.parametrize(
    ("said", "last"), [("", ""), ("\n\n", ""), ("a\nb\n\n", "b"), ("x" * 9000, "x" * 400)]
)
def test_reason_is_one_bounded_line(tmp_path: Path, said: str, last: str) -> None:
    """Of whatever a node wrote, bounded."""
    found = refusals(tmp_path, {}, said)
    assert found.last_line(3) == last
    assert found.last_line(1) == ""


def test_node_without_output_counts_as_refused(tmp_path: Path) -> None:
    """Its log may be lost."""
    found = refusals(tmp_path, {1: 1})
    found.note(damage(1))
    assert "it did not say why" in found.find_new()[0].text


def test_fault_without_files_damages_none(tmp_path: Path) -> None:
    """A kill has no kind of file."""
    found = refusals(tmp_path, {3: 1})
    killed: Any = damage(3)
    killed.injection = Injection(nodes=(3,))
    found.note(killed)
    assert found.find_new() == []
