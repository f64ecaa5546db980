"""Listeners and addresses: where a node listens, which nodes it knows, and security protocols."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodes.config.properties import ConfigError, PropertyReader
from nodes.ids import NodeId
from nodes.wire.security import SecurityProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A named listener's address."""

    listener: str
    host: str
    port: int


def endpoints(key: str, text: str) -> tuple[Endpoint, ...]:
    """Parse named addresses: NAME://host:port[,...]. Raises ConfigError."""
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = item.partition("://")
        host, colon, port = address.rpartition(":")
        if not (separator and colon and port.isdigit()):
            raise ConfigError(f"{key}: {item!r} is not NAME://host:port")
        found.append(Endpoint(listener=name, host=host.strip("[]"), port=int(port)))
    if not found:
        raise ConfigError(f"{key} names no listener: write NAME://host:port[,...]")
    return tuple(found)


def voters(text: str) -> dict[NodeId, tuple[str, int]]:
    """Parse id@host:port[,...]. Raises ConfigError."""
    found: dict[NodeId, tuple[str, int]] = {}
    for item in filter(None, text.split(",")):
        node, at, address = item.strip().partition("@")
        host, colon, port = address.rpartition(":")
        if not (node.isdigit() and at and colon and port.isdigit()):
            raise ConfigError(f"controller.quorum.voters: {item!r} is not id@host:port")
        found[NodeId(int(node))] = (host, int(port))
    return found


def addresses(text: str) -> tuple[tuple[str, int], ...]:
    """Parse host:port[,...]. Raises ConfigError."""
    found = []
    for item in filter(None, text.split(",")):
        host, colon, port = item.strip().rpartition(":")
        if not (colon and port.isdigit()):
            raise ConfigError(f"controller.quorum.bootstrap.servers: {item!r} is not host:port")
        found.append((host, int(port)))
    return tuple(found)


def protocols(read: PropertyReader, listeners: tuple[Endpoint, ...]) -> dict[str, SecurityProtocol]:
    """The security protocol of each listener: those served here, the controllers' and the one
    between brokers. As in KRaft, only a controller listener may be missing in the map; it is
    plaintext.
    """
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
                f"listener.security.protocol.map: {item!r} is not NAME:PROTOCOL with one of "
                f"{', '.join(known)}"
            )
        protocols[name] = known[protocol]
    names = dict.fromkeys([*(endpoint.listener for endpoint in listeners), controller])
    if (
        len(names) == 1
    ):  # only a controller: it sends requests to a broker listener that it does not have
        by_name = read.text("inter.broker.listener.name", "")
        names[by_name or read.text("security.inter.broker.protocol", "PLAINTEXT")] = None
    for name in names:
        if name not in protocols:
            raise ConfigError(f"listener {name} has no entry in listener.security.protocol.map")
    return {name: protocols[name] for name in names}


def inter_broker_listener(read: PropertyReader, protocols: Mapping[str, SecurityProtocol]) -> str:
    """The listener between brokers: set by name or by protocol; otherwise the first plaintext
    listener, or the first of all.
    """
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
        raise ConfigError(f"security.inter.broker.protocol={protocol}: no listener uses it")
    return name or next(iter([*speaking, *candidates]), "")
