"""Scenarios of consumer groups: who joins, leaves, and gets which partitions when."""

from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.requests import Heartbeat
from nodes.coordinators.groups.settings import ConsumerSettings
from nodes.coordinators.machine import Answer
from tests.support.nodes.consumer_group import GROUP, Consumer, Driver, driver_of, settle
from tests.support.nodes.group_topics import FakeTopics


@pytest.fixture
def topics() -> FakeTopics:
    return FakeTopics(t=4)


@pytest.fixture
def driver(topics: FakeTopics) -> Driver:
    return driver_of(topics)


def consumer(driver: Driver, name: str, **options: object) -> Consumer:
    options.setdefault("topics", ("t",))
    return Consumer(driver, name, **options)  # type: ignore[arg-type]


def numbers(each: Consumer) -> set[int]:
    return {partition for _, partition in each.has}


def error(answer: Answer) -> ErrorCode:
    found = answer["error_code"]
    assert isinstance(found, ErrorCode)
    return found


def described(driver: Driver) -> Answer:
    return driver.machine.describe(GROUP)


def test_a_first_member_gets_everything_at_once(driver: Driver) -> None:
    """Its group has epoch 1, and is stable."""
    a = consumer(driver, "a")
    answer = a.join()
    assert answer["member_epoch"] == 1
    assert answer["heartbeat_interval"].total_seconds() == 5
    assert numbers(a) == {0, 1, 2, 3}
    assert described(driver)["group_state"] == "Stable"


def test_a_heartbeat_without_news_writes_nothing_and_tells_nothing(driver: Driver) -> None:
    """A full one is told its assignment all the same."""
    a = consumer(driver, "a")
    a.join()
    size = len(driver.log)
    assert a.beat()["assignment"] is None
    assert a.beat(full=True)["assignment"] is not None
    assert len(driver.log) == size


def test_a_partition_is_withheld_until_its_owner_has_revoked_it(driver: Driver) -> None:
    """crabka 521: the new owner waits, however often it asks."""
    a, b = consumer(driver, "a"), consumer(driver, "b")
    a.join()
    b.join()
    assert (b.epoch, numbers(b)) == (2, set())
    a.revokes_at_once = False
    a.beat()
    assert a.epoch == 1, "it stays in its epoch until it has revoked"
    for _ in range(3):
        b.beat()
        a.beat()
    assert numbers(b) == set()
    assert numbers(a) == {0, 1, 2, 3}
    assert described(driver)["group_state"] == "Reconciling"
    a.has = {each for each in a.has if each[1] < 2}
    a.beat()
    b.beat()
    assert a.epoch == b.epoch == 2
    assert (numbers(a), numbers(b)) == ({0, 1}, {2, 3})
    assert described(driver)["group_state"] == "Stable"


def test_the_partitions_of_a_member_that_leaves_go_to_the_others(driver: Driver) -> None:
    """In a new epoch; the last one leaves an empty group."""
    a, b = consumer(driver, "a"), consumer(driver, "b")
    a.join(), b.join()
    settle([a, b])
    assert b.leave()["member_epoch"] == -1
    a.beat()
    assert (a.epoch, numbers(a)) == (3, {0, 1, 2, 3})
    a.leave()
    assert described(driver)["group_state"] == "Empty"
    assert described(driver)["members"] == ()
    assert driver.machine.groups[GROUP].metadata_hash == 0, "it reads no topic"


def test_a_groups_own_session_timeout_replaces_the_brokers() -> None:
    """And its interval of heartbeats; from the next heartbeat on."""
    configs: dict[str, dict[str, str]] = {}
    driver = driver_of(FakeTopics(t=1), configs=configs)
    consumer = Consumer(driver, "a", ("t",))
    assert consumer.join()["heartbeat_interval"] == timedelta(seconds=5)
    configs[GROUP] = {
        "consumer.session.timeout.ms": "60000",
        "consumer.heartbeat.interval.ms": "15000",
    }
    assert consumer.beat()["heartbeat_interval"] == timedelta(seconds=15)
    driver.advance(59_999)
    assert "a" in driver.machine.groups[GROUP].members
    driver.advance(1)
    assert not driver.machine.groups[GROUP].members


