"""Follows leaders: one connection and one task for each leader broker, all its partitions at once.

A fetch at offset x says: I have everything below x. The answer is appended byte for byte, or tells
where the logs diverge, and then the local log is cut there. When the set of partitions changes, the
fetch under way is given up and made anew at once: pulling twice does no harm, waiting out a long
poll would delay the first acknowledgements of a new leader.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchRequest

from nodes.config import NodeConfig
from nodes.ids import NodeId, Offset, TopicPartition
from nodes.log.divergence import EpochEnd
from nodes.log.errors import LogError
from nodes.replication.partition import Role
from nodes.server.isr import Registration
from nodes.server.replica import Replica
from nodes.server.replicas import ReplicaManager
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

log = logging.getLogger("nodes.fetcher")

BACKOFF_MS = 50


class FetcherPool:
    """Keeps one Fetcher for each leader that some local replica follows."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaManager,
        registration: Registration,
        connect: Callable[[str, int], Channel],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._registration = registration
        self._connect = connect
        self._fetchers: dict[NodeId, Fetcher] = {}
        self._leader_of: dict[TopicPartition, NodeId] = {}
        self._addresses: dict[NodeId, tuple[str, int]] = {}

    def follow(self, changes: Mapping[TopicPartition, NodeId | None]) -> None:
        """Fetch these partitions from these leaders from now on, or (None) no more."""
        for partition, follows in changes.items():
            if follows is None:
                self._leader_of.pop(partition, None)
            else:
                self._leader_of[partition] = follows
        wanted: dict[NodeId, tuple[TopicPartition, ...]] = {}
        for partition, leader in self._leader_of.items():
            wanted[leader] = (*wanted.get(leader, ()), partition)
        for leader in [leader for leader in self._fetchers if leader not in wanted]:
            self._fetchers.pop(leader).stop()
        for leader, partitions in wanted.items():
            self._fetch_from(leader, partitions)

    def _fetch_from(self, leader: NodeId, partitions: tuple[TopicPartition, ...]) -> None:
        address = self._address(leader)
        running = self._fetchers.get(leader)
        epochs = tuple(self._epoch(partition) for partition in partitions)
        if running is not None and running.same_work(address, partitions, epochs):
            return
        if running is not None:
            running.stop()
            del self._fetchers[leader]
        if address is None:
            return  # its registration will come through the metadata log, and then we are called
        fetcher = Fetcher(
            self._config,
            self._replicas,
            self._registration,
            self._connect(*address),
            address,
            partitions,
            epochs,
        )
        self._fetchers[leader] = fetcher
        fetcher.start()

    def _epoch(self, partition: TopicPartition) -> int:
        replica = self._replicas.find(partition)
        return -1 if replica is None else replica.state.leader_epoch

    def _address(self, leader: NodeId) -> tuple[str, int] | None:
        broker = self._replicas.image.brokers.get(leader)
        endpoint = broker and broker.endpoint(self._config.broker_listeners[0].listener)
        return (endpoint.host, endpoint.port) if endpoint else None

    def stop(self) -> None:
        """End every fetcher."""
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()


