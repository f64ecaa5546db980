"""Are all replicas the same, byte for byte, as far as each knew its log to be committed?

Works on the batches in the replicas' files after settling. Every replica is compared with one
reference, the replica of the highest HW (the lowest node of those): below its own HW it must have
exactly the reference's batches.
"""

from checkers.engine import Frame
from checkers.frames import TP, Frames, evidence, union


def divergent_replicas(frames: Frames) -> Frame:
    """kind divergent-replicas, one row per batch or replica, offset: where, node: who.

    aspect bytes: another batch than the reference's at the same base offset; extra: a batch that
    the reference has not; missing: a batch of the reference is not there; short: the log ends
    below the reference's HW. kind unequal-ends: the logs end apart, at or above the HW.
    """
    F = frames.engine.functions
    pairs = frames.engine.keep(_pairs(frames))
    batches = frames.replicas.select("node", *TP, "base_offset", "last_offset", "digest")
    theirs = batches.select(
        F.col("node").alias("reference"), *TP, "base_offset",
        F.col("last_offset").alias("their_last"), F.col("digest").alias("their_digest"),
    )  # fmt: skip
    mine = (
        batches.join(pairs, on=["node", *TP], how="inner")
        .where((F.col("last_offset") < F.col("hw")) & (F.col("base_offset") >= F.col("log_start")))
        .join(theirs, on=["reference", *TP, "base_offset"], how="left")
    )
    differing = mine.where(
        F.col("their_digest").isNull() | (F.col("their_digest") != F.col("digest"))
    )
    unlike = evidence(
        frames.engine,
        differing,
        kind=F.lit("divergent-replicas"),
        aspect=F.when(F.col("their_digest").isNull(), F.lit("extra")).otherwise(F.lit("bytes")),
        offset=F.col("base_offset"),
        other_offset=F.col("last_offset"),
        detail=_against(frames),
    )
    expected = (
        theirs.join(pairs, on=["reference", *TP], how="inner")
        .where((F.col("their_last") < F.col("hw")) & (F.col("base_offset") >= F.col("log_start")))
        .join(
            batches.select("node", *TP, "base_offset"),
            on=["node", *TP, "base_offset"],
            how="left_anti",
        )
    )
    missing = evidence(
        frames.engine,
        expected,
        kind=F.lit("divergent-replicas"),
        aspect=F.lit("missing"),
        offset=F.col("base_offset"),
        other_offset=F.col("their_last"),
        detail=_against(frames),
    )
    short = F.col("end_offset") < F.col("their_hw")
    ends = evidence(
        frames.engine,
        pairs.where(short | (F.col("end_offset") != F.col("their_end"))),
        kind=F.when(short, F.lit("divergent-replicas")).otherwise(F.lit("unequal-ends")),
        aspect=F.when(short, F.lit("short")),
        offset=F.col("end_offset"),
        other_offset=F.when(short, F.col("their_hw")).otherwise(F.col("their_end")),
        detail=_against(frames),
    )
    return union(unlike, missing, ends)


def _pairs(frames: Frames) -> Frame:
    """Every replica beside its reference: node, reference, topic, partition, hw and end_offset of
    the replica, their_hw and their_end of the reference, log_start: where both have begun."""
    F = frames.engine.functions
    order = frames.engine.window.partitionBy(*TP).orderBy(F.col("high_watermark").desc(), "node")
    ranked = frames.replica_ends.withColumn("rank", F.row_number().over(order))
    reference = ranked.where(F.col("rank") == F.lit(1)).select(
        *TP,
        F.col("node").alias("reference"),
        F.col("high_watermark").alias("their_hw"),
        F.col("end_offset").alias("their_end"),
        F.col("start_offset").alias("their_start"),
    )
    others = ranked.where(F.col("rank") > F.lit(1)).select(
        "node", *TP, "start_offset", "end_offset", F.col("high_watermark").alias("hw")
    )
    return others.join(reference, on=TP, how="inner").withColumn(
        "log_start", F.greatest("start_offset", "their_start")
    )


def _against(frames: Frames) -> Frame:
    F = frames.engine.functions
    return F.concat(F.lit("against node "), F.col("reference").cast("string"))
