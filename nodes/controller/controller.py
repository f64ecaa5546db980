"""The quorum controller: decides how requests of brokers and clients change the metadata. Pure.

While its node leads the metadata quorum, a Controller holds the image of everything appended so
far, committed or not, and decides each operation on that image. An operation does not change the
image. It returns a ControllerResult (the records to append, and the response to send after their
commit) or raises ControlError. The caller appends the records, reports them with `appended`, and
responds after the commit; two operations never overlap. When leadership is lost, the image and the
sessions are discarded: uncommitted records may disappear, and no response was sent for them.

This module has the operations of brokers and the periodic work. Administrative operations are
functions of a ControllerState in their own modules (topics, deletions, reassignments, configs,
elections).

These rules hold after each result: a leader is in its ISR; ISR and eligible leaders are distinct
replicas (see `nodes.controller.partition_changes`); a broker that is fenced or shutting down is in
no ISR; leader epochs rise with each leadership, partition epochs with each change.

Times are monotonic milliseconds. Broker sessions exist in memory only.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.controller import elections
from nodes.controller.elections import CHANGES_AT_ONCE
from nodes.controller.features import missing_levels
from nodes.controller.isr import AlterIsrRequest, AlterIsrResult, alter_isr
from nodes.controller.partition_changes import NO_DIRECTORIES, Directories
from nodes.controller.sessions import BrokerSessions
from nodes.controller.settings import ControlSettings
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.ids import NO_NODE, BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.broker import BrokerImage
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, Delta, PartitionKey
from nodes.metadata.records import (
    BROKER_RESOURCE,
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    UNFENCE,
    AbortTransactionRecord,
    BrokerEndpoint,
    ConfigRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    UnregisterBrokerRecord,
)
from nodes.metadata.topic_configs import MIN_INSYNC_REPLICAS, effective

NO_BROKER_EPOCH: Final = BrokerEpoch(-1)
PRODUCER_ID_BLOCK: Final = 1000
MAX_PREFERRED_ELECTIONS: Final = 1000
"""How many leaderships one tick moves back to preferred replicas; the next tick moves more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """The result of a broker's heartbeat."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool = False


class Controller:
    """The active controller's decisions; see the module for the duties of its caller."""

    def __init__(self, *, cluster_id: str, settings: ControlSettings, rng: random.Random) -> None:
        self._cluster_id = cluster_id
        self._settings = settings
        self._rng = rng
        self._active = False
        self._epoch = Epoch(-1)
        self._image = ClusterImage()
        self._sessions = BrokerSessions(settings.session_timeout_ms)
        self._shutdown_offsets: dict[NodeId, Offset] = {}
        """Of each broker that shuts down and is in no ISR, up to where the others have to read."""
        self._leaderless: dict[PartitionKey, None] = {}
        self._last_tick_ms = 0.0
        self._next_election_ms = 0.0
        self._next_rebalance_ms = 0.0
        self._idle_since = (0.0, Offset(-1))
        self._minimum_offset = Offset(-1)

    @property
    def active(self) -> bool:
        """Whether this controller is active and accepts operations."""
        return self._active

    @property
    def image(self) -> ClusterImage:
        """The image after everything appended, committed or not."""
        return self._image

    @property
    def state(self) -> ControllerState:
        """The state on which administrative operations decide."""
        return ControllerState(image=self._image, settings=self._settings, rng=self._rng)

    @property
    def leaderless(self) -> Collection[PartitionKey]:
        """The partitions without a leader."""
        return self._leaderless.keys()

    # --- becoming active and inactive

    def on_active(
        self,
        epoch: Epoch,
        image: ClusterImage,
        now_ms: float,
        last_contact_ms: Mapping[NodeId, float],
    ) -> None:
        """Become active in `epoch` with the committed image, which covers the whole log.

        Every unfenced broker gets a full session from now, except the previous quorum leader in
        `last_contact_ms`. Its silence caused this election, so its broker session counts from its
        last contact. Otherwise a dead node that led the quorum and partitions would be fenced only
        after an election plus a session timeout.
        """
        self._active = True
        self._epoch = epoch
        self._image = image
        self._sessions = BrokerSessions(self._settings.session_timeout_ms)
        self._shutdown_offsets = {}
        self._last_tick_ms = self._next_election_ms = now_ms
        self._next_rebalance_ms = now_ms + self._settings.leader_imbalance_check_interval_ms
        self._idle_since = (now_ms, image.offset)
        self._minimum_offset = image.offset
        self._leaderless = {key: None for key, p in image.partitions() if p.leader == NO_NODE}
        for broker in image.brokers.values():
            if not broker.fenced:
                heard_ms = last_contact_ms.get(broker.node_id, now_ms)
                self._sessions.touch(broker.node_id, min(heard_ms, now_ms))

    def on_inactive(self) -> None:
        """Leadership is lost: discard the image and all sessions."""
        self._active = False
        self._image = ClusterImage()
        self._sessions = BrokerSessions(self._settings.session_timeout_ms)
        self._shutdown_offsets = {}
        self._leaderless = {}

    def appended(self, records: Sequence[MetadataRecord], last_offset: Offset) -> None:
        """One batch of a result's records was appended; its last offset is `last_offset`."""
        self._image, delta = self._image.apply(records, last_offset, self._epoch)
        self._note_leaderless(delta)
        if delta.configs:  # an unclean election may be allowed now
            self._next_election_ms = self._last_tick_ms
        if any(isinstance(r, ConfigRecord) and r.name == MIN_INSYNC_REPLICAS for r in records):
            self._minimum_offset = last_offset

    def _note_leaderless(self, delta: Delta) -> None:
        for key, (_, partition) in delta.partitions.items():
            if partition is not None and partition.leader == NO_NODE:
                self._leaderless[key] = None
            else:
                self._leaderless.pop(key, None)

    # --- brokers

    def register_broker(
        self,
        *,
        broker_id: NodeId,
        cluster_id: str,
        incarnation_id: UUID | None,
        endpoints: tuple[BrokerEndpoint, ...],
        now_ms: float,
        rack: str | None = None,
        log_dirs: tuple[UUID | None, ...] = (),
        previous_broker_epoch: BrokerEpoch = NO_BROKER_EPOCH,
    ) -> ControllerResult[BrokerEpoch]:
        """Register a broker process; the response is its broker epoch. It starts fenced.

        A new incarnation gets the offset of its registration record as its epoch, and is removed
        from every ISR of the previous incarnation. `previous_broker_epoch` is the epoch in which
        that incarnation stopped cleanly. If it is missing or different, the disk may have lost
        records, and the broker also loses its leader eligibility (KIP-966). A registration of the
        same incarnation keeps epoch and state. Raises INCONSISTENT_CLUSTER_ID,
        INVALID_REGISTRATION, and DUPLICATE_BROKER_REGISTRATION while another incarnation is alive.
        """
        if cluster_id != self._cluster_id:
            raise ControlError(
                ErrorCode.inconsistent_cluster_id,
                f"broker {broker_id} is of cluster {cluster_id}, this is {self._cluster_id}",
            )
        if incarnation_id is None or not endpoints:
            raise ControlError(
                ErrorCode.invalid_registration,
                f"broker {broker_id} registers without "
                + ("an endpoint" if incarnation_id else "an incarnation id"),
            )
        before = self._image.brokers.get(broker_id)
        same = before is not None and before.incarnation_id == incarnation_id
        if not same and self._sessions.live(broker_id, now_ms):
            raise ControlError(
                ErrorCode.duplicate_broker_registration,
                f"another process is alive as broker {broker_id}; its session lasts "
                f"{self._settings.session_timeout_ms:.0f} ms from its last heartbeat",
            )
        records: list[MetadataRecord] = []
        if same and before is not None:
            broker = replace(before, endpoints=endpoints, rack=rack, log_dirs=log_dirs)
        else:
            clean = before is not None and before.epoch == previous_broker_epoch
            moved = len(log_dirs) == 1 and (before is None or before.log_dirs != log_dirs)
            directories = {broker_id: log_dirs[0]} if moved else NO_DIRECTORIES
            records += self._out_of_isrs([broker_id], unclean=not clean, directories=directories)
            broker = BrokerImage(
                node_id=broker_id,
                epoch=BrokerEpoch(self._image.offset + len(records) + 1),
                incarnation_id=incarnation_id,
                endpoints=endpoints,
                rack=rack,
                log_dirs=log_dirs,
            )
        if broker != before:
            records.append(broker.registration())
        self._sessions.touch(broker_id, now_ms)
        return ControllerResult(records=records, response=broker.epoch, atomic=False)

    def heartbeat(
        self,
        *,
        broker_id: NodeId,
        broker_epoch: BrokerEpoch,
        current_metadata_offset: Offset,
        want_fence: bool,
        want_shut_down: bool,
        now_ms: float,
    ) -> ControllerResult[HeartbeatResult]:
        """Extend a broker's session, and advance its state: fenced, active, shutting down, stopped.

        A fenced broker is unfenced when it has read the metadata up to its own registration. If an
        active broker wants to shut down, it is first removed from all leaderships and ISRs. It may
        stop when the other brokers have read that. Raises STALE_BROKER_EPOCH.
        """
        broker = self._checked(broker_id, broker_epoch)
        self._sessions.touch(broker_id, now_ms, current_metadata_offset)
        caught_up = current_metadata_offset >= broker.epoch
        if broker.fenced:
            if want_shut_down:
                return self._allow_shutdown(broker, [], caught_up)
            if want_fence or broker.in_controlled_shutdown or not caught_up:
                return _heartbeat_result(caught_up, fenced=True)
            return self._unfence(broker)
        if want_shut_down:
            return self._shut_down(broker, caught_up, at_once=want_fence)
        if want_fence:
            return _heartbeat_result(caught_up, fenced=True, records=self._fence([broker_id]))
        return _heartbeat_result(caught_up, fenced=False)

    def unregister_broker(self, broker_id: NodeId) -> ControllerResult[None]:
        """Remove a broker from the cluster; its replicas stay assigned.

        Raises BROKER_ID_NOT_REGISTERED.
        """
        broker = self._image.brokers.get(broker_id)
        if broker is None:
            raise ControlError(
                ErrorCode.broker_id_not_registered, f"broker {broker_id} is not registered"
            )
        self._sessions.end(broker_id)
        records: list[MetadataRecord] = [
            *self._out_of_isrs([broker_id]),
            UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch),
        ]
        return ControllerResult(records=records, response=None, atomic=False)

    def tick(self, now_ms: float) -> ControllerResult[None]:
        """Do the periodic work: bootstrap the log, fence silent brokers, elect, rebalance, write a
        NoOpRecord. Must be called every tenth of the session timeout, or more often, and soon again
        if the result has CHANGES_AT_ONCE records or more: there may be more to do.
        """
        stalled_ms = now_ms - self._last_tick_ms
        self._last_tick_ms = now_ms
        if stalled_ms > self._settings.stall_ms:
            self._sessions.extend_all(stalled_ms, now_ms)
        records = (
            self.abort_open_transaction()
            or self._bootstrap()
            or self._fence(self._sessions.expired(now_ms), CHANGES_AT_ONCE)
            or self._empty_brokers()
            or self._elect(now_ms)
            or self._rebalance(now_ms)
            or self._idle(now_ms)
        )
        return ControllerResult(records=records, response=None, atomic=False)

    def abort_open_transaction(self) -> list[MetadataRecord]:
        """The record that aborts a transaction left open by a Kafka controller. It must come first:
        records appended inside a transaction would be aborted with it.
        """
        if self._image.transaction is None:
            return []
        return [AbortTransactionRecord(reason="its controller did not end it")]

    def _bootstrap(self) -> list[MetadataRecord]:
        """The feature levels of a new log. With eligible leader replicas, the controller and all
        brokers must use the same min.insync.replicas, so it becomes a cluster configuration.
        """
        records = missing_levels(self._image.features, self._settings)
        if records and MIN_INSYNC_REPLICAS not in self._image.cluster_config():
            value = effective(MIN_INSYNC_REPLICAS, self._image, self._settings.static)
            records.append(
                ConfigRecord(
                    resource_type=BROKER_RESOURCE,
                    resource_name="",
                    name=MIN_INSYNC_REPLICAS,
                    value=value,
                )
            )
        return records

    def _elect(self, now_ms: float) -> list[MetadataRecord]:
        """Elections for leaderless partitions: after a change of controller or configuration, and
        periodically (KRaft's unclean.leader.election.interval.ms).
        """
        if now_ms < self._next_election_ms:
            return []
        records = elections.elect_leaderless(self._image, self.state.policy)
        if len(records) < CHANGES_AT_ONCE:
            self._next_election_ms = now_ms + self._settings.leader_imbalance_check_interval_ms
        return [*records]

    def _rebalance(self, now_ms: float) -> list[MetadataRecord]:
        if now_ms < self._next_rebalance_ms or not self._settings.auto_leader_rebalance:
            return []
        moves = elections.rebalance(
            self._image,
            self.state.policy,
            limit=MAX_PREFERRED_ELECTIONS,
            imbalance_percentage=self._settings.leader_imbalance_percentage,
        )
        if len(moves) < MAX_PREFERRED_ELECTIONS:
            self._next_rebalance_ms = now_ms + self._settings.leader_imbalance_check_interval_ms
        return [*moves]

    def _idle(self, now_ms: float) -> list[MetadataRecord]:
        """A NoOpRecord for an idle log, so that brokers can distinguish it from a dead log."""
        since_ms, offset = self._idle_since
        if offset != self._image.offset:
            self._idle_since = (now_ms, self._image.offset)
            return []
        limit_ms = self._settings.max_idle_interval_ms
        return [NoOpRecord()] if 0 < limit_ms <= now_ms - since_ms else []

    # --- partitions

    def alter_partition(
        self, broker_id: NodeId, broker_epoch: BrokerEpoch, requests: Sequence[AlterIsrRequest]
    ) -> ControllerResult[list[AlterIsrResult]]:
        """A leader's ISR changes, with a result for each (see `nodes.controller.isr`).

        Raises STALE_BROKER_EPOCH.
        """
        self._checked(broker_id, broker_epoch)
        knows_minimum = self._sessions.metadata_offset(broker_id) >= self._minimum_offset
        records, answers = alter_isr(
            self._image, broker_id, requests, self.state.policy, knows_minimum=knows_minimum
        )
        return ControllerResult(records=records, response=answers, atomic=False)

    def allocate_producer_ids(
        self, broker_id: NodeId, broker_epoch: BrokerEpoch
    ) -> ControllerResult[range]:
        """Allocate a unique block of producer ids. Raises STALE_BROKER_EPOCH."""
        self._checked(broker_id, broker_epoch)
        start = self._image.next_producer_id
        record = ProducerIdsRecord(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            next_producer_id=start + PRODUCER_ID_BLOCK,
        )
        return ControllerResult(records=[record], response=range(start, start + PRODUCER_ID_BLOCK))

    # --- helpers

    def _checked(self, broker_id: NodeId, epoch: BrokerEpoch) -> BrokerImage:
        broker = self._image.brokers.get(broker_id)
        if broker is None:
            raise ControlError(
                ErrorCode.stale_broker_epoch, f"broker {broker_id} is not registered"
            )
        if broker.epoch != epoch:
            raise ControlError(
                ErrorCode.stale_broker_epoch,
                f"broker {broker_id} has epoch {broker.epoch}, the request {epoch}",
            )
        return broker

    def _out_of_isrs(
        self,
        nodes: Sequence[NodeId],
        *,
        unclean: bool = False,
        directories: Directories = NO_DIRECTORIES,
        limit: int | None = None,
    ) -> list[PartitionChangeRecord]:
        return elections.remove_from_isrs(
            self._image,
            nodes,
            self.state.policy,
            unclean=unclean,
            directories=directories,
            limit=limit,
        )

    def _fence(self, nodes: Sequence[NodeId], limit: int | None = None) -> list[MetadataRecord]:
        """Fence the unfenced ones of `nodes`. The partition changes come first, so that a fenced
        broker is never a leader at any point of the log. With a `limit` of them, the brokers may
        not be fenced yet. An expired session stays until its broker returns: the next tick goes on,
        and tries again if the append fails.
        """
        known = (self._image.brokers.get(node) for node in nodes)
        brokers = [broker for broker in known if broker is not None and not broker.fenced]
        if not brokers:
            return []
        changes = self._out_of_isrs([broker.node_id for broker in brokers], limit=limit)
        if len(changes) == limit:
            return [*changes]
        return [*changes, *(broker.change(fenced=FENCE) for broker in brokers)]

    def _unfence(self, broker: BrokerImage) -> ControllerResult[HeartbeatResult]:
        elected = elections.elect_leaderless(self._image, self.state.policy, broker.node_id)
        if len(elected) == CHANGES_AT_ONCE:
            self._next_election_ms = self._last_tick_ms
        records: list[MetadataRecord] = [broker.change(fenced=UNFENCE), *elected]
        return _heartbeat_result(True, fenced=False, records=records)

    def _allow_shutdown(
        self, broker: BrokerImage, records: list[MetadataRecord], caught_up: bool
    ) -> ControllerResult[HeartbeatResult]:
        """Allow the broker to stop; its next incarnation need not wait for the session's end."""
        self._sessions.end(broker.node_id)
        self._shutdown_offsets.pop(broker.node_id, None)
        return _heartbeat_result(caught_up, fenced=True, should_shut_down=True, records=records)

    def _shut_down(
        self, broker: BrokerImage, caught_up: bool, *, at_once: bool
    ) -> ControllerResult[HeartbeatResult]:
        node = broker.node_id
        others = [b.node_id for b in self._image.brokers.values() if b.active and b is not broker]
        since = self._shutdown_offsets.get(node)
        if since is not None:
            at_once |= all(self._sessions.metadata_offset(other) >= since for other in others)
        if at_once or not others:
            return self._allow_shutdown(broker, self._fence([node]), caught_up)
        if since is not None:
            return _heartbeat_result(caught_up, fenced=False)
        records: list[MetadataRecord] = [*self._out_of_isrs([node], limit=CHANGES_AT_ONCE)]
        empty = len(records) < CHANGES_AT_ONCE
        if not broker.in_controlled_shutdown:
            if not records:
                return self._allow_shutdown(broker, self._fence([node]), caught_up)
            change = broker.change(in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)
            records.insert(0, change)
        if empty:
            self._shutdown_offsets[node] = Offset(self._image.offset + len(records))
        return _heartbeat_result(caught_up, fenced=False, records=records)

    def _empty_brokers(self) -> list[MetadataRecord]:
        """Go on with the brokers that shut down and are still in ISRs."""
        nodes = [
            broker.node_id
            for broker in self._image.brokers.values()
            if broker.in_controlled_shutdown
            and not broker.fenced
            and broker.node_id not in self._shutdown_offsets
        ]
        return [*self._out_of_isrs(nodes, limit=CHANGES_AT_ONCE)] if nodes else []


def _heartbeat_result(
    caught_up: bool,
    *,
    fenced: bool,
    should_shut_down: bool = False,
    records: Sequence[MetadataRecord] = (),
) -> ControllerResult[HeartbeatResult]:
    answer = HeartbeatResult(
        is_caught_up=caught_up, is_fenced=fenced, should_shut_down=should_shut_down
    )
    return ControllerResult(records=records, response=answer, atomic=False)
