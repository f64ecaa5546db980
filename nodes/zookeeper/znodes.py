"""The content of Kafka's znodes: JSON, read and written.

Every reader raises ZnodeError for content that it cannot use, and ignores fields that it does not
know.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from nodes.ids import Epoch, NodeId, TopicPartition
from nodes.metadata.records import BrokerEndpoint
from nodes.wire.security import SecurityProtocol

T = TypeVar("T")
Nodes = tuple[NodeId, ...]

PRODUCER_ID_BLOCK: Final = 1000


class ZnodeError(Exception):
    """A znode has content that is not Kafka's."""


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _read(data: bytes, what: str, take: Callable[[dict[str, Any]], T]) -> T:
    try:
        return take(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ZnodeError(f"the znode of {what} has other content: {data[:200]!r}") from error


def _nodes(values: Sequence[Any]) -> Nodes:
    return tuple(NodeId(int(value)) for value in values)


# -- the cluster and its controller ----------------------------------------------------------------


def cluster_id(identity: str) -> bytes:
    """/cluster/id."""
    return _json({"version": "1", "id": identity})


def read_cluster_id(data: bytes) -> str:
    """/cluster/id."""
    return _read(data, "the cluster's id", lambda found: str(found["id"]))


def controller(node: NodeId, wall_clock_ms: int) -> bytes:
    """/controller: who is it, and since when."""
    return _json({"version": 1, "brokerid": node, "timestamp": str(wall_clock_ms)})


def read_controller(data: bytes) -> NodeId:
    """/controller."""
    return _read(data, "the controller", lambda found: NodeId(int(found["brokerid"])))


def controller_epoch(epoch: int) -> bytes:
    """/controller_epoch, which is no JSON."""
    return str(epoch).encode()


def read_controller_epoch(data: bytes) -> int:
    """/controller_epoch."""
    try:
        return int(data)
    except ValueError as error:
        raise ZnodeError(f"the controller epoch is {data[:200]!r}") from error


# -- brokers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerZnode:
    """A broker's registration (version 4)."""

    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None


def broker(registered: BrokerZnode, wall_clock_ms: int) -> bytes:
    """/brokers/ids/N."""
    plain = [
        each
        for each in registered.endpoints
        if each.security_protocol == SecurityProtocol.PLAINTEXT.value
    ]
    content: dict[str, Any] = {
        "version": 4,
        "host": plain[0].host if plain else None,
        "port": plain[0].port if plain else -1,
        "endpoints": [f"{each.name}://{each.host}:{each.port}" for each in registered.endpoints],
        "listener_security_protocol_map": {
            each.name: SecurityProtocol(each.security_protocol).name
            for each in registered.endpoints
        },
        "jmx_port": -1,
        "timestamp": str(wall_clock_ms),
    }
    if registered.rack is not None:
        content["rack"] = registered.rack
    return _json(content)


def read_broker(data: bytes) -> BrokerZnode:
    """/brokers/ids/N."""
    return _read(data, "a broker", _broker)


def _broker(found: dict[str, Any]) -> BrokerZnode:
    protocols = found.get("listener_security_protocol_map", {})
    return BrokerZnode(
        endpoints=tuple(_endpoint(text, protocols) for text in found["endpoints"]),
        rack=found.get("rack"),
    )


def _endpoint(text: str, protocols: Mapping[str, str]) -> BrokerEndpoint:
    name, _, address = text.partition("://")
    parts = urlsplit(f"//{address}")
    return BrokerEndpoint(
        name=name,
        host=parts.hostname or "",
        port=parts.port or 0,
        security_protocol=SecurityProtocol[protocols.get(name, name)].value,
    )


# -- topics ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The replicas of one partition, and those that a reassignment adds and removes."""

    replicas: Nodes
    adding: Nodes = ()
    removing: Nodes = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicZnode:
    """A topic's id and assignment (version 3)."""

    topic_id: UUID
    partitions: Mapping[int, Assignment]


def topic(content: TopicZnode) -> bytes:
    """/brokers/topics/T."""
    rows = sorted(content.partitions.items())
    return _json(
        {
            "version": 3,
            "topic_id": _id_text(content.topic_id),
            "partitions": {str(number): row.replicas for number, row in rows},
            "adding_replicas": {str(number): row.adding for number, row in rows if row.adding},
            "removing_replicas": {str(n): row.removing for n, row in rows if row.removing},
        }
    )


def read_topic(data: bytes) -> TopicZnode:
    """/brokers/topics/T. A topic of Kafka before 2.8 has no id, and cannot be used."""
    return _read(data, "a topic", _topic)


def _topic(found: dict[str, Any]) -> TopicZnode:
    adding, removing = found.get("adding_replicas", {}), found.get("removing_replicas", {})
    return TopicZnode(
        topic_id=_id_of(found["topic_id"]),
        partitions={
            int(number): Assignment(
                replicas=_nodes(replicas),
                adding=_nodes(adding.get(number, ())),
                removing=_nodes(removing.get(number, ())),
            )
            for number, replicas in found["partitions"].items()
        },
    )


def _id_text(topic_id: UUID) -> str:
    """Kafka's text of an id: URL-safe base64 without padding."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _id_of(text: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(text + "=="))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateZnode:
    """The leader and the ISR of one partition; `leader` is -1 if there is none."""

    leader: NodeId
    leader_epoch: Epoch
    isr: Nodes
    controller_epoch: int


def state(content: StateZnode) -> bytes:
    """/brokers/topics/T/partitions/P/state."""
    return _json(
        {
            "controller_epoch": content.controller_epoch,
            "leader": content.leader,
            "version": 1,
            "leader_epoch": content.leader_epoch,
            "isr": content.isr,
        }
    )


def read_state(data: bytes) -> StateZnode:
    """/brokers/topics/T/partitions/P/state."""
    return _read(
        data,
        "a partition's state",
        lambda found: StateZnode(
            leader=NodeId(int(found["leader"])),
            leader_epoch=Epoch(int(found["leader_epoch"])),
            isr=_nodes(found["isr"]),
            controller_epoch=int(found["controller_epoch"]),
        ),
    )


# -- notifications and requests --------------------------------------------------------------------


def isr_changes(changed: Sequence[TopicPartition]) -> bytes:
    """/isr_change_notification/isr_change_N: partitions whose leader changed the ISR."""
    rows = [{"topic": each.topic, "partition": each.partition} for each in changed]
    return _json({"version": 1, "partitions": rows})


def read_isr_changes(data: bytes) -> list[TopicPartition]:
    """/isr_change_notification/isr_change_N."""
    return _read(
        data,
        "an ISR change",
        lambda found: [
            TopicPartition(str(row["topic"]), int(row["partition"])) for row in found["partitions"]
        ],
    )


def read_reassignments(data: bytes) -> dict[TopicPartition, Nodes]:
    """/admin/reassign_partitions: the wanted replicas."""
    return _read(
        data,
        "the reassignments",
        lambda found: {
            TopicPartition(str(row["topic"]), int(row["partition"])): _nodes(row["replicas"])
            for row in found["partitions"]
        },
    )


def config(values: Mapping[str, str]) -> bytes:
    """/config/TYPE/NAME."""
    return _json({"version": 1, "config": dict(values)})


def read_config(data: bytes) -> dict[str, str]:
    """/config/TYPE/NAME; an empty znode is an empty configuration."""
    if not data:
        return {}
    return _read(
        data,
        "a configuration",
        lambda found: {str(name): str(value) for name, value in found["config"].items()},
    )


def config_change(entity: str) -> bytes:
    """/config/changes/config_change_N: the configuration of TYPE/NAME changed."""
    return _json({"version": 2, "entity_path": entity})


def read_config_change(data: bytes) -> str:
    """/config/changes/config_change_N."""
    return _read(data, "a configuration change", lambda found: str(found["entity_path"]))


def producer_ids(node: NodeId, block: range) -> bytes:
    """/latest_producer_id_block: the ids that were given away last. The numbers are text."""
    return _json(
        {
            "version": 1,
            "broker": node,
            "block_start": str(block.start),
            "block_end": str(block.stop - 1),
        }
    )


def read_producer_ids(data: bytes) -> range:
    """/latest_producer_id_block."""
    return _read(
        data,
        "the producer ids",
        lambda found: range(int(found["block_start"]), int(found["block_end"]) + 1),
    )
