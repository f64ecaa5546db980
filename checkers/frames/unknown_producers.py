"""Sends that a leader accepted before an earlier one, because it did not know the producer.

A producer that a leader does not know may begin with any sequence (KIP-360). A later batch that
reaches a new leader first is then accepted there, and the next one is refused. The producer leaves
its epoch, for that reason or because it gave up another send meanwhile, and sends the refused batch
again, which is then behind the later one. If the answer to the later batch was lost, some clients
send it again as well, and it is in the log twice.

A leader knows each producer of which its log had a record when the later batch came, unless the
producer was idle for producer.id.expiration.ms. (Producer state is rebuilt from all of the log, and
a follower that began its log where the leader's begins has the rest of it.) So the leader surely
knew the producer if all of the following hold for an earlier record of the client:

- The final log has it before the later batch. A leader that appended the later batch there had all
  that is before it, from the start of its own log on.
- It is not below the start of any replica's log. Replicas remove old records each for themselves,
  but none of these logs began later at that time than it does in the end.
- It was sent less than producer.id.expiration.ms before the refusal. A broker compares its own
  clock with the timestamps of batches, so clocks that faults had set count against it.
- The client had not begun another producer epoch since, with which it may have another producer id.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from checkers.causes.causes import Causes
from checkers.causes.producer_epochs import EpochBump, Reason
from checkers.causes.retention import SLACK_NS
from checkers.engines.engine import Engine, Frame, as_frame, left_join
from checkers.frames.log_starts import clock_span_ns
from checkers.frames.lost_state import StateLosses
from checkers.frames.send_outcomes import PLACES
from checkers.history.history import KEYED_DELETE, KEYED_READ, KEYED_WRITE, TP
from checkers.history.settings import FOREVER_NS, Settings, producer_expiration_ms

NS_PER_MS: Final = 1_000_000
_HEAD: Final = ["number", *TP]
_HEADS = pa.schema(
    [
        ("number", pa.int32()),
        ("client", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("lacked_value", pa.int64()),
        ("began_ns", pa.int64()),
        ("since_ns", pa.int64()),
        ("floor", pa.int64()),
    ]
)


class Run(Protocol):
    """What is needed of `Frames`."""

    engine: Engine
    plan: Mapping[str, Any]

    @property
    def rare_rows(self) -> Frame:
        """The few rows of the history that are no sends, records read or ends of transactions."""

    @property
    def cluster(self) -> Frame:
        """Of CLUSTER."""

    @property
    def history(self) -> Frame:
        """Of HISTORY."""

    @property
    def send_outcomes(self) -> Frame:
        """One row per send."""

    @property
    def complete(self) -> Frame:
        """Partitions whose final read reached the end."""

    @property
    def first_offsets(self) -> Frame:
        """Where the final logs start."""

    @property
    def state_losses(self) -> StateLosses:
        """Which partitions may have lost state by faults."""

    @property
    def causes(self) -> Causes:
        """Every recorded event that can explain a loss."""

    def settings(self, topic: str | None, from_ns: int = 0, until_ns: int = FOREVER_NS) -> Settings:
        """Return the weakest settings of a topic during a time span."""

    def none_if_empty(self, *frames: Frame) -> Frame | None:
        """Compute the rows of `frames`; return None if there are none."""


def remembered_ns(run: Run) -> int:
    """Return how long brokers remember an idle producer at least, by whatever clock they have."""
    expiration_ns = producer_expiration_ms(run.plan) * NS_PER_MS
    return expiration_ns - SLACK_NS - clock_span_ns(run.engine, run.cluster)


def refused_heads_of(bumps: Sequence[EpochBump]) -> Sequence[tuple[int, EpochBump, Reason]]:
    """Return the refusals of next batches, as the producers recorded them, with the number of the
    bump. A producer that gave up writes at that time proves nothing about the broker.
    """
    return [
        (number, bump, reason)
        for number, bump in enumerate(bumps)
        if not any(reason.timed_out for reason in bump.reasons)
        for reason in bump.reasons
        if reason.refused_head
    ]


def _left(bumps: Sequence[EpochBump]) -> Sequence[tuple[int, EpochBump, Reason]]:
    """Return for each partition that a client names when it leaves its epoch the reason with the
    earliest batch that was not appended there, with the number of the bump."""
    found: dict[tuple[int, str, int], tuple[int, EpochBump, Reason]] = {}
    for number, bump in enumerate(bumps):
        for reason in sorted(bump.reasons, key=lambda each: each.lacked_value or 0):
            if reason.topic is not None and reason.partition is not None:
                place = number, reason.topic, reason.partition
                found.setdefault(place, (number, bump, reason))
    return [*found.values()]


def overtaking(run: Run, bumps: Sequence[EpochBump]) -> Frame | None:
    """Return the sends that a leader which may not have known the client may have accepted before a
    batch that it then refused, although it was the next one. None without any. Columns: number
    (index into `bumps`), topic, partition, lacked_value (the first batch's that was not appended),
    began_ns, op, value.

    Such a send began before the refusal. It was acknowledged, or it was read, so that its answer
    may have been lost; and the refused batch, if it was read, was read behind it.
    """
    F, engine = run.engine.functions, run.engine
    heads = _heads(run, bumps, _left(bumps))
    if not heads:
        return None
    place = F.coalesce("first_offset", "offset").alias("place")
    columns = ["op", "client", *TP, "value", "type", "invoke_ns", "complete_ns", *PLACES]
    sends = _writes(run).where(F.col("type") != F.lit("fail")).select(*columns, place)
    pairs = sends.join(as_frame(engine, heads, _HEADS), on=["client", *TP], how="inner")
    pairs = engine.materialize(pairs.where(F.col("invoke_ns") <= F.col("began_ns")))
    refused = pairs.where(F.col("value") == F.col("lacked_value")).groupBy(*_HEAD)
    refused = engine.materialize(refused.agg(F.min("place").alias("refused_place")))
    there = F.col("first_offset").isNotNull() | (F.col("type") == F.lit("ok"))
    later = left_join(pairs.where(there), refused, on=_HEAD)
    before = F.coalesce(F.col("place") < F.col("refused_place"), F.lit(True))
    # librdkafka does not tell which batch was refused: it was the first of those in flight.
    open_ = F.col("complete_ns").isNull() | (F.col("complete_ns") > F.col("began_ns"))
    behind = F.coalesce(F.col("value") > F.col("lacked_value"), open_)
    later = engine.materialize(later.where(behind & before))
    later = later.join(_unknown(run, pairs, later), on=_HEAD, how="left_semi")
    return run.none_if_empty(later.select(*_HEAD, "lacked_value", "began_ns", "op", "value"))


def _unknown(run: Run, pairs: Frame, later: Frame) -> Frame:
    """Return number, topic, partition of the refusals before which the leader may not have known
    the client, when it accepted the first of the later sends."""
    F, engine = run.engine.functions, run.engine
    first = later.groupBy(*_HEAD, "began_ns").agg(
        F.min("place").alias("first_place"), F.min("value").alias("first_value")
    )
    first = engine.materialize(first)
    earlier = pairs.join(first.drop("began_ns"), on=_HEAD, how="inner")
    earlier = earlier.where(
        (F.col("value") < F.coalesce("lacked_value", "first_value"))
        & (F.col("final_offset") >= F.col("floor"))
        & (F.col("final_offset") < F.col("first_place"))
        & (F.col("invoke_ns") > F.col("since_ns"))
    )
    newest = earlier.groupBy(*_HEAD).agg(F.max("invoke_ns").alias("newest_ns"))
    known = left_join(first, engine.materialize(newest), on=_HEAD)
    fresh = F.col("began_ns") - F.col("newest_ns") < F.lit(remembered_ns(run))
    return engine.materialize(known.where(~F.coalesce(fresh, F.lit(False))).select(*_HEAD))


def last_known_ns(
    run: Run, bumps: Sequence[EpochBump]
) -> dict[tuple[int, str | None, int | None], int]:
    """Return by refusal (number, topic, partition) when the last write before the refused batch was
    sent, if it was acknowledged and the log, read to its end, has it. A leader with this record in
    its log knows the producer and its last sequence, whatever the partition had lost before."""
    F, engine = run.engine.functions, run.engine
    heads = _heads(run, bumps, refused_heads_of(bumps))
    if not heads:
        return {}
    acked = (
        _writes(run)
        .where(F.col("type") == F.lit("ok"))
        .select("client", *TP, "value", "invoke_ns", "complete_ns", "final_offset")
    )
    pairs = acked.join(as_frame(engine, heads, _HEADS), on=["client", *TP], how="inner")
    earlier = F.coalesce(F.col("value") < F.col("lacked_value"), F.lit(True))
    earlier &= F.col("complete_ns") <= F.col("began_ns")
    pairs = pairs.where(earlier)
    order = engine.window.partitionBy(*_HEAD).orderBy(
        F.col("invoke_ns").desc(), F.col("value").desc()
    )
    last = pairs.withColumn("nth", F.row_number().over(order)).where(F.col("nth") == F.lit(1))
    there = last.where(F.col("final_offset").isNotNull()).join(run.complete, on=TP, how="left_semi")
    rows = engine.rows(there.select(*_HEAD, "invoke_ns"))
    return {(row["number"], row["topic"], row["partition"]): row["invoke_ns"] for row in rows}


def _writes(run: Run) -> Frame:
    """Return op, client, type, invoke_ns, complete_ns, TP, value, offset, PLACES of all sends, and
    of all writes of keys; of these PLACES are in what compaction has left."""
    F, engine = run.engine.functions, run.engine
    columns = ["op", "client", "type", "invoke_ns", "complete_ns", *TP, "value", "offset"]
    rows = run.history
    keyed = rows.where(F.col("f").isin(KEYED_WRITE, KEYED_DELETE)).select(*columns)
    read = (F.col("f") == F.lit(KEYED_READ)) & (F.col("type") == F.lit("ok"))
    places = rows.where(read & F.col("value").isNotNull()).groupBy(*TP, "value")
    places = places.agg(*(F.min("offset").alias(name) for name in PLACES))
    keyed = left_join(engine.materialize(keyed), engine.materialize(places), on=[*TP, "value"])
    both = [*columns, *PLACES]
    return run.send_outcomes.select(*both).unionByName(keyed.select(*both))


def _heads(
    run: Run, bumps: Sequence[EpochBump], chosen: Sequence[tuple[int, EpochBump, Reason]]
) -> list[Mapping[str, Any]]:
    """Return the rows of the chosen reasons. since_ns: when the client last began an epoch before.
    floor: see `_floors`."""
    if not chosen:
        return []
    floors = _floors(run)
    return [
        {
            "number": number,
            "client": bump.client,
            "topic": reason.topic,
            "partition": reason.partition,
            "lacked_value": reason.lacked_value,
            "began_ns": bump.began_ns,
            "since_ns": max(
                (each.begun_ns for each in bumps[:number] if each.client == bump.client),
                default=-1,
            ),
            "floor": floors.get((reason.topic, reason.partition)),
        }
        for number, bump, reason in chosen
    ]


def _floors(run: Run) -> dict[tuple[str | None, int | None], int]:
    """Return the offset of each partition from which on no replica can have removed a record.
    Without one, nobody knows: the log or the files of its replicas were not read, or a replica that
    had removed more may have lost its files."""
    floors: dict[tuple[str | None, int | None], int] = {}
    for row in run.engine.rows(run.first_offsets.join(run.complete, on=TP, how="left_semi")):
        place, read, kept = (row["topic"], row["partition"]), row["first_read"], row["first_kept"]
        starts = [start for start in (read, kept) if start is not None]
        floor = max(starts, default=None)
        lost = run.state_losses.certain(*place) or run.state_losses.possible(*place)
        if floor == 0 or (floor is not None and kept is not None and not lost):
            floors[place] = floor
    return floors
