"""What consumers see: no record left out, no step back, no end offset that recedes."""

from checkers.engine import Column, Frame, div
from checkers.frames import TP, Frames, evidence, union

BUCKET_OFFSETS = 1 << 20
"""Offsets that are ordered together: the bound on what one task sorts of a partition."""


def poll_jumps(frames: Frames) -> Frame:
    """Where a consumer's position did not go on by one record.

    kind poll-skip: it jumped over offsets that hold records (other_offset: the greatest of them);
    offsets without records (control batches, aborted data) may be jumped over. kind
    nonmonotonic-poll: it went back without an assignment (other_offset: the position before).
    detail: in the same poll or not. Records of one poll are taken in the order of their offsets,
    since the history keeps no other.
    """
    F = frames.engine.functions
    jumps = frames.engine.keep(_jumps(frames))
    back = evidence(
        frames.engine,
        jumps.where(F.col("offset") < F.col("expected")),
        kind=F.lit("nonmonotonic-poll"),
        other_offset=F.col("expected"),
        detail=_where(frames),
    )
    skipped = (
        jumps.where(F.col("offset") > F.col("expected"))
        .join(_predecessors(frames), on=[*TP, "offset"], how="inner")
        .where(F.col("before") >= F.col("expected"))
    )
    skips = evidence(
        frames.engine,
        skipped,
        kind=F.lit("poll-skip"),
        other_offset=F.col("before"),
        detail=_where(frames),
    )
    return union(back, skips)


def _where(frames: Frames) -> Column:
    F = frames.engine.functions
    inside = F.col("op") == F.col("other_op")
    return F.when(inside, F.lit("inside one poll")).otherwise(F.lit("between polls"))


def _jumps(frames: Frames) -> Frame:
    """Polled records whose offset is not `expected`: one after the last, or as assigned."""
    F = frames.engine.functions
    moves = frames.history.where(
        F.col("f").isin("poll", "assign") & (F.col("type") == F.lit("ok"))
    ).select("op", "client", "f", "invoke_ns", "complete_ns", *TP, "value", "offset")
    # A negative assigned offset is a place (the beginning, the end) and not a number.
    assigned = F.when(F.col("offset") >= F.lit(0), F.col("offset"))
    after = F.when(F.col("f") == F.lit("assign"), assigned).otherwise(F.col("offset") + F.lit(1))
    order = frames.engine.window.partitionBy("client", *TP).orderBy("op", "offset")
    moves = moves.withColumn("after", after)
    moves = moves.withColumn("expected", F.lag("after").over(order))
    moves = moves.withColumn("other_op", F.lag("op").over(order))
    polled = (F.col("f") == F.lit("poll")) & F.col("expected").isNotNull()
    return moves.where(polled & (F.col("offset") != F.col("expected")))


def _predecessors(frames: Frames) -> Frame:
    """topic, partition, offset, before: the record's predecessor in the log, for every offset that
    any read returned. Ordered bucket by bucket, so that no task needs a whole partition."""
    F = frames.engine.functions
    known = frames.reads.select(*TP, "offset").distinct()
    known = known.withColumn("bucket", div(frames.engine, "offset", BUCKET_OFFSETS))
    inside = frames.engine.window.partitionBy(*TP, "bucket").orderBy("offset")
    known = known.withColumn("inside", F.lag("offset").over(inside))
    along = frames.engine.window.partitionBy(*TP).orderBy("bucket")
    tops = known.groupBy(*TP, "bucket").agg(F.max("offset").alias("top"))
    tops = tops.select(*TP, "bucket", F.lag("top").over(along).alias("below"))
    return known.join(tops, on=[*TP, "bucket"], how="inner").select(
        *TP, "offset", F.coalesce(F.col("inside"), F.col("below")).alias("before")
    )


def watermark_regressions(frames: Frames) -> Frame:
    """The end offset that one client saw went back, between two asks one after the other."""
    F = frames.engine.functions
    asked = frames.history.where(
        (F.col("f") == F.lit("watermark"))
        & (F.col("type") == F.lit("ok"))
        & F.col("offset").isNotNull()
    ).select("op", "client", "invoke_ns", "complete_ns", *TP, "offset")
    order = frames.engine.window.partitionBy("client", *TP).orderBy("complete_ns", "op")
    steps = (
        asked.withColumn("other_offset", F.lag("offset").over(order))
        .withColumn("other_op", F.lag("op").over(order))
        .withColumn("other_complete_ns", F.lag("complete_ns").over(order))
    )
    back = steps.where(
        (F.col("offset") < F.col("other_offset"))
        & (F.col("other_complete_ns") <= F.col("invoke_ns"))
    )
    return evidence(frames.engine, frames.near_change(back), kind=F.lit("watermark-regression"))
