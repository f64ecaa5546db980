"""Commits of offsets whose transaction was committed, although nobody answered the commit.

A transaction is committed with all its parts or with none (KIP-98). So if the final log has a
record of it, then its offsets are committed, too.
"""

from checkers.detectors.surely_kept import in_kept_partitions, with_known_coordinators
from checkers.engines.engine import Frame, left_join
from checkers.frames.frames import Frames
from checkers.history.history import COMMIT
from checkers.history.settings import TRANSACTIONS_TOPIC


def with_proofs(frames: Frames, commits: Frame) -> Frame:
    """Return commits of offsets (type, txn, transactional_id, begun_ns, …) with asked_ns: when the
    commit of the transaction was first asked for; null unless the transaction is proved to be
    committed, and the commit was asked for after the offsets had been sent.

    A client asks for it when the offsets are acknowledged. From then on the coordinator of the
    group has them, and tells no position until their transaction has ended. Before transaction
    version 2 a delayed request may tear a transaction: then nothing is proved in a run with delays.
    """
    F, engine = frames.engine.functions, frames.engine
    unknown = (F.col("type") == F.lit("info")) & F.col("txn").isNotNull()
    open_ = frames.none_if_empty(
        commits.where(unknown).select("txn", "transactional_id", "begun_ns")
    )
    late = frames.settings(TRANSACTIONS_TOPIC).transaction_version < 2 and frames.delays
    proved = None if open_ is None or late else _proved(frames, open_)
    if proved is None:
        return commits.withColumn("asked_ns", F.lit(None).cast("bigint"))
    named = left_join(commits, proved, on=["txn"])
    meant = (F.col("type") == F.lit("info")) & (F.col("begun_ns") < F.col("asked_ns"))
    return engine.materialize(named.withColumn("asked_ns", F.when(meant, F.col("asked_ns"))))


def _proved(frames: Frames, open_: Frame) -> Frame | None:
    """Return txn, asked_ns of the transactions in `open_` of which the final log has a record; None
    without any. A partition that may have lost the marker of an abort proves nothing."""
    F, engine = frames.engine.functions, frames.engine
    txns = open_.select("txn", "transactional_id").distinct()
    asked = frames.transaction_ends.join(txns.select("txn"), on="txn", how="left_semi")
    asked = asked.groupBy("txn").agg(
        F.min("invoke_ns").alias("asked_ns"),
        F.min(F.when(F.col("f") == F.lit(COMMIT), F.lit(1)).otherwise(F.lit(0))).alias("commits"),
    )
    asked = engine.materialize(asked.where(F.col("commits") == F.lit(1)).select("txn", "asked_ns"))
    read = F.col("final_offset").isNotNull() & (F.col("type") == F.lit("info"))
    kept = frames.send_outcomes.where(read).join(asked, on="txn", how="inner")
    found = frames.none_if_empty(kept.select("txn", "topic", "partition", "asked_ns").distinct())
    if found is None:
        return None
    sure = in_kept_partitions(frames, found).select("txn", "asked_ns").distinct()
    sure = engine.materialize(sure.join(txns, on="txn", how="inner"))
    sure = with_known_coordinators(frames, sure).select("txn", "asked_ns").distinct()
    return frames.none_if_empty(sure)
