"""Groups of foreign clients by the classic protocol: members come, go, return, and are removed.

Three nodes run in a thread of this process, on loopback ports and disks in memory.
"""

import asyncio
import itertools
import subprocess
from collections.abc import Iterator
from typing import Any, Protocol

import confluent_kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.clients.kafka_python import (
    KafkaAdminClient,
    MemberToRemove,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from tests.support.clusters.loopback_cluster import addresses_of, in_its_loop, serving
from tests.support.foreign.group_members import (
    MEMBERS,
    PATIENCE_S,
    ConfluentMember,
    GroupMember,
    wait_until,
)
from tests.support.nodes.cluster import UNHURRIED, Cluster
from tests.support.require import require

pytestmark = pytest.mark.slow

TOPIC = "shared"
ALL = frozenset(range(4))
VALUES = {f"value {n}".encode() for n in range(40)}
_groups = itertools.count()

by_library = pytest.mark.parametrize("library", MEMBERS, ids=lambda each: each.library)
by_strategy = pytest.mark.parametrize(
    ("library", "strategy"), [(each, name) for each in MEMBERS for name in each.strategies]
)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Addresses of a cluster with a topic of four partitions, and records in each."""
    with serving(Cluster(3, **UNHURRIED), **{TOPIC: len(ALL)}) as addresses:
        producer = confluent_kafka.Producer({"bootstrap.servers": addresses})
        for number, value in enumerate(sorted(VALUES)):
            producer.produce(TOPIC, value, partition=number % len(ALL))
        assert producer.flush(PATIENCE_S) == 0
        yield addresses


@pytest.fixture
def group() -> str:
    """A group that nobody has joined."""
    return f"rebalances-{next(_groups)}"


class Join(Protocol):
    """Lets a member join the test's group."""

    def __call__(self, library: type[GroupMember], **options: Any) -> GroupMember: ...


@pytest.fixture
def join(bootstrap: str, group: str) -> Iterator[Join]:
    """Lets members join, and ends those that the test leaves."""
    members: list[GroupMember] = []

    def make(library: type[GroupMember], **options: Any) -> GroupMember:
        members.append(library(bootstrap, group, TOPIC, **options))
        return members[-1]

    yield make
    for each in members:
        each.stop()


def produce(bootstrap: str, value: bytes) -> None:
    """Write one more record."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(TOPIC, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def share(*members: GroupMember) -> bool:
    """Whether each has partitions, and together they have each once."""
    parts = [each.partitions for each in members]
    assert all(each.error is None for each in members), [each.error for each in members]
    return all(parts) and sum(map(len, parts)) == len(ALL) and frozenset().union(*parts) == ALL


@by_strategy
def test_members_share_the_partitions(
    join: Join, library: type[GroupMember], strategy: str
) -> None:
    """One has all; a second one gets half of them; who is left when one leaves has all again."""
    first = join(library, strategy=strategy)
    wait_until(lambda: share(first), "the first member has all partitions")
    second = join(library, strategy=strategy)
    wait_until(lambda: share(first, second), "both members have partitions")
    assert len(first.partitions) == len(second.partitions) == len(ALL) // 2
    first.stop()
    wait_until(lambda: share(second), "the second member has all partitions")


def test_members_of_different_libraries_share_a_group(join: Join) -> None:
    """The coordinator does not know their metadata; the leader, whoever it is, assigns to all."""
    members = [join(each) for each in MEMBERS]
    wait_until(lambda: share(*members), "all members have partitions")
    for each in list(members):
        members.remove(each)
        each.stop()
        if members:
            wait_until(lambda: share(*members), "the others have all partitions")


@by_library
def test_the_next_member_reads_on(
    bootstrap: str, group: str, join: Join, library: type[GroupMember]
) -> None:
    """A member that is closed commits what it has read: nothing is read twice, or never."""
    first = join(library)
    wait_until(lambda: set(first.values) == VALUES, "the first member has read all")
    first.stop()
    second = join(library)
    wait_until(lambda: share(second), "the second member has all partitions")
    fresh = f"fresh for {group}".encode()
    produce(bootstrap, fresh)
    wait_until(lambda: fresh in second.values, "the second member has read what is new")
    assert not VALUES & set(second.values)
    VALUES.add(fresh)


@by_library
def test_a_static_member_returns_without_a_rebalance(
    join: Join, library: type[GroupMember]
) -> None:
    """It has its old partitions at once, and the other one notices nothing (KIP-345)."""
    stays = join(library, instance_id="stays")
    goes = join(library, instance_id="goes")
    wait_until(lambda: share(stays, goes), "both members have partitions")
    had = goes.partitions
    goes.stop()
    seen = stays.rebalances
    again = join(library, instance_id="goes")
    wait_until(lambda: share(stays, again), "the member is back")
    assert again.partitions == had
    assert stays.rebalances == seen


@by_library
def test_a_static_member_that_does_not_return_loses_its_partitions(
    join: Join, library: type[GroupMember]
) -> None:
    """When its session time-out is over."""
    stays = join(library, instance_id="stays")
    goes = join(library, instance_id="goes")
    wait_until(lambda: share(stays, goes), "both members have partitions")
    goes.stop()
    wait_until(lambda: share(stays), "the other member has all partitions")


def test_the_older_of_two_members_with_one_instance_id_is_fenced(join: Join) -> None:
    """It ends with an error instead of reading what the other one reads."""
    older = join(ConfluentMember, instance_id="one")
    wait_until(lambda: share(older), "the older member has all partitions")
    newer = join(ConfluentMember, instance_id="one")
    wait_until(lambda: older.error is not None, "the older member is fenced")
    wait_until(lambda: share(newer), "the newer member has all partitions")
    with pytest.raises(KafkaException, match="instance"):
        older.stop()


def test_groups_are_listed_described_and_deleted(bootstrap: str, group: str, join: Join) -> None:
    """With their members and what these have; not deleted as long as they have some."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    first, second = (join(ConfluentMember) for _ in range(2))
    wait_until(lambda: share(first, second), "both members have partitions")
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    parts = [
        frozenset(each.partition for each in member.assignment.topic_partitions)
        for member in described.members
    ]
    assert sorted(map(sorted, parts)) == sorted(map(sorted, [first.partitions, second.partitions]))
    assert {member.host for member in described.members} == {"/127.0.0.1"}
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    states = {each.group_id: each.state for each in listed.valid}
    assert states[group] == ConsumerGroupState.STABLE
    with pytest.raises(KafkaException) as refusal:
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert refusal.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    first.stop()
    second.stop()
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])
    assert admin.delete_consumer_groups([group])[group].result(PATIENCE_S) is None
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert group not in {each.group_id for each in listed.valid}


