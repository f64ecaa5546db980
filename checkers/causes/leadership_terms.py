"""The leadership terms of each partition, from the cluster's table: which node led when, and where
its leader epochs start in the final log. Also when the controllers fenced which broker, and whose
clocks were behind.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from checkers.causes.lookup import IntervalIndex, SuffixMinimum
from checkers.engines.engine import Engine, Frame
from checkers.history.history import METADATA_LOG
from checkers.history.settings import FOREVER_NS

NS_PER_MS = 1_000_000

LAST_EPOCH = 1 << 20
"""More leader epochs than a partition has in any run."""

Partition = tuple[str, int]


@dataclass
class PartitionLeadership:
    """The leaders of one partition, and what its nodes knew of them."""

    leaders: list[Mapping[str, Any]] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)  # final leader epoch -> start offset
    learned_ns: dict[int, list[tuple[int, int]]] = field(
        default_factory=dict
    )  # node -> (epoch, at)
    contradiction: str = ""  # an answer about a leader that the metadata log contradicts
    end_offset: int | None = None
    read_ns: int | None = None  # when the final read of the partition ended

    @cached_property
    def _starts(self) -> SuffixMinimum[tuple[int, int]]:
        """(start offset, -epoch) by leader epoch: the last epoch that starts there."""
        return SuffixMinimum((epoch, (start, -epoch)) for epoch, start in self.starts.items())

    @cached_property
    def _knew(self) -> dict[int, SuffixMinimum[int]]:
        """When each node knew of an epoch, or of a later one."""
        return {node: SuffixMinimum(seen) for node, seen in self.learned_ns.items()}

    def effective_start(self, epoch: int) -> tuple[int, int | None]:
        """Return the last epoch that starts at the same offset as this one in the final log, and
        that offset. An epoch without records starts where the next epoch starts; the last one
        starts at the end of the log."""
        found = self._starts.at(epoch)
        if found is None:
            return LAST_EPOCH, self.end_offset
        return -found[1], found[0]

    @cached_property
    def _led_ns(self) -> SuffixMinimum[int]:
        """When each leader epoch was seen."""
        return SuffixMinimum((row["leader_epoch"], row["at_ns"]) for row in self.leaders)

    @cached_property
    def _decided_ns(self) -> dict[int, int]:
        """The date of the decision who leads in each epoch, where the controllers' log is read."""
        decided: dict[int, int] = {}
        for row in filter(has_leader, self.leaders):
            if row["partition_epoch"] is not None:
                decided.setdefault(row["leader_epoch"], row["at_ns"])
        return decided

    @cached_property
    def _by_start(self) -> list[tuple[int, int]]:
        """(start offset, epoch) of the final log, ascending."""
        return sorted((start, epoch) for epoch, start in self.starts.items())

    def led_ns(self, epoch: int) -> int | None:
        """Return when this epoch, or a later one, was first seen."""
        return self._led_ns.at(epoch)

    def decided_ns(self, epoch: int, seen_ns: int) -> int:
        """Return the date of the decision who leads in this epoch, of which somebody had heard at
        seen_ns. That date may be later: the recorder reads the metadata log now and then."""
        return max(seen_ns, self._decided_ns.get(epoch, seen_ns))

    @cached_property
    def _first_led(self) -> dict[int, int]:
        """The first leader epoch of each leader."""
        first: dict[int, int] = {}
        for row in self.leaders:
            if has_leader(row):
                first.setdefault(row["leader"], row["leader_epoch"])
        return first

    def had_led(self, node: int, epoch: int) -> bool:
        """Whether the node had led in an epoch before this one."""
        return self._first_led.get(node, epoch) < epoch

    @cached_property
    def _terms(self) -> dict[int, list[int]]:
        """The leader epochs of each leader, ascending."""
        terms: dict[int, set[int]] = defaultdict(set)
        for row in filter(has_leader, self.leaders):
            terms[row["leader"]].add(row["leader_epoch"])
        return {node: sorted(epochs) for node, epochs in terms.items()}

    def last_terms(self, epoch: int) -> dict[int, int]:
        """Return the last epoch before this one of each node that had led before."""
        places = {node: bisect_left(epochs, epoch) for node, epochs in self._terms.items()}
        return {node: self._terms[node][place - 1] for node, place in places.items() if place}

    def knew_all_by_ns(self, epoch: int, but: int) -> int | None:
        """Return by when all nodes that had led before this epoch, but one, were seen to know it,
        or a later one; None if one of them never was."""
        others = (n for n, first in self._first_led.items() if first < epoch and n != but)
        known = [self.knew_at_ns(node, epoch) for node in others]
        return None if None in known else max(filter(None, known), default=0)

    def led_before_ns(self, epoch: int) -> int:
        """Return since when the leader led whose records are right before the start of this epoch
        in the final log; 0 without such a leader, or if the start was not read."""
        _, start = self.effective_start(epoch)
        place = 0 if start is None else bisect_left(self._by_start, (start, -1))
        return (self.led_ns(self._by_start[place - 1][1]) if place else None) or 0

    def knew_at_ns(self, node: int, epoch: int) -> int | None:
        """Return when the node was first seen to know this epoch, or a later one."""
        seen = self._knew.get(node)
        return None if seen is None else seen.at(epoch)

    def was_read_before(self, at_ns: int) -> bool:
        """Whether the final read had ended: later events explain nothing that was read."""
        return self.read_ns is not None and at_ns > self.read_ns


