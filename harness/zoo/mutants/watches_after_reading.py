"""The controller with ZooKeeper handles the notices of ISR changes, and only then waits for more.

A notice that comes in between is seen only with the next one. If it was the last ISR change of a
reassignment, the reassignment does not end.
"""

from collections.abc import Awaitable, Callable

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.server.zookeeper.client import Watch, again
from nodes.server.zookeeper.controller import ZooKeeperController
from nodes.server.zookeeper.reading import ClusterReader
from nodes.zookeeper import paths

BUG = "a change between read and watch is lost"
SOURCES = ("ZooKeeper: a read sets its watch",)
SHOWS = ("unavailable",)

Children = Callable[[ClusterReader, str, Watch], Awaitable[list[str]]]
Handler = Callable[[ZooKeeperController], Awaitable[None]]


def _reading(children: Children) -> Children:
    async def read(self: ClusterReader, path: str, watch: Watch) -> list[str]:
        """Read the notices without a watch."""
        if path != paths.ISR_CHANGES:
            return await children(self, path, watch)
        return await again(lambda: self._zookeeper.children(path))

    return read


def _handling(handle: Handler) -> Handler:
    async def handle_first(self: ZooKeeperController) -> None:
        """Handle the notices, and then set the watch with a read whose result is not used."""
        await handle(self)
        watch = self._on(self._isr_changed)
        await again(lambda: self._zookeeper.children(paths.ISR_CHANGES, watch))

    return handle_first


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return undo_all(
        patch(ClusterReader, children=_reading(ClusterReader.children)),
        patch(ZooKeeperController, _isr_changed=_handling(ZooKeeperController._isr_changed)),
    )


if __name__ == "__main__":
    run(apply)
