"""Real-time order: what ended before another operation began. All clients of a run share one clock.

A log only grows at its end. So an operation that begins after another one has ended must show it: a
later write is behind an earlier one, a later end offset is beyond all earlier reads, a later read
returns the records that were acknowledged before. The detectors work on buckets of time, so that no
task orders a whole partition.
"""

import functools
from collections.abc import Iterator, Sequence

import pyarrow as pa

from checkers.contract.conditions import BEREFT, NEWEST
from checkers.detectors.forgotten import taking_committed
from checkers.detectors.refused_positions import REFUSED, refused_positions
from checkers.engines.engine import Frame, as_frame, div, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.slices import OFFSETS
from checkers.history.history import TP

BUCKET_NS = 100_000_000

BUCKET_OFFSETS = OFFSETS
"""How many offsets one task orders together. A bucket with two offsets that seem out of order is
examined closely."""

_LOSSES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("number", pa.int32()),
        ("from_ns", pa.int64()),
        ("until_ns", pa.int64()),
    ]
)


def reordered_acks(frames: Frames) -> Iterator[Frame]:
    """kind reordered-ack: a write began after another write was acknowledged (other_*), and was
    acknowledged at a lower offset. Both are in the final log at their acknowledged offsets.

    The two writes may come from different clients: only time counts. A lost write does not count.
    """
    F = frames.engine.functions
    late = _late(frames)
    if late is None:
        return
    kept = frames.sends_in_place
    back = frames.none_if_empty(overtaken(frames, _marks(frames, late), late))
    if back is None:
        return
    others = kept.select(
        *TP, F.col("offset").alias("passed"), F.col("value").alias("other_value"),
        F.col("op").alias("other_op"), F.col("client").alias("other_client"),
    )  # fmt: skip
    found = kept.join(back.select("op", *TP, "offset", "passed"), on=["op", *TP, "offset"])
    found = left_join(found, others, on=[*TP, "passed"])
    same = F.col("client") == F.col("other_client")
    yield evidence(
        frames.engine,
        found,
        kind=F.lit("reordered-ack"),
        other_offset=F.col("passed"),
        detail=F.when(same, F.lit("by the same client")).otherwise(F.lit("by another client")),
    )


def _late(frames: Frames) -> Frame | None:
    """Return op, topic, partition, at_ns, offset of the writes in place that began after a greater
    offset was acknowledged; None without any. Ordering by offset is half the work of ordering by
    time."""
    F, window = frames.engine.functions, frames.engine.window
    bucket = div(frames.engine, "offset", BUCKET_OFFSETS).alias("bucket")
    writes = frames.sends_in_place.select("op", *TP, "offset", "invoke_ns", "complete_ns", bucket)
    beyond = window.unboundedPreceding, -1
    columns = ["op", *TP, F.col("invoke_ns").alias("at_ns"), "offset"]
    late = []
    if (odd := _odd_buckets(frames, writes)) is not None:
        inside = window.partitionBy(*TP, "bucket").orderBy(F.col("offset").desc())
        ahead = F.min("complete_ns").over(inside.rowsBetween(*beyond)).alias("ahead")
        near = writes.join(odd, on=[*TP, "bucket"], how="left_semi")
        near = near.select("op", *TP, "offset", "invoke_ns", ahead)
        late.append(near.where(F.col("invoke_ns") > F.col("ahead")).select(*columns))
    along = window.partitionBy(*TP).orderBy(F.col("bucket").desc()).rowsBetween(*beyond)
    tops = writes.groupBy(*TP, "bucket").agg(
        F.min("complete_ns").alias("soonest"), F.max("invoke_ns").alias("latest")
    )
    tops = tops.select(*TP, "bucket", "latest", F.min("soonest").over(along).alias("after"))
    passed = frames.none_if_empty(tops.where(F.col("latest") > F.col("after")))
    if passed is not None:
        far = writes.join(passed.select(*TP, "bucket", "after"), on=[*TP, "bucket"], how="inner")
        late.append(far.where(F.col("invoke_ns") > F.col("after")).select(*columns))
    if not late:
        return None
    return frames.none_if_empty(functools.reduce(lambda a, b: a.unionByName(b).distinct(), late))


