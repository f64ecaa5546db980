"""One member of the metadata quorum: elections and the high watermark (KIP-595, KIP-996). Pure.

Every method takes the time in monotonic milliseconds and returns what to do, in order (see
`messages`). The caller owns the log, the file, the sockets and the clock; it calls `tick` at
`next_deadline_ms`.

Guarantees, as long as Persist is carried out before the actions and the answer that follow it:
- At most one leader per epoch: one vote per epoch, on disk before it is given; a node that led an
  epoch never leads it again, whatever of its log it lost (KAFKA-10527).
- A leader has every committed record: votes go only to logs at least as up to date, and a record
  counts on a voter only once it is flushed there.
- Committed records stay: the high watermark never goes back, and a leader moves it only along with
  a record of its own epoch (KAFKA-12619).
- A voter that was cut off disturbs nobody when it returns: pre-votes leave epochs alone, and are
  refused by those who hear a live leader.

Known limit: with static voters nothing tells a voter that lost its disk from a new one. Such a
voter may vote twice in an epoch, or elect a leader without records that it had acknowledged
(KAFKA-14077). Directory ids (KIP-853) would tell; until then a wiped voter must not be restarted
under its old id.
"""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.divergence import EpochEnd, divergence, truncation_offset
from nodes.raft.election_state import ElectionState
from nodes.raft.errors import CommittedTruncation, InvariantBroken, TwoLeaders
from nodes.raft.leadership import Leadership
from nodes.raft.messages import (
    Action,
    Answer,
    AppendLeaderChange,
    BecameLeader,
    BeginEpochRequest,
    EndEpochRequest,
    FetchAnswer,
    FetchRequest,
    HighWatermarkAdvanced,
    LogView,
    LostLeadership,
    Persist,
    Send,
    Truncate,
    VoteAnswer,
    VoteRequest,
)
from nodes.raft.roles import TRANSITIONS, Role
from nodes.raft.timing import QuorumTiming

_NEVER = float("-inf")


