"""A run that is followed: what was recorded counts at once, from the journal too, and only once."""

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


class Going:
    """A run that goes on, with the hands of its harness."""

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
        self.journal.record("fault-effective", fault_id=number, at_ns=number, effect="seen")

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
def going(tmp_path: Path) -> Iterator[Going]:
    """A run without rows."""
    made = Going(tmp_path)
    yield made
    made.journal.close()


def faults(followed: FollowedRun) -> list[tuple[int, str | None]]:
    """Numbers and effects of the faults that a suspect would be judged by."""
    rows = read_sources(followed.sources().faults, FAULTS).to_pylist()
    return [(row["fault_id"], row["effect"]) for row in rows]


def test_a_fault_counts_from_its_strike_on(going: Going) -> None:
    """First as the journal has it, then as the record does, and never twice."""
    followed = FollowedRun(going.run.path)
    going.strike(0, "power-loss")
    assert faults(followed) == [(0, "seen")]
    going.heal(0, "power-loss")
    assert faults(followed) == [(0, "all of it")]
    rotated(going.faults)
    store.seal_ended(going.run)
    assert faults(followed) == [(0, "all of it")]
    assert faults(FollowedRun(going.run.path)) == [(0, "all of it")]


def test_what_ended_with_its_heal_is_forgotten(going: Going) -> None:
    """A pause that is over is neither kept nor waited for."""
    followed = FollowedRun(going.run.path)
    for number in range(50):
        going.strike(number, "pause")
        followed.look()
        going.heal(number, "pause")
        followed.look()
    assert followed.remembered.size() == 0
    assert faults(followed) == []


def test_the_end_is_known_by_the_journal(going: Going) -> None:
    """From then on all that is recorded counts, as it is."""
    followed = FollowedRun(going.run.path)
    going.strike(0, "pause")
    going.heal(0, "pause")
    followed.look()
    assert not followed.over
    going.journal.finish()
    for stream in (going.cluster, going.faults):
        stream.close()
    followed.look()
    assert followed.over
    assert faults(followed) == [(0, "all of it")]


def test_what_is_remembered_is_enough_without_what_was_read(going: Going) -> None:
    """The follower does not go back to a segment."""
    followed = FollowedRun(going.run.path)
    going.cluster.append_named(
        at_ns=1, kind="leader", topic="t", partition=0, leader=1, leader_epoch=0, isr=[1, 2]
    )
    going.strike(0, "power-loss")
    going.heal(0, "power-loss")
    for stream in (going.cluster, going.faults):
        rotated(stream)
    followed.look()
    store.seal_ended(going.run)
    for path in going.run.path.glob("*/*.parquet"):
        path.write_bytes(b"")
    (rows,) = followed.sources().cluster
    assert not isinstance(rows, Path | str)
    assert rows["isr"].to_pylist() == [[1, 2]]
    assert faults(followed) == [(0, "all of it")]
