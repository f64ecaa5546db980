"""Epochs, roles and elections of one quorum member (KIP-595, KIP-996); `quorum` adds replication.

Guarantees, if the caller executes Persist before the actions and the response that follow it:
- At most one leader per epoch: a node votes once per epoch, and the vote is on disk before it is
  sent. A node that led an epoch never leads it again, even if it lost its log (KAFKA-10527).
- A vote goes only to a candidate whose log is at least as up to date.
- An isolated voter does not disturb the quorum when it returns: pre-votes do not change epochs, and
  a node that has a live leader refuses them.
- No request can make elections impossible for ever: `epochs` bounds the accepted epochs, and a node
  that is not a voter here is ignored while there is a live leader. No request halts a member.
"""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import NO_EPOCH, Epoch, NodeId, Offset
from nodes.raft.election_state import ElectionState
from nodes.raft.epochs import MAX_LEAP, highest_epoch
from nodes.raft.errors import InvariantBroken, TwoLeaders
from nodes.raft.leadership import Leadership
from nodes.raft.messages import (
    Action,
    AppendLeaderChange,
    BecameLeader,
    BeginEpochRequest,
    EndEpochRequest,
    LogView,
    LostLeadership,
    Persist,
    Response,
    Send,
    VoteRequest,
    VoteResponse,
)
from nodes.raft.roles import TRANSITIONS, Role
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import ReplicaKey, Voter, VoterSet

_NEVER = float("-inf")


