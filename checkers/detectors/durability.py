"""Was every acknowledged write kept, and does every record come from a write?

Detectors over sends, reads and the final log. Each finds every instance; none judges.
"""

from collections.abc import Iterator

from checkers.causes.matching import NEIGHBOURS
from checkers.contract.conditions import AT_READ_UNCOMMITTED, IN_TRANSACTION
from checkers.detectors.forgotten import since_last_kept, with_lost_transactions
from checkers.detectors.lost_markers import with_lost_markers
from checkers.engines.engine import Column, Frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.log_starts import PREFIX
from checkers.frames.send_outcomes import SEND
from checkers.frames.transactions import next_places
from checkers.history.history import TP

SEQUENCE_BITS = 32  # value = client << 32 | sequence
FLUSH_SLACK_MS = 5_000
"""A recorder that is killed loses at most what it did not flush; far less than this."""

DEFAULT_MESSAGE_TIMEOUT_MS = 300_000  # librdkafka's default for message.timeout.ms


def lost_writes(frames: Frames) -> Iterator[Frame]:
    """kind lost-write: acknowledged values that the final log lacks.

    aspect: the acknowledged offset, compared with the final log: tail (beyond its last record),
    prefix (before its first record), middle; null when no offset was acknowledged (acks=0).
    other_value: the value that the final log has at that offset. kind unseen: the final read of the
    partition did not reach the offset, so nothing is known. A transaction is written completely or
    not at all: if one of its writes was read, all of them must be in the log, whatever result the
    client got. If the end of the transaction is recorded, this is a torn-transaction instead.
    """
    F = frames.engine.functions
    gone = frames.required_sends.where(F.col("final_offset").isNull()).select(*SEND)
    torn = frames.ended_transactions.torn
    if torn is not None:
        gone = gone.join(torn.select("op"), on="op", how="left_anti")
    missing = frames.none_if_empty(gone)
    if missing is None:
        return
    missing = frames.engine.materialize(_with_neighbours(frames, missing))
    bounds = frames.final_log.groupBy(*TP).agg(F.max("offset").alias("log_last"))
    holders = frames.final_log.select(*TP, "offset", F.col("value").alias("other_value"))
    in_place = (
        missing.select("op", *TP, "offset")
        .join(holders, on=[*TP, "offset"], how="inner")
        .groupBy("op", *TP)
        .agg(F.min("other_value").alias("other_value"))
    )
    ends = frames.read_ends.select(*TP, "whole", "reached")
    caused = since_last_kept(frames, frames.with_causes(missing))
    caused = with_lost_transactions(frames, caused)
    found = left_join(frames.engine.materialize(caused), ends, on=TP)
    found = left_join(found, frames.engine.materialize(bounds), on=TP)
    found = left_join(found, frames.first_offsets.select(*TP, "log_start"), on=TP)
    found = left_join(found, frames.engine.materialize(in_place), on=["op", *TP])
    found = _with_bound(frames, found)
    passed = (F.col("whole") == F.lit(1)) | (F.col("bound") < F.col("reached"))
    replaced = F.when(F.col("other_value").isNotNull(), F.lit("its offset holds another value"))
    torn = F.when(F.col("type") != F.lit("ok"), F.lit("another write of its transaction was read"))
    yield evidence(
        frames.engine,
        found,
        kind=F.when(passed, F.lit("lost-write")).otherwise(F.lit("unseen")),
        aspect=F.when(passed & F.col("offset").isNotNull(), _part_of_log(frames)),
        detail=F.coalesce(replaced, torn),
    )


def _with_bound(frames: Frames, missing: Frame) -> Frame:
    """Add the column bound: the write was at this offset in the log, or before it. The bound is the
    write's own offset, or the offset of the next write of its transaction with a known place: a
    producer writes to a partition in order."""
    F = frames.engine.functions
    sends = frames.in_transactions
    if sends is None:
        return missing.withColumn("bound", F.col("offset"))
    vague = missing.where(F.col("offset").isNull()).select("op", *TP)
    least = next_places(frames.engine, sends, vague)
    found = left_join(frames.engine.materialize(missing), least, on=["op", *TP])
    return found.withColumn("bound", F.coalesce("offset", "next_place"))


