"""What is removed without a request."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups import expiry
from nodes.coordinators.groups.kind import Retention
from nodes.coordinators.machine import Now
from tests.support.nodes.group_offsets import (
    CHECK_MS,
    FIRST,
    RETENTION_MS,
    Coordinated,
    FakeKind,
)

T0 = ("topic", 0)
T1 = ("topic", 1)
LATER_MS = RETENTION_MS + CHECK_MS


def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    """Each by itself."""
    groups = Coordinated()
    groups.commit("g", {T0: 7})
    groups.driver.advance(RETENTION_MS / 2)
    groups.commit("g", {T1: 8})
    groups.driver.advance(RETENTION_MS / 2 - 2 * CHECK_MS)
    assert groups.fetch("g") == {T0: 7, T1: 8}
    groups.driver.advance(4 * CHECK_MS)
    assert groups.fetch("g") == {T1: 8}


def test_a_new_coordinator_does_not_expire_what_it_loads() -> None:
    """The time of the commit is in the record (KAFKA-8069)."""
    groups = Coordinated()
    groups.commit("g", {T0: 7})
    groups.driver.fail_over()
    groups.driver.advance(RETENTION_MS - 2 * CHECK_MS)
    assert groups.fetch("g") == {T0: 7}
    groups.driver.advance(4 * CHECK_MS)
    assert groups.fetch("g") == {}


def test_a_group_may_say_since_when_it_is_empty() -> None:
    """Then the age of the commits does not count."""
    kind = FakeKind({"g": None})
    groups = Coordinated(kind)
    groups.commit("g", {T0: 7})
    groups.driver.advance(RETENTION_MS - 2 * CHECK_MS)
    kind.age = Retention(groups.driver.now.wall_ms)
    groups.driver.advance(RETENTION_MS - 2 * CHECK_MS)
    assert groups.fetch("g") == {T0: 7}
    groups.driver.advance(4 * CHECK_MS)
    assert groups.fetch("g") == {}
    assert not kind.groups


def test_nothing_expires_while_a_group_rebalances() -> None:
    """The group says that nothing grows old (KAFKA-13636)."""
    kind = FakeKind({"g": None}, age=None)
    groups = Coordinated(kind)
    groups.commit("g", {T0: 7})
    groups.driver.advance(10 * LATER_MS)
    assert groups.fetch("g") == {T0: 7}


def test_offsets_of_subscribed_topics_never_expire() -> None:
    """Those of other topics do, and the group stays."""
    kind = FakeKind({"g": None}, topics=frozenset({"topic"}))
    groups = Coordinated(kind)
    groups.commit("g", {T0: 7, ("unsubscribed", 0): 8})
    groups.driver.advance(LATER_MS)
    assert groups.fetch("g") == {T0: 7}
    assert kind.groups


def test_a_group_with_members_outlives_its_offsets() -> None:
    """Only empty groups are removed."""
    kind = FakeKind({"g": None}, delete_error=ErrorCode.non_empty_group)
    groups = Coordinated(kind)
    groups.commit("g", {T0: 7})
    groups.driver.advance(LATER_MS)
    assert groups.fetch("g") == {}
    assert kind.groups
    kind.delete_error = ErrorCode.none
    groups.driver.advance(CHECK_MS)
    assert not kind.groups


def test_expiry_leaves_what_an_open_transaction_staged() -> None:
    """A tombstone would remove the staged offset too (Redpanda 31483)."""
    groups = Coordinated()
    groups.commit("g", {T0: 7})
    groups.commit("g", {T0: 9}, producer=FIRST)
    groups.driver.advance(LATER_MS)
    groups.driver.end_transaction(FIRST, commit=True)
    assert groups.fetch("g") == {T0: 9}


def test_a_client_may_give_the_time_of_retention() -> None:
    """OffsetCommit up to version 4."""
    groups = Coordinated()
    groups.commit("g", {T0: 7}, retention_ms=5 * CHECK_MS)
    groups.commit("g", {T1: 8}, retention_ms=2 * RETENTION_MS)
    groups.driver.advance(6 * CHECK_MS)
    assert groups.fetch("g") == {T1: 8}
    groups.driver.advance(LATER_MS)
    assert groups.fetch("g") == {T1: 8}
    groups.driver.advance(LATER_MS)
    assert groups.fetch("g") == {}


def test_deleted_topics_take_their_offsets_along() -> None:
    """Of all groups, also pending ones."""
    groups = Coordinated()
    groups.commit("a", {T0: 7, ("kept", 0): 1})
    groups.commit("b", {T1: 8})
    groups.commit("c", {T0: 9}, producer=FIRST)
    groups.topics_deleted("topic")
    groups.driver.end_transaction(FIRST, commit=True)
    assert [groups.fetch(name) for name in "abc"] == [{("kept", 0): 1}, {}, {}]


def test_topics_that_are_deleted_during_a_sweep_are_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sweep begins again, with all of them."""
    monkeypatch.setattr(expiry, "MAX_TOMBSTONES", 2)
    groups = Coordinated()
    for number in range(6):
        groups.commit(f"g{number}", {("one", 0): 1, ("two", 0): 2})
    driver = groups.driver
    driver.machine.topics_deleted(["one"])
    driver.perform(lambda m, t, now: m.tick(now))
    groups.topics_deleted("two")
    assert not driver.machine.offsets.groups()


def test_a_long_sweep_is_many_short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within one group."""
    monkeypatch.setattr(expiry, "MAX_TOMBSTONES", 10)
    monkeypatch.setattr(expiry, "MAX_SCANNED", 20)
    groups = Coordinated()
    groups.commit("large", {("topic", number): 1 for number in range(35)})
    for number in range(30):
        groups.commit(f"g{number}", {T0: 7})
    driver = groups.driver
    driver.now = Now(driver.now.ms + LATER_MS, driver.now.wall_ms + LATER_MS)
    batches = []
    assert driver.machine.tick(driver.now).separable  # they may be more than max.message.bytes
    while driver.machine.offsets.groups():
        before = len(driver.log)
        driver.perform(lambda m, t, now: m.tick(now))
        batches.append(len(driver.log) - before)
    assert batches == [10, 10, 10, 10, 10, 10, 5]
    assert driver.machine.deadline_ms() == driver.now.ms + CHECK_MS
