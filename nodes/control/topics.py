"""CreateTopics: what a new topic may look like, and where its replicas go. Pure.

Every refusal is a ControlError with Kafka's error code and concerns one topic; the others of the
request are made all the same.
"""

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.control.errors import ControlError
from nodes.control.image import ClusterImage
from nodes.control.placement import Candidate, striped
from nodes.control.records import (
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from nodes.control.settings import ControlSettings
from nodes.control.topic_configs import check_configs
from nodes.ids import Epoch, NodeId

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""As in Kafka: what one batch of the metadata log may create."""
MAX_NAME_LENGTH: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic as asked for; -1 stands for the cluster's default, assignments exclude both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[NodeId, ...]], ...] = ()
    """(partition, replicas) pairs of a manual placement."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAnswer:
    """What became of one topic of a CreateTopics request; `error` is None when it was created."""

    name: str
    error: ControlError | None = None
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] | None = None


def _check_name(name: str) -> None:
    if not name:
        raise ControlError(ErrorCode.invalid_topic_exception, "a topic name may not be empty")
    if name in (".", ".."):
        raise ControlError(ErrorCode.invalid_topic_exception, f"a topic name may not be {name!r}")
    if len(name) > MAX_NAME_LENGTH:
        raise ControlError(
            ErrorCode.invalid_topic_exception,
            f"a topic name of {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed",
        )
    if not _LEGAL_NAME.fullmatch(name):
        raise ControlError(
            ErrorCode.invalid_topic_exception,
            f"topic name {name!r}: only ASCII letters, digits, '.', '_' and '-' are allowed",
        )
    if name == METADATA_TOPIC:
        raise ControlError(ErrorCode.invalid_request, f"{name} is the metadata log's own")


def _check_free(image: ClusterImage, name: str, forms: set[str]) -> None:
    if name in image.topic_ids:
        raise ControlError(ErrorCode.topic_already_exists, f"topic {name} already exists")
    if _collision_form(name) in forms:
        raise ControlError(
            ErrorCode.invalid_topic_exception,
            f"topic {name} collides with a topic whose name differs in '.' and '_' only",
        )


def _collision_form(name: str) -> str:
    """Two names of one form are one name to Kafka's metrics, and may not both exist."""
    return name.replace(".", "_")


def create_topics(
    image: ClusterImage,
    topics: Sequence[NewTopic],
    settings: ControlSettings,
    rng: random.Random,
) -> tuple[list[MetadataRecord], list[TopicAnswer]]:
    """The records that create the topics of one request, and an answer for each name."""
    records: list[MetadataRecord] = []
    answers: list[TopicAnswer] = []
    times_named = Counter(topic.name for topic in topics)
    forms = {_collision_form(name) for name in image.topic_ids}
    budget = MAX_PARTITIONS_PER_REQUEST
    for topic in {topic.name: topic for topic in topics}.values():
        try:
            if times_named[topic.name] > 1:
                raise ControlError(ErrorCode.invalid_request, "the topic is named more than once")
            _check_name(topic.name)
            _check_free(image, topic.name, forms)
            made, answer = _create(image, topic, settings, rng, budget)
        except ControlError as error:
            answers.append(TopicAnswer(name=topic.name, error=error))
            continue
        forms.add(_collision_form(topic.name))
        budget -= answer.partitions
        records += made
        answers.append(answer)
    return records, answers


def _create(
    image: ClusterImage,
    topic: NewTopic,
    settings: ControlSettings,
    rng: random.Random,
    budget: int,
) -> tuple[list[MetadataRecord], TopicAnswer]:
    partitions = settings.default_partitions if topic.partitions == -1 else topic.partitions
    if max(partitions, len(topic.assignments)) > budget:
        raise ControlError(
            ErrorCode.policy_violation,
            f"one request may create at most {MAX_PARTITIONS_PER_REQUEST} partitions",
        )
    if topic.assignments:
        placed = _manual(topic, image)
    else:
        replicas = topic.replication_factor
        replicas = settings.default_replication_factor if replicas == -1 else replicas
        placed = _striped(image, partitions, replicas, rng)
    configs = check_configs(topic.configs)
    topic_id = UUID(int=rng.getrandbits(128), version=4)
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    records += [_partition(image, topic_id, *item) for item in enumerate(placed)]
    answer = TopicAnswer(
        name=topic.name,
        topic_id=topic_id,
        partitions=len(placed),
        replication_factor=len(placed[0]),
        configs=configs,
    )
    return records, answer


def _partition(
    image: ClusterImage, topic_id: UUID, number: int, replicas: tuple[NodeId, ...]
) -> PartitionRecord:
    isr = tuple(node for node in replicas if image.active(node))
    if not isr:
        raise ControlError(
            ErrorCode.invalid_replica_assignment,
            f"partition {number}: all of {list(replicas)} are fenced or shutting down",
        )
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=Epoch(0),
        partition_epoch=0,
        directories=(None,) * len(replicas),
    )


def _striped(
    image: ClusterImage, partitions: int, replicas: int, rng: random.Random
) -> list[tuple[NodeId, ...]]:
    if replicas < 1:
        raise ControlError(
            ErrorCode.invalid_replication_factor, f"replication factor {replicas} is below 1"
        )
    if partitions < 1:
        raise ControlError(ErrorCode.invalid_partitions, f"{partitions} partitions are below 1")
    candidates = [
        Candidate(node_id=broker.node_id, rack=broker.rack)
        for broker in image.brokers.values()
        if broker.active
    ]
    if replicas > len(candidates):
        raise ControlError(
            ErrorCode.invalid_replication_factor,
            f"replication factor {replicas} needs as many unfenced brokers; there are "
            f"{len(candidates)}",
        )
    return striped(candidates, partitions=partitions, replication_factor=replicas, rng=rng)


def _manual(topic: NewTopic, image: ClusterImage) -> list[tuple[NodeId, ...]]:
    if topic.partitions != -1 or topic.replication_factor != -1:
        raise ControlError(
            ErrorCode.invalid_request,
            "with a manual assignment, partitions and replication factor must be -1",
        )
    placed = dict(topic.assignments)
    if sorted(number for number, _ in topic.assignments) != list(range(len(topic.assignments))):
        raise ControlError(
            ErrorCode.invalid_replica_assignment,
            "the assigned partitions must be 0, 1, 2, ... without gap or repetition",
        )
    for number, replicas in sorted(placed.items()):
        where = f"the assignment of partition {number}"
        if not replicas or len(replicas) != len(placed[0]):
            raise ControlError(
                ErrorCode.invalid_replica_assignment,
                f"{where} has {len(replicas)} replicas; all must have equally many, at least one",
            )
        if len(set(replicas)) != len(replicas):
            raise ControlError(
                ErrorCode.invalid_replica_assignment, f"{where} names a broker twice: {replicas}"
            )
        unknown = [node for node in replicas if node not in image.brokers]
        if unknown:
            raise ControlError(
                ErrorCode.invalid_replica_assignment, f"{where} names unknown brokers {unknown}"
            )
    return [placed[number] for number in range(len(placed))]
