"""A node's configuration: Kafka's property names, parsed and validated once.

`server.properties` is Kafka's format (key=value, # comments). Unknown keys are kept out with a
warning line rather than refused, as Kafka does, so that a Kafka file can be used as it is; a value
that cannot be right is a ConfigError that names the key and what it accepts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from nodes.ids import NodeId
from nodes.wire.connections import ConnectionLimits
from nodes.wire.security import SecurityProtocol

T = TypeVar("T")

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The one replica.selector.class there is: consumers are sent to a replica in their rack."""


SECURITY_PREFIXES = ("ssl.", "sasl.", "listener.name.")
"""Of the properties that `nodes.server.security` reads."""


class ConfigError(Exception):
    """A property is missing or cannot be used; the message says which, why, and what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A named listener's address."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """Topic configuration where a topic names none of its own."""

    partitions: int
    replication_factor: int
    min_insync_replicas: int
    segment_bytes: int
    max_message_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Administration:
    """How the cluster is administered: by itself, and at a client's request."""

    leader_imbalance_check_interval_ms: int
    leader_imbalance_percentage: int
    auto_leader_rebalance: bool
    auto_create_topics: bool
    delete_topics: bool
    placement: str
    max_idle_interval_ms: int
    """Of the metadata log: after so long it gets a record that says nothing."""
    max_request_partitions: int
    """Partitions in one page of DescribeTopicPartitions."""


class Property(NamedTuple):
    """A property that a node knows: its type (string, int, boolean) and Kafka's default, if any."""

    kind: str
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Everything a node is told at its start. Times in milliseconds, sizes in bytes."""

    node_id: NodeId
    is_broker: bool
    is_controller: bool
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    controller_listener: str
    voters: Mapping[NodeId, tuple[str, int]]
    log_dir: str
    cluster_id: str
    rack: str | None
    topic_defaults: TopicDefaults
    broker_session_timeout_ms: int
    broker_heartbeat_interval_ms: int
    replica_lag_time_max_ms: int
    replica_fetch_wait_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_socket_timeout_ms: int
    replica_fetch_backoff_ms: int
    fetch_max_bytes: int
    max_fetch_sessions: int
    rack_aware_reads: bool
    high_watermark_checkpoint_interval_ms: int
    quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    recovery_point_checkpoint_interval_ms: int
    log_start_checkpoint_interval_ms: int
    flush_scheduler_interval_ms: int
    retention_check_interval_ms: int
    quorum_fetch_timeout_ms: int
    quorum_election_timeout_ms: int
    quorum_election_backoff_max_ms: int
    quorum_request_timeout_ms: int
    metadata_segment_bytes: int
    metadata_snapshot_record_bytes: int
    metadata_snapshot_interval_ms: int
    controlled_shutdown_max_wait_ms: int
    administration: Administration
    unclean_leader_election: bool
    max_request_bytes: int
    connection_limits: ConnectionLimits
    protocols: Mapping[str, SecurityProtocol]
    """By listener, the controllers' included."""
    inter_broker_listener: str
    """Where brokers fetch from each other; empty for a node without broker listeners."""
    index_interval_bytes: int
    static: Mapping[str, str]
    """Every property as it is in the file: where topics find their defaults."""
    known: Mapping[str, Property]
    """Every property that is read here."""

    def listener(self, name: str) -> Endpoint:
        """The advertised endpoint of the listener called `name`."""
        return next(e for e in self.advertised if e.listener == name)

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        """Where clients and other brokers are served."""
        return tuple(e for e in self.listeners if e.listener != self.controller_listener)


def parse_properties(text: str) -> dict[str, str]:
    """The key=value lines of `text`; blank lines and lines that start with # or ! are skipped.

    Raises ConfigError for a line without `=`.
    """
    properties: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"line {number} is no key=value: {line!r}")
        properties[key.strip()] = value.strip()
    return properties


