"""Where the final logs start, and what is known of the records before."""

from collections import defaultdict
from math import ceil
from typing import Final

from checkers.causes.retention import LogStart
from checkers.engines.engine import Engine, Frame, left_join
from checkers.frames.holders import Holders
from checkers.history.history import TP

PREFIX: Final = "prefix"
"""The aspect of an anomaly about a record before the first one of the final log."""

MS: Final = 1_000_000


def first_offsets(
    engine: Engine, ends: Frame, others: Frame, final_log: Frame, replica_ends: Frame
) -> Frame:
    """Return topic, partition, log_start (null if nothing is known of it), first_read, first_kept
    (in the files of the replicas, read later) of every partition. ends: see `read_ends.read_ends`.
    A log without records starts where its replicas' files say. A final read that retention
    overtook went on at the new start, with a row `assign` among `others`."""
    F = engine.functions
    least = final_log.groupBy(*TP).agg(F.min("offset").alias("least"))
    closed = others.where(F.col("f") == F.lit("final-read-end")).select("op", *TP).distinct()
    moved = others.where((F.col("f") == F.lit("assign")) & F.col("error").isNotNull())
    moved = moved.join(closed, on=["op", *TP], how="left_semi")
    moved = moved.groupBy(*TP).agg(F.max("offset").alias("moved"))
    read = left_join(ends.select(*TP), engine.materialize(least), on=TP)
    read = left_join(read, engine.materialize(moved), on=TP)
    read = read.select(*TP, F.coalesce("moved", "least").alias("first_read"))
    in_files = replica_ends.groupBy(*TP).agg(F.max("start_offset").alias("first_kept"))
    partitions = ends.select(*TP).unionByName(replica_ends.select(*TP)).distinct()
    found = left_join(partitions, engine.materialize(read), on=TP)
    found = left_join(found, engine.materialize(in_files), on=TP)
    start = F.coalesce("first_read", "first_kept").alias("log_start")
    return found.select(*TP, start, "first_read", "first_kept")


def log_starts(
    engine: Engine,
    *,
    first_offsets: Frame,
    ends: Frame,
    sends: Frame,
    replicas: Frame,
    replica_ends: Frame,
    cluster: Frame,
    holders: Holders,
) -> dict[tuple[str, int], LogStart]:
    """Return the start of every log that was read at the end and does not start at 0. sends: with
    first_offset and final_offset. holders: see the module of that name."""
    F = engine.functions
    cut = first_offsets.where(F.col("log_start") > F.lit(0)).select(*TP, "log_start")
    cut = engine.materialize(cut)
    found = cut.join(ends.select(*TP, "read_ns"), on=TP, how="inner")
    removed = engine.materialize(_newest_removed(engine, cut, sends))
    for known in (
        removed.select(*TP, "newest_ns"),
        _left_bytes(engine, cut, removed, replicas, replica_ends),
        replica_ends.groupBy(*TP).agg(F.min("start_offset").alias("least_kept")),
        _once_ends(engine, sends),
        _epochs(engine, cluster),
    ):
        found = left_join(engine.materialize(found), engine.materialize(known), on=TP)
    record_bytes = _record_bytes(engine, replicas)
    shifts = clock_shifts_ns(engine, holders, cluster)
    return {
        (row["topic"], row["partition"]): LogStart(
            offset=row["log_start"],
            left_bytes=row["left_bytes"],
            once_end=row["once_end"] or 0,
            record_bytes=record_bytes.get((row["topic"], row["partition"]), 0),
            newest_ns=row["newest_ns"],
            read_ns=row["read_ns"],
            truncated=(row["epochs"] or 0) > 1,
            shifted_ns=shifts.get((row["topic"], row["partition"]), 0),
            in_files=row["least_kept"] is not None and row["least_kept"] >= row["log_start"],
        )
        for row in engine.rows(found)
    }


def _newest_removed(engine: Engine, cut: Frame, sends: Frame) -> Frame:
    """Return when the newest send before the log's start began, and the offset of the newest record
    there that was acknowledged or read: topic, partition, newest_ns, newest_offset."""
    F = engine.functions
    gone = sends.where(F.col("final_offset").isNull()).join(cut, on=TP, how="inner")
    place = F.coalesce("offset", "first_offset")
    missed = (F.col("type") == F.lit("ok")) | F.col("first_offset").isNotNull()
    return (
        gone.where(place < F.col("log_start"))
        .groupBy(*TP)
        .agg(
            F.max("invoke_ns").alias("newest_ns"),
            F.max(F.when(missed, place)).alias("newest_offset"),
        )
    )


