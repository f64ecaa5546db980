"""The controller's configuration. The broker's property names are given beside each value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """How the controller decides; times in milliseconds."""

    session_timeout_ms: float = 9000
    """broker.session.timeout.ms: silence after which a broker is fenced."""
    default_partitions: int = 1
    """num.partitions"""
    default_replication_factor: int = 1
    """default.replication.factor"""
    unclean_leader_election: bool = False
    """unclean.leader.election.enable, for topics that do not set it."""
    auto_leader_rebalance: bool = True
    """auto.leader.rebalance.enable"""
    leader_imbalance_check_interval_ms: float = 300_000
    """leader.imbalance.check.interval.seconds, in milliseconds."""
    stall_ms: float = 500
    """A gap between two ticks that counts as the controller's own stall, not the brokers' silence.
    No property of Kafka's."""
