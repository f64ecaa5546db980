"""Did a broker refuse a batch as out of order although the batch was the next one?

A broker can refuse the next batch of an idempotent producer only if it has lost the producer's
state (KIP-98, KIP-360). The producer logs the refusal and leaves its epoch.

There is one other way: see `frames.unknown_producers`.
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.causes.producer_epochs import Reason
from checkers.contract.conditions import BEREFT, OVERTAKEN
from checkers.engines.engine import Frame, as_frame
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.unknown_producers import refused_heads_of

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
    partition had lost records with permission, and with them the producer's state; overtaken: a
    later send of the client may have been accepted before, by a leader that may not have known the
    client.

    A producer that gave up writes at that time proves nothing about the broker.
    """
    heads = refused_heads_of(frames.epoch_bumps.all)
    if not heads:
        return
    rows = [
        {
            "client": bump.client,
            "topic": reason.topic,
            "partition": reason.partition,
            "aspect": _aspect(reason),
            "invoke_ns": bump.began_ns,
            "complete_ns": bump.begun_ns,
            "detail": reason.error,
        }
        for _, bump, reason in heads
    ]
    found = as_frame(frames.engine, rows, _SCHEMA)
    yield evidence(frames.engine, found, kind=frames.engine.functions.lit("refused-head"))


def _aspect(reason: Reason) -> str | None:
    if reason.lost_records:
        return BEREFT
    return OVERTAKEN if reason.overtaken else None
