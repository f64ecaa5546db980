"""How far the final reads came, which acknowledged writes are held against."""

from checkers.engines.engine import Engine, Frame

TP = ["topic", "partition"]


def read_ends(engine: Engine, others: Frame, cluster: Frame) -> Frame:
    """topic, partition, whole (1: the final read reached the end), reached (how far it came),
    read_ns (when).

    A read that something went wrong with is no truth below that either: the log may have been cut
    meanwhile. A log that goes on above what was committed was not read to its end: what lies there,
    whoever acknowledged it, nobody was given yet. others: rows of the history; cluster: of CLUSTER.
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
