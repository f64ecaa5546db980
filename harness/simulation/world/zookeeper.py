"""ZooKeeper in the simulated world: one tree of znodes, and a client for each broker.

The ensemble itself never fails here. Each client may be cut off, paused or killed, so sessions
expire, answers get lost, and watches fire as with a real ensemble. Operations of a client are done
in the order in which they were begun, LATENCY_NS later.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.simulation.world.loop import HostLoop
from harness.simulation.world.world import MS, World
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

LATENCY_NS: Final = MS // 2
TICK_NS: Final = 50 * MS


@dataclass(slots=True)
class _Znode:
    data: bytes
    czxid: int
    owner: int = 0
    version: int = 0
    created: int = 0
    """How many children were created with a sequence number."""
    children: dict[str, None] = field(default_factory=dict)

    @property
    def stat(self) -> Stat:
        return Stat(czxid=self.czxid, version=self.version, owner=self.owner)


class ZnodeTree:
    """The znodes and their watches. Every change has a number, and fires the watches at once."""

    def __init__(self) -> None:
        self.znodes: dict[str, _Znode] = {"/": _Znode(b"", 0)}
        self.zxid = 0
        self._data_watches: dict[str, list[Watch]] = {}
        self._child_watches: dict[str, list[Watch]] = {}

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """See `ZooKeeper.get`."""
        znode = self._found(path)
        self._watch(self._data_watches, path, watch)
        return znode.data, znode.stat

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """See `ZooKeeper.exists`."""
        self._watch(self._data_watches, path, watch)
        znode = self.znodes.get(path)
        return None if znode is None else znode.stat

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See `ZooKeeper.children`."""
        znode = self._found(path)
        self._watch(self._child_watches, path, watch)
        return sorted(znode.children)

    def create(self, path: str, data: bytes, *, session: int = 0, sequence: bool = False) -> Stat:
        """Create a znode and its parents; with a session, the znode ends with it."""
        parent, _, name = path.rpartition("/")
        if parent and parent not in self.znodes:
            self.create(parent, b"")
        above = self.znodes[parent or "/"]
        if sequence:
            path = f"{path}{above.created:010d}"
            name = path.rpartition("/")[2]
            above.created += 1
        if path in self.znodes:
            raise NodeExists(path)
        self.zxid += 1
        self.znodes[path] = made = _Znode(data, self.zxid, owner=session)
        above.children[name] = None
        self._fire(self._data_watches, path)
        self._fire(self._child_watches, parent or "/")
        return made.stat

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `ZooKeeper.set`."""
        znode = self._found(path)
        _check(path, znode, version)
        self.zxid += 1
        znode.data = data
        znode.version += 1
        self._fire(self._data_watches, path)
        return znode.stat

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `ZooKeeper.delete`."""
        znode = self._found(path)
        _check(path, znode, version)
        if znode.children:
            raise NotEmpty(path)
        self.zxid += 1
        del self.znodes[path]
        parent, _, name = path.rpartition("/")
        del self.znodes[parent or "/"].children[name]
        for watches in (self._data_watches, self._child_watches):
            self._fire(watches, path)
        self._fire(self._child_watches, parent or "/")

    def multi(self, operations: Sequence[Operation], session: int) -> list[Stat | None]:
        """See `ZooKeeper.multi`. Nothing is done unless all can be."""
        for number, each in enumerate(operations):
            try:
                self._check_operation(each, operations[:number])
            except ZooKeeperError as error:
                error.operation = number
                raise
        results: list[Stat | None] = []
        for each in operations:
            result: Stat | None = None
            match each:
                case Create(path, data, ephemeral):
                    self.create(path, data, session=session if ephemeral else 0)
                case SetData(path, data, version):
                    result = self.set(path, data, version)
                case Delete(path, version):
                    self.delete(path, version)
                case Check():
                    pass
            results.append(result)
        return results

    def _check_operation(self, operation: Operation, before: Sequence[Operation]) -> None:
        made = {each.path for each in before if isinstance(each, Create)}
        match operation:
            case Create(path):
                parent = path.rpartition("/")[0]
                if path in self.znodes:
                    raise NodeExists(path)
                if parent and parent not in self.znodes and parent not in made:
                    raise NoNode(parent)
            case SetData(path, _, version) | Check(path, version):
                _check(path, self._found(path), version)
            case Delete(path, version):
                znode = self._found(path)
                _check(path, znode, version)
                if znode.children:
                    raise NotEmpty(path)

    def end_session(self, session: int) -> None:
        """Delete the znodes of a session."""
        for path in [path for path, znode in self.znodes.items() if znode.owner == session]:
            self.delete(path)

    def _found(self, path: str) -> _Znode:
        if path not in self.znodes:
            raise NoNode(path)
        return self.znodes[path]

    @staticmethod
    def _watch(watches: dict[str, list[Watch]], path: str, watch: Watch | None) -> None:
        if watch is not None:
            watches.setdefault(path, []).append(watch)

    @staticmethod
    def _fire(watches: dict[str, list[Watch]], path: str) -> None:
        for watch in watches.pop(path, ()):
            watch()


