"""The nodes' disks, to be broken: every call names a node, and reaches its volume."""

from collections.abc import Callable
from pathlib import Path

from harness.journal import Journal
from harness.targets.base import Unsupported
from harness.targets.local import volumes
from harness.targets.local.volumes import Volume


class LocalDisks:
    """See `nemesis.hosts.Disks`. Every change is in the journal before it is made."""

    def __init__(self, volume: Volume, data_dir: Callable[[int], Path], journal: Journal) -> None:
        """`data_dir` gives a node's mount point, and raises for who is no node."""
        self._volume = volume
        self._data_dir = data_dir
        self._journal = journal

    @property
    def abilities(self) -> frozenset[str]:
        """What can be broken: nothing, where the disks are plain directories."""
        return frozenset() if self._volume is Volume.DIRECTORY else frozenset({"disk-stalls"})

    def freeze(self, node: int) -> None:
        """Stall the node's disk: writes and fsyncs block until `thaw`. Raises Unsupported."""
        if self._volume is Volume.DIRECTORY:
            raise Unsupported(f"node {node}'s disk is a plain directory and cannot be stalled")
        volumes.freeze(self._data_dir(node), self._journal)

    def thaw(self, node: int) -> None:
        """Undo `freeze`; nothing happens where nothing is frozen."""
        if self._volume is not Volume.DIRECTORY:
            volumes.thaw(self._data_dir(node))
