"""What a cluster says of itself, as plain values; None is what it does not say."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from nodes.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One registered broker. `fenced` ones (told of by DescribeCluster v2 only) serve nobody."""

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
    """One configuration entry of a resource; `value` is None where it is secret or unset.

    `source` and the synonyms' sources are Kafka's names (DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG...).
    """

    name: str
    value: str | None
    source: str
    sensitive: bool = False
    read_only: bool = False
    synonyms: tuple[tuple[str, str, str | None], ...] = ()
    """(source, name, value), the one in force first."""

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it anywhere."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on its way: all replicas of now, those that come and those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """Where it is going to be."""
        return tuple(each for each in self.replicas if each not in self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """One log directory of one broker: sizes in bytes and how far behind each replica is."""

    path: str
    error: str | None
    replicas: Mapping[TopicPartition, "ReplicaSize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """The size of one replica's log, its lag in records, and whether it is a move's copy."""

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
class Quorum:
    """The metadata quorum as its leader sees it."""

    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """What a replica remembers of one producer; None stands for no open transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


def id_text(value: UUID | None) -> str:
    """An id as Kafka writes it: base64 for URLs, without padding; zeros for None."""
    raw = value.bytes if value is not None else bytes(16)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
