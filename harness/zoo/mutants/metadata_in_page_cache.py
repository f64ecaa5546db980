"""The metadata log counts as soon as it is written, flushed or not.

A majority that loses power forgets what was committed, and one that did not hear of it is as good
as the others: they agree on less (NATS 2.12). What was forgotten may be who was left out of the
in-sync replicas.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.server.quorum.metadata_log import MetadataLog

BUG = "the page cache trusted as a disk"
SOURCES = ("NATS 2.12",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def flushed_offset(self: MetadataLog) -> Offset:
    """All of it."""
    return self.end_offset


async def flush_async(self: MetadataLog) -> None:
    """Not worth the wait."""


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(MetadataLog, flushed_offset=property(flushed_offset), flush_async=flush_async)


if __name__ == "__main__":
    run(apply)
