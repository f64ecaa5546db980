"""The throttles of a reassignment (KIP-73), as Kafka's tool sets them. Pure.

A broker has two rates, for throttled replicas only. On the leader's side, these are all present
replicas of a moving partition; on the follower's side, the replicas that are being added. The
configuration of the topics lists them, as "partition:broker,...".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.admin.descriptions import Reassignment
from nodes.ids import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

CLEARED_BROKER: Final[Mapping[str, None]] = {LEADER_RATE: None, FOLLOWER_RATE: None}
"""The change that removes the throttles from a broker's configuration."""
CLEARED_TOPIC: Final[Mapping[str, None]] = {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}
"""The change that removes the throttles from a topic's configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingPartition:
    """The brokers that send and receive the data of one partition."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    targets: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, Reassignment],
) -> dict[TopicPartition, MovingPartition]:
    """Return all moves once `targets` are set: those in progress, and the new ones."""
    made = {
        name: MovingPartition(
            sources=frozenset(each.replicas) - frozenset(each.adding),
            destinations=frozenset(each.adding),
        )
        for name, each in ongoing.items()
    }
    for name, replicas in targets.items():
        sources = made[name].sources if name in made else frozenset(current[name])
        made[name] = MovingPartition(sources=sources, destinations=frozenset(replicas) - sources)
    return made


def topic_limits(moving: Mapping[TopicPartition, MovingPartition]) -> dict[str, dict[str, str]]:
    """Return for each topic the configuration that lists its throttled replicas."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for name, move in moving.items():
        leaders.setdefault(name.topic, []).extend(f"{name.partition}:{n}" for n in move.sources)
        followers.setdefault(name.topic, []).extend(
            f"{name.partition}:{n}" for n in move.destinations
        )
    return {
        topic: {
            LEADER_REPLICAS: ",".join(sorted(leaders[topic])),
            FOLLOWER_REPLICAS: ",".join(sorted(followers[topic])),
        }
        for topic in sorted(leaders)
    }


def broker_limits(
    moving: Mapping[TopicPartition, MovingPartition], rate: int
) -> dict[int, dict[str, str]]:
    """Return for each sending or receiving broker its configuration, with `rate` in bytes/s."""
    brokers = {node for move in moving.values() for node in move.sources | move.destinations}
    return {node: {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)} for node in sorted(brokers)}