def _odd_buckets(frames: Frames, writes: Frame) -> Frame | None:
    """topic, partition, bucket in which some write may be late; None without any."""
    return frames.none_if_empty(*(_odd(frames, here(writes)) for here in frames.slices))


def _odd(frames: Frames, writes: Frame) -> Frame:
    """Of some whole buckets those in which a write may be late.

    Take a late write and the nearest behind it that was acknowledged before it began. It is one of
    the next two, or all between them had begun by then, and so had the next two: the late write
    began after both.
    """
    F, window = frames.engine.functions, frames.engine.window
    order = window.partitionBy(*TP, "bucket").orderBy("offset")
    steps = writes.select(
        *TP, "bucket", "invoke_ns",
        F.least(*(F.lead("complete_ns", n).over(order) for n in (1, 2))).alias("soonest"),
        F.lead("invoke_ns", 1).over(order).alias("next_ns"),
        F.lead("invoke_ns", 2).over(order).alias("second_ns"),
    )  # fmt: skip
    began = F.col("invoke_ns")
    after_both = (began > F.col("next_ns")) & (began > F.col("second_ns"))
    odd = steps.where((began > F.col("soonest")) | after_both)
    return odd.select(*TP, "bucket").distinct()


def _marks(frames: Frames, late: Frame) -> Frame:
    """topic, partition, at_ns, offset of the acknowledgements that can have overtaken late ones."""
    F = frames.engine.functions
    bounds = frames.engine.materialize(
        late.groupBy(*TP).agg(F.min("offset").alias("least"), F.max("at_ns").alias("until_ns"))
    )
    return (
        frames.sends_in_place.select(*TP, F.col("complete_ns").alias("at_ns"), "offset")
        .join(bounds, on=TP, how="inner")
        .where((F.col("offset") > F.col("least")) & (F.col("at_ns") < F.col("until_ns")))
        .select(*TP, "at_ns", "offset")
    )


def uncommitted_reads(frames: Frames) -> Iterator[Frame]:
    """kind uncommitted-read: an end offset told at or below a record that a consumer had been given
    before, or that had been acknowledged with acks=all (other_offset): the record was not committed
    then, or the end went back. aspect deposed: a leader told it that was none any more by then;
    newest: the last leader told it that the partition ever had, and nothing near took records;
    bereft: the partition has lost records with permission since, and after the loss no record at or
    beyond that end was given to a consumer, or was sent and acknowledged. A broker that refuses a
    consumer's position tells an end, too (see `refused_positions`)."""
    asks = _asks(frames)
    back = frames.none_if_empty(overtaken(frames, _lasting(frames), _moments(frames, asks)))
    if back is None:
        return
    F = frames.engine.functions
    found = frames.engine.materialize(asks.join(back.select("op", *TP, "passed"), on=["op", *TP]))
    found = left_join(found, _deposed(frames, found), on=["op", *TP])
    found = frames.engine.materialize(frames.with_leader_change(found, since="since_ns"))
    found = _of_the_newest(frames, found)
    yield evidence(
        frames.engine,
        _with_earlier_losses(frames, found),
        kind=F.lit("uncommitted-read"),
        other_offset=F.col("passed") - F.lit(1),
    )


def _asks(frames: Frames) -> Frame:
    """The ends that clients were told: the columns of `watermark_rows`, since_ns (the answer was
    given after it), detail."""
    F = frames.engine.functions
    asked = frames.watermark_rows.select(
        *frames.watermark_rows.columns,
        F.col("invoke_ns").alias("since_ns"),
        F.lit(None).cast("string").alias("detail"),
    )
    refused = refused_positions(frames)
    if refused is None:
        return asked
    told = refused.select(
        "op", "client", "invoke_ns", "complete_ns", *TP, "offset",
        F.lit(None).cast("int").alias("leader_epoch"), F.lit(None).cast("int").alias("node"),
        "since_ns", F.lit(f"the answer was {REFUSED}").alias("detail"),
    )  # fmt: skip
    return frames.engine.materialize(asked, told)


