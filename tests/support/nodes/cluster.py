"""Whole nodes in one process and one event loop, on loopback ports and disks in memory.

For tests of brokers that need no kernel fault: the same Node that `python -m nodes` runs, with
a fixed seed. A crash drops a node's tasks and connections without any clean-up and, if asked, what
its disk had not synced.
"""

import asyncio
import contextlib
import copy
import random
import socket
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.config import load_config
from nodes.server.node import Node
from nodes.storage.memory import MemoryDisk
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

FAST = {
    "broker.session.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "50",
    "replica.lag.time.max.ms": "600",
    "replica.socket.timeout.ms": "500",
    "replica.fetch.wait.max.ms": "100",
    "controller.quorum.fetch.timeout.ms": "400",
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "100",
    "controller.quorum.request.timeout.ms": "500",
    "controlled.shutdown.max.wait.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
UNHURRIED = {
    "broker_session_timeout_ms": "9000",
    "replica_lag_time_max_ms": "30000",
    "replica_socket_timeout_ms": "30000",
    "controller_quorum_fetch_timeout_ms": "4000",
    "controller_quorum_request_timeout_ms": "2000",
}
"""Properties of a cluster that no test breaks: a busy machine must not take its leaders away."""
PATIENCE_S = 20.0


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody uses now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


class Cluster:
    """`count` combined nodes; `nodes[id]` is None while a node is down."""

    def __init__(self, count: int, *, first_id: int = 1, **properties: str) -> None:
        self._extra = {name.replace("_", "."): value for name, value in properties.items()}
        ports = free_ports(2 * count)
        self.ids = list(range(first_id, first_id + count))
        self.ports = dict(zip(self.ids, ports[:count], strict=True))
        self.controller_ports = dict(zip(self.ids, ports[count:], strict=True))
        self.disks = {node: MemoryDisk() for node in self.ids}
        self.nodes: dict[int, Node | None] = dict.fromkeys(self.ids)
        self._channels: dict[int, Channel] = {}
        self._starts = 0

    def _properties(self, node: int) -> dict[str, str]:
        voters = ",".join(f"{n}@127.0.0.1:{p}" for n, p in self.controller_ports.items())
        return {
            "node.id": str(node),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]},"
            f"CONTROLLER://127.0.0.1:{self.controller_ports[node]}",
            "controller.quorum.voters": voters,
            "log.dirs": "/memory",
            "offsets.topic.replication.factor": str(min(3, len(self.ids))),
            "transaction.state.log.replication.factor": str(min(3, len(self.ids))),
            **FAST,
            **self._extra,
        }

    async def start(self, node: int) -> None:
        config, _ = load_config(self._properties(node))
        self._starts += 1  # every incarnation has randomness of its own
        rng = random.Random(self._starts)
        instance = Node(config, self.disks[node], rng=rng, wall_clock_ms=lambda: 1_700_000_000_000)
        await instance.start()
        self.nodes[node] = instance

    async def stop(self, node: int) -> None:
        instance, self.nodes[node] = self.nodes[node], None
        assert instance is not None
        await instance.stop()

    async def restart_all(self, survives: Callable[[MemoryDisk], None] = lambda disk: None) -> None:
        """End all nodes at one moment, and start them on what their disks held then.

        `survives` takes from a disk what does not survive: nothing at a kill of the processes,
        `MemoryDisk.crash` at a power loss.
        """
        disks = copy.deepcopy(self.disks)
        for disk in disks.values():
            survives(disk)
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        running = [node for node, instance in self.nodes.items() if instance is not None]
        await asyncio.gather(*(self.stop(node) for node in running))  # on the disks of before
        self.disks = disks
        for node in running:
            await self.start(node)

    async def ask(self, node: int, api_key: int, version: int, **values: Any) -> Any:
        """Send one request to a node's client listener."""
        channel = self._channels.get(node)
        if channel is None:
            channel = Channel(
                "127.0.0.1", self.ports[node], client_id="test", request_timeout_s=5.0
            )
            self._channels[node] = channel
        return await channel.request(fill(load_request_schema(api_key, version), **values))

    async def metadata(self, node: int, topic: str | None = None) -> Any:
        topics = None if topic is None else [{"name": topic}]
        return await self.ask(node, 3, 12, topics=topics)

    async def in_service(self, count: int) -> None:
        """Wait until every running node knows `count` brokers in service."""

        async def known() -> bool:
            running = [n for n, instance in self.nodes.items() if instance is not None]
            answers = [await self.metadata(n) for n in running]
            return all(len(answer.brokers) == count for answer in answers)

        await eventually(known)

    async def create_topic(self, name: str, **values: Any) -> None:
        response = await self.ask(
            self.ids[0],
            19,
            7,
            topics=[{"name": name, **values}],
            timeout=timedelta(seconds=10),
        )
        assert response.topics[0].error_code is ErrorCode.none, response

    async def leader(self, topic: str, partition: int = 0, isr: int | None = None) -> int:
        """The leader on which all running nodes agree, once the ISR has `isr` members."""
        found: list[int] = []

        async def agreed() -> bool:
            running = [n for n, instance in self.nodes.items() if instance is not None]
            views = []
            for node in running:
                answer = await self.metadata(node, topic)
                part = next(
                    (p for p in answer.topics[0].partitions if p.partition_index == partition),
                    None,
                )
                views.append(None if part is None else (part.leader_id, len(part.isr_nodes)))
            first = views[0]
            if first is None or any(view != first for view in views) or first[0] < 0:
                return False
            found[:] = [first[0]]
            return (isr is None or first[1] == isr) and self.nodes[first[0]] is not None

        await eventually(agreed)
        return found[0]

    async def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        for node in self.ids:
            if self.nodes[node] is not None:
                await self.stop(node)
        await asyncio.sleep(0.05)  # what was dropped last needs some turns of the loop to end


async def eventually(condition: Any) -> None:
    """Wait until `condition()` holds, up to PATIENCE_S; connection failures count as not yet."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(ChannelError):
                if await condition():
                    return
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(count: int, *, first_id: int = 1, **properties: str) -> AsyncIterator[Cluster]:
    """A cluster of `count` nodes in service; properties are named with _ for the dots."""
    cluster = Cluster(count, first_id=first_id, **properties)
    try:
        for node in cluster.ids:
            await cluster.start(node)
        await cluster.in_service(count)
        yield cluster
    finally:
        await cluster.close()
