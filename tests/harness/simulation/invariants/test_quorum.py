"""A leader of the quorum commits what is on the disks of a majority."""

from types import SimpleNamespace
from typing import Any

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.quorum import QuorumMemberChecker, QuorumRecord
from harness.simulation.world.disk import SimDisk
from harness.simulation.world.world import World
from nodes.ids import NodeId
from nodes.raft.roles import Role
from nodes.raft.voters import VoterSet
from tests.support.simulation.appended import appended, header


def commit(record: QuorumRecord) -> None:
    """Node 1 leads epoch 1, and commits a record that the disk of node 1 has."""
    (batch,) = appended(record.history, 1, header(0, 1))
    record.copy(1).batches = {1: batch}
    record.copy(1).flushed = 1
    quorum: Any = SimpleNamespace(
        high_watermark=0,
        epoch=1,
        role=Role.LEADER,
        leadership=object(),
        voters=VoterSet.static(map(NodeId, (1, 2, 3))),
    )
    checker = QuorumMemberChecker(record, 1, quorum, SimDisk(World(1), "disk"))
    checker._check_high_watermark(0, 1)


def test_voter_with_a_damaged_disk_may_have_had_a_record() -> None:
    """When it said so."""
    record = QuorumRecord()
    record.copy(2).mark_lost(frozenset(), everything=True)
    commit(record)
    assert record.history.last_committed() is not None


def test_loss_of_power_takes_no_record_that_counts() -> None:
    """It was flushed."""
    record = QuorumRecord()
    for node in (2, 3):
        record.copy(node).mark_lost(frozenset())
    with pytest.raises(InvariantBroken, match="majority-has-committed"):
        commit(record)
