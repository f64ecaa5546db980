"""How long could nobody write? The longest gap between acknowledgements, and recovery times.

Counts sends whose acknowledgement means something (acks=1, acks=all). Works on buckets of time, so
that no task orders a whole partition; a gap shorter than a bucket may go unseen behind a longer one
only.
"""

from checkers.engine import Frame, div
from checkers.frames import TP, Frames, evidence, union

BUCKET_NS = 100_000_000


def unavailability(frames: Frames) -> Frame:
    """kind unavailable: the longest time of each partition without an acknowledgement while sends
    to it went on, from invoke_ns to complete_ns. kind recovery: from a fault's start or heal (at
    invoke_ns, aspect started or healed, other_op: the fault's id) to the next acknowledgement."""
    F = frames.engine.functions
    sends = frames.sends.where(F.col("acks") != F.lit(0))
    acks = frames.acked.where((F.col("acks") != F.lit(0)) & F.col("complete_ns").isNotNull())
    buckets = acks.withColumn("bucket", div(frames.engine, "complete_ns", BUCKET_NS))
    buckets = frames.engine.keep(
        buckets.groupBy(*TP, "bucket").agg(
            F.min("complete_ns").alias("first_ns"), F.max("complete_ns").alias("last_ns")
        )
    )
    tries = sends.groupBy(*TP).agg(
        F.min("invoke_ns").alias("first_ns"), F.max("invoke_ns").alias("last_ns")
    )
    return union(_longest_gaps(frames, buckets, tries), _recoveries(frames, acks, buckets))


def _longest_gaps(frames: Frames, buckets: Frame, tries: Frame) -> Frame:
    F = frames.engine.functions
    # The first try opens the first gap; a last try after the last answer closes the last one.
    answered = buckets.groupBy(*TP).agg(F.max("last_ns").alias("answered_ns"))
    closing = tries.join(answered, on=TP, how="left").where(
        F.col("answered_ns").isNull() | (F.col("last_ns") > F.col("answered_ns"))
    )
    opening = tries.select(*TP, F.col("first_ns").alias("from_ns"), F.col("first_ns").alias("to"))
    points = union(
        opening,
        closing.select(*TP, F.col("last_ns").alias("from_ns"), F.col("last_ns").alias("to")),
        buckets.select(*TP, F.col("last_ns").alias("from_ns"), F.col("first_ns").alias("to")),
    )
    order = frames.engine.window.partitionBy(*TP).orderBy("to", "from_ns")
    gaps = points.select(*TP, F.lag("from_ns").over(order).alias("invoke_ns"), "to")
    gaps = gaps.withColumn("gap_ns", F.col("to") - F.col("invoke_ns"))
    longest = frames.engine.window.partitionBy(*TP).orderBy(F.col("gap_ns").desc(), "to")
    gaps = gaps.where(F.col("gap_ns") > F.lit(0)).withColumn("rank", F.row_number().over(longest))
    return evidence(
        frames.engine,
        gaps.where(F.col("rank") == F.lit(1)),
        kind=F.lit("unavailable"),
        complete_ns=F.col("to"),
    )


def _recoveries(frames: Frames, acks: Frame, buckets: Frame) -> Frame:
    F = frames.engine.functions
    faults = frames.faults.where(F.col("took_effect"))
    moments = union(
        faults.select(
            "fault_id", F.lit("started").alias("aspect"), F.col("started_ns").alias("at")
        ),
        faults.select("fault_id", F.lit("healed").alias("aspect"), F.col("healed_ns").alias("at")),
    ).where(F.col("at").isNotNull() & (F.col("at") >= F.lit(0)))
    moments = frames.engine.keep(
        moments.withColumn("bucket", div(frames.engine, "at", BUCKET_NS)).withColumn(
            "at_bucket", div(frames.engine, "at", BUCKET_NS)
        )
    )
    soon = acks.withColumn("bucket", div(frames.engine, "complete_ns", BUCKET_NS)).join(
        moments.drop("at_bucket"), on="bucket", how="inner"
    )
    soon = soon.where(F.col("complete_ns") >= F.col("at"))
    later = buckets.join(
        moments.drop("bucket"), on=F.col("bucket") > F.col("at_bucket"), how="inner"
    )
    columns = ["fault_id", "aspect", "at", *TP]
    both = union(
        soon.select(*columns, F.col("complete_ns").alias("next_ns")),
        later.select(*columns, F.col("first_ns").alias("next_ns")),
    )
    nearest = both.groupBy(*columns).agg(F.min("next_ns").alias("next_ns"))
    return evidence(
        frames.engine,
        nearest,
        kind=F.lit("recovery"),
        invoke_ns=F.col("at"),
        complete_ns=F.col("next_ns"),
        other_op=F.col("fault_id"),
    )
