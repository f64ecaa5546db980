"""What consumers see: no record left out, no step back, no end offset that recedes."""

from collections.abc import Iterator

from checkers.engine import Column, Frame, div
from checkers.frames import TP, Frames, evidence

BUCKET_OFFSETS = 1 << 20
"""Offsets that are ordered together: the bound on what one task sorts of a partition."""


def poll_jumps(frames: Frames) -> Iterator[Frame]:
    """Where a consumer's position did not go on by one record.

    kind poll-skip: it jumped over offsets that hold records (other_offset: the greatest of them);
    offsets without records (control batches, aborted data) may be jumped over. kind
    nonmonotonic-poll: it went back without an assignment (other_offset: the position before).
    detail: in the same poll or not. Records of one poll are taken in the order of their offsets,
    since the history keeps no other.
    """
    F = frames.engine.functions
    jumps = frames.suspects(_jumps(frames))
    if jumps is None:
        return
    yield evidence(
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
    yield evidence(
        frames.engine,
        skipped,
        kind=F.lit("poll-skip"),
        other_offset=F.col("before"),
        detail=_where(frames),
    )


def _where(frames: Frames) -> Column:
    F = frames.engine.functions
    inside = F.col("op") == F.col("other_op")
    return F.when(inside, F.lit("inside one poll")).otherwise(F.lit("between polls"))


def _jumps(frames: Frames) -> Frame:
    """Polled records whose offset is not `expected`: one after the last, or as assigned."""
    F = frames.engine.functions
    polled = F.col("f") == F.lit("poll")
    # A negative assigned offset is a place (the beginning, the end) and not a number.
    after = F.when(polled, F.col("offset") + F.lit(1)).when(
        F.col("offset") >= F.lit(0), F.col("offset")
    )
    columns = ["op", "client", "f", "invoke_ns", "complete_ns", *TP, "value", "offset"]
    moves = frames.history.where(
        F.col("f").isin("poll", "assign") & (F.col("type") == F.lit("ok"))
    ).select(*columns, after.alias("after"))
    order = frames.engine.window.partitionBy("client", *TP).orderBy("op", "offset")
    steps = moves.select(
        *columns,
        F.lag("after").over(order).alias("expected"),
        F.lag("op").over(order).alias("other_op"),
    )
    # An unknown expectation compares as null, which is not true.
    return steps.where(polled & (F.col("offset") != F.col("expected")))


def _predecessors(frames: Frames) -> Frame:
    """topic, partition, offset, before: the record's predecessor in the log, for every offset that
    any read returned. Ordered bucket by bucket, so that no task needs a whole partition."""
    F = frames.engine.functions
    known = frames.engine.keep(
        frames.reads.select(
            *TP, "offset", div(frames.engine, "offset", BUCKET_OFFSETS).alias("bucket")
        ).distinct()
    )
    inside = frames.engine.window.partitionBy(*TP, "bucket").orderBy("offset")
    along = frames.engine.window.partitionBy(*TP).orderBy("bucket")
    tops = known.groupBy(*TP, "bucket").agg(F.max("offset").alias("top"))
    tops = tops.select(*TP, "bucket", F.lag("top").over(along).alias("below"))
    befores = known.select(*TP, "bucket", "offset", F.lag("offset").over(inside).alias("inside"))
    return befores.join(tops, on=[*TP, "bucket"], how="inner").select(
        *TP, "offset", F.coalesce(F.col("inside"), F.col("below")).alias("before")
    )


def watermark_regressions(frames: Frames) -> Iterator[Frame]:
    """The end offset that one client saw went back, between two asks one after the other.

    aspect deposed: the later answer is of an older leader epoch than the earlier one; advanced: it
    is not; null: the answers do not tell their epochs.
    """
    F = frames.engine.functions
    asked = frames.history.where(
        (F.col("f") == F.lit("watermark"))
        & (F.col("type") == F.lit("ok"))
        & F.col("offset").isNotNull()
    ).select("op", "client", "invoke_ns", "complete_ns", *TP, "offset", "leader_epoch", "node")
    order = frames.engine.window.partitionBy("client", *TP).orderBy("complete_ns", "op")
    steps = asked.select(
        "op", "client", "invoke_ns", "complete_ns", *TP, "offset", "leader_epoch", "node",
        F.lag("leader_epoch").over(order).alias("other_epoch"),
        F.lag("offset").over(order).alias("other_offset"),
        F.lag("op").over(order).alias("other_op"),
        F.lag("complete_ns").over(order).alias("other_complete_ns"),
    )  # fmt: skip
    back = frames.suspects(
        steps.where(
            (F.col("offset") < F.col("other_offset"))
            & (F.col("other_complete_ns") <= F.col("invoke_ns"))
        )
    )
    if back is not None:
        older = F.col("leader_epoch") < F.col("other_epoch")
        aspect = F.when(older, F.lit("deposed")).when(~older, F.lit("advanced"))
        found, kind = frames.near_change(back), F.lit("watermark-regression")
        yield evidence(frames.engine, found, kind=kind, aspect=aspect)
