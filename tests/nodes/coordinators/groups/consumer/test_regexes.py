"""Members that subscribe to regular expressions."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.group import ConsumerGroup
from tests.support.nodes.consumer_group import GROUP, Consumer, Driver, driver_of, settle
from tests.support.nodes.group_topics import FakeTopics


@pytest.fixture
def topics() -> FakeTopics:
    return FakeTopics(x1=2, x2=2, y=1)


@pytest.fixture
def driver(topics: FakeTopics) -> Driver:
    return driver_of(topics)


def names(topics: FakeTopics, each: Consumer) -> set[str]:
    found = (topics.topic_of(topic_id) for topic_id, _ in each.has)
    return {topic.name for topic in found if topic is not None}


def test_a_member_gets_the_topics_that_match(driver: Driver, topics: FakeTopics) -> None:
    """At once, also beside topics by name, and beside a member of another expression."""
    a, b = Consumer(driver, "a", ("y",), "x1"), Consumer(driver, "b", None, "x.*")
    a.join()
    assert names(topics, a) == {"x1", "y"}
    b.join()
    settle([a, b])
    assert names(topics, b) == {"x1", "x2"} or names(topics, b) == {"x2"}
    assert len(a.has) + len(b.has) == 5


def test_an_invalid_expression_is_refused(driver: Driver) -> None:
    """When the member joins, and when it changes its expression."""
    assert Consumer(driver, "a", None, "(").join()["error_code"] is (
        ErrorCode.invalid_regular_expression
    )
    assert not driver.machine.has(GROUP)
    b = Consumer(driver, "b", None, "x.*")
    b.join()
    assert b.beat(topic_regex="[")["error_code"] is ErrorCode.invalid_regular_expression
    assert b.beat()["error_code"] is ErrorCode.none


def test_a_created_topic_is_found_after_ten_seconds_at_most(
    driver: Driver, topics: FakeTopics
) -> None:
    """Not sooner, so that many created topics cause few rebalances."""
    a = Consumer(driver, "a", None, "x.*")
    a.join()
    topics.create("x3", 1)
    driver.advance(10_000)
    a.beat()
    assert names(topics, a) == {"x1", "x2"}
    driver.advance(1)
    a.beat()
    assert names(topics, a) == {"x1", "x2", "x3"}
    assert a.epoch == 2
    size = len(driver.log)
    driver.advance(20_000)
    a.beat()
    assert len(driver.log) == size, "no topic was created since"


def test_expressions_are_refreshed_after_their_interval(driver: Driver, topics: FakeTopics) -> None:
    """A deleted topic is gone from the record then; it was gone from the assignment before."""
    a = Consumer(driver, "a", None, "x.*")
    a.join()
    topics.delete("x2")
    a.beat()
    assert names(topics, a) == {"x1"}
    for _ in range(30):
        driver.advance(20_001)
        a.beat()
    assert driver.machine.groups[GROUP].regexes["x.*"].topics == {"x1"}
    assert len(a.has) == 2


def test_an_expression_without_members_is_forgotten(driver: Driver) -> None:
    """When the last one changes it, leaves, or is removed."""
    a, b = Consumer(driver, "a", None, "x.*"), Consumer(driver, "b", None, "y")
    a.join(), b.join()

    def group() -> ConsumerGroup:
        return driver.machine.groups[GROUP]

    assert group().regexes.keys() == {"x.*", "y"}
    a.beat(topic_regex="y")
    assert group().regexes.keys() == {"y"}
    a.beat(topic_regex="")
    assert group().regexes.keys() == {"y"}
    b.leave()
    assert group().regexes == {}
    assert group().subscribed_names() == set()


def test_a_member_that_joins_an_expression_that_others_have_shares_its_topics(
    driver: Driver, topics: FakeTopics
) -> None:
    """In a new epoch."""
    a, b = Consumer(driver, "a", None, "x.*"), Consumer(driver, "b", None, "x.*")
    a.join(), b.join()
    settle([a, b])
    assert a.epoch == b.epoch == 2
    assert (len(a.has), len(b.has)) == (2, 2)


def test_an_expression_that_matches_what_others_read_by_name_makes_a_new_epoch(
    driver: Driver, topics: FakeTopics
) -> None:
    """The group reads the same topics as before: their hash does not change."""
    a, b = Consumer(driver, "a", ("x1", "x2")), Consumer(driver, "b", None, "x[12]|z")
    a.join()
    b.join()
    settle([a, b])
    assert len(b.has) == 2
    topics.create("z", 1)
    c = Consumer(driver, "c", ("z",))
    c.join()
    driver.advance(10_001)
    settle([a, b, c])
    assert "z" in driver.machine.groups[GROUP].regexes["x[12]|z"].topics
