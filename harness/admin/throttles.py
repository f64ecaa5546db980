"""Limits on what a reassignment may use of the network (KIP-73), as Kafka's tool sets them. Pure.

A broker's two rates hold for throttled replicas only: on the leader's side all replicas of now of a
partition that moves, on the follower's side those that come. Which those are stands in the topics'
configuration, as "partition:broker,...".
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
"""The change of a broker's configuration that removes its limits."""
CLEARED_TOPIC: Final[Mapping[str, None]] = {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Of one partition: who gives and who takes."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    targets: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, Reassignment],
) -> dict[TopicPartition, Move]:
    """What moves once `targets` are set: what is under way already, and the new."""
    made = {
        name: Move(
            sources=frozenset(each.replicas) - frozenset(each.adding),
            destinations=frozenset(each.adding),
        )
        for name, each in ongoing.items()
    }
    for name, replicas in targets.items():
        sources = made[name].sources if name in made else frozenset(current[name])
        made[name] = Move(sources=sources, destinations=frozenset(replicas) - sources)
    return made


def topic_limits(moving: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """For every topic, the configuration that names its throttled replicas."""
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


def broker_limits(moving: Mapping[TopicPartition, Move], rate: int) -> dict[int, dict[str, str]]:
    """For every broker that gives or takes, the configuration with `rate` in bytes/s."""
    brokers = {node for move in moving.values() for node in move.sources | move.destinations}
    return {node: {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)} for node in sorted(brokers)}
