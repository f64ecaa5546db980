"""Unclean recovery (KIP-966): asks brokers where their logs end, and elects leaders by the answers.

There is one for each controller node. While its node is the active controller, it tries to find
leaders for the partitions without one: after each change of the metadata, and then at growing
intervals, as long as a missing answer is all that prevents an election. `nodes.controller.recovery`
decides what to ask, and which answers count.

A round asks all these brokers at once, each for at most MAX_PARTITIONS partitions at a time, and
ends when all have answered or failed. A broker that does not answer within TIMEOUT_S is not asked
again in the same round. Nothing is kept from one round to the next.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.controller.partition_changes import Election, LogEnd
from nodes.controller.recovery import LogQuery, ReplicaLogInfo, log_queries, recover
from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, PartitionKey
from nodes.server.controller.controller import QuorumController
from nodes.wire.client import Channel
from nodes.wire.connections import LOG_BURST, LOG_PER_S, LogRateLimit
from nodes.wire.errors import ChannelError
from nodes.wire.replica_log_info import MAX_PARTITIONS, GetReplicaLogInfoRequest
from nodes.wire.versions import fill

TIMEOUT_S: Final = 1.0
FIRST_PAUSE_MS: Final = 50
LAST_PAUSE_MS: Final = 1000

log = logging.getLogger("nodes.recovery")

TopicIdPartition = tuple[UUID, int]


class UncleanRecoveryManager:
    """See the module. `connect` makes a channel to a broker's `listener`, by host and port."""

    def __init__(
        self,
        quorum_controller: QuorumController,
        connect: Callable[[str, int], Channel],
        listener: str,
    ) -> None:
        self._quorum_controller = quorum_controller
        self._connect = connect
        self._listener = listener
        self._channels: dict[NodeId, Channel] = {}
        self._settled: ClusterImage | None = None
        self._lines = LogRateLimit(LOG_BURST, LOG_PER_S)

    async def run(self) -> None:
        """Find leaders for leaderless partitions, for ever."""
        while True:
            await self._quorum_controller.news.wait()
            pause_ms, settled = FIRST_PAUSE_MS, False
            while not settled:
                self._quorum_controller.news.clear()
                await asyncio.sleep(pause_ms / 1000)
                settled = await self._round()
                pause_ms = min(2 * pause_ms, LAST_PAUSE_MS)

    def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            channel.close()

    async def _round(self) -> bool:
        """Ask, and elect the leaders that the answers allow; return whether nothing is left."""
        controller = self._quorum_controller.controller
        image = controller.image
        if not controller.active or image is self._settled:
            return True
        asked = self.log_queries(controller.leaderless)
        if not asked:
            self._settled = image
            return True
        reports = await self.ask(asked)
        try:
            elected = await self._quorum_controller.decide(
                lambda: recover(controller.state, asked, reports)
            )
        except ControlError:  # no longer the controller
            return True
        if elected:
            log.info("%d leaderless partitions got the replica with the longest log", elected)
        return elected == len(asked)

    def log_queries(
        self, partitions: Iterable[PartitionKey], election: Election | None = None
    ) -> list[LogQuery]:
        """The questions whose answers may give `partitions` a leader.

        `election` is the kind of election; without it, the topics' configuration decides.
        """
        state = self._quorum_controller.controller.state
        return log_queries(state.image, state.policy, partitions, election)

    async def ask(self, asked: Sequence[LogQuery]) -> list[ReplicaLogInfo]:
        """Ask each broker once; return the reports of those that answer in time."""
        partitions: dict[NodeId, list[TopicIdPartition]] = {}
        for query in asked:
            for node in query.candidates:
                partition = (query.key.topic_id, query.key.partition)
                partitions.setdefault(node, []).append(partition)
        answers = await asyncio.gather(*(self._ask(*each) for each in partitions.items()))
        return [report for reports in answers for report in reports]

    async def _ask(
        self, node: NodeId, partitions: Sequence[TopicIdPartition]
    ) -> list[ReplicaLogInfo]:
        channel = self._channel(node)
        reports: list[ReplicaLogInfo] = []
        if channel is None:
            self._warn(
                "broker %d cannot be asked where its logs end: it has no listener %s; set "
                "inter.broker.listener.name on the controllers too",
                node,
                self._listener,
            )
            return reports
        for start in range(0, len(partitions), MAX_PARTITIONS):
            request = _request(partitions[start : start + MAX_PARTITIONS])
            try:
                response = await channel.request(request, timeout_s=TIMEOUT_S)
            except ChannelError as error:
                self._warn("broker %d did not report where its logs end: %s", node, error)
                break
            reports += _reports(node, response)
        return reports

    def _warn(self, message: str, *details: object) -> None:
        now_s = asyncio.get_running_loop().time()
        self._lines.write(now_s, log.warning, message, *details)

    def _channel(self, node: NodeId) -> Channel | None:
        broker = self._quorum_controller.controller.image.brokers.get(node)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            return None
        channel = self._channels.get(node)
        if channel is not None and (channel.host, channel.port) != (endpoint.host, endpoint.port):
            channel.close()
            channel = None
        if channel is None:
            channel = self._channels[node] = self._connect(endpoint.host, endpoint.port)
        return channel


def _request(partitions: Sequence[TopicIdPartition]) -> GetReplicaLogInfoRequest:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        topics.setdefault(topic_id, []).append(number)
    rows = [{"topic_id": each, "partitions": numbers} for each, numbers in topics.items()]
    return fill(GetReplicaLogInfoRequest, topic_partitions=rows)


def _reports(node: NodeId, response: Any) -> Iterator[ReplicaLogInfo]:
    for topic in response.topic_partition_log_info_list:
        for row in topic.partition_log_info:
            if row.error_code is ErrorCode.none:
                end = LogEnd(Epoch(row.last_written_leader_epoch), Offset(row.log_end_offset))
                yield ReplicaLogInfo(
                    node=node,
                    broker_epoch=BrokerEpoch(response.broker_epoch),
                    topic_id=topic.topic_id,
                    partition=row.partition,
                    leader_epoch=Epoch(row.current_leader_epoch),
                    end=end,
                )
