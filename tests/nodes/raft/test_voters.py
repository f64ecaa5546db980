"""The voter set, its history, and when it may change."""

import random
from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, NodeId, Offset
from nodes.raft import leadership
from nodes.raft.control_records import message_of, record_of, voter_set, voters_record
from nodes.raft.election_state import ElectionState
from nodes.raft.membership import VoterChangeRefused
from nodes.raft.messages import AppendVoters, FetchRequest, Send, VoteRequest, VoteResponse
from nodes.raft.quorum import Quorum
from nodes.raft.roles import Role
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterHistory, VoterSet
from tests.support.nodes.memory_log import MemoryLog

LATE_MS = 10_000.0
PLACE = (VoterEndpoint("CONTROLLER", "h", 1),)


def key(node: int, directory: int | None = None) -> ReplicaKey:
    """A replica, by default on the directory of its number."""
    return ReplicaKey(NodeId(node), UUID(int=node if directory is None else directory))


def voter(node: int, directory: int | None = None) -> Voter:
    """A voter with an endpoint."""
    replica = key(node, directory)
    return Voter(node_id=replica.node_id, directory_id=replica.directory_id, endpoints=PLACE)


THREE = VoterSet.of(voter(n) for n in (1, 2, 3))


def test_a_replica_is_a_node_on_a_disk() -> None:
    """Another directory is another replica; a configured voter is known by its node alone."""
    assert THREE.has(key(1))
    assert not THREE.has(key(1, 9))
    assert not THREE.has(ReplicaKey(NodeId(1)))
    static = VoterSet.static([NodeId(1)])
    assert static.has(key(1))
    assert static.is_static
    assert not THREE.is_static


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majorities(count: int, majority: int) -> None:
    """More than half."""
    assert VoterSet.of(voter(n) for n in range(count)).majority == majority


def test_a_voters_record_contains_the_whole_voter_set() -> None:
    """A voter set survives its control record."""
    message = message_of(record_of(voters_record(THREE)))
    assert voter_set(message) == THREE  # type: ignore[arg-type]


def test_the_voter_history_is_truncated_with_the_log() -> None:
    """The latest counts; a truncation brings the one before back; a snapshot begins anew."""
    first, second = THREE.without(NodeId(3)), THREE.without(NodeId(2))
    history = VoterHistory(THREE)
    history.add(Offset(5), first)
    history.add(Offset(8), second)
    assert [history.before(Offset(n)) for n in (0, 5, 6, 8, 9)] == [
        THREE,
        THREE,
        first,
        first,
        second,
    ]
    history.truncate(Offset(8))
    assert (history.latest, history.latest_offset) == (first, 5)
    history.truncate(Offset(5))
    assert (history.latest, history.latest_offset) == (THREE, -1)
    history.restart(Offset(20), second)
    assert (history.latest, history.latest_offset) == (second, 19)


def leader(voters: VoterSet = THREE, node: int = 1) -> tuple[Quorum, MemoryLog]:
    """An elected leader of epoch 1 with a flushed record, committed by voter 2."""
    log = MemoryLog([], voters)
    quorum = Quorum(
        node_id=NodeId(node),
        directory_id=UUID(int=node),
        state=ElectionState(),
        log=log,
        timing=QuorumTiming(),
        rng=random.Random(1),
        now_ms=0.0,
    )
    actions = quorum.tick(LATE_MS)
    for _ in ("pre-vote", "vote"):
        send = next(action for action in actions if isinstance(action, Send))
        asked = send.request
        assert isinstance(asked, VoteRequest)
        yes = VoteResponse(error=ErrorCode.none, epoch=asked.epoch, leader_id=None, granted=True)
        actions = quorum.on_vote_response(LATE_MS, send.to, asked, yes)
    assert quorum.role is Role.LEADER
    log.entries.append((quorum.epoch, "leader"))
    log.flushed = 1
    quorum.log_advanced(LATE_MS)
    quorum.on_fetch(LATE_MS, fetch(2, 1))
    assert quorum.high_watermark == 1
    return quorum, log


def fetch(node: int, offset: int, directory: int | None = None) -> FetchRequest:
    """A replica's fetch at the end of a log of epoch 1."""
    replica = key(node, directory)
    return FetchRequest(
        replica_id=replica.node_id,
        directory_id=replica.directory_id,
        epoch=Epoch(1),
        offset=Offset(offset),
        last_epoch=Epoch(1),
    )


def refusal(code: ErrorCode) -> "pytest.RaisesExc[VoterChangeRefused]":
    """Expects a refusal with that code."""
    return pytest.raises(VoterChangeRefused, check=lambda error: error.code is code)


