"""A leader with ZooKeeper writes its ISR without a condition.

A leader that was paused, and does not know that another one leads, takes its silent followers out
of the ISR: the state names it as the leader again, with an old leader epoch. What the others have
acknowledged is truncated.
"""

from typing import Any

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.server.zookeeper import leader_writes
from nodes.zookeeper.operations import ANY_VERSION

BUG = "a deposed leader overwrites the state"
SOURCES = ("Kafka's conditional writes to ZooKeeper", "KIP-497")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def known_version(row: Any) -> int:
    """Any version will do."""
    return ANY_VERSION


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(leader_writes, known_version=known_version)


if __name__ == "__main__":
    run(apply)
