"""Clients for simulated clusters: they create topics, send records at a steady rate, and
read them.
"""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from harness.admin import topics
from harness.admin.client import AdminClient
from harness.admin.errors import TransientError
from harness.simulation.world.cluster import SimCluster
from nodes.log.batch import Record, decode_records, encode_batch, iter_batches
from nodes.wire.client import Channel
from nodes.wire.codec import request_pieces
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

PRODUCE, FETCH, METADATA = 0, 1, 3


async def in_service(admin: AdminClient, count: int) -> None:
    """Wait until this many brokers are known."""

    async def look() -> None:
        answer = await admin.request("metadata", topics=())
        if len(answer.brokers) < count:
            raise TransientError(ErrorCode.broker_not_available, f"{len(answer.brokers)} brokers")

    await admin.repeat(look)


async def make_topics(cluster: SimCluster, names: Mapping[str, int]) -> None:
    """Wait for all brokers, create the topics (name -> partitions), and wait until all replicas are
    in sync.
    """
    everywhere = list(cluster.brokers.values())
    async with AdminClient(everywhere) as admin:
        await in_service(admin, len(everywhere))
        for name, partitions in names.items():
            await topics.create(
                admin,
                name,
                partitions=partitions,
                replication_factor=len(everywhere),
                configs={"min.insync.replicas": "2"},
            )
        for name, partitions in names.items():

            async def look(name: str = name, partitions: int = partitions) -> None:
                await topics.check_in_sync(
                    admin,
                    name,
                    partitions=partitions,
                    replicas=len(everywhere),
                    by=everywhere,
                )

            await admin.repeat(look)


@dataclass(slots=True)
class Client:
    """Sends numbered records to the leaders, one batch each, and counts the results."""

    cluster: SimCluster
    acked: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    failed: int = 0
    sent: int = 0
    channels: dict[int, Channel] = field(default_factory=dict)
    writers: dict[int, asyncio.StreamWriter] = field(default_factory=dict)
    leaders: dict[tuple[str, int], int] = field(default_factory=dict)

    def channel(self, node: int) -> Channel:
        found = self.channels.get(node)
        if found is None:
            host, port = self.cluster.brokers[node]
            found = Channel(host, port, client_id="load", request_timeout_s=2.0)
            self.channels[node] = found
        return found

    async def ask(self, node: int, api_key: int, version: int, **values: Any) -> Any:
        request = fill(load_request_schema(api_key, version), **values)
        return await self.channel(node).request(request)

    async def leader(self, topic: str, partition: int) -> int:
        """Return the leader as some node knows it; repeat until a node knows one."""
        while True:
            known = self.leaders.get((topic, partition), -1)
            if known >= 0:
                return known
            for node in self.cluster.brokers:
                try:
                    answer = await self.ask(node, METADATA, 12, topics=[{"name": topic}])
                except ChannelError:
                    continue
                for part in answer.topics[0].partitions:
                    self.leaders[topic, part.partition_index] = int(part.leader_id)
                if self.leaders.get((topic, partition), -1) >= 0:
                    break
            else:
                await asyncio.sleep(0.1)

    async def send(self, topic: str, partition: int, acks: int, size: int = 100) -> bool:
        """Send one record once; return whether it was acknowledged."""
        value, self.sent = self.sent, self.sent + 1
        node = await self.leader(topic, partition)
        payload = value.to_bytes(8, "big").ljust(size, b".")
        batch = encode_batch([Record(value=payload)], timestamp_ms=1)
        data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
        values = {"acks": acks, "timeout": timedelta(seconds=1), "topic_data": data}
        if acks == 0:
            return await self._send_unanswered(
                node, fill(load_request_schema(PRODUCE, 9), **values)
            )
        try:
            answer = await self.ask(node, PRODUCE, 9, **values)
            code = answer.responses[0].partition_responses[0].error_code
        except ChannelError:
            code = ErrorCode.network_exception
        if code is not ErrorCode.none:
            self.failed += 1
            self.leaders.clear()
            return False
        self.acked.setdefault((topic, partition), []).append(value)
        return True

    async def send_until_acked(self, topic: str, partition: int) -> None:
        """Send records with acks=all until one is acknowledged. Raises TimeoutError
        after a minute.
        """
        async with asyncio.timeout(60):
            for _ in itertools.count():
                if await self.send(topic, partition, -1):
                    return
                await asyncio.sleep(0.1)

    async def _send_unanswered(self, node: int, request: Any) -> bool:
        writer = self.writers.get(node)
        try:
            if writer is None or writer.is_closing():
                _, writer = await asyncio.open_connection(*self.cluster.brokers[node])
                self.writers[node] = writer
            writer.writelines(request_pieces(request, self.sent, "load"))
            await writer.drain()
        except OSError:
            self.writers.pop(node, None)
            self.leaders.clear()
            return False
        return True

    async def read(self, topic: str, partition: int) -> list[int]:
        """Return all values of the partition, from its leader, up to the high watermark."""
        values: list[int] = []
        offset = 0
        self.leaders.pop((topic, partition), None)  # a follower would answer with less
        while True:
            node = await self.leader(topic, partition)
            asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            try:
                answer = await self.ask(
                    node,
                    FETCH,
                    12,
                    replica_id=-1,
                    max_wait=timedelta(0),
                    min_bytes=1,
                    topics=[{"topic": topic, "partitions": [asked]}],
                )
            except ChannelError:
                self.leaders.clear()
                continue
            part = answer.responses[0].partitions[0]
            if part.error_code is not ErrorCode.none:
                self.leaders.clear()
                await asyncio.sleep(0.1)
                continue
            records = bytes(part.records or b"")
            for position, header in iter_batches(records):
                found = decode_records(records, position)
                values += [int.from_bytes((record.value or b"")[:8], "big") for record in found]
                offset = header.last_offset + 1
            if offset >= part.high_watermark:
                return values
