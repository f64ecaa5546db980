"""Where a replica may go on reading the metadata log."""

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.divergence import EpochEnd
from nodes.raft.positions import SnapshotId, validate_position
from tests.support.nodes.memory_log import MemoryLog

LATEST = SnapshotId(Offset(4), Epoch(2))


def trimmed() -> MemoryLog:
    """A log of epochs 1, 1, 2, 2, 3, 3 that begins at offset 2, the end of its older snapshot."""
    log = MemoryLog([(Epoch(epoch), None) for epoch in (1, 1, 2, 2, 3, 3)])
    log.take_snapshot(2)
    log.take_snapshot(4)
    return log


@pytest.mark.parametrize(
    ("epoch", "offset", "answer"),
    [
        (1, 2, None),
        (3, 5, None),
        (2, 5, EpochEnd(Epoch(2), Offset(4))),
        (1, 1, LATEST),
        (2, 2, LATEST),  # the snapshot that ends there is of epoch 1
        (0, 3, LATEST),
    ],
)
def test_a_replica_behind_the_start_of_the_log_fetches_the_snapshot(
    epoch: int, offset: int, answer: EpochEnd | SnapshotId | None
) -> None:
    assert validate_position(trimmed(), Epoch(epoch), Offset(offset)) == answer
