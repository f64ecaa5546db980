"""The life of a compacted log, to be ended at every storage operation (see
`tests.tools.storage_crashes`). Whatever a crash leaves must mean the same: the last value of each
key up to the log's end, no deleted key, no gap. For a long run:

    python -m tests.tools.storage_crashes tests.support.nodes.cleaning_lives:CleaningLife
"""

from nodes.ids import Epoch, Offset
from nodes.log.batch import HEADER_BYTES, TRANSACTIONAL_BIT, assemble, read_header
from nodes.log.checkpoints import RECOVERY_POINTS, OffsetCheckpoint
from nodes.log.log import Log
from nodes.log.transactions.markers import Marker
from nodes.storage.disk import Disk
from tests.support.nodes.batches import DIRECTORY, content
from tests.support.nodes.cleaning import (
    COMPACTED,
    Pair,
    cleaning,
    committed_pairs,
    do,
    folded,
    has_no_gap,
    keyed,
    roll,
)
from tests.support.nodes.log_lives import PARTITION

PRODUCER = 7
ABORTED, MARKER = b"aborted", b"marker"
"""Values in the model of what no reader sees."""
KEYS = [b"a", b"b", b"c", b"key-of-more-than-sixteen-bytes"]


class CleaningLife:
    """Appends, cleans, truncates, trims and opens a log; keys are deleted again and again."""

    def __init__(self) -> None:
        self.killed = False
        self.log: Log | None = None
        self.model: list[Pair] = []
        """Every record that was appended, by its offset."""
        self.floor = 0
        """Below this offset nothing may be lost."""
        self.cutting = False
        self.whole = True
        """Whether nothing was truncated that had superseded earlier records."""
        self.first_dirty = 0
        self.now_ms = 5000

    def run(self, disk: Disk) -> None:
        """Every way to get a cleaned log, and to change it."""
        self.open(disk)
        self.append(14)
        self.flush(disk)
        self.clean(disk)
        self.clean(disk, keys=2)
        self.append(9)
        self.flush(disk)
        self.clean(disk, keys=3)
        self.clean(disk)
        self.open(disk)
        self.append(8)
        self.truncate(disk, 25)
        self.append(8)
        self.clean(disk)
        self.trim(disk, 6)
        self.append(5)
        self.flush(disk)
        self.clean(disk)
        self.truncate(disk, 9)
        self.append(7)
        self.clean(disk)

    def open(self, disk: Disk) -> None:
        """As after a kill."""
        points = OffsetCheckpoint(disk, RECOVERY_POINTS).read()
        point = points.get(PARTITION, Offset(0))
        self.log = Log.open(disk, DIRECTORY, COMPACTED, clean=False, recovery_point=point)

    @property
    def opened(self) -> Log:
        """The log."""
        assert self.log is not None
        return self.log

    def append(self, count: int) -> None:
        """Records; each sixth is of a transaction that is aborted at once, each eighth of one that
        is committed.
        """
        self._abort_open()
        while count > 0:
            number = len(self.model)
            key = KEYS[number * number % 7 % len(KEYS)]
            value = None if number % 5 == 3 else b"v%d" % number * 6
            epoch, stamp = Epoch(number // 10), 1000 + number
            if number % 6 and number % 8:
                self.model.append((key, value))
                sent = keyed((key, value), timestamp_ms=stamp)
                self.opened.append_as_leader(sent, epoch)
                count -= 1
                continue
            committed = bool(number % 6)
            self.model.append((key, value if committed else ABORTED))
            self._in_transaction((key, value), epoch, stamp, committed=committed)
            count -= 2

    def _abort_open(self) -> None:
        """End a transaction whose marker was lost."""
        log = self.opened
        first = log.last_stable_offset(log.end_offset)
        if first < log.end_offset:
            self.model[first] = (self.model[first][0], ABORTED)
            self.model.append((None, MARKER))
            marker = Marker(PRODUCER, 0, 1, False)
            log.append_marker(marker, Epoch(log.last_epoch), 1000, transaction_version=0)

    def _in_transaction(self, pair: Pair, epoch: Epoch, stamp: int, *, committed: bool) -> None:
        """A record and the marker of its transaction."""
        log = self.opened
        known = log.producers.get(PRODUCER)
        sequence = known.batches[-1].last_sequence + 1 if known and known.batches else 0
        plain = keyed(pair, timestamp_ms=stamp, producer=(PRODUCER, 0, sequence))
        header = read_header(plain)._replace(attributes=TRANSACTIONAL_BIT)
        batch = assemble(header, plain[HEADER_BYTES:])
        guard = log.producers.start_verification(header, 0, supports_epoch_bump=False)
        log.append_as_leader(batch, epoch, guard=guard)
        self.model.append((None, MARKER))
        marker = Marker(PRODUCER, 0, 1, committed)
        log.append_marker(marker, epoch, stamp, transaction_version=0)

    def flush(self, disk: Disk) -> None:
        self.floor = self.opened.flush()
        OffsetCheckpoint(disk, RECOVERY_POINTS).write({PARTITION: Offset(self.floor)})

    def clean(self, disk: Disk, *, keys: int = 1 << 20) -> None:
        """Each cleaning is late enough for the tombstones of the one before."""
        roll(self.opened)
        self.flush(disk)
        self.now_ms += 100
        first_dirty = min(self.first_dirty, self.opened.end_offset)
        run = cleaning(self.opened, first_dirty=first_dirty, now_ms=self.now_ms, keys=keys)
        do(run, disk)
        self.first_dirty = run.stats.end
        self.verify(self.opened)

    def truncate(self, disk: Disk, offset: int) -> None:
        """The caller's part is played as a broker has to."""
        log = self.opened
        end = log.end_before(Offset(offset))
        self.floor, self.cutting = min(self.floor, end), True
        self.whole &= self.first_dirty <= end
        point = min(log.flushed_offset, end)
        OffsetCheckpoint(disk, RECOVERY_POINTS).write({PARTITION: point})
        del self.model[log.truncate_to(Offset(offset)) :]
        assert log.end_offset == len(self.model) == end
        self.first_dirty = min(self.first_dirty, end)
        self.cutting = False

    def trim(self, disk: Disk, offset: int) -> None:
        """Deleted records may come back: their new start is not persisted here."""
        self.whole = False
        self.opened.advance_start(Offset(offset))

    def check(self, disk: Disk) -> None:
        """What is left means what it should, and can be gone on with."""
        self.open(disk)
        log = self.opened
        end = log.end_offset
        assert end >= (len(self.model) if self.killed and not self.cutting else self.floor) - 1
        left = [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap"))]
        assert not left
        self.verify(log)
        del self.model[end:]
        self.floor, self.cutting = min(self.floor, end), True
        OffsetCheckpoint(disk, RECOVERY_POINTS).write(
            {PARTITION: min(Offset(self.floor), log.flushed_offset)}
        )
        self.cutting = False
        self.append(3)
        self.flush(disk)
        self.first_dirty = 0
        self.clean(disk)

    def verify(self, log: Log) -> None:
        """The log means the same as the records that were appended to it."""
        model: dict[bytes | None, bytes] = {}
        stable = log.last_stable_offset(log.end_offset)
        for key, value in self.model[:stable]:
            if value is None:
                model.pop(key, None)
            elif value not in (ABORTED, MARKER):
                model[key] = value
        if self.whole and stable == log.end_offset:
            assert folded(log) == model, f"{folded(log)} is not {model}"
        for offset, key, value in committed_pairs(log):
            assert self.model[offset] == (key, value) or offset >= stable
        assert has_no_gap(log)
        for header in map(read_header, content(log)):
            for offset in range(max(header.base_offset, log.start_offset), header.next_offset):
                found = read_header(log.read(Offset(offset), 1, log.end_offset))
                assert found.base_offset == header.base_offset
