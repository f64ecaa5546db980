"""What consumers see: no skipped record, no step back, no end offset that goes back."""

from collections.abc import Iterator

import pyarrow as pa

from checkers.contract.conditions import FINAL
from checkers.engines.engine import Column, Frame, as_frame, div, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.ownership import ASSIGNED
from checkers.history.history import TP
from checkers.history.recorded_faults import LOGS, kind_of_file, touched_nodes

_PLACES = pa.schema([("topic", pa.string()), ("partition", pa.int32())])

BUCKET_OFFSETS = 1 << 8
"""How many offsets are searched for the predecessor of one."""


def poll_jumps(frames: Frames) -> Iterator[Frame]:
    """Find positions that a consumer did not reach by going on one record.

    kind poll-skip: the consumer skipped offsets that hold records (other_offset: the greatest of
    them). It may skip offsets without records (control batches), and records of transactions that
    are not known to be committed. Another client must have read the skipped record and then,
    without an assignment between, the one that the consumer went on to: a log that was cut and
    written again holds records where the old one had none.

    kind nonmonotonic-poll: the consumer went back without an assignment (other_offset: the position
    before). detail: inside one poll, or between polls. The records of one operation are ordered by
    offset; a step back inside a poll is recorded as another operation.
    """
    F = frames.engine.functions
    odd = frames.none_if_empty(_odd_polls(frames))
    jumps = None if odd is None else frames.none_if_empty(_jumps(frames, odd))
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
        .join(_predecessors(frames, jumps), on=[*TP, "offset"], how="inner")
        .where(F.col("before") >= F.col("expected"))
    )
    yield evidence(
        frames.engine,
        _witnessed(frames, skipped),
        kind=F.lit("poll-skip"),
        other_offset=F.col("before"),
        detail=_where(frames),
    )


def _where(frames: Frames) -> Column:
    F = frames.engine.functions
    inside = F.col("op") == F.col("other_op")
    return F.when(inside, F.lit("inside one poll")).otherwise(F.lit("between polls"))


def _odd_polls(frames: Frames) -> Frame:
    """Return op, client, topic, partition, due (the expected first offset, or null), due_op of
    the polls that did not begin at `due`, or that did not go on record by record."""
    F = frames.engine.functions
    polled = frames.polls.select(
        "op", "client", *TP, "records", "first_offset", "last_offset",
        (F.col("last_offset") + F.lit(1)).alias("after"),
    )  # fmt: skip
    none = F.lit(None).cast("bigint")
    # A negative assigned offset is a place (the beginning, the end) and not a number.
    assigned = _assignments(frames).select(
        "op", "client", *TP, none.alias("records"), none.alias("first_offset"),
        none.alias("last_offset"),
        F.when(F.col("offset") >= F.lit(0), F.col("offset")).alias("after"),
    )  # fmt: skip
    order = frames.engine.window.partitionBy("client", *TP).orderBy("op", "first_offset")
    steps = polled.unionByName(assigned).select(
        "op", "client", *TP, "records", "first_offset", "last_offset",
        F.lag("after").over(order).alias("due"),
        F.lag("op").over(order).alias("due_op"),
    )  # fmt: skip
    whole = F.col("last_offset") - F.col("first_offset") + F.lit(1) == F.col("records")
    # An unknown expectation compares as null, which is not true.
    return steps.where((F.col("first_offset") != F.col("due")) | ~whole).select(
        "op", "client", *TP, "due", "due_op"
    )


def _assignments(frames: Frames) -> Frame:
    """Return the rows by which a consumer got a new position in a partition."""
    F = frames.engine.functions
    return frames.other_rows.where(
        F.col("f").isin("assign", ASSIGNED)
        & (F.col("type") == F.lit("ok"))
        & F.col("partition").isNotNull()
    )


def _jumps(frames: Frames, odd: Frame) -> Frame:
    """Return the records of odd polls whose offset is not `expected`: one after the last record, or
    the assigned offset."""
    F = frames.engine.functions
    columns = ["op", "client", "invoke_ns", "complete_ns", *TP, "value", "offset"]
    polls = frames.reads.where(F.col("f") == F.lit("poll")).select(*columns)
    records = polls.join(odd, on=["op", "client", *TP], how="inner")
    before = F.lag("offset").over(
        frames.engine.window.partitionBy("op", "client", *TP).orderBy("offset")
    )
    steps = records.select(*columns, "due", "due_op", before.alias("before"))
    first = F.col("before").isNull()
    compared = steps.select(
        *columns,
        F.when(first, F.col("due")).otherwise(F.col("before") + F.lit(1)).alias("expected"),
        F.when(first, F.col("due_op")).otherwise(F.col("op")).alias("other_op"),
    )
    return compared.where(F.col("offset") != F.col("expected"))


