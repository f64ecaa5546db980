"""The answers of a cluster as plain values; None stands for facts that it does not report."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from nodes.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One registered broker. A fenced broker serves no client; only DescribeCluster v2 lists it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster and its brokers, by number."""

    cluster_id: str
    controller: int | None
    brokers: tuple[Broker, ...]

    @property
    def live(self) -> tuple[Broker, ...]:
        """The brokers in service."""
        return tuple(broker for broker in self.brokers if not broker.fenced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition; the first of `replicas` is the preferred leader. See KIP-966 for the ELR."""

    name: TopicPartition
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic and its partitions, ascending."""

    name: str
    topic_id: UUID | None
    internal: bool
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One setting of a resource; `value` is None when it is secret or unset.

    `source` and the synonyms' sources are Kafka's names (DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG...).
    """

    name: str
    value: str | None
    source: str
    sensitive: bool = False
    read_only: bool = False
    synonyms: tuple[tuple[str, str, str | None], ...] = ()
    """(source, name, value) of this setting's values, the one in force first."""

    @property
    def is_default(self) -> bool:
        """Whether the setting has its default, and is set nowhere."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A moving partition: all its present replicas, those being added and those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the move."""
        return tuple(each for each in self.replicas if each not in self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """One log directory of one broker, with the size and lag of each replica."""

    path: str
    error: str | None
    replicas: Mapping[TopicPartition, "ReplicaSize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """The size of one replica's log and its lag in records.

    A `future` replica is a copy that moves between log directories.
    """

    size_bytes: int
    offset_lag: int
    future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """One voter or observer of the metadata quorum; times in ms since 1970, -1 when unknown."""

    node_id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    endpoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The metadata quorum, as its leader reports it."""

    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """One replica's state of a producer; `transaction_start` is None without a transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


def id_text(value: UUID | None) -> str:
    """Return an id as Kafka writes it: URL-safe base64 without padding; None as zeros."""
    raw = value.bytes if value is not None else bytes(16)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
