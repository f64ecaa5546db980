"""Batches that a node appends to a partition's history."""

from typing import Any

from harness.simulation.invariants.partition_history import PartitionHistory, Sequences
from nodes.ids import Epoch, Offset
from nodes.log.batch import BatchHeader, Record, encode_batch, read_header


def header(base: int, epoch: int, value: bytes = b"", **producer: Any) -> BatchHeader:
    """A batch of one record."""
    batch = encode_batch(
        [Record(value=value)],
        base_offset=Offset(base),
        leader_epoch=Epoch(epoch),
        timestamp_ms=1,
        **producer,
    )
    return read_header(batch)


def appended(history: PartitionHistory, node: int, *headers: BatchHeader) -> list[Any]:
    """A node's whole log."""
    batches: list[Any] = []
    sequences = Sequences()
    for each in headers:
        batches.append(history.appended(node, each, batches[-1] if batches else None, sequences))
        if batches[-1].sent is not None:
            sequences.note(batches[-1].sent)
    return batches
