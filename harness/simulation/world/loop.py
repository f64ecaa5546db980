"""The event loop that a simulated program sees: one loop per incarnation of a host.

Code written for asyncio runs on it unchanged: tasks, timers, streams, servers, connections. What a
broker does not need (child processes, file descriptors, threads) raises Unsimulated. After the
death of the incarnation, each call that would have an effect raises HostDead.

Tasks and futures hash by number, so that a set of them (`asyncio.wait` returns such sets) has the
same order in each process.

The types of callbacks' arguments are looser than typeshed's: asyncio's own signatures would need a
Handle.
"""

import asyncio
import signal
import weakref
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any, Final, Protocol

from harness.simulation.world.world import NS, Call, HostDead, Owner, Trouble, World

ProtocolFactory = Callable[[], asyncio.BaseProtocol]

EXECUTOR_NS: Final = 100_000
"""How long a call in an executor takes."""
EXCEPTION_TEXT: Final = "an exception that nobody took"
PRUNE_AT: Final = 64


class LoopNetwork(Protocol):
    """The operations that a loop needs of the simulated network."""

    def listen(
        self,
        loop: "HostLoop",
        factory: ProtocolFactory,
        host: str,
        port: int,
        *,
        serving: bool = True,
    ) -> asyncio.AbstractServer:
        """Open a listening socket on the loop's host. Raises OSError."""
        ...

    async def connect(
        self, loop: "HostLoop", factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection from the loop's host. Raises OSError."""
        ...


class Machine(Protocol):
    """What a loop, the network and the disks need of a host (`host.Host`)."""

    name: str
    number: int
    address: str
    powered: bool
    loop: "HostLoop | None"

    @property
    def network(self) -> LoopNetwork:
        """The network that the machine is attached to."""
        ...

    def hold(self, why: str) -> None:
        """Hold back the program's events until `release` is called with the same reason."""
        ...

    def release(self, why: str) -> None:
        """Remove one reason for holding events back."""
        ...

    def block_for(self, duration_ns: int) -> None:
        """Block the program for this long, in the middle of an event."""
        ...


class Unsimulated(NotImplementedError):
    """The program asked the loop for something that the simulated world does not have."""


class SimTask(asyncio.Task[Any]):
    """A task that is identified by its number."""

    world_number: int
    _log_destroy_pending: bool

    def __hash__(self) -> int:
        return self.world_number


class SimFuture(asyncio.Future[Any]):
    """A future that gets a number when it is first hashed: few futures are ever in a set."""

    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            loop = self.get_loop()
            assert isinstance(loop, HostLoop)
            self._number = loop.world.next_number()
            return self._number


class HostLoop(asyncio.AbstractEventLoop, Owner):
    """See the module."""

    def __init__(self, world: World, host: "Machine") -> None:
        Owner.__init__(self, host.name, host.number + 1)  # 0 is the kernel's
        self.world = world
        self.host = host
        self.running = self
        self.signal_handlers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._context = Context()
        self._tasks: dict[int, weakref.ref[SimTask]] = {}
        """Tasks by number. The references are weak, as in asyncio: an unreachable task may be
        collected."""
        self._next_prune = PRUNE_AT
        self._names = 0
        self._exception_handler: Callable[..., object] | None = None
        self._ready = world.ready

    def __repr__(self) -> str:
        return f"<loop of {self.name}>"

    def check(self) -> None:
        """Raise HostDead unless the incarnation lives."""
        if self.dead:
            raise HostDead(self.name)

    # -- time and events

    def time(self) -> float:
        """Return the world's seconds: monotonic, whatever the host's wall clock shows."""
        return self.world.now_ns / NS

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Call:
        if self.dead:
            raise HostDead(self.name)
        if context is None:
            context = copy_context()
        call = Call(self.world, self, 0, callback, args, context)
        self._ready(call)
        return call

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Call:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Call:
        # At least 1 ns passes: code that waits for the rest of a delay must not wait for ever.
        return self.call_at_ns(self.world.now_ns + int(delay * NS) + 1, callback, args, context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Call:
        # A timer must not fire before its time, however the caller rounds: the caller would set it
        # again for the same instant, for ever.
        return self.call_at_ns(int(when * NS) + 2, callback, args, context)

    def call_at_ns(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None = None,
    ) -> Call:
        """Schedule a callback at a time of the world, in ns."""
        if self.dead:
            raise HostDead(self.name)
        if context is None:
            context = copy_context()
        return self.world.set_timer(when_ns, self, callback, args, context)

    def delivered_at_ns(self, when_ns: int, callback: Callable[..., object], *args: Any) -> Call:
        """Schedule an event from outside the program: bytes, or a disk's completion."""
        return self.world.set_timer(when_ns, self, callback, args, self._context)

    # -- tasks and futures

    def create_future(self) -> SimFuture:
        return SimFuture(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> SimTask:
        if self.dead:
            coro.close()
            raise HostDead(self.name)
        self._names += 1
        task: SimTask = SimTask.__new__(SimTask)
        task.world_number = number = self.world.next_number()  # asyncio asks for it at once
        SimTask.__init__(
            task, coro, loop=self, name=name or f"{self.name}-{self._names}", context=context
        )
        self._tasks[number] = weakref.ref(task)
        if len(self._tasks) > self._next_prune:
            self._tasks = {live.world_number: weakref.ref(live) for live in self.live_tasks()}
            self._next_prune = 2 * len(self._tasks) + PRUNE_AT
        return task

    def live_tasks(self) -> list[SimTask]:
        """Return the tasks that are not done, oldest first."""
        tasks = (reference() for reference in self._tasks.values())
        return [task for task in tasks if task is not None and not task.done()]

    def get_task_factory(self) -> None:
        return None

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Call the function on the loop, a little later: there are no threads."""
        self.check()
        future = self.create_future()

        def run() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_at_ns(self.world.now_ns + EXECUTOR_NS, run, ())
        return future

    # -- network

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> Any:
        """Listen on TCP on this host's own address; `backlog` and similar options have
        no effect.
        """
        self.check()
        _refuse_options("create_server", options, {"backlog", "reuse_address", "start_serving"})
        return self.host.network.listen(
            self,
            protocol_factory,
            str(host or ""),
            int(port or 0),
            serving=bool(options.get("start_serving", True)),
        )

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> Any:
        """Connect by TCP to a host of this world."""
        self.check()
        _refuse_options("create_connection", options, set())
        return await self.host.network.connect(self, protocol_factory, str(host), int(port))

    # -- the rest of a loop

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self.dead

    get_debug: Any = bool
    """Return false without a Python frame: asyncio calls this for each task and future."""

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        self.signal_handlers[sig] = callback, args

    def remove_signal_handler(self, sig: int) -> bool:
        return self.signal_handlers.pop(sig, None) is not None

    def deliver(self, number: signal.Signals) -> bool:
        """Deliver a signal to the program; return false if the program has no handler for it."""
        if number not in self.signal_handlers:
            return False
        callback, args = self.signal_handlers[number]
        self.delivered_at_ns(self.world.now_ns, callback, *args)
        return True

    def set_exception_handler(self, handler: Callable[..., object] | None) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        message = str(context.get("message") or EXCEPTION_TEXT)
        trouble = Trouble(self.world.now_ns, self.name, message, context.get("exception"))
        self.world.troubles.append(trouble)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.dead:
            return
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: asynchronous generators of a dead program have no effect."""

    async def shutdown_default_executor(self) -> None:
        """Do nothing: there are no threads."""


def start(loop: HostLoop, main: Coroutine[Any, Any, Any], name: str) -> SimTask:
    """Start the program's first task."""
    with running(loop):
        return loop.create_task(main, name=name, context=Context())


def unwind_tasks(loop: HostLoop, tasks: list[SimTask]) -> None:
    """Unwind the tasks of a dead incarnation: none of its frames stays, none has an effect.

    The youngest task comes first: a task must not see that the task it waits for ended before
    itself. A coroutine that awaits in a `finally` is closed again until it gives up.
    """
    assert loop.dead
    with running(loop):
        for task in reversed(tasks):
            task._log_destroy_pending = False
            coroutine = task.get_coro()
            for _ in range(50):
                try:
                    coroutine.close()
                    break
                except RuntimeError:  # it awaited something while it was being closed
                    continue
                except BaseException:  # HostDead, most often
                    break
    loop._tasks.clear()
    loop.signal_handlers.clear()


@contextmanager
def running(loop: HostLoop) -> Iterator[None]:
    """Make `loop` the running loop for this code, between events."""
    before = events._get_running_loop()
    events._set_running_loop(loop)
    try:
        yield
    finally:
        events._set_running_loop(before)


def _refuse_options(what: str, options: dict[str, Any], known: set[str]) -> None:
    odd = sorted(name for name, value in options.items() if value and name not in known)
    if odd:
        raise Unsimulated(f"{what}({', '.join(odd)}=...) is not simulated; use plain TCP")


def _make_refusal(name: str) -> Callable[..., Any]:
    def refuse(self: HostLoop, *args: object, **options: object) -> Any:
        raise Unsimulated(f"loop.{name} is not simulated; {self.name} has timers, tasks and TCP")

    return refuse


for _name, _value in list(vars(asyncio.AbstractEventLoop).items()):
    if callable(_value) and not _name.startswith("_") and _name not in vars(HostLoop):
        setattr(HostLoop, _name, _make_refusal(_name))
