"""The evidence of a run, counted, and how missing evidence is named."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from checkers.frames.frames import Frames
from checkers.history.history import TP
from checkers.history.plan_file import planned_partitions, topics_of_producers
from checkers.history.recorded_faults import read_fault

NAMED: Final = 5
"""How many missing items a sentence names."""

Partition = tuple[str, int | None]


class Collected:
    """The rows of a run, counted; small, however long the run was."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.plan = frames.plan
        self.run = frames.sources.run_file

    @cached_property
    def counts(self) -> Sequence[Mapping[str, Any]]:
        """The rows of `Frames.row_counts`, in their own order."""
        rows = self.frames.engine.rows(self.frames.row_counts)
        return sorted(rows, key=lambda row: json.dumps(tuple(row.values()), default=str))

    @cached_property
    def numbering(self) -> Sequence[Mapping[str, Any]]:
        """The rows of `Frames.numbering`, by writer."""
        rows = self.frames.engine.rows(self.frames.numbering)
        return sorted(rows, key=lambda row: int(row["writer"]))

    @cached_property
    def topics(self) -> Mapping[str, Mapping[str, Any]]:
        """The plan's topics by name."""
        return {topic["name"]: topic for topic in self.plan.get("topics") or ()}

    @cached_property
    def produced(self) -> frozenset[str]:
        """The topics with the producers and consumers that the plan has for each topic."""
        return frozenset(topics_of_producers(self.plan))

    @cached_property
    def partitions(self) -> Sequence[Partition]:
        """Every planned partition."""
        return list(planned_partitions(self.plan))

    def planned(self, name: str) -> int:
        """A number of the plan's workload."""
        return int((self.plan.get("workload") or {}).get(name) or 0)

    def clients(self, *kinds: str) -> frozenset[int]:
        """Return the clients with successful rows of these kinds; without kinds: with any rows."""
        return frozenset(
            row["client"]
            for row in self.counts
            if not kinds or (row["f"] in kinds and row["type"] == "ok")
        )

    def places(self, f: str, type_: str = "ok") -> frozenset[tuple[str | None, int | None]]:
        """Return the partitions with rows of this kind and type."""
        return frozenset(self._places.get((f, type_), ()))

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], set[tuple[str | None, int | None]]]:
        found = defaultdict(set)
        for row in self.counts:
            found[row["f"], row["type"]].add((row["topic"], row["partition"]))
        return found

    @cached_property
    def ends(self) -> Mapping[tuple[int, str, int], Mapping[str, Any]]:
        """The rows of replica_ends by node, topic and partition."""
        rows = self.frames.engine.rows(self.frames.replica_ends)
        return {(row["node"], row["topic"], row["partition"]): row for row in rows}

    @cached_property
    def ends_of(self) -> Mapping[Partition, Mapping[int, Mapping[str, Any]]]:
        """The rows of replica_ends by partition, and by node."""
        found: dict[Partition, dict[int, Mapping[str, Any]]] = defaultdict(dict)
        for (node, topic, partition), row in self.ends.items():
            found[topic, partition][node] = row
        return dict(found)

    @cached_property
    def batches(self) -> Mapping[tuple[int, str, int], Mapping[str, Any]]:
        """first, last, records: of the batches of each replica, by node, topic and partition."""
        F = self.frames.engine.functions
        count = F.col("last_offset") - F.col("base_offset") + F.lit(1)
        found = self.frames.replicas.groupBy("node", *TP).agg(
            F.min("base_offset").alias("first"),
            F.max("last_offset").alias("last"),
            F.sum(count).alias("records"),
        )
        rows = self.frames.engine.rows(found)
        return {(row["node"], row["topic"], row["partition"]): row for row in rows}

    @cached_property
    def assigned(self) -> Mapping[Partition, frozenset[int]]:
        """The replicas of each partition by its last row; those in sync where no row names all."""
        F = self.frames.engine.functions
        rows = self.frames.engine.rows(
            self.frames.cluster.where(
                (F.col("kind") == F.lit("leader")) & F.col("topic").isNotNull()
            ).select(*TP, "partition_epoch", "at_ns", "isr", "replicas")
        )
        last: dict[Partition, tuple[tuple[bool, int, int], Iterable[int]]] = {}
        for row in rows:
            named = row["replicas"] is not None
            epoch = -1 if row["partition_epoch"] is None else row["partition_epoch"]
            order = (named, epoch, row["at_ns"])
            key = row["topic"], row["partition"]
            if key not in last or order > last[key][0]:
                last[key] = order, row["replicas"] if named else row["isr"] or ()
        return {key: frozenset(replicas) for key, (_, replicas) in last.items()}

    @cached_property
    def led(self) -> Mapping[tuple[str, str, int], Mapping[str, Any]]:
        """The cluster's rows, counted by kind (leader, epoch), topic and partition. rows: all;
        whole: rows with all required columns; epoch, start: the greatest values."""
        F = self.frames.engine.functions
        of_epoch = F.col("kind") == F.lit("epoch")
        whole = (F.col("leader_epoch") >= F.lit(0)) & (
            ~of_epoch | (F.col("start_offset") >= F.lit(0))
        )
        rows = self.frames.cluster.where(F.col("kind").isin("leader", "epoch"))
        found = rows.groupBy("kind", *TP).agg(
            F.count(F.lit(1)).alias("rows"),
            F.count(F.when(whole, F.lit(1))).alias("whole"),
            F.max("leader_epoch").alias("epoch"),
            F.max("start_offset").alias("start"),
        )
        counted = self.frames.engine.rows(found)
        return {(row["kind"], row["topic"], row["partition"]): row for row in counted}

    @cached_property
    def empty(self) -> frozenset[Partition]:
        """Partitions without records: the final read found none, and no file has any."""
        rows = self.frames.engine.rows(self.frames.complete)
        filled = {(topic, at) for (_, topic, at), end in self.ends.items() if end["end_offset"] > 0}
        read = {(row["topic"], row["partition"]) for row in rows if row["end_offset"] == 0}
        return frozenset(read - filled)

    @cached_property
    def written(self) -> frozenset[tuple[str | None, int | None]]:
        """Partitions that had a record at some time: a broker acknowledged it, or it was read. With
        acks=0 no broker acknowledges anything."""
        sent = self.places("send")
        acknowledged = {at for at in sent if self.topics.get(str(at[0]), {}).get("acks") != 0}
        return frozenset(acknowledged | self.places("poll"))

    @cached_property
    def nodes(self) -> frozenset[int]:
        """The nodes that are assigned replicas, or whose files were read."""
        return frozenset(node for node, *_ in self.ends).union(*self.assigned.values())

    @cached_property
    def bereft(self) -> frozenset[int]:
        """The nodes that lost power, or files of their logs."""
        known = map(read_fault, self.frames.fault_rows)
        return frozenset().union(*(each.aimed for each in known if each and each.loses))

    @cached_property
    def absent(self) -> frozenset[int]:
        """Nodes whose files could not be read, according to run.json."""
        return frozenset(node for node, _ in self.run.refused)


def named(partition: Partition) -> str:
    """Return the usual name of a partition: topic-0."""
    return f"{partition[0]}-{partition[1]}"


def listed(partitions: Sequence[Partition]) -> str:
    """Return the names of the first few partitions."""
    return some([named(each) for each in partitions])


def some(names: Sequence[object]) -> str:
    """Return the first few names."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(str, names[:NAMED])) + more
