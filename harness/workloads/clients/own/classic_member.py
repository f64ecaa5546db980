"""A member of a consumer group by the classic protocol: JoinGroup, SyncGroup, Heartbeat."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own import subscriptions
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import GROUP, Coordinator
from harness.workloads.clients.own.group_member import GroupOffsets, GroupSettings, identity
from nodes.ids import TopicPartition

NO_GENERATION: Final = -1
PROTOCOL: Final = "range"


@dataclass(slots=True)
class ClassicMember:
    """A member by JoinGroup and SyncGroup. The leader assigns ranges."""

    cluster: Cluster
    settings: GroupSettings
    owned: frozenset[TopicPartition] = frozenset()
    member_id: str = ""
    generation: int = NO_GENERATION
    coordinator: Coordinator = field(init=False)
    _offsets: GroupOffsets = field(init=False)

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(self.cluster, self.settings.group, GROUP)
        self._offsets = GroupOffsets(self.settings, self.coordinator)

    async def join(self) -> ErrorCode:
        """See `Member`; the members of the group wait here for each other."""
        self.owned = frozenset()
        settings = self.settings
        answer = await self.coordinator.ask(
            "join_group",
            timeout_s=settings.rebalance_s + settings.session_s,
            group_id=settings.group,
            session_timeout=timedelta(seconds=settings.session_s),
            rebalance_timeout=timedelta(seconds=settings.rebalance_s),
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type="consumer",
            protocols=[
                {"name": PROTOCOL, "metadata": subscriptions.subscription(settings.partitions)}
            ],
        )
        code = self.coordinator.check(answer.error_code)
        if code is ErrorCode.member_id_required:
            self.member_id = str(answer.member_id)
        elif code is ErrorCode.none:
            self.member_id = str(answer.member_id)
            self.generation = int(answer.generation_id)
            return await self._sync(answer)
        return self._result(code)

    async def _sync(self, joined: Any) -> ErrorCode:
        rows = []
        if joined.leader == joined.member_id:
            members = [str(member.member_id) for member in joined.members]
            shares = subscriptions.by_range(members, self.settings.partitions)
            rows = [
                {"member_id": each, "assignment": subscriptions.assignment(share)}
                for each, share in shares.items()
            ]
        answer = await self.coordinator.ask(
            "sync_group",
            timeout_s=self.settings.rebalance_s + self.settings.session_s,
            group_id=self.settings.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            assignments=rows,
        )
        code = self.coordinator.check(answer.error_code)
        if code is ErrorCode.none:
            given = subscriptions.assigned(answer.assignment)
            self.owned = frozenset(each for each in given if each.topic in self.settings.partitions)
        return self._result(code)

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Member`."""
        return identity(self.settings, self.member_id, self.generation)

    async def heartbeat(self) -> ErrorCode:
        """See `Member`."""
        answer = await self.coordinator.ask("heartbeat", **self._membership())
        return self._result(self.coordinator.check(answer.error_code))

    async def leave(self) -> ErrorCode:
        """See `Member`."""
        rows = [{"member_id": self.member_id, "group_instance_id": self.settings.instance_id}]
        answer = await self.coordinator.ask(
            "leave_group", group_id=self.settings.group, members=rows
        )
        self.owned, self.generation = frozenset(), NO_GENERATION
        return self.coordinator.check(answer.error_code)

    async def commit(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """See `Member`."""
        return await self._offsets.commit(offsets, self.member_id, self.generation)

    async def committed(self) -> Mapping[TopicPartition, int]:
        """See `Member`."""
        return await self._offsets.committed(self.owned)

    def _membership(self) -> dict[str, Any]:
        return {
            "group_id": self.settings.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.settings.instance_id,
        }

    def _result(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.unknown_member_id:
            self.member_id, self.owned, self.generation = "", frozenset(), NO_GENERATION
        return code
