"""The operations that a broker needs of ZooKeeper; `kazoo_client` is the real one.

Operations that are begun one after another reach ZooKeeper in this order, and need not wait for
each other. All raise the errors of `nodes.zookeeper.operations`; while there is no connection they
wait for one. A watch is called once, on the loop: after the change that it waits for, or when the
connection was lost, because a change may have been missed then. So whoever is called reads again.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from nodes.zookeeper.operations import (
    ANY_VERSION,
    ConnectionLost,
    NodeExists,
    Operation,
    Stat,
    ZooKeeperError,
)

R = TypeVar("R")
Watch = Callable[[], None]

RETRY_S: Final = 0.05


class SessionState(enum.Enum):
    """The state of the session. After EXPIRED a new session begins, with CONNECTED."""

    CONNECTED = enum.auto()
    SUSPENDED = enum.auto()
    EXPIRED = enum.auto()


class ZooKeeper(Protocol):
    """See the module."""

    @property
    def session_id(self) -> int:
        """The session of now; 0 without one."""
        ...

    async def connect(self, timeout_ms: float, on_state: Callable[[SessionState], None]) -> None:
        """Begin a session, and report its states from now on. Raises OSError in time."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """The data of a znode; the watch waits for a change or a deletion. Raises NoNode."""
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Whether a znode exists; the watch waits for it, its change or its deletion."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a znode's children, sorted; the watch waits for others. Raises NoNode."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> Stat:
        """Create a znode, with its parents if they miss. Raises NodeExists."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a znode. Raises NoNode, BadVersion."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode. Raises NoNode, BadVersion, NotEmpty."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[Stat | None]:
        """Do all or nothing; return the stat of each SetData. Raises the first failure."""
        ...

    def close(self) -> None:
        """End the session and its ephemeral znodes. Idempotent."""
        ...


MakeZooKeeper = Callable[[], ZooKeeper]


async def again(operation: Callable[[], Awaitable[R]]) -> R:
    """Do an operation that may happen twice, until the connection holds for it."""
    while True:
        try:
            return await operation()
        except ConnectionLost:
            await asyncio.sleep(RETRY_S)


async def ensure(zookeeper: ZooKeeper, path: str, data: bytes = b"") -> None:
    """Create a persistent znode unless it exists."""
    try:
        await again(lambda: zookeeper.create(path, data))
    except NodeExists:
        return


async def gathered(
    operations: Sequence[Awaitable[R]], failures: tuple[type[ZooKeeperError], ...]
) -> list[R | ZooKeeperError]:
    """The results of operations that were begun together; expected failures are among them.

    Raises any other failure, after all operations have ended.
    """
    found = await asyncio.gather(*operations, return_exceptions=True)
    results: list[R | ZooKeeperError] = []
    for each in found:
        if isinstance(each, BaseException):
            if not isinstance(each, failures):
                raise each
            assert isinstance(each, ZooKeeperError)
        results.append(each)
    return results
