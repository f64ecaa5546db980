"""The settings of the group coordinator; `nodes.config` reads them from Kafka's properties."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nodes.metadata.group_configs import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSettings:
    """Committed offsets. The defaults are Kafka's."""

    metadata_max_bytes: int = 4096
    """offset.metadata.max.bytes; as Kafka, it counts UTF-16 code units."""
    retention_ms: int = 7 * 24 * 60 * 60_000
    """offsets.retention.minutes."""
    retention_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSettings:
    """The classic protocol. The defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms."""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms."""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms."""
    max_size: int = 2**31 - 1
    """group.max.size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The consumer protocol (KIP-848). The defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    """group.consumer.session.timeout.ms."""
    heartbeat_interval_ms: int = 5_000
    """group.consumer.heartbeat.interval.ms."""
    max_size: int = 2**31 - 1
    """group.consumer.max.size."""
    assignors: tuple[str, ...] = ("uniform", "range")
    """group.consumer.assignors; the first is the default."""
    migration_policy: str = "bidirectional"
    """group.consumer.migration.policy: which groups may change between the protocols online."""
    regex_refresh_interval_ms: int = 600_000
    """group.consumer.regex.refresh.interval.ms."""

    def of_group(self, configs: Mapping[str, str]) -> "ConsumerSettings":
        """The settings of a group with configurations of its own."""
        if not configs:
            return self
        return replace(
            self,
            session_timeout_ms=int(configs.get(SESSION_TIMEOUT_MS, self.session_timeout_ms)),
            heartbeat_interval_ms=int(
                configs.get(HEARTBEAT_INTERVAL_MS, self.heartbeat_interval_ms)
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """All settings of the group coordinator."""

    offsets: OffsetSettings = OffsetSettings()
    classic: ClassicSettings = ClassicSettings()
    consumer: ConsumerSettings = ConsumerSettings()
