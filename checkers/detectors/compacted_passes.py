"""Does a compacted topic have the last record of each key while the run goes on, too?

A reader reads each partition from its beginning to its end, again and again. Such a pass is no
snapshot: while it is under way, records are written, and superseded ones are removed. So only whole
passes count, each says something only of offsets that it passed, and it is one pass that misses a
record by chance: because a write arrived late, was appended behind what the pass read, and
superseded the record before the pass came to it. The next pass then has that write. So nobody is
accused before two passes in a row, PAIR, missed a record.

Sources: the Kafka documentation of log compaction (a reader from the beginning sees at least the
final state of each key, and all tombstones if it takes less than delete.retention.ms); KIP-534.
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.causes.matching import MARKER
from checkers.detectors.compacted import ANYWHERE, KEY, MS, keyed_writes
from checkers.engines.engine import Frame, as_frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.log_starts import clock_span_ns
from checkers.history.history import KEYED_PASS, KEYED_POLL, KEYED_READ, TP
from checkers.history.plan_file import planned_partitions
from checkers.losses import MISSING_KEY, REVERTED_KEY

PAIR = ("pass_op", "began_ns", "next_op", "until_ns", "next_end", "passed")
"""Two passes of a partition in a row: the first one and when it began, the next one, when it ended
and at which offset, and the offset below which both passed everything."""
_WHICH = ("pass_op", "next_op")
"""What names a pair."""
FINAL = -1
"""Stands for the operation of the final read."""
_STAYS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("stays_ns", pa.int64())])


def keyed_passes(frames: Frames) -> Iterator[Frame]:
    """kind missing-key: a record of a key was acknowledged before two passes in a row began, and
    both were given neither it nor a later record of the key. other_op: the second pass. aspect:
    null (they were given nothing of the key), stale (an older record), tombstone (nothing, and the
    missing record is a deletion that was too young to be removed), resurrected (an older record in
    its place).

    kind reverted-key: the same of a record that an earlier pass was given, whoever wrote it; op is
    that pass. The final read counts as the last pass, and needs no second one, because nobody
    writes any more.

    kind inconsistent-offset, aspect read: two passes, or a pass and the final read, were given
    different records at one offset. kind nonmonotonic-poll: a pass went back.
    """
    F, engine = frames.engine.functions, frames.engine
    given = (F.col("f") == F.lit(KEYED_POLL)) & (F.col("type") == F.lit("ok"))
    polled = engine.materialize(frames.history.where(given))
    final = engine.materialize(frames.history.where(F.col("f") == F.lit(KEYED_READ)))
    writes = keyed_writes(frames)
    passes = engine.materialize(_passes(frames))
    read = polled.unionByName(final.withColumn("op", F.lit(FINAL).cast("bigint")))
    seen = engine.materialize(_seen(frames, read, passes))
    if writes is not None:
        yield from _missing(frames, _pairs(frames, passes, alone=False), seen, writes)
    yield from _reverted(frames, _pairs(frames, passes, alone=True), seen, polled, writes)
    yield from _two_records(frames, polled, final, writes)
    yield from _back(frames, polled)


def _passes(frames: Frames) -> Frame:
    """Return topic, partition, pass_op, began_ns, ended_ns, reached, final (1: the final read) of
    every whole pass."""
    F = frames.engine.functions
    rows = frames.rare_rows.where(
        (F.col("f") == F.lit(KEYED_PASS)) & (F.col("type") == F.lit("ok"))
    )
    passes = rows.select(
        *TP, F.col("op").alias("pass_op"), F.col("invoke_ns").alias("began_ns"),
        F.col("complete_ns").alias("ended_ns"), F.col("offset").alias("reached"),
        F.lit(0).alias("final"),
    )  # fmt: skip
    ends = frames.rare_rows.where(F.col("f") == F.lit("final-read-end"))
    ends = ends.groupBy(*TP).agg(F.min("invoke_ns").alias("began_ns"))
    whole = frames.engine.materialize(ends).join(frames.complete, on=TP, how="inner")
    read = whole.select(
        *TP, F.lit(FINAL).cast("bigint").alias("pass_op"), "began_ns",
        F.col("read_ns").alias("ended_ns"), F.col("end_offset").alias("reached"),
        F.lit(1).alias("final"),
    )  # fmt: skip
    return passes.unionByName(read)


def _pairs(frames: Frames, passes: Frame, *, alone: bool) -> Frame:
    """Return topic, partition and PAIR. alone: the final read is a pair with itself, too; otherwise
    it is in none."""
    F, engine = frames.engine.functions, frames.engine
    order = engine.window.partitionBy(*TP).orderBy("began_ns", "pass_op")
    along = passes.select(
        *TP, "pass_op", "began_ns", "ended_ns", "reached", "final",
        F.lead("pass_op").over(order).alias("next_op"),
        F.lead("began_ns").over(order).alias("next_began_ns"),
        F.lead("ended_ns").over(order).alias("until_ns"),
        F.lead("reached").over(order).alias("next_end"),
        F.lead("final").over(order).alias("next_final"),
    )  # fmt: skip
    apart = along.where(F.col("ended_ns") <= F.col("next_began_ns"))
    if not alone:
        apart = apart.where(F.col("next_final") == F.lit(0))
    passed = F.least("reached", "next_end").alias("passed")
    pairs = apart.select(*TP, *PAIR[:-1], passed)
    if not alone:
        return engine.materialize(pairs)
    last = passes.where(F.col("final") == F.lit(1)).select(
        *TP, "pass_op", "began_ns", F.col("pass_op").alias("next_op"),
        F.col("ended_ns").alias("until_ns"), F.col("reached").alias("next_end"),
        F.col("reached").alias("passed"),
    )  # fmt: skip
    return engine.materialize(pairs.unionByName(last))


def _seen(frames: Frames, given: Frame, passes: Frame) -> Frame:
    """Return topic, partition, key, pass_op, last (the offset of the last record of the key that
    the pass was given), ended_ns, final."""
    F = frames.engine.functions
    named = given.where(F.col("key").isNotNull()).withColumnRenamed("op", "pass_op")
    last = named.groupBy(*KEY, "pass_op").agg(F.max("offset").alias("last"))
    ends = passes.select(*TP, "pass_op", "ended_ns", "final")
    return frames.engine.materialize(last).join(ends, on=[*TP, "pass_op"], how="inner")


def _missed(frames: Frames, pairs: Frame, seen: Frame, known: Frame) -> Frame | None:
    """Return KEY, PAIR, offset, other_offset (of the last record of the key that the second pass
    was given): the records that both passes of a pair missed. None without any. known: KEY,
    known_ns, offset of records, and since when each is known."""
    F, engine = frames.engine.functions, frames.engine
    none = F.lit(None).cast("bigint")
    keys = engine.materialize(known.select(*KEY).distinct())
    asked = keys.join(pairs, on=TP, how="inner")
    asked = asked.select(*KEY, *PAIR, F.col("began_ns").alias("at_ns"), none.alias("offset"))
    told = known.select(
        *KEY, *(none.alias(name) for name in PAIR), F.col("known_ns").alias("at_ns"), "offset"
    )
    # What became known at the very beginning of a pass is not known before it.
    order = engine.window.partitionBy(*KEY).orderBy("at_ns", F.coalesce(F.col("offset"), F.lit(-1)))
    before = order.rowsBetween(engine.window.unboundedPreceding, -1)
    events = asked.unionByName(told).select(
        *KEY, *PAIR, F.max("offset").over(before).alias("newest")
    )
    due = events.where(F.col("pass_op").isNotNull() & (F.col("newest") < F.col("passed")))
    first = seen.select(*KEY, "pass_op", F.col("last").alias("first_last"))
    second = seen.select(*KEY, F.col("pass_op").alias("next_op"), F.col("last").alias("next_last"))
    due = left_join(engine.materialize(due), first, on=[*KEY, "pass_op"])
    due = left_join(engine.materialize(due), second, on=[*KEY, "next_op"])
    nothing = F.lit(-1)
    missed = frames.none_if_empty(
        due.where(
            (F.coalesce(F.col("first_last"), nothing) < F.col("newest"))
            & (F.coalesce(F.col("next_last"), nothing) < F.col("newest"))
        )
    )
    if missed is None:
        return None
    other = F.col("next_last").alias("other_offset")
    return missed.select(*KEY, *PAIR, F.col("newest").alias("offset"), other)


def _unexcused(frames: Frames, missed: Frame | None, writes: Frame | None) -> Frame | None:
    """Return of each missed record the first pair that no other write of the key excuses, with the
    column MARKER: up to where a later write of the key may have been, whose loss explains the miss
    as well. None without any.

    A write excuses a miss that may be behind what the second pass read: it was acknowledged there,
    or its outcome was not known when the first pass began. A deletion excuses it, too, if its
    tombstone was old enough to be removed before the second pass ended.
    """
    F, engine = frames.engine.functions, frames.engine
    if missed is None:
        return None
    if writes is None:
        found = missed.withColumn(MARKER, F.lit(None).cast("bigint"))
    else:
        told = engine.materialize(_other_writes(frames, missed, writes))
        found = left_join(missed, told, on=[*KEY, "offset", *_WHICH])
        found = found.where(F.coalesce(F.col("excused"), F.lit(0)) == F.lit(0)).drop("excused")
    line = engine.window.partitionBy(*KEY, "offset").orderBy("until_ns", *_WHICH)
    first = found.withColumn("nth", F.row_number().over(line)).where(F.col("nth") == F.lit(1))
    return frames.none_if_empty(first.drop("nth"))


def _other_writes(frames: Frames, missed: Frame, writes: Frame) -> Frame:
    """Return KEY, offset, the pair, excused (1 or 0) and MARKER of missed records: see above."""
    F, engine = frames.engine.functions, frames.engine
    others = writes.where(F.col("type") != F.lit("fail")).select(
        *KEY, "deletes", F.col("offset").alias("place"), F.col("invoke_ns").alias("sent_ns"),
        F.col("complete_ns").alias("over_ns"),
    )  # fmt: skip
    about = missed.join(others, on=KEY, how="inner")
    about = about.where(F.col("sent_ns") < F.col("until_ns"))
    about = left_join(engine.materialize(about), _tombstones_stay(frames), on=TP)
    unplaced = F.col("place").isNull()
    open_ = F.coalesce(F.col("over_ns") >= F.col("began_ns"), F.lit(True))
    behind = (unplaced & open_) | F.coalesce(F.col("place") >= F.col("next_end"), F.lit(False))
    later = unplaced | F.coalesce(F.col("place") >= F.col("offset"), F.lit(False))
    old = F.col("until_ns") - F.col("sent_ns") >= F.col("stays_ns")
    gone = (F.col("deletes") == F.lit(1)) & later & F.coalesce(old, F.lit(False))
    place = F.when(unplaced, F.lit(ANYWHERE)).when(later, F.col("place"))
    excuses = F.when(behind | gone, F.lit(1)).otherwise(F.lit(0))
    return about.groupBy(*KEY, "offset", *_WHICH).agg(
        F.max(excuses).alias("excused"), F.max(place).alias(MARKER)
    )


def _tombstones_stay(frames: Frames) -> Frame:
    """Return topic, partition, stays_ns: how long tombstones stay at least, by the clocks of all
    nodes, which faults may have set."""
    span_ns = clock_span_ns(frames.engine, frames.cluster)
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "stays_ns": frames.settings(topic).delete_retention_ms * MS - span_ns,
        }
        for topic, partition in planned_partitions(frames.plan)
    ]
    return as_frame(frames.engine, rows, _STAYS)


def _missing(frames: Frames, pairs: Frame, seen: Frame, writes: Frame) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    placed = F.col("offset").isNotNull() & F.col("complete_ns").isNotNull()
    acked = writes.where((F.col("type") == F.lit("ok")) & placed)
    known = acked.select(*KEY, F.col("complete_ns").alias("known_ns"), "offset")
    missed = _unexcused(frames, _missed(frames, pairs, seen, known), writes)
    if missed is None:
        return
    columns = [
        "op", "client", "value", "acks", "invoke_ns", "complete_ns", "leader_epoch", "node",
        "deletes",
    ]  # fmt: skip
    found = missed.join(acked.select(*KEY, "offset", *columns), on=[*KEY, "offset"], how="inner")
    found = engine.materialize(found)
    deleted, older = F.col("deletes") == F.lit(1), F.col("other_offset").isNotNull()
    aspect = F.when(deleted & older, F.lit("resurrected")).when(deleted, F.lit("tombstone"))
    yield evidence(
        engine,
        frames.with_causes(found),
        kind=F.lit(MISSING_KEY),
        aspect=aspect.when(older, F.lit("stale")),
        other_op=F.col("next_op"),
        detail=F.concat(F.lit("key "), F.col("key").cast("string")),
    )


def _reverted(
    frames: Frames, pairs: Frame, seen: Frame, polled: Frame, writes: Frame | None
) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    read = seen.where(F.col("final") == F.lit(0))
    known = read.select(*KEY, F.col("ended_ns").alias("known_ns"), F.col("last").alias("offset"))
    missed = _unexcused(frames, _missed(frames, pairs, seen, known), writes)
    if missed is None:
        return
    order = engine.window.partitionBy(*KEY, "offset").orderBy("complete_ns", "op")
    given = polled.select(*KEY, "offset", "op", "client", "value", "invoke_ns", "complete_ns")
    first = given.withColumn("nth", F.row_number().over(order)).where(F.col("nth") == F.lit(1))
    found = missed.join(engine.materialize(first), on=[*KEY, "offset"], how="inner")
    yield evidence(
        engine,
        _with_causes(frames, engine.materialize(found), writes),
        kind=F.lit(REVERTED_KEY),
        aspect=F.when(F.col("other_offset").isNotNull(), F.lit("stale")),
        other_op=F.when(F.col("next_op") != F.lit(FINAL), F.col("next_op")),
        acks=F.lit(None),
        detail=F.concat(F.lit("key "), F.col("key").cast("string")),
    )


def _with_causes(frames: Frames, read: Frame, writes: Frame | None) -> Frame:
    """Add the column cause_id to records that were read: only what explains the loss of an acks=all
    write explains theirs. A tombstone, which has no value, may be of any deletion of its key."""
    F, engine = frames.engine.functions, frames.engine
    named = F.coalesce(F.col("value"), F.lit(-1) - F.col("offset")).alias("value")
    asked = read.select("op", *KEY, "offset", "invoke_ns", "complete_ns", MARKER, named)
    if writes is not None:
        value = F.when(F.col("deletes") == F.lit(0), F.col("value"))
        sent = writes.where(F.col("type") != F.lit("fail")).select(
            *KEY, "deletes", value.alias("sent"), F.col("invoke_ns").alias("sent_ns")
        )
        both = asked.select("op", *KEY, "value").join(sent, on=KEY, how="inner")
        same = (F.col("sent") == F.col("value")) | (
            (F.col("value") < F.lit(0)) & (F.col("deletes") == F.lit(1))
        )
        first = both.where(same).groupBy("op", *KEY, "value")
        first = engine.materialize(first.agg(F.min("sent_ns").alias("sent_ns")))
        asked = left_join(engine.materialize(asked), first, on=["op", *KEY, "value"])
    else:
        asked = asked.withColumn("sent_ns", F.lit(None).cast("bigint"))
    asked = asked.select(
        "op", *TP, "value", "offset", "invoke_ns", "complete_ns", MARKER,
        F.least("sent_ns", "invoke_ns").alias("written_ns"),
        F.lit(-1).alias("acks"),
        F.lit(None).cast("int").alias("leader_epoch"),
        F.lit(None).cast("int").alias("node"),
    )  # fmt: skip
    caused = frames.with_causes(engine.materialize(asked))
    caused = engine.materialize(caused.select("op", *TP, "offset", "cause_id"))
    return left_join(read, caused, on=["op", *TP, "offset"])


def _two_records(
    frames: Frames, polled: Frame, final: Frame, writes: Frame | None
) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    place = [*TP, "offset"]
    given = polled.unionByName(final).where(F.col("error").isNull() & F.col("key").isNotNull())
    value = F.coalesce(F.col("value"), F.lit(-1))
    least = given.select(*place, "key", value.alias("value")).groupBy(*place).agg(
        F.min("value").alias("least"), F.max("value").alias("greatest"),
        F.min("key").alias("least_key"), F.max("key").alias("greatest_key"),
    )  # fmt: skip
    differ = (F.col("least") < F.col("greatest")) | (F.col("least_key") < F.col("greatest_key"))
    two = frames.none_if_empty(least.where(differ).select(*place, "greatest"))
    if two is None:
        return
    reads = given.select(*KEY, "offset", "op", "client", "value", "invoke_ns", "complete_ns")
    order = engine.window.partitionBy(*place).orderBy("complete_ns", "op")
    reads = reads.join(two, on=place, how="inner")
    first = reads.withColumn("nth", F.row_number().over(order)).where(F.col("nth") == F.lit(1))
    none = F.lit(None).cast("bigint")
    first = engine.materialize(first.withColumn(MARKER, none))
    yield evidence(
        engine,
        _with_causes(frames, first, writes),
        kind=F.lit("inconsistent-offset"),
        aspect=F.lit("read"),
        acks=F.lit(None),
        detail=F.concat(F.lit("key "), F.col("key").cast("string")),
    )


def _back(frames: Frames, polled: Frame) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    polls = polled.groupBy("op", "client", *TP, "invoke_ns").agg(
        F.min("offset").alias("offset"), F.max("offset").alias("high"),
        F.max("complete_ns").alias("complete_ns"),
    )  # fmt: skip
    order = engine.window.partitionBy("op", *TP).orderBy("invoke_ns")
    before = order.rowsBetween(engine.window.unboundedPreceding, -1)
    along = polls.select(
        "op", "client", *TP, "offset", "invoke_ns", "complete_ns",
        (F.max("high").over(before) + F.lit(1)).alias("other_offset"),
    )  # fmt: skip
    back = frames.none_if_empty(along.where(F.col("offset") < F.col("other_offset")))
    if back is not None:
        detail = F.lit("inside one pass")
        kind = F.lit("nonmonotonic-poll")
        yield evidence(engine, back, kind=kind, other_op=F.col("op"), detail=detail)
