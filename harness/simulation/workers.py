"""Processes that run seeds. They end when the process that began them ends, however it ended."""

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process


def pool(
    jobs: int, *, tasks_each: int | None = None, ignore_interrupts: bool = False
) -> ProcessPoolExecutor:
    """Return a pool of new processes, because an earlier run must not influence a run.

    A process is replaced after `tasks_each` tasks, if given. With `ignore_interrupts`, Ctrl-C
    reaches only the process that began them.
    """
    return ProcessPoolExecutor(
        jobs,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(ignore_interrupts,),
        max_tasks_per_child=tasks_each,
    )


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
