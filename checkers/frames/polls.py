"""One row per poll: which offsets it returned, and which committed record it missed."""

from checkers.engines.engine import Engine, Frame
from checkers.history.history import TP


def polls(engine: Engine, reads: Frame) -> Frame:
    """Return one row per poll and partition: op, client, topic, partition, records, first_offset,
    last_offset, invoke_ns, latest_ns (the latest start of its rows; it differs from invoke_ns only
    if several polls have one operation number), complete_ns. reads: see `Frames.reads`."""
    F = engine.functions
    rows = reads.where(F.col("f") == F.lit("poll")).groupBy("op", "client", *TP)
    return engine.materialize(
        rows.agg(
            F.count(F.lit(1)).alias("records"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.min("invoke_ns").alias("invoke_ns"),
            F.max("invoke_ns").alias("latest_ns"),
            F.max("complete_ns").alias("complete_ns"),
        )
    )


def stale_polls(engine: Engine, polls: Frame, acked: Frame) -> Frame:
    """Return the polls that missed a committed record: op, client, topic, partition, value, offset,
    acked_ns, polled_ns of the first record behind the poll's last one, if acks=all had acknowledged
    it before the poll began. acked: the acknowledged sends."""
    F = engine.functions
    ends = polls.select(
        "op", "client", *TP, (F.col("last_offset") + F.lit(1)).alias("offset"),
        F.col("invoke_ns").alias("polled_ns"),
    )  # fmt: skip
    committed = acked.where((F.col("acks") == F.lit(-1)) & F.col("offset").isNotNull())
    committed = committed.select(*TP, "offset", "value", F.col("complete_ns").alias("acked_ns"))
    late = ends.join(committed, on=[*TP, "offset"], how="inner")
    return engine.materialize(late.where(F.col("acked_ns") < F.col("polled_ns")))
