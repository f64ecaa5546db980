"""10,000 idle connections, and what they cost a client that is busy.

    python -m tests.tools.idle_connections --connections 10000

One node in a process of its own. A client writes records with acks=1, one at a time, and the median
time is measured: alone, with the crowd connected, and after it has left; and the node's memory.
"""

import argparse
import asyncio
import resource
import statistics
import tempfile
from datetime import timedelta
from pathlib import Path

from nodes.log.batch import Record, encode_batch
from tests.support.nodes.calm_client import TOPIC, Calm
from tests.tools.wire_fuzz import Target

SENDS = 2000
AT_ONCE = 500
LOOPBACK_HOSTS = 4
"""Source addresses that the crowd comes from: one has too few ports."""


async def latency_ms(calm: Calm) -> tuple[float, float]:
    """Median and 99th percentile of one send after the other."""
    loop = asyncio.get_running_loop()
    batch = encode_batch([Record(key=b"k", value=bytes(1000))], timestamp_ms=1)
    data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
    taken = []
    for _ in range(SENDS):
        begun = loop.time()
        await calm.ask(0, 9, acks=1, timeout=timedelta(seconds=5), topic_data=[data])
        taken.append((loop.time() - begun) * 1000)
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]


async def measure(connections: int, directory: Path) -> None:
    """Print the figures."""
    target = Target(directory)
    calm = Calm(target.port)
    crowd: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def report(what: str) -> None:
        median, high = await latency_ms(calm)
        print(f"{what}: p50 {median:.3f} ms, p99 {high:.3f} ms, {target.memory_kb() >> 10} MB")

    try:
        await calm.prepare()
        await latency_ms(calm)  # warms up
        await report("alone")
        before_kb = target.memory_kb()
        for first in range(0, connections, AT_ONCE):
            crowd += await asyncio.gather(
                *(
                    asyncio.open_connection(
                        "127.0.0.1",
                        target.port,
                        limit=1024,
                        local_addr=(f"127.0.0.{2 + number % LOOPBACK_HOSTS}", 0),
                    )
                    for number in range(first, min(first + AT_ONCE, connections))
                )
            )
        each_kb = (target.memory_kb() - before_kb) / connections
        await report(f"{connections} idle connections ({each_kb:.1f} KB each)")
        for _, writer in crowd:
            writer.close()
        await asyncio.sleep(1)
        await report("after them")
        target.check(0)
    finally:
        calm.close()
        target.stop()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--connections", type=int, default=10_000)
    connections = parser.parse_args().connections
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The node inherits it.
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="highwater-crowd-") as directory:
        asyncio.run(measure(connections, Path(directory)))


if __name__ == "__main__":
    main()
