"""The dependency graph of a history, computed by either engine.

A node is a transaction: all rows that share a `txn`, or a single send or poll (its `op`). The
version order of a partition is the order of the offsets of its records. An edge says which of two
transactions came first in a partition.

    ww   the first wrote a record, and the second wrote a later one
    wr   the first wrote the last record that the second read
    rw   the first read up to a record, and the second wrote the next one

Only the last record that a transaction read of a partition counts: the transaction read a range,
and the writers of earlier records come before the writer of the last one by ww. A read that ended
inside the writes of one transaction is not a cycle of the two, but a phenomenon of its own (G1b).

Most of the graph cannot be in a cycle and is never computed. In one partition all edges go up, so a
cycle needs transactions at two places (*connectors*: in two partitions, or twice in one). The graph
keeps the writes of connectors, the writes that they read last, the write behind each of these, and
the ww edges between neighbours of the kept writes. Reachability between kept nodes does not change.
Every other edge that is left out is parallel to a kept ww edge, and its cycle would say less than
the cycle of that edge. Nodes without an incoming or an outgoing edge are trimmed, round by round.

Offsets are ordered as in the final log. If that was not read to its end, the order is that of all
records that were read, and of the acknowledged sends. Offsets with two values order nothing.
"""

from functools import cached_property
from typing import Any, Final

from checkers.engines.engine import Column, Engine, Frame, left_join
from checkers.frames.frames import Frames
from checkers.history.history import TP

TRIM_ROUNDS: Final = 10
"""After so many rounds the remaining edges are searched without further trimming."""

EDGE: Final = ["src", "dst", "kind", *TP, "value", "other_value"]
"""Columns of an edge: two nodes, the kind, the partition, the value that was written or last read
first, and the value that was written or read later."""


