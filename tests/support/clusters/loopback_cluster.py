"""Real brokers inside the test's own process, on loopback ports and disks in memory."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.nodes.cluster import Cluster

PATIENCE_S = 60


@contextmanager
def serving(cluster: Cluster, **topics: int) -> Iterator[str]:
    """Run the cluster in a thread with a loop of its own and {topic: partitions}; give its
    bootstrap addresses."""
    with in_its_loop(cluster, **topics):
        yield addresses_of(cluster)


def addresses_of(cluster: Cluster) -> str:
    """The bootstrap addresses of all nodes."""
    return ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())


@contextmanager
def in_its_loop(cluster: Cluster, **topics: int) -> Iterator[Callable[[Any], Any]]:
    """As `serving`; give a function that awaits something in the cluster's loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="cluster")
    thread.start()

    def call(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)

    async def up() -> None:
        for node in cluster.ids:
            await cluster.start(node)
        await cluster.in_service(len(cluster.ids))
        for topic, partitions in topics.items():
            await cluster.create_topic(
                topic, num_partitions=partitions, replication_factor=len(cluster.ids)
            )

    try:
        call(up())
        yield call
    finally:
        call(cluster.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()
