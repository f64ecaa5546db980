"""Sends that a leader accepted before an earlier one, because it did not know the producer.

A producer that a leader does not know may begin with any sequence, if its earlier records may have
been removed (the log does not begin at offset 0), or the producer may have been forgotten (the log
is older than producer.id.expiration.ms; KIP-360). A broker compares its own clock with the
timestamps of batches, so a clock that is ahead makes a log older. A later batch that reaches a new
leader first is then accepted there, and the next one is refused. The producer leaves its epoch and
sends the refused batch again, which is then behind the later one. If the answer to the later batch
was lost, some clients send it again as well, and it is in the log twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from checkers.causes.causes import Causes
from checkers.causes.producer_epochs import EpochBump, Reason
from checkers.causes.retention import SLACK_NS, LogStart
from checkers.engines.engine import Engine, Frame, as_frame, left_join
from checkers.frames.log_starts import clock_span_ns
from checkers.history.history import TP
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
    def send_outcomes(self) -> Frame:
        """One row per send."""

    @property
    def log_starts(self) -> Mapping[tuple[str, int], LogStart]:
        """The starts of final logs that do not start at 0."""

    @property
    def causes(self) -> Causes:
        """Every recorded event that can explain a loss."""

    def settings(self, topic: str | None, from_ns: int = 0, until_ns: int = FOREVER_NS) -> Settings:
        """Return the weakest settings of a topic during a time span."""

    def none_if_empty(self, *frames: Frame) -> Frame | None:
        """Compute the rows of `frames`; return None if there are none."""


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


def overtaking(run: Run, bumps: Sequence[EpochBump]) -> Frame | None:
    """Return the sends that a leader which may not have known the client may have accepted before a
    batch that it then refused, although it was the next one. None without any. Columns: number
    (index into `bumps`), topic, partition, lacked_value (the refused batch's), began_ns, op, value.

    Such a send began before the refusal. It was acknowledged, or it was read, so that its answer
    may have been lost; and the refused batch, if it was read, was read behind it.
    """
    F, engine = run.engine.functions, run.engine
    heads = _heads(run, bumps)
    if not heads:
        return None
    place = F.coalesce("first_offset", "offset").alias("place")
    columns = ["op", "client", *TP, "value", "type", "invoke_ns", "first_offset"]
    sends = run.send_outcomes.where(F.col("type") != F.lit("fail")).select(*columns, place)
    pairs = sends.join(as_frame(engine, heads, _HEADS), on=["client", *TP], how="inner")
    pairs = engine.materialize(pairs.where(F.col("invoke_ns") <= F.col("began_ns")))
    refused = pairs.where(F.col("value") == F.col("lacked_value")).groupBy(*_HEAD)
    refused = engine.materialize(refused.agg(F.min("place").alias("refused_place")))
    there = F.col("first_offset").isNotNull() | (F.col("type") == F.lit("ok"))
    later = left_join(pairs.where(there), refused, on=_HEAD)
    before = F.coalesce(F.col("place") < F.col("refused_place"), F.lit(True))
    later = later.where((F.col("value") > F.col("lacked_value")) & before)
    return run.none_if_empty(later.select(*_HEAD, "lacked_value", "began_ns", "op", "value"))


def _heads(run: Run, bumps: Sequence[EpochBump]) -> list[Mapping[str, Any]]:
    """Return the rows of the refusals in logs whose leader may not have known the producer."""
    heads = refused_heads_of(bumps)
    if not heads:
        return []
    expired = _expired(run, [bump.began_ns for _, bump, _ in heads])
    return [
        {
            "number": number,
            "client": bump.client,
            "topic": reason.topic,
            "partition": reason.partition,
            "lacked_value": reason.lacked_value,
            "began_ns": bump.began_ns,
        }
        for number, bump, reason in heads
        if reason.lacked_value is not None
        and (
            (reason.topic, reason.partition) in run.log_starts
            or expired((reason.topic, reason.partition), bump.began_ns)
        )
    ]


def _expired(
    run: Run, moments_ns: Sequence[int]
) -> Callable[[tuple[str | None, int | None], int], bool]:
    """Return whether a partition's log is so old at a moment that producers may be forgotten."""
    expiration_ns = producer_expiration_ms(run.plan) * NS_PER_MS - SLACK_NS
    expiration_ns -= clock_span_ns(run.engine, run.cluster)
    begun: dict[tuple[str | None, int | None], int] = {}
    if max(moments_ns) >= expiration_ns:  # the whole run is hardly ever so old
        F = run.engine.functions
        first = run.send_outcomes.groupBy(*TP).agg(F.min("invoke_ns").alias("begun_ns"))
        rows = run.engine.rows(first)
        begun = {(row["topic"], row["partition"]): row["begun_ns"] for row in rows}
    return lambda place, at_ns: at_ns - begun.get(place, at_ns) >= expiration_ns
