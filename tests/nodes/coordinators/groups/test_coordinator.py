"""Which kind a group id has, and how one kind makes way for the other."""

import random
from random import Random
from typing import Any

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
from nodes.coordinators.groups.settings import (
    ClassicSettings,
    ConsumerSettings,
    GroupSettings,
    OffsetSettings,
)
from nodes.coordinators.machine import Answer
from tests.support.nodes.group_offsets import FIRST, commit_of, errors
from tests.support.nodes.group_topics import FakeTopics
from tests.support.nodes.machine_driver import MachineDriver

GROUP = "g"
SESSION_MS = 10_000
T0 = ("topic", 0)
SETTINGS = GroupSettings(
    offsets=OffsetSettings(retention_ms=60_000, retention_check_interval_ms=1_000),
    classic=ClassicSettings(initial_rebalance_delay_ms=0),
    consumer=ConsumerSettings(migration_policy="disabled"),
)

Driver = MachineDriver[GroupCoordinator]


def driver_of(topics: FakeTopics) -> Driver:
    return MachineDriver(lambda: GroupCoordinator(SETTINGS, lambda: topics, Random(7)))


@pytest.fixture
def driver() -> Driver:
    return driver_of(FakeTopics(topic=2))


def join(driver: Driver, group: str = GROUP, version: int = 3) -> Answer:
    """One classic member joins; its generation is complete at once."""
    request = Join(
        Identity(group),
        Client("client", "/host"),
        "consumer",
        (MemberProtocol("range", b"\0\0\0\0\0\1\0\5topic\xff\xff\xff\xff"),),
        SESSION_MS,
        SESSION_MS,
        version,
    )
    token = driver.perform(lambda m, t, now: m.join(request, t, now))
    driver.advance(0)
    return driver.answers.get(token, {"error_code": None})


def leave(driver: Driver, joined: Answer, group: str = GROUP) -> None:
    leavers = (Leaver(joined["member_id"]),)
    driver.ask(lambda m, t, now: m.leave(group, leavers, t, now))


def beat(driver: Driver, epoch: int = 0, group: str = GROUP, member: str = "member") -> Answer:
    request = Heartbeat(
        group, member, epoch, rebalance_timeout_ms=1_000, topic_names=("topic",), owned={}
    )
    return driver.ask(lambda m, t, now: m.consumer_heartbeat(request, t, now))


def commit(driver: Driver, group: str = GROUP, **committer: Any) -> ErrorCode:
    request = commit_of(group, {T0: 7}, **committer)
    return errors(driver.ask(lambda m, t, now: m.commit_offsets(request, t, now))["topics"])[T0]


def described(driver: Driver, version: int = 6, group: str = GROUP) -> Answer:
    return driver.ask(lambda m, t, now: m.describe(group, version, t, now))


def kinds(driver: Driver) -> dict[str, tuple[str, str]]:
    """Type and state by group id."""
    answer = driver.ask(lambda m, t, now: m.list_groups((), (), t, now))
    return {row["group_id"]: (row["group_type"], row["group_state"]) for row in answer["groups"]}


def test_a_group_with_members_keeps_its_kind(driver: Driver) -> None:
    """If online upgrades are disabled; a consumer group takes members of both protocols."""
    joined = join(driver)
    assert joined["error_code"] is ErrorCode.none
    assert beat(driver)["error_code"] is ErrorCode.group_id_not_found
    assert beat(driver, group="other")["error_code"] is ErrorCode.none
    assert join(driver, "other")["error_code"] is ErrorCode.none
    assert {group: kind for group, (kind, _) in kinds(driver).items()} == {
        GROUP: "Classic",
        "other": "Consumer",
    }


def test_an_empty_group_makes_way_for_the_other_kind(driver: Driver) -> None:
    """With its offsets, and back again; also in what a new coordinator knows."""
    leave(driver, join(driver))
    assert commit(driver) is ErrorCode.none
    assert kinds(driver) == {GROUP: ("Classic", "Empty")}
    assert beat(driver)["error_code"] is ErrorCode.none
    assert kinds(driver)[GROUP][0] == "Consumer"
    driver.fail_over()
    assert kinds(driver)[GROUP][0] == "Consumer"
    assert beat(driver, epoch=-1)["error_code"] is ErrorCode.none
    assert join(driver)["error_code"] is ErrorCode.none
    assert kinds(driver)[GROUP][0] == "Classic"
    driver.fail_over()
    assert kinds(driver)[GROUP][0] == "Classic"
    assert driver.machine.offsets.has(GROUP)


