"""Long polls: what a fetch that has to wait must not miss."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.ids import TopicPartition
from nodes.log.batch import Record, encode_batch
from nodes.server.replica import Replica
from nodes.wire.server import RequestContext
from nodes.wire.versions import fill
from tests.nodes.server.cluster import PATIENCE_S, Cluster, running

BATCH = encode_batch([Record(value=b"news")], timestamp_ms=1)
SOMEBODY = RequestContext(listener="PLAINTEXT", peer_host="127.0.0.1", client_id=None)
CONSUMER, FOLLOWER = -1, 2


def fetch(cluster: Cluster, replica_id: int) -> Any:
    """What the leader's handler makes of a fetch at offset 0 that may wait for an hour."""
    node = cluster.nodes[1]
    assert node is not None
    assert node.broker is not None
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    request = fill(
        load_request_schema(1, 12),
        replica_id=replica_id,
        max_wait=timedelta(hours=1),
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": [part]}],
    )
    return node.broker.apis()[1].handler(request, SOMEBODY)


async def leading(cluster: Cluster) -> Replica:
    """The replica of the only partition, on the only node."""
    await cluster.create_topic("t", num_partitions=1, replication_factor=1)
    await cluster.leader("t")
    node = cluster.nodes[1]
    assert node is not None
    assert node.broker is not None
    replica = node.broker.replicas.find(TopicPartition("t", 0))
    assert replica is not None
    return replica


@pytest.mark.parametrize("replica_id", [CONSUMER, FOLLOWER])
def test_an_append_before_the_long_poll_first_runs_wakes_it(replica_id: int) -> None:
    """A produce read from the sockets in the same turn of the loop as the fetch is not missed."""

    async def run() -> None:
        async with running(1) as cluster:
            replica = await leading(cluster)
            answer = asyncio.ensure_future(fetch(cluster, replica_id))
            replica.append(BATCH)
            response = await asyncio.wait_for(answer, PATIENCE_S)
            part = response.responses[0].partitions[0]
            assert part.error_code is ErrorCode.none
            assert part.records

    asyncio.run(run())


def test_a_poll_whose_connection_ends_leaves_nothing_behind() -> None:
    """Cancelled before it ran or while it waits, a poll is forgotten by the replica."""

    async def run() -> None:
        async with running(1) as cluster:
            replica = await leading(cluster)
            for runs_first in (False, True):
                answer = asyncio.ensure_future(fetch(cluster, CONSUMER))
                if runs_first:
                    await asyncio.sleep(0)
                answer.cancel()
                await asyncio.wait([answer])
                await asyncio.sleep(0)
                assert replica._on_commit == {}, runs_first

    asyncio.run(run())