class Fetcher:
    """Fetches `partitions` from one leader until stopped."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaManager,
        registration: Registration,
        channel: Channel,
        address: tuple[str, int],
        partitions: tuple[TopicPartition, ...],
        epochs: tuple[int, ...],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._registration = registration
        self._channel = channel
        self._address = address
        self._partitions = partitions
        self._epochs = epochs
        self._task: asyncio.Task[None] | None = None

    def same_work(
        self,
        address: tuple[str, int] | None,
        partitions: tuple[TopicPartition, ...],
        epochs: tuple[int, ...],
    ) -> bool:
        """Whether this fetcher does just that already."""
        return (address, partitions, epochs) == (self._address, self._partitions, self._epochs)

    def start(self) -> None:
        """Begin fetching."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Give up the fetch under way and end."""
        if self._task is not None:
            self._task.cancel()
        self._channel.close()

    async def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                try:
                    progressed = await self._fetch_once()
                except ChannelError as error:
                    log.info("fetching from %s: %s", self._channel.peer, error)
                    progressed = False
                if not progressed:
                    await asyncio.sleep(BACKOFF_MS / 1000)

    async def _fetch_once(self) -> bool:
        """One round; false when it should be repeated only after a pause."""
        request = self._request()
        if request is None:
            return False
        response = await self._channel.request(
            request,
            timeout_s=(
                self._config.replica_socket_timeout_ms + self._config.replica_fetch_wait_max_ms
            )
            / 1000,
        )
        if response.error_code is not ErrorCode.none:
            log.info("%s refused a fetch: %s", self._channel.peer, response.error_code.name)
            return False
        healthy = True
        unflushed = []
        for topic in response.responses:
            name = self._replicas.topic_name(topic.topic_id)
            for answer in topic.partitions:
                if name is not None:
                    partition = TopicPartition(name, answer.partition_index)
                    healthy = self._take(partition, answer) and healthy
                    replica = self._replicas.find(partition)
                    if replica is not None and replica.claimed_end != replica.log.end_offset:
                        unflushed.append(replica)
        if unflushed:  # the next fetch claims their ends (flush.messages)
            await asyncio.gather(*(replica.flush_before_claim() for replica in unflushed))
        return healthy

    def _request(self) -> Any | None:
        topics: dict[Any, list[dict[str, Any]]] = {}
        for partition in self._partitions:
            replica = self._replicas.find(partition)
            if replica is None or replica.state.role is not Role.FOLLOWER:
                continue
            row = {
                "partition": partition.partition,
                "current_leader_epoch": replica.state.leader_epoch,
                "fetch_offset": replica.log.end_offset,
                "last_fetched_epoch": replica.log.last_epoch,
                "log_start_offset": replica.log.start_offset,
                "partition_max_bytes": self._config.replica_fetch_max_bytes,
            }
            topics.setdefault(replica.topic_id, []).append(row)
        if not topics:
            return None
        return fill(
            FetchRequest,
            cluster_id=self._config.cluster_id,
            replica_state={
                "replica_id": self._config.node_id,
                "replica_epoch": self._registration.broker_epoch,
            },
            max_wait=timedelta(milliseconds=self._config.replica_fetch_wait_max_ms),
            min_bytes=1,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            topics=[{"topic_id": key, "partitions": rows} for key, rows in topics.items()],
        )

    def _take(self, partition: TopicPartition, answer: Any) -> bool:
        """Act on one partition's answer; false when it brought an error."""
        replica = self._replicas.find(partition)
        if replica is None or not self._still_follows(partition, replica):
            return True
        if answer.error_code is not ErrorCode.none:
            return self._refused(replica, answer)
        try:
            if answer.diverging_epoch.end_offset >= 0 or answer.diverging_epoch.epoch >= 0:
                told = answer.diverging_epoch
                replica.truncate(EpochEnd(told.epoch, told.end_offset))
                self._replicas.checkpoint(durable=True)
            else:
                replica.append_fetched(answer.records or b"", Offset(answer.high_watermark))
        except (LogError, OSError):
            log.exception("%s: cannot follow", partition)
            return False
        return True

    def _still_follows(self, partition: TopicPartition, replica: Replica) -> bool:
        """Whether the answer belongs to the leader epoch that the replica is in now."""
        asked = self._epochs[self._partitions.index(partition)]
        return replica.state.role is Role.FOLLOWER and replica.state.leader_epoch == asked

    def _refused(self, replica: Replica, answer: Any) -> bool:
        start = Offset(answer.log_start_offset)
        if answer.error_code is ErrorCode.offset_out_of_range and start > replica.log.end_offset:
            log.info("%s: restarting at the leader's log start %d", replica.partition, start)
            replica.log.truncate_fully(start)
            replica.state.truncated(start)
            self._replicas.checkpoint(durable=True)
        return False
