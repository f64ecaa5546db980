"""Is every value in the log once, at the acknowledged offset, in the order of the sends?"""

import functools
import operator
from collections.abc import Iterator

from checkers.contract.conditions import ACKNOWLEDGED, IN_TRANSACTION, OUTLASTED, OVERTAKEN
from checkers.detectors.at_once import with_answers_at_once
from checkers.detectors.durability import read_as_committed
from checkers.detectors.forgotten import taking_committed
from checkers.detectors.unanswered_order import reordered_unanswered
from checkers.engines.engine import Frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.send_outcomes import SEND, at_several_offsets
from checkers.frames.unknown_producers import remembered_ns
from checkers.history.history import TP


def duplicates(frames: Frames) -> Iterator[Frame]:
    """kind duplicate: values at two or more offsets of one log. offset, other_offset: the first and
    the last. The acknowledged one counts, even if it is below the start of the log now.

    aspect client-epoch: the client may have sent the value again in a new producer epoch that it
    began by itself. No broker can know that such a send is a repetition. aspect outlasted: the send
    lasted for as long as brokers remember a producer. Otherwise aspect transaction: of a send in a
    transaction; answered-at-once: of a send that its client did not repeat.
    """
    repeated = _with_removed(frames, _repeated(frames))
    if repeated is None:
        return
    found = left_join(repeated, frames.sends.drop("offset"), on=[*TP, "value"])
    yield as_duplicates(frames, found)


def _with_removed(frames: Frames, repeated: Frame | None) -> Frame | None:
    """Return the repeated values and those that were acknowledged below the start of the log and
    are in it: the acknowledged record was removed from the start, and another one stayed."""
    F, engine = frames.engine.functions, frames.engine
    misplaced = _misplaced(frames)
    if misplaced is None:
        return repeated
    removed = misplaced.where(F.col("removed") == F.lit(1)).select(
        *TP,
        "value",
        F.col("offset").alias("first_offset"),
        F.col("final_offset").alias("last_offset"),
    )
    both = removed if repeated is None else repeated.unionByName(removed)
    both = engine.materialize(both).groupBy(*TP, "value")
    return frames.none_if_empty(
        both.agg(
            F.min("first_offset").alias("first_offset"), F.max("last_offset").alias("last_offset")
        )
    )


def _misplaced(frames: Frames) -> Frame | None:
    """Return the sends that are in the final log, but not at their acknowledged offset, which the
    final read passed, with their `cause_id`; removed: 1 if the replicas' files begin above that
    offset and no leader change explains it, else 0. None without any."""
    F, engine = frames.engine.functions, frames.engine
    if frames.misplaced is None:
        return None
    passed = engine.materialize(_where_read(frames, frames.misplaced))
    caused = engine.materialize(frames.with_causes(passed))
    taken = F.col("cause_id").isin(*taking_committed(frames, caused))
    moved = (taken | (F.col("acks") != F.lit(-1))) & F.col("cause_id").isNotNull()
    found = left_join(caused, frames.first_offsets.select(*TP, "first_kept"), on=TP)
    below = F.coalesce(F.col("offset") < F.col("first_kept"), F.lit(False))
    removed = F.when(below & ~moved, F.lit(1)).otherwise(F.lit(0)).alias("removed")
    return frames.none_if_empty(found.select(*caused.columns, removed))


def _repeated(frames: Frames) -> Frame | None:
    """Return the `repeated_values`. In a partition that was not read to its end, a polled copy that
    a cause may have taken with permission does not count: its value may have been sent again since.
    None without any."""
    F, engine = frames.engine.functions, frames.engine
    repeated, gone = frames.repeated_values, frames.not_in_final_log
    if repeated is None or gone is None:
        return repeated
    value = [*TP, "value"]
    gone = gone.join(frames.complete.select(*TP), on=TP, how="left_anti")
    gone = frames.none_if_empty(gone.join(repeated.select(*value), on=value, how="left_semi"))
    if gone is None:
        return repeated
    read = engine.materialize(frames.with_causes(read_as_committed(frames, gone)))
    taken = F.col("cause_id").isin(*taking_committed(frames, read))
    columns = [*value, "offset"]
    left = read.where(~F.coalesce(taken, F.lit(False))).select(*columns)
    kept = frames.final_log.join(repeated.select(*value), on=value, how="left_semi")
    records = engine.materialize(
        kept.select(*columns, F.lit(1).alias("in_final_log")).unionByName(
            left.select(*columns, F.lit(0).alias("in_final_log"))
        )
    )
    return frames.none_if_empty(at_several_offsets(engine, records, frames.complete))


