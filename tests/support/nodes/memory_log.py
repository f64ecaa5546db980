"""The metadata log as a quorum sees it, in memory."""

from nodes.ids import NO_EPOCH, NO_OFFSET, Epoch, NodeId, Offset
from nodes.raft.positions import SnapshotId
from nodes.raft.voters import VoterSet

Entry = tuple[Epoch, object]
THREE = VoterSet.static((NodeId(1), NodeId(2), NodeId(3)))


class MemoryLog:
    """The metadata log as the quorum sees it: entries, of which the first `flushed` are durable.

    Entries below `start_offset` are kept for the invariants, but nobody may read them any more.
    """

    def __init__(self, entries: list[Entry] | None = None, voters: VoterSet = THREE) -> None:
        self.entries: list[Entry] = entries if entries is not None else []
        self.flushed = len(self.entries)
        self.start = 0
        self.snapshots: list[SnapshotId] = []
        self.initial_voters = voters

    @property
    def start_offset(self) -> Offset:
        return Offset(self.start)

    @property
    def snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[0] if self.snapshots else None

    @property
    def voters(self) -> VoterSet:
        offset = self.voters_offset
        found = self.entries[offset][1] if offset >= 0 else self.initial_voters
        assert isinstance(found, VoterSet)
        return found

    @property
    def voters_offset(self) -> Offset:
        for offset in range(len(self.entries) - 1, -1, -1):
            if isinstance(self.entries[offset][1], VoterSet):
                return Offset(offset)
        return NO_OFFSET

    @property
    def end_offset(self) -> Offset:
        return Offset(len(self.entries))

    @property
    def flushed_offset(self) -> Offset:
        return Offset(self.flushed)

    @property
    def last_epoch(self) -> Epoch:
        return self.entries[-1][0] if self.entries else NO_EPOCH

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        if epoch < 0 or epoch > self.last_epoch:
            return NO_EPOCH, NO_OFFSET
        for end in range(len(self.entries), self.start, -1):
            if self.entries[end - 1][0] <= epoch:
                return self.entries[end - 1][0], Offset(end)
        return epoch, Offset(self.start)

    def truncate(self, offset: int) -> None:
        assert offset >= self.start, "below the start is a snapshot"
        del self.entries[offset:]
        self.flushed = min(self.flushed, offset)

    def take_snapshot(self, end: int) -> None:
        """Of everything below `end`; the log begins at the last snapshot but one."""
        if end > (self.snapshot.offset if self.snapshot else 0):
            self.snapshots = [
                *self.snapshots[-1:],
                SnapshotId(Offset(end), self.entries[end - 1][0]),
            ]
            if len(self.snapshots) == 2:
                self.start = self.snapshots[0].offset

    def install(self, snapshot: SnapshotId, content: list[Entry]) -> None:
        self.entries = list(content)
        self.flushed = self.start = len(content)
        self.snapshots = [snapshot]
