"""The group coordinators of a broker: a shard for each partition of `__consumer_offsets`."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from uuid import UUID

from nodes.config import NodeConfig
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.image_topics import ImageTopics
from nodes.coordinators.internal_topics import OFFSETS_TOPIC
from nodes.metadata.group_configs import group_config
from nodes.server.coordinators.shards import Shards
from nodes.server.replicas.manager import ReplicaManager

GroupShards = Shards[GroupCoordinator]


def group_coordinators(
    config: NodeConfig,
    replicas: ReplicaManager,
    incarnation_id: UUID,
    wall_clock_ms: Callable[[], int],
) -> GroupShards:
    """Make the shards, which follow the roles of the broker's replicas.

    Member ids are random; `incarnation_id` is their seed.
    """
    topics = ImageTopics(lambda: replicas.image)
    made: GroupShards = Shards(
        OFFSETS_TOPIC,
        partial(
            GroupCoordinator,
            config.groups.groups,
            topics.current,
            Random(incarnation_id.int),
            lambda group_id: group_config(replicas.image, group_id),
        ),
        lambda: replicas.image,
        wall_clock_ms,
        commit_timeout_ms=config.groups.commit_timeout_ms,
    )
    replicas.set_role_listener(OFFSETS_TOPIC, made)
    return made


def forget_topics(shards: GroupShards, names: Sequence[str]) -> None:
    """Remove the committed offsets of topics that were deleted."""
    shards.tell(lambda coordinator: coordinator.topics_deleted(names))