def _moments(frames: Frames, asks: Frame) -> Frame:
    """op, topic, partition, at_ns, offset of the asks."""
    return asks.select("op", *TP, frames.engine.functions.col("invoke_ns").alias("at_ns"), "offset")


def _lasting(frames: Frames) -> Frame:
    """topic, partition, began_ns, at_ns, offset: of `_polled` and `_committed`."""
    return _polled(frames).unionByName(_committed(frames))


def _committed(frames: Frames) -> Frame:
    """topic, partition, began_ns (of the first), at_ns (the last answer), offset behind the last
    record of the acks=all writes that were acknowledged in one bucket of time, and are in place.

    A leader answers them when its high watermark is behind them.
    """
    F, disputed = frames.engine.functions, frames.disputed_offsets
    rows = frames.sends_in_place.where(
        (F.col("type") == F.lit("ok"))
        & (F.col("acks") == F.lit(-1))
        & F.col("complete_ns").isNotNull()
    )
    if disputed is not None:
        two = disputed.where(F.col("value") < F.col("other_value"))
        rows = rows.join(two.select(*TP, "offset"), on=[*TP, "offset"], how="left_anti")
    bucket = div(frames.engine, "complete_ns", BUCKET_NS).alias("bucket")
    told = rows.groupBy(*TP, bucket).agg(
        F.min("invoke_ns").alias("began_ns"),
        F.max("complete_ns").alias("at_ns"),
        (F.max("offset") + F.lit(1)).alias("offset"),
    )
    return told.select(*TP, "began_ns", "at_ns", "offset")


def _polled(frames: Frames) -> Frame:
    """topic, partition, began_ns, at_ns, offset behind the last record of each poll that was not
    taken back.

    Whether it might be taken back, truncated-read and inconsistent-offset say; an end that is told
    after that is right to be below it.
    """
    F = frames.engine.functions
    polls, disputed = frames.polls, frames.disputed_offsets
    if disputed is not None:
        two = disputed.where(F.col("value") < F.col("other_value"))
        gone = disputed.join(frames.complete.select(*TP), on=TP, how="left_semi")
        rows = frames.reads.where(F.col("f") == F.lit("poll"))
        for taken in (two, gone):
            rows = rows.join(taken.select(*TP, "offset"), on=[*TP, "offset"], how="left_anti")
        polls = rows.groupBy("op", *TP).agg(
            F.max("offset").alias("last_offset"),
            F.min("invoke_ns").alias("invoke_ns"),
            F.max("complete_ns").alias("complete_ns"),
        )
    beyond = (F.col("last_offset") + F.lit(1)).alias("offset")
    known = polls.where(F.col("complete_ns").isNotNull())
    began, ended = F.col("invoke_ns").alias("began_ns"), F.col("complete_ns").alias("at_ns")
    return known.select(*TP, began, ended, beyond)


def _deposed(frames: Frames, answers: Frame) -> Frame:
    """op, topic, partition, aspect of the answers of leaders that had a successor by then."""
    F = frames.engine.functions
    known = frames.cluster.where(F.col("kind") == F.lit("leader")).select(
        *TP, F.col("leader_epoch").alias("newer_epoch"), F.col("at_ns").alias("elected_ns")
    )
    newer = (F.col("newer_epoch") > F.col("leader_epoch")) & (
        F.col("elected_ns") <= F.col("complete_ns")
    )
    pairs = answers.join(known, on=TP, how="inner").where(newer)
    return pairs.select("op", *TP).distinct().withColumn("aspect", F.lit("deposed"))


