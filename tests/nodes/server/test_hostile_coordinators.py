"""Hostile requests to the coordinators: whatever they append, a coordinator can replay its log."""

import asyncio
import logging
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from harness.simulation.invariants.coordinators import check_coordinator
from nodes.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from nodes.server.coordinators.shard import Shard, State
from tests.support.nodes.cluster import Cluster, eventually, running
from tests.support.nodes.hostile_frames import Malice

COORDINATOR_APIS = (
    *(8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69),
    *(22, 24, 25, 26, 27, 28, 65, 66),
    *(0, 21, 61),
)
"""Groups, transactions, and what else may write to the internal topics."""
BURSTS, AT_ONCE = 1000, 10
ANSWERED_S = 0.03
SHARDS = 8
SETTLED_S = 1.0
"""Session and transaction time-outs may end by then; what they write is checked too."""


async def _attack(port: int, malice: Malice) -> None:
    with suppress(ConnectionError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"".join(malice.burst()[0]))
            with suppress(TimeoutError):
                malice.heard(await asyncio.wait_for(reader.read(1 << 16), ANSWERED_S))
        finally:
            writer.close()


def _shards(cluster: Cluster) -> Iterator[tuple[Shard[Any], Any]]:
    """Each shard, and what makes an empty machine for it."""
    node = cluster.nodes[1]
    assert node is not None
    for shards in (node.broker.groups, node.broker._transactions.shards):
        for shard in shards._shards.values():
            yield shard, shards.make


async def _all_served(cluster: Cluster) -> None:
    async def served() -> bool:
        states = [shard.state for shard, _ in _shards(cluster)]
        return len(states) == SHARDS and State.LOADING not in states

    await eventually(served)


def _check(cluster: Cluster) -> dict[str, int]:
    """Check every coordinator; return how many offsets its topic has."""
    ends = dict.fromkeys((OFFSETS_TOPIC, TRANSACTIONS_TOPIC), 0)
    for shard, make in _shards(cluster):
        assert shard.state is State.ACTIVE, shard.replica.partition
        check_coordinator(shard.replica, 1, shard.machine, make)
        ends[shard.replica.partition.topic] += shard.replica.log.end_offset
    return ends


@pytest.mark.slow
def test_a_coordinator_replays_what_hostile_requests_made_it_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Before and after a restart; and no handler fails. Most values are likely ones, so that much
    is written.
    """

    async def scenario() -> None:
        async with running(
            1, group_min_session_timeout_ms="1", auto_create_topics_enable="true"
        ) as cluster:
            await cluster.create_topic("noisy", num_partitions=3, replication_factor=1)
            for kind in (0, 1):
                await cluster.ask(1, 10, 6, key_type=kind, coordinator_keys=["g"])
            await _all_served(cluster)
            answer = await cluster.ask(1, 18, 0)
            served = {
                row.api_key: (row.min_version, row.max_version)
                for row in answer.api_keys
                if row.api_key in COORDINATOR_APIS
            }
            malice = Malice(random.Random(20_261_126), served, likely=0.9)
            for _ in range(0, BURSTS, AT_ONCE):
                attacks = (_attack(cluster.ports[1], malice) for _ in range(AT_ONCE))
                await asyncio.gather(*attacks)
            await asyncio.sleep(SETTLED_S)
            written = _check(cluster)
            assert min(written.values()) > 20, written
            await cluster.restart_all()
            await _all_served(cluster)
            _check(cluster)

    asyncio.run(scenario())
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