def _predecessors(frames: Frames, jumps: Frame) -> Frame:
    """Return topic, partition, offset, before: the last record below each offset that was jumped
    to, among all `_due` records. The search goes bucket by bucket, so that no task needs a whole
    partition."""
    F = frames.engine.functions
    bucket = div(frames.engine, "offset", BUCKET_OFFSETS).alias("bucket")
    known = _due(frames).select(*TP, F.col("offset").alias("known"), bucket)
    wanted = frames.engine.materialize(jumps.select(*TP, "offset", bucket).distinct())
    nearest = frames.engine.materialize(
        known.join(wanted, on=[*TP, "bucket"], how="inner")
        .where(F.col("known") < F.col("offset"))
        .groupBy(*TP, "offset")
        .agg(F.max("known").alias("before"))
    )
    farther = frames.none_if_empty(wanted.join(nearest, on=[*TP, "offset"], how="left_anti"))
    if farther is None:
        return nearest
    along = frames.engine.window.partitionBy(*TP).orderBy("bucket")
    tops = known.groupBy(*TP, "bucket").agg(F.max("known").alias("top"))
    tops = tops.select(*TP, "bucket", F.lag("top").over(along).alias("before"))
    below = farther.join(frames.engine.materialize(tops), on=[*TP, "bucket"], how="inner")
    return nearest.unionByName(below.select(*TP, "offset", "before"))


def _due(frames: Frames) -> Frame:
    """Return the records that every reader must be given: `known_committed` of all that any read
    returned."""
    return known_committed(frames, frames.reads)


def known_committed(frames: Frames, records: Frame) -> Frame:
    """Return the records without those of transactions that are not known to be committed. A
    consumer may pass over such a record, as aborted, and another one may be given it later, because
    the log lost the marker."""
    if not frames.ended_transactions.recorded:
        return records
    F = frames.engine.functions
    doubtful = frames.send_outcomes.where(F.col("txn").isNotNull() & (F.col("type") != F.lit("ok")))
    return records.join(doubtful.select(*TP, "value"), on=[*TP, "value"], how="left_anti")


def _witnessed(frames: Frames, skipped: Frame) -> Frame:
    """Return the jumps whose skipped record `before` and whose own record another client read, in
    this order and without an assignment between."""
    kept = frames.none_if_empty(skipped)
    if kept is None:
        return skipped
    F = frames.engine.functions
    value = F.coalesce(F.col("value"), F.lit(-1)).alias("known")
    reads = frames.reads.select(F.col("op").alias("read_op"), F.col("client").alias("reader"), *TP,
                                "offset", value)  # fmt: skip
    jumps = kept.select("op", "client", *TP, "offset", "before", value)
    reached = frames.engine.materialize(
        jumps.join(reads, on=[*TP, "offset", "known"], how="inner")
        .where(F.col("reader") != F.col("client"))
        .select("op", *TP, "offset", "before", "reader", F.col("read_op").alias("reached_op"))
    )
    passed = reads.select(*TP, F.col("offset").alias("before"), "reader", "read_op")
    both = reached.join(passed, on=[*TP, "before", "reader"], how="inner")
    reading = ["op", *TP, "offset", "reader", "read_op", "reached_op"]
    both = both.where(F.col("read_op") <= F.col("reached_op")).select(*reading)
    both = frames.engine.materialize(both.distinct())
    moves = _assignments(frames).select(
        F.col("client").alias("reader"), *TP, F.col("op").alias("moved_op")
    )
    moved = both.join(moves, on=[*TP, "reader"], how="inner").where(
        (F.col("read_op") < F.col("moved_op")) & (F.col("moved_op") <= F.col("reached_op"))
    )
    moved = frames.engine.materialize(moved.select(*reading).distinct())
    witnesses = both.join(moved, on=reading, how="left_anti")
    return kept.join(witnesses, on=["op", *TP, "offset"], how="left_semi")


def watermark_regressions(frames: Frames) -> Iterator[Frame]:
    """kind watermark-regression: the end offset that one client saw went back between two requests,
    one after the other.

    aspect deposed: the later answer has an older leader epoch than the earlier one; advanced: it
    has not; null: the answers have no epochs; final: the log ends below it in the end (offset), or
    a later leader epoch begins below it.
    """
    F = frames.engine.functions
    asked = frames.watermark_rows
    order = frames.engine.window.partitionBy("client", *TP).orderBy("complete_ns", "op")
    steps = asked.select(
        "op", "client", "invoke_ns", "complete_ns", *TP, "offset", "leader_epoch", "node",
        F.lag("leader_epoch").over(order).alias("other_epoch"),
        F.lag("offset").over(order).alias("other_offset"),
        F.lag("op").over(order).alias("other_op"),
        F.lag("complete_ns").over(order).alias("other_complete_ns"),
    )  # fmt: skip
    back = frames.none_if_empty(
        steps.where(
            (F.col("offset") < F.col("other_offset"))
            & (F.col("other_complete_ns") <= F.col("invoke_ns"))
        )
    )
    if back is not None:
        older = F.col("leader_epoch") < F.col("other_epoch")
        aspect = F.when(older, F.lit("deposed")).when(~older, F.lit("advanced"))
        found = frames.with_leader_change(back, since="other_complete_ns", up_to="leader_epoch")
        kind = F.lit("watermark-regression")
        yield evidence(frames.engine, found, kind=kind, aspect=aspect)
    gone = _gone_ends(frames)
    if gone is not None:
        kind, aspect = F.lit("watermark-regression"), F.lit(FINAL)
        end = F.col("end_offset")
        yield evidence(frames.engine, gone, kind=kind, aspect=aspect, acks=F.lit(None), offset=end)


