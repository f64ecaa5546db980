"""Is every value in the log once, at the offset that was promised, in the order it was sent?"""

from collections.abc import Iterator

from checkers.durability import read_as_committed
from checkers.engine import Frame
from checkers.frames import TP, Frames, evidence, left_join


def duplicates(frames: Frames) -> Iterator[Frame]:
    """Values at two or more offsets of one log; offset and other_offset: first and last.

    aspect client-epoch: the client may have sent the value again in a producer epoch of its own
    making, of which no broker can know that it repeats another.
    """
    F = frames.engine.functions
    if frames.repeated is None:
        return
    found = left_join(frames.repeated, frames.sends.drop("offset"), on=[*TP, "value"])
    yield evidence(
        frames.engine,
        frames.sent_again(found),
        kind=F.lit("duplicate"),
        offset=F.col("first_offset"),
        other_offset=F.col("last_offset"),
    )


def inconsistent_offsets(frames: Frames) -> Iterator[Frame]:
    """Offsets with two values.

    aspect read: two reads of one offset gave different values. aspect acknowledged: the value is
    in the final log, but not at the offset that was acknowledged for it (a value that is gone
    altogether is a lost write and not counted here again; a copy may lie there if the final read
    did not get that far); other_offset: where it is.
    """
    F = frames.engine.functions
    two_valued = _two_valued(frames)
    if two_valued is not None:
        yield evidence(
            frames.engine,
            frames.explained(read_as_committed(frames, two_valued)),
            kind=F.lit("inconsistent-offset"),
            aspect=F.lit("read"),
            acks=F.lit(None),
        )
    if frames.misplaced is not None:
        yield evidence(
            frames.engine,
            frames.explained(_where_read(frames, frames.misplaced)),
            kind=F.lit("inconsistent-offset"),
            aspect=F.lit("acknowledged"),
            other_offset=F.col("final_offset"),
        )


def _where_read(frames: Frames, sends: Frame) -> Frame:
    """Those at whose offset the final read found something, or that it passed."""
    F = frames.engine.functions
    ends = frames.read_ends.select(*TP, "whole", "reached")
    there = sends.select(*TP, "offset").distinct()
    there = there.join(frames.final.select(*TP, "offset"), on=[*TP, "offset"], how="left_semi")
    found = left_join(sends, ends, on=TP)
    found = left_join(found, there.withColumn("read", F.lit(1)), on=[*TP, "offset"])
    passed = (F.col("whole") == F.lit(1)) | (F.col("offset") < F.col("reached"))
    return found.where(passed | F.col("read").isNotNull()).select(*sends.columns)


def _two_valued(frames: Frames) -> Frame | None:
    """topic, partition, offset, value, other_value, op, invoke_ns, complete_ns of the offsets of
    which two values were read."""
    F = frames.engine.functions
    if frames.disputed is None:
        return None
    two = frames.disputed.where(F.col("value") < F.col("other_value"))
    reads = frames.reads.where(F.col("value").isNotNull())
    return frames.suspects(
        reads.join(two.select(*TP, "offset"), on=[*TP, "offset"], how="left_semi")
        .groupBy(*TP, "offset")
        .agg(
            F.min("value").alias("value"),
            F.max("value").alias("other_value"),
            F.min("invoke_ns").alias("invoke_ns"),
            F.max("complete_ns").alias("complete_ns"),
            F.min("op").alias("op"),
        )
    )


def reordered_sends(frames: Frames) -> Iterator[Frame]:
    """Steps back in the log: of one producer's acknowledged sends to one partition, in the order
    they were invoked, one lies at a lower offset than the one before it (other_*).

    A value's place is the first in the final log (where that was not read to its end, else the
    first that was read): acks=0 acknowledges no offset, a lost value has no place any more, since
    what was written later may have been given it, and a value written again later is a duplicate
    and not a reordering. Where the final read does not say what was lost, only a step back counts
    whose later send was read no later than the one before it: whoever reads goes up in one log, and
    what was read after what lay above may have been written into a log that was cut.
    """
    F = frames.engine.functions
    read_to_end = F.col("end_offset").isNotNull()
    place = F.when(read_to_end, F.col("final_offset")).otherwise(
        F.coalesce(F.col("final_offset"), F.col("first_offset"))
    )
    acked = frames.fates.where((F.col("type") == F.lit("ok")) & F.col("first_offset").isNotNull())
    placed = left_join(acked, frames.complete, on=TP).select(
        "op", "client", *TP, "value", "acks", "invoke_ns", "complete_ns", place.alias("offset")
    )
    placed = placed.where(F.col("offset").isNotNull())
    order = frames.engine.window.partitionBy("client", *TP).orderBy("op")
    # Of hundreds of millions of rows only what is compared is ordered.
    steps = placed.select(
        "op", "client", *TP, "offset",
        F.lag("offset").over(order).alias("other_offset"),
        F.lag("op").over(order).alias("other_op"),
    )  # fmt: skip
    back = frames.suspects(steps.where(F.col("offset") < F.col("other_offset")))
    if back is not None:
        before = placed.select(
            F.col("op").alias("other_op"), *TP, F.col("offset").alias("other_offset"),
            F.col("value").alias("other_value"),
        )  # fmt: skip
        found = left_join(back, placed.drop("client"), on=["op", *TP, "offset"])
        found = left_join(frames.engine.keep(found), before, on=["other_op", *TP, "other_offset"])
        yield evidence(frames.engine, _of_one_log(frames, found), kind=F.lit("reordered-send"))


def _of_one_log(frames: Frames, back: Frame) -> Frame:
    F = frames.engine.functions
    back = frames.engine.keep(back)
    both = back.select(*TP, "value").unionByName(
        back.select(*TP, F.col("other_value").alias("value"))
    )
    seen = frames.engine.keep(
        frames.reads.join(both, on=[*TP, "value"], how="left_semi")
        .groupBy(*TP, "value")
        .agg(F.min("complete_ns").alias("read_ns"))
    )
    seen_before = seen.select(
        *TP, F.col("value").alias("other_value"), F.col("read_ns").alias("other_read_ns")
    )
    found = left_join(left_join(back, seen, on=[*TP, "value"]), seen_before, [*TP, "other_value"])
    found = left_join(found, frames.complete.select(*TP, "end_offset"), on=TP)
    told = F.col("end_offset").isNotNull() | (F.col("read_ns") <= F.col("other_read_ns"))
    return found.where(told)
