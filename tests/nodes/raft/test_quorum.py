"""The quorum's rules one by one, as examples."""

import random

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.divergence import EpochEnd
from nodes.raft.election_state import ElectionState
from nodes.raft.errors import CommittedTruncation, InvariantBroken, TwoLeaders
from nodes.raft.messages import (
    Action,
    AppendLeaderChange,
    BecameLeader,
    BeginEpochRequest,
    EndEpochRequest,
    FetchOutcome,
    FetchRequest,
    FetchResponse,
    HighWatermarkAdvanced,
    LostLeadership,
    Persist,
    Response,
    Send,
    Truncate,
    VoteRequest,
    VoteResponse,
)
from nodes.raft.quorum import Quorum
from nodes.raft.roles import Role
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import VoterSet
from tests.support.nodes.memory_log import Entry, MemoryLog

A, B, C, OUTSIDER = NodeId(1), NodeId(2), NodeId(3), NodeId(9)
TIMING = QuorumTiming()
LATE_MS = 10_000.0


def log(*epochs: int) -> MemoryLog:
    """A flushed log with one record of each given epoch."""
    entries: list[Entry] = [(Epoch(epoch), None) for epoch in epochs]
    return MemoryLog(entries)


def member(
    *,
    node: NodeId = A,
    state: ElectionState | None = None,
    entries: MemoryLog | None = None,
    voters: tuple[NodeId, ...] = (A, B, C),
    timing: QuorumTiming = TIMING,
) -> Quorum:
    """A member that started at time 0."""
    view = entries if entries is not None else log()
    view.initial_voters = VoterSet.static(voters)
    return Quorum(
        node_id=node,
        state=state or ElectionState(),
        log=view,
        timing=timing,
        rng=random.Random(1),
        now_ms=0.0,
    )


def vote(
    epoch: int, *, last: int = -1, end: int = 0, by: NodeId = B, pre: bool = False
) -> VoteRequest:
    """A vote request."""
    return VoteRequest(
        epoch=Epoch(epoch),
        candidate_id=by,
        last_epoch=Epoch(last),
        end_offset=Offset(end),
        pre_vote=pre,
    )


def granted(epoch: int, *, yes: bool = True) -> VoteResponse:
    """An answer to a vote request."""
    return VoteResponse(error=ErrorCode.none, epoch=Epoch(epoch), leader_id=None, granted=yes)


def begin(epoch: int, leader: NodeId = B) -> BeginEpochRequest:
    """An announcement."""
    return BeginEpochRequest(epoch=Epoch(epoch), leader_id=leader)


def fetch(epoch: int, offset: int, last: int, by: NodeId = B) -> FetchRequest:
    """A replica's fetch."""
    return FetchRequest(
        replica_id=by, epoch=Epoch(epoch), offset=Offset(offset), last_epoch=Epoch(last)
    )


def fetched(
    epoch: int,
    *,
    leader: NodeId | None = B,
    hw: int = 0,
    diverging: EpochEnd | None = None,
    error: ErrorCode = ErrorCode.none,
) -> FetchResponse:
    """An answer to a fetch."""
    return FetchResponse(
        error=error,
        epoch=Epoch(epoch),
        leader_id=leader,
        high_watermark=Offset(hw),
        diverging=diverging,
    )


def sent(actions: list[Action]) -> list[Send]:
    """The messages among the actions."""
    return [action for action in actions if isinstance(action, Send)]


def elect(quorum: Quorum, entries: MemoryLog, now_ms: float = LATE_MS) -> list[Action]:
    """Have it elected by B; its control record is appended, and not flushed."""
    (first, *_) = sent(quorum.tick(now_ms))
    assert isinstance(first.request, VoteRequest)
    real = sent(quorum.on_vote_response(now_ms, B, first.request, granted(first.request.epoch)))
    request = real[0].request
    assert isinstance(request, VoteRequest)
    assert not request.pre_vote
    actions = quorum.on_vote_response(now_ms, B, request, granted(request.epoch))
    entries.entries.append((quorum.epoch, "leader"))
    return actions


