"""What must be true in the end: within a bound of virtual time after everything was healed.

Liveness, where the rest of the package is safety: every node runs, knows the quorum's leader, is
registered and unfenced; every partition has a leader and all its replicas in sync, everything in
its log is committed, and the replicas' logs are equal to the byte, and so is what they remember of
producers.
"""

import asyncio
from typing import Final

from harness.simulation.invariants.checker import Eye, Invariants
from harness.simulation.invariants.images import Partition
from harness.simulation.world.world import SimulationError
from nodes.ids import NO_NODE, NodeId, TopicPartition
from nodes.log.log import Log
from nodes.metadata.image import PartitionImage
from nodes.raft.roles import Role
from nodes.replication.partition import Role as ReplicaRole

LOOK_EVERY_S: Final = 0.1


class NotConverged(SimulationError):
    """The cluster did not come to rest in time; the message says what was still open."""


async def converge(invariants: Invariants, within_s: float = 60.0) -> None:
    """Return when everything is as it must be in the end. Raises NotConverged.

    To be run on a host of the world; looks ten times a second.
    """
    left = round(within_s / LOOK_EVERY_S)
    while open_matter := open_matters(invariants):
        if not left:
            raise NotConverged(f"{within_s:g} s were not enough: {open_matter}")
        left -= 1
        await asyncio.sleep(LOOK_EVERY_S)


def open_matters(invariants: Invariants) -> str:
    """What is not as it must be in the end, the first thing found; empty if nothing."""
    return _of_nodes(invariants) or _of_partitions(invariants)


def _of_nodes(invariants: Invariants) -> str:
    eyes, layout = invariants.eyes, invariants.cluster.layout
    for node in layout.nodes:
        eye = eyes.get(node)
        if eye is None or eye.member is None:
            return f"node {node} does not run"
    leaders = {node: eye.member.quorum.leader_id for node, eye in eyes.items() if eye.member}
    leading = [n for n, eye in eyes.items() if eye.member and eye.member.quorum.role is Role.LEADER]
    if len(leading) != 1 or set(leaders.values()) != set(leading):
        return f"the quorum is led by {leading}, and the nodes believe by {leaders}"
    for node in layout.brokers:
        for witness, eye in eyes.items():
            if not eye.image.active(NodeId(node)):
                return f"node {witness} does not know broker {node} as active"
    return ""


def _of_partitions(invariants: Invariants) -> str:
    images = invariants.images
    for topic_id, topic in images.newest.topics.items():
        for number, image in topic.partitions.items():
            found = images.partitions[topic_id, number]
            name = TopicPartition(topic.name, number)
            matter = _of_partition(invariants, name, image, found)
            if matter:
                return f"{name}: {matter}"
    return ""


def _of_partition(
    invariants: Invariants, name: TopicPartition, image: PartitionImage, found: Partition
) -> str:
    if image.leader == NO_NODE:
        return "it has no leader"
    if set(image.isr) != set(image.replicas):
        return f"its ISR is {list(image.isr)} of {list(image.replicas)}"
    hosts = {node: invariants.eyes[node] for node in image.replicas}
    logs: dict[NodeId, Log] = {}
    for node, eye in hosts.items():
        watched = eye.watched.get(name)
        if watched is None:
            return f"node {node} has no replica"
        state, logs[node] = watched.replica.state, watched.replica.log
        leads = state.role is ReplicaRole.LEADER
        if leads != (node == image.leader) or state.leader_epoch != image.leader_epoch:
            return f"node {node} is {state.role.value} in epoch {state.leader_epoch}"
        if leads and state.high_watermark != logs[node].end_offset:
            return f"{state.high_watermark} of {logs[node].end_offset} are committed"
    return _differing(image, found, hosts, logs)


def _differing(
    image: PartitionImage,
    found: Partition,
    hosts: dict[NodeId, Eye],
    logs: dict[NodeId, Log],
) -> str:
    leader = logs[image.leader]
    content, producers = _content(leader), dict(leader.producers.items())
    for node in hosts:
        log = logs[node]
        if found.copies[node].last is not found.copies[image.leader].last:
            return f"node {node}'s log ends with {found.copies[node].last}"
        if log.start_offset == leader.start_offset and _content(log) != content:
            return f"the logs of nodes {node} and {image.leader} differ"
        if dict(log.producers.items()) != producers:
            return f"nodes {node} and {image.leader} remember other things of producers"
    return ""


def _content(log: Log) -> bytes:
    return b"".join(segment.file.pread(0, segment.size) for segment in log._segments.all)
