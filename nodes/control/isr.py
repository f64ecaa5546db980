"""AlterPartition: what a partition's leader may do to its ISR. Pure.

The leader proposes the whole new ISR under the leader epoch and partition epoch that it knows, with
the broker epoch of every member (KIP-903: a follower that restarted since the leader saw it fetch
is not the replica that was in sync). Nothing but the ISR changes by it, and the end of a recovery
from an unclean election; the leader epoch stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.control.errors import ControlError
from nodes.control.image import ClusterImage, PartitionImage
from nodes.control.records import (
    RECOVERED,
    RECOVERING,
    RECOVERY_STATE_UNCHANGED,
    PartitionChangeRecord,
)
from nodes.ids import BrokerEpoch, Epoch, NodeId

ANY_BROKER_EPOCH: Final = BrokerEpoch(-1)
"""A member's broker epoch that the leader does not know: not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRequest:
    """The ISR that a leader wants for one partition."""

    topic_id: UUID | None
    partition: int
    leader_epoch: Epoch
    partition_epoch: int
    isr: tuple[tuple[NodeId, BrokerEpoch], ...]
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAnswer:
    """One partition's answer: its state after the change, or why there was none."""

    request: IsrRequest
    partition: PartitionImage | None = None
    error: ControlError | None = None


def alter_isr(
    image: ClusterImage, leader: NodeId, requests: Sequence[IsrRequest]
) -> tuple[list[PartitionChangeRecord], list[IsrAnswer]]:
    """The changes to write and the answers, in the order of the requests.

    `leader` is the broker that asks, known to be alive and of the current broker epoch. An ISR
    with the members it has already is answered with the state as it is, and writes nothing.
    """
    records: list[PartitionChangeRecord] = []
    answers: list[IsrAnswer] = []
    changed: dict[tuple[UUID | None, int], PartitionImage] = {}
    for request in requests:
        key = (request.topic_id, request.partition)
        try:
            partition = changed.get(key) or _find(image, request)
            _check_epochs(partition, leader, request)
            _check_members(image, partition, request)
        except ControlError as error:
            answers.append(IsrAnswer(request=request, error=error))
            continue
        record = _record(partition, request)
        if record is not None:
            partition = changed[key] = partition.changed(record)
            records.append(record)
        answers.append(IsrAnswer(request=request, partition=partition))
    return records, answers


def _find(image: ClusterImage, request: IsrRequest) -> PartitionImage:
    topic = None if request.topic_id is None else image.topics.get(request.topic_id)
    if topic is None:
        raise ControlError(ErrorCode.unknown_topic_id, f"no topic has id {request.topic_id}")
    partition = topic.partitions.get(request.partition)
    if partition is None:
        raise ControlError(
            ErrorCode.unknown_topic_or_partition, f"{topic.name}-{request.partition} is unknown"
        )
    return partition


def _check_epochs(partition: PartitionImage, leader: NodeId, request: IsrRequest) -> None:
    leader_epoch, partition_epoch = partition.leader_epoch, partition.partition_epoch
    if request.leader_epoch > leader_epoch or request.partition_epoch > partition_epoch:
        raise ControlError(
            ErrorCode.not_controller,
            "the request knows a newer leader or partition epoch than this controller",
        )
    if request.leader_epoch < leader_epoch:
        raise ControlError(
            ErrorCode.fenced_leader_epoch,
            f"the leader epoch is {leader_epoch}, not {request.leader_epoch}",
        )
    if leader != partition.leader:
        raise ControlError(
            ErrorCode.invalid_request, f"the leader is {partition.leader}, not {leader}"
        )
    if request.partition_epoch < partition_epoch:
        raise ControlError(
            ErrorCode.invalid_update_version,
            f"the partition epoch is {partition_epoch}, not {request.partition_epoch}",
        )


def _check_members(image: ClusterImage, partition: PartitionImage, request: IsrRequest) -> None:
    members = [node for node, _ in request.isr]
    if len(set(members)) != len(members) or not set(members) <= set(partition.replicas):
        raise ControlError(
            ErrorCode.invalid_request,
            f"ISR {members} must be distinct members of the replicas {list(partition.replicas)}",
        )
    if partition.leader not in members:
        raise ControlError(
            ErrorCode.invalid_request, f"ISR {members} lacks the leader {partition.leader}"
        )
    if request.leader_recovery_state == RECOVERING and (
        len(members) > 1 or partition.leader_recovery_state == RECOVERED
    ):
        raise ControlError(
            ErrorCode.invalid_request,
            "a leader that recovers from an unclean election is alone in the ISR until it has, "
            "and none begins to recover by itself",
        )
    for node, epoch in request.isr:
        broker = image.brokers.get(node)
        if broker is None or not broker.active or epoch not in (ANY_BROKER_EPOCH, broker.epoch):
            raise ControlError(
                ErrorCode.ineligible_replica,
                f"broker {node} of epoch {epoch} may not join: it is "
                + ("unknown" if broker is None else _why_not(broker.fenced, broker.epoch, epoch)),
            )


def _why_not(fenced: bool, current: BrokerEpoch, asked: BrokerEpoch) -> str:
    if asked not in (ANY_BROKER_EPOCH, current):
        return f"of epoch {current} now"
    return "fenced" if fenced else "shutting down"


def _record(partition: PartitionImage, request: IsrRequest) -> PartitionChangeRecord | None:
    members = tuple(node for node, _ in request.isr)
    same_isr = set(members) == set(partition.isr)
    same_recovery = request.leader_recovery_state == partition.leader_recovery_state
    if same_isr and same_recovery:
        return None
    assert request.topic_id is not None
    return PartitionChangeRecord(
        topic_id=request.topic_id,
        partition_id=request.partition,
        isr=None if same_isr else members,
        leader_recovery_state=(
            RECOVERY_STATE_UNCHANGED if same_recovery else request.leader_recovery_state
        ),
    )
