"""The properties of a broker whose control plane is ZooKeeper."""

from dataclasses import dataclass

from nodes.config.properties import ConfigError, PropertyReader


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """How the broker reaches ZooKeeper, and how its controller works. Times in milliseconds."""

    servers: tuple[tuple[str, int], ...]
    """The ensemble's addresses for clients."""
    chroot: str
    """The znode below which everything is, with a slash in front; empty for the root."""
    session_timeout_ms: int
    connection_timeout_ms: int
    """How long a start waits for the first connection."""
    batched: bool
    """Whether the controller writes many znodes at a time and names many partitions in a request
    (Kafka 1.1 and later), or does one partition after another."""

    @staticmethod
    def read(read: PropertyReader) -> "ZooKeeperSettings | None":
        """The settings; None without `zookeeper.connect`. Raises ConfigError."""
        connect = read.text("zookeeper.connect", "")
        timeout_ms = read.number("zookeeper.session.timeout.ms", 18_000, least=1)
        connection_ms = read.number("zookeeper.connection.timeout.ms", timeout_ms, least=1)
        batched = read.flag("control.batched", default=True)
        if not connect:
            return None
        hosts, slash, path = connect.partition("/")
        return ZooKeeperSettings(
            servers=_servers(hosts),
            chroot=(slash + path).rstrip("/"),
            session_timeout_ms=timeout_ms,
            connection_timeout_ms=connection_ms,
            batched=batched,
        )


def _servers(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = item.rpartition(":")
        if not (colon and host and port.isdigit()):
            raise ConfigError(f"zookeeper.connect: {item!r} is not host:port[,host:port][/chroot]")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ConfigError("zookeeper.connect names no server: write host:port[,host:port][/chroot]")
    return tuple(found)