def test_a_heartbeat_that_does_not_join_makes_no_group(driver: Driver) -> None:
    """Neither a new one nor in place of an empty classic one."""
    assert beat(driver, epoch=5)["error_code"] is ErrorCode.group_id_not_found
    leave(driver, join(driver))
    assert beat(driver, epoch=5)["error_code"] is ErrorCode.group_id_not_found
    assert kinds(driver) == {GROUP: ("Classic", "Empty")}


def test_a_simple_group_becomes_whatever_is_asked_first(driver: Driver) -> None:
    """Then only members may commit."""
    assert commit(driver, "a") is commit(driver, "b") is ErrorCode.none
    assert join(driver, "a")["error_code"] is ErrorCode.none
    assert beat(driver, group="b")["error_code"] is ErrorCode.none
    assert commit(driver, "a") is commit(driver, "b") is ErrorCode.unknown_member_id


def test_what_describe_groups_says(driver: Driver) -> None:
    """A simple group is empty; what is no classic group is dead, or not found from version 6 on."""
    commit(driver)
    assert (described(driver)["group_state"], described(driver)["members"]) == ("Empty", ())
    beat(driver, group="modern")
    for group in ("modern", "none"):
        assert described(driver, 5, group) == {"group_id": group, "group_state": "Dead"}
        assert described(driver, 6, group)["error_code"] is ErrorCode.group_id_not_found


def test_offsets_of_a_classic_group_expire_when_it_is_empty(driver: Driver) -> None:
    """Its members keep them, however old; then group and offsets go together."""
    joined = join(driver)
    generation, member = joined["generation_id"], joined["member_id"]
    sync = Sync(Identity(GROUP, member), generation, "consumer", "range", ((member, b""),))
    driver.ask(lambda m, t, now: m.sync(sync, t, now))
    assert commit(driver, generation=generation, member_id=member) is ErrorCode.none
    who = Identity(GROUP, member)
    for _ in range(30):
        driver.advance(SESSION_MS / 2)
        answer = driver.ask(lambda m, t, now: m.heartbeat(who, generation, t, now))
        assert answer["error_code"] is ErrorCode.none
    assert driver.machine.offsets.has(GROUP)
    leave(driver, joined)
    driver.advance(50_000)
    assert driver.machine.offsets.has(GROUP)
    driver.advance(15_000)
    assert not driver.machine.offsets.has(GROUP)
    assert kinds(driver) == {}


def test_a_transactional_commit_needs_the_members_generation(driver: Driver) -> None:
    """KIP-447; who names no member is not checked."""
    joined = join(driver)

    def staged(**committer: Any) -> ErrorCode:
        request = commit_of(GROUP, {T0: 7}, producer=FIRST, **committer)
        answer = driver.ask(lambda m, t, now: m.commit_in_transaction(request, FIRST, t, now))
        return errors(answer["topics"])[T0]

    member = joined["member_id"]
    assert staged(member_id=member, generation=joined["generation_id"] + 1) is (
        ErrorCode.illegal_generation
    )
    assert staged(member_id="zombie", generation=1) is ErrorCode.unknown_member_id
    assert staged(member_id=member, generation=joined["generation_id"]) is ErrorCode.none
    assert staged() is ErrorCode.none


@pytest.mark.parametrize("seed", range(40))
def test_replay_makes_the_live_state(seed: int) -> None:
    """Of groups that change between the kinds, whole or compacted."""
    rng = random.Random(seed)
    driver = driver_of(FakeTopics(topic=2))
    joined: dict[str, Answer] = {}
    for _ in range(40):
        group = rng.choice(("a", "b"))
        match rng.randrange(8):
            case 0 | 1:
                answer = join(driver, group)
                if answer["error_code"] is ErrorCode.none:
                    joined[group] = answer
            case 2:
                if group in joined:
                    leave(driver, joined.pop(group), group)
            case 3 | 4:
                beat(driver, rng.choice((0, 0, -1)), group, rng.choice(("m1", "m2")))
            case 5:
                commit(driver, group)
            case 6:
                driver.ask(lambda m, t, now, group=group: m.delete_group(group, t, now))
            case _:
                driver.advance(rng.choice((1.0, SESSION_MS + 1.0, 30_000.0)))
        for compacted in (False, True):
            rebuilt = driver.rebuilt(compacted=compacted)
            live = driver.machine
            assert rebuilt.offsets == live.offsets
            assert rebuilt.classic.remembered == live.classic.remembered
            assert rebuilt.consumer.remembered() == live.consumer.remembered()
        if rng.random() < 0.05:
            driver.fail_over()
