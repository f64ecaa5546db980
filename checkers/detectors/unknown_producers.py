"""Refused batches of producers that a leader may not have known.

A producer that a leader does not know may begin with any sequence if the log does not begin at
offset 0, since its earlier records may have been removed (KIP-360). So a later batch that reaches a
new leader first is accepted there, and then the next one is refused. The producer leaves its epoch
and sends the refused batch again, which is then behind the later one.
"""

from collections.abc import Sequence

import pyarrow as pa

from checkers.causes.producer_epochs import EpochBump, Reason
from checkers.engines.engine import Frame, as_frame
from checkers.frames.frames import Frames
from checkers.history.history import REFUSED_HEAD, TIMED_OUT

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
    began_ns of the refusals in logs that do not begin at offset 0. None without any.
    """
    rows = [
        {
            "number": number,
            "client": bump.client,
            "topic": reason.topic,
            "partition": reason.partition,
            "lacked_value": reason.lacked_value,
            "began_ns": bump.began_ns,
        }
        for number, (bump, reason) in enumerate(heads_of(frames))
        if reason.lacked_value is not None and (reason.topic, reason.partition) in frames.log_starts
    ]
    return as_frame(frames.engine, rows, _SCHEMA) if rows else None
