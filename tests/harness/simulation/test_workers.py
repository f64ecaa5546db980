"""Processes that run seeds end with the process that began them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from harness.simulation import workers

BOUND_S = 120
"""Far more than an end takes, on any machine."""
SEARCH = """
import os, time
from harness.simulation import workers

if __name__ == "__main__":
    with workers.pool(1, ignore_interrupts=True) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(3600)
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended may still be listed."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_killed_search(number: int, tmp_path: Path) -> None:
    """The worker waits for its next task."""
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        worker = int(ran.stdout.readline())
        assert alive(worker)
        ran.send_signal(number)
        ran.wait(BOUND_S)
    until_s = time.monotonic() + BOUND_S
    while alive(worker) and time.monotonic() < until_s:
        time.sleep(0.02)
    assert not alive(worker)


class _InterruptedPool(workers.Workers):
    """SIGTERM arrives when a process has been started and the pool's thread has not."""

    threads = 0

    def _start_executor_manager_thread(self) -> None:
        signal.raise_signal(signal.SIGTERM)
        super()._start_executor_manager_thread()  # type: ignore[misc]
        self.threads += 1


def test_signal_takes_effect_when_the_pool_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the pool can be ended in order; the handlers are as before."""
    monkeypatch.setattr(workers, "Workers", _InterruptedPool)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), workers.pool(1) as pool:
            pool.submit(os.getpid)
        assert isinstance(pool, _InterruptedPool)
        assert pool.threads == 1
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted_after(pool: workers.Workers, tasks: int) -> list[Future[None]]:
    with contextlib.suppress(KeyboardInterrupt), pool:
        futures = [pool.submit(time.sleep, 0.5) for _ in range(tasks)]
        raise KeyboardInterrupt
    return futures


def test_tasks_that_have_not_begun_are_cancelled_after_an_interrupt() -> None:
    """What runs is finished."""
    futures = _interrupted_after(workers.pool(1), 10)
    assert futures[-1].cancelled()
    assert all(each.done() for each in futures)
