"""The invariants of the metadata quorum: one leader per epoch, votes on the disk, a high watermark
that stays.

- Each node that knows the leader of a quorum epoch knows the same leader.
- A member's state (epoch, vote, leader) is on its disk after the event that changed it. On one disk
  the epoch never goes back, and the vote and the leader of an epoch never change.
- A leader's high watermark never goes back, ends behind a record of its own epoch (KAFKA-12619),
  and is fsynced at a majority of the voters. Only a damaged disk may have lost what was fsynced.
- A leader has everything that leaders of earlier epochs committed.
- A follower believes only committed records to be committed.
"""

from collections.abc import Mapping

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.durable import durable_content
from harness.simulation.invariants.log_copy import Copy, held_by
from harness.simulation.invariants.partition_history import PartitionHistory
from harness.simulation.world.disk import SimDisk
from nodes.raft.election_state import FILE_NAME, ElectionState, decode
from nodes.raft.quorum import Quorum
from nodes.raft.roles import Role
from nodes.server.quorum.member import DIRECTORY

NAME = DIRECTORY
"""The name of the metadata log's directory, and of its history."""


class QuorumRecord:
    """What all members of the quorum have done so far."""

    def __init__(self) -> None:
        self.history = PartitionHistory(NAME)
        self.copies: dict[int, Copy] = {}
        self.persisted: dict[int, ElectionState] = {}
        """The state that was last seen on each node's disk."""
        self.excused = ""
        """Why the quorum is not checked any more: a voter lost its disk."""

    def copy(self, node: int) -> Copy:
        """Return the node's metadata log."""
        found = self.copies.get(node)
        if found is None:
            found = self.copies[node] = Copy(self.history, node)
        return found


class QuorumMemberChecker:
    """Checks one incarnation of one node's member of the quorum."""

    def __init__(
        self, quorum_record: QuorumRecord, node: int, quorum: Quorum, disk: SimDisk
    ) -> None:
        self._quorum_record = quorum_record
        self._node = node
        self.quorum = quorum
        self._disk = disk
        self._high_watermark = quorum.high_watermark
        self._led = -1
        self._state: ElectionState | None = None

    def check(self) -> None:
        """Check everything that may have changed."""
        if self._quorum_record.excused or self._quorum_record.copy(self._node).unreadable:
            return
        quorum = self.quorum
        if quorum.state != self._state:
            self._state = quorum.state
            self._check_state(quorum.state)
        if quorum.role is Role.LEADER and quorum.epoch != self._led:
            self._led = quorum.epoch
            self._check_new_leader()
        if quorum.high_watermark != self._high_watermark:
            self._check_high_watermark(self._high_watermark, quorum.high_watermark)
            self._high_watermark = quorum.high_watermark

    def _check_state(self, state: ElectionState) -> None:
        if state.leader_id is not None:
            self._quorum_record.history.leader_known(state.epoch, state.leader_id, self._node)
        data = durable_content(self._disk, f"{DIRECTORY}/{FILE_NAME}")
        disk = ElectionState() if data is None else decode(data)
        before = self._quorum_record.persisted.get(self._node, ElectionState())
        if _goes_back(before, disk):
            raise InvariantBroken(
                "votes-stay",
                f"the disk of node {self._node} had {before}, and now has {disk}",
            )
        self._quorum_record.persisted[self._node] = disk
        if _goes_back(state, disk):
            raise InvariantBroken(
                "votes-are-on-disk",
                f"node {self._node} has the state {state}, but its disk would have {disk} after a "
                "power loss",
            )

    def _check_new_leader(self) -> None:
        quorum, quorum_record = self.quorum, self._quorum_record
        top = quorum_record.history.last_committed(quorum.epoch)
        copy = quorum_record.copy(self._node)
        if top is not None and not copy.has(top):
            raise InvariantBroken(
                "leader-has-all-committed",
                f"the quorum is led by node {self._node} in epoch {quorum.epoch}, whose log ends "
                f"at {copy.end} with {copy.last}, but {top} is committed",
            )

    def _check_high_watermark(self, before: int, now: int) -> None:
        quorum, quorum_record = self.quorum, self._quorum_record
        copy = quorum_record.copy(self._node)
        batch = copy.batches.get(now)
        if now < before:
            raise InvariantBroken(
                "high-watermark-rises",
                f"the quorum's high watermark on node {self._node} goes back from {before} to "
                f"{now} in epoch {quorum.epoch}",
            )
        # A leader may commit and resign in one event, when it commits its own removal.
        if quorum.leadership is None and quorum.epoch != self._led:
            if now > copy.start:
                quorum_record.history.follower_committed(self._node, now, batch, quorum.epoch)
            return
        if batch is None or batch.epoch != quorum.epoch:
            raise InvariantBroken(
                "commits-its-own-epoch",
                f"node {self._node}, leader of quorum epoch {quorum.epoch}, commits up to {now}, "
                f"where {batch or 'no batch'} ends: not one of its own epoch",
            )
        voters = [quorum_record.copy(voter.node_id) for voter in quorum.voters.voters]
        holding = held_by(voters, batch)
        excused = [each.node for each in voters if each.damaged]
        if len({*holding, *excused}) < quorum.voters.majority:
            raise InvariantBroken(
                "majority-has-committed",
                f"node {self._node}, leader of quorum epoch {quorum.epoch}, commits up to {now}, "
                f"but {batch} is on the disks of {holding} only, of voters "
                f"{list(quorum.voters.ids)} (ends {_ends(quorum_record.copies)})",
            )
        quorum_record.history.commit(batch, quorum.epoch, self._node)


def _goes_back(before: ElectionState, now: ElectionState) -> bool:
    if now.epoch != before.epoch:
        return now.epoch < before.epoch
    return (before.voted_for is not None and now.voted_for != before.voted_for) or (
        before.leader_id is not None and now.leader_id != before.leader_id
    )


def _ends(copies: Mapping[int, Copy]) -> dict[int, tuple[int, int]]:
    return {node: (copy.end, copy.flushed) for node, copy in copies.items()}
