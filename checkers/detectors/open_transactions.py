"""Did a reader of committed records get records of a transaction that was still open?

A reader of committed records gets nothing from the first record of an open transaction on: the last
stable offset is there (KIP-98). A transaction is open until its producer asks to commit it; nobody
else commits it. All clients of a run share one clock.
"""

from collections.abc import Iterator

from checkers.contract.conditions import OPEN
from checkers.detectors.forgotten import with_lost_transactions
from checkers.detectors.real_time import overtaken
from checkers.engines.engine import Frame
from checkers.frames.ended import NOT_COMMITTED, READ_COMMITTED
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import TP


def open_reads(frames: Frames) -> Iterator[Frame]:
    """kind aborted-read, aspect open: a poll at read_committed (other_op) returned a record, and
    was over before anybody asked to end the transaction of the record.

    One row for each send. Sends that are known not to be committed are left to `aborted_reads`.
    """
    F, engine = frames.engine.functions, frames.engine
    early = _passed_while_open(frames)
    if early is None:
        return
    sends = frames.send_outcomes.join(early, on=["txn", *TP], how="inner")
    sends = engine.materialize(sends.where(F.col("type") != F.lit(NOT_COMMITTED)))
    polls = frames.history.where(
        (F.col("f") == F.lit("poll")) & (F.col("isolation") == F.lit(READ_COMMITTED))
    ).select(*TP, "value", F.col("op").alias("other_op"), F.col("complete_ns").alias("read_ns"))
    pairs = sends.select("op", *TP, "value", "end_ns").join(polls, on=[*TP, "value"], how="inner")
    pairs = pairs.where(F.col("read_ns") < F.col("end_ns"))
    read = engine.materialize(pairs.groupBy("op").agg(F.min("other_op").alias("other_op")))
    found = frames.none_if_empty(sends.join(read, on="op", how="inner"))
    if found is None:
        return
    begun = frames.send_outcomes.join(found.select("txn").distinct(), on="txn", how="left_semi")
    begun = engine.materialize(begun.groupBy("txn").agg(F.min("invoke_ns").alias("since_ns")))
    found = with_lost_transactions(
        frames, engine.materialize(found.join(begun, on="txn", how="inner"))
    )
    yield evidence(
        engine, found, kind=F.lit("aborted-read"), aspect=F.lit(OPEN),
        offset=F.col("first_offset"),
    )  # fmt: skip


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