def test_a_member_without_heartbeats_is_removed_after_its_session(driver: Driver) -> None:
    """Not before, and its epoch is fenced for good."""
    a, b = consumer(driver, "a"), consumer(driver, "b")
    a.join(), b.join()
    settle([a, b])
    driver.advance(44_999)
    b.beat()
    driver.advance(1)
    b.beat()
    assert numbers(b) == {0, 1, 2, 3}
    assert error(a.beat()) is ErrorCode.unknown_member_id


def test_a_member_that_does_not_revoke_in_time_is_removed(driver: Driver) -> None:
    """Though it sends heartbeats: the others wait for its partitions."""
    a, b = consumer(driver, "a", rebalance_timeout_ms=7_000), consumer(driver, "b")
    a.join(), b.join()
    a.revokes_at_once = False
    a.beat()
    driver.advance(6_999)
    assert error(a.beat()) is ErrorCode.none
    driver.advance(1)
    b.beat()
    assert numbers(b) == {0, 1, 2, 3}
    assert error(a.beat()) is ErrorCode.unknown_member_id


def test_time_to_revoke_ends_with_the_revocation(driver: Driver) -> None:
    """And then no longer limits the member."""
    a, b = consumer(driver, "a", rebalance_timeout_ms=7_000), consumer(driver, "b")
    a.join(), b.join()
    settle([a, b])
    driver.advance(7_001)
    assert error(a.beat()) is ErrorCode.none


def test_a_wrong_epoch_is_fenced(driver: Driver) -> None:
    """A larger one, and a smaller one; joining again with epoch 0 is allowed."""
    a, b = consumer(driver, "a"), consumer(driver, "b")
    a.join(), b.join()
    settle([a, b])
    for epoch in (1, 3):
        request = Heartbeat(GROUP, "a", epoch, owned={UUID(int=1): frozenset({1})})
        answer = driver.ask(lambda m, token, now, r=request: m.heartbeat(r, token, now))  # type: ignore[misc]
        assert error(answer) is ErrorCode.fenced_member_epoch
    assert a.join()["member_epoch"] == 2
    assert numbers(a) == {0, 1}


def test_a_member_whose_answer_was_lost_may_come_with_its_previous_epoch(driver: Driver) -> None:
    """If it has nothing that it was not given since."""
    a, b = consumer(driver, "a"), consumer(driver, "b")
    a.join(), b.join()
    a.beat()
    a.beat(lose_answer=True)
    assert a.epoch == 1
    assert error(a.beat(owned=None)) is ErrorCode.fenced_member_epoch
    a.join()
    b.leave()
    a.beat(lose_answer=True)
    assert error(a.beat()) is ErrorCode.none
    assert numbers(a) == {0, 1, 2, 3}


def test_unknown_groups_and_members_are_refused(driver: Driver) -> None:
    """Only a heartbeat that joins makes a group or a member."""
    a = consumer(driver, "a", epoch=1)
    assert error(a.beat()) is ErrorCode.group_id_not_found
    assert error(a.leave()) is ErrorCode.group_id_not_found
    consumer(driver, "b").join()
    a.epoch = 1
    assert error(a.beat()) is ErrorCode.unknown_member_id
    assert error(a.leave()) is ErrorCode.unknown_member_id


def test_a_member_that_changes_its_topics_has_the_new_ones_and_gives_up_the_old(
    driver: Driver, topics: FakeTopics
) -> None:
    """At once, though another member still subscribes to the old ones."""
    topics.create("u", 2)
    a, b = consumer(driver, "a"), consumer(driver, "b")
    a.join(), b.join()
    settle([a, b])
    answer = a.beat(topic_names=("u",))
    assert answer["assignment"] == {"topic_partitions": ()}, "nothing of t, and u after that"
    a.topics = ("u",)
    settle([a, b])
    assert numbers(b) == {0, 1, 2, 3}
    assert {topic for topic, _ in a.has} == {topics.topic("u").topic_id}  # type: ignore[union-attr]


def test_a_member_that_joins_without_topics_makes_no_epoch(driver: Driver) -> None:
    """As in Kafka; it makes one when it subscribes."""
    a, b = consumer(driver, "a"), consumer(driver, "b", topics=())
    a.join(), b.join()
    assert (b.epoch, described(driver)["group_epoch"]) == (1, 1)
    b.beat(topic_names=("t",))
    assert described(driver)["group_epoch"] == 2