def as_duplicates(frames: Frames, found: Frame) -> Frame:
    """Return the evidence of sends whose value is at first_offset and at last_offset."""
    F = frames.engine.functions
    found = _outlasted(frames, frames.epoch_bumps.attributed(found))
    found = _in_transactions(frames, found, "op")
    return evidence(
        frames.engine,
        with_answers_at_once(frames, found),
        kind=F.lit("duplicate"),
        offset=F.col("first_offset"),
        other_offset=F.col("last_offset"),
    )


def _outlasted(frames: Frames, sends: Frame) -> Frame:
    """Fill the aspect of sends that lasted for producer.id.expiration.ms, if they have none. A
    request may arrive after the end of its send: of a send of unknown outcome, or when a fault held
    it up. It does so before the final read."""
    F = frames.engine.functions
    if "aspect" not in sends.columns:
        sends = sends.withColumn("aspect", F.lit(None).cast("string"))
    sends = left_join(sends, frames.read_ends.select(*TP, "read_ns"), on=TP)
    invoked, completed = F.col("invoke_ns"), F.col("complete_ns")
    spans = ((invoked <= F.lit(end)) & (completed >= F.lit(start)) for start, end in frames.delays)
    held_up = functools.reduce(operator.or_, spans, F.lit(False))
    over = (F.col("type") == F.lit("ok")) & ~F.coalesce(held_up, F.lit(False))
    until = F.when(over, F.col("complete_ns")).otherwise(F.col("read_ns"))
    lasted = until - F.col("invoke_ns") >= F.lit(remembered_ns(frames))
    aspect = F.when(F.col("aspect").isNull() & lasted, F.lit(OUTLASTED))
    return sends.withColumn("aspect", F.coalesce(F.col("aspect"), aspect))


def _in_transactions(frames: Frames, found: Frame, *ops: str) -> Frame:
    """Set the aspect IN_TRANSACTION where `found` has none and all of its sends (ops: the columns
    with their operations) were made in transactions."""
    F, engine = frames.engine.functions, frames.engine
    if frames.in_transactions is None:
        return found
    columns = found.columns
    for name in ops:
        sends = frames.in_transactions.select(
            F.col("op").alias(name), F.col("txn").alias(f"{name}_txn")
        )
        sends = sends.join(found.select(name).distinct(), on=name, how="left_semi")
        found = left_join(engine.materialize(found), engine.materialize(sends), on=[name])
    inside = functools.reduce(operator.and_, (F.col(f"{name}_txn").isNotNull() for name in ops))
    aspect = F.when(inside, F.lit(IN_TRANSACTION))
    if "aspect" in columns:
        aspect = F.coalesce(F.col("aspect"), aspect)
    others = [name for name in columns if name != "aspect"]
    return found.select(*others, aspect.alias("aspect"))


