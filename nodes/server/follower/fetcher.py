"""Follows leaders: one connection and one task for each leader broker, all its partitions at once.

A fetch at offset x says: I have everything below x. The answer is appended byte for byte, or tells
where the logs diverge, and then the local log is cut there. What is said and what is left out is
decided by `following`. News (a partition to follow, a new leader epoch, a pause that is over) is
sent at once, while the request before it still waits at the leader, which then ends that wait.
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
from nodes.server.follower.fetch_session import Followed, Following, Plan, backoff_ms
from nodes.server.replicas.isr import Registration
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.replicas.throttling import AS_FOLLOWER, Throttle
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError, ConnectFailed
from nodes.wire.versions import Draft

log = logging.getLogger("nodes.fetcher")

MAX_IN_FLIGHT = 2


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
        self._throttle = Throttle(AS_FOLLOWER)
        self._leader_of: dict[TopicPartition, NodeId] = {}
        self._stopped = False

    def follow(self, changes: Mapping[TopicPartition, NodeId | None]) -> None:
        """Fetch these partitions from these leaders from now on, or (None) no more."""
        if self._stopped:
            return
        touched: dict[NodeId, None] = {}
        for partition, leader in changes.items():
            before = self._leader_of.pop(partition, None)
            if before is not None and before != leader:
                self._fetchers[before].following.drop(partition)
                touched[before] = None
            replica = self._replicas.find(partition)
            if leader is not None and replica is not None:
                self._leader_of[partition] = leader
                self._fetcher(leader).following.follow(
                    partition, replica.topic_id, replica.state.leader_epoch
                )
                touched[leader] = None
        for leader in touched:
            if len(self._fetchers[leader].following):
                self._fetchers[leader].news()
            else:
                self._fetchers.pop(leader).stop()

    def _fetcher(self, leader: NodeId) -> "Fetcher":
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = Fetcher(
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
        """End every fetcher; for good."""
        self._stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()


class _InFlight(NamedTuple):
    plan: Plan
    answer: "asyncio.Future[Any]"


class Fetcher:
    """Fetches from one leader what `following` says, until stopped."""

    def __init__(
        self,
        config: NodeConfig,
        leader: NodeId,
        replicas: ReplicaManager,
        registration: Registration,
        connect: Callable[[str, int], Channel],
        throttle: Throttle,
    ) -> None:
        self.following = Following(config.replication.fetch_backoff_ms)
        self._config = config
        self._leader = leader
        self._replicas = replicas
        self._registration = registration
        self._connect = connect
        self._throttle = throttle
        self._failures = 0
        self._channel: Channel | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin fetching."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def news(self) -> None:
        """`following` was told something."""
        self._event.set()

    def stop(self) -> None:
        """Give up what is under way and end."""
        if self._task is not None:
            self._task.cancel()
        self._disconnect()

    # -- the loop ------------------------------------------------------------------------------

    async def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                self._event.clear()
                try:
                    await self._send()
                    await self._wait()
                    while self._in_flight and self._in_flight[0].answer.done():
                        plan, answer = self._in_flight.popleft()
                        self._take(plan, answer.result())
                except ChannelError as error:
                    log.info("fetching from node %d: %s", self._leader, error)
                    await self._begin_anew()
                except Exception:  # a failed disk, which stops the node; or a bug, to be seen
                    log.exception("fetching from node %d", self._leader)
                    await self._begin_anew()

    async def _begin_anew(self) -> None:
        self._disconnect()
        self.following.lost_session()
        most_ms = self._config.replication.fetch_backoff_ms
        await asyncio.sleep(backoff_ms(self._failures, most_ms) / 1000)
        self._failures += 1

    async def _send(self) -> None:
        """Send a request if none is under way, or if there is news for the leader."""
        following = self.following
        now_ms = self._now_ms()
        # Asked in any case: what was left out and is due again is news, and is waited for no more.
        while following.has_news(now_ms) or not self._in_flight:
            may_overtake = following.in_session and len(self._in_flight) < MAX_IN_FLIGHT
            if self._in_flight and not may_overtake:
                return
            plan = following.next_request(now_ms)
            if plan is None:
                return
            await self._flush(plan)
            channel = self._channel
            if channel is None:
                channel = self._channel = self._connect(*self._address())
            answer = channel.begin(self._request(plan), timeout_s=self._timeout_s)
            answer.add_done_callback(self._answered)
            self._in_flight.append(_InFlight(plan, answer))

    async def _flush(self, plan: Plan) -> None:
        """Let every log that is named claim its end (flush.messages). Where it claims less, as one
        does that led until now, the leader would send what is there already, and a log that departs
        from the leader's beyond its claim would not be told to be cut.
        """
        unflushed = [
            replica
            for followed in plan.named
            if (replica := self._replicas.find(followed.partition)) is not None
            and replica.claimed_end != replica.log.end_offset
        ]
        if unflushed:
            await asyncio.gather(*(replica.flush_before_claim() for replica in unflushed))

    def _answered(self, _: "asyncio.Future[Any]") -> None:
        self._event.set()

    async def _wait(self) -> None:
        """Until an answer or news came, or a partition that was left out is due again."""
        loop = asyncio.get_running_loop()
        resumes_ms = self.following.resumes_ms
        if resumes_ms == float("inf"):
            await self._event.wait()
            return
        # A millisecond later: a timer may fire a rounding error before its time.
        timer = loop.call_at((resumes_ms + 1) / 1000, self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()

    @staticmethod
    def _now_ms() -> float:
        return asyncio.get_running_loop().time() * 1000

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
            answer.remove_done_callback(self._answered)
            answer.cancel()
        self._in_flight.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    # -- requests ------------------------------------------------------------------------------

    def _request(self, plan: Plan) -> Draft:
        config = self._config
        topics: dict[Any, list[dict[str, Any]]] = {}
        for followed in plan.named:
            replica = self._replicas.find(followed.partition)
            if replica is None or not _follows(replica, followed):
                continue  # dropped just now: the plan that forgets it follows
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
        for topic_id, number in plan.forgotten:
            forgotten.setdefault(topic_id, []).append(number)
        wait_ms = config.replication.fetch_wait_max_ms if plan.may_wait else 0
        values = {
            "cluster_id": config.cluster_id,
            "replica_state": {
                "replica_id": config.node_id,
                "replica_epoch": self._registration.broker_epoch,
            },
            "max_wait": timedelta(milliseconds=wait_ms),
            "min_bytes": 1,
            "max_bytes": config.replication.fetch_response_max_bytes,
            "session_id": plan.session_id,
            "session_epoch": plan.session_epoch,
            "topics": [{"topic_id": key, "partitions": rows} for key, rows in topics.items()],
            "forgotten_topics_data": [
                {"topic_id": key, "partitions": numbers} for key, numbers in forgotten.items()
            ],
        }
        return Draft(FetchRequest, values)

    # -- answers -------------------------------------------------------------------------------

    def _take(self, plan: Plan, response: Any) -> None:
        error = response.error_code
        self._failures = 0
        if not self.following.answered(plan.number, response.session_id, error):
            log.info("node %d answered a fetch with %s", self._leader, error.name)
            return
        truncated = False
        for topic in response.responses:
            name = self._replicas.topic_name(topic.topic_id)
            if name is None:
                continue
            for answer in topic.partitions:
                partition = TopicPartition(name, answer.partition_index)
                followed = self.following.accept(plan.number, partition)
                replica = self._replicas.find(partition)
                if followed is None or replica is None or not _follows(replica, followed):
                    continue
                truncated = self._take_part(replica, followed, answer) or truncated
        if truncated:
            self._replicas.truncated()

    def _take_part(self, replica: Replica, followed: Followed, answer: Any) -> bool:
        """Act on one partition's answer; true when the log was truncated."""
        try:
            if answer.error_code is not ErrorCode.none:
                return self._refused(replica, followed, answer)
            told = answer.diverging_epoch
            if told.end_offset >= 0 or told.epoch >= 0:
                replica.truncate(EpochEnd(told.epoch, told.end_offset))
                self.following.moved(followed)
                return True
            replica.append_fetched(answer.records or b"", Offset(answer.high_watermark))
            trimmed = replica.follow_log_start(Offset(answer.log_start_offset))
            followed.failures = 0
        except (LogError, OSError):
            log.exception("%s: cannot follow", replica.partition)
            self.following.failed(followed, self._now_ms())
            return False
        if answer.records or trimmed:
            self._go_on(replica, followed, len(answer.records or b""))
        return False

    def _go_on(self, replica: Replica, followed: Followed, fetched: int) -> None:
        """Ask for what follows: with the next request, or when the throttle allows it."""
        now_ms, image, local = self._now_ms(), self._replicas.image, self._config.node_id
        self._throttle.used(replica, fetched, image, now_ms)
        self.following.moved(followed)
        if self._throttle.holds_back(replica, local, image, now_ms):
            self.following.pause(followed, self._throttle.ready_ms(now_ms))

    def _refused(self, replica: Replica, followed: Followed, answer: Any) -> bool:
        """Nothing was fetched. A log that the leader's has moved past begins anew (KAFKA-3410)."""
        start, end = Offset(answer.log_start_offset), replica.log.end_offset
        empty = replica.log.start_offset == end
        if answer.error_code is ErrorCode.offset_out_of_range and (start > end or empty):
            replica.restart_at(start)
            self.following.moved(followed)
            return True
        self.following.failed(followed, self._now_ms())
        return False


def _follows(replica: Replica, followed: Followed) -> bool:
    """Whether the replica is still where it was when it was last told to follow."""
    state = replica.state
    return state.role is Role.FOLLOWER and state.leader_epoch == followed.leader_epoch
