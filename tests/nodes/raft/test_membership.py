"""Which changes of the voters a leader begins, rule by rule."""

from collections.abc import Sequence

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, NodeId, Offset
from nodes.raft.leadership import Leadership
from nodes.raft.membership import (
    CAUGHT_UP_WITHIN_MS,
    MAX_ENDPOINTS,
    MAX_NAME_LENGTH,
    begin_change,
    first_recorded,
    with_update,
    with_voter,
    without_voter,
)
from nodes.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from tests.nodes.raft.test_voters import PLACE, THREE, key, refusal, voter
from tests.support.nodes.memory_log import MemoryLog

START = Offset(5)
"""The offset of the first record of the leader's epoch."""
LATE_MS = 2 * CAUGHT_UP_WITHIN_MS


def leadership(*, caught_up_ms: float | None = None) -> Leadership:
    """Node 1 leads; replica 4 fetched, and had everything at that time unless it is None."""
    leads = Leadership(epoch=Epoch(1), start_offset=START, me=key(1), voters=THREE, now_ms=0.0)
    end = START if caught_up_ms is not None else Offset(START + 1)
    leads.fetched(key(4), caught_up_ms or 0.0, START, end)
    return leads


def endpoints(*names: str) -> tuple[VoterEndpoint, ...]:
    """Listeners with these host names."""
    return tuple(VoterEndpoint("CONTROLLER", name, 1) for name in names)


def at(node: int, places: Sequence[VoterEndpoint]) -> Voter:
    """A voter that listens there."""
    return Voter(node_id=NodeId(node), directory_id=key(node).directory_id, endpoints=tuple(places))


def test_only_a_leader_changes_the_voters() -> None:
    with refusal(ErrorCode.not_leader_or_follower):
        begin_change(MemoryLog(voters=THREE), None, Offset(9))


@pytest.mark.parametrize("high_watermark", [START - 1, START])
def test_no_change_begins_before_a_record_of_the_epoch_is_committed(high_watermark: int) -> None:
    """The record at the start of the epoch is committed once the high watermark is above it."""
    log = MemoryLog(voters=THREE)
    with refusal(ErrorCode.request_timed_out):
        begin_change(log, leadership(), Offset(high_watermark))
    assert begin_change(log, leadership(), Offset(START + 1)) == THREE


def test_a_change_waits_for_the_change_before() -> None:
    """A voter set at an offset is committed once the high watermark is above it."""
    log = MemoryLog([(Epoch(1), "record")] * 7 + [(Epoch(1), THREE)])
    with refusal(ErrorCode.request_timed_out):
        begin_change(log, leadership(), Offset(7))
    assert begin_change(log, leadership(), Offset(8)) == THREE


@pytest.mark.parametrize("ago_ms", [0.0, CAUGHT_UP_WITHIN_MS])
def test_a_replica_that_caught_up_within_the_hour_may_vote(ago_ms: float) -> None:
    leads = leadership(caught_up_ms=LATE_MS - ago_ms)
    assert with_voter(THREE, voter(4), leads, LATE_MS).ids == (1, 2, 3, 4)


def test_a_replica_that_caught_up_long_ago_may_not_vote() -> None:
    with refusal(ErrorCode.request_timed_out):
        with_voter(
            THREE, voter(4), leadership(caught_up_ms=LATE_MS - CAUGHT_UP_WITHIN_MS - 1), LATE_MS
        )


def test_a_replica_that_never_caught_up_may_not_vote() -> None:
    """Nor may one that never fetched, or that fetched from another directory."""
    for asked in (voter(4), voter(5), voter(4, 9)):
        with refusal(ErrorCode.request_timed_out):
            with_voter(THREE, asked, leadership(), LATE_MS)


def test_the_last_voter_stays() -> None:
    with refusal(ErrorCode.invalid_request):
        without_voter(VoterSet.of([voter(1)]), key(1))
    assert without_voter(VoterSet.of([voter(1), voter(2)]), key(1)).ids == (2,)


