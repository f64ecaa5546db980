"""How fast a compacted log is cleaned, and in how much memory.

Writes a log of small keyed records to a real disk, cleans it, and prints for each shape: the size
of the log, the megabytes read and written per second, the longest step (how long the event loop is
held), and the memory that the cleaning needed at most. Times are CPU seconds: a busy machine does
not matter.

    python -m tests.tools.compaction_speed --megabytes 100
"""

import argparse
import logging
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nodes.ids import Epoch, Offset
from nodes.log.cleaning.cleaner import Cleaning
from nodes.log.cleaning.offset_map import BYTES_PER_KEY, OffsetMap
from nodes.log.log import Log
from nodes.storage.local import LocalDisk
from tests.support.nodes.cleaning import COMPACTED, keyed

VALUE_BYTES = 80
SEGMENT_BYTES = 16 << 20
WINDOW_BYTES = 512 << 10
CONFIG = replace(COMPACTED, segment_bytes=SEGMENT_BYTES, max_message_bytes=1 << 20)


def written(disk: LocalDisk, megabytes: int, keys: int, per_batch: int, codec: int) -> Log:
    """A log of so many megabytes before compression."""
    rng = random.Random(7)
    log = Log.open(disk, "t-0", CONFIG, clean=True)
    value = bytes(rng.choices(b"0123456789abcdef", k=VALUE_BYTES))
    left = megabytes << 20
    while left > 0:
        pairs = [(b"key-%012d" % rng.randrange(keys), value) for _ in range(per_batch)]
        log.append_as_leader(keyed(*pairs, codec=codec), Epoch(1))
        left -= per_batch * (VALUE_BYTES + 27) + 61
    log.append_as_leader(keyed((b"last", b"")), Epoch(1))
    log.configure(replace(CONFIG, segment_ms=0))
    log.expire(1 << 50, Offset(0))
    log.configure(CONFIG)
    log.flush()
    return log


class Cleaned(NamedTuple):
    """One cleaning, in CPU seconds and bytes."""

    seconds: float
    longest_step: float
    io_bytes: int
    memory: int
    """How much the process grew at most."""


def resident_bytes() -> int:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def clean(log: Log, buffer_bytes: int) -> Cleaned:
    """Clean once."""
    run = Cleaning(
        log,
        log.segments.active.base_offset,
        offsets=OffsetMap(log.start_offset, log.segments.active.base_offset, buffer_bytes, 0.9),
        now_ms=5000,
        window_bytes=WINDOW_BYTES,
    )
    begun = last = time.process_time()
    before = most = resident_bytes()
    longest, io_bytes = 0.0, 0
    for step in run.steps():
        now = time.process_time()
        longest, io_bytes = max(longest, now - last), io_bytes + step.io_bytes
        for target in step.to_sync:
            if isinstance(target, str):
                log.segments.disk.sync_dir(target)
            else:
                target.sync()
        most = max(most, resident_bytes())
        last = time.process_time()
    return Cleaned(time.process_time() - begun, longest, io_bytes, most - before)


def main() -> None:
    """Every shape, printed as a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--buffer-megabytes", type=int, default=128)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    buffer_bytes = arguments.buffer_megabytes << 20
    print(f"{arguments.keys} keys; the map holds {int(buffer_bytes * 0.9) // BYTES_PER_KEY}")
    print("batch  codec  MB before  after  MB/s of log  MB/s of I/O  longest step ms  memory MB")
    for per_batch, codec in ((1, 0), (100, 0), (100, 1), (100, 4)):
        with tempfile.TemporaryDirectory() as folder:
            disk = LocalDisk(Path(folder))
            log = written(disk, arguments.megabytes, arguments.keys, per_batch, codec)
            before = log.size / 1e6
            found = clean(log, buffer_bytes)
            print(
                f"{per_batch:5} {codec:6} {before:10.1f} {log.size / 1e6:6.1f} "
                f"{before / found.seconds:12.1f} {found.io_bytes / 1e6 / found.seconds:12.1f} "
                f"{found.longest_step * 1e3:16.1f} {found.memory / 1e6:10.1f}",
                flush=True,
            )
            log.close()


if __name__ == "__main__":
    main()
