"""Answers to DeleteRecords in simulated runs: each is judged, and wrong ones are found."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.invariants import InvariantBroken, node_checker
from harness.simulation.invariants.deletions import check_deletion
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation
from nodes.ids import Offset
from nodes.server.replicas.replica import Replica
from nodes.server.requests import log_admin
from nodes.server.requests.log_admin import LogAdminHandler
from tests.support.simulation.plans import prepared

DELETING = {"events": [{"at_ms": 200, "fault": "records.delete", "duration_ms": 3000}]}


def ran() -> Recording:
    """A run in which records are deleted."""
    return Simulation(prepared(nemesis=DELETING)).run()


def found(recording: Recording) -> str:
    """What the invariant says of it."""
    broken = recording.facts["broken_invariant"]
    assert broken["name"] == "deletions-stay"
    return str(recording.failure)


def test_answers_are_judged_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[tuple[int, int]] = []

    def noted(replica: Replica, node: int, asked: Offset, low: Offset, disk: Any) -> None:
        judged.append((asked, low))
        check_deletion(replica, node, asked, low, disk)
        for wrong in (asked - 1, replica.log.start_offset + 1):
            with pytest.raises(InvariantBroken, match="deletions-stay"):
                check_deletion(replica, node, asked, Offset(wrong), disk)

    monkeypatch.setattr(node_checker, "check_deletion", noted)
    assert ran().failure is None
    assert len({asked for asked, low in judged if asked > 0}) > 5


def test_broker_that_deletes_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers what was asked for."""
    monkeypatch.setattr(Replica, "advance_start", lambda self, offset: None)
    monkeypatch.setattr(
        log_admin._RecordDeletion, "_low_watermark", lambda self, replicas: self._target
    )
    assert "but its log starts at 0" in found(ran())


def test_broker_that_answers_a_start_below_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for its followers, and tells where the last one is."""
    monkeypatch.setattr(log_admin._RecordDeletion, "is_waiting", lambda self, replicas: False)
    assert "was asked for" in found(ran())


def test_broker_whose_disk_does_not_know_the_start_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A power loss would bring the records back."""

    async def not_written(self: LogAdminHandler, deadline_s: float) -> ErrorCode:
        return ErrorCode.none

    monkeypatch.setattr(LogAdminHandler, "_checkpoint_starts", not_written)
    assert "after a power loss its log would start at" in found(ran())
