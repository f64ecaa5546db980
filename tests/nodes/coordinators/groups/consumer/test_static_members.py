"""Static members of consumer groups (KIP-345): they leave for a while, and come back as another."""

from kio.schema.errors import ErrorCode

from tests.support.nodes.consumer_group import Consumer, Driver, driver_of, settle
from tests.support.nodes.group_topics import FakeTopics


def static(driver: Driver, member_id: str, instance_id: str) -> Consumer:
    return Consumer(driver, member_id, ("t",), instance_id=instance_id)


def pair() -> tuple[Driver, Consumer, Consumer]:
    driver = driver_of(FakeTopics(t=4))
    a, b = static(driver, "a", "i"), static(driver, "b", "j")
    a.join(), b.join()
    settle([a, b])
    return driver, a, b


def test_a_static_member_that_comes_back_has_its_partitions_without_a_new_epoch() -> None:
    """Nobody else gets them meanwhile."""
    driver, a, b = pair()
    had, other = set(a.has), set(b.has)
    assert a.leave(-2)["member_epoch"] == -2
    b.beat()
    assert b.has == other
    back = static(driver, "a2", "i")
    answer = back.join()
    assert (back.epoch, back.has) == (a.epoch, had)
    assert answer["member_id"] == "a2"
    assert driver.machine.groups["group"].members.keys() == {"b", "a2"}
    b.beat()
    assert (b.epoch, b.has) == (back.epoch, other)


def test_a_static_member_that_comes_back_with_other_topics_gets_those() -> None:
    """And gives up the others, in a new epoch."""
    driver, a, b = pair()
    a.leave(-2)
    back = static(driver, "a2", "i")
    back.topics = ()
    back.join()
    settle([b, back])
    assert back.has == set()
    assert len(b.has) == 4


def test_an_instance_id_in_use_is_not_released() -> None:
    """Unless its member left; a second consumer with the same instance id cannot join."""
    driver, a, _ = pair()
    assert static(driver, "x", "i").join()["error_code"] is ErrorCode.unreleased_instance_id
    assert a.beat()["error_code"] is ErrorCode.none


def test_a_replaced_static_member_is_fenced() -> None:
    """Its heartbeats and its leaving are refused: they would harm its successor."""
    driver, a, _ = pair()
    a.leave(-2)
    static(driver, "a2", "i").join()
    a.epoch = 2
    assert a.beat(full=True)["error_code"] is ErrorCode.fenced_instance_id
    assert a.leave(-1)["error_code"] is ErrorCode.fenced_instance_id
    gone = static(driver, "a", "k")
    gone.epoch = 1
    assert gone.beat()["error_code"] is ErrorCode.unknown_member_id


def test_a_static_member_that_stays_away_is_removed_after_its_session() -> None:
    """It was heard last before it left."""
    _, a, b = pair()
    a.leave(-2)
    a.driver.advance(44_000)
    b.beat()
    a.driver.advance(1_000)
    settle([b])
    assert len(b.has) == 4


def test_a_static_member_may_leave_for_good() -> None:
    """Then the others get its partitions at once; a dynamic member has no other way."""
    driver, a, b = pair()
    a.leave(-1)
    settle([b])
    assert len(b.has) == 4
    dynamic = Consumer(driver, "d", ("t",))
    dynamic.join()
    assert dynamic.leave(-2)["error_code"] is ErrorCode.invalid_request


def test_a_static_member_that_left_while_it_revoked_frees_what_it_had_to_revoke() -> None:
    """And the time to revoke limits it no more."""
    driver = driver_of(FakeTopics(t=4))
    a, b = static(driver, "a", "i"), Consumer(driver, "b", ("t",))
    a.rebalance_timeout_ms = 1_000
    a.join(), b.join()
    a.revokes_at_once = False
    a.beat()
    a.leave(-2)
    b.beat()
    assert len(b.has) == 2
    driver.advance(1_001)
    back = static(driver, "a2", "i")
    back.join()
    assert len(back.has) == 2
    assert not back.has & b.has
