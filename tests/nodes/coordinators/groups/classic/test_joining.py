"""JoinGroup: ids, protocols, limits, and members that come again."""

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.groups import ClassicGroups
from nodes.coordinators.groups.classic.requests import (
    Client,
    Identity,
    Join,
    Leaver,
    MemberProtocol,
    Sync,
)
from nodes.coordinators.groups.settings import ClassicSettings
from nodes.coordinators.machine import Effects, Now, Token
from tests.support.nodes.classic_group import GROUP, RANGE, REBALANCE_MS, SESSION_MS, Scene

P, Q, R = (MemberProtocol(name, name.encode()) for name in "pqr")


def test_a_new_member_gets_an_id_and_comes_back_with_it() -> None:
    """Since version 4; the id begins with the client's id."""
    scene = Scene()
    a = scene.member("app")
    answer = a.send_join()
    assert answer is not None
    assert answer["error_code"] is ErrorCode.member_id_required
    assert answer["member_id"].startswith("app-")
    assert scene.state == "Empty"
    a.member_id = answer["member_id"]
    a.send_join()
    scene.after(0)
    assert a.join_error is ErrorCode.none
    assert a.member_id == answer["member_id"]


def test_before_version_4_a_new_member_joins_at_once() -> None:
    """It learns its id from the answer."""
    scene = Scene()
    a = scene.member("app", version=3)
    assert a.send_join() is None
    scene.after(0)
    assert a.join_error is ErrorCode.none
    assert a.member_id.startswith("app-")


def test_equal_seeds_give_equal_ids() -> None:
    """Ids come from the injected random numbers alone."""
    ids = []
    for seed in (1, 1, 2):
        answer = Scene(seed=seed).member("app").send_join()
        assert answer is not None
        ids.append(answer["member_id"])
    assert ids[0] == ids[1] != ids[2]


def test_an_id_that_nobody_comes_back_with_expires() -> None:
    """The others wait for the one who was announced, for its session time-out."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a)
    b.send_join()
    a.join()
    assert a.joined is None
    scene.after(SESSION_MS)
    assert a.join_error is ErrorCode.none
    assert scene.group.pending_joins == set()


def test_an_unknown_member_of_an_unknown_group_is_unknown() -> None:
    """A member id is not invented by a client; no group comes into being."""
    scene = Scene()
    a = scene.member("a", member_id="mine")
    a.send_join()
    assert a.join_error is ErrorCode.unknown_member_id
    assert scene.groups.groups == {}
    scene.stable(scene.member("b"))
    a.send_join()
    assert a.join_error is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("session_ms", "fits"), [(5_999, False), (6_000, True), (1_800_001, False)]
)
def test_session_time_outs_have_bounds(session_ms: int, fits: bool) -> None:
    """group.min.session.timeout.ms and group.max.session.timeout.ms."""
    scene = Scene()
    a = scene.member("a", session_ms=session_ms)
    a.send_join()
    expected = ErrorCode.member_id_required if fits else ErrorCode.invalid_session_timeout
    assert a.join_error is expected
    assert scene.groups.has(GROUP) == fits


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", (P,)), ("consumer", ()), ("", ())])
def test_a_first_member_needs_a_protocol(
    protocol_type: str, protocols: tuple[MemberProtocol, ...]
) -> None:
    """A refused first join leaves no group behind."""
    scene = Scene()
    a = scene.member("a", protocol_type=protocol_type, protocols=protocols)
    a.send_join()
    assert a.join_error is ErrorCode.inconsistent_group_protocol
    assert scene.driver.log == []


@pytest.mark.parametrize(
    ("protocol_type", "protocols", "fits"),
    [
        ("consumer", (Q,), True),
        ("consumer", (R, Q), True),
        ("consumer", (R,), False),
        ("connect", (P, Q), False),
    ],
)
def test_members_need_a_protocol_in_common(
    protocol_type: str, protocols: tuple[MemberProtocol, ...], fits: bool
) -> None:
    """One protocol must be supported by all, and the type must be the same."""
    scene = Scene()
    scene.stable(scene.member("a", protocols=(P, Q)))
    # After the first generation, too: a member is known with all that it supports.
    b = scene.member("b", protocol_type=protocol_type, protocols=protocols)
    b.join()
    assert (b.joined is None) == fits
    if not fits:
        assert b.join_error is ErrorCode.inconsistent_group_protocol


def test_most_votes_choose_the_protocol() -> None:
    """Each member votes for the first of its protocols that all support."""
    scene = Scene()
    members = [
        scene.member("a", protocols=(P, Q)),
        scene.member("b", protocols=(R, Q, P)),
        scene.member("c", protocols=(Q, P)),
    ]
    for each in members:
        each.join()
    scene.after(0)
    assert [each.joined and each.joined["protocol_name"] for each in members] == ["q"] * 3
    leader = members[0].joined
    assert leader is not None
    assert [each["metadata"] for each in leader["members"]] == [b"q"] * 3


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    """A client's mistake does not break the vote."""
    scene = Scene()
    scene.stable(scene.member("a", protocols=(P, P._replace(metadata=b"other"))))
    assert scene.group.protocol == "p"
    (member,) = scene.group.members.values()
    assert member.metadata("p") == b"p"


