"""Disks that are lost one after the other, in a simulated world: the quorum forgets nothing.

Without the wait for each vote the first of these schedules elects a leader that has nothing, and
the invariants of the metadata log break.
"""

import pytest

from harness.simulation.run import Simulation
from nemesis import generator
from tests.support.simulation.plans import prepared

LOSSES = {"faults": ["disk.lost"], "interval_ms": [1, 1], "duration_ms": [500, 1000]}


def test_disks_may_be_lost_one_after_the_other_once_the_node_votes_again() -> None:
    """All nodes lose their disks in turn, and no promise is broken."""
    recording = Simulation(prepared(seed=1, duration_s=8, nemesis=LOSSES)).run()
    assert (recording.failure, recording.notes) == (None, [])
    faults = recording.faults.named()
    assert len(faults) > 1
    assert {fault["error"] for fault in faults} == {None}
    assert all(fault["took_effect"] for fault in faults)
    assert recording.facts["settled"]


@pytest.mark.slow
def test_quorum_forgets_if_the_next_disk_is_lost_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would show it."""
    monkeypatch.setattr(generator, "VOTE_TAKING_FAULTS", frozenset())
    recording = Simulation(prepared(seed=1, duration_s=8, nemesis=LOSSES)).run()
    assert recording.failure is not None
    print(recording.failure)
