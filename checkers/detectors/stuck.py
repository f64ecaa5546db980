"""Who never recovers: clients, and partitions, that get nowhere although everything was healed.

Judged from the last heal of any fault on, and only where enough time was left to recover in.
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.engines.engine import Frame, as_frame, left_join
from checkers.frames.frames import TP, Frames, evidence
from checkers.history.plan_file import IMPORTED

PATIENCE_NS = 10_000_000_000
"""Whoever needs longer than this has not merely been slow."""

MOVING = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("since_ns", pa.int64()),
        ("complete_ns", pa.int64()),
    ]
)


def stuck(frames: Frames) -> Iterator[Frame]:
    """kind stuck, from invoke_ns to complete_ns.

    aspect producer: a client sent to a partition after the last heal, and neither that nor what
    was open at the heal was acknowledged until the client ended. aspect consumer: from the last
    heal on a consumer was given nothing, until it ended, although a record lay before it. aspect
    election: a partition had no leader until it was read for the last time; aspect reassignment: it
    was with more replicas than planned until then, and nothing changed. Nothing is judged while a
    fault is in force.
    """
    healed_ns = _healed_ns(frames)
    if healed_ns is None:
        return
    F = frames.engine.functions
    ends = frames.engine.materialize(
        frames.other_rows.where(F.col("f") == F.lit("end")).select(
            "client", F.col("invoke_ns").alias("complete_ns")
        )
    )
    found = (
        ("producer", _producers(frames, ends, healed_ns)),
        ("consumer", _consumers(frames, ends, healed_ns)),
        ("election", _elections(frames)),
        ("reassignment", _reassignments(frames)),
    )
    for aspect, candidates in found:
        if candidates is None:
            continue
        since = F.greatest(F.col("since_ns"), F.lit(healed_ns))
        late = frames.engine.materialize(candidates).where(
            F.col("complete_ns") - since >= F.lit(PATIENCE_NS)
        )
        if (never := frames.none_if_empty(late)) is not None:
            kind = F.lit("stuck")
            yield evidence(frames.engine, never, kind=kind, aspect=F.lit(aspect), invoke_ns=since)


def _healed_ns(frames: Frames) -> int | None:
    """When the last fault was healed, 0 without any; None while one is in force, and of an import:
    nobody recorded its faults, and who sent once to a partition and is gone need not go on.

    What was healed before it was seen to take effect counts too: it may have stopped somebody all
    the same, as a node does that is killed while nobody looks.
    """
    rows = frames.fault_rows
    if frames.plan.get("system") == IMPORTED:
        return None
    if any(row["took_effect"] and row["healed_ns"] is None for row in rows):
        return None
    return max((row["healed_ns"] for row in rows if row["healed_ns"] is not None), default=0)


def _producers(frames: Frames, ends: Frame, healed_ns: int) -> Frame:
    """client, topic, partition, since_ns, complete_ns: sends, and no success, after the heal."""
    F = frames.engine.functions
    open_then = F.col("complete_ns").isNull() | (F.col("complete_ns") > F.lit(healed_ns))
    late = F.when(F.col("invoke_ns") >= F.lit(healed_ns), F.col("invoke_ns"))
    success = F.when(F.col("type") == F.lit("ok"), F.lit(1)).otherwise(F.lit(0))
    tries = (
        frames.sends.where(open_then & (F.col("acks") != F.lit(0)))
        .groupBy("client", *TP)
        .agg(F.min(late).alias("since_ns"), F.sum(success).alias("successes"))
    )
    futile = (F.col("successes") == F.lit(0)) & F.col("since_ns").isNotNull()
    return tries.where(futile).join(ends, on="client", how="inner")


def _consumers(frames: Frames, ends: Frame, healed_ns: int) -> Frame:
    """client, topic, partition, offset, value, since_ns, complete_ns: the first record behind the
    last one of a consumer that was given nothing since the heal; acknowledged at since_ns."""
    F = frames.engine.functions
    last = frames.polls.groupBy("client", *TP).agg(
        (F.max("last_offset") + F.lit(1)).alias("offset"), F.max("complete_ns").alias("polled_ns")
    )
    last = last.where(F.col("polled_ns") < F.lit(healed_ns)).drop("polled_ns")
    written = frames.sends_in_place.where(F.col("acks") == F.lit(-1)).select(
        *TP, "offset", "value", F.col("complete_ns").alias("since_ns")
    )
    return last.join(written, on=[*TP, "offset"], how="inner").join(ends, on="client", how="inner")


def _elections(frames: Frames) -> Frame:
    """topic, partition, since_ns, complete_ns: without a leader until the final read."""
    F = frames.engine.functions
    told = frames.cluster.where(F.col("kind") == F.lit("leader"))
    leaderless = F.col("leader").isNull() | (F.col("leader") < F.lit(0))
    return _last(frames, told).where(leaderless).select(*TP, "since_ns", "complete_ns")


def _reassignments(frames: Frames) -> Frame | None:
    """topic, partition, since_ns, complete_ns: with more replicas than planned until the final
    read, as a partition is while it is moved (KIP-455); None without any."""
    F = frames.engine.functions
    planned = {
        each["name"]: each.get("replication_factor") for each in frames.plan.get("topics") or ()
    }
    told = (F.col("kind") == F.lit("leader")) & F.col("replicas").isNotNull()
    rows = frames.engine.rows(_last(frames, frames.cluster.where(told)))
    moving = [
        {name: row[name] for name in MOVING.names}
        for row in rows
        if len(row["replicas"]) > (planned.get(row["topic"]) or len(row["replicas"]))
    ]
    return as_frame(frames.engine, moving, MOVING) if moving else None


def _last(frames: Frames, told: Frame) -> Frame:
    """topic, partition, leader, replicas, since_ns, complete_ns: of rows of `cluster` the last of
    each partition up to its final read."""
    F = frames.engine.functions
    leaders = frames.engine.materialize(
        left_join(
            told.select(*TP, "leader", "replicas", "leader_epoch", "partition_epoch", "at_ns"),
            _read(frames),
            on=TP,
        )
    ).where(F.col("complete_ns").isNotNull() & (F.col("at_ns") <= F.col("complete_ns")))
    order = frames.engine.window.partitionBy(*TP).orderBy(
        F.coalesce("leader_epoch", F.lit(-1)).desc(),
        F.coalesce("partition_epoch", F.lit(-1)).desc(),
        F.col("at_ns").desc(),
    )
    ranked = leaders.withColumn("rank", F.row_number().over(order)).where(F.col("rank") == F.lit(1))
    since = F.col("at_ns").alias("since_ns")
    return ranked.select(*TP, "leader", "replicas", since, "complete_ns")


def _read(frames: Frames) -> Frame:
    """topic, partition, complete_ns of every final read, complete or not."""
    F = frames.engine.functions
    ends = frames.other_rows.where(F.col("f") == F.lit("final-read-end"))
    return ends.groupBy(*TP).agg(F.max("complete_ns").alias("complete_ns"))