def inconsistent_offsets(frames: Frames) -> Iterator[Frame]:
    """kind inconsistent-offset: offsets with two values.

    aspect read: two reads of one offset returned different values, at read_uncommitted too. aspect
    acknowledged: the value is in the final log, but not at its acknowledged offset; other_offset:
    where it is. (A value that is not in the log at all is a lost write and not counted here. If the
    final read did not reach the acknowledged offset, a copy may be there, and if the log begins
    above it, one may have been there: see `duplicates`.) Beyond the end of the final read, aspect
    acknowledged also means: another value was acknowledged or polled at the offset (other_value).
    """
    F = frames.engine.functions
    acknowledged = F.lit(ACKNOWLEDGED)
    two_valued = _two_valued(frames)
    if two_valued is not None:
        yield evidence(
            frames.engine,
            frames.with_causes(read_as_committed(frames, two_valued)),
            kind=F.lit("inconsistent-offset"),
            aspect=F.lit("read"),
            acks=F.lit(None),
        )
    misplaced = _misplaced(frames)
    if misplaced is not None:
        misplaced = frames.engine.materialize(misplaced.where(F.col("removed") == F.lit(0)))
        yield evidence(
            frames.engine,
            misplaced,
            kind=F.lit("inconsistent-offset"),
            aspect=acknowledged,
            other_offset=F.col("final_offset"),
        )
    claimed = _claimed_twice(frames)
    if claimed is not None:
        if misplaced is not None:
            reported = misplaced.select(*TP, "offset")
            claimed = claimed.join(reported, on=[*TP, "offset"], how="left_anti")
        kind = F.lit("inconsistent-offset")
        found = _by_either(frames, frames.with_causes(frames.engine.materialize(claimed)))
        yield evidence(frames.engine, found, kind=kind, aspect=acknowledged)


def _by_either(frames: Frames, claimed: Frame) -> Frame:
    """Fill `cause_id` of rows of `_claimed_twice` with a cause that may have taken what was polled
    at the offset with permission, if there is one: the acknowledged value may have come later."""
    F, engine = frames.engine.functions, frames.engine
    claimed = engine.materialize(claimed)
    others = claimed.select(*TP, "offset", F.col("other_value").alias("value"))
    place = [*TP, "offset", "value"]
    polled = frames.none_if_empty(frames.reads.join(others, on=place, how="left_semi"))
    if polled is None:
        return claimed
    read = engine.materialize(frames.with_causes(read_as_committed(frames, polled)))
    taken = read.where(F.col("cause_id").isin(*taking_committed(frames, read)))
    taken = taken.groupBy(*TP, "offset").agg(F.min("cause_id").alias("taken_by"))
    found = left_join(claimed, engine.materialize(taken), on=[*TP, "offset"])
    cause = F.coalesce("taken_by", "cause_id").alias("cause_id")
    return found.select(*SEND, "other_value", cause)


def _claimed_twice(frames: Frames) -> Frame | None:
    """Return the first acknowledged send of each offset that no final read passed, if two values
    were acknowledged there, or one acknowledged and another one polled. other_value: the least or
    the greatest other value. None without any."""
    F = frames.engine.functions
    beyond = frames.beyond_final_read
    if beyond is None:
        return None
    place = [*TP, "offset"]
    polled = frames.reads.where(F.col("value").isNotNull()).select(*place, "value")
    polled = polled.join(beyond.select(*place), on=place, how="left_semi")
    claims = beyond.select(*place, "value").unionByName(polled)
    claims = claims.groupBy(*place).agg(
        F.min("value").alias("least"), F.max("value").alias("greatest")
    )
    two = frames.none_if_empty(claims.where(F.col("least") < F.col("greatest")))
    if two is None:
        return None
    order = frames.engine.window.partitionBy(*place).orderBy("complete_ns", "op")
    ranked = beyond.join(two, on=place, how="inner").withColumn("rank", F.row_number().over(order))
    other = F.when(F.col("value") == F.col("least"), F.col("greatest")).otherwise(F.col("least"))
    first = ranked.where(F.col("rank") == F.lit(1)).withColumn("other_value", other)
    return frames.engine.materialize(first.select(*SEND, "other_value"))


def _where_read(frames: Frames, sends: Frame) -> Frame:
    """Return the sends whose offset the final read passed, or at which it found a record."""
    F = frames.engine.functions
    ends = frames.read_ends.select(*TP, "whole", "reached")
    there = sends.select(*TP, "offset").distinct()
    there = there.join(frames.final_log.select(*TP, "offset"), on=[*TP, "offset"], how="left_semi")
    found = left_join(sends, ends, on=TP)
    found = left_join(found, there.withColumn("read", F.lit(1)), on=[*TP, "offset"])
    passed = (F.col("whole") == F.lit(1)) | (F.col("offset") < F.col("reached"))
    return found.where(passed | F.col("read").isNotNull()).select(*sends.columns)