class Quorum:
    """The state machine. `state` is what `quorum-state` held, or the default on a new disk."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        voters: Iterable[NodeId],
        state: ElectionState,
        log: LogView,
        timing: QuorumTiming,
        rng: random.Random,
        now_ms: float,
    ) -> None:
        self.node_id = node_id
        self.voters = tuple(sorted(voters))
        self.is_voter = node_id in self.voters
        self.high_watermark = Offset(0)
        self.leadership: Leadership | None = None
        self._state = state
        self._log = log
        self._timing = timing
        self._rng = rng
        self._others = tuple(voter for voter in self.voters if voter != node_id)
        self._majority = len(self.voters) // 2 + 1
        self._granted: dict[NodeId, bool] = {}
        self._lost_rounds = 0
        self._leader_heard_ms = _NEVER
        self._actions: list[Action] = []
        self.role = self._resting_role()
        self._deadline_ms = self._fresh_deadline(now_ms)
        if self.voters == (node_id,):
            self._deadline_ms = now_ms  # nobody to wait for

    # -- what others may see

    @property
    def state(self) -> ElectionState:
        """What is, or is about to be, on disk."""
        return self._state

    @property
    def epoch(self) -> Epoch:
        """The latest epoch this node has heard of."""
        return self._state.epoch

    @property
    def leader_id(self) -> NodeId | None:
        """The leader of `epoch` as far as known. A leader that resigned is none."""
        leader = self._state.leader_id
        return None if leader == self.node_id and self.role is not Role.LEADER else leader

    def fetch_target(self, now_ms: float) -> NodeId | None:
        """From whom to fetch; None for a voter without leader, and for an observer that must ask
        the voters in turn, its leader being unknown or silent."""
        match self.role:
            case Role.FOLLOWER | Role.PROSPECTIVE:
                return self.leader_id
            case Role.OBSERVER:
                return self.leader_id if now_ms < self._deadline_ms else None
            case _:
                return None

    def next_deadline_ms(self) -> float:
        """When `tick` is due; infinity for never."""
        if self.leadership is not None:
            check = self.leadership.majority_since_ms() + self._timing.check_quorum_ms
            announce = self.leadership.announced_ms + self._timing.announce_ms
            return min(check, announce)
        if self.role is Role.OBSERVER:
            return float("inf")
        return self._deadline_ms

    # -- time

    def tick(self, now_ms: float) -> list[Action]:
        """Do what is due."""
        if now_ms >= self.next_deadline_ms():
            match self.role:
                case Role.UNATTACHED | Role.VOTED | Role.FOLLOWER | Role.RESIGNED:
                    self._ask_around(now_ms)
                case Role.PROSPECTIVE | Role.CANDIDATE:
                    self._lose_round(now_ms)
                case Role.LEADER:
                    self._check_quorum(now_ms)
                case Role.OBSERVER:
                    pass
                case _:
                    assert_never(self.role)
        return self._drain()

    def resign(self, now_ms: float) -> list[Action]:
        """Step down in favour of the voter with the longest log; nothing unless leader."""
        if self.role is Role.LEADER:
            self._resign(now_ms)
        return self._drain()

    # -- votes

    def on_vote(self, now_ms: float, request: VoteRequest) -> tuple[VoteAnswer, list[Action]]:
        """Answer a vote or a pre-vote."""
        granted = False
        error = self._check_voters(request.candidate_id)
        if error is ErrorCode.none:
            error = self._check_epoch(now_ms, request.epoch, None)
        if error is ErrorCode.none:
            granted = self._grants(now_ms, request)
            if granted and not request.pre_vote and self._state.voted_for is None:
                self._settle(now_ms, replace(self._state, voted_for=request.candidate_id))
        leader = self.leader_id
        answer = VoteAnswer(error=error, epoch=self.epoch, leader_id=leader, granted=granted)
        return answer, self._drain()

    def on_vote_answer(
        self, now_ms: float, sender: NodeId, request: VoteRequest, answer: VoteAnswer
    ) -> list[Action]:
        """Count an answer, if it belongs to the round that runs."""
        self._observe(now_ms, answer.epoch, answer.leader_id)
        asking = Role.PROSPECTIVE if request.pre_vote else Role.CANDIDATE
        running = self.role is asking and request.epoch == self.epoch
        if running and answer.error is ErrorCode.none and sender in self._others:
            self._granted[sender] = answer.granted
            self._count(now_ms)
        return self._drain()

    # -- announcements

    def on_begin_epoch(
        self, now_ms: float, request: BeginEpochRequest
    ) -> tuple[Answer, list[Action]]:
        """A leader announces itself: follow it."""
        error = self._check_voters(request.leader_id)
        if error is ErrorCode.none:
            error = self._check_epoch(now_ms, request.epoch, request.leader_id)
        if error is ErrorCode.none and self.leader_id == request.leader_id:
            self._hear_leader(now_ms)
        return self._answer(error), self._drain()

    def on_end_epoch(self, now_ms: float, request: EndEpochRequest) -> tuple[Answer, list[Action]]:
        """The leader resigned: stand for election, the first of its list at once."""
        error = self._check_voters(request.leader_id)
        if error is ErrorCode.none:
            error = self._check_epoch(now_ms, request.epoch, request.leader_id)
        if error is ErrorCode.none and self.role is Role.FOLLOWER:
            successors = request.preferred_successors
            place = successors.index(self.node_id) if self.node_id in successors else 0
            self._leader_heard_ms = _NEVER
            self._deadline_ms = now_ms + self._timing.succession_ms(self._rng, place)
        return self._answer(error), self._drain()

    def on_answer(self, now_ms: float, answer: Answer) -> list[Action]:
        """The answer to an announcement."""
        self._observe(now_ms, answer.epoch, answer.leader_id)
        return self._drain()

    # -- replication

    def on_fetch(self, now_ms: float, request: FetchRequest) -> tuple[FetchAnswer, list[Action]]:
        """A replica's fetch arrived: note what it says, and answer (see `fetch_answer`)."""
        told = self.fetch_answer(request)
        if told.error is ErrorCode.none and self.leadership is not None:
            if told.diverging is None:
                end = self._log.end_offset
                self.leadership.fetched(request.replica_id, now_ms, request.offset, end)
                self._advance()
            else:
                self.leadership.heard(request.replica_id, now_ms)
        return self.fetch_answer(request), self._drain()

    def fetch_answer(self, request: FetchRequest) -> FetchAnswer:
        """What to answer a fetch right now; a long poll asks again when something moved.

        Records from its offset go with an answer that has neither error nor divergence.
        """
        error, log = self._check_fetch(request), self._log
        refused = error is not ErrorCode.none
        return FetchAnswer(
            error=error,
            epoch=self.epoch,
            leader_id=self.leader_id,
            high_watermark=self.high_watermark,
            diverging=None if refused else divergence(log, request.last_epoch, request.offset),
        )

    def fetch_request(self) -> FetchRequest:
        """The next fetch. A voter must have flushed its whole log: the fetch says so."""
        if self.is_voter and self._log.flushed_offset != self._log.end_offset:
            raise InvariantBroken(
                f"a voter may not fetch at {self._log.end_offset}: "
                f"only below {self._log.flushed_offset} its log is on disk"
            )
        return FetchRequest(
            replica_id=self.node_id,
            epoch=self.epoch,
            offset=self._log.end_offset,
            last_epoch=self._log.last_epoch,
        )

    def on_fetch_answer(
        self, now_ms: float, sender: NodeId, request: FetchRequest, answer: FetchAnswer
    ) -> tuple[bool, list[Action]]:
        """Learn from an answer. True: append its records (if any), then call
        `appended_as_follower` with its high watermark."""
        self._observe(now_ms, answer.epoch, answer.leader_id)
        current = request.epoch == answer.epoch == self.epoch and sender == self._state.leader_id
        if not current or self.role not in (Role.FOLLOWER, Role.PROSPECTIVE, Role.OBSERVER):
            return False, self._drain()
        if answer.error is not ErrorCode.none:
            if self.role is Role.OBSERVER:
                self._deadline_ms = now_ms  # deposed (KAFKA-15489): ask the others
            return False, self._drain()
        self._hear_leader(now_ms)
        end = (self._log.end_offset, self._log.last_epoch)
        at_end = (request.offset, request.last_epoch) == end
        if at_end and answer.diverging is not None:
            self._truncate(answer.diverging)
        return at_end and answer.diverging is None, self._drain()

    def appended_as_follower(self, leader_high_watermark: Offset) -> list[Action]:
        """The records of a fetch are in the log: what of them is committed?"""
        if self.leadership is None:
            self._commit(Offset(min(leader_high_watermark, self._log.end_offset)))
        return self._drain()

    def log_advanced(self) -> list[Action]:
        """This log grew, or more of it is flushed: as leader, see whether more is committed."""
        self._advance()
        return self._drain()

    # -- inside, epochs and roles

    def transition(self, role: Role) -> None:
        """The one place where the role changes."""
        if role not in TRANSITIONS[self.role]:
            raise InvariantBroken(f"{self.role.name} may not become {role.name}")
        if self.leadership is not None and role is not Role.LEADER:
            self._actions.append(LostLeadership(epoch=self.leadership.epoch))
            self.leadership = None
        self.role = role

    def _resting_role(self) -> Role:
        """The role that follows from what is known, when no election and no leadership runs."""
        if not self.is_voter:
            return Role.OBSERVER
        if self._state.leader_id == self.node_id:
            return Role.RESIGNED
        if self._state.leader_id is not None:
            return Role.FOLLOWER
        return Role.UNATTACHED if self._state.voted_for is None else Role.VOTED

    def _persist(self, state: ElectionState) -> None:
        if state != self._state:
            self._state = state
            self._actions.append(Persist(state=state))

    def _settle(self, now_ms: float, state: ElectionState, wait_ms: float | None = None) -> None:
        """Take `state` for true and the role that follows from it; act again after `wait_ms`."""
        self._persist(state)
        self.transition(self._resting_role())
        self._deadline_ms = self._fresh_deadline(now_ms) if wait_ms is None else now_ms + wait_ms

    def _fresh_deadline(self, now_ms: float) -> float:
        if self.role in (Role.FOLLOWER, Role.OBSERVER):
            return now_ms + self._timing.fetch_timeout_ms
        return now_ms + self._timing.election_wait_ms(self._rng)

    def _observe(self, now_ms: float, epoch: Epoch, leader_id: NodeId | None) -> None:
        """Every message tells of an epoch, and perhaps of its leader. Stale ones change nothing."""
        leader = leader_id if leader_id in self.voters else None
        if epoch > self.epoch:
            self._leader_heard_ms = _NEVER
            self._settle(now_ms, ElectionState(epoch=epoch, leader_id=leader))
        elif epoch == self.epoch and leader is not None:
            if self._state.leader_id is None:
                self._settle(now_ms, replace(self._state, leader_id=leader))
            elif self._state.leader_id != leader:
                raise TwoLeaders(f"{self._state.leader_id} and {leader} both lead epoch {epoch}")

    def _check_voters(self, sender: NodeId) -> ErrorCode:
        known = self.is_voter and sender in self._others
        return ErrorCode.none if known else ErrorCode.inconsistent_voter_set

    def _check_epoch(self, now_ms: float, epoch: Epoch, leader_id: NodeId | None) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.fenced_leader_epoch
        self._observe(now_ms, epoch, leader_id)
        return ErrorCode.none

    def _answer(self, error: ErrorCode) -> Answer:
        return Answer(error=error, epoch=self.epoch, leader_id=self.leader_id)

    def _drain(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    # -- inside, elections

    def _log_is_up_to_date(self, request: VoteRequest) -> bool:
        """Whether the candidate's log has all that this one has committed (Raft, 5.4.1)."""
        own = (self._log.last_epoch, self._log.end_offset)
        return (request.last_epoch, request.end_offset) >= own

    def _hears_leader(self, now_ms: float) -> bool:
        return now_ms - self._leader_heard_ms < self._timing.fetch_timeout_ms

    def _grants(self, now_ms: float, request: VoteRequest) -> bool:
        if request.pre_vote:
            has_leader = self.role is Role.LEADER or (
                self.role is Role.FOLLOWER and self._hears_leader(now_ms)
            )
            return not has_leader and self._log_is_up_to_date(request)
        if self._state.leader_id is not None:
            return False
        if self._state.voted_for is not None:
            return self._state.voted_for == request.candidate_id
        return self._log_is_up_to_date(request)

    def _ask_around(self, now_ms: float) -> None:
        self.transition(Role.PROSPECTIVE)
        self._start_round(now_ms, pre_vote=True)

    def _stand(self, now_ms: float) -> None:
        epoch = Epoch(self.epoch + 1)
        self._persist(ElectionState(epoch=epoch, voted_for=self.node_id))
        self.transition(Role.CANDIDATE)
        self._start_round(now_ms, pre_vote=False)

    def _start_round(self, now_ms: float, *, pre_vote: bool) -> None:
        self._granted = {self.node_id: True}
        self._deadline_ms = now_ms + self._timing.election_timeout_ms
        request = VoteRequest(
            epoch=self.epoch,
            candidate_id=self.node_id,
            last_epoch=self._log.last_epoch,
            end_offset=self._log.end_offset,
            pre_vote=pre_vote,
        )
        self._actions.extend(Send(to=voter, request=request) for voter in self._others)
        self._count(now_ms)

    def _count(self, now_ms: float) -> None:
        granted = sum(self._granted.values())
        refused = len(self._granted) - granted
        if granted >= self._majority:
            if self.role is Role.PROSPECTIVE:
                self._stand(now_ms)
            else:
                self._lead(now_ms)
        elif refused > len(self.voters) - self._majority:
            self._lose_round(now_ms)

    def _lose_round(self, now_ms: float) -> None:
        self._lost_rounds += 1
        pause_ms = self._timing.backoff_ms(self._rng, self._lost_rounds)
        self._settle(now_ms, self._state, pause_ms)

    # -- inside, leading

    def _lead(self, now_ms: float) -> None:
        self._lost_rounds = 0
        self._persist(replace(self._state, leader_id=self.node_id))
        self.transition(Role.LEADER)
        self.leadership = Leadership(
            epoch=self.epoch,
            start_offset=self._log.end_offset,
            others=self._others,
            now_ms=now_ms,
        )
        granting = tuple(sorted(node for node, granted in self._granted.items() if granted))
        change = AppendLeaderChange(
            epoch=self.epoch,
            leader_id=self.node_id,
            voters=self.voters,
            granting_voters=granting,
        )
        self._actions += [change, BecameLeader(epoch=self.epoch)]
        self._announce(self._others)

    def _announce(self, to: Iterable[NodeId]) -> None:
        request = BeginEpochRequest(epoch=self.epoch, leader_id=self.node_id)
        self._actions.extend(Send(to=voter, request=request) for voter in to)

    def _check_quorum(self, now_ms: float) -> None:
        assert self.leadership is not None
        if now_ms >= self.leadership.majority_since_ms() + self._timing.check_quorum_ms:
            self._resign(now_ms)
        else:
            self.leadership.announced_ms = now_ms
            self._announce(self.leadership.silent(now_ms, self._timing.announce_ms))

    def _resign(self, now_ms: float) -> None:
        assert self.leadership is not None
        request = EndEpochRequest(
            epoch=self.epoch,
            leader_id=self.node_id,
            preferred_successors=self.leadership.successors(),
        )
        self._settle(now_ms, self._state)
        self._actions.extend(Send(to=voter, request=request) for voter in self._others)

    def _advance(self) -> None:
        if self.leadership is not None:
            end = self.leadership.committed_end(self._own_flushed())
            if end is not None:
                self._commit(end)

    def _own_flushed(self) -> Offset:
        return self._log.flushed_offset

    def _commit(self, offset: Offset) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._actions.append(HighWatermarkAdvanced(offset=offset))

    def _check_fetch(self, request: FetchRequest) -> ErrorCode:
        if request.epoch < self.epoch:
            return ErrorCode.fenced_leader_epoch
        if request.epoch > self.epoch:
            return ErrorCode.unknown_leader_epoch
        if self.leadership is None:
            return ErrorCode.not_leader_or_follower
        if request.replica_id < 0 or request.replica_id == self.node_id:
            return ErrorCode.invalid_request
        return ErrorCode.none

    def _hear_leader(self, now_ms: float) -> None:
        if self.role in (Role.FOLLOWER, Role.PROSPECTIVE, Role.OBSERVER):
            self._lost_rounds = 0
            self._leader_heard_ms = now_ms
            self._settle(now_ms, self._state)

    def _truncate(self, diverging: EpochEnd) -> None:
        end = truncation_offset(self._log, diverging)
        if end < self.high_watermark:
            raise CommittedTruncation(
                f"the leader of epoch {self.epoch} diverges at {end}, "
                f"but everything below {self.high_watermark} is committed"
            )
        if end >= self._log.end_offset:
            raise InvariantBroken(f"told to truncate to {end} a log that ends there or before")
        self._actions.append(Truncate(offset=end))
