"""A registered broker of the cluster image, and how the records of its registration change it."""

from dataclasses import dataclass, replace
from uuid import UUID

from nodes.ids import BrokerEpoch, NodeId
from nodes.metadata.records import (
    UNFENCE,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """One registered broker."""

    node_id: NodeId
    epoch: BrokerEpoch
    incarnation_id: UUID | None
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID | None, ...] = ()

    @property
    def active(self) -> bool:
        """Whether the broker may lead partitions and join an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        """The endpoint of the listener of this name."""
        return next((e for e in self.endpoints if e.name == listener), None)

    @staticmethod
    def of(record: RegisterBrokerRecord) -> "BrokerImage":
        """The broker that `record` registers."""
        return BrokerImage(
            node_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=record.end_points,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
        )

    def registration(self) -> RegisterBrokerRecord:
        """The record that registers the broker as it is."""
        return RegisterBrokerRecord(
            broker_id=self.node_id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=self.endpoints,
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=self.log_dirs,
        )

    def change(
        self, *, fenced: int = 0, in_controlled_shutdown: int = 0
    ) -> BrokerRegistrationChangeRecord:
        """The record that changes the registration; 0 leaves as it is (FENCE, UNFENCE, ...)."""
        return BrokerRegistrationChangeRecord(
            broker_id=self.node_id,
            broker_epoch=self.epoch,
            fenced=fenced,
            in_controlled_shutdown=in_controlled_shutdown,
        )

    def changed(self, record: BrokerRegistrationChangeRecord) -> "BrokerImage":
        """This broker after `record`; a controlled shutdown ends with the registration only."""
        return replace(
            self,
            fenced=self.fenced if record.fenced == 0 else record.fenced != UNFENCE,
            in_controlled_shutdown=(
                self.in_controlled_shutdown or record.in_controlled_shutdown != 0
            ),
            log_dirs=record.log_dirs or self.log_dirs,
        )
