"""The metadata quorum as the rest of the node sees it: a member with its handlers and snapshots.

`member` carries out what the pure Quorum decides, `fetch_loop` fetches from the leader, `requests`
and `voter_requests` serve requests, `delivery` passes committed batches to the listeners,
`snapshot_writer` writes snapshots of their state, `metadata_log` keeps the log and the snapshots.
"""

import random
from collections.abc import Callable, Mapping, Sequence

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.batch import Record, encode_batch
from nodes.raft.errors import NotLeader
from nodes.raft.messages import Action
from nodes.raft.snapshot import Snapshot
from nodes.server.quorum.fetch_loop import fetch_from_leader
from nodes.server.quorum.member import (
    DIRECTORY,
    Halted,
    MemberConfig,
    QuorumMember,
    configured_voters,
)
from nodes.server.quorum.metadata_log import MetadataLog
from nodes.server.quorum.peers import Address, PeerChannel
from nodes.server.quorum.requests import QuorumRequestHandler
from nodes.server.quorum.snapshot_writer import SnapshotLimits, SnapshotSource, SnapshotWriter
from nodes.server.quorum.voter_requests import VoterRequestHandler
from nodes.storage.disk import Disk
from nodes.wire.server import Api

__all__ = ["DIRECTORY", "Halted", "MemberConfig", "QuorumNode", "configured_voters"]


class QuorumNode(QuorumMember):
    """See the module.

    `connect` makes a channel to an address. The node owns `log`, and `stop` closes it; the log
    continues `snapshot`. All times are the loop's, in milliseconds.
    """

    def __init__(
        self,
        config: MemberConfig,
        *,
        log: MetadataLog,
        snapshot: Snapshot | None,
        disk: Disk,
        rng: random.Random,
        wall_clock: Callable[[], int],
        connect: Callable[[str, int], PeerChannel],
    ) -> None:
        super().__init__(
            config,
            log=log,
            snapshot=snapshot,
            disk=disk,
            rng=rng,
            wall_clock=wall_clock,
            connect=connect,
            fetch_loop=fetch_from_leader,
        )
        self.node_id = config.node_id
        self._snapshotter: SnapshotWriter | None = None
        self._handlers = QuorumRequestHandler(self)
        self._voter_handlers = VoterRequestHandler(self, self.change_voters)

    @property
    def voters(self) -> Mapping[NodeId, Address]:
        """The known addresses of the quorum's members; the mapping changes in place."""
        return self.peers.addresses

    def snapshot_from(self, source: SnapshotSource, limits: SnapshotLimits) -> None:
        """Write snapshots of the state that `source` keeps.

        Call it before `start`, and after `source` was added to the listeners.
        """
        self._snapshotter = SnapshotWriter(self, source, limits)
        self.listeners.append(self._snapshotter)

    def take_snapshot(self) -> None:
        """Write a snapshot now, in the background, if anything was committed."""
        if self._snapshotter is not None:
            self._snapshotter.begin()

    @property
    def is_active(self) -> bool:
        """Whether this node leads and has delivered a committed record of its own epoch."""
        return self.delivery.active_epoch is not None

    @property
    def end_offset(self) -> Offset:
        """Where the log ends: the next record goes there."""
        return self.log.end_offset

    def apis(self) -> dict[int, Api]:
        """The apis for a Dispatcher, by api key."""
        return self._handlers.apis() | self._voter_handlers.apis()

    def append(self, records: Sequence[bytes]) -> Offset:
        """Append the records as one batch, all or nothing; return the last offset.

        Raises NotLeader, MessageTooLarge (nothing was appended); OSError (it may have been).
        """
        epoch = self._led_epoch()
        batch = encode_batch(
            [Record(value=record) for record in records], timestamp_ms=self.wall_clock()
        )
        return self.append_batch(batch, epoch)

    async def committed(self, offset: Offset, epoch: Epoch) -> None:
        """Wait until `offset` is committed and delivered.

        Raises NotLeader if this node does not lead `epoch`, or no longer: the record may still be
        committed, or may be lost.
        """
        if self._led_epoch() != epoch:
            raise NotLeader(self.leader_id, self.epoch)
        await self.delivery.wait(offset)

    async def change_voters(self, begin: Callable[[float], list[Action]]) -> None:
        """Begin a change of the voters, and wait for its commit.

        Raises membership.VoterChangeRefused (nothing was changed); NotLeader (it may still be
        committed).
        """
        epoch = self._led_epoch()
        self.carry_out(begin(self.now_ms()))
        await self.committed(self.log.voters_offset, epoch)

    def _led_epoch(self) -> Epoch:
        leads = self.halted is None and self._quorum is not None and self._quorum.leadership
        if not leads:
            raise NotLeader(self.leader_id, self.epoch)
        return leads.epoch