@pytest.mark.parametrize("asked", [key(4), key(2, 9), ReplicaKey(NodeId(2))])
def test_a_replica_that_is_no_voter_cannot_be_removed_or_updated(asked: ReplicaKey) -> None:
    """Another node, another disk, or no disk named."""
    with refusal(ErrorCode.voter_not_found):
        without_voter(THREE, asked)
    with refusal(ErrorCode.voter_not_found):
        with_update(
            THREE,
            Voter(node_id=asked.node_id, directory_id=asked.directory_id, endpoints=PLACE),
        )


def test_a_configured_voter_without_directory_cannot_be_removed_or_updated() -> None:
    """A set that knows no directories would otherwise have it."""
    static = VoterSet.static(map(NodeId, (1, 2, 3)))
    with refusal(ErrorCode.voter_not_found):
        without_voter(static, ReplicaKey(NodeId(2)))
    with refusal(ErrorCode.voter_not_found):
        with_update(static, Voter(node_id=NodeId(2), endpoints=PLACE))


def test_an_update_changes_the_endpoints() -> None:
    moved = at(2, endpoints("elsewhere"))
    assert with_update(THREE, moved).get(NodeId(2)) == moved


@pytest.mark.parametrize(
    "places",
    [
        endpoints(),
        endpoints(*map(str, range(MAX_ENDPOINTS + 1))),
        endpoints("h" * (MAX_NAME_LENGTH + 1)),
        (VoterEndpoint("L" * (MAX_NAME_LENGTH + 1), "h", 1),),
    ],
)
def test_a_voter_that_fits_no_voters_record_is_refused(places: Sequence[VoterEndpoint]) -> None:
    """None, too many, or too long endpoints: neither as a new voter nor as an update."""
    with refusal(ErrorCode.invalid_request):
        with_voter(THREE, at(4, places), leadership(caught_up_ms=LATE_MS), LATE_MS)
    with refusal(ErrorCode.invalid_request):
        with_update(THREE, at(2, places))


@pytest.mark.parametrize(
    "places",
    [
        endpoints(*map(str, range(MAX_ENDPOINTS))),
        endpoints("h" * MAX_NAME_LENGTH),
        (VoterEndpoint("L" * MAX_NAME_LENGTH, "h", 1),),
    ],
)
def test_the_largest_voter_is_accepted(places: Sequence[VoterEndpoint]) -> None:
    assert with_update(THREE, at(2, places)).get(NodeId(2)) == at(2, places)


def test_a_new_voter_has_an_id_and_a_directory() -> None:
    for node, directory in ((-1, key(4).directory_id), (4, None)):
        with refusal(ErrorCode.invalid_request):
            with_voter(
                THREE,
                Voter(node_id=NodeId(node), directory_id=directory, endpoints=PLACE),
                leadership(caught_up_ms=LATE_MS),
                LATE_MS,
            )


def test_node_0_may_vote() -> None:
    leads = leadership()
    leads.fetched(key(0), LATE_MS, START, START)
    assert with_voter(THREE, voter(0), leads, LATE_MS).ids == (0, 1, 2, 3)


def test_configured_voters_are_recorded_when_each_has_fetched() -> None:
    """With the directories that they fetched from; the leader knows its own."""
    configured = VoterSet.of(Voter(node_id=NodeId(n), endpoints=PLACE) for n in (1, 2, 3))
    leads = Leadership(epoch=Epoch(1), start_offset=START, me=key(1), voters=configured, now_ms=0.0)
    assert first_recorded(configured, leads) is None
    leads.fetched(key(3), 1.0, START, START)
    assert first_recorded(configured, leads) is None
    leads.fetched(key(2, 9), 2.0, START, START)
    assert first_recorded(configured, leads) == VoterSet.of([voter(1), voter(2, 9), voter(3)])


def test_a_voter_is_silent_after_the_limit() -> None:
    """To the millisecond; one that never fetched is silent at once."""
    leads = leadership()
    leads.fetched(key(2), 100.0, START, START)
    assert leads.silent(149.0, 50.0) == (3,)
    assert leads.silent(150.0, 50.0) == (2, 3)
