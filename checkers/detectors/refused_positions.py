"""Consumers that a broker told that their position is not in the log, though it is.

A leader refuses a position (OFFSET_OUT_OF_RANGE) that is below the start of its log or beyond its
end. The log has the record that the consumer was given last, and starts at 0: so the leader told an
end at or below that record.
"""

from checkers.engines.engine import Frame
from checkers.frames.frames import Frames
from checkers.frames.ownership import ASSIGNED
from checkers.history.history import TP

REFUSED = "OFFSET_OUT_OF_RANGE"
"""The error of the assignment by which a client tells why it moved on."""


def refused_positions(frames: Frames) -> Frame | None:
    """Return op, client, invoke_ns, complete_ns, topic, partition, offset (of the record that the
    consumer was given last; the told end is there at most), since_ns (when it was given it); None
    without any."""
    F, engine = frames.engine.functions, frames.engine
    moved = F.col("f").isin("assign", ASSIGNED) & F.col("partition").isNotNull()
    moves = frames.rare_rows.where(moved)
    refused = frames.none_if_empty(moves.where(F.col("error") == F.lit(REFUSED)))
    if refused is None:
        return None
    line = ["client", *TP]
    concerned = engine.materialize(refused.select(*line).distinct())
    nothing = F.lit(None).cast("bigint")
    polls = frames.polls.join(concerned, on=line, how="left_semi").select(
        "op", *line, F.col("last_offset").alias("offset"), F.col("complete_ns").alias("since_ns"),
        nothing.alias("invoke_ns"), nothing.alias("complete_ns"), F.lit(0).alias("refused"),
    )  # fmt: skip
    is_refused = F.when(F.col("error") == F.lit(REFUSED), F.lit(1)).otherwise(F.lit(0))
    others = moves.join(concerned, on=line, how="left_semi").select(
        "op", *line, nothing.alias("offset"), nothing.alias("since_ns"),
        "invoke_ns", "complete_ns", is_refused.alias("refused"),
    )  # fmt: skip
    order = engine.window.partitionBy(*line).orderBy("op", "offset")
    steps = polls.unionByName(others).select(
        "op", *line, "invoke_ns", "complete_ns", "refused",
        F.lag("offset").over(order).alias("offset"),
        F.lag("since_ns").over(order).alias("since_ns"),
        F.lag("op").over(order).alias("poll_op"),
    )  # fmt: skip
    there = (F.col("refused") == F.lit(1)) & F.col("offset").isNotNull()
    return frames.none_if_empty(_kept(frames, engine.materialize(steps.where(there))))


def _kept(frames: Frames, refused: Frame) -> Frame:
    """Return the rows of `refused` whose record is in the final log, which starts at 0."""
    F, engine = frames.engine.functions, frames.engine
    place = [*TP, "offset"]
    given = frames.reads.where(F.col("f") == F.lit("poll")).select(
        F.col("op").alias("poll_op"), *place, "value"
    )
    known = engine.materialize(refused.join(given, on=["poll_op", *place], how="inner"))
    kept = known.join(frames.final_log, on=[*place, "value"], how="left_semi")
    starts = frames.first_offsets.where(F.col("log_start") == F.lit(0)).select(*TP)
    kept = kept.join(starts, on=TP, how="left_semi")
    kept = kept.join(frames.complete.select(*TP), on=TP, how="left_semi")
    return kept.select("op", "client", "invoke_ns", "complete_ns", *place, "since_ns")
