"""What must be true in the end: within a bound of virtual time after all faults were healed.

This is liveness; the rest of the package is safety. Each node runs, knows the quorum's leader, is
registered and unfenced. Each partition has a leader and all replicas in sync, everything in its log
is committed, and the replicas' logs and producer states are equal. Each broker compacts its own
log, so compacted logs are equal if they have the same last value of each key; if committed records
were lost with permission, a replica may lack what they had superseded.
"""

import asyncio
from typing import Final

from harness.simulation.invariants.checker import Invariants
from harness.simulation.invariants.compacted_log import folded, read_entries
from harness.simulation.invariants.images import Partition
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.node_checker import NodeChecker
from harness.simulation.invariants.partition_history import NEVER
from harness.simulation.invariants.wall_clock import LONG_MS
from harness.simulation.world.world import SimulationError
from nodes.ids import NO_NODE, NodeId, TopicPartition
from nodes.log.log import Log
from nodes.metadata.image import PartitionImage
from nodes.raft.roles import Role
from nodes.replication.partition import Role as ReplicaRole

LOOK_EVERY_S: Final = 0.1


class NotConverged(SimulationError):
    """The cluster did not converge in time; the message has the first open problem."""


async def converge(invariants: Invariants, within_s: float = 60.0) -> None:
    """Return when everything is as it must be in the end. Raises NotConverged.

    Run this on a host of the world. It checks ten times a second.
    """
    left = round(within_s / LOOK_EVERY_S)
    while problem := unconverged(invariants):
        if not left:
            raise NotConverged(f"not converged within {within_s:g} s: {problem}")
        left -= 1
        await asyncio.sleep(LOOK_EVERY_S)


def unconverged(invariants: Invariants) -> str:
    """Return the first problem that keeps the cluster from convergence; an empty text if there is
    none.
    """
    return _node_problem(invariants) or _partition_problems(invariants)


def _node_problem(invariants: Invariants) -> str:
    node_checkers, layout = invariants.node_checkers, invariants.cluster.layout
    for node in layout.nodes:
        checker = node_checkers.get(node)
        if checker is None or checker.member is None:
            return f"node {node} is not running"
    leaders = {
        node: checker.member.quorum.leader_id
        for node, checker in node_checkers.items()
        if checker.member
    }
    leading = [
        n
        for n, checker in node_checkers.items()
        if checker.member and checker.member.quorum.role is Role.LEADER
    ]
    if len(leading) != 1 or set(leaders.values()) != set(leading):
        return f"the quorum's leaders are {leading}, and the nodes know these leaders: {leaders}"
    for node in layout.brokers:
        for witness, checker in node_checkers.items():
            if not checker.image.active(NodeId(node)):
                return f"node {witness} does not see broker {node} as active"
    return ""


def _partition_problems(invariants: Invariants) -> str:
    images = invariants.images
    for topic_id, topic in images.newest.topics.items():
        for number, image in topic.partitions.items():
            found = images.partitions[topic_id, number]
            name = TopicPartition(topic.name, number)
            problem = _partition_problem(invariants, name, image, found)
            if problem:
                return f"{name}: {problem}"
    return ""


def _partition_problem(
    invariants: Invariants, name: TopicPartition, image: PartitionImage, found: Partition
) -> str:
    if image.leader == NO_NODE:
        return "it has no leader"
    if set(image.isr) != set(image.replicas):
        return f"its ISR is {list(image.isr)} of {list(image.replicas)}"
    hosts = {node: invariants.node_checkers[node] for node in image.replicas}
    logs: dict[NodeId, Log] = {}
    for node, checker in hosts.items():
        replica_checker = checker.replica_checkers.get(name)
        if replica_checker is None:
            return f"node {node} has no replica"
        state, logs[node] = replica_checker.replica.state, replica_checker.replica.log
        leads = state.role is ReplicaRole.LEADER
        if leads != (node == image.leader) or state.leader_epoch != image.leader_epoch:
            return f"node {node} is {state.role.value} in epoch {state.leader_epoch}"
        if leads and state.high_watermark != logs[node].end_offset:
            return f"{state.high_watermark} of {logs[node].end_offset} are committed"
    return _log_difference(image, found, hosts, logs)


def _log_difference(
    image: PartitionImage,
    found: Partition,
    hosts: dict[NodeId, NodeChecker],
    logs: dict[NodeId, Log],
) -> str:
    leader = logs[image.leader]
    for node in hosts:
        if not _same_end(found.copies[node], found.copies[image.leader]):
            return f"node {node}'s log ends with {found.copies[node].last}"
    compacted = found.history.compacted
    if compacted and found.history.reset_epoch != NEVER:
        return ""  # a replica may have compacted for a record that was then lost with permission
    content_of = (_folded if _deletions_stay(leader) else _unknown) if compacted else _content
    content, producers = content_of(leader), _producers(leader, compacted=compacted)
    for node in hosts:
        log = logs[node]
        if log.start_offset == leader.start_offset and content_of(log) != content:
            return f"the logs of nodes {node} and {image.leader} differ"
        # A replica that began behind the start of the log never saw the earlier batches.
        whole = log.start_offset == leader.start_offset == 0
        if whole and _producers(log, compacted=compacted) != producers:
            return f"nodes {node} and {image.leader} have different producer states"
    return ""


def _same_end(one: Copy, other: Copy) -> bool:
    """Whether two logs end alike; retention may have removed every record of one of them."""
    return one.end == other.end and (one.last is other.last or None in (one.last, other.last))


def _folded(log: Log) -> object:
    """Return the last record of each key that has one with a value."""
    return folded(read_entries(log))


def _deletions_stay(log: Log) -> bool:
    config = log.config.compaction
    return config is None or config.delete_retention_ms >= LONG_MS


def _unknown(log: Log) -> object:
    """A replica that lagged may have missed deletions, and ends of transactions, that were
    compacted away meanwhile.
    """
    return None


def _producers(log: Log, *, compacted: bool) -> object:
    """Return what every replica knows of the producers that wrote last.

    Compaction keeps neither times nor the epochs of coordinators. A replica that lagged may have
    forgotten a producer (producer.id.expiration.ms) before it got the producer's last batch; then
    it knows no earlier batch, nor the coordinator of an earlier marker. If it lagged for longer
    than the leader kept the end of a transaction and its producer, the transaction stays open.
    """
    expire = log.config.producer_expiration_ms < LONG_MS
    may_stay_open = compacted and expire and not _deletions_stay(log)
    return {
        producer_id: (
            each.epoch,
            each.transaction_start,
            () if expire else each.batches,
            None if compacted else each.last_timestamp,
            None if compacted or expire else each.coordinator_epoch,
        )
        for producer_id, each in log.producers.items()
        if not (may_stay_open and each.transaction_start >= 0)
    }


def _content(log: Log) -> object:
    """Return the batches from the log's start on; its first segment may begin before."""
    return b"".join(
        segment.file.pread(position, header.size)
        for segment in log._segments.all
        for position, header in segment.scan()
        if header.last_offset >= log.start_offset
    )