def leader(entries: MemoryLog | None = None, *, epoch: int = 1) -> tuple[Quorum, MemoryLog]:
    """A leader of `epoch` whose log holds its control record."""
    entries = entries if entries is not None else log()
    quorum = member(entries=entries, state=ElectionState(epoch=Epoch(epoch - 1)))
    elect(quorum, entries)
    return quorum, entries


def test_a_vote_is_persisted_before_it_is_given() -> None:
    """Whoever carries out actions in order has the vote on disk before the answer leaves."""
    answer, actions = member().on_vote(0, vote(3))
    assert answer.granted
    assert actions[-1] == Persist(state=ElectionState(epoch=Epoch(3), voted_for=B))


def test_one_vote_per_epoch() -> None:
    """The same candidate may ask again; another gets nothing."""
    quorum = member()
    assert quorum.on_vote(0, vote(3, by=B))[0].granted
    assert quorum.on_vote(0, vote(3, by=B))[0].granted
    assert not quorum.on_vote(0, vote(3, by=C))[0].granted
    assert quorum.role is Role.VOTED


@pytest.mark.parametrize(
    ("last", "end", "up_to_date"),
    [(4, 3, True), (4, 2, False), (5, 1, True), (3, 9, False), (4, 4, True)],
)
@pytest.mark.parametrize("pre", [True, False])
def test_votes_only_for_logs_as_up_to_date(
    last: int, end: int, up_to_date: bool, pre: bool
) -> None:
    """The last epoch decides, then the end."""
    quorum = member(entries=log(1, 4, 4))
    assert quorum.on_vote(0, vote(6, last=last, end=end, pre=pre))[0].granted is up_to_date


def test_a_stale_candidate_learns_the_epoch_from_the_response() -> None:
    """FENCED_LEADER_EPOCH comes with the epoch and the leader."""
    quorum = member(state=ElectionState(epoch=Epoch(5), leader_id=C))
    answer, actions = quorum.on_vote(0, vote(4))
    assert (answer.error, answer.epoch, answer.leader_id) == (ErrorCode.fenced_leader_epoch, 5, C)
    assert actions == []


def test_a_pre_vote_does_not_change_epoch_or_vote() -> None:
    """It bumps no epoch and binds no vote."""
    quorum = member(state=ElectionState(epoch=Epoch(5)))
    for candidate in (B, C):
        answer, actions = quorum.on_vote(0, vote(5, by=candidate, pre=True))
        assert answer.granted
        assert actions == []
    assert quorum.role is Role.UNATTACHED


def test_a_follower_of_a_live_leader_refuses_pre_votes() -> None:
    """Until it has not heard of the leader for the fetch timeout (KIP-996)."""
    quorum = member()
    quorum.on_begin_epoch(0, begin(1))
    assert not quorum.on_vote(1999, vote(1, by=C, pre=True))[0].granted
    assert quorum.on_vote(2000, vote(1, by=C, pre=True))[0].granted


def test_a_follower_of_a_leader_that_resigned_grants_pre_votes() -> None:
    """Otherwise the successor would have to wait for the fetch timeout after all."""
    quorum = member()
    quorum.on_begin_epoch(0, begin(1))
    resigned = EndEpochRequest(epoch=Epoch(1), leader_id=B, preferred_successors=(C, A))
    quorum.on_end_epoch(1, resigned)
    assert quorum.on_vote(2, vote(1, by=C, pre=True))[0].granted


def test_a_leader_refuses_pre_votes() -> None:
    """It is alive, as the one who asks may see."""
    quorum, _ = leader()
    assert not quorum.on_vote(LATE_MS, vote(1, last=9, end=9, pre=True))[0].granted


def test_non_voters_neither_vote_nor_lead() -> None:
    """Only the configured voters count, on both sides."""
    outsider = ErrorCode.inconsistent_voter_set
    assert member().on_vote(0, vote(3, by=OUTSIDER))[0].error is outsider
    assert member().on_begin_epoch(0, begin(3, OUTSIDER))[0].error is outsider
    observer = member(node=OUTSIDER)
    assert observer.role is Role.OBSERVER
    assert observer.on_vote(0, vote(3))[0].error is outsider
    assert observer.next_deadline_ms() == float("inf")