def test_a_second_voter_change_is_refused_while_one_is_pending() -> None:
    """The next one waits until the set is committed; what cannot be is refused."""
    quorum, log = leader()
    quorum.on_fetch(LATE_MS, fetch(4, 1))
    with refusal(ErrorCode.request_timed_out):
        quorum.add_voter(LATE_MS, voter(5))
    with refusal(ErrorCode.duplicate_voter):
        quorum.add_voter(LATE_MS, voter(2, 9))
    with refusal(ErrorCode.voter_not_found):
        quorum.remove_voter(key(2, 9))
    four = THREE.with_voter(voter(4))
    (action,) = quorum.add_voter(LATE_MS, voter(4))
    assert action == AppendVoters(epoch=Epoch(1), voters=four, first=False)
    log.entries.append((Epoch(1), four))
    log.flushed = 2
    quorum.log_advanced(LATE_MS)
    assert quorum.voters == four, "it counts at once"
    with refusal(ErrorCode.request_timed_out):
        quorum.remove_voter(key(3))
    quorum.on_fetch(LATE_MS, fetch(2, 2))
    assert quorum.high_watermark == 1, "two of four are no majority"
    quorum.on_fetch(LATE_MS, fetch(4, 2))
    assert quorum.high_watermark == 2
    assert quorum.remove_voter(key(3))


def test_configured_voters_are_recorded_when_all_directories_are_known() -> None:
    """With the directories that they fetched from; before that nothing may change."""
    quorum, log = leader(VoterSet.of(Voter(node_id=NodeId(n), endpoints=PLACE) for n in (1, 2, 3)))
    with refusal(ErrorCode.unsupported_version):
        quorum.remove_voter(key(3))
    _, actions = quorum.on_fetch(LATE_MS, fetch(3, 1))
    assert actions == [AppendVoters(epoch=Epoch(1), voters=THREE, first=True)]
    log.entries.append((Epoch(1), THREE))
    quorum.log_advanced(LATE_MS)
    assert not quorum.voters.is_static


def test_a_voter_with_another_directory_does_not_count() -> None:
    """Its fetches move no high watermark, and keep no leader."""
    quorum, log = leader()
    log.entries.append((Epoch(1), "record"))
    log.flushed = 2
    quorum.on_fetch(LATE_MS, fetch(2, 2, directory=9))
    quorum.on_fetch(LATE_MS, fetch(3, 2, directory=9))
    assert quorum.high_watermark == 1
    assert quorum.leadership is not None
    assert sorted(quorum.leadership.observers) == [key(2, 9), key(3, 9)]


def test_an_observer_that_becomes_a_voter_stands_for_election() -> None:
    """And a voter that is removed does so no more."""
    log = MemoryLog([], THREE)
    quorum = Quorum(
        node_id=NodeId(4),
        directory_id=UUID(int=4),
        state=ElectionState(),
        log=log,
        timing=QuorumTiming(),
        rng=random.Random(1),
        now_ms=0.0,
    )
    for voters, role in ((THREE.with_voter(voter(4)), Role.UNATTACHED), (THREE, Role.OBSERVER)):
        log.entries.append((Epoch(1), voters))
        quorum.log_advanced(0.0)
        assert quorum.role is role
        assert (quorum.next_deadline_ms() < LATE_MS) == (role is Role.UNATTACHED)


def test_the_observer_that_was_silent_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "MAX_OBSERVERS", 2)
    quorum, _ = leader()
    for number, node in enumerate((4, 5, 4, 6)):
        quorum.on_fetch(LATE_MS + number, fetch(node, 1))
    assert quorum.leadership is not None
    assert sorted(quorum.leadership.observers) == [key(4), key(6)]


def test_a_vote_request_for_another_directory_is_refused() -> None:
    """Who lost his disk does not answer for what he was before."""
    quorum, _ = leader()
    request = VoteRequest(
        epoch=Epoch(5),
        candidate_id=NodeId(2),
        candidate_directory_id=UUID(int=2),
        voter_directory_id=UUID(int=99),
        last_epoch=Epoch(4),
        end_offset=Offset(99),
        pre_vote=False,
    )
    answer, actions = quorum.on_vote(LATE_MS, request)
    assert (answer.error, answer.granted, actions) == (ErrorCode.invalid_voter_key, False, [])
    assert quorum.epoch == 1


def test_the_last_voter_cannot_be_removed() -> None:
    """A quorum without voters could never have any again."""
    log = MemoryLog([], VoterSet.of([voter(1)]))
    quorum = Quorum(
        node_id=NodeId(1),
        directory_id=UUID(int=1),
        state=ElectionState(),
        log=log,
        timing=QuorumTiming(),
        rng=random.Random(1),
        now_ms=0.0,
    )
    quorum.tick(0.0)
    assert quorum.role is Role.LEADER
    log.entries.append((quorum.epoch, "leader"))
    log.flushed = 1
    quorum.log_advanced(0.0)
    with refusal(ErrorCode.invalid_request):
        quorum.remove_voter(key(1))


@pytest.mark.parametrize(
    ("node", "error"),
    [
        (0, ErrorCode.none),
        (4, ErrorCode.none),
        (1, ErrorCode.invalid_request),
        (-1, ErrorCode.invalid_request),
    ],
)
def test_any_other_node_may_fetch_from_the_leader(node: int, error: ErrorCode) -> None:
    """Whether it votes or not; node ids begin at 0. The leader is node 1."""
    quorum, _ = leader()
    request = replace(fetch(4, 1), replica_id=NodeId(node))
    answer, _ = quorum.on_fetch(LATE_MS, request)
    assert answer.error is error