def _with_neighbours(frames: Frames, missing: Frame) -> Frame:
    """Add after_offset and before_offset for lost acks=0 sends: the offsets in the final log of the
    nearest records that the same client sent to the partition before and after."""
    F, window = frames.engine.functions, frames.engine.window
    line = ["client", *TP]
    unacknowledged = frames.none_if_empty(
        missing.where(F.col("acks") == F.lit(0)).select(*line).distinct()
    )
    if unacknowledged is None:
        nowhere = (F.lit(None).cast("bigint").alias(name) for name in NEIGHBOURS)
        return missing.select(*SEND, *nowhere)
    sends = frames.send_outcomes.where(F.col("acks") == F.lit(0))
    sends = sends.select(*line, "op", "value", "invoke_ns", "final_offset")
    sends = sends.join(unacknowledged, on=line, how="left_semi")
    order = window.partitionBy(*line).orderBy("invoke_ns", "op")
    after, before = NEIGHBOURS
    earlier, later = (window.unboundedPreceding, -1), (1, window.unboundedFollowing)
    placed = sends.select(
        "op", *TP, "value", "final_offset",
        F.max("final_offset").over(order.rowsBetween(*earlier)).alias(after),
        F.min("final_offset").over(order.rowsBetween(*later)).alias(before),
    )  # fmt: skip
    lost = placed.where(F.col("final_offset").isNull()).drop("final_offset")
    return left_join(missing, frames.engine.materialize(lost), on=["op", *TP, "value"])


def _part_of_log(frames: Frames) -> Column:
    F = frames.engine.functions
    return (
        F.when(F.col("offset") < F.col("log_start"), F.lit(PREFIX))
        .when(F.col("log_last").isNull() | (F.col("offset") > F.col("log_last")), F.lit("tail"))
        .otherwise(F.lit("middle"))
    )


def truncated_reads(frames: Frames) -> Iterator[Frame]:
    """kind truncated-read: records that a consumer got and that the final log does not have at
    their offset.

    aspect: prefix for a record before the first one of the final log.
    """
    F = frames.engine.functions
    if frames.not_in_final_log is None:
        return
    judged = frames.not_in_final_log.join(frames.complete.select(*TP), on=TP, how="left_semi")
    found = frames.engine.materialize(frames.with_causes(read_as_committed(frames, judged)))
    yield evidence(
        frames.engine,
        left_join(found, frames.first_offsets.select(*TP, "log_start"), on=TP),
        kind=F.lit("truncated-read"),
        aspect=F.when(F.col("offset") < F.col("log_start"), F.lit(PREFIX)),
        acks=F.lit(None),
    )


def read_as_committed(frames: Frames, reads: Frame) -> Frame:
    """Return reads with the columns that `Frames.with_causes` needs. A record below the high
    watermark is safe whatever its acks, so only causes that explain the loss of an acks=all write
    explain its loss. Replicas may lose the record any time after it was written, some before and
    some after it was read."""
    F = frames.engine.functions
    values = [name for name in ("value", "other_value") if name in reads.columns]
    for name in values:
        sent = F.min("invoke_ns").alias(f"{name}_ns")
        sends = frames.sends.withColumnRenamed("value", name)
        read = sends.join(reads.select(*TP, name), on=[*TP, name], how="left_semi")
        reads = left_join(reads, read.groupBy(*TP, name).agg(sent), on=[*TP, name])
    return reads.select(
        "op", *TP, "value", "offset", "invoke_ns", "complete_ns",
        *(name for name in ("client", "other_value") if name in reads.columns),
        F.least(*(f"{name}_ns" for name in values), "invoke_ns").alias("written_ns"),
        F.lit(-1).alias("acks"),
        F.lit(None).cast("int").alias("leader_epoch"),
        F.lit(None).cast("int").alias("node"),
    )  # fmt: skip


