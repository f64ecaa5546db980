"""Did a broker refuse a batch as out of order although the batch was the next one?

A broker can refuse the next batch of an idempotent producer only if it has lost the producer's
state (KIP-98, KIP-360). The producer logs the refusal and leaves its epoch.

There is one other way: see `unknown_producers`.
"""

from collections.abc import Iterator

import pyarrow as pa

from checkers.causes.producer_epochs import Reason
from checkers.contract.conditions import BEREFT, OVERTAKEN
from checkers.detectors.unknown_producers import heads_of, heads_of_unknown_producers
from checkers.engines.engine import Frame, as_frame
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import TP

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
    later send of the client was acknowledged before, and its leader may not have known the client.

    A producer that gave up writes at that time proves nothing about the broker.
    """
    heads = heads_of(frames)
    if not heads:
        return
    overtaken = _overtaken(frames)
    rows = [
        {
            "client": bump.client,
            "topic": reason.topic,
            "partition": reason.partition,
            "aspect": _aspect(reason, overtaken=number in overtaken),
            "invoke_ns": bump.began_ns,
            "complete_ns": bump.begun_ns,
            "detail": reason.error,
        }
        for number, (bump, reason) in enumerate(heads)
    ]
    found = as_frame(frames.engine, rows, _SCHEMA)
    yield evidence(frames.engine, found, kind=frames.engine.functions.lit("refused-head"))


def _aspect(reason: Reason, *, overtaken: bool) -> str | None:
    if reason.lost_records:
        return BEREFT
    return OVERTAKEN if overtaken else None


def _overtaken(frames: Frames) -> set[int]:
    """Return the numbers of the refusals that are of aspect OVERTAKEN."""
    F = frames.engine.functions
    heads = heads_of_unknown_producers(frames)
    if heads is None:
        return set()
    acked = frames.acked.select("client", *TP, "value", "complete_ns")
    pairs = heads.join(acked, on=["client", *TP], how="inner")
    later = F.col("value") > F.col("lacked_value")
    before = F.col("complete_ns") <= F.col("began_ns")
    found = frames.engine.rows(pairs.where(later & before).select("number").distinct())
    return {int(row["number"]) for row in found}
