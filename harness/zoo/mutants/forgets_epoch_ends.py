"""A leader answers clients that it does not know where an epoch before its own ended.

The answer means that nothing of the epoch is known, so a client cannot find the offset at which its
own records and the log of the leader part (OffsetForLeaderEpoch). Followers are not concerned: they
learn of a divergence from the answers to their fetches.
"""

from typing import Any

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import NO_EPOCH, NO_OFFSET
from nodes.server.requests.list_offsets import OffsetsHandler

BUG = "an older epoch is unknown to clients"
SOURCES = ("KAFKA-7415", "KIP-320")
SHOWS = ("contradicted-evidence",)

_answer = OffsetsHandler._epoch_end


def epoch_end(self: OffsetsHandler, topic: str, part: Any) -> dict[str, Any]:
    """Answer about the current epoch only."""
    row = _answer(self, topic, part)
    if 0 <= row.get("leader_epoch", NO_EPOCH) < part.current_leader_epoch:
        return row | {"leader_epoch": NO_EPOCH, "end_offset": NO_OFFSET}
    return row


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(OffsetsHandler, _epoch_end=epoch_end)


if __name__ == "__main__":
    run(apply)
