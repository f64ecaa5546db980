"""How far the final reads came; acknowledged writes are compared with them."""

from checkers.engines.engine import Engine, Frame
from checkers.history.history import TP


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
    epochs = cluster.where(F.col("kind") == F.lit("epoch"))
    ends = engine.materialize(epochs.groupBy(*TP).agg(F.max("end_offset").alias("log_end")))
    beyond = F.coalesce(F.col("log_end") > F.col("reached"), F.lit(False))
    whole = F.when((F.col("came") == F.lit(1)) & ~beyond, F.lit(1)).otherwise(F.lit(0))
    found = came.join(ends, on=TP, how="left")
    return found.select(*TP, whole.alias("whole"), "reached", "read_ns")
