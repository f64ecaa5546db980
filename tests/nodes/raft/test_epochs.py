"""What a member believes of the epochs that it is told: no request may end elections for good."""

import random
from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, Epoch, NodeId, Offset
from nodes.raft.election_state import ElectionState
from nodes.raft.epochs import LAST_EPOCH, MAX_LEAP, ROOM, credible_state, highest_epoch
from nodes.raft.messages import (
    BecameLeader,
    BeginEpochRequest,
    EndEpochRequest,
    Persist,
    Response,
    Send,
    VoteRequest,
    VoteResponse,
)
from nodes.raft.quorum import Quorum
from nodes.raft.roles import Role
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import Voter, VoterSet
from tests.support.nodes.memory_log import MemoryLog

A, B, C, STRANGER = NodeId(1), NodeId(2), NodeId(3), NodeId(9)
RECORDED = VoterSet.of(Voter(node_id=n, directory_id=UUID(int=n)) for n in (A, B, C))
LATE_MS = 10_000.0


def member(*, epoch: int = 1, leader: NodeId | None = None, voters: VoterSet = RECORDED) -> Quorum:
    """Voter A, whose log ends with a record of epoch 1 that names the voters."""
    return Quorum(
        node_id=A,
        directory_id=UUID(int=A),
        state=ElectionState(epoch=Epoch(epoch), leader_id=leader),
        log=MemoryLog([(Epoch(1), voters)]),
        timing=QuorumTiming(),
        rng=random.Random(1),
        now_ms=0.0,
    )


def vote(epoch: int, *, by: NodeId = STRANGER, last: int = 1, end: int = 9) -> VoteRequest:
    """A vote request of a log that is ahead."""
    return VoteRequest(
        epoch=Epoch(epoch),
        candidate_id=by,
        candidate_directory_id=UUID(int=by),
        last_epoch=Epoch(last),
        end_offset=Offset(end),
        pre_vote=False,
    )


def elected(quorum: Quorum, now_ms: float) -> bool:
    """Whether it is elected when B grants whatever it asks for."""
    actions = quorum.tick(now_ms)
    for _ in range(3):
        asked = [each.request for each in actions if isinstance(each, Send) and each.to == B]
        if not asked or not isinstance(asked[0], VoteRequest):
            break
        yes = VoteResponse(error=ErrorCode.none, epoch=asked[0].epoch, leader_id=None, granted=True)
        actions = quorum.on_vote_response(now_ms, B, asked[0], yes)
    return any(isinstance(action, BecameLeader) for action in actions)


@pytest.mark.parametrize("by", [B, STRANGER])
@pytest.mark.parametrize("epoch", [LAST_EPOCH, LAST_EPOCH - 1, 1 << 30, MAX_LEAP + 2])
def test_a_vote_request_cannot_use_up_the_epochs(by: NodeId, epoch: int) -> None:
    """It is refused, nothing is written down, and the next election is held."""
    quorum = member()
    answer, actions = quorum.on_vote(LATE_MS, vote(epoch, by=by))
    assert (answer.error, answer.granted, actions) == (ErrorCode.invalid_request, False, [])
    assert quorum.epoch == 1
    assert elected(quorum, LATE_MS)


@pytest.mark.parametrize("epoch", [LAST_EPOCH, MAX_LEAP + 2])
def test_an_announcement_cannot_use_up_the_epochs(epoch: int) -> None:
    """BeginQuorumEpoch and EndQuorumEpoch carry an epoch as well."""
    quorum = member()
    begin = BeginEpochRequest(epoch=Epoch(epoch), leader_id=B)
    end = EndEpochRequest(epoch=Epoch(epoch), leader_id=B, preferred_successors=())
    assert quorum.on_begin_epoch(LATE_MS, begin)[0].error is ErrorCode.invalid_request
    assert quorum.on_end_epoch(LATE_MS, end)[0].error is ErrorCode.invalid_request
    assert quorum.epoch == 1


def test_repeated_requests_do_not_raise_the_epoch_beyond_the_bound() -> None:
    """What one request moved on is no ground for the next."""
    quorum = member()
    for _ in range(20):
        quorum.on_vote(LATE_MS, vote(quorum.epoch + MAX_LEAP))
    assert quorum.epoch == 1 + MAX_LEAP
    assert elected(quorum, 2 * LATE_MS)


def test_a_voter_that_was_away_learns_the_epoch_from_responses() -> None:
    """The others' requests are beyond belief; their answers are not, nor what follows them."""
    far = Epoch(1_000_000)
    quorum = member()
    assert quorum.on_vote(LATE_MS, vote(far, by=B))[0].error is ErrorCode.invalid_request
    told = VoteResponse(
        error=ErrorCode.fenced_leader_epoch, epoch=far, leader_id=None, granted=False
    )
    request = next(each.request for each in quorum.tick(LATE_MS) if isinstance(each, Send))
    assert isinstance(request, VoteRequest)
    quorum.on_vote_response(LATE_MS, B, request, told)
    assert quorum.epoch == far
    assert quorum.on_vote(LATE_MS, vote(far + 1, by=B))[0].granted


