"""Asks brokers for their logs and has leaders elected by them (KIP-966, unclean recovery).

One for each controller node. While its node is the active controller, it looks after the partitions
that have no leader: whenever the metadata changed, and for as long as some could have one but for
an answer, at growing intervals. What to ask, and what an answer is worth:
`nodes.controller.recovery`.

A round asks all brokers concerned at once, each for at most MAX_PARTITIONS partitions at a time,
and ends when all have answered or failed: a broker that does not answer within TIMEOUT_S is asked
nothing more in this round. Nothing is kept from one round to the next.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.controller.partition_changes import Election, LogEnd
from nodes.controller.recovery import Inquiry, Report, inquiries, recover
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

TopicPart = tuple[UUID, int]


class UncleanRecoveryManager:
    """See the module. `connect` makes a channel to a broker's `listener`, by host and port."""

    def __init__(
        self, shell: QuorumController, connect: Callable[[str, int], Channel], listener: str
    ) -> None:
        self._shell = shell
        self._connect = connect
        self._listener = listener
        self._channels: dict[NodeId, Channel] = {}
        self._settled: ClusterImage | None = None
        self._lines = LogRateLimit(LOG_BURST, LOG_PER_S)

    async def run(self) -> None:
        """Look after the leaderless partitions for ever."""
        while True:
            await self._shell.news.wait()
            pause_ms, settled = FIRST_PAUSE_MS, False
            while not settled:
                self._shell.news.clear()
                await asyncio.sleep(pause_ms / 1000)
                settled = await self._round()
                pause_ms = min(2 * pause_ms, LAST_PAUSE_MS)

    def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            channel.close()

    async def _round(self) -> bool:
        """Ask, and have elected whom the answers allow; whether nothing is left to be asked."""
        controller = self._shell.controller
        image = controller.image
        if not controller.active or image is self._settled:
            return True
        asked = self.inquiries(controller.leaderless)
        if not asked:
            self._settled = image
            return True
        reports = await self.ask(asked)
        try:
            elected = await self._shell.decide(
                lambda: recover(controller.situation, asked, reports)
            )
        except ControlError:  # no longer the controller
            return True
        if elected:
            log.info("%d leaderless partitions are led by who has the longest log", elected)
        return elected == len(asked)

    def inquiries(
        self, partitions: Iterable[PartitionKey], election: Election | None = None
    ) -> list[Inquiry]:
        """What to ask for leaders of `partitions`, as their topics allow or as is said."""
        situation = self._shell.controller.situation
        return inquiries(situation.image, situation.policy, partitions, election)

    async def ask(self, asked: Sequence[Inquiry]) -> list[Report]:
        """What the brokers answer, each once; those that do not answer in time are left out."""
        wanted: dict[NodeId, list[TopicPart]] = {}
        for inquiry in asked:
            for node in inquiry.candidates:
                part = (inquiry.key.topic_id, inquiry.key.partition)
                wanted.setdefault(node, []).append(part)
        answers = await asyncio.gather(*(self._ask(*each) for each in wanted.items()))
        return [report for reports in answers for report in reports]

    async def _ask(self, node: NodeId, parts: Sequence[TopicPart]) -> list[Report]:
        channel = self._channel(node)
        reports: list[Report] = []
        if channel is None:
            self._say(
                "broker %d cannot be asked where its logs end: it has no listener %s; set "
                "inter.broker.listener.name on the controllers too",
                node,
                self._listener,
            )
            return reports
        for start in range(0, len(parts), MAX_PARTITIONS):
            request = _request(parts[start : start + MAX_PARTITIONS])
            try:
                response = await channel.request(request, timeout_s=TIMEOUT_S)
            except ChannelError as error:
                self._say("broker %d did not say where its logs end: %s", node, error)
                break
            reports += _reports(node, response)
        return reports

    def _say(self, what: str, *details: object) -> None:
        now_s = asyncio.get_running_loop().time()
        self._lines.write(now_s, log.warning, what, *details)

    def _channel(self, node: NodeId) -> Channel | None:
        broker = self._shell.controller.image.brokers.get(node)
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


def _request(parts: Sequence[TopicPart]) -> GetReplicaLogInfoRequest:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in parts:
        topics.setdefault(topic_id, []).append(number)
    rows = [{"topic_id": each, "partitions": numbers} for each, numbers in topics.items()]
    return fill(GetReplicaLogInfoRequest, topic_partitions=rows)


def _reports(node: NodeId, response: Any) -> Iterator[Report]:
    for topic in response.topic_partition_log_info_list:
        for row in topic.partition_log_info:
            if row.error_code is ErrorCode.none:
                end = LogEnd(Epoch(row.last_written_leader_epoch), Offset(row.log_end_offset))
                yield Report(
                    node=node,
                    broker_epoch=BrokerEpoch(response.broker_epoch),
                    topic_id=topic.topic_id,
                    partition=row.partition,
                    leader_epoch=Epoch(row.current_leader_epoch),
                    end=end,
                )
