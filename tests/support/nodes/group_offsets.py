"""Short names for tests of committed offsets: a coordinator, its requests, and a kind of group."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.composition import Groups
from nodes.coordinators.groups.kind import Committer, ListedGroup, Retention
from nodes.coordinators.groups.offset_requests import (
    NO_RETENTION,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    PartitionCommit,
    TopicCommit,
    TopicFetch,
)
from nodes.coordinators.groups.settings import GroupSettings, OffsetSettings
from nodes.coordinators.machine import Effects, Now, Position, ProducerStamp, Token
from nodes.coordinators.records import CoordinatorRecord
from nodes.ids import Epoch, Offset
from tests.support.nodes.machine_driver import MachineDriver

SINCE_COMMIT = Retention(None)
RETENTION_MS = 60_000
CHECK_MS = 1_000
SETTINGS = GroupSettings(
    offsets=OffsetSettings(retention_ms=RETENTION_MS, retention_check_interval_ms=CHECK_MS)
)

FIRST = ProducerStamp(producer_id=1, epoch=0)
SECOND = ProducerStamp(producer_id=2, epoch=0)


@dataclass
class FakeKind:
    """A kind of group whose answers a test sets. Its only record is number 2: remove the group."""

    groups: dict[str, None] = field(default_factory=dict)
    commit_error: ErrorCode = ErrorCode.none
    fetch_error: ErrorCode = ErrorCode.none
    delete_error: ErrorCode = ErrorCode.none
    topics: frozenset[str] = frozenset()
    age: Retention | None = SINCE_COMMIT

    def has(self, group_id: str) -> bool:
        return group_id in self.groups

    def check_commit(self, committer: Committer, now: Now) -> ErrorCode:
        return self.commit_error

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        return self.fetch_error

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        return self.delete_error

    def subscribes(self, group_id: str, topic: str) -> bool:
        return topic in self.topics

    def retention(self, group_id: str) -> Retention | None:
        return self.age

    def check_delete(self, group_id: str) -> ErrorCode:
        return self.delete_error

    def tombstones(self, group_id: str) -> tuple[CoordinatorRecord, ...]:
        return (CoordinatorRecord(b"\0\2" + group_id.encode(), None),)

    def listing(self) -> Iterable[ListedGroup]:
        return [ListedGroup(group_id, "consumer", "Stable", "Classic") for group_id in self.groups]

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        del self.groups[record.key[2:].decode()]

    def loaded(self, now: Now) -> Effects:
        return Effects()

    def deadline_ms(self) -> float | None:
        return None

    def tick(self, now: Now) -> Effects:
        return Effects()

    def abandoned(self, token: Token) -> None:
        pass


@dataclass
class Coordinated:
    """A group coordinator with a fake shell, and with at most one kind of group."""

    kind: FakeKind | None = None
    settings: GroupSettings = SETTINGS

    def __post_init__(self) -> None:
        kinds = () if self.kind is None else ((self.kind, (2,)),)
        self.driver = MachineDriver(lambda: Groups(self.settings, kinds))

    def commit(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        *,
        producer: ProducerStamp | None = None,
        **committer: Any,
    ) -> dict[tuple[str, int], ErrorCode]:
        """Commit offsets by topic and partition; return the error of each."""
        request = commit_of(group, offsets, producer=producer, **committer)
        if producer is None:
            answer = self.driver.ask(lambda m, t, now: m.commit_offsets(request, t, now))
        else:
            answer = self.driver.ask(
                lambda m, t, now: m.commit_in_transaction(request, producer, t, now)
            )
        return errors(answer["topics"])

    def fetch(
        self, group: str, *partitions: tuple[str, int], stable: bool = False
    ) -> dict[tuple[str, int], int | ErrorCode]:
        """The committed offsets of these partitions (of all, if none is named), or errors."""
        named = tuple(TopicFetch(topic, (number,)) for topic, number in partitions)
        request = OffsetFetch(group, named or None, require_stable=stable)
        answer = self.driver.ask(lambda m, t, now: m.fetch_offsets(request, t, now))
        assert answer["error_code"] is ErrorCode.none
        return {
            (topic["name"], row["partition_index"]): (
                row["committed_offset"]
                if row["error_code"] is ErrorCode.none
                else row["error_code"]
            )
            for topic in answer["topics"]
            for row in topic["partitions"]
        }

    def delete_offset(self, group: str, topic: str, partition: int) -> ErrorCode:
        """OffsetDelete of one partition."""
        request = OffsetDelete(group, (TopicFetch(topic, (partition,)),))
        answer = self.driver.ask(lambda m, t, now: m.delete_offsets(request, t, now))
        if "topics" not in answer:
            return ErrorCode(answer["error_code"])
        return errors(answer["topics"])[topic, partition]

    def delete_group(self, group: str) -> ErrorCode:
        """DeleteGroups of one group."""
        answer = self.driver.ask(lambda m, t, now: m.delete_group(group, t, now))
        return ErrorCode(answer["error_code"])

    def topics_deleted(self, *topics: str) -> None:
        """The controller deleted these topics."""
        self.driver.machine.topics_deleted(topics)
        self.driver.advance(0)


def commit_of(
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    producer: ProducerStamp | None = None,
    topic_id: UUID | None = None,
    retention_ms: int = NO_RETENTION,
    metadata: str | None = "",
    **committer: Any,
) -> OffsetCommit:
    """A request that commits these offsets."""
    return OffsetCommit(
        Committer(group, transactional=producer is not None, **committer),
        tuple(
            TopicCommit(
                topic,
                (PartitionCommit(partition, Offset(offset), Epoch(3), metadata),),
                topic_id,
            )
            for (topic, partition), offset in offsets.items()
        ),
        retention_ms,
    )


def errors(topics: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], ErrorCode]:
    """The error of each partition of a response's topics."""
    return {
        (topic["name"], row["partition_index"]): row["error_code"]
        for topic in topics
        for row in topic["partitions"]
    }
