"""Fetches from leaders: one connection and one task for each leader broker, for all its partitions.

A fetch at offset x means that this replica has everything below x. The records of the response are
appended byte for byte. If the response says that the logs diverge, the local log is truncated
there. `fetch_session` decides which partitions a request sends. A change (a new partition, a new
leader epoch, a pause that is over) is sent at once, even while the request before it still waits at
the leader; the leader then ends that wait.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchRequest

from nodes.config import NodeConfig
from nodes.ids import NodeId, Offset, TopicPartition
from nodes.log.divergence import EpochEnd
from nodes.log.errors import LogError
from nodes.replication.partition import Role
from nodes.server.control_plane import Registration
from nodes.server.follower.fetch_session import (
    FetchRequestData,
    FetchSessionHandler,
    FollowedPartition,
    backoff_ms,
)
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.replicas.throttling import AS_FOLLOWER, ReplicationThrottle
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError, ConnectFailed
from nodes.wire.prompt import when_completed
from nodes.wire.versions import Draft

log = logging.getLogger("nodes.fetcher")

MAX_IN_FLIGHT = 2


class ReplicaFetcherManager:
    """Keeps one ReplicaFetcher for each leader that a local replica follows."""

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
        self._fetchers: dict[NodeId, ReplicaFetcher] = {}
        self._throttle = ReplicationThrottle(AS_FOLLOWER)
        self._leader_of: dict[TopicPartition, NodeId] = {}
        self._stopped = False

    def update_leaders(self, changes: Mapping[TopicPartition, NodeId | None]) -> None:
        """Fetch these partitions from these leaders from now on; None: do not fetch any more."""
        if self._stopped:
            return
        touched: dict[NodeId, None] = {}
        for partition, leader in changes.items():
            before = self._leader_of.pop(partition, None)
            if before is not None and before != leader:
                self._fetchers[before].session.remove(partition)
                touched[before] = None
            replica = self._replicas.find(partition)
            if leader is not None and replica is not None:
                self._leader_of[partition] = leader
                self._fetcher(leader).session.add(
                    partition, replica.topic_id, replica.state.leader_epoch
                )
                touched[leader] = None
        for leader in touched:
            if len(self._fetchers[leader].session):
                self._fetchers[leader].wake()
            else:
                self._fetchers.pop(leader).stop()

    def configs_changed(self) -> None:
        """Fetch what the throttle holds up: it may be higher, or gone. A partition that is still
        throttled waits again after this fetch."""
        for fetcher in self._fetchers.values():
            fetcher.session.resume_all()
            fetcher.wake()

    def _fetcher(self, leader: NodeId) -> "ReplicaFetcher":
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                self._config,
                leader,
                self._replicas,
                self._registration,
                self._connect,
                self._throttle,
            )
            fetcher.start()
        return fetcher

    def stop(self) -> None:
        """Stop every fetcher for good."""
        self._stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()


class _InFlight(NamedTuple):
    data: FetchRequestData
    answer: "asyncio.Future[Any]"


class ReplicaFetcher:
    """Fetches the partitions of `session` from one leader, until stopped."""

    def __init__(
        self,
        config: NodeConfig,
        leader: NodeId,
        replicas: ReplicaManager,
        registration: Registration,
        connect: Callable[[str, int], Channel],
        throttle: ReplicationThrottle,
    ) -> None:
        self.session = FetchSessionHandler(config.replication.fetch_backoff_ms)
        self._config = config
        self._leader = leader
        self._replicas = replicas
        self._registration = registration
        self._connect = connect
        self._throttle = throttle
        self._failures = 0
        self._channel: Channel | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._wake_up = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        """Set by `start`; a lookup of the running loop is a system call."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start fetching."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    def wake(self) -> None:
        """The session changed: look whether to send a request."""
        self._wake_up.set()

    def stop(self) -> None:
        """Drop the requests in flight and end."""
        if self._task is not None:
            self._task.cancel()
        self._disconnect()

    # -- the loop ------------------------------------------------------------------------------

    async def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                self._wake_up.clear()
                try:
                    await self._send()
                    await self._wait()
                    while self._in_flight and self._in_flight[0].answer.done():
                        data, answer = self._in_flight.popleft()
                        self._process_response(data, answer.result())
                except ChannelError as error:
                    log.info("fetching from node %d: %s", self._leader, error)
                    await self._reset_connection()
                except Exception:  # a failed disk, which stops the node, or a bug
                    log.exception("fetching from node %d", self._leader)
                    await self._reset_connection()

    async def _reset_connection(self) -> None:
        self._disconnect()
        self.session.reset_session()
        most_ms = self._config.replication.fetch_backoff_ms
        await asyncio.sleep(backoff_ms(self._failures, most_ms) / 1000)
        self._failures += 1

    async def _send(self) -> None:
        """Send a request if none is in flight, or if there is a change to send."""
        session = self.session
        now_ms = self._now_ms()
        # `has_changes` is called in any case: it resumes partitions whose pause is over.
        while session.has_changes(now_ms) or not self._in_flight:
            may_overtake = session.in_session and len(self._in_flight) < MAX_IN_FLIGHT
            if self._in_flight and not may_overtake:
                return
            data = session.next_request(now_ms)
            if data is None:
                return
            await self._flush(data)
            channel = self._channel
            if channel is None:
                channel = self._channel = self._connect(*self._address())
            answer = channel.begin(self._request(data), timeout_s=self._timeout_s)
            when_completed(answer, self._answered)
            self._in_flight.append(_InFlight(data, answer))

    async def _flush(self, data: FetchRequestData) -> None:
        """Flush the logs of the request until each may claim its end (flush.messages).

        A log that claims less, such as one that led until now, would be sent records that it has
        already; and the leader would not see a divergence above the claimed end.
        """
        unflushed = [
            replica
            for followed in data.to_send
            if (replica := self._replicas.find(followed.partition)) is not None
            and replica.claimed_end != replica.log.end_offset
        ]
        if unflushed:
            await asyncio.gather(*(replica.flush_before_claim() for replica in unflushed))

    def _answered(self, _: "asyncio.Future[Any]") -> None:
        self._wake_up.set()

    async def _wait(self) -> None:
        """Wait for a response, a change of the session, or the end of a pause."""
        next_resume_ms = self.session.next_resume_ms
        if next_resume_ms == float("inf"):
            await self._wake_up.wait()
            return
        # A millisecond later: a timer may fire a rounding error before its time.
        timer = self._loop.call_at((next_resume_ms + 1) / 1000, self._wake_up.set)
        try:
            await self._wake_up.wait()
        finally:
            timer.cancel()

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    @property
    def _timeout_s(self) -> float:
        config = self._config
        return (config.replication.socket_timeout_ms + config.replication.fetch_wait_max_ms) / 1000

    def _address(self) -> tuple[str, int]:
        broker = self._replicas.image.brokers.get(self._leader)
        listener = self._config.inter_broker_listener
        endpoint = None if broker is None else broker.endpoint(listener)
        if endpoint is None:
            raise ConnectFailed(f"the address of node {self._leader} is not known")
        return endpoint.host, endpoint.port

    def _disconnect(self) -> None:
        for _, answer in self._in_flight:
            answer.cancel()
        self._in_flight.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    # -- requests ------------------------------------------------------------------------------

    def _request(self, data: FetchRequestData) -> Draft:
        config = self._config
        topics: dict[Any, list[dict[str, Any]]] = {}
        for followed in data.to_send:
            replica = self._replicas.find(followed.partition)
            if replica is None or not _follows(replica, followed):
                continue  # removed just now: the next request tells the leader to forget it
            row = {
                "partition": followed.partition.partition,
                "current_leader_epoch": followed.leader_epoch,
                "fetch_offset": replica.claimed_end,
                "last_fetched_epoch": replica.log.last_epoch,
                "log_start_offset": replica.log.start_offset,
                "partition_max_bytes": config.replication.fetch_max_bytes,
            }
            topics.setdefault(followed.topic_id, []).append(row)
        forgotten: dict[Any, list[int]] = {}
        for topic_id, number in data.to_forget:
            forgotten.setdefault(topic_id, []).append(number)
        wait_ms = config.replication.fetch_wait_max_ms if data.may_wait else 0
        values = {
            "cluster_id": config.cluster_id,
            "replica_state": {
                "replica_id": config.node_id,
                "replica_epoch": self._registration.broker_epoch,
            },
            "max_wait": timedelta(milliseconds=wait_ms),
            "min_bytes": 1,
            "max_bytes": config.replication.fetch_response_max_bytes,
            "session_id": data.session_id,
            "session_epoch": data.session_epoch,
            "topics": [{"topic_id": key, "partitions": rows} for key, rows in topics.items()],
            "forgotten_topics_data": [
                {"topic_id": key, "partitions": numbers} for key, numbers in forgotten.items()
            ],
        }
        return Draft(FetchRequest, values)

    # -- responses -----------------------------------------------------------------------------

    def _process_response(self, data: FetchRequestData, response: Any) -> None:
        error = response.error_code
        self._failures = 0
        if not self.session.handle_response(data.number, response.session_id, error):
            log.info("node %d responded to a fetch with %s", self._leader, error.name)
            return
        truncated = False
        for topic in response.responses:
            name = self._replicas.topic_name(topic.topic_id)
            if name is None:
                continue
            for answer in topic.partitions:
                partition = TopicPartition(name, answer.partition_index)
                followed = self.session.current(data.number, partition)
                replica = self._replicas.find(partition)
                if followed is None or replica is None or not _follows(replica, followed):
                    continue
                truncated = self._process_partition(replica, followed, answer) or truncated
        if truncated:
            self._replicas.after_truncation()

    def _process_partition(
        self, replica: Replica, followed: FollowedPartition, answer: Any
    ) -> bool:
        """Handle the response for one partition; true if the log was truncated."""
        try:
            if answer.error_code is not ErrorCode.none:
                return self._process_error(replica, followed, answer)
            diverging = answer.diverging_epoch
            if diverging.end_offset >= 0 or diverging.epoch >= 0:
                replica.truncate(EpochEnd(diverging.epoch, diverging.end_offset))
                # What is left below the leader's start cannot be compared: it may be of nobody
                # else, and the next fetch may bring this replica into the ISR.
                replica.follow_log_start(Offset(answer.log_start_offset))
                self.session.position_changed(followed)
                return True
            records = answer.records or b""
            if replica.begin_with(records):
                self._replicas.after_truncation()
            replica.append_fetched(records, Offset(answer.high_watermark))
            trimmed = replica.follow_log_start(Offset(answer.log_start_offset))
            followed.failures = 0
        except (LogError, OSError):
            log.exception("%s: cannot follow", replica.partition)
            self.session.back_off(followed, self._now_ms())
            return False
        if answer.records or trimmed:
            self._fetch_more(replica, followed, len(answer.records or b""))
        return False

    def _fetch_more(self, replica: Replica, followed: FollowedPartition, fetched: int) -> None:
        """Fetch on from the new position: in the next request, or when the throttle allows it."""
        now_ms, image, local = self._now_ms(), self._replicas.image, self._config.node_id
        self._throttle.record(replica, fetched, image, now_ms)
        self.session.position_changed(followed)
        if self._throttle.is_throttled(replica, local, image, now_ms):
            self.session.pause(followed, self._throttle.ready_ms(now_ms))

    def _process_error(self, replica: Replica, followed: FollowedPartition, answer: Any) -> bool:
        """Handle an error; true if the log was truncated.

        A log that ends below the leader's log start is truncated fully (KAFKA-3410).
        """
        start, end = Offset(answer.log_start_offset), replica.log.end_offset
        empty = replica.log.start_offset == end
        if answer.error_code is ErrorCode.offset_out_of_range and (start > end or empty):
            replica.truncate_fully_and_start_at(start)
            self.session.position_changed(followed)
            return True
        self.session.back_off(followed, self._now_ms())
        return False


def _follows(replica: Replica, followed: FollowedPartition) -> bool:
    """Whether the replica still follows in the leader epoch of `followed`."""
    state = replica.state
    return state.role is Role.FOLLOWER and state.leader_epoch == followed.leader_epoch
