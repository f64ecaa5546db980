"""The life of a compacted log, to be ended at every storage operation (see
`tests.tools.storage_crashes`). Whatever a crash leaves must mean the same: the last value of each
key up to the log's end, no deleted key, no gap. For a long run:

    python -m tests.tools.storage_crashes tests.support.nodes.cleaning_lives:CleaningLife
"""

from nodes.ids import Epoch, Offset
from nodes.log.batch import read_header
from nodes.log.checkpoints import RECOVERY_POINTS, OffsetCheckpoint
from nodes.log.log import Log
from nodes.storage.disk import Disk
from tests.support.nodes.batches import DIRECTORY, content
from tests.support.nodes.cleaning import (
    COMPACTED,
    Pair,
    cleaning,
    do,
    folded,
    has_no_gap,
    keyed,
    pairs_of,
    roll,
)
from tests.support.nodes.log_lives import PARTITION

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
        for _ in range(count):
            number = len(self.model)
            key = KEYS[number * number % 7 % len(KEYS)]
            value = None if number % 5 == 3 else b"v%d" % number * 6
            self.model.append((key, value))
            sent = keyed((key, value), producer=(-1, -1, -1), timestamp_ms=1000 + number)
            self.opened.append_as_leader(sent, Epoch(number // 10))

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
        for key, value in self.model[: log.end_offset]:
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        state = folded(log)
        if self.whole:
            assert state == model, f"{state} is not {model}"
        for offset, key, value in pairs_of(log):
            assert self.model[offset] == (key, value)
        assert has_no_gap(log)
        for header in map(read_header, content(log)):
            for offset in range(max(header.base_offset, log.start_offset), header.next_offset):
                found = read_header(log.read(Offset(offset), 1, log.end_offset))
                assert found.base_offset == header.base_offset