def _check(path: str, znode: _Znode, version: int) -> None:
    if version not in (ANY_VERSION, znode.version):
        raise BadVersion(f"{path} has version {znode.version}, not {version}")


class SimEnsemble:
    """ZooKeeper's servers: the tree, and the sessions of the clients."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tree = ZnodeTree()
        self._clients: list[SimZooKeeper] = []
        self._last_session = 0
        self._withheld: dict[str, list[Callable[[], Any]]] = {}
        self._released_by_read = ""
        world.after(TICK_NS, self._tick)

    def client(self, loop: HostLoop, session_timeout_ms: float) -> "SimZooKeeper":
        """A client for a program on this loop."""
        made = SimZooKeeper(self, loop, session_timeout_ms)
        self._clients.append(made)
        return made

    def next_session(self) -> int:
        """The id of a new session."""
        self._last_session += 1
        return self._last_session

    def _tick(self) -> None:
        """End the sessions that were silent for too long."""
        now_ns = self.world.now_ns
        for client in list(self._clients):
            if client.heard():
                client.last_heard_ns = now_ns
            elif client.session_id and now_ns - client.last_heard_ns > client.timeout_ns:
                self.expire(client)
            if client.gone and not client.session_id:
                self._clients.remove(client)
        self.world.after(TICK_NS, self._tick)

    def expire(self, client: "SimZooKeeper") -> None:
        """End a client's session; it hears of it when it is connected."""
        session, client.session_id = client.session_id, 0
        self.tree.end_session(session)
        client.session_ended()

    def withhold(self, path: str) -> None:
        """Answer creations below this path from now on, and do them at `release`.

        So a notice comes late, as those of Kafka's brokers do, which collect notices for seconds.
        """
        self._withheld[path] = []

    def release(self, path: str) -> None:
        """Do what was withheld, and withhold nothing more."""
        for create in self._withheld.pop(path, ()):
            create()

    def release_after_read(self, path: str) -> None:
        """Release right after the next time when somebody has read the children of this path."""
        self._released_by_read = path

    def withheld(self, path: str) -> int:
        """How many creations below this path are withheld."""
        return len(self._withheld.get(path, ()))

    def create(self, path: str, create: Callable[[], Stat]) -> Stat:
        """Create a znode now or later."""
        for above, creations in self._withheld.items():
            if path.startswith(f"{above}/"):
                creations.append(create)
                return Stat(czxid=0, version=0)
        return create()

    def children(self, path: str, watch: Watch | None) -> list[str]:
        """Read the children of a znode."""
        found = self.tree.children(path, watch)
        if path == self._released_by_read:
            self._released_by_read = ""
            self.release(path)
        return found

    def cut(self, number: int) -> None:
        """Cut the programs of a host off."""
        for client in self._of(number):
            client.cut()

    def heal(self, number: int) -> None:
        """Let the programs of a host connect again."""
        for client in self._of(number):
            client.heal()

    def _of(self, number: int) -> list["SimZooKeeper"]:
        return [each for each in self._clients if each.loop.host.number == number and not each.gone]


