"""A record of the metadata log counts as soon as it is written, flushed or not.

A majority that loses power forgets what was committed, and a voter that never had it agrees with
them: the quorum continues with less (NATS 2.12). A forgotten record may be the one that removed a
replica from the ISR.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.server.quorum.metadata_log import MetadataLog

BUG = "the page cache trusted as a disk"
SOURCES = ("NATS 2.12",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def flushed_offset(self: MetadataLog) -> Offset:
    """Return the end of the log."""
    return self.end_offset


async def flush_async(self: MetadataLog) -> None:
    """Do not flush."""


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(MetadataLog, flushed_offset=property(flushed_offset), flush_async=flush_async)


if __name__ == "__main__":
    run(apply)
