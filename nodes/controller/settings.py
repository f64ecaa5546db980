"""The controller's configuration, with the property name of each value."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """How the controller decides; times in milliseconds."""

    session_timeout_ms: float = 9000
    """broker.session.timeout.ms: silence after which a broker is fenced."""
    default_partitions: int = 1
    """num.partitions"""
    default_replication_factor: int = 1
    """default.replication.factor"""
    auto_leader_rebalance: bool = True
    """auto.leader.rebalance.enable"""
    leader_imbalance_check_interval_ms: float = 300_000
    """leader.imbalance.check.interval.seconds, in milliseconds."""
    leader_imbalance_percentage: int = 10
    """leader.imbalance.per.broker.percentage"""
    delete_topics: bool = True
    """delete.topic.enable"""
    placement: str = "striped"
    """highwater.placement: striped or shifted, see `nodes.controller.placement`."""
    eligible_leader_replicas: int = 1
    """eligible.leader.replicas.version: the feature level of a new cluster (KIP-966); 0 is off.
    Kafka sets it when the storage is formatted; here it is a property."""
    transaction_version: int = 2
    """transaction.version: the feature level of a new cluster (KIP-890)."""
    group_version: int = 1
    """group.version: the feature level of a new cluster (KIP-848)."""
    max_idle_interval_ms: float = 0
    """metadata.max.idle.interval.ms: a NoOpRecord after so long without another; 0 for none."""
    stall_ms: float = 500
    """A gap between two ticks that counts as a stall of the controller, not as silence of brokers.
    Kafka has no such property."""
    static: Mapping[str, str] = field(default_factory=dict)
    """The properties in the controller's file: the defaults of topic configurations."""