def _gone_ends(frames: Frames) -> Frame | None:
    """Return the asks that were over before the final reads began, and that told an end beyond what
    the partition has in the end, with `cause_id` of a read of the last record below that end; None
    without any.

    What any replica still has in its files is not gone. If a fault changed files that are no logs
    on a node with a replica, nothing is judged: a checkpoint may have had a wrong high watermark.
    """
    F, engine = frames.engine.functions, frames.engine
    begun = frames.rare_rows.where(F.col("f") == F.lit("final-read-end")).groupBy(*TP)
    begun = engine.materialize(begun.agg(F.min("invoke_ns").alias("begun_ns")))
    asks = frames.watermark_rows.join(begun, on=TP, how="inner")
    asks = asks.where(F.col("complete_ns") < F.col("begun_ns"))
    asks = engine.materialize(asks.join(frames.complete.select(*TP, "end_offset"), on=TP))
    asks = asks.join(_with_other_files_changed(frames), on=TP, how="left_anti")
    epochs = frames.cluster.where(F.col("kind") == F.lit("epoch"))
    kept = epochs.select(*TP, F.col("end_offset").alias("kept"))
    kept = kept.unionByName(frames.replica_ends.select(*TP, F.col("end_offset").alias("kept")))
    kept = engine.materialize(kept.groupBy(*TP).agg(F.max("kept").alias("kept")))
    known = left_join(asks, kept, on=TP)
    known = left_join(engine.materialize(known), _next_starts(frames, asks), on=["op", *TP])
    most = F.greatest("end_offset", F.coalesce("kept", "end_offset"))
    end = F.least(most, F.coalesce("start_offset", most)).alias("end_offset")
    told = known.select(*asks.drop("end_offset").columns, end)
    gone = frames.none_if_empty(told.where(F.col("offset") > F.col("end_offset")))
    if gone is None:
        return None
    reads = gone.select(
        "op", "client", *TP, "invoke_ns", "complete_ns", "end_offset",
        F.col("offset").alias("other_offset"),
        (F.col("offset") - F.lit(1)).alias("offset"),
        F.lit(-1).cast("bigint").alias("value"),
        # The record below the end may be as old as the run.
        F.lit(0).cast("bigint").alias("written_ns"),
        F.lit(-1).alias("acks"),
        F.lit(None).cast("int").alias("leader_epoch"),
        F.lit(None).cast("int").alias("node"),
    )  # fmt: skip
    return frames.with_causes(engine.materialize(reads)).drop("value")


def _with_other_files_changed(frames: Frames) -> Frame:
    """Return topic, partition of those that a node ever held of which a fault changed files that
    are no logs."""
    rows = [row for row in frames.fault_rows if kind_of_file(row["targets"]) != LOGS]
    struck = frozenset().union(*(touched_nodes(row["targets"])[0] for row in rows))
    held = [place for place, nodes in frames.holders.items() if nodes & struck]
    found = [{"topic": topic, "partition": partition} for topic, partition in held]
    return as_frame(frames.engine, found, _PLACES)


def _next_starts(frames: Frames, asks: Frame) -> Frame:
    """Return op, topic, partition, start_offset: where in the final log the first epoch begins that
    is later than the one in which the answer was given."""
    F, engine = frames.engine.functions, frames.engine
    epochs = frames.cluster.where(
        (F.col("kind") == F.lit("epoch")) & (F.col("start_offset") >= F.lit(0))
    )
    starts = epochs.groupBy(*TP, F.col("leader_epoch").alias("later_epoch"))
    starts = engine.materialize(starts.agg(F.max("start_offset").alias("start_offset")))
    pairs = asks.select("op", *TP, "leader_epoch").join(starts, on=TP, how="inner")
    later = pairs.where(F.col("later_epoch") > F.col("leader_epoch")).groupBy("op", *TP)
    return engine.materialize(later.agg(F.min("start_offset").alias("start_offset")))
