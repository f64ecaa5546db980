"""Unclean recovery: the log ends of a leaderless partition's replicas decide its leader. Pure.

This is KIP-966's second part. If a clean election has no candidate, the replica with the longest
log becomes the leader (`nodes.controller.partition_changes` says which logs decide, and when). This
module decides which logs to query, and which responses are valid. The caller sends
GetReplicaLogInfo to the brokers and passes their responses. A response is valid only if nothing can
have changed since:

- its broker is still in service, in the incarnation that responded (same broker epoch);
- the broker knew that the partition is leaderless (it knew the leader epoch of that change), so
  that its log neither grows nor is truncated before an election;
- the partition has not changed since the query (same partition epoch).

A partition that cannot be elected for lack of responses is queried again. No state is kept: another
controller starts anew.
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
    """A query for the logs of a leaderless partition's candidates."""

    key: PartitionKey
    partition_epoch: int
    candidates: Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLogInfo:
    """One broker's report of its log of one partition."""

    node: NodeId
    broker_epoch: BrokerEpoch
    topic_id: UUID
    partition: int
    leader_epoch: Epoch
    """The newest leader epoch that the broker knows."""
    end: LogEnd


def log_queries(
    image: ClusterImage,
    policy: PolicyOf,
    partitions: Iterable[PartitionKey],
    asked: Election | None = None,
) -> list[LogQuery]:
    """The queries needed to elect leaders for the leaderless ones of `partitions`, by the election
    that was `asked`, or else that the topic allows.
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
    """The log ends by partition and replica, from the valid reports."""
    wanted = {(each.key.topic_id, each.key.partition): each for each in asked}
    logs: dict[PartitionKey, dict[NodeId, LogEnd]] = {}
    for report in reports:
        query = wanted.get((report.topic_id, report.partition))
        if query is not None and _is_valid(image, query, report):
            logs.setdefault(query.key, {})[report.node] = report.end
    return logs


def _is_valid(image: ClusterImage, query: LogQuery, report: ReplicaLogInfo) -> bool:
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
    """Elect leaders if the valid reports suffice; the response is the number of elections."""
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
