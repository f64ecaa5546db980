"""What a group coordinator remembers of its groups agrees with what it tells their members.

- No two members of a consumer group have the same partition, or have yet to give it up (KIP-848;
  Kafka's `ConsumerGroup.addPartitionEpochs` refuses a second owner). This is judged only where
  tombstones stay for TOMBSTONES_STAY_MS: a replica that was down for longer never gets the
  tombstone of a member that left, and as a coordinator it has the member again, as Kafka's has.
- The members of a stable classic group are those of its last record: the next coordinator knows
  the group from that record alone, and refuses everybody else (KAFKA-10284).
- An offset does not expire while an open transaction has an offset of its partition pending, unless
  the topic was deleted. What is pending is read from the log.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Final
from uuid import UUID

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import Entry, LogRecord, read_entries
from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState
from nodes.coordinators.groups.classic.records import GroupMetadataValue
from nodes.coordinators.groups.consumer.group import ConsumerGroup
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.offsets import OffsetKey
from nodes.coordinators.groups.records import OFFSET_COMMIT
from nodes.coordinators.machine import Effects
from nodes.coordinators.records import CoordinatorRecord, RecordTypes
from nodes.server.replicas.replica import Replica

TOMBSTONES_STAY_MS: Final = 3_600_000
"""Longer than any replica of a simulated run is down."""

OWNER, MEMBERS, PENDING = "one-owner", "stable-members-are-remembered", "pending-offsets-stay"

_OFFSETS: Final = RecordTypes([OFFSET_COMMIT])


def check_groups(replica: Replica, node: int, machine: GroupCoordinator) -> None:
    """Judge the groups as they are after an operation. Raises InvariantBroken."""
    where = f"{replica.partition}: the coordinator on node {node}"
    compaction = replica.log.config.compaction
    lasting = compaction is None or compaction.delete_retention_ms >= TOMBSTONES_STAY_MS
    for group_id, consumers in machine.consumer.groups.items() if lasting else ():
        _check_owners(f"{where}: group {group_id}", consumers)
    remembered = machine.classic.remembered
    for group_id, group in machine.classic.groups.items():
        _check_members(f"{where}: group {group_id}", group, remembered.get(group_id))


def _check_owners(where: str, group: ConsumerGroup) -> None:
    owners: dict[tuple[UUID, int], str] = {}
    for member_id, member in group.members.items():
        for topic_id, partitions in member.current.holdings():
            for partition in partitions:
                owner = owners.setdefault((topic_id, partition), member_id)
                if owner != member_id:
                    raise InvariantBroken(
                        OWNER,
                        f"{where}: partition {partition} of topic {topic_id} belongs to the "
                        f"members {owner} and {member_id}",
                    )


def _check_members(where: str, group: ClassicGroup, record: GroupMetadataValue | None) -> None:
    if group.state is not GroupState.STABLE:
        return
    known = set() if record is None else {each.member_id for each in record.members}
    if known != set(group.members):
        raise InvariantBroken(
            MEMBERS,
            f"{where} is stable with the members {sorted(group.members)}, and its last record has "
            f"{sorted(known)}",
        )


def check_expiry(replica: Replica, node: int, effects: Effects, topics: Container[str]) -> None:
    """Judge what the coordinator is about to remove without a request; `topics` are those that
    exist. Raises InvariantBroken.
    """
    expired = [key for record in effects.records if (key := _removed(record)) is not None]
    if not any(key.topic in topics for key in expired):
        return
    pending = set(_pending(read_entries(replica.log)))
    for key in expired:
        if key in pending and key.topic in topics:
            raise InvariantBroken(
                PENDING,
                f"{replica.partition}: the coordinator on node {node} lets {key} expire, and an "
                "open transaction has an offset pending for it",
            )


def _removed(record: CoordinatorRecord) -> OffsetKey | None:
    """The offset that a tombstone removes."""
    return _key(record) if record.value is None else None


def _key(record: CoordinatorRecord) -> OffsetKey | None:
    """The key of a record about an offset; None for other records."""
    decoded = _OFFSETS.decode(record)
    if decoded is None:
        return None
    return OffsetKey(decoded.key.group, decoded.key.topic, decoded.key.partition)


def _pending(entries: Iterable[Entry]) -> Iterator[OffsetKey]:
    """The offsets that the transactions which are open in a log have pending."""
    written: dict[int, dict[bytes, LogRecord]] = {}
    for each in entries:
        if not isinstance(each, LogRecord):
            written.pop(each.producer.producer_id, None)
        elif each.producer is not None:
            written.setdefault(each.producer.producer_id, {})[each.key] = each
        elif each.value is None:
            for keys in written.values():
                keys.pop(each.key, None)
    for keys in written.values():
        for record in keys.values():
            if (key := _key(CoordinatorRecord(record.key, None))) is not None:
                yield key
