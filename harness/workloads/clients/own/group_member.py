"""What members of consumer groups have in common: settings, results, and committed offsets.

A member joins, sends heartbeats, commits and leaves when it is told to; it does nothing by itself.
Every call asks the coordinator once, and raises Unavailable if it gave no answer. The caller asks
again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.coordinator import Coordinator, Unavailable

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
    """A member of `group` on the cluster's topic, which has so many partitions."""

    group: str
    partitions: int
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
    GroupSettings(group="", partitions=0, session_s=0, rebalance_s=0), member_id="", generation=-1
)
"""What a request says without the metadata of a group."""


class Member(Protocol):
    """A member of a group."""

    owned: frozenset[int]
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

    async def commit(self, offsets: Mapping[int, int]) -> Mapping[int, ErrorCode]:
        """Commit an offset for each partition; return the result of each."""
        ...

    async def committed(self) -> Mapping[int, int]:
        """Return the committed offset of each owned partition; -1 for none.

        Raises Unavailable also while an offset is not stable.
        """
        ...


@dataclass(slots=True)
class GroupOffsets:
    """Commits and reads the offsets of a group; common to the protocols."""

    topic: str
    settings: GroupSettings
    coordinator: Coordinator

    async def commit(
        self, offsets: Mapping[int, int], member_id: str, epoch: int
    ) -> Mapping[int, ErrorCode]:
        rows = [
            {"partition_index": number, "committed_offset": offset, "committed_metadata": ""}
            for number, offset in offsets.items()
        ]
        answer = await self.coordinator.ask(
            "offset_commit",
            group_id=self.settings.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=self.settings.instance_id,
            topics=[{"name": self.topic, "partitions": rows}],
        )
        results = {int(row.partition_index): row.error_code for row in _rows(answer)}
        for code in results.values():
            self.coordinator.check(code)
        return results

    async def committed(self, partitions: frozenset[int]) -> Mapping[int, int]:
        if not partitions:
            return {}
        answer = await self.coordinator.ask(
            "offset_fetch",
            group_id=self.settings.group,
            topics=[{"name": self.topic, "partition_indexes": sorted(partitions)}],
            require_stable=True,
        )
        self._usable(answer.error_code)
        for row in _rows(answer):
            self._usable(row.error_code)
        return {int(row.partition_index): int(row.committed_offset) for row in _rows(answer)}

    def _usable(self, code: ErrorCode) -> None:
        self.coordinator.check(code)
        if code is not ErrorCode.none:
            raise Unavailable(code.name.upper())


def _rows(answer: Any) -> list[Any]:
    return [row for topic in answer.topics for row in topic.partitions]
