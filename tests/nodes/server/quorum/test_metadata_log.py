"""The metadata log on disk: crashes at every write, and damage of flushed records."""

import asyncio
from uuid import UUID

import pytest

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.batch import Record, decode_records, encode_batch, iter_batches
from nodes.log.errors import LogCorrupt
from nodes.log.log import LogConfig
from nodes.raft.control_records import (
    DYNAMIC_KRAFT_VERSION,
    kraft_version,
    record_of,
    voters_record,
)
from nodes.raft.election_state import FILE_NAME, ElectionState, decode, encode
from nodes.raft.positions import SnapshotId, validate_position
from nodes.raft.snapshot import Snapshot, SnapshotEncoder, file_name
from nodes.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from nodes.server.quorum.metadata_log import FLUSHED_FILE, MetadataLog
from nodes.storage.disk import Disk, File
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.virtual_time import run
from tests.tools.storage_crashes import sweep

DIRECTORY = "__cluster_metadata-0"
CONFIG = LogConfig(segment_bytes=400)
STATIC = VoterSet.static([NodeId(1), NodeId(2), NodeId(3)])
EPOCH = Epoch(1)
KEYS = [UUID(int=n) for n in (1, 2, 3)]


def open_log(disk: Disk, *, clean: bool = False) -> tuple[MetadataLog, Snapshot | None]:
    """The log with small segments."""
    return MetadataLog.open(disk, DIRECTORY, CONFIG, clean=clean, voters=STATIC)


def batch(*values: bytes) -> bytes:
    """One batch."""
    return encode_batch([Record(value=value) for value in values], timestamp_ms=1)


def content(log: MetadataLog, snapshot: Snapshot | None) -> list[bytes]:
    """The state that a start finds: the snapshot's records and those after it."""
    values = list(snapshot.records) if snapshot else []
    offset = snapshot.snapshot_id.offset if snapshot else Offset(0)
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset)
        for position, header in iter_batches(data):
            if not header.is_control:
                values += [record.value or b"" for record in decode_records(data, position)]
            offset = header.next_offset
    return values


async def snapshot(
    log: MetadataLog, offset: int, values: list[bytes], epoch: Epoch = EPOCH
) -> Snapshot:
    """Write a snapshot of these values."""
    snapshot_id = SnapshotId(Offset(offset), epoch)
    encoder = SnapshotEncoder(snapshot_id, 1)
    partial = log.begin_snapshot(snapshot_id)
    partial.append(encoder.header(1, log.voter_history.before(Offset(offset))))
    for value in values:
        partial.append(encoder.batch([value]))
    partial.append(encoder.footer())
    content = partial.content()
    await partial.complete()
    return content


class Work:
    """Appends, flushes, snapshots, trims, a truncation, and at last the install of a snapshot.

    Records are as many as offsets, so the state at an offset is a prefix of the history.
    """

    def __init__(self) -> None:
        self.histories: list[list[bytes]] = [[]]
        self.promised = 0
        self.epoch = EPOCH
        self.killed = False

    def run(self, disk: Disk) -> None:
        run(self._run(disk))

    def check(self, disk: Disk) -> None:
        log, found = open_log(disk)
        state = content(log, found)
        assert log.end_offset == len(state) >= self.promised
        assert any(state == history[: len(state)] for history in self.histories), state
        assert log.flushed_offset == log.end_offset, "what a start finds is on disk"
        log.close()

    async def _append(self, log: MetadataLog, *values: bytes) -> None:
        self.histories = [history + list(values) for history in self.histories[-1:]]
        log.append_as_leader(batch(*values), self.epoch)

    async def _flush(self, log: MetadataLog) -> None:
        await log.flush_async()
        self.promised = log.flushed_offset

    async def _snapshot(self, log: MetadataLog) -> None:
        end = log.flushed_offset
        done = await snapshot(log, end, self.histories[-1][:end])
        log.add_snapshot(done.snapshot_id)

    async def _run(self, disk: Disk) -> None:
        log, _ = open_log(disk)
        for number in range(3):
            for part in range(3):
                value = b"%d-%d" % (number, part)
                await self._append(log, value * 10, value)
                await self._flush(log)
            await self._snapshot(log)
        await self._append(log, b"flushed", b"and cut")
        await self._flush(log)
        kept = self.histories[-1][:-2]
        self.histories.append(kept)
        self.promised = len(kept)
        log.truncate_to(Offset(len(kept)))
        self.histories = [kept]
        await self._append(log, b"instead")
        await self._flush(log)
        log.close()
        log, _ = open_log(disk, clean=True)
        await self._install(log)
        await self._append(log, b"after")
        await self._flush(log)
        log.close()

    async def _install(self, log: MetadataLog) -> None:
        """Of a later epoch, and shorter than what this log had, the end not committed."""
        assert log.snapshot is not None
        committed = self.histories[-1][: log.snapshot.offset]
        for number in range(4):
            await self._append(log, b"not committed %d" % number)
        await self._flush(log)
        other = [*committed, b"other", b"others"]
        assert len(other) < log.end_offset
        self.histories.append(other)
        self.promised = len(other)
        received = await snapshot(log, len(other), other, self._epoch(2))
        log.install(received, STATIC)
        self.histories = [other]

    def _epoch(self, epoch: int) -> Epoch:
        self.epoch = Epoch(epoch)
        return self.epoch


