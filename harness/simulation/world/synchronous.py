"""Plain synchronous code in the world's time: `nemesis.concurrency` without a thread.

Faults, the administrator and the phases of a run sleep, wait for each other and for coroutines.
Each such strand is a greenlet here: where it waits, it hands back to the world, and an event of the
kernel's goes on with it. Between two waits nothing else happens, so a run stays a function of its
seed.

Coroutines are run as tasks on one host, the harness's own. `close` unwinds what has not ended:
from then on every wait raises Grounded.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from contextvars import Context
from types import TracebackType
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from harness.simulation.world.host import Host
from harness.simulation.world.loop import start
from harness.simulation.world.world import NS, World
from nemesis.concurrency import Code

T = TypeVar("T")


class Grounded(BaseException):
    """The world is over: whatever waits in it will not go on."""


class _Wake:
    """Goes on with a greenlet, once, whichever of those that were given it calls first."""

    def __init__(self, sleeper: greenlet) -> None:
        self._sleeper: greenlet | None = sleeper

    def __call__(self) -> None:
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.switch()


class Pilot:
    """A `nemesis.concurrency.Strand`."""

    def __init__(self, pilots: "Pilots", code: Code, hub: greenlet) -> None:
        self.greenlet = greenlet(self._run, parent=hub)
        self._pilots = pilots
        self._code = code
        self._over = False
        self._error: BaseException | None = None
        self._waiting: list[_Wake] = []

    def _run(self) -> None:
        try:
            self._code()
        except (KeyboardInterrupt, SystemExit):
            raise  # to whoever runs the world
        except BaseException as error:
            self._error = error
        self._over = True
        self._pilots.landed(self)
        for wake in self._waiting:
            self._pilots.soon(wake)

    def done(self) -> bool:
        """See `Strand`."""
        return self._over

    def wait(self, seconds: float | None = None) -> bool:
        """See `Strand`."""
        if not self._over:
            wake = _Wake(getcurrent())
            self._waiting.append(wake)
            self._pilots.park(wake, seconds)
        return self._over

    def result(self) -> None:
        """See `Strand`."""
        self.wait()
        if self._error is not None:
            raise self._error


class _Mutex(AbstractContextManager[None]):
    """Held by one greenlet at a time, handed on in the order of asking."""

    def __init__(self, pilots: "Pilots") -> None:
        self._pilots = pilots
        self._holder: greenlet | None = None
        self._depth = 0
        self._next: deque[tuple[greenlet, _Wake]] = deque()

    def __enter__(self) -> None:
        me = getcurrent()
        if self._holder is None:
            self._holder = me
        elif self._holder is not me:
            wake = _Wake(me)
            self._next.append((me, wake))
            self._pilots.park(wake, None)
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._holder = None
            if self._next:
                self._holder, wake = self._next.popleft()
                self._pilots.soon(wake)


class Pilots:
    """See the module. Made, and closed, by whoever runs the world."""

    def __init__(self, world: World, host: Host) -> None:
        self._world = world
        self._host = host
        self._hub = getcurrent()
        self._flying: dict[Pilot, None] = {}
        self._closed = False

    # -- as strands

    def spawn(self, code: Code, name: str) -> Pilot:
        """See `Strands`: it begins after the present event, or at the caller's next wait."""
        pilot = Pilot(self, code, self._hub)
        self._flying[pilot] = None
        self.soon(_Wake(pilot.greenlet))
        return pilot

    def now_s(self) -> float:
        """The world's seconds."""
        return self._world.now_ns / NS

    def sleep(self, seconds: float) -> None:
        """Let so much of the world's time pass."""
        self.park(_Wake(getcurrent()), seconds)

    def mutex(self) -> AbstractContextManager[None]:
        """See `Strands`."""
        return _Mutex(self)

    # -- coroutines

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the harness's host; its result, or what it raises."""
        loop = self._host.loop
        assert loop is not None, "the harness's host does not run"
        wake = _Wake(getcurrent())
        task = start(loop, work(), "call")
        task.add_done_callback(lambda _: self.soon(wake), context=Context())
        self.park(wake, None)
        result: T = task.result()
        return result

    # -- from outside

    def fly(self, code: Code, within_s: float) -> None:
        """Let the world's time pass until `code` has run. Raises what it raises, and what
        `World.run_until` does.
        """
        loop = self._host.loop
        assert loop is not None, "the harness's host does not run"
        over = loop.create_future()

        def fly() -> None:
            try:
                code()
            finally:
                if not over.done():
                    over.set_result(None)

        pilot = self.spawn(fly, "main")
        self._world.run_until(over, within_s)
        pilot.result()

    def close(self) -> None:
        """Unwind every strand that has not ended."""
        self._closed = True
        for pilot in list(self._flying):
            if pilot.greenlet:
                pilot.greenlet.throw(Grounded)
            self.landed(pilot)

    # -- for the parts

    def soon(self, wake: _Wake) -> None:
        """Go on with it in an event of its own."""
        if not self._closed:
            self._world.after(0, wake)

    def park(self, wake: _Wake, seconds: float | None) -> None:
        """Hand back to the world until `wake` is called, by others or when time is up."""
        me = getcurrent()
        assert me is not self._hub, "only a strand can wait in the world's time"
        if self._closed:
            raise Grounded
        timer = None
        if seconds is not None:
            timer = self._world.after(max(0, round(seconds * NS)), wake)
        self._hub.switch()
        if timer is not None:
            timer.cancel()
        if self._closed:
            raise Grounded

    def landed(self, pilot: Pilot) -> None:
        """It has ended."""
        self._flying.pop(pilot, None)
