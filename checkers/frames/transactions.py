"""Sends in transactions: which sends of unknown outcome were committed, and in which order.

A transaction is written completely or not at all, and a producer writes to a partition in order.
"""

from checkers.engines.engine import Engine, Frame
from checkers.history.history import TP


def placed(engine: Engine, send_outcomes: Frame) -> Frame | None:
    """Return op, txn, topic, partition, type, place (the offset where the value was first read,
    else acknowledged), read (1: it was read) of every send in a transaction; None without any.

    send_outcomes: see `Frames.send_outcomes`.
    """
    F = engine.functions
    sends = send_outcomes.where(F.col("txn").isNotNull())
    if engine.is_empty(sends):
        return None
    place = F.coalesce("first_offset", "offset").alias("place")
    read = F.when(F.col("first_offset").isNotNull(), F.lit(1)).alias("read")
    return engine.materialize(sends.select("op", "txn", *TP, "type", place, read))


def proved(engine: Engine, sends: Frame) -> Frame:
    """Return op of the sends of unknown outcome whose transaction was committed: one of its writes
    was read. sends: the result of `placed`."""
    F = engine.functions
    unknown = sends.where(F.col("type") == F.lit("info"))
    read = unknown.where(F.col("read").isNotNull()).select("txn").distinct()
    return engine.materialize(unknown.join(read, on="txn", how="left_semi").select("op"))


def next_places(engine: Engine, sends: Frame, vague: Frame) -> Frame:
    """Return op, topic, partition, next_place for each send in `vague` (op, topic, partition): the
    place of the next write of its transaction to the partition that has a known place. sends: the
    result of `placed`."""
    F = engine.functions
    known = sends.where(F.col("place").isNotNull())
    known = known.select("txn", *TP, F.col("op").alias("later_op"), "place")
    later = (
        vague.join(sends.select("op", "txn"), on="op", how="inner")
        .join(known, on=["txn", *TP], how="inner")
        .where(F.col("later_op") > F.col("op"))
    )
    return engine.materialize(later.groupBy("op", *TP).agg(F.min("place").alias("next_place")))
