"""A coordinator loads a log that was compacted."""

import asyncio
from typing import Any

from nodes.coordinators.machine import Position, ProducerStamp
from nodes.coordinators.records import CoordinatorRecord
from nodes.ids import Epoch
from nodes.log.batch import assemble, read_header
from nodes.log.transactions.markers import Marker, encode_marker
from nodes.server.coordinators.loading import load
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import content, open_log, write_in_transaction
from tests.support.nodes.cleaning import COMPACTED, cleaning, do, keyed, roll


class Replayed:
    """A machine that only remembers what it replayed."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None, int, int]] = []
        self.ended: list[tuple[int, bool]] = []

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        self.records.append((record.key, record.value, position.offset, position.timestamp))

    def end_transaction(self, producer: ProducerStamp, position: Position, *, commit: bool) -> None:
        self.ended.append((position.offset, commit))


def test_marker_without_a_record_ends_its_transaction() -> None:
    """What is pending would be committed with the next transaction of the producer."""
    log = open_log(MemoryDisk())
    write_in_transaction(log, (7, 0, 0))
    marker = read_header(encode_marker(Marker(7, 0, 1, committed=True), 1)).without_records()
    place = marker._replace(base_offset=log.end_offset, partition_leader_epoch=Epoch(1))
    log.append_as_follower(assemble(place))
    machine: Any = Replayed()
    asyncio.run(load(machine, log))
    assert machine.ended == [(1, False)]


def test_records_that_are_left_have_their_offsets_and_times() -> None:
    """The batch of a tombstone has its delete horizon where the base of the times was."""
    disk = MemoryDisk()
    log = open_log(disk, config=COMPACTED)
    log.append_as_leader(keyed((b"a", b"1"), timestamp_ms=1000), Epoch(1))
    log.append_as_leader(keyed((b"b", b"2"), (b"a", None), timestamp_ms=1234), Epoch(1))
    roll(log)
    do(cleaning(log), disk)
    assert read_header(content(log)[1]).has_delete_horizon
    machine: Any = Replayed()
    asyncio.run(load(machine, log))
    assert machine.records == [(b"b", b"2", 1, 1234), (b"a", None, 2, 1234)]
