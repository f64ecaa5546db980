"""The places of a history's transactions in the version order, computed by either engine.

The version order of a partition is the order of the offsets of its records. Offsets are ordered as
in the final log. If that was not read to its end, the order is that of all records that were read,
and of the acknowledged sends. Offsets with two values order nothing.

`checkers.elle.links` makes edges of the places, and says what a node and an edge is. The engine
matches values with places and finds the last record that each transaction read of a partition. Of a
long history it also leaves out the writes that no edge needs.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checkers.elle.links import Ints, Places, version_order
from checkers.engines.engine import Column, Engine, Frame, left_join
from checkers.frames.frames import Frames
from checkers.frames.repeats import split
from checkers.history.history import TP

THIN_ABOVE: Final = 5_000_000
"""From this number of writes on, the engine leaves out the writes that no edge needs."""

PLACE: Final = ["txn", *TP, "value", "place"]
"""Columns of a write, or of the last record that a transaction read of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """All writes in version order, and all last reads. values: of the writes. nodes: the
    transactions, by the number of their node. partitions: topic and partition, by their number."""

    writes: Places
    values: Ints
    reads: Places
    nodes: Ints
    partitions: tuple[tuple[str, int], ...]


class Graph:
    """The graph of one run; each frame is computed once, at its first use."""

    def __init__(self, frames: Frames, *, thin_above: int = THIN_ABOVE) -> None:
        self._frames = frames
        self._engine: Engine = frames.engine
        self._thin_above = thin_above

    @cached_property
    def places(self) -> Frame:
        """The version order: topic, partition, value, place."""
        if self._disputed is None:
            return self._every_place
        return self._every_place.join(self._disputed, on=[*TP, "place"], how="left_anti")

    @cached_property
    def _every_place(self) -> Frame:
        F = self._engine.functions
        read = left_join(self._frames.placements, self._frames.complete, on=TP)
        read = read.select(*TP, "value", self._place())
        told = self._sends.where(F.col("first_offset").isNull() & F.col("final_offset").isNull())
        every = read.unionByName(told.select(*TP, "value", "place"))
        return every.where(F.col("place").isNotNull())

    @cached_property
    def _disputed(self) -> Frame | None:
        """topic, partition, place of two values or more; None without any."""
        F = self._engine.functions
        several, _ = split(self._engine, self._every_place, "place", within=TP)
        if several is None:
            return None
        counts = several.groupBy(*TP, "place").agg(F.count(F.lit(1)).alias("values"))
        disputed = counts.where(F.col("values") > F.lit(1)).select(*TP, "place")
        return self._frames.none_if_empty(disputed)

    def _place(self, *others: Column) -> Column:
        """The column `place` of rows with the columns of `Frames.placements`, and end_offset if the
        final log was read to its end. others: used where nothing was read."""
        F = self._engine.functions
        known = F.coalesce(F.col("final_offset"), F.col("first_offset"), *others)
        read_to_end = F.col("end_offset").isNotNull()
        return F.when(read_to_end, F.col("final_offset")).otherwise(known).alias("place")

    @cached_property
    def _sends(self) -> Frame:
        """op, txn, type, topic, partition, value, first_offset, final_offset, place of each send;
        place is null if it is not known."""
        F = self._engine.functions
        acked = F.when(F.col("type") == F.lit("ok"), F.col("offset"))
        sends = left_join(self._frames.send_outcomes, self._frames.complete, on=TP)
        shown = ["op", "txn", "type", *TP, "value", "first_offset", "final_offset"]
        return sends.select(*shown, self._place(acked))

    @cached_property
    def writes(self) -> Frame:
        """PLACE of every write with a place."""
        F = self._engine.functions
        kept = (F.col("type") != F.lit("fail")) & F.col("place").isNotNull()
        placed = self._sends.where(kept).select(self._node(), *PLACE[1:])
        if self._disputed is not None:
            placed = placed.join(self._disputed, on=[*TP, "place"], how="left_anti")
        return placed.select(*PLACE)

    @cached_property
    def reads(self) -> Frame:
        """txn, topic, partition, place: the last record that a transaction read of a partition."""
        F = self._engine.functions
        polled = self._polls.select(self._node(), *TP, "value")
        placed = polled.join(
            self.writes.select(*TP, "value", "place"), on=[*TP, "value"], how="inner"
        )
        return self._engine.materialize(
            placed.groupBy("txn", *TP).agg(F.max("place").alias("place"))
        )

    @cached_property
    def _polls(self) -> Frame:
        """op, txn, topic, partition, value of the records that were polled."""
        F = self._engine.functions
        rows = self._frames.history.where(
            (F.col("f") == F.lit("poll")) & (F.col("type") == F.lit("ok"))
        )
        return rows.where(F.col("value").isNotNull()).select("op", "txn", *TP, "value")

    def _node(self) -> Column:
        F = self._engine.functions
        return F.coalesce(F.col("txn"), F.col("op")).alias("txn")

    @cached_property
    def _needed_writes(self) -> Frame:
        """The writes of which an edge may be made; of a short history all."""
        if self.count(self.writes) < self._thin_above:
            return self.writes
        F = self._engine.functions
        every = self.writes.select("txn").unionByName(self.reads.select("txn"))
        several = every.groupBy("txn").agg(F.count(F.lit(1)).alias("places"))
        connectors = several.where(F.col("places") > F.lit(1)).select("txn", "places")
        connectors = self._engine.materialize(connectors)
        read = self.reads.join(connectors, on="txn", how="left_semi")
        read = read.select(*TP, "place", F.lit(1).alias("read")).distinct()
        marked = left_join(left_join(self.writes, connectors, on=["txn"]), read, on=[*TP, "place"])
        here = F.coalesce(F.col("places"), F.col("read")).isNotNull()
        marked = marked.select(*PLACE, here.alias("here"))
        order = self._engine.window.partitionBy(*TP).orderBy("place", "value", "txn")
        before = F.coalesce(F.lag("here").over(order), F.lit(False))
        marked = marked.select(*PLACE, "here", before.alias("before"))
        return self._engine.materialize(
            marked.where(F.col("here") | F.col("before")).select(*PLACE)
        )

    @cached_property
    def size(self) -> int:
        """How many writes and reads `drawn` has."""
        return self.count(self._needed_writes) + self.count(self.reads)

    @cached_property
    def drawn(self) -> Drawn:
        """The writes and reads as arrays."""
        writes = self._engine.arrow(self._needed_writes.select(*PLACE))
        reads = self._engine.arrow(self.reads.select("txn", *TP, "place"))
        nodes, node = np.unique(_column("txn", writes, reads).to_numpy(), return_inverse=True)
        node = node.astype(np.int32)
        topic = _column("topic", writes, reads).dictionary_encode()
        number = _column("partition", writes, reads).to_numpy()
        homes = pa.array(topic.indices.to_numpy().astype(np.int64) << 32 | number)
        homes = homes.dictionary_encode()
        home = homes.indices.to_numpy()
        cut = len(writes)
        written = Places(node=node[:cut], partition=home[:cut], place=writes["place"].to_numpy())
        order = version_order(written)
        return Drawn(
            writes=written.at(order),
            values=writes["value"].to_numpy()[order],
            reads=Places(node=node[cut:], partition=home[cut:], place=reads["place"].to_numpy()),
            nodes=nodes,
            partitions=tuple(
                (str(topic.dictionary[at >> 32]), at & ((1 << 32) - 1))
                for at in homes.dictionary.to_pylist()
            ),
        )

    def count(self, frame: Frame) -> int:
        """How many rows a frame has."""
        F = self._engine.functions
        return int(self._engine.rows(frame.agg(F.count(F.lit(1)).alias("rows")))[0]["rows"])

    def rows(self, frame: Frame) -> list[dict[str, Any]]:
        """A small frame's rows."""
        return self._engine.rows(frame)

    @cached_property
    def aborted(self) -> Frame:
        """G1a: txn, topic, partition, value of sends that surely failed and were read."""
        F = self._engine.functions
        read = F.coalesce(F.col("first_offset"), F.col("final_offset")).isNotNull()
        failed = self._sends.where((F.col("type") == F.lit("fail")) & read)
        return self._engine.materialize(failed.select(self._node(), *TP, "value"))

    @cached_property
    def precommitted(self) -> Frame:
        """txn, topic, partition, value: a transaction read what it wrote itself."""
        F = self._engine.functions
        inside = F.col("txn").isNotNull()
        polled = self._polls.where(inside).select("txn", *TP, "value")
        mine = self._sends.where(inside).select("txn", *TP, "value")
        # Most transactions only send.
        readers = self._engine.materialize(polled.select("txn").distinct())
        mine = mine.join(readers, on="txn", how="left_semi")
        own = polled.join(mine, on=["txn", *TP, "value"], how="left_semi")
        return self._engine.materialize(own)


def _column(name: str, *tables: pa.Table) -> pa.Array:
    """The column of several tables; texts may be encoded."""
    chunks = [chunk for table in tables for chunk in table[name].chunks]
    plain = [each.cast(each.type.value_type) if _is_coded(each) else each for each in chunks]
    return pa.concat_arrays(plain) if plain else tables[0][name].combine_chunks()


def _is_coded(values: pa.Array) -> bool:
    return isinstance(values, pa.DictionaryArray)
