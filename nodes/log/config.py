"""The configuration of a log: Kafka's topic properties of the same names, in Kafka's units."""

import dataclasses

NEVER = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig:
    """min.cleanable.dirty.ratio, min.compaction.lag.ms, max.compaction.lag.ms and
    delete.retention.ms.
    """

    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = NEVER
    delete_retention_ms: int = 86_400_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """segment.bytes, segment.ms, index.interval.bytes, max.message.bytes, retention.ms and
    retention.bytes (-1: no bound), flush.messages, flush.ms, producer.id.expiration.ms; and whether
    message.timestamp.type is LogAppendTime.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1048588
    retention_ms: int = -1
    retention_bytes: int = -1
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    producer_expiration_ms: int = 86_400_000
    log_append_time: bool = False
    compression: int | None = None
    """The codec of compression.type; None: the producer's."""
    deletes: bool = True
    """Whether cleanup.policy contains delete."""
    compaction: CompactionConfig | None = None
    """None unless cleanup.policy contains compact."""
