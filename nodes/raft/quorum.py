"""One member of the metadata quorum: elections and the high watermark (KIP-595, KIP-996). Pure.

Every method takes the time in monotonic milliseconds and returns the actions to execute, in order
(see `messages`). The caller owns the log, the file, the sockets and the clock; it calls `tick` at
`next_deadline_ms`.

Guarantees, if the caller executes Persist before the actions and the response that follow it:
- At most one leader per epoch: a node votes once per epoch, and the vote is on disk before it is
  sent. A node that led an epoch never leads it again, even if it lost its log (KAFKA-10527).
- A leader has every committed record: a vote goes only to a log that is at least as up to date, and
  a record counts on a voter only when it is flushed there.
- Committed records stay: the high watermark never goes back, and a leader advances it only together
  with a record of its own epoch (KAFKA-12619).
- An isolated voter does not disturb the quorum when it returns: pre-votes do not change epochs, and
  a node that has a live leader refuses them.
- A voter that lost its disk is a different replica: it gives no vote to a candidate that knows its
  old directory, and its empty log elects no node (KAFKA-14077, KIP-853). The voters' directories
  are recorded when every configured voter has fetched from one leader (`AppendVoters`). A voter
  that loses its disk earlier, or has not received that record yet, is as unsafe as one of Kafka's
  static voters.
"""

from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.divergence import EpochEnd, truncation_offset
from nodes.raft import membership
from nodes.raft.elections import Elections
from nodes.raft.errors import CommittedTruncation, InvariantBroken
from nodes.raft.messages import (
    Action,
    AppendVoters,
    FetchOutcome,
    FetchRequest,
    FetchResponse,
    HighWatermarkAdvanced,
    Response,
    Truncate,
)
from nodes.raft.positions import SnapshotId, validate_position
from nodes.raft.roles import Role
from nodes.raft.voters import ReplicaKey, Voter, VoterSet