def test_crash_at_a_write_loses_nothing_flushed() -> None:
    """A kill or a power loss: the next start finds everything that was flushed."""
    assert sweep(Work, seeds=range(1), operations=range(0, 1000, 11)) > 30


@pytest.mark.slow
def test_crash_at_every_write_loses_nothing_flushed() -> None:
    """The same, at each write."""
    assert sweep(Work, seeds=range(1)) > 300


def test_clean_run_keeps_two_snapshots_and_the_log_after_the_older() -> None:
    """Older snapshots and the log before are deleted."""
    disk = MemoryDisk()
    work = Work()

    async def main() -> None:
        log, _ = open_log(disk)
        for number in range(4):
            await work._append(log, b"%d" % number * 50)
            await work._flush(log)
            await work._snapshot(log)
        assert log.snapshots.ids == [SnapshotId(Offset(n), EPOCH) for n in (3, 4)]
        assert log.start_offset == 3
        log.close()

    run(main())
    files = [name for name in disk.listdir(DIRECTORY) if name.endswith((".log", ".checkpoint"))]
    assert files[-2:] == [file_name(SnapshotId(Offset(n), EPOCH)) for n in (3, 4)] or len(files) > 2
    log, found = open_log(disk)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (3, 4, 1)
    assert found is not None
    assert len(found.records) == 4
    log.close()


def test_installed_snapshot_is_the_oldest_one() -> None:
    """The log begins after it. A leader with an older one would let a replica that ends there fetch
    the snapshot again and again.
    """
    disk, later = MemoryDisk(), Epoch(2)
    work = Work()

    async def main() -> None:
        log, _ = open_log(disk)
        await work._append(log, b"own")
        await work._flush(log)
        await work._snapshot(log)
        fetched = await snapshot(log, 9, [b"%d" % number for number in range(9)], later)
        log.install(fetched, STATIC)
        log.append_as_leader(batch(b"after"), Epoch(3))
        await log.flush_async()
        for opened in (log, open_log(disk)[0]):
            assert opened.snapshots.ids == [SnapshotId(Offset(9), later)]
            assert validate_position(opened, later, Offset(9)) is None

    run(main())


def test_flushed_offset_is_on_disk_before_it_counts() -> None:
    """Otherwise a start after a power loss could take a lost end for one that never was on disk."""
    seen: list[bool] = []

    class Watching(MemoryDisk):
        async def sync(self, target: File | str) -> None:
            seen.append(log.flushed_offset < log.end_offset)
            await super().sync(target)

    log, _ = open_log(Watching())

    async def main() -> None:
        for _ in range(3):
            log.append_as_leader(batch(b"x"), EPOCH)
            await log.flush_async()
            assert log.flushed_offset == log.end_offset

    run(main())
    assert len(seen) >= 6
    assert all(seen)
    log.close()


def test_incomplete_snapshot_is_removed_at_the_start() -> None:
    """And no start uses it."""
    disk = flushed()
    disk.open(f"{DIRECTORY}/{file_name(SnapshotId(Offset(9), EPOCH))}.part", create=True)
    open_log(disk)[0].close()
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".part")]


def damaged(disk: MemoryDisk, suffix: str, position: int) -> None:
    """Flip a bit in the last file of that suffix."""
    name = [name for name in disk.listdir(DIRECTORY) if name.endswith(suffix)][-1]
    disk.corrupt(f"{DIRECTORY}/{name}", position)


def flushed(*, snapshots: int = 0) -> MemoryDisk:
    """A disk with four flushed records, in one segment, and so many snapshots."""
    disk = MemoryDisk()
    work = Work()

    async def main() -> None:
        log, _ = open_log(disk)
        for number in range(4):
            await work._append(log, b"%d" % number)
            await work._flush(log)
            if number < snapshots:
                await work._snapshot(log)

    run(main())
    return disk


@pytest.mark.parametrize("record", range(4))
def test_flipped_bit_below_the_flushed_offset_is_refused(record: int) -> None:
    """Even in the last record, where it could be a torn write if it had not been flushed."""
    disk = flushed()
    size = len(batch(b"0"))
    damaged(disk, ".log", record * size + size - 2)
    with pytest.raises(LogCorrupt):
        open_log(disk)


def test_log_that_lost_its_flushed_end_is_refused() -> None:
    """A voter that continued with it could elect a leader without committed records."""
    disk = flushed()
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(3 * len(batch(b"0")))
    with pytest.raises(LogCorrupt, match="had been flushed"):
        open_log(disk)


