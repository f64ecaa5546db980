"""Is every write to a compacted topic in the log once?

Compaction removes records and moves none. So a record at another offset than its acknowledgement
named is a second copy, whether compaction has removed the first one or not. Such a copy supersedes
what was written to its key between the two.
"""

from collections.abc import Iterator

from checkers.detectors.compacted import KEY, TOMBSTONE
from checkers.detectors.durability import cut_clients
from checkers.detectors.forgotten import taking_committed
from checkers.detectors.ordering import as_duplicates
from checkers.engines.engine import Column, Frame
from checkers.frames.frames import Frames
from checkers.history.history import KEYED_POLL, TP
from checkers.history.plan_file import planned_partitions

_WRITE = ["op", "client", "type", "invoke_ns", "complete_ns", *TP, "value", "acks"]
_ASKED = ["op", *TP, "value", "offset", "acks", "invoke_ns", "complete_ns", "leader_epoch", "node"]
_PLACE = [*TP, "offset"]


def keyed_duplicates(frames: Frames, writes: Frame, records: Frame) -> Iterator[Frame]:
    """kind duplicate: a value at two or more offsets of one log; offset, other_offset: the first
    and the last. aspects: as of other topics.

    The acknowledged offset counts, too, and where passes were given the value, if the final read of
    the partition came to its end, and no cause may have taken one of the copies with permission. If
    another record was acknowledged or read at one of the offsets, that is an inconsistent offset.

    A tombstone has no value. It is a second copy if all deletions of its key were acknowledged at
    other offsets, by idempotent producers none of which left its epoch.
    """
    F, engine = frames.engine.functions, frames.engine
    once = writes.groupBy("value").agg(F.count(F.lit(1)).alias("times"))
    once = once.where(F.col("times") == F.lit(1)).select("value")
    sent = writes.where(F.col("deletes") == F.lit(0)).join(
        engine.materialize(once), on="value", how="left_semi"
    )
    places = records.where(F.col("value").isNotNull()).groupBy(*TP, "value")
    places = places.agg(F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset"))
    twice = frames.none_if_empty(places.where(F.col("first_offset") < F.col("last_offset")))
    if twice is not None:
        found = twice.join(sent.select(*_WRITE), on=[*TP, "value"], how="inner")
        found = frames.none_if_empty(found)
        if found is not None:
            yield as_duplicates(frames, found)
    elsewhere = _elsewhere(frames, writes, sent, records)
    if elsewhere is not None:
        if twice is not None:
            elsewhere = elsewhere.join(twice.select(*TP, "value"), [*TP, "value"], "left_anti")
        yield as_duplicates(frames, engine.materialize(elsewhere))
    yield from _tombstones(frames, writes, records)


def _elsewhere(frames: Frames, writes: Frame, sent: Frame, records: Frame) -> Frame | None:
    """Return _WRITE, first_offset, last_offset of the acknowledged writes whose value was read at
    another offset as well; None without any."""
    F, engine = frames.engine.functions, frames.engine
    acked = sent.where(_told(frames)).join(frames.complete.select(*TP), on=TP, how="left_semi")
    polled = frames.history.where((F.col("f") == F.lit(KEYED_POLL)) & F.col("value").isNotNull())
    polled = polled.where((F.col("type") == F.lit("ok")) & F.col("error").isNull())
    read = polled.unionByName(records.where(F.col("value").isNotNull() & F.col("error").isNull()))
    read = read.select(
        "f", *TP, "value", F.col("offset").alias("place"), F.col("op").alias("read_op"),
        F.col("invoke_ns").alias("read_ns"), F.col("complete_ns").alias("given_ns"),
    )  # fmt: skip
    both = read.join(acked.select(*TP, "value", "offset"), on=[*TP, "value"], how="inner")
    other = frames.none_if_empty(both.where(F.col("place") != F.col("offset")))
    if other is None:
        return None
    disputed = _disputed(frames, writes, records.unionByName(polled))
    for name in ("offset", "place"):
        places = disputed.select(*TP, F.col("offset").alias(name))
        other = engine.materialize(other.join(places, on=[*TP, name], how="left_anti"))
    kept = _kept(frames, acked.join(other.select("value").distinct(), on="value", how="left_semi"))
    other = engine.materialize(other.join(kept, on=[*TP, "value"], how="left_semi"))
    other = _last_given(frames, other, acked)
    ends = other.groupBy(*TP, "value", "offset").agg(
        F.min("place").alias("least"), F.max("place").alias("greatest")
    )
    found = engine.materialize(ends).join(acked.select(*_WRITE), on=[*TP, "value"], how="inner")
    first = F.least("least", "offset").alias("first_offset")
    last = F.greatest("greatest", "offset").alias("last_offset")
    return frames.none_if_empty(found.select(*_WRITE, first, last))


def _disputed(frames: Frames, writes: Frame, read: Frame) -> Frame:
    """Return TP, offset where two records were acknowledged or read."""
    F = frames.engine.functions
    value = F.when(F.col("deletes") == F.lit(0), F.col("value")).otherwise(F.lit(TOMBSTONE))
    acked = writes.where(_told(frames))
    told = acked.select(*_PLACE, value.alias("held")).unionByName(
        read.select(*_PLACE, F.coalesce(F.col("value"), F.lit(TOMBSTONE)).alias("held"))
    )
    told = told.groupBy(*_PLACE).agg(F.min("held").alias("least"), F.max("held").alias("greatest"))
    return frames.engine.materialize(told.where(F.col("least") < F.col("greatest"))).select(*_PLACE)


def _told(frames: Frames) -> Column:
    """Return whether a write was acknowledged with its offset. Some clients say -1 if the broker
    only tells them that it has the batch already."""
    F = frames.engine.functions
    return (F.col("type") == F.lit("ok")) & (F.col("offset") >= F.lit(0))


def _kept(frames: Frames, acked: Frame) -> Frame:
    """Return TP, value of the acknowledged writes that no cause may have taken from their offset
    with permission."""
    F, engine = frames.engine.functions, frames.engine
    caused = engine.materialize(frames.with_causes(engine.materialize(acked.select(*_ASKED))))
    taken = F.col("cause_id").isin(*taking_committed(frames, caused)) | (F.col("acks") != F.lit(-1))
    gone = F.coalesce(taken & F.col("cause_id").isNotNull(), F.lit(False))
    return engine.materialize(caused.where(~gone).select(*TP, "value"))


def _last_given(frames: Frames, other: Frame, acked: Frame) -> Frame:
    """Return the rows of `other` whose record no cause may have taken after it was read: its value
    may have been sent again since. Of what passes were given nothing is known where the leaders are
    not."""
    F, engine = frames.engine.functions, frames.engine
    given = frames.none_if_empty(other.where(F.col("f") == F.lit(KEYED_POLL)))
    if given is None:
        return other
    known = [
        f"{topic}-{partition}"
        for topic, partition in frames.causes.recorded
        if not frames.state_losses.possible(topic, partition)
    ]
    if frames.state_losses.metadata_start > 0:
        known = []
    sent = acked.select(*TP, "value", F.col("invoke_ns").alias("sent_ns"))
    asked = given.drop("offset").join(sent, on=[*TP, "value"], how="inner").select(
        F.col("read_op").alias("op"), *TP, "value", F.col("place").alias("offset"),
        F.lit(-1).alias("acks"), F.col("read_ns").alias("invoke_ns"),
        F.col("given_ns").alias("complete_ns"), F.least("sent_ns", "read_ns").alias("written_ns"),
        F.lit(None).cast("int").alias("leader_epoch"), F.lit(None).cast("int").alias("node"),
    )  # fmt: skip
    caused = engine.materialize(frames.with_causes(engine.materialize(asked)))
    taken = caused.where(F.col("cause_id").isin(*taking_committed(frames, caused)))
    taken = engine.materialize(taken.select(*TP, "value").distinct())
    name = F.concat(F.col("topic"), F.lit("-"), F.col("partition").cast("string"))
    sure = given.where(name.isin("", *known)).join(taken, on=[*TP, "value"], how="left_anti")
    return engine.materialize(sure.unionByName(other.where(F.col("f") != F.lit(KEYED_POLL))))


def _tombstones(frames: Frames, writes: Frame, records: Frame) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    deletions = writes.where((F.col("deletes") == F.lit(1)) & (F.col("type") != F.lit("fail")))
    topics = {topic for topic, _ in planned_partitions(frames.plan)}
    idempotent = [topic for topic in topics if frames.settings(topic).idempotence]
    stones = records.where(F.col("value").isNull() & F.col("error").isNull())
    stones = stones.where(F.col("key").isNotNull() & F.col("topic").isin("", *idempotent))
    stones = stones.join(frames.complete.select(*TP), on=TP, how="left_semi")
    stones = stones.select(*KEY, "offset")
    stray = stones.join(deletions.select(*KEY, "offset"), on=[*KEY, "offset"], how="left_anti")
    stray = frames.none_if_empty(stray.join(deletions.select(*KEY), on=KEY, how="left_semi"))
    if stray is None or frames.sources.cut or not engine.is_empty(cut_clients(frames)):
        return
    told = F.coalesce(_told(frames), F.lit(False))
    untold = engine.materialize(deletions.where(~told).select(*KEY).distinct())
    stray = engine.materialize(stray.join(untold, on=KEY, how="left_anti"))
    disputed = _disputed(frames, writes, records)
    stray = engine.materialize(stray.join(disputed, on=_PLACE, how="left_anti"))
    deletions = engine.materialize(deletions.join(stray.select(*KEY), on=KEY, how="left_semi"))
    kept = _kept(frames, deletions)
    doubtful = engine.materialize(deletions.join(kept, on=[*TP, "value"], how="left_anti"))
    stray = stray.join(doubtful.select(*KEY).distinct(), on=KEY, how="left_anti")
    stray = stray.withColumnRenamed("offset", "place")
    each = deletions.select(*_WRITE, "key", "offset").join(stray, on=KEY, how="inner").select(
        *_WRITE,
        F.least("offset", "place").alias("first_offset"),
        F.greatest("offset", "place").alias("last_offset"),
        F.concat(F.lit("a tombstone at "), F.col("place").cast("string")).alias("detail"),
    )  # fmt: skip
    found = frames.none_if_empty(each)
    if found is None:
        return
    copies = engine.materialize(as_duplicates(frames, found))
    excused = engine.materialize(copies.where(F.col("aspect").isNotNull()).select(*TP, "detail"))
    copies = copies.join(excused, on=[*TP, "detail"], how="left_anti")
    order = engine.window.partitionBy(*TP, "detail").orderBy(F.col("op").desc())
    last = copies.withColumn("nth", F.row_number().over(order)).where(F.col("nth") == F.lit(1))
    yield last.drop("nth")
