"""Combines the nodes' views of the partitions. Pure: answers come in, rows come out.

Every node has its own view of a partition's leader, and after a fault the views differ. The newest
view is the one with the highest leader epoch. Within an epoch the leader's own view of the ISR
counts.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from nodes.ids import TopicPartition


class PartitionView(NamedTuple):
    """One node's view of a partition."""

    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


def views_of(answer: Any) -> dict[TopicPartition, PartitionView]:
    """Return the partitions of a Metadata response (of any version with leader epochs)."""
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


def caught_up_voters(partition: Any) -> tuple[int, ...]:
    """Return the voters that have all committed records, ascending, by a partition of a
    DescribeQuorum response. A voter counts on the disk that has its vote (KIP-853).
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
    """The views that all nodes have of one run's partitions, and the newest view of each.

    Not thread-safe: only one thread may change it. `newest` is replaced, never changed, so that
    other threads may read it at any time.
    """

    def __init__(self, nodes: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        self.nodes = tuple(sorted(nodes))
        self.partitions = tuple(sorted(partitions))
        self.newest: Mapping[TopicPartition, PartitionView] = {}
        self._views: dict[int, dict[TopicPartition, PartitionView]] = {n: {} for n in self.nodes}
        self._answered_ns: dict[int, int] = {}
        self._ignored: frozenset[int] = frozenset()
        self._is_decided = False
        """Whether the control plane itself says who leads, as the znodes do."""

    def watch(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep the views of these partitions from now on, and of no others."""
        self.partitions = tuple(sorted(partitions))
        kept = frozenset(self.partitions)
        self.newest = {at: view for at, view in self.newest.items() if at in kept}

    def add_node(self, node: int) -> None:
        """Use this node's view from now on."""
        self.nodes = tuple(sorted({*self.nodes, node}))
        self._views.setdefault(node, {})

    def remove_node(self, node: int) -> None:
        """Ignore this node's view from now on: it is removed for good."""
        self.nodes = tuple(each for each in self.nodes if each != node)
        self._answered_ns.pop(node, None)

    def stop_waiting_for(self, node: int) -> None:
        """Wait neither for the node's answers nor for its replicas: it will not run again."""
        self._ignored |= {node}

    def observe(
        self, node: int, seen: Mapping[TopicPartition, PartitionView], at_ns: int
    ) -> list[dict[str, Any]]:
        """Add the answer of `node` at `at_ns`; return what changed, as rows of CLUSTER."""
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
            if _supersedes(view, newest.get(partition), None if self._is_decided else node):
                newest[partition] = view
                rows.append(_row("leader", None, partition, view, at_ns))
        self.newest = newest
        self._answered_ns[node] = at_ns
        return rows

    def decide(
        self, decided: Mapping[TopicPartition, PartitionView], at_ns: int
    ) -> list[dict[str, Any]]:
        """Add what the control plane itself has at `at_ns`; return what changed, as rows of
        CLUSTER.

        From then on the views of nodes count only for higher epochs.
        """
        self._is_decided = self._is_decided or bool(decided)
        newest, rows = dict(self.newest), []
        for partition in self.partitions:
            view, known = decided.get(partition), newest.get(partition)
            if view is None or view == known:
                continue
            if known is None or view.leader_epoch >= known.leader_epoch:
                newest[partition] = view
                rows.append(_row("leader", None, partition, view, at_ns))
        self.newest = newest
        return rows

    def unsettled(self, since_ns: int) -> list[str]:
        """Return why the cluster is not settled, in words; empty when it is.

        Settled means: every node answered since `since_ns`, all nodes agree on every partition's
        leader and epoch, and all replicas are in sync. Ignored nodes do not count.
        """
        nodes = [node for node in self.nodes if node not in self._ignored]
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
            if set(newest.isr) | self._ignored != set(newest.replicas) | self._ignored:
                reasons.append(
                    f"{partition} has in-sync replicas {sorted(newest.isr)} "
                    f"of {sorted(newest.replicas)}"
                )
            behind = [node for node in nodes if self._views[node].get(partition) != newest]
            if behind:
                reasons.append(f"nodes {behind} see {partition} differently")
        return reasons


class NodeStatus:
    """Which nodes answer, and which brokers are in service in the view of the brokers that answer.

    One thread changes it, and any thread may read it. An isolated broker still regards itself and
    others as in service. So the majority of the answering brokers decides, by their newest answers.
    """

    def __init__(self) -> None:
        self._answers: dict[int, bool] = {}
        self._in_service: Mapping[int, frozenset[int]] = {}

    def answered(self, node: int, brokers: Collection[int] | None) -> None:
        """Note that the node answered; `brokers` are in service in the view of a broker."""
        self._answers[node] = True
        if brokers is not None:
            self._in_service = {**self._in_service, node: frozenset(brokers)}

    def did_not_answer(self, node: int) -> None:
        """Note that the node did not answer; its earlier answers do not count any more."""
        self._answers[node] = False
        self._in_service = {n: view for n, view in self._in_service.items() if n != node}

    def remove(self, node: int) -> None:
        """Remove a node for good."""
        self.did_not_answer(node)
        del self._answers[node]

    def answers(self, node: int) -> bool | None:
        """Return whether the node answered when it was last asked."""
        return self._answers.get(node)

    def fenced(self, node: int) -> bool | None:
        """Return whether most answering brokers regard the node as fenced; None for a tie."""
        in_service = [node in brokers for brokers in self._in_service.values()]
        if 2 * in_service.count(True) == len(in_service):
            return None
        return 2 * in_service.count(True) < len(in_service)


def _supersedes(view: PartitionView, newest: PartitionView | None, node: int | None) -> bool:
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
    """Return a partition's epochs as (epoch, start offset, end offset), ascending.

    `answers` are (epoch, end offset) pairs of OffsetForLeaderEpoch in any order, one per requested
    epoch. For an epoch that the leader does not know, it answers with the epoch before (or -1), so
    epochs may be repeated. An epoch begins where the one before it ended.
    """
    ends = dict(sorted((epoch, end) for epoch, end in answers if epoch >= 0))
    rows = []
    start = 0
    for epoch, end in ends.items():
        rows.append((epoch, start, end))
        start = end
    return rows
