"""Watches the cluster during a run: leaders, ISRs, end offsets, and the active controller.

It asks every node for its own view every `poll_s` and records what changed. It asks each leader for
its end offsets every WATERMARK_S, as any client may, and records them as `watermark` operations. It
is also the nemesis's ClusterView: the best knowledge at the moment, which may lag behind the truth.

It runs on any event loop of the clients' machine, and takes the time from its recorder. Any task
may read what it knows. The checkers judge whether what it saw was right.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.metadata.v12.request import MetadataRequest

from harness.recording.history import FLUSH_INTERVAL_S, OperationWriter
from harness.systems.monitoring.cluster_view import (
    ClusterTracker,
    NodeStatus,
    PartitionView,
    caught_up_voters,
    views_of,
)
from harness.systems.monitoring.ensemble_protocol import EnsembleWatch
from harness.systems.monitoring.final_epochs import FinalEpochs
from harness.systems.monitoring.queries import (
    FRESH_S,
    CoordinatorOf,
    EligibleReplicas,
    LogEnds,
    OnDemandQueries,
    OngoingReassignments,
)
from harness.systems.monitoring.quorum_times import QuorumTimes
from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity
from nodes.wire.versions import fill

POLL_S: Final = 0.1
"""How often every node is asked. The view that the nemesis gets is as old as this and an answer."""
WATERMARK_S: Final = 1.0
REQUEST_TIMEOUT_S: Final = 1.0
SETTLE_POLL_S: Final = 0.1

LATEST: Final = -1
NO_REPLICA: Final = -1
DEBUGGING_REPLICA: Final = -2
"""With this replica id a broker answers with the log end offset, which clients do not get."""
METADATA_TOPIC: Final = "__cluster_metadata"

Address = tuple[str, int]


class Rows(Protocol):
    """Takes rows by column names."""

    def append_named(self, **columns: Any) -> None: ...
    def flush(self) -> object: ...


def _no_callback() -> None:
    """Do nothing."""


class Watcher:
    """One run's watcher.

    `brokers` and `controllers` are the nodes' addresses for clients and for the metadata quorum.
    `partitions` is the number of partitions per topic. `writer` and `client` record the watermarks,
    and `cluster` (schema CLUSTER) everything else.
    """

    def __init__(
        self,
        *,
        brokers: Mapping[int, Address],
        controllers: Mapping[int, Address],
        partitions: Mapping[str, int],
        writer: OperationWriter,
        client: int,
        cluster: Rows,
        poll_s: float = POLL_S,
        security: ClientSecurity = PLAINTEXT_CLIENT,
        ensemble: EnsembleWatch | None = None,
    ) -> None:
        self._brokers = dict(brokers)
        self._controllers = dict(controllers)
        self._tracker = ClusterTracker(
            brokers,
            [TopicPartition(topic, p) for topic, count in partitions.items() for p in range(count)],
        )
        self._topics = [{"name": topic} for topic in sorted(partitions)]
        self._writer = writer
        self._client = client
        self._cluster = cluster
        self._poll_s = poll_s
        self._security = security
        self._ensemble = ensemble
        self._quorum: tuple[int, int] = (-1, -1)  # epoch, leader
        self._voters: tuple[int, tuple[int, ...]] = (0, ())  # the time of the answer, voters
        self._quorum_recorded: dict[int, tuple[tuple[int, int], tuple[int, ...]]] = {}
        self.quorum_times = QuorumTimes()
        """The lengths of the metadata log over time; for the system, after the watching."""
        self._channels: dict[int, Channel] = {}
        self._status = NodeStatus()
        self._queries = OnDemandQueries(self._channels, self._leader_and_epoch, self._now_s)
        self._views: dict[int, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    # -- brokers that are added and removed

    def add_broker(self, node: int, address: Address) -> None:
        """Watch one more broker."""
        self._in_loop(self._add, node, address)

    def remove_broker(self, node: int) -> None:
        """Watch this broker no longer: it is removed for good."""
        self._in_loop(self._remove, node)

    def watch_topics(self, partitions: Mapping[str, int]) -> None:
        """Watch these topics from now on, and no others."""
        self._in_loop(self._watch_topics, dict(partitions))

    def _watch_topics(self, partitions: Mapping[str, int]) -> None:
        self._topics = [{"name": topic} for topic in sorted(partitions)]
        self._tracker.watch(
            TopicPartition(topic, p) for topic, count in partitions.items() for p in range(count)
        )

    def stop_waiting_for(self, node: int) -> None:
        """Wait no longer for this node: it will not run again."""
        self._in_loop(self._tracker.stop_waiting_for, node)

    def _in_loop(self, change: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed because the watching is over
                self._loop.call_soon_threadsafe(change, *arguments)

    def _add(self, node: int, address: Address) -> None:
        assert self._tasks is not None
        self._tracker.add_node(node)
        self._channels[node] = self._channel(address)
        poll = self._every(self._poll_s, lambda: self._poll_view(node))
        self._views[node] = self._tasks.create_task(poll)

    def _remove(self, node: int) -> None:
        self._tracker.remove_node(node)
        self._status.remove(node)
        self._views.pop(node).cancel()
        self._channels.pop(node).close()

    # -- what the nemesis asks

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader, if it is known."""
        view = self._tracker.newest.get(TopicPartition(topic, partition))
        return None if view is None else view.leader

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's in-sync replicas, if they are known."""
        view = self._tracker.newest.get(TopicPartition(topic, partition))
        return None if view is None else view.isr

    def controller(self) -> int | None:
        """Return the leader of the metadata quorum in the highest epoch seen, or the broker that
        ZooKeeper names."""
        if self._ensemble is not None:
            return self._ensemble.controller()
        leader = self._quorum[1]
        return leader if leader >= 0 else None

    def partitions(self) -> Sequence[tuple[str, int]]:
        """Return all partitions of the run."""
        return self._tracker.partitions

    def replicas(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's replicas, if they are known."""
        view = self._tracker.newest.get(TopicPartition(topic, partition))
        return None if view is None else view.replicas

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's eligible leader replicas. The first call only starts the query."""
        found: Sequence[int] | None = self._queries.answer(
            EligibleReplicas(TopicPartition(topic, partition))
        )
        return found

    def ends(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the partition's high watermark and log end offset. The first call only starts the
        query."""
        found: tuple[int, int] | None = self._queries.answer(
            LogEnds(TopicPartition(topic, partition))
        )
        return found

    def reassigning(self) -> bool | None:
        """Return whether replicas are being moved. The first call only starts the query."""
        found: bool | None = self._queries.answer(OngoingReassignments())
        return found

    def coordinator(self, kind: str, key: str) -> int | None:
        """Return the coordinator of a group (kind `group`) or of a transactional id
        (`transaction`). The first call only starts the query.
        """
        found: int | None = self._queries.answer(CoordinatorOf(kind, key))
        return found if found in self._tracker.nodes else None

    def brokers(self) -> Sequence[int]:
        """Return the current brokers of the run."""
        return self._tracker.nodes

    def controllers(self) -> Sequence[int]:
        """Return the voters of the metadata quorum."""
        return sorted(self._controllers)

    def zookeepers(self) -> Sequence[int]:
        """Return the nodes with ZooKeeper servers; none beside a metadata quorum."""
        return () if self._ensemble is None else self._ensemble.nodes

    def zookeeper_leader(self) -> int | None:
        """Return the node whose server leads the ensemble, if it is known."""
        return None if self._ensemble is None else self._ensemble.leader()

    def voters(self) -> Sequence[int] | None:
        """Return the voters that have all committed records, by the quorum's leader.

        None when the last answer is too old.
        """
        answered_ns, found = self._voters
        return found if self._writer.now_ns() < answered_ns + round(FRESH_S * 1e9) else None

    def answers(self, node: int) -> bool | None:
        """Return whether the node answered when it was last asked."""
        if self._ensemble is not None and node in self._ensemble.nodes:
            return self._ensemble.answers(node)
        return self._status.answers(node)

    def fenced(self, node: int) -> bool | None:
        """Return whether most answering brokers regard the node as fenced; None for no broker."""
        return self._status.fenced(node) if node in self._tracker.nodes else None

    # -- what the runner asks

    def view(self) -> Mapping[TopicPartition, PartitionView]:
        """Return the newest view of every partition seen so far."""
        return self._tracker.newest

    async def settled(self, timeout_s: float, *, quiet: bool = False) -> list[str]:
        """Wait until the cluster has recovered; return why it has not, empty when it has.

        Recovered means: every node answers, and in every node's view each partition has a leader
        and all replicas in sync. All brokers may be behind the metadata log, so only views count
        that are newer than the commit of everything in that log. With `quiet`, when nobody writes
        any more, every record must be committed too, so that a read up to the high watermark is a
        read of everything.
        """
        since_ns = self._writer.now_ns()
        while True:
            reasons = self._unsettled(since_ns)
            if quiet and not reasons:
                reasons = await self._uncommitted()
            if not reasons or self._now_s() > since_ns / 1e9 + timeout_s:
                return reasons
            await asyncio.sleep(SETTLE_POLL_S)

    def _unsettled(self, since_ns: int) -> list[str]:
        if self._ensemble is not None and (reasons := self._ensemble.unsettled()):
            return reasons
        current_ns = self.quorum_times.current_since(since_ns) if self._controllers else since_ns
        if current_ns is None:
            unknown = "it is not known whether all of the metadata log is committed"
            return [*self._tracker.unsettled(since_ns), unknown]
        return self._tracker.unsettled(current_ns)

    # -- watching

    def stop(self) -> None:
        """Make `watch` return soon. Any task may call it. Safe to call twice."""
        if self._stopping is not None:
            self._in_loop(self._stopping.set)

    async def watch(self, ready: Callable[[], None] = _no_callback) -> None:
        """Watch until `stop`, or until an error. `ready` is called when the watcher can be asked.

        The streams stay open.
        """
        self._writer.start(self._client)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        quorum = {node: self._channel(address) for node, address in self._controllers.items()}
        work: list[Coroutine[Any, Any, None]] = [
            *(
                self._every(self._poll_s, partial(self._poll_quorum, *each))
                for each in quorum.items()
            ),
            self._every(self._poll_s, self._queries.send),
            self._every(WATERMARK_S, self._poll_watermarks),
            self._every(FLUSH_INTERVAL_S, self._flush),
            *(self._every(self._poll_s, each) for each in self._ensemble_work()),
        ]
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                running = [tasks.create_task(each) for each in work]
                for node, address in self._brokers.items():
                    self._add(node, address)
                ready()
                await self._stopping.wait()
                for task in [*running, *self._views.values()]:
                    task.cancel()
        finally:
            for channel in [*self._channels.values(), *quorum.values()]:
                channel.close()
            if self._ensemble is not None:
                await asyncio.to_thread(self._ensemble.close)
            await self._flush()
        self._writer.end(self._client)

    def _ensemble_work(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        if self._ensemble is None:
            return ()
        return self._ensemble.work(
            self.quorum_times, lambda: self._tracker.partitions, self._decided
        )

    def _decided(self, found: Mapping[TopicPartition, PartitionView]) -> None:
        for row in self._tracker.decide(found, self._writer.now_ns()):
            self._cluster.append_named(**row)

    def _channel(self, address: Address) -> Channel:
        return Channel(
            *address,
            client_id="highwater-monitor",
            request_timeout_s=REQUEST_TIMEOUT_S,
            security=self._security,
        )

    def _now_s(self) -> float:
        return self._writer.now_ns() / 1e9

    def _leader_and_epoch(self, partition: TopicPartition) -> tuple[int, int] | None:
        view = self._tracker.newest.get(partition)
        return None if view is None or view.leader is None else (view.leader, view.leader_epoch)

    async def _every(
        self, interval_s: float, step: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        while True:
            with suppress(WireError):  # faults make nodes silent; the next round asks again
                await step()
            await asyncio.sleep(interval_s)

    async def _flush(self) -> None:
        self._writer.flush()
        self._cluster.flush()

    async def _poll_view(self, node: int) -> None:
        request = fill(MetadataRequest, topics=self._topics)
        try:
            answer = await self._channels[node].request(request)
        except WireError:
            self._status.did_not_answer(node)
            raise
        self._status.answered(node, {int(broker.node_id) for broker in answer.brokers})
        for row in self._tracker.observe(node, views_of(answer), self._writer.now_ns()):
            self._cluster.append_named(**row)

    async def _poll_quorum(self, node: int, channel: Channel) -> None:
        asked_ns = self._writer.now_ns()
        request = fill(
            DescribeQuorumRequest,
            topics=[{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}],
        )
        dedicated = node not in self._tracker.nodes
        try:
            answer = await channel.request(request)
        except WireError:
            if dedicated:
                self._status.did_not_answer(node)
            raise
        if dedicated:
            self._status.answered(node, None)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code is ErrorCode.none and partition.leader_id >= 0:
                    quorum = (int(partition.leader_epoch), int(partition.leader_id))
                    answered_ns = self._writer.now_ns()
                    self._record_quorum(node, quorum, partition, answered_ns)
                    if quorum >= self._quorum:
                        self._quorum = quorum
                        self._voters = answered_ns, caught_up_voters(partition)
                    self.quorum_times.record_answer(
                        partition, asked_ns=asked_ns, answered_ns=answered_ns
                    )

    def _record_quorum(
        self, node: int, quorum: tuple[int, int], partition: Any, answered_ns: int
    ) -> None:
        """Record a row when a node's view of the quorum's leader and voters has changed."""
        voters = tuple(sorted(int(each.replica_id) for each in partition.current_voters))
        if self._quorum_recorded.get(node) != (quorum, voters):
            self._quorum_recorded[node] = quorum, voters
            self._cluster.append_named(
                at_ns=answered_ns, kind="quorum", node=node, leader=quorum[1],
                leader_epoch=quorum[0], isr=list(voters), source="describe-quorum",
            )  # fmt: skip

    def _by_leader(self) -> dict[int, list[tuple[TopicPartition, PartitionView]]]:
        leaders: dict[int, list[tuple[TopicPartition, PartitionView]]] = {}
        for partition, view in self._tracker.newest.items():
            if view.leader is not None and view.leader in self._channels:
                leaders.setdefault(view.leader, []).append((partition, view))
        return leaders

    async def _poll_watermarks(self) -> None:
        work = [self._ask_watermarks(node, led) for node, led in self._by_leader().items()]
        for outcome in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, WireError):
                raise outcome

    async def _ask_watermarks(
        self, node: int, led: Sequence[tuple[TopicPartition, PartitionView]]
    ) -> None:
        """Send one ListOffsets to one leader: one operation, with a row per partition answered."""
        request = _latest_request(led, NO_REPLICA)
        invoke_ns = self._writer.now_ns()
        answer = await self._channels[node].request(request)
        complete_ns = self._writer.now_ns()
        op = None
        for topic in answer.topics:
            for found in topic.partitions:
                if found.error_code is not ErrorCode.none:
                    continue
                if op is None:
                    op = self._writer.next_op()
                self._writer.record(
                    op, self._client, "watermark", "ok", invoke_ns, complete_ns, str(topic.name),
                    int(found.partition_index), None, int(found.offset),
                    int(found.leader_epoch), node=node,
                )  # fmt: skip

    async def _uncommitted(self) -> list[str]:
        """Return the partitions with records beyond the high watermark, or without an answer."""
        reasons = []
        for node, led in self._by_leader().items():
            try:
                # The order matters: if they are equal while nobody writes, all is committed.
                committed = await self._ends(node, _latest_request(led, NO_REPLICA))
                ends = await self._ends(node, _latest_request(led, DEBUGGING_REPLICA))
            except WireError as error:
                reasons.append(f"node {node}: {error}")
                continue
            for partition, _ in led:
                known, end = committed.get(partition), ends.get(partition)
                if known is None or known != end:
                    reasons.append(f"{partition} is committed up to {known}, its log ends at {end}")
        return reasons

    async def _ends(self, node: int, request: Any) -> dict[TopicPartition, int]:
        answer = await self._channels[node].request(request)
        return {
            TopicPartition(str(topic.name), int(found.partition_index)): int(found.offset)
            for topic in answer.topics
            for found in topic.partitions
            if found.error_code is ErrorCode.none
        }

    async def record_final_epochs(self) -> list[str]:
        """Record the final leader epochs of every partition; return what could not be learnt."""
        asking = FinalEpochs(self.view, self._channels, self._cluster, self._writer.now_ns)
        return await asking.record(self._tracker.partitions)


def _latest_request(led: Sequence[tuple[TopicPartition, PartitionView]], replica_id: int) -> Any:
    """Make a request for end offsets: the high watermark for a client, else the log end offset."""
    topics: dict[str, list[dict[str, int]]] = {}
    for partition, view in led:
        topics.setdefault(partition.topic, []).append(
            {
                "partition_index": partition.partition,
                # A replaced leader refuses this epoch instead of answering with old offsets.
                "current_leader_epoch": view.leader_epoch,
                "timestamp": LATEST,
            }
        )
    return fill(
        ListOffsetsRequest,
        replica_id=replica_id,
        topics=[{"name": topic, "partitions": asked} for topic, asked in topics.items()],
    )
