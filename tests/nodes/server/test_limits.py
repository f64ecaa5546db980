"""Every message that a node accepts, with every number in it at the limits of its type.

To one of three nodes, on both its listeners. No handler may fail, no member of the quorum may halt,
and afterwards a calm client is served, another leader is elected, and all of it survives a restart.
"""

import asyncio
import logging
import struct
from contextlib import suppress
from datetime import timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.log.batch import Record, encode_batch
from nodes.server.controller.apis import controller_apis
from nodes.server.node import Node
from tests.support.nodes.cluster import Cluster, eventually, running
from tests.support.nodes.limit_values import Knowledge, requests

CALM, VICTIM = "calm", "victim"
FIRST_ID, STRANGER = 11, 2_000_001
AT_ONCE = 150
GRACE_S = 0.05
"""For the answers of one volley; what waits for longer is cut off."""


async def write(cluster: Cluster) -> None:
    """The calm client's write."""
    batch = encode_batch([Record(key=b"k", value=b"v")], timestamp_ms=1)
    data = {"name": CALM, "partition_data": [{"index": 0, "records": batch}]}

    async def written() -> bool:
        leader = await cluster.leader(CALM)
        answer = await cluster.ask(
            leader, 0, 9, acks=-1, timeout=timedelta(seconds=5), topic_data=[data]
        )
        return answer.responses[0].partition_responses[0].error_code is ErrorCode.none

    await eventually(written)


def raft_of(cluster: Cluster, node: int) -> Any:
    instance = cluster.nodes[node]
    assert instance is not None
    assert instance.raft is not None
    return instance.raft


async def know(cluster: Cluster, target: int, *, at_controller: bool) -> Knowledge:
    """What a well-informed attacker knows; the topic is made again if it is gone."""
    with suppress(AssertionError):  # it exists
        await cluster.create_topic(VICTIM, num_partitions=1, replication_factor=3)
    await cluster.leader(VICTIM)
    topic = (await cluster.metadata(target, VICTIM)).topics[0]
    other = next(node for node in cluster.ids if node != target)
    raft = raft_of(cluster, other)
    return Knowledge(
        cluster_id=raft.config.cluster_id,
        topic=VICTIM,
        topic_id=topic.topic_id or UUID(int=3),
        node_id=other,
        stranger_id=STRANGER,
        directory_id=raft.config.directory_id,
        epoch=raft.epoch,
        at_controller=at_controller,
    )


async def fire(port: int, frame: bytes) -> None:
    """Send one frame; wait a little for its answer, or for the end of the connection."""
    with suppress(ConnectionError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(frame)
            size = await asyncio.wait_for(reader.read(4), GRACE_S)
            if len(size) == 4:
                await asyncio.wait_for(reader.read(struct.unpack(">i", size)[0]), GRACE_S)
        finally:
            writer.close()


def served(node: Node, *, at_controller: bool) -> dict[int, tuple[int, int]]:
    """Oldest and newest version of every api of a listener."""
    if at_controller:
        assert node.raft is not None
        assert node.controller is not None
        assert node._recovery is not None
        apis = {**node.raft.apis(), **controller_apis(node.controller, node._recovery)}
    else:
        assert node.broker is not None
        apis = node.broker.apis()
    return {key: (api.oldest, api.newest) for key, api in apis.items()}


async def bombard(cluster: Cluster, target: int, *, at_controller: bool) -> int:
    """All of it to one listener of `target`, api by api; the number of requests."""
    node = cluster.nodes[target]
    assert node is not None
    apis = served(node, at_controller=at_controller)
    port = (cluster.controller_ports if at_controller else cluster.ports)[target]
    count = 0
    for key in sorted(apis):
        known = await know(cluster, target, at_controller=at_controller)
        volley = [frame for _, _, frame in requests({key: apis[key]}, known)]
        for start in range(0, len(volley), AT_ONCE):
            await asyncio.gather(*(fire(port, f) for f in volley[start : start + AT_ONCE]))
        count += len(volley)
        for number, instance in cluster.nodes.items():
            assert instance is not None
            assert instance.failure() == "", f"node {number} after api {key}"
        await write(cluster)
    return count


def bugs(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Where handlers failed, each kind once."""
    lines = [each for each in caplog.records if each.exc_info and each.name.startswith("nodes")]
    told = [f"{each.getMessage().split(' from ')[0]}: {each.exc_info[1]!r}" for each in lines]  # type: ignore[index]
    return [line for line, _ in groupby(sorted(told))]


async def leader_of(cluster: Cluster) -> int:
    """The active controller, once there is one."""
    found: list[int] = []

    async def active() -> bool:
        running = [n for n, instance in cluster.nodes.items() if instance is not None]
        found[:] = [n for n in running if raft_of(cluster, n).is_active]
        return bool(found)

    await eventually(active)
    return found[0]


@pytest.mark.parametrize("at_controller", [False, True], ids=["broker", "controller"])
@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_numbers_at_the_limits_of_their_types_break_nothing(
    at_controller: bool, leads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Sent to the quorum's leader or to a follower. Then another leader is elected, and again after
    a restart of all nodes."""

    async def main() -> None:
        async with running(3, first_id=FIRST_ID) as cluster:
            await cluster.create_topic(CALM, num_partitions=1, replication_factor=3)
            leader = await leader_of(cluster)
            target = next(n for n in cluster.ids if (n == leader) == leads)
            assert await bombard(cluster, target, at_controller=at_controller) > 500
            assert bugs(caplog) == []
            leader = await leader_of(cluster)
            epoch = raft_of(cluster, leader).epoch
            await cluster.stop(leader)
            await write(cluster)
            assert raft_of(cluster, await leader_of(cluster)).epoch > epoch
            await cluster.start(leader)
            await cluster.restart_all()
            await write(cluster)

    with caplog.at_level(logging.WARNING, logger="nodes"):
        asyncio.run(main())
