"""A leader is stopped in order, in a simulated cluster whose delays are known.

A client asks every broker to append, every half millisecond, with acks=all. So it sees when the old
leader acknowledged for the last time and its successor for the first, whatever a real client would
need to find the successor.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.disk import DiskSettings
from harness.simulation.world.guard import guard
from harness.simulation.world.network.link import NetworkSettings
from harness.simulation.world.world import World
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import PRODUCE, Client, make_topics
from nodes.log.batch import Record, encode_batch
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

TOPIC: Final = "handover"
PERIOD_MS: Final = 0.5
BEFORE_MS: Final = 50.0
AFTER_MS: Final = 150.0


@dataclass(frozen=True, slots=True)
class _Append:
    node: int
    sent_ms: float
    answered_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The acknowledgements around the stop of a leader. Milliseconds of virtual time."""

    old: int
    new: int
    gap_ms: float
    """From the old leader's last acknowledgement to its successor's first one."""


def handover(seed: int, *, delay_ms: float, sync_ms: float) -> Handover:
    """Stop a leader with SIGTERM. Each packet takes `delay_ms`, each sync of a disk `sync_ms`."""
    world = World(seed)
    cluster = SimCluster(
        world,
        Layout.combined([1, 2, 3]),
        network=NetworkSettings(base_ns=_always(delay_ms), jitter_ns=(0, 0), fragmented=0.0),
        disk=DiskSettings(sync_ns=_always(sync_ms), bytes_per_s=1 << 40),
    )
    client = Client(cluster)
    acknowledged: list[_Append] = []

    async def append(node: int) -> None:
        sent_ms = world.now_ns / 1e6
        batch = encode_batch([Record(value=b"x")], timestamp_ms=1)
        request = fill(
            load_request_schema(PRODUCE, 9),
            acks=-1,
            timeout=timedelta(seconds=5),
            topic_data=[{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}],
        )
        try:
            answer = await client.channel(node).request(request)
        except ChannelError:
            return
        if answer.responses[0].partition_responses[0].error_code is ErrorCode.none:
            acknowledged.append(_Append(node, sent_ms, world.now_ns / 1e6))

    async def append_everywhere(during_ms: float) -> list[asyncio.Task[None]]:
        asked = []
        for _ in range(round(during_ms / PERIOD_MS)):
            asked += [asyncio.create_task(append(node)) for node in cluster.nodes]
            await asyncio.sleep(PERIOD_MS / 1000)
        return asked

    async def stop_the_leader() -> int:
        await make_topics(cluster, {TOPIC: 1})
        old = await client.leader(TOPIC, 0)
        asked = await append_everywhere(BEFORE_MS)
        cluster.nodes[old].terminate()
        asked += await append_everywhere(AFTER_MS)
        for each in asked:
            each.cancel()
        return old

    try:
        with guard(world):
            cluster.start()
            old = world.run_until(cluster.run_client(stop_the_leader), 300)
    finally:
        cluster.close()
    last_ms = max(each.answered_ms for each in acknowledged if each.node == old)
    first = min(
        (each for each in acknowledged if each.node != old), key=lambda each: each.answered_ms
    )
    return Handover(old=old, new=first.node, gap_ms=first.answered_ms - last_ms)


def _always(delay_ms: float) -> tuple[int, int]:
    return round(delay_ms * 1e6), round(delay_ms * 1e6)
