"""What Kafka keeps in its znodes: paths, and the values at them. Pure.

Paths and JSON are those of Kafka's ZooKeeper mode (kafka.zk.ZkData).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from nodes.ids import TopicPartition

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
_BROKER: Final = re.compile(r"/brokers/ids/(\d+)")
_TOPIC: Final = re.compile(r"/brokers/topics/([^/]+)")
_STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")


class ZnodeError(ValueError):
    """A znode's data is not what Kafka writes there; the message has the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionZnode:
    """The value of a partition's state znode."""

    leader: int | None
    """None without a leader."""
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


def topic_path(topic: str) -> str:
    """Return the path of a topic's assignment."""
    return f"/brokers/topics/{topic}"


def state_path(partition: TopicPartition) -> str:
    """Return the path of a partition's state."""
    return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"


def partition_of(path: str) -> TopicPartition | None:
    """Return the partition whose state is at a path; None for another path."""
    match = _STATE.fullmatch(path)
    return None if match is None else TopicPartition(match[1], int(match[2]))


def topic_of(path: str) -> str | None:
    """Return the topic whose assignment is at a path; None for another path."""
    match = _TOPIC.fullmatch(path)
    return None if match is None else match[1]


def broker_of(path: str) -> int | None:
    """Return the broker that registers at a path; None for another path."""
    match = _BROKER.fullmatch(path)
    return None if match is None else int(match[1])


def read_state(path: str, data: bytes) -> PartitionZnode:
    """Read a partition's state. Raises ZnodeError."""
    found = _object(path, data)
    try:
        leader = int(found["leader"])
        return PartitionZnode(
            leader=leader if leader >= 0 else None,
            leader_epoch=int(found["leader_epoch"]),
            isr=tuple(int(each) for each in found["isr"]),
            controller_epoch=int(found["controller_epoch"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeError(f"{path}: {error!r} in {data[:200]!r}") from error


def read_assignment(path: str, data: bytes) -> Mapping[int, tuple[int, ...]]:
    """Read a topic's replicas by partition. Raises ZnodeError."""
    found = _object(path, data)
    try:
        return {
            int(partition): tuple(int(each) for each in replicas)
            for partition, replicas in found["partitions"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZnodeError(f"{path}: {error!r} in {data[:200]!r}") from error


def read_controller(data: bytes) -> int:
    """Read the broker that is the active controller. Raises ZnodeError."""
    try:
        return int(_object(CONTROLLER, data)["brokerid"])
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeError(f"{CONTROLLER}: {error!r} in {data[:200]!r}") from error


def read_controller_epoch(data: bytes) -> int:
    """Read the epoch of the active controller. Raises ZnodeError."""
    try:
        return int(data)
    except ValueError as error:
        raise ZnodeError(f"{CONTROLLER_EPOCH}: {data[:200]!r} is no number") from error


def _object(path: str, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ZnodeError(f"{path}: no JSON: {data[:200]!r}") from error
    if not isinstance(found, dict):
        raise ZnodeError(f"{path}: no JSON object: {data[:200]!r}")
    return found
