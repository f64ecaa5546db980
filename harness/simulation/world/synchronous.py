"""Synchronous code in the world's time: `nemesis.concurrency` without threads.

Faults, the administrator and the phases of a run sleep, wait for each other, and call coroutines.
Each such task is a greenlet here: where it waits, it switches to the world, and an event of the
kernel resumes it. Nothing else happens between two waits, so a run stays a function of its seed.

Coroutines run as tasks on the harness's own host. `close` unwinds the greenlets that have not
ended: from then on each wait raises WorldClosed.
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


class WorldClosed(BaseException):
    """The world has ended; code that waits in it does not continue."""


class _Wake:
    """Resumes a greenlet once, whichever caller comes first."""

    def __init__(self, sleeper: greenlet) -> None:
        self._sleeper: greenlet | None = sleeper

    def __call__(self) -> None:
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.switch()


class GreenletTask:
    """A `nemesis.concurrency.BackgroundTask`."""

    def __init__(self, runner: "GreenletRunner", code: Code, hub: greenlet) -> None:
        self.greenlet = greenlet(self._run, parent=hub)
        self._runner = runner
        self._code = code
        self._over = False
        self._error: BaseException | None = None
        self._waiting: list[_Wake] = []

    def _run(self) -> None:
        try:
            self._code()
        except (KeyboardInterrupt, SystemExit):
            raise  # to the code that runs the world
        except BaseException as error:
            self._error = error
        self._over = True
        self._runner.task_ended(self)
        for wake in self._waiting:
            self._runner.wake_soon(wake)

    def done(self) -> bool:
        """See `BackgroundTask`."""
        return self._over

    def wait(self, seconds: float | None = None) -> bool:
        """See `BackgroundTask`."""
        if not self._over:
            wake = _Wake(getcurrent())
            self._waiting.append(wake)
            self._runner.suspend(wake, seconds)
        return self._over

    def result(self) -> None:
        """See `BackgroundTask`."""
        self.wait()
        if self._error is not None:
            raise self._error


class _Mutex(AbstractContextManager[None]):
    """A lock that one greenlet holds at a time; waiting greenlets get it in the order of their
    requests.
    """

    def __init__(self, runner: "GreenletRunner") -> None:
        self._runner = runner
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
            self._runner.suspend(wake, None)
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
                self._runner.wake_soon(wake)


class GreenletRunner:
    """See the module. The code that runs the world creates and closes it."""

    def __init__(self, world: World, host: Host) -> None:
        self._world = world
        self._host = host
        self._hub = getcurrent()
        self._tasks: dict[GreenletTask, None] = {}
        self._closed = False

    # -- as task_runner

    def spawn(self, code: Code, name: str) -> GreenletTask:
        """See `TaskRunner`. The task begins after this event, or at the caller's next wait."""
        task = GreenletTask(self, code, self._hub)
        self._tasks[task] = None
        self.wake_soon(_Wake(task.greenlet))
        return task

    def now_s(self) -> float:
        """Return the world's seconds."""
        return self._world.now_ns / NS

    def sleep(self, seconds: float) -> None:
        """Let this much of the world's time pass."""
        self.suspend(_Wake(getcurrent()), seconds)

    def mutex(self) -> AbstractContextManager[None]:
        """See `TaskRunner`."""
        return _Mutex(self)

    # -- coroutines

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the harness's host; return its result, or raise what it raises."""
        loop = self._host.loop
        assert loop is not None, "the harness's host does not run"
        wake = _Wake(getcurrent())
        task = start(loop, work(), "call")
        task.add_done_callback(lambda _: self.wake_soon(wake), context=Context())
        self.suspend(wake, None)
        result: T = task.result()
        return result

    # -- for the code that runs the world

    def run_main(self, code: Code, within_s: float) -> None:
        """Let the world's time pass until `code` has run. Raises what `code` raises, and what
        `World.run_until` raises.
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

        task = self.spawn(fly, "main")
        self._world.run_until(over, within_s)
        task.result()

    def close(self) -> None:
        """Unwind all tasks that have not ended."""
        self._closed = True
        for task in list(self._tasks):
            if task.greenlet:
                task.greenlet.throw(WorldClosed)
            self.task_ended(task)

    # -- for tasks and locks

    def wake_soon(self, wake: _Wake) -> None:
        """Resume a greenlet in an event of its own."""
        if not self._closed:
            self._world.after(0, wake)

    def suspend(self, wake: _Wake, seconds: float | None) -> None:
        """Switch to the world until `wake` is called, or until the time is up."""
        me = getcurrent()
        assert me is not self._hub, "only a greenlet task can wait in the world's time"
        if self._closed:
            raise WorldClosed
        timer = None
        if seconds is not None:
            timer = self._world.after(max(0, round(seconds * NS)), wake)
        self._hub.switch()
        if timer is not None:
            timer.cancel()
        if self._closed:
            raise WorldClosed

    def task_ended(self, task: GreenletTask) -> None:
        """Forget a task that has ended."""
        self._tasks.pop(task, None)
