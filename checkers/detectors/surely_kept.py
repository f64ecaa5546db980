"""Which partitions surely lost no committed record, as far as the record of the run shows.

A conclusion from the final log about what a log had held before needs that. A partition in doubt
accuses nobody.
"""

from dataclasses import replace

import pyarrow as pa

from checkers.causes.coordinators import partition_of
from checkers.contract.conditions import in_force
from checkers.engines.engine import Frame, as_frame
from checkers.frames.frames import Frames
from checkers.history.history import TP
from checkers.history.settings import TRANSACTIONS_TOPIC

_PLACES = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
_IDS = pa.schema([("transactional_id", pa.string())])


def in_kept_partitions(frames: Frames, rows: Frame) -> Frame:
    """Return the rows (topic, partition, …) of partitions that surely lost no committed record."""
    engine = frames.engine
    places = [
        {"topic": row["topic"], "partition": row["partition"]}
        for row in engine.rows(rows.select(*TP).distinct())
        if not _may_have_lost(frames, row["topic"], row["partition"])
    ]
    return rows.join(as_frame(engine, places, _PLACES), on=TP, how="left_semi")


def with_known_coordinators(frames: Frames, rows: Frame) -> Frame:
    """Return the rows (transactional_id, …) whose coordinator forgot nothing without a recorded
    cause."""
    engine = frames.engine
    named = rows.where(engine.functions.col("transactional_id").isNotNull())
    ids = [
        {"transactional_id": name}
        for row in engine.rows(named.select("transactional_id").distinct())
        for name in [row["transactional_id"]]
        if not _hides_losses(
            frames, TRANSACTIONS_TOPIC, partition_of(frames.causes, TRANSACTIONS_TOPIC, name)
        )
    ]
    return rows.join(as_frame(engine, ids, _IDS), on="transactional_id", how="left_semi")


def _may_have_lost(frames: Frames, topic: str, partition: int) -> bool:
    return _hides_losses(frames, topic, partition) or any(
        (cause.topic, cause.partition) == (topic, partition) and frames.took_committed(cause)
        for cause in frames.causes.causes
    )


def _hides_losses(frames: Frames, topic: str, partition: int | None) -> bool:
    """Whether the partition may have lost committed records although no cause is recorded."""
    losses, run_file = frames.state_losses, frames.sources.run_file
    if losses.possible(topic, partition) or run_file.zookeeper_lost_or_discarded:
        return True
    unrecorded = (topic, partition) not in frames.causes.led or run_file.cut_short
    if losses.quorum_from_ns is not None and unrecorded:
        return True
    certain = losses.certain(topic, partition)
    lossy = replace(in_force(frames.settings(topic)), state_lost=certain).may_lose_committed
    return lossy and (unrecorded or (certain and losses.metadata_start > 0))
