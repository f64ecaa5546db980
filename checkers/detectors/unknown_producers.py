"""Refused batches of producers that a leader may not have known.

A producer that a leader does not know may begin with any sequence, if its earlier records may have
been removed (the log does not begin at offset 0), or the producer may have been forgotten (the log
is older than producer.id.expiration.ms; KIP-360). A broker compares its own clock with the
timestamps of batches, so a clock that is ahead makes a log older. A later batch that reaches a new
leader first is then accepted there, and the next one is refused. The producer leaves its epoch and
sends the refused batch again, which is then behind the later one.
"""

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from checkers.causes.producer_epochs import EpochBump, Reason
from checkers.causes.retention import SLACK_NS
from checkers.engines.engine import Frame, as_frame
from checkers.frames.frames import Frames
from checkers.frames.log_starts import clock_span_ns
from checkers.history.history import REFUSED_HEAD, TIMED_OUT, TP
from checkers.history.settings import producer_expiration_ms

NS_PER_MS: Final = 1_000_000

_SCHEMA = pa.schema(
    [
        ("number", pa.int32()),
        ("client", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("lacked_value", pa.int64()),
        ("began_ns", pa.int64()),
    ]
)


def heads_of(frames: Frames) -> Sequence[tuple[EpochBump, Reason]]:
    """Return the refusals of next batches, as the producers recorded them. A producer that gave up
    writes at that time proves nothing about the broker.
    """
    return [
        (bump, reason)
        for bump in frames.bumps
        if not any(reason.error.startswith(TIMED_OUT) for reason in bump.reasons)
        for reason in bump.reasons
        if reason.error.startswith(REFUSED_HEAD)
    ]


def heads_of_unknown_producers(frames: Frames) -> Frame | None:
    """Return number (in `heads_of`), client, topic, partition, lacked_value (the refused batch's),
    began_ns of the refusals in logs whose leader may not have known the producer. None without any.
    """
    heads = list(enumerate(heads_of(frames)))
    if not heads:
        return None
    expired = _expired(frames, [bump.began_ns for _, (bump, _) in heads])
    rows = [
        {
            "number": number,
            "client": bump.client,
            "topic": reason.topic,
            "partition": reason.partition,
            "lacked_value": reason.lacked_value,
            "began_ns": bump.began_ns,
        }
        for number, (bump, reason) in heads
        if reason.lacked_value is not None
        and (
            (reason.topic, reason.partition) in frames.log_starts
            or expired((reason.topic, reason.partition), bump.began_ns)
        )
    ]
    return as_frame(frames.engine, rows, _SCHEMA) if rows else None


def _expired(
    frames: Frames, moments_ns: Sequence[int]
) -> Callable[[tuple[str | None, int | None], int], bool]:
    """Return whether a partition's log is so old at a moment that producers may be forgotten."""
    expiration_ns = producer_expiration_ms(frames.plan) * NS_PER_MS - SLACK_NS
    expiration_ns -= clock_span_ns(frames.engine, frames.cluster)
    begun: dict[tuple[str | None, int | None], int] = {}
    if moments_ns and max(moments_ns) >= expiration_ns:  # the whole run is hardly ever so old
        F = frames.engine.functions
        first = frames.sends.groupBy(*TP).agg(F.min("invoke_ns").alias("begun_ns"))
        rows = frames.engine.rows(first)
        begun = {(row["topic"], row["partition"]): row["begun_ns"] for row in rows}
    return lambda place, at_ns: at_ns - begun.get(place, at_ns) >= expiration_ns
