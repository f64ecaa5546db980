"""What certainly survives a power loss on a simulated disk."""

from harness.simulation.world.disk import SimDisk
from nodes.log.cleaning.swap import SWAP
from nodes.log.log import Log
from nodes.storage.memory import _Directory, _Inode


def durable_content(disk: SimDisk, path: str) -> bytes | None:
    """Return what the file certainly has after a power loss; None if the file may be gone."""
    inode = _durable(disk, path)
    return None if inode is None else bytes(inode.durable)


def is_durable(disk: SimDisk, log: Log, end: int) -> bool:
    """Whether everything in the log below `end` certainly survives a power loss."""
    for segment in log._segments.all:
        if segment.base_offset >= end:
            break
        wanted = segment.size
        if end < segment.next_offset:  # does not ask the index: asking would build it
            beyond = (at for at, header in segment.scan() if header.base_offset >= end)
            wanted = next(beyond, wanted)
        if wanted:
            # A start completes a swap of which this name is on the disk.
            swapped = _durable(disk, f"{segment.stem}.log{SWAP}")
            inode = swapped or _durable(disk, f"{segment.stem}.log")
            if inode is None or inode.same < wanted:
                return False
    return True


def _durable(disk: SimDisk, path: str) -> _Inode | None:
    node: _Directory | _Inode | None = disk.content._root
    for name in path.split("/"):
        if not isinstance(node, _Directory):
            return None
        node = node.durable.get(name)
    return node if isinstance(node, _Inode) else None
