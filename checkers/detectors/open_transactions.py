"""Did a reader of committed records get records of a transaction that was still open?

A reader of committed records gets nothing from the first record of an open transaction on: the last
stable offset is there (KIP-98). A transaction is open until its producer asks to commit it; nobody
else commits it. All clients of a run share one clock.
"""

from collections.abc import Iterator

from checkers.contract.conditions import BEHIND_OPEN, OPEN
from checkers.detectors.forgotten import with_lost_transactions
from checkers.detectors.real_time import overtaken
from checkers.detectors.surely_kept import in_kept_partitions
from checkers.engines.engine import Frame
from checkers.frames.ended import NOT_COMMITTED, READ_COMMITTED
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import TP


def open_reads(frames: Frames) -> Iterator[Frame]:
    """Find polls at read_committed (other_op) that were given what they must not be given, and were
    over before anybody asked to end a transaction. Sends that are known not to be committed are
    left to `aborted_reads`.

    kind aborted-read, aspect open: a poll returned a record of the transaction. One row for each
    send.

    aspect behind-open: a poll returned a later record (other_offset), and the final log has both at
    these offsets. So it had had the first one of the transaction before. One row for each
    transaction and partition of whose records none was returned.
    """
    F, engine = frames.engine.functions, frames.engine
    early = _passed_while_open(frames)
    if early is None:
        return
    sends = frames.send_outcomes.join(early, on=["txn", *TP], how="inner")
    sends = engine.materialize(sends.where(F.col("type") != F.lit(NOT_COMMITTED)))
    own = _returned(frames, sends)
    kind, offset = F.lit("aborted-read"), F.col("first_offset")
    if own is not None:
        yield evidence(engine, _judged(frames, own), kind=kind, aspect=F.lit(OPEN), offset=offset)
        sends = sends.join(own.select("txn", *TP).distinct(), on=["txn", *TP], how="left_anti")
    behind = _passed(frames, sends)
    if behind is not None:
        found = _judged(frames, behind)
        offset = F.col("final_offset")
        yield evidence(engine, found, kind=kind, aspect=F.lit(BEHIND_OPEN), offset=offset)


def _returned(frames: Frames, sends: Frame) -> Frame | None:
    """Return the sends whose record a poll (other_op) returned while their transaction was open;
    None without any."""
    F, engine = frames.engine.functions, frames.engine
    polls = _committed_polls(frames)
    pairs = sends.select("op", *TP, "value", "end_ns").join(polls, on=[*TP, "value"], how="inner")
    pairs = pairs.where(F.col("read_ns") < F.col("end_ns"))
    read = engine.materialize(pairs.groupBy("op").agg(F.min("other_op").alias("other_op")))
    return frames.none_if_empty(sends.join(read, on="op", how="inner"))


def _passed(frames: Frames, sends: Frame) -> Frame | None:
    """Return the first of the `sends` of each transaction and partition that the final log has, if
    a poll (other_op) returned a later record (other_offset) of the final log while the transaction
    was open; None without any.

    A partition that may have lost committed records may have been written again, in another order.
    """
    F, engine = frames.engine.functions, frames.engine
    kept = sends.where(F.col("final_offset").isNotNull())
    firsts = kept.groupBy("txn", *TP).agg(F.min("final_offset").alias("final_offset"))
    kept = kept.join(engine.materialize(firsts), on=["txn", *TP, "final_offset"], how="left_semi")
    first = frames.none_if_empty(kept)
    if first is None:
        return None
    polls = _committed_polls(frames).join(first.select(*TP).distinct(), on=TP, how="left_semi")
    polls = polls.where(F.col("read_ns").isNotNull())
    polls = polls.join(frames.final_log, on=[*TP, "offset", "value"], how="left_semi")
    polls = engine.materialize(polls.select(*TP, "offset", "other_op", "read_ns"))
    marks = polls.select(*TP, F.col("read_ns").alias("at_ns"), "offset")
    asks = first.select(
        "op", *TP, F.col("end_ns").alias("at_ns"), F.col("final_offset").alias("offset")
    )
    passed = frames.none_if_empty(overtaken(frames, marks, asks))
    if passed is None:
        return None
    passed = passed.select("op", *TP, F.col("passed").alias("other_offset"))
    found = engine.materialize(first.join(passed, on=["op", *TP], how="inner"))
    found = in_kept_partitions(frames, found)
    beyond = polls.withColumnRenamed("offset", "other_offset")
    pairs = found.select("op", *TP, "other_offset", "end_ns")
    pairs = pairs.join(beyond, on=[*TP, "other_offset"], how="inner")
    pairs = pairs.where(F.col("read_ns") < F.col("end_ns"))
    read = engine.materialize(pairs.groupBy("op").agg(F.min("other_op").alias("other_op")))
    return frames.none_if_empty(found.join(read, on="op", how="inner"))


def _committed_polls(frames: Frames) -> Frame:
    """Return topic, partition, value, offset, other_op, read_ns of the records that polls at
    read_committed returned."""
    F = frames.engine.functions
    return frames.history.where(
        (F.col("f") == F.lit("poll")) & (F.col("isolation") == F.lit(READ_COMMITTED))
    ).select(
        *TP, "value", "offset", F.col("op").alias("other_op"), F.col("complete_ns").alias("read_ns")
    )


def _judged(frames: Frames, found: Frame) -> Frame:
    """Fill `cause_id`: the coordinator may have forgotten the transaction since its first send."""
    F, engine = frames.engine.functions, frames.engine
    begun = frames.send_outcomes.join(found.select("txn").distinct(), on="txn", how="left_semi")
    begun = engine.materialize(begun.groupBy("txn").agg(F.min("invoke_ns").alias("since_ns")))
    return with_lost_transactions(
        frames, engine.materialize(found.join(begun, on="txn", how="inner"))
    )


def _passed_while_open(frames: Frames) -> Frame | None:
    """Return txn, topic, partition, end_ns (when anybody first asked to end the transaction) where
    some poll that was over by then had returned a record at or behind the first one of the
    transaction; None without any."""
    F, engine = frames.engine.functions, frames.engine
    if not frames.ended_transactions.recorded or frames.in_transactions is None:
        return None
    ends = frames.transaction_ends.where(F.col("txn").isNotNull())
    ends = engine.materialize(ends.groupBy("txn").agg(F.min("invoke_ns").alias("end_ns")))
    read = F.col("read").isNotNull() & (F.col("type") != F.lit(NOT_COMMITTED))
    begun = frames.in_transactions.where(read).groupBy("txn", *TP)
    begun = begun.agg(F.min("op").alias("op"), F.min("place").alias("offset"))
    open_ = engine.materialize(begun.join(ends, on="txn", how="inner"))
    polls = frames.polls.where(F.col("complete_ns").isNotNull())
    beyond = (F.col("last_offset") + F.lit(1)).alias("offset")
    marks = polls.select(*TP, F.col("complete_ns").alias("at_ns"), beyond)
    asks = open_.select("op", *TP, F.col("end_ns").alias("at_ns"), "offset")
    passed = frames.none_if_empty(overtaken(frames, marks, asks))
    if passed is None:
        return None
    early = open_.join(passed.select("op", *TP), on=["op", *TP], how="left_semi")
    return engine.materialize(early.select("txn", *TP, "end_ns"))
