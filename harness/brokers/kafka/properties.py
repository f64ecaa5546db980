"""Translates the properties that all broker programs share into those of Apache Kafka. Pure.

A Kafka cluster is formatted before it is started: its id, its first voters and its feature levels
are arguments of its storage tool, not properties.
"""

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.plans.plan import PlanError

FEATURES: Final[Mapping[str, str]] = {
    "eligible.leader.replicas.version": "1",
    "transaction.version": "2",
    "group.version": "1",
}
"""The features whose level a plan may choose for a new cluster, with the built-in broker's."""
VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
ZOOKEEPER: Final = "zookeeper.connect"
SEGMENT_BYTES: Final = "segment.bytes"
SMALL_SEGMENT_BYTES: Final = "internal.segment.bytes"
LEAST_SEGMENT_BYTES: Final = 1 << 20
BUILT_IN_PREFIXES: Final = ("highwater.", "control.batched")
"""Prefixes of properties that only the built-in broker has."""
NOT_KAFKAS: Final = ("cluster.id", "controlled.shutdown.max.wait.ms", *FEATURES)
"""Properties of the built-in broker that Kafka gets in another way, or does not have."""
NOT_BESIDE_ZOOKEEPER: Final = (
    "process.roles",
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
)
"""Properties of brokers beside a metadata quorum."""

DEFAULTS: Final[Mapping[str, str]] = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "8388608",
}
"""Values for a small heap, and the built-in broker's defaults where Kafka's differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The storage tool's arguments for a node. `first_voters` is empty for a node that is no first
    voter."""

    cluster_id: str
    first_voters: str
    features: tuple[tuple[str, str], ...]
    """Name and level of each."""

    def arguments(self, *, first: bool) -> list[str]:
        """Return the arguments of `format`. Only the node's `first` disk belongs to a voter
        (KIP-853)."""
        voters = ["--initial-controllers", self.first_voters]
        return [
            f"--cluster-id={self.cluster_id}",
            *(part for name, level in self.features for part in ("--feature", f"{name}={level}")),
            *(voters if first and self.first_voters else ["--no-initial-controllers"]),
        ]


def check_overrides(broker: Mapping[str, object], where: str) -> None:
    """Raise PlanError for a property that only the built-in broker has."""
    for name in broker:
        if name.startswith(BUILT_IN_PREFIXES):
            raise PlanError(
                f"{where}: broker.{name}: only the built-in broker has this property, and Kafka "
                "would ignore it; remove it"
            )


def kafka_properties(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return one node's server.properties."""
    shared = {name: value for name, value in wanted.items() if name not in NOT_KAFKAS}
    if VOTERS in shared:  # the metadata log holds the voters themselves (KIP-853)
        voters = shared.pop(VOTERS)
        shared[BOOTSTRAP] = ",".join(each.partition("@")[2] for each in voters.split(","))
    if ZOOKEEPER in shared:
        return {**DEFAULTS, **_beside_zookeeper(shared)}
    replicas = str(min(3, shared[BOOTSTRAP].count(",") + 1))
    internal = {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
    }
    return {**DEFAULTS, **internal, **shared}


def with_small_segments(configs: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's configurations with the name that Kafka 4 has for small segments.

    It refuses `segment.bytes` below a megabyte (KIP-1030), and its own tests use the other name.
    """
    size = configs.get(SEGMENT_BYTES, "")
    if not size.isdecimal() or int(size) >= LEAST_SEGMENT_BYTES:
        return dict(configs)  # what is no size is for Kafka to refuse
    rest = {name: value for name, value in configs.items() if name != SEGMENT_BYTES}
    return {**rest, SMALL_SEGMENT_BYTES: size}


def _beside_zookeeper(shared: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a broker that keeps its metadata in ZooKeeper."""
    rest = {name: value for name, value in shared.items() if name not in NOT_BESIDE_ZOOKEEPER}
    # The controller asks the leaders in turn, and the next one only after this time.
    return {"controlled.shutdown.retry.backoff.ms": "500", **rest}


def kafka_format(wanted: Mapping[str, str], *, has_features: bool = True) -> Format:
    """Return how one node's disk is formatted, by the same properties.

    Kafka before version 4 has none of the `features`.
    """
    cluster = wanted["cluster.id"]
    voters = [each.partition("@") for each in wanted.get(VOTERS, "").split(",") if each]
    return Format(
        cluster_id=kafka_uuid(cluster),
        first_voters=",".join(
            f"{node}@{at}:{kafka_uuid(f'{cluster}/{node}')}" for node, _, at in voters
        )
        if "controller" in wanted["process.roles"].split(",")
        else "",
        features=tuple(
            (name, wanted.get(name, level)) for name, level in FEATURES.items() if has_features
        ),
    )


def kafka_uuid(name: str) -> str:
    """Return the UUID of a name in Kafka's form: base64url without padding."""
    made = uuid.uuid5(uuid.NAMESPACE_OID, name)
    return base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")
