"""How long a coordinator loads committed offsets, before it serves its groups.

Writes the log of a partition of `__consumer_offsets` to memory and loads it as a new leader does.
Times are CPU seconds: a busy machine does not matter.

    python -m tests.tools.coordinator_loads --offsets 100000
"""

import argparse
import asyncio
import logging
import time
from random import Random

from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.records import CommitEncoder
from nodes.coordinators.groups.topics import TopicsView
from nodes.ids import Epoch, Offset
from nodes.log.config import LogConfig
from nodes.log.key_values import encode_key_values
from nodes.log.log import Log
from nodes.server.coordinators.loading import load
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.group_offsets import SETTINGS

GROUPS = 1000
NOW_MS = 1_700_000_000_000


def written(offsets: int, per_batch: int) -> Log:
    """The log of so many offsets of GROUPS groups, each of a partition of its own."""
    log = Log.open(MemoryDisk(), "__consumer_offsets-0", LogConfig(), clean=True)
    for first in range(0, offsets, per_batch):
        numbers = range(first, min(first + per_batch, offsets))
        made = [
            CommitEncoder(f"group-{number % GROUPS}", "topic", commit_timestamp=NOW_MS).encode(
                number // GROUPS, Offset(number), Epoch(1)
            )
            for number in numbers
        ]
        batch = encode_key_values(made, NOW_MS)
        log.append_as_leader(batch, Epoch(1))
    return log


def _no_topics() -> TopicsView:
    raise AssertionError("committed offsets need no topics")


def main() -> None:
    """Offsets that were committed one by one, and in commits of ten partitions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--offsets", type=int, default=100_000)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print("offsets  in a batch  MB   seconds  offsets/s")
    for per_batch in (1, 10):
        log = written(arguments.offsets, per_batch)
        machine = GroupCoordinator(SETTINGS, _no_topics, Random(0))
        begun = time.process_time()
        asyncio.run(load(machine, log))
        seconds = time.process_time() - begun
        print(
            f"{arguments.offsets:7,} {per_batch:11} {log.size / 1e6:4.1f} {seconds:8.2f} "
            f"{arguments.offsets / seconds:10,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
