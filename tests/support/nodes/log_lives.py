"""Lives of a log, to be ended at every storage operation (see `tests.tools.storage_crashes`).

The caller's part is played as a broker has to: recovery point and log start are persisted; before
a truncation the recovery point is lowered there, and the log start before anything is appended
again; also when a log opens with less than the recovery point said; the clean mark is taken away
before a log is opened. For a long run:

    python -m tests.tools.storage_crashes tests.support.nodes.log_lives:Life \\
        tests.support.nodes.log_lives:Pages tests.support.nodes.log_lives:End \\
        tests.support.nodes.log_lives:Transactions
"""

import asyncio
import dataclasses
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from nodes.ids import Epoch, NodeId, Offset, TopicPartition
from nodes.log.batch import patch, read_header
from nodes.log.checkpoints import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CleanShutdown,
    MetaProperties,
    OffsetCheckpoint,
    PartitionMetadata,
)
from nodes.log.log import Log, LogConfig
from nodes.log.producer_state import Producers
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.log.transactions.markers import Marker, decode_marker, encode_marker
from nodes.storage.disk import Disk
from tests.support.nodes.batches import DIRECTORY, batch, content

PARTITION = TopicPartition("t", 0)
TOPIC_ID = UUID(int=77)
PROPERTIES = MetaProperties(cluster_id="c", node_id=NodeId(1), directory_id="d")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the log may hold: all of `batches` below `floor`, and any prefix beyond.

    All of them, when the process was only killed and the log was not being cut.
    """

    batches: tuple[bytes, ...] = ()
    first_start: int = 0
    last_start: int = 0
    floor: int = 0
    cutting: bool = False

    @property
    def end(self) -> int:
        """The log end if nothing is lost."""
        return read_header(self.batches[-1]).next_offset if self.batches else self.last_start


class Life:
    """Appends, rolls, flushes, truncates, trims, expires, closes and opens a log again."""

    scale = 1
    """Sizes grow with it; from 40 on batches and segments have several pages."""

    @property
    def config(self) -> LogConfig:
        return LogConfig(segment_bytes=400 * self.scale, index_interval_bytes=100 * self.scale)

    def __init__(self) -> None:
        self.killed = False
        self.states = [State()]
        self.epoch = 0
        self.sequences = {7: 0, 8: 0}
        self.log: Log | None = None

    # --- the work

    def run(self, disk: Disk) -> None:
        """Every operation once at least, in an order that builds on what was."""
        PROPERTIES.write(disk)
        self.open(disk)
        PartitionMetadata(topic_id=TOPIC_ID).write(disk, DIRECTORY)
        self.append(6)
        self.flush()
        self.persist(disk)
        self.epoch = 3
        self.append(5)
        self.truncate(disk, 8)
        self.epoch = 4
        self.append(9)
        self.wait_durable()
        self.append(4)
        self.truncate(disk, 14)  # over several segments
        self.append(7)
        self.persist(disk)
        self.advance(disk, 5)
        self.append(3)
        self.close(disk)
        self.open(disk)
        self.append(6, epoch=6)
        self.flush()
        self.persist(disk)
        self.expire(disk)
        self.append(3)
        self.begin_anew(disk, 60)
        self.append(5, epoch=7)
        self.flush()
        self.close(disk)
        self.open(disk)
        self.append(3)

    def open(self, disk: Disk) -> None:
        clean = CleanShutdown(disk).take() is not None
        self.log = Log.open(
            disk,
            DIRECTORY,
            self.config,
            clean=clean,
            recovery_point=self.recovery_point(disk),
            log_start=OffsetCheckpoint(disk, LOG_START_OFFSETS).read().get(PARTITION, Offset(0)),
        )

    @staticmethod
    def recovery_point(disk: Disk) -> Offset:
        return OffsetCheckpoint(disk, RECOVERY_POINTS).read().get(PARTITION, Offset(0))

    @property
    def state(self) -> State:
        """The state when no operation is under way."""
        assert len(self.states) == 1
        return self.states[0]

    def settle(self, state: State) -> None:
        """The operation is done: this is the only possible state."""
        assert self.log is not None
        self.states = [state]
        assert content(self.log) == list(self._readable(state, self.log.start_offset))
        assert self.log.end_offset == state.end

    def append(self, count: int, *, epoch: int | None = None) -> None:
        assert self.log is not None
        self.epoch = self.epoch if epoch is None else epoch
        for number in range(count):
            records = number % 3 + 1
            producer = (-1, 7, 8)[number % 3]
            sequence = self.sequences.get(producer, -1)
            sent: dict[str, Any] = {
                "value": b"v" * (30 * number * self.scale),
                "timestamp_ms": 1000 + 7 * number,
            }
            ids = (producer, 0 if producer >= 0 else -1, sequence)
            before = self.state
            stored = batch(records, base_offset=before.end, epoch=self.epoch, producer=ids, **sent)
            after = dataclasses.replace(before, batches=(*before.batches, stored))
            self.states = [before, after]
            self.log.append_as_leader(batch(records, producer=ids, **sent), Epoch(self.epoch))
            self.settle(after)
            if producer >= 0:
                self.sequences[producer] += records

    def flush(self) -> None:
        assert self.log is not None
        assert self.log.flush() == self.state.end
        self.settle(dataclasses.replace(self.state, floor=self.state.end))

    def wait_durable(self) -> None:
        """Two waiters; what is appended meanwhile is not promised."""
        log = self.log
        assert log is not None
        end = log.end_offset
        asyncio.run(self._wait(log, end))
        self.settle(dataclasses.replace(self.state, floor=end))

    async def _wait(self, log: Log, end: Offset) -> None:
        await asyncio.gather(log.durable(end), log.durable(Offset(end - 1)))

    def persist(self, disk: Disk) -> None:
        assert self.log is not None
        points = OffsetCheckpoint(disk, RECOVERY_POINTS)
        points.write({PARTITION: self.log.flushed_offset})
        OffsetCheckpoint(disk, LOG_START_OFFSETS).write({PARTITION: self.log.start_offset})

    def truncate(self, disk: Disk, offset: int) -> None:
        assert self.log is not None
        before = self.state
        kept = [b for b in before.batches if read_header(b).next_offset <= offset]
        after = dataclasses.replace(before, batches=tuple(kept))
        after = dataclasses.replace(after, floor=min(before.floor, after.end))
        # Until it is done the tail may be there in part.
        self.states = [dataclasses.replace(before, floor=after.floor, cutting=True)]
        points = OffsetCheckpoint(disk, RECOVERY_POINTS)
        point = min(self.log.end_before(Offset(offset)), self.log.flushed_offset)
        points.write({PARTITION: point})
        self.log.truncate_to(Offset(offset))
        self.settle(after)
        self.persist(disk)
        self._forget_sequences()

    def _forget_sequences(self) -> None:
        assert self.log is not None
        for producer in self.sequences:
            known = self.log.producers.get(producer)
            last = known.batches[-1].last_sequence if known and known.batches else -1
            self.sequences[producer] = last + 1

    def advance(self, disk: Disk, offset: int) -> None:
        assert self.log is not None
        before = self.state
        self.states = [dataclasses.replace(before, last_start=offset)]
        self.log.advance_start(Offset(offset))
        self.persist(disk)
        self.settle(dataclasses.replace(before, first_start=offset, last_start=offset))

    def expire(self, disk: Disk) -> None:
        log = self.log
        assert log is not None
        log.configure(dataclasses.replace(self.config, retention_bytes=900 * self.scale))
        before = self.state
        self.states = [dataclasses.replace(before, last_start=before.end)]
        assert log.expire(2000, log.end_offset) > 1
        log.configure(self.config)
        start = log.start_offset
        self.settle(dataclasses.replace(before, first_start=start, last_start=start))
        self.persist(disk)

    def begin_anew(self, disk: Disk, offset: int) -> None:
        assert self.log is not None
        before = self.state
        after = State(first_start=offset, last_start=offset, floor=offset)
        # A prefix of the old, or nothing: a follower then asks its leader again.
        anything = dataclasses.replace(before, floor=0, cutting=True)
        self.states = [anything, after, State()]
        OffsetCheckpoint(disk, RECOVERY_POINTS).write({PARTITION: self.log.start_offset})
        self.log.truncate_fully(Offset(offset))
        self.persist(disk)
        self.settle(after)
        self.sequences = dict.fromkeys(self.sequences, 0)

    def close(self, disk: Disk) -> None:
        assert self.log is not None
        self.log.close()
        self.states = [dataclasses.replace(self.state, floor=self.state.end)]
        CleanShutdown(disk).write(5)

    # --- the verdict

    @staticmethod
    def _readable(state: State, start: int) -> tuple[bytes, ...]:
        return tuple(b for b in state.batches if read_header(b).next_offset > start)

    def check(self, disk: Disk) -> None:
        """What is left is one of the states, consistent in itself, and can be gone on with."""
        assert MetaProperties.read(disk) in (None, PROPERTIES)
        Log.sweep_deleted(disk)
        self.open(disk)
        log = self.log
        assert log is not None
        assert PartitionMetadata.read(disk, DIRECTORY) in (
            None, PartitionMetadata(topic_id=TOPIC_ID),
        )  # fmt: skip
        survived = content(log)
        found = [state for state in self.states if self._matches(state, log, survived)]
        assert found, (
            f"{log.start_offset}..{log.end_offset} is none of "
            f"{[(s.first_start, s.last_start, s.floor, s.end) for s in self.states]}"
        )
        self._consistent(log, survived)
        state = dataclasses.replace(
            found[0],  # a start that was moved, but not persisted, may come back
            batches=tuple(
                b for b in found[0].batches if read_header(b).next_offset <= log.end_offset
            ),
            last_start=log.start_offset,
            floor=log.flushed_offset,
            cutting=False,
        )
        self.states = [state]
        if log.flushed_offset < self.recovery_point(disk):
            self.persist(disk)
        epoch = max(log.last_epoch, 0) + 1
        probe = batch(2, base_offset=state.end, epoch=epoch)
        after = dataclasses.replace(state, batches=(*state.batches, probe))
        self.states = [state, after]
        log.append_as_leader(batch(2), Epoch(epoch))
        log.flush()
        self.states = [dataclasses.replace(after, floor=after.end)]
        self._outgrow(disk, log, epoch)

    def _outgrow(self, disk: Disk, log: Log, epoch: int) -> None:
        """Nothing of what was lost comes back when the log passes the same offsets again."""
        known = log.producers.get(99)
        first = known.batches[-1].last_sequence + 1 if known else 0
        for number in range(first // 2, first // 2 + 30):
            before = self.state
            sent = batch(2, producer=(99, 0, 2 * number), value=b"other" * self.scale)
            stored = batch(
                2, base_offset=before.end, epoch=epoch, producer=(99, 0, 2 * number),
                value=b"other" * self.scale,
            )  # fmt: skip
            after = dataclasses.replace(before, batches=(*before.batches, stored))
            self.states = [before, after]
            log.append_as_leader(sent, Epoch(epoch))
            self.states = [after]
        self.open(disk)
        assert self.log is not None
        survived = content(self.log)
        assert survived == list(self._readable(self.state, self.log.start_offset))
        self._consistent(self.log, survived)
        self.states = [dataclasses.replace(self.state, floor=self.log.flushed_offset)]

    def _matches(self, state: State, log: Log, survived: list[bytes]) -> bool:
        start, end = log.start_offset, log.end_offset
        wanted = self._readable(state, start)
        return (
            survived == list(wanted[: len(survived)])
            and state.first_start <= start <= state.last_start
            and end >= (state.end if self.killed and not state.cutting else state.floor)
        )

    def _consistent(self, log: Log, survived: list[bytes]) -> None:
        """Epochs and producers are what the batches say; every lookup finds what is there."""
        headers = [read_header(stored) for stored in survived]
        starts: dict[int, int] = {}
        for header in headers:
            starts.setdefault(
                header.partition_leader_epoch, max(header.base_offset, log.start_offset)
            )
        of_records = [(e, s) for e, s in log.epochs if s < log.end_offset]
        assert of_records == list(starts.items())
        producers, aborted = replayed(survived)
        for producer_id in log.producers.ids():
            known, wanted = log.producers.get(producer_id), producers.get(producer_id)
            assert known is not None
            assert not known.batches or known.batches[-1].last_offset < log.end_offset
            if wanted is not None and wanted.batches:
                assert known.batches[-len(wanted.batches) :] == wanted.batches
            if wanted is not None:  # a deleted record may have begun the transaction
                assert wanted.coordinator_epoch == known.coordinator_epoch
                assert known.transaction_start == wanted.transaction_start or (
                    known.transaction_start < log.start_offset
                )
        found = log.aborted_transactions(log.start_offset, log.end_offset)
        assert found == aborted or self.trimmed_matches(log, found, aborted)
        assert set(producers.ids()) <= set(log.producers.ids())
        for header in headers:
            for offset in range(header.base_offset, header.next_offset):
                if offset >= log.start_offset:
                    got = log.read(Offset(offset), 1, log.end_offset)
                    assert read_header(got).base_offset == header.base_offset
        top = max((header.max_timestamp for header in headers), default=-1)
        assert log.max_timestamp()[1] == top

    @staticmethod
    def trimmed_matches(
        log: Log, found: list[AbortedTransaction], wanted: list[AbortedTransaction]
    ) -> bool:
        """Whether they differ only in that deleted records began some of the transactions."""
        by_marker = {each.last_offset: each for each in wanted}
        return set(by_marker) <= {each.last_offset for each in found} and all(
            each.first_offset < log.start_offset
            or each.first_offset == by_marker[each.last_offset].first_offset
            for each in found
        )


def replayed(batches: Iterable[bytes]) -> tuple[Producers, list[AbortedTransaction]]:
    """The producers and the aborted transactions of these batches."""
    producers, aborted = Producers(), []
    for stored in batches:
        header, marker = read_header(stored), decode_marker(stored)
        if marker is None:
            producers.update(header, header.base_offset)
            continue
        entry = producers.end_transaction(header, header.base_offset, marker)
        if entry is not None:
            aborted.append(entry)
    return producers, aborted


class Transactions(Life):
    """The same with transactions of two producers, some over several segments."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def append(self, count: int, *, epoch: int | None = None) -> None:
        """Each third batch is a marker; of the markers, some end nothing."""
        log = self.log
        assert log is not None
        self.epoch = self.epoch if epoch is None else epoch
        for _ in range(count):
            self.steps += 1
            producer = (7, 7, 8, 8, 8, 7)[self.steps % 6]
            before = self.state
            if self.steps % 3 == 0:
                marker = Marker(producer, 0, self.steps, self.steps % 4 > 1)
                sent = encode_marker(marker, 1000)
            else:
                producing = (producer, 0, self.sequences[producer])
                sent = batch(2, producer=producing, value=b"v" * 20, transactional=True)
            stored = bytearray(sent)
            patch(stored, 0, base_offset=Offset(before.end), leader_epoch=Epoch(self.epoch))
            after = dataclasses.replace(before, batches=(*before.batches, bytes(stored)))
            self.states = [before, after]
            if self.steps % 3 == 0:
                log.append_marker(marker, Epoch(self.epoch), 1000, transaction_version=1)
            else:
                guard = log.producers.start_verification(
                    read_header(sent), 0, supports_epoch_bump=False
                )
                log.append_as_leader(sent, Epoch(self.epoch), guard=guard)
                self.sequences[producer] += 2
            self.settle(after)


class Pages(Life):
    """The same with larger batches: a power loss leaves some of their pages."""

    scale = 40


class End(Life):
    """Deletes a log, removes its files, and creates another of the same name."""

    def run(self, disk: Disk) -> None:
        self.open(disk)
        self.append(8)
        self.flush()
        self.delete()
        Log.sweep_deleted(disk, max_files=2)
        self.open(disk)
        self.sequences = dict.fromkeys(self.sequences, 0)
        self.append(4)
        Log.sweep_deleted(disk)
        disk.sync_dir("")
        self.states = [self.states[0]]

    def delete(self) -> None:
        """Until the new name is on disk the log may come back, whole."""
        assert self.log is not None
        self.deleted = self.state
        self.states = [self.deleted, State()]
        self.log.delete()

    def open(self, disk: Disk) -> None:
        super().open(disk)
        if len(self.states) > 1:
            assert self.log is not None
            if self.log.end_offset == 0:
                self.states = [State()]