def test_a_full_group_takes_nobody() -> None:
    """group.max.size."""
    scene = Scene(ClassicSettings(initial_rebalance_delay_ms=0, max_size=2))
    scene.stable(scene.member("a"), scene.member("b"))
    c = scene.member("c")
    c.send_join()
    assert c.join_error is ErrorCode.group_max_size_reached


def test_in_a_rebalance_of_a_full_group_the_last_loses_its_place() -> None:
    """Those who wait keep their place, though the group has grown beyond its limit."""
    scene = Scene(ClassicSettings(initial_rebalance_delay_ms=0, max_size=2))
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    b.leave()
    c = scene.member("c")
    c.join()
    assert c.joined is None
    d = scene.member("d").join()
    assert d.joined is None
    a.join()
    assert a.join_error is ErrorCode.group_max_size_reached
    assert a.member_id not in scene.group.members


def test_a_leader_that_joins_again_rebalances_without_a_change() -> None:
    """It does so when its topics have changed; a follower without a change does not."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    b.join()
    assert (b.join_error, b.generation, scene.state) == (ErrorCode.none, 1, "Stable")
    a.join()
    assert (a.joined, scene.state) == (None, "PreparingRebalance")


def test_a_follower_with_other_metadata_rebalances() -> None:
    """Its subscription changed."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    b.protocols = (MemberProtocol("range", b"other"),)
    b.join()
    assert (b.joined, scene.state) == (None, "PreparingRebalance")


@pytest.mark.parametrize("changed", [False, True])
def test_a_member_that_missed_its_answer_gets_it_again(changed: bool) -> None:
    """Before the assignment is there; with other metadata everybody must join again."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    for each in (a, b):
        each.join()
    scene.after(0)
    assert b.joined is not None
    assert a.leads
    before = a.joined
    b.sync()
    if changed:
        a.protocols = (MemberProtocol("range", b"other"),)
    a.send_join()
    if changed:
        assert (a.joined, scene.state) == (None, "PreparingRebalance")
        assert b.sync_error is ErrorCode.rebalance_in_progress
    else:
        assert (a.joined, scene.state) == (before, "CompletingRebalance")


def test_a_request_that_a_newer_one_replaces_is_answered() -> None:
    """Nobody waits for ever: the older request of the same member ends."""
    scene = Scene()
    a, b = scene.member("a"), scene.member("b")
    scene.stable(a, b)
    a.join()
    older = a.join_token
    a.join()
    assert older is not None
    assert scene.driver.answers[older]["error_code"] is ErrorCode.rebalance_in_progress
    assert a.joined is None
    b.join()
    assert a.join_error is ErrorCode.none


def test_a_new_member_whose_client_is_gone_is_removed_after_five_minutes() -> None:
    """It waits with a request, but nobody knows whether its client still does."""
    scene = Scene()
    a = scene.member("a", session_ms=1_800_000, rebalance_ms=10 * REBALANCE_MS)
    scene.stable(a)
    gone = scene.member("gone", version=3, rebalance_ms=10 * REBALANCE_MS)
    gone.send_join()
    scene.after(300_000)
    assert gone.join_error is ErrorCode.unknown_member_id
    assert len(scene.group.members) == 1


def test_an_id_of_a_dynamic_member_is_not_for_a_static_one() -> None:
    """As in Kafka, which fails here: the id was given to a member without an instance id."""
    scene = Scene()
    a = scene.member("a")
    answer = a.send_join()
    assert answer is not None
    thief = scene.member("thief", member_id=answer["member_id"], instance_id="i")
    thief.send_join()
    assert thief.join_error is ErrorCode.unknown_server_error


def test_the_first_join_writes_the_group() -> None:
    """The group is remembered before it has a generation."""
    scene = Scene()
    scene.member("a").send_join()
    value = scene.groups.remembered[GROUP]
    assert (value.generation, value.protocol_type, value.members) == (0, "", ())
    assert len(scene.driver.log) == 1


def test_a_group_without_an_id_is_refused() -> None:
    """INVALID_GROUP_ID, by every operation."""
    nobody = Identity("")
    join = Join(nobody, Client("c", "/h"), "consumer", RANGE, SESSION_MS, REBALANCE_MS, 9)
    operations: list[Callable[[ClassicGroups, Token, Now], Effects]] = [
        lambda m, token, now: m.join(join, token, now),
        lambda m, token, now: m.sync(Sync(nobody, 0), token, now),
        lambda m, token, now: m.heartbeat(nobody, 0, token, now),
        lambda m, token, now: m.leave("", [Leaver("m")], token, now),
    ]
    for each in operations:
        assert Scene().driver.ask(each)["error_code"] is ErrorCode.invalid_group_id


def test_ids_that_cannot_be_written_are_refused() -> None:
    """A record's strings have at most 32,767 bytes, and a member id gets a random part."""
    for text, expected in (
        ("é" * 16_365, ErrorCode.none),
        ("é" * 16_366, ErrorCode.invalid_request),
    ):
        scene = Scene()
        a = scene.member("a", instance_id=text)
        a.send_join()
        scene.after(0)
        assert a.join_error is expected


def test_a_member_that_waits_in_a_full_group_may_ask_again() -> None:
    """It has its place; its client lost a connection."""
    scene = Scene(ClassicSettings(initial_rebalance_delay_ms=3_000, max_size=2))
    a, b = scene.member("a").join(), scene.member("b").join()
    a.send_join()
    assert (a.joined, b.joined) == (None, None)
