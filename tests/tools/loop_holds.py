"""How long one request can hold a node's event loop: each api's largest legal request, one by one.

    python -m tests.tools.loop_holds

One node in this process, its garbage collected as in a node's own process. Every callback of the
loop is timed, in processor time of its thread: a busy machine does not count. Prints the longest
hold for each request, the worst first.
"""

import argparse
import asyncio
import struct
import time
from asyncio import events
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

from nodes.__main__ import tune_garbage_collector
from tests.support.nodes.cluster import Cluster, running
from tests.support.nodes.largest_requests import largest

PATIENCE_S = 3.0


class Holds:
    """The longest callback since the last `reset`."""

    longest_s = 0.0

    def reset(self) -> None:
        self.longest_s = 0.0


@contextmanager
def timed() -> Iterator[Holds]:
    """Time every callback of asyncio's own loops."""
    holds, run = Holds(), events.Handle._run

    def timing(handle: Any) -> None:
        begun = time.thread_time()
        run(handle)
        holds.longest_s = max(holds.longest_s, time.thread_time() - begun)

    events.Handle._run = timing  # type: ignore[method-assign,assignment]
    try:
        yield holds
    finally:
        events.Handle._run = run  # type: ignore[method-assign]


async def fire(port: int, frame: bytes) -> int:
    """Send a frame; the size of its answer, 0 when there is none."""
    with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(frame)
            head = await asyncio.wait_for(reader.readexactly(4), PATIENCE_S)
            (size,) = struct.unpack(">i", head)
            await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)
            return int(size)
        finally:
            writer.close()
    return 0


async def measure(cluster: Cluster, holds: Holds, count: int | None) -> list[tuple[float, str]]:
    """The longest hold for each request, in seconds."""
    await cluster.create_topic("calm", num_partitions=1, replication_factor=1)
    await cluster.leader("calm")
    node = cluster.nodes[1]
    assert node is not None
    found = []
    for endpoint in node.config.listeners:
        apis = {key: (api.oldest, api.newest) for key, api in node._apis(endpoint).items()}
        for what, frame in largest(apis, UUID(int=1), count):
            for _ in range(2):  # the first makes codecs
                await asyncio.sleep(0)
                holds.reset()
                size = await fire(endpoint.port, frame)
            told = f"{endpoint.listener} {what}: {len(frame)} bytes, answered by {size}"
            found.append((holds.longest_s, told))
    return sorted(found, reverse=True)


async def main(count: int | None, shown: int) -> None:
    """See the module."""
    tune_garbage_collector()
    with timed() as holds:
        async with running(1) as cluster:
            for hold_s, told in (await measure(cluster, holds, count))[:shown]:
                print(f"{hold_s * 1000:7.1f} ms  {told}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--elements", type=int, help="instead of as many as are allowed")
    parser.add_argument("--shown", type=int, default=1000)
    given = parser.parse_args()
    asyncio.run(main(given.elements, given.shown))
