"""The metadata quorum on one node: a member of it, what it answers, fetches and snapshots, joined.

`raft_member` carries out what the pure Quorum decides; `raft_follow` fetches from the leader,
`raft_handlers` and `raft_voters` answer requests, `raft_delivery` hands committed batches to the
listeners, `raft_snapshotter` writes snapshots of their state, `raft_log` keeps log and snapshots.
Here is what the rest of the node needs of all that.
"""

import random
from collections.abc import Callable, Mapping, Sequence

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.batch import Record, encode_batch
from nodes.raft.errors import NotLeader
from nodes.raft.messages import Action
from nodes.raft.snapshot import Snapshot
from nodes.server.quorum.fetch_loop import follow
from nodes.server.quorum.member import (
    DIRECTORY,
    Halted,
    MemberConfig,
    RaftMember,
    configured_voters,
)
from nodes.server.quorum.metadata_log import MetadataLog
from nodes.server.quorum.peers import Address, Peer
from nodes.server.quorum.requests import RaftHandlers
from nodes.server.quorum.snapshot_writer import SnapshotLimits, SnapshotSource, Snapshotter
from nodes.server.quorum.voter_requests import VoterHandlers
from nodes.storage.disk import Disk
from nodes.wire.server import Api

__all__ = ["DIRECTORY", "Halted", "MemberConfig", "RaftNode", "configured_voters"]


class RaftNode(RaftMember):
    """See the module. `connect` makes a channel to an address; `log` is owned from here on, and
    closed by `stop`; its state begins with `snapshot`. Times shown outside are the loop's, in
    milliseconds."""

    def __init__(
        self,
        config: MemberConfig,
        *,
        log: MetadataLog,
        snapshot: Snapshot | None,
        disk: Disk,
        rng: random.Random,
        wall_clock: Callable[[], int],
        connect: Callable[[str, int], Peer],
    ) -> None:
        super().__init__(
            config,
            log=log,
            snapshot=snapshot,
            disk=disk,
            rng=rng,
            wall_clock=wall_clock,
            connect=connect,
            follow=follow,
        )
        self.node_id = config.node_id
        self._snapshotter: Snapshotter | None = None
        self._handlers = RaftHandlers(self)
        self._voter_handlers = VoterHandlers(self, self.change_voters)

    @property
    def voters(self) -> Mapping[NodeId, Address]:
        """Where each member of the quorum is reached, as known now; it changes in place."""
        return self.peers.addresses

    def snapshot_from(self, source: SnapshotSource, limits: SnapshotLimits) -> None:
        """Write snapshots of the state that `source` keeps. To be called before `start`, after
        `source` was made a listener."""
        self._snapshotter = Snapshotter(self, source, limits)
        self.listeners.append(self._snapshotter)

    def take_snapshot(self) -> None:
        """Write a snapshot now, in the background, if anything was committed."""
        if self._snapshotter is not None:
            self._snapshotter.begin()

    @property
    def is_active(self) -> bool:
        """Whether this node leads, has committed in its epoch, and has delivered up to there."""
        return self.delivery.active_epoch is not None

    def apis(self) -> dict[int, Api]:
        """The requests served here, by api key, for a Dispatcher."""
        return self._handlers.apis() | self._voter_handlers.apis()

    def append(self, records: Sequence[bytes]) -> Offset:
        """Append the records as one batch, all or nothing; the last one's offset.

        Raises NotLeader and MessageTooLarge: nothing was appended. OSError: it may have been.
        """
        epoch = self._led_epoch()
        batch = encode_batch(
            [Record(value=record) for record in records], timestamp_ms=self.wall_clock()
        )
        return self.append_batch(batch, epoch)

    async def committed(self, offset: Offset, epoch: Epoch) -> None:
        """Wait until `offset` is committed and delivered. Raises NotLeader when this node does not
        lead `epoch`, or no longer: the record may still commit, or may be gone."""
        if self._led_epoch() != epoch:
            raise NotLeader(self.leader_id, self.epoch)
        await self.delivery.wait(offset)

    async def change_voters(self, begin: Callable[[float], list[Action]]) -> None:
        """Begin a change of the voters, and wait for its commit.

        Raises membership.Refused: nothing was changed. NotLeader: it may yet be.
        """
        epoch = self._led_epoch()
        self.carry_out(begin(self.now_ms()))
        await self.committed(self.log.voters_offset, epoch)

    def _led_epoch(self) -> Epoch:
        leads = self.halted is None and self._quorum is not None and self._quorum.leadership
        if not leads:
            raise NotLeader(self.leader_id, self.epoch)
        return leads.epoch
