"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455). Pure.

A reassignment is part of the partition's state: `adding` replicas are replicas already, `removing`
replicas are replicas still. One record begins it. It ends with the ISR change that contains all
wanted replicas (`nodes.controller.partition_changes`); without new replicas it may end with its
first record.

Both sets are relative to the assignment before any reassignment. A new reassignment during another
one, or a cancellation, removes the replicas that the other one had added. It is refused if these
alone may have what was committed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.controller.partition_changes import DesiredState, Election, Nodes, Rules, change
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.controller.topics import check_assignment
from nodes.ids import NO_NODE
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, PartitionImage, PartitionKey
from nodes.metadata.records import PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """The wanted replicas of a partition; None cancels its reassignment."""

    topic: str
    partition: int
    replicas: Nodes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentResult:
    """The result of one Reassignment; `error` is None if it was accepted."""

    request: Reassignment
    error: ControlError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingReassignment:
    """A partition that is being reassigned."""

    topic: str
    partition: int
    replicas: Nodes
    adding: Nodes
    removing: Nodes


def alter_reassignments(
    state: ControllerState, requests: Sequence[Reassignment], *, allow_factor_change: bool = True
) -> ControllerResult[list[ReassignmentResult]]:
    """Begin, replace or cancel reassignments in one batch, with a result for each.

    Without `allow_factor_change` the number of replicas must stay the same (KIP-860).
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
        directories={n: image.only_directory(n) for n in replicas if n not in partition.replicas},
    )
    rules = state.policy(key.topic).rules(image.active)
    record = change(key, partition, rules, target)
    if record is not None:
        after = partition.changed(record)
        leaderless = partition.leader != NO_NODE and after.leader == NO_NODE
        if leaderless or _drops_what_is_committed(partition, after.replicas, rules):
            raise ControlError(
                ErrorCode.invalid_replica_assignment,
                f"Unable to revert partition assignment for {key.topic}:{key.partition} because "
                "it would require an unclean leader election.",
            )
    return record


def _drops_what_is_committed(partition: PartitionImage, replicas: Nodes, rules: Rules) -> bool:
    """Whether committed records may have no replica left. A topic that allows unclean elections
    allows that.

    An in-sync or eligible replica has all of them. If there is none, any of the last known may.
    """
    if rules.election is Election.UNCLEAN:
        return False
    able = {*partition.isr, *partition.elr}
    if able:
        return able.isdisjoint(replicas)
    return not set(partition.last_known_elr) <= set(replicas)


def _check_factor(partition: PartitionImage, replicas: Nodes, allowed: bool) -> None:
    now = [node for node in partition.replicas if node not in partition.removing_replicas]
    if not allowed and len(now) != len(replicas):
        raise ControlError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor is changed from {len(now)} to {len(replicas)}",
        )


def is_reassigning(partition: PartitionImage) -> bool:
    """Whether the partition is being reassigned."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def list_reassignments(
    image: ClusterImage, wanted: Mapping[str, Sequence[int]] | None = None
) -> Iterator[OngoingReassignment]:
    """The partitions that are being reassigned: all, or those among `wanted`."""
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
