"""`python -m nodes server.properties`: run one node until SIGTERM or SIGINT.

Only this module uses real files, the wall clock, real randomness and signals. Exit codes: 0 after a
clean stop, 1 if the node could not start or run (the reason is on standard error).
"""

import argparse
import asyncio
import contextlib
import ctypes
import fcntl
import gc
import logging
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from nodes.config import ConfigError, NodeConfig, load_config, parse_properties
from nodes.huge_pages import use_huge_pages
from nodes.log.checkpoints import CheckpointError
from nodes.log.errors import LogError
from nodes.raft.errors import RaftError
from nodes.server.apis import prepare_busiest
from nodes.server.node import Node, StartError
from nodes.storage.disk import Disk
from nodes.storage.local import LocalDisk

if TYPE_CHECKING:  # only brokers with ZooKeeper load it
    from nodes.server.zookeeper.client import MakeZooKeeper

GC_THRESHOLDS = (5_000, 10, 500)
"""Net allocations, young collections and middle collections until the next older collection. The
objects of thousands of partitions live long and have few cycles. By default, Python searches all of
them whenever a quarter of the objects is new. That stops a node for a second, perhaps just when it
should take over from another node. The price: no request may leave a cycle behind, because the
cycle would stay in memory until the next full collection, however large it is.
"""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""
KEPT_BYTES = 64 << 20
"""At most so much freed memory stays at the end of the heap."""
MAPPED_BYTES = 32 << 20
"""A larger block is no part of the heap; the kernel gets it back at once. The largest value."""

log = logging.getLogger("nodes")


def tune_garbage_collector() -> None:
    """Let the garbage collector search old objects rarely, and never those of the start."""
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()


def tune_memory_allocator() -> None:
    """Keep freed memory for the next large message; only glibc has this setting.

    By default, glibc returns the memory of a message of a megabyte to the kernel, which then clears
    new pages for the next one. That took more than half of the processor time of a leader whose
    producers send large batches.
    """
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)


def main(argv: list[str] | None = None) -> int:
    """Run the node that the properties file describes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m nodes", description=__doc__)
    parser.add_argument("properties", type=Path, help="Kafka's server.properties")
    arguments = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stdout,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    _raise_file_limit()
    prepare_busiest()
    tune_garbage_collector()
    tune_memory_allocator()
    use_huge_pages()
    try:
        config, unused = load_config(parse_properties(arguments.properties.read_text()))
        for key in unused:
            log.warning("%s is not used", key)
        directory = Path(config.log_dir)
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory):
            failure = uvloop.run(
                serve(
                    config,
                    LocalDisk(directory),
                    rng=random.Random(),
                    wall_clock_ms=_wall_clock_ms,
                )
            )
    except (OSError, ConfigError, StartError, LogError, CheckpointError, RaftError) as error:
        print(f"node cannot run: {error}", file=sys.stderr)
        return 1
    if failure:
        print(f"node stopped: {failure}", file=sys.stderr)
    return 1 if failure else 0


async def serve(
    config: NodeConfig,
    disk: Disk,
    *,
    rng: random.Random,
    wall_clock_ms: Callable[[], int],
    on_created: Callable[[Node], None] | None = None,
    make_zookeeper: "MakeZooKeeper | None" = None,
) -> str:
    """Run until a stop is requested or the node fails; return the failure, empty after a clean
    stop.

    `on_created` is called with the node before it starts. `make_zookeeper` makes the client of
    ZooKeeper, if that is the control plane; the default is a real one.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(config, disk, rng=rng, wall_clock_ms=wall_clock_ms, make_zookeeper=make_zookeeper)
    if on_created is not None:
        on_created(node)
    await node.start()
    stopping = asyncio.ensure_future(stop.wait())
    failing = asyncio.ensure_future(node.failed())
    await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
    if failing.done():
        return failing.result()
    failing.cancel()
    await node.stop()
    return ""


def _raise_file_limit() -> None:
    """Raise the limit of open files to the maximum, because every log keeps a file open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock the log directory: two processes on one log would destroy it."""
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StartError(f"{directory} is in use by another node process") from error
        yield


if __name__ == "__main__":
    sys.exit(main())