def read_cluster(
    engine: Engine,
    cluster: Frame,
    complete: Frame,
    first_offsets: Frame,
    *,
    metadata_lost: bool = False,
) -> dict[Partition, PartitionLeadership]:
    """Return the leadership of each partition. cluster: of CLUSTER; the others: see `read_causes`.

    A leader that a node named and the metadata log does not have is left out, unless metadata_lost:
    the quorum may have lost what it had decided. Without a metadata log, two leaders of one epoch
    are left out. Where retention removed the first records of an
    epoch, leaders report that the epoch begins at the start of the log. It may have begun anywhere
    before, so it counts as begun at 0.
    """
    F = engine.functions
    records: dict[Partition, PartitionLeadership] = defaultdict(PartitionLeadership)
    named = cluster.where(F.col("topic").isNotNull() & F.col("partition").isNotNull())
    leaders = (
        named.where((F.col("kind") == F.lit("leader")) & F.col("leader_epoch").isNotNull())
        .select(
            *("topic", "partition", "leader", "leader_epoch", "partition_epoch"),
            *("isr", "elr", "at_ns", "log_offset", "source"),
        )
        .orderBy("topic", "partition", "leader_epoch", "partition_epoch", "at_ns")
    )
    for row in engine.rows(leaders):
        records[row["topic"], row["partition"]].leaders.append(row)
    starts = (
        named.where((F.col("kind") == F.lit("epoch")) & F.col("start_offset").isNotNull())
        .groupBy("topic", "partition", "leader_epoch")
        .agg(F.min("start_offset").alias("start_offset"))
    )
    cut = {
        (row["topic"], row["partition"]): range(
            row["first_read"] or 1, max(row["log_start"], row["first_kept"] or 0) + 1
        )
        for row in engine.rows(first_offsets.where(F.col("log_start") > F.lit(0)))
    }
    for row in engine.rows(starts):
        partition, start = (row["topic"], row["partition"]), row["start_offset"]
        begun = 0 if start in cut.get(partition, ()) else start
        records[partition].starts[row["leader_epoch"]] = begun
    views = (
        named.where((F.col("kind") == F.lit("view")) & F.col("node").isNotNull())
        .groupBy("topic", "partition", "node", "leader_epoch")
        .agg(F.min("at_ns").alias("at_ns"))
        .orderBy("topic", "partition", "node", "at_ns")
    )
    for row in engine.rows(views):
        if row["leader_epoch"] is not None:
            seen = records[row["topic"], row["partition"]].learned_ns
            seen.setdefault(row["node"], []).append((row["leader_epoch"], row["at_ns"]))
    for row in engine.rows(complete):
        record = records[row["topic"], row["partition"]]
        record.end_offset, record.read_ns = row["end_offset"], row["read_ns"]
        if not metadata_lost:
            _drop_contradicted(record)
    return dict(records)


