"""The cleaner goes up to the end of the log, beyond the high watermark and into open transactions.

A record that is not committed supersedes the last committed one of its key. When it is lost with
the leader, or aborted, the key has no value any more.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.cleaning.selection import Cleanable, cleanable, first_dirty
from nodes.log.config import CompactionConfig
from nodes.server.replicas.log_cleaner import LogCleaner
from nodes.server.replicas.replica import Replica

BUG = "compaction beyond the high watermark"
SOURCES = ("KAFKA-13194",)
SHOWS = ("lost-write", "divergent-replicas", "lost-key", "resurrected-key", "missing-key")


def _cleanable(self: LogCleaner, replica: Replica, config: CompactionConfig) -> Cleanable:
    """Take everything for stable."""
    start, end = replica.log.start_offset, replica.log.end_offset
    checkpoint = self._replicas.logs.cleaned.get(replica.partition)
    return cleanable(
        replica.log.segments.all,
        first_dirty(checkpoint, start, end),
        stable_offset=end,
        config=config,
        now_ms=self._wall_clock_ms(),
    )


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(LogCleaner, _cleanable=_cleanable)


if __name__ == "__main__":
    run(apply)