def _two_valued(frames: Frames) -> Frame | None:
    """Return topic, partition, offset, value, other_value, op, invoke_ns, complete_ns of offsets
    where two values were read, whatever became of their transactions."""
    F = frames.engine.functions
    columns = ["op", *TP, "offset", "value", "invoke_ns", "complete_ns"]
    place = [*TP, "offset"]
    reads = frames.reads.where(F.col("value").isNotNull()).select(*columns)
    odd = []
    if frames.disputed_offsets is not None:
        two = frames.disputed_offsets.where(F.col("value") < F.col("other_value"))
        odd.append(reads.join(two.select(*place), on=place, how="left_semi"))
    if (hidden := frames.ended_transactions.hidden) is not None:
        # At read_uncommitted, too, readers get only records below the high watermark.
        odd += [hidden, reads.join(hidden.select(*place), on=place, how="left_semi")]
    if not odd:
        return None
    several = functools.reduce(lambda a, b: a.unionByName(b), odd).groupBy(*place)
    found = several.agg(
        F.min("value").alias("value"),
        F.max("value").alias("other_value"),
        F.min("invoke_ns").alias("invoke_ns"),
        F.max("complete_ns").alias("complete_ns"),
        F.min("op").alias("op"),
    )
    return frames.none_if_empty(found.where(F.col("value") < F.col("other_value")))


def reordered_sends(frames: Frames) -> Iterator[Frame]:
    """kind reordered-send: a producer's acknowledged send is at a lower offset than the producer's
    send before it to the same partition (other_*), in the order in which the sends were invoked.

    The place of a value is its first offset in the final log; if that was not read to its end, the
    first offset where it was read. The acknowledged offset does not count: acks=0 acknowledges
    none, the offset of a lost value may have been used again, and a value that was written again is
    a duplicate, not a reordering. If the final read does not show what was lost, a step back counts
    only if the later send was read no later than the send before it. (Reads go up in one log. A
    record that was read after a record above it may have been written to a log that was truncated
    meanwhile.)

    aspect acknowledged: one of the two was never read, and is beyond the end of the final read. Its
    place is its acknowledged offset. Events that the contract permits may have undone the
    acknowledgement.

    aspect answered-at-once: the producer did not repeat the send before it.
    aspect overtaken: the producer sent the send before it again in a new producer epoch, because a
    leader that may not have known the producer had accepted the later one first. Otherwise aspect
    transaction: both were sent in transactions.

    Sends of unknown outcome: see `reordered_unanswered`.
    """
    F = frames.engine.functions
    yield from reordered_unanswered(frames)
    placed = _placed(frames)
    order = frames.engine.window.partitionBy("client", *TP).orderBy("op")
    # There are hundreds of millions of rows: order only the columns that are compared.
    steps = placed.select(
        "op", "client", *TP, "offset",
        F.lag("offset").over(order).alias("other_offset"),
        F.lag("op").over(order).alias("other_op"),
    )  # fmt: skip
    back = frames.none_if_empty(steps.where(F.col("offset") < F.col("other_offset")))
    if back is None:
        return
    before = placed.select(
        F.col("op").alias("other_op"), *TP, F.col("offset").alias("other_offset"),
        F.col("value").alias("other_value"), F.col("read").alias("other_read"),
        F.col("invoke_ns").alias("other_invoke_ns"),
        F.col("complete_ns").alias("other_complete_ns"),
    )  # fmt: skip
    found = left_join(back, placed.drop("client"), on=["op", *TP, "offset"])
    found = left_join(
        frames.engine.materialize(found), before, on=["other_op", *TP, "other_offset"]
    )
    found = frames.engine.materialize(found)
    both_read = F.col("read").isNotNull() & F.col("other_read").isNotNull()
    kind = F.lit("reordered-send")
    in_one_log = _with_unknown_producers(frames, _of_one_log(frames, found.where(both_read)))
    in_one_log = _in_transactions(frames, in_one_log, "op", "other_op")
    yield evidence(frames.engine, with_answers_at_once(frames, in_one_log, "other_"), kind=kind)
    if (one_unread := frames.none_if_empty(found.where(~both_read))) is not None:
        explained = _explained(frames, one_unread)
        yield evidence(frames.engine, explained, kind=kind, aspect=F.lit(ACKNOWLEDGED))


