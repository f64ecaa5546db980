"""What members of consumer groups have in common: settings, results, and committed offsets.

A member joins, sends heartbeats, commits and leaves when it is told to; it does nothing by itself.
Every call asks the coordinator once, and raises Unavailable if it gave no answer. The caller asks
again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.coordinator import Coordinator, Unavailable
from nodes.ids import TopicPartition

REJOIN: Final = frozenset(
    {
        ErrorCode.rebalance_in_progress,
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_member_epoch,
        ErrorCode.stale_member_epoch,
        ErrorCode.member_id_required,
    }
)
"""After these a member is no member of the present generation, and joins again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """A member of `group`, which reads the topics of `partitions`: the number of each topic."""

    group: str
    partitions: Mapping[str, int]
    session_s: float
    rebalance_s: float
    instance_id: str | None = None


def identity(settings: GroupSettings, member_id: str, generation: int) -> dict[str, Any]:
    """Return what a request says of a member: its group knows it by id and generation."""
    return {
        "member_id": member_id,
        "generation_id": generation,
        "group_instance_id": settings.instance_id,
    }


NOBODY: Final = identity(
    GroupSettings(group="", partitions={}, session_s=0, rebalance_s=0), member_id="", generation=-1
)
"""What a request says without the metadata of a group."""


class Member(Protocol):
    """A member of a group."""

    owned: frozenset[TopicPartition]
    """The partitions that it was told to own."""

    @property
    def generation(self) -> int:
        """The generation of the group, or the member's epoch."""
        ...

    @property
    def identity(self) -> Mapping[str, Any]:
        """What a request to commit offsets in a transaction says of the member (KIP-447)."""
        ...

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator of the group."""
        ...

    async def join(self) -> ErrorCode:
        """Become a member of the present generation; `none` if it is one."""
        ...

    async def heartbeat(self) -> ErrorCode:
        """Send a sign of life. After an error of REJOIN, call `join`."""
        ...

    async def leave(self) -> ErrorCode:
        """Leave the group."""
        ...

    async def commit(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Commit an offset for each partition; return the result of each."""
        ...

    async def committed(self) -> Mapping[TopicPartition, int]:
        """Return the committed offset of each owned partition; -1 for none.

        Raises Unavailable also while an offset is not stable.
        """
        ...


@dataclass(slots=True)
class GroupOffsets:
    """Commits and reads the offsets of a group; common to the protocols."""

    settings: GroupSettings
    coordinator: Coordinator

    async def commit(
        self, offsets: Mapping[TopicPartition, int], member_id: str, epoch: int
    ) -> Mapping[TopicPartition, ErrorCode]:
        answer = await self.coordinator.ask(
            "offset_commit",
            group_id=self.settings.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=self.settings.instance_id,
            topics=rows_of(offsets),
        )
        results = {place: row.error_code for place, row in _rows(answer)}
        for code in results.values():
            self.coordinator.check(code)
        return results

    async def committed(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        if not partitions:
            return {}
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            by_topic.setdefault(topic, []).append(partition)
        answer = await self.coordinator.ask(
            "offset_fetch",
            group_id=self.settings.group,
            topics=[{"name": t, "partition_indexes": each} for t, each in by_topic.items()],
            require_stable=True,
        )
        self._usable(answer.error_code)
        found = _rows(answer)
        for _, row in found:
            self._usable(row.error_code)
        return {place: int(row.committed_offset) for place, row in found}

    def _usable(self, code: ErrorCode) -> None:
        self.coordinator.check(code)
        if code is not ErrorCode.none:
            raise Unavailable(code.name.upper())


def rows_of(offsets: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    """Return the topics of a request that commits these offsets."""
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in offsets.items():
        row = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        by_topic.setdefault(topic, []).append(row)
    return [{"name": topic, "partitions": rows} for topic, rows in by_topic.items()]


def _rows(answer: Any) -> list[tuple[TopicPartition, Any]]:
    return [
        (TopicPartition(str(topic.name), int(row.partition_index)), row)
        for topic in answer.topics
        for row in topic.partitions
    ]
