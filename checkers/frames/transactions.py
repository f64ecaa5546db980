"""Sends in transactions: which sends of unknown outcome were committed, in which order, and where
the marker may be that committed them.

A transaction is written completely or not at all, and a producer writes to a partition in order.
"""

from typing import Final

from checkers.causes.matching import MARKER, NEXT_NS
from checkers.engines.engine import Engine, Frame, left_join
from checkers.history.history import TP

ANYWHERE: Final = 1 << 62
"""A bound for the offset of a marker when no later transaction of its producer bounds it."""


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


def with_marker_bounds(engine: Engine, send_outcomes: Frame, evidence: Frame) -> Frame:
    """Return `evidence` with MARKER and NEXT_NS, unless it has MARKER already: see
    `_marker_bounds`."""
    if MARKER in evidence.columns:
        return evidence
    bounds = _marker_bounds(engine, send_outcomes, evidence)
    return evidence if bounds is None else left_join(evidence, bounds, on=[*TP, "value"])


def _marker_bounds(engine: Engine, send_outcomes: Frame, evidence: Frame) -> Frame | None:
    """Return topic, partition, value, MARKER, NEXT_NS of the rows of `evidence` (topic, partition,
    value) that were sent in a transaction; None if there is none.

    MARKER: the greatest offset at which the marker of the transaction may be, if the producer's
    next transaction in the partition was written behind it: below its first record. NEXT_NS: when
    the last write of that next transaction ended.
    """
    F = engine.functions
    sends = send_outcomes.where(F.col("txn").isNotNull())
    place = F.coalesce("first_offset", "offset").alias("place")
    sends = sends.select("op", "client", "txn", *TP, "value", place, "complete_ns")
    wanted = sends.join(
        evidence.select(*TP, "value").distinct(), on=[*TP, "value"], how="left_semi"
    )
    wanted = engine.materialize(wanted.select("client", "txn", *TP, "value", "place"))
    if engine.is_empty(wanted):
        return None
    producers = wanted.select("client", *TP).distinct()
    firsts = (
        sends.join(producers, on=["client", *TP], how="left_semi")
        .groupBy("client", *TP, "txn")
        .agg(
            F.min("op").alias("op"),
            F.min("place").alias("first"),
            F.max("complete_ns").alias("over_ns"),
        )
    )
    order = engine.window.partitionBy("client", *TP).orderBy("op")
    following = engine.materialize(
        firsts.select(
            "client", *TP, "txn",
            F.lead("first").over(order).alias("following"),
            F.lead("over_ns").over(order).alias(NEXT_NS),
        )
    )  # fmt: skip
    known = wanted.join(following, on=["client", *TP, "txn"], how="inner")
    # After a cut of the log the next transaction may lie below this one.
    bound = F.when(F.col("following") > F.col("place"), F.col("following") - F.lit(1))
    bound = F.coalesce(bound, F.lit(ANYWHERE)).alias("bound")
    bounds = known.select(*TP, "value", bound, NEXT_NS).groupBy(*TP, "value")
    return engine.materialize(
        bounds.agg(F.max("bound").alias(MARKER), F.max(NEXT_NS).alias(NEXT_NS))
    )
