"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455). Pure.

A reassignment is part of the partition's state: `adding` replicas are replicas already, `removing`
ones are still. It begins with one record, goes on in the ISR changes of the partition's leader, and
ends with the ISR change that has all target replicas in it (`nodes.controller.partition_changes`);
one that needs no new replica may end with its first record.

Both sets are counted from the assignment before any reassignment: a new target over one that is
under way, or a cancellation, drops what the old one had added, and "back" is where it began.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.controller.partition_changes import DesiredState, Nodes, change
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.controller.topics import check_assignment
from nodes.ids import NO_NODE
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, PartitionImage, PartitionKey
from nodes.metadata.records import PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """Where a partition is to go; None cancels what is under way."""

    topic: str
    partition: int
    replicas: Nodes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentResult:
    """What became of one Reassignment; `error` is None when it was accepted."""

    request: Reassignment
    error: ControlError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingReassignment:
    """A partition under reassignment."""

    topic: str
    partition: int
    replicas: Nodes
    adding: Nodes
    removing: Nodes


def alter_reassignments(
    state: ControllerState, requests: Sequence[Reassignment], *, allow_factor_change: bool = True
) -> ControllerResult[list[ReassignmentResult]]:
    """Begin, replace or cancel reassignments, each answered for itself, in one batch.

    Without `allow_factor_change` a target must have as many replicas as the partition (KIP-860).
    """
    records: list[PartitionChangeRecord] = []
    answers = []
    changed: dict[PartitionKey, PartitionImage] = {}
    for request in requests:
        try:
            key, found = _find(state.image, request)
            partition = changed.get(key, found)
            record = _alter(state, key, partition, request, allow_factor_change)
        except ControlError as error:
            answers.append(ReassignmentResult(request=request, error=error.kept()))
            continue
        if record is not None:
            records.append(record)
            changed[key] = partition.changed(record)
        answers.append(ReassignmentResult(request=request))
    return ControllerResult(records=records, response=answers)


def _find(image: ClusterImage, request: Reassignment) -> tuple[PartitionKey, PartitionImage]:
    topic = image.topic(request.topic)
    partition = None if topic is None else topic.partitions.get(request.partition)
    if topic is None or partition is None:
        what = "a topic named" if topic is None else "partition"
        name = request.topic if topic is None else f"{request.topic}:{request.partition}"
        raise ControlError(ErrorCode.unknown_topic_or_partition, f"Unable to find {what} {name}.")
    return PartitionKey(topic.topic_id, topic.name, request.partition), partition


def _alter(
    state: ControllerState,
    key: PartitionKey,
    partition: PartitionImage,
    request: Reassignment,
    allow_factor_change: bool,
) -> PartitionChangeRecord | None:
    image = state.image
    origin = tuple(n for n in partition.replicas if n not in partition.adding_replicas)
    if request.replicas is None:
        if not is_reassigning(partition):
            raise ControlError(
                ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress."
            )
        replicas = origin
    else:
        replicas = request.replicas
        check_assignment(image, replicas)
        _check_factor(partition, replicas, allow_factor_change)
    removing = tuple(node for node in origin if node not in replicas)
    target = DesiredState(
        replicas=(*replicas, *removing) if request.replicas is not None else origin,
        adding=tuple(node for node in replicas if node not in origin),
        removing=removing,
    )
    rules = state.policy(key.topic).rules(image.active)
    record = change(key, partition, rules, target)
    if record is not None:
        after = partition.changed(record)
        if partition.leader != NO_NODE and after.leader == NO_NODE:
            raise ControlError(
                ErrorCode.invalid_replica_assignment,
                f"Unable to revert partition assignment for {key.topic}:{key.partition} because "
                "it would require an unclean leader election.",
            )
    return record


def _check_factor(partition: PartitionImage, replicas: Nodes, allowed: bool) -> None:
    now = [node for node in partition.replicas if node not in partition.removing_replicas]
    if not allowed and len(now) != len(replicas):
        raise ControlError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor is changed from {len(now)} to {len(replicas)}",
        )


def is_reassigning(partition: PartitionImage) -> bool:
    """Whether the partition is under reassignment."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def list_reassignments(
    image: ClusterImage, wanted: Mapping[str, Sequence[int]] | None = None
) -> Iterator[OngoingReassignment]:
    """The partitions under reassignment, all or those of the `wanted` that are."""
    for key, partition in image.partitions():
        asked = wanted is None or key.partition in wanted.get(key.topic, ())
        if asked and is_reassigning(partition):
            yield OngoingReassignment(
                topic=key.topic,
                partition=key.partition,
                replicas=partition.replicas,
                adding=partition.adding_replicas,
                removing=partition.removing_replicas,
            )