def test_election_order_of_actions() -> None:
    """The claim is on disk before the control record, and that before any announcement."""
    entries = log()
    quorum = member(entries=entries)
    kinds = [type(action) for action in elect(quorum, entries)]
    assert kinds == [Persist, AppendLeaderChange, BecameLeader, Send, Send]
    assert quorum.leader_id == A


def test_a_lost_round_backs_off_and_asks_again() -> None:
    """VoterChangeRefused by the majority, it waits a while, and the epoch stays."""
    quorum = member()
    request = sent(quorum.tick(LATE_MS))[0].request
    assert isinstance(request, VoteRequest)
    for peer in (B, C):
        quorum.on_vote_response(LATE_MS, peer, request, granted(0, yes=False))
    assert quorum.role is Role.UNATTACHED
    assert LATE_MS < quorum.next_deadline_ms() <= LATE_MS + TIMING.election_backoff_max_ms
    assert quorum.epoch == 0


def test_the_pauses_after_lost_rounds_begin_anew_with_a_victory() -> None:
    counts: list[int] = []

    class Noted(QuorumTiming):
        def backoff_ms(self, rng: random.Random, lost_rounds: int) -> float:
            counts.append(lost_rounds)
            return super().backoff_ms(rng, lost_rounds)

    entries = log()
    quorum = member(entries=entries, timing=Noted())

    def lose(now_ms: float) -> None:
        request = sent(quorum.tick(now_ms))[0].request
        assert isinstance(request, VoteRequest)
        for peer in (B, C):
            refusal = granted(quorum.epoch, yes=False)
            quorum.on_vote_response(now_ms, peer, request, refusal)

    lose(LATE_MS)
    lose(2 * LATE_MS)
    elect(quorum, entries, 3 * LATE_MS)
    quorum.resign(3 * LATE_MS)
    lose(4 * LATE_MS)
    assert counts == [1, 2, 1]


def test_the_leader_of_a_newer_epoch_replaces_the_one_before() -> None:
    quorum = member(state=ElectionState(epoch=Epoch(1), leader_id=B))
    answer, _ = quorum.on_begin_epoch(LATE_MS, begin(2, C))
    assert answer.error is ErrorCode.none
    assert (quorum.epoch, quorum.leader_id) == (2, C)


def test_a_restarted_leader_never_leads_its_epoch_again() -> None:
    """What it had appended may be gone; another record at that offset and epoch would be two
    (KAFKA-10527)."""
    quorum = member(state=ElectionState(epoch=Epoch(4), voted_for=A, leader_id=A))
    assert quorum.role is Role.RESIGNED
    assert quorum.leader_id is None
    assert not quorum.on_vote(0, vote(4))[0].granted
    elect(quorum, log())
    assert quorum.epoch == 5


def test_a_second_leader_of_an_epoch_raises_two_leaders() -> None:
    """It cannot happen; when it does, it is said."""
    quorum = member()
    quorum.on_begin_epoch(0, begin(1, B))
    claim = Response(error=ErrorCode.none, epoch=Epoch(1), leader_id=C)
    with pytest.raises(TwoLeaders):
        quorum.on_response(0, claim)


def test_nothing_is_committed_before_a_record_of_the_own_epoch() -> None:
    """A majority that has all but the leader's own record commits nothing (KAFKA-12619)."""
    quorum, entries = leader(log(0, 0))
    entries.flushed = 2
    assert quorum.on_fetch(LATE_MS, fetch(1, 2, 0))[1] == []
    assert quorum.on_fetch(LATE_MS, fetch(1, 3, 1))[1] == []  # own record is not flushed here
    entries.flushed = 3
    assert quorum.log_advanced(LATE_MS) == [HighWatermarkAdvanced(offset=Offset(3))]


