"""Groups whose coordinator remembers less than it tells, or gives a partition twice, are found."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from harness.simulation.invariants import coordinated_groups
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import Ended, Entry, LogRecord
from harness.simulation.invariants.coordinated_groups import check_expiry, check_groups
from nodes.coordinators.groups.classic.group import GroupState
from nodes.coordinators.groups.consumer.member import CurrentAssignment
from nodes.coordinators.groups.offsets import OffsetKey
from nodes.coordinators.machine import Effects, ProducerStamp
from nodes.ids import Offset, TopicPartition
from nodes.log.config import CompactionConfig

TOPIC = UUID(int=7)


def replica(**compaction: int) -> Any:
    """A replica with these settings of its cleaner."""
    log = SimpleNamespace(config=SimpleNamespace(compaction=CompactionConfig(**compaction)))
    return SimpleNamespace(partition=TopicPartition("__consumer_offsets", 0), log=log)


REPLICA = replica()
PRODUCER = ProducerStamp(9, 0)
KEY = OffsetKey("g", "t", 0)


def machine(
    consumers: Mapping[str, CurrentAssignment] | None = None,
    *,
    state: GroupState = GroupState.STABLE,
    members: Sequence[str] = (),
    remembered: Sequence[str] = (),
) -> Any:
    """A coordinator of a consumer group and a classic group."""
    current = {name: SimpleNamespace(current=each) for name, each in (consumers or {}).items()}
    record = SimpleNamespace(members=[SimpleNamespace(member_id=each) for each in remembered])
    group = SimpleNamespace(state=state, members=dict.fromkeys(members))
    return SimpleNamespace(
        consumer=SimpleNamespace(groups={"c": SimpleNamespace(members=current)}),
        classic=SimpleNamespace(groups={"g": group}, remembered={"g": record}),
    )


def has(*partitions: int, revokes: Sequence[int] = ()) -> CurrentAssignment:
    """What a member has, and what it has to give up."""
    return CurrentAssignment(
        assigned={TOPIC: frozenset(partitions)}, pending_revocation={TOPIC: frozenset(revokes)}
    )


def test_each_partition_has_one_owner() -> None:
    """Also one that its owner has to give up and has not yet."""
    check_groups(REPLICA, 1, machine({"a": has(0, revokes=[1]), "b": has(2)}))
    for twice in (has(0), has(1), has(2, revokes=[0])):
        with pytest.raises(InvariantBroken, match="one-owner"):
            check_groups(REPLICA, 1, machine({"a": has(0, revokes=[1]), "b": twice}))


def test_owners_are_not_judged_where_a_replica_may_miss_tombstones() -> None:
    """Seed 200: a member left while the next coordinator was down, and its tombstone was gone."""
    check_groups(replica(delete_retention_ms=300), 1, machine({"a": has(0), "b": has(0)}))


def test_a_stable_group_has_the_members_of_its_record() -> None:
    """While it rebalances, the record is that of the last generation."""
    check_groups(REPLICA, 1, machine(members=["a", "b"], remembered=["b", "a"]))
    changing = GroupState.PREPARING_REBALANCE
    check_groups(REPLICA, 1, machine(state=changing, members=["new"], remembered=["old"]))
    with pytest.raises(InvariantBroken, match="stable-members-are-remembered"):
        check_groups(REPLICA, 1, machine(members=["new"], remembered=["old"]))


def sent(
    offset: int, value: bytes | None = b"", producer: ProducerStamp | None = PRODUCER
) -> Entry:
    """A record about the offset; by default as a part of a transaction. Pending offsets are judged
    by their keys alone."""
    return LogRecord(Offset(offset), 0, producer, KEY.tombstone().key, value)


@pytest.mark.parametrize(
    ("entries", "pending"),
    [
        ([sent(0, producer=None)], False),
        ([sent(0)], True),
        ([sent(0), sent(1, producer=None)], True),
        ([sent(0), Ended(Offset(1), 0, PRODUCER, committed=True)], False),
        ([sent(0), Ended(Offset(1), 0, ProducerStamp(8, 0), committed=True)], True),
        ([sent(0), sent(1, None, None)], False),
        ([sent(0), sent(1, None, None), sent(2)], True),
    ],
)
def test_an_offset_does_not_expire_while_another_one_is_pending(
    entries: list[Entry], pending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless its topic was deleted: then both are removed."""
    monkeypatch.setattr(coordinated_groups, "read_entries", lambda log: iter(entries))
    expires = Effects((KEY.tombstone(),))
    check_expiry(REPLICA, 1, expires, ())
    check_expiry(REPLICA, 1, Effects(), ["t"])
    if not pending:
        check_expiry(REPLICA, 1, expires, ["t"])
        return
    with pytest.raises(InvariantBroken, match="pending-offsets-stay"):
        check_expiry(REPLICA, 1, expires, ["t"])
