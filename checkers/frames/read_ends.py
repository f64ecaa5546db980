"""How far the final reads came; acknowledged writes are compared with them."""

from typing import Final

from checkers.engines.engine import Engine, Frame, left_join
from checkers.frames.ended import READ_COMMITTED
from checkers.history.history import TP

TIMED_OUT: Final = "timeout"
"""The error of a final read that waited in vain for more records."""


def read_ends(engine: Engine, others: Frame, cluster: Frame) -> Frame:
    """Return topic, partition, whole (1: the final read reached the end), reached (the offset that
    it reached), read_ns (when).

    A read with an error does not count at all, because the log may have been truncated during the
    read. A log that goes on above its committed part was not read to its end: no consumer got the
    records there, even if a leader acknowledged them. others: rows of the history. cluster: of
    CLUSTER.
    """
    F = engine.functions
    rows = others.where((F.col("f") == F.lit("final-read-end")) & F.col("error").isNull())
    came = rows.groupBy(*TP).agg(
        F.max(F.when(F.col("type") == F.lit("ok"), F.lit(1)).otherwise(F.lit(0))).alias("came"),
        F.max("offset").alias("reached"),
        F.max("complete_ns").alias("read_ns"),
    )
    ends = engine.materialize(log_ends(engine, cluster))
    beyond = F.coalesce(F.col("log_end") > F.col("reached"), F.lit(False))
    whole = F.when((F.col("came") == F.lit(1)) & ~beyond, F.lit(1)).otherwise(F.lit(0))
    found = came.join(ends, on=TP, how="left")
    return found.select(*TP, whole.alias("whole"), "reached", "read_ns")


def held_up(engine: Engine, others: Frame, cluster: Frame, replica_ends: Frame) -> Frame:
    """Return op, client, TP, offset, invoke_ns, complete_ns, other_offset of the final reads at
    read_committed that waited in vain below the high watermark: a transaction is open there.

    offset: the position that the read reached, which is the last stable offset; other_offset: the
    greatest high watermark that is known. others: rows of the history; cluster: of CLUSTER;
    replica_ends: of REPLICA_ENDS.
    """
    F = engine.functions
    waited = F.coalesce(F.col("error"), F.lit(TIMED_OUT)) == F.lit(TIMED_OUT)
    rows = others.where(
        (F.col("f") == F.lit("final-read-end"))
        & (F.col("isolation") == F.lit(READ_COMMITTED))
        & waited
    )
    reads = rows.select("op", "client", *TP, "offset", "invoke_ns", "complete_ns")
    epochs = cluster.where(F.col("kind") == F.lit("epoch"))
    known = epochs.select(*TP, F.col("end_offset").alias("end")).unionByName(
        replica_ends.select(*TP, F.col("high_watermark").alias("end"))
    )
    ends = engine.materialize(known.groupBy(*TP).agg(F.max("end").alias("other_offset")))
    found = left_join(engine.materialize(reads), ends, on=TP)
    return found.where(F.col("offset") < F.col("other_offset"))


def log_ends(engine: Engine, cluster: Frame) -> Frame:
    """Return topic, partition, log_end: where each log ended when its leader was asked about its
    leader epochs, after the final read. Null: it did not answer. cluster: of CLUSTER.
    """
    F = engine.functions
    epochs = cluster.where(F.col("kind") == F.lit("epoch"))
    return epochs.groupBy(*TP).agg(F.max("end_offset").alias("log_end"))
