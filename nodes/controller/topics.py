"""CreateTopics and CreatePartitions: validation, and placement of the replicas. Pure.

A refusal is a ControlError with Kafka's error code and concerns one topic; the other topics of the
request are created.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.controller.placement import Candidate, place
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.ids import Epoch, NodeId
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, TopicImage
from nodes.metadata.records import (
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from nodes.metadata.topic_configs import TOPIC_CONFIGS, Source, Sourced, check_configs, sources

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""As in Kafka: how many partitions one batch of the metadata log may create."""
MAX_NAME_LENGTH: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")

Assignment = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A requested topic; -1 stands for the cluster's default, and is required with assignments."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, Assignment], ...] = ()
    """(partition, replicas) pairs of a manual placement."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicResult:
    """The result for one topic of a CreateTopics request; `error` is None if it was created."""

    name: str
    error: ControlError | None = None
    topic_id: UUID | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, Sourced] | None = None
    """Every configuration in force for the topic, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """A request that a topic has `count` partitions; `assignments` are for the new partitions."""

    name: str
    count: int
    assignments: tuple[Assignment, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResult:
    """The result for one topic of a CreatePartitions request."""

    name: str
    error: ControlError | None = None


def check_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for a topic name that Kafka does not allow."""
    complaint = None
    if not name:
        complaint = "the empty string is not allowed"
    elif name in (".", ".."):
        complaint = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        complaint = (
            f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        )
    elif not _LEGAL_NAME.fullmatch(name):
        complaint = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    if complaint is not None:
        raise ControlError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {complaint}")


def _check_free(image: ClusterImage, name: str, forms: Mapping[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise ControlError(
            ErrorCode.invalid_request, f"Creation of internal topic {name} is prohibited."
        )
    if name in image.topic_ids:
        raise ControlError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    other = forms.get(_collision_form(name))
    if other is not None:
        raise ControlError(
            ErrorCode.invalid_topic_exception,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _collision_form(name: str) -> str:
    """The form of a name in Kafka's metrics; two topics must not have the same form."""
    return name.replace(".", "_")


def create_topics(
    state: ControllerState, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> ControllerResult[list[CreateTopicResult]]:
    """Create all valid topics in one batch, with a result for each topic.

    With `validate_only` nothing is written; the results are the same.
    """
    records: list[MetadataRecord] = []
    answers: list[CreateTopicResult] = []
    times_named = Counter(topic.name for topic in topics)
    forms = {_collision_form(name): name for name in state.image.topic_ids}
    static = state.settings.static
    defaults = {name: sources(name, state.image, static)[0] for name in TOPIC_CONFIGS}
    budget = MAX_PARTITIONS_PER_REQUEST
    for topic in {topic.name: topic for topic in topics}.values():
        try:
            if times_named[topic.name] > 1:
                raise ControlError(ErrorCode.invalid_request, "Duplicate topic name.")
            check_name(topic.name)
            _check_free(state.image, topic.name, forms)
            made, answer = _create(state, topic, budget, defaults)
        except ControlError as error:
            answers.append(CreateTopicResult(name=topic.name, error=error.kept()))
            continue
        forms[_collision_form(topic.name)] = topic.name
        budget -= answer.partitions
        records += made
        answers.append(answer)
    return ControllerResult(records=() if validate_only else records, response=answers)


def _create(
    state: ControllerState, topic: NewTopic, budget: int, defaults: Mapping[str, Sourced]
) -> tuple[list[MetadataRecord], CreateTopicResult]:
    settings, image = state.settings, state.image
    configs = check_configs(topic.configs)
    count = settings.default_partitions if topic.partitions == -1 else topic.partitions
    _check_budget(max(count, len(topic.assignments)), budget)
    if topic.assignments:
        placed: Sequence[Assignment] = _manual(topic, image)
    else:
        replicas = topic.replication_factor
        if replicas < -1 or replicas == 0:
            raise ControlError(
                ErrorCode.invalid_replication_factor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if count < 1:
            raise ControlError(
                ErrorCode.invalid_partitions,
                "Number of partitions was set to an invalid non-positive value.",
            )
        replicas = settings.default_replication_factor if replicas == -1 else replicas
        placed = _placed(state, count, replicas)
    topic_id = UUID(int=state.rng.getrandbits(128), version=4)
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    records += [_partition(image, topic_id, *item) for item in enumerate(placed)]
    answer = CreateTopicResult(
        name=topic.name,
        topic_id=topic_id,
        partitions=len(placed),
        replication_factor=len(placed[0]),
        configs={
            **defaults,
            **{name: Sourced(name, Source.TOPIC, value) for name, value in configs.items()},
        },
    )
    return records, answer


def _check_budget(partitions: int, budget: int) -> None:
    if partitions > budget:
        raise ControlError(
            ErrorCode.policy_violation,
            "Excessively large number of partitions per request: at most "
            f"{MAX_PARTITIONS_PER_REQUEST} can be created.",
        )


def create_partitions(
    state: ControllerState, topics: Sequence[NewPartitions], *, validate_only: bool = False
) -> ControllerResult[list[CreatePartitionsResult]]:
    """Add partitions to topics: all valid requests in one batch, with a result for each topic."""
    records: list[MetadataRecord] = []
    answers: list[CreatePartitionsResult] = []
    times_named = Counter(topic.name for topic in topics)
    budget = MAX_PARTITIONS_PER_REQUEST
    for topic in {topic.name: topic for topic in topics}.values():
        try:
            if times_named[topic.name] > 1:
                raise ControlError(ErrorCode.invalid_request, "Duplicate topic name.")
            made = _grow(state, topic, budget)
        except ControlError as error:
            answers.append(CreatePartitionsResult(name=topic.name, error=error.kept()))
            continue
        budget -= len(made)
        records += made
        answers.append(CreatePartitionsResult(name=topic.name))
    return ControllerResult(records=() if validate_only else records, response=answers)


def _grow(state: ControllerState, more: NewPartitions, budget: int) -> list[PartitionRecord]:
    image = state.image
    topic = image.topic(more.name)
    if topic is None:
        raise ControlError(
            ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    have = len(topic.partitions)
    if more.count <= have:
        message = (
            f"Topic already has {have} partition(s)."
            if more.count == have
            else f"The topic {more.name} currently has {have} partition(s); {more.count} would not "
            "be an increase."
        )
        raise ControlError(ErrorCode.invalid_partitions, message)
    count = more.count - have
    _check_budget(count, budget)
    placed = _placed_more(state, topic, count, more.assignments)
    return [_partition(image, topic.topic_id, have + i, each) for i, each in enumerate(placed)]


def _placed_more(
    state: ControllerState, topic: TopicImage, count: int, wanted: Sequence[Assignment] | None
) -> Sequence[Assignment]:
    replicas = len(topic.partitions[0].replicas)
    if wanted is None:
        return _placed(state, count, replicas, first=len(topic.partitions))
    if len(wanted) != count:
        raise ControlError(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {count} additional partition(s), but only {len(wanted)} "
            "assignment(s) were specified.",
        )
    for assignment in wanted:
        check_assignment(state.image, assignment, replicas)
    return wanted


def _partition(
    image: ClusterImage, topic_id: UUID, number: int, replicas: Assignment
) -> PartitionRecord:
    isr = tuple(node for node in replicas if image.active(node))
    if not isr:
        raise ControlError(
            ErrorCode.invalid_replica_assignment,
            f"All brokers specified in the manual partition assignment for partition {number} are "
            "fenced or in controlled shutdown.",
        )
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=Epoch(0),
        partition_epoch=0,
        directories=tuple(map(image.only_directory, replicas)),
    )


def _placed(
    state: ControllerState, count: int, replicas: int, *, first: int = 0
) -> Sequence[Assignment]:
    """Assignments of `count` partitions, numbered from `first`, by the configured placement.

    A broker that is shutting down counts as fenced: it is used only if the others do not suffice.
    """
    candidates = [
        Candidate(node_id=broker.node_id, rack=broker.rack, fenced=not broker.active)
        for broker in state.image.brokers.values()
    ]
    try:
        return place(
            state.settings.placement,
            candidates,
            partitions=count,
            replication_factor=replicas,
            first=first,
            rng=state.rng,
        )
    except ValueError as error:
        raise ControlError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {replicas} time(s): {error}",
        ) from error


def check_assignment(image: ClusterImage, replicas: Assignment, count: int | None = None) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless `replicas` are registered, distinct, and `count`."""
    complaint = None
    repeated = sorted(node for node, times in Counter(replicas).items() if times > 1)
    unknown = [node for node in sorted(set(replicas)) if node not in image.brokers]
    if not replicas:
        complaint = "an empty replica list."
    elif unknown:
        complaint = f"broker {unknown[0]}, but no such broker is registered."
    elif repeated:
        complaint = f"the broker {repeated[0]} more than once."
    elif count is not None and len(replicas) != count:
        complaint = (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {count} replica(s)."
        )
    if complaint is not None:
        raise ControlError(
            ErrorCode.invalid_replica_assignment,
            f"The manual partition assignment includes {complaint}",
        )


def _manual(topic: NewTopic, image: ClusterImage) -> list[Assignment]:
    for value, what in (
        (topic.replication_factor, "replication factor"),
        (topic.partitions, "numPartitions"),
    ):
        if value != -1:
            raise ControlError(
                ErrorCode.invalid_request,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    placed: dict[int, Assignment] = {}
    for number, replicas in topic.assignments:
        if number in placed:
            raise ControlError(
                ErrorCode.invalid_replica_assignment,
                f"Found multiple manual partition assignments for partition {number}",
            )
        first = next(iter(placed.values()), replicas)
        check_assignment(image, replicas, len(first))
        placed[number] = replicas
    if sorted(placed) != list(range(len(placed))):
        raise ControlError(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [placed[number] for number in range(len(placed))]
