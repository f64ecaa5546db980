"""Copies of unknown outcome that may have been in the log, and are not there any more.

A group commits offsets together with the copies of all records below them. If the client was not
told of the result, the copies may still be there. Retention may remove them from the output, and
the output, or the coordinator of their transaction, may lose them with permission.
"""

from checkers.detectors.forgotten import taking_committed, with_lost_transactions
from checkers.engines.engine import Frame, left_join
from checkers.frames.frames import Frames
from checkers.frames.send_outcomes import SEND
from checkers.history.history import TP
from checkers.history.settings import FOREVER_NS


def copies_that_vanished(frames: Frames, records: Frame, copies: Frame) -> Frame:
    """Return group, value of the `records` (group, value) of which a copy of unknown outcome may
    have been removed. copies: SEND, final_offset, copies, group.

    The log of the output does not begin at 0, and no record that had been acknowledged before the
    copy was sent is left in it: such a record lies below the copy. Or a cause that takes committed
    records may explain that the copy is gone.
    """
    F, engine = frames.engine.functions, frames.engine
    unsure = (F.col("type") == F.lit("info")) & F.col("final_offset").isNull()
    named = records.select("group", F.col("value").alias("copies"))
    gone = engine.materialize(
        copies.where(unsure).join(named, on=["group", "copies"], how="left_semi")
    )
    caused = with_lost_transactions(frames, frames.with_causes(gone.select(*SEND)))
    lost = caused.where(F.col("cause_id").isin(*taking_committed(frames, caused)))
    start = F.coalesce("first_kept", "first_read").alias("log_start")
    known = left_join(gone, frames.first_offsets.select(*TP, start), on=TP)
    known = left_join(known, _oldest_kept(frames, gone), on=TP)
    removed = known.where(
        (F.col("log_start") > F.lit(0))
        & (F.col("invoke_ns") <= F.coalesce("kept_ns", F.lit(FOREVER_NS)))
    )
    vanished = lost.select("op").unionByName(removed.select("op"))
    found = gone.join(vanished, on="op", how="left_semi")
    return engine.materialize(found.select("group", F.col("copies").alias("value")).distinct())


def _oldest_kept(frames: Frames, copies: Frame) -> Frame:
    """Return topic, partition, kept_ns of the partitions of copies: when a record of the final log
    had first been acknowledged."""
    F = frames.engine.functions
    kept = frames.send_outcomes.where(
        F.col("final_offset").isNotNull()
        & (F.col("type") == F.lit("ok"))
        & (F.col("acks") != F.lit(0))
    ).join(copies.select(*TP).distinct(), on=TP, how="left_semi")
    return frames.engine.materialize(kept.groupBy(*TP).agg(F.min("complete_ns").alias("kept_ns")))