class _Reader:
    """Takes typed values out of the properties and remembers which were asked for."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self.asked: dict[str, Property] = {}

    def text(self, key: str, default: str | None = None, *, kind: str = "string") -> str:
        self.asked[key] = Property(kind, default)
        value = self._properties.get(key, default)
        if value is None:
            raise ConfigError(f"{key} is missing: add a line {key}=...")
        return value

    def number(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        raw = self.text(key, None if default is None else str(default), kind="int")
        return self._parsed(key, raw, f"a whole number of at least {least}", _at_least(least))

    def flag(self, key: str, default: bool) -> bool:
        accepted = {"true": True, "false": False}
        raw = self.text(key, str(default).lower(), kind="boolean").lower()
        return self._parsed(key, raw, "true or false", lambda text: accepted[text])

    def one_of(self, key: str, accepted: Mapping[str, T], default: str) -> T:
        raw = self.text(key, default)
        names = " or ".join(name or "empty" for name in accepted)
        return self._parsed(key, raw, names, lambda text: accepted[text])

    def _parsed(self, key: str, raw: str, accepts: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(raw)
        except (ValueError, KeyError) as error:
            raise ConfigError(f"{key}={raw} cannot be used: it must be {accepts}") from error


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError(text)
        return value

    return parse


def _endpoints(key: str, text: str) -> tuple[Endpoint, ...]:
    endpoints = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = item.partition("://")
        host, colon, port = address.rpartition(":")
        if not (separator and colon and port.isdigit()):
            raise ConfigError(f"{key}: {item!r} is no NAME://host:port")
        endpoints.append(Endpoint(listener=name, host=host.strip("[]"), port=int(port)))
    if not endpoints:
        raise ConfigError(f"{key} names no listener: write NAME://host:port[,...]")
    return tuple(endpoints)


def _voters(text: str) -> dict[NodeId, tuple[str, int]]:
    voters: dict[NodeId, tuple[str, int]] = {}
    for item in filter(None, text.split(",")):
        node, at, address = item.strip().partition("@")
        host, colon, port = address.rpartition(":")
        if not (node.isdigit() and at and colon and port.isdigit()):
            raise ConfigError(f"controller.quorum.voters: {item!r} is no id@host:port")
        voters[NodeId(int(node))] = (host, int(port))
    return voters


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    addresses = []
    for item in filter(None, text.split(",")):
        host, colon, port = item.strip().rpartition(":")
        if not (colon and port.isdigit()):
            raise ConfigError(f"controller.quorum.bootstrap.servers: {item!r} is no host:port")
        addresses.append((host, int(port)))
    return tuple(addresses)


def _roles(text: str) -> frozenset[str]:
    roles = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not roles or roles - {"broker", "controller"}:
        raise ConfigError(
            f"process.roles={text} cannot be used: broker, controller or broker,controller"
        )
    return roles


def load_config(properties: Mapping[str, str]) -> tuple[NodeConfig, list[str]]:
    """The configuration in `properties`, and the keys that nothing here uses (worth a warning).

    Raises ConfigError.
    """
    read = _Reader(properties)
    roles = _roles(read.text("process.roles"))
    listeners = _endpoints("listeners", read.text("listeners"))
    advertised = read.text("advertised.listeners", "")
    bootstrap = _addresses(read.text("controller.quorum.bootstrap.servers", ""))
    config = NodeConfig(
        node_id=NodeId(read.number("node.id")),
        is_broker="broker" in roles,
        is_controller="controller" in roles,
        listeners=listeners,
        advertised=_endpoints("advertised.listeners", advertised) if advertised else listeners,
        controller_listener=read.text("controller.listener.names", "CONTROLLER"),
        voters=_voters(read.text("controller.quorum.voters", "" if bootstrap else None)),
        log_dir=read.text("log.dirs", properties.get("log.dir", "")) or _missing_log_dir(),
        cluster_id=read.text("cluster.id", "highwater"),
        rack=read.text("broker.rack", "") or None,
        topic_defaults=TopicDefaults(
            partitions=read.number("num.partitions", 1, least=1),
            replication_factor=read.number("default.replication.factor", 1, least=1),
            min_insync_replicas=read.number("min.insync.replicas", 1, least=1),
            segment_bytes=read.number("log.segment.bytes", 1 << 30, least=1024),
            max_message_bytes=read.number("message.max.bytes", 1_048_588, least=1),
        ),
        broker_session_timeout_ms=read.number("broker.session.timeout.ms", 9000, least=1),
        broker_heartbeat_interval_ms=read.number("broker.heartbeat.interval.ms", 2000, least=1),
        replica_lag_time_max_ms=read.number("replica.lag.time.max.ms", 30_000, least=1),
        replica_fetch_wait_max_ms=read.number("replica.fetch.wait.max.ms", 500),
        replica_fetch_max_bytes=read.number("replica.fetch.max.bytes", 1 << 20, least=1),
        replica_fetch_response_max_bytes=read.number(
            "replica.fetch.response.max.bytes", 10 << 20, least=1
        ),
        replica_socket_timeout_ms=read.number("replica.socket.timeout.ms", 2000, least=1),
        replica_fetch_backoff_ms=read.number("replica.fetch.backoff.ms", 1000, least=1),
        fetch_max_bytes=read.number("fetch.max.bytes", 55 << 20, least=1024),
        max_fetch_sessions=read.number("max.incremental.fetch.session.cache.slots", 1000),
        rack_aware_reads=read.one_of(
            "replica.selector.class", {"": False, RACK_AWARE_SELECTOR: True}, default=""
        ),
        high_watermark_checkpoint_interval_ms=read.number(
            "replica.high.watermark.checkpoint.interval.ms", 5000, least=1
        ),
        quorum_bootstrap_servers=bootstrap,
        recovery_point_checkpoint_interval_ms=read.number(
            "log.flush.offset.checkpoint.interval.ms", 60_000, least=1
        ),
        log_start_checkpoint_interval_ms=read.number(
            "log.flush.start.offset.checkpoint.interval.ms", 60_000, least=1
        ),
        flush_scheduler_interval_ms=read.number(
            "log.flush.scheduler.interval.ms", 2**63 - 1, least=1
        ),
        retention_check_interval_ms=read.number(
            "log.retention.check.interval.ms", 300_000, least=1
        ),
        quorum_fetch_timeout_ms=read.number("controller.quorum.fetch.timeout.ms", 2000, least=1),
        quorum_election_timeout_ms=read.number(
            "controller.quorum.election.timeout.ms", 1000, least=1
        ),
        quorum_election_backoff_max_ms=read.number(
            "controller.quorum.election.backoff.max.ms", 1000, least=1
        ),
        quorum_request_timeout_ms=read.number(
            "controller.quorum.request.timeout.ms", 2000, least=1
        ),
        metadata_segment_bytes=read.number("metadata.log.segment.bytes", 1 << 30, least=1024),
        metadata_snapshot_record_bytes=read.number(
            "metadata.log.max.record.bytes.between.snapshots", 20 << 20, least=1
        ),
        metadata_snapshot_interval_ms=read.number(
            "metadata.log.max.snapshot.interval.ms", 3_600_000
        ),
        controlled_shutdown_max_wait_ms=read.number("controlled.shutdown.max.wait.ms", 5000),
        administration=_administration(read),
        unclean_leader_election=read.flag("unclean.leader.election.enable", default=False),
        max_request_bytes=read.number("socket.request.max.bytes", 100 << 20, least=1024),
        connection_limits=ConnectionLimits(
            max_connections=read.number("max.connections", 2**31 - 1),
            max_per_ip=read.number("max.connections.per.ip", 2**31 - 1),
            max_idle_ms=read.number("connections.max.idle.ms", 600_000, least=1),
        ),
        protocols=(protocols := _protocols(read, listeners)),
        inter_broker_listener=_inter_broker_listener(read, protocols),
        index_interval_bytes=read.number("log.index.interval.bytes", 4096),
        static=dict(properties),
        known=read.asked,
    )
    _cross_check(config)
    unused = set(properties) - set(read.asked) - {"log.dir"}
    return config, sorted(key for key in unused if not key.startswith(SECURITY_PREFIXES))


def _administration(read: _Reader) -> Administration:
    interval_s = read.number("leader.imbalance.check.interval.seconds", 300, least=1)
    placements = {"striped": "striped", "shifted": "shifted"}
    return Administration(
        leader_imbalance_check_interval_ms=1000 * interval_s,
        leader_imbalance_percentage=read.number("leader.imbalance.per.broker.percentage", 10),
        auto_leader_rebalance=read.flag("auto.leader.rebalance.enable", default=True),
        # Unlike Kafka's: a misspelt topic in a test should not come into being.
        auto_create_topics=read.flag("auto.create.topics.enable", default=False),
        delete_topics=read.flag("delete.topic.enable", default=True),
        placement=read.one_of("highwater.placement", placements, "striped"),
        max_idle_interval_ms=read.number("metadata.max.idle.interval.ms", 500),
        max_request_partitions=read.number("max.request.partition.size.limit", 2000, least=1),
    )


def _protocols(read: "_Reader", listeners: tuple[Endpoint, ...]) -> dict[str, SecurityProtocol]:
    """By listener. As in KRaft, what the map does not name is plaintext for controllers only."""
    controller = read.text("controller.listener.names", "CONTROLLER")
    known = {protocol.name: protocol for protocol in SecurityProtocol}
    protocols = {**known}
    text = read.text("listener.security.protocol.map", "")
    if not text:
        protocols.setdefault(controller, SecurityProtocol.PLAINTEXT)
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = item.partition(":")
        if protocol not in known:
            raise ConfigError(
                f"listener.security.protocol.map: {item!r} is no NAME:PROTOCOL with one of "
                f"{', '.join(known)}"
            )
        protocols[name] = known[protocol]
    names = dict.fromkeys([*(endpoint.listener for endpoint in listeners), controller])
    for name in names:
        if name not in protocols:
            raise ConfigError(f"listener {name} has no entry in listener.security.protocol.map")
    return {name: protocols[name] for name in names}


def _inter_broker_listener(read: "_Reader", protocols: Mapping[str, SecurityProtocol]) -> str:
    """Named by itself, or by its protocol; else the first that is plaintext, or else the first."""
    name = read.text("inter.broker.listener.name", "")
    protocol = read.text("security.inter.broker.protocol", "")
    controller = read.text("controller.listener.names", "CONTROLLER")
    candidates = [listener for listener in protocols if listener != controller]
    if name and protocol:
        raise ConfigError(
            "set one of inter.broker.listener.name and security.inter.broker.protocol, not both"
        )
    if name and name not in candidates:
        raise ConfigError(f"inter.broker.listener.name={name} is not among the listeners")
    wanted = protocol or "PLAINTEXT"
    speaking = [listener for listener in candidates if protocols[listener].name == wanted]
    if protocol and candidates and not speaking:
        raise ConfigError(f"security.inter.broker.protocol={protocol}: no listener speaks it")
    return name or next(iter([*speaking, *candidates]), "")


def _missing_log_dir() -> str:
    raise ConfigError("log.dirs is missing: add a line log.dirs=/path/for/this/node")


def _cross_check(config: NodeConfig) -> None:
    names = [endpoint.listener for endpoint in config.listeners]
    if len(set(names)) != len(names):
        raise ConfigError("listeners: every listener needs a name of its own")
    joins = bool(config.quorum_bootstrap_servers)
    if config.is_controller and config.node_id not in config.voters and not joins:
        raise ConfigError(
            f"node.id={config.node_id} has the controller role but is not in "
            "controller.quorum.voters: add it there, make it a broker only, or let it join by "
            "controller.quorum.bootstrap.servers"
        )
    if unknown := [e.listener for e in config.advertised if e.listener not in names]:
        raise ConfigError(f"advertised.listeners: {unknown[0]} is not among the listeners")
    if config.is_controller and config.controller_listener not in names:
        raise ConfigError(
            f"controller.listener.names={config.controller_listener} is not among the listeners"
        )
    if config.is_broker and not config.broker_listeners:
        raise ConfigError("a broker needs a listener besides the controller's")
    if config.broker_heartbeat_interval_ms * 2 > config.broker_session_timeout_ms:
        raise ConfigError(
            "broker.session.timeout.ms must be at least twice broker.heartbeat.interval.ms"
        )
