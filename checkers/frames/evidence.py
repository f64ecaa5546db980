"""The columns of evidence, and how a detector makes a frame of it."""

from collections.abc import Mapping

from checkers.engines.engine import Column, Engine, Frame

EVIDENCE: Mapping[str, str] = {
    "kind": "string",  # the anomaly's name
    "aspect": "string",  # which shape of it: tail, middle, prefix; acknowledged, read; …
    "topic": "string",
    "partition": "int",
    "acks": "int",  # of the send; null: take the topic's
    # of Frames.explanations, of a duplicate of Frames.epoch_bumps; null: no cause in the record
    "cause_id": "int",
    "op": "bigint",
    "client": "int",
    "value": "bigint",
    "offset": "bigint",
    "invoke_ns": "bigint",
    "complete_ns": "bigint",
    "other_op": "bigint",  # the row that it contradicts
    "other_value": "bigint",
    "other_offset": "bigint",
    "node": "int",
    "detail": "string",
    "group": "string",  # the consumer group, whose promise the contract judges by
}
"""Columns of evidence and their SQL types; offsets in records, times in ns since run start."""


def evidence(engine: Engine, frame: Frame, **columns: Column) -> Frame:
    """Return `frame` with exactly the columns of EVIDENCE. Missing columns are null; `columns`
    override."""
    F = engine.functions
    have = set(frame.columns)
    made = []
    for name, kind in EVIDENCE.items():
        column = columns.get(name)
        if column is None:
            column = F.col(name) if name in have else F.lit(None)
        made.append(column.cast(kind).alias(name))
    return frame.select(*made)
