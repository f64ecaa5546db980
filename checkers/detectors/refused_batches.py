"""Did a broker refuse what it should have known? Batches in order, refused as out of order.

An idempotent producer's next batch in line can be out of order only for a broker that has lost what
it knew of the producer (KIP-98, KIP-360). The producer says so in its log and leaves its epoch.
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.engines.engine import Frame, as_frame
from checkers.frames.frames import Frames, evidence
from checkers.history.history import REFUSED_HEAD, TIMED_OUT

BEREFT = "bereft"
"""The aspect of a refusal in a partition that had permittedly lost records."""

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
    """kind refused-head: a batch was refused though it was the next in line; aspect bereft: the
    partition had permittedly lost records, and with them what it knew of the producer.

    A producer that had itself given writes up at that time says nothing about the broker.
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
