"""An old offset is removed while a transaction has the next offset of its partition pending.

The tombstone removes the pending offset, too. The transaction is committed, and its offset is lost.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.groups.expiry import OffsetExpiry
from nodes.coordinators.groups.kind import GroupKind, Retention
from nodes.coordinators.groups.offsets import OffsetKey

BUG = "an expired offset takes the pending one with it"
SOURCES = ("Redpanda 31483",)
SHOWS = ("lost-commit", "delivered-again")


def _is_old(
    self: OffsetExpiry,
    key: OffsetKey,
    kind: GroupKind | None,
    retention: Retention,
    now_wall_ms: int,
) -> bool:
    """Look only at the committed offset's age."""
    committed = self.offsets.committed(key)
    if committed is None:
        return False
    since = retention.since_wall_ms
    start = committed.commit_wall_ms if since is None else since
    return now_wall_ms - start >= self.retention_ms


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(OffsetExpiry, _is_old=_is_old)


if __name__ == "__main__":
    run(apply)