def _with_unknown_producers(frames: Frames, back: Frame) -> Frame:
    """Add the aspect, if any is OVERTAKEN."""
    F = frames.engine.functions
    overtaking = frames.epoch_bumps.overtaking
    if overtaking is None:
        return back
    pairs = back.select("op", *TP, "value", "other_value", "other_complete_ns")
    pairs = pairs.join(overtaking, on=["op", *TP, "value"], how="inner")
    again = F.col("other_value") >= F.coalesce(F.col("lacked_value"), F.lit(0))
    again &= F.col("other_complete_ns") > F.col("began_ns")
    overtaken = pairs.where(again).select("op", *TP).distinct()
    overtaken = overtaken.withColumn("aspect", F.lit(OVERTAKEN))
    return left_join(back, frames.engine.materialize(overtaken), on=["op", *TP])


def _placed(frames: Frames) -> Frame:
    """Return op, client, topic, partition, value, acks, invoke_ns, complete_ns, offset (its place),
    read (1: it was read) of the acknowledged sends that have a place."""
    F = frames.engine.functions
    columns = ["op", "client", *TP, "value", "acks", "invoke_ns", "complete_ns"]
    read_to_end = F.col("end_offset").isNotNull()
    place = F.when(read_to_end, F.col("final_offset")).otherwise(
        F.coalesce(F.col("final_offset"), F.col("first_offset"))
    )
    acked = frames.send_outcomes.where(
        (F.col("type") == F.lit("ok")) & F.col("first_offset").isNotNull()
    )
    placed = left_join(acked, frames.complete, on=TP).select(
        *columns, place.alias("offset"), F.lit(1).alias("read")
    )
    if frames.beyond_final_read is not None:
        unread = frames.beyond_final_read.where(
            (F.col("type") == F.lit("ok")) & F.col("first_offset").isNull()
        )
        never = F.lit(None).cast("int").alias("read")
        placed = placed.unionByName(unread.select(*columns, "offset", never))
    return placed.where(F.col("offset").isNotNull())


def _explained(frames: Frames, steps: Frame) -> Frame:
    """Add the `cause_id` of a cause that may have undone one of the two acknowledgements."""
    F = frames.engine.functions
    named = [name for name in SEND if name not in ("op", "value", *TP)]
    explained = []
    for prefix in ("", "other_"):
        key = [F.col(f"{prefix}{name}").alias(name) for name in ("op", "value")]
        sends = steps.select(*key, *TP).join(
            frames.sends.select("op", "value", *TP, *named), on=["op", "value", *TP], how="inner"
        )
        causes = frames.with_causes(frames.engine.materialize(sends))
        explained.append(
            causes.select(
                F.col("op").alias(f"{prefix}op"), *TP, F.col("cause_id").alias(f"{prefix}cause")
            )
        )
    for prefix, causes in zip(("", "other_"), explained, strict=True):
        steps = left_join(steps, frames.engine.materialize(causes), on=[f"{prefix}op", *TP])
        steps = frames.engine.materialize(steps)
    return steps.withColumn("cause_id", F.coalesce("other_cause", "cause"))


def _of_one_log(frames: Frames, back: Frame) -> Frame:
    F = frames.engine.functions
    back = frames.engine.materialize(back)
    both = back.select(*TP, "value").unionByName(
        back.select(*TP, F.col("other_value").alias("value"))
    )
    seen = frames.engine.materialize(
        frames.reads.join(both, on=[*TP, "value"], how="left_semi")
        .groupBy(*TP, "value")
        .agg(F.min("complete_ns").alias("read_ns"))
    )
    seen_before = seen.select(
        *TP, F.col("value").alias("other_value"), F.col("read_ns").alias("other_read_ns")
    )
    found = left_join(left_join(back, seen, on=[*TP, "value"]), seen_before, [*TP, "other_value"])
    found = left_join(found, frames.complete.select(*TP, "end_offset"), on=TP)
    certain = F.col("end_offset").isNotNull() | (F.col("read_ns") <= F.col("other_read_ns"))
    return found.where(certain)
