"""Background tasks for synchronous code: threads, or their replacement in a simulation.

Faults, the administrator and its background jobs wait, sleep and lock only through `TaskRunner`.
So a simulated world can run the same code on virtual time, without threads.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol

Code = Callable[[], None]


class BackgroundTask(Protocol):
    """Code that runs concurrently with its caller."""

    def done(self) -> bool:
        """Whether the task has ended, also if it failed."""
        ...

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, at most `seconds` (None: for ever); return whether it has ended."""
        ...

    def result(self) -> None:
        """Wait for the end. Raises what the task raised."""
        ...


class TaskRunner(Protocol):
    """Starts tasks, and gives them time and locks."""

    def spawn(self, code: Code, name: str) -> BackgroundTask:
        """Run `code` concurrently with the caller."""
        ...

    def now_s(self) -> float:
        """Monotonic seconds; only differences mean anything."""
        ...

    def sleep(self, seconds: float) -> None:
        """Sleep; other tasks run meanwhile."""
        ...

    def mutex(self) -> AbstractContextManager[Any]:
        """A reentrant lock."""
        ...


class _Thread:
    def __init__(self, code: Code, name: str) -> None:
        self._code = code
        self._over: Future[None] = Future()
        # A daemon thread: a call that hangs in the kernel must not keep the process alive.
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._code()
        except BaseException as error:
            self._over.set_exception(error)
        else:
            self._over.set_result(None)

    def done(self) -> bool:
        return self._over.done()

    def wait(self, seconds: float | None = None) -> bool:
        with contextlib.suppress(TimeoutError):
            self._over.exception(seconds)
        return self._over.done()

    def result(self) -> None:
        self._over.result()


class ThreadTaskRunner:
    """Runs each task in a thread."""

    def spawn(self, code: Code, name: str) -> BackgroundTask:
        """See `TaskRunner`."""
        return _Thread(code, name)

    def now_s(self) -> float:
        """See `TaskRunner`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See `TaskRunner`."""
        time.sleep(seconds)

    def mutex(self) -> AbstractContextManager[Any]:
        """See `TaskRunner`."""
        return threading.RLock()
