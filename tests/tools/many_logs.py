"""Many logs in one node: how long opening and closing takes, and how many descriptors are open.

    python -m tests.tools.many_logs DIRECTORY [LOGS]

Each log has a few records. Opened three times: as new ones, after a clean stop, after a kill.
"""

import argparse
import time
from pathlib import Path

from nodes.ids import Epoch, Offset
from nodes.log.log import Log, LogConfig
from nodes.storage.local import LocalDisk
from tests.support.nodes.batches import batch


def descriptors() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def main() -> None:
    """Measure, and print a line for each step."""
    parser = argparse.ArgumentParser(description="Open many logs.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("logs", type=int, nargs="?", default=10_000)
    arguments = parser.parse_args()
    config = LogConfig()
    logs: list[Log] = []

    def opened(clean: bool) -> None:
        disk = LocalDisk(arguments.directory)
        logs[:] = [
            Log.open(disk, f"t-{n}", config, clean=clean, recovery_point=Offset(0))
            for n in range(arguments.logs)
        ]

    def appended() -> None:
        for log in logs:
            log.append_as_leader(batch(3, producer=(7, 0, 0)), Epoch(1))

    def closed() -> None:
        for log in logs:
            log.close()

    def expired() -> None:
        for log in logs:
            log.expire(0, log.end_offset)

    for name, step in (
        ("open new", lambda: opened(True)),
        ("append to each", appended),
        ("close", closed),
        ("open after a clean stop", lambda: opened(True)),
        ("expire", expired),
        ("close unchanged", closed),
        ("open after a kill", lambda: opened(False)),
        ("close again", closed),
    ):
        started, processor = time.monotonic(), time.process_time()
        step()
        took_ms = 1000 * (time.monotonic() - started)
        processor_ms = 1000 * (time.process_time() - processor)
        print(
            f"{name}: {took_ms:,.0f} ms ({processor_ms:,.0f} ms of processor), "
            f"{descriptors()} descriptors",
            flush=True,
        )


if __name__ == "__main__":
    main()
