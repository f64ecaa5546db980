"""AlterPartition: a partition's leader changes the ISR. Pure.

The leader proposes the whole new ISR with the leader epoch and partition epoch that it knows, and
the broker epoch of every member (KIP-903: a follower that restarted after the leader saw its fetch
is not the replica that was in sync). The proposal may also end a recovery from an unclean election.
A refusal for the epoch or the state of a member makes other copies of the proposal stale.
`nodes.controller.partition_changes` decides the consequences (eligible leaders, the end of a
reassignment). If the end of a reassignment changes the leader, the result is NEW_LEADER_ELECTED
although the change was made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.controller.elections import PolicyOf
from nodes.controller.partition_changes import RENEWED, UNCHANGED, DesiredState, change
from nodes.ids import BrokerEpoch, Epoch, NodeId
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, PartitionImage, PartitionKey
from nodes.metadata.records import RECOVERED, RECOVERING, PartitionChangeRecord

ANY_BROKER_EPOCH: Final = BrokerEpoch(-1)
"""A member's broker epoch if the leader does not know it; it is not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterIsrRequest:
    """The ISR that a leader wants for one partition."""

    topic_id: UUID | None
    partition: int
    leader_epoch: Epoch
    partition_epoch: int
    isr: tuple[tuple[NodeId, BrokerEpoch], ...]
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterIsrResult:
    """One partition's result: its state after the change, or the error."""

    request: AlterIsrRequest
    partition: PartitionImage | None = None
    error: ControlError | None = None


def alter_isr(
    image: ClusterImage,
    leader: NodeId,
    requests: Sequence[AlterIsrRequest],
    policy: PolicyOf,
    *,
    knows_minimum: bool,
) -> tuple[list[PartitionChangeRecord], list[AlterIsrResult]]:
    """The records to write, and the results in the order of the requests.

    `leader` is the requesting broker; it is alive and has the current broker epoch. A proposal of
    the present members returns the present state and writes nothing.

    `knows_minimum`: whether the leader knows the present min.insync.replicas. If not, a replica
    that leaves the ISR does not become eligible. The leader may apply the smaller ISR before it
    reads of a higher minimum, and would then commit records that an eligible replica lacks.
    """
    records: list[PartitionChangeRecord] = []
    answers: list[AlterIsrResult] = []
    changed: dict[PartitionKey, PartitionImage] = {}
    for request in requests:
        refusal: ControlError | None = None
        try:
            key, found = _find(image, request)
            partition = changed.get(key, found)
            _check_epochs(partition, leader, request)
        except ControlError as error:
            answers.append(AlterIsrResult(request=request, error=error.kept()))
            continue
        try:
            _check_members(image, partition, request)
            target = _target(partition, request, knows_minimum)
        except ControlError as error:
            refusal, target = error.kept(), _after_refusal(error)
        record = change(key, partition, policy(key.topic).rules(image.active), target)
        if record is not None:
            partition = changed[key] = partition.changed(record)
            records.append(record)
        if refusal is None:
            answers.append(_answer(request, partition, leader))
        else:
            answers.append(AlterIsrResult(request=request, error=refusal))
    return records, answers


def _after_refusal(error: ControlError) -> DesiredState:
    """What a refused proposal changes: if a member is not eligible now, the partition epoch.

    The leader then commits without that member. An earlier copy of the proposal may still be on its
    way, and the member eligible again when it arrives.
    """
    return RENEWED if error.code is ErrorCode.ineligible_replica else UNCHANGED


def _target(
    partition: PartitionImage, request: AlterIsrRequest, knows_minimum: bool
) -> DesiredState:
    """The desired state; the present members in another order are not written again."""
    members = tuple(node for node, _ in request.isr)
    left = tuple(node for node in partition.isr if node not in members)
    same = not left and len(members) == len(partition.isr)
    return DesiredState(
        isr=None if same else members,
        leader_recovery_state=request.leader_recovery_state,
        lost=() if knows_minimum else left,
    )


def _answer(request: AlterIsrRequest, partition: PartitionImage, leader: NodeId) -> AlterIsrResult:
    if partition.leader == leader:
        return AlterIsrResult(request=request, partition=partition)
    error = ControlError(
        ErrorCode.new_leader_elected,
        f"the change completed a reassignment and made {partition.leader} the leader",
    )
    return AlterIsrResult(request=request, error=error)


def _find(image: ClusterImage, request: AlterIsrRequest) -> tuple[PartitionKey, PartitionImage]:
    topic = None if request.topic_id is None else image.topics.get(request.topic_id)
    if topic is None:
        raise ControlError(ErrorCode.unknown_topic_id, f"no topic has id {request.topic_id}")
    partition = topic.partitions.get(request.partition)
    if partition is None:
        raise ControlError(
            ErrorCode.unknown_topic_or_partition, f"{topic.name}-{request.partition} is unknown"
        )
    return PartitionKey(topic.topic_id, topic.name, request.partition), partition


def _check_epochs(partition: PartitionImage, leader: NodeId, request: AlterIsrRequest) -> None:
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


def _check_members(
    image: ClusterImage, partition: PartitionImage, request: AlterIsrRequest
) -> None:
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
