"""A consumer group as its records have it, and what others ask: commits, deletion, expiry."""

from random import Random

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer import records as r
from nodes.coordinators.groups.consumer.group import ConsumerGroup
from nodes.coordinators.groups.consumer.member import CurrentAssignment, MemberState
from nodes.coordinators.groups.kind import Committer, ListedGroup
from nodes.coordinators.machine import Now
from nodes.coordinators.records import CoordinatorRecord, Decoded
from tests.support.nodes.consumer_group import (
    GROUP,
    Consumer,
    Driver,
    driver_of,
    records_of,
    settle,
)
from tests.support.nodes.group_topics import FakeTopics

NOW = Now(0.0, 0)


def start(*names: str) -> tuple[Driver, FakeTopics, list[Consumer]]:
    topics = FakeTopics(t=4)
    driver = driver_of(topics)
    consumers = [Consumer(driver, name, ("t",)) for name in names]
    for each in consumers:
        each.join()
    settle(consumers)
    return driver, topics, consumers


@pytest.mark.parametrize(
    ("committer", "expected"),
    [
        (Committer(GROUP, "a", None, 1), ErrorCode.none),
        (Committer(GROUP, "a", None, 0), ErrorCode.stale_member_epoch),
        (Committer(GROUP, "a", None, 2), ErrorCode.stale_member_epoch),
        (Committer(GROUP, "a", None, 1, version=8), ErrorCode.unsupported_version),
        (Committer(GROUP, "x", None, 1), ErrorCode.unknown_member_id),
        (Committer(GROUP), ErrorCode.unknown_member_id),
        (Committer(GROUP, transactional=True), ErrorCode.none),
        (Committer(GROUP, "a", None, 1, transactional=True, version=3), ErrorCode.none),
        (Committer(GROUP, "a", None, 0, transactional=True), ErrorCode.illegal_generation),
        (Committer(GROUP, "a", None, -1, transactional=True), ErrorCode.illegal_generation),
    ],
)
def test_offsets_are_committed_by_members_in_their_epoch(
    committer: Committer, expected: ErrorCode
) -> None:
    """KIP-1251's exception for older epochs is not in Kafka 4.2."""
    driver, _, _ = start("a")
    assert driver.machine.check_commit(committer, NOW) is expected


def test_a_group_without_members_takes_offsets_from_anybody_outside_of_it() -> None:
    """An administrator resets them so; a member that left may not."""
    driver, _, (a,) = start("a")
    a.leave()
    assert driver.machine.check_commit(Committer(GROUP), NOW) is ErrorCode.none
    late = Committer(GROUP, "a", None, 1)
    assert driver.machine.check_commit(late, NOW) is ErrorCode.unknown_member_id


def test_offsets_are_read_by_members_in_their_epoch_and_by_who_names_no_member() -> None:
    """OffsetFetch has a member since version 9."""
    machine = start("a")[0].machine
    assert machine.check_fetch(GROUP, None, -1) is ErrorCode.none
    assert machine.check_fetch(GROUP, "a", 1) is ErrorCode.none
    assert machine.check_fetch(GROUP, "a", 2) is ErrorCode.stale_member_epoch
    assert machine.check_fetch(GROUP, "x", 1) is ErrorCode.unknown_member_id


def test_a_group_is_deleted_when_it_has_no_members() -> None:
    """Its tombstones leave nothing behind, not of its regular expressions either."""
    driver, _, (a,) = start("a")
    regex = Consumer(driver, "b", (), "t|x.*")
    regex.join()
    assert driver.machine.check_delete(GROUP) is ErrorCode.non_empty_group
    a.leave()
    regex.leave()
    assert driver.machine.check_delete(GROUP) is ErrorCode.none
    assert list(driver.machine.listing()) == [ListedGroup(GROUP, "consumer", "Empty", "Consumer")]
    for record in driver.machine.tombstones(GROUP):
        assert record.value is None
        driver.machine.replay(record, driver._position(None))
    assert not driver.machine.has(GROUP)


