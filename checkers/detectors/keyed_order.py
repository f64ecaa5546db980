"""Is every write to a compacted topic in the log once, in the order of the acknowledgements?

Compaction removes records and moves none, so what the final log still has must be in order. What it
has not says nothing.
"""

from collections.abc import Iterator

from checkers.detectors.compacted import KEY, held, keyed_writes
from checkers.detectors.ordering import as_duplicates
from checkers.engines.engine import Frame
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import KEYED_READ, TP


def keyed_order(frames: Frames) -> Iterator[Frame]:
    """kind duplicate: a value at two or more offsets of one log; offset, other_offset: the first
    and the last. aspects: as of other topics.

    kind reordered-ack: a write began after another write of the partition was acknowledged
    (other_*), and was acknowledged at a lower offset. Both are in the final log at their
    acknowledged offsets. If both are of one key, readers keep the older value. Deletions take no
    part: a tombstone has no value that tells of which deletion of its key it is.
    """
    F = frames.engine.functions
    writes = keyed_writes(frames)
    if writes is None:
        return
    read = (F.col("f") == F.lit(KEYED_READ)) & (F.col("type") == F.lit("ok"))
    records = frames.engine.materialize(frames.history.where(read))
    yield from _duplicates(frames, writes, records)
    yield from _reordered(frames, writes, records)


def _duplicates(frames: Frames, writes: Frame, records: Frame) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    places = records.where(F.col("value").isNotNull()).groupBy(*TP, "value")
    places = places.agg(F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset"))
    twice = frames.none_if_empty(places.where(F.col("first_offset") < F.col("last_offset")))
    if twice is None:
        return
    once = writes.groupBy("value").agg(F.count(F.lit(1)).alias("times"))
    once = once.where(F.col("times") == F.lit(1)).select("value")
    sent = writes.where(F.col("deletes") == F.lit(0)).join(
        engine.materialize(once), on="value", how="left_semi"
    )
    columns = ["op", "client", "type", "invoke_ns", "complete_ns", *TP, "value", "acks"]
    found = twice.join(sent.select(*columns), on=[*TP, "value"], how="inner")
    found = frames.none_if_empty(found)
    if found is not None:
        yield as_duplicates(frames, found)


def _reordered(frames: Frames, writes: Frame, records: Frame) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    acked = writes.where((F.col("type") == F.lit("ok")) & (F.col("deletes") == F.lit(0)))
    kept = acked.join(held(frames, records), on=[*KEY, "offset"], how="inner")
    kept = engine.materialize(kept.where(F.col("held") == F.col("value")))
    order = engine.window.partitionBy(*TP).orderBy(F.col("offset").desc())
    above = order.rowsBetween(engine.window.unboundedPreceding, -1)
    ahead = kept.withColumn("ahead_ns", F.min("complete_ns").over(above))
    back = frames.none_if_empty(ahead.where(F.col("invoke_ns") > F.col("ahead_ns")))
    if back is None:
        return
    others = kept.select(
        *TP, F.col("complete_ns").alias("ahead_ns"), F.col("offset").alias("other_offset"),
        F.col("op").alias("other_op"), F.col("value").alias("other_value"),
        F.col("key").alias("other_key"),
    )  # fmt: skip
    pairs = back.join(others, on=[*TP, "ahead_ns"], how="inner")
    pairs = engine.materialize(pairs.where(F.col("offset") < F.col("other_offset")))
    last = pairs.groupBy("op").agg(F.max("other_offset").alias("other_offset"))
    found = pairs.join(engine.materialize(last), on=["op", "other_offset"], how="inner")
    of_key = F.when(F.col("key") == F.col("other_key"), F.lit("of the same key"))
    yield evidence(
        engine,
        found,
        kind=F.lit("reordered-ack"),
        detail=of_key.otherwise(F.lit("of another key")),
    )
