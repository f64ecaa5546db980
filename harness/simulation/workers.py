"""Processes that run seeds. They end when the process that began them ends, however it ended.

A signal that ends the command may arrive at any moment. It waits while a pool is made or starts a
process: between two of these steps the pool could not be ended in order.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context, parent_process
from types import FrameType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from harness.simulation import huge_pages

P = ParamSpec("P")
T = TypeVar("T")


class Workers(ProcessPoolExecutor):
    """A pool whose `with` block finishes what runs; after an error, nothing more begins. Processes
    that begin within the block have huge pages."""

    def __enter__(self) -> Self:
        """Enter the `with` block."""
        self._huge_pages = ExitStack()
        self._huge_pages.enter_context(huge_pages.for_new_processes())
        return self

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin a task when a process is free. SIGINT and SIGTERM take effect afterwards."""
        with _signals_held():
            return super().submit(fn, *args, **kwargs)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the tasks: for all of them, or after an error for those that have begun."""
        with self._huge_pages:
            self.shutdown(wait=True, cancel_futures=kind is not None)


def pool(jobs: int, *, tasks_each: int | None = None, ignore_interrupts: bool = False) -> Workers:
    """Return a pool of new processes, because an earlier run must not influence a run.

    A process is replaced after `tasks_each` tasks, if given. With `ignore_interrupts`, Ctrl-C
    reaches only the process that began them.
    """
    with _signals_held():
        return Workers(
            jobs,
            mp_context=get_context("spawn"),
            initializer=_begin,
            initargs=(ignore_interrupts,),
            max_tasks_per_child=tasks_each,
        )


@contextmanager
def _signals_held() -> Iterator[None]:
    """Let the handlers of SIGINT and SIGTERM run at the end of the block and not in it.

    Handlers run in the main thread, so that other threads have nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        held.append(number)

    try:
        with ExitStack() as restored:
            for number in (signal.SIGINT, signal.SIGTERM):
                handler: Any = signal.getsignal(number)
                if callable(handler):
                    restored.callback(signal.signal, number, handler)
                    signal.signal(number, hold)
            yield
    finally:
        for each in held:
            signal.raise_signal(each)


def _begin(ignore_interrupts: bool) -> None:
    """Begin a worker: it would wait for tasks for ever, because it holds its queue open itself."""
    if ignore_interrupts:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
