"""`highwater zoo` as a process: how it ends."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

WITHIN_S = 120


def workers_of(pid: int) -> list[int]:
    """The children of a process, but for the one that only keeps count of what they share."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [each for task in tasks for each in (task / "children").read_text().split()]
    return [
        int(child)
        for child in children
        if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    until_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < until_s, "not in time"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_search_that_is_told_to_end_leaves_no_process(tmp_path: Path) -> None:
    """Neither those that work for it; by SIGTERM as by Ctrl-C."""
    name = "same_leader_skips_truncation"
    options = ("--worlds", "0", "--random", "1000", "--searches", "1", "--jobs", "1")
    command = (sys.executable, "-m", "harness.cli.main", "zoo", name, *options)
    with subprocess.Popen([*command, "--store", str(tmp_path)], stderr=subprocess.PIPE) as search:
        eventually(lambda: bool(workers_of(search.pid)))
        workers = workers_of(search.pid)
        search.send_signal(signal.SIGTERM)
        _, said = search.communicate(timeout=WITHIN_S)
    assert search.returncode != 0
    assert b"Traceback" not in said
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