def test_the_tombstones_of_a_group_with_members_leave_nothing_either() -> None:
    """They are what a change to the other protocol writes."""
    driver, _, _ = start("a", "b")
    Consumer(driver, "c", (), "t|x.*", instance_id="i").join()
    for record in driver.machine.tombstones(GROUP):
        driver.machine.replay(record, driver._position(None))
    assert driver.machine.remembered() == {}


def test_a_group_subscribes_to_names_and_to_what_its_expressions_match() -> None:
    """Offsets of such topics neither expire nor may they be deleted."""
    driver, topics, _ = start("a")
    topics.create("x1", 1)
    Consumer(driver, "b", (), "x.*").join()
    subscribed = [each for each in ("t", "x1", "y") if driver.machine.subscribes(GROUP, each)]
    assert subscribed == ["t", "x1"]


def test_what_kafka_before_4_1_remembered_is_removed_at_the_next_change() -> None:
    """KIP-1101: the hash is in the group epoch's record."""
    driver, topics, (a,) = start("a")
    old = r.PARTITION_METADATA.encode(
        r.GroupKey(group_id=GROUP), r.ConsumerGroupPartitionMetadataValue(topics=()), 0
    )
    driver.machine.replay(old, driver._position(None))
    topics.grow("t", 5)
    a.beat()
    assert r.PARTITION_METADATA.tombstone(r.GroupKey(group_id=GROUP)) in records_of(driver)


def test_a_member_without_partitions_has_a_target_assignment_all_the_same() -> None:
    """An empty record, as Kafka writes it."""
    driver, _, _ = start()
    Consumer(driver, "a", ()).join()
    assert driver.machine.groups[GROUP].targets == {"a": {}}


def test_a_refused_heartbeat_changes_nothing() -> None:
    """Though it was refused late: a static member came back with an invalid expression."""
    driver, _, _ = start()
    a = Consumer(driver, "a", ("t",), instance_id="i")
    a.join()
    a.leave(-2)
    before = (driver.machine.remembered(), sorted(driver.machine.groups[GROUP].holdings()))
    back = Consumer(driver, "a2", ("t",), "(", instance_id="i")
    assert back.join()["error_code"] is ErrorCode.invalid_regular_expression
    after = (driver.machine.remembered(), sorted(driver.machine.groups[GROUP].holdings()))
    assert after == before
    assert {holder for *_, holder in before[1]} == {"a"}


def current(member: str, *partitions: int) -> Decoded:
    topic = FakeTopics(t=1).topic("t")
    assert topic is not None
    assigned = {topic.topic_id: frozenset(partitions)} if partitions else {}
    value = CurrentAssignment(1, 0, MemberState.STABLE, assigned).record_value()
    key = r.MemberKey(group_id=GROUP, member_id=member)
    return Decoded(r.CURRENT_MEMBER_ASSIGNMENT, key, value)


def test_a_partition_belongs_to_whom_the_later_record_gives_it() -> None:
    """In a log of which a part is compacted, a member may get it before the other gives it up."""
    group = ConsumerGroup()
    for record in (current("a", 0), current("b", 0), current("a")):
        group.apply(record)
    assert [holder for *_, holder in group.holdings()] == ["b"]


def test_the_order_of_records_of_different_keys_does_not_matter() -> None:
    """The whole log of a random group, with the last records in any order."""
    driver, topics, consumers = start("a", "b", "c")
    Consumer(driver, "d", (), "t|x.*", instance_id="i").join()
    topics.grow("t", 7)
    settle(consumers)
    consumers[0].leave()
    last: dict[bytes, CoordinatorRecord] = {each.key: each for each in records_of(driver)}
    for seed in range(10):
        records = list(last.values())
        Random(seed).shuffle(records)
        machine = driver_of(topics).machine
        for record in records:
            machine.replay(record, driver._position(None))
        assert machine.remembered() == driver.machine.remembered()
        ours, theirs = machine.groups[GROUP], driver.machine.groups[GROUP]
        assert sorted(ours.holdings()) == sorted(theirs.holdings())
        assert ours.subscribed_names() == theirs.subscribed_names()
        assert ours.static_member("i") == theirs.static_member("i")
