"""The settings in groups; each group reads itself from the properties. Milliseconds and bytes."""

from dataclasses import dataclass
from typing import Self

from nodes.config.listeners import addresses
from nodes.config.properties import PropertyReader

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only supported replica.selector.class: a consumer is sent to a replica in its rack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """The defaults of the topic configuration."""

    partitions: int
    replication_factor: int
    min_insync_replicas: int
    segment_bytes: int
    max_message_bytes: int

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError."""
        return cls(
            partitions=read.number("num.partitions", 1, least=1),
            replication_factor=read.number("default.replication.factor", 1, least=1),
            min_insync_replicas=read.number("min.insync.replicas", 1, least=1),
            segment_bytes=read.number("log.segment.bytes", 1 << 30, least=1024),
            max_message_bytes=read.number("message.max.bytes", 1_048_588, least=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrationSettings:
    """How the cluster is administered, automatically and at a client's request."""

    leader_imbalance_check_interval_ms: int
    leader_imbalance_percentage: int
    auto_leader_rebalance: bool
    auto_create_topics: bool
    delete_topics: bool
    placement: str
    eligible_leader_replicas: int
    transaction_version: int
    group_version: int
    max_idle_interval_ms: int
    """After this idle time the metadata log gets a NoOpRecord."""
    max_request_partitions: int
    """Partitions in one page of DescribeTopicPartitions."""

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError."""
        interval_s = read.number("leader.imbalance.check.interval.seconds", 300, least=1)
        placements = {"striped": "striped", "shifted": "shifted"}
        levels = {"0": 0, "1": 1}
        return cls(
            leader_imbalance_check_interval_ms=1000 * interval_s,
            leader_imbalance_percentage=read.number("leader.imbalance.per.broker.percentage", 10),
            auto_leader_rebalance=read.flag("auto.leader.rebalance.enable", default=True),
            # Unlike Kafka's default: a misspelt topic in a test should not be created.
            auto_create_topics=read.flag("auto.create.topics.enable", default=False),
            delete_topics=read.flag("delete.topic.enable", default=True),
            placement=read.one_of("highwater.placement", placements, "striped"),
            eligible_leader_replicas=read.one_of("eligible.leader.replicas.version", levels, "1"),
            transaction_version=read.one_of("transaction.version", {**levels, "2": 2}, "2"),
            group_version=read.one_of("group.version", levels, "1"),
            max_idle_interval_ms=read.number("metadata.max.idle.interval.ms", 500),
            max_request_partitions=read.number("max.request.partition.size.limit", 2000, least=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The metadata quorum and its log."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    fetch_timeout_ms: int
    election_timeout_ms: int
    election_backoff_max_ms: int
    request_timeout_ms: int
    segment_bytes: int
    snapshot_record_bytes: int
    snapshot_interval_ms: int

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError."""
        prefix = "controller.quorum."
        snapshot_bytes = "metadata.log.max.record.bytes.between.snapshots"
        return cls(
            bootstrap_servers=addresses(read.text(f"{prefix}bootstrap.servers", "")),
            fetch_timeout_ms=read.number(f"{prefix}fetch.timeout.ms", 2000, least=1),
            election_timeout_ms=read.number(f"{prefix}election.timeout.ms", 1000, least=1),
            election_backoff_max_ms=read.number(f"{prefix}election.backoff.max.ms", 1000, least=1),
            request_timeout_ms=read.number(f"{prefix}request.timeout.ms", 2000, least=1),
            segment_bytes=read.number("metadata.log.segment.bytes", 1 << 30, least=1024),
            snapshot_record_bytes=read.number(snapshot_bytes, 20 << 20, least=1),
            snapshot_interval_ms=read.number("metadata.log.max.snapshot.interval.ms", 3_600_000),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """How followers fetch, and how long a follower may lag."""

    lag_time_max_ms: int
    fetch_wait_max_ms: int
    fetch_max_bytes: int
    fetch_response_max_bytes: int
    fetch_backoff_ms: int
    socket_timeout_ms: int

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError."""
        return cls(
            lag_time_max_ms=read.number("replica.lag.time.max.ms", 30_000, least=1),
            fetch_wait_max_ms=read.number("replica.fetch.wait.max.ms", 500),
            fetch_max_bytes=read.number("replica.fetch.max.bytes", 1 << 20, least=1),
            fetch_response_max_bytes=read.number(
                "replica.fetch.response.max.bytes", 10 << 20, least=1
            ),
            fetch_backoff_ms=read.number("replica.fetch.backoff.ms", 1000, least=1),
            socket_timeout_ms=read.number("replica.socket.timeout.ms", 2000, least=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How fetches of clients and followers are served."""

    max_bytes: int
    max_sessions: int
    rack_aware: bool

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError."""
        return cls(
            max_bytes=read.number("fetch.max.bytes", 55 << 20, least=1024),
            max_sessions=read.number("max.incremental.fetch.session.cache.slots", 1000),
            rack_aware=read.one_of(
                "replica.selector.class", {"": False, RACK_AWARE_SELECTOR: True}, default=""
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingSettings:
    """The intervals of the periodic tasks."""

    high_watermarks_ms: int
    recovery_points_ms: int
    log_starts_ms: int
    flush_ms: int
    retention_ms: int

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError."""

        def interval(key: str, default_ms: int) -> int:
            return read.number(key, default_ms, least=1)

        return cls(
            high_watermarks_ms=interval("replica.high.watermark.checkpoint.interval.ms", 5000),
            recovery_points_ms=interval("log.flush.offset.checkpoint.interval.ms", 60_000),
            log_starts_ms=interval("log.flush.start.offset.checkpoint.interval.ms", 60_000),
            flush_ms=interval("log.flush.scheduler.interval.ms", 2**63 - 1),
            retention_ms=interval("log.retention.check.interval.ms", 300_000),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The log cleaner: how much memory and input and output it may use."""

    enabled: bool
    backoff_ms: int
    """How long the cleaner waits when there is nothing to clean."""
    dedupe_buffer_bytes: int
    io_buffer_bytes: int
    buffer_load_factor: float
    max_bytes_per_second: float

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError. One job cleans, whatever log.cleaner.threads
        is above 0.
        """
        threads = read.number("log.cleaner.threads", 1)
        return cls(
            enabled=read.flag("log.cleaner.enable", default=True) and threads > 0,
            backoff_ms=read.number("log.cleaner.backoff.ms", 15_000),
            dedupe_buffer_bytes=read.number("log.cleaner.dedupe.buffer.size", 128 << 20, least=1),
            io_buffer_bytes=read.number("log.cleaner.io.buffer.size", 512 << 10),
            buffer_load_factor=read.decimal("log.cleaner.io.buffer.load.factor", "0.9"),
            max_bytes_per_second=read.decimal(
                "log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308"
            ),
        )