def _drop_contradicted(record: PartitionLeadership) -> None:
    """Remove the leaders that were named before the final read ended and that something
    contradicts: the metadata log, which does not have them, or, without a metadata log, another
    leader of the same epoch. Note the first of them. Leaders of epochs before those of the log are
    believed."""
    named: dict[int, set[int]] = defaultdict(set)
    decided: dict[int, int] = {}
    for row in filter(has_leader, record.leaders):
        named[row["leader_epoch"]].add(row["leader"])
        if row["source"] == METADATA_LOG:
            decided[row["leader_epoch"]] = row["leader"]
    first = min(decided, default=0)

    def believed(row: Mapping[str, Any]) -> bool:
        epoch, leader = row["leader_epoch"], row["leader"]
        if not has_leader(row) or epoch < first or record.was_read_before(row["at_ns"]):
            return True
        return leader == decided.get(epoch) if decided else len(named[epoch]) == 1

    wrong = {(r["leader_epoch"], r["leader"]) for r in record.leaders if not believed(r)}
    if wrong:
        epoch, leader = min(wrong)
        if decided:
            has = f"node {decided[epoch]}" if epoch in decided else "no leader of this epoch"
            other = f"the metadata log has {has}"
        else:
            others = ", ".join(map(str, sorted(named[epoch] - {leader})))
            other = f"node {others} was named, too"
        record.contradiction = f"node {leader} was named as the leader of epoch {epoch}; {other}"
        record.leaders = [row for row in record.leaders if believed(row)]


def read_fencing(engine: Engine, cluster: Frame) -> list[dict[str, Any]]:
    """Return the rows of brokers that were fenced and unfenced, in the order of the metadata
    log."""
    F = engine.functions
    fencing = (F.col("kind") == F.lit("fenced")) | (F.col("kind") == F.lit("unfenced"))
    rows = cluster.where(fencing & F.col("log_offset").isNotNull())
    return engine.rows(rows.select("kind", "node", "at_ns", "log_offset").orderBy("log_offset"))


def read_clock_lags(engine: Engine, cluster: Frame) -> IntervalIndex[int]:
    """Return how far behind the true time faults had set the clocks of nodes, in ns, while they
    had."""
    F = engine.functions
    rows = cluster.where((F.col("kind") == F.lit("clock")) & F.col("ahead_ms").isNotNull())
    clocks: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in engine.rows(rows.select("node", "at_ns", "ahead_ms").orderBy("node", "at_ns")):
        clocks[row["node"]].append(row)
    lags = []
    for each in clocks.values():
        ends_ns = [*(change["at_ns"] for change in each[1:]), FOREVER_NS]
        for change, end_ns in zip(each, ends_ns, strict=True):
            if change["ahead_ms"] < 0:
                lag_ns = round(-change["ahead_ms"] * NS_PER_MS)
                lags.append((change["at_ns"], end_ns, lag_ns))
    return IntervalIndex(lags)


def first_of_each_epoch(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the earliest row of each leader epoch (with a leader, if any row has one), epochs
    ascending."""
    first: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        held = first.get(row["leader_epoch"])
        if held is None or (has_leader(row), -row["at_ns"]) > (has_leader(held), -held["at_ns"]):
            first[row["leader_epoch"]] = row
    return [first[epoch] for epoch in sorted(first)]


def last_of_each_epoch(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """Return the latest row of each leader epoch: by partition epoch where known, then by time."""
    last: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        held = last.get(row["leader_epoch"])
        if held is None or _place(row) > _place(held):
            last[row["leader_epoch"]] = row
    return last


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return _or_less(row["partition_epoch"]), row["at_ns"]


def _or_less(number: int | None) -> int:
    return -1 if number is None else number


def has_leader(row: Mapping[str, Any]) -> bool:
    return row["leader"] is not None and row["leader"] >= 0
