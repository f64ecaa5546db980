"""The settings of the coordinators and of their internal topics."""

from dataclasses import dataclass
from typing import Self

from nodes.config.properties import ConfigError, PropertyReader
from nodes.coordinators.groups.settings import (
    ClassicSettings,
    ConsumerSettings,
    GroupSettings,
    OffsetSettings,
)
from nodes.coordinators.transactions.settings import DAY_MS, TransactionSettings
from nodes.metadata.group_configs import GROUP_CONFIGS, broker_property

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicSettings:
    """How an internal topic is created, when it is needed first."""

    partitions: int
    replication_factor: int
    segment_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorSettings:
    """Groups of consumers, and `__consumer_offsets`."""

    groups: GroupSettings
    topic: InternalTopicSettings
    commit_timeout_ms: int
    """offsets.commit.timeout.ms: how long an answer waits for its records' replication."""

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError."""
        topic = "offsets.topic."
        return cls(
            groups=GroupSettings(
                offsets=_offsets(read), classic=_classic(read), consumer=_consumer(read)
            ),
            topic=InternalTopicSettings(
                partitions=read.number(f"{topic}num.partitions", 50, least=1),
                replication_factor=read.number(f"{topic}replication.factor", 3, least=1),
                segment_bytes=read.number(f"{topic}segment.bytes", 100 << 20, least=1),
            ),
            commit_timeout_ms=read.number("offsets.commit.timeout.ms", 5000, least=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCoordinatorSettings:
    """Transactions, and `__transaction_state`."""

    transactions: TransactionSettings
    topic: InternalTopicSettings
    min_isr: int
    request_timeout_ms: int
    """request.timeout.ms: how long an answer waits for its records' replication."""
    verifies_partitions: bool
    """transaction.partition.verification.enable, unless it is altered while the broker runs."""

    @classmethod
    def read(cls, read: PropertyReader) -> Self:
        """Out of the properties. Raises ConfigError."""
        topic = "transaction.state.log."
        clean = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        remove = "transaction.remove.expired.transaction.cleanup.interval.ms"
        return cls(
            transactions=TransactionSettings(
                max_timeout_ms=read.number("transaction.max.timeout.ms", 900_000, least=1),
                id_expiration_ms=read.number("transactional.id.expiration.ms", 7 * DAY_MS, least=1),
                abort_interval_ms=read.number(clean, 10_000, least=1),
                expiration_interval_ms=read.number(remove, 3_600_000, least=1),
            ),
            topic=InternalTopicSettings(
                partitions=read.number(f"{topic}num.partitions", 50, least=1),
                replication_factor=read.number(f"{topic}replication.factor", 3, least=1),
                segment_bytes=read.number(f"{topic}segment.bytes", 100 << 20, least=1),
            ),
            min_isr=read.number(f"{topic}min.isr", 2, least=1),
            request_timeout_ms=read.number("request.timeout.ms", 30_000, least=1),
            verifies_partitions=read.flag(
                "transaction.partition.verification.enable", default=True
            ),
        )


def _offsets(read: PropertyReader) -> OffsetSettings:
    minutes = read.number("offsets.retention.minutes", 7 * 24 * 60, least=1)
    return OffsetSettings(
        metadata_max_bytes=read.number("offset.metadata.max.bytes", 4096),
        retention_ms=minutes * _MINUTE_MS,
        retention_check_interval_ms=read.number(
            "offsets.retention.check.interval.ms", 600_000, least=1
        ),
    )


def _classic(read: PropertyReader) -> ClassicSettings:
    settings = ClassicSettings(
        min_session_timeout_ms=read.number("group.min.session.timeout.ms", 6_000),
        max_session_timeout_ms=read.number("group.max.session.timeout.ms", 1_800_000),
        initial_rebalance_delay_ms=read.number("group.initial.rebalance.delay.ms", 3_000),
        max_size=read.number("group.max.size", 2**31 - 1, least=1),
    )
    if settings.min_session_timeout_ms > settings.max_session_timeout_ms:
        raise ConfigError(
            "group.min.session.timeout.ms must not be above group.max.session.timeout.ms"
        )
    return settings


def _consumer(read: PropertyReader) -> ConsumerSettings:
    prefix = "group.consumer."
    for name, known in GROUP_CONFIGS.items():  # the controller uses these for single groups
        read.number(broker_property(name, "min"), known.least, least=1)
        read.number(broker_property(name, "max"), known.most, least=1)
    assignors = read.text(f"{prefix}assignors", "uniform,range")
    policies = {each: each for each in ("bidirectional", "upgrade", "downgrade", "disabled")}
    settings = ConsumerSettings(
        session_timeout_ms=read.number(f"{prefix}session.timeout.ms", 45_000, least=1),
        heartbeat_interval_ms=read.number(f"{prefix}heartbeat.interval.ms", 5_000, least=1),
        max_size=read.number(f"{prefix}max.size", 2**31 - 1, least=1),
        assignors=tuple(each.strip() for each in assignors.split(",")),
        regex_refresh_interval_ms=read.number(
            f"{prefix}regex.refresh.interval.ms", 600_000, least=10_000
        ),
        migration_policy=read.one_of(f"{prefix}migration.policy", policies, "bidirectional"),
    )
    unknown = [each for each in settings.assignors if each not in ("uniform", "range")]
    if unknown:
        raise ConfigError(
            f"group.consumer.assignors={assignors} cannot be used: there are uniform and range"
        )
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise ConfigError(
            "group.consumer.heartbeat.interval.ms must be below group.consumer.session.timeout.ms"
        )
    return settings
