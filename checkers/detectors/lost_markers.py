"""Which partitions may have lost the marker that ended a transaction, while its records stayed.

The transaction is open again in the partition, and its coordinator has ended it long ago. The next
marker of the producer ends it: with the producer's next transaction it is committed or aborted
(KIP-98). Without one it stays open (KIP-664).
"""

import pyarrow as pa

from checkers.causes.leadership_terms import LAST_EPOCH
from checkers.causes.matching import forgotten_between, strongest
from checkers.engines.engine import Frame, as_frame, left_join
from checkers.frames.frames import Frames
from checkers.frames.transactions import with_marker_bounds
from checkers.history.history import TP

_CAUSES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("number", pa.int32()),
        ("epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("elected_ns", pa.int64()),
        ("until_ns", pa.int64()),
        ("strength", pa.int32()),
    ]
)


def with_lost_markers(frames: Frames, sends: Frame) -> Frame:
    """Fill `cause_id` of sends in transactions that were read although they were not committed.
    sends: rows of `Frames.send_outcomes` whose value was read.

    The cause came after the send, and before anybody read the record. It took what was above the
    record. The first record of the producer's next transaction came later, so it is not below the
    cut.
    """
    F, engine = frames.engine.functions, frames.engine
    inside = frames.none_if_empty(sends.where(F.col("txn").isNotNull()))
    if inside is None:
        return sends.withColumn("cause_id", F.lit(None).cast("int"))
    place = F.coalesce("final_offset", "first_offset")
    read = frames.reads.join(inside.select(*TP, "value"), on=[*TP, "value"], how="left_semi")
    read = read.groupBy(*TP, "value").agg(F.min("complete_ns").alias("seen_ns"))
    known = left_join(inside, engine.materialize(read), on=[*TP, "value"])
    stayed = known.select(
        "op", *TP, "value", "invoke_ns", "seen_ns",
        F.coalesce("complete_ns", "invoke_ns").alias("complete_ns"),
        place.alias("offset"),
        place.alias("kept_offset"),
        F.lit(-1).alias("acks"),
        F.lit(None).cast("int").alias("leader_epoch"),
        F.lit(None).cast("int").alias("node"),
    )  # fmt: skip
    stayed = with_marker_bounds(engine, frames.send_outcomes, engine.materialize(stayed))
    caused = engine.materialize(frames.with_causes(engine.materialize(stayed)))
    return left_join(
        engine.materialize(sends), caused.select("op", *TP, "cause_id"), on=["op", *TP]
    )


def holding_up(frames: Frames, reads: Frame) -> Frame | None:
    """Return op, topic, partition, cause_id of final reads that a transaction holds up whose marker
    the partition may have lost with permission; None without any. reads: op, topic, partition,
    offset, complete_ns.

    The loss began above the last stable offset, where the transaction begins, after the first
    transactional send to the partition, and before the end of the read.
    """
    F, engine = frames.engine.functions, frames.engine
    rows = [
        {
            "topic": cause.topic, "partition": cause.partition, "number": number,
            "epoch": cause.epoch, "start_offset": cause.start_offset,
            "elected_ns": cause.elected_ns, "until_ns": cause.until_ns, "strength": cause.strength,
        }
        for number, cause in enumerate(frames.causes.causes)
        if frames.took_committed(cause)
    ]  # fmt: skip
    if not rows:
        return None
    sends = frames.history.where(
        (F.col("f") == F.lit("send")) & F.col("transactional_id").isNotNull()
    )
    begun = sends.groupBy(*TP).agg(F.min("invoke_ns").alias("since_ns"))
    cases = reads.select("op", *TP, "offset", F.col("complete_ns").alias("seen_ns"))
    cases = cases.join(engine.materialize(begun), on=TP, how="inner")
    pairs = cases.join(as_frame(engine, rows, _CAUSES), on=TP, how="inner").where(
        ((F.col("offset") < F.col("start_offset")) | (F.col("epoch") == F.lit(LAST_EPOCH)))
        & forgotten_between(engine)
    )
    return frames.none_if_empty(strongest(engine, pairs, ["op", *TP]))