class SimZooKeeper:
    """A ZooKeeper."""

    def __init__(self, ensemble: SimEnsemble, loop: HostLoop, session_timeout_ms: float) -> None:
        self.loop = loop
        self.timeout_ns = int(session_timeout_ms * MS)
        self.last_heard_ns = ensemble.world.now_ns
        self.session_id = 0
        self._ensemble = ensemble
        self._tree = ensemble.tree
        self._closed = False
        self._cut = False
        self._begun: dict[asyncio.Future[Any], None] = {}
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._watches: dict[int, Watch] = {}
        self._on_state: Callable[[SessionState], None] = lambda state: None

    @property
    def gone(self) -> bool:
        """Whether the program has ended."""
        return self._closed or self.loop.dead

    def heard(self) -> bool:
        """Whether heartbeats arrive."""
        return not self.gone and not self._cut and self.loop.held is None

    # -- the session ---------------------------------------------------------------------------

    async def connect(self, timeout_ms: float, on_state: Callable[[SessionState], None]) -> None:
        """Begin a session."""
        self._on_state = on_state
        await self._call(self._begin_session)

    def _begin_session(self) -> None:
        self.last_heard_ns = self._ensemble.world.now_ns
        self.session_id = self._ensemble.next_session()

    def session_ended(self) -> None:
        """The ensemble has ended the session."""
        if not self.gone and not self._cut:
            self._deliver(self._expired)

    def _expired(self) -> None:
        self._lose(SessionExpired("the session has expired"), waiting=True)
        self._on_state(SessionState.EXPIRED)
        self._begin_session()
        self._on_state(SessionState.CONNECTED)

    def cut(self) -> None:
        """No packet comes through any more."""
        self._cut = True
        self._deliver(self._suspended)

    def _suspended(self) -> None:
        self._lose(ConnectionLost("the connection is lost"), waiting=False)
        self._on_state(SessionState.SUSPENDED)

    def heal(self) -> None:
        """Packets come through again."""
        self._cut = False
        self._deliver(self._reconnected if self.session_id else self._expired)

    def _reconnected(self) -> None:
        self._on_state(SessionState.CONNECTED)
        waiting, self._waiting = self._waiting, []
        for operation, future in waiting:
            self._send(operation, future)

    def _lose(self, error: ZooKeeperError, *, waiting: bool) -> None:
        """Fail what was under way, and fire all watches: they may have missed a change."""
        lost = [*self._begun]
        if waiting:
            lost += [future for _, future in self._waiting]
            self._waiting = []
        for future in lost:
            if not future.done():
                future.set_exception(type(error)(str(error)))
        self._begun.clear()
        watches, self._watches = self._watches, {}
        for watch in watches.values():
            watch()

    def close(self) -> None:
        """End the session."""
        if not self._closed:
            self._closed = True
            if self.session_id and not self._cut:
                self._ensemble.world.after(LATENCY_NS, self._ensemble.expire, self)

    # -- operations ----------------------------------------------------------------------------

    def _deliver(self, call: Callable[..., None], *arguments: Any) -> None:
        if not self.gone:
            at_ns = self._ensemble.world.now_ns + LATENCY_NS
            self.loop.delivered_at_ns(at_ns, call, *arguments)

    async def _call(self, operation: Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = self.loop.create_future()
        if self._cut:
            self._waiting.append((operation, future))
        else:
            self._send(operation, future)
        return await future

    def _send(self, operation: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        self._begun[future] = None
        session = self.session_id
        self._ensemble.world.after(LATENCY_NS, self._perform, operation, future, session)

    def _perform(
        self, operation: Callable[[], Any], future: "asyncio.Future[Any]", session: int
    ) -> None:
        if self._cut or session != self.session_id:
            return  # lost on its way; the client hears of it otherwise
        try:
            result, error = operation(), None
        except ZooKeeperError as failure:
            result, error = None, failure
        self._deliver(self._settle, future, result, error)

    def _settle(
        self, future: "asyncio.Future[Any]", result: Any, error: ZooKeeperError | None
    ) -> None:
        if self._begun.pop(future, self) is self or future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _watch(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None
        number = self._ensemble.world.next_number()
        self._watches[number] = watch

        def fired() -> None:
            self._deliver(called)

        def called() -> None:
            known = self._watches.pop(number, None)
            if known is not None:
                known()

        return fired

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """See `ZooKeeper`."""
        found: tuple[bytes, Stat] = await self._call(
            lambda: self._tree.get(path, self._watch(watch))
        )
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """See `ZooKeeper`."""
        found: Stat | None = await self._call(lambda: self._tree.exists(path, self._watch(watch)))
        return found

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See `ZooKeeper`."""
        found: list[str] = await self._call(
            lambda: self._ensemble.children(path, self._watch(watch))
        )
        return found

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> Stat:
        """See `ZooKeeper`."""

        def create() -> Stat:
            session = self.session_id if ephemeral else 0
            return self._tree.create(path, data, session=session, sequence=sequence)

        made: Stat = await self._call(lambda: self._ensemble.create(path, create))
        return made

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `ZooKeeper`."""
        made: Stat = await self._call(lambda: self._tree.set(path, data, version))
        return made

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `ZooKeeper`."""
        await self._call(lambda: self._tree.delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[Stat | None]:
        """See `ZooKeeper`."""
        made: list[Stat | None] = await self._call(
            lambda: self._tree.multi(operations, self.session_id)
        )
        return made
