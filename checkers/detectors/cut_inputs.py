"""What groups get: when, and what of it they get again because the log was cut below their place.

A member whose place is no longer in the log begins again where its client resets it to: at the
start of the log, or where the logs part (auto.offset.reset, KIP-320). It gets records again that it
had committed. That the log lost records is judged by itself (truncated-read, lost-write).
"""

import pyarrow as pa

from checkers.contract.conditions import INPUT_CUT
from checkers.engines.engine import Frame, as_frame, left_join
from checkers.frames.frames import Frames
from checkers.frames.ownership import GROUP, ownership
from checkers.frames.transactions import ANYWHERE
from checkers.history.history import TP
from checkers.history.settings import FOREVER_NS

_LOSSES = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("lost_ns", pa.int64())],
)


def deliveries(frames: Frames) -> Frame:
    """Return op, client, GROUP, value, offset, invoke_ns, complete_ns of the records that members
    got."""
    F = frames.engine.functions
    polls = frames.history.where((F.col("f") == F.lit("poll")) & F.col("group").isNotNull())
    columns = ["op", "client", *GROUP, "value", "offset", "invoke_ns", "complete_ns"]
    return polls.where(F.col("offset").isNotNull()).select(*columns)


def around(frames: Frames, missing: Frame) -> Frame:
    """Return GROUP, offset, before_ns, after_ns: when the group first had got what is below and
    what is above each missing offset."""
    F, engine = frames.engine.functions, frames.engine
    concerned = engine.materialize(missing.select(*GROUP).distinct())
    got = deliveries(frames).join(concerned, on=GROUP, how="left_semi")
    got = got.groupBy(*GROUP, "offset").agg(F.min("complete_ns").alias("first_ns"))
    gaps = missing.select(*GROUP, "offset", F.lit(None).cast("bigint").alias("first_ns"))
    along = engine.window.partitionBy(*GROUP)
    up = along.orderBy("offset").rowsBetween(engine.window.unboundedPreceding, -1)
    down = along.orderBy("offset").rowsBetween(1, engine.window.unboundedFollowing)
    line = got.unionByName(gaps).select(
        *GROUP, "offset", "first_ns",
        F.coalesce(F.max("first_ns").over(up), F.lit(-1)).alias("before_ns"),
        F.coalesce(F.min("first_ns").over(down), F.lit(FOREVER_NS)).alias("after_ns"),
    )  # fmt: skip
    return engine.materialize(line.where(F.col("first_ns").isNull()).drop("first_ns"))


def written_before(frames: Frames, missing: Frame, moments: Frame) -> Frame:
    """Return the missing records (GROUP, offset, value) but those that were sent after the group
    had got one above: the log was cut in between. moments: the result of `around`.
    """
    F, engine = frames.engine.functions, frames.engine
    values = engine.materialize(missing.select("value").distinct())
    sent = frames.sends.join(values, on="value", how="left_semi")
    sent = engine.materialize(sent.groupBy("value").agg(F.min("invoke_ns").alias("sent_ns")))
    late = missing.select(*GROUP, "offset", "value").join(sent, on="value", how="inner")
    late = late.join(moments, on=[*GROUP, "offset"], how="inner")
    late = engine.materialize(late.where(F.col("sent_ns") > F.col("after_ns")))
    return missing.join(late.select(*GROUP, "offset"), on=[*GROUP, "offset"], how="left_anti")


