"""Replicas of a compacted partition, without a cluster: their cleanings are judged."""

from harness.simulation.invariants.compaction import CompactionChecker
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.partition_history import PartitionHistory
from harness.simulation.invariants.wall_clock import Clock
from nodes.ids import Epoch, Offset
from nodes.log.batch import HEADER_BYTES, TRANSACTIONAL_BIT, assemble, patch, read_header
from nodes.log.log import Log
from nodes.log.transactions.markers import Marker, encode_marker
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import open_log
from tests.support.nodes.cleaning import COMPACTED, cleaning, committed_pairs, do, keyed, roll

EPOCH = Epoch(1)
"""The leader epoch of all batches."""


def append(log: Log, batch: bytes) -> None:
    """Append a batch of EPOCH."""
    placed = bytearray(batch)
    patch(placed, 0, base_offset=log.end_offset, leader_epoch=EPOCH)
    log.append_as_follower(bytes(placed))


def write(log: Log, producer: tuple[int, int], key: bytes, value: bytes | None) -> None:
    """Append a record of a transaction of this producer id and epoch."""
    plain = keyed((key, value), producer=(*producer, 0))
    header = read_header(plain)._replace(attributes=TRANSACTIONAL_BIT)
    append(log, assemble(header, plain[HEADER_BYTES:]))


def mark(log: Log, producer: tuple[int, int], *, committed: bool) -> None:
    """Append a marker."""
    append(log, encode_marker(Marker(*producer, 1, committed), 1000))


def follow(leader: Log, follower: Log, end: int | None = None) -> None:
    """Copy what the follower lacks, below `end` or all."""
    below = leader.end_offset if end is None else Offset(end)
    while follower.end_offset < below:
        found = leader.read(follower.end_offset, 1 << 20, below)
        follower.append_as_follower(found)


def compacted_partition() -> PartitionHistory:
    """The history of a compacted partition without batches."""
    history = PartitionHistory("t-0")
    history.compact()
    return history


class Judged:
    """A replica whose cleanings are judged, by a wall clock that shows `now_ms`."""

    def __init__(self, history: PartitionHistory, node: int) -> None:
        self.now_ms = 5000
        self._disk = MemoryDisk()
        self.history = history
        self.copy = Copy(history, node)
        self._open(open_log(self._disk, config=COMPACTED))

    def _open(self, log: Log) -> None:
        self.log = log
        self.copy.open(log)
        self._checker = CompactionChecker(self.copy, log, lambda: Clock(self.now_ms, False))

    def look(self, *, commits: bool = False) -> None:
        """Read what is new, and judge it; a leader `commits` all of it."""
        self.copy.read()
        if commits:
            assert self.copy.last is not None
            self.history.commit(self.copy.last, EPOCH, self.copy.node)
        self.copy.flushed = self.log.flushed_offset
        self._checker.check()

    def roll(self) -> None:
        """Seal the active segment."""
        roll(self.log)

    def clean(self, end: Offset | None = None, *, looks: bool = True) -> None:
        """Clean all sealed segments without an open transaction, or those below `end`. A second
        passes. Without `looks` the process ends before the cleaning is judged.
        """
        do(cleaning(self.log, end=end, now_ms=self.now_ms), self._disk)
        if looks:
            self.look()
        self.now_ms += 1000

    def start_again(self) -> None:
        """Kill the process, and start it."""
        self.copy.close()
        point = self.log.flushed_offset
        self._open(open_log(self._disk, config=COMPACTED, clean=False, recovery_point=point))
        self.look()

    def values(self) -> dict[bytes | None, bytes | None]:
        """The last value of each key, for readers of committed records."""
        return {key: value for _, key, value in committed_pairs(self.log)}