def test_torn_tail_above_the_flushed_offset_is_cut_off() -> None:
    """Nothing relied on records that were never flushed."""
    disk = flushed()
    disk.open(f"{DIRECTORY}/{0:020d}.log").append(batch(b"torn")[:-3])
    log, _ = open_log(disk)
    assert log.end_offset == 4
    log.close()


def test_older_snapshot_is_used_when_the_newest_is_damaged() -> None:
    """The log begins at the older one, so nothing is missing."""
    disk = flushed(snapshots=3)
    damaged(disk, ".checkpoint", 100)
    log, found = open_log(disk)
    assert found is not None
    assert found.snapshot_id.offset == 2
    assert content(log, found) == [b"0", b"1", b"2", b"3"]
    log.close()


def test_start_is_refused_if_no_snapshot_reaches_the_log() -> None:
    """A state with a gap would be wrong silently."""
    disk = MemoryDisk()
    Work().run(disk)
    for name in [name for name in disk.listdir(DIRECTORY) if name.endswith(".checkpoint")]:
        disk.corrupt(f"{DIRECTORY}/{name}", 100)
    with pytest.raises(LogCorrupt):
        open_log(disk)


def test_damaged_flushed_offset_falls_back_to_an_older_one_or_is_refused() -> None:
    """The entry before the damaged one still holds; without any entry the log is refused."""
    disk = flushed()
    damaged(disk, FLUSHED_FILE, disk.open(f"{DIRECTORY}/{FLUSHED_FILE}").size() - 1)
    open_log(disk)[0].close()
    damaged(disk, FLUSHED_FILE, 0)
    with pytest.raises(LogCorrupt, match=FLUSHED_FILE):
        open_log(disk)


def test_voters_follow_appends_and_truncations_of_the_log() -> None:
    """The latest record counts, committed or not; after a truncation the one before counts."""
    disk = MemoryDisk()
    log, _ = open_log(disk)
    assert log.voters == STATIC
    recorded = VoterSet.of(
        Voter(node_id=node.node_id, directory_id=key, endpoints=(VoterEndpoint("C", "h", 1),))
        for node, key in zip(STATIC.voters, KEYS, strict=True)
    )
    smaller = recorded.without(NodeId(3))
    for voters in (recorded, smaller):
        records = [
            record_of(kraft_version(DYNAMIC_KRAFT_VERSION)),
            record_of(voters_record(voters)),
        ]
        log.append_as_leader(encode_batch(records, timestamp_ms=1, control=True), EPOCH)
        assert log.voters == voters
    assert (log.voters_offset, log.end_offset) == (3, 4)
    log.truncate_to(Offset(2))
    assert (log.voters, log.voters_offset) == (recorded, 1)
    log.close()
    log, _ = open_log(disk)
    assert (log.voters, log.voters_offset) == (recorded, 1)
    assert log.voters.has(ReplicaKey(NodeId(1), KEYS[0]))
    assert not log.voters.has(ReplicaKey(NodeId(1), KEYS[1]))
    log.close()


def test_snapshots_carry_the_voters() -> None:
    """A node that starts from one knows who votes without the log before it."""
    disk = MemoryDisk()

    async def main() -> VoterSet:
        log, _ = open_log(disk)
        voters = VoterSet.of(
            Voter(node_id=NodeId(7), directory_id=KEYS[0], endpoints=(VoterEndpoint("C", "h", 1),))
            for _ in range(1)
        )
        log.append_as_leader(
            encode_batch([record_of(voters_record(voters))], timestamp_ms=1, control=True), EPOCH
        )
        await log.flush_async()
        for end in (1, 2):
            done = await snapshot(log, end, [])
            log.add_snapshot(done.snapshot_id)
            log.append_as_leader(batch(b"x"), EPOCH)
            await log.flush_async()
            await asyncio.sleep(0)
        assert log.start_offset == 1
        log.close()
        return voters

    voters = run(main())
    log, _ = open_log(disk)
    assert log.voters == voters
    log.close()


class Votes:
    """Epochs and votes, written as a member writes them."""

    def __init__(self) -> None:
        self.written = [ElectionState()]
        self.killed = False

    def run(self, disk: Disk) -> None:
        disk.makedirs(DIRECTORY)
        disk.sync_dir("")
        for epoch in range(1, 6):
            state = ElectionState(epoch=Epoch(epoch), voted_for=NodeId(epoch % 3))
            self.written = [*self.written[-1:], state]
            disk.write_atomic(f"{DIRECTORY}/{FILE_NAME}", encode(state, STATIC))
            self.written = [state]

    def check(self, disk: Disk) -> None:
        path = f"{DIRECTORY}/{FILE_NAME}"
        found = decode(disk.read(path)) if disk.exists(path) else ElectionState()
        assert found in self.written


def test_crash_at_every_write_of_a_vote_forgets_no_vote() -> None:
    """A vote that was sent is found again; one that was being written may or may not be."""
    assert sweep(Votes) > 40
