"""Does a compacted topic still have the last record of each key, and only what was written?

Detectors over the rows of compacted topics. Compaction may remove each record that a later record
of its key supersedes, and a tombstone when it is old enough. Everything else must be there, at its
offset. Sources: the Kafka documentation of log compaction; KIP-534 (how long tombstones stay).
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.causes.matching import MARKER
from checkers.contract.conditions import ACKNOWLEDGED
from checkers.contract.key_rules import EXPIRED
from checkers.detectors.durability import cut_clients
from checkers.engines.engine import Column, Frame, as_frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.log_starts import clock_shifts_ns
from checkers.history.history import KEYED_DELETE, KEYED_POLL, KEYED_READ, KEYED_WRITE, TP
from checkers.history.plan_file import planned_partitions
from checkers.losses import LOST_KEY, RESURRECTED

KEY = [*TP, "key"]
_STAYS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("stays_ns", pa.int64())])
MS = 1_000_000
ANYWHERE = 1 << 62
"""An offset behind all others."""
TOMBSTONE = -1
"""Stands for the value of a record without one."""


def keyed_records(frames: Frames) -> Iterator[Frame]:
    """kind lost-key: the last acknowledged record of a key is not in the final log, nor is a later
    one. aspect: null (the log has nothing of the key), stale (it has an older record), tombstone
    (a deletion is gone before its time, and with it everything of its key).

    kind resurrected-key: the last acknowledged record of a key is a deletion, and the final log has
    an older record in its place. aspect expired: the tombstone was old enough to be removed.

    kind inconsistent-offset, aspect acknowledged: the offset of an acknowledged write has another
    record, and the value is elsewhere, or a later record of its key is there. kind phantom: a
    record that nobody wrote; aborted-read: a record whose write surely failed. Both also of records
    that only a pass was given. kinds unseen, unrecorded: as of other topics.
    """
    F, engine = frames.engine.functions, frames.engine
    writes = keyed_writes(frames)
    if writes is None:
        return
    read = (F.col("f") == F.lit(KEYED_READ)) & (F.col("type") == F.lit("ok"))
    records = engine.materialize(frames.history.where(read))
    gone = frames.none_if_empty(_without_successor(frames, writes, records))
    if gone is not None:
        yield from _lost(frames, gone)
    yield from _moved(frames, writes, records, gone)
    yield from unsent_records(frames)


def keyed_writes(frames: Frames) -> Frame | None:
    """Return the writes of keys, with deletes (1 or 0); None without any."""
    F = frames.engine.functions
    rows = frames.history.where(F.col("f").isin(KEYED_WRITE, KEYED_DELETE))
    deletes = F.when(F.col("f") == F.lit(KEYED_DELETE), F.lit(1)).otherwise(F.lit(0))
    return frames.none_if_empty(rows.withColumn("deletes", deletes))


def _lost(frames: Frames, gone: Frame) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    ends = frames.read_ends.select(*TP, "whole", "reached", "read_ns")
    gone = left_join(gone, ends, on=TP)
    gone = left_join(engine.materialize(gone), _tombstones_stay(frames), on=TP)
    deleted = F.col("deletes") == F.lit(1)
    older = F.col("other_offset").isNotNull()
    expired = F.col("read_ns") - F.col("invoke_ns") >= F.col("stays_ns")
    # A deletion of unknown outcome may have been the last record, and may be removed since.
    maybe = F.col("read_ns") - F.col("open_delete_ns") >= F.col("stays_ns")
    removable = (deleted & expired) | F.coalesce(maybe, F.lit(False))
    judged = frames.none_if_empty(gone.where(older | ~F.coalesce(removable, F.lit(False))))
    if judged is None:
        return
    passed = (F.col("whole") == F.lit(1)) | (F.col("offset") < F.col("reached"))
    back = deleted & older
    kind = F.when(~F.coalesce(passed, F.lit(False)), F.lit("unseen"))
    kind = kind.when(back, F.lit(RESURRECTED)).otherwise(F.lit(LOST_KEY))
    aspect = F.when(back & F.coalesce(expired, F.lit(False)), F.lit(EXPIRED))
    aspect = aspect.when(back, F.lit(None)).when(deleted, F.lit("tombstone"))
    aspect = aspect.when(older, F.lit("stale"))
    found = left_join(judged, _causes(frames, judged), on=["op", *TP])
    yield evidence(
        engine,
        found,
        kind=kind,
        aspect=F.when(F.coalesce(passed, F.lit(False)), aspect),
        detail=F.concat(F.lit("key "), F.col("key").cast("string")),
    )


def _without_successor(frames: Frames, writes: Frame, records: Frame) -> Frame:
    """Return the last acknowledged write of each key, if the final log has neither it nor a later
    record of the key. other_offset: of the last record that the log has of the key; its own offset
    if another record of the key is there. open_writes, open_delete_ns: the writes of the key with
    an unknown place that were not read, and when the first deletion among them began."""
    F, engine = frames.engine.functions, frames.engine
    placed = (F.col("type") == F.lit("ok")) & F.col("offset").isNotNull()
    acked = writes.where(placed)
    newest = acked.groupBy(*KEY).agg(F.max("offset").alias("newest"))
    last = acked.join(engine.materialize(newest), on=KEY, how="inner")
    last = last.where(F.col("offset") == F.col("newest"))
    read = records.where(F.col("key").isNotNull()).groupBy(*KEY)
    last = left_join(
        engine.materialize(last),
        engine.materialize(read.agg(F.max("offset").alias("other_offset"))),
        on=KEY,
    )
    last = left_join(engine.materialize(last), held(frames, records), on=[*KEY, "offset"])
    unplaced = writes.where(~placed & (F.col("type") != F.lit("fail")))
    unread = unplaced.join(records.select(*TP, "value"), on=[*TP, "value"], how="left_anti")
    deletion_ns = F.when(F.col("deletes") == F.lit(1), F.col("invoke_ns"))
    open_ = unread.groupBy(*KEY).agg(
        F.count(F.lit(1)).alias("open_writes"), F.min(deletion_ns).alias("open_delete_ns")
    )
    last = left_join(engine.materialize(last), engine.materialize(open_), on=KEY)
    older = F.coalesce(F.col("other_offset") < F.col("offset"), F.lit(True))
    replaced = (F.col("other_offset") == F.col("offset")) & (F.col("held") != _written(frames))
    return last.where(older | F.coalesce(replaced, F.lit(False))).drop("held")


def held(frames: Frames, records: Frame) -> Frame:
    """Return KEY, offset, held (the value; TOMBSTONE without one) of the sound records."""
    F = frames.engine.functions
    sound = records.where(F.col("key").isNotNull() & F.col("error").isNull())
    return frames.engine.materialize(
        sound.select(*KEY, "offset", F.coalesce(F.col("value"), F.lit(TOMBSTONE)).alias("held"))
    )


def _written(frames: Frames) -> Column:
    """Return the value that the record of a write has; TOMBSTONE of a deletion."""
    F = frames.engine.functions
    return F.when(F.col("deletes") == F.lit(0), F.col("value")).otherwise(F.lit(TOMBSTONE))


def _tombstones_stay(frames: Frames) -> Frame:
    """Return topic, partition, stays_ns: how long tombstones stay at least, by the clocks of the
    nodes that ever held the partition, which faults may have set."""
    shifts = clock_shifts_ns(frames.engine, frames.holders, frames.cluster)
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "stays_ns": frames.settings(topic).delete_retention_ms * MS
            - shifts.get((topic, partition), 0),
        }
        for topic, partition in planned_partitions(frames.plan)
    ]
    return as_frame(frames.engine, rows, _STAYS)


def _causes(frames: Frames, gone: Frame) -> Frame:
    """Return op, topic, partition, cause_id. What removed a later record of the key, which had
    superseded this one, explains the loss as well. Such a record may be anywhere behind this one,
    as the marker of a transaction may be."""
    F, engine = frames.engine.functions, frames.engine
    until = F.when(F.col("open_writes").isNotNull(), F.lit(ANYWHERE)).alias(MARKER)
    columns = ["value", "offset", "acks", "invoke_ns", "complete_ns", "leader_epoch", "node"]
    asked = gone.select("op", *TP, *columns, until)
    found = frames.with_causes(engine.materialize(asked))
    return engine.materialize(found.select("op", *TP, "cause_id"))


def _moved(frames: Frames, writes: Frame, records: Frame, gone: Frame | None) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    acked = writes.where((F.col("type") == F.lit("ok")) & (F.col("deletes") == F.lit(0)))
    here = records.where(F.col("error").isNull())
    here = here.select(*TP, "offset", F.col("value").alias("other_value"))
    other = F.col("other_value").isNull() | (F.col("other_value") != F.col("value"))
    displaced = acked.join(here, on=[*TP, "offset"], how="inner").where(other)
    if gone is not None:
        displaced = displaced.join(gone.select("op"), on="op", how="left_anti")
    elsewhere = records.where(F.col("value").isNotNull())
    elsewhere = elsewhere.groupBy(*TP, "value").agg(F.min("offset").alias("other_offset"))
    moved = left_join(
        engine.materialize(displaced), engine.materialize(elsewhere), on=[*TP, "value"]
    )
    found = frames.none_if_empty(moved)
    if found is not None:
        yield evidence(
            engine,
            frames.with_causes(found),
            kind=F.lit("inconsistent-offset"),
            aspect=F.lit(ACKNOWLEDGED),
        )


def unsent_records(frames: Frames) -> Iterator[Frame]:
    """kinds phantom, unrecorded, aborted-read of `keyed_records`: each record counts once, whoever
    was given it."""
    F, engine = frames.engine.functions, frames.engine
    writes, records = keyed_writes(frames), frames.none_if_empty(_records(frames))
    if writes is None or records is None:
        return
    broken = frames.none_if_empty(records.where(F.col("error").isNotNull()))
    if broken is not None:
        yield evidence(engine, broken, kind=F.lit("phantom"), aspect=F.col("error"))
    sound = records.where(F.col("error").isNull())
    values = sound.where(F.col("value").isNotNull())
    sent = writes.where(F.col("deletes") == F.lit(0)).select(*KEY, "value", "type")
    tombstones = sound.where(F.col("value").isNull())
    deleted = writes.where((F.col("deletes") == F.lit(1)) & (F.col("type") != F.lit("fail")))
    unsent = frames.none_if_empty(
        values.join(sent.drop("type"), on=[*KEY, "value"], how="left_anti"),
        tombstones.join(deleted.select(*KEY).distinct(), on=KEY, how="left_anti"),
    )
    if unsent is not None:
        # The record of a client that was killed may lack its last writes.
        cut = bool(frames.sources.cut) or not engine.is_empty(cut_clients(frames))
        kind, aspect = ("unrecorded", None) if cut else ("phantom", "unsent")
        yield evidence(engine, unsent, kind=F.lit(kind), aspect=F.lit(aspect))
    failed = sent.where(F.col("type") == F.lit("fail")).drop("type")
    refused = frames.none_if_empty(values.join(failed, on=[*KEY, "value"], how="left_semi"))
    if refused is not None:
        yield evidence(engine, refused, kind=F.lit("aborted-read"))


def _records(frames: Frames) -> Frame:
    """Return the rows of all records of compacted topics that somebody was given: of each the first
    one of the final read, or else of a pass."""
    F, engine = frames.engine.functions, frames.engine
    read = F.col("f").isin(KEYED_READ, KEYED_POLL) & (F.col("type") == F.lit("ok"))
    line = engine.window.partitionBy(*KEY, "offset", "value", "error").orderBy(
        F.col("f").desc(), "complete_ns", "op"
    )
    rows = frames.history.where(read).withColumn("nth", F.row_number().over(line))
    return rows.where(F.col("nth") == F.lit(1)).drop("nth")