class Graph:
    """The graph of one run; each frame is computed once, at its first use."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._engine: Engine = frames.engine

    @cached_property
    def places(self) -> Frame:
        """The version order: topic, partition, value, place."""
        F = self._engine.functions
        frames = self._frames
        read_to_end = F.col("end_offset").isNotNull()
        place = F.when(read_to_end, F.col("final_offset")).otherwise(
            F.coalesce(F.col("final_offset"), F.col("first_offset"))
        )
        known = left_join(frames.placements, frames.complete, on=TP)
        read = known.select(*TP, "value", place.alias("place"))
        told = (
            frames.acked.where(F.col("offset").isNotNull())
            .join(frames.placements.select(*TP, "value"), on=[*TP, "value"], how="left_anti")
            .join(frames.complete.select(*TP), on=TP, how="left_anti")
            .select(*TP, "value", F.col("offset").alias("place"))
        )
        every = self._engine.materialize(read.unionByName(told).where(F.col("place").isNotNull()))
        twice = every.groupBy(*TP, "place").agg(F.count(F.lit(1)).alias("n")).where(F.col("n") > 1)
        return self._engine.materialize(
            every.join(twice.select(*TP, "place"), [*TP, "place"], "left_anti")
        )

    @cached_property
    def writes(self) -> Frame:
        """txn, topic, partition, value, place of every write with a place, and next_txn,
        next_value, next_place of the write behind it."""
        F = self._engine.functions
        sent = self._rows("send").where(F.col("type") != F.lit("fail"))
        placed = sent.select("txn", *TP, "value").join(self.places, on=[*TP, "value"], how="inner")
        order = self._engine.window.partitionBy(*TP).orderBy("place")
        return self._engine.materialize(
            placed.select(
                "txn", *TP, "value", "place",
                F.lead("txn").over(order).alias("next_txn"),
                F.lead("value").over(order).alias("next_value"),
                F.lead("place").over(order).alias("next_place"),
            )
        )  # fmt: skip

    @cached_property
    def reads(self) -> Frame:
        """txn, topic, partition, place: the last record that a transaction read of a partition."""
        F = self._engine.functions
        polled = self._rows("poll").where(
            (F.col("type") == F.lit("ok")) & F.col("value").isNotNull()
        )
        placed = polled.select("txn", *TP, "value").join(
            self.writes.select(*TP, "value", "place"), on=[*TP, "value"], how="inner"
        )
        return self._engine.materialize(
            placed.groupBy("txn", *TP).agg(F.max("place").alias("place"))
        )

    def _rows(self, f: str) -> Frame:
        F = self._engine.functions
        rows = self._frames.history.where(F.col("f") == F.lit(f))
        node = F.coalesce(F.col("txn"), F.col("op")).alias("txn")
        return rows.select(node, F.col("txn").alias("several"), "type", *TP, "value")

    @cached_property
    def edges(self) -> Frame:
        """Every edge that may be in a cycle, with the columns of EDGE."""
        F = self._engine.functions
        places = self.writes.select("txn", *TP).unionByName(self.reads.select("txn", *TP))
        several = places.groupBy("txn").agg(F.count(F.lit(1)).alias("n")).where(F.col("n") > 1)
        connectors = self._engine.materialize(several.select("txn"))
        reads = self.reads.join(connectors, on="txn", how="left_semi")
        beside = self._engine.materialize(
            reads.select(F.col("txn").alias("reader"), *TP, "place").join(
                self.writes, on=[*TP, "place"], how="inner"
            )
        )
        written = self.writes.join(connectors, on="txn", how="left_semi")
        known = [*TP, "place", "next_place"]
        here = self._engine.materialize(written.select(*known).unionByName(beside.select(*known)))
        behind = here.where(F.col("next_place").isNotNull()).select(
            *TP, F.col("next_place").alias("place")
        )
        kept = here.select(*TP, "place").unionByName(behind).distinct()
        overtaken = beside.where(F.col("next_txn") != F.col("txn"))
        edges = (
            self._following(kept)
            .unionByName(self._edge(beside, "wr", "txn", "reader", "value", "value"))
            .unionByName(self._edge(overtaken, "rw", "reader", "next_txn", "value", "next_value"))
        )
        apart = edges.where(F.col("dst").isNotNull() & (F.col("src") != F.col("dst")))
        one_each = apart.groupBy("src", "dst", "kind").agg(
            *(F.min(name).alias(name) for name in EDGE[3:])
        )
        return self._engine.materialize(one_each.select(*EDGE))

    def _following(self, kept: Frame) -> Frame:
        """ww: an edge from each kept write to the next kept write."""
        F = self._engine.functions
        order = self._engine.window.partitionBy(*TP).orderBy("place")
        writes = self.writes.select("txn", *TP, "value", "place")
        chain = writes.join(kept, on=[*TP, "place"], how="inner").select(
            "txn", *TP, "value",
            F.lead("txn").over(order).alias("next_txn"),
            F.lead("value").over(order).alias("next_value"),
        )  # fmt: skip
        return self._edge(chain, "ww", "txn", "next_txn", "value", "next_value")

    def _edge(self, frame: Frame, kind: str, src: str, dst: str, value: str, other: str) -> Frame:
        F = self._engine.functions
        named: list[Column] = [
            F.col(src).alias("src"),
            F.col(dst).alias("dst"),
            F.lit(kind).alias("kind"),
        ]
        values = [F.col(value).alias("value"), F.col(other).alias("other_value")]
        return frame.select(*named, *TP, *values)

    def trimmed(self) -> Frame:
        """Return the edges without nodes that have no incoming or no outgoing edge."""
        F = self._engine.functions
        edges, count = self.edges, self.count(self.edges)
        for _ in range(TRIM_ROUNDS):
            entered = edges.select(F.col("dst").alias("src")).distinct()
            left = edges.select(F.col("src").alias("dst")).distinct()
            inner = edges.join(entered, on="src", how="left_semi")
            inner = inner.join(left, on="dst", how="left_semi")
            edges = self._engine.materialize(inner.select(*EDGE))
            before, count = count, self.count(edges)
            if count in (0, before):
                break
        return edges

    def count(self, frame: Frame) -> int:
        """How many rows a frame has."""
        F = self._engine.functions
        return int(self._engine.rows(frame.agg(F.count(F.lit(1)).alias("rows")))[0]["rows"])

    def rows(self, frame: Frame) -> list[dict[str, Any]]:
        """A small frame's rows."""
        return self._engine.rows(frame)

    @cached_property
    def aborted(self) -> Frame:
        """G1a: topic, partition, value of sends that surely failed and were read."""
        F = self._engine.functions
        failed = self._rows("send").where(F.col("type") == F.lit("fail"))
        return failed.select("txn", *TP, "value").join(
            self._frames.placements.select(*TP, "value"), on=[*TP, "value"], how="inner"
        )

    @cached_property
    def intermediate(self) -> Frame:
        """G1b: txn, topic, partition, value: a read that ended inside what another transaction
        wrote to that partition."""
        F = self._engine.functions
        last = self.writes.groupBy("txn", *TP).agg(F.max("place").alias("last_place"))
        inside = self.writes.join(last, on=["txn", *TP], how="inner").where(
            F.col("place") < F.col("last_place")
        )
        writers = inside.select(F.col("txn").alias("writer"), *TP, "value", "place")
        ended = self.reads.join(writers, on=[*TP, "place"], how="inner")
        return ended.where(F.col("txn") != F.col("writer")).select("txn", *TP, "value")

    @cached_property
    def precommitted(self) -> Frame:
        """txn, topic, partition, value: a transaction read what it wrote itself."""
        F = self._engine.functions
        sent, polled = self._rows("send"), self._rows("poll")
        mine = sent.where(F.col("several").isNotNull()).select("txn", *TP, "value")
        return polled.select("txn", *TP, "value").join(
            mine, on=["txn", *TP, "value"], how="left_semi"
        )