def test_a_response_beyond_the_highest_epoch_is_ignored() -> None:
    """Its sender believed what it should not have: it must not spread."""
    quorum = member()
    answer = Response(error=ErrorCode.fenced_leader_epoch, epoch=LAST_EPOCH, leader_id=None)
    assert quorum.on_response(LATE_MS, answer) == []
    assert quorum.epoch == 1


def test_no_election_starts_beyond_the_highest_epoch() -> None:
    """At the end of all epochs a voter asks on and lives on; it follows whoever still leads."""
    state = ElectionState(epoch=LAST_EPOCH)
    log = MemoryLog([(LAST_EPOCH, RECORDED)])
    quorum = Quorum(
        node_id=A,
        directory_id=UUID(int=A),
        state=state,
        log=log,
        timing=QuorumTiming(),
        rng=random.Random(1),
        now_ms=0.0,
    )
    assert not elected(quorum, LATE_MS)
    assert quorum.state == state
    quorum.on_begin_epoch(LATE_MS, BeginEpochRequest(epoch=LAST_EPOCH, leader_id=B))
    assert quorum.leader_id == B


@pytest.mark.parametrize("leads", [True, False])
def test_requests_of_non_voters_are_refused_while_there_is_a_leader(leads: bool) -> None:
    """A new voter that this log does not know yet asks for votes only when the leader is gone."""
    quorum = member(leader=None if leads else B)
    if leads:
        assert elected(quorum, LATE_MS)
    else:
        quorum.on_begin_epoch(LATE_MS, BeginEpochRequest(epoch=Epoch(1), leader_id=B))
    epoch = quorum.epoch
    answer, actions = quorum.on_vote(LATE_MS + 1, vote(epoch + 1, last=epoch))
    assert (answer.error, actions) == (ErrorCode.inconsistent_voter_set, [])
    assert quorum.epoch == epoch
    if not leads:  # it has gone silent
        assert quorum.on_vote(3 * LATE_MS, vote(epoch + 1, last=epoch))[0].granted


def test_a_second_leader_of_an_epoch_is_refused_without_a_halt() -> None:
    """Anybody may claim it: only the answer of a voter that was asked would be an alarm."""
    quorum = member(leader=B)
    claim = BeginEpochRequest(epoch=Epoch(1), leader_id=C)
    assert quorum.on_begin_epoch(LATE_MS, claim)[0].error is ErrorCode.invalid_request
    end = EndEpochRequest(epoch=Epoch(1), leader_id=C, preferred_successors=())
    assert quorum.on_end_epoch(LATE_MS, end)[0].error is ErrorCode.invalid_request
    assert quorum.leader_id == B


@pytest.mark.parametrize(
    "wrong",
    [{"candidate_id": NO_NODE}, {"last_epoch": Epoch(2)}, {"last_epoch": Epoch(-2)},
     {"end_offset": Offset(-1)}],
)  # fmt: skip
def test_a_candidate_with_an_impossible_log_end_is_refused(wrong: dict[str, int]) -> None:
    """As Kafka does: no node, or a log that ends in the epoch to come, or nowhere."""
    request = replace(vote(2, by=B), **wrong)  # type: ignore[arg-type]
    answer, actions = member().on_vote(LATE_MS, request)
    assert (answer.error, actions) == (ErrorCode.invalid_request, [])


def test_an_impossible_epoch_on_the_disk_is_replaced() -> None:
    """By one that is above all in which a vote can have been given, the same for all voters."""
    found = ElectionState(epoch=LAST_EPOCH, voted_for=STRANGER)
    repaired = credible_state(found, Epoch(7))
    assert repaired == ElectionState(epoch=Epoch(7 + ROOM))
    assert repaired.epoch < highest_epoch(Epoch(7))
    assert credible_state(repaired, Epoch(7)) == repaired
    assert credible_state(found, Epoch(-1)).epoch == ROOM
    late = Epoch(LAST_EPOCH - 5)
    assert credible_state(ElectionState(epoch=late), late).epoch == late


def test_a_voter_with_an_intact_disk_follows_repaired_voters() -> None:
    """It learns their epoch by asking, and votes with them."""
    quorum = member()
    repaired = Epoch(1 + ROOM)
    quorum.on_response(LATE_MS, Response(error=ErrorCode.none, epoch=repaired, leader_id=None))
    answer, actions = quorum.on_vote(LATE_MS, vote(repaired + 1, by=B))
    assert answer.granted
    assert isinstance(actions[-1], Persist)
    assert quorum.role is Role.VOTED