class Elections:
    """The base class of Quorum: elections. Quorum adds the duties of a leader and replication."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        directory_id: UUID | None = None,
        state: ElectionState,
        log: LogView,
        timing: QuorumTiming,
        rng: random.Random,
        now_ms: float,
    ) -> None:
        self.node_id = node_id
        self.me = ReplicaKey(node_id, directory_id)
        self.high_watermark = Offset(0) if log.snapshot is None else log.snapshot.offset
        self.leadership: Leadership | None = None
        self._state = state
        self._confirmed_epoch = state.epoch
        self._log = log
        self._timing = timing
        self._rng = rng
        self._voters = log.voters
        self._granted: dict[NodeId, bool] = {}
        self._lost_rounds = 0
        self._leader_heard_ms = _NEVER
        self._actions: list[Action] = []
        self.role = self._resting_role()
        self._deadline_ms = self._fresh_deadline(now_ms)
        if self._voters.ids == (node_id,) and self.is_voter:
            self._deadline_ms = now_ms  # no other voter to wait for

    # -- public state

    @property
    def state(self) -> ElectionState:
        """The state that is, or is about to be, on disk."""
        return self._state

    @property
    def voters(self) -> VoterSet:
        """The voter set at the end of the log."""
        return self._voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica is a voter."""
        return self._voters.has(self.me)

    @property
    def epoch(self) -> Epoch:
        """The latest epoch that this node knows."""
        return self._state.epoch

    @property
    def leader_id(self) -> NodeId | None:
        """The known leader of `epoch`; None also for a leader that resigned."""
        leader = self._state.leader_id
        return None if leader == self.node_id and self.role is not Role.LEADER else leader

    def next_deadline_ms(self) -> float:
        """When `tick` must be called; infinity for never."""
        if self.leadership is not None:
            check = self.leadership.majority_since_ms() + self._timing.check_quorum_ms
            announce = self.leadership.announced_ms + self._timing.announce_ms
            return min(check, announce)
        if self.role is Role.OBSERVER:
            return float("inf")
        return self._deadline_ms

    # -- time

    def tick(self, now_ms: float) -> list[Action]:
        """Do the work that is due."""
        if now_ms >= self.next_deadline_ms():
            match self.role:
                case Role.UNATTACHED | Role.VOTED | Role.FOLLOWER | Role.RESIGNED:
                    self._start_pre_vote(now_ms)
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
        """Step down in favour of the voter with the longest log; do nothing unless leader."""
        if self.role is Role.LEADER:
            self._resign(now_ms)
        return self._drain()

    # -- votes

    def on_vote(self, now_ms: float, request: VoteRequest) -> tuple[VoteResponse, list[Action]]:
        """Answer a vote request or a pre-vote request."""
        granted = False
        error = self._check_log_end(request)
        if error is ErrorCode.none:
            error = self._check_voters(now_ms, request.candidate_id, request.voter_directory_id)
        if error is ErrorCode.none:
            error = self._check_epoch(now_ms, request.epoch, None)
        if error is ErrorCode.none:
            granted = self._grants(now_ms, request)
            if granted and not request.pre_vote and self._state.voted_for is None:
                node, directory = request.candidate
                voted = replace(self._state, voted_for=node, voted_directory_id=directory)
                self._enter_state(now_ms, voted)
        leader = self.leader_id
        answer = VoteResponse(error=error, epoch=self.epoch, leader_id=leader, granted=granted)
        return answer, self._drain()

    def on_vote_response(
        self, now_ms: float, sender: NodeId, request: VoteRequest, answer: VoteResponse
    ) -> list[Action]:
        """Count a vote response, if it belongs to the current round."""
        self._learn_from_response(now_ms, answer)
        asking = Role.PROSPECTIVE if request.pre_vote else Role.CANDIDATE
        running = self.role is asking and request.epoch == self.epoch
        if running and answer.error is ErrorCode.none and self._voters.get(sender) is not None:
            self._granted[sender] = answer.granted
            self._count(now_ms)
        return self._drain()

    # -- announcements

    def on_begin_epoch(
        self, now_ms: float, request: BeginEpochRequest
    ) -> tuple[Response, list[Action]]:
        """Follow a leader that announces itself."""
        error = self._check_voters(now_ms, request.leader_id, request.voter_directory_id)
        if error is ErrorCode.none:
            error = self._check_epoch(now_ms, request.epoch, request.leader_id)
        if error is ErrorCode.none and self.leader_id == request.leader_id:
            self._reset_leader_timeout(now_ms)
        return self._answer(error), self._drain()

    def on_end_epoch(
        self, now_ms: float, request: EndEpochRequest
    ) -> tuple[Response, list[Action]]:
        """The leader resigned: start an election, at once if first in its list of successors."""
        error = self._check_voters(now_ms, request.leader_id, None)
        if error is ErrorCode.none:
            error = self._check_epoch(now_ms, request.epoch, request.leader_id)
        if error is ErrorCode.none and self.role is Role.FOLLOWER:
            successors = request.preferred_successors
            place = successors.index(self.node_id) if self.node_id in successors else 0
            self._leader_heard_ms = _NEVER
            self._deadline_ms = now_ms + self._timing.succession_ms(self._rng, place)
        return self._answer(error), self._drain()

    def on_response(self, now_ms: float, answer: Response) -> list[Action]:
        """Handle the response to an announcement."""
        self._learn_from_response(now_ms, answer)
        return self._drain()

    # -- epochs and roles

    def transition(self, role: Role) -> None:
        """Change the role; the only place that does."""
        if role not in TRANSITIONS[self.role]:
            raise InvariantBroken(f"{self.role.name} may not become {role.name}")
        if self.leadership is not None and role is not Role.LEADER:
            self._actions.append(LostLeadership(epoch=self.leadership.epoch))
            self.leadership = None
        self.role = role

    def _resting_role(self) -> Role:
        """The role that follows from the state when no election and no leadership is active."""
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

    def _enter_state(
        self, now_ms: float, state: ElectionState, wait_ms: float | None = None
    ) -> None:
        """Adopt `state` and the role that follows from it; act again after `wait_ms`."""
        self._persist(state)
        self.transition(self._resting_role())
        self._deadline_ms = self._fresh_deadline(now_ms) if wait_ms is None else now_ms + wait_ms

    def _fresh_deadline(self, now_ms: float) -> float:
        if self.role in (Role.FOLLOWER, Role.OBSERVER):
            return now_ms + self._timing.fetch_timeout_ms
        return now_ms + self._timing.election_wait_ms(self._rng)

    def _learn_epoch(self, now_ms: float, epoch: Epoch, leader_id: NodeId | None) -> None:
        """Learn the epoch, and perhaps the leader, of a message; stale ones change nothing."""
        if epoch > self.epoch:
            self._leader_heard_ms = _NEVER
            self._enter_state(now_ms, ElectionState(epoch=epoch, leader_id=leader_id))
        elif epoch == self.epoch and leader_id is not None:
            if self._state.leader_id is None:
                self._enter_state(now_ms, replace(self._state, leader_id=leader_id))
            elif self._state.leader_id != leader_id:
                raise TwoLeaders(f"{self._state.leader_id} and {leader_id} both lead epoch {epoch}")

    def _learn_from_response(self, now_ms: float, answer: Response) -> None:
        """Learn from a response: it may name any epoch that this node can enter."""
        if answer.epoch <= highest_epoch(self._log.last_epoch):
            self._confirmed_epoch = max(self._confirmed_epoch, answer.epoch)
            self._learn_epoch(now_ms, answer.epoch, answer.leader_id)

    @staticmethod
    def _check_log_end(request: VoteRequest) -> ErrorCode:
        """Whether a candidate of this epoch can have a log with this end."""
        last_possible = request.epoch if request.pre_vote else request.epoch - 1
        possible = NO_EPOCH <= request.last_epoch <= last_possible and request.end_offset >= 0
        return ErrorCode.none if possible else ErrorCode.invalid_request

    def _check_voters(self, now_ms: float, sender: NodeId, addressed: UUID | None) -> ErrorCode:
        """Whether a voter request may come from `sender`, and is meant for this directory.

        If the log records the voters, the sender may be a voter that this log does not know yet.
        But then the others have elected it, or are about to, and this node has no live leader.
        """
        if sender < 0:
            return ErrorCode.invalid_request
        if addressed is not None and addressed != self.me.directory_id:
            return ErrorCode.invalid_voter_key
        if sender in self._voters.ids:
            may_ask = self.is_voter or not self._voters.is_static
        else:
            may_ask = not self._voters.is_static and not self._has_leader(now_ms)
        may_ask = may_ask and sender != self.node_id
        return ErrorCode.none if may_ask else ErrorCode.inconsistent_voter_set

    def _check_epoch(self, now_ms: float, epoch: Epoch, leader_id: NodeId | None) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > self.epoch and epoch > self._furthest_epoch:
            return ErrorCode.invalid_request
        known = self._state.leader_id
        if epoch == self.epoch and None not in (leader_id, known) and leader_id != known:
            return ErrorCode.invalid_request
        self._learn_epoch(now_ms, epoch, leader_id)
        return ErrorCode.none

    @property
    def _furthest_epoch(self) -> int:
        """The highest epoch that is accepted from a request."""
        last = self._log.last_epoch
        return min(highest_epoch(last), max(self._confirmed_epoch, last) + MAX_LEAP)

    def _answer(self, error: ErrorCode) -> Response:
        return Response(error=error, epoch=self.epoch, leader_id=self.leader_id)

    def _drain(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    # -- elections

    def _log_is_up_to_date(self, request: VoteRequest) -> bool:
        """Whether the candidate's log has all records committed here (Raft, 5.4.1)."""
        own = (self._log.last_epoch, self._log.end_offset)
        return (request.last_epoch, request.end_offset) >= own

    def _hears_leader(self, now_ms: float) -> bool:
        return now_ms - self._leader_heard_ms < self._timing.fetch_timeout_ms

    def _has_leader(self, now_ms: float) -> bool:
        """Whether this node leads, or has a live leader."""
        return self.role is Role.LEADER or (
            self.role in (Role.FOLLOWER, Role.OBSERVER) and self._hears_leader(now_ms)
        )

    def _grants(self, now_ms: float, request: VoteRequest) -> bool:
        if request.pre_vote:
            return not self._has_leader(now_ms) and self._log_is_up_to_date(request)
        if self._state.leader_id is not None:
            return False
        if self._state.voted_for is not None:
            voted = Voter(
                node_id=self._state.voted_for, directory_id=self._state.voted_directory_id
            )
            return voted.is_replica(request.candidate)
        return self._log_is_up_to_date(request)

    def _start_pre_vote(self, now_ms: float) -> None:
        self.transition(Role.PROSPECTIVE)
        self._start_round(now_ms, pre_vote=True)

    def _start_election(self, now_ms: float) -> None:
        epoch = Epoch(self.epoch + 1)
        if epoch > highest_epoch(self._log.last_epoch):
            self._lose_round(now_ms)  # no epoch is left for an election: wait for a leader
            return
        self._confirmed_epoch = epoch
        node, directory = self.me
        self._persist(ElectionState(epoch=epoch, voted_for=node, voted_directory_id=directory))
        self.transition(Role.CANDIDATE)
        self._start_round(now_ms, pre_vote=False)

    def _start_round(self, now_ms: float, *, pre_vote: bool) -> None:
        self._granted = {self.node_id: True}
        self._deadline_ms = now_ms + self._timing.election_timeout_ms
        for voter in self._others:
            request = VoteRequest(
                epoch=self.epoch,
                candidate_id=self.node_id,
                candidate_directory_id=self.me.directory_id,
                voter_directory_id=voter.directory_id,
                last_epoch=self._log.last_epoch,
                end_offset=self._log.end_offset,
                pre_vote=pre_vote,
            )
            self._actions.append(Send(to=voter.node_id, request=request))
        self._count(now_ms)

    def _count(self, now_ms: float) -> None:
        granted = sum(self._granted.values())
        refused = len(self._granted) - granted
        if granted >= self._voters.majority:
            if self.role is Role.PROSPECTIVE:
                self._start_election(now_ms)
            else:
                self._become_leader(now_ms)
        elif refused > len(self._voters.voters) - self._voters.majority:
            self._lose_round(now_ms)

    def _lose_round(self, now_ms: float) -> None:
        self._lost_rounds += 1
        pause_ms = self._timing.backoff_ms(self._rng, self._lost_rounds)
        self._enter_state(now_ms, self._state, pause_ms)

    # -- leading

    def _become_leader(self, now_ms: float) -> None:
        self._lost_rounds = 0
        self._persist(replace(self._state, leader_id=self.node_id))
        self.transition(Role.LEADER)
        self.leadership = Leadership(
            epoch=self.epoch,
            start_offset=self._log.end_offset,
            me=self.me,
            voters=self._voters,
            now_ms=now_ms,
        )
        granting = tuple(sorted(node for node, granted in self._granted.items() if granted))
        change = AppendLeaderChange(
            epoch=self.epoch,
            leader_id=self.node_id,
            voters=self._voters.ids,
            granting_voters=granting,
        )
        self._actions += [change, BecameLeader(epoch=self.epoch)]
        self._announce(self.leadership.voters)

    def _announce(self, to: Iterable[NodeId]) -> None:
        for node in to:
            voter = self._voters.get(node)
            request = BeginEpochRequest(
                epoch=self.epoch,
                leader_id=self.node_id,
                voter_directory_id=voter.directory_id if voter else None,
            )
            self._actions.append(Send(to=node, request=request))

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
        self._enter_state(now_ms, self._state)
        self._actions.extend(Send(to=voter.node_id, request=request) for voter in self._others)

    def _reset_leader_timeout(self, now_ms: float) -> None:
        if self.role in (Role.FOLLOWER, Role.PROSPECTIVE, Role.OBSERVER):
            self._lost_rounds = 0
            self._leader_heard_ms = now_ms
            self._enter_state(now_ms, self._state)

    @property
    def _others(self) -> tuple[Voter, ...]:
        return tuple(voter for voter in self._voters.voters if voter.node_id != self.node_id)