def _of_the_newest(frames: Frames, found: Frame) -> Frame:
    """Set aspect NEWEST of answers in the greatest leader epoch of a partition that was read to its
    end, if no leader change near them took committed records, and take their cause away.

    A replaced leader gave none of them, and a new one answers only when its high watermark has
    reached the start of its epoch (KIP-207).
    """
    F, engine = frames.engine.functions, frames.engine
    if frames.sources.run_file.zookeeper_lost_or_discarded:
        return found  # an epoch may have had two leaders
    epochs = frames.cluster.where(F.col("leader_epoch").isNotNull())
    epochs = epochs.where(F.col("kind").isin("leader", "view", "epoch"))
    epochs = epochs.groupBy(*TP).agg(F.max("leader_epoch").alias("last_epoch"))
    known = epochs.join(frames.complete.select(*TP), on=TP, how="left_semi")
    joined = left_join(found, engine.materialize(known), on=TP)
    taken = F.coalesce(F.col("cause_id").isin(*taking_committed(frames, found)), F.lit(False))
    newest = (F.col("leader_epoch") >= F.col("last_epoch")) & F.col("aspect").isNull() & ~taken
    newest = F.coalesce(newest, F.lit(False))
    aspect = F.when(newest, F.lit(NEWEST)).otherwise(F.col("aspect")).alias("aspect")
    cause = F.when(~newest, F.col("cause_id")).alias("cause_id")
    others = [name for name in found.columns if name not in ("aspect", "cause_id")]
    return engine.materialize(joined.select(*others, aspect, cause))


def _with_earlier_losses(frames: Frames, found: Frame) -> Frame:
    """Fill aspect bereft and `cause_id` of the answers that have no cause, and that a loss with
    permission explains, however long ago it was."""
    F, engine = frames.engine.functions, frames.engine
    aspect = F.coalesce("aspect", F.lit(NEWEST))
    unexplained = F.col("cause_id").isNull() & (aspect == F.lit(NEWEST))
    open_ = frames.none_if_empty(found.where(unexplained))
    losses = None if open_ is None else _permitted_losses(frames, open_)
    if open_ is None or losses is None:
        return found
    right = engine.materialize(_bereft(frames, _moments(frames, open_), losses))
    joined = left_join(found, right, on=["op", *TP])
    bereft = F.when(F.col("number").isNotNull(), F.lit(BEREFT)).otherwise(F.col("aspect"))
    cause = F.coalesce("number", "cause_id")
    return joined.withColumn("aspect", bereft).withColumn("cause_id", cause)


def _permitted_losses(frames: Frames, asks: Frame) -> Frame | None:
    """The rows of _LOSSES in the partitions of the asks: each cause that may have taken committed
    records with permission, since when it may have affected clients, and until when one may have
    been given a record that it took (as `matching.possible_causes` has it); None without any."""
    places = frames.engine.rows(asks.select(*TP).distinct())
    concerned = {(row["topic"], row["partition"]) for row in places}
    rows = [
        {
            "topic": cause.topic, "partition": cause.partition, "number": number,
            "from_ns": cause.from_ns,
            "until_ns": cause.near_until_ns if cause.of_state else cause.until_ns,
        }
        for number, cause in enumerate(frames.causes.causes)
        if (cause.topic, cause.partition) in concerned
        and frames.took_committed(cause)
    ]  # fmt: skip
    return as_frame(frames.engine, rows, _LOSSES) if rows else None


def _bereft(frames: Frames, asks: Frame, losses: Frame) -> Frame:
    """op, topic, partition, number of a loss, of the asks (see `overtaken`) after some loss, if no
    consumer was given a record at or beyond that end again in between.

    An end below the offset from which records were lost may be right, too: who reads committed
    records is told where the first open transaction begins, whose end may be among the lost.
    """
    F, engine = frames.engine.functions, frames.engine
    since = [*TP, "since_ns"]
    begun = asks.join(losses, on=TP, how="inner").where(F.col("from_ns") <= F.col("at_ns"))
    asked = begun.groupBy("op", *TP, "at_ns", "offset").agg(F.max("until_ns").alias("since_ns"))
    asked = engine.materialize(asked)
    again = overtaken(frames, _after_losses(frames, losses), asked, within=since)
    right = asked.join(engine.materialize(again), on=["op", *TP], how="left_anti")
    last = losses.groupBy(*TP, F.col("until_ns").alias("since_ns"))
    last = engine.materialize(last.agg(F.min("number").alias("number")))
    return right.join(last, on=since, how="inner").select("op", *TP, "number")


