"""Reading a running run: every recorded row counts at once and once, from the journal too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from checkers.history.history import FAULTS, read_sources
from harness.judging.growing_run import FollowedRun
from harness.recording import store
from harness.recording.history import RowStream
from harness.recording.journal import Journal
from harness.recording.store import Run
from tests.harness.recording.test_cursor import rotated

DAMAGED = '{"1": ["log/t-0/00000000000000000000.log"]}'


class RunningRun:
    """A run that goes on, and what its harness does."""

    def __init__(self, root: Path) -> None:
        self.run: Run = store.create(root / "store", "long", versions={}, commit=None)
        self.run.write_json("plan.json", {"name": "long", "topics": [{"name": "t", "acks": 1}]})
        self.cluster = self.run.cluster_stream(60.0)
        self.faults: RowStream = self.run.faults_stream(60.0)
        (root / "registry").mkdir()
        self.journal = Journal.create(
            self.run.path / "journal.jsonl", run_id="r", registry=root / "registry"
        )

    def strike(self, number: int, kind: str) -> None:
        """A fault begins, by the journal."""
        said = {"fault": kind, "label": f"{kind} node 1", "planned_ms": 1, "nodes": [1]}
        self.journal.record("fault", fault_id=number, at_ns=number, **said)
        seen = {"effect": "seen", "damaged": DAMAGED}
        self.journal.record("fault-effective", fault_id=number, at_ns=number, **seen)

    def heal(self, number: int, kind: str) -> None:
        """A fault is over, by the journal and the record."""
        self.journal.record("fault-healed", fault_id=number, at_ns=number + 1)
        self.faults.append_named(
            fault_id=number,
            fault=kind,
            targets='{"nodes": [1]}',
            took_effect=True,
            effect="all of it",
        )
        self.faults.flush()


@pytest.fixture
def running_run(tmp_path: Path) -> Iterator[RunningRun]:
    """A run without rows."""
    made = RunningRun(tmp_path)
    yield made
    made.journal.close()


def faults(followed: FollowedRun) -> list[tuple[int, str | None]]:
    """Ids and effects of the faults by which a suspected anomaly would be judged."""
    rows = read_sources(followed.sources().faults, FAULTS).to_pylist()
    return [(row["fault_id"], row["effect"]) for row in rows]


def test_fault_counts_from_its_injection_on(running_run: RunningRun) -> None:
    """The journal has it first and the table later; it never counts twice."""
    followed = FollowedRun(running_run.run.path)
    running_run.strike(0, "power-loss")
    assert faults(followed) == [(0, "seen")]
    [row] = read_sources(followed.sources().faults, FAULTS).to_pylist()
    assert row["damaged"] == DAMAGED
    running_run.heal(0, "power-loss")
    assert faults(followed) == [(0, "all of it")]
    rotated(running_run.faults)
    store.seal_ended(running_run.run)
    assert faults(followed) == [(0, "all of it")]
    assert faults(FollowedRun(running_run.run.path)) == [(0, "all of it")]


def test_pause_is_forgotten_after_its_heal(running_run: RunningRun) -> None:
    """A pause that is over is neither kept nor expected to end."""
    followed = FollowedRun(running_run.run.path)
    for number in range(50):
        running_run.strike(number, "pause")
        followed.read_new()
        running_run.heal(number, "pause")
        followed.read_new()
    assert followed.remembered.size() == 0
    assert faults(followed) == []


def test_journal_says_that_the_run_is_over(running_run: RunningRun) -> None:
    """From then on the files themselves are read."""
    followed = FollowedRun(running_run.run.path)
    running_run.strike(0, "pause")
    running_run.heal(0, "pause")
    followed.read_new()
    assert not followed.over
    running_run.journal.finish()
    for stream in (running_run.cluster, running_run.faults):
        stream.close()
    followed.read_new()
    assert followed.over
    assert faults(followed) == [(0, "all of it")]


def test_segment_is_not_needed_again_after_it_was_read(running_run: RunningRun) -> None:
    """The short form that is kept in memory is enough."""
    followed = FollowedRun(running_run.run.path)
    running_run.cluster.append_named(
        at_ns=1, kind="leader", topic="t", partition=0, leader=1, leader_epoch=0, isr=[1, 2]
    )
    running_run.strike(0, "power-loss")
    running_run.heal(0, "power-loss")
    for stream in (running_run.cluster, running_run.faults):
        rotated(stream)
    followed.read_new()
    store.seal_ended(running_run.run)
    for path in running_run.run.path.glob("*/*.parquet"):
        path.write_bytes(b"")
    (rows,) = followed.sources().cluster
    assert not isinstance(rows, Path | str)
    assert rows["isr"].to_pylist() == [[1, 2]]
    assert faults(followed) == [(0, "all of it")]
