"""Unclean recovery: the replicas of a leaderless partition are asked for their logs. Pure.

KIP-966's second part. Where a clean election has no candidate left, the one with the longest log
leads (`nodes.controller.partition_changes` says whose logs decide, and when). Here is what to ask,
and
what an answer is worth: the controller's shell asks the brokers (GetReplicaLogInfo) and hands in
what they said. An answer counts only if nothing can have changed since it was given:

- its broker is in service still, in the incarnation that answered (the broker epoch says which);
- the broker had heard that the partition is leaderless: it knew the leader epoch that began with
  that, so that nobody appends to its log, or cuts it, before somebody is elected;
- the partition is as it was when the question was asked (the partition epoch).

What is not elected for want of answers is asked again. Nothing is kept: another controller begins
anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from nodes.controller.elections import PolicyOf
from nodes.controller.partition_changes import Election, LogEnd, Nodes, candidates, change
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.ids import BrokerEpoch, Epoch, NodeId
from nodes.metadata.image import ClusterImage, PartitionImage, PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Whose logs of a leaderless partition are to be compared."""

    key: PartitionKey
    partition_epoch: int
    candidates: Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLogInfo:
    """What one broker says of its log of one partition."""

    node: NodeId
    broker_epoch: BrokerEpoch
    topic_id: UUID
    partition: int
    leader_epoch: Epoch
    """The newest that the broker has heard of."""
    end: LogEnd


def log_queries(
    image: ClusterImage,
    policy: PolicyOf,
    partitions: Iterable[PartitionKey],
    asked: Election | None = None,
) -> list[LogQuery]:
    """What to ask for the leaders that the leaderless ones of `partitions` can have now: as their
    topics allow, or as it was `asked`.
    """
    found = []
    for key in partitions:
        partition = _partition(image, key)
        if partition is None:
            continue
        able = candidates(partition, policy(key.topic).rules(image.active, asked))
        if able:
            epoch = partition.partition_epoch
            found.append(LogQuery(key=key, partition_epoch=epoch, candidates=able))
    return found


def logs_of_valid_reports(
    image: ClusterImage, asked: Sequence[LogQuery], reports: Iterable[ReplicaLogInfo]
) -> dict[PartitionKey, dict[NodeId, LogEnd]]:
    """The logs, by partition and replica, according to those of the reports that count."""
    wanted = {(each.key.topic_id, each.key.partition): each for each in asked}
    logs: dict[PartitionKey, dict[NodeId, LogEnd]] = {}
    for report in reports:
        query = wanted.get((report.topic_id, report.partition))
        if query is not None and _counts(image, query, report):
            logs.setdefault(query.key, {})[report.node] = report.end
    return logs


def _counts(image: ClusterImage, query: LogQuery, report: ReplicaLogInfo) -> bool:
    partition = _partition(image, query.key)
    broker = image.brokers.get(report.node)
    return (
        partition is not None
        and partition.partition_epoch == query.partition_epoch
        and partition.leader_epoch == report.leader_epoch
        and broker is not None
        and broker.active
        and broker.epoch == report.broker_epoch
    )


def recover(
    state: ControllerState, asked: Sequence[LogQuery], reports: Iterable[ReplicaLogInfo]
) -> ControllerResult[int]:
    """Elect where the logs_of_valid_reports reports suffice; the answer is how many partitions that
    is.
    """
    image, policy = state.image, state.policy
    records = []
    for key, logs in logs_of_valid_reports(image, asked, reports).items():
        rules = policy(key.topic).rules(image.active)
        record = change(
            key, image.topics[key.topic_id].partitions[key.partition], rules._replace(logs=logs)
        )
        if record is not None:
            records.append(record)
    return ControllerResult(records=records, response=len(records), atomic=False)


def _partition(image: ClusterImage, key: PartitionKey) -> PartitionImage | None:
    topic = image.topics.get(key.topic_id)
    return None if topic is None else topic.partitions.get(key.partition)