def test_topics_that_change_make_a_new_epoch(driver: Driver, topics: FakeTopics) -> None:
    """Created, grown, deleted, created again. Other topics change nothing."""
    a = consumer(driver, "a", topics=("t", "later"))
    a.join()
    topics.create("other", 1)
    a.beat()
    assert a.epoch == 1
    topics.create("later", 2)
    a.beat()
    assert (a.epoch, len(a.has)) == (2, 6)
    topics.grow("later", 3)
    a.beat()
    assert (a.epoch, len(a.has)) == (3, 7)
    topics.delete("later")
    settle([a])
    assert (a.epoch, len(a.has)) == (4, 4)
    topics.create("later", 2)
    settle([a])
    assert (a.epoch, len(a.has)) == (5, 6)


@pytest.mark.parametrize("options", [{"group_id": "g" * 32_768}, {"member_id": "é" * 16_384}])
def test_an_id_that_fits_into_no_record_is_refused(driver: Driver, options: dict[str, str]) -> None:
    """A record's key has two bytes for its length; the longest that fits is allowed."""
    a = consumer(driver, "a")
    a.group_id = options.get("group_id", GROUP)
    a.member_id = options.get("member_id", "a")
    assert error(a.join()) is ErrorCode.invalid_request
    a.group_id, a.member_id = a.group_id[:32_767], a.member_id[:16_383]
    assert error(a.join()) is ErrorCode.none


def test_a_group_is_full_at_its_limit(topics: FakeTopics) -> None:
    """Members may still come back."""
    driver = driver_of(topics, ConsumerSettings(max_size=1))
    a, b = consumer(driver, "a"), consumer(driver, "b")
    a.join()
    assert error(b.join()) is ErrorCode.group_max_size_reached
    assert error(a.join()) is ErrorCode.none


def test_most_members_choose_the_assignor(driver: Driver) -> None:
    """By default, and of equals, the first configured; an unknown one is refused."""
    members = [consumer(driver, name, assignor="range") for name in "abc"]
    members[0].assignor = None
    members[0].join()
    assert described(driver)["assignor_name"] == "uniform"
    members[1].join(), members[2].join()
    assert described(driver)["assignor_name"] == "range"
    bad = consumer(driver, "d", assignor="sticky")
    assert error(bad.join()) is ErrorCode.unsupported_assignor


def test_a_member_id_is_made_for_old_clients_alone(driver: Driver) -> None:
    """Version 1 has the client make it (KIP-1082)."""
    a = consumer(driver, "")
    assert error(a.join()) is ErrorCode.invalid_request
    a.beat(version=0)
    assert a.member_id
    assert a.member_id in driver.machine.groups[GROUP].members


def test_a_new_leader_knows_the_group_and_begins_its_sessions_anew(driver: Driver) -> None:
    """Also a revocation that goes on."""
    a, b = consumer(driver, "a", rebalance_timeout_ms=7_000), consumer(driver, "b")
    a.join(), b.join()
    a.revokes_at_once = False
    a.beat()
    driver.fail_over()
    driver.advance(6_999)
    assert error(a.beat()) is ErrorCode.none
    b.beat()
    assert numbers(b) == set()
    driver.advance(1)
    b.beat()
    assert numbers(b) == {0, 1, 2, 3}
    driver.advance(45_000)
    assert described(driver)["group_state"] == "Empty"


def test_the_description_of_a_group(driver: Driver, topics: FakeTopics) -> None:
    """Current and target assignments with names; a group that does not exist."""
    a, b = consumer(driver, "a", instance_id="i"), consumer(driver, "b")
    a.join(), b.join()
    found = described(driver)
    assert found["group_state"] == "Reconciling"
    assert (found["group_epoch"], found["assignment_epoch"]) == (2, 2)
    mine, other = found["members"]
    assert (mine["member_id"], mine["instance_id"], mine["member_type"]) == ("a", "i", 1)
    (row,) = mine["assignment"]["topic_partitions"]
    assert (row["topic_name"], row["partitions"]) == ("t", (0, 1, 2, 3))
    (row,) = other["target_assignment"]["topic_partitions"]
    assert row["partitions"] == (2, 3)
    topics.delete("t")
    assert described(driver)["members"][0]["assignment"] == {"topic_partitions": ()}
    assert error(driver.machine.describe("none")) is ErrorCode.group_id_not_found
