"""The ZooKeeper client on kazoo, whose threads hand everything over to the event loop."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry

from nodes.config import ZooKeeperSettings
from nodes.server.zookeeper.client import SessionState, Watch
from nodes.zookeeper.operations import (
    ANY_VERSION,
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    SetData,
    Stat,
    ZooKeeperError,
)

log = logging.getLogger("nodes.zookeeper")

_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}
_ERRORS: tuple[tuple[type[Exception], type[ZooKeeperError]], ...] = (
    (exceptions.NoNodeError, NoNode),
    (exceptions.NodeExistsError, NodeExists),
    (exceptions.BadVersionError, BadVersion),
    (exceptions.NotEmptyError, NotEmpty),
    (exceptions.SessionExpiredError, SessionExpired),
    (exceptions.ConnectionClosedError, ConnectionLost),
    (exceptions.ConnectionLoss, ConnectionLost),
    (exceptions.OperationTimeoutError, ConnectionLost),
)
RETRY_DELAY_S = 0.1
RETRY_MAX_DELAY_S = 1.0


class KazooZooKeeper:
    """A ZooKeeper; call `connect` first."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings
        # Quick attempts: a session whose last server died has little time to find another one.
        retry = KazooRetry(
            max_tries=-1,
            delay=RETRY_DELAY_S,
            max_delay=RETRY_MAX_DELAY_S,
            interrupt=self._is_closed,
        )
        hosts = ",".join(f"{host}:{port}" for host, port in settings.servers)
        self._client = KazooClient(
            hosts=hosts,
            timeout=settings.session_timeout_ms / 1000,
            connection_retry=retry,
            logger=log,
        )
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def _is_closed(self) -> bool:
        return self._closed

    @property
    def session_id(self) -> int:
        """The session of now; 0 without one."""
        found = self._client.client_id
        return 0 if found is None else int(found[0])

    async def connect(self, timeout_ms: float, on_state: Callable[[SessionState], None]) -> None:
        """Begin a session, and report its states from now on. Raises OSError in time."""
        self._loop = loop = asyncio.get_running_loop()

        def report(state: str) -> None:
            self._soon(on_state, _STATES[state])

        try:
            await loop.run_in_executor(None, self._client.start, timeout_ms / 1000)
        except KazooTimeoutError as error:
            self.close()
            servers = ",".join(f"{host}:{port}" for host, port in self._settings.servers)
            raise OSError(f"no ZooKeeper at {servers} within {timeout_ms:.0f} ms") from error
        if self._settings.chroot:
            await self._call(self._client.ensure_path_async, self._settings.chroot)
        self._client.add_listener(report)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """The data of a znode. Raises NoNode."""
        data, stat = await self._call(self._client.get_async, self._at(path), self._watch(watch))
        return data, _stat(stat)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Whether a znode exists."""
        stat = await self._call(self._client.exists_async, self._at(path), self._watch(watch))
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a znode's children. Raises NoNode."""
        found = await self._call(
            self._client.get_children_async, self._at(path), self._watch(watch)
        )
        return sorted(found)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> Stat:
        """Create a znode, with its parents if they miss. Raises NodeExists."""
        _, stat = await self._call(
            self._client.create_async,
            self._at(path),
            data,
            None,
            ephemeral,
            sequence,
            True,  # makepath
            True,  # include_data
        )
        return _stat(stat)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a znode. Raises NoNode, BadVersion."""
        return _stat(await self._call(self._client.set_async, self._at(path), data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode. Raises NoNode, BadVersion, NotEmpty."""
        await self._call(self._client.delete_async, self._at(path), version)

    async def multi(self, operations: Sequence[Operation]) -> list[Stat | None]:
        """Do all or nothing; return the stat of each SetData. Raises the first failure."""
        transaction = self._client.transaction()
        for each in operations:
            match each:
                case Create(path, data, ephemeral):
                    transaction.create(self._at(path), data, ephemeral=ephemeral)
                case SetData(path, data, version):
                    transaction.set_data(self._at(path), data, version)
                case Delete(path, version):
                    transaction.delete(self._at(path), version)
                case Check(path, version):
                    transaction.check(self._at(path), version)
        results = await self._call(transaction.commit_async)
        for number, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(
                result, exceptions.RolledBackError | exceptions.RuntimeInconsistency
            ):
                raise _error(result, number) from result
        return [_stat(result) if isinstance(result, ZnodeStat) else None for result in results]

    def close(self) -> None:
        """End the session and its ephemeral znodes. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._client.stop()
        self._client.close()

    def _at(self, path: str) -> str:
        return self._settings.chroot + path

    # -- from kazoo's threads to the loop ------------------------------------------------------

    def _soon(self, call: Callable[..., None], *arguments: Any) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(call, *arguments)

    def _watch(self, watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
        if watch is None:
            return None
        return lambda event: self._soon(watch)

    async def _call(self, begin: Callable[..., Any], *arguments: Any) -> Any:
        """Begin an operation at once; wait for its result."""
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(_error(error))

        def finished(result: Any) -> None:
            error = result.exception
            self._soon(settle, None if error is not None else result.value, error)

        begin(*arguments).rawlink(finished)
        return await future


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(czxid=stat.czxid, version=stat.version, owner=stat.ephemeralOwner)


def _error(error: BaseException, operation: int = 0) -> BaseException:
    for kind, ours in _ERRORS:
        if isinstance(error, kind):
            return ours(str(error) or type(error).__name__, operation)
    return error
