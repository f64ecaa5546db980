"""Did a broker refuse a batch as out of order although the batch was the next one?

A broker can refuse the next batch of an idempotent producer only if it has lost the producer's
state (KIP-98, KIP-360). The producer logs the refusal and leaves its epoch.
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.engines.engine import Frame, as_frame
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import REFUSED_HEAD, TIMED_OUT

BEREFT = "bereft"
"""The aspect of a refusal in a partition that had lost records with permission."""

_SCHEMA = pa.schema(
    [
        ("client", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("aspect", pa.string()),
        ("invoke_ns", pa.int64()),
        ("complete_ns", pa.int64()),
        ("detail", pa.string()),
    ]
)


def refused_heads(frames: Frames) -> Iterator[Frame]:
    """kind refused-head: a batch was refused although it was the next one. aspect bereft: the
    partition had lost records with permission, and with them the producer's state.

    A producer that gave up writes at that time proves nothing about the broker.
    """
    rows = [
        {
            "client": bump.client,
            "topic": reason.topic,
            "partition": reason.partition,
            "aspect": BEREFT if reason.lost_records else None,
            "invoke_ns": bump.began_ns,
            "complete_ns": bump.begun_ns,
            "detail": reason.error,
        }
        for bump in frames.bumps
        if not any(reason.error.startswith(TIMED_OUT) for reason in bump.reasons)
        for reason in bump.reasons
        if reason.error.startswith(REFUSED_HEAD)
    ]
    if rows:
        found = as_frame(frames.engine, rows, _SCHEMA)
        yield evidence(frames.engine, found, kind=frames.engine.functions.lit("refused-head"))