def with_cuts(frames: Frames, places: Frame) -> Frame:
    """Add cut to `places` (GROUP, offset): INPUT_CUT if the group got the record again since the
    log was cut below its place, else null.

    A member got the record in an assignment in which its place had been above it. At the record, or
    above, the group had got a record before that the final log does not have. Or a member was told
    that its place is not in the log, and it was right: the log was not read to its end, or a leader
    may have lost committed records, with permission, that a later leader had again.
    """
    F, engine = frames.engine.functions, frames.engine
    groups = engine.materialize(places.select(*GROUP).distinct())
    polls = deliveries(frames).drop("invoke_ns").join(groups, on=GROUP, how="left_semi")
    polls = engine.materialize(polls)
    back = frames.none_if_empty(_went_back(frames, polls))
    if back is None:
        return places.withColumn("cut", F.lit(None).cast("string"))
    cuts = _cuts(frames, polls)
    found = back.join(cuts, on=GROUP, how="inner").where(
        (F.col("offset") <= F.col("top")) & (F.col("cut_ns") <= F.col("complete_ns"))
    )
    marked = engine.materialize(found.select(*GROUP, "offset").distinct())
    marked = marked.withColumn("cut", F.lit(INPUT_CUT))
    return left_join(engine.materialize(places), marked, on=[*GROUP, "offset"])


def _went_back(frames: Frames, polls: Frame) -> Frame:
    """Return the polls of records below the place that their client had in its assignment."""
    F, engine = frames.engine.functions, frames.engine
    owned = ownership(engine, frames.other_rows, frames.client_lifetimes)
    begins = owned.select("op", "client", *GROUP, (F.col("position") - F.lit(1)).alias("offset"))
    begins = begins.withColumn("complete_ns", F.lit(None).cast("bigint"))
    steps = polls.drop("value").withColumn("begins", F.lit(0)).unionByName(
        begins.withColumn("begins", F.lit(1))
    )  # fmt: skip
    window = engine.window
    line = window.partitionBy("client", *GROUP).orderBy("op", "offset")
    so_far = line.rowsBetween(window.unboundedPreceding, 0)
    numbered = steps.withColumn("assignment", F.sum("begins").over(so_far))
    line = window.partitionBy("client", *GROUP, "assignment").orderBy("op", "offset")
    before = line.rowsBetween(window.unboundedPreceding, -1)
    reached = numbered.withColumn("reached", F.max("offset").over(before))
    below = (F.col("begins") == F.lit(0)) & (F.col("offset") <= F.col("reached"))
    return reached.where(below).select(*GROUP, "offset", "complete_ns")


def _cuts(frames: Frames, polls: Frame) -> Frame:
    """Return GROUP, top (the greatest offset of the records that the group got and the final log
    does not have), cut_ns (when it first got one of them)."""
    F, engine = frames.engine.functions, frames.engine
    log = frames.final_log.select(*TP, "offset", F.coalesce("value", F.lit(-1)).alias("kept"))
    ends = frames.complete.select(*TP, F.lit(1).alias("whole"))
    known = left_join(left_join(polls, log, on=[*TP, "offset"]), ends, on=TP)
    replaced = F.col("kept") != F.coalesce("value", F.lit(-1))
    gone = F.coalesce(replaced, F.col("whole").isNotNull())
    lost = known.where(gone).select(*GROUP, "offset", "complete_ns")
    resets = frames.history.where((F.col("f") == F.lit("assign")) & F.col("error").isNotNull())
    members = engine.materialize(polls.select("client", *GROUP).distinct())
    told = resets.select("client", *TP, "complete_ns").join(members, on=["client", *TP])
    told = left_join(left_join(engine.materialize(told), ends, on=TP), _losses(frames), on=TP)
    right = F.coalesce(F.col("lost_ns") <= F.col("complete_ns"), F.lit(False))
    told = told.where(F.col("whole").isNull() | right)
    told = told.select(*GROUP, F.lit(ANYWHERE).alias("offset"), "complete_ns")
    cuts = engine.materialize(lost, told).groupBy(*GROUP)
    return cuts.agg(F.max("offset").alias("top"), F.min("complete_ns").alias("cut_ns"))


def _losses(frames: Frames) -> Frame:
    """Return topic, partition, lost_ns: since when the partition may have lost committed records
    with permission."""
    F = frames.engine.functions
    rows = [
        {"topic": cause.topic, "partition": cause.partition, "lost_ns": cause.from_ns}
        for cause in frames.causes.causes
        if frames.took_committed(cause)
    ]
    losses = as_frame(frames.engine, rows, _LOSSES)
    return losses.groupBy(*TP).agg(F.min("lost_ns").alias("lost_ns"))
