"""Replicas that lag for longer than delete.retention.ms: their leader has removed a marker, or its
record, and they still have records of its transaction. No rule accuses them for that."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from harness.simulation.invariants import coordinated_groups, coordinators
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import Ended, read_entries
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.offsets import OffsetKey
from nodes.coordinators.groups.records import CommitEncoder
from nodes.coordinators.groups.settings import GroupSettings
from nodes.coordinators.groups.topics import TopicsView
from nodes.coordinators.machine import ProducerStamp
from nodes.ids import Epoch, Offset, TopicPartition
from nodes.log.batch import patch
from nodes.log.key_values import encode_key_values
from nodes.log.log import Log
from nodes.log.transactions.markers import Marker, encode_marker
from nodes.server.coordinators.loading import replay
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import open_log
from tests.support.nodes.cleaning import COMPACTED, cleaning, do, roll

EPOCH = Epoch(1)
KEEPER = 71
"""A producer of offsets."""


def append(log: Log, batch: bytes) -> None:
    """Append a batch of the leader epoch EPOCH."""
    placed = bytearray(batch)
    patch(placed, 0, base_offset=log.end_offset, leader_epoch=EPOCH)
    log.append_as_follower(bytes(placed))


def mark(log: Log, producer_id: int, epoch: int, *, committed: bool) -> None:
    """Append a marker."""
    append(log, encode_marker(Marker(producer_id, epoch, 1, committed), 1000))


def follow(leader: Log, follower: Log) -> None:
    """Copy what the follower lacks."""
    while follower.end_offset < leader.end_offset:
        found = leader.read(follower.end_offset, 1 << 20, leader.end_offset)
        follower.append_as_follower(found)


# -- offsets of groups


def commit(log: Log, group: str, offset: int, producer: tuple[int, int] = (-1, -1)) -> None:
    """Commit an offset of partition 0, in the transaction of a producer if there is one."""
    record = CommitEncoder(group, "t", commit_timestamp=1000).encode(0, Offset(offset))
    batch = encode_key_values(
        [record],
        1000,
        transactional=producer[0] >= 0,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    append(log, bytes(batch))


def lagging_coordinator(*, committed: bool) -> Log:
    """The log of a replica that has a pending offset, and the bare marker of its transaction. An
    offset that was committed has a successor.
    """
    leader, lagging = (open_log(MemoryDisk(), config=COMPACTED) for _ in range(2))
    commit(leader, "g", 5)
    for number in range(10):
        commit(leader, f"other-{number}", 1)
    commit(leader, "g", 6, (KEEPER, 0))
    follow(leader, lagging)
    mark(leader, KEEPER, 1, committed=committed)
    if committed:
        commit(leader, "g", 7)
    for now_ms in range(5000, 9000, 1000):
        roll(leader)
        do(cleaning(leader, now_ms=now_ms), leader.segments.disk)
        commit(leader, "more", 1)
    follow(leader, lagging)
    return lagging


def no_topics() -> TopicsView:
    """What committed offsets do not need."""
    raise AssertionError("no topic is asked for")


def machine() -> GroupCoordinator:
    """A coordinator that remembers nothing."""
    return GroupCoordinator(GroupSettings(), no_topics, Random(1))


def loaded(log: Log) -> GroupCoordinator:
    """A coordinator that has replayed the log."""
    made, offset = machine(), log.start_offset
    while offset < log.end_offset:
        offset = replay(made, log.read(offset, 1 << 20, log.end_offset))
    return made


def replica_of(log: Log) -> Any:
    """A replica with this log, all of which is stable."""
    partition = TopicPartition("__consumer_offsets", 0)
    stable = log.last_stable_offset(log.end_offset)
    return SimpleNamespace(log=log, retired=False, partition=partition, last_stable_offset=stable)


def test_marker_without_its_record_aborts() -> None:
    """As the broker replays it."""
    log = lagging_coordinator(committed=False)
    (marker,) = (each for each in read_entries(log) if isinstance(each, Ended))
    assert marker.producer == ProducerStamp(KEEPER, 1)
    assert not marker.committed


@pytest.mark.parametrize("committed", [False, True])
def test_coordinator_remembers_what_a_bare_marker_leaves(*, committed: bool) -> None:
    """However the log is compacted for the comparison. An offset too many is found."""
    log = lagging_coordinator(committed=committed)
    for _ in range(3):
        made = loaded(log)
        known = made.offsets.committed(OffsetKey("g", "t", 0))
        assert known is not None
        assert known.offset == (7 if committed else 5)
        coordinators.check_coordinator(replica_of(log), 2, made, machine)
        commit(log, "more", 2)
    with pytest.raises(InvariantBroken, match="coordinators-replay"):
        coordinators.check_coordinator(replica_of(log), 2, made, machine)


@pytest.mark.parametrize("committed", [False, True])
def test_offset_that_a_bare_marker_has_ended_is_not_pending(*, committed: bool) -> None:
    """So the one below may expire. One of an open transaction is pending."""
    log = lagging_coordinator(committed=committed)
    assert list(coordinated_groups._pending(read_entries(log))) == []
    commit(log, "g", 8, (KEEPER, 1))
    assert list(coordinated_groups._pending(read_entries(log))) == [OffsetKey("g", "t", 0)]