class Quorum(Elections):
    """The state machine. `state` is the content of `quorum-state`, or the default on a new disk.

    The log determines the voters (`LogView.voters`).
    """

    # -- fetching and serving fetches

    def fetch_target(self, now_ms: float) -> NodeId | None:
        """The node to fetch from. None for a voter without a leader, and for an observer whose
        leader is unknown or silent; the observer must then try the voters in turn."""
        match self.role:
            case Role.FOLLOWER | Role.PROSPECTIVE:
                return self.leader_id
            case Role.OBSERVER:
                return self.leader_id if now_ms < self._deadline_ms else None
            case _:
                return None

    def on_fetch(self, now_ms: float, request: FetchRequest) -> tuple[FetchResponse, list[Action]]:
        """Store the progress in a replica's fetch, and answer it (see `fetch_response`)."""
        response = self.fetch_response(request)
        if response.error is ErrorCode.none and self.leadership is not None:
            if response.plain:
                end = self._log.end_offset
                self.leadership.fetched(request.replica, now_ms, request.offset, end)
                self._advance(now_ms)
                self._record_voters()
            else:
                self.leadership.heard(request.replica, now_ms)
        return self.fetch_response(request), self._drain()

    def on_snapshot_fetch(
        self, now_ms: float, epoch: Epoch, replica: ReplicaKey
    ) -> tuple[Response, list[Action]]:
        """A replica that fetches a part of a snapshot is alive. The caller adds the part."""
        error = self._check_fetch(epoch, replica.node_id)
        if error is ErrorCode.none and self.leadership is not None:
            self.leadership.heard(replica, now_ms)
        return self._answer(error), self._drain()

    def fetch_response(self, request: FetchRequest) -> FetchResponse:
        """The response to a fetch at this moment; a long poll asks again after a change.

        The caller adds records from the fetch offset to a plain response.
        """
        error = self._check_fetch(request.epoch, request.replica_id)
        verdict: EpochEnd | SnapshotId | None = None
        if error is ErrorCode.none:
            verdict = validate_position(self._log, request.last_epoch, request.offset)
        return FetchResponse(
            error=error,
            epoch=self.epoch,
            leader_id=self.leader_id,
            high_watermark=self.high_watermark,
            diverging=verdict if isinstance(verdict, EpochEnd) else None,
            snapshot=verdict if isinstance(verdict, SnapshotId) else None,
        )

    def fetch_request(self) -> FetchRequest:
        """The next fetch. The whole log must be flushed, because the fetch means that it is.

        This includes observers: when an observer becomes a voter, its earlier fetches count.
        """
        if self._log.flushed_offset != self._log.end_offset:
            raise InvariantBroken(
                f"a replica may not fetch at {self._log.end_offset}: "
                f"only below {self._log.flushed_offset} its log is on disk"
            )
        return FetchRequest(
            replica_id=self.node_id,
            directory_id=self.me.directory_id,
            epoch=self.epoch,
            offset=self._log.end_offset,
            last_epoch=self._log.last_epoch,
        )

    def on_fetch_response(
        self, now_ms: float, sender: NodeId, request: FetchRequest, answer: FetchResponse
    ) -> tuple[FetchOutcome, list[Action]]:
        """Handle a fetch response."""
        if not self._accept_response(now_ms, sender, request.epoch, answer):
            return FetchOutcome.IGNORE, self._drain()
        end = (self._log.end_offset, self._log.last_epoch)
        if (request.offset, request.last_epoch) != end:
            return FetchOutcome.IGNORE, self._drain()
        if answer.snapshot is not None:
            self._check_snapshot(answer.snapshot)
            return FetchOutcome.SNAPSHOT, self._drain()
        if answer.diverging is not None:
            self._truncate(answer.diverging)
            return FetchOutcome.TRUNCATED, self._drain()
        return FetchOutcome.APPEND, self._drain()

    def on_snapshot_response(
        self, now_ms: float, sender: NodeId, epoch: Epoch, answer: Response
    ) -> tuple[bool, list[Action]]:
        """Handle a part of a snapshot requested in `epoch`; return whether to continue."""
        return self._accept_response(now_ms, sender, epoch, answer), self._drain()

    def _accept_response(
        self, now_ms: float, sender: NodeId, epoch: Epoch, answer: Response
    ) -> bool:
        """Whether a response is from the current leader, in its epoch, and without an error."""
        self._learn_from_response(now_ms, answer)
        current = epoch == answer.epoch == self.epoch and sender == self._state.leader_id
        if not current or self.role not in (Role.FOLLOWER, Role.PROSPECTIVE, Role.OBSERVER):
            return False
        if answer.error is not ErrorCode.none:
            if self.role is Role.OBSERVER:
                self._deadline_ms = now_ms  # no longer the leader (KAFKA-15489): ask the others
            return False
        self._reset_leader_timeout(now_ms)
        return True

    def appended_as_follower(self, now_ms: float, leader_high_watermark: Offset) -> list[Action]:
        """The records of a fetch are in the log: advance the high watermark."""
        self._refresh_voters(now_ms)
        if self.leadership is None:
            self._commit(now_ms, Offset(min(leader_high_watermark, self._log.end_offset)))
        return self._drain()

    def installed_snapshot(self, now_ms: float) -> list[Action]:
        """The log was replaced by its newest snapshot, and is empty after it."""
        assert self._log.snapshot is not None
        self._refresh_voters(now_ms)
        self._commit(now_ms, self._log.snapshot.offset)
        return self._drain()

    def log_advanced(self, now_ms: float) -> list[Action]:
        """The log has grown, was truncated, or more of it was flushed."""
        self._refresh_voters(now_ms)
        self._advance(now_ms)
        self._record_voters()
        return self._drain()

    # -- changing the voters

    def add_voter(self, now_ms: float, voter: Voter) -> list[Action]:
        """Begin to add a replica to the voters. Raises membership.VoterChangeRefused."""
        voters = membership.begin_change(self._log, self.leadership, self.high_watermark)
        assert self.leadership is not None
        return self._change(membership.with_voter(voters, voter, self.leadership, now_ms))

    def remove_voter(self, key: ReplicaKey) -> list[Action]:
        """Begin to remove a voter, perhaps this node itself. Raises
        membership.VoterChangeRefused."""
        voters = membership.begin_change(self._log, self.leadership, self.high_watermark)
        return self._change(membership.without_voter(voters, key))

    def update_voter(self, voter: Voter) -> list[Action]:
        """Begin to change a voter's endpoints. Raises membership.VoterChangeRefused."""
        voters = membership.begin_change(self._log, self.leadership, self.high_watermark)
        return self._change(membership.with_update(voters, voter))

    def _change(self, voters: VoterSet) -> list[Action]:
        if voters != self._voters:
            self._actions.append(AppendVoters(epoch=self.epoch, voters=voters, first=False))
        return self._drain()

    def _record_voters(self) -> None:
        """Write the configured voters into the log when all their directories are known."""
        leads = self.leadership
        if leads and self._voters.is_static and self.high_watermark > leads.start_offset:
            voters = membership.first_recorded(self._voters, leads)
            if voters is not None:
                self._actions.append(AppendVoters(epoch=self.epoch, voters=voters, first=True))

    def _refresh_voters(self, now_ms: float) -> None:
        """Use the latest voter set in the log."""
        if self._log.voters == self._voters:
            return
        self._voters = self._log.voters
        if self.leadership is not None:
            self.leadership.change_voters(self._voters)
        elif self.is_voter == (self.role is Role.OBSERVER):
            self._enter_state(now_ms, self._state)

    # -- helpers

    def _advance(self, now_ms: float) -> None:
        if self.leadership is not None:
            end = self.leadership.committed_end(self._own_flushed())
            if end is not None:
                self._commit(now_ms, end)

    def _own_flushed(self) -> Offset:
        return self._log.flushed_offset

    def _commit(self, now_ms: float, offset: Offset) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._actions.append(HighWatermarkAdvanced(offset=offset))
        removed = self.leadership is not None and not self.is_voter
        if removed and self.high_watermark > self._log.voters_offset:
            self._resign(now_ms)  # its removal is committed: the others continue without it

    def _check_fetch(self, epoch: Epoch, replica_id: NodeId) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > self.epoch:
            return ErrorCode.unknown_leader_epoch
        if self.leadership is None:
            return ErrorCode.not_leader_or_follower
        if replica_id < 0 or replica_id == self.node_id:
            return ErrorCode.invalid_request
        return ErrorCode.none

    def _check_snapshot(self, snapshot: SnapshotId) -> None:
        if snapshot.offset < self.high_watermark:
            raise CommittedTruncation(
                f"the leader of epoch {self.epoch} sends a snapshot that ends at "
                f"{snapshot.offset}, but everything below {self.high_watermark} is committed"
            )

    def _truncate(self, diverging: EpochEnd) -> None:
        end = truncation_offset(self._log, diverging)
        if end < self.high_watermark:
            raise CommittedTruncation(
                f"the leader of epoch {self.epoch} diverges at {end}, "
                f"but everything below {self.high_watermark} is committed"
            )
        if end >= self._log.end_offset:
            raise InvariantBroken(f"response to truncate to {end} a log that ends there or before")
        self._actions.append(Truncate(offset=end))
