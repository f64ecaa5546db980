"""A coordinator loads a log that was compacted."""

import asyncio
from typing import Any

from nodes.coordinators.machine import Position
from nodes.coordinators.records import CoordinatorRecord
from nodes.ids import Epoch
from nodes.log.batch import read_header
from nodes.server.coordinators.loading import load
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import content, open_log
from tests.support.nodes.cleaning import COMPACTED, cleaning, do, keyed, roll


class Replayed:
    """A machine that only remembers what it replayed."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None, int, int]] = []

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        self.records.append((record.key, record.value, position.offset, position.timestamp))


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
