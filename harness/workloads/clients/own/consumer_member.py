"""A member of a consumer group by ConsumerGroupHeartbeat (KIP-848)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import GROUP, Coordinator
from harness.workloads.clients.own.group_member import GroupOffsets, GroupSettings, identity
from nodes.ids import TopicPartition


@dataclass(slots=True)
class ConsumerMember:
    """A member by ConsumerGroupHeartbeat (KIP-848): the broker assigns.

    A partition that it must give up is given up at once, and the next heartbeat says so.
    """

    cluster: Cluster
    settings: GroupSettings
    topic_ids: Mapping[UUID, str]
    """The topics that the member reads, by their ids."""
    owned: frozenset[TopicPartition] = frozenset()
    member_id: str = ""
    epoch: int = 0
    coordinator: Coordinator = field(init=False)
    _offsets: GroupOffsets = field(init=False)

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(self.cluster, self.settings.group, GROUP)
        self._offsets = GroupOffsets(self.settings, self.coordinator)

    @property
    def generation(self) -> int:
        """See `Member`."""
        return self.epoch

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Member`."""
        return identity(self.settings, self.member_id, self.epoch)

    async def join(self) -> ErrorCode:
        """See `Member`."""
        self.epoch, self.owned = 0, frozenset()
        return await self.heartbeat()

    async def heartbeat(self) -> ErrorCode:
        """See `Member`."""
        settings = self.settings
        answer = await self.coordinator.ask(
            "consumer_group_heartbeat",
            group_id=settings.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=settings.instance_id,
            rebalance_timeout=timedelta(seconds=settings.rebalance_s),
            subscribed_topic_names=[*self.settings.partitions],
            topic_partitions=self._owned_rows(),
        )
        code = self.coordinator.check(answer.error_code)
        if code is ErrorCode.none:
            self.member_id, self.epoch = str(answer.member_id), int(answer.member_epoch)
            if answer.assignment is not None:
                self.owned = frozenset(
                    TopicPartition(self.topic_ids[row.topic_id], int(number))
                    for row in answer.assignment.topic_partitions
                    if row.topic_id in self.topic_ids
                    for number in row.partitions
                )
        return code

    def _owned_rows(self) -> list[dict[str, Any]]:
        return [
            {"topic_id": topic_id, "partitions": numbers}
            for topic_id, topic in self.topic_ids.items()
            if (numbers := sorted(each.partition for each in self.owned if each.topic == topic))
        ]

    async def leave(self) -> ErrorCode:
        """See `Member`. A member whose first join got no answer has no id to leave by."""
        if not self.member_id:
            return ErrorCode.none
        answer = await self.coordinator.ask(
            "consumer_group_heartbeat",
            group_id=self.settings.group,
            member_id=self.member_id,
            member_epoch=-1 if self.settings.instance_id is None else -2,
            instance_id=self.settings.instance_id,
        )
        self.owned, self.epoch = frozenset(), 0
        return self.coordinator.check(answer.error_code)

    async def commit(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """See `Member`."""
        return await self._offsets.commit(offsets, self.member_id, self.epoch)

    async def committed(self) -> Mapping[TopicPartition, int]:
        """See `Member`."""
        return await self._offsets.committed(self.owned)
