"""Brokers with scripted answers in a simulated world, and clients that talk to them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.simulation.world.guard import guard
from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.environment import ClientEnvironment
from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, encode_batch
from tests.support.clusters.fake_node import Answer, FakeNode
from tests.support.simulation.worlds import Bare, bare

PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID, EPOCH_ENDS = 0, 1, 2, 3, 22, 23
PORT = 9092
TOPIC_ID = UUID(int=7)


class Script:
    """Two brokers, node 1 and node 2. `leader` is the leader of partition 0 of t and its epoch.
    `seen` are the requests to both except metadata, as (node, request)."""

    def __init__(self) -> None:
        self.leader = (1, 0)
        self.answers: dict[int, Callable[[int, Any], Mapping[str, Any]]] = {
            METADATA: self._metadata,
            INIT_PRODUCER_ID: lambda node, _: {"producer_id": 77, "producer_epoch": 0},
        }
        self.seen: list[tuple[int, Any]] = []
        self.world: Bare = bare(hosts=3)

    def endpoint(self, node: int) -> dict[str, Any]:
        return {"node_id": node, "host": self.world.hosts[node].address, "port": PORT}

    def _metadata(self, node: int, request: Any) -> Mapping[str, Any]:
        leader, epoch = self.leader
        part = {"partition_index": 0, "leader_id": leader, "leader_epoch": epoch}
        topic = {"name": "t", "topic_id": TOPIC_ID, "partitions": [part]}
        return {"brokers": [self.endpoint(1), self.endpoint(2)], "topics": [topic]}

    def asked(self, api_key: int) -> list[Any]:
        """The requests of one API, in order."""
        return [request for _, request in self.seen if int(request.__api_key__) == api_key]

    def _answer(self, node: int, api_key: int) -> Answer:
        def answer(request: Any) -> Mapping[str, Any]:
            if api_key != METADATA:
                self.seen.append((node, request))
            return self.answers[api_key](node, request)

        return answer

    def run(self, client: Callable[[Cluster], Awaitable[None]], timing: Timing) -> None:
        """Serve while `client` runs; it closes its cluster."""

        def serving(number: int) -> Callable[[], Any]:
            async def main() -> None:
                loop = asyncio.get_running_loop()
                node = FakeNode({key: self._answer(number, key) for key in self.answers})
                await loop.create_server(
                    node.connection, self.world.hosts[number].address, PORT, backlog=5
                )
                await asyncio.sleep(10_000)

            return main

        async def asking() -> None:
            bootstrap = f"{self.world.hosts[1].address}:{PORT}"
            rng = self.world.world.stream("client")
            environment = ClientEnvironment(rng=rng, wall_clock_ms=lambda: 0, timing=timing)
            await client(environment.connect(bootstrap, "t", client=1))
            await asyncio.sleep(1)  # what was sent last arrives

        with guard(self.world.world):
            for number in (1, 2):
                self.world.hosts[number].boot(serving(number))
            self.world.run(0, asking, within_s=300)
            self.world.end()


def fetched(values: Mapping[int, int], start: int = 0, **row: Any) -> Mapping[str, Any]:
    """An answer to a fetch: {offset: leader epoch} in batches of one value each."""
    records = b"".join(
        encode_batch(
            [Record(value=b"v%d" % offset)],
            base_offset=Offset(offset),
            leader_epoch=Epoch(epoch),
            timestamp_ms=1,
        )
        for offset, epoch in values.items()
        if offset >= start
    )
    part = {"partition_index": 0, "error_code": ErrorCode.none, "records": records, **row}
    return {"responses": [{"topic": "t", "partitions": [part]}]}


def wanted(request: Any) -> Any:
    """The only partition's row of a fetch or of a request for epochs."""
    return request.topics[0].partitions[0]