def _left_bytes(
    engine: Engine, cut: Frame, removed: Frame, replicas: Frame, replica_ends: Frame
) -> Frame:
    """Return the most bytes that a replica has without the removed records: topic, partition,
    left_bytes. It may start before the final log, which begins with the first record that a reader
    is given: aborted records and markers come before. removed: the result of `_newest_removed`."""
    F = engine.functions
    starts = replica_ends.select("node", *TP, "start_offset").join(cut, on=TP, how="inner")
    starts = left_join(engine.materialize(starts), removed.select(*TP, "newest_offset"), on=TP)
    newest = F.coalesce(F.col("newest_offset"), F.col("log_start") - F.lit(1))
    late = engine.materialize(starts.where(F.col("start_offset") > newest))
    batches = replicas.join(late, on=["node", *TP], how="inner")
    batches = batches.where(F.col("last_offset") >= F.col("start_offset"))
    filled = batches.groupBy("node", *TP).agg(F.sum("size").cast("bigint").alias("bytes"))
    each = left_join(late.select("node", *TP), engine.materialize(filled), on=["node", *TP])
    most = F.max(F.coalesce(F.col("bytes"), F.lit(0))).alias("left_bytes")
    return each.groupBy(*TP).agg(most)


def _once_ends(engine: Engine, sends: Frame) -> Frame:
    """Return how far logs reached at least: topic, partition, once_end (after the last offset that
    a broker acknowledged)."""
    F = engine.functions
    return sends.groupBy(*TP).agg((F.max("offset") + F.lit(1)).alias("once_end"))


def _record_bytes(engine: Engine, replicas: Frame) -> dict[tuple[str, int], int]:
    """Return the bytes of each partition's largest record, rounded up, by the batches of all
    replicas."""
    F = engine.functions
    count = (F.col("last_offset") - F.col("base_offset") + F.lit(1)).alias("count")
    sizes = (
        replicas.select(*TP, count, "size").groupBy(*TP, "count").agg(F.max("size").alias("size"))
    )
    found: dict[tuple[str, int], int] = {}
    for row in engine.rows(sizes):
        place = row["topic"], row["partition"]
        found[place] = max(found.get(place, 0), ceil(row["size"] / row["count"]))
    return found


def _epochs(engine: Engine, cluster: Frame) -> Frame:
    """Return topic, partition, epochs: how many leader epochs the record has."""
    F = engine.functions
    named = cluster.where((F.col("kind") == F.lit("leader")) & F.col("leader_epoch").isNotNull())
    pairs = named.select(*TP, "leader_epoch").distinct()
    return pairs.groupBy(*TP).agg(F.count(F.lit(1)).alias("epochs"))


def clock_span_ns(engine: Engine, cluster: Frame) -> int:
    """Return how far apart faults set the clocks of all nodes, in ns."""
    F = engine.functions
    rows = cluster.where((F.col("kind") == F.lit("clock")) & F.col("ahead_ms").isNotNull())
    span = rows.agg(F.min("ahead_ms").alias("least"), F.max("ahead_ms").alias("most"))
    row = engine.rows(span)[0]
    return round((max(0, row["most"] or 0) - min(0, row["least"] or 0)) * MS)


def clock_shifts_ns(engine: Engine, holders: Holders, cluster: Frame) -> dict[tuple[str, int], int]:
    """Return how far apart faults set the clocks of the nodes that held each partition, in ns."""
    F = engine.functions
    rows = cluster.where((F.col("kind") == F.lit("clock")) & F.col("ahead_ms").isNotNull())
    ahead: dict[int, list[float]] = defaultdict(lambda: [0.0])
    for row in engine.rows(rows.select("node", "ahead_ms").distinct()):
        ahead[row["node"]].append(row["ahead_ms"])
    found = {}
    for partition, nodes in holders.items():
        moved = [ms for node in nodes & ahead.keys() for ms in ahead[node]]
        if moved:
            found[partition] = round((max(moved) - min(moved)) * MS)
    return found
