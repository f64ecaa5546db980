"""Processes that run seeds end with the process that began them."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
