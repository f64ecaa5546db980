"""Is every write to a compacted topic in the log once, in the order of the acknowledgements?

Compaction removes records and moves none, so what the final log still has must be in order. What it
has not says nothing.
"""

from collections.abc import Iterator

from checkers.detectors.compacted import KEY, held, keyed_writes
from checkers.detectors.keyed_duplicates import keyed_duplicates
from checkers.engines.engine import Frame
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import KEYED_READ, TP


def keyed_order(frames: Frames) -> Iterator[Frame]:
    """kind duplicate: see `keyed_duplicates`.

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
    yield from keyed_duplicates(frames, writes, records)
    yield from _reordered(frames, writes, records)


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
