"""Topics and leaders of any cluster that speaks the protocol; the little that a benchmark needs.

One `Admin` talks to all bootstrap servers of a system from a loop of its own. Every call is
synchronous and bounded; failures are MeasureErrors that name the system.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest

from harness.bench.workers import MeasureError, Stopped
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 30.0
CREATED_S: Final = 300.0
"""For ten thousand partitions."""
UNREACHABLE_S: Final = 60.0
RETRY_S: Final = 0.05
MAX_MESSAGE_BYTES: Final = 16 << 20

Address = tuple[str, int]


class Admin:
    """The cluster behind `bootstrap`. `stopped` is looked at while something is awaited."""

    def __init__(
        self, name: str, bootstrap: Sequence[Address], stopped: Callable[[], bool]
    ) -> None:
        self._name = name
        self._bootstrap = list(bootstrap)
        self._stopped = stopped

    def create(self, topic: str, *, partitions: int, replicas: int) -> None:
        """Create a topic; returns when every bootstrap server sees all replicas in sync."""
        self.create_all({topic: partitions}, replicas=replicas)

    def create_all(self, topics: Mapping[str, int], *, replicas: int) -> None:
        """Create topics with so many partitions each, in one request for each."""

        async def create(channels: Mapping[Address, Channel]) -> str | None:
            for topic, partitions in topics.items():
                answer = await _any(channels, _create_request(topic, partitions, replicas))
                for each in answer.topics:
                    if each.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists):
                        return f"{each.name}: {each.error_code.name} {each.error_message or ''}"
            return None

        self._until(f"cannot create {', '.join(list(topics)[:3])}", create)
        self.await_in_sync(topics, replicas=replicas)

    def await_in_sync(
        self, topics: Mapping[str, int], *, replicas: int, preferred: bool = False
    ) -> None:
        """Wait until every bootstrap server sees every partition with all its replicas in sync, and
        led by its preferred leader where that is asked for."""

        async def in_sync(channels: Mapping[Address, Channel]) -> str | None:
            for topic, partitions in topics.items():
                for channel in channels.values():
                    answer = await channel.request(_metadata_request(topic))
                    found = answer.topics[0].partitions
                    ready = sum(
                        each.leader_id >= 0
                        and len(each.isr_nodes) >= replicas
                        and (not preferred or each.leader_id == each.replica_nodes[0])
                        for each in found
                    )
                    if ready < partitions:
                        return f"{channel.peer} sees {ready} of {partitions} as they should be"
            return None

        self._until(f"the replicas of {', '.join(list(topics)[:3])} are not in sync", in_sync)

    def delete(self, topic: str) -> bool:
        """Delete a topic; false when the cluster does not do that."""

        async def delete(channels: Mapping[Address, Channel]) -> bool:
            request = fill(DeleteTopicsRequest, topic_names=[topic], timeout=timedelta(seconds=10))
            try:
                answer = await _any(channels, request)
            except WireError:
                return False
            return all(each.error_code is ErrorCode.none for each in answer.responses)

        return self.run(delete)

    def broker_count(self) -> int:
        """How many brokers the cluster has. Raises MeasureError."""

        async def ask(channels: Mapping[Address, Channel]) -> int:
            answer = await _any(channels, fill(MetadataRequest, topics=()))
            return len(answer.brokers)

        return self.run(ask)

    def leader(self, topic: str, partition: int = 0) -> tuple[int, Address]:
        """The node that leads a partition, and where it serves clients. Raises MeasureError."""

        async def ask(channels: Mapping[Address, Channel]) -> tuple[int, Address]:
            answer = await _any(channels, _metadata_request(topic))
            brokers = {int(b.node_id): (str(b.host), int(b.port)) for b in answer.brokers}
            for each in answer.topics[0].partitions:
                if each.partition_index == partition and int(each.leader_id) in brokers:
                    return int(each.leader_id), brokers[int(each.leader_id)]
            raise MeasureError(f"{self._name}: nobody leads {topic}-{partition}")

        return self.run(ask)

    def run(self, work: Callable[[Mapping[Address, Channel]], Coroutine[Any, Any, T]]) -> T:
        """Do something with a channel to each bootstrap server. Raises MeasureError."""

        async def working() -> T:
            channels = {
                address: Channel(
                    *address, client_id="highwater-bench", request_timeout_s=REQUEST_TIMEOUT_S
                )
                for address in self._bootstrap
            }
            try:
                return await work(channels)
            except WireError as error:
                raise MeasureError(f"{self._name}: {error}") from error
            finally:
                for channel in channels.values():
                    channel.close()

        return asyncio.run(working())

    def _until(
        self, what: str, attempt: Callable[[Mapping[Address, Channel]], Awaitable[str | None]]
    ) -> None:
        """Repeat `attempt` until it has nothing to object. Raises MeasureError, Stopped."""

        async def waiting(channels: Mapping[Address, Channel]) -> None:
            end_s = time.monotonic() + CREATED_S
            heard_s = time.monotonic()
            while True:
                try:
                    objection = await attempt(channels)
                    heard_s = time.monotonic()
                except WireError as error:
                    objection = str(error)
                    if time.monotonic() - heard_s > UNREACHABLE_S:
                        raise MeasureError(f"{self._name}: {what}: {objection}") from error
                if objection is None:
                    return
                if self._stopped():
                    raise Stopped
                if time.monotonic() > end_s:
                    raise MeasureError(f"{self._name}: {what} after {CREATED_S:.0f} s: {objection}")
                await asyncio.sleep(RETRY_S)

        self.run(waiting)


async def _any(channels: Mapping[Address, Channel], request: Any) -> Any:
    """The answer of the first server that gives one. Raises the last server's WireError."""
    *others, last = channels.values()
    for channel in others:
        try:
            return await channel.request(request)
        except WireError:
            continue
    return await last.request(request)


def _create_request(topic: str, partitions: int, replicas: int) -> Any:
    configs = {
        # One replica may be missing, as in any cluster that is run with care.
        "min.insync.replicas": str(max(1, replicas - 1)),
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
    }
    return fill(
        CreateTopicsRequest,
        topics=[
            {
                "name": topic,
                "num_partitions": partitions,
                "replication_factor": replicas,
                "configs": [{"name": n, "value": v} for n, v in configs.items()],
            }
        ],
        timeout=timedelta(seconds=REQUEST_TIMEOUT_S),
    )


def _metadata_request(topic: str) -> Any:
    return fill(MetadataRequest, topics=[{"name": topic}])
