"""A process whose clients are coroutines: its start, its counters and its end.

It runs until SIGTERM, or until its standard input closes, so that a dead harness leaves no clients
behind. One JSON line of counters per second goes to standard output.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import uvloop

from harness.recording.history import FLUSH_INTERVAL_S, OperationWriter
from harness.workloads.client_histories import open_history
from harness.workloads.clients.counts import Tally
from harness.workloads.configs import AnyConfig
from harness.workloads.counters import STAT_INTERVAL_S, print_stat

C = TypeVar("C", bound=AnyConfig)
Clients = Callable[[C, OperationWriter, asyncio.Event, list[Tally]], Awaitable[None]]
"""Runs the clients until the event is set, and appends a tally of each to the list."""


def main(argv: list[str], clients: Clients[C], read: Callable[[Path], C]) -> int:
    """Run the process; `argv` has the path of its configuration. Return the exit code."""
    code: int = uvloop.run(run(read(Path(argv[1])), clients))
    return code


async def run(config: C, clients: Clients[C]) -> int:
    """Run the workload of one process until the stop; return the exit code."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness handles Ctrl-C and stops its clients
    os.set_blocking(sys.stdin.fileno(), False)
    loop.add_reader(sys.stdin.fileno(), _watch_stdin, stop)
    writer = open_history(config)
    tallies: list[Tally] = []
    workload = asyncio.ensure_future(clients(config, writer, stop, tallies))
    next_stat_s = loop.time()
    while not workload.done():
        await asyncio.wait([workload], timeout=FLUSH_INTERVAL_S)
        writer.flush()
        if loop.time() >= next_stat_s or workload.done():
            next_stat_s += STAT_INTERVAL_S
            print_stat(config, tallies, writer)
    writer.close()
    workload.result()
    return 0


def _watch_stdin(stop: asyncio.Event) -> None:
    with contextlib.suppress(BlockingIOError):
        if not os.read(sys.stdin.fileno(), 4096):
            stop.set()
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
