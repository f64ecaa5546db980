"""Replicas that lag for longer than delete.retention.ms: their leader has removed a marker, or its
record, and they still have records of its transaction. No rule accuses them for that."""

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from harness.simulation.invariants import convergence, coordinated_groups, coordinators
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import Ended, read_entries
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.offsets import OffsetKey
from nodes.coordinators.groups.records import CommitEncoder
from nodes.coordinators.groups.settings import GroupSettings
from nodes.coordinators.groups.topics import TopicsView
from nodes.coordinators.machine import ProducerStamp
from nodes.ids import Offset, TopicPartition
from nodes.log.cleaning.filtering import RecordFilter
from nodes.log.key_values import encode_key_values
from nodes.log.log import Log
from nodes.server.coordinators.loading import replay
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import open_log
from tests.support.nodes.cleaning import COMPACTED, cleaning, do, pairs_of, roll
from tests.support.simulation.cleanings import (
    Judged,
    append,
    compacted_partition,
    follow,
    mark,
    write,
)

KEEPER = 71
"""A producer of offsets."""


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
    mark(leader, (KEEPER, 1), committed=committed)
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


class Pair:
    """A leader, and a replica that lags; everything that the leader has is committed."""

    def __init__(self) -> None:
        history = compacted_partition()
        self.leader, self.lagging = Judged(history, 1), Judged(history, 2)
        self._other_epoch = 0

    def write(self, epoch: int, value: bytes | None, key: bytes = KEY) -> None:
        """Append a record of a transaction."""
        write(self.leader.log, (WRITER, epoch), key, value)
        self.leader.look(commits=True)

    def end(self, epoch: int, *, committed: bool) -> None:
        """Append a marker, of the epoch after the transaction's."""
        mark(self.leader.log, (WRITER, epoch), committed=committed)
        self.leader.look(commits=True)

    def clean_leader(self, times: int) -> None:
        """Clean the leader's log several times, so that what may go is gone; another producer
        writes meanwhile.
        """
        for number in range(times):
            self.leader.roll()
            self.leader.clean()
            write(self.leader.log, (OTHER, number), b"other", b"2")
            mark(self.leader.log, (OTHER, number + 1), committed=True)
            self.leader.look(commits=True)
        self.lagging.now_ms = self.leader.now_ms

    def follow(self) -> None:
        """Copy what the lagging replica lacks."""
        follow(self.leader.log, self.lagging.log)
        self.lagging.look()

    def clean_lagging(self) -> None:
        """Clean the log of the replica that lags."""
        self.lagging.roll()
        self.lagging.clean()


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
    pair.clean_lagging()
    assert [value for _, key, value in pairs_of(pair.lagging.log) if key == KEY] == [b"aborted"]


@pytest.mark.parametrize("missed", [False, True])
def test_other_lost_records_are_found(*, missed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last record of a key, if the marker is there; and always that of another key."""
    pair = aborted_write(missed=missed)
    monkeypatch.setattr(RecordFilter, "retained", lambda self, header, fates: bytearray(len(fates)))
    with pytest.raises(InvariantBroken, match="is the last of its key") as broken:
        pair.clean_lagging()
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
    pair.clean_lagging()
    left = [value for _, key, value in pairs_of(pair.lagging.log) if key == KEY]
    assert left == ([b"old"] if missed else [None])


def test_transaction_stays_open_if_its_producer_is_forgotten_too() -> None:
    """The leader keeps no batch of a producer that expired. Replicas whose producers do not expire
    have the same state of it.
    """
    expiring = replace(COMPACTED, producer_expiration_ms=2000)
    leader, lagging = (open_log(MemoryDisk(), config=expiring) for _ in range(2))
    write(leader, (WRITER, 0), KEY, b"aborted")
    follow(leader, lagging)
    mark(leader, (WRITER, 1), committed=False)
    for number in range(4):
        roll(leader, expiring)
        do(cleaning(leader, now_ms=5000 + 1000 * number), leader.segments.disk)
        write(leader, (OTHER, number), b"other", b"2")
        mark(leader, (OTHER, number + 1), committed=True)
    follow(leader, lagging)
    assert WRITER not in dict(leader.producers.items())
    assert dict(lagging.producers.items())[WRITER].transaction_start == 0
    for config, same in (expiring, True), (COMPACTED, False):
        leader.configure(config)
        lagging.configure(config)
        states = [convergence._producers(log, compacted=True) for log in (leader, lagging)]
        assert (states[0] == states[1]) is same
