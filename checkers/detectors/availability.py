"""Unavailability: the longest gap between acknowledgements, and recovery times after faults.

A partition that faults keep out of reach cannot be written to. What counts is the time without an
acknowledgement although the partition could have been reached (see `unreachable`).

Only acks=1 and acks=all sends count, because an acks=0 send is not acknowledged. The detector works
on buckets of time, so that no task orders a whole partition. It can miss a gap shorter than a
bucket only beside a longer gap.
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.detectors.unreachable import out_of_reach, read_outage
from checkers.engines.engine import Frame, as_frame, div, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import TP

BUCKET_NS = 100_000_000
MOMENTS = pa.schema(
    [
        ("fault_id", pa.int32()),
        ("aspect", pa.string()),
        ("at_ns", pa.int64()),
        ("at_bucket", pa.int64()),
    ]
)
SPANS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_ns", pa.int64()),
        ("last_ns", pa.int64()),
    ]
)


def unavailability(frames: Frames) -> Iterator[Frame]:
    """kind unavailable: the longest time of each partition without an acknowledgement, from
    invoke_ns to complete_ns, while clients sent to it and it was within reach. aspect out-of-reach:
    the longest such time including times out of reach, for partitions that had any. kind recovery:
    from a fault's start or heal (invoke_ns, aspect started or healed, other_op: the fault's id) to
    the next acknowledgement.
    """
    F = frames.engine.functions
    answers = frames.acked.where(
        (F.col("acks") != F.lit(0)) & F.col("complete_ns").isNotNull()
    ).select(*TP, "complete_ns", div(frames.engine, "complete_ns", BUCKET_NS).alias("bucket"))
    buckets = frames.engine.materialize(
        answers.groupBy(*TP, "bucket").agg(
            F.min("complete_ns").alias("first_ns"), F.max("complete_ns").alias("last_ns")
        )
    )
    points = _points(frames, buckets)
    excused = _excused(frames, points)
    within = points if excused is None else frames.engine.materialize(points.unionByName(excused))
    kind, until_ns = F.lit("unavailable"), F.col("until_ns")
    yield evidence(frames.engine, _longest_gaps(frames, within), kind=kind, complete_ns=until_ns)
    if excused is not None:
        concerned = frames.engine.materialize(points.join(excused, on=TP, how="left_semi"))
        yield evidence(
            frames.engine,
            _longest_gaps(frames, concerned),
            kind=kind,
            aspect=F.lit("out-of-reach"),
            complete_ns=until_ns,
        )
    moments = _moments(frames)
    if moments is not None:
        yield evidence(
            frames.engine,
            _next_answers(frames, answers, buckets, moments),
            kind=F.lit("recovery"),
            invoke_ns=F.col("at_ns"),
            complete_ns=F.col("next_ns"),
            other_op=F.col("fault_id"),
        )


def _moments(frames: Frames) -> Frame | None:
    """fault_id, aspect, at_ns, at_bucket of every fault's start and heal; None without any."""
    rows = [
        {
            "fault_id": row["fault_id"],
            "aspect": aspect,
            "at_ns": row[f"{aspect}_ns"],
            "at_bucket": row[f"{aspect}_ns"] // BUCKET_NS,
        }
        for row in frames.fault_rows
        for aspect in ("started", "healed")
        if row["took_effect"] and row[f"{aspect}_ns"] is not None
    ]
    if not rows:
        return None
    return as_frame(frames.engine, rows, MOMENTS)


