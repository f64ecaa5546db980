"""A group moves to the consumer protocol while its members work (KIP-848)."""

from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.requests import (
    Client,
    Identity,
    Join,
    Leaver,
    MemberProtocol,
    Sync,
)
from nodes.coordinators.groups.consumer.requests import Heartbeat
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.embedded import read_assignment, write_assignment
from nodes.coordinators.groups.settings import ClassicSettings, ConsumerSettings, GroupSettings
from nodes.coordinators.machine import Answer, Token
from tests.support.nodes.consumer_group import by_topic, pairs
from tests.support.nodes.group_topics import FakeTopics
from tests.support.nodes.machine_driver import MachineDriver

Driver = MachineDriver[GroupCoordinator]
PARTITIONS = 4
SUBSCRIBED = bytes.fromhex("0001 00000001 000174 ffffffff")
"""Version 1, topic "t", no user data; the owned partitions follow."""
NO_TOPICS = bytes.fromhex("0001 00000000 ffffffff 00000000")


def driver_of(policy: str = "bidirectional") -> Driver:
    topics = FakeTopics(t=PARTITIONS)
    settings = GroupSettings(
        classic=ClassicSettings(initial_rebalance_delay_ms=0),
        consumer=ConsumerSettings(migration_policy=policy),
    )
    random = Random(1)  # of a broker: its coordinators never give the same member id twice
    return MachineDriver(lambda: GroupCoordinator(settings, lambda: topics, random))


def subscription(owned: set[int]) -> bytes:
    """Of the topic t; a cooperative member says what it has."""
    return SUBSCRIBED + write_assignment({"t": frozenset(owned)}, 0)[2:-4]