def test_a_majority_of_followers_commits_while_the_leaders_disk_is_slow() -> None:
    """A leader's own log is one vote, not a condition."""
    quorum, entries = leader()
    entries.flushed = 0
    quorum.on_fetch(LATE_MS, fetch(1, 1, 1, by=B))
    assert quorum.high_watermark == 0
    quorum.on_fetch(LATE_MS, fetch(1, 1, 1, by=C))
    assert quorum.high_watermark == 1


def test_observers_do_not_commit() -> None:
    """Their fetches are noted and count for nothing."""
    quorum, entries = leader()
    entries.flushed = 0
    for node in (8, 9):
        quorum.on_fetch(LATE_MS, fetch(1, 1, 1, by=NodeId(node)))
    assert quorum.high_watermark == 0
    assert quorum.leadership is not None
    assert [key.node_id for key in quorum.leadership.observers] == [8, 9]


def test_a_leader_without_its_majority_resigns() -> None:
    """After one and a half fetch timeouts; one fetching voter of three is enough to stay."""
    quorum, _ = leader()
    assert quorum.tick(LATE_MS + 2999)
    quorum.on_fetch(LATE_MS + 2999, fetch(1, 1, 1, by=C))
    quorum.tick(LATE_MS + 5998)
    assert quorum.leadership is not None
    actions = quorum.tick(LATE_MS + 5999)
    assert quorum.role is Role.RESIGNED
    assert actions[0] == LostLeadership(epoch=Epoch(1))
    assert quorum.on_fetch(LATE_MS + 6000, fetch(1, 1, 1))[0].error is (
        ErrorCode.not_leader_or_follower
    )


def test_a_leader_announces_itself_again_to_silent_voters() -> None:
    """An announcement that was lost is repeated, to those that do not fetch."""
    quorum, _ = leader()
    quorum.on_fetch(LATE_MS + 900, fetch(1, 1, 1, by=C))
    assert [s.to for s in sent(quorum.tick(LATE_MS + 1000))] == [B]


def test_resignation_names_the_longest_log_first() -> None:
    """And that one stands at once, the next a while later."""
    quorum, entries = leader(log(0, 0))
    quorum.on_fetch(LATE_MS, fetch(1, 2, 0, by=B))
    quorum.on_fetch(LATE_MS, fetch(1, 3, 1, by=C))
    request = sent(quorum.resign(LATE_MS))[0].request
    assert isinstance(request, EndEpochRequest)
    assert request.preferred_successors == (C, B)
    assert entries.end_offset == 3
    waits = {}
    for node in (B, C):
        follower = member(node=node)
        follower.on_begin_epoch(LATE_MS, begin(1, A))
        follower.on_end_epoch(LATE_MS, request)
        waits[node] = follower.next_deadline_ms() - LATE_MS
    assert waits[C] == 0
    assert 100 <= waits[B] <= 200


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.fenced_leader_epoch), (2, ErrorCode.unknown_leader_epoch), (1, ErrorCode.none)],
)
def test_fetches_of_other_epochs_are_refused(epoch: int, error: ErrorCode) -> None:
    """Fenced when older, unknown when newer; and the leader stays what it is."""
    quorum, _ = leader()
    answer, _ = quorum.on_fetch(LATE_MS, fetch(epoch, 0, -1))
    assert (answer.error, answer.leader_id, answer.epoch) == (error, A, 1)


@pytest.mark.parametrize(
    ("follower", "cut_to"),
    [
        ((0, 0), None),
        ((0, 0, 0), 2),
        ((0, 0, 2, 2), 2),
        ((0, 0, 3, 3, 3), 4),
        ((0, 0, 3, 3, 4), 4),
        ((1, 1), 0),
    ],
)
def test_diverging_logs_agree_after_one_truncation(
    follower: tuple[int, ...], cut_to: int | None
) -> None:
    """The leader's answer cuts the follower at the end of what both have."""
    quorum, _ = leader(log(0, 0, 3, 3), epoch=5)
    entries = log(*follower)
    other = member(node=B, entries=entries)
    other.on_begin_epoch(0, begin(5, A))
    request = other.fetch_request()
    answer, _ = quorum.on_fetch(LATE_MS, request)
    outcome, actions = other.on_fetch_response(0, A, request, answer)
    if cut_to is None:
        assert outcome is FetchOutcome.APPEND
    else:
        assert actions == [Truncate(offset=Offset(cut_to))]