def _after_losses(frames: Frames, losses: Frame) -> Frame:
    """The marks (see `overtaken`) of what began after some loss, with since_ns: the last until_ns
    before. What is in the bucket of that moment does not count as after it."""
    F, engine, window = frames.engine.functions, frames.engine, frames.engine.window
    places = engine.materialize(losses.select(*TP).distinct())
    marks = _lasting(frames).join(places, on=TP, how="left_semi")
    bucket = div(engine, "began_ns", BUCKET_NS).alias("bucket")
    marks = engine.materialize(marks.select(*TP, "at_ns", "offset", bucket))
    next_bucket = (div(engine, "until_ns", BUCKET_NS) + F.lit(1)).alias("bucket")
    never = F.lit(None).cast("bigint").alias("until_ns")
    ended = losses.select(*TP, next_bucket, "until_ns")
    steps = marks.select(*TP, "bucket", never).unionByName(ended).groupBy(*TP, "bucket")
    steps = steps.agg(F.max("until_ns").alias("until_ns"))
    along = window.partitionBy(*TP).orderBy("bucket")
    since = F.max("until_ns").over(along.rowsBetween(window.unboundedPreceding, window.currentRow))
    steps = steps.select(*TP, "bucket", since.alias("since_ns"))
    known = engine.materialize(steps.where(F.col("since_ns").isNotNull()))
    return marks.join(known, on=[*TP, "bucket"], how="inner").drop("bucket")


def overtaken(frames: Frames, marks: Frame, asks: Frame, *, within: Sequence[str] = TP) -> Frame:
    """The asks (op, topic, partition, at_ns, offset) for which some mark (topic, partition, at_ns,
    offset) of an earlier moment has a greater offset; passed: the greatest of those. within: the
    columns that are equal for both."""
    F, window = frames.engine.functions, frames.engine.window
    bucket = div(frames.engine, "at_ns", BUCKET_NS).alias("bucket")
    none = F.lit(None).cast("bigint")
    # What happens at one moment is in no order: there a mark comes behind every ask.
    asked = asks.select(
        *within, "at_ns", bucket, F.lit(0).alias("turn"), "op", "offset", none.alias("mark")
    )
    marked = marks.select(
        *within, "at_ns", bucket, F.lit(1).alias("turn"), none.alias("op"), none.alias("offset"),
        F.col("offset").alias("mark"),
    )  # fmt: skip
    events = frames.engine.materialize(asked.unionByName(marked))
    along = window.partitionBy(*within).orderBy("bucket")
    tops = events.groupBy(*within, "bucket").agg(F.max("mark").alias("top"))
    earlier = F.max("top").over(along.rowsBetween(window.unboundedPreceding, -1))
    tops = tops.select(*within, "bucket", earlier.alias("earlier"))
    inside = window.partitionBy(*within, "bucket").orderBy("at_ns", "turn")
    before = F.max("mark").over(inside.rowsBetween(window.unboundedPreceding, window.currentRow))
    steps = events.select(*within, "bucket", "op", "offset", before.alias("before"))
    compared = steps.where(F.col("op").isNotNull()).join(tops, on=[*within, "bucket"], how="inner")
    nothing = F.lit(-1)
    passed = F.greatest(F.coalesce("before", nothing), F.coalesce("earlier", nothing))
    return compared.select("op", *within, "offset", passed.alias("passed")).where(
        F.col("offset") < F.col("passed")
    )


def stale_reads(frames: Frames) -> Iterator[Frame]:
    """kind stale-read: the poll of each partition that was furthest behind: a record that it missed
    had been acknowledged (invoke_ns) long before the poll began (complete_ns)."""
    F = frames.engine.functions
    longest = frames.engine.window.partitionBy(*TP).orderBy(
        (F.col("polled_ns") - F.col("acked_ns")).desc(), "op"
    )
    ranked = frames.stale_polls.withColumn("rank", F.row_number().over(longest))
    yield evidence(
        frames.engine,
        ranked.where(F.col("rank") == F.lit(1)),
        kind=F.lit("stale-read"),
        invoke_ns=F.col("acked_ns"),
        complete_ns=F.col("polled_ns"),
    )