def test_kafka_python_administers_groups(bootstrap: str, group: str, join: Join) -> None:
    """It lists, describes and deletes them."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    member = join(MEMBERS[1])
    wait_until(lambda: share(member), "the member has all partitions")
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    assert len(described["members"]) == 1
    assert group in {each["group_id"] for each in admin.list_groups()}
    member.stop()
    assert admin.delete_groups([group])[group] == "OK"
    assert admin.describe_groups([group])[group]["group_state"] == "Dead"
    admin.close()


def test_kafka_python_moves_and_deletes_offsets(bootstrap: str, group: str, join: Join) -> None:
    """Of a group without members: it commits, resets to the end, and deletes."""
    member = join(ConfluentMember)  # without a coordinator the administrator gives up at once
    wait_until(lambda: share(member), "the member has all partitions")
    member.stop()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    partition = TopicPartition(TOPIC, 0)
    altered = admin.alter_group_offsets(group, {partition: OffsetAndMetadata(3, "", -1)})
    assert list(altered) == [partition]
    assert admin.list_group_offsets([group])[group][partition].offset == 3
    admin.reset_group_offsets(group, {partition: OffsetSpec.LATEST})
    assert admin.list_group_offsets([group])[group][partition].offset >= 10
    admin.delete_group_offsets(group, [partition])
    assert partition not in admin.list_group_offsets([group])[group]
    admin.close()


def test_aiokafka_administers_groups(bootstrap: str, group: str, join: Join) -> None:
    """It lists and describes them; it has no request to delete one."""
    member = join(MEMBERS[2])
    wait_until(lambda: share(member), "the member has all partitions")

    async def ask() -> tuple[Any, Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            described = await admin.describe_consumer_groups([group])
            return described, await admin.list_consumer_groups()
        finally:
            await admin.close()

    described, listed = asyncio.run(ask())
    (row,) = described[0].groups
    assert (row[1], row[2], row[4]) == (group, "Stable", member.strategy)
    assert group in {each[0] for each in listed}


def test_an_administrator_removes_static_members(bootstrap: str, group: str, join: Join) -> None:
    """By their instance ids, with one request for several."""
    members = [join(ConfluentMember, instance_id=name) for name in ("a", "b", "c")]
    wait_until(lambda: share(*members), "all members have partitions")
    members[0].stop()
    members[1].stop()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    gone = [MemberToRemove(group_instance_id=name) for name in ("a", "b")]
    outcome = admin.remove_group_members(group, gone)
    admin.close()
    assert len(outcome) == len(gone)
    wait_until(lambda: share(members[2]), "the third member has all partitions")


def test_kcat_reads_on(bootstrap: str, group: str) -> None:
    """It commits what it has read when it ends."""
    require("kcat")
    arguments = ["kcat", "-b", bootstrap, "-X", "auto.offset.reset=earliest", "-G", group, TOPIC]

    def read(count: int) -> set[bytes]:
        command = [*arguments[:3], "-c", str(count), *arguments[3:]]
        ended = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
        return set(ended.stdout.splitlines())

    first, second = read(len(VALUES) // 2), read(len(VALUES) - len(VALUES) // 2)
    assert first | second == VALUES
    assert not first & second


def test_a_group_goes_on_when_its_coordinator_is_gone() -> None:
    """Another broker has loaded it, and the members find it."""
    cluster = Cluster(3)
    with in_its_loop(cluster, **{TOPIC: len(ALL)}) as call:
        bootstrap = addresses_of(cluster)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        members = [each(bootstrap, "moves", TOPIC) for each in MEMBERS]
        try:
            wait_until(lambda: share(*members), "all members have partitions")
            described = admin.describe_consumer_groups(["moves"])["moves"].result(PATIENCE_S)
            call(cluster.stop(described.coordinator.id))
            produce(bootstrap, b"after")
            wait_until(
                lambda: share(*members) and any(b"after" in each.values for each in members),
                "the members read on",
            )
            # The first client may have kept the coordinator that is gone.
            another = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

            def moved() -> bool:
                again = another.describe_consumer_groups(["moves"])["moves"].result(PATIENCE_S)
                return bool(again.coordinator.id != described.coordinator.id)

            wait_until(moved, "another broker is the coordinator")
        finally:
            for each in members:
                each.stop()
