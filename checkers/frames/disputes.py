"""Offsets about which records that were read say different things."""

from checkers.engines.engine import Engine, Frame
from checkers.frames.repeats import split
from checkers.history.history import TP


def disputed(engine: Engine, records: Frame) -> Frame:
    """Return topic, partition, offset, value, other_value (least and greatest), in_final_log of
    offsets where two values were read, or where a record is not in the final log.

    records: topic, partition, offset, value, in_final_log (1 or 0).
    """
    F = engine.functions
    several, single = split(engine, records, "offset", within=TP)
    offsets = single.select(
        *TP, "offset", "value", F.col("value").alias("other_value"), "in_final_log"
    )
    gone = offsets.where(F.col("in_final_log") == F.lit(0))
    if several is None:
        return gone
    offsets = several.groupBy(*TP, "offset").agg(
        F.min("value").alias("value"),
        F.max("value").alias("other_value"),
        F.max("in_final_log").alias("in_final_log"),
    )
    two = F.col("value") < F.col("other_value")
    return gone.unionByName(offsets.where(two | (F.col("in_final_log") == F.lit(0))))
