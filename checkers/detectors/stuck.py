"""Clients and partitions that never recover although all faults were healed.

The time after the last heal of any fault is judged, and only if it was long enough to recover.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from checkers.detectors.writable import longest_writable
from checkers.engines.engine import Frame, as_frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.ownership import ASSIGNED, LOST, REVOKED
from checkers.history.history import TP
from checkers.history.plan_file import IMPORTED

PATIENCE_NS = 10_000_000_000
"""A client or partition that needs longer than this is stuck, and not merely slow."""

WRITERS = pa.schema(
    [
        ("client", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("since_ns", pa.int64()),
        ("complete_ns", pa.int64()),
    ]
)
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

    aspect producer: a client sent to a partition after the last heal, and until the client ended no
    such send, and no send that was open at the heal, was acknowledged. The acknowledgement of a
    send counts although its transaction was aborted. Only time counts in which the partition could
    be written to, unless it never could again. aspect consumer: from the last heal until it
    ended, or gave the partition up, a consumer got no record although there was one. aspect
    election: a partition had no leader until its final read. aspect reassignment: a partition had
    more replicas than planned until its final read, and nothing changed. Nothing is judged while a
    fault is in force.
    """
    healed_ns = _healed_ns(frames)
    if healed_ns is None:
        return
    F = frames.engine.functions
    ends = frames.engine.materialize(
        frames.rare_rows.where(F.col("f") == F.lit("end")).select(
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
    """Return when the last fault was healed, 0 without any. None while a fault is in force, and for
    an import: its faults are not recorded, and its clients may stop at any time.

    A fault that was healed before its effect was seen counts too: it may have stopped a client, as
    a kill does between two observations.
    """
    rows = frames.fault_rows
    if frames.plan.get("system") == IMPORTED:
        return None
    if any(row["took_effect"] and row["healed_ns"] is None for row in rows):
        return None
    return max((row["healed_ns"] for row in rows if row["healed_ns"] is not None), default=0)


def _producers(frames: Frames, ends: Frame, healed_ns: int) -> Frame | None:
    """Return client, topic, partition, since_ns, complete_ns of clients that sent after the heal
    without success: the longest time in which they could have had some."""
    F = frames.engine.functions
    open_then = F.col("complete_ns").isNull() | (F.col("complete_ns") > F.lit(healed_ns))
    late = F.when(F.col("invoke_ns") >= F.lit(healed_ns), F.col("invoke_ns"))
    acknowledged = (F.col("type") == F.lit("ok")) | F.col("offset").isNotNull()
    success = F.when(acknowledged, F.lit(1)).otherwise(F.lit(0))
    tries = (
        frames.sends.where(open_then & (F.col("acks") != F.lit(0)))
        .groupBy("client", *TP)
        .agg(
            F.min(late).alias("since_ns"),
            F.sum(success).alias("successes"),
            F.max("acks").alias("acks"),
        )
    )
    futile = (F.col("successes") == F.lit(0)) & F.col("since_ns").isNotNull()
    never = frames.none_if_empty(tries.where(futile).join(ends, on="client", how="inner"))
    return None if never is None else as_frame(frames.engine, _writers(frames, never), WRITERS)


def _writers(frames: Frames, never: Frame) -> Iterator[dict[str, Any]]:
    """Narrow the time of each row of `never` to that in which its partition could be written to."""
    F = frames.engine.functions
    leaders = frames.cluster.where(F.col("kind") == F.lit("leader")).join(
        never.select(*TP).distinct(), on=TP, how="left_semi"
    )
    told: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in frames.engine.rows(leaders.select(*TP, "leader", "isr", "at_ns").orderBy("at_ns")):
        told[row["topic"], row["partition"]].append(row)
    for row in frames.engine.rows(never):
        least = frames.greatest_min_isr(row["topic"]) if row["acks"] == -1 else 0
        span = row["since_ns"], row["complete_ns"]
        since_ns, until_ns = longest_writable(told[row["topic"], row["partition"]], least, *span)
        kept = {name: row[name] for name in ("client", *TP)}
        yield kept | {"since_ns": since_ns, "complete_ns": until_ns}


def _consumers(frames: Frames, ends: Frame, healed_ns: int) -> Frame:
    """Return client, topic, partition, offset, value, since_ns, complete_ns of consumers that got
    nothing since the heal: the first record that each one missed; it was acknowledged at since_ns.
    """
    F = frames.engine.functions
    last = frames.polls.groupBy("client", *TP).agg(
        (F.max("last_offset") + F.lit(1)).alias("offset"), F.max("complete_ns").alias("polled_ns")
    )
    last = last.where(F.col("polled_ns") < F.lit(healed_ns)).drop("polled_ns")
    written = frames.sends_in_place.where(F.col("acks") == F.lit(-1)).select(
        *TP, "offset", "value", F.col("complete_ns").alias("since_ns")
    )
    missed = last.join(written, on=[*TP, "offset"], how="inner")
    missed = frames.engine.materialize(missed.join(ends, on="client", how="inner"))
    return _while_owned(frames, missed)


def _while_owned(frames: Frames, missed: Frame) -> Frame:
    """Return the rows for the time for which the client owned the partition: since its last
    assignment, and no longer than until it gave the partition up after that. A client that names no
    assignments owned it all the time."""
    F, engine = frames.engine.functions, frames.engine
    calls = frames.rare_rows.where(F.col("f").isin(ASSIGNED, REVOKED, LOST))
    calls = calls.where(F.col("type") != F.lit("fail"))
    along = engine.window.partitionBy("client", *TP).orderBy(F.col("op").desc())
    last = calls.select(
        "client", *TP, "f", "invoke_ns",
        F.coalesce("complete_ns", "invoke_ns").alias("assigned_ns"),
        F.row_number().over(along).alias("place"),
    ).where(F.col("place") == F.lit(1))  # fmt: skip
    owned = F.col("f") == F.lit(ASSIGNED)
    last = last.select(
        "client", *TP,
        F.when(owned, F.col("assigned_ns")).alias("assigned_ns"),
        F.when(~owned, F.col("invoke_ns")).alias("gave_up_ns"),
    )  # fmt: skip
    known = left_join(missed, engine.materialize(last), on=["client", *TP])
    return known.select(
        *(name for name in missed.columns if name not in ("since_ns", "complete_ns")),
        F.greatest("since_ns", F.coalesce("assigned_ns", "since_ns")).alias("since_ns"),
        F.least("complete_ns", F.coalesce("gave_up_ns", "complete_ns")).alias("complete_ns"),
    )


def _elections(frames: Frames) -> Frame:
    """Return topic, partition, since_ns, complete_ns of partitions without a leader until the final
    read."""
    F = frames.engine.functions
    rows = frames.cluster.where(F.col("kind") == F.lit("leader"))
    leaderless = F.col("leader").isNull() | (F.col("leader") < F.lit(0))
    return _last(frames, rows).where(leaderless).select(*TP, "since_ns", "complete_ns")


def _reassignments(frames: Frames) -> Frame | None:
    """Return topic, partition, since_ns, complete_ns of partitions with more replicas than planned
    until the final read, as during a reassignment (KIP-455); None without any."""
    F = frames.engine.functions
    planned = {
        each["name"]: each.get("replication_factor") for each in frames.plan.get("topics") or ()
    }
    with_replicas = (F.col("kind") == F.lit("leader")) & F.col("replicas").isNotNull()
    rows = frames.engine.rows(_last(frames, frames.cluster.where(with_replicas)))
    moving = [
        {name: row[name] for name in MOVING.names}
        for row in rows
        if len(row["replicas"]) > (planned.get(row["topic"]) or len(row["replicas"]))
    ]
    return as_frame(frames.engine, moving, MOVING) if moving else None


def _last(frames: Frames, rows: Frame) -> Frame:
    """Return topic, partition, leader, replicas, since_ns, complete_ns: the last of the `cluster`
    rows of each partition before its final read."""
    F = frames.engine.functions
    leaders = frames.engine.materialize(
        left_join(
            rows.select(*TP, "leader", "replicas", "leader_epoch", "partition_epoch", "at_ns"),
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
    """Return topic, partition, complete_ns of every final read, complete or not."""
    F = frames.engine.functions
    ends = frames.rare_rows.where(F.col("f") == F.lit("final-read-end"))
    return ends.groupBy(*TP).agg(F.max("complete_ns").alias("complete_ns"))
