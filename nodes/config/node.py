"""The whole configuration of a node, with checks across settings."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodes.config.coordinators import GroupCoordinatorSettings, TransactionCoordinatorSettings
from nodes.config.groups import (
    AdministrationSettings,
    CleanerSettings,
    FetchSettings,
    HousekeepingSettings,
    QuorumSettings,
    ReplicationSettings,
    TopicDefaults,
)
from nodes.config.listeners import Endpoint, endpoints, inter_broker_listener, protocols, voters
from nodes.config.properties import ConfigError, Property, PropertyReader
from nodes.config.zookeeper import ZooKeeperSettings
from nodes.ids import NodeId
from nodes.wire.connections import ConnectionLimits
from nodes.wire.security import SecurityProtocol

SECURITY_PREFIXES = ("ssl.", "sasl.", "listener.name.")
"""The prefixes of the properties that `nodes.server.security` reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The configuration of a node. Times in milliseconds, sizes in bytes."""

    node_id: NodeId
    is_broker: bool
    is_controller: bool
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    controller_listener: str
    voters: Mapping[NodeId, tuple[str, int]]
    log_dir: str
    zookeeper: ZooKeeperSettings | None
    """Set if ZooKeeper is the control plane, and no quorum is."""
    cluster_id: str
    rack: str | None
    topic_defaults: TopicDefaults
    quorum: QuorumSettings
    replication: ReplicationSettings
    fetching: FetchSettings
    housekeeping: HousekeepingSettings
    cleaner: CleanerSettings
    groups: GroupCoordinatorSettings
    transactions: TransactionCoordinatorSettings
    broker_session_timeout_ms: int
    broker_heartbeat_interval_ms: int
    controlled_shutdown_max_wait_ms: int
    administration: AdministrationSettings
    unclean_leader_election: bool
    max_request_bytes: int
    connection_limits: ConnectionLimits
    protocols: Mapping[str, SecurityProtocol]
    """By listener, including the controller listener."""
    inter_broker_listener: str
    """The listener from which brokers fetch; empty for a node without broker listeners."""
    index_interval_bytes: int
    static: Mapping[str, str]
    """Every property as it is in the file: the source of the topics' defaults."""
    known: Mapping[str, Property]
    """Every property that this program reads."""

    def listener(self, name: str) -> Endpoint:
        """The advertised endpoint of the listener called `name`."""
        return next(e for e in self.advertised if e.listener == name)

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners for clients and other brokers."""
        return tuple(e for e in self.listeners if e.listener != self.controller_listener)


def load_config(properties: Mapping[str, str]) -> tuple[NodeConfig, list[str]]:
    """Return the configuration in `properties`, and the unknown keys (for a warning).

    Raises ConfigError.
    """
    read = PropertyReader(properties)
    zookeeper = ZooKeeperSettings.read(read)
    roles = _roles(read.text("process.roles", None if zookeeper is None else "broker"))
    listeners = endpoints("listeners", read.text("listeners"))
    spoken = protocols(read, listeners)
    advertised = read.text("advertised.listeners", "")
    quorum = QuorumSettings.read(read)
    config = NodeConfig(
        node_id=NodeId(read.number("node.id")),
        is_broker="broker" in roles,
        is_controller="controller" in roles,
        listeners=listeners,
        advertised=endpoints("advertised.listeners", advertised) if advertised else listeners,
        controller_listener=read.text("controller.listener.names", "CONTROLLER"),
        voters=voters(
            read.text(
                "controller.quorum.voters",
                "" if quorum.bootstrap_servers or zookeeper is not None else None,
            )
        ),
        log_dir=read.text("log.dirs", properties.get("log.dir", "")) or _missing_log_dir(),
        zookeeper=zookeeper,
        cluster_id=read.text("cluster.id", "highwater"),
        rack=read.text("broker.rack", "") or None,
        topic_defaults=TopicDefaults.read(read),
        quorum=quorum,
        replication=ReplicationSettings.read(read),
        fetching=FetchSettings.read(read),
        housekeeping=HousekeepingSettings.read(read),
        cleaner=CleanerSettings.read(read),
        groups=GroupCoordinatorSettings.read(read),
        transactions=TransactionCoordinatorSettings.read(read),
        broker_session_timeout_ms=read.number("broker.session.timeout.ms", 9000, least=1),
        broker_heartbeat_interval_ms=read.number("broker.heartbeat.interval.ms", 2000, least=1),
        controlled_shutdown_max_wait_ms=read.number("controlled.shutdown.max.wait.ms", 5000),
        administration=AdministrationSettings.read(read),
        unclean_leader_election=read.flag("unclean.leader.election.enable", default=False),
        max_request_bytes=read.number("socket.request.max.bytes", 100 << 20, least=1024),
        connection_limits=ConnectionLimits(
            max_connections=read.number("max.connections", 2**31 - 1),
            max_per_ip=read.number("max.connections.per.ip", 2**31 - 1),
            max_idle_ms=read.number("connections.max.idle.ms", 600_000, least=1),
            # Unlike Kafka, which by default has no bound for requests, and none for responses.
            max_request_bytes=read.number("queued.max.request.bytes", 256 << 20, least=1024),
            max_response_bytes=read.number(
                "highwater.queued.max.response.bytes", 256 << 20, least=1024
            ),
        ),
        protocols=spoken,
        inter_broker_listener=inter_broker_listener(read, spoken),
        index_interval_bytes=read.number("log.index.interval.bytes", 4096),
        static=dict(properties),
        known=read.asked,
    )
    _cross_check(config)
    unused = set(properties) - set(read.asked) - {"log.dir"}
    return config, sorted(key for key in unused if not key.startswith(SECURITY_PREFIXES))


def _roles(text: str) -> frozenset[str]:
    roles = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not roles or roles - {"broker", "controller"}:
        raise ConfigError(
            f"process.roles={text} cannot be used: broker, controller or broker,controller"
        )
    return roles


def _missing_log_dir() -> str:
    raise ConfigError("log.dirs is missing: add a line log.dirs=/path/for/this/node")


def _cross_check(config: NodeConfig) -> None:
    names = [endpoint.listener for endpoint in config.listeners]
    if len(set(names)) != len(names):
        raise ConfigError("listeners: every listener needs a unique name")
    if config.zookeeper is not None and (config.is_controller or config.voters):
        raise ConfigError(
            "zookeeper.connect is for brokers without a quorum: set process.roles=broker and "
            "remove controller.quorum.voters, or remove zookeeper.connect"
        )
    joins = bool(config.quorum.bootstrap_servers)
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
    if config.connection_limits.max_request_bytes < config.max_request_bytes:
        raise ConfigError(
            "queued.max.request.bytes must be at least socket.request.max.bytes, or the largest "
            "request could never be received"
        )
    if config.broker_heartbeat_interval_ms * 2 > config.broker_session_timeout_ms:
        raise ConfigError(
            "broker.session.timeout.ms must be at least twice broker.heartbeat.interval.ms"
        )
