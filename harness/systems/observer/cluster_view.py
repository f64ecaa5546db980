"""What the nodes say of the partitions, put together. Pure: answers come in, rows come out.

Every node has its own view of a partition's leader, and after a fault they differ. The newest view
is the one of the highest leader epoch; within an epoch the leader's own word on its ISR counts.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from nodes.ids import TopicPartition


class PartitionView(NamedTuple):
    """A partition as one node sees it."""

    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


def views_of(answer: Any) -> dict[TopicPartition, PartitionView]:
    """The partitions of a Metadata response (any version that has leader epochs)."""
    return {
        TopicPartition(str(topic.name), int(partition.partition_index)): PartitionView(
            leader=int(partition.leader_id) if partition.leader_id >= 0 else None,
            leader_epoch=int(partition.leader_epoch),
            isr=tuple(int(each) for each in partition.isr_nodes),
            replicas=tuple(int(each) for each in partition.replica_nodes),
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def votes_of(partition: Any) -> tuple[int, ...]:
    """The voters that have all that is committed, ascending, by a partition of a DescribeQuorum
    answer: each on the disk that has its vote (KIP-853).
    """
    committed = int(partition.high_watermark)
    return tuple(
        sorted(
            int(voter.replica_id)
            for voter in partition.current_voters
            if 0 <= committed <= voter.log_end_offset
        )
    )


class ClusterTracker:
    """The views of all nodes of one run's partitions, and the newest of each partition.

    Not thread-safe: one thread feeds it; `newest` is replaced, never changed, so that others may
    read it at any time.
    """

    def __init__(self, nodes: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        self.nodes = tuple(sorted(nodes))
        self.partitions = tuple(sorted(partitions))
        self.newest: Mapping[TopicPartition, PartitionView] = {}
        self._views: dict[int, dict[TopicPartition, PartitionView]] = {n: {} for n in self.nodes}
        self._answered_ns: dict[int, int] = {}
        self._excused: frozenset[int] = frozenset()

    def add_node(self, node: int) -> None:
        """From now on this node's view counts too."""
        self.nodes = tuple(sorted({*self.nodes, node}))
        self._views.setdefault(node, {})

    def remove_node(self, node: int) -> None:
        """The node is gone for good: what it says does not count any more."""
        self.nodes = tuple(each for each in self.nodes if each != node)
        self._answered_ns.pop(node, None)

    def excuse(self, node: int) -> None:
        """The node will not run again: neither its answers nor its replicas are waited for."""
        self._excused |= {node}

    def observe(
        self, node: int, seen: Mapping[TopicPartition, PartitionView], at_ns: int
    ) -> list[dict[str, Any]]:
        """Take in what `node` answered at `at_ns`; returns what changed, as rows of CLUSTER."""
        rows = []
        views = self._views[node]
        newest = dict(self.newest)
        for partition in self.partitions:
            view = seen.get(partition)
            if view is None:
                continue
            if views.get(partition) != view:
                views[partition] = view
                rows.append(_row("view", node, partition, view, at_ns))
            if _supersedes(view, newest.get(partition), node):
                newest[partition] = view
                rows.append(_row("leader", None, partition, view, at_ns))
        self.newest = newest
        self._answered_ns[node] = at_ns
        return rows

    def unsettled(self, since_ns: int) -> list[str]:
        """Why the cluster is not settled, in words; empty when it is.

        Settled: every node answered since `since_ns`, all agree on every partition's leader and
        epoch, and every partition's replicas are all in sync; but for nodes that are excused.
        """
        nodes = [node for node in self.nodes if node not in self._excused]
        reasons = [
            f"node {node} does not answer"
            for node in nodes
            if self._answered_ns.get(node, -1) < since_ns
        ]
        for partition in self.partitions:
            newest = self.newest.get(partition)
            if newest is None or newest.leader is None:
                reasons.append(f"{partition} has no leader")
                continue
            if set(newest.isr) | self._excused != set(newest.replicas) | self._excused:
                reasons.append(
                    f"{partition} has in-sync replicas {sorted(newest.isr)} "
                    f"of {sorted(newest.replicas)}"
                )
            behind = [node for node in nodes if self._views[node].get(partition) != newest]
            if behind:
                reasons.append(f"nodes {behind} see {partition} differently")
        return reasons


class Standing:
    """Who answers, and whom the brokers that answer hold to be in service.

    One thread feeds it, any may ask. A broker that is cut off still holds itself to be in service,
    and others too; so the majority of those that answer counts, each with its newest word.
    """

    def __init__(self) -> None:
        self._answers: dict[int, bool] = {}
        self._in_service: Mapping[int, frozenset[int]] = {}

    def heard(self, node: int, brokers: Collection[int] | None) -> None:
        """The node answered; a broker with the brokers that it holds to be in service."""
        self._answers[node] = True
        if brokers is not None:
            self._in_service = {**self._in_service, node: frozenset(brokers)}

    def silent(self, node: int) -> None:
        """The node did not answer; what it said before does not count any more."""
        self._answers[node] = False
        self._in_service = {n: said for n, said in self._in_service.items() if n != node}

    def remove(self, node: int) -> None:
        """The node is gone for good."""
        self.silent(node)
        del self._answers[node]

    def answers(self, node: int) -> bool | None:
        """Whether the node answered when it was last asked."""
        return self._answers.get(node)

    def fenced(self, node: int) -> bool | None:
        """Whether most brokers that answer leave the node out; None when they are at odds."""
        said = [node in brokers for brokers in self._in_service.values()]
        if 2 * said.count(True) == len(said):
            return None
        return 2 * said.count(True) < len(said)


def _supersedes(view: PartitionView, newest: PartitionView | None, node: int) -> bool:
    if newest is None or view.leader_epoch > newest.leader_epoch:
        return True
    return view.leader_epoch == newest.leader_epoch and view != newest and node == view.leader


def _row(
    kind: str, node: int | None, partition: TopicPartition, view: PartitionView, at_ns: int
) -> dict[str, Any]:
    return {
        "at_ns": at_ns,
        "kind": kind,
        "node": node,
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": view.leader,
        "leader_epoch": view.leader_epoch,
        "isr": list(view.isr),
        "source": "polled",
    }


def epoch_starts(answers: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """A partition's epochs as (epoch, start offset, end offset), from OffsetForLeaderEpoch answers.

    `answers` are (epoch, end offset) pairs in any order, one per epoch asked; an epoch that the
    leader does not know is answered with the one before it (or -1), hence the repetitions. An epoch
    begins where the one before it ended.
    """
    ends = dict(sorted((epoch, end) for epoch, end in answers if epoch >= 0))
    rows = []
    start = 0
    for epoch, end in ends.items():
        rows.append((epoch, start, end))
        start = end
    return rows
