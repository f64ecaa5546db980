"""A node sets a log aside only if the log may be damaged.

A log that is set aside is lost for its partition: the replica begins again with an empty log. So
the disk of the node must have been damaged by a fault. There is one other reason (see
`nodes.server.replicas.log_directory`): a power loss may take the topic's id from a log that was
never flushed. Such a log gets no mark, and its replacement may lead.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.world.disk import SimDisk
from nodes.server.replicas.log_directory import REFETCH_MARK

SUFFIX: Final = "-corrupt"


class DiskPast(NamedTuple):
    """What happened to a node's disk so far."""

    damaged: bool
    """Whether a fault changed its files."""
    lost_power: bool


def is_set_aside(directory: str) -> bool:
    """Whether the directory is that of a log that was set aside."""
    return directory.endswith(SUFFIX)


def has_mark(disk: SimDisk, directory: str) -> bool:
    """Whether the directory says that its replacement must not lead yet."""
    return disk.content.exists(f"{directory}/{REFETCH_MARK}")


def was_set_aside(disk: SimDisk, partition: str) -> bool:
    """Whether a damaged log of the partition was set aside and not replaced yet."""
    return any(
        name.startswith(f"{partition}.") and has_mark(disk, name)
        for name in disk.content.listdir("")
    )


def check_set_aside(
    node: int, partition: str, past: DiskPast, copies: Iterable[Copy], *, marked: bool
) -> None:
    """Check that the node may set its log of the partition aside.

    `copies` are its logs of that name. Raises InvariantBroken.
    """
    if past.damaged:
        return
    # An empty log that begins at its leader's start is flushed up to there.
    kept = (copy for copy in copies if not copy.retired and copy.flushed > copy.start)
    flushed = max((copy.flushed for copy in kept), default=0)
    if marked or not past.lost_power:
        why = "no fault damaged its disk"
    elif flushed:
        why = f"everything below {flushed} was flushed before the power loss"
    else:
        return
    raise InvariantBroken(
        "undamaged-logs-stay", f"{partition}: node {node} sets its log aside, but {why}"
    )
