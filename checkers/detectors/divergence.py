"""Are all replicas the same, byte for byte, below the high watermark that each of them knew?

The detector works on the batches in the replicas' files after settling. Every replica is compared
with one reference: the replica with the highest high watermark (the lowest node if several have
it). Below its own high watermark a replica must have exactly the batches of the reference. Of
compacted topics only the ends are compared.

Nodes stop one after the other, and a coordinator may still end a transaction then. So a replica may
lack what was appended after the leader had told where its log ends, and after the final read.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from checkers.engines.engine import Column, Frame, as_frame, left_join
from checkers.frames.changed_logs import ChangedLogs, with_changed_bytes
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.read_ends import log_ends
from checkers.frames.same_bytes import same_bytes
from checkers.history.history import METADATA_TOPIC, TP
from checkers.history.recorded_faults import METADATA_FILE

PAIRS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("node", pa.int32()),
        ("reference", pa.int32()),
        ("hw", pa.int64()),
        ("end_offset", pa.int64()),
        ("due", pa.int64()),
        ("their_end", pa.int64()),
        ("log_start", pa.int64()),
    ]
)


def divergent_replicas(frames: Frames) -> Iterator[Frame]:
    """kind divergent-replicas: one row per batch or replica; offset and node say where.

    The replicas of the metadata log (METADATA_TOPIC) are the nodes' copies; a copy may always lag.

    aspect bytes: a batch differs from the reference's batch at the same base offset; damaged: the
    same, and a fault had flipped a bit in the log of one of the two, or, if the leader epochs
    differ, of another node that ever held the partition; extra: a batch that the
    reference does not have; missing: a batch that only the reference has; short: the log ends below
    the reference's high watermark and below the end that was known when the nodes were stopped.
    kind unequal-ends: the logs end at other different offsets.
    """
    F = frames.engine.functions
    pairs = _pairs(frames)
    copied = F.col("topic") == F.lit(METADATA_TOPIC)
    short = ~copied & (F.col("end_offset") < F.col("due"))
    unequal = frames.none_if_empty(pairs.where(short | (F.col("end_offset") != F.col("their_end"))))
    if unequal is not None:
        yield evidence(
            frames.engine,
            unequal,
            kind=F.when(short, F.lit("divergent-replicas")).otherwise(F.lit("unequal-ends")),
            aspect=F.when(short, F.lit("short")),
            offset=F.col("end_offset"),
            other_offset=F.when(short, F.col("due")).otherwise(F.col("their_end")),
            detail=_against(frames),
        )
    kind = F.lit("divergent-replicas")
    unlike = frames.none_if_empty(_unlike(frames, pairs))
    if unlike is not None:
        aspect = F.when(F.col("their_digest").isNull(), F.lit("extra")).otherwise(F.lit("bytes"))
        for flipped, concerned in _flips(frames, copied):
            either = flipped.condition(frames.engine)
            either |= flipped.condition(frames.engine, "reference")
            either |= _copied_with_epochs(frames, flipped)
            known = ~F.col("their_digest").isNull()
            aspect = F.when(known & concerned & either, F.lit("damaged")).otherwise(aspect)
        epochs = _epochs(frames, "leader_epoch", "their_epoch")
        yield evidence(frames.engine, unlike, kind=kind, aspect=aspect, detail=epochs)
    missing = frames.none_if_empty(_missing(frames, pairs))
    if missing is not None:
        aspect, epochs = F.lit("missing"), _epochs(frames, None, "leader_epoch")
        yield evidence(frames.engine, missing, kind=kind, aspect=aspect, detail=epochs)


def _flips(frames: Frames, copied: Column) -> Iterator[tuple[ChangedLogs, Column]]:
    """Yield the logs, and the copies of the metadata log, in which faults changed bytes."""
    rows = frames.fault_rows
    for flipped, concerned in (
        (with_changed_bytes(rows), ~copied),
        (with_changed_bytes(rows, METADATA_FILE), copied),
    ):
        if flipped:
            yield flipped, concerned


def _copied_with_epochs(frames: Frames, flipped: ChangedLogs) -> Column:
    """Whether the leader epochs of a partition's batches differ, and a node that ever held it had
    changed bytes: no checksum covers the leader epoch of a batch, so others may have copied it."""
    F = frames.engine.functions
    held = {log: nodes for log, nodes in frames.holders.items() if log[0] != METADATA_TOPIC}
    names = sorted(f"{topic}-{partition}" for topic, partition in flipped.partitions(held))
    name = F.concat(F.col("topic"), F.lit("-"), F.col("partition").cast("string"))
    return (F.col("leader_epoch") != F.col("their_epoch")) & name.isin(*names)


def _unlike(frames: Frames, pairs: Frame) -> Frame:
    """Return the batches below the replica's high watermark that the reference does not have, or
    has with other bytes."""
    F = frames.engine.functions
    mine = (
        same_bytes(frames)
        .select(
            "node",
            *TP,
            "base_offset",
            F.col("last_offset").alias("other_offset"),
            "digest",
            "leader_epoch",
        )
        .join(pairs, on=["node", *TP], how="inner")
    )
    theirs = same_bytes(frames).select(
        F.col("node").alias("reference"), *TP, "base_offset",
        F.col("digest").alias("their_digest"), F.col("leader_epoch").alias("their_epoch"),
    )  # fmt: skip
    within = (F.col("other_offset") < F.col("hw")) & (F.col("base_offset") >= F.col("log_start"))
    compared = left_join(mine.where(within), theirs, on=["reference", *TP, "base_offset"])
    return compared.where(
        F.col("their_digest").isNull() | (F.col("their_digest") != F.col("digest"))
    ).withColumnRenamed("base_offset", "offset")


def _missing(frames: Frames, pairs: Frame) -> Frame:
    """Return the reference's batches below the replica's high watermark that the replica does not
    have."""
    F = frames.engine.functions
    theirs = same_bytes(frames).select(
        F.col("node").alias("reference"), *TP, "base_offset", "leader_epoch",
        F.col("last_offset").alias("other_offset"),
    ).join(pairs, on=["reference", *TP], how="inner")  # fmt: skip
    within = (F.col("other_offset") < F.col("hw")) & (F.col("base_offset") >= F.col("log_start"))
    mine = same_bytes(frames).select("node", *TP, "base_offset")
    return (
        theirs.where(within)
        .join(mine, on=["node", *TP, "base_offset"], how="left_anti")
        .withColumnRenamed("base_offset", "offset")
    )


def _pairs(frames: Frames) -> Frame:
    """Return every replica with its reference: node, reference, topic, partition, hw and end_offset
    of the replica, due: what it must have, their_end of the reference, log_start: the greater one.

    There are as many rows as replicas, so plain Python is enough.
    """
    replicas: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in frames.engine.rows(frames.replica_ends):
        replicas[row["topic"], row["partition"]].append(row)
    known = _known_ends(frames)
    pairs = []
    for (topic, partition), rows in sorted(replicas.items()):
        reference = min(rows, key=lambda row: (-row["high_watermark"], row["node"]))
        committed = reference["high_watermark"]
        pairs += [
            {
                "topic": topic,
                "partition": partition,
                "node": row["node"],
                "reference": reference["node"],
                "hw": row["high_watermark"],
                "end_offset": row["end_offset"],
                "due": min(committed, known.get((topic, partition), committed)),
                "their_end": reference["end_offset"],
                "log_start": max(row["start_offset"], reference["start_offset"]),
            }
            for row in rows
            if row["node"] != reference["node"]
        ]
    return as_frame(frames.engine, pairs, PAIRS)


def _known_ends(frames: Frames) -> dict[tuple[str, int], int]:
    """Return where each log ended, as far as that was known when the nodes were stopped."""
    engine, known = frames.engine, {}
    for row in engine.rows(left_join(log_ends(engine, frames.cluster), frames.read_ends, on=TP)):
        if row["log_end"] is not None:
            known[row["topic"], row["partition"]] = max(row["log_end"], row["reached"] or 0)
    return known


def _epochs(frames: Frames, mine: str | None, theirs: str) -> Column:
    """The reference node, and the leader epochs of the two batches."""
    F = frames.engine.functions
    nothing = F.lit("nothing")

    def epoch(name: str) -> Column:
        return F.coalesce(F.concat(F.lit("epoch "), F.col(name).cast("string")), nothing)

    here = nothing if mine is None else epoch(mine)
    return F.concat(
        _against(frames), F.lit(": "), here, F.lit(" here, "), epoch(theirs), F.lit(" there")
    )


def _against(frames: Frames) -> Column:
    F = frames.engine.functions
    return F.concat(F.lit("against node "), F.col("reference").cast("string"))
