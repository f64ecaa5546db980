"""The quorum controller: what the cluster's metadata becomes when brokers and clients ask. Pure.

While its node leads the metadata quorum, a Controller holds the image of everything appended so
far, committed or not, and decides each operation on it. An operation changes nothing of the image:
it returns the records to append and the answer to give once they are committed (ControllerResult),
or raises ControlError. The shell appends the records as one batch, reports it with `appended`, and
answers after the commit; two operations never overlap. When leadership is lost the image and the
sessions are dropped: whatever was not committed may vanish, and was not answered.

What holds after each batch: a leader is in its ISR, the ISR is a non-empty part of the replicas; a
broker that is fenced or shutting down is in no ISR, save the last member of a leaderless
partition; leader epochs rise with each leadership, partition epochs with each change.

Times are monotonic milliseconds. Broker sessions live in memory only.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.control import elections
from nodes.control.errors import ControlError
from nodes.control.image import BrokerImage, ClusterImage
from nodes.control.isr import IsrAnswer, IsrRequest, alter_isr
from nodes.control.records import (
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    METADATA_VERSION_FEATURE,
    UNFENCE,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from nodes.control.sessions import BrokerSessions
from nodes.control.settings import ControlSettings
from nodes.control.topic_configs import UNCLEAN_LEADER_ELECTION_ENABLE
from nodes.control.topics import NewTopic, TopicAnswer, create_topics
from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset

R = TypeVar("R")

PRODUCER_ID_BLOCK: Final = 1000
MAX_PREFERRED_ELECTIONS: Final = 1000
"""Leaderships moved back to preferred replicas in one batch; the rest follows at the next turn."""
METADATA_VERSION: Final = 23
"""Kafka's 4.0-IV1: the level whose records this controller writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResult(Generic[R]):
    """Records to append as one batch (maybe none), and the answer once they are committed."""

    records: Sequence[MetadataRecord] = ()
    response: R


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """What a broker learns from its heartbeat."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool = False


class Controller:
    """The active controller's decisions; see the module for how a shell drives it."""

    def __init__(self, *, cluster_id: str, settings: ControlSettings, rng: random.Random) -> None:
        self._cluster_id = cluster_id
        self._settings = settings
        self._rng = rng
        self._active = False
        self._epoch = Epoch(-1)
        self._image = ClusterImage()
        self._sessions = BrokerSessions(settings.session_timeout_ms)
        self._shutdown_offsets: dict[NodeId, Offset] = {}
        self._last_tick_ms = 0.0
        self._next_rebalance_ms = 0.0

    @property
    def active(self) -> bool:
        """Whether this controller may be asked for anything."""
        return self._active

    @property
    def image(self) -> ClusterImage:
        """The image after everything appended, committed or not."""
        return self._image

    # --- taking over and stepping down

    def on_active(
        self,
        epoch: Epoch,
        image: ClusterImage,
        now_ms: float,
        last_contact_ms: Mapping[NodeId, float],
    ) -> None:
        """Take over at `epoch` with the committed image, which is all there is in the log.

        Every unfenced broker gets a full session from now. `last_contact_ms` holds the exception,
        the deposed quorum leader: its silence is what brought this controller up, so its broker's
        session is counted from when it was last heard of. Otherwise a node that led the quorum
        and partitions would be fenced an election and a session after its death.
        """
        self._active = True
        self._epoch = epoch
        self._image = image
        self._sessions = BrokerSessions(self._settings.session_timeout_ms)
        self._shutdown_offsets = {}
        self._last_tick_ms = now_ms
        self._next_rebalance_ms = now_ms + self._settings.leader_imbalance_check_interval_ms
        for broker in image.brokers.values():
            if not broker.fenced:
                heard_ms = last_contact_ms.get(broker.node_id, now_ms)
                self._sessions.touch(broker.node_id, min(heard_ms, now_ms))
            if broker.in_controlled_shutdown:
                self._shutdown_offsets[broker.node_id] = image.offset

    def on_inactive(self) -> None:
        """Leadership is lost: forget what was not committed, and all sessions."""
        self._active = False
        self._image = ClusterImage()
        self._sessions = BrokerSessions(self._settings.session_timeout_ms)
        self._shutdown_offsets = {}

    def appended(self, records: Sequence[MetadataRecord], last_offset: Offset) -> None:
        """The records of a result are in the log, the last at `last_offset`."""
        self._image, _ = self._image.apply(records, last_offset, self._epoch)

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
    ) -> ControllerResult[BrokerEpoch]:
        """Admit a broker process; the answer is its broker epoch. It starts fenced.

        A new incarnation gets the offset of its registration record as its epoch, and leaves every
        ISR in which the one before it was; the same incarnation keeps epoch and state.
        Raises INCONSISTENT_CLUSTER_ID, INVALID_REGISTRATION, and DUPLICATE_BROKER_REGISTRATION
        while another incarnation is alive.
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
            records += self._out_of_isrs([broker_id]) if before else []
            broker = BrokerImage(
                node_id=broker_id,
                epoch=BrokerEpoch(self._image.offset + len(records) + 1),
                incarnation_id=incarnation_id,
                endpoints=endpoints,
                rack=rack,
                log_dirs=log_dirs,
            )
        if broker != before:
            records.append(_registration(broker))
        self._sessions.touch(broker_id, now_ms)
        return ControllerResult(records=records, response=broker.epoch)

    def heartbeat(
        self,
        *,
        broker_id: NodeId,
        broker_epoch: BrokerEpoch,
        current_metadata_offset: Offset,
        want_fence: bool,
        want_shut_down: bool,
        now_ms: float,
    ) -> ControllerResult[HeartbeatAnswer]:
        """Prolong a broker's session and move it along: fenced, active, shutting down, gone.

        A fenced broker is unfenced once it has read the metadata up to its own registration. An
        active broker that wants to shut down first hands over its leaderships and leaves its ISRs,
        in one batch; it may stop when the others have read that batch. Raises STALE_BROKER_EPOCH.
        """
        broker = self._checked(broker_id, broker_epoch)
        self._sessions.touch(broker_id, now_ms, current_metadata_offset)
        caught_up = current_metadata_offset >= broker.epoch
        if broker.fenced:
            if want_shut_down:
                return self._let_go(broker, [], caught_up)
            if want_fence or broker.in_controlled_shutdown or not caught_up:
                return _state(caught_up, fenced=True)
            return self._unfence(broker)
        if want_shut_down:
            return self._shut_down(broker, caught_up, at_once=want_fence)
        if want_fence:
            return _state(caught_up, fenced=True, records=self._fence([broker_id]))
        return _state(caught_up, fenced=False)

    def unregister_broker(self, broker_id: NodeId) -> ControllerResult[None]:
        """Strike a broker from the cluster; its replicas stay assigned.

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
        return ControllerResult(records=records, response=None)

    def tick(self, now_ms: float) -> ControllerResult[None]:
        """Fence the brokers whose sessions have run out; rebalance leaderships when it is time.

        The first tick on an empty log writes its metadata version. To be called often against the
        session timeout (tens of milliseconds).
        """
        stalled_ms = now_ms - self._last_tick_ms
        self._last_tick_ms = now_ms
        if stalled_ms > self._settings.stall_ms:
            self._sessions.forgive(stalled_ms, now_ms)
        if METADATA_VERSION_FEATURE not in self._image.features:
            first = FeatureLevelRecord(
                name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION
            )
            return ControllerResult(records=[first], response=None)
        records = self._fence(self._sessions.expired(now_ms))
        if not records and now_ms >= self._next_rebalance_ms:
            self._next_rebalance_ms = now_ms + self._settings.leader_imbalance_check_interval_ms
            if self._settings.auto_leader_rebalance:
                records = [*self.elect_preferred_leaders().records]
        return ControllerResult(records=records, response=None)

    # --- partitions

    def alter_partition(
        self, broker_id: NodeId, broker_epoch: BrokerEpoch, requests: Sequence[IsrRequest]
    ) -> ControllerResult[list[IsrAnswer]]:
        """A leader's ISR changes, each answered for itself (see `nodes.control.isr`).

        Raises STALE_BROKER_EPOCH.
        """
        self._checked(broker_id, broker_epoch)
        records, answers = alter_isr(self._image, broker_id, requests)
        return ControllerResult(records=records, response=answers)

    def elect_preferred_leaders(self) -> ControllerResult[None]:
        """Hand leaderships back to preferred replicas that are live and in sync."""
        records = elections.preferred(self._image, limit=MAX_PREFERRED_ELECTIONS)
        return ControllerResult(records=records, response=None)

    # --- topics and producers

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> ControllerResult[list[TopicAnswer]]:
        """Create topics, each answered for itself, all that are valid in one batch."""
        records, answers = create_topics(self._image, topics, self._settings, self._rng)
        return ControllerResult(records=() if validate_only else records, response=answers)

    def allocate_producer_ids(
        self, broker_id: NodeId, broker_epoch: BrokerEpoch
    ) -> ControllerResult[range]:
        """A block of producer ids that nobody else gets. Raises STALE_BROKER_EPOCH."""
        self._checked(broker_id, broker_epoch)
        start = self._image.next_producer_id
        record = ProducerIdsRecord(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            next_producer_id=start + PRODUCER_ID_BLOCK,
        )
        return ControllerResult(records=[record], response=range(start, start + PRODUCER_ID_BLOCK))

    # --- inside

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

    def _unclean_allowed(self, topic: str) -> bool:
        value = self._image.topic_config(topic).get(UNCLEAN_LEADER_ELECTION_ENABLE)
        if value is None:
            return self._settings.unclean_leader_election
        return value.lower() == "true"

    def _out_of_isrs(self, nodes: Sequence[NodeId]) -> list[MetadataRecord]:
        return [*elections.without(self._image, nodes, self._unclean_allowed)]

    def _fence(self, nodes: Sequence[NodeId]) -> list[MetadataRecord]:
        """Fence those of `nodes` that are not; the partitions first, so that at no point of the
        log a fenced broker leads. A session that has run out stays until its broker returns: should
        the append fail, the next tick tries again.
        """
        known = (self._image.brokers.get(node) for node in nodes)
        brokers = [broker for broker in known if broker is not None and not broker.fenced]
        if not brokers:
            return []
        return [
            *self._out_of_isrs([broker.node_id for broker in brokers]),
            *(_registration_change(broker, fenced=FENCE) for broker in brokers),
        ]

    def _unfence(self, broker: BrokerImage) -> ControllerResult[HeartbeatAnswer]:
        records: list[MetadataRecord] = [
            _registration_change(broker, fenced=UNFENCE),
            *elections.with_broker(self._image, broker.node_id, self._unclean_allowed),
        ]
        return _state(True, fenced=False, records=records)

    def _let_go(
        self, broker: BrokerImage, records: list[MetadataRecord], caught_up: bool
    ) -> ControllerResult[HeartbeatAnswer]:
        """The broker may stop; its next incarnation need not wait for a session to run out."""
        self._sessions.end(broker.node_id)
        self._shutdown_offsets.pop(broker.node_id, None)
        return _state(caught_up, fenced=True, should_shut_down=True, records=records)

    def _shut_down(
        self, broker: BrokerImage, caught_up: bool, *, at_once: bool
    ) -> ControllerResult[HeartbeatAnswer]:
        node = broker.node_id
        others = [b.node_id for b in self._image.brokers.values() if b.active and b is not broker]
        begun = broker.in_controlled_shutdown
        if begun and (since := self._shutdown_offsets.get(node)) is not None:
            at_once |= all(self._sessions.metadata_offset(other) >= since for other in others)
        if at_once or not others:
            return self._let_go(broker, self._fence([node]), caught_up)
        if begun:
            return _state(caught_up, fenced=False)
        handed_over = self._out_of_isrs([node])
        if not handed_over:
            return self._let_go(broker, self._fence([node]), caught_up)
        change = _registration_change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)
        records = [change, *handed_over]
        self._shutdown_offsets[node] = Offset(self._image.offset + len(records))
        return _state(caught_up, fenced=False, records=records)


def _state(
    caught_up: bool,
    *,
    fenced: bool,
    should_shut_down: bool = False,
    records: Sequence[MetadataRecord] = (),
) -> ControllerResult[HeartbeatAnswer]:
    answer = HeartbeatAnswer(
        is_caught_up=caught_up, is_fenced=fenced, should_shut_down=should_shut_down
    )
    return ControllerResult(records=records, response=answer)


def _registration(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=broker.endpoints,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def _registration_change(
    broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