def _excused(frames: Frames, points: Frame) -> Frame | None:
    """Return the times when partitions were out of reach, between their first and last points, as
    points too; None if all partitions were always within reach."""
    F = frames.engine.functions
    faults = frames.fault_rows
    outages = [found for row in faults if (found := read_outage(row)) is not None]
    leaders = frames.cluster.where(F.col("kind") == F.lit("leader")).select(*TP, "at_ns", "isr")
    spans = out_of_reach(frames.engine.rows(leaders), outages, frames.greatest_min_isr)
    rows = [
        {"topic": t, "partition": p, "first_ns": span.from_ns, "last_ns": span.until_ns}
        for (t, p), several in spans.items()
        for span in several
    ]
    if not rows:
        return None
    ends = points.groupBy(*TP).agg(
        F.min("first_ns").alias("from_ns"), F.max("last_ns").alias("to_ns")
    )
    known = as_frame(frames.engine, rows, SPANS)
    inside = known.join(ends, on=TP, how="inner").where(
        (F.col("first_ns") < F.col("to_ns")) & (F.col("from_ns") < F.col("last_ns"))
    )
    return frames.none_if_empty(
        inside.select(
            *TP,
            F.greatest("first_ns", "from_ns").alias("first_ns"),
            F.least("last_ns", "to_ns").alias("last_ns"),
        )
    )


def _points(frames: Frames, buckets: Frame) -> Frame:
    """Return topic, partition, first_ns, last_ns: time spans after which a gap may begin."""
    F = frames.engine.functions
    sends = frames.sends.where(F.col("acks") != F.lit(0))
    tries = sends.groupBy(*TP).agg(
        F.min("invoke_ns").alias("first_ns"), F.max("invoke_ns").alias("last_ns")
    )
    # The first try opens the first gap; a last try after the last answer closes the last one.
    answered = buckets.groupBy(*TP).agg(F.max("last_ns").alias("answered_ns"))
    edges = frames.engine.materialize(left_join(tries, answered, on=TP))
    opening = edges.select(*TP, "first_ns", F.col("first_ns").alias("last_ns"))
    closing = edges.where(
        F.col("answered_ns").isNull() | (F.col("last_ns") > F.col("answered_ns"))
    ).select(*TP, F.col("last_ns").alias("first_ns"), "last_ns")
    return frames.engine.materialize(
        buckets.select(*TP, "first_ns", "last_ns").unionByName(opening).unionByName(closing)
    )


def _longest_gaps(frames: Frames, points: Frame) -> Frame:
    """Return topic, partition, invoke_ns, until_ns: the longest gap of each partition."""
    F, window = frames.engine.functions, frames.engine.window
    order = window.partitionBy(*TP).orderBy("first_ns", "last_ns")
    before = order.rowsBetween(window.unboundedPreceding, -1)
    gaps = frames.engine.materialize(
        points.select(
            *TP,
            F.max("last_ns").over(before).alias("invoke_ns"),
            F.col("first_ns").alias("until_ns"),
        )
    )
    gap_ns = F.col("until_ns") - F.col("invoke_ns")
    longest = window.partitionBy(*TP).orderBy(gap_ns.desc(), "until_ns")
    ranked = gaps.where(gap_ns > F.lit(0)).withColumn("rank", F.row_number().over(longest))
    return ranked.where(F.col("rank") == F.lit(1))


def _next_answers(frames: Frames, answers: Frame, buckets: Frame, moments: Frame) -> Frame:
    """Return fault_id, aspect, at_ns, topic, partition, next_ns: the first acknowledgement at or
    after each moment, for each partition that had one."""
    F = frames.engine.functions
    columns = ["fault_id", "aspect", "at_ns", *TP]
    # In the moment's own bucket every answer counts, in later buckets only the first one.
    same = (F.col("bucket") == F.col("at_bucket")) & (F.col("complete_ns") >= F.col("at_ns"))
    later = F.col("bucket") > F.col("at_bucket")
    soon = answers.join(moments, on=same, how="inner").select(
        *columns, F.col("complete_ns").alias("next_ns")
    )
    after = buckets.join(moments, on=later, how="inner").select(
        *columns, F.col("first_ns").alias("next_ns")
    )
    return soon.unionByName(after).groupBy(*columns).agg(F.min("next_ns").alias("next_ns"))