@dataclass
class Classic:
    """A member of the classic protocol with a cooperative assignor."""

    driver: Driver
    name: str
    instance_id: str | None = None
    has: set[int] = field(default_factory=set)
    generation: int = -1
    member_id: str = ""
    version: int = 3
    rebalance_timeout_ms: int = 30_000

    @property
    def who(self) -> Identity:
        return Identity("g", self.member_id, self.instance_id)

    def ask_to_join(self) -> Token:
        request = Join(
            self.who,
            Client("client", "/host"),
            "consumer",
            (MemberProtocol("cooperative-sticky", subscription(self.has)),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            version=self.version,
        )
        token = self.driver.perform(lambda m, token, now: m.join(request, token, now))
        self.driver.advance(0)
        return token

    def joined(self, answer: Answer) -> ErrorCode:
        error = answer["error_code"]
        if error is ErrorCode.none:
            self.member_id, self.generation = answer["member_id"], answer["generation_id"]
        return ErrorCode(error)

    def sync(self, assignments: tuple[tuple[str, bytes], ...] = ()) -> ErrorCode:
        request = Sync(self.who, self.generation, "consumer", "cooperative-sticky", assignments)
        answer = self.driver.ask(lambda m, token, now: m.sync(request, token, now))
        if answer["error_code"] is ErrorCode.none:
            partitions, _ = read_assignment(answer["assignment"])
            self.has = set(partitions.get("t", frozenset()))
        return ErrorCode(answer["error_code"])

    def beat(self) -> ErrorCode:
        """A heartbeat; a member that is told to join again does."""
        who, generation = self.who, self.generation
        answer = self.driver.ask(lambda m, token, now: m.heartbeat(who, generation, token, now))
        if answer["error_code"] is ErrorCode.rebalance_in_progress:
            assert self.joined(self.driver.answers[self.ask_to_join()]) is ErrorCode.none
            self.sync()
        return ErrorCode(answer["error_code"])

    def leave(self) -> None:
        leaver = Leaver(self.member_id, self.instance_id)
        self.driver.ask(lambda m, token, now: m.leave("g", (leaver,), token, now))
        self.has.clear()


@dataclass
class Modern:
    """A member of the consumer protocol."""

    driver: Driver
    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    has: set[tuple[UUID, int]] = field(default_factory=set)

    def beat(self) -> ErrorCode:
        request = Heartbeat(
            "g",
            self.member_id,
            self.epoch,
            self.instance_id,
            rebalance_timeout_ms=30_000,
            topic_names=("t",),
            owned=by_topic(self.has),
        )
        answer = self.driver.ask(lambda m, token, now: m.consumer_heartbeat(request, token, now))
        if answer["error_code"] is ErrorCode.none:
            self.epoch = answer["member_epoch"]
            if answer.get("assignment") is not None:
                self.has = pairs(answer["assignment"]["topic_partitions"])
        return ErrorCode(answer["error_code"])


def classic_pair(driver: Driver) -> tuple[Classic, Classic]:
    """Two members of a stable classic group, with two partitions each."""
    a, b = Classic(driver, "a"), Classic(driver, "b", instance_id="i")
    tokens = [a.ask_to_join()]
    a.joined(driver.answers[tokens[0]])
    second = b.ask_to_join()
    again = a.ask_to_join()
    assert a.joined(driver.answers[again]) is b.joined(driver.answers[second]) is ErrorCode.none
    half = (
        (a.member_id, write_assignment({"t": frozenset({0, 1})}, 0)),
        (b.member_id, write_assignment({"t": frozenset({2, 3})}, 0)),
    )
    assert a.sync(half) is b.sync() is ErrorCode.none
    assert (a.has, b.has) == ({0, 1}, {2, 3})
    return a, b


def check(driver: Driver, classics: list[Classic], moderns: list[Modern]) -> None:
    """Nobody has what another has, and the log says what is remembered."""
    owned = [p for each in classics for p in each.has] + [p for m in moderns for _, p in m.has]
    assert len(owned) == len(set(owned))
    live = (driver.machine.classic.remembered, driver.machine.consumer.remembered())
    for compacted in (False, True):
        other = driver.rebuilt(compacted=compacted)
        assert (other.classic.remembered, other.consumer.remembered()) == live


def settle(driver: Driver, classics: list[Classic], moderns: list[Modern]) -> None:
    for _ in range(6):
        for each in (*classics, *moderns):
            each.beat()
            check(driver, classics, moderns)


def group_type(driver: Driver) -> str:
    answer = driver.ask(lambda m, token, now: m.list_groups((), (), token, now))
    (row,) = answer["groups"]
    return f"{row['group_state']} {row['group_type']}"


def test_a_group_is_upgraded_member_by_member() -> None:
    """Every partition is read by one member at a time, and by somebody in the end."""
    driver = driver_of()
    a, b = classic_pair(driver)
    generation = a.generation
    first = Modern(driver, "m1")
    assert first.beat() is ErrorCode.none
    assert first.epoch == generation + 1
    assert group_type(driver) == "Reconciling Consumer"
    settle(driver, [a, b], [first])
    assert sorted(map(len, (a.has, b.has, first.has))) == [1, 1, 2]
    assert group_type(driver) == "Stable Consumer"
    a.leave()
    second = Modern(driver, "m2", "i")
    second.beat()
    b.has.clear()
    assert b.beat() is ErrorCode.fenced_instance_id, "its instance id is the new member's"
    settle(driver, [], [first, second])
    assert (len(first.has), len(second.has)) == (2, 2)


def test_who_waits_in_the_classic_group_is_told_to_join_again() -> None:
    """In a join or in a sync; then it is a member of the consumer group."""
    driver = driver_of()
    a, b = classic_pair(driver)
    waiting = a.ask_to_join()
    assert waiting not in driver.answers
    first = Modern(driver, "m1")
    assert first.beat() is ErrorCode.none
    assert driver.answers[waiting]["error_code"] is ErrorCode.rebalance_in_progress
    assert a.joined(driver.answers[a.ask_to_join()]) is ErrorCode.none
    assert a.sync() is ErrorCode.none
    settle(driver, [a, b], [first])
    assert group_type(driver) == "Stable Consumer"


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_an_upgrade_needs_the_policy(policy: str) -> None:
    """Then consumers are refused while the group has members, and nothing changes."""
    driver = driver_of(policy)
    a, _ = classic_pair(driver)
    assert Modern(driver, "m1").beat() is ErrorCode.group_id_not_found
    assert group_type(driver) == "Stable Classic"
    assert a.beat() is ErrorCode.none


def test_a_group_with_data_of_a_custom_assignor_is_not_upgraded() -> None:
    """The data would be lost."""
    driver = driver_of()
    a, b = classic_pair(driver)
    token = b.ask_to_join()
    a.joined(driver.answers[a.ask_to_join()])
    b.joined(driver.answers[token])
    custom = write_assignment({}, 0)[:-4] + bytes.fromhex("00000001 78")
    a.sync(((a.member_id, custom), (b.member_id, custom)))
    b.sync()
    assert Modern(driver, "m1").beat() is ErrorCode.group_id_not_found
    assert group_type(driver) == "Stable Classic"


def test_classic_members_join_a_consumer_group() -> None:
    """Also with the id that they are given first; not with a protocol of another type."""
    driver = driver_of()
    first = Modern(driver, "m1")
    first.beat()
    a = Classic(driver, "a", version=9)
    answer = driver.answers[a.ask_to_join()]
    assert answer["error_code"] is ErrorCode.member_id_required
    a.member_id = answer["member_id"]
    assert a.joined(driver.answers[a.ask_to_join()]) is ErrorCode.none
    assert a.sync() is ErrorCode.none
    settle(driver, [a], [first])
    assert (len(a.has), len(first.has)) == (2, 2)
    other = Classic(driver, "b", instance_id="i")
    other.member_id = "unknown"
    assert other.joined(driver.answers[other.ask_to_join()]) is ErrorCode.unknown_member_id


def test_a_classic_member_is_removed_if_it_does_not_join_or_sync_in_time() -> None:
    """It has its rebalance time-out, though it sends heartbeats."""
    driver = driver_of()
    first = Modern(driver, "m1")
    first.beat()
    a = Classic(driver, "a", rebalance_timeout_ms=3_000)
    a.joined(driver.answers[a.ask_to_join()])
    driver.advance(3_001)
    assert a.sync() is ErrorCode.unknown_member_id
    a.member_id = ""
    a.joined(driver.answers[a.ask_to_join()])
    a.sync()
    settle(driver, [a], [first])
    driver.advance(3_001)
    assert a.beat() is ErrorCode.none, "it is where it shall be"
    Modern(driver, "m2").beat()
    who, generation = a.who, a.generation
    for _ in range(2):
        answer = driver.ask(lambda m, token, now: m.heartbeat(who, generation, token, now))
        assert answer["error_code"] is ErrorCode.rebalance_in_progress
        driver.advance(1_600)
    assert a.beat() is ErrorCode.unknown_member_id


def test_a_classic_member_commits_in_its_generation() -> None:
    """And is fenced with the error of its protocol."""
    driver = driver_of()
    a, _ = classic_pair(driver)
    Modern(driver, "m1").beat()
    assert a.sync() is ErrorCode.rebalance_in_progress
    a.generation += 5
    assert a.sync() is ErrorCode.illegal_generation
    assert a.beat() is ErrorCode.illegal_generation


def test_a_new_leader_knows_the_members_of_both_protocols() -> None:
    """The classic one's session is its own."""
    driver = driver_of()
    a, b = classic_pair(driver)
    first = Modern(driver, "m1")
    first.beat()
    driver.fail_over()
    settle(driver, [a, b], [first])
    driver.advance(9_000)
    first.beat()
    assert a.beat() is ErrorCode.none
    driver.advance(2_000)
    assert b.beat() is ErrorCode.unknown_member_id


def test_a_group_is_downgraded_when_its_last_consumer_leaves() -> None:
    """The members that are left join again, and nobody has what another has meanwhile."""
    driver = driver_of()
    a, b = classic_pair(driver)
    first = Modern(driver, "m1")
    first.beat()
    settle(driver, [a, b], [first])
    had = (set(a.has), set(b.has))
    first.epoch = -1
    first.beat()
    assert group_type(driver) == "PreparingRebalance Classic"
    check(driver, [a, b], [])
    who, generation = b.who, b.generation
    answer = driver.ask(lambda m, token, now: m.heartbeat(who, generation, token, now))
    again = (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation)
    assert answer["error_code"] in again
    tokens = (a.ask_to_join(), b.ask_to_join())
    assert all(
        each.joined(driver.answers[token]) is ErrorCode.none
        for each, token in zip((a, b), tokens, strict=True)
    )
    assert had == (a.has, b.has)
    assert group_type(driver) == "CompletingRebalance Classic"


@pytest.mark.parametrize("ends", ["session", "leave"])
def test_a_group_is_downgraded_whatever_removes_its_last_consumer(ends: str) -> None:
    """Its session ends, or it leaves. A new leader knows it. Upgrades may be forbidden."""
    driver = driver_of("downgrade")
    first = Modern(driver, "m1")
    first.beat()
    a = Classic(driver, "a")
    a.joined(driver.answers[a.ask_to_join()])
    a.sync()
    settle(driver, [a], [first])
    if ends == "leave":
        first.epoch = -1
        first.beat()
    else:
        for _ in range(10):
            driver.advance(4_600)
            a.beat()
    assert group_type(driver).endswith("Classic")
    driver.fail_over()
    assert group_type(driver).endswith("Classic")
    check(driver, [], [])


def test_a_static_member_that_replaces_the_last_consumer_downgrades_without_a_rebalance() -> None:
    """It has the consumer's partitions, and the others keep theirs. A new leader knows it."""
    driver = driver_of()
    last = Modern(driver, "m1", instance_id="s")
    last.beat()
    a = Classic(driver, "a")
    a.joined(driver.answers[a.ask_to_join()])
    a.sync()
    settle(driver, [a], [last])
    had = (set(a.has), {partition for _, partition in last.has})
    back = Classic(driver, "s", instance_id="s")
    assert back.joined(driver.answers[back.ask_to_join()]) is ErrorCode.none
    assert group_type(driver) == "Stable Classic"
    assert back.sync() is a.beat() is back.beat() is ErrorCode.none
    assert (a.has, back.has) == had
    driver.fail_over()
    assert a.beat() is back.beat() is ErrorCode.none


def test_a_static_member_with_another_subscription_downgrades_with_a_rebalance() -> None:
    """Partitions have to move."""
    driver = driver_of()
    last = Modern(driver, "m1", instance_id="s")
    last.beat()
    a = Classic(driver, "a")
    a.joined(driver.answers[a.ask_to_join()])
    a.sync()
    settle(driver, [a], [last])
    nothing = Join(
        Identity("g", "", "s"),
        Client("client", "/host"),
        "consumer",
        (MemberProtocol("cooperative-sticky", NO_TOPICS),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        version=3,
    )
    driver.ask(lambda m, token, now: m.join(nothing, token, now))
    assert group_type(driver) == "PreparingRebalance Classic"


def test_a_group_stays_a_consumer_group_if_the_policy_says_so() -> None:
    """With members of the classic protocol alone."""
    driver = driver_of("upgrade")
    a, b = classic_pair(driver)
    first = Modern(driver, "m1")
    first.beat()
    first.epoch = -1
    first.beat()
    settle(driver, [a, b], [])
    assert group_type(driver) == "Stable Consumer"
    assert (len(a.has), len(b.has)) == (2, 2)


@pytest.mark.parametrize("seed", range(12))
def test_random_members_of_both_protocols(seed: int) -> None:
    """They come, work and go; nobody ever has what another has."""
    random = Random(seed)
    driver = driver_of()
    classics: list[Classic] = []
    moderns: list[Modern] = []
    for count in range(60):
        match random.choice(["classic", "modern", "beat", "beat", "beat", "leave", "fail over"]):
            case "classic" if len(classics) < 3 and moderns:
                each = Classic(driver, f"c{count}", random.choice([None, f"i{count}"]))
                if each.joined(driver.answers[each.ask_to_join()]) is ErrorCode.none:
                    each.sync()
                    classics.append(each)
            case "modern" if len(moderns) < 3:
                moderns.append(Modern(driver, f"m{count}"))
                moderns[-1].beat()
            case "leave" if len(moderns) > 1 and random.random() < 0.5:
                gone = moderns.pop(random.randrange(len(moderns)))
                gone.has.clear()
                gone.epoch = -1
                gone.beat()
            case "leave" if classics:
                classics.pop(random.randrange(len(classics))).leave()
            case "fail over":
                driver.fail_over()
            case _:
                for member in random.sample([*classics, *moderns], len(classics) + len(moderns)):
                    member.beat()
        check(driver, classics, moderns)
    if moderns:
        settle(driver, classics, moderns)
        owned = [p for c in classics for p in c.has] + [p for m in moderns for _, p in m.has]
        assert sorted(owned) == list(range(PARTITIONS))