def test_a_truncation_of_committed_records_is_refused() -> None:
    """A leader that asks for it is no leader."""
    entries = log(0, 0, 1)
    quorum = member(entries=entries)
    quorum.on_begin_epoch(0, begin(2))
    assert quorum.appended_as_follower(LATE_MS, Offset(3)) == [
        HighWatermarkAdvanced(offset=Offset(3))
    ]
    answer = fetched(2, diverging=EpochEnd(Epoch(0), Offset(2)))
    with pytest.raises(CommittedTruncation):
        quorum.on_fetch_response(0, B, quorum.fetch_request(), answer)


def test_a_followers_high_watermark_is_bounded_by_its_log() -> None:
    """The leader's may lie beyond what arrived."""
    quorum = member(entries=log(0, 0))
    quorum.on_begin_epoch(0, begin(2))
    quorum.appended_as_follower(LATE_MS, Offset(50))
    assert quorum.high_watermark == 2


def test_a_voter_does_not_fetch_beyond_its_flushed_log() -> None:
    """Its fetch would promise what a power loss can take."""
    entries = log(0, 0)
    entries.flushed = 1
    with pytest.raises(InvariantBroken, match="on disk"):
        member(entries=entries).fetch_request()


def test_stale_fetch_responses_are_ignored() -> None:
    """An answer of an older epoch, of another leader, or for another offset is not appended."""
    quorum = member(entries=log(0))
    quorum.on_begin_epoch(0, begin(2))
    request = quorum.fetch_request()
    assert quorum.on_fetch_response(0, B, request, fetched(1))[0] is FetchOutcome.IGNORE
    assert quorum.on_fetch_response(0, C, request, fetched(2))[0] is FetchOutcome.IGNORE
    assert quorum.on_fetch_response(0, B, fetch(2, 0, -1), fetched(2))[0] is FetchOutcome.IGNORE
    assert quorum.on_fetch_response(0, B, request, fetched(2))[0] is FetchOutcome.APPEND


def test_a_newer_epoch_in_any_response_ends_leadership() -> None:
    """Persisted first, then said."""
    quorum, _ = leader()
    actions = quorum.on_response(LATE_MS, granted(7))
    assert actions == [
        Persist(state=ElectionState(epoch=Epoch(7))),
        LostLeadership(epoch=Epoch(1)),
    ]
    assert quorum.role is Role.UNATTACHED


def test_an_observer_stops_following_a_replaced_leader() -> None:
    """A leader that resigned, cut off from the voters only, must not keep its observers
    (KAFKA-15489)."""
    observer = member(node=OUTSIDER)
    error = ErrorCode.fenced_leader_epoch
    observer.on_fetch_response(0, A, observer.fetch_request(), fetched(3, leader=B, error=error))
    assert observer.fetch_target(1) == B
    refused = fetched(3, leader=None, error=ErrorCode.not_leader_or_follower)
    observer.on_fetch_response(1, B, observer.fetch_request(), refused)
    assert observer.fetch_target(1) is None
    assert observer.epoch == 3


def test_a_sole_voter_elects_itself_at_once() -> None:
    """There is nobody to wait for, and its own disk is the majority."""
    entries = log()
    quorum = member(voters=(A,), entries=entries)
    quorum.tick(0)
    assert quorum.role is Role.LEADER
    entries.entries.append((quorum.epoch, "leader"))
    entries.flushed = 1
    assert quorum.log_advanced(LATE_MS) == [HighWatermarkAdvanced(offset=Offset(1))]
    assert quorum.next_deadline_ms() > 0


def test_illegal_transitions_are_asserted() -> None:
    """No follower turns leader without standing for election."""
    quorum = member(state=ElectionState(epoch=Epoch(1), leader_id=B))
    with pytest.raises(InvariantBroken, match="FOLLOWER may not become LEADER"):
        quorum.transition(Role.LEADER)
