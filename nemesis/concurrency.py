"""Plain synchronous code beside other such code: threads, or what stands for them in a simulation.

Faults, the administrator and their errands wait, sleep and exclude each other. They do it only
through `Strands`, so that a simulated world can run the very same code in its own time, without a
thread.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol

Code = Callable[[], None]


class Strand(Protocol):
    """Code that runs beside its caller."""

    def done(self) -> bool:
        """Whether it is over, by itself or by an error."""
        ...

    def wait(self, seconds: float | None = None) -> bool:
        """Wait that long for its end, for ever without a bound; whether it is over."""
        ...

    def result(self) -> None:
        """Wait for its end. Raises what it raised."""
        ...


class Strands(Protocol):
    """What synchronous code needs of its surroundings."""

    def spawn(self, code: Code, name: str) -> Strand:
        """Run it beside the caller."""
        ...

    def now_s(self) -> float:
        """Monotonic seconds; only differences mean anything."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let others run meanwhile."""
        ...

    def mutex(self) -> AbstractContextManager[Any]:
        """Held by one strand at a time; its holder may take it again."""
        ...


class _Thread:
    def __init__(self, code: Code, name: str) -> None:
        self._code = code
        self._over: Future[None] = Future()
        # A daemon: what hangs in the kernel must not keep the process from its end.
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


class Threads:
    """Strands of the real world."""

    def spawn(self, code: Code, name: str) -> Strand:
        """See `Strands`."""
        return _Thread(code, name)

    def now_s(self) -> float:
        """See `Strands`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See `Strands`."""
        time.sleep(seconds)

    def mutex(self) -> AbstractContextManager[Any]:
        """See `Strands`."""
        return threading.RLock()
