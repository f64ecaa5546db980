"""The watcher of a run with real processes: a thread with an event loop on the clients' machine."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Final

from harness.systems.monitoring.watcher import POLL_S as POLL_S
from harness.systems.monitoring.watcher import Watcher

COLLECT_TIMEOUT_S: Final = 30.0


class Monitor(Watcher):
    """One run's `Watcher` in a thread of its own. Any thread may call its methods.

    `enter_network` moves the calling thread into the network of the clients' machine.
    """

    def __init__(
        self, *, enter_network: Callable[[], AbstractContextManager[None]], **watched: Any
    ) -> None:
        super().__init__(**watched)
        self._enter_network = enter_network
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def start(self) -> None:
        """Begin watching; return when it can be asked."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Stop watching and end the watermark client; the streams stay open. Safe to call twice.

        Raises the error that ended the watching, if there was one.
        """
        super().stop()
        if self._thread.ident is None:
            return  # never started
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def wait_settled(self, timeout_s: float, *, quiet: bool = False) -> list[str]:
        """Call `settled`; a failure of the watching is a reason too."""
        asking = self.settled(timeout_s, quiet=quiet)
        return self._in_thread(asking, timeout_s + COLLECT_TIMEOUT_S, "their end offsets")

    def record_epochs(self) -> list[str]:
        """Call `record_final_epochs`."""
        return self._in_thread(self.record_final_epochs(), COLLECT_TIMEOUT_S, "their epochs")

    def _in_thread(
        self, asking: Coroutine[Any, Any, list[str]], within_s: float, what: str
    ) -> list[str]:
        """Run a coroutine in the monitor's own loop; return its answer, or why there is none."""
        if self._loop is None or not self._thread.is_alive():
            asking.close()
            failed = f" any more: {self._failure!r}" if self._failure is not None else ""
            return [f"the monitor is not running{failed}"]
        work = asyncio.run_coroutine_threadsafe(asking, self._loop)
        try:
            return work.result(within_s)
        except TimeoutError:
            work.cancel()
            return [f"the leaders did not report {what} within {within_s:.0f} s"]

    def _run(self) -> None:
        try:
            with self._enter_network():
                asyncio.run(self.watch(self._ready.set))
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()
