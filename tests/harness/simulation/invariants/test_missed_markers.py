"""Replicas that lag for longer than delete.retention.ms: their leader has removed a marker, or its
record, and they still have records of its transaction. No rule accuses them for that."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from harness.simulation.invariants import coordinated_groups, coordinators
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import Ended, read_entries
from harness.simulation.invariants.compaction import CompactionChecker
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.partition_history import PartitionHistory
from harness.simulation.invariants.wall_clock import Clock
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.offsets import OffsetKey
from nodes.coordinators.groups.records import CommitEncoder
from nodes.coordinators.groups.settings import GroupSettings
from nodes.coordinators.groups.topics import TopicsView
from nodes.coordinators.machine import ProducerStamp
from nodes.ids import Epoch, Offset, TopicPartition
from nodes.log.batch import HEADER_BYTES, TRANSACTIONAL_BIT, assemble, patch, read_header
from nodes.log.cleaning.filtering import RecordFilter
from nodes.log.key_values import encode_key_values
from nodes.log.log import Log
from nodes.log.transactions.markers import Marker, encode_marker
from nodes.server.coordinators.loading import replay
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import open_log
from tests.support.nodes.cleaning import (
    COMPACTED,
    cleaning,
    committed_pairs,
    do,
    keyed,
    pairs_of,
    roll,
)

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


# -- compacted topics

WRITER, OTHER = 81, 82
"""Transactional producers."""
KEY = b"k"


class Judged:
    """A replica of a compacted partition, whose cleanings are judged."""

    def __init__(self, history: PartitionHistory, node: int, now_ms: list[int]) -> None:
        self.log = open_log(MemoryDisk(), config=COMPACTED)
        self.copy = Copy(history, node)
        self.copy.open(self.log)
        self._now_ms = now_ms
        self._checker = CompactionChecker(
            self.copy, self.log, lambda: Clock(now_ms[0], changed=False)
        )

    def look(self) -> None:
        """Read what is new, and judge it."""
        self.copy.read()
        self.copy.flushed = self.log.flushed_offset
        self._checker.check()

    def clean(self) -> None:
        """Clean the log."""
        roll(self.log)
        do(cleaning(self.log, now_ms=self._now_ms[0]), self.log.segments.disk)
        self.look()

    def values(self) -> dict[bytes | None, bytes | None]:
        """The last value of each key, for readers of committed records."""
        return {key: value for _, key, value in committed_pairs(self.log)}


class Pair:
    """A leader, and a replica that lags; everything that the leader has is committed."""

    def __init__(self) -> None:
        self._history = PartitionHistory("t-0")
        self._history.compact()
        self._now_ms = [5000]
        self.leader = Judged(self._history, 1, self._now_ms)
        self.lagging = Judged(self._history, 2, self._now_ms)
        self._other_epoch = 0

    def _look(self) -> None:
        copy = self.leader.copy
        copy.read()
        assert copy.last is not None
        self._history.commit(copy.last, EPOCH, 1)
        self.leader.look()

    def write(self, epoch: int, value: bytes | None, key: bytes = KEY, by: int = WRITER) -> None:
        """Append a record of a transaction."""
        end = self.leader.log.end_offset
        plain = keyed((key, value), producer=(by, epoch, 0), base_offset=end, epoch=EPOCH)
        header = read_header(plain)._replace(attributes=TRANSACTIONAL_BIT)
        self.leader.log.append_as_follower(assemble(header, plain[HEADER_BYTES:]))
        self._look()

    def end(self, epoch: int, *, committed: bool, by: int = WRITER) -> None:
        """Append a marker of the epoch after the transaction's."""
        mark(self.leader.log, by, epoch, committed=committed)
        self._look()

    def write_other(self) -> None:
        """Append a transaction of the other producer."""
        epoch, self._other_epoch = self._other_epoch, self._other_epoch + 1
        self.write(epoch, b"2", b"other", by=OTHER)
        self.end(epoch + 1, committed=True, by=OTHER)

    def clean_leader(self, times: int) -> None:
        """Clean the leader's log several times, so that what may go is gone."""
        for _ in range(times):
            self.leader.clean()
            self._now_ms[0] += 1000
            self.write_other()

    def follow(self) -> None:
        """Copy what the lagging replica lacks."""
        follow(self.leader.log, self.lagging.log)
        self.lagging.look()


def aborted_write(*, missed: bool) -> Pair:
    """A value of an aborted transaction follows a committed one; a later transaction of the
    producer is committed. Unless the marker is `missed`, the other replica has it.
    """
    pair = Pair()
    pair.write(0, b"old")
    pair.end(1, committed=True)
    pair.write(1, b"aborted")
    pair.follow()
    pair.end(2, committed=False)
    if not missed:
        pair.follow()
    pair.write(2, b"1", b"x")
    pair.end(3, committed=True)
    pair.clean_leader(4)
    pair.follow()
    return pair


def test_aborted_record_whose_marker_was_missed_supersedes_others() -> None:
    """The next marker of its producer ends its transaction."""
    pair = aborted_write(missed=True)
    assert pair.leader.values()[KEY] == b"old"
    assert pair.lagging.values()[KEY] == b"aborted"
    pair.lagging.clean()
    assert [value for _, key, value in pairs_of(pair.lagging.log) if key == KEY] == [b"aborted"]


@pytest.mark.parametrize("missed", [False, True])
def test_other_lost_records_are_found(*, missed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last record of a key, if the marker is there; and always that of another key."""
    pair = aborted_write(missed=missed)
    monkeypatch.setattr(RecordFilter, "retained", lambda self, header, fates: bytearray(len(fates)))
    with pytest.raises(InvariantBroken, match="is the last of its key") as broken:
        pair.lagging.clean()
    assert f"key={b'x' if missed else KEY!r}" in str(broken.value)


@pytest.mark.parametrize("missed", [False, True])
def test_deletion_whose_bare_marker_aborts_it_goes(*, missed: bool) -> None:
    """The leader has removed a committed deletion, and the record of its marker."""
    pair = Pair()
    pair.write(0, b"old")
    pair.end(1, committed=True)
    pair.write(1, None)
    pair.follow()
    pair.end(2, committed=True)
    if not missed:
        pair.follow()
    pair.clean_leader(6)
    pair.follow()
    assert pair.lagging.values()[KEY] == (b"old" if missed else None)
    pair.lagging.clean()
    left = [value for _, key, value in pairs_of(pair.lagging.log) if key == KEY]
    assert left == ([b"old"] if missed else [None])