def aborted_reads(frames: Frames) -> Iterator[Frame]:
    """kind aborted-read: values that were read although their send certainly failed (type fail;
    G1a).

    aspect transaction: the send was in a transaction. read-uncommitted: so, and the reader asked
    for uncommitted records. (Those that were read too early: `open_reads`.)
    """
    F, engine = frames.engine.functions, frames.engine
    kind, offset = F.lit("aborted-read"), F.col("first_offset")
    failed = F.col("type") == F.lit("fail")
    found = frames.none_if_empty(
        frames.send_outcomes.where(failed & F.col("first_offset").isNotNull())
    )
    if found is not None:
        inside = F.when(F.col("txn").isNotNull(), F.lit(IN_TRANSACTION))
        aspect = inside.otherwise(F.lit(None)).alias("aspect")
        found = with_lost_markers(frames, found.select(*found.columns, aspect))
        found = with_lost_transactions(frames, found)
        yield evidence(engine, found, kind=kind, offset=offset)
    early = frames.ended_transactions.uncommitted_reads
    if early is not None:
        first = early.where(failed).groupBy("op").agg(F.min("first_offset").alias("first_offset"))
        sends = frames.sends.join(engine.materialize(first), on="op", how="inner")
        aspect = F.lit(AT_READ_UNCOMMITTED)
        yield evidence(engine, sends, kind=kind, offset=offset, aspect=aspect)


def phantoms(frames: Frames) -> Iterator[Frame]:
    """kind phantom: records that come from no send of this run.

    aspect: unsent (no client sent the value to that partition), checksum (the payload is corrupt),
    foreign (not a payload of this run). kind unrecorded: the value is from a client whose history
    was cut, and so late that its send may not have been recorded; or from a client without any
    record, if streams were cut.
    """
    F = frames.engine.functions
    broken = frames.none_if_empty(frames.reads.where(F.col("value").isNull()))
    if broken is not None:
        aspect = F.coalesce(F.col("error"), F.lit("foreign"))
        yield evidence(frames.engine, broken, kind=F.lit("phantom"), aspect=aspect)
    unsent = frames.unsent
    if unsent is None:
        return
    senders = unsent.select(
        *TP,
        "value",
        F.shiftright("value", SEQUENCE_BITS).cast("int").alias("client"),
        (F.col("value") % F.lit(1 << SEQUENCE_BITS)).alias("sequence"),
        F.col("first_offset").alias("offset"),
    )
    found = left_join(senders, _horizons(frames), on=["client"])
    excused = F.col("sequence") > F.col("horizon")
    if frames.sources.cut:
        known = frames.client_lifetimes.select("client").withColumn("known", F.lit(1))
        found = left_join(
            frames.engine.materialize(found), frames.engine.materialize(known), on=["client"]
        )
        excused = F.col("known").isNull() | excused
    yield evidence(
        frames.engine,
        found,
        kind=F.when(excused, F.lit("unrecorded")).otherwise(F.lit("phantom")),
        aspect=F.when(excused, F.lit(None)).otherwise(F.lit("unsent")),
    )


def _horizons(frames: Frames) -> Frame:
    """Return client, horizon for every client whose history was cut. Every send up to the sequence
    `horizon` must be recorded, because it began more than a message timeout before the cut."""
    F = frames.engine.functions
    timeout_ms = (frames.plan.get("workload") or {}).get("message_timeout_ms")
    wait_ms = (timeout_ms or DEFAULT_MESSAGE_TIMEOUT_MS) + FLUSH_SLACK_MS
    cut = frames.engine.materialize(cut_clients(frames))
    sends = frames.sends.select("client", "value", "invoke_ns").join(cut, on="client", how="inner")
    early = F.col("invoke_ns") < F.col("last_ns") - F.lit(wait_ms * 1_000_000)
    sequence = F.col("value") % F.lit(1 << SEQUENCE_BITS)
    known = sends.groupBy("client").agg(F.max(F.when(early, sequence)).alias("known"))
    return left_join(cut, known, on=["client"]).select(
        "client", F.coalesce(F.col("known"), F.lit(-1)).alias("horizon")
    )


def cut_clients(frames: Frames) -> Frame:
    """Return client, last_ns (the last time it recorded) of every client without an `end` row."""
    F = frames.engine.functions
    return frames.client_lifetimes.where(F.col("ended") == F.lit(0)).select("client", "last_ns")
